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

/* The same, and the address of a part; INVALID_ARGUMENT if it does not lie in the buffer. */
GCudaAllocation *_gcuda_buffer_hold_range (GCudaBuffer *self,
                                           guint64 offset,
                                           guint64 size,
                                           const char *what,
                                           CUdeviceptr *address,
                                           GError **error);

/* Whether a pattern can fill @size bytes at @address. */
gboolean _gcuda_buffer_check_pattern (guint64 value,
                                      guint width,
                                      guint64 address,
                                      guint64 size,
                                      const char *what,
                                      GError **error);

/* Whether it is a part of another buffer, or all of it. */
gboolean _gcuda_buffer_is_view (GCudaBuffer *self);

/* Whether anything but the buffer and the caller, who both hold @allocation, does so too; or the buffer was closed. */
gboolean _gcuda_buffer_is_shared (GCudaBuffer *self,
                                  GCudaAllocation *allocation);

/* For the resource of the memory, on a buffer that is no view and whose @allocation it holds: another size, and another
 * address too. FALSE, and nothing was done, if it is shared. Without a notification, which follows when
 * all is done. */
gboolean _gcuda_buffer_change (GCudaBuffer *self,
                               GCudaAllocation *allocation,
                               CUdeviceptr address,
                               gsize size);
/* The same where it grows in place: whoever else holds the memory does not mind. */
void _gcuda_buffer_grow (GCudaBuffer *self,
                         GCudaAllocation *allocation,
                         gsize size);
void _gcuda_buffer_notify_change (GCudaBuffer *self,
                                  gboolean address,
                                  gboolean size);

G_END_DECLS
