/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gcuda-driver-private.h"
#include "gcuda-reclaimer.h"

G_BEGIN_DECLS

/*
 * The reclaimer: one thread that finishes what a teardown could not do where it happened. Work is a node inside the thing
 * that is torn down, so queueing needs no memory and can't fail; it takes a short lock and makes no driver call, so a
 * thread of the driver's own may queue as well.
 *
 * The thread tries each node in turn, in relaxed capture mode and with no lock held, and polls with a back-off.
 */
typedef enum
{
  GCUDA_RECLAIM_DONE,    /* over; the node may be gone */
  GCUDA_RECLAIM_AGAIN,   /* waits for the GPU */
  GCUDA_RECLAIM_BLOCKED, /* waits for something that may never come, such as the end of a capture: nobody waits for it */
} GCudaReclaimResult;

typedef struct _GCudaReclaimNode GCudaReclaimNode;

typedef GCudaReclaimResult (*GCudaReclaimFunc) (GCudaReclaimNode *node);

struct _GCudaReclaimNode
{
  GCudaReclaimNode *next;
  GCudaReclaimFunc attempt;
  guint64 number;
};

void _gcuda_reclaimer_push (GCudaReclaimNode *node,
                            GCudaReclaimFunc attempt);

/* The same for what was released under this number. */
void _gcuda_reclaimer_push_as (GCudaReclaimNode *node,
                               GCudaReclaimFunc attempt,
                               guint64 number);

/* For what is queued inside a node that the reclaimer may have tried already in this pass: on its thread, where it may be older than
 * the node is. */
void _gcuda_reclaimer_note (guint64 number);

/* The number of what is released now, for what is queued inside a node; and what is queued next counts as old as that. */
guint64 _gcuda_reclaimer_number (void);
void _gcuda_reclaimer_inherit (guint64 number);

/* Whether this is the reclaimer's own thread. */
gboolean _gcuda_reclaimer_is_here (void);

/* Waits until each node that is queued now is done or blocked. FALSE: the time was over, @cancellable, or this is the
 * reclaimer's thread. */
gboolean _gcuda_reclaimer_settle (gint64 deadline,
                                  GCancellable *cancellable);

/* Whether anything waits at all; cheap. */
gboolean _gcuda_reclaimer_has_work (void);
guint _gcuda_reclaimer_count_done (void); /* it changes when something was given back */

/*
 * Work that must run on one thread, in its main context: a scripted resource's. Drained by its loop, and by
 * _gcuda_home_drain () on that thread, so that a script without a loop works. Counted.
 */
typedef struct _GCudaHome GCudaHome;

GCudaHome *_gcuda_home_new (void); /* of the calling thread and its thread-default main context */
GCudaHome *_gcuda_home_ref (GCudaHome *self);
void _gcuda_home_unref (GCudaHome *self);
gboolean _gcuda_home_is_here (GCudaHome *self);
/* Says, for those who debug, what the homes still hold: it is not run any more. */
void _gcuda_homes_report_left (void);
void _gcuda_home_push (GCudaHome *self,
                       GCudaReclaimNode *node,
                       GCudaReclaimFunc attempt);
/* Whether there was anything; nothing happens on another thread. */
gboolean _gcuda_home_drain (GCudaHome *self);
/* All that belong to the calling thread. */
gboolean _gcuda_homes_drain_here (void);

G_END_DECLS
