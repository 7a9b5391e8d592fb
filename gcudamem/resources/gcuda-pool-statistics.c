/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-pool-statistics-private.h"

/**
 * GCudaPoolStatistics:
 *
 * How much memory a pool uses and holds: an immutable snapshot, counted atomically.
 *
 * Since: 0.1
 */
struct _GCudaPoolStatistics
{
  guint64 used;
  guint64 used_high;
  guint64 reserved;
  guint64 reserved_high;
};

G_DEFINE_BOXED_TYPE (GCudaPoolStatistics, gcuda_pool_statistics, gcuda_pool_statistics_ref, gcuda_pool_statistics_unref)

GCudaPoolStatistics *
_gcuda_pool_statistics_new (guint64 used,
                            guint64 used_high,
                            guint64 reserved,
                            guint64 reserved_high)
{
  GCudaPoolStatistics *self = g_atomic_rc_box_new0 (GCudaPoolStatistics);

  self->used = used;
  self->used_high = used_high;
  self->reserved = reserved;
  self->reserved_high = reserved_high;
  return self;
}

/**
 * gcuda_pool_statistics_ref:
 * @self: pool statistics
 *
 * Takes a reference. Any thread.
 *
 * Returns: (transfer full): @self
 *
 * Since: 0.1
 */
GCudaPoolStatistics *
gcuda_pool_statistics_ref (GCudaPoolStatistics *self)
{
  g_return_val_if_fail (self != NULL, NULL);

  return g_atomic_rc_box_acquire (self);
}

/**
 * gcuda_pool_statistics_unref:
 * @self: pool statistics
 *
 * Drops a reference. Any thread.
 *
 * Since: 0.1
 */
void
gcuda_pool_statistics_unref (GCudaPoolStatistics *self)
{
  g_return_if_fail (self != NULL);

  g_atomic_rc_box_release (self);
}

/**
 * gcuda_pool_statistics_get_used:
 * @self: pool statistics
 *
 * The bytes that are allocated from the pool. The driver counts memory as free from the call that frees it on. Any thread.
 *
 * Returns: a number of bytes
 *
 * Since: 0.1
 */
guint64
gcuda_pool_statistics_get_used (GCudaPoolStatistics *self)
{
  g_return_val_if_fail (self != NULL, 0);

  return self->used;
}

/**
 * gcuda_pool_statistics_get_used_high:
 * @self: pool statistics
 *
 * The most bytes that were allocated at once, since the pool was made or the mark was reset. Any thread.
 *
 * Returns: a number of bytes
 *
 * Since: 0.1
 */
guint64
gcuda_pool_statistics_get_used_high (GCudaPoolStatistics *self)
{
  g_return_val_if_fail (self != NULL, 0);

  return self->used_high;
}

/**
 * gcuda_pool_statistics_get_reserved:
 * @self: pool statistics
 *
 * The bytes that the pool holds, allocated or not. Any thread.
 *
 * Returns: a number of bytes
 *
 * Since: 0.1
 */
guint64
gcuda_pool_statistics_get_reserved (GCudaPoolStatistics *self)
{
  g_return_val_if_fail (self != NULL, 0);

  return self->reserved;
}

/**
 * gcuda_pool_statistics_get_reserved_high:
 * @self: pool statistics
 *
 * The most bytes that the pool held at once, since it was made or the mark was reset. Any thread.
 *
 * Returns: a number of bytes
 *
 * Since: 0.1
 */
guint64
gcuda_pool_statistics_get_reserved_high (GCudaPoolStatistics *self)
{
  g_return_val_if_fail (self != NULL, 0);

  return self->reserved_high;
}
