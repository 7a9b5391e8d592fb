/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/adaptors/gcuda-memory-resource-adaptor.h>

#include "memory/gcuda-allocation-private.h"

G_BEGIN_DECLS

/*
 * A call on its way upstream. There are two ways: where all below is the library's own, the driver calls alone (call, or box
 * and handle), which can run in a teardown; else the vfuncs (stream), and then a failure may have its own error.
 */
typedef struct
{
  GCudaMemoryResource *upstream; /* an adaptor may choose another */
  GCudaStreamCall *call;
  GCudaStreamBox *box;
  CUstream handle;
  gboolean gone;
  GCudaStream *stream;
  GError *error;
} GCudaUpstreamCall;

CUresult _gcuda_upstream_allocate (GCudaUpstreamCall *up,
                                   gsize size,
                                   gsize alignment,
                                   CUdeviceptr *address);
CUresult _gcuda_upstream_deallocate (GCudaUpstreamCall *up,
                                     CUdeviceptr address,
                                     gsize size,
                                     gsize alignment);

/* What one of the library's adaptors does on either way; NULL: nothing of its own. */
typedef struct
{
  CUresult (*allocate) (GCudaMemoryResourceAdaptor *self,
                        GCudaUpstreamCall *up,
                        gsize size,
                        gsize alignment,
                        CUdeviceptr *address);
  CUresult (*deallocate) (GCudaMemoryResourceAdaptor *self,
                          GCudaUpstreamCall *up,
                          CUdeviceptr address,
                          gsize size,
                          gsize alignment);
  gboolean (*check) (GCudaMemoryResourceAdaptor *self,
                     GError **error);
  /* What an error message says it is; takes the text for upstream over. */
  char *(*describe) (GCudaMemoryResourceAdaptor *self,
                     char *upstream);
  gsize (*get_alignment) (GCudaMemoryResourceAdaptor *self);
  /* Whether what it has beside upstream frees in stream order; asked on the way of the vfuncs. */
  gboolean (*frees_in_order) (GCudaMemoryResourceAdaptor *self);
  /* Whether all is called on the thread that made it. */
  gboolean bound;
} GCudaAdaptorHooks;

/* For an adaptor with more than one upstream: takes another into account. */
void _gcuda_memory_resource_adaptor_add (GCudaMemoryResourceAdaptor *self,
                                         GCudaMemoryResource *upstream);

/* Whether another adaptor was built on it, which counts on what it is by now. */
gboolean _gcuda_memory_resource_adaptor_is_built_on (GCudaMemoryResourceAdaptor *self);

G_END_DECLS
