/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A file goes through a pipeline that was captured once and is launched a thousand times. The program drops the buffers that
 * the pipeline works in; the graph keeps them. The same program is there in Python and in JavaScript.
 *
 *   captured-pipeline FILE
 */
#include <gcudamem/gcudamem.h>

#include <locale.h>
#include <string.h>

#define LAUNCHES 1000

/* The pipeline swaps the halves of a piece, on two branches, and gives a copy of that. */
static GCudaGraph *
capture (GCudaContext *context,
         GCudaMemoryResource *pool,
         GCudaStream *stream,
         GCudaBuffer *input,
         GCudaBuffer *output,
         GError **error)
{
  const guint64 size = gcuda_buffer_get_size (input), half = size / 2;
  g_autoptr (GCudaGraphMemoryResource) graph_memory = gcuda_graph_memory_resource_new (gcuda_context_get_device (context), error);
  g_autoptr (GCudaBuffer) swapped = NULL;
  g_autoptr (GCudaBuffer) scratch = NULL;
  g_autoptr (GCudaGraphBuilder) builder = NULL;
  g_autoptr (GCudaGraphBuilder) branch = NULL;
  g_autoptr (GCudaGraphDefinition) definition = NULL;

  if (graph_memory == NULL)
    return NULL;
  /* Of a pool: dropped at the end of this function, and kept by the graph. */
  swapped = gcuda_memory_resource_allocate (pool, size, stream, error);
  if (swapped == NULL || !gcuda_stream_synchronize (stream, error))
    return NULL;

  builder = gcuda_graph_builder_new (context, GCUDA_CAPTURE_MODE_GLOBAL, error);
  if (builder == NULL)
    return NULL;
  branch = gcuda_graph_builder_fork (builder, error);
  if (branch == NULL ||
      !gcuda_buffer_copy_range (input, half, swapped, 0, half, GCUDA_STREAM (builder), error) ||
      !gcuda_buffer_copy_range (input, 0, swapped, half, half, GCUDA_STREAM (branch), error) ||
      !gcuda_graph_builder_join (builder, branch, error))
    return NULL;
  /* Of the graph itself: there from here to where it is closed, in each launch. */
  scratch = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (graph_memory), size, GCUDA_STREAM (builder), error);
  if (scratch == NULL ||
      !gcuda_buffer_copy_to (swapped, scratch, GCUDA_STREAM (builder), error) ||
      !gcuda_buffer_copy_to (scratch, output, GCUDA_STREAM (builder), error) ||
      !gcuda_buffer_close (scratch, NULL, error))
    return NULL;
  definition = gcuda_graph_builder_finish (builder, error);
  return definition != NULL ? gcuda_graph_definition_instantiate (definition, GCUDA_GRAPH_FLAGS_NONE, stream, error) : NULL;
}

/* Once the graph is closed, nothing keeps its memory but the launches under way. */
static gboolean
settle (GCudaDeviceMemoryResource *pool,
        GCudaStream *stream,
        GError **error)
{
  guint64 used = 1;

  for (guint i = 0; used > 0 && i < 5000; i++)
    {
      g_autoptr (GCudaPoolStatistics) statistics = NULL;

      if (!gcuda_reclaim (NULL, error) || !gcuda_stream_synchronize (stream, error))
        return FALSE;
      statistics = gcuda_device_memory_resource_get_statistics (pool, error);
      if (statistics == NULL)
        return FALSE;
      used = gcuda_pool_statistics_get_used (statistics);
      if (used > 0)
        g_usleep (1000);
    }
  if (used > 0)
    g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED, "%" G_GUINT64_FORMAT " bytes were not given back to the pool", used);
  return used == 0;
}

static gboolean
run (const char *path,
     GError **error)
{
  g_autoptr (GMappedFile) file = g_mapped_file_new (path, FALSE, error);
  g_autoptr (GCudaDevice) device = NULL;
  g_autoptr (GCudaContext) context = NULL;
  g_autoptr (GCudaStream) stream = NULL;
  g_autoptr (GCudaDeviceMemoryResource) own_pool = NULL;
  g_autoptr (GCudaBuffer) input = NULL;
  g_autoptr (GCudaBuffer) output = NULL;
  g_autoptr (GCudaBuffer) others = NULL;
  g_autoptr (GCudaGraph) graph = NULL;
  g_autoptr (GChecksum) expected = g_checksum_new (G_CHECKSUM_SHA256);
  g_autoptr (GChecksum) found = g_checksum_new (G_CHECKSUM_SHA256);
  GCudaMemoryResource *pool;
  gint64 device_time = 0;
  guint64 total, size;

  if (file == NULL)
    return FALSE;
  total = g_mapped_file_get_length (file);
  size = 2 * MAX ((total + 2 * LAUNCHES - 1) / (2 * LAUNCHES), 1);
  device = gcuda_device_new (0, error);
  context = device != NULL ? gcuda_device_get_primary_context (device, error) : NULL;
  stream = context != NULL ? gcuda_stream_new (context, GCUDA_STREAM_FLAGS_NONE, 0, error) : NULL;
  own_pool = stream != NULL ? gcuda_device_memory_resource_new_pool (device, 0, GCUDA_HANDLE_TYPES_NONE, error) : NULL;
  if (own_pool == NULL)
    return FALSE;
  pool = GCUDA_MEMORY_RESOURCE (own_pool);
  input = gcuda_memory_resource_allocate (pool, size, stream, error);
  output = input != NULL ? gcuda_memory_resource_allocate (pool, size, stream, error) : NULL;
  graph = output != NULL ? capture (context, pool, stream, input, output, error) : NULL;
  if (graph == NULL)
    return FALSE;
  /* Memory that the pool would hand out again, had it been freed. */
  others = gcuda_memory_resource_allocate (pool, size, stream, error);
  if (others == NULL || !gcuda_buffer_fill (others, 0xff, 1, stream, error))
    return FALSE;

  for (guint i = 0; i < LAUNCHES; i++)
    {
      const guint64 start = MIN (i * size, total), length = MIN (size, total - start);
      g_autofree guint8 *piece = g_malloc0 (size);
      g_autoptr (GBytes) bytes = NULL;
      g_autoptr (GBytes) result = NULL;
      gint64 before;

      if (length > 0)
        memcpy (piece, g_mapped_file_get_contents (file) + start, length);
      g_checksum_update (expected, piece + size / 2, (gssize) (size / 2));
      g_checksum_update (expected, piece, (gssize) (size / 2));
      bytes = g_bytes_new_take (g_steal_pointer (&piece), size);
      before = g_get_monotonic_time ();
      if (!gcuda_buffer_upload (input, 0, bytes, stream, error) ||
          !gcuda_graph_launch (graph, stream, error))
        return FALSE;
      result = gcuda_buffer_download (output, 0, size, stream, error);
      if (result == NULL)
        return FALSE;
      device_time += g_get_monotonic_time () - before;
      g_checksum_update (found, g_bytes_get_data (result, NULL), (gssize) size);
    }
  if (!g_str_equal (g_checksum_get_string (found), g_checksum_get_string (expected)))
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED, "the device's result is wrong: SHA-256 %s, not %s",
                   g_checksum_get_string (found), g_checksum_get_string (expected));
      return FALSE;
    }
  g_clear_object (&input);
  g_clear_object (&output);
  g_clear_object (&others);
  g_clear_object (&graph);
  if (!settle (own_pool, stream, error))
    return FALSE;
  g_print ("bytes      %12" G_GUINT64_FORMAT "\n", total);
  g_print ("launches   %12d\n", LAUNCHES);
  g_print ("seconds    %12.3f  upload, launch and download: %.1f microseconds each\n",
           (double) device_time / 1e6, (double) device_time / LAUNCHES);
  g_print ("SHA-256    %s, as expected\n", g_checksum_get_string (found));
  return TRUE;
}

int
main (int argc,
      char **argv)
{
  g_autoptr (GError) error = NULL;

  setlocale (LC_ALL, "");
  if (argc != 2)
    {
      g_printerr ("usage: captured-pipeline FILE\n");
      return 1;
    }
  if (!run (argv[1], &error))
    {
      g_printerr ("captured-pipeline: %s\n", error->message);
      return 1;
    }
  return 0;
}
