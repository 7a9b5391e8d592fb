/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>
#include <gcudamem/device/gcuda-memory-info.h>

G_BEGIN_DECLS

typedef struct _GCudaContext GCudaContext;

#define GCUDA_TYPE_DEVICE (gcuda_device_get_type ())

GCUDA_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GCudaDevice, gcuda_device, GCUDA, DEVICE, GObject)

GCUDA_AVAILABLE_IN_0_1
GListModel *gcuda_get_devices (GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaDevice *gcuda_device_new (int ordinal,
                               GError **error);

GCUDA_AVAILABLE_IN_0_1
int gcuda_device_get_ordinal (GCudaDevice *self);

GCUDA_AVAILABLE_IN_0_1
const char *gcuda_device_get_name (GCudaDevice *self);

GCUDA_AVAILABLE_IN_0_1
const char *gcuda_device_get_uuid (GCudaDevice *self);

GCUDA_AVAILABLE_IN_0_1
const char *gcuda_device_get_pci_bus_id (GCudaDevice *self);

GCUDA_AVAILABLE_IN_0_1
int gcuda_device_get_compute_capability_major (GCudaDevice *self);

GCUDA_AVAILABLE_IN_0_1
int gcuda_device_get_compute_capability_minor (GCudaDevice *self);

GCUDA_AVAILABLE_IN_0_1
guint64 gcuda_device_get_total_memory (GCudaDevice *self);

GCUDA_AVAILABLE_IN_0_1
int gcuda_device_get_attribute (GCudaDevice *self,
                                int attribute,
                                GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_device_can_access_peer (GCudaDevice *self,
                                       GCudaDevice *peer,
                                       GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaMemoryInfo *gcuda_device_get_memory_info (GCudaDevice *self,
                                               GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaContext *gcuda_device_get_primary_context (GCudaDevice *self,
                                                GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_device_synchronize (GCudaDevice *self,
                                   GError **error);

G_END_DECLS
