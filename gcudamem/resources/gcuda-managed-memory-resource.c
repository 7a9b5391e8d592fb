/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-managed-memory-resource.h"

#include "gcuda-memory-pool-private.h"
#include "memory/gcuda-location-private.h"
#include "memory/gcuda-memory-resource-private.h"

/* By number: it is newer than the oldest cuda.h that this builds with. */
#define ALLOCATION_TYPE_MANAGED ((CUmemAllocationType) 2)

/**
 * GCudaManagedMemoryResource:
 *
 * Managed memory: one address for devices and the processor, between which the driver moves the pages.
 *
 * Where the driver has pools of managed memory, allocating and freeing are ordered like other work of a stream and wait for
 * nothing. Elsewhere memory is allocated piece by piece (`cuMemAllocManaged`), and freed by a thread of this library when
 * the recipe's stream has passed. [property@ManagedMemoryResource:pooled] tells which of both it is.
 *
 * The processor uses the memory within [method@Buffer.map]. On some devices, and in some virtual machines, it may not do so
 * while a device works at all: see [property@ManagedMemoryResource:concurrent]. Where pages are is up to the driver; a
 * program that knows better says so with [method@Buffer.prefetch], [method@Buffer.set_preferred_location],
 * [method@Buffer.set_accessed_by] and [method@Buffer.set_read_mostly]. Drivers as of CUDA 13.0 take such advice only for memory
 * that is allocated piece by piece ([ctor@ManagedMemoryResource.new_unpooled]).
 *
 * More managed memory than a device has can be allocated; the driver then moves pages to and fro, which is slow. Any thread.
 *
 * Since: 0.1
 */
struct _GCudaManagedMemoryResource
{
  GCudaMemoryResource parent_instance;

  GCudaMemoryPool *pool;    /* one of both; neither for an object made by bare new */
  GCudaContextBox *context; /* where the memory is allocated piece by piece */
  gboolean concurrent;
  GCudaLocation *preferred; /* NULL: none */
  CUmemLocation place;      /* the same, resolved */
};

G_DEFINE_FINAL_TYPE (GCudaManagedMemoryResource, gcuda_managed_memory_resource, GCUDA_TYPE_MEMORY_RESOURCE)

enum
{
  PROP_0,
  PROP_POOLED,
  PROP_CONCURRENT,
  PROP_PREFERRED_LOCATION,
  PROP_HANDLE,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

/* Operations */

static gboolean
managed_check (GCudaMemoryResource *resource,
               GError **error)
{
  GCudaManagedMemoryResource *self = (GCudaManagedMemoryResource *) resource;

  if (self->pool != NULL)
    return _gcuda_driver_check (error);
  if (self->context != NULL)
    return _gcuda_context_box_check (self->context, error);
  return _gcuda_fail (error, GCUDA_ERROR_CLOSED, "this memory resource was not made by gcuda_managed_memory_resource_new ()");
}

static char *
managed_describe (GCudaMemoryResource *resource)
{
  GCudaManagedMemoryResource *self = (GCudaManagedMemoryResource *) resource;

  if (self->pool != NULL)
    return _gcuda_memory_pool_describe (self->pool);
  return g_strdup_printf ("managed memory for device %d", (int) self->context->device);
}

static CUresult
pool_allocate (GCudaMemoryResource *resource,
               gsize size,
               GCudaStreamCall *call,
               CUdeviceptr *address)
{
  GCudaManagedMemoryResource *self = (GCudaManagedMemoryResource *) resource;

  return _gcuda_driver.MemAllocFromPoolAsync (address, size, self->pool->handle, call->handle);
}

static CUresult
pool_deallocate (GCudaMemoryResource *resource,
                 GCudaStreamBox *box,
                 CUdeviceptr address,
                 gsize size,
                 CUstream handle)
{
  return _gcuda_memory_pool_free (((GCudaManagedMemoryResource *) resource)->pool, box, address, handle);
}

static CUresult
pool_deallocate_gone (GCudaMemoryResource *resource,
                      CUdeviceptr address,
                      gsize size)
{
  return _gcuda_memory_pool_free_gone (address);
}

static CUresult
piece_allocate (GCudaMemoryResource *resource,
                gsize size,
                GCudaStreamCall *call,
                CUdeviceptr *address)
{
  GCudaManagedMemoryResource *self = (GCudaManagedMemoryResource *) resource;
  GCudaContextScope scope;
  CUdeviceptr made = 0;
  CUresult result, left;

  /* In the resource's context, whatever the stream's is. */
  result = _gcuda_context_scope_enter (&scope, self->context->handle);
  if (result != CUDA_SUCCESS)
    return result;
  result = _gcuda_driver.MemAllocManaged (&made, size, CU_MEM_ATTACH_GLOBAL);
  if (result == CUDA_SUCCESS && self->preferred != NULL)
    result = _gcuda_driver.MemAdvise (made, size, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, self->place);
  left = _gcuda_context_scope_leave (&scope);
  if (result == CUDA_SUCCESS)
    result = left;
  if (result != CUDA_SUCCESS && made != 0)
    _gcuda_context_box_report (self->context, _gcuda_driver.MemFree (made), "cuMemFree", made, size);
  else
    *address = made;
  return result;
}

static CUresult
piece_deallocate (GCudaMemoryResource *resource,
                  GCudaStreamBox *box,
                  CUdeviceptr address,
                  gsize size,
                  CUstream handle)
{
  GCudaManagedMemoryResource *self = (GCudaManagedMemoryResource *) resource;
  CUresult result;

  /* Memory goes with the context it was made in. Others may reset that at any time, also between these two. */
  if (!_gcuda_context_box_is_alive (self->context))
    return CUDA_SUCCESS;
  result = _gcuda_driver.MemFree (address);
  return result == CUDA_SUCCESS || _gcuda_context_box_is_alive (self->context) ? result : CUDA_SUCCESS;
}

static CUresult
piece_deallocate_gone (GCudaMemoryResource *resource,
                       CUdeviceptr address,
                       gsize size)
{
  return piece_deallocate (resource, NULL, address, size, NULL);
}

static const GCudaResourceOperations pool_operations = {
  .stream_ordered = TRUE,
  .free_call = "cuMemFreeAsync",
  .check = managed_check,
  .describe = managed_describe,
  .allocate = pool_allocate,
  .deallocate = pool_deallocate,
  .deallocate_gone = pool_deallocate_gone,
};

static const GCudaResourceOperations piece_operations = {
  .stream_ordered = FALSE,
  .free_call = "cuMemFree",
  .check = managed_check,
  .describe = managed_describe,
  .allocate = piece_allocate,
  .deallocate = piece_deallocate,
  .deallocate_gone = piece_deallocate_gone,
};

static const GCudaResourceOperations *
managed_select (GCudaMemoryResource *resource)
{
  return ((GCudaManagedMemoryResource *) resource)->pool != NULL ? &pool_operations : &piece_operations;
}

static const GCudaResourceOperations operations = {
  .select = managed_select,
};

/* The class */

static void
gcuda_managed_memory_resource_finalize (GObject *object)
{
  GCudaManagedMemoryResource *self = GCUDA_MANAGED_MEMORY_RESOURCE (object);

  g_clear_pointer (&self->pool, _gcuda_memory_pool_release);
  g_clear_pointer (&self->context, _gcuda_context_box_unuse);
  g_clear_pointer (&self->preferred, gcuda_location_unref);

  G_OBJECT_CLASS (gcuda_managed_memory_resource_parent_class)->finalize (object);
}

static void
gcuda_managed_memory_resource_get_property (GObject *object,
                                            guint id,
                                            GValue *value,
                                            GParamSpec *pspec)
{
  GCudaManagedMemoryResource *self = GCUDA_MANAGED_MEMORY_RESOURCE (object);

  switch (id)
    {
    case PROP_POOLED:
      g_value_set_boolean (value, self->pool != NULL);
      break;
    case PROP_CONCURRENT:
      g_value_set_boolean (value, self->concurrent);
      break;
    case PROP_PREFERRED_LOCATION:
      g_value_set_boxed (value, self->preferred);
      break;
    case PROP_HANDLE:
      g_value_set_uint64 (value, gcuda_managed_memory_resource_get_handle (self));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gcuda_managed_memory_resource_class_init (GCudaManagedMemoryResourceClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;

  object_class->finalize = gcuda_managed_memory_resource_finalize;
  object_class->get_property = gcuda_managed_memory_resource_get_property;
  GCUDA_MEMORY_RESOURCE_CLASS (klass)->operations = &operations;

  /**
   * GCudaManagedMemoryResource:pooled: (getter is_pooled)
   *
   * Whether the memory is that of a pool, and is freed in stream order by the driver.
   *
   * Since: 0.1
   */
  properties[PROP_POOLED] = g_param_spec_boolean ("pooled", NULL, NULL, FALSE, flags);

  /**
   * GCudaManagedMemoryResource:concurrent: (getter is_concurrent)
   *
   * Whether the processor may use the memory while the device works on something else.
   *
   * Since: 0.1
   */
  properties[PROP_CONCURRENT] = g_param_spec_boolean ("concurrent", NULL, NULL, FALSE, flags);

  /**
   * GCudaManagedMemoryResource:preferred-location: (getter get_preferred_location)
   *
   * Where the memory that is allocated is preferred to be; %NULL for no place.
   *
   * Since: 0.1
   */
  properties[PROP_PREFERRED_LOCATION] = g_param_spec_boxed ("preferred-location", NULL, NULL, GCUDA_TYPE_LOCATION, flags);

  /**
   * GCudaManagedMemoryResource:handle: (getter get_handle)
   *
   * The `CUmemoryPool`, as a number; 0 where there is no pool.
   *
   * Since: 0.1
   */
  properties[PROP_HANDLE] = g_param_spec_uint64 ("handle", NULL, NULL, 0, G_MAXUINT64, 0, flags);

  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
gcuda_managed_memory_resource_init (GCudaManagedMemoryResource *self)
{
}

/* Making resources */

static const char making[] = "making a resource for managed memory";

/* All but the memory's source; NULL, with an error, for a device or a preference that can't be. */
static GCudaManagedMemoryResource *
make (GCudaDevice *device,
      GCudaLocation *preferred,
      GError **error)
{
  g_autoptr (GCudaManagedMemoryResource) self = NULL;
  CUmemLocation place = { 0 };
  CUdevice number;
  CUresult result;
  int supported = 0, concurrent = 0;

  if (!_gcuda_device_check (device, making, &number, error) ||
      (preferred != NULL && !_gcuda_location_resolve (preferred, &place, making, error)))
    return NULL;
  result = _gcuda_driver.DeviceGetAttribute (&supported, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, number);
  if (result == CUDA_SUCCESS)
    result = _gcuda_driver.DeviceGetAttribute (&concurrent, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, number);
  if (result != CUDA_SUCCESS)
    {
      _gcuda_fail_driver (error, result, "%s for device %d: asking what the device supports", making, (int) number);
      return NULL;
    }
  if (!supported)
    {
      _gcuda_fail (error, GCUDA_ERROR_NOT_SUPPORTED,
                   "%s: device %d has none (CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY is 0); use GCudaPinnedMemoryResource", making, (int) number);
      return NULL;
    }
  if (preferred != NULL && place.type != CU_MEM_LOCATION_TYPE_DEVICE && place.type != CU_MEM_LOCATION_TYPE_HOST)
    {
      g_autofree char *text = gcuda_location_to_string (preferred);

      _gcuda_fail (error, GCUDA_ERROR_NOT_SUPPORTED, "%s: drivers keep no preference for %s; prefer the host", making, text);
      return NULL;
    }
  if (preferred != NULL && !_gcuda_driver_has (GCUDA_DRIVER_GROUP_LOCATIONS))
    {
      _gcuda_fail (error, GCUDA_ERROR_NOT_SUPPORTED, "%s: a preferred location needs a driver of CUDA 12.2 or newer (cuMemAdvise_v2)", making);
      return NULL;
    }
  if (place.type == CU_MEM_LOCATION_TYPE_DEVICE && !concurrent)
    {
      _gcuda_fail (error, GCUDA_ERROR_NOT_SUPPORTED,
                   "%s: device %d can be no preferred location (CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS is 0); prefer none", making, (int) number);
      return NULL;
    }
  self = g_object_new (GCUDA_TYPE_MANAGED_MEMORY_RESOURCE, "device", device, "host-accessible", TRUE, NULL);
  self->concurrent = concurrent != 0;
  self->preferred = preferred != NULL ? gcuda_location_ref (preferred) : NULL;
  self->place = place;
  return g_steal_pointer (&self);
}

/**
 * gcuda_managed_memory_resource_new:
 * @device: the device that uses the memory
 * @preferred: (nullable): where memory is preferred to be, a device or the host; %NULL for no place
 * @error: return location for an error
 *
 * Makes a resource for managed memory: from a pool of its own where the driver has pools of managed memory, piece by piece
 * elsewhere. It breaks no capture. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for no device or a location that is not there; `NOT_SUPPORTED` for a device without managed
 * memory, or one where that preference means nothing; what the driver answers; as [method@Device.get_primary_context].
 *
 * Returns: (transfer full): a new memory resource
 *
 * Since: 0.1
 */
GCudaManagedMemoryResource *
gcuda_managed_memory_resource_new (GCudaDevice *device,
                                   GCudaLocation *preferred,
                                   GError **error)
{
  g_autoptr (GCudaManagedMemoryResource) self = make (device, preferred, error);
  GCudaContextBox *context;
  CUmemPoolProps props = { 0 };
  CUmemoryPool handle;
  CUresult result = CUDA_ERROR_NOT_SUPPORTED;

  if (self == NULL)
    return NULL;
  context = _gcuda_device_hold_primary_context (device, making, error);
  if (context == NULL)
    return NULL;
  /* The driver moves pages of a pool as it likes: on a device that must be idle for that there are none. */
  if (self->concurrent && _gcuda_driver_has (GCUDA_DRIVER_GROUP_POOLS))
    {
      props.allocType = ALLOCATION_TYPE_MANAGED;
      props.location = self->place;
      result = _gcuda_memory_pool_create (&props, &handle);
    }
  if (result == CUDA_SUCCESS)
    {
      self->pool = _gcuda_memory_pool_new (handle, TRUE, context, g_strdup_printf ("a pool of managed memory for device %d", (int) context->device));
    }
  /* These two are the answers of a driver that has no such pools. */
  else if (result == CUDA_ERROR_NOT_SUPPORTED || result == CUDA_ERROR_INVALID_VALUE)
    {
      self->context = context;
    }
  else
    {
      _gcuda_fail_driver (error, result, "%s for device %d", making, (int) context->device);
      _gcuda_context_box_unuse (context);
      return NULL;
    }
  return g_steal_pointer (&self);
}

/**
 * gcuda_managed_memory_resource_new_unpooled:
 * @device: the device that uses the memory
 * @preferred: (nullable): where memory is preferred to be, a device or the host; %NULL for no place
 * @error: return location for an error
 *
 * Makes a resource that allocates managed memory piece by piece, also where the driver has pools. Any thread.
 *
 * Errors: as [ctor@ManagedMemoryResource.new].
 *
 * Returns: (transfer full): a new memory resource
 *
 * Since: 0.1
 */
GCudaManagedMemoryResource *
gcuda_managed_memory_resource_new_unpooled (GCudaDevice *device,
                                            GCudaLocation *preferred,
                                            GError **error)
{
  g_autoptr (GCudaManagedMemoryResource) self = make (device, preferred, error);

  if (self == NULL)
    return NULL;
  self->context = _gcuda_device_hold_primary_context (device, making, error);
  return self->context != NULL ? g_steal_pointer (&self) : NULL;
}

/**
 * gcuda_managed_memory_resource_is_pooled: (get-property pooled)
 * @self: a memory resource
 *
 * Whether the memory is that of a pool, and is freed in stream order by the driver. Any thread.
 *
 * Returns: whether there is a pool
 *
 * Since: 0.1
 */
gboolean
gcuda_managed_memory_resource_is_pooled (GCudaManagedMemoryResource *self)
{
  g_return_val_if_fail (GCUDA_IS_MANAGED_MEMORY_RESOURCE (self), FALSE);

  return self->pool != NULL;
}

/**
 * gcuda_managed_memory_resource_is_concurrent: (get-property concurrent)
 * @self: a memory resource
 *
 * Whether the processor may use the memory while the device works on something else. Where it may not,
 * [method@Buffer.map] waits for all work of the device, and the program queues none until it is done with the memory. Any
 * thread.
 *
 * Returns: whether both may be at work
 *
 * Since: 0.1
 */
gboolean
gcuda_managed_memory_resource_is_concurrent (GCudaManagedMemoryResource *self)
{
  g_return_val_if_fail (GCUDA_IS_MANAGED_MEMORY_RESOURCE (self), FALSE);

  return self->concurrent;
}

/**
 * gcuda_managed_memory_resource_get_preferred_location: (get-property preferred-location)
 * @self: a memory resource
 *
 * Where the memory that is allocated is preferred to be. Any thread.
 *
 * Returns: (transfer none) (nullable): a location; %NULL for no place
 *
 * Since: 0.1
 */
GCudaLocation *
gcuda_managed_memory_resource_get_preferred_location (GCudaManagedMemoryResource *self)
{
  g_return_val_if_fail (GCUDA_IS_MANAGED_MEMORY_RESOURCE (self), NULL);

  return self->preferred;
}

/**
 * gcuda_managed_memory_resource_get_handle: (get-property handle)
 * @self: a memory resource
 *
 * The `CUmemoryPool`, as a number, for other libraries. It is valid as long as @self lives. Any thread.
 *
 * Returns: the handle; 0 where there is no pool
 *
 * Since: 0.1
 */
guint64
gcuda_managed_memory_resource_get_handle (GCudaManagedMemoryResource *self)
{
  g_return_val_if_fail (GCUDA_IS_MANAGED_MEMORY_RESOURCE (self), 0);

  return self->pool != NULL ? (guint64) (guintptr) self->pool->handle : 0;
}

/* The pool for a call that needs one. */
static GCudaMemoryPool *
get_pool (GCudaManagedMemoryResource *self,
          const char *what,
          GError **error)
{
  if (!_gcuda_memory_resource_check (GCUDA_MEMORY_RESOURCE (self), what, error))
    return NULL;
  if (self->pool == NULL)
    _gcuda_fail (error, GCUDA_ERROR_NOT_SUPPORTED, "%s: this resource allocates managed memory piece by piece and has no pool", what);
  return self->pool;
}

/**
 * gcuda_managed_memory_resource_set_release_threshold:
 * @self: a memory resource
 * @threshold: how many bytes to keep; %G_MAXUINT64 for all
 * @error: return location for an error, or %NULL
 *
 * Sets how many bytes the pool keeps when nothing is allocated; see
 * [method@DeviceMemoryResource.set_release_threshold]. Any thread.
 *
 * Errors: `NOT_SUPPORTED` for a resource without a pool; `CLOSED`; `FORKED`; what the driver answers.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_managed_memory_resource_set_release_threshold (GCudaManagedMemoryResource *self,
                                                     guint64 threshold,
                                                     GError **error)
{
  static const char what[] = "setting the release threshold of a memory pool";
  GCudaMemoryPool *pool;
  CUresult result;

  g_return_val_if_fail (GCUDA_IS_MANAGED_MEMORY_RESOURCE (self), FALSE);

  pool = get_pool (self, what, error);
  if (pool == NULL)
    return FALSE;
  result = _gcuda_memory_pool_set_attribute (pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, threshold);
  return result == CUDA_SUCCESS || _gcuda_fail_driver (error, result, "%s", what);
}

/**
 * gcuda_managed_memory_resource_trim:
 * @self: a memory resource
 * @keep: how many bytes the pool may keep
 * @error: return location for an error, or %NULL
 *
 * Gives memory that is not in use back to the system, down to @keep bytes; see [method@DeviceMemoryResource.trim]. Any
 * thread.
 *
 * Errors: as there; `NOT_SUPPORTED` for a resource without a pool.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_managed_memory_resource_trim (GCudaManagedMemoryResource *self,
                                    guint64 keep,
                                    GError **error)
{
  GCudaMemoryPool *pool;

  g_return_val_if_fail (GCUDA_IS_MANAGED_MEMORY_RESOURCE (self), FALSE);

  pool = get_pool (self, "trimming a memory pool", error);
  return pool != NULL && _gcuda_memory_pool_trim (pool, keep, error);
}

/**
 * gcuda_managed_memory_resource_get_statistics:
 * @self: a memory resource
 * @error: return location for an error
 *
 * Asks how much memory the pool uses and holds. Any thread.
 *
 * Errors: `NOT_SUPPORTED` for a resource without a pool; `CLOSED`; `FORKED`; what the driver answers.
 *
 * Returns: (transfer full): a snapshot
 *
 * Since: 0.1
 */
GCudaPoolStatistics *
gcuda_managed_memory_resource_get_statistics (GCudaManagedMemoryResource *self,
                                              GError **error)
{
  GCudaMemoryPool *pool;

  g_return_val_if_fail (GCUDA_IS_MANAGED_MEMORY_RESOURCE (self), NULL);

  pool = get_pool (self, "asking for the figures of a memory pool", error);
  return pool != NULL ? _gcuda_memory_pool_get_statistics (pool, error) : NULL;
}

/**
 * gcuda_managed_memory_resource_reset_high_marks:
 * @self: a memory resource
 * @error: return location for an error, or %NULL
 *
 * Makes the high marks of the statistics start anew, from what is used and held now. Any thread.
 *
 * Errors: `NOT_SUPPORTED` for a resource without a pool; `CLOSED`; `FORKED`; what the driver answers.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_managed_memory_resource_reset_high_marks (GCudaManagedMemoryResource *self,
                                                GError **error)
{
  GCudaMemoryPool *pool;

  g_return_val_if_fail (GCUDA_IS_MANAGED_MEMORY_RESOURCE (self), FALSE);

  pool = get_pool (self, "resetting the high marks of a memory pool", error);
  return pool != NULL && _gcuda_memory_pool_reset_high_marks (pool, error);
}
