/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-stream-box-private.h"

#define DRAIN_LIMIT 512 /* waiters that a pass lets go: other streams, and who waits for the oldest, get their turn */

GCudaStreamBox *
_gcuda_stream_box_new (GCudaStreamKind kind,
                       CUstream handle,
                       GCudaContextBox *context,
                       unsigned long long id,
                       GObject *owner)
{
  GCudaStreamBox *self = g_new0 (GCudaStreamBox, 1);

  self->refs = 1;
  self->uses = 1;
  self->kind = kind;
  self->handle = handle;
  self->context = context;
  self->id = id;
  self->exposed = kind != GCUDA_STREAM_CREATED;
  g_mutex_init (&self->lock);
  self->waiting_end = &self->waiting;
  self->oldest_waiting = G_MAXUINT64;
  if (owner != NULL)
    {
      self->owner = g_object_ref (owner);
      self->owner_home = _gcuda_home_here ();
    }
  return self;
}

GCudaStreamBox *
_gcuda_stream_box_ref (GCudaStreamBox *self)
{
  g_atomic_int_inc (&self->refs);
  return self;
}

void
_gcuda_stream_box_unref (GCudaStreamBox *self)
{
  if (!g_atomic_int_dec_and_test (&self->refs))
    return;
  g_mutex_clear (&self->lock);
  g_free (self);
}

CUstream
_gcuda_stream_box_handle_for (const GCudaStreamBox *self,
                              guint64 owner_thread)
{
  if (self->kind == GCUDA_STREAM_PER_THREAD && owner_thread != _gcuda_thread_id ())
    return CU_STREAM_LEGACY;
  return self->handle;
}

GCudaStreamState
_gcuda_stream_box_teardown_enter (GCudaStreamBox *self,
                                  CUstream handle,
                                  gboolean ask,
                                  GCudaContextScope *scope)
{
  CUstreamCaptureStatus status;
  CUresult result;

  scope->pushed = FALSE;
  scope->counter = NULL;
  if (!_gcuda_context_box_is_alive (self->context))
    return GCUDA_STREAM_GONE;
  if (_gcuda_stream_box_is_default (self))
    {
      if (_gcuda_context_scope_enter (scope, self->context->handle) != CUDA_SUCCESS)
        return GCUDA_STREAM_REFUSED;
      if (handle == CU_STREAM_LEGACY)
        {
          scope->counter = &self->context->legacy_teardowns;
          g_atomic_int_inc (scope->counter);
          if (g_atomic_int_get (&self->context->blocking_captures) > 0)
            {
              _gcuda_context_scope_leave (scope);
              return GCUDA_STREAM_CAPTURED;
            }
        }
    }
  else if (!ask)
    return GCUDA_STREAM_READY;
  result = _gcuda_driver.StreamIsCapturing (handle, &status);
  if (result == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_NONE)
    return GCUDA_STREAM_READY;
  /* A lost context refuses every question; what the caller does then, in that context, tells it so. */
  if (_gcuda_result_is_sticky (result))
    return GCUDA_STREAM_READY;
  _gcuda_context_scope_leave (scope);
  return result == CUDA_SUCCESS || result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ? GCUDA_STREAM_CAPTURED : GCUDA_STREAM_REFUSED;
}

/* Only an answer that says that there is no stream any more, or no driver, says that there is nothing to wait for. */
static gboolean
says_over (CUresult result)
{
  switch ((int) result)
    {
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_INVALID_HANDLE:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
      return TRUE;
    default:
      return _gcuda_result_is_sticky (result);
    }
}

/* Records @event behind all that is in the stream now. */
typedef enum
{
  RECORDED,
  RECORD_LATER,   /* a capture is in the way */
  RECORD_NOTHING, /* there is nothing to wait for: the stream's context is gone or lost */
} RecordResult;

static RecordResult
record (GCudaStreamBox *self,
        CUstream handle,
        CUevent event,
        gboolean *tainted)
{
  GCudaContextScope scope;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUresult result;

  *tainted = FALSE;
  switch (_gcuda_stream_box_teardown_enter (self, handle, TRUE, &scope))
    {
    case GCUDA_STREAM_READY:
      break;
    case GCUDA_STREAM_GONE:
      return RECORD_NOTHING;
    case GCUDA_STREAM_CAPTURED:
    case GCUDA_STREAM_REFUSED:
    default:
      return RECORD_LATER;
    }
  result = _gcuda_driver.EventRecord (event, handle);
  /* A capture that began in between has the event now: asking it would break that capture. Of one that has ended, too, only the
   * event tells. */
  if (result == CUDA_SUCCESS &&
      (_gcuda_driver.StreamIsCapturing (handle, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE ||
       _gcuda_driver.EventQuery (event) == CUDA_ERROR_INVALID_VALUE))
    *tainted = TRUE;
  _gcuda_context_scope_leave (&scope);
  if (result == CUDA_SUCCESS)
    return *tainted ? RECORD_LATER : RECORDED;
  return says_over (result) ? RECORD_NOTHING : RECORD_LATER;
}

/* Done: there is nothing more to wait for. */
static GCudaReclaimResult
ask_event (GCudaContextBox *context,
           CUevent event)
{
  CUresult result = _gcuda_context_box_is_alive (context) ? _gcuda_driver.EventQuery (event) : CUDA_ERROR_CONTEXT_IS_DESTROYED;

  /* This returns at once. But only by a call that waits does a driver take pool memory that was freed off its books, and a pool
   * must not be destroyed before that. */
  if (result == CUDA_SUCCESS)
    result = _gcuda_driver.EventSynchronize (event);
  if (result == CUDA_ERROR_NOT_READY)
    return GCUDA_RECLAIM_AGAIN;
  return result == CUDA_SUCCESS || says_over (result) ? GCUDA_RECLAIM_DONE : GCUDA_RECLAIM_BLOCKED;
}

/* The end of a stream */

/* All is done that was in it. A private context that it was in may be gone by now. */
static void
finish_end (GCudaStreamBox *self)
{
  GCudaStreamWaiter *enders, *next;

  if (self->lost)
    {
      g_autoptr (GError) error = NULL;

      _gcuda_fail (&error, GCUDA_ERROR_CAPTURING, "a stream of device %d ended while it was being captured: memory pools whose memory was freed on it before are not destroyed", (int) self->context->device);
      _gcuda_report_teardown (error, "cuStreamDestroy", (guint64) (guintptr) self->handle, 0);
      _gcuda_stream_box_unref (self);
      return;
    }
  g_mutex_lock (&self->lock);
  g_atomic_int_set (&self->over, TRUE);
  enders = g_steal_pointer (&self->enders);
  g_mutex_unlock (&self->lock);
  for (; enders != NULL; enders = next)
    {
      next = enders->next;
      enders->passed (enders);
    }
  _gcuda_stream_box_unref (self);
}

static GCudaReclaimResult
wait_for_end (GCudaReclaimNode *node)
{
  GCudaStreamBox *self = (GCudaStreamBox *) node;
  GCudaContextBox *context = self->context;
  GCudaReclaimResult answer = ask_event (context, self->event);

  if (answer != GCUDA_RECLAIM_DONE)
    return answer;
  _gcuda_context_box_give_event (context, g_steal_pointer (&self->event), FALSE);
  finish_end (self);
  if (context->kind == GCUDA_CONTEXT_PRIVATE)
    _gcuda_context_box_unref (context);
  else
    _gcuda_context_box_unuse (context);
  return GCUDA_RECLAIM_DONE;
}

/* FALSE: it can't be marked now. */
static gboolean
mark_end (GCudaStreamBox *self)
{
  CUstreamCaptureStatus status;
  CUevent event;
  gboolean tainted;

  if (self->marked || !g_atomic_int_get (&self->watched) || !_gcuda_context_box_is_alive (self->context))
    return TRUE;
  /* Nothing can be marked in a capture. One that is whole ends some time, or with the stream. */
  if (self->kind == GCUDA_STREAM_CREATED && _gcuda_driver.StreamIsCapturing (self->handle, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE)
    {
      if (self->ends_capture && self->before_capture != NULL)
        {
          self->event = g_steal_pointer (&self->before_capture);
          self->marked = TRUE;
          return TRUE;
        }
      self->lost = self->ends_capture || status != CU_STREAM_CAPTURE_STATUS_ACTIVE;
      return self->lost;
    }
  event = _gcuda_context_box_take_event (self->context);
  if (event == NULL)
    return FALSE;
  switch (record (self, self->handle, event, &tainted))
    {
    case RECORDED:
      self->event = event;
      self->marked = TRUE;
      return TRUE;
    case RECORD_LATER:
      _gcuda_context_box_give_event (self->context, event, tainted);
      return FALSE;
    case RECORD_NOTHING:
    default:
      _gcuda_context_box_give_event (self->context, event, FALSE);
      return TRUE;
    }
}

void
_gcuda_stream_box_mark_before_capture (GCudaStreamBox *self)
{
  GCudaTeardown teardown;
  CUevent event, old;
  gboolean tainted;

  if (!g_atomic_int_get (&self->watched) || self->kind != GCUDA_STREAM_CREATED || !_gcuda_teardown_enter (&teardown))
    return;
  event = _gcuda_context_box_take_event (self->context);
  if (event != NULL && record (self, self->handle, event, &tainted) != RECORDED)
    _gcuda_context_box_give_event (self->context, g_steal_pointer (&event), tainted);
  g_mutex_lock (&self->lock);
  old = self->before_capture;
  self->before_capture = event;
  g_mutex_unlock (&self->lock);
  if (old != NULL)
    _gcuda_context_box_give_event (self->context, old, FALSE);
  _gcuda_teardown_leave (&teardown);
}

static GCudaReclaimResult
destroy (GCudaStreamBox *self)
{
  GCudaContextBox *context = self->context;
  CUresult result = CUDA_SUCCESS;

  if (!mark_end (self))
    return GCUDA_RECLAIM_BLOCKED;
  if (self->kind == GCUDA_STREAM_CREATED && _gcuda_context_box_is_alive (context))
    result = _gcuda_driver.StreamDestroy (self->handle);
  /* On a thread of the driver's. */
  if (result == CUDA_ERROR_NOT_PERMITTED)
    return GCUDA_RECLAIM_AGAIN;
  /* The stream of a lost context goes with it. */
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_DEINITIALIZED && !_gcuda_result_is_sticky (result))
    {
      g_autoptr (GError) error = NULL;

      _gcuda_fail_driver (&error, result, "destroying a stream of device %d", (int) context->device);
      _gcuda_report_teardown (error, "cuStreamDestroy", (guint64) (guintptr) self->handle, 0);
    }
  if (self->owner != NULL)
    _gcuda_home_drop (g_steal_pointer (&self->owner_home), g_steal_pointer (&self->owner));
  if (self->before_capture != NULL)
    _gcuda_context_box_give_event (context, g_steal_pointer (&self->before_capture), FALSE);
  if (self->event == NULL)
    {
      finish_end (self);
      _gcuda_context_box_unuse (context);
      return GCUDA_RECLAIM_DONE;
    }
  /* A private context is not kept for this: it waits itself until all is done in it. */
  if (context->kind == GCUDA_CONTEXT_PRIVATE)
    _gcuda_context_box_ref (context);
  _gcuda_reclaimer_push (&self->node, wait_for_end);
  if (context->kind == GCUDA_CONTEXT_PRIVATE)
    _gcuda_context_box_unuse (context);
  return GCUDA_RECLAIM_DONE;
}

static GCudaReclaimResult
destroy_later (GCudaReclaimNode *node)
{
  return destroy ((GCudaStreamBox *) node);
}

void
_gcuda_stream_box_end (GCudaStreamBox *self)
{
  GCudaStreamBox *joined = self->joined;
  GCudaTeardown teardown;

  /* Exiting, or a forked child: the struct is left to the system, with the context that it holds. */
  if (!_gcuda_teardown_enter (&teardown))
    return;
  if (destroy (self) != GCUDA_RECLAIM_DONE)
    _gcuda_reclaimer_push (&self->node, destroy_later);
  if (joined != NULL)
    _gcuda_stream_box_unuse (joined);
  _gcuda_teardown_leave (&teardown);
}

void
_gcuda_stream_box_watch (GCudaStreamBox *self)
{
  g_atomic_int_set (&self->watched, TRUE);
}

gboolean
_gcuda_stream_box_wait_for_end (GCudaStreamBox *self,
                                GCudaStreamWaiter *waiter,
                                GCudaStreamWaiterFunc passed)
{
  gboolean over;

  waiter->passed = passed;
  g_mutex_lock (&self->lock);
  over = g_atomic_int_get (&self->over);
  if (!over)
    {
      waiter->next = self->enders;
      self->enders = waiter;
    }
  g_mutex_unlock (&self->lock);
  return !over;
}

/* Several objects may have one box, and be closed under one call. */
static GCudaReclaimResult
leave_later (GCudaReclaimNode *node)
{
  GCudaStreamBox *self = (gpointer) ((char *) node - G_STRUCT_OFFSET (GCudaStreamBox, leaving));
  /* Those that come after the look count on another one. */
  const gint leavers = g_atomic_int_get (&self->leavers);
  gboolean all;

  /* The call may last for as long as the GPU likes. */
  if (!_gcuda_hazard_is_free (self))
    return GCUDA_RECLAIM_BLOCKED;
  all = g_atomic_int_add (&self->leavers, -leavers) == leavers;
  _gcuda_stream_box_ref (self);
  for (gint i = 0; i < leavers; i++)
    _gcuda_stream_box_unuse (self);
  _gcuda_stream_box_unref (self);
  return all ? GCUDA_RECLAIM_DONE : GCUDA_RECLAIM_BLOCKED;
}

void
_gcuda_stream_box_leave (GCudaStreamBox *self)
{
  if (G_LIKELY (_gcuda_hazard_is_free (self)))
    _gcuda_stream_box_unuse (self);
  else if (g_atomic_int_add (&self->leavers, 1) == 0)
    _gcuda_reclaimer_push (&self->leaving, leave_later);
}

static GCudaReclaimResult
retry_waiter (GCudaReclaimNode *node)
{
  GCudaStreamWaiter *waiter = (GCudaStreamWaiter *) node;

  return waiter->passed (waiter);
}

/* What is left of the batch goes on in the next pass. */
static GCudaReclaimResult
drain_later (GCudaStreamBox *self)
{
  guint64 oldest = G_MAXUINT64;

  for (const GCudaStreamWaiter *waiter = self->batch; waiter != NULL; waiter = waiter->next)
    oldest = MIN (oldest, waiter->node.number);
  g_mutex_lock (&self->lock);
  self->oldest_batch = oldest;
  self->node.number = MIN (oldest, self->oldest_waiting);
  g_mutex_unlock (&self->lock);
  return GCUDA_RECLAIM_AGAIN;
}

/* One pass over a stream's queue, on the reclaimer's thread. */
static GCudaReclaimResult
drain (GCudaReclaimNode *node)
{
  GCudaStreamBox *self = (GCudaStreamBox *) node;
  GCudaReclaimResult answer = GCUDA_RECLAIM_AGAIN;
  gboolean passed = self->batch_passed, empty;
  guint n = 0;

  g_mutex_lock (&self->lock);
  if (self->batch == NULL)
    {
      self->batch = g_steal_pointer (&self->waiting);
      self->oldest_batch = self->oldest_waiting;
      self->oldest_waiting = G_MAXUINT64;
      self->waiting_end = &self->waiting;
    }
  /* The queue is as old as the oldest in it. */
  if (self->batch != NULL)
    self->node.number = MIN (self->oldest_batch, self->oldest_waiting);
  g_mutex_unlock (&self->lock);
  if (!passed && self->batch != NULL && self->event == NULL)
    {
      CUevent event = _gcuda_context_box_is_alive (self->context) ? _gcuda_context_box_take_event (self->context) : NULL;
      gboolean tainted = FALSE;

      if (event != NULL)
        switch (record (self, _gcuda_stream_box_handle_for (self, 0), event, &tainted))
          {
          case RECORDED:
            self->event = event;
            break;
          case RECORD_LATER:
            _gcuda_context_box_give_event (self->context, event, tainted);
            answer = GCUDA_RECLAIM_BLOCKED;
            break;
          case RECORD_NOTHING:
          default:
            _gcuda_context_box_give_event (self->context, event, FALSE);
            passed = TRUE;
            break;
          }
      else
        {
          passed = !_gcuda_context_box_is_alive (self->context);
          answer = GCUDA_RECLAIM_BLOCKED;
        }
    }
  if (self->event != NULL)
    {
      answer = ask_event (self->context, self->event);
      passed = answer == GCUDA_RECLAIM_DONE;
      if (passed)
        {
          _gcuda_context_box_give_event (self->context, self->event, FALSE);
          self->event = NULL;
        }
    }

  if (!passed && self->batch != NULL)
    return answer;

  /* The waiters' uses may be the last ones of this box: it must survive this function. */
  _gcuda_stream_box_ref (self);
  while (self->batch != NULL && n++ < DRAIN_LIMIT && !_gcuda_driver_exiting ())
    {
      GCudaStreamWaiter *waiter = self->batch;

      self->batch = waiter->next;
      _gcuda_reclaimer_inherit (waiter->node.number);
      if (waiter->passed (waiter) != GCUDA_RECLAIM_DONE)
        _gcuda_reclaimer_push (&waiter->node, retry_waiter);
    }
  self->batch_passed = self->batch != NULL;
  if (self->batch_passed)
    {
      answer = drain_later (self);
      _gcuda_stream_box_unref (self);
      return answer;
    }

  g_mutex_lock (&self->lock);
  empty = self->waiting == NULL;
  if (empty)
    self->queued = FALSE;
  else
    self->node.number = self->oldest_waiting;
  g_mutex_unlock (&self->lock);
  _gcuda_stream_box_unref (self);
  if (!empty)
    return GCUDA_RECLAIM_AGAIN;
  _gcuda_stream_box_unuse (self);
  return GCUDA_RECLAIM_DONE;
}

/* A waiter with an event of its own, recorded where it was released. */
static GCudaReclaimResult
check_own_event (GCudaReclaimNode *node)
{
  GCudaStreamWaiter *waiter = (GCudaStreamWaiter *) node;

  if (waiter->event != NULL)
    {
      GCudaReclaimResult answer = ask_event (waiter->box->context, waiter->event);

      if (answer != GCUDA_RECLAIM_DONE)
        return answer;
      _gcuda_context_box_give_event (waiter->box->context, waiter->event, FALSE);
      waiter->event = NULL;
    }
  return waiter->passed (waiter);
}

gboolean
_gcuda_stream_box_record (GCudaStreamBox *self,
                          CUevent event)
{
  gboolean tainted;

  return record (self, self->handle, event, &tainted) != RECORD_LATER;
}

void
_gcuda_stream_box_queue_event (GCudaStreamBox *self,
                               GCudaStreamWaiter *waiter,
                               CUevent event,
                               GCudaStreamWaiterFunc passed)
{
  waiter->box = self;
  waiter->passed = passed;
  waiter->next = NULL;
  waiter->event = event;
  _gcuda_reclaimer_push (&waiter->node, check_own_event);
}

void
_gcuda_stream_box_queue (GCudaStreamBox *self,
                         GCudaStreamWaiter *waiter,
                         guint64 owner_thread,
                         GCudaStreamWaiterFunc passed)
{
  gboolean first;

  waiter->box = self;
  waiter->passed = passed;
  waiter->next = NULL;
  waiter->event = NULL;
  waiter->node.number = _gcuda_reclaimer_number ();

  /* Another thread could only name a per-thread stream by way of the legacy one, a barrier for others; and a stream of others
   * without an owner may be gone any time after this: record it here. */
  if ((self->kind == GCUDA_STREAM_PER_THREAD && owner_thread == _gcuda_thread_id ()) || _gcuda_stream_box_is_ownerless (self))
    {
      GCudaTeardown teardown;

      if (_gcuda_teardown_enter (&teardown))
        {
          CUevent event = _gcuda_context_box_is_alive (self->context) ? _gcuda_context_box_take_event (self->context) : NULL;
          gboolean tainted = FALSE, recorded = FALSE;

          if (event != NULL)
            recorded = record (self, self->handle, event, &tainted) == RECORDED;
          if (recorded)
            waiter->event = event;
          else if (event != NULL)
            _gcuda_context_box_give_event (self->context, event, tainted);
          _gcuda_teardown_leave (&teardown);
        }
      if (waiter->event != NULL)
        {
          _gcuda_reclaimer_push (&waiter->node, check_own_event);
          return;
        }
    }

  g_mutex_lock (&self->lock);
  *self->waiting_end = waiter;
  self->waiting_end = &waiter->next;
  self->oldest_waiting = MIN (self->oldest_waiting, waiter->node.number);
  first = !self->queued;
  self->queued = TRUE;
  if (first)
    {
      /* The queue uses the stream as long as it is not empty; each waiter does so too, so this can't fail. Under the lock, so that
       * who asks for what was released finds it queued. */
      _gcuda_stream_box_use (self);
      _gcuda_reclaimer_push_as (&self->node, drain, self->oldest_waiting);
    }
  else
    _gcuda_reclaimer_note (waiter->node.number);
  g_mutex_unlock (&self->lock);
}
