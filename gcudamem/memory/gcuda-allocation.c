/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-allocation-private.h"

/* How long an allocation waits for memory that is on its way to be freed. */
#define RECLAIM_PATIENCE G_TIME_SPAN_SECOND

enum
{
  LOCK_BIT = 0, /* guards the recipe; no driver call under it */
};

/* In the number of holders: address and size are being changed. */
#define CHANGING (1 << 30)

struct _GCudaAllocation
{
  GCudaStreamWaiter waiter; /* in the reclaimer, after the last holder */
  gint refs;
  gint holders;
  gint lock;
  guint frees_in_order : 1;
  guint armed : 1;
  CUdeviceptr address;
  gsize size;
  GCudaDevice *device;           /* lives to the end */
  GCudaMemoryResource *resource; /* NULL for foreign memory */
  GObject *owner;                /* of foreign memory */
  GCudaHome *owner_home;

  /* The recipe */
  GCudaStreamBox *stream;
  guint64 thread;
};

static GCudaAllocation *
allocation_new (CUdeviceptr address,
                gsize size,
                GCudaDevice *device,
                GCudaStreamBox *box)
{
  /* Not g_new0 (): zeroed memory comes from the slow side of malloc, and clearing all of it costs as much again. */
  GCudaAllocation *self = g_new (GCudaAllocation, 1);

  self->waiter = (GCudaStreamWaiter){ 0 };
  self->refs = 2; /* that of all holders, and the caller's */
  self->holders = 1;
  self->lock = 0;
  self->frees_in_order = FALSE;
  self->armed = FALSE;
  self->address = address;
  self->size = size;
  self->device = device;
  self->resource = NULL;
  self->owner = NULL;
  self->owner_home = NULL;
  self->stream = box;
  self->thread = _gcuda_thread_id ();
  return self;
}

GCudaAllocation *
_gcuda_allocation_new (GCudaMemoryResource *resource,
                       CUdeviceptr address,
                       gsize size,
                       gboolean frees_in_order,
                       GCudaStreamBox *box)
{
  GCudaAllocation *self = allocation_new (address, size, _gcuda_memory_resource_peek_device (resource), box);

  self->resource = g_object_ref (resource);
  self->frees_in_order = frees_in_order;
  self->armed = address != 0;
  return self;
}

GCudaAllocation *
_gcuda_allocation_new_foreign (GCudaDevice *device,
                               CUdeviceptr address,
                               gsize size,
                               GObject *owner,
                               GCudaStreamBox *box)
{
  GCudaAllocation *self = allocation_new (address, size, device, box);

  if (owner != NULL)
    {
      self->owner = g_object_ref (owner);
      self->owner_home = _gcuda_home_here ();
    }
  self->armed = owner != NULL;
  return self;
}

GCudaAllocation *
_gcuda_allocation_ref (GCudaAllocation *self)
{
  g_atomic_int_inc (&self->refs);
  return self;
}

void
_gcuda_allocation_unref (GCudaAllocation *self)
{
  if (g_atomic_int_dec_and_test (&self->refs))
    g_free (self);
}

gboolean
_gcuda_allocation_hold (GCudaAllocation *self)
{
  gint holders = g_atomic_int_get (&self->holders);

  while (holders > 0)
    /* In a forked child the change never ends; what comes next refuses that process. */
    if (G_UNLIKELY ((holders & CHANGING) != 0) && !_gcuda_driver_forked ())
      {
        g_thread_yield ();
        holders = g_atomic_int_get (&self->holders);
      }
    else if (g_atomic_int_compare_and_exchange_full (&self->holders, holders, holders + 1, &holders))
      {
        return TRUE;
      }
  return FALSE;
}

gboolean
_gcuda_allocation_is_shared (GCudaAllocation *self)
{
  return g_atomic_int_get (&self->holders) != 2;
}

gboolean
_gcuda_allocation_begin_change (GCudaAllocation *self)
{
  return g_atomic_int_compare_and_exchange (&self->holders, 2, 2 | CHANGING);
}

void
_gcuda_allocation_end_change (GCudaAllocation *self,
                              CUdeviceptr address,
                              gsize size)
{
  __atomic_store_n (&self->address, address, __ATOMIC_RELAXED);
  __atomic_store_n (&self->size, size, __ATOMIC_RELAXED);
  /* One of the two may be gone meanwhile, but not the caller. */
  g_atomic_int_add (&self->holders, -CHANGING);
}

void
_gcuda_allocation_grow (GCudaAllocation *self,
                        gsize size)
{
  /* Whoever makes a view may ask for it meanwhile. */
  __atomic_store_n (&self->size, size, __ATOMIC_RELAXED);
}

CUdeviceptr
_gcuda_allocation_get_address (GCudaAllocation *self)
{
  /* A buffer's address is asked for also by those who do not hold it. */
  return __atomic_load_n (&self->address, __ATOMIC_RELAXED);
}

gsize
_gcuda_allocation_get_size (GCudaAllocation *self)
{
  return __atomic_load_n (&self->size, __ATOMIC_RELAXED);
}

GCudaMemoryResource *
_gcuda_allocation_get_resource (GCudaAllocation *self)
{
  return self->resource;
}

GCudaDevice *
_gcuda_allocation_get_device (GCudaAllocation *self)
{
  return self->device;
}

gboolean
_gcuda_allocation_is_on_host (GCudaAllocation *self)
{
  const GCudaResourceOperations *operations = self->resource != NULL ? _gcuda_memory_resource_operations (self->resource) : NULL;

  return operations != NULL && operations->on_host;
}

gboolean
_gcuda_allocation_check_portable (GCudaAllocation *self,
                                  const char *what,
                                  GError **error)
{
  const GCudaResourceOperations *operations = self->resource != NULL ? _gcuda_memory_resource_operations (self->resource) : NULL;

  if (operations == NULL || !operations->on_host || operations->portable)
    return TRUE;
  /* Drivers copy it, but at the call, whatever is on the stream. */
  return _gcuda_fail (error, GCUDA_ERROR_NOT_SUPPORTED, "%s: this memory of the host is copied in order only by its own device, on streams of that; gcuda_pinned_memory_resource_new_unpooled () has memory that any device copies", what);
}

gboolean
_gcuda_allocation_check_writable (GCudaAllocation *self,
                                  const char *what,
                                  GError **error)
{
  const GCudaResourceOperations *operations = self->resource != NULL ? _gcuda_memory_resource_operations (self->resource) : NULL;

  if (operations == NULL || operations->is_read_only == NULL || !operations->is_read_only (self->resource))
    return TRUE;
  return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: the memory can't be written: it is that of a GBytes, which never changes", what);
}

gboolean
_gcuda_allocation_spans (GCudaAllocation *self)
{
  const GCudaResourceOperations *operations = self->resource != NULL ? _gcuda_memory_resource_operations (self->resource) : NULL;

  /* What is not the library's own may be anything. */
  return operations == NULL || operations->spans;
}

/* The recipe */

gboolean
_gcuda_allocation_reserve (GCudaStreamBox *box,
                           gboolean frees_in_order,
                           GError **error)
{
  return frees_in_order || _gcuda_context_box_reserve_event (box->context, error);
}

gboolean
_gcuda_allocation_set_stream (GCudaAllocation *self,
                              GCudaStreamBox *box,
                              GError **error)
{
  GCudaStreamBox *old;

  if (self->armed && !_gcuda_allocation_reserve (box, self->frees_in_order, error))
    return FALSE;
  /* Before the swap: after it another thread may replace this one, and end it. */
  GCUDA_NOTE (RECIPE, "memory at 0x%llx will be freed on stream %p", (unsigned long long) self->address, (void *) box->handle);
  g_bit_lock (&self->lock, LOCK_BIT);
  old = self->stream;
  self->stream = box;
  self->thread = _gcuda_thread_id ();
  g_bit_unlock (&self->lock, LOCK_BIT);
  _gcuda_stream_box_unuse (old);
  return TRUE;
}

/* Releasing */

CUresult
_gcuda_free_address (GCudaMemoryResource *resource,
                     CUdeviceptr address,
                     gsize size,
                     gsize alignment,
                     GCudaStreamBox *box,
                     CUstream handle,
                     GCudaStream *stream)
{
  const GCudaResourceOperations *operations = _gcuda_memory_resource_operations (resource);

  if (operations != NULL)
    return operations->deallocate (resource, box, address, size, handle);
  GCUDA_MEMORY_RESOURCE_GET_CLASS (resource)->deallocate_address (resource, address, size, alignment, stream);
  return CUDA_SUCCESS;
}

/* All is given back: drops what the allocation kept. */
static void
finish (GCudaAllocation *self)
{
  _gcuda_stream_box_unuse (g_steal_pointer (&self->stream));
  g_clear_object (&self->resource);
  if (self->owner != NULL)
    _gcuda_home_drop (g_steal_pointer (&self->owner_home), g_steal_pointer (&self->owner));
  _gcuda_allocation_unref (self);
}

static void
report (GCudaAllocation *self,
        const char *call,
        CUresult result)
{
  g_autoptr (GError) error = NULL;

  if (result == CUDA_SUCCESS || result == CUDA_ERROR_DEINITIALIZED)
    return;
  if (_gcuda_result_is_sticky (result))
    {
      _gcuda_context_box_add_loss (self->stream->context, result, self->size);
      return;
    }
  _gcuda_fail_driver (&error, result, "freeing %" G_GSIZE_FORMAT " bytes of device %d", self->size, (int) self->stream->context->device);
  _gcuda_report_teardown (error, call, self->address, self->size);
}

/* Frees memory of one of the library's own resources, in a teardown. Its stream has passed, or the driver frees in order. */
static GCudaReclaimResult
free_now (GCudaAllocation *self)
{
  const GCudaResourceOperations *operations = _gcuda_memory_resource_operations (self->resource);
  CUstream handle = _gcuda_stream_box_handle_for (self->stream, self->thread);
  const gboolean on_stream = operations->stream_ordered || operations->frees_on_stream;
  CUstreamCaptureStatus status;
  GCudaContextScope scope = { FALSE };
  CUresult result;

  if (on_stream)
    switch (_gcuda_stream_box_teardown_enter (self->stream, handle, FALSE, &scope))
      {
      case GCUDA_STREAM_READY:
        break;
      case GCUDA_STREAM_GONE:
        /* Without a stream it may wait for the device: only the reclaimer does that. */
        if (!_gcuda_reclaimer_is_here ())
          return GCUDA_RECLAIM_AGAIN;
        result = operations->deallocate_gone (self->resource, self->address, self->size);
        if (result == CUDA_ERROR_NOT_PERMITTED)
          return GCUDA_RECLAIM_AGAIN;
        report (self, "cuMemFree", result);
        return GCUDA_RECLAIM_DONE;
      case GCUDA_STREAM_CAPTURED:
        return GCUDA_RECLAIM_BLOCKED;
      case GCUDA_STREAM_REFUSED:
      default:
        return GCUDA_RECLAIM_AGAIN;
      }
  else if (!_gcuda_context_box_is_alive (self->stream->context))
    {
      result = operations->deallocate_gone (self->resource, self->address, self->size);
      if (result == CUDA_ERROR_NOT_PERMITTED)
        return GCUDA_RECLAIM_AGAIN;
      report (self, operations->free_call, result);
      return GCUDA_RECLAIM_DONE;
    }

  /* A stream that is being captured refuses the free as it would a double one; and the capture may have ended by the time of the
   * question. */
  for (guint tries = 0; tries < 4; tries++)
    {
      result = _gcuda_free_address (self->resource, self->address, self->size, GCUDA_ALIGNMENT, self->stream, handle, NULL);
      if (result != CUDA_ERROR_INVALID_VALUE || !on_stream || _gcuda_driver.StreamIsCapturing (handle, &status) != CUDA_SUCCESS)
        break;
      if (status != CU_STREAM_CAPTURE_STATUS_NONE)
        {
          result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
          break;
        }
    }
  _gcuda_context_scope_leave (&scope);

  switch ((int) result)
    {
    case CUDA_ERROR_NOT_PERMITTED:
      return GCUDA_RECLAIM_AGAIN;
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
    case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
    case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
      return GCUDA_RECLAIM_BLOCKED;
    default:
      GCUDA_NOTE (ALLOC, "freed %" G_GSIZE_FORMAT " bytes at 0x%llx on stream %p", self->size, (unsigned long long) self->address, (void *) handle);
      report (self, operations->free_call, result);
      return GCUDA_RECLAIM_DONE;
    }
}

static GCudaReclaimResult
free_later (GCudaReclaimNode *node)
{
  GCudaAllocation *self = (GCudaAllocation *) node;
  GCudaReclaimResult answer = free_now (self);

  if (answer == GCUDA_RECLAIM_DONE)
    finish (self);
  return answer;
}

gboolean (*_gcuda_memory_is_of_capture) (CUdeviceptr address,
                                         cuuint64_t capture);

/* Whether the graph that is captured under this id has made the memory. It then need not keep it. */
static gboolean
is_of_capture (GCudaAllocation *self,
               cuuint64_t capture)
{
  const GCudaResourceOperations *operations = self->resource != NULL ? _gcuda_memory_resource_operations (self->resource) : NULL;
  gboolean (*of_program) (CUdeviceptr address,
                          cuuint64_t capture);

  if (operations != NULL)
    return operations->is_of_capture != NULL && operations->is_of_capture (self->resource, self->address, capture);
  of_program = self->resource != NULL ? g_atomic_pointer_get (&_gcuda_memory_is_of_capture) : NULL;
  return of_program != NULL && of_program (self->address, capture);
}

/* The same of the capture that the recipe's stream is in now, in a teardown. */
static gboolean
is_of_own_capture (GCudaAllocation *self)
{
  CUstream handle = _gcuda_stream_box_handle_for (self->stream, self->thread);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  GCudaContextScope scope = { FALSE };
  cuuint64_t capture = 0;
  CUgraph graph = NULL;
  CUresult result = CUDA_SUCCESS;

  if (g_atomic_pointer_get (&_gcuda_memory_is_of_capture) == NULL || handle == CU_STREAM_LEGACY || !_gcuda_driver_has (GCUDA_DRIVER_GROUP_CAPTURE))
    return FALSE;
  if (_gcuda_stream_box_is_default (self->stream))
    result = _gcuda_context_scope_enter (&scope, self->stream->context->handle);
  if (result == CUDA_SUCCESS)
    result = _gcuda_driver.StreamGetCaptureInfo (handle, &status, &capture, &graph, NULL, NULL);
  _gcuda_context_scope_leave (&scope);
  return result == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_ACTIVE && is_of_capture (self, capture);
}

static GCudaReclaimResult free_by_program (GCudaReclaimNode *node);

/* On the reclaimer's thread: what a capture, or a thread of the driver's, had put off. */
static GCudaReclaimResult
hand_to_program (GCudaReclaimNode *node)
{
  GCudaAllocation *self = (GCudaAllocation *) node;
  GCudaHome *home = _gcuda_memory_resource_get_home (self->resource);
  GCudaContextScope scope;

  switch (_gcuda_stream_box_teardown_enter (self->stream, _gcuda_stream_box_handle_for (self->stream, self->thread), TRUE, &scope))
    {
    case GCUDA_STREAM_CAPTURED:
      return GCUDA_RECLAIM_BLOCKED;
    case GCUDA_STREAM_REFUSED:
      return GCUDA_RECLAIM_AGAIN;
    case GCUDA_STREAM_READY:
    case GCUDA_STREAM_GONE:
    default:
      break;
    }
  _gcuda_context_scope_leave (&scope);
  if (home == NULL)
    return free_by_program (node);
  _gcuda_home_push (home, node, free_by_program);
  return GCUDA_RECLAIM_DONE;
}

/* The stream that a program's resource is told: on another thread than a per-thread default stream's, the legacy one, and for
 * a context that is gone the legacy one of the context that the device has now. */
static GCudaStream *
stream_for_program (GCudaAllocation *self,
                    gboolean gone)
{
  g_autoptr (GCudaContext) context = NULL;
  GCudaDevice *device;

  if (!gone && _gcuda_stream_box_handle_for (self->stream, self->thread) == self->stream->handle)
    return _gcuda_stream_new_for_box (self->stream);
  device = _gcuda_device_peek (self->stream->context->device, NULL);
  if (device == NULL)
    return NULL;
  if (gone)
    context = gcuda_device_get_primary_context (device, NULL);
  else if (_gcuda_context_box_use (self->stream->context))
    context = _gcuda_context_new_for_box (self->stream->context, device);
  return context != NULL ? gcuda_stream_new_legacy_default (context, NULL) : NULL;
}

/* A program's own resource, on the thread that it is bound to or on any. */
static GCudaReclaimResult
free_by_program (GCudaReclaimNode *node)
{
  GCudaAllocation *self = (GCudaAllocation *) node;
  g_autoptr (GCudaStream) stream = NULL;
  GCudaContextScope scope;
  GCudaStreamState state;
  GCudaTeardown teardown;

  if (!_gcuda_teardown_enter (&teardown))
    return GCUDA_RECLAIM_DONE; /* exiting */
  state = _gcuda_stream_box_teardown_enter (self->stream, _gcuda_stream_box_handle_for (self->stream, self->thread), TRUE, &scope);
  /* Memory that was allocated in this capture is freed in it. */
  if (state == GCUDA_STREAM_REFUSED || (state == GCUDA_STREAM_CAPTURED && !is_of_own_capture (self)))
    {
      _gcuda_reclaimer_push (node, hand_to_program);
    }
  else
    {
      _gcuda_context_scope_leave (&scope);
      stream = stream_for_program (self, state == GCUDA_STREAM_GONE);
      if (stream != NULL)
        _gcuda_free_address (self->resource, self->address, self->size, GCUDA_ALIGNMENT, self->stream, NULL, stream);
      else
        report (self, "deallocate_address", CUDA_ERROR_CONTEXT_IS_DESTROYED);
      finish (self);
    }
  _gcuda_teardown_leave (&teardown);
  return GCUDA_RECLAIM_DONE;
}

/* The recipe's stream has passed. On the reclaimer's thread. */
static GCudaReclaimResult
stream_passed (GCudaStreamWaiter *waiter)
{
  GCudaAllocation *self = (GCudaAllocation *) waiter;
  GCudaHome *home;

  if (self->resource == NULL)
    {
      finish (self);
      return GCUDA_RECLAIM_DONE;
    }
  if (_gcuda_memory_resource_operations (self->resource) != NULL)
    return free_later (&waiter->node);
  home = _gcuda_memory_resource_get_home (self->resource);
  if (home == NULL)
    return free_by_program (&waiter->node);
  _gcuda_home_push (home, &waiter->node, free_by_program);
  return GCUDA_RECLAIM_DONE;
}

/* A host function or a destructor of the driver's: a program's own code must not run there. */
static gboolean
is_driver_thread (void)
{
  CUcontext current;

  return _gcuda_driver.CtxGetCurrent (&current) == CUDA_ERROR_NOT_PERMITTED;
}

/* After the last holder. */
static void
release (GCudaAllocation *self)
{
  GCudaTeardown teardown;
  GCudaReclaimResult answer;
  GCudaHome *home;

  if (!_gcuda_teardown_enter (&teardown))
    return; /* exiting, or a forked child: it all goes with the process */

  if (!self->armed)
    {
      finish (self);
    }
  else if (!self->frees_in_order)
    {
      _gcuda_stream_box_queue (self->stream, &self->waiter, self->thread, stream_passed);
    }
  else if (_gcuda_memory_resource_operations (self->resource) != NULL)
    {
      answer = free_now (self);
      if (answer == GCUDA_RECLAIM_DONE)
        finish (self);
      else
        _gcuda_reclaimer_push (&self->waiter.node, free_later);
    }
  else
    {
      home = _gcuda_memory_resource_get_home (self->resource);
      if (home != NULL)
        _gcuda_home_push (home, &self->waiter.node, free_by_program);
      else if (is_driver_thread ())
        _gcuda_reclaimer_push (&self->waiter.node, hand_to_program);
      else
        free_by_program (&self->waiter.node);
    }
  _gcuda_teardown_leave (&teardown);
}

void
_gcuda_allocation_unhold (GCudaAllocation *self)
{
  /* The reference of all holders becomes the release's. */
  if (g_atomic_int_dec_and_test (&self->holders))
    release (self);
}

/* Allocating */

gboolean
_gcuda_reclaim_memory (void)
{
  if (!_gcuda_reclaimer_has_work ())
    return FALSE;
  _gcuda_reclaimer_settle (g_get_monotonic_time () + RECLAIM_PATIENCE, NULL);
  return TRUE;
}

static CUresult
allocate_once (GCudaMemoryResource *resource,
               const GCudaResourceOperations *operations,
               gsize size,
               GCudaStreamCall *call,
               CUdeviceptr *address)
{
  guint before = _gcuda_reclaimer_count_done ();
  CUresult result = operations->allocate (resource, size, call, address);
  gint64 deadline;

  if (G_LIKELY (result != CUDA_ERROR_OUT_OF_MEMORY) || call->settled)
    return result;
  deadline = g_get_monotonic_time () + RECLAIM_PATIENCE;
  /* Once more as long as something comes back, of which others may have been faster to take it. */
  while (result == CUDA_ERROR_OUT_OF_MEMORY && g_get_monotonic_time () < deadline &&
         (_gcuda_reclaim_memory () || before != _gcuda_reclaimer_count_done ()))
    {
      const guint now = _gcuda_reclaimer_count_done ();

      result = operations->allocate (resource, size, call, address);
      if (now == before)
        break;
      before = now;
    }
  return result;
}

static gboolean
allocate_by_program (GCudaMemoryResource *resource,
                     gsize size,
                     gsize alignment,
                     GCudaStream *stream,
                     CUdeviceptr *address,
                     GError **error)
{
  GCudaMemoryResourceClass *klass = GCUDA_MEMORY_RESOURCE_GET_CLASS (resource);
  GCudaHome *home = _gcuda_memory_resource_get_home (resource);
  g_autoptr (GError) local = NULL;

  if (klass->allocate_address == NULL || klass->deallocate_address == NULL)
    return _gcuda_fail (error, GCUDA_ERROR_RESOURCE_FAILED, "%s implements no %s", G_OBJECT_TYPE_NAME (resource),
                        klass->allocate_address == NULL ? "allocate_address" : "deallocate_address");
  if (home != NULL)
    _gcuda_home_drain (home);
  *address = klass->allocate_address (resource, size, alignment, stream, &local);
  if (local != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local));
      return FALSE;
    }
  if (*address > G_MAXUINT64 - size)
    return _gcuda_fail (error, GCUDA_ERROR_RESOURCE_FAILED, "%s returned the address 0x%llx, behind which there are no %" G_GSIZE_FORMAT " bytes", G_OBJECT_TYPE_NAME (resource), (unsigned long long) *address, size);
  if (*address == 0)
    return _gcuda_fail (error, GCUDA_ERROR_RESOURCE_FAILED, "%s returned no address for %" G_GSIZE_FORMAT " bytes, and no reason", G_OBJECT_TYPE_NAME (resource), size);
  return TRUE;
}

static gboolean
refuse_capture (GCudaStreamCall *call,
                const char *what,
                GError **error)
{
  g_autoptr (GError) local = NULL;

  if (_gcuda_stream_call_refuse_capture (call, what, &local))
    return TRUE;
  if (g_error_matches (local, GCUDA_ERROR, GCUDA_ERROR_CAPTURING))
    return _gcuda_fail (error, GCUDA_ERROR_CAPTURING, "%s: the stream is being captured, and this memory can't be a part of a graph; GCudaGraphMemoryResource allocates in a capture", what);
  g_propagate_error (error, g_steal_pointer (&local));
  return FALSE;
}

gboolean
_gcuda_allocate (GCudaMemoryResource *resource,
                 gsize size,
                 gsize alignment,
                 GCudaStream *stream,
                 GCudaStreamBox *box,
                 CUdeviceptr *address,
                 GError **error)
{
  static const char what[] = "allocating";
  const GCudaResourceOperations *operations = _gcuda_memory_resource_operations (resource);
  GCudaStreamCall call;
  CUresult result, left;

  _gcuda_stream_call_init (&call, box, NULL);
  if (operations == NULL)
    return allocate_by_program (resource, size, alignment, stream, address, error);
  if (_gcuda_stream_box_is_default (box))
    {
      result = _gcuda_context_scope_enter (&call.scope, box->context->handle);
      if (result != CUDA_SUCCESS)
        return _gcuda_fail_driver (error, result, "%s: making the context of the default stream current", what);
    }
  if (operations->accept != NULL ? !operations->accept (resource, &call, what, error) : !refuse_capture (&call, what, error))
    {
      _gcuda_context_scope_leave (&call.scope);
      return FALSE;
    }
  result = allocate_once (resource, operations, size, &call, address);
  if (G_LIKELY (result == CUDA_SUCCESS))
    {
      left = call.scope.pushed ? _gcuda_context_scope_leave (&call.scope) : CUDA_SUCCESS;
      if (G_UNLIKELY (left != CUDA_SUCCESS))
        {
          /* The context is still the default stream's own: free there. */
          _gcuda_free_address (resource, *address, size, alignment, box, box->handle, stream);
          return _gcuda_fail_driver (error, left, "%s: restoring the current context", what);
        }
      GCUDA_NOTE (ALLOC, "allocated %" G_GSIZE_FORMAT " bytes at 0x%llx on stream %p", size, (unsigned long long) *address, (void *) box->handle);
      return TRUE;
    }
  _gcuda_context_scope_leave (&call.scope);
  {
    g_autofree char *amount = g_format_size_full (size, G_FORMAT_SIZE_IEC_UNITS);
    g_autofree char *place = operations->describe (resource);

    return _gcuda_fail_driver (error, result, "allocating %s from %s", amount, place);
  }
}

/* Work on memory */

static const char *
explain (const GCudaStreamCall *call,
         CUresult result)
{
  for (guint i = 0; result == CUDA_ERROR_INVALID_VALUE && i < G_N_ELEMENTS (call->touched); i++)
    {
      const GCudaAllocation *allocation = call->touched[i];
      const GCudaResourceOperations *operations = allocation != NULL && allocation->resource != NULL ? _gcuda_memory_resource_operations (allocation->resource) : NULL;

      if (operations != NULL && operations->use_hint != NULL)
        return operations->use_hint;
    }
  return NULL;
}

void
_gcuda_stream_call_touch (GCudaStreamCall *call,
                          GCudaAllocation *first,
                          GCudaAllocation *second)
{
  call->explain = explain;
  call->touched[0] = first;
  call->touched[1] = second;
}

gboolean
_gcuda_stream_call_keep_allocation (GCudaStreamCall *call,
                                    GCudaAllocation *allocation,
                                    const char *what,
                                    GError **error)
{
  if (call->graph == NULL || allocation->address == 0)
    return TRUE;
  /* A graph's own memory is the graph's. Kept, it would not be freed where the buffer is closed. */
  if (is_of_capture (allocation, call->capture))
    return TRUE;
  _gcuda_allocation_hold (allocation);
  return _gcuda_stream_call_keep (call, allocation, (GDestroyNotify) _gcuda_allocation_unhold, what, error);
}

gboolean
_gcuda_stream_call_begin_on (GCudaStreamCall *call,
                             GCudaStream *stream,
                             GCudaAllocation *first,
                             GCudaAllocation *second,
                             const char *what,
                             GError **error)
{
  if (!_gcuda_stream_call_begin (call, stream, what, error))
    return FALSE;
  _gcuda_stream_call_touch (call, first, second);
  /* The legacy default stream is never captured. */
  if (G_LIKELY (!g_atomic_int_get (&call->box->exposed)) || call->box->kind == GCUDA_STREAM_LEGACY)
    return TRUE;
  if (_gcuda_stream_call_find_capture (call, what, error) &&
      (first == NULL || _gcuda_stream_call_keep_allocation (call, first, what, error)) &&
      (second == NULL || _gcuda_stream_call_keep_allocation (call, second, what, error)))
    return TRUE;
  _gcuda_stream_call_keep_end (call, FALSE);
  _gcuda_stream_call_end (call, CUDA_SUCCESS, what, NULL);
  return FALSE;
}
