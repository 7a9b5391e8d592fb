/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-home-private.h"

#define HOME_INTERVAL 20 /* milliseconds until a loop on a wrong thread is tried again */

struct _GCudaHome
{
  gint refs; /* dropped under homes_lock */
  GMainContext *context;
  guint64 thread;
  gboolean of_context; /* not of the thread alone */
  GMutex lock;
  GCudaReclaimNode *queue, *last;
  GSource *source;   /* in the context, while something is queued */
  gboolean draining; /* that thread only: what a vfunc releases is given back by the drain that called it */
};

/* The homes of all threads that have one, so that gcuda_reclaim () can run what belongs to its caller. */
static GMutex homes_lock;
static GPtrArray *homes;

static GPrivate home_here = G_PRIVATE_INIT ((GDestroyNotify) _gcuda_home_unref);

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
_gcuda_home_here (void)
{
  g_autoptr (GMainContext) context = g_main_context_ref_thread_default ();
  GCudaHome *self = g_private_get (&home_here);

  if (self == NULL || self->context != context)
    {
      self = _gcuda_home_new ();
      self->of_context = TRUE;
      g_private_replace (&home_here, self);
    }
  return _gcuda_home_ref (self);
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

static gboolean
run_queue (GCudaHome *self)
{
  GSource *source = NULL;
  gboolean any = FALSE;

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
  /* A loop that never runs would keep the source, and that this home and its context. */
  if (source != NULL)
    {
      g_source_destroy (source);
      g_source_unref (source);
    }
  return any;
}

/* In a call of the thread's, which then runs its context for this long. */
static gboolean
run_queue_of_context (GCudaHome *self)
{
  g_autoptr (GMainContext) context = g_main_context_ref_thread_default ();
  gboolean any;

  if (self->context != context || !g_main_context_acquire (context))
    return FALSE;
  any = run_queue (self);
  g_main_context_release (context);
  return any;
}

gboolean
_gcuda_home_drain (GCudaHome *self)
{
  gboolean any;

  /* A forked child inherits the queue, and the loop with it: it is the parent's to run. */
  if (_gcuda_driver_forked () || !_gcuda_home_is_here (self) || self->draining)
    return FALSE;
  self->draining = TRUE;
  any = self->of_context ? run_queue_of_context (self) : run_queue (self);
  self->draining = FALSE;
  return any;
}

void
_gcuda_home_tidy (void)
{
  GCudaHome *self = g_private_get (&home_here);

  if (self == NULL || g_main_context_is_owner (self->context))
    return;
  /* A finalizer may bring another one here. */
  _gcuda_home_ref (self);
  _gcuda_home_drain (self);
  _gcuda_home_unref (self);
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

      if (home->of_context || !g_mutex_trylock (&home->lock))
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

  if (self->of_context)
    {
      if (!_gcuda_driver_forked ())
        run_queue (self);
      return G_SOURCE_REMOVE;
    }
  _gcuda_home_drain (self);
  /* Another thread may run the loop now: the queue waits for its own, and this looks again in a while. */
  return !_gcuda_driver_forked () && !_gcuda_home_is_here (self) ? G_SOURCE_CONTINUE : G_SOURCE_REMOVE;
}

void
_gcuda_home_push (GCudaHome *self,
                  GCudaReclaimNode *node,
                  GCudaReclaimFunc attempt)
{
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
      GSource *source = g_timeout_source_new (HOME_INTERVAL);

      g_source_set_ready_time (source, 0);
      g_source_set_priority (source, G_PRIORITY_DEFAULT);
      g_source_set_static_name (source, "[gcudamem] work for the program");
      g_source_set_callback (source, home_dispatch, _gcuda_home_ref (self), (GDestroyNotify) _gcuda_home_unref);
      self->source = source;
      /* Under the lock: what drains meanwhile destroys the source that it finds. */
      g_source_attach (source, self->context);
    }
  g_mutex_unlock (&self->lock);
}

static gboolean
drain_here (gboolean objects_too)
{
  gboolean any = FALSE;
  g_autoptr (GPtrArray) here = g_ptr_array_new_with_free_func ((GDestroyNotify) _gcuda_home_unref);

  g_mutex_lock (&homes_lock);
  for (guint i = 0; homes != NULL && i < homes->len; i++)
    {
      GCudaHome *home = g_ptr_array_index (homes, i);

      if (_gcuda_home_is_here (home) && (objects_too || !home->of_context))
        g_ptr_array_add (here, _gcuda_home_ref (home));
    }
  g_mutex_unlock (&homes_lock);
  for (guint i = 0; i < here->len; i++)
    any |= _gcuda_home_drain (g_ptr_array_index (here, i));
  return any;
}

gboolean
_gcuda_homes_drain_here (void)
{
  return drain_here (TRUE);
}

void
_gcuda_homes_work_here (void)
{
  drain_here (FALSE);
}

gboolean
_gcuda_home_remove (GCudaHome *self,
                    GCudaReclaimNode *node)
{
  GCudaReclaimNode **link, *last = NULL;
  GSource *source = NULL;
  gboolean found;

  g_mutex_lock (&self->lock);
  for (link = &self->queue; *link != NULL && *link != node; link = &(*link)->next)
    last = *link;
  found = *link != NULL;
  if (found)
    {
      *link = node->next;
      if (self->last == node)
        self->last = last;
      if (self->queue == NULL)
        source = g_steal_pointer (&self->source);
    }
  g_mutex_unlock (&self->lock);
  if (source != NULL)
    {
      g_source_destroy (source);
      g_source_unref (source);
    }
  return found;
}

typedef struct
{
  GCudaReclaimNode node;
  GObject *object;
} Drop;

static GCudaReclaimResult
drop_object (GCudaReclaimNode *node)
{
  Drop *self = (Drop *) node;

  g_object_unref (self->object);
  g_free (self);
  return GCUDA_RECLAIM_DONE;
}

void
_gcuda_home_drop (GCudaHome *self,
                  GObject *object)
{
  Drop *drop = g_new (Drop, 1);

  drop->object = object;
  _gcuda_home_push (self, &drop->node, drop_object);
  _gcuda_home_unref (self);
}
