/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/stream/gcuda-stream.h>

G_BEGIN_DECLS

#define GCUDA_TYPE_EVENT (gcuda_event_get_type ())

GCUDA_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GCudaEvent, gcuda_event, GCUDA, EVENT, GObject)

/**
 * GCudaEventFlags:
 * @GCUDA_EVENT_FLAGS_NONE: an event for ordering only, the cheapest kind
 * @GCUDA_EVENT_FLAGS_TIMING: the event keeps the time at which it was reached
 * @GCUDA_EVENT_FLAGS_BLOCKING_SYNC: a thread that waits for the event sleeps instead of spinning
 *
 * How an event is made.
 *
 * Since: 0.1
 */
typedef enum /*< flags >*/
{
  GCUDA_EVENT_FLAGS_NONE = 0,
  GCUDA_EVENT_FLAGS_TIMING = 1 << 0,
  GCUDA_EVENT_FLAGS_BLOCKING_SYNC = 1 << 1,
} GCudaEventFlags;

GCUDA_AVAILABLE_IN_0_1
GCudaEvent *gcuda_event_new (GCudaContext *context,
                             GCudaEventFlags flags,
                             GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaEvent *gcuda_event_new_for_device (GCudaDevice *device,
                                        GCudaEventFlags flags,
                                        GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_event_close (GCudaEvent *self,
                            GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_event_is_closed (GCudaEvent *self);

GCUDA_AVAILABLE_IN_0_1
GCudaContext *gcuda_event_get_context (GCudaEvent *self);

GCUDA_AVAILABLE_IN_0_1
guint64 gcuda_event_get_handle (GCudaEvent *self);

GCUDA_AVAILABLE_IN_0_1
GCudaEventFlags gcuda_event_get_flags (GCudaEvent *self);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_event_record (GCudaEvent *self,
                             GCudaStream *stream,
                             GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_event_query (GCudaEvent *self,
                            GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_event_synchronize (GCudaEvent *self,
                                  GError **error);

GCUDA_AVAILABLE_IN_0_1
double gcuda_event_elapsed_time (GCudaEvent *self,
                                 GCudaEvent *end,
                                 GError **error);

G_END_DECLS
