/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-thread-bound-memory-resource.h"

#include "gcuda-memory-resource-adaptor-private.h"

/**
 * GCudaThreadBoundMemoryResource:
 *
 * An adaptor that reaches upstream on one thread only: that which made it.
 *
 * Allocating on another thread is refused. Memory that is released on another one is given back by the main loop of this
 * thread, or by the next call on this thread that allocates from it, closes one of its buffers, or is [func@reclaim]: as
 * with a resource that a script writes. It is for upstreams whose class says that it is thread-safe, but that are better
 * left to one thread, and to try how a program does with a scripted resource.
 *
 * Since: 0.1
 */
G_DEFINE_TYPE (GCudaThreadBoundMemoryResource, gcuda_thread_bound_memory_resource, GCUDA_TYPE_MEMORY_RESOURCE_ADAPTOR)

static const GCudaAdaptorHooks hooks = { .bound = TRUE };

static void
gcuda_thread_bound_memory_resource_class_init (GCudaThreadBoundMemoryResourceClass *klass)
{
  GCUDA_MEMORY_RESOURCE_ADAPTOR_CLASS (klass)->hooks = &hooks;
}

static void
gcuda_thread_bound_memory_resource_init (GCudaThreadBoundMemoryResource *self)
{
}

/**
 * gcuda_thread_bound_memory_resource_new:
 * @upstream: where the memory comes from
 *
 * Makes an adaptor that belongs to the calling thread, and to its thread-default main context.
 *
 * Returns: (transfer full): a new memory resource
 *
 * Since: 0.1
 */
GCudaThreadBoundMemoryResource *
gcuda_thread_bound_memory_resource_new (GCudaMemoryResource *upstream)
{
  g_return_val_if_fail (GCUDA_IS_MEMORY_RESOURCE (upstream), NULL);

  return g_object_new (GCUDA_TYPE_THREAD_BOUND_MEMORY_RESOURCE, "upstream", upstream, NULL);
}
