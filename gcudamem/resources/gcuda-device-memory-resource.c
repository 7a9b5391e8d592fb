/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-device-memory-resource.h"

#include "gcuda-memory-pool-private.h"
#include "memory/gcuda-memory-resource-private.h"

/* Scripts hold numbers exactly up to here. */
#define LARGEST_EXACT_NUMBER ((guint64) 1 << 53)

/**
 * GCudaDeviceMemoryResource:
 *
 * Memory of one of the driver's stream-ordered memory pools.
 *
 * This is the resource for most device memory: allocating and freeing are ordered like other work of a stream and wait for
 * nothing. [ctor@DeviceMemoryResource.new] uses the pool that the device uses now, which the whole process shares, and
 * changes none of its settings. [ctor@DeviceMemoryResource.new_pool] makes a pool of its own, which lives until the last
 * buffer of it is gone, and a little longer.
 *
 * Settings and figures are asked of the driver each time; others may have changed those of a shared pool. Any thread.
 *
 * Since: 0.1
 */
struct _GCudaDeviceMemoryResource
{
  GCudaMemoryResource parent_instance;

  GCudaMemoryPool *pool; /* NULL for an object made by bare new */
  guint64 max_size;
  GCudaHandleTypes handle_types;
};

G_DEFINE_FINAL_TYPE (GCudaDeviceMemoryResource, gcuda_device_memory_resource, GCUDA_TYPE_MEMORY_RESOURCE)

enum
{
  PROP_0,
  PROP_POOL_OWNED,
  PROP_HANDLE,
  PROP_MAX_SIZE,
  PROP_HANDLE_TYPES,
  PROP_RELEASE_THRESHOLD,
  PROP_REUSE,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

/* Operations */

static gboolean
device_check (GCudaMemoryResource *resource,
              GError **error)
{
  GCudaDeviceMemoryResource *self = GCUDA_DEVICE_MEMORY_RESOURCE (resource);

  if (self->pool == NULL)
    return _gcuda_fail (error, GCUDA_ERROR_CLOSED, "this memory resource was not made by gcuda_device_memory_resource_new ()");
  return _gcuda_driver_check (error);
}

static char *
device_describe (GCudaMemoryResource *resource)
{
  GCudaDeviceMemoryResource *self = (GCudaDeviceMemoryResource *) resource;

  return _gcuda_memory_pool_describe (self->pool);
}

static CUresult
device_allocate (GCudaMemoryResource *resource,
                 gsize size,
                 GCudaStreamCall *call,
                 CUdeviceptr *address)
{
  GCudaDeviceMemoryResource *self = (GCudaDeviceMemoryResource *) resource;

  return _gcuda_driver.MemAllocFromPoolAsync (address, size, self->pool->handle, call->handle);
}

static CUresult
device_deallocate (GCudaMemoryResource *resource,
                   GCudaStreamBox *box,
                   CUdeviceptr address,
                   gsize size,
                   CUstream handle)
{
  GCudaDeviceMemoryResource *self = (GCudaDeviceMemoryResource *) resource;

  return _gcuda_memory_pool_free (self->pool, box, address, handle);
}

static CUresult
device_deallocate_gone (GCudaMemoryResource *resource,
                        CUdeviceptr address,
                        gsize size)
{
  return _gcuda_memory_pool_free_gone (address);
}

static const GCudaResourceOperations operations = {
  .stream_ordered = TRUE,
  .free_call = "cuMemFreeAsync",
  .check = device_check,
  .describe = device_describe,
  .allocate = device_allocate,
  .deallocate = device_deallocate,
  .deallocate_gone = device_deallocate_gone,
};

/* The class */

static void
gcuda_device_memory_resource_finalize (GObject *object)
{
  GCudaDeviceMemoryResource *self = GCUDA_DEVICE_MEMORY_RESOURCE (object);

  g_clear_pointer (&self->pool, _gcuda_memory_pool_release);

  G_OBJECT_CLASS (gcuda_device_memory_resource_parent_class)->finalize (object);
}

static void
gcuda_device_memory_resource_get_property (GObject *object,
                                           guint id,
                                           GValue *value,
                                           GParamSpec *pspec)
{
  GCudaDeviceMemoryResource *self = GCUDA_DEVICE_MEMORY_RESOURCE (object);

  switch (id)
    {
    case PROP_POOL_OWNED:
      g_value_set_boolean (value, gcuda_device_memory_resource_owns_pool (self));
      break;
    case PROP_HANDLE:
      g_value_set_uint64 (value, gcuda_device_memory_resource_get_handle (self));
      break;
    case PROP_MAX_SIZE:
      g_value_set_uint64 (value, self->max_size);
      break;
    case PROP_HANDLE_TYPES:
      g_value_set_flags (value, self->handle_types);
      break;
    case PROP_RELEASE_THRESHOLD:
      g_value_set_uint64 (value, gcuda_device_memory_resource_get_release_threshold (self));
      break;
    case PROP_REUSE:
      g_value_set_flags (value, gcuda_device_memory_resource_get_reuse (self));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gcuda_device_memory_resource_set_property (GObject *object,
                                           guint id,
                                           const GValue *value,
                                           GParamSpec *pspec)
{
  GCudaDeviceMemoryResource *self = GCUDA_DEVICE_MEMORY_RESOURCE (object);
  g_autoptr (GError) error = NULL;

  switch (id)
    {
    case PROP_RELEASE_THRESHOLD:
      gcuda_device_memory_resource_set_release_threshold (self, g_value_get_uint64 (value), &error);
      break;
    case PROP_REUSE:
      gcuda_device_memory_resource_set_reuse (self, g_value_get_flags (value), &error);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
  /* A property has no way to say more; who wants the error calls the setter. */
  if (error != NULL)
    g_info ("%s", error->message);
}

static void
gcuda_device_memory_resource_class_init (GCudaDeviceMemoryResourceClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;
  const GParamFlags settable = G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  object_class->finalize = gcuda_device_memory_resource_finalize;
  object_class->get_property = gcuda_device_memory_resource_get_property;
  object_class->set_property = gcuda_device_memory_resource_set_property;
  GCUDA_MEMORY_RESOURCE_CLASS (klass)->operations = &operations;

  /**
   * GCudaDeviceMemoryResource:pool-owned: (getter owns_pool)
   *
   * Whether the pool was made by this resource, and is destroyed after it.
   *
   * Since: 0.1
   */
  properties[PROP_POOL_OWNED] = g_param_spec_boolean ("pool-owned", NULL, NULL, FALSE, flags);

  /**
   * GCudaDeviceMemoryResource:handle: (getter get_handle)
   *
   * The `CUmemoryPool`, as a number.
   *
   * Since: 0.1
   */
  properties[PROP_HANDLE] = g_param_spec_uint64 ("handle", NULL, NULL, 0, G_MAXUINT64, 0, flags);

  /**
   * GCudaDeviceMemoryResource:max-size: (getter get_max_size)
   *
   * The most bytes the pool can hold; 0 if the driver chooses.
   *
   * Since: 0.1
   */
  properties[PROP_MAX_SIZE] = g_param_spec_uint64 ("max-size", NULL, NULL, 0, G_MAXUINT64, 0, flags);

  /**
   * GCudaDeviceMemoryResource:handle-types: (getter get_handle_types)
   *
   * How the pool can be shared with other processes.
   *
   * Since: 0.1
   */
  properties[PROP_HANDLE_TYPES] = g_param_spec_flags ("handle-types", NULL, NULL, GCUDA_TYPE_HANDLE_TYPES, 0, flags);

  /**
   * GCudaDeviceMemoryResource:release-threshold: (getter get_release_threshold)
   *
   * How many bytes the pool keeps when nothing is allocated. Setting it here can't report an error; the setter function
   * can.
   *
   * Since: 0.1
   */
  properties[PROP_RELEASE_THRESHOLD] = g_param_spec_uint64 ("release-threshold", NULL, NULL, 0, G_MAXUINT64, 0, settable);

  /**
   * GCudaDeviceMemoryResource:reuse: (getter get_reuse)
   *
   * What the pool may do to reuse memory that was freed on another stream. Setting it here can't report an error; the
   * setter function can.
   *
   * Since: 0.1
   */
  properties[PROP_REUSE] = g_param_spec_flags ("reuse", NULL, NULL, GCUDA_TYPE_POOL_REUSE, 0, settable);

  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
gcuda_device_memory_resource_init (GCudaDeviceMemoryResource *self)
{
}

/* Making resources */

/* The device's primary context, if the device and the driver have pools. */
static GCudaContextBox *
prepare (GCudaDevice *device,
         const char *what,
         GError **error)
{
  g_autoptr (GCudaContext) context = NULL;
  CUdevice number;
  CUresult result;
  int supported = 0;

  if (!_gcuda_device_check (device, what, &number, error))
    return NULL;
  if (_gcuda_driver_has (GCUDA_DRIVER_GROUP_POOLS))
    {
      result = _gcuda_driver.DeviceGetAttribute (&supported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, number);
      /* A driver that does not know the question is asked for the pool itself, and its answer reported. */
      if (result != CUDA_SUCCESS)
        supported = 1;
    }
  if (!supported)
    {
      _gcuda_fail (error, GCUDA_ERROR_NOT_SUPPORTED,
                   "%s: device %d has no memory pools (CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED is 0); use GCudaSynchronousMemoryResource",
                   what, (int) number);
      return NULL;
    }
  context = gcuda_device_get_primary_context (device, error);
  return context != NULL ? _gcuda_context_hold (context, what, error) : NULL;
}

static GCudaDeviceMemoryResource *
new_for_pool (GCudaDevice *device,
              CUmemoryPool handle,
              gboolean owned,
              GCudaContextBox *context)
{
  GCudaDeviceMemoryResource *self = g_object_new (GCUDA_TYPE_DEVICE_MEMORY_RESOURCE, "device", device, NULL);

  self->pool = _gcuda_memory_pool_new (handle, owned, context, NULL);
  return self;
}

/**
 * gcuda_device_memory_resource_new:
 * @device: a device
 * @error: return location for an error
 *
 * Makes a resource for the pool that the device uses now. The pool is shared with the whole process; none of its settings
 * is changed. Any thread.
 *
 * Errors: `NOT_SUPPORTED` for a device without memory pools; as [method@Device.get_primary_context].
 *
 * Returns: (transfer full): a new memory resource
 *
 * Since: 0.1
 */
GCudaDeviceMemoryResource *
gcuda_device_memory_resource_new (GCudaDevice *device,
                                  GError **error)
{
  static const char what[] = "getting a device's memory pool";
  GCudaContextBox *context = prepare (device, what, error);
  CUmemoryPool handle;
  CUresult result;

  if (context == NULL)
    return NULL;
  result = _gcuda_driver.DeviceGetMemPool (&handle, context->device);
  if (result == CUDA_SUCCESS)
    return new_for_pool (device, handle, FALSE, context);
  _gcuda_fail_driver (error, result, "%s, of device %d", what, (int) context->device);
  _gcuda_context_box_unuse (context);
  return NULL;
}

/**
 * gcuda_device_memory_resource_new_pool:
 * @device: a device
 * @max_size: the most bytes that the pool can hold, or 0 to let the driver choose
 * @handle_types: how the pool can be shared with other processes
 * @error: return location for an error
 *
 * Makes a pool. It is destroyed in the background when the resource and the last buffer of it are gone, and the streams that its
 * memory was freed on have passed that: drivers crash or hang when a pool is destroyed earlier and another thread synchronizes
 * such a stream. For memory that was freed on a per-thread default stream that is the legacy default stream, of the same context. It
 * breaks no capture. Where it can't be found out whether a stream has passed, since it ended in a capture of others, or was one of others and
 * could not be marked, the pool is kept, and reported to the teardown handler. Any thread.
 *
 * Errors: `NOT_SUPPORTED` for a device without memory pools, or which can't share memory that way; `INVALID_ARGUMENT` for
 * unknown handle types; what the driver answers; as [method@Device.get_primary_context].
 *
 * Returns: (transfer full): a new memory resource
 *
 * Since: 0.1
 */
GCudaDeviceMemoryResource *
gcuda_device_memory_resource_new_pool (GCudaDevice *device,
                                       guint64 max_size,
                                       GCudaHandleTypes handle_types,
                                       GError **error)
{
  static const char what[] = "making a memory pool";
  GCudaDeviceMemoryResource *self;
  GCudaContextBox *context;
  CUmemPoolProps props = { 0 };
  CUmemoryPool handle;
  CUresult result;
  int available = 0;

  if ((handle_types & ~(GCUDA_HANDLE_TYPES_POSIX_FD | GCUDA_HANDLE_TYPES_FABRIC)) != 0)
    {
      _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: unknown handle types 0x%x", what, (unsigned int) handle_types);
      return NULL;
    }
  if (max_size > G_MAXSIZE / 2)
    {
      _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: a pool can't hold %" G_GUINT64_FORMAT " bytes; 0 lets the driver choose", what, max_size);
      return NULL;
    }
  context = prepare (device, what, error);
  if (context == NULL)
    return NULL;
  if (handle_types != GCUDA_HANDLE_TYPES_NONE)
    {
      result = _gcuda_driver.DeviceGetAttribute (&available, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, context->device);
      if (result == CUDA_SUCCESS && ((unsigned int) handle_types & ~(unsigned int) available) != 0)
        {
          _gcuda_fail (error, GCUDA_ERROR_NOT_SUPPORTED,
                       "%s: device %d can't share a pool by handle types 0x%x (CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES is 0x%x)",
                       what, (int) context->device, (unsigned int) handle_types, (unsigned int) available);
          _gcuda_context_box_unuse (context);
          return NULL;
        }
    }
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.handleTypes = (CUmemAllocationHandleType) handle_types;
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  props.location.id = context->device;
  props.maxSize = max_size;

  result = _gcuda_memory_pool_create (&props, &handle);
  if (result != CUDA_SUCCESS)
    {
      _gcuda_fail_driver (error, result, "%s of device %d", what, (int) context->device);
      _gcuda_context_box_unuse (context);
      return NULL;
    }
  self = new_for_pool (device, handle, TRUE, context);
  self->max_size = max_size;
  self->handle_types = handle_types;
  return self;
}

/**
 * gcuda_device_memory_resource_owns_pool: (get-property pool-owned)
 * @self: a memory resource
 *
 * Whether the pool was made by this resource. Any thread.
 *
 * Returns: whether it is its own
 *
 * Since: 0.1
 */
gboolean
gcuda_device_memory_resource_owns_pool (GCudaDeviceMemoryResource *self)
{
  g_return_val_if_fail (GCUDA_IS_DEVICE_MEMORY_RESOURCE (self), FALSE);

  return self->pool != NULL && self->pool->owned;
}

/**
 * gcuda_device_memory_resource_get_handle: (get-property handle)
 * @self: a memory resource
 *
 * The `CUmemoryPool`, as a number, for other libraries. It is valid as long as @self lives. Any thread.
 *
 * Returns: the handle; 0 for an object made by bare new
 *
 * Since: 0.1
 */
guint64
gcuda_device_memory_resource_get_handle (GCudaDeviceMemoryResource *self)
{
  g_return_val_if_fail (GCUDA_IS_DEVICE_MEMORY_RESOURCE (self), 0);

  return self->pool != NULL ? (guint64) (guintptr) self->pool->handle : 0;
}

/**
 * gcuda_device_memory_resource_get_max_size: (get-property max-size)
 * @self: a memory resource
 *
 * The most bytes that the pool can hold, as it was asked for. Any thread.
 *
 * Returns: a number of bytes; 0 if the driver chose, or others made the pool
 *
 * Since: 0.1
 */
guint64
gcuda_device_memory_resource_get_max_size (GCudaDeviceMemoryResource *self)
{
  g_return_val_if_fail (GCUDA_IS_DEVICE_MEMORY_RESOURCE (self), 0);

  return self->max_size;
}

/**
 * gcuda_device_memory_resource_get_handle_types: (get-property handle-types)
 * @self: a memory resource
 *
 * How the pool can be shared with other processes, as it was asked for. Any thread.
 *
 * Returns: the handle types
 *
 * Since: 0.1
 */
GCudaHandleTypes
gcuda_device_memory_resource_get_handle_types (GCudaDeviceMemoryResource *self)
{
  g_return_val_if_fail (GCUDA_IS_DEVICE_MEMORY_RESOURCE (self), GCUDA_HANDLE_TYPES_NONE);

  return self->handle_types;
}

/* Settings and figures */

/**
 * gcuda_device_memory_resource_get_release_threshold: (get-property release-threshold)
 * @self: a memory resource
 *
 * How many bytes the pool keeps when nothing is allocated, before it gives memory back to the system. A threshold that no
 * memory reaches, see [method@DeviceMemoryResource.is_release_unlimited], is told as the memory of the device. Any thread.
 *
 * Returns: a number of bytes; 0 also if it can't be asked for
 *
 * Since: 0.1
 */
guint64
gcuda_device_memory_resource_get_release_threshold (GCudaDeviceMemoryResource *self)
{
  guint64 value = 0;

  g_return_val_if_fail (GCUDA_IS_DEVICE_MEMORY_RESOURCE (self), 0);

  if (!device_check (GCUDA_MEMORY_RESOURCE (self), NULL) ||
      _gcuda_memory_pool_get_attribute (self->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value) != CUDA_SUCCESS)
    return 0;
  /* No number that scripts would round. */
  if (value > LARGEST_EXACT_NUMBER)
    return gcuda_device_get_total_memory (gcuda_memory_resource_get_device (GCUDA_MEMORY_RESOURCE (self)));
  return value;
}

/**
 * gcuda_device_memory_resource_is_release_unlimited:
 * @self: a memory resource
 *
 * Whether the release threshold is the largest number there is: the pool gives nothing back by itself. Any thread.
 *
 * Returns: whether the pool keeps everything
 *
 * Since: 0.1
 */
gboolean
gcuda_device_memory_resource_is_release_unlimited (GCudaDeviceMemoryResource *self)
{
  guint64 value = 0;

  g_return_val_if_fail (GCUDA_IS_DEVICE_MEMORY_RESOURCE (self), FALSE);

  return device_check (GCUDA_MEMORY_RESOURCE (self), NULL) &&
         _gcuda_memory_pool_get_attribute (self->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value) == CUDA_SUCCESS &&
         value == G_MAXUINT64;
}

/**
 * gcuda_device_memory_resource_set_release_threshold:
 * @self: a memory resource
 * @threshold: how many bytes to keep; %G_MAXUINT64 for all
 * @error: return location for an error, or %NULL
 *
 * Sets how many bytes the pool keeps when nothing is allocated. For a shared pool it is set for the whole process. Any
 * thread.
 *
 * Errors: `CLOSED`; `FORKED`; what the driver answers.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_device_memory_resource_set_release_threshold (GCudaDeviceMemoryResource *self,
                                                    guint64 threshold,
                                                    GError **error)
{
  CUresult result;

  g_return_val_if_fail (GCUDA_IS_DEVICE_MEMORY_RESOURCE (self), FALSE);

  if (!device_check (GCUDA_MEMORY_RESOURCE (self), error))
    return FALSE;
  result = _gcuda_memory_pool_set_attribute (self->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, threshold);
  if (result != CUDA_SUCCESS)
    return _gcuda_fail_driver (error, result, "setting the release threshold of a memory pool of device %d", (int) self->pool->context->device);
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_RELEASE_THRESHOLD]);
  return TRUE;
}

static const struct
{
  GCudaPoolReuse flag;
  CUmemPool_attribute attribute;
} reuse_attributes[] = {
  { GCUDA_POOL_REUSE_FOLLOW_EVENTS, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES },
  { GCUDA_POOL_REUSE_OPPORTUNISTIC, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC },
  { GCUDA_POOL_REUSE_INTERNAL_DEPENDENCIES, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES },
};

/**
 * gcuda_device_memory_resource_get_reuse: (get-property reuse)
 * @self: a memory resource
 *
 * What the pool may do to reuse memory that was freed on another stream. Any thread.
 *
 * Returns: the flags; none also if they can't be asked for
 *
 * Since: 0.1
 */
GCudaPoolReuse
gcuda_device_memory_resource_get_reuse (GCudaDeviceMemoryResource *self)
{
  GCudaPoolReuse reuse = GCUDA_POOL_REUSE_NONE;

  g_return_val_if_fail (GCUDA_IS_DEVICE_MEMORY_RESOURCE (self), reuse);

  if (!device_check (GCUDA_MEMORY_RESOURCE (self), NULL))
    return reuse;
  for (gsize i = 0; i < G_N_ELEMENTS (reuse_attributes); i++)
    {
      guint64 value = 0;

      if (_gcuda_memory_pool_get_attribute (self->pool, reuse_attributes[i].attribute, &value) == CUDA_SUCCESS && value != 0)
        reuse |= reuse_attributes[i].flag;
    }
  return reuse;
}

/**
 * gcuda_device_memory_resource_set_reuse:
 * @self: a memory resource
 * @reuse: what the pool may do
 * @error: return location for an error, or %NULL
 *
 * Sets what the pool may do to reuse memory that was freed on another stream. For a shared pool it is set for the whole
 * process. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for unknown flags; `CLOSED`; `FORKED`; what the driver answers, and then the flags are as
 * before.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_device_memory_resource_set_reuse (GCudaDeviceMemoryResource *self,
                                        GCudaPoolReuse reuse,
                                        GError **error)
{
  guint64 before[G_N_ELEMENTS (reuse_attributes)] = { 0 };
  CUresult result = CUDA_SUCCESS;
  gsize done = 0;

  g_return_val_if_fail (GCUDA_IS_DEVICE_MEMORY_RESOURCE (self), FALSE);

  if (!device_check (GCUDA_MEMORY_RESOURCE (self), error))
    return FALSE;
  if ((reuse & ~(GCUDA_POOL_REUSE_FOLLOW_EVENTS | GCUDA_POOL_REUSE_OPPORTUNISTIC | GCUDA_POOL_REUSE_INTERNAL_DEPENDENCIES)) != 0)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "setting how a memory pool reuses memory: unknown flags 0x%x", (unsigned int) reuse);
  for (gsize i = 0; i < G_N_ELEMENTS (reuse_attributes) && result == CUDA_SUCCESS; i++)
    result = _gcuda_memory_pool_get_attribute (self->pool, reuse_attributes[i].attribute, &before[i]);
  while (done < G_N_ELEMENTS (reuse_attributes) && result == CUDA_SUCCESS)
    {
      result = _gcuda_memory_pool_set_attribute (self->pool, reuse_attributes[done].attribute, (reuse & reuse_attributes[done].flag) != 0);
      if (result == CUDA_SUCCESS)
        done++;
    }
  if (result == CUDA_SUCCESS)
    {
      g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_REUSE]);
      return TRUE;
    }
  while (done-- > 0)
    _gcuda_memory_pool_set_attribute (self->pool, reuse_attributes[done].attribute, before[done]);
  return _gcuda_fail_driver (error, result, "setting how a memory pool of device %d reuses memory", (int) self->pool->context->device);
}

/**
 * gcuda_device_memory_resource_trim:
 * @self: a memory resource
 * @keep: how many bytes the pool may keep
 * @error: return location for an error, or %NULL
 *
 * Gives memory that is not in use back to the system, down to @keep bytes. Memory whose free is still to be reached by its
 * stream is in use: synchronize first to give that back too. It waits for nothing. Any thread.
 *
 * Errors: `STREAM_CAPTURE_UNSUPPORTED` during another thread's global capture, which that breaks; `CLOSED`; `FORKED`; what
 * the driver answers.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_device_memory_resource_trim (GCudaDeviceMemoryResource *self,
                                   guint64 keep,
                                   GError **error)
{
  g_return_val_if_fail (GCUDA_IS_DEVICE_MEMORY_RESOURCE (self), FALSE);

  return device_check (GCUDA_MEMORY_RESOURCE (self), error) && _gcuda_memory_pool_trim (self->pool, keep, error);
}

/**
 * gcuda_device_memory_resource_get_statistics:
 * @self: a memory resource
 * @error: return location for an error
 *
 * Asks how much memory the pool uses and holds. Any thread.
 *
 * Errors: `CLOSED`; `FORKED`; what the driver answers.
 *
 * Returns: (transfer full): a snapshot
 *
 * Since: 0.1
 */
GCudaPoolStatistics *
gcuda_device_memory_resource_get_statistics (GCudaDeviceMemoryResource *self,
                                             GError **error)
{
  g_return_val_if_fail (GCUDA_IS_DEVICE_MEMORY_RESOURCE (self), NULL);

  return device_check (GCUDA_MEMORY_RESOURCE (self), error) ? _gcuda_memory_pool_get_statistics (self->pool, error) : NULL;
}

/**
 * gcuda_device_memory_resource_reset_high_marks:
 * @self: a memory resource
 * @error: return location for an error, or %NULL
 *
 * Makes the high marks of the statistics start anew, from what is used and held now. For a shared pool they start anew for
 * the whole process. Any thread.
 *
 * Errors: `CLOSED`; `FORKED`; what the driver answers.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_device_memory_resource_reset_high_marks (GCudaDeviceMemoryResource *self,
                                               GError **error)
{
  g_return_val_if_fail (GCUDA_IS_DEVICE_MEMORY_RESOURCE (self), FALSE);

  return device_check (GCUDA_MEMORY_RESOURCE (self), error) && _gcuda_memory_pool_reset_high_marks (self->pool, error);
}

/**
 * gcuda_device_memory_resource_set_peer_access:
 * @self: a memory resource
 * @peer: another device
 * @access: whether work on @peer may read and write the pool's memory
 * @error: return location for an error, or %NULL
 *
 * Grants another device access to all memory of the pool, or takes it back. Taking it back takes effect at once, also for
 * memory that is in use. For a shared pool it is set for the whole process. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for no device, and for the pool's own, whose access can't be taken;
 * `PEER_ACCESS_UNSUPPORTED`; `CLOSED`; `FORKED`; what the driver answers.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_device_memory_resource_set_peer_access (GCudaDeviceMemoryResource *self,
                                              GCudaDevice *peer,
                                              gboolean access,
                                              GError **error)
{
  static const char what[] = "setting the peer access of a memory pool";
  CUdevice number;
  CUresult result;
  int can = 0;

  g_return_val_if_fail (GCUDA_IS_DEVICE_MEMORY_RESOURCE (self), FALSE);

  if (!device_check (GCUDA_MEMORY_RESOURCE (self), error) || !_gcuda_device_check (peer, what, &number, error))
    return FALSE;
  if (number == self->pool->context->device)
    {
      if (access)
        return TRUE;
      return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: device %d always has access to its own memory", what, (int) number);
    }
  /* The driver may accept a pair that can't work, and fail at a later allocation. */
  result = _gcuda_driver.DeviceCanAccessPeer (&can, number, self->pool->context->device);
  if (result != CUDA_SUCCESS)
    return _gcuda_fail_driver (error, result, "%s", what);
  if (access && !can)
    return _gcuda_fail (error, GCUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
                        "%s: device %d can't reach the memory of device %d (CUDA_ERROR_PEER_ACCESS_UNSUPPORTED); copies between them work all the same",
                        what, (int) number, (int) self->pool->context->device);
  result = _gcuda_memory_pool_set_access (self->pool, number, access);
  if (result != CUDA_SUCCESS)
    return _gcuda_fail_driver (error, result, "%s of device %d for device %d", what, (int) self->pool->context->device, (int) number);
  return TRUE;
}

/**
 * gcuda_device_memory_resource_has_peer_access:
 * @self: a memory resource
 * @peer: a device
 * @error: return location for an error, or %NULL
 *
 * Whether work on a device may use the pool's memory. The driver is asked each time. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for no device; `CLOSED`; `FORKED`; what the driver answers.
 *
 * Returns: the answer; %FALSE with @error set on failure
 *
 * Since: 0.1
 */
gboolean
gcuda_device_memory_resource_has_peer_access (GCudaDeviceMemoryResource *self,
                                              GCudaDevice *peer,
                                              GError **error)
{
  CUmemLocation location = { 0 };
  CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  CUdevice number;
  CUresult result;

  g_return_val_if_fail (GCUDA_IS_DEVICE_MEMORY_RESOURCE (self), FALSE);

  if (!device_check (GCUDA_MEMORY_RESOURCE (self), error) ||
      !_gcuda_device_check (peer, "asking for the peer access of a memory pool", &number, error))
    return FALSE;
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = number;
  result = _gcuda_driver.MemPoolGetAccess (&flags, self->pool->handle, &location);
  if (result != CUDA_SUCCESS)
    return _gcuda_fail_driver (error, result, "asking whether device %d has access to a memory pool of device %d", (int) number, (int) self->pool->context->device);
  return flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}
