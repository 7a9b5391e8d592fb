/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/gcuda-enum-types.h>
#include <gcudamem/stream/gcuda-event.h>

#include "device/gcuda-device-private.h"
#include "gcuda-keeper-private.h"

G_BEGIN_DECLS

typedef struct _GCudaHostFunction GCudaHostFunction;

struct _GCudaStream
{
  GObject parent_instance;

  GCudaContext *context;
  GCudaStreamBox *box; /* NULL for an object made by bare new; else to the end */
  int priority;
  gboolean blocking;
  gint closed;
  const gint *over; /* something that it ends with, and keeps; or NULL */
};

struct _GCudaStreamClass
{
  GObjectClass parent_class;

  const char *closed; /* what an error says of one that is */
  /* Once, when the object ends: while its box is in use still. */
  void (*ending) (GCudaStream *self);
  /* A host function was captured: until the capture ends, a reference to the stream in it would be one to itself. */
  void (*captured_function) (GCudaStream *self,
                             GCudaHostFunction *function);
};

#define GCUDA_STREAM_GET_CLASS(self) G_TYPE_INSTANCE_GET_CLASS ((self), GCUDA_TYPE_STREAM, GCudaStreamClass)

/* Makes a stream object of a kind of stream, which takes a use of @box over. */
gpointer _gcuda_stream_new_of_type (GType type,
                                    GCudaStreamBox *box,
                                    GCudaContext *context);

/* The stream's box with a use, for the caller; NULL with INVALID_ARGUMENT, CLOSED, FORKED or CONTEXT_IS_DESTROYED.
 * Unchecked: the context is not looked at, and no driver call made. */
GCudaStreamBox *_gcuda_stream_hold_unchecked (GCudaStream *self,
                                              const char *what,
                                              GError **error);
GCudaStreamBox *_gcuda_stream_hold (GCudaStream *self,
                                    const char *what,
                                    GError **error);

/* The box without a count, for the length of a call and on its thread only; @noted is for the drop. The context is not looked at. */
GCudaStreamBox *_gcuda_stream_note (GCudaStream *self,
                                    const char *what,
                                    gconstpointer **noted,
                                    GError **error);

static inline void
_gcuda_stream_drop (GCudaStreamBox *box,
                    gconstpointer *noted)
{
  if (G_LIKELY (noted != NULL))
    _gcuda_hazard_clear (noted);
  else
    _gcuda_stream_box_unuse (box);
}

/* A user's driver call on a stream: holds the box, and makes its context current where a default stream needs it. */
typedef struct _GCudaStreamCall GCudaStreamCall;

struct _GCudaStreamCall
{
  GCudaStreamBox *box; /* for the length of the call; who needs it longer takes a use */
  gconstpointer *noted;
  CUstream handle;
  GCudaContextScope scope;

  /* What the work needs, until the call ends. */
  GCudaKeeper *keeper;
  CUgraph graph; /* that the stream is captured into */
  cuuint64_t capture;
  GCudaKeeperSet *set; /* of the library's own capture */
  size_t n_nodes;
  CUuserObject object; /* in a capture of others */

  /* What more an error can say; NULL for nothing. */
  const char *(*explain) (const GCudaStreamCall *call,
                          CUresult result);
  gconstpointer touched[2];

  /* Of an allocation: memory that was about to be freed was waited for already, and the program asked. */
  gboolean settled;
};

/* Field by field: to clear the whole of it costs as much as all the rest of a short call. */
static inline void
_gcuda_stream_call_init (GCudaStreamCall *call,
                         GCudaStreamBox *box,
                         gconstpointer *noted)
{
  call->box = box;
  call->noted = noted;
  call->handle = box->handle;
  call->scope.pushed = FALSE;
  call->scope.counter = NULL;
  call->keeper = NULL;
  call->graph = NULL;
  call->set = NULL;
  call->explain = NULL;
  call->settled = FALSE;
}

gboolean _gcuda_stream_call_begin (GCudaStreamCall *call,
                                   GCudaStream *stream,
                                   const char *what,
                                   GError **error);

/* Makes the stream's context current for a call that has begun, if that is @wanted; ends the call if that fails. */
gboolean _gcuda_stream_call_enter (GCudaStreamCall *call,
                                   gboolean wanted,
                                   const char *what,
                                   GError **error);

/* Ends it; the result of the driver call, or of restoring the context if only that failed, becomes the error. */
gboolean _gcuda_stream_call_end (GCudaStreamCall *call,
                                 CUresult result,
                                 const char *what,
                                 GError **error);

/*
 * Keeps a thing that the work of a call needs until the stream has passed it; in a capture, until the graph, what was made of
 * it, and their launches are gone. First it has to be found out whether there is a capture. Keep before the work is queued,
 * which can fail; end after it, which can't: the call's end does so too. @thing is taken over in any case.
 */
gboolean _gcuda_stream_call_find_capture (GCudaStreamCall *call,
                                          const char *what,
                                          GError **error);
gboolean _gcuda_stream_call_keep (GCudaStreamCall *call,
                                  gpointer thing,
                                  GDestroyNotify drop,
                                  const char *what,
                                  GError **error);
void _gcuda_stream_call_keep_end (GCudaStreamCall *call,
                                  gboolean queued);
/* The same, for what turns out to be in use after it is too late for an error. */
void _gcuda_stream_call_keep_late (GCudaStreamCall *call,
                                   gpointer thing,
                                   GDestroyNotify drop);

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

/*
 * A host function as the driver calls it, @reached with the host function itself: it posts the program's function to the main
 * context that was the thread-default one when it was made, each time anew. Counted; where the last reference is dropped does
 * not matter: the program's data is let go in that main context.
 */
GCudaHostFunction *_gcuda_host_function_new (GObject *target, /* nullable */
                                             void (*func) (gpointer user_data),
                                             gpointer user_data,
                                             GDestroyNotify destroy);
GCudaHostFunction *_gcuda_host_function_ref (GCudaHostFunction *self);
void _gcuda_host_function_unref (GCudaHostFunction *self);
/* The same here and now, where the call was made that failed. */
void _gcuda_host_function_discard (GCudaHostFunction *self);
void CUDA_CB _gcuda_host_function_reached (void *self);
/* Lets the target go, or takes one: while nothing calls the function. */
void _gcuda_host_function_set_target (GCudaHostFunction *self,
                                      GObject *target);

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
/* A graph will record it: whether it has been is the driver's to say from now on. */
void _gcuda_event_set_recorded (GCudaEvent *self);
/* Whether a capture may have recorded it. */
gboolean _gcuda_event_is_exposed (GCudaEventBox *box);

/* Where an event was recorded last, as a stream sees it that is captured under this id. */
typedef enum
{
  GCUDA_EVENT_INSIDE, /* or it is not known */
  GCUDA_EVENT_OUTSIDE,
  GCUDA_EVENT_NOWHERE,
} GCudaEventPlace;

GCudaEventPlace _gcuda_event_get_place (GCudaEvent *self,
                                        cuuint64_t capture);

G_END_DECLS
