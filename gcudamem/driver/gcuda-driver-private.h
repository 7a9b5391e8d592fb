/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <cuda.h>
#include <gcudamem/driver/gcuda-driver-info.h>

#include "base/gcuda-diagnostics-private.h"
#include "base/gcuda-error-private.h"

G_BEGIN_DECLS

/* The driver's functions. One of an optional group may be NULL: ask _gcuda_driver_has (). */
typedef struct
{
  CUresult (*Init) (unsigned int flags);
#define FUNCTION(group, name, version, parameters) CUresult (*name) parameters;
#include "gcuda-driver-functions.inc"
#undef FUNCTION
} GCudaDriver;

typedef enum
{
  GCUDA_DRIVER_GROUP_REQUIRED = 1 << 0,
  GCUDA_DRIVER_GROUP_POOLS = 1 << 1,
  GCUDA_DRIVER_GROUP_CONTEXT_EVENTS = 1 << 2,
  GCUDA_DRIVER_GROUP_CAPTURE = 1 << 3,
  GCUDA_DRIVER_GROUP_VIRTUAL = 1 << 4,
  GCUDA_DRIVER_GROUP_GRAPHS = 1 << 5,
  GCUDA_DRIVER_GROUP_CONDITIONALS = 1 << 6,
  GCUDA_DRIVER_GROUP_LOCATIONS = 1 << 7,
  GCUDA_DRIVER_GROUP_MANAGED_BATCHES = 1 << 8,
  GCUDA_DRIVER_GROUP_COPY_BATCHES = 1 << 9,
} GCudaDriverGroup;

/* Loads and initialises the driver on the first call; a failure is not remembered. NULL with an error in a forked child. */
const GCudaDriver *_gcuda_driver_get (GError **error);

/* The driver, where an object that came from it is at hand: loaded for certain. */
extern GCudaDriver _gcuda_driver;

gboolean _gcuda_driver_has (GCudaDriverGroup group);

/* What an ordering checker wants to know that no driver call tells; NULL where there is none. */
typedef struct
{
  void (*declare_access) (CUstream stream, CUdeviceptr address, size_t size, int writes, const char *function);
  void (*declare_deallocation_stream) (CUdeviceptr address);
} GCudaChecker;

extern GCudaChecker _gcuda_checker;

/* Whether this process was forked from one that had initialised CUDA: no driver call, no lock, no wait. */
extern gint _gcuda_driver_child;
#define _gcuda_driver_forked() (G_UNLIKELY (g_atomic_int_get (&_gcuda_driver_child) != 0))

/* Whether the process has begun to exit: no driver call in the background any more. */
gboolean _gcuda_driver_exiting (void);

/* FALSE, with FORKED, in a forked child: the first check of each call that reaches the driver. */
gboolean _gcuda_driver_fail_forked (GError **error);

static inline gboolean
_gcuda_driver_check (GError **error)
{
  return !_gcuda_driver_forked () || _gcuda_driver_fail_forked (error);
}

/*
 * Every driver call that no user asked for, in a finalizer or in the background, happens between these two.
 * FALSE: the process is exiting or was forked, make no call. In between, the calling thread is in relaxed capture mode, so
 * that nothing done here breaks another thread's capture.
 */
typedef struct
{
  CUstreamCaptureMode mode;
  gboolean permitted;
  struct _GCudaHazards *hazards; /* where it is noted; NULL: it is counted */
} GCudaTeardown;

gboolean _gcuda_teardown_enter (GCudaTeardown *teardown);
void _gcuda_teardown_leave (GCudaTeardown *teardown);

/* Makes a context current, only if it is not; and undoes just that. */
typedef struct
{
  gboolean pushed;
  gint *counter; /* counted down at the end, if it is not NULL */
} GCudaContextScope;

CUresult _gcuda_context_scope_enter (GCudaContextScope *scope,
                                     CUcontext context);
CUresult _gcuda_context_scope_leave (GCudaContextScope *scope);

/* The CUresult by name, "CUDA_ERROR_OUT_OF_MEMORY (out of memory)"; free with g_free (). */
char *_gcuda_result_to_string (CUresult result);

/* Sets an error with the driver's answer: what was being done, then the answer. Returns FALSE. */
gboolean _gcuda_fail_driver (GError **error,
                             CUresult result,
                             const char *format,
                             ...) G_GNUC_PRINTF (3, 4);

/* Whether this answer means that the context is lost for good. */
gboolean _gcuda_result_is_sticky (CUresult result);

/* A few bytes a thread that hot calls read; a loader has room for so little also where it loads the library late. */
#define GCUDA_THREAD_LOCAL __attribute__ ((tls_model ("initial-exec"))) _Thread_local

/* A number for the calling thread that no other thread of this process ever had or will have; not 0. */
extern GCUDA_THREAD_LOCAL guint64 _gcuda_own_thread_id; /* 0 until it is asked for */
guint64 _gcuda_thread_id_new (void);

static inline guint64
_gcuda_thread_id (void)
{
  guint64 id = _gcuda_own_thread_id;

  return G_LIKELY (id != 0) ? id : _gcuda_thread_id_new ();
}

G_END_DECLS
