/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-test.h"

static void
test_created (Bed *bed,
              gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaStream) plain = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  g_autoptr (GCudaStream) blocking = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_BLOCKING, -1, &error);
  g_autoptr (GCudaStream) extreme = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, -1000, &error);
  int greatest = 0;
  CUcontext popped;

  g_assert_no_error (error);
  g_assert_false (gcuda_stream_is_blocking (plain));
  g_assert_true (gcuda_stream_is_blocking (blocking));
  g_assert_cmpint (gcuda_stream_get_priority (plain), ==, 0);
  g_assert_cmpint (gcuda_stream_get_priority (blocking), ==, -1);
  assert_cuda (RAW (cuCtxPushCurrent) (gcuda_context_get_cuda_context (bed->context)));
  assert_cuda (RAW (cuCtxGetStreamPriorityRange) (NULL, &greatest));
  assert_cuda (RAW (cuCtxPopCurrent) (&popped));
  g_assert_cmpint (gcuda_stream_get_priority (extreme), ==, greatest);
  g_assert_true (gcuda_stream_get_context (plain) == bed->context);
  g_assert_true (gcuda_stream_get_device (plain) == bed->device);
  g_assert_false (gcuda_stream_is_legacy_default (plain));
  g_assert_false (gcuda_stream_is_per_thread_default (plain));
  g_assert_cmpuint (gcuda_stream_get_handle (plain), >, 2);
}

static void
test_defaults (Bed *bed,
               gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaStream) legacy = gcuda_stream_new_legacy_default (bed->context, &error);
  g_autoptr (GCudaStream) per_thread = gcuda_stream_new_per_thread_default (bed->context, &error);
  g_autoptr (GCudaBuffer) buffer = NULL;

  g_assert_no_error (error);
  g_assert_true (gcuda_stream_is_legacy_default (legacy));
  g_assert_true (gcuda_stream_is_per_thread_default (per_thread));
  g_assert_cmpuint (gcuda_stream_get_handle (legacy), ==, 1);
  g_assert_cmpuint (gcuda_stream_get_handle (per_thread), ==, 2);
  /* No context is current here: the streams bring theirs. */
  buffer = gcuda_memory_resource_allocate (bed->resource, 512, legacy, &error);
  g_assert_no_error (error);
  pattern_fill (buffer, 9, legacy);
  g_assert_true (gcuda_stream_wait_stream (per_thread, legacy, &error));
  g_assert_no_error (error);
  pattern_assert (buffer, 9, per_thread);
  g_assert_true (gcuda_stream_query (legacy, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_stream_synchronize (legacy, &error));
  g_assert_no_error (error);
}

static void
test_order (Bed *bed,
            gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaStream) other = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  g_autoptr (GCudaBuffer) buffer = gcuda_memory_resource_allocate (bed->resource, 1 << 20, bed->stream, &error);
  Blocker *blocker = blocker_new (bed->stream);

  g_assert_no_error (error);
  pattern_fill (buffer, 0xaa, bed->stream);
  g_assert_false (gcuda_stream_query (bed->stream, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_stream_wait_stream (other, bed->stream, &error));
  g_assert_no_error (error);
  g_assert_false (gcuda_stream_query (other, &error));
  g_assert_no_error (error);
  blocker_release (blocker);
  pattern_assert (buffer, 0xaa, other);
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  g_assert_true (gcuda_stream_query (bed->stream, &error));
  g_assert_no_error (error);
}

static void
assert_all_closed (GCudaStream *stream,
                   Bed *bed)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = gcuda_memory_resource_allocate (bed->resource, 64, bed->stream, &error);
  g_autoptr (GBytes) bytes = g_bytes_new_static ("1234", 4);
  guint64 calls;

  g_assert_no_error (error);
  g_assert_true (gcuda_stream_is_closed (stream));
  g_assert_cmpuint (gcuda_stream_get_handle (stream), ==, 0);
  calls = gcuda_test_is_simulated () ? gcuda_test_count_calls (NULL) : 0;
#define CLOSED(call)     \
  g_assert_false (call); \
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED)
  CLOSED (gcuda_stream_synchronize (stream, &error));
  CLOSED (gcuda_stream_query (stream, &error));
  CLOSED (gcuda_stream_is_capturing (stream, &error));
  CLOSED (gcuda_stream_wait_stream (stream, bed->stream, &error));
  CLOSED (gcuda_stream_wait_stream (bed->stream, stream, &error));
  CLOSED (gcuda_buffer_fill (buffer, 0, 1, stream, &error));
  CLOSED (gcuda_buffer_upload (buffer, 0, bytes, stream, &error));
  CLOSED (gcuda_buffer_set_deallocation_stream (buffer, stream, &error));
  CLOSED (gcuda_buffer_close (buffer, stream, &error));
  CLOSED (gcuda_memory_resource_allocate (bed->resource, 64, stream, &error) != NULL);
  CLOSED (gcuda_memory_resource_allocate (bed->resource, 0, stream, &error) != NULL);
  CLOSED (gcuda_memory_resource_allocate_address (bed->resource, 64, 0, stream, &error) != 0);
  CLOSED (gcuda_buffer_download (buffer, 0, 4, stream, &error) != NULL);
  CLOSED (gcuda_buffer_new_for_address (bed->device, 0x1000, 4, NULL, stream, &error) != NULL);
#undef CLOSED
  /* Refused before the driver was asked. */
  if (gcuda_test_is_simulated ())
    g_assert_cmpuint (gcuda_test_count_calls (NULL), ==, calls);
  g_assert_true (gcuda_stream_close (stream, &error));
  g_assert_no_error (error);
}

static void
test_closed (Bed *bed,
             gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaStream) stream = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  g_autoptr (GCudaStream) disposed = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  g_autoptr (GCudaStream) legacy = gcuda_stream_new_legacy_default (bed->context, &error);
  g_autoptr (GCudaStream) bare = g_object_new (GCUDA_TYPE_STREAM, NULL);

  g_assert_no_error (error);
  g_assert_true (gcuda_stream_close (stream, &error));
  assert_all_closed (stream, bed);
  g_object_run_dispose (G_OBJECT (disposed));
  g_object_run_dispose (G_OBJECT (disposed));
  assert_all_closed (disposed, bed);
  g_assert_true (gcuda_stream_close (legacy, &error));
  assert_all_closed (legacy, bed);
  assert_all_closed (bare, bed);
  g_assert_null (gcuda_stream_get_context (bare));
  g_assert_null (gcuda_stream_get_device (bare));
}

/* Closing a stream whose work is pending waits for nothing, and the work is done. */
static void
test_close_pending (Bed *bed,
                    gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  GCudaStream *stream = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  g_autoptr (GCudaBuffer) buffer = gcuda_memory_resource_allocate (bed->resource, 4096, bed->stream, &error);
  Blocker *blocker;

  g_assert_no_error (error);
  g_assert_true (gcuda_stream_wait_stream (stream, bed->stream, &error));
  blocker = blocker_new (stream);
  pattern_fill (buffer, 0x66, stream);
  g_assert_true (gcuda_stream_wait_stream (bed->stream, stream, &error));
  g_assert_true (gcuda_stream_close (stream, &error));
  g_assert_finalize_object (stream);
  blocker_release (blocker);
  pattern_assert (buffer, 0x66, bed->stream);
}

typedef struct
{
  GCudaStream *stream;
  gint begun;
  gint done; /* calls */
} Caller;

static gpointer
synchronize_once (gpointer data)
{
  Caller *self = data;
  g_autoptr (GError) error = NULL;

  g_atomic_int_set (&self->begun, TRUE);
  g_assert_true (gcuda_stream_synchronize (self->stream, &error));
  g_assert_no_error (error);
  return NULL;
}

/* Closed while another thread's call waits in it: the driver's stream lives until the call is over, and no longer. */
static void
test_close_under_call (Bed *bed,
                       gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  Caller caller = { .stream = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error) };
  guint64 destroyed = gcuda_test_is_simulated () ? gcuda_test_count_calls ("cuStreamDestroy") : 0;
  Blocker *blocker;
  GThread *thread;

  g_assert_no_error (error);
  blocker = blocker_new (caller.stream);
  thread = g_thread_new ("caller", synchronize_once, &caller);
  while (!g_atomic_int_get (&caller.begun))
    g_thread_yield ();
  g_usleep (20000);
  g_assert_true (gcuda_stream_close (caller.stream, &error));
  g_assert_false (gcuda_stream_synchronize (caller.stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  if (gcuda_test_is_simulated ())
    g_assert_cmpuint (gcuda_test_count_calls ("cuStreamDestroy"), ==, destroyed);
  blocker_release (blocker);
  g_thread_join (thread);
  g_assert_finalize_object (caller.stream);
  for (guint i = 0; gcuda_test_is_simulated () && i < 10000 && gcuda_test_count_calls ("cuStreamDestroy") == destroyed; i++)
    g_usleep (1000);
  if (gcuda_test_is_simulated ())
    g_assert_cmpuint (gcuda_test_count_calls ("cuStreamDestroy"), ==, destroyed + 1);
}

static gpointer
call_until_closed (gpointer data)
{
  Caller *self = data;
  g_autoptr (GError) error = NULL;

  g_atomic_int_inc (&self->begun);
  while (gcuda_stream_query (self->stream, &error) || error == NULL)
    g_atomic_int_inc (&self->done);
  g_assert_error (error, GCUDA_ERROR, (int) GCUDA_ERROR_CLOSED);
  return NULL;
}

/* Closed while threads call it all the time: each call is whole, or refused. */
static void
test_close_under_many (Bed *bed,
                       gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  guint64 destroyed = gcuda_test_is_simulated () ? gcuda_test_count_calls ("cuStreamDestroy") : 0;
  const guint rounds = 50;

  for (guint i = 0; i < rounds; i++)
    {
      Caller caller = { .stream = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error) };
      GThread *threads[3];

      g_assert_no_error (error);
      for (guint j = 0; j < G_N_ELEMENTS (threads); j++)
        threads[j] = g_thread_new ("caller", call_until_closed, &caller);
      while (g_atomic_int_get (&caller.begun) < (gint) G_N_ELEMENTS (threads) || g_atomic_int_get (&caller.done) < (gint) i)
        g_thread_yield ();
      g_assert_true (gcuda_stream_close (caller.stream, &error));
      g_assert_no_error (error);
      for (guint j = 0; j < G_N_ELEMENTS (threads); j++)
        g_thread_join (threads[j]);
      g_assert_finalize_object (caller.stream);
    }
  for (guint i = 0; gcuda_test_is_simulated () && i < 10000 && gcuda_test_count_calls ("cuStreamDestroy") < destroyed + rounds; i++)
    g_usleep (1000);
  if (gcuda_test_is_simulated ())
    g_assert_cmpuint (gcuda_test_count_calls ("cuStreamDestroy"), ==, destroyed + rounds);
}

static void
test_bad_arguments (Bed *bed,
                    gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaContext) other = gcuda_context_new (bed->device, GCUDA_CONTEXT_FLAGS_NONE, &error);

  g_assert_no_error (error);
  g_assert_null (gcuda_stream_new (NULL, GCUDA_STREAM_FLAGS_NONE, 0, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_null (gcuda_stream_new (bed->context, (GCudaStreamFlags) 2, 0, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_null (gcuda_stream_new_for_device (NULL, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_null (gcuda_stream_new_legacy_default (NULL, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_null (gcuda_stream_new_per_thread_default (NULL, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  for (guint64 token = 0; token <= 2; token++)
    {
      g_assert_null (gcuda_stream_new_for_handle (bed->context, token, NULL, &error));
      assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
    }
  g_assert_null (gcuda_stream_new_for_handle (other, gcuda_stream_get_handle (bed->stream), NULL, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_false (gcuda_stream_wait_stream (bed->stream, NULL, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_false (gcuda_stream_launch_host_function (bed->stream, NULL, NULL, NULL, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
}

static void
set_flag (gpointer data,
          GObject *object)
{
  g_atomic_int_set ((gint *) data, TRUE);
}

/* A foreign stream is never destroyed; its owner lives until the last recipe that names it is gone. */
static void
test_foreign (Bed *bed,
              gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  GObject *owner = g_object_new (G_TYPE_OBJECT, NULL);
  GCudaStream *stream;
  GCudaBuffer *buffer;
  CUcontext popped;
  CUstream raw;
  gint gone = FALSE;

  assert_cuda (RAW (cuCtxPushCurrent) (gcuda_context_get_cuda_context (bed->context)));
  assert_cuda (RAW (cuStreamCreate) (&raw, CU_STREAM_DEFAULT));
  assert_cuda (RAW (cuCtxPopCurrent) (&popped));
  g_object_weak_ref (owner, set_flag, &gone);
  stream = gcuda_stream_new_for_handle (bed->context, (guint64) (guintptr) raw, owner, &error);
  g_object_unref (owner);
  g_assert_no_error (error);
  g_assert_true (gcuda_stream_is_blocking (stream));
  buffer = gcuda_memory_resource_allocate (bed->resource, 4096, stream, &error);
  g_assert_no_error (error);
  gcuda_test_log_start ();
  g_assert_finalize_object (stream);
  while (g_main_context_iteration (NULL, FALSE))
    ;
  g_assert_false (gone);
  assert_cuda (RAW (cuStreamSynchronize) (raw));
  pattern_fill (buffer, 1, bed->stream);
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  g_object_unref (buffer);
  /* From the loop, and not before. */
  g_assert_false (gone);
  iterate_until (&gone);
  if (gcuda_test_is_simulated ())
    {
      g_auto (GStrv) log = gcuda_test_log_take ();
      g_autofree char *handle = g_strdup_printf ("0x%" G_GINTPTR_MODIFIER "x", (guintptr) raw);

      g_assert_cmpuint (gcuda_test_log_count (log, "cuMemFreeAsync", handle, "= SUCCESS", NULL), ==, 1);
      g_assert_cmpuint (gcuda_test_log_count (log, "cuStreamDestroy", handle, NULL), ==, 0);
    }
  assert_cuda (RAW (cuStreamDestroy) (raw));
}

/* Host functions */

static void
test_host_function (Bed *bed,
                    gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  Call call = { g_thread_self () };

  g_assert_true (gcuda_stream_launch_host_function (bed->stream, call_run, &call, call_destroyed, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  g_assert_no_error (error);
  /* The stream has passed, and no loop ran: nothing was called, on whatever thread. */
  g_usleep (2000);
  g_assert_cmpint (g_atomic_int_get (&call.called), ==, 0);
  g_assert_cmpint (g_atomic_int_get (&call.destroyed), ==, 0);
  iterate_until (&call.destroyed);
  g_assert_cmpint (call.called, ==, 1);
  g_assert_cmpint (call.destroyed, ==, 1);
}

static gpointer
own_loop (gpointer data)
{
  Bed *bed = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (GMainContext) context = g_main_context_new ();
  Call call = { g_thread_self () };

  g_main_context_push_thread_default (context);
  g_assert_true (gcuda_stream_launch_host_function (bed->stream, call_run, &call, call_destroyed, &error));
  g_assert_no_error (error);
  while (!g_atomic_int_get (&call.destroyed))
    g_main_context_iteration (context, TRUE);
  g_assert_cmpint (call.called, ==, 1);
  g_main_context_pop_thread_default (context);
  return NULL;
}

static void
test_host_function_in_thread (Bed *bed,
                              gconstpointer data)
{
  in_thread (own_loop, bed);
}

static void
test_host_function_refused (Bed *bed,
                            gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaStream) closed = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  Call call = { g_thread_self () };

  g_assert_true (gcuda_stream_close (closed, &error));
  g_assert_false (gcuda_stream_launch_host_function (closed, call_run, &call, call_destroyed, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  /* Each time the data is let go, at once. */
  g_assert_cmpint (call.destroyed, ==, 1);
  call.destroyed = 0;
  g_assert_false (gcuda_stream_launch_host_function (bed->stream, NULL, &call, call_destroyed, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_cmpint (call.destroyed, ==, 1);
  call.destroyed = 0;
  if (gcuda_test_is_simulated ())
    {
      gcuda_test_fail_calls ("cuLaunchHostFunc:1=OUT_OF_MEMORY");
      g_assert_false (gcuda_stream_launch_host_function (bed->stream, call_run, &call, call_destroyed, &error));
      assert_error_and_clear (error, GCUDA_ERROR_OUT_OF_MEMORY);
      gcuda_test_fail_calls (NULL);
      g_assert_cmpint (call.destroyed, ==, 1);
      call.destroyed = 0;
    }
  while (g_main_context_iteration (NULL, FALSE))
    ;
  g_assert_cmpint (call.called, ==, 0);
  g_assert_cmpint (call.destroyed, ==, 0);
}

/* What can't be captured is refused before the driver is asked, and the capture stays valid. */
static void
test_capture (Bed *bed,
              gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = gcuda_memory_resource_allocate (bed->resource, 64, bed->stream, &error);
  g_autoptr (GCudaSynchronousMemoryResource) synchronous = gcuda_synchronous_memory_resource_new (bed->context, &error);
  g_autoptr (GBytes) bytes = g_bytes_new_static ("12345678", 8);
  CUstream raw = gcuda_stream_get_cuda_stream (bed->stream);
  CUgraph graph = NULL;
  size_t nodes = 0;

  g_assert_no_error (error);
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  g_assert_false (gcuda_stream_is_capturing (bed->stream, &error));
  assert_cuda (RAW (cuStreamBeginCapture) (raw, CU_STREAM_CAPTURE_MODE_GLOBAL));
  g_assert_true (gcuda_stream_is_capturing (bed->stream, &error));
  g_assert_no_error (error);
#define CAPTURING(call)  \
  g_assert_false (call); \
  assert_error_and_clear (error, GCUDA_ERROR_CAPTURING)
  CAPTURING (gcuda_stream_synchronize (bed->stream, &error));
  CAPTURING (gcuda_stream_query (bed->stream, &error));
  CAPTURING (gcuda_memory_resource_allocate (bed->resource, 64, bed->stream, &error) != NULL);
  CAPTURING (gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (synchronous), 64, bed->stream, &error) != NULL);
  CAPTURING (gcuda_buffer_download (buffer, 0, 8, bed->stream, &error) != NULL);
#undef CAPTURING
  /* Work can be captured, and the graph keeps the data that it uploads. */
  g_assert_true (gcuda_buffer_fill (buffer, 3, 1, bed->stream, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_buffer_upload (buffer, 8, bytes, bed->stream, &error));
  g_assert_no_error (error);
  assert_cuda (RAW (cuStreamEndCapture) (raw, &graph));
  assert_cuda (RAW (cuGraphGetNodes) (graph, NULL, &nodes));
  g_assert_cmpuint (nodes, ==, 2);
  assert_cuda (RAW (cuGraphDestroy) (graph));
  g_assert_false (gcuda_stream_is_capturing (bed->stream, &error));
  g_assert_no_error (error);
}

static gboolean
is_checked (void)
{
  int (*is_checking) (void) = (int (*) (void)) gcuda_test_simulator_function ("gcudasim_is_checking");

  return is_checking != NULL && is_checking ();
}

static void
test_declare_access (Bed *bed,
                     gconstpointer data)
{
  static const struct
  {
    guint64 offset, size;
    guint access;
    int code; /* 0: none */
  } cases[] = {
    { 0, 4096, GCUDA_ACCESS_FLAGS_READ, 0 },
    { 0, 4096, GCUDA_ACCESS_FLAGS_WRITE, 0 },
    { 4095, 1, GCUDA_ACCESS_FLAGS_READ | GCUDA_ACCESS_FLAGS_WRITE, 0 },
    { 4096, 0, GCUDA_ACCESS_FLAGS_READ, 0 },
    { 0, 0, GCUDA_ACCESS_FLAGS_READ, 0 },
    { 0, 4097, GCUDA_ACCESS_FLAGS_READ, GCUDA_ERROR_INVALID_ARGUMENT },
    { 4096, 1, GCUDA_ACCESS_FLAGS_READ, GCUDA_ERROR_INVALID_ARGUMENT },
    { 4097, 0, GCUDA_ACCESS_FLAGS_READ, GCUDA_ERROR_INVALID_ARGUMENT },
    { 2, G_MAXUINT64, GCUDA_ACCESS_FLAGS_READ, GCUDA_ERROR_INVALID_ARGUMENT },
    { 0, 1, GCUDA_ACCESS_FLAGS_NONE, GCUDA_ERROR_INVALID_ARGUMENT },
    { 0, 1, 0x80, GCUDA_ERROR_INVALID_ARGUMENT },
    { 0, 1, GCUDA_ACCESS_FLAGS_READ | 0x80, GCUDA_ERROR_INVALID_ARGUMENT },
  };
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = gcuda_memory_resource_allocate (bed->resource, 4096, bed->stream, &error);

  assert_no_error (error);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      gboolean success = gcuda_stream_declare_access (bed->stream, buffer, cases[i].offset, cases[i].size, (GCudaAccessFlags) cases[i].access, &error);

      if (cases[i].code == 0 || !is_checked ())
        {
          assert_no_error (error);
          g_assert_true (success);
        }
      else
        {
          g_assert_false (success);
          assert_error_and_clear (error, cases[i].code);
        }
      /* Without a place for the error. */
      g_assert_true (gcuda_stream_declare_access (bed->stream, buffer, cases[i].offset, cases[i].size, (GCudaAccessFlags) cases[i].access, NULL) == success);
    }
  if (!is_checked ())
    return;
  g_assert_false (gcuda_stream_declare_access (bed->stream, NULL, 0, 1, GCUDA_ACCESS_FLAGS_READ, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_true (gcuda_buffer_close (buffer, bed->stream, &error));
  g_assert_false (gcuda_stream_declare_access (bed->stream, buffer, 0, 1, GCUDA_ACCESS_FLAGS_READ, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
}

int
main (int argc,
      char **argv)
{
  gcuda_test_init (&argc, &argv);
  bed_add ("/stream/created", test_created);
  bed_add ("/stream/defaults", test_defaults);
  bed_add ("/stream/order", test_order);
  bed_add ("/stream/closed", test_closed);
  bed_add ("/stream/close-pending", test_close_pending);
  bed_add ("/stream/close-under-call", test_close_under_call);
  bed_add ("/stream/close-under-many", test_close_under_many);
  bed_add ("/stream/bad-arguments", test_bad_arguments);
  bed_add ("/stream/foreign", test_foreign);
  bed_add ("/stream/host-function", test_host_function);
  bed_add ("/stream/host-function/in-thread", test_host_function_in_thread);
  bed_add ("/stream/host-function/refused", test_host_function_refused);
  bed_add ("/stream/capture", test_capture);
  bed_add ("/stream/declare-access", test_declare_access);
  return g_test_run ();
}
