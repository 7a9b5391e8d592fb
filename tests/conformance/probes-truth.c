/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What was measured in tables: no context, default streams, allocation, virtual
 * memory, captures seen from another thread, lost and reset contexts, forks,
 * graphs, two devices. */

#include "probe.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void probe_no_context (void);
void probe_default_streams (void);
void probe_allocation (void);
void probe_virtual (void);
void probe_capture_others (void);
void probe_lost (void);
void probe_lost_others (void);
void probe_lost_two_devices (void);
void probe_reset (void);
void probe_blocking_end (void);
void probe_fork (void);
void probe_uninitialized (void);
void probe_graph_launch (void);
void probe_two_devices (void);

static CUstream
new_stream (unsigned int flags)
{
  CUstream s = NULL;

  C (cuStreamCreate, &s, flags);
  return s;
}

static CUresult
new_context (CUcontext *context)
{
#if CUDA_VERSION >= 13000
  return C (cuCtxCreate, context, NULL, 0, device);
#else
  return C (cuCtxCreate, context, 0, device);
#endif
}

static gpointer
in_thread (GThreadFunc function, gpointer data)
{
  return g_thread_join (g_thread_new (NULL, function, data));
}

void
probe_uninitialized (void)
{
  CUdeviceptr p;
  CUcontext c;
  int n;

  only (C (cuDeviceGetCount, &n), "cuDeviceGetCount");
  only (C (cuMemAlloc, &p, 16), "cuMemAlloc");
  only (C (cuCtxGetCurrent, &c), "cuCtxGetCurrent");
  only (C (cuMemFree, 0), "cuMemFree(0)");
  only (C (cuInit, 1), "cuInit(1)");
  only (C (cuInit, 0), "cuInit(0)");
}

/* ---- no current context ---- */

static CUstream stream, other;
static CUdeviceptr memory, pool_memory, pool_more;

static gpointer
without_context (gpointer data)
{
  char bytes[16];
  CUdeviceptr p;
  CUcontext c = NULL;
  CUstream s;
  CUevent e;
  CUresult r;

  only (C (cuMemAlloc, &p, 16), "cuMemAlloc");
  only (C (cuStreamCreate, &s, 0), "cuStreamCreate");
  only (C (cuEventCreate, &e, 0), "cuEventCreate");
  only (C (cuMemcpyDtoH, bytes, memory, 16), "cuMemcpyDtoH");
  only (C (cuMemFreeAsync, pool_memory, NULL), "cuMemFreeAsync on null");
  only (C (cuMemFreeAsync, pool_memory, CU_STREAM_LEGACY), "cuMemFreeAsync on legacy");
  only (C (cuMemFreeAsync, pool_memory, CU_STREAM_PER_THREAD), "cuMemFreeAsync on per-thread");
  only (C (cuMemFreeAsync, pool_memory, stream), "cuMemFreeAsync on a created stream");
  only (C (cuStreamQuery, other), "cuStreamQuery");
  only (C (cuStreamSynchronize, other), "cuStreamSynchronize");
  r = ((CUresult (*) (CUstream, CUcontext *)) probe_symbol ("cuStreamGetCtx")) (stream, &c);
  ok (r, "cuStreamGetCtx", "it %d", c == primary);
  only (((CUresult (*) (CUstream, CUcontext *)) probe_symbol ("cuStreamGetCtx")) (CU_STREAM_LEGACY, &c), "cuStreamGetCtx of legacy");
  only (C (cuMemsetD8Async, memory, 1, 16, stream), "cuMemsetD8Async");
  only (C (cuMemcpyDtoDAsync, memory + 16, memory, 16, stream), "cuMemcpyDtoDAsync");
  only (C (cuMemFree, memory), "cuMemFree");
  r = C (cuCtxGetCurrent, &c);
  ok (r, "current after", "null %d", c == NULL);
  return data;
}

void
probe_no_context (void)
{
  stream = new_stream (CU_STREAM_NON_BLOCKING);
  other = new_stream (CU_STREAM_NON_BLOCKING);
  C (cuMemAlloc, &memory, 4096);
  C (cuMemAllocAsync, &pool_memory, 4096, stream);
  C (cuStreamSynchronize, stream);
  in_thread (without_context, NULL);
}

/* ---- default streams ---- */

static CUevent event;

static gpointer
pending_per_thread (gpointer data)
{
  C (cuCtxSetCurrent, primary);
  probe_block (CU_STREAM_PER_THREAD);
  return data;
}

void
probe_default_streams (void)
{
  CUstream non_blocking = new_stream (CU_STREAM_NON_BLOCKING), blocking = new_stream (CU_STREAM_DEFAULT);
  CUevent e[4];

  for (int i = 0; i < 4; i++)
    C (cuEventCreate, &e[i], CU_EVENT_DISABLE_TIMING);
  in_thread (pending_per_thread, NULL);
  C (cuEventRecord, e[1], CU_STREAM_PER_THREAD);
  C (cuEventRecord, e[2], non_blocking);
  C (cuEventRecord, e[3], blocking);
  g_usleep (100000);
  only (C (cuEventQuery, e[1]), "own per-thread, while an ended thread's is pending");
  only (C (cuEventQuery, e[2]), "non-blocking");
  only (C (cuEventQuery, e[3]), "blocking");
  C (cuEventRecord, e[0], CU_STREAM_LEGACY);
  g_usleep (100000);
  only (C (cuEventQuery, e[0]), "legacy");
  C (cuEventRecord, e[3], blocking);
  C (cuEventRecord, e[2], non_blocking);
  g_usleep (100000);
  only (C (cuEventQuery, e[3]), "blocking after legacy");
  only (C (cuEventQuery, e[2]), "non-blocking after legacy");
  probe_open ();
  only (C (cuEventSynchronize, e[0]), "legacy then");
  only (C (cuEventSynchronize, e[3]), "blocking then");
}

/* ---- allocation and free ---- */

void
probe_allocation (void)
{
  CUcontext c = NULL;
  CUdeviceptr p, q, lost_p = 0, lost_q = 0;
  CUmemoryPool pool = NULL, fallback;
  CUmemPoolProps props;
  void *h = &p;
  CUstream s = new_stream (CU_STREAM_NON_BLOCKING), t;
  int fd;
  CUresult r;

  only (C (cuMemAlloc, &p, 0), "cuMemAlloc(0)");
  p = 1;
  r = C (cuMemAllocAsync, &p, 0, s);
  ok (r, "cuMemAllocAsync(0)", "address %d", (int) p);
  r = C (cuMemAllocHost, &h, 0);
  ok (r, "cuMemAllocHost(0)", "null %d", h == NULL);
  only (C (cuMemAlloc, &p, (size_t) 1 << 60), "cuMemAlloc(2^60)");
  only (C (cuMemAllocAsync, &p, (size_t) 1 << 60, s), "cuMemAllocAsync(2^60)");
  only (C (cuMemFree, 0), "cuMemFree(0)");
  only (C (cuMemFreeAsync, 0, s), "cuMemFreeAsync(0)");
  C (cuMemAlloc, &p, 4096);
  C (cuMemAllocAsync, &q, 4096, s);
  C (cuStreamSynchronize, s);
  only (C (cuMemFree, 0x1234), "cuMemFree unknown");
  only (C (cuMemFree, p + 16), "cuMemFree interior");
  only (C (cuMemFreeAsync, 0x1234, s), "cuMemFreeAsync unknown");
  only (C (cuMemFreeAsync, q + 16, s), "cuMemFreeAsync interior");
  only (C (cuMemsetD8, p, 1, 4096), "memset to the end");
  only (C (cuMemsetD8, p, 1, 4097), "memset one past the end");
  only (C (cuMemsetD8, p, 1, 1 << 30), "memset far past");
  only (C (cuMemsetD16, p + 1, 1, 4), "memset D16 unaligned");
  only (C (cuMemsetD32, p + 2, 1, 4), "memset D32 unaligned");
  only (C (cuMemsetD8, p, 1, 0), "memset of 0 bytes");
  only (C (cuMemFreeAsync, p, s), "cuMemFreeAsync of cuMemAlloc memory");
  only (C (cuMemFree, q), "cuMemFree of cuMemAllocAsync memory");
  only (C (cuMemFree, q), "twice");
  C (cuMemAllocAsync, &q, 4096, s);
  C (cuMemFreeAsync, q, s);
  only (C (cuMemFreeAsync, q, s), "cuMemFreeAsync twice");

  memset (&props, 0, sizeof props);
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  C (cuMemPoolCreate, &pool, &props);
  C (cuMemAllocFromPoolAsync, &p, 4096, pool, s);
  only (C (cuMemPoolDestroy, pool), "cuMemPoolDestroy with live memory");
  only (C (cuMemsetD8Async, p, 1, 4096, s), "memset of it");
  only (C (cuMemFreeAsync, p, s), "free of it");
  only (C (cuStreamSynchronize, s), "synchronize");
  C (cuDeviceGetDefaultMemPool, &fallback, device);
  only (C (cuMemPoolDestroy, fallback), "destroy the default pool");
  only (C (cuMemPoolExportToShareableHandle, &fd, fallback, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0), "export the default pool");

  new_context (&c);
  t = new_stream (CU_STREAM_NON_BLOCKING);
  C (cuMemAllocAsync, &p, 4096, s);
  C (cuStreamSynchronize, s);
  only (C (cuMemFreeAsync, p, t), "free on a stream of another context");
  C (cuMemAllocAsync, &lost_q, 4096, t);
  C (cuStreamSynchronize, t);
  C (cuMemAlloc, &lost_p, 4096);
  C (cuCtxDestroy, c);
  only (C (cuMemFreeAsync, lost_q, s), "cuMemFreeAsync of memory of a destroyed context's stream");
  only (C (cuMemFree, lost_p), "cuMemFree of a destroyed context's memory");
}

/* ---- virtual memory ---- */

void
probe_virtual (void)
{
  CUmemAllocationProp prop;
  CUmemAccessDesc desc;
  CUmemGenericAllocationHandle h = 0, h2 = 0, h3 = 0;
  CUdeviceptr va = 0, vb = 0, big = 0;
  CUstream s = new_stream (CU_STREAM_NON_BLOCKING);
  int fd = -1;
  CUresult r;

  memset (&prop, 0, sizeof prop);
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  memset (&desc, 0, sizeof desc);
  desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  desc.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

  only (C (cuMemAddressReserve, &va, 0, 0, 0, 0), "reserve 0");
  only (C (cuMemAddressReserve, &va, 2 * MIB + 1, 0, 0, 0), "reserve unaligned");
  r = C (cuMemAddressReserve, &big, (size_t) 1 << 44, 0, 0, 0);
  only (r, "reserve 2^44");
  C (cuMemAddressFree, big, (size_t) 1 << 44);
  only (C (cuMemAddressReserve, &big, (size_t) 1 << 50, 0, 0, 0), "reserve 2^50");
  only (C (cuMemCreate, &h, 0, &prop, 0), "create 0");
  only (C (cuMemCreate, &h, 2 * MIB + 1, &prop, 0), "create unaligned");
  only (C (cuMemCreate, &h, (size_t) 1 << 42, &prop, 0), "create 2^42");
  C (cuMemAddressReserve, &va, 4 * MIB, 0, 0, 0);
  r = C (cuMemAddressReserve, &vb, 4 * MIB, 0, va + 4 * MIB, 0);
  ok (r, "reserve right behind", "granted %d", vb == va + 4 * MIB);
  C (cuMemCreate, &h, 2 * MIB, &prop, 0);
  C (cuMemCreate, &h2, 2 * MIB, &prop, 0);
  only (C (cuMemMap, va + 4096, 2 * MIB, 0, h, 0), "map unaligned");
  only (C (cuMemMap, va, 4 * MIB, 0, h, 0), "map more than the chunk");
  only (C (cuMemMap, va, 2 * MIB, 0, h, 0), "map");
  only (C (cuMemMap, va, 2 * MIB, 0, h2, 0), "map over it");
  only (C (cuMemMap, va + 2 * MIB, 2 * MIB, 0, h, 0), "the same chunk at another address");
  only (C (cuMemsetD8, va, 1, 16), "memset before access");
  only (C (cuMemSetAccess, va, 8 * MIB, &desc, 1), "access over a hole");
  C (cuMemMap, vb, 2 * MIB, 0, h2, 0);
  only (C (cuMemSetAccess, va, 6 * MIB, &desc, 1), "access across two reservations");
  only (C (cuMemsetD8, va, 1, 6 * MIB), "memset across them");
  only (C (cuMemAddressFree, va, 4 * MIB), "address free while mapped");
  only (C (cuMemFree, va), "cuMemFree of it");
  only (C (cuMemFreeAsync, va, s), "cuMemFreeAsync of it");
  r = C (cuMemRetainAllocationHandle, &h3, (void *) va);
  ok (r, "retain handle", "same %d", h3 == h);
  only (C (cuMemRelease, h), "release while mapped");
  only (C (cuMemRelease, h), "release again");
  only (C (cuMemRelease, h), "release once too often");
  only (C (cuMemUnmap, va + 2 * MIB + MIB, MIB), "unmap part");
  only (C (cuMemUnmap, va, 6 * MIB), "unmap across both");
  only (C (cuMemUnmap, va, 2 * MIB), "unmap again");
  only (C (cuMemRetainAllocationHandle, &h3, (void *) va), "retain handle of an unmapped range");
  only (C (cuMemAddressFree, va, 2 * MIB), "address free, other size");
  only (C (cuMemAddressFree, va, 8 * MIB), "address free, both at once");
  only (C (cuMemAddressFree, va, 4 * MIB), "address free");
  only (C (cuMemAddressFree, va, 4 * MIB), "address free twice");
  C (cuMemAddressFree, vb, 4 * MIB);
  only (C (cuMemSetAccess, va, 2 * MIB, &desc, 1), "access after address free");
  C (cuMemRelease, h2);
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  C (cuMemCreate, &h, 2 * MIB, &prop, 0);
  only (C (cuMemExportToShareableHandle, &fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0), "export");
  r = C (cuMemImportFromShareableHandle, &h2, (void *) (intptr_t) fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  ok (r, "import in the same process", "another handle %d", h2 != h);
  close (fd);
  only (C (cuMemImportFromShareableHandle, &h2, (void *) (intptr_t) -1, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), "import of a closed fd");
  fd = open ("/dev/null", O_RDONLY);
  only (C (cuMemImportFromShareableHandle, &h2, (void *) (intptr_t) fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), "import of another file's fd");
  close (fd);
}

/* ---- another thread's calls during a capture ---- */

static CUstream captured, unrelated;

typedef struct
{
  const char *name;
  CUresult (*call) (void);
} Call;

static CUmemoryPool a_pool;
static void *a_host;
static char *a_page;

static CUmemoryPool
make_pool (void)
{
  CUmemPoolProps props;
  CUmemoryPool pool = NULL;

  memset (&props, 0, sizeof props);
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  C (cuMemPoolCreate, &pool, &props);
  return pool;
}

static CUresult
call_free_async (void)
{
  return C (cuMemFreeAsync, pool_memory, unrelated);
}
static CUresult
call_alloc_async (void)
{
  CUdeviceptr p;
  return C (cuMemAllocAsync, &p, 512, unrelated);
}
static CUresult
call_free (void)
{
  return C (cuMemFree, memory);
}
static CUresult
call_free_host (void)
{
  return C (cuMemFreeHost, a_host);
}
static CUresult
call_unregister (void)
{
  return C (cuMemHostUnregister, a_page);
}
static CUresult
call_event_query (void)
{
  return C (cuEventQuery, event);
}
static CUresult
call_event_sync (void)
{
  return C (cuEventSynchronize, event);
}
static CUresult
call_stream_query (void)
{
  return C (cuStreamQuery, unrelated);
}
static CUresult
call_stream_sync (void)
{
  return C (cuStreamSynchronize, unrelated);
}
static CUresult
call_pool_create (void)
{
  return make_pool () != NULL ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}
static CUresult
call_pool_destroy (void)
{
  return C (cuMemPoolDestroy, a_pool);
}
static CUresult
call_pool_trim (void)
{
  return C (cuMemPoolTrimTo, a_pool, 0);
}
static CUresult
call_event_create (void)
{
  CUevent e;
  return C (cuEventCreate, &e, 0);
}
static CUresult
call_event_record (void)
{
  return C (cuEventRecord, event, unrelated);
}
static CUresult
call_event_destroy (void)
{
  CUevent e;
  C (cuEventCreate, &e, 0);
  return C (cuEventDestroy, e);
}
static CUresult
call_stream_destroy (void)
{
  CUstream s = new_stream (1);
  return C (cuStreamDestroy, s);
}
static CUresult
call_mem_info (void)
{
  size_t a, b;
  return C (cuMemGetInfo, &a, &b);
}
static CUresult
call_legacy_free (void)
{
  return C (cuMemFreeAsync, pool_more, CU_STREAM_LEGACY);
}
static CUresult
call_legacy_record (void)
{
  return C (cuEventRecord, event, CU_STREAM_LEGACY);
}
static CUresult
call_capturing_free (void)
{
  return C (cuMemFreeAsync, pool_memory, captured);
}
static CUresult
call_legacy_ask (void)
{
  CUstreamCaptureStatus s;
  return C (cuStreamIsCapturing, CU_STREAM_LEGACY, &s);
}

static const Call calls[] = {
  { "cuMemFreeAsync unrelated", call_free_async },
  { "cuMemAllocAsync unrelated", call_alloc_async },
  { "cuMemFree", call_free },
  { "cuMemFreeHost", call_free_host },
  { "cuMemHostUnregister", call_unregister },
  { "cuEventQuery", call_event_query },
  { "cuEventSynchronize", call_event_sync },
  { "cuStreamQuery", call_stream_query },
  { "cuStreamSynchronize", call_stream_sync },
  { "cuMemPoolCreate", call_pool_create },
  { "cuMemPoolDestroy", call_pool_destroy },
  { "cuMemPoolTrimTo", call_pool_trim },
  { "cuEventCreate", call_event_create },
  { "cuEventRecord unrelated", call_event_record },
  { "cuEventDestroy", call_event_destroy },
  { "cuStreamDestroy unrelated", call_stream_destroy },
  { "cuMemGetInfo", call_mem_info },
  { "cuMemFreeAsync legacy", call_legacy_free },
  { "cuEventRecord legacy", call_legacy_record },
  { "cuMemFreeAsync capturing", call_capturing_free },
  { "cuStreamIsCapturing legacy", call_legacy_ask },
};

static gboolean caller_relaxed;
static const Call *current_call;
static CUresult call_result;

static gpointer
call_it (gpointer data)
{
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

  C (cuCtxSetCurrent, primary);
  if (caller_relaxed)
    C (cuThreadExchangeStreamCaptureMode, &mode);
  call_result = current_call->call ();
  return data;
}

void
probe_capture_others (void)
{
  static const char *const kinds[] = { "non-blocking", "blocking", "per-thread" };

  a_page = aligned_alloc (4096, 4096);
  unrelated = new_stream (CU_STREAM_NON_BLOCKING);
  C (cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
  for (int kind = 0; kind < 3; kind++)
    {
      captured = kind == 2 ? CU_STREAM_PER_THREAD : new_stream (kind == 0 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);
      for (int relaxed = 0; relaxed < 2; relaxed++)
        {
          for (int by_relaxed = 0; by_relaxed < 2; by_relaxed++)
            {
              for (guint i = 0; i < G_N_ELEMENTS (calls); i++)
                {
                  CUgraph graph = NULL;
                  CUdeviceptr p;
                  CUresult r;
                  char *what;

                  /* On the capturing per-thread stream another thread cannot call. */
                  if (kind == 2 && calls[i].call == call_capturing_free)
                    continue;
                  C (cuMemAlloc, &memory, 512);
                  C (cuMemAlloc, &p, 512);
                  C (cuMemAllocAsync, &pool_memory, 512, unrelated);
                  C (cuMemAllocAsync, &pool_more, 512, unrelated);
                  C (cuMemAllocHost, &a_host, 512);
                  C (cuMemHostRegister, a_page, 4096, 0);
                  a_pool = make_pool ();
                  C (cuEventRecord, event, unrelated);
                  C (cuCtxSynchronize, );
                  C (cuStreamBeginCapture_v2, captured, relaxed ? CU_STREAM_CAPTURE_MODE_RELAXED : CU_STREAM_CAPTURE_MODE_GLOBAL);
                  C (cuMemsetD8Async, p, 1, 16, captured);
                  caller_relaxed = by_relaxed;
                  current_call = &calls[i];
                  in_thread (call_it, NULL);
                  r = C (cuStreamEndCapture, captured, &graph);
                  what = g_strdup_printf ("%s captured %s, caller %s: %s", kinds[kind], relaxed ? "relaxed" : "global",
                                          by_relaxed ? "relaxed" : "default", calls[i].name);
                  always (call_result, what, "capture %s", r == CUDA_SUCCESS ? "intact" : probe_result (r));
                  g_free (what);
                  if (graph != NULL)
                    C (cuGraphDestroy, graph);
                  C (cuCtxSynchronize, );
                  C (cuMemHostUnregister, a_page);
                  C (cuMemFree, p);
                }
            }
        }
    }
  free (a_page);
}

/* ---- lost, reset, destroyed ---- */

void
probe_lost (void)
{
  CUmemAllocationProp prop;
  CUmemAccessDesc desc;
  CUmemGenericAllocationHandle h, h2;
  CUdeviceptr va, vb, p, q;
  CUmemoryPool pool = make_pool ();
  CUevent e;
  void *host;
  CUstream s = new_stream (CU_STREAM_NON_BLOCKING);

  memset (&prop, 0, sizeof prop);
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  memset (&desc, 0, sizeof desc);
  desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  desc.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  C (cuMemAddressReserve, &va, 2 * MIB, 0, 0, 0);
  C (cuMemAddressReserve, &vb, 2 * MIB, 0, 0, 0);
  C (cuMemCreate, &h, 2 * MIB, &prop, 0);
  C (cuMemCreate, &h2, 2 * MIB, &prop, 0);
  C (cuMemMap, va, 2 * MIB, 0, h, 0);
  C (cuMemMap, vb, 2 * MIB, 0, h2, 0);
  C (cuMemSetAccess, va, 2 * MIB, &desc, 1);
  C (cuMemAlloc, &p, 512);
  C (cuMemAllocAsync, &q, 512, s);
  C (cuMemAllocHost, &host, 512);
  C (cuEventCreate, &e, 0);
  C (cuEventRecord, e, s);
  C (cuStreamSynchronize, s);
  probe_block (s);
  only (C (cuMemsetD8Async, va, 1, 2 * MIB, s), "memset behind pending work");
  only (C (cuMemUnmap, va, 2 * MIB), "unmap meanwhile");
  probe_open ();
  only (C (cuStreamSynchronize, s), "synchronize");
  only (C (cuMemFreeAsync, q, s), "cuMemFreeAsync");
  only (C (cuMemFree, p), "cuMemFree");
  only (C (cuMemFreeHost, host), "cuMemFreeHost");
  only (C (cuEventQuery, e), "cuEventQuery");
  only (C (cuEventDestroy, e), "cuEventDestroy");
  only (C (cuStreamDestroy, s), "cuStreamDestroy");
  only (C (cuMemUnmap, vb, 2 * MIB), "cuMemUnmap");
  only (C (cuMemRelease, h2), "cuMemRelease");
  only (C (cuMemAddressFree, vb, 2 * MIB), "cuMemAddressFree");
  only (C (cuMemPoolDestroy, pool), "cuMemPoolDestroy");
}

/* What an access error in one context is to the others of the process. */
static void
lose_another (void)
{
  CUmemAllocationProp prop;
  CUmemAccessDesc desc;
  CUmemGenericAllocationHandle h;
  CUdeviceptr va;
  CUcontext c, popped;
  CUstream s;

  new_context (&c);
  s = new_stream (CU_STREAM_NON_BLOCKING);
  memset (&prop, 0, sizeof prop);
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  memset (&desc, 0, sizeof desc);
  desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  desc.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  C (cuMemAddressReserve, &va, 2 * MIB, 0, 0, 0);
  C (cuMemCreate, &h, 2 * MIB, &prop, 0);
  C (cuMemMap, va, 2 * MIB, 0, h, 0);
  C (cuMemSetAccess, va, 2 * MIB, &desc, 1);
  probe_block (s);
  C (cuMemsetD8Async, va, 1, 2 * MIB, s);
  C (cuMemUnmap, va, 2 * MIB);
  probe_open ();
  only (C (cuStreamSynchronize, s), "synchronize the private context's stream");
  C (cuCtxPopCurrent, &popped);
}

void
probe_lost_others (void)
{
  CUdeviceptr p, q;
  CUcontext c;
  CUstream s = new_stream (CU_STREAM_NON_BLOCKING), t;
  CUevent e;

  C (cuMemAlloc, &p, 512);
  C (cuMemAllocAsync, &q, 512, s);
  C (cuStreamSynchronize, s);
  lose_another ();
  only (C (cuStreamQuery, s), "query a stream of the primary context");
  only (C (cuStreamSynchronize, s), "synchronize it");
  only (C (cuStreamCreate, &t, 0), "make a stream there");
  only (C (cuEventCreate, &e, 0), "make an event there");
  only (C (cuMemsetD8Async, p, 1, 512, s), "memset there");
  only (C (cuMemFreeAsync, q, s), "cuMemFreeAsync there");
  only (C (cuMemFree, p), "cuMemFree there");
  only (C (cuMemAlloc, &p, 512), "cuMemAlloc there");
  only (C (cuCtxSynchronize, ), "synchronize it as a whole");
  only (new_context (&c), "make another context");
}

void
probe_lost_two_devices (void)
{
  CUdeviceptr p;
  CUcontext c, popped;
  CUstream s;
  int n = 0;

  C (cuDeviceGetCount, &n);
  if (n < 2)
    exit (77);
  C (cuDevicePrimaryCtxRetain, &c, 1);
  C (cuCtxPushCurrent, c);
  s = new_stream (CU_STREAM_NON_BLOCKING);
  C (cuMemAlloc, &p, 512);
  C (cuCtxPopCurrent, &popped);
  lose_another ();
  C (cuCtxPushCurrent, c);
  only (C (cuStreamQuery, s), "query a stream of the other device");
  only (C (cuMemsetD8Async, p, 1, 512, s), "memset there");
  only (C (cuStreamSynchronize, s), "synchronize it");
  only (C (cuMemFree, p), "cuMemFree there");
  only (C (cuMemAlloc, &p, 512), "cuMemAlloc there");
  only (C (cuCtxSynchronize, ), "synchronize it as a whole");
  C (cuCtxPopCurrent, &popped);
}

void
probe_reset (void)
{
  unsigned long long id = 0, again = 0;
  CUstream s = new_stream (CU_STREAM_NON_BLOCKING);
  CUcontext c = NULL;
  CUdeviceptr p;
  CUresult r;

  C (cuMemAllocAsync, &p, 512, s);
  C (cuStreamSynchronize, s);
  C (cuCtxGetId, primary, &id);
  only (C (cuDevicePrimaryCtxReset, device), "reset");
  only (C (cuCtxGetId, primary, &again), "id of the old handle");
  only (C (cuMemFree, p), "free of pool memory, the destroyed context current");
  C (cuCtxSetCurrent, NULL);
  only (C (cuMemFree, p), "free of pool memory, no context current");
  r = C (cuDevicePrimaryCtxRetain, &c, device);
  C (cuCtxGetId, c, &again);
  ok (r, "retain again", "same handle %d, other id %d", c == primary, id != again);
}

static gpointer
open_later (gpointer data)
{
  g_usleep (200000);
  g_atomic_int_set ((int *) data, 1);
  probe_open ();
  return NULL;
}

void
probe_blocking_end (void)
{
  CUcontext c = NULL;
  CUstream s;
  int opened = 0;
  GThread *thread;
  CUresult r;

  new_context (&c);
  s = new_stream (CU_STREAM_NON_BLOCKING);
  probe_block (s);
  thread = g_thread_new (NULL, open_later, &opened);
  r = C (cuCtxDestroy, c);
  ok (r, "cuCtxDestroy with pending work", "waited %d", g_atomic_int_get (&opened));
  g_thread_join (thread);
  C (cuCtxSetCurrent, primary);
  s = new_stream (CU_STREAM_NON_BLOCKING);
  opened = 0;
  probe_block (s);
  thread = g_thread_new (NULL, open_later, &opened);
  r = C (cuDevicePrimaryCtxRelease, device);
  ok (r, "last cuDevicePrimaryCtxRelease with pending work", "waited %d", g_atomic_int_get (&opened));
  g_thread_join (thread);
}

void
probe_fork (void)
{
  CUdeviceptr p;
  int status = 0;
  pid_t child;

  C (cuMemAlloc, &p, 512);
  child = fork ();
  if (child == 0)
    {
      CUcontext c;
      CUstream s;

      only (C (cuInit, 0), "child: cuInit");
      only (C (cuMemFree, p), "child: cuMemFree");
      only (C (cuCtxGetCurrent, &c), "child: cuCtxGetCurrent");
      only (C (cuStreamCreate, &s, 0), "child: cuStreamCreate");
      _exit (0);
    }
  waitpid (child, &status, 0);
  say ("child ended %d", WIFEXITED (status) ? WEXITSTATUS (status) : -1);
  only (C (cuMemFree, p), "parent: cuMemFree");
}

/* ---- graphs ---- */

void
probe_graph_launch (void)
{
  CUstream s = new_stream (CU_STREAM_NON_BLOCKING);
  CUgraphExec exec = NULL, second;
  CUgraph graph = NULL;
  CUdeviceptr p, outside, q;
  CUresult r;

  C (cuMemAllocAsync, &outside, 512, s);
  C (cuStreamSynchronize, s);
  C (cuStreamBeginCapture_v2, s, CU_STREAM_CAPTURE_MODE_RELAXED);
  only (C (cuMemAllocAsync, &p, 4096, s), "allocate in a capture");
  only (C (cuMemsetD8Async, p, 5, 4096, s), "fill it there");
  only (C (cuMemFreeAsync, outside, s), "free outside memory there");
  only (C (cuStreamEndCapture, s, &graph), "end");
  only (C (cuGraphInstantiateWithFlags, &exec, graph, 0), "instantiate");
  only (C (cuGraphInstantiateWithFlags, &second, graph, 0), "instantiate while another lives");
  only (C (cuGraphLaunch, exec, s), "launch");
  only (C (cuGraphLaunch, exec, s), "launch before it was freed");
  only (C (cuMemFreeAsync, p, s), "free outside");
  only (C (cuGraphLaunch, exec, s), "launch after that");
  C (cuStreamSynchronize, s);
  {
    unsigned char back[16] = { 0 };

    C (cuMemcpyDtoH, back, p, 16);
    say ("filled %d", back[0] == 5 && back[15] == 5);
  }
  only (C (cuMemFree, p), "cuMemFree");
  only (C (cuGraphExecDestroy, exec), "destroy exec");
  only (C (cuGraphDestroy, graph), "destroy graph");

  C (cuStreamBeginCapture_v2, s, CU_STREAM_CAPTURE_MODE_GLOBAL);
  only (C (cuMemAlloc, &q, 512), "cuMemAlloc in a global capture");
  r = C (cuStreamEndCapture, s, &graph);
  only (r, "end");
  C (cuStreamBeginCapture_v2, s, CU_STREAM_CAPTURE_MODE_GLOBAL);
  only (C (cuStreamSynchronize, s), "synchronize the capturing stream");
  only (C (cuStreamEndCapture, s, &graph), "end");
}

/* ---- two devices ---- */

void
probe_two_devices (void)
{
  CUcontext c0 = primary, c1 = NULL, c;
  CUdeviceptr p0, p1, q, m1;
  CUstream s0, s1;
  CUmemoryPool pool;
  CUmemAccessDesc desc;
  CUevent e0, e1;
  int n = 0, where = -1;
  float ms;
  CUresult r;

  C (cuDeviceGetCount, &n);
  if (n < 2)
    exit (77);
  s0 = new_stream (CU_STREAM_NON_BLOCKING);
  C (cuEventCreate, &e0, 0);
  C (cuDevicePrimaryCtxRetain, &c1, 1);
  C (cuCtxPushCurrent, c1);
  s1 = new_stream (CU_STREAM_NON_BLOCKING);
  C (cuEventCreate, &e1, 0);
  C (cuMemAlloc, &m1, 4096);
  C (cuCtxPopCurrent, &c);

  C (cuMemAllocAsync, &p0, 4096, s0);
  C (cuStreamSynchronize, s0);
  only (C (cuMemFreeAsync, p0, s1), "pool memory of device 0 freed on a stream of device 1");
  C (cuDeviceGetDefaultMemPool, &pool, 0);
  only (C (cuMemAllocFromPoolAsync, &p0, 4096, pool, s1), "and allocated there");
  C (cuStreamSynchronize, s1);
  r = C (cuMemAllocAsync, &p1, 4096, s1);
  C (cuPointerGetAttribute, &where, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p1);
  ok (r, "cuMemAllocAsync on a stream of device 1, device 0 current", "on device %d", where);
  C (cuStreamSynchronize, s1);
  only (C (cuMemsetD8Async, p0, 1, 16, s1), "memset without access");
  only (C (cuMemcpyDtoDAsync, p1, p0, 16, s1), "copy without access");
  only (C (cuMemcpyPeerAsync, p1, c1, p0, c0, 16, s1), "peer copy without access");
  C (cuStreamSynchronize, s1);
  memset (&desc, 0, sizeof desc);
  desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  desc.location.id = 1;
  desc.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
  only (C (cuMemPoolSetAccess, pool, &desc, 1), "pool grant read only");
  desc.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  only (C (cuMemPoolSetAccess, pool, &desc, 1), "pool grant read and write");
  only (C (cuMemsetD8Async, p0, 1, 16, s1), "memset with access");
  C (cuStreamSynchronize, s1);
  desc.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  only (C (cuMemPoolSetAccess, pool, &desc, 1), "pool revoke");
  only (C (cuMemsetD8Async, p0, 1, 16, s1), "memset then");
  desc.location.id = 0;
  only (C (cuMemPoolSetAccess, pool, &desc, 1), "pool revoke own device");
  desc.location.id = 99;
  only (C (cuMemPoolSetAccess, pool, &desc, 1), "pool, device 99");
  only (C (cuMemPoolSetAccess, pool, &desc, 0), "pool, empty list");
  only (C (cuMemPoolSetAccess, pool, NULL, 0), "pool, no list");
  only (C (cuCtxEnablePeerAccess, c1, 0), "enable peer access");
  only (C (cuCtxEnablePeerAccess, c1, 0), "enable it twice");
  only (C (cuCtxDisablePeerAccess, c1), "disable it");
  only (C (cuCtxDisablePeerAccess, c1), "disable it twice");
  probe_block (s1);
  only (C (cuCtxSynchronize, ), "synchronize device 0 while device 1 is busy");
  C (cuEventRecord, e1, s1);
  only (C (cuStreamWaitEvent, s0, e1, 0), "wait for an event of device 1");
  only (C (cuStreamQuery, s0), "query then");
  probe_open ();
  only (C (cuStreamSynchronize, s0), "synchronize then");
  only (C (cuEventRecord, e0, s1), "record an event on a stream of another device");
  C (cuEventRecord, e0, s0);
  C (cuStreamSynchronize, s0);
  C (cuStreamSynchronize, s1);
  only (C (cuEventElapsedTime, &ms, e0, e1), "elapsed across devices");
  only (C (cuMemFreeAsync, p1, CU_STREAM_LEGACY), "memory of device 1 freed on the legacy stream, device 0 current");
  only (C (cuMemFreeAsync, p1, CU_STREAM_LEGACY), "a second free");
  (void) q;
}
