/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies of layers, batches with attributes, and copies that have to go through another device's context. */
#include "gcuda-test.h"

#define SIZE ((guint64) 64 * 1024)

static GCudaBuffer *
allocate (gpointer resource,
          guint64 size,
          GCudaStream *stream)
{
  g_autoptr (GError) error = NULL;
  GCudaBuffer *buffer = gcuda_memory_resource_allocate (resource, size, stream, &error);

  g_assert_no_error (error);
  return buffer;
}

/* Fills a buffer with bytes that tell their place; returns them. */
static guint8 *
fill_places (GCudaBuffer *buffer,
             guint8 seed,
             GCudaStream *stream)
{
  g_autoptr (GError) error = NULL;
  const gsize size = gcuda_buffer_get_size (buffer);
  guint8 *bytes = g_malloc (size);

  for (gsize i = 0; i < size; i++)
    bytes[i] = (guint8) (i * 31 + i / 251 + seed);
  g_assert_true (gcuda_buffer_upload_data (buffer, 0, bytes, size, stream, &error));
  g_assert_no_error (error);
  return bytes;
}

static void
assert_bytes (GCudaBuffer *buffer,
              const guint8 *expected,
              GCudaStream *stream)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = gcuda_buffer_download (buffer, 0, gcuda_buffer_get_size (buffer), stream, &error);

  g_assert_no_error (error);
  g_assert_cmpmem (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes), expected, gcuda_buffer_get_size (buffer));
}

typedef struct
{
  guint64 offset, pitch, height;
} Place;

static void
copy_model (const Place *from,
            const guint8 *source,
            const Place *to,
            guint8 *target,
            guint64 row_size,
            guint64 rows,
            guint64 layers)
{
  for (guint64 z = 0; z < layers; z++)
    for (guint64 y = 0; y < rows; y++)
      memcpy (target + to->offset + (z * to->height + y) * to->pitch, source + from->offset + (z * from->height + y) * from->pitch, row_size);
}

static void
test_3d (Bed *bed,
         gconstpointer data)
{
  static const struct
  {
    Place from, to;
    guint64 row_size, rows, layers;
  } rows[] = {
    { { 0, 100, 10 }, { 0, 100, 10 }, 100, 10, 8 }, /* all in one piece */
    { { 5, 128, 16 }, { 77, 200, 12 }, 90, 11, 7 }, /* all different */
    { { 0, 64, 4 }, { 1000, 64, 4 }, 1, 1, 1 },     /* one byte */
    { { 3, 512, 20 }, { 0, 60, 5 }, 60, 5, 6 },     /* packed */
    { { 0, 32, 1 }, { 0, 48, 1 }, 32, 1, 100 },     /* layers of one row */
    { { 0, 300, 30 }, { 9, 300, 30 }, 250, 30, 1 }, /* one layer */
    { { 65000, 10, 10 }, { 0, 10, 10 }, 0, 5, 5 },  /* nothing */
    { { 0, 10, 0 }, { 0, 10, 0 }, 10, 0, 5 },       /* nothing either */
  };
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) source = allocate (bed->resource, SIZE, bed->stream);
  g_autoptr (GCudaBuffer) target = allocate (bed->resource, SIZE, bed->stream);
  g_autofree guint8 *from = fill_places (source, 0, bed->stream);

  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree guint8 *to = fill_places (target, 100, bed->stream);

      copy_model (&rows[i].from, from, &rows[i].to, to, rows[i].row_size, rows[i].rows, rows[i].layers);
      gcuda_buffer_copy_3d (source, rows[i].from.offset, rows[i].from.pitch, rows[i].from.height, target, rows[i].to.offset, rows[i].to.pitch,
                            rows[i].to.height, rows[i].row_size, rows[i].rows, rows[i].layers, bed->stream, &error);
      g_assert_no_error (error);
      assert_bytes (target, to, bed->stream);
    }
}

/* How far apart layers are says nothing where there is one, whatever memory it is. */
static void
test_3d_one_layer (Bed *bed,
                   gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaPinnedMemoryResource) pinned = gcuda_pinned_memory_resource_new (bed->device, &error);
  g_autoptr (GCudaBuffer) source = allocate (bed->resource, SIZE, bed->stream);
  g_autoptr (GCudaBuffer) target = allocate (bed->resource, SIZE, bed->stream);
  g_autoptr (GCudaBuffer) on_host = allocate (pinned, SIZE, bed->stream);
  g_autofree guint8 *from = fill_places (source, 0, bed->stream);
  g_autofree guint8 *to = fill_places (target, 100, bed->stream);
  g_autofree guint8 *to_host = fill_places (on_host, 100, bed->stream);
  const Place place = { 0, 64, G_MAXUINT64 };

  copy_model (&place, from, &place, to, 50, 10, 1);
  copy_model (&place, from, &place, to_host, 50, 10, 1);
  g_assert_true (gcuda_buffer_copy_3d (source, 0, 64, G_MAXUINT64, target, 0, 64, G_MAXUINT64, 50, 10, 1, bed->stream, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_buffer_copy_3d (source, 0, 64, G_MAXUINT64, on_host, 0, 64, G_MAXUINT64, 50, 10, 1, bed->stream, &error));
  g_assert_no_error (error);
  assert_bytes (target, to, bed->stream);
  assert_bytes (on_host, to_host, bed->stream);
}

/* Within one buffer: what has a byte in common is refused, and what has not is copied. Random boxes on a common grid, compared
 * with what a plain account of the bytes says. */
static void
test_3d_overlap (Bed *bed,
                 gconstpointer data)
{
  enum
  {
    PITCH = 24,
    HEIGHT = 10,
    LAYERS = 12,
    GRID = PITCH * HEIGHT * LAYERS,
  };
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = allocate (bed->resource, GRID, bed->stream);
  guint refused = 0, done = 0;

  for (guint i = 0; i < 600; i++)
    {
      const guint64 row_size = (guint64) g_test_rand_int_range (1, PITCH + 1), rows = (guint64) g_test_rand_int_range (1, 5), layers = (guint64) g_test_rand_int_range (1, 5);
      const guint64 extent = ((layers - 1) * HEIGHT + rows - 1) * PITCH + row_size;
      Place from = { (guint64) g_test_rand_int_range (0, (gint32) (GRID - extent) + 1), PITCH, HEIGHT };
      Place to = { (guint64) g_test_rand_int_range (0, (gint32) (GRID - extent) + 1), PITCH, HEIGHT };
      g_autofree guint8 *bytes = fill_places (buffer, (guint8) i, bed->stream);
      g_autofree guint8 *marks = g_malloc0 (GRID);
      g_autofree guint8 *before = g_memdup2 (bytes, GRID);
      gboolean overlap = FALSE, success;

      for (guint64 z = 0; z < layers; z++)
        for (guint64 y = 0; y < rows; y++)
          memset (marks + from.offset + (z * HEIGHT + y) * PITCH, 1, row_size);
      for (guint64 z = 0; z < layers; z++)
        for (guint64 y = 0; y < rows; y++)
          overlap |= memchr (marks + to.offset + (z * HEIGHT + y) * PITCH, 1, row_size) != NULL;
      success = gcuda_buffer_copy_3d (buffer, from.offset, PITCH, HEIGHT, buffer, to.offset, PITCH, HEIGHT, row_size, rows, layers, bed->stream, &error);
      if (overlap)
        {
          g_assert_false (success);
          assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
          refused++;
        }
      else
        {
          g_assert_no_error (error);
          g_assert_true (success);
          copy_model (&from, before, &to, bytes, row_size, rows, layers);
          done++;
        }
      assert_bytes (buffer, bytes, bed->stream);
    }
  /* Some 70 and some 530, by chance. */
  g_assert_cmpuint (refused, >, 10);
  g_assert_cmpuint (done, >, 10);
}

#define BAD(call)        \
  g_assert_false (call); \
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT)

static void
test_3d_bad (Bed *bed,
             gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) a = allocate (bed->resource, SIZE, bed->stream);
  g_autoptr (GCudaBuffer) b = allocate (bed->resource, SIZE, bed->stream);
  g_autoptr (GCudaBuffer) closed = allocate (bed->resource, SIZE, bed->stream);

  g_assert_true (gcuda_buffer_close (closed, NULL, &error));
  BAD (gcuda_buffer_copy_3d (a, 0, 9, 4, b, 0, 16, 4, 10, 4, 4, bed->stream, &error));
  BAD (gcuda_buffer_copy_3d (a, 0, 16, 4, b, 0, 9, 4, 10, 4, 4, bed->stream, &error));
  BAD (gcuda_buffer_copy_3d (a, 0, 16, 3, b, 0, 16, 4, 10, 4, 4, bed->stream, &error));
  BAD (gcuda_buffer_copy_3d (a, 0, 16, 4, b, 0, 16, 3, 10, 4, 4, bed->stream, &error));
  BAD (gcuda_buffer_copy_3d (a, SIZE, 16, 4, b, 0, 16, 4, 10, 4, 4, bed->stream, &error));
  BAD (gcuda_buffer_copy_3d (a, 0, 16, 4, b, G_MAXUINT64, 16, 4, 10, 4, 4, bed->stream, &error));
  BAD (gcuda_buffer_copy_3d (a, 0, G_MAXUINT64 / 2, 4, b, 0, 16, 4, 10, 4, 4, bed->stream, &error));
  BAD (gcuda_buffer_copy_3d (a, 0, 16, G_MAXUINT64, b, 0, 16, 4, 10, 4, 4, bed->stream, &error));
  BAD (gcuda_buffer_copy_3d (a, 0, 16, 4, b, 0, 16, 4, 10, 4, G_MAXUINT64, bed->stream, &error));
  BAD (gcuda_buffer_copy_3d (a, 0, 16, 4, NULL, 0, 16, 4, 10, 4, 4, bed->stream, &error));
  BAD (gcuda_buffer_copy_3d (a, 0, 16, 4, b, 0, 16, 4, 10, 4, 4, NULL, &error));
  /* Different distances, and one within the extent of the other. */
  BAD (gcuda_buffer_copy_3d (a, 0, 64, 8, a, 32, 64, 9, 16, 4, 4, bed->stream, &error));
  g_assert_false (gcuda_buffer_copy_3d (closed, 0, 16, 4, b, 0, 16, 4, 10, 4, 4, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
}

/* Batches */

#define N 10

typedef struct
{
  GCudaBuffer *sources[N];
  GCudaBuffer *destinations[N];
} Pairs;

static void
make_pairs (Pairs *pairs,
            gpointer from,
            gpointer to,
            GCudaStream *stream)
{
  for (guint i = 0; i < N; i++)
    {
      pairs->sources[i] = allocate (from, i * 1000, stream);
      pairs->destinations[i] = allocate (to, i * 1000, stream);
      pattern_fill (pairs->sources[i], (guint8) (i + 1), stream);
      pattern_fill (pairs->destinations[i], 0xee, stream);
    }
}

static void
drop_pairs (Pairs *pairs)
{
  for (guint i = 0; i < N; i++)
    {
      g_object_unref (pairs->sources[i]);
      g_object_unref (pairs->destinations[i]);
    }
}

static void
test_batch (Bed *bed,
            gconstpointer data)
{
  static const GCudaSourceOrder orders[] = { GCUDA_SOURCE_ORDER_STREAM, GCUDA_SOURCE_ORDER_DURING_CALL, GCUDA_SOURCE_ORDER_ANY };
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaLocation) host = gcuda_location_new_host ();
  g_autoptr (GCudaLocation) device = gcuda_location_new_device (bed->device);
  Pairs pairs;

  make_pairs (&pairs, bed->resource, bed->resource, bed->stream);
  for (gsize i = 0; i < G_N_ELEMENTS (orders); i++)
    {
      g_autoptr (GCudaCopyAttributes) attributes = gcuda_copy_attributes_new (orders[i], host, device, TRUE);

      for (guint k = 0; k < N; k++)
        pattern_fill (pairs.sources[k], (guint8) (k + i), bed->stream);
      /* What may be read before the stream gets there has to be there. */
      g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
      gcuda_test_log_start ();
      g_assert_true (gcuda_buffer_copy_batch_with_attributes (pairs.sources, N, pairs.destinations, N, attributes, bed->stream, &error));
      g_assert_no_error (error);
      if (gcuda_test_can_fail_calls ())
        {
          g_auto (GStrv) log = gcuda_test_log_take ();

          g_assert_cmpuint (gcuda_test_log_count (log, "cuMemcpyBatchAsync", "= SUCCESS", NULL), ==, 1);
          g_assert_cmpuint (gcuda_test_log_count (log, "cuMemcpyDtoDAsync", NULL), ==, 0);
        }
      for (guint k = 0; k < N; k++)
        pattern_assert (pairs.destinations[k], (guint8) (k + i), bed->stream);
    }
  drop_pairs (&pairs);
}

static gpointer
release_soon (gpointer data)
{
  g_usleep (50000);
  blocker_release (data);
  return NULL;
}

/* The promise that the sources may change when the call is over, while the stream has not got there. */
static void
test_during_call (Bed *bed,
                  gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaPinnedMemoryResource) pinned = gcuda_pinned_memory_resource_new_unpooled (bed->device, FALSE, &error);
  g_autoptr (GCudaCopyAttributes) attributes = gcuda_copy_attributes_new (GCUDA_SOURCE_ORDER_DURING_CALL, NULL, NULL, FALSE);
  GCudaBuffer *source, *destination;
  g_autoptr (GCudaHostMap) map = NULL;
  GThread *thread;

  g_assert_no_error (error);
  source = allocate (pinned, SIZE, bed->stream);
  destination = allocate (bed->resource, SIZE, bed->stream);
  map = gcuda_buffer_map (source, GCUDA_MAP_FLAGS_WRITE, bed->stream, &error);
  g_assert_no_error (error);
  memset (gcuda_host_map_get_data (map, NULL), 0x11, SIZE);
  /* The driver may well wait for the stream: let go behind its back. */
  thread = g_thread_new ("release", release_soon, blocker_new (bed->stream));
  g_assert_true (gcuda_buffer_copy_batch_with_attributes (&source, 1, &destination, 1, attributes, bed->stream, &error));
  g_assert_no_error (error);
  memset (gcuda_host_map_get_data (map, NULL), 0x22, SIZE);
  g_thread_join (thread);
  pattern_assert (destination, 0x11, bed->stream);
  gcuda_host_map_unmap (map);
  g_object_unref (source);
  g_object_unref (destination);
}

/* Where that promise can't be kept, the call says so and does nothing; what promises less is done one by one. */
static void
test_promise (Bed *bed,
              gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaStream) legacy = gcuda_stream_new_legacy_default (bed->context, &error);
  g_autoptr (GCudaStream) captured = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  g_autoptr (GCudaGraphBuilder) builder = NULL;
  g_autoptr (GCudaCopyAttributes) during = gcuda_copy_attributes_new (GCUDA_SOURCE_ORDER_DURING_CALL, NULL, NULL, FALSE);
  g_autoptr (GCudaCopyAttributes) any = gcuda_copy_attributes_new (GCUDA_SOURCE_ORDER_ANY, NULL, NULL, FALSE);
  Pairs pairs;

  g_assert_no_error (error);
  make_pairs (&pairs, bed->resource, bed->resource, bed->stream);
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  g_assert_false (gcuda_buffer_copy_batch_with_attributes (pairs.sources, N, pairs.destinations, N, during, legacy, &error));
  g_assert_nonnull (strstr (error->message, "during the call"));
  assert_error_and_clear (error, GCUDA_ERROR_NOT_SUPPORTED);
  for (guint i = 0; i < N; i++)
    pattern_assert (pairs.destinations[i], 0xee, bed->stream);
  g_assert_true (gcuda_buffer_copy_batch_with_attributes (pairs.sources, N, pairs.destinations, N, any, legacy, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_stream_synchronize (legacy, &error));
  for (guint i = 0; i < N; i++)
    pattern_assert (pairs.destinations[i], (guint8) (i + 1), bed->stream);

  g_assert_true (gcuda_stream_wait_stream (captured, bed->stream, &error));
  builder = gcuda_graph_builder_new_for_stream (captured, GCUDA_CAPTURE_MODE_RELAXED, &error);
  g_assert_no_error (error);
  g_assert_false (gcuda_buffer_copy_batch_with_attributes (pairs.sources, N, pairs.destinations, N, during, GCUDA_STREAM (builder), &error));
  assert_error_and_clear (error, GCUDA_ERROR_NOT_SUPPORTED);
  g_assert_true (gcuda_buffer_copy_batch_with_attributes (pairs.sources, N, pairs.destinations, N, any, GCUDA_STREAM (builder), &error));
  g_assert_no_error (error);
  g_clear_object (&builder);
  drop_pairs (&pairs);
}

static void
test_batch_bad (Bed *bed,
                gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = g_bytes_new_take (g_malloc0 (5000), 5000);
  g_autoptr (GCudaBuffer) read_only = gcuda_buffer_new_for_bytes (bed->device, bytes, bed->stream, &error);
  g_autoptr (GCudaBuffer) a = allocate (bed->resource, 5000, bed->stream);
  g_autoptr (GCudaBuffer) b = allocate (bed->resource, 5000, bed->stream);
  g_autoptr (GCudaBuffer) smaller = allocate (bed->resource, 4999, bed->stream);
  g_autoptr (GCudaBuffer) view = gcuda_buffer_new_view (a, 1, 4999, &error);
  g_autoptr (GCudaLocation) nowhere = gcuda_location_new_numa_node (-1);
  const int bad_orders[] = { 0, 4, -1 };
  GCudaBuffer *from[] = { a, a }, *to[] = { b, NULL };

  g_assert_no_error (error);
  BAD (gcuda_buffer_copy_batch (from, 2, to, 1, bed->stream, &error));
  BAD (gcuda_buffer_copy_batch (from, 2, to, 2, bed->stream, &error));
  BAD (gcuda_buffer_copy_batch (from, 1, to, 1, NULL, &error));
  to[1] = smaller;
  BAD (gcuda_buffer_copy_batch (from, 2, to, 2, bed->stream, &error));
  to[1] = read_only;
  BAD (gcuda_buffer_copy_batch (from, 2, to, 2, bed->stream, &error));
  from[1] = smaller;
  to[1] = view;
  g_assert_true (gcuda_buffer_copy_batch (from, 1, to, 1, bed->stream, &error));
  from[1] = view;
  to[1] = view;
  BAD (gcuda_buffer_copy_batch (from, 2, to, 2, bed->stream, &error));
  for (gsize i = 0; i < G_N_ELEMENTS (bad_orders); i++)
    {
      g_autoptr (GCudaCopyAttributes) attributes = gcuda_copy_attributes_new ((GCudaSourceOrder) bad_orders[i], NULL, NULL, FALSE);

      BAD (gcuda_buffer_copy_batch_with_attributes (from, 1, to, 1, attributes, bed->stream, &error));
    }
  {
    g_autoptr (GCudaCopyAttributes) attributes = gcuda_copy_attributes_new (GCUDA_SOURCE_ORDER_STREAM, nowhere, NULL, FALSE);

    BAD (gcuda_buffer_copy_batch_with_attributes (from, 1, to, 1, attributes, bed->stream, &error));
  }
  g_assert_true (gcuda_buffer_copy_batch (NULL, 0, NULL, 0, bed->stream, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
}

/* Two devices */

static void
test_batch_between_devices (Bed *bed,
                            gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GListModel) devices = gcuda_get_devices (&error);
  g_autoptr (GCudaDevice) far = g_list_model_get_item (devices, 1);
  g_autoptr (GCudaStream) far_stream = NULL;
  g_autoptr (GCudaDeviceMemoryResource) far_pool = NULL;
  g_autoptr (GCudaPinnedMemoryResource) pinned = NULL;
  g_autoptr (GCudaBuffer) there = NULL;
  g_autoptr (GCudaBuffer) on_host = NULL;
  g_autofree guint8 *bytes = NULL;
  Pairs pairs;

  if (far == NULL)
    {
      g_test_skip ("needs two devices");
      return;
    }
  far_stream = gcuda_stream_new_for_device (far, &error);
  far_pool = gcuda_device_memory_resource_new_pool (far, 0, GCUDA_HANDLE_TYPES_NONE, &error);
  g_assert_no_error (error);
  make_pairs (&pairs, bed->resource, bed->resource, bed->stream);
  for (guint i = 0; i < N; i++)
    {
      g_object_unref (pairs.destinations[i]);
      pairs.destinations[i] = allocate (far_pool, i * 1000, far_stream);
    }
  g_assert_true (gcuda_stream_wait_stream (bed->stream, far_stream, &error));
  g_assert_true (gcuda_buffer_copy_batch (pairs.sources, N, pairs.destinations, N, bed->stream, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_stream_wait_stream (far_stream, bed->stream, &error));
  for (guint i = 0; i < N; i++)
    pattern_assert (pairs.destinations[i], (guint8) (i + 1), far_stream);

  /* Host data of another device's memory on this device's stream, with no context current. */
  there = allocate (far_pool, SIZE, far_stream);
  g_assert_true (gcuda_stream_wait_stream (bed->stream, far_stream, &error));
  bytes = fill_places (there, 3, bed->stream);
  assert_bytes (there, bytes, bed->stream);
  pinned = gcuda_pinned_memory_resource_new_unpooled (bed->device, FALSE, &error);
  g_assert_no_error (error);
  on_host = allocate (pinned, SIZE, bed->stream);
  g_assert_true (gcuda_buffer_copy_3d (there, 0, 100, 10, on_host, 0, 100, 10, 100, 10, 65, bed->stream, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_buffer_copy_range (there, 65000, on_host, 65000, SIZE - 65000, bed->stream, &error));
  g_assert_no_error (error);
  assert_bytes (on_host, bytes, bed->stream);
  assert_bytes (on_host, bytes, bed->stream);
  g_assert_true (gcuda_stream_wait_stream (far_stream, bed->stream, &error));
  g_clear_object (&on_host);
  g_clear_object (&there);
  drop_pairs (&pairs);
  g_assert_true (gcuda_stream_synchronize (far_stream, &error));
  g_assert_true (gcuda_reclaim (NULL, &error));
  g_clear_object (&pinned);
  g_clear_object (&far_pool);
  g_clear_object (&far_stream);
  g_assert_true (gcuda_reclaim (NULL, &error));
  /* What the bed did not have */
  {
    g_autoptr (GCudaContext) far_context = gcuda_device_get_primary_context (far, &error);

    g_assert_true (gcuda_context_close (far_context, &error));
    g_assert_no_error (error);
  }
}

int
main (int argc,
      char **argv)
{
  gcuda_test_init (&argc, &argv);
  bed_add ("/buffer-copy/3d", test_3d);
  bed_add ("/buffer-copy/3d-one-layer", test_3d_one_layer);
  bed_add ("/buffer-copy/3d-overlap", test_3d_overlap);
  bed_add ("/buffer-copy/3d-bad", test_3d_bad);
  bed_add ("/buffer-copy/batch", test_batch);
  bed_add ("/buffer-copy/during-call", test_during_call);
  bed_add ("/buffer-copy/promise", test_promise);
  bed_add ("/buffer-copy/batch-bad", test_batch_bad);
  bed_add ("/buffer-copy/batch-between-devices", test_batch_between_devices);
  return g_test_run ();
}
