/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-pinned-memory-resource.h"

#include "gcuda-memory-pool-private.h"
#include "memory/gcuda-location-private.h"
#include "memory/gcuda-memory-resource-private.h"

/* By number: these are newer than the oldest cuda.h that this builds with. */
#define HOST_NUMA_POOLS_SUPPORTED ((CUdevice_attribute) 142)
#define HOST_POOLS_SUPPORTED      ((CUdevice_attribute) 144)

/**
 * GCudaPinnedMemoryResource:
 *
 * Page-locked memory of the host, which devices and the processor can both use.
 *
 * Copies between such memory and a device run at the speed of the link, and beside the program. Where the driver has memory
 * pools of the host's, the memory is that of a pool: allocating and freeing are ordered like other work of a stream and wait
 * for nothing. Elsewhere it is allocated piece by piece (`cuMemHostAlloc`), which is slow and may make the device wait; it
 * is then freed by a thread of this library when the recipe's stream has passed.
 * [property@PinnedMemoryResource:pooled] tells which of both it is. Memory of a pool is copied by its own device only.
 *
 * The processor uses the memory within [method@Buffer.map]. Any thread.
 *
 * Since: 0.1
 */
struct _GCudaPinnedMemoryResource
{
  GCudaMemoryResource parent_instance;

  GCudaMemoryPool *pool;    /* one of both; neither for an object made by bare new */
  GCudaContextBox *context; /* where the memory is allocated piece by piece */
  gboolean write_combined;
  int node; /* -1: none in particular */
};

G_DEFINE_FINAL_TYPE (GCudaPinnedMemoryResource, gcuda_pinned_memory_resource, GCUDA_TYPE_MEMORY_RESOURCE)

enum
{
  PROP_0,
  PROP_POOLED,
  PROP_WRITE_COMBINED,
  PROP_NUMA_NODE,
  PROP_HANDLE,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

/* Operations */

static gboolean
pinned_check (GCudaMemoryResource *resource,
              GError **error)
{
  GCudaPinnedMemoryResource *self = (GCudaPinnedMemoryResource *) resource;

  if (self->pool != NULL)
    return _gcuda_driver_check (error);
  if (self->context != NULL)
    return _gcuda_context_box_check (self->context, error);
  return _gcuda_fail (error, GCUDA_ERROR_CLOSED, "this memory resource was not made by gcuda_pinned_memory_resource_new ()");
}

static char *
pinned_describe (GCudaMemoryResource *resource)
{
  GCudaPinnedMemoryResource *self = (GCudaPinnedMemoryResource *) resource;

  if (self->pool != NULL)
    return _gcuda_memory_pool_describe (self->pool);
  return g_strdup_printf ("page-locked memory for device %d", (int) self->context->device);
}

static CUresult
pool_allocate (GCudaMemoryResource *resource,
               gsize size,
               GCudaStreamCall *call,
               CUdeviceptr *address)
{
  GCudaPinnedMemoryResource *self = (GCudaPinnedMemoryResource *) resource;

  return _gcuda_driver.MemAllocFromPoolAsync (address, size, self->pool->handle, call->handle);
}

static CUresult
pool_deallocate (GCudaMemoryResource *resource,
                 GCudaStreamBox *box,
                 CUdeviceptr address,
                 gsize size,
                 CUstream handle)
{
  return _gcuda_memory_pool_free (((GCudaPinnedMemoryResource *) resource)->pool, box, address, handle);
}

static CUresult
pool_deallocate_gone (GCudaMemoryResource *resource,
                      CUdeviceptr address,
                      gsize size)
{
  return _gcuda_memory_pool_free_gone (address);
}

static CUresult
host_allocate (GCudaMemoryResource *resource,
               gsize size,
               GCudaStreamCall *call,
               CUdeviceptr *address)
{
  GCudaPinnedMemoryResource *self = (GCudaPinnedMemoryResource *) resource;
  unsigned int flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | (self->write_combined ? CU_MEMHOSTALLOC_WRITECOMBINED : 0);
  GCudaContextScope scope;
  CUresult result, left;
  void *host = NULL;

  /* In the resource's context, whatever the stream's is. */
  result = _gcuda_context_scope_enter (&scope, self->context->handle);
  if (result != CUDA_SUCCESS)
    return result;
  result = _gcuda_driver.MemHostAlloc (&host, size, flags);
  left = _gcuda_context_scope_leave (&scope);
  if (result == CUDA_SUCCESS && left != CUDA_SUCCESS)
    {
      _gcuda_context_box_report (self->context, _gcuda_driver.MemFreeHost (host), "cuMemFreeHost", (guint64) (guintptr) host, size);
      result = left;
    }
  /* Devices have it at the same address: all that this library knows address memory in one way. */
  *address = (CUdeviceptr) (guintptr) host;
  return result;
}

static CUresult
host_deallocate (GCudaMemoryResource *resource,
                 GCudaStreamBox *box,
                 CUdeviceptr address,
                 gsize size,
                 CUstream handle)
{
  GCudaPinnedMemoryResource *self = (GCudaPinnedMemoryResource *) resource;
  CUresult result;

  /* Memory goes with the context it was made in. Others may reset that at any time, also between these two. */
  if (!_gcuda_context_box_is_alive (self->context))
    return CUDA_SUCCESS;
  result = _gcuda_driver.MemFreeHost ((void *) (guintptr) address);
  return result == CUDA_SUCCESS || _gcuda_context_box_is_alive (self->context) ? result : CUDA_SUCCESS;
}

static CUresult
host_deallocate_gone (GCudaMemoryResource *resource,
                      CUdeviceptr address,
                      gsize size)
{
  return host_deallocate (resource, NULL, address, size, NULL);
}

static const GCudaResourceOperations pool_operations = {
  .stream_ordered = TRUE,
  .free_call = "cuMemFreeAsync",
  .check = pinned_check,
  .describe = pinned_describe,
  .allocate = pool_allocate,
  .deallocate = pool_deallocate,
  .deallocate_gone = pool_deallocate_gone,
  .on_host = TRUE,
};

static const GCudaResourceOperations host_operations = {
  .stream_ordered = FALSE,
  .free_call = "cuMemFreeHost",
  .check = pinned_check,
  .describe = pinned_describe,
  .allocate = host_allocate,
  .deallocate = host_deallocate,
  .deallocate_gone = host_deallocate_gone,
  .on_host = TRUE,
  .portable = TRUE,
};

static const GCudaResourceOperations *
pinned_select (GCudaMemoryResource *resource)
{
  return ((GCudaPinnedMemoryResource *) resource)->pool != NULL ? &pool_operations : &host_operations;
}

static const GCudaResourceOperations operations = {
  .select = pinned_select,
};

/* The class */

static void
gcuda_pinned_memory_resource_finalize (GObject *object)
{
  GCudaPinnedMemoryResource *self = GCUDA_PINNED_MEMORY_RESOURCE (object);

  g_clear_pointer (&self->pool, _gcuda_memory_pool_release);
  g_clear_pointer (&self->context, _gcuda_context_box_unuse);

  G_OBJECT_CLASS (gcuda_pinned_memory_resource_parent_class)->finalize (object);
}

static void
gcuda_pinned_memory_resource_get_property (GObject *object,
                                           guint id,
                                           GValue *value,
                                           GParamSpec *pspec)
{
  GCudaPinnedMemoryResource *self = GCUDA_PINNED_MEMORY_RESOURCE (object);

  switch (id)
    {
    case PROP_POOLED:
      g_value_set_boolean (value, self->pool != NULL);
      break;
    case PROP_WRITE_COMBINED:
      g_value_set_boolean (value, self->write_combined);
      break;
    case PROP_NUMA_NODE:
      g_value_set_int (value, self->node);
      break;
    case PROP_HANDLE:
      g_value_set_uint64 (value, gcuda_pinned_memory_resource_get_handle (self));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gcuda_pinned_memory_resource_class_init (GCudaPinnedMemoryResourceClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;

  object_class->finalize = gcuda_pinned_memory_resource_finalize;
  object_class->get_property = gcuda_pinned_memory_resource_get_property;
  GCUDA_MEMORY_RESOURCE_CLASS (klass)->operations = &operations;

  /**
   * GCudaPinnedMemoryResource:pooled: (getter is_pooled)
   *
   * Whether the memory is that of a pool, and is freed in stream order by the driver.
   *
   * Since: 0.1
   */
  properties[PROP_POOLED] = g_param_spec_boolean ("pooled", NULL, NULL, FALSE, flags);

  /**
   * GCudaPinnedMemoryResource:write-combined: (getter is_write_combined)
   *
   * Whether the processor's writes are combined and its reads very slow.
   *
   * Since: 0.1
   */
  properties[PROP_WRITE_COMBINED] = g_param_spec_boolean ("write-combined", NULL, NULL, FALSE, flags);

  /**
   * GCudaPinnedMemoryResource:numa-node: (getter get_numa_node)
   *
   * The NUMA node of the host that the memory is on; -1 for none in particular.
   *
   * Since: 0.1
   */
  properties[PROP_NUMA_NODE] = g_param_spec_int ("numa-node", NULL, NULL, -1, G_MAXINT, -1, flags);

  /**
   * GCudaPinnedMemoryResource:handle: (getter get_handle)
   *
   * The `CUmemoryPool`, as a number; 0 where there is no pool.
   *
   * Since: 0.1
   */
  properties[PROP_HANDLE] = g_param_spec_uint64 ("handle", NULL, NULL, 0, G_MAXUINT64, 0, flags);

  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
gcuda_pinned_memory_resource_init (GCudaPinnedMemoryResource *self)
{
  self->node = -1;
}

/* Making resources */

static GCudaPinnedMemoryResource *
make (GCudaDevice *device)
{
  return g_object_new (GCUDA_TYPE_PINNED_MEMORY_RESOURCE, "device", device, "host-accessible", TRUE, NULL);
}

/* Whether there may be pools; a driver that does not know the question is asked for one. */
static gboolean
may_have_pools (CUdevice device,
                CUdevice_attribute attribute)
{
  int supported = 0;

  if (!_gcuda_driver_has (GCUDA_DRIVER_GROUP_POOLS))
    return FALSE;
  return _gcuda_driver.DeviceGetAttribute (&supported, attribute, device) != CUDA_SUCCESS || supported != 0;
}

/* A pool that the device can use; NULL and the driver's answer, and then there is none. */
static GCudaMemoryPool *
make_pool (GCudaContextBox *context,
           CUmemLocationType type,
           int node,
           CUresult *result)
{
  CUmemPoolProps props = { 0 };
  CUmemoryPool handle;
  GCudaMemoryPool *pool;
  char *name;

  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location.type = type;
  props.location.id = node;
  *result = _gcuda_memory_pool_create (&props, &handle);
  if (*result != CUDA_SUCCESS)
    return NULL;
  name = type == CU_MEM_LOCATION_TYPE_HOST
           ? g_strdup_printf ("a memory pool of the host for device %d", (int) context->device)
           : g_strdup_printf ("a memory pool of the host's NUMA node %d for device %d", node, (int) context->device);
  pool = _gcuda_memory_pool_new (handle, TRUE, context, name);
  /* The driver grants a host pool to no device by itself: what is allocated from it would be of no use. */
  *result = _gcuda_memory_pool_set_access (pool, context->device, TRUE);
  if (*result == CUDA_SUCCESS)
    return pool;
  _gcuda_context_box_use (context); /* the pool's use goes with it */
  _gcuda_memory_pool_release (pool);
  return NULL;
}

/**
 * gcuda_pinned_memory_resource_new:
 * @device: the device that uses the memory
 * @error: return location for an error
 *
 * Makes a resource for page-locked memory of the host: from a pool of its own where the driver has such pools, piece by
 * piece elsewhere. It breaks no capture. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for no device; what the driver answers; as [method@Device.get_primary_context].
 *
 * Returns: (transfer full): a new memory resource
 *
 * Since: 0.1
 */
GCudaPinnedMemoryResource *
gcuda_pinned_memory_resource_new (GCudaDevice *device,
                                  GError **error)
{
  static const char what[] = "making a resource for page-locked memory";
  GCudaContextBox *context = _gcuda_device_hold_primary_context (device, what, error);
  GCudaPinnedMemoryResource *self;
  GCudaMemoryPool *pool = NULL;
  CUresult result = CUDA_ERROR_NOT_SUPPORTED;

  if (context == NULL)
    return NULL;
  if (may_have_pools (context->device, HOST_POOLS_SUPPORTED))
    pool = make_pool (context, CU_MEM_LOCATION_TYPE_HOST, 0, &result);
  /* These two are the answers of a driver that has none. */
  if (pool == NULL && result != CUDA_ERROR_NOT_SUPPORTED && result != CUDA_ERROR_INVALID_VALUE)
    {
      _gcuda_fail_driver (error, result, "%s for device %d", what, (int) context->device);
      _gcuda_context_box_unuse (context);
      return NULL;
    }
  self = make (device);
  self->pool = pool;
  self->context = pool == NULL ? context : NULL;
  return self;
}

/**
 * gcuda_pinned_memory_resource_new_for_numa_node:
 * @device: the device that uses the memory
 * @node: a NUMA node of the host
 * @error: return location for an error
 *
 * Makes a resource for page-locked memory on one NUMA node, from a pool of its own. It breaks no capture. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for no device, and a node that the host does not have; `NOT_SUPPORTED` for a driver without
 * pools on NUMA nodes; what the driver answers; as [method@Device.get_primary_context].
 *
 * Returns: (transfer full): a new memory resource
 *
 * Since: 0.1
 */
GCudaPinnedMemoryResource *
gcuda_pinned_memory_resource_new_for_numa_node (GCudaDevice *device,
                                                int node,
                                                GError **error)
{
  static const char what[] = "making a resource for page-locked memory on a NUMA node";
  GCudaContextBox *context;
  GCudaPinnedMemoryResource *self;
  GCudaMemoryPool *pool;
  CUdevice number;
  CUresult result;

  if (!_gcuda_device_check (device, what, &number, error))
    return NULL;
  if (!_gcuda_numa_node_may_exist (node))
    {
      _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: the host has no node %d", what, node);
      return NULL;
    }
  context = _gcuda_device_hold_primary_context (device, what, error);
  if (context == NULL)
    return NULL;
  if (!may_have_pools (number, HOST_NUMA_POOLS_SUPPORTED))
    {
      _gcuda_fail (error, GCUDA_ERROR_NOT_SUPPORTED,
                   "%s: the driver has no pools there (CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED is 0 for device %d); "
                   "gcuda_pinned_memory_resource_new () makes memory on no node in particular",
                   what, (int) number);
      _gcuda_context_box_unuse (context);
      return NULL;
    }
  pool = make_pool (context, CU_MEM_LOCATION_TYPE_HOST_NUMA, node, &result);
  if (pool == NULL)
    {
      if (result == CUDA_ERROR_INVALID_VALUE)
        _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: the driver knows no node %d (CUDA_ERROR_INVALID_VALUE)", what, node);
      else
        _gcuda_fail_driver (error, result, "%s, %d", what, node);
      _gcuda_context_box_unuse (context);
      return NULL;
    }
  self = make (device);
  self->pool = pool;
  self->node = node;
  return self;
}

/**
 * gcuda_pinned_memory_resource_new_unpooled:
 * @device: the device that uses the memory
 * @write_combined: whether the processor only writes the memory
 * @error: return location for an error
 *
 * Makes a resource that allocates page-locked memory piece by piece, also where the driver has pools. For one who asks for
 * large pieces now and then, for memory that several devices copy, and for write-combined memory, which some devices read
 * faster, and which the processor reads very slowly. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for no device; as [method@Device.get_primary_context].
 *
 * Returns: (transfer full): a new memory resource
 *
 * Since: 0.1
 */
GCudaPinnedMemoryResource *
gcuda_pinned_memory_resource_new_unpooled (GCudaDevice *device,
                                           gboolean write_combined,
                                           GError **error)
{
  GCudaContextBox *context = _gcuda_device_hold_primary_context (device, "making a resource for page-locked memory", error);
  GCudaPinnedMemoryResource *self;

  if (context == NULL)
    return NULL;
  self = make (device);
  self->context = context;
  self->write_combined = write_combined != FALSE;
  return self;
}

/**
 * gcuda_pinned_memory_resource_is_pooled: (get-property pooled)
 * @self: a memory resource
 *
 * Whether the memory is that of a pool, and is freed in stream order by the driver. Any thread.
 *
 * Returns: whether there is a pool
 *
 * Since: 0.1
 */
gboolean
gcuda_pinned_memory_resource_is_pooled (GCudaPinnedMemoryResource *self)
{
  g_return_val_if_fail (GCUDA_IS_PINNED_MEMORY_RESOURCE (self), FALSE);

  return self->pool != NULL;
}

/**
 * gcuda_pinned_memory_resource_is_write_combined: (get-property write-combined)
 * @self: a memory resource
 *
 * Whether the processor's writes are combined and its reads very slow. Any thread.
 *
 * Returns: whether the memory is write-combined
 *
 * Since: 0.1
 */
gboolean
gcuda_pinned_memory_resource_is_write_combined (GCudaPinnedMemoryResource *self)
{
  g_return_val_if_fail (GCUDA_IS_PINNED_MEMORY_RESOURCE (self), FALSE);

  return self->write_combined;
}

/**
 * gcuda_pinned_memory_resource_get_numa_node: (get-property numa-node)
 * @self: a memory resource
 *
 * The NUMA node of the host that the memory is on. Any thread.
 *
 * Returns: a node; -1 for none in particular
 *
 * Since: 0.1
 */
int
gcuda_pinned_memory_resource_get_numa_node (GCudaPinnedMemoryResource *self)
{
  g_return_val_if_fail (GCUDA_IS_PINNED_MEMORY_RESOURCE (self), -1);

  return self->node;
}

/**
 * gcuda_pinned_memory_resource_get_handle: (get-property handle)
 * @self: a memory resource
 *
 * The `CUmemoryPool`, as a number, for other libraries. It is valid as long as @self lives. Any thread.
 *
 * Returns: the handle; 0 where there is no pool
 *
 * Since: 0.1
 */
guint64
gcuda_pinned_memory_resource_get_handle (GCudaPinnedMemoryResource *self)
{
  g_return_val_if_fail (GCUDA_IS_PINNED_MEMORY_RESOURCE (self), 0);

  return self->pool != NULL ? (guint64) (guintptr) self->pool->handle : 0;
}

/* The pool for a call that needs one. */
static GCudaMemoryPool *
get_pool (GCudaPinnedMemoryResource *self,
          const char *what,
          GError **error)
{
  if (!_gcuda_memory_resource_check (GCUDA_MEMORY_RESOURCE (self), what, error))
    return NULL;
  if (self->pool == NULL)
    _gcuda_fail (error, GCUDA_ERROR_NOT_SUPPORTED, "%s: this resource allocates page-locked memory piece by piece and has no pool", what);
  return self->pool;
}

/**
 * gcuda_pinned_memory_resource_set_release_threshold:
 * @self: a memory resource
 * @threshold: how many bytes to keep; %G_MAXUINT64 for all
 * @error: return location for an error, or %NULL
 *
 * Sets how many bytes the pool keeps when nothing is allocated. At first that is 0: each time that something synchronizes,
 * what is not in use goes back to the system, and locking pages anew takes long. Any thread.
 *
 * Errors: `NOT_SUPPORTED` for a resource without a pool; `CLOSED`; `FORKED`; what the driver answers.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_pinned_memory_resource_set_release_threshold (GCudaPinnedMemoryResource *self,
                                                    guint64 threshold,
                                                    GError **error)
{
  static const char what[] = "setting the release threshold of a memory pool";
  GCudaMemoryPool *pool;
  CUresult result;

  g_return_val_if_fail (GCUDA_IS_PINNED_MEMORY_RESOURCE (self), FALSE);

  pool = get_pool (self, what, error);
  if (pool == NULL)
    return FALSE;
  result = _gcuda_memory_pool_set_attribute (pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, threshold);
  return result == CUDA_SUCCESS || _gcuda_fail_driver (error, result, "%s", what);
}

/**
 * gcuda_pinned_memory_resource_trim:
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
gcuda_pinned_memory_resource_trim (GCudaPinnedMemoryResource *self,
                                   guint64 keep,
                                   GError **error)
{
  GCudaMemoryPool *pool;

  g_return_val_if_fail (GCUDA_IS_PINNED_MEMORY_RESOURCE (self), FALSE);

  pool = get_pool (self, "trimming a memory pool", error);
  return pool != NULL && _gcuda_memory_pool_trim (pool, keep, error);
}

/**
 * gcuda_pinned_memory_resource_get_statistics:
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
gcuda_pinned_memory_resource_get_statistics (GCudaPinnedMemoryResource *self,
                                             GError **error)
{
  GCudaMemoryPool *pool;

  g_return_val_if_fail (GCUDA_IS_PINNED_MEMORY_RESOURCE (self), NULL);

  pool = get_pool (self, "asking for the figures of a memory pool", error);
  return pool != NULL ? _gcuda_memory_pool_get_statistics (pool, error) : NULL;
}

/**
 * gcuda_pinned_memory_resource_reset_high_marks:
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
gcuda_pinned_memory_resource_reset_high_marks (GCudaPinnedMemoryResource *self,
                                               GError **error)
{
  GCudaMemoryPool *pool;

  g_return_val_if_fail (GCUDA_IS_PINNED_MEMORY_RESOURCE (self), FALSE);

  pool = get_pool (self, "resetting the high marks of a memory pool", error);
  return pool != NULL && _gcuda_memory_pool_reset_high_marks (pool, error);
}
