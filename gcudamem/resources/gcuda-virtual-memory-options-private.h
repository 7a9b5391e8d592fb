/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/resources/gcuda-virtual-memory-options.h>

G_BEGIN_DECLS

typedef struct
{
  GCudaDevice *device;
  GCudaMemoryAccess access;
} GCudaVirtualPeer;

struct _GCudaVirtualMemoryOptions
{
  GCudaMemoryLocation location;
  int node;
  guint64 max_size;
  guint64 chunk_size;
  guint64 alignment;
  GCudaHandleTypes handle_types;
  GCudaMemoryAccess access;
  gboolean gpu_direct_rdma;
  guint64 cache_size;
  GArray *peers;      /* GCudaVirtualPeer */
  GPtrArray *devices; /* GCudaDevice: where the chunks are; empty: on the resource's */
  GCudaMemoryPlacement placement;
};

G_END_DECLS
