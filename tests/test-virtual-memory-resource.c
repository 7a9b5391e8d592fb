/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-test.h"

#include <string.h>

#include "gcudamem/simulator/gcudasim.h"

#define SIMULATOR(name) ((__typeof__ (&name)) gcuda_test_simulator_function (#name))
#define NONE            GCUDA_RESIZE_FLAGS_NONE
#define MAY_MOVE        GCUDA_RESIZE_FLAGS_MAY_MOVE

/* What the simulated driver has of virtual memory, at the beginning of each test. */
typedef struct
{
  Bed bed;
  GCudaVirtualMemoryResource *virtual;
  guint64 unit; /* the granularity */
  GCudaStream *other;
  GCudaDevice *peer; /* NULL on a machine with one device */
  GcudasimBalance before;
} Case;

static GCudaVirtualMemoryResource *
make_resource (Case *test,
               GCudaVirtualMemoryOptions *options)
{
  g_autoptr (GError) error = NULL;
  GCudaVirtualMemoryResource *resource = gcuda_virtual_memory_resource_new (test->bed.device, options, &error);

  g_assert_no_error (error);
  g_assert_nonnull (resource);
  return resource;
}

static void
settle (void)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_no_error (error);
}

static void
assert_same_balance (const GcudasimBalance *before)
{
  GcudasimBalance after;

  if (!gcuda_test_is_simulated ())
    return;
  SIMULATOR (gcudasim_balance)
  (&after);
  g_assert_cmpuint (after.reservations, ==, before->reservations);
  g_assert_cmpuint (after.mappings, ==, before->mappings);
  g_assert_cmpuint (after.memory_handles, ==, before->memory_handles);
  g_assert_cmpuint (after.allocations, ==, before->allocations);
  g_assert_cmpuint (after.device_bytes, ==, before->device_bytes);
}

static void
get_balance (GcudasimBalance *balance)
{
  if (gcuda_test_is_simulated ())
    SIMULATOR (gcudasim_balance)
  (balance);
}

static void
set_up (Case *test,
        gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GListModel) devices = NULL;

  bed_set_up (&test->bed, data);
  devices = gcuda_get_devices (&error);
  test->peer = g_list_model_get_item (devices, 1);
  if (test->peer != NULL && !gcuda_device_can_access_peer (test->bed.device, test->peer, NULL))
    g_clear_object (&test->peer);
  test->other = gcuda_stream_new (test->bed.context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  g_assert_no_error (error);
  get_balance (&test->before);
  test->virtual = make_resource (test, NULL);
  test->unit = gcuda_virtual_memory_resource_get_granularity (test->virtual);
  g_assert_cmpuint (test->unit, >, 0);
  g_assert_cmpuint (test->unit & (test->unit - 1), ==, 0);
}

static void
tear_down (Case *test,
           gconstpointer data)
{
  settle ();
  g_assert_finalize_object (g_steal_pointer (&test->virtual));
  settle ();
  assert_same_balance (&test->before);
  g_clear_object (&test->other);
  g_clear_object (&test->peer);
  bed_tear_down (&test->bed, data);
}

/* Parts of buffers */

static void
fill_part (GCudaBuffer *buffer,
           guint64 offset,
           guint64 size,
           guint8 value,
           GCudaStream *stream)
{
  g_autoptr (GError) error = NULL;

  gcuda_buffer_fill_range (buffer, offset, size, value, 1, stream, &error);
  g_assert_no_error (error);
}

static void
assert_part (GCudaBuffer *buffer,
             guint64 offset,
             guint64 size,
             guint8 value,
             GCudaStream *stream)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = gcuda_buffer_download (buffer, offset, size, stream, &error);
  const guint8 *found;

  g_assert_no_error (error);
  found = g_bytes_get_data (bytes, NULL);
  /* All are the first. */
  g_assert_cmphex (found[0], ==, value);
  g_assert_cmpint (memcmp (found, found + 1, size - 1), ==, 0);
}

static GCudaBuffer *
allocate (GCudaVirtualMemoryResource *resource,
          guint64 size,
          GCudaStream *stream)
{
  g_autoptr (GError) error = NULL;
  GCudaBuffer *buffer = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (resource), size, stream, &error);

  g_assert_no_error (error);
  return buffer;
}

static void
resize (GCudaVirtualMemoryResource *resource,
        GCudaBuffer *buffer,
        guint64 size,
        GCudaResizeFlags flags,
        GCudaStream *stream)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (gcuda_virtual_memory_resource_resize (resource, buffer, size, flags, stream, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (gcuda_buffer_get_size (buffer), ==, size);
}

static guint64
capacity (GCudaVirtualMemoryResource *resource,
          GCudaBuffer *buffer)
{
  g_autoptr (GError) error = NULL;
  guint64 bytes = gcuda_virtual_memory_resource_get_capacity (resource, buffer, &error);

  g_assert_no_error (error);
  return bytes;
}

static CUmemAccess_flags
raw_access (guint64 address,
            GCudaDevice *device)
{
  CUmemLocation location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = gcuda_device_get_ordinal (device) };
  unsigned long long flags = 99;

  assert_cuda (RAW (cuMemGetAccess) (&flags, &location, (CUdeviceptr) address));
  return (CUmemAccess_flags) flags;
}

/* Takes the addresses right behind, so that a buffer can't grow there. */
static void
take_behind (GCudaBuffer *buffer,
             guint64 reserved,
             guint64 unit,
             CUdeviceptr *taken)
{
  assert_cuda (RAW (cuMemAddressReserve) (taken, unit, 0, gcuda_buffer_get_address (buffer) + reserved, 0));
}

static void
give_behind (CUdeviceptr taken,
             guint64 unit)
{
  assert_cuda (RAW (cuMemAddressFree) (taken, unit));
}

/* How many calls of these there were, all of them successful. */
static void
assert_calls (char **log,
              guint reserves,
              guint creates,
              guint maps,
              guint accesses,
              guint unmaps)
{
  const struct
  {
    const char *name;
    guint count;
  } calls[] = {
    { "cuMemAddressReserve", reserves },
    { "cuMemCreate", creates },
    { "cuMemMap", maps },
    { "cuMemSetAccess", accesses },
    { "cuMemUnmap", unmaps },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (calls); i++)
    {
      g_assert_cmpuint (gcuda_test_log_count (log, calls[i].name, NULL), ==, calls[i].count);
      g_assert_cmpuint (gcuda_test_log_count (log, calls[i].name, "= SUCCESS", NULL), ==, calls[i].count);
    }
}

#define with_log(name)        \
  g_auto (GStrv) name = NULL; \
  gcuda_test_log_start ()

/* What is made is given back: creates = releases, maps = unmaps, reserves = address frees. */
static void
assert_log_balance (char **log)
{
  static const char *const pairs[][2] = {
    { "cuMemCreate", "cuMemRelease" },
    { "cuMemMap", "cuMemUnmap" },
    { "cuMemAddressReserve", "cuMemAddressFree" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (pairs); i++)
    {
      guint made = gcuda_test_log_count (log, pairs[i][0], "= SUCCESS", NULL);
      guint given = gcuda_test_log_count (log, pairs[i][1], "= SUCCESS", NULL);

      if (made != given)
        gcuda_test_log_print (log);
      g_assert_cmpuint (made, ==, given);
      g_assert_cmpuint (gcuda_test_log_count (log, pairs[i][1], NULL), ==, given);
    }
}

/* Allocating */

static void
test_allocate (Case *test,
               gconstpointer data)
{
  const guint64 sizes[] = { 1, 4096, test->unit - 1, test->unit, test->unit + 1, 3 * test->unit };
  g_autoptr (GError) error = NULL;

  for (gsize i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      with_log (log);
      GCudaBuffer *buffer = allocate (test->virtual, sizes[i], test->bed.stream);

      g_assert_cmpuint (gcuda_buffer_get_size (buffer), ==, sizes[i]);
      g_assert_cmpuint (gcuda_buffer_get_address (buffer) % test->unit, ==, 0);
      g_assert_cmpuint (capacity (test->virtual, buffer), ==, (sizes[i] + test->unit - 1) / test->unit * test->unit);
      pattern_fill (buffer, (guint8) (i + 1), test->bed.stream);
      pattern_assert (buffer, (guint8) (i + 1), test->bed.stream);
      g_object_unref (buffer);
      settle ();
      if (gcuda_test_is_simulated ())
        {
          log = gcuda_test_log_take ();
          assert_calls (log, 1, 1, 1, 1, 1);
          assert_log_balance (log);
        }
    }
  {
    g_autoptr (GCudaBuffer) empty = allocate (test->virtual, 0, test->bed.stream);

    g_assert_cmpuint (gcuda_buffer_get_address (empty), ==, 0);
    g_assert_false (gcuda_virtual_memory_resource_resize (test->virtual, empty, 1, NONE, test->bed.stream, &error));
    assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  }
  /* An address without a buffer */
  {
    GCudaMemoryResource *resource = GCUDA_MEMORY_RESOURCE (test->virtual);
    guint64 address = gcuda_memory_resource_allocate_address (resource, 100, 0, test->bed.stream, &error);
    GCudaBuffer *buffer;

    g_assert_no_error (error);
    g_assert_true (gcuda_memory_resource_deallocate_address (resource, address, 100, 0, test->bed.stream, &error));
    g_assert_no_error (error);
    g_assert_false (gcuda_memory_resource_deallocate_address (resource, address, 100, 0, test->bed.stream, &error));
    assert_error_and_clear (error, GCUDA_ERROR_INVALID_VALUE);
    address = gcuda_memory_resource_allocate_address (resource, 100, 0, test->bed.stream, &error);
    buffer = gcuda_memory_resource_adopt_address (resource, address, 100, test->bed.stream, &error);
    g_assert_no_error (error);
    resize (test->virtual, buffer, test->unit, NONE, test->bed.stream);
    g_object_unref (buffer);
  }
}

/* Each is given back whole: free memory returns to its start. */
static void
test_many (Case *test,
           gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  GCudaMemoryInfo *info;
  guint64 before, after;

  settle ();
  info = gcuda_device_get_memory_info (test->bed.device, &error);
  before = gcuda_memory_info_get_free (info);
  gcuda_memory_info_unref (info);
  for (guint i = 0; i < 64; i++)
    {
      GCudaBuffer *buffer = allocate (test->virtual, 64 << 20, test->bed.stream);

      fill_part (buffer, 0, 4096, 1, test->bed.stream);
      g_object_unref (buffer);
      settle ();
    }
  /* Others may use the device as well: it returns there some time. */
  for (guint i = 0; i < 300; i++)
    {
      info = gcuda_device_get_memory_info (test->bed.device, &error);
      after = gcuda_memory_info_get_free (info);
      gcuda_memory_info_unref (info);
      if (after + test->unit >= before)
        break;
      g_usleep (100000);
    }
  g_assert_cmpuint (after + test->unit, >=, before);
  if (gcuda_test_is_simulated ())
    g_assert_cmpuint (after, ==, before);
}

/* A thread without a context, which this one is, copies within a chunk only: the library makes one current. */
static void
test_across_chunks (Case *test,
                    gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = allocate (test->virtual, test->unit, test->bed.stream);
  g_autoptr (GCudaBuffer) plain = NULL;
  g_autoptr (GBytes) up = NULL;
  g_autoptr (GBytes) down = NULL;
  g_autoptr (GBytes) part = NULL;
  const gsize start = test->unit - 100, size = test->unit + 200;
  guint8 *bytes = g_malloc (size);
  g_auto (GStrv) log = NULL;

  for (gsize i = 0; i < size; i++)
    bytes[i] = (guint8) (i * 7 + i / 256);
  up = g_bytes_new_take (bytes, size);
  resize (test->virtual, buffer, 2 * test->unit, NONE, test->bed.stream);
  resize (test->virtual, buffer, 3 * test->unit, NONE, test->bed.stream);
  gcuda_test_log_start ();
  g_assert_true (gcuda_buffer_upload (buffer, start, up, test->bed.stream, &error));
  g_assert_no_error (error);
  if (gcuda_test_is_simulated ())
    {
      log = gcuda_test_log_take ();
      g_assert_cmpuint (gcuda_test_log_count (log, "cuMemcpyHtoDAsync", "= SUCCESS", NULL), ==, 1);
    }
  down = gcuda_buffer_download (buffer, start, size, test->bed.stream, &error);
  g_assert_no_error (error);
  g_assert_true (g_bytes_equal (up, down));

  plain = gcuda_memory_resource_allocate (test->bed.resource, size, test->bed.stream, &error);
  g_assert_no_error (error);
  g_assert_true (gcuda_buffer_copy_range (buffer, start, plain, 0, size, test->bed.stream, &error));
  g_assert_no_error (error);
  part = gcuda_buffer_download (plain, 0, size, test->bed.stream, &error);
  g_assert_no_error (error);
  g_assert_true (g_bytes_equal (up, part));
  g_clear_pointer (&part, g_bytes_unref);

  /* Rows, of which one lies across. */
  g_assert_true (gcuda_buffer_fill_range (buffer, 0, 3 * test->unit, 0, 1, test->bed.stream, &error));
  g_assert_true (gcuda_buffer_copy_2d (plain, 0, 64, buffer, start - 64, 80, 64, 4, test->bed.stream, &error));
  g_assert_no_error (error);
  for (gsize row = 0; row < 4; row++)
    {
      g_autoptr (GBytes) found = gcuda_buffer_download (buffer, start - 64 + row * 80, 64, test->bed.stream, &error);

      g_assert_no_error (error);
      g_assert_cmpmem (g_bytes_get_data (found, NULL), 64, (const guint8 *) g_bytes_get_data (up, NULL) + row * 64, 64);
    }
  g_clear_object (&plain);
  g_assert_true (gcuda_stream_synchronize (test->bed.stream, &error));
  g_assert_true (gcuda_device_memory_resource_trim (test->bed.pool, 0, &error));
  g_assert_no_error (error);
}

/* Closing waits for nothing, and the work behind is done before the memory goes. */
static void
test_free_in_order (Case *test,
                    gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  GCudaBuffer *buffer = allocate (test->virtual, test->unit, test->bed.stream);
  Blocker *blocker = blocker_new (test->bed.stream);

  pattern_fill (buffer, 0x33, test->bed.stream);
  gcuda_test_log_start ();
  g_assert_true (gcuda_buffer_close (buffer, NULL, &error));
  g_assert_no_error (error);
  g_usleep (5000);
  if (gcuda_test_is_simulated ())
    {
      g_auto (GStrv) log = gcuda_test_log_take ();

      g_assert_cmpuint (gcuda_test_log_count (log, "cuMemUnmap", NULL), ==, 0);
    }
  blocker_release (blocker);
  g_assert_true (gcuda_stream_synchronize (test->bed.stream, &error));
  g_assert_no_error (error);
  g_object_unref (buffer);
}

/* Resizing */

typedef struct
{
  guint address, size;
  guint64 last_address, last_size;
} Notified;

static void
note_address (GCudaBuffer *buffer,
              GParamSpec *pspec,
              gpointer data)
{
  Notified *notified = data;

  notified->address++;
  notified->last_address = gcuda_buffer_get_address (buffer);
  notified->last_size = gcuda_buffer_get_size (buffer);
}

static void
note_size (GCudaBuffer *buffer,
           GParamSpec *pspec,
           gpointer data)
{
  Notified *notified = data;

  notified->size++;
  notified->last_address = gcuda_buffer_get_address (buffer);
  notified->last_size = gcuda_buffer_get_size (buffer);
}

static void
test_grow_in_headroom (Case *test,
                       gconstpointer data)
{
  g_autoptr (GCudaVirtualMemoryOptions) options = gcuda_virtual_memory_options_new ();
  g_autoptr (GCudaVirtualMemoryResource) resource = NULL;
  g_autoptr (GCudaBuffer) buffer = NULL;
  GCudaStream *stream = test->bed.stream;
  const guint64 unit = test->unit;
  Notified notified = { 0 };
  guint64 address;

  gcuda_virtual_memory_options_set_max_size (options, 16 * unit - 1);
  resource = make_resource (test, options);
  buffer = allocate (resource, 100, stream);
  address = gcuda_buffer_get_address (buffer);
  g_signal_connect (buffer, "notify::address", G_CALLBACK (note_address), &notified);
  g_signal_connect (buffer, "notify::size", G_CALLBACK (note_size), &notified);
  pattern_fill (buffer, 1, stream);

  /* Within the chunk: nothing to do. */
  gcuda_test_log_start ();
  resize (resource, buffer, unit, NONE, stream);
  if (gcuda_test_is_simulated ())
    {
      g_auto (GStrv) log = gcuda_test_log_take ();

      assert_calls (log, 0, 0, 0, 0, 0);
    }
  g_assert_cmpuint (notified.size, ==, 1);
  fill_part (buffer, 100, unit - 100, 2, stream);

  /* The new chunk only, whatever there is already. */
  for (guint i = 1; i < 16; i++)
    {
      gcuda_test_log_start ();
      resize (resource, buffer, (i + 1) * unit, NONE, stream);
      if (gcuda_test_is_simulated ())
        {
          g_auto (GStrv) log = gcuda_test_log_take ();

          assert_calls (log, 0, 1, 1, 1, 0);
        }
      fill_part (buffer, i * unit, unit, (guint8) (i + 2), stream);
      g_assert_cmpuint (notified.size, ==, i + 1);
      g_assert_cmpuint (notified.last_size, ==, (i + 1) * unit);
    }
  g_assert_cmpuint (gcuda_buffer_get_address (buffer), ==, address);
  g_assert_cmpuint (notified.address, ==, 0);
  g_assert_cmpuint (capacity (resource, buffer), ==, 16 * unit);
  assert_part (buffer, 0, 100, 1, stream);
  assert_part (buffer, 100, unit - 100, 2, stream);
  for (guint i = 1; i < 16; i++)
    assert_part (buffer, i * unit, unit, (guint8) (i + 2), stream);
  /* The same size is no change. */
  resize (resource, buffer, 16 * unit, NONE, stream);
  g_assert_cmpuint (notified.size, ==, 16);
  g_clear_object (&buffer);
  settle ();
}

/* No headroom: the addresses behind are asked for. */
static void
test_grow_beside (Case *test,
                  gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  GCudaStream *stream = test->bed.stream;
  const guint64 unit = test->unit;
  with_log (log);
  GCudaBuffer *buffer = allocate (test->virtual, unit, stream);
  guint64 address = gcuda_buffer_get_address (buffer);

  pattern_fill (buffer, 1, stream);
  for (guint i = 1; i < 4; i++)
    {
      if (!gcuda_virtual_memory_resource_resize (test->virtual, buffer, (i + 1) * unit, NONE, stream, &error))
        {
          /* A real driver may have given them to others. */
          g_assert_false (gcuda_test_is_simulated ());
          assert_error_and_clear (error, GCUDA_ERROR_OUT_OF_MEMORY);
          resize (test->virtual, buffer, (i + 1) * unit, MAY_MOVE, stream);
          address = gcuda_buffer_get_address (buffer);
        }
      fill_part (buffer, i * unit, unit, (guint8) (i + 1), stream);
    }
  g_assert_cmpuint (gcuda_buffer_get_address (buffer), ==, address);
  for (guint i = 0; i < 4; i++)
    assert_part (buffer, i * unit, unit, (guint8) (i + 1), stream);
  g_object_unref (buffer);
  settle ();
  if (gcuda_test_is_simulated ())
    {
      log = gcuda_test_log_take ();
      assert_calls (log, 4, 4, 4, 4, 4);
      assert_log_balance (log);
    }
}

static void
test_grow_by_moving (Case *test,
                     gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = allocate (test->virtual, 2 * test->unit, test->bed.stream);
  GCudaStream *stream = test->bed.stream;
  const guint64 unit = test->unit;
  guint64 address = gcuda_buffer_get_address (buffer);
  Notified notified = { 0 };
  CUdeviceptr taken;
  Blocker *blocker;

  resize (test->virtual, buffer, 3 * unit, MAY_MOVE, stream);
  address = gcuda_buffer_get_address (buffer);
  fill_part (buffer, 0, unit, 1, stream);
  fill_part (buffer, unit, 2 * unit, 2, stream);
  take_behind (buffer, 3 * unit, unit, &taken);
  g_signal_connect (buffer, "notify::address", G_CALLBACK (note_address), &notified);
  g_signal_connect (buffer, "notify::size", G_CALLBACK (note_size), &notified);

  g_assert_false (gcuda_virtual_memory_resource_resize (test->virtual, buffer, 4 * unit, NONE, stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_OUT_OF_MEMORY);
  g_assert_cmpuint (gcuda_buffer_get_address (buffer), ==, address);
  g_assert_cmpuint (gcuda_buffer_get_size (buffer), ==, 3 * unit);
  g_assert_cmpuint (notified.size + notified.address, ==, 0);

  /* Work on the old addresses is still on its way when the buffer has others. */
  blocker = blocker_new (stream);
  fill_part (buffer, 0, unit, 5, stream);
  gcuda_test_log_start ();
  resize (test->virtual, buffer, 4 * unit, MAY_MOVE, stream);
  g_assert_cmpuint (gcuda_buffer_get_address (buffer), !=, address);
  g_assert_cmpuint (notified.size, ==, 1);
  g_assert_cmpuint (notified.address, ==, 1);
  g_assert_cmpuint (notified.last_size, ==, 4 * unit);
  g_assert_cmpuint (notified.last_address, ==, gcuda_buffer_get_address (buffer));
  g_assert_cmpuint (capacity (test->virtual, buffer), ==, 4 * unit);
  fill_part (buffer, 3 * unit, unit, 3, stream);
  g_usleep (5000);
  if (gcuda_test_is_simulated ())
    {
      g_auto (GStrv) log = gcuda_test_log_take ();

      /* Asked for in vain; elsewhere. The same two chunks and a new one, and one right for all. */
      assert_calls (log, 2, 1, 3, 1, 0);
      g_assert_cmpuint (gcuda_test_log_count (log, "cuMemcpy", NULL), ==, 0);
    }
  blocker_release (blocker);
  assert_part (buffer, 0, unit, 5, stream);
  assert_part (buffer, unit, 2 * unit, 2, stream);
  assert_part (buffer, 3 * unit, unit, 3, stream);
  settle ();
  /* The old addresses are free. */
  if (gcuda_test_is_simulated ())
    {
      CUdeviceptr again;

      assert_cuda (RAW (cuMemAddressReserve) (&again, 3 * unit, 0, address, 0));
      g_assert_cmpuint (again, ==, address);
      give_behind (again, 3 * unit);
    }
  give_behind (taken, unit);
  resize (test->virtual, buffer, 1, NONE, stream);
  pattern_assert (buffer, 5, stream);
}

static void
test_shrink (Case *test,
             gconstpointer data)
{
  g_autoptr (GCudaVirtualMemoryOptions) options = gcuda_virtual_memory_options_new ();
  g_autoptr (GCudaVirtualMemoryResource) resource = NULL;
  g_autoptr (GCudaBuffer) buffer = NULL;
  GCudaStream *stream = test->bed.stream;
  const guint64 unit = test->unit;
  Blocker *blocker;

  gcuda_virtual_memory_options_set_max_size (options, 16 * unit);
  gcuda_virtual_memory_options_set_chunk_size (options, unit);
  resource = make_resource (test, options);
  buffer = allocate (resource, 6 * unit, stream);
  pattern_fill (buffer, 1, stream);

  /* The cut waits for the stream of the call, and not for the recipe's. */
  blocker = blocker_new (test->other);
  gcuda_test_log_start ();
  resize (resource, buffer, 2 * unit + 1, NONE, test->other);
  g_assert_cmpuint (capacity (resource, buffer), ==, 3 * unit);
  g_assert_true (gcuda_stream_synchronize (stream, NULL));
  g_usleep (5000);
  if (gcuda_test_is_simulated ())
    {
      g_auto (GStrv) log = gcuda_test_log_take ();

      assert_calls (log, 0, 0, 0, 0, 0);
    }
  /* What is still there is taken back before anything is made. */
  gcuda_test_log_start ();
  resize (resource, buffer, 5 * unit, NONE, test->other);
  g_assert_cmpuint (capacity (resource, buffer), ==, 5 * unit);
  if (gcuda_test_is_simulated ())
    {
      g_auto (GStrv) log = gcuda_test_log_take ();

      assert_calls (log, 0, 0, 0, 0, 0);
    }
  fill_part (buffer, 4 * unit, unit, 2, test->other);
  blocker_release (blocker);
  g_assert_true (gcuda_stream_synchronize (test->other, NULL));
  gcuda_test_log_start ();
  settle ();
  if (gcuda_test_is_simulated ())
    {
      g_auto (GStrv) log = gcuda_test_log_take ();

      g_assert_cmpuint (gcuda_test_log_count (log, "cuMemUnmap", NULL), <=, 1);
    }
  assert_part (buffer, 0, 2 * unit + 1, 1, stream);
  assert_part (buffer, 4 * unit, unit, 2, stream);
  resize (resource, buffer, 8 * unit, NONE, stream);
  fill_part (buffer, 5 * unit, 3 * unit, 3, stream);
  assert_part (buffer, 5 * unit, 3 * unit, 3, stream);
  /* A buffer that goes with a cut on its way. */
  resize (resource, buffer, unit, NONE, stream);
  resize (resource, buffer, 3 * unit, NONE, stream);
  resize (resource, buffer, 2 * unit, NONE, stream);
  g_clear_object (&buffer);
}

/* A growth that has taken a tail back keeps it, also when the stream passes the cut meanwhile. */
static void
test_take_back_in_time (Case *test,
                        gconstpointer data)
{
  g_autoptr (GCudaVirtualMemoryOptions) options = gcuda_virtual_memory_options_new ();
  g_autoptr (GCudaVirtualMemoryResource) resource = NULL;
  g_autoptr (GCudaBuffer) buffer = NULL;
  GCudaStream *stream = test->bed.stream;
  const guint64 unit = test->unit;

  gcuda_virtual_memory_options_set_max_size (options, 40 * unit);
  gcuda_virtual_memory_options_set_chunk_size (options, unit);
  resource = make_resource (test, options);
  buffer = allocate (resource, 2 * unit, stream);
  for (guint i = 0; i < 60; i++)
    {
      resize (resource, buffer, unit, NONE, stream);
      /* Long enough for the cut to come in between. */
      resize (resource, buffer, 40 * unit, NONE, stream);
      g_assert_cmpuint (capacity (resource, buffer), ==, 40 * unit);
      fill_part (buffer, unit, 64, 1, stream);
      resize (resource, buffer, 2 * unit, NONE, stream);
      settle ();
    }
}

/* A chunk stays as long as a byte of it is needed. */
static void
test_shrink_within_a_chunk (Case *test,
                            gconstpointer data)
{
  g_autoptr (GCudaBuffer) buffer = allocate (test->virtual, 4 * test->unit, test->bed.stream);
  GCudaStream *stream = test->bed.stream;

  pattern_fill (buffer, 7, stream);
  gcuda_test_log_start ();
  resize (test->virtual, buffer, 1, NONE, stream);
  g_assert_cmpuint (capacity (test->virtual, buffer), ==, 4 * test->unit);
  resize (test->virtual, buffer, 3 * test->unit, NONE, stream);
  settle ();
  if (gcuda_test_is_simulated ())
    {
      g_auto (GStrv) log = gcuda_test_log_take ();

      assert_calls (log, 0, 0, 0, 0, 0);
    }
  pattern_assert (buffer, 7, stream);
  /* One that the end lies in, and one behind it. */
  resize (test->virtual, buffer, 6 * test->unit, MAY_MOVE, stream);
  g_assert_cmpuint (capacity (test->virtual, buffer), ==, 6 * test->unit);
  resize (test->virtual, buffer, 2 * test->unit, NONE, stream);
  g_assert_cmpuint (capacity (test->virtual, buffer), ==, 4 * test->unit);
  settle ();
  pattern_assert (buffer, 7, stream);
}

/* Whatever else holds the memory relies on its addresses. */
static void
test_holders (Case *test,
              gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaVirtualMemoryOptions) options = gcuda_virtual_memory_options_new ();
  g_autoptr (GCudaVirtualMemoryResource) resource = NULL;
  g_autoptr (GCudaBuffer) buffer = NULL;
  g_autoptr (GCudaBuffer) view = NULL;
  GCudaStream *stream = test->bed.stream;
  const guint64 unit = test->unit;
  CUdeviceptr taken;
  guint64 address;

  gcuda_virtual_memory_options_set_max_size (options, 2 * unit);
  resource = make_resource (test, options);
  buffer = allocate (resource, unit, stream);
  address = gcuda_buffer_get_address (buffer);
  take_behind (buffer, 2 * unit, unit, &taken);
  view = gcuda_buffer_new_view (buffer, 0, unit, &error);
  g_assert_no_error (error);

  g_assert_false (gcuda_virtual_memory_resource_resize (resource, view, 2 * unit, MAY_MOVE, stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_false (gcuda_virtual_memory_resource_resize (resource, buffer, 4096, MAY_MOVE, stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_IN_USE);
  /* In place it may grow. */
  resize (resource, buffer, 2 * unit, NONE, stream);
  g_assert_false (gcuda_virtual_memory_resource_resize (resource, buffer, 3 * unit, MAY_MOVE, stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_IN_USE);
  g_assert_false (gcuda_virtual_memory_resource_decommit (resource, buffer, unit, unit, stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_IN_USE);
  g_assert_cmpuint (gcuda_buffer_get_size (buffer), ==, 2 * unit);
  g_assert_cmpuint (gcuda_buffer_get_size (view), ==, unit);
  g_assert_cmpuint (gcuda_buffer_get_address (buffer), ==, address);
  pattern_fill (buffer, 4, stream);
  pattern_assert (view, 4, stream);

  g_clear_object (&view);
  resize (resource, buffer, 3 * unit, MAY_MOVE, stream);
  g_assert_cmpuint (gcuda_buffer_get_address (buffer), !=, address);
  assert_part (buffer, 0, 2 * unit, 4, stream);
  give_behind (taken, unit);
}

typedef struct
{
  GCudaBuffer *buffer;
  GCudaBuffer *view;
} ViewOf;

static gpointer
leave_a_view (gpointer data)
{
  ViewOf *pair = data;
  g_autoptr (GError) error = NULL;

  g_usleep (50000);
  pair->view = gcuda_buffer_new_view (pair->buffer, 0, 4096, &error);
  g_assert_no_error (error);
  g_assert_true (gcuda_buffer_close (pair->buffer, NULL, &error));
  g_assert_no_error (error);
  gcuda_test_let_go ();
  return NULL;
}

/* A buffer is closed while it is resized, and a view takes its place: that one stays where it is. */
static void
test_view_instead (Case *test,
                   gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = NULL;
  GCudaStream *stream = test->bed.stream;
  GCudaBuffer *pending;
  ViewOf pair = { NULL, NULL };
  GThread *thread;
  CUdeviceptr taken;
  guint64 address;

  if (!gcuda_test_needs_failing_calls ())
    return;
  buffer = allocate (test->virtual, test->unit, stream);
  take_behind (buffer, test->unit, test->unit, &taken);
  pattern_fill (buffer, 5, stream);
  g_assert_true (gcuda_stream_synchronize (stream, &error));
  address = gcuda_buffer_get_address (buffer);
  /* The resize waits for memory meanwhile. */
  pending = allocate (test->virtual, test->unit, stream);
  gcuda_test_hold (stream);
  pattern_fill (pending, 1, stream);
  g_object_unref (pending);
  gcuda_test_fail_calls ("cuMemCreate:1=OUT_OF_MEMORY");
  pair.buffer = buffer;
  thread = g_thread_new ("leaves-a-view", leave_a_view, &pair);
  g_assert_false (gcuda_virtual_memory_resource_resize (test->virtual, buffer, 2 * test->unit, MAY_MOVE, stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_IN_USE);
  gcuda_test_fail_calls (NULL);
  g_thread_join (thread);
  g_assert_cmpuint (gcuda_buffer_get_address (pair.view), ==, address);
  pattern_assert (pair.view, 5, stream);
  g_object_unref (pair.view);
  give_behind (taken, test->unit);
}

#define BATCH 4000

typedef struct
{
  Case *test;
  GCudaVirtualMemoryResource *resource;
  GCudaBuffer *buffer;
  guint64 copies;
} GrowLater;

static gpointer
grow_later (gpointer data)
{
  GrowLater *later = data;

  while (gcuda_test_count_calls (NULL) == later->copies)
    g_thread_yield ();
  resize (later->resource, later->buffer, 2 * later->test->unit, NONE, later->test->other);
  return NULL;
}

/* What grows while a batch is copied is copied as it was checked. */
static void
test_batch_grows (Case *test,
                  gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaVirtualMemoryOptions) options = gcuda_virtual_memory_options_new ();
  g_autoptr (GCudaVirtualMemoryResource) resource = NULL;
  g_autoptr (GCudaBuffer) grows = NULL;
  g_autoptr (GCudaBuffer) whole = NULL;
  g_autoptr (GCudaBuffer) half = NULL;
  g_autoptr (GCudaBuffer) from = NULL;
  g_autoptr (GCudaBuffer) to = NULL;
  g_autofree GCudaBuffer **sources = g_new (GCudaBuffer *, BATCH);
  g_autofree GCudaBuffer **destinations = g_new (GCudaBuffer *, BATCH);
  GCudaStream *stream = test->bed.stream;
  GrowLater later;
  GThread *thread;

  if (!gcuda_test_needs_failing_calls ())
    return;
  gcuda_virtual_memory_options_set_max_size (options, 2 * test->unit);
  resource = make_resource (test, options);
  grows = allocate (resource, test->unit, stream);
  whole = allocate (resource, 2 * test->unit, stream);
  half = gcuda_buffer_new_view (whole, 0, test->unit, &error);
  from = allocate (test->virtual, 256, stream);
  to = allocate (test->virtual, 256, stream);
  g_assert_no_error (error);
  pattern_fill (grows, 1, stream);
  pattern_fill (whole, 2, stream);
  pattern_fill (from, 3, stream);
  for (guint i = 0; i < BATCH; i++)
    {
      sources[i] = i < BATCH - 1 ? from : grows;
      destinations[i] = i < BATCH - 1 ? to : half;
    }
  later = (GrowLater){ test, resource, grows, gcuda_test_count_calls (NULL) };
  thread = g_thread_new ("grows-later", grow_later, &later);
  g_assert_true (gcuda_buffer_copy_batch (sources, BATCH, destinations, BATCH, stream, &error));
  g_assert_no_error (error);
  g_thread_join (thread);
  pattern_assert (half, 1, stream);
  assert_part (whole, test->unit, test->unit, 2, stream);
}

/* Addresses and memory apart */

static void
test_reserve (Case *test,
              gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = NULL;
  GCudaStream *stream = test->bed.stream;
  const guint64 unit = test->unit;
  Blocker *blocker;

  gcuda_test_log_start ();
  buffer = gcuda_virtual_memory_resource_reserve (test->virtual, 8 * unit - 1, stream, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (gcuda_buffer_get_size (buffer), ==, 8 * unit - 1);
  g_assert_cmpuint (capacity (test->virtual, buffer), ==, 0);
  if (gcuda_test_is_simulated ())
    {
      g_auto (GStrv) log = gcuda_test_log_take ();

      assert_calls (log, 1, 0, 0, 0, 0);
    }
  g_assert_false (gcuda_buffer_fill_range (buffer, 0, 16, 1, 1, stream, &error));
  g_clear_error (&error);

  gcuda_test_log_start ();
  g_assert_true (gcuda_virtual_memory_resource_commit (test->virtual, buffer, 2 * unit, 3 * unit, stream, &error));
  g_assert_no_error (error);
  if (gcuda_test_is_simulated ())
    {
      g_auto (GStrv) log = gcuda_test_log_take ();

      assert_calls (log, 0, 3, 3, 1, 0);
    }
  fill_part (buffer, 2 * unit, 3 * unit, 1, stream);
  /* What is there stays; the end may be behind the size. */
  g_assert_true (gcuda_virtual_memory_resource_commit (test->virtual, buffer, unit, 7 * unit, stream, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (capacity (test->virtual, buffer), ==, 7 * unit);
  assert_part (buffer, 2 * unit, 3 * unit, 1, stream);
  fill_part (buffer, unit, unit, 2, stream);
  fill_part (buffer, 5 * unit, 3 * unit - 1, 3, stream);

  /* Each unit alone. */
  blocker = blocker_new (stream);
  fill_part (buffer, 3 * unit, unit, 9, stream);
  g_assert_true (gcuda_virtual_memory_resource_decommit (test->virtual, buffer, 3 * unit, unit, stream, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (capacity (test->virtual, buffer), ==, 6 * unit);
  /* Nothing there: nothing to do. */
  g_assert_true (gcuda_virtual_memory_resource_decommit (test->virtual, buffer, 0, unit, stream, &error));
  g_assert_no_error (error);
  gcuda_test_log_start ();
  g_assert_true (gcuda_virtual_memory_resource_commit (test->virtual, buffer, 3 * unit, unit, stream, &error));
  g_assert_no_error (error);
  if (gcuda_test_is_simulated ())
    {
      g_auto (GStrv) log = gcuda_test_log_take ();

      assert_calls (log, 0, 0, 0, 0, 0);
    }
  fill_part (buffer, 3 * unit, unit, 4, stream);
  blocker_release (blocker);
  settle ();
  assert_part (buffer, 3 * unit, unit, 4, stream);
  g_assert_true (gcuda_virtual_memory_resource_decommit (test->virtual, buffer, 3 * unit, unit, stream, &error));
  settle ();
  g_assert_false (gcuda_buffer_fill_range (buffer, 3 * unit, 16, 1, 1, stream, &error));
  g_clear_error (&error);
  assert_part (buffer, 2 * unit, unit, 1, stream);
  assert_part (buffer, 4 * unit, unit, 1, stream);

  /* Holes move along, and stay holes. */
  resize (test->virtual, buffer, 10 * unit, MAY_MOVE, stream);
  g_assert_cmpuint (capacity (test->virtual, buffer), ==, 8 * unit);
  assert_part (buffer, 4 * unit, unit, 1, stream);
  assert_part (buffer, 5 * unit, 2 * unit, 3, stream);
  g_assert_false (gcuda_buffer_fill_range (buffer, 3 * unit, 16, 1, 1, stream, &error));
  g_clear_error (&error);
}

/* Rights */

static void
test_access (Case *test,
             gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaStream) peer_stream = NULL;
  g_autoptr (GCudaBuffer) a = NULL, b = NULL, c = NULL;
  GCudaStream *stream = test->bed.stream;
  const guint64 unit = test->unit;
  CUdeviceptr taken;

  if (test->peer == NULL)
    {
      g_test_skip ("needs two devices");
      return;
    }
  peer_stream = gcuda_stream_new_for_device (test->peer, &error);
  a = allocate (test->virtual, unit, stream);
  b = allocate (test->virtual, unit, stream);
  g_assert_cmpint (raw_access (gcuda_buffer_get_address (a), test->bed.device), ==, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  g_assert_cmpint (raw_access (gcuda_buffer_get_address (a), test->peer), ==, CU_MEM_ACCESS_FLAGS_PROT_NONE);

  /* One buffer, and what it grows by. */
  g_assert_true (gcuda_virtual_memory_resource_set_access (test->virtual, a, test->peer, GCUDA_MEMORY_ACCESS_READ, &error));
  g_assert_no_error (error);
  resize (test->virtual, a, 2 * unit, MAY_MOVE, stream);
  take_behind (a, 2 * unit, unit, &taken);
  resize (test->virtual, a, 3 * unit, MAY_MOVE, stream);
  for (guint i = 0; i < 3; i++)
    {
      g_assert_cmpint (raw_access (gcuda_buffer_get_address (a) + i * unit, test->bed.device), ==, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
      g_assert_cmpint (raw_access (gcuda_buffer_get_address (a) + i * unit, test->peer), ==, CU_MEM_ACCESS_FLAGS_PROT_READ);
    }
  give_behind (taken, unit);
  g_assert_cmpint (raw_access (gcuda_buffer_get_address (b), test->peer), ==, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  pattern_fill (a, 3, stream);
  g_assert_true (gcuda_stream_wait_stream (peer_stream, stream, &error));
  pattern_assert (a, 3, peer_stream);
  g_assert_false (gcuda_buffer_fill (a, 4, 1, peer_stream, &error));
  g_clear_error (&error);

  /* All of them, and those to come. */
  g_assert_true (gcuda_virtual_memory_resource_add_peer (test->virtual, test->peer, GCUDA_MEMORY_ACCESS_READ_WRITE, &error));
  g_assert_no_error (error);
  c = allocate (test->virtual, unit, stream);
  g_assert_cmpint (raw_access (gcuda_buffer_get_address (a) + 2 * unit, test->peer), ==, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  g_assert_cmpint (raw_access (gcuda_buffer_get_address (b), test->peer), ==, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  g_assert_cmpint (raw_access (gcuda_buffer_get_address (c), test->peer), ==, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  pattern_fill (c, 5, peer_stream);
  pattern_assert (c, 5, peer_stream);

  /* And taken away: also from what waits for its cut. */
  resize (test->virtual, a, 4 * unit, MAY_MOVE, stream);
  resize (test->virtual, a, 3 * unit, NONE, stream);
  g_assert_true (gcuda_virtual_memory_resource_set_access (test->virtual, a, test->peer, GCUDA_MEMORY_ACCESS_NONE, &error));
  g_assert_no_error (error);
  resize (test->virtual, a, 4 * unit, MAY_MOVE, stream);
  for (guint i = 0; i < 4; i++)
    g_assert_cmpint (raw_access (gcuda_buffer_get_address (a) + i * unit, test->peer), ==, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  g_assert_cmpint (raw_access (gcuda_buffer_get_address (b), test->peer), ==, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  g_assert_true (gcuda_virtual_memory_resource_set_access (test->virtual, b, test->bed.device, GCUDA_MEMORY_ACCESS_READ, &error));
  g_assert_no_error (error);
  g_assert_false (gcuda_buffer_fill (b, 4, 1, stream, &error));
  g_clear_error (&error);

  g_clear_object (&a);
  g_clear_object (&b);
  g_clear_object (&c);
  settle ();
}

static void
close_peer_context (Case *test)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaContext) context = NULL;

  if (test->peer == NULL)
    return;
  settle ();
  context = gcuda_device_get_primary_context (test->peer, &error);
  g_assert_true (gcuda_context_close (context, &error));
  g_assert_no_error (error);
}

static void
tear_down_peer (Case *test,
                gconstpointer data)
{
  close_peer_context (test);
  tear_down (test, data);
}

/* One range of addresses over two devices. */
static void
test_placement (Case *test,
                gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaStream) peer_stream = NULL;
  GCudaStream *stream = test->bed.stream;
  const guint64 unit = test->unit;

  if (test->peer == NULL)
    {
      g_test_skip ("needs two devices");
      return;
    }
  peer_stream = gcuda_stream_new_for_device (test->peer, &error);
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (GCudaVirtualMemoryOptions) options = gcuda_virtual_memory_options_new ();
      g_autoptr (GCudaVirtualMemoryResource) resource = NULL;
      g_autoptr (GCudaBuffer) buffer = NULL;
      GCudaDevice *devices[] = { test->bed.device, test->peer };
      /* Which device each unit is on. */
      static const int places[2][5] = { { 0, 0, 0, 1, 1 }, { 0, 1, 0, 1, 0 } };

      gcuda_virtual_memory_options_set_placement (options, devices, 2, i == 0 ? GCUDA_MEMORY_PLACEMENT_BLOCKED : GCUDA_MEMORY_PLACEMENT_ROUND_ROBIN);
      resource = make_resource (test, options);
      buffer = allocate (resource, 5 * unit, stream);
      for (guint u = 0; u < 5; u++)
        {
          int ordinal = -1;

          assert_cuda (RAW (cuPointerGetAttribute) (&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, gcuda_buffer_get_address (buffer) + u * unit));
          g_assert_cmpint (ordinal, ==, places[i][u]);
        }
      pattern_fill (buffer, 0x21, stream);
      g_assert_true (gcuda_stream_wait_stream (peer_stream, stream, &error));
      pattern_assert (buffer, 0x21, peer_stream);
      pattern_fill (buffer, 0x22, peer_stream);
      g_assert_true (gcuda_stream_wait_stream (stream, peer_stream, &error));
      resize (resource, buffer, 7 * unit, MAY_MOVE, stream);
      fill_part (buffer, 5 * unit, 2 * unit, 0x22, stream);
      pattern_assert (buffer, 0x22, stream);
    }
}

/* Options */

static void
test_options (Case *test,
              gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  GCudaStream *stream = test->bed.stream;
  const guint64 unit = test->unit;

  /* Alignment */
  {
    g_autoptr (GCudaVirtualMemoryOptions) options = gcuda_virtual_memory_options_new ();
    g_autoptr (GCudaVirtualMemoryResource) resource = NULL;
    g_autoptr (GCudaBuffer) buffer = NULL;

    gcuda_virtual_memory_options_set_alignment (options, 64 * unit);
    resource = make_resource (test, options);
    buffer = allocate (resource, unit, stream);
    g_assert_cmpuint (gcuda_buffer_get_address (buffer) % (64 * unit), ==, 0);
  }
  /* Chunks, and a copy of the options */
  {
    g_autoptr (GCudaVirtualMemoryOptions) options = gcuda_virtual_memory_options_new ();
    g_autoptr (GCudaVirtualMemoryOptions) copy = NULL;
    g_autoptr (GCudaVirtualMemoryResource) resource = NULL;
    g_autoptr (GCudaBuffer) buffer = NULL;

    gcuda_virtual_memory_options_set_chunk_size (options, 2 * unit - 1);
    copy = gcuda_virtual_memory_options_copy (options);
    gcuda_virtual_memory_options_set_chunk_size (options, 0);
    resource = make_resource (test, copy);
    g_assert_cmpuint (gcuda_virtual_memory_resource_get_granularity (resource), ==, 2 * unit);
    buffer = allocate (resource, 5 * unit, stream);
    g_assert_cmpuint (capacity (resource, buffer), ==, 6 * unit);
    g_assert_true (gcuda_virtual_memory_resource_decommit (resource, buffer, 2 * unit, 2 * unit, stream, &error));
    g_assert_no_error (error);
    g_assert_cmpuint (capacity (resource, buffer), ==, 4 * unit);
  }
  /* Memory of the host */
  for (GCudaMemoryLocation location = GCUDA_MEMORY_LOCATION_HOST; location <= GCUDA_MEMORY_LOCATION_HOST_NUMA; location++)
    {
      g_autoptr (GCudaVirtualMemoryOptions) options = gcuda_virtual_memory_options_new ();
      g_autoptr (GCudaVirtualMemoryResource) resource = NULL;
      g_autoptr (GCudaBuffer) buffer = NULL;

      gcuda_virtual_memory_options_set_location (options, location, 0);
      resource = gcuda_virtual_memory_resource_new (test->bed.device, options, &error);
      if (g_error_matches (error, GCUDA_ERROR, GCUDA_ERROR_NOT_SUPPORTED))
        {
          g_assert_false (gcuda_test_is_simulated ());
          g_clear_error (&error);
          continue;
        }
      g_assert_no_error (error);
      g_assert_true (gcuda_memory_resource_is_host_accessible (GCUDA_MEMORY_RESOURCE (resource)));
      buffer = allocate (resource, unit, stream);
      pattern_fill (buffer, 0x44, stream);
      g_assert_true (gcuda_stream_synchronize (stream, &error));
      g_assert_cmphex (*(guint8 *) (guintptr) gcuda_buffer_get_address (buffer), ==, 0x44);
    }
  /* Reading only, what others may do, and sharing */
  {
    g_autoptr (GCudaVirtualMemoryOptions) options = gcuda_virtual_memory_options_new ();
    g_autoptr (GCudaVirtualMemoryResource) resource = NULL;
    g_autoptr (GCudaBuffer) buffer = NULL;

    gcuda_virtual_memory_options_set_access (options, GCUDA_MEMORY_ACCESS_READ);
    gcuda_virtual_memory_options_set_handle_types (options, GCUDA_HANDLE_TYPES_POSIX_FD);
    if (test->peer != NULL)
      {
        gcuda_virtual_memory_options_add_peer (options, test->peer, GCUDA_MEMORY_ACCESS_READ);
        gcuda_virtual_memory_options_add_peer (options, test->peer, GCUDA_MEMORY_ACCESS_READ_WRITE);
      }
    resource = make_resource (test, options);
    buffer = allocate (resource, unit, stream);
    g_assert_cmpint (raw_access (gcuda_buffer_get_address (buffer), test->bed.device), ==, CU_MEM_ACCESS_FLAGS_PROT_READ);
    if (test->peer != NULL)
      g_assert_cmpint (raw_access (gcuda_buffer_get_address (buffer), test->peer), ==, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  }
  if (gcuda_test_is_simulated ())
    {
      g_autoptr (GCudaVirtualMemoryOptions) options = gcuda_virtual_memory_options_new ();
      g_autoptr (GCudaVirtualMemoryResource) resource = NULL;
      g_autoptr (GCudaBuffer) buffer = NULL;
      CUmemAllocationProp properties;
      CUmemGenericAllocationHandle handle;

      gcuda_virtual_memory_options_set_gpu_direct_rdma (options, TRUE);
      resource = make_resource (test, options);
      buffer = allocate (resource, unit, stream);
      assert_cuda (RAW (cuMemRetainAllocationHandle) (&handle, (void *) (guintptr) gcuda_buffer_get_address (buffer)));
      assert_cuda (RAW (cuMemGetAllocationPropertiesFromHandle) (&properties, handle));
      g_assert_cmpint (properties.allocFlags.gpuDirectRDMACapable, ==, 1);
      assert_cuda (RAW (cuMemRelease) (handle));
    }
}

static void
test_lacks (Case *test,
            gconstpointer data)
{
  const struct
  {
    int attribute;
    const char *name;
    GCudaMemoryLocation location;
    GCudaHandleTypes handle_types;
    gboolean rdma;
  } rows[] = {
    { 102, "VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED", GCUDA_MEMORY_LOCATION_DEVICE, 0, FALSE },
    { 145, "HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED", GCUDA_MEMORY_LOCATION_HOST, 0, FALSE },
    { 141, "HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED", GCUDA_MEMORY_LOCATION_HOST_NUMA, 0, FALSE },
    { 103, "HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED", GCUDA_MEMORY_LOCATION_DEVICE, GCUDA_HANDLE_TYPES_POSIX_FD, FALSE },
    { 128, "HANDLE_TYPE_FABRIC_SUPPORTED", GCUDA_MEMORY_LOCATION_DEVICE, GCUDA_HANDLE_TYPES_FABRIC, FALSE },
    { 110, "GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED", GCUDA_MEMORY_LOCATION_DEVICE, 0, TRUE },
  };
  g_autoptr (GError) error = NULL;

  if (!gcuda_test_is_simulated ())
    {
      g_test_skip ("needs a device that lacks something");
      return;
    }
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GCudaVirtualMemoryOptions) options = gcuda_virtual_memory_options_new ();

      gcuda_virtual_memory_options_set_location (options, rows[i].location, 0);
      gcuda_virtual_memory_options_set_handle_types (options, rows[i].handle_types);
      gcuda_virtual_memory_options_set_gpu_direct_rdma (options, rows[i].rdma);
      SIMULATOR (gcudasim_set_attribute)
      (0, rows[i].attribute, 0);
      g_assert_null (gcuda_virtual_memory_resource_new (test->bed.device, options, &error));
      SIMULATOR (gcudasim_set_attribute)
      (0, rows[i].attribute, 1);
      g_assert_nonnull (strstr (error->message, rows[i].name));
      assert_error_and_clear (error, GCUDA_ERROR_NOT_SUPPORTED);
    }
}

static void
test_bad_arguments (Case *test,
                    gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaVirtualMemoryResource) bare = g_object_new (GCUDA_TYPE_VIRTUAL_MEMORY_RESOURCE, NULL);
  g_autoptr (GCudaVirtualMemoryResource) second = make_resource (test, NULL);
  g_autoptr (GCudaDevice) bare_device = g_object_new (GCUDA_TYPE_DEVICE, NULL);
  g_autoptr (GCudaBuffer) buffer = NULL, foreign = NULL, pooled = NULL, closed = NULL;
  GCudaStream *stream = test->bed.stream;
  GCudaVirtualMemoryResource *v = test->virtual;
  const guint64 unit = test->unit;
  guint64 calls = 0;

#define BAD(call, code)  \
  g_assert_false (call); \
  assert_error_and_clear (error, GCUDA_ERROR_##code)

  g_assert_null (gcuda_virtual_memory_resource_new (NULL, NULL, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_null (gcuda_virtual_memory_resource_new (bare_device, NULL, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  for (guint i = 0; i < 15; i++)
    {
      g_autoptr (GCudaVirtualMemoryOptions) options = gcuda_virtual_memory_options_new ();
      GCudaDevice *devices[] = { test->bed.device, NULL };

      switch (i)
        {
        case 0:
          gcuda_virtual_memory_options_set_location (options, (GCudaMemoryLocation) 7, 0);
          break;
        case 1:
          gcuda_virtual_memory_options_set_location (options, GCUDA_MEMORY_LOCATION_HOST_NUMA, -1);
          break;
        case 2:
          gcuda_virtual_memory_options_set_max_size (options, G_MAXUINT64);
          break;
        case 3:
          gcuda_virtual_memory_options_set_chunk_size (options, G_MAXUINT64 - 1);
          break;
        case 4:
          gcuda_virtual_memory_options_set_alignment (options, 3);
          break;
        case 5:
          gcuda_virtual_memory_options_set_alignment (options, (guint64) 1 << 63);
          break;
        case 6:
          gcuda_virtual_memory_options_set_handle_types (options, (GCudaHandleTypes) 0x40);
          break;
        case 7:
          gcuda_virtual_memory_options_set_access (options, (GCudaMemoryAccess) 9);
          break;
        case 8:
          gcuda_virtual_memory_options_add_peer (options, NULL, GCUDA_MEMORY_ACCESS_READ);
          break;
        case 9:
          gcuda_virtual_memory_options_add_peer (options, test->bed.device, (GCudaMemoryAccess) -1);
          break;
        case 10:
          gcuda_virtual_memory_options_set_placement (options, devices, 2, GCUDA_MEMORY_PLACEMENT_BLOCKED);
          break;
        case 11:
          gcuda_virtual_memory_options_set_placement (options, devices, 1, (GCudaMemoryPlacement) 5);
          break;
        case 12:
          gcuda_virtual_memory_options_set_placement (options, devices, 1, GCUDA_MEMORY_PLACEMENT_BLOCKED);
          gcuda_virtual_memory_options_set_location (options, GCUDA_MEMORY_LOCATION_HOST, 0);
          break;
        case 13:
          gcuda_virtual_memory_options_set_cache_size (options, G_MAXUINT64);
          break;
        case 14:
        default:
          /* Where it can be known. */
          if (!g_file_test ("/sys/devices/system/node", G_FILE_TEST_IS_DIR))
            continue;
          gcuda_virtual_memory_options_set_location (options, GCUDA_MEMORY_LOCATION_HOST_NUMA, 4711);
        }
      g_assert_null (gcuda_virtual_memory_resource_new (test->bed.device, options, &error));
      assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
    }

  g_assert_cmpuint (gcuda_virtual_memory_resource_get_granularity (bare), ==, 0);
  buffer = allocate (v, unit, stream);
  BAD (gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (bare), 1, stream, &error), CLOSED);
  BAD (gcuda_virtual_memory_resource_get_capacity (bare, buffer, &error), CLOSED);
  BAD (gcuda_virtual_memory_resource_resize (bare, buffer, 1, NONE, stream, &error), CLOSED);
  BAD (gcuda_virtual_memory_resource_reserve (bare, 1, stream, &error), CLOSED);
  BAD (gcuda_virtual_memory_resource_commit (bare, buffer, 0, unit, stream, &error), CLOSED);
  BAD (gcuda_virtual_memory_resource_decommit (bare, buffer, 0, unit, stream, &error), CLOSED);
  BAD (gcuda_virtual_memory_resource_set_access (bare, buffer, test->bed.device, GCUDA_MEMORY_ACCESS_READ, &error), CLOSED);
  BAD (gcuda_virtual_memory_resource_add_peer (bare, test->bed.device, GCUDA_MEMORY_ACCESS_READ, &error), CLOSED);
  BAD (gcuda_virtual_memory_resource_trim (bare, 0, &error), CLOSED);

  BAD (gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (v), G_MAXUINT64, stream, &error), INVALID_ARGUMENT);
  BAD (gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (v), G_MAXSIZE / 2, stream, &error), OUT_OF_MEMORY);
  BAD (gcuda_virtual_memory_resource_reserve (v, 0, stream, &error), INVALID_ARGUMENT);
  BAD (gcuda_virtual_memory_resource_reserve (v, G_MAXUINT64, stream, &error), INVALID_ARGUMENT);
  BAD (gcuda_virtual_memory_resource_reserve (v, G_MAXSIZE / 2, stream, &error), INVALID_ARGUMENT);
  BAD (gcuda_virtual_memory_resource_reserve (v, unit, NULL, &error), INVALID_ARGUMENT);

  foreign = gcuda_buffer_new_for_address (test->bed.device, gcuda_buffer_get_address (buffer), unit, NULL, stream, &error);
  pooled = gcuda_memory_resource_allocate (test->bed.resource, unit, stream, &error);
  closed = allocate (v, unit, stream);
  g_assert_true (gcuda_buffer_close (closed, NULL, &error));
  {
    struct
    {
      GCudaBuffer *buffer;
      GCudaError code;
    } rows[] = {
      { NULL, GCUDA_ERROR_INVALID_ARGUMENT },
      { foreign, GCUDA_ERROR_INVALID_ARGUMENT },
      { pooled, GCUDA_ERROR_INVALID_ARGUMENT },
      { closed, GCUDA_ERROR_CLOSED },
    };

    for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
      {
#define ROW(call)        \
  g_assert_false (call); \
  assert_error_and_clear (error, rows[i].code)
        ROW (gcuda_virtual_memory_resource_get_capacity (v, rows[i].buffer, &error));
        ROW (gcuda_virtual_memory_resource_resize (v, rows[i].buffer, 1, NONE, stream, &error));
        ROW (gcuda_virtual_memory_resource_commit (v, rows[i].buffer, 0, unit, stream, &error));
        ROW (gcuda_virtual_memory_resource_decommit (v, rows[i].buffer, 0, unit, stream, &error));
        ROW (gcuda_virtual_memory_resource_set_access (v, rows[i].buffer, test->bed.device, GCUDA_MEMORY_ACCESS_READ, &error));
#undef ROW
      }
  }
  BAD (gcuda_virtual_memory_resource_resize (second, buffer, 1, NONE, stream, &error), INVALID_ARGUMENT);

  settle ();
  if (gcuda_test_is_simulated ())
    calls = gcuda_test_count_calls ("cuMemAddressReserve") + gcuda_test_count_calls ("cuMemCreate") + gcuda_test_count_calls ("cuMemSetAccess");
  BAD (gcuda_virtual_memory_resource_resize (v, buffer, 0, NONE, stream, &error), INVALID_ARGUMENT);
  BAD (gcuda_virtual_memory_resource_resize (v, buffer, G_MAXSIZE, NONE, stream, &error), INVALID_ARGUMENT);
  BAD (gcuda_virtual_memory_resource_resize (v, buffer, G_MAXSIZE / 2, NONE, stream, &error), INVALID_ARGUMENT);
  BAD (gcuda_virtual_memory_resource_resize (v, buffer, 2 * unit, (GCudaResizeFlags) 8, stream, &error), INVALID_ARGUMENT);
  BAD (gcuda_virtual_memory_resource_resize (v, buffer, 2 * unit, NONE, NULL, &error), INVALID_ARGUMENT);
  BAD (gcuda_virtual_memory_resource_commit (v, buffer, 1, unit, stream, &error), INVALID_ARGUMENT);
  BAD (gcuda_virtual_memory_resource_commit (v, buffer, 0, unit - 1, stream, &error), INVALID_ARGUMENT);
  BAD (gcuda_virtual_memory_resource_commit (v, buffer, 0, 0, stream, &error), INVALID_ARGUMENT);
  BAD (gcuda_virtual_memory_resource_commit (v, buffer, 0, 2 * unit, stream, &error), INVALID_ARGUMENT);
  BAD (gcuda_virtual_memory_resource_commit (v, buffer, 2 * unit, unit, stream, &error), INVALID_ARGUMENT);
  BAD (gcuda_virtual_memory_resource_commit (v, buffer, unit, G_MAXUINT64 - unit + 1, stream, &error), INVALID_ARGUMENT);
  BAD (gcuda_virtual_memory_resource_commit (v, buffer, 0, unit, NULL, &error), INVALID_ARGUMENT);
  BAD (gcuda_virtual_memory_resource_decommit (v, buffer, 16, unit, stream, &error), INVALID_ARGUMENT);
  BAD (gcuda_virtual_memory_resource_decommit (v, buffer, 0, unit, NULL, &error), INVALID_ARGUMENT);
  BAD (gcuda_virtual_memory_resource_set_access (v, buffer, NULL, GCUDA_MEMORY_ACCESS_READ, &error), INVALID_ARGUMENT);
  BAD (gcuda_virtual_memory_resource_set_access (v, buffer, test->bed.device, (GCudaMemoryAccess) 3, &error), INVALID_ARGUMENT);
  BAD (gcuda_virtual_memory_resource_set_access (v, buffer, test->bed.device, GCUDA_MEMORY_ACCESS_NONE, &error), INVALID_ARGUMENT);
  BAD (gcuda_virtual_memory_resource_add_peer (v, test->bed.device, GCUDA_MEMORY_ACCESS_NONE, &error), INVALID_ARGUMENT);
  BAD (gcuda_virtual_memory_resource_add_peer (v, NULL, GCUDA_MEMORY_ACCESS_READ, &error), INVALID_ARGUMENT);
  BAD (gcuda_virtual_memory_resource_add_peer (v, bare_device, GCUDA_MEMORY_ACCESS_READ, &error), CLOSED);
  if (gcuda_test_is_simulated ())
    g_assert_cmpuint (gcuda_test_count_calls ("cuMemAddressReserve") + gcuda_test_count_calls ("cuMemCreate") + gcuda_test_count_calls ("cuMemSetAccess"), ==, calls);

  /* A border within a chunk */
  resize (v, buffer, 3 * unit, MAY_MOVE, stream);
  BAD (gcuda_virtual_memory_resource_decommit (v, buffer, unit, unit, stream, &error), INVALID_ARGUMENT);
  g_assert_true (gcuda_virtual_memory_resource_decommit (v, buffer, unit, 2 * unit, stream, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (gcuda_buffer_get_size (buffer), ==, 3 * unit);
#undef BAD
  /* The pool keeps its memory until then. */
  g_clear_object (&pooled);
  g_assert_true (gcuda_stream_synchronize (stream, &error));
}

/* Captures */

static void
test_capturing (Case *test,
                gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = allocate (test->virtual, test->unit, test->bed.stream);
  CUstream raw = gcuda_stream_get_cuda_stream (test->other);
  CUgraph graph;

  assert_cuda (RAW (cuStreamBeginCapture) (raw, CU_STREAM_CAPTURE_MODE_GLOBAL));
#define CAPTURING(call)  \
  g_assert_false (call); \
  assert_error_and_clear (error, GCUDA_ERROR_CAPTURING)
  CAPTURING (gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (test->virtual), 1, test->other, &error));
  CAPTURING (gcuda_virtual_memory_resource_resize (test->virtual, buffer, 1, NONE, test->other, &error));
  CAPTURING (gcuda_virtual_memory_resource_resize (test->virtual, buffer, 3 * test->unit, MAY_MOVE, test->other, &error));
  CAPTURING (gcuda_virtual_memory_resource_reserve (test->virtual, 1, test->other, &error));
  CAPTURING (gcuda_virtual_memory_resource_commit (test->virtual, buffer, 0, test->unit, test->other, &error));
  CAPTURING (gcuda_virtual_memory_resource_decommit (test->virtual, buffer, 0, test->unit, test->other, &error));
#undef CAPTURING
  assert_cuda (RAW (cuStreamEndCapture) (raw, &graph));
  assert_cuda (RAW (cuGraphDestroy) (graph));
  g_assert_cmpuint (gcuda_buffer_get_size (buffer), ==, test->unit);
}

/* Captures of others stay whole, whatever is done here, and whatever waits to be unmapped. */
static void
test_capture_elsewhere (Case *test,
                        gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  const guint64 unit = test->unit;

  for (CaptureKind kind = CAPTURE_NON_BLOCKING; kind <= CAPTURE_PER_THREAD; kind++)
    {
      Capture *capture = capture_begin (test->bed.context, kind);
      GCudaBuffer *buffer = allocate (test->virtual, unit, test->bed.stream);
      GCudaBuffer *sparse;
      CUdeviceptr taken;

      fill_part (buffer, 0, 4096, 1, test->bed.stream);
      resize (test->virtual, buffer, 2 * unit, MAY_MOVE, test->bed.stream);
      take_behind (buffer, 2 * unit, unit, &taken);
      resize (test->virtual, buffer, 3 * unit, MAY_MOVE, test->bed.stream);
      give_behind (taken, unit);
      resize (test->virtual, buffer, 1, NONE, test->bed.stream);
      sparse = gcuda_virtual_memory_resource_reserve (test->virtual, 4 * unit, test->bed.stream, &error);
      g_assert_no_error (error);
      g_assert_true (gcuda_virtual_memory_resource_commit (test->virtual, sparse, 0, 2 * unit, test->bed.stream, &error));
      g_assert_true (gcuda_virtual_memory_resource_decommit (test->virtual, sparse, 0, unit, test->bed.stream, &error));
      g_assert_true (gcuda_virtual_memory_resource_set_access (test->virtual, sparse, test->bed.device, GCUDA_MEMORY_ACCESS_READ, &error));
      g_assert_no_error (error);
      g_object_unref (buffer);
      g_object_unref (sparse);
      settle ();
      capture_end (capture);
    }
}

/* Out of memory, and the cache */

static void
test_cache (Case *test,
            gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaVirtualMemoryOptions) options = gcuda_virtual_memory_options_new ();
  g_autoptr (GCudaVirtualMemoryResource) resource = NULL;
  const guint64 unit = test->unit;
  GcudasimBalance empty;
  GCudaBuffer *buffer;
  g_auto (GStrv) log = NULL;

  get_balance (&empty);
  gcuda_virtual_memory_options_set_cache_size (options, 3 * unit);
  resource = make_resource (test, options);
  g_object_unref (allocate (resource, 2 * unit, test->bed.stream));
  settle ();
  gcuda_test_log_start ();
  /* The same size again, on another stream; then another size. */
  buffer = allocate (resource, 2 * unit, test->other);
  pattern_fill (buffer, 1, test->other);
  pattern_assert (buffer, 1, test->other);
  g_object_unref (buffer);
  settle ();
  g_object_unref (allocate (resource, unit, test->other));
  settle ();
  /* More than the cache holds */
  g_object_unref (allocate (resource, 4 * unit, test->other));
  settle ();
  if (gcuda_test_is_simulated ())
    {
      GcudasimBalance during;

      log = gcuda_test_log_take ();
      g_assert_cmpuint (gcuda_test_log_count (log, "cuMemCreate", NULL), ==, 2);
      g_assert_cmpuint (gcuda_test_log_count (log, "cuMemRelease", NULL), ==, 1);
      get_balance (&during);
      g_assert_cmpuint (during.device_bytes - empty.device_bytes, ==, 3 * unit);
      /* A trim that fails */
      gcuda_test_fail_calls ("cuMemRelease:1=UNKNOWN");
      g_assert_false (gcuda_virtual_memory_resource_trim (resource, unit, &error));
      gcuda_test_fail_calls (NULL);
      assert_error_and_clear (error, GCUDA_ERROR_UNKNOWN);
      g_assert_true (gcuda_virtual_memory_resource_trim (resource, unit, &error));
      g_assert_no_error (error);
      get_balance (&during);
      g_assert_cmpuint (during.device_bytes - empty.device_bytes, ==, unit);
      /* Memory that is out drains the cache, and is asked for again. */
      gcuda_test_fail_calls ("cuMemCreate:1=OUT_OF_MEMORY");
      g_object_unref (allocate (resource, 3 * unit, test->other));
      gcuda_test_fail_calls (NULL);
    }
  g_assert_true (gcuda_virtual_memory_resource_trim (resource, 0, &error));
  g_assert_no_error (error);
  settle ();
  g_assert_true (gcuda_virtual_memory_resource_trim (resource, 0, &error));
  assert_same_balance (&empty);
  /* What is kept when the resource goes, goes with it. */
  g_object_unref (allocate (resource, unit, test->other));
  settle ();
  g_assert_finalize_object (g_steal_pointer (&resource));
  settle ();
  assert_same_balance (&empty);
}

/* What was not changed is kept with its addresses and rights: the next like it needs no driver call. */
static void
test_cache_ranges (Case *test,
                   gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaVirtualMemoryOptions) options = gcuda_virtual_memory_options_new ();
  g_autoptr (GCudaVirtualMemoryResource) resource = NULL;
  const guint64 unit = test->unit;
  GcudasimBalance empty;
  GCudaBuffer *buffer;
  guint64 address;
  g_auto (GStrv) log = NULL;

  get_balance (&empty);
  gcuda_virtual_memory_options_set_cache_size (options, 4 * unit);
  gcuda_virtual_memory_options_set_max_size (options, 4 * unit);
  resource = make_resource (test, options);
  buffer = allocate (resource, 2 * unit, test->bed.stream);
  address = gcuda_buffer_get_address (buffer);
  pattern_fill (buffer, 1, test->bed.stream);
  g_object_unref (buffer);
  settle ();
  gcuda_test_log_start ();
  for (guint i = 0; i < 3; i++)
    {
      /* Of the same chunks; the size in bytes need not be the same. */
      buffer = allocate (resource, 2 * unit - i, test->other);
      g_assert_cmphex (gcuda_buffer_get_address (buffer), ==, address);
      pattern_fill (buffer, (guint8) i, test->other);
      pattern_assert (buffer, (guint8) i, test->other);
      g_object_unref (buffer);
      settle ();
    }
  if (gcuda_test_can_fail_calls ())
    {
      log = gcuda_test_log_take ();
      g_assert_cmpuint (gcuda_test_log_count (log, "cuMemsetD8Async", NULL), ==, 3);
      for (guint i = 0; log[i] != NULL; i++)
        if (strstr (log[i], " cuMemMap(") != NULL || strstr (log[i], " cuMemUnmap(") != NULL || strstr (log[i], " cuMemCreate(") != NULL ||
            strstr (log[i], " cuMemAddress") != NULL || strstr (log[i], " cuMemSetAccess(") != NULL)
          g_error ("a driver call: %s", log[i]);
    }

  /* It grows as any other, and then it is not that one any more. */
  buffer = allocate (resource, 2 * unit, test->bed.stream);
  g_assert_cmphex (gcuda_buffer_get_address (buffer), ==, address);
  resize (resource, buffer, 3 * unit, NONE, test->bed.stream);
  pattern_fill (buffer, 7, test->bed.stream);
  pattern_assert (buffer, 7, test->bed.stream);
  g_object_unref (buffer);
  settle ();
  buffer = allocate (resource, 3 * unit, test->bed.stream);
  pattern_fill (buffer, 8, test->bed.stream);
  pattern_assert (buffer, 8, test->bed.stream);

  g_assert_true (gcuda_virtual_memory_resource_trim (resource, 0, &error));
  /* Rights of one buffer are not those of the next. */
  g_assert_true (gcuda_virtual_memory_resource_set_access (resource, buffer, test->bed.device, GCUDA_MEMORY_ACCESS_READ, &error));
  g_assert_no_error (error);
  g_object_unref (buffer);
  settle ();
  buffer = allocate (resource, 3 * unit, test->bed.stream);
  g_assert_cmpint (raw_access (gcuda_buffer_get_address (buffer), test->bed.device), ==, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  g_object_unref (buffer);
  settle ();
  if (test->peer != NULL)
    {
      g_assert_true (gcuda_virtual_memory_resource_add_peer (resource, test->peer, GCUDA_MEMORY_ACCESS_READ, &error));
      g_assert_no_error (error);
      buffer = allocate (resource, 3 * unit, test->bed.stream);
      g_assert_cmpint (raw_access (gcuda_buffer_get_address (buffer), test->peer), ==, CU_MEM_ACCESS_FLAGS_PROT_READ);
      g_object_unref (buffer);
      settle ();
    }

  if (gcuda_test_can_fail_calls ())
    {
      static const char *const specs[] = { "cuMemUnmap:1=UNKNOWN", "cuMemRelease:1=UNKNOWN" };

      for (gsize i = 0; i < G_N_ELEMENTS (specs); i++)
        {
          gcuda_test_fail_calls (specs[i]);
          g_assert_false (gcuda_virtual_memory_resource_trim (resource, 0, &error));
          gcuda_test_fail_calls (NULL);
          assert_error_and_clear (error, GCUDA_ERROR_UNKNOWN);
        }
    }
  /* Memory that is out takes what is kept. */
  g_object_unref (allocate (resource, unit, test->bed.stream));
  settle ();
  if (gcuda_test_can_fail_calls ())
    gcuda_test_fail_calls ("cuMemCreate:1=OUT_OF_MEMORY");
  buffer = allocate (resource, 2 * unit, test->bed.stream);
  if (gcuda_test_can_fail_calls ())
    gcuda_test_fail_calls (NULL);
  g_object_unref (buffer);
  g_assert_true (gcuda_virtual_memory_resource_trim (resource, 0, &error));
  settle ();
  g_assert_true (gcuda_virtual_memory_resource_trim (resource, 0, &error));
  g_assert_no_error (error);
  assert_same_balance (&empty);
  /* What is kept when the resource goes, goes with it: ranges and chunks. */
  buffer = allocate (resource, unit, test->other);
  g_object_unref (allocate (resource, unit, test->other));
  resize (resource, buffer, 2 * unit, NONE, test->other);
  g_object_unref (buffer);
  settle ();
  g_assert_finalize_object (g_steal_pointer (&resource));
  settle ();
  assert_same_balance (&empty);
}

/* Memory that waits to be unmapped is waited for. */
static void
test_out_of_memory (Case *test,
                    gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  GCudaStream *stream = test->bed.stream;
  const guint64 unit = test->unit;

  if (!gcuda_test_needs_failing_calls ())
    return;
  for (guint i = 0; i < 3; i++)
    {
      g_autoptr (GCudaBuffer) pending = allocate (test->virtual, unit, stream);
      g_autoptr (GCudaBuffer) buffer = NULL;
      GThread *thread;

      resize (test->virtual, pending, 2 * unit, MAY_MOVE, stream);
      buffer = i == 2 ? gcuda_virtual_memory_resource_reserve (test->virtual, 2 * unit, stream, &error) : allocate (test->virtual, unit, stream);
      gcuda_test_hold (stream);
      pattern_fill (pending, 1, stream);
      resize (test->virtual, pending, unit, NONE, stream);
      gcuda_test_log_start ();
      gcuda_test_fail_calls ("cuMemCreate:1=OUT_OF_MEMORY");
      thread = g_thread_new ("let-go", gcuda_test_let_go_soon, NULL);
      switch (i)
        {
        case 0:
          g_object_unref (allocate (test->virtual, unit, stream));
          break;
        case 1:
          resize (test->virtual, buffer, 2 * unit, MAY_MOVE, stream);
          break;
        default:
          g_assert_true (gcuda_virtual_memory_resource_commit (test->virtual, buffer, 0, unit, stream, &error));
          g_assert_no_error (error);
        }
      gcuda_test_fail_calls (NULL);
      g_thread_join (thread);
      {
        g_auto (GStrv) log = gcuda_test_log_take ();
        gboolean unmapped = FALSE;
        guint tries = 0;

        for (guint l = 0; log[l] != NULL; l++)
          {
            unmapped |= strstr (log[l], " cuMemUnmap(") != NULL;
            if (strstr (log[l], " cuMemCreate(") != NULL && ++tries == 2)
              g_assert_true (unmapped);
          }
        g_assert_cmpuint (tries, ==, 2);
      }
    }
  /* And it is not remembered. */
  {
    g_autoptr (GCudaBuffer) small = NULL;

    g_assert_null (gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (test->virtual), (guint64) 1 << 42, stream, &error));
    assert_error_and_clear (error, GCUDA_ERROR_OUT_OF_MEMORY);
    small = allocate (test->virtual, 100, stream);
    pattern_fill (small, 1, stream);
    pattern_assert (small, 1, stream);
  }
}

/* Failures: each driver call of each operation in turn */

typedef struct
{
  Case *test;
  GCudaVirtualMemoryResource *resource; /* chunks of a unit, four units of headroom */
  GCudaBuffer *buffer;                  /* three units, then a hole of one */
  GCudaBuffer *second;
  CUdeviceptr taken;
  GCudaBuffer *made;
} Scene;

typedef struct
{
  const char *name;
  gboolean (*run) (Scene *scene,
                   GError **error);
  gboolean full; /* the headroom is used up */
  gboolean blocked;
  gboolean cut; /* a tail waits to be unmapped */
  gboolean peer;
} Operation;

static gboolean
run_allocate (Scene *scene,
              GError **error)
{
  scene->made = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (scene->resource), 2 * scene->test->unit, scene->test->bed.stream, error);
  return scene->made != NULL;
}

static gboolean
run_reserve (Scene *scene,
             GError **error)
{
  scene->made = gcuda_virtual_memory_resource_reserve (scene->resource, 2 * scene->test->unit, scene->test->bed.stream, error);
  return scene->made != NULL;
}

static gboolean
run_grow (Scene *scene,
          GError **error)
{
  guint64 size = gcuda_buffer_get_size (scene->buffer);

  return gcuda_virtual_memory_resource_resize (scene->resource, scene->buffer, size + 2 * scene->test->unit, MAY_MOVE, scene->test->bed.stream, error);
}

static gboolean
run_shrink (Scene *scene,
            GError **error)
{
  return gcuda_virtual_memory_resource_resize (scene->resource, scene->buffer, 1, NONE, scene->test->bed.stream, error);
}

static gboolean
run_commit (Scene *scene,
            GError **error)
{
  return gcuda_virtual_memory_resource_commit (scene->resource, scene->buffer, 0, 4 * scene->test->unit, scene->test->bed.stream, error);
}

static gboolean
run_decommit (Scene *scene,
              GError **error)
{
  return gcuda_virtual_memory_resource_decommit (scene->resource, scene->buffer, 0, 2 * scene->test->unit, scene->test->bed.stream, error);
}

static gboolean
run_set_access (Scene *scene,
                GError **error)
{
  return gcuda_virtual_memory_resource_set_access (scene->resource, scene->buffer, scene->test->peer, GCUDA_MEMORY_ACCESS_READ, error);
}

static gboolean
run_add_peer (Scene *scene,
              GError **error)
{
  return gcuda_virtual_memory_resource_add_peer (scene->resource, scene->test->peer, GCUDA_MEMORY_ACCESS_READ, error);
}

static const Operation operations[] = {
  { "allocate", run_allocate },
  { "reserve", run_reserve },
  { "grow-in-headroom", run_grow },
  { "grow-with-a-cut", run_grow, .cut = TRUE },
  { "grow-beside", run_grow, .full = TRUE },
  { "grow-by-moving", run_grow, .full = TRUE, .blocked = TRUE },
  { "shrink", run_shrink },
  { "commit", run_commit },
  { "decommit", run_decommit },
  /* The hole makes it two calls. */
  { "set-access", run_set_access, .peer = TRUE, .full = TRUE },
  { "add-peer", run_add_peer, .peer = TRUE, .full = TRUE },
};

static void
scene_set_up (Scene *scene,
              const Operation *operation)
{
  Case *test = scene->test;
  GCudaStream *stream = test->bed.stream;
  g_autoptr (GError) error = NULL;
  const guint64 unit = test->unit;
  g_autoptr (GCudaVirtualMemoryOptions) options = gcuda_virtual_memory_options_new ();

  /* Whoever knows the handle may capture the stream: now each call asks. */
  g_assert_cmpuint (gcuda_stream_get_handle (stream), !=, 0);
  gcuda_virtual_memory_options_set_max_size (options, 8 * unit);
  gcuda_virtual_memory_options_set_chunk_size (options, unit);
  scene->resource = make_resource (test, options);
  scene->second = allocate (scene->resource, unit, stream);
  pattern_fill (scene->second, 9, stream);
  scene->buffer = allocate (scene->resource, 4 * unit, stream);
  for (guint i = 0; i < 3; i++)
    fill_part (scene->buffer, i * unit, unit, (guint8) (i + 1), stream);
  g_assert_true (gcuda_virtual_memory_resource_decommit (scene->resource, scene->buffer, 3 * unit, unit, stream, &error));
  g_assert_no_error (error);
  if (operation->full)
    resize (scene->resource, scene->buffer, 8 * unit, NONE, stream);
  if (operation->blocked)
    take_behind (scene->buffer, 8 * unit, unit, &scene->taken);
  g_assert_true (gcuda_stream_synchronize (stream, &error));
  settle ();
  if (operation->cut)
    {
      resize (scene->resource, scene->buffer, 5 * unit, NONE, stream);
      gcuda_test_hold (stream);
      fill_part (scene->buffer, 4 * unit, unit, 4, stream);
      resize (scene->resource, scene->buffer, 4 * unit, NONE, stream);
    }
}

static void
scene_tear_down (Scene *scene)
{
  gcuda_test_let_go ();
  g_clear_object (&scene->made);
  g_clear_object (&scene->buffer);
  g_clear_object (&scene->second);
  if (scene->taken != 0)
    give_behind (scene->taken, scene->test->unit);
  scene->taken = 0;
  settle ();
  g_assert_finalize_object (g_steal_pointer (&scene->resource));
  settle ();
}

typedef struct
{
  guint64 address, size, capacity;
  int own[12], peer[12];
} State;

static void
get_state (Scene *scene,
           State *state)
{
  Case *test = scene->test;

  memset (state, 0, sizeof *state);
  state->address = gcuda_buffer_get_address (scene->buffer);
  state->size = gcuda_buffer_get_size (scene->buffer);
  state->capacity = capacity (scene->resource, scene->buffer);
  for (guint i = 0; i < 8; i++)
    {
      if (i == 3 || i >= state->size / test->unit)
        continue;
      state->own[i] = (int) raw_access (state->address + i * test->unit, test->bed.device);
      if (test->peer != NULL)
        state->peer[i] = (int) raw_access (state->address + i * test->unit, test->peer);
    }
  state->own[10] = (int) raw_access (gcuda_buffer_get_address (scene->second), test->bed.device);
  if (test->peer != NULL)
    state->peer[10] = (int) raw_access (gcuda_buffer_get_address (scene->second), test->peer);
}

static void
assert_contents (Scene *scene)
{
  const guint64 unit = scene->test->unit;

  for (guint i = 0; i < 3; i++)
    assert_part (scene->buffer, i * unit, unit, (guint8) (i + 1), scene->test->bed.stream);
  pattern_assert (scene->second, 9, scene->test->bed.stream);
}

/* Those of the thread that asked for the version first. What others do, they do in the background. */
static GPtrArray *
called_functions (char **log)
{
  GPtrArray *names = g_ptr_array_new_with_free_func (g_free);
  g_autofree char *thread = NULL;

  for (guint i = 0; log[i] != NULL; i++)
    {
      g_auto (GStrv) words = g_strsplit (log[i], " ", 3);
      const char *end;

      if (g_strv_length (words) != 3 || words[0][0] == '#' || (end = strchr (words[2], '(')) == NULL)
        continue;
      if (thread == NULL && g_str_has_prefix (words[2], "cuDriverGetVersion"))
        {
          thread = g_strdup (words[1]);
          continue;
        }
      if (g_strcmp0 (words[1], thread) == 0 && !g_str_has_prefix (words[2], "cuGetError"))
        g_ptr_array_add (names, g_strndup (words[2], (gsize) (end - words[2])));
    }
  return names;
}

static void
run_failing (Case *test,
             const Operation *operation,
             const char *function,
             guint n,
             const char *code_name,
             CUresult code)
{
  g_autofree char *spec = g_strdup_printf ("%s:%u=%s", function, n, code_name);
  g_autofree char *answer = g_strdup_printf (" %s(", function);
  g_autoptr (GError) error = NULL;
  GcudasimBalance before, during;
  Scene scene = { .test = test };
  State state, after;
  gboolean success, hit = FALSE;
  g_auto (GStrv) log = NULL;

  g_test_message ("%s, %s", operation->name, spec);
  get_balance (&before);
  scene_set_up (&scene, operation);
  get_state (&scene, &state);
  get_balance (&during);
  gcuda_test_log_start ();
  gcuda_test_fail_calls (spec);
  success = operation->run (&scene, &error);
  gcuda_test_fail_calls (NULL);
  log = gcuda_test_log_take ();
  for (guint i = 0; log[i] != NULL; i++)
    hit |= strstr (log[i], answer) != NULL && strstr (log[i], code_name) != NULL;

  if (success)
    {
      g_assert_no_error (error);
      /* What the reclaimer's thread asked meanwhile, or what has another way out. */
      if (hit && !g_str_has_prefix (function, "cuEvent") && !g_str_has_prefix (function, "cuStreamIsCapturing") &&
          !g_str_has_prefix (function, "cuThreadExchange") && !g_str_equal (function, "cuMemUnmap") && !g_str_equal (function, "cuMemAddressFree") && !g_str_equal (function, "cuCtxGetId") &&
          !(g_str_equal (function, "cuMemAddressReserve") && code == CUDA_ERROR_OUT_OF_MEMORY) &&
          !(operation->cut && code == CUDA_ERROR_OUT_OF_MEMORY))
        {
          gcuda_test_log_print (log);
          g_error ("%s, %s: the failure went unnoticed", operation->name, spec);
        }
    }
  else
    {
      g_assert_nonnull (error);
      if (!hit || error->code != (int) code)
        {
          gcuda_test_log_print (log);
          g_error ("%s, %s: %s", operation->name, spec, error->message);
        }
      g_assert_null (scene.made);
      get_state (&scene, &after);
      g_assert_cmpmem (&state, sizeof state, &after, sizeof after);
      assert_same_balance (&during);
      gcuda_test_let_go ();
      assert_contents (&scene);
      g_clear_error (&error);
      success = operation->run (&scene, &error);
      g_assert_no_error (error);
      g_assert_true (success);
    }
  gcuda_test_let_go ();
  scene_tear_down (&scene);
  assert_same_balance (&before);
}

static void
test_failures (Case *test,
               gconstpointer data)
{
  static const struct
  {
    CUresult code;
    const char *name;
  } codes[] = {
    { CUDA_ERROR_OUT_OF_MEMORY, "OUT_OF_MEMORY" },
    { CUDA_ERROR_UNKNOWN, "UNKNOWN" },
    { CUDA_ERROR_ILLEGAL_ADDRESS, "ILLEGAL_ADDRESS" },
  };
  const Operation *operation = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (GHashTable) counts = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr (GPtrArray) names = NULL;
  g_auto (GStrv) log = NULL;
  Scene scene = { .test = test };
  GHashTableIter iter;
  gpointer name, count;
  guint points = 0;
  int version;

  if (!gcuda_test_needs_failing_calls ())
    return;
  if (operation->peer && test->peer == NULL)
    {
      g_test_skip ("needs two devices");
      return;
    }
  scene_set_up (&scene, operation);
  gcuda_test_log_start ();
  assert_cuda (RAW (cuDriverGetVersion) (&version));
  g_assert_true (operation->run (&scene, &error));
  g_assert_no_error (error);
  log = gcuda_test_log_take ();
  scene_tear_down (&scene);
  names = called_functions (log);
  for (guint i = 0; i < names->len; i++)
    {
      name = g_ptr_array_index (names, i);
      g_hash_table_insert (counts, name, GUINT_TO_POINTER (GPOINTER_TO_UINT (g_hash_table_lookup (counts, name)) + 1));
    }
  g_hash_table_iter_init (&iter, counts);
  while (g_hash_table_iter_next (&iter, &name, &count))
    for (guint n = 1; n <= GPOINTER_TO_UINT (count); n++)
      for (gsize code = 0; code < G_N_ELEMENTS (codes); code++)
        {
          run_failing (test, operation, name, n, codes[code].name, codes[code].code);
          points++;
        }
  g_test_message ("%s: %u failures", operation->name, points);
  g_assert_cmpuint (points, >, 0);
}

/* The driver calls that releases complained of, while a test expects that. */
static GMutex warnings_lock;
static GPtrArray *warnings;

static GLogWriterOutput
collect (GLogLevelFlags level,
         const GLogField *fields,
         gsize n_fields,
         gpointer data)
{
  gboolean ours = FALSE;

  g_mutex_lock (&warnings_lock);
  for (gsize i = 0; i < n_fields && warnings != NULL; i++)
    if (strcmp (fields[i].key, "GCUDA_DRIVER_CALL") == 0)
      {
        g_ptr_array_add (warnings, g_strdup (fields[i].value));
        ours = TRUE;
      }
  g_mutex_unlock (&warnings_lock);
  return ours ? G_LOG_WRITER_HANDLED : g_log_writer_default (level, fields, n_fields, data);
}

static void
expect_begin (const char *spec)
{
  g_mutex_lock (&warnings_lock);
  warnings = g_ptr_array_new_with_free_func (g_free);
  g_mutex_unlock (&warnings_lock);
  gcuda_test_fail_calls (spec);
}

static void
expect_end (const char *function)
{
  g_autoptr (GPtrArray) said = NULL;

  settle ();
  gcuda_test_fail_calls (NULL);
  g_mutex_lock (&warnings_lock);
  said = g_steal_pointer (&warnings);
  g_mutex_unlock (&warnings_lock);
  g_assert_cmpuint (said->len, ==, 1);
  g_assert_cmpstr (g_ptr_array_index (said, 0), ==, function);
}

/* What a release can't give back is said once, and all else goes. */
static void
test_failing_release (Case *test,
                      gconstpointer data)
{
  static const char *const functions[] = { "cuMemUnmap", "cuMemRelease", "cuMemAddressFree" };

  if (!gcuda_test_needs_failing_calls ())
    return;
  for (gsize i = 0; i < G_N_ELEMENTS (functions); i++)
    {
      g_autofree char *spec = g_strdup_printf ("%s:1=UNKNOWN", functions[i]);
      GCudaBuffer *buffer = allocate (test->virtual, test->unit, test->bed.stream);
      CUdeviceptr address = gcuda_buffer_get_address (buffer);
      CUmemGenericAllocationHandle handle;

      assert_cuda (RAW (cuMemRetainAllocationHandle) (&handle, (void *) (guintptr) address));
      expect_begin (spec);
      g_object_unref (buffer);
      expect_end (functions[i]);
      if (i == 0)
        assert_cuda (RAW (cuMemUnmap) (address, test->unit));
      if (i < 2)
        assert_cuda (RAW (cuMemRelease) (handle));
      if (i != 1)
        assert_cuda (RAW (cuMemAddressFree) (address, test->unit));
      assert_cuda (RAW (cuMemRelease) (handle));
    }
}

/* Of many chunks only that one stays. */
static void
test_failing_release_of_many (Case *test,
                              gconstpointer data)
{
  g_autoptr (GCudaVirtualMemoryOptions) options = gcuda_virtual_memory_options_new ();
  g_autoptr (GCudaVirtualMemoryResource) resource = NULL;
  const guint64 unit = test->unit;
  CUmemGenericAllocationHandle handle;
  GcudasimBalance before, after;
  GCudaBuffer *buffer;
  CUdeviceptr address;

  if (!gcuda_test_needs_failing_calls ())
    return;
  gcuda_virtual_memory_options_set_chunk_size (options, unit);
  resource = make_resource (test, options);
  get_balance (&before);
  buffer = allocate (resource, 4 * unit, test->bed.stream);
  address = gcuda_buffer_get_address (buffer);
  expect_begin ("cuMemUnmap:1=UNKNOWN");
  g_object_unref (buffer);
  expect_end ("cuMemUnmap");
  get_balance (&after);
  if (gcuda_test_is_simulated ())
    {
      g_assert_cmpuint (after.mappings, ==, before.mappings + 1);
      g_assert_cmpuint (after.device_bytes, ==, before.device_bytes + unit);
    }
  /* By hand, the last was the first. */
  assert_cuda (RAW (cuMemRetainAllocationHandle) (&handle, (void *) (guintptr) (address + 3 * unit)));
  assert_cuda (RAW (cuMemUnmap) (address + 3 * unit, unit));
  assert_cuda (RAW (cuMemRelease) (handle));
  assert_cuda (RAW (cuMemRelease) (handle));
  assert_cuda (RAW (cuMemAddressFree) (address, 4 * unit));
}

/* Who frees an address is told that it could not be, and still has it. */
static void
test_failing_deallocation (Case *test,
                           gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  GCudaMemoryResource *resource = GCUDA_MEMORY_RESOURCE (test->virtual);
  guint64 address;

  if (!gcuda_test_needs_failing_calls ())
    return;
  address = gcuda_memory_resource_allocate_address (resource, 100, 0, test->bed.stream, &error);
  g_assert_no_error (error);
  gcuda_test_fail_calls ("cuMemUnmap:1=UNKNOWN");
  g_assert_false (gcuda_memory_resource_deallocate_address (resource, address, 100, 0, test->bed.stream, &error));
  gcuda_test_fail_calls (NULL);
  assert_error_and_clear (error, GCUDA_ERROR_UNKNOWN);
  g_assert_cmpint (raw_access (address, test->bed.device), ==, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  g_assert_true (gcuda_memory_resource_deallocate_address (resource, address, 100, 0, test->bed.stream, &error));
  g_assert_no_error (error);
}

/* A cut that can't be unmapped can be taken back, and is tried again at the end. */
static void
test_failing_cut (Case *test,
                  gconstpointer data)
{
  g_autoptr (GCudaBuffer) buffer = NULL;
  GCudaStream *stream = test->bed.stream;

  if (!gcuda_test_needs_failing_calls ())
    return;
  buffer = allocate (test->virtual, test->unit, stream);
  resize (test->virtual, buffer, 2 * test->unit, MAY_MOVE, stream);
  pattern_fill (buffer, 3, stream);
  for (guint i = 0; i < 2; i++)
    {
      expect_begin ("cuMemUnmap:1=UNKNOWN");
      resize (test->virtual, buffer, test->unit, NONE, stream);
      expect_end ("cuMemUnmap");
      if (i == 0)
        {
          resize (test->virtual, buffer, 2 * test->unit, NONE, stream);
          pattern_fill (buffer, 4, stream);
          pattern_assert (buffer, 4, stream);
        }
    }
}

/* What a failed call could not unmap has no rights yet: who takes it back gives it some. */
static void
test_failing_undo (Case *test,
                   gconstpointer data)
{
  g_autoptr (GCudaVirtualMemoryOptions) options = gcuda_virtual_memory_options_new ();
  g_autoptr (GCudaVirtualMemoryResource) resource = NULL;
  g_autoptr (GCudaBuffer) buffer = NULL;
  g_autoptr (GError) error = NULL;
  GCudaStream *stream = test->bed.stream;

  if (!gcuda_test_needs_failing_calls ())
    return;
  gcuda_virtual_memory_options_set_max_size (options, 2 * test->unit);
  resource = make_resource (test, options);
  buffer = allocate (resource, test->unit, stream);
  expect_begin ("cuMemSetAccess:1=UNKNOWN,cuMemUnmap:1=UNKNOWN");
  g_assert_false (gcuda_virtual_memory_resource_resize (resource, buffer, 2 * test->unit, NONE, stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_UNKNOWN);
  expect_end ("cuMemUnmap");
  resize (resource, buffer, 2 * test->unit, NONE, stream);
  g_assert_cmpuint (capacity (resource, buffer), ==, 2 * test->unit);
  pattern_fill (buffer, 6, stream);
  pattern_assert (buffer, 6, stream);
}

/* Any sequence, against a model */

#define MODEL_UNITS 12

typedef struct
{
  Case *test;
  GCudaVirtualMemoryResource *resource;
  guint32 seed;
  guint operations;
} Random;

/* What one buffer should be: for each unit the byte that is in it, 0 for anything, -1 for no memory. */
typedef struct
{
  GCudaBuffer *buffer;
  guint64 units; /* its size */
  int bytes[MODEL_UNITS];
} Model;

static void
model_check (Model *model,
             GCudaVirtualMemoryResource *resource,
             guint64 unit,
             GCudaStream *stream)
{
  guint64 have = 0;

  g_assert_cmpuint (gcuda_buffer_get_size (model->buffer), ==, model->units * unit);
  for (guint u = 0; u < model->units; u++)
    {
      have += model->bytes[u] >= 0 ? unit : 0;
      if (model->bytes[u] > 0)
        assert_part (model->buffer, u * unit + (u % 7) * 64, 64, (guint8) model->bytes[u], stream);
    }
  g_assert_cmpuint (capacity (resource, model->buffer), ==, have);
}

static gpointer
random_run (gpointer data)
{
  Random *random = data;
  Case *test = random->test;
  const guint64 unit = test->unit;
  g_autoptr (GRand) rand = g_rand_new_with_seed (random->seed);
  g_autoptr (GError) error = NULL;
  GCudaStream *streams[2];
  Model models[3] = { 0 };

  for (guint i = 0; i < 2; i++)
    {
      streams[i] = gcuda_stream_new (test->bed.context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
      g_assert_no_error (error);
    }
  for (guint step = 0; step < random->operations; step++)
    {
      Model *model = &models[g_rand_int_range (rand, 0, G_N_ELEMENTS (models))];
      GCudaStream *stream = streams[g_rand_int_range (rand, 0, 2)];
      guint64 from, to;

      /* The streams take turns: whatever is done comes after all that was. */
      g_assert_true (gcuda_stream_wait_stream (stream, stream == streams[0] ? streams[1] : streams[0], &error));
      if (model->buffer == NULL)
        {
          model->units = (guint64) g_rand_int_range (rand, 1, MODEL_UNITS);
          if (g_rand_boolean (rand))
            {
              model->buffer = allocate (random->resource, model->units * unit, stream);
              memset (model->bytes, 0, sizeof model->bytes);
            }
          else
            {
              model->buffer = gcuda_virtual_memory_resource_reserve (random->resource, model->units * unit, stream, &error);
              g_assert_no_error (error);
              memset (model->bytes, 0xff, sizeof model->bytes);
            }
          continue;
        }
      from = (guint64) g_rand_int_range (rand, 0, (gint32) model->units);
      to = (guint64) g_rand_int_range (rand, (gint32) from + 1, (gint32) model->units + 1);
      switch (g_rand_int_range (rand, 0, 12))
        {
        case 0:
        case 1:
        case 2:
          {
            guint64 units = (guint64) g_rand_int_range (rand, 1, MODEL_UNITS + 1);

            if (!gcuda_virtual_memory_resource_resize (random->resource, model->buffer, units * unit, g_rand_int_range (rand, 0, 4) == 0 ? NONE : MAY_MOVE, stream, &error))
              {
                assert_error_and_clear (error, GCUDA_ERROR_OUT_OF_MEMORY);
                break;
              }
            for (guint64 u = model->units; u < units; u++)
              model->bytes[u] = 0;
            for (guint64 u = units; u < MODEL_UNITS; u++)
              model->bytes[u] = -1;
            model->units = units;
            break;
          }
        case 3:
        case 4:
          g_assert_true (gcuda_virtual_memory_resource_commit (random->resource, model->buffer, from * unit, (to - from) * unit, stream, &error));
          g_assert_no_error (error);
          for (guint64 u = from; u < to; u++)
            model->bytes[u] = MAX (model->bytes[u], 0);
          break;
        case 5:
          g_assert_true (gcuda_virtual_memory_resource_decommit (random->resource, model->buffer, from * unit, (to - from) * unit, stream, &error));
          g_assert_no_error (error);
          for (guint64 u = from; u < to; u++)
            model->bytes[u] = -1;
          break;
        case 6:
        case 7:
        case 8:
          for (guint64 u = from; u < to; u++)
            if (model->bytes[u] >= 0)
              {
                model->bytes[u] = g_rand_int_range (rand, 1, 256);
                fill_part (model->buffer, u * unit + (u % 7) * 64, 64, (guint8) model->bytes[u], stream);
              }
          break;
        case 9:
          model_check (model, random->resource, unit, stream);
          break;
        case 10:
          if (test->peer != NULL)
            {
              g_assert_true (gcuda_virtual_memory_resource_set_access (random->resource, model->buffer, test->peer, (GCudaMemoryAccess) g_rand_int_range (rand, 0, 3), &error));
              g_assert_no_error (error);
            }
          break;
        case 11:
        default:
          if (g_rand_int_range (rand, 0, 8) == 0 && test->peer != NULL)
            {
              g_assert_true (gcuda_virtual_memory_resource_add_peer (random->resource, test->peer, (GCudaMemoryAccess) g_rand_int_range (rand, 0, 3), &error));
              g_assert_no_error (error);
            }
          else if (g_rand_int_range (rand, 0, 3) == 0)
            {
              g_assert_true (gcuda_buffer_close (model->buffer, stream, &error));
              g_assert_no_error (error);
              g_clear_object (&model->buffer);
            }
        }
    }
  for (guint i = 0; i < G_N_ELEMENTS (models); i++)
    if (models[i].buffer != NULL)
      {
        g_assert_true (gcuda_stream_wait_stream (streams[0], streams[1], &error));
        model_check (&models[i], random->resource, unit, streams[0]);
        g_assert_true (gcuda_buffer_close (models[i].buffer, streams[0], &error));
        g_object_unref (models[i].buffer);
      }
  for (guint i = 0; i < 2; i++)
    g_object_unref (streams[i]);
  return NULL;
}

static void
test_random (Case *test,
             gconstpointer data)
{
  g_autoptr (GCudaVirtualMemoryOptions) options = gcuda_virtual_memory_options_new ();
  g_autoptr (GCudaVirtualMemoryResource) resource = NULL;
  const guint total = g_test_thorough () || g_strcmp0 (g_getenv ("GCUDA_TEST_LONG"), "1") == 0 ? 100000 : 3000;
  Random randoms[3];
  GThread *threads[3];
  GcudasimBalance before;
  g_auto (GStrv) log = NULL;

  settle ();
  get_balance (&before);
  gcuda_virtual_memory_options_set_chunk_size (options, test->unit);
  gcuda_virtual_memory_options_set_max_size (options, 4 * test->unit);
  gcuda_virtual_memory_options_set_cache_size (options, 4 * test->unit);
  resource = make_resource (test, options);
  if (total <= 3000)
    gcuda_test_log_start ();
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    {
      randoms[i] = (Random){ test, resource, g_test_rand_int (), total / G_N_ELEMENTS (threads) };
      threads[i] = g_thread_new ("random", random_run, &randoms[i]);
    }
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    g_thread_join (threads[i]);
  settle ();
  g_assert_finalize_object (g_steal_pointer (&resource));
  settle ();
  if (total <= 3000 && gcuda_test_is_simulated ())
    {
      log = gcuda_test_log_take ();
      assert_log_balance (log);
    }
  assert_same_balance (&before);
}

/* Many calls on one buffer, and releases beside them. */

static gpointer
resize_often (gpointer data)
{
  Random *random = data;
  g_autoptr (GRand) rand = g_rand_new_with_seed (random->seed);
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < random->operations; i++)
    {
      GCudaBuffer *buffer = g_object_get_data (G_OBJECT (random->resource), "buffer");

      if (!gcuda_virtual_memory_resource_resize (random->resource, buffer, (guint64) g_rand_int_range (rand, 1, 8) * random->test->unit, MAY_MOVE, random->test->bed.stream, &error))
        assert_error_and_clear (error, GCUDA_ERROR_IN_USE);
    }
  return NULL;
}

static void
test_one_buffer (Case *test,
                 gconstpointer data)
{
  g_autoptr (GCudaBuffer) buffer = allocate (test->virtual, test->unit, test->bed.stream);
  Random randoms[3];
  GThread *threads[3];

  fill_part (buffer, 0, 4096, 0x55, test->bed.stream);
  g_object_set_data (G_OBJECT (test->virtual), "buffer", buffer);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    {
      randoms[i] = (Random){ test, test->virtual, g_test_rand_int (), 1500 };
      threads[i] = g_thread_new ("resize", resize_often, &randoms[i]);
    }
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    g_thread_join (threads[i]);
  assert_part (buffer, 0, 4096, 0x55, test->bed.stream);
}

static gpointer
add_peer_often (gpointer data)
{
  Random *random = data;
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < random->operations; i++)
    {
      g_assert_true (gcuda_virtual_memory_resource_add_peer (random->resource, random->test->peer, (GCudaMemoryAccess) random->seed, &error));
      g_assert_no_error (error);
    }
  return NULL;
}

/* Of two calls for one device at once the last holds for all buffers. */
static void
test_two_add_peers (Case *test,
                    gconstpointer data)
{
  GCudaBuffer *buffers[16];
  /* A real driver takes its time. */
  const guint rounds = gcuda_test_is_simulated () ? 30 : 3;

  if (test->peer == NULL)
    {
      g_test_skip ("needs two devices");
      return;
    }
  for (guint i = 0; i < G_N_ELEMENTS (buffers); i++)
    buffers[i] = allocate (test->virtual, test->unit, test->bed.stream);
  for (guint round = 0; round < rounds; round++)
    {
      Random randoms[2];
      GThread *threads[2];

      for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
        {
          randoms[i] = (Random){ test, test->virtual, i == 0 ? GCUDA_MEMORY_ACCESS_READ : GCUDA_MEMORY_ACCESS_READ_WRITE, 3 };
          threads[i] = g_thread_new ("add-peer", add_peer_often, &randoms[i]);
        }
      for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
        g_thread_join (threads[i]);
      for (guint i = 1; i < G_N_ELEMENTS (buffers); i++)
        g_assert_cmpint (raw_access (gcuda_buffer_get_address (buffers[i]), test->peer), ==, raw_access (gcuda_buffer_get_address (buffers[0]), test->peer));
    }
  for (guint i = 0; i < G_N_ELEMENTS (buffers); i++)
    g_object_unref (buffers[i]);
}

int
main (int argc,
      char **argv)
{
  /* Where the environment says nothing, two devices: peers are a part of this. */
  g_setenv ("GCUDASIM_DEVICES", "2", FALSE);
  gcuda_test_init (&argc, &argv);
  g_log_set_writer_func (collect, NULL, NULL);
#define add(name, function)      g_test_add ("/virtual-memory-resource/" name, Case, NULL, set_up, function, tear_down)
#define add_peer(name, function) g_test_add ("/virtual-memory-resource/" name, Case, NULL, set_up, function, tear_down_peer)
  add ("allocate", test_allocate);
  add ("many", test_many);
  add ("across-chunks", test_across_chunks);
  add ("free-in-order", test_free_in_order);
  add ("grow-in-headroom", test_grow_in_headroom);
  add ("grow-beside", test_grow_beside);
  add ("grow-by-moving", test_grow_by_moving);
  add ("shrink", test_shrink);
  add ("take-back-in-time", test_take_back_in_time);
  add ("shrink-within-a-chunk", test_shrink_within_a_chunk);
  add ("holders", test_holders);
  add ("view-instead", test_view_instead);
  add ("batch-grows", test_batch_grows);
  add ("reserve", test_reserve);
  add_peer ("access", test_access);
  add_peer ("two-add-peers", test_two_add_peers);
  add_peer ("placement", test_placement);
  add ("options", test_options);
  add ("lacks", test_lacks);
  add ("bad-arguments", test_bad_arguments);
  add ("capturing", test_capturing);
  add ("capture-elsewhere", test_capture_elsewhere);
  add ("cache", test_cache);
  add ("cache-ranges", test_cache_ranges);
  add ("out-of-memory", test_out_of_memory);
  add ("failing-release", test_failing_release);
  add ("failing-release-of-many", test_failing_release_of_many);
  add ("failing-deallocation", test_failing_deallocation);
  add ("failing-cut", test_failing_cut);
  add ("failing-undo", test_failing_undo);
  add ("one-buffer", test_one_buffer);
  add ("random", test_random);
  for (gsize i = 0; i < G_N_ELEMENTS (operations); i++)
    {
      g_autofree char *path = g_strdup_printf ("/virtual-memory-resource/failures/%s", operations[i].name);

      g_test_add (path, Case, &operations[i], set_up, test_failures, tear_down);
    }
  return g_test_run ();
}
