/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-location-private.h"

/**
 * GCudaLocation:
 *
 * A place where memory can be: a device, the host, or a NUMA node of the host. Immutable, counted atomically. Any thread.
 *
 * Since: 0.1
 */
struct _GCudaLocation
{
  GCudaMemoryLocation kind;
  GCudaDevice *device; /* referenced; for a device only */
  int node;            /* -1 but for a NUMA node */
};

G_DEFINE_BOXED_TYPE (GCudaLocation, gcuda_location, gcuda_location_ref, gcuda_location_unref)

static GCudaLocation *
location_new (GCudaMemoryLocation kind,
              int node)
{
  GCudaLocation *self = g_atomic_rc_box_new0 (GCudaLocation);

  self->kind = kind;
  self->node = node;
  return self;
}

/**
 * gcuda_location_new_device:
 * @device: a device
 *
 * Makes the location of a device's own memory. What is no open device is refused by the call that gets the location.
 *
 * Returns: (transfer full): a new location
 *
 * Since: 0.1
 */
GCudaLocation *
gcuda_location_new_device (GCudaDevice *device)
{
  GCudaLocation *self = location_new (GCUDA_MEMORY_LOCATION_DEVICE, -1);

  if (GCUDA_IS_DEVICE (device))
    self->device = g_object_ref (device);
  return self;
}

/**
 * gcuda_location_new_host:
 *
 * Makes the location of the host's memory.
 *
 * Returns: (transfer full): a new location
 *
 * Since: 0.1
 */
GCudaLocation *
gcuda_location_new_host (void)
{
  return location_new (GCUDA_MEMORY_LOCATION_HOST, -1);
}

/**
 * gcuda_location_new_numa_node:
 * @node: a NUMA node of the host
 *
 * Makes the location of a NUMA node's memory. A node that is not there is refused by the call that gets the location.
 *
 * Returns: (transfer full): a new location
 *
 * Since: 0.1
 */
GCudaLocation *
gcuda_location_new_numa_node (int node)
{
  return location_new (GCUDA_MEMORY_LOCATION_HOST_NUMA, node);
}

/**
 * gcuda_location_new_current_numa_node:
 *
 * Makes the location of the NUMA node that the thread runs on which makes the call that gets the location.
 *
 * Returns: (transfer full): a new location
 *
 * Since: 0.1
 */
GCudaLocation *
gcuda_location_new_current_numa_node (void)
{
  return location_new (GCUDA_MEMORY_LOCATION_HOST_NUMA_CURRENT, -1);
}

/**
 * gcuda_location_ref:
 * @self: a location
 *
 * Takes a reference.
 *
 * Returns: (transfer full): @self
 *
 * Since: 0.1
 */
GCudaLocation *
gcuda_location_ref (GCudaLocation *self)
{
  g_return_val_if_fail (self != NULL, NULL);

  return g_atomic_rc_box_acquire (self);
}

static void
location_clear (gpointer data)
{
  GCudaLocation *self = data;

  g_clear_object (&self->device);
}

/**
 * gcuda_location_unref:
 * @self: a location
 *
 * Drops a reference.
 *
 * Since: 0.1
 */
void
gcuda_location_unref (GCudaLocation *self)
{
  g_return_if_fail (self != NULL);

  g_atomic_rc_box_release_full (self, location_clear);
}

/**
 * gcuda_location_get_kind:
 * @self: a location
 *
 * What kind of place it is.
 *
 * Returns: the kind
 *
 * Since: 0.1
 */
GCudaMemoryLocation
gcuda_location_get_kind (GCudaLocation *self)
{
  g_return_val_if_fail (self != NULL, GCUDA_MEMORY_LOCATION_HOST);

  return self->kind;
}

/**
 * gcuda_location_get_device:
 * @self: a location
 *
 * The device, if it is one.
 *
 * Returns: (transfer none) (nullable): a device; %NULL for a place on the host
 *
 * Since: 0.1
 */
GCudaDevice *
gcuda_location_get_device (GCudaLocation *self)
{
  g_return_val_if_fail (self != NULL, NULL);

  return self->device;
}

/**
 * gcuda_location_get_numa_node:
 * @self: a location
 *
 * The NUMA node, if it is a certain one.
 *
 * Returns: a node; -1 for any other place
 *
 * Since: 0.1
 */
int
gcuda_location_get_numa_node (GCudaLocation *self)
{
  g_return_val_if_fail (self != NULL, -1);

  return self->node;
}

/**
 * gcuda_location_equal:
 * @self: a location
 * @other: another
 *
 * Whether both name the same place.
 *
 * Returns: whether they are equal
 *
 * Since: 0.1
 */
gboolean
gcuda_location_equal (GCudaLocation *self,
                      GCudaLocation *other)
{
  g_return_val_if_fail (self != NULL && other != NULL, FALSE);

  return self->kind == other->kind && self->device == other->device && self->node == other->node;
}

/**
 * gcuda_location_to_string:
 * @self: a location
 *
 * Says in words which place it is, for messages.
 *
 * Returns: (transfer full): a text
 *
 * Since: 0.1
 */
char *
gcuda_location_to_string (GCudaLocation *self)
{
  g_return_val_if_fail (self != NULL, NULL);

  switch (self->kind)
    {
    case GCUDA_MEMORY_LOCATION_DEVICE:
      return self->device != NULL ? g_strdup_printf ("device %d", gcuda_device_get_ordinal (self->device)) : g_strdup ("no device");
    case GCUDA_MEMORY_LOCATION_HOST_NUMA:
      return g_strdup_printf ("NUMA node %d of the host", self->node);
    case GCUDA_MEMORY_LOCATION_HOST_NUMA_CURRENT:
      return g_strdup ("the thread's NUMA node");
    case GCUDA_MEMORY_LOCATION_HOST:
    default:
      return g_strdup ("the host");
    }
}

gboolean
_gcuda_numa_node_may_exist (int node)
{
  static const char nodes[] = "/sys/devices/system/node";
  g_autofree char *path = NULL;

  if (node < 0)
    return FALSE;
  path = g_strdup_printf ("%s/node%d", nodes, node);
  return g_file_test (path, G_FILE_TEST_IS_DIR) || !g_file_test (nodes, G_FILE_TEST_IS_DIR);
}

gboolean
_gcuda_location_resolve (GCudaLocation *self,
                         CUmemLocation *location,
                         const char *what,
                         GError **error)
{
  if (self == NULL)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: no location was given", what);
  memset (location, 0, sizeof *location);
  switch (self->kind)
    {
    case GCUDA_MEMORY_LOCATION_DEVICE:
      location->type = CU_MEM_LOCATION_TYPE_DEVICE;
      return _gcuda_device_check (self->device, what, &location->id, error);
    case GCUDA_MEMORY_LOCATION_HOST_NUMA:
      if (!_gcuda_numa_node_may_exist (self->node))
        return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: the host has no NUMA node %d", what, self->node);
      location->type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
      location->id = self->node;
      return TRUE;
    case GCUDA_MEMORY_LOCATION_HOST_NUMA_CURRENT:
      location->type = CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
      return TRUE;
    case GCUDA_MEMORY_LOCATION_HOST:
    default:
      location->type = CU_MEM_LOCATION_TYPE_HOST;
      return TRUE;
    }
}

GCudaLocation *
_gcuda_location_new_for_answer (int type,
                                int id)
{
  switch (type)
    {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      return gcuda_location_new_device (_gcuda_device_peek (id, NULL));
    case CU_MEM_LOCATION_TYPE_HOST:
      return gcuda_location_new_host ();
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      return gcuda_location_new_numa_node (id);
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      return gcuda_location_new_current_numa_node ();
    default:
      return NULL;
    }
}
