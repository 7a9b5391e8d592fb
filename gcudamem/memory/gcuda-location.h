/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/device/gcuda-device.h>

G_BEGIN_DECLS

/**
 * GCudaMemoryLocation:
 * @GCUDA_MEMORY_LOCATION_DEVICE: on a device
 * @GCUDA_MEMORY_LOCATION_HOST: on the host
 * @GCUDA_MEMORY_LOCATION_HOST_NUMA: on a NUMA node of the host
 * @GCUDA_MEMORY_LOCATION_HOST_NUMA_CURRENT: on the NUMA node of the thread that asks for it; for managed memory only
 *
 * Where physical memory is.
 *
 * Since: 0.1
 */
typedef enum
{
  GCUDA_MEMORY_LOCATION_DEVICE,
  GCUDA_MEMORY_LOCATION_HOST,
  GCUDA_MEMORY_LOCATION_HOST_NUMA,
  GCUDA_MEMORY_LOCATION_HOST_NUMA_CURRENT,
} GCudaMemoryLocation;

typedef struct _GCudaLocation GCudaLocation;

#define GCUDA_TYPE_LOCATION (gcuda_location_get_type ())

GCUDA_AVAILABLE_IN_0_1
GType gcuda_location_get_type (void);

GCUDA_AVAILABLE_IN_0_1
GCudaLocation *gcuda_location_new_device (GCudaDevice *device);

GCUDA_AVAILABLE_IN_0_1
GCudaLocation *gcuda_location_new_host (void);

GCUDA_AVAILABLE_IN_0_1
GCudaLocation *gcuda_location_new_numa_node (int node);

GCUDA_AVAILABLE_IN_0_1
GCudaLocation *gcuda_location_new_current_numa_node (void);

GCUDA_AVAILABLE_IN_0_1
GCudaLocation *gcuda_location_ref (GCudaLocation *self);

GCUDA_AVAILABLE_IN_0_1
void gcuda_location_unref (GCudaLocation *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GCudaLocation, gcuda_location_unref)

GCUDA_AVAILABLE_IN_0_1
GCudaMemoryLocation gcuda_location_get_kind (GCudaLocation *self);

GCUDA_AVAILABLE_IN_0_1
GCudaDevice *gcuda_location_get_device (GCudaLocation *self);

GCUDA_AVAILABLE_IN_0_1
int gcuda_location_get_numa_node (GCudaLocation *self);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_location_equal (GCudaLocation *self,
                               GCudaLocation *other);

GCUDA_AVAILABLE_IN_0_1
char *gcuda_location_to_string (GCudaLocation *self);

G_END_DECLS
