/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A driver for the simulated one to pass calls on to: all that it is told to do is done at once, and is nothing. It notes
 * the arguments of a few functions, and knows one that no other driver has.
 */
#include <cuda.h>
#include <string.h>

#define EXPORT __attribute__ ((visibility ("default")))

EXPORT unsigned long long fake_arguments[16];
EXPORT const char *fake_function;

static __thread CUcontext current;
static CUdeviceptr next_address = 1ull << 40, next_handle = 4096;
static CUdeviceptr freed[64];
static unsigned int n_freed;

#define NOTE(function, ...)                                          \
  do                                                                 \
    {                                                                \
      unsigned long long arguments[] = { __VA_ARGS__ };              \
      memset (fake_arguments, 0, sizeof fake_arguments);             \
      memcpy (fake_arguments, arguments, sizeof arguments);          \
      __atomic_store_n (&fake_function, function, __ATOMIC_RELEASE); \
    }                                                                \
  while (0)

static CUresult
nothing (void)
{
  return CUDA_SUCCESS;
}

static CUresult
not_known (void)
{
  return CUDA_ERROR_INVALID_VALUE;
}

static CUresult
version (int *number)
{
  *number = 13000;
  return CUDA_SUCCESS;
}

static CUresult
one (int *number)
{
  *number = 1;
  return CUDA_SUCCESS;
}

static CUresult
zero (int *number)
{
  *number = 0;
  return CUDA_SUCCESS;
}

static CUresult
is_capturing (CUstream stream, CUstreamCaptureStatus *status)
{
  (void) stream;
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

static CUresult
get_current (CUcontext *context)
{
  *context = current;
  return CUDA_SUCCESS;
}

static CUresult
set_current (CUcontext context)
{
  current = context;
  return CUDA_SUCCESS;
}

static CUresult
pop_current (CUcontext *context)
{
  *context = current;
  current = NULL;
  return CUDA_SUCCESS;
}

static CUresult
retain_primary (CUcontext *context, CUdevice device)
{
  (void) device;
  *context = (CUcontext) 0x1000;
  return CUDA_SUCCESS;
}

static CUresult
new_handle (void **handle)
{
  *handle = (void *) __atomic_add_fetch (&next_handle, 16, __ATOMIC_RELAXED);
  return CUDA_SUCCESS;
}

static CUresult
allocate (CUdeviceptr *address, size_t size)
{
  *address = n_freed > 0 ? freed[--n_freed] : __atomic_fetch_add (&next_address, (size + 511) & ~511ull, __ATOMIC_RELAXED);
  return CUDA_SUCCESS;
}

static CUresult
release (CUdeviceptr address)
{
  if (n_freed < sizeof freed / sizeof freed[0])
    freed[n_freed++] = address;
  return CUDA_SUCCESS;
}

static CUresult
launch (CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void **parameters, void **extra)
{
  NOTE ("cuLaunchKernel", (unsigned long long) f, gx, gy, gz, bx, by, bz, shared, (unsigned long long) stream, (unsigned long long) parameters, (unsigned long long) extra);
  return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
}

static CUresult
create_texture_reference (void **reference)
{
  NOTE ("cuTexRefCreate", (unsigned long long) reference);
  *reference = (void *) 0x1234;
  return CUDA_SUCCESS;
}

static CUresult
of_this_driver_only (int number)
{
  NOTE ("cuOfThisDriverOnly", (unsigned long long) number);
  return CUDA_SUCCESS;
}

static CUresult get (const char *name, void **function, int asked, cuuint64_t flags, void *status);

static const struct
{
  const char *name;
  void *function;
} functions[] = {
  { "cuInit", (void *) nothing },
  { "cuDriverGetVersion", (void *) version },
  { "cuGetProcAddress", (void *) get },
  { "cuDeviceGet", (void *) zero },
  { "cuDeviceGetCount", (void *) one },
  { "cuDevicePrimaryCtxRetain", (void *) retain_primary },
  { "cuCtxGetCurrent", (void *) get_current },
  { "cuCtxGetDevice", (void *) zero },
  { "cuCtxPopCurrent", (void *) pop_current },
  { "cuCtxPushCurrent", (void *) set_current },
  { "cuCtxSetCurrent", (void *) set_current },
  { "cuCtxSynchronize", (void *) nothing },
  { "cuEventCreate", (void *) new_handle },
  { "cuEventDestroy", (void *) nothing },
  { "cuEventRecord", (void *) nothing },
  { "cuEventSynchronize", (void *) nothing },
  { "cuMemAlloc", (void *) allocate },
  { "cuMemAllocAsync", (void *) allocate },
  { "cuMemFree", (void *) release },
  { "cuMemFreeAsync", (void *) release },
  { "cuMemcpyDtoDAsync", (void *) nothing },
  { "cuMemsetD2D8Async", (void *) nothing },
  { "cuMemsetD8Async", (void *) nothing },
  { "cuPointerGetAttribute", (void *) not_known },
  { "cuStreamCreate", (void *) new_handle },
  { "cuStreamDestroy", (void *) nothing },
  { "cuStreamIsCapturing", (void *) is_capturing },
  { "cuStreamQuery", (void *) nothing },
  { "cuStreamSynchronize", (void *) nothing },
  { "cuStreamWaitEvent", (void *) nothing },
  { "cuLaunchKernel", (void *) launch },
  { "cuTexRefCreate", (void *) create_texture_reference },
  { "cuOfThisDriverOnly", (void *) of_this_driver_only },
};

static CUresult
get (const char *name, void **function, int asked, cuuint64_t flags, void *status)
{
  (void) asked;
  (void) flags;
  *function = NULL;
  for (unsigned int i = 0; i < sizeof functions / sizeof functions[0]; i++)
    {
      if (strcmp (functions[i].name, name) == 0)
        *function = functions[i].function;
    }
  if (status != NULL)
    *(CUdriverProcAddressQueryResult *) status = *function != NULL ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return *function != NULL ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

#undef cuGetProcAddress
EXPORT CUresult CUDAAPI cuGetProcAddress_v2 (const char *name, void **function, int asked, cuuint64_t flags, CUdriverProcAddressQueryResult *status);

EXPORT CUresult CUDAAPI
cuGetProcAddress_v2 (const char *name, void **function, int asked, cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
  return get (name, function, asked, flags, status);
}
