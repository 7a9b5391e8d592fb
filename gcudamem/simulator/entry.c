/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What happens around every driver call: state of the process, faults, log. */

#include "sim-private.h"
#include "gcudasim.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct
{
  char *function;
  guint64 nth;
  gboolean and_later;
  CUresult result;
  guint64 thread; /* 0: any */
  guint64 seen;
} SimFault;

static struct
{
  GPtrArray *faults;
  GHashTable *counts; /* function name: guint64 * */
  guint64 total;
  GHashTable *reported; /* functions said not to be simulated */
  int fd;               /* of the log; -1: none */
  GString *memory;      /* of gcudasim_log_start */
  guint64 sequence;
} entry = { .fd = -1 };

static __thread SimThread *self;

static void
thread_gone (gpointer data)
{
  SimThread *thread = data;

  self = NULL;
  if ((g_atomic_int_get (&sim.initialized) || sim_passing ()) && !g_atomic_int_get (&sim.forked))
    {
      pthread_mutex_lock (&sim.lock);
      sim_check_thread_ended (thread->id);
      if (!sim_passing ())
        sim_thread_ended (thread);
      pthread_mutex_unlock (&sim.lock);
    }
  g_free (thread->stack);
  g_free (thread);
}

static GPrivate thread_key = G_PRIVATE_INIT (thread_gone);

SimThread *
sim_thread (void)
{
  static gint last_id;

  if (G_LIKELY (self != NULL))
    return self;

  self = g_new0 (SimThread, 1);
  self->id = (guint64) (guint) g_atomic_int_add (&last_id, 1) + 1;
  g_private_set (&thread_key, self);
  return self;
}

const char *
sim_this_function (void)
{
  return self != NULL && self->function != NULL ? self->function : "driver";
}

/* Length of a symbol without _ptsz, _ptds and _vN. */
guint
sim_base_length (const char *symbol)
{
  guint length = strlen (symbol);

  if (length > 5 && (strcmp (symbol + length - 5, "_ptsz") == 0 || strcmp (symbol + length - 5, "_ptds") == 0))
    length -= 5;
  if (length > 3 && symbol[length - 3] == '_' && symbol[length - 2] == 'v' && g_ascii_isdigit (symbol[length - 1]))
    length -= 3;
  return length;
}

/* Called with the lock. The table is keyed by the symbol's own address, which
 * is a literal: one look-up a call, no string made. */
static guint64 *
count_of (const char *symbol)
{
  static GHashTable *by_pointer;
  guint64 *count;

  if (entry.counts == NULL)
    {
      entry.counts = g_hash_table_new (g_str_hash, g_str_equal);
      by_pointer = g_hash_table_new (NULL, NULL);
    }
  count = g_hash_table_lookup (by_pointer, symbol);
  if (count == NULL)
    {
      char *base = g_strndup (symbol, sim_base_length (symbol));

      count = g_hash_table_lookup (entry.counts, base);
      if (count == NULL)
        {
          count = g_new0 (guint64, 1);
          g_hash_table_insert (entry.counts, base, count);
        }
      else
        g_free (base);
      g_hash_table_insert (by_pointer, (gpointer) symbol, count);
    }
  return count;
}

static CUresult
fault_for (const char *symbol)
{
  CUresult result = CUDA_SUCCESS;
  guint length;

  if (entry.faults == NULL)
    return CUDA_SUCCESS;

  length = sim_base_length (symbol);
  for (guint i = 0; i < entry.faults->len; i++)
    {
      SimFault *fault = g_ptr_array_index (entry.faults, i);

      if (strlen (fault->function) != length || strncmp (fault->function, symbol, length) != 0)
        continue;
      if (fault->thread != 0 && fault->thread != sim_thread ()->id)
        continue;
      /* Each counts all calls, those too that another one answers. */
      fault->seen++;
      if (result == CUDA_SUCCESS && (fault->seen == fault->nth || (fault->and_later && fault->seen > fault->nth)))
        result = fault->result;
    }
  return result;
}

/* The lock is taken only where there is something to do besides the call. */
static CUresult
pass_begin (SimCall *call, gboolean per_thread, SimSymbol *about)
{
  CUresult (*current) (CUcontext * context);

  if (call->flags & SIM_OWN)
    return CUDA_SUCCESS;
  call->real = sim_real_function (call->symbol);
  if (call->real == NULL)
    return CUDA_ERROR_NOT_FOUND;
  if (g_atomic_int_get (&sim.forked) || call->thread->nested > 0)
    return CUDA_SUCCESS;
  if (sim.checking && (call->rule = sim_check_rule (call->symbol, &about->rule)) != NULL)
    sim_check_capture (call->rule);
  if (call->rule == NULL && entry.fd < 0 && entry.memory == NULL && entry.faults == NULL)
    return CUDA_SUCCESS;

  pthread_mutex_lock (&sim.lock);
  call->entered = TRUE;
  call->thread->locked = TRUE;
  call->log = entry.fd >= 0 || entry.memory != NULL;
  call->thread->per_thread = per_thread;
  *(void **) &current = sim_real_function ("cuCtxGetCurrent");
  current (&call->context);
  ++*count_of (call->symbol);
  entry.total++;
  return fault_for (call->symbol);
}

CUresult
sim_call_begin (SimCall *call, const char *symbol, guint flags, gboolean per_thread, SimSymbol *about)
{
  CUresult result;

  call->symbol = symbol;
  call->flags = flags;
  call->thread = sim_thread ();
  call->entered = FALSE;
  call->log = FALSE;
  call->marked = FALSE;
  call->context = NULL;
  call->rule = NULL;
  call->real = NULL;
  call->waits_for.epochs = NULL;
  call->waits_for.n = 0;
  call->memory = NULL;
  call->text = NULL;
  call->out = NULL;

  if (G_UNLIKELY (sim_passing ()))
    return pass_begin (call, per_thread, about);

  /* In a forked child: no lock, no wait. Another thread of the parent may have
   * held any lock when the process was forked. */
  if (G_UNLIKELY (g_atomic_int_get (&sim.forked)))
    {
      call->marked = TRUE;
      call->log = entry.fd >= 0;
      return flags & SIM_PURE ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
    }

  if (call->thread->nested > 0)
    return CUDA_SUCCESS;

  call->thread->function = symbol;
  call->thread->per_thread = per_thread;
  if (sim.checking && (call->rule = sim_check_rule (symbol, &about->rule)) != NULL)
    sim_check_capture (call->rule);

  pthread_mutex_lock (&sim.lock);
  call->entered = TRUE;
  call->thread->locked = TRUE;
  call->log = entry.fd >= 0 || entry.memory != NULL;
  call->context = sim_current_handle (call->thread);
  ++*count_of (symbol);
  entry.total++;

  if (G_UNLIKELY (g_atomic_int_get (&sim.exited)) && !(flags & SIM_PURE))
    {
      call->marked = TRUE;
      return CUDA_ERROR_DEINITIALIZED;
    }
  if (!g_atomic_int_get (&sim.initialized) && !(flags & SIM_ANYTIME))
    return CUDA_ERROR_NOT_INITIALIZED;
  if (call->thread->driver_thread && !(flags & SIM_CALLBACK))
    return CUDA_ERROR_NOT_PERMITTED;
  if (sim.scheduler == SIM_LAZIEST)
    sim.last_call = g_get_monotonic_time ();

  result = fault_for (symbol);
  if (result == CUDA_SUCCESS && (flags & SIM_UNSAFE))
    result = sim_capture_check_unsafe ();
  return result;
}

void
sim_call_arg (SimCall *call, CUresult result, const char *name, SimArgKind kind, const void *value, gsize size)
{
  guint64 bits = 0;
  gint64 number;

  if (call->text == NULL)
    {
      call->text = g_string_new (NULL);
      call->out = g_string_new (NULL);
    }
  if (call->text->len > 0)
    g_string_append (call->text, ", ");
  memcpy (&bits, value, MIN (size, sizeof bits));
  g_string_append_printf (call->text, "%s=", name);

  switch (kind)
    {
    case SIM_KIND_INT:
      number = size == sizeof (int) ? (gint64) (int) bits : (gint64) bits;
      g_string_append_printf (call->text, "%" G_GINT64_FORMAT, number);
      return;
    case SIM_KIND_UINT:
      g_string_append_printf (call->text, "%" G_GUINT64_FORMAT, bits);
      return;
    case SIM_KIND_STREAM:
      if (bits == 0 && call->thread->per_thread)
        bits = 2;
      if (bits <= 2)
        {
          g_string_append (call->text, bits == 0 ? "null" : bits == 1 ? "legacy"
                                                                      : "per-thread");
          return;
        }
      break;
    case SIM_KIND_STRING:
      if (bits != 0)
        {
          g_string_append_printf (call->text, "\"%s\"", *(const char *const *) value);
          return;
        }
      break;
    case SIM_KIND_POINTER:
    case SIM_KIND_OUT64:
    case SIM_KIND_OUT_SIZE:
    case SIM_KIND_OUT32:
    case SIM_KIND_OUT_POINTER:
    case SIM_KIND_OUT_FLOAT:
    default:
      break;
    }

  if (bits == 0)
    {
      g_string_append (call->text, "null");
      return;
    }
  g_string_append_printf (call->text, "0x%" G_GINT64_MODIFIER "x", bits);

  if (result != CUDA_SUCCESS || kind < SIM_KIND_OUT64)
    return;
  if (call->out->len > 0)
    g_string_append_c (call->out, ' ');
  g_string_append_printf (call->out, "%s=", name);
  switch ((int) kind)
    {
    case SIM_KIND_OUT32:
      g_string_append_printf (call->out, "%d", **(int *const *) value);
      break;
    case SIM_KIND_OUT_SIZE:
      g_string_append_printf (call->out, "%" G_GSIZE_FORMAT, **(gsize *const *) value);
      break;
    case SIM_KIND_OUT_FLOAT:
      g_string_append_printf (call->out, "%g", (double) **(float *const *) value);
      break;
    default:
      {
        guint64 out = **(guint64 *const *) value;

        if (out == 0)
          g_string_append (call->out, "null");
        else
          g_string_append_printf (call->out, "0x%" G_GINT64_MODIFIER "x", out);
      }
      break;
    }
}

static void
log_line (GString *line)
{
  if (entry.fd >= 0)
    {
      gssize done = 0;

      while (done < (gssize) line->len)
        {
          gssize n = write (entry.fd, line->str + done, line->len - done);

          if (n <= 0)
            break;
          done += n;
        }
    }
  if (entry.memory != NULL && !g_atomic_int_get (&sim.forked))
    g_string_append_len (entry.memory, line->str, line->len);
}

static void
log_remark (const char *format, ...) G_GNUC_PRINTF (1, 2);

static void
log_remark (const char *format, ...)
{
  GString *line = g_string_new ("# ");
  va_list args;

  va_start (args, format);
  g_string_append_vprintf (line, format, args);
  va_end (args);
  g_string_append_c (line, '\n');
  log_line (line);
  g_string_free (line, TRUE);
}

CUresult
sim_call_end (SimCall *call, CUresult result)
{
  if (G_UNLIKELY (call->log))
    {
      GString *line = g_string_new (NULL);

      g_string_append_printf (line, "%" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT " %.*s(%s) = %s", ++entry.sequence,
                              call->thread->id, (int) sim_base_length (call->symbol), call->symbol,
                              call->text != NULL ? call->text->str : "", sim_result_name (result));
      if (call->out != NULL && call->out->len > 0)
        g_string_append_printf (line, " [%s]", call->out->str);
      if (call->context != NULL)
        g_string_append_printf (line, " ctx=%p", (void *) call->context);
      else
        g_string_append (line, " ctx=none");
      if (call->marked)
        g_string_append (line, g_atomic_int_get (&sim.forked) ? " !forked" : " !exited");
      g_string_append_c (line, '\n');
      log_line (line);
      g_string_free (line, TRUE);
      if (call->text != NULL)
        {
          g_string_free (call->text, TRUE);
          g_string_free (call->out, TRUE);
        }
    }
  if (call->entered)
    {
      call->thread->per_thread = FALSE;
      call->thread->locked = FALSE;
      pthread_mutex_unlock (&sim.lock);
    }
  return result;
}

CUresult
sim_not_simulated (const char *symbol)
{
  SimSymbol about = { -1 };
  SimCall call;
  CUresult result = sim_call_begin (&call, symbol, SIM_CALLBACK | SIM_OWN, FALSE, &about);

  if (result == CUDA_SUCCESS)
    {
      if (entry.reported == NULL)
        entry.reported = g_hash_table_new (g_str_hash, g_str_equal);
      if (g_hash_table_add (entry.reported, (gpointer) symbol))
        {
          fprintf (stderr, "gcudasim: %s is not simulated\n", symbol);
          log_remark ("%s is not simulated", symbol);
        }
      result = CUDA_ERROR_NOT_SUPPORTED;
    }
  return sim_call_end (&call, result);
}

void
sim_fatal (const char *format, ...)
{
  va_list args;
  char *text;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  fprintf (stderr, "gcudasim: FATAL: %s\n", text);
  fflush (stderr);
  log_remark ("FATAL: %s", text);
  abort ();
}

void
sim_warn (const char *format, ...)
{
  va_list args;
  char *text;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  fprintf (stderr, "gcudasim: %s\n", text);
  log_remark ("%s", text);
  g_free (text);
}

/* ---- faults ---- */

static void
fault_free (gpointer data)
{
  SimFault *fault = data;

  g_free (fault->function);
  g_free (fault);
}

static GPtrArray *
parse_faults (const char *spec)
{
  GPtrArray *faults = g_ptr_array_new_with_free_func (fault_free);
  char **items = g_strsplit (spec, ",", -1);
  gboolean good = TRUE;

  for (guint i = 0; good && items[i] != NULL; i++)
    {
      char *item = g_strstrip (items[i]);
      char *colon = strchr (item, ':');
      char *equals = colon != NULL ? strchr (colon, '=') : NULL;
      char *end = NULL;
      SimFault *fault;

      if (*item == '\0')
        continue;
      if (equals == NULL)
        {
          good = FALSE;
          break;
        }
      fault = g_new0 (SimFault, 1);
      g_ptr_array_add (faults, fault);
      *colon = '\0';
      fault->function = g_strndup (item, sim_base_length (item));
      fault->nth = g_ascii_strtoull (colon + 1, &end, 10);
      if (end == colon + 1 || fault->nth == 0)
        good = FALSE;
      else if (*end == '+')
        {
          fault->and_later = TRUE;
          end++;
        }
      if (good && (end != equals || !sim_result_parse (equals + 1, &fault->result)))
        good = FALSE;
    }
  g_strfreev (items);
  if (good)
    return faults;
  g_ptr_array_unref (faults);
  return NULL;
}

static int
set_faults (const char *spec, guint64 thread)
{
  GPtrArray *faults = NULL;

  if (spec != NULL && *spec != '\0')
    {
      faults = parse_faults (spec);
      if (faults == NULL)
        return 0;
      for (guint i = 0; i < faults->len; i++)
        ((SimFault *) g_ptr_array_index (faults, i))->thread = thread;
    }
  pthread_mutex_lock (&sim.lock);
  g_clear_pointer (&entry.faults, g_ptr_array_unref);
  entry.faults = faults;
  pthread_mutex_unlock (&sim.lock);
  return 1;
}

SIM_EXPORT int
gcudasim_fail (const char *spec)
{
  return set_faults (spec, 0);
}

SIM_EXPORT int
gcudasim_fail_here (const char *spec)
{
  return set_faults (spec, sim_thread ()->id);
}

SIM_EXPORT unsigned long long
gcudasim_call_count (const char *function)
{
  unsigned long long count = 0;

  pthread_mutex_lock (&sim.lock);
  if (function == NULL)
    count = entry.total;
  else if (entry.counts != NULL)
    {
      char *base = g_strndup (function, sim_base_length (function));
      guint64 *found = g_hash_table_lookup (entry.counts, base);

      count = found != NULL ? *found : 0;
      g_free (base);
    }
  pthread_mutex_unlock (&sim.lock);
  return count;
}

SIM_EXPORT void
gcudasim_log_start (void)
{
  pthread_mutex_lock (&sim.lock);
  if (entry.memory == NULL)
    entry.memory = g_string_new (NULL);
  pthread_mutex_unlock (&sim.lock);
}

SIM_EXPORT char *
gcudasim_log_take (void)
{
  char *text = NULL;

  pthread_mutex_lock (&sim.lock);
  if (entry.memory != NULL)
    {
      text = strdup (entry.memory->str);
      g_string_truncate (entry.memory, 0);
    }
  pthread_mutex_unlock (&sim.lock);
  return text;
}

SIM_EXPORT void
gcudasim_log_stop (void)
{
  pthread_mutex_lock (&sim.lock);
  if (entry.memory != NULL)
    g_string_free (entry.memory, TRUE);
  entry.memory = NULL;
  pthread_mutex_unlock (&sim.lock);
}

/* ---- set-up and end, called by init.c ---- */

void
sim_entry_init (void)
{
  const char *path = g_getenv ("GCUDASIM_LOG");
  const char *spec = g_getenv ("GCUDASIM_FAIL");

  if (path != NULL && *path != '\0')
    {
      entry.fd = strcmp (path, "stderr") == 0 ? fcntl (STDERR_FILENO, F_DUPFD_CLOEXEC, 10)
                                              : open (path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
      if (entry.fd < 0)
        fprintf (stderr, "gcudasim: cannot open the log %s: %s\n", path, g_strerror (errno));
    }
  if (spec != NULL && *spec != '\0')
    {
      entry.faults = parse_faults (spec);
      if (entry.faults == NULL)
        fprintf (stderr, "gcudasim: GCUDASIM_FAIL=%s is not FUNCTION:N=RESULT,...: ignored\n", spec);
    }
  log_remark ("gcudasim pid %d scheduler %s seed %u", (int) getpid (),
              sim.scheduler == SIM_LAZIEST ? "laziest" : "shuffled", sim.seed);
}

void
sim_entry_remark (const char *text)
{
  log_remark ("%s", text);
}
