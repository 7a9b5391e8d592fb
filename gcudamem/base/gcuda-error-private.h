/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/base/gcuda-error.h>

G_BEGIN_DECLS

/* Sets an error of the library's own; returns FALSE, so that a check can end with it. */
gboolean _gcuda_fail (GError **error,
                      GCudaError code,
                      const char *format,
                      ...) G_GNUC_PRINTF (3, 4);

G_END_DECLS
