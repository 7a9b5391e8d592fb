/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gcuda-driver-private.h"

G_BEGIN_DECLS

/*
 * Hazard pointers: for as long as a thread uses a thing it has that written down, where whoever ends the thing looks. That costs
 * a plain store, where a count would cost two locked operations and the cache line between threads; the price is paid by the
 * one who ends it, with a barrier on all threads.
 *
 * User: note, then look whether the thing has ended. Ender: mark it as ended, and let it go if it _gcuda_hazard_is_free (), else
 * later. No locks: a teardown and a forked child come here too.
 */
#define GCUDA_HAZARDS 4 /* that a thread notes at a time; what nests deeper is counted */

typedef struct _GCudaHazards GCudaHazards;

struct _GCudaHazards
{
  GCudaHazards *next;
  gint taken;     /* by a thread */
  gint teardowns; /* that the thread is in; by the same rules */
  gconstpointer noted[GCUDA_HAZARDS];
};

/* Early: in a process with threads the system takes its time to get ready, and until then things are counted. */
void _gcuda_hazards_prepare (void);

extern GCUDA_THREAD_LOCAL GCudaHazards *_gcuda_hazards_of_thread; /* NULL until they are asked for */
GCudaHazards *_gcuda_hazards_new (void);

/* The calling thread's; NULL where the system has no such barrier: count instead. */
static inline GCudaHazards *
_gcuda_hazards_own (void)
{
  GCudaHazards *own = _gcuda_hazards_of_thread;

  return G_LIKELY (own != NULL) ? own : _gcuda_hazards_new ();
}

/* Where it is noted; NULL: it is not, count instead. */
static inline gconstpointer *
_gcuda_hazard_note (gconstpointer thing)
{
  GCudaHazards *own = _gcuda_hazards_own ();

  for (guint i = 0; G_LIKELY (own != NULL) && i < GCUDA_HAZARDS; i++)
    if (G_LIKELY (own->noted[i] == NULL))
      {
        __atomic_store_n (&own->noted[i], thing, __ATOMIC_RELAXED);
        /* No read of what follows is to be moved before it. The processor is told by the ender's barrier. */
        __atomic_signal_fence (__ATOMIC_SEQ_CST);
        return &own->noted[i];
      }
  return NULL;
}

static inline void
_gcuda_hazard_clear (gconstpointer *place)
{
  __atomic_store_n (place, NULL, __ATOMIC_RELEASE);
}

/* FALSE: the system refused, and nothing is known. */
gboolean _gcuda_hazard_barrier (void);
/* Whether nobody uses what was marked as ended: the barrier, and then a look at all notes. */
gboolean _gcuda_hazard_is_free (gconstpointer thing);

/* How many teardowns all threads are in that noted theirs. */
gint _gcuda_hazard_teardowns (void);

G_END_DECLS
