/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/adaptors/gcuda-memory-resource-adaptor.h>

G_BEGIN_DECLS

#define GCUDA_TYPE_THREAD_BOUND_MEMORY_RESOURCE (gcuda_thread_bound_memory_resource_get_type ())

GCUDA_AVAILABLE_IN_0_1
G_DECLARE_DERIVABLE_TYPE (GCudaThreadBoundMemoryResource, gcuda_thread_bound_memory_resource, GCUDA, THREAD_BOUND_MEMORY_RESOURCE, GCudaMemoryResourceAdaptor)

/**
 * GCudaThreadBoundMemoryResourceClass:
 * @parent_class: the parent class
 *
 * Since: 0.1
 */
struct _GCudaThreadBoundMemoryResourceClass
{
  GCudaMemoryResourceAdaptorClass parent_class;

  /*< private >*/
  gpointer padding[4];
};

GCUDA_AVAILABLE_IN_0_1
GCudaThreadBoundMemoryResource *gcuda_thread_bound_memory_resource_new (GCudaMemoryResource *upstream);

G_END_DECLS
