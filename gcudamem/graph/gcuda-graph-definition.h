/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/graph/gcuda-graph-node.h>

G_BEGIN_DECLS

typedef struct _GCudaGraph GCudaGraph;

/**
 * GCudaGraphFlags:
 * @GCUDA_GRAPH_FLAGS_NONE: nothing of the kind
 * @GCUDA_GRAPH_FLAGS_AUTO_FREE_ON_LAUNCH: a launch first frees what is left of the memory that the launch before it allocated
 * @GCUDA_GRAPH_FLAGS_DEVICE_LAUNCH: kernels can launch the graph too
 * @GCUDA_GRAPH_FLAGS_NODE_PRIORITY: nodes run with the priorities that they have, and not with that of the stream
 *
 * How a graph is made executable.
 *
 * Since: 0.1
 */
typedef enum /*< flags >*/
{
  GCUDA_GRAPH_FLAGS_NONE = 0,
  GCUDA_GRAPH_FLAGS_AUTO_FREE_ON_LAUNCH = 1 << 0,
  GCUDA_GRAPH_FLAGS_DEVICE_LAUNCH = 1 << 2,
  GCUDA_GRAPH_FLAGS_NODE_PRIORITY = 1 << 3,
} GCudaGraphFlags;

/**
 * GCudaGraphConditionalKind:
 * @GCUDA_GRAPH_CONDITIONAL_KIND_IF: runs its body once if the value is not 0; with two bodies, the second one if it is
 * @GCUDA_GRAPH_CONDITIONAL_KIND_WHILE: runs its body as long as the value is not 0
 * @GCUDA_GRAPH_CONDITIONAL_KIND_SWITCH: runs the body that the value is the number of, if there is one
 *
 * When a conditional node runs its bodies.
 *
 * Since: 0.1
 */
typedef enum
{
  GCUDA_GRAPH_CONDITIONAL_KIND_IF,
  GCUDA_GRAPH_CONDITIONAL_KIND_WHILE,
  GCUDA_GRAPH_CONDITIONAL_KIND_SWITCH,
} GCudaGraphConditionalKind;

#define GCUDA_TYPE_GRAPH_DEFINITION (gcuda_graph_definition_get_type ())

GCUDA_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GCudaGraphDefinition, gcuda_graph_definition, GCUDA, GRAPH_DEFINITION, GObject)

GCUDA_AVAILABLE_IN_0_1
GCudaGraphDefinition *gcuda_graph_definition_new (GCudaContext *context,
                                                  GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_graph_definition_close (GCudaGraphDefinition *self,
                                       GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_graph_definition_is_closed (GCudaGraphDefinition *self);

GCUDA_AVAILABLE_IN_0_1
guint64 gcuda_graph_definition_get_handle (GCudaGraphDefinition *self);

GCUDA_AVAILABLE_IN_0_1
GPtrArray *gcuda_graph_definition_get_nodes (GCudaGraphDefinition *self,
                                             GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaGraph *gcuda_graph_definition_instantiate (GCudaGraphDefinition *self,
                                                GCudaGraphFlags flags,
                                                GCudaStream *upload_stream,
                                                GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_graph_definition_add_dependency (GCudaGraphDefinition *self,
                                                GCudaGraphNode *from,
                                                GCudaGraphNode *to,
                                                GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaGraphNode *gcuda_graph_definition_add_empty (GCudaGraphDefinition *self,
                                                  GCudaGraphNode **dependencies,
                                                  gsize n_dependencies,
                                                  GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaGraphNode *gcuda_graph_definition_add_fill (GCudaGraphDefinition *self,
                                                 GCudaGraphNode **dependencies,
                                                 gsize n_dependencies,
                                                 GCudaBuffer *buffer,
                                                 guint64 offset,
                                                 guint64 size,
                                                 guint64 value,
                                                 guint width,
                                                 GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaGraphNode *gcuda_graph_definition_add_copy (GCudaGraphDefinition *self,
                                                 GCudaGraphNode **dependencies,
                                                 gsize n_dependencies,
                                                 GCudaBuffer *source,
                                                 guint64 offset,
                                                 GCudaBuffer *destination,
                                                 guint64 destination_offset,
                                                 guint64 size,
                                                 GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaGraphNode *gcuda_graph_definition_add_upload (GCudaGraphDefinition *self,
                                                   GCudaGraphNode **dependencies,
                                                   gsize n_dependencies,
                                                   GCudaBuffer *buffer,
                                                   guint64 offset,
                                                   GBytes *bytes,
                                                   GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaGraphNode *gcuda_graph_definition_add_host_function (GCudaGraphDefinition *self,
                                                          GCudaGraphNode **dependencies,
                                                          gsize n_dependencies,
                                                          GCudaStreamFunc func,
                                                          gpointer user_data,
                                                          GDestroyNotify destroy,
                                                          GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaGraphNode *gcuda_graph_definition_add_event_record (GCudaGraphDefinition *self,
                                                         GCudaGraphNode **dependencies,
                                                         gsize n_dependencies,
                                                         GCudaEvent *event,
                                                         GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaGraphNode *gcuda_graph_definition_add_event_wait (GCudaGraphDefinition *self,
                                                       GCudaGraphNode **dependencies,
                                                       gsize n_dependencies,
                                                       GCudaEvent *event,
                                                       GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaGraphNode *gcuda_graph_definition_add_graph (GCudaGraphDefinition *self,
                                                  GCudaGraphNode **dependencies,
                                                  gsize n_dependencies,
                                                  GCudaGraphDefinition *child,
                                                  GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaGraphNode *gcuda_graph_definition_add_allocation (GCudaGraphDefinition *self,
                                                       GCudaGraphNode **dependencies,
                                                       gsize n_dependencies,
                                                       guint64 size,
                                                       GCudaStream *stream,
                                                       GCudaBuffer **buffer,
                                                       GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaGraphNode *gcuda_graph_definition_add_free (GCudaGraphDefinition *self,
                                                 GCudaGraphNode **dependencies,
                                                 gsize n_dependencies,
                                                 GCudaBuffer *buffer,
                                                 GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaGraphNode *gcuda_graph_definition_add_conditional (GCudaGraphDefinition *self,
                                                        GCudaGraphNode **dependencies,
                                                        gsize n_dependencies,
                                                        GCudaGraphConditionalKind kind,
                                                        guint default_value,
                                                        guint n_bodies,
                                                        GError **error);

G_END_DECLS
