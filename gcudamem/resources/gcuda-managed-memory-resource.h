/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/memory/gcuda-location.h>
#include <gcudamem/memory/gcuda-memory-resource.h>
#include <gcudamem/resources/gcuda-pool-statistics.h>

G_BEGIN_DECLS

#define GCUDA_TYPE_MANAGED_MEMORY_RESOURCE (gcuda_managed_memory_resource_get_type ())

GCUDA_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GCudaManagedMemoryResource, gcuda_managed_memory_resource, GCUDA, MANAGED_MEMORY_RESOURCE, GCudaMemoryResource)

GCUDA_AVAILABLE_IN_0_1
GCudaManagedMemoryResource *gcuda_managed_memory_resource_new (GCudaDevice *device,
                                                               GCudaLocation *preferred,
                                                               GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaManagedMemoryResource *gcuda_managed_memory_resource_new_unpooled (GCudaDevice *device,
                                                                        GCudaLocation *preferred,
                                                                        GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_managed_memory_resource_is_pooled (GCudaManagedMemoryResource *self);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_managed_memory_resource_is_concurrent (GCudaManagedMemoryResource *self);

GCUDA_AVAILABLE_IN_0_1
GCudaLocation *gcuda_managed_memory_resource_get_preferred_location (GCudaManagedMemoryResource *self);

GCUDA_AVAILABLE_IN_0_1
guint64 gcuda_managed_memory_resource_get_handle (GCudaManagedMemoryResource *self);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_managed_memory_resource_set_release_threshold (GCudaManagedMemoryResource *self,
                                                              guint64 threshold,
                                                              GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_managed_memory_resource_trim (GCudaManagedMemoryResource *self,
                                             guint64 keep,
                                             GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaPoolStatistics *gcuda_managed_memory_resource_get_statistics (GCudaManagedMemoryResource *self,
                                                                   GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_managed_memory_resource_reset_high_marks (GCudaManagedMemoryResource *self,
                                                         GError **error);

G_END_DECLS
