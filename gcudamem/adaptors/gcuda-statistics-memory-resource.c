/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-statistics-memory-resource.h"

#include "gcuda-allocation-statistics-private.h"
#include "gcuda-memory-resource-adaptor-private.h"

/**
 * GCudaStatisticsMemoryResource:
 *
 * An adaptor that counts: what is allocated, what was at most, and what in all.
 *
 * The figures are properties as well, to be bound to. Changes are notified on the main context that was the thread's default
 * when the adaptor was made, 20 times a second at most, and only the last value is seen: a program without a main loop asks
 * for [method@StatisticsMemoryResource.get_statistics]. What counts is the sizes asked for. Memory that was released counts
 * until it is given back to upstream. Any thread.
 *
 * Since: 0.1
 */
typedef struct
{
  guint64 values[GCUDA_N_STATISTICS]; /* atomic */
  guint64 notified[GCUDA_N_STATISTICS];
  GMainContext *context;
  gint notifying; /* a source that notifies waits for its time */
} GCudaStatisticsMemoryResourcePrivate;

G_DEFINE_TYPE_WITH_PRIVATE (GCudaStatisticsMemoryResource, gcuda_statistics_memory_resource, GCUDA_TYPE_MEMORY_RESOURCE_ADAPTOR)

#define NOTIFY_INTERVAL 50 /* milliseconds */

/* The properties are the statistics, from 1 on. */
static GParamSpec *properties[GCUDA_N_STATISTICS + 1];

static inline GCudaStatisticsMemoryResourcePrivate *
get_private (gpointer self)
{
  return gcuda_statistics_memory_resource_get_instance_private (self);
}

static void
snapshot (GCudaStatisticsMemoryResourcePrivate *priv,
          guint64 values[GCUDA_N_STATISTICS])
{
  for (guint i = 0; i < GCUDA_N_STATISTICS; i++)
    values[i] = __atomic_load_n (&priv->values[i], __ATOMIC_RELAXED);
}

static gboolean
notify_changes (gpointer data)
{
  GObject *object = g_weak_ref_get (data);
  GCudaStatisticsMemoryResourcePrivate *priv;
  guint64 values[GCUDA_N_STATISTICS];

  if (object == NULL)
    return G_SOURCE_REMOVE;
  priv = get_private (object);
  /* Before the look: what changes from here on makes another source. */
  g_atomic_int_set (&priv->notifying, FALSE);
  snapshot (priv, values);
  g_object_freeze_notify (object);
  for (guint i = 0; i < GCUDA_N_STATISTICS; i++)
    if (values[i] != priv->notified[i])
      {
        priv->notified[i] = values[i];
        g_object_notify_by_pspec (object, properties[i + 1]);
      }
  g_object_thaw_notify (object);
  g_object_unref (object);
  return G_SOURCE_REMOVE;
}

static void
weak_ref_free (gpointer data)
{
  g_weak_ref_clear (data);
  g_free (data);
}

static void
changed (GCudaMemoryResourceAdaptor *self)
{
  GCudaStatisticsMemoryResourcePrivate *priv = get_private (self);
  GWeakRef *reference;
  GSource *source;

  if (G_LIKELY (g_atomic_int_get (&priv->notifying)) || !g_atomic_int_compare_and_exchange (&priv->notifying, FALSE, TRUE))
    return;
  reference = g_new0 (GWeakRef, 1);
  g_weak_ref_init (reference, self);
  source = g_timeout_source_new (NOTIFY_INTERVAL);
  g_source_set_static_name (source, "GCudaStatisticsMemoryResource");
  g_source_set_callback (source, notify_changes, reference, weak_ref_free);
  g_source_attach (source, priv->context);
  g_source_unref (source);
}

/* Adds, and keeps the largest. */
static void
add (guint64 *current,
     guint64 *peak,
     guint64 *total,
     guint64 amount)
{
  const guint64 now = __atomic_add_fetch (current, amount, __ATOMIC_RELAXED);
  guint64 largest = __atomic_load_n (peak, __ATOMIC_RELAXED);

  __atomic_add_fetch (total, amount, __ATOMIC_RELAXED);
  while (now > largest && !__atomic_compare_exchange_n (peak, &largest, now, TRUE, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    ;
}

static CUresult
statistics_allocate (GCudaMemoryResourceAdaptor *self,
                     GCudaUpstreamCall *up,
                     gsize size,
                     gsize alignment,
                     CUdeviceptr *address)
{
  guint64 *values = get_private (self)->values;
  CUresult result = _gcuda_upstream_allocate (up, size, alignment, address);

  if (result == CUDA_SUCCESS)
    {
      add (&values[GCUDA_STATISTIC_CURRENT_BYTES], &values[GCUDA_STATISTIC_PEAK_BYTES], &values[GCUDA_STATISTIC_TOTAL_BYTES], size);
      add (&values[GCUDA_STATISTIC_CURRENT_COUNT], &values[GCUDA_STATISTIC_PEAK_COUNT], &values[GCUDA_STATISTIC_TOTAL_COUNT], 1);
    }
  else
    {
      __atomic_add_fetch (&values[GCUDA_STATISTIC_FAILED_COUNT], 1, __ATOMIC_RELAXED);
    }
  changed (self);
  return result;
}

static CUresult
statistics_deallocate (GCudaMemoryResourceAdaptor *self,
                       GCudaUpstreamCall *up,
                       CUdeviceptr address,
                       gsize size,
                       gsize alignment)
{
  guint64 *values = get_private (self)->values;
  CUresult result = _gcuda_upstream_deallocate (up, address, size, alignment);

  if (result != CUDA_SUCCESS)
    return result;
  __atomic_sub_fetch (&values[GCUDA_STATISTIC_CURRENT_BYTES], size, __ATOMIC_RELAXED);
  __atomic_sub_fetch (&values[GCUDA_STATISTIC_CURRENT_COUNT], 1, __ATOMIC_RELAXED);
  changed (self);
  return result;
}

static const GCudaAdaptorHooks hooks = {
  .allocate = statistics_allocate,
  .deallocate = statistics_deallocate,
};

static void
gcuda_statistics_memory_resource_finalize (GObject *object)
{
  g_main_context_unref (get_private (object)->context);

  G_OBJECT_CLASS (gcuda_statistics_memory_resource_parent_class)->finalize (object);
}

static void
gcuda_statistics_memory_resource_get_property (GObject *object,
                                               guint id,
                                               GValue *value,
                                               GParamSpec *pspec)
{
  if (id >= 1 && id <= GCUDA_N_STATISTICS)
    g_value_set_uint64 (value, __atomic_load_n (&get_private (object)->values[id - 1], __ATOMIC_RELAXED));
  else
    G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
}

static void
gcuda_statistics_memory_resource_class_init (GCudaStatisticsMemoryResourceClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_EXPLICIT_NOTIFY | G_PARAM_STATIC_STRINGS;

  object_class->finalize = gcuda_statistics_memory_resource_finalize;
  object_class->get_property = gcuda_statistics_memory_resource_get_property;
  GCUDA_MEMORY_RESOURCE_ADAPTOR_CLASS (klass)->hooks = &hooks;

  /**
   * GCudaStatisticsMemoryResource:current-bytes:
   *
   * How many bytes are allocated.
   *
   * Since: 0.1
   */
  properties[GCUDA_STATISTIC_CURRENT_BYTES + 1] = g_param_spec_uint64 ("current-bytes", NULL, NULL, 0, G_MAXUINT64, 0, flags);

  /**
   * GCudaStatisticsMemoryResource:peak-bytes:
   *
   * How many bytes were allocated at most at a time, since the peaks were last reset.
   *
   * Since: 0.1
   */
  properties[GCUDA_STATISTIC_PEAK_BYTES + 1] = g_param_spec_uint64 ("peak-bytes", NULL, NULL, 0, G_MAXUINT64, 0, flags);

  /**
   * GCudaStatisticsMemoryResource:total-bytes:
   *
   * How many bytes were allocated in all.
   *
   * Since: 0.1
   */
  properties[GCUDA_STATISTIC_TOTAL_BYTES + 1] = g_param_spec_uint64 ("total-bytes", NULL, NULL, 0, G_MAXUINT64, 0, flags);

  /**
   * GCudaStatisticsMemoryResource:current-count:
   *
   * How many allocations there are.
   *
   * Since: 0.1
   */
  properties[GCUDA_STATISTIC_CURRENT_COUNT + 1] = g_param_spec_uint64 ("current-count", NULL, NULL, 0, G_MAXUINT64, 0, flags);

  /**
   * GCudaStatisticsMemoryResource:peak-count:
   *
   * How many allocations there were at most at a time, since the peaks were last reset.
   *
   * Since: 0.1
   */
  properties[GCUDA_STATISTIC_PEAK_COUNT + 1] = g_param_spec_uint64 ("peak-count", NULL, NULL, 0, G_MAXUINT64, 0, flags);

  /**
   * GCudaStatisticsMemoryResource:total-count:
   *
   * How many allocations were made in all.
   *
   * Since: 0.1
   */
  properties[GCUDA_STATISTIC_TOTAL_COUNT + 1] = g_param_spec_uint64 ("total-count", NULL, NULL, 0, G_MAXUINT64, 0, flags);

  /**
   * GCudaStatisticsMemoryResource:failed-count:
   *
   * How many allocations failed.
   *
   * Since: 0.1
   */
  properties[GCUDA_STATISTIC_FAILED_COUNT + 1] = g_param_spec_uint64 ("failed-count", NULL, NULL, 0, G_MAXUINT64, 0, flags);

  g_object_class_install_properties (object_class, G_N_ELEMENTS (properties), properties);
}

static void
gcuda_statistics_memory_resource_init (GCudaStatisticsMemoryResource *self)
{
  get_private (self)->context = g_main_context_ref_thread_default ();
}

/**
 * gcuda_statistics_memory_resource_new:
 * @upstream: where the memory comes from
 *
 * Makes an adaptor that counts. Changes will be notified on the calling thread's default main context. Any thread.
 *
 * Returns: (transfer full): a new memory resource
 *
 * Since: 0.1
 */
GCudaStatisticsMemoryResource *
gcuda_statistics_memory_resource_new (GCudaMemoryResource *upstream)
{
  g_return_val_if_fail (GCUDA_IS_MEMORY_RESOURCE (upstream), NULL);

  return g_object_new (GCUDA_TYPE_STATISTICS_MEMORY_RESOURCE, "upstream", upstream, NULL);
}

/**
 * gcuda_statistics_memory_resource_get_statistics:
 * @self: a statistics memory resource
 *
 * All figures. Any thread.
 *
 * Returns: (transfer full): a snapshot
 *
 * Since: 0.1
 */
GCudaAllocationStatistics *
gcuda_statistics_memory_resource_get_statistics (GCudaStatisticsMemoryResource *self)
{
  guint64 values[GCUDA_N_STATISTICS];

  g_return_val_if_fail (GCUDA_IS_STATISTICS_MEMORY_RESOURCE (self), NULL);

  snapshot (get_private (self), values);
  return _gcuda_allocation_statistics_new (values);
}

/**
 * gcuda_statistics_memory_resource_reset_peaks:
 * @self: a statistics memory resource
 *
 * Makes the peaks what is allocated now. Any thread.
 *
 * Since: 0.1
 */
void
gcuda_statistics_memory_resource_reset_peaks (GCudaStatisticsMemoryResource *self)
{
  guint64 *values;

  g_return_if_fail (GCUDA_IS_STATISTICS_MEMORY_RESOURCE (self));

  values = get_private (self)->values;
  __atomic_store_n (&values[GCUDA_STATISTIC_PEAK_BYTES], __atomic_load_n (&values[GCUDA_STATISTIC_CURRENT_BYTES], __ATOMIC_RELAXED), __ATOMIC_RELAXED);
  __atomic_store_n (&values[GCUDA_STATISTIC_PEAK_COUNT], __atomic_load_n (&values[GCUDA_STATISTIC_CURRENT_COUNT], __ATOMIC_RELAXED), __ATOMIC_RELAXED);
  changed (GCUDA_MEMORY_RESOURCE_ADAPTOR (self));
}
