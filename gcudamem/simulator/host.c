/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Page-locked host memory, the driver's own and registered. */

#include "sim-private.h"

#include <sys/mman.h>
#include <unistd.h>

static SimHeap *heap;

/* Ordinary host memory, which the driver knows nothing of. */
gboolean
sim_pageable (guint64 address)
{
  return sim_is_host_address (address) && sim_allocation_find (address) == NULL;
}

static CUresult
host_alloc (void **pp, gsize size, unsigned int flags)
{
  SimAllocation *allocation;
  SimContext *context;
  SimBlock *block;

  if (pp == NULL || (flags & ~(unsigned int) (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED)))
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_current (&context));
  if (size == 0)
    {
      *pp = NULL;
      return CUDA_SUCCESS;
    }
  if (heap == NULL)
    heap = sim_heap_new (NULL, SIM_MIB (2), FALSE, NULL);
  /* Pages of its own, where what the program does to them is looked at. */
  SIM_TRY (sim_heap_alloc (heap, sim.check_host ? SIM_ALIGN_UP (size, 4096) : size, NULL, &block));
  allocation = sim_allocation_new (SIM_ALLOCATION_PINNED, block->base, size, context->device);
  allocation->block = block;
  allocation->context = context;
  allocation->context_id = context->id;
  /* Small ones share pages, and the driver then does not tell that one is portable. */
  allocation->flags = (flags & ~(size < SIM_MIB (1) ? CU_MEMHOSTALLOC_PORTABLE : 0u)) | CU_MEMHOSTALLOC_DEVICEMAP;
  sim_poison (block->base, size, 0xcd);
  *pp = (void *) block->base;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuMemAllocHost_v2, SIM_UNSAFE, (void **, pp), (size_t, bytesize))
{
  return host_alloc (pp, bytesize, 0);
}

SIM_ENTRY (cuMemHostAlloc, SIM_UNSAFE, (void **, pp), (size_t, bytesize), (unsigned int, Flags))
{
  return host_alloc (pp, bytesize, Flags);
}

/* Waits for all work, of which any may use it. */
static CUresult
host_give_up (void *p, SimAllocationKind kind, CUresult wrong)
{
  SimAllocation *allocation;
  SimContext *current;
  guint64 id;

  if (sim_current_or_lost (&current) == CUDA_SUCCESS && sim.lost != CUDA_SUCCESS)
    return sim.lost;
  allocation = sim_allocation_at ((guintptr) p);
  if (allocation == NULL || allocation->kind != kind)
    return wrong;
  if (allocation->context != NULL && sim.lost != CUDA_SUCCESS)
    return sim.lost;
  id = allocation->buffer_id;
  sim_device_wait (NULL);
  allocation = sim_allocation_at ((guintptr) p);
  if (allocation == NULL || allocation->buffer_id != id)
    return wrong;
  sim_allocation_remove (allocation);
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuMemFreeHost, SIM_UNSAFE, (void *, p))
{
  if (p == NULL)
    return CUDA_SUCCESS;
  return host_give_up (p, SIM_ALLOCATION_PINNED, CUDA_ERROR_INVALID_VALUE);
}

/* Whether there is memory at all. */
static gboolean
is_mapped (guint64 address, gsize size)
{
  guint64 page = (guint64) sysconf (_SC_PAGESIZE);
  guint64 start = address & ~(page - 1);
  unsigned char resident[4096];

  while (start < address + size)
    {
      guint64 length = MIN (address + size - start, sizeof resident * page);

      if (mincore ((void *) start, length, resident) != 0)
        return FALSE;
      start += length;
    }
  return TRUE;
}

/* Whether the processor may write all of it. */
static gboolean
is_writable (guint64 address, gsize size)
{
  char *maps = NULL, *line, *next;
  gboolean writable = TRUE;

  if (!g_file_get_contents ("/proc/self/maps", &maps, NULL, NULL))
    return TRUE;
  for (line = maps; *line != '\0'; line = next)
    {
      guint64 start, end;
      char *rest;

      next = strchr (line, '\n');
      next = next != NULL ? next + 1 : line + strlen (line);
      start = g_ascii_strtoull (line, &rest, 16);
      end = g_ascii_strtoull (rest + 1, &rest, 16);
      if (start < address + size && end > address && rest[2] != 'w')
        writable = FALSE;
    }
  g_free (maps);
  return writable;
}

static CUresult
host_register (void *p, gsize size, unsigned int flags)
{
  guint64 address = (guintptr) p;
  SimAllocation *allocation;
  SimContext *context;

  if (p == NULL || size == 0 || address + size < address || flags > 15)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_current (&context));
  if ((flags & CU_MEMHOSTREGISTER_READ_ONLY) && !sim_device_supports (context->device, CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED))
    return CUDA_ERROR_NOT_SUPPORTED;
  if (flags & CU_MEMHOSTREGISTER_IOMEMORY)
    return CUDA_ERROR_NOT_SUPPORTED;
  allocation = sim_allocation_find (address);
  if (allocation == NULL)
    allocation = sim_range_free (address, size) ? NULL : sim_allocation_next (address);
  if (allocation != NULL)
    return allocation->kind == SIM_ALLOCATION_REGISTERED || allocation->kind == SIM_ALLOCATION_PINNED
             ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
             : CUDA_ERROR_INVALID_VALUE;
  if (!sim_is_host_address (address) || !is_mapped (address, size))
    return CUDA_ERROR_INVALID_VALUE;
  if (!(flags & CU_MEMHOSTREGISTER_READ_ONLY) && !is_writable (address, size))
    return CUDA_ERROR_INVALID_VALUE;
  allocation = sim_allocation_new (SIM_ALLOCATION_REGISTERED, address, size, context->device);
  allocation->context = context;
  allocation->context_id = context->id;
  allocation->read_only = (flags & CU_MEMHOSTREGISTER_READ_ONLY) != 0;
  allocation->flags = (flags & (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP)) | CU_MEMHOSTALLOC_DEVICEMAP;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuMemHostRegister, SIM_UNSAFE, (void *, p), (size_t, bytesize), (unsigned int, Flags))
{
  return host_register (p, bytesize, Flags);
}

SIM_ENTRY (cuMemHostRegister_v2, SIM_UNSAFE, (void *, p), (size_t, bytesize), (unsigned int, Flags))
{
  return host_register (p, bytesize, Flags);
}

SIM_ENTRY (cuMemHostUnregister, SIM_UNSAFE, (void *, p))
{
  SimAllocation *inside;

  if (p == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  inside = sim_allocation_find ((guintptr) p);
  return host_give_up (p, SIM_ALLOCATION_REGISTERED,
                       inside != NULL && inside->kind == SIM_ALLOCATION_REGISTERED ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

static SimAllocation *
find_host (void *p)
{
  SimAllocation *allocation = sim_allocation_find ((guintptr) p);

  if (allocation == NULL || (allocation->kind != SIM_ALLOCATION_PINNED && allocation->kind != SIM_ALLOCATION_REGISTERED))
    return NULL;
  return allocation;
}

SIM_ENTRY (cuMemHostGetDevicePointer_v2, 0, (CUdeviceptr *, pdptr), (void *, p), (unsigned int, Flags))
{
  if (pdptr == NULL || Flags != 0 || find_host (p) == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  *pdptr = (guintptr) p;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuMemHostGetFlags, 0, (unsigned int *, pFlags), (void *, p))
{
  SimAllocation *allocation = find_host (p);

  if (pFlags == NULL || allocation == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  *pFlags = allocation->flags;
  return CUDA_SUCCESS;
}
