/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A weak definition of every entry point. Those that are simulated have a
 * strong one elsewhere. cuda.h is not included: the stubs need no types, and
 * touch no argument. */

int sim_not_simulated (const char *symbol);

#define SIM_PROC(name, version, symbol, per_thread) \
  __attribute__ ((weak, visibility ("default"))) int symbol (void); \
  int symbol (void) \
  { \
    return sim_not_simulated (#symbol); \
  }
#define SIM_PROC_ONCE
#include "procs.h"
