/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/device/gcuda-context.h>

G_BEGIN_DECLS

typedef struct _GCudaEvent GCudaEvent;

#define GCUDA_TYPE_STREAM (gcuda_stream_get_type ())

typedef struct _GCudaStream GCudaStream;
typedef struct _GCudaStreamClass GCudaStreamClass;

GCUDA_AVAILABLE_IN_0_1
GType gcuda_stream_get_type (void) G_GNUC_CONST;

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GCudaStream, g_object_unref)

G_GNUC_UNUSED static inline GCudaStream *
GCUDA_STREAM (gpointer instance)
{
  return G_TYPE_CHECK_INSTANCE_CAST (instance, gcuda_stream_get_type (), GCudaStream);
}

G_GNUC_UNUSED static inline gboolean
GCUDA_IS_STREAM (gpointer instance)
{
  return G_TYPE_CHECK_INSTANCE_TYPE (instance, gcuda_stream_get_type ());
}

/**
 * GCudaStreamFlags:
 * @GCUDA_STREAM_FLAGS_NONE: the stream is not ordered with the legacy default stream (a non-blocking stream)
 * @GCUDA_STREAM_FLAGS_BLOCKING: the stream and the legacy default stream wait for each other
 *
 * How a stream is made.
 *
 * Since: 0.1
 */
typedef enum /*< flags >*/
{
  GCUDA_STREAM_FLAGS_NONE = 0,
  GCUDA_STREAM_FLAGS_BLOCKING = 1 << 0,
} GCudaStreamFlags;

/**
 * GCudaStreamFunc:
 * @user_data: data of the function
 *
 * Called when a stream has reached the point where the function was put.
 *
 * Since: 0.1
 */
typedef void (*GCudaStreamFunc) (gpointer user_data);

GCUDA_AVAILABLE_IN_0_1
GCudaStream *gcuda_stream_new (GCudaContext *context,
                               GCudaStreamFlags flags,
                               int priority,
                               GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaStream *gcuda_stream_new_for_device (GCudaDevice *device,
                                          GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaStream *gcuda_stream_new_for_handle (GCudaContext *context,
                                          guint64 handle,
                                          GObject *owner,
                                          GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaStream *gcuda_stream_new_legacy_default (GCudaContext *context,
                                              GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaStream *gcuda_stream_new_per_thread_default (GCudaContext *context,
                                                  GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_stream_close (GCudaStream *self,
                             GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_stream_is_closed (GCudaStream *self);

GCUDA_AVAILABLE_IN_0_1
GCudaContext *gcuda_stream_get_context (GCudaStream *self);

GCUDA_AVAILABLE_IN_0_1
GCudaDevice *gcuda_stream_get_device (GCudaStream *self);

GCUDA_AVAILABLE_IN_0_1
guint64 gcuda_stream_get_handle (GCudaStream *self);

GCUDA_AVAILABLE_IN_0_1
int gcuda_stream_get_priority (GCudaStream *self);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_stream_is_blocking (GCudaStream *self);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_stream_is_legacy_default (GCudaStream *self);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_stream_is_per_thread_default (GCudaStream *self);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_stream_query (GCudaStream *self,
                             GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_stream_is_capturing (GCudaStream *self,
                                    GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_stream_synchronize (GCudaStream *self,
                                   GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_stream_wait_event (GCudaStream *self,
                                  GCudaEvent *event,
                                  GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_stream_wait_stream (GCudaStream *self,
                                   GCudaStream *other,
                                   GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_stream_launch_host_function (GCudaStream *self,
                                            GCudaStreamFunc func,
                                            gpointer user_data,
                                            GDestroyNotify destroy,
                                            GError **error);

G_END_DECLS
