/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* cuGetProcAddress. */

#include "sim-private.h"
#include "sim-proc.h"

static CUresult
get_proc_address (const char *symbol, void **pfn, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
  gboolean per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  const SimProc *best = NULL;
  gboolean known = FALSE;

  if (sim_passing ())
    return sim_pass_get_proc_address (symbol, pfn, version, flags, status);
  /* The real driver takes a negative version for the newest. */
  if (symbol == NULL || pfn == NULL || flags > 3 || version >= 99000)
    return CUDA_ERROR_INVALID_VALUE;
  if (version < 0 || version > sim.driver_version)
    version = sim.driver_version > 0 ? sim.driver_version : 13000;

  for (guint i = 0; i < sim_n_procs; i++)
    {
      if (strcmp (sim_procs[i].name, symbol) != 0)
        continue;
      known = TRUE;
      if (sim_procs[i].version > version || (sim_procs[i].per_thread && !per_thread))
        continue;
      /* The newest; among equals the per-thread form, which is asked for. An
       * old per-thread form never hides a newer one. */
      if (best == NULL || sim_procs[i].per_thread > best->per_thread ||
          (sim_procs[i].per_thread == best->per_thread && sim_procs[i].version >= best->version))
        best = &sim_procs[i];
    }

  *pfn = best != NULL ? best->function : NULL;
  if (status != NULL)
    *status = best != NULL ? CU_GET_PROC_ADDRESS_SUCCESS
              : known      ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                           : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuGetProcAddress_v2, SIM_ANYTIME | SIM_CALLBACK | SIM_OWN, (const char *, symbol), (void **, pfn), (int, cudaVersion), (cuuint64_t, flags), (CUdriverProcAddressQueryResult *, symbolStatus))
{
  return get_proc_address (symbol, pfn, cudaVersion, flags, symbolStatus);
}

/* The first form has no status: what is not there is NOT_FOUND. */
SIM_ENTRY (cuGetProcAddress, SIM_ANYTIME | SIM_CALLBACK | SIM_OWN, (const char *, symbol), (void **, pfn), (int, cudaVersion), (cuuint64_t, flags))
{
  CUdriverProcAddressQueryResult status;
  CUresult result = get_proc_address (symbol, pfn, cudaVersion, flags, &status);

  if (result == CUDA_SUCCESS && status != CU_GET_PROC_ADDRESS_SUCCESS)
    result = CUDA_ERROR_NOT_FOUND;
  return result;
}

SIM_ENTRY (cuGetExportTable, SIM_ANYTIME, (const void **, table), (const CUuuid *, id))
{
  if (table == NULL || id == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  *table = NULL;
  return CUDA_ERROR_NOT_FOUND;
}
