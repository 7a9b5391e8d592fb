/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The deallocation recipe: whatever stream it names, however it was set, and wherever the last reference is dropped, the
 * memory is freed once, behind its last use, and nothing else is disturbed.
 */
#include "gcuda-test.h"

#include <sys/wait.h>
#include <unistd.h>

#define SIZE (256 * 1024)

typedef enum
{
  KIND_CREATED,
  KIND_LEGACY,
  KIND_PER_THREAD,
  N_KINDS
} Kind;

typedef enum
{
  SET_ALLOCATION,
  SET_SETTER,
  SET_CLOSE,
  N_SETS
} Set;

typedef enum
{
  DROP_CLOSE,
  DROP_UNREF,
  DROP_THREAD,
  DROP_OTHER_CONTEXT,
  DROP_OWNER_ENDED,
  DROP_CAPTURE_NON_BLOCKING,
  DROP_CAPTURE_BLOCKING,
  DROP_CAPTURE_PER_THREAD,
  DROP_HOST_FUNCTION,
  N_DROPS
} Drop;

typedef enum
{
  RESOURCE_POOL,
  RESOURCE_SYNCHRONOUS,
  N_RESOURCES
} Resource;

static const char *const kind_names[] = { "created", "legacy", "per-thread" };
static const char *const set_names[] = { "allocation", "setter", "close" };
static const char *const drop_names[] = {
  "close",
  "unref",
  "thread",
  "other-context",
  "owner-ended",
  "capture-non-blocking",
  "capture-blocking",
  "capture-per-thread",
  "host-function",
};
static const char *const resource_names[] = { "pool", "synchronous" };

typedef struct
{
  Kind kind;
  Set set;
  Drop drop;
  Resource resource;
} Case;

typedef struct
{
  const Case *test;
  Bed *bed;
  GCudaStream *target;
  GCudaMemoryResource *resource;
  GCudaBuffer *buffer;
  guint64 address;
  GCudaBuffer *copy;
  Blocker *blocker;
  GCudaEvent *done; /* the last use, where another thread's per-thread stream has it */
  CUcontext other_context;
  gint owner; /* 2: drops it as well, 3: dropped by the host function */
} Work;

static gboolean
is_capture (Drop drop)
{
  return drop == DROP_CAPTURE_NON_BLOCKING || drop == DROP_CAPTURE_BLOCKING || drop == DROP_CAPTURE_PER_THREAD;
}

static GCudaStream *
make_stream (Kind kind,
             GCudaContext *context)
{
  g_autoptr (GError) error = NULL;
  GCudaStream *stream = NULL;

  switch (kind)
    {
    case KIND_CREATED:
      stream = gcuda_stream_new (context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
      break;
    case KIND_LEGACY:
      stream = gcuda_stream_new_legacy_default (context, &error);
      break;
    case KIND_PER_THREAD:
      stream = gcuda_stream_new_per_thread_default (context, &error);
      break;
    case N_KINDS:
    default:
      g_assert_not_reached ();
    }
  g_assert_no_error (error);
  return stream;
}

/* Allocates, sets the recipe, and leaves a copy of the buffer pending on the recipe's stream. */
static gpointer
prepare (gpointer data)
{
  Work *work = data;
  const Case *test = work->test;
  g_autoptr (GError) error = NULL;
  GCudaStream *first = test->set == SET_ALLOCATION ? work->target : work->bed->stream;

  work->copy = gcuda_memory_resource_allocate (work->bed->resource, SIZE, work->bed->stream, &error);
  g_assert_no_error (error);
  work->buffer = gcuda_memory_resource_allocate (work->resource, SIZE, first, &error);
  g_assert_no_error (error);
  work->address = gcuda_buffer_get_address (work->buffer);
  pattern_fill (work->buffer, 0x11, first);
  g_assert_true (gcuda_stream_wait_stream (work->target, work->bed->stream, &error));
  g_assert_no_error (error);
  if (test->set == SET_SETTER)
    {
      g_assert_true (gcuda_buffer_set_deallocation_stream (work->buffer, work->target, &error));
      g_assert_no_error (error);
    }
  /* A host function that blocks keeps others from running, and a stream that is captured can't be blocked. */
  if (test->drop != DROP_HOST_FUNCTION && !is_capture (test->drop))
    work->blocker = blocker_new (work->target);
  g_assert_true (gcuda_buffer_copy_to (work->buffer, work->copy, work->target, &error));
  g_assert_no_error (error);
  if (test->kind == KIND_PER_THREAD && test->set == SET_CLOSE && work->blocker != NULL)
    {
      work->done = gcuda_event_new (work->bed->context, GCUDA_EVENT_FLAGS_NONE, &error);
      g_assert_no_error (error);
      g_assert_true (gcuda_event_record (work->done, work->target, &error));
      g_assert_no_error (error);
    }
  return NULL;
}

static gpointer
drop (gpointer data)
{
  Work *work = data;
  g_autoptr (GError) error = NULL;

  /* Naming a stream orders nothing: that it comes after the last use is for the program to see to. */
  if (work->done != NULL)
    g_assert_true (gcuda_stream_wait_event (work->target, work->done, &error));
  g_assert_no_error (error);
  if (work->test->set == SET_CLOSE)
    g_assert_true (gcuda_buffer_close (work->buffer, work->target, &error));
  else if (work->test->drop == DROP_CLOSE)
    g_assert_true (gcuda_buffer_close (work->buffer, NULL, &error));
  g_assert_no_error (error);
  g_clear_object (&work->buffer);
  return NULL;
}

static gpointer
drop_with_other_context (gpointer data)
{
  Work *work = data;
  CUcontext current = NULL;

  assert_cuda (RAW (cuCtxPushCurrent) (work->other_context));
  drop (data);
  assert_cuda (RAW (cuCtxGetCurrent) (&current));
  g_assert_true (current == work->other_context);
  assert_cuda (RAW (cuCtxPopCurrent) (&current));
  return NULL;
}

static guint
count_frees (char **log,
             const Work *work,
             const char *with)
{
  g_autofree char *address = g_strdup_printf ("0x%" G_GINT64_MODIFIER "x", work->address);
  const char *function = work->test->resource == RESOURCE_POOL ? "cuMemFreeAsync" : "cuMemFree";

  return gcuda_test_log_count (log, function, address, "= SUCCESS", with, NULL);
}

static void
drop_during_capture (Work *work)
{
  g_autoptr (GError) error = NULL;
  Capture *capture;

  /* What the capturing thread must not break, it may not find pending either: the legacy stream can't wait in a capture. */
  g_assert_true (gcuda_device_synchronize (work->bed->device, &error));
  g_assert_no_error (error);
  capture = capture_begin (work->bed->context, CAPTURE_NON_BLOCKING + (work->test->drop - DROP_CAPTURE_NON_BLOCKING));
  drop (work);
  /* Gives the reclaimer time to do harm, if it does any. */
  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_no_error (error);
  g_usleep (5000);
  capture_end (capture);
}

static void CUDA_CB
host_function_drop (void *data)
{
  Work *work = data;

  drop (work);
  g_atomic_int_set (&work->owner, 3);
}

static void
test_case (Bed *bed,
           gconstpointer data)
{
  const Case *test = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaStream) target = make_stream (test->kind, bed->context);
  g_autoptr (GCudaStream) other = make_stream (KIND_CREATED, bed->context);
  g_autoptr (GCudaBuffer) next = NULL;
  g_autoptr (GCudaMemoryResource) synchronous = NULL;
  g_autoptr (GCudaContext) private_context = NULL;
  Work work = { test, bed, target, bed->resource };
  gboolean owner_is_here = TRUE, drops_here = TRUE;

  if (test->resource == RESOURCE_SYNCHRONOUS)
    {
      synchronous = GCUDA_MEMORY_RESOURCE (gcuda_synchronous_memory_resource_new (bed->context, &error));
      g_assert_no_error (error);
      work.resource = synchronous;
    }

  /* Not later: while a host function blocks, making or destroying a context blocks as well. */
  if (test->drop == DROP_OTHER_CONTEXT)
    {
      private_context = gcuda_context_new (bed->device, GCUDA_CONTEXT_FLAGS_NONE, &error);
      g_assert_no_error (error);
      work.other_context = gcuda_context_get_cuda_context (private_context);
    }
  if (test->drop == DROP_OWNER_ENDED)
    in_thread (prepare, &work);
  else
    prepare (&work);

  gcuda_test_log_start ();
  switch (test->drop)
    {
    case DROP_CLOSE:
    case DROP_UNREF:
      drop (&work);
      break;
    case DROP_THREAD:
      in_thread (drop, &work);
      drops_here = FALSE;
      break;
    case DROP_OTHER_CONTEXT:
      in_thread (drop_with_other_context, &work);
      drops_here = FALSE;
      break;
    case DROP_OWNER_ENDED:
      drop (&work);
      owner_is_here = FALSE;
      break;
    case DROP_CAPTURE_NON_BLOCKING:
    case DROP_CAPTURE_BLOCKING:
    case DROP_CAPTURE_PER_THREAD:
      drop_during_capture (&work);
      break;
    case DROP_HOST_FUNCTION:
      {
        gint64 deadline = g_get_monotonic_time () + 10 * G_TIME_SPAN_SECOND;

        assert_cuda (RAW (cuLaunchHostFunc) (gcuda_stream_get_cuda_stream (other), host_function_drop, &work));
        g_assert_true (gcuda_stream_synchronize (other, &error));
        g_assert_no_error (error);
        while (g_atomic_int_get (&work.owner) != 3)
          {
            g_assert_cmpint (g_get_monotonic_time (), <, deadline);
            g_usleep (100);
          }
        drops_here = FALSE;
      }
      break;
    case N_DROPS:
    default:
      g_assert_not_reached ();
    }

  /* Memory that came too early would be given to this one, and its bytes to the copy. */
  next = gcuda_memory_resource_allocate (bed->resource, SIZE, other, &error);
  g_assert_no_error (error);
  pattern_fill (next, 0x22, other);

  if (work.blocker != NULL)
    {
      if (test->resource == RESOURCE_SYNCHRONOUS && gcuda_test_is_simulated ())
        {
          g_auto (GStrv) log = NULL;

          g_usleep (3000);
          log = gcuda_test_log_take ();
          g_assert_cmpuint (count_frees (log, &work, NULL), ==, 0);
          gcuda_test_log_start ();
        }
      blocker_release (work.blocker);
    }
  g_assert_true (gcuda_device_synchronize (bed->device, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_no_error (error);

  if (gcuda_test_is_simulated ())
    {
      g_auto (GStrv) log = gcuda_test_log_take ();
      g_autofree char *handle = g_strdup_printf ("0x%" G_GINT64_MODIFIER "x", gcuda_stream_get_handle (target));
      g_autofree char *context = g_strdup_printf ("ctx=0x%" G_GINT64_MODIFIER "x", gcuda_context_get_handle (bed->context));

      if (count_frees (log, &work, NULL) != 1)
        gcuda_test_log_print (log);
      g_assert_cmpuint (count_frees (log, &work, NULL), ==, 1);
      if (test->resource == RESOURCE_POOL)
        switch (test->kind)
          {
          case KIND_CREATED:
            g_assert_cmpuint (count_frees (log, &work, handle), ==, 1);
            break;
          case KIND_LEGACY:
            g_assert_cmpuint (gcuda_test_log_count (log, "cuMemFreeAsync", "legacy", "= SUCCESS", context, NULL), ==, 1);
            break;
          case KIND_PER_THREAD:
            /* Closing with a stream makes the closing thread its owner. A thread of the driver's can't free at all. */
            if (test->drop != DROP_HOST_FUNCTION && (test->set == SET_CLOSE || (owner_is_here && drops_here)) &&
                !is_capture (test->drop))
              g_assert_cmpuint (gcuda_test_log_count (log, "cuMemFreeAsync", "per-thread", "= SUCCESS", context, NULL), ==, 1);
            else if (!is_capture (test->drop))
              g_assert_cmpuint (gcuda_test_log_count (log, "cuMemFreeAsync", "legacy", "= SUCCESS", context, NULL), ==, 1);
            break;
          case N_KINDS:
          default:
            g_assert_not_reached ();
          }
      /* Nothing was waited for on this thread's behalf. */
      g_assert_cmpuint (gcuda_test_log_count (log, "cuStreamSynchronize", handle, NULL), ==, 0);
    }

  g_assert_true (gcuda_stream_wait_stream (other, bed->stream, &error));
  pattern_assert (work.copy, 0x11, other);
  pattern_assert (next, 0x22, other);
  g_assert_true (gcuda_buffer_close (work.copy, other, &error));
  g_assert_true (gcuda_buffer_close (next, NULL, &error));
  g_assert_no_error (error);
  g_clear_object (&work.copy);
  g_clear_object (&work.done);
  g_clear_object (&next);
  g_assert_cmpuint (bed_settled_use (bed), ==, 0);
}

/* Replacing the recipe */

static void
test_setter_checks (Bed *bed,
                    gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaStream) closed = make_stream (KIND_CREATED, bed->context);
  g_autoptr (GCudaBuffer) buffer = gcuda_memory_resource_allocate (bed->resource, SIZE, bed->stream, &error);

  g_assert_no_error (error);
  g_assert_true (gcuda_stream_close (closed, &error));
  gcuda_test_log_start ();
  g_assert_false (gcuda_buffer_set_deallocation_stream (buffer, NULL, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_false (gcuda_buffer_set_deallocation_stream (buffer, closed, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_false (gcuda_buffer_close (buffer, closed, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_false (gcuda_buffer_is_closed (buffer));
  if (gcuda_test_is_simulated ())
    {
      g_auto (GStrv) log = gcuda_test_log_take ();

      g_assert_cmpuint (gcuda_test_log_count (log, "cuMemFreeAsync", NULL), ==, 0);
    }

  /* Still usable, with the recipe of old. */
  pattern_fill (buffer, 0x33, bed->stream);
  pattern_assert (buffer, 0x33, bed->stream);
  gcuda_test_log_start ();
  g_assert_true (gcuda_buffer_close (buffer, NULL, &error));
  if (gcuda_test_is_simulated ())
    {
      g_auto (GStrv) log = gcuda_test_log_take ();
      g_autofree char *handle = g_strdup_printf ("0x%" G_GINT64_MODIFIER "x", gcuda_stream_get_handle (bed->stream));

      g_assert_cmpuint (gcuda_test_log_count (log, "cuMemFreeAsync", handle, "= SUCCESS", NULL), ==, 1);
    }

  /* A closed buffer is looked at first; closing it again does nothing, whatever the stream. */
  g_assert_false (gcuda_buffer_set_deallocation_stream (buffer, NULL, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_true (gcuda_buffer_close (buffer, closed, &error));
  g_assert_no_error (error);
}

static void
test_stream_gone_before_buffer (Bed *bed,
                                gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  GCudaStream *stream = make_stream (KIND_CREATED, bed->context);
  GCudaBuffer *buffer = gcuda_memory_resource_allocate (bed->resource, SIZE, stream, &error);

  g_assert_no_error (error);
  gcuda_test_log_start ();
  g_assert_true (gcuda_stream_close (stream, &error));
  g_assert_finalize_object (stream);
  g_object_unref (buffer);
  if (gcuda_test_is_simulated ())
    {
      g_auto (GStrv) log = gcuda_test_log_take ();
      guint freed = 0, destroyed = 0;

      for (guint i = 0; log[i] != NULL; i++)
        {
          if (strstr (log[i], "cuMemFreeAsync(") != NULL)
            freed = i + 1;
          if (strstr (log[i], "cuStreamDestroy(") != NULL)
            destroyed = i + 1;
        }
      g_assert_cmpuint (freed, >, 0);
      g_assert_cmpuint (destroyed, >, freed);
    }
}

static void
test_view_shares_recipe (Bed *bed,
                         gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaStream) stream = make_stream (KIND_CREATED, bed->context);
  GCudaBuffer *buffer = gcuda_memory_resource_allocate (bed->resource, SIZE, bed->stream, &error);
  GCudaBuffer *view = gcuda_buffer_new_view (buffer, 1024, 2048, &error);

  g_assert_no_error (error);
  pattern_fill (buffer, 0x44, bed->stream);
  g_assert_true (gcuda_stream_wait_stream (stream, bed->stream, &error));
  /* Set through the one, applied by the other. */
  g_assert_true (gcuda_buffer_set_deallocation_stream (buffer, stream, &error));
  gcuda_test_log_start ();
  g_object_unref (buffer);
  pattern_assert (view, 0x44, stream);
  g_object_unref (view);
  if (gcuda_test_is_simulated ())
    {
      g_auto (GStrv) log = gcuda_test_log_take ();
      g_autofree char *handle = g_strdup_printf ("0x%" G_GINT64_MODIFIER "x", gcuda_stream_get_handle (stream));

      g_assert_cmpuint (gcuda_test_log_count (log, "cuMemFreeAsync", NULL), ==, 1);
      g_assert_cmpuint (gcuda_test_log_count (log, "cuMemFreeAsync", handle, NULL), ==, 1);
    }
}

static gpointer
set_per_thread (gpointer data)
{
  Work *work = data;
  g_autoptr (GError) error = NULL;

  g_assert_true (gcuda_stream_wait_event (work->target, work->done, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_buffer_set_deallocation_stream (work->buffer, work->target, &error));
  g_assert_no_error (error);
  if (work->owner == 2)
    g_clear_object (&work->buffer);
  return NULL;
}

/* The per-thread stream has one number in all threads; the recipe keeps whose it is. */
static void
test_per_thread_owner (Bed *bed,
                       gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaStream) target = make_stream (KIND_PER_THREAD, bed->context);
  Work work = { NULL, bed, target, bed->resource };

  work.done = gcuda_event_new (bed->context, GCUDA_EVENT_FLAGS_NONE, &error);
  g_assert_no_error (error);

  /* Set by another thread: not this thread's any more. */
  work.buffer = gcuda_memory_resource_allocate (bed->resource, SIZE, target, &error);
  g_assert_no_error (error);
  g_assert_true (gcuda_event_record (work.done, target, &error));
  in_thread (set_per_thread, &work);
  gcuda_test_log_start ();
  g_clear_object (&work.buffer);
  if (gcuda_test_is_simulated ())
    {
      g_auto (GStrv) log = gcuda_test_log_take ();

      g_assert_cmpuint (gcuda_test_log_count (log, "cuMemFreeAsync", "legacy", NULL), ==, 1);
    }

  /* Set and dropped by the other thread: its own stream. */
  work.buffer = gcuda_memory_resource_allocate (bed->resource, SIZE, target, &error);
  g_assert_no_error (error);
  g_assert_true (gcuda_event_record (work.done, target, &error));
  work.owner = 2;
  gcuda_test_log_start ();
  in_thread (set_per_thread, &work);
  g_assert_null (work.buffer);
  if (gcuda_test_is_simulated ())
    {
      g_auto (GStrv) log = gcuda_test_log_take ();

      g_assert_cmpuint (gcuda_test_log_count (log, "cuMemFreeAsync", "per-thread", NULL), ==, 1);
    }
  g_clear_object (&work.done);
}

/* The recipe's own stream is being captured when the memory is dropped. */
static void
test_own_stream_captured (Bed *bed,
                          gconstpointer data)
{
  const gboolean synchronous = GPOINTER_TO_INT (data);
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaStream) stream = make_stream (KIND_CREATED, bed->context);
  g_autoptr (GCudaMemoryResource) resource = NULL;
  GCudaBuffer *buffer;
  CUgraph graph = NULL;

  resource = synchronous ? GCUDA_MEMORY_RESOURCE (gcuda_synchronous_memory_resource_new (bed->context, &error)) : g_object_ref (bed->resource);
  buffer = gcuda_memory_resource_allocate (resource, SIZE, stream, &error);
  g_assert_no_error (error);
  assert_cuda (RAW (cuStreamBeginCapture) (gcuda_stream_get_cuda_stream (stream), CU_STREAM_CAPTURE_MODE_RELAXED));
  gcuda_test_log_start ();
  g_object_unref (buffer);
  /* Nobody waits for the end of a capture. */
  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_no_error (error);
  if (gcuda_test_is_simulated ())
    {
      g_auto (GStrv) log = gcuda_test_log_take ();

      g_assert_cmpuint (gcuda_test_log_count (log, synchronous ? "cuMemFree" : "cuMemFreeAsync", "= SUCCESS", NULL), ==, 0);
    }
  gcuda_test_log_start ();
  assert_cuda (RAW (cuStreamEndCapture) (gcuda_stream_get_cuda_stream (stream), &graph));
  assert_cuda (RAW (cuGraphDestroy) (graph));
  g_usleep (5000);
  g_assert_true (gcuda_reclaim (NULL, &error));
  if (gcuda_test_is_simulated ())
    {
      g_auto (GStrv) log = gcuda_test_log_take ();

      g_assert_cmpuint (gcuda_test_log_count (log, synchronous ? "cuMemFree" : "cuMemFreeAsync", "= SUCCESS", NULL), ==, 1);
    }
  g_assert_cmpuint (bed_settled_use (bed), ==, 0);
}

/* Sets through a buffer and through its view meet, while others read. */
typedef struct
{
  GCudaBuffer *buffer;
  GCudaStream *stream;
} Racer;

static gpointer
race (gpointer data)
{
  Racer *racer = data;

  for (guint i = 0; i < 2000; i++)
    {
      g_autoptr (GError) error = NULL;

      g_assert_true (gcuda_buffer_set_deallocation_stream (racer->buffer, racer->stream, &error));
      g_assert_no_error (error);
    }
  return NULL;
}

static void
test_setters_meet (Bed *bed,
                   gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = gcuda_memory_resource_allocate (bed->resource, SIZE, bed->stream, &error);
  g_autoptr (GCudaBuffer) view = gcuda_buffer_new_view (buffer, 0, 16, &error);
  Racer racers[2] = { { buffer, NULL }, { view, NULL } };
  GThread *threads[2];

  for (guint i = 0; i < 2; i++)
    {
      racers[i].stream = make_stream (KIND_CREATED, bed->context);
      g_assert_true (gcuda_stream_wait_stream (racers[i].stream, bed->stream, &error));
    }
  for (guint i = 0; i < 2; i++)
    threads[i] = g_thread_new ("race", race, &racers[i]);
  for (guint i = 0; i < 2; i++)
    g_thread_join (threads[i]);
  g_clear_object (&buffer);
  g_clear_object (&view);
  for (guint i = 0; i < 2; i++)
    g_assert_finalize_object (racers[i].stream);
  g_assert_cmpuint (bed_settled_use (bed), ==, 0);
}

static Case cases[N_RESOURCES][N_KINDS][N_SETS][N_DROPS];

int
main (int argc,
      char **argv)
{
  gcuda_test_init (&argc, &argv);
  for (Resource resource = 0; resource < N_RESOURCES; resource++)
    for (Kind kind = 0; kind < N_KINDS; kind++)
      for (Set set = 0; set < N_SETS; set++)
        for (Drop where = 0; where < N_DROPS; where++)
          {
            Case *test = &cases[resource][kind][set][where];
            g_autofree char *path = g_strdup_printf ("/recipe/%s/%s/set-by-%s/dropped-by-%s", resource_names[resource],
                                                     kind_names[kind], set_names[set], drop_names[where]);

            *test = (Case){ kind, set, where, resource };
            g_test_add_vtable (path, sizeof (Bed), test, (GTestFixtureFunc) bed_set_up, (GTestFixtureFunc) test_case, (GTestFixtureFunc) bed_tear_down);
          }
  bed_add ("/recipe/setter/checks", test_setter_checks);
  bed_add ("/recipe/setter/meet", test_setters_meet);
  bed_add ("/recipe/stream-gone-before-buffer", test_stream_gone_before_buffer);
  bed_add ("/recipe/view-shares-recipe", test_view_shares_recipe);
  bed_add ("/recipe/per-thread-owner", test_per_thread_owner);
  bed_add_data ("/recipe/own-stream-captured/pool", GINT_TO_POINTER (FALSE), test_own_stream_captured);
  bed_add_data ("/recipe/own-stream-captured/synchronous", GINT_TO_POINTER (TRUE), test_own_stream_captured);
  return g_test_run ();
}
