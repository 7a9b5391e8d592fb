/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/adaptors/gcuda-memory-resource-adaptor.h>

G_BEGIN_DECLS

#define GCUDA_TYPE_BINNING_MEMORY_RESOURCE (gcuda_binning_memory_resource_get_type ())

GCUDA_AVAILABLE_IN_0_1
G_DECLARE_DERIVABLE_TYPE (GCudaBinningMemoryResource, gcuda_binning_memory_resource, GCUDA, BINNING_MEMORY_RESOURCE, GCudaMemoryResourceAdaptor)

/**
 * GCudaBinningMemoryResourceClass:
 * @parent_class: the parent class
 *
 * Since: 0.1
 */
struct _GCudaBinningMemoryResourceClass
{
  GCudaMemoryResourceAdaptorClass parent_class;

  /*< private >*/
  gpointer padding[4];
};

GCUDA_AVAILABLE_IN_0_1
GCudaBinningMemoryResource *gcuda_binning_memory_resource_new (GCudaMemoryResource *upstream);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_binning_memory_resource_add_bin (GCudaBinningMemoryResource *self,
                                                guint64 max_size,
                                                GCudaMemoryResource *resource,
                                                GError **error);

G_END_DECLS
