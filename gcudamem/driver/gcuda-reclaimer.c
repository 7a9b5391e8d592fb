/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-reclaimer-private.h"

#define BACKOFF_MINIMUM 50   /* microseconds between two passes */
#define BACKOFF_MAXIMUM 2000

static GMutex lock;
static GCond wake;     /* something was pushed */
static GCond settled;  /* a pass ended */
static GCudaReclaimNode *incoming; /* newest first */
static guint64 begun, ended;       /* passes */
static guint runnable;             /* nodes that answered AGAIN in the last pass that ended */
static gint outstanding;           /* nodes that are not done */
static GThread *thread;

static gpointer
reclaimer_main (gpointer data)
{
  GCudaReclaimNode *active = NULL, **link;
  gint64 backoff = BACKOFF_MINIMUM;

  for (;;)
    {
      GCudaReclaimNode *fresh = NULL, *node, *next;
      GCudaTeardown teardown;
      guint again = 0;

      g_mutex_lock (&lock);
      while (incoming == NULL && active == NULL)
        g_cond_wait (&wake, &lock);
      if (incoming == NULL)
        g_cond_wait_until (&wake, &lock, g_get_monotonic_time () + backoff);
      backoff = incoming != NULL ? BACKOFF_MINIMUM : MIN (backoff * 2, BACKOFF_MAXIMUM);
      for (node = incoming; node != NULL; node = next) /* oldest first */
        {
          next = node->next;
          node->next = fresh;
          fresh = node;
        }
      incoming = NULL;
      begun++;
      g_mutex_unlock (&lock);

      for (link = &active; *link != NULL; link = &(*link)->next)
        ;
      *link = fresh;

      if (!_gcuda_teardown_enter (&teardown))
        return NULL; /* exiting: the driver frees everything */

      for (link = &active; (node = *link) != NULL;)
        {
          next = node->next;
          switch (node->attempt (node))
            {
            case GCUDA_RECLAIM_DONE:
              *link = next;
              g_atomic_int_add (&outstanding, -1);
              break;
            case GCUDA_RECLAIM_AGAIN:
              again++;
              link = &node->next;
              break;
            case GCUDA_RECLAIM_BLOCKED:
            default:
              link = &node->next;
              break;
            }
        }
      _gcuda_teardown_leave (&teardown);

      g_mutex_lock (&lock);
      ended++;
      runnable = again;
      g_cond_broadcast (&settled);
      g_mutex_unlock (&lock);
    }
}

void
_gcuda_reclaimer_push (GCudaReclaimNode *node,
                       GCudaReclaimFunc attempt)
{
  if (_gcuda_driver_forked ())
    return;
  node->attempt = attempt;
  g_atomic_int_inc (&outstanding);
  g_mutex_lock (&lock);
  node->next = incoming;
  incoming = node;
  /* A machine that can't start a thread now may be able to at the next push; the nodes wait. */
  if (thread == NULL)
    thread = g_thread_try_new ("gcuda-reclaimer", reclaimer_main, NULL, NULL);
  g_cond_signal (&wake);
  g_mutex_unlock (&lock);
}

gboolean
_gcuda_reclaimer_has_work (void)
{
  return g_atomic_int_get (&outstanding) > 0;
}

/* What a node queues when it is done, such as a pool after its last stream, is waited for as well: between two passes, the
 * last of which left nothing to do and nothing new. */
static gboolean
is_settled (guint64 target)
{
  return g_atomic_int_get (&outstanding) == 0 || (ended >= target && begun == ended && runnable == 0 && incoming == NULL) || _gcuda_driver_exiting ();
}

gboolean
_gcuda_reclaimer_settle (gint64 deadline,
                         GCancellable *cancellable)
{
  guint64 target;
  gboolean done;

  g_mutex_lock (&lock);
  /* A pass that begins from now on sees all that is queued, and what changed for those that were blocked. */
  target = begun + 1;
  if (thread == NULL && incoming != NULL)
    thread = g_thread_try_new ("gcuda-reclaimer", reclaimer_main, NULL, NULL);
  if (thread != NULL && thread != g_thread_self ())
    {
      g_cond_signal (&wake);
      while (!is_settled (target) && !g_cancellable_is_cancelled (cancellable) &&
             (deadline < 0 || g_get_monotonic_time () < deadline))
        {
          /* A cancellable is looked at now and then: its signal would need a lock order with its own. */
          gint64 until = g_get_monotonic_time () + 10 * G_TIME_SPAN_MILLISECOND;

          g_cond_wait_until (&settled, &lock, deadline < 0 ? until : MIN (until, deadline));
        }
    }
  done = is_settled (target);
  g_mutex_unlock (&lock);
  return done;
}

/* Homes */

struct _GCudaHome
{
  GMainContext *context;
  guint64 thread;
  GMutex lock;
  GCudaReclaimNode *queue, *last;
};

/* The homes of all threads that have one, so that gcuda_reclaim () can run what belongs to its caller. */
static GMutex homes_lock;
static GPtrArray *homes;

static void
home_clear (gpointer data)
{
  GCudaHome *self = data;

  g_main_context_unref (self->context);
  g_mutex_clear (&self->lock);
}

GCudaHome *
_gcuda_home_new (void)
{
  GCudaHome *self = g_atomic_rc_box_new0 (GCudaHome);

  self->context = g_main_context_ref_thread_default ();
  self->thread = _gcuda_thread_id ();
  g_mutex_init (&self->lock);

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
  return g_atomic_rc_box_acquire (self);
}

static void
home_forget (gpointer data)
{
  /* Under homes_lock: see _gcuda_home_unref (). */
  g_ptr_array_remove_fast (homes, data);
  home_clear (data);
}

void
_gcuda_home_unref (GCudaHome *self)
{
  if (_gcuda_driver_forked ())
    return;
  /* The lock makes the last unref and a look at the list exclude each other. Nothing is called back under it. */
  g_mutex_lock (&homes_lock);
  g_atomic_rc_box_release_full (self, home_forget);
  g_mutex_unlock (&homes_lock);
}

gboolean
_gcuda_home_is_here (GCudaHome *self)
{
  return self->thread == _gcuda_thread_id ();
}

gboolean
_gcuda_home_drain (GCudaHome *self)
{
  gboolean any = FALSE;

  /* A forked child inherits the queue, and the loop with it: it is the parent's to run. */
  if (_gcuda_driver_forked () || !_gcuda_home_is_here (self))
    return FALSE;
  for (;;)
    {
      GCudaReclaimNode *node;

      g_mutex_lock (&self->lock);
      node = self->queue;
      if (node != NULL)
        self->queue = node->next;
      if (self->queue == NULL)
        self->last = NULL;
      g_mutex_unlock (&self->lock);
      if (node == NULL)
        return any;
      node->attempt (node);
      any = TRUE;
    }
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
  _gcuda_home_drain (data);
  return G_SOURCE_REMOVE;
}

void
_gcuda_home_push (GCudaHome *self,
                  GCudaReclaimNode *node,
                  GCudaReclaimFunc attempt)
{
  gboolean first;

  node->attempt = attempt;
  node->next = NULL;
  g_mutex_lock (&self->lock);
  first = self->queue == NULL;
  if (first)
    self->queue = node;
  else
    self->last->next = node;
  self->last = node;
  g_mutex_unlock (&self->lock);
  if (first)
    _gcuda_post (self->context, home_dispatch, _gcuda_home_ref (self), (GDestroyNotify) _gcuda_home_unref);
}

static gboolean
drain_homes_here (void)
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

/**
 * gcuda_reclaim:
 * @cancellable: (nullable): to stop waiting
 * @error: return location for an error, or %NULL
 *
 * Waits until everything that was released has really been freed: memory that is not freed in stream order, streams and
 * contexts whose end was put off. Entries that belong to the calling thread, such as those of a memory resource written in
 * a script, are run in this call. Not waited for is what hangs on a capture that goes on, or on another thread's loop.
 *
 * Any thread but one of the driver's own. Programs need this in tests, and before they measure free memory.
 *
 * Errors: `FORKED`; `G_IO_ERROR_CANCELLED`, where what was waited for goes on.
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
  for (;;)
    {
      if (g_cancellable_set_error_if_cancelled (cancellable, error))
        return FALSE;
      drain_homes_here ();
      if (!_gcuda_reclaimer_settle (-1, cancellable) && cancellable != NULL)
        continue;
      /* What passed in the meantime may have come home, and what is released there may be queued anew. */
      if (!drain_homes_here ())
        return TRUE;
    }
}
