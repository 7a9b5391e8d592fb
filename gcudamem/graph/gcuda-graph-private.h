/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/graph/gcuda-graph.h>

#include "gcuda-graph-box-private.h"
#include "memory/gcuda-buffer-private.h"

G_BEGIN_DECLS

/* Nodes. They take a reference to the box. */
GCudaGraphNode *_gcuda_graph_node_new (GCudaGraphBox *graph,
                                       CUgraphNode handle);
GCudaGraphNode *_gcuda_graph_node_new_conditional (GCudaGraphBox *graph,
                                                   CUgraphNode handle,
                                                   CUgraphConditionalHandle conditional,
                                                   const CUgraph *bodies,
                                                   guint n_bodies);
GCudaGraphBox *_gcuda_graph_node_get_graph (GCudaGraphNode *self);
/* The node's handle, if it is one of the graph, or of any graph for NULL; NULL with an error. */
CUgraphNode _gcuda_graph_node_check (GCudaGraphNode *self,
                                     GCudaGraphBox *graph,
                                     const char *what,
                                     GError **error);

/* Definitions. The new one takes the box over. */
GCudaGraphDefinition *_gcuda_graph_definition_new_for_box (GCudaGraphBox *graph);
/* The box with a reference, for the caller; NULL with INVALID_ARGUMENT, CLOSED or FORKED. */
GCudaGraphBox *_gcuda_graph_definition_hold (GCudaGraphDefinition *self,
                                             const char *what,
                                             GError **error);

/* What a fill or a copy between two buffers does, as a node has it. FALSE with an error for what does not fit. @keeper gets
 * what has to be kept. An empty one has a width of 0. */
gboolean _gcuda_graph_fill_parameters (GCudaGraphBox *graph,
                                       GCudaBuffer *buffer,
                                       guint64 offset,
                                       guint64 size,
                                       guint64 value,
                                       guint width,
                                       const char *what,
                                       CUDA_MEMSET_NODE_PARAMS *parameters,
                                       GCudaKeeper *keeper,
                                       GError **error);
gboolean _gcuda_graph_copy_parameters (GCudaGraphBox *graph,
                                       GCudaBuffer *source,
                                       guint64 offset,
                                       GCudaBuffer *destination,
                                       guint64 destination_offset,
                                       guint64 size,
                                       const char *what,
                                       CUDA_MEMCPY3D *parameters,
                                       GCudaKeeper *keeper,
                                       GError **error);
gboolean _gcuda_graph_upload_parameters (GCudaGraphBox *graph,
                                         GCudaBuffer *buffer,
                                         guint64 offset,
                                         GBytes *bytes,
                                         const char *what,
                                         CUDA_MEMCPY3D *parameters,
                                         GCudaKeeper *keeper,
                                         GError **error);

/* A node that is another graph, whose box is @child, with all that this keeps. */
CUresult _gcuda_graph_add_child (GCudaGraphBox *graph,
                                 const CUgraphNode *dependencies,
                                 gsize n_dependencies,
                                 GCudaGraphDefinition *definition,
                                 GCudaGraphBox *child,
                                 CUgraphNode *node);

/* What has the definition's host functions keeps the definition, if it has any: bindings may tie them to it. */
void _gcuda_graph_definition_tie (GCudaGraphDefinition *self,
                                  GCudaKeeper *keeper);

/* Takes away a node that was just added. */
void _gcuda_graph_remove_node (GCudaGraphBox *graph,
                               CUgraphNode node);

/* An executable graph of a definition, whose box is @graph. */
GCudaGraph *_gcuda_graph_new (GCudaGraphBox *graph,
                              GCudaGraphDefinition *definition,
                              GCudaGraphFlags flags,
                              GCudaStream *upload_stream,
                              GError **error);

G_END_DECLS
