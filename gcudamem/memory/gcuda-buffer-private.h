/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/memory/gcuda-buffer.h>

#include "gcuda-allocation-private.h"

G_BEGIN_DECLS

/* Takes a reference to the allocation over, and the hold that goes with it. */
GCudaBuffer *_gcuda_buffer_new (GCudaAllocation *allocation);

/* The allocation with a hold, for the caller; NULL with CLOSED. */
GCudaAllocation *_gcuda_buffer_hold (GCudaBuffer *self,
                                     const char *what,
                                     GError **error);

G_END_DECLS
