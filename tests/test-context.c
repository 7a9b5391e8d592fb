/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-test.h"

static void
test_primary (Bed *bed,
              gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaContext) again = gcuda_device_get_primary_context (bed->device, &error);

  g_assert_no_error (error);
  g_assert_true (again == bed->context);
  g_assert_true (gcuda_context_is_primary (again));
  g_assert_true (gcuda_context_get_device (again) == bed->device);
  g_assert_cmpuint (gcuda_context_get_handle (again), !=, 0);
  g_assert_cmpuint (gcuda_context_get_id (again), !=, 0);
  g_assert_true (gcuda_context_synchronize (again, &error));
  g_assert_no_error (error);
}

/* Closing the primary context: refused while anything lives in it; then given back, and a new one retained. */
static void
test_close_primary (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaDevice) device = gcuda_device_new (0, &error);
  g_autoptr (GCudaContext) context = gcuda_device_get_primary_context (device, &error);
  g_autoptr (GCudaContext) fresh = NULL;
  GCudaStream *stream = gcuda_stream_new (context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  GCudaSynchronousMemoryResource *resource = gcuda_synchronous_memory_resource_new (context, &error);
  GCudaBuffer *buffer = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (resource), 4096, stream, &error);
  unsigned int flags;
  int active;

  g_assert_no_error (error);
  g_assert_false (gcuda_context_close (context, &error));
  assert_error_and_clear (error, GCUDA_ERROR_IN_USE);
  g_assert_false (gcuda_context_is_closed (context));
  pattern_fill (buffer, 1, stream);

  g_object_unref (buffer);
  g_object_unref (resource);
  g_object_unref (stream);
  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_true (gcuda_context_close (context, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_context_is_closed (context));
  g_assert_cmpuint (gcuda_context_get_handle (context), ==, 0);
  g_assert_true (gcuda_context_close (context, &error));
  assert_cuda (RAW (cuDevicePrimaryCtxGetState) (0, &flags, &active));
  g_assert_false (active);

  g_assert_null (gcuda_stream_new (context, GCUDA_STREAM_FLAGS_NONE, 0, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_false (gcuda_context_synchronize (context, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);

  fresh = gcuda_device_get_primary_context (device, &error);
  g_assert_no_error (error);
  g_assert_true (fresh != context);
  g_assert_cmpuint (gcuda_context_get_id (fresh), !=, gcuda_context_get_id (context));
  g_assert_true (gcuda_context_synchronize (fresh, &error));
}

static void
test_private (Bed *bed,
              gconstpointer data)
{
  static const GCudaContextFlags flags[] = {
    GCUDA_CONTEXT_FLAGS_NONE,
    GCUDA_CONTEXT_FLAGS_SPIN,
    GCUDA_CONTEXT_FLAGS_YIELD,
    GCUDA_CONTEXT_FLAGS_BLOCKING_SYNC,
  };

  for (guint i = 0; i < G_N_ELEMENTS (flags); i++)
    {
      g_autoptr (GError) error = NULL;
      GCudaContext *context = gcuda_context_new (bed->device, flags[i], &error);
      GCudaStream *stream;
      CUcontext current = NULL;

      g_assert_no_error (error);
      assert_cuda (RAW (cuCtxGetCurrent) (&current));
      g_assert_null (current);
      g_assert_false (gcuda_context_is_primary (context));
      stream = gcuda_stream_new (context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
      g_assert_no_error (error);
      /* The stream keeps its context. */
      g_object_unref (context);
      g_assert_true (gcuda_stream_synchronize (stream, &error));
      g_assert_no_error (error);
      g_assert_finalize_object (stream);
      g_assert_true (gcuda_reclaim (NULL, &error));
      g_assert_no_error (error);
    }
}

/* A private context with work in it: dropping the last reference does not wait, and the work is done. */
static void
test_private_with_pending_work (Bed *bed,
                                gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  GCudaContext *context = gcuda_context_new (bed->device, GCUDA_CONTEXT_FLAGS_NONE, &error);
  GCudaStream *stream = gcuda_stream_new (context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  g_autoptr (GCudaBuffer) buffer = gcuda_memory_resource_allocate (bed->resource, 4096, bed->stream, &error);
  Blocker *blocker;

  g_assert_no_error (error);
  g_assert_true (gcuda_stream_wait_stream (stream, bed->stream, &error));
  g_assert_no_error (error);
  blocker = blocker_new (stream);
  pattern_fill (buffer, 0x77, stream);
  g_assert_true (gcuda_stream_wait_stream (bed->stream, stream, &error));
  g_assert_no_error (error);
  g_object_unref (stream);
  g_object_unref (context);
  blocker_release (blocker);
  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_no_error (error);
  /* The context is gone, and destroying it waits for its work. */
  pattern_assert (buffer, 0x77, bed->stream);
}

static void
test_bad_arguments (Bed *bed,
                    gconstpointer data)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (gcuda_context_new (NULL, GCUDA_CONTEXT_FLAGS_NONE, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_null (gcuda_context_new (bed->device, GCUDA_CONTEXT_FLAGS_SPIN | GCUDA_CONTEXT_FLAGS_YIELD, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_null (gcuda_context_new (bed->device, (GCudaContextFlags) 0x4000, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_null (gcuda_context_new_for_handle (0, NULL, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
}

static void
test_bare_new (Bed *bed,
               gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaContext) context = g_object_new (GCUDA_TYPE_CONTEXT, NULL);

  g_assert_true (gcuda_context_is_closed (context));
  g_assert_false (gcuda_context_is_primary (context));
  g_assert_null (gcuda_context_get_device (context));
  g_assert_cmpuint (gcuda_context_get_handle (context), ==, 0);
  g_assert_cmpuint (gcuda_context_get_id (context), ==, 0);
  g_assert_true (gcuda_context_close (context, &error));
  g_assert_no_error (error);
  g_assert_false (gcuda_context_synchronize (context, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_null (gcuda_stream_new (context, GCUDA_STREAM_FLAGS_NONE, 0, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_null (gcuda_event_new (context, GCUDA_EVENT_FLAGS_NONE, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_null (gcuda_stream_new_legacy_default (context, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_null (gcuda_synchronous_memory_resource_new (context, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
}

static void
set_flag (gpointer data,
          GObject *object)
{
  g_atomic_int_set ((gint *) data, TRUE);
}

/* A foreign context keeps its owner for as long as anything of ours lives in it, and drops it from the main loop. */
static void
test_foreign (Bed *bed,
              gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaContext) private_context = gcuda_context_new (bed->device, GCUDA_CONTEXT_FLAGS_NONE, &error);
  GObject *owner = g_object_new (G_TYPE_OBJECT, NULL);
  GCudaContext *context;
  GCudaStream *stream;
  gint gone = FALSE;

  g_assert_no_error (error);
  g_object_weak_ref (owner, set_flag, &gone);
  context = gcuda_context_new_for_handle (gcuda_context_get_handle (private_context), owner, &error);
  g_object_unref (owner);
  g_assert_no_error (error);
  g_assert_true (gcuda_context_get_device (context) == bed->device);
  g_assert_false (gcuda_context_is_primary (context));
  stream = gcuda_stream_new (context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  g_assert_no_error (error);
  g_object_unref (context);
  while (g_main_context_iteration (NULL, FALSE))
    ;
  g_assert_false (gone);
  g_object_unref (stream);
  iterate_until (&gone);
}

static gpointer
stream_in (gpointer data)
{
  Bed *bed = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaContext) other = gcuda_context_new (bed->device, GCUDA_CONTEXT_FLAGS_NONE, &error);
  g_autoptr (GCudaStream) stream = NULL;
  g_autoptr (GCudaEvent) event = NULL;
  CUcontext actual = NULL, current = NULL;

  g_assert_no_error (error);
  assert_cuda (RAW (cuCtxPushCurrent) (gcuda_context_get_cuda_context (other)));
  stream = gcuda_stream_new_for_device (bed->device, &error);
  g_assert_no_error (error);
  event = gcuda_event_new_for_device (bed->device, GCUDA_EVENT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  assert_cuda (RAW (cuStreamGetCtx) (gcuda_stream_get_cuda_stream (stream), &actual));
  g_assert_true (actual == gcuda_context_get_cuda_context (bed->context));
  /* An event can only be recorded on a stream of its own context. */
  g_assert_true (gcuda_event_record (event, stream, &error));
  g_assert_no_error (error);
  assert_cuda (RAW (cuCtxPopCurrent) (&current));
  g_assert_true (current == gcuda_context_get_cuda_context (other));
  return NULL;
}

static void
test_made_in_own_context (Bed *bed,
                          gconstpointer data)
{
  in_thread (stream_in, bed);
}

static gpointer
close_it (gpointer data)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (gcuda_context_close (data, &error));
  g_assert_no_error (error);
  return NULL;
}

static void
test_close_together (Bed *bed,
                     gconstpointer data)
{
  for (guint round = 0; round < 50; round++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GCudaContext) context = gcuda_context_new (bed->device, GCUDA_CONTEXT_FLAGS_NONE, &error);
      GThread *threads[3];

      g_assert_no_error (error);
      for (guint i = 0; i < 3; i++)
        threads[i] = g_thread_new ("closer", close_it, context);
      for (guint i = 0; i < 3; i++)
        g_thread_join (threads[i]);
      g_assert_true (gcuda_context_is_closed (context));
    }
}

/* Many releases at once need many events; afterwards the context keeps a few of them, for the releases to come. */
static void
test_event_stock (Bed *bed,
                  gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaStream) stream = gcuda_stream_new_per_thread_default (bed->context, &error);
  g_autoptr (GCudaSynchronousMemoryResource) resource = gcuda_synchronous_memory_resource_new (bed->context, &error);
  GCudaBuffer *buffers[100];

  g_assert_no_error (error);
  for (guint round = 0; round < 2; round++)
    {
      Blocker *blocker;

      for (guint i = 0; i < G_N_ELEMENTS (buffers); i++)
        {
          buffers[i] = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (resource), 64, stream, &error);
          g_assert_no_error (error);
        }
      gcuda_test_log_start ();
      blocker = blocker_new (stream);
      for (guint i = 0; i < G_N_ELEMENTS (buffers); i++)
        g_object_unref (buffers[i]);
      blocker_release (blocker);
      g_assert_true (gcuda_reclaim (NULL, &error));
      g_assert_no_error (error);
      if (gcuda_test_is_simulated ())
        {
          g_auto (GStrv) log = gcuda_test_log_take ();
          guint made = gcuda_test_log_count (log, "cuEventCreate", "= SUCCESS", NULL);
          guint destroyed = gcuda_test_log_count (log, "cuEventDestroy", "= SUCCESS", NULL);

          g_assert_cmpuint (gcuda_test_log_count (log, "cuMemFree", "= SUCCESS", NULL), ==, G_N_ELEMENTS (buffers));
          g_assert_cmpuint (made, >=, G_N_ELEMENTS (buffers) - 16);
          g_assert_cmpuint (made, <=, destroyed + 16);
          /* What was kept is used again. */
          if (round == 1)
            g_assert_cmpuint (made, ==, destroyed);
        }
    }
}

int
main (int argc,
      char **argv)
{
  gcuda_test_init (&argc, &argv);
  g_test_add_func ("/context/close-primary", test_close_primary);
  bed_add ("/context/primary", test_primary);
  bed_add ("/context/private", test_private);
  bed_add ("/context/private-with-pending-work", test_private_with_pending_work);
  bed_add ("/context/bad-arguments", test_bad_arguments);
  bed_add ("/context/bare-new", test_bare_new);
  bed_add ("/context/close-together", test_close_together);
  bed_add ("/context/foreign", test_foreign);
  bed_add ("/context/made-in-own-context", test_made_in_own_context);
  bed_add ("/context/event-stock", test_event_stock);
  return g_test_run ();
}
