/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/memory/gcuda-copy-attributes.h>

#include "driver/gcuda-driver-private.h"

G_BEGIN_DECLS

/* As the driver takes them; headers of CUDA before 12.8 have no name for it. */
typedef struct
{
  int source_order;
  CUmemLocation source;
  CUmemLocation destination;
  unsigned int flags;
} GCudaMemcpyAttributes;

/* NULL stands for copies in the order of the stream. */
gboolean _gcuda_copy_attributes_resolve (GCudaCopyAttributes *self,
                                         GCudaMemcpyAttributes *attributes,
                                         const char *what,
                                         GError **error);

G_END_DECLS
