/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-binning-memory-resource.h"

#include "gcuda-memory-resource-adaptor-private.h"

/**
 * GCudaBinningMemoryResource:
 *
 * An adaptor that chooses among several upstreams by size: each bin takes what is not larger than its largest size and
 * larger than that of the bin below; what is larger than all bins goes to [property@MemoryResourceAdaptor:upstream].
 *
 * Memory goes back by the size it was allocated with, so bins are added before the first allocation. If one of the upstreams
 * does not free in stream order, the library waits for the stream first for all. Any thread, unless one of the upstreams is
 * bound to one.
 *
 * Since: 0.1
 */
typedef struct
{
  GArray *bins; /* from the smallest to the largest */
  gint used;
} GCudaBinningMemoryResourcePrivate;

G_DEFINE_TYPE_WITH_PRIVATE (GCudaBinningMemoryResource, gcuda_binning_memory_resource, GCUDA_TYPE_MEMORY_RESOURCE_ADAPTOR)

typedef struct
{
  guint64 max_size;
  GCudaMemoryResource *resource;
} Bin;

static inline GCudaBinningMemoryResourcePrivate *
get_private (gpointer self)
{
  return gcuda_binning_memory_resource_get_instance_private (self);
}

static void
choose (GCudaMemoryResourceAdaptor *self,
        GCudaUpstreamCall *up,
        gsize size)
{
  GArray *bins = get_private (self)->bins;

  for (guint i = 0; i < bins->len; i++)
    if (size <= g_array_index (bins, Bin, i).max_size)
      {
        up->upstream = g_array_index (bins, Bin, i).resource;
        return;
      }
}

static CUresult
binning_allocate (GCudaMemoryResourceAdaptor *self,
                  GCudaUpstreamCall *up,
                  gsize size,
                  gsize alignment,
                  CUdeviceptr *address)
{
  g_atomic_int_set (&get_private (self)->used, TRUE);
  choose (self, up, size);
  return _gcuda_upstream_allocate (up, size, alignment, address);
}

static CUresult
binning_deallocate (GCudaMemoryResourceAdaptor *self,
                    GCudaUpstreamCall *up,
                    CUdeviceptr address,
                    gsize size,
                    gsize alignment)
{
  choose (self, up, size);
  return _gcuda_upstream_deallocate (up, address, size, alignment);
}

static gboolean
binning_check (GCudaMemoryResourceAdaptor *self,
               GError **error)
{
  GArray *bins = get_private (self)->bins;

  for (guint i = 0; i < bins->len; i++)
    if (!_gcuda_memory_resource_check (g_array_index (bins, Bin, i).resource, "using a bin", error))
      return FALSE;
  return TRUE;
}

static gboolean
binning_frees_in_order (GCudaMemoryResourceAdaptor *self)
{
  GArray *bins = get_private (self)->bins;

  for (guint i = 0; i < bins->len; i++)
    if (!_gcuda_memory_resource_frees_in_order (g_array_index (bins, Bin, i).resource))
      return FALSE;
  return TRUE;
}

/* Memory of graphs is allocated in captures only, other memory only outside of them. */
static gboolean
is_of_graphs (GCudaMemoryResource *resource)
{
  const GCudaResourceOperations *operations = _gcuda_memory_resource_operations (resource);

  return operations != NULL && operations->accept != NULL;
}

static char *
binning_describe (GCudaMemoryResourceAdaptor *self,
                  char *upstream)
{
  g_autofree char *below = upstream;

  return g_strdup_printf ("%u bins and %s", get_private (self)->bins->len, below);
}

static const GCudaAdaptorHooks hooks = {
  .allocate = binning_allocate,
  .deallocate = binning_deallocate,
  .check = binning_check,
  .describe = binning_describe,
  .frees_in_order = binning_frees_in_order,
};

static void
gcuda_binning_memory_resource_finalize (GObject *object)
{
  g_array_unref (get_private (object)->bins);

  G_OBJECT_CLASS (gcuda_binning_memory_resource_parent_class)->finalize (object);
}

static void
gcuda_binning_memory_resource_class_init (GCudaBinningMemoryResourceClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = gcuda_binning_memory_resource_finalize;
  GCUDA_MEMORY_RESOURCE_ADAPTOR_CLASS (klass)->hooks = &hooks;
}

static void
bin_clear (gpointer data)
{
  g_object_unref (((Bin *) data)->resource);
}

static void
gcuda_binning_memory_resource_init (GCudaBinningMemoryResource *self)
{
  GCudaBinningMemoryResourcePrivate *priv = get_private (self);

  priv->bins = g_array_new (FALSE, FALSE, sizeof (Bin));
  g_array_set_clear_func (priv->bins, bin_clear);
}

/**
 * gcuda_binning_memory_resource_new:
 * @upstream: where memory comes from that is too large for each bin
 *
 * Makes an adaptor that has no bins yet. Any thread.
 *
 * Returns: (transfer full): a new memory resource
 *
 * Since: 0.1
 */
GCudaBinningMemoryResource *
gcuda_binning_memory_resource_new (GCudaMemoryResource *upstream)
{
  g_return_val_if_fail (GCUDA_IS_MEMORY_RESOURCE (upstream), NULL);

  return g_object_new (GCUDA_TYPE_BINNING_MEMORY_RESOURCE, "upstream", upstream, NULL);
}

/**
 * gcuda_binning_memory_resource_add_bin:
 * @self: a binning memory resource
 * @max_size: the largest size that the bin takes, in bytes
 * @resource: where its memory comes from
 * @error: return location for an error, or %NULL
 *
 * Adds a bin. Before the first allocation, before another adaptor is built on this one, and not while another thread uses
 * it.
 *
 * Errors: `INVALID_ARGUMENT` for size 0, a second bin of the same size, no resource, this one itself, or one whose memory
 * is of another device than upstream's, or not accessible by the same, or memory of graphs where upstream's is not, or the
 * other way round; `IN_USE` after the first allocation, or when another adaptor was built on this one.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_binning_memory_resource_add_bin (GCudaBinningMemoryResource *self,
                                       guint64 max_size,
                                       GCudaMemoryResource *resource,
                                       GError **error)
{
  static const char what[] = "adding a bin";
  GCudaBinningMemoryResourcePrivate *priv = get_private (self);
  Bin bin = { max_size, resource };
  guint place = 0;

  g_return_val_if_fail (GCUDA_IS_BINNING_MEMORY_RESOURCE (self), FALSE);

  if (!GCUDA_IS_MEMORY_RESOURCE (resource))
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: no memory resource was given", what);
  if (resource == GCUDA_MEMORY_RESOURCE (self))
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: its memory would come from this same resource", what);
  if (_gcuda_memory_resource_peek_device (GCUDA_MEMORY_RESOURCE (self)) == NULL)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: the resource has no upstream", what);
  if (max_size == 0)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: it takes no size", what);
  if (_gcuda_memory_resource_peek_device (resource) != _gcuda_memory_resource_peek_device (GCUDA_MEMORY_RESOURCE (self)))
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: its memory is of another device", what);
  if (gcuda_memory_resource_is_device_accessible (resource) != gcuda_memory_resource_is_device_accessible (GCUDA_MEMORY_RESOURCE (self)) ||
      gcuda_memory_resource_is_host_accessible (resource) != gcuda_memory_resource_is_host_accessible (GCUDA_MEMORY_RESOURCE (self)))
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: its memory is used by others than that of the upstream", what);
  if (_gcuda_memory_resource_operations (resource) != NULL && _gcuda_memory_resource_operations (GCUDA_MEMORY_RESOURCE (self)) != NULL &&
      is_of_graphs (resource) != is_of_graphs (GCUDA_MEMORY_RESOURCE (self)))
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: memory of graphs and other memory do not go together: the one is allocated in captures only, the other only outside of them", what);
  if (_gcuda_memory_resource_adaptor_is_built_on (GCUDA_MEMORY_RESOURCE_ADAPTOR (self)))
    return _gcuda_fail (error, GCUDA_ERROR_IN_USE, "%s: another adaptor is built on this one, and counts on the bins that it has", what);
  if (g_atomic_int_get (&priv->used))
    return _gcuda_fail (error, GCUDA_ERROR_IN_USE, "%s: memory was allocated already, and goes back by its size", what);
  while (place < priv->bins->len && g_array_index (priv->bins, Bin, place).max_size < max_size)
    place++;
  if (place < priv->bins->len && g_array_index (priv->bins, Bin, place).max_size == max_size)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: there is one for up to %" G_GUINT64_FORMAT " bytes", what, max_size);
  g_object_ref (resource);
  g_array_insert_val (priv->bins, place, bin);
  _gcuda_memory_resource_adaptor_add (GCUDA_MEMORY_RESOURCE_ADAPTOR (self), resource);
  return TRUE;
}
