/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What only the simulated driver has: its controls, environment, log, and the
 * honesty about order that tests of a library rely on. GCUDASIM_LIBRARY is its
 * path. Each test runs in a process of its own. */

#include "probe.h"
#include "../../gcudamem/simulator/gcudasim.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *library;
static CUcontext context;
static CUdevice dev;

#define S(name, ...)     (((__typeof__ (&name)) probe_symbol (#name)) (__VA_ARGS__))
#define good(call)       g_assert_cmpint (call, ==, CUDA_SUCCESS)
#define is(call, result) g_assert_cmpint (call, ==, result)

void *
probe_symbol (const char *name)
{
  void *symbol = dlsym (library, name);

  if (symbol == NULL)
    g_error ("no %s", name);
  return symbol;
}

static void
start (void)
{
  good (C (cuInit, 0));
  good (C (cuDeviceGet, &dev, 0));
  good (C (cuDevicePrimaryCtxRetain, &context, dev));
  good (C (cuCtxSetCurrent, context));
}

static CUstream
stream_new (void)
{
  CUstream s = NULL;

  good (C (cuStreamCreate, &s, CU_STREAM_NON_BLOCKING));
  return s;
}

static guint8
byte_at (CUdeviceptr p)
{
  guint8 b = 0;

  good (C (cuMemcpyDtoH, &b, p, 1));
  return b;
}

/* In a child, for what comes from the environment or ends the process. */
static void
in_child (const char *part, const char *const *env, int expect_signal, const char *expect_stderr)
{
  char **environment = g_get_environ ();
  char *argv[] = { (char *) "/proc/self/exe", (char *) "--part", (char *) part, NULL };
  char *err = NULL, *out = NULL;
  int status = 0;

  for (; env != NULL && *env != NULL; env += 2)
    environment = g_environ_setenv (environment, env[0], env[1], TRUE);
  {
    char *self = g_file_read_link ("/proc/self/exe", NULL);

    argv[0] = self;
    g_assert_true (g_spawn_sync (NULL, argv, environment, G_SPAWN_DEFAULT, NULL, NULL, &out, &err, &status, NULL));
    g_free (self);
  }
  if (*err != '\0')
    g_test_message ("%s", err);
  if (expect_signal != 0)
    {
      g_assert_true (WIFSIGNALED (status));
      g_assert_cmpint (WTERMSIG (status), ==, expect_signal);
    }
  else
    {
      g_assert_true (WIFEXITED (status));
      g_assert_cmpint (WEXITSTATUS (status), ==, 0);
    }
  if (expect_stderr != NULL)
    g_assert_nonnull (strstr (err, expect_stderr));
  g_free (err);
  g_free (out);
  g_strfreev (environment);
}

/* ---- parts ---- */

static void
part_hold (void)
{
  CUstream s, t;
  CUdeviceptr p, q, r;
  CUevent e;
  guint8 host = 9;

  start ();
  s = stream_new ();
  t = stream_new ();
  good (C (cuEventCreate, &e, 0));
  S (gcudasim_hold, 1);
  good (C (cuMemAllocAsync, &p, 4096, s));
  good (C (cuMemsetD8Async, p, 1, 4096, s));
  good (C (cuEventRecord, e, s));
  is (C (cuStreamQuery, s), CUDA_ERROR_NOT_READY);
  is (C (cuEventQuery, e), CUDA_ERROR_NOT_READY);
  g_assert_cmpuint (S (gcudasim_pending, ), >=, 3);
  /* Freed and not executed: the same stream may have it, another not. */
  good (C (cuMemFreeAsync, p, s));
  good (C (cuMemAllocAsync, &q, 4096, t));
  g_assert_cmphex (q, !=, p);
  good (C (cuMemAllocAsync, &r, 4096, s));
  g_assert_cmphex (r, ==, p);
  good (C (cuMemFreeAsync, r, s));
  /* Nor one that waits for an earlier point. */
  good (C (cuStreamWaitEvent, t, e, 0));
  good (C (cuMemAllocAsync, &r, 4096, t));
  g_assert_cmphex (r, !=, p);
  good (C (cuMemFreeAsync, r, t));
  /* But one that is ordered after the free. */
  good (C (cuEventRecord, e, s));
  good (C (cuStreamWaitEvent, t, e, 0));
  good (C (cuMemAllocAsync, &r, 4096, t));
  g_assert_true (r == p);
  S (gcudasim_hold, 0);
  good (C (cuStreamSynchronize, t));
  g_assert_cmphex (byte_at (r), ==, 0xcd);
  good (C (cuMemcpyHtoD, r, &host, 1));
  S (gcudasim_hold, 1);
  good (C (cuMemFreeAsync, r, t));
  S (gcudasim_drain, );
  g_assert_cmpuint (S (gcudasim_pending, ), ==, 0);
  S (gcudasim_hold, 0);
}

static void
part_faults (void)
{
  CUdeviceptr p;

  start ();
  g_assert_true (S (gcudasim_fail, "cuMemAlloc:2=OUT_OF_MEMORY,cuMemFree:1+=999"));
  good (C (cuMemAlloc, &p, 16));
  is (C (cuMemAlloc, &p, 16), CUDA_ERROR_OUT_OF_MEMORY);
  good (C (cuMemAlloc, &p, 16));
  is (C (cuMemFree, p), 999);
  is (C (cuMemFree, p), 999);
  g_assert_false (S (gcudasim_fail, "cuMemAlloc:0=OUT_OF_MEMORY"));
  g_assert_false (S (gcudasim_fail, "cuMemAlloc=OUT_OF_MEMORY"));
  g_assert_false (S (gcudasim_fail, "cuMemAlloc:1=SOMETHING"));
  is (C (cuMemFree, p), 999);
  g_assert_true (S (gcudasim_fail, NULL));
  good (C (cuMemFree, p));
  g_assert_cmpuint (S (gcudasim_call_count, "cuMemFree"), ==, 4);
  g_assert_cmpuint (S (gcudasim_call_count, "cuMemFree_v2"), ==, 4);
}

static void
part_fault_environment (void)
{
  CUdeviceptr p;

  start ();
  is (C (cuMemAlloc, &p, 16), CUDA_ERROR_OUT_OF_MEMORY);
  good (C (cuMemAlloc, &p, 16));
}

static void
part_log (void)
{
  char *log;
  CUdeviceptr p = 0;
  CUstream s;
  char *want;

  start ();
  S (gcudasim_log_start, );
  s = stream_new ();
  good (C (cuMemAllocAsync, &p, 4096, s));
  good (C (cuMemFreeAsync, p, CU_STREAM_LEGACY));
  good (C (cuStreamSynchronize, NULL));
  is (C (cuMemFree, 0x1234), CUDA_ERROR_INVALID_VALUE);
  good (C (cuCtxSetCurrent, NULL));
  is (C (cuMemAlloc, &p, 16), CUDA_ERROR_INVALID_CONTEXT);
  log = S (gcudasim_log_take, );
  g_assert_nonnull (log);
  want = g_strdup_printf (" cuMemFreeAsync(dptr=0x%llx, hStream=legacy) = SUCCESS ctx=%p\n", (unsigned long long) p, (void *) context);
  g_assert_nonnull (strstr (log, want));
  g_free (want);
  want = g_strdup_printf ("bytesize=4096, hStream=%p) = SUCCESS [dptr=0x%llx] ctx=%p\n", (void *) s, (unsigned long long) p, (void *) context);
  g_assert_nonnull (strstr (log, want));
  g_free (want);
  g_assert_nonnull (strstr (log, " cuStreamSynchronize(hStream=null) = SUCCESS ctx=0x"));
  g_assert_nonnull (strstr (log, " cuMemFree(dptr=0x1234) = INVALID_VALUE ctx=0x"));
  g_assert_nonnull (strstr (log, "bytesize=16) = INVALID_CONTEXT ctx=none\n"));
  free (log);
  log = S (gcudasim_log_take, );
  g_assert_cmpstr (log, ==, "");
  free (log);
}

static void
part_balance (void)
{
  GcudasimBalance before, now;
  size_t was, total, is_now;
  CUdeviceptr p, q;
  void *h;
  CUstream s;

  start ();
  s = stream_new ();
  good (C (cuMemGetInfo, &was, &total));
  S (gcudasim_balance, &before);
  good (C (cuMemAlloc, &p, 3 * MIB));
  good (C (cuMemAllocAsync, &q, 3 * MIB, s));
  good (C (cuMemAllocHost, &h, 4096));
  S (gcudasim_balance, &now);
  g_assert_cmpuint (now.allocations, ==, before.allocations + 3);
  good (C (cuMemGetInfo, &is_now, &total));
  g_assert_cmpuint (is_now, <, was);
  good (C (cuMemFree, p));
  good (C (cuMemFreeAsync, q, s));
  good (C (cuMemFreeHost, h));
  good (C (cuStreamSynchronize, s));
  good (C (cuMemGetInfo, &is_now, &total));
  g_assert_cmpuint (is_now, ==, was);
  S (gcudasim_balance, &now);
  g_assert_cmpuint (now.allocations, ==, before.allocations);
  g_assert_cmpuint (now.device_bytes, ==, before.device_bytes);
}

static void
part_attributes (void)
{
  int v = 0;

  start ();
  is (C (cuDeviceGetAttribute, &v, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0), CUDA_ERROR_INVALID_VALUE);
  good (C (cuDeviceGetAttribute, &v, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0));
  g_assert_cmpint (v, ==, 0);
  S (gcudasim_set_attribute, 0, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1);
  good (C (cuDeviceGetAttribute, &v, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0));
  g_assert_cmpint (v, ==, 1);
}

static void
part_visible (void)
{
  const char *want = g_getenv ("WANT");
  int n = -1, bus = -1;

  if (strcmp (want, "none") == 0)
    {
      is (C (cuInit, 0), CUDA_ERROR_NO_DEVICE);
      is (C (cuDeviceGetCount, &n), CUDA_ERROR_NOT_INITIALIZED);
      return;
    }
  good (C (cuInit, 0));
  good (C (cuDeviceGetCount, &n));
  g_assert_cmpint (n, ==, atoi (want));
  good (C (cuDeviceGetAttribute, &bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 0));
  g_assert_cmpint (bus, ==, atoi (strchr (want, ' ')));
}

static void
part_lose (void)
{
  CUdeviceptr p;

  start ();
  good (C (cuMemAlloc, &p, 16));
  g_assert_true (S (gcudasim_lose_context, context));
  is (C (cuMemFree, p), CUDA_ERROR_ILLEGAL_ADDRESS);
  is (C (cuCtxSynchronize, ), CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void
part_destroyed_stream (void)
{
  CUstream s;

  start ();
  s = stream_new ();
  good (C (cuStreamDestroy, s));
  C (cuStreamQuery, s);
}

static gpointer
synchronize (gpointer stream)
{
  CUresult result = C (cuStreamSynchronize, stream);

  g_assert_true (result == CUDA_SUCCESS || result == CUDA_ERROR_ILLEGAL_ADDRESS);
  return NULL;
}

/* A pool is destroyed whose memory was freed on a stream that another thread synchronises. */
static void
destroy_pool (gboolean waited, gboolean lost)
{
  CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
  CUdeviceptr p, other;
  CUmemoryPool pool;
  GThread *thread;
  CUevent event;
  CUstream s;

  start ();
  s = stream_new ();
  good (C (cuMemPoolCreate, &pool, &props));
  good (C (cuMemAlloc, &other, 16));
  good (C (cuMemAllocFromPoolAsync, &p, 16, pool, s));
  good (C (cuMemFreeAsync, p, s));
  good (C (cuEventCreate, &event, CU_EVENT_DISABLE_TIMING));
  good (C (cuEventRecord, event, s));
  while (C (cuEventQuery, event) == CUDA_ERROR_NOT_READY)
    g_usleep (100);
  if (waited)
    good (C (cuEventSynchronize, event));
  S (gcudasim_hold, 1);
  good (C (cuMemsetD8Async, other, 1, 16, s));
  thread = g_thread_new ("synchronize", synchronize, s);
  g_usleep (50000);
  if (lost)
    S (gcudasim_lose_context, context);
  good (C (cuMemPoolDestroy, pool));
  S (gcudasim_hold, 0);
  g_thread_join (thread);
}

static void
part_pool_waited_for (void)
{
  destroy_pool (TRUE, FALSE);
}

static void
part_pool_of_lost_context (void)
{
  destroy_pool (FALSE, TRUE);
}

static void
part_pool_not_waited_for (void)
{
  destroy_pool (FALSE, FALSE);
}

static void
part_reset_stream (void)
{
  CUstream s;
  CUdeviceptr p;

  start ();
  s = stream_new ();
  good (C (cuMemAllocAsync, &p, 16, s));
  good (C (cuStreamSynchronize, s));
  good (C (cuDevicePrimaryCtxReset, dev));
  C (cuMemFreeAsync, p, s);
}

static void
part_reset_event (void)
{
  GcudasimBalance before, now;
  CUevent e;

  start ();
  S (gcudasim_balance, &before);
  good (C (cuEventCreate, &e, 0));
  S (gcudasim_balance, &now);
  g_assert_cmpuint (now.events, ==, before.events + 1);
  good (C (cuDevicePrimaryCtxReset, dev));
  S (gcudasim_balance, &now);
  g_assert_cmpuint (now.events, ==, before.events);
  C (cuEventQuery, e);
}

static void
after_teardown (void)
{
  CUdeviceptr p;
  int n;

  /* Registered before cuInit, so runs after the driver's own. */
  if (C (cuMemAlloc, &p, 16) != CUDA_ERROR_DEINITIALIZED || C (cuDeviceGetCount, &n) != CUDA_ERROR_DEINITIALIZED)
    _exit (9);
}

static void
part_exit (void)
{
  CUdeviceptr p;

  atexit (after_teardown);
  start ();
  good (C (cuMemAllocAsync, &p, 4096, NULL));
  S (gcudasim_hold, 1);
  good (C (cuMemsetD8Async, p, 1, 16, NULL));
}

static void
part_laziest (void)
{
  CUdeviceptr p;
  CUstream s, t;

  start ();
  s = stream_new ();
  t = stream_new ();
  good (C (cuMemAlloc, &p, 4096));
  good (C (cuMemsetD8, p, 0, 4096));
  good (C (cuMemsetD8Async, p, 1, 4096, s));
  good (C (cuMemsetD8Async, p + 2048, 2, 16, t));
  /* Waiting for one stream runs nothing of the other. */
  good (C (cuStreamSynchronize, t));
  is (C (cuStreamQuery, s), CUDA_ERROR_NOT_READY);
  g_assert_cmpuint (S (gcudasim_pending, ), ==, 1);
  /* Asked a second time it runs. */
  while (C (cuStreamQuery, s) == CUDA_ERROR_NOT_READY)
    g_usleep (1000);
  good (C (cuMemsetD8Async, p, 3, 4096, s));
  g_usleep (150000);
  g_assert_cmpuint (S (gcudasim_pending, ), ==, 0);
}

static void
part_unsimulated (void)
{
  CUmodule module;

  start ();
  is (C (cuModuleLoad, &module, "nothing"), CUDA_ERROR_NOT_SUPPORTED);
  is (C (cuModuleLoad, &module, "nothing"), CUDA_ERROR_NOT_SUPPORTED);
}

static void
part_plain (void)
{
  start ();
}

static const struct
{
  const char *name;
  void (*function) (void);
} parts[] = {
  { "hold", part_hold },
  { "faults", part_faults },
  { "fault-environment", part_fault_environment },
  { "log", part_log },
  { "balance", part_balance },
  { "attributes", part_attributes },
  { "visible", part_visible },
  { "lose", part_lose },
  { "destroyed-stream", part_destroyed_stream },
  { "reset-stream", part_reset_stream },
  { "reset-event", part_reset_event },
  { "pool-waited-for", part_pool_waited_for },
  { "pool-of-lost-context", part_pool_of_lost_context },
  { "pool-not-waited-for", part_pool_not_waited_for },
  { "exit", part_exit },
  { "laziest", part_laziest },
  { "unsimulated", part_unsimulated },
  { "plain", part_plain },
};

/* ---- tests ---- */

static void
test_simple (gconstpointer part)
{
  in_child (part, NULL, 0, NULL);
}

static void
test_fault_environment (void)
{
  in_child ("fault-environment", (const char *const[]){ "GCUDASIM_FAIL", "cuMemAlloc:1=OUT_OF_MEMORY", NULL }, 0, NULL);
}

static void
test_attributes (void)
{
  in_child ("attributes", (const char *const[]){ "GCUDASIM_ATTRIBUTES", "MEMORY_POOLS_SUPPORTED=0,10=INVALID_VALUE", NULL }, 0, NULL);
}

static void
test_laziest (void)
{
  in_child ("laziest", (const char *const[]){ "GCUDASIM_SCHEDULER", "laziest", NULL }, 0, NULL);
}

static void
test_visible (void)
{
  /* devices, CUDA_VISIBLE_DEVICES, what is left and the first one's bus */
  static const char *const cases[][3] = {
    { "2", "0,1", "2 1" },
    { "2", "1,0", "2 2" },
    { "2", "1", "1 2" },
    { "2", "", "none" },
    { "2", "-1", "none" },
    { "2", "99", "none" },
    { "2", "1,99,0", "1 2" },
    { "2", "1,1", "1 2" },
    { "0", "0", "none" },
    { "3", "2,0", "2 3" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    in_child ("visible", (const char *const[]){ "GCUDASIM_DEVICES", cases[i][0], "CUDA_VISIBLE_DEVICES", cases[i][1], "WANT", cases[i][2], NULL }, 0, NULL);
}

static void
test_bad_environment (void)
{
  static const char *const cases[][2] = {
    { "GCUDASIM_DEVICES", "many" },
    { "GCUDASIM_DEVICES", "17" },
    { "GCUDASIM_MEMORY", "4X" },
    { "GCUDASIM_MEMORY", "-1" },
    { "GCUDASIM_ATTRIBUTES", "NONSENSE=1" },
    { "GCUDASIM_ATTRIBUTES", "WARP_SIZE" },
    { "GCUDASIM_PEER_ACCESS", "2" },
    { "GCUDASIM_SCHEDULER", "fair" },
    { "GCUDASIM_SEED", "x" },
    { "GCUDASIM_FAIL", "cuMemAlloc" },
    { "GCUDASIM_DRIVER_VERSION", "new" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    in_child ("plain", (const char *const[]){ cases[i][0], cases[i][1], NULL }, 0, cases[i][0]);
}

static void
test_fatal (void)
{
  in_child ("destroyed-stream", NULL, SIGABRT, "FATAL: cuStreamQuery on a destroyed stream");
  in_child ("reset-stream", NULL, SIGABRT, "FATAL: cuMemFreeAsync on a destroyed stream");
  in_child ("reset-event", NULL, SIGABRT, "FATAL: cuEventQuery on event");
  in_child ("pool-waited-for", NULL, 0, NULL);
  in_child ("pool-of-lost-context", NULL, 0, NULL);
  in_child ("pool-not-waited-for", NULL, SIGABRT, "FATAL: cuMemPoolDestroy: nobody has waited");
}

static void
test_log_file (void)
{
  char *path = g_build_filename (g_get_tmp_dir (), "gcudasim-log-XXXXXX", NULL);
  char *text = NULL;
  int fd = g_mkstemp (path);

  close (fd);
  in_child ("balance", (const char *const[]){ "GCUDASIM_LOG", path, "GCUDASIM_SEED", "42", NULL }, 0, NULL);
  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  g_assert_true (g_str_has_prefix (text, "# gcudasim pid "));
  g_assert_nonnull (strstr (text, " seed 42\n1 "));
  g_assert_nonnull (strstr (text, "# balance allocations=0 streams=1 "));
  g_free (text);
  unlink (path);
  g_free (path);
}

static void
test_unsimulated (void)
{
  in_child ("unsimulated", NULL, 0, "gcudasim: cuModuleLoad is not simulated\n");
}

int
main (int argc, char **argv)
{
  const char *path = g_getenv ("GCUDASIM_LIBRARY");

  library = dlopen (path != NULL ? path : "libgcudasim.so", RTLD_NOW);
  if (library == NULL)
    {
      fprintf (stderr, "%s\n", dlerror ());
      return 1;
    }
  if (argc == 3 && strcmp (argv[1], "--part") == 0)
    {
      for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
        {
          if (strcmp (parts[i].name, argv[2]) == 0)
            {
              parts[i].function ();
              return 0;
            }
        }
      return 2;
    }
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/simulator/hold", "hold", test_simple);
  g_test_add_data_func ("/simulator/faults", "faults", test_simple);
  g_test_add_func ("/simulator/fault-environment", test_fault_environment);
  g_test_add_data_func ("/simulator/log", "log", test_simple);
  g_test_add_func ("/simulator/log-file", test_log_file);
  g_test_add_data_func ("/simulator/balance", "balance", test_simple);
  g_test_add_func ("/simulator/attributes", test_attributes);
  g_test_add_func ("/simulator/visible-devices", test_visible);
  g_test_add_func ("/simulator/bad-environment", test_bad_environment);
  g_test_add_data_func ("/simulator/lose", "lose", test_simple);
  g_test_add_func ("/simulator/fatal", test_fatal);
  g_test_add_data_func ("/simulator/exit", "exit", test_simple);
  g_test_add_func ("/simulator/laziest", test_laziest);
  g_test_add_func ("/simulator/unsimulated", test_unsimulated);
  return g_test_run ();
}
