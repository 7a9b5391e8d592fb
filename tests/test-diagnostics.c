/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What a program is told that nobody can be given an error for: the warning, the teardown handler, and the debug output.
 * A release is made to fail by freeing the memory behind the library's back: that works on every driver.
 */
#include "gcuda-test.h"

#include <string.h>
#include <unistd.h>

#include "gcudamem/simulator/gcudasim.h"

#define SIZE 4096

#define SIMULATOR(name) ((__typeof__ (&name)) gcuda_test_simulator_function (#name))

/* The library's warnings are counted, and all others are fatal, as ever. */

static gint n_warnings;

static GLogWriterOutput
count_warnings (GLogLevelFlags level,
                const GLogField *fields,
                gsize n_fields,
                gpointer data)
{
  for (gsize i = 0; i < n_fields; i++)
    if (strcmp (fields[i].key, "GCUDA_DRIVER_CALL") == 0)
      {
        g_assert_cmpint (level & G_LOG_LEVEL_MASK, ==, G_LOG_LEVEL_WARNING);
        for (gsize j = 0; j < n_fields; j++)
          if (strcmp (fields[j].key, "MESSAGE") == 0)
            g_test_message ("said: %s", (const char *) fields[j].value);
        g_atomic_int_inc (&n_warnings);
        return G_LOG_WRITER_HANDLED;
      }
  return g_log_writer_default (level, fields, n_fields, data);
}

static gint
take_warnings (void)
{
  return g_atomic_int_and ((guint *) &n_warnings, 0);
}

/* A handler that notes what it was told, and where. */
typedef struct
{
  gint told;
  gint destroyed;
  GThread *thread;
  int code;
  char *message;
  char *call;
  guint64 handle;
  guint64 leaked;
} Told;

static void
told_clear (Told *told)
{
  g_clear_pointer (&told->message, g_free);
  g_clear_pointer (&told->call, g_free);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Told, told_clear)

static void
handler (const GError *error,
         const char *driver_call,
         guint64 handle,
         guint64 leaked,
         gpointer user_data)
{
  Told *told = user_data;

  g_assert_cmpuint (error->domain, ==, GCUDA_ERROR);
  g_assert_false (g_atomic_int_get (&told->destroyed));
  told_clear (told);
  told->thread = g_thread_self ();
  told->code = error->code;
  told->message = g_strdup (error->message);
  told->call = g_strdup (driver_call);
  told->handle = handle;
  told->leaked = leaked;
  g_atomic_int_inc (&told->told);
}

static void
destroyed (gpointer user_data)
{
  Told *told = user_data;

  g_atomic_int_inc (&told->destroyed);
}

static void
iterate_all (void)
{
  while (g_main_context_iteration (NULL, FALSE))
    ;
}

/* A buffer whose release fails. */
static GCudaBuffer *
doomed (Bed *bed,
        guint64 *address)
{
  g_autoptr (GError) error = NULL;
  GCudaBuffer *buffer = gcuda_memory_resource_allocate (bed->resource, SIZE, bed->stream, &error);

  g_assert_no_error (error);
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  g_assert_no_error (error);
  *address = gcuda_buffer_get_address (buffer);
  assert_cuda (RAW (cuMemFreeAsync) (*address, gcuda_stream_get_cuda_stream (bed->stream)));
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  g_assert_no_error (error);
  return buffer;
}

static void
doom (Bed *bed)
{
  guint64 address;

  g_object_unref (doomed (bed, &address));
}

static gpointer
doom_in_thread (gpointer data)
{
  doom (data);
  return NULL;
}

static void
test_handler (Bed *bed,
              gconstpointer data)
{
  g_auto (Told) told = { 0 };
  g_autofree char *size = g_strdup_printf ("%d", SIZE);
  GCudaBuffer *buffer;
  guint64 address;

  gcuda_set_teardown_handler (handler, &told, destroyed);
  buffer = doomed (bed, &address);
  g_object_unref (buffer);
  /* From the main loop, and never in the call that failed. */
  g_assert_cmpint (take_warnings (), ==, 1);
  g_assert_cmpint (told.told, ==, 0);
  iterate_all ();
  g_assert_cmpint (told.told, ==, 1);
  g_assert_true (told.thread == g_thread_self ());
  g_assert_cmpint (told.code, ==, GCUDA_ERROR_INVALID_VALUE);
  g_assert_nonnull (strstr (told.message, "CUDA_ERROR_INVALID_VALUE"));
  g_assert_nonnull (strstr (told.message, size));
  g_assert_cmpstr (told.call, ==, "cuMemFreeAsync");
  g_assert_cmphex (told.handle, ==, address);
  g_assert_cmpuint (told.leaked, ==, SIZE);

  /* Closing reports as dropping does: the caller did nothing wrong. */
  buffer = doomed (bed, &address);
  g_assert_true (gcuda_buffer_close (buffer, NULL, NULL));
  g_object_unref (buffer);
  iterate_all ();
  g_assert_cmpint (told.told, ==, 2);
  g_assert_cmphex (told.handle, ==, address);
  g_assert_cmpint (take_warnings (), ==, 1);

  /* In another thread. */
  in_thread (doom_in_thread, bed);
  g_assert_cmpint (told.told, ==, 2);
  iterate_all ();
  g_assert_cmpint (told.told, ==, 3);
  g_assert_true (told.thread == g_thread_self ());
  g_assert_cmpint (take_warnings (), ==, 1);

  /* The notify comes from the loop as well. */
  g_assert_cmpint (told.destroyed, ==, 0);
  gcuda_set_teardown_handler (NULL, NULL, NULL);
  g_assert_cmpint (told.destroyed, ==, 0);
  iterate_all ();
  g_assert_cmpint (told.destroyed, ==, 1);
  doom (bed);
  iterate_all ();
  g_assert_cmpint (told.told, ==, 3);
  g_assert_cmpint (take_warnings (), ==, 1);
}

static void
test_handler_replaced (Bed *bed,
                       gconstpointer data)
{
  g_auto (Told) first = { 0 };
  g_auto (Told) second = { 0 };

  gcuda_set_teardown_handler (handler, &first, destroyed);
  gcuda_set_teardown_handler (handler, &second, destroyed);
  doom (bed);
  iterate_all ();
  g_assert_cmpint (first.destroyed, ==, 1);
  g_assert_cmpint (first.told, ==, 0);
  g_assert_cmpint (second.told, ==, 1);
  g_assert_cmpint (second.destroyed, ==, 0);

  /* A report on its way goes to the handler that was set then; only after that is its data given back. */
  doom (bed);
  doom (bed);
  gcuda_set_teardown_handler (NULL, NULL, NULL);
  g_assert_cmpint (second.told, ==, 1);
  iterate_all ();
  g_assert_cmpint (second.told, ==, 3);
  g_assert_cmpint (second.destroyed, ==, 1);

  /* Without a notify, and the same one twice. */
  gcuda_set_teardown_handler (handler, &first, NULL);
  gcuda_set_teardown_handler (NULL, NULL, NULL);
  gcuda_set_teardown_handler (NULL, NULL, NULL);
  iterate_all ();
  g_assert_cmpint (first.destroyed, ==, 1);
  g_assert_cmpint (take_warnings (), ==, 3);
}

typedef struct
{
  Told told;
  gint ready, stop;
  gboolean runs;
} Listener;

static gpointer
listen_run (gpointer data)
{
  Listener *listener = data;
  GMainContext *context = g_main_context_new ();

  g_main_context_push_thread_default (context);
  gcuda_set_teardown_handler (handler, &listener->told, destroyed);
  g_atomic_int_set (&listener->ready, TRUE);
  while (!g_atomic_int_get (&listener->stop))
    if (!listener->runs || !g_main_context_iteration (context, FALSE))
      g_usleep (100);
  gcuda_set_teardown_handler (NULL, NULL, NULL);
  while (listener->runs && g_main_context_iteration (context, FALSE))
    ;
  g_main_context_pop_thread_default (context);
  g_main_context_unref (context);
  return NULL;
}

/* The handler's context is the one that was the thread's default where it was set. */
static void
test_handler_context (Bed *bed,
                      gconstpointer data)
{
  Listener listener = { .runs = TRUE };
  GThread *thread = g_thread_new ("listener", listen_run, &listener), *self = thread;
  gint64 deadline = g_get_monotonic_time () + 10 * G_TIME_SPAN_SECOND;

  while (!g_atomic_int_get (&listener.ready))
    g_usleep (100);
  doom (bed);
  while (g_atomic_int_get (&listener.told.told) < 1)
    {
      g_assert_cmpint (g_get_monotonic_time (), <, deadline);
      g_usleep (100);
    }
  g_atomic_int_set (&listener.stop, TRUE);
  g_thread_join (thread);
  g_assert_true (listener.told.thread == self);
  g_assert_cmpint (listener.told.told, ==, 1);
  g_assert_cmpint (listener.told.destroyed, ==, 1);
  told_clear (&listener.told);
  g_assert_cmpint (take_warnings (), ==, 1);
}

/* A context that nobody runs: nothing is called in its stead, and nothing waits for it. */
static void
test_handler_no_loop (Bed *bed,
                      gconstpointer data)
{
  Listener listener = { .runs = FALSE };
  GThread *thread = g_thread_new ("listener", listen_run, &listener);
  g_autoptr (GError) error = NULL;

  while (!g_atomic_int_get (&listener.ready))
    g_usleep (100);
  doom (bed);
  iterate_all ();
  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_no_error (error);
  g_assert_cmpint (listener.told.told, ==, 0);
  g_atomic_int_set (&listener.stop, TRUE);
  g_thread_join (thread);
  g_assert_cmpint (listener.told.told, ==, 0);
  g_assert_cmpint (take_warnings (), ==, 1);
}

/* A handler may use the library, and replace itself. */
typedef struct
{
  Bed *bed;
  gint calls;
  Told next;
} Busy;

static void
busy_handler (const GError *error,
              const char *driver_call,
              guint64 handle,
              guint64 leaked,
              gpointer user_data)
{
  Busy *busy = user_data;
  g_autoptr (GError) local = NULL;
  g_autoptr (GCudaBuffer) buffer = gcuda_memory_resource_allocate (busy->bed->resource, SIZE, busy->bed->stream, &local);

  g_assert_no_error (local);
  busy->calls++;
  pattern_fill (buffer, 0x11, busy->bed->stream);
  pattern_assert (buffer, 0x11, busy->bed->stream);
  g_clear_object (&buffer);
  gcuda_set_teardown_handler (handler, &busy->next, destroyed);
  doom (busy->bed);
  g_assert_true (gcuda_reclaim (NULL, &local));
  g_assert_no_error (local);
}

static void
test_handler_busy (Bed *bed,
                   gconstpointer data)
{
  Busy busy = { bed };

  gcuda_set_teardown_handler (busy_handler, &busy, NULL);
  doom (bed);
  iterate_all ();
  g_assert_cmpint (busy.calls, ==, 1);
  g_assert_cmpint (busy.next.told, ==, 1);
  gcuda_set_teardown_handler (NULL, NULL, NULL);
  iterate_all ();
  g_assert_cmpint (busy.next.destroyed, ==, 1);
  told_clear (&busy.next);
  g_assert_cmpint (take_warnings (), ==, 2);
}

/* Set in some threads, and reported to by others, all at once: each report is told once, each handler let go once. */

static gint total_told, total_set, total_destroyed;

static void
count_told (const GError *error,
            const char *driver_call,
            guint64 handle,
            guint64 leaked,
            gpointer user_data)
{
  g_atomic_int_inc (&total_told);
}

static void
count_destroyed (gpointer user_data)
{
  g_atomic_int_inc (&total_destroyed);
}

static gpointer
set_handlers (gpointer data)
{
  for (guint i = 0; i < 200; i++)
    {
      gcuda_set_teardown_handler (count_told, NULL, count_destroyed);
      g_atomic_int_inc (&total_set);
    }
  return NULL;
}

static gpointer
doom_many (gpointer data)
{
  static GMutex one;

  /* One at a time: another's memory may come to lie where this one's was, and would be freed in its stead. */
  for (guint i = 0; i < 20; i++)
    {
      g_mutex_lock (&one);
      doom (data);
      g_mutex_unlock (&one);
    }
  return NULL;
}

static void
test_handler_threads (Bed *bed,
                      gconstpointer data)
{
  GThread *setters[2], *doomers[2];

  set_handlers (NULL);
  for (guint i = 0; i < 2; i++)
    {
      setters[i] = g_thread_new ("sets", set_handlers, NULL);
      doomers[i] = g_thread_new ("dooms", doom_many, bed);
    }
  for (guint i = 0; i < 2; i++)
    {
      g_thread_join (setters[i]);
      g_thread_join (doomers[i]);
    }
  gcuda_set_teardown_handler (NULL, NULL, NULL);
  iterate_all ();
  g_assert_cmpint (total_told, ==, 40);
  g_assert_cmpint (total_destroyed, ==, total_set);
  g_assert_cmpint (take_warnings (), ==, 40);
}

/* A lost context */

static void
assert_left (gboolean success,
             GError **error)
{
  g_assert_false (success);
  g_assert_error (*error, GCUDA_ERROR, GCUDA_ERROR_ILLEGAL_ADDRESS);
  if (strstr ((*error)->message, "left by earlier work") == NULL || strstr ((*error)->message, "CUDA_ERROR_ILLEGAL_ADDRESS") == NULL)
    g_error ("the message is: %s", (*error)->message);
  g_clear_error (error);
}

/* Unmaps memory that pending work is about to write, as a program does that frees too early. */
static void
lose_context (GCudaContext *context,
              GCudaStream *stream)
{
  CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location.type = CU_MEM_LOCATION_TYPE_DEVICE };
  CUmemAccessDesc access = { .location.type = CU_MEM_LOCATION_TYPE_DEVICE, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
  gsize size = 2 << 20;
  CUmemGenericAllocationHandle memory;
  CUdeviceptr address;
  CUcontext popped;
  Blocker *blocker;

  assert_cuda (RAW (cuCtxPushCurrent) (gcuda_context_get_cuda_context (context)));
  assert_cuda (RAW (cuMemAddressReserve) (&address, size, 0, 0, 0));
  assert_cuda (RAW (cuMemCreate) (&memory, size, &prop, 0));
  assert_cuda (RAW (cuMemMap) (address, size, 0, memory, 0));
  assert_cuda (RAW (cuMemSetAccess) (address, size, &access, 1));
  blocker = blocker_new (stream);
  assert_cuda (RAW (cuMemsetD8Async) (address, 1, size, gcuda_stream_get_cuda_stream (stream)));
  assert_cuda (RAW (cuMemUnmap) (address, size));
  blocker_release (blocker);
  g_assert_cmpint (RAW (cuStreamSynchronize) (gcuda_stream_get_cuda_stream (stream)), ==, CUDA_ERROR_ILLEGAL_ADDRESS);
  assert_cuda (RAW (cuMemRelease) (memory));
  assert_cuda (RAW (cuMemAddressFree) (address, size));
  assert_cuda (RAW (cuCtxPopCurrent) (&popped));
}

static void
test_lost_context (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaDevice) device = gcuda_device_new (0, &error);
  g_autoptr (GCudaContext) context = NULL;
  g_autoptr (GCudaStream) stream = NULL;
  g_autoptr (GCudaStream) legacy = NULL;
  g_autoptr (GCudaEvent) event = NULL;
  g_autoptr (GCudaMemoryResource) pool = NULL;
  g_autoptr (GCudaMemoryResource) plain = NULL;
  g_autoptr (GPtrArray) buffers = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr (GBytes) bytes = g_bytes_new_static ("1234", 4);
  g_autoptr (GCudaStream) healthy = NULL;
  g_auto (Told) told = { 0 };
  g_autoptr (GCudaContext) primary = NULL;
  g_autoptr (GCudaVirtualMemoryResource) virtual_memory = NULL;
  CUcontext popped;
  GCudaBuffer *first, *grown;
  guint64 sum = 0, handle;

  if (gcuda_test_under_tool ())
    {
      g_test_skip ("the tool does not outlive a device's fault");
      return;
    }
  /* Whatever else it does to the process: it ends there. */
  if (!g_test_subprocess ())
    {
      g_autofree char *check = g_strdup (g_getenv ("GCUDASIM_CHECK"));

      /* It is a mistake, made on purpose. */
      g_setenv ("GCUDASIM_CHECK", "off", TRUE);
      g_test_trap_subprocess (NULL, 0, G_TEST_SUBPROCESS_DEFAULT);
      if (check != NULL)
        g_setenv ("GCUDASIM_CHECK", check, TRUE);
      else
        g_unsetenv ("GCUDASIM_CHECK");
      g_test_trap_assert_passed ();
      return;
    }
  g_assert_no_error (error);
  context = gcuda_context_new (device, GCUDA_CONTEXT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  stream = gcuda_stream_new (context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  g_assert_no_error (error);
  legacy = gcuda_stream_new_legacy_default (context, &error);
  g_assert_no_error (error);
  event = gcuda_event_new (context, GCUDA_EVENT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  g_assert_true (gcuda_event_record (event, stream, &error));
  pool = GCUDA_MEMORY_RESOURCE (gcuda_device_memory_resource_new_pool (device, 0, GCUDA_HANDLE_TYPES_NONE, &error));
  g_assert_no_error (error);
  plain = GCUDA_MEMORY_RESOURCE (gcuda_synchronous_memory_resource_new (context, &error));
  g_assert_no_error (error);
  for (guint i = 0; i < 8; i++)
    {
      GCudaBuffer *made = gcuda_memory_resource_allocate (i % 2 == 0 ? pool : plain, SIZE * (i + 1), i < 4 ? stream : legacy, &error);

      g_assert_no_error (error);
      pattern_fill (made, 0x11, i < 4 ? stream : legacy);
      sum += gcuda_buffer_get_size (made);
      g_ptr_array_add (buffers, made);
    }
  virtual_memory = gcuda_virtual_memory_resource_new (device, NULL, &error);
  g_assert_no_error (error);
  grown = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (virtual_memory), SIZE, stream, &error);
  g_assert_no_error (error);
  g_assert_true (gcuda_context_synchronize (context, &error));
  g_assert_no_error (error);
  gcuda_set_teardown_handler (handler, &told, destroyed);
  handle = gcuda_context_get_handle (context);

  lose_context (context, stream);

  /* What is asked now is told that it is not its own fault. */
  first = g_ptr_array_index (buffers, 0);
  assert_left (gcuda_stream_synchronize (stream, &error), &error);
  assert_left (gcuda_stream_query (stream, &error), &error);
  assert_left (gcuda_stream_synchronize (legacy, &error), &error);
  assert_left (gcuda_context_synchronize (context, &error), &error);
  assert_left (gcuda_buffer_fill (first, 1, 1, stream, &error), &error);
  assert_left (gcuda_buffer_upload (first, 0, bytes, stream, &error), &error);
  assert_left (gcuda_buffer_download (first, 0, 16, stream, &error) != NULL, &error);
  assert_left (gcuda_event_record (event, stream, &error), &error);
  assert_left (gcuda_event_query (event, &error), &error);
  assert_left (gcuda_event_synchronize (event, &error), &error);
  assert_left (gcuda_memory_resource_allocate (plain, SIZE, stream, &error) != NULL, &error);
  assert_left (gcuda_memory_resource_allocate (pool, SIZE, stream, &error) != NULL, &error);
  assert_left (gcuda_virtual_memory_resource_resize (virtual_memory, grown, 1, GCUDA_RESIZE_FLAGS_NONE, stream, &error), &error);
  /* The driver takes virtual memory back all the same: it is no loss. */
  g_object_unref (grown);
  /* A bad argument is a bad argument still. */
  g_assert_false (gcuda_buffer_fill (first, 1, 3, stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_cmpint (take_warnings (), ==, 0);

  /* One report for all, with their bytes; and none for streams, events and the context, which go with it. */
  /* While another context is current: a free on the default stream must not go to that one's. */
  primary = gcuda_device_get_primary_context (device, &error);
  g_assert_no_error (error);
  assert_cuda (RAW (cuCtxPushCurrent) (gcuda_context_get_cuda_context (primary)));
  g_ptr_array_set_size (buffers, 0);
  assert_cuda (RAW (cuCtxPopCurrent) (&popped));
  g_assert_true (popped == gcuda_context_get_cuda_context (primary));
  g_clear_object (&event);
  g_clear_object (&stream);
  g_clear_object (&legacy);
  g_clear_object (&plain);
  g_clear_object (&pool);
  g_clear_object (&context);
  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_no_error (error);
  g_assert_cmpint (take_warnings (), ==, 1);
  iterate_all ();
  g_assert_cmpint (told.told, ==, 1);
  g_assert_cmpint (told.code, ==, GCUDA_ERROR_ILLEGAL_ADDRESS);
  g_assert_cmpuint (told.leaked, ==, sum);
  g_assert_cmphex (told.handle, ==, handle);
  g_assert_nonnull (strstr (told.message, "8 allocations"));
  gcuda_set_teardown_handler (NULL, NULL, NULL);
  iterate_all ();

  /* It is lost to the whole process, and said so to whoever comes next. */
  healthy = gcuda_stream_new_for_device (device, &error);
  assert_left (healthy != NULL, &error);
}

/* Debug output, of a process of its own */

static int
child_debug (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaDevice) device = gcuda_device_new (0, &error);
  g_autoptr (GCudaStream) stream = NULL;
  g_autoptr (GCudaStream) other = NULL;
  g_autoptr (GCudaDeviceMemoryResource) pool = NULL;
  g_autoptr (GCudaBuffer) buffer = NULL;

  g_assert_no_error (error);
  stream = gcuda_stream_new_for_device (device, &error);
  g_assert_no_error (error);
  other = gcuda_stream_new_for_device (device, &error);
  g_assert_no_error (error);
  pool = gcuda_device_memory_resource_new_pool (device, 0, GCUDA_HANDLE_TYPES_NONE, &error);
  g_assert_no_error (error);
  buffer = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (pool), SIZE, stream, &error);
  g_assert_no_error (error);
  g_assert_true (gcuda_stream_wait_stream (other, stream, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_buffer_set_deallocation_stream (buffer, other, &error));
  g_assert_no_error (error);
  return 0;
}

static const char *program;

static char *
debug_output (const char *debug,
              const char *domains)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GSubprocessLauncher) launcher = g_subprocess_launcher_new (G_SUBPROCESS_FLAGS_STDOUT_PIPE | G_SUBPROCESS_FLAGS_STDERR_MERGE);
  g_autoptr (GSubprocess) process = NULL;
  char *out = NULL;

  if (debug != NULL)
    g_subprocess_launcher_setenv (launcher, "GCUDA_DEBUG", debug, TRUE);
  else
    g_subprocess_launcher_unsetenv (launcher, "GCUDA_DEBUG");
  if (domains != NULL)
    g_subprocess_launcher_setenv (launcher, "G_MESSAGES_DEBUG", domains, TRUE);
  else
    g_subprocess_launcher_unsetenv (launcher, "G_MESSAGES_DEBUG");
  process = g_subprocess_launcher_spawn (launcher, &error, program, "--child", NULL);
  g_assert_no_error (error);
  g_assert_true (g_subprocess_communicate_utf8 (process, NULL, NULL, &out, NULL, &error));
  g_assert_no_error (error);
  g_assert_true (g_subprocess_get_if_exited (process));
  g_assert_cmpint (g_subprocess_get_exit_status (process), ==, 0);
  return out;
}

static void
assert_debug (const char *debug,
              const char *domains,
              gboolean driver,
              gboolean alloc,
              gboolean recipe)
{
  g_autofree char *out = debug_output (debug, domains);

  g_test_message ("GCUDA_DEBUG=%s G_MESSAGES_DEBUG=%s: %s", debug != NULL ? debug : "", domains != NULL ? domains : "", out);
  g_assert_cmpint (strstr (out, "CUDA 1") != NULL, ==, driver);
  g_assert_cmpint (strstr (out, "allocated 4096 bytes at 0x") != NULL, ==, alloc);
  g_assert_cmpint (strstr (out, "freed 4096 bytes at 0x") != NULL, ==, alloc);
  g_assert_cmpint (strstr (out, "will be freed on stream 0x") != NULL, ==, recipe);
  if (!driver && !alloc && !recipe)
    g_assert_cmpstr (out, ==, "");
}

static void
test_debug (void)
{
  assert_debug (NULL, NULL, FALSE, FALSE, FALSE);
  assert_debug (NULL, "GCuda", FALSE, FALSE, FALSE);
  assert_debug ("", "GCuda", FALSE, FALSE, FALSE);
  assert_debug ("unknown", "GCuda", FALSE, FALSE, FALSE);
  assert_debug ("alloc,recipe,driver", NULL, FALSE, FALSE, FALSE);
  assert_debug ("alloc", "GCuda", FALSE, TRUE, FALSE);
  assert_debug ("recipe", "GCuda", FALSE, FALSE, TRUE);
  assert_debug ("driver", "GCuda", TRUE, FALSE, FALSE);
  assert_debug ("alloc,recipe,driver,reclaim", "GCuda", TRUE, TRUE, TRUE);
  assert_debug ("all", "all", TRUE, TRUE, TRUE);
}

int
main (int argc,
      char **argv)
{
  if (argc == 2 && g_str_equal (argv[1], "--child"))
    {
      alarm (60);
      return child_debug ();
    }
  program = argv[0];
  gcuda_test_init (&argc, &argv);
  g_log_set_writer_func (count_warnings, NULL, NULL);

  bed_add ("/diagnostics/handler", test_handler);
  bed_add ("/diagnostics/handler-replaced", test_handler_replaced);
  bed_add ("/diagnostics/handler-context", test_handler_context);
  bed_add ("/diagnostics/handler-no-loop", test_handler_no_loop);
  bed_add ("/diagnostics/handler-busy", test_handler_busy);
  bed_add ("/diagnostics/handler-threads", test_handler_threads);
  g_test_add_func ("/diagnostics/lost-context", test_lost_context);
  g_test_add_func ("/diagnostics/debug", test_debug);

  return g_test_run ();
}
