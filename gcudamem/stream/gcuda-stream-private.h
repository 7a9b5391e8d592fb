/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/gcuda-enum-types.h>
#include <gcudamem/stream/gcuda-event.h>

#include "device/gcuda-device-private.h"
#include "gcuda-stream-box-private.h"

G_BEGIN_DECLS

struct _GCudaStream
{
  GObject parent_instance;

  GCudaContext *context;
  GCudaStreamBox *box; /* NULL for an object made by bare new; else to the end */
  int priority;
  gboolean blocking;
  gint closed;
};

struct _GCudaStreamClass
{
  GObjectClass parent_class;
};

/* The stream's box with a use, for the caller; NULL with INVALID_ARGUMENT, CLOSED, FORKED or CONTEXT_IS_DESTROYED.
 * Unchecked: the context is not looked at, and no driver call made. */
GCudaStreamBox *_gcuda_stream_hold_unchecked (GCudaStream *self,
                                              const char *what,
                                              GError **error);
GCudaStreamBox *_gcuda_stream_hold (GCudaStream *self,
                                    const char *what,
                                    GError **error);

/* A user's driver call on a stream: holds the box, and makes its context current where a default stream needs it. */
typedef struct
{
  GCudaStreamBox *box;
  CUstream handle;
  GCudaContextScope scope;
} GCudaStreamCall;

gboolean _gcuda_stream_call_begin (GCudaStreamCall *call,
                                   GCudaStream *stream,
                                   const char *what,
                                   GError **error);

/* Ends it; the result of the driver call, or of restoring the context if only that failed, becomes the error. */
gboolean _gcuda_stream_call_end (GCudaStreamCall *call,
                                 CUresult result,
                                 const char *what,
                                 GError **error);

/* TRUE if the stream of a call that has begun is not being captured; FALSE with an error if it is. */
gboolean _gcuda_stream_call_ask_capture (GCudaStreamCall *call,
                                         const char *what,
                                         GError **error);

static inline gboolean
_gcuda_stream_call_refuse_capture (GCudaStreamCall *call,
                                   const char *what,
                                   GError **error)
{
  return !g_atomic_int_get (&call->box->exposed) || _gcuda_stream_call_ask_capture (call, what, error);
}

/* A stream object for a box, for the vfuncs of a program's memory resource. */
GCudaStream *_gcuda_stream_new_for_box (GCudaStreamBox *box);

/* The event's handle for a call; keeps it with _gcuda_event_hold () until _gcuda_event_drop (). */
typedef struct _GCudaEventBox GCudaEventBox;

GCudaEventBox *_gcuda_event_hold (GCudaEvent *self,
                                  const char *what,
                                  CUevent *handle,
                                  GError **error);
GCudaEventBox *_gcuda_event_hold_unchecked (GCudaEvent *self,
                                            const char *what,
                                            CUevent *handle,
                                            GError **error);
/* The look at the event's context that the unchecked hold leaves out; none is needed if it is @known to be there. */
gboolean _gcuda_event_check (GCudaEventBox *box,
                             GCudaContextBox *known,
                             const char *what,
                             GError **error);
void _gcuda_event_drop (GCudaEventBox *box);
/* Whether a capture may have recorded it. */
gboolean _gcuda_event_is_exposed (GCudaEventBox *box);

G_END_DECLS
