/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/adaptors/gcuda-memory-resource-adaptor.h>
#include <gcudamem/adaptors/gcuda-allocation-statistics.h>

G_BEGIN_DECLS

#define GCUDA_TYPE_STATISTICS_MEMORY_RESOURCE (gcuda_statistics_memory_resource_get_type ())

GCUDA_AVAILABLE_IN_0_1
G_DECLARE_DERIVABLE_TYPE (GCudaStatisticsMemoryResource, gcuda_statistics_memory_resource, GCUDA, STATISTICS_MEMORY_RESOURCE, GCudaMemoryResourceAdaptor)

/**
 * GCudaStatisticsMemoryResourceClass:
 * @parent_class: the parent class
 *
 * Since: 0.1
 */
struct _GCudaStatisticsMemoryResourceClass
{
  GCudaMemoryResourceAdaptorClass parent_class;

  /*< private >*/
  gpointer padding[4];
};

GCUDA_AVAILABLE_IN_0_1
GCudaStatisticsMemoryResource *gcuda_statistics_memory_resource_new (GCudaMemoryResource *upstream);

GCUDA_AVAILABLE_IN_0_1
GCudaAllocationStatistics *gcuda_statistics_memory_resource_get_statistics (GCudaStatisticsMemoryResource *self);

GCUDA_AVAILABLE_IN_0_1
void gcuda_statistics_memory_resource_reset_peaks (GCudaStatisticsMemoryResource *self);

G_END_DECLS
