/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-aligned-memory-resource.h"

#include "gcuda-memory-resource-adaptor-private.h"

/**
 * GCudaAlignedMemoryResource:
 *
 * An adaptor whose addresses are multiples of more than the 256 bytes that others promise.
 *
 * It asks upstream for as much more as it takes. Any thread.
 *
 * Since: 0.1
 */
typedef struct
{
  guint64 alignment;
  GMutex lock;
  GHashTable *pieces; /* of upstream, by the address that was made of each */
} GCudaAlignedMemoryResourcePrivate;

G_DEFINE_TYPE_WITH_PRIVATE (GCudaAlignedMemoryResource, gcuda_aligned_memory_resource, GCUDA_TYPE_MEMORY_RESOURCE_ADAPTOR)

enum
{
  PROP_0,
  PROP_ALIGNMENT,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

typedef struct
{
  CUdeviceptr address;
  CUdeviceptr base;
  gsize size;
} Piece;

static inline GCudaAlignedMemoryResourcePrivate *
get_private (gpointer self)
{
  return gcuda_aligned_memory_resource_get_instance_private (self);
}

static gboolean
is_power_of_two (guint64 value)
{
  return value != 0 && (value & (value - 1)) == 0;
}

static CUresult
aligned_allocate (GCudaMemoryResourceAdaptor *self,
                  GCudaUpstreamCall *up,
                  gsize size,
                  gsize alignment,
                  CUdeviceptr *address)
{
  GCudaAlignedMemoryResourcePrivate *priv = get_private (self);
  const gsize wanted = MAX (priv->alignment, alignment);
  Piece *piece;
  CUresult result;

  if (wanted <= GCUDA_ALIGNMENT)
    return _gcuda_upstream_allocate (up, size, alignment, address);
  if (wanted > G_MAXSIZE / 2 - size)
    return CUDA_ERROR_OUT_OF_MEMORY;
  piece = g_new (Piece, 1);
  piece->size = size + wanted - GCUDA_ALIGNMENT;
  result = _gcuda_upstream_allocate (up, piece->size, GCUDA_ALIGNMENT, &piece->base);
  if (result != CUDA_SUCCESS)
    {
      g_free (piece);
      return result;
    }
  *address = piece->address = (piece->base + wanted - 1) & ~(CUdeviceptr) (wanted - 1);
  g_mutex_lock (&priv->lock);
  g_hash_table_add (priv->pieces, piece);
  g_mutex_unlock (&priv->lock);
  return CUDA_SUCCESS;
}

static CUresult
aligned_deallocate (GCudaMemoryResourceAdaptor *self,
                    GCudaUpstreamCall *up,
                    CUdeviceptr address,
                    gsize size,
                    gsize alignment)
{
  GCudaAlignedMemoryResourcePrivate *priv = get_private (self);
  Piece *piece;
  CUresult result;

  /* Off the list first: once it is freed, another thread may be given the same address. */
  g_mutex_lock (&priv->lock);
  piece = g_hash_table_lookup (priv->pieces, &address);
  if (piece != NULL)
    g_hash_table_steal (priv->pieces, piece);
  g_mutex_unlock (&priv->lock);
  if (piece == NULL)
    return _gcuda_upstream_deallocate (up, address, size, alignment);
  result = _gcuda_upstream_deallocate (up, piece->base, piece->size, GCUDA_ALIGNMENT);
  if (result == CUDA_SUCCESS)
    {
      g_free (piece);
      return result;
    }
  g_mutex_lock (&priv->lock);
  g_hash_table_add (priv->pieces, piece);
  g_mutex_unlock (&priv->lock);
  return result;
}

static gboolean
aligned_check (GCudaMemoryResourceAdaptor *self,
               GError **error)
{
  if (is_power_of_two (get_private (self)->alignment))
    return TRUE;
  return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "alignment %" G_GUINT64_FORMAT " is no power of two", get_private (self)->alignment);
}

static gsize
aligned_get_alignment (GCudaMemoryResourceAdaptor *self)
{
  return get_private (self)->alignment;
}

static const GCudaAdaptorHooks hooks = {
  .allocate = aligned_allocate,
  .deallocate = aligned_deallocate,
  .check = aligned_check,
  .get_alignment = aligned_get_alignment,
};

static void
gcuda_aligned_memory_resource_finalize (GObject *object)
{
  GCudaAlignedMemoryResourcePrivate *priv = get_private (object);

  g_hash_table_unref (priv->pieces);
  g_mutex_clear (&priv->lock);

  G_OBJECT_CLASS (gcuda_aligned_memory_resource_parent_class)->finalize (object);
}

static void
gcuda_aligned_memory_resource_get_property (GObject *object,
                                            guint id,
                                            GValue *value,
                                            GParamSpec *pspec)
{
  switch (id)
    {
    case PROP_ALIGNMENT:
      g_value_set_uint64 (value, get_private (object)->alignment);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gcuda_aligned_memory_resource_set_property (GObject *object,
                                            guint id,
                                            const GValue *value,
                                            GParamSpec *pspec)
{
  switch (id)
    {
    case PROP_ALIGNMENT:
      get_private (object)->alignment = g_value_get_uint64 (value);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gcuda_aligned_memory_resource_class_init (GCudaAlignedMemoryResourceClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->finalize = gcuda_aligned_memory_resource_finalize;
  object_class->get_property = gcuda_aligned_memory_resource_get_property;
  object_class->set_property = gcuda_aligned_memory_resource_set_property;
  GCUDA_MEMORY_RESOURCE_ADAPTOR_CLASS (klass)->hooks = &hooks;

  /**
   * GCudaAlignedMemoryResource:alignment: (getter get_alignment)
   *
   * What addresses are multiples of, in bytes: a power of two.
   *
   * Since: 0.1
   */
  properties[PROP_ALIGNMENT] = g_param_spec_uint64 ("alignment", NULL, NULL, 0, G_MAXUINT64, GCUDA_ALIGNMENT, G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS);

  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
gcuda_aligned_memory_resource_init (GCudaAlignedMemoryResource *self)
{
  GCudaAlignedMemoryResourcePrivate *priv = get_private (self);

  g_mutex_init (&priv->lock);
  priv->pieces = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
}

/**
 * gcuda_aligned_memory_resource_new:
 * @upstream: where the memory comes from
 * @alignment: what addresses are multiples of, in bytes: a power of two
 * @error: return location for an error
 *
 * Makes an adaptor that aligns memory. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for what is no power of two.
 *
 * Returns: (transfer full): a new memory resource
 *
 * Since: 0.1
 */
GCudaAlignedMemoryResource *
gcuda_aligned_memory_resource_new (GCudaMemoryResource *upstream,
                                   guint64 alignment,
                                   GError **error)
{
  g_return_val_if_fail (GCUDA_IS_MEMORY_RESOURCE (upstream), NULL);

  if (!is_power_of_two (alignment))
    {
      _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "aligning memory: %" G_GUINT64_FORMAT " is no power of two", alignment);
      return NULL;
    }
  return g_object_new (GCUDA_TYPE_ALIGNED_MEMORY_RESOURCE, "upstream", upstream, "alignment", alignment, NULL);
}

/**
 * gcuda_aligned_memory_resource_get_alignment: (get-property alignment)
 * @self: an aligned memory resource
 *
 * What addresses are multiples of. Any thread.
 *
 * Returns: how many bytes
 *
 * Since: 0.1
 */
guint64
gcuda_aligned_memory_resource_get_alignment (GCudaAlignedMemoryResource *self)
{
  g_return_val_if_fail (GCUDA_IS_ALIGNED_MEMORY_RESOURCE (self), 0);

  return get_private (self)->alignment;
}
