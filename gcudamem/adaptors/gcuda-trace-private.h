/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The first line of a trace; the format is described at GCudaLoggingMemoryResource. */
#define GCUDA_TRACE_HEADER "# gcuda-trace 1"
