/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-memory-pool-private.h"

#include "gcuda-pool-statistics-private.h"

/*
 * Where memory of an owned pool was freed:
 * - a stream that the library makes, or that others keep for it: by its box, whose end it waits for, too;
 * - the default streams of a context: by that. They are waited for as the legacy one, and not kept of a private context alone,
 *   which waits itself for all that is in it;
 * - a stream of others who say nothing of its end: by its box, with an event that is recorded at each free.
 */
typedef struct
{
  GCudaStreamWaiter waiter; /* after the resource is gone */
  GCudaMemoryPool *pool;
  GCudaStreamBox *box;      /* a reference */
  GCudaContextBox *context; /* NULL for a watched stream; a use, or of a private one a reference */
  CUevent event;
  gint unmarked;     /* there was a free that it could not be recorded behind */
  gboolean detached; /* from the table of the pool, because it has ended */
} PoolStream;

static gboolean
keeps_context (PoolStream *self)
{
  return self->context->kind != GCUDA_CONTEXT_PRIVATE;
}

static void
pool_stream_free (gpointer data)
{
  PoolStream *self = data;

  if (self->event != NULL)
    _gcuda_context_box_give_event (self->context, self->event, FALSE);
  if (self->context != NULL && keeps_context (self))
    _gcuda_context_box_unuse (self->context);
  else if (self->context != NULL)
    _gcuda_context_box_unref (self->context);
  g_clear_pointer (&self->box, _gcuda_stream_box_unref);
  g_free (self);
}

static void
pool_free (GCudaMemoryPool *pool)
{
  _gcuda_context_box_unuse (pool->context);
  g_array_unref (pool->peers);
  g_clear_pointer (&pool->streams, g_hash_table_unref);
  g_free (pool->name);
  g_mutex_clear (&pool->lock);
  g_free (pool);
}

static GCudaReclaimResult
pool_destroy (GCudaReclaimNode *node)
{
  GCudaMemoryPool *pool = (GCudaMemoryPool *) node;
  const char *call = "cuMemPoolSetAccess";
  CUresult result = CUDA_SUCCESS;

  /* The driver hands the access of a destroyed pool on to the next one that gets its handle. */
  for (guint i = 0; i < pool->peers->len && result == CUDA_SUCCESS; i++)
    {
      CUmemAccessDesc access = {
        .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = g_array_index (pool->peers, CUdevice, i) },
        .flags = CU_MEM_ACCESS_FLAGS_PROT_NONE,
      };

      result = _gcuda_driver.MemPoolSetAccess (pool->handle, &access, 1);
    }
  if (result == CUDA_SUCCESS)
    {
      g_array_set_size (pool->peers, 0);
      call = "cuMemPoolDestroy";
      result = _gcuda_driver.MemPoolDestroy (pool->handle);
    }
  switch ((int) result)
    {
    case CUDA_ERROR_NOT_PERMITTED:
      return GCUDA_RECLAIM_AGAIN;
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
    case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
      return GCUDA_RECLAIM_BLOCKED;
    case CUDA_SUCCESS:
    case CUDA_ERROR_DEINITIALIZED:
      break;
    default:
      if (!_gcuda_result_is_sticky (result))
        {
          g_autoptr (GError) error = NULL;

          _gcuda_fail_driver (&error, result, "destroying %s", pool->name);
          _gcuda_report_teardown (error, call, (guint64) (guintptr) pool->handle, 0);
        }
    }
  pool_free (pool);
  return GCUDA_RECLAIM_DONE;
}

/* Drops what keeps the pool from being destroyed: after the last, no allocation is left, and no free of one. */
static void
pool_let_go (GCudaMemoryPool *pool)
{
  if (!g_atomic_int_dec_and_test (&pool->pending))
    return;
  if (!pool->owned)
    pool_free (pool);
  else if (pool_destroy (&pool->node) != GCUDA_RECLAIM_DONE)
    _gcuda_reclaimer_push (&pool->node, pool_destroy);
}

static GCudaReclaimResult
pool_stream_passed (GCudaStreamWaiter *waiter)
{
  GCudaStreamBox *box = waiter->box;

  pool_let_go (((PoolStream *) waiter)->pool);
  _gcuda_stream_box_unuse (box);
  return GCUDA_RECLAIM_DONE;
}

/* The box has ended, or is not in use for this. */
static GCudaReclaimResult
pool_stream_over (GCudaStreamWaiter *waiter)
{
  PoolStream *self = (PoolStream *) waiter;
  GCudaMemoryPool *pool = self->pool;

  if (self->detached)
    pool_stream_free (self);
  pool_let_go (pool);
  return GCUDA_RECLAIM_DONE;
}

/* A private context, which waits for all that is in it when it ends; the program may keep it for ever. */
static GCudaReclaimResult
pool_context_over (GCudaReclaimNode *node)
{
  PoolStream *self = (PoolStream *) node;

  if (g_atomic_int_get (&self->context->gone))
    return pool_stream_over (&self->waiter);
  return g_atomic_int_get (&self->context->uses) > 0 ? GCUDA_RECLAIM_BLOCKED : GCUDA_RECLAIM_AGAIN;
}

/* Better kept than destroyed under somebody: it stays pending. */
static void
pool_keep (GCudaMemoryPool *pool)
{
  static GCudaReclaimNode *kept; /* found by tools that look for leaks */
  g_autoptr (GError) error = NULL;

  /* Of several streams the first says it; the pool's own node is not needed any more. */
  if (!g_atomic_int_compare_and_exchange (&pool->kept, FALSE, TRUE))
    return;
  do
    pool->node.next = g_atomic_pointer_get (&kept);
  while (!g_atomic_pointer_compare_and_exchange (&kept, pool->node.next, &pool->node));
  _gcuda_fail (&error, GCUDA_ERROR_UNKNOWN, "destroying %s: it can't be found out whether what was freed on a stream of others has passed", pool->name);
  _gcuda_report_teardown (error, "cuMemPoolDestroy", (guint64) (guintptr) pool->handle, 0);
}

/* Of the pool, which is pending for it already. */
static void
pool_stream_wait (PoolStream *self)
{
  GCudaMemoryPool *pool = self->pool;

  if (self->box != NULL && self->context != NULL)
    {
      if (!g_atomic_int_get (&self->unmarked))
        _gcuda_stream_box_queue_event (self->box, &self->waiter, g_steal_pointer (&self->event), pool_stream_over);
      else if (!keeps_context (self))
        _gcuda_reclaimer_push (&self->waiter.node, pool_context_over);
      else
        pool_keep (pool);
    }
  else if (self->box != NULL)
    {
      if (_gcuda_stream_box_use (self->box))
        _gcuda_stream_box_queue (self->box, &self->waiter, 0, pool_stream_passed);
      else if (!_gcuda_stream_box_wait_for_end (self->box, &self->waiter, pool_stream_over))
        pool_let_go (pool);
    }
  else if (_gcuda_context_box_use (self->context))
    /* Of no thread: what was freed on anybody's per-thread default stream is behind the legacy one. */
    _gcuda_stream_box_queue (_gcuda_stream_box_new (GCUDA_STREAM_LEGACY, CU_STREAM_LEGACY, self->context, 0, NULL), &self->waiter, 0, pool_stream_passed);
  else
    _gcuda_reclaimer_push (&self->waiter.node, pool_context_over);
}

void
_gcuda_memory_pool_release (GCudaMemoryPool *pool)
{
  GCudaTeardown teardown;
  GHashTableIter iter;
  gpointer stream;

  if (!_gcuda_teardown_enter (&teardown))
    return;
  if (pool->streams != NULL)
    {
      g_hash_table_iter_init (&iter, pool->streams);
      while (g_hash_table_iter_next (&iter, NULL, &stream))
        {
          g_atomic_int_inc (&pool->pending);
          pool_stream_wait (stream);
        }
    }
  pool_let_go (pool);
  _gcuda_teardown_leave (&teardown);
}

static inline gconstpointer *
recent_place (GCudaMemoryPool *pool,
              gconstpointer key)
{
  return &pool->recent[((guintptr) key / 64) % G_N_ELEMENTS (pool->recent)];
}

static gboolean
is_over (PoolStream *self)
{
  if (self->box == NULL)
    return g_atomic_int_get (&self->context->gone);
  if (self->context == NULL)
    return g_atomic_int_get (&self->box->over);
  return g_atomic_int_get (&self->box->uses) <= 0;
}

/* Takes those out that are over; gives those that have to be waited for all the same. Under the lock. */
static GPtrArray *
pool_forget_streams (GCudaMemoryPool *pool)
{
  GPtrArray *ended = g_ptr_array_new ();
  GHashTableIter iter;
  gpointer key, value;

  g_hash_table_iter_init (&iter, pool->streams);
  while (g_hash_table_iter_next (&iter, &key, &value))
    {
      PoolStream *self = value;

      if (!is_over (self))
        continue;
      if (g_atomic_pointer_get (recent_place (pool, key)) == key)
        g_atomic_pointer_set (recent_place (pool, key), NULL);
      if (self->box == NULL || self->context == NULL)
        {
          g_hash_table_iter_remove (&iter);
          continue;
        }
      self->detached = TRUE;
      g_atomic_int_inc (&pool->pending);
      g_hash_table_iter_steal (&iter);
      g_ptr_array_add (ended, self);
    }
  return ended;
}

static PoolStream *
pool_remember_stream (GCudaMemoryPool *pool,
                      GCudaStreamBox *box,
                      gconstpointer key)
{
  g_autoptr (GPtrArray) ended = NULL;
  PoolStream *self;

  g_mutex_lock (&pool->lock);
  if (pool->streams == NULL)
    pool->streams = g_hash_table_new_full (NULL, NULL, NULL, pool_stream_free);
  self = g_hash_table_lookup (pool->streams, key);
  if (self == NULL)
    {
      /* A long-lived pool sees many streams come and go. */
      if (g_hash_table_size (pool->streams) >= pool->streams_limit)
        {
          ended = pool_forget_streams (pool);
          pool->streams_limit = 2 * g_hash_table_size (pool->streams) + G_N_ELEMENTS (pool->recent);
        }
      self = g_new0 (PoolStream, 1);
      self->pool = pool;
      if (key == box)
        self->box = _gcuda_stream_box_ref (box);
      if (key == box && !_gcuda_stream_box_is_ownerless (box))
        _gcuda_stream_box_watch (box);
      else
        self->context = box->context;
      if (self->context != NULL && (!keeps_context (self) || !_gcuda_context_box_use (self->context)))
        _gcuda_context_box_ref (self->context);
      g_hash_table_insert (pool->streams, (gpointer) key, self);
    }
  g_atomic_pointer_set (recent_place (pool, key), key);
  g_mutex_unlock (&pool->lock);
  for (guint i = 0; ended != NULL && i < ended->len; i++)
    pool_stream_wait (g_ptr_array_index (ended, i));
  return self;
}

static gboolean
pool_try_to_mark (PoolStream *self,
                  GCudaStreamBox *box)
{
  CUevent event = g_atomic_pointer_get (&self->event);

  if (event == NULL)
    {
      event = _gcuda_context_box_take_event (self->context);
      if (event != NULL && !g_atomic_pointer_compare_and_exchange (&self->event, NULL, event))
        {
          _gcuda_context_box_give_event (self->context, event, FALSE);
          event = g_atomic_pointer_get (&self->event);
        }
    }
  return event != NULL && _gcuda_stream_box_record (box, event);
}

/* The stream may be gone any time after this. */
static void
pool_mark_free (GCudaMemoryPool *pool,
                GCudaStreamBox *box)
{
  PoolStream *self = pool_remember_stream (pool, box, box);

  /* Once more if it fails: what was not marked can't be waited for any more. */
  if (!pool_try_to_mark (self, box) && !pool_try_to_mark (self, box))
    g_atomic_int_set (&self->unmarked, TRUE);
}

/* A part of every free: under no lock where memory was freed on the same stream lately. @box is in use by the caller. */
static inline void
pool_note_free (GCudaMemoryPool *pool,
                GCudaStreamBox *box)
{
  gconstpointer key = _gcuda_stream_box_is_default (box) ? (gconstpointer) box->context : box;

  if (G_UNLIKELY (_gcuda_stream_box_is_ownerless (box)))
    pool_mark_free (pool, box);
  else if (G_UNLIKELY (__atomic_load_n (recent_place (pool, key), __ATOMIC_RELAXED) != key))
    pool_remember_stream (pool, box, key);
}

/* In another thread's global capture a call of a pool would break that capture, unless this thread is in relaxed mode. */
static gboolean
relaxed_enter (CUstreamCaptureMode *mode)
{
  *mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  return _gcuda_driver.ThreadExchangeStreamCaptureMode (mode) == CUDA_SUCCESS;
}

static void
relaxed_leave (CUstreamCaptureMode *mode,
               gboolean entered)
{
  if (entered && _gcuda_driver.ThreadExchangeStreamCaptureMode (mode) != CUDA_SUCCESS)
    _gcuda_driver.ThreadExchangeStreamCaptureMode (mode);
}

CUresult
_gcuda_memory_pool_create (const CUmemPoolProps *properties,
                           CUmemoryPool *handle)
{
  CUstreamCaptureMode mode;
  const gboolean entered = relaxed_enter (&mode);
  CUresult result = _gcuda_driver.MemPoolCreate (handle, properties);

  relaxed_leave (&mode, entered);
  return result;
}

GCudaMemoryPool *
_gcuda_memory_pool_new (CUmemoryPool handle,
                        gboolean owned,
                        GCudaContextBox *context,
                        char *name)
{
  GCudaMemoryPool *self = g_new0 (GCudaMemoryPool, 1);

  self->handle = handle;
  self->owned = owned;
  self->context = context;
  self->name = name != NULL ? name : g_strdup_printf ("a memory pool of device %d", (int) context->device);
  self->peers = g_array_new (FALSE, FALSE, sizeof (CUdevice));
  self->pending = 1;
  g_mutex_init (&self->lock);
  return self;
}

char *
_gcuda_memory_pool_describe (GCudaMemoryPool *self)
{
  return self->owned ? g_strdup (self->name) : g_strdup_printf ("the memory pool of device %d", (int) self->context->device);
}

CUresult
_gcuda_memory_pool_free (GCudaMemoryPool *self,
                         GCudaStreamBox *box,
                         CUdeviceptr address,
                         CUstream handle)
{
  CUresult result = _gcuda_driver.MemFreeAsync (address, handle);

  if (G_LIKELY (result == CUDA_SUCCESS) && self->owned)
    pool_note_free (self, box);
  return result;
}

CUresult
_gcuda_memory_pool_free_gone (CUdeviceptr address)
{
  /* The stream went with its context; pool memory did not, and this needs no stream. */
  CUresult result = _gcuda_driver.MemFree (address);

  /* A dead context is current on this thread. None is on the reclaimer's. */
  return result == CUDA_ERROR_CONTEXT_IS_DESTROYED ? CUDA_ERROR_NOT_PERMITTED : result;
}

CUresult
_gcuda_memory_pool_set_access (GCudaMemoryPool *self,
                               CUdevice device,
                               gboolean access)
{
  CUmemAccessDesc description = {
    .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device },
    .flags = access ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE,
  };
  CUstreamCaptureMode mode;
  const gboolean entered = relaxed_enter (&mode);
  CUresult result = _gcuda_driver.MemPoolSetAccess (self->handle, &description, 1);

  relaxed_leave (&mode, entered);

  if (result != CUDA_SUCCESS)
    return result;
  g_mutex_lock (&self->lock);
  for (guint i = 0; i < self->peers->len; i++)
    if (g_array_index (self->peers, CUdevice, i) == device)
      g_array_remove_index_fast (self->peers, i--);
  if (access)
    g_array_append_val (self->peers, device);
  g_mutex_unlock (&self->lock);
  return CUDA_SUCCESS;
}

CUresult
_gcuda_memory_pool_get_attribute (GCudaMemoryPool *self,
                                  CUmemPool_attribute attribute,
                                  guint64 *value)
{
  CUresult result;
  int number = 0;

  if (attribute >= CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
    return _gcuda_driver.MemPoolGetAttribute (self->handle, attribute, value);
  result = _gcuda_driver.MemPoolGetAttribute (self->handle, attribute, &number);
  *value = (guint64) number;
  return result;
}

CUresult
_gcuda_memory_pool_set_attribute (GCudaMemoryPool *self,
                                  CUmemPool_attribute attribute,
                                  guint64 value)
{
  int number = (int) value;

  if (attribute >= CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
    return _gcuda_driver.MemPoolSetAttribute (self->handle, attribute, &value);
  return _gcuda_driver.MemPoolSetAttribute (self->handle, attribute, &number);
}

gboolean
_gcuda_memory_pool_trim (GCudaMemoryPool *self,
                         guint64 keep,
                         GError **error)
{
  /* The driver adds to this number, and gives everything back when the sum overflows. */
  CUresult result = _gcuda_driver.MemPoolTrimTo (self->handle, MIN (keep, G_MAXSIZE / 2));

  if (result != CUDA_SUCCESS)
    return _gcuda_fail_driver (error, result, "trimming %s", self->name);
  return TRUE;
}

GCudaPoolStatistics *
_gcuda_memory_pool_get_statistics (GCudaMemoryPool *self,
                                   GError **error)
{
  guint64 used = 0, used_high = 0, reserved = 0, reserved_high = 0;
  CUresult result = _gcuda_memory_pool_get_attribute (self, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used);

  if (result == CUDA_SUCCESS)
    result = _gcuda_memory_pool_get_attribute (self, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &used_high);
  if (result == CUDA_SUCCESS)
    result = _gcuda_memory_pool_get_attribute (self, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved);
  if (result == CUDA_SUCCESS)
    result = _gcuda_memory_pool_get_attribute (self, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &reserved_high);
  if (result == CUDA_SUCCESS)
    return _gcuda_pool_statistics_new (used, used_high, reserved, reserved_high);
  _gcuda_fail_driver (error, result, "asking for the figures of %s", self->name);
  return NULL;
}

gboolean
_gcuda_memory_pool_reset_high_marks (GCudaMemoryPool *self,
                                     GError **error)
{
  CUresult result = _gcuda_memory_pool_set_attribute (self, CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0);

  if (result == CUDA_SUCCESS)
    result = _gcuda_memory_pool_set_attribute (self, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 0);
  if (result != CUDA_SUCCESS)
    return _gcuda_fail_driver (error, result, "resetting the high marks of %s", self->name);
  return TRUE;
}
