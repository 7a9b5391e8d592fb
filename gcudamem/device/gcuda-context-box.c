/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-context-box-private.h"

#define LOSS_QUIET_TIME (20 * G_TIME_SPAN_MILLISECOND)
#define EVENT_STOCK     16 /* events kept for releases to come; many at once need more for a while */

GCudaContextBox *
_gcuda_context_box_new (CUcontext handle,
                        unsigned long long id,
                        CUdevice device,
                        GCudaContextKind kind,
                        GObject *owner)
{
  GCudaContextBox *self = g_new0 (GCudaContextBox, 1);

  self->refs = 1;
  self->uses = 1;
  self->handle = handle;
  self->id = id;
  self->device = device;
  self->kind = kind;
  g_mutex_init (&self->lock);
  self->events = g_ptr_array_new ();
  if (owner != NULL)
    {
      self->owner = g_object_ref (owner);
      self->owner_home = _gcuda_home_here ();
    }
  return self;
}

GCudaContextBox *
_gcuda_context_box_ref (GCudaContextBox *self)
{
  g_atomic_int_inc (&self->refs);
  return self;
}

void
_gcuda_context_box_unref (GCudaContextBox *self)
{
  if (!g_atomic_int_dec_and_test (&self->refs))
    return;
  g_mutex_clear (&self->lock);
  g_ptr_array_unref (self->events);
  g_free (self);
}

gboolean
_gcuda_context_box_use (GCudaContextBox *self)
{
  gint uses = g_atomic_int_get (&self->uses);

  while (uses > 0)
    if (g_atomic_int_compare_and_exchange_full (&self->uses, uses, uses + 1, &uses))
      return TRUE;
  return FALSE;
}

static GCudaReclaimResult
destroy_private (GCudaReclaimNode *node)
{
  GCudaContextBox *self = (GCudaContextBox *) node;
  CUresult result = CUDA_SUCCESS;

  if (_gcuda_context_box_is_alive (self))
    {
      /* Destroying blocks until the context is idle, and this thread must not block: ask for an event first. */
      if (self->idle_event == NULL && _gcuda_driver_has (GCUDA_DRIVER_GROUP_CONTEXT_EVENTS))
        {
          self->idle_event = _gcuda_context_box_take_event (self);
          if (self->idle_event != NULL && _gcuda_driver.CtxRecordEvent (self->handle, self->idle_event) != CUDA_SUCCESS)
            {
              _gcuda_context_box_give_event (self, self->idle_event, FALSE);
              self->idle_event = NULL;
            }
        }
      if (self->idle_event != NULL && _gcuda_driver.EventQuery (self->idle_event) == CUDA_ERROR_NOT_READY)
        return GCUDA_RECLAIM_AGAIN;
      if (self->idle_event != NULL)
        {
          /* For the pools: see ask_event () of streams. */
          _gcuda_driver.EventSynchronize (self->idle_event);
          _gcuda_context_box_give_event (self, self->idle_event, FALSE);
          self->idle_event = NULL;
        }
      for (guint i = 0; i < self->events->len; i++)
        _gcuda_driver.EventDestroy (g_ptr_array_index (self->events, i));
      g_ptr_array_set_size (self->events, 0);
      result = _gcuda_driver.CtxDestroy (self->handle);
    }
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_DEINITIALIZED && !_gcuda_result_is_sticky (result))
    {
      g_autoptr (GError) error = NULL;

      _gcuda_fail_driver (&error, result, "destroying a private context of device %d", (int) self->device);
      _gcuda_report_teardown (error, "cuCtxDestroy", (guint64) (guintptr) self->handle, 0);
    }
  g_atomic_int_set (&self->gone, TRUE);
  _gcuda_context_box_unref (self);
  return GCUDA_RECLAIM_DONE;
}

/* After the last use: drops the reference that all uses had together. */
static void
ended (GCudaContextBox *self)
{
  if (_gcuda_driver_forked ())
    return;
  if (self->kind == GCUDA_CONTEXT_PRIVATE)
    {
      _gcuda_reclaimer_push (&self->node, destroy_private);
      return;
    }
  if (self->kind == GCUDA_CONTEXT_FOREIGN)
    {
      GCudaTeardown teardown;

      if (self->events->len > 0 && _gcuda_teardown_enter (&teardown))
        {
          if (_gcuda_context_box_is_alive (self))
            for (guint i = 0; i < self->events->len; i++)
              _gcuda_driver.EventDestroy (g_ptr_array_index (self->events, i));
          _gcuda_teardown_leave (&teardown);
        }
      if (self->owner != NULL)
        _gcuda_home_drop (g_steal_pointer (&self->owner_home), g_steal_pointer (&self->owner));
    }
  _gcuda_context_box_unref (self);
}

void
_gcuda_context_box_unuse (GCudaContextBox *self)
{
  if (g_atomic_int_dec_and_test (&self->uses))
    ended (self);
}

gboolean
_gcuda_context_box_end (GCudaContextBox *self,
                        gint expected)
{
  if (!g_atomic_int_compare_and_exchange (&self->uses, expected, 0))
    return FALSE;
  ended (self);
  return TRUE;
}

/* Whether an answer says that there is no such context. Any other failure says nothing about it. */
static gboolean
says_gone (CUresult result)
{
  switch ((int) result)
    {
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_INVALID_HANDLE:
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_DEINITIALIZED:
      return TRUE;
    default:
      return FALSE;
    }
}

gboolean
_gcuda_context_box_is_alive (GCudaContextBox *self)
{
  unsigned long long id;
  CUresult result;

  if (g_atomic_int_get (&self->gone))
    return FALSE;
  result = _gcuda_driver.CtxGetId (self->handle, &id);
  /* The driver's own threads may not ask: there the call that follows fails by itself. */
  return result == CUDA_SUCCESS ? id == self->id : !says_gone (result);
}

gboolean
_gcuda_context_box_fail (GCudaContextBox *self,
                         CUresult result,
                         GError **error)
{
  if (result == CUDA_ERROR_NOT_PERMITTED)
    return TRUE;
  if (result == CUDA_ERROR_DEINITIALIZED || (result != CUDA_SUCCESS && !says_gone (result)))
    return _gcuda_fail_driver (error, result, "asking whether the context of device %d is still there", (int) self->device);
  return _gcuda_fail (error, GCUDA_ERROR_CONTEXT_IS_DESTROYED,
                      "the context of device %d was reset or destroyed by others (CUDA_ERROR_CONTEXT_IS_DESTROYED); what was made in it is gone: get the device's context again",
                      (int) self->device);
}

static CUresult
new_event (GCudaContextBox *self,
           CUevent *event)
{
  GCudaContextScope scope;
  CUresult result, left;

  result = _gcuda_context_scope_enter (&scope, self->handle);
  if (result != CUDA_SUCCESS)
    return result;
  result = _gcuda_driver.EventCreate (event, CU_EVENT_DISABLE_TIMING);
  left = _gcuda_context_scope_leave (&scope);
  if (result == CUDA_SUCCESS && left != CUDA_SUCCESS)
    {
      _gcuda_driver.EventDestroy (*event);
      *event = NULL;
      result = left;
    }
  return result;
}

gboolean
_gcuda_context_box_reserve_event (GCudaContextBox *self,
                                  GError **error)
{
  CUevent event;
  CUresult result;

  g_mutex_lock (&self->lock);
  if (self->n_events > 0)
    {
      g_mutex_unlock (&self->lock);
      return TRUE;
    }
  g_mutex_unlock (&self->lock);

  result = new_event (self, &event);
  if (result != CUDA_SUCCESS)
    return _gcuda_fail_driver (error, result, "making an event for later releases in a context of device %d", (int) self->device);
  g_mutex_lock (&self->lock);
  self->n_events++;
  g_ptr_array_add (self->events, event);
  g_mutex_unlock (&self->lock);
  return TRUE;
}

CUevent
_gcuda_context_box_take_event (GCudaContextBox *self)
{
  CUevent event = NULL;

  g_mutex_lock (&self->lock);
  if (self->events->len > 0)
    event = g_ptr_array_steal_index_fast (self->events, self->events->len - 1);
  g_mutex_unlock (&self->lock);
  if (event != NULL || new_event (self, &event) != CUDA_SUCCESS)
    return event;
  g_mutex_lock (&self->lock);
  self->n_events++;
  g_mutex_unlock (&self->lock);
  return event;
}

void
_gcuda_context_box_give_event (GCudaContextBox *self,
                               CUevent event,
                               gboolean tainted)
{
  CUevent fresh = NULL;
  gboolean surplus;

  if (tainted && new_event (self, &fresh) == CUDA_SUCCESS)
    {
      _gcuda_driver.EventDestroy (event);
      event = fresh;
    }
  /* A tainted event that could not be replaced goes back all the same: recording it anew outside the capture mends it. */
  g_mutex_lock (&self->lock);
  surplus = self->events->len >= EVENT_STOCK;
  if (surplus)
    self->n_events--;
  else
    g_ptr_array_add (self->events, event);
  g_mutex_unlock (&self->lock);
  /* The events of a context that is gone went with it. */
  if (!surplus || !_gcuda_context_box_is_alive (self) || _gcuda_driver.EventDestroy (event) == CUDA_SUCCESS)
    return;
  g_mutex_lock (&self->lock);
  self->n_events++;
  g_ptr_array_add (self->events, event);
  g_mutex_unlock (&self->lock);
}

static GCudaReclaimResult
report_loss (GCudaReclaimNode *node)
{
  GCudaContextBox *self = (gpointer) ((char *) node - G_STRUCT_OFFSET (GCudaContextBox, lost_node));
  g_autoptr (GError) error = NULL;
  guint64 bytes;
  guint count;

  g_mutex_lock (&self->lock);
  if (g_get_monotonic_time () < self->lost_time + LOSS_QUIET_TIME)
    {
      g_mutex_unlock (&self->lock);
      return GCUDA_RECLAIM_AGAIN;
    }
  bytes = self->lost_bytes;
  count = self->lost_count;
  self->lost_bytes = 0;
  self->lost_count = 0;
  self->lost_queued = FALSE;
  g_mutex_unlock (&self->lock);

  _gcuda_fail_driver (&error, self->lost_result, "freeing %u allocations of a context of device %d", count, (int) self->device);
  _gcuda_report_teardown (error, "cuMemFree", (guint64) (guintptr) self->handle, bytes);
  _gcuda_context_box_unref (self);
  return GCUDA_RECLAIM_DONE;
}

void
_gcuda_context_box_add_loss (GCudaContextBox *self,
                             CUresult result,
                             guint64 bytes)
{
  gboolean queue;

  g_mutex_lock (&self->lock);
  queue = !self->lost_queued;
  self->lost_queued = TRUE;
  self->lost_result = result;
  self->lost_bytes += bytes;
  self->lost_count++;
  self->lost_time = g_get_monotonic_time ();
  g_mutex_unlock (&self->lock);
  if (queue)
    {
      _gcuda_context_box_ref (self);
      _gcuda_reclaimer_push (&self->lost_node, report_loss);
    }
}

void
_gcuda_context_box_report (GCudaContextBox *self,
                           CUresult result,
                           const char *driver_call,
                           guint64 handle,
                           guint64 leaked)
{
  g_autoptr (GError) error = NULL;

  if (result == CUDA_SUCCESS || result == CUDA_ERROR_DEINITIALIZED)
    return;
  if (_gcuda_result_is_sticky (result))
    {
      _gcuda_context_box_add_loss (self, result, leaked);
      return;
    }
  _gcuda_fail_driver (&error, result, "giving back memory of device %d", (int) self->device);
  _gcuda_report_teardown (error, driver_call, handle, leaked);
}
