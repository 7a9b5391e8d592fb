/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-hazard-private.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

static void hazards_free (gpointer data);

GCUDA_THREAD_LOCAL GCudaHazards *_gcuda_own_hazards = NULL;

static GPrivate owner = G_PRIVATE_INIT (hazards_free);
static GMutex lock;
static GCudaHazards *all; /* of the threads that have any */

static int
membarrier (int command)
{
  return (int) syscall (__NR_membarrier, command, 0, 0);
}

static gboolean
is_supported (void)
{
  static gsize answer = 0;

  if (g_once_init_enter (&answer))
    g_once_init_leave (&answer, membarrier (MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0 ? 1 : 2);
  return answer == 1;
}

/* The thread ends. */
static void
hazards_free (gpointer data)
{
  GCudaHazards *self = data;

  _gcuda_own_hazards = NULL;
  g_mutex_lock (&lock);
  for (GCudaHazards **link = &all; *link != NULL; link = &(*link)->next)
    if (*link == self)
      {
        *link = self->next;
        break;
      }
  g_mutex_unlock (&lock);
  g_free (self);
}

GCudaHazards *
_gcuda_hazards_new (void)
{
  GCudaHazards *self;

  if (!is_supported ())
    return NULL;
  self = g_new0 (GCudaHazards, 1);
  g_mutex_lock (&lock);
  self->next = all;
  all = self;
  g_mutex_unlock (&lock);
  g_private_set (&owner, self);
  _gcuda_own_hazards = self;
  return self;
}

void
_gcuda_hazard_barrier (void)
{
  gboolean others;

  /* A thread that comes into the list later has taken this lock, and sees what was marked before. */
  g_mutex_lock (&lock);
  others = all != NULL && (all != _gcuda_own_hazards || all->next != NULL);
  g_mutex_unlock (&lock);
  if (others)
    membarrier (MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

gboolean
_gcuda_hazard_is_noted (gconstpointer thing)
{
  gboolean noted = FALSE;

  g_mutex_lock (&lock);
  for (GCudaHazards *one = all; one != NULL && !noted; one = one->next)
    for (guint i = 0; i < GCUDA_HAZARDS; i++)
      noted |= __atomic_load_n (&one->noted[i], __ATOMIC_ACQUIRE) == thing;
  g_mutex_unlock (&lock);
  return noted;
}
