/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-memory-info-private.h"

/**
 * GCudaMemoryInfo:
 *
 * How much memory a device has, and how much of it is free: an immutable snapshot, counted atomically.
 *
 * Since: 0.1
 */
struct _GCudaMemoryInfo
{
  guint64 free;
  guint64 total;
};

G_DEFINE_BOXED_TYPE (GCudaMemoryInfo, gcuda_memory_info, gcuda_memory_info_ref, gcuda_memory_info_unref)

GCudaMemoryInfo *
_gcuda_memory_info_new (guint64 free,
                        guint64 total)
{
  GCudaMemoryInfo *self = g_atomic_rc_box_new0 (GCudaMemoryInfo);

  self->free = free;
  self->total = total;
  return self;
}

/**
 * gcuda_memory_info_ref:
 * @self: a memory info
 *
 * Takes a reference. Any thread.
 *
 * Returns: (transfer full): @self
 *
 * Since: 0.1
 */
GCudaMemoryInfo *
gcuda_memory_info_ref (GCudaMemoryInfo *self)
{
  g_return_val_if_fail (self != NULL, NULL);

  return g_atomic_rc_box_acquire (self);
}

/**
 * gcuda_memory_info_unref:
 * @self: a memory info
 *
 * Drops a reference. Any thread.
 *
 * Since: 0.1
 */
void
gcuda_memory_info_unref (GCudaMemoryInfo *self)
{
  g_return_if_fail (self != NULL);

  g_atomic_rc_box_release (self);
}

/**
 * gcuda_memory_info_get_free:
 * @self: a memory info
 *
 * The bytes that were free. Memory that a pool holds in reserve is not. Any thread.
 *
 * Returns: a number of bytes
 *
 * Since: 0.1
 */
guint64
gcuda_memory_info_get_free (GCudaMemoryInfo *self)
{
  g_return_val_if_fail (self != NULL, 0);

  return self->free;
}

/**
 * gcuda_memory_info_get_total:
 * @self: a memory info
 *
 * The bytes that the device has. Any thread.
 *
 * Returns: a number of bytes
 *
 * Since: 0.1
 */
guint64
gcuda_memory_info_get_total (GCudaMemoryInfo *self)
{
  g_return_val_if_fail (self != NULL, 0);

  return self->total;
}
