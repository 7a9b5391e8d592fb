/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A call that fails changed nothing. Each operation is run once with the calls that it makes counted; then each of these
 * calls is made to fail in turn. The operation has to say so, leave everything as it was, and work when it is repeated.
 * On a real driver, where no call can be made to fail, each operation is run once.
 */
#include "gcuda-test.h"

#include <dlfcn.h>
#include <string.h>

#include "gcudamem/simulator/gcudasim.h"

#define SIZE 4096

#define SIMULATOR(name) ((__typeof__ (&name)) gcuda_test_simulator_function (#name))

/* What an operation works on. Made anew for each run. */
typedef struct
{
  Bed *bed;
  GCudaStream *stream; /* what the operation uses: a created one, or a default one */
  GCudaStream *other;
  GCudaSynchronousMemoryResource *synchronous;
  GCudaBuffer *a, *b;    /* of the pool */
  GCudaBuffer *c;        /* of plain memory */
  GCudaContext *context; /* a private one */
  GCudaStream *far;      /* in it */
  GCudaEvent *early, *late;
  GBytes *bytes;
  guint64 address;
  CUstream raw_stream;
  CUcontext raw_context;
  GCudaDevice *peer;
  GCudaVirtualMemoryResource *virtual_memory;
  GCudaBuffer *grown; /* of it; three of its units */

  GCudaMemoryResource *host_resource; /* pinned or managed memory */
  GCudaBuffer *d;                     /* of it */
  gpointer host_memory;

  GCudaGraphBuilder *builder;
  GCudaGraphBuilder *forked;
  GCudaGraphDefinition *definition;
  GCudaGraphNode *fill;
  GCudaGraphNode *copy;
  GCudaGraph *graph;
  GCudaGraphMemoryResource *graph_memory;
  GCudaBuffer *in_graph; /* memory of the definition */
  gboolean graphs;       /* there were any */

  gpointer made; /* what the operation returned */
} Scene;

typedef enum
{
  FLAG_NONE = 0,
  FLAG_ALL_STREAMS = 1 << 0, /* run it on each kind of stream */
  FLAG_RECIPE = 1 << 1,      /* then look at where the memory is freed */
  FLAG_CAPTURING = 1 << 2,   /* the stream is being captured */
  FLAG_PEER = 1 << 3,        /* needs a second device */
  FLAG_NO_SCENE = 1 << 4,    /* no stream, no memory: the primary context is closed at first */
} Flags;

typedef struct
{
  const char *name;
  Flags flags;
  gboolean (*run) (Scene *scene,
                   GError **error);
  void (*set_up) (Scene *scene);
  void (*tear_down) (Scene *scene);
  /* Calls from the first of this function on release something: nobody gets their error. See the teardown tests. */
  const char *until;
  /* Calls whose failure does not make the operation fail. The reason is part of the list: without one it is a fault. */
  struct
  {
    const char *function;
    const char *reason;
    guint from; /* only calls from the n-th on */
  } harmless[3];
  /* A function whose failure comes too late to undo what was done before, and why. */
  struct
  {
    const char *function;
    const char *reason;
  } partial;
} Operation;

/* The operations */

#define MADE(scene, call) (((scene)->made = (call)) != NULL)

static gboolean
run_get_primary_context (Scene *scene,
                         GError **error)
{
  return MADE (scene, gcuda_device_get_primary_context (scene->bed->device, error));
}

static gboolean
run_memory_info (Scene *scene,
                 GError **error)
{
  GCudaMemoryInfo *info = gcuda_device_get_memory_info (scene->bed->device, error);

  if (info == NULL)
    return FALSE;
  gcuda_memory_info_unref (info);
  return TRUE;
}

static gboolean
run_get_attribute (Scene *scene,
                   GError **error)
{
  GError *local = NULL;

  gcuda_device_get_attribute (scene->bed->device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &local);
  if (local == NULL)
    return TRUE;
  g_propagate_error (error, local);
  return FALSE;
}

static gboolean
run_is_available (Scene *scene,
                  GError **error)
{
  return gcuda_is_available (error);
}

static gboolean
run_get_devices (Scene *scene,
                 GError **error)
{
  return MADE (scene, gcuda_get_devices (error));
}

static gboolean
run_device_new (Scene *scene,
                GError **error)
{
  return MADE (scene, gcuda_device_new (0, error));
}

static gboolean
run_device_synchronize (Scene *scene,
                        GError **error)
{
  return gcuda_device_synchronize (scene->bed->device, error);
}

/* The answer of a predicate, where no means no and not a failure. */
static gboolean
predicate (gboolean answer,
           gboolean want,
           GError *local,
           GError **error)
{
  if (local != NULL)
    {
      g_assert_false (answer);
      g_propagate_error (error, local);
      return FALSE;
    }
  g_assert_cmpint (answer, ==, want);
  return TRUE;
}

static gboolean
run_can_access_peer (Scene *scene,
                     GError **error)
{
  GError *local = NULL;
  gboolean answer = gcuda_device_can_access_peer (scene->bed->device, scene->peer, &local);

  return predicate (answer, answer, local, error);
}

static gboolean
run_context_new (Scene *scene,
                 GError **error)
{
  return MADE (scene, gcuda_context_new (scene->bed->device, GCUDA_CONTEXT_FLAGS_NONE, error));
}

static void
set_up_raw_context (Scene *scene)
{
  scene->raw_context = gcuda_context_get_cuda_context (scene->context);
}

static gboolean
run_context_new_for_handle (Scene *scene,
                            GError **error)
{
  return MADE (scene, gcuda_context_new_for_handle ((guint64) (guintptr) scene->raw_context, NULL, error));
}

static gboolean
run_context_synchronize (Scene *scene,
                         GError **error)
{
  return gcuda_context_synchronize (scene->context, error);
}

static gboolean
run_stream_new (Scene *scene,
                GError **error)
{
  return MADE (scene, gcuda_stream_new (scene->bed->context, GCUDA_STREAM_FLAGS_NONE, 0, error));
}

static gboolean
run_stream_new_for_device (Scene *scene,
                           GError **error)
{
  return MADE (scene, gcuda_stream_new_for_device (scene->bed->device, error));
}

static gboolean
run_stream_new_legacy (Scene *scene,
                       GError **error)
{
  return MADE (scene, gcuda_stream_new_legacy_default (scene->bed->context, error));
}

static gboolean
run_stream_new_per_thread (Scene *scene,
                           GError **error)
{
  return MADE (scene, gcuda_stream_new_per_thread_default (scene->bed->context, error));
}

static void
set_up_raw_stream (Scene *scene)
{
  CUcontext popped;

  assert_cuda (RAW (cuCtxPushCurrent) (gcuda_context_get_cuda_context (scene->bed->context)));
  assert_cuda (RAW (cuStreamCreate) (&scene->raw_stream, CU_STREAM_NON_BLOCKING));
  assert_cuda (RAW (cuCtxPopCurrent) (&popped));
}

static void
tear_down_raw_stream (Scene *scene)
{
  assert_cuda (RAW (cuStreamDestroy) (scene->raw_stream));
}

static gboolean
run_stream_new_for_handle (Scene *scene,
                           GError **error)
{
  return MADE (scene, gcuda_stream_new_for_handle (scene->bed->context, (guint64) (guintptr) scene->raw_stream, NULL, error));
}

static gboolean
run_stream_query (Scene *scene,
                  GError **error)
{
  GError *local = NULL;
  gboolean answer = gcuda_stream_query (scene->stream, &local);

  return predicate (answer, TRUE, local, error);
}

static gboolean
run_stream_is_capturing (Scene *scene,
                         GError **error)
{
  GError *local = NULL;
  gboolean answer = gcuda_stream_is_capturing (scene->stream, &local);

  return predicate (answer, FALSE, local, error);
}

static gboolean
run_stream_synchronize (Scene *scene,
                        GError **error)
{
  return gcuda_stream_synchronize (scene->stream, error);
}

static gboolean
run_stream_wait_event (Scene *scene,
                       GError **error)
{
  return gcuda_stream_wait_event (scene->stream, scene->late, error);
}

static gboolean
run_stream_wait_stream (Scene *scene,
                        GError **error)
{
  return gcuda_stream_wait_stream (scene->stream, scene->other, error);
}

static gboolean
run_stream_is_waited_for (Scene *scene,
                          GError **error)
{
  return gcuda_stream_wait_stream (scene->other, scene->stream, error);
}

static void
add_one (gpointer data)
{
  (*(int *) data)++;
}

static void
add_hundred (gpointer data)
{
  *(int *) data += 100;
}

static gboolean
run_stream_launch_host_function (Scene *scene,
                                 GError **error)
{
  int count = 0;
  gboolean success = gcuda_stream_launch_host_function (scene->stream, add_one, &count, add_hundred, error);

  while (count < (success ? 101 : 100))
    if (!g_main_context_iteration (NULL, FALSE))
      g_usleep (100);
  /* The function of one that could not be launched is not called; the data is let go in any case. */
  while (g_main_context_iteration (NULL, FALSE))
    ;
  g_assert_cmpint (count, ==, success ? 101 : 100);
  return success;
}

static gboolean
run_event_new (Scene *scene,
               GError **error)
{
  return MADE (scene, gcuda_event_new (scene->bed->context, GCUDA_EVENT_FLAGS_NONE, error));
}

static gboolean
run_event_new_for_device (Scene *scene,
                          GError **error)
{
  return MADE (scene, gcuda_event_new_for_device (scene->bed->device, GCUDA_EVENT_FLAGS_NONE, error));
}

static gboolean
run_event_record (Scene *scene,
                  GError **error)
{
  return gcuda_event_record (scene->late, scene->stream, error);
}

static gboolean
run_event_query (Scene *scene,
                 GError **error)
{
  GError *local = NULL;
  gboolean answer = gcuda_event_query (scene->late, &local);

  return predicate (answer, TRUE, local, error);
}

static gboolean
run_event_synchronize (Scene *scene,
                       GError **error)
{
  return gcuda_event_synchronize (scene->late, error);
}

static gboolean
run_event_elapsed_time (Scene *scene,
                        GError **error)
{
  GError *local = NULL;
  double time = gcuda_event_elapsed_time (scene->early, scene->late, &local);

  if (local == NULL)
    return TRUE;
  g_assert_cmpfloat (time, ==, 0);
  g_propagate_error (error, local);
  return FALSE;
}

static gboolean
run_pool_new (Scene *scene,
              GError **error)
{
  return MADE (scene, gcuda_device_memory_resource_new (scene->bed->device, error));
}

static gboolean
run_pool_new_pool (Scene *scene,
                   GError **error)
{
  return MADE (scene, gcuda_device_memory_resource_new_pool (scene->bed->device, 0, GCUDA_HANDLE_TYPES_NONE, error));
}

static gboolean
run_pool_new_pool_shared (Scene *scene,
                          GError **error)
{
  return MADE (scene, gcuda_device_memory_resource_new_pool (scene->bed->device, 0, GCUDA_HANDLE_TYPES_POSIX_FD, error));
}

static gboolean
run_set_release_threshold (Scene *scene,
                           GError **error)
{
  return gcuda_device_memory_resource_set_release_threshold (scene->bed->pool, 4096, error);
}

static void
tear_down_release_threshold (Scene *scene)
{
  g_assert_true (gcuda_device_memory_resource_set_release_threshold (scene->bed->pool, 0, NULL));
}

static gboolean
run_set_reuse (Scene *scene,
               GError **error)
{
  return gcuda_device_memory_resource_set_reuse (scene->bed->pool, GCUDA_POOL_REUSE_NONE, error);
}

static void
tear_down_reuse (Scene *scene)
{
  g_assert_true (gcuda_device_memory_resource_set_reuse (scene->bed->pool,
                                                         GCUDA_POOL_REUSE_FOLLOW_EVENTS | GCUDA_POOL_REUSE_OPPORTUNISTIC | GCUDA_POOL_REUSE_INTERNAL_DEPENDENCIES, NULL));
}

static gboolean
run_trim (Scene *scene,
          GError **error)
{
  return gcuda_device_memory_resource_trim (scene->bed->pool, 0, error);
}

static gboolean
run_get_statistics (Scene *scene,
                    GError **error)
{
  GCudaPoolStatistics *statistics = gcuda_device_memory_resource_get_statistics (scene->bed->pool, error);

  if (statistics == NULL)
    return FALSE;
  gcuda_pool_statistics_unref (statistics);
  return TRUE;
}

static gboolean
run_reset_high_marks (Scene *scene,
                      GError **error)
{
  return gcuda_device_memory_resource_reset_high_marks (scene->bed->pool, error);
}

static gboolean
run_has_peer_access (Scene *scene,
                     GError **error)
{
  GError *local = NULL;
  gboolean answer = gcuda_device_memory_resource_has_peer_access (scene->bed->pool, scene->bed->device, &local);

  return predicate (answer, TRUE, local, error);
}

static gboolean
run_set_peer_access (Scene *scene,
                     GError **error)
{
  return gcuda_device_memory_resource_set_peer_access (scene->bed->pool, scene->peer, TRUE, error);
}

static void
tear_down_peer_access (Scene *scene)
{
  g_assert_true (gcuda_device_memory_resource_set_peer_access (scene->bed->pool, scene->peer, FALSE, NULL));
}

static gboolean
run_allocate (Scene *scene,
              GError **error)
{
  return MADE (scene, gcuda_memory_resource_allocate (scene->bed->resource, SIZE, scene->stream, error));
}

static gboolean
run_allocate_synchronous (Scene *scene,
                          GError **error)
{
  return MADE (scene, gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (scene->synchronous), SIZE, scene->stream, error));
}

/* Its context has no event in stock. */
static gboolean
run_allocate_synchronous_far (Scene *scene,
                              GError **error)
{
  return MADE (scene, gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (scene->synchronous), SIZE, scene->far, error));
}

static void
set_up_address (Scene *scene)
{
  scene->address = gcuda_memory_resource_allocate_address (scene->bed->resource, SIZE, 0, scene->bed->stream, NULL);
  g_assert_cmpuint (scene->address, !=, 0);
  /* It may be freed on another stream. */
  g_assert_true (gcuda_stream_synchronize (scene->bed->stream, NULL));
}

static void
tear_down_address (Scene *scene)
{
  /* It may have been allocated on another stream than the one that frees it. */
  if (scene->address != 0 && scene->stream != NULL)
    g_assert_true (gcuda_stream_wait_stream (scene->bed->stream, scene->stream, NULL));
  if (scene->address != 0)
    g_assert_true (gcuda_memory_resource_deallocate_address (scene->bed->resource, scene->address, SIZE, 0, scene->bed->stream, NULL));
  scene->address = 0;
}

static void
set_up_address_synchronous (Scene *scene)
{
  scene->address = gcuda_memory_resource_allocate_address (GCUDA_MEMORY_RESOURCE (scene->synchronous), SIZE, 0, scene->bed->stream, NULL);
  g_assert_cmpuint (scene->address, !=, 0);
}

static void
tear_down_address_synchronous (Scene *scene)
{
  if (scene->address != 0)
    g_assert_true (gcuda_memory_resource_deallocate_address (GCUDA_MEMORY_RESOURCE (scene->synchronous), scene->address, SIZE, 0, scene->bed->stream, NULL));
  scene->address = 0;
}

/* The caller's, unless it succeeded. */
static gboolean
run_adopt_address (Scene *scene,
                   GError **error)
{
  if (!MADE (scene, gcuda_memory_resource_adopt_address (scene->bed->resource, scene->address, SIZE, scene->stream, error)))
    return FALSE;
  scene->address = 0;
  return TRUE;
}

static gboolean
run_adopt_address_synchronous (Scene *scene,
                               GError **error)
{
  if (!MADE (scene, gcuda_memory_resource_adopt_address (GCUDA_MEMORY_RESOURCE (scene->synchronous), scene->address, SIZE, scene->far, error)))
    return FALSE;
  scene->address = 0;
  return TRUE;
}

static gboolean
run_allocate_address (Scene *scene,
                      GError **error)
{
  scene->address = gcuda_memory_resource_allocate_address (scene->bed->resource, SIZE, 0, scene->stream, error);
  return scene->address != 0;
}

static gboolean
run_allocate_address_synchronous (Scene *scene,
                                  GError **error)
{
  scene->address = gcuda_memory_resource_allocate_address (GCUDA_MEMORY_RESOURCE (scene->synchronous), SIZE, 0, scene->stream, error);
  return scene->address != 0;
}

static gboolean
run_deallocate_address (Scene *scene,
                        GError **error)
{
  if (!gcuda_memory_resource_deallocate_address (scene->bed->resource, scene->address, SIZE, 0, scene->stream, error))
    return FALSE;
  scene->address = 0;
  return TRUE;
}

static gboolean
run_deallocate_address_synchronous (Scene *scene,
                                    GError **error)
{
  if (!gcuda_memory_resource_deallocate_address (GCUDA_MEMORY_RESOURCE (scene->synchronous), scene->address, SIZE, 0, scene->stream, error))
    return FALSE;
  scene->address = 0;
  return TRUE;
}

static gboolean
run_new_for_address (Scene *scene,
                     GError **error)
{
  GObject *owner = g_object_new (G_TYPE_OBJECT, NULL);
  gboolean success = MADE (scene, gcuda_buffer_new_for_address (scene->bed->device, gcuda_buffer_get_address (scene->a), SIZE, owner, scene->far, error));

  if (success)
    g_object_unref (owner);
  else
    g_assert_finalize_object (owner);
  return success;
}

static gboolean
run_fill (Scene *scene,
          GError **error)
{
  return gcuda_buffer_fill (scene->a, 0x44, 1, scene->stream, error);
}

static gboolean
run_fill_2 (Scene *scene,
            GError **error)
{
  return gcuda_buffer_fill (scene->a, 0x4444, 2, scene->stream, error);
}

static gboolean
run_fill_4 (Scene *scene,
            GError **error)
{
  return gcuda_buffer_fill (scene->a, 0x44444444, 4, scene->stream, error);
}

static gboolean
run_fill_2d (Scene *scene,
             GError **error)
{
  return gcuda_buffer_fill_2d (scene->a, 0, 256, 16, 4, 0x44, 1, scene->stream, error);
}

static gboolean
run_fill_2d_4 (Scene *scene,
               GError **error)
{
  return gcuda_buffer_fill_2d (scene->a, 0, 256, 16, 4, 0x44444444, 4, scene->stream, error);
}

static gboolean
run_copy (Scene *scene,
          GError **error)
{
  return gcuda_buffer_copy_to (scene->a, scene->b, scene->stream, error);
}

static gboolean
run_copy_2d (Scene *scene,
             GError **error)
{
  return gcuda_buffer_copy_2d (scene->a, 0, 256, scene->b, 0, 128, 64, 4, scene->stream, error);
}

static gboolean
run_copy_batch (Scene *scene,
                GError **error)
{
  GCudaBuffer *sources[] = { scene->a, scene->a };
  GCudaBuffer *destinations[] = { scene->b, scene->c };

  return gcuda_buffer_copy_batch (sources, 2, destinations, 2, scene->stream, error);
}

static gboolean
run_upload (Scene *scene,
            GError **error)
{
  return gcuda_buffer_upload (scene->a, 0, scene->bytes, scene->stream, error);
}

/* In a context with no event in stock. */
static gboolean
run_upload_far (Scene *scene,
                GError **error)
{
  return gcuda_buffer_upload (scene->a, 0, scene->bytes, scene->far, error);
}

static void
set_up_capture (Scene *scene)
{
  assert_cuda (RAW (cuStreamBeginCapture) (gcuda_stream_get_cuda_stream (scene->stream), CU_STREAM_CAPTURE_MODE_RELAXED));
}

static void
tear_down_capture (Scene *scene)
{
  CUgraph graph = NULL;

  assert_cuda (RAW (cuStreamEndCapture) (gcuda_stream_get_cuda_stream (scene->stream), &graph));
  assert_cuda (RAW (cuGraphDestroy) (graph));
  scene->graphs = TRUE;
}

static gboolean
run_download (Scene *scene,
              GError **error)
{
  GBytes *bytes = gcuda_buffer_download (scene->a, 0, SIZE, scene->stream, error);

  if (bytes == NULL)
    return FALSE;
  g_bytes_unref (bytes);
  return TRUE;
}

static gboolean
run_set_deallocation_stream (Scene *scene,
                             GError **error)
{
  return gcuda_buffer_set_deallocation_stream (scene->a, scene->stream, error);
}

static gboolean
run_set_deallocation_stream_synchronous (Scene *scene,
                                         GError **error)
{
  return gcuda_buffer_set_deallocation_stream (scene->c, scene->far, error);
}

static gboolean
run_close_with_stream (Scene *scene,
                       GError **error)
{
  gboolean success = gcuda_buffer_close (scene->a, scene->stream, error);

  g_assert_cmpint (gcuda_buffer_is_closed (scene->a), ==, success);
  return success;
}

static gboolean
run_close_with_stream_synchronous (Scene *scene,
                                   GError **error)
{
  gboolean success = gcuda_buffer_close (scene->c, scene->far, error);

  g_assert_cmpint (gcuda_buffer_is_closed (scene->c), ==, success);
  return success;
}

static gboolean
run_pool_closed_context (Scene *scene,
                         GError **error)
{
  return MADE (scene, gcuda_device_memory_resource_new_pool (scene->bed->device, 0, GCUDA_HANDLE_TYPES_NONE, error));
}

static gboolean
run_synchronous_new_for_device (Scene *scene,
                                GError **error)
{
  return MADE (scene, gcuda_synchronous_memory_resource_new_for_device (scene->bed->device, error));
}

/* Virtual memory; what its own test does with one stream and nothing current is here done with all. */

static gboolean
run_virtual_new (Scene *scene,
                 GError **error)
{
  g_autoptr (GCudaVirtualMemoryOptions) options = gcuda_virtual_memory_options_new ();
  GCudaDevice *devices[] = { scene->bed->device, scene->peer };

  gcuda_virtual_memory_options_set_handle_types (options, GCUDA_HANDLE_TYPES_POSIX_FD);
  gcuda_virtual_memory_options_set_gpu_direct_rdma (options, TRUE);
  gcuda_virtual_memory_options_set_placement (options, devices, 2, GCUDA_MEMORY_PLACEMENT_BLOCKED);
  gcuda_virtual_memory_options_add_peer (options, scene->peer, GCUDA_MEMORY_ACCESS_READ);
  return MADE (scene, gcuda_virtual_memory_resource_new (scene->bed->device, options, error));
}

static gboolean
run_virtual_new_host (Scene *scene,
                      GError **error)
{
  g_autoptr (GCudaVirtualMemoryOptions) options = gcuda_virtual_memory_options_new ();

  gcuda_virtual_memory_options_set_location (options, GCUDA_MEMORY_LOCATION_HOST_NUMA, 0);
  return MADE (scene, gcuda_virtual_memory_resource_new (scene->bed->device, options, error));
}

static guint64
virtual_unit (Scene *scene)
{
  return gcuda_virtual_memory_resource_get_granularity (scene->virtual_memory);
}

static void
set_up_virtual (Scene *scene)
{
  g_autoptr (GCudaVirtualMemoryOptions) options = gcuda_virtual_memory_options_new ();
  g_autoptr (GError) error = NULL;

  gcuda_virtual_memory_options_set_max_size (options, 8 << 20);
  gcuda_virtual_memory_options_set_chunk_size (options, 1);
  scene->virtual_memory = gcuda_virtual_memory_resource_new (scene->bed->device, options, &error);
  g_assert_no_error (error);
  scene->grown = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (scene->virtual_memory), 3 * virtual_unit (scene), scene->bed->stream, &error);
  g_assert_no_error (error);
}

static void
tear_down_virtual (Scene *scene)
{
  g_autoptr (GError) error = NULL;

  /* Its uses are on other streams than the one that it was allocated on. */
  g_assert_true (gcuda_device_synchronize (scene->bed->device, &error));
  g_clear_object (&scene->made);
  g_clear_object (&scene->grown);
  g_clear_object (&scene->virtual_memory);
}

static gboolean
run_allocate_virtual (Scene *scene,
                      GError **error)
{
  return MADE (scene, gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (scene->virtual_memory), SIZE, scene->stream, error));
}

static gboolean
run_virtual_reserve (Scene *scene,
                     GError **error)
{
  return MADE (scene, gcuda_virtual_memory_resource_reserve (scene->virtual_memory, SIZE, scene->stream, error));
}

static gboolean
run_virtual_grow (Scene *scene,
                  GError **error)
{
  return gcuda_virtual_memory_resource_resize (scene->virtual_memory, scene->grown, 4 * virtual_unit (scene), GCUDA_RESIZE_FLAGS_NONE, scene->stream, error);
}

/* In a context with no event in stock. */
static gboolean
run_virtual_shrink_far (Scene *scene,
                        GError **error)
{
  return gcuda_virtual_memory_resource_resize (scene->virtual_memory, scene->grown, 1, GCUDA_RESIZE_FLAGS_NONE, scene->far, error);
}

/* Pinned, managed and registered memory */

static void
set_up_host (Scene *scene,
             gpointer resource,
             GError *error)
{
  g_assert_no_error (error);
  scene->host_resource = resource;
  scene->d = gcuda_memory_resource_allocate (resource, SIZE, scene->bed->stream, &error);
  g_assert_no_error (error);
  pattern_fill (scene->d, 0x44, scene->bed->stream);
  g_assert_true (gcuda_stream_synchronize (scene->bed->stream, &error));
}

static void
set_up_pinned (Scene *scene)
{
  GError *error = NULL;

  set_up_host (scene, gcuda_pinned_memory_resource_new (scene->bed->device, &error), error);
}

static void
set_up_pinned_unpooled (Scene *scene)
{
  GError *error = NULL;

  set_up_host (scene, gcuda_pinned_memory_resource_new_unpooled (scene->bed->device, FALSE, &error), error);
}

static void
set_up_managed (Scene *scene)
{
  GError *error = NULL;

  set_up_host (scene, gcuda_managed_memory_resource_new (scene->bed->device, NULL, &error), error);
}

static void
set_up_managed_unpooled (Scene *scene)
{
  GError *error = NULL;

  set_up_host (scene, gcuda_managed_memory_resource_new_unpooled (scene->bed->device, NULL, &error), error);
}

static void
set_up_managed_preferred (Scene *scene)
{
  g_autoptr (GCudaLocation) host = gcuda_location_new_host ();
  GError *error = NULL;

  set_up_host (scene, gcuda_managed_memory_resource_new_unpooled (scene->bed->device, host, &error), error);
}

static void
set_up_managed_idle (Scene *scene)
{
  if (gcuda_test_is_simulated ())
    SIMULATOR (gcudasim_set_attribute)
  (0, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 0);
  set_up_managed (scene);
}

static void
tear_down_host (Scene *scene)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (gcuda_device_synchronize (scene->bed->device, &error));
  g_clear_object (&scene->made);
  g_clear_object (&scene->d);
  g_clear_object (&scene->host_resource);
  g_assert_true (gcuda_reclaim (NULL, &error));
  g_clear_pointer (&scene->host_memory, g_free);
  if (gcuda_test_is_simulated ())
    SIMULATOR (gcudasim_set_attribute)
  (0, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1);
}

static void
set_up_host_memory (Scene *scene)
{
  scene->host_memory = g_malloc0 (SIZE);
}

static gboolean
run_pinned_new (Scene *scene,
                GError **error)
{
  return MADE (scene, gcuda_pinned_memory_resource_new (scene->bed->device, error));
}

static gboolean
run_pinned_new_for_numa_node (Scene *scene,
                              GError **error)
{
  return MADE (scene, gcuda_pinned_memory_resource_new_for_numa_node (scene->bed->device, 0, error));
}

static gboolean
run_pinned_new_unpooled (Scene *scene,
                         GError **error)
{
  return MADE (scene, gcuda_pinned_memory_resource_new_unpooled (scene->bed->device, TRUE, error));
}

static gboolean
run_managed_new (Scene *scene,
                 GError **error)
{
  g_autoptr (GCudaLocation) location = gcuda_location_new_device (scene->bed->device);

  return MADE (scene, gcuda_managed_memory_resource_new (scene->bed->device, location, error));
}

static gboolean
run_managed_new_unpooled (Scene *scene,
                          GError **error)
{
  return MADE (scene, gcuda_managed_memory_resource_new_unpooled (scene->bed->device, NULL, error));
}

static gboolean
run_allocate_host (Scene *scene,
                   GError **error)
{
  return MADE (scene, gcuda_memory_resource_allocate (scene->host_resource, SIZE, scene->stream, error));
}

static gboolean
run_new_for_bytes (Scene *scene,
                   GError **error)
{
  return MADE (scene, gcuda_buffer_new_for_bytes (scene->bed->device, scene->bytes, scene->stream, error));
}

static gboolean
run_new_for_host_address (Scene *scene,
                          GError **error)
{
  return MADE (scene, gcuda_buffer_new_for_host_address (scene->bed->device, (guint64) (guintptr) scene->host_memory, SIZE, NULL, scene->stream, error));
}

static gboolean
run_map (Scene *scene,
         GError **error)
{
  return MADE (scene, gcuda_buffer_map (scene->d, GCUDA_MAP_FLAGS_READ, scene->stream, error));
}

static gboolean
run_set_read_mostly (Scene *scene,
                     GError **error)
{
  return gcuda_buffer_set_read_mostly (scene->d, TRUE, error);
}

static gboolean
run_is_read_mostly (Scene *scene,
                    GError **error)
{
  GError *local = NULL;
  gboolean answer = gcuda_buffer_is_read_mostly (scene->d, &local);

  return predicate (answer, FALSE, local, error);
}

static gboolean
run_set_preferred_location (Scene *scene,
                            GError **error)
{
  g_autoptr (GCudaLocation) location = gcuda_location_new_device (scene->bed->device);

  return gcuda_buffer_set_preferred_location (scene->d, location, error);
}

static gboolean
run_get_preferred_location (Scene *scene,
                            GError **error)
{
  g_autoptr (GCudaLocation) location = NULL;
  GError *local = NULL;

  location = gcuda_buffer_get_preferred_location (scene->d, &local);
  return predicate (location != NULL, FALSE, local, error);
}

static gboolean
run_set_accessed_by (Scene *scene,
                     GError **error)
{
  g_autoptr (GCudaLocation) location = gcuda_location_new_device (scene->bed->device);

  return gcuda_buffer_set_accessed_by (scene->d, location, TRUE, error);
}

static gboolean
run_is_accessed_by (Scene *scene,
                    GError **error)
{
  g_autoptr (GCudaLocation) location = gcuda_location_new_host ();
  GError *local = NULL;
  gboolean answer = gcuda_buffer_is_accessed_by (scene->d, location, &local);

  return predicate (answer, FALSE, local, error);
}

static gboolean
run_prefetch (Scene *scene,
              GError **error)
{
  g_autoptr (GCudaLocation) location = gcuda_location_new_device (scene->bed->device);

  return gcuda_buffer_prefetch (scene->d, location, scene->stream, error);
}

static gboolean
run_prefetch_batch (Scene *scene,
                    GError **error)
{
  g_autoptr (GCudaLocation) location = gcuda_location_new_host ();
  GCudaBuffer *buffers[] = { scene->d, scene->d };

  return gcuda_buffer_prefetch_batch (buffers, 2, location, scene->stream, error);
}

static gboolean
run_discard (Scene *scene,
             GError **error)
{
  return gcuda_buffer_discard (scene->d, scene->stream, error);
}

static gboolean
run_discard_and_prefetch (Scene *scene,
                          GError **error)
{
  g_autoptr (GCudaLocation) location = gcuda_location_new_device (scene->bed->device);

  return gcuda_buffer_discard_and_prefetch (scene->d, location, scene->stream, error);
}

static gboolean
run_copy_to_pinned (Scene *scene,
                    GError **error)
{
  return gcuda_buffer_copy_to (scene->a, scene->d, scene->stream, error);
}

static gboolean
run_upload_pinned (Scene *scene,
                   GError **error)
{
  return gcuda_buffer_upload (scene->d, 0, scene->bytes, scene->stream, error);
}

/* Graphs */

static void
set_up_builder (Scene *scene)
{
  g_autoptr (GError) error = NULL;

  scene->builder = gcuda_graph_builder_new (scene->bed->context, GCUDA_CAPTURE_MODE_RELAXED, &error);
  g_assert_no_error (error);
  pattern_fill (scene->a, 0x44, GCUDA_STREAM (scene->builder));
  scene->graph_memory = gcuda_graph_memory_resource_new (scene->bed->device, &error);
  g_assert_no_error (error);
}

static void
set_up_forked (Scene *scene)
{
  g_autoptr (GError) error = NULL;

  set_up_builder (scene);
  scene->forked = gcuda_graph_builder_fork (scene->builder, &error);
  g_assert_no_error (error);
  pattern_fill (scene->b, 0x44, GCUDA_STREAM (scene->forked));
}

static void
set_up_definition (Scene *scene)
{
  g_autoptr (GError) error = NULL;

  scene->definition = gcuda_graph_definition_new (scene->bed->context, &error);
  g_assert_no_error (error);
  scene->fill = gcuda_graph_definition_add_fill (scene->definition, NULL, 0, scene->a, 0, SIZE, 0x11, 1, &error);
  g_assert_no_error (error);
  scene->copy = gcuda_graph_definition_add_copy (scene->definition, &scene->fill, 1, scene->b, 0, scene->c, 0, SIZE, &error);
  g_assert_no_error (error);
}

static void
set_up_definition_and_builder (Scene *scene)
{
  set_up_builder (scene);
  set_up_definition (scene);
}

static void
set_up_graph (Scene *scene)
{
  g_autoptr (GError) error = NULL;

  set_up_definition (scene);
  scene->graph = gcuda_graph_definition_instantiate (scene->definition, GCUDA_GRAPH_FLAGS_NONE, NULL, &error);
  g_assert_no_error (error);
}

static void
set_up_graph_memory (Scene *scene)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaGraphNode) node = NULL;

  set_up_definition (scene);
  node = gcuda_graph_definition_add_allocation (scene->definition, NULL, 0, SIZE, scene->bed->stream, &scene->in_graph, &error);
  g_assert_no_error (error);
}

static void
tear_down_graph (Scene *scene)
{
  g_clear_object (&scene->made);
  g_clear_object (&scene->in_graph);
  g_clear_object (&scene->forked);
  g_clear_object (&scene->builder);
  g_clear_object (&scene->graph);
  g_clear_object (&scene->fill);
  g_clear_object (&scene->copy);
  g_clear_object (&scene->definition);
  g_clear_object (&scene->graph_memory);
  scene->graphs = TRUE;
}

#define GRAPH_OPERATION(name, call) \
  static gboolean                   \
    run_##name (Scene *scene,       \
                GError **error)     \
  {                                 \
    return (call);                  \
  }
#define BUILDER(scene) GCUDA_STREAM ((scene)->builder)

GRAPH_OPERATION (builder_new, MADE (scene, gcuda_graph_builder_new (scene->bed->context, GCUDA_CAPTURE_MODE_RELAXED, error)))
GRAPH_OPERATION (builder_new_for_stream, MADE (scene, gcuda_graph_builder_new_for_stream (scene->stream, GCUDA_CAPTURE_MODE_RELAXED, error)))
GRAPH_OPERATION (builder_new_for_definition, MADE (scene, gcuda_graph_builder_new_for_definition (scene->definition, GCUDA_CAPTURE_MODE_RELAXED, error)))
GRAPH_OPERATION (builder_fork, MADE (scene, gcuda_graph_builder_fork (scene->builder, error)))
GRAPH_OPERATION (builder_join, gcuda_graph_builder_join (scene->builder, scene->forked, error))
GRAPH_OPERATION (builder_finish, MADE (scene, gcuda_graph_builder_finish (scene->builder, error)))
GRAPH_OPERATION (builder_add_graph, gcuda_graph_builder_add_graph (scene->builder, scene->definition, error))
GRAPH_OPERATION (builder_add_event_record, gcuda_graph_builder_add_event_record (scene->builder, scene->late, error))
GRAPH_OPERATION (builder_add_event_wait, gcuda_graph_builder_add_event_wait (scene->builder, scene->late, error))
GRAPH_OPERATION (builder_get_last_node, MADE (scene, gcuda_graph_builder_get_last_node (scene->builder, error)))
GRAPH_OPERATION (builder_fill, gcuda_buffer_fill (scene->a, 0x55, 1, BUILDER (scene), error))
GRAPH_OPERATION (builder_copy, gcuda_buffer_copy_to (scene->a, scene->b, BUILDER (scene), error))
GRAPH_OPERATION (builder_upload, gcuda_buffer_upload (scene->a, 0, scene->bytes, BUILDER (scene), error))
GRAPH_OPERATION (builder_host_function, gcuda_stream_launch_host_function (BUILDER (scene), (GCudaStreamFunc) g_free, NULL, NULL, error))
GRAPH_OPERATION (builder_allocate, MADE (scene, gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (scene->graph_memory), SIZE, BUILDER (scene), error)))
GRAPH_OPERATION (fill_capturing, gcuda_buffer_fill (scene->a, 0x55, 1, scene->stream, error))
GRAPH_OPERATION (copy_capturing, gcuda_buffer_copy_to (scene->a, scene->b, scene->stream, error))
GRAPH_OPERATION (host_function_capturing, gcuda_stream_launch_host_function (scene->stream, (GCudaStreamFunc) g_free, NULL, NULL, error))
GRAPH_OPERATION (definition_new, MADE (scene, gcuda_graph_definition_new (scene->bed->context, error)))
GRAPH_OPERATION (add_empty, MADE (scene, gcuda_graph_definition_add_empty (scene->definition, &scene->fill, 1, error)))
GRAPH_OPERATION (add_fill, MADE (scene, gcuda_graph_definition_add_fill (scene->definition, NULL, 0, scene->b, 0, SIZE, 1, 1, error)))
GRAPH_OPERATION (add_copy, MADE (scene, gcuda_graph_definition_add_copy (scene->definition, NULL, 0, scene->a, 0, scene->b, 0, SIZE, error)))
GRAPH_OPERATION (add_upload, MADE (scene, gcuda_graph_definition_add_upload (scene->definition, NULL, 0, scene->a, 0, scene->bytes, error)))
GRAPH_OPERATION (add_host_function, MADE (scene, gcuda_graph_definition_add_host_function (scene->definition, NULL, 0, (GCudaStreamFunc) g_free, NULL, NULL, error)))
GRAPH_OPERATION (add_event_record, MADE (scene, gcuda_graph_definition_add_event_record (scene->definition, NULL, 0, scene->late, error)))
GRAPH_OPERATION (add_event_wait, MADE (scene, gcuda_graph_definition_add_event_wait (scene->definition, NULL, 0, scene->late, error)))
GRAPH_OPERATION (add_allocation, MADE (scene, gcuda_graph_definition_add_allocation (scene->definition, NULL, 0, SIZE, scene->bed->stream, &scene->in_graph, error)))
GRAPH_OPERATION (add_conditional, MADE (scene, gcuda_graph_definition_add_conditional (scene->definition, NULL, 0, GCUDA_GRAPH_CONDITIONAL_KIND_IF, 1, 1, error)))
GRAPH_OPERATION (add_free, MADE (scene, gcuda_graph_definition_add_free (scene->definition, NULL, 0, scene->in_graph, error)))
GRAPH_OPERATION (instantiate, MADE (scene, gcuda_graph_definition_instantiate (scene->definition, GCUDA_GRAPH_FLAGS_NONE, NULL, error)))
GRAPH_OPERATION (instantiate_upload, MADE (scene, gcuda_graph_definition_instantiate (scene->definition, GCUDA_GRAPH_FLAGS_NONE, scene->stream, error)))
GRAPH_OPERATION (graph_launch, gcuda_graph_launch (scene->graph, scene->stream, error))
GRAPH_OPERATION (graph_upload, gcuda_graph_upload (scene->graph, scene->stream, error))
GRAPH_OPERATION (graph_update, gcuda_graph_update (scene->graph, scene->definition, error))
GRAPH_OPERATION (graph_update_fill, gcuda_graph_update_fill (scene->graph, scene->fill, scene->b, 0, SIZE, 7, 1, error))
GRAPH_OPERATION (graph_update_copy, gcuda_graph_update_copy (scene->graph, scene->copy, scene->a, 0, scene->c, 0, SIZE, error))
GRAPH_OPERATION (graph_memory_trim, gcuda_graph_memory_resource_trim (scene->graph_memory, error))
GRAPH_OPERATION (graph_memory_reset, gcuda_graph_memory_resource_reset_high_marks (scene->graph_memory, error))

static gboolean
run_graph_memory_statistics (Scene *scene,
                             GError **error)
{
  g_autoptr (GCudaPoolStatistics) statistics = gcuda_graph_memory_resource_get_statistics (scene->graph_memory, error);

  return statistics != NULL;
}

static gboolean
run_get_nodes (Scene *scene,
               GError **error)
{
  g_autoptr (GPtrArray) nodes = gcuda_graph_definition_get_nodes (scene->definition, error);

  return nodes != NULL;
}

#define WHICH_NODE                                                                    \
  {                                                                                   \
    "cuGraphGetNodes", "only tells which node needs a thing: else the graph keeps it" \
  },                                                                                  \
  {                                                                                   \
    "cuStreamGetCaptureInfo", "the same", 2                                           \
  }
#define NODE_KIND                                                               \
  {                                                                             \
    "cuGraphNodeGetType", "the node is there, and only does not say what it is" \
  }
#define NODE_STAYS                                                                          \
  {                                                                                         \
    "cuCtxPopCurrent", "twice: what the graph has now it has, and nothing can restore that" \
  }
#define RELEASE_TRIED_AGAIN                            \
  {                                                    \
    "cuGraphReleaseUserObject", "it is done once more" \
  }

#define RELEASES .until = "cuThreadExchangeStreamCaptureMode"
#define UNKNOWN_QUESTION                                                                              \
  {                                                                                                   \
    "cuDeviceGetAttribute", "a driver that does not know the attribute is asked for the thing itself" \
  }
#define OTHERS_CAPTURE                                                                  \
  {                                                                                     \
    "cuThreadExchangeStreamCaptureMode", "it only spares the captures of other threads" \
  }

static const Operation operations[] = {
  { "device/is-available", .run = run_is_available },
  { "device/new", .run = run_device_new },
  { "device/get-devices", .run = run_get_devices },
  { "device/get-attribute", .run = run_get_attribute },
  { "device/memory-info", .run = run_memory_info },
  { "device/synchronize", .run = run_device_synchronize },
  { "device/can-access-peer", .flags = FLAG_PEER, .run = run_can_access_peer },
  { "context/get-primary", .run = run_get_primary_context },
  { "context/new", .run = run_context_new },
  { "context/new-for-handle", .run = run_context_new_for_handle, .set_up = set_up_raw_context },
  { "context/synchronize", .run = run_context_synchronize },
  { "stream/new", .run = run_stream_new },
  { "stream/new-for-device", .run = run_stream_new_for_device },
  { "stream/new-legacy-default", .run = run_stream_new_legacy },
  { "stream/new-per-thread-default", .run = run_stream_new_per_thread },
  { "stream/new-for-handle", .run = run_stream_new_for_handle, .set_up = set_up_raw_stream, .tear_down = tear_down_raw_stream },
  { "stream/query", .flags = FLAG_ALL_STREAMS, .run = run_stream_query },
  { "stream/is-capturing", .flags = FLAG_ALL_STREAMS, .run = run_stream_is_capturing },
  { "stream/synchronize", .flags = FLAG_ALL_STREAMS, .run = run_stream_synchronize },
  { "stream/wait-event", .flags = FLAG_ALL_STREAMS, .run = run_stream_wait_event,
    .harmless = { { "cuStreamIsCapturing", "without an answer the driver refuses what would have been refused before" } } },
  { "stream/wait-stream", .flags = FLAG_ALL_STREAMS, .run = run_stream_wait_stream, RELEASES,
    .harmless = { { "cuStreamIsCapturing", "without an answer the driver refuses what would have been refused before" } } },
  { "stream/is-waited-for", .flags = FLAG_ALL_STREAMS, .run = run_stream_is_waited_for, RELEASES,
    .harmless = { { "cuStreamIsCapturing", "without an answer the driver refuses what would have been refused before" } } },
  { "stream/launch-host-function", .flags = FLAG_ALL_STREAMS, .run = run_stream_launch_host_function },
  { "event/new", .run = run_event_new },
  { "event/new-for-device", .run = run_event_new_for_device },
  { "event/record", .flags = FLAG_ALL_STREAMS, .run = run_event_record,
    .harmless = { { "cuStreamIsCapturing", "the event is recorded; the answer only makes a later query's error a better one" } } },
  { "event/query", .run = run_event_query },
  { "event/synchronize", .run = run_event_synchronize },
  { "event/elapsed-time", .run = run_event_elapsed_time },
  { "pool/new", .run = run_pool_new, .harmless = { UNKNOWN_QUESTION } },
  { "pool/new-pool", .run = run_pool_new_pool, .harmless = { UNKNOWN_QUESTION, OTHERS_CAPTURE } },
  { "pool/new-pool-shared", .run = run_pool_new_pool_shared, .harmless = { UNKNOWN_QUESTION, OTHERS_CAPTURE } },
  { "pool/set-release-threshold", .run = run_set_release_threshold, .tear_down = tear_down_release_threshold },
  { "pool/set-reuse", .run = run_set_reuse, .tear_down = tear_down_reuse },
  { "pool/trim", .run = run_trim },
  { "pool/get-statistics", .run = run_get_statistics },
  { "pool/reset-high-marks", .run = run_reset_high_marks },
  { "pool/has-peer-access", .run = run_has_peer_access },
  { "pool/set-peer-access", .flags = FLAG_PEER, .run = run_set_peer_access, .tear_down = tear_down_peer_access, .harmless = { OTHERS_CAPTURE } },
  { "allocate/pool", .flags = FLAG_ALL_STREAMS, .run = run_allocate },
  { "allocate/synchronous", .flags = FLAG_ALL_STREAMS, .run = run_allocate_synchronous },
  { "allocate/synchronous-far", .run = run_allocate_synchronous_far },
  { "allocate/address", .flags = FLAG_ALL_STREAMS, .run = run_allocate_address, .tear_down = tear_down_address },
  { "allocate/address-synchronous", .flags = FLAG_ALL_STREAMS, .run = run_allocate_address_synchronous, .tear_down = tear_down_address_synchronous },
  { "allocate/adopt-address", .flags = FLAG_ALL_STREAMS, .run = run_adopt_address, .set_up = set_up_address, .tear_down = tear_down_address },
  { "allocate/adopt-address-synchronous", .run = run_adopt_address_synchronous, .set_up = set_up_address_synchronous, .tear_down = tear_down_address_synchronous },
  { "deallocate/address", .flags = FLAG_ALL_STREAMS, .run = run_deallocate_address, .set_up = set_up_address, .tear_down = tear_down_address,
    .harmless = { { "cuCtxPopCurrent", "it is freed: a failure would have the caller free it again" } } },
  { "deallocate/address-synchronous", .flags = FLAG_ALL_STREAMS, .run = run_deallocate_address_synchronous, .set_up = set_up_address_synchronous, .tear_down = tear_down_address_synchronous,
    .harmless = { { "cuCtxGetId", "whether the memory went with its context can't be told: the free itself finds out", 2 },
                  { "cuCtxPopCurrent", "it is freed: a failure would have the caller free it again" } } },
  { "virtual/new", .flags = FLAG_PEER, .run = run_virtual_new },
  { "virtual/new-host", .run = run_virtual_new_host },
  { "allocate/virtual", .flags = FLAG_ALL_STREAMS, .run = run_allocate_virtual, .set_up = set_up_virtual, .tear_down = tear_down_virtual },
  { "allocate/virtual-reserve", .flags = FLAG_ALL_STREAMS, .run = run_virtual_reserve, .set_up = set_up_virtual, .tear_down = tear_down_virtual },
  { "allocate/virtual-grow", .flags = FLAG_ALL_STREAMS, .run = run_virtual_grow, .set_up = set_up_virtual, .tear_down = tear_down_virtual },
  { "allocate/virtual-shrink-far", .run = run_virtual_shrink_far, .set_up = set_up_virtual, .tear_down = tear_down_virtual },
#define HOST(kind) .set_up = set_up_##kind, .tear_down = tear_down_host
  { "pinned/new", .run = run_pinned_new, .harmless = { UNKNOWN_QUESTION, OTHERS_CAPTURE } },
  { "pinned/new-for-numa-node", .run = run_pinned_new_for_numa_node, .harmless = { UNKNOWN_QUESTION, OTHERS_CAPTURE } },
  { "pinned/new-unpooled", .run = run_pinned_new_unpooled },
  { "managed/new", .run = run_managed_new, .harmless = { OTHERS_CAPTURE } },
  { "managed/new-unpooled", .run = run_managed_new_unpooled },
  { "allocate/pinned", .flags = FLAG_ALL_STREAMS, .run = run_allocate_host, HOST (pinned) },
  { "allocate/pinned-unpooled", .flags = FLAG_ALL_STREAMS, .run = run_allocate_host, HOST (pinned_unpooled) },
  { "allocate/managed", .flags = FLAG_ALL_STREAMS, .run = run_allocate_host, HOST (managed) },
  { "allocate/managed-preferred", .flags = FLAG_ALL_STREAMS, .run = run_allocate_host, HOST (managed_preferred) },
  { "buffer/new-for-bytes", .flags = FLAG_ALL_STREAMS, .run = run_new_for_bytes, .tear_down = tear_down_host,
    .harmless = { { "cuDeviceGetAttribute", "a device that does not know the attributes is asked to do it", 1 } } },
  { "buffer/new-for-host-address", .flags = FLAG_ALL_STREAMS, .run = run_new_for_host_address, HOST (host_memory),
    .harmless = { UNKNOWN_QUESTION } },
  { "buffer/map-pinned", .flags = FLAG_ALL_STREAMS, .run = run_map, HOST (pinned),
    .harmless = { { "cuDeviceGetAttribute", "the memory is asked about then" } } },
  { "buffer/map-managed", .run = run_map, HOST (managed),
    .harmless = { { "cuDeviceGetAttribute", "the whole device is waited for then" } } },
  { "buffer/map-managed-idle", .run = run_map, HOST (managed_idle),
    .harmless = { { "cuDeviceGetAttribute", "the whole device is waited for then" },
                  { "cuPointerGetAttribute", "the whole device is waited for then" } } },
  { "managed/set-read-mostly", .run = run_set_read_mostly, HOST (managed_unpooled) },
  { "managed/is-read-mostly", .run = run_is_read_mostly, HOST (managed) },
  { "managed/set-preferred-location", .run = run_set_preferred_location, HOST (managed_unpooled) },
  { "managed/get-preferred-location", .run = run_get_preferred_location, HOST (managed) },
  { "managed/set-accessed-by", .run = run_set_accessed_by, HOST (managed_unpooled) },
  { "managed/is-accessed-by", .run = run_is_accessed_by, HOST (managed) },
  { "managed/prefetch", .flags = FLAG_ALL_STREAMS, .run = run_prefetch, HOST (managed) },
  { "managed/prefetch-batch", .flags = FLAG_ALL_STREAMS, .run = run_prefetch_batch, HOST (managed) },
  { "managed/discard", .run = run_discard, HOST (managed) },
  { "managed/discard-and-prefetch", .run = run_discard_and_prefetch, HOST (managed) },
  { "buffer/copy-to-pinned", .flags = FLAG_ALL_STREAMS, .run = run_copy_to_pinned, HOST (pinned) },
  { "buffer/upload-pinned", .flags = FLAG_ALL_STREAMS, .run = run_upload_pinned, HOST (pinned), RELEASES },
  { "buffer/new-for-address", .run = run_new_for_address },
  { "buffer/fill", .flags = FLAG_ALL_STREAMS, .run = run_fill },
  { "buffer/fill-2", .run = run_fill_2 },
  { "buffer/fill-4", .run = run_fill_4 },
  { "buffer/fill-2d", .flags = FLAG_ALL_STREAMS, .run = run_fill_2d },
  { "buffer/fill-2d-4", .run = run_fill_2d_4 },
  { "buffer/copy", .flags = FLAG_ALL_STREAMS, .run = run_copy },
  { "buffer/copy-2d", .flags = FLAG_ALL_STREAMS, .run = run_copy_2d },
  { "buffer/copy-batch", .flags = FLAG_ALL_STREAMS, .run = run_copy_batch,
    .partial = { "cuMemcpyDtoDAsync", "documented: the copies before the one that the driver refused are done" } },
  { "buffer/upload", .flags = FLAG_ALL_STREAMS, .run = run_upload, RELEASES },
  { "buffer/upload-far", .run = run_upload_far },
  { "buffer/upload-capturing", .flags = FLAG_CAPTURING, .run = run_upload, .set_up = set_up_capture, .tear_down = tear_down_capture },
  { "buffer/download", .flags = FLAG_ALL_STREAMS, .run = run_download },
  { "buffer/set-deallocation-stream", .flags = FLAG_ALL_STREAMS | FLAG_RECIPE, .run = run_set_deallocation_stream },
  { "buffer/set-deallocation-stream-synchronous", .flags = FLAG_RECIPE, .run = run_set_deallocation_stream_synchronous },
  { "buffer/close-with-stream", .flags = FLAG_ALL_STREAMS | FLAG_RECIPE, .run = run_close_with_stream, RELEASES },
  { "buffer/close-with-stream-synchronous", .flags = FLAG_RECIPE, .run = run_close_with_stream_synchronous, RELEASES },
#define WITH_BUILDER    .set_up = set_up_builder, .tear_down = tear_down_graph
#define WITH_DEFINITION .set_up = set_up_definition, .tear_down = tear_down_graph
#define WITH_GRAPH      .set_up = set_up_graph, .tear_down = tear_down_graph
  { "graph-builder/new", .run = run_builder_new, .tear_down = tear_down_graph, RELEASES },
  { "graph-builder/new-for-stream", .run = run_builder_new_for_stream, .tear_down = tear_down_graph },
  { "graph-builder/new-for-definition", .run = run_builder_new_for_definition, WITH_DEFINITION, RELEASES },
  { "graph-builder/fork", .run = run_builder_fork, WITH_BUILDER,
    .harmless = { { "cuEventDestroy", "it is done once more" }, NODE_STAYS } },
  { "graph-builder/join", .run = run_builder_join, .set_up = set_up_forked, .tear_down = tear_down_graph, RELEASES,
    .harmless = { { "cuEventDestroy", "it is done once more" }, NODE_STAYS } },
  { "graph-builder/finish", .run = run_builder_finish, WITH_BUILDER, RELEASES },
  { "graph-builder/add-graph", .run = run_builder_add_graph, .set_up = set_up_definition_and_builder, .tear_down = tear_down_graph, .harmless = { NODE_STAYS } },
  { "graph-builder/add-event-record", .run = run_builder_add_event_record, WITH_BUILDER, .harmless = { WHICH_NODE } },
  { "graph-builder/add-event-wait", .run = run_builder_add_event_wait, WITH_BUILDER, .harmless = { WHICH_NODE } },
  { "graph-builder/get-last-node", .run = run_builder_get_last_node, WITH_BUILDER, .harmless = { NODE_KIND } },
  { "graph-builder/fill", .run = run_builder_fill, WITH_BUILDER, .harmless = { WHICH_NODE } },
  { "graph-builder/copy", .run = run_builder_copy, WITH_BUILDER, .harmless = { WHICH_NODE } },
  { "graph-builder/upload", .run = run_builder_upload, WITH_BUILDER, .harmless = { WHICH_NODE } },
  { "graph-builder/host-function", .run = run_builder_host_function, WITH_BUILDER, .harmless = { WHICH_NODE } },
  { "graph-builder/allocate", .run = run_builder_allocate, WITH_BUILDER },
  { "buffer/fill-capturing", .flags = FLAG_CAPTURING, .run = run_fill_capturing, .set_up = set_up_capture, .tear_down = tear_down_capture },
  { "buffer/copy-capturing", .flags = FLAG_CAPTURING, .run = run_copy_capturing, .set_up = set_up_capture, .tear_down = tear_down_capture },
  { "stream/launch-host-function-capturing", .flags = FLAG_CAPTURING, .run = run_host_function_capturing, .set_up = set_up_capture, .tear_down = tear_down_capture },
  { "graph-definition/new", .run = run_definition_new, .tear_down = tear_down_graph },
  { "graph-definition/add-empty", .run = run_add_empty, WITH_DEFINITION, .harmless = { NODE_KIND, NODE_STAYS } },
  { "graph-definition/add-fill", .run = run_add_fill, WITH_DEFINITION, .harmless = { NODE_KIND, NODE_STAYS } },
  { "graph-definition/add-copy", .run = run_add_copy, WITH_DEFINITION, .harmless = { NODE_KIND, NODE_STAYS } },
  { "graph-definition/add-upload", .run = run_add_upload, WITH_DEFINITION, .harmless = { NODE_KIND, NODE_STAYS } },
  { "graph-definition/add-host-function", .run = run_add_host_function, WITH_DEFINITION, .harmless = { NODE_KIND, NODE_STAYS } },
  { "graph-definition/add-event-record", .run = run_add_event_record, WITH_DEFINITION, .harmless = { NODE_KIND, NODE_STAYS } },
  { "graph-definition/add-event-wait", .run = run_add_event_wait, WITH_DEFINITION, .harmless = { NODE_KIND, NODE_STAYS } },
  { "graph-definition/add-allocation", .run = run_add_allocation, WITH_DEFINITION, .harmless = { NODE_KIND, NODE_STAYS } },
  { "graph-definition/add-conditional", .run = run_add_conditional, WITH_DEFINITION, .harmless = { NODE_STAYS } },
  { "graph-definition/add-free", .run = run_add_free, .set_up = set_up_graph_memory, .tear_down = tear_down_graph, .harmless = { NODE_KIND, NODE_STAYS } },
  { "graph-definition/get-nodes", .run = run_get_nodes, WITH_DEFINITION, .harmless = { NODE_KIND } },
  { "graph-definition/instantiate", .run = run_instantiate, WITH_DEFINITION, .harmless = { RELEASE_TRIED_AGAIN } },
  { "graph-definition/instantiate-upload", .flags = FLAG_ALL_STREAMS, .run = run_instantiate_upload, WITH_DEFINITION, .harmless = { RELEASE_TRIED_AGAIN } },
  { "graph/launch", .flags = FLAG_ALL_STREAMS, .run = run_graph_launch, WITH_GRAPH },
  { "graph/upload", .flags = FLAG_ALL_STREAMS, .run = run_graph_upload, WITH_GRAPH },
  { "graph/update", .run = run_graph_update, WITH_GRAPH, .harmless = { NODE_STAYS } },
  { "graph/update-fill", .run = run_graph_update_fill, WITH_GRAPH, .harmless = { NODE_STAYS } },
  { "graph/update-copy", .run = run_graph_update_copy, WITH_GRAPH, .harmless = { NODE_STAYS } },
  { "graph-memory/statistics", .run = run_graph_memory_statistics, WITH_BUILDER },
  { "graph-memory/reset", .run = run_graph_memory_reset, WITH_BUILDER },
  { "graph-memory/trim", .run = run_graph_memory_trim, WITH_BUILDER },
  /* From here on nothing lives in the primary context, so that it can be closed and has to be retained anew. */
  { "closed/get-primary-context", .flags = FLAG_NO_SCENE, .run = run_get_primary_context },
  { "closed/memory-info", .flags = FLAG_NO_SCENE, .run = run_memory_info },
  { "closed/synchronize", .flags = FLAG_NO_SCENE, .run = run_device_synchronize },
  { "closed/stream-new-for-device", .flags = FLAG_NO_SCENE, .run = run_stream_new_for_device },
  { "closed/event-new-for-device", .flags = FLAG_NO_SCENE, .run = run_event_new_for_device },
  { "closed/pool-new-pool", .flags = FLAG_NO_SCENE, .run = run_pool_closed_context, .harmless = { UNKNOWN_QUESTION, OTHERS_CAPTURE } },
  { "closed/synchronous-new-for-device", .flags = FLAG_NO_SCENE, .run = run_synchronous_new_for_device },
};

/* The engine */

typedef enum
{
  STREAM_CREATED,
  STREAM_LEGACY,
  STREAM_PER_THREAD,
  N_STREAMS
} StreamKind;

static void
settle (Bed *bed)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_no_error (error);
}

static GCudaBuffer *
scene_allocate (GCudaMemoryResource *resource,
                guint8 value,
                GCudaStream *stream)
{
  g_autoptr (GError) error = NULL;
  GCudaBuffer *buffer = gcuda_memory_resource_allocate (resource, SIZE, stream, &error);

  g_assert_no_error (error);
  pattern_fill (buffer, value, stream);
  return buffer;
}

static void
scene_set_up (Scene *scene,
              const Operation *operation,
              StreamKind kind)
{
  Bed *bed = scene->bed;
  g_autoptr (GError) error = NULL;

  if ((operation->flags & FLAG_NO_SCENE) != 0)
    {
      g_autoptr (GCudaContext) context = gcuda_device_get_primary_context (bed->device, &error);

      g_assert_no_error (error);
      g_assert_true (gcuda_context_close (context, &error));
      g_assert_no_error (error);
      return;
    }
  scene->other = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  g_assert_no_error (error);
  switch (kind)
    {
    case STREAM_CREATED:
      scene->stream = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
      break;
    case STREAM_LEGACY:
      scene->stream = gcuda_stream_new_legacy_default (bed->context, &error);
      break;
    case STREAM_PER_THREAD:
      scene->stream = gcuda_stream_new_per_thread_default (bed->context, &error);
      break;
    case N_STREAMS:
    default:
      g_assert_not_reached ();
    }
  g_assert_no_error (error);
  scene->context = gcuda_context_new (bed->device, GCUDA_CONTEXT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  scene->far = gcuda_stream_new (scene->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  g_assert_no_error (error);
  scene->synchronous = gcuda_synchronous_memory_resource_new (bed->context, &error);
  g_assert_no_error (error);
  scene->a = scene_allocate (bed->resource, 0x11, bed->stream);
  scene->b = scene_allocate (bed->resource, 0x22, bed->stream);
  scene->c = scene_allocate (GCUDA_MEMORY_RESOURCE (scene->synchronous), 0x33, bed->stream);
  scene->early = gcuda_event_new (bed->context, GCUDA_EVENT_FLAGS_TIMING, &error);
  g_assert_no_error (error);
  scene->late = gcuda_event_new (bed->context, GCUDA_EVENT_FLAGS_TIMING, &error);
  g_assert_no_error (error);
  g_assert_true (gcuda_event_record (scene->early, bed->stream, &error));
  g_assert_true (gcuda_event_record (scene->late, bed->stream, &error));
  scene->bytes = g_bytes_new_take (g_malloc0 (SIZE), SIZE);
  g_assert_true (gcuda_device_synchronize (bed->device, &error));
  g_assert_no_error (error);
  if (operation->set_up != NULL)
    operation->set_up (scene);
}

/* That the operation on this scene left no trace. */
static void
scene_assert_unchanged (Scene *scene,
                        const Operation *operation,
                        gboolean contents)
{
  Bed *bed = scene->bed;
  g_autoptr (GError) error = NULL;

  if ((operation->flags & FLAG_NO_SCENE) != 0)
    return;
  for (guint i = 0; i < 3; i++)
    {
      GCudaBuffer *buffer = i == 0 ? scene->a : i == 1 ? scene->b
                                                       : scene->c;

      g_assert_false (gcuda_buffer_is_closed (buffer));
      g_assert_cmpuint (gcuda_buffer_get_size (buffer), ==, SIZE);
      g_assert_cmpuint (gcuda_buffer_get_address (buffer), !=, 0);
    }
  g_assert_false (gcuda_stream_is_closed (scene->stream));
  g_assert_false (gcuda_stream_is_closed (scene->far));
  g_assert_false (gcuda_event_is_closed (scene->late));
  g_assert_false (gcuda_context_is_closed (scene->context));
  g_assert_cmpint (gcuda_device_memory_resource_get_reuse (bed->pool), ==,
                   GCUDA_POOL_REUSE_FOLLOW_EVENTS | GCUDA_POOL_REUSE_OPPORTUNISTIC | GCUDA_POOL_REUSE_INTERNAL_DEPENDENCIES);
  g_assert_cmpuint (gcuda_device_memory_resource_get_release_threshold (bed->pool), ==, 0);
  if (scene->peer != NULL)
    g_assert_false (gcuda_device_memory_resource_has_peer_access (bed->pool, scene->peer, &error));
  g_assert_no_error (error);
  if ((operation->flags & FLAG_CAPTURING) != 0)
    {
      g_assert_true (gcuda_stream_is_capturing (scene->stream, &error));
      return;
    }
  if (scene->builder != NULL)
    {
      g_assert_true (gcuda_stream_is_capturing (GCUDA_STREAM (scene->builder), &error));
      g_assert_no_error (error);
      return;
    }
  if (!contents)
    return;
  /* Whatever the failed call queued would be done by then. */
  g_assert_true (gcuda_device_synchronize (bed->device, &error));
  g_assert_no_error (error);
  pattern_assert (scene->a, 0x11, bed->stream);
  pattern_assert (scene->b, 0x22, bed->stream);
  pattern_assert (scene->c, 0x33, bed->stream);
  g_assert_true (gcuda_event_query (scene->late, &error));
  g_assert_no_error (error);
}

static void
scene_tear_down (Scene *scene,
                 const Operation *operation)
{
  g_autoptr (GError) error = NULL;

  if (operation->tear_down != NULL)
    operation->tear_down (scene);
  if ((operation->flags & FLAG_NO_SCENE) == 0)
    {
      /* Work on any stream of the scene comes before the frees. */
      g_assert_true (gcuda_device_synchronize (scene->bed->device, &error));
      g_assert_true (gcuda_context_synchronize (scene->context, &error));
      g_assert_no_error (error);
    }
  g_clear_object (&scene->made);
  g_clear_object (&scene->a);
  g_clear_object (&scene->b);
  g_clear_object (&scene->c);
  g_clear_object (&scene->early);
  g_clear_object (&scene->late);
  g_clear_object (&scene->synchronous);
  g_clear_object (&scene->far);
  g_clear_object (&scene->stream);
  g_clear_object (&scene->other);
  /* What a graph kept goes when the driver gets to it. */
  if (scene->graphs)
    {
      bed_assert_use (scene->bed, 0);
      /* A host function's data goes by way of the loop. */
      if (gcuda_test_is_simulated ())
        SIMULATOR (gcudasim_drain)
      ();
      settle (scene->bed);
      while (g_main_context_iteration (NULL, FALSE))
        ;
    }
  scene->graphs = FALSE;
  settle (scene->bed);
  g_clear_object (&scene->context);
  settle (scene->bed);
  /* Kept for as long as the driver may read it, and no longer. */
  if (scene->bytes != NULL)
    {
      gpointer data;
      gsize size;

      data = g_bytes_unref_to_data (g_steal_pointer (&scene->bytes), &size);
      g_free (data);
    }
  while (g_main_context_iteration (NULL, FALSE))
    ;
}

/* Frees of the buffers go to the stream they were made on. */
static void
scene_assert_recipe (Scene *scene)
{
  g_autofree char *handle = g_strdup_printf ("0x%" G_GINT64_MODIFIER "x", gcuda_stream_get_handle (scene->bed->stream));
  g_autofree char *address = g_strdup_printf ("0x%" G_GINT64_MODIFIER "x", gcuda_buffer_get_address (scene->a));
  g_autofree char *plain = g_strdup_printf ("0x%" G_GINT64_MODIFIER "x", gcuda_buffer_get_address (scene->c));
  g_autoptr (GError) error = NULL;
  g_auto (GStrv) log = NULL;

  gcuda_test_log_start ();
  g_assert_true (gcuda_buffer_close (scene->a, NULL, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_buffer_close (scene->c, NULL, &error));
  g_assert_no_error (error);
  settle (scene->bed);
  log = gcuda_test_log_take ();
  g_assert_cmpuint (gcuda_test_log_count (log, "cuMemFreeAsync", address, handle, "= SUCCESS", NULL), ==, 1);
  g_assert_cmpuint (gcuda_test_log_count (log, "cuEventRecord", handle, "= SUCCESS", NULL), ==, 1);
  g_assert_cmpuint (gcuda_test_log_count (log, "cuMemFree", plain, "= SUCCESS", NULL), ==, 1);
}

/* The calling thread's number in the log. */
static char *
this_thread (void)
{
  g_auto (GStrv) log = NULL;
  g_auto (GStrv) words = NULL;
  int version;

  gcuda_test_log_start ();
  assert_cuda (RAW (cuDriverGetVersion) (&version));
  log = gcuda_test_log_take ();
  for (guint i = 0; log[i] != NULL; i++)
    if (strstr (log[i], " cuDriverGetVersion(") != NULL)
      words = g_strsplit (log[i], " ", 3);
  g_assert_nonnull (words);
  return g_strdup (words[1]);
}

/* The names of the functions that this thread called, in order. */
static GPtrArray *
functions_of (char **log,
              const char *thread)
{
  GPtrArray *names = g_ptr_array_new_with_free_func (g_free);

  for (guint i = 0; log[i] != NULL; i++)
    {
      g_auto (GStrv) words = g_strsplit (log[i], " ", 3);

      if (g_strv_length (words) == 3 && strcmp (words[1], thread) == 0 && strchr (words[2], '(') != NULL)
        g_ptr_array_add (names, g_strndup (words[2], (gsize) (strchr (words[2], '(') - words[2])));
    }
  return names;
}

/* The functions that an operation calls, and how often each. */
typedef struct
{
  const char *name;
  guint count;
} Called;

static GArray *
count_calls (GPtrArray *names,
             const char *until)
{
  GArray *called = g_array_new (FALSE, FALSE, sizeof (Called));

  for (guint i = 0; i < names->len; i++)
    {
      const char *name = g_ptr_array_index (names, i);
      gboolean known = FALSE;

      if (until != NULL && strcmp (name, until) == 0)
        break;
      /* These two are asked for the text of an error, not by the operation. */
      if (strcmp (name, "cuGetErrorName") == 0 || strcmp (name, "cuGetErrorString") == 0)
        continue;
      for (guint j = 0; j < called->len && !known; j++)
        {
          Called *known_call = &g_array_index (called, Called, j);

          known = strcmp (known_call->name, name) == 0;
          known_call->count += known;
        }
      if (!known)
        {
          Called fresh = { name, 1 };

          g_array_append_val (called, fresh);
        }
    }
  return called;
}

static void
assert_same_balance (const GcudasimBalance *before,
                     guint more_events)
{
  GcudasimBalance after;

  SIMULATOR (gcudasim_balance)
  (&after);
  g_assert_cmpuint (after.allocations, ==, before->allocations);
  g_assert_cmpuint (after.streams, ==, before->streams);
  g_assert_cmpuint (after.contexts, ==, before->contexts);
  g_assert_cmpuint (after.pools, ==, before->pools);
  g_assert_cmpuint (after.graphs, ==, before->graphs);
  g_assert_cmpuint (after.graph_execs, ==, before->graph_execs);
  g_assert_cmpuint (after.user_objects, ==, before->user_objects);
  g_assert_cmpuint (after.reservations, ==, before->reservations);
  g_assert_cmpuint (after.mappings, ==, before->mappings);
  g_assert_cmpuint (after.memory_handles, ==, before->memory_handles);
  g_assert_cmpuint (after.events, <=, before->events + more_events);
}

static CUstreamCaptureMode
capture_mode (void)
{
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL, back;

  assert_cuda (RAW (cuThreadExchangeStreamCaptureMode) (&mode));
  back = mode;
  assert_cuda (RAW (cuThreadExchangeStreamCaptureMode) (&back));
  return mode;
}

static const char *
harmless_reason (const Operation *operation,
                 const char *function,
                 guint n,
                 gboolean twice)
{
  for (gsize i = 0; i < G_N_ELEMENTS (operation->harmless) && operation->harmless[i].function != NULL; i++)
    if (strcmp (operation->harmless[i].function, function) == 0 && n >= operation->harmless[i].from)
      return operation->harmless[i].reason;
  /* Of all operations. */
  if (!twice && strcmp (function, "cuCtxPopCurrent") == 0)
    return "it is tried again: what was current is to be so again";
  return NULL;
}

static const struct
{
  CUresult code;
  const char *name;
} codes[] = {
  { CUDA_ERROR_OUT_OF_MEMORY, "OUT_OF_MEMORY" },
  { CUDA_ERROR_UNKNOWN, "UNKNOWN" },
  { CUDA_ERROR_ILLEGAL_ADDRESS, "ILLEGAL_ADDRESS" },
};

typedef struct
{
  const Operation *operation;
  StreamKind kind;
  CUcontext elsewhere; /* current while the operation runs; or NULL */
  GCudaDevice *peer;
  const char *thread;
} Setting;

/* One run with one call failing; twice: the call after the first of this name fails as well. FALSE: it was not made. */
static void
run_failing (Bed *bed,
             const Setting *setting,
             const char *function,
             guint n,
             gboolean twice,
             gsize code)
{
  const Operation *operation = setting->operation;
  g_autofree char *spec = NULL;
  g_autofree char *what = NULL;
  g_autofree char *line = NULL;
  g_autofree char *full_name = g_strconcat ("CUDA_ERROR_", codes[code].name, NULL);
  g_autoptr (GError) error = NULL;
  g_auto (GStrv) log = NULL;
  GcudasimBalance before, during;
  CUcontext current = NULL, popped;
  Scene scene = { .bed = bed, .peer = setting->peer };
  gboolean success, hit = FALSE, stuck;

  if (twice)
    spec = g_strdup_printf ("%s:%u=%s,%s:%u=%s", function, n, codes[code].name, function, n + 1, codes[code].name);
  else
    spec = g_strdup_printf ("%s:%u=%s", function, n, codes[code].name);
  what = g_strdup_printf ("%s, stream %d, %s current, %s", operation->name, (int) setting->kind, setting->elsewhere != NULL ? "another context" : "nothing", spec);
  g_test_message ("%s", what);

  settle (bed);
  SIMULATOR (gcudasim_balance)
  (&before);
  scene_set_up (&scene, operation, setting->kind);
  settle (bed);
  SIMULATOR (gcudasim_balance)
  (&during);
  if (setting->elsewhere != NULL)
    assert_cuda (RAW (cuCtxPushCurrent) (setting->elsewhere));

  gcuda_test_log_start ();
  /* The background makes calls of the same names. */
  g_assert_true (SIMULATOR (gcudasim_fail_here) (spec));
  success = operation->run (&scene, &error);
  gcuda_test_fail_calls (NULL);
  log = gcuda_test_log_take ();

  line = g_strdup_printf (" %s %s(", setting->thread, function);
  for (guint i = 0; log[i] != NULL && !hit; i++)
    {
      const char *found = strstr (log[i], line), *result = strstr (log[i], ") = ");

      hit = found != NULL && result != NULL && g_str_has_prefix (result + strlen (") = "), codes[code].name);
    }

  /* The current context is as it was, and nothing is under it. A driver that refuses to pop leaves no way back. */
  assert_cuda (RAW (cuCtxGetCurrent) (&current));
  stuck = twice && hit && strcmp (function, "cuCtxPopCurrent") == 0;
  if (stuck && current != setting->elsewhere)
    {
      assert_cuda (RAW (cuCtxPopCurrent) (&popped));
      assert_cuda (RAW (cuCtxGetCurrent) (&current));
    }
  if (current != setting->elsewhere)
    g_error ("%s: the current context is another one", what);
  if (setting->elsewhere != NULL)
    assert_cuda (RAW (cuCtxPopCurrent) (&popped));
  assert_cuda (RAW (cuCtxGetCurrent) (&current));
  if (current != NULL)
    g_error ("%s: a context is current that was not", what);
  if (capture_mode () != CU_STREAM_CAPTURE_MODE_GLOBAL)
    {
      if (!twice)
        g_error ("%s: the thread is in another capture mode", what);
      SIMULATOR (gcudasim_fail)
      (NULL);
      {
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

        assert_cuda (RAW (cuThreadExchangeStreamCaptureMode) (&mode));
      }
    }

  if (success)
    {
      if (error != NULL)
        g_error ("%s: success with an error: %s", what, error->message);
      if (hit && (harmless_reason (operation, function, n, stuck) == NULL))
        {
          gcuda_test_log_print (log);
          g_error ("%s: the failure went unnoticed", what);
        }
      g_clear_object (&scene.made);
    }
  else
    {
      g_assert_null (scene.made);
      if (error == NULL)
        g_error ("%s: failed without an error", what);
      if (!hit)
        g_error ("%s: failed although nothing did: %s", what, error->message);
      g_assert_cmpuint (error->domain, ==, GCUDA_ERROR);
      if (error->code != (int) codes[code].code || strstr (error->message, full_name) == NULL)
        {
          gcuda_test_log_print (log);
          g_error ("%s: code %d, message: %s", what, error->code, error->message);
        }
      if (codes[code].code == CUDA_ERROR_ILLEGAL_ADDRESS)
        g_assert_nonnull (strstr (error->message, "left by earlier work"));
      settle (bed);
      if ((operation->flags & FLAG_NO_SCENE) != 0)
        {
          /* It may have got as far as the primary context, which then stays: one close gives it back. */
          g_autoptr (GCudaContext) context = gcuda_device_get_primary_context (bed->device, NULL);

          g_assert_true (gcuda_context_close (context, NULL));
        }
      if ((operation->flags & FLAG_CAPTURING) == 0)
        {
          /* The stock of events for releases may have grown. */
          gboolean stock = g_str_has_prefix (operation->name, "allocate/") || g_str_has_prefix (operation->name, "buffer/");

          assert_same_balance (&during, stock ? 1 : 0);
        }
      scene_assert_unchanged (&scene, operation, !stuck && g_strcmp0 (operation->partial.function, function) != 0);
      if ((operation->flags & FLAG_RECIPE) != 0 && n % 2 == 1 && code == 1)
        {
          scene_assert_recipe (&scene);
          scene_tear_down (&scene, operation);
          return;
        }
      g_clear_error (&error);
      success = operation->run (&scene, &error);
      if (error != NULL)
        g_error ("%s: it fails when repeated: %s", what, error->message);
      g_assert_true (success);
    }
  scene_tear_down (&scene, operation);
  if ((operation->flags & FLAG_NO_SCENE) == 0)
    assert_same_balance (&before, 16);
}

static void
run_operation (Bed *bed,
               const Operation *operation,
               StreamKind kind)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GListModel) devices = gcuda_get_devices (&error);
  g_autoptr (GCudaDevice) peer = g_list_model_get_item (devices, 1);
  g_autoptr (GCudaContext) elsewhere = NULL;
  g_autofree char *thread = NULL;
  g_autoptr (GPtrArray) names = NULL;
  g_autoptr (GArray) called = NULL;
  g_auto (GStrv) log = NULL;
  Scene scene = { .bed = bed };
  Setting setting = { operation, kind };
  guint points = 0;

  if ((operation->flags & FLAG_PEER) != 0)
    {
      if (peer == NULL || !gcuda_device_can_access_peer (bed->device, peer, NULL))
        {
          g_test_skip ("one device only");
          return;
        }
      setting.peer = scene.peer = peer;
    }

  /* As it is, once. */
  scene_set_up (&scene, operation, kind);
  settle (bed);
  gcuda_test_log_start ();
  g_assert_true (operation->run (&scene, &error));
  g_assert_no_error (error);
  log = gcuda_test_log_take ();
  scene_tear_down (&scene, operation);
  if (!gcuda_test_is_simulated ())
    return;

  thread = this_thread ();
  setting.thread = thread;
  names = functions_of (log, thread);
  called = count_calls (names, operation->until);
  elsewhere = gcuda_context_new (bed->device, GCUDA_CONTEXT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  for (guint other = 0; other < 2; other++)
    {
      setting.elsewhere = other != 0 ? gcuda_context_get_cuda_context (elsewhere) : NULL;
      for (guint i = 0; i < called->len; i++)
        {
          const Called *call = &g_array_index (called, Called, i);

          for (guint n = 1; n <= call->count; n++)
            for (gsize code = 0; code < G_N_ELEMENTS (codes); code++)
              {
                run_failing (bed, &setting, call->name, n, FALSE, code);
                if (strcmp (call->name, "cuCtxPopCurrent") == 0 || strcmp (call->name, "cuThreadExchangeStreamCaptureMode") == 0)
                  run_failing (bed, &setting, call->name, n, TRUE, code);
                points++;
              }
        }
    }
  g_test_message ("%s: %u functions, %u failures", operation->name, called->len, points);
  if (called->len == 0)
    {
      /* So cheap that the driver is not asked: then nothing can fail. */
      g_assert_cmpuint (operation->flags & FLAG_RECIPE, !=, 0);
    }
  g_clear_object (&elsewhere);
  settle (bed);
}

typedef struct
{
  const Operation *operation;
  StreamKind kind;
} Case;

static void
test_operation (Bed *bed,
                gconstpointer data)
{
  const Case *test = data;

  run_operation (bed, test->operation, test->kind);
}

static void
test_operation_closed (gconstpointer data)
{
  const Case *test = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaDevice) device = gcuda_device_new (0, &error);
  Bed bed = { 0 };

  g_assert_no_error (error);
  bed.device = device;
  run_operation (&bed, test->operation, test->kind);
}

/* Releases that fail: nobody is there to be given an error */

typedef struct
{
  char *call;
  guint64 handle;
  guint64 leaked;
  char *message;
} Warning;

static GMutex warnings_lock;
static GPtrArray *warnings; /* NULL: not collecting */

static void
warning_free (gpointer data)
{
  Warning *self = data;

  g_free (self->call);
  g_free (self->message);
  g_free (self);
}

static GLogWriterOutput
collect (GLogLevelFlags level,
         const GLogField *fields,
         gsize n_fields,
         gpointer data)
{
  Warning *warning;
  gboolean ours = FALSE;

  for (gsize i = 0; i < n_fields; i++)
    ours |= strcmp (fields[i].key, "GCUDA_DRIVER_CALL") == 0;
  g_mutex_lock (&warnings_lock);
  if (!ours || warnings == NULL)
    {
      g_mutex_unlock (&warnings_lock);
      return g_log_writer_default (level, fields, n_fields, data);
    }
  warning = g_new0 (Warning, 1);
  for (gsize i = 0; i < n_fields; i++)
    {
      const char *value = fields[i].value;

      g_assert_cmpint (fields[i].length, ==, -1);
      if (strcmp (fields[i].key, "GCUDA_DRIVER_CALL") == 0)
        warning->call = g_strdup (value);
      else if (strcmp (fields[i].key, "GCUDA_HANDLE") == 0)
        warning->handle = g_ascii_strtoull (value, NULL, 16);
      else if (strcmp (fields[i].key, "GCUDA_LEAKED_BYTES") == 0)
        warning->leaked = g_ascii_strtoull (value, NULL, 10);
      else if (strcmp (fields[i].key, "MESSAGE") == 0)
        warning->message = g_strdup (value);
    }
  g_ptr_array_add (warnings, warning);
  g_mutex_unlock (&warnings_lock);
  return G_LOG_WRITER_HANDLED;
}

static void
collect_begin (void)
{
  g_mutex_lock (&warnings_lock);
  g_assert_null (warnings);
  warnings = g_ptr_array_new_with_free_func (warning_free);
  g_mutex_unlock (&warnings_lock);
}

static GPtrArray *
collect_end (void)
{
  GPtrArray *collected;

  g_mutex_lock (&warnings_lock);
  collected = g_steal_pointer (&warnings);
  g_mutex_unlock (&warnings_lock);
  return collected;
}

typedef enum
{
  DROP_POOL_BUFFER,
  DROP_POOL_BUFFER_LEGACY,
  DROP_POOL_BUFFER_PER_THREAD,
  DROP_SYNCHRONOUS_BUFFER,
  DROP_SYNCHRONOUS_BUFFER_LEGACY,
  DROP_SYNCHRONOUS_BUFFER_PER_THREAD,
  DROP_VIRTUAL_BUFFER,
  DROP_STREAM,
  DROP_EVENT,
  DROP_POOL,
  DROP_CONTEXT,
  DROP_GRAPH,
  DROP_DEFINITION,
  DROP_BUILDER,
} Drop;

typedef enum
{
  END_RELEASED, /* tried again, and then it succeeded: silence */
  END_LEAKED,   /* one warning, and what it names stays with the driver */
  END_SILENT,   /* the driver is shutting down: nothing to say, and it stays with the driver */
} End;

typedef struct
{
  const char *name;
  Drop drop;
  const char *spec;
  End end;
  const char *call; /* that the warning names */
} Teardown;

static const Teardown teardowns[] = {
  { "pool-buffer/unknown", DROP_POOL_BUFFER, "cuMemFreeAsync:1=UNKNOWN", END_LEAKED, "cuMemFreeAsync" },
  { "pool-buffer/invalid-value", DROP_POOL_BUFFER, "cuMemFreeAsync:1+=INVALID_VALUE", END_LEAKED, "cuMemFreeAsync" },
  { "pool-buffer/invalid-value-once", DROP_POOL_BUFFER, "cuMemFreeAsync:1=INVALID_VALUE", END_RELEASED, NULL },
  { "pool-buffer/always", DROP_POOL_BUFFER, "cuMemFreeAsync:1+=UNKNOWN", END_LEAKED, "cuMemFreeAsync" },
  { "pool-buffer/deinitialized", DROP_POOL_BUFFER, "cuMemFreeAsync:1=DEINITIALIZED", END_SILENT, NULL },
  { "pool-buffer/not-permitted", DROP_POOL_BUFFER, "cuMemFreeAsync:1=NOT_PERMITTED", END_RELEASED, NULL },
  { "pool-buffer/capture", DROP_POOL_BUFFER, "cuMemFreeAsync:1=STREAM_CAPTURE_UNSUPPORTED", END_RELEASED, NULL },
  { "pool-buffer/capture-implicit", DROP_POOL_BUFFER_LEGACY, "cuMemFreeAsync:1=STREAM_CAPTURE_IMPLICIT", END_RELEASED, NULL },
  { "pool-buffer/mode", DROP_POOL_BUFFER, "cuThreadExchangeStreamCaptureMode:1=UNKNOWN", END_RELEASED, NULL },
  { "pool-buffer/mode-back", DROP_POOL_BUFFER, "cuThreadExchangeStreamCaptureMode:2=UNKNOWN", END_RELEASED, NULL },
  { "pool-buffer/mode-driver-thread", DROP_POOL_BUFFER, "cuThreadExchangeStreamCaptureMode:1=NOT_PERMITTED", END_RELEASED, NULL },
  { "pool-buffer/is-capturing", DROP_POOL_BUFFER_LEGACY, "cuStreamIsCapturing:1=UNKNOWN", END_RELEASED, NULL },
  { "pool-buffer/get-current", DROP_POOL_BUFFER_LEGACY, "cuCtxGetCurrent:1=UNKNOWN", END_RELEASED, NULL },
  { "pool-buffer/push-current", DROP_POOL_BUFFER_LEGACY, "cuCtxPushCurrent:1=UNKNOWN", END_RELEASED, NULL },
  { "pool-buffer/push-current-memory", DROP_POOL_BUFFER_PER_THREAD, "cuCtxPushCurrent:1=OUT_OF_MEMORY", END_RELEASED, NULL },
  { "pool-buffer/pop-current", DROP_POOL_BUFFER_LEGACY, "cuCtxPopCurrent:1=UNKNOWN", END_RELEASED, NULL },
  { "pool-buffer/legacy", DROP_POOL_BUFFER_LEGACY, "cuMemFreeAsync:1=UNKNOWN", END_LEAKED, "cuMemFreeAsync" },
  { "synchronous-buffer/free", DROP_SYNCHRONOUS_BUFFER, "cuMemFree:1=UNKNOWN", END_LEAKED, "cuMemFree" },
  { "synchronous-buffer/deinitialized", DROP_SYNCHRONOUS_BUFFER, "cuMemFree:1=DEINITIALIZED", END_SILENT, NULL },
  { "synchronous-buffer/not-permitted", DROP_SYNCHRONOUS_BUFFER, "cuMemFree:1=NOT_PERMITTED", END_RELEASED, NULL },
  { "synchronous-buffer/capture", DROP_SYNCHRONOUS_BUFFER, "cuMemFree:1=STREAM_CAPTURE_UNSUPPORTED", END_RELEASED, NULL },
  { "synchronous-buffer/record", DROP_SYNCHRONOUS_BUFFER, "cuEventRecord:1=UNKNOWN", END_RELEASED, NULL },
  { "synchronous-buffer/record-capture", DROP_SYNCHRONOUS_BUFFER, "cuEventRecord:1=STREAM_CAPTURE_UNSUPPORTED", END_RELEASED, NULL },
  { "synchronous-buffer/record-legacy", DROP_SYNCHRONOUS_BUFFER_LEGACY, "cuEventRecord:1=OUT_OF_MEMORY", END_RELEASED, NULL },
  { "synchronous-buffer/query", DROP_SYNCHRONOUS_BUFFER, "cuEventQuery:1=UNKNOWN", END_RELEASED, NULL },
  { "synchronous-buffer/query-deinitialized", DROP_SYNCHRONOUS_BUFFER, "cuEventQuery:1=DEINITIALIZED", END_RELEASED, NULL },
  { "synchronous-buffer/is-capturing", DROP_SYNCHRONOUS_BUFFER, "cuStreamIsCapturing:1=UNKNOWN", END_RELEASED, NULL },
  { "synchronous-buffer/is-capturing-again", DROP_SYNCHRONOUS_BUFFER, "cuStreamIsCapturing:2=UNKNOWN", END_RELEASED, NULL },
  { "synchronous-buffer/mode", DROP_SYNCHRONOUS_BUFFER, "cuThreadExchangeStreamCaptureMode:1=UNKNOWN,cuThreadExchangeStreamCaptureMode:2=UNKNOWN", END_RELEASED, NULL },
  { "synchronous-buffer/get-current", DROP_SYNCHRONOUS_BUFFER_LEGACY, "cuCtxGetCurrent:1=UNKNOWN", END_RELEASED, NULL },
  { "synchronous-buffer/push-current", DROP_SYNCHRONOUS_BUFFER_LEGACY, "cuCtxPushCurrent:1=UNKNOWN", END_RELEASED, NULL },
  { "synchronous-buffer/per-thread-record", DROP_SYNCHRONOUS_BUFFER_PER_THREAD, "cuEventRecord:1=UNKNOWN", END_RELEASED, NULL },
  { "synchronous-buffer/per-thread-push", DROP_SYNCHRONOUS_BUFFER_PER_THREAD, "cuCtxPushCurrent:1=UNKNOWN", END_RELEASED, NULL },
  { "synchronous-buffer/per-thread-query", DROP_SYNCHRONOUS_BUFFER_PER_THREAD, "cuEventQuery:1=UNKNOWN", END_RELEASED, NULL },
  { "virtual-buffer/not-permitted", DROP_VIRTUAL_BUFFER, "cuMemUnmap:1=NOT_PERMITTED", END_RELEASED, NULL },
  { "virtual-buffer/capture", DROP_VIRTUAL_BUFFER, "cuMemUnmap:1=STREAM_CAPTURE_UNSUPPORTED", END_RELEASED, NULL },
  { "virtual-buffer/record", DROP_VIRTUAL_BUFFER, "cuEventRecord:1=UNKNOWN", END_RELEASED, NULL },
  { "virtual-buffer/query", DROP_VIRTUAL_BUFFER, "cuEventQuery:1=UNKNOWN", END_RELEASED, NULL },
  { "virtual-buffer/is-capturing", DROP_VIRTUAL_BUFFER, "cuStreamIsCapturing:1=UNKNOWN", END_RELEASED, NULL },
  { "stream/unknown", DROP_STREAM, "cuStreamDestroy:1=UNKNOWN", END_LEAKED, "cuStreamDestroy" },
  { "stream/deinitialized", DROP_STREAM, "cuStreamDestroy:1=DEINITIALIZED", END_SILENT, NULL },
  { "stream/not-permitted", DROP_STREAM, "cuStreamDestroy:1=NOT_PERMITTED", END_RELEASED, NULL },
  { "event/unknown", DROP_EVENT, "cuEventDestroy:1=UNKNOWN", END_LEAKED, "cuEventDestroy" },
  { "event/deinitialized", DROP_EVENT, "cuEventDestroy:1=DEINITIALIZED", END_SILENT, NULL },
  { "event/not-permitted", DROP_EVENT, "cuEventDestroy:1=NOT_PERMITTED", END_RELEASED, NULL },
  { "pool/unknown", DROP_POOL, "cuMemPoolDestroy:1=UNKNOWN", END_LEAKED, "cuMemPoolDestroy" },
  { "pool/deinitialized", DROP_POOL, "cuMemPoolDestroy:1=DEINITIALIZED", END_SILENT, NULL },
  { "pool/not-permitted", DROP_POOL, "cuMemPoolDestroy:1=NOT_PERMITTED", END_RELEASED, NULL },
  { "pool/capture", DROP_POOL, "cuMemPoolDestroy:1=STREAM_CAPTURE_UNSUPPORTED", END_RELEASED, NULL },
  { "graph/unknown", DROP_GRAPH, "cuGraphExecDestroy:1=UNKNOWN", END_LEAKED, "cuGraphExecDestroy" },
  { "graph/deinitialized", DROP_GRAPH, "cuGraphExecDestroy:1=DEINITIALIZED", END_SILENT, NULL },
  { "graph/not-permitted", DROP_GRAPH, "cuGraphExecDestroy:1=NOT_PERMITTED", END_RELEASED, NULL },
  { "graph-definition/unknown", DROP_DEFINITION, "cuGraphDestroy:1=UNKNOWN", END_LEAKED, "cuGraphDestroy" },
  { "graph-definition/deinitialized", DROP_DEFINITION, "cuGraphDestroy:1=DEINITIALIZED", END_SILENT, NULL },
  { "graph-definition/not-permitted", DROP_DEFINITION, "cuGraphDestroy:1=NOT_PERMITTED", END_RELEASED, NULL },
  { "graph-builder/unknown", DROP_BUILDER, "cuStreamEndCapture:1=UNKNOWN", END_RELEASED, NULL },
  { "graph-builder/not-permitted", DROP_BUILDER, "cuStreamEndCapture:1=NOT_PERMITTED", END_RELEASED, NULL },
  { "context/unknown", DROP_CONTEXT, "cuCtxDestroy:1=UNKNOWN", END_LEAKED, "cuCtxDestroy" },
  { "context/deinitialized", DROP_CONTEXT, "cuCtxDestroy:1=DEINITIALIZED", END_SILENT, NULL },
  { "context/record", DROP_CONTEXT, "cuCtxRecordEvent:1=UNKNOWN", END_RELEASED, NULL },
  { "context/query", DROP_CONTEXT, "cuEventQuery:1=UNKNOWN", END_RELEASED, NULL },
  { "context/event-create", DROP_CONTEXT, "cuEventCreate:1=OUT_OF_MEMORY", END_RELEASED, NULL },
};

static void
test_teardown (Bed *bed,
               gconstpointer data)
{
  const Teardown *test = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaStream) stream = NULL;
  g_autoptr (GPtrArray) said = NULL;
  GCudaMemoryResource *resource = NULL;
  GObject *object = NULL;
  GcudasimBalance before;
  guint64 handle = 0, leaked = 0;
  CUcontext current = NULL;

  /* A stock of one event, so that what comes in between does not count. */
  {
    g_autoptr (GCudaSynchronousMemoryResource) first = gcuda_synchronous_memory_resource_new (bed->context, &error);
    g_autoptr (GCudaBuffer) buffer = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (first), SIZE, bed->stream, &error);

    g_assert_no_error (error);
    g_assert_false (gcuda_buffer_is_closed (buffer));
  }
  settle (bed);
  SIMULATOR (gcudasim_balance)
  (&before);

  switch (test->drop)
    {
    case DROP_POOL_BUFFER:
    case DROP_SYNCHRONOUS_BUFFER:
    case DROP_VIRTUAL_BUFFER:
      stream = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
      break;
    case DROP_POOL_BUFFER_LEGACY:
    case DROP_SYNCHRONOUS_BUFFER_LEGACY:
      stream = gcuda_stream_new_legacy_default (bed->context, &error);
      break;
    case DROP_POOL_BUFFER_PER_THREAD:
    case DROP_SYNCHRONOUS_BUFFER_PER_THREAD:
      stream = gcuda_stream_new_per_thread_default (bed->context, &error);
      break;
    case DROP_STREAM:
      object = G_OBJECT (gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error));
      handle = gcuda_stream_get_handle (GCUDA_STREAM (object));
      break;
    case DROP_EVENT:
      object = G_OBJECT (gcuda_event_new (bed->context, GCUDA_EVENT_FLAGS_NONE, &error));
      handle = gcuda_event_get_handle (GCUDA_EVENT (object));
      break;
    case DROP_POOL:
      object = G_OBJECT (gcuda_device_memory_resource_new_pool (bed->device, 0, GCUDA_HANDLE_TYPES_NONE, &error));
      handle = gcuda_device_memory_resource_get_handle (GCUDA_DEVICE_MEMORY_RESOURCE (object));
      break;
    case DROP_GRAPH:
      {
        g_autoptr (GCudaGraphDefinition) definition = gcuda_graph_definition_new (bed->context, &error);

        object = G_OBJECT (gcuda_graph_definition_instantiate (definition, GCUDA_GRAPH_FLAGS_NONE, NULL, &error));
        handle = gcuda_graph_get_handle (GCUDA_GRAPH (object));
      }
      break;
    case DROP_DEFINITION:
      object = G_OBJECT (gcuda_graph_definition_new (bed->context, &error));
      handle = gcuda_graph_definition_get_handle (GCUDA_GRAPH_DEFINITION (object));
      break;
    case DROP_BUILDER:
      object = G_OBJECT (gcuda_graph_builder_new (bed->context, GCUDA_CAPTURE_MODE_GLOBAL, &error));
      break;
    case DROP_CONTEXT:
      object = G_OBJECT (gcuda_context_new (bed->device, GCUDA_CONTEXT_FLAGS_NONE, &error));
      handle = gcuda_context_get_handle (GCUDA_CONTEXT (object));
      break;
    default:
      g_assert_not_reached ();
    }
  g_assert_no_error (error);
  if (stream != NULL)
    {
      switch ((int) test->drop)
        {
        case DROP_POOL_BUFFER:
        case DROP_POOL_BUFFER_LEGACY:
        case DROP_POOL_BUFFER_PER_THREAD:
          resource = GCUDA_MEMORY_RESOURCE (gcuda_device_memory_resource_new_pool (bed->device, 0, GCUDA_HANDLE_TYPES_NONE, &error));
          break;
        case DROP_VIRTUAL_BUFFER:
          resource = GCUDA_MEMORY_RESOURCE (gcuda_virtual_memory_resource_new (bed->device, NULL, &error));
          break;
        default:
          resource = GCUDA_MEMORY_RESOURCE (gcuda_synchronous_memory_resource_new (bed->context, &error));
        }
      g_assert_no_error (error);
      object = G_OBJECT (gcuda_memory_resource_allocate (resource, SIZE, stream, &error));
      g_assert_no_error (error);
      handle = gcuda_buffer_get_address (GCUDA_BUFFER (object));
      leaked = SIZE;
      pattern_fill (GCUDA_BUFFER (object), 0x11, stream);
      g_assert_true (gcuda_device_synchronize (bed->device, &error));
      /* The buffer's are the last references to all of these. */
      g_clear_object (&stream);
      g_object_unref (resource);
    }
  settle (bed);

  collect_begin ();
  gcuda_test_fail_calls (test->spec);
  g_assert_finalize_object (object);
  settle (bed);
  /* What is blocked by a capture is looked at once in a pass, and not waited for. */
  settle (bed);
  settle (bed);
  gcuda_test_fail_calls (NULL);
  settle (bed);
  said = collect_end ();

  assert_cuda (RAW (cuCtxGetCurrent) (&current));
  g_assert_null (current);
  g_assert_cmpint (capture_mode (), ==, CU_STREAM_CAPTURE_MODE_GLOBAL);

  for (guint i = 0; i < said->len; i++)
    g_test_message ("said: %s", ((Warning *) g_ptr_array_index (said, i))->message);
  if (test->end == END_LEAKED)
    {
      Warning *warning;

      g_assert_cmpuint (said->len, ==, 1);
      warning = g_ptr_array_index (said, 0);
      g_assert_cmpstr (warning->call, ==, test->call);
      g_assert_cmphex (warning->handle, ==, handle);
      g_assert_cmpuint (warning->leaked, ==, leaked);
      g_assert_nonnull (strstr (warning->message, "CUDA_ERROR_"));
      g_assert_nonnull (strstr (warning->message, test->call));
    }
  else
    {
      g_assert_cmpuint (said->len, ==, 0);
    }

  /* What was left with the driver is there, whole, and goes when it is asked to. */
  if (test->end != END_RELEASED)
    switch (test->drop)
      {
      case DROP_POOL_BUFFER:
      case DROP_POOL_BUFFER_LEGACY:
      case DROP_POOL_BUFFER_PER_THREAD:
      case DROP_SYNCHRONOUS_BUFFER:
      case DROP_SYNCHRONOUS_BUFFER_LEGACY:
      case DROP_SYNCHRONOUS_BUFFER_PER_THREAD:
        assert_cuda (RAW (cuMemFree) ((CUdeviceptr) handle));
        break;
      case DROP_STREAM:
        assert_cuda (RAW (cuStreamDestroy) ((CUstream) (guintptr) handle));
        break;
      case DROP_EVENT:
        assert_cuda (RAW (cuEventDestroy) ((CUevent) (guintptr) handle));
        break;
      case DROP_POOL:
        /* A real driver was seen to crash in it, in a process that had done all of the above. It goes with the process. */
        if (gcuda_test_is_simulated ())
          assert_cuda (RAW (cuMemPoolDestroy) ((CUmemoryPool) (guintptr) handle));
        break;
      case DROP_GRAPH:
        assert_cuda (RAW (cuGraphExecDestroy) ((CUgraphExec) (guintptr) handle));
        break;
      case DROP_DEFINITION:
        assert_cuda (RAW (cuGraphDestroy) ((CUgraph) (guintptr) handle));
        break;
      case DROP_CONTEXT:
        assert_cuda (RAW (cuCtxDestroy) ((CUcontext) (guintptr) handle));
        break;
      default:
        g_assert_not_reached ();
      }
  /* All else was let go: stream, pool, context. */
  assert_same_balance (&before, 2);
}

/* What a release can't find out must not become a free that comes too early. */
static void
test_record_fails_while_pending (Bed *bed,
                                 gconstpointer data)
{
  const char *spec = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaSynchronousMemoryResource) resource = NULL;
  GCudaBuffer *buffer;
  gboolean asked = FALSE;

  resource = gcuda_synchronous_memory_resource_new (bed->context, &error);
  g_assert_no_error (error);
  buffer = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (resource), SIZE, bed->stream, &error);
  g_assert_no_error (error);
  gcuda_test_hold (bed->stream);
  pattern_fill (buffer, 0x11, bed->stream);
  gcuda_test_log_start ();
  gcuda_test_fail_calls (spec);
  g_assert_finalize_object (buffer);
  g_usleep (20000);
  gcuda_test_fail_calls (NULL);
  g_strfreev (gcuda_test_log_take ());
  /* A free that comes too early would block, and a call is logged when it comes back: who still asks is in none. */
  for (guint i = 0; i < 500 && !asked; i++)
    {
      g_auto (GStrv) log = NULL;

      gcuda_test_log_start ();
      g_usleep (20000);
      log = gcuda_test_log_take ();
      g_assert_cmpuint (gcuda_test_log_count (log, "cuMemFree", NULL), ==, 0);
      asked = gcuda_test_log_count (log, "cuEventQuery", "= NOT_READY", NULL) > 0;
    }
  if (!asked)
    g_test_fail_printf ("nobody asks any more whether the fill has passed");
  gcuda_test_let_go ();
  settle (bed);
}

/* Out of memory, while memory is on its way */

static void
test_out_of_memory_waits (Bed *bed,
                          gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaSynchronousMemoryResource) synchronous = NULL;
  g_autoptr (GCudaBuffer) buffer = NULL;
  g_autoptr (GCudaStream) other = NULL;
  g_auto (GStrv) log = NULL;
  GCudaMemoryResource *resource;
  GThread *thread;
  gboolean pool = data != NULL, freed = FALSE;
  guint tries = 0;
  const char *function = pool ? "cuMemAllocFromPoolAsync" : "cuMemAlloc";
  g_autofree char *spec = g_strdup_printf ("%s:1=OUT_OF_MEMORY", function);

  synchronous = gcuda_synchronous_memory_resource_new (bed->context, &error);
  g_assert_no_error (error);
  other = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  g_assert_no_error (error);
  resource = pool ? bed->resource : GCUDA_MEMORY_RESOURCE (synchronous);
  buffer = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (synchronous), SIZE, bed->stream, &error);
  g_assert_no_error (error);
  gcuda_test_hold (bed->stream);
  pattern_fill (buffer, 0x11, bed->stream);
  g_clear_object (&buffer);

  gcuda_test_log_start ();
  gcuda_test_fail_calls (spec);
  thread = g_thread_new ("let-go", gcuda_test_let_go_soon, NULL);
  buffer = gcuda_memory_resource_allocate (resource, SIZE, other, &error);
  gcuda_test_fail_calls (NULL);
  g_thread_join (thread);
  g_assert_no_error (error);
  g_assert_nonnull (buffer);
  log = gcuda_test_log_take ();
  for (guint i = 0; log[i] != NULL; i++)
    {
      g_autofree char *call = g_strdup_printf (" %s(", function);

      freed |= strstr (log[i], " cuMemFree(") != NULL;
      if (strstr (log[i], call) != NULL && ++tries == 2)
        g_assert_true (freed);
    }
  g_assert_cmpuint (tries, ==, 2);
}

/* Another thread took what came back: as long as something does, it is asked for once more. What a capture puts off stays queued
 * meanwhile, and is not waited for. */
static void
test_out_of_memory_again (Bed *bed,
                          gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaMemoryResource) synchronous = GCUDA_MEMORY_RESOURCE (gcuda_synchronous_memory_resource_new (bed->context, &error));
  g_autoptr (GCudaStream) other = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  g_autoptr (GCudaStream) captured = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  GCudaBuffer *put_off, *pending, *buffer;
  CUgraph graph = NULL;
  GThread *thread;

  g_assert_no_error (error);
  put_off = gcuda_memory_resource_allocate (synchronous, SIZE, captured, &error);
  pending = gcuda_memory_resource_allocate (synchronous, SIZE, bed->stream, &error);
  g_assert_no_error (error);
  assert_cuda (RAW (cuStreamBeginCapture) (gcuda_stream_get_cuda_stream (captured), CU_STREAM_CAPTURE_MODE_RELAXED));
  g_object_unref (put_off);
  gcuda_test_hold (bed->stream);
  pattern_fill (pending, 0x11, bed->stream);
  g_object_unref (pending);

  gcuda_test_fail_calls ("cuMemAlloc:1=OUT_OF_MEMORY,cuMemAlloc:2=OUT_OF_MEMORY");
  thread = g_thread_new ("let-go", gcuda_test_let_go_soon, NULL);
  buffer = gcuda_memory_resource_allocate (synchronous, SIZE, other, &error);
  gcuda_test_fail_calls (NULL);
  g_thread_join (thread);
  g_assert_no_error (error);
  g_object_unref (buffer);
  assert_cuda (RAW (cuStreamEndCapture) (gcuda_stream_get_cuda_stream (captured), &graph));
  assert_cuda (RAW (cuGraphDestroy) (graph));
  settle (bed);
}

/* A step fails, and its undoing too: what is left behind is said, as in any other release. */
static void
test_undoing_fails (Bed *bed,
                    gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaLocation) location = gcuda_location_new_device (bed->device);
  g_autoptr (GCudaManagedMemoryResource) resource = gcuda_managed_memory_resource_new_unpooled (bed->device, location, &error);
  g_autoptr (GCudaBuffer) none = NULL;
  g_autoptr (GPtrArray) said = NULL;
  Warning *warning;
  CUcontext popped;

  g_assert_no_error (error);
  collect_begin ();
  gcuda_test_fail_calls ("cuMemAdvise:1=INVALID_VALUE,cuMemFree:1=UNKNOWN");
  none = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (resource), SIZE, bed->stream, &error);
  gcuda_test_fail_calls (NULL);
  settle (bed);
  said = collect_end ();
  g_assert_null (none);
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_VALUE);
  g_assert_cmpuint (said->len, ==, 1);
  warning = g_ptr_array_index (said, 0);
  g_assert_cmpstr (warning->call, ==, "cuMemFree");
  g_assert_cmpuint (warning->leaked, ==, SIZE);
  g_assert_cmphex (warning->handle, !=, 0);
  assert_cuda (RAW (cuCtxPushCurrent) (gcuda_context_get_cuda_context (bed->context)));
  assert_cuda (RAW (cuMemFree) (warning->handle));
  assert_cuda (RAW (cuCtxPopCurrent) (&popped));
}

static void
test_out_of_memory_gives_up (Bed *bed,
                             gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaSynchronousMemoryResource) synchronous = NULL;
  g_autoptr (GCudaBuffer) buffer = NULL;
  g_autoptr (GCudaBuffer) none = NULL;
  gint64 start;

  synchronous = gcuda_synchronous_memory_resource_new (bed->context, &error);
  g_assert_no_error (error);

  /* Nothing is on its way: no wait. */
  gcuda_test_fail_calls ("cuMemAlloc:1+=OUT_OF_MEMORY");
  start = g_get_monotonic_time ();
  none = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (synchronous), SIZE, bed->stream, &error);
  g_assert_cmpint (g_get_monotonic_time () - start, <, G_TIME_SPAN_SECOND / 2);
  assert_error_and_clear (error, GCUDA_ERROR_OUT_OF_MEMORY);
  g_assert_null (none);
  gcuda_test_fail_calls (NULL);

  /* It does not come: a wait, but not for ever. */
  buffer = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (synchronous), SIZE, bed->stream, &error);
  g_assert_no_error (error);
  gcuda_test_hold (bed->stream);
  pattern_fill (buffer, 0x11, bed->stream);
  g_clear_object (&buffer);
  gcuda_test_fail_calls ("cuMemAlloc:1+=OUT_OF_MEMORY");
  start = g_get_monotonic_time ();
  none = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (synchronous), SIZE, bed->stream, &error);
  g_assert_cmpint (g_get_monotonic_time () - start, >=, G_TIME_SPAN_SECOND / 2);
  g_assert_cmpint (g_get_monotonic_time () - start, <, 10 * G_TIME_SPAN_SECOND);
  assert_error_and_clear (error, GCUDA_ERROR_OUT_OF_MEMORY);
  g_assert_null (none);
  gcuda_test_fail_calls (NULL);
  gcuda_test_let_go ();
  settle (bed);

  /* And it is not remembered. */
  buffer = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (synchronous), SIZE, bed->stream, &error);
  g_assert_no_error (error);
  pattern_fill (buffer, 0x11, bed->stream);
  pattern_assert (buffer, 0x11, bed->stream);
}

/* The first use of the library: each step of loading the driver and of looking up the devices. */
static void
test_load (void)
{
  static const char *const loading[] = { "cuInit", "cuGetProcAddress" };
  static const char *const looking_up[] = {
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetName",
    "cuDeviceGetUuid",
    "cuDeviceGetPCIBusId",
    "cuDeviceTotalMem",
    "cuDeviceGetAttribute",
  };
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaDevice) device = NULL;
  g_autoptr (GListModel) devices = NULL;

  if (!g_test_subprocess ())
    {
      g_test_trap_subprocess (NULL, 0, G_TEST_SUBPROCESS_DEFAULT);
      g_test_trap_assert_passed ();
      g_test_trap_assert_stderr ("");
      return;
    }

  /* The simulated driver is opened here first, so that its calls can be made to fail before the library knows it. */
  {
    const char *path = g_getenv ("GCUDASIM_LIBRARY");
    void *handle = dlopen (path != NULL ? path : "libgcudasim.so", RTLD_NOW | RTLD_LOCAL);
    int (*fail) (const char *) = NULL;

    g_assert_nonnull (handle);
    *(void **) &fail = dlsym (handle, "gcudasim_fail");
    for (gsize i = 0; i < G_N_ELEMENTS (loading); i++)
      for (guint n = 1; n <= 3; n++)
        {
          g_autofree char *spec = g_strdup_printf ("%s:%u=OUT_OF_MEMORY", loading[i], i == 0 ? 1 : n);

          g_assert_true (fail (spec));
          g_assert_null (gcuda_device_new (0, &error));
          g_assert_nonnull (error);
          g_assert_cmpuint (error->domain, ==, GCUDA_ERROR);
          if (i == 0)
            {
              g_assert_cmpint (error->code, ==, GCUDA_ERROR_OUT_OF_MEMORY);
              g_assert_nonnull (strstr (error->message, "CUDA_ERROR_OUT_OF_MEMORY"));
            }
          else
            {
              g_assert_cmpint (error->code, ==, GCUDA_ERROR_DRIVER_TOO_OLD);
            }
          g_clear_error (&error);
        }
    for (gsize i = 0; i < G_N_ELEMENTS (looking_up); i++)
      for (guint n = 1; n <= (i == G_N_ELEMENTS (looking_up) - 1 ? 2 : 1); n++)
        {
          g_autofree char *spec = g_strdup_printf ("%s:%u=OUT_OF_MEMORY", looking_up[i], n);

          g_assert_true (fail (spec));
          g_assert_null (gcuda_device_new (0, &error));
          g_assert_error (error, GCUDA_ERROR, GCUDA_ERROR_OUT_OF_MEMORY);
          g_assert_nonnull (strstr (error->message, "CUDA_ERROR_OUT_OF_MEMORY"));
          g_clear_error (&error);
          g_assert_true (fail (spec));
          g_assert_null (gcuda_get_devices (&error));
          g_assert_error (error, GCUDA_ERROR, GCUDA_ERROR_OUT_OF_MEMORY);
          g_clear_error (&error);
        }
    g_assert_true (fail (NULL));
  }
  device = gcuda_device_new (0, &error);
  g_assert_no_error (error);
  devices = gcuda_get_devices (&error);
  g_assert_no_error (error);
  g_assert_cmpuint (g_list_model_get_n_items (devices), >=, 1);
}

/* Made once, and not for each test: there are hundreds, and on a GPU that is what takes the time. */
static void
keep_primary_context (void)
{
  CUcontext context;

  if (RAW (cuInit) (0) == CUDA_SUCCESS)
    assert_cuda (RAW (cuDevicePrimaryCtxRetain) (&context, 0));
}

int
main (int argc,
      char **argv)
{
  static const char *const stream_names[] = { "created", "legacy", "per-thread" };
  static Case cases[G_N_ELEMENTS (operations) * N_STREAMS];
  guint n_cases = 0;

  /* Where the environment says nothing, two devices: peers are a part of this. */
  g_setenv ("GCUDASIM_DEVICES", "2", FALSE);
  gcuda_test_init (&argc, &argv);
  if (!g_test_subprocess () && !gcuda_test_is_simulated ())
    keep_primary_context ();
  g_log_set_writer_func (collect, NULL, NULL);

  for (gsize i = 0; i < G_N_ELEMENTS (operations); i++)
    for (StreamKind kind = STREAM_CREATED; kind < ((operations[i].flags & FLAG_ALL_STREAMS) != 0 ? N_STREAMS : STREAM_LEGACY); kind++)
      {
        g_autofree char *path = NULL;
        Case *test = &cases[n_cases++];

        test->operation = &operations[i];
        test->kind = kind;
        if ((operations[i].flags & FLAG_ALL_STREAMS) != 0)
          path = g_strdup_printf ("/failures/%s/%s", operations[i].name, stream_names[kind]);
        else
          path = g_strdup_printf ("/failures/%s", operations[i].name);
        if ((operations[i].flags & FLAG_NO_SCENE) != 0)
          g_test_add_data_func (path, test, test_operation_closed);
        else
          bed_add_data (path, test, test_operation);
      }
  /* What follows is about failures alone. */
  if (g_test_subprocess () || gcuda_test_is_simulated ())
    g_test_add_func ("/failures/load", test_load);
  if (!g_test_subprocess () && gcuda_test_can_fail_calls ())
    {
      for (gsize i = 0; i < G_N_ELEMENTS (teardowns); i++)
        {
          g_autofree char *path = g_strdup_printf ("/failures/teardown/%s", teardowns[i].name);

          bed_add_data (path, &teardowns[i], test_teardown);
        }
      bed_add_data ("/failures/teardown/pending/record-memory", "cuEventRecord:1=OUT_OF_MEMORY", test_record_fails_while_pending);
      bed_add_data ("/failures/teardown/pending/record-unknown", "cuEventRecord:1=UNKNOWN", test_record_fails_while_pending);
      bed_add_data ("/failures/teardown/pending/create", "cuEventCreate:1+=OUT_OF_MEMORY", test_record_fails_while_pending);
      bed_add_data ("/failures/teardown/pending/is-capturing", "cuStreamIsCapturing:1=UNKNOWN", test_record_fails_while_pending);
      bed_add_data ("/failures/teardown/pending/is-capturing-again", "cuStreamIsCapturing:2=UNKNOWN", test_record_fails_while_pending);
      bed_add_data ("/failures/teardown/pending/query", "cuEventQuery:1=UNKNOWN", test_record_fails_while_pending);
      bed_add_data ("/failures/teardown/pending/query-capture", "cuEventQuery:2=STREAM_CAPTURE_UNSUPPORTED", test_record_fails_while_pending);
      bed_add_data ("/failures/out-of-memory/waits", NULL, test_out_of_memory_waits);
      bed_add_data ("/failures/out-of-memory/waits-pool", "pool", test_out_of_memory_waits);
      bed_add ("/failures/out-of-memory/again", test_out_of_memory_again);
      bed_add ("/failures/out-of-memory/gives-up", test_out_of_memory_gives_up);
      bed_add ("/failures/undoing", test_undoing_fails);
    }

  return g_test_run ();
}
