/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-test.h"

#include <sys/wait.h>
#include <unistd.h>

static void
test_life (Bed *bed,
           gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = gcuda_memory_resource_allocate (bed->resource, 1000, bed->stream, &error);
  g_autoptr (GCudaMemoryResource) resource = NULL;

  g_assert_no_error (error);
  g_assert_cmpuint (gcuda_buffer_get_size (buffer), ==, 1000);
  g_assert_cmpuint (gcuda_buffer_get_address (buffer), !=, 0);
  g_assert_true (gcuda_buffer_get_device (buffer) == bed->device);
  resource = gcuda_buffer_get_resource (buffer);
  g_assert_true (resource == bed->resource);
  g_assert_true (gcuda_buffer_is_device_accessible (buffer));
  g_assert_false (gcuda_buffer_is_host_accessible (buffer));
  g_assert_false (gcuda_buffer_is_closed (buffer));
  pattern_fill (buffer, 0x5a, bed->stream);
  pattern_assert (buffer, 0x5a, bed->stream);

  g_assert_true (gcuda_buffer_close (buffer, NULL, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_buffer_is_closed (buffer));
  g_assert_cmpuint (gcuda_buffer_get_size (buffer), ==, 1000);
  g_assert_cmpuint (gcuda_buffer_get_address (buffer), ==, 0);
  g_assert_true (gcuda_buffer_close (buffer, NULL, &error));
  g_assert_cmpuint (bed_settled_use (bed), ==, 0);
}

/* Zero bytes are the same for each resource: valid, empty, and never the driver's business. */
static void
test_zero_size (Bed *bed,
                gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaMemoryResource) synchronous = GCUDA_MEMORY_RESOURCE (gcuda_synchronous_memory_resource_new (bed->context, &error));
  g_autoptr (GCudaMemoryResource) shared = GCUDA_MEMORY_RESOURCE (gcuda_device_memory_resource_new (bed->device, &error));
  GCudaMemoryResource *resources[] = { bed->resource, shared, synchronous };

  g_assert_no_error (error);
  for (guint i = 0; i < G_N_ELEMENTS (resources); i++)
    {
      g_autoptr (GCudaBuffer) buffer = NULL, other = NULL, view = NULL;
      g_autoptr (GBytes) empty = g_bytes_new (NULL, 0), back = NULL;

      gcuda_test_log_start ();
      buffer = gcuda_memory_resource_allocate (resources[i], 0, bed->stream, &error);
      g_assert_no_error (error);
      other = gcuda_memory_resource_allocate (resources[i], 0, bed->stream, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (gcuda_buffer_get_size (buffer), ==, 0);
      g_assert_cmpuint (gcuda_buffer_get_address (buffer), ==, 0);
      g_assert_false (gcuda_buffer_is_closed (buffer));
      g_assert_true (gcuda_buffer_get_device (buffer) == bed->device);
      g_assert_true (gcuda_buffer_fill (buffer, 1, 4, bed->stream, &error));
      g_assert_true (gcuda_buffer_copy_to (buffer, other, bed->stream, &error));
      g_assert_true (gcuda_buffer_upload (buffer, 0, empty, bed->stream, &error));
      g_assert_true (gcuda_buffer_upload_data (buffer, 0, NULL, 0, bed->stream, &error));
      back = gcuda_buffer_download (buffer, 0, 0, bed->stream, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (g_bytes_get_size (back), ==, 0);
      view = gcuda_buffer_new_view (buffer, 0, 0, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (gcuda_buffer_get_address (view), ==, 0);
      g_assert_null (gcuda_buffer_new_view (buffer, 0, 1, &error));
      assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
      g_assert_true (gcuda_buffer_set_deallocation_stream (buffer, bed->stream, &error));
      g_assert_true (gcuda_buffer_close (other, bed->stream, &error));
      g_clear_object (&buffer);
      g_assert_no_error (error);
      g_assert_cmpuint (gcuda_memory_resource_allocate_address (resources[i], 0, 0, bed->stream, &error), ==, 0);
      assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
      if (gcuda_test_is_simulated ())
        {
          static const char *const calls[] = { "cuMemAlloc", "cuMemAllocFromPoolAsync", "cuMemFree", "cuMemFreeAsync", "cuMemsetD32Async",
                                               "cuMemcpyDtoDAsync", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync" };
          g_auto (GStrv) log = gcuda_test_log_take ();

          for (guint j = 0; j < G_N_ELEMENTS (calls); j++)
            g_assert_cmpuint (gcuda_test_log_count (log, calls[j], NULL), ==, 0);
        }
    }
}

static void
assert_bytes (GCudaBuffer *buffer,
              GCudaStream *stream,
              const char *expected,
              gsize size)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = gcuda_buffer_download (buffer, 0, gcuda_buffer_get_size (buffer), stream, &error);

  g_assert_no_error (error);
  g_assert_cmpmem (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes), expected, size);
}

static void
test_fill (Bed *bed,
           gconstpointer data)
{
  static const struct
  {
    guint64 size;
    guint64 value;
    guint width;
    gboolean good;
  } cases[] = {
    { 8, 0xff, 1, TRUE },
    { 7, 0, 1, TRUE },
    { 8, 0xffff, 2, TRUE },
    { 6, 0x1234, 2, TRUE },
    { 8, 0xffffffff, 4, TRUE },
    { 7, 1, 2, FALSE },
    { 6, 1, 4, FALSE },
    { 7, 1, 4, FALSE },
    { 8, 1, 3, FALSE },
    { 8, 1, 8, FALSE },
    { 8, 1, 0, FALSE },
    { 8, 1, G_MAXUINT, FALSE },
    { 8, 0x100, 1, FALSE },
    { 8, 0x10000, 2, FALSE },
    { 8, 0x100000000, 4, FALSE },
    { 8, G_MAXUINT64, 1, FALSE },
    { 8, G_MAXUINT64, 4, FALSE },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GCudaBuffer) buffer = gcuda_memory_resource_allocate (bed->resource, cases[i].size, bed->stream, &error);
      char expected[8];

      g_assert_no_error (error);
      pattern_fill (buffer, 0x42, bed->stream);
      if (cases[i].good)
        {
          g_assert_true (gcuda_buffer_fill (buffer, cases[i].value, cases[i].width, bed->stream, &error));
          g_assert_no_error (error);
          for (guint j = 0; j < cases[i].size; j += cases[i].width)
            memcpy (expected + j, &cases[i].value, cases[i].width); /* little-endian, as all hosts of CUDA */
          assert_bytes (buffer, bed->stream, expected, cases[i].size);
        }
      else
        {
          g_assert_false (gcuda_buffer_fill (buffer, cases[i].value, cases[i].width, bed->stream, &error));
          assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
          pattern_assert (buffer, 0x42, bed->stream);
        }
    }
}

static void
test_fill_range (Bed *bed,
                 gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = gcuda_memory_resource_allocate (bed->resource, 16, bed->stream, &error);
  g_autoptr (GCudaBuffer) view = gcuda_buffer_new_view (buffer, 1, 8, &error);

  g_assert_no_error (error);
  pattern_fill (buffer, 0, bed->stream);
  g_assert_true (gcuda_buffer_fill_range (buffer, 4, 8, 0x0201, 2, bed->stream, &error));
  g_assert_no_error (error);
  assert_bytes (buffer, bed->stream, "\0\0\0\0\1\2\1\2\1\2\1\2\0\0\0\0", 16);
  /* Where a view starts counts for the alignment. */
  g_assert_false (gcuda_buffer_fill_range (view, 0, 4, 1, 2, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_true (gcuda_buffer_fill_range (view, 1, 4, 0x0303, 2, bed->stream, &error));
  g_assert_no_error (error);
  assert_bytes (buffer, bed->stream, "\0\0\3\3\3\3\1\2\1\2\1\2\0\0\0\0", 16);
  g_assert_false (gcuda_buffer_fill_range (buffer, 3, 4, 1, 4, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_false (gcuda_buffer_fill_range (buffer, 16, 1, 1, 1, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_false (gcuda_buffer_fill_range (buffer, G_MAXUINT64, 2, 1, 1, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_false (gcuda_buffer_fill_range (buffer, 8, G_MAXUINT64 - 4, 1, 1, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
}

static void
test_fill_2d (Bed *bed,
              gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = gcuda_memory_resource_allocate (bed->resource, 16, bed->stream, &error);

  g_assert_no_error (error);
  pattern_fill (buffer, 0, bed->stream);
  g_assert_true (gcuda_buffer_fill_2d (buffer, 1, 4, 2, 4, 5, 1, bed->stream, &error));
  g_assert_no_error (error);
  assert_bytes (buffer, bed->stream, "\0\5\5\0\0\5\5\0\0\5\5\0\0\5\5\0", 16);
  /* The last row may end at the end. */
  g_assert_true (gcuda_buffer_fill_2d (buffer, 2, 8, 1, 2, 0x0607, 2, bed->stream, &error));
  g_assert_no_error (error);
  assert_bytes (buffer, bed->stream, "\0\5\7\6\0\5\5\0\0\5\7\6\0\5\5\0", 16);
  g_assert_true (gcuda_buffer_fill_2d (buffer, 0, 8, 1, 2, 0x01020304, 4, bed->stream, &error));
  g_assert_no_error (error);
  assert_bytes (buffer, bed->stream, "\4\3\2\1\0\5\5\0\4\3\2\1\0\5\5\0", 16);
  g_assert_true (gcuda_buffer_fill_2d (buffer, 0, 4, 0, 4, 5, 1, bed->stream, &error));
  g_assert_true (gcuda_buffer_fill_2d (buffer, 0, 4, 4, 0, 5, 1, bed->stream, &error));
  g_assert_no_error (error);
#define BAD(...)                                                                    \
  g_assert_false (gcuda_buffer_fill_2d (buffer, __VA_ARGS__, bed->stream, &error)); \
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT)
  BAD (0, 3, 4, 2, 5, 1);                                 /* pitch below width */
  BAD (0, 4, 4, 5, 5, 1);                                 /* one row too many */
  BAD (1, 4, 4, 4, 5, 1);                                 /* one byte too far */
  BAD (0, 5, 1, 2, 5, 2);                                 /* pitch not aligned */
  BAD (1, 4, 1, 2, 5, 2);                                 /* place not aligned */
  BAD (0, 4, 1, 2, 0x10000, 2);                           /* value */
  BAD (0, 4, 1, 2, 1, 3);                                 /* width */
  BAD (0, G_MAXUINT64 / 2, 4, 4, 5, 1);                   /* overflow */
  BAD (0, G_MAXUINT64 & ~3ull, G_MAXUINT64 / 2, 2, 5, 4); /* overflow of a row */
  BAD (G_MAXUINT64, 4, 1, 1, 5, 1);
#undef BAD
  assert_bytes (buffer, bed->stream, "\4\3\2\1\0\5\5\0\4\3\2\1\0\5\5\0", 16);
}

static void
test_copy (Bed *bed,
           gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) a = gcuda_memory_resource_allocate (bed->resource, 16, bed->stream, &error);
  g_autoptr (GCudaBuffer) b = gcuda_memory_resource_allocate (bed->resource, 16, bed->stream, &error);
  g_autoptr (GCudaBuffer) small = gcuda_memory_resource_allocate (bed->resource, 8, bed->stream, &error);

  g_assert_no_error (error);
  g_assert_true (gcuda_buffer_upload_data (a, 0, (const guint8 *) "0123456789abcdef", 16, bed->stream, &error));
  pattern_fill (b, '.', bed->stream);
  g_assert_true (gcuda_buffer_copy_range (a, 2, b, 10, 6, bed->stream, &error));
  g_assert_no_error (error);
  assert_bytes (b, bed->stream, "..........234567", 16);
  g_assert_true (gcuda_buffer_copy_to (a, b, bed->stream, &error));
  g_assert_no_error (error);
  assert_bytes (b, bed->stream, "0123456789abcdef", 16);
  /* Inside one buffer, as long as the parts do not overlap. */
  g_assert_true (gcuda_buffer_copy_range (a, 0, a, 8, 8, bed->stream, &error));
  g_assert_no_error (error);
  assert_bytes (a, bed->stream, "0123456701234567", 16);
#define BAD(call)        \
  g_assert_false (call); \
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT)
  BAD (gcuda_buffer_copy_to (a, small, bed->stream, &error));
  BAD (gcuda_buffer_copy_to (a, NULL, bed->stream, &error));
  BAD (gcuda_buffer_copy_to (a, b, NULL, &error));
  BAD (gcuda_buffer_copy_to (a, a, bed->stream, &error));
  BAD (gcuda_buffer_copy_range (a, 0, a, 7, 8, bed->stream, &error));
  BAD (gcuda_buffer_copy_range (a, 7, a, 0, 8, bed->stream, &error));
  BAD (gcuda_buffer_copy_range (a, 9, b, 0, 8, bed->stream, &error));
  BAD (gcuda_buffer_copy_range (a, 0, b, 9, 8, bed->stream, &error));
  BAD (gcuda_buffer_copy_range (a, G_MAXUINT64, b, 0, 2, bed->stream, &error));
  BAD (gcuda_buffer_copy_range (a, 1, b, 0, G_MAXUINT64, bed->stream, &error));
#undef BAD
  assert_bytes (b, bed->stream, "0123456789abcdef", 16);
  g_assert_true (gcuda_buffer_close (small, NULL, &error));
  g_assert_false (gcuda_buffer_copy_range (a, 0, small, 0, 1, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_false (gcuda_buffer_copy_range (small, 0, a, 0, 1, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
}

static void
test_copy_2d (Bed *bed,
              gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) a = gcuda_memory_resource_allocate (bed->resource, 16, bed->stream, &error);
  g_autoptr (GCudaBuffer) b = gcuda_memory_resource_allocate (bed->resource, 20, bed->stream, &error);

  g_assert_no_error (error);
  g_assert_true (gcuda_buffer_upload_data (a, 0, (const guint8 *) "0123456789abcdef", 16, bed->stream, &error));
  pattern_fill (b, '.', bed->stream);
  g_assert_true (gcuda_buffer_copy_2d (a, 1, 4, b, 0, 5, 2, 4, bed->stream, &error));
  g_assert_no_error (error);
  assert_bytes (b, bed->stream, "12...56...9a...de...", 20);
  /* Columns of one buffer, interleaved: rows that do not meet. */
  g_assert_true (gcuda_buffer_copy_2d (a, 0, 4, a, 2, 4, 2, 4, bed->stream, &error));
  g_assert_no_error (error);
  assert_bytes (a, bed->stream, "010145458989cdcd", 16);
  g_assert_true (gcuda_buffer_copy_2d (a, 0, 4, b, 0, 5, 0, 4, bed->stream, &error));
  g_assert_true (gcuda_buffer_copy_2d (a, 0, 4, b, 0, 5, 2, 0, bed->stream, &error));
  g_assert_no_error (error);
#define BAD(...)                                                            \
  g_assert_false (gcuda_buffer_copy_2d (__VA_ARGS__, bed->stream, &error)); \
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT)
  BAD (a, 0, 4, a, 1, 4, 2, 4);
  BAD (a, 0, 4, a, 0, 8, 2, 2);
  BAD (a, 0, 1, b, 0, 5, 2, 4);
  BAD (a, 0, 4, b, 0, 1, 2, 4);
  BAD (a, 0, 4, b, 0, 5, 2, 5);
  BAD (a, 4, 4, b, 0, 5, 2, 4);
  BAD (a, 0, G_MAXUINT64, b, 0, 5, 2, 4);
  BAD (a, 0, 4, b, G_MAXUINT64, 5, 2, 4);
  BAD (a, 0, 4, b, 0, 5, 2, G_MAXUINT64);
  BAD (a, 0, 4, NULL, 0, 5, 2, 4);
#undef BAD
}

static void
test_copy_batch (Bed *bed,
                 gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  GCudaBuffer *from[3], *to[3];

  for (guint i = 0; i < 3; i++)
    {
      from[i] = gcuda_memory_resource_allocate (bed->resource, 100 * i, bed->stream, &error);
      g_assert_no_error (error);
      to[i] = gcuda_memory_resource_allocate (bed->resource, 100 * i, bed->stream, &error);
      g_assert_no_error (error);
      pattern_fill (from[i], (guint8) (i + 1), bed->stream);
      pattern_fill (to[i], 0, bed->stream);
    }
  /* Each fault is found before the first copy. */
  g_assert_false (gcuda_buffer_copy_batch (from, 3, to, 2, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  {
    GCudaBuffer *crossed[3] = { to[0], to[2], to[1] };
    GCudaBuffer *missing[3] = { to[0], to[1], NULL };
    GCudaBuffer *same[3] = { to[0], to[1], from[2] };

    g_assert_false (gcuda_buffer_copy_batch (from, 3, crossed, 3, bed->stream, &error));
    assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
    g_assert_false (gcuda_buffer_copy_batch (from, 3, missing, 3, bed->stream, &error));
    assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
    g_assert_false (gcuda_buffer_copy_batch (from, 3, same, 3, bed->stream, &error));
    assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  }
  g_assert_false (gcuda_buffer_copy_batch (from, 3, to, 3, NULL, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  for (guint i = 0; i < 3; i++)
    pattern_assert (to[i], 0, bed->stream);
  g_assert_true (gcuda_buffer_copy_batch (from, 3, to, 3, bed->stream, &error));
  g_assert_true (gcuda_buffer_copy_batch (NULL, 0, NULL, 0, bed->stream, &error));
  g_assert_no_error (error);
  for (guint i = 0; i < 3; i++)
    {
      pattern_assert (to[i], (guint8) (i + 1), bed->stream);
      g_object_unref (from[i]);
      g_object_unref (to[i]);
    }
}

static void
count_free (gpointer data)
{
  g_atomic_int_inc ((gint *) data);
}

/* Host data is kept until the stream has passed, and no longer. */
static void
test_upload (Bed *bed,
             gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = gcuda_memory_resource_allocate (bed->resource, 1 << 20, bed->stream, &error);
  gint freed = 0;
  guint8 *memory;
  GBytes *bytes;
  Blocker *blocker;

  g_assert_no_error (error);
  /* Page-locked, so that the driver reads it late. */
  assert_cuda (RAW (cuCtxPushCurrent) (gcuda_context_get_cuda_context (bed->context)));
  assert_cuda (RAW (cuMemAllocHost) ((void **) &memory, 1 << 20));
  {
    CUcontext popped;

    assert_cuda (RAW (cuCtxPopCurrent) (&popped));
  }
  memset (memory, 0x21, 1 << 20);
  bytes = g_bytes_new_with_free_func (memory, 1 << 20, count_free, &freed);
  blocker = blocker_new (bed->stream);
  g_assert_true (gcuda_buffer_upload (buffer, 0, bytes, bed->stream, &error));
  g_assert_no_error (error);
  g_bytes_unref (bytes);
  g_usleep (3000);
  g_assert_cmpint (g_atomic_int_get (&freed), ==, 0);
  blocker_release (blocker);
  pattern_assert (buffer, 0x21, bed->stream);
  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_cmpint (g_atomic_int_get (&freed), ==, 1);
  assert_cuda (RAW (cuMemFreeHost) (memory));

#define BAD(call)        \
  g_assert_false (call); \
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT)
  bytes = g_bytes_new_static ("12345678", 8);
  BAD (gcuda_buffer_upload (buffer, 0, NULL, bed->stream, &error));
  BAD (gcuda_buffer_upload (buffer, (1 << 20) - 7, bytes, bed->stream, &error));
  BAD (gcuda_buffer_upload (buffer, G_MAXUINT64 - 2, bytes, bed->stream, &error));
  BAD (gcuda_buffer_upload (buffer, 0, bytes, NULL, &error));
  BAD (gcuda_buffer_upload_data (buffer, 0, NULL, 4, bed->stream, &error));
  BAD (gcuda_buffer_upload_data (buffer, 0, (const guint8 *) "x", G_MAXSIZE, bed->stream, &error));
  BAD (gcuda_buffer_download (buffer, 1, 1 << 20, bed->stream, &error) != NULL);
  BAD (gcuda_buffer_download (buffer, 0, G_MAXUINT64, bed->stream, &error) != NULL);
  BAD (gcuda_buffer_download (buffer, 0, 8, NULL, &error) != NULL);
  BAD (gcuda_buffer_download_into (buffer, 0, NULL, 8, bed->stream, &error));
#undef BAD
  g_bytes_unref (bytes);
  pattern_assert (buffer, 0x21, bed->stream);
}

static void
test_views (Bed *bed,
            gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  GCudaBuffer *buffer = gcuda_memory_resource_allocate (bed->resource, 4096, bed->stream, &error);
  GCudaBuffer *view = gcuda_buffer_new_view (buffer, 1024, 2048, &error);
  GCudaBuffer *inner = gcuda_buffer_new_view (view, 512, 512, &error);
  GCudaBuffer *empty = gcuda_buffer_new_view (buffer, 4096, 0, &error);

  g_assert_no_error (error);
  g_assert_cmpuint (gcuda_buffer_get_address (view), ==, gcuda_buffer_get_address (buffer) + 1024);
  g_assert_cmpuint (gcuda_buffer_get_address (inner), ==, gcuda_buffer_get_address (buffer) + 1536);
  g_assert_cmpuint (gcuda_buffer_get_size (inner), ==, 512);
  g_assert_null (gcuda_buffer_new_view (view, 2048, 1, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_null (gcuda_buffer_new_view (view, 1, G_MAXUINT64, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_null (gcuda_buffer_new_view (view, G_MAXUINT64, 2, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_null (gcuda_buffer_new_view (NULL, 0, 0, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);

  pattern_fill (buffer, 1, bed->stream);
  pattern_fill (view, 2, bed->stream);
  pattern_fill (inner, 3, bed->stream);
  /* Closed is not freed: the views hold the memory. */
  gcuda_test_log_start ();
  g_assert_true (gcuda_buffer_close (buffer, NULL, &error));
  g_object_unref (buffer);
  g_assert_true (gcuda_buffer_close (view, NULL, &error));
  g_assert_null (gcuda_buffer_new_view (view, 0, 1, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  pattern_assert (inner, 3, bed->stream);
  g_object_unref (view);
  g_object_unref (inner);
  if (gcuda_test_is_simulated ())
    {
      g_auto (GStrv) log = gcuda_test_log_take ();

      g_assert_cmpuint (gcuda_test_log_count (log, "cuMemFreeAsync", NULL), ==, 0);
    }
  g_object_unref (empty);
  g_assert_cmpuint (bed_settled_use (bed), ==, 0);
}

static void
set_flag (gpointer data,
          GObject *object)
{
  g_atomic_int_set ((gint *) data, TRUE);
}

static gpointer
reclaim (gpointer data)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_no_error (error);
  return data;
}

static GCudaBuffer *
foreign_with_owner (Bed *bed,
                    gint *gone)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GObject) owner = g_object_new (G_TYPE_OBJECT, NULL);
  GCudaBuffer *buffer = gcuda_buffer_new_for_address (bed->device, 4096, 16, owner, bed->stream, &error);

  g_assert_no_error (error);
  *gone = FALSE;
  g_object_weak_ref (owner, set_flag, gone);
  return buffer;
}

typedef struct
{
  GMutex lock;
  GCond cond;
  gint state; /* 1: the thread runs the default main context; 2: it may stop */
} LoopElsewhere;

static gpointer
run_loop_elsewhere (gpointer data)
{
  LoopElsewhere *self = data;

  g_assert_true (g_main_context_acquire (NULL));
  g_mutex_lock (&self->lock);
  self->state = 1;
  g_cond_broadcast (&self->cond);
  while (self->state != 2)
    g_cond_wait (&self->cond, &self->lock);
  g_mutex_unlock (&self->lock);
  g_main_context_release (NULL);
  return NULL;
}

/* A program without a loop: what it gave is let go in calls of its own, and nobody else's. */
static void
test_foreign_without_loop (Bed *bed,
                           gconstpointer data)
{
  LoopElsewhere elsewhere = { .state = 0 };
  GThread *thread;
  gint gone, next_gone;

  /* Where it waits for all. */
  g_object_unref (foreign_with_owner (bed, &gone));
  reclaim (NULL);
  g_assert_true (gone);

  /* Where it gives more. */
  g_object_unref (foreign_with_owner (bed, &gone));
  in_thread (reclaim, NULL);
  g_assert_false (gone);
  g_object_unref (foreign_with_owner (bed, &next_gone));
  g_assert_true (gone);
  reclaim (NULL);
  g_assert_true (next_gone);

  /* Not while another thread runs its main context. */
  g_mutex_init (&elsewhere.lock);
  g_cond_init (&elsewhere.cond);
  thread = g_thread_new ("loop", run_loop_elsewhere, &elsewhere);
  g_mutex_lock (&elsewhere.lock);
  while (elsewhere.state != 1)
    g_cond_wait (&elsewhere.cond, &elsewhere.lock);
  g_mutex_unlock (&elsewhere.lock);
  g_object_unref (foreign_with_owner (bed, &gone));
  reclaim (NULL);
  g_object_unref (foreign_with_owner (bed, &next_gone));
  g_assert_false (gone);
  g_mutex_lock (&elsewhere.lock);
  elsewhere.state = 2;
  g_cond_broadcast (&elsewhere.cond);
  g_mutex_unlock (&elsewhere.lock);
  g_thread_join (thread);
  reclaim (NULL);
  g_assert_true (gone);
  g_assert_true (next_gone);
  g_cond_clear (&elsewhere.cond);
  g_mutex_clear (&elsewhere.lock);
}

/* What waits for the loop when the process forks is the parent's. */
static void
test_foreign_and_fork (Bed *bed,
                       gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  gint gone;
  int answers[2];
  char answer = 0;
  pid_t child;

  if (gcuda_test_under_tool ())
    {
      g_test_skip ("the tool does not outlive a forked child");
      return;
    }
  g_object_unref (foreign_with_owner (bed, &gone));
  in_thread (reclaim, NULL);
  g_assert_cmpint (pipe (answers), ==, 0);
  child = fork ();
  if (child == 0)
    {
      gboolean refused;

      alarm (20);
      while (g_main_context_iteration (NULL, FALSE))
        ;
      refused = gcuda_stream_new_for_handle (bed->context, 4096, NULL, &error) == NULL && g_error_matches (error, GCUDA_ERROR, GCUDA_ERROR_FORKED);
      answer = gone ? 'g' : refused ? 'r'
                                    : 'n';
      _exit (write (answers[1], &answer, 1) == 1 ? 0 : 1);
    }
  g_assert_cmpint (child, >, 0);
  close (answers[1]);
  g_assert_cmpint (read (answers[0], &answer, 1), ==, 1);
  close (answers[0]);
  g_assert_cmpint (waitpid (child, NULL, 0), ==, child);
  g_assert_cmpint (answer, ==, 'r');
  g_assert_false (gone);
  reclaim (NULL);
  g_assert_true (gone);
}

static void
test_foreign (Bed *bed,
              gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  GObject *owner = g_object_new (G_TYPE_OBJECT, NULL);
  GCudaBuffer *buffer, *plain;
  CUdeviceptr address;
  CUcontext popped;
  Blocker *blocker;
  gint gone = FALSE;

  assert_cuda (RAW (cuCtxPushCurrent) (gcuda_context_get_cuda_context (bed->context)));
  assert_cuda (RAW (cuMemAlloc) (&address, 4096));
  assert_cuda (RAW (cuCtxPopCurrent) (&popped));

#define BAD(...)                                                      \
  g_assert_null (gcuda_buffer_new_for_address (__VA_ARGS__, &error)); \
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT)
  BAD (NULL, address, 4096, owner, bed->stream);
  BAD (bed->device, 0, 4096, owner, bed->stream);
  BAD (bed->device, address, 0, owner, bed->stream);
  BAD (bed->device, address, G_MAXUINT64, owner, bed->stream);
  BAD (bed->device, address, 4096, owner, NULL);
#undef BAD
  g_assert_cmpuint (owner->ref_count, ==, 1);

  g_object_weak_ref (owner, set_flag, &gone);
  buffer = gcuda_buffer_new_for_address (bed->device, address, 4096, owner, bed->stream, &error);
  g_assert_no_error (error);
  g_object_unref (owner);
  g_assert_cmpuint (gcuda_buffer_get_address (buffer), ==, address);
  g_assert_null (gcuda_buffer_get_resource (buffer));
  g_assert_true (gcuda_buffer_get_device (buffer) == bed->device);
  plain = gcuda_buffer_new_for_address (bed->device, address, 4096, NULL, bed->stream, &error);
  g_assert_no_error (error);
  pattern_fill (plain, 5, bed->stream);
  g_object_unref (plain);
  pattern_assert (buffer, 5, bed->stream);

  /* The owner is dropped after the stream passed, by the thread that gave it. */
  blocker = blocker_new (bed->stream);
  g_object_unref (buffer);
  for (guint i = 0; i < 20; i++)
    {
      g_main_context_iteration (NULL, FALSE);
      g_usleep (200);
    }
  g_assert_false (gone);
  blocker_release (blocker);
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  in_thread (reclaim, NULL);
  g_assert_false (gone);
  iterate_until (&gone);
  /* Never freed by the library. */
  assert_cuda (RAW (cuMemFree) (address));
}

static void
note_thread (gpointer data,
             GObject *object)
{
  g_atomic_pointer_set ((GThread **) data, g_thread_self ());
}

static gpointer
unref_in_thread (gpointer data)
{
  g_object_unref (data);
  return NULL;
}

/* The owner of what is foreign is let go in the main context of the thread that gave it, and by no thread of the library's:
 * also if nothing but that release keeps the context any more. */
static void
test_foreign_owner (Bed *bed,
                    gconstpointer data)
{
  for (guint i = 0; i < 4; i++)
    {
      gboolean is_stream = i % 2, context_dropped = i / 2;
      g_autoptr (GError) error = NULL;
      g_autoptr (GMainContext) main_context = g_main_context_new ();
      GMainContext *kept = main_context;
      GObject *owner = g_object_new (G_TYPE_OBJECT, NULL), *foreign;
      GThread *finalizer = NULL;

      g_object_weak_ref (owner, note_thread, &finalizer);
      g_main_context_push_thread_default (main_context);
      if (is_stream)
        foreign = G_OBJECT (gcuda_stream_new_for_handle (bed->context, gcuda_stream_get_handle (bed->stream), owner, &error));
      else
        foreign = G_OBJECT (gcuda_buffer_new_for_address (bed->device, 4096, 16, owner, bed->stream, &error));
      g_assert_no_error (error);
      g_main_context_pop_thread_default (main_context);
      g_object_unref (owner);
      if (context_dropped)
        g_clear_pointer (&main_context, g_main_context_unref);

      in_thread (unref_in_thread, foreign);
      g_assert_true (gcuda_reclaim (NULL, &error));
      g_assert_no_error (error);
      while (g_main_context_iteration (NULL, FALSE))
        ;
      g_assert_null (g_atomic_pointer_get (&finalizer));
      /* It is still there: the release keeps it. */
      g_main_context_ref (kept);
      while (g_main_context_iteration (kept, FALSE))
        ;
      g_assert_true (g_atomic_pointer_get (&finalizer) == g_thread_self ());
      g_main_context_unref (kept);
    }
}

static void
test_closed (Bed *bed,
             gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) disposed = gcuda_memory_resource_allocate (bed->resource, 64, bed->stream, &error);
  g_autoptr (GCudaBuffer) good = gcuda_memory_resource_allocate (bed->resource, 64, bed->stream, &error);
  GCudaBuffer *bare = g_object_new (GCUDA_TYPE_BUFFER, NULL);
  GCudaBuffer *closed[2] = { disposed, bare };
  g_autoptr (GBytes) bytes = g_bytes_new_static ("1", 1);

  g_assert_no_error (error);
  g_object_run_dispose (G_OBJECT (disposed));
  g_object_run_dispose (G_OBJECT (disposed));
  g_assert_cmpuint (gcuda_buffer_get_size (disposed), ==, 64);
  g_assert_cmpuint (gcuda_buffer_get_size (bare), ==, 0);
  for (guint i = 0; i < 2; i++)
    {
      g_assert_true (gcuda_buffer_is_closed (closed[i]));
      g_assert_cmpuint (gcuda_buffer_get_address (closed[i]), ==, 0);
      g_assert_null (gcuda_buffer_get_device (closed[i]));
      g_assert_null (gcuda_buffer_get_resource (closed[i]));
      g_assert_false (gcuda_buffer_is_device_accessible (closed[i]));
      g_assert_false (gcuda_buffer_is_host_accessible (closed[i]));
      g_assert_true (gcuda_buffer_close (closed[i], NULL, &error));
      g_assert_true (gcuda_buffer_close (closed[i], bed->stream, &error));
      g_assert_no_error (error);
#define CLOSED(call)     \
  g_assert_false (call); \
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED)
      CLOSED (gcuda_buffer_fill (closed[i], 0, 1, bed->stream, &error));
      CLOSED (gcuda_buffer_fill_2d (closed[i], 0, 1, 1, 1, 0, 1, bed->stream, &error));
      CLOSED (gcuda_buffer_copy_range (closed[i], 0, good, 0, 1, bed->stream, &error));
      CLOSED (gcuda_buffer_copy_2d (good, 0, 1, closed[i], 0, 1, 1, 1, bed->stream, &error));
      CLOSED (gcuda_buffer_upload (closed[i], 0, bytes, bed->stream, &error));
      CLOSED (gcuda_buffer_upload_data (closed[i], 0, (const guint8 *) "1", 1, bed->stream, &error));
      CLOSED (gcuda_buffer_download (closed[i], 0, 1, bed->stream, &error) != NULL);
      CLOSED (gcuda_buffer_set_deallocation_stream (closed[i], bed->stream, &error));
      CLOSED (gcuda_buffer_new_view (closed[i], 0, 0, &error) != NULL);
#undef CLOSED
    }
  g_assert_finalize_object (bare);
}

static void
test_sizes (Bed *bed,
            gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  guint64 calls = gcuda_test_is_simulated () ? gcuda_test_count_calls ("cuMemAllocFromPoolAsync") : 0;

  g_assert_null (gcuda_memory_resource_allocate (bed->resource, G_MAXUINT64, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_null (gcuda_memory_resource_allocate (bed->resource, 64, NULL, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  if (gcuda_test_is_simulated ())
    g_assert_cmpuint (gcuda_test_count_calls ("cuMemAllocFromPoolAsync"), ==, calls);
  g_assert_null (gcuda_memory_resource_allocate (bed->resource, (guint64) 1 << 60, bed->stream, &error));
  g_assert_nonnull (strstr (error->message, "CUDA_ERROR_OUT_OF_MEMORY"));
  g_assert_nonnull (strstr (error->message, "1.0"));
  assert_error_and_clear (error, GCUDA_ERROR_OUT_OF_MEMORY);
  /* No error is remembered. */
  {
    g_autoptr (GCudaBuffer) buffer = gcuda_memory_resource_allocate (bed->resource, 1, bed->stream, &error);

    g_assert_no_error (error);
    pattern_fill (buffer, 1, bed->stream);
    pattern_assert (buffer, 1, bed->stream);
  }
}

/* Many threads use one buffer while one of them closes it: each call does its work or says CLOSED. */
static gpointer
use_until_closed (gpointer data)
{
  GCudaBuffer *buffer = ((gpointer *) data)[0];
  GCudaStream *stream = ((gpointer *) data)[1];

  for (;;)
    {
      g_autoptr (GError) error = NULL;

      if (!gcuda_buffer_fill (buffer, 1, 1, stream, &error))
        {
          g_assert_error (error, GCUDA_ERROR, GCUDA_ERROR_CLOSED);
          return NULL;
        }
    }
}

static void
test_close_while_used (Bed *bed,
                       gconstpointer data)
{
  for (guint round = 0; round < 20; round++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GCudaBuffer) buffer = gcuda_memory_resource_allocate (bed->resource, 64, bed->stream, &error);
      gpointer pair[2] = { buffer, bed->stream };
      GThread *threads[3];

      g_assert_no_error (error);
      for (guint i = 0; i < 3; i++)
        threads[i] = g_thread_new ("user", use_until_closed, pair);
      g_usleep (300);
      g_assert_true (gcuda_buffer_close (buffer, NULL, &error));
      for (guint i = 0; i < 3; i++)
        g_thread_join (threads[i]);
    }
  g_assert_cmpuint (bed_settled_use (bed), ==, 0);
}

static void
drop_in_handler (GObject *object,
                 GParamSpec *pspec,
                 gpointer data)
{
  GCudaBuffer **buffer = data;

  /* The change is whole: the memory is gone, and the object is whole as long as its handlers run. */
  g_assert_true (gcuda_buffer_is_closed (GCUDA_BUFFER (object)));
  g_clear_object (buffer);
}

static void
test_dropped_by_handler (Bed *bed,
                         gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  GCudaBuffer *buffer = gcuda_memory_resource_allocate (bed->resource, 64, bed->stream, &error);

  g_assert_no_error (error);
  g_signal_connect (buffer, "notify::closed", G_CALLBACK (drop_in_handler), &buffer);
  g_assert_true (gcuda_buffer_close (buffer, NULL, &error));
  g_assert_no_error (error);
  g_assert_null (buffer);
  g_assert_cmpuint (bed_settled_use (bed), ==, 0);
}

/* Rows without number, in memory that nobody has: an answer, and not a loop over them. */
static void
test_many_rows (Bed *bed,
                gconstpointer data)
{
  const guint64 size = (guint64) 1 << 62;
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = gcuda_buffer_new_for_address (bed->device, 4096, size, NULL, bed->stream, &error);

  g_assert_no_error (error);
  g_assert_false (gcuda_buffer_copy_2d (buffer, 0, 4, buffer, 1, 4, 2, size / 8, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_false (gcuda_buffer_copy_2d (buffer, 0, 4, buffer, 2, 8, 2, size / 16, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
}

/* A stream of another device copies within this one. */
static void
test_copy_by_other_device (Bed *bed,
                           gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GListModel) devices = gcuda_get_devices (&error);
  g_autoptr (GCudaDevice) peer = g_list_model_get_item (devices, 1);
  g_autoptr (GCudaStream) stream = NULL;
  GCudaBuffer *a, *b;

  if (peer == NULL)
    {
      g_test_skip ("needs two devices");
      return;
    }
  stream = gcuda_stream_new_for_device (peer, &error);
  g_assert_no_error (error);
  a = gcuda_memory_resource_allocate (bed->resource, 4096, bed->stream, &error);
  b = gcuda_memory_resource_allocate (bed->resource, 4096, bed->stream, &error);
  g_assert_no_error (error);
  pattern_fill (a, 0x2b, bed->stream);
  g_assert_true (gcuda_stream_wait_stream (stream, bed->stream, &error));
  g_assert_true (gcuda_buffer_copy_to (a, b, stream, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_stream_wait_stream (bed->stream, stream, &error));
  pattern_assert (b, 0x2b, bed->stream);
  g_object_unref (a);
  g_object_unref (b);
  g_assert_finalize_object (g_steal_pointer (&stream));
  {
    g_autoptr (GCudaContext) context = gcuda_device_get_primary_context (peer, &error);

    g_assert_true (gcuda_context_close (context, &error));
    g_assert_no_error (error);
  }
}

/* A download that fails when its copy is on the way already: no memory is let go that the driver still writes to. */
static void
test_download_in_flight (Bed *bed,
                         gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = gcuda_memory_resource_allocate (bed->resource, 4096, bed->stream, &error);
  static const struct
  {
    const char *spec;
    GCudaError code;
  } failures[] = {
    { "cuStreamSynchronize:1=STREAM_CAPTURE_UNSUPPORTED", GCUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED },
    { "cuStreamSynchronize:1=UNKNOWN", GCUDA_ERROR_UNKNOWN },
  };
  guint8 target[16];

  g_assert_no_error (error);
  if (!gcuda_test_needs_failing_calls ())
    return;
  pattern_fill (buffer, 7, bed->stream);

  /* Waiting may be what another thread's capture forbids: that is told, but waited is all the same. */
  for (guint i = 0; i < G_N_ELEMENTS (failures); i++)
    {
      g_auto (GStrv) log = NULL;

      gcuda_test_log_start ();
      gcuda_test_fail_calls (failures[i].spec);
      g_assert_false (gcuda_buffer_download_into (buffer, 0, target, sizeof target, bed->stream, &error));
      assert_error_and_clear (error, failures[i].code);
      gcuda_test_fail_calls (NULL);
      log = gcuda_test_log_take ();
      g_assert_cmpuint (gcuda_test_log_count (log, "cuMemcpyDtoHAsync", "= SUCCESS", NULL), ==, 1);
      g_assert_cmpuint (gcuda_test_log_count (log, "cuThreadExchangeStreamCaptureMode", "= SUCCESS", NULL), ==, 2);
      g_assert_cmpuint (gcuda_test_log_count (log, "cuStreamSynchronize", "= SUCCESS", NULL), ==, 1);
    }

  /* If there is no waiting at all, the memory is let go once the stream has passed the copy. */
  gcuda_test_log_start ();
  gcuda_test_fail_calls ("cuStreamSynchronize:1+=UNKNOWN");
  g_assert_null (gcuda_buffer_download (buffer, 0, 16, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_UNKNOWN);
  gcuda_test_fail_calls (NULL);
  g_assert_true (gcuda_reclaim (NULL, &error));
  {
    g_auto (GStrv) log = gcuda_test_log_take ();

    g_assert_cmpuint (gcuda_test_log_count (log, "cuEventRecord", "= SUCCESS", NULL), ==, 1);
    g_assert_cmpuint (gcuda_test_log_count (log, "cuEventQuery", "= SUCCESS", NULL), >=, 1);
  }
  pattern_assert (buffer, 7, bed->stream);
}

int
main (int argc,
      char **argv)
{
  gcuda_test_init (&argc, &argv);
  bed_add ("/buffer/life", test_life);
  bed_add ("/buffer/zero-size", test_zero_size);
  bed_add ("/buffer/fill", test_fill);
  bed_add ("/buffer/fill-range", test_fill_range);
  bed_add ("/buffer/fill-2d", test_fill_2d);
  bed_add ("/buffer/copy", test_copy);
  bed_add ("/buffer/copy-2d", test_copy_2d);
  bed_add ("/buffer/copy-batch", test_copy_batch);
  bed_add ("/buffer/upload", test_upload);
  bed_add ("/buffer/views", test_views);
  bed_add ("/buffer/foreign", test_foreign);
  bed_add ("/buffer/foreign-without-loop", test_foreign_without_loop);
  bed_add ("/buffer/foreign-owner", test_foreign_owner);
  bed_add ("/buffer/foreign-and-fork", test_foreign_and_fork);
  bed_add ("/buffer/closed", test_closed);
  bed_add ("/buffer/dropped-by-handler", test_dropped_by_handler);
  bed_add ("/buffer/many-rows", test_many_rows);
  bed_add ("/buffer/copy-by-other-device", test_copy_by_other_device);
  bed_add ("/buffer/sizes", test_sizes);
  bed_add ("/buffer/download-in-flight", test_download_in_flight);
  bed_add ("/buffer/close-while-used", test_close_while_used);
  return g_test_run ();
}
