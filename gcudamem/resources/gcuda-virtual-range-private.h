/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/resources/gcuda-virtual-memory-options.h>

#include "memory/gcuda-allocation-private.h"

G_BEGIN_DECLS

/*
 * Virtual memory, below the resource. A chunk is physical memory, released with its last reference. A range is what an
 * allocation has: reservations of addresses, one right behind the other and each freed by itself, and mappings of chunks in
 * them. Its references are the allocation's, and that of each cut: a part that goes when a stream has passed. The last
 * reference gives back what is left. A space is what the ranges of a resource share.
 *
 * A range is changed by one call at a time, between begin and end; no lock is held meanwhile. Offsets and sizes are
 * multiples of the granularity.
 */
typedef struct
{
  GCudaReclaimNode node;
  gint refs;
  GCudaContextBox *context; /* the device's primary context, with a use */

  /* How memory is made; these stay. */
  CUmemAllocationProp properties; /* but for the location */
  GArray *places;                 /* CUmemLocation */
  GCudaMemoryPlacement placement;
  gsize granularity;
  gsize max_size;
  gsize alignment;
  gsize cache_size;
  gboolean units; /* each chunk has the size of the granularity */

  GMutex lock; /* of all that follows, and of the ranges; no driver call under it */
  GCond changed;
  GHashTable *ranges; /* by address */
  GArray *access;     /* CUmemAccessDesc, of ranges to come */
  guint generation;   /* of that */
  gboolean setting;   /* a call sets the rights of all ranges */
  guint64 last_id;
  GQueue idle;        /* chunks, the oldest first */
  GQueue idle_ranges; /* with their memory mapped, the oldest first */
  gsize idle_size;    /* of both */
} GCudaVirtualSpace;

typedef struct _GCudaVirtualRange GCudaVirtualRange;

/* Takes the use of @context over; what stays is then filled in by the caller. */
GCudaVirtualSpace *_gcuda_virtual_space_new (GCudaContextBox *context);
void _gcuda_virtual_space_unref (GCudaVirtualSpace *self);

/* Sets the rights of one place in a list; what is not listed has none. */
void _gcuda_virtual_access_put (GArray *list,
                                const CUmemAccessDesc *access);

/* @size of addresses, and what max_size asks for; with memory in all of @size, or none. */
CUresult _gcuda_virtual_space_allocate (GCudaVirtualSpace *self,
                                        gsize size,
                                        gboolean fill,
                                        CUdeviceptr *address);

/* Gives an allocation back. After a failure it is still there. */
CUresult _gcuda_virtual_space_free (GCudaVirtualSpace *self,
                                    CUdeviceptr address);

/* Sets the rights of all ranges, and of those to come. */
CUresult _gcuda_virtual_space_set_access (GCudaVirtualSpace *self,
                                          const CUmemAccessDesc *access);

/* Releases memory that is not in use, down to @keep bytes. */
CUresult _gcuda_virtual_space_trim (GCudaVirtualSpace *self,
                                    gsize keep);

/* The range of an allocation, for the caller alone; NULL if it has none, or if another call has it: then wait for that one's
 * end, and ask again. */
GCudaVirtualRange *_gcuda_virtual_range_begin (GCudaVirtualSpace *space,
                                               GCudaAllocation *allocation,
                                               gboolean *busy);
void _gcuda_virtual_space_wait (GCudaVirtualSpace *self,
                                CUdeviceptr address);
void _gcuda_virtual_range_end (GCudaVirtualRange *self);

CUdeviceptr _gcuda_virtual_range_get_address (GCudaVirtualRange *self);
gsize _gcuda_virtual_range_get_reserved (GCudaVirtualRange *self);
/* How much memory it has; any thread. */
gsize _gcuda_virtual_range_get_mapped (GCudaVirtualSpace *space,
                                       GCudaAllocation *allocation);

/* Whether all of [@from, @to) of the range that begins at @base has memory; any thread. */
gboolean _gcuda_virtual_range_covers (GCudaVirtualSpace *space,
                                      CUdeviceptr base,
                                      gsize from,
                                      gsize to);

/* Puts memory into all of [@from, @to) that has none. What waits to be unmapped there is taken back first. */
CUresult _gcuda_virtual_range_fill (GCudaVirtualRange *self,
                                    gsize from,
                                    gsize to,
                                    gboolean units);

/* Asks for the addresses right behind, up to @size in all. @granted: they are there. Retract gives them back. */
CUresult _gcuda_virtual_range_extend (GCudaVirtualRange *self,
                                      gsize size,
                                      gboolean *granted);
void _gcuda_virtual_range_retract (GCudaVirtualRange *self);

/* Another range with the same chunks, and memory in [@from, @to) as well; it has begun. Then one of the two is dropped, or
 * the first retired: unmapped when @box, whose use is taken over, has passed. */
CUresult _gcuda_virtual_range_move (GCudaVirtualRange *self,
                                    gsize from,
                                    gsize to,
                                    GCudaVirtualRange **moved);
void _gcuda_virtual_range_drop (GCudaVirtualRange *self);
void _gcuda_virtual_range_retire (GCudaVirtualRange *self,
                                  GCudaStreamBox *box);

/* How many chunks lie in [@from, @to) whole. FALSE if a border cuts through one: @begin and @end are that one's. */
gboolean _gcuda_virtual_range_count (GCudaVirtualRange *self,
                                     gsize from,
                                     gsize to,
                                     guint *count,
                                     gsize *begin,
                                     gsize *end);
/* Unmaps the chunks that lie in [@from, @to) whole, when @box, whose use is taken over, has passed. */
void _gcuda_virtual_range_cut (GCudaVirtualRange *self,
                               gsize from,
                               gsize to,
                               GCudaStreamBox *box);

CUresult _gcuda_virtual_range_set_access (GCudaVirtualRange *self,
                                          const CUmemAccessDesc *access);

G_END_DECLS
