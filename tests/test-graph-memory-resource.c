/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-test.h"

#define SIZE 65536

static GCudaMemoryResource *
make (Bed *bed)
{
  g_autoptr (GError) error = NULL;
  GCudaGraphMemoryResource *resource = gcuda_graph_memory_resource_new (bed->device, &error);

  assert_no_error (error);
  return GCUDA_MEMORY_RESOURCE (resource);
}

static GCudaBuffer *
allocate (gpointer resource,
          GCudaStream *stream)
{
  g_autoptr (GError) error = NULL;
  GCudaBuffer *buffer = gcuda_memory_resource_allocate (resource, SIZE, stream, &error);

  assert_no_error (error);
  return buffer;
}

static GCudaGraphBuilder *
begin (Bed *bed)
{
  g_autoptr (GError) error = NULL;
  GCudaGraphBuilder *builder;

  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  builder = gcuda_graph_builder_new (bed->context, GCUDA_CAPTURE_MODE_GLOBAL, &error);
  assert_no_error (error);
  return builder;
}

static GCudaGraphDefinition *
finish (GCudaGraphBuilder *builder)
{
  g_autoptr (GError) error = NULL;
  GCudaGraphDefinition *definition = gcuda_graph_builder_finish (builder, &error);

  assert_no_error (error);
  return definition;
}

static GCudaGraph *
instantiate (GCudaGraphDefinition *definition,
             GCudaGraphFlags flags)
{
  g_autoptr (GError) error = NULL;
  GCudaGraph *graph = gcuda_graph_definition_instantiate (definition, flags, NULL, &error);

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

/* What graphs use, after all that can be given back was. */
static guint64
used (Bed *bed,
      GCudaMemoryResource *resource)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaPoolStatistics) statistics = NULL;

  bed_settled_use (bed);
  g_assert_true (gcuda_graph_memory_resource_trim (GCUDA_GRAPH_MEMORY_RESOURCE (resource), &error));
  assert_no_error (error);
  statistics = gcuda_graph_memory_resource_get_statistics (GCUDA_GRAPH_MEMORY_RESOURCE (resource), &error);
  assert_no_error (error);
  return gcuda_pool_statistics_get_used (statistics);
}

/* Frees that the log shows, of addresses that graphs gave. */
static guint
count_frees (char **log)
{
  return gcuda_test_log_count (log, "cuMemFreeAsync", NULL);
}

/* Closed in its capture: a free node, and the graph can be launched again and again. */
static void
test_free_node (Bed *bed,
                gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaMemoryResource) resource = make (bed);
  g_autoptr (GCudaBuffer) result = allocate (bed->resource, bed->stream);
  g_autoptr (GCudaGraphBuilder) builder = begin (bed);
  GCudaStream *stream = GCUDA_STREAM (builder);
  GCudaBuffer *buffer = allocate (resource, stream), *view;
  g_autoptr (GCudaGraphDefinition) definition = NULL;
  g_autoptr (GCudaGraph) graph = NULL;
  g_autoptr (GPtrArray) nodes = NULL;

  g_assert_cmpuint (gcuda_buffer_get_address (buffer), !=, 0);
  pattern_fill (buffer, 0x31, stream);
  g_assert_true (gcuda_buffer_copy_to (buffer, result, stream, &error));
  assert_no_error (error);
  /* With the last of its holders. */
  view = gcuda_buffer_new_view (buffer, 0, 16, &error);
  g_object_unref (buffer);
  pattern_fill (view, 0x32, stream);
  g_object_unref (view);
  definition = finish (builder);
  nodes = gcuda_graph_definition_get_nodes (definition, &error);
  g_assert_cmpuint (nodes->len, ==, 5);
  graph = instantiate (definition, GCUDA_GRAPH_FLAGS_NONE);
  gcuda_test_log_start ();
  for (guint round = 0; round < 3; round++)
    {
      pattern_fill (result, 0, bed->stream);
      launch (graph, bed);
      pattern_assert (result, 0x31, bed->stream);
    }
  if (gcuda_test_is_simulated ())
    {
      g_auto (GStrv) log = gcuda_test_log_take ();

      g_assert_cmpuint (count_frees (log), ==, 0);
    }
  g_clear_object (&graph);
  g_clear_object (&definition);
  g_ptr_array_set_size (nodes, 0);
  g_assert_cmpuint (used (bed, resource), ==, 0);
}

/* Open at the end of the capture: never launched, there is nothing to free; launched, it is freed once. */
static void
test_outlives (Bed *bed,
               gconstpointer data)
{
  const guint launches = GPOINTER_TO_UINT (data);
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaMemoryResource) resource = make (bed);
  g_autoptr (GCudaGraphBuilder) builder = begin (bed);
  GCudaBuffer *buffer = allocate (resource, GCUDA_STREAM (builder));
  g_autoptr (GCudaGraphDefinition) definition = NULL;
  g_autoptr (GCudaGraph) graph = NULL;

  pattern_fill (buffer, 0x44, GCUDA_STREAM (builder));
  definition = finish (builder);
  graph = instantiate (definition, GCUDA_GRAPH_FLAGS_NONE);
  if (launches > 0)
    {
      launch (graph, bed);
      pattern_assert (buffer, 0x44, bed->stream);
      g_assert_true (gcuda_buffer_set_deallocation_stream (buffer, bed->stream, &error));
      /* Its memory is there still. */
      g_assert_false (gcuda_graph_launch (graph, bed->stream, &error));
      g_assert_error (error, GCUDA_ERROR, GCUDA_ERROR_INVALID_VALUE);
      g_assert_nonnull (strstr (error->message, "AUTO_FREE_ON_LAUNCH"));
      g_clear_error (&error);
    }
  gcuda_test_log_start ();
  g_object_unref (buffer);
  g_assert_true (gcuda_reclaim (NULL, &error));
  if (gcuda_test_is_simulated ())
    {
      g_auto (GStrv) log = gcuda_test_log_take ();

      g_assert_cmpuint (count_frees (log), ==, launches > 0 ? 1 : 0);
    }
  /* From now on each launch frees it. */
  if (launches > 0)
    for (guint round = 0; round < 3; round++)
      launch (graph, bed);
  g_clear_object (&graph);
  g_clear_object (&definition);
  g_assert_cmpuint (used (bed, resource), ==, 0);
}

/* Released before the first launch: each launch frees it behind itself. */
static void
test_released_early (Bed *bed,
                     gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaMemoryResource) resource = make (bed);
  g_autoptr (GCudaBuffer) result = allocate (bed->resource, bed->stream);
  g_autoptr (GCudaGraphBuilder) builder = begin (bed);
  GCudaBuffer *buffer = allocate (resource, GCUDA_STREAM (builder));
  g_autoptr (GCudaGraphDefinition) definition = NULL;
  g_autoptr (GCudaGraph) graph = NULL;

  pattern_fill (buffer, 0x45, GCUDA_STREAM (builder));
  g_assert_true (gcuda_buffer_copy_to (buffer, result, GCUDA_STREAM (builder), &error));
  definition = finish (builder);
  g_object_unref (buffer);
  graph = instantiate (definition, GCUDA_GRAPH_FLAGS_NONE);
  for (guint round = 0; round < 3; round++)
    {
      pattern_fill (result, 0, bed->stream);
      launch (graph, bed);
      pattern_assert (result, 0x45, bed->stream);
    }
  g_clear_object (&graph);
  g_clear_object (&definition);
  g_assert_cmpuint (used (bed, resource), ==, 0);
}

/* Graph and executable graph are gone, the memory is not. */
static void
test_outlives_graph (Bed *bed,
                     gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaMemoryResource) resource = make (bed);
  GCudaGraphBuilder *builder = begin (bed);
  GCudaBuffer *buffer = allocate (resource, GCUDA_STREAM (builder));
  GCudaGraphDefinition *definition;
  GCudaGraph *graph;

  pattern_fill (buffer, 0x46, GCUDA_STREAM (builder));
  definition = finish (builder);
  graph = instantiate (definition, GCUDA_GRAPH_FLAGS_NONE);
  launch (graph, bed);
  g_object_unref (graph);
  g_object_unref (definition);
  g_object_unref (builder);
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  g_assert_true (gcuda_reclaim (NULL, &error));
  pattern_assert (buffer, 0x46, bed->stream);
  pattern_fill (buffer, 0x47, bed->stream);
  pattern_assert (buffer, 0x47, bed->stream);
  g_assert_true (gcuda_buffer_close (buffer, bed->stream, &error));
  assert_no_error (error);
  g_object_unref (buffer);
  g_assert_cmpuint (used (bed, resource), ==, 0);
}

static void
test_auto_free (Bed *bed,
                gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaMemoryResource) resource = make (bed);
  g_autoptr (GCudaGraphBuilder) builder = begin (bed);
  GCudaBuffer *buffer = allocate (resource, GCUDA_STREAM (builder));
  g_autoptr (GCudaGraphDefinition) definition = NULL;
  g_autoptr (GCudaGraph) graph = NULL;

  pattern_fill (buffer, 0x48, GCUDA_STREAM (builder));
  definition = finish (builder);
  graph = instantiate (definition, GCUDA_GRAPH_FLAGS_AUTO_FREE_ON_LAUNCH);
  for (guint round = 0; round < 3; round++)
    {
      launch (graph, bed);
      pattern_assert (buffer, 0x48, bed->stream);
    }
  g_assert_true (gcuda_buffer_close (buffer, bed->stream, &error));
  assert_no_error (error);
  g_object_unref (buffer);
  g_clear_object (&graph);
  g_clear_object (&definition);
  g_assert_cmpuint (used (bed, resource), ==, 0);
}

/* One executable graph at a time, and no part of another. */
static void
test_limits (Bed *bed,
             gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaMemoryResource) resource = make (bed);
  g_autoptr (GCudaBuffer) result = allocate (bed->resource, bed->stream);
  g_autoptr (GCudaGraphBuilder) builder = begin (bed);
  GCudaBuffer *buffer = allocate (resource, GCUDA_STREAM (builder));
  g_autoptr (GCudaGraphDefinition) definition = NULL;
  g_autoptr (GCudaGraphDefinition) outer = gcuda_graph_definition_new (bed->context, &error);
  g_autoptr (GCudaGraphBuilder) other = NULL;
  g_autoptr (GCudaGraph) graph = NULL;

  pattern_fill (buffer, 0x49, GCUDA_STREAM (builder));
  g_assert_true (gcuda_buffer_copy_to (buffer, result, GCUDA_STREAM (builder), &error));
  g_object_unref (buffer);
  definition = finish (builder);
  graph = instantiate (definition, GCUDA_GRAPH_FLAGS_NONE);
  g_assert_null (gcuda_graph_definition_instantiate (definition, GCUDA_GRAPH_FLAGS_NONE, NULL, &error));
  g_assert_error (error, GCUDA_ERROR, GCUDA_ERROR_NOT_SUPPORTED);
  g_assert_nonnull (strstr (error->message, "closed"));
  g_clear_error (&error);
  g_assert_null (gcuda_graph_definition_add_graph (outer, NULL, 0, definition, &error));
  assert_error_and_clear (error, GCUDA_ERROR_NOT_SUPPORTED);
  other = begin (bed);
  g_assert_false (gcuda_graph_builder_add_graph (other, definition, &error));
  assert_error_and_clear (error, GCUDA_ERROR_NOT_SUPPORTED);
  g_clear_object (&other);
  /* It is as it was. */
  launch (graph, bed);
  pattern_assert (result, 0x49, bed->stream);
  g_clear_object (&graph);
  graph = instantiate (definition, GCUDA_GRAPH_FLAGS_NONE);
  launch (graph, bed);
  pattern_assert (result, 0x49, bed->stream);
}

/* By nodes: allocate, use, free; and what is freed within can't be used outside. */
static void
test_nodes (Bed *bed,
            gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) result = allocate (bed->resource, bed->stream);
  g_autoptr (GCudaGraphDefinition) definition = gcuda_graph_definition_new (bed->context, &error);
  g_autoptr (GCudaBuffer) buffer = NULL;
  g_autoptr (GCudaBuffer) view = NULL;
  g_autoptr (GCudaGraphNode) allocation = gcuda_graph_definition_add_allocation (definition, NULL, 0, SIZE, bed->stream, &buffer, &error);
  g_autoptr (GCudaGraphNode) fill = NULL;
  g_autoptr (GCudaGraphNode) copy = NULL;
  g_autoptr (GCudaGraphNode) free_node = NULL;
  g_autoptr (GCudaGraph) graph = NULL;
  GCudaBuffer *none = NULL;

  assert_no_error (error);
  g_assert_cmpint (gcuda_graph_node_get_kind (allocation), ==, GCUDA_GRAPH_NODE_KIND_ALLOCATION);
  fill = gcuda_graph_definition_add_fill (definition, &allocation, 1, buffer, 0, SIZE, 0x51, 1, &error);
  assert_no_error (error);
  copy = gcuda_graph_definition_add_copy (definition, &fill, 1, buffer, 0, result, 0, SIZE, &error);
  assert_no_error (error);
  view = gcuda_buffer_new_view (buffer, 0, 16, &error);
  g_assert_null (gcuda_graph_definition_add_free (definition, &copy, 1, view, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_null (gcuda_graph_definition_add_free (definition, &copy, 1, result, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_null (gcuda_graph_definition_add_free (definition, &copy, 1, NULL, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  free_node = gcuda_graph_definition_add_free (definition, &copy, 1, buffer, &error);
  assert_no_error (error);
  g_assert_cmpint (gcuda_graph_node_get_kind (free_node), ==, GCUDA_GRAPH_NODE_KIND_FREE);
  g_assert_null (gcuda_graph_definition_add_free (definition, &copy, 1, buffer, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_VALUE);
  g_assert_null (gcuda_graph_definition_add_allocation (definition, NULL, 0, 0, bed->stream, &none, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_null (gcuda_graph_definition_add_allocation (definition, NULL, 0, SIZE, NULL, &none, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_null (none);
  graph = instantiate (definition, GCUDA_GRAPH_FLAGS_NONE);
  for (guint round = 0; round < 2; round++)
    {
      pattern_fill (result, 0, bed->stream);
      launch (graph, bed);
      pattern_assert (result, 0x51, bed->stream);
    }
}

/* Memory that is not there yet: the error says when it would be. */
static void
test_hint (Bed *bed,
           gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaGraphDefinition) definition = gcuda_graph_definition_new (bed->context, &error);
  g_autoptr (GCudaBuffer) buffer = NULL;
  g_autoptr (GCudaGraphNode) allocation = gcuda_graph_definition_add_allocation (definition, NULL, 0, SIZE, bed->stream, &buffer, &error);

  assert_no_error (error);
  g_assert_false (gcuda_buffer_fill (buffer, 1, 1, bed->stream, &error));
  g_assert_error (error, GCUDA_ERROR, GCUDA_ERROR_INVALID_VALUE);
  g_assert_nonnull (strstr (error->message, "launch"));
  g_clear_error (&error);
  g_assert_null (gcuda_buffer_download (buffer, 0, 16, bed->stream, &error));
  g_assert_error (error, GCUDA_ERROR, GCUDA_ERROR_INVALID_VALUE);
  g_assert_nonnull (strstr (error->message, "launch"));
}

/* A capture that comes to nothing: buffers of it have nothing to free. */
static void
test_abandoned (Bed *bed,
                gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaMemoryResource) resource = make (bed);
  g_autoptr (GCudaStream) other = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);

  for (guint how = 0; how < 4; how++)
    {
      GCudaGraphBuilder *builder = begin (bed);
      GCudaBuffer *buffer = allocate (resource, GCUDA_STREAM (builder));
      GCudaBuffer *early = allocate (resource, GCUDA_STREAM (builder));

      g_assert_true (gcuda_buffer_set_deallocation_stream (buffer, how % 2 == 0 ? bed->stream : GCUDA_STREAM (builder), &error));
      assert_no_error (error);
      /* In the capture, on a stream that is not: that waits for the end. */
      g_assert_true (gcuda_buffer_close (early, other, &error));
      g_object_unref (early);
      gcuda_test_log_start ();
      if (how < 2)
        {
          g_assert_finalize_object (builder);
        }
      else
        {
          g_assert_cmpint (RAW (cuStreamSynchronize) (gcuda_stream_get_cuda_stream (GCUDA_STREAM (builder))), ==, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
          g_assert_null (gcuda_graph_builder_finish (builder, &error));
          assert_error_and_clear (error, GCUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
          g_object_unref (builder);
        }
      g_object_unref (buffer);
      g_assert_true (gcuda_reclaim (NULL, &error));
      if (gcuda_test_is_simulated ())
        {
          g_auto (GStrv) log = gcuda_test_log_take ();

          g_assert_cmpuint (count_frees (log), ==, 0);
        }
      g_assert_cmpuint (used (bed, resource), ==, 0);
    }
}

/* A capture of others. */
static void
test_capture_of_others (Bed *bed,
                        gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaMemoryResource) resource = make (bed);
  g_autoptr (GCudaStream) stream = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  CUstream raw = gcuda_stream_get_cuda_stream (stream);
  GCudaBuffer *freed, *outlives, *never;
  CUgraph graph = NULL;
  CUgraphExec exec;
  CUcontext popped;

  assert_cuda (RAW (cuStreamBeginCapture) (raw, CU_STREAM_CAPTURE_MODE_RELAXED));
  never = allocate (resource, stream);
  pattern_fill (never, 1, stream);
  assert_cuda (RAW (cuStreamEndCapture) (raw, &graph));
  assert_cuda (RAW (cuGraphDestroy) (graph));
  g_object_unref (never);

  assert_cuda (RAW (cuStreamBeginCapture) (raw, CU_STREAM_CAPTURE_MODE_RELAXED));
  freed = allocate (resource, stream);
  outlives = allocate (resource, stream);
  pattern_fill (freed, 0x61, stream);
  g_assert_true (gcuda_buffer_copy_to (freed, outlives, stream, &error));
  assert_no_error (error);
  g_object_unref (freed);
  assert_cuda (RAW (cuStreamEndCapture) (raw, &graph));
  assert_cuda (RAW (cuCtxPushCurrent) (gcuda_context_get_cuda_context (bed->context)));
  assert_cuda (RAW (cuGraphInstantiateWithFlags) (&exec, graph, 0));
  assert_cuda (RAW (cuGraphLaunch) (exec, gcuda_stream_get_cuda_stream (bed->stream)));
  assert_cuda (RAW (cuCtxPopCurrent) (&popped));
  pattern_assert (outlives, 0x61, bed->stream);
  g_assert_true (gcuda_buffer_close (outlives, bed->stream, &error));
  g_object_unref (outlives);
  assert_cuda (RAW (cuGraphExecDestroy) (exec));
  assert_cuda (RAW (cuGraphDestroy) (graph));
  g_assert_cmpuint (used (bed, resource), ==, 0);
}

/* A resource that reaches graph memory by its vfuncs, as a program's does: what is closed in the capture is freed there, what
 * outlives it is the launches'. */
static void
test_by_vfuncs (Bed *bed,
                gconstpointer data)
{
  const gboolean outlives = GPOINTER_TO_UINT (data);
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaMemoryResource) resource = make (bed);
  g_autoptr (GCudaThreadBoundMemoryResource) bound = gcuda_thread_bound_memory_resource_new (resource);
  g_autoptr (GCudaBuffer) result = allocate (bed->resource, bed->stream);
  g_autoptr (GCudaGraphBuilder) builder = begin (bed);
  GCudaStream *stream = GCUDA_STREAM (builder);
  GCudaBuffer *buffer = allocate (bound, stream);

  pattern_fill (buffer, 0x36, stream);
  g_assert_true (gcuda_buffer_copy_to (buffer, result, stream, &error));
  assert_no_error (error);
  if (!outlives)
    {
      g_assert_true (gcuda_buffer_close (buffer, NULL, &error));
      g_object_unref (buffer);
    }
  {
    g_autoptr (GCudaGraphDefinition) definition = finish (builder);
    g_autoptr (GCudaGraph) graph = instantiate (definition, GCUDA_GRAPH_FLAGS_NONE);
    g_autoptr (GPtrArray) nodes = gcuda_graph_definition_get_nodes (definition, &error);

    g_assert_cmpuint (nodes->len, ==, outlives ? 3 : 4);
    launch (graph, bed);
    if (outlives)
      {
        g_assert_true (gcuda_buffer_close (buffer, bed->stream, &error));
        assert_no_error (error);
        g_object_unref (buffer);
      }
    launch (graph, bed);
    launch (graph, bed);
    pattern_assert (result, 0x36, bed->stream);
  }
  g_assert_cmpuint (used (bed, resource), ==, 0);
}

/* Memory that an adaptor moved to the next multiple of much: it is the graph's all the same, whichever way it was reached. */
static void
test_aligned (Bed *bed,
              gconstpointer data)
{
  const guint64 alignment = (guint64) 1 << 27;
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaMemoryResource) resource = make (bed);
  g_autoptr (GCudaThreadBoundMemoryResource) bound = gcuda_thread_bound_memory_resource_new (resource);
  g_autoptr (GCudaAlignedMemoryResource) aligned = gcuda_aligned_memory_resource_new (resource, alignment, &error);
  g_autoptr (GCudaAlignedMemoryResource) over_bound = gcuda_aligned_memory_resource_new (GCUDA_MEMORY_RESOURCE (bound), alignment, &error);
  g_autoptr (GCudaBinningMemoryResource) binned = gcuda_binning_memory_resource_new (resource);
  gpointer resources[] = { aligned, over_bound, binned };

  assert_no_error (error);
  g_assert_true (gcuda_binning_memory_resource_add_bin (binned, SIZE, GCUDA_MEMORY_RESOURCE (aligned), &error));
  for (guint i = 0; i < 2 * G_N_ELEMENTS (resources); i++)
    {
      const gboolean outlives = i % 2 == 1;
      g_autoptr (GCudaGraphBuilder) builder = begin (bed);
      GCudaStream *stream = GCUDA_STREAM (builder);
      /* So that not all begins where the alignment would put it. */
      GCudaBuffer *first = allocate (resource, stream), *buffer = allocate (resources[i / 2], stream);
      g_autoptr (GCudaGraphDefinition) definition = NULL;
      g_autoptr (GCudaGraph) graph = NULL;

      g_assert_cmpuint (gcuda_buffer_get_address (buffer) % alignment, ==, 0);
      pattern_fill (buffer, 0x37, stream);
      g_object_unref (first);
      if (!outlives)
        {
          g_assert_true (gcuda_buffer_close (buffer, NULL, &error));
          g_object_unref (buffer);
        }
      definition = finish (builder);
      graph = instantiate (definition, GCUDA_GRAPH_FLAGS_NONE);
      launch (graph, bed);
      if (outlives)
        {
          g_assert_true (gcuda_buffer_close (buffer, bed->stream, &error));
          assert_no_error (error);
          g_object_unref (buffer);
        }
      launch (graph, bed);
    }
  g_assert_cmpuint (used (bed, resource), ==, 0);
}

static void
test_statistics (Bed *bed,
                 gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaMemoryResource) resource = make (bed);
  GCudaGraphMemoryResource *graph_memory = GCUDA_GRAPH_MEMORY_RESOURCE (resource);
  g_autoptr (GCudaGraphMemoryResource) bare = g_object_new (GCUDA_TYPE_GRAPH_MEMORY_RESOURCE, NULL);
  g_autoptr (GCudaGraphBuilder) builder = NULL;
  g_autoptr (GCudaGraphDefinition) definition = NULL;
  g_autoptr (GCudaGraph) graph = NULL;
  g_autoptr (GCudaPoolStatistics) statistics = NULL;
  GCudaBuffer *buffer;

  g_assert_cmpuint (used (bed, resource), ==, 0);
  g_assert_true (gcuda_graph_memory_resource_reset_high_marks (graph_memory, &error));
  assert_no_error (error);
  builder = begin (bed);
  buffer = allocate (resource, GCUDA_STREAM (builder));
  g_object_unref (buffer);
  definition = finish (builder);
  graph = instantiate (definition, GCUDA_GRAPH_FLAGS_NONE);
  launch (graph, bed);
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  statistics = gcuda_graph_memory_resource_get_statistics (graph_memory, &error);
  assert_no_error (error);
  g_assert_cmpuint (gcuda_pool_statistics_get_reserved (statistics), >=, SIZE);
  g_assert_cmpuint (gcuda_pool_statistics_get_reserved_high (statistics), >=, SIZE);
  g_assert_cmpuint (gcuda_pool_statistics_get_used_high (statistics), >=, SIZE);
  g_clear_pointer (&statistics, gcuda_pool_statistics_unref);
  g_assert_cmpuint (used (bed, resource), ==, 0);
  g_assert_true (gcuda_graph_memory_resource_reset_high_marks (graph_memory, &error));
  statistics = gcuda_graph_memory_resource_get_statistics (graph_memory, &error);
  g_assert_cmpuint (gcuda_pool_statistics_get_used_high (statistics), ==, 0);
  g_assert_cmpuint (gcuda_pool_statistics_get_reserved (statistics), ==, 0);

  g_assert_null (gcuda_graph_memory_resource_new (NULL, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_null (gcuda_graph_memory_resource_get_statistics (bare, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_false (gcuda_graph_memory_resource_trim (bare, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_null (gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (bare), SIZE, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
}

/* Empty, as from each resource; on any stream. */
static void
test_empty (Bed *bed,
            gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaMemoryResource) resource = make (bed);
  g_autoptr (GCudaGraphBuilder) builder = begin (bed);
  g_autoptr (GCudaBuffer) empty = gcuda_memory_resource_allocate (resource, 0, GCUDA_STREAM (builder), &error);

  assert_no_error (error);
  g_assert_cmpuint (gcuda_buffer_get_address (empty), ==, 0);
  g_assert_true (gcuda_buffer_fill (empty, 1, 1, GCUDA_STREAM (builder), &error));
  g_assert_true (gcuda_buffer_close (empty, GCUDA_STREAM (builder), &error));
  assert_no_error (error);
}

static void
test_other_device (Bed *bed,
                   gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaDevice) second = gcuda_device_new (1, NULL);
  g_autoptr (GCudaGraphMemoryResource) resource = NULL;
  g_autoptr (GCudaGraphBuilder) builder = NULL;

  if (second == NULL)
    {
      g_test_skip ("there is one device");
      return;
    }
  resource = gcuda_graph_memory_resource_new (second, &error);
  assert_no_error (error);
  builder = begin (bed);
  g_assert_null (gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (resource), SIZE, GCUDA_STREAM (builder), &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_true (gcuda_stream_is_capturing (GCUDA_STREAM (builder), &error));
}

/* The first graph memory of the process is in a capture of others; a builder comes later. The first test. */
static void
test_others_first (Bed *bed,
                   gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaMemoryResource) resource = make (bed);
  g_autoptr (GCudaBuffer) result = allocate (bed->resource, bed->stream);
  CUstream raw = gcuda_stream_get_cuda_stream (bed->stream);
  CUgraph others = NULL;
  GCudaBuffer *buffer;

  assert_cuda (RAW (cuStreamBeginCapture) (raw, CU_STREAM_CAPTURE_MODE_RELAXED));
  g_object_unref (allocate (resource, bed->stream));
  assert_cuda (RAW (cuStreamEndCapture) (raw, &others));
  assert_cuda (RAW (cuGraphDestroy) (others));
  {
    g_autoptr (GCudaGraphBuilder) builder = begin (bed);
    g_autoptr (GCudaGraphDefinition) definition = NULL;
    g_autoptr (GCudaGraph) graph = NULL;

    buffer = allocate (resource, GCUDA_STREAM (builder));
    pattern_fill (buffer, 0x35, GCUDA_STREAM (builder));
    g_assert_true (gcuda_buffer_copy_to (buffer, result, GCUDA_STREAM (builder), &error));
    assert_no_error (error);
    definition = finish (builder);
    graph = instantiate (definition, GCUDA_GRAPH_FLAGS_NONE);
    launch (graph, bed);
    /* It is the launch's, and freed once. */
    g_assert_true (gcuda_buffer_close (buffer, bed->stream, &error));
    g_object_unref (buffer);
    launch (graph, bed);
    pattern_assert (result, 0x35, bed->stream);
  }
  g_assert_cmpuint (used (bed, resource), ==, 0);
}

static gpointer
drop (gpointer data)
{
  g_object_unref (data);
  return NULL;
}

/* What a fork allocated goes on, after the join, with the builder that it was joined into. */
static void
test_joined (Bed *bed,
             gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaMemoryResource) resource = make (bed);
  g_autoptr (GCudaBuffer) result = allocate (bed->resource, bed->stream);

  for (guint how = 0; how < 4; how++)
    {
      g_autoptr (GCudaGraphBuilder) builder = begin (bed);
      g_autoptr (GCudaGraphBuilder) forked = gcuda_graph_builder_fork (builder, &error);
      g_autoptr (GCudaGraphBuilder) again = NULL;
      g_autoptr (GCudaGraphDefinition) definition = NULL;
      g_autoptr (GCudaGraph) graph = NULL;
      GCudaBuffer *buffer;

      assert_no_error (error);
      /* A fork of a fork, too. */
      if (how == 3)
        {
          again = gcuda_graph_builder_fork (forked, &error);
          assert_no_error (error);
        }
      buffer = allocate (resource, GCUDA_STREAM (again != NULL ? again : forked));
      pattern_fill (buffer, 0x31 + how, GCUDA_STREAM (again != NULL ? again : forked));
      if (again != NULL)
        g_assert_true (gcuda_graph_builder_join (forked, again, &error));
      g_assert_true (gcuda_graph_builder_join (builder, forked, &error));
      g_assert_true (gcuda_buffer_copy_to (buffer, result, GCUDA_STREAM (builder), &error));
      assert_no_error (error);
      if (how == 1)
        g_assert_true (gcuda_buffer_close (buffer, NULL, &error));
      if (how == 2)
        in_thread (drop, buffer);
      else
        g_object_unref (buffer);
      definition = finish (builder);
      graph = instantiate (definition, GCUDA_GRAPH_FLAGS_NONE);
      for (guint round = 0; round < 2; round++)
        {
          pattern_fill (result, 0, bed->stream);
          launch (graph, bed);
          pattern_assert (result, 0x31 + how, bed->stream);
        }
      g_clear_object (&graph);
      g_clear_object (&definition);
      g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
      g_assert_cmpuint (used (bed, resource), ==, 0);
    }
}

/* Closed in the capture, but on another stream: each launch frees it behind itself, also one that comes at once. */
static void
test_closed_elsewhere (Bed *bed,
                       gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaMemoryResource) resource = make (bed);
  g_autoptr (GCudaBuffer) result = allocate (bed->resource, bed->stream);

  for (guint round = 0; round < 20; round++)
    {
      g_autoptr (GCudaGraphBuilder) builder = begin (bed);
      GCudaBuffer *buffer = allocate (resource, GCUDA_STREAM (builder));
      g_autoptr (GCudaGraphDefinition) definition = NULL;
      g_autoptr (GCudaGraph) graph = NULL;

      pattern_fill (buffer, 0x41, GCUDA_STREAM (builder));
      g_assert_true (gcuda_buffer_copy_to (buffer, result, GCUDA_STREAM (builder), &error));
      g_assert_true (gcuda_buffer_close (buffer, bed->stream, &error));
      assert_no_error (error);
      g_object_unref (buffer);
      /* The reclaimer has tried, and comes back later and later. */
      if (round % 4 == 0)
        g_usleep (20000);
      definition = finish (builder);
      graph = instantiate (definition, GCUDA_GRAPH_FLAGS_NONE);
      for (guint i = 0; i < 3; i++)
        launch (graph, bed);
      pattern_assert (result, 0x41, bed->stream);
      if (round % 2 == 0)
        g_clear_object (&graph);
      g_clear_object (&definition);
      g_assert_true (gcuda_reclaim (NULL, &error));
    }
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_cmpuint (used (bed, resource), ==, 0);
}

/* Without a launch there was no memory: what is released later is nobody's, though the address may be somebody's by then. */
static void
test_never_there (Bed *bed,
                  gconstpointer data)
{
  for (guint i = 0; i < 3; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GCudaMemoryResource) resource = make (bed);
      g_autoptr (GCudaBuffer) live = NULL;
      GCudaGraphBuilder *builder = begin (bed);
      GCudaBuffer *scratch = allocate (resource, GCUDA_STREAM (builder));

      pattern_fill (scratch, 1, GCUDA_STREAM (builder));
      if (i > 0)
        {
          g_autoptr (GCudaGraphDefinition) definition = finish (builder);

          if (i > 1)
            g_object_unref (instantiate (definition, GCUDA_GRAPH_FLAGS_NONE));
        }
      g_object_unref (builder);
      bed_settled_use (bed);
      live = allocate (bed->resource, bed->stream);
      pattern_fill (live, 7, bed->stream);
      if (gcuda_test_is_simulated ())
        g_assert_cmpuint (gcuda_buffer_get_address (live), ==, gcuda_buffer_get_address (scratch));
      g_object_unref (scratch);
      g_assert_true (gcuda_reclaim (NULL, &error));
      assert_no_error (error);
      bed_assert_use (bed, SIZE);
      pattern_assert (live, 7, bed->stream);
    }
}

/* What a launch frees behind itself breaks no capture of others, and is freed all the same. */
static void
test_launch_beside_capture (Bed *bed,
                            gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaMemoryResource) resource = make (bed);
  g_autoptr (GCudaGraphBuilder) builder = begin (bed);
  GCudaBuffer *scratch = allocate (resource, GCUDA_STREAM (builder));
  g_autoptr (GCudaGraphDefinition) definition = NULL;
  g_autoptr (GCudaGraph) graph = NULL;
  Capture *capture;

  pattern_fill (scratch, 1, GCUDA_STREAM (builder));
  definition = finish (builder);
  graph = instantiate (definition, GCUDA_GRAPH_FLAGS_NONE);
  g_object_unref (scratch);
  capture = capture_begin (bed->context, CAPTURE_NON_BLOCKING);
  launch (graph, bed);
  capture_end (capture);
  launch (graph, bed);
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  assert_no_error (error);
  g_assert_cmpuint (used (bed, resource), ==, 0);
}

int
main (int argc,
      char **argv)
{
  gcuda_test_init (&argc, &argv);
  bed_add ("/graph-memory-resource/others-first", test_others_first);
  bed_add ("/graph-memory-resource/free-node", test_free_node);
  bed_add_data ("/graph-memory-resource/outlives/never-launched", GUINT_TO_POINTER (0), test_outlives);
  bed_add_data ("/graph-memory-resource/outlives/launched", GUINT_TO_POINTER (1), test_outlives);
  bed_add ("/graph-memory-resource/released-early", test_released_early);
  bed_add ("/graph-memory-resource/outlives-graph", test_outlives_graph);
  bed_add ("/graph-memory-resource/never-there", test_never_there);
  bed_add ("/graph-memory-resource/launch-beside-capture", test_launch_beside_capture);
  bed_add ("/graph-memory-resource/auto-free", test_auto_free);
  bed_add ("/graph-memory-resource/limits", test_limits);
  bed_add ("/graph-memory-resource/nodes", test_nodes);
  bed_add ("/graph-memory-resource/hint", test_hint);
  bed_add ("/graph-memory-resource/abandoned", test_abandoned);
  bed_add ("/graph-memory-resource/capture-of-others", test_capture_of_others);
  bed_add_data ("/graph-memory-resource/by-vfuncs/freed", GUINT_TO_POINTER (0), test_by_vfuncs);
  bed_add_data ("/graph-memory-resource/by-vfuncs/outlives", GUINT_TO_POINTER (1), test_by_vfuncs);
  bed_add ("/graph-memory-resource/aligned", test_aligned);
  bed_add ("/graph-memory-resource/joined", test_joined);
  bed_add ("/graph-memory-resource/closed-elsewhere", test_closed_elsewhere);
  bed_add ("/graph-memory-resource/statistics", test_statistics);
  bed_add ("/graph-memory-resource/empty", test_empty);
  bed_add ("/graph-memory-resource/other-device", test_other_device);
  return g_test_run ();
}
