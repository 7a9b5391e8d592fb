/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Memory pools. What is allocated and freed is accounted at the call; memory
 * moves in stream order: a freed range is poisoned when the free executes, and
 * goes to another stream only if that is ordered after it. */

#include "sim-private.h"

#include <unistd.h>

#define CHUNK SIM_MIB (32)

/* By value: the names are newer than the oldest cuda.h that this builds with. */
#define LOCATION_DEVICE            1
#define LOCATION_HOST              2
#define LOCATION_HOST_NUMA         3
#define LOCATION_HOST_NUMA_CURRENT 4
#define TYPE_PINNED                1
#define TYPE_MANAGED               2

SimPool *
sim_pool_new (SimDevice *device, int type, int location_type, int location_id)
{
  SimPool *pool = g_new0 (SimPool, 1);

  pool->refs = 1;
  pool->device = device;
  pool->type = type;
  pool->location_type = location_type;
  pool->location_id = location_id;
  pool->heap = sim_heap_new (type == TYPE_PINNED ? device : NULL, CHUNK, FALSE, pool);
  pool->reuse[0] = pool->reuse[1] = pool->reuse[2] = 1;
  pool->export_fd = -1;
  if (device != NULL)
    pool->access[device->ordinal] = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  pool->handle = sim_handle_new (SIM_HANDLE_POOL, pool);
  g_ptr_array_add (sim.pools, pool);
  return pool;
}

SimPool *
sim_pool (CUmemoryPool handle)
{
  return sim_handle_get (handle, SIM_HANDLE_POOL, NULL);
}

/* Of page-locked memory, which a device has to be granted; managed memory it has not. */
gboolean
sim_pool_is_host (const SimPool *pool)
{
  return pool->device == NULL && pool->type == TYPE_PINNED;
}

static SimPool *
sim_pool_ref (SimPool *pool)
{
  pool->refs++;
  return pool;
}

void
sim_pool_unref (SimPool *pool)
{
  if (--pool->refs > 0)
    return;
  g_ptr_array_remove_fast (sim.pools, pool);
  sim_heap_free (pool->heap);
  g_clear_pointer (&pool->freed, g_ptr_array_unref);
  if (pool->export_fd >= 0)
    close (pool->export_fd);
  g_free (pool->ipc);
  g_free (pool);
}

static void
settle_used (SimPool *pool)
{
  pool->used -= pool->used_late;
  pool->used_late = 0;
}

void
sim_pool_unaccount (SimPool *pool, gsize size)
{
  settle_used (pool);
  pool->used -= size;
}

static void
settle_context (gpointer data, gpointer user_data)
{
  SimContext *context = data;

  (void) user_data;
  if (context->alive && context->heap->dirty)
    sim_heap_trim (context->heap, 0);
}

/* Whether waiting for STREAM, or with NULL for all of CONTEXT, is waiting for what OP's stream has done. */
static gboolean
is_waited_for (const SimOp *op, const SimStream *stream, const SimContext *context)
{
  if (stream == NULL || stream->kind == SIM_STREAM_LEGACY)
    return op->stream->context == context;
  return op->stream == stream;
}

static void
note_free (SimPool *pool, SimOp *op)
{
  if (pool->freed == NULL)
    pool->freed = g_ptr_array_new_with_free_func ((GDestroyNotify) sim_op_unref);
  for (guint i = pool->freed->len; i > 0; i--)
    {
      SimOp *other = g_ptr_array_index (pool->freed, i - 1);

      /* Nobody can synchronise a stream that has ended. */
      if (other->stream == op->stream || (other->stream->ended && sim_op_done (other)))
        g_ptr_array_remove_index_fast (pool->freed, i - 1);
    }
  g_ptr_array_add (pool->freed, sim_op_ref (op));
}

/* Memory above the thresholds goes back, and the frees come off the streams' books. */
void
sim_pools_synchronized (SimStream *stream, SimContext *context)
{
  /* Backwards and with a reference: an operation that is forgotten may be the last to keep a destroyed pool. */
  for (guint i = sim.pools->len; i > 0; i--)
    {
      SimPool *pool = sim_pool_ref (g_ptr_array_index (sim.pools, i - 1));

      settle_used (pool);
      for (guint j = pool->freed != NULL ? pool->freed->len : 0; j > 0; j--)
        {
          SimOp *op = g_ptr_array_index (pool->freed, j - 1);

          if (sim_op_done (op) && is_waited_for (op, stream, context))
            g_ptr_array_remove_index_fast (pool->freed, j - 1);
        }
      if (pool->heap->dirty && pool->heap->reserved > pool->threshold)
        sim_heap_trim (pool->heap, pool->threshold);
      sim_pool_unref (pool);
    }
  sim_contexts_foreach (settle_context, NULL);
}

static void
wait_for_frees (SimHeap *heap)
{
  GPtrArray *ops = g_ptr_array_new_with_free_func ((GDestroyNotify) sim_op_unref);

  for (guint s = 0; s < heap->segments->len; s++)
    {
      SimSegment *segment = g_ptr_array_index (heap->segments, s);

      for (SimBlock *block = segment->first; block != NULL; block = block->next)
        {
          if (block->state == SIM_BLOCK_PENDING && !sim_op_done (block->free_op))
            g_ptr_array_add (ops, sim_op_ref (block->free_op));
        }
    }
  sim_wait_all (ops);
  g_ptr_array_unref (ops);
}

CUresult
sim_pool_alloc (SimPool *pool, gsize size, SimStream *stream, CUdeviceptr *address)
{
  SimWork work = { .kind = SIM_WORK_ALLOC };
  SimAllocation *allocation;
  SimBlock *block;
  CUresult result;

  /* Pages of its own, where what the program does to them is looked at. */
  gsize taken = sim.check_host && pool->heap->device == NULL ? SIM_ALIGN_UP (size, 4096) : size;

  settle_used (pool);
  result = sim_heap_alloc (pool->heap, taken, stream, &block);
  if (result == CUDA_ERROR_OUT_OF_MEMORY && size <= (pool->heap->device != NULL ? pool->heap->device->total : G_MAXUINT64 >> 8))
    {
      /* Short of memory the driver makes the stream wait for others' frees. */
      wait_for_frees (pool->heap);
      sim_pools_synchronized (stream, stream->context);
      result = sim_heap_alloc (pool->heap, taken, stream, &block);
    }
  if (result != CUDA_SUCCESS)
    return result;

  allocation = sim_allocation_new (SIM_ALLOCATION_POOL, block->base, size, pool->device);
  allocation->block = block;
  allocation->pool = pool;
  if (pool->type == TYPE_MANAGED)
    sim_managed_init (allocation, CU_MEM_ATTACH_GLOBAL, pool->location_type, pool->location_id);
  pool->refs++;
  pool->used += size;
  pool->used_high = MAX (pool->used_high, pool->used);

  work.memory.address = block->base;
  work.memory.size = size;
  work.memory.device = pool->device;
  *address = block->base;
  return sim_submit (stream, &work);
}

static CUresult
alloc_async (CUdeviceptr *dptr, gsize size, SimPool *pool, CUstream hStream)
{
  SimStream *stream;

  if (dptr == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_stream (hStream, &stream));
  if (pool == NULL)
    pool = stream->context->device->current_pool;
  if (!sim_device_supports (stream->context->device, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED))
    return CUDA_ERROR_NOT_SUPPORTED;
  if (pool->imported)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_capture_check_implicit (stream, TRUE));
  if (stream->capture == NULL)
    SIM_TRY (sim_capture_check_unsafe ());
  if (size == 0)
    {
      *dptr = 0;
      return CUDA_SUCCESS;
    }
  if (stream->capture != NULL)
    {
      SimWork work = { .kind = SIM_WORK_ALLOC };
      SimAllocation *allocation;

      if (stream->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
      SIM_TRY (sim_graph_alloc (stream->capture->graph, stream->context->device, size, &work, &allocation));
      *dptr = allocation->base;
      return sim_submit (stream, &work);
    }
  return sim_pool_alloc (pool, size, stream, dptr);
}

SIM_ENTRY_SZ (cuMemAllocAsync, 0, (CUdeviceptr *, dptr), (size_t, bytesize), (CUstream, hStream))
{
  return alloc_async (dptr, bytesize, NULL, hStream);
}

SIM_ENTRY_SZ (cuMemAllocFromPoolAsync, 0, (CUdeviceptr *, dptr), (size_t, bytesize), (CUmemoryPool, pool), (CUstream, hStream))
{
  SimPool *from = sim_pool (pool);

  if (from == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  return alloc_async (dptr, bytesize, from, hStream);
}

SIM_ENTRY_SZ (cuMemFreeAsync, 0, (CUdeviceptr, dptr), (CUstream, hStream))
{
  SimWork work = { .kind = SIM_WORK_FREE };
  SimAllocation *allocation;
  SimStream *stream;
  SimBlock *block;
  SimOp *op;

  SIM_TRY (sim_stream (hStream, &stream));
  if (dptr == 0)
    return CUDA_SUCCESS;
  SIM_TRY (sim_capture_check_implicit (stream, TRUE));
  allocation = sim_allocation_at (dptr);
  if (stream->capture != NULL)
    {
      if (stream->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
      if (!sim_graph_may_free (stream->capture->graph, allocation))
        return CUDA_ERROR_INVALID_VALUE;
      work.memory.graph = TRUE;
      work.memory.address = dptr;
      work.memory.size = allocation->size;
      work.memory.device = allocation->device;
      return sim_submit (stream, &work);
    }
  SIM_TRY (sim_capture_check_unsafe ());
  if (allocation == NULL)
    return CUDA_ERROR_INVALID_VALUE;

  work.memory.address = allocation->base;
  work.memory.size = allocation->size;
  work.memory.device = allocation->device;
  switch (allocation->kind)
    {
    case SIM_ALLOCATION_GRAPH:
      if (!allocation->live)
        return CUDA_ERROR_INVALID_VALUE;
      work.memory.graph = TRUE;
      allocation->live = FALSE;
      allocation->freeing = TRUE;
      return sim_submit (stream, &work);
    case SIM_ALLOCATION_POOL:
      work.memory.pool = allocation->pool;
      allocation->pool->refs++;
      sim_pool_unaccount (allocation->pool, allocation->size);
      break;
    case SIM_ALLOCATION_DEVICE:
      break;
    case SIM_ALLOCATION_PINNED:
    case SIM_ALLOCATION_REGISTERED:
    case SIM_ALLOCATION_MANAGED:
    case SIM_ALLOCATION_MAPPED:
    case SIM_ALLOCATION_IPC:
    default:
      return CUDA_ERROR_INVALID_VALUE;
    }

  if (allocation->ipc != NULL)
    {
      /* Stays mapped until the free runs, and is not found meanwhile. */
      allocation->zombie = TRUE;
      return sim_submit (stream, &work);
    }
  block = allocation->block;
  allocation->block = NULL;
  op = sim_submit_op (stream, &work);
  if (block != NULL)
    sim_block_pending (block, op);
  if (allocation->kind == SIM_ALLOCATION_POOL)
    note_free (allocation->pool, op);
  sim_op_unref (op);
  sim_allocation_remove (allocation);
  return CUDA_SUCCESS;
}

/* cuMemFree of pool memory, after the device was waited for. The amount in use
 * is corrected only when the pool is touched again. */
void
sim_pool_free_now (SimAllocation *allocation)
{
  allocation->pool->used_late += allocation->size;
  sim_allocation_remove (allocation);
}

/* ---- pools ---- */

SIM_ENTRY (cuMemPoolCreate, SIM_UNSAFE, (CUmemoryPool *, pool), (const CUmemPoolProps *, poolProps))
{
  SimDevice *device = NULL;
  int type, location;
  SimPool *made;

  if (pool == NULL || poolProps == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  type = (int) poolProps->allocType;
  location = (int) poolProps->location.type;
  if (type != TYPE_PINNED && type != TYPE_MANAGED)
    return CUDA_ERROR_INVALID_VALUE;
  for (guint i = 0; i < sizeof poolProps->reserved; i++)
    {
      if (poolProps->reserved[i] != 0)
        return CUDA_ERROR_INVALID_VALUE;
    }
  if (poolProps->handleTypes & 8)
    return CUDA_ERROR_NOT_PERMITTED;
  if (poolProps->handleTypes & ~(guint) CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return CUDA_ERROR_INVALID_VALUE;

  if (location == LOCATION_DEVICE)
    {
      device = sim_device (poolProps->location.id);
      if (device == NULL)
        return CUDA_ERROR_INVALID_VALUE;
      if (!sim_device_supports (device, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED))
        return CUDA_ERROR_NOT_SUPPORTED;
    }
  else if (location == LOCATION_HOST || location == LOCATION_HOST_NUMA)
    {
      SimAttribute *attribute = &sim.devices[0]->attributes[144];

      /* Where the query only is missing, pools may still be there. */
      if (!attribute->is_error && attribute->value == 0)
        return CUDA_ERROR_NOT_SUPPORTED;
      if (location == LOCATION_HOST_NUMA && poolProps->location.id != 0)
        return CUDA_ERROR_INVALID_VALUE;
      /* What is shared has to be somewhere. */
      if (location == LOCATION_HOST && poolProps->handleTypes != 0)
        return CUDA_ERROR_INVALID_VALUE;
    }
  else if (type != TYPE_MANAGED)
    return CUDA_ERROR_INVALID_VALUE;
  if (type == TYPE_MANAGED && poolProps->handleTypes != 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  /* There are only so many addresses. */
  if (poolProps->maxSize > G_GUINT64_CONSTANT (1) << 47)
    return CUDA_ERROR_OUT_OF_MEMORY;

  made = sim_pool_new (device, type, location, poolProps->location.id);
  made->handle_types = (unsigned int) poolProps->handleTypes;
  made->max_size = poolProps->maxSize;
  made->heap->max_size = poolProps->maxSize != 0 ? SIM_ALIGN_UP (poolProps->maxSize, CHUNK) : 0;
  made->heap->exportable = poolProps->handleTypes != 0;
  *pool = made->handle;
  return CUDA_SUCCESS;
}

static GPtrArray *default_pools; /* of hosts and managed memory */

typedef struct
{
  SimPool *fallback;
  SimPool *current;
} SimDefault;

SIM_ENTRY (cuMemPoolDestroy, SIM_UNSAFE, (CUmemoryPool, pool))
{
  SimPool *gone = sim_pool (pool);

  if (gone == NULL || gone->is_default)
    return CUDA_ERROR_INVALID_VALUE;
  for (guint i = 0; gone->freed != NULL && i < gone->freed->len; i++)
    {
      SimStream *stream = ((SimOp *) g_ptr_array_index (gone->freed, i))->stream;

      /* With a lost context drivers come back from it. */
      if (stream->waiters > 0 && sim.lost == CUDA_SUCCESS)
        sim_fatal ("%s: nobody has waited for what was freed on stream %p, which another thread synchronizes: a driver never comes back from that, or dies in it", sim_this_function (), (void *) stream->handle);
    }
  for (guint i = 0; i < sim.n_devices; i++)
    {
      if (sim.devices[i]->current_pool == gone)
        sim.devices[i]->current_pool = sim.devices[i]->default_pool;
    }
  for (guint i = 0; default_pools != NULL && i < default_pools->len; i++)
    {
      SimDefault *entry = g_ptr_array_index (default_pools, i);

      if (entry->current == gone)
        entry->current = entry->fallback;
    }
  sim_handle_free (gone->handle);
  gone->handle = NULL;
  sim_pool_unref (gone);
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuMemPoolTrimTo, SIM_UNSAFE, (CUmemoryPool, pool), (size_t, minBytesToKeep))
{
  SimPool *trimmed = sim_pool (pool);

  if (trimmed == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  sim_heap_trim (trimmed->heap, minBytesToKeep);
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuMemPoolGetAttribute, 0, (CUmemoryPool, pool), (CUmemPool_attribute, attr), (void *, value))
{
  SimPool *asked = sim_pool (pool);
  guint64 number;

  if (asked == NULL || value == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  switch ((int) attr)
    {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      *(int *) value = asked->reuse[attr - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      number = asked->threshold;
      break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      number = asked->heap->reserved;
      break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      number = asked->heap->reserved_high;
      break;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      number = asked->used;
      break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      number = asked->used_high;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
    }
  memcpy (value, &number, sizeof number);
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuMemPoolSetAttribute, 0, (CUmemoryPool, pool), (CUmemPool_attribute, attr), (void *, value))
{
  SimPool *changed = sim_pool (pool);
  guint64 number = 0;

  if (changed == NULL || value == NULL || changed->imported)
    return CUDA_ERROR_INVALID_VALUE;
  switch ((int) attr)
    {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      changed->reuse[attr - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] = *(int *) value != 0;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      memcpy (&changed->threshold, value, sizeof changed->threshold);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      memcpy (&number, value, sizeof number);
      if (number != 0)
        return CUDA_ERROR_INVALID_VALUE;
      if (attr == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
        changed->heap->reserved_high = changed->heap->reserved;
      else
        changed->used_high = changed->used;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
    }
}

/* All descriptors are checked before the first takes effect. */
SIM_ENTRY (cuMemPoolSetAccess, 0, (CUmemoryPool, pool), (const CUmemAccessDesc *, map), (size_t, count))
{
  SimPool *changed = sim_pool (pool);

  if (changed == NULL || map == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; i++)
    {
      int flags = (int) map[i].flags;
      SimDevice *device;

      if ((int) map[i].location.type != LOCATION_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
      device = sim_device (map[i].location.id);
      if (device == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
      if (flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && flags != CU_MEM_ACCESS_FLAGS_PROT_READ && flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        return CUDA_ERROR_INVALID_VALUE;
      if (device == changed->device && flags == CU_MEM_ACCESS_FLAGS_PROT_NONE)
        return CUDA_ERROR_INVALID_DEVICE;
      if (flags == CU_MEM_ACCESS_FLAGS_PROT_READ)
        return CUDA_ERROR_NOT_SUPPORTED;
      if (changed->device != NULL && device != changed->device && !sim.peer_access)
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    }
  for (size_t i = 0; i < count; i++)
    changed->access[map[i].location.id] = (guint8) map[i].flags;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuMemPoolGetAccess, 0, (CUmemAccess_flags *, flags), (CUmemoryPool, memPool), (CUmemLocation *, location))
{
  SimPool *asked = sim_pool (memPool);
  SimDevice *device;

  if (flags == NULL || asked == NULL || location == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  if ((int) location->type == LOCATION_HOST || (int) location->type == LOCATION_HOST_NUMA)
    {
      *flags = asked->heap->device == NULL ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
      return CUDA_SUCCESS;
    }
  if ((int) location->type != LOCATION_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  device = sim_device (location->id);
  if (device == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  *flags = asked->device == NULL && !sim_pool_is_host (asked) ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : (CUmemAccess_flags) asked->access[device->ordinal];
  return CUDA_SUCCESS;
}

/* ---- current and default pools ---- */

SIM_ENTRY (cuDeviceGetDefaultMemPool, 0, (CUmemoryPool *, pool_out), (CUdevice, dev))
{
  SimDevice *device = sim_device (dev);

  if (pool_out == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  if (device == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  if (!sim_device_supports (device, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED))
    return CUDA_ERROR_NOT_SUPPORTED;
  *pool_out = device->default_pool->handle;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuDeviceGetMemPool, 0, (CUmemoryPool *, pool), (CUdevice, dev))
{
  SimDevice *device = sim_device (dev);

  if (pool == NULL || device == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  if (!sim_device_supports (device, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED))
    return CUDA_ERROR_NOT_SUPPORTED;
  *pool = device->current_pool->handle;
  return CUDA_SUCCESS;
}

static CUresult
set_device_pool (SimDevice *device, SimPool *pool)
{
  if (device == NULL || pool == NULL || pool->device != device || pool->type != TYPE_PINNED || pool->imported)
    return CUDA_ERROR_INVALID_VALUE;
  device->current_pool = pool;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuDeviceSetMemPool, 0, (CUdevice, dev), (CUmemoryPool, pool))
{
  return set_device_pool (sim_device (dev), sim_pool (pool));
}

static SimDefault *
default_for (const CUmemLocation *location, int type)
{
  int where = (int) location->type;
  int id = where == LOCATION_DEVICE || where == LOCATION_HOST_NUMA ? location->id : 0;
  SimDefault *entry;

  if (default_pools == NULL)
    default_pools = g_ptr_array_new ();
  for (guint i = 0; i < default_pools->len; i++)
    {
      entry = g_ptr_array_index (default_pools, i);
      if (entry->fallback->type == type && entry->fallback->location_type == where && entry->fallback->location_id == id)
        return entry;
    }
  entry = g_new0 (SimDefault, 1);
  entry->fallback = entry->current = sim_pool_new (where == LOCATION_DEVICE ? sim_device (id) : NULL, type, where, id);
  entry->fallback->is_default = TRUE;
  g_ptr_array_add (default_pools, entry);
  return entry;
}

static CUresult
pool_of_location (CUmemoryPool *pool, const CUmemLocation *location, int type, gboolean current)
{
  SimDefault *entry;
  int where;

  if (pool == NULL || location == NULL || (type != TYPE_PINNED && type != TYPE_MANAGED))
    return CUDA_ERROR_INVALID_VALUE;
  where = (int) location->type;
  if (where == LOCATION_DEVICE && sim_device (location->id) == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  if (where < (type == TYPE_MANAGED ? 0 : LOCATION_DEVICE) || where > LOCATION_HOST_NUMA_CURRENT)
    return CUDA_ERROR_INVALID_VALUE;
  if (where == LOCATION_DEVICE && type == TYPE_PINNED)
    {
      SimDevice *device = sim_device (location->id);

      *pool = (current ? device->current_pool : device->default_pool)->handle;
      return CUDA_SUCCESS;
    }
  if (where == LOCATION_HOST_NUMA && location->id != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (where >= LOCATION_HOST && !sim.devices[0]->attributes[144].is_error && sim.devices[0]->attributes[144].value == 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  entry = default_for (location, type);
  *pool = (current ? entry->current : entry->fallback)->handle;
  return CUDA_SUCCESS;
}

#if CUDA_VERSION >= 13000
SIM_ENTRY (cuMemGetDefaultMemPool, 0, (CUmemoryPool *, pool_out), (CUmemLocation *, location), (CUmemAllocationType, type))
{
  return pool_of_location (pool_out, location, (int) type, FALSE);
}

SIM_ENTRY (cuMemGetMemPool, 0, (CUmemoryPool *, pool), (CUmemLocation *, location), (CUmemAllocationType, type))
{
  return pool_of_location (pool, location, (int) type, TRUE);
}

SIM_ENTRY (cuMemSetMemPool, 0, (CUmemLocation *, location), (CUmemAllocationType, type), (CUmemoryPool, pool))
{
  SimPool *wanted = sim_pool (pool);
  CUmemoryPool current;

  SIM_TRY (pool_of_location (&current, location, (int) type, TRUE));
  if ((int) location->type == LOCATION_DEVICE && (int) type == TYPE_PINNED)
    return set_device_pool (sim_device (location->id), wanted);
  if (wanted == NULL || wanted->type != (int) type || wanted->imported)
    return CUDA_ERROR_INVALID_VALUE;
  default_for (location, (int) type)->current = wanted;
  return CUDA_SUCCESS;
}
#endif
