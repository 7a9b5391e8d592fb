/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/resources/gcuda-pool-statistics.h>

#include "stream/gcuda-stream-private.h"

G_BEGIN_DECLS

/*
 * One of the driver's memory pools, as the resources that have one share it. It outlives its resource for as long as its
 * destruction has to wait.
 */
typedef struct
{
  GCudaReclaimNode node;
  CUmemoryPool handle;
  gboolean owned;
  gint kept;                /* for good */
  GCudaContextBox *context; /* the device's primary context, with a use */
  char *name;               /* what an error message calls it */

  /*
   * An owned pool is destroyed when the streams that its memory was freed on have passed the last free, and have been waited
   * for. Before they passed, a peer may still use the memory, which it is revoked from at once. Before somebody waited, the
   * driver has the frees on the streams' books: another thread that synchronizes such a stream meets the destroyed pool
   * there, and never comes back, or dies.
   */
  GMutex lock;
  GHashTable *streams;     /* of PoolStream by box or context, or NULL */
  guint streams_limit;     /* how many to have before those are looked for that are over */
  gconstpointer recent[8]; /* keys that need not be looked up; read without the lock */
  GArray *peers;           /* CUdevice that were granted access */
  gint pending;            /* streams and frees to be passed, and the resource */
} GCudaMemoryPool;

/* cuMemPoolCreate, which breaks no capture. */
CUresult _gcuda_memory_pool_create (const CUmemPoolProps *properties,
                                    CUmemoryPool *handle);

/* Takes the use of @context over, and of @name; NULL: it is a pool of the device's. */
GCudaMemoryPool *_gcuda_memory_pool_new (CUmemoryPool handle,
                                         gboolean owned,
                                         GCudaContextBox *context,
                                         char *name);
/* After the last reference to the resource. An owned pool is destroyed when all of its memory is back. */
void _gcuda_memory_pool_release (GCudaMemoryPool *self);

char *_gcuda_memory_pool_describe (GCudaMemoryPool *self);

CUresult _gcuda_memory_pool_free (GCudaMemoryPool *self,
                                  GCudaStreamBox *box,
                                  CUdeviceptr address,
                                  CUstream handle);
/* The context of the stream is gone. */
CUresult _gcuda_memory_pool_free_gone (CUdeviceptr address);

CUresult _gcuda_memory_pool_set_access (GCudaMemoryPool *self,
                                        CUdevice device,
                                        gboolean access);

/* Attributes are 64-bit numbers or ints; ints are widened. */
CUresult _gcuda_memory_pool_get_attribute (GCudaMemoryPool *self,
                                           CUmemPool_attribute attribute,
                                           guint64 *value);
CUresult _gcuda_memory_pool_set_attribute (GCudaMemoryPool *self,
                                           CUmemPool_attribute attribute,
                                           guint64 value);

gboolean _gcuda_memory_pool_trim (GCudaMemoryPool *self,
                                  guint64 keep,
                                  GError **error);
GCudaPoolStatistics *_gcuda_memory_pool_get_statistics (GCudaMemoryPool *self,
                                                        GError **error);
gboolean _gcuda_memory_pool_reset_high_marks (GCudaMemoryPool *self,
                                              GError **error);

G_END_DECLS
