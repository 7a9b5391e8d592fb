/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A library such as the CUDA Toolkit's stub: it has the driver's names, and does nothing. */
#include <cuda.h>

/* Under the names that a driver has, whatever the header makes of them. */
#undef cuGetProcAddress
CUresult cuGetProcAddress_v2 (const char *symbol, void **function, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status);

#pragma GCC visibility push(default)

CUresult CUDAAPI
cuInit (unsigned int flags)
{
  return CUDA_ERROR_STUB_LIBRARY;
}

CUresult CUDAAPI
cuDriverGetVersion (int *version)
{
  return CUDA_ERROR_STUB_LIBRARY;
}

CUresult CUDAAPI
cuGetProcAddress_v2 (const char *symbol,
                     void **function,
                     int version,
                     cuuint64_t flags,
                     CUdriverProcAddressQueryResult *status)
{
  return CUDA_ERROR_STUB_LIBRARY;
}

#pragma GCC visibility pop
