/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "sim-private.h"

static guint n_gone; /* with their contexts */

CUresult
sim_event (CUevent handle, SimEvent **event)
{
  gboolean dead;

  *event = sim_handle_get (handle, SIM_HANDLE_EVENT, &dead);
  if (*event == NULL)
    {
      if (dead)
        sim_warn ("%s on a destroyed event %p", sim_this_function (), (void *) handle);
      return CUDA_ERROR_INVALID_HANDLE;
    }
  if ((*event)->context == NULL)
    sim_fatal ("%s on event %p, which went with its context: a driver dies in it", sim_this_function (), (void *) handle);
  return sim.lost;
}

SimEvent *
sim_event_ref (SimEvent *event)
{
  event->refs++;
  return event;
}

void
sim_event_unref (SimEvent *event)
{
  if (--event->refs > 0)
    return;
  g_clear_pointer (&event->record, sim_op_unref);
  g_clear_pointer (&event->capture_nodes, g_ptr_array_unref);
  sim_ipc_event_clear (event);
  g_free (event);
}

/* Its context is gone, and it with it. The handle stays, to be known. */
void
sim_event_forget (SimEvent *event)
{
  event->context = NULL;
  n_gone++;
}

guint
sim_events_alive (void)
{
  return sim_handle_count (SIM_HANDLE_EVENT) - n_gone;
}

/* EVENT now stands for OP. */
void
sim_event_recorded (SimEvent *event, SimOp *op)
{
  g_clear_pointer (&event->record, sim_op_unref);
  event->record = sim_op_ref (op);
  event->capture = 0;
  g_clear_pointer (&event->capture_nodes, g_ptr_array_unref);
}

SIM_ENTRY (cuEventCreate, 0, (CUevent *, phEvent), (unsigned int, Flags))
{
  SimContext *context;
  SimEvent *event;

  if (phEvent == NULL || (Flags & ~7u) || ((Flags & CU_EVENT_INTERPROCESS) && !(Flags & CU_EVENT_DISABLE_TIMING)))
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_current (&context));
  event = g_new0 (SimEvent, 1);
  event->refs = 1;
  event->context = context;
  event->flags = Flags;
  if (Flags & CU_EVENT_INTERPROCESS)
    {
      CUresult result = sim_ipc_event_init (event);

      if (result != CUDA_SUCCESS)
        {
          sim_event_unref (event);
          return result;
        }
    }
  event->handle = sim_handle_new (SIM_HANDLE_EVENT, event);
  g_hash_table_add (context->events, event);
  *phEvent = event->handle;
  return CUDA_SUCCESS;
}

static CUresult
event_destroy (CUevent hEvent)
{
  SimEvent *event;
  CUresult result = sim_event (hEvent, &event);

  if (event == NULL || result != CUDA_SUCCESS)
    return result;
  g_hash_table_remove (event->context->events, event);
  sim_handle_free (event->handle);
  event->handle = NULL;
  sim_event_unref (event);
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuEventDestroy, 0, (CUevent, hEvent))
{
  return event_destroy (hEvent);
}

SIM_ENTRY (cuEventDestroy_v2, 0, (CUevent, hEvent))
{
  return event_destroy (hEvent);
}

static CUresult
event_record (CUevent hEvent, CUstream hStream, unsigned int flags)
{
  SimWork work = { .kind = SIM_WORK_RECORD };
  SimStream *stream;
  SimEvent *event;
  SimOp *op;

  SIM_TRY (sim_event (hEvent, &event));
  SIM_TRY (sim_stream (hStream, &stream));
  if (flags & ~(unsigned int) CU_EVENT_RECORD_EXTERNAL)
    return CUDA_ERROR_INVALID_VALUE;
  if (event->context != stream->context)
    return CUDA_ERROR_INVALID_HANDLE;
  SIM_TRY (sim_capture_check_implicit (stream, TRUE));
  if (stream->capture != NULL)
    return sim_capture_record (stream, event, (flags & CU_EVENT_RECORD_EXTERNAL) != 0);
  if (flags & CU_EVENT_RECORD_EXTERNAL)
    return CUDA_ERROR_ILLEGAL_STATE;

  work.event.event = sim_event_ref (event);
  work.event.number = sim_ipc_event_recorded (event);
  op = sim_submit_op (stream, &work);
  sim_event_recorded (event, op);
  sim_op_unref (op);
  return CUDA_SUCCESS;
}

SIM_ENTRY_SZ (cuEventRecord, SIM_CALLBACK, (CUevent, hEvent), (CUstream, hStream))
{
  return event_record (hEvent, hStream, 0);
}

SIM_ENTRY_SZ (cuEventRecordWithFlags, SIM_CALLBACK, (CUevent, hEvent), (CUstream, hStream), (unsigned int, flags))
{
  return event_record (hEvent, hStream, flags);
}

/* An event last recorded into a capture cannot be asked; doing so breaks a
 * capture that is still going on. */
static CUresult
check_captured (SimEvent *event)
{
  SimCapture *capture;

  if (event->capture == 0)
    return CUDA_SUCCESS;
  if (!sim_capture_event_live (event, &capture))
    return CUDA_ERROR_INVALID_VALUE;
  sim_capture_invalidate (capture);
  return CUDA_ERROR_CAPTURED_EVENT;
}

SIM_ENTRY (cuEventQuery, SIM_CALLBACK, (CUevent, hEvent))
{
  SimEvent *event;

  SIM_TRY (sim_event (hEvent, &event));
  SIM_TRY (check_captured (event));
  SIM_TRY (sim_capture_check_unsafe ());
  if (event->shared != NULL && sim_op_done (event->record))
    return sim_ipc_event_target (event) == 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  if (sim_op_done (event->record))
    return CUDA_SUCCESS;
  sim_queried (event->record);
  return CUDA_ERROR_NOT_READY;
}

SIM_ENTRY (cuEventSynchronize, 0, (CUevent, hEvent))
{
  SimEvent *event;
  guint64 target;

  SIM_TRY (sim_event (hEvent, &event));
  SIM_TRY (check_captured (event));
  SIM_TRY (sim_capture_check_unsafe ());
  sim_event_ref (event);
  if (event->record != NULL)
    sim_op_wait (event->record);
  target = sim_ipc_event_target (event);
  while (target != 0 && !sim_ipc_event_reached (event, target) && !g_atomic_int_get (&sim.exited))
    {
      /* Recorded by another process. */
      pthread_mutex_unlock (&sim.lock);
      g_usleep (200);
      pthread_mutex_lock (&sim.lock);
    }
  if (event->record != NULL)
    sim_pools_synchronized (event->record->stream, event->record->context);
  sim_event_unref (event);
  return g_atomic_int_get (&sim.exited) ? CUDA_ERROR_DEINITIALIZED : sim.lost;
}

static CUresult
elapsed_time (float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
  SimEvent *start, *end;

  if (pMilliseconds == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_event (hStart, &start));
  SIM_TRY (sim_event (hEnd, &end));
  if (start->context != end->context)
    return CUDA_ERROR_INVALID_HANDLE;
  if (start->capture != 0 || end->capture != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) || start->record == NULL || end->record == NULL)
    return CUDA_ERROR_INVALID_HANDLE;
  if (!sim_op_done (start->record) || !sim_op_done (end->record))
    {
      sim_queried (start->record);
      sim_queried (end->record);
      return CUDA_ERROR_NOT_READY;
    }
  *pMilliseconds = (float) ((double) (end->record->time - start->record->time) / 1e6);
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuEventElapsedTime, 0, (float *, pMilliseconds), (CUevent, hStart), (CUevent, hEnd))
{
  return elapsed_time (pMilliseconds, hStart, hEnd);
}

SIM_ENTRY (cuEventElapsedTime_v2, 0, (float *, pMilliseconds), (CUevent, hStart), (CUevent, hEnd))
{
  return elapsed_time (pMilliseconds, hStart, hEnd);
}
