/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Handles are addresses of slots in one reserved table: any value that a
 * program passes can be checked without touching it, a destroyed one is
 * recognised, and now and then an old value is given out again, as the real
 * driver does. */

#include "sim-private.h"

#include <sys/mman.h>

#define SLOT_SIZE 64
#define N_SLOTS (G_GUINT64_CONSTANT (1) << 22)

typedef struct
{
  gpointer object;
  guint32 kind;
  guint32 live;
  guint64 next_free;          /* index + 1 */
} SimSlot;

static guint8 *table;
static guint64 n_used;        /* slots ever used; 0 is none */
static guint64 free_lists[SIM_HANDLE_LAST];
static guint n_free[SIM_HANDLE_LAST];
static guint n_live[SIM_HANDLE_LAST];

static SimSlot *
slot_at (guint64 index)
{
  return (SimSlot *) (gpointer) (table + index * SLOT_SIZE);
}

gpointer
sim_handle_new (SimHandleKind kind, gpointer object)
{
  SimSlot *slot;

  if (table == NULL)
    {
      table = mmap (NULL, N_SLOTS * SLOT_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (table == MAP_FAILED)
        sim_fatal ("no address space for handles");
      n_used = 1;
    }
  /* Reuse at once sometimes, and always once many wait. */
  if (free_lists[kind] != 0 && (n_free[kind] > 64 || g_rand_int_range (sim.random, 0, 4) == 0))
    {
      slot = slot_at (free_lists[kind] - 1);
      free_lists[kind] = slot->next_free;
      n_free[kind]--;
    }
  else
    {
      if (n_used >= N_SLOTS)
        sim_fatal ("too many handles");
      slot = slot_at (n_used++);
    }
  slot->object = object;
  slot->kind = kind;
  slot->live = TRUE;
  n_live[kind]++;
  return slot;
}

gpointer
sim_handle_get (gconstpointer handle, SimHandleKind kind, gboolean *dead)
{
  guint64 offset = (guintptr) handle - (guintptr) table;
  SimSlot *slot;

  if (dead != NULL)
    *dead = FALSE;
  if (table == NULL || handle == NULL || (guintptr) handle < (guintptr) table || offset >= n_used * SLOT_SIZE || offset % SLOT_SIZE != 0)
    return NULL;
  slot = (SimSlot *) (gpointer) (table + offset);
  if (slot->kind != kind)
    return NULL;
  if (slot->live)
    return slot->object;
  if (dead != NULL)
    *dead = TRUE;
  return NULL;
}

void
sim_handle_free (gpointer handle)
{
  SimSlot *slot = handle;

  g_assert (slot->live);
  slot->live = FALSE;
  slot->object = NULL;
  slot->next_free = free_lists[slot->kind];
  free_lists[slot->kind] = ((guint64) ((guint8 *) handle - table)) / SLOT_SIZE + 1;
  n_free[slot->kind]++;
  n_live[slot->kind]--;
}

guint
sim_handle_count (SimHandleKind kind)
{
  return n_live[kind];
}
