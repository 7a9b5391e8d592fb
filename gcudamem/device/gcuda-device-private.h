/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/device/gcuda-context.h>

#include "gcuda-context-box-private.h"

G_BEGIN_DECLS

/* The driver's name of the device; FALSE with CLOSED for an object that was made by bare new. */
gboolean _gcuda_device_check (GCudaDevice *self,
                              const char *what,
                              CUdevice *device,
                              GError **error);

/* The device object of an ordinal that exists for certain, or NULL. Not a new reference: they live to the end. */
GCudaDevice *_gcuda_device_peek (CUdevice device,
                                 GError **error);

/* Forgets the primary context that was closed. */
void _gcuda_device_forget_primary (GCudaDevice *self,
                                   GCudaContext *context);

/* The context's box, checked: NULL with an error for a NULL, closed or lost context. With a use, for the caller. */
GCudaContextBox *_gcuda_context_hold (GCudaContext *self,
                                      const char *what,
                                      GError **error);

/* The same for the primary context of a device, which is retained on first use. */
GCudaContextBox *_gcuda_device_hold_primary_context (GCudaDevice *self,
                                                     const char *what,
                                                     GError **error);

GCudaContext *_gcuda_context_new_for_box (GCudaContextBox *box,
                                          GCudaDevice *device);

G_END_DECLS
