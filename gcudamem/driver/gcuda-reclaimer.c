/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-reclaimer-private.h"

#include "gcuda-home-private.h"

#define BACKOFF_MINIMUM 50 /* microseconds between two passes */
#define BACKOFF_MAXIMUM 2000

static GMutex lock;
static GCond wake;    /* something was pushed, or is waited for */
static GCond settled; /* a pass ended */
static GThread *thread;
static gint outstanding; /* nodes that are not done */

guint _gcuda_reclaimer_n_done;

/* Under the lock. Each node has a number, in the order in which things were released. */
static GCudaReclaimNode *incoming; /* newest first */
static guint64 pushed;             /* the last number given */
static guint64 oldest_incoming = G_MAXUINT64;
static guint64 oldest_running = G_MAXUINT64; /* of those that the pass that runs took from there */
static guint64 oldest_waiting = G_MAXUINT64; /* of those that answered AGAIN */
static guint64 begun, ended;                 /* passes over everything */
static gboolean wanted;                      /* one that does not wait for its time */

/* What a node queues as it is done, such as a pool after its last stream, is as old as that node. */
static _Thread_local guint64 inherited;

guint64
_gcuda_reclaimer_number (void)
{
  return inherited != 0 ? inherited : __atomic_add_fetch (&pushed, 1, __ATOMIC_RELAXED);
}

void
_gcuda_reclaimer_inherit (guint64 number)
{
  inherited = number;
}

gboolean
_gcuda_reclaimer_is_here (void)
{
  return g_atomic_pointer_get (&thread) == g_thread_self ();
}

static guint64 oldest_noted = G_MAXUINT64; /* the thread's own */

void
_gcuda_reclaimer_note (guint64 number)
{
  if (_gcuda_reclaimer_is_here ())
    oldest_noted = MIN (oldest_noted, number);
}

/* Tries each node of a list once; @oldest is that of the oldest that waits for the GPU. */
static void
attempt_all (GCudaReclaimNode **link,
             guint64 *oldest)
{
  GCudaReclaimNode *node, *next;

  /* One of them may block until the process exits: then the rest is the system's. */
  while ((node = *link) != NULL && !_gcuda_driver_exiting ())
    {
      GCudaReclaimResult result;

      next = node->next;
      inherited = node->number;
      result = node->attempt (node);
      inherited = 0;
      if (result == GCUDA_RECLAIM_DONE)
        {
          *link = next;
          g_atomic_int_add (&outstanding, -1);
          g_atomic_int_inc (&_gcuda_reclaimer_n_done);
          continue;
        }
      if (result == GCUDA_RECLAIM_AGAIN)
        *oldest = MIN (*oldest, node->number);
      link = &node->next;
    }
}

/* Puts a list in front of another one: the order among nodes means nothing, and the list may be long. */
static void
put_in_front (GCudaReclaimNode *fresh,
              GCudaReclaimNode **list)
{
  GCudaReclaimNode **end = &fresh;

  while (*end != NULL)
    end = &(*end)->next;
  *end = *list;
  *list = fresh;
}

static gpointer
reclaimer_main (gpointer data)
{
  /* Found by tools that look for leaks when the process has exited. */
  static GCudaReclaimNode *active = NULL;
  guint64 oldest_active = G_MAXUINT64;
  gint64 backoff = BACKOFF_MINIMUM, due = 0;

  for (;;)
    {
      GCudaReclaimNode *fresh = NULL, *node, *next;
      GCudaTeardown teardown;
      guint64 oldest_fresh = G_MAXUINT64;
      gboolean whole;

      g_mutex_lock (&lock);
      while (incoming == NULL && active == NULL)
        g_cond_wait (&wake, &lock);
      while (incoming == NULL && !wanted && g_get_monotonic_time () < due)
        g_cond_wait_until (&wake, &lock, due);
      for (node = incoming; node != NULL; node = next) /* oldest first */
        {
          next = node->next;
          node->next = fresh;
          fresh = node;
        }
      incoming = NULL;
      oldest_running = oldest_incoming;
      oldest_incoming = G_MAXUINT64;
      /* What is new is tried at once; all the rest in its time, however fast new things come. */
      whole = wanted || active == NULL || g_get_monotonic_time () >= due;
      wanted = FALSE;
      if (whole)
        begun++;
      g_mutex_unlock (&lock);

      if (!_gcuda_teardown_enter (&teardown))
        {
          put_in_front (fresh, &active);
          return NULL; /* exiting: the driver frees everything */
        }
      if (whole)
        {
          oldest_active = G_MAXUINT64;
          oldest_noted = G_MAXUINT64;
          attempt_all (&active, &oldest_active);
          backoff = fresh != NULL ? BACKOFF_MINIMUM : MIN (backoff * 2, BACKOFF_MAXIMUM);
        }
      attempt_all (&fresh, &oldest_fresh);
      _gcuda_teardown_leave (&teardown);
      oldest_active = MIN (oldest_active, MIN (oldest_fresh, oldest_noted));
      put_in_front (fresh, &active);
      if (whole)
        due = g_get_monotonic_time () + backoff;

      g_mutex_lock (&lock);
      oldest_running = G_MAXUINT64;
      oldest_waiting = oldest_active;
      if (whole)
        ended++;
      g_cond_broadcast (&settled);
      g_mutex_unlock (&lock);
    }
}

/* Under the lock. */
static void
ensure_thread (void)
{
  if (thread == NULL)
    g_atomic_pointer_set (&thread, g_thread_try_new ("gcuda-reclaimer", reclaimer_main, NULL, NULL));
}

void
_gcuda_reclaimer_push (GCudaReclaimNode *node,
                       GCudaReclaimFunc attempt)
{
  _gcuda_reclaimer_push_as (node, attempt, _gcuda_reclaimer_number ());
}

void
_gcuda_reclaimer_push_as (GCudaReclaimNode *node,
                          GCudaReclaimFunc attempt,
                          guint64 number)
{
  if (_gcuda_driver_forked ())
    return;
  node->attempt = attempt;
  node->number = number;
  g_atomic_int_inc (&outstanding);
  g_mutex_lock (&lock);
  node->next = incoming;
  incoming = node;
  oldest_incoming = MIN (oldest_incoming, node->number);
  /* A machine that can't start a thread now may be able to at the next push; the nodes wait. */
  ensure_thread ();
  g_cond_signal (&wake);
  g_mutex_unlock (&lock);
}

gboolean
_gcuda_reclaimer_has_work (void)
{
  return g_atomic_int_get (&outstanding) > 0;
}

/* Whether all up to @number is done or blocked, as a pass saw that began after @pass. Later things do not count. */
static gboolean
is_settled (guint64 number,
            guint64 pass)
{
  if (g_atomic_int_get (&outstanding) == 0 || _gcuda_driver_exiting ())
    return TRUE;
  return ended > pass && MIN (oldest_waiting, MIN (oldest_running, oldest_incoming)) > number;
}

gboolean
_gcuda_reclaimer_settle (gint64 deadline,
                         GCancellable *cancellable)
{
  guint64 number, pass;
  gboolean done;

  /* It can't wait for itself. */
  if (_gcuda_reclaimer_is_here ())
    return FALSE;
  g_mutex_lock (&lock);
  number = __atomic_load_n (&pushed, __ATOMIC_RELAXED);
  pass = begun;
  if (incoming != NULL)
    ensure_thread ();
  while (!is_settled (number, pass) && thread != NULL && !g_cancellable_is_cancelled (cancellable) &&
         (deadline < 0 || g_get_monotonic_time () < deadline))
    {
      /* A cancellable is looked at now and then: its signal would need a lock order with its own. */
      gint64 until = g_get_monotonic_time () + 10 * G_TIME_SPAN_MILLISECOND;

      if (ended <= pass && begun == ended)
        {
          wanted = TRUE;
          g_cond_signal (&wake);
        }
      g_cond_wait_until (&settled, &lock, deadline < 0 ? until : MIN (until, deadline));
    }
  done = is_settled (number, pass);
  g_mutex_unlock (&lock);
  return done;
}

/**
 * gcuda_reclaim:
 * @cancellable: (nullable): to stop waiting
 * @error: return location for an error, or %NULL
 *
 * Waits until everything that was released has really been freed: memory that is not freed in stream order, memory pools, streams
 * and contexts whose end was put off. Entries that belong to the calling thread, such as those of a memory resource written in
 * a script, are run in this call, and owners of foreign memory and the like that this thread handed over under the main context
 * that it has now are let go, unless another thread runs that. Not waited for is what hangs on a capture that goes on, or on another thread's loop, and
 * what a graph kept: the driver lets that go on a thread of its own, some time after the graph is gone.
 *
 * Any thread but one of the driver's own. Programs need this in tests, and before they measure free memory.
 *
 * What is released after this was called is not waited for.
 *
 * Errors: `FORKED`; `NOT_PERMITTED` in a function that the library calls while it frees; `G_IO_ERROR_CANCELLED`, where what
 * was waited for goes on.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_reclaim (GCancellable *cancellable,
               GError **error)
{
  if (!_gcuda_driver_check (error))
    return FALSE;
  if (_gcuda_reclaimer_is_here ())
    return _gcuda_fail (error, GCUDA_ERROR_NOT_PERMITTED, "gcuda_reclaim: called from something that it would have to wait for");
  do
    {
      if (g_cancellable_set_error_if_cancelled (cancellable, error))
        return FALSE;
      _gcuda_homes_drain_here ();
      if (!_gcuda_reclaimer_settle (-1, cancellable) && g_cancellable_set_error_if_cancelled (cancellable, error))
        return FALSE;
      /* What passed in the meantime may have come home, and what is released there may be queued anew. */
    }
  while (_gcuda_homes_drain_here ());
  return TRUE;
}
