/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Finding and loading the driver, and what a program is told where that fails. Each case is a process of its own, with an
 * environment of its own, and brings the simulated driver along: on a machine with a real one it runs just the same.
 */
#include "gcuda-test.h"

#include <dlfcn.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "gcudamem/simulator/gcudasim.h"

#define SIZE 4096

/* The error is as expected, and its message names a thing and says what to do: one of these words is in it. */
static void
assert_says (GError **error,
             int code,
             const char *name,
             const char *remedy)
{
  g_assert_error (*error, GCUDA_ERROR, code);
  if (strstr ((*error)->message, name) == NULL || strstr ((*error)->message, remedy) == NULL)
    g_error ("'%s' or '%s' is missing in: %s", name, remedy, (*error)->message);
  g_clear_error (error);
}

/* Everything that has to load the driver says the same. */
static void
assert_unavailable (int code,
                    const char *name,
                    const char *remedy)
{
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < 2; i++)
    {
      g_assert_false (gcuda_is_available (&error));
      assert_says (&error, code, name, remedy);
      g_assert_null (gcuda_get_driver_info (&error));
      assert_says (&error, code, name, remedy);
      g_assert_null (gcuda_device_new (0, &error));
      assert_says (&error, code, name, remedy);
      g_assert_null (gcuda_get_devices (&error));
      assert_says (&error, code, name, remedy);
      g_assert_null (gcuda_context_new_for_handle (0x1000, NULL, &error));
      assert_says (&error, code, name, remedy);
    }
  /* Without a place for the error. */
  g_assert_false (gcuda_is_available (NULL));
  g_assert_null (gcuda_device_new (0, NULL));
}

static void
assert_works (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaDevice) device = NULL;
  g_autoptr (GCudaStream) stream = NULL;
  g_autoptr (GCudaSynchronousMemoryResource) resource = NULL;
  g_autoptr (GCudaBuffer) buffer = NULL;

  g_assert_true (gcuda_is_available (&error));
  g_assert_no_error (error);
  device = gcuda_device_new (0, &error);
  g_assert_no_error (error);
  stream = gcuda_stream_new_for_device (device, &error);
  g_assert_no_error (error);
  resource = gcuda_synchronous_memory_resource_new_for_device (device, &error);
  g_assert_no_error (error);
  buffer = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (resource), SIZE, stream, &error);
  g_assert_no_error (error);
  pattern_fill (buffer, 0x11, stream);
  pattern_assert (buffer, 0x11, stream);
}

static void
use_simulated (void)
{
  g_setenv ("GCUDA_DRIVER", "simulated", TRUE);
}

/* A failure is not remembered: what is put right works. */
static void
child_not_found (void)
{
  g_setenv ("GCUDA_DRIVER", "/nonexistent/libcuda.so.1", TRUE);
  assert_unavailable (GCUDA_ERROR_DRIVER_NOT_FOUND, "/nonexistent/libcuda.so.1", "install the NVIDIA driver");
  use_simulated ();
  assert_works ();
}

static void
child_simulated_not_found (void)
{
  g_autofree char *library = g_strdup (g_getenv ("GCUDASIM_LIBRARY"));

  use_simulated ();
  g_setenv ("GCUDASIM_LIBRARY", "/nonexistent/libgcudasim.so", TRUE);
  assert_unavailable (GCUDA_ERROR_DRIVER_NOT_FOUND, "/nonexistent/libgcudasim.so", "GCUDASIM_LIBRARY");
  g_setenv ("GCUDASIM_LIBRARY", library, TRUE);
  assert_works ();
}

static void
child_no_library (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *folder = g_dir_make_tmp ("gcuda-XXXXXX", &error);
  g_autofree char *path = g_build_filename (folder, "libcuda.so.1", NULL);

  g_assert_no_error (error);
  g_assert_true (g_file_set_contents (path, "This is no library.\n", -1, &error));
  g_setenv ("GCUDA_DRIVER", path, TRUE);
  assert_unavailable (GCUDA_ERROR_DRIVER_NOT_FOUND, path, "install the NVIDIA driver");
  /* An empty file, and a folder. */
  g_assert_true (g_file_set_contents (path, "", 0, &error));
  assert_unavailable (GCUDA_ERROR_DRIVER_NOT_FOUND, path, "install the NVIDIA driver");
  g_setenv ("GCUDA_DRIVER", folder, TRUE);
  assert_unavailable (GCUDA_ERROR_DRIVER_NOT_FOUND, folder, "install the NVIDIA driver");
  g_remove (path);
  g_rmdir (folder);
  use_simulated ();
  assert_works ();
}

static void
child_no_init (void)
{
  g_setenv ("GCUDA_DRIVER", "libm.so.6", TRUE);
  assert_unavailable (GCUDA_ERROR_DRIVER_NOT_FOUND, "libm.so.6", "GCUDA_DRIVER");
  use_simulated ();
  assert_works ();
}

static void
child_stub (void)
{
  const char *path = g_getenv ("TEST_STUB");

  g_setenv ("GCUDA_DRIVER", path, TRUE);
  assert_unavailable (GCUDA_ERROR_STUB_LIBRARY, path, "LD_LIBRARY_PATH");
  assert_unavailable (GCUDA_ERROR_STUB_LIBRARY, "CUDA_ERROR_STUB_LIBRARY", "GCUDA_DRIVER");
  use_simulated ();
  assert_works ();
}

static void
child_too_old (void)
{
  use_simulated ();
  g_setenv ("GCUDASIM_DRIVER_VERSION", "11000", TRUE);
  assert_unavailable (GCUDA_ERROR_DRIVER_TOO_OLD, "11.0", "update the NVIDIA driver");
}

/* The oldest one that will do: it lacks what came later. */
static void
child_oldest (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaDriverInfo) info = NULL;
  g_autoptr (GCudaDevice) device = NULL;
  g_autoptr (GCudaContext) context = NULL;
  g_autoptr (GCudaStream) stream = NULL;
  g_autoptr (GCudaDeviceMemoryResource) pool = NULL;
  g_autoptr (GCudaBuffer) buffer = NULL;

  use_simulated ();
  g_setenv ("GCUDASIM_DRIVER_VERSION", "12000", TRUE);
  assert_works ();
  info = gcuda_get_driver_info (&error);
  g_assert_no_error (error);
  g_assert_cmpint (gcuda_driver_info_get_version (info), ==, 12000);
  device = gcuda_device_new (0, &error);
  g_assert_no_error (error);
  context = gcuda_context_new (device, GCUDA_CONTEXT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  stream = gcuda_stream_new (context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  g_assert_no_error (error);
  pool = gcuda_device_memory_resource_new_pool (device, 0, GCUDA_HANDLE_TYPES_NONE, &error);
  g_assert_no_error (error);
  buffer = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (pool), SIZE, stream, &error);
  g_assert_no_error (error);
  pattern_fill (buffer, 0x11, stream);
  pattern_assert (buffer, 0x11, stream);
  g_clear_object (&buffer);
  g_clear_object (&stream);
  g_clear_object (&context);
  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_no_error (error);
}

static void
no_device (void)
{
  g_autoptr (GError) error = NULL;

  use_simulated ();
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (GListModel) devices = NULL;

      g_assert_false (gcuda_is_available (&error));
      assert_says (&error, GCUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "CUDA_VISIBLE_DEVICES");
      for (int ordinal = -1; ordinal < 2; ordinal++)
        {
          g_assert_null (gcuda_device_new (ordinal, &error));
          assert_says (&error, GCUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "CUDA_VISIBLE_DEVICES");
        }
      devices = gcuda_get_devices (&error);
      g_assert_no_error (error);
      g_assert_nonnull (devices);
      g_assert_cmpuint (g_list_model_get_n_items (devices), ==, 0);
      g_assert_true (g_list_model_get_item_type (devices) == GCUDA_TYPE_DEVICE);
      g_assert_null (g_list_model_get_item (devices, 0));
      g_assert_true (gcuda_reclaim (NULL, &error));
      g_assert_no_error (error);
    }
}

static void
child_visible_empty (void)
{
  g_setenv ("CUDA_VISIBLE_DEVICES", "", TRUE);
  no_device ();
}

static void
child_visible_minus_one (void)
{
  g_setenv ("CUDA_VISIBLE_DEVICES", "-1", TRUE);
  no_device ();
}

static void
child_visible_unknown (void)
{
  g_setenv ("CUDA_VISIBLE_DEVICES", "99", TRUE);
  no_device ();
}

static void
child_no_devices (void)
{
  g_setenv ("GCUDASIM_DEVICES", "0", TRUE);
  no_device ();
}

static void
child_visible_second (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GListModel) devices = NULL;

  use_simulated ();
  g_setenv ("GCUDASIM_DEVICES", "2", TRUE);
  g_setenv ("CUDA_VISIBLE_DEVICES", "1", TRUE);
  assert_works ();
  devices = gcuda_get_devices (&error);
  g_assert_no_error (error);
  g_assert_cmpuint (g_list_model_get_n_items (devices), ==, 1);
  g_assert_null (gcuda_device_new (1, &error));
  g_assert_error (error, GCUDA_ERROR, GCUDA_ERROR_INVALID_DEVICE);
}

/* Types can be registered, inspected and made where there is no driver: introspection and documentation tools do so. */
static void
child_types (void)
{
  const GType types[] = {
    GCUDA_TYPE_DEVICE,
    GCUDA_TYPE_CONTEXT,
    GCUDA_TYPE_STREAM,
    GCUDA_TYPE_EVENT,
    GCUDA_TYPE_BUFFER,
    GCUDA_TYPE_MEMORY_RESOURCE,
    GCUDA_TYPE_DEVICE_MEMORY_RESOURCE,
    GCUDA_TYPE_SYNCHRONOUS_MEMORY_RESOURCE,
    GCUDA_TYPE_DRIVER_INFO,
    GCUDA_TYPE_MEMORY_INFO,
    GCUDA_TYPE_POOL_STATISTICS,
    GCUDA_TYPE_ERROR,
    GCUDA_TYPE_STREAM_FLAGS,
    GCUDA_TYPE_EVENT_FLAGS,
    GCUDA_TYPE_CONTEXT_FLAGS,
    GCUDA_TYPE_HANDLE_TYPES,
    GCUDA_TYPE_POOL_REUSE,
  };
  g_autofree char *log = g_build_filename (g_get_tmp_dir (), "gcuda-types-log", NULL);

  use_simulated ();
  g_setenv ("GCUDASIM_LOG", log, TRUE);
  for (gsize i = 0; i < G_N_ELEMENTS (types); i++)
    {
      g_autoptr (GTypeClass) klass = NULL;

      g_assert_cmpuint (types[i], !=, G_TYPE_INVALID);
      if (!G_TYPE_IS_CLASSED (types[i]))
        continue;
      klass = g_type_class_ref (types[i]);
      g_assert_nonnull (klass);
      if (G_TYPE_IS_OBJECT (types[i]) && !G_TYPE_IS_ABSTRACT (types[i]))
        {
          g_autofree GParamSpec **properties = NULL;
          guint n = 0;
          GObject *object = g_object_new (types[i], NULL);

          properties = g_object_class_list_properties (G_OBJECT_CLASS (klass), &n);
          for (guint p = 0; p < n; p++)
            {
              g_auto (GValue) value = G_VALUE_INIT;

              if ((properties[p]->flags & G_PARAM_READABLE) != 0)
                g_object_get_property (object, properties[p]->name, &value);
            }
          g_assert_finalize_object (object);
        }
    }
  g_assert_cmpuint (gcuda_error_quark (), !=, 0);
  /* Not only was no call made: the driver was not even opened. */
  g_assert_null (dlopen (g_getenv ("GCUDASIM_LIBRARY"), RTLD_NOW | RTLD_NOLOAD));
  g_assert_false (g_file_test (log, G_FILE_TEST_EXISTS));
}

static void
child_no_pools (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaDevice) device = NULL;

  use_simulated ();
  g_setenv ("GCUDASIM_ATTRIBUTES", "MEMORY_POOLS_SUPPORTED=0", TRUE);
  device = gcuda_device_new (0, &error);
  g_assert_no_error (error);
  g_assert_null (gcuda_device_memory_resource_new (device, &error));
  assert_says (&error, GCUDA_ERROR_NOT_SUPPORTED, "MEMORY_POOLS_SUPPORTED", "GCudaSynchronousMemoryResource");
  g_assert_null (gcuda_device_memory_resource_new_pool (device, 0, GCUDA_HANDLE_TYPES_NONE, &error));
  assert_says (&error, GCUDA_ERROR_NOT_SUPPORTED, "MEMORY_POOLS_SUPPORTED", "GCudaSynchronousMemoryResource");
  assert_works ();
}

static void
child_unknown_question (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaDevice) device = NULL;
  g_autoptr (GCudaStream) stream = NULL;

  use_simulated ();
  g_setenv ("GCUDASIM_ATTRIBUTES", "MEMORY_POOLS_SUPPORTED=INVALID_VALUE,MEMPOOL_SUPPORTED_HANDLE_TYPES=INVALID_VALUE", TRUE);
  device = gcuda_device_new (0, &error);
  g_assert_no_error (error);
  stream = gcuda_stream_new_for_device (device, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < 3; i++)
    {
      g_autoptr (GCudaDeviceMemoryResource) pool = NULL;
      g_autoptr (GCudaBuffer) buffer = NULL;

      if (i == 0)
        pool = gcuda_device_memory_resource_new (device, &error);
      else
        pool = gcuda_device_memory_resource_new_pool (device, 0, i == 1 ? GCUDA_HANDLE_TYPES_NONE : GCUDA_HANDLE_TYPES_POSIX_FD, &error);
      g_assert_no_error (error);
      buffer = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (pool), SIZE, stream, &error);
      g_assert_no_error (error);
      pattern_fill (buffer, 0x11, stream);
      pattern_assert (buffer, 0x11, stream);
    }
}

static void
child_no_shared_pools (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaDevice) device = NULL;

  use_simulated ();
  g_setenv ("GCUDASIM_ATTRIBUTES", "MEMPOOL_SUPPORTED_HANDLE_TYPES=0", TRUE);
  device = gcuda_device_new (0, &error);
  g_assert_no_error (error);
  g_assert_null (gcuda_device_memory_resource_new_pool (device, 0, GCUDA_HANDLE_TYPES_POSIX_FD, &error));
  g_assert_error (error, GCUDA_ERROR, GCUDA_ERROR_NOT_SUPPORTED);
}

/* By its plain name, where the loader looks for libraries. */
static void
child_simulated_by_name (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaDriverInfo) info = NULL;

  use_simulated ();
  g_unsetenv ("GCUDASIM_LIBRARY");
  assert_works ();
  info = gcuda_get_driver_info (&error);
  g_assert_no_error (error);
  g_assert_true (gcuda_driver_info_is_simulated (info));
  g_assert_true (g_path_is_absolute (gcuda_driver_info_get_path (info)));
  g_assert_true (g_file_test (gcuda_driver_info_get_path (info), G_FILE_TEST_IS_REGULAR));
  g_assert_cmpint (gcuda_driver_info_get_version (info), >=, 12000);
}

static void
child_by_path (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaDriverInfo) info = NULL;

  g_setenv ("GCUDA_DRIVER", g_getenv ("GCUDASIM_LIBRARY"), TRUE);
  assert_works ();
  info = gcuda_get_driver_info (&error);
  g_assert_no_error (error);
  /* It is what it is, whatever name it was called by. */
  g_assert_true (gcuda_driver_info_is_simulated (info));
}

/* The first use, by many threads at once: one driver, one object for each device. */

static gint waiting;

static gpointer
first_use (gpointer data)
{
  g_autoptr (GError) error = NULL;
  GCudaDevice *device;
  g_autoptr (GCudaContext) context = NULL;

  g_atomic_int_add (&waiting, -1);
  while (g_atomic_int_get (&waiting) > 0)
    ;
  device = gcuda_device_new (0, &error);
  g_assert_no_error (error);
  context = gcuda_device_get_primary_context (device, &error);
  g_assert_no_error (error);
  g_object_set_data_full (G_OBJECT (context), "of-thread", NULL, NULL);
  return device;
}

static void
child_threads (void)
{
  GThread *threads[8];
  GCudaDevice *first = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaContext) context = NULL;

  use_simulated ();
  waiting = G_N_ELEMENTS (threads);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    threads[i] = g_thread_new ("first-use", first_use, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    {
      GCudaDevice *device = g_thread_join (threads[i]);

      g_assert_true (first == NULL || first == device);
      first = device;
      if (i > 0)
        g_object_unref (device);
    }
  g_assert_cmpuint (gcuda_test_count_calls ("cuInit"), ==, 1);
  /* Retained once: one close, and it is gone. */
  context = gcuda_device_get_primary_context (first, &error);
  g_assert_true (gcuda_context_close (context, &error));
  g_assert_no_error (error);
  {
    unsigned int flags;
    int active = 1;

    assert_cuda (RAW (cuDevicePrimaryCtxGetState) (0, &flags, &active));
    g_assert_false (active);
  }
  g_object_unref (first);
}

/* A capture of others begins before a call of a release, and ends after it. What was released goes all the same. */
static void
run_captured (const char *call)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaDevice) device = NULL;
  g_autoptr (GCudaStream) stream = NULL;
  g_autoptr (GCudaDeviceMemoryResource) pool = NULL;
  g_autoptr (GCudaPoolStatistics) statistics = NULL;
  GObject *owner = g_object_new (G_TYPE_OBJECT, NULL);
  GCudaBuffer *foreign, *buffer;
  gint64 deadline;

  g_setenv ("GCUDA_DRIVER", g_getenv ("TEST_CAPTURING"), TRUE);
  g_setenv ("CAPTURED_CALL", call, TRUE);
  device = gcuda_device_new (0, &error);
  g_assert_no_error (error);
  stream = gcuda_stream_new_for_device (device, &error);
  pool = gcuda_device_memory_resource_new_pool (device, 0, GCUDA_HANDLE_TYPES_NONE, &error);
  g_assert_no_error (error);
  g_object_add_weak_pointer (owner, (gpointer *) &owner);
  foreign = gcuda_buffer_new_for_address (device, 4096, 16, owner, stream, &error);
  g_assert_no_error (error);
  g_object_unref (owner);
  buffer = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (pool), SIZE, stream, &error);
  g_assert_no_error (error);
  /* Others know it, and so it may be captured. */
  g_assert_cmpuint (gcuda_stream_get_handle (stream), !=, 0);
  g_object_unref (foreign);
  g_object_unref (buffer);
  deadline = g_get_monotonic_time () + 10 * G_TIME_SPAN_SECOND;
  do
    {
      g_assert_true (gcuda_reclaim (NULL, &error));
      g_assert_true (gcuda_stream_synchronize (stream, &error));
      g_assert_no_error (error);
      g_clear_pointer (&statistics, gcuda_pool_statistics_unref);
      statistics = gcuda_device_memory_resource_get_statistics (pool, &error);
      g_assert_no_error (error);
    }
  while ((owner != NULL || gcuda_pool_statistics_get_used (statistics) > 0) && g_get_monotonic_time () < deadline);
  g_assert_null (owner);
  g_assert_cmpuint (gcuda_pool_statistics_get_used (statistics), ==, 0);
}

static void
child_captured_record (void)
{
  run_captured ("cuEventRecord");
}

static void
child_captured_free (void)
{
  run_captured ("cuMemFreeAsync");
}

static const struct
{
  const char *name;
  void (*run) (void);
} children[] = {
  { "not-found", child_not_found },
  { "simulated-not-found", child_simulated_not_found },
  { "no-library", child_no_library },
  { "no-init", child_no_init },
  { "stub", child_stub },
  { "too-old", child_too_old },
  { "oldest", child_oldest },
  { "visible-empty", child_visible_empty },
  { "visible-minus-one", child_visible_minus_one },
  { "visible-unknown", child_visible_unknown },
  { "visible-second", child_visible_second },
  { "no-devices", child_no_devices },
  { "types", child_types },
  { "no-pools", child_no_pools },
  { "unknown-question", child_unknown_question },
  { "no-shared-pools", child_no_shared_pools },
  { "simulated-by-name", child_simulated_by_name },
  { "by-path", child_by_path },
  { "threads", child_threads },
  { "captured-record", child_captured_record },
  { "captured-free", child_captured_free },
};

static const char *program;

static void
test_child (gconstpointer data)
{
  const char *name = children[GPOINTER_TO_SIZE (data)].name;
  g_autoptr (GError) error = NULL;
  g_autoptr (GSubprocessLauncher) launcher = g_subprocess_launcher_new (G_SUBPROCESS_FLAGS_STDOUT_PIPE | G_SUBPROCESS_FLAGS_STDERR_PIPE);
  g_autoptr (GSubprocess) process = NULL;
  g_autofree char *stub = g_test_build_filename (G_TEST_BUILT, "stub-driver.so", NULL);
  g_autofree char *capturing = g_test_build_filename (G_TEST_BUILT, "capturing-driver.so", NULL);
  g_autofree char *sanitizer = NULL;
  g_autofree char *folder = NULL;
  g_autofree char *paths = NULL;
  g_autofree char *out = NULL;
  g_autofree char *err = NULL;
  const char *library = g_getenv ("GCUDASIM_LIBRARY");

  if (library == NULL)
    {
      g_test_skip ("GCUDASIM_LIBRARY does not name the simulated driver");
      return;
    }
  folder = g_path_get_dirname (library);
  paths = g_strjoin (":", folder, g_getenv ("LD_LIBRARY_PATH"), NULL);
  g_subprocess_launcher_setenv (launcher, "LD_LIBRARY_PATH", paths, TRUE);
  g_subprocess_launcher_setenv (launcher, "TEST_STUB", stub, TRUE);
  g_subprocess_launcher_setenv (launcher, "TEST_CAPTURING", capturing, TRUE);
  g_subprocess_launcher_unsetenv (launcher, "G_MESSAGES_DEBUG");
  /* Leaks are looked for in the other tests; here it takes many times as long as all the rest. */
  sanitizer = g_strjoin (":", g_getenv ("ASAN_OPTIONS") != NULL ? g_getenv ("ASAN_OPTIONS") : "detect_leaks=0", "detect_leaks=0", NULL);
  g_subprocess_launcher_setenv (launcher, "ASAN_OPTIONS", sanitizer, TRUE);
  g_subprocess_launcher_unsetenv (launcher, "CUDA_VISIBLE_DEVICES");
  g_subprocess_launcher_unsetenv (launcher, "GCUDA_DRIVER");
  process = g_subprocess_launcher_spawn (launcher, &error, program, "--child", name, NULL);
  g_assert_no_error (error);
  g_assert_true (g_subprocess_communicate_utf8 (process, NULL, NULL, &out, &err, &error));
  g_assert_no_error (error);
  if (*err != '\0')
    g_test_message ("%s", err);
  g_assert_true (g_subprocess_get_if_exited (process));
  g_assert_cmpint (g_subprocess_get_exit_status (process), ==, 0);
  g_assert_cmpstr (err, ==, "");
  g_assert_cmpstr (out, ==, "");
}

int
main (int argc,
      char **argv)
{
  if (argc == 3 && g_str_equal (argv[1], "--child"))
    {
      alarm (60);
      for (gsize i = 0; i < G_N_ELEMENTS (children); i++)
        if (g_str_equal (argv[2], children[i].name))
          {
            children[i].run ();
            /* Nothing is left in the background for a leak checker to find. */
            gcuda_reclaim (NULL, NULL);
            return 0;
          }
      return 2;
    }
  program = argv[0];
  gcuda_test_init (&argc, &argv);
  for (gsize i = 0; i < G_N_ELEMENTS (children); i++)
    {
      g_autofree char *path = g_strdup_printf ("/driver/%s", children[i].name);

      g_test_add_data_func (path, GSIZE_TO_POINTER (i), test_child);
    }
  return g_test_run ();
}
