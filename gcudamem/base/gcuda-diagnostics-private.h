/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>
#include <gcudamem/base/gcuda-diagnostics.h>

G_BEGIN_DECLS

typedef enum
{
  GCUDA_DEBUG_DRIVER = 1 << 0,
  GCUDA_DEBUG_ALLOC = 1 << 1,
  GCUDA_DEBUG_RECIPE = 1 << 2,
  GCUDA_DEBUG_RECLAIM = 1 << 3,
  GCUDA_DEBUG_VMM = 1 << 4,
} GCudaDebugFlags;

GCudaDebugFlags _gcuda_debug_flags (void);

#define GCUDA_NOTE(flag, ...)                                    \
  G_STMT_START                                                   \
  {                                                              \
    if (G_UNLIKELY (_gcuda_debug_flags () & GCUDA_DEBUG_##flag)) \
      g_debug (__VA_ARGS__);                                     \
  }                                                              \
  G_STMT_END

/* The one channel for failures that nobody can be given: a structured warning and the program's handler, if any. */
void _gcuda_report_teardown (const GError *error,
                             const char *driver_call,
                             guint64 handle,
                             guint64 leaked);

/* Runs @func in @context, or in the default one, always from its loop and never inline; @destroy too, right after. */
void _gcuda_post (GMainContext *context,
                  GSourceFunc func,
                  gpointer data,
                  GDestroyNotify destroy);

G_END_DECLS
