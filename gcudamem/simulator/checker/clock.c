/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Timelines are streams, host threads and the branches of graphs. Each has a
 * slot in the clocks, and what happens on it counts its epochs up: one thing is
 * ordered after another exactly if its clock knows the other's epoch.
 *
 * Whatever is queued comes after what the queueing thread knows. Therefore what
 * all host threads know is over, for the checker too: it is forgotten, and the
 * slots of timelines that ended are used again, their epochs counting on. */

#include "checker.h"

typedef struct
{
  guint64 last; /* epoch */
  gboolean ended;
} Slot;

static GArray *slots;
static GPtrArray *hosts;
static GHashTable *streams; /* by handle: those that were created */
static GPtrArray *defaults; /* legacy and per-thread ones, and what stands for those that are gone */
static GHashTable *events;  /* by handle */
static GHashTable *devices; /* of contexts */
static guint n_streams;

/* ---- clocks ---- */

void
check_clock_clear (CheckClock *clock)
{
  g_free (clock->epochs);
  clock->epochs = NULL;
  clock->n = 0;
}

static void
clock_grow (CheckClock *clock, guint n)
{
  if (n <= clock->n)
    return;
  n = MAX (n, (slots->len + 7) & ~7u);
  clock->epochs = g_renew (guint64, clock->epochs, n);
  memset (clock->epochs + clock->n, 0, (n - clock->n) * sizeof (guint64));
  clock->n = n;
}

void
check_clock_join (CheckClock *clock, const CheckClock *other)
{
  clock_grow (clock, other->n);
  for (guint i = 0; i < other->n; i++)
    clock->epochs[i] = MAX (clock->epochs[i], other->epochs[i]);
}

void
check_clock_raise (CheckClock *clock, guint slot, guint64 epoch)
{
  clock_grow (clock, slot + 1);
  clock->epochs[slot] = MAX (clock->epochs[slot], epoch);
}

void
check_clock_copy (CheckClock *clock, const CheckClock *other)
{
  clock_grow (clock, other->n);
  if (other->n > 0)
    memcpy (clock->epochs, other->epochs, other->n * sizeof (guint64));
  if (clock->n > other->n)
    memset (clock->epochs + other->n, 0, (clock->n - other->n) * sizeof (guint64));
}

/* ---- slots ---- */

gboolean
check_is_old (guint slot, guint64 epoch)
{
  for (guint i = 0; i < hosts->len; i++)
    {
      CheckHost *host = g_ptr_array_index (hosts, i);

      if (!check_clock_knows (&host->clock, slot, epoch))
        return FALSE;
    }
  return TRUE;
}

/* One that was no other's before: for epochs that are not counted here. */
guint
check_slot_fresh (void)
{
  Slot fresh = { 0, FALSE };

  if (slots == NULL)
    slots = g_array_new (FALSE, TRUE, sizeof (Slot));
  g_array_append_val (slots, fresh);
  return slots->len - 1;
}

/* For a timeline that begins after CLOCK, or, if that is NULL, at any time. */
guint
check_slot_new (const CheckClock *clock)
{
  for (guint i = 0; slots != NULL && i < slots->len; i++)
    {
      Slot *slot = &g_array_index (slots, Slot, i);

      if (slot->ended && (check_is_old (i, slot->last) || (clock != NULL && check_clock_knows (clock, i, slot->last))))
        {
          slot->ended = FALSE;
          return i;
        }
    }
  return check_slot_fresh ();
}

void
check_slot_end (guint slot)
{
  g_array_index (slots, Slot, slot).ended = TRUE;
}

guint64
check_slot_tick (guint slot, CheckClock *clock)
{
  Slot *s = &g_array_index (slots, Slot, slot);

  clock_grow (clock, slot + 1);
  clock->epochs[slot] = ++s->last;
  return s->last;
}

/* ---- host threads ---- */

CheckHost *
check_host (void)
{
  guint64 thread = sim.check_threads ? sim_thread ()->id : 0;
  CheckHost *host;

  if (hosts == NULL)
    hosts = g_ptr_array_new ();
  for (guint i = 0; i < hosts->len; i++)
    {
      host = g_ptr_array_index (hosts, i);
      if (host->thread == thread)
        return host;
    }
  host = g_new0 (CheckHost, 1);
  host->thread = thread;
  /* Whoever started the thread knew something; what, nobody says. */
  for (guint i = 0; i < hosts->len; i++)
    check_clock_join (&host->clock, &((CheckHost *) g_ptr_array_index (hosts, i))->clock);
  host->slot = check_slot_new (NULL);
  host->version = 1;
  g_ptr_array_add (hosts, host);
  return host;
}

void
check_host_learn (const CheckClock *clock)
{
  CheckHost *host = check_host ();

  check_clock_join (&host->clock, clock);
  host->version++;
  check_shared_learnt ();
  check_guard_learnt ();
}

/* ---- streams ---- */

static CheckStream *
stream_new (CUstream handle, CUcontext context, SimStreamKind kind, gboolean blocking)
{
  static const char *const kinds[] = { "", " (legacy default)", " (per-thread default)" };
  CheckStream *stream = g_new0 (CheckStream, 1);
  char *name = g_strdup_printf ("stream %u%s", ++n_streams, kinds[kind]);

  check_host (); /* has the first slot */
  stream->slot = CHECK_NO_SLOT;
  stream->handle = handle;
  stream->context = context;
  stream->kind = kind;
  stream->blocking = blocking;
  stream->name = g_ref_string_new (name);
  g_free (name);
  if (!g_hash_table_contains (devices, context))
    {
      CUdevice device = -1;
      CUcontext current = NULL, popped;

      if (CHECK_DRIVER (cuCtxGetCurrent, &current) == CUDA_SUCCESS && current == context)
        CHECK_DRIVER (cuCtxGetDevice, &device);
      else if (CHECK_DRIVER (cuCtxPushCurrent_v2, context) == CUDA_SUCCESS)
        {
          CHECK_DRIVER (cuCtxGetDevice, &device);
          CHECK_DRIVER (cuCtxPopCurrent_v2, &popped);
        }
      g_hash_table_insert (devices, context, GINT_TO_POINTER (device));
    }
  return stream;
}

static void
stream_free (gpointer data)
{
  CheckStream *stream = data;

  if (stream->slot != CHECK_NO_SLOT)
    check_slot_end (stream->slot);
  check_clock_clear (&stream->clock);
  g_clear_pointer (&stream->name, g_ref_string_release);
  g_free (stream);
}

/* Nothing more is queued in the stream, but its work goes on: one that has no
 * work of its own stands for all those of its context that are gone. */
static void
stream_gone (const CheckStream *stream)
{
  CheckStream *gone = NULL;

  for (guint i = 0; i < defaults->len && gone == NULL; i++)
    {
      CheckStream *other = g_ptr_array_index (defaults, i);

      if (other->gone && other->context == stream->context && other->blocking == stream->blocking)
        gone = other;
    }
  if (gone == NULL)
    {
      gone = g_new0 (CheckStream, 1);
      gone->slot = CHECK_NO_SLOT;
      gone->gone = TRUE;
      gone->context = stream->context;
      gone->blocking = stream->blocking;
      g_ptr_array_add (defaults, gone);
    }
  check_clock_join (&gone->clock, &stream->clock);
  gone->version++;
}

static void
start (void)
{
  if (streams != NULL)
    return;
  streams = g_hash_table_new_full (NULL, NULL, NULL, stream_free);
  defaults = g_ptr_array_new_with_free_func (stream_free);
  devices = g_hash_table_new (NULL, NULL);
}

CheckStream *
check_stream_add (CUstream handle, CUcontext context, gboolean blocking)
{
  CheckStream *stream;

  start ();
  stream = stream_new (handle, context, SIM_STREAM_CREATED, blocking);
  g_hash_table_insert (streams, handle, stream);
  return stream;
}

static CheckStream *
default_stream (SimThread *thread, CUcontext context, SimStreamKind kind)
{
  CheckStream *stream;

  for (guint i = 0; i < defaults->len; i++)
    {
      stream = g_ptr_array_index (defaults, i);
      if (stream->context == context && stream->kind == kind && (kind == SIM_STREAM_LEGACY || stream->thread == thread->id))
        return stream;
    }
  stream = stream_new (NULL, context, kind, kind == SIM_STREAM_PER_THREAD);
  stream->thread = thread->id;
  g_ptr_array_add (defaults, stream);
  return stream;
}

/* NULL: a default stream with no context. */
CheckStream *
check_stream (SimThread *thread, CUcontext current, CUstream handle)
{
  CheckStream *stream;

  start ();
  if (handle == NULL)
    handle = thread->per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
  if (handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
    {
      if (current == NULL)
        return NULL;
      return default_stream (thread, current, handle == CU_STREAM_LEGACY ? SIM_STREAM_LEGACY : SIM_STREAM_PER_THREAD);
    }
  stream = g_hash_table_lookup (streams, handle);
  if (stream == NULL)
    {
      /* Made where nobody looked. */
      unsigned int flags = 0;
      CUcontext context = NULL;

      CHECK_DRIVER (cuStreamGetFlags, handle, &flags);
      CHECK_DRIVER (cuStreamGetCtx, handle, &context);
      stream = check_stream_add (handle, context, !(flags & CU_STREAM_NON_BLOCKING));
    }
  return stream;
}

static gboolean
is_of_context (CheckStream *stream, CUcontext context, const CUdevice *device)
{
  if (device != NULL)
    return GPOINTER_TO_INT (g_hash_table_lookup (devices, stream->context)) == *device;
  return context == NULL || stream->context == context;
}

static void
each_stream (void (*function) (CheckStream *stream, gpointer data), CUcontext context, const CUdevice *device, gpointer data)
{
  GHashTableIter iter;
  gpointer value;

  if (streams == NULL)
    return;
  g_hash_table_iter_init (&iter, streams);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    {
      if (is_of_context (value, context, device))
        function (value, data);
    }
  for (guint i = 0; i < defaults->len; i++)
    {
      if (is_of_context (g_ptr_array_index (defaults, i), context, device))
        function (g_ptr_array_index (defaults, i), data);
    }
}

static CheckStream *
legacy_of (CUcontext context)
{
  for (guint i = 0; i < defaults->len; i++)
    {
      CheckStream *stream = g_ptr_array_index (defaults, i);

      if (stream->kind == SIM_STREAM_LEGACY && stream->context == context)
        return stream;
    }
  return NULL;
}

static void
join_blocking (CheckStream *other, gpointer data)
{
  CheckStream *legacy = data;

  if (other == legacy || !other->blocking || other->told == other->version)
    return;
  check_clock_join (&legacy->clock, &other->clock);
  other->told = other->version;
}

/* What is queued in the stream now comes after its clock. */
const CheckClock *
check_stream_now (CheckStream *stream)
{
  CheckHost *host = check_host ();
  CheckStream *legacy;

  if (stream->kind == SIM_STREAM_LEGACY)
    each_stream (join_blocking, stream->context, NULL, stream);
  else if (stream->blocking && (legacy = legacy_of (stream->context)) != NULL && stream->heard != legacy->version)
    {
      check_clock_join (&stream->clock, &legacy->clock);
      stream->heard = legacy->version;
    }
  /* What is queued comes after what the thread knows. */
  if (stream->joined != host->thread || stream->joined_version != host->version)
    {
      check_clock_join (&stream->clock, &host->clock);
      stream->joined = host->thread;
      stream->joined_version = host->version;
    }
  stream->version++;
  return &stream->clock;
}

guint64
check_stream_tick (CheckStream *stream)
{
  check_stream_now (stream);
  if (stream->slot == CHECK_NO_SLOT)
    stream->slot = check_slot_new (&stream->clock);
  return check_slot_tick (stream->slot, &stream->clock);
}

static void
add_blocking (CheckStream *other, gpointer data)
{
  if (other->blocking)
    check_clock_join (data, &other->clock);
}

/* What was queued in the stream until now, and what that waits for. To ask is
 * not to queue: nothing else comes after it. */
void
check_stream_past (CheckStream *stream, CheckClock *clock)
{
  CheckStream *legacy;

  check_clock_join (clock, &stream->clock);
  if (stream->kind == SIM_STREAM_LEGACY)
    each_stream (add_blocking, stream->context, NULL, clock);
  else if (stream->blocking && (legacy = legacy_of (stream->context)) != NULL)
    check_clock_join (clock, &legacy->clock);
}

void
check_stream_wait (CheckStream *stream, const CheckClock *clock)
{
  check_stream_now (stream);
  check_clock_join (&stream->clock, clock);
}

static void
add_clock (CheckStream *stream, gpointer data)
{
  check_clock_join (data, &stream->clock);
}

void
check_streams_join (CheckClock *clock, CUcontext context, const CUdevice *device)
{
  each_stream (add_clock, context, device, clock);
}

static void
wait_for (CheckStream *stream, gpointer data)
{
  if (!stream->gone)
    check_stream_wait (stream, data);
}

void
check_streams_wait (CUcontext context, const CheckClock *clock)
{
  each_stream (wait_for, context, NULL, (gpointer) clock);
}

void
check_stream_end (CUstream handle)
{
  CheckStream *stream = streams != NULL ? g_hash_table_lookup (streams, handle) : NULL;

  if (stream == NULL)
    return;
  stream_gone (stream);
  g_hash_table_remove (streams, handle);
}

void
check_thread_end (guint64 thread)
{
  for (guint i = defaults != NULL ? defaults->len : 0; i > 0; i--)
    {
      CheckStream *stream = g_ptr_array_index (defaults, i - 1);

      if (stream->kind != SIM_STREAM_PER_THREAD || stream->thread != thread)
        continue;
      stream_gone (stream);
      g_ptr_array_remove_index_fast (defaults, i - 1);
    }
  for (guint i = hosts != NULL && sim.check_threads ? hosts->len : 0; i > 0; i--)
    {
      CheckHost *host = g_ptr_array_index (hosts, i - 1);

      if (host->thread != thread)
        continue;
      check_slot_end (host->slot);
      check_clock_clear (&host->clock);
      g_free (host);
      g_ptr_array_remove_index_fast (hosts, i - 1);
    }
}

static gboolean
stream_in_context (gpointer key, gpointer value, gpointer data)
{
  (void) key;
  return ((CheckStream *) value)->context == data;
}

void
check_context_end (CUcontext context)
{
  if (streams == NULL)
    return;
  g_hash_table_foreach_remove (streams, stream_in_context, context);
  for (guint i = defaults->len; i > 0; i--)
    {
      if (((CheckStream *) g_ptr_array_index (defaults, i - 1))->context == context)
        g_ptr_array_remove_index_fast (defaults, i - 1);
    }
  g_hash_table_remove (devices, context);
  check_memory_context_end (context);
}

/* ---- events ---- */

static void
event_free (gpointer data)
{
  CheckEvent *event = data;

  check_clock_clear (&event->clock);
  g_clear_pointer (&event->shared, check_shared_unref);
  g_free (event);
}

CheckEvent *
check_event (CUevent handle)
{
  CheckEvent *event;

  if (events == NULL)
    events = g_hash_table_new_full (NULL, NULL, NULL, event_free);
  event = g_hash_table_lookup (events, handle);
  if (event == NULL)
    {
      event = g_new0 (CheckEvent, 1);
      g_hash_table_insert (events, handle, event);
    }
  return event;
}

void
check_event_end (CUevent handle)
{
  if (events != NULL)
    g_hash_table_remove (events, handle);
}
