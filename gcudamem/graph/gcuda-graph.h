/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/graph/gcuda-graph-definition.h>

G_BEGIN_DECLS

#define GCUDA_TYPE_GRAPH (gcuda_graph_get_type ())

GCUDA_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GCudaGraph, gcuda_graph, GCUDA, GRAPH, GObject)

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_graph_close (GCudaGraph *self,
                            GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_graph_is_closed (GCudaGraph *self);

GCUDA_AVAILABLE_IN_0_1
GCudaGraphFlags gcuda_graph_get_flags (GCudaGraph *self);

GCUDA_AVAILABLE_IN_0_1
guint64 gcuda_graph_get_handle (GCudaGraph *self);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_graph_launch (GCudaGraph *self,
                             GCudaStream *stream,
                             GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_graph_upload (GCudaGraph *self,
                             GCudaStream *stream,
                             GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_graph_update (GCudaGraph *self,
                             GCudaGraphDefinition *definition,
                             GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_graph_update_fill (GCudaGraph *self,
                                  GCudaGraphNode *node,
                                  GCudaBuffer *buffer,
                                  guint64 offset,
                                  guint64 size,
                                  guint64 value,
                                  guint width,
                                  GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_graph_update_copy (GCudaGraph *self,
                                  GCudaGraphNode *node,
                                  GCudaBuffer *source,
                                  guint64 offset,
                                  GCudaBuffer *destination,
                                  guint64 destination_offset,
                                  guint64 size,
                                  GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_graph_update_upload (GCudaGraph *self,
                                    GCudaGraphNode *node,
                                    GCudaBuffer *buffer,
                                    guint64 offset,
                                    GBytes *bytes,
                                    GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_graph_update_host_function (GCudaGraph *self,
                                           GCudaGraphNode *node,
                                           GCudaStreamFunc func,
                                           gpointer user_data,
                                           GDestroyNotify destroy,
                                           GError **error);

G_END_DECLS
