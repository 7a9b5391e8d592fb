/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sharing between processes. Chunks of virtual memory are in virtual.c. */

#include "sim-private.h"

CUresult
sim_ipc_event_init (SimEvent *event)
{
  (void) event;
  return CUDA_SUCCESS;
}

void
sim_ipc_event_clear (SimEvent *event)
{
  (void) event;
}
