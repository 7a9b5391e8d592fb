/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/memory/gcuda-location.h>
#include <gcudamem/resources/gcuda-device-memory-resource.h>

G_BEGIN_DECLS

/**
 * GCudaMemoryAccess:
 * @GCUDA_MEMORY_ACCESS_NONE: none
 * @GCUDA_MEMORY_ACCESS_READ: reading
 * @GCUDA_MEMORY_ACCESS_READ_WRITE: reading and writing
 *
 * What a device may do to memory.
 *
 * Since: 0.1
 */
typedef enum
{
  GCUDA_MEMORY_ACCESS_NONE,
  GCUDA_MEMORY_ACCESS_READ,
  GCUDA_MEMORY_ACCESS_READ_WRITE,
} GCudaMemoryAccess;

/**
 * GCudaMemoryPlacement:
 * @GCUDA_MEMORY_PLACEMENT_BLOCKED: each device has one part, in the order of the devices
 * @GCUDA_MEMORY_PLACEMENT_ROUND_ROBIN: the devices take turns, chunk by chunk
 *
 * How memory is spread over several devices.
 *
 * Since: 0.1
 */
typedef enum
{
  GCUDA_MEMORY_PLACEMENT_BLOCKED,
  GCUDA_MEMORY_PLACEMENT_ROUND_ROBIN,
} GCudaMemoryPlacement;

typedef struct _GCudaVirtualMemoryOptions GCudaVirtualMemoryOptions;

#define GCUDA_TYPE_VIRTUAL_MEMORY_OPTIONS (gcuda_virtual_memory_options_get_type ())

GCUDA_AVAILABLE_IN_0_1
GType gcuda_virtual_memory_options_get_type (void);

GCUDA_AVAILABLE_IN_0_1
GCudaVirtualMemoryOptions *gcuda_virtual_memory_options_new (void);

GCUDA_AVAILABLE_IN_0_1
GCudaVirtualMemoryOptions *gcuda_virtual_memory_options_copy (const GCudaVirtualMemoryOptions *self);

GCUDA_AVAILABLE_IN_0_1
void gcuda_virtual_memory_options_free (GCudaVirtualMemoryOptions *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GCudaVirtualMemoryOptions, gcuda_virtual_memory_options_free)

GCUDA_AVAILABLE_IN_0_1
void gcuda_virtual_memory_options_set_location (GCudaVirtualMemoryOptions *self,
                                                GCudaMemoryLocation location,
                                                int node);

GCUDA_AVAILABLE_IN_0_1
void gcuda_virtual_memory_options_set_max_size (GCudaVirtualMemoryOptions *self,
                                                guint64 max_size);

GCUDA_AVAILABLE_IN_0_1
void gcuda_virtual_memory_options_set_chunk_size (GCudaVirtualMemoryOptions *self,
                                                  guint64 chunk_size);

GCUDA_AVAILABLE_IN_0_1
void gcuda_virtual_memory_options_set_alignment (GCudaVirtualMemoryOptions *self,
                                                 guint64 alignment);

GCUDA_AVAILABLE_IN_0_1
void gcuda_virtual_memory_options_set_handle_types (GCudaVirtualMemoryOptions *self,
                                                    GCudaHandleTypes handle_types);

GCUDA_AVAILABLE_IN_0_1
void gcuda_virtual_memory_options_set_access (GCudaVirtualMemoryOptions *self,
                                              GCudaMemoryAccess access);

GCUDA_AVAILABLE_IN_0_1
void gcuda_virtual_memory_options_add_peer (GCudaVirtualMemoryOptions *self,
                                            GCudaDevice *peer,
                                            GCudaMemoryAccess access);

GCUDA_AVAILABLE_IN_0_1
void gcuda_virtual_memory_options_set_placement (GCudaVirtualMemoryOptions *self,
                                                 GCudaDevice **devices,
                                                 gsize n_devices,
                                                 GCudaMemoryPlacement placement);

GCUDA_AVAILABLE_IN_0_1
void gcuda_virtual_memory_options_set_gpu_direct_rdma (GCudaVirtualMemoryOptions *self,
                                                       gboolean gpu_direct_rdma);

GCUDA_AVAILABLE_IN_0_1
void gcuda_virtual_memory_options_set_cache_size (GCudaVirtualMemoryOptions *self,
                                                  guint64 cache_size);

G_END_DECLS
