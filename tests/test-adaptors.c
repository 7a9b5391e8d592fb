/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Resources built on others: each over the library's own and over a program's, stacked, subclassed, and when upstream fails. */
#include "gcuda-test.h"

#include <glib/gstdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((guint64) 1 << 20)

/* A program's resource that forwards, and fails as often as it is told to. */
typedef struct
{
  GCudaMemoryResource parent_instance;

  GCudaMemoryResource *upstream;
  guint failures;
  gboolean own_error;
  guint allocated, deallocated;
  GThread *last_thread;
} Stubborn;

typedef GCudaMemoryResourceClass StubbornClass;

static GType stubborn_get_type (void);
G_DEFINE_TYPE (Stubborn, stubborn, GCUDA_TYPE_MEMORY_RESOURCE)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Stubborn, g_object_unref)

static guint64
stubborn_allocate (GCudaMemoryResource *resource,
                   guint64 size,
                   guint64 alignment,
                   GCudaStream *stream,
                   GError **error)
{
  Stubborn *self = (Stubborn *) resource;

  if (self->failures > 0)
    {
      self->failures--;
      if (self->own_error)
        g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_BUSY, "no memory today");
      else
        g_set_error_literal (error, GCUDA_ERROR, GCUDA_ERROR_OUT_OF_MEMORY, "no memory at all");
      return 0;
    }
  self->allocated++;
  return gcuda_memory_resource_allocate_address (self->upstream, size, alignment, stream, error);
}

static void
stubborn_deallocate (GCudaMemoryResource *resource,
                     guint64 address,
                     guint64 size,
                     guint64 alignment,
                     GCudaStream *stream)
{
  Stubborn *self = (Stubborn *) resource;
  g_autoptr (GError) error = NULL;

  self->deallocated++;
  self->last_thread = g_thread_self ();
  g_assert_true (gcuda_memory_resource_deallocate_address (self->upstream, address, size, alignment, stream, &error));
  g_assert_no_error (error);
}

static void
stubborn_finalize (GObject *object)
{
  g_object_unref (((Stubborn *) object)->upstream);
  G_OBJECT_CLASS (stubborn_parent_class)->finalize (object);
}

static void
stubborn_class_init (StubbornClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = stubborn_finalize;
  klass->allocate_address = stubborn_allocate;
  klass->deallocate_address = stubborn_deallocate;
}

static void
stubborn_init (Stubborn *self)
{
}

static Stubborn *
stubborn_new (Bed *bed)
{
  Stubborn *self = g_object_new (stubborn_get_type (), "device", bed->device, NULL);

  self->upstream = g_object_ref (bed->resource);
  return self;
}

/* The kinds of upstream. */
typedef enum
{
  UPSTREAM_POOL,
  UPSTREAM_SYNCHRONOUS,
  UPSTREAM_PROGRAM,
  N_UPSTREAMS,
} Upstream;

static GCudaMemoryResource *
make_upstream (Bed *bed,
               Upstream kind)
{
  g_autoptr (GError) error = NULL;
  GCudaMemoryResource *resource;

  switch (kind)
    {
    case UPSTREAM_SYNCHRONOUS:
      resource = GCUDA_MEMORY_RESOURCE (gcuda_synchronous_memory_resource_new (bed->context, &error));
      break;
    case UPSTREAM_PROGRAM:
      resource = GCUDA_MEMORY_RESOURCE (stubborn_new (bed));
      break;
    case UPSTREAM_POOL:
    case N_UPSTREAMS:
    default:
      resource = g_object_ref (bed->resource);
    }
  g_assert_no_error (error);
  return resource;
}

static GCudaBuffer *
allocate (gpointer resource,
          guint64 size,
          GCudaStream *stream)
{
  g_autoptr (GError) error = NULL;
  GCudaBuffer *buffer = gcuda_memory_resource_allocate (resource, size, stream, &error);

  g_assert_no_error (error);
  g_assert_nonnull (buffer);
  return buffer;
}

static void
settle (void)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_no_error (error);
}

/* Statistics */

static void
assert_statistics (GCudaStatisticsMemoryResource *resource,
                   guint64 current_bytes,
                   guint64 peak_bytes,
                   guint64 total_bytes,
                   guint64 current_count,
                   guint64 peak_count,
                   guint64 total_count,
                   guint64 failed_count)
{
  g_autoptr (GCudaAllocationStatistics) statistics = gcuda_statistics_memory_resource_get_statistics (resource);

  g_assert_cmpuint (gcuda_allocation_statistics_get_current_bytes (statistics), ==, current_bytes);
  g_assert_cmpuint (gcuda_allocation_statistics_get_peak_bytes (statistics), ==, peak_bytes);
  g_assert_cmpuint (gcuda_allocation_statistics_get_total_bytes (statistics), ==, total_bytes);
  g_assert_cmpuint (gcuda_allocation_statistics_get_current_count (statistics), ==, current_count);
  g_assert_cmpuint (gcuda_allocation_statistics_get_peak_count (statistics), ==, peak_count);
  g_assert_cmpuint (gcuda_allocation_statistics_get_total_count (statistics), ==, total_count);
  g_assert_cmpuint (gcuda_allocation_statistics_get_failed_count (statistics), ==, failed_count);
}

static void
test_statistics (Bed *bed,
                 gconstpointer data)
{
  g_autoptr (GCudaMemoryResource) upstream = make_upstream (bed, (Upstream) GPOINTER_TO_INT (data));
  g_autoptr (GCudaStatisticsMemoryResource) resource = gcuda_statistics_memory_resource_new (upstream);
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) empty = NULL;
  GCudaBuffer *first, *second;

  g_assert_true (gcuda_memory_resource_adaptor_get_upstream (GCUDA_MEMORY_RESOURCE_ADAPTOR (resource)) == upstream);
  g_assert_true (gcuda_memory_resource_get_device (GCUDA_MEMORY_RESOURCE (resource)) == bed->device);
  g_assert_true (gcuda_memory_resource_is_device_accessible (GCUDA_MEMORY_RESOURCE (resource)));
  g_assert_false (gcuda_memory_resource_is_host_accessible (GCUDA_MEMORY_RESOURCE (resource)));
  assert_statistics (resource, 0, 0, 0, 0, 0, 0, 0);
  empty = allocate (resource, 0, bed->stream);
  assert_statistics (resource, 0, 0, 0, 0, 0, 0, 0);
  first = allocate (resource, 1000, bed->stream);
  second = allocate (resource, 4096, bed->stream);
  pattern_fill (first, 1, bed->stream);
  pattern_fill (second, 2, bed->stream);
  pattern_assert (first, 1, bed->stream);
  pattern_assert (second, 2, bed->stream);
  assert_statistics (resource, 5096, 5096, 5096, 2, 2, 2, 0);
  g_object_unref (second);
  settle ();
  assert_statistics (resource, 1000, 5096, 5096, 1, 2, 2, 0);
  gcuda_statistics_memory_resource_reset_peaks (resource);
  assert_statistics (resource, 1000, 1000, 5096, 1, 1, 2, 0);
  /* More than there is: counted as a failure. */
  g_assert_null (gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (resource), (guint64) 1 << 46, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_OUT_OF_MEMORY);
  {
    g_autoptr (GCudaAllocationStatistics) statistics = gcuda_statistics_memory_resource_get_statistics (resource);

    g_assert_cmpuint (gcuda_allocation_statistics_get_failed_count (statistics), >=, 1);
    g_assert_cmpuint (gcuda_allocation_statistics_get_current_bytes (statistics), ==, 1000);
  }
  g_object_unref (first);
  settle ();
  {
    g_autoptr (GCudaAllocationStatistics) statistics = gcuda_statistics_memory_resource_get_statistics (resource);

    g_assert_cmpuint (gcuda_allocation_statistics_get_current_bytes (statistics), ==, 0);
    g_assert_cmpuint (gcuda_allocation_statistics_get_current_count (statistics), ==, 0);
  }
}

static void
count_notify (GObject *object,
              GParamSpec *pspec,
              gpointer data)
{
  ++*(gint *) data;
}

/* Many changes make few notifications, on the main context, and the last value is right. */
static void
test_statistics_notify (Bed *bed,
                        gconstpointer data)
{
  g_autoptr (GCudaStatisticsMemoryResource) resource = gcuda_statistics_memory_resource_new (bed->resource);
  gint notified = 0;
  guint64 total = 0;

  g_signal_connect (resource, "notify::total-count", G_CALLBACK (count_notify), &notified);
  for (guint i = 0; i < 100; i++)
    g_object_unref (allocate (resource, 256, bed->stream));
  g_assert_cmpint (notified, ==, 0);
  iterate_until (&notified);
  g_assert_cmpint (notified, ==, 1);
  g_object_get (resource, "total-count", &total, NULL);
  g_assert_cmpuint (total, ==, 100);
  notified = 0;
  g_object_unref (allocate (resource, 256, bed->stream));
  iterate_until (&notified);
  g_object_get (resource, "total-count", &total, NULL);
  g_assert_cmpuint (total, ==, 101);
  /* One that waits does not keep the object. */
  g_object_unref (allocate (resource, 256, bed->stream));
  settle ();
  g_assert_finalize_object (g_steal_pointer (&resource));
  while (g_main_context_iteration (NULL, FALSE))
    ;
}

typedef struct
{
  GCudaMemoryResource *resource;
  GCudaContext *context;
} Often;

static gpointer
allocate_often (gpointer data)
{
  Often *often = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaStream) stream = gcuda_stream_new (often->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);

  g_assert_no_error (error);
  for (guint i = 0; i < 200; i++)
    {
      g_autoptr (GCudaBuffer) one = allocate (often->resource, 256 + i, stream);
      g_autoptr (GCudaBuffer) other = allocate (often->resource, 1024, stream);

      g_assert_true (gcuda_buffer_close (one, NULL, NULL));
    }
  return NULL;
}

/* A stack of them, used from four threads. */
static void
test_stack (Bed *bed,
            gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaLimitingMemoryResource) limited = gcuda_limiting_memory_resource_new (bed->resource, 64 * MIB);
  g_autoptr (GCudaAlignedMemoryResource) aligned = gcuda_aligned_memory_resource_new (GCUDA_MEMORY_RESOURCE (limited), 4096, &error);
  g_autoptr (GCudaBinningMemoryResource) binned = gcuda_binning_memory_resource_new (GCUDA_MEMORY_RESOURCE (aligned));
  g_autoptr (GCudaStatisticsMemoryResource) counted = NULL;
  Often often;
  GThread *threads[4];

  g_assert_no_error (error);
  g_assert_true (gcuda_binning_memory_resource_add_bin (binned, 512, bed->resource, &error));
  g_assert_no_error (error);
  counted = gcuda_statistics_memory_resource_new (GCUDA_MEMORY_RESOURCE (binned));
  often = (Often){ GCUDA_MEMORY_RESOURCE (counted), bed->context };
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    threads[i] = g_thread_new ("often", allocate_often, &often);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    g_thread_join (threads[i]);
  settle ();
  {
    g_autoptr (GCudaAllocationStatistics) statistics = gcuda_statistics_memory_resource_get_statistics (counted);

    g_assert_cmpuint (gcuda_allocation_statistics_get_current_bytes (statistics), ==, 0);
    g_assert_cmpuint (gcuda_allocation_statistics_get_current_count (statistics), ==, 0);
    g_assert_cmpuint (gcuda_allocation_statistics_get_total_count (statistics), ==, 4 * 400);
    g_assert_cmpuint (gcuda_allocation_statistics_get_failed_count (statistics), ==, 0);
    g_assert_cmpuint (gcuda_allocation_statistics_get_peak_count (statistics), >=, 2);
  }
  g_assert_cmpuint (gcuda_limiting_memory_resource_get_used (limited), ==, 0);
  g_assert_finalize_object (g_steal_pointer (&counted));
}

/* Of what frees in stream order and what does not: the stream is waited for, and freed on as any. */
static void
test_mixed_bins (Bed *bed,
                 gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaMemoryResource) synchronous = GCUDA_MEMORY_RESOURCE (gcuda_synchronous_memory_resource_new (bed->context, &error));
  g_autoptr (GCudaBinningMemoryResource) binned = gcuda_binning_memory_resource_new (bed->resource);
  g_autoptr (GCudaStatisticsMemoryResource) counted = NULL;
  GCudaStream *streams[4];

  g_assert_no_error (error);
  g_assert_true (gcuda_binning_memory_resource_add_bin (binned, 1024, synchronous, &error));
  counted = gcuda_statistics_memory_resource_new (GCUDA_MEMORY_RESOURCE (binned));
  streams[0] = gcuda_stream_new_legacy_default (bed->context, &error);
  streams[1] = gcuda_stream_new_per_thread_default (bed->context, &error);
  streams[2] = g_object_ref (bed->stream);
  streams[3] = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < G_N_ELEMENTS (streams); i++)
    for (guint64 size = 64; size <= MIB; size *= MIB / 64)
      {
        GCudaBuffer *buffer = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (counted), size, streams[i], &error);
        CUgraph graph = NULL;

        g_assert_no_error (error);
        pattern_fill (buffer, 1, streams[i]);
        if (i == 3)
          {
            /* Nothing is freed on it before the capture has ended. */
            CUstream handle = gcuda_stream_get_cuda_stream (streams[i]);

            g_assert_true (gcuda_stream_synchronize (streams[i], &error));
            assert_cuda (RAW (cuStreamBeginCapture) (handle, CU_STREAM_CAPTURE_MODE_RELAXED));
            g_object_unref (buffer);
            g_usleep (10000);
            assert_cuda (RAW (cuStreamEndCapture) (handle, &graph));
            assert_cuda (RAW (cuGraphDestroy) (graph));
          }
        else
          g_object_unref (buffer);
        bed_assert_use (bed, 0);
      }
  for (guint i = 0; i < G_N_ELEMENTS (streams); i++)
    g_object_unref (streams[i]);
  settle ();
  {
    g_autoptr (GCudaAllocationStatistics) statistics = gcuda_statistics_memory_resource_get_statistics (counted);

    g_assert_cmpuint (gcuda_allocation_statistics_get_current_bytes (statistics), ==, 0);
  }
}

/* Limits */

static void
test_limit (Bed *bed,
            gconstpointer data)
{
  g_autoptr (GCudaMemoryResource) upstream = make_upstream (bed, (Upstream) GPOINTER_TO_INT (data));
  g_autoptr (GCudaLimitingMemoryResource) resource = gcuda_limiting_memory_resource_new (upstream, MIB);
  g_autoptr (GError) error = NULL;
  GCudaBuffer *half, *rest;
  gint notified = 0;

  half = allocate (resource, MIB / 2, bed->stream);
  rest = allocate (resource, MIB / 2, bed->stream);
  g_assert_cmpuint (gcuda_limiting_memory_resource_get_used (resource), ==, MIB);
  g_assert_null (gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (resource), 1, bed->stream, &error));
  g_assert_nonnull (strstr (error->message, "limited to 1.0"));
  assert_error_and_clear (error, GCUDA_ERROR_OUT_OF_MEMORY);
  g_assert_null (gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (resource), G_MAXSIZE / 2, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_OUT_OF_MEMORY);
  g_assert_cmpuint (gcuda_limiting_memory_resource_get_used (resource), ==, MIB);

  /* What waits for its stream is waited for; not so for a program's own resource, which may have to run on this thread. */
  g_object_unref (half);
  if (GPOINTER_TO_INT (data) == UPSTREAM_PROGRAM)
    settle ();
  half = allocate (resource, MIB / 2, bed->stream);
  g_object_unref (half);
  settle ();
  g_assert_cmpuint (gcuda_limiting_memory_resource_get_used (resource), ==, MIB / 2);

  g_signal_connect (resource, "notify::limit", G_CALLBACK (count_notify), &notified);
  gcuda_limiting_memory_resource_set_limit (resource, 100);
  gcuda_limiting_memory_resource_set_limit (resource, 100);
  g_assert_cmpint (notified, ==, 1);
  g_assert_cmpuint (gcuda_limiting_memory_resource_get_limit (resource), ==, 100);
  g_assert_null (gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (resource), 1, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_OUT_OF_MEMORY);
  g_object_unref (rest);
  settle ();
  g_assert_cmpuint (gcuda_limiting_memory_resource_get_used (resource), ==, 0);
  g_object_unref (allocate (resource, 100, bed->stream));
  settle ();
}

/* A failure upstream gives back what was taken of the limit. */
static void
test_limit_upstream_fails (Bed *bed,
                           gconstpointer data)
{
  g_autoptr (Stubborn) upstream = stubborn_new (bed);
  g_autoptr (GCudaLimitingMemoryResource) resource = gcuda_limiting_memory_resource_new (GCUDA_MEMORY_RESOURCE (upstream), MIB);
  g_autoptr (GError) error = NULL;

  upstream->failures = 1;
  upstream->own_error = TRUE;
  g_assert_null (gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (resource), MIB, bed->stream, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_BUSY);
  g_clear_error (&error);
  g_assert_cmpuint (gcuda_limiting_memory_resource_get_used (resource), ==, 0);
  g_object_unref (allocate (resource, MIB, bed->stream));
  settle ();
}

/* Alignment */

static void
test_aligned (Bed *bed,
              gconstpointer data)
{
  g_autoptr (GCudaMemoryResource) upstream = make_upstream (bed, (Upstream) GPOINTER_TO_INT (data));
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaAlignedMemoryResource) resource = NULL;
  guint64 address;

  for (guint64 alignment = 1; alignment <= MIB; alignment *= 16)
    {
      g_autoptr (GCudaAlignedMemoryResource) aligned = gcuda_aligned_memory_resource_new (upstream, alignment, &error);
      g_autoptr (GPtrArray) buffers = g_ptr_array_new_with_free_func (g_object_unref);

      g_assert_no_error (error);
      g_assert_cmpuint (gcuda_aligned_memory_resource_get_alignment (aligned), ==, alignment);
      for (guint i = 0; i < 5; i++)
        {
          GCudaBuffer *buffer = allocate (aligned, 1000 + i, bed->stream);

          g_ptr_array_add (buffers, buffer);
          g_assert_cmpuint (gcuda_buffer_get_address (buffer) % MAX (alignment, 256), ==, 0);
          pattern_fill (buffer, (guint8) i, bed->stream);
        }
      for (guint i = 0; i < 5; i++)
        pattern_assert (g_ptr_array_index (buffers, i), (guint8) i, bed->stream);
    }
  settle ();

  resource = gcuda_aligned_memory_resource_new (upstream, 65536, &error);
  address = gcuda_memory_resource_allocate_address (GCUDA_MEMORY_RESOURCE (resource), 100, 65536, bed->stream, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (address % 65536, ==, 0);
  g_assert_true (gcuda_memory_resource_deallocate_address (GCUDA_MEMORY_RESOURCE (resource), address, 100, 65536, bed->stream, &error));
  g_assert_no_error (error);
  g_assert_null (gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (resource), G_MAXSIZE / 2 - 100, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_OUT_OF_MEMORY);
  /* What has no such resource says which there is. */
  g_assert_cmpuint (gcuda_memory_resource_allocate_address (bed->resource, 100, 65536, bed->stream, &error), ==, 0);
  g_assert_nonnull (strstr (error->message, "GCudaAlignedMemoryResource"));
  assert_error_and_clear (error, GCUDA_ERROR_NOT_SUPPORTED);
  g_assert_null (gcuda_aligned_memory_resource_new (upstream, 0, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_null (gcuda_aligned_memory_resource_new (upstream, 384, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
}

/* Bins */

static void
test_binning (Bed *bed,
              gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaStatisticsMemoryResource) small = gcuda_statistics_memory_resource_new (bed->resource);
  g_autoptr (GCudaSynchronousMemoryResource) synchronous = gcuda_synchronous_memory_resource_new (bed->context, &error);
  g_autoptr (GCudaStatisticsMemoryResource) medium = gcuda_statistics_memory_resource_new (GCUDA_MEMORY_RESOURCE (synchronous));
  g_autoptr (GCudaMemoryResource) upstream = make_upstream (bed, (Upstream) GPOINTER_TO_INT (data));
  g_autoptr (GCudaStatisticsMemoryResource) large = gcuda_statistics_memory_resource_new (upstream);
  g_autoptr (GCudaBinningMemoryResource) resource = gcuda_binning_memory_resource_new (GCUDA_MEMORY_RESOURCE (large));
  static const guint64 sizes[] = { 1, 1024, 1025, MIB, MIB + 1 };
  GCudaBuffer *buffers[G_N_ELEMENTS (sizes)];

  g_assert_true (gcuda_binning_memory_resource_add_bin (resource, MIB, GCUDA_MEMORY_RESOURCE (medium), &error));
  g_assert_true (gcuda_binning_memory_resource_add_bin (resource, 1024, GCUDA_MEMORY_RESOURCE (small), &error));
  g_assert_no_error (error);
  g_assert_false (gcuda_binning_memory_resource_add_bin (resource, 1024, GCUDA_MEMORY_RESOURCE (small), &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_false (gcuda_binning_memory_resource_add_bin (resource, 0, GCUDA_MEMORY_RESOURCE (small), &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  {
    g_autoptr (GCudaBinningMemoryResource) bare = g_object_new (GCUDA_TYPE_BINNING_MEMORY_RESOURCE, NULL);

    g_assert_false (gcuda_binning_memory_resource_add_bin (bare, 5, GCUDA_MEMORY_RESOURCE (small), &error));
    g_assert_nonnull (strstr (error->message, "no upstream"));
    assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  }
  g_assert_false (gcuda_binning_memory_resource_add_bin (resource, 5, NULL, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_false (gcuda_binning_memory_resource_add_bin (resource, 5, GCUDA_MEMORY_RESOURCE (resource), &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      buffers[i] = allocate (resource, sizes[i], bed->stream);
      pattern_fill (buffers[i], (guint8) i, bed->stream);
    }
  assert_statistics (small, 1025, 1025, 1025, 2, 2, 2, 0);
  assert_statistics (medium, 1025 + MIB, 1025 + MIB, 1025 + MIB, 2, 2, 2, 0);
  assert_statistics (large, MIB + 1, MIB + 1, MIB + 1, 1, 1, 1, 0);
  g_assert_false (gcuda_binning_memory_resource_add_bin (resource, 5, GCUDA_MEMORY_RESOURCE (small), &error));
  assert_error_and_clear (error, GCUDA_ERROR_IN_USE);
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      pattern_assert (buffers[i], (guint8) i, bed->stream);
      g_object_unref (buffers[i]);
    }
  settle ();
  assert_statistics (small, 0, 1025, 1025, 0, 2, 2, 0);
  assert_statistics (medium, 0, 1025 + MIB, 1025 + MIB, 0, 2, 2, 0);
  assert_statistics (large, 0, MIB + 1, MIB + 1, 0, 1, 1, 0);
}

/* An adaptor that is built on a binning one knows what that is, which no other bin may change. */
static void
test_binning_built_on (Bed *bed,
                       gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBinningMemoryResource) resource = gcuda_binning_memory_resource_new (bed->resource);
  g_autoptr (GCudaStatisticsMemoryResource) above = gcuda_statistics_memory_resource_new (GCUDA_MEMORY_RESOURCE (resource));
  g_autoptr (Stubborn) program = stubborn_new (bed);
  g_autoptr (GCudaBinningMemoryResource) outer = gcuda_binning_memory_resource_new (bed->resource);
  g_autoptr (GCudaBinningMemoryResource) inner = gcuda_binning_memory_resource_new (bed->resource);

  g_assert_false (gcuda_binning_memory_resource_add_bin (resource, MIB, GCUDA_MEMORY_RESOURCE (program), &error));
  assert_error_and_clear (error, GCUDA_ERROR_IN_USE);
  g_object_unref (allocate (above, 100, bed->stream));
  g_assert_cmpuint (program->allocated, ==, 0);
  g_assert_true (gcuda_binning_memory_resource_add_bin (outer, MIB, GCUDA_MEMORY_RESOURCE (inner), &error));
  g_assert_no_error (error);
  g_assert_false (gcuda_binning_memory_resource_add_bin (inner, MIB, GCUDA_MEMORY_RESOURCE (program), &error));
  assert_error_and_clear (error, GCUDA_ERROR_IN_USE);
  g_object_unref (allocate (outer, 100, bed->stream));
}

/* A program's bin that does not free in stream order, under an upstream that does. */
static void
test_binning_order (Bed *bed,
                    gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBinningMemoryResource) resource = gcuda_binning_memory_resource_new (bed->resource);
  g_autoptr (Stubborn) program = stubborn_new (bed);
  GCudaBuffer *buffer;

  g_assert_true (gcuda_binning_memory_resource_add_bin (resource, MIB, GCUDA_MEMORY_RESOURCE (program), &error));
  g_assert_no_error (error);
  buffer = allocate (resource, 100, bed->stream);
  g_assert_cmpuint (program->allocated, ==, 1);
  gcuda_test_hold (bed->stream);
  pattern_fill (buffer, 3, bed->stream);
  g_assert_true (gcuda_buffer_close (buffer, NULL, &error));
  g_object_unref (buffer);
  g_assert_cmpuint (program->deallocated, ==, 0);
  gcuda_test_let_go ();
  settle ();
  g_assert_cmpuint (program->deallocated, ==, 1);
}

/* All bins keep to what is said of the whole. */
static void
test_binning_mixed (Bed *bed,
                    gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaAlignedMemoryResource) aligned = gcuda_aligned_memory_resource_new (bed->resource, 65536, &error);
  g_autoptr (GCudaBinningMemoryResource) resource = gcuda_binning_memory_resource_new (GCUDA_MEMORY_RESOURCE (aligned));
  g_autoptr (GCudaMemoryResource) graphs = NULL;
  g_autoptr (GCudaBinningMemoryResource) of_graphs = NULL;

  g_assert_no_error (error);
  g_assert_true (gcuda_binning_memory_resource_add_bin (resource, MIB, bed->resource, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (gcuda_memory_resource_allocate_address (GCUDA_MEMORY_RESOURCE (resource), 100, 65536, bed->stream, &error), ==, 0);
  assert_error_and_clear (error, GCUDA_ERROR_NOT_SUPPORTED);

  graphs = GCUDA_MEMORY_RESOURCE (gcuda_graph_memory_resource_new (bed->device, &error));
  if (g_error_matches (error, GCUDA_ERROR, GCUDA_ERROR_NOT_SUPPORTED))
    return;
  g_assert_no_error (error);
  g_clear_object (&resource);
  resource = gcuda_binning_memory_resource_new (bed->resource);
  g_assert_false (gcuda_binning_memory_resource_add_bin (resource, MIB, graphs, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  of_graphs = gcuda_binning_memory_resource_new (graphs);
  g_assert_false (gcuda_binning_memory_resource_add_bin (of_graphs, MIB, bed->resource, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_true (gcuda_binning_memory_resource_add_bin (of_graphs, MIB, graphs, &error));
  g_assert_no_error (error);
}

/* Failures */

typedef struct
{
  GPtrArray *cache;
  guint asked, last_attempt;
  guint64 last_size;
  guint give_up_after;
} Cache;

static gboolean
make_room (GCudaFailureCallbackMemoryResource *resource,
           guint64 size,
           guint attempt,
           const GError *reason,
           gpointer data)
{
  Cache *cache = data;

  g_assert_nonnull (reason);
  cache->asked++;
  cache->last_attempt = attempt;
  cache->last_size = size;
  if (attempt > cache->give_up_after)
    return FALSE;
  g_ptr_array_set_size (cache->cache, 0);
  return TRUE;
}

static void
test_failure_callback (Bed *bed,
                       gconstpointer data)
{
  g_autoptr (GCudaLimitingMemoryResource) limited = gcuda_limiting_memory_resource_new (bed->resource, MIB);
  g_autoptr (GCudaFailureCallbackMemoryResource) resource = gcuda_failure_callback_memory_resource_new (GCUDA_MEMORY_RESOURCE (limited));
  g_autoptr (GCudaBuffer) buffer = NULL;
  g_autoptr (GError) error = NULL;
  Cache cache = { g_ptr_array_new_with_free_func (g_object_unref), .give_up_after = 3 };

  /* Nobody listens. */
  g_assert_null (gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (resource), 2 * MIB, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_OUT_OF_MEMORY);
  g_signal_connect (resource, "allocation-failed", G_CALLBACK (make_room), &cache);
  g_ptr_array_add (cache.cache, allocate (resource, MIB / 2, bed->stream));
  g_ptr_array_add (cache.cache, allocate (resource, MIB / 2, bed->stream));
  g_assert_cmpuint (cache.asked, ==, 0);
  buffer = allocate (resource, MIB, bed->stream);
  g_assert_cmpuint (cache.asked, ==, 1);
  g_assert_cmpuint (cache.last_size, ==, MIB);
  pattern_fill (buffer, 5, bed->stream);
  pattern_assert (buffer, 5, bed->stream);
  /* It gives up. */
  g_assert_null (gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (resource), 2 * MIB, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_OUT_OF_MEMORY);
  g_assert_cmpuint (cache.last_attempt, ==, 4);
  g_clear_object (&buffer);
  g_ptr_array_unref (cache.cache);
}

/* Memory that is about to be freed is waited for before a handler is asked, and what that one says is said once. */
static void
test_failure_callback_once (Bed *bed,
                            gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaSynchronousMemoryResource) synchronous = gcuda_synchronous_memory_resource_new (bed->context, &error);
  g_autoptr (GCudaLimitingMemoryResource) limited = gcuda_limiting_memory_resource_new (GCUDA_MEMORY_RESOURCE (synchronous), MIB);
  g_autoptr (GCudaFailureCallbackMemoryResource) resource = gcuda_failure_callback_memory_resource_new (GCUDA_MEMORY_RESOURCE (limited));
  Cache cache = { g_ptr_array_new_with_free_func (g_object_unref), .give_up_after = 0 };
  GCudaBuffer *buffer = allocate (resource, MIB, bed->stream);

  g_signal_connect (resource, "allocation-failed", G_CALLBACK (make_room), &cache);
  pattern_fill (buffer, 5, bed->stream);
  g_object_unref (buffer);
  buffer = allocate (resource, MIB, bed->stream);
  g_assert_cmpuint (cache.asked, ==, 0);
  gcuda_test_hold (bed->stream);
  pattern_fill (buffer, 6, bed->stream);
  g_object_unref (buffer);
  g_assert_null (gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (resource), MIB, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_OUT_OF_MEMORY);
  g_assert_cmpuint (cache.asked, ==, 1);
  gcuda_test_let_go ();
  settle ();
  g_ptr_array_unref (cache.cache);
}

/* Over a program's, whose error it is. */
static void
test_failure_callback_program (Bed *bed,
                               gconstpointer data)
{
  g_autoptr (Stubborn) upstream = stubborn_new (bed);
  g_autoptr (GCudaFailureCallbackMemoryResource) resource = gcuda_failure_callback_memory_resource_new (GCUDA_MEMORY_RESOURCE (upstream));
  g_autoptr (GError) error = NULL;
  Cache cache = { g_ptr_array_new_with_free_func (g_object_unref), .give_up_after = 2 };

  g_signal_connect (resource, "allocation-failed", G_CALLBACK (make_room), &cache);
  upstream->failures = 2;
  upstream->own_error = TRUE;
  g_object_unref (allocate (resource, 512, bed->stream));
  g_assert_cmpuint (cache.asked, ==, 2);
  upstream->failures = 5;
  g_assert_null (gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (resource), 512, bed->stream, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_BUSY);
  g_assert_cmpuint (cache.last_attempt, ==, 3);
  g_assert_cmpuint (upstream->failures, ==, 2);
  g_ptr_array_unref (cache.cache);
  settle ();
}

/* Threads */

typedef struct
{
  gpointer resource;
  GCudaStream *stream;
  GCudaBuffer *buffer;
} Elsewhere;

static gpointer
use_elsewhere (gpointer data)
{
  Elsewhere *elsewhere = data;
  g_autoptr (GError) error = NULL;

  g_assert_null (gcuda_memory_resource_allocate (elsewhere->resource, 100, elsewhere->stream, &error));
  g_assert_error (error, GCUDA_ERROR, GCUDA_ERROR_WRONG_THREAD);
  /* It may not be this one's class that says so. */
  g_assert_nonnull (strstr (error->message, "that it is built on"));
  assert_error_and_clear (error, GCUDA_ERROR_WRONG_THREAD);
  g_clear_object (&elsewhere->buffer);
  return NULL;
}

static void
test_bound (Bed *bed,
            gconstpointer data)
{
  g_autoptr (Stubborn) program = stubborn_new (bed);
  g_autoptr (GCudaThreadBoundMemoryResource) bound = gcuda_thread_bound_memory_resource_new (bed->resource);
  g_autoptr (GCudaStatisticsMemoryResource) counted = gcuda_statistics_memory_resource_new (GCUDA_MEMORY_RESOURCE (bound));
  g_autoptr (GCudaStatisticsMemoryResource) counted_program = gcuda_statistics_memory_resource_new (GCUDA_MEMORY_RESOURCE (program));
  g_autoptr (GCudaFailureCallbackMemoryResource) calling = gcuda_failure_callback_memory_resource_new (bed->resource);
  gpointer resources[] = { bound, counted, counted_program, calling };

  for (gsize i = 0; i < G_N_ELEMENTS (resources); i++)
    {
      Elsewhere elsewhere = { resources[i], bed->stream, allocate (resources[i], 512, bed->stream) };

      pattern_fill (elsewhere.buffer, 3, bed->stream);
      in_thread (use_elsewhere, &elsewhere);
      settle ();
    }
  g_assert_cmpuint (program->deallocated, ==, 1);
  g_assert_true (program->last_thread == g_thread_self ());
  assert_statistics (counted, 0, 512, 512, 0, 1, 1, 0);
  assert_statistics (counted_program, 0, 512, 512, 0, 1, 1, 0);
}

/* A subclass that a program writes: it overrides, and chains up. */
typedef struct
{
  GCudaStatisticsMemoryResource parent_instance;

  guint allocated, deallocated;
} Doubling;

typedef GCudaStatisticsMemoryResourceClass DoublingClass;

static GType doubling_get_type (void);
G_DEFINE_TYPE (Doubling, doubling, GCUDA_TYPE_STATISTICS_MEMORY_RESOURCE)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Doubling, g_object_unref)

static guint64
doubling_allocate (GCudaMemoryResource *resource,
                   guint64 size,
                   guint64 alignment,
                   GCudaStream *stream,
                   GError **error)
{
  ((Doubling *) resource)->allocated++;
  return GCUDA_MEMORY_RESOURCE_CLASS (doubling_parent_class)->allocate_address (resource, 2 * size, alignment, stream, error);
}

static void
doubling_deallocate (GCudaMemoryResource *resource,
                     guint64 address,
                     guint64 size,
                     guint64 alignment,
                     GCudaStream *stream)
{
  ((Doubling *) resource)->deallocated++;
  GCUDA_MEMORY_RESOURCE_CLASS (doubling_parent_class)->deallocate_address (resource, address, 2 * size, alignment, stream);
}

static void
doubling_class_init (DoublingClass *klass)
{
  GCUDA_MEMORY_RESOURCE_CLASS (klass)->allocate_address = doubling_allocate;
  GCUDA_MEMORY_RESOURCE_CLASS (klass)->deallocate_address = doubling_deallocate;
}

static void
doubling_init (Doubling *self)
{
}

static void
test_subclass (Bed *bed,
               gconstpointer data)
{
  g_autoptr (GCudaMemoryResource) upstream = make_upstream (bed, (Upstream) GPOINTER_TO_INT (data));
  g_autoptr (Doubling) resource = g_object_new (doubling_get_type (), "upstream", upstream, NULL);
  g_autoptr (GCudaStatisticsMemoryResource) above = gcuda_statistics_memory_resource_new (GCUDA_MEMORY_RESOURCE (resource));
  GCudaBuffer *buffer = allocate (above, 512, bed->stream);

  pattern_fill (buffer, 9, bed->stream);
  pattern_assert (buffer, 9, bed->stream);
  g_object_unref (buffer);
  settle ();
  g_assert_cmpuint (resource->allocated, ==, 1);
  g_assert_cmpuint (resource->deallocated, ==, 1);
  assert_statistics (GCUDA_STATISTICS_MEMORY_RESOURCE (resource), 0, 1024, 1024, 0, 1, 1, 0);
  assert_statistics (above, 0, 512, 512, 0, 1, 1, 0);
}

/* Made by bare new: it says what it lacks. */
static void
test_bare (Bed *bed,
           gconstpointer data)
{
  const GType types[] = {
    GCUDA_TYPE_STATISTICS_MEMORY_RESOURCE,
    GCUDA_TYPE_LIMITING_MEMORY_RESOURCE,
    GCUDA_TYPE_LOGGING_MEMORY_RESOURCE,
    GCUDA_TYPE_FAILURE_CALLBACK_MEMORY_RESOURCE,
    GCUDA_TYPE_ALIGNED_MEMORY_RESOURCE,
    GCUDA_TYPE_THREAD_BOUND_MEMORY_RESOURCE,
    GCUDA_TYPE_BINNING_MEMORY_RESOURCE,
  };

  for (gsize i = 0; i < G_N_ELEMENTS (types); i++)
    {
      g_autoptr (GObject) object = g_object_new (types[i], NULL);
      g_autoptr (GCudaBuffer) empty = NULL;
      g_autoptr (GError) error = NULL;

      g_assert_null (gcuda_memory_resource_adaptor_get_upstream (GCUDA_MEMORY_RESOURCE_ADAPTOR (object)));
      g_assert_null (gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (object), 100, bed->stream, &error));
      assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
      g_assert_null (gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (object), 100, NULL, &error));
      assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
    }
}

/* What upstream allocates is where upstream allocates it, whatever the adaptor was made with. */
static void
test_device (Bed *bed,
             gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaDevice) other = gcuda_device_new (1, &error);
  g_autoptr (GCudaMemoryResource) resource = NULL;

  if (other == NULL)
    {
      g_test_skip ("there is one device");
      return;
    }
  resource = g_object_new (GCUDA_TYPE_LIMITING_MEMORY_RESOURCE, "upstream", bed->resource, "device", other, NULL);
  g_assert_true (gcuda_memory_resource_get_device (resource) == bed->device);
}

/* Over one that was never opened, or on a stream that is being captured. */
static void
test_refused (Bed *bed,
              gconstpointer data)
{
  g_autoptr (GCudaMemoryResource) closed = g_object_new (GCUDA_TYPE_SYNCHRONOUS_MEMORY_RESOURCE, NULL);
  g_autoptr (GCudaStatisticsMemoryResource) over_closed = gcuda_statistics_memory_resource_new (closed);
  g_autoptr (GCudaStatisticsMemoryResource) resource = gcuda_statistics_memory_resource_new (bed->resource);
  g_autoptr (GError) error = NULL;
  CUstream stream = gcuda_stream_get_cuda_stream (bed->stream);
  CUcontext popped;
  CUgraph graph = NULL;

  g_assert_null (gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (over_closed), 100, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  assert_cuda (RAW (cuCtxPushCurrent) (gcuda_context_get_cuda_context (bed->context)));
  assert_cuda (RAW (cuStreamBeginCapture) (stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  g_assert_null (gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (resource), 100, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CAPTURING);
  assert_cuda (RAW (cuStreamEndCapture) (stream, &graph));
  assert_cuda (RAW (cuGraphDestroy) (graph));
  assert_cuda (RAW (cuCtxPopCurrent) (&popped));
  assert_statistics (resource, 0, 0, 0, 0, 0, 0, 0);
}

/* Traces */

static char **
read_lines (GFile *file)
{
  g_autofree char *text = NULL;
  g_autoptr (GError) error = NULL;

  g_file_load_contents (file, NULL, &text, NULL, NULL, &error);
  g_assert_no_error (error);
  g_assert_true (g_str_has_suffix (text, "\n"));
  text[strlen (text) - 1] = '\0';
  return g_strsplit (text, "\n", -1);
}

static void
test_logging (Bed *bed,
              gconstpointer data)
{
  g_autoptr (GCudaMemoryResource) upstream = make_upstream (bed, (Upstream) GPOINTER_TO_INT (data));
  g_autofree char *path = g_strdup_printf ("%s/gcuda-trace-%d-%d", g_get_tmp_dir (), (int) getpid (), GPOINTER_TO_INT (data));
  g_autoptr (GFile) file = g_file_new_for_path (path);
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaLoggingMemoryResource) resource = NULL;
  g_autoptr (GCudaStream) legacy = gcuda_stream_new_legacy_default (bed->context, &error);
  g_autoptr (GCudaStatisticsMemoryResource) counted = gcuda_statistics_memory_resource_new (bed->resource);
  g_autofree char *address_text = NULL;
  g_auto (GStrv) lines = NULL;
  GCudaBuffer *first, *second;

  g_file_set_contents (path, "what was there before\n", -1, &error);
  g_assert_no_error (error);
  resource = gcuda_logging_memory_resource_new (upstream, file, &error);
  g_assert_no_error (error);
  g_assert_true (g_file_equal (gcuda_logging_memory_resource_get_file (resource), file));
  first = allocate (resource, 1000, bed->stream);
  second = allocate (resource, 2000, legacy);
  address_text = g_strdup_printf ("0x%" G_GINT64_MODIFIER "x", gcuda_buffer_get_address (first));
  g_assert_null (gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (resource), (guint64) 1 << 46, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_OUT_OF_MEMORY);
  g_assert_true (gcuda_stream_wait_stream (legacy, bed->stream, &error));
  g_assert_true (gcuda_buffer_close (first, legacy, &error));
  g_assert_no_error (error);
  settle ();
  lines = read_lines (file);
  g_assert_cmpstr (lines[0], ==, "# gcuda-trace 1");
  {
    g_auto (GStrv) words = g_strsplit (lines[1], " ", -1);

    g_assert_cmpuint (g_strv_length (words), ==, 7);
    g_assert_cmpstr (words[2], ==, "allocate");
    g_assert_cmpstr (words[3], ==, address_text);
    g_assert_cmpstr (words[4], ==, "1000");
    g_assert_cmpstr (words[5], ==, "256");
    g_assert_true (words[6][0] == 's');
  }
  g_assert_true (g_str_has_suffix (lines[2], " 2000 256 legacy"));
  g_assert_nonnull (strstr (lines[3], " fail 0x0 70368744177664 256 s"));
  g_assert_true (g_str_has_suffix (lines[3], " 2"));
  {
    const char *last = lines[g_strv_length (lines) - 1];

    g_assert_nonnull (strstr (last, " free 0x"));
    g_assert_nonnull (strstr (last, address_text));
    g_assert_true (g_str_has_suffix (last, " 1000 256 legacy"));
  }
  g_object_unref (first);

  /* It runs again; what the trace does not free goes at the end. */
  g_assert_true (gcuda_replay_trace (file, GCUDA_MEMORY_RESOURCE (counted), NULL, &error));
  g_assert_no_error (error);
  settle ();
  assert_statistics (counted, 0, 3000, 3000, 0, 2, 2, 0);
  g_object_unref (second);
  settle ();
  g_assert_cmpint (g_unlink (path), ==, 0);
}

static void
test_bad_traces (Bed *bed,
                 gconstpointer data)
{
  static const struct
  {
    const char *text;
    const char *says;
  } rows[] = {
    { "", "line 1" },
    { "# gcuda-trace 2\n", "line 1" },
    { "\n", "line 1" },
    { "# gcuda-trace 1\nnonsense\n", "line 2" },
    { "# gcuda-trace 1\n\n", "line 2" },
    { "# gcuda-trace 1\n# remark\n1 1 allocate 0x10 5 256\n", "line 3" },
    { "# gcuda-trace 1\n1 1 allocate 10 5 256 s1\n", "line 2" },
    { "# gcuda-trace 1\n1 1 allocate 0x 5 256 s1\n", "line 2" },
    { "# gcuda-trace 1\n1 1 allocate 0x10 0 256 s1\n", "line 2" },
    { "# gcuda-trace 1\n1 1 allocate 0x10 -5 256 s1\n", "line 2" },
    { "# gcuda-trace 1\n1 1 allocate 0x10 99999999999999999999 256 s1\n", "line 2" },
    { "# gcuda-trace 1\n1 1 allocate 0x10 5 255 s1\n", "line 2" },
    { "# gcuda-trace 1\n1 1 allocate 0x10 5 256 1\n", "line 2" },
    { "# gcuda-trace 1\n1 1 allocate 0x10 5 256 s1 more\n", "line 2" },
    { "# gcuda-trace 1\n1 1 lend 0x10 5 256 s1\n", "line 2" },
    { "# gcuda-trace 1\nx 1 allocate 0x10 5 256 s1\n", "line 2" },
    { "# gcuda-trace 1\n1 1 free 0x10 5 256 s1\n", "line 2" },
    { "# gcuda-trace 1\n1 1 fail 0x0 5 256 s1\n", "line 2" },
    { "# gcuda-trace 1\n1 1 allocate 0x10 5 256 s1\n2 1 allocate 0x10 5 256 s1\n", "line 3" },
    { "# gcuda-trace 1\n1 1 allocate 0x10 5 256 s1\n2 1 free 0x10 5 256 s1\n3 1 free 0x10 5 256 s1\n", "line 4" },
    { "# gcuda-trace 1\n1 1 allocate 0x10 5 256 s1\n\xff\xfe\n", "line 3" },
  };
  g_autofree char *path = g_strdup_printf ("%s/gcuda-bad-trace-%d", g_get_tmp_dir (), (int) getpid ());
  g_autoptr (GFile) file = g_file_new_for_path (path);
  g_autoptr (GCudaStatisticsMemoryResource) counted = gcuda_statistics_memory_resource_new (bed->resource);
  g_autoptr (GCancellable) cancelled = g_cancellable_new ();
  g_autoptr (GError) error = NULL;

  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_file_set_contents (path, rows[i].text, -1, &error);
      g_assert_no_error (error);
      g_assert_false (gcuda_replay_trace (file, GCUDA_MEMORY_RESOURCE (counted), NULL, &error));
      g_test_message ("%s", error->message);
      g_assert_nonnull (strstr (error->message, rows[i].says));
      assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
    }
  assert_statistics (counted, 0, 0, 0, 0, 0, 0, 0);

  /* What the resource refuses, with the line; and what was allocated before goes. */
  g_file_set_contents (path, "# gcuda-trace 1\n1 1 allocate 0x10 5 256 s1\n1 1 allocate 0x20 70368744177664 256 s1\n", -1, &error);
  g_assert_no_error (error);
  g_assert_false (gcuda_replay_trace (file, GCUDA_MEMORY_RESOURCE (counted), NULL, &error));
  g_assert_nonnull (strstr (error->message, "line 3"));
  assert_error_and_clear (error, GCUDA_ERROR_OUT_OF_MEMORY);
  settle ();
  {
    g_autoptr (GCudaAllocationStatistics) statistics = gcuda_statistics_memory_resource_get_statistics (counted);

    g_assert_cmpuint (gcuda_allocation_statistics_get_current_count (statistics), ==, 0);
    g_assert_cmpuint (gcuda_allocation_statistics_get_total_count (statistics), ==, 1);
  }
  g_cancellable_cancel (cancelled);
  g_assert_false (gcuda_replay_trace (file, GCUDA_MEMORY_RESOURCE (counted), cancelled, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_clear_error (&error);
  g_assert_cmpint (g_unlink (path), ==, 0);
  g_assert_false (gcuda_replay_trace (file, GCUDA_MEMORY_RESOURCE (counted), NULL, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND);
}

/* The program that replays: what it prints, and how it ends. */
static int
run_tool (const char *resource,
          const char *path,
          char **output,
          char **complaints)
{
  g_autofree char *tool = g_test_build_filename (G_TEST_BUILT, "..", "gcudamem", "gcuda", NULL);
  const char *const arguments[] = { tool, "replay", "--resource", resource, path, NULL };
  g_autoptr (GError) error = NULL;
  int status = 0;

  g_spawn_sync (NULL, (char **) arguments, NULL, G_SPAWN_DEFAULT, NULL, NULL, output, complaints, &status, &error);
  g_assert_no_error (error);
  g_assert_true (WIFEXITED (status));
  return WEXITSTATUS (status);
}

static void
test_tool (Bed *bed,
           gconstpointer data)
{
  g_autofree char *path = g_strdup_printf ("%s/gcuda-tool-trace-%d", g_get_tmp_dir (), (int) getpid ());
  g_autoptr (GFile) file = g_file_new_for_path (path);
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaLoggingMemoryResource) resource = gcuda_logging_memory_resource_new (bed->resource, file, &error);
  static const char *const names[] = { "pool", "synchronous", "virtual", "pinned", "managed" };

  g_assert_no_error (error);
  for (guint i = 0; i < 3; i++)
    g_object_unref (allocate (resource, 4096, bed->stream));
  for (gsize i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autofree char *output = NULL;
      g_autofree char *complaints = NULL;

      g_assert_cmpint (run_tool (names[i], path, &output, &complaints), ==, 0);
      g_assert_true (g_str_has_prefix (output, "3 allocations, 12.0"));
    }
  {
    g_autofree char *output = NULL;
    g_autofree char *complaints = NULL;

    g_assert_cmpint (run_tool ("nothing", path, &output, &complaints), ==, 2);
    g_assert_nonnull (strstr (complaints, "nothing"));
    g_clear_pointer (&output, g_free);
    g_clear_pointer (&complaints, g_free);
    g_file_set_contents (path, "# gcuda-trace 1\ngarbage\n", -1, &error);
    g_assert_no_error (error);
    g_assert_cmpint (run_tool ("pool", path, &output, &complaints), ==, 1);
    g_assert_nonnull (strstr (complaints, "line 2"));
    g_assert_cmpstr (output, ==, "");
  }
  g_assert_cmpint (g_unlink (path), ==, 0);
}

/* A file that can't be written: an error when it is made, and a warning once when it happens later. */
static void
test_logging_fails (Bed *bed,
                    gconstpointer data)
{
  g_autoptr (GFile) nowhere = g_file_new_for_path ("/nonexistent/trace");
  g_autoptr (GFile) full = g_file_new_for_path ("/dev/full");
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaMemoryResource) late = NULL;

  g_assert_null (gcuda_logging_memory_resource_new (bed->resource, nowhere, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND);
  g_clear_error (&error);
  g_assert_null (gcuda_logging_memory_resource_new (bed->resource, full, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_NO_SPACE);
  g_clear_error (&error);
  g_assert_null (gcuda_logging_memory_resource_new (bed->resource, NULL, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  late = g_object_new (GCUDA_TYPE_LOGGING_MEMORY_RESOURCE, "upstream", bed->resource, "file", nowhere, NULL);
  g_assert_null (gcuda_memory_resource_allocate (late, 100, bed->stream, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND);
}

int
main (int argc,
      char **argv)
{
  static const char *const names[N_UPSTREAMS] = { "pool", "synchronous", "program" };
  static const struct
  {
    const char *name;
    void (*test) (Bed *bed,
                  gconstpointer data);
  } each[] = {
    { "statistics", test_statistics },
    { "limit", test_limit },
    { "aligned", test_aligned },
    { "binning", test_binning },
    { "subclass", test_subclass },
    { "logging", test_logging },
  };

  gcuda_test_init (&argc, &argv);
  for (gsize i = 0; i < G_N_ELEMENTS (each); i++)
    for (int kind = 0; kind < N_UPSTREAMS; kind++)
      {
        g_autofree char *path = g_strdup_printf ("/adaptors/%s/%s", each[i].name, names[kind]);

        bed_add_data (path, GINT_TO_POINTER (kind), each[i].test);
      }
  bed_add ("/adaptors/statistics/notify", test_statistics_notify);
  bed_add ("/adaptors/limit/upstream-fails", test_limit_upstream_fails);
  bed_add ("/adaptors/stack", test_stack);
  bed_add ("/adaptors/mixed-bins", test_mixed_bins);
  bed_add ("/adaptors/binning/built-on", test_binning_built_on);
  bed_add ("/adaptors/binning/order", test_binning_order);
  bed_add ("/adaptors/binning/mixed", test_binning_mixed);
  bed_add ("/adaptors/failure-callback/limit", test_failure_callback);
  bed_add ("/adaptors/failure-callback/once", test_failure_callback_once);
  bed_add ("/adaptors/failure-callback/program", test_failure_callback_program);
  bed_add ("/adaptors/bound", test_bound);
  bed_add ("/adaptors/bare", test_bare);
  bed_add ("/adaptors/refused", test_refused);
  bed_add ("/adaptors/device", test_device);
  bed_add ("/adaptors/traces/bad", test_bad_traces);
  bed_add ("/adaptors/logging/fails", test_logging_fails);
  bed_add ("/adaptors/traces/tool", test_tool);
  return g_test_run ();
}
