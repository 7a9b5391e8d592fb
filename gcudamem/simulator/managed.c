/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Managed memory: one copy that everybody sees; only what was advised is kept. */

#include "sim-private.h"

#define NOWHERE         (-2)
#define LOCATION_DEVICE 1
#define LOCATION_HOST   2
#define LOCATION_NUMA   3

static SimHeap *heap;

#define PAGE 4096

/* Memory of a pool prefers the pool's location. */
void
sim_managed_init (SimAllocation *allocation, unsigned int flags, int location_type, int location_id)
{
  allocation->attach = flags;
  allocation->advice = g_new0 (SimAdvice, 1);
  allocation->n_advice = 1;
  allocation->advice->preferred_type = location_type;
  allocation->advice->preferred_id = location_type == 0 ? NOWHERE : location_type == LOCATION_DEVICE ? location_id
                                                                                                     : -1;
  allocation->advice->prefetch_id = NOWHERE;
}

/* What was said of the pages that [address, address + size) touches. */
static SimAdvice *
advice_of (SimAllocation *allocation, guint64 address, gsize size, gboolean change, gsize *count)
{
  gsize pages = (allocation->size + PAGE - 1) / PAGE;
  gsize first = (address - allocation->base) / PAGE;
  gsize last = (address + size - 1 - allocation->base) / PAGE;

  if (allocation->n_advice == 1 && change && (first > 0 || last + 1 < pages))
    {
      SimAdvice one = *allocation->advice;

      allocation->advice = g_renew (SimAdvice, allocation->advice, pages);
      allocation->n_advice = pages;
      for (gsize i = 0; i < pages; i++)
        allocation->advice[i] = one;
    }
  if (allocation->n_advice == 1)
    {
      *count = 1;
      return allocation->advice;
    }
  *count = last - first + 1;
  return allocation->advice + first;
}

static gboolean
is_managed (SimAllocation *allocation)
{
  return allocation->kind == SIM_ALLOCATION_MANAGED || (allocation->kind == SIM_ALLOCATION_POOL && allocation->pool->type == 2);
}

SIM_ENTRY (cuMemAllocManaged, SIM_UNSAFE, (CUdeviceptr *, dptr), (size_t, bytesize), (unsigned int, flags))
{
  SimAllocation *allocation;
  SimContext *context;
  SimBlock *block;

  if (dptr == NULL || bytesize == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_current (&context));
  if (!sim_device_supports (context->device, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY))
    return CUDA_ERROR_NOT_SUPPORTED;
  if (heap == NULL)
    heap = sim_heap_new (NULL, SIM_MIB (2), FALSE, NULL);
  SIM_TRY (sim_heap_alloc (heap, sim.check_host ? SIM_ALIGN_UP (bytesize, 4096) : bytesize, NULL, &block));
  allocation = sim_allocation_new (SIM_ALLOCATION_MANAGED, block->base, bytesize, context->device);
  allocation->block = block;
  allocation->context = context;
  allocation->context_id = context->id;
  sim_managed_init (allocation, flags, 0, 0);
  sim_poison (block->base, bytesize, 0xcd);
  *dptr = block->base;
  return CUDA_SUCCESS;
}

static SimAllocation *
find_managed (CUdeviceptr address, gsize size)
{
  SimAllocation *allocation = sim_allocation_find (address);

  if (allocation == NULL || !is_managed (allocation) || size == 0 || size > allocation->base + allocation->size - address)
    return NULL;
  return allocation;
}

/* The id that is kept of a location. */
static int
place (CUmemLocation location)
{
  return (int) location.type == LOCATION_DEVICE || (int) location.type == LOCATION_NUMA ? location.id : -1;
}

static gboolean
location_good (CUmemLocation location)
{
  switch ((int) location.type)
    {
    case LOCATION_DEVICE:
      return sim_device (location.id) != NULL;
    case LOCATION_HOST:
    case 4: /* NUMA node of the calling thread */
      return TRUE;
    case LOCATION_NUMA:
      return location.id == 0;
    default:
      return FALSE;
    }
}

static CUresult
advise (CUdeviceptr address, gsize size, CUmem_advise advice, CUmemLocation location)
{
  SimAllocation *allocation = find_managed (address, size);
  gboolean device = (int) location.type == LOCATION_DEVICE;
  SimAdvice *pages;
  gsize count;

  if (allocation == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  /* Memory of pools takes none. */
  if (allocation->kind == SIM_ALLOCATION_POOL)
    return allocation->pool->location_type == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
  switch ((int) advice)
    {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
      break;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
      if (!location_good (location))
        return CUDA_ERROR_INVALID_VALUE;
      /* A node of the host's is no place to prefer. */
      if ((int) location.type == LOCATION_NUMA)
        return CUDA_SUCCESS;
      break;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
      if ((int) location.type == 0)
        return CUDA_ERROR_INVALID_VALUE;
      break;
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
      if (!location_good (location))
        return CUDA_ERROR_INVALID_VALUE;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
    }
  pages = advice_of (allocation, address, size, TRUE, &count);
  for (gsize i = 0; i < count; i++)
    {
      SimAdvice *page = &pages[i];

      switch ((int) advice)
        {
        case CU_MEM_ADVISE_SET_READ_MOSTLY:
        case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
          page->read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
          break;
        case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
          page->preferred_type = (int) location.type;
          page->preferred_id = place (location);
          break;
        case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
          page->preferred_type = 0;
          page->preferred_id = NOWHERE;
          break;
        case CU_MEM_ADVISE_SET_ACCESSED_BY:
        case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
        default:
          if (!device)
            page->accessed_by_host = advice == CU_MEM_ADVISE_SET_ACCESSED_BY;
          else if (advice == CU_MEM_ADVISE_SET_ACCESSED_BY)
            page->accessed_by |= 1u << location.id;
          else
            page->accessed_by &= ~(1u << location.id);
          break;
        }
    }
  return CUDA_SUCCESS;
}

static CUmemLocation
location_of (CUdevice device)
{
  CUmemLocation location;

  location.type = (CUmemLocationType) (device == CU_DEVICE_CPU ? LOCATION_HOST : LOCATION_DEVICE);
  location.id = device == CU_DEVICE_CPU ? 0 : device;
  return location;
}

SIM_ENTRY (cuMemAdvise, 0, (CUdeviceptr, devPtr), (size_t, count), (CUmem_advise, advice), (CUdevice, device))
{
  return advise (devPtr, count, advice, location_of (device));
}

SIM_ENTRY (cuMemAdvise_v2, 0, (CUdeviceptr, devPtr), (size_t, count), (CUmem_advise, advice), (CUmemLocation, location))
{
  return advise (devPtr, count, advice, location);
}

static CUresult
prefetch (CUdeviceptr address, gsize size, CUmemLocation location, CUstream handle)
{
  SimWork work = { .kind = SIM_WORK_EMPTY };
  SimAllocation *allocation;
  SimStream *stream;
  SimAdvice *pages;
  gsize count;

  SIM_TRY (sim_stream (handle, &stream));
  if (stream->capture != NULL)
    {
      sim_capture_invalidate (stream->capture);
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
  allocation = find_managed (address, size);
  if (allocation == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  if (!location_good (location))
    return (int) location.type == LOCATION_DEVICE ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
  if ((int) location.type == LOCATION_DEVICE &&
      !sim_device_supports (sim_device (location.id), CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS))
    return CUDA_ERROR_INVALID_DEVICE;
  SIM_TRY (sim_submit (stream, &work));
  pages = advice_of (allocation, address, size, TRUE, &count);
  for (gsize i = 0; i < count; i++)
    {
      pages[i].prefetch_type = (int) location.type;
      pages[i].prefetch_id = place (location);
    }
  return CUDA_SUCCESS;
}

SIM_ENTRY_SZ (cuMemPrefetchAsync, 0, (CUdeviceptr, devPtr), (size_t, count), (CUdevice, dstDevice), (CUstream, hStream))
{
  return prefetch (devPtr, count, location_of (dstDevice), hStream);
}

SIM_ENTRY_SZ (cuMemPrefetchAsync_v2, 0, (CUdeviceptr, devPtr), (size_t, count), (CUmemLocation, location), (unsigned int, flags), (CUstream, hStream))
{
  if (flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  return prefetch (devPtr, count, location, hStream);
}

#if CUDA_VERSION >= 13000
/* Batches go on no legacy stream. */
static gboolean
takes_batches (CUstream handle)
{
  return handle != NULL && handle != CU_STREAM_LEGACY;
}

/* The contents are undefined afterwards: poisoned where the real driver may drop them. */
static CUresult
discard (CUdeviceptr *dptrs, size_t *sizes, size_t count, unsigned long long flags, CUstream handle)
{
  SimStream *stream;

  if (dptrs == NULL || sizes == NULL || count == 0 || flags != 0 || !takes_batches (handle))
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_stream (handle, &stream));
  for (size_t i = 0; i < count; i++)
    {
      if (find_managed (dptrs[i], sizes[i]) == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    }
  for (size_t i = 0; i < count; i++)
    {
      SimWork work = { .kind = SIM_WORK_SET };

      work.set.dst = dptrs[i];
      work.set.element = 1;
      work.set.value = 0xcd;
      work.set.width = work.set.pitch = sizes[i];
      work.set.height = 1;
      SIM_TRY (sim_submit (stream, &work));
    }
  return CUDA_SUCCESS;
}

static CUresult
prefetch_batch (CUdeviceptr *dptrs, size_t *sizes, size_t count, CUmemLocation *locations, size_t *indices, size_t n_locations, unsigned long long flags, CUstream handle)
{
  size_t at = 0;

  if (dptrs == NULL || sizes == NULL || count == 0 || locations == NULL || indices == NULL || n_locations == 0 || n_locations > count ||
      indices[0] != 0 || flags != 0 || !takes_batches (handle))
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; i++)
    {
      while (at + 1 < n_locations && indices[at + 1] <= i)
        at++;
      SIM_TRY (prefetch (dptrs[i], sizes[i], locations[at], handle));
    }
  return CUDA_SUCCESS;
}

SIM_ENTRY_SZ (cuMemDiscardBatchAsync, 0, (CUdeviceptr *, dptrs), (size_t *, sizes), (size_t, count), (unsigned long long, flags), (CUstream, hStream))
{
  return discard (dptrs, sizes, count, flags, hStream);
}

SIM_ENTRY_SZ (cuMemPrefetchBatchAsync, 0, (CUdeviceptr *, dptrs), (size_t *, sizes), (size_t, count), (CUmemLocation *, prefetchLocs), (size_t *, prefetchLocIdxs), (size_t, numPrefetchLocs), (unsigned long long, flags), (CUstream, hStream))
{
  return prefetch_batch (dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, hStream);
}

SIM_ENTRY_SZ (cuMemDiscardAndPrefetchBatchAsync, 0, (CUdeviceptr *, dptrs), (size_t *, sizes), (size_t, count), (CUmemLocation *, prefetchLocs), (size_t *, prefetchLocIdxs), (size_t, numPrefetchLocs), (unsigned long long, flags), (CUstream, hStream))
{
  SIM_TRY (discard (dptrs, sizes, count, flags, hStream));
  return prefetch_batch (dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, hStream);
}
#endif

/* What holds for all of the range. */
static SimAdvice
advice_in_common (SimAllocation *allocation, guint64 address, gsize size)
{
  gsize count;
  SimAdvice *pages = advice_of (allocation, address, size, FALSE, &count), common = pages[0];

  for (gsize i = 1; i < count; i++)
    {
      common.read_mostly = common.read_mostly && pages[i].read_mostly;
      common.accessed_by &= pages[i].accessed_by;
      common.accessed_by_host = common.accessed_by_host && pages[i].accessed_by_host;
      if (pages[i].preferred_type != common.preferred_type || pages[i].preferred_id != common.preferred_id)
        {
          common.preferred_type = 0;
          common.preferred_id = NOWHERE;
        }
      if (pages[i].prefetch_type != common.prefetch_type || pages[i].prefetch_id != common.prefetch_id)
        {
          common.prefetch_type = 0;
          common.prefetch_id = NOWHERE;
        }
    }
  return common;
}

static CUresult
range_attribute (void *data, gsize data_size, int attribute, SimAdvice advice)
{
  gboolean host = advice.accessed_by_host;
  gint32 *out = data;
  guint n = 0;

  if (data == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  if (attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY)
    {
      if (data_size == 0 || data_size % 4 != 0)
        return CUDA_ERROR_INVALID_VALUE;
      for (gsize i = 0; i < data_size / 4; i++)
        {
          while (n < sim.n_devices && !(advice.accessed_by & (1u << n)))
            n++;
          if (n < sim.n_devices)
            out[i] = (gint32) n++;
          else
            {
              out[i] = host ? CU_DEVICE_CPU : NOWHERE;
              host = FALSE;
            }
        }
      return CUDA_SUCCESS;
    }
  if (data_size != 4)
    return CUDA_ERROR_INVALID_VALUE;
  switch (attribute)
    {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
      *out = advice.read_mostly;
      return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
      *out = advice.preferred_type == LOCATION_NUMA ? CU_DEVICE_CPU : advice.preferred_id;
      return CUDA_SUCCESS;
    case 6: /* PREFERRED_LOCATION_ID */
      *out = advice.preferred_id;
      return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
      *out = advice.prefetch_type == LOCATION_NUMA ? CU_DEVICE_CPU : advice.prefetch_id;
      return CUDA_SUCCESS;
    case 8: /* LAST_PREFETCH_LOCATION_ID */
      *out = advice.prefetch_id;
      return CUDA_SUCCESS;
    case 5: /* PREFERRED_LOCATION_TYPE */
      *out = advice.preferred_type;
      return CUDA_SUCCESS;
    case 7: /* LAST_PREFETCH_LOCATION_TYPE */
      *out = advice.prefetch_type;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
    }
}

SIM_ENTRY (cuMemRangeGetAttribute, 0, (void *, data), (size_t, dataSize), (CUmem_range_attribute, attribute), (CUdeviceptr, devPtr), (size_t, count))
{
  SimAllocation *allocation = find_managed (devPtr, count);

  if (allocation == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  return range_attribute (data, dataSize, (int) attribute, advice_in_common (allocation, devPtr, count));
}

SIM_ENTRY (cuMemRangeGetAttributes, 0, (void **, data), (size_t *, dataSizes), (CUmem_range_attribute *, attributes), (size_t, numAttributes), (CUdeviceptr, devPtr), (size_t, count))
{
  SimAllocation *allocation = find_managed (devPtr, count);

  if (allocation == NULL || data == NULL || dataSizes == NULL || attributes == NULL || numAttributes == 0)
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < numAttributes; i++)
    SIM_TRY (range_attribute (data[i], dataSizes[i], (int) attributes[i], advice_in_common (allocation, devPtr, count)));
  return CUDA_SUCCESS;
}
