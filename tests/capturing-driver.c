/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The simulated driver, save that the first call of the function that CAPTURED_CALL names falls into a short capture of its stream,
 * as another thread may begin and end one. GCUDASIM_LIBRARY is its path.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Under the names that a driver has, whatever the header makes of them. */
#undef cuGetProcAddress
CUresult cuGetProcAddress_v2 (const char *symbol, void **function, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status);

#define REAL(name) ((__typeof__ (&name)) real (#name))

static CUresult (*event_record) (CUevent event, CUstream stream);
static CUresult (*mem_free) (CUdeviceptr address, CUstream stream);
static int captures;

static void *
real (const char *name)
{
  static void *library;

  if (library == NULL)
    library = dlopen (getenv ("GCUDASIM_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
  return dlsym (library, name);
}

static int
begin (const char *name, CUstream stream)
{
  const char *captured = getenv ("CAPTURED_CALL");

  if (captured == NULL || strcmp (captured, name) != 0 || __atomic_fetch_add (&captures, 1, __ATOMIC_SEQ_CST) > 0)
    return 0;
  return REAL (cuStreamBeginCapture_v2) (stream, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS;
}

static void
end (CUstream stream)
{
  CUgraph graph = NULL;

  REAL (cuStreamEndCapture)
  (stream, &graph);
  if (graph != NULL)
    REAL (cuGraphDestroy)
    (graph);
}

static CUresult
captured_record (CUevent event, CUstream stream)
{
  int captured = begin ("cuEventRecord", stream);
  CUresult result = event_record (event, stream);

  if (captured)
    end (stream);
  return result;
}

static CUresult
captured_free (CUdeviceptr address, CUstream stream)
{
  int captured = begin ("cuMemFreeAsync", stream);
  CUresult result = mem_free (address, stream);

  if (captured)
    end (stream);
  return result;
}

#pragma GCC visibility push(default)

CUresult CUDAAPI
cuInit (unsigned int flags)
{
  return REAL (cuInit) (flags);
}

CUresult CUDAAPI
cuDriverGetVersion (int *version)
{
  return REAL (cuDriverGetVersion) (version);
}

CUresult CUDAAPI
cuGetProcAddress_v2 (const char *symbol,
                     void **function,
                     int version,
                     cuuint64_t flags,
                     CUdriverProcAddressQueryResult *status)
{
  CUresult result = REAL (cuGetProcAddress_v2) (symbol, function, version, flags, status);

  if (result != CUDA_SUCCESS || *function == NULL)
    return result;
  if (strcmp (symbol, "cuEventRecord") == 0)
    {
      event_record = (__typeof__ (event_record)) *function;
      *function = (void *) captured_record;
    }
  else if (strcmp (symbol, "cuMemFreeAsync") == 0)
    {
      mem_free = (__typeof__ (mem_free)) *function;
      *function = (void *) captured_free;
    }
  return result;
}

#pragma GCC visibility pop
