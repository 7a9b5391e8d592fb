/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-test.h"

static GCudaPoolStatistics *
statistics_of (GCudaDeviceMemoryResource *resource)
{
  g_autoptr (GError) error = NULL;
  GCudaPoolStatistics *statistics = gcuda_device_memory_resource_get_statistics (resource, &error);

  g_assert_no_error (error);
  return statistics;
}

static guint64
raw_threshold (GCudaDeviceMemoryResource *resource)
{
  cuuint64_t value = 1;

  assert_cuda (RAW (cuMemPoolGetAttribute) (gcuda_device_memory_resource_get_cuda_pool (resource), CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value));
  return value;
}

/* The pool that a device uses is shared: wrapping it changes nothing, and it is never destroyed. */
static void
test_shared (Bed *bed,
             gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = NULL;
  GCudaDeviceMemoryResource *resource;
  CUmemoryPool pool;
  cuuint64_t before, after;
  guint64 destroyed = gcuda_test_is_simulated () ? gcuda_test_count_calls ("cuMemPoolDestroy") : 0;

  assert_cuda (RAW (cuDeviceGetMemPool) (&pool, 0));
  assert_cuda (RAW (cuMemPoolGetAttribute) (pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &before));
  resource = gcuda_device_memory_resource_new (bed->device, &error);
  g_assert_no_error (error);
  g_assert_false (gcuda_device_memory_resource_owns_pool (resource));
  g_assert_true (gcuda_device_memory_resource_get_cuda_pool (resource) == pool);
  buffer = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (resource), 4096, bed->stream, &error);
  g_assert_no_error (error);
  g_clear_object (&buffer);
  g_assert_finalize_object (resource);
  assert_cuda (RAW (cuMemPoolGetAttribute) (pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &after));
  g_assert_cmpuint (before, ==, after);
  if (gcuda_test_is_simulated ())
    g_assert_cmpuint (gcuda_test_count_calls ("cuMemPoolDestroy"), ==, destroyed);
}

static void
test_threshold (Bed *bed,
                gconstpointer data)
{
  static const guint64 values[] = { 0, 1, 1 << 20, (guint64) 1 << 40, (guint64) 1 << 53 };
  g_autoptr (GError) error = NULL;
  guint64 value;

  g_assert_cmpuint (gcuda_device_memory_resource_get_release_threshold (bed->pool), ==, 0);
  g_assert_false (gcuda_device_memory_resource_is_release_unlimited (bed->pool));
  for (guint i = 0; i < G_N_ELEMENTS (values); i++)
    {
      g_assert_true (gcuda_device_memory_resource_set_release_threshold (bed->pool, values[i], &error));
      g_assert_no_error (error);
      g_assert_cmpuint (gcuda_device_memory_resource_get_release_threshold (bed->pool), ==, values[i]);
      g_assert_cmpuint (raw_threshold (bed->pool), ==, values[i]);
      g_assert_false (gcuda_device_memory_resource_is_release_unlimited (bed->pool));
    }
  g_object_set (bed->pool, "release-threshold", G_MAXUINT64, NULL);
  g_assert_cmpuint (raw_threshold (bed->pool), ==, G_MAXUINT64);
  g_assert_true (gcuda_device_memory_resource_is_release_unlimited (bed->pool));
  g_object_get (bed->pool, "release-threshold", &value, NULL);
  g_assert_cmpuint (value, ==, gcuda_device_get_total_memory (bed->device));
}

static void
test_reuse (Bed *bed,
            gconstpointer data)
{
  const GCudaPoolReuse all = GCUDA_POOL_REUSE_FOLLOW_EVENTS | GCUDA_POOL_REUSE_OPPORTUNISTIC | GCUDA_POOL_REUSE_INTERNAL_DEPENDENCIES;
  g_autoptr (GError) error = NULL;

  g_assert_cmpuint (gcuda_device_memory_resource_get_reuse (bed->pool), ==, all);
  for (guint reuse = 0; reuse <= all; reuse++)
    {
      g_assert_true (gcuda_device_memory_resource_set_reuse (bed->pool, reuse, &error));
      g_assert_no_error (error);
      g_assert_cmpuint (gcuda_device_memory_resource_get_reuse (bed->pool), ==, reuse);
    }
  g_assert_false (gcuda_device_memory_resource_set_reuse (bed->pool, 0x100, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_cmpuint (gcuda_device_memory_resource_get_reuse (bed->pool), ==, all);
  /* A failure in the middle leaves all as it was. */
  if (gcuda_test_is_simulated ())
    {
      gcuda_test_fail_calls ("cuMemPoolSetAttribute:2=UNKNOWN");
      g_assert_false (gcuda_device_memory_resource_set_reuse (bed->pool, GCUDA_POOL_REUSE_NONE, &error));
      gcuda_test_fail_calls (NULL);
      assert_error_and_clear (error, GCUDA_ERROR_UNKNOWN);
      g_assert_cmpuint (gcuda_device_memory_resource_get_reuse (bed->pool), ==, all);
    }
}

static void
test_statistics (Bed *bed,
                 gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaPoolStatistics) before = statistics_of (bed->pool);
  g_autoptr (GCudaPoolStatistics) during = NULL, after = NULL, reset = NULL;
  GCudaBuffer *buffer;

  g_assert_cmpuint (gcuda_pool_statistics_get_used (before), ==, 0);
  buffer = gcuda_memory_resource_allocate (bed->resource, 1 << 20, bed->stream, &error);
  g_assert_no_error (error);
  during = statistics_of (bed->pool);
  g_assert_cmpuint (gcuda_pool_statistics_get_used (during), ==, 1 << 20);
  g_assert_cmpuint (gcuda_pool_statistics_get_used_high (during), ==, 1 << 20);
  g_assert_cmpuint (gcuda_pool_statistics_get_reserved (during), >=, 1 << 20);
  g_assert_cmpuint (gcuda_pool_statistics_get_reserved_high (during), >=, gcuda_pool_statistics_get_reserved (during));
  g_object_unref (buffer);
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  after = statistics_of (bed->pool);
  g_assert_cmpuint (gcuda_pool_statistics_get_used (after), ==, 0);
  g_assert_cmpuint (gcuda_pool_statistics_get_used_high (after), ==, 1 << 20);
  g_assert_true (gcuda_device_memory_resource_reset_high_marks (bed->pool, &error));
  g_assert_no_error (error);
  reset = statistics_of (bed->pool);
  g_assert_cmpuint (gcuda_pool_statistics_get_used_high (reset), ==, 0);
}

/* Trimming waits for nothing: what a stream has not freed yet is in use. */
static void
test_trim (Bed *bed,
           gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  GCudaBuffer *buffer;
  Blocker *blocker;

  g_assert_true (gcuda_device_memory_resource_set_release_threshold (bed->pool, G_MAXUINT64, &error));
  buffer = gcuda_memory_resource_allocate (bed->resource, 64 << 20, bed->stream, &error);
  g_assert_no_error (error);
  blocker = blocker_new (bed->stream);
  g_object_unref (buffer);
  {
    g_autoptr (GCudaPoolStatistics) statistics = NULL;

    g_assert_true (gcuda_device_memory_resource_trim (bed->pool, 0, &error));
    g_assert_no_error (error);
    statistics = statistics_of (bed->pool);
    g_assert_cmpuint (gcuda_pool_statistics_get_reserved (statistics), >=, 64 << 20);
  }
  blocker_release (blocker);
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  g_assert_no_error (error);
  {
    g_autoptr (GCudaPoolStatistics) statistics = NULL, trimmed = NULL;

    g_assert_true (gcuda_device_memory_resource_trim (bed->pool, G_MAXUINT64, &error));
    statistics = statistics_of (bed->pool);
    g_assert_cmpuint (gcuda_pool_statistics_get_reserved (statistics), >=, 64 << 20);
    g_assert_true (gcuda_device_memory_resource_trim (bed->pool, 0, &error));
    g_assert_no_error (error);
    trimmed = statistics_of (bed->pool);
    g_assert_cmpuint (gcuda_pool_statistics_get_reserved (trimmed), ==, 0);
  }
}

/* A buffer keeps its pool; the pool is destroyed once, after the last free. */
static void
test_pool_life (Bed *bed,
                gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  GCudaDeviceMemoryResource *pool = gcuda_device_memory_resource_new_pool (bed->device, 256 << 20, GCUDA_HANDLE_TYPES_NONE, &error);
  g_autofree char *handle = NULL;
  GCudaBuffer *buffer;

  g_assert_no_error (error);
  g_assert_true (gcuda_device_memory_resource_owns_pool (pool));
  g_assert_cmpuint (gcuda_device_memory_resource_get_max_size (pool), ==, 256 << 20);
  handle = g_strdup_printf ("0x%" G_GINT64_MODIFIER "x", gcuda_device_memory_resource_get_handle (pool));
  buffer = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (pool), 4096, bed->stream, &error);
  g_assert_no_error (error);
  gcuda_test_log_start ();
  g_object_unref (pool);
  pattern_fill (buffer, 8, bed->stream);
  pattern_assert (buffer, 8, bed->stream);
  g_object_unref (buffer);
  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_no_error (error);
  if (gcuda_test_is_simulated ())
    {
      g_auto (GStrv) log = gcuda_test_log_take ();
      guint freed = 0, destroyed = 0;

      g_assert_cmpuint (gcuda_test_log_count (log, "cuMemPoolDestroy", handle, "= SUCCESS", NULL), ==, 1);
      for (guint i = 0; log[i] != NULL; i++)
        {
          if (strstr (log[i], "cuMemFreeAsync(") != NULL)
            freed = i + 1;
          if (strstr (log[i], "cuMemPoolDestroy(") != NULL)
            destroyed = i + 1;
        }
      g_assert_cmpuint (destroyed, >, freed);
      g_assert_cmpuint (freed, >, 0);
    }
}

/* Each stream that memory of the pool was freed on is waited for, although nothing is left to wait for: a driver has the frees on
 * its books until then. */
static void
test_pool_waits_for_streams (Bed *bed,
                             gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  GCudaDeviceMemoryResource *pool = gcuda_device_memory_resource_new_pool (bed->device, 0, GCUDA_HANDLE_TYPES_NONE, &error);
  GCudaStream *streams[20];
  guint freed = 0, waited = 0, destroyed = 0;

  g_assert_no_error (error);
  if (gcuda_test_can_fail_calls ())
    gcuda_test_log_start ();
  for (guint i = 0; i < G_N_ELEMENTS (streams); i++)
    {
      streams[i] = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
      g_assert_no_error (error);
      for (guint j = 0; j < 2; j++)
        g_object_unref (gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (pool), 4096, streams[i], &error));
      g_assert_no_error (error);
      /* Some end before the pool does. */
      if (i % 2 == 1)
        g_assert_finalize_object (g_steal_pointer (&streams[i]));
    }
  g_object_unref (pool);
  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_no_error (error);
  if (gcuda_test_can_fail_calls ())
    {
      g_auto (GStrv) log = gcuda_test_log_take ();

      for (guint i = 0; log[i] != NULL; i++)
        {
          if (strstr (log[i], "cuMemFreeAsync(") != NULL)
            freed++;
          if (strstr (log[i], "cuEventSynchronize(") != NULL && strstr (log[i], "= SUCCESS") != NULL)
            {
              g_assert_cmpuint (destroyed, ==, 0);
              waited++;
            }
          if (strstr (log[i], "cuMemPoolDestroy(") != NULL)
            destroyed++;
        }
      g_assert_cmpuint (freed, ==, 2 * G_N_ELEMENTS (streams));
      g_assert_cmpuint (waited, ==, G_N_ELEMENTS (streams));
      g_assert_cmpuint (destroyed, ==, 1);
    }
  for (guint i = 0; i < G_N_ELEMENTS (streams); i++)
    g_clear_object (&streams[i]);
}

/* How often the log waits for an event before the one pool is destroyed. */
static guint
count_waits (char **log)
{
  guint waited = 0, destroyed = 0;

  for (guint i = 0; log[i] != NULL; i++)
    {
      if (strstr (log[i], "cuEventSynchronize(") != NULL && strstr (log[i], "= SUCCESS") != NULL)
        waited += destroyed == 0;
      if (strstr (log[i], "cuMemPoolDestroy(") != NULL)
        destroyed++;
    }
  g_assert_cmpuint (destroyed, ==, 1);
  return waited;
}

/* The same for memory that was freed on what ends with no stream of the driver's: a default stream, of whatever object, or a stream
 * of others. One without an owner is not touched once its object is gone. */
static void
test_pool_waits_for_others_streams (Bed *bed,
                                    gconstpointer data)
{
  enum
  {
    LEGACY,
    PER_THREAD,
    OWNED,
    OWNERLESS,
  };
  g_autoptr (GError) error = NULL;

  assert_cuda (RAW (cuCtxPushCurrent) (gcuda_context_get_cuda_context (bed->context)));
  for (guint kind = LEGACY; kind <= OWNERLESS; kind++)
    {
      GCudaDeviceMemoryResource *pool = gcuda_device_memory_resource_new_pool (bed->device, 0, GCUDA_HANDLE_TYPES_NONE, &error);
      g_autoptr (GObject) owner = g_object_new (G_TYPE_OBJECT, NULL);
      CUstream raw = NULL;

      g_assert_no_error (error);
      if (kind >= OWNED)
        assert_cuda (RAW (cuStreamCreate) (&raw, CU_STREAM_NON_BLOCKING));
      if (gcuda_test_can_fail_calls ())
        gcuda_test_log_start ();
      for (guint i = 0; i < 3; i++)
        {
          GCudaStream *stream;
          GCudaBuffer *buffer;

          if (kind == LEGACY)
            stream = gcuda_stream_new_legacy_default (bed->context, &error);
          else if (kind == PER_THREAD)
            stream = gcuda_stream_new_per_thread_default (bed->context, &error);
          else
            stream = gcuda_stream_new_for_handle (bed->context, (guintptr) raw, kind == OWNED ? owner : NULL, &error);
          g_assert_no_error (error);
          buffer = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (pool), 4096, stream, &error);
          g_assert_no_error (error);
          pattern_fill (buffer, i, stream);
          g_object_unref (buffer);
          g_object_unref (stream);
        }
      g_object_unref (pool);
      if (kind == OWNERLESS)
        assert_cuda (RAW (cuStreamDestroy) (raw));
      g_assert_true (gcuda_reclaim (NULL, &error));
      g_assert_no_error (error);
      if (gcuda_test_can_fail_calls ())
        {
          g_auto (GStrv) log = gcuda_test_log_take ();

          g_assert_cmpuint (count_waits (log), ==, kind <= PER_THREAD ? 1 : 3);
        }
      if (kind == OWNED)
        assert_cuda (RAW (cuStreamDestroy) (raw));
      while (g_main_context_iteration (NULL, FALSE))
        ;
      g_assert_cmpuint (owner->ref_count, ==, 1);
    }
  assert_cuda (RAW (cuCtxPopCurrent) (&(CUcontext){ NULL }));
}

/* The default stream of a context of others, whose object is gone before the pool is. */
static void
test_pool_waits_for_others_context (Bed *bed,
                                    gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  GCudaDeviceMemoryResource *pool = gcuda_device_memory_resource_new_pool (bed->device, 0, GCUDA_HANDLE_TYPES_NONE, &error);
  /* In the form of CUDA 11.4, whatever the headers are. */
  CUresult (*create) (CUcontext *, CUexecAffinityParam *, int, unsigned int, CUdevice) = gcuda_test_driver_function ("cuCtxCreate");
  CUcontext raw, popped;
  GCudaContext *context;
  GCudaStream *stream;

  g_assert_no_error (error);
  assert_cuda (create (&raw, NULL, 0, 0, 0));
  assert_cuda (RAW (cuCtxPopCurrent) (&popped));
  context = gcuda_context_new_for_handle ((guintptr) raw, NULL, &error);
  g_assert_no_error (error);
  stream = gcuda_stream_new_legacy_default (context, &error);
  g_assert_no_error (error);
  if (gcuda_test_can_fail_calls ())
    gcuda_test_log_start ();
  g_object_unref (gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (pool), 4096, stream, &error));
  g_assert_no_error (error);
  g_assert_finalize_object (stream);
  g_object_unref (context);
  g_object_unref (pool);
  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_no_error (error);
  if (gcuda_test_can_fail_calls ())
    {
      g_auto (GStrv) log = gcuda_test_log_take ();

      g_assert_cmpuint (count_waits (log), ==, 1);
    }
  assert_cuda (RAW (cuCtxDestroy) (raw));
}

/* Work on a stream that ended keeps a private context from being destroyed, and not from being closed. After gcuda_reclaim () it
 * is destroyed, and so is the pool. */
static void
test_pool_and_private_context (Bed *bed,
                               gconstpointer data)
{
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < 10; i++)
    {
      GCudaDeviceMemoryResource *pool = gcuda_device_memory_resource_new_pool (bed->device, 0, GCUDA_HANDLE_TYPES_NONE, &error);
      GCudaContext *context = gcuda_context_new (bed->device, GCUDA_CONTEXT_FLAGS_NONE, &error);
      GCudaStream *stream = gcuda_stream_new (context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
      GCudaBuffer *buffer = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (pool), 4096, stream, &error);
      guint64 contexts = gcuda_test_is_simulated () ? gcuda_test_count_calls ("cuCtxDestroy") : 0;
      guint64 pools = gcuda_test_is_simulated () ? gcuda_test_count_calls ("cuMemPoolDestroy") : 0;
      Blocker *blocker;

      g_assert_no_error (error);
      blocker = blocker_new (stream);
      pattern_fill (buffer, i, stream);
      g_object_unref (buffer);
      g_assert_finalize_object (stream);
      g_assert_true (gcuda_context_close (context, &error));
      g_assert_no_error (error);
      g_assert_finalize_object (context);
      g_object_unref (pool);
      if (gcuda_test_is_simulated ())
        g_assert_cmpuint (gcuda_test_count_calls ("cuMemPoolDestroy"), ==, pools);
      blocker_release (blocker);
      g_assert_true (gcuda_reclaim (NULL, &error));
      g_assert_no_error (error);
      if (gcuda_test_is_simulated ())
        {
          g_assert_cmpuint (gcuda_test_count_calls ("cuCtxDestroy"), ==, contexts + 1);
          g_assert_cmpuint (gcuda_test_count_calls ("cuMemPoolDestroy"), ==, pools + 1);
        }
    }
}

static gint reports_expected, reports;

static GLogWriterOutput
count_reports (GLogLevelFlags level,
               const GLogField *fields,
               gsize n_fields,
               gpointer data)
{
  for (gsize i = 0; g_atomic_int_get (&reports_expected) && i < n_fields; i++)
    if (strcmp (fields[i].key, "GCUDA_DRIVER_CALL") == 0)
      {
        g_atomic_int_inc (&reports);
        return G_LOG_WRITER_HANDLED;
      }
  return g_log_writer_default (level, fields, n_fields, data);
}

/* Each call fails by which a free on a stream of others without an owner is marked. The stream is not touched after its end. */
static void
test_pool_ownerless_failures (Bed *bed,
                              gconstpointer data)
{
  static const char *const faults[] = {
    "cuEventCreate:1=OUT_OF_MEMORY",
    "cuEventRecord:1=UNKNOWN",
    "cuStreamIsCapturing:2=UNKNOWN",
    "cuStreamIsCapturing:3=UNKNOWN",
    "cuEventRecord:1+=UNKNOWN", /* never to be mended: the pool is kept */
  };
  g_autoptr (GError) error = NULL;

  if (!gcuda_test_needs_failing_calls ())
    return;
  assert_cuda (RAW (cuCtxPushCurrent) (gcuda_context_get_cuda_context (bed->context)));
  for (guint i = 0; i < G_N_ELEMENTS (faults); i++)
    {
      GCudaDeviceMemoryResource *pool = gcuda_device_memory_resource_new_pool (bed->device, 0, GCUDA_HANDLE_TYPES_NONE, &error);
      CUmemoryPool handle;
      GCudaStream *stream;
      GCudaBuffer *buffer;
      gboolean kept;
      CUstream raw;

      g_assert_no_error (error);
      assert_cuda (RAW (cuStreamCreate) (&raw, CU_STREAM_NON_BLOCKING));
      stream = gcuda_stream_new_for_handle (bed->context, (guintptr) raw, NULL, &error);
      buffer = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (pool), 4096, stream, &error);
      g_assert_no_error (error);
      gcuda_test_log_start ();
      gcuda_test_fail_calls (faults[i]);
      g_object_unref (buffer);
      gcuda_test_fail_calls (NULL);
      g_assert_finalize_object (stream);
      assert_cuda (RAW (cuStreamDestroy) (raw));
      kept = strstr (faults[i], "+=") != NULL;
      g_atomic_int_set (&reports_expected, kept);
      handle = gcuda_device_memory_resource_get_cuda_pool (pool);
      g_object_unref (pool);
      g_assert_true (gcuda_reclaim (NULL, &error));
      g_assert_no_error (error);
      {
        g_auto (GStrv) log = gcuda_test_log_take ();

        if (kept)
          {
            g_assert_cmpint (g_atomic_int_get (&reports), ==, 1);
            g_atomic_int_set (&reports_expected, FALSE);
            g_assert_cmpuint (gcuda_test_log_count (log, "cuMemPoolDestroy", NULL), ==, 0);
            assert_cuda (RAW (cuMemPoolDestroy) (handle));
          }
        else
          g_assert_cmpuint (count_waits (log), >=, 1);
      }
    }
  assert_cuda (RAW (cuCtxPopCurrent) (&(CUcontext){ NULL }));
}

/* A stream that is in a capture when it is dropped ends after that, and what was freed on it before is known to have passed. */
static void
test_pool_and_captured_stream (Bed *bed,
                               gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) other = gcuda_memory_resource_allocate (bed->resource, 4096, bed->stream, &error);
  g_autoptr (GCudaStream) branch = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  g_autoptr (GCudaGraphBuilder) builder = NULL;
  g_autoptr (GCudaGraphDefinition) definition = NULL;
  GCudaDeviceMemoryResource *pool = gcuda_device_memory_resource_new_pool (bed->device, 0, GCUDA_HANDLE_TYPES_NONE, &error);

  g_assert_no_error (error);
  g_object_unref (gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (pool), 4096, branch, &error));
  g_assert_true (gcuda_stream_synchronize (branch, &error));
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  builder = gcuda_graph_builder_new (bed->context, GCUDA_CAPTURE_MODE_RELAXED, &error);
  g_assert_no_error (error);
  g_assert_true (gcuda_stream_wait_stream (branch, GCUDA_STREAM (builder), &error));
  pattern_fill (other, 1, branch);
  g_assert_true (gcuda_stream_wait_stream (GCUDA_STREAM (builder), branch, &error));
  g_assert_no_error (error);
  g_clear_object (&branch);
  definition = gcuda_graph_builder_finish (builder, &error);
  g_assert_no_error (error);
  g_object_unref (pool);
  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_no_error (error);
}

/* The first event of a context is made by the reclaimer, which can't make its own context current again: it is not used then. */
static void
test_pool_event_fails (Bed *bed,
                       gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaContext) context = NULL;
  g_autoptr (GCudaStream) stream = NULL;
  g_auto (GStrv) log = NULL;
  GCudaDeviceMemoryResource *pool;

  if (!gcuda_test_needs_failing_calls ())
    return;
  context = gcuda_context_new (bed->device, GCUDA_CONTEXT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  stream = gcuda_stream_new (context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  pool = gcuda_device_memory_resource_new_pool (bed->device, 0, GCUDA_HANDLE_TYPES_NONE, &error);
  g_assert_no_error (error);
  g_object_unref (gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (pool), 4096, stream, &error));
  g_assert_no_error (error);
  gcuda_test_log_start ();
  gcuda_test_fail_calls ("cuCtxPopCurrent:1=UNKNOWN,cuCtxPopCurrent:2=UNKNOWN");
  g_object_unref (pool);
  g_assert_true (gcuda_reclaim (NULL, &error));
  gcuda_test_fail_calls (NULL);
  for (guint i = 0; i < 2; i++)
    g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_no_error (error);
  log = gcuda_test_log_take ();
  g_assert_cmpuint (gcuda_test_log_count (log, "cuEventCreate", "= SUCCESS", NULL), ==, 2);
  g_assert_cmpuint (gcuda_test_log_count (log, "cuEventDestroy", "= SUCCESS", NULL), ==, 1);
  g_assert_cmpuint (gcuda_test_log_count (log, "cuEventRecord", "= SUCCESS", NULL), ==, 1);
  g_assert_cmpuint (gcuda_test_log_count (log, "cuEventRecord", NULL), ==, 1);
  g_assert_cmpuint (gcuda_test_log_count (log, "cuMemPoolDestroy", "= SUCCESS", NULL), ==, 1);
}

/* What could not be marked on a stream of others in a private context has passed when that context ends, which nobody waits for. */
static void
test_pool_unmarked_in_private_context (Bed *bed,
                                       gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  GCudaContext *context;
  GCudaDeviceMemoryResource *pool;
  GCudaStream *stream;
  GCudaBuffer *buffer;
  CUstream raw;

  if (!gcuda_test_needs_failing_calls ())
    return;
  context = gcuda_context_new (bed->device, GCUDA_CONTEXT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  pool = gcuda_device_memory_resource_new_pool (bed->device, 0, GCUDA_HANDLE_TYPES_NONE, &error);
  g_assert_no_error (error);
  assert_cuda (RAW (cuCtxPushCurrent) (gcuda_context_get_cuda_context (context)));
  assert_cuda (RAW (cuStreamCreate) (&raw, CU_STREAM_NON_BLOCKING));
  stream = gcuda_stream_new_for_handle (context, (guintptr) raw, NULL, &error);
  buffer = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (pool), 4096, stream, &error);
  g_assert_no_error (error);
  gcuda_test_log_start ();
  gcuda_test_fail_calls ("cuEventRecord:1+=UNKNOWN");
  g_object_unref (buffer);
  gcuda_test_fail_calls (NULL);
  g_assert_finalize_object (stream);
  assert_cuda (RAW (cuStreamDestroy) (raw));
  assert_cuda (RAW (cuCtxPopCurrent) (&(CUcontext){ NULL }));
  g_object_unref (pool);
  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_no_error (error);
  {
    g_auto (GStrv) log = gcuda_test_log_take ();

    g_assert_cmpuint (gcuda_test_log_count (log, "cuMemPoolDestroy", NULL), ==, 0);
  }
  gcuda_test_log_start ();
  g_assert_finalize_object (context);
  for (guint i = 0; i < 2; i++)
    g_assert_true (gcuda_reclaim (NULL, &error));
  {
    g_auto (GStrv) log = gcuda_test_log_take ();

    g_assert_cmpuint (gcuda_test_log_count (log, "cuMemPoolDestroy", "= SUCCESS", NULL), ==, 1);
  }
}

typedef struct
{
  GCudaBuffer *buffer;
  GCudaMemoryResource *pool;
  GCudaBuffer *later;
  GCudaStream *stream;
  gint dropped;
} Drop;

static void CUDA_CB
drop_on_driver_thread (void *data)
{
  Drop *self = data;

  g_object_unref (self->buffer);
  g_object_unref (self->pool);
  g_atomic_int_set (&self->dropped, TRUE);
}

static gpointer
drop_later (gpointer data)
{
  Drop *self = data;

  while (!g_atomic_int_get (&self->dropped))
    ;
  assert_cuda (RAW (cuLaunchHostFunc) (gcuda_stream_get_cuda_stream (self->stream), take_a_while, NULL));
  g_object_unref (self->later);
  return NULL;
}

/* What a host function drops is queued late, behind what was dropped after it, and is waited for as what it is. */
static void
test_pool_dropped_by_host_function (Bed *bed,
                                    gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaStream) other = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  g_autoptr (GCudaMemoryResource) synchronous = GCUDA_MEMORY_RESOURCE (gcuda_synchronous_memory_resource_new (bed->context, &error));

  g_assert_no_error (error);
  for (guint i = 0; i < 60; i++)
    {
      Drop drop = { .stream = bed->stream };
      guint64 pools = gcuda_test_is_simulated () ? gcuda_test_count_calls ("cuMemPoolDestroy") : 0;
      GThread *thread;

      drop.pool = GCUDA_MEMORY_RESOURCE (gcuda_device_memory_resource_new_pool (bed->device, 0, GCUDA_HANDLE_TYPES_NONE, &error));
      g_assert_no_error (error);
      drop.buffer = gcuda_memory_resource_allocate (drop.pool, 256, bed->stream, &error);
      drop.later = gcuda_memory_resource_allocate (synchronous, 256, bed->stream, &error);
      g_assert_no_error (error);
      thread = g_thread_new ("drops", drop_later, &drop);
      assert_cuda (RAW (cuLaunchHostFunc) (gcuda_stream_get_cuda_stream (other), drop_on_driver_thread, &drop));
      while (!g_atomic_int_get (&drop.dropped))
        ;
      g_assert_true (gcuda_reclaim (NULL, &error));
      g_assert_no_error (error);
      /* It may have been tried on the driver's thread as well, which refuses. */
      if (gcuda_test_is_simulated ())
        g_assert_cmpuint (gcuda_test_count_calls ("cuMemPoolDestroy"), >, pools);
      g_thread_join (thread);
      g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
      g_assert_true (gcuda_reclaim (NULL, &error));
    }
}

static guint64
live_events (void)
{
  return gcuda_test_is_simulated () ? gcuda_test_count_calls ("cuEventCreate") - gcuda_test_count_calls ("cuEventDestroy") : 0;
}

/* A program that wraps a stream of others each time that it needs it. */
static void
test_pool_many_wrappers (Bed *bed,
                         gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  guint64 events = live_events ();
  CUstream raw;

  assert_cuda (RAW (cuCtxPushCurrent) (gcuda_context_get_cuda_context (bed->context)));
  assert_cuda (RAW (cuStreamCreate) (&raw, CU_STREAM_NON_BLOCKING));
  for (guint i = 0; i < 2000; i++)
    {
      g_autoptr (GCudaStream) stream = gcuda_stream_new_for_handle (bed->context, (guintptr) raw, NULL, &error);

      g_object_unref (gcuda_memory_resource_allocate (bed->resource, 256, stream, &error));
      g_assert_no_error (error);
      if (i % 50 == 0)
        g_assert_true (gcuda_reclaim (NULL, &error));
    }
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  assert_cuda (RAW (cuStreamSynchronize) (raw));
  assert_cuda (RAW (cuStreamDestroy) (raw));
  assert_cuda (RAW (cuCtxPopCurrent) (&(CUcontext){ NULL }));
  g_assert_true (gcuda_reclaim (NULL, &error));
  /* The stock of the context, and those of the few wrappers that nobody looked at since. */
  g_assert_cmpuint (live_events (), <, events + 50);
}

typedef struct
{
  GCudaStream *stream;
  gint stop;
  guint count;
} Synchronizer;

static gpointer
synchronize_all_the_time (gpointer data)
{
  Synchronizer *self = data;

  while (!g_atomic_int_get (&self->stop))
    {
      g_autoptr (GError) error = NULL;

      g_assert_true (gcuda_stream_synchronize (self->stream, &error));
      g_assert_no_error (error);
      g_usleep (self->count++ % 100);
    }
  return NULL;
}

/* Pools of each kind end while another thread synchronizes the stream that their memory was freed on: a driver may meet the pool
 * there after it was destroyed, and never come back. */
static void
test_pool_ends_while_synchronized (Bed *bed,
                                   gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  Synchronizer synchronizer = { .stream = bed->stream };
  GThread *thread = g_thread_new ("synchronizer", synchronize_all_the_time, &synchronizer);

  for (guint i = 0; i < 60; i++)
    {
      g_autoptr (GCudaMemoryResource) resource = NULL;
      g_autoptr (GCudaBuffer) buffer = NULL;

      if (i % 10 == 9)
        resource = GCUDA_MEMORY_RESOURCE (gcuda_pinned_memory_resource_new (bed->device, &error));
      else if (i % 3 == 2)
        resource = GCUDA_MEMORY_RESOURCE (gcuda_managed_memory_resource_new (bed->device, NULL, &error));
      else
        resource = GCUDA_MEMORY_RESOURCE (gcuda_device_memory_resource_new_pool (bed->device, 0, GCUDA_HANDLE_TYPES_NONE, &error));
      g_assert_no_error (error);
      buffer = gcuda_memory_resource_allocate (resource, 65536, bed->stream, &error);
      g_assert_no_error (error);
      g_assert_true (gcuda_buffer_fill (buffer, i, 1, bed->stream, &error));
      g_assert_no_error (error);
    }
  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_no_error (error);
  g_atomic_int_set (&synchronizer.stop, TRUE);
  g_thread_join (thread);
  g_assert_cmpuint (synchronizer.count, >, 0);
}

static void
test_bad_arguments (Bed *bed,
                    gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaDeviceMemoryResource) bare = g_object_new (GCUDA_TYPE_DEVICE_MEMORY_RESOURCE, NULL);

  g_assert_null (gcuda_device_memory_resource_new (NULL, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_null (gcuda_device_memory_resource_new_pool (NULL, 0, GCUDA_HANDLE_TYPES_NONE, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_null (gcuda_device_memory_resource_new_pool (bed->device, 0, (GCudaHandleTypes) 0x40, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_null (gcuda_device_memory_resource_new_pool (bed->device, G_MAXUINT64, GCUDA_HANDLE_TYPES_NONE, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);

  g_assert_false (gcuda_device_memory_resource_owns_pool (bare));
  g_assert_cmpuint (gcuda_device_memory_resource_get_handle (bare), ==, 0);
  g_assert_cmpuint (gcuda_device_memory_resource_get_release_threshold (bare), ==, 0);
  g_assert_false (gcuda_device_memory_resource_is_release_unlimited (bare));
  g_assert_cmpuint (gcuda_device_memory_resource_get_reuse (bare), ==, 0);
#define CLOSED(call)     \
  g_assert_false (call); \
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED)
  CLOSED (gcuda_device_memory_resource_set_release_threshold (bare, 0, &error));
  CLOSED (gcuda_device_memory_resource_set_reuse (bare, 0, &error));
  CLOSED (gcuda_device_memory_resource_trim (bare, 0, &error));
  CLOSED (gcuda_device_memory_resource_get_statistics (bare, &error) != NULL);
  CLOSED (gcuda_device_memory_resource_reset_high_marks (bare, &error));
  CLOSED (gcuda_device_memory_resource_set_peer_access (bare, bed->device, TRUE, &error));
  CLOSED (gcuda_device_memory_resource_has_peer_access (bare, bed->device, &error));
#undef CLOSED
}

static void
test_own_access (Bed *bed,
                 gconstpointer data)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (gcuda_device_memory_resource_has_peer_access (bed->pool, bed->device, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_device_memory_resource_set_peer_access (bed->pool, bed->device, TRUE, &error));
  g_assert_no_error (error);
  g_assert_false (gcuda_device_memory_resource_set_peer_access (bed->pool, bed->device, FALSE, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_false (gcuda_device_memory_resource_set_peer_access (bed->pool, NULL, TRUE, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_false (gcuda_device_memory_resource_has_peer_access (bed->pool, NULL, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
}

/* Making and destroying a pool disturbs no capture. */
static void
test_capture_elsewhere (Bed *bed,
                        gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  Capture *capture = capture_begin (bed->context, CAPTURE_NON_BLOCKING);
  GCudaDeviceMemoryResource *pool = gcuda_device_memory_resource_new_pool (bed->device, 0, GCUDA_HANDLE_TYPES_NONE, &error);

  g_assert_no_error (error);
  g_assert_finalize_object (pool);
  capture_end (capture);
}

/* Two devices: a grant is one pool's, and copies work with and without it. */
static void
test_peers (Bed *bed,
            gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GListModel) devices = gcuda_get_devices (&error);
  g_autoptr (GCudaDevice) peer = g_list_model_get_item (devices, 1);
  g_autoptr (GCudaStream) peer_stream = NULL;
  GCudaDeviceMemoryResource *granted, *peer_pool;
  GCudaBuffer *a, *b, *c;

  if (peer == NULL)
    {
      g_test_skip ("needs two devices");
      return;
    }
  peer_stream = gcuda_stream_new_for_device (peer, &error);
  g_assert_no_error (error);
  granted = gcuda_device_memory_resource_new_pool (bed->device, 0, GCUDA_HANDLE_TYPES_NONE, &error);
  peer_pool = gcuda_device_memory_resource_new_pool (peer, 0, GCUDA_HANDLE_TYPES_NONE, &error);
  g_assert_no_error (error);
  a = gcuda_memory_resource_allocate (bed->resource, 65536, bed->stream, &error);
  b = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (peer_pool), 65536, peer_stream, &error);
  g_assert_no_error (error);
  /* Without a grant. */
  pattern_fill (a, 0x19, bed->stream);
  g_assert_true (gcuda_stream_wait_stream (peer_stream, bed->stream, &error));
  g_assert_true (gcuda_buffer_copy_to (a, b, peer_stream, &error));
  g_assert_no_error (error);
  pattern_assert (b, 0x19, peer_stream);
  g_assert_true (gcuda_buffer_copy_2d (a, 0, 256, b, 128, 512, 128, 16, peer_stream, &error));
  g_assert_no_error (error);
  pattern_assert (b, 0x19, peer_stream);

  g_assert_false (gcuda_device_memory_resource_has_peer_access (granted, peer, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_device_memory_resource_set_peer_access (granted, peer, TRUE, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_device_memory_resource_has_peer_access (granted, peer, &error));
  g_assert_false (gcuda_device_memory_resource_has_peer_access (bed->pool, peer, &error));
  g_assert_no_error (error);
  g_clear_object (&granted);
  /* The peer's stream works on granted memory, which is freed there; only then is the pool destroyed, also where the stream ends
   * before its work does. */
  for (guint i = 0; i < 2; i++)
    {
      GCudaStream *stream = i == 0 ? g_object_ref (peer_stream) : gcuda_stream_new_for_device (peer, &error);
      Blocker *blocker;

      granted = gcuda_device_memory_resource_new_pool (bed->device, 0, GCUDA_HANDLE_TYPES_NONE, &error);
      g_assert_true (gcuda_device_memory_resource_set_peer_access (granted, peer, TRUE, &error));
      g_assert_no_error (error);
      c = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (granted), 65536, stream, &error);
      g_assert_no_error (error);
      pattern_fill (c, 0x1a, stream);
      pattern_assert (c, 0x1a, stream);
      blocker = blocker_new (stream);
      pattern_fill (c, 0x1b, stream);
      gcuda_test_log_start ();
      g_object_unref (c);
      g_object_unref (stream);
      g_object_unref (granted);
      g_usleep (3000);
      if (gcuda_test_is_simulated ())
        {
          g_auto (GStrv) log = gcuda_test_log_take ();

          g_assert_cmpuint (gcuda_test_log_count (log, "cuMemPoolSetAccess", NULL), ==, 0);
          g_assert_cmpuint (gcuda_test_log_count (log, "cuMemPoolDestroy", NULL), ==, 0);
          g_assert_cmpuint (gcuda_test_log_count (log, "cuStreamDestroy", "= SUCCESS", NULL), ==, i);
          gcuda_test_log_start ();
        }
      blocker_release (blocker);
      g_assert_true (gcuda_reclaim (NULL, &error));
      g_assert_no_error (error);
      if (gcuda_test_is_simulated ())
        {
          g_auto (GStrv) log = gcuda_test_log_take ();

          g_assert_cmpuint (gcuda_test_log_count (log, "cuMemPoolSetAccess", "= SUCCESS", NULL), ==, 1);
          g_assert_cmpuint (gcuda_test_log_count (log, "cuMemPoolDestroy", "= SUCCESS", NULL), ==, 1);
        }
    }
  /* Freed on a stream of the other device: accepted, and named to the driver as it is. */
  g_assert_true (gcuda_buffer_set_deallocation_stream (a, peer_stream, &error));
  g_assert_no_error (error);
  g_object_unref (a);
  g_object_unref (b);
  g_assert_finalize_object (peer_pool);
  g_assert_true (gcuda_device_synchronize (peer, &error));
  g_assert_no_error (error);
  g_assert_finalize_object (g_steal_pointer (&peer_stream));
  {
    g_autoptr (GCudaContext) context = gcuda_device_get_primary_context (peer, &error);

    g_assert_true (gcuda_reclaim (NULL, &error));
    g_assert_true (gcuda_context_close (context, &error));
    g_assert_no_error (error);
  }
}

int
main (int argc,
      char **argv)
{
  gcuda_test_init (&argc, &argv);
  g_log_set_writer_func (count_reports, NULL, NULL);
  bed_add ("/device-memory-resource/shared", test_shared);
  bed_add ("/device-memory-resource/threshold", test_threshold);
  bed_add ("/device-memory-resource/reuse", test_reuse);
  bed_add ("/device-memory-resource/statistics", test_statistics);
  bed_add ("/device-memory-resource/trim", test_trim);
  bed_add ("/device-memory-resource/pool-life", test_pool_life);
  bed_add ("/device-memory-resource/pool-waits-for-streams", test_pool_waits_for_streams);
  bed_add ("/device-memory-resource/pool-waits-for-others-streams", test_pool_waits_for_others_streams);
  bed_add ("/device-memory-resource/pool-waits-for-others-context", test_pool_waits_for_others_context);
  bed_add ("/device-memory-resource/pool-and-private-context", test_pool_and_private_context);
  bed_add ("/device-memory-resource/pool-ownerless-failures", test_pool_ownerless_failures);
  bed_add ("/device-memory-resource/pool-and-captured-stream", test_pool_and_captured_stream);
  bed_add ("/device-memory-resource/pool-event-fails", test_pool_event_fails);
  bed_add ("/device-memory-resource/pool-unmarked-in-private-context", test_pool_unmarked_in_private_context);
  bed_add ("/device-memory-resource/pool-dropped-by-host-function", test_pool_dropped_by_host_function);
  bed_add ("/device-memory-resource/pool-many-wrappers", test_pool_many_wrappers);
  bed_add ("/device-memory-resource/pool-ends-while-synchronized", test_pool_ends_while_synchronized);
  bed_add ("/device-memory-resource/bad-arguments", test_bad_arguments);
  bed_add ("/device-memory-resource/own-access", test_own_access);
  bed_add ("/device-memory-resource/capture-elsewhere", test_capture_elsewhere);
  bed_add ("/device-memory-resource/peers", test_peers);
  return g_test_run ();
}
