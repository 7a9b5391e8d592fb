/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The checker against a plain account of the same: programs at random, on streams of all kinds and with events, of which
 * each operation keeps the set of all those that it comes after. Whether two accesses race can be read off that, and the
 * checker, which forgets what it can and uses its slots again, has to say the same of each operation.
 *
 * Calls go to a driver that does nothing, so that very many can be made.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <glib.h>
#include <stdio.h>
#include <string.h>

#include "gcudasim.h"

#define MAX_OPS   512
#define N_STREAMS 7 /* the first is the legacy one */
#define N_EVENTS  6

typedef struct
{
  guint64 bits[MAX_OPS / 64];
} Past;

typedef struct
{
  CUstream handle;
  gboolean blocking;
  Past past;
} Stream;

typedef struct
{
  CUevent handle;
  Past past;
} Event;

typedef struct
{
  guint from, to;
  gboolean writes;
} Access;

static GRand *rnd;
static Stream streams[N_STREAMS];
static Event events[N_EVENTS];
static Past legacy;  /* as of the latest that was queued there: blocking streams come after it */
static Past gone[2]; /* of destroyed streams; of blocking ones */
static Past host;
static Access accesses[MAX_OPS];
static guint n;

static __typeof__ (&gcudasim_declare_access) declare_access;
static __typeof__ (&gcudasim_reports) count_reports;
static gpointer library;

#define CALL(symbol) ((__typeof__ (&symbol)) dlsym (library, G_STRINGIFY (symbol)))

static void
join (Past *past, const Past *other)
{
  for (guint i = 0; i < G_N_ELEMENTS (past->bits); i++)
    past->bits[i] |= other->bits[i];
}

static gboolean
contains (const Past *past, guint op)
{
  return (past->bits[op / 64] >> (op % 64) & 1) != 0;
}

static guint
below (guint end)
{
  return (guint) g_rand_int_range (rnd, 0, (gint32) end);
}

static void
make_stream (guint i)
{
  streams[i].blocking = i > 0 && below (2) == 0;
  if (i == 0)
    streams[i].handle = CU_STREAM_LEGACY;
  else
    g_assert_cmpint (CALL (cuStreamCreate) (&streams[i].handle, streams[i].blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING), ==, CUDA_SUCCESS);
  memset (&streams[i].past, 0, sizeof streams[i].past);
}

static void
join_default (Past *past, guint i)
{
  if (i > 0)
    {
      if (streams[i].blocking)
        join (past, &legacy);
      return;
    }
  join (past, &gone[TRUE]);
  for (guint other = 1; other < N_STREAMS; other++)
    {
      if (streams[other].blocking)
        join (past, &streams[other].past);
    }
}

/* What is queued in the stream now comes after this. */
static Past
past_of_next (guint i)
{
  Past past = streams[i].past;

  join (&past, &host);
  join_default (&past, i);
  return past;
}

static void
queued (guint i, const Past *past)
{
  streams[i].past = *past;
  if (i == 0)
    legacy = *past;
}

static gboolean
is_race (const Access *access, const Past *past)
{
  for (guint op = 0; op < n; op++)
    {
      if (accesses[op].from < access->to && access->from < accesses[op].to && (accesses[op].writes || access->writes) && !contains (past, op))
        return TRUE;
    }
  return FALSE;
}

/* FALSE: there was a race, and what comes after one nobody can tell. */
static gboolean
touch (guint program, guint i, CUdeviceptr memory, guint shape)
{
  Past past = past_of_next (i);
  Access access;
  unsigned long long before = count_reports ();
  g_autofree char *name = NULL;
  gboolean race;

  /* Each anywhere, in parts small or large; or in a region of its own, almost. */
  access.from = shape > 1 ? (i * 9 + below (10)) % 64 : below (64);
  access.to = access.from + 1 + below (shape > 1 ? 3 : shape == 1 ? 4
                                                                  : 30);
  access.writes = below (3) != 0;
  race = is_race (&access, &past);
  if (race && below (60) != 0)
    return TRUE;
  accesses[n] = access;
  past.bits[n / 64] |= G_GUINT64_CONSTANT (1) << (n % 64);
  queued (i, &past);
  /* The same two are said once: none has another's name. */
  name = g_strdup_printf ("access %u of program %u", n, program);
  n++;
  declare_access (streams[i].handle, memory + access.from * 8, (access.to - access.from) * 8, access.writes, name);
  if ((count_reports () != before) != race)
    g_error ("%s, in stream %u, bytes %u to %u: %s", name, i, access.from * 8, access.to * 8, race ? "a race that is not reported" : "no race, but reported");
  return !race;
}

static void
run_program (guint program)
{
  guint shape = below (4);
  gboolean goes_on = TRUE;
  CUdeviceptr memory;

  g_assert_cmpint (CALL (cuMemAlloc_v2) (&memory, 4096), ==, CUDA_SUCCESS);
  /* No access of an earlier program is of these bytes. */
  n = 0;
  memset (&legacy, 0, sizeof legacy);
  memset (gone, 0, sizeof gone);
  memset (&host, 0, sizeof host);
  for (guint i = 0; i < N_STREAMS; i++)
    memset (&streams[i].past, 0, sizeof streams[i].past);
  for (guint i = 0; i < N_EVENTS; i++)
    memset (&events[i].past, 0, sizeof events[i].past);

  while (goes_on && n < MAX_OPS)
    {
      guint what = below (100), i = below (N_STREAMS);
      Event *event = &events[below (N_EVENTS)];
      Past past;

      if (what < 30)
        goes_on = touch (program, i, memory, shape);
      else if (what < 52)
        {
          past = past_of_next (i);
          queued (i, &past);
          event->past = past;
          CALL (cuEventRecord)
          (event->handle, streams[i].handle);
        }
      else if (what < 78)
        {
          past = past_of_next (i);
          join (&past, &event->past);
          queued (i, &past);
          CALL (cuStreamWaitEvent)
          (streams[i].handle, event->handle, 0);
        }
      else if (what < 84)
        {
          join (&host, &streams[i].past);
          join_default (&host, i);
          CALL (cuStreamSynchronize)
          (streams[i].handle);
        }
      else if (what < 88)
        {
          join (&host, &event->past);
          CALL (cuEventSynchronize)
          (event->handle);
        }
      else if (what < 90)
        {
          for (guint other = 0; other < N_STREAMS; other++)
            join (&host, &streams[other].past);
          join (&host, &gone[FALSE]);
          join (&host, &gone[TRUE]);
          CALL (cuCtxSynchronize)
          ();
        }
      else if (what < 94 && i > 0)
        {
          join (&gone[streams[i].blocking], &streams[i].past);
          CALL (cuStreamDestroy_v2)
          (streams[i].handle);
          make_stream (i);
        }
      else if (what < 96)
        {
          memset (&event->past, 0, sizeof event->past);
          CALL (cuEventDestroy_v2)
          (event->handle);
          CALL (cuEventCreate)
          (&event->handle, CU_EVENT_DISABLE_TIMING);
        }
    }
}

static void
test_oracle (void)
{
  CUcontext context;

  library = dlopen (g_getenv ("GCUDASIM_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
  g_assert_nonnull (library);
  declare_access = CALL (gcudasim_declare_access);
  count_reports = CALL (gcudasim_reports);
  g_assert_cmpint (CALL (cuInit) (0), ==, CUDA_SUCCESS);
  g_assert_cmpint (CALL (cuDevicePrimaryCtxRetain) (&context, 0), ==, CUDA_SUCCESS);
  g_assert_cmpint (CALL (cuCtxSetCurrent) (context), ==, CUDA_SUCCESS);
  for (guint i = 0; i < N_STREAMS; i++)
    make_stream (i);
  for (guint i = 0; i < N_EVENTS; i++)
    CALL (cuEventCreate)
  (&events[i].handle, CU_EVENT_DISABLE_TIMING);
  for (guint program = 0; program < 400; program++)
    run_program (program);
  /* About every second one ends with a race. */
  g_assert_cmpuint (count_reports (), >, 50);
}

int
main (int argc, char **argv)
{
  int result;

  g_test_init (&argc, &argv, NULL);
  rnd = g_rand_new_with_seed ((guint32) g_test_rand_int ());
  g_setenv ("GCUDASIM_CHECK", "report", TRUE);
  g_setenv ("GCUDASIM_CHECK_STACKS", "none", TRUE);
  g_test_add_func ("/races/oracle", test_oracle);
  result = g_test_run ();
  g_rand_free (rnd);
  return result;
}
