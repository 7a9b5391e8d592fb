/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-host-map.h"

#include "gcuda-buffer-private.h"

/**
 * GCudaHostMap:
 *
 * A scope in which the processor uses a buffer's memory; made by [method@Buffer.map].
 *
 * The memory stays as long as the map does, also when the buffer is closed meanwhile, and virtual memory is not moved. It
 * is freed by its recipe when map, buffer and all else that holds it are gone.
 *
 * Ends with [method@HostMap.unmap] or the last reference. In Python it is a context manager that gives a `memoryview`.
 * Several maps of one buffer may be open. Any thread.
 *
 * Since: 0.1
 */
struct _GCudaHostMap
{
  GObject parent_instance;

  GCudaAllocation *allocation; /* with a hold, until it is unmapped */
  gpointer data;
  gsize size;
  GCudaMapFlags flags;
  gint mapped;
};

G_DEFINE_FINAL_TYPE (GCudaHostMap, gcuda_host_map, G_TYPE_OBJECT)

enum
{
  PROP_0,
  PROP_MAPPED,
  PROP_SYNCHRONIZED,
  PROP_WRITABLE,
  PROP_SIZE,
  PROP_ADDRESS,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

/* TRUE, once. */
static gboolean
end (GCudaHostMap *self)
{
  if (!g_atomic_int_compare_and_exchange (&self->mapped, TRUE, FALSE))
    return FALSE;
  _gcuda_allocation_unhold (self->allocation);
  return TRUE;
}

static void
gcuda_host_map_dispose (GObject *object)
{
  end (GCUDA_HOST_MAP (object));

  G_OBJECT_CLASS (gcuda_host_map_parent_class)->dispose (object);
}

static void
gcuda_host_map_finalize (GObject *object)
{
  GCudaHostMap *self = GCUDA_HOST_MAP (object);

  g_clear_pointer (&self->allocation, _gcuda_allocation_unref);

  G_OBJECT_CLASS (gcuda_host_map_parent_class)->finalize (object);
}

static void
gcuda_host_map_get_property (GObject *object,
                             guint id,
                             GValue *value,
                             GParamSpec *pspec)
{
  GCudaHostMap *self = GCUDA_HOST_MAP (object);

  switch (id)
    {
    case PROP_MAPPED:
      g_value_set_boolean (value, gcuda_host_map_is_mapped (self));
      break;
    case PROP_SYNCHRONIZED:
      g_value_set_boolean (value, gcuda_host_map_is_synchronized (self));
      break;
    case PROP_WRITABLE:
      g_value_set_boolean (value, gcuda_host_map_is_writable (self));
      break;
    case PROP_SIZE:
      g_value_set_uint64 (value, gcuda_host_map_get_size (self));
      break;
    case PROP_ADDRESS:
      g_value_set_uint64 (value, gcuda_host_map_get_address (self));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gcuda_host_map_class_init (GCudaHostMapClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;

  object_class->dispose = gcuda_host_map_dispose;
  object_class->finalize = gcuda_host_map_finalize;
  object_class->get_property = gcuda_host_map_get_property;

  /**
   * GCudaHostMap:mapped: (getter is_mapped)
   *
   * Whether the scope lasts.
   *
   * Since: 0.1
   */
  properties[PROP_MAPPED] = g_param_spec_boolean ("mapped", NULL, NULL, FALSE, flags);

  /**
   * GCudaHostMap:synchronized: (getter is_synchronized)
   *
   * Whether mapping waited for the work that used the memory.
   *
   * Since: 0.1
   */
  properties[PROP_SYNCHRONIZED] = g_param_spec_boolean ("synchronized", NULL, NULL, FALSE, flags);

  /**
   * GCudaHostMap:writable: (getter is_writable)
   *
   * Whether the memory was mapped for writing.
   *
   * Since: 0.1
   */
  properties[PROP_WRITABLE] = g_param_spec_boolean ("writable", NULL, NULL, FALSE, flags);

  /**
   * GCudaHostMap:size: (getter get_size)
   *
   * How many bytes are mapped.
   *
   * Since: 0.1
   */
  properties[PROP_SIZE] = g_param_spec_uint64 ("size", NULL, NULL, 0, G_MAXUINT64, 0, flags);

  /**
   * GCudaHostMap:address: (getter get_address)
   *
   * Where the processor finds the memory; 0 when unmapped or empty.
   *
   * Since: 0.1
   */
  properties[PROP_ADDRESS] = g_param_spec_uint64 ("address", NULL, NULL, 0, G_MAXUINT64, 0, flags);

  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
gcuda_host_map_init (GCudaHostMap *self)
{
}

/* Whether the processor may use the memory; of memory that others made the driver is asked. */
static gboolean
check_host_accessible (GCudaAllocation *allocation,
                       CUdeviceptr address,
                       gsize size,
                       const char *what,
                       GError **error)
{
  GCudaMemoryResource *resource = _gcuda_allocation_get_resource (allocation);
  CUresult result = CUDA_SUCCESS;
  guint64 host = 0;

  if (resource == NULL)
    result = _gcuda_driver.PointerGetAttribute (&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, address);
  if (resource != NULL ? gcuda_memory_resource_is_host_accessible (resource) : result == CUDA_SUCCESS && host == address)
    {
      const GCudaResourceOperations *operations = resource != NULL ? _gcuda_memory_resource_operations (resource) : NULL;

      return operations == NULL || operations->has_memory == NULL ||
             operations->has_memory (resource, _gcuda_allocation_get_address (allocation), address - _gcuda_allocation_get_address (allocation), size) ||
             _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT,
                          "%s: a part of it has no memory, and the processor would be killed there; gcuda_virtual_memory_resource_commit () puts memory there, and a view maps a part", what);
    }
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_INVALID_VALUE)
    return _gcuda_fail_driver (error, result, "%s: asking where the processor finds the memory", what);
  return _gcuda_fail (error, GCUDA_ERROR_NOT_SUPPORTED,
                      "%s: it is memory of the device alone; gcuda_buffer_download () and gcuda_buffer_upload () copy it from and to the host", what);
}

/* Whether the processor may not use the memory while the device works at all. */
static gboolean
needs_idle_device (GCudaAllocation *allocation,
                   CUdeviceptr address)
{
  GCudaDevice *device = _gcuda_allocation_get_device (allocation);
  unsigned int managed = 0;
  CUresult result;

  if (device == NULL || gcuda_device_get_attribute (device, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, NULL) != 0)
    return FALSE;
  result = _gcuda_driver.PointerGetAttribute (&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address);
  /* Where this can't be asked, the memory is taken for what needs more. */
  return result == CUDA_SUCCESS ? managed != 0 : result != CUDA_ERROR_INVALID_VALUE;
}

static gboolean
synchronize (GCudaAllocation *allocation,
             GCudaStream *stream,
             gboolean device_too,
             const char *what,
             GError **error)
{
  GCudaStreamCall call;
  CUresult result = CUDA_SUCCESS;
  gboolean free_to_wait;

  if (!_gcuda_stream_call_begin (&call, stream, what, error))
    return FALSE;
  free_to_wait = _gcuda_stream_call_refuse_capture (&call, what, error);
  if (free_to_wait)
    result = _gcuda_driver.StreamSynchronize (call.handle);
  if (!_gcuda_stream_call_end (&call, result, what, free_to_wait ? error : NULL) || !free_to_wait)
    return FALSE;
  if (!device_too || gcuda_device_synchronize (_gcuda_allocation_get_device (allocation), error))
    return TRUE;
  g_prefix_error (error, "%s: ", what);
  return FALSE;
}

/**
 * gcuda_buffer_map:
 * @self: a buffer
 * @flags: what the processor does to the memory: `READ`, `WRITE`, or both; and `UNSYNCHRONIZED`
 * @stream: (nullable): the stream that worked on the memory last; %NULL only with `UNSYNCHRONIZED`
 * @error: return location for an error
 *
 * Lets the processor use the memory itself: page-locked, managed and registered memory, and virtual memory that is on the
 * host. This waits until @stream is done with what was queued, so that nothing works on the memory any more if all that
 * does so is in @stream, or before it. What is queued while the memory is mapped must not work on it.
 *
 * With `UNSYNCHRONIZED` nothing is waited for, and [property@HostMap:synchronized] is %FALSE: the program has to know, by
 * an event that it waited for, that no work uses the memory.
 *
 * Managed memory of a device without concurrent access ([property@ManagedMemoryResource:concurrent]) needs all of the
 * device to be idle: this waits for that, and the program queues no work at all until the memory is unmapped.
 *
 * A part of a buffer is mapped by way of a view. An empty buffer can be mapped, and nothing is waited for. Any thread; blocks
 * it.
 *
 * Errors: `NOT_SUPPORTED` for memory of a device alone, and for `UNSYNCHRONIZED` where all of the device has to be idle;
 * `INVALID_ARGUMENT` for no or other flags, for writing the memory of a `GBytes`, for virtual memory that is not all
 * there, and for no stream; `CAPTURING`, and the capture stays valid; `CLOSED`; `FORKED`; what the driver answers, for earlier
 * work too. Then nothing is mapped.
 *
 * Returns: (transfer full): a new map
 *
 * Since: 0.1
 */
GCudaHostMap *
gcuda_buffer_map (GCudaBuffer *self,
                  GCudaMapFlags flags,
                  GCudaStream *stream,
                  GError **error)
{
  static const char what[] = "mapping a buffer for the processor";
  const gboolean waits = (flags & GCUDA_MAP_FLAGS_UNSYNCHRONIZED) == 0;
  GCudaAllocation *allocation;
  GCudaHostMap *map;
  CUdeviceptr address;
  gsize size;
  gboolean needs_idle = FALSE;

  g_return_val_if_fail (GCUDA_IS_BUFFER (self), NULL);

  if ((flags & ~(GCUDA_MAP_FLAGS_READ | GCUDA_MAP_FLAGS_WRITE | GCUDA_MAP_FLAGS_UNSYNCHRONIZED)) != 0 ||
      (flags & (GCUDA_MAP_FLAGS_READ | GCUDA_MAP_FLAGS_WRITE)) == 0)
    {
      _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: 0x%x is neither read nor write", what, (unsigned int) flags);
      return NULL;
    }
  if (stream == NULL && waits)
    {
      _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: no stream was given to wait for; GCUDA_MAP_FLAGS_UNSYNCHRONIZED maps without", what);
      return NULL;
    }
  /* The address that is held: another thread may close the buffer now, which then has none. */
  allocation = _gcuda_buffer_hold_range (self, 0, 0, what, &address, error);
  if (allocation == NULL)
    return NULL;
  size = gcuda_buffer_get_size (self);
  if (!_gcuda_driver_check (error) ||
      ((flags & GCUDA_MAP_FLAGS_WRITE) != 0 && !_gcuda_allocation_check_writable (allocation, what, error)))
    goto failed;
  if (size > 0)
    {
      if (!check_host_accessible (allocation, address, size, what, error))
        goto failed;
      needs_idle = needs_idle_device (allocation, address);
      if (needs_idle && !waits)
        {
          _gcuda_fail (error, GCUDA_ERROR_NOT_SUPPORTED,
                       "%s: managed memory of this device needs the whole device to be idle (CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS is 0); map it without GCUDA_MAP_FLAGS_UNSYNCHRONIZED", what);
          goto failed;
        }
      if (waits && !synchronize (allocation, stream, needs_idle, what, error))
        goto failed;
    }
  map = g_object_new (GCUDA_TYPE_HOST_MAP, NULL);
  map->allocation = _gcuda_allocation_ref (allocation); /* the hold goes with it */
  map->data = (gpointer) (guintptr) address;
  map->size = size;
  map->flags = flags;
  map->mapped = TRUE;
  return map;

failed:
  _gcuda_allocation_unhold (allocation);
  return NULL;
}

/**
 * gcuda_host_map_unmap:
 * @self: a map
 *
 * Ends the scope: the processor does not use the memory any more. It waits for nothing, and nothing happens the second time.
 * Any thread.
 *
 * Since: 0.1
 */
void
gcuda_host_map_unmap (GCudaHostMap *self)
{
  g_return_if_fail (GCUDA_IS_HOST_MAP (self));

  if (!end (self))
    return;
  /* A handler may drop what the caller holds. */
  g_object_ref (self);
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_MAPPED]);
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_ADDRESS]);
  g_object_unref (self);
}

/**
 * gcuda_host_map_is_mapped: (get-property mapped)
 * @self: a map
 *
 * Whether the scope lasts. Any thread.
 *
 * Returns: whether the memory is mapped
 *
 * Since: 0.1
 */
gboolean
gcuda_host_map_is_mapped (GCudaHostMap *self)
{
  g_return_val_if_fail (GCUDA_IS_HOST_MAP (self), FALSE);

  return g_atomic_int_get (&self->mapped);
}

/**
 * gcuda_host_map_is_synchronized: (get-property synchronized)
 * @self: a map
 *
 * Whether mapping waited for the work that used the memory. Any thread.
 *
 * Returns: %FALSE for a map that was asked for unsynchronized
 *
 * Since: 0.1
 */
gboolean
gcuda_host_map_is_synchronized (GCudaHostMap *self)
{
  g_return_val_if_fail (GCUDA_IS_HOST_MAP (self), FALSE);

  return self->allocation != NULL && (self->flags & GCUDA_MAP_FLAGS_UNSYNCHRONIZED) == 0;
}

/**
 * gcuda_host_map_is_writable: (get-property writable)
 * @self: a map
 *
 * Whether the memory was mapped for writing. Any thread.
 *
 * Returns: whether it may be written
 *
 * Since: 0.1
 */
gboolean
gcuda_host_map_is_writable (GCudaHostMap *self)
{
  g_return_val_if_fail (GCUDA_IS_HOST_MAP (self), FALSE);

  return (self->flags & GCUDA_MAP_FLAGS_WRITE) != 0;
}

/**
 * gcuda_host_map_get_size: (get-property size)
 * @self: a map
 *
 * How many bytes are mapped, also after they were unmapped. Any thread.
 *
 * Returns: a number of bytes
 *
 * Since: 0.1
 */
guint64
gcuda_host_map_get_size (GCudaHostMap *self)
{
  g_return_val_if_fail (GCUDA_IS_HOST_MAP (self), 0);

  return self->size;
}

/**
 * gcuda_host_map_get_address: (get-property address)
 * @self: a map
 *
 * Where the processor finds the memory, as a number; C programs use [method@HostMap.get_data]. Any thread.
 *
 * Returns: an address; 0 when unmapped or empty
 *
 * Since: 0.1
 */
guint64
gcuda_host_map_get_address (GCudaHostMap *self)
{
  g_return_val_if_fail (GCUDA_IS_HOST_MAP (self), 0);

  return gcuda_host_map_is_mapped (self) ? (guint64) (guintptr) self->data : 0;
}

/**
 * gcuda_host_map_get_data: (skip)
 * @self: a map
 * @size: (out) (optional): how many bytes there are
 *
 * The memory itself. It may be used until the map ends, and written only if it was mapped for writing. Any thread.
 *
 * Returns: the memory; %NULL when unmapped or empty
 *
 * Since: 0.1
 */
gpointer
gcuda_host_map_get_data (GCudaHostMap *self,
                         gsize *size)
{
  gboolean mapped;

  g_return_val_if_fail (GCUDA_IS_HOST_MAP (self), NULL);

  mapped = gcuda_host_map_is_mapped (self);
  if (size != NULL)
    *size = mapped ? self->size : 0;
  return mapped ? self->data : NULL;
}

/* A hold of the caller's own on a part of the memory: another thread may unmap it. */
static gboolean
hold_part (GCudaHostMap *self,
           guint64 offset,
           guint64 size,
           GCudaMapFlags flag,
           const char *what,
           GError **error)
{
  if (!gcuda_host_map_is_mapped (self) || !_gcuda_allocation_hold (self->allocation))
    return _gcuda_fail (error, GCUDA_ERROR_CLOSED, "%s: it is not mapped", what);
  if ((self->flags & flag) == 0)
    _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: it was mapped for the other direction only", what);
  else if (offset > self->size || size > self->size - offset)
    _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: %" G_GUINT64_FORMAT " bytes at offset %" G_GUINT64_FORMAT " do not lie in a map of %" G_GSIZE_FORMAT, what, size, offset, self->size);
  else
    return TRUE;
  _gcuda_allocation_unhold (self->allocation);
  return FALSE;
}

/**
 * gcuda_host_map_read:
 * @self: a map
 * @offset: where to start, in bytes
 * @size: how many bytes
 * @error: return location for an error
 *
 * Copies a part of the memory, for languages that can't use the memory itself. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for a part that does not lie in the map, or one that was not mapped for reading; `CLOSED` when
 * unmapped.
 *
 * Returns: (transfer full): the data
 *
 * Since: 0.1
 */
GBytes *
gcuda_host_map_read (GCudaHostMap *self,
                     guint64 offset,
                     guint64 size,
                     GError **error)
{
  GBytes *bytes;

  g_return_val_if_fail (GCUDA_IS_HOST_MAP (self), NULL);

  if (!hold_part (self, offset, size, GCUDA_MAP_FLAGS_READ, "reading mapped memory", error))
    return NULL;
  bytes = g_bytes_new (size > 0 ? (guint8 *) self->data + offset : NULL, size);
  _gcuda_allocation_unhold (self->allocation);
  return bytes;
}

/**
 * gcuda_host_map_write:
 * @self: a map
 * @offset: where to put the data, in bytes
 * @data: (array length=length) (element-type guint8): the data
 * @length: how many bytes
 * @error: return location for an error, or %NULL
 *
 * Copies data to a part of the memory, for languages that can't use the memory itself. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for data that does not lie in the map there, a map that was not mapped for writing, and a length
 * without data; `CLOSED` when unmapped.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_host_map_write (GCudaHostMap *self,
                      guint64 offset,
                      const guint8 *data,
                      gsize length,
                      GError **error)
{
  static const char what[] = "writing mapped memory";

  g_return_val_if_fail (GCUDA_IS_HOST_MAP (self), FALSE);

  if (data == NULL && length > 0)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: no data was given", what);
  if (!hold_part (self, offset, length, GCUDA_MAP_FLAGS_WRITE, what, error))
    return FALSE;
  if (length > 0)
    memcpy ((guint8 *) self->data + offset, data, length);
  _gcuda_allocation_unhold (self->allocation);
  return TRUE;
}
