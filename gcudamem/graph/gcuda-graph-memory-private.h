/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "memory/gcuda-allocation-private.h"

G_BEGIN_DECLS

/*
 * The memory of one graph: of its allocation nodes. The driver gives an address with the node; memory is behind it from a
 * launch on until it is freed, by a node of the graph or outside. Counted: the graph and the executable ones made of it have
 * references. When those are gone and it was never launched, there is nothing to free.
 */
typedef struct _GCudaGraphMemory GCudaGraphMemory;

/* @capture: the id of the capture that makes it; 0 for a graph that is made of nodes. */
GCudaGraphMemory *_gcuda_graph_memory_new (cuuint64_t capture);
GCudaGraphMemory *_gcuda_graph_memory_ref (GCudaGraphMemory *self);
void _gcuda_graph_memory_unref (GCudaGraphMemory *self);
/* No more is allocated in the capture. */
void _gcuda_graph_memory_end_capture (GCudaGraphMemory *self);
/* The capture will end, and nothing comes of it: what was allocated in it never is there. */
void _gcuda_graph_memory_abandon (GCudaGraphMemory *self);

/* An allocation node has these addresses. @self is NULL for a graph of others, captured under @capture. */
void _gcuda_graph_memory_add (GCudaGraphMemory *self,
                              cuuint64_t capture,
                              CUdeviceptr address,
                              gsize size);
/* The memory of the library's own capture; NULL if it isn't one. With a reference. */
GCudaGraphMemory *_gcuda_graph_memory_find (cuuint64_t capture);

/* Whether the graph has allocation nodes. */
gboolean _gcuda_graph_memory_is_used (GCudaGraphMemory *self);
/* Whether an allocation node of that graph has this address, and whether it has memory around it. */
gboolean _gcuda_graph_memory_owns (GCudaGraphMemory *self,
                                   CUdeviceptr address);
gboolean _gcuda_graph_memory_contains (GCudaGraphMemory *self,
                                       CUdeviceptr address);
/* Whether the address lies in memory of the graph that is captured under this id. */
gboolean _gcuda_graph_memory_is_of_capture (CUdeviceptr address,
                                            cuuint64_t capture);
/* A free node has it now. */
void _gcuda_graph_memory_set_freed (CUdeviceptr address);

/* After a launch into a stream: what has no buffer any more is freed behind it. */
void _gcuda_graph_memory_launched (GCudaGraphMemory *self,
                                   CUstream stream);

/* Held where forks are joined, and where a free node is captured, which has to know of that. */
void _gcuda_graph_joins_lock (void);
void _gcuda_graph_joins_unlock (void);

/* Releases an address, in a teardown: by a free node, a free on the stream, or not at all, as it is due. @stream is the handle of
 * @box, as it is for the recipe. */
CUresult _gcuda_graph_memory_release (CUdeviceptr address,
                                      GCudaStreamBox *box,
                                      CUstream stream);
/* The same, where the stream's context is gone. */
CUresult _gcuda_graph_memory_release_gone (CUdeviceptr address);

G_END_DECLS
