/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-buffer-private.h"

/**
 * GCudaBuffer:
 *
 * A piece of CUDA memory: an allocation, or a view of one.
 *
 * Memory is freed once, on the right stream and in the right context, when its last holder is gone: the buffer, its views,
 * and whatever else shares it. It does not matter which thread that is, or what context is current there. How memory is
 * freed is its deallocation recipe: the stream that was given when it was allocated, until
 * [method@Buffer.set_deallocation_stream] names another.
 *
 * A buffer that was closed keeps its size; its address is 0.
 *
 * Each method that touches memory takes the stream whose order it keeps. All may be called from any thread, whatever
 * context is current there.
 *
 * Since: 0.1
 */
struct _GCudaBuffer
{
  GObject parent_instance;

  GCudaAllocation *allocation; /* NULL for an object made by bare new; else to the end */
  gsize offset;
  gsize size; /* may grow, and while nothing else holds the memory shrink */
  gint closed;
  gboolean view;
};

G_DEFINE_FINAL_TYPE (GCudaBuffer, gcuda_buffer, G_TYPE_OBJECT)

enum
{
  PROP_0,
  PROP_SIZE,
  PROP_ADDRESS,
  PROP_DEVICE,
  PROP_RESOURCE,
  PROP_DEVICE_ACCESSIBLE,
  PROP_HOST_ACCESSIBLE,
  PROP_READ_ONLY,
  PROP_CLOSED,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

/* It may grow at any time, in another thread: who needs it twice asks once. */
static gsize
get_size (GCudaBuffer *self)
{
  return __atomic_load_n (&self->size, __ATOMIC_RELAXED);
}

/* TRUE, once: the hold on the memory is then the caller's to give back. */
static gboolean
end (GCudaBuffer *self)
{
  return self->allocation != NULL && !g_atomic_int_get (&self->closed) &&
         g_atomic_int_compare_and_exchange (&self->closed, FALSE, TRUE);
}

static void
gcuda_buffer_dispose (GObject *object)
{
  GCudaBuffer *self = GCUDA_BUFFER (object);

  if (end (self))
    _gcuda_allocation_unhold (self->allocation);

  G_OBJECT_CLASS (gcuda_buffer_parent_class)->dispose (object);
}

static void
gcuda_buffer_finalize (GObject *object)
{
  GCudaBuffer *self = GCUDA_BUFFER (object);

  g_clear_pointer (&self->allocation, _gcuda_allocation_unref);

  G_OBJECT_CLASS (gcuda_buffer_parent_class)->finalize (object);
}

static void
gcuda_buffer_get_property (GObject *object,
                           guint id,
                           GValue *value,
                           GParamSpec *pspec)
{
  GCudaBuffer *self = GCUDA_BUFFER (object);

  switch (id)
    {
    case PROP_SIZE:
      g_value_set_uint64 (value, gcuda_buffer_get_size (self));
      break;
    case PROP_ADDRESS:
      g_value_set_uint64 (value, gcuda_buffer_get_address (self));
      break;
    case PROP_DEVICE:
      g_value_set_object (value, gcuda_buffer_get_device (self));
      break;
    case PROP_RESOURCE:
      g_value_take_object (value, gcuda_buffer_get_resource (self));
      break;
    case PROP_DEVICE_ACCESSIBLE:
      g_value_set_boolean (value, gcuda_buffer_is_device_accessible (self));
      break;
    case PROP_HOST_ACCESSIBLE:
      g_value_set_boolean (value, gcuda_buffer_is_host_accessible (self));
      break;
    case PROP_READ_ONLY:
      g_value_set_boolean (value, gcuda_buffer_is_read_only (self));
      break;
    case PROP_CLOSED:
      g_value_set_boolean (value, gcuda_buffer_is_closed (self));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gcuda_buffer_class_init (GCudaBufferClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;

  object_class->dispose = gcuda_buffer_dispose;
  object_class->finalize = gcuda_buffer_finalize;
  object_class->get_property = gcuda_buffer_get_property;

  /**
   * GCudaBuffer:size: (getter get_size)
   *
   * How many bytes the buffer has. It stays when the buffer is closed. Only [method@VirtualMemoryResource.resize] changes it.
   *
   * Since: 0.1
   */
  properties[PROP_SIZE] = g_param_spec_uint64 ("size", NULL, NULL, 0, G_MAXUINT64, 0, flags);

  /**
   * GCudaBuffer:address: (getter get_address)
   *
   * The memory's address on the device; 0 when closed or empty. It changes when the buffer is closed, and where
   * [method@VirtualMemoryResource.resize] moves it.
   *
   * Since: 0.1
   */
  properties[PROP_ADDRESS] = g_param_spec_uint64 ("address", NULL, NULL, 0, G_MAXUINT64, 0, flags);

  /**
   * GCudaBuffer:device: (getter get_device)
   *
   * The device that the memory belongs to.
   *
   * Since: 0.1
   */
  properties[PROP_DEVICE] = g_param_spec_object ("device", NULL, NULL, GCUDA_TYPE_DEVICE, flags);

  /**
   * GCudaBuffer:resource: (getter get_resource)
   *
   * The memory resource that the buffer was allocated from.
   *
   * Since: 0.1
   */
  properties[PROP_RESOURCE] = g_param_spec_object ("resource", NULL, NULL, GCUDA_TYPE_MEMORY_RESOURCE, flags);

  /**
   * GCudaBuffer:device-accessible: (getter is_device_accessible)
   *
   * Whether devices can use the memory.
   *
   * Since: 0.1
   */
  properties[PROP_DEVICE_ACCESSIBLE] = g_param_spec_boolean ("device-accessible", NULL, NULL, FALSE, flags);

  /**
   * GCudaBuffer:host-accessible: (getter is_host_accessible)
   *
   * Whether the processor can use the memory.
   *
   * Since: 0.1
   */
  properties[PROP_HOST_ACCESSIBLE] = g_param_spec_boolean ("host-accessible", NULL, NULL, FALSE, flags);

  /**
   * GCudaBuffer:read-only: (getter is_read_only)
   *
   * Whether nobody may write the memory, as that of a [struct@GLib.Bytes].
   *
   * Since: 0.1
   */
  properties[PROP_READ_ONLY] = g_param_spec_boolean ("read-only", NULL, NULL, FALSE, flags);

  /**
   * GCudaBuffer:closed: (getter is_closed)
   *
   * Whether the buffer was closed.
   *
   * Since: 0.1
   */
  properties[PROP_CLOSED] = g_param_spec_boolean ("closed", NULL, NULL, TRUE, flags);

  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
gcuda_buffer_init (GCudaBuffer *self)
{
}

GCudaBuffer *
_gcuda_buffer_new (GCudaAllocation *allocation)
{
  GCudaBuffer *self = g_object_new (GCUDA_TYPE_BUFFER, NULL);

  self->allocation = allocation;
  self->size = _gcuda_allocation_get_size (allocation);
  return self;
}

GCudaAllocation *
_gcuda_buffer_hold (GCudaBuffer *self,
                    const char *what,
                    GError **error)
{
  if (!GCUDA_IS_BUFFER (self))
    {
      _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: no buffer was given", what);
      return NULL;
    }
  if (self->allocation != NULL && _gcuda_allocation_hold (self->allocation))
    {
      /* After the hold: others may hold the memory of a buffer that is closed. */
      if (!g_atomic_int_get (&self->closed))
        return self->allocation;
      _gcuda_allocation_unhold (self->allocation);
    }
  _gcuda_fail (error, GCUDA_ERROR_CLOSED, "%s: the buffer is closed", what);
  return NULL;
}

/**
 * gcuda_buffer_new_for_address:
 * @device: the device that the memory belongs to
 * @address: an address on the device
 * @size: how many bytes
 * @owner: (nullable): an object that keeps the memory
 * @stream: the stream that is the last to use the memory
 * @error: return location for an error
 *
 * Makes a buffer of memory that another library owns. It is never freed here. @owner is referenced, and dropped after the
 * last holder of the buffer is gone and the recipe's stream has passed, from the main context that is the thread-default
 * one now. Without an owner the caller keeps the memory for that long. On failure nothing is referenced. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for no device, no stream, or address or size without the other; `CLOSED`; `FORKED`.
 *
 * Returns: (transfer full): a new buffer
 *
 * Since: 0.1
 */
GCudaBuffer *
gcuda_buffer_new_for_address (GCudaDevice *device,
                              guint64 address,
                              guint64 size,
                              GObject *owner,
                              GCudaStream *stream,
                              GError **error)
{
  static const char what[] = "making a buffer for an address";
  GCudaStreamBox *box;
  CUdevice number;

  _gcuda_home_tidy ();
  if (!_gcuda_device_check (device, what, &number, error))
    return NULL;
  box = _gcuda_stream_hold (stream, what, error);
  if (box == NULL)
    return NULL;
  if ((address == 0) != (size == 0) || size > G_MAXSIZE / 2 || address > G_MAXUINT64 - size)
    _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: address 0x%" G_GINT64_MODIFIER "x with %" G_GUINT64_FORMAT " bytes is no memory", what, address, size);
  else if (_gcuda_allocation_reserve (box, owner == NULL, error))
    return _gcuda_buffer_new (_gcuda_allocation_new_foreign (device, address, size, owner, box));
  _gcuda_stream_box_unuse (box);
  return NULL;
}

/* Whether [offset, offset + size) lies in a buffer; overflow-safe. */
static gboolean
check_range (GCudaBuffer *self,
             guint64 offset,
             guint64 size,
             const char *what,
             GError **error)
{
  const gsize whole = get_size (self);

  if (offset <= whole && size <= whole - offset)
    return TRUE;
  return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT,
                      "%s: %" G_GUINT64_FORMAT " bytes at offset %" G_GUINT64_FORMAT " do not lie in a buffer of %" G_GSIZE_FORMAT,
                      what, size, offset, whole);
}

GCudaAllocation *
_gcuda_buffer_hold_range (GCudaBuffer *self,
                          guint64 offset,
                          guint64 size,
                          const char *what,
                          CUdeviceptr *address,
                          GError **error)
{
  GCudaAllocation *allocation = _gcuda_buffer_hold (self, what, error);

  if (allocation == NULL)
    return NULL;
  if (!check_range (self, offset, size, what, error))
    {
      _gcuda_allocation_unhold (allocation);
      return NULL;
    }
  *address = _gcuda_allocation_get_address (allocation) + self->offset + offset;
  return allocation;
}

/**
 * gcuda_buffer_new_view:
 * @buffer: a buffer, or a view of one
 * @offset: where the view starts in @buffer, in bytes
 * @size: how many bytes
 * @error: return location for an error
 *
 * Makes a buffer of a part of another. Both share the memory and its deallocation recipe; the memory lives until both are
 * gone. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for no buffer or a part that does not lie in it; `CLOSED`.
 *
 * Returns: (transfer full): a new buffer
 *
 * Since: 0.1
 */
GCudaBuffer *
gcuda_buffer_new_view (GCudaBuffer *buffer,
                       guint64 offset,
                       guint64 size,
                       GError **error)
{
  static const char what[] = "making a view of a buffer";
  GCudaAllocation *allocation = _gcuda_buffer_hold (buffer, what, error);
  GCudaBuffer *self;

  if (allocation == NULL)
    return NULL;
  if (!check_range (buffer, offset, size, what, error))
    {
      _gcuda_allocation_unhold (allocation);
      return NULL;
    }
  self = _gcuda_buffer_new (_gcuda_allocation_ref (allocation));
  self->offset = buffer->offset + offset;
  self->size = size;
  self->view = TRUE;
  return self;
}

gboolean
_gcuda_buffer_is_view (GCudaBuffer *self)
{
  return self->view;
}

gboolean
_gcuda_buffer_is_shared (GCudaBuffer *self,
                         GCudaAllocation *allocation)
{
  /* In this order: one that is not closed yet is one of the two holders that were counted. */
  return _gcuda_allocation_is_shared (allocation) || g_atomic_int_get (&self->closed);
}

gboolean
_gcuda_buffer_change (GCudaBuffer *self,
                      GCudaAllocation *allocation,
                      CUdeviceptr address,
                      gsize size)
{
  if (!_gcuda_allocation_begin_change (allocation))
    return FALSE;
  /* Closed meanwhile: then the other holder may be a view. */
  if (g_atomic_int_get (&self->closed))
    {
      _gcuda_allocation_end_change (allocation, _gcuda_allocation_get_address (allocation), _gcuda_allocation_get_size (allocation));
      return FALSE;
    }
  __atomic_store_n (&self->size, size, __ATOMIC_RELAXED);
  _gcuda_allocation_end_change (allocation, address, size);
  return TRUE;
}

void
_gcuda_buffer_grow (GCudaBuffer *self,
                    GCudaAllocation *allocation,
                    gsize size)
{
  _gcuda_allocation_grow (allocation, size);
  __atomic_store_n (&self->size, size, __ATOMIC_RELAXED);
}

void
_gcuda_buffer_notify_change (GCudaBuffer *self,
                             gboolean address,
                             gboolean size)
{
  /* A handler may drop what the caller holds. */
  g_object_ref (self);
  if (address)
    g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_ADDRESS]);
  if (size)
    g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_SIZE]);
  g_object_unref (self);
}

/**
 * gcuda_buffer_set_deallocation_stream:
 * @self: a buffer
 * @stream: the stream on which to free the memory
 * @error: return location for an error, or %NULL
 *
 * Replaces the memory's deallocation recipe: whoever drops the last hold, the memory is freed on @stream, behind the work
 * that is there then. A program calls this when it hands a buffer over to another stream for good.
 *
 * It orders nothing: that @stream comes after the buffer's other uses is the caller's to see to. It waits for nothing. It
 * holds for the views of the buffer and for all else that shares the memory. @stream may belong to another context or
 * device. The recipe keeps what it needs of the stream, so that closing it later is fine.
 *
 * For a per-thread default stream the recipe means the stream of the thread that makes this call.
 *
 * Any thread. On failure the recipe of before stands.
 *
 * Errors: `CLOSED` for a closed buffer or stream; `INVALID_ARGUMENT` for no stream; `FORKED`.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_buffer_set_deallocation_stream (GCudaBuffer *self,
                                      GCudaStream *stream,
                                      GError **error)
{
  static const char what[] = "setting the deallocation stream";
  GCudaAllocation *allocation;
  GCudaStreamBox *box;
  gboolean success;

  g_return_val_if_fail (GCUDA_IS_BUFFER (self), FALSE);

  allocation = _gcuda_buffer_hold (self, what, error);
  if (allocation == NULL)
    return FALSE;
  /* Whatever became of the stream's context: a release finds out. */
  box = _gcuda_stream_hold_unchecked (stream, what, error);
  success = box != NULL && _gcuda_allocation_set_stream (allocation, box, error);
  if (G_UNLIKELY (_gcuda_checker.declare_deallocation_stream != NULL) && success)
    _gcuda_checker.declare_deallocation_stream (_gcuda_allocation_get_address (allocation));
  if (box != NULL && !success)
    _gcuda_stream_box_unuse (box);
  _gcuda_allocation_unhold (allocation);
  return success;
}

/**
 * gcuda_buffer_close:
 * @self: a buffer
 * @stream: (nullable): the stream on which to free the memory, or %NULL for the recipe as it is
 * @error: return location for an error, or %NULL
 *
 * Gives the buffer's hold on its memory back. The memory is freed by its recipe when nothing else holds it, such as a view.
 * With @stream this is [method@Buffer.set_deallocation_stream] first; if that fails the buffer stays open as it was.
 *
 * It waits for nothing. Closing a closed buffer does nothing, whatever the stream. Any thread.
 *
 * Errors: as [method@Buffer.set_deallocation_stream], with a @stream only.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_buffer_close (GCudaBuffer *self,
                    GCudaStream *stream,
                    GError **error)
{
  GCudaMemoryResource *resource;
  GCudaHome *home = NULL;

  g_return_val_if_fail (GCUDA_IS_BUFFER (self), FALSE);

  if (gcuda_buffer_is_closed (self))
    return TRUE;
  if (stream != NULL && !gcuda_buffer_set_deallocation_stream (self, stream, error))
    return FALSE;
  if (!end (self))
    return TRUE; /* by another thread, just now */
  /* A resource that is bound to this thread may have been waiting for a call on it. */
  resource = _gcuda_allocation_get_resource (self->allocation);
  if (resource != NULL && _gcuda_memory_resource_get_home (resource) != NULL)
    home = _gcuda_home_ref (_gcuda_memory_resource_get_home (resource));
  _gcuda_allocation_unhold (self->allocation);
  if (home != NULL)
    {
      _gcuda_home_drain (home);
      _gcuda_home_unref (home);
    }
  /* A handler may drop what the caller holds. */
  g_object_ref (self);
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_CLOSED]);
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_ADDRESS]);
  g_object_unref (self);
  return TRUE;
}

/**
 * gcuda_buffer_is_closed: (get-property closed)
 * @self: a buffer
 *
 * Whether the buffer was closed, or never was open. Any thread.
 *
 * Returns: whether it is closed
 *
 * Since: 0.1
 */
gboolean
gcuda_buffer_is_closed (GCudaBuffer *self)
{
  g_return_val_if_fail (GCUDA_IS_BUFFER (self), TRUE);

  return self->allocation == NULL || g_atomic_int_get (&self->closed);
}

/**
 * gcuda_buffer_get_size: (get-property size)
 * @self: a buffer
 *
 * How many bytes the buffer has, also after it was closed. Any thread.
 *
 * Returns: a number of bytes
 *
 * Since: 0.1
 */
guint64
gcuda_buffer_get_size (GCudaBuffer *self)
{
  g_return_val_if_fail (GCUDA_IS_BUFFER (self), 0);

  return get_size (self);
}

/**
 * gcuda_buffer_get_address: (get-property address)
 * @self: a buffer
 *
 * The memory's address on the device, a `CUdeviceptr`. The processor can't read it. It is valid as long as the buffer is
 * open. Any thread.
 *
 * Returns: the address; 0 when closed or empty
 *
 * Since: 0.1
 */
guint64
gcuda_buffer_get_address (GCudaBuffer *self)
{
  CUdeviceptr address;

  g_return_val_if_fail (GCUDA_IS_BUFFER (self), 0);

  if (gcuda_buffer_is_closed (self))
    return 0;
  address = _gcuda_allocation_get_address (self->allocation);
  return address != 0 ? address + self->offset : 0;
}

/**
 * gcuda_buffer_get_device: (get-property device)
 * @self: a buffer
 *
 * The device that the memory belongs to. Any thread.
 *
 * Returns: (transfer none) (nullable): a device; %NULL if the memory belongs to none, and when closed
 *
 * Since: 0.1
 */
GCudaDevice *
gcuda_buffer_get_device (GCudaBuffer *self)
{
  g_return_val_if_fail (GCUDA_IS_BUFFER (self), NULL);

  return gcuda_buffer_is_closed (self) ? NULL : _gcuda_allocation_get_device (self->allocation);
}

/**
 * gcuda_buffer_get_resource: (get-property resource)
 * @self: a buffer
 *
 * The memory resource that the buffer was allocated from. Any thread.
 *
 * Returns: (transfer full) (nullable): a memory resource; %NULL for memory of another library, and when closed
 *
 * Since: 0.1
 */
GCudaMemoryResource *
gcuda_buffer_get_resource (GCudaBuffer *self)
{
  const GCudaResourceOperations *operations;
  GCudaAllocation *allocation;
  GCudaMemoryResource *resource;

  g_return_val_if_fail (GCUDA_IS_BUFFER (self), NULL);

  /* With a hold: closing in another thread may drop the allocation's reference meanwhile. */
  allocation = _gcuda_buffer_hold (self, "getting the resource", NULL);
  if (allocation == NULL)
    return NULL;
  resource = _gcuda_allocation_get_resource (allocation);
  operations = resource != NULL ? _gcuda_memory_resource_operations (resource) : NULL;
  resource = resource != NULL && (operations == NULL || !operations->internal) ? g_object_ref (resource) : NULL;
  _gcuda_allocation_unhold (allocation);
  return resource;
}

/**
 * gcuda_buffer_is_device_accessible: (get-property device-accessible)
 * @self: a buffer
 *
 * Whether devices can use the memory. Any thread.
 *
 * Returns: whether they can; %FALSE when closed
 *
 * Since: 0.1
 */
gboolean
gcuda_buffer_is_device_accessible (GCudaBuffer *self)
{
  GCudaMemoryResource *resource;
  GCudaAllocation *allocation;
  gboolean accessible;

  g_return_val_if_fail (GCUDA_IS_BUFFER (self), FALSE);

  allocation = _gcuda_buffer_hold (self, "asking who can use a buffer", NULL);
  if (allocation == NULL)
    return FALSE;
  resource = _gcuda_allocation_get_resource (allocation);
  accessible = resource == NULL || gcuda_memory_resource_is_device_accessible (resource);
  _gcuda_allocation_unhold (allocation);
  return accessible;
}

/**
 * gcuda_buffer_is_host_accessible: (get-property host-accessible)
 * @self: a buffer
 *
 * Whether the processor can use the memory. Any thread.
 *
 * Returns: whether it can; %FALSE when closed
 *
 * Since: 0.1
 */
gboolean
gcuda_buffer_is_host_accessible (GCudaBuffer *self)
{
  GCudaMemoryResource *resource;
  GCudaAllocation *allocation;
  gboolean accessible;

  g_return_val_if_fail (GCUDA_IS_BUFFER (self), FALSE);

  allocation = _gcuda_buffer_hold (self, "asking who can use a buffer", NULL);
  if (allocation == NULL)
    return FALSE;
  resource = _gcuda_allocation_get_resource (allocation);
  accessible = resource != NULL && gcuda_memory_resource_is_host_accessible (resource);
  _gcuda_allocation_unhold (allocation);
  return accessible;
}

/**
 * gcuda_buffer_is_read_only: (get-property read-only)
 * @self: a buffer
 *
 * Whether nobody may write the memory: that of [ctor@Buffer.new_for_bytes] never changes, and views of it share that. What
 * would write there is refused; who hands the address on to another library has to tell it. Any thread.
 *
 * Returns: whether it is read only; %FALSE when closed
 *
 * Since: 0.1
 */
gboolean
gcuda_buffer_is_read_only (GCudaBuffer *self)
{
  GCudaAllocation *allocation;
  gboolean read_only;

  g_return_val_if_fail (GCUDA_IS_BUFFER (self), FALSE);

  allocation = _gcuda_buffer_hold (self, "asking who can use a buffer", NULL);
  if (allocation == NULL)
    return FALSE;
  read_only = !_gcuda_allocation_check_writable (allocation, "asking who can use a buffer", NULL);
  _gcuda_allocation_unhold (allocation);
  return read_only;
}

/* Filling */

gboolean
_gcuda_buffer_check_pattern (guint64 value,
                             guint width,
                             guint64 address,
                             guint64 size,
                             const char *what,
                             GError **error)
{
  if (width != 1 && width != 2 && width != 4)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: a pattern has 1, 2 or 4 bytes, not %u", what, width);
  if (value >> (8 * width) != 0)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: the value 0x%" G_GINT64_MODIFIER "x does not fit a pattern of %u bytes", what, value, width);
  if (size % width != 0)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: %" G_GUINT64_FORMAT " bytes are no multiple of a pattern of %u", what, size, width);
  if (address % width != 0)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: the place is not aligned to a pattern of %u bytes", what, width);
  return TRUE;
}

/**
 * gcuda_buffer_fill_range:
 * @self: a buffer
 * @offset: where to start, in bytes
 * @size: how many bytes
 * @value: the pattern, in the machine's byte order
 * @width: how many bytes the pattern has: 1, 2 or 4
 * @stream: the stream that does it
 * @error: return location for an error, or %NULL
 *
 * Fills a part of the buffer with a pattern, in the order of @stream. Blocks no thread. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for another width, a value that does not fit it, an offset or size that is no multiple of it, a
 * part that does not lie in the buffer, or no stream; `CLOSED`; `FORKED`; what the driver answers. Then nothing was
 * written.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_buffer_fill_range (GCudaBuffer *self,
                         guint64 offset,
                         guint64 size,
                         guint64 value,
                         guint width,
                         GCudaStream *stream,
                         GError **error)
{
  static const char what[] = "filling a buffer";
  GCudaAllocation *allocation;
  GCudaStreamCall call;
  CUdeviceptr address;
  CUresult result = CUDA_SUCCESS;
  gboolean success = FALSE;

  g_return_val_if_fail (GCUDA_IS_BUFFER (self), FALSE);

  allocation = _gcuda_buffer_hold (self, what, error);
  if (allocation == NULL)
    return FALSE;
  address = _gcuda_allocation_get_address (allocation) + self->offset + offset;
  if (check_range (self, offset, size, what, error) && _gcuda_allocation_check_writable (allocation, what, error) &&
      _gcuda_buffer_check_pattern (value, width, size != 0 ? address : 0, size, what, error) &&
      _gcuda_stream_call_begin_on (&call, stream, allocation, NULL, what, error))
    {
      if (size > 0 && width == 1)
        result = _gcuda_driver.MemsetD8Async (address, (unsigned char) value, size, call.handle);
      else if (size > 0 && width == 2)
        result = _gcuda_driver.MemsetD16Async (address, (unsigned short) value, size / 2, call.handle);
      else if (size > 0)
        result = _gcuda_driver.MemsetD32Async (address, (unsigned int) value, size / 4, call.handle);
      success = _gcuda_stream_call_end (&call, result, what, error);
    }
  _gcuda_allocation_unhold (allocation);
  return success;
}

/**
 * gcuda_buffer_fill:
 * @self: a buffer
 * @value: the pattern, in the machine's byte order
 * @width: how many bytes the pattern has: 1, 2 or 4
 * @stream: the stream that does it
 * @error: return location for an error, or %NULL
 *
 * Fills the whole buffer with a pattern; see [method@Buffer.fill_range].
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_buffer_fill (GCudaBuffer *self,
                   guint64 value,
                   guint width,
                   GCudaStream *stream,
                   GError **error)
{
  g_return_val_if_fail (GCUDA_IS_BUFFER (self), FALSE);

  return gcuda_buffer_fill_range (self, 0, get_size (self), value, width, stream, error);
}

/* Whether @rows rows of @row_size bytes, @pitch apart, lie in a buffer. */
static gboolean
check_rows (GCudaBuffer *self,
            guint64 offset,
            guint64 pitch,
            guint64 row_size,
            guint64 rows,
            const char *what,
            GError **error)
{
  guint64 extent;

  if (row_size == 0 || rows == 0)
    return check_range (self, offset, 0, what, error);
  if (pitch < row_size)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT,
                        "%s: rows of %" G_GUINT64_FORMAT " bytes do not fit a pitch of %" G_GUINT64_FORMAT, what, row_size, pitch);
  if (!g_uint64_checked_mul (&extent, pitch, rows - 1) || !g_uint64_checked_add (&extent, extent, row_size))
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT,
                        "%s: %" G_GUINT64_FORMAT " rows with a pitch of %" G_GUINT64_FORMAT " bytes are more than an address space holds", what, rows, pitch);
  return check_range (self, offset, extent, what, error);
}

/**
 * gcuda_buffer_fill_2d:
 * @self: a buffer
 * @offset: where the first row starts, in bytes
 * @pitch: how far apart rows are, in bytes
 * @columns: how many patterns a row has
 * @rows: how many rows
 * @value: the pattern, in the machine's byte order
 * @width: how many bytes the pattern has: 1, 2 or 4
 * @stream: the stream that does it
 * @error: return location for an error, or %NULL
 *
 * Fills a rectangle with a pattern, in the order of @stream. What lies between the rows is not touched. Blocks no thread.
 * Any thread.
 *
 * Errors: as [method@Buffer.fill_range]; `INVALID_ARGUMENT` for a pitch that is smaller than a row or no multiple of
 * @width.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_buffer_fill_2d (GCudaBuffer *self,
                      guint64 offset,
                      guint64 pitch,
                      guint64 columns,
                      guint64 rows,
                      guint64 value,
                      guint width,
                      GCudaStream *stream,
                      GError **error)
{
  static const char what[] = "filling rows of a buffer";
  GCudaAllocation *allocation;
  GCudaStreamCall call;
  CUdeviceptr address;
  CUresult result = CUDA_SUCCESS;
  guint64 row_size;
  gboolean success = FALSE;

  g_return_val_if_fail (GCUDA_IS_BUFFER (self), FALSE);

  allocation = _gcuda_buffer_hold (self, what, error);
  if (allocation == NULL)
    return FALSE;
  address = _gcuda_allocation_get_address (allocation) + self->offset + offset;
  if (!g_uint64_checked_mul (&row_size, columns, MAX (width, 1)))
    _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: a row of %" G_GUINT64_FORMAT " patterns is more than an address space holds", what, columns);
  else if (_gcuda_buffer_check_pattern (value, width, address, pitch, what, error) && _gcuda_allocation_check_writable (allocation, what, error) &&
           check_rows (self, offset, pitch, row_size, rows, what, error) &&
           _gcuda_stream_call_begin_on (&call, stream, allocation, NULL, what, error))
    {
      if (columns > 0 && rows > 0)
        switch (width)
          {
          case 1:
            result = _gcuda_driver.MemsetD2D8Async (address, pitch, (unsigned char) value, columns, rows, call.handle);
            break;
          case 2:
            result = _gcuda_driver.MemsetD2D16Async (address, pitch, (unsigned short) value, columns, rows, call.handle);
            break;
          default:
            result = _gcuda_driver.MemsetD2D32Async (address, pitch, (unsigned int) value, columns, rows, call.handle);
            break;
          }
      success = _gcuda_stream_call_end (&call, result, what, error);
    }
  _gcuda_allocation_unhold (allocation);
  return success;
}

/* From and to the host */

/* Begins a copy from or to host data. The driver looks at it from the current context, and may crash where there is none: that
 * of the memory, where the stream is of another device. But for a default stream the current context says which it is. */
static gboolean
host_copy_begin (GCudaStreamCall *call,
                 GCudaAllocation *allocation,
                 gboolean kept,
                 GCudaStream *stream,
                 const char *what,
                 GError **error)
{
  GCudaDevice *device = _gcuda_allocation_get_device (allocation);
  GCudaContextBox *context;
  CUresult result;

  if (!_gcuda_stream_call_begin_on (call, stream, kept ? allocation : NULL, NULL, what, error))
    return FALSE;
  if (device != NULL && gcuda_stream_get_device (stream) != device && !_gcuda_allocation_check_portable (allocation, what, error))
    {
      _gcuda_stream_call_end (call, CUDA_SUCCESS, what, NULL);
      return FALSE;
    }
  if (device == NULL || _gcuda_allocation_is_on_host (allocation) || _gcuda_stream_box_is_default (call->box) || gcuda_stream_get_device (stream) == device)
    return _gcuda_stream_call_enter (call, _gcuda_allocation_spans (allocation) || gcuda_stream_get_device (stream) != device, what, error);
  context = _gcuda_device_hold_primary_context (device, what, error);
  if (context == NULL)
    {
      _gcuda_stream_call_end (call, CUDA_SUCCESS, what, NULL);
      return FALSE;
    }
  /* The device keeps its primary context while the allocation is held. */
  result = _gcuda_context_scope_enter (&call->scope, context->handle);
  _gcuda_context_box_unuse (context);
  return result == CUDA_SUCCESS || _gcuda_stream_call_end (call, result, what, error);
}

/* Memory of the host's is found by its address: no call may name it as a device's. */
static CUresult
copy_host (GCudaAllocation *allocation,
           CUdeviceptr address,
           gpointer data,
           gsize size,
           gboolean upload,
           CUstream handle)
{
  if (_gcuda_allocation_is_on_host (allocation))
    return upload ? _gcuda_driver.MemcpyAsync (address, (guintptr) data, size, handle) : _gcuda_driver.MemcpyAsync ((guintptr) data, address, size, handle);
  return upload ? _gcuda_driver.MemcpyHtoDAsync (address, data, size, handle) : _gcuda_driver.MemcpyDtoHAsync (data, address, size, handle);
}

/**
 * gcuda_buffer_upload:
 * @self: a buffer
 * @offset: where to put the data, in bytes
 * @bytes: the data
 * @stream: the stream that does it
 * @error: return location for an error, or %NULL
 *
 * Copies host data into the buffer, in the order of @stream. @bytes is kept until the stream has passed the copy; on a
 * stream that is being captured, until the graph and its launches are gone. It is dropped by a thread of this library.
 * Any thread; it is blocked for as long as the driver needs to take the data, for memory that is not page-locked.
 *
 * Errors: `INVALID_ARGUMENT` for data that does not lie in the buffer there, no data, or no stream; `CLOSED`; `FORKED`;
 * what the driver answers.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_buffer_upload (GCudaBuffer *self,
                     guint64 offset,
                     GBytes *bytes,
                     GCudaStream *stream,
                     GError **error)
{
  static const char what[] = "uploading to a buffer";
  GCudaAllocation *allocation;
  GCudaStreamCall call;
  CUresult result;
  gconstpointer data;
  gsize size = 0;
  gboolean success = FALSE;

  g_return_val_if_fail (GCUDA_IS_BUFFER (self), FALSE);

  if (bytes == NULL)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: no data was given", what);
  allocation = _gcuda_buffer_hold (self, what, error);
  if (allocation == NULL)
    return FALSE;
  data = g_bytes_get_data (bytes, &size);
  if (check_range (self, offset, size, what, error) && _gcuda_allocation_check_writable (allocation, what, error) &&
      host_copy_begin (&call, allocation, TRUE, stream, what, error))
    {
      if (size == 0)
        success = _gcuda_stream_call_end (&call, CUDA_SUCCESS, what, error);
      /* Of the legacy default stream it's asked whether others' captures forbid it: the copy would break them. */
      else if ((call.box->kind != GCUDA_STREAM_LEGACY || _gcuda_stream_call_find_capture (&call, what, error)) &&
               _gcuda_stream_call_keep (&call, g_bytes_ref (bytes), (GDestroyNotify) g_bytes_unref, what, error))
        {
          result = copy_host (allocation, _gcuda_allocation_get_address (allocation) + self->offset + offset, (gpointer) data, size, TRUE, call.handle);
          _gcuda_stream_call_keep_end (&call, result == CUDA_SUCCESS);
          success = _gcuda_stream_call_end (&call, result, what, error);
        }
      else
        {
          _gcuda_stream_call_keep_end (&call, FALSE);
          _gcuda_stream_call_end (&call, CUDA_SUCCESS, what, NULL);
        }
    }
  _gcuda_allocation_unhold (allocation);
  return success;
}

/**
 * gcuda_buffer_upload_data:
 * @self: a buffer
 * @offset: where to put the data, in bytes
 * @data: (array length=length) (element-type guint8): the data
 * @length: how many bytes
 * @stream: the stream that does it
 * @error: return location for an error, or %NULL
 *
 * Copies host data into the buffer, in the order of @stream. The data is copied first, so the caller may change or free it
 * at once; [method@Buffer.upload] saves that copy. Any thread.
 *
 * Errors: as [method@Buffer.upload]; `INVALID_ARGUMENT` for a length without data.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_buffer_upload_data (GCudaBuffer *self,
                          guint64 offset,
                          const guint8 *data,
                          gsize length,
                          GCudaStream *stream,
                          GError **error)
{
  g_autoptr (GBytes) bytes = NULL;

  g_return_val_if_fail (GCUDA_IS_BUFFER (self), FALSE);

  if (data == NULL && length > 0)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "uploading to a buffer: no data was given");
  /* Before the data is copied: a length that is far off must not be read. */
  if (!gcuda_buffer_is_closed (self) && !check_range (self, offset, length, "uploading to a buffer", error))
    return FALSE;
  bytes = g_bytes_new (data, length);
  return gcuda_buffer_upload (self, offset, bytes, stream, error);
}

/* Waits for a copy into host memory. FALSE: the driver may still write there. */
static gboolean
wait_for_copy (CUstream handle,
               CUresult *result)
{
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  CUresult again;

  *result = _gcuda_driver.StreamSynchronize (handle);
  if (*result == CUDA_SUCCESS || _gcuda_result_is_sticky (*result))
    return TRUE;
  /* Another thread's capture may forbid waiting, but the copy is on its way: wait all the same, in the mode that is allowed
   * to. */
  _gcuda_driver.ThreadExchangeStreamCaptureMode (&mode);
  again = _gcuda_driver.StreamSynchronize (handle);
  _gcuda_driver.ThreadExchangeStreamCaptureMode (&mode);
  return again == CUDA_SUCCESS || _gcuda_result_is_sticky (again);
}

/* @owned is @data if that is the library's: taken over on a failure that leaves it in use. */
static gboolean
download (GCudaBuffer *self,
          guint64 offset,
          gpointer data,
          gpointer *owned,
          gsize length,
          GCudaStream *stream,
          GError **error)
{
  static const char what[] = "downloading from a buffer";
  GCudaAllocation *allocation;
  GCudaStreamCall call;
  CUresult result;
  gboolean success = FALSE;

  if (data == NULL && length > 0)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: no place was given for the data", what);
  allocation = _gcuda_buffer_hold (self, what, error);
  if (allocation == NULL)
    return FALSE;
  if (check_range (self, offset, length, what, error) && host_copy_begin (&call, allocation, FALSE, stream, what, error))
    {
      if (length == 0)
        success = _gcuda_stream_call_end (&call, CUDA_SUCCESS, what, error);
      else if (_gcuda_stream_call_refuse_capture (&call, what, error))
        {
          _gcuda_stream_call_touch (&call, allocation, NULL);
          result = copy_host (allocation, _gcuda_allocation_get_address (allocation) + self->offset + offset, data, length, FALSE, call.handle);
          if (result == CUDA_SUCCESS && !wait_for_copy (call.handle, &result) && owned != NULL)
            _gcuda_stream_call_keep_late (&call, g_steal_pointer (owned), g_free);
          success = _gcuda_stream_call_end (&call, result, what, error);
        }
      else
        _gcuda_stream_call_end (&call, CUDA_SUCCESS, what, NULL);
    }
  _gcuda_allocation_unhold (allocation);
  return success;
}

/**
 * gcuda_buffer_download_into: (skip)
 * @self: a buffer
 * @offset: where to start, in bytes
 * @data: where to put the data
 * @length: how many bytes
 * @stream: the stream that does it
 * @error: return location for an error, or %NULL
 *
 * Copies a part of the buffer to the host, in the order of @stream, and waits for it. Any thread; blocks it.
 *
 * Errors: as [method@Buffer.download]; `INVALID_ARGUMENT` for no place to put the data.
 *
 * Returns: %TRUE, or %FALSE with @error set, and then what @data holds is undefined
 *
 * Since: 0.1
 */
gboolean
gcuda_buffer_download_into (GCudaBuffer *self,
                            guint64 offset,
                            gpointer data,
                            gsize length,
                            GCudaStream *stream,
                            GError **error)
{
  g_return_val_if_fail (GCUDA_IS_BUFFER (self), FALSE);

  return download (self, offset, data, NULL, length, stream, error);
}

/**
 * gcuda_buffer_download:
 * @self: a buffer
 * @offset: where to start, in bytes
 * @size: how many bytes
 * @stream: the stream that does it
 * @error: return location for an error
 *
 * Copies a part of the buffer to the host, in the order of @stream, and waits for it. Any thread; blocks it.
 *
 * Errors: `INVALID_ARGUMENT` for a part that does not lie in the buffer, or no stream; `CAPTURING`, and the capture stays
 * valid; `CLOSED`; `FORKED`; what the driver answers, for this copy and for earlier work.
 *
 * Returns: (transfer full): the data
 *
 * Since: 0.1
 */
GBytes *
gcuda_buffer_download (GCudaBuffer *self,
                       guint64 offset,
                       guint64 size,
                       GCudaStream *stream,
                       GError **error)
{
  static const char what[] = "downloading from a buffer";
  g_autofree gpointer data = NULL;

  g_return_val_if_fail (GCUDA_IS_BUFFER (self), NULL);

  if (!gcuda_buffer_is_closed (self) && !check_range (self, offset, size, what, error))
    return NULL;
  if (!gcuda_buffer_is_closed (self) && size > 0)
    {
      data = g_try_malloc (size);
      if (data == NULL)
        {
          _gcuda_fail (error, GCUDA_ERROR_OUT_OF_MEMORY, "%s: the host has no %" G_GUINT64_FORMAT " bytes for the data", what, size);
          return NULL;
        }
    }
  if (!download (self, offset, data, &data, data != NULL ? size : 0, stream, error))
    return NULL;
  return g_bytes_new_take (g_steal_pointer (&data), size);
}

/**
 * gcuda_stream_declare_access:
 * @self: the stream that the work was queued on
 * @buffer: a buffer that the work touches
 * @offset: the first byte
 * @size: how many bytes
 * @access: what the work does to them
 * @error: return location for an error, or %NULL
 *
 * Tells the ordering checker what a kernel, or other work that this library did not queue, does to memory. Call it right
 * after the work was queued, once for each buffer. The simulated driver runs no kernels: there this stands for the kernel.
 * While the stream is being captured, it belongs to the node that was captured last.
 *
 * On a driver that nothing checks this does nothing, arguments included, and costs nothing. See
 * [the guide](testing-without-a-gpu.html). Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for no buffer, a part that does not lie in the buffer, or no access; `CLOSED`; `FORKED`.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_stream_declare_access (GCudaStream *self,
                             GCudaBuffer *buffer,
                             guint64 offset,
                             guint64 size,
                             GCudaAccessFlags access,
                             GError **error)
{
  static const char what[] = "declaring an access";
  GCudaAllocation *allocation;
  GCudaStreamCall call;
  CUdeviceptr address;
  gboolean success = FALSE;

  if (_gcuda_checker.declare_access == NULL)
    return TRUE;
  g_return_val_if_fail (GCUDA_IS_STREAM (self), FALSE);
  if (!GCUDA_IS_BUFFER (buffer))
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: no buffer was given", what);
  if (access == GCUDA_ACCESS_FLAGS_NONE || (access & ~(GCUDA_ACCESS_FLAGS_READ | GCUDA_ACCESS_FLAGS_WRITE)) != 0)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: 0x%x is neither read nor write", what, (guint) access);

  allocation = _gcuda_buffer_hold_range (buffer, offset, size, what, &address, error);
  if (allocation == NULL)
    return FALSE;
  if (_gcuda_stream_call_begin (&call, self, what, error))
    {
      if (size > 0)
        _gcuda_checker.declare_access (call.handle, address, size, (access & GCUDA_ACCESS_FLAGS_WRITE) != 0, "a declared access");
      success = _gcuda_stream_call_end (&call, CUDA_SUCCESS, what, error);
    }
  _gcuda_allocation_unhold (allocation);
  return success;
}
