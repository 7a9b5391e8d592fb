/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-memory-resource-adaptor-private.h"

#include "base/gcuda-diagnostics-private.h"

/**
 * GCudaMemoryResourceAdaptor:
 *
 * A memory resource that takes its memory from another one, its upstream, and does something beside: counts, limits, logs.
 *
 * Adaptors can be stacked, and a program can write its own, in C, Python or JavaScript: a subclass that overrides
 * [vfunc@MemoryResource.allocate_address] and [vfunc@MemoryResource.deallocate_address] and chains up. It works when made
 * by bare `new` with [property@MemoryResourceAdaptor:upstream].
 *
 * Memory is on the device, and can be used, as that of upstream; it is freed in stream order if upstream frees so. The
 * library's own adaptors can be used from any thread, unless one below them is bound to a thread: then all above it are bound
 * to the same. An adaptor keeps its upstream. Buffers of an adaptor are not upstream's: what only upstream can do with its
 * buffers, such as resizing them, it refuses.
 *
 * Since: 0.1
 */
typedef struct
{
  GCudaMemoryResource *upstream;
  GCudaResourceOperations operations; /* of this object, where all below is the library's own */
  gboolean direct;                    /* so it is */
  gint built_on;                      /* by another adaptor */
} GCudaMemoryResourceAdaptorPrivate;

G_DEFINE_ABSTRACT_TYPE_WITH_PRIVATE (GCudaMemoryResourceAdaptor, gcuda_memory_resource_adaptor, GCUDA_TYPE_MEMORY_RESOURCE)

enum
{
  PROP_0,
  PROP_UPSTREAM,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

static inline const GCudaAdaptorHooks *
get_hooks (GCudaMemoryResourceAdaptor *self)
{
  return GCUDA_MEMORY_RESOURCE_ADAPTOR_GET_CLASS (self)->hooks;
}

static inline GCudaMemoryResourceAdaptorPrivate *
get_private (gpointer self)
{
  return gcuda_memory_resource_adaptor_get_instance_private (self);
}

/* Upstream */

CUresult
_gcuda_upstream_allocate (GCudaUpstreamCall *up,
                          gsize size,
                          gsize alignment,
                          CUdeviceptr *address)
{
  if (up->stream == NULL)
    return _gcuda_memory_resource_operations (up->upstream)->allocate (up->upstream, size, up->call, address);
  *address = gcuda_memory_resource_allocate_address (up->upstream, size, alignment, up->stream, &up->error);
  if (*address != 0)
    return CUDA_SUCCESS;
  /* Its error is kept; what is no answer of the driver's is told apart by that. */
  return up->error != NULL && up->error->domain == GCUDA_ERROR && up->error->code < GCUDA_ERROR_DRIVER_NOT_FOUND ? (CUresult) up->error->code : CUDA_ERROR_UNKNOWN;
}

CUresult
_gcuda_upstream_deallocate (GCudaUpstreamCall *up,
                            CUdeviceptr address,
                            gsize size,
                            gsize alignment)
{
  if (up->stream == NULL)
    {
      const GCudaResourceOperations *operations = _gcuda_memory_resource_operations (up->upstream);

      return up->gone ? operations->deallocate_gone (up->upstream, address, size) : operations->deallocate (up->upstream, up->box, address, size, up->handle);
    }
  if (gcuda_memory_resource_deallocate_address (up->upstream, address, size, alignment, up->stream, &up->error))
    return CUDA_SUCCESS;
  return up->error->domain == GCUDA_ERROR && up->error->code < GCUDA_ERROR_DRIVER_NOT_FOUND ? (CUresult) up->error->code : CUDA_ERROR_UNKNOWN;
}

static CUresult
allocate (GCudaMemoryResourceAdaptor *self,
          GCudaUpstreamCall *up,
          gsize size,
          gsize alignment,
          CUdeviceptr *address)
{
  const GCudaAdaptorHooks *hooks = get_hooks (self);

  if (hooks != NULL && hooks->allocate != NULL)
    return hooks->allocate (self, up, size, alignment, address);
  return _gcuda_upstream_allocate (up, size, alignment, address);
}

static CUresult
deallocate (GCudaMemoryResourceAdaptor *self,
            GCudaUpstreamCall *up,
            CUdeviceptr address,
            gsize size,
            gsize alignment)
{
  const GCudaAdaptorHooks *hooks = get_hooks (self);

  if (hooks != NULL && hooks->deallocate != NULL)
    return hooks->deallocate (self, up, address, size, alignment);
  return _gcuda_upstream_deallocate (up, address, size, alignment);
}

/* The way of driver calls */

static gboolean
adaptor_check (GCudaMemoryResource *resource,
               GError **error)
{
  GCudaMemoryResourceAdaptor *self = GCUDA_MEMORY_RESOURCE_ADAPTOR (resource);
  GCudaMemoryResource *upstream = get_private (self)->upstream;
  const GCudaAdaptorHooks *hooks = get_hooks (self);

  return (hooks == NULL || hooks->check == NULL || hooks->check (self, error)) &&
         _gcuda_memory_resource_operations (upstream)->check (upstream, error);
}

static char *
adaptor_describe (GCudaMemoryResource *resource)
{
  GCudaMemoryResourceAdaptor *self = GCUDA_MEMORY_RESOURCE_ADAPTOR (resource);
  GCudaMemoryResource *upstream = get_private (self)->upstream;
  const GCudaResourceOperations *operations = _gcuda_memory_resource_operations (upstream);
  const GCudaAdaptorHooks *hooks = get_hooks (self);
  char *text = operations != NULL ? operations->describe (upstream) : g_strdup (G_OBJECT_TYPE_NAME (upstream));

  return hooks != NULL && hooks->describe != NULL ? hooks->describe (self, text) : text;
}

static CUresult
adaptor_allocate (GCudaMemoryResource *resource,
                  gsize size,
                  GCudaStreamCall *call,
                  CUdeviceptr *address)
{
  GCudaUpstreamCall up = { .upstream = get_private (resource)->upstream, .call = call, .box = call->box };

  return allocate ((GCudaMemoryResourceAdaptor *) resource, &up, size, GCUDA_ALIGNMENT, address);
}

static CUresult
adaptor_deallocate (GCudaMemoryResource *resource,
                    GCudaStreamBox *box,
                    CUdeviceptr address,
                    gsize size,
                    CUstream handle)
{
  GCudaUpstreamCall up = { .upstream = get_private (resource)->upstream, .box = box, .handle = handle };

  return deallocate ((GCudaMemoryResourceAdaptor *) resource, &up, address, size, GCUDA_ALIGNMENT);
}

static CUresult
adaptor_deallocate_gone (GCudaMemoryResource *resource,
                         CUdeviceptr address,
                         gsize size)
{
  GCudaUpstreamCall up = { .upstream = get_private (resource)->upstream, .gone = TRUE };

  return deallocate ((GCudaMemoryResourceAdaptor *) resource, &up, address, size, GCUDA_ALIGNMENT);
}

static gboolean
adaptor_accept (GCudaMemoryResource *resource,
                GCudaStreamCall *call,
                const char *what,
                GError **error)
{
  GCudaMemoryResource *upstream = get_private (resource)->upstream;

  return _gcuda_memory_resource_operations (upstream)->accept (upstream, call, what, error);
}

static gboolean
adaptor_is_of_capture (GCudaMemoryResource *resource,
                       CUdeviceptr address,
                       cuuint64_t capture)
{
  GCudaMemoryResource *upstream = get_private (resource)->upstream;

  return _gcuda_memory_resource_operations (upstream)->is_of_capture (upstream, address, capture);
}

static gboolean
adaptor_is_read_only (GCudaMemoryResource *resource)
{
  GCudaMemoryResource *upstream = get_private (resource)->upstream;
  const GCudaResourceOperations *operations = _gcuda_memory_resource_operations (upstream);

  return operations->is_read_only != NULL && operations->is_read_only (upstream);
}

static const GCudaResourceOperations *
adaptor_select (GCudaMemoryResource *resource)
{
  GCudaMemoryResourceAdaptorPrivate *priv = get_private (resource);

  return priv->direct ? &priv->operations : NULL;
}

static const GCudaResourceOperations selecting = { .select = adaptor_select };

/* The way of the vfuncs */

/* A script can chain up to them from a class that is no adaptor's. */
static gboolean
is_adaptor (GCudaMemoryResource *resource)
{
  return GCUDA_IS_MEMORY_RESOURCE_ADAPTOR (resource);
}

static guint64
adaptor_allocate_address (GCudaMemoryResource *resource,
                          guint64 size,
                          guint64 alignment,
                          GCudaStream *stream,
                          GError **error)
{
  GCudaMemoryResourceAdaptor *self = (GCudaMemoryResourceAdaptor *) resource;
  const GCudaAdaptorHooks *hooks;
  GCudaUpstreamCall up = { .stream = stream };
  CUdeviceptr address = 0;
  CUresult result;

  if (!is_adaptor (resource))
    {
      _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "allocating from %s: it is no adaptor", G_OBJECT_TYPE_NAME (resource));
      return 0;
    }
  hooks = get_hooks (self);
  up.upstream = get_private (resource)->upstream;
  if (hooks != NULL && hooks->check != NULL && !hooks->check (self, error))
    return 0;
  if (up.upstream == NULL)
    {
      _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "allocating from %s: it has no upstream", G_OBJECT_TYPE_NAME (self));
      return 0;
    }
  if (!GCUDA_IS_STREAM (stream))
    {
      _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "allocating from %s: no stream was given", G_OBJECT_TYPE_NAME (self));
      return 0;
    }
  result = allocate (self, &up, size, alignment, &address);
  if (result == CUDA_SUCCESS)
    {
      g_clear_error (&up.error);
      return address;
    }
  if (up.error != NULL)
    {
      g_propagate_error (error, up.error);
    }
  else
    {
      g_autofree char *amount = g_format_size_full (size, G_FORMAT_SIZE_IEC_UNITS);
      g_autofree char *place = adaptor_describe (resource);

      _gcuda_fail_driver (error, result, "allocating %s from %s", amount, place);
    }
  return 0;
}

static void
adaptor_deallocate_address (GCudaMemoryResource *resource,
                            guint64 address,
                            guint64 size,
                            guint64 alignment,
                            GCudaStream *stream)
{
  GCudaUpstreamCall up = { .stream = stream };
  CUresult result;

  if (!is_adaptor (resource))
    return;
  up.upstream = get_private (resource)->upstream;
  if (up.upstream == NULL || !GCUDA_IS_STREAM (stream))
    return;
  result = deallocate (GCUDA_MEMORY_RESOURCE_ADAPTOR (resource), &up, address, size, alignment);
  if (result != CUDA_SUCCESS && up.error == NULL)
    _gcuda_fail_driver (&up.error, result, "freeing memory of %s", G_OBJECT_TYPE_NAME (resource));
  if (up.error != NULL)
    _gcuda_report_teardown (up.error, "deallocate_address", address, size);
  g_clear_error (&up.error);
}

static gboolean
adaptor_is_stream_ordered (GCudaMemoryResource *resource)
{
  GCudaMemoryResourceAdaptor *self = (GCudaMemoryResourceAdaptor *) resource;
  GCudaMemoryResource *upstream = is_adaptor (resource) ? get_private (resource)->upstream : NULL;
  const GCudaAdaptorHooks *hooks = upstream != NULL ? get_hooks (self) : NULL;

  return upstream != NULL && _gcuda_memory_resource_frees_in_order (upstream) &&
         (hooks == NULL || hooks->frees_in_order == NULL || hooks->frees_in_order (self));
}

/* The object */

static void
build_on (GCudaMemoryResource *upstream)
{
  if (GCUDA_IS_MEMORY_RESOURCE_ADAPTOR (upstream))
    g_atomic_int_set (&get_private (upstream)->built_on, TRUE);
}

gboolean
_gcuda_memory_resource_adaptor_is_built_on (GCudaMemoryResourceAdaptor *self)
{
  return g_atomic_int_get (&get_private (self)->built_on);
}

void
_gcuda_memory_resource_adaptor_add (GCudaMemoryResourceAdaptor *self,
                                    GCudaMemoryResource *upstream)
{
  GCudaMemoryResourceAdaptorPrivate *priv = get_private (self);
  const GCudaResourceOperations *operations = _gcuda_memory_resource_operations (upstream);

  priv->direct = priv->direct && operations != NULL;
  if (operations != NULL)
    {
      priv->operations.frees_on_stream |= operations->stream_ordered || operations->frees_on_stream;
      priv->operations.stream_ordered &= operations->stream_ordered;
      priv->operations.spans |= operations->spans;
      priv->operations.on_host |= operations->on_host;
      priv->operations.portable &= operations->portable;
      priv->operations.alignment = MIN (MAX (priv->operations.alignment, GCUDA_ALIGNMENT), MAX (operations->alignment, GCUDA_ALIGNMENT));
    }
  build_on (upstream);
  _gcuda_memory_resource_share_home (GCUDA_MEMORY_RESOURCE (self), upstream);
}

static void
gcuda_memory_resource_adaptor_constructed (GObject *object)
{
  GCudaMemoryResourceAdaptor *self = GCUDA_MEMORY_RESOURCE_ADAPTOR (object);
  GCudaMemoryResourceClass *klass = GCUDA_MEMORY_RESOURCE_GET_CLASS (self);
  GCudaMemoryResourceAdaptorPrivate *priv = get_private (self);
  const GCudaAdaptorHooks *hooks = get_hooks (self);
  const GCudaResourceOperations *operations;

  G_OBJECT_CLASS (gcuda_memory_resource_adaptor_parent_class)->constructed (object);

  if (hooks != NULL && hooks->bound)
    _gcuda_memory_resource_bind (GCUDA_MEMORY_RESOURCE (self));
  if (priv->upstream == NULL)
    return;
  operations = _gcuda_memory_resource_operations (priv->upstream);
  priv->direct = operations != NULL && (hooks == NULL || !hooks->bound) && klass->allocate_address == adaptor_allocate_address &&
                 klass->deallocate_address == adaptor_deallocate_address && klass->is_stream_ordered == adaptor_is_stream_ordered;
  if (operations != NULL)
    priv->operations = (GCudaResourceOperations){
      .stream_ordered = operations->stream_ordered,
      .frees_on_stream = operations->stream_ordered || operations->frees_on_stream,
      .spans = operations->spans,
      .free_call = operations->free_call,
      .check = adaptor_check,
      .describe = adaptor_describe,
      .allocate = adaptor_allocate,
      .deallocate = adaptor_deallocate,
      .deallocate_gone = adaptor_deallocate_gone,
      .on_host = operations->on_host,
      .portable = operations->portable,
      .is_read_only = adaptor_is_read_only,
      .accept = operations->accept != NULL ? adaptor_accept : NULL,
      .is_of_capture = operations->is_of_capture != NULL ? adaptor_is_of_capture : NULL,
      .use_hint = operations->use_hint,
      .alignment = hooks != NULL && hooks->get_alignment != NULL ? hooks->get_alignment (self) : operations->alignment,
    };
  build_on (priv->upstream);
  _gcuda_memory_resource_take_after (GCUDA_MEMORY_RESOURCE (self), priv->upstream);
  _gcuda_memory_resource_share_home (GCUDA_MEMORY_RESOURCE (self), priv->upstream);
}

static void
gcuda_memory_resource_adaptor_finalize (GObject *object)
{
  g_clear_object (&get_private (object)->upstream);

  G_OBJECT_CLASS (gcuda_memory_resource_adaptor_parent_class)->finalize (object);
}

static void
gcuda_memory_resource_adaptor_get_property (GObject *object,
                                            guint id,
                                            GValue *value,
                                            GParamSpec *pspec)
{
  switch (id)
    {
    case PROP_UPSTREAM:
      g_value_set_object (value, get_private (object)->upstream);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gcuda_memory_resource_adaptor_set_property (GObject *object,
                                            guint id,
                                            const GValue *value,
                                            GParamSpec *pspec)
{
  switch (id)
    {
    case PROP_UPSTREAM:
      get_private (object)->upstream = g_value_dup_object (value);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gcuda_memory_resource_adaptor_class_init (GCudaMemoryResourceAdaptorClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  GCudaMemoryResourceClass *resource_class = GCUDA_MEMORY_RESOURCE_CLASS (klass);

  object_class->constructed = gcuda_memory_resource_adaptor_constructed;
  object_class->finalize = gcuda_memory_resource_adaptor_finalize;
  object_class->get_property = gcuda_memory_resource_adaptor_get_property;
  object_class->set_property = gcuda_memory_resource_adaptor_set_property;

  resource_class->allocate_address = adaptor_allocate_address;
  resource_class->deallocate_address = adaptor_deallocate_address;
  resource_class->is_stream_ordered = adaptor_is_stream_ordered;
  resource_class->operations = &selecting;
  gcuda_memory_resource_class_set_thread_safe (resource_class);

  /**
   * GCudaMemoryResourceAdaptor:upstream: (getter get_upstream)
   *
   * Where the memory comes from.
   *
   * Since: 0.1
   */
  properties[PROP_UPSTREAM] = g_param_spec_object ("upstream", NULL, NULL, GCUDA_TYPE_MEMORY_RESOURCE, G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS);

  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
gcuda_memory_resource_adaptor_init (GCudaMemoryResourceAdaptor *self)
{
}

/**
 * gcuda_memory_resource_adaptor_get_upstream: (get-property upstream)
 * @self: an adaptor
 *
 * Where the memory comes from. Any thread.
 *
 * Returns: (transfer none) (nullable): a memory resource; %NULL for an object made by bare `new` without one
 *
 * Since: 0.1
 */
GCudaMemoryResource *
gcuda_memory_resource_adaptor_get_upstream (GCudaMemoryResourceAdaptor *self)
{
  g_return_val_if_fail (GCUDA_IS_MEMORY_RESOURCE_ADAPTOR (self), NULL);

  return get_private (self)->upstream;
}
