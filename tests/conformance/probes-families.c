/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Families of calls and values, as a whole. */

#include "probe.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

void probe_ptr_kinds (void);
void probe_pool_props (void);
void probe_registered (void);
void probe_error_names (void);
void probe_vmm_borders (void);

/* ---- pointer attributes of each other kind of memory ---- */

void
probe_ptr_kinds (void)
{
  CUmemPoolProps props;
  CUmemoryPool pool = NULL;
  CUdeviceptr p = 0, q;
  CUstream s = NULL;
  char *pages = mmap (NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CUDA_MEM_ALLOC_NODE_PARAMS node_params;
  CUgraphNode node;
  CUgraphExec exec;
  CUgraph graph;
  void *host;

  C (cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
  C (cuMemAllocHost, &host, 8192);
  probe_attributes ("cuMemAllocHost(8192) +4096", (uintptr_t) host + 4096, (uintptr_t) host);
  C (cuMemHostAlloc, &host, 8192, CU_MEMHOSTALLOC_WRITECOMBINED);
  probe_attributes ("cuMemHostAlloc write-combined", (uintptr_t) host, (uintptr_t) host);
  C (cuMemHostRegister, pages, 2 * 4096, 0);
  probe_attributes ("registered", (uintptr_t) pages, (uintptr_t) pages);
  probe_attributes ("registered +1", (uintptr_t) pages + 1, (uintptr_t) pages);
  C (cuMemHostUnregister, pages);
  probe_attributes ("unregistered", (uintptr_t) pages, (uintptr_t) pages);
  C (cuMemAllocManaged, &p, 4096, CU_MEM_ATTACH_GLOBAL);
  probe_attributes ("managed", p, p);
  C (cuMemAllocManaged, &p, 4096, CU_MEM_ATTACH_HOST);
  probe_attributes ("managed, attached to the host", p, p);
  C (cuMemAllocAsync, &p, 1000, s);
  probe_attributes ("default pool, not ordered yet", p, p);
  C (cuStreamSynchronize, s);
  probe_attributes ("default pool", p, p);
  C (cuMemFreeAsync, p, s);
  C (cuStreamSynchronize, s);
  probe_attributes ("default pool, freed", p, p);

  memset (&props, 0, sizeof props);
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location.type = CU_MEM_LOCATION_TYPE_HOST;
  C (cuMemPoolCreate, &pool, &props);
  C (cuMemAllocFromPoolAsync, &p, 1000, pool, s);
  C (cuStreamSynchronize, s);
  probe_attributes ("pool of the host", p, p);
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  C (cuMemPoolCreate, &pool, &props);
  C (cuMemAllocFromPoolAsync, &p, 1000, pool, s);
  C (cuStreamSynchronize, s);
  probe_attributes ("pool for sharing", p, p);

  memset (&node_params, 0, sizeof node_params);
  node_params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  node_params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  node_params.bytesize = 1000;
  C (cuGraphCreate, &graph, 0);
  C (cuGraphAddMemAllocNode, &node, graph, NULL, 0, &node_params);
  q = node_params.dptr;
  probe_attributes ("of a graph", q, q);
  C (cuGraphInstantiateWithFlags, &exec, graph, 0);
  C (cuGraphLaunch, exec, s);
  C (cuStreamSynchronize, s);
  probe_attributes ("of a graph, launched", q, q);
  C (cuMemFreeAsync, q, s);
  C (cuStreamSynchronize, s);
  probe_attributes ("of a graph, freed", q, q);
}

/* ---- properties of pools ---- */

static void
try_pool (const char *what, int type, int location, int id, int handles, size_t max_size)
{
  CUmemPoolProps props;
  CUmemoryPool pool = NULL;
  cuuint64_t threshold = 1;
  CUresult r;

  memset (&props, 0, sizeof props);
  props.allocType = (CUmemAllocationType) type;
  props.location.type = (CUmemLocationType) location;
  props.location.id = id;
  props.handleTypes = (CUmemAllocationHandleType) handles;
  props.maxSize = max_size;
  r = C (cuMemPoolCreate, &pool, &props);
  if (r == CUDA_SUCCESS)
    C (cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
  ok (r, what, "threshold %llu", (unsigned long long) threshold);
  if (r == CUDA_SUCCESS)
    only (C (cuMemPoolDestroy, pool), "and destroyed");
}

void
probe_pool_props (void)
{
  CUmemPoolProps props;
  CUmemoryPool pool = NULL;
  CUdeviceptr p = 0;
  CUstream s = NULL;
  CUresult r;
  int flag = -1;
  cuuint64_t number = 0;

  C (cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
  try_pool ("type 0", 0, CU_MEM_LOCATION_TYPE_DEVICE, 0, 0, 0);
  try_pool ("type pinned", CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE, 0, 0, 0);
  try_pool ("type 7", 7, CU_MEM_LOCATION_TYPE_DEVICE, 0, 0, 0);
  try_pool ("location 0", CU_MEM_ALLOCATION_TYPE_PINNED, 0, 0, 0, 0);
  try_pool ("location 9", CU_MEM_ALLOCATION_TYPE_PINNED, 9, 0, 0, 0);
  try_pool ("device 99", CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE, 99, 0, 0);
  try_pool ("device -1", CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE, -1, 0, 0);
  try_pool ("host", CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_HOST, 0, 0, 0);
  try_pool ("host 5", CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_HOST, 5, 0, 0);
  try_pool ("NUMA node 0", CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_HOST_NUMA, 0, 0, 0);
  try_pool ("NUMA node 99", CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_HOST_NUMA, 99, 0, 0);
  try_pool ("the current NUMA node", CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0, 0, 0);
  try_pool ("host, for sharing", CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_HOST, 0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  try_pool ("NUMA node 0, for sharing", CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_HOST_NUMA, 0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  try_pool ("for sharing", CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE, 0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  try_pool ("handle type 2", CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE, 0, 2, 0);
  try_pool ("handle type 64", CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE, 0, 64, 0);
  try_pool ("at most 1 byte", CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE, 0, 0, 1);
  try_pool ("at most 2^60", CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE, 0, 0, (size_t) 1 << 60);

  memset (&props, 0, sizeof props);
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  props.maxSize = 4 * MIB;
  C (cuMemPoolCreate, &pool, &props);
  only (C (cuMemAllocFromPoolAsync, &p, 3 * MIB, pool, s), "3 MiB of at most 4 MiB");
  only (C (cuMemAllocFromPoolAsync, &p, 40 * MIB, pool, s), "40 MiB more");
  C (cuStreamSynchronize, s);
  for (int attribute = 1; attribute <= 3; attribute++)
    {
      r = C (cuMemPoolGetAttribute, pool, (CUmemPool_attribute) attribute, &flag);
      ok (r, "a reuse rule at first", "%d", flag);
      flag = 0;
      only (C (cuMemPoolSetAttribute, pool, (CUmemPool_attribute) attribute, &flag), "set it to 0");
      flag = 2;
      only (C (cuMemPoolSetAttribute, pool, (CUmemPool_attribute) attribute, &flag), "set it to 2");
      r = C (cuMemPoolGetAttribute, pool, (CUmemPool_attribute) attribute, &flag);
      ok (r, "it is then", "%d", flag);
    }
  number = 12345;
  only (C (cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &number), "set the threshold");
  r = C (cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &number);
  ok (r, "it is then", "%llu", (unsigned long long) number);
  only (C (cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &number), "set what is reserved");
  only (C (cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &number), "set a high mark to a number");
  only (C (cuMemPoolGetAttribute, pool, (CUmemPool_attribute) 0, &number), "attribute 0");
  only (C (cuMemPoolGetAttribute, pool, (CUmemPool_attribute) 99, &number), "attribute 99");
  only (C (cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, NULL), "no place for it");
}

/* ---- registered memory ---- */

void
probe_registered (void)
{
  char *pages = mmap (NULL, 8 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CUdeviceptr p, d = 0;
  CUstream s = NULL;
  unsigned int flags = 0;
  CUresult r;

  C (cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
  C (cuMemAlloc, &d, 8 * 4096);
  only (C (cuMemHostRegister, pages + 100, 1000, 0), "within a page");
  only (C (cuMemHostRegister, pages + 100, 1000, 0), "the same again");
  only (C (cuMemHostRegister, pages, 4096, 0), "the page around it");
  only (C (cuMemHostRegister, pages + 2000, 1000, 0), "beside it, in its page");
  only (C (cuMemHostUnregister, pages + 101), "unregister from within");
  r = C (cuMemHostGetDevicePointer, &p, pages + 100, 0);
  ok (r, "its device pointer", "the same %d", p == (uintptr_t) pages + 100);
  r = C (cuMemHostGetDevicePointer, &p, pages + 200, 0);
  ok (r, "of its middle", "the same %d", p == (uintptr_t) pages + 200);
  only (C (cuMemsetD8Async, (uintptr_t) pages + 100, 1, 1000, s), "fill it");
  only (C (cuMemsetD8Async, (uintptr_t) pages + 100, 1, 1001, s), "fill one more");
  only (C (cuMemcpyDtoHAsync, pages, d, 4096, s), "download around it");
  C (cuStreamSynchronize, s);
  r = C (cuMemHostGetFlags, &flags, pages + 100);
  ok (r, "flags", "%u", flags);
  only (C (cuMemFreeHost, pages + 100), "cuMemFreeHost");
  only (C (cuMemFree, (uintptr_t) pages + 100), "cuMemFree");
  only (C (cuMemHostUnregister, pages + 100), "unregister");
  only (C (cuMemHostUnregister, pages + 100), "once more");
  only (C (cuMemHostRegister, pages, 0, 0), "nothing");
  only (C (cuMemHostRegister, NULL, 4096, 0), "null");
  only (C (cuMemHostRegister, (void *) 0x1000, 4096, 0), "no memory");
  only (C (cuMemHostRegister, pages, 4096, 16), "flags 16");
  only (C (cuMemHostRegister, (void *) (gsize) d, 4096, 0), "device memory");
  only (C (cuMemHostRegister, pages, 4 * 4096, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP), "four pages");
  munmap (pages + 2 * 4096, 4096);
  only (C (cuMemHostUnregister, pages), "unregister after one of them is gone");
}

/* ---- names of results ---- */

void
probe_error_names (void)
{
  const char *name, *text;

  for (int i = 0; i < 1000; i++)
    {
      if (C (cuGetErrorName, (CUresult) i, &name) == CUDA_SUCCESS)
        say ("%d %s, with a text %d", i, name, C (cuGetErrorString, (CUresult) i, &text) == CUDA_SUCCESS && *text != '\0');
    }
}

/* ---- copies over the border between two chunks ---- */

#define ACROSS(call, what)                                  \
  do                                                        \
    {                                                       \
      char *text_ = g_strdup_printf ("%s%s", prefix, what); \
      only (call, text_);                                   \
      g_free (text_);                                       \
    }                                                       \
  while (0)

/* Copies and fills across the border of two chunks that lie side by side at @va. */
static void
across (CUdeviceptr va, CUdeviceptr plain, void *pinned, char *bytes, CUstream s, const char *prefix)
{
  CUDA_MEMCPY2D flat;

  ACROSS (C (cuMemcpyHtoDAsync, va + 2 * MIB - 8, bytes, 16, s), "upload");
  ACROSS (C (cuMemcpyDtoHAsync, bytes, va + 2 * MIB - 8, 16, s), "download");
  ACROSS (C (cuMemcpyHtoDAsync, va + 2 * MIB - 8, pinned, 16, s), "upload of pinned memory");
  ACROSS (C (cuMemcpyDtoHAsync, pinned, va + 2 * MIB - 8, 16, s), "download to pinned memory");
  ACROSS (C (cuMemcpyHtoD, va + 2 * MIB - 8, bytes, 16), "synchronous upload");
  ACROSS (C (cuMemcpyDtoH, bytes, va + 2 * MIB - 8, 16), "synchronous download");
  ACROSS (C (cuMemcpyHtoDAsync, va + 2 * MIB - 16, bytes, 16, s), "upload up to it");
  ACROSS (C (cuMemcpyDtoDAsync, plain, va + 2 * MIB - 8, 16, s), "copy from there");
  ACROSS (C (cuMemcpyDtoDAsync, va + 2 * MIB - 8, plain, 16, s), "copy to there");
  ACROSS (C (cuMemcpyDtoDAsync, va + 2 * MIB - 64, va + 2 * MIB - 8, 16, s), "copy beside it");
  ACROSS (C (cuMemcpyAsync, va + 2 * MIB - 8, plain, 16, s), "copy to there, kind not said");
  ACROSS (C (cuMemcpyAsync, va + 2 * MIB - 8, (uintptr_t) bytes, 16, s), "upload, kind not said");
  ACROSS (C (cuMemcpyPeerAsync, va + 2 * MIB - 8, primary, plain, primary, 16, s), "peer copy to there");
  ACROSS (C (cuMemcpyDtoDAsync, plain, va, 4 * MIB, s), "copy of all");
  ACROSS (C (cuMemsetD8Async, va + 2 * MIB - 8, 1, 16, s), "fill");
  ACROSS (C (cuMemsetD2D8Async, va + 2 * MIB - 4096, 4096, 1, 64, 2, s), "fill of rows on both sides");
  ACROSS (C (cuMemsetD2D8Async, va + 2 * MIB - 8, 4096, 1, 16, 1, s), "fill of a row across it");
  memset (&flat, 0, sizeof flat);
  flat.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  flat.srcDevice = plain;
  flat.srcPitch = 4096;
  flat.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  flat.dstDevice = va + 2 * MIB - 4096;
  flat.dstPitch = 4096;
  flat.WidthInBytes = 64;
  flat.Height = 2;
  ACROSS (C (cuMemcpy2DAsync, &flat, s), "copy of rows on both sides");
  flat.dstDevice = va + 2 * MIB - 8;
  flat.Height = 1;
  ACROSS (C (cuMemcpy2DAsync, &flat, s), "copy of a row across it");
  flat.srcMemoryType = CU_MEMORYTYPE_HOST;
  flat.srcHost = bytes;
  flat.dstDevice = va + 2 * MIB - 8;
  flat.WidthInBytes = 16;
  ACROSS (C (cuMemcpy2DAsync, &flat, s), "upload of a row across it");
}

void
probe_vmm_borders (void)
{
  CUmemAllocationProp prop;
  CUmemAccessDesc access;
  CUmemGenericAllocationHandle first, second;
  CUdeviceptr va = 0, plain = 0;
  CUstream s = NULL;
  char bytes[64] = { 0 };
  void *pinned;

  memset (&prop, 0, sizeof prop);
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  memset (&access, 0, sizeof access);
  access.location = prop.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  C (cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
  C (cuMemAllocHost, &pinned, 4096);
  C (cuMemAlloc, &plain, 8 * MIB);
  C (cuMemAddressReserve, &va, 4 * MIB, 0, 0, 0);
  C (cuMemCreate, &first, 2 * MIB, &prop, 0);
  C (cuMemCreate, &second, 2 * MIB, &prop, 0);
  C (cuMemMap, va, 2 * MIB, 0, first, 0);
  C (cuMemMap, va + 2 * MIB, 2 * MIB, 0, second, 0);
  C (cuMemSetAccess, va, 4 * MIB, &access, 1);

  across (va, plain, pinned, bytes, s, "");
  only (C (cuStreamSynchronize, s), "synchronize");
  /* The same of a thread that has no context. */
  C (cuCtxSetCurrent, NULL);
  across (va, plain, pinned, bytes, s, "no context: ");
  C (cuCtxSetCurrent, primary);
  only (C (cuStreamSynchronize, s), "synchronize");
  /* One chunk, mapped in two parts that lie as they do in it */
  C (cuMemUnmap, va, 2 * MIB);
  C (cuMemUnmap, va + 2 * MIB, 2 * MIB);
  C (cuMemRelease, first);
  C (cuMemCreate, &first, 4 * MIB, &prop, 0);
  only (C (cuMemMap, va, 4 * MIB, 0, first, 0), "one chunk");
  C (cuMemSetAccess, va, 4 * MIB, &access, 1);
  only (C (cuMemcpyHtoDAsync, va + 2 * MIB - 8, bytes, 16, s), "upload within it");
  only (C (cuStreamSynchronize, s), "synchronize");
}
