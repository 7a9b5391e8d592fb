/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What is alive, for the control interface and the end of the log. */

#include "sim-private.h"
#include "gcudasim.h"

static void
count_allocation (SimAllocation *allocation, gpointer data)
{
  GcudasimBalance *balance = data;

  if (allocation->kind == SIM_ALLOCATION_MAPPED)
    balance->mappings++;
  else if (allocation->kind != SIM_ALLOCATION_GRAPH || allocation->live)
    balance->allocations++;
}

static void
count_context (gpointer data, gpointer user_data)
{
  SimContext *context = data;
  GcudasimBalance *balance = user_data;

  if (!context->alive)
    return;
  balance->contexts++;
  balance->pending += context->pending;
}

SIM_EXPORT void
gcudasim_balance (GcudasimBalance *balance)
{
  memset (balance, 0, sizeof *balance);
  pthread_mutex_lock (&sim.lock);
  sim_allocations_foreach (count_allocation, balance);
  sim_contexts_foreach (count_context, balance);
  balance->streams = sim_handle_count (SIM_HANDLE_STREAM);
  balance->events = sim_events_alive ();
  for (guint i = 0; sim.pools != NULL && i < sim.pools->len; i++)
    {
      SimPool *pool = g_ptr_array_index (sim.pools, i);

      balance->pools += pool->handle != NULL && !pool->is_default;
    }
  balance->reservations = sim_virtual_reservations ();
  balance->memory_handles = sim_virtual_handles ();
  balance->graphs = sim_handle_count (SIM_HANDLE_GRAPH);
  balance->graph_execs = sim_handle_count (SIM_HANDLE_EXEC);
  balance->user_objects = sim_handle_count (SIM_HANDLE_USER_OBJECT);
  for (guint i = 0; i < sim.n_devices; i++)
    balance->device_bytes += sim.devices[i]->used;
  pthread_mutex_unlock (&sim.lock);
}
