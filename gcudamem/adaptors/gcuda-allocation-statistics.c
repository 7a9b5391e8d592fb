/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-allocation-statistics-private.h"

/**
 * GCudaAllocationStatistics:
 *
 * What was allocated: an immutable snapshot, counted atomically. Each figure is right; while other threads allocate, two of
 * them may be of two moments.
 *
 * Since: 0.1
 */
struct _GCudaAllocationStatistics
{
  guint64 values[GCUDA_N_STATISTICS];
};

G_DEFINE_BOXED_TYPE (GCudaAllocationStatistics, gcuda_allocation_statistics, gcuda_allocation_statistics_ref, gcuda_allocation_statistics_unref)

GCudaAllocationStatistics *
_gcuda_allocation_statistics_new (const guint64 values[GCUDA_N_STATISTICS])
{
  GCudaAllocationStatistics *self = g_atomic_rc_box_new0 (GCudaAllocationStatistics);

  memcpy (self->values, values, sizeof self->values);
  return self;
}

/**
 * gcuda_allocation_statistics_ref:
 * @self: allocation statistics
 *
 * Takes a reference. Any thread.
 *
 * Returns: (transfer full): @self
 *
 * Since: 0.1
 */
GCudaAllocationStatistics *
gcuda_allocation_statistics_ref (GCudaAllocationStatistics *self)
{
  g_return_val_if_fail (self != NULL, NULL);

  return g_atomic_rc_box_acquire (self);
}

/**
 * gcuda_allocation_statistics_unref:
 * @self: allocation statistics
 *
 * Drops a reference. Any thread.
 *
 * Since: 0.1
 */
void
gcuda_allocation_statistics_unref (GCudaAllocationStatistics *self)
{
  g_return_if_fail (self != NULL);

  g_atomic_rc_box_release (self);
}

/**
 * gcuda_allocation_statistics_get_current_bytes:
 * @self: allocation statistics
 *
 * How many bytes are allocated. Any thread.
 *
 * Returns: how many bytes
 *
 * Since: 0.1
 */
guint64
gcuda_allocation_statistics_get_current_bytes (GCudaAllocationStatistics *self)
{
  g_return_val_if_fail (self != NULL, 0);

  return self->values[GCUDA_STATISTIC_CURRENT_BYTES];
}

/**
 * gcuda_allocation_statistics_get_peak_bytes:
 * @self: allocation statistics
 *
 * How many bytes were allocated at most at a time, since the peaks were last reset. Any thread.
 *
 * Returns: how many bytes
 *
 * Since: 0.1
 */
guint64
gcuda_allocation_statistics_get_peak_bytes (GCudaAllocationStatistics *self)
{
  g_return_val_if_fail (self != NULL, 0);

  return self->values[GCUDA_STATISTIC_PEAK_BYTES];
}

/**
 * gcuda_allocation_statistics_get_total_bytes:
 * @self: allocation statistics
 *
 * How many bytes were allocated in all. Any thread.
 *
 * Returns: how many bytes
 *
 * Since: 0.1
 */
guint64
gcuda_allocation_statistics_get_total_bytes (GCudaAllocationStatistics *self)
{
  g_return_val_if_fail (self != NULL, 0);

  return self->values[GCUDA_STATISTIC_TOTAL_BYTES];
}

/**
 * gcuda_allocation_statistics_get_current_count:
 * @self: allocation statistics
 *
 * How many allocations there are. Any thread.
 *
 * Returns: how many
 *
 * Since: 0.1
 */
guint64
gcuda_allocation_statistics_get_current_count (GCudaAllocationStatistics *self)
{
  g_return_val_if_fail (self != NULL, 0);

  return self->values[GCUDA_STATISTIC_CURRENT_COUNT];
}

/**
 * gcuda_allocation_statistics_get_peak_count:
 * @self: allocation statistics
 *
 * How many allocations there were at most at a time, since the peaks were last reset. Any thread.
 *
 * Returns: how many
 *
 * Since: 0.1
 */
guint64
gcuda_allocation_statistics_get_peak_count (GCudaAllocationStatistics *self)
{
  g_return_val_if_fail (self != NULL, 0);

  return self->values[GCUDA_STATISTIC_PEAK_COUNT];
}

/**
 * gcuda_allocation_statistics_get_total_count:
 * @self: allocation statistics
 *
 * How many allocations were made in all. Any thread.
 *
 * Returns: how many
 *
 * Since: 0.1
 */
guint64
gcuda_allocation_statistics_get_total_count (GCudaAllocationStatistics *self)
{
  g_return_val_if_fail (self != NULL, 0);

  return self->values[GCUDA_STATISTIC_TOTAL_COUNT];
}

/**
 * gcuda_allocation_statistics_get_failed_count:
 * @self: allocation statistics
 *
 * How many allocations failed. Any thread.
 *
 * Returns: how many
 *
 * Since: 0.1
 */
guint64
gcuda_allocation_statistics_get_failed_count (GCudaAllocationStatistics *self)
{
  g_return_val_if_fail (self != NULL, 0);

  return self->values[GCUDA_STATISTIC_FAILED_COUNT];
}
