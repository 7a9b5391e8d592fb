/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/memory/gcuda-memory-resource.h>
#include <gcudamem/resources/gcuda-pool-statistics.h>

G_BEGIN_DECLS

#define GCUDA_TYPE_PINNED_MEMORY_RESOURCE (gcuda_pinned_memory_resource_get_type ())

GCUDA_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GCudaPinnedMemoryResource, gcuda_pinned_memory_resource, GCUDA, PINNED_MEMORY_RESOURCE, GCudaMemoryResource)

GCUDA_AVAILABLE_IN_0_1
GCudaPinnedMemoryResource *gcuda_pinned_memory_resource_new (GCudaDevice *device,
                                                             GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaPinnedMemoryResource *gcuda_pinned_memory_resource_new_for_numa_node (GCudaDevice *device,
                                                                           int node,
                                                                           GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaPinnedMemoryResource *gcuda_pinned_memory_resource_new_unpooled (GCudaDevice *device,
                                                                      gboolean write_combined,
                                                                      GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_pinned_memory_resource_is_pooled (GCudaPinnedMemoryResource *self);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_pinned_memory_resource_is_write_combined (GCudaPinnedMemoryResource *self);

GCUDA_AVAILABLE_IN_0_1
int gcuda_pinned_memory_resource_get_numa_node (GCudaPinnedMemoryResource *self);

GCUDA_AVAILABLE_IN_0_1
guint64 gcuda_pinned_memory_resource_get_handle (GCudaPinnedMemoryResource *self);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_pinned_memory_resource_set_release_threshold (GCudaPinnedMemoryResource *self,
                                                             guint64 threshold,
                                                             GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_pinned_memory_resource_trim (GCudaPinnedMemoryResource *self,
                                            guint64 keep,
                                            GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaPoolStatistics *gcuda_pinned_memory_resource_get_statistics (GCudaPinnedMemoryResource *self,
                                                                  GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_pinned_memory_resource_reset_high_marks (GCudaPinnedMemoryResource *self,
                                                        GError **error);

G_END_DECLS
