/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Operations with their call sites, and what is said about two of them. */

#include "checker.h"
#include "../gcudasim.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_FRAMES 24

struct _CheckStack
{
  gint refs;
  guint n;
  gpointer frames[MAX_FRAMES];
  char *script; /* what the interpreter says of the same, or NULL */
};

typedef struct
{
  char *kind;
  char *functions[2];
} Suppression;

static const char *const kind_names[CHECK_N_KINDS] = {
  "use-before-allocation",
  "use-after-free",
  "free-before-last-use",
  "write-write",
  "read-write",
  "host-access",
  "upload-changed",
  "pool-reuse",
  "shared-memory",
  "unmap",
  "deallocation-stream",
};

static const char *const kind_texts[CHECK_N_KINDS] = {
  "memory is used before its allocation is ordered",
  "memory is used after it was freed",
  "memory is freed before its last use is ordered",
  "two writes are not ordered",
  "a read and a write are not ordered",
  "the host touches memory that a stream works on",
  "the host changed the source of an upload before the stream read it",
  "memory is handed out again while earlier work on it is not ordered",
  "another process's memory is used without waiting for it",
  "memory is unmapped while work on it is pending",
  "memory is freed on the stream that was set last, which its last use is not ordered before",
};

static struct
{
  GHashTable *stacks;
  GPtrArray *suppressions;
  GHashTable *said; /* keys of reports made */
  int fd;           /* of the report file; -1: none */
  guint n_reports, n_repeated, n_suppressed;
  gboolean native, script;
} report = { .fd = -1 };

/* ---- call sites ---- */

static __thread struct
{
  guint n;
  gpointer frames[MAX_FRAMES + 8];
  char *script;
  int fd; /* of the file that Python writes to, + 1 */
} captured;

/* Where this library is. */
static struct
{
  guint64 start, end;
} own;

static int
find_own (struct dl_phdr_info *info, size_t size, void *data)
{
  guint64 start = info->dlpi_addr, end = start;

  (void) size;
  for (guint i = 0; i < info->dlpi_phnum; i++)
    {
      if (info->dlpi_phdr[i].p_type == PT_LOAD)
        end = MAX (end, start + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz);
    }
  if ((guintptr) data < start || (guintptr) data >= end)
    return 0;
  own.start = start;
  own.end = end;
  return 1;
}

static gboolean
is_own (gpointer frame)
{
  return (guintptr) frame >= own.start && (guintptr) frame < own.end;
}

/* Python's own crash handler writes the calling thread's stack without the
 * interpreter's lock, which is not to be had here. The stack has to be there:
 * threads may go on while the interpreter ends, and so that says when it does. */
static struct
{
  gint ready, readers; /* atomic */
  gpointer (*this_thread) (void);
  void (*dump) (int fd, gpointer thread);
} python;

static gpointer
python_ends (gpointer self, gpointer arguments)
{
  gpointer none = dlsym (RTLD_DEFAULT, "_Py_NoneStruct");
  void (*keep) (gpointer object);

  (void) self;
  (void) arguments;
  g_atomic_int_set (&python.ready, FALSE);
  while (g_atomic_int_get (&python.readers) > 0)
    g_usleep (50);
  *(void **) &keep = dlsym (RTLD_DEFAULT, "Py_IncRef");
  keep (none);
  return none;
}

/* In Python's main thread. */
static int
python_begins (gpointer data)
{
  static struct
  {
    const char *name;
    gpointer (*function) (gpointer self, gpointer arguments);
    int flags;
    const char *documentation;
  } method = { "no_more_stacks", python_ends, 4 /* METH_NOARGS */, NULL };
  gpointer (*import) (const char *name), (*make) (gpointer method, gpointer self, gpointer module);
  gpointer (*call) (gpointer object, const char *method, const char *format, ...);
  void (*drop) (gpointer object), (*clear) (void);
  gpointer module, function, result;

  (void) data;
  *(void **) &import = dlsym (RTLD_DEFAULT, "PyImport_ImportModule");
  *(void **) &make = dlsym (RTLD_DEFAULT, "PyCFunction_NewEx");
  *(void **) &call = dlsym (RTLD_DEFAULT, "PyObject_CallMethod");
  *(void **) &drop = dlsym (RTLD_DEFAULT, "Py_DecRef");
  *(void **) &clear = dlsym (RTLD_DEFAULT, "PyErr_Clear");
  if (import == NULL || make == NULL || call == NULL || drop == NULL || clear == NULL)
    return 0;
  module = import ("atexit");
  function = make (&method, NULL, NULL);
  result = module != NULL && function != NULL ? call (module, "register", "O", function) : NULL;
  if (result != NULL)
    g_atomic_int_set (&python.ready, TRUE);
  else
    clear ();
  drop (module);
  drop (function);
  drop (result);
  return 0;
}

static void
python_init (void)
{
  int (*later) (int (*function) (gpointer data), gpointer data);

  *(void **) &python.dump = dlsym (RTLD_DEFAULT, "_Py_DumpTraceback");
  *(void **) &python.this_thread = dlsym (RTLD_DEFAULT, "PyGILState_GetThisThreadState");
  *(void **) &later = dlsym (RTLD_DEFAULT, "Py_AddPendingCall");
  if (python.dump != NULL && python.this_thread != NULL && later != NULL)
    later (python_begins, NULL);
}

static char *
python_read (void)
{
  gpointer thread = python.this_thread ();
  int fd = captured.fd - 1;
  off_t size;
  char *text;

  if (thread == NULL)
    return NULL;
  if (fd < 0)
    fd = memfd_create ("stack", MFD_CLOEXEC);
  captured.fd = fd + 1;
  if (fd < 0 || ftruncate (fd, 0) != 0 || lseek (fd, 0, SEEK_SET) != 0)
    return NULL;
  python.dump (fd, thread);
  size = lseek (fd, 0, SEEK_CUR);
  if (size <= 0)
    return NULL;
  text = g_malloc0 ((gsize) size + 1);
  if (pread (fd, text, (gsize) size, 0) != size)
    g_clear_pointer (&text, g_free);
  return text;
}

static char *
python_stack (void)
{
  char *text = NULL;

  g_atomic_int_inc (&python.readers);
  if (g_atomic_int_get (&python.ready))
    text = python_read ();
  g_atomic_int_add (&python.readers, -1);
  return text;
}

/* Whether a script called the library, and not its garbage collector, which has no stack to show. */
static gboolean
called_by_script (void)
{
  for (guint i = 0; i < captured.n; i++)
    {
      Dl_info info;

      if (dladdr (captured.frames[i], &info) == 0 || info.dli_fname == NULL)
        return FALSE;
      if (info.dli_sname != NULL && strcmp (info.dli_sname, "ffi_call") == 0)
        return TRUE;
      if (strstr (info.dli_fname, "libgjs") != NULL || strstr (info.dli_fname, "libmozjs") != NULL)
        return FALSE;
    }
  return FALSE;
}

/* GJS runs in the main thread. */
static char *
gjs_stack (void)
{
  static gboolean looked;
  static gpointer (*current) (void);
  static gpointer (*native) (gpointer context);
  static void (*dump) (gpointer context, FILE * file);
  char *text = NULL, *script = NULL;
  gpointer context;
  size_t size = 0;
  FILE *file;

  if (!looked)
    {
      *(void **) &current = dlsym (RTLD_DEFAULT, "gjs_context_get_current");
      *(void **) &native = dlsym (RTLD_DEFAULT, "gjs_context_get_native_context");
      *(void **) &dump = dlsym (RTLD_DEFAULT, "_ZN2js13DumpBacktraceEP9JSContextP8_IO_FILE");
      looked = TRUE;
    }
  if (current == NULL || native == NULL || dump == NULL || gettid () != getpid () || !called_by_script () || (context = current ()) == NULL)
    return NULL;
  file = open_memstream (&text, &size);
  if (file == NULL)
    return NULL;
  dump (native (context), file);
  fclose (file);
  if (text != NULL)
    {
      char **lines = g_strsplit (text, "\n", -1);
      GString *found = g_string_new (NULL);

      for (guint i = 0; lines[i] != NULL; i++)
        {
          char *end = g_strrstr (lines[i], " (");
          char *colon = end != NULL ? g_strrstr_len (lines[i], end - lines[i], ":") : NULL;
          char *scheme = strstr (lines[i], "://");
          int used = 0;

          /* "#0   7f12a8c0 i   file:///a/script.js:3 (2f0c @ 55)" */
          if (colon == NULL || sscanf (lines[i], "#%*u %*x %*c %n", &used) < 0 || used == 0 || lines[i] + used >= colon)
            continue;
          if (scheme != NULL && scheme + 3 < colon)
            used = (int) (scheme + 3 - lines[i]);
          g_string_append_printf (found, "File \"%.*s\", line %.*s\n", (int) (colon - lines[i] - used), lines[i] + used, (int) (end - colon - 1), colon + 1);
        }
      g_strfreev (lines);
      script = g_string_free (found, FALSE);
    }
  free (text);
  return script;
}

/* It ends with the thread. */
static void
captured_clear (gpointer data)
{
  (void) data;
  g_clear_pointer (&captured.script, g_free);
  captured.n = 0;
  if (captured.fd > 0)
    close (captured.fd - 1);
  captured.fd = 0;
}

static GPrivate captured_key = G_PRIVATE_INIT (captured_clear);

void
check_stack_capture (gboolean wanted)
{
  g_clear_pointer (&captured.script, g_free);
  captured.n = 0;
  if (!wanted)
    return;
  if (report.script)
    g_private_set (&captured_key, &captured);
  if (report.native)
    captured.n = (guint) backtrace (captured.frames, G_N_ELEMENTS (captured.frames));
  if (report.script)
    captured.script = python_stack ();
  if (report.script && captured.script == NULL)
    captured.script = gjs_stack ();
}

static guint
stack_hash (gconstpointer key)
{
  const CheckStack *stack = key;
  guint hash = 0;

  /* The frames of compiled scripts differ each time. */
  if (stack->script != NULL)
    return g_str_hash (stack->script);
  for (guint i = 0; i < stack->n; i++)
    hash = hash * 31 + g_direct_hash (stack->frames[i]);
  return hash;
}

static gboolean
stack_equal (gconstpointer a, gconstpointer b)
{
  const CheckStack *x = a, *y = b;

  if (x->script != NULL || y->script != NULL)
    return g_strcmp0 (x->script, y->script) == 0;
  return x->n == y->n && memcmp (x->frames, y->frames, x->n * sizeof (gpointer)) == 0;
}

/* Of the call that is being made, referenced. */
CheckStack *
check_stack_current (void)
{
  CheckStack key = { 1, 0, { NULL }, captured.script };
  guint skip = 0;
  CheckStack *stack;

  /* A sanitizer's frame may come first. */
  if (captured.n > 1 && !is_own (captured.frames[0]) && is_own (captured.frames[1]))
    skip = 1;
  while (skip < captured.n && is_own (captured.frames[skip]))
    skip++;
  key.n = MIN (captured.n - skip, MAX_FRAMES);
  memcpy (key.frames, captured.frames + skip, key.n * sizeof (gpointer));
  stack = g_hash_table_lookup (report.stacks, &key);
  if (stack != NULL)
    return check_stack_ref (stack);
  stack = g_memdup2 (&key, sizeof key);
  stack->script = g_strdup (key.script);
  g_hash_table_add (report.stacks, stack);
  return stack;
}

CheckStack *
check_stack_ref (CheckStack *stack)
{
  stack->refs++;
  return stack;
}

void
check_stack_unref (CheckStack *stack)
{
  if (--stack->refs > 0)
    return;
  g_hash_table_remove (report.stacks, stack);
  g_free (stack->script);
  g_free (stack);
}

/* ---- operations ---- */

CheckOp *
check_op_new (CheckWhat what, const char *function, const char *where, guint slot, guint64 epoch)
{
  CheckOp *op = g_new0 (CheckOp, 1);

  op->refs = 1;
  op->what = what;
  op->function = function;
  op->where = g_ref_string_acquire ((char *) where);
  op->slot = slot;
  op->epoch = epoch;
  op->stack = check_stack_current ();
  return op;
}

CheckOp *
check_op_ref (CheckOp *op)
{
  op->refs++;
  return op;
}

void
check_op_unref (CheckOp *op)
{
  if (--op->refs > 0)
    return;
  g_ref_string_release (op->where);
  g_clear_pointer (&op->declared, g_ref_string_release);
  check_clock_clear (&op->after);
  g_clear_pointer (&op->stack, check_stack_unref);
  g_free (op);
}

/* ---- set-up ---- */

static void
suppression_free (gpointer data)
{
  Suppression *suppression = data;

  g_free (suppression->kind);
  g_free (suppression->functions[0]);
  g_free (suppression->functions[1]);
  g_free (suppression);
}

/* Lines KIND FUNCTION FUNCTION # REASON, with * and ? for any; in either order of the functions. */
static void
read_suppressions (const char *path)
{
  char *text = NULL, **lines;
  GError *error = NULL;

  report.suppressions = g_ptr_array_new_with_free_func (suppression_free);
  if (!g_file_get_contents (path, &text, NULL, &error))
    {
      fprintf (stderr, "gcudasim: cannot read the suppressions: %s: nothing is suppressed\n", error->message);
      g_error_free (error);
      return;
    }
  lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i] != NULL; i++)
    {
      char *reason = strchr (lines[i], '#');
      Suppression *suppression;
      char kind[64], first[128], second[128], more;
      gboolean known = FALSE;

      if (reason != NULL)
        *reason++ = '\0';
      if (*g_strstrip (lines[i]) == '\0')
        continue;
      if (reason == NULL || *g_strstrip (reason) == '\0' || sscanf (lines[i], "%63s %127s %127s %c", kind, first, second, &more) != 3)
        {
          fprintf (stderr, "gcudasim: %s:%u is not KIND FUNCTION FUNCTION # REASON: ignored\n", path, i + 1);
          continue;
        }
      for (guint k = 0; k < CHECK_N_KINDS; k++)
        known |= g_pattern_match_simple (kind, kind_names[k]);
      if (!known)
        {
          fprintf (stderr, "gcudasim: %s:%u: there is no kind %s: ignored\n", path, i + 1, kind);
          continue;
        }
      suppression = g_new0 (Suppression, 1);
      suppression->kind = g_strdup (kind);
      suppression->functions[0] = g_strdup (first);
      suppression->functions[1] = g_strdup (second);
      g_ptr_array_add (report.suppressions, suppression);
    }
  g_strfreev (lines);
  g_free (text);
}

static gboolean
environment_choice (const char *name, const char *const *choices, guint *chosen)
{
  const char *text = g_getenv (name);
  char *all;

  if (text == NULL || *text == '\0')
    return FALSE;
  for (guint i = 0; choices[i] != NULL; i++)
    {
      if (strcmp (text, choices[i]) == 0)
        {
          *chosen = i;
          return TRUE;
        }
    }
  all = g_strjoinv (", ", (char **) choices);
  fprintf (stderr, "gcudasim: %s=%s is none of %s: ignored\n", name, text, all);
  g_free (all);
  return FALSE;
}

/* Whether there is to be a checker. */
gboolean
check_report_init (void)
{
  static const char *const modes[] = { "report", "abort", "off", NULL };
  static const char *const stacks[] = { "all", "native", "none", NULL };
  static const char *const host[] = { "on", "off", NULL };
  static const char *const threads[] = { "ordered", "independent", NULL };
  const char *path;
  guint chosen = 0;

  environment_choice ("GCUDASIM_CHECK", modes, &chosen);
  if (chosen == 2)
    return FALSE;
  sim.check_aborts = chosen == 1;
  chosen = 0;
  environment_choice ("GCUDASIM_CHECK_THREADS", threads, &chosen);
  sim.check_threads = chosen == 1;
  chosen = 0;
  environment_choice ("GCUDASIM_CHECK_HOST", host, &chosen);
  sim.check_host = chosen == 0 && !sim_passing ();
  chosen = 0;
  environment_choice ("GCUDASIM_CHECK_STACKS", stacks, &chosen);
  report.native = chosen < 2;
  report.script = chosen < 1;
  if (report.script)
    python_init ();
  dl_iterate_phdr (find_own, (gpointer) find_own);
  report.stacks = g_hash_table_new (stack_hash, stack_equal);
  report.said = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  path = g_getenv ("GCUDASIM_CHECK_SUPPRESSIONS");
  if (path != NULL && *path != '\0')
    read_suppressions (path);
  path = g_getenv ("GCUDASIM_CHECK_FILE");
  if (path != NULL && *path != '\0')
    {
      report.fd = open (path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
      if (report.fd < 0)
        fprintf (stderr, "gcudasim: cannot open the report file %s: %s\n", path, g_strerror (errno));
    }
  return TRUE;
}

/* ---- text ---- */

static void
write_all (int fd, const GString *text)
{
  gsize done = 0;

  while (done < text->len)
    {
      gssize n = write (fd, text->str + done, text->len - done);

      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        break;
      done += (gsize) n;
    }
}

/* Where a script tells it, the interpreter's own frames tell nothing: they are for the report file. */
static GPtrArray *
stack_lines (const CheckStack *stack, gboolean all)
{
  GPtrArray *lines = g_ptr_array_new_with_free_func (g_free);

  if (stack == NULL)
    return lines;
  if (stack->script != NULL)
    {
      char **script = g_strsplit (stack->script, "\n", -1);

      for (guint i = 0; script[i] != NULL; i++)
        {
          char *line = g_strstrip (script[i]);

          if (g_str_has_prefix (line, "File "))
            g_ptr_array_add (lines, g_strdup (line));
        }
      g_strfreev (script);
    }
  for (guint i = 0; i < stack->n && (all || stack->script == NULL); i++)
    {
      Dl_info info;
      const char *file, *slash;

      if (dladdr (stack->frames[i], &info) == 0 || info.dli_fname == NULL)
        {
          g_ptr_array_add (lines, g_strdup_printf ("%p", stack->frames[i]));
          continue;
        }
      slash = strrchr (info.dli_fname, '/');
      file = slash != NULL ? slash + 1 : info.dli_fname;
      if (info.dli_sname != NULL)
        g_ptr_array_add (lines, g_strdup_printf ("%s+0x%zx (%s)", info.dli_sname, (gsize) ((char *) stack->frames[i] - (char *) info.dli_saddr), file));
      else
        g_ptr_array_add (lines, g_strdup_printf ("%s+0x%zx", file, (gsize) ((char *) stack->frames[i] - (char *) info.dli_fbase)));
    }
  return lines;
}

static const char *
verb (const CheckOp *op)
{
  switch (op->what)
    {
    case CHECK_READ:
      return "reads";
    case CHECK_MOVE:
      return "moves";
    case CHECK_WRITE:
      return "writes";
    case CHECK_ALLOCATION:
      return "allocates";
    case CHECK_FREE:
      return "frees";
    case CHECK_UNMAP:
    default:
      return "unmaps";
    }
}

static void
say_op (GString *text, const CheckOp *op)
{
  GPtrArray *lines = stack_lines (op->stack, FALSE);

  g_string_append_printf (text, "  %s, %s, %s %" G_GUINT64_FORMAT " bytes at 0x%" G_GINT64_MODIFIER "x\n", op->function, op->where, verb (op), op->size, op->address);
  for (guint i = 0; i < lines->len; i++)
    g_string_append_printf (text, "      %s\n", (char *) g_ptr_array_index (lines, i));
  g_ptr_array_unref (lines);
}

static void
json_string (GString *text, const char *value)
{
  char *valid = g_utf8_make_valid (value, -1);

  g_string_append_c (text, '"');
  for (const char *c = valid; *c != '\0'; c++)
    {
      if (*c == '"' || *c == '\\')
        g_string_append_printf (text, "\\%c", *c);
      else if ((guchar) *c < 0x20)
        g_string_append_printf (text, "\\u%04x", (guint) (guchar) *c);
      else
        g_string_append_c (text, *c);
    }
  g_string_append_c (text, '"');
  g_free (valid);
}

static void
json_op (GString *text, const char *name, const CheckOp *op)
{
  GPtrArray *lines = stack_lines (op->stack, TRUE);

  g_string_append_printf (text, "\"%s\":{\"function\":", name);
  json_string (text, op->function);
  g_string_append (text, ",\"where\":");
  json_string (text, op->where);
  g_string_append_printf (text, ",\"does\":\"%s\",\"address\":\"0x%" G_GINT64_MODIFIER "x\",\"size\":%" G_GUINT64_FORMAT ",\"stack\":[", verb (op), op->address, op->size);
  for (guint i = 0; i < lines->len; i++)
    {
      if (i > 0)
        g_string_append_c (text, ',');
      json_string (text, g_ptr_array_index (lines, i));
    }
  g_string_append (text, "]}");
  g_ptr_array_unref (lines);
}

static char *
missing_edge (CheckKind kind, const CheckOp *first, const CheckOp *second)
{
  switch (kind)
    {
    case CHECK_KIND_USE_AFTER_FREE:
      return g_strdup_printf ("%s has to come before %s, and be ordered before it on %s", second->function, first->function, first->where);
    case CHECK_KIND_SHARED_MEMORY:
      return g_strdup_printf ("synchronize in %s after %s and before the memory is handed over, or let %s wait for an interprocess event that was recorded after it", first->where, first->function, second->where);
    case CHECK_KIND_UPLOAD_CHANGED:
      return g_strdup_printf ("keep the source as it is until %s passed %s: synchronize, or ask an event recorded after it", first->where, first->function);
    case CHECK_KIND_UNMAP:
      return g_strdup_printf ("synchronize %s after %s, before %s is called", first->where, first->function, second->function);
    case CHECK_KIND_USE_BEFORE_ALLOCATION:
    case CHECK_KIND_FREE_BEFORE_LAST_USE:
    case CHECK_KIND_WRITE_WRITE:
    case CHECK_KIND_READ_WRITE:
    case CHECK_KIND_HOST_ACCESS:
    case CHECK_KIND_POOL_REUSE:
    case CHECK_KIND_DEALLOCATION_STREAM:
    case CHECK_N_KINDS:
    default:
      if (second->host)
        return g_strdup_printf ("synchronize %s, or an event recorded on it, after %s and before %s", first->where, first->function, second->function);
      if (first->host)
        return g_strdup_printf ("%s has to come before %s is called", first->function, second->function);
      return g_strdup_printf ("make %s wait for an event recorded on %s after %s, or synchronize %s before %s is called", second->where, first->where, first->function, first->where, second->function);
    }
}

static gboolean
is_suppressed (CheckKind kind, const CheckOp *first, const CheckOp *second)
{
  for (guint i = 0; report.suppressions != NULL && i < report.suppressions->len; i++)
    {
      Suppression *s = g_ptr_array_index (report.suppressions, i);

      if (g_pattern_match_simple (s->kind, kind_names[kind]) &&
          ((g_pattern_match_simple (s->functions[0], first->function) && g_pattern_match_simple (s->functions[1], second->function)) ||
           (g_pattern_match_simple (s->functions[1], first->function) && g_pattern_match_simple (s->functions[0], second->function))))
        return TRUE;
    }
  return FALSE;
}

void
check_report (CheckKind kind, CheckOp *first, CheckOp *second, CheckObject *object, guint64 offset, guint64 size)
{
  GString *text;
  char *key, *missing;

  if (is_suppressed (kind, first, second))
    {
      report.n_suppressed++;
      return;
    }
  /* The same two places are said once. */
  key = g_strdup_printf ("%d %s %p %s %p", (int) kind, first->function, (gpointer) first->stack, second->function, (gpointer) second->stack);
  if (!g_hash_table_add (report.said, key))
    {
      report.n_repeated++;
      return;
    }
  /* The key names them by their addresses, which must not come to stand for others. */
  if (first->stack != NULL)
    check_stack_ref (first->stack);
  if (second->stack != NULL)
    check_stack_ref (second->stack);
  report.n_reports++;
  missing = missing_edge (kind, first, second);

  if (report.fd >= 0)
    {
      text = g_string_new (NULL);
      g_string_append_printf (text, "{\"kind\":\"%s\",\"pid\":%d,", kind_names[kind], (int) getpid ());
      json_op (text, "first", first);
      g_string_append_c (text, ',');
      json_op (text, "second", second);
      g_string_append_printf (text, ",\"memory\":{\"type\":\"%s\",\"address\":\"0x%" G_GINT64_MODIFIER "x\",\"size\":%" G_GUINT64_FORMAT ",\"from\":%" G_GUINT64_FORMAT ",\"to\":%" G_GUINT64_FORMAT "},\"missing\":",
                              check_memory_name (object->memory), object->base, object->size, offset, offset + size);
      json_string (text, missing);
      g_string_append (text, "}\n");
      write_all (report.fd, text);
      g_string_free (text, TRUE);
    }

  text = g_string_new (NULL);
  g_string_append_printf (text, "gcudasim: %s: %s\n", kind_names[kind], kind_texts[kind]);
  say_op (text, second);
  g_string_append (text, kind == CHECK_KIND_USE_AFTER_FREE ? "  comes after\n" : "  is not ordered after\n");
  say_op (text, first);
  g_string_append_printf (text, "  bytes %" G_GUINT64_FORMAT " to %" G_GUINT64_FORMAT " of %s at 0x%" G_GINT64_MODIFIER "x",
                          offset, offset + size, check_memory_name (object->memory), object->base);
  if (object->made != NULL)
    g_string_append_printf (text, ", from %s, %s", object->made->function, object->made->where);
  g_string_append_c (text, '\n');
  if (kind == CHECK_KIND_DEALLOCATION_STREAM)
    {
      GPtrArray *lines = stack_lines (object->replaced, FALSE);

      g_string_append (text, "  its deallocation stream was set\n");
      for (guint i = 0; i < lines->len; i++)
        g_string_append_printf (text, "      %s\n", (char *) g_ptr_array_index (lines, i));
      g_ptr_array_unref (lines);
    }
  g_string_append_printf (text, "  missing: %s\n", missing);
  write_all (STDERR_FILENO, text);
  g_string_free (text, TRUE);
  g_free (missing);
  if (sim.check_aborts)
    abort ();
}

/* At exit. */
void
check_report_summary (void)
{
  if (report.n_reports + report.n_suppressed > 0)
    fprintf (stderr, "gcudasim: %u ordering report%s, %u repetitions, %u suppressed\n", report.n_reports, report.n_reports == 1 ? "" : "s", report.n_repeated, report.n_suppressed);
}

SIM_EXPORT unsigned long long
gcudasim_reports (void)
{
  unsigned long long n;

  if (g_atomic_int_get (&sim.forked))
    return 0;
  pthread_mutex_lock (&sim.lock);
  n = report.n_reports;
  pthread_mutex_unlock (&sim.lock);
  return n;
}
