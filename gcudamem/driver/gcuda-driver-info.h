/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib-object.h>
#include <gcudamem/base/gcuda-macros.h>

G_BEGIN_DECLS

#define GCUDA_TYPE_DRIVER_INFO (gcuda_driver_info_get_type ())

typedef struct _GCudaDriverInfo GCudaDriverInfo;

GCUDA_AVAILABLE_IN_0_1
GType gcuda_driver_info_get_type (void) G_GNUC_CONST;

GCUDA_AVAILABLE_IN_0_1
GCudaDriverInfo *gcuda_driver_info_ref (GCudaDriverInfo *self);

GCUDA_AVAILABLE_IN_0_1
void gcuda_driver_info_unref (GCudaDriverInfo *self);

GCUDA_AVAILABLE_IN_0_1
int gcuda_driver_info_get_version (GCudaDriverInfo *self);

GCUDA_AVAILABLE_IN_0_1
const char *gcuda_driver_info_get_path (GCudaDriverInfo *self);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_driver_info_is_simulated (GCudaDriverInfo *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GCudaDriverInfo, gcuda_driver_info_unref)

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_is_available (GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaDriverInfo *gcuda_get_driver_info (GError **error);

G_END_DECLS
