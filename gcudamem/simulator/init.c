/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* cuInit: reads the environment, makes the devices, starts the threads.
 * Nothing happens when the driver is only loaded. */

#include "sim-private.h"
#include "gcudasim.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

SimState sim = { .lock = PTHREAD_MUTEX_INITIALIZER, .done_cond = PTHREAD_COND_INITIALIZER, .driver_version = 13000, .peer_access = TRUE, .next_id = 1 };

guint64
sim_next_id (void)
{
  return sim.next_id++;
}

static void
bad_environment (const char *name, const char *value, const char *want)
{
  fprintf (stderr, "gcudasim: %s=%s is not %s: ignored\n", name, value, want);
}

static gboolean
environment_number (const char *name, gint64 least, gint64 most, gint64 *number)
{
  const char *text = g_getenv (name);
  char *end = NULL;
  gint64 value;

  if (text == NULL || *text == '\0')
    return FALSE;
  value = g_ascii_strtoll (text, &end, 10);
  if (end == text || *end != '\0' || value < least || value > most)
    {
      char *want = g_strdup_printf ("a number from %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT, least, most);

      bad_environment (name, text, want);
      g_free (want);
      return FALSE;
    }
  *number = value;
  return TRUE;
}

static guint64
environment_memory (void)
{
  const char *text = g_getenv ("GCUDASIM_MEMORY");
  guint64 fallback = G_GUINT64_CONSTANT (4) << 30;
  char *end = NULL;
  guint64 value;
  guint shift = 0;

  if (text == NULL || *text == '\0')
    return fallback;
  value = g_ascii_strtoull (text, &end, 10);
  switch (g_ascii_toupper (*end))
    {
    case 'K':
      shift = 10;
      end++;
      break;
    case 'M':
      shift = 20;
      end++;
      break;
    case 'G':
      shift = 30;
      end++;
      break;
    case 'T':
      shift = 40;
      end++;
      break;
    default:
      break;
    }
  if (end == text || *end != '\0' || value == 0 || value > (G_GUINT64_CONSTANT (1) << 42) >> shift || (value << shift) < SIM_MIB (64))
    {
      bad_environment ("GCUDASIM_MEMORY", text, "64M to 4T");
      return fallback;
    }
  return value << shift;
}

static gboolean
attribute_number (const char *name, int *number)
{
  static const struct
  {
    const char *name;
    int number;
  } names[] = {
#define SIM_ATTRIBUTE(name, number, value) { #name, number },
#include "attributes.h"
#undef SIM_ATTRIBUTE
  };
  char *end = NULL;
  long value;

  if (g_str_has_prefix (name, "CU_DEVICE_ATTRIBUTE_"))
    name += strlen ("CU_DEVICE_ATTRIBUTE_");
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      if (strcmp (names[i].name, name) == 0)
        {
          *number = names[i].number;
          return TRUE;
        }
    }
  value = strtol (name, &end, 10);
  if (end == name || *end != '\0' || value < 1 || value >= SIM_MAX_ATTRIBUTE)
    return FALSE;
  *number = (int) value;
  return TRUE;
}

static void
environment_attributes (void)
{
  const char *text = g_getenv ("GCUDASIM_ATTRIBUTES");
  char **items;

  if (text == NULL || *text == '\0')
    return;
  items = g_strsplit (text, ",", -1);
  for (guint i = 0; items[i] != NULL; i++)
    {
      char *item = g_strstrip (items[i]);
      char *equals = strchr (item, '=');
      SimAttribute attribute = { 0 };
      char *end = NULL;
      CUresult result;
      int number;

      if (*item == '\0')
        continue;
      if (equals != NULL)
        *equals = '\0';
      if (equals == NULL || !attribute_number (item, &number))
        {
          bad_environment ("GCUDASIM_ATTRIBUTES", text, "NAME=VALUE,... with names of device attributes");
          continue;
        }
      attribute.value = (int) strtol (equals + 1, &end, 0);
      if (end == equals + 1 || *end != '\0')
        {
          if (!sim_result_parse (equals + 1, &result))
            {
              bad_environment ("GCUDASIM_ATTRIBUTES", text, "NAME=VALUE,... with numbers or names of CUresult");
              continue;
            }
          attribute.is_error = TRUE;
          attribute.value = (int) result;
        }
      for (guint d = 0; d < sim.n_devices; d++)
        sim.devices[d]->attributes[number] = attribute;
    }
  g_strfreev (items);
}

/* The list ends at the first entry that names no device, or one named before. */
static void
make_devices (guint n, guint64 memory)
{
  const char *visible = g_getenv ("CUDA_VISIBLE_DEVICES");
  gboolean used[SIM_MAX_DEVICES] = { FALSE };
  char **items;

  if (visible == NULL)
    {
      for (guint i = 0; i < n; i++)
        sim.devices[sim.n_devices++] = sim_device_new ((int) i, (int) i, memory);
      return;
    }
  items = g_strsplit (visible, ",", -1);
  for (guint i = 0; items[i] != NULL; i++)
    {
      char *item = g_strstrip (items[i]);
      char *end = NULL;
      long index = -1;

      if (g_str_has_prefix (item, "GPU-"))
        {
          for (guint d = 0; d < n; d++)
            {
              char *uuid = g_strdup_printf ("GPU-67637564-6173-696d-0000-%012x", d);

              if (strcmp (item, uuid) == 0)
                index = (long) d;
              g_free (uuid);
            }
        }
      else
        {
          index = strtol (item, &end, 10);
          if (end == item)
            index = -1;
        }
      if (index < 0 || index >= (long) n || used[index])
        break;
      used[index] = TRUE;
      sim.devices[sim.n_devices] = sim_device_new ((int) sim.n_devices, (int) index, memory);
      sim.n_devices++;
    }
  g_strfreev (items);
}

static void
in_child (void)
{
  g_atomic_int_set (&sim.forked, TRUE);
}

static void
at_exit (void)
{
  GcudasimBalance b = { 0 };
  char *text;

  if (g_atomic_int_get (&sim.forked))
    return;
  gcudasim_balance (&b);
  sim_check_exit ();
  text = g_strdup_printf ("balance allocations=%llu streams=%llu events=%llu contexts=%llu pools=%llu reservations=%llu mappings=%llu "
                          "memory_handles=%llu graphs=%llu graph_execs=%llu user_objects=%llu pending=%llu device_bytes=%llu",
                          b.allocations, b.streams, b.events, b.contexts, b.pools, b.reservations, b.mappings,
                          b.memory_handles, b.graphs, b.graph_execs, b.user_objects, b.pending, b.device_bytes);
  pthread_mutex_lock (&sim.lock);
  sim_entry_remark (text);
  g_atomic_int_set (&sim.exited, TRUE);
  pthread_cond_broadcast (&sim.done_cond);
  pthread_cond_broadcast (&sim.work_cond);
  pthread_mutex_unlock (&sim.lock);
  g_free (text);
  sim_scheduler_stop ();
}

static CUresult
init (void)
{
  gint64 n = 1, number;
  const char *text;

  environment_number ("GCUDASIM_DEVICES", 0, SIM_MAX_DEVICES, &n);
  if (environment_number ("GCUDASIM_PEER_ACCESS", 0, 1, &number))
    sim.peer_access = number != 0;

  text = g_getenv ("GCUDASIM_SCHEDULER");
  if (text != NULL && strcmp (text, "laziest") == 0)
    sim.scheduler = SIM_LAZIEST;
  else if (text != NULL && *text != '\0' && strcmp (text, "shuffled") != 0)
    bad_environment ("GCUDASIM_SCHEDULER", text, "shuffled or laziest");

  if (environment_number ("GCUDASIM_SEED", 0, G_MAXUINT32, &number))
    sim.seed = (guint32) number;
  else
    sim.seed = (guint32) (g_get_real_time () ^ ((gint64) getpid () << 12));
  sim.verbose = g_strcmp0 (g_getenv ("GCUDASIM_VERBOSE"), "1") == 0;
  if (sim.verbose)
    fprintf (stderr, "gcudasim: scheduler %s, seed %u\n", sim.scheduler == SIM_LAZIEST ? "laziest" : "shuffled", sim.seed);
  sim.random = g_rand_new_with_seed (sim.seed);
  sim.pools = g_ptr_array_new ();
  sim.live_captures = g_hash_table_new (NULL, NULL);
  if (!sim.plain)
    {
      sim_entry_init ();
      sim_check_init ();
    }
  make_devices ((guint) n, environment_memory ());
  environment_attributes ();
  if (sim.n_devices == 0)
    return CUDA_ERROR_NO_DEVICE;

  pthread_atfork (NULL, NULL, in_child);
  sim_scheduler_start ();
  atexit (at_exit);
  return CUDA_SUCCESS;
}

static void
read_driver_version (void)
{
  static gboolean done;
  gint64 number;

  if (!done && environment_number ("GCUDASIM_DRIVER_VERSION", 1000, 98999, &number))
    sim.driver_version = (int) number;
  done = TRUE;
}

static void
at_exit_passing (void)
{
  if (!g_atomic_int_get (&sim.forked))
    sim_check_exit ();
}

/* Calls go to another driver. */
static CUresult
init_passing (unsigned int flags)
{
  static gint done;
  CUresult (*real) (unsigned int flags);

  *(void **) &real = sim_real_function ("cuInit");
  if (g_atomic_int_compare_and_exchange (&done, FALSE, TRUE))
    {
      sim_entry_init ();
      sim_check_init ();
      pthread_atfork (NULL, NULL, in_child);
      atexit (at_exit_passing);
    }
  return real (flags);
}

SIM_ENTRY (cuInit, SIM_ANYTIME | SIM_CALLBACK | SIM_OWN, (unsigned int, Flags))
{
  static gboolean done;

  if (sim_passing ())
    return init_passing (Flags);

  if (Flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (!done)
    {
      done = TRUE;
      read_driver_version ();
      sim.init_result = init ();
      if (sim.init_result == CUDA_SUCCESS)
        g_atomic_int_set (&sim.initialized, TRUE);
    }
  return sim.init_result;
}

SIM_ENTRY (cuDriverGetVersion, SIM_ANYTIME | SIM_CALLBACK, (int *, driverVersion))
{
  if (driverVersion == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  read_driver_version ();
  *driverVersion = sim.driver_version;
  return CUDA_SUCCESS;
}

/* ---- control ---- */

static void
set_attribute (int device, int attribute, gboolean is_error, int value)
{
  pthread_mutex_lock (&sim.lock);
  if (device >= 0 && (guint) device < sim.n_devices && attribute > 0 && attribute < SIM_MAX_ATTRIBUTE)
    {
      sim.devices[device]->attributes[attribute].is_error = is_error;
      sim.devices[device]->attributes[attribute].value = value;
    }
  pthread_mutex_unlock (&sim.lock);
}

SIM_EXPORT void
gcudasim_set_attribute (int device, int attribute, int value)
{
  set_attribute (device, attribute, FALSE, value);
}

SIM_EXPORT void
gcudasim_set_attribute_error (int device, int attribute, int result)
{
  static const struct
  {
    int number, value;
  } defaults[] = {
#define SIM_ATTRIBUTE(name, number, value) { number, value },
#include "attributes.h"
#undef SIM_ATTRIBUTE
  };

  if (result != 0)
    set_attribute (device, attribute, TRUE, result);
  else
    {
      for (guint i = 0; i < G_N_ELEMENTS (defaults); i++)
        {
          if (defaults[i].number == attribute)
            set_attribute (device, attribute, FALSE, defaults[i].value);
        }
    }
}
