/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "probe.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void probe_ptr_device (void);
void probe_ptr_vmm (void);
void probe_range (void);
void probe_pool_use (void);
void probe_pool_device (void);
void probe_host_alloc (void);
void probe_managed_advice (void);
void probe_copy (void);
void probe_copy_wrong_source (void);
void probe_pitch_memset (void);
void probe_vmm_access (void);
void probe_vmm_readonly_memset (void);
void probe_vmm_create (void);

/* ---- attributes of addresses ---- */

static char *
number (CUresult result, unsigned long long value)
{
  return result == CUDA_SUCCESS ? g_strdup_printf ("%llu", value) : g_strdup (probe_result (result));
}

static char *
relative (CUresult result, CUdeviceptr value, CUdeviceptr base)
{
  return result == CUDA_SUCCESS ? g_strdup_printf ("base+%lld", (long long) (value - base)) : g_strdup (probe_result (result));
}

/* START: where the range is known to begin. */
void
probe_attributes (const char *what, CUdeviceptr p, CUdeviceptr start)
{
  unsigned int type = 0, access = 0;
  int ordinal = -1;
  CUcontext context = NULL;
  unsigned int managed = 0, mapped = 0, ipc = 0; /* documented as booleans, but the driver writes more than a byte */
  CUdeviceptr base = 0, dp = 0;
  size_t size = 0;
  CUmemoryPool pool = NULL;
  unsigned long long handles = 0;
  void *hp = NULL;
  CUresult r[12];
  char *a, *b, *c, *d;

  r[0] = C (cuPointerGetAttribute, &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p);
  r[1] = C (cuPointerGetAttribute, &ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p);
  r[2] = C (cuPointerGetAttribute, &context, CU_POINTER_ATTRIBUTE_CONTEXT, p);
  r[3] = C (cuPointerGetAttribute, &managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, p);
  a = number (r[0], type);
  b = number (r[1], (unsigned long long) ordinal);
  c = g_strdup (r[2] != CUDA_SUCCESS ? probe_result (r[2]) : context == primary ? "current"
                                                           : context == NULL    ? "none"
                                                                                : "another");
  d = number (r[3], managed);
  say ("%s type %s ordinal %s context %s managed %s", what, a, b, c, d);
  g_free (a), g_free (b), g_free (c), g_free (d);

  r[4] = C (cuPointerGetAttribute, &base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, p);
  r[5] = C (cuPointerGetAttribute, &size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, p);
  r[6] = C (cuPointerGetAttribute, &mapped, CU_POINTER_ATTRIBUTE_MAPPED, p);
  a = relative (r[4], base, start);
  b = number (r[5], size);
  c = number (r[6], mapped);
  say ("%s start %s size %s mapped %s", what, a, b, c);
  g_free (a), g_free (b), g_free (c);

  r[7] = C (cuPointerGetAttribute, &pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p);
  r[8] = C (cuPointerGetAttribute, &handles, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, p);
  r[9] = C (cuPointerGetAttribute, &ipc, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, p);
  r[10] = C (cuPointerGetAttribute, &access, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, p);
  a = g_strdup (r[7] != CUDA_SUCCESS ? probe_result (r[7]) : pool == NULL ? "none"
                                                                          : "some");
  b = number (r[8], handles);
  c = number (r[9], ipc);
  d = number (r[10], access);
  say ("%s pool %s handles %s ipc %s access %s", what, a, b, c, d);
  g_free (a), g_free (b), g_free (c), g_free (d);

  r[11] = C (cuPointerGetAttribute, &dp, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, p);
  r[0] = C (cuPointerGetAttribute, &hp, CU_POINTER_ATTRIBUTE_HOST_POINTER, p);
  a = relative (r[11], dp, start);
  b = relative (r[0], (uintptr_t) hp, start);
  say ("%s device pointer %s host pointer %s", what, a, b);
  g_free (a), g_free (b);
}

void
probe_ptr_device (void)
{
  CUdeviceptr p, q;

  C (cuMemAlloc, &p, 1000);
  probe_attributes ("cuMemAlloc(1000)", p, p);
  probe_attributes ("its interior +100", p + 100, p);
  probe_attributes ("one past its end", p + 1000, p);
  C (cuMemAlloc, &q, 3 * MIB);
  probe_attributes ("cuMemAlloc(3 MiB) +2 MiB", q + 2 * MIB, q);
  C (cuMemFree, q);
  probe_attributes ("freed 3 MiB", q, q);
  probe_attributes ("null", 0, 0);
  probe_attributes ("0x1234", 0x1234, 0x1234);
}

static CUmemAllocationProp
chunk_properties (void)
{
  CUmemAllocationProp prop;

  memset (&prop, 0, sizeof prop);
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  return prop;
}

static CUmemAccessDesc
access_for (int flags)
{
  CUmemAccessDesc desc;

  memset (&desc, 0, sizeof desc);
  desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  desc.flags = (CUmemAccess_flags) flags;
  return desc;
}

void
probe_ptr_vmm (void)
{
  CUmemAllocationProp prop = chunk_properties ();
  CUmemAccessDesc desc = access_for (3);
  CUmemGenericAllocationHandle handle;
  CUdeviceptr va;

  C (cuMemAddressReserve, &va, 2 * MIB, 0, 0, 0);
  probe_attributes ("reserved only", va, va);
  C (cuMemCreate, &handle, 2 * MIB, &prop, 0);
  C (cuMemMap, va, 2 * MIB, 0, handle, 0);
  probe_attributes ("mapped, no access", va, va);
  C (cuMemSetAccess, va, 2 * MIB, &desc, 1);
  probe_attributes ("mapped, read-write", va, va);
  probe_attributes ("mapped interior +1 MiB", va + MIB, va);
  C (cuMemUnmap, va, 2 * MIB);
  probe_attributes ("unmapped, still reserved", va, va);
  C (cuMemRelease, handle);
  C (cuMemAddressFree, va, 2 * MIB);
  probe_attributes ("address freed", va, va);
}

static void
range (const char *what, CUdeviceptr p, CUdeviceptr start)
{
  CUdeviceptr base = 0;
  size_t size = 0;
  CUresult r = C (cuMemGetAddressRange, &base, &size, p);

  ok (r, what, "base +%lld size %zu", (long long) (base - start), size);
}

void
probe_range (void)
{
  CUmemAllocationProp prop = chunk_properties ();
  CUmemGenericAllocationHandle handle[2];
  CUdeviceptr p, q, m, va, base = 0;
  size_t size = 0;
  CUstream s;
  void *h;
  CUresult r;

  C (cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
  C (cuMemAlloc, &p, 1000);
  range ("device base", p, p);
  range ("device interior +999", p + 999, p);
  range ("device one past", p + 1000, p);
  C (cuMemAllocAsync, &q, 1000, s);
  C (cuStreamSynchronize, s);
  range ("pool interior +8", q + 8, q);
  C (cuMemAllocHost, &h, 1000);
  range ("pinned interior +8", (uintptr_t) h + 8, (uintptr_t) h);
  C (cuMemAllocManaged, &m, 1000, CU_MEM_ATTACH_GLOBAL);
  range ("managed", m, m);
  range ("0x1234", 0x1234, 0);
  range ("null", 0, 0);
  C (cuMemAddressReserve, &va, 8 * MIB, 0, 0, 0);
  range ("reserved, nothing mapped", va, va);
  for (int i = 0; i < 2; i++)
    {
      C (cuMemCreate, &handle[i], 2 * MIB, &prop, 0);
      C (cuMemMap, va + (size_t) i * 2 * MIB, 2 * MIB, 0, handle[i], 0);
    }
  range ("second of two mappings in one reservation", va + 2 * MIB, va);
  range ("first of the two, +8", va + 8, va);
  r = C (cuMemGetAddressRange, &base, NULL, p);
  ok (r, "base only", "base %d", base == p);
  r = C (cuMemGetAddressRange, NULL, &size, p);
  ok (r, "size only", "size %zu", size);
  only (C (cuMemGetAddressRange, NULL, NULL, p), "neither");
  C (cuMemFree, p);
  range ("freed", p, p);
  C (cuMemFree, q);
  range ("pool memory freed by cuMemFree", q, q);
}

/* ---- pools ---- */

static CUmemoryPool
own_pool (void)
{
  CUmemPoolProps props;
  CUmemoryPool pool = NULL;

  memset (&props, 0, sizeof props);
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  C (cuMemPoolCreate, &pool, &props);
  return pool;
}

static void
use (CUmemoryPool pool, const char *what)
{
  cuuint64_t v[4] = { 0 };

  for (int i = 0; i < 4; i++)
    C (cuMemPoolGetAttribute, pool, (CUmemPool_attribute) (CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT + i), &v[i]);
  say ("%s reserved %llu high %llu used %llu high %llu", what, (unsigned long long) v[0], (unsigned long long) v[1],
       (unsigned long long) v[2], (unsigned long long) v[3]);
}

void
probe_pool_use (void)
{
  CUmemoryPool pool = own_pool ();
  cuuint64_t zero = 0, most = UINT64_MAX;
  CUdeviceptr p, a, b, q, again;
  CUstream s;

  C (cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
  C (cuMemAllocFromPoolAsync, &p, MIB, pool, s);
  use (pool, "1 MiB allocated, not synchronized");
  C (cuStreamSynchronize, s);
  use (pool, "synchronized");
  C (cuMemAllocFromPoolAsync, &a, 1, pool, s);
  use (pool, "and 1 byte");
  C (cuMemAllocFromPoolAsync, &b, 1000, pool, s);
  use (pool, "and 1000 bytes");
  say ("distance of the small ones a multiple of 512: %d", (long long) (b - a) % 512 == 0);
  only (C (cuMemPoolTrimTo, pool, 0), "trim to 0 with live memory");
  use (pool, "after it");
  C (cuMemFreeAsync, a, s);
  C (cuMemFreeAsync, b, s);
  C (cuStreamSynchronize, s);
  use (pool, "small ones freed, synchronized");
  probe_block (s);
  C (cuMemFreeAsync, p, s);
  use (pool, "last freed behind pending work");
  probe_open ();
  C (cuStreamSynchronize, s);
  use (pool, "synchronized, threshold 0");
  only (C (cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &zero), "reset RESERVED_HIGH");
  only (C (cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero), "reset USED_HIGH");
  use (pool, "highs reset");
  C (cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &most);
  C (cuMemAllocFromPoolAsync, &q, 40 * MIB, pool, s);
  use (pool, "40 MiB allocated, threshold max");
  C (cuMemFreeAsync, q, s);
  C (cuStreamSynchronize, s);
  use (pool, "freed, synchronized");
  C (cuMemAllocFromPoolAsync, &again, 40 * MIB, pool, s);
  say ("same address again %d", again == q);
  C (cuMemFreeAsync, again, s);
  C (cuStreamSynchronize, s);
  only (C (cuMemPoolTrimTo, pool, 1024 * MIB), "trim to 1 GiB");
  use (pool, "after it");
  only (C (cuMemPoolTrimTo, pool, 1), "trim to 1");
  use (pool, "after it");
  only (C (cuMemPoolTrimTo, pool, 0), "trim to 0");
  use (pool, "after it");
  C (cuMemAllocFromPoolAsync, &q, MIB, pool, s);
  C (cuStreamSynchronize, s);
  C (cuMemFree, q);
  use (pool, "1 MiB allocated, freed by cuMemFree, threshold max");
}

#if CUDA_VERSION >= 13000
static void
default_pool (const char *what, int location_type, int type, CUmemoryPool known)
{
  CUmemLocation location;
  CUmemoryPool pool = NULL;
  CUresult r;

  memset (&location, 0, sizeof location);
  location.type = (CUmemLocationType) location_type;
  r = C (cuMemGetDefaultMemPool, &pool, &location, (CUmemAllocationType) type);
  if (known != NULL)
    ok (r, what, "is the device's default %d", pool == known);
  else
    only (r, what);
}
#endif

void
probe_pool_device (void)
{
  CUmemoryPool current = NULL, fallback = NULL, again = NULL, own = own_pool (), of = NULL;
  CUstream s;
  CUdeviceptr p;
  CUresult r;

  C (cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
  C (cuDeviceGetDefaultMemPool, &fallback, device);
  r = C (cuDeviceGetMemPool, &current, device);
  ok (r, "device's pool at first", "is the default %d", current == fallback);
  only (C (cuDeviceSetMemPool, device, own), "set own pool");
  r = C (cuDeviceGetMemPool, &current, device);
  ok (r, "device's pool now", "is own %d", current == own);
  r = C (cuDeviceGetDefaultMemPool, &again, device);
  ok (r, "default pool now", "unchanged %d", again == fallback);
  C (cuMemAllocAsync, &p, 100, s);
  C (cuPointerGetAttribute, &of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p);
  say ("cuMemAllocAsync takes from pool: %s", of == own ? "own" : of == fallback ? "default"
                                                                                 : "another");
  C (cuMemFreeAsync, p, s);
  C (cuStreamSynchronize, s);
  only (C (cuMemPoolDestroy, own), "destroy the device's current pool");
  r = C (cuDeviceGetMemPool, &current, device);
  ok (r, "device's pool after", "is the default %d", current == fallback);
  only (C (cuDeviceSetMemPool, 99, fallback), "set pool of device 99");
  only (C (cuDeviceGetMemPool, &again, 99), "get pool of device 99");
  only (C (cuDeviceGetDefaultMemPool, &again, 99), "default pool of device 99");
  only (C (cuDeviceSetMemPool, device, fallback), "set the default pool");
#if CUDA_VERSION >= 13000
  {
    CUmemLocation here;

    default_pool ("cuMemGetDefaultMemPool device pinned", 1, 1, fallback);
    default_pool ("cuMemGetDefaultMemPool host pinned", 2, 1, NULL);
    default_pool ("cuMemGetDefaultMemPool device managed", 1, 2, NULL);
    default_pool ("cuMemGetDefaultMemPool managed, no location", 0, 2, NULL);
    default_pool ("cuMemGetDefaultMemPool type 0", 1, 0, NULL);
    memset (&here, 0, sizeof here);
    here.type = CU_MEM_LOCATION_TYPE_DEVICE;
    r = C (cuMemGetMemPool, &current, &here, CU_MEM_ALLOCATION_TYPE_PINNED);
    ok (r, "cuMemGetMemPool device pinned", "is the default %d", current == fallback);
    own = own_pool ();
    only (C (cuMemSetMemPool, &here, CU_MEM_ALLOCATION_TYPE_PINNED, own), "cuMemSetMemPool own");
    r = C (cuDeviceGetMemPool, &current, device);
    ok (r, "device's pool now", "is own %d", current == own);
  }
#endif
  only (C (cuMemAllocFromPoolAsync, &p, 0, own, s), "alloc 0 bytes from own pool");
  only (C (cuMemAllocAsync, &p, 16, CU_STREAM_LEGACY), "alloc on the legacy stream");
  only (C (cuMemAllocAsync, &p, 16, NULL), "alloc on the null stream");
  only (C (cuMemAllocAsync, &p, 16, CU_STREAM_PER_THREAD), "alloc on the per-thread stream");
}

/* ---- page-locked memory ---- */

void
probe_host_alloc (void)
{
  static const unsigned int flags[] = { 0, 1, 2, 4, 7, 8, 16, 0x80000000u };
  static char page[8192];
  unsigned int f = 0;
  CUdeviceptr d = 0;
  void *h, *q;
  CUresult r;

  C (cuMemAllocHost, &h, 4096);
  r = C (cuMemHostGetFlags, &f, h);
  ok (r, "flags of cuMemAllocHost", "%u", f);
  r = C (cuMemHostGetFlags, &f, (char *) h + 8);
  ok (r, "flags of an interior address", "%u", f);
  r = C (cuMemHostGetFlags, &f, page);
  ok (r, "flags of an ordinary page", "%u", f);
  r = C (cuMemHostGetDevicePointer, &d, h, 0);
  ok (r, "device pointer", "same address %d", d == (uintptr_t) h);
  r = C (cuMemHostGetDevicePointer, &d, (char *) h + 8, 0);
  ok (r, "device pointer of interior +8", "offset kept %d", d == (uintptr_t) h + 8);
  only (C (cuMemHostGetDevicePointer, &d, h, 1), "device pointer, flags 1");
  only (C (cuMemHostGetDevicePointer, &d, page, 0), "device pointer of an ordinary page");
  only (C (cuMemFreeHost, (char *) h + 8), "free interior");
  only (C (cuMemFree, (uintptr_t) h), "cuMemFree of it");
  only (C (cuMemFreeAsync, (uintptr_t) h, NULL), "cuMemFreeAsync of it");
  only (C (cuMemFreeHost, h), "free");
  only (C (cuMemFreeHost, h), "free twice");
  only (C (cuMemFreeHost, NULL), "free null");
  only (C (cuMemFreeHost, page), "free an ordinary page");
  C (cuMemAlloc, &d, 4096);
  only (C (cuMemFreeHost, (void *) d), "cuMemFreeHost of device memory");
  for (guint i = 0; i < G_N_ELEMENTS (flags); i++)
    {
      char *what = flags[i] != 0 ? g_strdup_printf ("cuMemHostAlloc flags 0x%x", flags[i]) : g_strdup ("cuMemHostAlloc flags 0");

      q = NULL;
      /* Not less: small ones share pages, and with them the flags of others. */
      r = C (cuMemHostAlloc, &q, 4 * MIB, flags[i]);
      if (r == CUDA_SUCCESS)
        C (cuMemHostGetFlags, &f, q);
      ok (r, what, "read back %u", f);
      g_free (what);
    }
  q = &f;
  r = C (cuMemHostAlloc, &q, 0, 0);
  ok (r, "cuMemHostAlloc(0)", "null %d", q == NULL);
}

/* ---- managed memory ---- */

#if CUDA_VERSION >= 13000
static CUdeviceptr managed;

static CUresult
advise_range (CUdeviceptr p, size_t size, int advice, int type, int id)
{
  CUmemLocation location;

  memset (&location, 0, sizeof location);
  location.type = (CUmemLocationType) type;
  location.id = id;
  return C (cuMemAdvise, p, size, (CUmem_advise) advice, location);
}

static CUresult
advise (int advice, int type, int id)
{
  return advise_range (managed, MIB, advice, type, id);
}

static void
range_attributes (const char *when, int n)
{
  static const struct
  {
    const char *name;
    int attribute;
  } all[] = { { "READ_MOSTLY", 1 }, { "PREFERRED_LOCATION", 2 }, { "ACCESSED_BY", 3 }, { "LAST_PREFETCH", 4 }, { "PREFERRED_TYPE", 5 }, { "LAST_PREFETCH_TYPE", 7 } };

  for (int i = 0; i < n; i++)
    {
      char *what = g_strdup_printf ("%s %s", when, all[i].name);
      int v = 12345;
      CUresult r = C (cuMemRangeGetAttribute, &v, 4, (CUmem_range_attribute) all[i].attribute, managed, MIB);

      ok (r, what, "%d", v);
      g_free (what);
    }
}
#endif

#if CUDA_VERSION >= 13000
static void
prefetch_all (int type, int id)
{
  CUmemLocation location = { .type = (CUmemLocationType) type, .id = id };

  C (cuMemPrefetchAsync, managed, MIB, location, 0, NULL);
  C (cuCtxSynchronize);
}
#endif

void
probe_managed_advice (void)
{
#if CUDA_VERSION >= 13000
  static char page[8192];
  int many[4] = { 0 };
  CUdeviceptr d;
  CUresult r;

  C (cuMemAllocManaged, &managed, MIB, CU_MEM_ATTACH_GLOBAL);
  C (cuMemAlloc, &d, MIB);
  range_attributes ("fresh", 6);
  only (advise (1, 1, 0), "set read mostly");
  only (advise (3, 1, 0), "set preferred device");
  only (advise (5, 1, 0), "set accessed by device");
  prefetch_all (1, 0);
  range_attributes ("advised", 6);
  r = C (cuMemRangeGetAttribute, many, 16, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, managed, MIB);
  ok (r, "ACCESSED_BY, room for four", "%d %d %d %d", many[0], many[1], many[2], many[3]);
  only (advise (2, 1, 0), "unset read mostly");
  only (advise (4, 1, 0), "unset preferred");
  only (advise (6, 1, 0), "unset accessed by");
  only (advise (3, 2, 0), "set preferred host");
  prefetch_all (2, 0);
  range_attributes ("host preferred", 6);
  only (advise (1, 1, 99), "set read mostly, device 99");
  only (advise (3, 1, 99), "set preferred, device 99");
  only (advise (5, 1, 99), "set accessed by, device 99");
  only (advise (5, 2, 0), "set accessed by, host");
  only (advise (4, 0, 0), "unset preferred, location type 0");
  only (advise (3, 0, 0), "set preferred, location type 0");
  only (advise (0, 1, 0), "advice 0");
  only (advise (99, 1, 0), "advice 99");
  only (advise_range (managed, 0, 1, 1, 0), "0 bytes");
  only (advise_range (managed, 4 * MIB, 1, 1, 0), "past the end");
  only (advise_range (d, MIB, 1, 1, 0), "device memory");
  only (advise_range ((uintptr_t) page, 4096, 1, 1, 0), "ordinary page");
  only (C (cuMemRangeGetAttribute, many, 4, (CUmem_range_attribute) 0, managed, MIB), "range attribute 0");
  only (C (cuMemRangeGetAttribute, many, 3, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, managed, MIB), "range attribute, size 3");
  only (C (cuMemRangeGetAttribute, many, 8, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, managed, MIB), "range attribute, size 8 for READ_MOSTLY");
  only (C (cuMemRangeGetAttribute, many, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, d, MIB), "range attribute of device memory");
  only (C (cuMemRangeGetAttribute, many, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, managed, 0), "range attribute, 0 bytes");
#endif
}

/* ---- copies ---- */

void
probe_copy (void)
{
  CUdeviceptr p, q, gone, pinned_d;
  unsigned char *host = malloc (4096), *back = malloc (4096), *other = malloc (4096), *pinned;
  CUstream s;
  int same;

  memset (host, 7, 4096);
  memset (back, 0, 4096);
  C (cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
  C (cuMemAlloc, &p, 4096);
  C (cuMemAlloc, &q, 4096);
  C (cuMemAlloc, &gone, 4096);
  C (cuMemFree, gone);
  C (cuMemAllocHost, (void **) &pinned, 4096);
  pinned_d = (uintptr_t) pinned;

  only (C (cuMemcpyHtoD, p, host, 4096), "HtoD");
  only (C (cuMemcpyDtoD, p + 16, p, 1024), "DtoD overlapping, forward by 16");
  only (C (cuMemcpyDtoD, p, p, 1024), "DtoD onto itself");
  only (C (cuMemcpyDtoDAsync, p, p + 16, 1024, s), "DtoDAsync overlapping, backward");
  only (C (cuMemcpy, p + 16, p, 1024), "cuMemcpy overlapping");
  C (cuStreamSynchronize, s);
  only (C (cuMemcpyHtoD, p, host, 4097), "HtoD one past the end");
  only (C (cuMemcpyDtoH, back, p + 1, 4096), "DtoH one past the end");
  only (C (cuMemcpyDtoD, q, p + 1, 4096), "DtoD source one past the end");
  only (C (cuMemcpyHtoD, 0x1234, host, 16), "HtoD to 0x1234");
  only (C (cuMemcpyDtoH, back, gone, 16), "DtoH from freed memory");
  only (C (cuMemcpyHtoD, 0, host, 16), "HtoD to null");
  only (C (cuMemcpyHtoD, (uintptr_t) other, host, 16), "HtoD to an ordinary host page");
  memset (pinned, 0, 4096);
  only (C (cuMemcpyHtoD, pinned_d, host, 4096), "HtoD to pinned host memory");
  say ("arrived %d", memcmp (pinned, host, 4096) == 0);
  only (C (cuMemcpyDtoH, back, pinned_d, 4096), "DtoH from pinned host memory");
  only (C (cuMemcpyDtoD, p, pinned_d, 4096), "DtoD between pinned and device");
  only (C (cuMemcpyDtoD, p, (uintptr_t) other, 16), "DtoD from an ordinary host page");
  memset (host, 9, 4096);
  memset (back, 0, 4096);
  only (C (cuMemcpy, p, (uintptr_t) host, 4096), "cuMemcpy host page to device");
  only (C (cuMemcpy, (uintptr_t) back, p, 4096), "cuMemcpy device to host page");
  say ("round trip %d", memcmp (host, back, 4096) == 0);
  memset (other, 0, 4096);
  only (C (cuMemcpy, (uintptr_t) other, (uintptr_t) host, 4096), "cuMemcpy host page to host page");
  say ("arrived %d", memcmp (other, host, 4096) == 0);
  only (C (cuMemcpyAsync, (uintptr_t) back, p, 4096, s), "cuMemcpyAsync device to host page");
  C (cuStreamSynchronize, s);
  only (C (cuMemcpy, 0, 0, 0), "cuMemcpy 0 bytes of null");
  only (C (cuMemcpy, 0x1234, p, 0), "cuMemcpy device to 0x1234, 0 bytes");
  only (C (cuMemcpyPeer, q, primary, p, primary, 4096), "cuMemcpyPeer same context");
  only (C (cuMemcpyPeerAsync, q, primary, p, primary, 4096, s), "cuMemcpyPeerAsync same context");
  only (C (cuMemcpyPeerAsync, q, primary, p + 1, primary, 4096, s), "cuMemcpyPeerAsync past the end");
  C (cuStreamSynchronize, s);

  memset (host, 1, 4096);
  probe_block (s);
  C (cuMemcpyHtoDAsync, p, host, 4096, s);
  memset (host, 2, 4096);
  probe_open ();
  C (cuStreamSynchronize, s);
  C (cuMemcpyDtoH, back, p, 4096);
  same = back[0] == 1 && back[4095] == 1;
  say ("HtoDAsync from an ordinary page behind pending work took the bytes at the call %d", same);
  memset (pinned, 1, 4096);
  probe_block (s);
  C (cuMemcpyHtoDAsync, p, pinned, 4096, s);
  memset (pinned, 2, 4096);
  probe_open ();
  C (cuStreamSynchronize, s);
  C (cuMemcpyDtoH, back, p, 4096);
  same = back[0] == 2 && back[4095] == 2;
  say ("HtoDAsync from pinned memory behind pending work read it later %d", same);
  free (host), free (back), free (other);
}

void
probe_copy_wrong_source (void)
{
  CUdeviceptr p, q;

  C (cuMemAlloc, &p, 4096);
  C (cuMemAlloc, &q, 4096);
  only (C (cuMemcpyHtoD, p, (void *) q, 4096), "HtoD whose source is device memory");
  only (C (cuCtxSynchronize, ), "context usable after");
}

/* ---- 2-D ---- */

void
probe_pitch_memset (void)
{
  static const size_t widths[] = { 1, 100, 512, 513, 4096, 100000 };
  static const unsigned int elements[] = { 8, 16, 3, 0, 1 };
  static char page[8192];
  unsigned char *back = malloc (128);
  CUdeviceptr p = 0, base;
  size_t pitch = 0, size = 0;
  CUresult r;

  for (guint i = 0; i < G_N_ELEMENTS (widths); i++)
    {
      char *what = g_strdup_printf ("cuMemAllocPitch width %zu", widths[i]);

      r = C (cuMemAllocPitch, &p, &pitch, widths[i], 4, 4);
      ok (r, what, "pitch %zu", pitch);
      g_free (what);
    }
  r = C (cuMemGetAddressRange, &base, &size, p);
  ok (r, "its range", "%zu", size);
  for (guint i = 0; i < G_N_ELEMENTS (elements); i++)
    {
      char *what = g_strdup_printf ("element size %u", elements[i]);

      r = C (cuMemAllocPitch, &p, &pitch, 100, 4, elements[i]);
      ok (r, what, "pitch %zu", pitch);
      g_free (what);
    }
  only (C (cuMemAllocPitch, &p, &pitch, 0, 4, 4), "width 0");
  only (C (cuMemAllocPitch, &p, &pitch, 100, 0, 4), "height 0");

  C (cuMemAlloc, &p, 128);
  C (cuMemsetD8, p, 0, 128);
  only (C (cuMemsetD2D8, p, 16, 5, 4, 8), "D2D8 4 of 16 by 8");
  C (cuMemcpyDtoH, back, p, 128);
  say ("row 7 set %d, gap untouched %d", back[7 * 16] == 5 && back[7 * 16 + 3] == 5, back[4] == 0 && back[15] == 0);
  only (C (cuMemsetD2D8, p, 4, 5, 8, 4), "D2D8 pitch below width");
  only (C (cuMemsetD2D8, p, 4, 5, 8, 1), "D2D8 pitch below width, height 1");
  only (C (cuMemsetD2D8, p, 16, 5, 0, 4), "D2D8 width 0");
  only (C (cuMemsetD2D8, p, 16, 5, 4, 0), "D2D8 height 0");
  only (C (cuMemsetD2D8, p, 16, 5, 16, 9), "D2D8 one row too many");
  only (C (cuMemsetD2D8, p + 12, 16, 5, 4, 8), "D2D8 last row ends at the end");
  only (C (cuMemsetD2D16, p, 15, 5, 4, 4), "D2D16 pitch odd");
  only (C (cuMemsetD2D16, p + 1, 16, 5, 4, 4), "D2D16 address odd");
  only (C (cuMemsetD2D32, p, 18, 5, 4, 4), "D2D32 pitch 18");
  only (C (cuMemsetD2D32, p, 15, 5, 4, 4), "D2D32 width 4 pitch 15");
  only (C (cuMemsetD2D32, p, 16, 5, 4, 4), "D2D32 good");
  only (C (cuMemsetD2D32Async, p, 16, 5, 4, 4, NULL), "D2D32 async null stream");
  only (C (cuMemsetD16, p, 5, 64), "D16");
  only (C (cuMemsetD16, p, 5, 65), "D16 one element past");
  only (C (cuMemsetD32, p, 5, 32), "D32");
  only (C (cuMemsetD32, p, 5, 33), "D32 one element past");
  only (C (cuMemsetD8, 0, 5, 16), "D8 of null");
  only (C (cuMemsetD8, (uintptr_t) page, 5, 16), "D8 of an ordinary host page");
  free (back);
}

/* ---- virtual memory ---- */

static CUresult
get_access (CUdeviceptr p, int type, int id, unsigned long long *flags)
{
  CUmemLocation location;

  memset (&location, 0, sizeof location);
  location.type = (CUmemLocationType) type;
  location.id = id;
  return C (cuMemGetAccess, flags, &location, p);
}

static void
show_access (const char *what, CUdeviceptr p, int type, int id)
{
  unsigned long long flags = 99;
  CUresult r = get_access (p, type, id, &flags);

  ok (r, what, "%llu", flags);
}

static CUresult
set_access (CUdeviceptr p, size_t size, int type, int id, int flags, size_t count)
{
  CUmemAccessDesc desc = access_for (flags);

  desc.location.type = (CUmemLocationType) type;
  desc.location.id = id;
  return C (cuMemSetAccess, p, size, &desc, count);
}

static CUdeviceptr
mapped_chunk (CUmemGenericAllocationHandle *handle)
{
  CUmemAllocationProp prop = chunk_properties ();
  CUdeviceptr va = 0;

  C (cuMemAddressReserve, &va, 2 * MIB, 0, 0, 0);
  C (cuMemCreate, handle, 2 * MIB, &prop, 0);
  C (cuMemMap, va, 2 * MIB, 0, *handle, 0);
  return va;
}

void
probe_vmm_access (void)
{
  CUmemGenericAllocationHandle handle;
  CUdeviceptr va = mapped_chunk (&handle), p;
  char *back = malloc (4096);

  C (cuMemAlloc, &p, 4096);
  show_access ("get before any", va, 1, 0);
  only (set_access (va, 2 * MIB, 1, 0, 1, 1), "set read");
  show_access ("get", va, 1, 0);
  show_access ("get interior", va + 4096, 1, 0);
  only (C (cuMemcpyDtoH, back, va, 4096), "DtoH on read-only");
  only (C (cuMemcpyDtoD, p, va, 4096), "DtoD from read-only");
  only (C (cuCtxSynchronize, ), "context usable");
  only (set_access (va, 2 * MIB, 1, 0, 3, 1), "set read-write");
  show_access ("get", va, 1, 0);
  only (C (cuMemsetD8, va, 1, 4096), "memset");
  only (set_access (va, 2 * MIB, 1, 0, 0, 1), "set none");
  show_access ("get", va, 1, 0);
  only (C (cuMemsetD8, va, 1, 4096), "memset then");
  only (set_access (va, 2 * MIB, 1, 0, 3, 0), "set count 0");
  only (set_access (va, 2 * MIB, 1, 0, 2, 1), "set flags 2");
  only (set_access (va, 2 * MIB, 1, 99, 3, 1), "set device 99");
  only (set_access (va, 2 * MIB, 2, 0, 3, 1), "set host on device memory");
  only (set_access (va, 2 * MIB, 0, 0, 3, 1), "set location type 0");
  only (set_access (va, 0, 1, 0, 3, 1), "set size 0");
  only (set_access (p, 2 * MIB, 1, 0, 3, 1), "set on a cuMemAlloc address");
  {
    unsigned long long flags = 0;

    only (get_access (va, 1, 99, &flags), "get device 99");
  }
  show_access ("get host", va, 2, 0);
  show_access ("get of a cuMemAlloc address", p, 1, 0);
  show_access ("get of 0x1234", 0x1234, 1, 0);
  C (cuMemUnmap, va, 2 * MIB);
  show_access ("get after unmap", va, 1, 0);
  free (back);
}

void
probe_vmm_readonly_memset (void)
{
  CUmemGenericAllocationHandle handle;
  CUdeviceptr va = mapped_chunk (&handle);

  set_access (va, 2 * MIB, 1, 0, 1, 1);
  only (C (cuMemsetD8, va, 1, 4096), "memset on read-only");
  only (C (cuCtxSynchronize, ), "synchronize");
  only (C (cuCtxSynchronize, ), "context usable");
}

static void
create (const char *what, CUmemAllocationProp prop)
{
  char *name = g_strconcat ("create ", what, NULL);
  CUmemGenericAllocationHandle handle = 0;
  size_t granularity = 0;
  CUresult r = C (cuMemCreate, &handle, 2 * MIB, &prop, 0);

  only (r, name);
  g_free (name);
  if (r == CUDA_SUCCESS)
    {
      CUmemAllocationProp back;

      memset (&back, 0xee, sizeof back);
      r = C (cuMemGetAllocationPropertiesFromHandle, &back, handle);
      ok (r, "properties", "type %d handles %d location %d %d compression %d rdma %d usage %d", (int) back.type, (int) back.requestedHandleTypes,
          (int) back.location.type, back.location.id, back.allocFlags.compressionType, back.allocFlags.gpuDirectRDMACapable, back.allocFlags.usage);
      C (cuMemRelease, handle);
    }
  r = C (cuMemGetAllocationGranularity, &granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  ok (r, "granularity", "%zu", granularity);
}

void
probe_vmm_create (void)
{
  CUmemGenericAllocationHandle handle = 0;
  CUmemAllocationProp prop, good = chunk_properties ();
  size_t granularity;
  int fd = -1;

#define TRY(what, change) \
  prop = good;            \
  change;                 \
  create (what, prop)

  TRY ("device 0", (void) 0);
  TRY ("device 99", prop.location.id = 99);
  TRY ("type 0", prop.type = (CUmemAllocationType) 0);
  TRY ("type managed", prop.type = (CUmemAllocationType) 2);
  TRY ("location type 0", prop.location.type = (CUmemLocationType) 0);
  TRY ("host", prop.location.type = (CUmemLocationType) 2);
  TRY ("host NUMA 0", prop.location.type = (CUmemLocationType) 3);
  TRY ("host NUMA 99", (prop.location.type = (CUmemLocationType) 3, prop.location.id = 99));
  TRY ("host NUMA current", prop.location.type = (CUmemLocationType) 4);
  TRY ("compression", prop.allocFlags.compressionType = 1);
  TRY ("compression 9", prop.allocFlags.compressionType = 9);
  TRY ("rdma", prop.allocFlags.gpuDirectRDMACapable = 1);
  TRY ("usage tile pool", prop.allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL);
  TRY ("usage 0x8000", prop.allocFlags.usage = 0x8000);
  TRY ("reserved set", prop.allocFlags.reserved[0] = 1);
  TRY ("handle win32", prop.requestedHandleTypes = (CUmemAllocationHandleType) 2);
  TRY ("handle 0x80", prop.requestedHandleTypes = (CUmemAllocationHandleType) 0x80);
  TRY ("handles posix and fabric", prop.requestedHandleTypes = (CUmemAllocationHandleType) 9);
  TRY ("handle posix", prop.requestedHandleTypes = (CUmemAllocationHandleType) 1);
#undef TRY
  only (C (cuMemCreate, &handle, 2 * MIB, &good, 1), "create flags 1");
  only (C (cuMemGetAllocationGranularity, &granularity, &good, (CUmemAllocationGranularity_flags) 9), "granularity option 9");
  C (cuMemCreate, &handle, 2 * MIB, &good, 0);
  only (C (cuMemExportToShareableHandle, &fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0), "export without a handle type");
  only (C (cuMemExportToShareableHandle, &fd, handle, (CUmemAllocationHandleType) 0, 0), "export type 0");
  C (cuMemRelease, handle);
  only (C (cuMemGetAllocationPropertiesFromHandle, &prop, handle), "properties of a released handle");
}
