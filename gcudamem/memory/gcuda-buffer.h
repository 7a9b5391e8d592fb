/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/memory/gcuda-memory-resource.h>

G_BEGIN_DECLS

/**
 * GCudaAccessFlags:
 * @GCUDA_ACCESS_FLAGS_NONE: nothing
 * @GCUDA_ACCESS_FLAGS_READ: the memory is read
 * @GCUDA_ACCESS_FLAGS_WRITE: the memory is written
 *
 * What work does to memory.
 *
 * Since: 0.1
 */
typedef enum /*< flags >*/
{
  GCUDA_ACCESS_FLAGS_NONE = 0,
  GCUDA_ACCESS_FLAGS_READ = 1 << 0,
  GCUDA_ACCESS_FLAGS_WRITE = 1 << 1,
} GCudaAccessFlags;

#define GCUDA_TYPE_BUFFER (gcuda_buffer_get_type ())

GCUDA_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GCudaBuffer, gcuda_buffer, GCUDA, BUFFER, GObject)

GCUDA_AVAILABLE_IN_0_1
GCudaBuffer *gcuda_buffer_new_for_address (GCudaDevice *device,
                                           guint64 address,
                                           guint64 size,
                                           GObject *owner,
                                           GCudaStream *stream,
                                           GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaBuffer *gcuda_buffer_new_view (GCudaBuffer *buffer,
                                    guint64 offset,
                                    guint64 size,
                                    GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_buffer_close (GCudaBuffer *self,
                             GCudaStream *stream,
                             GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_buffer_set_deallocation_stream (GCudaBuffer *self,
                                               GCudaStream *stream,
                                               GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_buffer_is_closed (GCudaBuffer *self);

GCUDA_AVAILABLE_IN_0_1
guint64 gcuda_buffer_get_size (GCudaBuffer *self);

GCUDA_AVAILABLE_IN_0_1
guint64 gcuda_buffer_get_address (GCudaBuffer *self);

GCUDA_AVAILABLE_IN_0_1
GCudaDevice *gcuda_buffer_get_device (GCudaBuffer *self);

GCUDA_AVAILABLE_IN_0_1
GCudaMemoryResource *gcuda_buffer_get_resource (GCudaBuffer *self);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_buffer_is_device_accessible (GCudaBuffer *self);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_buffer_is_host_accessible (GCudaBuffer *self);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_buffer_is_read_only (GCudaBuffer *self);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_buffer_fill (GCudaBuffer *self,
                            guint64 value,
                            guint width,
                            GCudaStream *stream,
                            GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_buffer_fill_range (GCudaBuffer *self,
                                  guint64 offset,
                                  guint64 size,
                                  guint64 value,
                                  guint width,
                                  GCudaStream *stream,
                                  GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_buffer_fill_2d (GCudaBuffer *self,
                               guint64 offset,
                               guint64 pitch,
                               guint64 columns,
                               guint64 rows,
                               guint64 value,
                               guint width,
                               GCudaStream *stream,
                               GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_buffer_upload (GCudaBuffer *self,
                              guint64 offset,
                              GBytes *bytes,
                              GCudaStream *stream,
                              GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_buffer_upload_data (GCudaBuffer *self,
                                   guint64 offset,
                                   const guint8 *data,
                                   gsize length,
                                   GCudaStream *stream,
                                   GError **error);

GCUDA_AVAILABLE_IN_0_1
GBytes *gcuda_buffer_download (GCudaBuffer *self,
                               guint64 offset,
                               guint64 size,
                               GCudaStream *stream,
                               GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_buffer_download_into (GCudaBuffer *self,
                                     guint64 offset,
                                     gpointer data,
                                     gsize length,
                                     GCudaStream *stream,
                                     GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_stream_declare_access (GCudaStream *self,
                                      GCudaBuffer *buffer,
                                      guint64 offset,
                                      guint64 size,
                                      GCudaAccessFlags access,
                                      GError **error);

G_END_DECLS
