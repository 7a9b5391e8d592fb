/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-copy-attributes-private.h"

#include "gcuda-location-private.h"

/* CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE */
#define PREFER_OVERLAP 1

/**
 * GCudaCopyAttributes:
 *
 * How the copies of a batch are made: when the sources are read, and what helps the driver. Immutable, counted atomically. Any
 * thread.
 *
 * The order is a promise: a call that can't keep it fails. The rest are hints.
 *
 * Since: 0.1
 */
struct _GCudaCopyAttributes
{
  GCudaSourceOrder source_order;
  GCudaLocation *source;
  GCudaLocation *destination;
  gboolean prefer_overlap;
};

G_DEFINE_BOXED_TYPE (GCudaCopyAttributes, gcuda_copy_attributes, gcuda_copy_attributes_ref, gcuda_copy_attributes_unref)

/**
 * gcuda_copy_attributes_new:
 * @source_order: when the sources are read
 * @source: (nullable): where managed sources are best read from, or %NULL to leave that to the driver
 * @destination: (nullable): where managed destinations are best written, or %NULL to leave that to the driver
 * @prefer_overlap: whether the copies should rather leave room for kernels that run meanwhile
 *
 * Makes attributes. What is no order or no location is refused by the call that gets them.
 *
 * Returns: (transfer full): new attributes
 *
 * Since: 0.1
 */
GCudaCopyAttributes *
gcuda_copy_attributes_new (GCudaSourceOrder source_order,
                           GCudaLocation *source,
                           GCudaLocation *destination,
                           gboolean prefer_overlap)
{
  GCudaCopyAttributes *self = g_atomic_rc_box_new0 (GCudaCopyAttributes);

  self->source_order = source_order;
  self->source = source != NULL ? gcuda_location_ref (source) : NULL;
  self->destination = destination != NULL ? gcuda_location_ref (destination) : NULL;
  self->prefer_overlap = prefer_overlap;
  return self;
}

/**
 * gcuda_copy_attributes_ref:
 * @self: attributes
 *
 * Takes a reference. Any thread.
 *
 * Returns: (transfer full): @self
 *
 * Since: 0.1
 */
GCudaCopyAttributes *
gcuda_copy_attributes_ref (GCudaCopyAttributes *self)
{
  g_return_val_if_fail (self != NULL, NULL);

  return g_atomic_rc_box_acquire (self);
}

static void
copy_attributes_clear (gpointer data)
{
  GCudaCopyAttributes *self = data;

  g_clear_pointer (&self->source, gcuda_location_unref);
  g_clear_pointer (&self->destination, gcuda_location_unref);
}

/**
 * gcuda_copy_attributes_unref:
 * @self: attributes
 *
 * Drops a reference. Any thread.
 *
 * Since: 0.1
 */
void
gcuda_copy_attributes_unref (GCudaCopyAttributes *self)
{
  g_return_if_fail (self != NULL);

  g_atomic_rc_box_release_full (self, copy_attributes_clear);
}

gboolean
_gcuda_copy_attributes_resolve (GCudaCopyAttributes *self,
                                GCudaMemcpyAttributes *attributes,
                                const char *what,
                                GError **error)
{
  memset (attributes, 0, sizeof *attributes);
  attributes->source_order = GCUDA_SOURCE_ORDER_STREAM;
  if (self == NULL)
    return TRUE;
  if ((int) self->source_order < GCUDA_SOURCE_ORDER_STREAM || self->source_order > GCUDA_SOURCE_ORDER_ANY)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: %d is no order of sources", what, (int) self->source_order);
  attributes->source_order = (int) self->source_order;
  attributes->flags = self->prefer_overlap ? PREFER_OVERLAP : 0;
  return (self->source == NULL || _gcuda_location_resolve (self->source, &attributes->source, what, error)) &&
         (self->destination == NULL || _gcuda_location_resolve (self->destination, &attributes->destination, what, error));
}
