/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The ordering checker from outside: what it is told, what it says and where, how programs end under it, and the same with
 * another driver underneath. Which mistakes it finds, tests/races shows. Each subject is a process of its own, a few calls
 * long; what is asserted on is its end, its report file and what it wrote to stderr.
 */
#include "gcuda-test.h"

#include <dlfcn.h>
#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gcudamem/simulator/gcudasim.h"

#define SIZE            4096
#define SIMULATOR(name) ((__typeof__ (&name)) gcuda_test_simulator_function (#name))
#define OK(call)        assert_cuda (call)

static const char *program;
static CUcontext context;
static CUstream s, t;

/* ---- subjects ---- */

static void
start (void)
{
  OK (RAW (cuDevicePrimaryCtxRetain) (&context, 0));
  OK (RAW (cuCtxSetCurrent) (context));
  OK (RAW (cuStreamCreate) (&s, CU_STREAM_NON_BLOCKING));
  OK (RAW (cuStreamCreate) (&t, CU_STREAM_NON_BLOCKING));
}

static CUdeviceptr
memory (void)
{
  CUdeviceptr address;

  OK (RAW (cuMemAlloc) (&address, SIZE));
  return address;
}

/* Reports name these. */
void first_place (CUdeviceptr address);
void second_place (CUdeviceptr address);
void third_place (CUdeviceptr address);

__attribute__ ((noinline)) void
first_place (CUdeviceptr address)
{
  OK (RAW (cuMemsetD8Async) (address, 1, 100, s));
}

__attribute__ ((noinline)) void
second_place (CUdeviceptr address)
{
  OK (RAW (cuMemsetD8Async) (address + 60, 2, 80, t));
}

__attribute__ ((noinline)) void
third_place (CUdeviceptr address)
{
  OK (RAW (cuMemcpyDtoDAsync) (address + SIZE / 2, address, 100, t));
}

static void
subject_race (void)
{
  CUdeviceptr p = memory ();

  first_place (p);
  second_place (p);
}

static void
subject_right (void)
{
  CUdeviceptr p = memory ();

  first_place (p);
  OK (RAW (cuStreamSynchronize) (s));
  second_place (p);
}

static void
subject_loop (void)
{
  for (guint i = 0; i < 100; i++)
    {
      CUdeviceptr p = memory ();

      first_place (p);
      second_place (p);
    }
}

static void
subject_two (void)
{
  subject_race ();
  {
    CUdeviceptr p = memory ();

    first_place (p);
    third_place (p);
  }
}

static void
subject_exit (void)
{
  subject_race ();
  exit (3);
}

static void
subject_exit_at_once (void)
{
  subject_race ();
  _exit (4);
}

static void
subject_abort (void)
{
  subject_race ();
  abort ();
}

/* The child is not looked at, though it does all that is wrong. */
static void
subject_fork (void)
{
  __typeof__ (&cuMemAlloc) allocate = RAW (cuMemAlloc);
  __typeof__ (&cuMemsetD8Async) set = RAW (cuMemsetD8Async);
  CUdeviceptr p = memory (), q;
  guint8 *host;
  int status;
  pid_t child;

  OK (RAW (cuMemAllocHost) ((void **) &host, SIZE));
  memset (host, 0, SIZE);
  OK (RAW (cuMemcpyHtoDAsync) (p, host, SIZE, s));
  subject_race ();
  child = fork ();
  if (child == 0)
    {
      alarm (10);
      memset (host, 1, SIZE);
      allocate (&q, SIZE);
      set (p, 1, SIZE, t);
      SIMULATOR (gcudasim_declare_access)
      (t, p, SIZE, TRUE, "kernel");
      SIMULATOR (gcudasim_declare_host_access)
      (host, SIZE, TRUE, "host");
      g_assert_cmpuint (SIMULATOR (gcudasim_reports) (), ==, 0);
#ifdef __SANITIZE_ADDRESS__
      /* What only the threads had that are not here would be a leak. */
      _exit (0);
#endif
      exit (0);
    }
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  g_assert_cmpint (status, ==, 0);
  OK (RAW (cuStreamSynchronize) (s));
  p = memory ();
  first_place (p);
  third_place (p);
}

static gpointer
synchronize_in_thread (gpointer data)
{
  (void) data;
  OK (RAW (cuCtxSetCurrent) (context));
  OK (RAW (cuStreamSynchronize) (s));
  return NULL;
}

static void
subject_threads (void)
{
  CUdeviceptr p = memory ();

  first_place (p);
  g_thread_join (g_thread_new ("synchronizes", synchronize_in_thread, NULL));
  second_place (p);
}

static gpointer
allocate_in_thread (gpointer data)
{
  CUdeviceptr *address = data;

  OK (RAW (cuCtxSetCurrent) (context));
  *address = memory ();
  return NULL;
}

/* Threads tell one another addresses, and what became of their own work. */
static void
subject_threads_that_are_right (void)
{
  CUdeviceptr p = 0;

  for (guint i = 0; i < 50; i++)
    {
      g_thread_join (g_thread_new ("allocates", allocate_in_thread, &p));
      first_place (p);
      OK (RAW (cuStreamSynchronize) (s));
      second_place (p);
      OK (RAW (cuMemFree) (p));
    }
}

static void
subject_host (void)
{
  guint8 *host;

  OK (RAW (cuMemAllocHost) ((void **) &host, SIZE));
  memset (host, 0, SIZE);
  OK (RAW (cuMemcpyHtoDAsync) (memory (), host, SIZE, s));
  memset (host, 1, SIZE);
}

/* Through the library: a kernel in a capture. */
static void
subject_captured (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaDevice) device = gcuda_device_new (0, &error);
  g_autoptr (GCudaStream) stream = gcuda_stream_new_for_device (device, &error);
  g_autoptr (GCudaDeviceMemoryResource) pool = gcuda_device_memory_resource_new (device, &error);
  g_autoptr (GCudaBuffer) buffer = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (pool), 2 * SIZE, stream, &error);
  CUstream handle = gcuda_stream_get_cuda_stream (stream);
  CUgraphExec exec;
  CUgraph graph;

  OK (RAW (cuStreamSynchronize) (handle));
  OK (RAW (cuStreamBeginCapture) (handle, CU_STREAM_CAPTURE_MODE_RELAXED));
  OK (RAW (cuMemsetD8Async) (gcuda_buffer_get_address (buffer), 1, SIZE, handle));
  g_assert_true (gcuda_stream_declare_access (stream, buffer, SIZE, 64, GCUDA_ACCESS_FLAGS_WRITE, &error));
  OK (RAW (cuStreamEndCapture) (handle, &graph));
  OK (RAW (cuGraphInstantiateWithFlags) (&exec, graph, 0));
  /* Nothing happened yet. */
  OK (RAW (cuMemsetD8Async) (gcuda_buffer_get_address (buffer) + SIZE, 1, 64, t));
  OK (RAW (cuStreamSynchronize) (t));
  g_assert_cmpuint (SIMULATOR (gcudasim_reports) (), ==, 0);
  OK (RAW (cuGraphLaunch) (exec, handle));
  OK (RAW (cuMemsetD8Async) (gcuda_buffer_get_address (buffer) + SIZE + 63, 1, 1, t));
  OK (RAW (cuCtxSynchronize) ());
}

/* A capture whose end failed goes on. */
static void
subject_capture_goes_on (void)
{
  CUdeviceptr p = memory ();
  CUgraph graph;

  OK (RAW (cuStreamBeginCapture) (s, CU_STREAM_CAPTURE_MODE_RELAXED));
  g_assert_true (SIMULATOR (gcudasim_fail) ("cuStreamEndCapture:1=OUT_OF_MEMORY"));
  g_assert_cmpint (RAW (cuStreamEndCapture) (s, &graph), ==, CUDA_ERROR_OUT_OF_MEMORY);
  first_place (p);
  second_place (p);
  OK (RAW (cuStreamEndCapture) (s, &graph));
}

/* Where nothing checks, nothing is asked of the arguments either. */
static void
subject_declared_unchecked (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaDevice) device = gcuda_device_new (0, &error);
  g_autoptr (GCudaStream) stream = gcuda_stream_new_for_device (device, &error);

  g_assert_true (gcuda_stream_declare_access (stream, NULL, 1, 2, GCUDA_ACCESS_FLAGS_NONE, &error));
  g_assert_no_error (error);
}

/* Another driver is underneath. */

static void
subject_passed_on (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaDriverInfo) info = gcuda_get_driver_info (&error);
  CUdeviceptr p = memory ();
  guint8 bytes[140];
  g_autofree char *log = NULL;

  g_assert_no_error (error);
  g_assert_false (gcuda_driver_info_is_simulated (info));
  g_assert_false (gcuda_test_is_simulated ());
  SIMULATOR (gcudasim_log_start)
  ();
  first_place (p);
  OK (RAW (cuStreamSynchronize) (s));
  second_place (p);
  OK (RAW (cuStreamSynchronize) (t));
  OK (RAW (cuMemcpyDtoH) (bytes, p, sizeof bytes));
  for (guint i = 0; i < sizeof bytes; i++)
    g_assert_cmpint (bytes[i], ==, i < 60 ? 1 : 2);
  log = SIMULATOR (gcudasim_log_take) ();
  g_assert_nonnull (strstr (log, " cuMemsetD8Async("));
  g_assert_nonnull (strstr (log, " cuStreamSynchronize("));
  g_assert_cmpuint (SIMULATOR (gcudasim_call_count) ("cuMemsetD8Async"), ==, 2);
  /* An error that was asked for, and none from the driver. */
  g_assert_true (SIMULATOR (gcudasim_fail) ("cuMemAlloc:1=OUT_OF_MEMORY"));
  g_assert_cmpint (RAW (cuMemAlloc) (&p, SIZE), ==, CUDA_ERROR_OUT_OF_MEMORY);
  OK (RAW (cuMemAlloc) (&p, SIZE));
}

static gint is_released, is_asking;

static void CUDA_CB
wait_to_be_released (void *data)
{
  (void) data;
  while (!g_atomic_int_get (&is_released))
    g_usleep (100);
}

static gpointer
ask_and_release (gpointer data)
{
  CUevent event;

  (void) data;
  OK (RAW (cuCtxSetCurrent) (context));
  OK (RAW (cuEventCreate) (&event, CU_EVENT_DISABLE_TIMING));
  while (!g_atomic_int_get (&is_asking))
    g_usleep (100);
  g_usleep (20000);
  OK (RAW (cuEventQuery) (event));
  g_atomic_int_set (&is_released, TRUE);
  return NULL;
}

/* A thread waits in a copy for what another one does after a call. */
static void
subject_nobody_is_kept_waiting (void)
{
  GThread *thread = g_thread_new ("asks", ask_and_release, NULL);
  guint8 bytes[SIZE];
  CUdeviceptr p = memory ();

  OK (RAW (cuLaunchHostFunc) (CU_STREAM_LEGACY, wait_to_be_released, NULL));
  g_atomic_int_set (&is_asking, TRUE);
  OK (RAW (cuMemcpyDtoH) (bytes, p, SIZE));
  g_thread_join (thread);
}

/* Functions of a driver that answers with what it was asked. */

typedef CUresult (*Launch) (CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, CUstream, void **, void **);

/* The library itself: it is no driver that GCuda would take. */
static gpointer
symbol (const char *name)
{
  gpointer library = dlopen (g_getenv ("GCUDASIM_LIBRARY"), RTLD_NOW | RTLD_LOCAL);

  g_assert_nonnull (library);
  return dlsym (library, name);
}

static gpointer
look_up (const char *name)
{
  CUresult (*get) (const char *, void **, int, cuuint64_t, void *);
  CUdriverProcAddressQueryResult status;
  gpointer function = NULL;

  *(void **) &get = symbol ("cuGetProcAddress_v2");
  get (name, &function, 12000, 0, &status);
  return function;
}

static void
subject_stubs (void)
{
  const char *path = g_getenv ("GCUDASIM_PASS_THROUGH");
  gpointer fake;
  unsigned long long *arguments;
  gpointer launches[2];
  CUresult (*only) (int);
  CUresult (*create) (void **) = NULL;
  void *out = NULL;

  OK (((CUresult (*) (unsigned int)) symbol ("cuInit")) (0));
  fake = dlopen (path, RTLD_NOW | RTLD_LOCAL);
  g_assert_nonnull (fake);
  arguments = dlsym (fake, "fake_arguments");

  /* By its symbol it is a stub of the library's, and by its name the driver's own. */
  launches[0] = symbol ("cuLaunchKernel");
  launches[1] = look_up ("cuLaunchKernel");
  g_assert_true (launches[0] != launches[1]);
  for (guint i = 0; i < 2; i++)
    {
      memset (arguments, 0, 16 * sizeof *arguments);
      g_assert_cmpint (((Launch) launches[i]) ((CUfunction) 0x1122334455667788, 2, 3, 4, 5, 6, 7, 8, (CUstream) 0x99, (void **) 0xaaaabbbbccccdddd, (void **) 0xeeee), ==, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
      g_assert_cmpuint (arguments[0], ==, 0x1122334455667788);
      for (guint a = 1; a < 8; a++)
        g_assert_cmpuint (arguments[a], ==, a + 1);
      g_assert_cmpuint (arguments[8], ==, 0x99);
      g_assert_cmpuint (arguments[9], ==, 0xaaaabbbbccccdddd);
      g_assert_cmpuint (arguments[10], ==, 0xeeee);
    }
  *(void **) &create = symbol ("cuTexRefCreate");
  OK (create (&out));
  g_assert_true (out == (void *) 0x1234);
  *(void **) &only = look_up ("cuOfThisDriverOnly");
  OK (only (77));
  g_assert_cmpuint (arguments[0], ==, 77);

  /* What is looked at is wrapped, what nobody has is not there. */
  g_assert_true (look_up ("cuMemsetD8Async") == symbol ("cuMemsetD8Async"));
  g_assert_null (look_up ("cuOfNoDriver"));
  g_assert_null (look_up ("cuMemAdvise"));
  g_assert_cmpint (((CUresult (*) (CUdeviceptr, size_t, int, CUdevice)) symbol ("cuMemAdvise")) (0, 0, 0, 0), ==, CUDA_ERROR_NOT_FOUND);
}

static void
subject_no_driver (void)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (gcuda_device_new (0, &error));
  g_assert_error (error, GCUDA_ERROR, GCUDA_ERROR_DRIVER_NOT_FOUND);
  g_printerr ("%s\n", error->message);
}

#define SUBJECT(name)     \
  {                       \
#name, subject_##name \
  }

static const struct
{
  const char *name;
  void (*run) (void);
} subjects[] = {
  SUBJECT (race),
  SUBJECT (right),
  SUBJECT (loop),
  SUBJECT (two),
  SUBJECT (exit),
  SUBJECT (exit_at_once),
  SUBJECT (abort),
  SUBJECT (fork),
  SUBJECT (threads),
  SUBJECT (threads_that_are_right),
  SUBJECT (host),
  SUBJECT (captured),
  SUBJECT (capture_goes_on),
  SUBJECT (declared_unchecked),
  SUBJECT (passed_on),
  SUBJECT (nobody_is_kept_waiting),
  SUBJECT (stubs),
  SUBJECT (no_driver),
};

/* ---- how they are run ---- */

typedef struct
{
  gboolean exited;
  int status;
  guint n_reports;
  char *reports;
  char *said;
} Run;

static void
run_clear (Run *run)
{
  g_free (run->reports);
  g_free (run->said);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Run, run_clear)

/* With these variables, NAME, VALUE, ..., NULL, and none else of the checker's. */
static Run run_subject (const char *name, ...) G_GNUC_NULL_TERMINATED;

static Run
run_subject (const char *name, ...)
{
  static const char *const unset[] = { "GCUDASIM_CHECK", "GCUDASIM_CHECK_SUPPRESSIONS", "GCUDASIM_CHECK_STACKS", "GCUDASIM_CHECK_HOST", "GCUDASIM_CHECK_THREADS", "GCUDASIM_PASS_THROUGH" };
  g_autoptr (GError) error = NULL;
  g_autoptr (GSubprocessLauncher) launcher = g_subprocess_launcher_new (G_SUBPROCESS_FLAGS_STDOUT_PIPE | G_SUBPROCESS_FLAGS_STDERR_MERGE);
  g_autoptr (GSubprocess) process = NULL;
  g_autofree char *folder = g_dir_make_tmp ("gcuda-XXXXXX", &error);
  g_autofree char *path = g_build_filename (folder, "reports", NULL);
  const char *variable, *value;
  va_list args;
  Run run = { 0 };

  g_assert_no_error (error);
  for (guint i = 0; i < G_N_ELEMENTS (unset); i++)
    g_subprocess_launcher_unsetenv (launcher, unset[i]);
  g_subprocess_launcher_setenv (launcher, "GCUDA_DRIVER", "simulated", TRUE);
  g_subprocess_launcher_setenv (launcher, "GCUDASIM_CHECK_FILE", path, TRUE);
  va_start (args, name);
  while ((variable = va_arg (args, const char *)) != NULL)
    {
      value = va_arg (args, const char *);
      g_subprocess_launcher_setenv (launcher, variable, value, TRUE);
    }
  va_end (args);
  process = g_subprocess_launcher_spawn (launcher, &error, program, "--subject", name, NULL);
  g_assert_no_error (error);
  g_assert_true (g_subprocess_communicate_utf8 (process, NULL, NULL, &run.said, NULL, &error));
  g_assert_no_error (error);
  run.exited = g_subprocess_get_if_exited (process);
  run.status = run.exited ? g_subprocess_get_exit_status (process) : g_subprocess_get_term_sig (process);
  if (!g_file_get_contents (path, &run.reports, NULL, NULL))
    run.reports = g_strdup ("");
  for (const char *c = run.reports; *c != '\0'; c++)
    run.n_reports += *c == '\n';
  g_test_message ("%s: %s\n%s", name, run.said, run.reports);
  g_remove (path);
  g_rmdir (folder);
  return run;
}

#define assert_ends(run, how)                \
  G_STMT_START                               \
  {                                          \
    g_assert_true ((run).exited);            \
    g_assert_cmpint ((run).status, ==, how); \
  }                                          \
  G_STMT_END

static void
assert_contains (const char *text, const char *part)
{
  if (strstr (text, part) == NULL)
    g_error ("'%s' is not in: %s", part, text);
}

static void
assert_lacks (const char *text, const char *part)
{
  if (strstr (text, part) != NULL)
    g_error ("'%s' is in: %s", part, text);
}

/* ---- what it is told ---- */

static void
test_modes (void)
{
  g_auto (Run) unset = run_subject ("race", NULL);
  g_auto (Run) report = run_subject ("race", "GCUDASIM_CHECK", "report", NULL);
  g_auto (Run) aborts = run_subject ("two", "GCUDASIM_CHECK", "abort", NULL);
  g_auto (Run) off = run_subject ("race", "GCUDASIM_CHECK", "off", NULL);
  g_auto (Run) right = run_subject ("right", "GCUDASIM_CHECK", "abort", NULL);

  assert_ends (unset, 0);
  g_assert_cmpuint (unset.n_reports, ==, 1);
  assert_ends (report, 0);
  g_assert_cmpuint (report.n_reports, ==, 1);
  /* It ends at the first, which is told. */
  g_assert_false (aborts.exited);
  g_assert_cmpint (aborts.status, ==, SIGABRT);
  g_assert_cmpuint (aborts.n_reports, ==, 1);
  assert_contains (aborts.said, "gcudasim: write-write:");
  assert_ends (off, 0);
  g_assert_cmpstr (off.reports, ==, "");
  g_assert_cmpstr (off.said, ==, "");
  assert_ends (right, 0);
  g_assert_cmpstr (right.reports, ==, "");
  g_assert_cmpstr (right.said, ==, "");
}

static void
test_unknown_values (void)
{
  static const struct
  {
    const char *variable, *choices;
  } variables[] = {
    { "GCUDASIM_CHECK", "report, abort, off" },
    { "GCUDASIM_CHECK_STACKS", "all, native, none" },
    { "GCUDASIM_CHECK_HOST", "on, off" },
    { "GCUDASIM_CHECK_THREADS", "ordered, independent" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (variables); i++)
    {
      g_auto (Run) run = run_subject ("host", variables[i].variable, "Report", NULL);
      g_auto (Run) empty = run_subject ("host", variables[i].variable, "", NULL);
      g_auto (Run) threads = run_subject ("threads", variables[i].variable, "Report", NULL);
      g_autofree char *message = g_strdup_printf ("gcudasim: %s=Report is none of %s: ignored\n", variables[i].variable, variables[i].choices);

      assert_contains (run.said, message);
      assert_contains (run.reports, "{\"kind\":\"upload-changed\",");
      assert_contains (run.reports, "main+0x");
      assert_lacks (empty.said, "ignored");
      assert_contains (empty.reports, "{\"kind\":\"upload-changed\",");
      g_assert_cmpstr (threads.reports, ==, "");
    }
}

static void
test_unwritable_file (void)
{
  g_auto (Run) run = run_subject ("race", "GCUDASIM_CHECK_FILE", "/nonexistent/reports", NULL);
  g_auto (Run) full = run_subject ("race", "GCUDASIM_CHECK_FILE", "/dev/full", NULL);

  assert_ends (run, 0);
  assert_contains (run.said, "gcudasim: cannot open the report file /nonexistent/reports: ");
  assert_contains (run.said, "gcudasim: write-write:");
  assert_ends (full, 0);
  assert_contains (full.said, "gcudasim: write-write:");
}

static void
test_suppressions (void)
{
  static const struct
  {
    const char *lines;
    gboolean matches;
    const char *said; /* NULL: nothing */
  } files[] = {
    { "write-write cuMemsetD8Async cuMemsetD8Async # they write the same\n", TRUE, NULL },
    { "read-write cuMemsetD8Async cuMemcpyDtoDAsync # for another kind\n", FALSE, NULL },
    { "* * * # all\n", TRUE, NULL },
    { "write-* cuMemset* cuMem?etD8Async# no space\n", TRUE, NULL },
    { "# a remark\n\n   \n\twrite-write  *  cuMemsetD8* #tabs and spaces\r\n", TRUE, NULL },
    { "write-write cuMemsetD16Async * # another function\n", FALSE, NULL },
    { "write-write cuMemsetD8Async cuMemsetD8Async\n", FALSE, ":1 is not KIND FUNCTION FUNCTION # REASON: ignored" },
    { "\nwrite-write cuMemsetD8Async cuMemsetD8Async #  \n", FALSE, ":2 is not KIND FUNCTION FUNCTION # REASON: ignored" },
    { "write-write cuMemsetD8Async # one\n", FALSE, ":1 is not KIND FUNCTION FUNCTION # REASON: ignored" },
    { "write-write * * * # three\n", FALSE, ":1 is not KIND FUNCTION FUNCTION # REASON: ignored" },
    { "write-writes * * # no kind\n", FALSE, ":1: there is no kind write-writes: ignored" },
    { "what is this\nwrite-write * * # good", TRUE, ":1 is not KIND FUNCTION FUNCTION # REASON: ignored" },
    { "", FALSE, NULL },
  };
  g_autoptr (GError) error = NULL;
  g_autofree char *folder = g_dir_make_tmp ("gcuda-XXXXXX", &error);
  g_autofree char *path = g_build_filename (folder, "suppressions", NULL);

  for (guint i = 0; i < G_N_ELEMENTS (files); i++)
    {
      g_assert_true (g_file_set_contents (path, files[i].lines, -1, &error));
      {
        g_auto (Run) run = run_subject ("race", "GCUDASIM_CHECK", "abort", "GCUDASIM_CHECK_SUPPRESSIONS", path, NULL);

        g_assert_cmpuint (run.n_reports, ==, files[i].matches ? 0 : 1);
        g_assert_true (run.exited == files[i].matches);
        if (files[i].matches)
          assert_contains (run.said, "gcudasim: 0 ordering reports, 0 repetitions, 1 suppressed\n");
        if (files[i].said != NULL)
          {
            assert_contains (run.said, path);
            assert_contains (run.said, files[i].said);
          }
        else
          assert_lacks (run.said, "ignored");
      }
    }

  /* In either order of the functions */
  for (guint i = 0; i < 2; i++)
    {
      g_assert_true (g_file_set_contents (path, i == 0 ? "read-write cuMemsetD8Async cuMemcpyDtoD* # first\n" : "read-write cuMemcpyDtoD* cuMemsetD8Async # second\n", -1, &error));
      {
        g_auto (Run) run = run_subject ("two", "GCUDASIM_CHECK_SUPPRESSIONS", path, NULL);

        assert_ends (run, 0);
        g_assert_cmpuint (run.n_reports, ==, 1);
        assert_contains (run.said, "gcudasim: 1 ordering report, 0 repetitions, 1 suppressed\n");
      }
    }
  g_remove (path);
  {
    g_auto (Run) run = run_subject ("race", "GCUDASIM_CHECK_SUPPRESSIONS", path, NULL);

    assert_ends (run, 0);
    g_assert_cmpuint (run.n_reports, ==, 1);
    assert_contains (run.said, "gcudasim: cannot read the suppressions: ");
    assert_contains (run.said, path);
  }
  g_rmdir (folder);
}

static void
test_threads (void)
{
  g_auto (Run) ordered = run_subject ("threads", "GCUDASIM_CHECK_THREADS", "ordered", NULL);
  g_auto (Run) independent = run_subject ("threads", "GCUDASIM_CHECK_THREADS", "independent", NULL);
  g_auto (Run) right = run_subject ("threads_that_are_right", "GCUDASIM_CHECK_THREADS", "independent", NULL);

  assert_ends (ordered, 0);
  g_assert_cmpstr (ordered.reports, ==, "");
  assert_ends (independent, 0);
  g_assert_cmpuint (independent.n_reports, ==, 1);
  assert_contains (independent.reports, "{\"kind\":\"write-write\",");
  assert_ends (right, 0);
  g_assert_cmpstr (right.reports, ==, "");
}

static void
test_host (void)
{
  g_auto (Run) on = run_subject ("host", "GCUDASIM_CHECK_HOST", "on", NULL);
  g_auto (Run) off = run_subject ("host", "GCUDASIM_CHECK_HOST", "off", NULL);

  assert_ends (on, 0);
  g_assert_cmpuint (on.n_reports, ==, 1);
  assert_contains (on.reports, "\"function\":\"host access\",\"where\":\"the program\",\"does\":\"writes\"");
  assert_contains (on.reports, "\"type\":\"pinned host memory\"");
  assert_ends (off, 0);
  g_assert_cmpstr (off.reports, ==, "");
}

/* ---- what it says ---- */

static void
test_report (void)
{
  g_auto (Run) run = run_subject ("race", NULL);
  const char *first = strstr (run.reports, "\"first\":{\"function\":\"cuMemsetD8Async\",\"where\":\"stream 1\",\"does\":\"writes\",\"address\":\"0x");
  const char *second = strstr (run.reports, "\"second\":{\"function\":\"cuMemsetD8Async\",\"where\":\"stream 2\",\"does\":\"writes\",\"address\":\"0x");

  g_assert_nonnull (first);
  g_assert_nonnull (second);
  g_assert_true (first < second);
  g_assert_nonnull (g_strstr_len (first, second - first, "\"size\":100,\"stack\":[\"first_place+0x"));
  assert_contains (second, "\"size\":80,\"stack\":[\"second_place+0x");
  assert_contains (second, "\"memory\":{\"type\":\"device memory\",\"address\":\"0x");
  assert_contains (second, "\"size\":4096,\"from\":60,\"to\":100}");
  assert_contains (second, "\"missing\":\"make stream 2 wait for an event recorded on stream 1 after cuMemsetD8Async, or synchronize stream 1 before cuMemsetD8Async is called\"}\n");

  assert_contains (run.said, "gcudasim: write-write: two writes are not ordered\n  cuMemsetD8Async, stream 2, writes 80 bytes at 0x");
  assert_contains (run.said, "\n      second_place+0x");
  assert_contains (run.said, "\n  is not ordered after\n  cuMemsetD8Async, stream 1, writes 100 bytes at 0x");
  assert_contains (run.said, "\n      first_place+0x");
  assert_contains (run.said, "\n  bytes 60 to 100 of device memory at 0x");
  assert_contains (run.said, ", from cuMemAlloc, the program\n  missing: make stream 2 wait for ");
  assert_contains (run.said, "\ngcudasim: 1 ordering report, 0 repetitions, 0 suppressed\n");
}

static void
test_stacks (void)
{
  g_auto (Run) none = run_subject ("race", "GCUDASIM_CHECK_STACKS", "none", NULL);
  g_auto (Run) native = run_subject ("race", "GCUDASIM_CHECK_STACKS", "native", NULL);

  g_assert_cmpuint (none.n_reports, ==, 1);
  assert_contains (none.reports, "\"stack\":[]");
  assert_lacks (none.reports, "first_place");
  assert_lacks (none.said, "first_place");
  g_assert_cmpuint (native.n_reports, ==, 1);
  assert_contains (native.reports, "first_place");
}

static void
test_said_once (void)
{
  g_auto (Run) loop = run_subject ("loop", NULL);
  g_auto (Run) two = run_subject ("two", NULL);

  assert_ends (loop, 0);
  g_assert_cmpuint (loop.n_reports, ==, 1);
  assert_contains (loop.said, "gcudasim: 1 ordering report, 99 repetitions, 0 suppressed\n");
  g_assert_cmpuint (two.n_reports, ==, 2);
  assert_contains (two.reports, "{\"kind\":\"read-write\",");
}

static void
test_captured (void)
{
  g_auto (Run) run = run_subject ("captured", NULL);

  assert_ends (run, 0);
  g_assert_cmpuint (run.n_reports, ==, 1);
  assert_contains (run.reports, "\"first\":{\"function\":\"a declared access\",");
  assert_contains (run.reports, "\"from\":4159,\"to\":4160}");
}

static void
test_capture_goes_on (void)
{
  g_auto (Run) run = run_subject ("capture_goes_on", NULL);

  assert_ends (run, 0);
  g_assert_cmpstr (run.reports, ==, "");
}

static void
test_declared_unchecked (void)
{
  g_auto (Run) run = run_subject ("declared_unchecked", "GCUDASIM_CHECK", "off", NULL);

  assert_ends (run, 0);
}

/* ---- how programs end ---- */

static void
test_ends (void)
{
  static const struct
  {
    const char *subject;
    gboolean exits;
    int status;
    guint n_reports;
    gboolean sums_up;
  } ends[] = {
    { "race", TRUE, 0, 1, TRUE },
    { "exit", TRUE, 3, 1, TRUE },
    { "exit_at_once", TRUE, 4, 1, FALSE },
    { "abort", FALSE, SIGABRT, 1, FALSE },
    { "fork", TRUE, 0, 2, TRUE },
  };

  for (guint i = 0; i < G_N_ELEMENTS (ends); i++)
    {
      g_auto (Run) run = run_subject (ends[i].subject, NULL);
      const char *sum;

      g_assert_true (run.exited == ends[i].exits);
      g_assert_cmpint (run.status, ==, ends[i].status);
      g_assert_cmpuint (run.n_reports, ==, ends[i].n_reports);
      sum = strstr (run.said, " ordering report");
      g_assert_true ((sum != NULL) == ends[i].sums_up);
      /* Once, and not by a child. */
      g_assert_true (sum == NULL || strstr (sum + 1, " ordering report") == NULL);
    }
}

/* ---- with another driver underneath ---- */

/* A copy of the simulated driver is another driver. */
static char *
copy_of_the_driver (void)
{
  static char *path;
  g_autoptr (GError) error = NULL;

  if (path == NULL)
    {
      g_autofree char *folder = g_dir_make_tmp ("gcuda-XXXXXX", &error);
      g_autofree char *contents = NULL;
      gsize size;

      g_assert_no_error (error);
      g_assert_true (g_file_get_contents (g_getenv ("GCUDASIM_LIBRARY"), &contents, &size, &error));
      path = g_build_filename (folder, "libother.so.1", NULL);
      g_assert_true (g_file_set_contents (path, contents, (gssize) size, &error));
    }
  return path;
}

static char *
checked_driver (void)
{
  return g_strdup_printf ("checked:%s", copy_of_the_driver ());
}

static void
test_passed_on (void)
{
  g_autofree char *driver = checked_driver ();
  g_auto (Run) run = run_subject ("passed_on", "GCUDA_DRIVER", driver, NULL);
  g_auto (Run) variable = run_subject ("passed_on", "GCUDASIM_PASS_THROUGH", copy_of_the_driver (), NULL);
  g_auto (Run) waits = run_subject ("nobody_is_kept_waiting", "GCUDA_DRIVER", driver, NULL);

  assert_ends (run, 0);
  g_assert_cmpstr (run.said, ==, "");
  g_assert_cmpstr (run.reports, ==, "");
  assert_ends (variable, 0);
  g_assert_cmpstr (variable.said, ==, "");
  assert_ends (waits, 0);
}

/* It is said once, by one of the two. */
static void
test_passed_on_report (void)
{
  g_autofree char *driver = checked_driver ();
  g_auto (Run) run = run_subject ("race", "GCUDA_DRIVER", driver, NULL);
  g_auto (Run) loop = run_subject ("loop", "GCUDASIM_PASS_THROUGH", copy_of_the_driver (), NULL);

  assert_ends (run, 0);
  g_assert_cmpuint (run.n_reports, ==, 1);
  assert_contains (run.reports, "\"size\":100,\"stack\":[\"first_place+0x");
  assert_ends (loop, 0);
  g_assert_cmpuint (loop.n_reports, ==, 1);
  assert_contains (loop.said, "gcudasim: 1 ordering report, 99 repetitions, 0 suppressed\n");
}

static void
test_passed_on_log (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *driver = checked_driver ();
  g_autofree char *folder = g_dir_make_tmp ("gcuda-XXXXXX", &error);
  g_autofree char *path = g_build_filename (folder, "log", NULL);
  g_autofree char *log = NULL;
  const char *line;
  guint n = 0;
  g_auto (Run) run = run_subject ("right", "GCUDA_DRIVER", driver, "GCUDASIM_LOG", path, "GCUDASIM_FAIL", "cuStreamQuery:1=NOT_READY", NULL);

  assert_ends (run, 0);
  g_assert_true (g_file_get_contents (path, &log, NULL, &error));
  for (line = log; (line = strstr (line, " cuMemsetD8Async(")) != NULL; line++)
    n++;
  g_assert_cmpuint (n, ==, 2);
  g_remove (path);
  g_rmdir (folder);
}

static void
test_passed_on_ends (void)
{
  g_autofree char *driver = checked_driver ();
  g_auto (Run) ended = run_subject ("exit", "GCUDA_DRIVER", driver, NULL);
  g_auto (Run) forked = run_subject ("fork", "GCUDA_DRIVER", driver, NULL);

  assert_ends (ended, 3);
  g_assert_cmpuint (ended.n_reports, ==, 1);
  assert_ends (forked, 0);
  g_assert_cmpuint (forked.n_reports, ==, 2);
}

static void
test_passed_on_stubs (void)
{
  g_autofree char *fake = g_test_build_filename (G_TEST_BUILT, "fake-driver.so", NULL);
  g_auto (Run) run = run_subject ("stubs", "GCUDASIM_PASS_THROUGH", fake, NULL);

  assert_ends (run, 0);
  g_assert_cmpstr (run.said, ==, "");
}

static void
test_passed_on_nowhere (void)
{
  const struct
  {
    const char *path, *said;
  } paths[] = {
    { "/nonexistent/libcuda.so.1", "cannot open shared object file" },
    { g_getenv ("GCUDASIM_LIBRARY"), "this is the library that checks, not the driver to pass calls on to" },
    { "libm.so.6", "it has no cuGetProcAddress_v2: it is no CUDA driver, or one older than 12.0" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (paths); i++)
    {
      g_autofree char *driver = g_strdup_printf ("checked:%s", paths[i].path);
      g_autofree char *prefix = g_strdup_printf (" can't check the driver %s: ", paths[i].path);
      g_autofree char *warning = g_strdup_printf ("gcudasim: GCUDASIM_PASS_THROUGH=%s: ", paths[i].path);
      g_auto (Run) library = run_subject ("no_driver", "GCUDA_DRIVER", driver, NULL);
      g_auto (Run) variable = run_subject ("right", "GCUDASIM_PASS_THROUGH", paths[i].path, NULL);

      assert_ends (library, 0);
      assert_contains (library.said, prefix);
      assert_contains (library.said, paths[i].said);
      /* A program is not told otherwise, and calls are simulated. */
      assert_ends (variable, 0);
      assert_contains (variable.said, warning);
      assert_contains (variable.said, paths[i].said);
      assert_contains (variable.said, ": calls are simulated\n");
    }
}

int
main (int argc, char **argv)
{
  int result;

  program = g_file_read_link ("/proc/self/exe", NULL);
  if (argc == 3 && g_str_equal (argv[1], "--subject"))
    {
      alarm (30);
      for (gsize i = 0; i < G_N_ELEMENTS (subjects); i++)
        {
          if (!g_str_equal (subjects[i].name, argv[2]))
            continue;
          if (!g_str_equal (argv[2], "stubs") && !g_str_equal (argv[2], "no_driver"))
            start ();
          subjects[i].run ();
          return 0;
        }
      return 2;
    }
  gcuda_test_init (&argc, &argv);
  g_test_add_func ("/checker/modes", test_modes);
  g_test_add_func ("/checker/unknown-values", test_unknown_values);
  g_test_add_func ("/checker/unwritable-file", test_unwritable_file);
  g_test_add_func ("/checker/suppressions", test_suppressions);
  g_test_add_func ("/checker/threads", test_threads);
  g_test_add_func ("/checker/host", test_host);
  g_test_add_func ("/checker/report", test_report);
  g_test_add_func ("/checker/stacks", test_stacks);
  g_test_add_func ("/checker/said-once", test_said_once);
  g_test_add_func ("/checker/captured", test_captured);
  g_test_add_func ("/checker/capture-goes-on", test_capture_goes_on);
  g_test_add_func ("/checker/declared-unchecked", test_declared_unchecked);
  g_test_add_func ("/checker/ends", test_ends);
  g_test_add_func ("/checker/passed-on", test_passed_on);
  g_test_add_func ("/checker/passed-on/report", test_passed_on_report);
  g_test_add_func ("/checker/passed-on/log", test_passed_on_log);
  g_test_add_func ("/checker/passed-on/ends", test_passed_on_ends);
  g_test_add_func ("/checker/passed-on/stubs", test_passed_on_stubs);
  g_test_add_func ("/checker/passed-on/nowhere", test_passed_on_nowhere);
  result = g_test_run ();
  g_unlink (copy_of_the_driver ());
  {
    g_autofree char *folder = g_path_get_dirname (copy_of_the_driver ());

    g_rmdir (folder);
  }
  return result;
}
