/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/adaptors/gcuda-memory-resource-adaptor.h>

G_BEGIN_DECLS

#define GCUDA_TYPE_ALIGNED_MEMORY_RESOURCE (gcuda_aligned_memory_resource_get_type ())

GCUDA_AVAILABLE_IN_0_1
G_DECLARE_DERIVABLE_TYPE (GCudaAlignedMemoryResource, gcuda_aligned_memory_resource, GCUDA, ALIGNED_MEMORY_RESOURCE, GCudaMemoryResourceAdaptor)

/**
 * GCudaAlignedMemoryResourceClass:
 * @parent_class: the parent class
 *
 * Since: 0.1
 */
struct _GCudaAlignedMemoryResourceClass
{
  GCudaMemoryResourceAdaptorClass parent_class;

  /*< private >*/
  gpointer padding[4];
};

GCUDA_AVAILABLE_IN_0_1
GCudaAlignedMemoryResource *gcuda_aligned_memory_resource_new (GCudaMemoryResource *upstream,
                                                               guint64 alignment,
                                                               GError **error);

GCUDA_AVAILABLE_IN_0_1
guint64 gcuda_aligned_memory_resource_get_alignment (GCudaAlignedMemoryResource *self);

G_END_DECLS
