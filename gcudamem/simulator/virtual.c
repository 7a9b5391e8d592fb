/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Virtual memory management, on real mappings: what is reserved and not mapped
 * is inaccessible; access rights are page protections as well. */

#include "sim-private.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define GRANULARITY        SIM_MIB (2)
#define LOCATION_DEVICE    1
#define LOCATION_HOST      2
#define LOCATION_HOST_NUMA 3
#define HANDLE_TYPES       (CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_WIN32 | CU_MEM_HANDLE_TYPE_WIN32_KMT | 8)

typedef struct
{
  guint64 base;
  gsize size;
} SimReservation;

static GTree *reservations;  /* base: SimReservation */
static GHashTable *released; /* handle: CUmemAllocationProp; the real driver still tells */
static guint n_handles;

static gint
compare_addresses (gconstpointer a, gconstpointer b, gpointer data)
{
  (void) data;
  return (guintptr) a < (guintptr) b ? -1 : (guintptr) a > (guintptr) b;
}

guint
sim_virtual_reservations (void)
{
  return reservations != NULL ? (guint) g_tree_nnodes (reservations) : 0;
}

guint
sim_virtual_handles (void)
{
  return n_handles;
}

static SimReservation *
reservation_at (guint64 address)
{
  GTreeNode *node = reservations != NULL ? g_tree_upper_bound (reservations, (gconstpointer) address) : NULL;
  SimReservation *reservation;

  if (reservations == NULL)
    return NULL;
  node = node != NULL ? g_tree_node_previous (node) : g_tree_node_last (reservations);
  reservation = node != NULL ? g_tree_node_value (node) : NULL;
  return reservation != NULL && address - reservation->base < reservation->size ? reservation : NULL;
}

gboolean
sim_virtual_range (guint64 address, guint64 *base, gsize *size)
{
  SimReservation *reservation = reservation_at (address);

  if (reservation == NULL)
    return FALSE;
  *base = reservation->base;
  *size = reservation->size;
  return TRUE;
}

/* Whether adjacent reservations cover the range. */
static gboolean
is_reserved (guint64 address, gsize size)
{
  guint64 end = address + size;

  if (reservations == NULL || end < address)
    return FALSE;
  while (address < end)
    {
      SimReservation *reservation = reservation_at (address);

      if (reservation == NULL)
        return FALSE;
      address = reservation->base + reservation->size;
    }
  return TRUE;
}

SIM_ENTRY (cuMemAddressReserve, 0, (CUdeviceptr *, ptr), (size_t, size), (size_t, alignment), (CUdeviceptr, addr), (unsigned long long, flags))
{
  SimReservation *reservation;
  guint64 base;

  if (ptr == NULL || size == 0 || size % GRANULARITY != 0 || flags != 0 || (alignment != 0 && (alignment & (alignment - 1)) != 0))
    return CUDA_ERROR_INVALID_VALUE;
  base = sim_address_reserve (size, MAX (alignment, GRANULARITY), addr);
  if (base == 0)
    return CUDA_ERROR_OUT_OF_MEMORY;
  if (reservations == NULL)
    reservations = g_tree_new_full (compare_addresses, NULL, NULL, g_free);
  reservation = g_new (SimReservation, 1);
  reservation->base = base;
  reservation->size = size;
  g_tree_insert (reservations, (gpointer) base, reservation);
  *ptr = base;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuMemAddressFree, 0, (CUdeviceptr, ptr), (size_t, size))
{
  SimReservation *reservation = reservations != NULL ? g_tree_lookup (reservations, (gconstpointer) ptr) : NULL;

  if (reservation == NULL || reservation->size != size || !sim_range_free (ptr, size))
    return CUDA_ERROR_INVALID_VALUE;
  g_tree_remove (reservations, (gconstpointer) ptr);
  sim_address_release (ptr, size);
  return CUDA_SUCCESS;
}

/* ---- chunks ---- */

static SimMemory *
memory_new (SimPhysical *physical, const CUmemAllocationProp *prop)
{
  SimMemory *memory = g_new0 (SimMemory, 1);

  memory->refs = 1;
  memory->handle_refs = 1;
  memory->physical = physical;
  memory->prop = *prop;
  memory->handle = sim_handle_new (SIM_HANDLE_MEMORY, memory);
  if (released != NULL)
    g_hash_table_remove (released, memory->handle);
  n_handles++;
  return memory;
}

void
sim_memory_unref (SimMemory *memory)
{
  if (--memory->refs > 0)
    return;
  if (released == NULL)
    released = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  g_hash_table_insert (released, memory->handle, g_memdup2 (&memory->prop, sizeof memory->prop));
  sim_handle_free (memory->handle);
  sim_physical_unref (memory->physical);
  g_free (memory);
}

static SimMemory *
memory_of (CUmemGenericAllocationHandle handle)
{
  SimMemory *memory = sim_handle_get ((gconstpointer) handle, SIM_HANDLE_MEMORY, NULL);

  return memory != NULL && memory->handle_refs > 0 ? memory : NULL;
}

SIM_ENTRY (cuMemCreate, 0, (CUmemGenericAllocationHandle *, handle), (size_t, size), (const CUmemAllocationProp *, prop), (unsigned long long, flags))
{
  SimDevice *device = NULL;
  CUmemAllocationProp kept;
  SimPhysical *physical;

  if (handle == NULL || prop == NULL || flags != 0 || (int) prop->type != 1)
    return CUDA_ERROR_INVALID_VALUE;
  if (size == 0 || size % GRANULARITY != 0)
    return CUDA_ERROR_INVALID_VALUE;
  memset (&kept, 0, sizeof kept);
  kept.type = prop->type;
  kept.location = prop->location;
  switch ((int) prop->location.type)
    {
    case LOCATION_DEVICE:
      device = sim_device (prop->location.id);
      if (device == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
      if (!sim_device_supports (device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED))
        return CUDA_ERROR_NOT_SUPPORTED;
      break;
    case LOCATION_HOST:
      /* Becomes a node. */
      kept.location.type = (CUmemLocationType) LOCATION_HOST_NUMA;
      kept.location.id = 0;
      break;
    case LOCATION_HOST_NUMA:
      if (prop->location.id != 0)
        return CUDA_ERROR_INVALID_VALUE;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
    }
  kept.requestedHandleTypes = (CUmemAllocationHandleType) ((int) prop->requestedHandleTypes & (int) HANDLE_TYPES);
  if (kept.requestedHandleTypes & (CU_MEM_HANDLE_TYPE_WIN32 | CU_MEM_HANDLE_TYPE_WIN32_KMT))
    return CUDA_ERROR_INVALID_VALUE;
  if (prop->allocFlags.compressionType > CU_MEM_ALLOCATION_COMP_GENERIC)
    return CUDA_ERROR_INVALID_VALUE;
  for (guint i = 0; i < sizeof prop->allocFlags.reserved; i++)
    {
      if (prop->allocFlags.reserved[i] != 0)
        return CUDA_ERROR_INVALID_VALUE;
    }
  if (kept.requestedHandleTypes & 8)
    return CUDA_ERROR_NOT_PERMITTED;
  kept.allocFlags.compressionType = prop->allocFlags.compressionType;
  kept.allocFlags.gpuDirectRDMACapable = prop->allocFlags.gpuDirectRDMACapable;

  physical = sim_physical_new (device, size, kept.requestedHandleTypes != 0);
  if (physical == NULL)
    return CUDA_ERROR_OUT_OF_MEMORY;
  *handle = (guintptr) memory_new (physical, &kept)->handle;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuMemRelease, 0, (CUmemGenericAllocationHandle, handle))
{
  SimMemory *memory = memory_of (handle);

  if (memory == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  memory->handle_refs--;
  n_handles--;
  sim_memory_unref (memory);
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuMemRetainAllocationHandle, 0, (CUmemGenericAllocationHandle *, handle), (void *, addr))
{
  SimAllocation *allocation = sim_allocation_find ((guintptr) addr);

  if (handle == NULL || allocation == NULL || allocation->kind != SIM_ALLOCATION_MAPPED)
    return CUDA_ERROR_INVALID_VALUE;
  allocation->memory->refs++;
  allocation->memory->handle_refs++;
  n_handles++;
  *handle = (guintptr) allocation->memory->handle;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuMemGetAllocationGranularity, 0, (size_t *, granularity), (const CUmemAllocationProp *, prop), (CUmemAllocationGranularity_flags, option))
{
  if (granularity == NULL || prop == NULL || (guint) option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
    return CUDA_ERROR_INVALID_VALUE;
  *granularity = GRANULARITY;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuMemGetAllocationPropertiesFromHandle, 0, (CUmemAllocationProp *, prop), (CUmemGenericAllocationHandle, handle))
{
  SimMemory *memory = sim_handle_get ((gconstpointer) handle, SIM_HANDLE_MEMORY, NULL);
  CUmemAllocationProp *old = NULL;

  if (memory == NULL && released != NULL)
    old = g_hash_table_lookup (released, (gconstpointer) handle);
  if (prop == NULL || (memory == NULL && old == NULL))
    return CUDA_ERROR_INVALID_VALUE;
  *prop = memory != NULL ? memory->prop : *old;
  return CUDA_SUCCESS;
}

/* ---- mappings ---- */

SIM_ENTRY (cuMemMap, 0, (CUdeviceptr, ptr), (size_t, size), (size_t, offset), (CUmemGenericAllocationHandle, handle), (unsigned long long, flags))
{
  SimMemory *memory = memory_of (handle);
  SimAllocation *allocation;

  if (memory == NULL || flags != 0 || size == 0 || size % GRANULARITY != 0 || ptr % GRANULARITY != 0 || offset != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (size > memory->physical->size)
    return CUDA_ERROR_NOT_SUPPORTED;
  if (!is_reserved (ptr, size) || !sim_range_free (ptr, size))
    return CUDA_ERROR_INVALID_VALUE;
  sim_physical_map (memory->physical, ptr, offset, size, PROT_NONE);
  allocation = sim_allocation_new (SIM_ALLOCATION_MAPPED, ptr, size, memory->physical->device);
  allocation->memory = memory;
  allocation->offset = offset;
  memory->refs++;
  return CUDA_SUCCESS;
}

/* Does not wait: work that is pending on the range fails when it runs. */
SIM_ENTRY (cuMemUnmap, 0, (CUdeviceptr, ptr), (size_t, size))
{
  guint64 end = ptr + size;
  SimAllocation *allocation;

  if (size == 0 || size % GRANULARITY != 0 || ptr % GRANULARITY != 0 || !is_reserved (ptr, size))
    return CUDA_ERROR_INVALID_VALUE;
  allocation = sim_allocation_find (ptr);
  if (allocation != NULL && allocation->base != ptr)
    return CUDA_ERROR_INVALID_VALUE;
  allocation = sim_allocation_find (end - 1);
  if (allocation != NULL && allocation->base + allocation->size != end)
    return CUDA_ERROR_INVALID_VALUE;

  while ((allocation = sim_allocation_next (ptr - 1)) != NULL && allocation->base < end)
    {
      SimMemory *memory = allocation->memory;

      sim_address_unmap (allocation->base, allocation->size);
      ptr = allocation->base + allocation->size;
      sim_allocation_remove (allocation);
      sim_memory_unref (memory);
    }
  return CUDA_SUCCESS;
}

static void
protect (SimAllocation *allocation)
{
  guint8 all = 0;

  for (guint i = 0; i < G_N_ELEMENTS (allocation->access); i++)
    all |= allocation->access[i];
  sim_address_protect (allocation->base, allocation->size,
                       all == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? PROT_READ | PROT_WRITE
                       : all == CU_MEM_ACCESS_FLAGS_PROT_READ    ? PROT_READ
                                                                 : PROT_NONE);
}

/* All is checked before anything changes. */
SIM_ENTRY (cuMemSetAccess, 0, (CUdeviceptr, ptr), (size_t, size), (const CUmemAccessDesc *, desc), (size_t, count))
{
  guint64 end = ptr + size;
  SimAllocation *allocation;
  guint64 address;

  if (desc == NULL || count == 0 || size == 0 || size % GRANULARITY != 0 || !is_reserved (ptr, size))
    return CUDA_ERROR_INVALID_VALUE;
  for (address = ptr; address < end; address = allocation->base + allocation->size)
    {
      allocation = sim_allocation_at (address);
      if (allocation == NULL || allocation->kind != SIM_ALLOCATION_MAPPED || allocation->base + allocation->size > end)
        return CUDA_ERROR_INVALID_VALUE;
      for (size_t i = 0; i < count; i++)
        {
          int type = (int) desc[i].location.type;
          int flags = (int) desc[i].flags;

          if (flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && flags != CU_MEM_ACCESS_FLAGS_PROT_READ && flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            return CUDA_ERROR_INVALID_VALUE;
          if (type == LOCATION_HOST || type == LOCATION_HOST_NUMA)
            {
              if (allocation->device != NULL)
                return CUDA_ERROR_NOT_SUPPORTED;
            }
          else if (type != LOCATION_DEVICE || sim_device (desc[i].location.id) == NULL)
            return CUDA_ERROR_INVALID_VALUE;
          else if (allocation->device != NULL && allocation->device->ordinal != desc[i].location.id && !sim.peer_access)
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
  for (address = ptr; address < end; address = allocation->base + allocation->size)
    {
      allocation = sim_allocation_at (address);
      for (size_t i = 0; i < count; i++)
        {
          gboolean device = (int) desc[i].location.type == LOCATION_DEVICE;

          allocation->access[device ? desc[i].location.id : SIM_MAX_DEVICES] = (guint8) desc[i].flags;
        }
      protect (allocation);
    }
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuMemGetAccess, 0, (unsigned long long *, flags), (const CUmemLocation *, location), (CUdeviceptr, ptr))
{
  SimAllocation *allocation = sim_allocation_find (ptr);
  int type;

  if (flags == NULL || location == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  type = (int) location->type;
  if (type == LOCATION_DEVICE && sim_device (location->id) == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  if (allocation == NULL || (type != LOCATION_DEVICE && type != LOCATION_HOST && type != LOCATION_HOST_NUMA))
    return CUDA_ERROR_INVALID_VALUE;
  *flags = allocation->kind == SIM_ALLOCATION_MAPPED ? allocation->access[type == LOCATION_DEVICE ? location->id : SIM_MAX_DEVICES] : 0;
  return CUDA_SUCCESS;
}

/* ---- sharing: a chunk made for it is a file of its own ---- */

SIM_ENTRY (cuMemExportToShareableHandle, 0, (void *, shareableHandle), (CUmemGenericAllocationHandle, handle), (CUmemAllocationHandleType, handleType), (unsigned long long, flags))
{
  SimMemory *memory = memory_of (handle);
  int fd;

  if (shareableHandle == NULL || memory == NULL || flags != 0 || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
      !(memory->prop.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
    return CUDA_ERROR_INVALID_VALUE;
  fd = fcntl (memory->physical->fd, F_DUPFD_CLOEXEC, 3);
  if (fd < 0)
    return CUDA_ERROR_OPERATING_SYSTEM;
  *(int *) shareableHandle = fd;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuMemImportFromShareableHandle, 0, (CUmemGenericAllocationHandle *, handle), (void *, osHandle), (CUmemAllocationHandleType, shHandleType))
{
  CUmemAllocationProp prop;
  SimDevice *device = NULL;
  char path[64], name[128] = "";
  struct stat info;
  int index, fd;

  if (handle == NULL || shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return CUDA_ERROR_INVALID_VALUE;
  fd = (int) (gintptr) osHandle;
  g_snprintf (path, sizeof path, "/proc/self/fd/%d", fd);
  if (fd < 0 || readlink (path, name, sizeof name - 1) < 0 || sscanf (name, "/memfd:gcudasim-shared:%d", &index) != 1 || fstat (fd, &info) != 0)
    return CUDA_ERROR_UNKNOWN;
  memset (&prop, 0, sizeof prop);
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  prop.location.type = (CUmemLocationType) (index < 0 ? LOCATION_HOST_NUMA : LOCATION_DEVICE);
  for (guint i = 0; i < sim.n_devices; i++)
    {
      if (sim.devices[i]->index == index)
        {
          device = sim.devices[i];
          prop.location.id = (int) i;
        }
    }
  if (index >= 0 && device == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  fd = fcntl (fd, F_DUPFD_CLOEXEC, 3);
  if (fd < 0)
    return CUDA_ERROR_OPERATING_SYSTEM;
  *handle = (guintptr) memory_new (sim_physical_import (device, fd, 0, (guint64) info.st_size), &prop)->handle;
  return CUDA_SUCCESS;
}
