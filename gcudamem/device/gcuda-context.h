/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/device/gcuda-device.h>

G_BEGIN_DECLS

#define GCUDA_TYPE_CONTEXT (gcuda_context_get_type ())

GCUDA_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GCudaContext, gcuda_context, GCUDA, CONTEXT, GObject)

/**
 * GCudaContextFlags:
 * @GCUDA_CONTEXT_FLAGS_NONE: the driver chooses how a thread waits
 * @GCUDA_CONTEXT_FLAGS_SPIN: a waiting thread spins
 * @GCUDA_CONTEXT_FLAGS_YIELD: a waiting thread yields
 * @GCUDA_CONTEXT_FLAGS_BLOCKING_SYNC: a waiting thread sleeps
 *
 * How threads wait for work of a private context; one at most.
 *
 * Since: 0.1
 */
typedef enum /*< flags >*/
{
  GCUDA_CONTEXT_FLAGS_NONE = 0,
  GCUDA_CONTEXT_FLAGS_SPIN = 1 << 0,
  GCUDA_CONTEXT_FLAGS_YIELD = 1 << 1,
  GCUDA_CONTEXT_FLAGS_BLOCKING_SYNC = 1 << 2,
} GCudaContextFlags;

GCUDA_AVAILABLE_IN_0_1
GCudaContext *gcuda_context_new (GCudaDevice *device,
                                 GCudaContextFlags flags,
                                 GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaContext *gcuda_context_new_for_handle (guint64 handle,
                                            GObject *owner,
                                            GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_context_close (GCudaContext *self,
                              GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_context_is_closed (GCudaContext *self);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_context_is_primary (GCudaContext *self);

GCUDA_AVAILABLE_IN_0_1
GCudaDevice *gcuda_context_get_device (GCudaContext *self);

GCUDA_AVAILABLE_IN_0_1
guint64 gcuda_context_get_handle (GCudaContext *self);

GCUDA_AVAILABLE_IN_0_1
guint64 gcuda_context_get_id (GCudaContext *self);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_context_synchronize (GCudaContext *self,
                                    GError **error);

G_END_DECLS
