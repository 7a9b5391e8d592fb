/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The end of a process, and forks of it: whatever is alive, and whoever drops it, it exits with 0 and says nothing; and no
 * driver call is made where none may be made. Each case is a process of its own: this program, run again.
 */
#include "gcuda-test.h"

#include <glib/gstdio.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gcudamem/simulator/gcudasim.h"

#define SIZE (64 * 1024)

#define SIMULATOR(name) ((__typeof__ (&name)) gcuda_test_simulator_function (#name))

/* What the child has, all of it alive at its end. */
static struct
{
  GCudaDevice *device;
  GCudaContext *context, *private_context, *foreign_context;
  GCudaStream *stream, *legacy, *per_thread, *far, *foreign_stream;
  GCudaEvent *event;
  GCudaMemoryResource *pool, *shared_pool, *synchronous;
  GCudaVirtualMemoryResource *virtual_memory; /* NULL where the device has none */
  GCudaBuffer *grown;                         /* of it; its old addresses, and its tail, wait for the stream */
  GCudaMemoryResource *pinned, *pieces, *managed;
  GCudaBuffer *in_pinned, *in_pieces, *in_managed, *of_bytes; /* memory that the host uses as well */
  GCudaHostMap *map;
  GCudaGraphDefinition *definition;
  GCudaGraphNode *node;
  GCudaGraph *graph; /* launched; so is another, which was dropped */
  GCudaBuffer *buffer, *view, *on_legacy, *on_per_thread, *on_far, *plain, *foreign, *in_shared;
} all;

/* A real driver ends a forked child by a signal, when that exits after a thread had used its per-thread default stream that
 * lives still; and it may never let a thread end that has work left on that stream. Both are beyond this library: for forks
 * other threads use that stream, wait for it, and end. */
static gboolean forking;

static void
finish_per_thread (void)
{
  g_autoptr (GError) error = NULL;

  if (forking && !gcuda_test_is_simulated ())
    {
      g_assert_true (gcuda_stream_synchronize (all.per_thread, &error));
      g_assert_no_error (error);
    }
}

static gpointer
use_per_thread (gpointer data)
{
  pattern_fill (all.on_per_thread, 0x33, all.per_thread);
  pattern_fill (data, 0x78, all.per_thread);
  finish_per_thread ();
  return NULL;
}

static gpointer
allocate_per_thread (gpointer data)
{
  g_autoptr (GError) error = NULL;
  GCudaBuffer **dropped = data;

  all.on_per_thread = gcuda_memory_resource_allocate (all.pool, SIZE, all.per_thread, &error);
  g_assert_no_error (error);
  *dropped = gcuda_memory_resource_allocate (all.synchronous, SIZE, all.per_thread, &error);
  g_assert_no_error (error);
  finish_per_thread ();
  return NULL;
}

static void
host_function (gpointer data)
{
}

static void
make_graphs (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) kept = gcuda_memory_resource_allocate (all.pool, SIZE, all.stream, &error);
  g_autoptr (GCudaGraph) dropped = NULL;
  g_autoptr (GCudaGraphNode) function = NULL;

  g_assert_no_error (error);
  all.definition = gcuda_graph_definition_new (all.context, &error);
  g_assert_no_error (error);
  all.node = gcuda_graph_definition_add_fill (all.definition, NULL, 0, kept, 0, SIZE, 0x88, 1, &error);
  g_assert_no_error (error);
  function = gcuda_graph_definition_add_host_function (all.definition, &all.node, 1, host_function, NULL, NULL, &error);
  g_assert_no_error (error);
  all.graph = gcuda_graph_definition_instantiate (all.definition, GCUDA_GRAPH_FLAGS_NONE, NULL, &error);
  g_assert_no_error (error);
  dropped = gcuda_graph_definition_instantiate (all.definition, GCUDA_GRAPH_FLAGS_NONE, NULL, &error);
  g_assert_no_error (error);
  g_assert_true (gcuda_graph_launch (all.graph, all.stream, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_graph_launch (dropped, all.stream, &error));
  g_assert_no_error (error);
}

static void
make_all (gboolean held)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GObject) owner = g_object_new (G_TYPE_OBJECT, NULL);
  g_autoptr (GCudaBuffer) closed = NULL;
  g_autoptr (GCudaBuffer) dropped = NULL;
  g_autoptr (GBytes) bytes = g_bytes_new_take (g_malloc0 (SIZE), SIZE);
  g_autoptr (GCudaVirtualMemoryOptions) options = gcuda_virtual_memory_options_new ();
  CUcontext popped;
  CUstream raw;

  gcuda_virtual_memory_options_set_cache_size (options, 64 << 20);
#define CHECKED(call)          \
  G_STMT_START                 \
  {                            \
    call;                      \
    g_assert_no_error (error); \
  }                            \
  G_STMT_END

  CHECKED (all.device = gcuda_device_new (0, &error));
  CHECKED (all.context = gcuda_device_get_primary_context (all.device, &error));
  CHECKED (all.private_context = gcuda_context_new (all.device, GCUDA_CONTEXT_FLAGS_NONE, &error));
  CHECKED (all.foreign_context = gcuda_context_new_for_handle (gcuda_context_get_handle (all.context), owner, &error));
  CHECKED (all.stream = gcuda_stream_new (all.context, GCUDA_STREAM_FLAGS_NONE, 0, &error));
  CHECKED (all.legacy = gcuda_stream_new_legacy_default (all.context, &error));
  CHECKED (all.per_thread = gcuda_stream_new_per_thread_default (all.context, &error));
  CHECKED (all.far = gcuda_stream_new (all.private_context, GCUDA_STREAM_FLAGS_NONE, 0, &error));
  assert_cuda (RAW (cuCtxPushCurrent) (gcuda_context_get_cuda_context (all.context)));
  assert_cuda (RAW (cuStreamCreate) (&raw, CU_STREAM_NON_BLOCKING));
  assert_cuda (RAW (cuCtxPopCurrent) (&popped));
  CHECKED (all.foreign_stream = gcuda_stream_new_for_handle (all.context, (guint64) (guintptr) raw, owner, &error));
  CHECKED (all.event = gcuda_event_new (all.context, GCUDA_EVENT_FLAGS_NONE, &error));
  CHECKED (all.pool = GCUDA_MEMORY_RESOURCE (gcuda_device_memory_resource_new_pool (all.device, 0, GCUDA_HANDLE_TYPES_NONE, &error)));
  CHECKED (all.shared_pool = GCUDA_MEMORY_RESOURCE (gcuda_device_memory_resource_new (all.device, &error)));
  CHECKED (all.synchronous = GCUDA_MEMORY_RESOURCE (gcuda_synchronous_memory_resource_new (all.context, &error)));
  CHECKED (all.buffer = gcuda_memory_resource_allocate (all.pool, SIZE, all.stream, &error));
  CHECKED (all.view = gcuda_buffer_new_view (all.buffer, 16, 32, &error));
  CHECKED (all.on_legacy = gcuda_memory_resource_allocate (all.pool, SIZE, all.legacy, &error));
  CHECKED (all.on_far = gcuda_memory_resource_allocate (all.pool, SIZE, all.far, &error));
  CHECKED (all.in_shared = gcuda_memory_resource_allocate (all.shared_pool, SIZE, all.foreign_stream, &error));
  CHECKED (all.plain = gcuda_memory_resource_allocate (all.synchronous, SIZE, all.stream, &error));
  CHECKED (all.pinned = GCUDA_MEMORY_RESOURCE (gcuda_pinned_memory_resource_new (all.device, &error)));
  CHECKED (all.pieces = GCUDA_MEMORY_RESOURCE (gcuda_pinned_memory_resource_new_unpooled (all.device, FALSE, &error)));
  CHECKED (all.managed = GCUDA_MEMORY_RESOURCE (gcuda_managed_memory_resource_new (all.device, NULL, &error)));
  CHECKED (all.in_pinned = gcuda_memory_resource_allocate (all.pinned, SIZE, all.stream, &error));
  CHECKED (all.in_pieces = gcuda_memory_resource_allocate (all.pieces, SIZE, all.stream, &error));
  CHECKED (all.in_managed = gcuda_memory_resource_allocate (all.managed, SIZE, all.stream, &error));
  CHECKED (all.of_bytes = gcuda_buffer_new_for_bytes (all.device, bytes, all.stream, &error));
  CHECKED (all.map = gcuda_buffer_map (all.in_managed, GCUDA_MAP_FLAGS_READ, all.stream, &error));
  all.virtual_memory = gcuda_virtual_memory_resource_new (all.device, options, &error);
  if (g_error_matches (error, GCUDA_ERROR, GCUDA_ERROR_NOT_SUPPORTED))
    g_clear_error (&error);
  g_assert_no_error (error);
  if (all.virtual_memory != NULL)
    CHECKED (all.grown = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (all.virtual_memory), SIZE, all.stream, &error));
  CHECKED (closed = gcuda_memory_resource_allocate (all.synchronous, SIZE, all.stream, &error));
  if (forking)
    in_thread (allocate_per_thread, &dropped);
  else
    allocate_per_thread (&dropped);
  CHECKED (all.foreign = gcuda_buffer_new_for_address (all.device, gcuda_buffer_get_address (all.buffer), SIZE, owner, all.stream, &error));
#undef CHECKED

  if (held && gcuda_test_is_simulated ())
    gcuda_test_hold (all.stream);
  pattern_fill (all.buffer, 0x11, all.stream);
  pattern_fill (all.on_legacy, 0x22, all.legacy);
  if (forking)
    in_thread (use_per_thread, dropped);
  else
    use_per_thread (dropped);
  pattern_fill (all.on_far, 0x44, all.far);
  pattern_fill (all.plain, 0x55, all.stream);
  pattern_fill (all.in_shared, 0x66, all.foreign_stream);
  if (all.grown != NULL)
    {
      const guint64 unit = gcuda_virtual_memory_resource_get_granularity (all.virtual_memory);

      pattern_fill (all.grown, 0x79, all.stream);
      for (guint64 units = 2; units < 5; units++)
        {
          g_assert_true (gcuda_virtual_memory_resource_resize (all.virtual_memory, all.grown, units * unit, GCUDA_RESIZE_FLAGS_MAY_MOVE, all.stream, &error));
          g_assert_no_error (error);
        }
      pattern_fill (all.grown, 0x7a, all.stream);
      g_assert_true (gcuda_virtual_memory_resource_resize (all.virtual_memory, all.grown, unit, GCUDA_RESIZE_FLAGS_NONE, all.stream, &error));
      g_assert_no_error (error);
    }
  pattern_fill (closed, 0x77, all.stream);
  pattern_fill (all.in_pinned, 0x78, all.stream);
  pattern_fill (all.in_pieces, 0x79, all.stream);
  g_assert_true (gcuda_buffer_copy_to (all.of_bytes, all.in_pieces, all.stream, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_buffer_upload (all.plain, 0, bytes, all.stream, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_event_record (all.event, all.stream, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_buffer_close (closed, NULL, &error));
  g_assert_no_error (error);
  make_graphs ();
}

static void
drop_all (void)
{
  gcuda_buffer_close (all.on_legacy, NULL, NULL);
  gcuda_stream_close (all.legacy, NULL);
  gcuda_event_close (all.event, NULL);
  gcuda_context_close (all.private_context, NULL);
  g_clear_object (&all.in_managed);
  g_clear_object (&all.map);
  g_clear_object (&all.in_pinned);
  g_clear_object (&all.in_pieces);
  g_clear_object (&all.of_bytes);
  g_clear_object (&all.managed);
  g_clear_object (&all.pinned);
  g_clear_object (&all.pieces);
  g_clear_object (&all.graph);
  g_clear_object (&all.definition);
  g_clear_object (&all.node);
  g_clear_object (&all.view);
  g_clear_object (&all.buffer);
  g_clear_object (&all.on_legacy);
  g_clear_object (&all.on_per_thread);
  g_clear_object (&all.on_far);
  g_clear_object (&all.in_shared);
  g_clear_object (&all.plain);
  g_clear_object (&all.foreign);
  g_clear_object (&all.grown);
  g_clear_object (&all.virtual_memory);
  g_clear_object (&all.pool);
  g_clear_object (&all.shared_pool);
  g_clear_object (&all.synchronous);
  g_clear_object (&all.event);
  g_clear_object (&all.stream);
  g_clear_object (&all.legacy);
  g_clear_object (&all.per_thread);
  g_clear_object (&all.far);
  g_clear_object (&all.foreign_stream);
  g_clear_object (&all.private_context);
  g_clear_object (&all.foreign_context);
  g_clear_object (&all.context);
  g_clear_object (&all.device);
}

/* Ends */

static int
child_return (void)
{
  make_all (FALSE);
  return 0;
}

static int
child_return_held (void)
{
  make_all (TRUE);
  return 0;
}

static int
child_exit (void)
{
  make_all (FALSE);
  exit (0);
}

static int
child_exit_at_once (void)
{
  make_all (FALSE);
  _exit (0);
}

static int
child_atexit_before (void)
{
  atexit (drop_all);
  make_all (FALSE);
  return 0;
}

static int
child_atexit_before_held (void)
{
  atexit (drop_all);
  make_all (TRUE);
  return 0;
}

static int
child_atexit_after (void)
{
  make_all (FALSE);
  atexit (drop_all);
  return 0;
}

static int
child_atexit_after_held (void)
{
  make_all (TRUE);
  atexit (drop_all);
  return 0;
}

static void
reclaim_late (void)
{
  /* Nothing comes any more, and so nothing is waited for. */
  gcuda_reclaim (NULL, NULL);
}

static int
child_reclaim_late (void)
{
  atexit (reclaim_late);
  make_all (TRUE);
  drop_all ();
  return 0;
}

/* A call that a program makes after the end: it fails, and does not crash. */
static void
use_late (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = gcuda_memory_resource_allocate (all.pool, SIZE, all.stream, &error);

  if (buffer != NULL || error == NULL)
    _exit (3);
  drop_all ();
}

static int
child_use_late (void)
{
  atexit (use_late);
  make_all (FALSE);
  return 0;
}

/* Another thread is still at it when the process ends. */

static gint ending, ended;

static gpointer
drop_at_the_end (gpointer data)
{
  while (!g_atomic_int_get (&ending))
    g_usleep (50);
  drop_all ();
  g_atomic_int_set (&ended, TRUE);
  return NULL;
}

static void
let_thread_drop (void)
{
  g_atomic_int_set (&ending, TRUE);
  while (!g_atomic_int_get (&ended))
    g_usleep (50);
}

static int
child_thread_drops_early (void)
{
  make_all (FALSE);
  g_thread_unref (g_thread_new ("drops", drop_at_the_end, NULL));
  atexit (let_thread_drop);
  return 0;
}

static int
child_thread_drops_late (void)
{
  atexit (let_thread_drop);
  make_all (FALSE);
  g_thread_unref (g_thread_new ("drops", drop_at_the_end, NULL));
  return 0;
}

static gint rounds;

static gpointer
drop_for_ever (gpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) buffers = g_ptr_array_new_with_free_func (g_object_unref);

  for (guint i = 0; i < 4000; i++)
    {
      GCudaBuffer *buffer = gcuda_memory_resource_allocate (i % 8 == 0 ? all.synchronous : all.pool, 256, all.stream, &error);

      g_assert_no_error (error);
      g_ptr_array_add (buffers, buffer);
    }
  g_atomic_int_set (&rounds, 3);
  g_ptr_array_set_size (buffers, 0);
  for (;;)
    g_usleep (1000);
  return NULL;
}

/* Teardown calls only, one after the other, while the process exits. */
static int
child_thread_dropping (void)
{
  make_all (FALSE);
  g_thread_unref (g_thread_new ("drops", drop_for_ever, NULL));
  while (g_atomic_int_get (&rounds) < 3)
    g_usleep (50);
  return 0;
}

static gpointer
allocate_for_ever (gpointer data)
{
  for (;;)
    {
      g_autoptr (GCudaBuffer) buffer = gcuda_memory_resource_allocate (g_atomic_int_get (&rounds) % 2 == 0 ? all.pool : all.synchronous, 4096, all.stream, NULL);

      if (buffer != NULL)
        gcuda_buffer_fill (buffer, 0x11, 1, all.stream, NULL);
      g_atomic_int_inc (&rounds);
    }
  return NULL;
}

static int
child_thread_allocating (void)
{
  make_all (FALSE);
  for (guint i = 0; i < 2; i++)
    g_thread_unref (g_thread_new ("allocates", allocate_for_ever, NULL));
  while (g_atomic_int_get (&rounds) < 20)
    g_usleep (50);
  return 0;
}

static int
child_unused (void)
{
  g_type_ensure (GCUDA_TYPE_DEVICE_MEMORY_RESOURCE);
  g_type_ensure (GCUDA_TYPE_BUFFER);
  return 0;
}

/* Forks */

static void
assert_forked (gboolean success,
               GError **error)
{
  g_assert_false (success);
  g_assert_error (*error, GCUDA_ERROR, GCUDA_ERROR_FORKED);
  g_clear_error (error);
}

/* In the forked child. */
static void
use_forked (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = g_bytes_new_static ("1234", 4);
  double time;

  alarm (20);
  assert_forked (gcuda_reclaim (NULL, &error), &error);
  assert_forked (gcuda_is_available (&error), &error);
  assert_forked (gcuda_device_new (0, &error) != NULL, &error);
  assert_forked (gcuda_get_devices (&error) != NULL, &error);
  assert_forked (gcuda_get_driver_info (&error) != NULL, &error);
  assert_forked (gcuda_device_get_primary_context (all.device, &error) != NULL, &error);
  assert_forked (gcuda_device_get_memory_info (all.device, &error) != NULL, &error);
  assert_forked (gcuda_device_synchronize (all.device, &error), &error);
  assert_forked (gcuda_device_get_attribute (all.device, 1, &error) != 0, &error);
  assert_forked (gcuda_context_new (all.device, GCUDA_CONTEXT_FLAGS_NONE, &error) != NULL, &error);
  assert_forked (gcuda_context_new_for_handle (0x1234, NULL, &error) != NULL, &error);
  assert_forked (gcuda_context_synchronize (all.context, &error), &error);
  assert_forked (gcuda_stream_new (all.context, GCUDA_STREAM_FLAGS_NONE, 0, &error) != NULL, &error);
  assert_forked (gcuda_stream_new_legacy_default (all.context, &error) != NULL, &error);
  assert_forked (gcuda_stream_query (all.stream, &error), &error);
  assert_forked (gcuda_stream_synchronize (all.stream, &error), &error);
  assert_forked (gcuda_stream_is_capturing (all.stream, &error), &error);
  assert_forked (gcuda_stream_wait_stream (all.stream, all.far, &error), &error);
  assert_forked (gcuda_stream_wait_event (all.stream, all.event, &error), &error);
  assert_forked (gcuda_event_new (all.context, GCUDA_EVENT_FLAGS_NONE, &error) != NULL, &error);
  assert_forked (gcuda_event_record (all.event, all.stream, &error), &error);
  assert_forked (gcuda_event_query (all.event, &error), &error);
  assert_forked (gcuda_event_synchronize (all.event, &error), &error);
  time = gcuda_event_elapsed_time (all.event, all.event, &error);
  assert_forked (time > 0, &error);
  assert_forked (gcuda_device_memory_resource_new (all.device, &error) != NULL, &error);
  assert_forked (gcuda_device_memory_resource_new_pool (all.device, 0, GCUDA_HANDLE_TYPES_NONE, &error) != NULL, &error);
  assert_forked (gcuda_synchronous_memory_resource_new (all.context, &error) != NULL, &error);
  assert_forked (gcuda_device_memory_resource_trim (GCUDA_DEVICE_MEMORY_RESOURCE (all.pool), 0, &error), &error);
  assert_forked (gcuda_device_memory_resource_get_statistics (GCUDA_DEVICE_MEMORY_RESOURCE (all.pool), &error) != NULL, &error);
  assert_forked (gcuda_device_memory_resource_set_release_threshold (GCUDA_DEVICE_MEMORY_RESOURCE (all.pool), 1, &error), &error);
  assert_forked (gcuda_memory_resource_allocate (all.pool, SIZE, all.stream, &error) != NULL, &error);
  assert_forked (gcuda_memory_resource_allocate (all.synchronous, SIZE, all.stream, &error) != NULL, &error);
  assert_forked (gcuda_memory_resource_allocate_address (all.pool, SIZE, 0, all.stream, &error) != 0, &error);
  assert_forked (gcuda_memory_resource_deallocate_address (all.pool, gcuda_buffer_get_address (all.buffer), SIZE, 0, all.stream, &error), &error);
  assert_forked (gcuda_memory_resource_adopt_address (all.pool, 0x1000, SIZE, all.stream, &error) != NULL, &error);
  assert_forked (gcuda_virtual_memory_resource_new (all.device, NULL, &error) != NULL, &error);
  if (all.grown != NULL)
    {
      GCudaVirtualMemoryResource *resource = all.virtual_memory;

      assert_forked (gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (resource), SIZE, all.stream, &error) != NULL, &error);
      assert_forked (gcuda_virtual_memory_resource_get_capacity (resource, all.grown, &error) != 0, &error);
      assert_forked (gcuda_virtual_memory_resource_resize (resource, all.grown, 1, GCUDA_RESIZE_FLAGS_NONE, all.stream, &error), &error);
      assert_forked (gcuda_virtual_memory_resource_reserve (resource, SIZE, all.stream, &error) != NULL, &error);
      assert_forked (gcuda_virtual_memory_resource_commit (resource, all.grown, 0, SIZE, all.stream, &error), &error);
      assert_forked (gcuda_virtual_memory_resource_decommit (resource, all.grown, 0, SIZE, all.stream, &error), &error);
      assert_forked (gcuda_virtual_memory_resource_set_access (resource, all.grown, all.device, GCUDA_MEMORY_ACCESS_READ, &error), &error);
      assert_forked (gcuda_virtual_memory_resource_add_peer (resource, all.device, GCUDA_MEMORY_ACCESS_READ, &error), &error);
      assert_forked (gcuda_virtual_memory_resource_trim (resource, 0, &error), &error);
    }
  assert_forked (gcuda_pinned_memory_resource_new (all.device, &error) != NULL, &error);
  assert_forked (gcuda_pinned_memory_resource_new_for_numa_node (all.device, 0, &error) != NULL, &error);
  assert_forked (gcuda_pinned_memory_resource_new_unpooled (all.device, FALSE, &error) != NULL, &error);
  assert_forked (gcuda_managed_memory_resource_new (all.device, NULL, &error) != NULL, &error);
  assert_forked (gcuda_managed_memory_resource_new_unpooled (all.device, NULL, &error) != NULL, &error);
  assert_forked (gcuda_memory_resource_allocate (all.pinned, SIZE, all.stream, &error) != NULL, &error);
  assert_forked (gcuda_memory_resource_allocate (all.pieces, SIZE, all.stream, &error) != NULL, &error);
  assert_forked (gcuda_memory_resource_allocate (all.managed, SIZE, all.stream, &error) != NULL, &error);
  assert_forked (gcuda_buffer_new_for_bytes (all.device, bytes, all.stream, &error) != NULL, &error);
  assert_forked (gcuda_buffer_new_for_host_address (all.device, 0x1000, SIZE, NULL, all.stream, &error) != NULL, &error);
  assert_forked (gcuda_buffer_map (all.in_managed, GCUDA_MAP_FLAGS_READ, all.stream, &error) != NULL, &error);
  assert_forked (gcuda_buffer_map (all.in_managed, GCUDA_MAP_FLAGS_READ | GCUDA_MAP_FLAGS_UNSYNCHRONIZED, NULL, &error) != NULL, &error);
  assert_forked (gcuda_buffer_set_read_mostly (all.in_managed, TRUE, &error), &error);
  assert_forked (gcuda_buffer_is_read_mostly (all.in_managed, &error), &error);
  assert_forked (gcuda_buffer_get_preferred_location (all.in_managed, &error) != NULL, &error);
  assert_forked (gcuda_buffer_discard (all.in_managed, all.stream, &error), &error);
  {
    g_autoptr (GCudaLocation) host = gcuda_location_new_host ();

    assert_forked (gcuda_buffer_prefetch (all.in_managed, host, all.stream, &error), &error);
    assert_forked (gcuda_buffer_is_accessed_by (all.in_managed, host, &error), &error);
  }
  gcuda_host_map_unmap (all.map);
  assert_forked (gcuda_graph_definition_new (all.context, &error) != NULL, &error);
  assert_forked (gcuda_graph_definition_add_empty (all.definition, NULL, 0, &error) != NULL, &error);
  assert_forked (gcuda_graph_definition_get_nodes (all.definition, &error) != NULL, &error);
  assert_forked (gcuda_graph_definition_instantiate (all.definition, GCUDA_GRAPH_FLAGS_NONE, NULL, &error) != NULL, &error);
  assert_forked (gcuda_graph_builder_new (all.context, GCUDA_CAPTURE_MODE_GLOBAL, &error) != NULL, &error);
  assert_forked (gcuda_graph_builder_new_for_stream (all.stream, GCUDA_CAPTURE_MODE_GLOBAL, &error) != NULL, &error);
  assert_forked (gcuda_graph_launch (all.graph, all.stream, &error), &error);
  assert_forked (gcuda_graph_upload (all.graph, all.stream, &error), &error);
  assert_forked (gcuda_graph_update (all.graph, all.definition, &error), &error);
  assert_forked (gcuda_graph_update_fill (all.graph, all.node, all.buffer, 0, SIZE, 1, 1, &error), &error);
  assert_forked (gcuda_graph_memory_resource_new (all.device, &error) != NULL, &error);
  g_assert_cmpuint (gcuda_graph_definition_get_handle (all.definition), ==, 0);
  assert_forked (gcuda_buffer_new_for_address (all.device, 0x1000, SIZE, NULL, all.stream, &error) != NULL, &error);
  assert_forked (gcuda_buffer_fill (all.buffer, 1, 1, all.stream, &error), &error);
  assert_forked (gcuda_buffer_copy_to (all.buffer, all.on_legacy, all.stream, &error), &error);
  assert_forked (gcuda_buffer_upload (all.buffer, 0, bytes, all.stream, &error), &error);
  assert_forked (gcuda_buffer_download (all.buffer, 0, SIZE, all.stream, &error) != NULL, &error);
  assert_forked (gcuda_buffer_set_deallocation_stream (all.buffer, all.far, &error), &error);
  assert_forked (gcuda_buffer_close (all.buffer, all.far, &error), &error);
  g_assert_false (gcuda_buffer_is_closed (all.buffer));

  /* Closing without a stream asks the driver for nothing. */
  g_assert_true (gcuda_buffer_close (all.plain, NULL, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_buffer_close (all.on_per_thread, NULL, &error));
  g_assert_no_error (error);
  gcuda_context_close (all.context, NULL);
  drop_all ();
  assert_forked (gcuda_reclaim (NULL, &error), &error);
}

/* It ended well, and said nothing: its stderr is this process's. */
static void
wait_for (pid_t pid)
{
  int status = 0;

  g_assert_cmpint (waitpid (pid, &status, 0), ==, pid);
  if (WIFSIGNALED (status))
    g_error ("the forked child ended by signal %d", WTERMSIG (status));
  g_assert_true (WIFEXITED (status));
  g_assert_cmpint (WEXITSTATUS (status), ==, 0);
}

static void
assert_parent_works (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = NULL;

  pattern_assert (all.buffer, 0x11, all.stream);
  pattern_assert (all.on_legacy, 0x22, all.legacy);
  pattern_assert (all.on_far, 0x44, all.far);
  buffer = gcuda_memory_resource_allocate (all.synchronous, SIZE, all.stream, &error);
  g_assert_no_error (error);
  pattern_fill (buffer, 0x12, all.stream);
  pattern_assert (buffer, 0x12, all.stream);
  g_clear_object (&buffer);
  drop_all ();
  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_no_error (error);
}

static int
fork_and_use (gboolean held,
              gboolean at_once)
{
  pid_t pid;

  make_all (held);
  pid = fork ();
  g_assert_cmpint (pid, >=, 0);
  if (pid == 0)
    {
      use_forked ();
      if (at_once)
        _exit (0);
      exit (0);
    }
  wait_for (pid);
  if (held && gcuda_test_is_simulated ())
    gcuda_test_let_go ();
  assert_parent_works ();
  return 0;
}

static int
child_fork (void)
{
  return fork_and_use (FALSE, FALSE);
}

static int
child_fork_held (void)
{
  return fork_and_use (TRUE, FALSE);
}

static int
child_fork_exit_at_once (void)
{
  return fork_and_use (FALSE, TRUE);
}

static int
child_fork_keeps (void)
{
  pid_t pid;

  make_all (FALSE);
  pid = fork ();
  g_assert_cmpint (pid, >=, 0);
  if (pid == 0)
    exit (0); /* with all of it alive */
  wait_for (pid);
  assert_parent_works ();
  return 0;
}

static int
child_fork_atexit (void)
{
  pid_t pid;

  atexit (drop_all);
  make_all (FALSE);
  pid = fork ();
  g_assert_cmpint (pid, >=, 0);
  if (pid == 0)
    exit (0);
  wait_for (pid);
  return 0;
}

static int
child_fork_of_fork (void)
{
  pid_t pid, second;

  make_all (FALSE);
  pid = fork ();
  g_assert_cmpint (pid, >=, 0);
  if (pid == 0)
    {
      second = fork ();
      if (second == 0)
        {
          use_forked ();
          exit (0);
        }
      wait_for (second);
      use_forked ();
      exit (0);
    }
  wait_for (pid);
  assert_parent_works ();
  return 0;
}

static gint stop;

/*
 * Takes the locks of this library, and makes and drops no object meanwhile: GObject has locks of its own for that, and a
 * child that finds one of those taken hangs in GObject, whatever this library does.
 */
static gpointer
allocate_until_stopped (gpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = g_bytes_new_take (g_malloc0 (4096), 4096);
  GCudaBuffer *buffer = data;

  while (!g_atomic_int_get (&stop))
    {
      guint64 address = gcuda_memory_resource_allocate_address (all.pool, 4096, 0, all.stream, &error);

      g_assert_no_error (error);
      g_assert_true (gcuda_memory_resource_deallocate_address (all.pool, address, 4096, 0, all.stream, &error));
      g_assert_no_error (error);
      g_assert_true (gcuda_buffer_set_deallocation_stream (buffer, g_atomic_int_get (&rounds) % 3 == 0 ? all.far : all.legacy, &error));
      g_assert_no_error (error);
      g_assert_true (gcuda_buffer_upload (buffer, 0, bytes, all.stream, &error));
      g_assert_no_error (error);
      g_atomic_int_inc (&rounds);
    }
  return NULL;
}

static gpointer
query_once (gpointer data)
{
  g_autoptr (GError) error = NULL;

  gcuda_stream_query (all.stream, &error);
  g_assert_no_error (error);
  return NULL;
}

/* Each of its threads comes to the library for the first time, and ends. */
static gpointer
come_and_go (gpointer data)
{
  while (!g_atomic_int_get (&stop))
    g_thread_join (g_thread_new ("once", query_once, NULL));
  return NULL;
}

/* The other threads are anywhere in the library when the process is copied. */
static int
child_fork_busy (void)
{
  g_autoptr (GError) reason = NULL;
  GThread *threads[3], *more;
  GCudaBuffer *buffers[3];

  make_all (FALSE);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    {
      buffers[i] = gcuda_memory_resource_allocate (all.synchronous, SIZE, all.stream, &reason);
      g_assert_no_error (reason);
    }
  g_assert_true (gcuda_reclaim (NULL, &reason));
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    threads[i] = g_thread_new ("allocates", allocate_until_stopped, buffers[i]);
  more = g_thread_new ("comes and goes", come_and_go, NULL);
  for (guint i = 0; i < 30; i++)
    {
      gint at = g_atomic_int_get (&rounds);
      pid_t pid;

      while (g_atomic_int_get (&rounds) < at + 3)
        g_thread_yield ();
      pid = fork ();
      g_assert_cmpint (pid, >=, 0);
      if (pid == 0)
        {
          g_autoptr (GError) error = NULL;

          alarm (20);
          if (gcuda_reclaim (NULL, &error) || error->code != GCUDA_ERROR_FORKED)
            _exit (4);
          drop_all ();
          exit (0);
        }
      wait_for (pid);
    }
  g_atomic_int_set (&stop, TRUE);
  g_thread_join (more);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    {
      g_thread_join (threads[i]);
      g_object_unref (buffers[i]);
    }
  assert_parent_works ();
  return 0;
}

/* Nothing is forbidden to a child that was forked before this process used CUDA. */
static int
child_fork_before (void)
{
  pid_t pid;

  g_type_ensure (GCUDA_TYPE_BUFFER);
  pid = fork ();
  g_assert_cmpint (pid, >=, 0);
  make_all (FALSE);
  if (pid != 0)
    wait_for (pid);
  assert_parent_works ();
  return 0;
}

/* The device was reset by others */

static void
assert_destroyed (gboolean success,
                  GError **error)
{
  g_assert_false (success);
  g_assert_error (*error, GCUDA_ERROR, GCUDA_ERROR_CONTEXT_IS_DESTROYED);
  g_assert_nonnull (strstr ((*error)->message, "CUDA_ERROR_CONTEXT_IS_DESTROYED"));
  g_clear_error (error);
}

static void
add_one (gpointer data)
{
  (*(int *) data)++;
}

static int
child_reset (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaDevice) device = gcuda_device_new (0, &error);
  g_autoptr (GCudaContext) context = gcuda_device_get_primary_context (device, &error);
  g_autoptr (GCudaStream) stream = gcuda_stream_new (context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  g_autoptr (GCudaStream) legacy = gcuda_stream_new_legacy_default (context, &error);
  g_autoptr (GCudaStream) per_thread = gcuda_stream_new_per_thread_default (context, &error);
  g_autoptr (GCudaEvent) event = gcuda_event_new (context, GCUDA_EVENT_FLAGS_TIMING, &error);
  g_autoptr (GCudaMemoryResource) pool = GCUDA_MEMORY_RESOURCE (gcuda_device_memory_resource_new_pool (device, 0, GCUDA_HANDLE_TYPES_NONE, &error));
  g_autoptr (GCudaMemoryResource) plain = GCUDA_MEMORY_RESOURCE (gcuda_synchronous_memory_resource_new (context, &error));
  g_autoptr (GCudaContext) again = NULL;
  g_autoptr (GCudaStream) fresh_stream = NULL;
  g_autoptr (GCudaBuffer) fresh = NULL;
  g_autoptr (GBytes) bytes = g_bytes_new_static ("1234", 4);
  GCudaStream *streams[] = { stream, legacy, per_thread };
  g_autoptr (GCudaVirtualMemoryResource) virtual_memory = NULL;
  GCudaBuffer *buffers[3], *plain_buffer, *plain_legacy, *view, *grown = NULL;
  guint64 addresses[3], unit = 0, plain_address, loose, id;
  g_auto (GStrv) log = NULL;
  int count = 0;

  g_assert_no_error (error);
  for (guint i = 0; i < 3; i++)
    {
      buffers[i] = gcuda_memory_resource_allocate (pool, SIZE, streams[i], &error);
      g_assert_no_error (error);
      addresses[i] = gcuda_buffer_get_address (buffers[i]);
      pattern_fill (buffers[i], 0x11, streams[i]);
    }
  view = gcuda_buffer_new_view (buffers[0], 0, 16, &error);
  plain_buffer = gcuda_memory_resource_allocate (plain, SIZE, stream, &error);
  g_assert_no_error (error);
  plain_legacy = gcuda_memory_resource_allocate (plain, SIZE, legacy, &error);
  g_assert_no_error (error);
  plain_address = gcuda_buffer_get_address (plain_buffer);
  loose = gcuda_memory_resource_allocate_address (pool, SIZE, 0, stream, &error);
  g_assert_no_error (error);
  if (gcuda_test_is_simulated ())
    {
      virtual_memory = gcuda_virtual_memory_resource_new (device, NULL, &error);
      g_assert_no_error (error);
      unit = gcuda_virtual_memory_resource_get_granularity (virtual_memory);
      grown = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (virtual_memory), unit, stream, &error);
      g_assert_no_error (error);
    }
  g_assert_true (gcuda_event_record (event, stream, &error));
  g_assert_true (gcuda_device_synchronize (device, &error));
  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_no_error (error);
  id = gcuda_context_get_id (context);

  assert_cuda (RAW (cuDevicePrimaryCtxReset) (0));
  gcuda_test_log_start ();

  for (guint i = 0; i < 3; i++)
    {
      assert_destroyed (gcuda_buffer_fill (buffers[i], 1, 1, streams[i], &error), &error);
      assert_destroyed (gcuda_buffer_fill_2d (buffers[i], 0, 256, 16, 2, 1, 1, streams[i], &error), &error);
      assert_destroyed (gcuda_buffer_copy_to (buffers[i], buffers[(i + 1) % 3], streams[i], &error), &error);
      assert_destroyed (gcuda_buffer_copy_2d (buffers[i], 0, 16, buffers[(i + 1) % 3], 0, 16, 8, 2, streams[i], &error), &error);
      assert_destroyed (gcuda_buffer_upload (buffers[i], 0, bytes, streams[i], &error), &error);
      assert_destroyed (gcuda_buffer_download (buffers[i], 0, SIZE, streams[i], &error) != NULL, &error);
      assert_destroyed (gcuda_stream_query (streams[i], &error), &error);
      assert_destroyed (gcuda_stream_synchronize (streams[i], &error), &error);
      assert_destroyed (gcuda_stream_is_capturing (streams[i], &error), &error);
      assert_destroyed (gcuda_stream_wait_event (streams[i], event, &error), &error);
      assert_destroyed (gcuda_stream_wait_stream (streams[i], streams[(i + 1) % 3], &error), &error);
      assert_destroyed (gcuda_stream_launch_host_function (streams[i], add_one, &count, NULL, &error), &error);
      assert_destroyed (gcuda_event_record (event, streams[i], &error), &error);
      assert_destroyed (gcuda_memory_resource_allocate (pool, SIZE, streams[i], &error) != NULL, &error);
      assert_destroyed (gcuda_memory_resource_allocate (plain, SIZE, streams[i], &error) != NULL, &error);
      /* For speed the plain pair does not ask after the context: there the driver crashes. */
      assert_destroyed (gcuda_memory_resource_allocate_address_checked (pool, SIZE, 0, streams[i], &error) != 0, &error);
      assert_destroyed (gcuda_memory_resource_deallocate_address_checked (pool, loose, SIZE, 0, streams[i], &error), &error);
      assert_destroyed (gcuda_memory_resource_adopt_address (pool, loose, SIZE, streams[i], &error) != NULL, &error);
      assert_destroyed (gcuda_buffer_new_for_address (device, loose, SIZE, NULL, streams[i], &error) != NULL, &error);
    }
  assert_destroyed (gcuda_event_query (event, &error), &error);
  assert_destroyed (gcuda_event_synchronize (event, &error), &error);
  gcuda_event_elapsed_time (event, event, &error);
  assert_destroyed (FALSE, &error);
  assert_destroyed (gcuda_context_synchronize (context, &error), &error);
  assert_destroyed (gcuda_stream_new (context, GCUDA_STREAM_FLAGS_NONE, 0, &error) != NULL, &error);
  assert_destroyed (gcuda_stream_new_legacy_default (context, &error) != NULL, &error);
  assert_destroyed (gcuda_event_new (context, GCUDA_EVENT_FLAGS_NONE, &error) != NULL, &error);
  assert_destroyed (gcuda_synchronous_memory_resource_new (context, &error) != NULL, &error);
  g_assert_cmpint (count, ==, 0);

  /* A new context, and it works, with the objects of old still there. */
  again = gcuda_device_get_primary_context (device, &error);
  g_assert_no_error (error);
  g_assert_true (again != context);
  g_assert_cmpuint (gcuda_context_get_id (again), !=, id);
  fresh_stream = gcuda_stream_new (again, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  g_assert_no_error (error);
  fresh = gcuda_memory_resource_allocate (pool, SIZE, fresh_stream, &error);
  g_assert_no_error (error);
  pattern_fill (fresh, 0x21, fresh_stream);
  pattern_assert (fresh, 0x21, fresh_stream);

  if (gcuda_test_is_simulated ())
    {
      GcudasimBalance balance;

      /* Virtual memory belongs to no context: on a stream of the new one it can be resized, and its recipe's is as if passed. */
      assert_destroyed (gcuda_virtual_memory_resource_resize (virtual_memory, grown, 2 * unit, GCUDA_RESIZE_FLAGS_MAY_MOVE, stream, &error), &error);
      g_assert_true (gcuda_virtual_memory_resource_resize (virtual_memory, grown, 2 * unit, GCUDA_RESIZE_FLAGS_MAY_MOVE, fresh_stream, &error));
      g_assert_no_error (error);
      g_assert_finalize_object (grown);
      g_assert_true (gcuda_reclaim (NULL, &error));
      SIMULATOR (gcudasim_balance)
      (&balance);
      g_assert_cmpuint (balance.mappings, ==, 0);
      g_assert_cmpuint (balance.memory_handles, ==, 0);
      g_assert_cmpuint (balance.reservations, ==, 0);
      g_strfreev (gcuda_test_log_take ());
      gcuda_test_log_start ();
    }
  for (guint i = 0; i < 3; i++)
    g_assert_finalize_object (buffers[i]);
  g_assert_true (gcuda_buffer_close (view, NULL, &error));
  g_assert_finalize_object (view);
  g_assert_finalize_object (plain_buffer);
  g_assert_finalize_object (plain_legacy);
  g_assert_true (gcuda_event_close (event, &error));
  g_clear_object (&event);
  g_clear_object (&stream);
  g_clear_object (&legacy);
  g_clear_object (&per_thread);
  g_clear_object (&plain);
  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_no_error (error);
  if (gcuda_test_is_simulated ())
    {
      static const char *const none[] = {
        "cuMemFreeAsync",
        "cuStreamDestroy",
        "cuEventDestroy",
        "cuEventRecord",
        "cuEventQuery",
        "cuStreamQuery",
        "cuStreamSynchronize",
        "cuStreamIsCapturing",
        "cuCtxPushCurrent",
        "cuCtxSynchronize",
      };
      g_autofree char *plain_text = g_strdup_printf ("0x%" G_GINT64_MODIFIER "x", plain_address);

      log = gcuda_test_log_take ();
      for (guint i = 0; i < G_N_ELEMENTS (none); i++)
        g_assert_cmpuint (gcuda_test_log_count (log, none[i], NULL), ==, 0);
      for (guint i = 0; i < 3; i++)
        {
          g_autofree char *text = g_strdup_printf ("0x%" G_GINT64_MODIFIER "x", addresses[i]);

          g_assert_cmpuint (gcuda_test_log_count (log, "cuMemFree", text, "= SUCCESS", NULL), ==, 1);
        }
      g_assert_cmpuint (gcuda_test_log_count (log, "cuMemFree", plain_text, NULL), ==, 0);
    }
  /* What the caller kept by its address is the caller's still. */
  g_assert_true (gcuda_memory_resource_deallocate_address (pool, loose, SIZE, 0, fresh_stream, &error));
  g_assert_no_error (error);
  g_clear_object (&fresh);
  g_clear_object (&pool);
  g_assert_true (gcuda_device_synchronize (device, &error));
  g_assert_no_error (error);
  return 0;
}

/* In the middle of a capture. */

static struct
{
  GCudaGraphBuilder *builder, *forked;
  GCudaMemoryResource *memory;
  GCudaBuffer *buffer, *in_graph;
} captured;

static void
make_capture (void)
{
  g_autoptr (GError) error = NULL;
  GCudaStream *stream;

  all.device = gcuda_device_new (0, &error);
  all.stream = gcuda_stream_new_for_device (all.device, &error);
  g_assert_no_error (error);
  all.pool = GCUDA_MEMORY_RESOURCE (gcuda_device_memory_resource_new (all.device, &error));
  captured.buffer = gcuda_memory_resource_allocate (all.pool, SIZE, all.stream, &error);
  g_assert_no_error (error);
  captured.memory = GCUDA_MEMORY_RESOURCE (gcuda_graph_memory_resource_new (all.device, &error));
  captured.builder = gcuda_graph_builder_new (gcuda_stream_get_context (all.stream), GCUDA_CAPTURE_MODE_GLOBAL, &error);
  g_assert_no_error (error);
  stream = GCUDA_STREAM (captured.builder);
  pattern_fill (captured.buffer, 1, stream);
  captured.in_graph = gcuda_memory_resource_allocate (captured.memory, SIZE, stream, &error);
  g_assert_no_error (error);
  pattern_fill (captured.in_graph, 1, stream);
  g_assert_true (gcuda_stream_launch_host_function (stream, host_function, NULL, NULL, &error));
  g_assert_no_error (error);
  captured.forked = gcuda_graph_builder_fork (captured.builder, &error);
  g_assert_no_error (error);
}

static void
drop_capture (void)
{
  g_clear_object (&captured.in_graph);
  g_clear_object (&captured.builder);
  g_clear_object (&captured.forked);
  g_clear_object (&captured.buffer);
  g_clear_object (&captured.memory);
}

static int
child_capture_return (void)
{
  make_capture ();
  return 0;
}

static int
child_capture_atexit (void)
{
  make_capture ();
  atexit (drop_capture);
  return 0;
}

static int
child_capture_fork (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaGraphDefinition) definition = NULL;
  pid_t pid;

  make_capture ();
  pid = fork ();
  g_assert_cmpint (pid, >=, 0);
  if (pid == 0)
    {
      alarm (20);
      assert_forked (gcuda_graph_builder_finish (captured.builder, &error) != NULL, &error);
      assert_forked (gcuda_graph_builder_fork (captured.builder, &error) != NULL, &error);
      assert_forked (gcuda_buffer_fill (captured.buffer, 2, 1, GCUDA_STREAM (captured.builder), &error), &error);
      drop_capture ();
      exit (0);
    }
  wait_for (pid);
  g_assert_true (gcuda_graph_builder_join (captured.builder, captured.forked, &error));
  g_assert_no_error (error);
  definition = gcuda_graph_builder_finish (captured.builder, &error);
  g_assert_no_error (error);
  drop_capture ();
  return 0;
}

/* Reset, and then just the end. */
static int
child_reset_return (void)
{
  g_autoptr (GError) error = NULL;

  make_all (FALSE);
  g_assert_true (gcuda_device_synchronize (all.device, &error));
  g_assert_true (gcuda_context_synchronize (all.private_context, &error));
  g_assert_no_error (error);
  /* Whoever resets a device has to know that nothing uses it at that moment, the background included: the driver crashes. */
  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_no_error (error);
  assert_cuda (RAW (cuDevicePrimaryCtxReset) (0));
  atexit (drop_all);
  return 0;
}

static const struct
{
  const char *name;
  int (*run) (void);
  gboolean allocates_at_the_end; /* a program that goes on calling makes these calls itself */
} children[] = {
  { "end/return", child_return, FALSE },
  { "end/return-held", child_return_held, FALSE },
  { "end/exit", child_exit, FALSE },
  { "capture/return", child_capture_return, FALSE },
  { "capture/atexit", child_capture_atexit, FALSE },
  { "capture/fork", child_capture_fork, FALSE },
  { "end/exit-at-once", child_exit_at_once, FALSE },
  { "end/atexit-before", child_atexit_before, FALSE },
  { "end/atexit-before-held", child_atexit_before_held, FALSE },
  { "end/atexit-after", child_atexit_after, FALSE },
  { "end/atexit-after-held", child_atexit_after_held, FALSE },
  { "end/reclaim-late", child_reclaim_late, FALSE },
  { "end/use-late", child_use_late, TRUE },
  { "end/thread-drops-early", child_thread_drops_early, FALSE },
  { "end/thread-drops-late", child_thread_drops_late, FALSE },
  { "end/thread-dropping", child_thread_dropping, FALSE },
  { "end/thread-allocating", child_thread_allocating, TRUE },
  { "end/unused", child_unused, FALSE },
  { "fork/use", child_fork, FALSE },
  { "fork/use-held", child_fork_held, FALSE },
  { "fork/use-exit-at-once", child_fork_exit_at_once, FALSE },
  { "fork/keeps", child_fork_keeps, FALSE },
  { "fork/atexit", child_fork_atexit, FALSE },
  { "fork/of-fork", child_fork_of_fork, FALSE },
  { "fork/busy", child_fork_busy, FALSE },
  { "fork/before", child_fork_before, FALSE },
  { "reset/calls", child_reset, FALSE },
  { "reset/return", child_reset_return, FALSE },
};

static const char *program;

/* Calls that a program makes itself, and that nothing keeps from reaching the driver. All others are the library's. */
static gboolean
is_own_call (const char *line)
{
  static const char *const own[] = {
    " cuMemAllocFromPoolAsync(",
    " cuMemAlloc(",
    " cuMemsetD8Async(",
    " cuStreamIsCapturing(",
    " cuCtxGetId(",
    " cuCtxGetCurrent(",
    " cuCtxPushCurrent(",
    " cuCtxPopCurrent(",
    " cuEventCreate(",
    " cuGetErrorName(",
    " cuGetErrorString(",
  };

  for (guint i = 0; i < G_N_ELEMENTS (own); i++)
    if (strstr (line, own[i]) != NULL)
      return TRUE;
  /* An allocation that is undone: the context it was made in is current then. It never is where memory is released. */
  return strstr (line, " cuMemFree(") != NULL && strstr (line, " ctx=none") == NULL;
}

static void
test_child (gconstpointer data)
{
  gsize index = GPOINTER_TO_SIZE (data);
  g_autoptr (GError) error = NULL;
  g_autoptr (GSubprocessLauncher) launcher = g_subprocess_launcher_new (G_SUBPROCESS_FLAGS_STDOUT_PIPE | G_SUBPROCESS_FLAGS_STDERR_PIPE);
  g_autoptr (GSubprocess) process = NULL;
  g_autofree char *folder = g_dir_make_tmp ("gcuda-XXXXXX", &error);
  g_autofree char *log_path = g_build_filename (folder, "log", NULL);
  g_autofree char *sanitizer = NULL;
  g_autofree char *out = NULL;
  g_autofree char *err = NULL;
  g_autofree char *log = NULL;
  gboolean simulated = gcuda_test_is_simulated ();
  guint forks = 0, exits = 0;

  g_assert_no_error (error);
  g_subprocess_launcher_setenv (launcher, "GCUDASIM_LOG", log_path, TRUE);
  g_subprocess_launcher_unsetenv (launcher, "G_MESSAGES_DEBUG");
  /* What is released while the process exits, or in a forked child, is left to the system on purpose. */
  sanitizer = g_strjoin (":", g_getenv ("ASAN_OPTIONS") != NULL ? g_getenv ("ASAN_OPTIONS") : "detect_leaks=0", "detect_leaks=0", NULL);
  g_subprocess_launcher_setenv (launcher, "ASAN_OPTIONS", sanitizer, TRUE);
  process = g_subprocess_launcher_spawn (launcher, &error, program, "--child", children[index].name, NULL);
  g_assert_no_error (error);
  g_assert_true (g_subprocess_communicate_utf8 (process, NULL, NULL, &out, &err, &error));
  g_assert_no_error (error);
  if (*err != '\0')
    g_test_message ("%s", err);
  if (!g_subprocess_get_if_exited (process))
    g_test_message ("ended by signal %d", g_subprocess_get_term_sig (process));
  g_assert_true (g_subprocess_get_if_exited (process));
  g_assert_cmpint (g_subprocess_get_exit_status (process), ==, 0);
  g_assert_cmpstr (err, ==, "");
  g_assert_cmpstr (out, ==, "");

  if (simulated && g_file_get_contents (log_path, &log, NULL, NULL))
    {
      g_auto (GStrv) lines = g_strsplit (log, "\n", -1);

      for (guint i = 0; lines[i] != NULL; i++)
        {
          gboolean forked = g_str_has_suffix (lines[i], " !forked");
          gboolean exited = g_str_has_suffix (lines[i], " !exited") && !(children[index].allocates_at_the_end && is_own_call (lines[i]));

          if ((forked && forks < 10) || (exited && exits < 10))
            g_test_message ("%s", lines[i]);
          forks += forked;
          exits += exited;
        }
    }
  g_assert_cmpuint (forks, ==, 0);
  g_assert_cmpuint (exits, ==, 0);
  g_remove (log_path);
  g_rmdir (folder);
}

int
main (int argc,
      char **argv)
{
  if (argc == 3 && g_str_equal (argv[1], "--child"))
    {
      /* Whatever hangs is an error, and not the end of the whole suite. */
      alarm (60);
      for (gsize i = 0; i < G_N_ELEMENTS (children); i++)
        if (g_str_equal (argv[2], children[i].name))
          {
            forking = g_str_has_prefix (argv[2], "fork/");
            return children[i].run ();
          }
      return 2;
    }
  program = argv[0];
  gcuda_test_init (&argc, &argv);
  for (gsize i = 0; i < G_N_ELEMENTS (children); i++)
    {
      g_autofree char *path = g_strdup_printf ("/exit/%s", children[i].name);

      g_test_add_data_func (path, GSIZE_TO_POINTER (i), test_child);
    }
  return g_test_run ();
}
