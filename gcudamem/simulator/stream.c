/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "sim-private.h"

#define GREATEST_PRIORITY (-5)

SimStream *
sim_stream_new (SimContext *context, SimStreamKind kind, gboolean blocking, int priority)
{
  SimStream *stream = g_new0 (SimStream, 1);

  stream->refs = 1;
  stream->kind = kind;
  stream->context = context;
  stream->id = sim_next_id ();
  stream->blocking = blocking;
  stream->priority = CLAMP (priority, GREATEST_PRIORITY, 0);
  stream->capture_deps = g_ptr_array_new ();
  if (kind == SIM_STREAM_CREATED)
    stream->handle = sim_handle_new (SIM_HANDLE_STREAM, stream);
  else
    stream->handle = kind == SIM_STREAM_LEGACY ? CU_STREAM_LEGACY : CU_STREAM_PER_THREAD;
  g_ptr_array_add (context->streams, stream);
  return stream;
}

SimStream *
sim_stream_ref (SimStream *stream)
{
  stream->refs++;
  return stream;
}

void
sim_stream_unref (SimStream *stream)
{
  if (--stream->refs > 0)
    return;
  g_ptr_array_unref (stream->capture_deps);
  g_clear_pointer (&stream->capture_handles, g_array_unref);
  g_free (stream);
}

/* Nothing is pending any more. An ended stream stays in its context until
 * then: the legacy stream must still come after its work. */
void
sim_stream_idle (SimStream *stream)
{
  if (stream->ended && stream->last == NULL && stream->context->streams != NULL &&
      g_ptr_array_remove (stream->context->streams, stream))
    sim_stream_unref (stream);
}

/* Destroyed by the program, or with its context or thread. */
void
sim_stream_end (SimStream *stream)
{
  if (stream->ended)
    return;
  sim_stream_ref (stream);
  stream->ended = TRUE;
  sim_capture_stream_gone (stream);
  if (stream->kind == SIM_STREAM_CREATED)
    sim_handle_free (stream->handle);
  sim_stream_idle (stream);
  sim_stream_unref (stream);
}

static void
end_per_thread (gpointer data, gpointer user_data)
{
  SimContext *context = data;
  SimThread *thread = user_data;

  if (!context->alive)
    return;
  for (guint i = context->streams->len; i > 0; i--)
    {
      SimStream *stream = g_ptr_array_index (context->streams, i - 1);

      if (stream->kind == SIM_STREAM_PER_THREAD && stream->thread == thread->id)
        sim_stream_end (stream);
    }
}

void
sim_thread_ended (SimThread *thread)
{
  sim_contexts_foreach (end_per_thread, thread);
}

SimStream *
sim_stream_per_thread (SimContext *context)
{
  guint64 thread = sim_thread ()->id;
  SimStream *stream;

  for (guint i = 0; i < context->streams->len; i++)
    {
      stream = g_ptr_array_index (context->streams, i);
      if (stream->kind == SIM_STREAM_PER_THREAD && stream->thread == thread && !stream->ended)
        return stream;
    }
  stream = sim_stream_new (context, SIM_STREAM_PER_THREAD, TRUE, 0);
  stream->thread = thread;
  return stream;
}

/* The stream that a handle or token means. A default stream needs a current
 * context; a created one brings its own. */
CUresult
sim_stream_or_lost (CUstream handle, SimStream **stream)
{
  SimContext *context;
  gboolean dead;

  if (handle == NULL && sim_thread ()->per_thread)
    handle = CU_STREAM_PER_THREAD;
  if (handle == NULL || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
    {
      SIM_TRY (sim_current_or_lost (&context));
      *stream = handle == CU_STREAM_PER_THREAD ? sim_stream_per_thread (context) : context->legacy;
      return CUDA_SUCCESS;
    }
  *stream = sim_handle_get (handle, SIM_HANDLE_STREAM, &dead);
  if (*stream == NULL)
    sim_fatal ("%s on a %s stream %p", sim_this_function (), dead ? "destroyed" : "non-existent", (void *) handle);
  return CUDA_SUCCESS;
}

CUresult
sim_stream (CUstream handle, SimStream **stream)
{
  SIM_TRY (sim_stream_or_lost (handle, stream));
  return sim.lost;
}

/* Of the current context, for calls that take no stream. */
CUresult
sim_default_stream (SimStream **stream)
{
  return sim_stream (NULL, stream);
}

/* The operations, referenced, after which the stream's work so far is done. */
void
sim_stream_pending (SimStream *stream, GPtrArray *ops)
{
  SimContext *context = stream->context;

  if (stream->last != NULL)
    g_ptr_array_add (ops, sim_op_ref (stream->last));
  if (stream->kind != SIM_STREAM_LEGACY)
    return;
  for (guint i = 0; i < context->streams->len; i++)
    {
      SimStream *other = g_ptr_array_index (context->streams, i);

      if (other != stream && other->blocking && other->last != NULL)
        g_ptr_array_add (ops, sim_op_ref (other->last));
    }
}

/* Waits for the work so far. Gives the state of the context then. */
CUresult
sim_stream_wait (SimStream *stream)
{
  GPtrArray *ops = g_ptr_array_new_with_free_func ((GDestroyNotify) sim_op_unref);
  CUresult result;

  sim_stream_ref (stream);
  sim_stream_pending (stream, ops);
  sim_wait_all (ops);
  g_ptr_array_unref (ops);
  result = sim.lost;
  if (g_atomic_int_get (&sim.exited))
    result = CUDA_ERROR_DEINITIALIZED;
  sim_stream_unref (stream);
  return result;
}

static CUresult
stream_create (CUstream *phStream, unsigned int flags, int priority)
{
  SimContext *context;

  if (phStream == NULL || flags > CU_STREAM_NON_BLOCKING)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_current (&context));
  *phStream = sim_stream_new (context, SIM_STREAM_CREATED, flags == CU_STREAM_DEFAULT, priority)->handle;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuStreamCreate, 0, (CUstream *, phStream), (unsigned int, Flags))
{
  return stream_create (phStream, Flags, 0);
}

SIM_ENTRY (cuStreamCreateWithPriority, 0, (CUstream *, phStream), (unsigned int, flags), (int, priority))
{
  return stream_create (phStream, flags, priority);
}

static CUresult
stream_destroy (CUstream hStream)
{
  SimStream *stream;

  if (hStream == NULL || hStream == CU_STREAM_LEGACY || hStream == CU_STREAM_PER_THREAD)
    return CUDA_ERROR_INVALID_HANDLE;
  SIM_TRY (sim_stream_or_lost (hStream, &stream));
  /* The handle stays, as everything else does in a lost context. */
  if (sim.lost != CUDA_SUCCESS)
    return sim.lost;
  sim_stream_end (stream);
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuStreamDestroy, 0, (CUstream, hStream))
{
  return stream_destroy (hStream);
}

SIM_ENTRY (cuStreamDestroy_v2, 0, (CUstream, hStream))
{
  return stream_destroy (hStream);
}

/* What a query or synchronise of a stream must pass while streams capture. */
static CUresult
check_capture (SimStream *stream)
{
  SIM_TRY (sim_capture_check_implicit (stream, TRUE));
  if (stream->capture != NULL)
    {
      if (stream->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
      sim_capture_invalidate (stream->capture);
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
  return sim_capture_check_unsafe ();
}

SIM_ENTRY_SZ (cuStreamQuery, SIM_CALLBACK, (CUstream, hStream))
{
  SimStream *stream;
  GPtrArray *ops;
  gboolean busy;

  SIM_TRY (sim_stream (hStream, &stream));
  SIM_TRY (check_capture (stream));
  ops = g_ptr_array_new_with_free_func ((GDestroyNotify) sim_op_unref);
  sim_stream_pending (stream, ops);
  busy = ops->len > 0;
  for (guint i = 0; i < ops->len; i++)
    sim_queried (g_ptr_array_index (ops, i));
  g_ptr_array_unref (ops);
  return busy ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

SIM_ENTRY_SZ (cuStreamSynchronize, 0, (CUstream, hStream))
{
  SimStream *stream;
  CUresult result;

  SIM_TRY (sim_stream (hStream, &stream));
  SIM_TRY (check_capture (stream));
  sim_stream_ref (stream);
  stream->waiters++;
  result = sim_stream_wait (stream);
  stream->waiters--;
  sim_pools_synchronized (stream, stream->context);
  sim_stream_unref (stream);
  return result;
}

static CUresult
wait_event (SimStream *stream, SimEvent *event, unsigned int flags)
{
  SimWork work = { .kind = SIM_WORK_EMPTY };
  SimOp *op;

  if (flags & ~(unsigned int) CU_EVENT_WAIT_EXTERNAL)
    return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture != NULL || event->capture != 0)
    return sim_capture_wait (stream, event, (flags & CU_EVENT_WAIT_EXTERNAL) != 0);
  SIM_TRY (sim_capture_check_implicit (stream, TRUE));
  if (event->shared != NULL && sim_ipc_event_target (event) != 0)
    {
      work.kind = SIM_WORK_WAIT;
      work.event.event = sim_event_ref (event);
      work.event.number = sim_ipc_event_target (event);
    }
  else if (event->record == NULL)
    return CUDA_SUCCESS;
  op = sim_op_new (stream, &work);
  sim_op_after (op, event->record);
  sim_op_after_stream (op);
  sim_op_submit (op, TRUE);
  sim_op_unref (op);
  return CUDA_SUCCESS;
}

SIM_ENTRY_SZ (cuStreamWaitEvent, SIM_CALLBACK, (CUstream, hStream), (CUevent, hEvent), (unsigned int, Flags))
{
  SimStream *stream;
  SimEvent *event;

  SIM_TRY (sim_event (hEvent, &event));
  SIM_TRY (sim_stream (hStream, &stream));
  return wait_event (stream, event, Flags);
}

SIM_ENTRY_SZ (cuStreamAddCallback, SIM_CALLBACK, (CUstream, hStream), (CUstreamCallback, callback), (void *, userData), (unsigned int, flags))
{
  SimWork work = { .kind = SIM_WORK_CALLBACK };
  SimStream *stream;

  if (callback == NULL || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_stream (hStream, &stream));
  SIM_TRY (sim_capture_check_implicit (stream, TRUE));
  if (stream->capture != NULL)
    {
      sim_capture_invalidate (stream->capture);
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
  work.host.callback = callback;
  work.host.data = userData;
  work.host.stream = hStream;
  return sim_submit (stream, &work);
}

SIM_ENTRY_SZ (cuLaunchHostFunc, SIM_CALLBACK, (CUstream, hStream), (CUhostFn, fn), (void *, userData))
{
  SimWork work = { .kind = SIM_WORK_HOST };
  SimStream *stream;

  if (fn == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_stream (hStream, &stream));
  work.host.function = fn;
  work.host.data = userData;
  return sim_submit (stream, &work);
}

SIM_ENTRY_SZ (cuStreamGetPriority, 0, (CUstream, hStream), (int *, priority))
{
  SimStream *stream;

  if (priority == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_stream (hStream, &stream));
  *priority = stream->priority;
  return CUDA_SUCCESS;
}

SIM_ENTRY_SZ (cuStreamGetFlags, 0, (CUstream, hStream), (unsigned int *, flags))
{
  SimStream *stream;

  if (flags == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_stream (hStream, &stream));
  *flags = stream->kind == SIM_STREAM_CREATED && !stream->blocking ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;
  return CUDA_SUCCESS;
}

SIM_ENTRY_SZ (cuStreamGetId, 0, (CUstream, hStream), (unsigned long long *, streamId))
{
  SimStream *stream;

  if (streamId == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_stream (hStream, &stream));
  *streamId = stream->id;
  return CUDA_SUCCESS;
}

SIM_ENTRY_SZ (cuStreamGetDevice, 0, (CUstream, hStream), (CUdevice *, device))
{
  SimStream *stream;

  if (device == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_stream (hStream, &stream));
  *device = stream->context->device->ordinal;
  return CUDA_SUCCESS;
}

SIM_ENTRY_SZ (cuStreamGetCtx, 0, (CUstream, hStream), (CUcontext *, pctx))
{
  SimStream *stream;

  if (pctx == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_stream (hStream, &stream));
  *pctx = stream->context->handle;
  return CUDA_SUCCESS;
}

#if CUDA_VERSION >= 12050
SIM_ENTRY_SZ (cuStreamGetCtx_v2, 0, (CUstream, hStream), (CUcontext *, pCtx), (CUgreenCtx *, pGreenCtx))
{
  SimStream *stream;

  if (pCtx == NULL || pGreenCtx == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_stream (hStream, &stream));
  *pCtx = stream->context->handle;
  *pGreenCtx = NULL;
  return CUDA_SUCCESS;
}
#endif

SIM_ENTRY_SZ (cuStreamCopyAttributes, 0, (CUstream, dst), (CUstream, src))
{
  SimStream *to, *from;

  SIM_TRY (sim_stream (dst, &to));
  return sim_stream (src, &from);
}

SIM_ENTRY_SZ (cuStreamAttachMemAsync, SIM_CALLBACK, (CUstream, hStream), (CUdeviceptr, dptr), (size_t, length), (unsigned int, flags))
{
  SimWork work = { .kind = SIM_WORK_EMPTY };
  SimAllocation *allocation = sim_allocation_find (dptr);
  SimStream *stream;

  SIM_TRY (sim_stream (hStream, &stream));
  if (allocation == NULL || allocation->kind != SIM_ALLOCATION_MANAGED || (length != 0 && length != allocation->size) ||
      (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST && flags != CU_MEM_ATTACH_SINGLE))
    return CUDA_ERROR_INVALID_VALUE;
  allocation->attach = flags;
  return sim_submit (stream, &work);
}

static CUresult
write_value (CUstream handle, CUdeviceptr address, guint64 value, unsigned int flags, gboolean wide)
{
  SimWork work = { .kind = SIM_WORK_WRITE_VALUE };
  SimStream *stream;

  SIM_TRY (sim_stream (handle, &stream));
  if (address % (wide ? 8 : 4) != 0 || flags > CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_check_range (address, wide ? 8 : 4, TRUE, stream->context->device, FALSE));
  work.write.address = address;
  work.write.value = value;
  work.write.wide = wide;
  return sim_submit (stream, &work);
}

SIM_ENTRY_SZ (cuStreamWriteValue32_v2, 0, (CUstream, stream), (CUdeviceptr, addr), (cuuint32_t, value), (unsigned int, flags))
{
  return write_value (stream, addr, value, flags, FALSE);
}

SIM_ENTRY_SZ (cuStreamWriteValue64_v2, 0, (CUstream, stream), (CUdeviceptr, addr), (cuuint64_t, value), (unsigned int, flags))
{
  return write_value (stream, addr, value, flags, TRUE);
}

SIM_ENTRY_SZ (cuStreamWriteValue32, 0, (CUstream, stream), (CUdeviceptr, addr), (cuuint32_t, value), (unsigned int, flags))
{
  return write_value (stream, addr, value, flags, FALSE);
}

SIM_ENTRY_SZ (cuStreamWriteValue64, 0, (CUstream, stream), (CUdeviceptr, addr), (cuuint64_t, value), (unsigned int, flags))
{
  return write_value (stream, addr, value, flags, TRUE);
}
