/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/memory/gcuda-buffer.h>

G_BEGIN_DECLS

typedef struct _GCudaGraphDefinition GCudaGraphDefinition;

/**
 * GCudaGraphNodeKind:
 * @GCUDA_GRAPH_NODE_KIND_OTHER: something this library makes no nodes of
 * @GCUDA_GRAPH_NODE_KIND_EMPTY: nothing: others depend on it
 * @GCUDA_GRAPH_NODE_KIND_KERNEL: a kernel
 * @GCUDA_GRAPH_NODE_KIND_COPY: a copy
 * @GCUDA_GRAPH_NODE_KIND_FILL: a fill
 * @GCUDA_GRAPH_NODE_KIND_HOST_FUNCTION: a function that runs on the host
 * @GCUDA_GRAPH_NODE_KIND_GRAPH: a graph within the graph
 * @GCUDA_GRAPH_NODE_KIND_EVENT_RECORD: records an event
 * @GCUDA_GRAPH_NODE_KIND_EVENT_WAIT: waits for an event
 * @GCUDA_GRAPH_NODE_KIND_ALLOCATION: allocates memory
 * @GCUDA_GRAPH_NODE_KIND_FREE: frees memory
 * @GCUDA_GRAPH_NODE_KIND_CONDITIONAL: runs graphs within the graph, or does not
 *
 * What a node of a graph does.
 *
 * Since: 0.1
 */
typedef enum
{
  GCUDA_GRAPH_NODE_KIND_OTHER,
  GCUDA_GRAPH_NODE_KIND_EMPTY,
  GCUDA_GRAPH_NODE_KIND_KERNEL,
  GCUDA_GRAPH_NODE_KIND_COPY,
  GCUDA_GRAPH_NODE_KIND_FILL,
  GCUDA_GRAPH_NODE_KIND_HOST_FUNCTION,
  GCUDA_GRAPH_NODE_KIND_GRAPH,
  GCUDA_GRAPH_NODE_KIND_EVENT_RECORD,
  GCUDA_GRAPH_NODE_KIND_EVENT_WAIT,
  GCUDA_GRAPH_NODE_KIND_ALLOCATION,
  GCUDA_GRAPH_NODE_KIND_FREE,
  GCUDA_GRAPH_NODE_KIND_CONDITIONAL,
} GCudaGraphNodeKind;

#define GCUDA_TYPE_GRAPH_NODE (gcuda_graph_node_get_type ())

GCUDA_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GCudaGraphNode, gcuda_graph_node, GCUDA, GRAPH_NODE, GObject)

GCUDA_AVAILABLE_IN_0_1
GCudaGraphNodeKind gcuda_graph_node_get_kind (GCudaGraphNode *self);

GCUDA_AVAILABLE_IN_0_1
guint64 gcuda_graph_node_get_handle (GCudaGraphNode *self);

GCUDA_AVAILABLE_IN_0_1
guint64 gcuda_graph_node_get_conditional_handle (GCudaGraphNode *self);

GCUDA_AVAILABLE_IN_0_1
guint gcuda_graph_node_get_n_bodies (GCudaGraphNode *self);

GCUDA_AVAILABLE_IN_0_1
GCudaGraphDefinition *gcuda_graph_node_get_body (GCudaGraphNode *self,
                                                 guint index,
                                                 GError **error);

G_END_DECLS
