/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The memory resource that a device uses unless another is named. These are methods of the device, but they know the
 * resources, which are a later layer.
 */
#include "gcuda-current-resource.h"

#include "device/gcuda-device-private.h"
#include "gcuda-device-memory-resource.h"
#include "gcuda-synchronous-memory-resource.h"
#include "memory/gcuda-memory-resource-private.h"

static GMutex lock;

static GQuark
resource_quark (void)
{
  return g_quark_from_static_string ("gcuda-current-memory-resource");
}

static GCudaMemoryResource *
make_default (GCudaDevice *device,
              GError **error)
{
  g_autoptr (GError) local = NULL;
  GCudaDeviceMemoryResource *pool = gcuda_device_memory_resource_new (device, &local);
  GCudaSynchronousMemoryResource *synchronous;

  if (pool != NULL)
    return GCUDA_MEMORY_RESOURCE (pool);
  if (!g_error_matches (local, GCUDA_ERROR, GCUDA_ERROR_NOT_SUPPORTED))
    {
      g_propagate_error (error, g_steal_pointer (&local));
      return NULL;
    }
  /* A device that never had pools. */
  synchronous = gcuda_synchronous_memory_resource_new_for_device (device, error);
  return synchronous != NULL ? GCUDA_MEMORY_RESOURCE (synchronous) : NULL;
}

/**
 * gcuda_device_get_memory_resource:
 * @self: a device
 * @error: return location for an error
 *
 * Gets the memory resource that programs and libraries use on this device if they have no other: the one that was set, or
 * else the device's memory pool, or plain allocations where the device has no pools. A buffer keeps the resource that it
 * came from, so setting another later changes nothing for it. Any thread.
 *
 * Errors: as [ctor@DeviceMemoryResource.new].
 *
 * Returns: (transfer full): a memory resource
 *
 * Since: 0.1
 */
GCudaMemoryResource *
gcuda_device_get_memory_resource (GCudaDevice *self,
                                  GError **error)
{
  GCudaMemoryResource *resource;
  CUdevice number;

  g_return_val_if_fail (GCUDA_IS_DEVICE (self), NULL);

  if (!_gcuda_device_check (self, "getting a device's memory resource", &number, error))
    return NULL;
  g_mutex_lock (&lock);
  resource = g_object_get_qdata (G_OBJECT (self), resource_quark ());
  if (resource != NULL)
    g_object_ref (resource);
  g_mutex_unlock (&lock);
  /* The default is made each time: it holds no state of its own, and the device's current pool may have been changed. */
  return resource != NULL ? resource : make_default (self, error);
}

/**
 * gcuda_device_set_memory_resource:
 * @self: a device
 * @resource: (nullable): a memory resource of this device, or %NULL for the default one
 * @error: return location for an error, or %NULL
 *
 * Sets the memory resource that [method@Device.get_memory_resource] gives, for the whole process. The device keeps it. This
 * is for programs, not for libraries. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for a resource of another device; `CLOSED`, also for a resource made by bare new;
 * `CONTEXT_IS_DESTROYED` for one whose context is gone; `FORKED`.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_device_set_memory_resource (GCudaDevice *self,
                                  GCudaMemoryResource *resource,
                                  GError **error)
{
  static const char what[] = "setting a device's memory resource";
  GCudaDevice *other;
  GObject *old;
  CUdevice number;

  g_return_val_if_fail (GCUDA_IS_DEVICE (self), FALSE);

  if (!_gcuda_device_check (self, what, &number, error))
    return FALSE;
  if (resource != NULL && !GCUDA_IS_MEMORY_RESOURCE (resource))
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: that is no memory resource", what);
  other = resource != NULL ? gcuda_memory_resource_get_device (resource) : NULL;
  if (other != NULL && other != self)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: the resource is one of device %d, not of device %d", what,
                        gcuda_device_get_ordinal (other), gcuda_device_get_ordinal (self));
  if (resource != NULL && !_gcuda_memory_resource_check (resource, what, error))
    return FALSE;
  if (resource != NULL)
    g_object_ref (resource);
  g_mutex_lock (&lock);
  old = g_object_get_qdata (G_OBJECT (self), resource_quark ());
  g_object_set_qdata (G_OBJECT (self), resource_quark (), resource);
  g_mutex_unlock (&lock);
  /* Outside the lock: its finalizer may be a script's. */
  g_clear_object (&old);
  return TRUE;
}
