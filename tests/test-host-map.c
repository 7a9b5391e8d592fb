/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory that the processor maps: when it waits, what it keeps, and what it refuses.
 */
#include "gcuda-test.h"

#include <string.h>

#define SIZE (64 * 1024)

static GCudaBuffer *
allocate (Bed *bed)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaPinnedMemoryResource) resource = gcuda_pinned_memory_resource_new (bed->device, &error);
  GCudaBuffer *buffer;

  g_assert_no_error (error);
  buffer = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (resource), SIZE, bed->stream, &error);
  g_assert_no_error (error);
  return buffer;
}

static GCudaHostMap *
map_for (GCudaBuffer *buffer,
         GCudaMapFlags flags,
         GCudaStream *stream)
{
  g_autoptr (GError) error = NULL;
  GCudaHostMap *map = gcuda_buffer_map (buffer, flags, stream, &error);

  g_assert_no_error (error);
  g_assert_nonnull (map);
  return map;
}

static void
reclaim (void)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_no_error (error);
}

static gpointer
release_soon (gpointer data)
{
  g_usleep (20000);
  blocker_release (data);
  return NULL;
}

static void
test_waits (Bed *bed,
            gconstpointer data)
{
  g_autoptr (GCudaBuffer) buffer = allocate (bed);
  Blocker *blocker = blocker_new (bed->stream);
  g_autoptr (GCudaHostMap) map = NULL;
  GThread *thread;
  const guint8 *memory;
  gsize size = 0;

  pattern_fill (buffer, 0x21, bed->stream);
  thread = g_thread_new ("releases", release_soon, blocker);
  map = map_for (buffer, GCUDA_MAP_FLAGS_READ, bed->stream);
  g_thread_join (thread);
  g_assert_true (gcuda_host_map_is_mapped (map));
  g_assert_true (gcuda_host_map_is_synchronized (map));
  g_assert_false (gcuda_host_map_is_writable (map));
  g_assert_cmpuint (gcuda_host_map_get_size (map), ==, SIZE);
  g_assert_cmpuint (gcuda_host_map_get_address (map), ==, gcuda_buffer_get_address (buffer));
  memory = gcuda_host_map_get_data (map, &size);
  g_assert_cmpuint (size, ==, SIZE);
  for (gsize i = 0; i < SIZE; i++)
    g_assert_cmpuint (memory[i], ==, 0x21);
}

/* Without waiting: the caller knows, by an event that it waited for. */
static void
test_unsynchronized (Bed *bed,
                     gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = allocate (bed);
  g_autoptr (GCudaEvent) event = gcuda_event_new (bed->context, GCUDA_EVENT_FLAGS_NONE, &error);
  g_autoptr (GCudaHostMap) map = NULL;
  g_autoptr (GCudaHostMap) second = NULL;
  Blocker *blocker;

  pattern_fill (buffer, 0x22, bed->stream);
  g_assert_true (gcuda_event_record (event, bed->stream, &error));
  g_assert_true (gcuda_event_synchronize (event, &error));
  g_assert_no_error (error);
  blocker = blocker_new (bed->stream);
  map = map_for (buffer, GCUDA_MAP_FLAGS_READ | GCUDA_MAP_FLAGS_UNSYNCHRONIZED, NULL);
  g_assert_false (gcuda_host_map_is_synchronized (map));
  g_assert_cmpuint (((guint8 *) gcuda_host_map_get_data (map, NULL))[77], ==, 0x22);
  second = map_for (buffer, GCUDA_MAP_FLAGS_READ | GCUDA_MAP_FLAGS_UNSYNCHRONIZED, bed->stream);
  g_assert_false (gcuda_host_map_is_synchronized (second));
  blocker_release (blocker);
}

/* What the processor wrote is what the device reads. */
static void
test_write (Bed *bed,
            gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = allocate (bed);
  g_autoptr (GCudaBuffer) target = gcuda_memory_resource_allocate (bed->resource, SIZE, bed->stream, &error);
  g_autoptr (GCudaHostMap) map = map_for (buffer, GCUDA_MAP_FLAGS_WRITE, bed->stream);

  g_assert_true (gcuda_host_map_is_writable (map));
  memset (gcuda_host_map_get_data (map, NULL), 0x23, SIZE);
  gcuda_host_map_unmap (map);
  g_assert_true (gcuda_buffer_copy_to (buffer, target, bed->stream, &error));
  g_assert_no_error (error);
  pattern_assert (target, 0x23, bed->stream);
}

static void
test_read_and_write (Bed *bed,
                     gconstpointer data)
{
  static const guint8 text[] = "0123456789";
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = allocate (bed);
  g_autoptr (GCudaHostMap) map = NULL;
  g_autoptr (GCudaHostMap) read_only = NULL;
  g_autoptr (GCudaHostMap) write_only = NULL;
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (GBytes) nothing = NULL;

  pattern_fill (buffer, 0x24, bed->stream);
  map = map_for (buffer, GCUDA_MAP_FLAGS_READ | GCUDA_MAP_FLAGS_WRITE, bed->stream);
  read_only = map_for (buffer, GCUDA_MAP_FLAGS_READ, bed->stream);
  write_only = map_for (buffer, GCUDA_MAP_FLAGS_WRITE, bed->stream);
  g_assert_true (gcuda_host_map_write (map, 100, text, 10, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_host_map_write (map, SIZE, NULL, 0, &error));
  g_assert_no_error (error);
  bytes = gcuda_host_map_read (read_only, 100, 11, &error);
  g_assert_no_error (error);
  g_assert_cmpmem (g_bytes_get_data (bytes, NULL), 11, "0123456789\x24", 11);
  nothing = gcuda_host_map_read (map, SIZE, 0, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (g_bytes_get_size (nothing), ==, 0);

  g_assert_false (gcuda_host_map_write (read_only, 0, text, 1, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_null (gcuda_host_map_read (write_only, 0, 1, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_false (gcuda_host_map_write (map, SIZE - 5, text, 10, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_false (gcuda_host_map_write (map, G_MAXUINT64, text, 10, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_false (gcuda_host_map_write (map, 0, NULL, 10, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_null (gcuda_host_map_read (map, 1, G_MAXUINT64, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  gcuda_host_map_unmap (map);
  gcuda_host_map_unmap (map);
  g_assert_false (gcuda_host_map_is_mapped (map));
  g_assert_cmpuint (gcuda_host_map_get_address (map), ==, 0);
  g_assert_null (gcuda_host_map_get_data (map, NULL));
  g_assert_cmpuint (gcuda_host_map_get_size (map), ==, SIZE);
  g_assert_null (gcuda_host_map_read (map, 0, 1, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_false (gcuda_host_map_write (map, 0, text, 1, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
}

/* The map keeps the memory; the buffer's recipe frees it afterwards. */
static void
test_keeps_memory (Bed *bed,
                   gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaPinnedMemoryResource) resource = gcuda_pinned_memory_resource_new_unpooled (bed->device, FALSE, &error);
  g_autoptr (GCudaBuffer) buffer = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (resource), SIZE, bed->stream, &error);
  g_autoptr (GCudaHostMap) map = NULL;
  g_autoptr (GCudaHostMap) nested = NULL;

  pattern_fill (buffer, 0x25, bed->stream);
  map = map_for (buffer, GCUDA_MAP_FLAGS_READ | GCUDA_MAP_FLAGS_WRITE, bed->stream);
  nested = map_for (buffer, GCUDA_MAP_FLAGS_READ, bed->stream);
  gcuda_test_log_start ();
  g_assert_true (gcuda_buffer_close (buffer, NULL, &error));
  g_clear_object (&buffer);
  reclaim ();
  ((guint8 *) gcuda_host_map_get_data (map, NULL))[SIZE - 1] = 0x26;
  g_assert_cmpuint (((guint8 *) gcuda_host_map_get_data (nested, NULL))[SIZE - 1], ==, 0x26);
  gcuda_host_map_unmap (map);
  g_assert_cmpuint (((guint8 *) gcuda_host_map_get_data (nested, NULL))[0], ==, 0x25);
  g_clear_object (&nested);
  reclaim ();
  if (gcuda_test_is_simulated ())
    {
      g_auto (GStrv) log = gcuda_test_log_take ();

      g_assert_cmpuint (gcuda_test_log_count (log, "cuMemFreeHost", "= SUCCESS", NULL), ==, 1);
    }
}

/* Virtual memory stays where it is while it is mapped. */
static void
test_virtual (Bed *bed,
              gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaVirtualMemoryOptions) options = gcuda_virtual_memory_options_new ();
  g_autoptr (GCudaVirtualMemoryResource) resource = NULL;
  g_autoptr (GCudaBuffer) buffer = NULL;
  g_autoptr (GCudaHostMap) map = NULL;
  guint64 unit, address;

  gcuda_virtual_memory_options_set_location (options, GCUDA_MEMORY_LOCATION_HOST_NUMA, 0);
  resource = gcuda_virtual_memory_resource_new (bed->device, options, &error);
  if (g_error_matches (error, GCUDA_ERROR, GCUDA_ERROR_NOT_SUPPORTED))
    return;
  g_assert_no_error (error);
  unit = gcuda_virtual_memory_resource_get_granularity (resource);
  buffer = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (resource), 2 * unit, bed->stream, &error);
  g_assert_no_error (error);
  address = gcuda_buffer_get_address (buffer);
  pattern_fill (buffer, 0x27, bed->stream);
  map = map_for (buffer, GCUDA_MAP_FLAGS_READ, bed->stream);
  g_assert_false (gcuda_virtual_memory_resource_resize (resource, buffer, unit, GCUDA_RESIZE_FLAGS_NONE, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_IN_USE);
  g_assert_cmpuint (gcuda_buffer_get_address (buffer), ==, address);
  g_assert_cmpuint (((guint8 *) gcuda_host_map_get_data (map, NULL))[2 * unit - 1], ==, 0x27);
  gcuda_host_map_unmap (map);
  g_assert_true (gcuda_virtual_memory_resource_resize (resource, buffer, unit, GCUDA_RESIZE_FLAGS_NONE, bed->stream, &error));
  g_assert_no_error (error);
  g_clear_object (&buffer);
  /* With holes: only what is there. */
  buffer = gcuda_virtual_memory_resource_reserve (resource, 3 * unit, bed->stream, &error);
  g_assert_no_error (error);
  g_assert_null (gcuda_buffer_map (buffer, GCUDA_MAP_FLAGS_READ, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_true (gcuda_virtual_memory_resource_commit (resource, buffer, unit, unit, bed->stream, &error));
  g_assert_no_error (error);
  g_assert_null (gcuda_buffer_map (buffer, GCUDA_MAP_FLAGS_READ, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  {
    g_autoptr (GCudaBuffer) part = gcuda_buffer_new_view (buffer, unit, unit, &error);
    g_autoptr (GCudaBuffer) more = gcuda_buffer_new_view (buffer, unit, unit + 1, &error);
    g_autoptr (GCudaHostMap) window = NULL;

    g_assert_null (gcuda_buffer_map (more, GCUDA_MAP_FLAGS_READ, bed->stream, &error));
    assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
    pattern_fill (part, 0x28, bed->stream);
    window = map_for (part, GCUDA_MAP_FLAGS_READ, bed->stream);
    g_assert_cmpuint (((guint8 *) gcuda_host_map_get_data (window, NULL))[unit - 1], ==, 0x28);
    gcuda_host_map_unmap (window);
  }
  g_clear_object (&buffer);
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  reclaim ();
}

/* A view, and memory that others made. */
static void
test_parts_and_foreign (Bed *bed,
                        gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = allocate (bed);
  g_autoptr (GCudaBuffer) view = gcuda_buffer_new_view (buffer, 8192, 100, &error);
  g_autoptr (GCudaBuffer) empty = gcuda_buffer_new_view (buffer, 8192, 0, &error);
  g_autoptr (GCudaBuffer) foreign = NULL;
  g_autoptr (GCudaBuffer) plain = gcuda_memory_resource_allocate (bed->resource, SIZE, bed->stream, &error);
  g_autoptr (GCudaBuffer) foreign_plain = NULL;
  g_autoptr (GCudaHostMap) map = NULL;

  pattern_fill (buffer, 0x28, bed->stream);
  pattern_fill (view, 0x29, bed->stream);
  map = map_for (view, GCUDA_MAP_FLAGS_READ, bed->stream);
  g_assert_cmpuint (gcuda_host_map_get_size (map), ==, 100);
  g_assert_cmpuint (((guint8 *) gcuda_host_map_get_data (map, NULL))[99], ==, 0x29);
  g_assert_cmpuint (((guint8 *) gcuda_host_map_get_data (map, NULL))[-1], ==, 0x28);
  g_clear_object (&map);
  map = map_for (empty, GCUDA_MAP_FLAGS_READ, bed->stream);
  g_assert_cmpuint (gcuda_host_map_get_size (map), ==, 0);
  g_clear_object (&map);

  /* Of these the driver is asked. */
  foreign = gcuda_buffer_new_for_address (bed->device, gcuda_buffer_get_address (buffer), SIZE, NULL, bed->stream, &error);
  g_assert_no_error (error);
  map = map_for (foreign, GCUDA_MAP_FLAGS_READ, bed->stream);
  g_assert_cmpuint (((guint8 *) gcuda_host_map_get_data (map, NULL))[0], ==, 0x28);
  g_clear_object (&map);
  foreign_plain = gcuda_buffer_new_for_address (bed->device, gcuda_buffer_get_address (plain), SIZE, NULL, bed->stream, &error);
  g_assert_null (gcuda_buffer_map (foreign_plain, GCUDA_MAP_FLAGS_READ, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_NOT_SUPPORTED);
}

static void
test_bad_arguments (Bed *bed,
                    gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = allocate (bed);
  g_autoptr (GCudaStream) closed = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  g_autoptr (GCudaHostMap) bare = g_object_new (GCUDA_TYPE_HOST_MAP, NULL);
  static const GCudaMapFlags wrong[] = { GCUDA_MAP_FLAGS_NONE, GCUDA_MAP_FLAGS_UNSYNCHRONIZED, (GCudaMapFlags) 0x11 };

  for (gsize i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_assert_null (gcuda_buffer_map (buffer, wrong[i], bed->stream, &error));
      assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
    }
  g_assert_null (gcuda_buffer_map (buffer, GCUDA_MAP_FLAGS_READ, NULL, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_true (gcuda_stream_close (closed, &error));
  g_assert_null (gcuda_buffer_map (buffer, GCUDA_MAP_FLAGS_READ, closed, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_true (gcuda_buffer_close (buffer, NULL, &error));
  g_assert_null (gcuda_buffer_map (buffer, GCUDA_MAP_FLAGS_READ, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);

  /* Made by bare new. */
  g_assert_false (gcuda_host_map_is_mapped (bare));
  g_assert_false (gcuda_host_map_is_synchronized (bare));
  g_assert_null (gcuda_host_map_get_data (bare, NULL));
  g_assert_null (gcuda_host_map_read (bare, 0, 0, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  gcuda_host_map_unmap (bare);
}

static gpointer
map_and_drop (gpointer data)
{
  GCudaBuffer *buffer = data;

  for (guint i = 0; i < 200; i++)
    {
      g_autoptr (GCudaHostMap) map = gcuda_buffer_map (buffer, GCUDA_MAP_FLAGS_READ | GCUDA_MAP_FLAGS_UNSYNCHRONIZED, NULL, NULL);

      if (map == NULL)
        break; /* closed meanwhile */
      g_assert_cmpuint (((guint8 *) gcuda_host_map_get_data (map, NULL))[i], ==, 0x2a);
    }
  return NULL;
}

static void
test_threads (Bed *bed,
              gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = allocate (bed);
  GThread *threads[4];

  pattern_fill (buffer, 0x2a, bed->stream);
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    threads[i] = g_thread_new ("maps", map_and_drop, buffer);
  g_usleep (100);
  g_assert_true (gcuda_buffer_close (buffer, NULL, &error));
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    g_thread_join (threads[i]);
  reclaim ();
}

static gpointer
close_soon (gpointer data)
{
  for (gint i = g_random_int_range (0, 20); i > 0; i--)
    g_thread_yield ();
  g_assert_true (gcuda_buffer_close (data, NULL, NULL));
  return NULL;
}

/* Closed while it is mapped again and again: there is a map with an address, or none. */
static void
test_closed_meanwhile (Bed *bed,
                       gconstpointer data)
{
  for (guint i = 0; i < 300; i++)
    {
      g_autoptr (GCudaBuffer) buffer = allocate (bed);
      GThread *thread = g_thread_new ("closes", close_soon, buffer);
      GCudaHostMap *map;

      while ((map = gcuda_buffer_map (buffer, GCUDA_MAP_FLAGS_READ | GCUDA_MAP_FLAGS_UNSYNCHRONIZED, NULL, NULL)) != NULL)
        {
          g_assert_cmpuint (gcuda_host_map_get_address (map), !=, 0);
          g_object_unref (map);
        }
      g_thread_join (thread);
    }
  reclaim ();
}

static void
on_notify (GObject *object,
           GParamSpec *pspec,
           gpointer data)
{
  /* When the change is whole. */
  g_assert_false (gcuda_host_map_is_mapped (GCUDA_HOST_MAP (object)));
  (*(guint *) data)++;
}

static void
test_notify (Bed *bed,
             gconstpointer data)
{
  g_autoptr (GCudaBuffer) buffer = allocate (bed);
  g_autoptr (GCudaHostMap) map = map_for (buffer, GCUDA_MAP_FLAGS_WRITE, bed->stream);
  guint count = 0;

  g_signal_connect (map, "notify::mapped", G_CALLBACK (on_notify), &count);
  gcuda_host_map_unmap (map);
  gcuda_host_map_unmap (map);
  g_assert_cmpuint (count, ==, 1);
  g_object_run_dispose (G_OBJECT (map));
}

int
main (int argc,
      char **argv)
{
  gcuda_test_init (&argc, &argv);
  bed_add ("/host-map/waits", test_waits);
  bed_add ("/host-map/unsynchronized", test_unsynchronized);
  bed_add ("/host-map/write", test_write);
  bed_add ("/host-map/read-and-write", test_read_and_write);
  bed_add ("/host-map/keeps-memory", test_keeps_memory);
  bed_add ("/host-map/virtual", test_virtual);
  bed_add ("/host-map/parts-and-foreign", test_parts_and_foreign);
  bed_add ("/host-map/bad-arguments", test_bad_arguments);
  bed_add ("/host-map/threads", test_threads);
  bed_add ("/host-map/closed-meanwhile", test_closed_meanwhile);
  bed_add ("/host-map/notify", test_notify);
  return g_test_run ();
}
