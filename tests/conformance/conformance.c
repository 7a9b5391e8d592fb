/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Performs the recorded calls again and compares the answers, line by line.
 * Which driver: GCUDA_DRIVER, a path or "simulated" (then GCUDASIM_LIBRARY is
 * its path); libcuda.so.1 otherwise. Each group runs in a process of its own,
 * with nothing called before. To see one: conformance --group NAME. */

#include "probe.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *library;
static const char *group;
CUcontext primary;
CUdevice device;

static const char *
driver_path (void)
{
  const char *path = g_getenv ("GCUDA_DRIVER");

  if (g_strcmp0 (path, "simulated") == 0)
    path = g_getenv ("GCUDASIM_LIBRARY") != NULL ? g_getenv ("GCUDASIM_LIBRARY") : "libgcudasim.so";
  return path != NULL && *path != '\0' ? path : "libcuda.so.1";
}

static CUresult
missing (void)
{
  return CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND;
}

void *
probe_symbol (const char *name)
{
  void *symbol = dlsym (library, name);

  return symbol != NULL ? symbol : (void *) missing;
}

const char *
probe_result (CUresult result)
{
  const char *name = NULL;

  if (C (cuGetErrorName, result, &name) != CUDA_SUCCESS || name == NULL)
    return "?";
  return g_str_has_prefix (name, "CUDA_ERROR_") ? name + 11 : name + 5;
}

static void print (const char *what, const char *result, const char *format, va_list args) G_GNUC_PRINTF (3, 0);

static void
print (const char *what, const char *result, const char *format, va_list args)
{
  char *facts = format != NULL ? g_strdup_vprintf (format, args) : NULL;

  printf ("%s: %s%s%s%s%s\n", group, what, result != NULL ? " " : "", result != NULL ? result : "",
          facts != NULL && *facts != '\0' && *what != '\0' ? " " : "", facts != NULL ? facts : "");
  fflush (stdout);
  g_free (facts);
}

void
say (const char *format, ...)
{
  va_list args;

  va_start (args, format);
  print ("", NULL, format, args);
  va_end (args);
}

void
ok (CUresult result, const char *what, const char *facts, ...)
{
  va_list args;

  va_start (args, facts);
  print (what, probe_result (result), result == CUDA_SUCCESS ? facts : NULL, args);
  va_end (args);
}

void
always (CUresult result, const char *what, const char *facts, ...)
{
  va_list args;

  va_start (args, facts);
  print (what, probe_result (result), facts, args);
  va_end (args);
}

void
only (CUresult result, const char *what)
{
  printf ("%s: %s %s\n", group, what, probe_result (result));
  fflush (stdout);
}

/* ---- work that stays pending ---- */

static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_cond = PTHREAD_COND_INITIALIZER;
static gboolean gate_closed;

static void CUDA_CB
wait_at_gate (void *data)
{
  (void) data;
  pthread_mutex_lock (&gate_lock);
  while (gate_closed)
    pthread_cond_wait (&gate_cond, &gate_lock);
  pthread_mutex_unlock (&gate_lock);
}

void
probe_block (CUstream stream)
{
  pthread_mutex_lock (&gate_lock);
  gate_closed = TRUE;
  pthread_mutex_unlock (&gate_lock);
  if (C (cuLaunchHostFunc, stream, wait_at_gate, NULL) != CUDA_SUCCESS)
    say ("cannot block a stream");
}

void
probe_open (void)
{
  pthread_mutex_lock (&gate_lock);
  gate_closed = FALSE;
  pthread_cond_broadcast (&gate_cond);
  pthread_mutex_unlock (&gate_lock);
}

/* ---- one group, in this process ---- */

static int
run_group (const char *name)
{
  group = name;
  for (guint i = 0; probes[i].name != NULL; i++)
    {
      if (strcmp (probes[i].name, name) != 0)
        continue;
      if (!probes[i].bare)
        {
          CUresult result = C (cuInit, 0);

          if (result == CUDA_ERROR_NO_DEVICE)
            return 77;
          if (result != CUDA_SUCCESS || C (cuDeviceGet, &device, 0) != CUDA_SUCCESS ||
              C (cuDevicePrimaryCtxRetain, &primary, device) != CUDA_SUCCESS)
            {
              say ("cannot start: %s", probe_result (result));
              return 1;
            }
          /* The stack of this thread begins empty where that is the subject. */
          if (strcmp (name, "ctx_stack") != 0 && C (cuCtxSetCurrent, primary) != CUDA_SUCCESS)
            return 1;
        }
      /* What was said before it hangs or dies must not be lost. */
      setvbuf (stdout, NULL, _IOLBF, 0);
      alarm (100);
      probes[i].function ();
      return 0;
    }
  return 2;
}

/* ---- all of them, compared ---- */

static const char *self_path;
static char *answers;

static GPtrArray *
lines_of (const char *text, const char *name)
{
  char *prefix = g_strconcat (name, ":", NULL);
  char **lines = g_strsplit (text, "\n", -1);
  GPtrArray *found = g_ptr_array_new_with_free_func (g_free);

  for (guint i = 0; lines[i] != NULL; i++)
    {
      char *line = lines[i];
      GString *clean;

      if (!g_str_has_prefix (line[0] == '~' ? line + 1 : line, prefix))
        continue;
      clean = g_string_new (NULL);
      for (; *line != '\0'; line++)
        {
          if (*line != ' ' || (clean->len > 0 && clean->str[clean->len - 1] != ' '))
            g_string_append_c (clean, *line);
        }
      g_ptr_array_add (found, g_strchomp (g_string_free (clean, FALSE)));
    }
  g_strfreev (lines);
  g_free (prefix);
  return found;
}

static void
test_group (gconstpointer data)
{
  const char *name = data;
  const char *argv[] = { self_path, "--group", name, NULL };
  GError *error = NULL;
  char *out = NULL;
  GPtrArray *want, *got;
  int status = 0;
  guint wrong = 0;

  g_spawn_sync (NULL, (char **) argv, NULL, G_SPAWN_CHILD_INHERITS_STDIN, NULL, NULL, &out, NULL, &status, &error);
  g_assert_no_error (error);
  if (WIFEXITED (status) && WEXITSTATUS (status) == 77)
    {
      g_test_skip ("no device");
      g_free (out);
      return;
    }
  want = lines_of (answers, name);
  got = lines_of (out, name);
  for (guint i = 0; i < MAX (want->len, got->len); i++)
    {
      const char *w = i < want->len ? g_ptr_array_index (want, i) : "(nothing)";
      const char *g = i < got->len ? g_ptr_array_index (got, i) : "(nothing)";

      if (w[0] == '~' ? i >= got->len : strcmp (w, g) != 0)
        {
          g_test_message ("recorded: %s", w);
          g_test_message ("     now: %s", g);
          wrong++;
        }
    }
  if (wrong > 0)
    g_test_fail_printf ("%u of %u lines differ", wrong, want->len);
  if (!WIFEXITED (status) || WEXITSTATUS (status) != 0)
    g_test_fail_printf ("the process ended with %s %d", WIFEXITED (status) ? "status" : "signal",
                        WIFEXITED (status) ? WEXITSTATUS (status) : WTERMSIG (status));
  g_ptr_array_unref (want);
  g_ptr_array_unref (got);
  g_free (out);
}

int
main (int argc, char **argv)
{
  const char *source = g_getenv ("G_TEST_SRCDIR");
  g_autofree char *file = g_build_filename (source != NULL ? source : "tests", "conformance", "answers.txt", NULL);
  GError *error = NULL;

  library = dlopen (driver_path (), RTLD_NOW | RTLD_GLOBAL);
  if (argc == 3 && strcmp (argv[1], "--group") == 0)
    {
      if (library == NULL)
        {
          fprintf (stderr, "%s\n", dlerror ());
          return 1;
        }
      return run_group (argv[2]);
    }

  g_test_init (&argc, &argv, NULL);
  if (library == NULL)
    {
      printf ("1..0 # SKIP %s\n", dlerror ());
      return 0;
    }
  if (!g_file_get_contents (file, &answers, NULL, &error))
    g_error ("%s", error->message);
  self_path = "/proc/self/exe";
  {
    static char path[4096];
    char *real = g_file_read_link (self_path, NULL);

    g_strlcpy (path, real, sizeof path);
    g_free (real);
    self_path = path;
  }
  for (guint i = 0; probes[i].name != NULL; i++)
    {
      char *test = g_strconcat ("/conformance/", probes[i].name, NULL);

      g_test_add_data_func (test, probes[i].name, test_group);
      g_free (test);
    }
  {
    int status = g_test_run ();

    g_free (answers);
    return status;
  }
}
