/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gcuda-memory-resource-private.h"

G_BEGIN_DECLS

/*
 * An allocation: what a buffer, its views, and all else that shares the memory hold. Two counts: references keep the
 * struct; holders keep the memory, and together one reference. The last holder applies the deallocation recipe, which lives here so that each holder
 * sees a replacement: the stream, and for a per-thread default stream whose.
 */
typedef struct _GCudaAllocation GCudaAllocation;

/* Each with a reference and a hold, for the caller. They take the use of @box over. */
GCudaAllocation *_gcuda_allocation_new (GCudaMemoryResource *resource,
                                        CUdeviceptr address,
                                        gsize size,
                                        gboolean frees_in_order,
                                        GCudaStreamBox *box);
GCudaAllocation *_gcuda_allocation_new_foreign (GCudaDevice *device,
                                                CUdeviceptr address,
                                                gsize size,
                                                GObject *owner,
                                                GCudaStreamBox *box);

GCudaAllocation *_gcuda_allocation_ref (GCudaAllocation *self);
void _gcuda_allocation_unref (GCudaAllocation *self);

/* FALSE when the memory was released. */
gboolean _gcuda_allocation_hold (GCudaAllocation *self);
void _gcuda_allocation_unhold (GCudaAllocation *self);

CUdeviceptr _gcuda_allocation_get_address (GCudaAllocation *self);
gsize _gcuda_allocation_get_size (GCudaAllocation *self);
GCudaMemoryResource *_gcuda_allocation_get_resource (GCudaAllocation *self);
GCudaDevice *_gcuda_allocation_get_device (GCudaAllocation *self);

/* Whether it is memory of the host, which no copy may name as a device's. */
gboolean _gcuda_allocation_is_on_host (GCudaAllocation *self);

/* FALSE, with an error, for memory of the host that no other device may copy. */
gboolean _gcuda_allocation_check_portable (GCudaAllocation *self,
                                           const char *what,
                                           GError **error);

/* FALSE, with an error, for memory that nothing may write. */
gboolean _gcuda_allocation_check_writable (GCudaAllocation *self,
                                           const char *what,
                                           GError **error);

/* Whether it may lie in several pieces of memory, side by side. A driver copies across their borders only for a thread that
 * has a context. */
gboolean _gcuda_allocation_spans (GCudaAllocation *self);

/*
 * For a resource that moves or shrinks memory which it handed out. Shared: there is not one holder beside the caller. A change begins only if nothing does; until it ends, which is soon and without a driver call in between, whoever
 * wants to hold the memory waits.
 */
gboolean _gcuda_allocation_is_shared (GCudaAllocation *self);
gboolean _gcuda_allocation_begin_change (GCudaAllocation *self);
void _gcuda_allocation_end_change (GCudaAllocation *self,
                                   CUdeviceptr address,
                                   gsize size);
void _gcuda_allocation_grow (GCudaAllocation *self,
                             gsize size);

/* Replaces the recipe by @box, whose use is taken over on success, and the calling thread. */
gboolean _gcuda_allocation_set_stream (GCudaAllocation *self,
                                       GCudaStreamBox *box,
                                       GError **error);

/* Makes sure that memory of @resource can be released later on the stream, whatever happens. */
gboolean _gcuda_allocation_reserve (GCudaStreamBox *box,
                                    gboolean frees_in_order,
                                    GError **error);

/* After OUT_OF_MEMORY: waits for memory that is about to be freed. FALSE: there is none, do not ask again. */
gboolean _gcuda_reclaim_memory (void);

/* Allocates for a resource of any kind, on @stream, whose box is in use by the caller; frees what waits to be freed and tries again where memory is out. */
gboolean _gcuda_allocate (GCudaMemoryResource *resource,
                          gsize size,
                          gsize alignment,
                          GCudaStream *stream,
                          GCudaStreamBox *box,
                          CUdeviceptr *address,
                          GError **error);

/* The one place that gives an address back to its resource: the library's own are told the handle, a program's @stream. */
CUresult _gcuda_free_address (GCudaMemoryResource *resource,
                              CUdeviceptr address,
                              gsize size,
                              gsize alignment,
                              GCudaStreamBox *box,
                              CUstream handle,
                              GCudaStream *stream);

/*
 * Begins a call whose work touches memory, of one allocation or two, which the caller holds: if the stream is being captured,
 * the graph holds them too. Only a stream that others know of can be, and only then does this cost more than the plain call.
 */
gboolean _gcuda_stream_call_begin_on (GCudaStreamCall *call,
                                      GCudaStream *stream,
                                      GCudaAllocation *first,
                                      GCudaAllocation *second,
                                      const char *what,
                                      GError **error);
/* For an error that is a better one, of work that can't be captured. */
void _gcuda_stream_call_touch (GCudaStreamCall *call,
                               GCudaAllocation *first,
                               GCudaAllocation *second);
/* For more of them, between that and the work. */
gboolean _gcuda_stream_call_keep_allocation (GCudaStreamCall *call,
                                             GCudaAllocation *allocation,
                                             const char *what,
                                             GError **error);

G_END_DECLS
