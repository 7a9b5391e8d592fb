/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "probe.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

void probe_ctx_stack (void);
void probe_ctx_misc (void);
void probe_ctx_threads (void);
void probe_stream_make (void);
void probe_event (void);
void probe_host_func (void);
void probe_proc_address (void);
void probe_device (void);
void probe_null (int n);

void
probe_ctx_stack (void)
{
  CUcontext c = NULL, created = NULL;
  size_t a, b;
  CUdeviceptr p;
  CUdevice d;
  CUresult r;

  r = C (cuCtxGetCurrent, &c);
  ok (r, "current at first", "null %d", c == NULL);
  only (C (cuCtxPopCurrent, &c), "pop the empty stack");
  only (C (cuCtxPushCurrent, NULL), "push null");
  only (C (cuCtxSetCurrent, NULL), "set null");
  only (C (cuCtxGetDevice, &d), "device of no context");
  only (C (cuCtxSynchronize, ), "synchronize no context");
  only (C (cuMemGetInfo, &a, &b), "memory info of no context");
  r = C (cuCtxGetCurrent, &c);
  ok (r, "current after primary retain", "null %d", c == NULL);
  C (cuCtxPushCurrent, primary);
  only (C (cuCtxPushCurrent, primary), "push the same again");
  r = C (cuCtxPopCurrent, &c);
  ok (r, "pop", "primary %d", c == primary);
  r = C (cuCtxPopCurrent, &c);
  ok (r, "pop again", "primary %d", c == primary);
  only (C (cuCtxPopCurrent, &c), "pop once too often");
#if CUDA_VERSION >= 13000
  r = C (cuCtxCreate, &created, NULL, 0, device);
#else
  r = C (cuCtxCreate, &created, 0, device);
#endif
  ok (r, "create with null parameters", "new %d", created != NULL && created != primary);
  r = C (cuCtxGetCurrent, &c);
  ok (r, "current after create", "is the new one %d", c == created);
  C (cuCtxPushCurrent, primary);
  only (C (cuCtxSetCurrent, NULL), "set null with two on the stack");
  r = C (cuCtxGetCurrent, &c);
  ok (r, "current then", "null %d, below %d", c == NULL, c == created);
  C (cuCtxSetCurrent, primary);
  r = C (cuCtxPopCurrent, &c);
  ok (r, "pop after setting another", "that %d", c == primary);
  r = C (cuCtxGetCurrent, &c);
  ok (r, "current then", "null %d, created %d", c == NULL, c == created);
  C (cuCtxSetCurrent, created);
  only (C (cuCtxDestroy, created), "destroy the current one");
  r = C (cuCtxGetCurrent, &c);
  ok (r, "current after", "null %d, destroyed %d", c == NULL, c == created);
  only (C (cuMemAlloc, &p, 16), "allocate after");
}

static void
show_limit (const char *what, int limit)
{
  size_t v = 0;
  CUresult r = C (cuCtxGetLimit, &v, (CUlimit) limit);

  ok (r, what, "%zu", v);
}

void
probe_ctx_misc (void)
{
  int least = 99, greatest = 99;
  unsigned int flags = 0;
  CUfunc_cache cache = CU_FUNC_CACHE_PREFER_NONE;
  CUevent e;
  CUresult r;

  r = C (cuCtxGetStreamPriorityRange, &least, &greatest);
  ok (r, "priority range", "least %d greatest %d", least, greatest);
  only (C (cuCtxGetStreamPriorityRange, NULL, NULL), "priority range into nowhere");
  r = C (cuCtxGetFlags, &flags);
  ok (r, "flags of the primary", "0x%x", flags);
  only (C (cuCtxSetFlags, CU_CTX_SCHED_SPIN), "set flags spin");
  r = C (cuCtxGetFlags, &flags);
  ok (r, "flags after", "0x%x", flags);
  only (C (cuCtxSetFlags, 0x1000), "set flags 0x1000");
  show_limit ("limit stack size", CU_LIMIT_STACK_SIZE);
  show_limit ("limit printf", CU_LIMIT_PRINTF_FIFO_SIZE);
  show_limit ("limit heap", CU_LIMIT_MALLOC_HEAP_SIZE);
  show_limit ("limit 99", 99);
  only (C (cuCtxSetLimit, CU_LIMIT_STACK_SIZE, 4096), "set limit stack 4096");
  show_limit ("limit stack size after", CU_LIMIT_STACK_SIZE);
  only (C (cuCtxSetLimit, (CUlimit) 99, 4096), "set limit 99");
  r = C (cuCtxGetCacheConfig, &cache);
  ok (r, "cache configuration", "%d", (int) cache);
  only (C (cuCtxSetCacheConfig, (CUfunc_cache) 9), "set cache configuration 9");
  C (cuEventCreate, &e, 0);
#if CUDA_VERSION >= 12050
  only (C (cuCtxRecordEvent, primary, e), "record an event for the context");
  only (C (cuCtxWaitEvent, primary, e), "the context waits for an event");
#endif
  only (C (cuCtxResetPersistingL2Cache, ), "reset persisting L2");
}

static CUcontext shared;
static pthread_mutex_t step_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t step_cond = PTHREAD_COND_INITIALIZER;
static int step;

static void
reach (int n)
{
  pthread_mutex_lock (&step_lock);
  step = n;
  pthread_cond_broadcast (&step_cond);
  pthread_mutex_unlock (&step_lock);
}

static void
await (int n)
{
  pthread_mutex_lock (&step_lock);
  while (step < n)
    pthread_cond_wait (&step_cond, &step_lock);
  pthread_mutex_unlock (&step_lock);
}

static gpointer
other_thread (gpointer data)
{
  CUcontext c = NULL;
  CUdeviceptr p;
  CUresult r;

  r = C (cuCtxGetCurrent, &c);
  ok (r, "current of a new thread", "null %d", c == NULL);
  only (C (cuCtxPopCurrent, &c), "pop in a new thread");
  C (cuCtxSetCurrent, shared);
  reach (1);
  await (2);
  r = C (cuCtxGetCurrent, &c);
  ok (r, "current of a thread whose context another destroyed", "still it %d, null %d", c == shared, c == NULL);
  only (C (cuMemAlloc, &p, 16), "allocate there");
  only (C (cuCtxSynchronize, ), "synchronize there");
  only (C (cuCtxPopCurrent, &c), "pop there");
  return data;
}

void
probe_ctx_threads (void)
{
  GThread *thread;
  CUcontext c;

#if CUDA_VERSION >= 13000
  C (cuCtxCreate, &shared, NULL, 0, device);
#else
  C (cuCtxCreate, &shared, 0, device);
#endif
  C (cuCtxPopCurrent, &c);
  thread = g_thread_new (NULL, other_thread, NULL);
  await (1);
  only (C (cuCtxDestroy, shared), "destroy a context current in another thread");
  reach (2);
  g_thread_join (thread);
}

/* ---- streams ---- */

static void
show_stream (const char *name, CUstream s)
{
  CUstreamCaptureStatus status = (CUstreamCaptureStatus) 99;
  unsigned int flags = 99;
  int priority = 99;
  CUdevice d = 99;
  CUcontext c = NULL;
  char *what;
  CUresult r;

#define SHOW(last, call, facts, ...)         \
  what = g_strconcat (name, " " last, NULL); \
  r = call;                                  \
  ok (r, what, facts, __VA_ARGS__);          \
  g_free (what)

  SHOW ("flags", C (cuStreamGetFlags, s, &flags), "%u", flags);
  SHOW ("priority", C (cuStreamGetPriority, s, &priority), "%d", priority);
#if CUDA_VERSION >= 12080
  SHOW ("device", C (cuStreamGetDevice, s, &d), "%d", d);
#endif
  what = g_strconcat (name, " context", NULL);
  r = ((CUresult (*) (CUstream, CUcontext *)) probe_symbol ("cuStreamGetCtx")) (s, &c);
  ok (r, what, "current %d", c == primary);
  g_free (what);
  SHOW ("capturing", C (cuStreamIsCapturing, s, &status), "%d", (int) status);
#undef SHOW
  what = g_strconcat (name, " query", NULL);
  only (C (cuStreamQuery, s), what);
  g_free (what);
  what = g_strconcat (name, " synchronize", NULL);
  only (C (cuStreamSynchronize, s), what);
  g_free (what);
}

void
probe_stream_make (void)
{
  static const int priorities[] = { 0, -1, -5, -6, -100, 1, 100 };
  unsigned long long ids[5] = { 0 };
  CUstream s, b;
  CUresult r;

  for (guint i = 0; i < G_N_ELEMENTS (priorities); i++)
    {
      char *what = g_strdup_printf ("priority %d", priorities[i]);
      int p = 99;

      r = C (cuStreamCreateWithPriority, &s, CU_STREAM_NON_BLOCKING, priorities[i]);
      if (r == CUDA_SUCCESS)
        C (cuStreamGetPriority, s, &p);
      ok (r, what, "read back %d", p);
      g_free (what);
    }
  only (C (cuStreamCreate, &s, 2), "flags 2");
  only (C (cuStreamCreate, &s, 3), "flags 3");
  only (C (cuStreamCreateWithPriority, &s, 2, 0), "with priority, flags 2");
  C (cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
  C (cuStreamCreate, &b, CU_STREAM_DEFAULT);
  show_stream ("non-blocking", s);
  show_stream ("blocking", b);
  show_stream ("null", NULL);
  show_stream ("legacy", CU_STREAM_LEGACY);
  show_stream ("per-thread", CU_STREAM_PER_THREAD);
  C (cuStreamGetId, s, &ids[0]);
  C (cuStreamGetId, b, &ids[1]);
  C (cuStreamGetId, CU_STREAM_LEGACY, &ids[2]);
  C (cuStreamGetId, CU_STREAM_PER_THREAD, &ids[3]);
  C (cuStreamGetId, NULL, &ids[4]);
  say ("ids distinct %d, null is legacy %d",
       ids[0] != ids[1] && ids[0] != ids[2] && ids[0] != ids[3] && ids[1] != ids[2] && ids[1] != ids[3] && ids[2] != ids[3], ids[4] == ids[2]);
  only (C (cuStreamCopyAttributes, s, b), "copy attributes");
  only (C (cuStreamDestroy, s), "destroy");
}

/* ---- events ---- */

void
probe_event (void)
{
  static const unsigned int flags[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 255 };
  CUevent a, b, e, f, untimed, ipc, opened;
  CUipcEventHandle handle;
  float ms = 0;
  CUstream s;
  CUresult r;

  C (cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
  for (guint i = 0; i < G_N_ELEMENTS (flags); i++)
    {
      char *what = g_strdup_printf ("create flags %u", flags[i]);

      only (C (cuEventCreate, &e, flags[i]), what);
      g_free (what);
    }
  C (cuEventCreate, &a, 0);
  C (cuEventCreate, &b, 0);
  C (cuEventCreate, &e, 0);
  C (cuEventCreate, &f, 0);
  C (cuEventCreate, &untimed, CU_EVENT_DISABLE_TIMING);
  only (C (cuEventElapsedTime, &ms, a, b), "elapsed, both never recorded");
  C (cuEventRecord, a, s);
  C (cuStreamSynchronize, s);
  only (C (cuEventElapsedTime, &ms, a, b), "elapsed, end never recorded");
  only (C (cuEventElapsedTime, &ms, b, a), "elapsed, start never recorded");
  probe_block (s);
  C (cuEventRecord, b, s);
  only (C (cuEventQuery, b), "query pending");
  only (C (cuEventElapsedTime, &ms, a, b), "elapsed, end pending");
  only (C (cuEventElapsedTime, &ms, b, a), "elapsed, start pending");
  probe_open ();
  C (cuEventRecord, untimed, s);
  C (cuStreamSynchronize, s);
  only (C (cuEventElapsedTime, &ms, a, untimed), "elapsed, end without timing");
  r = C (cuEventElapsedTime, &ms, a, b);
  ok (r, "elapsed", "positive %d", ms > 0);
  r = C (cuEventElapsedTime, &ms, b, a);
  ok (r, "elapsed, reversed", "negative %d", ms < 0);
  r = C (cuEventElapsedTime, &ms, a, a);
  ok (r, "elapsed, same event", "zero %d", ms == 0);
  only (C (cuEventRecordWithFlags, a, s, CU_EVENT_RECORD_EXTERNAL), "record with flags external outside capture");
  only (C (cuEventRecordWithFlags, a, s, 2), "record with flags 2");
  only (C (cuEventRecord, a, NULL), "record on null");
  only (C (cuEventRecord, a, CU_STREAM_PER_THREAD), "record on per-thread");
  only (C (cuEventCreate, &e, CU_EVENT_BLOCKING_SYNC), "blocking-sync event");
  C (cuEventRecord, e, s);
  only (C (cuEventSynchronize, e), "synchronize");
  only (C (cuIpcGetEventHandle, &handle, a), "IPC handle of a plain event");
  C (cuEventCreate, &ipc, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
  only (C (cuIpcGetEventHandle, &handle, ipc), "IPC handle of an interprocess event");
  only (C (cuIpcOpenEventHandle, &opened, handle), "opened in the same process");
  only (C (cuEventRecord, ipc, s), "record the interprocess event");
  only (C (cuEventSynchronize, ipc), "synchronize");
  only (C (cuEventQuery, ipc), "query");
  probe_block (s);
  C (cuEventRecord, f, s);
  only (C (cuEventDestroy, f), "destroy a pending event");
  probe_open ();
  only (C (cuStreamSynchronize, s), "stream synchronize after");
}

/* ---- host functions ---- */

static char order[16];
static int n_order, on_caller, n_ran;
static GThread *caller;

static void CUDA_CB
add_letter (void *data)
{
  order[n_order++] = (char) GPOINTER_TO_INT (data);
  on_caller += g_thread_self () == caller;
}

static void CUDA_CB
ran (void *data)
{
  g_atomic_int_inc (&n_ran);
  (void) data;
}

static struct
{
  CUstream other;
  CUevent event;
  CUdeviceptr memory, pool_memory;
} inside;

static struct
{
  const char *what;
  CUresult result;
} answers[20];
static int n_answers;

static void
note (const char *what, CUresult result)
{
  answers[n_answers].what = what;
  answers[n_answers++].result = result;
}

static void CUDA_CB
call_inside (void *data)
{
  CUdeviceptr p;
  CUcontext c;
  CUevent e;
  int n;
  size_t a, b;

  (void) data;
  note ("inside: cuMemAlloc", C (cuMemAlloc, &p, 16));
  note ("inside: cuMemFree", C (cuMemFree, inside.memory));
  note ("inside: cuMemFreeAsync", C (cuMemFreeAsync, inside.pool_memory, inside.other));
  note ("inside: cuStreamQuery", C (cuStreamQuery, inside.other));
  note ("inside: cuEventCreate", C (cuEventCreate, &e, 0));
  note ("inside: cuEventQuery", C (cuEventQuery, inside.event));
  note ("inside: cuCtxGetCurrent", C (cuCtxGetCurrent, &c));
  note ("inside: cuDeviceGetCount", C (cuDeviceGetCount, &n));
  note ("inside: cuDriverGetVersion", C (cuDriverGetVersion, &n));
  note ("inside: cuMemsetD8Async", C (cuMemsetD8Async, inside.memory, 1, 16, inside.other));
  note ("inside: cuCtxSetCurrent", C (cuCtxSetCurrent, primary));
  note ("inside: cuMemGetInfo", C (cuMemGetInfo, &a, &b));
  note ("inside: cuEventRecord", C (cuEventRecord, inside.event, inside.other));
  note ("inside: cuLaunchHostFunc", C (cuLaunchHostFunc, inside.other, ran, NULL));
  note ("inside: cuPointerGetAttribute", C (cuPointerGetAttribute, &n, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, inside.memory));
  note ("inside: cuInit", C (cuInit, 0));
}

static int other_ran;

static void CUDA_CB
other_runs (void *data)
{
  g_atomic_int_set (&other_ran, 1);
  (void) data;
}

void
probe_host_func (void)
{
  CUstream s, t;

  caller = g_thread_self ();
  C (cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
  C (cuStreamCreate, &t, CU_STREAM_NON_BLOCKING);
  for (int i = 'a'; i <= 'e'; i++)
    C (cuLaunchHostFunc, s, add_letter, GINT_TO_POINTER (i));
  C (cuStreamSynchronize, s);
  say ("order %s, on the calling thread %d", order, on_caller);
  only (C (cuLaunchHostFunc, s, NULL, NULL), "without function");
  only (C (cuLaunchHostFunc, NULL, ran, NULL), "on null");
  only (C (cuLaunchHostFunc, CU_STREAM_LEGACY, ran, NULL), "on legacy");
  only (C (cuLaunchHostFunc, CU_STREAM_PER_THREAD, ran, NULL), "on per-thread");
  C (cuCtxSynchronize, );
  say ("ran %d", g_atomic_int_get (&n_ran));
  probe_block (s);
  /* It has to run by then, also where work waits for 50 ms of silence. */
  g_usleep (200000);
  C (cuLaunchHostFunc, t, other_runs, NULL);
  g_usleep (200000);
  say ("another stream's host function runs while one blocks: %d", g_atomic_int_get (&other_ran));
  probe_open ();
  C (cuCtxSynchronize, );
  inside.other = t;
  C (cuEventCreate, &inside.event, 0);
  C (cuMemAlloc, &inside.memory, 4096);
  C (cuMemAllocAsync, &inside.pool_memory, 4096, t);
  C (cuStreamSynchronize, t);
  C (cuLaunchHostFunc, s, call_inside, NULL);
  C (cuStreamSynchronize, s);
  for (int i = 0; i < n_answers; i++)
    only (answers[i].result, answers[i].what);
  only (C (cuCtxSynchronize, ), "context usable after");
}

/* ---- cuGetProcAddress ---- */

static CUresult
look_up (const char *name, int version, cuuint64_t flags, void **pointer, int *status)
{
  CUdriverProcAddressQueryResult query = (CUdriverProcAddressQueryResult) 9;
  CUresult r = C (cuGetProcAddress_v2, name, pointer, version, flags, &query);

  *status = (int) query;
  return r;
}

static void
show_proc (const char *name, int version, cuuint64_t flags)
{
  char *what = g_strdup_printf ("%s, version %d, flags %d", *name != '\0' ? name : "(empty name)", version, (int) flags);
  void *pointer = (void *) what;
  int status = 9;
  CUresult r = look_up (name, version, flags, &pointer, &status);

  always (r, what, "status %d pointer null %d", status, pointer == NULL);
  g_free (what);
}

static void *
proc (const char *name, int version, cuuint64_t flags)
{
  void *pointer = NULL;
  int status;

  look_up (name, version, flags, &pointer, &status);
  return pointer;
}

void
probe_proc_address (void)
{
  int version = 0;
  void *p = NULL;
  CUresult r;

  show_proc ("cuInit", 13000, 0);
  say ("before cuInit");
  r = C (cuDriverGetVersion, &version);
  ok (r, "cuDriverGetVersion before cuInit", "%d", version);
  C (cuInit, 0);
  show_proc ("cuMemAlloc", 13000, 0);
  show_proc ("cuMemAlloc", 2000, 0);
  show_proc ("cuMemAlloc_v2", 13000, 0);
  show_proc ("cuMemAllocAsync", 13000, 0);
  show_proc ("cuMemAllocAsync", 10000, 0);
  show_proc ("cuFooBar", 13000, 0);
  show_proc ("", 13000, 0);
  show_proc ("cumemalloc", 13000, 0);
  show_proc ("cuMemAlloc", 99000, 0);
  show_proc ("cuMemAlloc", 0, 0);
  show_proc ("cuMemAlloc", -1, 0);
  show_proc ("cuMemcpyBatchAsync", 13000, 0);
  show_proc ("cuMemcpyBatchAsync", 12070, 0);
  show_proc ("cuGetProcAddress", 13000, 0);
  show_proc ("cuStreamQuery", 13000, 1);
  show_proc ("cuStreamQuery", 13000, 2);
  show_proc ("cuStreamQuery", 13000, 3);
  show_proc ("cuStreamQuery", 13000, 4);
  show_proc ("cuStreamQuery_ptsz", 13000, 0);
  say ("per-thread cuStreamQuery differs %d, legacy is the default %d, cuMemAlloc has one form %d",
       proc ("cuStreamQuery", 13000, 2) != proc ("cuStreamQuery", 13000, 1), proc ("cuStreamQuery", 13000, 0) == proc ("cuStreamQuery", 13000, 1),
       proc ("cuMemAlloc", 13000, 2) == proc ("cuMemAlloc", 13000, 1));
  say ("cuCtxCreate of 3020, 11040, 12050 and 13000 differ %d %d %d", proc ("cuCtxCreate", 3020, 0) != proc ("cuCtxCreate", 11040, 0),
       proc ("cuCtxCreate", 11040, 0) != proc ("cuCtxCreate", 12050, 0), proc ("cuCtxCreate", 12050, 0) != proc ("cuCtxCreate", 13000, 0));
  say ("cuMemAdvise of 8000 and 13000 differ %d; cuEventElapsedTime of 2000 and 13000 differ %d",
       proc ("cuMemAdvise", 8000, 0) != proc ("cuMemAdvise", 13000, 0), proc ("cuEventElapsedTime", 2000, 0) != proc ("cuEventElapsedTime", 13000, 0));
  say ("found pointers are the exported functions %d",
       proc ("cuMemAlloc", 13000, 0) == probe_symbol ("cuMemAlloc_v2") && proc ("cuStreamQuery", 13000, 2) == probe_symbol ("cuStreamQuery_ptsz"));
  only (C (cuGetProcAddress_v2, "cuMemAlloc", &p, 13000, 0, NULL), "without status");
  only (C (cuGetProcAddress_v2, "cuFooBar", &p, 13000, 0, NULL), "unknown without status");
}

/* ---- devices ---- */

static void
show_attribute (const char *name, int attribute)
{
  char *what = g_strdup_printf ("attribute %s", name);
  int v = -12345;
  CUresult r = C (cuDeviceGetAttribute, &v, (CUdevice_attribute) attribute, device);

  ok (r, what, "%d", v);
  g_free (what);
}

static void
show_name (int room)
{
  char *what = g_strdup_printf ("name, room %d", room);
  char name[256] = "";
  CUresult r = C (cuDeviceGetName, name, room, device);

  ok (r, what, "%s", name);
  g_free (what);
}

void
probe_device (void)
{
  static const struct
  {
    const char *name;
    int number;
  } attributes[] = {
    { "MAX_THREADS_PER_BLOCK", 1 },
    { "WARP_SIZE", 10 },
    { "MULTIPROCESSOR_COUNT", 16 },
    { "COMPUTE_CAPABILITY_MAJOR", 75 },
    { "COMPUTE_CAPABILITY_MINOR", 76 },
    { "MAX_PITCH", 11 },
    { "TEXTURE_ALIGNMENT", 14 },
    { "TEXTURE_PITCH_ALIGNMENT", 51 },
    { "ASYNC_ENGINE_COUNT", 40 },
    { "INTEGRATED", 18 },
    { "UNIFIED_ADDRESSING", 41 },
    { "CAN_MAP_HOST_MEMORY", 19 },
    { "CONCURRENT_KERNELS", 31 },
    { "COMPUTE_MODE", 20 },
    { "TCC_DRIVER", 35 },
    { "MANAGED_MEMORY", 83 },
    { "STREAM_PRIORITIES_SUPPORTED", 78 },
    { "HOST_REGISTER_SUPPORTED", 99 },
    { "CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM", 91 },
    { "READ_ONLY_HOST_REGISTER_SUPPORTED", 113 },
    { "PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES", 100 },
    { "DIRECT_MANAGED_MEM_ACCESS_FROM_HOST", 101 },
    { "VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED", 102 },
    { "HANDLE_TYPE_FABRIC_SUPPORTED", 128 },
    { "MEMORY_POOLS_SUPPORTED", 115 },
    { "HOST_MEMORY_POOLS_SUPPORTED", 144 },
    { "HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED", 141 },
    { "HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED", 145 },
    { "GPU_DIRECT_RDMA_WRITES_ORDERING", 118 },
    { "IPC_EVENT_SUPPORTED", 125 },
    { "CAN_USE_64_BIT_STREAM_MEM_OPS", 122 },
    { "CAN_USE_STREAM_WAIT_VALUE_NOR", 123 },
    { "NUMA_CONFIG", 130 },
    { "MEM_DECOMPRESS_ALGORITHM_MASK", 136 },
    { "0", 0 },
    { "9999", 9999 },
  };
  CUdevice d;
  int v;

  for (guint i = 0; i < G_N_ELEMENTS (attributes); i++)
    show_attribute (attributes[i].name, attributes[i].number);
  only (C (cuDeviceGetAttribute, &v, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 99), "attribute of device 99");
  only (C (cuDeviceGetAttribute, &v, CU_DEVICE_ATTRIBUTE_WARP_SIZE, -1), "attribute of device -1");
  only (C (cuDeviceGet, &d, -1), "cuDeviceGet(-1)");
  show_name (256);
  show_name (12);
  show_name (7);
  show_name (1);
}

/* ---- null arguments ---- */

void
probe_null (int n)
{
  CUdeviceptr p = 0, dp = 0;
  CUmemoryPool pool = NULL;
  CUdevice d = device;
  size_t vp;
  CUstream s;

  C (cuMemAlloc, &p, 4096);
  C (cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
  C (cuDeviceGetDefaultMemPool, &pool, d);
  (void) vp;
  (void) dp;
#define CASE(number, text, call) \
  case number:                   \
    only (call, text);           \
    break
  switch (n)
    {
      CASE (0, "cuDeviceGet(NULL, 0)", C (cuDeviceGet, NULL, 0));
      CASE (2, "cuDriverGetVersion(NULL)", C (cuDriverGetVersion, NULL));
      CASE (4, "cuDeviceGetName(NULL, 10, d)", C (cuDeviceGetName, NULL, 10, d));
      CASE (8, "cuCtxGetCurrent(NULL)", C (cuCtxGetCurrent, NULL));
      CASE (10, "cuCtxDestroy(NULL)", C (cuCtxDestroy, NULL));
      CASE (12, "cuCtxEnablePeerAccess(NULL, 0)", C (cuCtxEnablePeerAccess, NULL, 0));
      CASE (14, "cuMemAllocAsync(NULL, 16, s)", C (cuMemAllocAsync, NULL, 16, s));
      CASE (16, "cuMemAllocManaged(NULL, 16, 1)", C (cuMemAllocManaged, NULL, 16, 1));
      CASE (18, "cuMemcpyHtoD(p, NULL, 16)", C (cuMemcpyHtoD, p, NULL, 16));
      CASE (20, "cuPointerGetAttribute(NULL, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p)", C (cuPointerGetAttribute, NULL, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
      CASE (22, "cuMemAddressReserve(NULL, 2 * M, 0, 0, 0)", C (cuMemAddressReserve, NULL, 2 * MIB, 0, 0, 0));
      CASE (24, "cuMemGetAllocationGranularity(NULL, &vp, CU_MEM_ALLOC_GRANULARITY_MINIMUM)",
            C (cuMemGetAllocationGranularity, NULL, (const CUmemAllocationProp *) (void *) &(CUmemAllocationProp){ 0 }, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
      CASE (26, "cuMemPoolCreate(&dp, NULL)", C (cuMemPoolCreate, (CUmemoryPool *) (void *) &dp, NULL));
      CASE (28, "cuDeviceSetMemPool(d, NULL)", C (cuDeviceSetMemPool, d, NULL));
      CASE (30, "cuMemPoolGetAttribute(dp, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, NULL)", C (cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, NULL));
      CASE (32, "cuDeviceGetDefaultMemPool(NULL, d)", C (cuDeviceGetDefaultMemPool, NULL, d));
      CASE (34, "cuStreamGetFlags(s, NULL)", C (cuStreamGetFlags, s, NULL));
      CASE (36, "cuStreamIsCapturing(s, NULL)", C (cuStreamIsCapturing, s, NULL));
      CASE (38, "cuEventCreate(NULL, 0)", C (cuEventCreate, NULL, 0));
      CASE (40, "cuEventQuery(NULL)", C (cuEventQuery, NULL));
      CASE (42, "cuEventDestroy(NULL)", C (cuEventDestroy, NULL));
      CASE (46, "cuGraphDestroy(NULL)", C (cuGraphDestroy, NULL));
      CASE (48, "cuGraphLaunch(NULL, s)", C (cuGraphLaunch, NULL, s));
      CASE (50, "cuGraphAddEmptyNode(NULL, NULL, NULL, 0)", C (cuGraphAddEmptyNode, NULL, NULL, NULL, 0));
      CASE (52, "cuUserObjectRelease(NULL, 1)", C (cuUserObjectRelease, NULL, 1));
      CASE (56, "cuMemSetAccess(p, 4096, NULL, 1)", C (cuMemSetAccess, p, 4096, NULL, 1));
    default:
      break;
    }
#undef CASE
}
