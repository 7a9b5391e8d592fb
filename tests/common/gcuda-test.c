/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-test.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "gcudamem/simulator/gcudasim.h"

static gpointer driver; /* as the library opened it */

void
gcuda_test_init (int *argc,
                 char ***argv)
{
  g_test_init (argc, argv, G_TEST_OPTION_ISOLATE_DIRS, NULL);
}

static gpointer
open_driver (void)
{
  if (driver == NULL)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GCudaDriverInfo) info = gcuda_get_driver_info (&error);

      g_assert_no_error (error);
      driver = dlopen (gcuda_driver_info_get_path (info), RTLD_NOW | RTLD_LOCAL);
      g_assert_nonnull (driver);
    }
  return driver;
}

gboolean
gcuda_test_is_simulated (void)
{
  int (*is_simulating) (void) = (int (*) (void)) dlsym (open_driver (), "gcudasim_is_simulating");

  return is_simulating != NULL && is_simulating ();
}

gpointer
gcuda_test_driver_function (const char *name)
{
  CUresult (*get) (const char *, void **, int, cuuint64_t, void *) = NULL;
  gpointer function = NULL;
  int status;

  *(void **) &get = dlsym (open_driver (), "cuGetProcAddress_v2");
  g_assert_nonnull (get);
  /* Of one version, whatever the headers are: some functions have more parameters in newer ones. */
  g_assert_cmpint (get (name, &function, 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status), ==, CUDA_SUCCESS);
  g_assert_nonnull (function);
  return function;
}

gboolean
gcuda_test_can_fail_calls (void)
{
  return gcuda_test_simulator_function ("gcudasim_fail") != NULL;
}

gboolean
gcuda_test_needs_failing_calls (void)
{
  if (gcuda_test_can_fail_calls ())
    return TRUE;
  g_test_skip ("no call of a real driver fails on demand, where nothing passes them on");
  return FALSE;
}

gpointer
gcuda_test_simulator_function (const char *name)
{
  return dlsym (open_driver (), name);
}

#define SIMULATOR(name) ((__typeof__ (&name)) gcuda_test_simulator_function (#name))

void
gcuda_test_fail_calls (const char *spec)
{
  g_assert_true (SIMULATOR (gcudasim_fail) (spec));
}

gpointer
gcuda_test_let_go_soon (gpointer data)
{
  g_usleep (50000);
  gcuda_test_let_go ();
  return NULL;
}

guint64
gcuda_test_count_calls (const char *function)
{
  return SIMULATOR (gcudasim_call_count) (function);
}

void
gcuda_test_log_start (void)
{
  if (!gcuda_test_can_fail_calls ())
    return;
  /* Not everybody takes it. */
  SIMULATOR (gcudasim_log_stop)
  ();
  SIMULATOR (gcudasim_log_start)
  ();
}

char **
gcuda_test_log_take (void)
{
  char *text, **lines;

  if (!gcuda_test_can_fail_calls ())
    return NULL;
  text = SIMULATOR (gcudasim_log_take) ();
  lines = g_strsplit (text != NULL ? text : "", "\n", -1);
  free (text);
  SIMULATOR (gcudasim_log_stop)
  ();
  return lines;
}

guint
gcuda_test_log_count (char **log,
                      const char *function,
                      ...)
{
  guint count = 0;

  g_assert_nonnull (log);
  for (guint i = 0; log[i] != NULL; i++)
    {
      g_auto (GStrv) words = g_strsplit (log[i], " ", 3);
      g_autofree char *start = g_strdup_printf ("%s(", function);
      const char *text;
      gboolean match = g_strv_length (words) == 3 && g_str_has_prefix (words[2], start);
      va_list args;

      va_start (args, function);
      while ((text = va_arg (args, const char *)) != NULL)
        match = match && strstr (log[i], text) != NULL;
      va_end (args);
      count += match;
    }
  return count;
}

void
gcuda_test_log_print (char **log)
{
  for (guint i = 0; log[i] != NULL; i++)
    g_test_message ("%s", log[i]);
}

/* Bed */

void
bed_set_up (Bed *bed,
            gconstpointer data)
{
  g_autoptr (GError) error = NULL;

  bed->device = gcuda_device_new (0, &error);
  g_assert_no_error (error);
  bed->context = gcuda_device_get_primary_context (bed->device, &error);
  g_assert_no_error (error);
  if (gcuda_test_is_simulated ())
    {
      GcudasimBalance *balance = g_new0 (GcudasimBalance, 1);

      g_assert_true (gcuda_reclaim (NULL, &error));
      SIMULATOR (gcudasim_balance)
      (balance);
      bed->balance = balance;
    }
  bed->stream = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  g_assert_no_error (error);
  bed->pool = gcuda_device_memory_resource_new_pool (bed->device, 0, GCUDA_HANDLE_TYPES_NONE, &error);
  g_assert_no_error (error);
  bed->resource = GCUDA_MEMORY_RESOURCE (bed->pool);
}

guint64
bed_settled_use (Bed *bed)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaPoolStatistics) statistics = NULL;

  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_device_synchronize (bed->device, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_reclaim (NULL, &error));
  statistics = gcuda_device_memory_resource_get_statistics (bed->pool, &error);
  g_assert_no_error (error);
  return gcuda_pool_statistics_get_used (statistics);
}

void
bed_assert_use (Bed *bed,
                guint64 expected)
{
  gint64 deadline = g_get_monotonic_time () + 10 * G_TIME_SPAN_SECOND;
  guint64 used;

  while ((used = bed_settled_use (bed)) != expected && g_get_monotonic_time () < deadline)
    g_usleep (1000);
  g_assert_cmpuint (used, ==, expected);
}

void
bed_tear_down (Bed *bed,
               gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  CUcontext current = NULL;

  if (!gcuda_context_is_closed (bed->context))
    bed_assert_use (bed, 0);
  g_assert_finalize_object (g_steal_pointer (&bed->pool));
  g_assert_finalize_object (g_steal_pointer (&bed->stream));
  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_no_error (error);
  /* No test leaves a context current, and so neither does the library. */
  assert_cuda (RAW (cuCtxGetCurrent) (&current));
  g_assert_null (current);
  if (bed->balance != NULL)
    {
      GcudasimBalance *before = bed->balance, after;

      SIMULATOR (gcudasim_balance)
      (&after);
      g_assert_cmpuint (after.allocations, ==, before->allocations);
      g_assert_cmpuint (after.streams, ==, before->streams);
      g_assert_cmpuint (after.contexts, ==, before->contexts);
      g_assert_cmpuint (after.pools, ==, before->pools);
      g_assert_cmpuint (after.graphs, ==, before->graphs);
      g_assert_cmpuint (after.graph_execs, ==, before->graph_execs);
      g_assert_cmpuint (after.user_objects, ==, before->user_objects);
      /* A context keeps its stock of events for releases to come. */
      g_assert_cmpuint (after.events, <=, before->events + 16);
      g_clear_pointer (&bed->balance, g_free);
    }
  g_clear_object (&bed->context);
  g_clear_object (&bed->device);
}

/* Patterns */

void
pattern_fill (GCudaBuffer *buffer,
              guint8 value,
              GCudaStream *stream)
{
  g_autoptr (GError) error = NULL;
  gboolean success = gcuda_buffer_fill (buffer, value, 1, stream, &error);

  g_assert_no_error (error);
  g_assert_true (success);
}

void
pattern_assert (GCudaBuffer *buffer,
                guint8 value,
                GCudaStream *stream)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = gcuda_buffer_download (buffer, 0, gcuda_buffer_get_size (buffer), stream, &error);
  const guint8 *data;
  gsize size, wrong = 0;

  g_assert_no_error (error);
  data = g_bytes_get_data (bytes, &size);
  g_assert_cmpuint (size, ==, gcuda_buffer_get_size (buffer));
  while (wrong < size && data[wrong] == value)
    wrong++;
  if (wrong < size)
    g_error ("byte %" G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT " is 0x%02x and not 0x%02x", wrong, size, data[wrong], value);
}

/* Blocker */

struct _Blocker
{
  gint released;
  gint passed;
};

static void CUDA_CB
blocker_run (void *data)
{
  /* Tools that check a GPU program make calls wait which otherwise do not: there nothing may wait for ever. */
  const char *limit = g_getenv ("GCUDA_TEST_BLOCK_MILLISECONDS");
  gint64 deadline = limit != NULL ? g_get_monotonic_time () + g_ascii_strtoll (limit, NULL, 10) * 1000 : G_MAXINT64;
  Blocker *blocker = data;

  while (!g_atomic_int_get (&blocker->released) && g_get_monotonic_time () < deadline)
    g_usleep (100);
  g_atomic_int_set (&blocker->passed, TRUE);
}

Blocker *
blocker_new (GCudaStream *stream)
{
  Blocker *blocker = g_new0 (Blocker, 1);
  CUcontext popped;

  assert_cuda (RAW (cuCtxPushCurrent) (gcuda_context_get_cuda_context (gcuda_stream_get_context (stream))));
  assert_cuda (RAW (cuLaunchHostFunc) (gcuda_stream_get_cuda_stream (stream), blocker_run, blocker));
  /* A driver that is lazy has work done only when it is asked for: ask. */
  RAW (cuStreamQuery)
  (gcuda_stream_get_cuda_stream (stream));
  assert_cuda (RAW (cuCtxPopCurrent) (&popped));
  return blocker;
}

void
blocker_release (Blocker *blocker)
{
  g_atomic_int_set (&blocker->released, TRUE);
  while (!g_atomic_int_get (&blocker->passed))
    g_usleep (100);
  g_free (blocker);
}

gboolean
gcuda_test_under_tool (void)
{
  return g_getenv ("GCUDA_TEST_BLOCK_MILLISECONDS") != NULL;
}

static Blocker *held;

void
gcuda_test_hold (GCudaStream *stream)
{
  g_assert_null (held);
  if (gcuda_test_is_simulated ())
    SIMULATOR (gcudasim_hold)
  (TRUE);
  else held = blocker_new (stream);
}

void
gcuda_test_let_go (void)
{
  Blocker *blocker = g_steal_pointer (&held);

  if (gcuda_test_is_simulated ())
    SIMULATOR (gcudasim_hold)
  (FALSE);
  else if (blocker != NULL)
    blocker_release (blocker);
}

/* Capture */

struct _Capture
{
  CaptureKind kind;
  CUcontext context;
  GThread *thread;
  gint begun;
  gint end;
  CUresult result;
};

static gpointer
capture_run (gpointer data)
{
  Capture *capture = data;
  CUstream stream = CU_STREAM_PER_THREAD;
  CUcontext popped;
  CUgraph graph = NULL;

  assert_cuda (RAW (cuCtxPushCurrent) (capture->context));
  if (capture->kind != CAPTURE_PER_THREAD)
    assert_cuda (RAW (cuStreamCreate) (&stream, capture->kind == CAPTURE_BLOCKING ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
  assert_cuda (RAW (cuStreamBeginCapture) (stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  g_atomic_int_set (&capture->begun, TRUE);
  while (!g_atomic_int_get (&capture->end))
    g_usleep (100);
  capture->result = RAW (cuStreamEndCapture) (stream, &graph);
  if (graph != NULL)
    assert_cuda (RAW (cuGraphDestroy) (graph));
  if (capture->kind != CAPTURE_PER_THREAD)
    assert_cuda (RAW (cuStreamDestroy) (stream));
  assert_cuda (RAW (cuCtxPopCurrent) (&popped));
  return NULL;
}

Capture *
capture_begin (GCudaContext *context,
               CaptureKind kind)
{
  Capture *capture = g_new0 (Capture, 1);

  capture->kind = kind;
  capture->context = gcuda_context_get_cuda_context (context);
  capture->result = CUDA_ERROR_UNKNOWN;
  capture->thread = g_thread_new ("capture", capture_run, capture);
  while (!g_atomic_int_get (&capture->begun))
    g_usleep (100);
  return capture;
}

void
capture_end (Capture *capture)
{
  g_atomic_int_set (&capture->end, TRUE);
  g_thread_join (capture->thread);
  g_assert_cmpint (capture->result, ==, CUDA_SUCCESS);
  g_free (capture);
}

void
in_thread (GThreadFunc func,
           gpointer data)
{
  g_thread_join (g_thread_new ("test", func, data));
}

void
iterate_until (gint *flag)
{
  gint64 deadline = g_get_monotonic_time () + 10 * G_TIME_SPAN_SECOND;

  while (!g_atomic_int_get (flag))
    {
      g_assert_cmpint (g_get_monotonic_time (), <, deadline);
      if (!g_main_context_iteration (NULL, FALSE))
        g_usleep (200);
    }
}

void
iterate_until_is (gint *number,
                  gint expected)
{
  gint64 deadline = g_get_monotonic_time () + 10 * G_TIME_SPAN_SECOND;

  while (g_atomic_int_get (number) != expected && g_get_monotonic_time () < deadline)
    if (!g_main_context_iteration (NULL, FALSE))
      g_usleep (200);
  g_assert_cmpint (g_atomic_int_get (number), ==, expected);
}

void CUDA_CB
take_a_while (void *data)
{
  g_usleep (10000);
}

void
call_run (gpointer data)
{
  Call *call = data;

  g_assert_true (call->thread == NULL || call->thread == g_thread_self ());
  g_assert_cmpint (g_atomic_int_get (&call->destroyed), ==, 0);
  g_atomic_int_inc (&call->called);
}

void
call_destroyed (gpointer data)
{
  Call *call = data;

  g_assert_true (call->thread == NULL || call->thread == g_thread_self ());
  g_atomic_int_inc (&call->destroyed);
}
