/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/memory/gcuda-memory-resource.h>

#include "stream/gcuda-stream-private.h"

G_BEGIN_DECLS

/* What every address of the library's own resources is aligned to: the driver promises at least this. */
#define GCUDA_ALIGNMENT 256

typedef struct _GCudaResourceOperations GCudaResourceOperations;

/*
 * What the library's own resources are made of, in place of the vfuncs: plain driver calls without objects, which can run
 * on any thread and in a teardown.
 */
struct _GCudaResourceOperations
{
  /* For a class whose objects are not all the same: those of this one. NULL: these. */
  const GCudaResourceOperations *(*select) (GCudaMemoryResource *self);
  /* Whether the driver frees in stream order. If not, the reclaimer waits for the stream first. */
  gboolean stream_ordered;
  /* Of what is built on several, whether one of them does: freeing is a call on the stream then, which a capture may forbid. */
  gboolean frees_on_stream;
  /* Whether an allocation may lie in several pieces of memory. */
  gboolean spans;
  const char *free_call; /* for reports */
  /* CLOSED for an object that was not opened; the text is what an error message says it is. */
  gboolean (*check) (GCudaMemoryResource *self,
                     GError **error);
  char *(*describe) (GCudaMemoryResource *self);
  CUresult (*allocate) (GCudaMemoryResource *self,
                        gsize size,
                        GCudaStreamCall *call,
                        CUdeviceptr *address);
  CUresult (*deallocate) (GCudaMemoryResource *self,
                          GCudaStreamBox *box,
                          CUdeviceptr address,
                          gsize size,
                          CUstream handle);
  /* Whether it can allocate on the stream of a call that has begun; NULL: on any that is not being captured. */
  gboolean (*accept) (GCudaMemoryResource *self,
                      GCudaStreamCall *call,
                      const char *what,
                      GError **error);
  /* For memory of graphs: whether the memory belongs to the graph that is captured under this id, which then need not keep it;
   * and why a use of it may fail. Both NULL for other memory. */
  gboolean (*is_of_capture) (GCudaMemoryResource *self,
                             CUdeviceptr address,
                             cuuint64_t capture);
  const char *use_hint;
  /* The context of the recipe's stream is gone. */
  CUresult (*deallocate_gone) (GCudaMemoryResource *self,
                               CUdeviceptr address,
                               gsize size);
  /* What addresses are aligned to at least; 0: GCUDA_ALIGNMENT. */
  gsize alignment;
  /* Whether it is memory of the host: a copy leaves it to the driver to find that out by the address. */
  gboolean on_host;
  /* Of that, whether other devices than its own copy it in stream order as well. */
  gboolean portable;
  /* Of one buffer, which asks for it: not told to the program, as foreign memory's is not. */
  gboolean internal;
  /* Whether there is memory in all of a part of an allocation; NULL: TRUE. */
  gboolean (*has_memory) (GCudaMemoryResource *self,
                          CUdeviceptr base,
                          gsize offset,
                          gsize size);
  /* Whether nothing may write the memory; NULL: FALSE. */
  gboolean (*is_read_only) (GCudaMemoryResource *self);
};

static inline const GCudaResourceOperations *
_gcuda_memory_resource_operations (GCudaMemoryResource *self)
{
  const GCudaResourceOperations *operations = GCUDA_MEMORY_RESOURCE_GET_CLASS (self)->operations;

  return operations == NULL || operations->select == NULL ? operations : operations->select (self);
}

/* Set by the class of graph memory: whether it has given the address, in the capture of this id. Memory of a program's resource
 * may come from there. NULL where there is no graph memory. */
extern gboolean (*_gcuda_memory_is_of_capture) (CUdeviceptr address,
                                                cuuint64_t capture);

/* CLOSED for one of the library's own that is not open, and what else forbids its use. A program's is always open. */
gboolean _gcuda_memory_resource_check (GCudaMemoryResource *self,
                                       const char *what,
                                       GError **error);

/* gcuda_memory_resource_get_device () of what is a memory resource for certain. */
GCudaDevice *_gcuda_memory_resource_peek_device (GCudaMemoryResource *self);

/* For the resource of a program's own: the thread and main context that it is bound to; NULL if it is not bound. */
GCudaHome *_gcuda_memory_resource_get_home (GCudaMemoryResource *self);

/* For what is built on another resource, when it is made: bound to the calling thread; bound as the other, if it is not yet;
 * on the same device, and accessible as that. */
void _gcuda_memory_resource_bind (GCudaMemoryResource *self);
void _gcuda_memory_resource_share_home (GCudaMemoryResource *self,
                                        GCudaMemoryResource *other);
void _gcuda_memory_resource_take_after (GCudaMemoryResource *self,
                                        GCudaMemoryResource *other);

/* Whether memory of this resource may be freed while the recipe's stream still works on it. */
gboolean _gcuda_memory_resource_frees_in_order (GCudaMemoryResource *self);

G_END_DECLS
