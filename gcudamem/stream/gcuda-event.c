/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-stream-private.h"

#define HANDLE_GIVEN 2

/* The driver's event, counted like a stream's box: a reference keeps the struct, a use the event and its context. */
struct _GCudaEventBox
{
  GCudaReclaimNode node;
  gint refs;
  gint uses;
  CUevent handle;
  GCudaContextBox *context;
  gint exposed; /* see GCudaStreamBox; or HANDLE_GIVEN */
};

/**
 * GCudaEvent:
 *
 * A CUDA event: a mark in a stream that other streams and threads can wait for.
 *
 * An event belongs to one context and is recorded on streams of that context; streams of any context and device can wait
 * for it. All methods may be called from any thread, whatever context is current there.
 *
 * Since: 0.1
 */
struct _GCudaEvent
{
  GObject parent_instance;

  GCudaContext *context;
  GCudaEventBox *box; /* NULL for an object made by bare new; else to the end */
  GCudaEventFlags flags;
  gint recorded;
  gpointer capture; /* the id of the one that it was last recorded in: it marks no work, and asking would break that capture */
  gint closed;
};

G_DEFINE_FINAL_TYPE (GCudaEvent, gcuda_event, G_TYPE_OBJECT)

enum
{
  PROP_0,
  PROP_CONTEXT,
  PROP_HANDLE,
  PROP_FLAGS,
  PROP_CLOSED,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

static void
event_box_unref (GCudaEventBox *self)
{
  if (g_atomic_int_dec_and_test (&self->refs))
    g_free (self);
}

static gboolean
event_box_destroy (GCudaEventBox *self)
{
  CUresult result = CUDA_SUCCESS;

  if (_gcuda_context_box_is_alive (self->context))
    result = _gcuda_driver.EventDestroy (self->handle);
  if (result == CUDA_ERROR_NOT_PERMITTED)
    return FALSE;
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_DEINITIALIZED && !_gcuda_result_is_sticky (result))
    {
      g_autoptr (GError) error = NULL;

      _gcuda_fail_driver (&error, result, "destroying an event of device %d", (int) self->context->device);
      _gcuda_report_teardown (error, "cuEventDestroy", (guint64) (guintptr) self->handle, 0);
    }
  _gcuda_context_box_unuse (self->context);
  event_box_unref (self);
  return TRUE;
}

static GCudaReclaimResult
event_box_destroy_later (GCudaReclaimNode *node)
{
  return event_box_destroy ((GCudaEventBox *) node) ? GCUDA_RECLAIM_DONE : GCUDA_RECLAIM_AGAIN;
}

void
_gcuda_event_drop (GCudaEventBox *self)
{
  GCudaTeardown teardown;

  if (!g_atomic_int_dec_and_test (&self->uses))
    return;
  if (!_gcuda_teardown_enter (&teardown))
    return;
  if (!event_box_destroy (self))
    _gcuda_reclaimer_push (&self->node, event_box_destroy_later);
  _gcuda_teardown_leave (&teardown);
}

GCudaEventBox *
_gcuda_event_hold_unchecked (GCudaEvent *self,
                             const char *what,
                             CUevent *handle,
                             GError **error)
{
  gint uses;

  if (!GCUDA_IS_EVENT (self))
    {
      _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: no event was given", what);
      return NULL;
    }
  if (!_gcuda_driver_check (error))
    return NULL;
  uses = self->box != NULL ? g_atomic_int_get (&self->box->uses) : 0;
  while (uses > 0 && !g_atomic_int_compare_and_exchange_full (&self->box->uses, uses, uses + 1, &uses))
    ;
  if (uses == 0)
    {
      _gcuda_fail (error, GCUDA_ERROR_CLOSED, "%s: the event is closed", what);
      return NULL;
    }
  if (!g_atomic_int_get (&self->closed))
    {
      *handle = self->box->handle;
      return self->box;
    }
  _gcuda_fail (error, GCUDA_ERROR_CLOSED, "%s: the event is closed", what);
  _gcuda_event_drop (self->box);
  return NULL;
}

gboolean
_gcuda_event_check (GCudaEventBox *self,
                    GCudaContextBox *known,
                    const char *what,
                    GError **error)
{
  if (self->context == known || _gcuda_context_box_check (self->context, error))
    return TRUE;
  g_prefix_error (error, "%s: ", what);
  return FALSE;
}

GCudaEventBox *
_gcuda_event_hold (GCudaEvent *self,
                   const char *what,
                   CUevent *handle,
                   GError **error)
{
  GCudaEventBox *held = _gcuda_event_hold_unchecked (self, what, handle, error);

  if (held == NULL || _gcuda_event_check (held, NULL, what, error))
    return held;
  _gcuda_event_drop (held);
  return NULL;
}

void
_gcuda_event_set_recorded (GCudaEvent *self)
{
  g_atomic_int_set (&self->recorded, TRUE);
}

GCudaEventPlace
_gcuda_event_get_place (GCudaEvent *self,
                        cuuint64_t capture)
{
  const gpointer last = g_atomic_pointer_get (&self->capture);

  /* Others may have recorded it, wherever they wanted. */
  if (g_atomic_int_get (&self->box->exposed) == HANDLE_GIVEN)
    return GCUDA_EVENT_INSIDE;
  if (last != NULL)
    return last == GSIZE_TO_POINTER (capture) ? GCUDA_EVENT_INSIDE : GCUDA_EVENT_OUTSIDE;
  return g_atomic_int_get (&self->recorded) ? GCUDA_EVENT_OUTSIDE : GCUDA_EVENT_NOWHERE;
}

gboolean
_gcuda_event_is_exposed (GCudaEventBox *self)
{
  return g_atomic_int_get (&self->exposed) != 0;
}

static gboolean
end (GCudaEvent *self)
{
  if (self->box == NULL || !g_atomic_int_compare_and_exchange (&self->closed, FALSE, TRUE))
    return FALSE;
  _gcuda_event_drop (self->box);
  return TRUE;
}

static void
gcuda_event_dispose (GObject *object)
{
  end (GCUDA_EVENT (object));

  G_OBJECT_CLASS (gcuda_event_parent_class)->dispose (object);
}

static void
gcuda_event_finalize (GObject *object)
{
  GCudaEvent *self = GCUDA_EVENT (object);

  g_clear_pointer (&self->box, event_box_unref);
  g_clear_object (&self->context);

  G_OBJECT_CLASS (gcuda_event_parent_class)->finalize (object);
}

static void
gcuda_event_get_property (GObject *object,
                          guint id,
                          GValue *value,
                          GParamSpec *pspec)
{
  GCudaEvent *self = GCUDA_EVENT (object);

  switch (id)
    {
    case PROP_CONTEXT:
      g_value_set_object (value, self->context);
      break;
    case PROP_HANDLE:
      g_value_set_uint64 (value, gcuda_event_get_handle (self));
      break;
    case PROP_FLAGS:
      g_value_set_flags (value, self->flags);
      break;
    case PROP_CLOSED:
      g_value_set_boolean (value, gcuda_event_is_closed (self));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gcuda_event_class_init (GCudaEventClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;

  object_class->dispose = gcuda_event_dispose;
  object_class->finalize = gcuda_event_finalize;
  object_class->get_property = gcuda_event_get_property;

  /**
   * GCudaEvent:context: (getter get_context)
   *
   * The context that the event belongs to.
   *
   * Since: 0.1
   */
  properties[PROP_CONTEXT] = g_param_spec_object ("context", NULL, NULL, GCUDA_TYPE_CONTEXT, flags);

  /**
   * GCudaEvent:handle: (getter get_handle)
   *
   * The `CUevent`, as a number; 0 when closed.
   *
   * Since: 0.1
   */
  properties[PROP_HANDLE] = g_param_spec_uint64 ("handle", NULL, NULL, 0, G_MAXUINT64, 0, flags);

  /**
   * GCudaEvent:flags: (getter get_flags)
   *
   * How the event was made.
   *
   * Since: 0.1
   */
  properties[PROP_FLAGS] = g_param_spec_flags ("flags", NULL, NULL, GCUDA_TYPE_EVENT_FLAGS, 0, flags);

  /**
   * GCudaEvent:closed: (getter is_closed)
   *
   * Whether the event was closed.
   *
   * Since: 0.1
   */
  properties[PROP_CLOSED] = g_param_spec_boolean ("closed", NULL, NULL, TRUE, flags);

  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
gcuda_event_init (GCudaEvent *self)
{
}

/**
 * gcuda_event_new:
 * @context: a context
 * @flags: how the event is made
 * @error: return location for an error
 *
 * Makes an event in a context. Any thread; the current context does not matter.
 *
 * Errors: `INVALID_ARGUMENT` for no context or unknown flags; `CLOSED`; `FORKED`; what the driver answers.
 *
 * Returns: (transfer full): a new event
 *
 * Since: 0.1
 */
GCudaEvent *
gcuda_event_new (GCudaContext *context,
                 GCudaEventFlags flags,
                 GError **error)
{
  static const char what[] = "making an event";
  GCudaContextBox *box;
  GCudaContextScope scope;
  CUevent handle = NULL;
  CUresult result, left;
  unsigned int driver_flags = 0;
  GCudaEvent *self;

  box = _gcuda_context_hold (context, what, error);
  if (box == NULL)
    return NULL;
  if ((flags & ~(GCUDA_EVENT_FLAGS_TIMING | GCUDA_EVENT_FLAGS_BLOCKING_SYNC)) != 0)
    {
      _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: unknown flags 0x%x", what, (unsigned int) flags);
      _gcuda_context_box_unuse (box);
      return NULL;
    }
  if ((flags & GCUDA_EVENT_FLAGS_TIMING) == 0)
    driver_flags |= CU_EVENT_DISABLE_TIMING;
  if ((flags & GCUDA_EVENT_FLAGS_BLOCKING_SYNC) != 0)
    driver_flags |= CU_EVENT_BLOCKING_SYNC;
  result = _gcuda_context_scope_enter (&scope, box->handle);
  if (result == CUDA_SUCCESS)
    {
      result = _gcuda_driver.EventCreate (&handle, driver_flags);
      left = _gcuda_context_scope_leave (&scope);
      if (result == CUDA_SUCCESS && left != CUDA_SUCCESS)
        {
          _gcuda_driver.EventDestroy (handle);
          result = left;
        }
    }
  if (result != CUDA_SUCCESS)
    {
      _gcuda_fail_driver (error, result, "%s on device %d", what, (int) box->device);
      _gcuda_context_box_unuse (box);
      return NULL;
    }
  self = g_object_new (GCUDA_TYPE_EVENT, NULL);
  self->box = g_new0 (GCudaEventBox, 1);
  self->box->refs = 2; /* this object's, and that of all uses */
  self->box->uses = 1;
  self->box->handle = handle;
  self->box->context = box;
  self->context = g_object_ref (context);
  self->flags = flags;
  return self;
}

/**
 * gcuda_event_new_for_device:
 * @device: a device
 * @flags: how the event is made
 * @error: return location for an error
 *
 * Makes an event in the device's primary context. Any thread; what context is current does not matter.
 *
 * Errors: as [method@Device.get_primary_context] and [ctor@Event.new].
 *
 * Returns: (transfer full): a new event
 *
 * Since: 0.1
 */
GCudaEvent *
gcuda_event_new_for_device (GCudaDevice *device,
                            GCudaEventFlags flags,
                            GError **error)
{
  g_autoptr (GCudaContext) context = NULL;
  CUdevice number;

  if (!_gcuda_device_check (device, "making an event", &number, error))
    return NULL;
  context = gcuda_device_get_primary_context (device, error);
  return context != NULL ? gcuda_event_new (context, flags, error) : NULL;
}

/**
 * gcuda_event_close:
 * @self: an event
 * @error: return location for an error, or %NULL
 *
 * Ends the event. What waits for it still does. An event that is closed already stays so. Any thread.
 *
 * Returns: %TRUE
 *
 * Since: 0.1
 */
gboolean
gcuda_event_close (GCudaEvent *self,
                   GError **error)
{
  g_return_val_if_fail (GCUDA_IS_EVENT (self), FALSE);

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
 * gcuda_event_is_closed: (get-property closed)
 * @self: an event
 *
 * Whether the event was closed, or never was open. Any thread.
 *
 * Returns: whether it is closed
 *
 * Since: 0.1
 */
gboolean
gcuda_event_is_closed (GCudaEvent *self)
{
  g_return_val_if_fail (GCUDA_IS_EVENT (self), TRUE);

  return self->box == NULL || g_atomic_int_get (&self->closed);
}

/**
 * gcuda_event_get_context: (get-property context)
 * @self: an event
 *
 * The context that the event belongs to. Any thread.
 *
 * Returns: (transfer none) (nullable): a context; %NULL for an object made by bare new
 *
 * Since: 0.1
 */
GCudaContext *
gcuda_event_get_context (GCudaEvent *self)
{
  g_return_val_if_fail (GCUDA_IS_EVENT (self), NULL);

  return self->context;
}

/**
 * gcuda_event_get_handle: (get-property handle)
 * @self: an event
 *
 * The `CUevent`, as a number, for other libraries. It is valid as long as @self is open. Any thread.
 *
 * Returns: the handle; 0 when closed
 *
 * Since: 0.1
 */
guint64
gcuda_event_get_handle (GCudaEvent *self)
{
  g_return_val_if_fail (GCUDA_IS_EVENT (self), 0);

  if (gcuda_event_is_closed (self))
    return 0;
  g_atomic_int_set (&self->box->exposed, HANDLE_GIVEN);
  return (guint64) (guintptr) self->box->handle;
}

/**
 * gcuda_event_get_flags: (get-property flags)
 * @self: an event
 *
 * How the event was made. Any thread.
 *
 * Returns: the flags
 *
 * Since: 0.1
 */
GCudaEventFlags
gcuda_event_get_flags (GCudaEvent *self)
{
  g_return_val_if_fail (GCUDA_IS_EVENT (self), GCUDA_EVENT_FLAGS_NONE);

  return self->flags;
}

/* An atomic write costs as much as a small driver call, and most write what is there. */
static inline void
set_flag (gint *flag,
          gboolean value)
{
  if (g_atomic_int_get (flag) != value)
    g_atomic_int_set (flag, value);
}

/**
 * gcuda_event_record:
 * @self: an event
 * @stream: a stream of the event's context
 * @error: return location for an error, or %NULL
 *
 * Marks the point that the stream's work has come to. An earlier mark of this event is forgotten; what waits for it already
 * goes on waiting. Blocks no thread. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for no stream, or one of another context; `CLOSED`; `FORKED`; what the driver answers.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_event_record (GCudaEvent *self,
                    GCudaStream *stream,
                    GError **error)
{
  static const char what[] = "recording an event";
  GCudaStreamCall call;
  GCudaEventBox *held;
  CUevent handle;
  CUresult result;

  g_return_val_if_fail (GCUDA_IS_EVENT (self), FALSE);

  /* The look at the stream's context is one at the event's: they have to be the same. */
  held = _gcuda_event_hold_unchecked (self, what, &handle, error);
  if (held == NULL)
    return FALSE;
  if (!_gcuda_stream_call_begin (&call, stream, what, error))
    {
      _gcuda_event_drop (held);
      return FALSE;
    }
  if (call.box->context->handle != held->context->handle || call.box->context->id != held->context->id)
    {
      _gcuda_event_drop (held);
      _gcuda_stream_call_end (&call, CUDA_SUCCESS, what, NULL);
      return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: the stream belongs to another context than the event", what);
    }
  result = _gcuda_driver.EventRecord (handle, call.handle);
  if (result == CUDA_SUCCESS)
    {
      CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
      cuuint64_t capture = 0;

      if (g_atomic_int_get (&call.box->exposed))
        {
          if (g_atomic_int_get (&held->exposed) == FALSE)
            set_flag (&held->exposed, TRUE);
          _gcuda_driver.StreamIsCapturing (call.handle, &status);
          /* Not to be known: no capture has it. */
          if (status != CU_STREAM_CAPTURE_STATUS_NONE &&
              (!_gcuda_driver_has (GCUDA_DRIVER_GROUP_CAPTURE) ||
               _gcuda_driver.StreamGetCaptureInfo (call.handle, &status, &capture, NULL, NULL, NULL) != CUDA_SUCCESS || capture == 0))
            capture = G_MAXUINT64;
        }
      set_flag (&self->recorded, TRUE);
      if (g_atomic_pointer_get (&self->capture) != GSIZE_TO_POINTER (capture))
        g_atomic_pointer_set (&self->capture, GSIZE_TO_POINTER (capture));
    }
  _gcuda_event_drop (held);
  return _gcuda_stream_call_end (&call, result, what, error);
}

static gboolean
fail_captured (const char *what,
               const char *which,
               GError **error)
{
  return _gcuda_fail (error, GCUDA_ERROR_CAPTURING, "%s: %s was last recorded on a stream that was being captured, and marks no work until it is recorded again", what, which);
}

static GCudaEventBox *
hold_uncaptured (GCudaEvent *self,
                 const char *what,
                 CUevent *handle,
                 GError **error)
{
  GCudaEventBox *held = _gcuda_event_hold (self, what, handle, error);

  if (held == NULL || g_atomic_pointer_get (&self->capture) == NULL)
    return held;
  _gcuda_event_drop (held);
  fail_captured (what, "it", error);
  return NULL;
}

/**
 * gcuda_event_query:
 * @self: an event
 * @error: return location for an error, or %NULL
 *
 * Whether the work that the event marks is done. An event that was never recorded is. Waits for nothing. Any thread.
 *
 * Errors: `CLOSED`; `FORKED`; `CAPTURING` for an event that was last recorded in a capture, which stays valid; what earlier
 * work left behind.
 *
 * Returns: whether it is done; %FALSE with @error set on failure
 *
 * Since: 0.1
 */
gboolean
gcuda_event_query (GCudaEvent *self,
                   GError **error)
{
  static const char what[] = "querying an event";
  GCudaEventBox *held;
  CUevent handle;
  CUresult result;

  g_return_val_if_fail (GCUDA_IS_EVENT (self), FALSE);

  held = hold_uncaptured (self, what, &handle, error);
  if (held == NULL)
    return FALSE;
  result = _gcuda_driver.EventQuery (handle);
  _gcuda_event_drop (held);
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY)
    _gcuda_fail_driver (error, result, "%s", what);
  return result == CUDA_SUCCESS;
}

/**
 * gcuda_event_synchronize:
 * @self: an event
 * @error: return location for an error, or %NULL
 *
 * Waits until the work that the event marks is done. Any thread; blocks it.
 *
 * Errors: as [method@Event.query].
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_event_synchronize (GCudaEvent *self,
                         GError **error)
{
  static const char what[] = "synchronizing an event";
  GCudaEventBox *held;
  CUevent handle;
  CUresult result;

  g_return_val_if_fail (GCUDA_IS_EVENT (self), FALSE);

  held = hold_uncaptured (self, what, &handle, error);
  if (held == NULL)
    return FALSE;
  result = _gcuda_driver.EventSynchronize (handle);
  _gcuda_event_drop (held);
  if (result != CUDA_SUCCESS)
    _gcuda_fail_driver (error, result, "%s", what);
  return result == CUDA_SUCCESS;
}

/**
 * gcuda_event_elapsed_time:
 * @self: the event that the time starts with
 * @end: the event that it ends with
 * @error: return location for an error
 *
 * The time from one event to another, both reached. It is negative if @end was reached first. Any thread.
 *
 * Errors: `TIMING_DISABLED` for an event made without timing; `NOT_RECORDED`; `CAPTURING` for one that was last recorded in a
 * capture; `NOT_READY` while one of them is still to be reached; `DIFFERENT_DEVICE` for events of two contexts;
 * `INVALID_ARGUMENT` for no event; `CLOSED`; `FORKED`.
 *
 * Returns: milliseconds; 0 with @error set
 *
 * Since: 0.1
 */
double
gcuda_event_elapsed_time (GCudaEvent *self,
                          GCudaEvent *end_event,
                          GError **error)
{
  static const char what[] = "measuring the time between two events";
  GCudaEventBox *start_held, *end_held;
  CUevent start_handle, end_handle;
  CUresult result = CUDA_SUCCESS;
  float milliseconds = 0;

  g_return_val_if_fail (GCUDA_IS_EVENT (self), 0);

  start_held = _gcuda_event_hold (self, what, &start_handle, error);
  if (start_held == NULL)
    return 0;
  end_held = _gcuda_event_hold (end_event, what, &end_handle, error);
  if (end_held == NULL)
    {
      _gcuda_event_drop (start_held);
      return 0;
    }
  if ((self->flags & end_event->flags & GCUDA_EVENT_FLAGS_TIMING) == 0)
    _gcuda_fail (error, GCUDA_ERROR_TIMING_DISABLED, "%s: the %s was made without GCUDA_EVENT_FLAGS_TIMING", what,
                 (self->flags & GCUDA_EVENT_FLAGS_TIMING) == 0 ? "first" : "second");
  else if (start_held->context->handle != end_held->context->handle)
    _gcuda_fail (error, GCUDA_ERROR_DIFFERENT_DEVICE, "%s: they belong to different contexts or devices", what);
  else if (!g_atomic_int_get (&self->recorded) || !g_atomic_int_get (&end_event->recorded))
    _gcuda_fail (error, GCUDA_ERROR_NOT_RECORDED, "%s: the %s was never recorded", what,
                 g_atomic_int_get (&self->recorded) ? "second" : "first");
  else if (g_atomic_pointer_get (&self->capture) != NULL || g_atomic_pointer_get (&end_event->capture) != NULL)
    fail_captured (what, g_atomic_pointer_get (&self->capture) != NULL ? "the first" : "the second", error);
  else
    {
      result = _gcuda_driver.EventElapsedTime (&milliseconds, start_handle, end_handle);
      if (result == CUDA_ERROR_INVALID_HANDLE)
        _gcuda_fail (error, GCUDA_ERROR_NOT_RECORDED, "%s: one was never recorded; a graph that records it may not have been launched yet", what);
      else if (result != CUDA_SUCCESS)
        _gcuda_fail_driver (error, result, "%s", what);
    }
  _gcuda_event_drop (start_held);
  _gcuda_event_drop (end_held);
  return result == CUDA_SUCCESS ? (double) milliseconds : 0;
}
