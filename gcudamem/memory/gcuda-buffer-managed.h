/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/memory/gcuda-buffer.h>
#include <gcudamem/memory/gcuda-location.h>

G_BEGIN_DECLS

/* Advice */

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_buffer_set_read_mostly (GCudaBuffer *self,
                                       gboolean read_mostly,
                                       GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_buffer_is_read_mostly (GCudaBuffer *self,
                                      GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_buffer_set_preferred_location (GCudaBuffer *self,
                                              GCudaLocation *location,
                                              GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaLocation *gcuda_buffer_get_preferred_location (GCudaBuffer *self,
                                                    GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_buffer_set_accessed_by (GCudaBuffer *self,
                                       GCudaLocation *location,
                                       gboolean accessed,
                                       GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_buffer_is_accessed_by (GCudaBuffer *self,
                                      GCudaLocation *location,
                                      GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaLocation *gcuda_buffer_get_last_prefetch_location (GCudaBuffer *self,
                                                        GError **error);

/* Moving and dropping pages, in stream order */

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_buffer_prefetch (GCudaBuffer *self,
                                GCudaLocation *location,
                                GCudaStream *stream,
                                GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_buffer_prefetch_batch (GCudaBuffer **buffers,
                                      gsize n_buffers,
                                      GCudaLocation *location,
                                      GCudaStream *stream,
                                      GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_buffer_discard (GCudaBuffer *self,
                               GCudaStream *stream,
                               GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_buffer_discard_batch (GCudaBuffer **buffers,
                                     gsize n_buffers,
                                     GCudaStream *stream,
                                     GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_buffer_discard_and_prefetch (GCudaBuffer *self,
                                            GCudaLocation *location,
                                            GCudaStream *stream,
                                            GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_buffer_discard_and_prefetch_batch (GCudaBuffer **buffers,
                                                  gsize n_buffers,
                                                  GCudaLocation *location,
                                                  GCudaStream *stream,
                                                  GError **error);

G_END_DECLS
