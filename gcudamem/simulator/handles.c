/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Handles are addresses in one reserved, inaccessible range: any value that a
 * program passes can be checked, a destroyed one is recognised, one that is
 * followed as a pointer faults, and now and then an old value is given out
 * again, as the real driver does. */

#include "sim-private.h"

#include <sys/mman.h>

#define SLOT_SIZE 64
#define N_SLOTS   (G_GUINT64_CONSTANT (1) << 22)

typedef struct
{
  gpointer object;
  guint32 kind;
  guint32 live;
  guint64 next_free; /* index; 0: none */
} SimSlot;

static guint8 *table; /* the range */
static GArray *slots; /* of SimSlot; the first is none */
static guint64 free_lists[SIM_HANDLE_LAST];
static guint n_free[SIM_HANDLE_LAST];
static guint n_live[SIM_HANDLE_LAST];

static SimSlot *
slot_at (guint64 index)
{
  return &g_array_index (slots, SimSlot, index);
}

gpointer
sim_handle_new (SimHandleKind kind, gpointer object)
{
  guint64 index;
  SimSlot *slot;

  if (table == NULL)
    {
      table = mmap (NULL, N_SLOTS * SLOT_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (table == MAP_FAILED)
        sim_fatal ("no address space for handles");
      slots = g_array_new (FALSE, TRUE, sizeof (SimSlot));
      g_array_set_size (slots, 1);
    }
  /* Reuse at once sometimes, and always once many wait. */
  if (free_lists[kind] != 0 && (n_free[kind] > 64 || g_rand_int_range (sim.random, 0, 4) == 0))
    {
      index = free_lists[kind];
      free_lists[kind] = slot_at (index)->next_free;
      n_free[kind]--;
    }
  else
    {
      index = slots->len;
      if (index >= N_SLOTS)
        sim_fatal ("too many handles");
      g_array_set_size (slots, (guint) index + 1);
    }
  slot = slot_at (index);
  slot->object = object;
  slot->kind = kind;
  slot->live = TRUE;
  n_live[kind]++;
  return table + index * SLOT_SIZE;
}

gpointer
sim_handle_get (gconstpointer handle, SimHandleKind kind, gboolean *dead)
{
  guint64 offset = (guintptr) handle - (guintptr) table;
  SimSlot *slot;

  if (dead != NULL)
    *dead = FALSE;
  if (table == NULL || (guintptr) handle < (guintptr) table || offset % SLOT_SIZE != 0 || offset / SLOT_SIZE >= slots->len)
    return NULL;
  slot = slot_at (offset / SLOT_SIZE);
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
  guint64 index = (guint64) ((guint8 *) handle - table) / SLOT_SIZE;
  SimSlot *slot = slot_at (index);

  g_assert (slot->live);
  slot->live = FALSE;
  slot->object = NULL;
  slot->next_free = free_lists[slot->kind];
  free_lists[slot->kind] = index;
  n_free[slot->kind]++;
  n_live[slot->kind]--;
}

guint
sim_handle_count (SimHandleKind kind)
{
  return n_live[kind];
}
