/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Every kind of memory under every operation: the same work gives the same result, whatever the memory is.
 */
#include "gcuda-test.h"

#include <string.h>

#define SIZE (64 * 1024)

typedef struct
{
  const char *name;
  gpointer (*make) (Bed *bed,
                    GError **error); /* NULL: registered memory, which has no resource */
  gboolean host;
} Kind;

static gpointer
make_pool (Bed *bed,
           GError **error)
{
  return g_object_ref (bed->pool);
}

static gpointer
make_synchronous (Bed *bed,
                  GError **error)
{
  return gcuda_synchronous_memory_resource_new (bed->context, error);
}

static gpointer
make_virtual (Bed *bed,
              GError **error)
{
  return gcuda_virtual_memory_resource_new (bed->device, NULL, error);
}

static gpointer
make_virtual_host (Bed *bed,
                   GError **error)
{
  g_autoptr (GCudaVirtualMemoryOptions) options = gcuda_virtual_memory_options_new ();

  gcuda_virtual_memory_options_set_location (options, GCUDA_MEMORY_LOCATION_HOST_NUMA, 0);
  return gcuda_virtual_memory_resource_new (bed->device, options, error);
}

static gpointer
make_pinned (Bed *bed,
             GError **error)
{
  return gcuda_pinned_memory_resource_new (bed->device, error);
}

static gpointer
make_pinned_node (Bed *bed,
                  GError **error)
{
  return gcuda_pinned_memory_resource_new_for_numa_node (bed->device, 0, error);
}

static gpointer
make_pinned_unpooled (Bed *bed,
                      GError **error)
{
  return gcuda_pinned_memory_resource_new_unpooled (bed->device, FALSE, error);
}

static gpointer
make_managed (Bed *bed,
              GError **error)
{
  return gcuda_managed_memory_resource_new (bed->device, NULL, error);
}

static gpointer
make_managed_unpooled (Bed *bed,
                       GError **error)
{
  return gcuda_managed_memory_resource_new_unpooled (bed->device, NULL, error);
}

static const Kind kinds[] = {
  { "pool", make_pool, FALSE },
  { "synchronous", make_synchronous, FALSE },
  { "virtual", make_virtual, FALSE },
  { "virtual-host", make_virtual_host, TRUE },
  { "pinned", make_pinned, TRUE },
  { "pinned-node", make_pinned_node, TRUE },
  { "pinned-unpooled", make_pinned_unpooled, TRUE },
  { "managed", make_managed, TRUE },
  { "managed-unpooled", make_managed_unpooled, TRUE },
  { "registered", NULL, TRUE },
};

/* Two of them for a copy. */
typedef struct
{
  const Kind *from;
  const Kind *to;
} Pair;

/* Host memory that is registered, kept by an object; the test's main context drops it. */
static GCudaBuffer *
make_registered (Bed *bed,
                 gsize size,
                 GCudaStream *stream,
                 GError **error)
{
  g_autoptr (GObject) owner = g_object_new (G_TYPE_OBJECT, NULL);
  gpointer data = size > 0 ? g_malloc (size) : NULL;

  if (size > 0)
    g_object_set_data_full (owner, "memory", data, g_free);
  return gcuda_buffer_new_for_host_address (bed->device, (guint64) (guintptr) data, size, owner, stream, error);
}

static GCudaBuffer *
make (Bed *bed,
      const Kind *kind,
      gsize size)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaMemoryResource) resource = NULL;
  GCudaBuffer *buffer;

  if (kind->make == NULL)
    {
      buffer = make_registered (bed, size, bed->stream, &error);
    }
  else
    {
      resource = kind->make (bed, &error);
      g_assert_no_error (error);
      buffer = gcuda_memory_resource_allocate (resource, size, bed->stream, &error);
    }
  g_assert_no_error (error);
  g_assert_cmpuint (gcuda_buffer_get_size (buffer), ==, size);
  return buffer;
}

/* What waits to be freed is; and the main context has dropped what kept registered memory. */
static void
finish (Bed *bed)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_no_error (error);
  while (g_main_context_iteration (NULL, FALSE))
    ;
}

static void
test_empty (Bed *bed,
            gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = make (bed, data, 0);
  g_autoptr (GBytes) bytes = NULL;

  g_assert_cmpuint (gcuda_buffer_get_address (buffer), ==, 0);
  pattern_fill (buffer, 1, bed->stream);
  bytes = gcuda_buffer_download (buffer, 0, 0, bed->stream, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (g_bytes_get_size (bytes), ==, 0);
  g_assert_true (gcuda_buffer_close (buffer, NULL, &error));
  finish (bed);
}

static void
test_fill (Bed *bed,
           gconstpointer data)
{
  static const guint widths[] = { 1, 2, 4 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = make (bed, data, SIZE);

  for (gsize i = 0; i < G_N_ELEMENTS (widths); i++)
    {
      const guint64 value = G_GUINT64_CONSTANT (0xa1b2c3d4) >> (32 - 8 * widths[i]);
      g_autoptr (GBytes) bytes = NULL;
      const guint8 *read;

      g_assert_true (gcuda_buffer_fill (buffer, value, widths[i], bed->stream, &error));
      g_assert_no_error (error);
      bytes = gcuda_buffer_download (buffer, 0, SIZE, bed->stream, &error);
      g_assert_no_error (error);
      read = g_bytes_get_data (bytes, NULL);
      for (gsize at = 0; at < SIZE; at++)
        g_assert_cmpuint (read[at], ==, ((const guint8 *) &value)[at % widths[i]]);
    }
  finish (bed);
}

static void
test_fill_2d (Bed *bed,
              gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = make (bed, data, SIZE);
  g_autoptr (GBytes) bytes = NULL;
  const guint8 *read;

  pattern_fill (buffer, 0x11, bed->stream);
  g_assert_true (gcuda_buffer_fill_2d (buffer, 512, 1024, 100, 60, 0x2222, 2, bed->stream, &error));
  g_assert_no_error (error);
  bytes = gcuda_buffer_download (buffer, 0, SIZE, bed->stream, &error);
  g_assert_no_error (error);
  read = g_bytes_get_data (bytes, NULL);
  for (gsize at = 0; at < SIZE; at++)
    {
      const gboolean inside = at >= 512 && (at - 512) / 1024 < 60 && (at - 512) % 1024 < 200;

      g_assert_cmpuint (read[at], ==, inside ? 0x22 : 0x11);
    }
  finish (bed);
}

static void
test_host_copies (Bed *bed,
                  gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = make (bed, data, SIZE);
  g_autofree guint8 *source = g_malloc (SIZE);
  g_autofree guint8 *result = g_malloc0 (SIZE);
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (GBytes) again = NULL;

  for (gsize i = 0; i < SIZE; i++)
    source[i] = (guint8) (i * 7 + i / 256);
  bytes = g_bytes_new (source, SIZE);
  g_assert_true (gcuda_buffer_upload (buffer, 0, bytes, bed->stream, &error));
  g_assert_no_error (error);
  again = gcuda_buffer_download (buffer, 0, SIZE, bed->stream, &error);
  g_assert_no_error (error);
  g_assert_true (g_bytes_equal (bytes, again));
  g_assert_true (gcuda_buffer_upload_data (buffer, 5, source, 1000, bed->stream, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_buffer_download_into (buffer, 5, result, 1000, bed->stream, &error));
  g_assert_no_error (error);
  g_assert_cmpmem (result, 1000, source, 1000);
  finish (bed);
}

static void
test_view (Bed *bed,
           gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = make (bed, data, SIZE);
  g_autoptr (GCudaBuffer) view = gcuda_buffer_new_view (buffer, 4096, 100, &error);
  const guint64 address = gcuda_buffer_get_address (buffer);

  g_assert_no_error (error);
  g_assert_cmpuint (gcuda_buffer_get_address (view), ==, address + 4096);
  pattern_fill (buffer, 3, bed->stream);
  pattern_fill (view, 4, bed->stream);
  /* The view keeps the memory. */
  g_assert_true (gcuda_buffer_close (buffer, NULL, &error));
  g_assert_cmpuint (gcuda_buffer_get_address (buffer), ==, 0);
  pattern_assert (view, 4, bed->stream);
  finish (bed);
}

/* Freed on another stream than it was used on, with work that is pending still. */
static void
test_deallocation_stream (Bed *bed,
                          gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaStream) other = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  g_autoptr (GCudaBuffer) buffer = make (bed, data, SIZE);
  Blocker *blocker;

  g_assert_no_error (error);
  blocker = blocker_new (bed->stream);
  pattern_fill (buffer, 9, bed->stream);
  g_assert_true (gcuda_stream_wait_stream (other, bed->stream, &error));
  g_assert_no_error (error);
  pattern_fill (buffer, 10, other);
  g_assert_true (gcuda_buffer_set_deallocation_stream (buffer, other, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_buffer_close (buffer, NULL, &error));
  g_assert_true (gcuda_buffer_is_closed (buffer));
  blocker_release (blocker);
  g_assert_true (gcuda_stream_synchronize (other, &error));
  finish (bed);
}

/* What can't be done while the stream is being captured leaves the capture whole. */
static void
test_capture (Bed *bed,
              gconstpointer data)
{
  const Kind *kind = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaStream) stream = NULL;
  g_autoptr (GCudaMemoryResource) resource = kind->make != NULL ? kind->make (bed, &error) : NULL;
  g_autoptr (GCudaBuffer) used = make (bed, kind, SIZE);
  GCudaBuffer *refused;
  CUcontext popped;
  CUgraph graph = NULL;
  CUstream raw;
  guint8 byte;

  g_assert_no_error (error);
  assert_cuda (RAW (cuCtxPushCurrent) (gcuda_context_get_cuda_context (bed->context)));
  assert_cuda (RAW (cuStreamCreate) (&raw, CU_STREAM_NON_BLOCKING));
  stream = gcuda_stream_new_for_handle (bed->context, (guint64) (guintptr) raw, NULL, &error);
  g_assert_no_error (error);
  g_assert_true (gcuda_stream_wait_stream (stream, bed->stream, &error));
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  assert_cuda (RAW (cuStreamBeginCapture) (raw, CU_STREAM_CAPTURE_MODE_RELAXED));
  if (kind->make != NULL)
    refused = gcuda_memory_resource_allocate (resource, SIZE, stream, &error);
  else
    refused = make_registered (bed, SIZE, stream, &error);
  g_assert_null (refused);
  assert_error_and_clear (error, GCUDA_ERROR_CAPTURING);
  g_assert_false (gcuda_buffer_download_into (used, 0, &byte, 1, stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CAPTURING);
  if (kind->host)
    {
      g_assert_null (gcuda_buffer_map (used, GCUDA_MAP_FLAGS_READ, stream, &error));
      assert_error_and_clear (error, GCUDA_ERROR_CAPTURING);
    }
  assert_cuda (RAW (cuStreamEndCapture) (raw, &graph));
  g_assert_nonnull (graph);
  assert_cuda (RAW (cuGraphDestroy) (graph));
  g_assert_true (gcuda_stream_close (stream, &error));
  g_clear_object (&used);
  finish (bed);
  g_clear_object (&stream);
  assert_cuda (RAW (cuStreamDestroy) (raw));
  assert_cuda (RAW (cuCtxPopCurrent) (&popped));
}

/* What the library says of the memory is what the driver says. */
static void
test_accessible (Bed *bed,
                 gconstpointer data)
{
  const Kind *kind = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = make (bed, kind, SIZE);
  g_autoptr (GCudaMemoryResource) resource = gcuda_buffer_get_resource (buffer);
  CUdeviceptr address = gcuda_buffer_get_cuda_pointer (buffer), answer = 0;
  CUcontext popped;
  int ordinal = -1;

  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  g_assert_true (gcuda_buffer_get_device (buffer) == bed->device);
  g_assert_cmpint (gcuda_buffer_is_host_accessible (buffer), ==, kind->host);
  g_assert_true (gcuda_buffer_is_device_accessible (buffer));
  g_assert_cmpint (resource != NULL, ==, kind->make != NULL);
  if (resource != NULL)
    {
      g_assert_cmpint (gcuda_memory_resource_is_host_accessible (resource), ==, kind->host);
      g_assert_true (gcuda_memory_resource_is_device_accessible (resource));
    }
  assert_cuda (RAW (cuCtxPushCurrent) (gcuda_context_get_cuda_context (bed->context)));
  assert_cuda (RAW (cuPointerGetAttribute) (&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address));
  g_assert_cmpint (ordinal, ==, gcuda_device_get_ordinal (bed->device));
  assert_cuda (RAW (cuPointerGetAttribute) (&answer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, address));
  g_assert_cmpuint (answer, ==, address);
  /* Of virtual memory the driver does not tell where the host finds it. */
  if (!g_str_has_prefix (kind->name, "virtual"))
    g_assert_cmpint (RAW (cuPointerGetAttribute) (&answer, CU_POINTER_ATTRIBUTE_HOST_POINTER, address) == CUDA_SUCCESS, ==, kind->host);
  assert_cuda (RAW (cuCtxPopCurrent) (&popped));
  finish (bed);
}

static void
test_map (Bed *bed,
          gconstpointer data)
{
  const Kind *kind = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = make (bed, kind, SIZE);
  g_autoptr (GCudaHostMap) map = NULL;
  guint8 *memory;
  gsize size;

  pattern_fill (buffer, 0x5a, bed->stream);
  map = gcuda_buffer_map (buffer, GCUDA_MAP_FLAGS_READ | GCUDA_MAP_FLAGS_WRITE, bed->stream, &error);
  if (!kind->host)
    {
      g_assert_null (map);
      g_assert_true (strstr (error->message, "gcuda_buffer_download") != NULL);
      assert_error_and_clear (error, GCUDA_ERROR_NOT_SUPPORTED);
      return;
    }
  g_assert_no_error (error);
  memory = gcuda_host_map_get_data (map, &size);
  g_assert_cmpuint (size, ==, SIZE);
  for (gsize i = 0; i < SIZE; i++)
    {
      g_assert_cmpuint (memory[i], ==, 0x5a);
      memory[i] = 0xa5;
    }
  gcuda_host_map_unmap (map);
  pattern_assert (buffer, 0xa5, bed->stream);
  finish (bed);
}

/* With virtual memory mapped, compute-sanitizer crashes where a pool of the host's is destroyed. */
static void
drop_virtual (const Pair *pair,
              GCudaBuffer **from,
              GCudaBuffer **to)
{
  if (g_str_has_prefix (pair->from->name, "virtual"))
    g_clear_object (from);
  if (g_str_has_prefix (pair->to->name, "virtual"))
    g_clear_object (to);
}

static void
test_copy (Bed *bed,
           gconstpointer data)
{
  const Pair *pair = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) from = make (bed, pair->from, SIZE);
  g_autoptr (GCudaBuffer) to = make (bed, pair->to, SIZE);

  pattern_fill (from, 0x31, bed->stream);
  pattern_fill (to, 0x32, bed->stream);
  g_assert_true (gcuda_buffer_copy_to (from, to, bed->stream, &error));
  g_assert_no_error (error);
  pattern_assert (to, 0x31, bed->stream);
  /* Part of it, at odd places, and behind work that is pending. */
  pattern_fill (to, 0x33, bed->stream);
  g_assert_true (gcuda_buffer_copy_range (from, 3, to, 77, 1001, bed->stream, &error));
  g_assert_no_error (error);
  {
    g_autoptr (GBytes) bytes = gcuda_buffer_download (to, 0, SIZE, bed->stream, &error);
    const guint8 *read = g_bytes_get_data (bytes, NULL);

    for (gsize i = 0; i < SIZE; i++)
      g_assert_cmpuint (read[i], ==, i >= 77 && i < 77 + 1001 ? 0x31 : 0x33);
  }
  drop_virtual (pair, &from, &to);
  finish (bed);
}

static void
test_copy_2d (Bed *bed,
              gconstpointer data)
{
  const Pair *pair = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) from = make (bed, pair->from, SIZE);
  g_autoptr (GCudaBuffer) to = make (bed, pair->to, SIZE);
  g_autoptr (GBytes) bytes = NULL;
  const guint8 *read;

  pattern_fill (from, 0x41, bed->stream);
  pattern_fill (to, 0x42, bed->stream);
  g_assert_true (gcuda_buffer_copy_2d (from, 10, 500, to, 20, 1000, 300, 50, bed->stream, &error));
  g_assert_no_error (error);
  bytes = gcuda_buffer_download (to, 0, SIZE, bed->stream, &error);
  g_assert_no_error (error);
  read = g_bytes_get_data (bytes, NULL);
  for (gsize at = 0; at < SIZE; at++)
    {
      const gboolean inside = at >= 20 && (at - 20) / 1000 < 50 && (at - 20) % 1000 < 300;

      g_assert_cmpuint (read[at], ==, inside ? 0x41 : 0x42);
    }
  drop_virtual (pair, &from, &to);
  finish (bed);
}

/* To another device and back, on a stream of either. */
static void
test_another_device (Bed *bed,
                     gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GListModel) devices = gcuda_get_devices (&error);
  g_autoptr (GCudaDevice) far = NULL;
  g_autoptr (GCudaContext) far_context = NULL;
  g_autoptr (GCudaStream) far_stream = NULL;
  g_autoptr (GCudaDeviceMemoryResource) pool = NULL;
  GCudaStream *streams[2];
  const char *name = ((const Kind *) data)->name;

  g_assert_no_error (error);
  if (g_list_model_get_n_items (devices) < 2)
    {
      g_test_skip ("needs two devices");
      return;
    }
  far = g_list_model_get_item (devices, 1);
  far_stream = gcuda_stream_new_for_device (far, &error);
  g_assert_no_error (error);
  pool = gcuda_device_memory_resource_new_pool (far, 0, GCUDA_HANDLE_TYPES_NONE, &error);
  g_assert_no_error (error);
  streams[0] = bed->stream;
  streams[1] = far_stream;
  for (gsize i = 0; i < G_N_ELEMENTS (streams); i++)
    {
      g_autoptr (GCudaBuffer) near = make (bed, data, SIZE);
      g_autoptr (GCudaBuffer) there = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (pool), SIZE, far_stream, &error);

      g_assert_no_error (error);
      pattern_fill (near, 0x51, bed->stream);
      pattern_fill (there, 0x52, far_stream);
      /* Drivers would copy these at the call, before the fill. */
      if (g_str_equal (name, "virtual-host") || g_str_equal (name, "pinned") || g_str_equal (name, "pinned-node"))
        {
          g_assert_false (gcuda_buffer_copy_to (near, there, streams[i], &error));
          g_assert_nonnull (strstr (error->message, "new_unpooled"));
          assert_error_and_clear (error, GCUDA_ERROR_NOT_SUPPORTED);
          g_assert_false (gcuda_buffer_copy_2d (there, 0, 256, near, 0, 256, 100, 4, streams[i], &error));
          assert_error_and_clear (error, GCUDA_ERROR_NOT_SUPPORTED);
          g_assert_null (gcuda_buffer_download (near, 0, 4, far_stream, &error));
          assert_error_and_clear (error, GCUDA_ERROR_NOT_SUPPORTED);
          g_assert_false (gcuda_buffer_upload_data (near, 0, (const guint8 *) "abcd", 4, far_stream, &error));
          assert_error_and_clear (error, GCUDA_ERROR_NOT_SUPPORTED);
          pattern_assert (near, 0x51, bed->stream);
          continue;
        }
      g_assert_true (gcuda_stream_wait_stream (bed->stream, far_stream, &error));
      g_assert_true (gcuda_stream_wait_stream (far_stream, bed->stream, &error));
      g_assert_true (gcuda_buffer_copy_range (near, 0, there, 0, SIZE / 2, streams[i], &error));
      g_assert_no_error (error);
      g_assert_true (gcuda_buffer_copy_range (there, SIZE / 2, near, SIZE / 2, SIZE / 2, streams[i], &error));
      g_assert_no_error (error);
      g_assert_true (gcuda_buffer_copy_2d (near, 0, 512, there, SIZE / 2, 256, 200, 10, streams[i], &error));
      g_assert_no_error (error);
      g_assert_true (gcuda_stream_wait_stream (streams[1 - i], streams[i], &error));
      {
        g_autoptr (GBytes) bytes = gcuda_buffer_download (near, 0, SIZE, bed->stream, &error);
        g_autoptr (GBytes) far_bytes = NULL;
        const guint8 *read;

        g_assert_no_error (error);
        read = g_bytes_get_data (bytes, NULL);
        for (gsize at = 0; at < SIZE; at++)
          g_assert_cmpuint (read[at], ==, at < SIZE / 2 ? 0x51 : 0x52);
        far_bytes = gcuda_buffer_download (there, 0, SIZE, far_stream, &error);
        g_assert_no_error (error);
        read = g_bytes_get_data (far_bytes, NULL);
        for (gsize at = 0; at < SIZE; at++)
          {
            const gboolean inside = at < SIZE / 2 || ((at - SIZE / 2) / 256 < 10 && (at - SIZE / 2) % 256 < 200);

            g_assert_cmpuint (read[at], ==, inside ? 0x51 : 0x52);
          }
      }
    }
  g_assert_true (gcuda_stream_synchronize (far_stream, &error));
  finish (bed);
  /* What the bed did not have. */
  far_context = gcuda_device_get_primary_context (far, &error);
  g_clear_object (&far_stream);
  g_clear_object (&pool);
  finish (bed);
  g_assert_true (gcuda_context_close (far_context, &error));
  g_assert_no_error (error);
}

int
main (int argc,
      char **argv)
{
  static Pair pairs[G_N_ELEMENTS (kinds)][G_N_ELEMENTS (kinds)];
  static const struct
  {
    const char *name;
    void (*function) (Bed *bed,
                      gconstpointer data);
  } operations[] = {
    { "empty", test_empty },
    { "fill", test_fill },
    { "fill-2d", test_fill_2d },
    { "host-copies", test_host_copies },
    { "view", test_view },
    { "deallocation-stream", test_deallocation_stream },
    { "capture", test_capture },
    { "accessible", test_accessible },
    { "map", test_map },
    { "another-device", test_another_device },
  };

  gcuda_test_init (&argc, &argv);
  for (gsize i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      for (gsize j = 0; j < G_N_ELEMENTS (operations); j++)
        {
          g_autofree char *path = g_strdup_printf ("/kinds/%s/%s", kinds[i].name, operations[j].name);

          bed_add_data (path, &kinds[i], operations[j].function);
        }
      for (gsize j = 0; j < G_N_ELEMENTS (kinds); j++)
        {
          g_autofree char *path = g_strdup_printf ("/kinds/%s/copy/%s", kinds[i].name, kinds[j].name);
          g_autofree char *path_2d = g_strdup_printf ("/kinds/%s/copy-2d/%s", kinds[i].name, kinds[j].name);

          pairs[i][j] = (Pair){ &kinds[i], &kinds[j] };
          bed_add_data (path, &pairs[i][j], test_copy);
          bed_add_data (path_2d, &pairs[i][j], test_copy_2d);
        }
    }
  return g_test_run ();
}
