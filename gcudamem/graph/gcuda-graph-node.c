/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-graph-private.h"

/**
 * GCudaGraphNode:
 *
 * A node of a graph: one piece of its work.
 *
 * [class@GraphDefinition] makes nodes and takes them as dependencies; [class@Graph] takes them to say which part of an
 * executable graph is to be changed. A node lives as long as anything refers to it, its graph's definition may be closed.
 * Any thread.
 *
 * Since: 0.1
 */
struct _GCudaGraphNode
{
  GObject parent_instance;

  GCudaGraphBox *graph; /* NULL for an object made by bare new */
  CUgraphNode handle;
  GCudaGraphNodeKind kind;
  CUgraphConditionalHandle conditional;
  CUgraph *bodies;
  guint n_bodies;
};

G_DEFINE_FINAL_TYPE (GCudaGraphNode, gcuda_graph_node, G_TYPE_OBJECT)

enum
{
  PROP_0,
  PROP_KIND,
  PROP_HANDLE,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

static void
gcuda_graph_node_finalize (GObject *object)
{
  GCudaGraphNode *self = GCUDA_GRAPH_NODE (object);

  g_clear_pointer (&self->graph, _gcuda_graph_box_unref);
  g_free (self->bodies);

  G_OBJECT_CLASS (gcuda_graph_node_parent_class)->finalize (object);
}

static void
gcuda_graph_node_get_property (GObject *object,
                               guint id,
                               GValue *value,
                               GParamSpec *pspec)
{
  GCudaGraphNode *self = GCUDA_GRAPH_NODE (object);

  switch (id)
    {
    case PROP_KIND:
      g_value_set_enum (value, self->kind);
      break;
    case PROP_HANDLE:
      g_value_set_uint64 (value, gcuda_graph_node_get_handle (self));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gcuda_graph_node_class_init (GCudaGraphNodeClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;

  object_class->finalize = gcuda_graph_node_finalize;
  object_class->get_property = gcuda_graph_node_get_property;

  /**
   * GCudaGraphNode:kind: (getter get_kind)
   *
   * What the node does.
   *
   * Since: 0.1
   */
  properties[PROP_KIND] = g_param_spec_enum ("kind", NULL, NULL, GCUDA_TYPE_GRAPH_NODE_KIND, GCUDA_GRAPH_NODE_KIND_OTHER, flags);

  /**
   * GCudaGraphNode:handle: (getter get_handle)
   *
   * The `CUgraphNode`, as a number.
   *
   * Since: 0.1
   */
  properties[PROP_HANDLE] = g_param_spec_uint64 ("handle", NULL, NULL, 0, G_MAXUINT64, 0, flags);

  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
gcuda_graph_node_init (GCudaGraphNode *self)
{
}

static GCudaGraphNodeKind
kind_of (CUgraphNodeType type)
{
  switch ((int) type)
    {
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return GCUDA_GRAPH_NODE_KIND_EMPTY;
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return GCUDA_GRAPH_NODE_KIND_KERNEL;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return GCUDA_GRAPH_NODE_KIND_COPY;
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return GCUDA_GRAPH_NODE_KIND_FILL;
    case CU_GRAPH_NODE_TYPE_HOST:
      return GCUDA_GRAPH_NODE_KIND_HOST_FUNCTION;
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return GCUDA_GRAPH_NODE_KIND_GRAPH;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return GCUDA_GRAPH_NODE_KIND_EVENT_RECORD;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return GCUDA_GRAPH_NODE_KIND_EVENT_WAIT;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return GCUDA_GRAPH_NODE_KIND_ALLOCATION;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return GCUDA_GRAPH_NODE_KIND_FREE;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return GCUDA_GRAPH_NODE_KIND_CONDITIONAL;
    default:
      return GCUDA_GRAPH_NODE_KIND_OTHER;
    }
}

GCudaGraphNode *
_gcuda_graph_node_new (GCudaGraphBox *graph,
                       CUgraphNode handle)
{
  GCudaGraphNode *self = g_object_new (GCUDA_TYPE_GRAPH_NODE, NULL);
  CUgraphNodeType type;

  self->graph = _gcuda_graph_box_ref (graph);
  self->handle = handle;
  /* A driver that is newer than this library may answer what this does not know. */
  if (_gcuda_driver.GraphNodeGetType (handle, &type) == CUDA_SUCCESS)
    self->kind = kind_of (type);
  return self;
}

GCudaGraphNode *
_gcuda_graph_node_new_conditional (GCudaGraphBox *graph,
                                   CUgraphNode handle,
                                   CUgraphConditionalHandle conditional,
                                   const CUgraph *bodies,
                                   guint n_bodies)
{
  GCudaGraphNode *self = g_object_new (GCUDA_TYPE_GRAPH_NODE, NULL);

  self->graph = _gcuda_graph_box_ref (graph);
  self->handle = handle;
  self->kind = GCUDA_GRAPH_NODE_KIND_CONDITIONAL;
  self->conditional = conditional;
  self->bodies = g_memdup2 (bodies, n_bodies * sizeof *bodies);
  self->n_bodies = n_bodies;
  return self;
}

GCudaGraphBox *
_gcuda_graph_node_get_graph (GCudaGraphNode *self)
{
  return self->graph;
}

CUgraphNode
_gcuda_graph_node_check (GCudaGraphNode *self,
                         GCudaGraphBox *graph,
                         const char *what,
                         GError **error)
{
  if (!GCUDA_IS_GRAPH_NODE (self) || self->graph == NULL)
    _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: no node was given", what);
  else if (self->graph->handle == NULL)
    _gcuda_fail (error, GCUDA_ERROR_CLOSED, "%s: the capture that the node belonged to failed", what);
  else if (graph != NULL && self->graph->handle != graph->handle)
    _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: the node belongs to another graph", what);
  else
    return self->handle;
  return NULL;
}

/**
 * gcuda_graph_node_get_kind: (get-property kind)
 * @self: a node
 *
 * What the node does. Any thread.
 *
 * Returns: the kind of node
 *
 * Since: 0.1
 */
GCudaGraphNodeKind
gcuda_graph_node_get_kind (GCudaGraphNode *self)
{
  g_return_val_if_fail (GCUDA_IS_GRAPH_NODE (self), GCUDA_GRAPH_NODE_KIND_OTHER);

  return self->kind;
}

/**
 * gcuda_graph_node_get_handle: (get-property handle)
 * @self: a node
 *
 * The `CUgraphNode`, as a number, for other libraries. It is valid as long as the node object is. Any thread.
 *
 * Returns: the handle; 0 for an object made by bare new, or if the capture failed that the node belonged to
 *
 * Since: 0.1
 */
guint64
gcuda_graph_node_get_handle (GCudaGraphNode *self)
{
  g_return_val_if_fail (GCUDA_IS_GRAPH_NODE (self), 0);

  return self->graph != NULL && self->graph->handle != NULL ? (guint64) (guintptr) self->handle : 0;
}

/**
 * gcuda_graph_node_get_conditional_handle:
 * @self: a node
 *
 * The `CUgraphConditionalHandle` of a conditional node, as a number: what a kernel of the graph sets the value with
 * (`cudaGraphSetConditional`). Any thread.
 *
 * Returns: the handle; 0 for a node of another kind
 *
 * Since: 0.1
 */
guint64
gcuda_graph_node_get_conditional_handle (GCudaGraphNode *self)
{
  g_return_val_if_fail (GCUDA_IS_GRAPH_NODE (self), 0);

  return self->conditional;
}

/**
 * gcuda_graph_node_get_n_bodies:
 * @self: a node
 *
 * How many bodies a conditional node has. Any thread.
 *
 * Returns: a number; 0 for a node of another kind
 *
 * Since: 0.1
 */
guint
gcuda_graph_node_get_n_bodies (GCudaGraphNode *self)
{
  g_return_val_if_fail (GCUDA_IS_GRAPH_NODE (self), 0);

  return self->n_bodies;
}

/**
 * gcuda_graph_node_get_body:
 * @self: a conditional node
 * @index: which body, from 0 on
 * @error: return location for an error
 *
 * Gets a body of a conditional node, to add nodes to, or to capture into with [ctor@GraphBuilder.new_for_definition]. It is a part of the node's graph, and goes with it: it can't be made
 * executable by itself, and what its nodes use is kept by the whole graph. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` where there is no such body.
 *
 * Returns: (transfer full): the body
 *
 * Since: 0.1
 */
GCudaGraphDefinition *
gcuda_graph_node_get_body (GCudaGraphNode *self,
                           guint index,
                           GError **error)
{
  g_return_val_if_fail (GCUDA_IS_GRAPH_NODE (self), NULL);

  if (index < self->n_bodies)
    return _gcuda_graph_definition_new_for_box (_gcuda_graph_box_new_body (self->graph, self->bodies[index]));
  _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "getting a body of a node: it has %u, and no number %u", self->n_bodies, index);
  return NULL;
}
