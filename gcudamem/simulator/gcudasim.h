/* SPDX-License-Identifier: LGPL-2.1-or-later */

#pragma once

/* Control of the simulated driver, for tests. Find these with dlsym() in the
 * driver that was loaded, so that a test links no driver and runs on a real one
 * as well, where they are absent. None of them is a driver call: they are not
 * logged, not counted, and never fail because of injected faults.
 *
 * Environment, read when cuInit() is called:
 *
 *   GCUDASIM_DEVICES         number of devices, 0 to 16 (1)
 *   GCUDASIM_MEMORY          bytes of each, suffix K, M, G or T (4G)
 *   GCUDASIM_ATTRIBUTES      NAME=VALUE,...: NAME as after CU_DEVICE_ATTRIBUTE_, or a number;
 *                            VALUE a number, or the name of the CUresult that the query answers
 *   GCUDASIM_PEER_ACCESS     0 or 1 (1)
 *   GCUDASIM_DRIVER_VERSION  (13000)
 *   GCUDASIM_SCHEDULER       shuffled or laziest (shuffled)
 *   GCUDASIM_SEED            of the shuffling; random if not set
 *   GCUDASIM_VERBOSE         1: say the seed and more on stderr
 *   GCUDASIM_FAIL            see gcudasim_fail()
 *   GCUDASIM_LOG             file that the call log is appended to; "stderr"
 *   GCUDASIM_CHECK           what the ordering checker does when it finds something: report, abort or off (report)
 *   GCUDASIM_CHECK_FILE      file that reports are appended to, a JSON object a line
 *   GCUDASIM_CHECK_SUPPRESSIONS  file of lines KIND FUNCTION FUNCTION # REASON, with * for any
 *   GCUDASIM_CHECK_STACKS    call sites: all, native (not of scripts) or none (all)
 *   GCUDASIM_CHECK_HOST      on, off: find what the program itself does to pinned and managed memory,
 *                            by the protection of its pages (on)
 *   GCUDASIM_CHECK_THREADS   ordered: what one thread knows when it makes a call, all know that call later;
 *                            independent: each knows only what it waited for itself, or was told (ordered)
 *   GCUDASIM_PASS_THROUGH    a real driver: it gets all calls, which are not simulated but checked,
 *                            logged and made to fail as asked for here
 *   CUDA_VISIBLE_DEVICES     as with the real driver
 *
 * A line of the log, fields separated by one space:
 *
 *   SEQUENCE THREAD FUNCTION(ARG=VALUE, ...) = RESULT [OUT=VALUE ...] ctx=CONTEXT
 *
 * in the order in which the calls returned. FUNCTION has no version suffix.
 * Addresses and handles are 0x hexadecimal; a stream argument may be "null",
 * "legacy" or "per-thread"; no current context is "none". RESULT has no
 * CUDA_ERROR_ prefix. OUT is there after a success only. Lines that begin with
 * "#" are remarks: the seed first, at the end a balance of what is still alive.
 * A call made in a forked child, or after the driver's teardown, ends with
 * " !forked" or " !exited". */

#include <cuda.h>

#ifdef __cplusplus
extern "C"
{
#endif

  /* The same as GCUDASIM_PASS_THROUGH, before cuInit(). NULL, or what is wrong with PATH. */
  const char *gcudasim_pass_through (const char *path);

  /* Before cuInit(): this library is the driver that another copy of it passes
   * calls on to. It does not check, log or fail calls then, whatever the
   * environment says: that does. */
  void gcudasim_only_simulate (void);

  /* Whether calls are simulated, and not passed on. */
  int gcudasim_is_simulating (void);

  /* What is alive in this process. */
  typedef struct
  {
    unsigned long long allocations; /* of all kinds, mapped chunks not counted */
    unsigned long long streams;     /* created ones */
    unsigned long long events;
    unsigned long long contexts; /* created ones, and active primary ones */
    unsigned long long pools;    /* created and imported, not the default ones */
    unsigned long long reservations;
    unsigned long long mappings;
    unsigned long long memory_handles; /* cuMemCreate: references not released */
    unsigned long long graphs;
    unsigned long long graph_execs;
    unsigned long long user_objects;
    unsigned long long pending;      /* operations */
    unsigned long long device_bytes; /* physical memory in use, all devices */
  } GcudasimBalance;

  /* Makes calls fail. SPEC is FUNCTION:N=RESULT,...: from now on the N-th call of
 * FUNCTION answers RESULT and does nothing; N+ means the N-th and all later.
 * FUNCTION has no version suffix; RESULT is a name, with or without
 * CUDA_ERROR_, or a number. Counting starts anew with each gcudasim_fail().
 * NULL or "" clears. Returns 1, or 0 for a malformed SPEC (nothing changes). */
  int gcudasim_fail (const char *spec);

  /* The same for the calling thread's calls only. */
  int gcudasim_fail_here (const char *spec);

  /* How many times FUNCTION was called since the start of the process, failures
 * included; NULL: any function. */
  unsigned long long gcudasim_call_count (const char *function);

  /* Keeps the log in memory from now on; take returns it (free() it) and goes on
 * with an empty one; NULL if it was not started. Independent of GCUDASIM_LOG. */
  void gcudasim_log_start (void);
  char *gcudasim_log_take (void);

  /* Ends gcudasim_log_start(); what was not taken is dropped. */
  void gcudasim_log_stop (void);

  /* Overrides a device attribute. ATTRIBUTE is a CUdevice_attribute. */
  void gcudasim_set_attribute (int device, int attribute, int value);

  /* Makes the query of a device attribute answer an error; 0 removes that. */
  void gcudasim_set_attribute_error (int device, int attribute, int result);

  /* Makes a context lost, and with it all others of the process, as an illegal
 * address in a kernel does. Returns 0 if there is no such context. */
  int gcudasim_lose_context (CUcontext context);

  /* While held, no operation starts: what is queued stays pending, and a call
 * that waits for it waits until gcudasim_hold (0). */
  void gcudasim_hold (int on);

  /* Runs everything that is runnable, even in a held or laziest simulator, and
 * returns when nothing is pending. Not for use inside host functions. */
  void gcudasim_drain (void);

  /* Number of operations not yet done, all streams. */
  unsigned long long gcudasim_pending (void);

  /* Sets scheduler ("shuffled", "laziest") and seed while running. Returns 0 for
 * an unknown name. */
  int gcudasim_set_scheduler (const char *name, unsigned int seed);

  /* Fills in BALANCE. */
  void gcudasim_balance (GcudasimBalance *balance);

  /* For the ordering checker: what no driver call tells. FUNCTION names it in
   * reports, and may be NULL. Of no effect where nothing is checked. */

  /* Work queued in STREAM just now, such as a kernel, reads or writes these bytes. */
  void gcudasim_declare_access (CUstream stream, CUdeviceptr address, size_t size, int writes, const char *function);

  /* A program's own pool hands these bytes out, in the order of STREAM, or takes them back. */
  void gcudasim_declare_allocation (CUstream stream, CUdeviceptr address, size_t size, const char *function);
  void gcudasim_declare_free (CUstream stream, CUdeviceptr address, size_t size, const char *function);

  /* The calling thread reads or writes memory that streams use too. */
  void gcudasim_declare_host_access (const void *address, size_t size, int writes, const char *function);

  /* The memory at ADDRESS will be freed on another stream than was said before. */
  void gcudasim_declare_deallocation_stream (CUdeviceptr address);

  /* Whether the ordering checker is on, once cuInit() was called. */
  int gcudasim_is_checking (void);

  /* How many reports there were. */
  unsigned long long gcudasim_reports (void);

#ifdef __cplusplus
}
#endif
