/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-synchronous-memory-resource.h"

#include "memory/gcuda-memory-resource-private.h"

/**
 * GCudaSynchronousMemoryResource:
 *
 * Memory of plain driver allocations (`cuMemAlloc`), one by one.
 *
 * It works on every device, is slow, and may make the device wait. Memory can be used on any stream at once. It is not
 * freed in stream order: a thread of this library frees it when the recipe's stream has passed, so that neither closing nor
 * dropping a buffer waits. Any thread.
 *
 * Since: 0.1
 */
struct _GCudaSynchronousMemoryResource
{
  GCudaMemoryResource parent_instance;

  GCudaContextBox *context; /* NULL for an object made by bare new */
};

G_DEFINE_FINAL_TYPE (GCudaSynchronousMemoryResource, gcuda_synchronous_memory_resource, GCUDA_TYPE_MEMORY_RESOURCE)

static gboolean
synchronous_check (GCudaMemoryResource *resource,
                   GError **error)
{
  GCudaSynchronousMemoryResource *self = GCUDA_SYNCHRONOUS_MEMORY_RESOURCE (resource);

  if (self->context == NULL)
    return _gcuda_fail (error, GCUDA_ERROR_CLOSED, "this memory resource was not made by gcuda_synchronous_memory_resource_new ()");
  return _gcuda_context_box_check (self->context, error);
}

static char *
synchronous_describe (GCudaMemoryResource *resource)
{
  GCudaSynchronousMemoryResource *self = GCUDA_SYNCHRONOUS_MEMORY_RESOURCE (resource);

  return g_strdup_printf ("device %d", (int) self->context->device);
}

static CUresult
synchronous_allocate (GCudaMemoryResource *resource,
                      gsize size,
                      GCudaStreamCall *call,
                      CUdeviceptr *address)
{
  GCudaSynchronousMemoryResource *self = GCUDA_SYNCHRONOUS_MEMORY_RESOURCE (resource);
  GCudaContextScope scope;
  CUresult result, left;

  /* In the resource's context, whatever the stream's is. */
  result = _gcuda_context_scope_enter (&scope, self->context->handle);
  if (result != CUDA_SUCCESS)
    return result;
  result = _gcuda_driver.MemAlloc (address, size);
  left = _gcuda_context_scope_leave (&scope);
  if (result == CUDA_SUCCESS && left != CUDA_SUCCESS)
    {
      _gcuda_context_box_report (self->context, _gcuda_driver.MemFree (*address), "cuMemFree", *address, size);
      result = left;
    }
  return result;
}

static CUresult
synchronous_deallocate (GCudaMemoryResource *resource,
                        GCudaStreamBox *box,
                        CUdeviceptr address,
                        gsize size,
                        CUstream handle)
{
  GCudaSynchronousMemoryResource *self = GCUDA_SYNCHRONOUS_MEMORY_RESOURCE (resource);
  CUresult result;

  /* Memory goes with the context it was made in. Others may reset that at any time, also between these two. */
  if (!_gcuda_context_box_is_alive (self->context))
    return CUDA_SUCCESS;
  result = _gcuda_driver.MemFree (address);
  return result == CUDA_SUCCESS || _gcuda_context_box_is_alive (self->context) ? result : CUDA_SUCCESS;
}

static CUresult
synchronous_deallocate_gone (GCudaMemoryResource *resource,
                             CUdeviceptr address,
                             gsize size)
{
  return synchronous_deallocate (resource, NULL, address, size, NULL);
}

static const GCudaResourceOperations operations = {
  .stream_ordered = FALSE,
  .free_call = "cuMemFree",
  .check = synchronous_check,
  .describe = synchronous_describe,
  .allocate = synchronous_allocate,
  .deallocate = synchronous_deallocate,
  .deallocate_gone = synchronous_deallocate_gone,
};

static void
gcuda_synchronous_memory_resource_finalize (GObject *object)
{
  GCudaSynchronousMemoryResource *self = GCUDA_SYNCHRONOUS_MEMORY_RESOURCE (object);

  g_clear_pointer (&self->context, _gcuda_context_box_unuse);

  G_OBJECT_CLASS (gcuda_synchronous_memory_resource_parent_class)->finalize (object);
}

static void
gcuda_synchronous_memory_resource_class_init (GCudaSynchronousMemoryResourceClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = gcuda_synchronous_memory_resource_finalize;
  GCUDA_MEMORY_RESOURCE_CLASS (klass)->operations = &operations;
}

static void
gcuda_synchronous_memory_resource_init (GCudaSynchronousMemoryResource *self)
{
}

/**
 * gcuda_synchronous_memory_resource_new:
 * @context: the context that the memory is made in
 * @error: return location for an error
 *
 * Makes a resource that allocates in a context. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for no context; `CLOSED`; `FORKED`.
 *
 * Returns: (transfer full): a new memory resource
 *
 * Since: 0.1
 */
GCudaSynchronousMemoryResource *
gcuda_synchronous_memory_resource_new (GCudaContext *context,
                                       GError **error)
{
  GCudaSynchronousMemoryResource *self;
  GCudaContextBox *box = _gcuda_context_hold (context, "making a synchronous memory resource", error);

  if (box == NULL)
    return NULL;
  self = g_object_new (GCUDA_TYPE_SYNCHRONOUS_MEMORY_RESOURCE, "device", gcuda_context_get_device (context), NULL);
  self->context = box;
  return self;
}

/**
 * gcuda_synchronous_memory_resource_new_for_device:
 * @device: a device
 * @error: return location for an error
 *
 * Makes a resource that allocates in the device's primary context. Any thread.
 *
 * Errors: as [method@Device.get_primary_context].
 *
 * Returns: (transfer full): a new memory resource
 *
 * Since: 0.1
 */
GCudaSynchronousMemoryResource *
gcuda_synchronous_memory_resource_new_for_device (GCudaDevice *device,
                                                  GError **error)
{
  g_autoptr (GCudaContext) context = NULL;
  CUdevice number;

  if (!_gcuda_device_check (device, "making a synchronous memory resource", &number, error))
    return NULL;
  context = gcuda_device_get_primary_context (device, error);
  return context != NULL ? gcuda_synchronous_memory_resource_new (context, error) : NULL;
}
