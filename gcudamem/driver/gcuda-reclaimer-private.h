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

/* Changes when something was given back. */
extern guint _gcuda_reclaimer_n_done;

static inline guint
_gcuda_reclaimer_count_done (void)
{
  return __atomic_load_n (&_gcuda_reclaimer_n_done, __ATOMIC_RELAXED);
}

G_END_DECLS
