/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/graph/gcuda-graph-definition.h>

G_BEGIN_DECLS

/**
 * GCudaCaptureMode:
 * @GCUDA_CAPTURE_MODE_GLOBAL: while it goes on, no thread may make driver calls that could wait for the stream: they fail,
 *   and break the capture
 * @GCUDA_CAPTURE_MODE_THREAD_LOCAL: the same for the thread that began, and others may
 * @GCUDA_CAPTURE_MODE_RELAXED: all may, and any thread can end it
 *
 * What a capture forbids.
 *
 * Since: 0.1
 */
typedef enum
{
  GCUDA_CAPTURE_MODE_GLOBAL,
  GCUDA_CAPTURE_MODE_THREAD_LOCAL,
  GCUDA_CAPTURE_MODE_RELAXED,
} GCudaCaptureMode;

#define GCUDA_TYPE_GRAPH_BUILDER (gcuda_graph_builder_get_type ())

typedef struct _GCudaGraphBuilder GCudaGraphBuilder;
typedef struct _GCudaGraphBuilderClass GCudaGraphBuilderClass;

GCUDA_AVAILABLE_IN_0_1
GType gcuda_graph_builder_get_type (void) G_GNUC_CONST;

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GCudaGraphBuilder, g_object_unref)

G_GNUC_UNUSED static inline GCudaGraphBuilder *
GCUDA_GRAPH_BUILDER (gpointer instance)
{
  return G_TYPE_CHECK_INSTANCE_CAST (instance, gcuda_graph_builder_get_type (), GCudaGraphBuilder);
}

G_GNUC_UNUSED static inline gboolean
GCUDA_IS_GRAPH_BUILDER (gpointer instance)
{
  return G_TYPE_CHECK_INSTANCE_TYPE (instance, gcuda_graph_builder_get_type ());
}

GCUDA_AVAILABLE_IN_0_1
GCudaGraphBuilder *gcuda_graph_builder_new (GCudaContext *context,
                                            GCudaCaptureMode mode,
                                            GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaGraphBuilder *gcuda_graph_builder_new_for_stream (GCudaStream *stream,
                                                       GCudaCaptureMode mode,
                                                       GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaGraphBuilder *gcuda_graph_builder_new_for_definition (GCudaGraphDefinition *definition,
                                                           GCudaCaptureMode mode,
                                                           GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaGraphBuilder *gcuda_graph_builder_fork (GCudaGraphBuilder *self,
                                             GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_graph_builder_join (GCudaGraphBuilder *self,
                                   GCudaGraphBuilder *other,
                                   GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaGraphDefinition *gcuda_graph_builder_finish (GCudaGraphBuilder *self,
                                                  GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_graph_builder_add_graph (GCudaGraphBuilder *self,
                                        GCudaGraphDefinition *child,
                                        GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_graph_builder_add_event_record (GCudaGraphBuilder *self,
                                               GCudaEvent *event,
                                               GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_graph_builder_add_event_wait (GCudaGraphBuilder *self,
                                             GCudaEvent *event,
                                             GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaGraphNode *gcuda_graph_builder_get_last_node (GCudaGraphBuilder *self,
                                                   GError **error);

G_END_DECLS
