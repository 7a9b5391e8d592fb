/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The driver's own types, for C programs that call the driver as well. It needs cuda.h, and is not introspected. */

#include <cuda.h>
#include <gcudamem/gcudamem.h>

G_BEGIN_DECLS

/* The context's handle; NULL when closed. */
static inline CUcontext
gcuda_context_get_cuda_context (GCudaContext *self)
{
  return (CUcontext) (guintptr) gcuda_context_get_handle (self);
}

/* The stream's handle; NULL when closed, which the driver would take for the default stream: check. */
static inline CUstream
gcuda_stream_get_cuda_stream (GCudaStream *self)
{
  return (CUstream) (guintptr) gcuda_stream_get_handle (self);
}

/* The event's handle; NULL when closed. */
static inline CUevent
gcuda_event_get_cuda_event (GCudaEvent *self)
{
  return (CUevent) (guintptr) gcuda_event_get_handle (self);
}

/* The memory's address; 0 when closed or empty. */
static inline CUdeviceptr
gcuda_buffer_get_cuda_pointer (GCudaBuffer *self)
{
  return (CUdeviceptr) gcuda_buffer_get_address (self);
}

/* The graph's handle; NULL when closed. */
static inline CUgraph
gcuda_graph_definition_get_cuda_graph (GCudaGraphDefinition *self)
{
  return (CUgraph) (guintptr) gcuda_graph_definition_get_handle (self);
}

/* The executable graph's handle; NULL when closed. */
static inline CUgraphExec
gcuda_graph_get_cuda_graph_exec (GCudaGraph *self)
{
  return (CUgraphExec) (guintptr) gcuda_graph_get_handle (self);
}

/* The node's handle; NULL for an object made by bare new. */
static inline CUgraphNode
gcuda_graph_node_get_cuda_node (GCudaGraphNode *self)
{
  return (CUgraphNode) (guintptr) gcuda_graph_node_get_handle (self);
}

/* The pool's handle; NULL for an object made by bare new. */
static inline CUmemoryPool
gcuda_device_memory_resource_get_cuda_pool (GCudaDeviceMemoryResource *self)
{
  return (CUmemoryPool) (guintptr) gcuda_device_memory_resource_get_handle (self);
}

/* The pool's handle; NULL where there is no pool. */
static inline CUmemoryPool
gcuda_pinned_memory_resource_get_cuda_pool (GCudaPinnedMemoryResource *self)
{
  return (CUmemoryPool) (guintptr) gcuda_pinned_memory_resource_get_handle (self);
}

/* The pool's handle; NULL where there is no pool. */
static inline CUmemoryPool
gcuda_managed_memory_resource_get_cuda_pool (GCudaManagedMemoryResource *self)
{
  return (CUmemoryPool) (guintptr) gcuda_managed_memory_resource_get_handle (self);
}

G_END_DECLS
