/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/memory/gcuda-buffer.h>
#include <gcudamem/resources/gcuda-pool-statistics.h>

G_BEGIN_DECLS

#define GCUDA_TYPE_GRAPH_MEMORY_RESOURCE (gcuda_graph_memory_resource_get_type ())

GCUDA_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GCudaGraphMemoryResource, gcuda_graph_memory_resource, GCUDA, GRAPH_MEMORY_RESOURCE, GCudaMemoryResource)

GCUDA_AVAILABLE_IN_0_1
GCudaGraphMemoryResource *gcuda_graph_memory_resource_new (GCudaDevice *device,
                                                           GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaPoolStatistics *gcuda_graph_memory_resource_get_statistics (GCudaGraphMemoryResource *self,
                                                                 GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_graph_memory_resource_reset_high_marks (GCudaGraphMemoryResource *self,
                                                       GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_graph_memory_resource_trim (GCudaGraphMemoryResource *self,
                                           GError **error);

G_END_DECLS
