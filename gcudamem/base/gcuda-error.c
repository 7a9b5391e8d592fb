/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-error-private.h"

/**
 * gcuda_error_quark:
 *
 * The quark of the `GCUDA_ERROR` domain. Any thread.
 *
 * Returns: the quark
 *
 * Since: 0.1
 */
/* The first word is text. */
/* clang-format off */
G_DEFINE_QUARK (gcuda-error-quark, gcuda_error)
/* clang-format on */

gboolean
_gcuda_fail (GError **error,
             GCudaError code,
             const char *format,
             ...)
{
  va_list args;

  if (error == NULL)
    return FALSE;
  va_start (args, format);
  g_propagate_error (error, g_error_new_valist (GCUDA_ERROR, code, format, args));
  va_end (args);
  return FALSE;
}
