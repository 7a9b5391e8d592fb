/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Host memory of others, registered: it is used where it is, unregistered after the last work on it, and let go after that.
 */
#include "gcuda-test.h"

#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "gcudamem/simulator/gcudasim.h"

#define SIZE (64 * 1024)

#define SIMULATOR(name) ((__typeof__ (&name)) gcuda_test_simulator_function (#name))

static void
reclaim (void)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_no_error (error);
  while (g_main_context_iteration (NULL, FALSE))
    ;
}

/* Data that tells when it is let go. */
typedef struct
{
  gint freed;
  guint8 *data;
} Watched;

static void
watched_free (gpointer data)
{
  Watched *watched = data;

  g_free (watched->data);
  g_atomic_int_set (&watched->freed, TRUE);
}

static GBytes *
watched_bytes (Watched *watched,
               gsize size)
{
  watched->freed = FALSE;
  watched->data = g_malloc (size);
  for (gsize i = 0; i < size; i++)
    watched->data[i] = (guint8) (i * 13 + i / 251);
  return g_bytes_new_with_free_func (watched->data, size, watched_free, watched);
}

static GCudaBuffer *
allocate (Bed *bed)
{
  g_autoptr (GError) error = NULL;
  GCudaBuffer *buffer = gcuda_memory_resource_allocate (bed->resource, SIZE, bed->stream, &error);

  g_assert_no_error (error);
  return buffer;
}

/* The device reads the data where it is, and the data lives until it did. */
static void
test_bytes (Bed *bed,
            gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  Watched watched;
  GBytes *bytes = watched_bytes (&watched, SIZE);
  g_autoptr (GBytes) copy = g_bytes_new (watched.data, SIZE);
  g_autoptr (GBytes) read = NULL;
  g_autoptr (GCudaBuffer) target = allocate (bed);
  g_autoptr (GCudaBuffer) buffer = gcuda_buffer_new_for_bytes (bed->device, bytes, bed->stream, &error);
  GCudaBuffer *view;
  gboolean read_only = FALSE;
  Blocker *blocker;

  g_assert_no_error (error);
  g_assert_false (gcuda_buffer_is_read_only (target));
  g_assert_cmpuint (gcuda_buffer_get_address (buffer), ==, (guint64) (guintptr) watched.data);
  g_assert_cmpuint (gcuda_buffer_get_size (buffer), ==, SIZE);
  g_assert_true (gcuda_buffer_is_host_accessible (buffer));
  g_assert_true (gcuda_buffer_is_read_only (buffer));
  view = gcuda_buffer_new_view (buffer, 16, 16, &error);
  g_object_get (view, "read-only", &read_only, NULL);
  g_assert_true (read_only);
  g_clear_object (&view);
  g_assert_true (gcuda_buffer_is_device_accessible (buffer));
  g_assert_null (gcuda_buffer_get_resource (buffer));
  g_assert_true (gcuda_buffer_get_device (buffer) == bed->device);
  g_bytes_unref (bytes);
  blocker = blocker_new (bed->stream);
  g_assert_true (gcuda_buffer_copy_to (buffer, target, bed->stream, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_buffer_close (buffer, NULL, &error));
  g_assert_false (gcuda_buffer_is_read_only (buffer));
  g_usleep (10000);
  g_assert_false (g_atomic_int_get (&watched.freed));
  blocker_release (blocker);
  reclaim ();
  g_assert_true (g_atomic_int_get (&watched.freed));
  read = gcuda_buffer_download (target, 0, SIZE, bed->stream, &error);
  g_assert_no_error (error);
  g_assert_true (g_bytes_equal (read, copy));
}

#define ASSERT_REFUSED(call, code)        \
  G_STMT_START                            \
  {                                       \
    g_assert_false (call);                \
    assert_error_and_clear (error, code); \
  }                                       \
  G_STMT_END

/* Nothing of this library writes into a GBytes. */
static void
test_read_only (Bed *bed,
                gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  Watched watched;
  GBytes *bytes = watched_bytes (&watched, SIZE);
  g_autoptr (GBytes) copy = g_bytes_new (watched.data, SIZE);
  g_autoptr (GBytes) other = g_bytes_new_take (g_malloc0 (16), 16);
  g_autoptr (GCudaBuffer) source = allocate (bed);
  g_autoptr (GCudaBuffer) buffer = gcuda_buffer_new_for_bytes (bed->device, bytes, bed->stream, &error);
  g_autoptr (GCudaBuffer) view = gcuda_buffer_new_view (buffer, 0, 100, &error);
  g_autoptr (GCudaHostMap) map = NULL;
  GCudaBuffer *sources[] = { source }, *targets[] = { buffer };

  pattern_fill (source, 1, bed->stream);
  ASSERT_REFUSED (gcuda_buffer_fill (buffer, 0, 1, bed->stream, &error), GCUDA_ERROR_INVALID_ARGUMENT);
  ASSERT_REFUSED (gcuda_buffer_fill (view, 0, 4, bed->stream, &error), GCUDA_ERROR_INVALID_ARGUMENT);
  ASSERT_REFUSED (gcuda_buffer_fill_2d (buffer, 0, 16, 8, 2, 0, 1, bed->stream, &error), GCUDA_ERROR_INVALID_ARGUMENT);
  ASSERT_REFUSED (gcuda_buffer_copy_to (source, buffer, bed->stream, &error), GCUDA_ERROR_INVALID_ARGUMENT);
  ASSERT_REFUSED (gcuda_buffer_copy_range (source, 0, view, 0, 10, bed->stream, &error), GCUDA_ERROR_INVALID_ARGUMENT);
  ASSERT_REFUSED (gcuda_buffer_copy_2d (source, 0, 16, buffer, 0, 16, 8, 2, bed->stream, &error), GCUDA_ERROR_INVALID_ARGUMENT);
  ASSERT_REFUSED (gcuda_buffer_copy_batch (sources, 1, targets, 1, bed->stream, &error), GCUDA_ERROR_INVALID_ARGUMENT);
  ASSERT_REFUSED (gcuda_buffer_upload (buffer, 0, other, bed->stream, &error), GCUDA_ERROR_INVALID_ARGUMENT);
  ASSERT_REFUSED (gcuda_buffer_upload_data (buffer, 0, (const guint8 *) "1", 1, bed->stream, &error), GCUDA_ERROR_INVALID_ARGUMENT);
  ASSERT_REFUSED (gcuda_buffer_map (buffer, GCUDA_MAP_FLAGS_WRITE, bed->stream, &error) != NULL, GCUDA_ERROR_INVALID_ARGUMENT);
  map = gcuda_buffer_map (buffer, GCUDA_MAP_FLAGS_READ, bed->stream, &error);
  g_assert_no_error (error);
  g_assert_cmpmem (gcuda_host_map_get_data (map, NULL), SIZE, g_bytes_get_data (copy, NULL), SIZE);
  g_clear_object (&map);
  g_clear_object (&view);
  g_clear_object (&buffer);
  g_bytes_unref (bytes);
  reclaim ();
}

static void
test_mapped_file (Bed *bed,
                  gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path = NULL;
  g_autofree guint8 *content = g_malloc (SIZE + 1234);
  g_autoptr (GMappedFile) file = NULL;
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (GBytes) read = NULL;
  g_autoptr (GCudaBuffer) buffer = NULL;
  g_autoptr (GCudaBuffer) target = NULL;
  int fd = g_file_open_tmp ("registered-XXXXXX", &path, &error);

  g_assert_no_error (error);
  for (gsize i = 0; i < SIZE + 1234; i++)
    content[i] = (guint8) (i * 7 + i / 509);
  g_assert_cmpint (write (fd, content, SIZE + 1234), ==, SIZE + 1234);
  close (fd);
  /* Opened for reading: the processor itself can't write the pages. Its last one is a part of one. */
  file = g_mapped_file_new (path, FALSE, &error);
  g_assert_no_error (error);
  bytes = g_mapped_file_get_bytes (file);
  buffer = gcuda_buffer_new_for_bytes (bed->device, bytes, bed->stream, &error);
  g_unlink (path);
  if (buffer == NULL && gcuda_device_get_attribute (bed->device, CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, NULL) == 0)
    {
      assert_error_and_clear (error, GCUDA_ERROR_INVALID_VALUE);
      return;
    }
  g_assert_no_error (error);
  target = gcuda_memory_resource_allocate (bed->resource, SIZE + 1234, bed->stream, &error);
  g_assert_true (gcuda_buffer_copy_to (buffer, target, bed->stream, &error));
  g_assert_no_error (error);
  g_clear_object (&buffer);
  g_clear_pointer (&bytes, g_bytes_unref);
  g_clear_pointer (&file, g_mapped_file_unref);
  read = gcuda_buffer_download (target, 0, SIZE + 1234, bed->stream, &error);
  g_assert_no_error (error);
  g_assert_cmpmem (g_bytes_get_data (read, NULL), SIZE + 1234, content, SIZE + 1234);
  reclaim ();
}

/* A device that does not register what may only be read. */
static void
test_lesser_devices (Bed *bed,
                     gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  Watched watched;
  g_autoptr (GBytes) bytes = watched_bytes (&watched, SIZE);
  g_autoptr (GCudaBuffer) buffer = NULL;

  if (!gcuda_test_is_simulated ())
    {
      g_test_skip ("needs a device that lacks something");
      return;
    }
  SIMULATOR (gcudasim_set_attribute)
  (0, CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 0);
  test_mapped_file (bed, NULL);
  buffer = gcuda_buffer_new_for_bytes (bed->device, bytes, bed->stream, &error);
  g_assert_no_error (error);
  ASSERT_REFUSED (gcuda_buffer_fill (buffer, 0, 1, bed->stream, &error), GCUDA_ERROR_INVALID_ARGUMENT);
  g_clear_object (&buffer);
  SIMULATOR (gcudasim_set_attribute)
  (0, CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 1);
  SIMULATOR (gcudasim_set_attribute)
  (0, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 0);
  buffer = gcuda_buffer_new_for_bytes (bed->device, bytes, bed->stream, &error);
  g_assert_null (buffer);
  g_assert_nonnull (strstr (error->message, "GCudaPinnedMemoryResource"));
  assert_error_and_clear (error, GCUDA_ERROR_NOT_SUPPORTED);
  SIMULATOR (gcudasim_set_attribute)
  (0, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1);
  reclaim ();
}

/* Writable memory: the device writes it where it is. At an odd address, and with an owner that is let go last. */
static void
test_host_address (Bed *bed,
                   gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autofree guint8 *memory = g_malloc0 (SIZE + 16);
  GObject *owner = g_object_new (G_TYPE_OBJECT, NULL);
  gpointer alive = owner;
  g_autoptr (GCudaBuffer) buffer = gcuda_buffer_new_for_host_address (bed->device, (guint64) (guintptr) (memory + 3), SIZE, owner, bed->stream, &error);
  Blocker *blocker;

  g_assert_no_error (error);
  g_object_add_weak_pointer (owner, &alive);
  g_object_unref (owner);
  g_assert_true (gcuda_buffer_is_host_accessible (buffer));
  blocker = blocker_new (bed->stream);
  pattern_fill (buffer, 0x6b, bed->stream);
  g_clear_object (&buffer);
  while (g_main_context_iteration (NULL, FALSE))
    ;
  g_assert_nonnull (alive);
  blocker_release (blocker);
  reclaim ();
  g_assert_null (alive);
  /* It is the program's again. */
  for (gsize i = 0; i < SIZE; i++)
    g_assert_cmpuint (memory[3 + i], ==, 0x6b);
  g_assert_cmpuint (memory[2], ==, 0);
  g_assert_cmpuint (memory[3 + SIZE], ==, 0);
}

static void
test_twice (Bed *bed,
            gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  Watched watched;
  GBytes *bytes = watched_bytes (&watched, SIZE);
  g_autoptr (GBytes) part = g_bytes_new_from_bytes (bytes, 5000, 3000);
  g_autoptr (GCudaBuffer) first = gcuda_buffer_new_for_bytes (bed->device, bytes, bed->stream, &error);
  g_autoptr (GCudaBuffer) second = NULL;
  g_autoptr (GCudaBuffer) target = allocate (bed);
  Blocker *blocker;

  g_assert_no_error (error);
  /* The same, and a part of it, while it is registered. */
  second = gcuda_buffer_new_for_bytes (bed->device, bytes, bed->stream, &error);
  g_assert_null (second);
  assert_error_and_clear (error, GCUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  second = gcuda_buffer_new_for_bytes (bed->device, part, bed->stream, &error);
  g_assert_null (second);
  assert_error_and_clear (error, GCUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  /* The first one is none the worse. */
  g_assert_true (gcuda_buffer_copy_to (first, target, bed->stream, &error));
  g_assert_no_error (error);

  /* Closed twice, unregistered once: there is no way to do that twice. */
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  gcuda_test_log_start ();
  g_assert_true (gcuda_buffer_close (first, NULL, &error));
  g_assert_true (gcuda_buffer_close (first, NULL, &error));
  g_clear_object (&first);
  reclaim ();
  if (gcuda_test_is_simulated ())
    {
      g_auto (GStrv) log = gcuda_test_log_take ();

      g_assert_cmpuint (gcuda_test_log_count (log, "cuMemHostUnregister", NULL), ==, 1);
      g_assert_cmpuint (gcuda_test_log_count (log, "cuMemHostUnregister", "= SUCCESS", NULL), ==, 1);
    }

  /* Again, while the old one still waits for its stream: that is waited for. */
  first = gcuda_buffer_new_for_bytes (bed->device, bytes, bed->stream, &error);
  g_assert_no_error (error);
  blocker = blocker_new (bed->stream);
  g_assert_true (gcuda_buffer_copy_to (first, target, bed->stream, &error));
  g_clear_object (&first);
  {
    g_autoptr (GCudaStream) other = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);

    blocker_release (blocker);
    second = gcuda_buffer_new_for_bytes (bed->device, bytes, other, &error);
    g_assert_no_error (error);
    g_clear_object (&second);
  }
  g_clear_pointer (&part, g_bytes_unref);
  g_bytes_unref (bytes);
  reclaim ();
  g_assert_true (g_atomic_int_get (&watched.freed));
}

/* Two pieces of data in one page do not overlap. */
static void
test_one_page (Bed *bed,
               gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  Watched watched;
  g_autoptr (GBytes) bytes = watched_bytes (&watched, SIZE);
  g_autoptr (GBytes) left = g_bytes_new_from_bytes (bytes, 10000, 500);
  g_autoptr (GBytes) right = g_bytes_new_from_bytes (bytes, 10500, 500);
  g_autoptr (GCudaBuffer) a = gcuda_buffer_new_for_bytes (bed->device, left, bed->stream, &error);
  g_autoptr (GCudaBuffer) b = NULL;
  g_autoptr (GBytes) read = NULL;

  g_assert_no_error (error);
  b = gcuda_buffer_new_for_bytes (bed->device, right, bed->stream, &error);
  g_assert_no_error (error);
  g_clear_object (&a);
  reclaim ();
  read = gcuda_buffer_download (b, 0, 500, bed->stream, &error);
  g_assert_no_error (error);
  g_assert_true (g_bytes_equal (read, right));
  g_clear_object (&b);
  reclaim ();
}

static void
test_empty (Bed *bed,
            gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) nothing = g_bytes_new (NULL, 0);
  g_autoptr (GBytes) none_of_it = g_bytes_new ("12", 0);
  GBytes *bytes[] = { nothing, none_of_it };

  for (gsize i = 0; i < G_N_ELEMENTS (bytes); i++)
    {
      g_autoptr (GCudaBuffer) buffer = gcuda_buffer_new_for_bytes (bed->device, bytes[i], bed->stream, &error);
      g_autoptr (GCudaHostMap) map = NULL;

      g_assert_no_error (error);
      g_assert_cmpuint (gcuda_buffer_get_address (buffer), ==, 0);
      g_assert_cmpuint (gcuda_buffer_get_size (buffer), ==, 0);
      map = gcuda_buffer_map (buffer, GCUDA_MAP_FLAGS_READ, bed->stream, &error);
      g_assert_no_error (error);
      g_assert_null (gcuda_host_map_get_data (map, NULL));
    }
}

static void
test_bad_arguments (Bed *bed,
                    gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  static guint8 here[1 << 16];
  Watched watched;
  g_autoptr (GBytes) bytes = watched_bytes (&watched, SIZE);
  g_autoptr (GObject) owner = g_object_new (G_TYPE_OBJECT, NULL);
  g_autoptr (GCudaStream) closed = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  g_autoptr (GCudaDevice) bare = g_object_new (GCUDA_TYPE_DEVICE, NULL);
  const guint64 address = (guint64) (guintptr) watched.data;

  g_assert_true (gcuda_stream_close (closed, &error));
  ASSERT_REFUSED (gcuda_buffer_new_for_bytes (NULL, bytes, bed->stream, &error) != NULL, GCUDA_ERROR_INVALID_ARGUMENT);
  ASSERT_REFUSED (gcuda_buffer_new_for_bytes (bare, bytes, bed->stream, &error) != NULL, GCUDA_ERROR_CLOSED);
  ASSERT_REFUSED (gcuda_buffer_new_for_bytes (bed->device, NULL, bed->stream, &error) != NULL, GCUDA_ERROR_INVALID_ARGUMENT);
  ASSERT_REFUSED (gcuda_buffer_new_for_bytes (bed->device, bytes, NULL, &error) != NULL, GCUDA_ERROR_INVALID_ARGUMENT);
  ASSERT_REFUSED (gcuda_buffer_new_for_bytes (bed->device, bytes, closed, &error) != NULL, GCUDA_ERROR_CLOSED);
  ASSERT_REFUSED (gcuda_buffer_new_for_host_address (bed->device, 0, SIZE, owner, bed->stream, &error) != NULL, GCUDA_ERROR_INVALID_ARGUMENT);
  ASSERT_REFUSED (gcuda_buffer_new_for_host_address (bed->device, address, 0, owner, bed->stream, &error) != NULL, GCUDA_ERROR_INVALID_ARGUMENT);
  ASSERT_REFUSED (gcuda_buffer_new_for_host_address (bed->device, address, G_MAXUINT64, owner, bed->stream, &error) != NULL, GCUDA_ERROR_INVALID_ARGUMENT);
  ASSERT_REFUSED (gcuda_buffer_new_for_host_address (bed->device, G_MAXUINT64 - 10, 100, owner, bed->stream, &error) != NULL, GCUDA_ERROR_INVALID_ARGUMENT);
  /* No memory, and the device's: what the driver answers. */
  ASSERT_REFUSED (gcuda_buffer_new_for_host_address (bed->device, 0x1000, SIZE, owner, bed->stream, &error) != NULL, GCUDA_ERROR_INVALID_VALUE);
  {
    g_autoptr (GCudaBuffer) plain = allocate (bed);

    ASSERT_REFUSED (gcuda_buffer_new_for_host_address (bed->device, gcuda_buffer_get_address (plain), SIZE, owner, bed->stream, &error) != NULL, GCUDA_ERROR_INVALID_VALUE);
  }
  /* On failure nothing is referenced. */
  g_assert_cmpuint (owner->ref_count, ==, 1);
  g_assert_false (g_atomic_int_get (&watched.freed));
  g_clear_pointer (&bytes, g_bytes_unref);
  g_assert_true (g_atomic_int_get (&watched.freed));
  g_assert_null (gcuda_buffer_new_for_host_address (bed->device, (guint64) (guintptr) here, G_GUINT64_CONSTANT (1) << 62, NULL, bed->stream, &error));
  g_assert_nonnull (error);
  g_clear_error (&error);
}

static gpointer
drop (gpointer data)
{
  g_object_unref (data);
  return NULL;
}

/* Dropped by another thread, during another thread's capture, and after its stream was closed. */
static void
test_drop_elsewhere (Bed *bed,
                     gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  Watched watched;
  GBytes *bytes = watched_bytes (&watched, SIZE);
  g_autoptr (GCudaStream) stream = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  GCudaBuffer *buffer = gcuda_buffer_new_for_bytes (bed->device, bytes, stream, &error);
  Capture *capture;

  g_assert_no_error (error);
  g_bytes_unref (bytes);
  g_assert_true (gcuda_stream_close (stream, &error));
  capture = capture_begin (bed->context, CAPTURE_NON_BLOCKING);
  in_thread (drop, buffer);
  reclaim ();
  capture_end (capture);
  g_assert_true (g_atomic_int_get (&watched.freed));
}

int
main (int argc,
      char **argv)
{
  gcuda_test_init (&argc, &argv);
  bed_add ("/registered/bytes", test_bytes);
  bed_add ("/registered/read-only", test_read_only);
  bed_add ("/registered/mapped-file", test_mapped_file);
  bed_add ("/registered/lesser-devices", test_lesser_devices);
  bed_add ("/registered/host-address", test_host_address);
  bed_add ("/registered/twice", test_twice);
  bed_add ("/registered/one-page", test_one_page);
  bed_add ("/registered/empty", test_empty);
  bed_add ("/registered/bad-arguments", test_bad_arguments);
  bed_add ("/registered/drop-elsewhere", test_drop_elsewhere);
  return g_test_run ();
}
