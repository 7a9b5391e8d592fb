/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/adaptors/gcuda-memory-resource-adaptor.h>

G_BEGIN_DECLS

#define GCUDA_TYPE_LIMITING_MEMORY_RESOURCE (gcuda_limiting_memory_resource_get_type ())

GCUDA_AVAILABLE_IN_0_1
G_DECLARE_DERIVABLE_TYPE (GCudaLimitingMemoryResource, gcuda_limiting_memory_resource, GCUDA, LIMITING_MEMORY_RESOURCE, GCudaMemoryResourceAdaptor)

/**
 * GCudaLimitingMemoryResourceClass:
 * @parent_class: the parent class
 *
 * Since: 0.1
 */
struct _GCudaLimitingMemoryResourceClass
{
  GCudaMemoryResourceAdaptorClass parent_class;

  /*< private >*/
  gpointer padding[4];
};

GCUDA_AVAILABLE_IN_0_1
GCudaLimitingMemoryResource *gcuda_limiting_memory_resource_new (GCudaMemoryResource *upstream,
                                                                 guint64 limit);

GCUDA_AVAILABLE_IN_0_1
guint64 gcuda_limiting_memory_resource_get_limit (GCudaLimitingMemoryResource *self);

GCUDA_AVAILABLE_IN_0_1
void gcuda_limiting_memory_resource_set_limit (GCudaLimitingMemoryResource *self,
                                               guint64 limit);

GCUDA_AVAILABLE_IN_0_1
guint64 gcuda_limiting_memory_resource_get_used (GCudaLimitingMemoryResource *self);

G_END_DECLS
