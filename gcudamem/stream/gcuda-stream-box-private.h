/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "device/gcuda-context-box-private.h"
#include "driver/gcuda-hazard-private.h"

G_BEGIN_DECLS

typedef enum
{
  GCUDA_STREAM_CREATED,
  GCUDA_STREAM_FOREIGN,
  GCUDA_STREAM_LEGACY,
  GCUDA_STREAM_PER_THREAD,
} GCudaStreamKind;

/* Something that waits in a stream's queue until the stream has passed the point where it was queued. */
typedef struct _GCudaStreamWaiter GCudaStreamWaiter;

/* Called by the reclaimer, once it has passed. BLOCKED or AGAIN: it is called again later. */
typedef GCudaReclaimResult (*GCudaStreamWaiterFunc) (GCudaStreamWaiter *waiter);

/*
 * A stream as recipes hold it: never the GCudaStream object, which may be a script's. Two counts, as a context box has:
 * references keep the struct; uses keep the CUstream, its context and its foreign owner, and together one reference.
 */
typedef struct _GCudaStreamBox GCudaStreamBox;

struct _GCudaStreamBox
{
  GCudaReclaimNode node;    /* of the queue, or of the end that was put off */
  GCudaReclaimNode leaving; /* of the uses of objects that were closed in the middle of a call, of whatever thread */
  gint leavers;             /* how many */
  gint refs;
  gint uses;
  GCudaStreamKind kind;
  CUstream handle;
  GCudaContextBox *context; /* with a use */
  unsigned long long id;    /* not used again, as handles are; of the two default streams it says little */
  GObject *owner;
  GCudaHome *owner_home;
  int priority;
  gboolean blocking;
  gint exposed; /* others may know the handle, and capture the stream: ask before what a capture forbids */

  /* The queue of what waits for this stream; batch is what the event stands for, waiting came after it. */
  GMutex lock;
  GCudaStreamWaiter *waiting, **waiting_end;
  guint64 oldest_waiting; /* the least number of them: what the reclaimer queues has an old one */
  gboolean queued;
  /* The reclaimer's thread only */
  GCudaStreamWaiter *batch;
  gboolean batch_passed; /* what is left of it need not wait any more */
  guint64 oldest_batch;
  CUevent event;

  /* Memory of a pool that will be destroyed was freed on it: what is in it when it ends is waited for. */
  gint watched;
  gint over;                 /* it has ended, and that was waited for */
  gboolean marked;           /* whoever ends it: event, if there is one, is behind all */
  CUevent before_capture;    /* behind all that is not in the builder's capture, of the last builder */
  gboolean ends_capture;     /* that of the builder: nobody else can */
  gboolean lost;             /* what was in it can't be known */
  GCudaStreamWaiter *enders; /* under the lock: to be told when it is over */

  GCudaStreamBox *joined; /* in use, or NULL: a fork was joined into it, and its capture goes on there */
};

struct _GCudaStreamWaiter
{
  GCudaReclaimNode node;
  GCudaStreamWaiter *next;
  GCudaStreamBox *box;
  GCudaStreamWaiterFunc passed;
  CUevent event; /* recorded where it was released, on a per-thread default stream */
};

/* With one use, for the caller; takes the use of @context over. */
GCudaStreamBox *_gcuda_stream_box_new (GCudaStreamKind kind,
                                       CUstream handle,
                                       GCudaContextBox *context,
                                       unsigned long long id,
                                       GObject *owner);
GCudaStreamBox *_gcuda_stream_box_ref (GCudaStreamBox *self);
void _gcuda_stream_box_unref (GCudaStreamBox *self);

/* FALSE when the stream has ended. */
static inline gboolean
_gcuda_stream_box_use (GCudaStreamBox *self)
{
  gint uses = g_atomic_int_get (&self->uses);

  while (G_LIKELY (uses > 0))
    if (g_atomic_int_compare_and_exchange_full (&self->uses, uses, uses + 1, &uses))
      return TRUE;
  return FALSE;
}

void _gcuda_stream_box_end (GCudaStreamBox *self); /* after the last use */

/* Gives the use of an object back that was marked as closed: later, if a call is under way that counts on it. */
void _gcuda_stream_box_leave (GCudaStreamBox *self);

/* From then on, for a stream that is in use: its end is waited for. Not for the default streams, which do not end with their box,
 * nor for one of others without an owner, whose end nobody tells. */
void _gcuda_stream_box_watch (GCudaStreamBox *self);
/* Of one that a builder is about to capture: what was freed on it before is waited for also if it ends in that capture. */
void _gcuda_stream_box_mark_before_capture (GCudaStreamBox *self);
/* Of one that has no use any more: calls @passed when all is done that was in it; FALSE if it is. Never for one that ended while
 * others captured it. */
gboolean _gcuda_stream_box_wait_for_end (GCudaStreamBox *self,
                                         GCudaStreamWaiter *waiter,
                                         GCudaStreamWaiterFunc passed);

static inline void
_gcuda_stream_box_unuse (GCudaStreamBox *self)
{
  if (g_atomic_int_dec_and_test (&self->uses))
    _gcuda_stream_box_end (self);
}

static inline gboolean
_gcuda_stream_box_is_default (const GCudaStreamBox *self)
{
  return self->kind == GCUDA_STREAM_LEGACY || self->kind == GCUDA_STREAM_PER_THREAD;
}

/* Of others, who say nothing of its end. */
static inline gboolean
_gcuda_stream_box_is_ownerless (const GCudaStreamBox *self)
{
  return self->kind == GCUDA_STREAM_FOREIGN && self->owner == NULL;
}

/*
 * The handle that stands for this stream on the calling thread. A per-thread default stream of another thread has no name
 * here; the legacy default stream is ordered after it, and stands for it.
 */
CUstream _gcuda_stream_box_handle_for (const GCudaStreamBox *self,
                                       guint64 owner_thread);

/*
 * For teardowns, between _gcuda_teardown_enter () and _leave (): makes the bound context current where the handle needs
 * it, and asks whether the stream can be used now.
 */
typedef enum
{
  GCUDA_STREAM_READY,
  GCUDA_STREAM_GONE,     /* the context was reset or destroyed: make no call on the stream */
  GCUDA_STREAM_CAPTURED, /* a capture forbids it: later */
  GCUDA_STREAM_REFUSED,  /* a thread of the driver's, or an error: later, elsewhere */
} GCudaStreamState;

GCudaStreamState _gcuda_stream_box_teardown_enter (GCudaStreamBox *self,
                                                   CUstream handle,
                                                   gboolean ask,
                                                   GCudaContextScope *scope);

/* Records @event behind all that is in the stream now; FALSE if that can't be. Where there is nothing to wait for it stays as it
 * is. */
gboolean _gcuda_stream_box_record (GCudaStreamBox *self,
                                   CUevent event);
/* Calls @passed, on the reclaimer's thread, when @event has passed, and gives that back; the box need not be in use. */
void _gcuda_stream_box_queue_event (GCudaStreamBox *self,
                                    GCudaStreamWaiter *waiter,
                                    CUevent event,
                                    GCudaStreamWaiterFunc passed);

/* Calls @passed, on the reclaimer's thread, after all that is in the stream now. The waiter keeps its box in use. */
void _gcuda_stream_box_queue (GCudaStreamBox *self,
                              GCudaStreamWaiter *waiter,
                              guint64 owner_thread,
                              GCudaStreamWaiterFunc passed);

G_END_DECLS
