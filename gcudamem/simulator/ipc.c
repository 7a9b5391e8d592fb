/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sharing between processes. Chunks of virtual memory are in virtual.c.
 *
 * A handle names a descriptor: a small file in memory that the exporting
 * process keeps open, reached through /proc/PID/fd. It lists the files and
 * offsets of the memory behind an allocation, or holds the state of an event.
 * So nothing is left behind when a process dies. */

#include "sim-private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x4d495347u /* GSIM */

typedef enum
{
  KIND_EVENT = 1,
  KIND_MEMORY,
  KIND_POOL,
  KIND_POINTER,
} SimIpcKind;

/* The 64 bytes that a program passes on. */
typedef struct
{
  guint32 magic;
  guint32 kind;
  gint32 pid;
  gint32 fd;    /* of the descriptor, in that process */
  guint64 id;   /* unique in that process */
  guint64 pool; /* of a pointer: id of its pool */
  guint8 unused[32];
} SimIpcHandle;

G_STATIC_ASSERT (sizeof (SimIpcHandle) == 64);

typedef struct
{
  guint32 magic;
  guint32 kind;
  gint32 pid;
  gint32 device; /* index */
  guint64 id;
  guint64 base; /* offset of the allocation in the first piece */
  guint64 size;
  guint64 n_pieces;
} SimDescriptor;

typedef struct
{
  gint32 fd; /* in the exporting process */
  gint32 unused;
  guint64 offset;
  guint64 size;
} SimPiece;

/* State of an interprocess event: how often it was recorded, and how far that
 * was executed. */
typedef struct
{
  guint64 recorded;
  guint64 done;
} SimSharedEvent;

typedef struct
{
  int fd;
  guint64 id;
  gint32 pid;
  SimSharedEvent *state;
} SimIpcEvent;

/* What an import holds: the pieces, mapped one behind the other. */
typedef struct
{
  gint32 pid;
  guint64 id;
  guint64 start; /* of the mapping */
  gsize length;
} SimImport;

static int
new_file (const char *name, const void *data, gsize size)
{
  int fd = memfd_create (name, MFD_CLOEXEC);

  if (fd >= 0 && size > 0 && pwrite (fd, data, size, 0) != (gssize) size)
    {
      close (fd);
      fd = -1;
    }
  return fd;
}

static int
open_foreign (gint32 pid, gint32 fd, int flags)
{
  char path[64];

  g_snprintf (path, sizeof path, "/proc/%d/fd/%d", pid, fd);
  return open (path, flags | O_CLOEXEC);
}

static void
fill_handle (SimIpcHandle *handle, SimIpcKind kind, int fd, guint64 id)
{
  memset (handle, 0, sizeof *handle);
  handle->magic = MAGIC;
  handle->kind = kind;
  handle->pid = (gint32) getpid ();
  handle->fd = fd;
  handle->id = id;
}

/* ---- events ---- */

static SimIpcEvent *
event_state (int fd, guint64 id, gint32 pid)
{
  SimIpcEvent *ipc;
  gpointer map = mmap (NULL, sizeof (SimSharedEvent), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

  if (map == MAP_FAILED)
    return NULL;
  ipc = g_new0 (SimIpcEvent, 1);
  ipc->fd = fd;
  ipc->id = id;
  ipc->pid = pid;
  ipc->state = map;
  return ipc;
}

CUresult
sim_ipc_event_init (SimEvent *event)
{
  SimSharedEvent zero = { 0, 0 };
  int fd = new_file ("gcudasim-event", &zero, sizeof zero);

  if (fd < 0)
    return CUDA_ERROR_OPERATING_SYSTEM;
  event->shared = event_state (fd, sim_next_id (), (gint32) getpid ());
  if (event->shared == NULL)
    {
      close (fd);
      return CUDA_ERROR_OPERATING_SYSTEM;
    }
  return CUDA_SUCCESS;
}

void
sim_ipc_event_clear (SimEvent *event)
{
  SimIpcEvent *ipc = event->shared;

  if (ipc == NULL)
    return;
  munmap (ipc->state, sizeof *ipc->state);
  close (ipc->fd);
  g_free (ipc);
  event->shared = NULL;
}

/* The number that stands for this record. */
guint64
sim_ipc_event_recorded (SimEvent *event)
{
  SimIpcEvent *ipc = event->shared;

  return ipc != NULL ? __atomic_add_fetch (&ipc->state->recorded, 1, __ATOMIC_SEQ_CST) : 0;
}

void
sim_ipc_event_executed (SimEvent *event, guint64 number)
{
  SimIpcEvent *ipc = event->shared;

  if (ipc != NULL && __atomic_load_n (&ipc->state->done, __ATOMIC_SEQ_CST) < number)
    __atomic_store_n (&ipc->state->done, number, __ATOMIC_SEQ_CST);
}

/* What must be done for the latest record, of whichever process, to be; 0: it is. */
guint64
sim_ipc_event_target (SimEvent *event)
{
  SimIpcEvent *ipc = event->shared;
  guint64 recorded;

  if (ipc == NULL)
    return 0;
  recorded = __atomic_load_n (&ipc->state->recorded, __ATOMIC_SEQ_CST);
  return recorded > __atomic_load_n (&ipc->state->done, __ATOMIC_SEQ_CST) ? recorded : 0;
}

gboolean
sim_ipc_event_reached (SimEvent *event, guint64 target)
{
  SimIpcEvent *ipc = event->shared;

  return ipc == NULL || __atomic_load_n (&ipc->state->done, __ATOMIC_SEQ_CST) >= target;
}

SIM_ENTRY (cuIpcGetEventHandle, 0, (CUipcEventHandle *, pHandle), (CUevent, event))
{
  SimIpcHandle handle;
  SimIpcEvent *ipc;
  SimEvent *exported;

  if (pHandle == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_event (event, &exported));
  ipc = exported->shared;
  if (ipc == NULL || ipc->pid != (gint32) getpid ())
    return CUDA_ERROR_INVALID_HANDLE;
  fill_handle (&handle, KIND_EVENT, ipc->fd, ipc->id);
  memcpy (pHandle, &handle, sizeof handle);
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuIpcOpenEventHandle, 0, (CUevent *, phEvent), (CUipcEventHandle, handle))
{
  SimIpcHandle data;
  SimContext *context;
  SimEvent *event;
  int fd;

  if (phEvent == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_current (&context));
  memcpy (&data, &handle, sizeof data);
  if (data.magic != MAGIC || data.kind != KIND_EVENT)
    return CUDA_ERROR_INVALID_VALUE;
  if (data.pid == (gint32) getpid ())
    return CUDA_ERROR_INVALID_CONTEXT;
  fd = open_foreign (data.pid, data.fd, O_RDWR);
  if (fd < 0)
    return CUDA_ERROR_INVALID_VALUE;
  event = g_new0 (SimEvent, 1);
  event->refs = 1;
  event->context = context;
  event->flags = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING;
  event->shared = event_state (fd, data.id, data.pid);
  if (event->shared == NULL)
    {
      close (fd);
      g_free (event);
      return CUDA_ERROR_MAP_FAILED;
    }
  event->handle = sim_handle_new (SIM_HANDLE_EVENT, event);
  g_hash_table_add (context->events, event);
  *phEvent = event->handle;
  return CUDA_SUCCESS;
}

/* ---- memory ---- */

/* The descriptor of an allocation, made when first exported, kept until it is freed. */
static int
describe (SimAllocation *allocation, SimIpcKind kind)
{
  GArray *data;
  SimDescriptor head = { 0 };
  guint64 address = allocation->base, end = allocation->base + allocation->size;
  SimPhysical *physical;
  guint64 offset;
  gsize length;

  if (allocation->ipc_fd > 0)
    return allocation->ipc_fd;
  data = g_array_new (FALSE, TRUE, 1);
  head.magic = MAGIC;
  head.kind = kind;
  head.pid = (gint32) getpid ();
  head.device = allocation->device != NULL ? allocation->device->index : SIM_HOST;
  head.id = allocation->buffer_id;
  head.size = allocation->size;
  g_array_append_vals (data, &head, sizeof head);
  while (address < end && sim_resolve (address, &physical, &offset, &length))
    {
      SimPiece piece = { 0 };
      guint64 within = head.n_pieces == 0 ? offset % 4096 : 0;

      /* Whole pages; what is asked begins somewhere in the first. */
      if (head.n_pieces == 0)
        head.base = within;
      piece.fd = physical->fd;
      piece.offset = physical->offset + offset - within;
      piece.size = SIM_ALIGN_UP (within + MIN (length, end - address), 4096);
      g_array_append_vals (data, &piece, sizeof piece);
      head.n_pieces++;
      address += length;
    }
  memcpy (data->data, &head, sizeof head);
  if (address >= end)
    allocation->ipc_fd = new_file ("gcudasim-memory", data->data, data->len);
  g_array_unref (data);
  return allocation->ipc_fd;
}

typedef struct
{
  gint32 pid;
  guint64 id;
  SimAllocation *found;
} SimSearch;

static void
match_import (SimAllocation *allocation, gpointer data)
{
  SimSearch *search = data;
  SimImport *import = allocation->ipc;

  if (import != NULL && !allocation->zombie && import->pid == search->pid && import->id == search->id)
    search->found = allocation;
}

static SimAllocation *
find_import (gint32 pid, guint64 id)
{
  SimSearch search = { pid, id, NULL };

  sim_allocations_foreach (match_import, &search);
  return search.found;
}

/* Maps what a handle stands for. */
static CUresult
import_memory (const SimIpcHandle *handle, SimAllocationKind kind, SimAllocation **allocation)
{
  SimDescriptor head;
  SimDevice *device = NULL;
  SimPiece *pieces;
  SimImport *import;
  guint64 start, at;
  gsize length = 0;
  gboolean good;
  int fd;

  fd = open_foreign (handle->pid, handle->fd, O_RDONLY);
  if (fd < 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (pread (fd, &head, sizeof head, 0) != sizeof head || head.magic != MAGIC || head.kind != handle->kind || head.id != handle->id ||
      head.pid != handle->pid || head.n_pieces == 0 || head.n_pieces > 1u << 20)
    {
      close (fd);
      return CUDA_ERROR_INVALID_VALUE;
    }
  pieces = g_new (SimPiece, head.n_pieces);
  good = pread (fd, pieces, head.n_pieces * sizeof *pieces, sizeof head) == (gssize) (head.n_pieces * sizeof *pieces);
  close (fd);
  for (guint i = 0; i < sim.n_devices; i++)
    {
      if (sim.devices[i]->index == head.device)
        device = sim.devices[i];
    }
  for (guint64 i = 0; good && i < head.n_pieces; i++)
    {
      good = pieces[i].size % 4096 == 0 && pieces[i].size < (guint64) 1 << 46;
      length += pieces[i].size;
    }
  start = good && (device != NULL || head.device == SIM_HOST) ? sim_address_reserve (SIM_ALIGN_UP (length, SIM_MIB (2)), SIM_MIB (2), 0) : 0;
  if (start == 0)
    {
      g_free (pieces);
      return CUDA_ERROR_INVALID_VALUE;
    }

  at = start;
  fd = -1;
  for (guint64 i = 0; good && i < head.n_pieces; i++)
    {
      fd = open_foreign (handle->pid, pieces[i].fd, O_RDWR);
      good = fd >= 0 && mmap ((gpointer) at, pieces[i].size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, (off_t) pieces[i].offset) != MAP_FAILED;
      at += pieces[i].size;
      if (fd >= 0 && (i + 1 < head.n_pieces || !good))
        close (fd);
    }
  if (!good)
    {
      sim_address_unmap (start, length);
      sim_address_release (start, SIM_ALIGN_UP (length, SIM_MIB (2)));
      g_free (pieces);
      return CUDA_ERROR_MAP_FAILED;
    }
  import = g_new0 (SimImport, 1);
  import->pid = handle->pid;
  import->id = handle->id;
  import->start = start;
  import->length = length;
  *allocation = sim_allocation_new (kind, start + head.base, head.size, device);
  (*allocation)->imported = sim_physical_import (device, fd, pieces[head.n_pieces - 1].offset, length);
  (*allocation)->ipc = import;
  g_free (pieces);
  return CUDA_SUCCESS;
}

/* Called when an allocation leaves the map. */
void
sim_ipc_allocation_clear (SimAllocation *allocation)
{
  SimImport *import = allocation->ipc;

  if (allocation->ipc_fd > 0)
    close (allocation->ipc_fd);
  allocation->ipc_fd = 0;
  if (import != NULL)
    {
      sim_address_unmap (import->start, import->length);
      sim_address_release (import->start, SIM_ALIGN_UP (import->length, SIM_MIB (2)));
      sim_physical_unref (allocation->imported);
      allocation->imported = NULL;
      allocation->ipc = NULL;
      g_free (import);
    }
}

SIM_ENTRY (cuIpcGetMemHandle, 0, (CUipcMemHandle *, pHandle), (CUdeviceptr, dptr))
{
  SimAllocation *allocation = sim_allocation_find (dptr);
  SimIpcHandle handle;
  int fd;

  if (pHandle == NULL || allocation == NULL || allocation->kind != SIM_ALLOCATION_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  fd = describe (allocation, KIND_MEMORY);
  if (fd <= 0)
    return CUDA_ERROR_OPERATING_SYSTEM;
  fill_handle (&handle, KIND_MEMORY, fd, allocation->buffer_id);
  memcpy (pHandle, &handle, sizeof handle);
  return CUDA_SUCCESS;
}

static CUresult
open_memory (CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int flags)
{
  SimAllocation *allocation;
  SimContext *context;
  SimIpcHandle data;

  if (pdptr == NULL || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_current (&context));
  memcpy (&data, &handle, sizeof data);
  if (data.magic != MAGIC || data.kind != KIND_MEMORY)
    return CUDA_ERROR_INVALID_VALUE;
  if (data.pid == (gint32) getpid ())
    return CUDA_ERROR_INVALID_CONTEXT;
  allocation = find_import (data.pid, data.id);
  if (allocation == NULL)
    {
      SIM_TRY (import_memory (&data, SIM_ALLOCATION_IPC, &allocation));
      allocation->context = context;
      allocation->context_id = context->id;
    }
  allocation->opens++;
  *pdptr = allocation->base;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuIpcOpenMemHandle, 0, (CUdeviceptr *, pdptr), (CUipcMemHandle, handle), (unsigned int, Flags))
{
  return open_memory (pdptr, handle, Flags);
}

SIM_ENTRY (cuIpcOpenMemHandle_v2, 0, (CUdeviceptr *, pdptr), (CUipcMemHandle, handle), (unsigned int, Flags))
{
  return open_memory (pdptr, handle, Flags);
}

SIM_ENTRY (cuIpcCloseMemHandle, SIM_UNSAFE, (CUdeviceptr, dptr))
{
  SimAllocation *allocation = sim_allocation_at (dptr);

  if (allocation == NULL || allocation->kind != SIM_ALLOCATION_IPC)
    return CUDA_ERROR_INVALID_VALUE;
  if (allocation->opens > 1)
    {
      allocation->opens--;
      return CUDA_SUCCESS;
    }
  sim_device_wait (allocation->device);
  allocation = sim_allocation_at (dptr);
  if (allocation == NULL || allocation->kind != SIM_ALLOCATION_IPC)
    return CUDA_ERROR_INVALID_VALUE;
  if (--allocation->opens == 0)
    sim_allocation_remove (allocation);
  return CUDA_SUCCESS;
}

/* ---- pools ---- */

typedef struct
{
  gint32 pid;
  guint64 id;
} SimPoolOrigin;

SIM_ENTRY (cuMemPoolExportToShareableHandle, 0, (void *, handle_out), (CUmemoryPool, pool), (CUmemAllocationHandleType, handleType), (unsigned long long, flags))
{
  SimPool *exported = sim_pool (pool);
  int fd;

  if (handle_out == NULL || exported == NULL || flags != 0 || exported->is_default || exported->imported ||
      handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || !(exported->handle_types & (unsigned int) handleType))
    return CUDA_ERROR_INVALID_VALUE;
  if (exported->export_fd < 0)
    {
      SimDescriptor head = { 0 };

      head.magic = MAGIC;
      head.kind = KIND_POOL;
      head.pid = (gint32) getpid ();
      head.device = exported->device != NULL ? exported->device->index : SIM_HOST;
      head.id = sim_next_id ();
      exported->export_fd = new_file ("gcudasim-pool", &head, sizeof head);
      exported->export_id = head.id;
    }
  fd = exported->export_fd >= 0 ? fcntl (exported->export_fd, F_DUPFD_CLOEXEC, 3) : -1;
  if (fd < 0)
    return CUDA_ERROR_OPERATING_SYSTEM;
  *(int *) handle_out = fd;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuMemPoolImportFromShareableHandle, 0, (CUmemoryPool *, pool_out), (void *, handle), (CUmemAllocationHandleType, handleType), (unsigned long long, flags))
{
  SimDescriptor head;
  SimDevice *device = NULL;
  SimPoolOrigin *origin;
  SimPool *pool;
  struct stat info;
  int fd = (int) (gintptr) handle;

  if (pool_out == NULL || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags != 0 || fd < 0 || fstat (fd, &info) != 0 ||
      info.st_size != sizeof head || pread (fd, &head, sizeof head, 0) != sizeof head || head.magic != MAGIC || head.kind != KIND_POOL)
    return CUDA_ERROR_INVALID_VALUE;
  for (guint i = 0; i < sim.pools->len; i++)
    {
      pool = g_ptr_array_index (sim.pools, i);
      origin = pool->ipc;
      if (pool->handle != NULL && origin != NULL && origin->pid == head.pid && origin->id == head.id)
        {
          *pool_out = pool->handle;
          return CUDA_SUCCESS;
        }
    }
  for (guint i = 0; i < sim.n_devices; i++)
    {
      if (sim.devices[i]->index == head.device)
        device = sim.devices[i];
    }
  if (device == NULL && head.device != SIM_HOST)
    return CUDA_ERROR_INVALID_DEVICE;
  pool = sim_pool_new (device, CU_MEM_ALLOCATION_TYPE_PINNED, device != NULL ? CU_MEM_LOCATION_TYPE_DEVICE : 2, device != NULL ? device->ordinal : 0);
  pool->imported = TRUE;
  pool->handle_types = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  origin = g_new0 (SimPoolOrigin, 1);
  origin->pid = head.pid;
  origin->id = head.id;
  pool->ipc = origin;
  *pool_out = pool->handle;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuMemPoolExportPointer, 0, (CUmemPoolPtrExportData *, shareData_out), (CUdeviceptr, ptr))
{
  SimAllocation *allocation = sim_allocation_at (ptr);
  SimIpcHandle handle;
  int fd;

  if (shareData_out == NULL || allocation == NULL || allocation->kind != SIM_ALLOCATION_POOL || allocation->pool->export_fd < 0)
    return CUDA_ERROR_INVALID_VALUE;
  fd = describe (allocation, KIND_POINTER);
  if (fd <= 0)
    return CUDA_ERROR_OPERATING_SYSTEM;
  fill_handle (&handle, KIND_POINTER, fd, allocation->buffer_id);
  handle.pool = allocation->pool->export_id;
  memcpy (shareData_out, &handle, sizeof handle);
  return CUDA_SUCCESS;
}

/* Orders nothing, and counts nothing: a second import is the same memory. */
SIM_ENTRY (cuMemPoolImportPointer, 0, (CUdeviceptr *, ptr_out), (CUmemoryPool, pool), (CUmemPoolPtrExportData *, shareData))
{
  SimPool *into = sim_pool (pool);
  SimAllocation *allocation;
  SimPoolOrigin *origin;
  SimIpcHandle data;

  if (ptr_out == NULL || into == NULL || shareData == NULL || !into->imported)
    return CUDA_ERROR_INVALID_VALUE;
  memcpy (&data, shareData, sizeof data);
  origin = into->ipc;
  if (data.magic != MAGIC || data.kind != KIND_POINTER || data.pid != origin->pid || data.pool != origin->id)
    return CUDA_ERROR_INVALID_VALUE;
  allocation = find_import (data.pid, data.id);
  if (allocation == NULL)
    {
      SIM_TRY (import_memory (&data, SIM_ALLOCATION_POOL, &allocation));
      allocation->pool = into;
      into->refs++;
      into->used += allocation->size;
      into->used_high = MAX (into->used_high, into->used);
    }
  *ptr_out = allocation->base;
  return CUDA_SUCCESS;
}
