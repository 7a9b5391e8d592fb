/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-device-private.h"

/**
 * GCudaContext:
 *
 * A CUDA context: what streams, events and memory of a device live in.
 *
 * Most programs use the primary context of a device only and never name it; see [method@Device.get_primary_context]. A
 * private context is made with [ctor@Context.new] and destroyed in the background once nothing uses it and its work is
 * done. A foreign one, of another library, is wrapped with [ctor@Context.new_for_handle] and never destroyed here.
 *
 * Streams, events, buffers and memory resources keep the context that they need: dropping this object while they live
 * is safe. No method changes what context is current on the calling thread. All may be called from any thread.
 *
 * Since: 0.1
 */
struct _GCudaContext
{
  GObject parent_instance;

  GCudaDevice *device;
  GCudaContextBox *box; /* NULL for an object made by bare new; else to the end */
  gint closed;
};

G_DEFINE_FINAL_TYPE (GCudaContext, gcuda_context, G_TYPE_OBJECT)

enum
{
  PROP_0,
  PROP_DEVICE,
  PROP_PRIMARY,
  PROP_HANDLE,
  PROP_ID,
  PROP_CLOSED,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

static void
gcuda_context_dispose (GObject *object)
{
  GCudaContext *self = GCUDA_CONTEXT (object);

  if (self->box != NULL && g_atomic_int_compare_and_exchange (&self->closed, FALSE, TRUE))
    _gcuda_context_box_unuse (self->box);

  G_OBJECT_CLASS (gcuda_context_parent_class)->dispose (object);
}

static void
gcuda_context_finalize (GObject *object)
{
  GCudaContext *self = GCUDA_CONTEXT (object);

  g_clear_pointer (&self->box, _gcuda_context_box_unref);
  g_clear_object (&self->device);

  G_OBJECT_CLASS (gcuda_context_parent_class)->finalize (object);
}

static void
gcuda_context_get_property (GObject *object,
                            guint id,
                            GValue *value,
                            GParamSpec *pspec)
{
  GCudaContext *self = GCUDA_CONTEXT (object);

  switch (id)
    {
    case PROP_DEVICE:
      g_value_set_object (value, self->device);
      break;
    case PROP_PRIMARY:
      g_value_set_boolean (value, gcuda_context_is_primary (self));
      break;
    case PROP_HANDLE:
      g_value_set_uint64 (value, gcuda_context_get_handle (self));
      break;
    case PROP_ID:
      g_value_set_uint64 (value, gcuda_context_get_id (self));
      break;
    case PROP_CLOSED:
      g_value_set_boolean (value, gcuda_context_is_closed (self));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gcuda_context_class_init (GCudaContextClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;

  object_class->dispose = gcuda_context_dispose;
  object_class->finalize = gcuda_context_finalize;
  object_class->get_property = gcuda_context_get_property;

  /**
   * GCudaContext:device: (getter get_device)
   *
   * The context's device.
   *
   * Since: 0.1
   */
  properties[PROP_DEVICE] = g_param_spec_object ("device", NULL, NULL, GCUDA_TYPE_DEVICE, flags);

  /**
   * GCudaContext:primary: (getter is_primary)
   *
   * Whether this is the device's primary context.
   *
   * Since: 0.1
   */
  properties[PROP_PRIMARY] = g_param_spec_boolean ("primary", NULL, NULL, FALSE, flags);

  /**
   * GCudaContext:handle: (getter get_handle)
   *
   * The `CUcontext`, as a number; 0 when closed.
   *
   * Since: 0.1
   */
  properties[PROP_HANDLE] = g_param_spec_uint64 ("handle", NULL, NULL, 0, G_MAXUINT64, 0, flags);

  /**
   * GCudaContext:id: (getter get_id)
   *
   * The driver's id of the context. Unlike a handle it is never used again.
   *
   * Since: 0.1
   */
  properties[PROP_ID] = g_param_spec_uint64 ("id", NULL, NULL, 0, G_MAXUINT64, 0, flags);

  /**
   * GCudaContext:closed: (getter is_closed)
   *
   * Whether the context object was closed.
   *
   * Since: 0.1
   */
  properties[PROP_CLOSED] = g_param_spec_boolean ("closed", NULL, NULL, TRUE, flags);

  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
gcuda_context_init (GCudaContext *self)
{
  self->closed = FALSE;
}

GCudaContext *
_gcuda_context_new_for_box (GCudaContextBox *box,
                            GCudaDevice *device)
{
  GCudaContext *self = g_object_new (GCUDA_TYPE_CONTEXT, NULL);

  self->box = _gcuda_context_box_ref (box);
  self->device = g_object_ref (device);
  return self;
}

GCudaContextBox *
_gcuda_context_hold (GCudaContext *self,
                     const char *what,
                     GError **error)
{
  if (!GCUDA_IS_CONTEXT (self))
    {
      _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: no context was given", what);
      return NULL;
    }
  if (!_gcuda_driver_check (error))
    return NULL;
  if (self->box == NULL || g_atomic_int_get (&self->closed) || !_gcuda_context_box_use (self->box))
    {
      _gcuda_fail (error, GCUDA_ERROR_CLOSED, "%s: the context is closed", what);
      return NULL;
    }
  if (!_gcuda_context_box_check (self->box, error))
    {
      g_prefix_error (error, "%s: ", what);
      _gcuda_context_box_unuse (self->box);
      return NULL;
    }
  return self->box;
}

GCudaContextBox *
_gcuda_device_hold_primary_context (GCudaDevice *self,
                                    const char *what,
                                    GError **error)
{
  g_autoptr (GCudaContext) context = NULL;
  CUdevice number;

  if (!_gcuda_device_check (self, what, &number, error))
    return NULL;
  context = gcuda_device_get_primary_context (self, error);
  return context != NULL ? _gcuda_context_hold (context, what, error) : NULL;
}

/**
 * gcuda_context_new:
 * @device: a device
 * @flags: how threads wait for the context's work
 * @error: return location for an error
 *
 * Makes a private context. Libraries that share a process should use the primary context instead: memory of a private one
 * is cut off from theirs. Any thread; the context is not made current.
 *
 * Errors: `INVALID_ARGUMENT` for unknown or contradicting flags; `CLOSED`; `FORKED`; what the driver answers.
 *
 * Returns: (transfer full): a new context
 *
 * Since: 0.1
 */
GCudaContext *
gcuda_context_new (GCudaDevice *device,
                   GCudaContextFlags flags,
                   GError **error)
{
  CUdevice number;
  CUcontext handle, popped;
  CUresult result;
  unsigned long long id = 0;
  unsigned int driver_flags;

  if (!_gcuda_device_check (device, "making a private context", &number, error))
    return NULL;
  switch ((int) flags)
    {
    case GCUDA_CONTEXT_FLAGS_NONE:
      driver_flags = CU_CTX_SCHED_AUTO;
      break;
    case GCUDA_CONTEXT_FLAGS_SPIN:
      driver_flags = CU_CTX_SCHED_SPIN;
      break;
    case GCUDA_CONTEXT_FLAGS_YIELD:
      driver_flags = CU_CTX_SCHED_YIELD;
      break;
    case GCUDA_CONTEXT_FLAGS_BLOCKING_SYNC:
      driver_flags = CU_CTX_SCHED_BLOCKING_SYNC;
      break;
    default:
      _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "making a private context: flags 0x%x name no single way to wait", (unsigned int) flags);
      return NULL;
    }
  result = _gcuda_driver.CtxCreate (&handle, driver_flags, number);
  if (result == CUDA_SUCCESS)
    {
      result = _gcuda_driver.CtxGetId (handle, &id);
      /* The driver made it current; this library never changes what is current. */
      if (result == CUDA_SUCCESS)
        result = _gcuda_driver.CtxPopCurrent (&popped);
      if (result != CUDA_SUCCESS)
        _gcuda_driver.CtxDestroy (handle);
    }
  if (result != CUDA_SUCCESS)
    {
      _gcuda_fail_driver (error, result, "making a private context of device %d", (int) number);
      return NULL;
    }
  return _gcuda_context_new_for_box (_gcuda_context_box_new (handle, id, number, GCUDA_CONTEXT_PRIVATE, NULL), device);
}

/**
 * gcuda_context_new_for_handle:
 * @handle: a `CUcontext`, as a number
 * @owner: (nullable): an object that keeps the context alive
 * @error: return location for an error
 *
 * Wraps a context that another library made. It is never destroyed here.
 *
 * @owner is referenced until the last stream, event, buffer or recipe in the context is gone, and each memory pool of the library's
 * own that was freed to on one of its default streams; and dropped from the main context that is the thread-default one now.
 * Without an owner the caller keeps the context for that long. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for 0; `CONTEXT_IS_DESTROYED` and other answers of the driver; `FORKED`. A number that never
 * was a context is beyond what can be checked.
 *
 * Returns: (transfer full): a new context
 *
 * Since: 0.1
 */
GCudaContext *
gcuda_context_new_for_handle (guint64 handle,
                              GObject *owner,
                              GError **error)
{
  CUcontext context = (CUcontext) (guintptr) handle;
  GCudaContextScope scope;
  GCudaDevice *device;
  CUdevice number = 0;
  CUresult result, left;
  unsigned long long id = 0;

  if (handle == 0)
    {
      _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "wrapping a context: 0 is no context");
      return NULL;
    }
  if (_gcuda_driver_get (error) == NULL)
    return NULL;
  result = _gcuda_driver.CtxGetId (context, &id);
  if (result == CUDA_SUCCESS)
    result = _gcuda_context_scope_enter (&scope, context);
  if (result == CUDA_SUCCESS)
    {
      result = _gcuda_driver.CtxGetDevice (&number);
      left = _gcuda_context_scope_leave (&scope);
      if (result == CUDA_SUCCESS)
        result = left;
    }
  if (result != CUDA_SUCCESS)
    {
      _gcuda_fail_driver (error, result, "wrapping the context 0x%" G_GINT64_MODIFIER "x", handle);
      return NULL;
    }
  device = _gcuda_device_peek (number, error);
  if (device == NULL)
    {
      g_prefix_error (error, "wrapping the context 0x%" G_GINT64_MODIFIER "x: ", handle);
      return NULL;
    }
  return _gcuda_context_new_for_box (_gcuda_context_box_new (context, id, number, GCUDA_CONTEXT_FOREIGN, owner), device);
}

/**
 * gcuda_context_close:
 * @self: a context
 * @error: return location for an error, or %NULL
 *
 * Gives the context back: a primary one to the driver, which ends it if no other library holds it; a private one to be
 * destroyed. A context that is closed already stays so. Any thread; for a primary context it blocks until its work is
 * done.
 *
 * Errors: `IN_USE` while a stream, event, buffer, memory resource or recipe lives in it, or a pool that was freed to on one of its
 * default streams, and then nothing changes;
 * `FORKED`; what the driver answers to the release of a primary context, which is closed then all the same.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_context_close (GCudaContext *self,
                     GError **error)
{
  CUresult result = CUDA_SUCCESS;
  int number;

  g_return_val_if_fail (GCUDA_IS_CONTEXT (self), FALSE);

  if (self->box == NULL || g_atomic_int_get (&self->closed))
    return TRUE;
  if (!_gcuda_driver_check (error))
    return FALSE;
  /* Whatever was released and only waits to be freed is no use of the context. */
  if (g_atomic_int_get (&self->box->uses) > 1)
    _gcuda_reclaimer_settle (g_get_monotonic_time () + G_TIME_SPAN_SECOND, NULL);
  if (!_gcuda_context_box_end (self->box, 1))
    {
      /* Ended by another thread, just now. */
      if (g_atomic_int_get (&self->box->uses) <= 0)
        return TRUE;
      return _gcuda_fail (error, GCUDA_ERROR_IN_USE,
                          "closing a context of device %d: %d streams, events, memory resources or allocations are still in it",
                          (int) self->box->device, g_atomic_int_get (&self->box->uses) - 1);
    }
  g_atomic_int_set (&self->closed, TRUE);
  number = (int) self->box->device;
  if (self->box->kind == GCUDA_CONTEXT_PRIMARY)
    {
      _gcuda_device_forget_primary (self->device, self);
      if (_gcuda_context_box_is_alive (self->box))
        {
          for (guint i = 0; i < self->box->events->len; i++)
            _gcuda_driver.EventDestroy (g_ptr_array_index (self->box->events, i));
          g_ptr_array_set_size (self->box->events, 0);
        }
      result = _gcuda_driver.DevicePrimaryCtxRelease (self->box->device);
    }
  /* A handler may drop what the caller holds. */
  g_object_ref (self);
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_CLOSED]);
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_HANDLE]);
  g_object_unref (self);
  /* Closed it is; the answer of the release is of interest all the same. */
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_DEINITIALIZED)
    return _gcuda_fail_driver (error, result, "releasing the primary context of device %d", number);
  return TRUE;
}

/**
 * gcuda_context_is_closed: (get-property closed)
 * @self: a context
 *
 * Whether the context object was closed, or never was open. Any thread.
 *
 * Returns: whether it is closed
 *
 * Since: 0.1
 */
gboolean
gcuda_context_is_closed (GCudaContext *self)
{
  g_return_val_if_fail (GCUDA_IS_CONTEXT (self), TRUE);

  return self->box == NULL || g_atomic_int_get (&self->closed);
}

/**
 * gcuda_context_is_primary: (get-property primary)
 * @self: a context
 *
 * Whether this is the device's primary context. Any thread.
 *
 * Returns: whether it is the primary one
 *
 * Since: 0.1
 */
gboolean
gcuda_context_is_primary (GCudaContext *self)
{
  g_return_val_if_fail (GCUDA_IS_CONTEXT (self), FALSE);

  return self->box != NULL && self->box->kind == GCUDA_CONTEXT_PRIMARY;
}

/**
 * gcuda_context_get_device: (get-property device)
 * @self: a context
 *
 * The context's device. Any thread.
 *
 * Returns: (transfer none) (nullable): a device; %NULL for an object made by bare new
 *
 * Since: 0.1
 */
GCudaDevice *
gcuda_context_get_device (GCudaContext *self)
{
  g_return_val_if_fail (GCUDA_IS_CONTEXT (self), NULL);

  return self->device;
}

/**
 * gcuda_context_get_handle: (get-property handle)
 * @self: a context
 *
 * The `CUcontext`, as a number, for other libraries. It is valid as long as @self is open. Any thread.
 *
 * Returns: the handle; 0 when closed
 *
 * Since: 0.1
 */
guint64
gcuda_context_get_handle (GCudaContext *self)
{
  g_return_val_if_fail (GCUDA_IS_CONTEXT (self), 0);

  return gcuda_context_is_closed (self) ? 0 : (guint64) (guintptr) self->box->handle;
}

/**
 * gcuda_context_get_id: (get-property id)
 * @self: a context
 *
 * The driver's id of the context. Unlike a handle it is never used again. Any thread.
 *
 * Returns: the id; 0 for an object made by bare new
 *
 * Since: 0.1
 */
guint64
gcuda_context_get_id (GCudaContext *self)
{
  g_return_val_if_fail (GCUDA_IS_CONTEXT (self), 0);

  return self->box != NULL ? self->box->id : 0;
}

/**
 * gcuda_context_synchronize:
 * @self: a context
 * @error: return location for an error, or %NULL
 *
 * Waits until all work of this context is done, whatever context is current. Any thread; blocks it.
 *
 * Errors: `CLOSED`; `CONTEXT_IS_DESTROYED`; `FORKED`; `STREAM_CAPTURE_UNSUPPORTED` during a capture; what earlier work
 * left behind.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_context_synchronize (GCudaContext *self,
                           GError **error)
{
  GCudaContextBox *box;
  GCudaContextScope scope;
  CUresult result, left;

  g_return_val_if_fail (GCUDA_IS_CONTEXT (self), FALSE);

  box = _gcuda_context_hold (self, "synchronizing a context", error);
  if (box == NULL)
    return FALSE;
  result = _gcuda_context_scope_enter (&scope, box->handle);
  if (result == CUDA_SUCCESS)
    {
      result = _gcuda_driver.CtxSynchronize ();
      left = _gcuda_context_scope_leave (&scope);
      if (result == CUDA_SUCCESS)
        result = left;
    }
  if (result != CUDA_SUCCESS)
    _gcuda_fail_driver (error, result, "synchronizing a context of device %d", (int) box->device);
  _gcuda_context_box_unuse (box);
  return result == CUDA_SUCCESS;
}
