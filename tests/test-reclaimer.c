/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The reclaimer by itself, with entries of the test's own: what it may not do to those who wait for it, and to those who
 * queue. This program is linked with the library's insides.
 */
#include <gcudamem/gcudamem.h>

#include "driver/gcuda-home-private.h"

#define PATIENCE (10 * G_TIME_SPAN_SECOND)

typedef struct
{
  GCudaReclaimNode node;
  gint let_go; /* until then it waits for the GPU */
  gint attempts;
  gint done;
} Entry;

static GCudaReclaimResult
attempt (GCudaReclaimNode *node)
{
  Entry *entry = (Entry *) node;

  g_atomic_int_inc (&entry->attempts);
  if (!g_atomic_int_get (&entry->let_go))
    return GCUDA_RECLAIM_AGAIN;
  g_atomic_int_set (&entry->done, TRUE);
  return GCUDA_RECLAIM_DONE;
}

/* A lock that is never given back shows here, and not as a test that hangs. */
static void
wait_for (gint *flag)
{
  gint64 deadline = g_get_monotonic_time () + PATIENCE;

  while (!g_atomic_int_get (flag))
    {
      g_assert_cmpint (g_get_monotonic_time (), <, deadline);
      g_thread_yield ();
    }
}

static void
settle (void)
{
  g_assert_true (_gcuda_reclaimer_settle (g_get_monotonic_time () + PATIENCE, NULL));
}

/* Who waits for what is queued comes to an end, though others queue all the time, and there never is nothing left. */
typedef struct
{
  gint begun;
  gint stop;
} Queuer;

static gpointer
keep_queueing (gpointer data)
{
  Queuer *queuer = data;
  Entry entries[2] = { 0 };
  guint current = 0;

  _gcuda_reclaimer_push (&entries[0].node, attempt);
  g_atomic_int_set (&queuer->begun, TRUE);
  while (!g_atomic_int_get (&queuer->stop))
    {
      Entry *old = &entries[current], *next = &entries[1 - current];

      /* The next one waits before this one goes. */
      *next = (Entry){ 0 };
      _gcuda_reclaimer_push (&next->node, attempt);
      wait_for (&next->attempts);
      g_atomic_int_set (&old->let_go, TRUE);
      wait_for (&old->done);
      current = 1 - current;
    }
  g_atomic_int_set (&entries[current].let_go, TRUE);
  wait_for (&entries[current].done);
  return NULL;
}

static void
test_others_queue (void)
{
  Queuer queuer = { 0 };
  GThread *thread = g_thread_new ("queuer", keep_queueing, &queuer);

  wait_for (&queuer.begun);
  for (guint i = 0; i < 20; i++)
    {
      Entry entry = { .let_go = TRUE };

      _gcuda_reclaimer_push (&entry.node, attempt);
      settle ();
      g_assert_true (g_atomic_int_get (&entry.done));
    }
  g_atomic_int_set (&queuer.stop, TRUE);
  g_thread_join (thread);
  settle ();
}

/* What is new is tried at once, without a pass over all that waits: many releases with much that waits would cost the square
 * of it. A pass may come in its own time now and then; so it is the best of some tries that counts. */
static void
test_much_waits (void)
{
  Entry old[64] = { 0 };
  guint best = G_MAXUINT;

  for (guint i = 0; i < G_N_ELEMENTS (old); i++)
    _gcuda_reclaimer_push (&old[i].node, attempt);
  for (guint i = 0; i < G_N_ELEMENTS (old); i++)
    wait_for (&old[i].attempts);
  for (guint try = 0; try < 50 && best > 8; try++)
    {
      gint before = g_atomic_int_get (&old[0].attempts);

      for (guint i = 0; i < 16; i++)
        {
          Entry fresh = { .let_go = TRUE };

          _gcuda_reclaimer_push (&fresh.node, attempt);
          wait_for (&fresh.done);
        }
      best = MIN (best, (guint) (g_atomic_int_get (&old[0].attempts) - before));
      /* The longer nothing comes, the rarer are the passes. */
      g_usleep (10000);
    }
  g_assert_cmpuint (best, <=, 8);
  for (guint i = 0; i < G_N_ELEMENTS (old); i++)
    g_atomic_int_set (&old[i].let_go, TRUE);
  settle ();
  for (guint i = 0; i < G_N_ELEMENTS (old); i++)
    g_assert_true (g_atomic_int_get (&old[i].done));
}

/* A home may be the last to hold its main context, and that takes its sources along: what their data drops can be another
 * home, or a whole resource. */
static gboolean
never (gpointer data)
{
  g_assert_not_reached ();
}

static gpointer
drop_home_of_context (gpointer data)
{
  GMainContext *context = g_main_context_new ();
  GSource *source = g_idle_source_new ();
  GCudaHome *home;

  g_source_set_callback (source, never, _gcuda_home_new (), (GDestroyNotify) _gcuda_home_unref);
  g_source_attach (source, context);
  g_source_unref (source);
  g_main_context_push_thread_default (context);
  home = _gcuda_home_new ();
  g_main_context_pop_thread_default (context);
  g_main_context_unref (context);
  _gcuda_home_unref (home);
  g_atomic_int_set ((gint *) data, TRUE);
  return NULL;
}

static void
test_home_and_context (void)
{
  gint done = FALSE;
  GThread *thread = g_thread_new ("home", drop_home_of_context, &done);

  wait_for (&done);
  g_thread_join (thread);
}

int
main (int argc,
      char **argv)
{
  g_autoptr (GError) error = NULL;

  g_test_init (&argc, &argv, NULL);
  g_assert_true (gcuda_is_available (&error));
  g_assert_no_error (error);
  g_test_add_func ("/reclaimer/others-queue", test_others_queue);
  g_test_add_func ("/reclaimer/much-waits", test_much_waits);
  g_test_add_func ("/reclaimer/home-and-context", test_home_and_context);
  return g_test_run ();
}
