/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gcuda-graph-memory-private.h"

G_BEGIN_DECLS

/*
 * The driver's graph, counted: builders, definitions and nodes share it, and the last one destroys it. What it keeps goes
 * when its definition is closed, or its capture abandoned.
 */
typedef struct _GCudaGraphBox GCudaGraphBox;

struct _GCudaGraphBox
{
  GCudaReclaimNode node;
  gint refs;
  CUgraph handle;           /* NULL once a capture that made it failed */
  gboolean owned;           /* a capture's belongs to the driver until the capture ends */
  GCudaContextBox *context; /* with a use */
  GCudaKeeperSet *keepers;
  GCudaGraphMemory *memory;
  gint closed;          /* the definition: there are only nodes left, to name what executable graphs have */
  gint tied;            /* others have the handle: what they make of it keeps the same things */
  GCudaKeeper *objects; /* definitions of its bodies that bindings may have tied functions to, while the graph is open; or NULL */
  GCudaGraphBox *root;  /* of the body of a conditional node: the graph that it is a part of, referenced */
};

/* Takes the use of @context over. */
GCudaGraphBox *_gcuda_graph_box_new (CUgraph handle,
                                     gboolean owned,
                                     GCudaContextBox *context,
                                     cuuint64_t capture);
GCudaGraphBox *_gcuda_graph_box_new_body (GCudaGraphBox *root,
                                          CUgraph handle);
GCudaGraphBox *_gcuda_graph_box_ref (GCudaGraphBox *self);
void _gcuda_graph_box_unref (GCudaGraphBox *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GCudaGraphBox, _gcuda_graph_box_unref)

/* Lets go what the graph keeps; what was made of it keeps it still. */
void _gcuda_graph_box_close (GCudaGraphBox *self);
gboolean _gcuda_graph_box_is_closed (GCudaGraphBox *self);

/* Whether it is the same graph, or one that @other is a part of. */
gboolean _gcuda_graph_box_contains (GCudaGraphBox *self,
                                    GCudaGraphBox *other);

/* Makes the context current, for a driver call that adds to the graph or makes something of it. */
gboolean _gcuda_graph_box_enter (GCudaGraphBox *self,
                                 GCudaContextScope *scope,
                                 const char *what,
                                 GError **error);
/* A keeper for the memory, unless that is the graph's own. */
void _gcuda_graph_box_keep_allocation (GCudaGraphBox *self,
                                       GCudaKeeper *keeper,
                                       GCudaAllocation *allocation);

/* NOT_SUPPORTED where the driver has no graphs. */
gboolean _gcuda_graphs_check (const char *what,
                              GError **error);

G_END_DECLS
