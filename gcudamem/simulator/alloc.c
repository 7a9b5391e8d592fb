/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* cuMemAlloc and relatives. */

#include "sim-private.h"

static CUresult
device_alloc (CUdeviceptr *dptr, gsize size)
{
  SimAllocation *allocation;
  SimContext *context;
  SimBlock *block;

  SIM_TRY (sim_current (&context));
  SIM_TRY (sim_heap_alloc (context->heap, size, NULL, &block));
  allocation = sim_allocation_new (SIM_ALLOCATION_DEVICE, block->base, size, context->device);
  allocation->block = block;
  allocation->context = context;
  allocation->context_id = context->id;
  sim_poison (block->base, size, 0xcd);
  *dptr = block->base;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuMemAlloc_v2, SIM_UNSAFE, (CUdeviceptr *, dptr), (size_t, bytesize))
{
  if (dptr == NULL || bytesize == 0)
    return CUDA_ERROR_INVALID_VALUE;
  return device_alloc (dptr, bytesize);
}

SIM_ENTRY (cuMemAllocPitch_v2, SIM_UNSAFE, (CUdeviceptr *, dptr), (size_t *, pPitch), (size_t, WidthInBytes), (size_t, Height), (unsigned int, ElementSizeBytes))
{
  gsize pitch;

  if (dptr == NULL || pPitch == NULL || WidthInBytes == 0 || Height == 0 ||
      (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16))
    return CUDA_ERROR_INVALID_VALUE;
  if (WidthInBytes > G_GUINT64_CONSTANT (1) << 47)
    return CUDA_ERROR_OUT_OF_MEMORY;
  pitch = SIM_ALIGN_UP (WidthInBytes, 512);
  if (Height > (G_GUINT64_CONSTANT (1) << 47) / pitch)
    return CUDA_ERROR_OUT_OF_MEMORY;
  SIM_TRY (device_alloc (dptr, pitch * Height));
  *pPitch = pitch;
  return CUDA_SUCCESS;
}

/* Waits for all work of the device, as the real one does. */
SIM_ENTRY (cuMemFree_v2, SIM_UNSAFE, (CUdeviceptr, dptr))
{
  SimAllocation *allocation;
  SimContext *current;
  guint64 id;
  CUresult result = sim_current_or_lost (&current);

  /* Without a context this works, with a dead one it does not. */
  if (result == CUDA_ERROR_CONTEXT_IS_DESTROYED)
    return result;
  if (result == CUDA_SUCCESS && sim.lost != CUDA_SUCCESS)
    return sim.lost;
  if (dptr == 0)
    return CUDA_SUCCESS;
  allocation = sim_allocation_at (dptr);
  if (allocation == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  if (allocation->context != NULL && sim.lost != CUDA_SUCCESS)
    return sim.lost;
  switch (allocation->kind)
    {
    case SIM_ALLOCATION_DEVICE:
    case SIM_ALLOCATION_POOL:
    case SIM_ALLOCATION_MANAGED:
      break;
    case SIM_ALLOCATION_GRAPH:
      if (allocation->live)
        break;
      return CUDA_ERROR_INVALID_VALUE;
    case SIM_ALLOCATION_PINNED:
    case SIM_ALLOCATION_REGISTERED:
    case SIM_ALLOCATION_MAPPED:
    case SIM_ALLOCATION_IPC:
    default:
      return CUDA_ERROR_INVALID_VALUE;
    }

  id = allocation->buffer_id;
  sim_device_wait (allocation->device);
  allocation = sim_allocation_at (dptr);
  if (allocation == NULL || allocation->buffer_id != id)
    return CUDA_ERROR_INVALID_VALUE;
  if (allocation->kind == SIM_ALLOCATION_POOL)
    sim_pool_free_now (allocation);
  else if (allocation->kind == SIM_ALLOCATION_GRAPH)
    sim_graph_memory_freed (allocation);
  else
    sim_allocation_remove (allocation);
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuMemGetInfo_v2, 0, (size_t *, free), (size_t *, total))
{
  SimContext *context;

  SIM_TRY (sim_current (&context));
  if (free != NULL)
    *free = context->device->total - context->device->used;
  if (total != NULL)
    *total = context->device->total;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuMemGetAddressRange_v2, 0, (CUdeviceptr *, pbase), (size_t *, psize), (CUdeviceptr, dptr))
{
  SimAllocation *allocation = sim_allocation_find (dptr);

  if (allocation == NULL || allocation->kind == SIM_ALLOCATION_MAPPED || (allocation->kind == SIM_ALLOCATION_GRAPH && !allocation->live))
    return CUDA_ERROR_NOT_FOUND;
  if (pbase != NULL)
    *pbase = allocation->base;
  if (psize != NULL)
    *psize = allocation->size;
  return CUDA_SUCCESS;
}
