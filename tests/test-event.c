/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-test.h"

static GCudaEvent *
make_event (GCudaContext *context,
            GCudaEventFlags flags)
{
  g_autoptr (GError) error = NULL;
  GCudaEvent *event = gcuda_event_new (context, flags, &error);

  g_assert_no_error (error);
  return event;
}

static void
test_life (Bed *bed,
           gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaEvent) event = make_event (bed->context, GCUDA_EVENT_FLAGS_NONE);
  Blocker *blocker;

  g_assert_true (gcuda_event_get_context (event) == bed->context);
  g_assert_cmpuint (gcuda_event_get_handle (event), !=, 0);
  /* Never recorded: done. */
  g_assert_true (gcuda_event_query (event, &error));
  g_assert_true (gcuda_event_synchronize (event, &error));
  g_assert_no_error (error);

  blocker = blocker_new (bed->stream);
  g_assert_true (gcuda_event_record (event, bed->stream, &error));
  g_assert_no_error (error);
  g_assert_false (gcuda_event_query (event, &error));
  g_assert_no_error (error);
  blocker_release (blocker);
  g_assert_true (gcuda_event_synchronize (event, &error));
  g_assert_true (gcuda_event_query (event, &error));
  g_assert_no_error (error);

  g_assert_true (gcuda_event_close (event, &error));
  g_assert_true (gcuda_event_close (event, &error));
  g_assert_true (gcuda_event_is_closed (event));
  g_assert_cmpuint (gcuda_event_get_handle (event), ==, 0);
  g_assert_false (gcuda_event_query (event, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_false (gcuda_event_synchronize (event, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_false (gcuda_event_record (event, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_false (gcuda_stream_wait_event (bed->stream, event, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
}

/* Each reason why no time can be told has an error of its own. */
static void
test_elapsed_time (Bed *bed,
                   gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaEvent) late = gcuda_event_new (bed->context, GCUDA_EVENT_FLAGS_TIMING, &error);
  g_autoptr (GCudaEvent) start = make_event (bed->context, GCUDA_EVENT_FLAGS_TIMING);
  g_autoptr (GCudaEvent) end = make_event (bed->context, GCUDA_EVENT_FLAGS_TIMING);
  g_autoptr (GCudaEvent) plain = make_event (bed->context, GCUDA_EVENT_FLAGS_NONE);
  g_autoptr (GCudaContext) other = gcuda_context_new (bed->device, GCUDA_CONTEXT_FLAGS_NONE, &error);
  g_autoptr (GCudaEvent) elsewhere = make_event (other, GCUDA_EVENT_FLAGS_TIMING);
  Blocker *blocker;

  g_assert_no_error (error);
  gcuda_event_elapsed_time (start, plain, &error);
  assert_error_and_clear (error, GCUDA_ERROR_TIMING_DISABLED);
  gcuda_event_elapsed_time (start, end, &error);
  assert_error_and_clear (error, GCUDA_ERROR_NOT_RECORDED);
  gcuda_event_elapsed_time (start, elsewhere, &error);
  assert_error_and_clear (error, GCUDA_ERROR_DIFFERENT_DEVICE);
  gcuda_event_elapsed_time (start, NULL, &error);
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);

  g_assert_true (gcuda_event_record (start, bed->stream, &error));
  gcuda_event_elapsed_time (start, end, &error);
  assert_error_and_clear (error, GCUDA_ERROR_NOT_RECORDED);
  blocker = blocker_new (bed->stream);
  g_assert_true (gcuda_event_record (end, bed->stream, &error));
  g_assert_no_error (error);
  gcuda_event_elapsed_time (start, end, &error);
  assert_error_and_clear (error, GCUDA_ERROR_NOT_READY);
  g_usleep (2000);
  blocker_release (blocker);
  g_assert_true (gcuda_event_synchronize (end, &error));
  g_assert_no_error (error);
  g_assert_cmpfloat (gcuda_event_elapsed_time (start, end, &error), >, 0);
  g_assert_no_error (error);
  g_assert_cmpfloat (gcuda_event_elapsed_time (end, start, &error), <, 0);
  g_assert_no_error (error);
  g_assert_cmpfloat (gcuda_event_elapsed_time (start, start, &error), ==, 0);
  g_assert_no_error (error);
  /* In a capture it marks no work. */
  {
    g_autoptr (GCudaGraphBuilder) builder = gcuda_graph_builder_new (bed->context, GCUDA_CAPTURE_MODE_RELAXED, &error);

    assert_no_error (error);
    g_assert_true (gcuda_event_record (end, GCUDA_STREAM (builder), &error));
    gcuda_event_elapsed_time (start, end, &error);
    assert_error_and_clear (error, GCUDA_ERROR_CAPTURING);
    gcuda_event_elapsed_time (end, start, &error);
    assert_error_and_clear (error, GCUDA_ERROR_CAPTURING);
    g_assert_true (gcuda_stream_is_capturing (GCUDA_STREAM (builder), &error));
    /* And none before the graph is launched that records it. */
    g_assert_true (gcuda_graph_builder_add_event_record (builder, late, &error));
    assert_no_error (error);
  }
  gcuda_event_elapsed_time (start, late, &error);
  assert_error_and_clear (error, GCUDA_ERROR_NOT_RECORDED);
}

static void
test_other_context (Bed *bed,
                    gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaContext) other = gcuda_context_new (bed->device, GCUDA_CONTEXT_FLAGS_NONE, &error);
  g_autoptr (GCudaEvent) event = make_event (other, GCUDA_EVENT_FLAGS_NONE);
  g_autoptr (GCudaStream) stream = gcuda_stream_new (other, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  g_autoptr (GCudaBuffer) buffer = gcuda_memory_resource_allocate (bed->resource, 65536, bed->stream, &error);
  Blocker *blocker;

  g_assert_no_error (error);
  gcuda_test_log_start ();
  g_assert_false (gcuda_event_record (event, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  if (gcuda_test_is_simulated ())
    {
      g_auto (GStrv) log = gcuda_test_log_take ();

      g_assert_cmpuint (gcuda_test_log_count (log, "cuEventRecord", NULL), ==, 0);
    }

  /* Waiting across contexts is fine, in both forms, and orders. */
  g_assert_true (gcuda_stream_wait_stream (stream, bed->stream, &error));
  g_assert_no_error (error);
  blocker = blocker_new (stream);
  pattern_fill (buffer, 0x12, stream);
  g_assert_true (gcuda_event_record (event, stream, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_stream_wait_event (bed->stream, event, &error));
  g_assert_no_error (error);
  blocker_release (blocker);
  pattern_assert (buffer, 0x12, bed->stream);
}

static void
test_bad_arguments (Bed *bed,
                    gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaEvent) event = make_event (bed->context, GCUDA_EVENT_FLAGS_NONE);
  g_autoptr (GCudaEvent) bare = g_object_new (GCUDA_TYPE_EVENT, NULL);

  g_assert_null (gcuda_event_new (NULL, GCUDA_EVENT_FLAGS_NONE, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_null (gcuda_event_new (bed->context, (GCudaEventFlags) 0x80, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_false (gcuda_event_record (event, NULL, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_false (gcuda_stream_wait_event (bed->stream, NULL, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_true (gcuda_event_is_closed (bare));
  g_assert_true (gcuda_event_close (bare, &error));
  g_assert_null (gcuda_event_get_context (bare));
  g_assert_cmpuint (gcuda_event_get_handle (bare), ==, 0);
  g_assert_false (gcuda_event_query (bare, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  gcuda_event_elapsed_time (bare, event, &error);
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
}

/* An event that a capture recorded marks no work: asking it would break the capture, so it is not asked. */
static void
test_captured (Bed *bed,
               gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaEvent) event = make_event (bed->context, GCUDA_EVENT_FLAGS_NONE);
  CUgraph graph = NULL;

  assert_cuda (RAW (cuStreamBeginCapture) (gcuda_stream_get_cuda_stream (bed->stream), CU_STREAM_CAPTURE_MODE_RELAXED));
  g_assert_true (gcuda_event_record (event, bed->stream, &error));
  g_assert_no_error (error);
  g_assert_false (gcuda_event_query (event, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CAPTURING);
  g_assert_false (gcuda_event_synchronize (event, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CAPTURING);
  g_assert_true (gcuda_stream_is_capturing (bed->stream, &error));
  g_assert_no_error (error);
  assert_cuda (RAW (cuStreamEndCapture) (gcuda_stream_get_cuda_stream (bed->stream), &graph));
  assert_cuda (RAW (cuGraphDestroy) (graph));
  g_assert_true (gcuda_event_record (event, bed->stream, &error));
  g_assert_true (gcuda_event_synchronize (event, &error));
  g_assert_no_error (error);
}

int
main (int argc,
      char **argv)
{
  gcuda_test_init (&argc, &argv);
  bed_add ("/event/life", test_life);
  bed_add ("/event/elapsed-time", test_elapsed_time);
  bed_add ("/event/other-context", test_other_context);
  bed_add ("/event/bad-arguments", test_bad_arguments);
  bed_add ("/event/captured", test_captured);
  return g_test_run ();
}
