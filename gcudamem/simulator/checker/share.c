/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Memory and events that several processes use. Each has a board, a small file
 * that those who know its handle find: what each process did to the memory that
 * it does not know to be over, and what the latest record of an event stands
 * for. So a hand-over is checked by whoever comes second.
 *
 * Another process's timelines have slots here as well. What its program knows
 * to be over is over for all: the message that tells of it is not seen. */

#include "checker.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC      G_GUINT64_CONSTANT (0x6763756461627264)
#define MAX_RECORD 128
#define MAX_EPOCHS 1024

typedef struct
{
  guint64 epoch; /* 0: none */
  guint64 offset, size;
  guint32 pid, slot;
  guint32 what;
  char function[48], where[40];
} Record;

typedef struct
{
  guint64 magic;
  gint owner; /* atomic: the pid of who looks at it now */
  guint32 next;
  Record records[MAX_RECORD];
  /* Of an event */
  guint32 pid, n_epochs;
  struct
  {
    guint64 epoch;
    guint32 slot;
  } epochs[MAX_EPOCHS];
} Board;

struct _CheckShared
{
  gint refs;
  Board *board;
  char *path;
  gboolean made; /* here: the file goes with it */
};

static GPtrArray *boards;
static GHashTable *slots; /* of other processes' timelines: guint64 to slot + 1 */

/* Whoever holds it and died must not keep it. */
static gboolean
board_lock (Board *board)
{
  gint64 deadline = g_get_monotonic_time () + G_TIME_SPAN_SECOND;

  if (board->magic != MAGIC)
    return FALSE;
  while (!g_atomic_int_compare_and_exchange (&board->owner, 0, (gint) getpid ()))
    {
      if (g_get_monotonic_time () > deadline)
        {
          g_atomic_int_set (&board->owner, (gint) getpid ());
          break;
        }
      g_thread_yield ();
    }
  return TRUE;
}

static void
board_unlock (Board *board)
{
  g_atomic_int_set (&board->owner, 0);
}

static char *
board_path (const char *kind, gconstpointer key, gsize size)
{
  char *hash = g_compute_checksum_for_data (G_CHECKSUM_SHA1, key, size);
  char *path = g_strdup_printf ("/dev/shm/gcudasim-%s-%u-%s", kind, (guint) getuid (), hash);

  g_free (hash);
  return path;
}

static void
remove_boards (void)
{
  for (guint i = 0; boards != NULL && i < boards->len; i++)
    {
      CheckShared *shared = g_ptr_array_index (boards, i);

      if (shared->made && !g_atomic_int_get (&sim.forked))
        unlink (shared->path);
    }
}

/* The board of whatever KEY names to all processes; NULL: nobody made one. */
CheckShared *
check_shared_get (const char *kind, gconstpointer key, gsize size, gboolean make)
{
  char *path = board_path (kind, key, size);
  CheckShared *shared;
  gpointer memory;
  int fd;

  if (boards == NULL)
    {
      boards = g_ptr_array_new ();
      atexit (remove_boards);
    }
  for (guint i = 0; i < boards->len; i++)
    {
      shared = g_ptr_array_index (boards, i);
      if (strcmp (shared->path, path) == 0)
        {
          g_free (path);
          shared->refs++;
          /* What was exported under the same name before is gone. */
          if (make && board_lock (shared->board))
            {
              memset (shared->board->records, 0, sizeof shared->board->records);
              board_unlock (shared->board);
            }
          return shared;
        }
    }
  fd = open (path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | (make ? O_CREAT | O_TRUNC : 0), 0600);
  if (fd < 0 || (make && ftruncate (fd, sizeof (Board)) != 0))
    {
      if (fd >= 0)
        close (fd);
      g_free (path);
      return NULL;
    }
  memory = mmap (NULL, sizeof (Board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close (fd);
  if (memory == MAP_FAILED)
    {
      g_free (path);
      return NULL;
    }
  shared = g_new0 (CheckShared, 1);
  shared->refs = 1;
  shared->board = memory;
  shared->path = path;
  shared->made = make;
  if (make)
    shared->board->magic = MAGIC;
  g_ptr_array_add (boards, shared);
  return shared;
}

void
check_shared_unref (CheckShared *shared)
{
  if (--shared->refs > 0)
    return;
  g_ptr_array_remove_fast (boards, shared);
  if (shared->made)
    unlink (shared->path);
  munmap (shared->board, sizeof (Board));
  g_free (shared->path);
  g_free (shared);
}

/* CHECK_NO_SLOT: nothing was heard of it, and it is not to be made. */
static guint
local_slot (guint32 pid, guint32 slot, gboolean make)
{
  guint64 key = (guint64) pid << 32 | slot;
  guint found;

  if (slots == NULL)
    slots = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
  found = GPOINTER_TO_UINT (g_hash_table_lookup (slots, &key));
  if (found == 0 && !make)
    return CHECK_NO_SLOT;
  if (found == 0)
    {
      found = check_slot_fresh () + 1;
      g_hash_table_insert (slots, g_memdup2 (&key, sizeof key), GUINT_TO_POINTER (found));
    }
  return found - 1;
}

/* ---- memory ---- */

static void
meet (CheckObject *object, Record *record, guint64 offset, guint64 size, CheckOp *op, const CheckClock *clock)
{
  char *text, *where;
  CheckOp *first;
  guint slot;

  if (record->epoch == 0 || record->pid == (guint32) getpid () || record->offset >= offset + size || offset >= record->offset + record->size)
    return;
  if (op->what == CHECK_READ && record->what == CHECK_READ)
    return;
  slot = local_slot (record->pid, record->slot, FALSE);
  if (record->what != CHECK_FREE && check_clock_knows (clock, slot, record->epoch))
    return;
  text = g_strdup_printf ("process %u, %.*s", record->pid, (int) sizeof record->where, record->where);
  where = g_ref_string_new (text);
  first = check_op_new ((CheckWhat) record->what, g_intern_string (record->function), where, slot, record->epoch);
  g_clear_pointer (&first->stack, check_stack_unref);
  first->address = object->base + record->offset;
  first->size = record->size;
  check_report (CHECK_KIND_SHARED_MEMORY, first, op, object, MAX (offset, record->offset), MIN (size, record->size));
  check_op_unref (first);
  g_ref_string_release (where);
  g_free (text);
}

static void
add_record (Board *board, const CheckOp *op, guint64 offset, guint64 size)
{
  Record *record = NULL;

  for (guint i = 0; i < MAX_RECORD && record == NULL; i++)
    {
      if (board->records[i].epoch == 0)
        record = &board->records[i];
    }
  /* Full: the oldest is forgotten. */
  if (record == NULL)
    record = &board->records[board->next++ % MAX_RECORD];
  record->epoch = op->epoch;
  record->offset = offset;
  record->size = size;
  record->pid = (guint32) getpid ();
  record->slot = op->slot;
  record->what = (guint32) op->what;
  g_strlcpy (record->function, op->function, sizeof record->function);
  g_strlcpy (record->where, op->where, sizeof record->where);
}

void
check_shared_access (CheckObject *object, guint64 offset, guint64 size, CheckOp *op, const CheckClock *clock)
{
  Board *board = object->shared->board;

  /* Who imported it frees only what is its own: the address. */
  if (op->what == CHECK_UNMAP || (op->what == CHECK_FREE && object->memory == CHECK_MEMORY_SHARED) || !board_lock (board))
    return;
  for (guint i = 0; i < MAX_RECORD; i++)
    meet (object, &board->records[i], offset, size, op, clock);
  if (!op->host || op->what == CHECK_FREE)
    add_record (board, op, offset, size);
  board_unlock (board);
}

/* What was done before it was exported. */
void
check_shared_publish (CheckShared *shared, const CheckOp *op, guint64 offset, guint64 size)
{
  if (op->host || check_is_old (op->slot, op->epoch) || !board_lock (shared->board))
    return;
  add_record (shared->board, op, offset, size);
  board_unlock (shared->board);
}

/* The program learnt something: what it did to shared memory may be over. */
void
check_shared_learnt (void)
{
  for (guint b = 0; boards != NULL && b < boards->len; b++)
    {
      Board *board = ((CheckShared *) g_ptr_array_index (boards, b))->board;

      if (!board_lock (board))
        continue;
      for (guint i = 0; i < MAX_RECORD; i++)
        {
          Record *record = &board->records[i];

          if (record->epoch != 0 && record->what != CHECK_FREE && record->pid == (guint32) getpid () && check_is_old (record->slot, record->epoch))
            record->epoch = 0;
        }
      board_unlock (board);
    }
}

/* ---- events ---- */

void
check_shared_event_recorded (CheckEvent *event)
{
  Board *board = event->shared->board;

  if (!board_lock (board))
    return;
  board->pid = (guint32) getpid ();
  board->n_epochs = 0;
  /* What is over is not on any board. */
  for (guint i = 0; i < event->clock.n && board->n_epochs < MAX_EPOCHS; i++)
    {
      if (event->clock.epochs[i] == 0 || check_is_old (i, event->clock.epochs[i]))
        continue;
      board->epochs[board->n_epochs].slot = i;
      board->epochs[board->n_epochs++].epoch = event->clock.epochs[i];
    }
  board_unlock (board);
}

void
check_shared_event_wait (CheckEvent *event, CheckClock *clock)
{
  Board *board = event->shared->board;
  __typeof__ (board->epochs) epochs;
  guint32 n, pid;

  if (!board_lock (board))
    return;
  n = MIN (board->n_epochs, MAX_EPOCHS);
  pid = board->pid;
  memcpy (epochs, board->epochs, n * sizeof epochs[0]);
  board_unlock (board);
  if (pid == (guint32) getpid ())
    return;
  for (guint32 i = 0; i < n; i++)
    check_clock_raise (clock, local_slot (pid, epochs[i].slot, TRUE), epochs[i].epoch);
}
