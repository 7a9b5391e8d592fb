/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/memory/gcuda-memory-resource.h>

G_BEGIN_DECLS

#define GCUDA_TYPE_MEMORY_RESOURCE_ADAPTOR (gcuda_memory_resource_adaptor_get_type ())

GCUDA_AVAILABLE_IN_0_1
G_DECLARE_DERIVABLE_TYPE (GCudaMemoryResourceAdaptor, gcuda_memory_resource_adaptor, GCUDA, MEMORY_RESOURCE_ADAPTOR, GCudaMemoryResource)

/**
 * GCudaMemoryResourceAdaptorClass:
 * @parent_class: the parent class
 *
 * A subclass overrides the vfuncs of [class@MemoryResource], and chains up to reach upstream.
 *
 * Since: 0.1
 */
struct _GCudaMemoryResourceAdaptorClass
{
  GCudaMemoryResourceClass parent_class;

  /*< private >*/
  gconstpointer hooks;
  gpointer padding[8];
};

GCUDA_AVAILABLE_IN_0_1
GCudaMemoryResource *gcuda_memory_resource_adaptor_get_upstream (GCudaMemoryResourceAdaptor *self);

G_END_DECLS
