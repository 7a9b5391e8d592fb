/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-test.h"

#define SIZE 4096

static GCudaBuffer *
allocate (Bed *bed)
{
  g_autoptr (GError) error = NULL;
  GCudaBuffer *buffer = gcuda_memory_resource_allocate (bed->resource, SIZE, bed->stream, &error);

  assert_no_error (error);
  return buffer;
}

static GCudaGraphDefinition *
define (Bed *bed)
{
  g_autoptr (GError) error = NULL;
  GCudaGraphDefinition *definition = gcuda_graph_definition_new (bed->context, &error);

  assert_no_error (error);
  return definition;
}

static GCudaGraphNode *
add_fill (GCudaGraphDefinition *definition,
          GCudaGraphNode *after,
          GCudaBuffer *buffer,
          guint8 value)
{
  g_autoptr (GError) error = NULL;
  GCudaGraphNode *node = gcuda_graph_definition_add_fill (definition, &after, after != NULL, buffer, 0, gcuda_buffer_get_size (buffer), value, 1, &error);

  assert_no_error (error);
  g_assert_cmpint (gcuda_graph_node_get_kind (node), ==, GCUDA_GRAPH_NODE_KIND_FILL);
  return node;
}

static GCudaGraphNode *
add_copy (GCudaGraphDefinition *definition,
          GCudaGraphNode *after,
          GCudaBuffer *source,
          GCudaBuffer *destination)
{
  g_autoptr (GError) error = NULL;
  GCudaGraphNode *node = gcuda_graph_definition_add_copy (definition, &after, after != NULL, source, 0, destination, 0, gcuda_buffer_get_size (source), &error);

  assert_no_error (error);
  g_assert_cmpint (gcuda_graph_node_get_kind (node), ==, GCUDA_GRAPH_NODE_KIND_COPY);
  return node;
}

static GCudaGraph *
instantiate (GCudaGraphDefinition *definition)
{
  g_autoptr (GError) error = NULL;
  GCudaGraph *graph = gcuda_graph_definition_instantiate (definition, GCUDA_GRAPH_FLAGS_NONE, NULL, &error);

  assert_no_error (error);
  g_assert_nonnull (graph);
  return graph;
}

static void
launch (GCudaGraph *graph,
        GCudaStream *stream)
{
  g_autoptr (GError) error = NULL;
  gboolean success = gcuda_graph_launch (graph, stream, &error);

  assert_no_error (error);
  g_assert_true (success);
}

/* All kinds of nodes, and the definition's life. */
static void
test_nodes (Bed *bed,
            gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) a = allocate (bed);
  g_autoptr (GCudaBuffer) b = allocate (bed);
  g_autoptr (GBytes) bytes = g_bytes_new_static ("0123456789abcdef", 16);
  g_autoptr (GCudaGraphDefinition) definition = define (bed);
  g_autoptr (GCudaGraphNode) first = add_fill (definition, NULL, a, 1);
  g_autoptr (GCudaGraphNode) copy = add_copy (definition, first, a, b);
  GCudaGraphNode *both[] = { first, copy };
  g_autoptr (GCudaGraphNode) empty = gcuda_graph_definition_add_empty (definition, both, 2, &error);
  g_autoptr (GCudaGraphNode) nothing = gcuda_graph_definition_add_fill (definition, NULL, 0, a, 0, 0, 1, 1, &error);
  g_autoptr (GCudaGraphNode) upload = NULL;
  g_autoptr (GPtrArray) nodes = NULL;
  g_autoptr (GCudaGraph) graph = NULL;
  g_autoptr (GBytes) result = NULL;

  assert_no_error (error);
  g_assert_cmpint (gcuda_graph_node_get_kind (empty), ==, GCUDA_GRAPH_NODE_KIND_EMPTY);
  g_assert_cmpint (gcuda_graph_node_get_kind (nothing), ==, GCUDA_GRAPH_NODE_KIND_EMPTY);
  upload = gcuda_graph_definition_add_upload (definition, &empty, 1, b, 8, bytes, &error);
  assert_no_error (error);
  g_assert_true (gcuda_graph_definition_add_dependency (definition, nothing, upload, &error));
  assert_no_error (error);
  nodes = gcuda_graph_definition_get_nodes (definition, &error);
  assert_no_error (error);
  g_assert_cmpuint (nodes->len, ==, 5);
  g_assert_cmpuint (gcuda_graph_node_get_handle (first), !=, 0);
  g_clear_pointer (&bytes, g_bytes_unref);
  graph = instantiate (definition);
  for (guint round = 0; round < 2; round++)
    {
      pattern_fill (b, 0, bed->stream);
      launch (graph, bed->stream);
      g_clear_pointer (&result, g_bytes_unref);
      result = gcuda_buffer_download (b, 6, 20, bed->stream, &error);
      assert_no_error (error);
      g_assert_cmpmem (g_bytes_get_data (result, NULL), 20, "\1\1"
                                                            "0123456789abcdef"
                                                            "\1\1",
                       20);
    }
  g_assert_true (gcuda_graph_definition_close (definition, &error));
  g_assert_true (gcuda_graph_definition_close (definition, &error));
  g_assert_true (gcuda_graph_definition_is_closed (definition));
  g_assert_cmpuint (gcuda_graph_definition_get_handle (definition), ==, 0);
  g_assert_null (gcuda_graph_definition_add_empty (definition, NULL, 0, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_null (gcuda_graph_definition_get_nodes (definition, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_null (gcuda_graph_definition_instantiate (definition, GCUDA_GRAPH_FLAGS_NONE, NULL, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  launch (graph, bed->stream);
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  assert_no_error (error);
}

static void
test_arguments (Bed *bed,
                gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) a = allocate (bed);
  g_autoptr (GCudaBuffer) b = allocate (bed);
  g_autoptr (GCudaBuffer) closed = allocate (bed);
  g_autoptr (GCudaBuffer) half = gcuda_buffer_new_view (a, SIZE / 2, SIZE / 2, &error);
  g_autoptr (GCudaGraphDefinition) definition = define (bed);
  g_autoptr (GCudaGraphDefinition) other = define (bed);
  g_autoptr (GCudaGraphDefinition) bare = g_object_new (GCUDA_TYPE_GRAPH_DEFINITION, NULL);
  g_autoptr (GCudaGraphNode) bare_node = g_object_new (GCUDA_TYPE_GRAPH_NODE, NULL);
  g_autoptr (GCudaGraph) bare_graph = g_object_new (GCUDA_TYPE_GRAPH, NULL);
  g_autoptr (GCudaGraphNode) node = add_fill (definition, NULL, a, 1);
  g_autoptr (GCudaGraphNode) stranger = add_fill (other, NULL, a, 1);
  GCudaGraphNode *twice[] = { node, node };
  g_autoptr (GBytes) bytes = g_bytes_new_static ("0123456789abcdef", 16);
  g_autoptr (GPtrArray) nodes = NULL;

  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  gcuda_buffer_close (closed, bed->stream, NULL);
#define REFUSED(call, code) \
  g_assert_false (call);    \
  assert_error_and_clear (error, GCUDA_ERROR_##code)
  REFUSED (gcuda_graph_definition_new (NULL, &error) != NULL, INVALID_ARGUMENT);
  REFUSED (gcuda_graph_definition_add_empty (definition, &stranger, 1, &error) != NULL, INVALID_ARGUMENT);
  REFUSED (gcuda_graph_definition_add_empty (definition, &bare_node, 1, &error) != NULL, INVALID_ARGUMENT);
  REFUSED (gcuda_graph_definition_add_empty (definition, twice, 2, &error) != NULL, INVALID_ARGUMENT);
  REFUSED (gcuda_graph_definition_add_empty (definition, NULL, 1, &error) != NULL, INVALID_ARGUMENT);
  REFUSED (gcuda_graph_definition_add_empty (bare, NULL, 0, &error) != NULL, CLOSED);
  REFUSED (gcuda_graph_definition_add_dependency (definition, node, stranger, &error), INVALID_ARGUMENT);
  REFUSED (gcuda_graph_definition_add_dependency (definition, node, node, &error), INVALID_VALUE);
  REFUSED (gcuda_graph_definition_add_fill (definition, NULL, 0, NULL, 0, 16, 1, 1, &error) != NULL, INVALID_ARGUMENT);
  REFUSED (gcuda_graph_definition_add_fill (definition, NULL, 0, closed, 0, 16, 1, 1, &error) != NULL, CLOSED);
  REFUSED (gcuda_graph_definition_add_fill (definition, NULL, 0, a, 0, SIZE + 1, 1, 1, &error) != NULL, INVALID_ARGUMENT);
  REFUSED (gcuda_graph_definition_add_fill (definition, NULL, 0, a, 0, 16, 256, 1, &error) != NULL, INVALID_ARGUMENT);
  REFUSED (gcuda_graph_definition_add_fill (definition, NULL, 0, a, 0, 16, 1, 3, &error) != NULL, INVALID_ARGUMENT);
  REFUSED (gcuda_graph_definition_add_fill (definition, NULL, 0, a, 2, 16, 1, 4, &error) != NULL, INVALID_ARGUMENT);
  REFUSED (gcuda_graph_definition_add_copy (definition, NULL, 0, a, 0, NULL, 0, 16, &error) != NULL, INVALID_ARGUMENT);
  REFUSED (gcuda_graph_definition_add_copy (definition, NULL, 0, a, 0, half, 0, SIZE / 2 + 1, &error) != NULL, INVALID_ARGUMENT);
  REFUSED (gcuda_graph_definition_add_copy (definition, NULL, 0, a, SIZE / 2 - 1, half, 0, 2, &error) != NULL, INVALID_ARGUMENT);
  REFUSED (gcuda_graph_definition_add_copy (definition, NULL, 0, a, G_MAXUINT64, b, 0, 2, &error) != NULL, INVALID_ARGUMENT);
  REFUSED (gcuda_graph_definition_add_upload (definition, NULL, 0, a, SIZE - 15, bytes, &error) != NULL, INVALID_ARGUMENT);
  REFUSED (gcuda_graph_definition_add_upload (definition, NULL, 0, a, 0, NULL, &error) != NULL, INVALID_ARGUMENT);
  REFUSED (gcuda_graph_definition_add_host_function (definition, NULL, 0, NULL, NULL, NULL, &error) != NULL, INVALID_ARGUMENT);
  REFUSED (gcuda_graph_definition_add_event_record (definition, NULL, 0, NULL, &error) != NULL, INVALID_ARGUMENT);
  REFUSED (gcuda_graph_definition_add_event_wait (definition, NULL, 0, NULL, &error) != NULL, INVALID_ARGUMENT);
  REFUSED (gcuda_graph_definition_add_graph (definition, NULL, 0, NULL, &error) != NULL, INVALID_ARGUMENT);
  REFUSED (gcuda_graph_definition_add_graph (definition, NULL, 0, definition, &error) != NULL, INVALID_ARGUMENT);
  REFUSED (gcuda_graph_definition_add_graph (definition, NULL, 0, bare, &error) != NULL, CLOSED);
  REFUSED (gcuda_graph_definition_instantiate (definition, 1 << 10, NULL, &error) != NULL, INVALID_ARGUMENT);
  REFUSED (gcuda_graph_definition_instantiate (bare, GCUDA_GRAPH_FLAGS_NONE, NULL, &error) != NULL, CLOSED);
  REFUSED (gcuda_graph_launch (bare_graph, bed->stream, &error), CLOSED);
  REFUSED (gcuda_graph_upload (bare_graph, bed->stream, &error), CLOSED);
  REFUSED (gcuda_graph_update (bare_graph, definition, &error), CLOSED);
  REFUSED (gcuda_graph_node_get_body (node, 0, &error) != NULL, INVALID_ARGUMENT);
#undef REFUSED
  g_assert_true (gcuda_graph_is_closed (bare_graph));
  g_assert_true (gcuda_graph_close (bare_graph, &error));
  g_assert_cmpuint (gcuda_graph_get_handle (bare_graph), ==, 0);
  g_assert_cmpuint (gcuda_graph_node_get_handle (bare_node), ==, 0);
  g_assert_true (gcuda_graph_definition_is_closed (bare));
  /* None of that is in the graph. */
  nodes = gcuda_graph_definition_get_nodes (definition, &error);
  assert_no_error (error);
  g_assert_cmpuint (nodes->len, ==, 1);
}

static void
test_launch_closed (Bed *bed,
                    gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) a = allocate (bed);
  g_autoptr (GCudaGraphDefinition) definition = define (bed);
  g_autoptr (GCudaGraphNode) node = add_fill (definition, NULL, a, 1);
  g_autoptr (GCudaGraph) graph = instantiate (definition);

  g_assert_false (gcuda_graph_launch (graph, NULL, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_cmpuint (gcuda_graph_get_handle (graph), !=, 0);
  g_assert_true (gcuda_graph_close (graph, &error));
  g_assert_true (gcuda_graph_close (graph, &error));
  g_assert_true (gcuda_graph_is_closed (graph));
  g_assert_cmpuint (gcuda_graph_get_handle (graph), ==, 0);
  g_assert_false (gcuda_graph_launch (graph, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_false (gcuda_graph_upload (graph, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_false (gcuda_graph_update (graph, definition, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_false (gcuda_graph_update_fill (graph, node, a, 0, SIZE, 1, 1, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
}

static void
test_upload (Bed *bed,
             gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) a = allocate (bed);
  g_autoptr (GCudaGraphDefinition) definition = define (bed);
  g_autoptr (GCudaGraphNode) node = add_fill (definition, NULL, a, 7);
  g_autoptr (GCudaGraph) graph = NULL;
  g_autoptr (GCudaGraphBuilder) builder = NULL;

  graph = gcuda_graph_definition_instantiate (definition, GCUDA_GRAPH_FLAGS_NODE_PRIORITY, bed->stream, &error);
  assert_no_error (error);
  g_assert_cmpint (gcuda_graph_get_flags (graph), ==, GCUDA_GRAPH_FLAGS_NODE_PRIORITY);
  g_assert_true (gcuda_graph_upload (graph, bed->stream, &error));
  assert_no_error (error);
  launch (graph, bed->stream);
  pattern_assert (a, 7, bed->stream);
  builder = gcuda_graph_builder_new (bed->context, GCUDA_CAPTURE_MODE_RELAXED, &error);
  g_assert_false (gcuda_graph_upload (graph, GCUDA_STREAM (builder), &error));
  assert_error_and_clear (error, GCUDA_ERROR_CAPTURING);
  g_assert_null (gcuda_graph_definition_instantiate (definition, GCUDA_GRAPH_FLAGS_NONE, GCUDA_STREAM (builder), &error));
  assert_error_and_clear (error, GCUDA_ERROR_CAPTURING);
}

/* Nodes that kernels can't launch: refused with the driver's answer, and the definition can still be used. */
static void
test_device_launch (Bed *bed,
                    gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaGraphDefinition) definition = define (bed);
  g_autoptr (GCudaGraphDefinition) child = define (bed);
  g_autoptr (GCudaGraphNode) node = gcuda_graph_definition_add_graph (definition, NULL, 0, child, &error);
  g_autoptr (GCudaGraph) graph = NULL;

  assert_no_error (error);
  g_assert_null (gcuda_graph_definition_instantiate (definition, GCUDA_GRAPH_FLAGS_DEVICE_LAUNCH, NULL, &error));
  g_assert_nonnull (error);
  g_assert_true (error->domain == GCUDA_ERROR);
  g_clear_error (&error);
  graph = instantiate (definition);
}

/* What a graph keeps */

/* Buffers are dropped by the program; other memory of that size does not get in the way. */
static void
test_keeps_buffers (Bed *bed,
                    gconstpointer data)
{
  const gboolean captured = GPOINTER_TO_INT (data);
  g_autoptr (GError) error = NULL;
  GCudaBuffer *a = allocate (bed), *other;
  g_autoptr (GCudaBuffer) result = allocate (bed);
  g_autoptr (GCudaGraphDefinition) definition = NULL;
  g_autoptr (GCudaGraph) graph = NULL;
  g_autoptr (GCudaGraph) second = NULL;

  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  if (captured)
    {
      g_autoptr (GCudaGraphBuilder) builder = gcuda_graph_builder_new (bed->context, GCUDA_CAPTURE_MODE_GLOBAL, &error);

      pattern_fill (a, 0x5a, GCUDA_STREAM (builder));
      g_assert_true (gcuda_buffer_copy_to (a, result, GCUDA_STREAM (builder), &error));
      definition = gcuda_graph_builder_finish (builder, &error);
      assert_no_error (error);
    }
  else
    {
      g_autoptr (GCudaGraphNode) fill = NULL;
      g_autoptr (GCudaGraphNode) copy = NULL;

      definition = define (bed);
      fill = add_fill (definition, NULL, a, 0x5a);
      copy = add_copy (definition, fill, a, result);
    }
  g_object_unref (a);
  other = allocate (bed);
  pattern_fill (other, 0x11, bed->stream);
  graph = instantiate (definition);
  second = instantiate (definition);
  for (guint round = 0; round < 2; round++)
    {
      pattern_fill (result, 0, bed->stream);
      launch (graph, bed->stream);
      pattern_assert (result, 0x5a, bed->stream);
      pattern_assert (other, 0x11, bed->stream);
    }
  g_object_unref (other);
  bed_assert_use (bed, 2 * SIZE);
  g_clear_object (&graph);
  g_assert_cmpuint (bed_settled_use (bed), ==, 2 * SIZE);
  g_clear_object (&definition);
  g_assert_cmpuint (bed_settled_use (bed), ==, 2 * SIZE);
  launch (second, bed->stream);
  pattern_assert (result, 0x5a, bed->stream);
  gcuda_graph_close (second, NULL);
  bed_assert_use (bed, SIZE);
}

/* A launch under way keeps the memory, after buffer, definition and executable graph are gone. */
static void
test_launch_keeps_buffers (Bed *bed,
                           gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) result = allocate (bed);
  GCudaBuffer *a = allocate (bed);
  GCudaGraphDefinition *definition = define (bed);
  g_autoptr (GCudaGraphNode) fill = add_fill (definition, NULL, a, 0x5a);
  g_autoptr (GCudaGraphNode) copy = add_copy (definition, fill, a, result);
  g_autoptr (GCudaPoolStatistics) statistics = NULL;
  GCudaGraph *graph = instantiate (definition);
  Blocker *blocker;

  pattern_fill (result, 0, bed->stream);
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  blocker = blocker_new (bed->stream);
  launch (graph, bed->stream);
  gcuda_buffer_close (a, NULL, NULL);
  g_object_unref (a);
  gcuda_graph_definition_close (definition, NULL);
  g_object_unref (definition);
  gcuda_graph_close (graph, NULL);
  g_object_unref (graph);
  g_assert_true (gcuda_reclaim (NULL, &error));
  statistics = gcuda_device_memory_resource_get_statistics (bed->pool, &error);
  assert_no_error (error);
  g_assert_cmpuint (gcuda_pool_statistics_get_used (statistics), ==, 2 * SIZE);
  blocker_release (blocker);
  pattern_assert (result, 0x5a, bed->stream);
  bed_assert_use (bed, SIZE);
}

/* Many of them at once, and launches in flight. */
static void
test_cleanups (Bed *bed,
               gconstpointer data)
{
  enum
  {
    N = 64
  };
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaStream) other = NULL;

  /* Tools do not know that a user object waits for the launches on all streams. */
  if (!gcuda_test_under_tool ())
    other = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  for (guint round = 0; round < 2; round++)
    {
      GCudaGraph *graphs[N];
      GThread *thread;

      for (guint i = 0; i < N; i++)
        {
          g_autoptr (GCudaGraphDefinition) definition = define (bed);
          g_autoptr (GCudaBuffer) a = allocate (bed);
          g_autoptr (GCudaBuffer) b = allocate (bed);
          g_autoptr (GCudaGraphNode) fill = add_fill (definition, NULL, a, i);
          g_autoptr (GCudaGraphNode) copy = add_copy (definition, fill, a, b);

          graphs[i] = instantiate (definition);
        }
      if (other != NULL)
        g_assert_true (gcuda_stream_wait_stream (other, bed->stream, &error));
      /* The stream goes on by itself: a driver takes so many pending launches, and no more. */
      gcuda_test_hold (bed->stream);
      thread = g_thread_new ("let-go", gcuda_test_let_go_soon, NULL);
      for (guint i = 0; i < N; i++)
        launch (graphs[i], i % 2 == 0 || other == NULL ? bed->stream : other);
      for (guint i = 0; i < N; i++)
        g_object_unref (graphs[i]);
      g_thread_join (thread);
      if (other != NULL)
        g_assert_true (gcuda_stream_synchronize (other, &error));
      bed_assert_use (bed, 0);
    }
}

/* A capture of others: the library's work in it keeps the memory just the same. */
static void
test_capture_of_others (Bed *bed,
                        gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaStream) stream = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  CUstream raw = gcuda_stream_get_cuda_stream (stream);
  g_autoptr (GCudaBuffer) result = allocate (bed);
  GCudaBuffer *a = allocate (bed), *b = allocate (bed);
  g_autoptr (GBytes) bytes = g_bytes_new_static ("0123456789abcdef", 16);
  CUgraph graph = NULL;
  CUgraphExec exec;
  CUcontext popped;

  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  assert_cuda (RAW (cuStreamBeginCapture) (raw, CU_STREAM_CAPTURE_MODE_RELAXED));
  pattern_fill (a, 0x21, stream);
  g_assert_true (gcuda_buffer_copy_to (a, b, stream, &error));
  assert_no_error (error);
  g_assert_true (gcuda_buffer_copy_2d (b, 0, 64, result, 0, 64, 64, SIZE / 64, stream, &error));
  assert_no_error (error);
  g_assert_true (gcuda_buffer_upload (b, 0, bytes, stream, &error));
  assert_no_error (error);
  g_assert_false (gcuda_buffer_fill (a, 256, 1, stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  assert_cuda (RAW (cuStreamEndCapture) (raw, &graph));
  g_object_unref (a);
  g_object_unref (b);
  assert_cuda (RAW (cuCtxPushCurrent) (gcuda_context_get_cuda_context (bed->context)));
  assert_cuda (RAW (cuGraphInstantiateWithFlags) (&exec, graph, 0));
  assert_cuda (RAW (cuCtxPopCurrent) (&popped));
  assert_cuda (RAW (cuGraphDestroy) (graph));
  g_assert_cmpuint (bed_settled_use (bed), ==, 3 * SIZE);
  assert_cuda (RAW (cuGraphLaunch) (exec, gcuda_stream_get_cuda_stream (bed->stream)));
  pattern_assert (result, 0x21, bed->stream);
  assert_cuda (RAW (cuGraphExecDestroy) (exec));
  bed_assert_use (bed, SIZE);
}

/* What others make of the handle keeps the memory as well. */
static void
test_handle_of_others (Bed *bed,
                       gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) result = allocate (bed);
  GCudaBuffer *a = allocate (bed);
  GCudaGraphDefinition *definition = define (bed);
  g_autoptr (GCudaGraphNode) fill = add_fill (definition, NULL, a, 0x5a);
  g_autoptr (GCudaGraphNode) copy = add_copy (definition, fill, a, result);
  CUgraphExec exec;
  CUcontext popped;

  g_object_unref (a);
  assert_cuda (RAW (cuCtxPushCurrent) (gcuda_context_get_cuda_context (bed->context)));
  assert_cuda (RAW (cuGraphInstantiateWithFlags) (&exec, (CUgraph) (guintptr) gcuda_graph_definition_get_handle (definition), 0));
  assert_cuda (RAW (cuCtxPopCurrent) (&popped));
  g_object_unref (definition);
  g_assert_cmpuint (bed_settled_use (bed), ==, 2 * SIZE);
  assert_cuda (RAW (cuGraphLaunch) (exec, gcuda_stream_get_cuda_stream (bed->stream)));
  pattern_assert (result, 0x5a, bed->stream);
  assert_cuda (RAW (cuGraphExecDestroy) (exec));
  g_clear_object (&fill);
  g_clear_object (&copy);
  bed_assert_use (bed, SIZE);
}

/* Virtual memory that a graph uses stays where it is. */
static void
test_no_move (Bed *bed,
              gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaVirtualMemoryResource) resource = gcuda_virtual_memory_resource_new (bed->device, NULL, &error);
  g_autoptr (GCudaBuffer) a = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (resource), 4 << 20, bed->stream, &error);
  GCudaGraphDefinition *definition = define (bed);
  GCudaGraphNode *fill = add_fill (definition, NULL, a, 1);
  gint64 deadline = g_get_monotonic_time () + 10 * G_TIME_SPAN_SECOND;
  GCudaGraph *graph = instantiate (definition);

  g_object_unref (fill);
  g_object_unref (definition);
  g_assert_false (gcuda_virtual_memory_resource_resize (resource, a, 2 << 20, GCUDA_RESIZE_FLAGS_MAY_MOVE, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_IN_USE);
  launch (graph, bed->stream);
  pattern_assert (a, 1, bed->stream);
  g_object_unref (graph);
  while (!gcuda_virtual_memory_resource_resize (resource, a, 2 << 20, GCUDA_RESIZE_FLAGS_MAY_MOVE, bed->stream, &error) && g_get_monotonic_time () < deadline)
    {
      g_clear_error (&error);
      g_usleep (1000);
    }
  assert_no_error (error);
}

/* No driver captures a launch: it is refused, and the capture goes on. As a definition the graph becomes a part of it, which
 * keeps what it keeps. */
static void
test_launch_captured (Bed *bed,
                      gconstpointer data)
{
  static const GCudaCaptureMode modes[] = { GCUDA_CAPTURE_MODE_GLOBAL, GCUDA_CAPTURE_MODE_THREAD_LOCAL, GCUDA_CAPTURE_MODE_RELAXED };
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (modes); i++)
    {
      g_autoptr (GCudaBuffer) result = allocate (bed);
      GCudaBuffer *a = allocate (bed);
      GCudaGraphDefinition *definition = define (bed);
      GCudaGraphNode *fill = add_fill (definition, NULL, a, 0x5a);
      GCudaGraphNode *copy = add_copy (definition, fill, a, result);
      GCudaGraph *inner = instantiate (definition);
      g_autoptr (GCudaGraphBuilder) builder = NULL;
      g_autoptr (GCudaGraphDefinition) outer = NULL;
      g_autoptr (GCudaGraph) graph = NULL;

      g_object_unref (fill);
      g_object_unref (copy);
      g_object_unref (a);
      g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
      builder = gcuda_graph_builder_new (bed->context, modes[i], &error);
      g_assert_false (gcuda_graph_launch (inner, GCUDA_STREAM (builder), &error));
      g_assert_error (error, GCUDA_ERROR, GCUDA_ERROR_CAPTURING);
      g_assert_nonnull (strstr (error->message, "gcuda_graph_builder_add_graph"));
      g_clear_error (&error);
      g_assert_true (gcuda_graph_builder_add_graph (builder, definition, &error));
      assert_no_error (error);
      g_object_unref (definition);
      outer = gcuda_graph_builder_finish (builder, &error);
      assert_no_error (error);
      g_object_unref (inner);
      graph = instantiate (outer);
      launch (graph, bed->stream);
      pattern_assert (result, 0x5a, bed->stream);
      /* And no longer: a builder that has finished keeps nothing. */
      g_clear_object (&graph);
      g_clear_object (&outer);
      bed_assert_use (bed, SIZE);
    }
}

/* Updates */

static void
test_update (Bed *bed,
             gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) result = allocate (bed);
  GCudaBuffer *a = allocate (bed), *b = allocate (bed);
  GCudaGraphDefinition *first = define (bed), *second = define (bed);
  GCudaGraphNode *fill = add_fill (first, NULL, a, 1), *copy = add_copy (first, fill, a, result);
  GCudaGraphNode *other_fill = add_fill (second, NULL, b, 2), *other_copy = add_copy (second, other_fill, b, result);
  g_autoptr (GCudaGraph) graph = instantiate (first);

  g_object_unref (a);
  g_object_unref (b);
  g_object_unref (fill);
  g_object_unref (copy);
  g_object_unref (other_fill);
  g_object_unref (other_copy);
  g_object_unref (first);
  launch (graph, bed->stream);
  pattern_assert (result, 1, bed->stream);
  g_assert_true (gcuda_graph_update (graph, second, &error));
  assert_no_error (error);
  /* What was used before is let go. */
  bed_assert_use (bed, 2 * SIZE);
  g_object_unref (second);
  launch (graph, bed->stream);
  pattern_assert (result, 2, bed->stream);
  g_clear_object (&graph);
  bed_assert_use (bed, SIZE);
}

/* Another shape: the error says why and where, and nothing changed. */
static void
test_update_topology (Bed *bed,
                      gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) result = allocate (bed);
  GCudaBuffer *a = allocate (bed), *b = allocate (bed);
  g_autoptr (GCudaGraphDefinition) first = define (bed);
  GCudaGraphDefinition *longer = define (bed), *kinds = define (bed);
  g_autoptr (GCudaGraphNode) fill = add_fill (first, NULL, a, 1);
  g_autoptr (GCudaGraphNode) copy = add_copy (first, fill, a, result);
  GCudaGraphNode *nodes[5] = { add_fill (longer, NULL, b, 2), NULL };
  g_autoptr (GCudaGraph) graph = instantiate (first);

  nodes[1] = add_copy (longer, nodes[0], b, result);
  nodes[2] = add_fill (longer, nodes[1], b, 3);
  nodes[3] = add_fill (kinds, NULL, b, 2);
  nodes[4] = add_fill (kinds, nodes[3], b, 2);
  for (guint i = 0; i < 5; i++)
    g_object_unref (nodes[i]);
  g_object_unref (a);
  g_object_unref (b);
  g_assert_false (gcuda_graph_update (graph, longer, &error));
  assert_error_and_clear (error, GCUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  g_assert_false (gcuda_graph_update (graph, kinds, &error));
  g_assert_error (error, GCUDA_ERROR, GCUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  g_assert_nonnull (strstr (error->message, "kind"));
  g_clear_error (&error);
  g_assert_false (gcuda_graph_update (graph, NULL, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_object_unref (longer);
  g_object_unref (kinds);
  bed_assert_use (bed, 2 * SIZE);
  launch (graph, bed->stream);
  pattern_assert (result, 1, bed->stream);
}

/* One node gets another buffer: the graph keeps that one, and the old one until its launches are done. */
static void
test_update_nodes (Bed *bed,
                   gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) result = allocate (bed);
  GCudaBuffer *a = allocate (bed), *b = allocate (bed);
  GCudaGraphDefinition *definition = define (bed);
  g_autoptr (GCudaGraphNode) fill = add_fill (definition, NULL, a, 1);
  g_autoptr (GCudaGraphNode) copy = add_copy (definition, fill, a, result);
  g_autoptr (GCudaGraph) graph = instantiate (definition);
  g_autoptr (GCudaPoolStatistics) statistics = NULL;
  Blocker *blocker;

  g_object_unref (a);
  g_object_unref (definition);
  pattern_fill (b, 0, bed->stream);
  launch (graph, bed->stream);
  pattern_assert (result, 1, bed->stream);
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  blocker = blocker_new (bed->stream);
  launch (graph, bed->stream);
  g_assert_true (gcuda_graph_update_fill (graph, fill, b, 0, SIZE, 2, 1, &error));
  assert_no_error (error);
  g_assert_true (gcuda_graph_update_copy (graph, copy, b, 0, result, 0, SIZE, &error));
  assert_no_error (error);
  g_object_unref (b);
  statistics = gcuda_device_memory_resource_get_statistics (bed->pool, &error);
  g_assert_cmpuint (gcuda_pool_statistics_get_used (statistics), ==, 3 * SIZE);
  blocker_release (blocker);
  pattern_assert (result, 1, bed->stream);
  bed_assert_use (bed, 2 * SIZE);
  launch (graph, bed->stream);
  pattern_assert (result, 2, bed->stream);
  g_clear_object (&graph);
  bed_assert_use (bed, SIZE);
}

/* Of a captured graph, by the node that was asked for while it was captured: whatever kinds of memory the copy is between, and
 * whatever context was current. */
static void
test_update_captured (Bed *bed,
                      gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaPinnedMemoryResource) pinned = gcuda_pinned_memory_resource_new_unpooled (bed->device, FALSE, &error);
  g_autoptr (GBytes) zeros = g_bytes_new_take (g_malloc0 (SIZE), SIZE);
  g_autoptr (GBytes) sevens = NULL;
  guint8 *bytes = g_malloc (SIZE);

  memset (bytes, 7, SIZE);
  sevens = g_bytes_new_take (bytes, SIZE);
  for (guint i = 0; i < 4; i++)
    {
      const gboolean from_host = i >= 2, current = i % 2 == 1;
      GCudaBuffer *a = allocate (bed), *source = allocate (bed);
      g_autoptr (GCudaBuffer) b = allocate (bed);
      g_autoptr (GCudaBuffer) c = allocate (bed);
      g_autoptr (GCudaBuffer) d = allocate (bed);
      g_autoptr (GCudaBuffer) other = NULL;
      g_autoptr (GCudaGraphBuilder) builder = NULL;
      g_autoptr (GCudaGraphDefinition) definition = NULL;
      g_autoptr (GCudaGraphNode) fill = NULL;
      g_autoptr (GCudaGraphNode) copy = NULL;
      g_autoptr (GCudaGraphNode) upload = NULL;
      g_autoptr (GCudaGraph) graph = NULL;
      CUcontext popped;

      if (from_host)
        {
          g_object_unref (source);
          source = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (pinned), SIZE, bed->stream, &error);
          other = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (pinned), SIZE, bed->stream, &error);
          assert_no_error (error);
          pattern_fill (other, 9, bed->stream);
        }
      pattern_fill (source, 5, bed->stream);
      g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
      builder = gcuda_graph_builder_new (bed->context, GCUDA_CAPTURE_MODE_GLOBAL, &error);
      g_assert_null (gcuda_graph_builder_get_last_node (builder, &error));
      assert_error_and_clear (error, GCUDA_ERROR_NOT_FOUND);
      if (current)
        assert_cuda (RAW (cuCtxPushCurrent) (gcuda_context_get_cuda_context (bed->context)));
      pattern_fill (a, 1, GCUDA_STREAM (builder));
      fill = gcuda_graph_builder_get_last_node (builder, &error);
      assert_no_error (error);
      g_assert_cmpint (gcuda_graph_node_get_kind (fill), ==, GCUDA_GRAPH_NODE_KIND_FILL);
      g_assert_true (gcuda_buffer_copy_to (source, c, GCUDA_STREAM (builder), &error));
      copy = gcuda_graph_builder_get_last_node (builder, &error);
      assert_no_error (error);
      g_assert_cmpint (gcuda_graph_node_get_kind (copy), ==, GCUDA_GRAPH_NODE_KIND_COPY);
      g_assert_true (gcuda_buffer_upload (d, 0, zeros, GCUDA_STREAM (builder), &error));
      upload = gcuda_graph_builder_get_last_node (builder, &error);
      assert_no_error (error);
      if (current)
        assert_cuda (RAW (cuCtxPopCurrent) (&popped));
      definition = gcuda_graph_builder_finish (builder, &error);
      assert_no_error (error);
      graph = instantiate (definition);
      g_clear_object (&definition);
      g_object_unref (a);
      g_object_unref (source);
      launch (graph, bed->stream);
      pattern_assert (c, 5, bed->stream);
      pattern_assert (d, 0, bed->stream);
      g_assert_true (gcuda_graph_update_fill (graph, fill, b, 0, SIZE, 9, 1, &error));
      assert_no_error (error);
      g_assert_true (gcuda_graph_update_copy (graph, copy, from_host ? other : b, 0, c, 0, SIZE, &error));
      assert_no_error (error);
      g_assert_true (gcuda_graph_update_upload (graph, upload, d, 0, sevens, &error));
      assert_no_error (error);
      g_clear_object (&other);
      bed_assert_use (bed, 3 * SIZE);
      launch (graph, bed->stream);
      pattern_assert (c, 9, bed->stream);
      pattern_assert (d, 7, bed->stream);
      /* No kind of memory becomes another. */
      g_assert_false (gcuda_graph_update_copy (graph, upload, b, 0, d, 0, SIZE, &error));
      assert_error_and_clear (error, GCUDA_ERROR_INVALID_VALUE);
      launch (graph, bed->stream);
      pattern_assert (d, 7, bed->stream);
    }
  bed_assert_use (bed, 0);
}

/* Rows can't be updated into one, nor into other rows. */
static void
test_update_rows (Bed *bed,
                  gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) a = allocate (bed);
  g_autoptr (GCudaBuffer) b = allocate (bed);
  g_autoptr (GCudaGraphBuilder) builder = NULL;
  g_autoptr (GCudaGraphDefinition) definition = NULL;
  g_autoptr (GCudaGraphNode) fill = NULL;
  g_autoptr (GCudaGraphNode) copy = NULL;
  g_autoptr (GCudaGraph) graph = NULL;

  pattern_fill (a, 1, bed->stream);
  pattern_fill (b, 1, bed->stream);
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  builder = gcuda_graph_builder_new (bed->context, GCUDA_CAPTURE_MODE_GLOBAL, &error);
  g_assert_true (gcuda_buffer_fill_2d (a, 0, 1024, 512, 4, 2, 1, GCUDA_STREAM (builder), &error));
  assert_no_error (error);
  fill = gcuda_graph_builder_get_last_node (builder, &error);
  g_assert_true (gcuda_buffer_copy_2d (a, 0, 1024, b, 0, 1024, 512, 4, GCUDA_STREAM (builder), &error));
  assert_no_error (error);
  copy = gcuda_graph_builder_get_last_node (builder, &error);
  definition = gcuda_graph_builder_finish (builder, &error);
  assert_no_error (error);
  graph = instantiate (definition);
  g_assert_false (gcuda_graph_update_copy (graph, copy, b, 0, a, 0, SIZE, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_VALUE);
  g_assert_false (gcuda_graph_update_fill (graph, fill, b, 0, SIZE, 3, 1, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_VALUE);
  launch (graph, bed->stream);
  {
    g_autoptr (GBytes) bytes = gcuda_buffer_download (b, 0, SIZE, bed->stream, &error);
    const guint8 *read = g_bytes_get_data (bytes, NULL);

    for (gsize i = 0; i < SIZE; i++)
      g_assert_cmpuint (read[i], ==, i % 1024 < 512 ? 2 : 1);
  }
}

/* Host memory that only its own device copies in order is no part of another's graph. */
static void
test_host_memory_of_another_device (Bed *bed,
                                    gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaDevice) other = gcuda_device_new (1, &error);
  g_autoptr (GCudaPinnedMemoryResource) pinned = NULL;
  g_autoptr (GCudaContext) context = NULL;
  g_autoptr (GCudaStream) stream = NULL;
  g_autoptr (GCudaGraphDefinition) definition = define (bed);
  g_autoptr (GBytes) bytes = g_bytes_new_static ("0123456789abcdef", 16);
  g_autoptr (GCudaBuffer) a = allocate (bed);
  g_autoptr (GCudaBuffer) far = NULL;

  if (other == NULL)
    {
      g_test_skip ("there is one device");
      return;
    }
  pinned = gcuda_pinned_memory_resource_new (other, &error);
  stream = gcuda_stream_new_for_device (other, &error);
  assert_no_error (error);
  if (!gcuda_pinned_memory_resource_is_pooled (pinned))
    {
      g_test_skip ("the driver has no pools of host memory");
      return;
    }
  far = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (pinned), SIZE, stream, &error);
  assert_no_error (error);
  g_assert_null (gcuda_graph_definition_add_copy (definition, NULL, 0, far, 0, a, 0, SIZE, &error));
  assert_error_and_clear (error, GCUDA_ERROR_NOT_SUPPORTED);
  g_assert_null (gcuda_graph_definition_add_copy (definition, NULL, 0, a, 0, far, 0, SIZE, &error));
  assert_error_and_clear (error, GCUDA_ERROR_NOT_SUPPORTED);
  g_assert_null (gcuda_graph_definition_add_upload (definition, NULL, 0, far, 0, bytes, &error));
  assert_error_and_clear (error, GCUDA_ERROR_NOT_SUPPORTED);
  g_clear_object (&far);
  g_assert_true (gcuda_stream_synchronize (stream, &error));
  /* What the bed did not have. */
  context = gcuda_device_get_primary_context (other, &error);
  g_clear_object (&stream);
  g_clear_object (&pinned);
  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_true (gcuda_context_close (context, &error));
  assert_no_error (error);
}

static void
test_update_arguments (Bed *bed,
                       gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) a = allocate (bed);
  g_autoptr (GCudaBuffer) b = allocate (bed);
  g_autoptr (GCudaGraphDefinition) definition = define (bed);
  g_autoptr (GCudaGraphDefinition) other = define (bed);
  g_autoptr (GCudaGraphNode) fill = add_fill (definition, NULL, a, 1);
  g_autoptr (GCudaGraphNode) copy = add_copy (definition, fill, a, b);
  g_autoptr (GCudaGraphNode) stranger = add_fill (other, NULL, a, 3);
  g_autoptr (GCudaGraph) graph = instantiate (definition);
  g_autoptr (GBytes) bytes = g_bytes_new_static ("0123456789abcdef", 16);

#define REFUSED(call, code) \
  g_assert_false (call);    \
  assert_error_and_clear (error, GCUDA_ERROR_##code)
  REFUSED (gcuda_graph_update_fill (graph, copy, a, 0, SIZE, 2, 1, &error), INVALID_ARGUMENT);
  REFUSED (gcuda_graph_update_fill (graph, NULL, a, 0, SIZE, 2, 1, &error), INVALID_ARGUMENT);
  REFUSED (gcuda_graph_update_fill (graph, fill, NULL, 0, SIZE, 2, 1, &error), INVALID_ARGUMENT);
  REFUSED (gcuda_graph_update_fill (graph, fill, a, 0, SIZE + 1, 2, 1, &error), INVALID_ARGUMENT);
  REFUSED (gcuda_graph_update_fill (graph, fill, a, 0, 0, 2, 1, &error), INVALID_ARGUMENT);
  REFUSED (gcuda_graph_update_fill (graph, stranger, a, 0, SIZE, 2, 1, &error), INVALID_VALUE);
  REFUSED (gcuda_graph_update_copy (graph, fill, a, 0, b, 0, SIZE, &error), INVALID_ARGUMENT);
  REFUSED (gcuda_graph_update_copy (graph, copy, a, 0, a, 0, SIZE, &error), INVALID_ARGUMENT);
  REFUSED (gcuda_graph_update_copy (graph, copy, a, 0, b, 0, 0, &error), INVALID_ARGUMENT);
  REFUSED (gcuda_graph_update_upload (graph, fill, a, 0, bytes, &error), INVALID_ARGUMENT);
  REFUSED (gcuda_graph_update_upload (graph, copy, a, 0, NULL, &error), INVALID_ARGUMENT);
  REFUSED (gcuda_graph_update_host_function (graph, fill, (GCudaStreamFunc) g_free, NULL, NULL, &error), INVALID_ARGUMENT);
  REFUSED (gcuda_graph_update_host_function (graph, fill, NULL, NULL, NULL, &error), INVALID_ARGUMENT);
#undef REFUSED
  launch (graph, bed->stream);
  pattern_assert (a, 1, bed->stream);
  pattern_assert (b, 1, bed->stream);
}

static void
test_host_function (Bed *bed,
                    gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  Call calls[3] = { { NULL } };
  GCudaGraphDefinition *definition = define (bed);
  g_autoptr (GCudaGraphNode) node = gcuda_graph_definition_add_host_function (definition, NULL, 0, call_run, &calls[0], call_destroyed, &error);
  g_autoptr (GCudaGraph) graph = NULL;

  assert_no_error (error);
  graph = instantiate (definition);
  g_object_unref (definition);
  launch (graph, bed->stream);
  launch (graph, bed->stream);
  iterate_until_is (&calls[0].called, 2);
  g_assert_true (gcuda_graph_update_host_function (graph, node, call_run, &calls[1], call_destroyed, &error));
  assert_no_error (error);
  launch (graph, bed->stream);
  iterate_until_is (&calls[1].called, 1);
  /* Failed: only let go. */
  g_assert_false (gcuda_graph_update_host_function (graph, NULL, call_run, &calls[2], call_destroyed, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_cmpint (calls[2].destroyed, ==, 1);
  g_clear_object (&graph);
  for (guint i = 0; i < 3; i++)
    iterate_until_is (&calls[i].destroyed, 1);
  g_assert_cmpint (calls[0].called, ==, 2);
  g_assert_cmpint (calls[1].called, ==, 1);
  g_assert_cmpint (calls[2].called, ==, 0);
}

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
  g_autoptr (GCudaGraphDefinition) definition = define (bed);
  g_autoptr (GCudaGraphNode) wait = gcuda_graph_definition_add_event_wait (definition, NULL, 0, begun, &error);
  g_autoptr (GCudaGraphNode) copy = add_copy (definition, wait, a, b);
  g_autoptr (GCudaGraphNode) record = gcuda_graph_definition_add_event_record (definition, &copy, 1, done, &error);
  g_autoptr (GCudaGraph) graph = instantiate (definition);

  assert_no_error (error);
  g_assert_true (gcuda_stream_wait_stream (other, bed->stream, &error));
  for (guint8 round = 1; round < 4; round++)
    {
      pattern_fill (a, round, other);
      g_assert_true (gcuda_event_record (begun, other, &error));
      launch (graph, bed->stream);
      g_assert_true (gcuda_stream_wait_event (other, done, &error));
      assert_no_error (error);
      pattern_assert (b, round, other);
    }
}

static void
test_child (Bed *bed,
            gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  GCudaBuffer *a = allocate (bed);
  g_autoptr (GCudaBuffer) b = allocate (bed);
  GCudaGraphDefinition *child = define (bed), *definition = define (bed);
  GCudaGraphNode *fill = add_fill (child, NULL, a, 8);
  g_autoptr (GCudaGraphNode) inner = gcuda_graph_definition_add_graph (definition, NULL, 0, child, &error);
  g_autoptr (GCudaGraphNode) copy = add_copy (definition, inner, a, b);
  g_autoptr (GCudaGraph) graph = NULL;

  assert_no_error (error);
  g_assert_cmpint (gcuda_graph_node_get_kind (inner), ==, GCUDA_GRAPH_NODE_KIND_GRAPH);
  g_object_unref (fill);
  g_object_unref (child);
  g_object_unref (a);
  graph = instantiate (definition);
  g_object_unref (definition);
  launch (graph, bed->stream);
  pattern_assert (b, 8, bed->stream);
}

/* Refused where the driver has none, and then the graph is as it was; else the body runs as the value says. */
static void
test_conditional (Bed *bed,
                  gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  GCudaBuffer *results[3];

  for (guint value = 0; value < 3; value++)
    results[value] = allocate (bed);
  for (guint value = 0; value < 3; value++)
    {
      g_autoptr (GCudaGraphDefinition) definition = define (bed);
      g_autoptr (GCudaGraphNode) node = NULL;
      g_autoptr (GCudaGraph) graph = NULL;

      g_assert_null (gcuda_graph_definition_add_conditional (definition, NULL, 0, GCUDA_GRAPH_CONDITIONAL_KIND_WHILE, 0, 2, &error));
      assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
      g_assert_null (gcuda_graph_definition_add_conditional (definition, NULL, 0, 9, 0, 1, &error));
      assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
      node = gcuda_graph_definition_add_conditional (definition, NULL, 0, GCUDA_GRAPH_CONDITIONAL_KIND_SWITCH, value, 2, &error);
      if (g_error_matches (error, GCUDA_ERROR, GCUDA_ERROR_NOT_SUPPORTED))
        {
          g_autoptr (GPtrArray) nodes = NULL;

          g_clear_error (&error);
          nodes = gcuda_graph_definition_get_nodes (definition, &error);
          assert_no_error (error);
          g_assert_cmpuint (nodes->len, ==, 0);
          continue;
        }
      assert_no_error (error);
      g_assert_cmpint (gcuda_graph_node_get_kind (node), ==, GCUDA_GRAPH_NODE_KIND_CONDITIONAL);
      g_assert_cmpuint (gcuda_graph_node_get_n_bodies (node), ==, 2);
      g_assert_cmpuint (gcuda_graph_node_get_conditional_handle (node), !=, 0);
      g_assert_null (gcuda_graph_node_get_body (node, 2, &error));
      assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
      for (guint i = 0; i < 2; i++)
        {
          g_autoptr (GCudaGraphDefinition) body = gcuda_graph_node_get_body (node, i, &error);
          g_autoptr (GCudaGraphBuilder) builder = NULL;
          g_autoptr (GCudaGraphNode) fill = NULL;
          g_autoptr (GCudaGraphDefinition) same = NULL;

          /* One by a node, the other captured. */
          if (i == 0)
            {
              fill = add_fill (body, NULL, results[value], i + 1);
            }
          else
            {
              builder = gcuda_graph_builder_new_for_definition (body, GCUDA_CAPTURE_MODE_RELAXED, &error);
              assert_no_error (error);
              pattern_fill (results[value], i + 1, GCUDA_STREAM (builder));
              same = gcuda_graph_builder_finish (builder, &error);
              assert_no_error (error);
              g_assert_cmpuint (gcuda_graph_definition_get_handle (same), ==, gcuda_graph_definition_get_handle (body));
            }
          g_assert_null (gcuda_graph_definition_instantiate (body, GCUDA_GRAPH_FLAGS_NONE, NULL, &error));
          assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
        }
      graph = instantiate (definition);
      pattern_fill (results[value], 0, bed->stream);
      launch (graph, bed->stream);
      pattern_assert (results[value], value < 2 ? value + 1 : 0, bed->stream);
    }
  for (guint value = 0; value < 3; value++)
    g_object_unref (results[value]);
}

static gpointer
drop (gpointer data)
{
  g_object_unref (data);
  return NULL;
}

/* A function in a body goes with the graph, whoever has the handle. */
static void
test_conditional_function (Bed *bed,
                           gconstpointer data)
{
  g_autoptr (GError) error = NULL;

  for (guint exposed = 0; exposed < 2; exposed++)
    {
      GCudaGraphDefinition *definition = define (bed), *body;
      GCudaGraphNode *node = gcuda_graph_definition_add_conditional (definition, NULL, 0, GCUDA_GRAPH_CONDITIONAL_KIND_IF, 1, 1, &error);
      g_autoptr (GCudaGraphNode) inner = NULL;
      Call call = { 0 };

      if (g_error_matches (error, GCUDA_ERROR, GCUDA_ERROR_NOT_SUPPORTED))
        {
          g_object_unref (definition);
          return;
        }
      assert_no_error (error);
      if (exposed)
        g_assert_cmpuint (gcuda_graph_definition_get_handle (definition), !=, 0);
      body = gcuda_graph_node_get_body (node, 0, &error);
      inner = gcuda_graph_definition_add_host_function (body, NULL, 0, call_run, &call, call_destroyed, &error);
      /* Host functions are nothing for a body on some drivers. */
      if (inner == NULL)
        g_clear_error (&error);
      g_clear_object (&inner);
      g_object_unref (body);
      g_object_unref (node);
      g_object_unref (definition);
      iterate_until_is (&call.destroyed, 1);
    }
}

/* Dropped on another thread, with no context there, during another thread's capture. */
static void
test_dropped_elsewhere (Bed *bed,
                        gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  GCudaBuffer *a = allocate (bed);
  GCudaGraphDefinition *definition = define (bed);
  GCudaGraphNode *node = add_fill (definition, NULL, a, 1);
  GCudaGraph *graph = instantiate (definition);
  Capture *capture;

  launch (graph, bed->stream);
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  capture = capture_begin (bed->context, CAPTURE_NON_BLOCKING);
  in_thread (drop, graph);
  in_thread (drop, definition);
  in_thread (drop, node);
  in_thread (drop, a);
  g_assert_true (gcuda_reclaim (NULL, &error));
  capture_end (capture);
  bed_assert_use (bed, 0);
}

int
main (int argc,
      char **argv)
{
  gcuda_test_init (&argc, &argv);
  bed_add ("/graph/nodes", test_nodes);
  bed_add ("/graph/arguments", test_arguments);
  bed_add ("/graph/launch-closed", test_launch_closed);
  bed_add ("/graph/upload", test_upload);
  bed_add ("/graph/device-launch", test_device_launch);
  bed_add_data ("/graph/keeps-buffers/captured", GINT_TO_POINTER (TRUE), test_keeps_buffers);
  bed_add_data ("/graph/keeps-buffers/nodes", GINT_TO_POINTER (FALSE), test_keeps_buffers);
  bed_add ("/graph/launch-keeps-buffers", test_launch_keeps_buffers);
  bed_add ("/graph/cleanups", test_cleanups);
  bed_add ("/graph/capture-of-others", test_capture_of_others);
  bed_add ("/graph/handle-of-others", test_handle_of_others);
  bed_add ("/graph/no-move", test_no_move);
  bed_add ("/graph/launch-captured", test_launch_captured);
  bed_add ("/graph/update", test_update);
  bed_add ("/graph/update-topology", test_update_topology);
  bed_add ("/graph/update-nodes", test_update_nodes);
  bed_add ("/graph/update-captured", test_update_captured);
  bed_add ("/graph/update-rows", test_update_rows);
  bed_add ("/graph/host-memory-of-another-device", test_host_memory_of_another_device);
  bed_add ("/graph/update-arguments", test_update_arguments);
  bed_add ("/graph/host-function", test_host_function);
  bed_add ("/graph/events", test_events);
  bed_add ("/graph/child", test_child);
  bed_add ("/graph/conditional", test_conditional);
  bed_add ("/graph/conditional/function", test_conditional_function);
  bed_add ("/graph/dropped-elsewhere", test_dropped_elsewhere);
  return g_test_run ();
}
