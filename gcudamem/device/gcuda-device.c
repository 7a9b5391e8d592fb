/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-device-private.h"
#include "gcuda-device-list-private.h"
#include "gcuda-memory-info-private.h"

/**
 * GCudaDevice:
 *
 * A CUDA device. There is one object for each ordinal in a process, to its end.
 *
 * A device's properties never change. All methods may be called from any thread, whatever context is current there, and
 * leave that as it was.
 *
 * Since: 0.1
 */
struct _GCudaDevice
{
  GObject parent_instance;

  gboolean open;
  CUdevice device;
  int ordinal;
  int capability_major;
  int capability_minor;
  guint64 total_memory;
  char *name;
  char *uuid;
  char *pci_bus_id;

  GMutex lock;
  GCudaContext *primary;
};

G_DEFINE_FINAL_TYPE (GCudaDevice, gcuda_device, G_TYPE_OBJECT)

enum
{
  PROP_0,
  PROP_ORDINAL,
  PROP_NAME,
  PROP_UUID,
  PROP_PCI_BUS_ID,
  PROP_COMPUTE_CAPABILITY_MAJOR,
  PROP_COMPUTE_CAPABILITY_MINOR,
  PROP_TOTAL_MEMORY,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

/* All devices, kept to the end: recipes name them when nothing else does. */
static GMutex devices_lock;
static GPtrArray *devices;

static void
gcuda_device_finalize (GObject *object)
{
  GCudaDevice *self = GCUDA_DEVICE (object);

  g_free (self->name);
  g_free (self->uuid);
  g_free (self->pci_bus_id);
  g_mutex_clear (&self->lock);

  G_OBJECT_CLASS (gcuda_device_parent_class)->finalize (object);
}

static void
gcuda_device_get_property (GObject *object,
                           guint id,
                           GValue *value,
                           GParamSpec *pspec)
{
  GCudaDevice *self = GCUDA_DEVICE (object);

  switch (id)
    {
    case PROP_ORDINAL:
      g_value_set_int (value, self->ordinal);
      break;
    case PROP_NAME:
      g_value_set_string (value, self->name);
      break;
    case PROP_UUID:
      g_value_set_string (value, self->uuid);
      break;
    case PROP_PCI_BUS_ID:
      g_value_set_string (value, self->pci_bus_id);
      break;
    case PROP_COMPUTE_CAPABILITY_MAJOR:
      g_value_set_int (value, self->capability_major);
      break;
    case PROP_COMPUTE_CAPABILITY_MINOR:
      g_value_set_int (value, self->capability_minor);
      break;
    case PROP_TOTAL_MEMORY:
      g_value_set_uint64 (value, self->total_memory);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gcuda_device_class_init (GCudaDeviceClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;

  object_class->finalize = gcuda_device_finalize;
  object_class->get_property = gcuda_device_get_property;

  /**
   * GCudaDevice:ordinal: (getter get_ordinal)
   *
   * The device's number among those that the process sees.
   *
   * Since: 0.1
   */
  properties[PROP_ORDINAL] = g_param_spec_int ("ordinal", NULL, NULL, 0, G_MAXINT, 0, flags);

  /**
   * GCudaDevice:name: (getter get_name)
   *
   * The device's name, for people.
   *
   * Since: 0.1
   */
  properties[PROP_NAME] = g_param_spec_string ("name", NULL, NULL, NULL, flags);

  /**
   * GCudaDevice:uuid: (getter get_uuid)
   *
   * What tells this device, or this part of a partitioned device, from all others: the same in each process.
   *
   * Since: 0.1
   */
  properties[PROP_UUID] = g_param_spec_string ("uuid", NULL, NULL, NULL, flags);

  /**
   * GCudaDevice:pci-bus-id: (getter get_pci_bus_id)
   *
   * Where the device sits on the PCI bus, as in `0000:65:00.0`.
   *
   * Since: 0.1
   */
  properties[PROP_PCI_BUS_ID] = g_param_spec_string ("pci-bus-id", NULL, NULL, NULL, flags);

  /**
   * GCudaDevice:compute-capability-major: (getter get_compute_capability_major)
   *
   * The major number of the device's compute capability.
   *
   * Since: 0.1
   */
  properties[PROP_COMPUTE_CAPABILITY_MAJOR] = g_param_spec_int ("compute-capability-major", NULL, NULL, 0, G_MAXINT, 0, flags);

  /**
   * GCudaDevice:compute-capability-minor: (getter get_compute_capability_minor)
   *
   * The minor number of the device's compute capability.
   *
   * Since: 0.1
   */
  properties[PROP_COMPUTE_CAPABILITY_MINOR] = g_param_spec_int ("compute-capability-minor", NULL, NULL, 0, G_MAXINT, 0, flags);

  /**
   * GCudaDevice:total-memory: (getter get_total_memory)
   *
   * The memory of the device, in bytes.
   *
   * Since: 0.1
   */
  properties[PROP_TOTAL_MEMORY] = g_param_spec_uint64 ("total-memory", NULL, NULL, 0, G_MAXUINT64, 0, flags);

  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
gcuda_device_init (GCudaDevice *self)
{
  g_mutex_init (&self->lock);
}

static char *
format_uuid (const CUuuid *uuid)
{
  const guint8 *b = (const guint8 *) uuid->bytes;

  return g_strdup_printf ("%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
                          b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7],
                          b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

static GCudaDevice *
device_create (const GCudaDriver *driver,
               int ordinal,
               GError **error)
{
  g_autoptr (GCudaDevice) self = g_object_new (GCUDA_TYPE_DEVICE, NULL);
  char name[256] = "", bus[32] = "";
  size_t total = 0;
  CUuuid uuid = { { 0 } };
  CUresult result;

  result = driver->DeviceGet (&self->device, ordinal);
  if (result == CUDA_SUCCESS)
    result = driver->DeviceGetName (name, sizeof name, self->device);
  if (result == CUDA_SUCCESS)
    result = driver->DeviceGetUuid (&uuid, self->device);
  if (result == CUDA_SUCCESS)
    result = driver->DeviceGetPCIBusId (bus, sizeof bus, self->device);
  if (result == CUDA_SUCCESS)
    result = driver->DeviceTotalMem (&total, self->device);
  if (result == CUDA_SUCCESS)
    result = driver->DeviceGetAttribute (&self->capability_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, self->device);
  if (result == CUDA_SUCCESS)
    result = driver->DeviceGetAttribute (&self->capability_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, self->device);
  if (result != CUDA_SUCCESS)
    {
      _gcuda_fail_driver (error, result, "looking up device %d", ordinal);
      return NULL;
    }
  self->ordinal = ordinal;
  self->total_memory = total;
  self->name = g_utf8_make_valid (name, -1);
  self->uuid = format_uuid (&uuid);
  self->pci_bus_id = g_strdup (bus);
  self->open = TRUE;
  return g_steal_pointer (&self);
}

/* All devices, made when first asked for. A failure leaves those that were made and is not remembered. */
static GPtrArray *
ensure_devices (GError **error)
{
  const GCudaDriver *driver = _gcuda_driver_get (error);
  CUresult result;
  int count = 0;

  if (driver == NULL)
    return NULL;
  result = driver->DeviceGetCount (&count);
  if (result != CUDA_SUCCESS)
    {
      _gcuda_fail_driver (error, result, "counting the devices");
      return NULL;
    }
  g_mutex_lock (&devices_lock);
  if (devices == NULL)
    devices = g_ptr_array_new ();
  while (devices->len < (guint) MAX (count, 0))
    {
      GCudaDevice *device = device_create (driver, (int) devices->len, error);

      if (device == NULL)
        {
          g_mutex_unlock (&devices_lock);
          return NULL;
        }
      g_ptr_array_add (devices, device);
    }
  g_mutex_unlock (&devices_lock);
  return devices;
}

/**
 * gcuda_get_devices:
 * @error: return location for an error
 *
 * Lists the devices that this process sees: a read-only list of [class@Device]. Without a device the list is empty; that
 * is no error. Any thread.
 *
 * Errors: the driver is missing, a stub or too old, `FORKED`, or what the driver answers. None of these is remembered.
 *
 * Returns: (transfer full): the devices
 *
 * Since: 0.1
 */
GListModel *
gcuda_get_devices (GError **error)
{
  g_autoptr (GError) local = NULL;
  GPtrArray *all = ensure_devices (&local);
  g_autoptr (GPtrArray) copy = NULL;

  if (all == NULL && !g_error_matches (local, GCUDA_ERROR, GCUDA_ERROR_NO_DEVICE))
    {
      g_propagate_error (error, g_steal_pointer (&local));
      return NULL;
    }
  copy = g_ptr_array_new_with_free_func (g_object_unref);
  g_mutex_lock (&devices_lock);
  for (guint i = 0; all != NULL && i < all->len; i++)
    g_ptr_array_add (copy, g_object_ref (g_ptr_array_index (all, i)));
  g_mutex_unlock (&devices_lock);
  return _gcuda_device_list_new (copy);
}

/**
 * gcuda_device_new:
 * @ordinal: the device's number, from 0
 * @error: return location for an error
 *
 * Gets the device with a number. Each call for one ordinal gives the same object. Any thread.
 *
 * Errors: `NO_DEVICE` where there is none at all, `INVALID_DEVICE` for an ordinal that is negative or too large, or no
 * driver: see [func@is_available].
 *
 * Returns: (transfer full): the device
 *
 * Since: 0.1
 */
GCudaDevice *
gcuda_device_new (int ordinal,
                  GError **error)
{
  GPtrArray *all = ensure_devices (error);
  GCudaDevice *device = NULL;
  guint count;

  if (all == NULL)
    return NULL;
  g_mutex_lock (&devices_lock);
  count = all->len;
  if (ordinal >= 0 && (guint) ordinal < count)
    device = g_object_ref (g_ptr_array_index (all, (guint) ordinal));
  g_mutex_unlock (&devices_lock);
  if (device == NULL && count == 0)
    _gcuda_fail (error, GCUDA_ERROR_NO_DEVICE, "there is no CUDA device (CUDA_ERROR_NO_DEVICE)");
  else if (device == NULL)
    _gcuda_fail (error, GCUDA_ERROR_INVALID_DEVICE, "there is no device %d (CUDA_ERROR_INVALID_DEVICE): the last one is %u", ordinal, count - 1);
  return device;
}

GCudaDevice *
_gcuda_device_peek (CUdevice device,
                    GError **error)
{
  GPtrArray *all;
  GCudaDevice *found = NULL;

  g_mutex_lock (&devices_lock);
  all = devices;
  g_mutex_unlock (&devices_lock);
  if (all == NULL || device < 0 || all->len <= (guint) device)
    all = ensure_devices (error);
  if (all == NULL)
    return NULL;
  g_mutex_lock (&devices_lock);
  for (guint i = 0; i < all->len && found == NULL; i++)
    {
      GCudaDevice *candidate = g_ptr_array_index (all, i);

      if (candidate->device == device)
        found = candidate;
    }
  g_mutex_unlock (&devices_lock);
  if (found == NULL)
    _gcuda_fail (error, GCUDA_ERROR_INVALID_DEVICE, "device %d is not one that this process lists (CUDA_ERROR_INVALID_DEVICE)", (int) device);
  return found;
}

gboolean
_gcuda_device_check (GCudaDevice *self,
                     const char *what,
                     CUdevice *device,
                     GError **error)
{
  if (!GCUDA_IS_DEVICE (self))
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: no device was given", what);
  if (!self->open)
    return _gcuda_fail (error, GCUDA_ERROR_CLOSED, "%s: this device object was not made by gcuda_device_new ()", what);
  if (!_gcuda_driver_check (error))
    return FALSE;
  *device = self->device;
  return TRUE;
}

/**
 * gcuda_device_get_ordinal: (get-property ordinal)
 * @self: a device
 *
 * The device's number among those that the process sees. Any thread.
 *
 * Returns: an ordinal, from 0
 *
 * Since: 0.1
 */
int
gcuda_device_get_ordinal (GCudaDevice *self)
{
  g_return_val_if_fail (GCUDA_IS_DEVICE (self), 0);

  return self->ordinal;
}

/**
 * gcuda_device_get_name: (get-property name)
 * @self: a device
 *
 * The device's name, for people. Any thread.
 *
 * Returns: (transfer none) (nullable): a name; %NULL for an object that is no device
 *
 * Since: 0.1
 */
const char *
gcuda_device_get_name (GCudaDevice *self)
{
  g_return_val_if_fail (GCUDA_IS_DEVICE (self), NULL);

  return self->name;
}

/**
 * gcuda_device_get_uuid: (get-property uuid)
 * @self: a device
 *
 * What tells this device from all others. Any thread.
 *
 * Returns: (transfer none) (nullable): 36 characters, as in `f81d4fae-7dec-11d0-a765-00a0c91e6bf6`
 *
 * Since: 0.1
 */
const char *
gcuda_device_get_uuid (GCudaDevice *self)
{
  g_return_val_if_fail (GCUDA_IS_DEVICE (self), NULL);

  return self->uuid;
}

/**
 * gcuda_device_get_pci_bus_id: (get-property pci-bus-id)
 * @self: a device
 *
 * Where the device sits on the PCI bus. Any thread.
 *
 * Returns: (transfer none) (nullable): a PCI bus id
 *
 * Since: 0.1
 */
const char *
gcuda_device_get_pci_bus_id (GCudaDevice *self)
{
  g_return_val_if_fail (GCUDA_IS_DEVICE (self), NULL);

  return self->pci_bus_id;
}

/**
 * gcuda_device_get_compute_capability_major: (get-property compute-capability-major)
 * @self: a device
 *
 * The major number of the device's compute capability. Any thread.
 *
 * Returns: a number
 *
 * Since: 0.1
 */
int
gcuda_device_get_compute_capability_major (GCudaDevice *self)
{
  g_return_val_if_fail (GCUDA_IS_DEVICE (self), 0);

  return self->capability_major;
}

/**
 * gcuda_device_get_compute_capability_minor: (get-property compute-capability-minor)
 * @self: a device
 *
 * The minor number of the device's compute capability. Any thread.
 *
 * Returns: a number
 *
 * Since: 0.1
 */
int
gcuda_device_get_compute_capability_minor (GCudaDevice *self)
{
  g_return_val_if_fail (GCUDA_IS_DEVICE (self), 0);

  return self->capability_minor;
}

/**
 * gcuda_device_get_total_memory: (get-property total-memory)
 * @self: a device
 *
 * The memory of the device. Any thread.
 *
 * Returns: a number of bytes
 *
 * Since: 0.1
 */
guint64
gcuda_device_get_total_memory (GCudaDevice *self)
{
  g_return_val_if_fail (GCUDA_IS_DEVICE (self), 0);

  return self->total_memory;
}

/**
 * gcuda_device_get_attribute:
 * @self: a device
 * @attribute: the number of a `CUdevice_attribute`
 * @error: return location for an error
 *
 * Asks the driver for an attribute of the device. Any thread.
 *
 * Errors: `INVALID_VALUE` for an attribute that this driver does not know; `CLOSED`; `FORKED`.
 *
 * Returns: the attribute's value, or 0 with @error set
 *
 * Since: 0.1
 */
int
gcuda_device_get_attribute (GCudaDevice *self,
                            int attribute,
                            GError **error)
{
  CUdevice device = 0;
  CUresult result;
  int value = 0;

  g_return_val_if_fail (GCUDA_IS_DEVICE (self), 0);

  if (!_gcuda_device_check (self, "asking for a device attribute", &device, error))
    return 0;
  result = _gcuda_driver.DeviceGetAttribute (&value, (CUdevice_attribute) attribute, device);
  if (result == CUDA_SUCCESS)
    return value;
  _gcuda_fail_driver (error, result, "asking for attribute %d of device %d", attribute, self->ordinal);
  return 0;
}

/**
 * gcuda_device_can_access_peer:
 * @self: a device
 * @peer: another device
 * @error: return location for an error, or %NULL
 *
 * Whether this device can reach the memory of another one. That it can says nothing of what a memory pool permits. A
 * device is not a peer of itself. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` without a peer; `CLOSED`; `FORKED`; what the driver answers.
 *
 * Returns: the answer; %FALSE with @error set on failure
 *
 * Since: 0.1
 */
gboolean
gcuda_device_can_access_peer (GCudaDevice *self,
                              GCudaDevice *peer,
                              GError **error)
{
  CUdevice device = 0, peer_device = 0;
  CUresult result;
  int can = 0;

  g_return_val_if_fail (GCUDA_IS_DEVICE (self), FALSE);

  if (!_gcuda_device_check (self, "asking for peer access", &device, error) ||
      !_gcuda_device_check (peer, "asking for peer access", &peer_device, error))
    return FALSE;
  result = _gcuda_driver.DeviceCanAccessPeer (&can, device, peer_device);
  if (result != CUDA_SUCCESS)
    return _gcuda_fail_driver (error, result, "asking whether device %d can access device %d", self->ordinal, peer->ordinal);
  return can != 0;
}

/**
 * gcuda_device_get_primary_context:
 * @self: a device
 * @error: return location for an error
 *
 * Gets the device's primary context, which all libraries in a process share. It is retained on the first call and then
 * kept to the end of the process, unless it is closed with [method@Context.close]. Any thread.
 *
 * Errors: `CLOSED`; `FORKED`; what the driver answers, `OUT_OF_MEMORY` for one. After a reset of the device by others the
 * next call retains a new context.
 *
 * Returns: (transfer full): the primary context
 *
 * Since: 0.1
 */
GCudaContext *
gcuda_device_get_primary_context (GCudaDevice *self,
                                  GError **error)
{
  GCudaContext *context = NULL, *fresh;
  CUdevice device = 0;
  CUcontext handle;
  CUresult result;
  unsigned long long id;
  GCudaContextBox *box;

  g_return_val_if_fail (GCUDA_IS_DEVICE (self), NULL);

  if (!_gcuda_device_check (self, "getting the primary context", &device, error))
    return NULL;

  g_mutex_lock (&self->lock);
  if (self->primary != NULL)
    context = g_object_ref (self->primary);
  g_mutex_unlock (&self->lock);
  if (context != NULL)
    {
      /* Reset by others: what it was is gone. The object of old stays what it is, for those who hold it. */
      g_autoptr (GError) local = NULL;

      box = _gcuda_context_hold (context, "getting the primary context", &local);
      if (box != NULL)
        {
          _gcuda_context_box_unuse (box);
          return context;
        }
      if (local->code != GCUDA_ERROR_CONTEXT_IS_DESTROYED && local->code != GCUDA_ERROR_CLOSED)
        {
          g_propagate_error (error, g_steal_pointer (&local));
          g_object_unref (context);
          return NULL;
        }
      _gcuda_device_forget_primary (self, context);
      g_clear_object (&context);
    }

  result = _gcuda_driver.DevicePrimaryCtxRetain (&handle, device);
  if (result == CUDA_SUCCESS)
    {
      result = _gcuda_driver.CtxGetId (handle, &id);
      if (result != CUDA_SUCCESS)
        _gcuda_driver.DevicePrimaryCtxRelease (device);
    }
  if (result != CUDA_SUCCESS)
    {
      _gcuda_fail_driver (error, result, "retaining the primary context of device %d", self->ordinal);
      return NULL;
    }

  box = _gcuda_context_box_new (handle, id, device, GCUDA_CONTEXT_PRIMARY, NULL);
  fresh = _gcuda_context_new_for_box (box, self);
  g_mutex_lock (&self->lock);
  if (self->primary == NULL)
    self->primary = g_object_ref (fresh);
  context = g_object_ref (self->primary);
  g_mutex_unlock (&self->lock);
  /* Another thread was faster: the retain that is too many goes back. */
  if (context != fresh)
    _gcuda_driver.DevicePrimaryCtxRelease (device);
  g_object_unref (fresh);
  return context;
}

void
_gcuda_device_forget_primary (GCudaDevice *self,
                              GCudaContext *context)
{
  gboolean ours;

  g_mutex_lock (&self->lock);
  ours = self->primary == context;
  if (ours)
    self->primary = NULL;
  g_mutex_unlock (&self->lock);
  if (ours)
    g_object_unref (context);
}

/**
 * gcuda_device_get_memory_info:
 * @self: a device
 * @error: return location for an error
 *
 * Asks how much memory the device has free now. Makes the primary context. Any thread.
 *
 * Errors: as [method@Device.get_primary_context].
 *
 * Returns: (transfer full): a snapshot
 *
 * Since: 0.1
 */
GCudaMemoryInfo *
gcuda_device_get_memory_info (GCudaDevice *self,
                              GError **error)
{
  g_autoptr (GCudaContext) context = NULL;
  GCudaContextBox *box;
  GCudaContextScope scope;
  CUresult result, left;
  size_t free = 0, total = 0;

  g_return_val_if_fail (GCUDA_IS_DEVICE (self), NULL);

  context = gcuda_device_get_primary_context (self, error);
  if (context == NULL)
    return NULL;
  box = _gcuda_context_hold (context, "asking for free memory", error);
  if (box == NULL)
    return NULL;
  result = _gcuda_context_scope_enter (&scope, box->handle);
  if (result == CUDA_SUCCESS)
    {
      result = _gcuda_driver.MemGetInfo (&free, &total);
      left = _gcuda_context_scope_leave (&scope);
      if (result == CUDA_SUCCESS)
        result = left;
    }
  _gcuda_context_box_unuse (box);
  if (result == CUDA_SUCCESS)
    return _gcuda_memory_info_new (free, total);
  _gcuda_fail_driver (error, result, "asking for the free memory of device %d", self->ordinal);
  return NULL;
}

/**
 * gcuda_device_synchronize:
 * @self: a device
 * @error: return location for an error, or %NULL
 *
 * Waits until all work of the device's primary context is done, whatever context is current on the calling thread. Any
 * thread; blocks it.
 *
 * Errors: as [method@Device.get_primary_context], and what earlier work left behind.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_device_synchronize (GCudaDevice *self,
                          GError **error)
{
  g_autoptr (GCudaContext) context = NULL;

  g_return_val_if_fail (GCUDA_IS_DEVICE (self), FALSE);

  context = gcuda_device_get_primary_context (self, error);
  return context != NULL && gcuda_context_synchronize (context, error);
}
