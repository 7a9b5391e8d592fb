/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A weak definition of every entry point; those that are simulated have a
 * strong one elsewhere. And the table of all of them. cuda.h is not included:
 * the stubs need no types and touch no argument, and an older cuda.h lacks some. */

#include "sim-proc.h"

int sim_not_simulated (const char *symbol);

#define SIM_PROC_ONCE
#define SIM_PROC(name, version, symbol, per_thread)                 \
  __attribute__ ((weak, visibility ("default"))) int symbol (void); \
  int symbol (void)                                                 \
  {                                                                 \
    return sim_not_simulated (#symbol);                             \
  }
#include "procs.h"
#undef SIM_PROC
#undef SIM_PROC_ONCE

#define SIM_PROC(name, version, symbol, per_thread) { #name, version, (void *) symbol, per_thread },
const SimProc sim_procs[] = {
#include "procs.h"
};

const unsigned int sim_n_procs = sizeof sim_procs / sizeof sim_procs[0];
