/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Attributes of addresses. */

#include "sim-private.h"

static gboolean
is_host (SimAllocation *allocation)
{
  return allocation->kind == SIM_ALLOCATION_PINNED || allocation->kind == SIM_ALLOCATION_REGISTERED ||
         (allocation->kind == SIM_ALLOCATION_POOL && allocation->pool->type == 1 && allocation->pool->device == NULL) ||
         (allocation->kind == SIM_ALLOCATION_MAPPED && allocation->device == NULL);
}

static gboolean
is_managed (SimAllocation *allocation)
{
  return allocation->kind == SIM_ALLOCATION_MANAGED || (allocation->kind == SIM_ALLOCATION_POOL && allocation->pool->type == 2);
}

static guint
access_of (SimAllocation *allocation)
{
  guint8 access = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  SimContext *context;
  SimDevice *device;

  if (allocation->kind == SIM_ALLOCATION_MAPPED || (allocation->kind == SIM_ALLOCATION_POOL && allocation->pool->device != NULL))
    {
      device = sim_current_or_lost (&context) == CUDA_SUCCESS ? context->device : allocation->device;
      if (device == NULL)
        device = sim.devices[0];
      access = allocation->kind == SIM_ALLOCATION_MAPPED ? allocation->access[device->ordinal] : allocation->pool->access[device->ordinal];
    }
  return access;
}

static CUresult
attribute_of (void *data, int attribute, SimAllocation *allocation, CUdeviceptr ptr)
{
  guint64 wide = 0, base;
  gsize size;
  guint32 number = 0;
  guint32 flag = 0; /* documented as a boolean, written as an int */

  switch (attribute)
    {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      wide = allocation->context != NULL ? (guintptr) allocation->context->handle : 0;
      memcpy (data, &wide, sizeof wide);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      number = is_host (allocation) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      memcpy (data, &number, sizeof number);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      if (access_of (allocation) == 0 || (allocation->kind == SIM_ALLOCATION_POOL && sim_pool_is_host (allocation->pool) && allocation->pool->access[0] == 0))
        return CUDA_ERROR_INVALID_VALUE;
      wide = ptr;
      memcpy (data, &wide, sizeof wide);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!is_host (allocation) && !is_managed (allocation))
        return CUDA_ERROR_INVALID_VALUE;
      wide = ptr;
      memcpy (data, &wide, sizeof wide);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      flag = allocation->sync_memops != 0;
      break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      wide = allocation->buffer_id;
      memcpy (data, &wide, sizeof wide);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      flag = is_managed (allocation);
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      number = allocation->device != NULL ? (guint32) allocation->device->ordinal : 0;
      memcpy (data, &number, sizeof number);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      flag = allocation->kind == SIM_ALLOCATION_DEVICE;
      break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      /* Of a mapping these tell the whole reservation; the mapping itself has attributes of its own. */
      if (allocation->kind != SIM_ALLOCATION_MAPPED || !sim_virtual_range (allocation->base, &base, &size))
        {
          base = allocation->base;
          size = allocation->size;
        }
      wide = attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE ? size : base;
      memcpy (data, &wide, sizeof wide);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      flag = TRUE;
      break;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      if (allocation->kind == SIM_ALLOCATION_POOL)
        wide = allocation->pool->handle_types;
      else if (allocation->kind == SIM_ALLOCATION_MAPPED)
        wide = (guint64) allocation->memory->prop.requestedHandleTypes;
      memcpy (data, &wide, sizeof wide);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      flag = !is_host (allocation) && !is_managed (allocation);
      break;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      number = access_of (allocation);
      memcpy (data, &number, sizeof number);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      wide = allocation->kind == SIM_ALLOCATION_POOL ? (guintptr) allocation->pool->handle : 0;
      memcpy (data, &wide, sizeof wide);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      memcpy (data, &allocation->size, sizeof allocation->size);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      memcpy (data, &allocation->base, sizeof allocation->base);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      wide = allocation->buffer_id;
      memcpy (data, &wide, sizeof wide);
      return CUDA_SUCCESS;
    case 21: /* IS_HW_DECOMPRESS_CAPABLE */
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
    }
  memcpy (data, &flag, sizeof flag);
  return CUDA_SUCCESS;
}

static SimAllocation *
find (CUdeviceptr ptr)
{
  SimAllocation *allocation = sim_allocation_find (ptr);

  if (allocation != NULL && allocation->kind == SIM_ALLOCATION_GRAPH && !allocation->live)
    return NULL;
  return allocation;
}

SIM_ENTRY (cuPointerGetAttribute, 0, (void *, data), (CUpointer_attribute, attribute), (CUdeviceptr, ptr))
{
  SimAllocation *allocation = find (ptr);

  if (data == NULL || allocation == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  return attribute_of (data, (int) attribute, allocation, ptr);
}

/* What cannot be answered is zero here, and no error. */
SIM_ENTRY (cuPointerGetAttributes, 0, (unsigned int, numAttributes), (CUpointer_attribute *, attributes), (void **, data), (CUdeviceptr, ptr))
{
  SimAllocation *allocation = find (ptr);

  if (numAttributes == 0 || attributes == NULL || data == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  for (unsigned int i = 0; i < numAttributes; i++)
    {
      static const guint8 sizes[] = { 0, 8, 4, 8, 8, 16, 1, 8, 1, 4, 1, 8, 8, 1, 8, 1, 4, 8, 8, 8, 8, 1 };
      int attribute = (int) attributes[i];

      if (attribute < 1 || attribute >= (int) G_N_ELEMENTS (sizes) || data[i] == NULL)
        return CUDA_ERROR_INVALID_VALUE;
      if (allocation == NULL || attribute_of (data[i], attribute, allocation, ptr) != CUDA_SUCCESS)
        {
          memset (data[i], 0, sizes[attribute]);
          if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
            *(int *) data[i] = -2;
        }
    }
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuPointerSetAttribute, 0, (const void *, value), (CUpointer_attribute, attribute), (CUdeviceptr, ptr))
{
  SimAllocation *allocation = find (ptr);

  if (value == NULL || allocation == NULL || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
    return CUDA_ERROR_INVALID_VALUE;
  allocation->sync_memops = *(const unsigned int *) value != 0;
  return CUDA_SUCCESS;
}
