/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-test.h"

#define SIZE 4096

static const GCudaCaptureMode modes[] = { GCUDA_CAPTURE_MODE_GLOBAL, GCUDA_CAPTURE_MODE_THREAD_LOCAL, GCUDA_CAPTURE_MODE_RELAXED };

static GCudaBuffer *
allocate (Bed *bed)
{
  g_autoptr (GError) error = NULL;
  GCudaBuffer *buffer = gcuda_memory_resource_allocate (bed->resource, SIZE, bed->stream, &error);

  assert_no_error (error);
  return buffer;
}

static GCudaGraphBuilder *
begin (Bed *bed,
       GCudaCaptureMode mode)
{
  g_autoptr (GError) error = NULL;
  GCudaGraphBuilder *builder = gcuda_graph_builder_new (bed->context, mode, &error);

  assert_no_error (error);
  g_assert_nonnull (builder);
  return builder;
}

static GCudaGraph *
finish (GCudaGraphBuilder *builder)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaGraphDefinition) definition = gcuda_graph_builder_finish (builder, &error);
  GCudaGraph *graph;

  assert_no_error (error);
  graph = gcuda_graph_definition_instantiate (definition, GCUDA_GRAPH_FLAGS_NONE, NULL, &error);
  assert_no_error (error);
  return graph;
}

static void
launch (GCudaGraph *graph,
        Bed *bed)
{
  g_autoptr (GError) error = NULL;
  gboolean success = gcuda_graph_launch (graph, bed->stream, &error);

  assert_no_error (error);
  g_assert_true (success);
}

/* In each mode, on a stream of its own: nothing is done at first, all of it by each launch. */
static void
test_modes (Bed *bed,
            gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) a = allocate (bed);
  g_autoptr (GCudaBuffer) b = allocate (bed);

  for (guint i = 0; i < G_N_ELEMENTS (modes); i++)
    {
      g_autoptr (GCudaGraphBuilder) builder = NULL;
      g_autoptr (GCudaGraph) graph = NULL;

      pattern_fill (a, 1, bed->stream);
      pattern_fill (b, 2, bed->stream);
      g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
      builder = begin (bed, modes[i]);
      g_assert_true (gcuda_stream_is_capturing (GCUDA_STREAM (builder), &error));
      assert_no_error (error);
      g_assert_true (gcuda_stream_get_context (GCUDA_STREAM (builder)) == bed->context);
      pattern_fill (a, 7, GCUDA_STREAM (builder));
      g_assert_true (gcuda_buffer_copy_to (a, b, GCUDA_STREAM (builder), &error));
      assert_no_error (error);
      graph = finish (builder);
      g_assert_true (gcuda_stream_is_closed (GCUDA_STREAM (builder)));
      pattern_assert (a, 1, bed->stream);
      pattern_assert (b, 2, bed->stream);
      for (guint round = 0; round < 3; round++)
        {
          pattern_fill (b, 3, bed->stream);
          launch (graph, bed);
          pattern_assert (a, 7, bed->stream);
          pattern_assert (b, 7, bed->stream);
        }
    }
}

/* On a given stream: what is put into that goes into the graph; afterwards it is a stream as before. */
static void
test_given_stream (Bed *bed,
                   gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) a = allocate (bed);
  g_autoptr (GCudaStream) other = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  g_autoptr (GCudaGraphBuilder) builder = NULL;
  g_autoptr (GCudaGraph) graph = NULL;

  pattern_fill (a, 1, bed->stream);
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  builder = gcuda_graph_builder_new_for_stream (other, GCUDA_CAPTURE_MODE_GLOBAL, &error);
  assert_no_error (error);
  g_assert_cmpuint (gcuda_stream_get_handle (other), ==, gcuda_stream_get_handle (GCUDA_STREAM (builder)));
  /* Not twice. */
  g_assert_null (gcuda_graph_builder_new_for_stream (other, GCUDA_CAPTURE_MODE_GLOBAL, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CAPTURING);
  pattern_fill (a, 5, other);
  graph = finish (builder);
  g_assert_false (gcuda_stream_is_capturing (other, &error));
  assert_no_error (error);
  pattern_assert (a, 1, bed->stream);
  launch (graph, bed);
  pattern_assert (a, 5, bed->stream);
  pattern_fill (a, 6, other);
  pattern_assert (a, 6, other);
}

static void
test_per_thread (Bed *bed,
                 gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) a = allocate (bed);
  g_autoptr (GCudaStream) other = gcuda_stream_new_per_thread_default (bed->context, &error);
  g_autoptr (GCudaStream) legacy = gcuda_stream_new_legacy_default (bed->context, &error);
  g_autoptr (GCudaGraphBuilder) builder = NULL;
  g_autoptr (GCudaGraph) graph = NULL;

  pattern_fill (a, 1, bed->stream);
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  g_assert_null (gcuda_graph_builder_new_for_stream (legacy, GCUDA_CAPTURE_MODE_GLOBAL, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  builder = gcuda_graph_builder_new_for_stream (other, GCUDA_CAPTURE_MODE_RELAXED, &error);
  assert_no_error (error);
  pattern_fill (a, 5, GCUDA_STREAM (builder));
  graph = finish (builder);
  launch (graph, bed);
  pattern_assert (a, 5, bed->stream);
}

static void
test_arguments (Bed *bed,
                gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaStream) closed = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  g_autoptr (GCudaGraphBuilder) bare = g_object_new (GCUDA_TYPE_GRAPH_BUILDER, NULL);

  g_assert_null (gcuda_graph_builder_new (NULL, GCUDA_CAPTURE_MODE_GLOBAL, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_null (gcuda_graph_builder_new (bed->context, 7, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_null (gcuda_graph_builder_new_for_stream (NULL, GCUDA_CAPTURE_MODE_GLOBAL, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  gcuda_stream_close (closed, NULL);
  g_assert_null (gcuda_graph_builder_new_for_stream (closed, GCUDA_CAPTURE_MODE_GLOBAL, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_true (gcuda_stream_is_closed (GCUDA_STREAM (bare)));
  g_assert_null (gcuda_graph_builder_finish (bare, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_null (gcuda_graph_builder_fork (bare, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_true (gcuda_stream_close (GCUDA_STREAM (bare), &error));
}

/* What can't be captured is refused, names what can, and the capture goes on. */
static void
test_refused (Bed *bed,
              gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) a = allocate (bed);
  g_autoptr (GCudaSynchronousMemoryResource) synchronous = gcuda_synchronous_memory_resource_new (bed->context, &error);
  g_autoptr (GCudaVirtualMemoryResource) virtual = gcuda_virtual_memory_resource_new (bed->device, NULL, &error);
  g_autoptr (GCudaGraphMemoryResource) graph_memory = gcuda_graph_memory_resource_new (bed->device, &error);
  g_autoptr (GCudaEvent) event = gcuda_event_new (bed->context, GCUDA_EVENT_FLAGS_NONE, &error);
  GCudaMemoryResource *resources[] = { bed->resource, GCUDA_MEMORY_RESOURCE (synchronous), GCUDA_MEMORY_RESOURCE (virtual) };
  g_autoptr (GCudaGraphBuilder) builder = NULL;
  g_autoptr (GCudaGraph) graph = NULL;
  GCudaStream *stream;

  assert_no_error (error);
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  builder = begin (bed, GCUDA_CAPTURE_MODE_GLOBAL);
  stream = GCUDA_STREAM (builder);
  pattern_fill (a, 4, stream);
  for (guint i = 0; i < G_N_ELEMENTS (resources); i++)
    {
      g_assert_null (gcuda_memory_resource_allocate (resources[i], SIZE, stream, &error));
      g_assert_error (error, GCUDA_ERROR, GCUDA_ERROR_CAPTURING);
      g_assert_nonnull (strstr (error->message, "GCudaGraphMemoryResource"));
      g_clear_error (&error);
    }
  g_assert_null (gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (graph_memory), SIZE, bed->stream, &error));
  g_assert_error (error, GCUDA_ERROR, GCUDA_ERROR_NOT_CAPTURING);
  g_assert_nonnull (strstr (error->message, "GCudaDeviceMemoryResource"));
  g_clear_error (&error);
  g_assert_false (gcuda_stream_synchronize (stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CAPTURING);
  g_assert_false (gcuda_stream_query (stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CAPTURING);
  g_assert_null (gcuda_buffer_download (a, 0, 16, stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CAPTURING);
  g_assert_true (gcuda_event_record (event, stream, &error));
  assert_no_error (error);
  g_assert_false (gcuda_event_synchronize (event, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CAPTURING);
  g_assert_false (gcuda_event_query (event, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CAPTURING);
  graph = finish (builder);
  launch (graph, bed);
  pattern_assert (a, 4, bed->stream);
}

/* After the end it is a closed stream. */
static void
test_after_finish (Bed *bed,
                   gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) a = allocate (bed);
  g_autoptr (GCudaGraphBuilder) builder = NULL;
  g_autoptr (GCudaGraphBuilder) other = NULL;
  g_autoptr (GCudaGraph) graph = NULL;

  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  builder = begin (bed, GCUDA_CAPTURE_MODE_RELAXED);
  other = begin (bed, GCUDA_CAPTURE_MODE_RELAXED);
  graph = finish (builder);
  g_assert_null (gcuda_graph_builder_finish (builder, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_false (gcuda_buffer_fill (a, 1, 1, GCUDA_STREAM (builder), &error));
  g_assert_nonnull (strstr (error->message, "graph builder"));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_null (gcuda_graph_builder_fork (builder, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_null (gcuda_graph_builder_get_last_node (builder, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_false (gcuda_graph_builder_join (other, builder, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_true (gcuda_stream_close (GCUDA_STREAM (builder), &error));
  g_assert_cmpuint (gcuda_stream_get_handle (GCUDA_STREAM (builder)), ==, 0);
}

static void
test_fork_join (Bed *bed,
                gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) a = allocate (bed);
  g_autoptr (GCudaBuffer) b = allocate (bed);
  g_autoptr (GCudaBuffer) c = allocate (bed);
  g_autoptr (GCudaGraphBuilder) builder = NULL;
  g_autoptr (GCudaGraphBuilder) other = NULL;
  g_autoptr (GCudaGraphBuilder) left = NULL;
  g_autoptr (GCudaGraphBuilder) right = NULL;
  g_autoptr (GCudaGraph) graph = NULL;

  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  builder = begin (bed, GCUDA_CAPTURE_MODE_RELAXED);
  other = begin (bed, GCUDA_CAPTURE_MODE_RELAXED);
  pattern_fill (a, 1, GCUDA_STREAM (builder));
  left = gcuda_graph_builder_fork (builder, &error);
  assert_no_error (error);
  right = gcuda_graph_builder_fork (left, &error);
  assert_no_error (error);
  g_assert_true (gcuda_stream_is_capturing (GCUDA_STREAM (right), &error));
  /* Both go on from what is there. */
  g_assert_true (gcuda_buffer_copy_to (a, b, GCUDA_STREAM (left), &error));
  assert_no_error (error);
  g_assert_true (gcuda_buffer_copy_to (a, c, GCUDA_STREAM (right), &error));
  assert_no_error (error);
  g_assert_null (gcuda_graph_builder_finish (left, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_null (gcuda_graph_builder_finish (builder, &error));
  assert_error_and_clear (error, GCUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  g_assert_false (gcuda_graph_builder_join (builder, builder, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_false (gcuda_graph_builder_join (left, builder, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_false (gcuda_graph_builder_join (other, right, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_false (gcuda_graph_builder_join (builder, other, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_false (gcuda_graph_builder_join (builder, NULL, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_true (gcuda_graph_builder_join (left, right, &error));
  assert_no_error (error);
  g_assert_true (gcuda_stream_is_closed (GCUDA_STREAM (right)));
  g_assert_null (gcuda_graph_builder_finish (builder, &error));
  assert_error_and_clear (error, GCUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  g_assert_true (gcuda_graph_builder_join (builder, left, &error));
  assert_no_error (error);
  g_assert_false (gcuda_graph_builder_join (builder, left, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  pattern_fill (a, 9, GCUDA_STREAM (builder));
  graph = finish (builder);
  for (guint round = 0; round < 3; round++)
    launch (graph, bed);
  pattern_assert (a, 9, bed->stream);
  pattern_assert (b, 1, bed->stream);
  pattern_assert (c, 1, bed->stream);
}

/* Order by events within the capture, on a plain stream that joins it. */
static void
test_plain_stream_joins (Bed *bed,
                         gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) a = allocate (bed);
  g_autoptr (GCudaBuffer) b = allocate (bed);
  g_autoptr (GCudaStream) plain = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  g_autoptr (GCudaGraphBuilder) builder = NULL;
  g_autoptr (GCudaGraph) graph = NULL;

  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  builder = begin (bed, GCUDA_CAPTURE_MODE_GLOBAL);
  pattern_fill (a, 3, GCUDA_STREAM (builder));
  g_assert_true (gcuda_stream_wait_stream (plain, GCUDA_STREAM (builder), &error));
  assert_no_error (error);
  g_assert_true (gcuda_buffer_copy_to (a, b, plain, &error));
  assert_no_error (error);
  g_assert_true (gcuda_stream_wait_stream (GCUDA_STREAM (builder), plain, &error));
  assert_no_error (error);
  graph = finish (builder);
  /* What was used on that stream is kept too. */
  g_object_unref (g_steal_pointer (&a));
  launch (graph, bed);
  pattern_assert (b, 3, bed->stream);
}

static void
test_unjoined_stream (Bed *bed,
                      gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) a = allocate (bed);
  g_autoptr (GCudaStream) plain = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  g_autoptr (GCudaGraphBuilder) builder = NULL;

  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  builder = begin (bed, GCUDA_CAPTURE_MODE_GLOBAL);
  pattern_fill (a, 3, GCUDA_STREAM (builder));
  g_assert_true (gcuda_stream_wait_stream (plain, GCUDA_STREAM (builder), &error));
  pattern_fill (a, 4, plain);
  /* The driver finds it out, and the capture is over. */
  g_assert_null (gcuda_graph_builder_finish (builder, &error));
  assert_error_and_clear (error, GCUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  g_assert_true (gcuda_stream_is_closed (GCUDA_STREAM (builder)));
  g_assert_false (gcuda_stream_is_capturing (plain, &error));
  assert_no_error (error);
  /* Nothing is kept for a graph that there is not. */
  g_clear_object (&a);
  bed_assert_use (bed, 0);
}

/* Something breaks the capture: the end says so, and the builder is closed. */
static void
test_invalidated (Bed *bed,
                  gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) a = allocate (bed);
  g_autoptr (GCudaGraphBuilder) builder = NULL;

  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  builder = begin (bed, GCUDA_CAPTURE_MODE_GLOBAL);
  pattern_fill (a, 3, GCUDA_STREAM (builder));
  g_assert_cmpint (RAW (cuStreamSynchronize) (gcuda_stream_get_cuda_stream (GCUDA_STREAM (builder))), ==, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  g_assert_false (gcuda_buffer_fill (a, 4, 1, GCUDA_STREAM (builder), &error));
  assert_error_and_clear (error, GCUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  g_assert_null (gcuda_graph_builder_fork (builder, &error));
  assert_error_and_clear (error, GCUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  g_assert_null (gcuda_graph_builder_finish (builder, &error));
  assert_error_and_clear (error, GCUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  g_assert_true (gcuda_stream_is_closed (GCUDA_STREAM (builder)));
  g_clear_object (&a);
  bed_assert_use (bed, 0);
}

/* Threads */

typedef struct
{
  GCudaGraphBuilder *builder;
  GError *error;
  GCudaGraphDefinition *definition;
} Elsewhere;

static gpointer
finish_elsewhere (gpointer data)
{
  Elsewhere *elsewhere = data;

  elsewhere->definition = gcuda_graph_builder_finish (elsewhere->builder, &elsewhere->error);
  return NULL;
}

static void
test_finish_elsewhere (Bed *bed,
                       gconstpointer data)
{
  for (guint i = 0; i < G_N_ELEMENTS (modes); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GCudaGraphBuilder) builder = begin (bed, modes[i]);
      g_autoptr (GCudaGraphDefinition) definition = NULL;
      Elsewhere elsewhere = { builder, NULL, NULL };

      in_thread (finish_elsewhere, &elsewhere);
      if (modes[i] == GCUDA_CAPTURE_MODE_RELAXED)
        {
          assert_no_error (elsewhere.error);
          definition = elsewhere.definition;
          g_assert_nonnull (definition);
          continue;
        }
      g_assert_null (elsewhere.definition);
      assert_error_and_clear (elsewhere.error, GCUDA_ERROR_WRONG_THREAD);
      g_assert_true (gcuda_stream_is_capturing (GCUDA_STREAM (builder), &error));
      definition = gcuda_graph_builder_finish (builder, &error);
      assert_no_error (error);
    }
}

static gpointer
drop (gpointer data)
{
  g_object_unref (data);
  return NULL;
}

static gpointer
close_stream (gpointer data)
{
  gcuda_stream_close (data, NULL);
  return NULL;
}

/* A builder that nobody wants any more ends its capture, keeps nothing, and breaks nobody's. */
static void
test_abandoned (Bed *bed,
                gconstpointer data)
{
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (modes); i++)
    for (guint how = 0; how < 4; how++)
      for (guint given = 0; given < 2; given++)
        {
          GCudaBuffer *a = allocate (bed);
          g_autoptr (GCudaStream) other = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
          GCudaGraphBuilder *builder, *forked;
          Capture *capture;

          g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
          capture = capture_begin (bed->context, CAPTURE_NON_BLOCKING);
          builder = given ? gcuda_graph_builder_new_for_stream (other, modes[i], &error) : begin (bed, modes[i]);
          assert_no_error (error);
          pattern_fill (a, 1, GCUDA_STREAM (builder));
          forked = gcuda_graph_builder_fork (builder, &error);
          assert_no_error (error);
          pattern_fill (a, 2, GCUDA_STREAM (forked));
          switch (how)
            {
            case 0:
              g_object_unref (forked);
              g_object_unref (builder);
              break;
            case 1:
              in_thread (drop, builder);
              g_object_unref (forked);
              break;
            case 2:
              gcuda_stream_close (GCUDA_STREAM (builder), &error);
              g_assert_null (gcuda_graph_builder_finish (builder, &error));
              assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
              g_object_unref (builder);
              g_object_unref (forked);
              break;
            default:
              in_thread (close_stream, builder);
              g_object_unref (builder);
              in_thread (drop, forked);
              break;
            }
          g_object_unref (a);
          /* What only this thread can end is ended by it. */
          g_assert_true (gcuda_reclaim (NULL, &error));
          g_assert_false (gcuda_stream_is_capturing (other, &error));
          assert_no_error (error);
          capture_end (capture);
          bed_assert_use (bed, 0);
        }
}

/* By the main loop of the thread that began. */
static void
test_abandoned_loop (Bed *bed,
                     gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaStream) other = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  gint64 deadline = g_get_monotonic_time () + 10 * G_TIME_SPAN_SECOND;

  in_thread (drop, gcuda_graph_builder_new_for_stream (other, GCUDA_CAPTURE_MODE_GLOBAL, &error));
  while (gcuda_stream_is_capturing (other, &error) && g_get_monotonic_time () < deadline)
    g_main_context_iteration (NULL, FALSE);
  assert_no_error (error);
  g_assert_false (gcuda_stream_is_capturing (other, &error));
  /* And by the next one that it makes. */
  in_thread (drop, gcuda_graph_builder_new_for_stream (other, GCUDA_CAPTURE_MODE_GLOBAL, &error));
  g_object_unref (gcuda_graph_builder_new_for_stream (other, GCUDA_CAPTURE_MODE_GLOBAL, &error));
  assert_no_error (error);
  g_assert_false (gcuda_stream_is_capturing (other, &error));
}

/* Recipes */

/* Memory from elsewhere that is released on the builder is freed after the capture. */
static void
test_deallocation_stream (Bed *bed,
                          gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaSynchronousMemoryResource) synchronous = gcuda_synchronous_memory_resource_new (bed->context, &error);
  g_autoptr (GCudaStream) other = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  GCudaBuffer *a = allocate (bed), *b = allocate (bed), *c;
  g_autoptr (GCudaGraphBuilder) builder = NULL;
  g_autoptr (GCudaGraph) graph = NULL;

  c = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (synchronous), SIZE, bed->stream, &error);
  /* Not by this thread's waiting: what frees the memory is another thread, and tools know what each of them waited for. */
  g_assert_true (gcuda_stream_wait_stream (other, bed->stream, &error));
  builder = gcuda_graph_builder_new_for_stream (other, GCUDA_CAPTURE_MODE_GLOBAL, &error);
  assert_no_error (error);
  g_assert_true (gcuda_buffer_set_deallocation_stream (a, GCUDA_STREAM (builder), &error));
  assert_no_error (error);
  g_object_unref (a);
  g_assert_true (gcuda_buffer_close (b, GCUDA_STREAM (builder), &error));
  assert_no_error (error);
  g_assert_true (gcuda_buffer_close (c, GCUDA_STREAM (builder), &error));
  assert_no_error (error);
  g_object_unref (b);
  g_object_unref (c);
  g_assert_true (gcuda_stream_is_capturing (GCUDA_STREAM (builder), &error));
  graph = finish (builder);
  bed_assert_use (bed, 0);
}

/* Host functions */

/* Called for each launch, in the main context; let go when graph and launches are gone. */
static void
test_host_function (Bed *bed,
                    gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  GCudaGraphBuilder *builder = begin (bed, GCUDA_CAPTURE_MODE_GLOBAL);
  g_autoptr (GCudaGraphBuilder) forked = gcuda_graph_builder_fork (builder, &error);
  g_autoptr (GCudaGraph) graph = NULL;
  Call calls[2] = { { NULL } };

  g_assert_true (gcuda_stream_launch_host_function (GCUDA_STREAM (builder), call_run, &calls[0], call_destroyed, &error));
  assert_no_error (error);
  g_assert_true (gcuda_stream_launch_host_function (GCUDA_STREAM (forked), call_run, &calls[1], call_destroyed, &error));
  assert_no_error (error);
  g_assert_true (gcuda_graph_builder_join (builder, forked, &error));
  graph = finish (builder);
  g_object_unref (builder);
  while (g_main_context_iteration (NULL, FALSE))
    ;
  g_assert_cmpint (calls[0].called + calls[1].called, ==, 0);
  for (guint round = 0; round < 3; round++)
    launch (graph, bed);
  for (guint i = 0; i < 2; i++)
    iterate_until_is (&calls[i].called, 3);
  g_assert_cmpint (calls[0].destroyed + calls[1].destroyed, ==, 0);
  launch (graph, bed);
  g_clear_object (&graph);
  for (guint i = 0; i < 2; i++)
    {
      iterate_until_is (&calls[i].destroyed, 1);
      g_assert_cmpint (calls[i].called, ==, 4);
    }
}

/* A host function does not keep its builder, else that would never be dropped. */
static void
test_host_function_abandoned (Bed *bed,
                              gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  Call call = { 0 };
  GCudaGraphBuilder *builder = begin (bed, GCUDA_CAPTURE_MODE_GLOBAL);

  g_assert_true (gcuda_stream_launch_host_function (GCUDA_STREAM (builder), call_run, &call, call_destroyed, &error));
  g_assert_finalize_object (builder);
  iterate_until_is (&call.destroyed, 1);
  g_assert_cmpint (call.called, ==, 0);
}

/* Events */

static void
test_events (Bed *bed,
             gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) a = allocate (bed);
  g_autoptr (GCudaBuffer) b = allocate (bed);
  g_autoptr (GCudaStream) other = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  g_autoptr (GCudaEvent) begun = gcuda_event_new (bed->context, GCUDA_EVENT_FLAGS_NONE, &error);
  g_autoptr (GCudaEvent) done = gcuda_event_new (bed->context, GCUDA_EVENT_FLAGS_NONE, &error);
  g_autoptr (GCudaGraphBuilder) builder = NULL;
  g_autoptr (GCudaGraph) graph = NULL;

  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  builder = begin (bed, GCUDA_CAPTURE_MODE_GLOBAL);
  g_assert_true (gcuda_graph_builder_add_event_wait (builder, begun, &error));
  assert_no_error (error);
  g_assert_true (gcuda_buffer_copy_to (a, b, GCUDA_STREAM (builder), &error));
  g_assert_true (gcuda_graph_builder_add_event_record (builder, done, &error));
  assert_no_error (error);
  g_assert_false (gcuda_graph_builder_add_event_record (builder, NULL, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  graph = finish (builder);
  for (guint8 round = 1; round < 4; round++)
    {
      /* Ordered by these events alone. */
      pattern_fill (a, round, other);
      g_assert_true (gcuda_event_record (begun, other, &error));
      launch (graph, bed);
      g_assert_true (gcuda_stream_wait_event (other, done, &error));
      assert_no_error (error);
      pattern_assert (b, round, other);
    }
  g_assert_true (gcuda_event_synchronize (done, &error));
  assert_no_error (error);
  /* The graph has them, whoever lets them go. */
  gcuda_event_close (done, NULL);
  gcuda_event_close (begun, NULL);
  launch (graph, bed);
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  assert_no_error (error);
}

/* Graphs within graphs */

static void
test_child (Bed *bed,
            gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  GCudaBuffer *a = allocate (bed), *b = allocate (bed);
  g_autoptr (GCudaBuffer) c = allocate (bed);
  g_autoptr (GCudaGraphBuilder) inner = NULL;
  g_autoptr (GCudaGraphBuilder) builder = NULL;
  GCudaGraphDefinition *child;
  g_autoptr (GCudaGraph) graph = NULL;

  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  inner = begin (bed, GCUDA_CAPTURE_MODE_GLOBAL);
  pattern_fill (a, 6, GCUDA_STREAM (inner));
  g_assert_true (gcuda_buffer_copy_to (a, b, GCUDA_STREAM (inner), &error));
  child = gcuda_graph_builder_finish (inner, &error);
  assert_no_error (error);
  builder = begin (bed, GCUDA_CAPTURE_MODE_GLOBAL);
  g_assert_true (gcuda_graph_builder_add_graph (builder, child, &error));
  assert_no_error (error);
  g_assert_true (gcuda_buffer_copy_to (b, c, GCUDA_STREAM (builder), &error));
  assert_no_error (error);
  g_assert_false (gcuda_graph_builder_add_graph (builder, NULL, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  gcuda_graph_definition_close (child, NULL);
  g_assert_false (gcuda_graph_builder_add_graph (builder, child, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_object_unref (child);
  graph = finish (builder);
  /* What the inner graph kept, the outer one does. */
  g_object_unref (a);
  g_object_unref (b);
  launch (graph, bed);
  pattern_assert (c, 6, bed->stream);
}

/* Into a graph that is there already; an abandoned builder leaves that as a graph. */
static void
test_adds (Bed *bed,
           gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  GCudaBuffer *a = allocate (bed), *b = allocate (bed);
  g_autoptr (GCudaBuffer) result = allocate (bed);
  g_autoptr (GCudaGraphDefinition) definition = gcuda_graph_definition_new (bed->context, &error);
  g_autoptr (GCudaGraphDefinition) same = NULL;
  g_autoptr (GCudaGraphNode) node = gcuda_graph_definition_add_fill (definition, NULL, 0, b, 0, SIZE, 1, 1, &error);
  g_autoptr (GCudaGraphBuilder) builder = NULL;
  g_autoptr (GPtrArray) nodes = NULL;
  g_autoptr (GCudaGraph) graph = NULL;

  assert_no_error (error);
  g_assert_null (gcuda_graph_builder_new_for_definition (NULL, GCUDA_CAPTURE_MODE_GLOBAL, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  builder = gcuda_graph_builder_new_for_definition (definition, GCUDA_CAPTURE_MODE_GLOBAL, &error);
  assert_no_error (error);
  pattern_fill (a, 7, GCUDA_STREAM (builder));
  g_assert_true (gcuda_buffer_copy_to (a, result, GCUDA_STREAM (builder), &error));
  same = gcuda_graph_builder_finish (builder, &error);
  assert_no_error (error);
  g_object_unref (a);
  g_object_unref (b);
  g_clear_object (&builder);
  builder = gcuda_graph_builder_new_for_definition (definition, GCUDA_CAPTURE_MODE_GLOBAL, &error);
  assert_no_error (error);
  g_clear_object (&builder);
  nodes = gcuda_graph_definition_get_nodes (definition, &error);
  assert_no_error (error);
  g_assert_cmpuint (nodes->len, ==, 3);
  g_assert_true (same == definition);
  graph = gcuda_graph_definition_instantiate (definition, GCUDA_GRAPH_FLAGS_NONE, NULL, &error);
  assert_no_error (error);
  launch (graph, bed);
  pattern_assert (result, 7, bed->stream);
}

/* The builder keeps the definition that it adds to; one that is closed is told as that. */
static void
test_adds_to_what_is_dropped (Bed *bed,
                              gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) a = allocate (bed);

  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  for (guint closed = 0; closed < 2; closed++)
    {
      GCudaGraphDefinition *definition = gcuda_graph_definition_new (bed->context, &error);
      g_autoptr (GCudaGraphBuilder) builder = gcuda_graph_builder_new_for_definition (definition, GCUDA_CAPTURE_MODE_GLOBAL, &error);
      g_autoptr (GCudaGraphDefinition) again = NULL;
      g_autoptr (GCudaGraph) graph = NULL;

      assert_no_error (error);
      if (closed)
        gcuda_graph_definition_close (definition, NULL);
      g_object_unref (definition);
      pattern_fill (a, 9, GCUDA_STREAM (builder));
      again = gcuda_graph_builder_finish (builder, &error);
      if (closed)
        {
          g_assert_null (again);
          assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
          continue;
        }
      assert_no_error (error);
      graph = gcuda_graph_definition_instantiate (again, GCUDA_GRAPH_FLAGS_NONE, NULL, &error);
      assert_no_error (error);
      launch (graph, bed);
      pattern_assert (a, 9, bed->stream);
    }
}

/* A fork of no capture is a stream no more. */
static void
test_fork_of_abandoned (Bed *bed,
                        gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) a = allocate (bed);
  GCudaGraphBuilder *builder;
  g_autoptr (GCudaGraphBuilder) forked = NULL;

  pattern_fill (a, 0, bed->stream);
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  builder = begin (bed, GCUDA_CAPTURE_MODE_GLOBAL);
  forked = gcuda_graph_builder_fork (builder, &error);
  assert_no_error (error);
  g_object_unref (builder);
  g_assert_true (gcuda_stream_is_closed (GCUDA_STREAM (forked)));
  g_assert_false (gcuda_buffer_fill (a, 1, 1, GCUDA_STREAM (forked), &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  pattern_assert (a, 0, bed->stream);
}

static gpointer
begin_global (gpointer data)
{
  return begin (data, GCUDA_CAPTURE_MODE_GLOBAL);
}

/* A capture whose thread is gone is in nobody's way once its builder is dropped. */
static void
test_abandoned_without_its_thread (Bed *bed,
                                   gconstpointer data)
{
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < 3; i++)
    {
      GCudaGraphBuilder *builder = g_thread_join (g_thread_new ("begins", begin_global, bed));
      GCudaBuffer *a;

      g_object_unref (builder);
      a = allocate (bed);
      pattern_fill (a, 1, bed->stream);
      pattern_assert (a, 1, bed->stream);
      g_object_unref (a);
    }
  bed_assert_use (bed, 0);
}

typedef struct
{
  Bed *bed;
  GCudaStreamFlags flags;
  GCudaStream *stream;
  GCudaGraphBuilder *builder;
} Begun;

static gpointer
begin_on_stream (gpointer data)
{
  Begun *self = data;
  g_autoptr (GError) error = NULL;

  if (self->stream == NULL)
    self->stream = gcuda_stream_new (self->bed->context, self->flags, 0, &error);
  self->builder = gcuda_graph_builder_new_for_stream (self->stream, GCUDA_CAPTURE_MODE_GLOBAL, &error);
  assert_no_error (error);
  return NULL;
}

/* The same on a stream that was given: with that, or as soon as nothing else has it. */
static void
test_abandoned_stream_without_its_thread (Bed *bed,
                                          gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaMemoryResource) graph_memory = GCUDA_MEMORY_RESOURCE (gcuda_graph_memory_resource_new (bed->device, &error));
  g_autoptr (GCudaMemoryResource) synchronous = GCUDA_MEMORY_RESOURCE (gcuda_synchronous_memory_resource_new (bed->context, &error));

  assert_no_error (error);
  for (guint i = 0; i < 8; i++)
    {
      Begun begun = { .bed = bed, .flags = i & 1 ? GCUDA_STREAM_FLAGS_BLOCKING : GCUDA_STREAM_FLAGS_NONE };
      GCudaBuffer *buffer = NULL;
      gboolean gone = FALSE;

      in_thread (begin_on_stream, &begun);
      if (i & 2)
        buffer = gcuda_memory_resource_allocate (graph_memory, 4096, GCUDA_STREAM (begun.builder), &error);
      assert_no_error (error);
      if (i & 4)
        g_clear_object (&begun.stream);
      g_object_unref (begun.builder);
      g_clear_object (&begun.stream);
      g_clear_object (&buffer);
      /* Allocating breaks others' captures, and is refused while there is one. */
      for (guint tries = 0; tries < 1000 && !gone; tries++)
        {
          g_autoptr (GCudaBuffer) any = gcuda_memory_resource_allocate (synchronous, 4096, bed->stream, NULL);

          gone = any != NULL;
          if (!gone)
            g_usleep (10000);
        }
      g_assert_true (gone);
      /* Nor is the legacy default stream in anybody's way. */
      {
        g_autoptr (GCudaStream) legacy = gcuda_stream_new_legacy_default (bed->context, &error);
        GCudaBuffer *plain = gcuda_memory_resource_allocate (bed->resource, 4096, legacy, &error);

        assert_no_error (error);
        g_object_unref (plain);
      }
      bed_assert_use (bed, 0);
      /* Nor is the main context, with what nobody can do any more. */
      g_usleep (30000);
      g_assert_false (g_main_context_pending (NULL));
    }
}

/* The pool of a stream that ends so goes as well, whether the thread is still there or not. */
static void
test_abandoned_stream_of_a_pool (Bed *bed,
                                 gconstpointer data)
{
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < 4; i++)
    {
      GCudaMemoryResource *pool = GCUDA_MEMORY_RESOURCE (gcuda_device_memory_resource_new_pool (bed->device, 0, GCUDA_HANDLE_TYPES_NONE, &error));
      Begun begun = { .bed = bed, .stream = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error) };
      GCudaBuffer *buffer;

      assert_no_error (error);
      buffer = gcuda_memory_resource_allocate (pool, 4096, begun.stream, &error);
      assert_no_error (error);
      pattern_fill (buffer, 1, begun.stream);
      g_object_unref (buffer);
      g_assert_true (gcuda_stream_synchronize (begun.stream, &error));
      if (i & 1)
        in_thread (begin_on_stream, &begun);
      else
        begin_on_stream (&begun);
      g_object_unref (begun.stream);
      in_thread (drop, begun.builder);
      g_assert_true (gcuda_reclaim (NULL, &error));
      if (i & 2)
        g_usleep (10000);
      g_object_unref (pool);
      /* A pool that is kept is reported, and ends the test. */
      for (guint tries = 0; tries < 3; tries++)
        g_assert_true (gcuda_reclaim (NULL, &error));
      assert_no_error (error);
    }
}

/* What a captured stream can't wait for is refused, and all captures go on. */
static void
test_waits_outside (Bed *bed,
                    gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaStream) legacy = gcuda_stream_new_legacy_default (bed->context, &error);
  g_autoptr (GCudaBuffer) a = allocate (bed);
  g_autoptr (GCudaEvent) event = gcuda_event_new (bed->context, GCUDA_EVENT_FLAGS_NONE, &error);
  g_autoptr (GCudaEvent) inner = gcuda_event_new (bed->context, GCUDA_EVENT_FLAGS_NONE, &error);

  g_assert_true (gcuda_event_record (event, bed->stream, &error));
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  for (guint i = 0; i < G_N_ELEMENTS (modes); i++)
    {
      g_autoptr (GCudaGraphBuilder) builder = begin (bed, modes[i]);
      g_autoptr (GCudaGraphBuilder) other = begin (bed, modes[i]);
      g_autoptr (GCudaGraphDefinition) definition = NULL;
      g_autoptr (GCudaGraphDefinition) second_definition = NULL;
      g_autoptr (GCudaGraph) graph = NULL;
      g_autoptr (GCudaGraph) second = NULL;

      pattern_fill (a, 3, GCUDA_STREAM (builder));
      g_assert_false (gcuda_stream_wait_stream (GCUDA_STREAM (builder), bed->stream, &error));
      g_assert_error (error, GCUDA_ERROR, GCUDA_ERROR_CAPTURING);
      g_assert_nonnull (strstr (error->message, "gcuda_graph_builder_add_event_wait"));
      g_clear_error (&error);
      g_assert_false (gcuda_stream_wait_event (GCUDA_STREAM (builder), event, &error));
      assert_error_and_clear (error, GCUDA_ERROR_CAPTURING);
      g_assert_false (gcuda_stream_wait_stream (GCUDA_STREAM (builder), GCUDA_STREAM (other), &error));
      assert_error_and_clear (error, GCUDA_ERROR_CAPTURING);
      g_assert_false (gcuda_stream_wait_stream (legacy, GCUDA_STREAM (builder), &error));
      assert_error_and_clear (error, GCUDA_ERROR_CAPTURING);
      /* What is in the capture can be waited for. */
      g_assert_true (gcuda_event_record (inner, GCUDA_STREAM (builder), &error));
      g_assert_true (gcuda_stream_wait_event (GCUDA_STREAM (builder), inner, &error));
      assert_no_error (error);
      definition = gcuda_graph_builder_finish (builder, &error);
      assert_no_error (error);
      pattern_fill (a, 4, GCUDA_STREAM (other));
      second_definition = gcuda_graph_builder_finish (other, &error);
      assert_no_error (error);
      graph = gcuda_graph_definition_instantiate (definition, GCUDA_GRAPH_FLAGS_NONE, NULL, &error);
      assert_no_error (error);
      second = gcuda_graph_definition_instantiate (second_definition, GCUDA_GRAPH_FLAGS_NONE, NULL, &error);
      assert_no_error (error);
      launch (graph, bed);
      pattern_assert (a, 3, bed->stream);
      launch (second, bed);
      pattern_assert (a, 4, bed->stream);
    }
}

/* A graph is made executable beside a capture in relaxed mode only; else that is refused, and said. */
static void
test_instantiated_beside (Bed *bed,
                          gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) a = allocate (bed);

  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  for (guint i = 0; i < G_N_ELEMENTS (modes); i++)
    {
      g_autoptr (GCudaGraphBuilder) builder = begin (bed, modes[i]);
      g_autoptr (GCudaGraphBuilder) other = begin (bed, modes[i]);
      g_autoptr (GCudaGraphDefinition) definition = NULL;
      g_autoptr (GCudaGraph) graph = NULL;

      pattern_fill (a, 5 + i, GCUDA_STREAM (builder));
      definition = gcuda_graph_builder_finish (builder, &error);
      assert_no_error (error);
      graph = gcuda_graph_definition_instantiate (definition, GCUDA_GRAPH_FLAGS_NONE, NULL, &error);
      if (modes[i] != GCUDA_CAPTURE_MODE_RELAXED)
        {
          g_assert_null (graph);
          g_assert_nonnull (strstr (error->message, "relaxed"));
          assert_error_and_clear (error, GCUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        }
      assert_no_error (error);
      g_clear_object (&other);
      /* Nothing is lost by that. */
      if (graph == NULL)
        graph = gcuda_graph_definition_instantiate (definition, GCUDA_GRAPH_FLAGS_NONE, NULL, &error);
      assert_no_error (error);
      launch (graph, bed);
      pattern_assert (a, 5 + i, bed->stream);
    }
}

/* A graph that is being captured can't be a part of itself. */
static void
test_adds_itself (Bed *bed,
                  gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaGraphDefinition) definition = gcuda_graph_definition_new (bed->context, &error);
  g_autoptr (GCudaGraphBuilder) builder = NULL;
  g_autoptr (GCudaGraphDefinition) same = NULL;

  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  builder = gcuda_graph_builder_new_for_definition (definition, GCUDA_CAPTURE_MODE_RELAXED, &error);
  assert_no_error (error);
  g_assert_false (gcuda_graph_builder_add_graph (builder, definition, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  same = gcuda_graph_builder_finish (builder, &error);
  assert_no_error (error);
}

/* Also of a graph whose handle others have: functions keep no builder that keeps them. */
static void
test_adds_functions (Bed *bed,
                     gconstpointer data)
{
  g_autoptr (GError) error = NULL;

  for (guint abandoned = 0; abandoned < 2; abandoned++)
    {
      GCudaGraphDefinition *definition = gcuda_graph_definition_new (bed->context, &error), *same = NULL;
      GCudaGraphBuilder *builder;
      Call call = { 0 };

      g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
      g_assert_cmpuint (gcuda_graph_definition_get_handle (definition), !=, 0);
      builder = gcuda_graph_builder_new_for_definition (definition, GCUDA_CAPTURE_MODE_RELAXED, &error);
      assert_no_error (error);
      g_assert_true (gcuda_stream_launch_host_function (GCUDA_STREAM (builder), call_run, &call, call_destroyed, &error));
      assert_no_error (error);
      if (abandoned)
        gcuda_stream_close (GCUDA_STREAM (builder), NULL);
      else
        same = gcuda_graph_builder_finish (builder, &error);
      assert_no_error (error);
      g_clear_object (&same);
      g_object_unref (definition);
      /* While the builder is there. */
      iterate_until_is (&call.destroyed, 1);
      g_assert_finalize_object (builder);
    }
}

/* Others have the event too, and recorded it last. */
static void
test_waits_for_others_record (Bed *bed,
                              gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) a = allocate (bed);
  g_autoptr (GCudaEvent) event = gcuda_event_new (bed->context, GCUDA_EVENT_FLAGS_NONE, &error);
  CUevent handle = (CUevent) (guintptr) gcuda_event_get_handle (event);
  g_autoptr (GCudaGraphBuilder) builder = NULL;
  g_autoptr (GCudaGraphBuilder) forked = NULL;
  g_autoptr (GCudaGraph) graph = NULL;

  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  builder = begin (bed, GCUDA_CAPTURE_MODE_RELAXED);
  g_assert_true (gcuda_event_record (event, GCUDA_STREAM (builder), &error));
  graph = finish (builder);
  g_clear_object (&graph);
  g_clear_object (&builder);
  builder = begin (bed, GCUDA_CAPTURE_MODE_RELAXED);
  pattern_fill (a, 6, GCUDA_STREAM (builder));
  assert_cuda (RAW (cuEventRecord) (handle, gcuda_stream_get_cuda_stream (GCUDA_STREAM (builder))));
  forked = gcuda_graph_builder_fork (builder, &error);
  g_assert_true (gcuda_stream_wait_event (GCUDA_STREAM (forked), event, &error));
  assert_no_error (error);
  g_assert_true (gcuda_graph_builder_join (builder, forked, &error));
  g_assert_false (gcuda_graph_builder_join (builder, forked, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  graph = finish (builder);
  launch (graph, bed);
  pattern_assert (a, 6, bed->stream);
}

/* Memory that another thread frees on the legacy default stream all the time breaks no capture of a blocking stream. */

static gpointer
free_slowly (gpointer data)
{
  GPtrArray *buffers = data;

  while (buffers->len > 0)
    {
      g_ptr_array_set_size (buffers, (gint) buffers->len - 1);
      g_thread_yield ();
    }
  return NULL;
}

static void
test_legacy_frees (Bed *bed,
                   gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaStream) blocking = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_BLOCKING, 0, &error);
  g_autoptr (GCudaStream) legacy = gcuda_stream_new_legacy_default (bed->context, &error);
  g_autoptr (GCudaBuffer) a = allocate (bed);
  g_autoptr (GPtrArray) buffers = g_ptr_array_new_with_free_func (g_object_unref);
  GThread *thread;

  for (guint i = 0; i < 500; i++)
    {
      GCudaBuffer *buffer = allocate (bed);

      g_assert_true (gcuda_buffer_set_deallocation_stream (buffer, legacy, &error));
      assert_no_error (error);
      g_ptr_array_add (buffers, buffer);
    }
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  thread = g_thread_new ("frees", free_slowly, buffers);
  for (guint round = 0; round < 100; round++)
    {
      g_autoptr (GCudaGraphBuilder) builder = gcuda_graph_builder_new_for_stream (blocking, GCUDA_CAPTURE_MODE_GLOBAL, &error);
      g_autoptr (GCudaGraphDefinition) definition = NULL;

      assert_no_error (error);
      pattern_fill (a, 1, GCUDA_STREAM (builder));
      definition = gcuda_graph_builder_finish (builder, &error);
      assert_no_error (error);
    }
  g_thread_join (thread);
}

int
main (int argc,
      char **argv)
{
  gcuda_test_init (&argc, &argv);
  bed_add ("/graph-builder/modes", test_modes);
  bed_add ("/graph-builder/given-stream", test_given_stream);
  bed_add ("/graph-builder/per-thread", test_per_thread);
  bed_add ("/graph-builder/arguments", test_arguments);
  bed_add ("/graph-builder/refused", test_refused);
  bed_add ("/graph-builder/after-finish", test_after_finish);
  bed_add ("/graph-builder/fork-join", test_fork_join);
  bed_add ("/graph-builder/plain-stream-joins", test_plain_stream_joins);
  bed_add ("/graph-builder/unjoined-stream", test_unjoined_stream);
  bed_add ("/graph-builder/invalidated", test_invalidated);
  bed_add ("/graph-builder/finish-elsewhere", test_finish_elsewhere);
  bed_add ("/graph-builder/abandoned", test_abandoned);
  bed_add ("/graph-builder/abandoned-loop", test_abandoned_loop);
  bed_add ("/graph-builder/adds", test_adds);
  bed_add ("/graph-builder/adds/to-what-is-dropped", test_adds_to_what_is_dropped);
  bed_add ("/graph-builder/adds/itself", test_adds_itself);
  bed_add ("/graph-builder/adds/functions", test_adds_functions);
  bed_add ("/graph-builder/waits-for-others-record", test_waits_for_others_record);
  bed_add ("/graph-builder/fork-of-abandoned", test_fork_of_abandoned);
  bed_add ("/graph-builder/abandoned-without-its-thread", test_abandoned_without_its_thread);
  bed_add ("/graph-builder/abandoned-stream-without-its-thread", test_abandoned_stream_without_its_thread);
  bed_add ("/graph-builder/abandoned-stream-of-a-pool", test_abandoned_stream_of_a_pool);
  bed_add ("/graph-builder/waits-outside", test_waits_outside);
  bed_add ("/graph-builder/instantiated-beside", test_instantiated_beside);
  bed_add ("/graph-builder/legacy-frees", test_legacy_frees);
  bed_add ("/graph-builder/deallocation-stream", test_deallocation_stream);
  bed_add ("/graph-builder/host-function", test_host_function);
  bed_add ("/graph-builder/host-function-abandoned", test_host_function_abandoned);
  bed_add ("/graph-builder/events", test_events);
  bed_add ("/graph-builder/child", test_child);
  return g_test_run ();
}
