/* SPDX-License-Identifier: LGPL-2.1-or-later */

#pragma once

/* The probes call the driver that was loaded, whichever it is, and print what
 * it answers, in the form in which a real driver's answers were recorded. */

#include <cuda.h>
#include <glib.h>

#define PROBE_STRING_(x) #x
#define PROBE_STRING(x)  PROBE_STRING_ (x)

/* Calls an entry point under the name that cuda.h gives its current form. */
#define C(name, ...) (((__typeof__ (&name)) probe_symbol (PROBE_STRING (name))) (__VA_ARGS__))

#define KIB ((size_t) 1024)
#define MIB ((size_t) 1048576)

typedef struct
{
  const char *name;
  void (*function) (void);
  gboolean bare; /* not even cuInit was called */
} Probe;

extern const Probe probes[];

void *probe_symbol (const char *name);
const char *probe_result (CUresult result);

/* Print "GROUP: WHAT RESULT FACTS": say without a result, ok with facts after a
 * success only, always with facts. */
void say (const char *format, ...) G_GNUC_PRINTF (1, 2);
void ok (CUresult result, const char *what, const char *facts, ...) G_GNUC_PRINTF (3, 4);
void always (CUresult result, const char *what, const char *facts, ...) G_GNUC_PRINTF (3, 4);
void only (CUresult result, const char *what);

/* All attributes of an address of what begins at START. */
void probe_attributes (const char *what, CUdeviceptr p, CUdeviceptr start);

/* Work that stays pending on STREAM until probe_open(). */
void probe_block (CUstream stream);
void probe_open (void);

extern CUcontext primary;
extern CUdevice device;
