/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Host memory that devices use, and managed memory, where a library relies on more than was recorded at first. */

#include "probe.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void probe_host_pool_copies (void);
void probe_virtual_host (void);
void probe_managed_pool (void);
void probe_managed_parts (void);
void probe_registered_pages (void);
void probe_without_context (void);
void probe_managed_capture (void);

static CUstream
new_stream (void)
{
  CUstream s = NULL;

  C (cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
  return s;
}

/* ---- copies from and to a pool of the host's that the device was granted ---- */

static CUresult
copy_rows (CUmemorytype from_type, CUdeviceptr from, CUmemorytype to_type, CUdeviceptr to, CUstream s)
{
  CUDA_MEMCPY2D copy;

  memset (&copy, 0, sizeof copy);
  copy.srcMemoryType = from_type;
  copy.srcDevice = from;
  copy.srcHost = (void *) (gsize) from;
  copy.srcPitch = 512;
  copy.dstMemoryType = to_type;
  copy.dstDevice = to;
  copy.dstHost = (void *) (gsize) to;
  copy.dstPitch = 256;
  copy.WidthInBytes = 100;
  copy.Height = 4;
  return C (cuMemcpy2DAsync, &copy, s);
}

static gpointer
open_soon (gpointer opened)
{
  g_usleep (100000);
  g_atomic_int_set ((gint *) opened, TRUE);
  probe_open ();
  return NULL;
}

void
probe_host_pool_copies (void)
{
  char *page = mmap (NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CUmemPoolProps props;
  CUmemAccessDesc desc;
  CUmemoryPool pool = NULL;
  CUdeviceptr p = 0, q = 0, d = 0;
  CUstream s = new_stream ();
  void *pinned = NULL;
  CUresult r;

  memset (&props, 0, sizeof props);
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location.type = CU_MEM_LOCATION_TYPE_HOST;
  only (C (cuMemPoolCreate, &pool, &props), "of the host");
  memset (&desc, 0, sizeof desc);
  desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  desc.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  only (C (cuMemPoolSetAccess, pool, &desc, 1), "granted");
  C (cuMemAllocFromPoolAsync, &p, 4096, pool, s);
  C (cuMemAllocFromPoolAsync, &q, 4096, pool, s);
  C (cuMemAlloc, &d, 4096);
  C (cuMemAllocHost, &pinned, 4096);
  C (cuStreamSynchronize, s);
  probe_attributes ("granted", p, p);
  only (C (cuMemcpyAsync, p, q, 4096, s), "within it, kind not said");
  only (C (cuMemcpyDtoDAsync, p, q, 4096, s), "within it, as device memory");
  only (C (cuMemcpyAsync, p, (CUdeviceptr) (gsize) page, 4096, s), "from an ordinary page, kind not said");
  only (C (cuMemcpyAsync, (CUdeviceptr) (gsize) page, p, 4096, s), "to an ordinary page, kind not said");
  only (C (cuMemcpyHtoDAsync, p, page, 4096, s), "from an ordinary page, as device memory");
  only (C (cuMemcpyHtoDAsync, (CUdeviceptr) (gsize) pinned, (void *) (gsize) p, 4096, s), "to pinned memory");
  only (C (cuMemcpyDtoHAsync, (void *) (gsize) p, (CUdeviceptr) (gsize) pinned, 4096, s), "from pinned memory");
  only (copy_rows (CU_MEMORYTYPE_HOST, p, CU_MEMORYTYPE_DEVICE, d, s), "rows from it as host memory");
  only (copy_rows (CU_MEMORYTYPE_DEVICE, d, CU_MEMORYTYPE_HOST, p, s), "rows to it as host memory");
  only (copy_rows (CU_MEMORYTYPE_HOST, p, CU_MEMORYTYPE_HOST, q, s), "rows within it as host memory");
  C (cuStreamSynchronize, s);

  for (int i = 0; i < 4; i++)
    {
      static const char *const names[] = { "from it", "to it", "to pinned memory, as device memory", "within it, kind not said" };
      GThread *thread;
      gint opened = FALSE;
      char *what = g_strconcat (names[i], ", behind pending work", NULL);

      probe_block (s);
      thread = g_thread_new ("opens", open_soon, &opened);
      switch (i)
        {
        case 0:
          r = C (cuMemcpyHtoDAsync, d, (void *) (gsize) p, 4096, s);
          break;
        case 1:
          r = C (cuMemcpyDtoHAsync, (void *) (gsize) p, d, 4096, s);
          break;
        case 2:
          r = C (cuMemcpyDtoDAsync, (CUdeviceptr) (gsize) pinned, d, 4096, s);
          break;
        default:
          r = C (cuMemcpyAsync, p, q, 4096, s);
          break;
        }
      ok (r, what, "came back before that was done %d", !g_atomic_int_get (&opened));
      g_thread_join (thread);
      C (cuStreamSynchronize, s);
      g_free (what);
    }
}

/* ---- copies from and to virtual memory that is on the host ---- */

void
probe_virtual_host (void)
{
  char *page = mmap (NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CUmemAllocationProp prop;
  CUmemAccessDesc access[2];
  CUmemGenericAllocationHandle handle;
  CUdeviceptr p = 0, d = 0;
  CUstream s = new_stream ();
  size_t size = 2 * MIB;

  memset (&prop, 0, sizeof prop);
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
  memset (access, 0, sizeof access);
  access[0].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access[0].flags = access[1].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  access[1].location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
  only (C (cuMemCreate, &handle, size, &prop, 0), "create");
  C (cuMemAddressReserve, &p, size, 0, 0, 0);
  only (C (cuMemMap, p, size, 0, handle, 0), "map");
  only (C (cuMemSetAccess, p, size, access, 2), "access of both");
  C (cuMemAlloc, &d, 4096);
  probe_attributes ("mapped", p, p);
  only (C (cuMemsetD8Async, p, 1, 4096, s), "fill");
  only (C (cuMemcpyDtoDAsync, d, p, 4096, s), "copy from it");
  only (C (cuMemcpyDtoDAsync, p, d, 4096, s), "copy to it");
  only (C (cuMemcpyAsync, d, p, 4096, s), "copy from it, kind not said");
  only (C (cuMemcpyHtoDAsync, p, page, 4096, s), "upload");
  only (C (cuMemcpyDtoHAsync, page, p, 4096, s), "download");
  only (C (cuMemcpyHtoDAsync, d, (void *) (gsize) p, 4096, s), "copy from it as host memory");
  only (C (cuStreamSynchronize, s), "synchronize");
}

/* ---- pools of managed memory ---- */

static void
managed_pool (const char *what, int type, int id, CUstream s)
{
#if CUDA_VERSION >= 13000
  CUmemPoolProps props;
  CUmemoryPool pool = NULL;
  CUdeviceptr p = 0;
  size_t size = 65536;
  int preferred = 9, preferred_type = 9;
  CUresult r;

  memset (&props, 0, sizeof props);
  props.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED;
  props.location.type = (CUmemLocationType) type;
  props.location.id = id;
  r = C (cuMemPoolCreate, &pool, &props);
  only (r, what);
  if (r != CUDA_SUCCESS)
    return;
  only (C (cuMemAllocFromPoolAsync, &p, size, pool, s), "allocate");
  C (cuStreamSynchronize, s);
  probe_attributes ("its memory", p, p);
  C (cuMemRangeGetAttribute, &preferred, 4, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, p, size);
  r = C (cuMemRangeGetAttribute, &preferred_type, 4, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, p, size);
  ok (r, "preferred", "%d type %d", preferred, preferred_type);
  only (C (cuMemsetD8Async, p, 1, size, s), "fill");
  only (C (cuMemAdvise, p, size, CU_MEM_ADVISE_SET_READ_MOSTLY, props.location), "advise");
  props.location.type = CU_MEM_LOCATION_TYPE_HOST;
  only (C (cuMemPrefetchAsync, p, size, props.location, 0, s), "prefetch to the host");
  only (C (cuMemDiscardBatchAsync, &p, &size, 1, 0, s), "discard");
  only (C (cuMemFreeAsync, p, s), "free");
  C (cuStreamSynchronize, s);
  only (C (cuMemPoolDestroy, pool), "destroy");
#else
  (void) what;
  (void) type;
  (void) id;
  (void) s;
#endif
}

void
probe_managed_pool (void)
{
  CUstream s = new_stream ();

  managed_pool ("nowhere in particular", 0, 0, s);
  managed_pool ("of the device", CU_MEM_LOCATION_TYPE_DEVICE, 0, s);
  managed_pool ("of the host", CU_MEM_LOCATION_TYPE_HOST, 0, s);
}

/* ---- advice for a part of managed memory ---- */

void
probe_managed_parts (void)
{
#if CUDA_VERSION >= 13000
  const size_t half = 8 * 4096;
  CUmemLocation here;
  CUdeviceptr p = 0;
  int first = 9, second = 9, both = 9;

  memset (&here, 0, sizeof here);
  here.type = CU_MEM_LOCATION_TYPE_DEVICE;
  C (cuMemAllocManaged, &p, 2 * half, CU_MEM_ATTACH_GLOBAL);
  only (C (cuMemAdvise, p + half, half, CU_MEM_ADVISE_SET_READ_MOSTLY, here), "the second half is mostly read");
  only (C (cuMemAdvise, p + half, half, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, here), "and preferred on the device");
  C (cuMemRangeGetAttribute, &first, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, half);
  C (cuMemRangeGetAttribute, &second, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p + half, half);
  C (cuMemRangeGetAttribute, &both, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, 2 * half);
  say ("read mostly: first %d second %d both %d", first, second, both);
  C (cuMemRangeGetAttribute, &first, 4, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, p, half);
  C (cuMemRangeGetAttribute, &second, 4, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, p + half, half);
  C (cuMemRangeGetAttribute, &both, 4, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, p, 2 * half);
  say ("preferred: first %d second %d both %d", first, second, both);
  only (C (cuMemAdvise, p + 100, 100, CU_MEM_ADVISE_SET_READ_MOSTLY, here), "within a page");
  C (cuMemRangeGetAttribute, &first, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, 4096);
  C (cuMemRangeGetAttribute, &second, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p + 4096, 4096);
  say ("read mostly: that page %d the next %d", first, second);
#endif
}

/* ---- pages that the processor may only read ---- */

void
probe_registered_pages (void)
{
  char *pages = mmap (NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CUdeviceptr d = 0, p = 0;
  CUstream s = new_stream ();
  CUresult r;

  memset (pages, 7, 2 * 4096);
  mprotect (pages, 2 * 4096, PROT_READ);
  C (cuMemAlloc, &d, 4096);
  r = C (cuMemHostRegister, pages, 4096, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
  only (r, "pages to be read, not said");
  if (r == CUDA_SUCCESS)
    C (cuMemHostUnregister, pages);
  only (C (cuMemHostRegister, pages, 4096, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY), "said");
  r = C (cuMemHostGetDevicePointer, &p, pages, 0);
  ok (r, "device pointer", "the same %d", p == (CUdeviceptr) (gsize) pages);
  only (C (cuMemcpyDtoDAsync, d, (CUdeviceptr) (gsize) pages, 4096, s), "copy from it as device memory");
  only (C (cuMemcpyHtoDAsync, d, pages, 4096, s), "as host memory");
  only (C (cuStreamSynchronize, s), "synchronize");
  only (C (cuMemHostUnregister, pages), "unregister");

  /* Last: it may be noticed only when the context is lost. */
  only (C (cuMemHostRegister, pages + 4096, 4096, CU_MEMHOSTREGISTER_READ_ONLY), "another page");
  only (C (cuMemsetD8Async, (CUdeviceptr) (gsize) pages + 4096, 1, 16, s), "fill it");
  only (C (cuStreamSynchronize, s), "synchronize");
}

/* ---- calls on addresses while no context is current ---- */

void
probe_without_context (void)
{
  char *page = mmap (NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  unsigned int managed = 9;
  CUdeviceptr p = 0;
  CUcontext popped;
  void *pinned = NULL;
  CUresult r;

  C (cuMemAllocManaged, &p, 4096, CU_MEM_ATTACH_GLOBAL);
  C (cuMemAllocHost, &pinned, 4096);
  C (cuMemHostRegister, page, 4096, 0);
  C (cuCtxPopCurrent, &popped);
  r = C (cuPointerGetAttribute, &managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, p);
  ok (r, "whether it is managed", "%u", managed);
  only (C (cuMemHostUnregister, page), "cuMemHostUnregister");
  only (C (cuMemFreeHost, pinned), "cuMemFreeHost");
  only (C (cuMemFree, p), "cuMemFree of managed memory");
  C (cuCtxPushCurrent, popped);
}

/* ---- managed memory in a capture ---- */

void
probe_managed_capture (void)
{
#if CUDA_VERSION >= 13000
  CUmemLocation here;
  CUdeviceptr p = 0;
  CUstream s = new_stream ();
  CUgraph graph = NULL;
  size_t n = 0;
  CUresult r;

  memset (&here, 0, sizeof here);
  here.type = CU_MEM_LOCATION_TYPE_DEVICE;
  C (cuMemAllocManaged, &p, 4096, CU_MEM_ATTACH_GLOBAL);
  C (cuStreamBeginCapture, s, CU_STREAM_CAPTURE_MODE_RELAXED);
  only (C (cuMemPrefetchAsync, p, 4096, here, 0, s), "prefetch");
  r = C (cuStreamEndCapture, s, &graph);
  if (r == CUDA_SUCCESS)
    C (cuGraphGetNodes, graph, NULL, &n);
  ok (r, "end", "nodes %zu", n);
#endif
}
