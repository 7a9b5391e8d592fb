/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "common/gcuda-test.h"

#include <string.h>

/*
 * Threads that do at random what programs do, with the same streams, resources, contexts and buffers. Each buffer has one stream
 * that its work is ordered on, so nothing may race; what another thread closed is refused, and nothing else. At the end all is gone.
 * A seed gives each thread the same steps again (GCUDASIM_SEED), not the same interleaving.
 */

#define N_THREADS   4
#define N_STREAMS   10
#define N_RESOURCES 6
#define N_CONTEXTS  3
#define N_SLOTS     16

typedef struct
{
  GMutex lock;
  GCudaBuffer *buffer;
  GCudaStream *stream; /* what its work is ordered on */
  guint8 value;        /* of each byte */
} Slot;

typedef struct
{
  Bed *bed;
  GMutex lock; /* of the tables */
  GObject *streams[N_STREAMS];
  GObject *resources[N_RESOURCES];
  GObject *contexts[N_CONTEXTS];
  Slot slots[N_SLOTS];
  GRWLock closing; /* no stream is closed while somebody reads */
  guint n_steps;
  gint refused;
  gint done;
} Stress;

typedef struct
{
  Stress *stress;
  GRand *rand;
} Worker;

static gboolean
one_in (Worker *self,
        gint n)
{
  return g_rand_int_range (self->rand, 0, n) == 0;
}

/* A new reference to any of the table, or NULL. */
static gpointer
pick (Worker *self,
      GObject **table,
      guint n)
{
  GObject **place = &table[g_rand_int_range (self->rand, 0, (gint32) n)];
  GObject *object;

  g_mutex_lock (&self->stress->lock);
  object = *place != NULL ? g_object_ref (*place) : NULL;
  g_mutex_unlock (&self->stress->lock);
  return object;
}

/* Takes the object over, and drops what was in its place. */
static void
put (Worker *self,
     GObject **table,
     guint n,
     gpointer object)
{
  GObject **place = &table[g_rand_int_range (self->rand, 0, (gint32) n)];
  GObject *old;

  g_mutex_lock (&self->stress->lock);
  old = *place;
  *place = object;
  g_mutex_unlock (&self->stress->lock);
  g_clear_object (&old);
}

/* Others may have closed it meanwhile. */
static gboolean
went (Worker *self,
      GError *error)
{
  if (error == NULL)
    {
      g_atomic_int_inc (&self->stress->done);
      return TRUE;
    }
  if (!g_error_matches (error, GCUDA_ERROR, GCUDA_ERROR_CLOSED) && !g_error_matches (error, GCUDA_ERROR, GCUDA_ERROR_IN_USE))
    g_error ("%s", error->message);
  g_atomic_int_inc (&self->stress->refused);
  g_error_free (error);
  return FALSE;
}

static void
empty (Slot *slot)
{
  g_clear_object (&slot->buffer);
  g_clear_object (&slot->stream);
}

static GCudaMemoryResource *
new_resource (Worker *self,
              GError **error)
{
  Bed *bed = self->stress->bed;
  g_autoptr (GCudaContext) context = NULL;
  g_autoptr (GCudaMemoryResource) upstream = NULL;

  switch (g_rand_int_range (self->rand, 0, 8))
    {
    case 0:
      context = pick (self, self->stress->contexts, N_CONTEXTS);
      return (GCudaMemoryResource *) gcuda_synchronous_memory_resource_new (context != NULL ? context : bed->context, error);
    case 1:
      return (GCudaMemoryResource *) gcuda_pinned_memory_resource_new (bed->device, error);
    case 2:
      return (GCudaMemoryResource *) gcuda_virtual_memory_resource_new (bed->device, NULL, error);
    case 3:
      upstream = pick (self, self->stress->resources, N_RESOURCES);
      return (GCudaMemoryResource *) gcuda_statistics_memory_resource_new (upstream != NULL ? upstream : bed->resource);
    default:
      return (GCudaMemoryResource *) gcuda_device_memory_resource_new_pool (bed->device, 0, GCUDA_HANDLE_TYPES_NONE, error);
    }
}

static GCudaStream *
new_stream (Worker *self,
            GError **error)
{
  g_autoptr (GCudaContext) context = pick (self, self->stress->contexts, N_CONTEXTS);

  if (context == NULL)
    context = g_object_ref (self->stress->bed->context);
  if (one_in (self, 6))
    return gcuda_stream_new_legacy_default (context, error);
  return gcuda_stream_new (context, one_in (self, 3) ? GCUDA_STREAM_FLAGS_BLOCKING : GCUDA_STREAM_FLAGS_NONE, 0, error);
}

static void
allocate (Worker *self,
          Slot *slot)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaMemoryResource) resource = pick (self, self->stress->resources, N_RESOURCES);
  g_autoptr (GCudaStream) stream = pick (self, self->stress->streams, N_STREAMS);
  const guint64 size = one_in (self, 2) ? 4096 : 1 << g_rand_int_range (self->rand, 0, 18);

  if (resource == NULL || stream == NULL)
    return;
  empty (slot);
  slot->buffer = gcuda_memory_resource_allocate (resource, size, stream, &error);
  if (!went (self, g_steal_pointer (&error)))
    return;
  slot->stream = g_object_ref (stream);
  slot->value = (guint8) g_rand_int (self->rand);
  gcuda_buffer_fill (slot->buffer, slot->value, 1, stream, &error);
  if (!went (self, g_steal_pointer (&error)))
    empty (slot);
}

static void
hand_over (Worker *self,
           Slot *slot)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaStream) stream = pick (self, self->stress->streams, N_STREAMS);

  if (stream == NULL || slot->buffer == NULL)
    return;
  if (gcuda_stream_wait_stream (stream, slot->stream, &error) && gcuda_buffer_set_deallocation_stream (slot->buffer, stream, &error))
    g_set_object (&slot->stream, stream);
  went (self, g_steal_pointer (&error));
}

/* What it is filled with is what it holds. */
static void
look_at (Worker *self,
         Slot *slot)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = NULL;
  const guint8 *data;
  gsize size;

  if (slot->buffer == NULL)
    return;
  bytes = gcuda_buffer_download (slot->buffer, 0, gcuda_buffer_get_size (slot->buffer), slot->stream, &error);
  if (!went (self, g_steal_pointer (&error)))
    return;
  data = g_bytes_get_data (bytes, &size);
  for (gsize i = 0; i < size; i++)
    if (data[i] != slot->value)
      g_error ("byte %" G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT " is 0x%02x, not 0x%02x", i, size, data[i], slot->value);
}

/* Between two slots, both locked. In the order of both streams, which nobody closes meanwhile. */
static void
copy (Worker *self,
      Slot *from,
      Slot *to)
{
  g_autoptr (GError) error = NULL;

  g_rw_lock_reader_lock (&self->stress->closing);
  if (from->buffer != NULL && to->buffer != NULL && gcuda_buffer_get_size (from->buffer) == gcuda_buffer_get_size (to->buffer) &&
      !gcuda_stream_is_closed (from->stream) && !gcuda_stream_is_closed (to->stream))
    {
      if (gcuda_stream_wait_stream (to->stream, from->stream, &error) && gcuda_buffer_copy_to (from->buffer, to->buffer, to->stream, &error) &&
          gcuda_stream_wait_stream (from->stream, to->stream, &error))
        to->value = from->value;
      g_assert_no_error (error);
    }
  g_rw_lock_reader_unlock (&self->stress->closing);
}

/* A stream of others, gone as soon as it is not needed; the library hears nothing of its end. */
static void
use_foreign_stream (Worker *self)
{
  Bed *bed = self->stress->bed;
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaMemoryResource) resource = pick (self, self->stress->resources, N_RESOURCES);
  GCudaStream *stream;
  GCudaBuffer *buffer;
  CUstream raw;

  if (resource == NULL)
    return;
  assert_cuda (RAW (cuCtxPushCurrent) (gcuda_context_get_cuda_context (bed->context)));
  assert_cuda (RAW (cuStreamCreate) (&raw, CU_STREAM_NON_BLOCKING));
  stream = gcuda_stream_new_for_handle (bed->context, (guintptr) raw, NULL, &error);
  g_assert_no_error (error);
  buffer = gcuda_memory_resource_allocate (resource, 4096, stream, &error);
  if (went (self, g_steal_pointer (&error)))
    {
      gcuda_buffer_fill (buffer, 1, 1, stream, &error);
      g_assert_no_error (error);
      g_object_unref (buffer);
    }
  g_object_unref (stream);
  assert_cuda (RAW (cuStreamDestroy) (raw));
  assert_cuda (RAW (cuCtxPopCurrent) (NULL));
}

/* A buffer of this thread's, on its default stream, dropped there or by nobody's thread. */
static void
use_per_thread_stream (Worker *self)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaMemoryResource) resource = pick (self, self->stress->resources, N_RESOURCES);
  g_autoptr (GCudaStream) stream = gcuda_stream_new_per_thread_default (self->stress->bed->context, &error);
  GCudaBuffer *buffer;

  g_assert_no_error (error);
  if (resource == NULL)
    return;
  buffer = gcuda_memory_resource_allocate (resource, 4096, stream, &error);
  if (!went (self, g_steal_pointer (&error)))
    return;
  gcuda_buffer_fill (buffer, 1, 1, stream, &error);
  g_assert_no_error (error);
  if (one_in (self, 4))
    g_thread_join (g_thread_new ("drops", (GThreadFunc) (GCallback) g_object_unref, buffer));
  else
    g_object_unref (buffer);
}

static void
use_addresses (Worker *self)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaMemoryResource) resource = pick (self, self->stress->resources, N_RESOURCES);
  g_autoptr (GCudaStream) stream = pick (self, self->stress->streams, N_STREAMS);

  if (resource == NULL || stream == NULL)
    return;
  g_rw_lock_reader_lock (&self->stress->closing);
  for (guint i = 0; i < 4 && !gcuda_stream_is_closed (stream); i++)
    {
      guint64 address = gcuda_memory_resource_allocate_address (resource, 4096, 0, stream, &error);

      if (!went (self, g_steal_pointer (&error)))
        break;
      g_assert_true (gcuda_memory_resource_deallocate_address (resource, address, 4096, 0, stream, &error));
      g_assert_no_error (error);
    }
  g_rw_lock_reader_unlock (&self->stress->closing);
}

static void
close_something (Worker *self)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GObject) object = NULL;

  if (one_in (self, 4))
    {
      object = pick (self, self->stress->contexts, N_CONTEXTS);
      if (object != NULL)
        gcuda_context_close (GCUDA_CONTEXT (object), &error);
    }
  else if (g_rw_lock_writer_trylock (&self->stress->closing))
    {
      object = pick (self, self->stress->streams, N_STREAMS);
      if (object != NULL)
        gcuda_stream_close (GCUDA_STREAM (object), &error);
      g_rw_lock_writer_unlock (&self->stress->closing);
    }
  went (self, g_steal_pointer (&error));
}

static void
step (Worker *self)
{
  Stress *stress = self->stress;
  Slot *slot = &stress->slots[g_rand_int_range (self->rand, 0, N_SLOTS)];
  Slot *other = &stress->slots[g_rand_int_range (self->rand, 0, N_SLOTS)];
  g_autoptr (GError) error = NULL;
  g_autoptr (GObject) object = NULL;
  gpointer made;

  switch (g_rand_int_range (self->rand, 0, 32))
    {
    case 0:
    case 1:
      made = new_stream (self, &error);
      if (went (self, g_steal_pointer (&error)))
        put (self, stress->streams, N_STREAMS, made);
      return;
    case 2:
    case 3:
      made = new_resource (self, &error);
      if (went (self, g_steal_pointer (&error)))
        put (self, stress->resources, N_RESOURCES, made);
      return;
    case 4:
      if (!one_in (self, 8))
        return;
      made = gcuda_context_new (stress->bed->device, GCUDA_CONTEXT_FLAGS_NONE, &error);
      if (went (self, g_steal_pointer (&error)))
        put (self, stress->contexts, N_CONTEXTS, made);
      return;
    case 5:
      close_something (self);
      return;
    case 6:
      put (self, stress->streams, N_STREAMS, NULL);
      return;
    case 7:
      put (self, stress->resources, N_RESOURCES, NULL);
      return;
    case 8:
      put (self, stress->contexts, N_CONTEXTS, NULL);
      return;
    case 9:
      g_assert_true (gcuda_reclaim (NULL, &error));
      g_assert_no_error (error);
      return;
    case 10:
      object = pick (self, stress->streams, N_STREAMS);
      if (object != NULL)
        gcuda_stream_synchronize (GCUDA_STREAM (object), &error);
      went (self, g_steal_pointer (&error));
      return;
    case 11:
      use_foreign_stream (self);
      return;
    case 12:
      use_per_thread_stream (self);
      return;
    case 13:
      use_addresses (self);
      return;
    case 14:
    case 15:
      if (slot == other)
        return;
      g_mutex_lock (&MIN (slot, other)->lock);
      g_mutex_lock (&MAX (slot, other)->lock);
      copy (self, slot, other);
      g_mutex_unlock (&slot->lock);
      g_mutex_unlock (&other->lock);
      return;
    default:
      break;
    }
  g_mutex_lock (&slot->lock);
  switch (g_rand_int_range (self->rand, 0, 8))
    {
    case 0:
    case 1:
    case 2:
      allocate (self, slot);
      break;
    case 3:
    case 4:
      hand_over (self, slot);
      break;
    case 5:
      look_at (self, slot);
      break;
    case 6:
      if (slot->buffer != NULL)
        {
          gcuda_buffer_close (slot->buffer, one_in (self, 2) ? slot->stream : NULL, &error);
          went (self, g_steal_pointer (&error));
        }
      empty (slot);
      break;
    default:
      empty (slot);
      break;
    }
  g_mutex_unlock (&slot->lock);
}

static gpointer
work (gpointer data)
{
  Worker *self = data;

  for (guint i = 0; i < self->stress->n_steps; i++)
    step (self);
  return NULL;
}

static void
test_threads (Bed *bed,
              gconstpointer data)
{
  const char *seed_text = g_getenv ("GCUDASIM_SEED");
  const guint seed = seed_text != NULL ? (guint) g_ascii_strtoull (seed_text, NULL, 10) : 1;
  Stress *stress = g_new0 (Stress, 1);
  Worker workers[N_THREADS];
  GThread *threads[N_THREADS];
  GObject *contexts[N_CONTEXTS];

  stress->bed = bed;
  stress->n_steps = gcuda_test_under_tool () ? 200 : gcuda_test_is_simulated () ? 4000
                                                                                : 500;
  for (guint i = 0; i < N_THREADS; i++)
    {
      workers[i].stress = stress;
      workers[i].rand = g_rand_new_with_seed (seed * N_THREADS + i);
      threads[i] = g_thread_new ("stress", work, &workers[i]);
    }
  for (guint i = 0; i < N_THREADS; i++)
    {
      g_thread_join (threads[i]);
      g_rand_free (workers[i].rand);
    }
  g_test_message ("%d went, %d were refused", stress->done, stress->refused);
  g_assert_cmpint (stress->done, >, 0);

  memcpy (contexts, stress->contexts, sizeof contexts);
  for (guint i = 0; i < N_SLOTS; i++)
    {
      empty (&stress->slots[i]);
      g_mutex_clear (&stress->slots[i].lock);
    }
  g_rw_lock_clear (&stress->closing);
  g_mutex_clear (&stress->lock);
  for (guint i = 0; i < N_RESOURCES; i++)
    g_clear_object (&stress->resources[i]);
  for (guint i = 0; i < N_STREAMS; i++)
    g_clear_object (&stress->streams[i]);
  for (guint i = 0; i < N_CONTEXTS; i++)
    if (contexts[i] != NULL)
      g_assert_finalize_object (contexts[i]);
  g_free (stress);
}

static gpointer
use_pools (gpointer data)
{
  Bed *bed = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaStream) stream = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  const guint rounds = gcuda_test_under_tool () ? 20 : gcuda_test_is_simulated () ? 1000
                                                                                  : 100;

  g_assert_no_error (error);
  for (guint i = 0; i < rounds; i++)
    {
      g_autoptr (GCudaDeviceMemoryResource) pool = gcuda_device_memory_resource_new_pool (bed->device, 0, GCUDA_HANDLE_TYPES_NONE, &error);
      g_autoptr (GCudaBuffer) buffer = NULL;

      g_assert_no_error (error);
      buffer = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (pool), 100, stream, &error);
      g_assert_no_error (error);
      g_assert_true (gcuda_buffer_fill (buffer, 1, 1, stream, &error));
    }
  return NULL;
}

/* Pools come and go faster than they are destroyed, and what they hold is more than the device has: nobody is told so while
 * something comes back. */
static void
test_pools (Bed *bed,
            gconstpointer data)
{
  GThread *threads[3];

  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    threads[i] = g_thread_new ("pools", use_pools, bed);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    g_thread_join (threads[i]);
}

static gpointer
drop_all (gpointer data)
{
  gpointer buffer;

  while ((buffer = g_async_queue_pop (data)) != data)
    g_object_unref (buffer);
  return NULL;
}

/* Buffers of a resource that belongs to this thread are dropped by another one, while this one allocates, which gives them back. */
static void
test_thread_bound (Bed *bed,
                   gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaMemoryResource) resource = GCUDA_MEMORY_RESOURCE (gcuda_thread_bound_memory_resource_new (bed->resource));
  g_autoptr (GAsyncQueue) queue = g_async_queue_new ();
  GThread *thread = g_thread_new ("drops", drop_all, queue);
  const guint n = gcuda_test_under_tool () ? 200 : gcuda_test_is_simulated () ? 40000
                                                                              : 4000;

  for (guint i = 0; i < n; i++)
    {
      GCudaBuffer *buffer = gcuda_memory_resource_allocate (resource, 4096, bed->stream, &error);

      g_assert_no_error (error);
      g_async_queue_push (queue, buffer);
    }
  g_async_queue_push (queue, queue);
  g_thread_join (thread);
  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_no_error (error);
}

int
main (int argc, char **argv)
{
  gcuda_test_init (&argc, &argv);
  bed_add ("/stress/thread-bound", test_thread_bound);
  bed_add ("/stress/pools", test_pools);
  bed_add ("/stress/threads", test_threads);
  return g_test_run ();
}
