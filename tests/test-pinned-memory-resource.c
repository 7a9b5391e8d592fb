/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Page-locked memory, of a pool and piece by piece: what it says of itself, how it is freed, and what a driver or device
 * without it answers.
 */
#include "gcuda-test.h"

#include <string.h>

#include "gcudamem/simulator/gcudasim.h"

#define SIZE (64 * 1024)

#define HOST_NUMA_POOLS_SUPPORTED ((CUdevice_attribute) 142)
#define HOST_POOLS_SUPPORTED      ((CUdevice_attribute) 144)

#define SIMULATOR(name) ((__typeof__ (&name)) gcuda_test_simulator_function (#name))

static gboolean
has_host_pools (Bed *bed)
{
  return gcuda_device_get_attribute (bed->device, HOST_POOLS_SUPPORTED, NULL) != 0;
}

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

static void
reclaim (void)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_no_error (error);
}

static void
test_properties (Bed *bed,
                 gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaPinnedMemoryResource) resource = gcuda_pinned_memory_resource_new (bed->device, &error);
  g_autoptr (GCudaPinnedMemoryResource) pieces = NULL;
  g_autoptr (GCudaDevice) device = NULL;
  gboolean pooled, write_combined, device_accessible, host_accessible;
  guint64 handle;
  int node;

  g_assert_no_error (error);
  g_object_get (resource, "pooled", &pooled, "write-combined", &write_combined, "numa-node", &node, "handle", &handle, "device", &device,
                "device-accessible", &device_accessible, "host-accessible", &host_accessible, NULL);
  g_assert_cmpint (pooled, ==, has_host_pools (bed));
  g_assert_cmpint (pooled, ==, gcuda_pinned_memory_resource_is_pooled (resource));
  g_assert_cmpint (handle != 0, ==, pooled);
  g_assert_cmpint (gcuda_pinned_memory_resource_get_cuda_pool (resource) != NULL, ==, pooled);
  g_assert_false (write_combined);
  g_assert_cmpint (node, ==, -1);
  g_assert_true (device == bed->device);
  g_assert_true (device_accessible);
  g_assert_true (host_accessible);

  pieces = gcuda_pinned_memory_resource_new_unpooled (bed->device, TRUE, &error);
  g_assert_no_error (error);
  g_assert_false (gcuda_pinned_memory_resource_is_pooled (pieces));
  g_assert_true (gcuda_pinned_memory_resource_is_write_combined (pieces));
  g_assert_cmpuint (gcuda_pinned_memory_resource_get_handle (pieces), ==, 0);
}

/* Freed in stream order by the driver: no call waits, and none is left to the reclaimer. */
static void
test_pool_frees_in_order (Bed *bed,
                          gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaPinnedMemoryResource) resource = gcuda_pinned_memory_resource_new (bed->device, &error);
  g_autoptr (GCudaBuffer) buffer = allocate (resource, SIZE, bed->stream);
  Blocker *blocker = blocker_new (bed->stream);
  const guint64 address = gcuda_buffer_get_address (buffer);

  pattern_fill (buffer, 1, bed->stream);
  gcuda_test_log_start ();
  g_assert_true (gcuda_buffer_close (buffer, NULL, &error));
  g_assert_no_error (error);
  if (gcuda_test_is_simulated ())
    {
      g_autofree char *text = g_strdup_printf ("dptr=0x%" G_GINT64_MODIFIER "x", address);
      g_auto (GStrv) log = gcuda_test_log_take ();

      g_assert_cmpuint (gcuda_test_log_count (log, "cuMemFreeAsync", text, "= SUCCESS", NULL), ==, 1);
      g_assert_cmpuint (gcuda_test_log_count (log, "cuStreamSynchronize", NULL), ==, 0);
    }
  blocker_release (blocker);
  g_clear_object (&resource);
  reclaim ();
}

/* Freed by the reclaimer, when the stream has passed and not before. */
static void
test_pieces_wait (Bed *bed,
                  gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaPinnedMemoryResource) resource = gcuda_pinned_memory_resource_new_unpooled (bed->device, FALSE, &error);
  g_autoptr (GCudaBuffer) buffer = allocate (resource, SIZE, bed->stream);
  Blocker *blocker = blocker_new (bed->stream);
  g_auto (GStrv) log = NULL;

  pattern_fill (buffer, 1, bed->stream);
  gcuda_test_log_start ();
  g_assert_true (gcuda_buffer_close (buffer, NULL, &error));
  g_usleep (20000);
  if (gcuda_test_is_simulated ())
    {
      log = gcuda_test_log_take ();
      g_assert_cmpuint (gcuda_test_log_count (log, "cuMemFreeHost", NULL), ==, 0);
      g_clear_pointer (&log, g_strfreev);
      gcuda_test_log_start ();
    }
  blocker_release (blocker);
  reclaim ();
  if (gcuda_test_is_simulated ())
    {
      log = gcuda_test_log_take ();
      g_assert_cmpuint (gcuda_test_log_count (log, "cuMemFreeHost", "= SUCCESS", NULL), ==, 1);
    }
}

static void
test_statistics (Bed *bed,
                 gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaPinnedMemoryResource) resource = gcuda_pinned_memory_resource_new (bed->device, &error);
  g_autoptr (GCudaPinnedMemoryResource) pieces = gcuda_pinned_memory_resource_new_unpooled (bed->device, FALSE, &error);
  g_autoptr (GCudaPoolStatistics) statistics = NULL;
  g_autoptr (GCudaBuffer) buffer = NULL;

  /* Without a pool there are no figures. */
  g_assert_null (gcuda_pinned_memory_resource_get_statistics (pieces, &error));
  assert_error_and_clear (error, GCUDA_ERROR_NOT_SUPPORTED);
  g_assert_false (gcuda_pinned_memory_resource_trim (pieces, 0, &error));
  assert_error_and_clear (error, GCUDA_ERROR_NOT_SUPPORTED);
  g_assert_false (gcuda_pinned_memory_resource_reset_high_marks (pieces, &error));
  assert_error_and_clear (error, GCUDA_ERROR_NOT_SUPPORTED);
  g_assert_false (gcuda_pinned_memory_resource_set_release_threshold (pieces, 1, &error));
  assert_error_and_clear (error, GCUDA_ERROR_NOT_SUPPORTED);
  if (!gcuda_pinned_memory_resource_is_pooled (resource))
    return;

  g_assert_true (gcuda_pinned_memory_resource_set_release_threshold (resource, G_MAXUINT64, &error));
  g_assert_no_error (error);
  buffer = allocate (resource, SIZE, bed->stream);
  statistics = gcuda_pinned_memory_resource_get_statistics (resource, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (gcuda_pool_statistics_get_used (statistics), ==, SIZE);
  g_assert_cmpuint (gcuda_pool_statistics_get_reserved (statistics), >=, SIZE);
  g_clear_object (&buffer);
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  reclaim ();
  g_clear_pointer (&statistics, gcuda_pool_statistics_unref);
  statistics = gcuda_pinned_memory_resource_get_statistics (resource, &error);
  g_assert_cmpuint (gcuda_pool_statistics_get_used (statistics), ==, 0);
  g_assert_cmpuint (gcuda_pool_statistics_get_used_high (statistics), ==, SIZE);
  /* Kept, until it is asked for. */
  g_assert_cmpuint (gcuda_pool_statistics_get_reserved (statistics), >=, SIZE);
  g_assert_true (gcuda_pinned_memory_resource_trim (resource, 0, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_pinned_memory_resource_reset_high_marks (resource, &error));
  g_assert_no_error (error);
  g_clear_pointer (&statistics, gcuda_pool_statistics_unref);
  statistics = gcuda_pinned_memory_resource_get_statistics (resource, &error);
  g_assert_cmpuint (gcuda_pool_statistics_get_reserved (statistics), ==, 0);
  g_assert_cmpuint (gcuda_pool_statistics_get_used_high (statistics), ==, 0);
}

static void
test_numa_nodes (Bed *bed,
                 gconstpointer data)
{
  static const int nowhere[] = { -1, G_MININT, 4711, G_MAXINT };
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaPinnedMemoryResource) resource = NULL;
  const guint64 calls = gcuda_test_is_simulated () ? gcuda_test_count_calls ("cuMemPoolCreate") : 0;

  for (gsize i = 0; i < G_N_ELEMENTS (nowhere); i++)
    {
      g_assert_null (gcuda_pinned_memory_resource_new_for_numa_node (bed->device, nowhere[i], &error));
      assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
    }
  if (gcuda_test_is_simulated ())
    g_assert_cmpuint (gcuda_test_count_calls ("cuMemPoolCreate"), ==, calls);

  resource = gcuda_pinned_memory_resource_new_for_numa_node (bed->device, 0, &error);
  if (g_error_matches (error, GCUDA_ERROR, GCUDA_ERROR_NOT_SUPPORTED))
    return;
  g_assert_no_error (error);
  g_assert_cmpint (gcuda_pinned_memory_resource_get_numa_node (resource), ==, 0);
  g_assert_true (gcuda_pinned_memory_resource_is_pooled (resource));
}

/* Nobody gets a buffer that can't be used, whatever the driver has or says that it has. */
static void
test_without_pools (Bed *bed,
                    gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  void (*set) (int, int, int) = gcuda_test_simulator_function ("gcudasim_set_attribute");
  void (*set_error) (int, int, int) = gcuda_test_simulator_function ("gcudasim_set_attribute_error");

  if (!gcuda_test_is_simulated ())
    {
      g_test_skip ("needs a device that lacks something");
      return;
    }
  for (guint i = 0; i < 4; i++)
    {
      g_autoptr (GCudaPinnedMemoryResource) resource = NULL;
      g_autoptr (GCudaPinnedMemoryResource) on_node = NULL;
      g_autoptr (GCudaBuffer) buffer = NULL;
      gboolean pooled = FALSE;

      switch (i)
        {
        case 0: /* there are none */
          set (0, HOST_POOLS_SUPPORTED, 0);
          set (0, HOST_NUMA_POOLS_SUPPORTED, 0);
          break;
        case 1: /* the driver does not know the question, and has them */
          set_error (0, HOST_POOLS_SUPPORTED, CUDA_ERROR_INVALID_VALUE);
          set_error (0, HOST_NUMA_POOLS_SUPPORTED, CUDA_ERROR_INVALID_VALUE);
          pooled = TRUE;
          break;
        case 2: /* it does not, and has none */
          set_error (0, HOST_POOLS_SUPPORTED, CUDA_ERROR_INVALID_VALUE);
          gcuda_test_fail_calls ("cuMemPoolCreate:1=INVALID_VALUE");
          break;
        default: /* a pool that the device gets no access to */
          gcuda_test_fail_calls ("cuMemPoolSetAccess:1=NOT_SUPPORTED");
          break;
        }
      resource = gcuda_pinned_memory_resource_new (bed->device, &error);
      gcuda_test_fail_calls (NULL);
      g_assert_no_error (error);
      g_assert_cmpint (gcuda_pinned_memory_resource_is_pooled (resource), ==, pooled);
      buffer = allocate (resource, SIZE, bed->stream);
      pattern_fill (buffer, 7, bed->stream);
      pattern_assert (buffer, 7, bed->stream);
      if (i == 0)
        {
          on_node = gcuda_pinned_memory_resource_new_for_numa_node (bed->device, 0, &error);
          g_assert_null (on_node);
          g_assert_nonnull (strstr (error->message, "gcuda_pinned_memory_resource_new ()"));
          assert_error_and_clear (error, GCUDA_ERROR_NOT_SUPPORTED);
        }
      set_error (0, HOST_POOLS_SUPPORTED, 0);
      set_error (0, HOST_NUMA_POOLS_SUPPORTED, 0);
      set (0, HOST_POOLS_SUPPORTED, 1);
      set (0, HOST_NUMA_POOLS_SUPPORTED, 1);
      g_clear_object (&buffer);
      reclaim ();
    }
}

static void
test_bad_arguments (Bed *bed,
                    gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaPinnedMemoryResource) resource = g_object_new (GCUDA_TYPE_PINNED_MEMORY_RESOURCE, NULL);
  g_autoptr (GCudaPinnedMemoryResource) good = NULL;

  g_assert_null (gcuda_pinned_memory_resource_new (NULL, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_null (gcuda_pinned_memory_resource_new_for_numa_node (NULL, 0, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_null (gcuda_pinned_memory_resource_new_unpooled (NULL, FALSE, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);

  /* Made by bare new: closed. */
  g_assert_null (gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (resource), 1, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_null (gcuda_pinned_memory_resource_get_statistics (resource, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_false (gcuda_pinned_memory_resource_is_pooled (resource));
  g_assert_cmpuint (gcuda_pinned_memory_resource_get_handle (resource), ==, 0);
  g_assert_cmpint (gcuda_pinned_memory_resource_get_numa_node (resource), ==, -1);

  for (guint i = 0; i < 2; i++)
    {
      g_clear_object (&good);
      good = i == 0 ? gcuda_pinned_memory_resource_new (bed->device, &error) : gcuda_pinned_memory_resource_new_unpooled (bed->device, FALSE, &error);
      g_assert_no_error (error);
      g_assert_null (gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (good), 1, NULL, &error));
      assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
      g_assert_null (gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (good), G_MAXUINT64, bed->stream, &error));
      assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
    }
}

/* Another thread's capture is whole after all that this library does by itself. */
static void
test_capture_elsewhere (Bed *bed,
                        gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaPinnedMemoryResource) resource = NULL;
  g_autoptr (GCudaPinnedMemoryResource) pieces = gcuda_pinned_memory_resource_new_unpooled (bed->device, FALSE, &error);
  g_autoptr (GCudaBuffer) piece = allocate (pieces, SIZE, bed->stream);
  Capture *capture = capture_begin (bed->context, CAPTURE_NON_BLOCKING);

  resource = gcuda_pinned_memory_resource_new (bed->device, &error);
  g_assert_no_error (error);
  g_clear_object (&resource);
  g_clear_object (&piece);
  reclaim ();
  capture_end (capture);
}

static gpointer
use_and_drop (gpointer data)
{
  GCudaMemoryResource *resource = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaStream) stream = gcuda_stream_new_for_device (gcuda_memory_resource_get_device (resource), &error);

  g_assert_no_error (error);
  for (guint i = 0; i < 50; i++)
    {
      g_autoptr (GCudaBuffer) buffer = allocate (resource, 4096 + i, stream);

      pattern_fill (buffer, (guint8) i, stream);
      if (i % 10 == 0)
        pattern_assert (buffer, (guint8) i, stream);
    }
  return NULL;
}

static void
test_threads (Bed *bed,
              gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaPinnedMemoryResource) resource = gcuda_pinned_memory_resource_new (bed->device, &error);
  g_autoptr (GCudaPinnedMemoryResource) pieces = gcuda_pinned_memory_resource_new_unpooled (bed->device, FALSE, &error);
  GThread *threads[4];

  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    threads[i] = g_thread_new ("uses", use_and_drop, i % 2 == 0 ? resource : pieces);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    g_thread_join (threads[i]);
  g_assert_true (gcuda_device_synchronize (bed->device, &error));
  reclaim ();
}

/* The pool outlives its resource for as long as there is memory of it. */
static void
test_life (Bed *bed,
           gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  GCudaPinnedMemoryResource *resource = gcuda_pinned_memory_resource_new (bed->device, &error);
  g_autoptr (GCudaBuffer) buffer = allocate (resource, SIZE, bed->stream);
  g_autoptr (GCudaHostMap) map = NULL;
  Blocker *blocker;

  g_object_unref (resource);
  pattern_fill (buffer, 5, bed->stream);
  map = gcuda_buffer_map (buffer, GCUDA_MAP_FLAGS_READ, bed->stream, &error);
  g_assert_no_error (error);
  g_clear_object (&buffer);
  g_assert_cmpuint (((guint8 *) gcuda_host_map_get_data (map, NULL))[SIZE - 1], ==, 5);
  blocker = blocker_new (bed->stream);
  g_clear_object (&map);
  blocker_release (blocker);
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  reclaim ();
}

int
main (int argc,
      char **argv)
{
  gcuda_test_init (&argc, &argv);
  bed_add ("/pinned/properties", test_properties);
  bed_add ("/pinned/pool-frees-in-order", test_pool_frees_in_order);
  bed_add ("/pinned/pieces-wait", test_pieces_wait);
  bed_add ("/pinned/statistics", test_statistics);
  bed_add ("/pinned/numa-nodes", test_numa_nodes);
  bed_add ("/pinned/without-pools", test_without_pools);
  bed_add ("/pinned/bad-arguments", test_bad_arguments);
  bed_add ("/pinned/capture-elsewhere", test_capture_elsewhere);
  bed_add ("/pinned/threads", test_threads);
  bed_add ("/pinned/life", test_life);
  return g_test_run ();
}
