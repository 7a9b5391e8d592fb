/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

#define GCUDA_TYPE_DEVICE_LIST (_gcuda_device_list_get_type ())

G_DECLARE_FINAL_TYPE (GCudaDeviceList, _gcuda_device_list, GCUDA, DEVICE_LIST, GObject)

/* A read-only list of the devices in the array. */
GListModel *_gcuda_device_list_new (GPtrArray *devices);

G_END_DECLS
