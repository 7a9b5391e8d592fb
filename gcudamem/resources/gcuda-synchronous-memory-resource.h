/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/memory/gcuda-buffer.h>

G_BEGIN_DECLS

#define GCUDA_TYPE_SYNCHRONOUS_MEMORY_RESOURCE (gcuda_synchronous_memory_resource_get_type ())

GCUDA_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GCudaSynchronousMemoryResource, gcuda_synchronous_memory_resource, GCUDA, SYNCHRONOUS_MEMORY_RESOURCE, GCudaMemoryResource)

GCUDA_AVAILABLE_IN_0_1
GCudaSynchronousMemoryResource *gcuda_synchronous_memory_resource_new (GCudaContext *context,
                                                                       GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaSynchronousMemoryResource *gcuda_synchronous_memory_resource_new_for_device (GCudaDevice *device,
                                                                                  GError **error);

G_END_DECLS
