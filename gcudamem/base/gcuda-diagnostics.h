/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/base/gcuda-macros.h>

G_BEGIN_DECLS

/**
 * GCudaTeardownFunc:
 * @error: what the driver answered
 * @driver_call: the driver function that failed
 * @handle: the address or handle that it was called on
 * @leaked: bytes that could not be freed
 * @user_data: data of the handler
 *
 * Told about a release that failed where nobody could be given an error: a last reference dropped by a garbage
 * collector, or by the thread that frees memory in the background.
 *
 * It runs in the main context that was the thread-default one where the handler was set.
 *
 * Since: 0.1
 */
typedef void (*GCudaTeardownFunc) (const GError *error,
                                   const char *driver_call,
                                   guint64 handle,
                                   guint64 leaked,
                                   gpointer user_data);

GCUDA_AVAILABLE_IN_0_1
void gcuda_set_teardown_handler (GCudaTeardownFunc handler,
                                 gpointer user_data,
                                 GDestroyNotify destroy);

G_END_DECLS
