/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/memory/gcuda-buffer.h>
#include <gcudamem/resources/gcuda-virtual-memory-options.h>

G_BEGIN_DECLS

/**
 * GCudaResizeFlags:
 * @GCUDA_RESIZE_FLAGS_NONE: the address stays
 * @GCUDA_RESIZE_FLAGS_MAY_MOVE: the address may change, where the buffer can't grow in place
 *
 * What a resize may do.
 *
 * Since: 0.1
 */
typedef enum /*< flags >*/
{
  GCUDA_RESIZE_FLAGS_NONE = 0,
  GCUDA_RESIZE_FLAGS_MAY_MOVE = 1 << 0,
} GCudaResizeFlags;

#define GCUDA_TYPE_VIRTUAL_MEMORY_RESOURCE (gcuda_virtual_memory_resource_get_type ())

GCUDA_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GCudaVirtualMemoryResource, gcuda_virtual_memory_resource, GCUDA, VIRTUAL_MEMORY_RESOURCE, GCudaMemoryResource)

GCUDA_AVAILABLE_IN_0_1
GCudaVirtualMemoryResource *gcuda_virtual_memory_resource_new (GCudaDevice *device,
                                                               const GCudaVirtualMemoryOptions *options,
                                                               GError **error);

GCUDA_AVAILABLE_IN_0_1
guint64 gcuda_virtual_memory_resource_get_granularity (GCudaVirtualMemoryResource *self);

GCUDA_AVAILABLE_IN_0_1
guint64 gcuda_virtual_memory_resource_get_capacity (GCudaVirtualMemoryResource *self,
                                                    GCudaBuffer *buffer,
                                                    GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_virtual_memory_resource_resize (GCudaVirtualMemoryResource *self,
                                               GCudaBuffer *buffer,
                                               guint64 new_size,
                                               GCudaResizeFlags flags,
                                               GCudaStream *stream,
                                               GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaBuffer *gcuda_virtual_memory_resource_reserve (GCudaVirtualMemoryResource *self,
                                                    guint64 size,
                                                    GCudaStream *stream,
                                                    GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_virtual_memory_resource_commit (GCudaVirtualMemoryResource *self,
                                               GCudaBuffer *buffer,
                                               guint64 offset,
                                               guint64 size,
                                               GCudaStream *stream,
                                               GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_virtual_memory_resource_decommit (GCudaVirtualMemoryResource *self,
                                                 GCudaBuffer *buffer,
                                                 guint64 offset,
                                                 guint64 size,
                                                 GCudaStream *stream,
                                                 GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_virtual_memory_resource_set_access (GCudaVirtualMemoryResource *self,
                                                   GCudaBuffer *buffer,
                                                   GCudaDevice *device,
                                                   GCudaMemoryAccess access,
                                                   GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_virtual_memory_resource_add_peer (GCudaVirtualMemoryResource *self,
                                                 GCudaDevice *peer,
                                                 GCudaMemoryAccess access,
                                                 GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_virtual_memory_resource_trim (GCudaVirtualMemoryResource *self,
                                             guint64 keep,
                                             GError **error);

G_END_DECLS
