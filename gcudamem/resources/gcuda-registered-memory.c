/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-registered-memory.h"

#include "memory/gcuda-buffer-private.h"
#include "memory/gcuda-memory-resource-private.h"

/*
 * Host memory of others that is registered with the driver. Each has a resource of its own, which is not told to programs:
 * so the allocation unregisters it as it frees other memory that is not freed in stream order, and what keeps the memory
 * is dropped after that, with the resource.
 */
#define GCUDA_TYPE_REGISTRATION (_gcuda_registration_get_type ())
G_DECLARE_FINAL_TYPE (GCudaRegistration, _gcuda_registration, GCUDA, REGISTRATION, GCudaMemoryResource)

struct _GCudaRegistration
{
  GCudaMemoryResource parent_instance;

  GCudaContextBox *context;
  GBytes *bytes; /* one of both, or neither */
  GObject *owner;
  GCudaHome *owner_home; /* where the owner is dropped */
};

G_DEFINE_FINAL_TYPE (GCudaRegistration, _gcuda_registration, GCUDA_TYPE_MEMORY_RESOURCE)

static gboolean
registration_check (GCudaMemoryResource *resource,
                    GError **error)
{
  return _gcuda_context_box_check (((GCudaRegistration *) resource)->context, error);
}

static char *
registration_describe (GCudaMemoryResource *resource)
{
  return g_strdup ("registered host memory");
}

/* It is made with its memory. */
static CUresult
registration_allocate (GCudaMemoryResource *resource,
                       gsize size,
                       GCudaStreamCall *call,
                       CUdeviceptr *address)
{
  return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult
registration_deallocate (GCudaMemoryResource *resource,
                         GCudaStreamBox *box,
                         CUdeviceptr address,
                         gsize size,
                         CUstream handle)
{
  GCudaRegistration *self = (GCudaRegistration *) resource;
  CUresult result;

  /* It goes with the context it was made in. Others may reset that at any time, also between these two. */
  if (!_gcuda_context_box_is_alive (self->context))
    return CUDA_SUCCESS;
  result = _gcuda_driver.MemHostUnregister ((void *) (guintptr) address);
  return result == CUDA_SUCCESS || _gcuda_context_box_is_alive (self->context) ? result : CUDA_SUCCESS;
}

static CUresult
registration_deallocate_gone (GCudaMemoryResource *resource,
                              CUdeviceptr address,
                              gsize size)
{
  return registration_deallocate (resource, NULL, address, size, NULL);
}

static gboolean
registration_is_read_only (GCudaMemoryResource *resource)
{
  return ((GCudaRegistration *) resource)->bytes != NULL;
}

static const GCudaResourceOperations operations = {
  .stream_ordered = FALSE,
  .free_call = "cuMemHostUnregister",
  .check = registration_check,
  .describe = registration_describe,
  .allocate = registration_allocate,
  .deallocate = registration_deallocate,
  .deallocate_gone = registration_deallocate_gone,
  .on_host = TRUE,
  .portable = TRUE,
  .internal = TRUE,
  .is_read_only = registration_is_read_only,
};

static void
_gcuda_registration_finalize (GObject *object)
{
  GCudaRegistration *self = GCUDA_REGISTRATION (object);

  g_clear_pointer (&self->context, _gcuda_context_box_unuse);
  g_clear_pointer (&self->bytes, g_bytes_unref);
  if (self->owner != NULL)
    _gcuda_home_drop (g_steal_pointer (&self->owner_home), g_steal_pointer (&self->owner));

  G_OBJECT_CLASS (_gcuda_registration_parent_class)->finalize (object);
}

static void
_gcuda_registration_class_init (GCudaRegistrationClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = _gcuda_registration_finalize;
  GCUDA_MEMORY_RESOURCE_CLASS (klass)->operations = &operations;
}

static void
_gcuda_registration_init (GCudaRegistration *self)
{
}

static CUresult
register_once (GCudaContextBox *context,
               gpointer data,
               gsize size,
               unsigned int flags)
{
  GCudaContextScope scope;
  CUdeviceptr device_address = 0;
  CUresult result, left;

  result = _gcuda_context_scope_enter (&scope, context->handle);
  if (result != CUDA_SUCCESS)
    return result;
  result = _gcuda_driver.MemHostRegister (data, size, flags);
  if (result == CUDA_SUCCESS)
    {
      /* All that this library knows addresses memory in one way; there are devices that do not. */
      result = _gcuda_driver.MemHostGetDevicePointer (&device_address, data, 0);
      if (result == CUDA_SUCCESS && device_address != (CUdeviceptr) (guintptr) data)
        result = CUDA_ERROR_NOT_SUPPORTED;
      if (result != CUDA_SUCCESS)
        _gcuda_context_box_report (context, _gcuda_driver.MemHostUnregister (data), "cuMemHostUnregister", (guint64) (guintptr) data, 0);
    }
  left = _gcuda_context_scope_leave (&scope);
  if (result == CUDA_SUCCESS && left != CUDA_SUCCESS)
    {
      _gcuda_context_box_report (context, _gcuda_driver.MemHostUnregister (data), "cuMemHostUnregister", (guint64) (guintptr) data, 0);
      result = left;
    }
  return result;
}

static gboolean
register_memory (GCudaContextBox *context,
                 gpointer data,
                 gsize size,
                 gboolean read_only,
                 const char *what,
                 GError **error)
{
  unsigned int flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
  CUresult result;
  int supported = 0;

  result = _gcuda_driver.DeviceGetAttribute (&supported, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, context->device);
  if (result == CUDA_SUCCESS && !supported)
    return _gcuda_fail (error, GCUDA_ERROR_NOT_SUPPORTED,
                        "%s: device %d can't use memory of others (CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED is 0); use GCudaPinnedMemoryResource, or upload",
                        what, (int) context->device);
  supported = 0;
  if (read_only && _gcuda_driver.DeviceGetAttribute (&supported, CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, context->device) == CUDA_SUCCESS && supported)
    flags |= CU_MEMHOSTREGISTER_READ_ONLY;
  result = register_once (context, data, size, flags);
  /* It may be a registration that was dropped, and whose stream has not passed yet. */
  if (result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED && _gcuda_reclaim_memory ())
    result = register_once (context, data, size, flags);
  if (result == CUDA_SUCCESS)
    return TRUE;
  if (result == CUDA_ERROR_INVALID_VALUE && read_only && !(flags & CU_MEMHOSTREGISTER_READ_ONLY))
    return _gcuda_fail_driver (error, result, "%s: registering %" G_GSIZE_FORMAT " bytes at %p, which this device can't do where the processor may only read", what, size, data);
  return _gcuda_fail_driver (error, result, "%s: registering %" G_GSIZE_FORMAT " bytes at %p", what, size, data);
}

/* Either @bytes or @owner, or neither. */
static GCudaBuffer *
new_registered (GCudaDevice *device,
                gpointer data,
                gsize size,
                GBytes *bytes,
                GObject *owner,
                GCudaStream *stream,
                const char *what,
                GError **error)
{
  g_autoptr (GCudaRegistration) registration = NULL;
  GCudaContextBox *context = NULL;
  GCudaStreamCall call;
  GCudaStreamBox *box;
  GCudaBuffer *buffer = NULL;
  CUdevice number;

  _gcuda_home_tidy ();
  if (!_gcuda_device_check (device, what, &number, error))
    return NULL;
  box = _gcuda_stream_hold (stream, what, error);
  if (box == NULL)
    return NULL;
  /* The driver ends a capture that this is called in. */
  if (_gcuda_stream_call_begin (&call, stream, what, error))
    {
      gboolean capturing = size > 0 && !_gcuda_stream_call_refuse_capture (&call, what, error);

      if (_gcuda_stream_call_end (&call, CUDA_SUCCESS, what, capturing ? NULL : error) && !capturing &&
          _gcuda_allocation_reserve (box, size == 0, error))
        context = _gcuda_device_hold_primary_context (device, what, error);
    }
  if (context != NULL)
    {
      registration = g_object_new (GCUDA_TYPE_REGISTRATION, "device", device, "host-accessible", TRUE, NULL);
      registration->context = context;
      if (size == 0 || register_memory (context, data, size, bytes != NULL, what, error))
        {
          if (size > 0 && bytes != NULL)
            registration->bytes = g_bytes_ref (bytes);
          if (owner != NULL)
            {
              registration->owner = g_object_ref (owner);
              registration->owner_home = _gcuda_home_here ();
            }
          buffer = _gcuda_buffer_new (_gcuda_allocation_new (GCUDA_MEMORY_RESOURCE (registration), (CUdeviceptr) (guintptr) data, size, size == 0, box));
          return buffer;
        }
    }
  _gcuda_stream_box_unuse (box);
  return NULL;
}

/**
 * gcuda_buffer_new_for_bytes:
 * @device: the device that uses the memory
 * @bytes: the data
 * @stream: the stream that is the last to use the memory
 * @error: return location for an error
 *
 * Makes a buffer of host data, without a copy: its pages are locked and registered with the driver, and devices read them
 * where they are. @bytes may be those of a mapped file ([method@GLib.MappedFile.get_bytes]). It is kept until the last
 * holder of the buffer is gone, the recipe's stream has passed, and the memory is unregistered; all of which a thread of
 * this library does.
 *
 * Data of a `GBytes` never changes: filling the buffer, copying or uploading to it, and mapping it for writing are refused.
 * Where the device supports that, it is registered for reading only, and a kernel that writes it fails.
 *
 * For 0 bytes the buffer is valid and empty, and nothing is registered. Any thread; it takes as long as the system needs to
 * lock the pages.
 *
 * Errors: `HOST_MEMORY_ALREADY_REGISTERED` if a part of it is registered, by another buffer or another library;
 * `INVALID_ARGUMENT` for no device, no data or no stream; `NOT_SUPPORTED`; `CAPTURING`, and the capture stays valid;
 * `CLOSED`; `FORKED`; what the driver answers, such as `OUT_OF_MEMORY` for more pages than may be locked.
 *
 * Returns: (transfer full): a new buffer
 *
 * Since: 0.1
 */
GCudaBuffer *
gcuda_buffer_new_for_bytes (GCudaDevice *device,
                            GBytes *bytes,
                            GCudaStream *stream,
                            GError **error)
{
  static const char what[] = "making a buffer of host data";
  gconstpointer data;
  gsize size = 0;

  if (bytes == NULL)
    {
      _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: no data was given", what);
      return NULL;
    }
  data = g_bytes_get_data (bytes, &size);
  return new_registered (device, size > 0 ? (gpointer) data : NULL, size, bytes, NULL, stream, what, error);
}

/**
 * gcuda_buffer_new_for_host_address:
 * @device: the device that uses the memory
 * @address: an address of the process's own memory, such as that of an array
 * @size: how many bytes
 * @owner: (nullable): an object that keeps the memory
 * @stream: the stream that is the last to use the memory
 * @error: return location for an error
 *
 * Makes a buffer of writable host memory, without a copy: its pages are locked and registered with the driver, and devices
 * use them where they are. After the last holder of the buffer is gone and the recipe's stream has passed, a thread of this
 * library unregisters it. @owner is referenced, and dropped after that, from the main context that is the thread-default one
 * now. Without an owner the caller keeps the memory for that long: until [func@reclaim] returned, after the buffer was
 * closed. On failure nothing is referenced.
 *
 * The address need not be aligned. For 0 bytes at address 0 the buffer is valid and empty, and nothing is registered. Any
 * thread; it takes as long as the system needs to lock the pages.
 *
 * Errors: as [ctor@Buffer.new_for_bytes]; `INVALID_ARGUMENT` for address or size without the other.
 *
 * Returns: (transfer full): a new buffer
 *
 * Since: 0.1
 */
GCudaBuffer *
gcuda_buffer_new_for_host_address (GCudaDevice *device,
                                   guint64 address,
                                   guint64 size,
                                   GObject *owner,
                                   GCudaStream *stream,
                                   GError **error)
{
  static const char what[] = "making a buffer of host memory";

  if ((address == 0) != (size == 0) || size > G_MAXSIZE / 2 || address > G_MAXUINT64 - size)
    {
      _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: address 0x%" G_GINT64_MODIFIER "x with %" G_GUINT64_FORMAT " bytes is no memory", what, address, size);
      return NULL;
    }
  return new_registered (device, (gpointer) (guintptr) address, size, NULL, owner, stream, what, error);
}
