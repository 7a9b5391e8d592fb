/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-stream-private.h"

/**
 * GCudaStream:
 *
 * A CUDA stream: a queue of work, done in order.
 *
 * A stream belongs to one context for good. That holds for the two default streams too: each object for one is bound to
 * the context that it was made for, whatever context is current where it is used.
 *
 * Closing the stream, or dropping its last reference, ends this object and waits for nothing. The driver's stream goes on
 * until its work is done and until no buffer names it in its deallocation recipe any more. A closed stream answers
 * `CLOSED` everywhere.
 *
 * All methods may be called from any thread. For a per-thread default stream each call means the stream of the thread that
 * makes it.
 *
 * Since: 0.1
 */
G_DEFINE_TYPE (GCudaStream, gcuda_stream, G_TYPE_OBJECT)

enum
{
  PROP_0,
  PROP_CONTEXT,
  PROP_DEVICE,
  PROP_HANDLE,
  PROP_PRIORITY,
  PROP_BLOCKING,
  PROP_LEGACY_DEFAULT,
  PROP_PER_THREAD_DEFAULT,
  PROP_CLOSED,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

/* Gives the use of the driver's stream back, once. */
static gboolean
end (GCudaStream *self)
{
  if (self->box == NULL || !g_atomic_int_compare_and_exchange (&self->closed, FALSE, TRUE))
    return FALSE;
  if (GCUDA_STREAM_GET_CLASS (self)->ending != NULL)
    GCUDA_STREAM_GET_CLASS (self)->ending (self);
  _gcuda_stream_box_leave (self->box);
  return TRUE;
}

static void
gcuda_stream_dispose (GObject *object)
{
  end (GCUDA_STREAM (object));

  G_OBJECT_CLASS (gcuda_stream_parent_class)->dispose (object);
}

static void
gcuda_stream_finalize (GObject *object)
{
  GCudaStream *self = GCUDA_STREAM (object);

  g_clear_pointer (&self->box, _gcuda_stream_box_unref);
  g_clear_object (&self->context);

  G_OBJECT_CLASS (gcuda_stream_parent_class)->finalize (object);
}

static void
gcuda_stream_get_property (GObject *object,
                           guint id,
                           GValue *value,
                           GParamSpec *pspec)
{
  GCudaStream *self = GCUDA_STREAM (object);

  switch (id)
    {
    case PROP_CONTEXT:
      g_value_set_object (value, self->context);
      break;
    case PROP_DEVICE:
      g_value_set_object (value, gcuda_stream_get_device (self));
      break;
    case PROP_HANDLE:
      g_value_set_uint64 (value, gcuda_stream_get_handle (self));
      break;
    case PROP_PRIORITY:
      g_value_set_int (value, self->priority);
      break;
    case PROP_BLOCKING:
      g_value_set_boolean (value, self->blocking);
      break;
    case PROP_LEGACY_DEFAULT:
      g_value_set_boolean (value, gcuda_stream_is_legacy_default (self));
      break;
    case PROP_PER_THREAD_DEFAULT:
      g_value_set_boolean (value, gcuda_stream_is_per_thread_default (self));
      break;
    case PROP_CLOSED:
      g_value_set_boolean (value, gcuda_stream_is_closed (self));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gcuda_stream_class_init (GCudaStreamClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;

  klass->closed = "the stream is closed";
  object_class->dispose = gcuda_stream_dispose;
  object_class->finalize = gcuda_stream_finalize;
  object_class->get_property = gcuda_stream_get_property;

  /**
   * GCudaStream:context: (getter get_context)
   *
   * The context that the stream is bound to.
   *
   * Since: 0.1
   */
  properties[PROP_CONTEXT] = g_param_spec_object ("context", NULL, NULL, GCUDA_TYPE_CONTEXT, flags);

  /**
   * GCudaStream:device: (getter get_device)
   *
   * The device that the stream's work runs on.
   *
   * Since: 0.1
   */
  properties[PROP_DEVICE] = g_param_spec_object ("device", NULL, NULL, GCUDA_TYPE_DEVICE, flags);

  /**
   * GCudaStream:handle: (getter get_handle)
   *
   * The `CUstream`, as a number; 0 when closed.
   *
   * Since: 0.1
   */
  properties[PROP_HANDLE] = g_param_spec_uint64 ("handle", NULL, NULL, 0, G_MAXUINT64, 0, flags);

  /**
   * GCudaStream:priority: (getter get_priority)
   *
   * The stream's priority, as the driver counts: lower numbers go first.
   *
   * Since: 0.1
   */
  properties[PROP_PRIORITY] = g_param_spec_int ("priority", NULL, NULL, G_MININT, G_MAXINT, 0, flags);

  /**
   * GCudaStream:blocking: (getter is_blocking)
   *
   * Whether the stream and the legacy default stream wait for each other.
   *
   * Since: 0.1
   */
  properties[PROP_BLOCKING] = g_param_spec_boolean ("blocking", NULL, NULL, FALSE, flags);

  /**
   * GCudaStream:legacy: (getter is_legacy_default)
   *
   * Whether this is the legacy default stream of its context.
   *
   * Since: 0.1
   */
  properties[PROP_LEGACY_DEFAULT] = g_param_spec_boolean ("legacy", NULL, NULL, FALSE, flags);

  /**
   * GCudaStream:per-thread: (getter is_per_thread_default)
   *
   * Whether this is the per-thread default stream of its context.
   *
   * Since: 0.1
   */
  properties[PROP_PER_THREAD_DEFAULT] = g_param_spec_boolean ("per-thread", NULL, NULL, FALSE, flags);

  /**
   * GCudaStream:closed: (getter is_closed)
   *
   * Whether the stream was closed.
   *
   * Since: 0.1
   */
  properties[PROP_CLOSED] = g_param_spec_boolean ("closed", NULL, NULL, TRUE, flags);

  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
gcuda_stream_init (GCudaStream *self)
{
}

/* Calls */

static inline gboolean
is_over (GCudaStream *self)
{
  return g_atomic_int_get (&self->closed) || G_UNLIKELY (self->over != NULL && g_atomic_int_get (self->over));
}

static GCudaStreamBox *
fail_closed (GCudaStream *self,
             const char *what,
             GError **error)
{
  _gcuda_fail (error, GCUDA_ERROR_CLOSED, "%s: %s", what, GCUDA_STREAM_GET_CLASS (self)->closed);
  return NULL;
}

/* The box, before it is in use. */
static inline GCudaStreamBox *
look (GCudaStream *self,
      const char *what,
      GError **error)
{
  if (G_UNLIKELY (!GCUDA_IS_STREAM (self)))
    {
      _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: no stream was given", what);
      return NULL;
    }
  if (!_gcuda_driver_check (error))
    return NULL;
  return G_LIKELY (self->box != NULL) ? self->box : fail_closed (self, what, error);
}

GCudaStreamBox *
_gcuda_stream_hold_unchecked (GCudaStream *self,
                              const char *what,
                              GError **error)
{
  GCudaStreamBox *box = look (self, what, error);

  if (G_UNLIKELY (box == NULL))
    return NULL;
  if (!_gcuda_stream_box_use (box))
    return fail_closed (self, what, error);
  /* After the use was taken: recipes may keep the driver's stream of a stream that is closed. */
  if (G_LIKELY (!is_over (self)))
    return box;
  _gcuda_stream_box_unuse (box);
  return fail_closed (self, what, error);
}

GCudaStreamBox *
_gcuda_stream_hold (GCudaStream *self,
                    const char *what,
                    GError **error)
{
  GCudaStreamBox *box = _gcuda_stream_hold_unchecked (self, what, error);

  if (G_UNLIKELY (box == NULL) || G_LIKELY (_gcuda_context_box_check (box->context, error)))
    return box;
  g_prefix_error (error, "%s: ", what);
  _gcuda_stream_box_unuse (box);
  return NULL;
}

GCudaStreamBox *
_gcuda_stream_note (GCudaStream *self,
                    const char *what,
                    gconstpointer **noted,
                    GError **error)
{
  GCudaStreamBox *box = look (self, what, error);

  if (G_UNLIKELY (box == NULL))
    return NULL;
  *noted = _gcuda_hazard_note (box);
  if (G_UNLIKELY (*noted == NULL) && !_gcuda_stream_box_use (box))
    return fail_closed (self, what, error);
  if (G_LIKELY (!is_over (self)))
    return box;
  _gcuda_stream_drop (box, *noted);
  return fail_closed (self, what, error);
}

gboolean
_gcuda_stream_call_begin (GCudaStreamCall *call,
                          GCudaStream *stream,
                          const char *what,
                          GError **error)
{
  gconstpointer *noted;
  GCudaStreamBox *box = _gcuda_stream_note (stream, what, &noted, error);
  CUresult result;

  if (G_UNLIKELY (box == NULL))
    return FALSE;
  if (G_UNLIKELY (!_gcuda_context_box_check (box->context, error)))
    {
      g_prefix_error (error, "%s: ", what);
      _gcuda_stream_drop (box, noted);
      return FALSE;
    }
  _gcuda_stream_call_init (call, box, noted);
  if (!_gcuda_stream_box_is_default (box))
    return TRUE;
  result = _gcuda_context_scope_enter (&call->scope, box->context->handle);
  if (result == CUDA_SUCCESS)
    return TRUE;
  _gcuda_fail_driver (error, result, "%s: making the context of the default stream current", what);
  _gcuda_stream_drop (box, noted);
  return FALSE;
}

gboolean
_gcuda_stream_call_enter (GCudaStreamCall *call,
                          gboolean wanted,
                          const char *what,
                          GError **error)
{
  CUresult result;

  /* That of a default stream is current already. */
  if (!wanted || _gcuda_stream_box_is_default (call->box))
    return TRUE;
  result = _gcuda_context_scope_enter (&call->scope, call->box->context->handle);
  if (result == CUDA_SUCCESS)
    return TRUE;
  return _gcuda_stream_call_end (call, result, what, error);
}

gboolean
_gcuda_stream_call_end (GCudaStreamCall *call,
                        CUresult result,
                        const char *what,
                        GError **error)
{
  CUresult left;
  const char *more;

  if (G_UNLIKELY (call->keeper != NULL))
    _gcuda_stream_call_keep_end (call, result == CUDA_SUCCESS);
  left = call->scope.pushed ? _gcuda_context_scope_leave (&call->scope) : CUDA_SUCCESS;
  if (G_UNLIKELY (result != CUDA_SUCCESS))
    {
      _gcuda_fail_driver (error, result, "%s", what);
      more = call->explain != NULL ? call->explain (call, result) : NULL;
      if (more != NULL && error != NULL)
        {
          char *message = g_strconcat ((*error)->message, "; ", more, NULL);

          g_free ((*error)->message);
          (*error)->message = message;
        }
    }
  else if (G_UNLIKELY (left != CUDA_SUCCESS))
    _gcuda_fail_driver (error, left, "%s: restoring the current context", what);
  _gcuda_stream_drop (call->box, call->noted);
  return result == CUDA_SUCCESS && left == CUDA_SUCCESS;
}

gboolean
_gcuda_stream_call_ask_capture (GCudaStreamCall *call,
                                const char *what,
                                GError **error)
{
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUresult result;

  result = _gcuda_driver.StreamIsCapturing (call->handle, &status);
  if (result != CUDA_SUCCESS)
    return _gcuda_fail_driver (error, result, "%s: asking whether the stream is being captured", what);
  if (status != CU_STREAM_CAPTURE_STATUS_NONE)
    return _gcuda_fail (error, GCUDA_ERROR_CAPTURING, "%s: the stream is being captured, and this can't be part of a graph; do it before the capture or on another stream", what);
  return TRUE;
}

/* Making streams */

gpointer
_gcuda_stream_new_of_type (GType type,
                           GCudaStreamBox *box,
                           GCudaContext *context)
{
  GCudaStream *self = g_object_new (type, NULL);

  self->box = _gcuda_stream_box_ref (box);
  self->context = context != NULL ? g_object_ref (context) : NULL;
  self->priority = box->priority;
  self->blocking = box->blocking;
  return self;
}

static GCudaStream *
new_for_box (GCudaStreamBox *box,
             GCudaContext *context)
{
  return _gcuda_stream_new_of_type (GCUDA_TYPE_STREAM, box, context);
}

/* For the objects that are made of the box later. */
static void
remember (GCudaStream *self)
{
  self->box->priority = self->priority;
  self->box->blocking = self->blocking;
}

GCudaStream *
_gcuda_stream_new_for_box (GCudaStreamBox *box)
{
  GCudaDevice *device = _gcuda_device_peek (box->context->device, NULL);
  g_autoptr (GCudaContext) context = NULL;

  _gcuda_stream_box_use (box);
  if (device != NULL)
    {
      _gcuda_context_box_use (box->context);
      context = _gcuda_context_new_for_box (box->context, device);
    }
  return new_for_box (box, context);
}

/**
 * gcuda_stream_new:
 * @context: a context
 * @flags: how the stream is made
 * @priority: the stream's priority, lower numbers first; the driver brings it into its range
 * @error: return location for an error
 *
 * Makes a stream in a context. By default it is a non-blocking one. Any thread; the current context does not matter.
 *
 * Errors: `INVALID_ARGUMENT` for no context or unknown flags; `CLOSED`; `FORKED`; what the driver answers.
 *
 * Returns: (transfer full): a new stream
 *
 * Since: 0.1
 */
GCudaStream *
gcuda_stream_new (GCudaContext *context,
                  GCudaStreamFlags flags,
                  int priority,
                  GError **error)
{
  static const char what[] = "making a stream";
  GCudaContextBox *box;
  GCudaContextScope scope;
  CUstream handle = NULL;
  CUresult result, left;
  unsigned long long id = 0;
  GCudaStream *self;

  box = _gcuda_context_hold (context, what, error);
  if (box == NULL)
    return NULL;
  if ((flags & ~GCUDA_STREAM_FLAGS_BLOCKING) != 0)
    {
      _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: unknown flags 0x%x", what, (unsigned int) flags);
      _gcuda_context_box_unuse (box);
      return NULL;
    }
  result = _gcuda_context_scope_enter (&scope, box->handle);
  if (result == CUDA_SUCCESS)
    {
      result = _gcuda_driver.StreamCreateWithPriority (&handle,
                                                       (flags & GCUDA_STREAM_FLAGS_BLOCKING) != 0 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING,
                                                       priority);
      if (result == CUDA_SUCCESS)
        {
          result = _gcuda_driver.StreamGetId (handle, &id);
          if (result == CUDA_SUCCESS)
            result = _gcuda_driver.StreamGetPriority (handle, &priority);
        }
      left = _gcuda_context_scope_leave (&scope);
      if (result == CUDA_SUCCESS)
        result = left;
      if (result != CUDA_SUCCESS && handle != NULL)
        _gcuda_driver.StreamDestroy (handle);
    }
  if (result != CUDA_SUCCESS)
    {
      _gcuda_fail_driver (error, result, "%s on device %d", what, (int) box->device);
      _gcuda_context_box_unuse (box);
      return NULL;
    }
  self = new_for_box (_gcuda_stream_box_new (GCUDA_STREAM_CREATED, handle, box, id, NULL), context);
  self->priority = priority;
  self->blocking = (flags & GCUDA_STREAM_FLAGS_BLOCKING) != 0;
  remember (self);
  return self;
}

/**
 * gcuda_stream_new_for_device:
 * @device: a device
 * @error: return location for an error
 *
 * Makes a non-blocking stream of ordinary priority in the device's primary context. Any thread; what context is current
 * does not matter.
 *
 * Errors: as [method@Device.get_primary_context] and [ctor@Stream.new].
 *
 * Returns: (transfer full): a new stream
 *
 * Since: 0.1
 */
GCudaStream *
gcuda_stream_new_for_device (GCudaDevice *device,
                             GError **error)
{
  g_autoptr (GCudaContext) context = NULL;
  CUdevice number;

  if (!_gcuda_device_check (device, "making a stream", &number, error))
    return NULL;
  context = gcuda_device_get_primary_context (device, error);
  return context != NULL ? gcuda_stream_new (context, GCUDA_STREAM_FLAGS_NONE, 0, error) : NULL;
}

static GCudaStream *
new_default (GCudaContext *context,
             GCudaStreamKind kind,
             const char *what,
             GError **error)
{
  GCudaContextBox *box = _gcuda_context_hold (context, what, error);
  GCudaStream *self;

  if (box == NULL)
    return NULL;
  self = new_for_box (_gcuda_stream_box_new (kind, kind == GCUDA_STREAM_LEGACY ? CU_STREAM_LEGACY : CU_STREAM_PER_THREAD, box, 0, NULL), context);
  self->blocking = TRUE;
  remember (self);
  return self;
}

/**
 * gcuda_stream_new_legacy_default:
 * @context: a context
 * @error: return location for an error
 *
 * Gets the legacy default stream of a context. It waits for the blocking streams of its context and they wait for it; it
 * orders nothing against non-blocking streams. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for no context; `CLOSED`; `FORKED`.
 *
 * Returns: (transfer full): a new object for that stream
 *
 * Since: 0.1
 */
GCudaStream *
gcuda_stream_new_legacy_default (GCudaContext *context,
                                 GError **error)
{
  return new_default (context, GCUDA_STREAM_LEGACY, "getting the legacy default stream", error);
}

/**
 * gcuda_stream_new_per_thread_default:
 * @context: a context
 * @error: return location for an error
 *
 * Gets the per-thread default stream of a context. The object means another stream in each thread that uses it.
 *
 * A buffer whose deallocation recipe names it remembers the thread that allocated, or that called
 * [method@Buffer.set_deallocation_stream]. Released by that thread, memory is freed on that thread's stream; released by
 * another thread, or after that thread ended, on the legacy default stream of the context, which the driver orders after
 * it. That blocks no thread, but it is a barrier for the blocking streams of the context. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for no context; `CLOSED`; `FORKED`.
 *
 * Returns: (transfer full): a new object for that stream
 *
 * Since: 0.1
 */
GCudaStream *
gcuda_stream_new_per_thread_default (GCudaContext *context,
                                     GError **error)
{
  return new_default (context, GCUDA_STREAM_PER_THREAD, "getting the per-thread default stream", error);
}

/**
 * gcuda_stream_new_for_handle:
 * @context: the context that the stream was made in
 * @handle: a `CUstream`, as a number
 * @owner: (nullable): an object that keeps the stream alive
 * @error: return location for an error
 *
 * Wraps a stream that another library made. It is never destroyed here.
 *
 * @owner is referenced until the last recipe that names the stream is gone, no capture of it goes on, graphs are closed that were
 * launched on it last, and the stream has passed what uploads still keep data for; and dropped from the main context that is the
 * thread-default one now. Without an owner the caller keeps the stream, and its context, until then and until the object is closed:
 * the driver crashes the process when a stream is used that was destroyed. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for the numbers 0, 1 and 2, which are the default streams and have functions of their own, and
 * for a stream of another context; `CLOSED`; `FORKED`. A number that never was a stream is beyond what can be checked.
 *
 * Returns: (transfer full): a new stream object
 *
 * Since: 0.1
 */
GCudaStream *
gcuda_stream_new_for_handle (GCudaContext *context,
                             guint64 handle,
                             GObject *owner,
                             GError **error)
{
  static const char what[] = "wrapping a stream";
  CUstream stream = (CUstream) (guintptr) handle;
  GCudaContextBox *box;
  CUcontext actual = NULL;
  unsigned long long id = 0;
  unsigned int flags = 0;
  int priority = 0;
  CUresult result;
  GCudaStream *self;

  _gcuda_home_tidy ();
  box = _gcuda_context_hold (context, what, error);
  if (box == NULL)
    return NULL;
  if (handle <= 2)
    {
      _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: %u is a default stream; ask for it by name", what, (unsigned int) handle);
      _gcuda_context_box_unuse (box);
      return NULL;
    }
  result = _gcuda_driver.StreamGetCtx (stream, &actual);
  if (result == CUDA_SUCCESS && actual != box->handle)
    {
      _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: the stream 0x%" G_GINT64_MODIFIER "x belongs to another context than the one given", what, handle);
      _gcuda_context_box_unuse (box);
      return NULL;
    }
  if (result == CUDA_SUCCESS)
    result = _gcuda_driver.StreamGetId (stream, &id);
  if (result == CUDA_SUCCESS)
    result = _gcuda_driver.StreamGetFlags (stream, &flags);
  if (result == CUDA_SUCCESS)
    result = _gcuda_driver.StreamGetPriority (stream, &priority);
  if (result != CUDA_SUCCESS)
    {
      _gcuda_fail_driver (error, result, "%s 0x%" G_GINT64_MODIFIER "x", what, handle);
      _gcuda_context_box_unuse (box);
      return NULL;
    }
  self = new_for_box (_gcuda_stream_box_new (GCUDA_STREAM_FOREIGN, stream, box, id, owner), context);
  self->priority = priority;
  self->blocking = (flags & CU_STREAM_NON_BLOCKING) == 0;
  remember (self);
  return self;
}

/**
 * gcuda_stream_close:
 * @self: a stream
 * @error: return location for an error, or %NULL
 *
 * Ends this object. It waits for nothing: work in the stream goes on, and buffers that name the stream in their recipe are
 * still freed on it. A stream that is closed already stays so. Any thread.
 *
 * Returns: %TRUE
 *
 * Since: 0.1
 */
gboolean
gcuda_stream_close (GCudaStream *self,
                    GError **error)
{
  g_return_val_if_fail (GCUDA_IS_STREAM (self), FALSE);

  if (end (self))
    {
      /* A handler may drop what the caller holds. */
      g_object_ref (self);
      g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_CLOSED]);
      g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_HANDLE]);
      g_object_unref (self);
    }
  return TRUE;
}

/**
 * gcuda_stream_is_closed: (get-property closed)
 * @self: a stream
 *
 * Whether the stream was closed, or never was open. Any thread.
 *
 * Returns: whether it is closed
 *
 * Since: 0.1
 */
gboolean
gcuda_stream_is_closed (GCudaStream *self)
{
  g_return_val_if_fail (GCUDA_IS_STREAM (self), TRUE);

  return self->box == NULL || is_over (self);
}

/**
 * gcuda_stream_get_context: (get-property context)
 * @self: a stream
 *
 * The context that the stream is bound to. Any thread.
 *
 * Returns: (transfer none) (nullable): a context; %NULL for an object made by bare new
 *
 * Since: 0.1
 */
GCudaContext *
gcuda_stream_get_context (GCudaStream *self)
{
  g_return_val_if_fail (GCUDA_IS_STREAM (self), NULL);

  return self->context;
}

/**
 * gcuda_stream_get_device: (get-property device)
 * @self: a stream
 *
 * The device that the stream's work runs on. Any thread.
 *
 * Returns: (transfer none) (nullable): a device; %NULL for an object made by bare new
 *
 * Since: 0.1
 */
GCudaDevice *
gcuda_stream_get_device (GCudaStream *self)
{
  g_return_val_if_fail (GCUDA_IS_STREAM (self), NULL);

  return self->context != NULL ? gcuda_context_get_device (self->context) : NULL;
}

/**
 * gcuda_stream_get_handle: (get-property handle)
 * @self: a stream
 *
 * The `CUstream`, as a number, for other libraries. It is valid as long as @self is open. The default streams are the
 * numbers 1 and 2, and mean the context that is current where they are used. Any thread.
 *
 * Returns: the handle; 0 when closed
 *
 * Since: 0.1
 */
guint64
gcuda_stream_get_handle (GCudaStream *self)
{
  g_return_val_if_fail (GCUDA_IS_STREAM (self), 0);

  if (gcuda_stream_is_closed (self))
    return 0;
  g_atomic_int_set (&self->box->exposed, TRUE);
  return (guint64) (guintptr) self->box->handle;
}

/**
 * gcuda_stream_get_priority: (get-property priority)
 * @self: a stream
 *
 * The stream's priority, as the driver took it. Any thread.
 *
 * Returns: a number; lower ones go first
 *
 * Since: 0.1
 */
int
gcuda_stream_get_priority (GCudaStream *self)
{
  g_return_val_if_fail (GCUDA_IS_STREAM (self), 0);

  return self->priority;
}

/**
 * gcuda_stream_is_blocking: (get-property blocking)
 * @self: a stream
 *
 * Whether the stream and the legacy default stream wait for each other. Any thread.
 *
 * Returns: whether it is a blocking stream
 *
 * Since: 0.1
 */
gboolean
gcuda_stream_is_blocking (GCudaStream *self)
{
  g_return_val_if_fail (GCUDA_IS_STREAM (self), FALSE);

  return self->blocking;
}

/**
 * gcuda_stream_is_legacy_default: (get-property legacy)
 * @self: a stream
 *
 * Whether this is the legacy default stream of its context. Any thread.
 *
 * Returns: whether it is
 *
 * Since: 0.1
 */
gboolean
gcuda_stream_is_legacy_default (GCudaStream *self)
{
  g_return_val_if_fail (GCUDA_IS_STREAM (self), FALSE);

  return self->box != NULL && self->box->kind == GCUDA_STREAM_LEGACY;
}

/**
 * gcuda_stream_is_per_thread_default: (get-property per-thread)
 * @self: a stream
 *
 * Whether this is the per-thread default stream of its context. Any thread.
 *
 * Returns: whether it is
 *
 * Since: 0.1
 */
gboolean
gcuda_stream_is_per_thread_default (GCudaStream *self)
{
  g_return_val_if_fail (GCUDA_IS_STREAM (self), FALSE);

  return self->box != NULL && self->box->kind == GCUDA_STREAM_PER_THREAD;
}

/**
 * gcuda_stream_query:
 * @self: a stream
 * @error: return location for an error, or %NULL
 *
 * Whether all work of the stream is done. Waits for nothing. Any thread.
 *
 * Errors: `CLOSED`; `CAPTURING`, where asking would break the capture; `FORKED`; what earlier work left behind.
 *
 * Returns: whether the stream is idle; %FALSE with @error set on failure
 *
 * Since: 0.1
 */
gboolean
gcuda_stream_query (GCudaStream *self,
                    GError **error)
{
  static const char what[] = "querying a stream";
  GCudaStreamCall call;
  CUresult result = CUDA_SUCCESS;
  gboolean refused;

  g_return_val_if_fail (GCUDA_IS_STREAM (self), FALSE);

  if (!_gcuda_stream_call_begin (&call, self, what, error))
    return FALSE;
  refused = !_gcuda_stream_call_refuse_capture (&call, what, error);
  if (!refused)
    result = _gcuda_driver.StreamQuery (call.handle);
  if (result == CUDA_ERROR_NOT_READY)
    {
      _gcuda_stream_call_end (&call, CUDA_SUCCESS, what, error);
      return FALSE;
    }
  return _gcuda_stream_call_end (&call, result, what, refused ? NULL : error) && !refused;
}

/**
 * gcuda_stream_is_capturing:
 * @self: a stream
 * @error: return location for an error, or %NULL
 *
 * Whether the stream is being captured into a graph. Asking disturbs no capture. Any thread.
 *
 * Errors: `CLOSED`; `FORKED`; for the legacy default stream `STREAM_CAPTURE_IMPLICIT` while a blocking stream of its
 * context is being captured.
 *
 * Returns: the answer; %FALSE with @error set on failure
 *
 * Since: 0.1
 */
gboolean
gcuda_stream_is_capturing (GCudaStream *self,
                           GError **error)
{
  static const char what[] = "asking whether a stream is being captured";
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  GCudaStreamCall call;

  g_return_val_if_fail (GCUDA_IS_STREAM (self), FALSE);

  if (!_gcuda_stream_call_begin (&call, self, what, error))
    return FALSE;
  return _gcuda_stream_call_end (&call, _gcuda_driver.StreamIsCapturing (call.handle, &status), what, error) &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/**
 * gcuda_stream_synchronize:
 * @self: a stream
 * @error: return location for an error, or %NULL
 *
 * Waits until all work of the stream is done. Any thread; blocks it.
 *
 * Errors: `CLOSED`; `CAPTURING`, and the capture stays valid; `FORKED`; what earlier work left behind.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_stream_synchronize (GCudaStream *self,
                          GError **error)
{
  static const char what[] = "synchronizing a stream";
  GCudaStreamCall call;

  g_return_val_if_fail (GCUDA_IS_STREAM (self), FALSE);

  if (!_gcuda_stream_call_begin (&call, self, what, error))
    return FALSE;
  if (!_gcuda_stream_call_refuse_capture (&call, what, error))
    {
      _gcuda_stream_call_end (&call, CUDA_SUCCESS, what, NULL);
      return FALSE;
    }
  return _gcuda_stream_call_end (&call, _gcuda_driver.StreamSynchronize (call.handle), what, error);
}

/* What a stream is captured into; 0: nothing, as far as is known. What an answer would have kept from the driver, that refuses. */
static cuuint64_t
get_capture (GCudaStreamCall *call,
             const char *what)
{
  if (!g_atomic_int_get (&call->box->exposed) || call->box->kind == GCUDA_STREAM_LEGACY)
    return 0;
  return _gcuda_stream_call_find_capture (call, what, NULL) && call->graph != NULL ? call->capture : 0;
}

static gboolean
fail_isolation (const char *what,
                const char *which,
                GError **error)
{
  return _gcuda_fail (error, GCUDA_ERROR_CAPTURING,
                      "%s: the stream is being captured, and %s is not a part of that capture; wait before the capture, or let the graph wait for an event, by gcuda_graph_builder_add_event_wait ()",
                      what, which);
}

static gboolean
wait_event (GCudaStream *self,
            GCudaEvent *event,
            gboolean check,
            const char *what,
            GError **error)
{
  GCudaEventPlace place = GCUDA_EVENT_INSIDE;
  GCudaStreamCall call;
  GCudaEventBox *held;
  CUevent handle;
  CUresult result;
  cuuint64_t capture;

  held = _gcuda_event_hold_unchecked (event, what, &handle, error);
  if (held == NULL)
    return FALSE;
  if (!_gcuda_stream_call_begin (&call, self, what, error))
    {
      _gcuda_event_drop (held);
      return FALSE;
    }
  if (!_gcuda_event_check (held, call.box->context, what, error))
    {
      _gcuda_event_drop (held);
      _gcuda_stream_call_end (&call, CUDA_SUCCESS, what, NULL);
      return FALSE;
    }
  if (check && (capture = get_capture (&call, what)) != 0)
    place = _gcuda_event_get_place (event, capture);
  /* The driver would break the capture. */
  if (place != GCUDA_EVENT_INSIDE)
    {
      _gcuda_event_drop (held);
      _gcuda_stream_call_end (&call, CUDA_SUCCESS, what, NULL);
      return place == GCUDA_EVENT_NOWHERE || fail_isolation (what, "the event", error);
    }
  /* Waiting for an event of a capture joins it. */
  if (_gcuda_event_is_exposed (held) && !g_atomic_int_get (&call.box->exposed))
    g_atomic_int_set (&call.box->exposed, TRUE);
  result = _gcuda_driver.StreamWaitEvent (call.handle, handle, CU_EVENT_WAIT_DEFAULT);
  _gcuda_event_drop (held);
  return _gcuda_stream_call_end (&call, result, what, error);
}

/**
 * gcuda_stream_wait_event:
 * @self: a stream
 * @event: an event, of any context or device
 * @error: return location for an error, or %NULL
 *
 * Makes later work of the stream wait for the event's latest record. An event that was never recorded is waited for by
 * nothing. Blocks no thread. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for no event; `CAPTURING` where the stream is being captured, but the event is not of that
 * capture, which goes on; `CLOSED`; `FORKED`; what the driver answers.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_stream_wait_event (GCudaStream *self,
                         GCudaEvent *event,
                         GError **error)
{
  g_return_val_if_fail (GCUDA_IS_STREAM (self), FALSE);

  return wait_event (self, event, TRUE, "making a stream wait for an event", error);
}

/* The same in a call of its own; FALSE for a stream that can't be used. */
static gboolean
ask_capture (GCudaStream *stream,
             cuuint64_t *capture,
             const char *what,
             GError **error)
{
  GCudaStreamCall call;

  if (!_gcuda_stream_call_begin (&call, stream, what, error))
    return FALSE;
  *capture = get_capture (&call, what);
  return _gcuda_stream_call_end (&call, CUDA_SUCCESS, what, error);
}

/**
 * gcuda_stream_wait_stream:
 * @self: a stream
 * @other: another stream, of any context or device
 * @error: return location for an error, or %NULL
 *
 * Makes later work of @self wait for all that is in @other now. If @other is being captured, @self is from then on as well, into
 * the same graph. Blocks no thread. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for no stream; `CAPTURING` where @self is being captured, but @other is not, or into another graph,
 * and for the legacy default stream that would wait for one in capture: then captures go on; `CLOSED`; `FORKED`; what the driver
 * answers, and then no order was made.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_stream_wait_stream (GCudaStream *self,
                          GCudaStream *other,
                          GError **error)
{
  static const char what[] = "making a stream wait for a stream";
  g_autoptr (GCudaEvent) event = NULL;
  cuuint64_t ours, theirs;

  g_return_val_if_fail (GCUDA_IS_STREAM (self), FALSE);

  if (!GCUDA_IS_STREAM (other))
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: no stream was given", what);
  if (gcuda_stream_is_closed (self) || gcuda_stream_is_closed (other))
    return _gcuda_fail (error, GCUDA_ERROR_CLOSED, "%s: %s stream is closed", what, gcuda_stream_is_closed (self) ? "the" : "the other");
  if (!ask_capture (self, &ours, what, error) || !ask_capture (other, &theirs, what, error))
    return FALSE;
  if (ours != 0 && ours != theirs)
    return fail_isolation (what, "the other stream", error);
  if (theirs != 0 && self->box->kind == GCUDA_STREAM_LEGACY)
    return _gcuda_fail (error, GCUDA_ERROR_CAPTURING, "%s: the other stream is being captured, and the legacy default stream can't be", what);
  /* The event lives in the context of the stream that it is recorded on. */
  event = gcuda_event_new (other->context, GCUDA_EVENT_FLAGS_NONE, error);
  return event != NULL && gcuda_event_record (event, other, error) && wait_event (self, event, FALSE, what, error);
}

/* Host functions */

struct _GCudaHostFunction
{
  GMainContext *context;
  GObject *target; /* bindings may tie the call-back to the object whose method took it */
  void (*func) (gpointer user_data);
  gpointer user_data;
  GDestroyNotify destroy;
  gint revoked; /* by a failure after the launch: a failed call calls nothing */
  gint refs;
};

GCudaHostFunction *
_gcuda_host_function_new (GObject *target,
                          void (*func) (gpointer user_data),
                          gpointer user_data,
                          GDestroyNotify destroy)
{
  GCudaHostFunction *self = g_new (GCudaHostFunction, 1);

  self->context = g_main_context_ref_thread_default ();
  self->target = target != NULL ? g_object_ref (target) : NULL;
  self->func = func;
  self->user_data = user_data;
  self->destroy = destroy;
  self->revoked = FALSE;
  self->refs = 1;
  return self;
}

GCudaHostFunction *
_gcuda_host_function_ref (GCudaHostFunction *self)
{
  g_atomic_int_inc (&self->refs);
  return self;
}

void
_gcuda_host_function_set_target (GCudaHostFunction *self,
                                 GObject *target)
{
  g_set_object (&self->target, target);
}

static gboolean
host_function_dispatch (gpointer data)
{
  GCudaHostFunction *self = data;

  /* A forked child inherits the loop, and what is queued there for the parent. */
  if (!_gcuda_driver_forked () && !g_atomic_int_get (&self->revoked))
    self->func (self->user_data);
  return G_SOURCE_REMOVE;
}

static void
host_function_free (GCudaHostFunction *self)
{
  if (self->destroy != NULL)
    self->destroy (self->user_data);
  g_clear_object (&self->target);
  g_main_context_unref (self->context);
  g_free (self);
}

/* In the loop. */
static void
host_function_drop (gpointer data)
{
  _gcuda_host_function_discard (data);
}

void
_gcuda_host_function_discard (GCudaHostFunction *self)
{
  if (g_atomic_int_dec_and_test (&self->refs))
    host_function_free (self);
}

static gboolean
host_function_nothing (gpointer data)
{
  return G_SOURCE_REMOVE;
}

void
_gcuda_host_function_unref (GCudaHostFunction *self)
{
  if (!g_atomic_int_dec_and_test (&self->refs))
    return;
  /* Letting the data go is the loop's. */
  self->refs = 1;
  _gcuda_post (self->context, host_function_nothing, self, host_function_drop);
}

/* On a thread of the driver's: hand it over, nothing else. */
void CUDA_CB
_gcuda_host_function_reached (void *data)
{
  GCudaHostFunction *self = _gcuda_host_function_ref (data);

  _gcuda_post (self->context, host_function_dispatch, self, host_function_drop);
}

/* The same, for what the driver calls once, and has a reference to. */
static void CUDA_CB
host_function_reached_once (void *data)
{
  GCudaHostFunction *self = data;

  _gcuda_post (self->context, host_function_dispatch, self, host_function_drop);
}

/**
 * gcuda_stream_launch_host_function:
 * @self: a stream
 * @func: (scope notified) (closure user_data) (destroy destroy): what to call
 * @user_data: data for @func
 * @destroy: called after @func, when @user_data is no longer needed
 * @error: return location for an error, or %NULL
 *
 * Calls a function when the stream has reached this point. It is called from the main context that is the thread-default
 * one of the calling thread now, only while that runs, and so may use everything, this library included. The stream goes on
 * without waiting for it; this object lives until it was called. Any thread.
 *
 * On a stream that is being captured it becomes a part of the graph: it is called for each launch, and @destroy when the
 * graph, what was made of it, and their launches are gone.
 *
 * Nobody else can let @user_data go: with a main context that never runs again, it stays to the end of the process, and so
 * do the context and this object.
 *
 * On failure only @destroy is called. If the context is lost before the stream gets there, neither is
 * ever called.
 *
 * Errors: `INVALID_ARGUMENT` without a function; `CLOSED`; `FORKED`; what the driver answers.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_stream_launch_host_function (GCudaStream *self,
                                   GCudaStreamFunc func,
                                   gpointer user_data,
                                   GDestroyNotify destroy,
                                   GError **error)
{
  static const char what[] = "launching a host function";
  GCudaStreamCall call;
  GCudaHostFunction *function;
  CUresult result;
  gboolean success = FALSE, launched = FALSE, captured;

  g_return_val_if_fail (GCUDA_IS_STREAM (self), FALSE);

  function = _gcuda_host_function_new (G_OBJECT (self), func, user_data, destroy);
  if (func == NULL)
    {
      _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: no function was given", what);
    }
  else if (_gcuda_stream_call_begin (&call, self, what, error))
    {
      if (!g_atomic_int_get (&call.box->exposed) || _gcuda_stream_call_find_capture (&call, what, error))
        {
          if (call.graph == NULL)
            {
              /* One reference is the driver's, from the launch to the loop. */
              _gcuda_host_function_ref (function);
              result = _gcuda_driver.LaunchHostFunc (call.handle, host_function_reached_once, function);
              launched = result == CUDA_SUCCESS;
              if (!launched)
                g_atomic_int_add (&function->refs, -1);
            }
          else if (_gcuda_stream_call_keep (&call, _gcuda_host_function_ref (function), (GDestroyNotify) _gcuda_host_function_unref, what, error))
            {
              result = _gcuda_driver.LaunchHostFunc (call.handle, _gcuda_host_function_reached, function);
              launched = result == CUDA_SUCCESS;
            }
          else
            {
              _gcuda_host_function_discard (function);
              _gcuda_stream_call_end (&call, CUDA_SUCCESS, what, NULL);
              return FALSE;
            }
          captured = launched && call.graph != NULL;
          success = _gcuda_stream_call_end (&call, result, what, error);
          if (captured && success && GCUDA_STREAM_GET_CLASS (self)->captured_function != NULL)
            GCUDA_STREAM_GET_CLASS (self)->captured_function (self, function);
          /* Launched, but the current context could not be restored: what was launched is to do nothing. */
          if (!success)
            g_atomic_int_set (&function->revoked, TRUE);
        }
      else
        _gcuda_stream_call_end (&call, CUDA_SUCCESS, what, NULL);
    }
  if (launched)
    _gcuda_host_function_unref (function);
  else
    _gcuda_host_function_discard (function);
  return success;
}
