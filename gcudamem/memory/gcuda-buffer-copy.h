/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/memory/gcuda-buffer.h>
#include <gcudamem/memory/gcuda-copy-attributes.h>

G_BEGIN_DECLS

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_buffer_copy_to (GCudaBuffer *self,
                               GCudaBuffer *destination,
                               GCudaStream *stream,
                               GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_buffer_copy_range (GCudaBuffer *self,
                                  guint64 offset,
                                  GCudaBuffer *destination,
                                  guint64 destination_offset,
                                  guint64 size,
                                  GCudaStream *stream,
                                  GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_buffer_copy_2d (GCudaBuffer *self,
                               guint64 offset,
                               guint64 pitch,
                               GCudaBuffer *destination,
                               guint64 destination_offset,
                               guint64 destination_pitch,
                               guint64 row_size,
                               guint64 rows,
                               GCudaStream *stream,
                               GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_buffer_copy_3d (GCudaBuffer *self,
                               guint64 offset,
                               guint64 pitch,
                               guint64 height,
                               GCudaBuffer *destination,
                               guint64 destination_offset,
                               guint64 destination_pitch,
                               guint64 destination_height,
                               guint64 row_size,
                               guint64 rows,
                               guint64 layers,
                               GCudaStream *stream,
                               GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_buffer_copy_batch (GCudaBuffer **sources,
                                  gsize n_sources,
                                  GCudaBuffer **destinations,
                                  gsize n_destinations,
                                  GCudaStream *stream,
                                  GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_buffer_copy_batch_with_attributes (GCudaBuffer **sources,
                                                  gsize n_sources,
                                                  GCudaBuffer **destinations,
                                                  gsize n_destinations,
                                                  GCudaCopyAttributes *attributes,
                                                  GCudaStream *stream,
                                                  GError **error);

G_END_DECLS
