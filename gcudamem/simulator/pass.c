/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Instead of being simulated, calls can be passed on to another driver, a real
 * one: then this library checks their order, logs them, and makes them fail. */

#include "sim-private.h"
#include "sim-proc.h"
#include "gcudasim.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef CUresult (*GetProcAddress) (const char *symbol, void **function, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status);

enum
{
  UNKNOWN,
  SIMULATING,
  PASSING,
};

static struct
{
  pthread_mutex_t lock;
  gint state; /* atomic */
  gpointer library;
  GetProcAddress get;
  GHashTable *functions; /* by symbol */
} pass = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Of a program that uses its default streams as the legacy one, and of one that does not. */
static gpointer
find (const SimProc *proc)
{
  gpointer function = NULL;
  CUdriverProcAddressQueryResult status;
  cuuint64_t flags = proc->per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_LEGACY_STREAM;

  if (pass.get (proc->name, &function, proc->version, flags, &status) != CUDA_SUCCESS)
    return NULL;
  return function;
}

static const char *
begin_passing (const char *path)
{
  static char *message;
  gpointer library = dlopen (path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  GetProcAddress get;
  void (*only_simulate) (void);

  if (library == NULL)
    {
      g_free (message);
      message = g_strdup (dlerror ());
      return message;
    }
  if (dlsym (library, "gcudasim_pass_through") == (gpointer) gcudasim_pass_through)
    return "this is the library that checks, not the driver to pass calls on to";
  *(void **) &get = dlsym (library, "cuGetProcAddress_v2");
  if (get == NULL)
    return "it has no cuGetProcAddress_v2: it is no CUDA driver, or one older than 12.0";
  *(void **) &only_simulate = dlsym (library, "gcudasim_only_simulate");
  if (only_simulate != NULL)
    only_simulate ();
  pass.library = library;
  pass.get = get;
  pass.functions = g_hash_table_new (g_str_hash, g_str_equal);
  for (guint i = 0; i < sim_n_procs; i++)
    {
      gpointer function = find (&sim_procs[i]);

      if (function == NULL)
        continue;
      g_hash_table_insert (pass.functions, (gpointer) sim_procs[i].symbol, function);
      *sim_procs[i].jump = function;
    }
  return NULL;
}

gboolean
sim_passing (void)
{
  const char *path, *message;

  if (G_LIKELY (g_atomic_int_get (&pass.state) != UNKNOWN))
    return pass.state == PASSING;
  pthread_mutex_lock (&pass.lock);
  if (pass.state == UNKNOWN)
    {
      path = getenv ("GCUDASIM_PASS_THROUGH");
      message = path != NULL && *path != '\0' ? begin_passing (path) : NULL;
      if (message != NULL)
        fprintf (stderr, "gcudasim: GCUDASIM_PASS_THROUGH=%s: %s: calls are simulated\n", path, message);
      g_atomic_int_set (&pass.state, pass.library != NULL ? PASSING : SIMULATING);
    }
  pthread_mutex_unlock (&pass.lock);
  return pass.state == PASSING;
}

SIM_EXPORT const char *
gcudasim_pass_through (const char *path)
{
  const char *message = NULL;

  pthread_mutex_lock (&pass.lock);
  if (pass.state == SIMULATING && g_atomic_int_get (&sim.initialized))
    message = "calls are simulated already";
  else if (pass.state != PASSING)
    {
      message = begin_passing (path);
      g_atomic_int_set (&pass.state, message == NULL ? PASSING : SIMULATING);
    }
  pthread_mutex_unlock (&pass.lock);
  return message;
}

SIM_EXPORT void
gcudasim_only_simulate (void)
{
  pthread_mutex_lock (&pass.lock);
  if (pass.state == UNKNOWN)
    {
      sim.plain = TRUE;
      g_atomic_int_set (&pass.state, SIMULATING);
    }
  pthread_mutex_unlock (&pass.lock);
}

gpointer
sim_real_function (const char *symbol)
{
  return g_hash_table_lookup (pass.functions, symbol);
}

/* Which form of a function the program gets: ours, if that has the same arguments and is more than a stub. */
CUresult
sim_pass_get_proc_address (const char *symbol, void **function, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
  CUdriverProcAddressQueryResult ignored;
  CUresult result = pass.get (symbol, function, version, flags, status != NULL ? status : &ignored);

  if (result != CUDA_SUCCESS || function == NULL || *function == NULL)
    return result;
  for (guint i = 0; i < sim_n_procs; i++)
    {
      const SimProc *proc = &sim_procs[i];

      if (strcmp (proc->name, symbol) == 0 && proc->function != proc->stub && sim_real_function (proc->symbol) == *function)
        {
          *function = proc->function;
          break;
        }
    }
  return result;
}

SIM_EXPORT int
gcudasim_is_simulating (void)
{
  return !sim_passing ();
}
