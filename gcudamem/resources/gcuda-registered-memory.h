/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/memory/gcuda-buffer.h>

G_BEGIN_DECLS

GCUDA_AVAILABLE_IN_0_1
GCudaBuffer *gcuda_buffer_new_for_bytes (GCudaDevice *device,
                                         GBytes *bytes,
                                         GCudaStream *stream,
                                         GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaBuffer *gcuda_buffer_new_for_host_address (GCudaDevice *device,
                                                guint64 address,
                                                guint64 size,
                                                GObject *owner,
                                                GCudaStream *stream,
                                                GError **error);

G_END_DECLS
