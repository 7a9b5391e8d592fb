/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-hazard-private.h"

#include <linux/membarrier.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CACHE_LINES 128 /* no thread writes where another one does */

static void thread_ends (gpointer data);

GCUDA_THREAD_LOCAL GCudaHazards *_gcuda_hazards_of_thread;

static GPrivate owner = G_PRIVATE_INIT (thread_ends);

/* As many as there were threads at a time. None is ever freed: a thread that ends leaves its own to the next. */
static GCudaHazards *all;

static int
membarrier (int command)
{
  return (int) syscall (__NR_membarrier, command, 0, 0);
}

static gint supported; /* by the system, and it is ready */

static gpointer
register_process (gpointer data)
{
  if (membarrier (MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0)
    g_atomic_int_set (&supported, TRUE);
  return NULL;
}

void
_gcuda_hazards_prepare (void)
{
  GThread *thread;

  if (g_atomic_int_get (&supported))
    return;
  thread = g_thread_try_new ("gcuda-hazards", register_process, NULL, NULL);
  if (thread != NULL)
    g_thread_unref (thread);
  else
    register_process (NULL);
}

static void
thread_ends (gpointer data)
{
  GCudaHazards *self = data;

  _gcuda_hazards_of_thread = NULL;
  /* It may end in the middle of a call. */
  for (guint i = 0; i < GCUDA_HAZARDS; i++)
    _gcuda_hazard_clear (&self->noted[i]);
  __atomic_store_n (&self->teardowns, 0, __ATOMIC_RELEASE);
  g_atomic_int_set (&self->taken, FALSE);
}

GCudaHazards *
_gcuda_hazards_new (void)
{
  GCudaHazards *self;

  G_STATIC_ASSERT (sizeof (GCudaHazards) <= CACHE_LINES);

  if (!g_atomic_int_get (&supported))
    return NULL;
  for (self = g_atomic_pointer_get (&all); self != NULL; self = self->next)
    if (!g_atomic_int_get (&self->taken) && g_atomic_int_compare_and_exchange (&self->taken, FALSE, TRUE))
      break;
  if (self == NULL)
    {
      self = aligned_alloc (CACHE_LINES, CACHE_LINES);
      if (self == NULL)
        return NULL;
      *self = (GCudaHazards){ .taken = TRUE };
      do
        self->next = g_atomic_pointer_get (&all);
      while (!g_atomic_pointer_compare_and_exchange (&all, self->next, self));
    }
  g_private_set (&owner, self);
  _gcuda_hazards_of_thread = self;
  return self;
}

gboolean
_gcuda_hazard_barrier (void)
{
  /* A thread that takes its own after this look sees what was marked before it: both are ordered with all else. */
  for (GCudaHazards *one = g_atomic_pointer_get (&all); one != NULL; one = one->next)
    if (one != _gcuda_hazards_of_thread && g_atomic_int_get (&one->taken))
      return membarrier (MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
  return TRUE;
}

gboolean
_gcuda_hazard_is_free (gconstpointer thing)
{
  if (!_gcuda_hazard_barrier ())
    return FALSE;
  for (GCudaHazards *one = g_atomic_pointer_get (&all); one != NULL; one = one->next)
    for (guint i = 0; i < GCUDA_HAZARDS; i++)
      if (__atomic_load_n (&one->noted[i], __ATOMIC_ACQUIRE) == thing)
        return FALSE;
  return TRUE;
}

gint
_gcuda_hazard_teardowns (void)
{
  gint count = 0;

  for (GCudaHazards *one = g_atomic_pointer_get (&all); one != NULL; one = one->next)
    count += __atomic_load_n (&one->teardowns, __ATOMIC_ACQUIRE);
  return count;
}
