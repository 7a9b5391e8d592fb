/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/memory/gcuda-location.h>

G_BEGIN_DECLS

/**
 * GCudaSourceOrder:
 * @GCUDA_SOURCE_ORDER_STREAM: in the order of the stream, as all else that is put on it
 * @GCUDA_SOURCE_ORDER_DURING_CALL: while the call runs, whatever the stream does: when it returns, the sources may change
 * @GCUDA_SOURCE_ORDER_ANY: at any time from the call on, also before what is on the stream already
 *
 * When a copy reads what it copies.
 *
 * Since: 0.1
 */
typedef enum
{
  GCUDA_SOURCE_ORDER_STREAM = 1,
  GCUDA_SOURCE_ORDER_DURING_CALL = 2,
  GCUDA_SOURCE_ORDER_ANY = 3,
} GCudaSourceOrder;

typedef struct _GCudaCopyAttributes GCudaCopyAttributes;

#define GCUDA_TYPE_COPY_ATTRIBUTES (gcuda_copy_attributes_get_type ())

GCUDA_AVAILABLE_IN_0_1
GType gcuda_copy_attributes_get_type (void) G_GNUC_CONST;

GCUDA_AVAILABLE_IN_0_1
GCudaCopyAttributes *gcuda_copy_attributes_new (GCudaSourceOrder source_order,
                                                GCudaLocation *source,
                                                GCudaLocation *destination,
                                                gboolean prefer_overlap);

GCUDA_AVAILABLE_IN_0_1
GCudaCopyAttributes *gcuda_copy_attributes_ref (GCudaCopyAttributes *self);

GCUDA_AVAILABLE_IN_0_1
void gcuda_copy_attributes_unref (GCudaCopyAttributes *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GCudaCopyAttributes, gcuda_copy_attributes_unref)

G_END_DECLS
