/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A weak definition of every entry point; those that are simulated have a
 * strong one elsewhere. And the table of all of them. cuda.h is not included:
 * the stubs need no types and touch no argument, and an older cuda.h lacks some.
 *
 * A weak definition only jumps: to a function that says that this one is not
 * simulated, or to that of the driver that calls are passed on to, which finds
 * its arguments where they are. */

#include "sim-proc.h"

int sim_not_simulated (const char *symbol);

#if defined(__x86_64__)
#define SIM_JUMP(target) "  endbr64\n  jmp *" target "(%rip)\n"
#elif defined(__aarch64__)
#define SIM_JUMP(target) "  hint #34\n  adrp x16, " target "\n  ldr x16, [x16, #:lo12:" target "]\n  br x16\n"
#else
#error "no jump is known for this machine"
#endif

#define SIM_PROC_ONCE
#define SIM_PROC(name, version, symbol, per_thread)                                             \
  int symbol (void);                                                                            \
  extern char sim_stub_##symbol[] __attribute__ ((visibility ("hidden")));                      \
  static int sim_none_##symbol (void)                                                           \
  {                                                                                             \
    return sim_not_simulated (#symbol);                                                         \
  }                                                                                             \
  __attribute__ ((visibility ("hidden"))) void *sim_jump_##symbol = (void *) sim_none_##symbol; \
  __asm__("  .text\n  .p2align 4\n  .weak " #symbol "\n  .type " #symbol ", %function\n"        \
          "  .hidden sim_stub_" #symbol "\n  .globl sim_stub_" #symbol "\n"                     \
          "sim_stub_" #symbol ":\n" #symbol ":\n" SIM_JUMP ("sim_jump_" #symbol) "  .size " #symbol ", . - " #symbol "\n");
#include "procs.h"
#undef SIM_PROC
#undef SIM_PROC_ONCE

#define SIM_PROC(name, version, symbol, per_thread) { #name, version, #symbol, (void *) symbol, sim_stub_##symbol, &sim_jump_##symbol, per_thread },
const SimProc sim_procs[] = {
#include "procs.h"
};

const unsigned int sim_n_procs = sizeof sim_procs / sizeof sim_procs[0];
