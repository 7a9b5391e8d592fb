/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the library costs above the driver, in one run on one machine: each row times the raw driver calls and the library's
 * in turns, and prints the medians, their difference and their ratio. Not a test: nothing here passes or fails.
 */
#include "bench.h"

#include <gcudamem/gcudamem-cuda.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT 2000
#define BATCH 16

static GCudaContext *context;
static GCudaStream *stream, *other_stream;
static GCudaStream *hidden_stream; /* its handle is never asked for, so nobody can capture it, and the library need not ask */
static GCudaMemoryResource *resource;
static GCudaBuffer *buffer, *other;
static GCudaEvent *event, *hidden_event;
static CUstream raw_stream;
static CUevent raw_event;
static CUmemoryPool raw_pool;
static CUdeviceptr raw_address, raw_other;

static void
settle (void)
{
  gcuda_stream_synchronize (stream, NULL);
  gcuda_stream_synchronize (other_stream, NULL);
  gcuda_stream_synchronize (hidden_stream, NULL);
}

static void
row (const char *name,
     Step raw,
     Step ours,
     const char *budget)
{
  compare_calls (name, COUNT, settle, raw, ours, budget);
}

static CUresult (*fast_alloc) (CUdeviceptr *, size_t, CUmemoryPool, CUstream);
static CUresult (*fast_free) (CUdeviceptr, CUstream);
static CUresult (*fast_fill) (CUdeviceptr, unsigned char, size_t, CUstream);
static CUresult (*fast_copy) (CUdeviceptr, CUdeviceptr, size_t, CUstream);
static CUresult (*fast_record) (CUevent, CUstream);
static CUresult (*fast_wait) (CUstream, CUevent, unsigned int);
static CUresult (*fast_mode) (CUstreamCaptureMode *);
static CUresult (*fast_capturing) (CUstream, CUstreamCaptureStatus *);
static CUresult (*fast_id) (CUcontext, unsigned long long *);
static CUcontext raw_context;

static void
nothing (void)
{
}

static void
raw_pair (void)
{
  CUdeviceptr address;

  fast_alloc (&address, 4096, raw_pool, raw_stream);
  fast_free (address, raw_stream);
}

/* What a buffer cannot do without: the memory, an object, and the relaxed capture mode around the free. */
static void
raw_buffer_pair (void)
{
  GObject *object = g_object_new (G_TYPE_OBJECT, NULL);
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  CUdeviceptr address;

  fast_alloc (&address, 4096, raw_pool, raw_stream);
  fast_mode (&mode);
  fast_free (address, raw_stream);
  fast_mode (&mode);
  g_object_unref (object);
}

static void
address_pair (void)
{
  guint64 address = gcuda_memory_resource_allocate_address (resource, 4096, 0, stream, NULL);

  gcuda_memory_resource_deallocate_address (resource, address, 4096, 0, stream, NULL);
}

static void
hidden_address_pair (void)
{
  guint64 address = gcuda_memory_resource_allocate_address (resource, 4096, 0, hidden_stream, NULL);

  gcuda_memory_resource_deallocate_address (resource, address, 4096, 0, hidden_stream, NULL);
}

static GCudaMemoryResource *layered; /* the same pool, below an adaptor or more */

static void
layered_address_pair (void)
{
  guint64 address = gcuda_memory_resource_allocate_address (layered, 4096, 0, stream, NULL);

  gcuda_memory_resource_deallocate_address (layered, address, 4096, 0, stream, NULL);
}

static void
buffer_pair (void)
{
  GCudaBuffer *made = gcuda_memory_resource_allocate (resource, 4096, stream, NULL);

  gcuda_buffer_close (made, NULL, NULL);
  g_object_unref (made);
}

static void
raw_fill (void)
{
  fast_fill (raw_address, 1, 4096, raw_stream);
}

static void
our_fill (void)
{
  gcuda_buffer_fill (buffer, 1, 1, stream, NULL);
}

static void
raw_copy (void)
{
  fast_copy (raw_other, raw_address, 4096, raw_stream);
}

static void
our_copy (void)
{
  gcuda_buffer_copy_to (buffer, other, stream, NULL);
}

#if CUDA_VERSION >= 13000
static CUresult (*fast_batch) (CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *, size_t *, size_t, CUstream);
static GCudaBuffer *batch_sources[BATCH], *batch_destinations[BATCH];

static void
raw_batch (void)
{
  CUmemcpyAttributes attributes = { .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM };
  CUdeviceptr to[BATCH], from[BATCH];
  size_t sizes[BATCH], first = 0;

  for (guint i = 0; i < BATCH; i++)
    {
      to[i] = raw_other + i * 64;
      from[i] = raw_address + i * 64;
      sizes[i] = 64;
    }
  fast_batch (to, from, sizes, BATCH, &attributes, &first, 1, raw_stream);
}

static void
our_batch (void)
{
  gcuda_buffer_copy_batch (batch_sources, BATCH, batch_destinations, BATCH, stream, NULL);
}

static void
batch_row (void)
{
  for (guint i = 0; i < BATCH; i++)
    {
      batch_sources[i] = gcuda_buffer_new_view (buffer, i * 64, 64, NULL);
      batch_destinations[i] = gcuda_buffer_new_view (other, i * 64, 64, NULL);
    }
  fast_batch = RAW (cuMemcpyBatchAsync);
  row ("copy 16 pieces of 64 bytes as one batch", raw_batch, our_batch, "raw x 1.05");
  for (guint i = 0; i < BATCH; i++)
    {
      g_object_unref (batch_sources[i]);
      g_object_unref (batch_destinations[i]);
    }
}
#endif

static void
raw_record (void)
{
  fast_record (raw_event, raw_stream);
}

static void
our_record (void)
{
  gcuda_event_record (event, stream, NULL);
}

static void
raw_wait (void)
{
  fast_wait (raw_stream, raw_event, 0);
}

static void
our_wait (void)
{
  gcuda_stream_wait_event (stream, event, NULL);
}

static void
hidden_fill (void)
{
  gcuda_buffer_fill (buffer, 1, 1, hidden_stream, NULL);
}

static void
hidden_copy (void)
{
  gcuda_buffer_copy_to (buffer, other, hidden_stream, NULL);
}

static void
hidden_record (void)
{
  gcuda_event_record (hidden_event, hidden_stream, NULL);
}

static void
hidden_wait (void)
{
  gcuda_stream_wait_event (hidden_stream, hidden_event, NULL);
}

static void
our_set (void)
{
  gcuda_buffer_set_deallocation_stream (buffer, other_stream, NULL);
  gcuda_buffer_set_deallocation_stream (buffer, stream, NULL);
}

static void
raw_capturing (void)
{
  CUstreamCaptureStatus status;

  fast_capturing (raw_stream, &status);
}

static void
raw_id (void)
{
  unsigned long long id;

  fast_id (raw_context, &id);
}

static void
raw_mode (void)
{
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

  fast_mode (&mode);
  fast_mode (&mode);
}

static void
object_pair (void)
{
  g_object_unref (g_object_new (G_TYPE_OBJECT, NULL));
}

/* With the driver's own share, which the same allocations without buffers show, taken off. */
static void
bytes_per_buffer (void)
{
  const guint count = 20000;
  g_autofree GCudaBuffer **buffers = g_new (GCudaBuffer *, count);
  g_autofree CUdeviceptr *addresses = g_new (CUdeviceptr, count);
  gsize before, raw;

  before = mallinfo2 ().uordblks;
  for (guint i = 0; i < count; i++)
    fast_alloc (&addresses[i], 512, raw_pool, raw_stream);
  raw = mallinfo2 ().uordblks - before;
  for (guint i = 0; i < count; i++)
    fast_free (addresses[i], raw_stream);
  settle ();
  before = mallinfo2 ().uordblks;
  for (guint i = 0; i < count; i++)
    buffers[i] = gcuda_memory_resource_allocate (resource, 512, stream, NULL);
  g_print ("%-52s %9.1f bytes above the driver's %.1f   300\n", "host memory of a live buffer",
           ((double) (mallinfo2 ().uordblks - before) - (double) raw) / count, (double) raw / count);
  for (guint i = 0; i < count; i++)
    g_object_unref (buffers[i]);
}

/* From nothing to the first buffer, each time in a process of its own. */
static double
first_use (gboolean raw)
{
  int ends[2];
  double time = 0;
  pid_t child;

  if (pipe (ends) != 0)
    g_error ("no pipe");
  child = fork ();
  if (child == 0)
    {
      gint64 start = now ();

      if (raw)
        {
          void *library = dlopen (getenv ("GCUDA_BENCH_DRIVER"), RTLD_NOW);
          CUresult (*init) (unsigned int) = (CUresult (*) (unsigned int)) dlsym (library, "cuInit");
          CUcontext primary;
          CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
          CUmemoryPool pool;
          CUstream made;
          CUdeviceptr address;

          init (0);
          driver = library;
          RAW (cuDevicePrimaryCtxRetain)
          (&primary, 0);
          RAW (cuCtxSetCurrent)
          (primary);
          RAW (cuStreamCreate)
          (&made, CU_STREAM_NON_BLOCKING);
          RAW (cuMemPoolCreate)
          (&pool, &props);
          RAW (cuMemAllocFromPoolAsync)
          (&address, 4096, pool, made);
        }
      else
        {
          GCudaDevice *device = gcuda_device_new (0, NULL);
          GCudaStream *made = gcuda_stream_new_for_device (device, NULL);
          GCudaDeviceMemoryResource *pool = gcuda_device_memory_resource_new_pool (device, 0, GCUDA_HANDLE_TYPES_NONE, NULL);

          if (gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (pool), 4096, made, NULL) == NULL)
            _exit (1);
        }
      time = (double) (now () - start);
      if (write (ends[1], &time, sizeof time) != sizeof time)
        _exit (1);
      _exit (0);
    }
  close (ends[1]);
  if (read (ends[0], &time, sizeof time) != sizeof time)
    g_error ("the child failed");
  close (ends[0]);
  waitpid (child, NULL, 0);
  return time;
}

int
main (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaDriverInfo) info = NULL;
  g_autoptr (GCudaDevice) device = NULL;
  double raw_first[9], our_first[9];

  /* Before this process uses CUDA: a child of one that does may not. */
  if (g_getenv ("GCUDA_BENCH_DRIVER") == NULL)
    {
      const char *choice = g_getenv ("GCUDA_DRIVER");

      if (choice == NULL)
        choice = "libcuda.so.1";
      else if (g_str_equal (choice, "simulated"))
        choice = g_getenv ("GCUDASIM_LIBRARY");
      g_setenv ("GCUDA_BENCH_DRIVER", choice, TRUE);
    }
  for (guint i = 0; i < 9; i++)
    {
      raw_first[i] = first_use (TRUE);
      our_first[i] = first_use (FALSE);
    }

  device = gcuda_device_new (0, &error);
  if (device == NULL)
    {
      g_printerr ("%s\n", error->message);
      return 1;
    }
  info = gcuda_get_driver_info (NULL);
  driver = dlopen (gcuda_driver_info_get_path (info), RTLD_NOW);
  context = gcuda_device_get_primary_context (device, NULL);
  stream = gcuda_stream_new (context, GCUDA_STREAM_FLAGS_NONE, 0, NULL);
  other_stream = gcuda_stream_new (context, GCUDA_STREAM_FLAGS_NONE, 0, NULL);
  hidden_stream = gcuda_stream_new (context, GCUDA_STREAM_FLAGS_NONE, 0, NULL);
  resource = GCUDA_MEMORY_RESOURCE (gcuda_device_memory_resource_new_pool (device, 0, GCUDA_HANDLE_TYPES_NONE, NULL));
  gcuda_device_memory_resource_set_release_threshold (GCUDA_DEVICE_MEMORY_RESOURCE (resource), G_MAXUINT64, NULL);
  buffer = gcuda_memory_resource_allocate (resource, 4096, stream, NULL);
  other = gcuda_memory_resource_allocate (resource, 4096, stream, NULL);
  event = gcuda_event_new (context, GCUDA_EVENT_FLAGS_NONE, NULL);
  hidden_event = gcuda_event_new (context, GCUDA_EVENT_FLAGS_NONE, NULL);
  raw_context = gcuda_context_get_cuda_context (context);
  raw_stream = gcuda_stream_get_cuda_stream (stream);
  raw_event = gcuda_event_get_cuda_event (event);
  raw_pool = gcuda_device_memory_resource_get_cuda_pool (GCUDA_DEVICE_MEMORY_RESOURCE (resource));
  raw_address = gcuda_buffer_get_cuda_pointer (buffer);
  raw_other = gcuda_buffer_get_cuda_pointer (other);
  fast_alloc = RAW (cuMemAllocFromPoolAsync);
  fast_free = RAW (cuMemFreeAsync);
  fast_fill = RAW (cuMemsetD8Async);
  fast_copy = RAW (cuMemcpyDtoDAsync);
  fast_record = RAW (cuEventRecord);
  fast_wait = RAW (cuStreamWaitEvent);
  fast_mode = RAW (cuThreadExchangeStreamCaptureMode);
  fast_capturing = RAW (cuStreamIsCapturing);
  fast_id = RAW (cuCtxGetId);
  /* The raw calls are those of a program that has its context current. */
  RAW (cuCtxSetCurrent)
  (raw_context);

  g_print ("%s, %s\n", gcuda_device_get_name (device), gcuda_driver_info_is_simulated (info) ? "simulated driver: only differences between versions of this library mean anything" : "real driver");
  g_print ("%-52s %9s %9s %9s %7s   %s\n", "nanoseconds a call, medians", "raw", "ours", "more", "ratio", "budget");
  row ("pool: address pair", raw_pair, address_pair, "raw + 40");
  row ("pool: address pair, stream's handle not known", raw_pair, hidden_address_pair, "raw + 40");
  row ("pool: buffer pair (raw: with object and modes)", raw_buffer_pair, buffer_pair, "raw + 100");
  layered = GCUDA_MEMORY_RESOURCE (gcuda_statistics_memory_resource_new (resource));
  row ("address pair (raw: pool), below statistics", address_pair, layered_address_pair, "+ 20");
  layered = GCUDA_MEMORY_RESOURCE (gcuda_limiting_memory_resource_new (resource, G_MAXUINT64 / 2));
  row ("address pair (raw: pool), below a limit", address_pair, layered_address_pair, "+ 20");
  layered = GCUDA_MEMORY_RESOURCE (gcuda_statistics_memory_resource_new (layered));
  layered = GCUDA_MEMORY_RESOURCE (gcuda_binning_memory_resource_new (layered));
  row ("address pair (raw: pool), below three", address_pair, layered_address_pair, "+ 60");
  row ("fill 4 KiB", raw_fill, our_fill, "raw + 60");
  row ("copy 4 KiB", raw_copy, our_copy, "raw + 60");
#if CUDA_VERSION >= 13000
  if (gcuda_driver_info_get_version (info) >= 13000)
    batch_row ();
#endif
  row ("record", raw_record, our_record, "raw + 60");
  row ("wait", raw_wait, our_wait, "raw + 60");
  row ("fill 4 KiB, handle not known", raw_fill, hidden_fill, "raw + 60");
  row ("copy 4 KiB, handle not known", raw_copy, hidden_copy, "raw + 60");
  row ("record, handles not known", raw_record, hidden_record, "raw + 60");
  row ("wait, handles not known", raw_wait, hidden_wait, "raw + 60");
  row ("set_deallocation_stream, twice (raw: nothing)", nothing, our_set, "120");
  row ("for scale: is the stream capturing", nothing, raw_capturing, "");
  row ("for scale: context id", nothing, raw_id, "");
  row ("for scale: two capture-mode exchanges", nothing, raw_mode, "");
  row ("for scale: an empty object, made and dropped", nothing, object_pair, "");
  g_print ("%-52s %9.2f %9.2f %9.2f %7.2f   %s\n", "from nothing to the first buffer, ms", median (raw_first, 9) / 1e6, median (our_first, 9) / 1e6,
           (median (our_first, 9) - median (raw_first, 9)) / 1e6, median (our_first, 9) / median (raw_first, 9), "raw + 5");
  bytes_per_buffer ();
  return 0;
}
