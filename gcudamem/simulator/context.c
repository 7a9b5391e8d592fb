/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Contexts, and each thread's stack of them. */

#include "sim-private.h"
#include "gcudasim.h"

#define ALLOWED_FLAGS 0xffu
#define N_LIMITS      7

/* All that ever were: operations and other threads' stacks may still point at one. */
static GPtrArray *contexts;

void
sim_contexts_foreach (GFunc function, gpointer data)
{
  if (contexts != NULL)
    g_ptr_array_foreach (contexts, function, data);
}

guint
sim_contexts_alive (void)
{
  guint n = 0;

  for (guint i = 0; contexts != NULL && i < contexts->len; i++)
    n += ((SimContext *) g_ptr_array_index (contexts, i))->alive;
  return n;
}

static SimContext *
context_new (SimDevice *device, gboolean primary)
{
  SimContext *context = g_new0 (SimContext, 1);

  context->device = device;
  context->primary = primary;
  context->handle = sim_handle_new (SIM_HANDLE_CONTEXT, context);
  if (contexts == NULL)
    contexts = g_ptr_array_new ();
  g_ptr_array_add (contexts, context);
  return context;
}

SimContext *
sim_primary_new (SimDevice *device)
{
  return context_new (device, TRUE);
}

static void
context_start (SimContext *context, unsigned int flags)
{
  static const guint64 limits[N_LIMITS] = { 1024, 8650752, 8388608, 2, 2048, 128, 0 };

  context->id = sim_next_id ();
  context->alive = TRUE;
  context->flags = flags | CU_CTX_MAP_HOST;
  context->version = 3020;
  context->cache_config = 0;
  memcpy (context->limits, limits, sizeof limits);
  context->streams = g_ptr_array_new ();
  context->events = g_hash_table_new (NULL, NULL);
  context->peers = g_hash_table_new (NULL, NULL);
  context->heap = sim_heap_new (context->device, SIM_MIB (2), FALSE, NULL);
  context->legacy = sim_stream_new (context, SIM_STREAM_LEGACY, TRUE, 0);
}

static void
collect_owned (SimAllocation *allocation, gpointer data)
{
  GPtrArray *owned = ((gpointer *) data)[0];
  SimContext *context = ((gpointer *) data)[1];

  if (allocation->context == context && allocation->context_id == context->id && allocation->kind != SIM_ALLOCATION_POOL)
    g_ptr_array_add (owned, allocation);
}

/* Blocks until the context's work is done; then all that it owned is gone. */
static void
context_stop (SimContext *context)
{
  GPtrArray *owned = g_ptr_array_new ();
  gpointer data[2] = { owned, context };
  guint64 id = context->id;
  GHashTableIter iter;
  gpointer event;

  sim_context_wait (context);
  if (!context->alive || context->id != id)
    {
      g_ptr_array_unref (owned);
      return;
    }
  context->alive = FALSE;

  g_hash_table_iter_init (&iter, context->events);
  while (g_hash_table_iter_next (&iter, &event, NULL))
    sim_event_forget (event);
  g_hash_table_unref (context->events);
  context->events = NULL;

  while (context->streams->len > 0)
    {
      SimStream *stream = g_ptr_array_index (context->streams, context->streams->len - 1);

      sim_stream_end (stream);
      if (context->streams->len > 0 && g_ptr_array_index (context->streams, context->streams->len - 1) == stream)
        {
          /* Only with the process exiting: its work was not waited for. */
          g_ptr_array_remove_index (context->streams, context->streams->len - 1);
        }
    }
  g_ptr_array_unref (context->streams);
  context->streams = NULL;
  context->legacy = NULL;

  sim_allocations_foreach (collect_owned, data);
  for (guint i = 0; i < owned->len; i++)
    sim_allocation_remove (g_ptr_array_index (owned, i));
  g_ptr_array_unref (owned);

  g_hash_table_unref (context->peers);
  context->peers = NULL;
  sim_heap_free (context->heap);
  context->heap = NULL;
}

CUcontext
sim_current_handle (SimThread *thread)
{
  if (thread->depth == 0)
    return NULL;
  return thread->stack[thread->depth - 1].handle;
}

static SimContext *
live_context (CUcontext handle, guint64 id)
{
  SimContext *context = sim_handle_get (handle, SIM_HANDLE_CONTEXT, NULL);

  if (context == NULL || !context->alive || (id != 0 && !context->primary && context->id != id))
    return NULL;
  return context;
}

CUresult
sim_current_or_lost (SimContext **context)
{
  SimThread *thread = sim_thread ();
  SimStackEntry *top;

  if (thread->depth == 0)
    return CUDA_ERROR_INVALID_CONTEXT;
  top = &thread->stack[thread->depth - 1];
  *context = live_context (top->handle, top->id);
  return *context != NULL ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult
sim_current (SimContext **context)
{
  SIM_TRY (sim_current_or_lost (context));
  return sim.lost;
}

/* A context given by the program; NULL is the current one. */
CUresult
sim_context (CUcontext handle, SimContext **context)
{
  gboolean dead;

  if (handle == NULL)
    return sim_current_or_lost (context);
  *context = live_context (handle, 0);
  if (*context != NULL)
    return CUDA_SUCCESS;
  return sim_handle_get (handle, SIM_HANDLE_CONTEXT, &dead) != NULL || dead ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_CONTEXT;
}

void
sim_context_pending (SimContext *context, GPtrArray *ops)
{
  for (guint i = 0; context->alive && i < context->streams->len; i++)
    {
      SimStream *stream = g_ptr_array_index (context->streams, i);

      if (stream->last != NULL)
        g_ptr_array_add (ops, sim_op_ref (stream->last));
    }
}

void
sim_context_wait (SimContext *context)
{
  GPtrArray *ops = g_ptr_array_new_with_free_func ((GDestroyNotify) sim_op_unref);

  sim_context_pending (context, ops);
  sim_wait_all (ops);
  g_ptr_array_unref (ops);
}

/* All contexts' work on the device; NULL: on every one. */
void
sim_device_wait (SimDevice *device)
{
  GPtrArray *ops = g_ptr_array_new_with_free_func ((GDestroyNotify) sim_op_unref);

  for (guint i = 0; contexts != NULL && i < contexts->len; i++)
    {
      SimContext *context = g_ptr_array_index (contexts, i);

      if (device == NULL || context->device == device)
        sim_context_pending (context, ops);
    }
  sim_wait_all (ops);
  g_ptr_array_unref (ops);
}

void
sim_context_lose (SimContext *context, CUresult why)
{
  if (sim.lost != CUDA_SUCCESS)
    return;
  sim.lost = why;
  sim_warn ("context %p, and so every one of this process, is lost: %s", (void *) context->handle, sim_result_name (why));
}

SIM_EXPORT int
gcudasim_lose_context (CUcontext handle)
{
  SimContext *context;

  pthread_mutex_lock (&sim.lock);
  context = live_context (handle, 0);
  if (context != NULL)
    sim_context_lose (context, CUDA_ERROR_ILLEGAL_ADDRESS);
  pthread_mutex_unlock (&sim.lock);
  return context != NULL;
}

/* ---- primary contexts ---- */

SIM_ENTRY (cuDevicePrimaryCtxRetain, 0, (CUcontext *, pctx), (CUdevice, dev))
{
  SimDevice *device = sim_device (dev);

  if (pctx == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  if (device == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  if (!device->primary->alive)
    {
      SIM_TRY (sim.lost);
      context_start (device->primary, device->primary_flags);
    }
  device->primary->retained++;
  *pctx = device->primary->handle;
  return CUDA_SUCCESS;
}

static CUresult
primary_release (CUdevice dev)
{
  SimDevice *device = sim_device (dev);

  if (device == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  if (!device->primary->alive || device->primary->retained == 0)
    return CUDA_ERROR_INVALID_CONTEXT;
  if (--device->primary->retained == 0)
    context_stop (device->primary);
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuDevicePrimaryCtxRelease, 0, (CUdevice, dev))
{
  return primary_release (dev);
}

SIM_ENTRY (cuDevicePrimaryCtxRelease_v2, 0, (CUdevice, dev))
{
  return primary_release (dev);
}

static CUresult
primary_reset (CUdevice dev)
{
  SimDevice *device = sim_device (dev);

  if (device == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  if (device->primary->alive)
    {
      device->primary->retained = 0;
      context_stop (device->primary);
    }
  device->primary_flags = 0;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuDevicePrimaryCtxReset, 0, (CUdevice, dev))
{
  return primary_reset (dev);
}

SIM_ENTRY (cuDevicePrimaryCtxReset_v2, 0, (CUdevice, dev))
{
  return primary_reset (dev);
}

static CUresult
primary_set_flags (CUdevice dev, unsigned int flags)
{
  SimDevice *device = sim_device (dev);

  if (device == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  if (flags & ~ALLOWED_FLAGS)
    return CUDA_ERROR_INVALID_VALUE;
  device->primary_flags = flags;
  if (device->primary->alive)
    device->primary->flags = flags | CU_CTX_MAP_HOST;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuDevicePrimaryCtxSetFlags, 0, (CUdevice, dev), (unsigned int, flags))
{
  return primary_set_flags (dev, flags);
}

SIM_ENTRY (cuDevicePrimaryCtxSetFlags_v2, 0, (CUdevice, dev), (unsigned int, flags))
{
  return primary_set_flags (dev, flags);
}

SIM_ENTRY (cuDevicePrimaryCtxGetState, 0, (CUdevice, dev), (unsigned int *, flags), (int *, active))
{
  SimDevice *device = sim_device (dev);

  if (flags == NULL || active == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  if (device == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  *flags = device->primary->alive ? device->primary->flags & ~(unsigned int) CU_CTX_MAP_HOST : device->primary_flags;
  *active = device->primary->alive;
  return CUDA_SUCCESS;
}

/* ---- created contexts ---- */

static void
push (SimContext *context)
{
  SimThread *thread = sim_thread ();

  if (thread->depth == thread->room)
    {
      thread->room = MAX (8, thread->room * 2);
      thread->stack = g_renew (SimStackEntry, thread->stack, thread->room);
    }
  thread->stack[thread->depth].handle = context->handle;
  thread->stack[thread->depth++].id = context->id;
}

static CUresult
context_create (CUcontext *pctx, unsigned int flags, CUdevice dev)
{
  SimDevice *device = sim_device (dev);
  SimContext *context;

  if (pctx == NULL || (flags & ~ALLOWED_FLAGS))
    return CUDA_ERROR_INVALID_VALUE;
  if (device == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  SIM_TRY (sim.lost);
  context = context_new (device, FALSE);
  context_start (context, flags);
  push (context);
  *pctx = context->handle;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuCtxCreate, 0, (CUcontext *, pctx), (unsigned int, flags), (CUdevice, dev))
{
  return context_create (pctx, flags, dev);
}

SIM_ENTRY (cuCtxCreate_v2, 0, (CUcontext *, pctx), (unsigned int, flags), (CUdevice, dev))
{
  return context_create (pctx, flags, dev);
}

SIM_ENTRY (cuCtxCreate_v3, 0, (CUcontext *, pctx), (CUexecAffinityParam *, paramsArray), (int, numParams), (unsigned int, flags), (CUdevice, dev))
{
  if (numParams < 0 || (numParams > 0 && paramsArray == NULL))
    return CUDA_ERROR_INVALID_VALUE;
  if (numParams > 0)
    return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  return context_create (pctx, flags, dev);
}

SIM_ENTRY (cuCtxCreate_v4, 0, (CUcontext *, pctx), (CUctxCreateParams *, ctxCreateParams), (unsigned int, flags), (CUdevice, dev))
{
#if CUDA_VERSION >= 12050
  if (ctxCreateParams != NULL && (ctxCreateParams->execAffinityParams != NULL || ctxCreateParams->cigParams != NULL))
    return CUDA_ERROR_NOT_SUPPORTED;
#else
  (void) ctxCreateParams;
#endif
  return context_create (pctx, flags, dev);
}

static CUresult
context_destroy (CUcontext handle)
{
  SimContext *context = live_context (handle, 0);
  SimThread *thread = sim_thread ();
  gboolean dead;

  if (handle == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  if (context == NULL)
    return sim_handle_get (handle, SIM_HANDLE_CONTEXT, &dead) != NULL || dead ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_CONTEXT;
  if (context->primary)
    return CUDA_ERROR_INVALID_CONTEXT;

  context_stop (context);
  sim_handle_free (context->handle);
  /* Off this thread's stack if on top; other threads find out at their next call. */
  if (thread->depth > 0 && sim_current_handle (thread) == handle)
    thread->depth--;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuCtxDestroy, 0, (CUcontext, ctx))
{
  return context_destroy (ctx);
}

SIM_ENTRY (cuCtxDestroy_v2, 0, (CUcontext, ctx))
{
  return context_destroy (ctx);
}

/* ---- the stack ---- */

static CUresult
push_current (CUcontext ctx)
{
  SimContext *context;

  if (ctx == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_context (ctx, &context));
  push (context);
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuCtxPushCurrent, 0, (CUcontext, ctx))
{
  return push_current (ctx);
}

SIM_ENTRY (cuCtxPushCurrent_v2, 0, (CUcontext, ctx))
{
  return push_current (ctx);
}

static CUresult
pop_current (CUcontext *pctx)
{
  SimThread *thread = sim_thread ();

  if (thread->depth == 0)
    return CUDA_ERROR_INVALID_CONTEXT;
  if (pctx != NULL)
    *pctx = sim_current_handle (thread);
  thread->depth--;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuCtxPopCurrent, 0, (CUcontext *, pctx))
{
  return pop_current (pctx);
}

SIM_ENTRY (cuCtxPopCurrent_v2, 0, (CUcontext *, pctx))
{
  return pop_current (pctx);
}

SIM_ENTRY (cuCtxSetCurrent, 0, (CUcontext, ctx))
{
  SimThread *thread = sim_thread ();
  SimContext *context;

  /* NULL pops; another replaces the top. */
  if (ctx == NULL)
    {
      if (thread->depth > 0)
        thread->depth--;
      return CUDA_SUCCESS;
    }
  SIM_TRY (sim_context (ctx, &context));
  if (thread->depth > 0)
    thread->depth--;
  push (context);
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuCtxGetCurrent, 0, (CUcontext *, pctx))
{
  if (pctx == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  *pctx = sim_current_handle (sim_thread ());
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuCtxAttach, 0, (CUcontext *, pctx), (unsigned int, flags))
{
  SimContext *context;

  if (pctx == NULL || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_current (&context));
  *pctx = context->handle;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuCtxDetach, 0, (CUcontext, ctx))
{
  SimContext *context;

  if (ctx == NULL)
    return CUDA_ERROR_INVALID_CONTEXT;
  return sim_context (ctx, &context);
}

/* ---- queries and settings ---- */

static CUresult
get_device (CUdevice *device, CUcontext ctx)
{
  SimContext *context;

  if (device == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_context (ctx, &context));
  *device = context->device->ordinal;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuCtxGetDevice, 0, (CUdevice *, device))
{
  return get_device (device, NULL);
}

SIM_ENTRY (cuCtxGetDevice_v2, 0, (CUdevice *, device), (CUcontext, ctx))
{
  return get_device (device, ctx);
}

SIM_ENTRY (cuCtxGetId, 0, (CUcontext, ctx), (unsigned long long *, ctxId))
{
  SimContext *context;

  if (ctxId == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_context (ctx, &context));
  *ctxId = context->id;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuCtxGetFlags, 0, (unsigned int *, flags))
{
  SimContext *context;

  if (flags == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_current (&context));
  *flags = context->flags;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuCtxSetFlags, 0, (unsigned int, flags))
{
  SimContext *context;

  SIM_TRY (sim_current (&context));
  if (flags & ~ALLOWED_FLAGS)
    return CUDA_ERROR_INVALID_VALUE;
  context->flags = flags | CU_CTX_MAP_HOST;
  return CUDA_SUCCESS;
}

static CUresult
context_synchronize (CUcontext ctx)
{
  SimContext *context;
  guint64 id;

  SIM_TRY (sim_context (ctx, &context));
  if (sim.lost != CUDA_SUCCESS)
    return sim.lost;
  for (guint i = 0; i < context->streams->len; i++)
    {
      SimStream *stream = g_ptr_array_index (context->streams, i);

      if (stream->capture != NULL && !stream->capture->invalid)
        {
          sim_capture_invalidate (stream->capture);
          return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
  id = context->id;
  sim_context_wait (context);
  sim_pools_synchronized (NULL, context);
  return context->id == id ? sim.lost : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

SIM_ENTRY0 (cuCtxSynchronize, SIM_UNSAFE)
{
  return context_synchronize (NULL);
}

SIM_ENTRY (cuCtxSynchronize_v2, SIM_UNSAFE, (CUcontext, ctx))
{
  return context_synchronize (ctx);
}

SIM_ENTRY (cuCtxSetLimit, 0, (CUlimit, limit), (size_t, value))
{
  SimContext *context;

  SIM_TRY (sim_current (&context));
  if ((guint) limit >= N_LIMITS)
    return CUDA_ERROR_INVALID_VALUE;
  context->limits[limit] = value;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuCtxGetLimit, 0, (size_t *, pvalue), (CUlimit, limit))
{
  SimContext *context;

  if (pvalue == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_current (&context));
  if ((guint) limit >= N_LIMITS)
    return CUDA_ERROR_INVALID_VALUE;
  *pvalue = context->limits[limit];
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuCtxGetCacheConfig, 0, (CUfunc_cache *, pconfig))
{
  SimContext *context;

  if (pconfig == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_current (&context));
  *pconfig = (CUfunc_cache) context->cache_config;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuCtxSetCacheConfig, 0, (CUfunc_cache, config))
{
  SimContext *context;

  SIM_TRY (sim_current (&context));
  if ((guint) config > CU_FUNC_CACHE_PREFER_EQUAL)
    return CUDA_ERROR_INVALID_VALUE;
  context->cache_config = (int) config;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuCtxGetSharedMemConfig, 0, (CUsharedconfig *, pConfig))
{
  SimContext *context;

  if (pConfig == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_current (&context));
  *pConfig = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuCtxSetSharedMemConfig, 0, (CUsharedconfig, config))
{
  SimContext *context;

  (void) config;
  return sim_current (&context);
}

SIM_ENTRY (cuCtxGetApiVersion, 0, (CUcontext, ctx), (unsigned int *, version))
{
  SimContext *context;

  if (version == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_context (ctx, &context));
  *version = context->version;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuCtxGetStreamPriorityRange, 0, (int *, leastPriority), (int *, greatestPriority))
{
  SimContext *context;

  SIM_TRY (sim_current (&context));
  if (leastPriority != NULL)
    *leastPriority = 0;
  if (greatestPriority != NULL)
    *greatestPriority = -5;
  return CUDA_SUCCESS;
}

SIM_ENTRY0 (cuCtxResetPersistingL2Cache, 0)
{
  SimContext *context;

  return sim_current (&context);
}

SIM_ENTRY (cuCtxGetExecAffinity, 0, (CUexecAffinityParam *, pExecAffinity), (CUexecAffinityType, type))
{
  SimContext *context;

  (void) type;
  if (pExecAffinity == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_current (&context));
  return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
}

/* The event stands for all work of the context so far. */
SIM_ENTRY (cuCtxRecordEvent, 0, (CUcontext, hCtx), (CUevent, hEvent))
{
  SimWork work = { .kind = SIM_WORK_RECORD };
  SimContext *context;
  SimEvent *event;
  SimOp *op;

  SIM_TRY (sim_event (hEvent, &event));
  SIM_TRY (sim_context (hCtx, &context));
  if (event->context != context)
    return CUDA_ERROR_INVALID_HANDLE;
  work.event.event = sim_event_ref (event);
  op = sim_op_new (context->legacy, &work);
  for (guint i = 0; i < context->streams->len; i++)
    sim_op_after (op, ((SimStream *) g_ptr_array_index (context->streams, i))->last);
  sim_event_recorded (event, op);
  sim_op_submit (op, FALSE);
  sim_op_unref (op);
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuCtxWaitEvent, 0, (CUcontext, hCtx), (CUevent, hEvent))
{
  SimContext *context;
  SimEvent *event;

  SIM_TRY (sim_event (hEvent, &event));
  SIM_TRY (sim_context (hCtx, &context));
  for (guint i = 0; i < context->streams->len; i++)
    {
      SimWork work = { .kind = SIM_WORK_EMPTY };
      SimStream *stream = g_ptr_array_index (context->streams, i);
      SimOp *op;

      if (event->record == NULL || stream->ended)
        continue;
      op = sim_op_new (stream, &work);
      sim_op_after (op, event->record);
      sim_op_after_stream (op);
      sim_op_submit (op, TRUE);
      sim_op_unref (op);
    }
  return CUDA_SUCCESS;
}

/* ---- peers ---- */

SIM_ENTRY (cuCtxEnablePeerAccess, 0, (CUcontext, peerContext), (unsigned int, Flags))
{
  SimContext *context, *peer;

  SIM_TRY (sim_current (&context));
  if (peerContext == NULL)
    return CUDA_ERROR_INVALID_CONTEXT;
  if (Flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_context (peerContext, &peer));
  if (peer->device == context->device)
    return CUDA_ERROR_INVALID_DEVICE;
  if (!sim.peer_access)
    return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  if (!g_hash_table_add (context->peers, peer))
    return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuCtxDisablePeerAccess, 0, (CUcontext, peerContext))
{
  SimContext *context, *peer;

  SIM_TRY (sim_current (&context));
  if (peerContext == NULL)
    return CUDA_ERROR_INVALID_CONTEXT;
  SIM_TRY (sim_context (peerContext, &peer));
  if (!g_hash_table_remove (context->peers, peer))
    return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  return CUDA_SUCCESS;
}
