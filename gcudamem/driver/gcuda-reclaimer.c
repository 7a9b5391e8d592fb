/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-reclaimer-private.h"

#include "base/gcuda-place-private.h"

#define BACKOFF_MINIMUM 50 /* microseconds between two passes */
#define BACKOFF_MAXIMUM 2000
#define HOME_INTERVAL   20 /* milliseconds until a loop on a wrong thread is tried again */

static GMutex lock;
static GCond wake;    /* something was pushed, or is waited for */
static GCond settled; /* a pass ended */
static GThread *thread;
static gint outstanding; /* nodes that are not done */
static guint n_done;     /* nodes that were, ever */

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
          g_atomic_int_inc (&n_done);
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

guint
_gcuda_reclaimer_count_done (void)
{
  return (guint) g_atomic_int_get (&n_done);
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

/* Homes */

struct _GCudaHome
{
  gint refs; /* dropped under homes_lock */
  GMainContext *context;
  guint64 thread;
  GMutex lock;
  GCudaReclaimNode *queue, *last;
  GSource *source;   /* in the context, while something is queued */
  gboolean draining; /* that thread only: what a vfunc releases is given back by the drain that called it */
};

/* The homes of all threads that have one, so that gcuda_reclaim () can run what belongs to its caller. */
static GMutex homes_lock;
static GPtrArray *homes;

GCudaHome *
_gcuda_home_new (void)
{
  GCudaHome *self = g_new0 (GCudaHome, 1);

  self->refs = 1;
  self->context = g_main_context_ref_thread_default ();
  self->thread = _gcuda_thread_id ();
  g_mutex_init (&self->lock);
  /* In a forked child the lock may be anybody's, and nothing is ever queued. */
  if (_gcuda_driver_forked ())
    return self;
  g_mutex_lock (&homes_lock);
  if (homes == NULL)
    homes = g_ptr_array_new ();
  g_ptr_array_add (homes, self);
  g_mutex_unlock (&homes_lock);
  return self;
}

GCudaHome *
_gcuda_home_ref (GCudaHome *self)
{
  g_atomic_int_inc (&self->refs);
  return self;
}

void
_gcuda_home_unref (GCudaHome *self)
{
  gboolean last;

  if (_gcuda_driver_forked ())
    return;
  /* The lock makes the last unref and a look at the list exclude each other. */
  g_mutex_lock (&homes_lock);
  last = g_atomic_int_dec_and_test (&self->refs);
  if (last)
    g_ptr_array_remove_fast (homes, self);
  g_mutex_unlock (&homes_lock);
  if (!last)
    return;
  /* Not under it: a context that goes takes its sources with it, and their data may be anything. */
  g_main_context_unref (self->context);
  g_mutex_clear (&self->lock);
  g_free (self);
}

gboolean
_gcuda_home_is_here (GCudaHome *self)
{
  return self->thread == _gcuda_thread_id ();
}

gboolean
_gcuda_home_drain (GCudaHome *self)
{
  GSource *source = NULL;
  gboolean any = FALSE;

  /* A forked child inherits the queue, and the loop with it: it is the parent's to run. */
  if (_gcuda_driver_forked () || !_gcuda_home_is_here (self) || self->draining)
    return FALSE;
  self->draining = TRUE;
  for (;;)
    {
      GCudaReclaimNode *node;

      g_mutex_lock (&self->lock);
      node = self->queue;
      if (node != NULL)
        self->queue = node->next;
      if (self->queue == NULL)
        self->last = NULL;
      if (node == NULL)
        source = g_steal_pointer (&self->source);
      g_mutex_unlock (&self->lock);
      if (node == NULL)
        break;
      node->attempt (node);
      any = TRUE;
    }
  self->draining = FALSE;
  /* A loop that never runs would keep the source, and that this home and its context. */
  if (source != NULL)
    {
      g_source_destroy (source);
      g_source_unref (source);
    }
  return any;
}

void
_gcuda_homes_report_left (void)
{
  guint left = 0;

  /* At exit a thread may have been ended while it held a lock: look only if nobody is in the way. */
  if (!g_mutex_trylock (&homes_lock))
    return;
  for (guint i = 0; homes != NULL && i < homes->len; i++)
    {
      GCudaHome *home = g_ptr_array_index (homes, i);

      if (!g_mutex_trylock (&home->lock))
        continue;
      for (GCudaReclaimNode *node = home->queue; node != NULL; node = node->next)
        left++;
      g_mutex_unlock (&home->lock);
    }
  g_mutex_unlock (&homes_lock);
  if (left > 0)
    g_info ("the program ends with %u allocations that were released but not given back to memory resources of its own: no main loop ran, and no call of theirs, on the threads that these belong to", left);
}

static gboolean
home_dispatch (gpointer data)
{
  GCudaHome *self = data;

  _gcuda_home_drain (self);
  /* Another thread may run the loop now: the queue waits for its own, and this looks again in a while. */
  return !_gcuda_driver_forked () && !_gcuda_home_is_here (self) ? G_SOURCE_CONTINUE : G_SOURCE_REMOVE;
}

void
_gcuda_home_push (GCudaHome *self,
                  GCudaReclaimNode *node,
                  GCudaReclaimFunc attempt)
{
  GSource *source = NULL;

  node->attempt = attempt;
  node->next = NULL;
  g_mutex_lock (&self->lock);
  if (self->queue == NULL)
    self->queue = node;
  else
    self->last->next = node;
  self->last = node;
  if (self->source == NULL)
    {
      source = g_timeout_source_new (HOME_INTERVAL);
      g_source_set_ready_time (source, 0);
      g_source_set_priority (source, G_PRIORITY_DEFAULT);
      g_source_set_static_name (source, "[gcudamem] memory resource");
      g_source_set_callback (source, home_dispatch, _gcuda_home_ref (self), (GDestroyNotify) _gcuda_home_unref);
      self->source = source;
      /* Under the lock: what drains meanwhile destroys the source that it finds. */
      g_source_attach (source, self->context);
    }
  g_mutex_unlock (&self->lock);
}

gboolean
_gcuda_homes_drain_here (void)
{
  gboolean any = FALSE;
  g_autoptr (GPtrArray) here = g_ptr_array_new_with_free_func ((GDestroyNotify) _gcuda_home_unref);

  g_mutex_lock (&homes_lock);
  for (guint i = 0; homes != NULL && i < homes->len; i++)
    {
      GCudaHome *home = g_ptr_array_index (homes, i);

      if (_gcuda_home_is_here (home))
        g_ptr_array_add (here, _gcuda_home_ref (home));
    }
  g_mutex_unlock (&homes_lock);
  for (guint i = 0; i < here->len; i++)
    any |= _gcuda_home_drain (g_ptr_array_index (here, i));
  return any;
}

static gboolean
drain_here (void)
{
  const gboolean homes_drained = _gcuda_homes_drain_here ();

  return _gcuda_place_drain_here () || homes_drained;
}

/**
 * gcuda_reclaim:
 * @cancellable: (nullable): to stop waiting
 * @error: return location for an error, or %NULL
 *
 * Waits until everything that was released has really been freed: memory that is not freed in stream order, memory pools, streams
 * and contexts whose end was put off. Entries that belong to the calling thread, such as those of a memory resource written in
 * a script, are run in this call, and owners of foreign memory and the like that this thread handed over are let go, unless
 * another thread runs its main context. Not waited for is what hangs on a capture that goes on, or on another thread's loop, and
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
      drain_here ();
      if (!_gcuda_reclaimer_settle (-1, cancellable) && g_cancellable_set_error_if_cancelled (cancellable, error))
        return FALSE;
      /* What passed in the meantime may have come home, and what is released there may be queued anew. */
    }
  while (drain_here ());
  return TRUE;
}
