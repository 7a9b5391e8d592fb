/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* What the benchmarks share: the driver by its own names, the time, and medians. */

#include <cuda.h>
#include <dlfcn.h>
#include <glib.h>
#include <stdlib.h>
#include <time.h>

#define ROUNDS 21

static gpointer driver;

static inline gpointer
raw_function (const char *name)
{
  CUresult (*get) (const char *, void **, int, cuuint64_t, void *) = NULL;
  gpointer function = NULL;
  int status;

  *(void **) &get = dlsym (driver, "cuGetProcAddress_v2");
  if (get (name, &function, CUDA_VERSION, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status) != CUDA_SUCCESS)
    g_error ("the driver has no %s", name);
  return function;
}

/* Looked up once. */
#define RAW(name)                                    \
  ({                                                 \
    static __typeof__ (&name) looked_up_;            \
    if (looked_up_ == NULL)                          \
      *(void **) &looked_up_ = raw_function (#name); \
    looked_up_;                                      \
  })

/* In nanoseconds. */
static inline gint64
now (void)
{
  struct timespec time;

  clock_gettime (CLOCK_MONOTONIC, &time);
  return time.tv_sec * G_GINT64_CONSTANT (1000000000) + time.tv_nsec;
}

static inline int
compare_doubles (const void *a,
                 const void *b)
{
  double difference = *(const double *) a - *(const double *) b;

  return difference < 0 ? -1 : difference > 0;
}

static inline double
median (double *values,
        guint count)
{
  qsort (values, count, sizeof *values, compare_doubles);
  return values[count / 2];
}

/* One call of what is measured. */
typedef void (*Step) (void);

static inline double
time_calls (Step step,
            guint count)
{
  gint64 start = now ();

  for (guint i = 0; i < count; i++)
    step ();
  return (double) (now () - start) / count;
}

/* A row: nanoseconds a call, of the raw driver and of the library in turns, each round from where @settle has brought things. */
static inline void
compare_calls (const char *name,
               guint count,
               Step settle,
               Step raw,
               Step ours,
               const char *budget)
{
  double raw_times[ROUNDS], our_times[ROUNDS], raw_median, our_median;

  settle ();
  time_calls (raw, count);
  settle ();
  time_calls (ours, count);
  for (guint i = 0; i < ROUNDS; i++)
    {
      settle ();
      raw_times[i] = time_calls (raw, count);
      settle ();
      our_times[i] = time_calls (ours, count);
    }
  raw_median = median (raw_times, ROUNDS);
  our_median = median (our_times, ROUNDS);
  g_print ("%-52s %9.1f %9.1f %9.1f %7.2f   %s\n", name, raw_median, our_median, our_median - raw_median, our_median / raw_median, budget);
}
