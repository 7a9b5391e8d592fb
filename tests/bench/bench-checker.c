/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the ordering checker costs: the time of a mix of operations on the simulated driver with it and without, and the
 * memory that it keeps during very many. Those are passed on to a driver that does nothing: so what is seen is the checker,
 * and neither queues nor threads. Not a test: nothing here passes or fails. The budget is 20 times the time.
 */
#include "bench.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define STREAMS 4

static CUstream streams[STREAMS];
static CUevent events[STREAMS];
static CUdeviceptr memory[STREAMS];

static void
start (void)
{
  CUcontext context;

  driver = dlopen (g_getenv ("GCUDASIM_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
  if (driver == NULL)
    g_error ("%s", dlerror ());
  RAW (cuInit)
  (0);
  RAW (cuDevicePrimaryCtxRetain)
  (&context, 0);
  RAW (cuCtxSetCurrent)
  (context);
  for (guint i = 0; i < STREAMS; i++)
    {
      RAW (cuStreamCreate)
      (&streams[i], CU_STREAM_NON_BLOCKING);
      RAW (cuEventCreate)
      (&events[i], CU_EVENT_DISABLE_TIMING);
      RAW (cuMemAlloc)
      (&memory[i], 1 << 16);
    }
}

static gint64
resident (void)
{
  g_autofree char *text = NULL;
  long pages = 0;

  if (g_file_get_contents ("/proc/self/statm", &text, NULL, NULL))
    sscanf (text, "%*d %ld", &pages);
  return pages * sysconf (_SC_PAGESIZE) / 1024;
}

/* ---- what is done, the I-th time ---- */

static void
chained (guint64 i)
{
  guint stream = i % STREAMS;

  RAW (cuMemsetD8Async)
  (memory[i / STREAMS % STREAMS] + i % 7 * 64, 1, 64, streams[stream]);
  RAW (cuEventRecord)
  (events[stream], streams[stream]);
  RAW (cuStreamWaitEvent)
  (streams[(stream + 1) % STREAMS], events[stream], 0);
}

static void
synchronizing (guint64 i)
{
  chained (i);
  if (i % 1000 == 999)
    RAW (cuStreamSynchronize)
  (streams[i % STREAMS]);
}

static void
allocating (guint64 i)
{
  CUdeviceptr address;

  RAW (cuMemAllocAsync)
  (&address, 4096, streams[i % STREAMS]);
  RAW (cuMemsetD8Async)
  (address, 1, 64, streams[i % STREAMS]);
  RAW (cuMemFreeAsync)
  (address, streams[i % STREAMS]);
}

static void
making_streams (guint64 i)
{
  CUstream stream;

  RAW (cuStreamCreate)
  (&stream, CU_STREAM_NON_BLOCKING);
  RAW (cuStreamWaitEvent)
  (stream, events[0], 0);
  RAW (cuMemsetD8Async)
  (memory[0] + i % 1000, 1, 1, stream);
  RAW (cuEventRecord)
  (events[0], stream);
  RAW (cuStreamDestroy)
  (stream);
}

/* Small parts of a large allocation, anywhere */
static void
scattered (guint64 i)
{
  static CUdeviceptr large;

  if (large == 0)
    RAW (cuMemAlloc)
  (&large, 1 << 26);
  RAW (cuMemsetD8Async)
  (large + i * 2654435761u % (1 << 20) * 64, 1, 32, streams[0]);
  if (i % 1000 == 999)
    RAW (cuStreamSynchronize)
  (streams[0]);
}

static void
mixed (guint64 i)
{
  synchronizing (i);
  RAW (cuMemcpyDtoDAsync)
  (memory[0] + 4096 + i % 8 * 64, memory[0] + 8192, 64, streams[i % STREAMS]);
  allocating (i);
}

static const struct
{
  const char *name;
  void (*step) (guint64 i);
} loads[] = {
  { "memsets, events, now and then a wait", synchronizing },
  { "memsets, events, never a wait", chained },
  { "allocations and frees, never a wait", allocating },
  { "streams made and destroyed, never a wait", making_streams },
  { "parts of a large allocation", scattered },
  { "mixed", mixed },
};

static void
run (guint load, guint64 count, gboolean says_memory)
{
  guint64 next = MIN (count, 100000);

  start ();
  for (guint64 i = 0; i < count; i++)
    {
      loads[load].step (i);
      if (says_memory && i + 1 == next)
        {
          printf ("%10" G_GINT64_FORMAT " KiB", resident ());
          fflush (stdout);
          next *= 10;
        }
      /* The simulated driver must not be left behind. */
      if (!says_memory && i % 500 == 499)
        RAW (cuCtxSynchronize)
      ();
    }
  fflush (stdout);
  /* What is queued at the end is nobody's concern. */
  _exit (0);
}

static double
processor_time (void)
{
  struct rusage usage;

  getrusage (RUSAGE_CHILDREN, &usage);
  return (double) (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + (double) (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* In a process of its own, as the checker is asked for once: its processor time, and what it printed. */
static double
spawn (char **argv, const char *check, const char *stacks, const char *pass_through, char **printed)
{
  g_autoptr (GError) error = NULL;
  g_auto (GStrv) env = g_get_environ ();
  g_autofree char *out = NULL;
  double before = processor_time ();
  int status;

  env = g_environ_setenv (env, "GCUDA_DRIVER", "simulated", TRUE);
  env = g_environ_setenv (env, "GCUDASIM_SEED", "1", TRUE);
  env = g_environ_setenv (env, "GCUDASIM_CHECK", check, TRUE);
  env = g_environ_setenv (env, "GCUDASIM_CHECK_STACKS", stacks, TRUE);
  env = pass_through != NULL ? g_environ_setenv (env, "GCUDASIM_PASS_THROUGH", pass_through, TRUE) : g_environ_unsetenv (env, "GCUDASIM_PASS_THROUGH");
  if (!g_spawn_sync (NULL, argv, env, G_SPAWN_STDERR_TO_DEV_NULL, NULL, NULL, &out, NULL, &status, &error) || status != 0)
    g_error ("%s: %s", argv[0], error != NULL ? error->message : "it failed");
  if (printed != NULL)
    *printed = g_steal_pointer (&out);
  return processor_time () - before;
}

static void
times (const char *name, char **argv)
{
  double off = spawn (argv, "off", "none", NULL, NULL);
  double on = spawn (argv, "report", "all", NULL, NULL);
  double no_stacks = spawn (argv, "report", "none", NULL, NULL);

  printf ("%-44s %9.3f %9.3f %9.3f %9.2f %9.2f\n", name, off, on, no_stacks, on / off, no_stacks / off);
  fflush (stdout);
}

int
main (int argc, char **argv)
{
  g_autofree char *program = g_file_read_link ("/proc/self/exe", NULL);
  const char *nothing = g_getenv ("BENCH_FAKE_DRIVER"), *test = g_getenv ("BENCH_TEST_PROGRAM");

  if (argc == 4)
    run ((guint) atoi (argv[1]), g_ascii_strtoull (argv[2], NULL, 10), g_str_equal (argv[3], "memory"));

  printf ("%-44s %9s %9s %9s %9s %9s\n", "processor seconds, simulated driver", "off", "on", "no stacks", "on/off", "n.s./off");
  for (guint i = 0; i < G_N_ELEMENTS (loads); i++)
    {
      g_autofree char *which = g_strdup_printf ("%u", i);
      char *args[] = { program, which, (char *) "30000", (char *) "time", NULL };

      times (loads[i].name, args);
    }
  if (test != NULL)
    {
      char *args[] = { (char *) test, NULL };

      times ("the test program that takes longest", args);
    }
  if (nothing == NULL)
    return 0;
  printf ("\n%-44s %14s %14s %14s %10s\n", "resident memory, passed on", "after 10^5", "10^6", "10^7", "seconds");
  for (guint i = 0; i < G_N_ELEMENTS (loads); i++)
    {
      g_autofree char *which = g_strdup_printf ("%u", i);
      g_autofree char *out = NULL;
      char *args[] = { program, which, (char *) "10000000", (char *) "memory", NULL };
      double seconds = spawn (args, "report", "none", nothing, &out);

      printf ("%-44s %s %10.1f\n", loads[i].name, out, seconds);
      fflush (stdout);
    }
  return 0;
}
