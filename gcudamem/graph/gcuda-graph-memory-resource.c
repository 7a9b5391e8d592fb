/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-graph-memory-resource.h"

#include "gcuda-graph-box-private.h"
#include "resources/gcuda-pool-statistics-private.h"

/**
 * GCudaGraphMemoryResource:
 *
 * Memory of graphs: a buffer that is allocated on a stream in capture becomes an allocation node of the graph.
 *
 * The buffer has its address at once, and memory from a launch of the graph on. Closed in the same capture, it becomes a
 * free node: the memory then lives within each launch only. A buffer that is open when the capture ends outlives the launch,
 * and the graph: closed after a launch, its memory is freed on the stream of its recipe, once. A graph whose memory was not
 * freed can't be launched again, unless it was made with `GCUDA_GRAPH_FLAGS_AUTO_FREE_ON_LAUNCH`; without a buffer, each
 * launch frees it behind itself. Closed while the graph was never launched, there is nothing to free.
 *
 * It allocates on streams that are being captured, and on no others: [class@GraphBuilder] is one. The other resources refuse
 * such a stream. Memory of graphs belongs to the device: all objects of this class for a device are alike, and so is what
 * they say of it. Any thread.
 *
 * Since: 0.1
 */
struct _GCudaGraphMemoryResource
{
  GCudaMemoryResource parent_instance;

  gboolean open; /* FALSE for an object made by bare new */
  CUdevice number;
};

G_DEFINE_FINAL_TYPE (GCudaGraphMemoryResource, gcuda_graph_memory_resource, GCUDA_TYPE_MEMORY_RESOURCE)

static gboolean
graph_check (GCudaMemoryResource *resource,
             GError **error)
{
  GCudaGraphMemoryResource *self = GCUDA_GRAPH_MEMORY_RESOURCE (resource);

  return self->open || _gcuda_fail (error, GCUDA_ERROR_CLOSED, "this memory resource was not made by gcuda_graph_memory_resource_new ()");
}

static char *
graph_describe (GCudaMemoryResource *resource)
{
  return g_strdup_printf ("the graph memory of device %d", (int) GCUDA_GRAPH_MEMORY_RESOURCE (resource)->number);
}

static gboolean
graph_accept (GCudaMemoryResource *resource,
              GCudaStreamCall *call,
              const char *what,
              GError **error)
{
  GCudaGraphMemoryResource *self = GCUDA_GRAPH_MEMORY_RESOURCE (resource);

  if (call->box->context->device != self->number)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: the stream belongs to device %d, and this is the graph memory of device %d",
                        what, (int) call->box->context->device, (int) self->number);
  if (!_gcuda_stream_call_find_capture (call, what, error))
    return FALSE;
  return call->graph != NULL ||
         _gcuda_fail (error, GCUDA_ERROR_NOT_CAPTURING, "%s: the stream is not being captured, and memory of graphs is allocated in a capture only; take a GCudaGraphBuilder, or another resource such as GCudaDeviceMemoryResource", what);
}

static CUresult
graph_allocate (GCudaMemoryResource *resource,
                gsize size,
                GCudaStreamCall *call,
                CUdeviceptr *address)
{
  CUresult result = _gcuda_driver.MemAllocAsync (address, size, call->handle);

  if (result == CUDA_SUCCESS)
    {
      GCudaGraphMemory *memory = _gcuda_graph_memory_find (call->capture);

      _gcuda_graph_memory_add (memory, call->capture, *address, size);
      g_clear_pointer (&memory, _gcuda_graph_memory_unref);
    }
  return result;
}

static CUresult
graph_deallocate (GCudaMemoryResource *resource,
                  GCudaStreamBox *box,
                  CUdeviceptr address,
                  gsize size,
                  CUstream handle)
{
  return _gcuda_graph_memory_release (address, box, handle);
}

static CUresult
graph_deallocate_gone (GCudaMemoryResource *resource,
                       CUdeviceptr address,
                       gsize size)
{
  return _gcuda_graph_memory_release_gone (address);
}

static gboolean
graph_is_of_capture (GCudaMemoryResource *resource,
                     CUdeviceptr address,
                     cuuint64_t capture)
{
  return _gcuda_graph_memory_is_of_capture (address, capture);
}

static const GCudaResourceOperations operations = {
  .stream_ordered = TRUE,
  .free_call = "cuMemFreeAsync",
  .check = graph_check,
  .describe = graph_describe,
  .accept = graph_accept,
  .allocate = graph_allocate,
  .deallocate = graph_deallocate,
  .deallocate_gone = graph_deallocate_gone,
  .is_of_capture = graph_is_of_capture,
  .use_hint = "this is memory of a graph: it is there from a launch of the graph on, until a free node of the graph or closing the buffer frees it",
};

static void
gcuda_graph_memory_resource_class_init (GCudaGraphMemoryResourceClass *klass)
{
  GCUDA_MEMORY_RESOURCE_CLASS (klass)->operations = &operations;
  g_atomic_pointer_set (&_gcuda_memory_is_of_capture, _gcuda_graph_memory_is_of_capture);
}

static void
gcuda_graph_memory_resource_init (GCudaGraphMemoryResource *self)
{
}

/**
 * gcuda_graph_memory_resource_new:
 * @device: a device
 * @error: return location for an error
 *
 * Makes a resource that allocates the device's graph memory. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for no device; `CLOSED`; `NOT_SUPPORTED` where the driver has no graphs with memory; `FORKED`.
 *
 * Returns: (transfer full): a new memory resource
 *
 * Since: 0.1
 */
GCudaGraphMemoryResource *
gcuda_graph_memory_resource_new (GCudaDevice *device,
                                 GError **error)
{
  static const char what[] = "making a graph memory resource";
  GCudaGraphMemoryResource *self;
  CUdevice number;

  if (!_gcuda_device_check (device, what, &number, error) || !_gcuda_graphs_check (what, error))
    return NULL;
  if (!_gcuda_driver_has (GCUDA_DRIVER_GROUP_POOLS))
    {
      _gcuda_fail (error, GCUDA_ERROR_NOT_SUPPORTED, "%s: this driver has no cuMemAllocAsync", what);
      return NULL;
    }
  self = g_object_new (GCUDA_TYPE_GRAPH_MEMORY_RESOURCE, "device", device, NULL);
  self->number = number;
  self->open = TRUE;
  return self;
}

static gboolean
check (GCudaGraphMemoryResource *self,
       const char *what,
       GError **error)
{
  return _gcuda_driver_check (error) && _gcuda_memory_resource_check (GCUDA_MEMORY_RESOURCE (self), what, error);
}

/**
 * gcuda_graph_memory_resource_get_statistics:
 * @self: a graph memory resource
 * @error: return location for an error
 *
 * How much memory the graphs of the device use and hold, asked from the driver now: all graphs of this process, whoever made
 * them. Memory of a graph that was freed stays in the graphs' hold, and counts as used as long, until
 * [method@GraphMemoryResource.trim]. Any thread.
 *
 * Errors: `CLOSED`; `FORKED`; what the driver answers.
 *
 * Returns: (transfer full): numbers of bytes
 *
 * Since: 0.1
 */
GCudaPoolStatistics *
gcuda_graph_memory_resource_get_statistics (GCudaGraphMemoryResource *self,
                                            GError **error)
{
  static const CUgraphMem_attribute attributes[] = {
    CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT,
    CU_GRAPH_MEM_ATTR_USED_MEM_HIGH,
    CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
    CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH,
  };
  static const char what[] = "asking for the graph memory of a device";
  cuuint64_t values[G_N_ELEMENTS (attributes)] = { 0 };

  g_return_val_if_fail (GCUDA_IS_GRAPH_MEMORY_RESOURCE (self), NULL);

  if (!check (self, what, error))
    return NULL;
  for (guint i = 0; i < G_N_ELEMENTS (attributes); i++)
    {
      CUresult result = _gcuda_driver.DeviceGetGraphMemAttribute (self->number, attributes[i], &values[i]);

      if (result != CUDA_SUCCESS)
        {
          _gcuda_fail_driver (error, result, "%s", what);
          return NULL;
        }
    }
  return _gcuda_pool_statistics_new (values[0], values[1], values[2], values[3]);
}

/**
 * gcuda_graph_memory_resource_reset_high_marks:
 * @self: a graph memory resource
 * @error: return location for an error, or %NULL
 *
 * Sets the high marks of the device's graph memory to what is used and held now. They belong to the whole process. Any
 * thread.
 *
 * Errors: `CLOSED`; `FORKED`; what the driver answers.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_graph_memory_resource_reset_high_marks (GCudaGraphMemoryResource *self,
                                              GError **error)
{
  static const char what[] = "resetting the high marks of a device's graph memory";
  cuuint64_t none = 0;
  CUresult result;

  g_return_val_if_fail (GCUDA_IS_GRAPH_MEMORY_RESOURCE (self), FALSE);

  if (!check (self, what, error))
    return FALSE;
  result = _gcuda_driver.DeviceSetGraphMemAttribute (self->number, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &none);
  if (result == CUDA_SUCCESS)
    result = _gcuda_driver.DeviceSetGraphMemAttribute (self->number, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH, &none);
  return result == CUDA_SUCCESS || _gcuda_fail_driver (error, result, "%s", what);
}

/**
 * gcuda_graph_memory_resource_trim:
 * @self: a graph memory resource
 * @error: return location for an error, or %NULL
 *
 * Gives memory back that the graphs of the device hold and no launch uses. It waits for nothing. Any thread.
 *
 * Errors: `CLOSED`; `FORKED`; what the driver answers.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_graph_memory_resource_trim (GCudaGraphMemoryResource *self,
                                  GError **error)
{
  static const char what[] = "trimming the graph memory of a device";
  CUresult result;

  g_return_val_if_fail (GCUDA_IS_GRAPH_MEMORY_RESOURCE (self), FALSE);

  if (!check (self, what, error))
    return FALSE;
  result = _gcuda_driver.DeviceGraphMemTrim (self->number);
  return result == CUDA_SUCCESS || _gcuda_fail_driver (error, result, "%s", what);
}
