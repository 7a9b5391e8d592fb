/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-limiting-memory-resource.h"

#include "gcuda-memory-resource-adaptor-private.h"

/**
 * GCudaLimitingMemoryResource:
 *
 * An adaptor that hands out no more than so many bytes at a time.
 *
 * An allocation that would exceed the limit fails with `OUT_OF_MEMORY`, and upstream is not asked. What counts is the
 * sizes asked for, not what upstream rounds them to, until the memory is given back to upstream: memory that was released
 * but waits for its stream still counts, and an allocation waits a moment for it, as it does when memory is out. Any thread.
 *
 * Since: 0.1
 */
typedef struct
{
  guint64 limit;
  guint64 used; /* both atomic */
} GCudaLimitingMemoryResourcePrivate;

G_DEFINE_TYPE_WITH_PRIVATE (GCudaLimitingMemoryResource, gcuda_limiting_memory_resource, GCUDA_TYPE_MEMORY_RESOURCE_ADAPTOR)

enum
{
  PROP_0,
  PROP_LIMIT,
  PROP_USED,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

static inline GCudaLimitingMemoryResourcePrivate *
get_private (gpointer self)
{
  return gcuda_limiting_memory_resource_get_instance_private (self);
}

static CUresult
limiting_allocate (GCudaMemoryResourceAdaptor *self,
                   GCudaUpstreamCall *up,
                   gsize size,
                   gsize alignment,
                   CUdeviceptr *address)
{
  GCudaLimitingMemoryResourcePrivate *priv = get_private (self);
  const guint64 limit = __atomic_load_n (&priv->limit, __ATOMIC_RELAXED);
  guint64 used = __atomic_load_n (&priv->used, __ATOMIC_RELAXED);
  CUresult result;

  /* It is taken first, so that two threads can't share the last bytes. */
  do
    if (used > limit || size > limit - used)
      return CUDA_ERROR_OUT_OF_MEMORY;
  while (!__atomic_compare_exchange_n (&priv->used, &used, used + size, TRUE, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  result = _gcuda_upstream_allocate (up, size, alignment, address);
  if (result != CUDA_SUCCESS)
    __atomic_fetch_sub (&priv->used, size, __ATOMIC_RELAXED);
  return result;
}

static CUresult
limiting_deallocate (GCudaMemoryResourceAdaptor *self,
                     GCudaUpstreamCall *up,
                     CUdeviceptr address,
                     gsize size,
                     gsize alignment)
{
  CUresult result = _gcuda_upstream_deallocate (up, address, size, alignment);

  if (result == CUDA_SUCCESS)
    __atomic_fetch_sub (&get_private (self)->used, size, __ATOMIC_RELAXED);
  return result;
}

static char *
limiting_describe (GCudaMemoryResourceAdaptor *self,
                   char *upstream)
{
  GCudaLimitingMemoryResourcePrivate *priv = get_private (self);
  g_autofree char *limit = g_format_size_full (__atomic_load_n (&priv->limit, __ATOMIC_RELAXED), G_FORMAT_SIZE_IEC_UNITS);
  g_autofree char *used = g_format_size_full (__atomic_load_n (&priv->used, __ATOMIC_RELAXED), G_FORMAT_SIZE_IEC_UNITS);
  g_autofree char *below = upstream;

  return g_strdup_printf ("%s, limited to %s of which %s are in use", below, limit, used);
}

static const GCudaAdaptorHooks hooks = {
  .allocate = limiting_allocate,
  .deallocate = limiting_deallocate,
  .describe = limiting_describe,
};

static void
gcuda_limiting_memory_resource_get_property (GObject *object,
                                             guint id,
                                             GValue *value,
                                             GParamSpec *pspec)
{
  GCudaLimitingMemoryResource *self = GCUDA_LIMITING_MEMORY_RESOURCE (object);

  switch (id)
    {
    case PROP_LIMIT:
      g_value_set_uint64 (value, gcuda_limiting_memory_resource_get_limit (self));
      break;
    case PROP_USED:
      g_value_set_uint64 (value, gcuda_limiting_memory_resource_get_used (self));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gcuda_limiting_memory_resource_set_property (GObject *object,
                                             guint id,
                                             const GValue *value,
                                             GParamSpec *pspec)
{
  switch (id)
    {
    case PROP_LIMIT:
      gcuda_limiting_memory_resource_set_limit (GCUDA_LIMITING_MEMORY_RESOURCE (object), g_value_get_uint64 (value));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gcuda_limiting_memory_resource_class_init (GCudaLimitingMemoryResourceClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->get_property = gcuda_limiting_memory_resource_get_property;
  object_class->set_property = gcuda_limiting_memory_resource_set_property;
  GCUDA_MEMORY_RESOURCE_ADAPTOR_CLASS (klass)->hooks = &hooks;

  /**
   * GCudaLimitingMemoryResource:limit: (getter get_limit) (setter set_limit)
   *
   * How many bytes may be in use at a time.
   *
   * Since: 0.1
   */
  properties[PROP_LIMIT] = g_param_spec_uint64 ("limit", NULL, NULL, 0, G_MAXUINT64, 0, G_PARAM_READWRITE | G_PARAM_CONSTRUCT | G_PARAM_EXPLICIT_NOTIFY | G_PARAM_STATIC_STRINGS);

  /**
   * GCudaLimitingMemoryResource:used: (getter get_used)
   *
   * How many bytes are in use. Changes are not notified.
   *
   * Since: 0.1
   */
  properties[PROP_USED] = g_param_spec_uint64 ("used", NULL, NULL, 0, G_MAXUINT64, 0, G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);

  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
gcuda_limiting_memory_resource_init (GCudaLimitingMemoryResource *self)
{
}

/**
 * gcuda_limiting_memory_resource_new:
 * @upstream: where the memory comes from
 * @limit: how many bytes may be in use at a time
 *
 * Makes an adaptor that hands out no more than @limit bytes at a time. Any thread.
 *
 * Returns: (transfer full): a new memory resource
 *
 * Since: 0.1
 */
GCudaLimitingMemoryResource *
gcuda_limiting_memory_resource_new (GCudaMemoryResource *upstream,
                                    guint64 limit)
{
  g_return_val_if_fail (GCUDA_IS_MEMORY_RESOURCE (upstream), NULL);

  return g_object_new (GCUDA_TYPE_LIMITING_MEMORY_RESOURCE, "upstream", upstream, "limit", limit, NULL);
}

/**
 * gcuda_limiting_memory_resource_get_limit: (get-property limit)
 * @self: a limiting memory resource
 *
 * How much may be in use at a time. Any thread.
 *
 * Returns: how many bytes
 *
 * Since: 0.1
 */
guint64
gcuda_limiting_memory_resource_get_limit (GCudaLimitingMemoryResource *self)
{
  g_return_val_if_fail (GCUDA_IS_LIMITING_MEMORY_RESOURCE (self), 0);

  return __atomic_load_n (&get_private (self)->limit, __ATOMIC_RELAXED);
}

/**
 * gcuda_limiting_memory_resource_set_limit: (set-property limit)
 * @self: a limiting memory resource
 * @limit: how many bytes may be in use at a time
 *
 * Sets another limit. One below what is in use takes nothing away; nothing is handed out until enough was given back. Any
 * thread.
 *
 * Since: 0.1
 */
void
gcuda_limiting_memory_resource_set_limit (GCudaLimitingMemoryResource *self,
                                          guint64 limit)
{
  g_return_if_fail (GCUDA_IS_LIMITING_MEMORY_RESOURCE (self));

  if (__atomic_exchange_n (&get_private (self)->limit, limit, __ATOMIC_RELAXED) != limit)
    g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_LIMIT]);
}

/**
 * gcuda_limiting_memory_resource_get_used: (get-property used)
 * @self: a limiting memory resource
 *
 * How much is in use now. Any thread.
 *
 * Returns: how many bytes
 *
 * Since: 0.1
 */
guint64
gcuda_limiting_memory_resource_get_used (GCudaLimitingMemoryResource *self)
{
  g_return_val_if_fail (GCUDA_IS_LIMITING_MEMORY_RESOURCE (self), 0);

  return __atomic_load_n (&get_private (self)->used, __ATOMIC_RELAXED);
}
