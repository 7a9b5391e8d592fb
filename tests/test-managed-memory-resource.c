/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Managed memory: what is advised is what the driver tells; pages are moved and dropped in stream order; and what can't
 * work is refused before it can hurt.
 */
#include "gcuda-test.h"

#include <string.h>

#include "gcudamem/simulator/gcudasim.h"

#define SIZE (256 * 1024)

#define SIMULATOR(name) ((__typeof__ (&name)) gcuda_test_simulator_function (#name))

typedef enum
{
  POOL,
  PIECES,
} Source;

static GCudaManagedMemoryResource *
make (Bed *bed,
      Source source,
      GCudaLocation *preferred)
{
  g_autoptr (GError) error = NULL;
  GCudaManagedMemoryResource *resource = source == POOL ? gcuda_managed_memory_resource_new (bed->device, preferred, &error)
                                                        : gcuda_managed_memory_resource_new_unpooled (bed->device, preferred, &error);

  g_assert_no_error (error);
  return resource;
}

static GCudaBuffer *
allocate (Bed *bed,
          Source source)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaManagedMemoryResource) resource = make (bed, source, NULL);
  GCudaBuffer *buffer = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (resource), SIZE, bed->stream, &error);

  g_assert_no_error (error);
  /* Advice is given by the program, not by a stream: the memory has to be there. */
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  g_assert_no_error (error);
  return buffer;
}

static void
finish (Bed *bed)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (gcuda_device_synchronize (bed->device, &error));
  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_no_error (error);
}

static gboolean
is_concurrent (Bed *bed)
{
  return gcuda_device_get_attribute (bed->device, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, NULL) != 0;
}

static void
test_properties (Bed *bed,
                 gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaLocation) host = gcuda_location_new_host ();
  g_autoptr (GCudaManagedMemoryResource) resource = make (bed, POOL, host);
  g_autoptr (GCudaManagedMemoryResource) pieces = make (bed, PIECES, NULL);
  g_autoptr (GCudaLocation) preferred = NULL;
  gboolean pooled, concurrent, device_accessible, host_accessible;
  guint64 handle;

  g_object_get (resource, "pooled", &pooled, "concurrent", &concurrent, "preferred-location", &preferred, "handle", &handle,
                "device-accessible", &device_accessible, "host-accessible", &host_accessible, NULL);
  g_assert_cmpint (concurrent, ==, is_concurrent (bed));
  g_assert_cmpint (handle != 0, ==, pooled);
  g_assert_cmpint (gcuda_managed_memory_resource_get_cuda_pool (resource) != NULL, ==, pooled);
  g_assert_true (gcuda_location_equal (preferred, host));
  g_assert_true (device_accessible);
  g_assert_true (host_accessible);
  g_assert_false (gcuda_managed_memory_resource_is_pooled (pieces));
  g_assert_null (gcuda_managed_memory_resource_get_preferred_location (pieces));
  if (gcuda_test_is_simulated ())
    g_assert_true (pooled);

  if (pooled)
    {
      g_autoptr (GCudaPoolStatistics) statistics = NULL;
      g_autoptr (GCudaBuffer) buffer = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (resource), SIZE, bed->stream, &error);

      g_assert_no_error (error);
      statistics = gcuda_managed_memory_resource_get_statistics (resource, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (gcuda_pool_statistics_get_used (statistics), >=, SIZE);
      g_assert_true (gcuda_managed_memory_resource_set_release_threshold (resource, 1 << 20, &error));
      g_assert_no_error (error);
      g_assert_true (gcuda_managed_memory_resource_reset_high_marks (resource, &error));
      g_assert_no_error (error);
      g_assert_true (gcuda_managed_memory_resource_trim (resource, 0, &error));
      g_assert_no_error (error);
    }
  g_assert_null (gcuda_managed_memory_resource_get_statistics (pieces, &error));
  assert_error_and_clear (error, GCUDA_ERROR_NOT_SUPPORTED);
  finish (bed);
}

#define ASSERT_REFUSED(call, code)        \
  G_STMT_START                            \
  {                                       \
    g_assert_false (call);                \
    assert_error_and_clear (error, code); \
  }                                       \
  G_STMT_END

/* What was advised is what the driver answers, and what was taken back it does not answer any more. */
static void
test_advice (Bed *bed,
             gconstpointer data)
{
  const Source source = (Source) GPOINTER_TO_INT (data);
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = allocate (bed, source);
  g_autoptr (GCudaLocation) host = gcuda_location_new_host ();
  g_autoptr (GCudaLocation) device = gcuda_location_new_device (bed->device);
  g_autoptr (GCudaMemoryResource) resource = gcuda_buffer_get_resource (buffer);
  GCudaLocation *places[] = { device, host };

  g_assert_false (gcuda_buffer_is_read_mostly (buffer, &error));
  g_assert_no_error (error);
  if (gcuda_managed_memory_resource_is_pooled (GCUDA_MANAGED_MEMORY_RESOURCE (resource)))
    {
      /* Drivers give none for memory of pools, whatever it says; where it goes, it can be told all the same. */
      ASSERT_REFUSED (gcuda_buffer_set_read_mostly (buffer, TRUE, &error), GCUDA_ERROR_NOT_SUPPORTED);
      ASSERT_REFUSED (gcuda_buffer_set_preferred_location (buffer, host, &error), GCUDA_ERROR_NOT_SUPPORTED);
      ASSERT_REFUSED (gcuda_buffer_set_accessed_by (buffer, device, TRUE, &error), GCUDA_ERROR_NOT_SUPPORTED);
      g_assert_false (gcuda_buffer_is_read_mostly (buffer, &error));
      g_assert_no_error (error);
      g_clear_object (&buffer);
      g_clear_object (&resource);
      finish (bed);
      return;
    }
  g_assert_true (gcuda_buffer_set_read_mostly (buffer, TRUE, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_buffer_is_read_mostly (buffer, &error));
  g_assert_true (gcuda_buffer_set_read_mostly (buffer, FALSE, &error));
  g_assert_false (gcuda_buffer_is_read_mostly (buffer, &error));
  g_assert_no_error (error);

  for (gsize i = 0; i < G_N_ELEMENTS (places); i++)
    {
      g_autoptr (GCudaLocation) kept = NULL;

      kept = gcuda_buffer_get_preferred_location (buffer, &error);
      g_assert_null (kept);
      g_assert_no_error (error);
      g_assert_true (gcuda_buffer_set_preferred_location (buffer, places[i], &error));
      g_assert_no_error (error);
      kept = gcuda_buffer_get_preferred_location (buffer, &error);
      g_assert_no_error (error);
      g_assert_true (gcuda_location_equal (kept, places[i]));
      g_assert_true (gcuda_buffer_set_preferred_location (buffer, NULL, &error));
      g_assert_no_error (error);

      g_assert_false (gcuda_buffer_is_accessed_by (buffer, places[i], &error));
      g_assert_no_error (error);
      g_assert_true (gcuda_buffer_set_accessed_by (buffer, places[i], TRUE, &error));
      g_assert_no_error (error);
      g_assert_true (gcuda_buffer_is_accessed_by (buffer, places[i], &error));
      g_assert_false (gcuda_buffer_is_accessed_by (buffer, places[1 - i], &error));
      g_assert_true (gcuda_buffer_set_accessed_by (buffer, places[i], FALSE, &error));
      g_assert_false (gcuda_buffer_is_accessed_by (buffer, places[i], &error));
      g_assert_no_error (error);
    }
  g_clear_object (&buffer);
  g_clear_object (&resource);
  finish (bed);
}

/* Advice for a part is not advice for all. */
static void
test_parts (Bed *bed,
            gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = allocate (bed, PIECES);
  g_autoptr (GCudaBuffer) half = gcuda_buffer_new_view (buffer, SIZE / 2, SIZE / 2, &error);
  g_autoptr (GCudaBuffer) other = gcuda_buffer_new_view (buffer, 0, SIZE / 2, &error);
  g_autoptr (GCudaLocation) device = gcuda_location_new_device (bed->device);
  g_autoptr (GCudaLocation) kept = NULL;

  g_assert_true (gcuda_buffer_set_read_mostly (half, TRUE, &error));
  g_assert_true (gcuda_buffer_set_preferred_location (half, device, &error));
  g_assert_true (gcuda_buffer_set_accessed_by (half, device, TRUE, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_buffer_is_read_mostly (half, &error));
  g_assert_false (gcuda_buffer_is_read_mostly (other, &error));
  g_assert_false (gcuda_buffer_is_read_mostly (buffer, &error));
  g_assert_true (gcuda_buffer_is_accessed_by (half, device, &error));
  g_assert_false (gcuda_buffer_is_accessed_by (buffer, device, &error));
  kept = gcuda_buffer_get_preferred_location (other, &error);
  g_assert_null (kept);
  kept = gcuda_buffer_get_preferred_location (half, &error);
  g_assert_true (gcuda_location_equal (kept, device));
  g_assert_no_error (error);
  g_clear_object (&buffer);
  g_clear_object (&half);
  g_clear_object (&other);
  finish (bed);
}

/* Contents stay, in stream order, wherever the pages are sent. */
static void
test_prefetch (Bed *bed,
               gconstpointer data)
{
  const Source source = (Source) GPOINTER_TO_INT (data);
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = allocate (bed, source);
  g_autoptr (GCudaBuffer) second = allocate (bed, source);
  g_autoptr (GCudaBuffer) empty = NULL;
  g_autoptr (GCudaLocation) host = gcuda_location_new_host ();
  g_autoptr (GCudaLocation) device = gcuda_location_new_device (bed->device);
  g_autoptr (GCudaLocation) at = NULL;
  GCudaBuffer *both[] = { buffer, second, NULL };

  at = gcuda_buffer_get_last_prefetch_location (buffer, &error);
  g_assert_null (at);
  g_assert_no_error (error);
  pattern_fill (buffer, 0x61, bed->stream);
  pattern_fill (second, 0x62, bed->stream);
  g_assert_true (gcuda_buffer_prefetch (buffer, device, bed->stream, &error));
  g_assert_no_error (error);
  at = gcuda_buffer_get_last_prefetch_location (buffer, &error);
  g_assert_no_error (error);
  g_assert_true (gcuda_location_equal (at, device));
  g_assert_true (gcuda_buffer_prefetch (buffer, host, bed->stream, &error));
  g_assert_no_error (error);
  pattern_assert (buffer, 0x61, bed->stream);

  /* A part, by way of a view. */
  {
    g_autoptr (GCudaBuffer) view = gcuda_buffer_new_view (buffer, 4096, 8192, &error);

    g_assert_true (gcuda_buffer_prefetch (view, device, bed->stream, &error));
    g_assert_no_error (error);
  }

  /* Many at once; an empty one is none. */
  empty = gcuda_buffer_new_view (second, SIZE, 0, &error);
  both[2] = empty;
  g_assert_true (gcuda_buffer_prefetch_batch (both, 3, device, bed->stream, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_buffer_prefetch_batch (both, 0, device, bed->stream, &error));
  g_assert_no_error (error);
  g_clear_pointer (&at, gcuda_location_unref);
  at = gcuda_buffer_get_last_prefetch_location (second, &error);
  g_assert_true (gcuda_location_equal (at, device));
  pattern_assert (buffer, 0x61, bed->stream);
  pattern_assert (second, 0x62, bed->stream);
  g_clear_object (&buffer);
  g_clear_object (&second);
  finish (bed);
}

/* The driver takes batches on no legacy default stream: there a batch is prefetched one by one, and discards are refused. */
static void
test_legacy_stream (Bed *bed,
                    gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaStream) legacy = gcuda_stream_new_legacy_default (bed->context, &error);
  g_autoptr (GCudaBuffer) a = allocate (bed, PIECES);
  g_autoptr (GCudaBuffer) b = allocate (bed, PIECES);
  g_autoptr (GCudaLocation) device = gcuda_location_new_device (bed->device);
  GCudaBuffer *both[] = { a, b };

  pattern_fill (a, 1, legacy);
  pattern_fill (b, 2, legacy);
  g_assert_true (gcuda_buffer_prefetch_batch (both, 2, device, legacy, &error));
  g_assert_no_error (error);
  pattern_assert (a, 1, legacy);
  g_assert_false (gcuda_buffer_discard (a, legacy, &error));
  assert_error_and_clear (error, GCUDA_ERROR_NOT_SUPPORTED);
  pattern_assert (a, 1, legacy);
  g_assert_true (gcuda_buffer_close (a, legacy, &error));
  g_assert_true (gcuda_buffer_close (b, legacy, &error));
  finish (bed);
}

static void
test_discard (Bed *bed,
              gconstpointer data)
{
  const Source source = (Source) GPOINTER_TO_INT (data);
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = allocate (bed, source);
  g_autoptr (GCudaBuffer) second = allocate (bed, source);
  g_autoptr (GCudaBuffer) part = gcuda_buffer_new_view (buffer, 100, 100, &error);
  g_autoptr (GCudaLocation) device = gcuda_location_new_device (bed->device);
  GCudaBuffer *both[] = { buffer, second };
  GCudaBuffer *overlapping[] = { buffer, part };

  pattern_fill (buffer, 0x71, bed->stream);
  if (!gcuda_buffer_discard (buffer, bed->stream, &error))
    {
      /* An older driver. */
      assert_error_and_clear (error, GCUDA_ERROR_NOT_SUPPORTED);
      pattern_assert (buffer, 0x71, bed->stream);
      return;
    }
  /* What is written afterwards is there. */
  pattern_fill (buffer, 0x72, bed->stream);
  pattern_assert (buffer, 0x72, bed->stream);
  g_assert_true (gcuda_buffer_discard_and_prefetch (buffer, device, bed->stream, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_buffer_discard_batch (both, 2, bed->stream, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_buffer_discard_and_prefetch_batch (both, 2, device, bed->stream, &error));
  g_assert_no_error (error);
  pattern_fill (buffer, 0x73, bed->stream);
  pattern_fill (second, 0x74, bed->stream);
  pattern_assert (buffer, 0x73, bed->stream);
  pattern_assert (second, 0x74, bed->stream);

  g_assert_false (gcuda_buffer_discard_batch (overlapping, 2, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  pattern_assert (buffer, 0x73, bed->stream);
  g_clear_object (&part);
  g_clear_object (&buffer);
  g_clear_object (&second);
  finish (bed);
}

static void
test_preferred (Bed *bed,
                gconstpointer data)
{
  const Source source = (Source) GPOINTER_TO_INT (data);
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaLocation) device = gcuda_location_new_device (bed->device);
  g_autoptr (GCudaManagedMemoryResource) resource = make (bed, source, device);
  g_autoptr (GCudaBuffer) buffer = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (resource), SIZE, bed->stream, &error);
  g_autoptr (GCudaLocation) kept = NULL;

  g_assert_no_error (error);
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  kept = gcuda_buffer_get_preferred_location (buffer, &error);
  g_assert_no_error (error);
  g_assert_nonnull (kept);
  g_assert_true (gcuda_location_equal (kept, device));
  g_clear_object (&buffer);
  finish (bed);
}

/* Each call, on memory that is not managed, and with places that are not there: nothing was changed. */
static void
test_refused (Bed *bed,
              gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaPinnedMemoryResource) pinned = gcuda_pinned_memory_resource_new (bed->device, &error);
  g_autoptr (GCudaBuffer) plain = gcuda_memory_resource_allocate (bed->resource, SIZE, bed->stream, &error);
  g_autoptr (GCudaBuffer) locked = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (pinned), SIZE, bed->stream, &error);
  g_autoptr (GCudaBuffer) managed = allocate (bed, PIECES);
  g_autoptr (GCudaBuffer) closed = allocate (bed, PIECES);
  g_autoptr (GCudaLocation) host = gcuda_location_new_host ();
  g_autoptr (GCudaLocation) node = gcuda_location_new_numa_node (4711);
  g_autoptr (GCudaLocation) negative = gcuda_location_new_numa_node (-1);
  g_autoptr (GCudaLocation) current = gcuda_location_new_current_numa_node ();
  g_autoptr (GCudaLocation) kept = NULL;
  g_autoptr (GCudaDevice) bare = g_object_new (GCUDA_TYPE_DEVICE, NULL);
  g_autoptr (GCudaLocation) bare_device = gcuda_location_new_device (bare);
  GCudaBuffer *others[] = { plain, locked };
  GCudaBuffer *mixed[] = { managed, plain };

  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  for (gsize i = 0; i < G_N_ELEMENTS (others); i++)
    {
      GCudaBuffer *other = others[i];

      pattern_fill (other, 0x15, bed->stream);
      ASSERT_REFUSED (gcuda_buffer_set_read_mostly (other, TRUE, &error), GCUDA_ERROR_INVALID_ARGUMENT);
      ASSERT_REFUSED (gcuda_buffer_is_read_mostly (other, &error), GCUDA_ERROR_INVALID_ARGUMENT);
      ASSERT_REFUSED (gcuda_buffer_set_preferred_location (other, host, &error), GCUDA_ERROR_INVALID_ARGUMENT);
      ASSERT_REFUSED (gcuda_buffer_get_preferred_location (other, &error) != NULL, GCUDA_ERROR_INVALID_ARGUMENT);
      ASSERT_REFUSED (gcuda_buffer_set_accessed_by (other, host, TRUE, &error), GCUDA_ERROR_INVALID_ARGUMENT);
      ASSERT_REFUSED (gcuda_buffer_is_accessed_by (other, host, &error), GCUDA_ERROR_INVALID_ARGUMENT);
      ASSERT_REFUSED (gcuda_buffer_get_last_prefetch_location (other, &error) != NULL, GCUDA_ERROR_INVALID_ARGUMENT);
      ASSERT_REFUSED (gcuda_buffer_prefetch (other, host, bed->stream, &error), GCUDA_ERROR_INVALID_ARGUMENT);
      ASSERT_REFUSED (gcuda_buffer_discard (other, bed->stream, &error), GCUDA_ERROR_INVALID_ARGUMENT);
      ASSERT_REFUSED (gcuda_buffer_discard_and_prefetch (other, host, bed->stream, &error), GCUDA_ERROR_INVALID_ARGUMENT);
      pattern_assert (other, 0x15, bed->stream);
    }

  /* One of many, and nothing was done to the others. */
  pattern_fill (managed, 0x16, bed->stream);
  ASSERT_REFUSED (gcuda_buffer_prefetch_batch (mixed, 2, host, bed->stream, &error), GCUDA_ERROR_INVALID_ARGUMENT);
  ASSERT_REFUSED (gcuda_buffer_discard_batch (mixed, 2, bed->stream, &error), GCUDA_ERROR_INVALID_ARGUMENT);
  kept = gcuda_buffer_get_last_prefetch_location (managed, &error);
  g_assert_null (kept);
  pattern_assert (managed, 0x16, bed->stream);

  ASSERT_REFUSED (gcuda_buffer_set_preferred_location (managed, node, &error), GCUDA_ERROR_INVALID_ARGUMENT);
  ASSERT_REFUSED (gcuda_buffer_set_preferred_location (managed, negative, &error), GCUDA_ERROR_INVALID_ARGUMENT);
  ASSERT_REFUSED (gcuda_buffer_set_preferred_location (managed, bare_device, &error), GCUDA_ERROR_CLOSED);
  ASSERT_REFUSED (gcuda_buffer_set_accessed_by (managed, NULL, TRUE, &error), GCUDA_ERROR_INVALID_ARGUMENT);
  ASSERT_REFUSED (gcuda_buffer_set_accessed_by (managed, current, TRUE, &error), GCUDA_ERROR_INVALID_ARGUMENT);
  ASSERT_REFUSED (gcuda_buffer_prefetch (managed, node, bed->stream, &error), GCUDA_ERROR_INVALID_ARGUMENT);
  ASSERT_REFUSED (gcuda_buffer_prefetch (managed, NULL, bed->stream, &error), GCUDA_ERROR_INVALID_ARGUMENT);
  ASSERT_REFUSED (gcuda_buffer_prefetch (managed, host, NULL, &error), GCUDA_ERROR_INVALID_ARGUMENT);
  ASSERT_REFUSED (gcuda_buffer_discard (managed, NULL, &error), GCUDA_ERROR_INVALID_ARGUMENT);
  ASSERT_REFUSED (gcuda_buffer_prefetch_batch (NULL, 2, host, bed->stream, &error), GCUDA_ERROR_INVALID_ARGUMENT);
  kept = gcuda_buffer_get_preferred_location (managed, &error);
  g_assert_no_error (error);
  g_assert_null (kept);

  g_assert_true (gcuda_buffer_close (closed, NULL, &error));
  ASSERT_REFUSED (gcuda_buffer_set_read_mostly (closed, TRUE, &error), GCUDA_ERROR_CLOSED);
  ASSERT_REFUSED (gcuda_buffer_prefetch (closed, host, bed->stream, &error), GCUDA_ERROR_CLOSED);

  g_assert_null (gcuda_managed_memory_resource_new (NULL, NULL, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_null (gcuda_managed_memory_resource_new (bed->device, node, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_null (gcuda_managed_memory_resource_new_unpooled (bed->device, current, &error));
  assert_error_and_clear (error, GCUDA_ERROR_NOT_SUPPORTED);
  {
    g_autoptr (GCudaManagedMemoryResource) bare_resource = g_object_new (GCUDA_TYPE_MANAGED_MEMORY_RESOURCE, NULL);

    g_assert_null (gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (bare_resource), 1, bed->stream, &error));
    assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
    ASSERT_REFUSED (gcuda_managed_memory_resource_trim (bare_resource, 0, &error), GCUDA_ERROR_CLOSED);
  }
  g_clear_object (&plain);
  g_clear_object (&locked);
  g_clear_object (&managed);
  finish (bed);
}

/* A NUMA node is kept, or refused with the reason; never lost. */
static void
test_numa_node (Bed *bed,
                gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = allocate (bed, PIECES);
  g_autoptr (GCudaLocation) node = gcuda_location_new_numa_node (0);
  g_autoptr (GCudaLocation) kept = NULL;

  if (gcuda_buffer_set_preferred_location (buffer, node, &error))
    {
      kept = gcuda_buffer_get_preferred_location (buffer, &error);
      g_assert_true (gcuda_location_equal (kept, node));
    }
  else
    {
      assert_error_and_clear (error, GCUDA_ERROR_NOT_SUPPORTED);
    }
  /* As a place to go to it is as good as any. */
  pattern_fill (buffer, 0x17, bed->stream);
  g_assert_true (gcuda_buffer_prefetch (buffer, node, bed->stream, &error));
  g_assert_no_error (error);
  pattern_assert (buffer, 0x17, bed->stream);
  g_clear_object (&buffer);
  finish (bed);
}

/* A device that may not work while the processor uses managed memory, and one that has none. */
static void
test_lesser_devices (Bed *bed,
                     gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaManagedMemoryResource) resource = NULL;
  g_autoptr (GCudaBuffer) buffer = NULL;
  g_autoptr (GCudaHostMap) map = NULL;
  g_autoptr (GCudaStream) other = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  g_autoptr (GCudaLocation) device = gcuda_location_new_device (bed->device);
  g_autoptr (GCudaLocation) host = gcuda_location_new_host ();
  g_autoptr (GThread) thread = NULL;

  if (!gcuda_test_is_simulated ())
    {
      g_test_skip ("needs a device that lacks something");
      return;
    }
  SIMULATOR (gcudasim_set_attribute)
  (0, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 0);
  resource = gcuda_managed_memory_resource_new (bed->device, NULL, &error);
  g_assert_no_error (error);
  g_assert_false (gcuda_managed_memory_resource_is_concurrent (resource));
  g_assert_false (gcuda_managed_memory_resource_is_pooled (resource));
  g_assert_null (gcuda_managed_memory_resource_new (bed->device, device, &error));
  assert_error_and_clear (error, GCUDA_ERROR_NOT_SUPPORTED);
  buffer = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (resource), SIZE, bed->stream, &error);
  g_assert_no_error (error);
  pattern_fill (buffer, 0x18, bed->stream);
  ASSERT_REFUSED (gcuda_buffer_prefetch (buffer, device, bed->stream, &error), GCUDA_ERROR_NOT_SUPPORTED);
  ASSERT_REFUSED (gcuda_buffer_set_preferred_location (buffer, device, &error), GCUDA_ERROR_NOT_SUPPORTED);
  ASSERT_REFUSED (gcuda_buffer_set_accessed_by (buffer, device, TRUE, &error), GCUDA_ERROR_NOT_SUPPORTED);
  g_assert_true (gcuda_buffer_prefetch (buffer, host, bed->stream, &error));
  g_assert_no_error (error);

  /* Mapping waits for all of the device, and says so where it may not. */
  map = gcuda_buffer_map (buffer, GCUDA_MAP_FLAGS_READ | GCUDA_MAP_FLAGS_UNSYNCHRONIZED, NULL, &error);
  g_assert_null (map);
  assert_error_and_clear (error, GCUDA_ERROR_NOT_SUPPORTED);
  {
    g_autoptr (GCudaBuffer) elsewhere = gcuda_memory_resource_allocate (bed->resource, SIZE, other, &error);

    gcuda_test_hold (other);
    pattern_fill (elsewhere, 1, other);
    thread = g_thread_new ("lets go", gcuda_test_let_go_soon, NULL);
    map = gcuda_buffer_map (buffer, GCUDA_MAP_FLAGS_READ, bed->stream, &error);
    g_assert_no_error (error);
    g_assert_true (gcuda_stream_query (other, &error));
    g_assert_cmpuint (((guint8 *) gcuda_host_map_get_data (map, NULL))[0], ==, 0x18);
    g_clear_object (&map);
    g_thread_join (g_steal_pointer (&thread));
  }
  g_clear_object (&buffer);
  g_clear_object (&resource);
  SIMULATOR (gcudasim_set_attribute)
  (0, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1);

  SIMULATOR (gcudasim_set_attribute)
  (0, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 0);
  g_assert_null (gcuda_managed_memory_resource_new (bed->device, NULL, &error));
  g_assert_nonnull (strstr (error->message, "GCudaPinnedMemoryResource"));
  assert_error_and_clear (error, GCUDA_ERROR_NOT_SUPPORTED);
  SIMULATOR (gcudasim_set_attribute)
  (0, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1);
  finish (bed);
}

static void
test_capture (Bed *bed,
              gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = allocate (bed, PIECES);
  g_autoptr (GCudaLocation) host = gcuda_location_new_host ();
  g_autoptr (GCudaStream) stream = NULL;
  CUcontext popped;
  CUgraph graph = NULL;
  CUstream raw;

  assert_cuda (RAW (cuCtxPushCurrent) (gcuda_context_get_cuda_context (bed->context)));
  assert_cuda (RAW (cuStreamCreate) (&raw, CU_STREAM_NON_BLOCKING));
  stream = gcuda_stream_new_for_handle (bed->context, (guint64) (guintptr) raw, NULL, &error);
  g_assert_no_error (error);
  assert_cuda (RAW (cuStreamBeginCapture) (raw, CU_STREAM_CAPTURE_MODE_RELAXED));
  ASSERT_REFUSED (gcuda_buffer_prefetch (buffer, host, stream, &error), GCUDA_ERROR_CAPTURING);
  ASSERT_REFUSED (gcuda_buffer_discard (buffer, stream, &error), GCUDA_ERROR_CAPTURING);
  assert_cuda (RAW (cuStreamEndCapture) (raw, &graph));
  assert_cuda (RAW (cuGraphDestroy) (graph));
  g_clear_object (&stream);
  assert_cuda (RAW (cuStreamDestroy) (raw));
  assert_cuda (RAW (cuCtxPopCurrent) (&popped));
  g_clear_object (&buffer);
  finish (bed);
}

static void
test_locations (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaDevice) device = gcuda_device_new (0, &error);
  g_autoptr (GCudaLocation) on_device = gcuda_location_new_device (device);
  g_autoptr (GCudaLocation) same = gcuda_location_new_device (device);
  g_autoptr (GCudaLocation) host = gcuda_location_new_host ();
  g_autoptr (GCudaLocation) node = gcuda_location_new_numa_node (3);
  g_autoptr (GCudaLocation) other_node = gcuda_location_new_numa_node (4);
  g_autoptr (GCudaLocation) current = gcuda_location_new_current_numa_node ();
  g_autoptr (GCudaLocation) nothing = gcuda_location_new_device (NULL);
  g_autofree char *text = gcuda_location_to_string (node);

  g_assert_no_error (error);
  g_assert_true (gcuda_location_get_device (on_device) == device);
  g_assert_cmpint (gcuda_location_get_kind (on_device), ==, GCUDA_MEMORY_LOCATION_DEVICE);
  g_assert_cmpint (gcuda_location_get_kind (host), ==, GCUDA_MEMORY_LOCATION_HOST);
  g_assert_cmpint (gcuda_location_get_kind (current), ==, GCUDA_MEMORY_LOCATION_HOST_NUMA_CURRENT);
  g_assert_cmpint (gcuda_location_get_numa_node (node), ==, 3);
  g_assert_cmpint (gcuda_location_get_numa_node (host), ==, -1);
  g_assert_null (gcuda_location_get_device (host));
  g_assert_null (gcuda_location_get_device (nothing));
  g_assert_true (gcuda_location_equal (on_device, same));
  g_assert_false (gcuda_location_equal (on_device, host));
  g_assert_false (gcuda_location_equal (node, other_node));
  g_assert_nonnull (strstr (text, "3"));
}

int
main (int argc,
      char **argv)
{
  static const char *const names[] = { "pool", "pieces" };

  gcuda_test_init (&argc, &argv);
  for (Source source = POOL; source <= PIECES; source++)
    {
      const struct
      {
        const char *name;
        void (*function) (Bed *bed,
                          gconstpointer data);
      } tests[] = {
        { "advice", test_advice },
        { "prefetch", test_prefetch },
        { "discard", test_discard },
        { "preferred", test_preferred },
      };

      for (gsize i = 0; i < G_N_ELEMENTS (tests); i++)
        {
          g_autofree char *path = g_strdup_printf ("/managed/%s/%s", names[source], tests[i].name);

          bed_add_data (path, GINT_TO_POINTER (source), tests[i].function);
        }
    }
  bed_add ("/managed/properties", test_properties);
  bed_add ("/managed/parts", test_parts);
  bed_add ("/managed/legacy-stream", test_legacy_stream);
  bed_add ("/managed/refused", test_refused);
  bed_add ("/managed/numa-node", test_numa_node);
  bed_add ("/managed/lesser-devices", test_lesser_devices);
  bed_add ("/managed/capture", test_capture);
  g_test_add_func ("/managed/locations", test_locations);
  return g_test_run ();
}
