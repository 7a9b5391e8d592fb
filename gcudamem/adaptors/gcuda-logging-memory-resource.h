/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/adaptors/gcuda-memory-resource-adaptor.h>

G_BEGIN_DECLS

#define GCUDA_TYPE_LOGGING_MEMORY_RESOURCE (gcuda_logging_memory_resource_get_type ())

GCUDA_AVAILABLE_IN_0_1
G_DECLARE_DERIVABLE_TYPE (GCudaLoggingMemoryResource, gcuda_logging_memory_resource, GCUDA, LOGGING_MEMORY_RESOURCE, GCudaMemoryResourceAdaptor)

/**
 * GCudaLoggingMemoryResourceClass:
 * @parent_class: the parent class
 *
 * Since: 0.1
 */
struct _GCudaLoggingMemoryResourceClass
{
  GCudaMemoryResourceAdaptorClass parent_class;

  /*< private >*/
  gpointer padding[4];
};

GCUDA_AVAILABLE_IN_0_1
GCudaLoggingMemoryResource *gcuda_logging_memory_resource_new (GCudaMemoryResource *upstream,
                                                               GFile *file,
                                                               GError **error);

GCUDA_AVAILABLE_IN_0_1
GFile *gcuda_logging_memory_resource_get_file (GCudaLoggingMemoryResource *self);

G_END_DECLS
