/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/memory/gcuda-memory-resource.h>

G_BEGIN_DECLS

GCUDA_AVAILABLE_IN_0_1
GCudaMemoryResource *gcuda_device_get_memory_resource (GCudaDevice *self,
                                                       GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_device_set_memory_resource (GCudaDevice *self,
                                           GCudaMemoryResource *resource,
                                           GError **error);

G_END_DECLS
