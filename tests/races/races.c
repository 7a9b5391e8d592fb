/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Small programs with a mistake in the order of what they do, each with a twin that is right. The checker has to find each
 * mistake, name its kind, and say nothing of the twin; on the simulated driver, and on a real one that is looked at.
 */
#include "gcuda-test.h"
#include "gcudasim.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIZE 4096
#define MIB2 (2u << 20)

/* What a race works with. Each runs in a process of its own. */
static CUstream s, t, u; /* non-blocking */
static CUcontext context;
static const char *program;
static gboolean right;

#define SIMULATOR(name) ((__typeof__ (&name)) gcuda_test_simulator_function (#name))
#define OK(call)        assert_cuda (call)

static CUstream
new_stream (unsigned int flags)
{
  CUstream stream;

  OK (RAW (cuStreamCreate) (&stream, flags));
  return stream;
}

static CUevent
new_event (void)
{
  CUevent event;

  OK (RAW (cuEventCreate) (&event, CU_EVENT_DISABLE_TIMING));
  return event;
}

static void
order (CUstream before, CUstream after)
{
  CUevent event = new_event ();

  OK (RAW (cuEventRecord) (event, before));
  OK (RAW (cuStreamWaitEvent) (after, event, 0));
}

static CUdeviceptr
allocate (CUstream stream)
{
  CUdeviceptr address;

  OK (RAW (cuMemAllocAsync) (&address, SIZE, stream));
  return address;
}

static CUdeviceptr
memory (void)
{
  CUdeviceptr address;

  OK (RAW (cuMemAlloc) (&address, SIZE));
  return address;
}

static void
set (CUdeviceptr address, CUstream stream)
{
  OK (RAW (cuMemsetD8Async) (address, 1, SIZE, stream));
}

static void
set_part (CUdeviceptr address, gsize size, CUstream stream)
{
  OK (RAW (cuMemsetD8Async) (address, 1, size, stream));
}

static void
copy (CUdeviceptr to, CUdeviceptr from, CUstream stream)
{
  OK (RAW (cuMemcpyDtoDAsync) (to, from, SIZE, stream));
}

static void
release (CUdeviceptr address, CUstream stream)
{
  OK (RAW (cuMemFreeAsync) (address, stream));
}

static void
wait_for (CUstream stream)
{
  OK (RAW (cuStreamSynchronize) (stream));
}

/* Where pages are not protected, the program says it. */
static void
host_touches (volatile guint8 *address, gsize size, gboolean writes)
{
  static volatile guint8 sum;

  if (!gcuda_test_is_simulated ())
    SIMULATOR (gcudasim_declare_host_access)
  ((const void *) address, size, writes, "host access");
  /* Nor are they while the driver itself is at work there. */
  if (gcuda_test_is_simulated ())
    gcuda_test_hold (NULL);
  for (gsize i = 0; i < size; i += 512)
    {
      if (writes)
        address[i] = 7;
      else
        sum += address[i];
    }
  if (gcuda_test_is_simulated ())
    gcuda_test_let_go ();
}

/* ---- allocation and free ---- */

static void
use_before_allocation (void)
{
  CUdeviceptr p = allocate (s);

  if (right)
    order (s, t);
  set (p, t);
}

static void
copy_before_allocation (void)
{
  CUdeviceptr p = allocate (s), q = memory ();

  if (right)
    wait_for (s);
  copy (p, q, t);
}

static void
free_before_allocation (void)
{
  CUdeviceptr p = allocate (s);

  if (right)
    order (s, t);
  release (p, t);
}

static void
free_before_write (void)
{
  CUdeviceptr p = allocate (s);

  order (s, t);
  set (p, t);
  if (right)
    order (t, s);
  release (p, s);
}

static void
free_before_read (void)
{
  CUdeviceptr p = allocate (s), q = memory ();

  set (p, s);
  order (s, t);
  copy (q, p, t);
  if (right)
    wait_for (t);
  release (p, s);
}

static void
free_with_an_old_event (void)
{
  CUdeviceptr p = allocate (s);
  CUevent event = new_event ();

  order (s, t);
  if (!right)
    OK (RAW (cuEventRecord) (event, t));
  set (p, t);
  if (right)
    OK (RAW (cuEventRecord) (event, t));
  OK (RAW (cuStreamWaitEvent) (s, event, 0));
  release (p, s);
}

static void
free_on_legacy (void)
{
  CUstream blocking = new_stream (CU_STREAM_DEFAULT);
  CUstream stream = right ? blocking : s;
  CUdeviceptr p = allocate (stream);

  set (p, stream);
  release (p, CU_STREAM_LEGACY);
}

static void
use_after_free (void)
{
  CUdeviceptr p = allocate (s);

  set (p, s);
  if (right)
    SIMULATOR (gcudasim_declare_access)
  (s, p, SIZE, TRUE, "kernel");
  release (p, s);
  if (!right)
    SIMULATOR (gcudasim_declare_access)
  (s, p, SIZE, TRUE, "kernel");
}

static void
use_after_free_elsewhere (void)
{
  CUdeviceptr p = allocate (s);

  release (p, s);
  if (!right)
    SIMULATOR (gcudasim_declare_access)
  (t, p, 64, FALSE, "kernel");
}

/* ---- two streams ---- */

static void
write_write (void)
{
  CUdeviceptr p = memory ();

  set (p, s);
  if (right)
    order (s, t);
  set (p, t);
}

static void
write_after_read (void)
{
  CUdeviceptr p = memory (), q = memory ();

  copy (q, p, s);
  if (right)
    order (s, t);
  set (p, t);
}

static void
read_after_write (void)
{
  CUdeviceptr p = memory (), q = memory ();

  set (p, s);
  if (right)
    order (s, t);
  copy (q, p, t);
}

static void
write_after_two_reads (void)
{
  CUdeviceptr p = memory (), q = memory (), r = memory ();

  set (p, s);
  order (s, t);
  copy (q, p, s);
  copy (r, p, t);
  order (s, u);
  if (right)
    order (t, u);
  set (p, u);
}

static void
overlapping_parts (void)
{
  CUdeviceptr p = memory ();

  set_part (p, SIZE / 2, s);
  set_part (p + (right ? SIZE / 2 : SIZE / 2 - 1), SIZE / 2, t);
}

static void
overlapping_columns (void)
{
  CUdeviceptr p = memory ();

  OK (RAW (cuMemsetD2D8Async) (p, 256, 1, 128, 16, s));
  OK (RAW (cuMemsetD2D8Async) (p + (right ? 128 : 127), 256, 1, 128, 16, t));
}

static void
overlapping_rows_of_a_copy (void)
{
  CUdeviceptr p = memory (), q = memory ();
  CUDA_MEMCPY2D params = { .srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = q, .srcPitch = 256, .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = p, .dstPitch = 256, .WidthInBytes = 64, .Height = 8, .dstY = right ? 8 : 7 };

  OK (RAW (cuMemsetD2D8Async) (p, 256, 1, 64, 8, s));
  OK (RAW (cuMemcpy2DAsync) (&params, t));
}

static void
overlapping_volumes (void)
{
  CUdeviceptr p = memory (), q = memory ();
  CUDA_MEMCPY3D params = { .srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = q, .srcPitch = 64, .srcHeight = 4, .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = p, .dstPitch = 64, .dstHeight = 4, .WidthInBytes = 64, .Height = 4, .Depth = 2 };

  OK (RAW (cuMemcpy3DAsync) (&params, s));
  set_part (p + (right ? 512 : 511), 64, t);
}

static void
one_of_many_events (void)
{
  CUdeviceptr p = memory ();

  set (p, s);
  order (right ? s : u, t);
  set (p, t);
}

static void
event_recorded_too_early (void)
{
  CUdeviceptr p = memory ();
  CUevent event = new_event ();

  if (!right)
    OK (RAW (cuEventRecord) (event, s));
  set (p, s);
  if (right)
    OK (RAW (cuEventRecord) (event, s));
  OK (RAW (cuStreamWaitEvent) (t, event, 0));
  set (p, t);
}

static void
event_recorded_again (void)
{
  CUdeviceptr p = memory ();
  CUevent event = new_event ();

  set (p, s);
  OK (RAW (cuEventRecord) (event, s));
  if (right)
    OK (RAW (cuStreamWaitEvent) (t, event, 0));
  OK (RAW (cuEventRecord) (event, u));
  if (!right)
    OK (RAW (cuStreamWaitEvent) (t, event, 0));
  set (p, t);
}

static void
event_never_recorded (void)
{
  CUdeviceptr p = memory ();
  CUevent event = new_event ();

  set (p, s);
  if (right)
    OK (RAW (cuEventRecord) (event, s));
  OK (RAW (cuStreamWaitEvent) (t, event, 0));
  set (p, t);
}

static void
wait_after_the_use (void)
{
  CUdeviceptr p = memory ();

  set (p, s);
  if (right)
    order (s, t);
  set (p, t);
  order (s, t);
}

static void
wait_is_no_two_way_street (void)
{
  CUdeviceptr p = memory ();

  order (s, t);
  set (p, t);
  if (right)
    order (t, s);
  set (p, s);
}

static void
synchronized_another_stream (void)
{
  CUdeviceptr p = memory ();

  set (p, s);
  wait_for (right ? s : u);
  set (p, t);
}

static void
event_synchronized_too_early (void)
{
  CUdeviceptr p = memory ();
  CUevent event = new_event ();

  if (!right)
    OK (RAW (cuEventRecord) (event, s));
  set (p, s);
  if (right)
    OK (RAW (cuEventRecord) (event, s));
  OK (RAW (cuEventSynchronize) (event));
  set (p, t);
}

static gint gate_open;

static void CUDA_CB
gate (void *data)
{
  (void) data;
  while (!g_atomic_int_get (&gate_open))
    g_usleep (100);
}

static void
query_without_success (void)
{
  CUdeviceptr p = memory ();

  OK (RAW (cuLaunchHostFunc) (s, gate, NULL));
  set (p, s);
  if (right)
    g_atomic_int_set (&gate_open, TRUE);
  while (RAW (cuStreamQuery) (s) != CUDA_SUCCESS && right)
    g_usleep (100);
  set (p, t);
  g_atomic_int_set (&gate_open, TRUE);
}

static gint told;

static void CUDA_CB
tell (void *data)
{
  gate (data);
  g_atomic_int_set (&told, TRUE);
}

static void
host_function_not_awaited (void)
{
  CUdeviceptr p = memory ();

  OK (RAW (cuLaunchHostFunc) (u, gate, NULL));
  order (u, s);
  set (p, s);
  OK (RAW (cuLaunchHostFunc) (s, tell, NULL));
  if (right)
    {
      g_atomic_int_set (&gate_open, TRUE);
      RAW (cuStreamQuery)
      (s);
      RAW (cuStreamQuery)
      (s);
      while (!g_atomic_int_get (&told))
        g_usleep (100);
    }
  set (p, t);
  g_atomic_int_set (&gate_open, TRUE);
}

/* ---- default streams ---- */

static void
legacy_and_non_blocking (void)
{
  CUstream stream = right ? new_stream (CU_STREAM_DEFAULT) : s;
  CUdeviceptr p = memory ();

  set (p, CU_STREAM_LEGACY);
  set (p, stream);
}

static void
non_blocking_and_legacy (void)
{
  CUstream stream = right ? new_stream (CU_STREAM_DEFAULT) : s;
  CUdeviceptr p = memory ();

  set (p, stream);
  set (p, CU_STREAM_LEGACY);
}

static void
per_thread_and_non_blocking (void)
{
  CUdeviceptr p = memory ();

  set (p, CU_STREAM_PER_THREAD);
  set (p, right ? CU_STREAM_LEGACY : s);
}

static gpointer
set_in_thread (gpointer data)
{
  OK (RAW (cuCtxPushCurrent) (context));
  set (*(CUdeviceptr *) data, CU_STREAM_PER_THREAD);
  return NULL;
}

static void
per_thread_streams_of_two_threads (void)
{
  CUdeviceptr p = memory ();
  GThread *thread = g_thread_new ("sets", set_in_thread, &p);

  g_thread_join (thread);
  set (p, right ? CU_STREAM_LEGACY : CU_STREAM_PER_THREAD);
  wait_for (right ? CU_STREAM_LEGACY : CU_STREAM_PER_THREAD);
}

static void
blocking_streams_are_not_ordered (void)
{
  CUstream a = new_stream (CU_STREAM_DEFAULT), b = new_stream (CU_STREAM_DEFAULT);
  CUdeviceptr p = memory (), q = memory ();

  set (p, a);
  if (right)
    set (q, CU_STREAM_LEGACY);
  set (p, b);
}

static void
synchronous_upload_has_not_arrived (void)
{
  static guint8 bytes[SIZE];
  CUdeviceptr p = memory (), q = memory ();

  OK (RAW (cuMemcpyHtoD) (p, bytes, SIZE));
  if (right)
    wait_for (CU_STREAM_LEGACY);
  copy (q, p, s);
}

static void
synchronous_memset_is_not_awaited (void)
{
  CUdeviceptr p = memory (), q = memory ();

  OK (RAW (cuMemsetD8) (p, 1, SIZE));
  if (right)
    OK (RAW (cuCtxSynchronize) ());
  copy (q, p, s);
}

static void
another_context_synchronized (void)
{
  CUdeviceptr p = memory ();
  CUcontext other, popped;

  /* Of the version that the test asks for, whatever the headers are. */
  OK (((CUresult (*) (CUcontext *, void *, int, unsigned int, CUdevice)) gcuda_test_driver_function ("cuCtxCreate")) (&other, NULL, 0, 0, 0));
  OK (RAW (cuCtxPopCurrent) (&popped));
  set (p, s);
  OK (RAW (cuCtxPushCurrent) (right ? context : other));
  OK (RAW (cuCtxSynchronize) ());
  OK (RAW (cuCtxPopCurrent) (&popped));
  set (p, t);
}

/* ---- other ways to write ---- */

static void
second_of_two_copies (void)
{
  CUdeviceptr p = memory (), q = memory (), r = memory ();
  CUdeviceptr to[] = { q, right ? r : p }, from[] = { r, q };
  gsize sizes[] = { SIZE, SIZE };

  set (p, s);
  for (guint i = 0; i < 2; i++)
    OK (RAW (cuMemcpyAsync) (to[i], from[i], sizes[i], t));
}

static void
write_value (void)
{
  CUdeviceptr p = memory ();

  set (p, s);
  if (right)
    order (s, t);
  OK (RAW (cuStreamWriteValue32) (t, p + 8, 1, 0));
}

static void
download_of_what_is_written (void)
{
  static guint8 bytes[SIZE];
  CUdeviceptr p = memory ();

  set (p, s);
  if (right)
    order (s, t);
  OK (RAW (cuMemcpyDtoHAsync) (bytes, p, SIZE, t));
}

static void
copy_between_devices (void)
{
  CUdeviceptr p = memory (), q;
  CUcontext other = NULL, popped;
  CUstream there;
  int n = 0;

  OK (RAW (cuDeviceGetCount) (&n));
  OK (RAW (cuDevicePrimaryCtxRetain) (&other, n > 1 ? 1 : 0));
  OK (RAW (cuCtxPushCurrent) (other));
  there = new_stream (CU_STREAM_NON_BLOCKING);
  q = memory ();
  OK (RAW (cuCtxPopCurrent) (&popped));
  OK (RAW (cuMemcpyPeerAsync) (q, other, p, context, SIZE, s));
  if (right)
    order (s, there);
  set (q, there);
}

/* ---- graphs ---- */

static CUgraphExec
instantiate (CUgraph graph)
{
  CUgraphExec exec;

  OK (RAW (cuGraphInstantiateWithFlags) (&exec, graph, 0));
  return exec;
}

static CUgraph
captured_set (CUdeviceptr p)
{
  CUgraph graph;

  OK (RAW (cuStreamBeginCapture) (u, CU_STREAM_CAPTURE_MODE_RELAXED));
  set (p, u);
  OK (RAW (cuStreamEndCapture) (u, &graph));
  return graph;
}

static void
launch_and_stream (void)
{
  CUdeviceptr p = memory ();
  CUgraphExec exec = instantiate (captured_set (p));

  OK (RAW (cuGraphLaunch) (exec, s));
  if (right)
    order (s, t);
  set (p, t);
}

static void
two_graphs (void)
{
  CUdeviceptr p = memory ();
  CUgraph graph = captured_set (p);
  CUgraphExec first = instantiate (graph), second = instantiate (graph);

  OK (RAW (cuGraphLaunch) (first, s));
  /* A graph waits for its own last launch. */
  OK (RAW (cuGraphLaunch) (right ? first : second, t));
}

static void
branches_of_a_capture (void)
{
  CUdeviceptr p = memory ();
  CUgraph graph;

  OK (RAW (cuStreamBeginCapture) (s, CU_STREAM_CAPTURE_MODE_RELAXED));
  order (s, t);
  set_part (p, SIZE / 2, s);
  set_part (p + (right ? SIZE / 2 : 0), SIZE / 2, t);
  order (t, s);
  OK (RAW (cuStreamEndCapture) (s, &graph));
  OK (RAW (cuGraphLaunch) (instantiate (graph), u));
}

static void
nodes_without_an_edge (void)
{
  CUDA_MEMSET_NODE_PARAMS params = { .dst = memory (), .elementSize = 1, .width = SIZE, .height = 1, .pitch = SIZE };
  CUgraphNode first, second;
  CUgraph graph;

  OK (RAW (cuGraphCreate) (&graph, 0));
  OK (RAW (cuGraphAddMemsetNode) (&first, graph, NULL, 0, &params, context));
  OK (RAW (cuGraphAddMemsetNode) (&second, graph, &first, right ? 1 : 0, &params, context));
  OK (RAW (cuGraphLaunch) (instantiate (graph), s));
}

static void
memory_of_a_graph (void)
{
  CUDA_MEM_ALLOC_NODE_PARAMS params;
  CUgraphNode node;
  CUgraph graph;

  memset (&params, 0, sizeof params);
  params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  params.bytesize = SIZE;
  OK (RAW (cuGraphCreate) (&graph, 0));
  OK (RAW (cuGraphAddMemAllocNode) (&node, graph, NULL, 0, &params));
  OK (RAW (cuGraphLaunch) (instantiate (graph), s));
  if (right)
    order (s, t);
  set (params.dptr, t);
  if (right)
    release (params.dptr, t);
}

static void
memory_of_a_graph_freed (void)
{
  CUDA_MEM_ALLOC_NODE_PARAMS params;
  CUDA_MEMSET_NODE_PARAMS fill = { .elementSize = 1, .width = SIZE, .height = 1, .pitch = SIZE };
  CUgraphNode node, filled;
  CUgraph graph;

  memset (&params, 0, sizeof params);
  params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  params.bytesize = SIZE;
  OK (RAW (cuGraphCreate) (&graph, 0));
  OK (RAW (cuGraphAddMemAllocNode) (&node, graph, NULL, 0, &params));
  fill.dst = params.dptr;
  OK (RAW (cuGraphAddMemsetNode) (&filled, graph, &node, 1, &fill, context));
  OK (RAW (cuGraphLaunch) (instantiate (graph), s));
  release (params.dptr, right ? s : t);
}

static void
kernel_in_a_capture (void)
{
  CUdeviceptr p = memory (), q = memory ();
  CUgraph graph;

  OK (RAW (cuStreamBeginCapture) (u, CU_STREAM_CAPTURE_MODE_RELAXED));
  set (q, u); /* stands for the kernel's node */
  SIMULATOR (gcudasim_declare_access)
  (u, p, SIZE, TRUE, "kernel");
  OK (RAW (cuStreamEndCapture) (u, &graph));
  OK (RAW (cuGraphLaunch) (instantiate (graph), s));
  if (right)
    wait_for (s);
  set (p, t);
}

/* ---- host memory ---- */

static guint8 *
pinned (void)
{
  void *address;

  OK (RAW (cuMemAllocHost) (&address, SIZE));
  memset (address, 0, SIZE);
  return address;
}

static void
upload_source_changed (void)
{
  guint8 *host = pinned ();
  CUdeviceptr p = memory ();

  OK (RAW (cuMemcpyHtoDAsync) (p, host, SIZE, s));
  if (right)
    wait_for (s);
  host_touches (host, SIZE, TRUE);
}

static void
download_read_too_early (void)
{
  guint8 *host = pinned ();
  CUdeviceptr p = memory ();

  OK (RAW (cuMemcpyDtoHAsync) (host, p, SIZE, s));
  if (right)
    wait_for (s);
  host_touches (host, SIZE, FALSE);
}

static void
mapped_memory_read_too_early (void)
{
  guint8 *host = pinned ();
  CUdeviceptr p;

  OK (RAW (cuMemHostGetDevicePointer) (&p, host, 0));
  set (p, s);
  if (right)
    wait_for (s);
  host_touches (host, SIZE, FALSE);
}

static void
managed_memory_read_too_early (void)
{
  CUdeviceptr p;

  OK (RAW (cuMemAllocManaged) (&p, SIZE, CU_MEM_ATTACH_GLOBAL));
  set (p, s);
  if (right)
    wait_for (s);
  host_touches ((guint8 *) p, SIZE, FALSE);
}

static void
registered_memory_written_too_early (void)
{
  guint8 *host = mmap (NULL, 4 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CUdeviceptr p = memory ();

  memset (host, 0, 4 * SIZE);
  OK (RAW (cuMemHostRegister) (host, 4 * SIZE, 0));
  OK (RAW (cuMemcpyDtoHAsync) (host, p, SIZE, s));
  if (right)
    wait_for (s);
  host_touches (host, SIZE, TRUE);
}

/* Of a pool of the host's, or of managed memory, in the order of a stream. */
static CUdeviceptr
allocate_from (CUmemAllocationType type, CUmemLocationType where, gsize size, CUstream stream)
{
  CUmemPoolProps props = { 0 };
  CUmemAccessDesc access = { 0 };
  CUmemoryPool pool;
  CUdeviceptr address;

  props.allocType = type;
  props.location.type = where;
  OK (RAW (cuMemPoolCreate) (&pool, &props));
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  if (where == CU_MEM_LOCATION_TYPE_HOST)
    OK (RAW (cuMemPoolSetAccess) (pool, &access, 1));
  OK (RAW (cuMemAllocFromPoolAsync) (&address, size, pool, stream));
  return address;
}

#define HOST_POOL    CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_HOST
#define MANAGED_POOL (CUmemAllocationType) 2, (CUmemLocationType) 0

static void
host_pool_memory_used_too_early (void)
{
  CUdeviceptr p = allocate_from (HOST_POOL, SIZE, s);

  if (right)
    wait_for (s);
  host_touches ((guint8 *) p, SIZE, TRUE);
}

static void
host_pool_memory_read_too_early (void)
{
  CUdeviceptr p = allocate_from (HOST_POOL, SIZE, s);

  set (p, s);
  if (right)
    wait_for (s);
  host_touches ((guint8 *) p, SIZE, FALSE);
}

static void
host_pool_source_changed (void)
{
  CUdeviceptr p = allocate_from (HOST_POOL, SIZE, s), q = memory ();

  wait_for (s);
  OK (RAW (cuMemcpyHtoDAsync) (q, (const void *) p, SIZE, s));
  if (right)
    wait_for (s);
  host_touches ((guint8 *) p, SIZE, TRUE);
}

static void
host_pool_memory_freed (void)
{
  CUdeviceptr p = allocate_from (HOST_POOL, SIZE, s), q = memory ();

  order (s, t);
  OK (RAW (cuMemcpyHtoDAsync) (q, (const void *) p, SIZE, t));
  if (right)
    order (t, s);
  release (p, s);
}

static void
managed_pool_memory_written_too_early (void)
{
  CUdeviceptr p = allocate_from (MANAGED_POOL, SIZE, s);

  set (p, s);
  if (right)
    wait_for (s);
  host_touches ((guint8 *) p, SIZE, TRUE);
}

static void
prefetch (CUdeviceptr p, gsize size, CUstream stream)
{
  CUresult (*function) (CUdeviceptr, size_t, CUdevice, CUstream) = gcuda_test_driver_function ("cuMemPrefetchAsync");

  OK (function (p, size, 0, stream));
}

/* A prefetch is no access: it may happen while others are at the memory, but the memory has to be there. */
static void
prefetched_meanwhile (void)
{
  CUdeviceptr p;

  OK (RAW (cuMemAllocManaged) (&p, SIZE, CU_MEM_ATTACH_GLOBAL));
  set (p, s);
  prefetch (p, SIZE, t);
  if (!right)
    set (p, t);
}

static void
prefetched_before_allocation (void)
{
  CUdeviceptr p = allocate_from (MANAGED_POOL, SIZE, s);

  if (right)
    order (s, t);
  prefetch (p, SIZE, t);
}

static void
prefetched_memory_freed (void)
{
  CUdeviceptr p = allocate_from (MANAGED_POOL, SIZE, s);

  order (s, t);
  prefetch (p, SIZE, t);
  if (right)
    order (t, s);
  release (p, s);
}

#if CUDA_VERSION >= 13000
/* What it held is gone, and whoever reads it has to come before. */
static void
discarded_while_read (void)
{
  CUresult (*get) (const char *, void **, int, cuuint64_t, void *) = NULL;
  CUresult (*discard) (CUdeviceptr *, size_t *, size_t, unsigned long long, CUstream) = NULL;
  CUdeviceptr p, q = memory ();
  size_t size = SIZE;
  int status;

  get = gcuda_test_driver_function ("cuGetProcAddress");
  OK (get ("cuMemDiscardBatchAsync", (void **) &discard, 13000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status));
  OK (RAW (cuMemAllocManaged) (&p, SIZE, CU_MEM_ATTACH_GLOBAL));
  set (p, s);
  wait_for (s);
  copy (q, p, s);
  if (right)
    order (s, t);
  OK (discard (&p, &size, 1, 0, t));
}
#endif

static void
declared_host_access (void)
{
  guint8 *host = pinned ();
  CUdeviceptr p = memory ();

  OK (RAW (cuMemcpyHtoDAsync) (p, host, SIZE, s));
  /* Reading what is read is no mistake. */
  SIMULATOR (gcudasim_declare_host_access)
  (host, SIZE, !right, "a codec");
}

static void
two_streams_on_host_memory (void)
{
  guint8 *host = pinned ();
  CUdeviceptr p = memory (), q = memory ();

  OK (RAW (cuMemcpyDtoHAsync) (host, p, SIZE, s));
  if (right)
    order (s, t);
  OK (RAW (cuMemcpyHtoDAsync) (q, host, SIZE, t));
}

/* ---- virtual memory ---- */

static CUmemGenericAllocationHandle
chunk (gboolean exportable)
{
  CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location.type = CU_MEM_LOCATION_TYPE_DEVICE };
  CUmemGenericAllocationHandle handle;

  if (exportable)
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  OK (RAW (cuMemCreate) (&handle, MIB2, &prop, 0));
  return handle;
}

static CUdeviceptr
map (CUmemGenericAllocationHandle handle)
{
  CUmemAccessDesc access = { .location.type = CU_MEM_LOCATION_TYPE_DEVICE, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
  CUdeviceptr address;

  OK (RAW (cuMemAddressReserve) (&address, MIB2, 0, 0, 0));
  OK (RAW (cuMemMap) (address, MIB2, 0, handle, 0));
  OK (RAW (cuMemSetAccess) (address, MIB2, &access, 1));
  return address;
}

static void
two_addresses (void)
{
  CUmemGenericAllocationHandle handle = chunk (FALSE);
  CUdeviceptr p = map (handle), q = map (handle);

  set (p, s);
  set (q + (right ? SIZE : 0), t);
}

static void
two_addresses_read (void)
{
  CUmemGenericAllocationHandle handle = chunk (FALSE);
  CUdeviceptr p = map (handle), q = map (handle), r = memory ();

  set (p, s);
  if (right)
    wait_for (s);
  copy (r, q, t);
}

static void
unmapped_too_early (void)
{
  CUdeviceptr p = map (chunk (FALSE));

  if (!right)
    OK (RAW (cuLaunchHostFunc) (u, gate, NULL));
  set (p, s);
  if (right)
    wait_for (s);
  OK (RAW (cuMemUnmap) (p, MIB2));
  g_atomic_int_set (&gate_open, TRUE);
}

static void
unmapped_the_other_address (void)
{
  CUmemGenericAllocationHandle handle = chunk (FALSE);
  CUdeviceptr p = map (handle), q = map (handle);

  set (p, s);
  OK (RAW (cuMemUnmap) (right ? q : p, MIB2));
}

/* ---- a pool of the program's own ---- */

static void
pool_hands_out_too_early (void)
{
  CUdeviceptr p = memory ();

  SIMULATOR (gcudasim_declare_allocation)
  (s, p, 1024, "pool allocation");
  set_part (p, 1024, s);
  SIMULATOR (gcudasim_declare_free)
  (s, p, 1024, "pool free");
  if (right)
    order (s, t);
  SIMULATOR (gcudasim_declare_allocation)
  (t, p, 1024, "pool allocation");
  set_part (p, 1024, t);
}

static void
pool_memory_used_after_free (void)
{
  CUdeviceptr p = memory ();

  SIMULATOR (gcudasim_declare_allocation)
  (s, p, 1024, "pool allocation");
  SIMULATOR (gcudasim_declare_free)
  (s, p, 1024, "pool free");
  set_part (p + (right ? 1024 : 1023), 64, s);
}

static void
pool_memory_freed_too_early (void)
{
  CUdeviceptr p = memory ();

  SIMULATOR (gcudasim_declare_allocation)
  (s, p, 1024, "pool allocation");
  order (s, t);
  set_part (p, 1024, t);
  if (right)
    order (t, s);
  SIMULATOR (gcudasim_declare_free)
  (s, p, 1024, "pool free");
}

/* ---- through the library ---- */

static GCudaDevice *device;
static GCudaStream *one, *two;
static GCudaBuffer *
new_buffer (GCudaStream *stream)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaDeviceMemoryResource) pool = NULL;
  GCudaBuffer *buffer;

  device = gcuda_device_new (0, &error);
  g_assert_no_error (error);
  one = gcuda_stream_new_for_device (device, &error);
  g_assert_no_error (error);
  two = gcuda_stream_new_for_device (device, &error);
  g_assert_no_error (error);
  pool = gcuda_device_memory_resource_new (device, &error);
  g_assert_no_error (error);
  buffer = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (pool), SIZE, stream != NULL ? stream : one, &error);
  g_assert_no_error (error);
  return buffer;
}

static void
deallocation_stream_replaced (void)
{
  GCudaBuffer *buffer = new_buffer (NULL);

  g_assert_true (gcuda_buffer_fill (buffer, 1, 1, one, NULL));
  g_assert_true (gcuda_buffer_set_deallocation_stream (buffer, two, NULL));
  if (right)
    g_assert_true (gcuda_stream_wait_stream (two, one, NULL));
  g_object_unref (buffer);
}

static void
closed_on_another_stream (void)
{
  GCudaBuffer *buffer = new_buffer (NULL);

  g_assert_true (gcuda_buffer_fill (buffer, 1, 1, one, NULL));
  g_assert_true (gcuda_buffer_close (buffer, right ? one : two, NULL));
}

static void
kernel_on_another_stream (void)
{
  g_autoptr (GError) error = NULL;
  GCudaBuffer *buffer = new_buffer (NULL);

  g_assert_true (gcuda_buffer_fill (buffer, 1, 1, one, NULL));
  if (right)
    g_assert_true (gcuda_stream_wait_stream (two, one, NULL));
  g_assert_true (gcuda_stream_declare_access (two, buffer, 0, SIZE, GCUDA_ACCESS_FLAGS_READ, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_stream_wait_stream (one, two, NULL));
  g_object_unref (buffer);
}

static void
kernel_writes_what_a_copy_reads (void)
{
  g_autoptr (GError) error = NULL;
  GCudaBuffer *buffer = new_buffer (NULL);
  CUdeviceptr q = memory ();

  copy (q, gcuda_buffer_get_address (buffer), gcuda_stream_get_cuda_stream (one));
  g_assert_true (gcuda_stream_wait_stream (two, one, NULL));
  copy (q, gcuda_buffer_get_address (buffer), gcuda_stream_get_cuda_stream (two));
  /* A kernel that only reads may run beside that. */
  g_assert_true (gcuda_stream_declare_access (one, buffer, 0, SIZE, right ? GCUDA_ACCESS_FLAGS_READ : GCUDA_ACCESS_FLAGS_WRITE, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_stream_wait_stream (one, two, NULL));
  g_object_unref (buffer);
}

static void
view_on_another_stream (void)
{
  GCudaBuffer *buffer = new_buffer (NULL);
  GCudaBuffer *view = gcuda_buffer_new_view (buffer, SIZE / 2, SIZE / 2, NULL);

  g_assert_true (gcuda_stream_wait_stream (two, one, NULL));
  g_assert_true (gcuda_buffer_fill_range (buffer, 0, right ? SIZE / 2 : SIZE, 1, 1, one, NULL));
  g_assert_true (gcuda_buffer_fill (view, 2, 1, two, NULL));
  g_assert_true (gcuda_stream_wait_stream (one, two, NULL));
  g_object_unref (view);
  g_object_unref (buffer);
}

/* ---- events, many and odd ---- */

static void
event_in_a_loop (void)
{
  CUdeviceptr p = memory ();
  CUevent event = new_event ();

  for (guint i = 0; i < 20; i++)
    {
      set (p, s);
      OK (RAW (cuEventRecord) (event, s));
      OK (RAW (cuStreamWaitEvent) (t, event, 0));
      set (p, t);
      OK (RAW (cuEventRecord) (event, t));
      if (right)
        OK (RAW (cuStreamWaitEvent) (s, event, 0));
    }
}

static void
chain_of_streams (void)
{
  CUdeviceptr p = memory ();
  CUstream last = s;

  for (guint i = 0; i < 30; i++)
    {
      CUstream next = new_stream (i % 2 == 0 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);

      set (p, last);
      order (right || i != 17 ? last : t, next);
      last = next;
    }
  set (p, last);
}

static void
diamond (void)
{
  CUdeviceptr p = memory ();

  set (p, s);
  order (s, t);
  order (s, u);
  set_part (p, SIZE / 2, t);
  set_part (p + SIZE / 2, SIZE / 2, u);
  order (t, s);
  if (right)
    order (u, s);
  set (p, s);
}

static void
event_destroyed_after_the_wait (void)
{
  CUdeviceptr p = memory ();
  CUevent event = new_event ();

  set (p, s);
  OK (RAW (cuEventRecord) (event, s));
  if (right)
    OK (RAW (cuStreamWaitEvent) (t, event, 0));
  OK (RAW (cuEventDestroy) (event));
  if (!right)
    OK (RAW (cuStreamWaitEvent) (t, new_event (), 0));
  set (p, t);
}

static void
last_of_many_events (void)
{
  CUdeviceptr p = memory ();
  CUevent events[3000];

  for (guint i = 0; i < G_N_ELEMENTS (events); i++)
    {
      events[i] = new_event ();
      set_part (p + i, 1, s);
      OK (RAW (cuEventRecord) (events[i], s));
    }
  OK (RAW (cuStreamWaitEvent) (t, events[G_N_ELEMENTS (events) - (right ? 1 : 2)], 0));
  set (p, t);
}

/* ---- streams that end ---- */

static void
destroyed_stream_then_context_synchronized (void)
{
  CUstream stream = new_stream (CU_STREAM_NON_BLOCKING);
  CUdeviceptr p = memory ();

  set (p, stream);
  OK (RAW (cuStreamDestroy) (stream));
  if (right)
    OK (RAW (cuCtxSynchronize) ());
  set (p, t);
}

static void
destroyed_stream_then_freed (void)
{
  CUstream stream = new_stream (CU_STREAM_NON_BLOCKING);
  CUdeviceptr p = allocate (s);

  order (s, stream);
  set (p, stream);
  OK (RAW (cuStreamDestroy) (stream));
  if (right)
    OK (RAW (cuMemFree) (p));
  else
    release (p, s);
}

static void
destroyed_blocking_stream_then_legacy (void)
{
  CUstream stream = new_stream (right ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING);
  CUdeviceptr p = memory ();

  set (p, stream);
  OK (RAW (cuStreamDestroy) (stream));
  set (p, CU_STREAM_LEGACY);
}

static void
stream_made_again (void)
{
  CUdeviceptr p = memory ();

  for (guint i = 0; i < 10; i++)
    {
      CUstream stream = new_stream (CU_STREAM_NON_BLOCKING);

      set (p, stream);
      if (right)
        wait_for (stream);
      OK (RAW (cuStreamDestroy) (stream));
    }
}

static void
many_streams (void)
{
  CUdeviceptr p = memory ();

  for (guint i = 0; i < 500; i++)
    {
      CUstream stream = new_stream (i % 2 == 0 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);

      set_part (p + i, 1, stream);
      if (right || i != 321)
        order (stream, t);
    }
  set (p, t);
}

/* ---- contexts ---- */

static CUcontext
another_context (void)
{
  CUcontext other;

  OK (((CUresult (*) (CUcontext *, void *, int, unsigned int, CUdevice)) gcuda_test_driver_function ("cuCtxCreate")) (&other, NULL, 0, 0, 0));
  return other;
}

/* To ask the legacy stream is not to queue something there. */
static void
question_to_legacy (void)
{
  CUstream a = new_stream (CU_STREAM_DEFAULT), b = new_stream (CU_STREAM_DEFAULT);
  CUdeviceptr p = memory (), q = memory ();

  OK (RAW (cuLaunchHostFunc) (a, gate, NULL));
  set (p, a);
  g_assert_cmpint (RAW (cuStreamQuery) (CU_STREAM_LEGACY), ==, CUDA_ERROR_NOT_READY);
  if (right)
    set (q, CU_STREAM_LEGACY);
  set (p, b);
  g_atomic_int_set (&gate_open, TRUE);
}

static void
context_reset (void)
{
  CUdeviceptr p = memory ();

  set (p, s);
  OK (RAW (cuDevicePrimaryCtxReset) (0));
  OK (RAW (cuDevicePrimaryCtxRetain) (&context, 0));
  OK (RAW (cuCtxSetCurrent) (context));
  s = new_stream (CU_STREAM_NON_BLOCKING);
  t = new_stream (CU_STREAM_NON_BLOCKING);
  p = memory ();
  set (p, s);
  if (right)
    order (s, t);
  set (p, t);
}

static void
legacy_streams_of_two_contexts (void)
{
  CUdeviceptr p = memory ();
  CUevent event = new_event ();

  set (p, CU_STREAM_LEGACY);
  OK (RAW (cuEventRecord) (event, CU_STREAM_LEGACY));
  another_context ();
  if (right)
    OK (RAW (cuStreamWaitEvent) (CU_STREAM_LEGACY, event, 0));
  set (p, CU_STREAM_LEGACY);
}

static void
legacy_orders_its_own_context_only (void)
{
  CUstream stream = new_stream (CU_STREAM_DEFAULT);
  CUdeviceptr p = memory ();

  set (p, stream);
  if (!right)
    another_context ();
  set (p, CU_STREAM_LEGACY);
}

/* ---- threads and their streams ---- */

static void
per_thread_stream_of_a_thread_that_ended (void)
{
  CUdeviceptr p = memory ();

  for (guint i = 0; i < 3; i++)
    {
      g_thread_join (g_thread_new ("sets", set_in_thread, &p));
      if (right)
        OK (RAW (cuCtxSynchronize) ());
    }
  set (p, s);
}

static void
legacy_between_two_threads (void)
{
  CUdeviceptr p = memory (), q = memory ();

  g_thread_join (g_thread_new ("sets", set_in_thread, &p));
  if (right)
    set (q, CU_STREAM_LEGACY);
  g_thread_join (g_thread_new ("sets", set_in_thread, &p));
}

static gpointer
use_own_memory (gpointer data)
{
  CUstream stream;
  CUdeviceptr p;

  OK (RAW (cuCtxPushCurrent) (context));
  stream = new_stream (CU_STREAM_NON_BLOCKING);
  for (guint i = 0; i < 50; i++)
    {
      p = allocate (stream);
      set (p, stream);
      if (!right)
        set (*(CUdeviceptr *) data, stream);
      release (p, stream);
      if (i % 10 == 9)
        wait_for (stream);
    }
  OK (RAW (cuStreamDestroy) (stream));
  return NULL;
}

static void
many_threads (void)
{
  CUdeviceptr p = memory ();
  GThread *threads[8];

  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    threads[i] = g_thread_new ("uses", use_own_memory, &p);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    g_thread_join (threads[i]);
}

/* ---- legacy, in odd company ---- */

static void
event_on_legacy (void)
{
  CUstream stream = new_stream (right ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING);
  CUdeviceptr p = memory ();

  set (p, stream);
  order (CU_STREAM_LEGACY, s);
  set (p, s);
}

static void
legacy_after_what_a_blocking_stream_waits_for (void)
{
  CUstream stream = new_stream (right ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING);
  CUdeviceptr p = memory ();

  set (p, s);
  order (s, stream);
  set (p, CU_STREAM_LEGACY);
}

static void
stream_made_after_legacy (void)
{
  CUdeviceptr p = memory ();

  set (p, CU_STREAM_LEGACY);
  set (p, new_stream (right ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
}

static void
download_waits_for_legacy (void)
{
  static guint8 bytes[SIZE];
  CUdeviceptr p = memory (), q = memory ();

  set (p, CU_STREAM_LEGACY);
  if (right)
    OK (RAW (cuMemcpyDtoH) (bytes, q, SIZE));
  else
    OK (RAW (cuMemcpyDtoD) (q, p, SIZE));
  set (p, s);
}

/* ---- memory that comes and goes ---- */

static void
unregistered_memory (void)
{
  guint8 *host = mmap (NULL, 4 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CUdeviceptr p = memory ();

  memset (host, 0, 4 * SIZE);
  for (guint i = 0; i < 3; i++)
    {
      OK (RAW (cuMemHostRegister) (host, 4 * SIZE, 0));
      OK (RAW (cuMemcpyHtoDAsync) (p, host, SIZE, s));
      if (!right)
        host_touches (host, SIZE, TRUE);
      OK (RAW (cuMemHostUnregister) (host));
      OK (RAW (cuMemcpyHtoDAsync) (p, host, SIZE, s));
      memset (host, 1, SIZE);
    }
}

static void
pinned_memory_freed (void)
{
  CUdeviceptr p = memory ();
  guint8 *host = pinned (), *again;

  OK (RAW (cuMemcpyHtoDAsync) (p, host, SIZE, s));
  if (!right)
    host_touches (host, SIZE, TRUE);
  OK (RAW (cuMemFreeHost) (host));
  again = mmap (host, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  g_assert_true (again != MAP_FAILED);
  memset (again, 1, SIZE);
  OK (RAW (cuMemcpyHtoDAsync) (p, again, SIZE, s));
  memset (again, 2, SIZE);
}

/* The kernel may not be kept from the half that no stream works on. */
static void
halves_of_pinned_memory (void)
{
  CUdeviceptr p = memory ();
  guint8 *host = pinned ();
  int fd = open ("/dev/zero", O_RDONLY);

  OK (RAW (cuMemcpyDtoHAsync) (host, p, SIZE / 2, s));
  g_assert_cmpint (read (fd, host + SIZE / 2, SIZE / 2), ==, SIZE / 2);
  host_touches (host + SIZE / 2, SIZE / 2, TRUE);
  close (fd);
  OK (RAW (cuMemcpyDtoHAsync) (host, p, SIZE, s));
  if (right)
    wait_for (s);
  host_touches (host + SIZE / 2, SIZE / 2, TRUE);
}

static void
pool_destroyed_before_its_memory (void)
{
  CUmemPoolProps props;
  CUmemoryPool pool;
  CUdeviceptr p;

  memset (&props, 0, sizeof props);
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  OK (RAW (cuMemPoolCreate) (&pool, &props));
  OK (RAW (cuMemAllocFromPoolAsync) (&p, SIZE, pool, s));
  OK (RAW (cuMemPoolDestroy) (pool));
  set (p, s);
  release (p, right ? s : t);
}

static void
memory_of_the_pool_again (void)
{
  for (guint i = 0; i < 50; i++)
    {
      CUstream stream = i % 3 == 0 ? s : i % 3 == 1 ? t
                                                    : u;
      CUdeviceptr p = allocate (stream);

      set (p, stream);
      release (p, right || i != 40 ? stream : CU_STREAM_LEGACY);
    }
}

static void
use_after_many_frees (void)
{
  CUdeviceptr p = 0;

  for (guint i = 0; i < 5000; i++)
    {
      p = allocate (s);
      release (p, s);
    }
  if (!right)
    SIMULATOR (gcudasim_declare_access)
  (s, p, SIZE, TRUE, "kernel");
}

static void
chunk_mapped_elsewhere (void)
{
  CUmemGenericAllocationHandle handle = chunk (FALSE);
  CUdeviceptr p = map (handle), q;

  set (p, s);
  wait_for (s);
  OK (RAW (cuMemUnmap) (p, MIB2));
  q = map (handle);
  set (q, s);
  if (right)
    order (s, t);
  set (q, t);
}

static void
two_chunks_as_one (void)
{
  CUmemAccessDesc access = { .location.type = CU_MEM_LOCATION_TYPE_DEVICE, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
  CUdeviceptr p;

  OK (RAW (cuMemAddressReserve) (&p, 2 * MIB2, 0, 0, 0));
  OK (RAW (cuMemMap) (p, MIB2, 0, chunk (FALSE), 0));
  OK (RAW (cuMemMap) (p + MIB2, MIB2, 0, chunk (FALSE), 0));
  OK (RAW (cuMemSetAccess) (p, 2 * MIB2, &access, 1));
  OK (RAW (cuMemsetD8Async) (p + MIB2 - SIZE, 1, 2 * SIZE, s));
  if (right)
    order (s, t);
  set (p + MIB2, t);
  set (p, t);
  OK (RAW (cuCtxSynchronize) ());
  OK (RAW (cuMemUnmap) (p, 2 * MIB2));
}

/* ---- odd copies ---- */

static void
columns_of_an_odd_pitch (void)
{
  CUdeviceptr p = memory ();
  CUstream streams[] = { s, t, u };

  for (guint i = 0; i < 3; i++)
    OK (RAW (cuMemsetD2D8Async) (p + 7 + i * 99, 301, 1, right || i != 1 ? 99 : 100, 12, streams[i]));
}

static void
boxes_of_a_volume (void)
{
  CUdeviceptr p = memory (), q = memory ();
  CUDA_MEMCPY3D params = { .srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = q, .srcPitch = 32, .srcHeight = 8, .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = p, .dstPitch = 32, .dstHeight = 8, .WidthInBytes = 16, .Height = 4, .Depth = 4 };

  OK (RAW (cuMemcpy3DAsync) (&params, s));
  params.dstXInBytes = right ? 16 : 15;
  params.dstZ = 2;
  OK (RAW (cuMemcpy3DAsync) (&params, t));
  params.dstXInBytes = 0;
  params.dstY = 4;
  params.dstZ = 0;
  OK (RAW (cuMemcpy3DAsync) (&params, u));
}

static void
rows_without_a_pitch (void)
{
  CUdeviceptr p = memory (), q = memory ();
  CUDA_MEMCPY2D params = { .srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = q, .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = p, .WidthInBytes = 64, .Height = 8 };

  OK (RAW (cuMemcpy2DAsync) (&params, s));
  set_part (p + (right ? 512 : 511), 64, t);
}

static void
copies_of_nothing (void)
{
  CUdeviceptr p = memory (), q = memory ();
  gsize size = right ? 0 : 1;

  set (p, s);
  OK (RAW (cuMemsetD8Async) (p, 1, size, t));
  OK (RAW (cuMemcpyDtoDAsync) (p, q, size, t));
}

/* ---- graphs, changed and launched again ---- */

static void
graph_updated (void)
{
  CUdeviceptr p = memory ();
  CUgraph graph = captured_set (p), other = captured_set (p);
  CUgraphExec exec = instantiate (graph), another = instantiate (other);
  CUgraphExecUpdateResultInfo info;

  OK (RAW (cuGraphLaunch) (exec, s));
  OK (((CUresult (*) (CUgraphExec, CUgraph, CUgraphExecUpdateResultInfo *)) gcuda_test_driver_function ("cuGraphExecUpdate")) (exec, other, &info));
  OK (RAW (cuGraphLaunch) (right ? exec : another, t));
}

static CUgraphNode
only_node (CUgraph graph)
{
  CUgraphNode node;
  size_t n = 1;

  OK (RAW (cuGraphGetNodes) (graph, &node, &n));
  g_assert_cmpuint (n, ==, 1);
  return node;
}

static void
node_disabled (void)
{
  CUdeviceptr p = memory ();
  CUgraph graph = captured_set (p);
  CUgraphExec exec = instantiate (graph);

  OK (RAW (cuGraphNodeSetEnabled) (exec, only_node (graph), right ? 0 : 1));
  OK (RAW (cuGraphLaunch) (exec, s));
  set (p, t);
}

static void
node_changed (void)
{
  CUdeviceptr p = memory (), q = memory ();
  CUDA_MEMSET_NODE_PARAMS params = { .dst = q, .elementSize = 1, .width = SIZE, .height = 1, .pitch = SIZE };
  CUgraph graph = captured_set (p);
  CUgraphExec exec = instantiate (graph);

  if (right)
    OK (RAW (cuGraphExecMemsetNodeSetParams) (exec, only_node (graph), &params, context));
  OK (RAW (cuGraphLaunch) (exec, s));
  set (p, t);
}

static void
node_changed_after_an_update (void)
{
  CUdeviceptr p = memory (), q = memory ();
  CUDA_MEMSET_NODE_PARAMS params = { .dst = q, .elementSize = 1, .width = SIZE, .height = 1, .pitch = SIZE };
  CUgraph graph = captured_set (p);
  CUgraphExec exec = instantiate (graph);
  CUgraphExecUpdateResultInfo info;

  OK (((CUresult (*) (CUgraphExec, CUgraph, CUgraphExecUpdateResultInfo *)) gcuda_test_driver_function ("cuGraphExecUpdate")) (exec, captured_set (p), &info));
  OK (RAW (cuGraphExecMemsetNodeSetParams) (exec, only_node (graph), &params, context));
  OK (RAW (cuGraphLaunch) (exec, s));
  set (right ? p : q, t);
}

static void
child_graph (void)
{
  CUdeviceptr p = memory ();
  CUDA_MEMSET_NODE_PARAMS params = { .dst = p, .elementSize = 1, .width = SIZE, .height = 1, .pitch = SIZE };
  CUgraphNode child, after;
  CUgraph graph;

  OK (RAW (cuGraphCreate) (&graph, 0));
  OK (RAW (cuGraphAddChildGraphNode) (&child, graph, NULL, 0, captured_set (p)));
  OK (RAW (cuGraphAddMemsetNode) (&after, graph, &child, right ? 1 : 0, &params, context));
  OK (RAW (cuGraphLaunch) (instantiate (graph), s));
}

static void
event_of_a_graph (void)
{
  CUdeviceptr p = memory ();
  CUevent event = new_event ();
  CUgraphNode node, last;
  CUgraph graph = captured_set (p);

  last = only_node (graph);
  OK (RAW (cuGraphAddEventRecordNode) (&node, graph, &last, right ? 1 : 0, event));
  OK (RAW (cuGraphLaunch) (instantiate (graph), s));
  OK (RAW (cuStreamWaitEvent) (t, event, 0));
  set (p, t);
}

static void
graph_that_waits (void)
{
  CUdeviceptr p = memory ();
  CUDA_MEMSET_NODE_PARAMS params = { .dst = p, .elementSize = 1, .width = SIZE, .height = 1, .pitch = SIZE };
  CUevent event = new_event ();
  CUgraphNode node, after;
  CUgraph graph;

  OK (RAW (cuGraphCreate) (&graph, 0));
  OK (RAW (cuGraphAddEventWaitNode) (&node, graph, NULL, 0, event));
  OK (RAW (cuGraphAddMemsetNode) (&after, graph, &node, 1, &params, context));
  set (p, s);
  if (right)
    OK (RAW (cuEventRecord) (event, s));
  OK (RAW (cuGraphLaunch) (instantiate (graph), t));
}

static void
graph_launched_again_and_again (void)
{
  CUdeviceptr p = memory ();
  CUgraph graph = captured_set (p);
  CUgraphExec exec = instantiate (graph);

  for (guint i = 0; i < 20; i++)
    OK (RAW (cuGraphLaunch) (exec, i % 2 == 0 ? s : t));
  OK (RAW (cuGraphExecDestroy) (exec));
  if (right)
    order (t, u);
  OK (RAW (cuGraphLaunch) (instantiate (graph), u));
}

static void
captured_event_outside (void)
{
  CUdeviceptr p = memory (), q = memory ();
  CUevent event = new_event ();
  CUgraph graph;

  set (p, s);
  if (right)
    OK (RAW (cuEventRecord) (event, s));
  OK (RAW (cuStreamBeginCapture) (u, CU_STREAM_CAPTURE_MODE_RELAXED));
  set (q, u);
  OK (RAW (cuEventRecordWithFlags) (event, u, CU_EVENT_RECORD_EXTERNAL));
  OK (RAW (cuStreamEndCapture) (u, &graph));
  /* It stands for what it was recorded after, until the graph is launched. */
  OK (RAW (cuStreamWaitEvent) (t, event, 0));
  set (p, t);
}

static void
kernel_in_a_child_graph (void)
{
  CUdeviceptr p = memory (), q = memory ();
  CUgraphNode child;
  CUgraph graph, outer;

  OK (RAW (cuStreamBeginCapture) (u, CU_STREAM_CAPTURE_MODE_RELAXED));
  set (q, u); /* stands for the kernel's node */
  SIMULATOR (gcudasim_declare_access)
  (u, p, SIZE, TRUE, "kernel");
  OK (RAW (cuStreamEndCapture) (u, &graph));
  OK (RAW (cuGraphCreate) (&outer, 0));
  OK (RAW (cuGraphAddChildGraphNode) (&child, outer, NULL, 0, graph));
  OK (RAW (cuGraphLaunch) (instantiate (outer), s));
  if (right)
    wait_for (s);
  set (p, t);
}

static void
kernel_of_a_graph_that_is_gone (void)
{
  CUdeviceptr p = memory (), q = memory ();
  CUgraph graph;

  OK (RAW (cuStreamBeginCapture) (u, CU_STREAM_CAPTURE_MODE_RELAXED));
  set (q, u);
  SIMULATOR (gcudasim_declare_access)
  (u, p, SIZE, TRUE, "kernel");
  OK (RAW (cuStreamEndCapture) (u, &graph));
  if (right)
    {
      OK (RAW (cuGraphDestroy) (graph));
      graph = captured_set (q);
    }
  OK (RAW (cuGraphLaunch) (instantiate (graph), s));
  set (p, t);
}

/* ---- functions of the program that touch memory ---- */

static void CUDA_CB
write_there (void *data)
{
  host_touches (data, SIZE, TRUE);
}

static void
host_function_changes_the_source (void)
{
  CUdeviceptr p = memory ();
  guint8 *host = pinned ();

  for (guint i = 0; i < 3; i++)
    {
      OK (RAW (cuMemcpyHtoDAsync) (p, host, SIZE, s));
      OK (RAW (cuLaunchHostFunc) (right ? s : t, write_there, host));
    }
  wait_for (t);
  wait_for (s);
}

static gint touching;

static gpointer
touch_on (gpointer data)
{
  volatile guint8 *address = data;

  while (g_atomic_int_get (&touching))
    {
      if (!gcuda_test_is_simulated ())
        SIMULATOR (gcudasim_declare_host_access)
      ((const void *) address, 1, TRUE, "host access");
      *address = 7;
    }
  return NULL;
}

/* By a thread that meets the checker at work, time and again. */
static void
source_changed_all_the_time (void)
{
  CUdeviceptr p = memory ();
  guint8 *host = pinned ();
  GThread *thread = NULL;

  g_atomic_int_set (&touching, TRUE);
  if (!right)
    thread = g_thread_new ("touches", touch_on, host);
  for (guint i = 0; i < 1000; i++)
    {
      OK (RAW (cuMemcpyHtoDAsync) (p, host, SIZE, s));
      wait_for (s);
      if (right)
        host_touches (host, 1, TRUE);
    }
  g_atomic_int_set (&touching, FALSE);
  if (thread != NULL)
    g_thread_join (thread);
}

static gint function_runs, function_may_go;

static void CUDA_CB
write_there_later (void *data)
{
  g_atomic_int_set (&function_runs, 1);
  while (!g_atomic_int_get (&function_may_go))
    g_usleep (100);
  host_touches (data, SIZE, TRUE);
}

/* The first comes before the second upload, and hides that the other does not come after it. */
static void
two_functions_change_the_source (void)
{
  CUdeviceptr p = memory ();
  guint8 *host = pinned ();

  OK (RAW (cuMemcpyHtoDAsync) (p, host, SIZE, s));
  OK (RAW (cuLaunchHostFunc) (s, write_there_later, host));
  while (!g_atomic_int_get (&function_runs))
    g_usleep (100);
  OK (RAW (cuMemcpyHtoDAsync) (p, host, SIZE, s));
  OK (RAW (cuLaunchHostFunc) (right ? s : t, write_there, host));
  g_atomic_int_set (&function_may_go, 1);
  wait_for (t);
  wait_for (s);
}

static void
managed_memory_of_another_page (void)
{
  CUdeviceptr p;

  OK (RAW (cuMemAllocManaged) (&p, 2 * SIZE, CU_MEM_ATTACH_GLOBAL));
  set (p, s);
  host_touches ((guint8 *) p + SIZE, SIZE, TRUE);
  if (right)
    wait_for (s);
  host_touches ((guint8 *) p, SIZE, TRUE);
}

static void
set_of_pinned_memory (void)
{
  guint8 *host = pinned ();

  if (right)
    OK (RAW (cuMemsetD8) ((CUdeviceptr) host, 1, SIZE));
  else
    set ((CUdeviceptr) host, s);
  host_touches (host, SIZE, TRUE);
}

static void
download_to_pinned_memory_waits (void)
{
  guint8 *host = pinned ();
  CUdeviceptr p = memory ();

  if (right)
    OK (RAW (cuMemcpyDtoH) (host, p, SIZE));
  else
    OK (RAW (cuMemcpyDtoHAsync) (host, p, SIZE, s));
  host_touches (host, SIZE, FALSE);
  set (p, t);
}

static void
upload_from_pinned_memory_waits (void)
{
  guint8 *host = pinned ();
  CUdeviceptr p = memory ();

  if (right)
    OK (RAW (cuMemcpyHtoD) (p, host, SIZE));
  else
    OK (RAW (cuMemcpyHtoDAsync) (p, host, SIZE, s));
  host_touches (host, SIZE, TRUE);
}

static void
download_to_ordinary_memory_waits (void)
{
  static guint8 bytes[SIZE];
  CUdeviceptr p = memory (), q = memory ();

  set (p, s);
  OK (RAW (cuMemcpyDtoHAsync) (bytes, right ? p : q, SIZE, right ? s : t));
  set (p, t);
}

static void
elapsed_time_tells (void)
{
  CUevent before, after;
  CUdeviceptr p = memory ();
  float time;

  OK (RAW (cuEventCreate) (&before, CU_EVENT_DEFAULT));
  OK (RAW (cuEventCreate) (&after, CU_EVENT_DEFAULT));
  OK (RAW (cuEventRecord) (before, s));
  set (p, s);
  OK (RAW (cuEventRecord) (after, s));
  if (right)
    {
      while (((CUresult (*) (float *, CUevent, CUevent)) gcuda_test_driver_function ("cuEventElapsedTime")) (&time, before, after) != CUDA_SUCCESS)
        g_usleep (100);
    }
  set (p, t);
}

static void CUDA_CB
tell_status (CUstream stream, CUresult status, void *data)
{
  tell (data);
}

static void
callback_not_awaited (void)
{
  CUdeviceptr p = memory ();

  OK (RAW (cuLaunchHostFunc) (u, gate, NULL));
  order (u, s);
  set (p, s);
  OK (RAW (cuStreamAddCallback) (s, tell_status, NULL, 0));
  if (right)
    {
      g_atomic_int_set (&gate_open, TRUE);
      RAW (cuStreamQuery)
      (s);
      RAW (cuStreamQuery)
      (s);
      while (!g_atomic_int_get (&told))
        g_usleep (100);
    }
  set (p, t);
  g_atomic_int_set (&gate_open, TRUE);
}

static void
context_destroyed_with_work (void)
{
  CUdeviceptr p = memory ();
  CUcontext other = another_context ();
  CUstream there = new_stream (CU_STREAM_NON_BLOCKING);

  set (p, there);
  if (right)
    OK (RAW (cuCtxDestroy) (other));
  OK (RAW (cuCtxSetCurrent) (context));
  set (p, s);
}

static void
event_of_another_context (void)
{
  CUdeviceptr p = memory ();
  CUstream there;
  CUevent event;

  set (p, s);
  another_context ();
  there = new_stream (CU_STREAM_NON_BLOCKING);
  event = new_event ();
  OK (RAW (cuStreamWaitEvent) (there, event, 0));
  OK (RAW (cuCtxSetCurrent) (context));
  if (right)
    order (s, there);
  set (p, there);
}

static void
memory_of_a_graph_again_and_again (void)
{
  CUdeviceptr p;
  CUgraph graph;
  CUgraphExec exec;

  OK (RAW (cuStreamBeginCapture) (s, CU_STREAM_CAPTURE_MODE_RELAXED));
  p = allocate (s);
  set (p, s);
  if (!right)
    {
      order (s, t);
      set (p, t);
    }
  release (p, s);
  if (!right)
    order (t, s);
  OK (RAW (cuStreamEndCapture) (s, &graph));
  exec = instantiate (graph);
  for (guint i = 0; i < 5; i++)
    OK (RAW (cuGraphLaunch) (exec, i % 2 == 0 ? s : t));
}

static void
graph_that_downloads (void)
{
  CUdeviceptr p = memory ();
  guint8 *host = pinned ();
  CUgraph graph;

  OK (RAW (cuStreamBeginCapture) (u, CU_STREAM_CAPTURE_MODE_RELAXED));
  OK (RAW (cuMemcpyDtoHAsync) (host, p, SIZE, u));
  OK (RAW (cuStreamEndCapture) (u, &graph));
  host_touches (host, SIZE, TRUE);
  OK (RAW (cuGraphLaunch) (instantiate (graph), s));
  if (right)
    wait_for (s);
  host_touches (host, SIZE, TRUE);
}

static void
clone_of_a_graph (void)
{
  CUdeviceptr p = memory ();
  CUgraph graph = captured_set (p), clone;
  CUgraphExec exec;

  OK (RAW (cuGraphClone) (&clone, graph));
  OK (RAW (cuGraphDestroy) (graph));
  exec = instantiate (clone);
  OK (RAW (cuGraphDestroy) (clone));
  OK (RAW (cuGraphLaunch) (exec, s));
  if (right)
    order (s, t);
  set (p, t);
}

static void
half_of_memory_freed_in_parts (void)
{
  CUdeviceptr p[40];

  for (guint i = 0; i < 40; i++)
    p[i] = allocate (s);
  order (s, t);
  for (guint i = 0; i < 40; i++)
    set (p[i], t);
  if (right)
    order (t, s);
  for (guint i = 0; i < 40; i += 2)
    release (p[i], right ? s : t);
  for (guint i = 1; i < 40; i += 2)
    release (p[i], s);
}

static void
capture_does_nothing_yet (void)
{
  CUdeviceptr p = memory ();
  CUgraph graph;

  OK (RAW (cuStreamBeginCapture) (s, CU_STREAM_CAPTURE_MODE_RELAXED));
  set (p, s);
  set (p, t);
  OK (RAW (cuStreamEndCapture) (s, &graph));
  set (p, t);
  if (!right)
    OK (RAW (cuGraphLaunch) (instantiate (graph), u));
}

static void
retained_chunk (void)
{
  CUmemGenericAllocationHandle handle = chunk (FALSE), same;
  CUdeviceptr p = map (handle), q;

  OK (RAW (cuMemRetainAllocationHandle) (&same, (void *) p));
  OK (RAW (cuMemRelease) (handle));
  set (p, s);
  wait_for (s);
  OK (RAW (cuMemUnmap) (p, MIB2));
  q = map (same);
  OK (RAW (cuMemRelease) (same));
  set (q, s);
  p = q;
  set (p, right ? s : t);
}

/* ---- two processes ---- */

static char *
to_text (gconstpointer data, gsize size)
{
  return g_base64_encode (data, size);
}

static void
from_text (const char *text, gpointer data, gsize size)
{
  gsize length;
  g_autofree guchar *bytes = g_base64_decode (text, &length);

  g_assert_cmpuint (length, ==, size);
  memcpy (data, bytes, size);
}

/* Runs the importer, which inherits FD, and waits until it is done. */
static void
run_importer (const char *kind, int fd, const char *first, const char *second)
{
  g_autofree char *number = g_strdup_printf ("%d", fd);
  const char *argv[] = { program, "--import", kind, number, first, second, NULL };
  g_autoptr (GError) error = NULL;
  int status;

  if (fd >= 0)
    fcntl (fd, F_SETFD, 0);
  g_spawn_sync (NULL, (char **) argv, NULL, G_SPAWN_LEAVE_DESCRIPTORS_OPEN, NULL, NULL, NULL, NULL, &status, &error);
  g_assert_no_error (error);
  g_assert_cmpint (status, ==, 0);
}

static void
exported_memory (void)
{
  CUdeviceptr p = memory ();
  CUipcMemHandle handle;
  g_autofree char *text = NULL;

  OK (RAW (cuIpcGetMemHandle) (&handle, p));
  set (p, s);
  if (right)
    wait_for (s);
  text = to_text (&handle, sizeof handle);
  run_importer ("memory", -1, text, "");
}

static void
exported_with_an_event (void)
{
  CUdeviceptr p = memory ();
  CUipcMemHandle handle;
  CUipcEventHandle event_handle;
  CUevent event;
  g_autofree char *text = NULL;
  g_autofree char *event_text = NULL;

  OK (RAW (cuEventCreate) (&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
  OK (RAW (cuIpcGetMemHandle) (&handle, p));
  OK (RAW (cuIpcGetEventHandle) (&event_handle, event));
  if (!right)
    OK (RAW (cuEventRecord) (event, s));
  set (p, s);
  if (right)
    OK (RAW (cuEventRecord) (event, s));
  text = to_text (&handle, sizeof handle);
  event_text = to_text (&event_handle, sizeof event_handle);
  run_importer ("memory", -1, text, event_text);
}

static void
exported_by_one_of_many_streams (void)
{
  CUdeviceptr p = memory ();
  CUipcMemHandle handle;
  CUipcEventHandle event_handle;
  CUevent event;
  CUstream stream = NULL;
  g_autofree char *text = NULL;
  g_autofree char *event_text = NULL;

  OK (RAW (cuEventCreate) (&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
  OK (RAW (cuIpcGetMemHandle) (&handle, p));
  OK (RAW (cuIpcGetEventHandle) (&event_handle, event));
  for (guint i = 0; i < 400; i++)
    {
      stream = new_stream (CU_STREAM_NON_BLOCKING);
      set (memory (), stream);
    }
  set (p, stream);
  OK (RAW (cuEventRecord) (event, right ? stream : s));
  text = to_text (&handle, sizeof handle);
  event_text = to_text (&event_handle, sizeof event_handle);
  run_importer ("memory", -1, text, event_text);
}

/* There and back: the importer records an event that is waited for here. */
static void
imported_and_given_back (void)
{
  CUdeviceptr p = memory ();
  CUipcMemHandle handle;
  CUipcEventHandle event_handle;
  CUevent event;
  g_autofree char *text = NULL;
  g_autofree char *event_text = NULL;

  OK (RAW (cuEventCreate) (&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
  OK (RAW (cuIpcGetMemHandle) (&handle, p));
  OK (RAW (cuIpcGetEventHandle) (&event_handle, event));
  text = to_text (&handle, sizeof handle);
  event_text = to_text (&event_handle, sizeof event_handle);
  run_importer ("returning", -1, text, event_text);
  if (right)
    OK (RAW (cuStreamWaitEvent) (t, event, 0));
  set (p, t);
}

static void
exported_before_it_is_written (void)
{
  CUdeviceptr p = memory ();
  CUipcMemHandle handle;
  g_autofree char *text = NULL;

  set (p, s);
  if (right)
    OK (RAW (cuCtxSynchronize) ());
  OK (RAW (cuIpcGetMemHandle) (&handle, p));
  text = to_text (&handle, sizeof handle);
  run_importer ("memory", -1, text, "");
}

static void
exported_pool_memory (void)
{
  CUmemPoolProps props;
  CUmemoryPool pool;
  CUmemPoolPtrExportData data;
  CUdeviceptr p;
  g_autofree char *text = NULL;
  int fd = -1;

  memset (&props, 0, sizeof props);
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  OK (RAW (cuMemPoolCreate) (&pool, &props));
  OK (RAW (cuMemAllocFromPoolAsync) (&p, SIZE, pool, s));
  OK (RAW (cuMemPoolExportToShareableHandle) (&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  OK (RAW (cuMemPoolExportPointer) (&data, p));
  set (p, s);
  if (right)
    wait_for (s);
  text = to_text (&data, sizeof data);
  run_importer ("pool", fd, text, "");
}

static void
exported_chunk (void)
{
  CUmemGenericAllocationHandle handle = chunk (TRUE);
  CUdeviceptr p = map (handle);
  int fd = -1;

  OK (RAW (cuMemExportToShareableHandle) (&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  set (p, s);
  if (right)
    wait_for (s);
  run_importer ("chunk", fd, "", "");
}

static void
imported_memory_still_used (void)
{
  CUdeviceptr p = memory ();
  CUipcMemHandle handle;
  g_autofree char *text = NULL;

  OK (RAW (cuIpcGetMemHandle) (&handle, p));
  text = to_text (&handle, sizeof handle);
  /* It waits for its work, or does not, and ends. */
  run_importer (right ? "memory" : "hasty", -1, text, "");
  set (p, s);
}

static int
import (char **args)
{
  const char *kind = args[0];
  int fd = atoi (args[1]);
  CUdeviceptr p = 0;

  if (g_str_equal (kind, "memory") || g_str_equal (kind, "hasty") || g_str_equal (kind, "returning"))
    {
      CUipcMemHandle handle;

      from_text (args[2], &handle, sizeof handle);
      OK (RAW (cuIpcOpenMemHandle) (&p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
      if (*args[3] != '\0')
        {
          CUipcEventHandle event_handle;
          CUevent event;

          from_text (args[3], &event_handle, sizeof event_handle);
          OK (RAW (cuIpcOpenEventHandle) (&event, event_handle));
          OK (RAW (cuStreamWaitEvent) (s, event, 0));
          if (g_str_equal (kind, "returning"))
            {
              set (p, s);
              OK (RAW (cuEventRecord) (event, s));
              /* It is done at the end, but no call told that. */
              g_atomic_int_set (&gate_open, TRUE);
              OK (RAW (cuLaunchHostFunc) (s, tell, NULL));
              while (!g_atomic_int_get (&told))
                g_usleep (100);
              _exit (0);
            }
        }
    }
  else if (g_str_equal (kind, "pool"))
    {
      CUmemPoolPtrExportData data;
      CUmemoryPool pool;

      from_text (args[2], &data, sizeof data);
      OK (RAW (cuMemPoolImportFromShareableHandle) (&pool, GINT_TO_POINTER (fd), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
      OK (RAW (cuMemPoolImportPointer) (&p, pool, &data));
    }
  else
    {
      CUmemGenericAllocationHandle handle;

      OK (RAW (cuMemImportFromShareableHandle) (&handle, GINT_TO_POINTER (fd), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
      p = map (handle);
    }
  set (p, s);
  if (!g_str_equal (kind, "hasty"))
    wait_for (s);
  return 0;
}

/* ---- all of them ---- */

static const struct
{
  const char *name;
  const char *kind;
  void (*run) (void);
  gboolean simulated_only;
} races[] = {
#define RACE(name, kind)     \
  {                          \
#name, kind, name, FALSE \
  }
  RACE (use_before_allocation, "use-before-allocation"),
  RACE (copy_before_allocation, "use-before-allocation"),
  RACE (free_before_allocation, "free-before-last-use"),
  RACE (free_before_write, "free-before-last-use"),
  RACE (free_before_read, "free-before-last-use"),
  RACE (free_with_an_old_event, "free-before-last-use"),
  RACE (free_on_legacy, "free-before-last-use"),
  RACE (use_after_free, "use-after-free"),
  RACE (use_after_free_elsewhere, "use-after-free"),
  RACE (write_write, "write-write"),
  RACE (write_after_read, "read-write"),
  RACE (read_after_write, "read-write"),
  RACE (write_after_two_reads, "read-write"),
  RACE (overlapping_parts, "write-write"),
  RACE (overlapping_columns, "write-write"),
  RACE (overlapping_rows_of_a_copy, "write-write"),
  RACE (overlapping_volumes, "write-write"),
  RACE (one_of_many_events, "write-write"),
  RACE (event_recorded_too_early, "write-write"),
  RACE (event_recorded_again, "write-write"),
  RACE (event_never_recorded, "write-write"),
  RACE (wait_after_the_use, "write-write"),
  RACE (wait_is_no_two_way_street, "write-write"),
  RACE (synchronized_another_stream, "write-write"),
  RACE (event_synchronized_too_early, "write-write"),
  RACE (query_without_success, "write-write"),
  RACE (host_function_not_awaited, "write-write"),
  RACE (legacy_and_non_blocking, "write-write"),
  RACE (non_blocking_and_legacy, "write-write"),
  RACE (per_thread_and_non_blocking, "write-write"),
  RACE (per_thread_streams_of_two_threads, "write-write"),
  RACE (blocking_streams_are_not_ordered, "write-write"),
  RACE (synchronous_upload_has_not_arrived, "read-write"),
  RACE (synchronous_memset_is_not_awaited, "read-write"),
  RACE (another_context_synchronized, "write-write"),
  RACE (second_of_two_copies, "write-write"),
  RACE (write_value, "write-write"),
  RACE (download_of_what_is_written, "read-write"),
  RACE (copy_between_devices, "write-write"),
  RACE (launch_and_stream, "write-write"),
  RACE (two_graphs, "write-write"),
  RACE (branches_of_a_capture, "write-write"),
  RACE (nodes_without_an_edge, "write-write"),
  RACE (memory_of_a_graph, "use-before-allocation"),
  RACE (memory_of_a_graph_freed, "free-before-last-use"),
  RACE (kernel_in_a_capture, "write-write"),
  RACE (upload_source_changed, "upload-changed"),
  RACE (download_read_too_early, "host-access"),
  RACE (mapped_memory_read_too_early, "host-access"),
  RACE (managed_memory_read_too_early, "host-access"),
  RACE (registered_memory_written_too_early, "host-access"),
  RACE (host_pool_memory_used_too_early, "use-before-allocation"),
  RACE (host_pool_memory_read_too_early, "host-access"),
  RACE (host_pool_source_changed, "upload-changed"),
  RACE (host_pool_memory_freed, "free-before-last-use"),
  RACE (managed_pool_memory_written_too_early, "host-access"),
  RACE (prefetched_meanwhile, "write-write"),
  RACE (prefetched_before_allocation, "use-before-allocation"),
  RACE (prefetched_memory_freed, "free-before-last-use"),
#if CUDA_VERSION >= 13000
  RACE (discarded_while_read, "read-write"),
#endif
  RACE (declared_host_access, "upload-changed"),
  RACE (two_streams_on_host_memory, "read-write"),
  RACE (two_addresses, "write-write"),
  RACE (two_addresses_read, "read-write"),
  RACE (unmapped_too_early, "unmap"),
  RACE (unmapped_the_other_address, "unmap"),
  RACE (pool_hands_out_too_early, "pool-reuse"),
  RACE (pool_memory_used_after_free, "use-after-free"),
  RACE (pool_memory_freed_too_early, "free-before-last-use"),
  RACE (deallocation_stream_replaced, "deallocation-stream"),
  RACE (closed_on_another_stream, "deallocation-stream"),
  RACE (kernel_on_another_stream, "read-write"),
  RACE (kernel_writes_what_a_copy_reads, "read-write"),
  RACE (view_on_another_stream, "write-write"),
  RACE (event_in_a_loop, "write-write"),
  RACE (chain_of_streams, "write-write"),
  RACE (diamond, "write-write"),
  RACE (event_destroyed_after_the_wait, "write-write"),
  RACE (last_of_many_events, "write-write"),
  RACE (destroyed_stream_then_context_synchronized, "write-write"),
  RACE (destroyed_stream_then_freed, "free-before-last-use"),
  RACE (destroyed_blocking_stream_then_legacy, "write-write"),
  RACE (stream_made_again, "write-write"),
  RACE (many_streams, "write-write"),
  RACE (question_to_legacy, "write-write"),
  RACE (context_reset, "write-write"),
  RACE (legacy_streams_of_two_contexts, "write-write"),
  RACE (legacy_orders_its_own_context_only, "write-write"),
  RACE (per_thread_stream_of_a_thread_that_ended, "write-write"),
  RACE (legacy_between_two_threads, "write-write"),
  RACE (many_threads, "write-write"),
  RACE (event_on_legacy, "write-write"),
  RACE (legacy_after_what_a_blocking_stream_waits_for, "write-write"),
  RACE (stream_made_after_legacy, "write-write"),
  RACE (download_waits_for_legacy, "write-write"),
  RACE (unregistered_memory, "upload-changed"),
  RACE (pinned_memory_freed, "upload-changed"),
  RACE (halves_of_pinned_memory, "host-access"),
  RACE (pool_destroyed_before_its_memory, "free-before-last-use"),
  RACE (memory_of_the_pool_again, "free-before-last-use"),
  RACE (use_after_many_frees, "use-after-free"),
  RACE (chunk_mapped_elsewhere, "write-write"),
  RACE (two_chunks_as_one, "write-write"),
  RACE (columns_of_an_odd_pitch, "write-write"),
  RACE (boxes_of_a_volume, "write-write"),
  { "rows_without_a_pitch", "write-write", rows_without_a_pitch, TRUE },
  RACE (copies_of_nothing, "write-write"),
  RACE (graph_updated, "write-write"),
  RACE (node_disabled, "write-write"),
  RACE (node_changed, "write-write"),
  RACE (node_changed_after_an_update, "write-write"),
  RACE (child_graph, "write-write"),
  RACE (event_of_a_graph, "write-write"),
  RACE (graph_that_waits, "write-write"),
  RACE (graph_launched_again_and_again, "write-write"),
  RACE (captured_event_outside, "write-write"),
  RACE (kernel_in_a_child_graph, "write-write"),
  RACE (kernel_of_a_graph_that_is_gone, "write-write"),
  RACE (host_function_changes_the_source, "upload-changed"),
  RACE (two_functions_change_the_source, "upload-changed"),
  RACE (source_changed_all_the_time, "upload-changed"),
  RACE (managed_memory_of_another_page, "host-access"),
  RACE (set_of_pinned_memory, "host-access"),
  RACE (download_to_pinned_memory_waits, "host-access"),
  RACE (upload_from_pinned_memory_waits, "upload-changed"),
  RACE (download_to_ordinary_memory_waits, "write-write"),
  RACE (elapsed_time_tells, "write-write"),
  RACE (callback_not_awaited, "write-write"),
  RACE (context_destroyed_with_work, "write-write"),
  RACE (event_of_another_context, "write-write"),
  RACE (memory_of_a_graph_again_and_again, "free-before-last-use"),
  RACE (graph_that_downloads, "host-access"),
  RACE (clone_of_a_graph, "write-write"),
  RACE (half_of_memory_freed_in_parts, "free-before-last-use"),
  RACE (capture_does_nothing_yet, "write-write"),
  RACE (retained_chunk, "write-write"),
  RACE (exported_memory, "shared-memory"),
  RACE (exported_with_an_event, "shared-memory"),
  RACE (exported_by_one_of_many_streams, "shared-memory"),
  RACE (imported_and_given_back, "shared-memory"),
  RACE (exported_before_it_is_written, "shared-memory"),
  RACE (exported_pool_memory, "shared-memory"),
  { "exported_chunk", "shared-memory", exported_chunk, TRUE },
  RACE (imported_memory_still_used, "shared-memory"),
};

static void
start (void)
{
  OK (RAW (cuDevicePrimaryCtxRetain) (&context, 0));
  OK (RAW (cuCtxPushCurrent) (context));
  s = new_stream (CU_STREAM_NON_BLOCKING);
  t = new_stream (CU_STREAM_NON_BLOCKING);
  u = new_stream (CU_STREAM_NON_BLOCKING);
}

static char *
run_child (gsize index, const char *variant, gboolean *started)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GSubprocessLauncher) launcher = g_subprocess_launcher_new (G_SUBPROCESS_FLAGS_STDOUT_PIPE | G_SUBPROCESS_FLAGS_STDERR_MERGE);
  g_autoptr (GSubprocess) process = NULL;
  g_autofree char *folder = g_dir_make_tmp ("gcuda-XXXXXX", &error);
  g_autofree char *path = g_build_filename (folder, "reports", NULL);
  g_autofree char *out = NULL;
  char *reports = NULL;

  g_assert_no_error (error);
  g_subprocess_launcher_setenv (launcher, "GCUDASIM_CHECK", "report", TRUE);
  g_subprocess_launcher_setenv (launcher, "GCUDASIM_CHECK_FILE", path, TRUE);
  process = g_subprocess_launcher_spawn (launcher, &error, program, "--race", races[index].name, variant, NULL);
  g_assert_no_error (error);
  g_assert_true (g_subprocess_communicate_utf8 (process, NULL, NULL, &out, NULL, &error));
  g_assert_no_error (error);
  g_test_message ("%s", out);
  *started = g_subprocess_get_if_exited (process) && g_subprocess_get_exit_status (process) == 0;
  g_file_get_contents (path, &reports, NULL, NULL);
  unlink (path);
  rmdir (folder);
  return reports != NULL ? reports : g_strdup ("");
}

static void
test_race (gconstpointer data)
{
  gsize index = GPOINTER_TO_SIZE (data);
  g_autofree char *want = g_strdup_printf ("{\"kind\":\"%s\",", races[index].kind);
  g_autofree char *wrong_reports = NULL;
  g_autofree char *right_reports = NULL;
  gboolean done;

  if (races[index].simulated_only && !gcuda_test_is_simulated ())
    {
      g_test_skip ("a real driver's descriptors do not tell what they are of, and it may want to be given a pitch");
      return;
    }
  /* A real driver may well end it, if it is wrong. */
  wrong_reports = run_child (index, "wrong", &done);
  g_assert_true (done || !gcuda_test_is_simulated ());
  g_assert_true (g_str_has_prefix (wrong_reports, want));
  g_assert_nonnull (strstr (wrong_reports, "\"missing\":\""));
  right_reports = run_child (index, "right", &done);
  g_assert_true (done);
  g_assert_cmpstr (right_reports, ==, "");
}

int
main (int argc, char **argv)
{
  program = g_file_read_link ("/proc/self/exe", NULL);
  /* There is no checker in a real driver. */
  g_setenv ("GCUDA_DRIVER", "checked", FALSE);
  if (argc == 4 && g_str_equal (argv[1], "--race"))
    {
      alarm (30);
      right = g_str_equal (argv[3], "right");
      for (gsize i = 0; i < G_N_ELEMENTS (races); i++)
        {
          if (!g_str_equal (races[i].name, argv[2]))
            continue;
          start ();
          races[i].run ();
          fflush (stdout);
          return 0;
        }
      return 2;
    }
  if (argc == 6 && g_str_equal (argv[1], "--import"))
    {
      alarm (20);
      start ();
      return import (argv + 2);
    }
  gcuda_test_init (&argc, &argv);
  for (gsize i = 0; i < G_N_ELEMENTS (races); i++)
    {
      g_autofree char *path = g_strdup_printf ("/races/%s/%s", races[i].kind, races[i].name);

      g_test_add_data_func (path, GSIZE_TO_POINTER (i), test_race);
    }
  return g_test_run ();
}
