/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-hazard-private.h"
#include "gcuda-home-private.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#define MINIMUM_VERSION 12000

GCudaDriver _gcuda_driver;
gint _gcuda_driver_child;

static GMutex load_lock;
static gint loaded; /* atomic: _gcuda_driver is whole */
static GCudaDriverGroup groups;
static int driver_version;
static char *driver_path;
static gboolean driver_simulated;
GCudaChecker _gcuda_checker;

/* Exit gate: closed by the exit handler; teardowns that are under way are noted, or counted where they can't be. */
static gint gate_closed;
static gint gate_users;
static GCUDA_THREAD_LOCAL gint own_uses; /* the calling thread's part of both */

/* Forks under way. A child must not inherit a driver that this library was in the middle of using. */
static gint forks;

/* After the gate was closed, or a fork announced: until no more than these teardowns are left, a second at most. */
static void
wait_for_teardowns (gint left,
                    gulong interval)
{
  gint64 deadline = g_get_monotonic_time () + G_TIME_SPAN_SECOND;

  _gcuda_hazard_barrier ();
  while (g_atomic_int_get (&gate_users) + _gcuda_hazard_teardowns () > left && g_get_monotonic_time () < deadline)
    g_usleep (interval);
}

static void
before_fork (void)
{
  g_atomic_int_inc (&forks);
  wait_for_teardowns (own_uses, 20);
}

static void
after_fork_in_parent (void)
{
  g_atomic_int_add (&forks, -1);
}

static void
after_fork_in_child (void)
{
  g_atomic_int_set (&_gcuda_driver_child, 1);
}

static void
exiting (void)
{
  if (_gcuda_driver_forked ())
    return;
  g_atomic_int_set (&gate_closed, 1);
  /* The driver's own exit handler runs after this one: nothing of ours may be inside it by then. */
  wait_for_teardowns (own_uses, 50);
  _gcuda_homes_report_left ();
}

gboolean
_gcuda_driver_fail_forked (GError **error)
{
  return _gcuda_fail (error, GCUDA_ERROR_FORKED,
                      "this process was forked after CUDA was initialised; CUDA can't be used in it: start the process with exec (Python: the 'spawn' start method)");
}

gboolean
_gcuda_driver_exiting (void)
{
  return g_atomic_int_get (&gate_closed) != 0;
}

static inline void
enter_gate (GCudaHazards *own)
{
  if (G_LIKELY (own != NULL))
    {
      __atomic_store_n (&own->teardowns, own->teardowns + 1, __ATOMIC_RELAXED);
      __atomic_signal_fence (__ATOMIC_SEQ_CST);
    }
  else
    g_atomic_int_inc (&gate_users);
}

static inline void
leave_gate (GCudaHazards *own)
{
  if (G_LIKELY (own != NULL))
    __atomic_store_n (&own->teardowns, own->teardowns - 1, __ATOMIC_RELEASE);
  else
    g_atomic_int_add (&gate_users, -1);
}

gboolean
_gcuda_teardown_enter (GCudaTeardown *teardown)
{
  for (;;)
    {
      if (_gcuda_driver_forked () || g_atomic_int_get (&gate_closed))
        return FALSE;
      teardown->hazards = _gcuda_hazards_own ();
      enter_gate (teardown->hazards);
      /* Again: the gate may have closed, or a fork begun, before this could be seen. */
      if (!g_atomic_int_get (&gate_closed) && (g_atomic_int_get (&forks) == 0 || own_uses > 0))
        break;
      leave_gate (teardown->hazards);
      if (!g_atomic_int_get (&gate_closed))
        g_usleep (20);
    }
  own_uses++;
  teardown->mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  /* Not permitted on the driver's own threads, where most other calls are not either; those fail by themselves. */
  teardown->permitted = _gcuda_driver.ThreadExchangeStreamCaptureMode (&teardown->mode) == CUDA_SUCCESS;
  return TRUE;
}

void
_gcuda_teardown_leave (GCudaTeardown *teardown)
{
  /* Once more if it fails: the thread would stay in a mode that nobody asked for. Not if the process began to exit while a
   * call in between blocked: the driver may be gone by now. */
  if (teardown->permitted && !g_atomic_int_get (&gate_closed) && _gcuda_driver.ThreadExchangeStreamCaptureMode (&teardown->mode) != CUDA_SUCCESS)
    _gcuda_driver.ThreadExchangeStreamCaptureMode (&teardown->mode);
  own_uses--;
  leave_gate (teardown->hazards);
}

CUresult
_gcuda_context_scope_enter (GCudaContextScope *scope,
                            CUcontext context)
{
  CUcontext current = NULL;
  CUresult result;

  scope->pushed = FALSE;
  scope->counter = NULL;
  result = _gcuda_driver.CtxGetCurrent (&current);
  if (result != CUDA_SUCCESS)
    return result;
  if (current == context)
    return CUDA_SUCCESS;
  result = _gcuda_driver.CtxPushCurrent (context);
  scope->pushed = result == CUDA_SUCCESS;
  return result;
}

CUresult
_gcuda_context_scope_leave (GCudaContextScope *scope)
{
  CUcontext popped;
  CUresult result;

  if (G_UNLIKELY (scope->counter != NULL))
    g_atomic_int_add (g_steal_pointer (&scope->counter), -1);
  if (!scope->pushed)
    return CUDA_SUCCESS;
  scope->pushed = FALSE;
  result = _gcuda_driver.CtxPopCurrent (&popped);
  /* Once more if it fails: nothing else brings back what was current. */
  return result == CUDA_SUCCESS ? result : _gcuda_driver.CtxPopCurrent (&popped);
}

char *
_gcuda_result_to_string (CUresult result)
{
  const char *name = NULL, *text = NULL;

  if (!g_atomic_int_get (&loaded) || _gcuda_driver_forked ())
    return g_strdup_printf ("CUresult %d", (int) result);
  if (_gcuda_driver.GetErrorName (result, &name) != CUDA_SUCCESS || name == NULL)
    return g_strdup_printf ("CUresult %d, which this driver can't name", (int) result);
  if (_gcuda_driver.GetErrorString (result, &text) != CUDA_SUCCESS || text == NULL)
    return g_strdup (name);
  return g_strdup_printf ("%s (%s)", name, text);
}

gboolean
_gcuda_result_is_sticky (CUresult result)
{
  switch ((int) result)
    {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
      return TRUE;
    default:
      return FALSE;
    }
}

gboolean
_gcuda_fail_driver (GError **error,
                    CUresult result,
                    const char *format,
                    ...)
{
  g_autofree char *what = NULL;
  g_autofree char *answer = NULL;
  const char *hint = "";
  va_list args;

  if (error == NULL)
    return FALSE;
  va_start (args, format);
  what = g_strdup_vprintf (format, args);
  va_end (args);
  answer = _gcuda_result_to_string (result);
  if (_gcuda_result_is_sticky (result))
    hint = ", left by earlier work on this context, which is lost";
  else if (result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
    hint = "; a stream is being captured: only a capture in relaxed mode, or this thread in relaxed capture mode, allows this call";
  else if (result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
    hint = "; a blocking stream of this context is being captured: the default stream can't be used until the capture ends";
  else if (result == CUDA_ERROR_NOT_PERMITTED)
    hint = "; functions that the driver runs on its own threads can't call CUDA, and fabric handles need a fabric that is set up";
  g_set_error (error, GCUDA_ERROR, (int) result, "%s: %s%s", what, answer, hint);
  return FALSE;
}

GCUDA_THREAD_LOCAL guint64 _gcuda_own_thread_id;

guint64
_gcuda_thread_id_new (void)
{
  static guint64 last = 0;

  _gcuda_own_thread_id = __atomic_add_fetch (&last, 1, __ATOMIC_RELAXED);
  return _gcuda_own_thread_id;
}

gboolean
_gcuda_driver_has (GCudaDriverGroup group)
{
  return (groups & group) == group;
}

/* Loading */

typedef CUresult (*GetProcAddressFunc) (const char *symbol,
                                        void **function,
                                        int version,
                                        cuuint64_t flags,
                                        void *status);

static const struct
{
  const char *name;
  int version;
  gsize offset;
  GCudaDriverGroup group;
} functions[] = {
#define FUNCTION(group, name, version, parameters) \
  { "cu" #name, version, G_STRUCT_OFFSET (GCudaDriver, name), GCUDA_DRIVER_GROUP_##group },
#include "gcuda-driver-functions.inc"
#undef FUNCTION
};

/* Which library to open, in @hint what to do if it is not there, and in @checked which driver that passes calls on to: the
 * ordering checker is a part of the simulated driver. The environment is not asked in a program that runs with another user's
 * rights. */
static char *
choose_library (char **checked,
                const char **hint)
{
  const char *choice = secure_getenv ("GCUDA_DRIVER");
  const char *path = secure_getenv ("GCUDASIM_LIBRARY");

  *checked = NULL;
  *hint = "install the NVIDIA driver, or set GCUDA_DRIVER=simulated to run on the simulated one";
  if (choice == NULL || *choice == '\0')
    return g_strdup ("libcuda.so.1");
  if (g_str_equal (choice, "checked"))
    *checked = g_strdup ("libcuda.so.1");
  else if (g_str_has_prefix (choice, "checked:"))
    *checked = g_strdup (choice + strlen ("checked:"));
  else if (!g_str_equal (choice, "simulated"))
    return g_strdup (choice);
  *hint = "install the simulated driver, or name its library in GCUDASIM_LIBRARY";
  return g_strdup (path != NULL && *path != '\0' ? path : "libgcudasim.so");
}

static gboolean
load (GError **error)
{
  g_autofree char *library = NULL;
  g_autofree char *checked = NULL;
  const char *(*pass_through) (const char *);
  const char *problem, *hint;
  void *handle;
  GetProcAddressFunc get_proc_address;
  CUresult (*driver_get_version) (int *);
  CUresult (*init) (unsigned int);
  CUresult result;
  GCudaDriver table = { NULL };
  GCudaDriverGroup found = (GCudaDriverGroup) ~0u; /* until a function of one is missing */
  static gboolean guarded = FALSE;
  int version = 0;

  library = choose_library (&checked, &hint);
  /* Never closed again: the driver's threads and exit handlers would go on without their code. */
  handle = dlopen (library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == NULL)
    return _gcuda_fail (error, GCUDA_ERROR_DRIVER_NOT_FOUND,
                        "the CUDA driver could not be loaded: %s; %s", dlerror (), hint);

  if (checked != NULL)
    {
      pass_through = (const char *(*) (const char *) ) dlsym (handle, "gcudasim_pass_through");
      problem = pass_through != NULL ? pass_through (checked) : "it has no checker";
      if (problem != NULL)
        return _gcuda_fail (error, GCUDA_ERROR_DRIVER_NOT_FOUND, "%s can't check the driver %s: %s", library, checked, problem);
    }

  init = (CUresult (*) (unsigned int)) dlsym (handle, "cuInit");
  driver_get_version = (CUresult (*) (int *)) dlsym (handle, "cuDriverGetVersion");
  get_proc_address = (GetProcAddressFunc) dlsym (handle, "cuGetProcAddress_v2");
  if (init == NULL || driver_get_version == NULL)
    {
      dlclose (handle);
      return _gcuda_fail (error, GCUDA_ERROR_DRIVER_NOT_FOUND, "%s is not a CUDA driver: it has no cuInit; name the NVIDIA driver in GCUDA_DRIVER, or unset it", library);
    }

  _gcuda_hazards_prepare ();
  result = init (0);
  if (result != CUDA_SUCCESS)
    {
      CUresult (*get_error_name) (CUresult, const char **) = (CUresult (*) (CUresult, const char **)) dlsym (handle, "cuGetErrorName");
      const char *name = NULL;

      if (get_error_name == NULL || get_error_name (result, &name) != CUDA_SUCCESS)
        name = NULL;
      dlclose (handle);
      switch ((int) result)
        {
        case CUDA_ERROR_STUB_LIBRARY:
          return _gcuda_fail (error, GCUDA_ERROR_STUB_LIBRARY,
                              "%s is the CUDA Toolkit's stub and not a driver (CUDA_ERROR_STUB_LIBRARY): take its folder out of LD_LIBRARY_PATH, or name the driver in GCUDA_DRIVER", library);
        case CUDA_ERROR_NO_DEVICE:
          return _gcuda_fail (error, GCUDA_ERROR_NO_DEVICE,
                              "the CUDA driver finds no device (CUDA_ERROR_NO_DEVICE): see CUDA_VISIBLE_DEVICES, and that the process may open /dev/nvidia*");
        default:
          return _gcuda_fail (error, (GCudaError) result, "the CUDA driver %s could not be initialised: %s (CUresult %d)",
                              library, name != NULL ? name : "it can't say why", (int) result);
        }
    }

  /* From here on this process uses CUDA: guard forks and the exit. The exit handler must come after cuInit's own. */
  if (!guarded)
    {
      guarded = TRUE;
      pthread_atfork (before_fork, after_fork_in_parent, after_fork_in_child);
      atexit (exiting);
    }

  driver_get_version (&version);
  if (get_proc_address == NULL || version < MINIMUM_VERSION)
    {
      dlclose (handle);
      return _gcuda_fail (error, GCUDA_ERROR_DRIVER_TOO_OLD,
                          "the CUDA driver %s supports CUDA %d.%d; %d.%d is needed: update the NVIDIA driver",
                          library, version / 1000, version % 1000 / 10, MINIMUM_VERSION / 1000, MINIMUM_VERSION % 1000 / 10);
    }

  table.Init = init;
  for (gsize i = 0; i < G_N_ELEMENTS (functions); i++)
    {
      void *function = NULL;
      int status = 0;

      if (get_proc_address (functions[i].name, &function, functions[i].version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status) != CUDA_SUCCESS)
        function = NULL;
      if (function == NULL && functions[i].group == GCUDA_DRIVER_GROUP_REQUIRED)
        {
          dlclose (handle);
          return _gcuda_fail (error, GCUDA_ERROR_DRIVER_TOO_OLD,
                              "the CUDA driver %s has no %s of CUDA %d.%d: update the NVIDIA driver",
                              library, functions[i].name, functions[i].version / 1000, functions[i].version % 1000 / 10);
        }
      if (function == NULL)
        found &= ~functions[i].group;
      G_STRUCT_MEMBER (void *, &table, functions[i].offset) = function;
    }

  _gcuda_driver = table;
  groups = found;
  driver_version = version;
  {
    int (*is_simulating) (void) = (int (*) (void)) dlsym (handle, "gcudasim_is_simulating");

    driver_simulated = is_simulating != NULL && is_simulating ();
  }
  {
    int (*is_checking) (void) = (int (*) (void)) dlsym (handle, "gcudasim_is_checking");

    if (is_checking != NULL && is_checking ())
      {
        *(void **) &_gcuda_checker.declare_access = dlsym (handle, "gcudasim_declare_access");
        *(void **) &_gcuda_checker.declare_deallocation_stream = dlsym (handle, "gcudasim_declare_deallocation_stream");
      }
  }
  {
    Dl_info info;

    driver_path = g_strdup (dladdr ((void *) init, &info) != 0 && info.dli_fname != NULL ? info.dli_fname : library);
  }
  GCUDA_NOTE (DRIVER, "driver %s, CUDA %d.%d", driver_path, version / 1000, version % 1000 / 10);
  g_atomic_int_set (&loaded, 1);
  return TRUE;
}

const GCudaDriver *
_gcuda_driver_get (GError **error)
{
  gboolean success;

  if (!_gcuda_driver_check (error))
    return NULL;
  if (G_LIKELY (g_atomic_int_get (&loaded)))
    return &_gcuda_driver;

  g_mutex_lock (&load_lock);
  success = g_atomic_int_get (&loaded) || load (error);
  g_mutex_unlock (&load_lock);
  return success ? &_gcuda_driver : NULL;
}

/**
 * gcuda_is_available:
 * @error: return location for the reason, or %NULL
 *
 * Whether CUDA can be used in this process: there is a driver, new enough, with at least one device. The answer is asked
 * for afresh as long as it is no. Any thread.
 *
 * Where the answer is no, @error says why and what to do: `DRIVER_NOT_FOUND`, `DRIVER_TOO_OLD`, `STUB_LIBRARY`,
 * `NO_DEVICE`, `FORKED`, or what the driver answered.
 *
 * Returns: whether CUDA can be used
 *
 * Since: 0.1
 */
gboolean
gcuda_is_available (GError **error)
{
  const GCudaDriver *driver = _gcuda_driver_get (error);
  CUresult result;
  int count = 0;

  if (driver == NULL)
    return FALSE;
  result = driver->DeviceGetCount (&count);
  if (result != CUDA_SUCCESS)
    return _gcuda_fail_driver (error, result, "counting the devices");
  if (count == 0)
    return _gcuda_fail (error, GCUDA_ERROR_NO_DEVICE, "the CUDA driver finds no device");
  return TRUE;
}

/**
 * GCudaDriverInfo:
 *
 * What driver this process uses: an immutable snapshot, counted atomically.
 *
 * Since: 0.1
 */
struct _GCudaDriverInfo
{
  char *path;
  int version;
  gboolean simulated;
};

G_DEFINE_BOXED_TYPE (GCudaDriverInfo, gcuda_driver_info, gcuda_driver_info_ref, gcuda_driver_info_unref)

/**
 * gcuda_driver_info_ref:
 * @self: a driver info
 *
 * Takes a reference. Any thread.
 *
 * Returns: (transfer full): @self
 *
 * Since: 0.1
 */
GCudaDriverInfo *
gcuda_driver_info_ref (GCudaDriverInfo *self)
{
  g_return_val_if_fail (self != NULL, NULL);

  return g_atomic_rc_box_acquire (self);
}

static void
driver_info_clear (gpointer data)
{
  g_free (((GCudaDriverInfo *) data)->path);
}

/**
 * gcuda_driver_info_unref:
 * @self: a driver info
 *
 * Drops a reference. Any thread.
 *
 * Since: 0.1
 */
void
gcuda_driver_info_unref (GCudaDriverInfo *self)
{
  g_return_if_fail (self != NULL);

  g_atomic_rc_box_release_full (self, driver_info_clear);
}

/**
 * gcuda_driver_info_get_version:
 * @self: a driver info
 *
 * The newest CUDA version that the driver supports, as the driver counts: 12040 is CUDA 12.4. Any thread.
 *
 * Returns: the version
 *
 * Since: 0.1
 */
int
gcuda_driver_info_get_version (GCudaDriverInfo *self)
{
  g_return_val_if_fail (self != NULL, 0);

  return self->version;
}

/**
 * gcuda_driver_info_get_path:
 * @self: a driver info
 *
 * The file that the driver was loaded from. Any thread.
 *
 * Returns: (transfer none): a path
 *
 * Since: 0.1
 */
const char *
gcuda_driver_info_get_path (GCudaDriverInfo *self)
{
  g_return_val_if_fail (self != NULL, NULL);

  return self->path;
}

/**
 * gcuda_driver_info_is_simulated:
 * @self: a driver info
 *
 * Whether this is the simulated driver, which needs no GPU. Any thread.
 *
 * Returns: whether the driver is simulated
 *
 * Since: 0.1
 */
gboolean
gcuda_driver_info_is_simulated (GCudaDriverInfo *self)
{
  g_return_val_if_fail (self != NULL, FALSE);

  return self->simulated;
}

/**
 * gcuda_get_driver_info:
 * @error: return location for an error
 *
 * Says which driver this process uses, and loads it if that has not happened. Any thread.
 *
 * Errors: as [func@is_available].
 *
 * Returns: (transfer full): the driver
 *
 * Since: 0.1
 */
GCudaDriverInfo *
gcuda_get_driver_info (GError **error)
{
  GCudaDriverInfo *info;

  if (_gcuda_driver_get (error) == NULL)
    return NULL;
  info = g_atomic_rc_box_new0 (GCudaDriverInfo);
  info->path = g_strdup (driver_path);
  info->version = driver_version;
  info->simulated = driver_simulated;
  return info;
}
