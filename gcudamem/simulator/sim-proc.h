/* SPDX-License-Identifier: LGPL-2.1-or-later */

#pragma once

typedef struct
{
  const char *name;
  int version;
  const char *symbol;
  void *function;
  void *stub;  /* the same, if there is no more */
  void **jump; /* where that jumps to */
  int per_thread;
} SimProc;

extern const SimProc sim_procs[];
extern const unsigned int sim_n_procs;
