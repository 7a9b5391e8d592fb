/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/memory/gcuda-buffer.h>

G_BEGIN_DECLS

/**
 * GCudaMapFlags:
 * @GCUDA_MAP_FLAGS_NONE: nothing
 * @GCUDA_MAP_FLAGS_READ: the processor reads the memory
 * @GCUDA_MAP_FLAGS_WRITE: the processor writes the memory
 * @GCUDA_MAP_FLAGS_UNSYNCHRONIZED: nothing is waited for: the program sees to it that no work uses the memory meanwhile
 *
 * What the processor does to memory while it is mapped.
 *
 * Since: 0.1
 */
typedef enum /*< flags >*/
{
  GCUDA_MAP_FLAGS_NONE = 0,
  GCUDA_MAP_FLAGS_READ = 1 << 0,
  GCUDA_MAP_FLAGS_WRITE = 1 << 1,
  GCUDA_MAP_FLAGS_UNSYNCHRONIZED = 1 << 2,
} GCudaMapFlags;

#define GCUDA_TYPE_HOST_MAP (gcuda_host_map_get_type ())

GCUDA_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GCudaHostMap, gcuda_host_map, GCUDA, HOST_MAP, GObject)

GCUDA_AVAILABLE_IN_0_1
GCudaHostMap *gcuda_buffer_map (GCudaBuffer *self,
                                GCudaMapFlags flags,
                                GCudaStream *stream,
                                GError **error);

GCUDA_AVAILABLE_IN_0_1
void gcuda_host_map_unmap (GCudaHostMap *self);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_host_map_is_mapped (GCudaHostMap *self);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_host_map_is_synchronized (GCudaHostMap *self);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_host_map_is_writable (GCudaHostMap *self);

GCUDA_AVAILABLE_IN_0_1
guint64 gcuda_host_map_get_size (GCudaHostMap *self);

GCUDA_AVAILABLE_IN_0_1
guint64 gcuda_host_map_get_address (GCudaHostMap *self);

GCUDA_AVAILABLE_IN_0_1
gpointer gcuda_host_map_get_data (GCudaHostMap *self,
                                  gsize *size);

GCUDA_AVAILABLE_IN_0_1
GBytes *gcuda_host_map_read (GCudaHostMap *self,
                             guint64 offset,
                             guint64 size,
                             GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_host_map_write (GCudaHostMap *self,
                               guint64 offset,
                               const guint8 *data,
                               gsize length,
                               GError **error);

G_END_DECLS
