/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-allocation-private.h"
#include "gcuda-buffer-private.h"

/**
 * GCudaMemoryResource:
 *
 * Where buffers get their memory from.
 *
 * The library brings resources for the driver's memory pools ([class@DeviceMemoryResource]), for plain allocations
 * ([class@SynchronousMemoryResource]), for memory that the processor uses too ([class@PinnedMemoryResource],
 * [class@ManagedMemoryResource]), for buffers that grow ([class@VirtualMemoryResource]), for memory of graphs
 * ([class@GraphMemoryResource]), and adaptors, which are built on others ([class@MemoryResourceAdaptor]). A program can write its own, in C, Python or JavaScript: a subclass that implements
 * [vfunc@MemoryResource.allocate_address] and [vfunc@MemoryResource.deallocate_address]. It works when made by bare `new`,
 * with the construct properties of this class.
 *
 * A resource written by a program belongs to the thread that made it, unless its class calls
 * [method@MemoryResourceClass.set_thread_safe]: allocating on another thread is refused, and memory that is released on
 * another one is given back by the main loop of the resource's thread, or by the next call on that thread that allocates
 * from the resource, closes one of its buffers, or is [func@reclaim]. It is never called from a finalizer, so what is
 * released when the program exits is not given back.
 *
 * A buffer keeps its resource: a resource that keeps its own buffers is a cycle that no garbage collector sees. The
 * library's own resources may be used from any thread.
 *
 * Since: 0.1
 */
typedef struct
{
  GCudaDevice *device;
  GCudaHome *home;
  gboolean device_accessible;
  gboolean host_accessible;
} GCudaMemoryResourcePrivate;

G_DEFINE_ABSTRACT_TYPE_WITH_PRIVATE (GCudaMemoryResource, gcuda_memory_resource, G_TYPE_OBJECT)

enum
{
  PROP_0,
  PROP_DEVICE,
  PROP_DEVICE_ACCESSIBLE,
  PROP_HOST_ACCESSIBLE,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

/*
 * The vfunc pairs that were declared thread-safe. The pointers are kept and not a mark on the class: a script that
 * subclasses such a class and overrides a vfunc is bound to its thread again.
 */
typedef struct
{
  gpointer allocate;
  gpointer deallocate;
  gpointer is_ordered;
} ThreadSafePair;

static GMutex thread_safe_lock;
static GArray *thread_safe_pairs;

static gboolean
is_thread_safe (GCudaMemoryResourceClass *klass)
{
  /* The default answer is any class's. */
  gboolean found_allocate = FALSE, found_deallocate = FALSE, found_is_ordered = klass->is_stream_ordered == NULL;

  /* Of the library's own only adaptors have vfuncs as well, which a subclass may have overridden. */
  if (klass->operations != NULL && klass->allocate_address == NULL)
    return TRUE;
  g_mutex_lock (&thread_safe_lock);
  for (guint i = 0; thread_safe_pairs != NULL && i < thread_safe_pairs->len; i++)
    {
      const ThreadSafePair *pair = &g_array_index (thread_safe_pairs, ThreadSafePair, i);

      found_allocate |= pair->allocate == (gpointer) klass->allocate_address;
      found_deallocate |= pair->deallocate == (gpointer) klass->deallocate_address;
      found_is_ordered |= pair->is_ordered == (gpointer) klass->is_stream_ordered;
    }
  g_mutex_unlock (&thread_safe_lock);
  return found_allocate && found_deallocate && found_is_ordered;
}

static void
gcuda_memory_resource_constructed (GObject *object)
{
  GCudaMemoryResource *self = GCUDA_MEMORY_RESOURCE (object);
  GCudaMemoryResourcePrivate *priv = gcuda_memory_resource_get_instance_private (self);

  G_OBJECT_CLASS (gcuda_memory_resource_parent_class)->constructed (object);

  if (!is_thread_safe (GCUDA_MEMORY_RESOURCE_GET_CLASS (self)))
    priv->home = _gcuda_home_new ();
}

static void
gcuda_memory_resource_finalize (GObject *object)
{
  GCudaMemoryResourcePrivate *priv = gcuda_memory_resource_get_instance_private (GCUDA_MEMORY_RESOURCE (object));

  g_clear_object (&priv->device);
  g_clear_pointer (&priv->home, _gcuda_home_unref);

  G_OBJECT_CLASS (gcuda_memory_resource_parent_class)->finalize (object);
}

static void
gcuda_memory_resource_get_property (GObject *object,
                                    guint id,
                                    GValue *value,
                                    GParamSpec *pspec)
{
  GCudaMemoryResourcePrivate *priv = gcuda_memory_resource_get_instance_private (GCUDA_MEMORY_RESOURCE (object));

  switch (id)
    {
    case PROP_DEVICE:
      g_value_set_object (value, priv->device);
      break;
    case PROP_DEVICE_ACCESSIBLE:
      g_value_set_boolean (value, priv->device_accessible);
      break;
    case PROP_HOST_ACCESSIBLE:
      g_value_set_boolean (value, priv->host_accessible);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gcuda_memory_resource_set_property (GObject *object,
                                    guint id,
                                    const GValue *value,
                                    GParamSpec *pspec)
{
  GCudaMemoryResourcePrivate *priv = gcuda_memory_resource_get_instance_private (GCUDA_MEMORY_RESOURCE (object));

  switch (id)
    {
    case PROP_DEVICE:
      g_set_object (&priv->device, g_value_get_object (value));
      break;
    case PROP_DEVICE_ACCESSIBLE:
      priv->device_accessible = g_value_get_boolean (value);
      break;
    case PROP_HOST_ACCESSIBLE:
      priv->host_accessible = g_value_get_boolean (value);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gcuda_memory_resource_class_init (GCudaMemoryResourceClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS;

  object_class->constructed = gcuda_memory_resource_constructed;
  object_class->finalize = gcuda_memory_resource_finalize;
  object_class->get_property = gcuda_memory_resource_get_property;
  object_class->set_property = gcuda_memory_resource_set_property;

  /**
   * GCudaMemoryResource:device: (getter get_device)
   *
   * The device that the memory belongs to, if it belongs to one.
   *
   * Since: 0.1
   */
  properties[PROP_DEVICE] = g_param_spec_object ("device", NULL, NULL, GCUDA_TYPE_DEVICE, flags);

  /**
   * GCudaMemoryResource:device-accessible: (getter is_device_accessible)
   *
   * Whether devices can use the memory.
   *
   * Since: 0.1
   */
  properties[PROP_DEVICE_ACCESSIBLE] = g_param_spec_boolean ("device-accessible", NULL, NULL, TRUE, flags);

  /**
   * GCudaMemoryResource:host-accessible: (getter is_host_accessible)
   *
   * Whether the processor can use the memory.
   *
   * Since: 0.1
   */
  properties[PROP_HOST_ACCESSIBLE] = g_param_spec_boolean ("host-accessible", NULL, NULL, FALSE, flags);

  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
gcuda_memory_resource_init (GCudaMemoryResource *self)
{
}

/**
 * gcuda_memory_resource_class_set_thread_safe: (skip)
 * @klass: the class, in its class_init
 *
 * Declares that the class's `allocate_address`, `deallocate_address` and `is_stream_ordered` may be called from any thread,
 * finalizers and threads of this library included. To be called at the end of class_init, when the vfuncs are set. A subclass that
 * overrides one of them has to say so again.
 *
 * Since: 0.1
 */
void
gcuda_memory_resource_class_set_thread_safe (GCudaMemoryResourceClass *klass)
{
  ThreadSafePair pair;

  g_return_if_fail (GCUDA_IS_MEMORY_RESOURCE_CLASS (klass));

  pair.allocate = (gpointer) klass->allocate_address;
  pair.deallocate = (gpointer) klass->deallocate_address;
  pair.is_ordered = (gpointer) klass->is_stream_ordered;
  g_mutex_lock (&thread_safe_lock);
  if (thread_safe_pairs == NULL)
    thread_safe_pairs = g_array_new (FALSE, FALSE, sizeof (ThreadSafePair));
  g_array_append_val (thread_safe_pairs, pair);
  g_mutex_unlock (&thread_safe_lock);
}

GCudaDevice *
_gcuda_memory_resource_peek_device (GCudaMemoryResource *self)
{
  GCudaMemoryResourcePrivate *priv = gcuda_memory_resource_get_instance_private (self);

  return priv->device;
}

GCudaHome *
_gcuda_memory_resource_get_home (GCudaMemoryResource *self)
{
  GCudaMemoryResourcePrivate *priv = gcuda_memory_resource_get_instance_private (self);

  return priv->home;
}

void
_gcuda_memory_resource_bind (GCudaMemoryResource *self)
{
  GCudaMemoryResourcePrivate *priv = gcuda_memory_resource_get_instance_private (self);

  if (priv->home == NULL)
    priv->home = _gcuda_home_new ();
}

void
_gcuda_memory_resource_share_home (GCudaMemoryResource *self,
                                   GCudaMemoryResource *other)
{
  GCudaMemoryResourcePrivate *priv = gcuda_memory_resource_get_instance_private (self);
  GCudaHome *home = _gcuda_memory_resource_get_home (other);

  if (priv->home == NULL && home != NULL)
    priv->home = _gcuda_home_ref (home);
}

void
_gcuda_memory_resource_take_after (GCudaMemoryResource *self,
                                   GCudaMemoryResource *other)
{
  GCudaMemoryResourcePrivate *priv = gcuda_memory_resource_get_instance_private (self);
  GCudaMemoryResourcePrivate *from = gcuda_memory_resource_get_instance_private (other);

  if (from->device != NULL)
    g_set_object (&priv->device, from->device);
  priv->device_accessible = from->device_accessible;
  priv->host_accessible = from->host_accessible;
}

gboolean
_gcuda_memory_resource_frees_in_order (GCudaMemoryResource *self)
{
  GCudaMemoryResourceClass *klass = GCUDA_MEMORY_RESOURCE_GET_CLASS (self);
  const GCudaResourceOperations *operations = _gcuda_memory_resource_operations (self);

  if (operations != NULL)
    return operations->stream_ordered;
  return klass->is_stream_ordered != NULL && klass->is_stream_ordered (self);
}

/**
 * gcuda_memory_resource_get_device: (get-property device)
 * @self: a memory resource
 *
 * The device that the memory belongs to. Any thread.
 *
 * Returns: (transfer none) (nullable): a device; %NULL if the memory belongs to none
 *
 * Since: 0.1
 */
GCudaDevice *
gcuda_memory_resource_get_device (GCudaMemoryResource *self)
{
  GCudaMemoryResourcePrivate *priv = gcuda_memory_resource_get_instance_private (self);

  g_return_val_if_fail (GCUDA_IS_MEMORY_RESOURCE (self), NULL);

  return priv->device;
}

/**
 * gcuda_memory_resource_is_device_accessible: (get-property device-accessible)
 * @self: a memory resource
 *
 * Whether devices can use the memory. Any thread.
 *
 * Returns: whether they can
 *
 * Since: 0.1
 */
gboolean
gcuda_memory_resource_is_device_accessible (GCudaMemoryResource *self)
{
  GCudaMemoryResourcePrivate *priv = gcuda_memory_resource_get_instance_private (self);

  g_return_val_if_fail (GCUDA_IS_MEMORY_RESOURCE (self), FALSE);

  return priv->device_accessible;
}

/**
 * gcuda_memory_resource_is_host_accessible: (get-property host-accessible)
 * @self: a memory resource
 *
 * Whether the processor can use the memory. Any thread.
 *
 * Returns: whether it can
 *
 * Since: 0.1
 */
gboolean
gcuda_memory_resource_is_host_accessible (GCudaMemoryResource *self)
{
  GCudaMemoryResourcePrivate *priv = gcuda_memory_resource_get_instance_private (self);

  g_return_val_if_fail (GCUDA_IS_MEMORY_RESOURCE (self), FALSE);

  return priv->host_accessible;
}

/**
 * GCudaMemoryResourceClass::allocate_address:
 * @self: a memory resource
 * @size: how many bytes, more than 0
 * @alignment: what the address has to be a multiple of, a power of two
 * @stream: the stream in whose order the memory will be used
 * @error: return location for an error
 *
 * Allocates memory. Called on the resource's thread, unless its class is thread-safe.
 *
 * Returns: the address; 0 with @error set. Without an error the caller gets `RESOURCE_FAILED`
 *
 * Since: 0.1
 */

/**
 * GCudaMemoryResourceClass::deallocate_address:
 * @self: a memory resource
 * @address: an address that the resource allocated
 * @size: the size it was allocated with
 * @alignment: the alignment it was allocated with
 * @stream: the stream of the deallocation recipe
 *
 * Gives memory back; once for each address. It can't fail: a resource that fails keeps the memory. Called on the resource's
 * thread, unless its class is thread-safe.
 *
 * Since: 0.1
 */

/**
 * GCudaMemoryResourceClass::is_stream_ordered:
 * @self: a memory resource
 *
 * Whether memory may be given back while work before this point of the stream still uses it. Asked once for each
 * allocation. By default it may not, and the library waits for the stream first.
 *
 * Returns: whether the resource frees in stream order
 *
 * Since: 0.1
 */

/* GCUDA_IS_MEMORY_RESOURCE (), by one comparison for that class of the library's own that the thread used last. */
static inline gboolean
is_memory_resource (GCudaMemoryResource *self)
{
  static GCUDA_THREAD_LOCAL gconstpointer last = NULL;

  if (G_LIKELY (self != NULL && last != NULL && ((GTypeInstance *) self)->g_class == last))
    return TRUE;
  if (!GCUDA_IS_MEMORY_RESOURCE (self))
    return FALSE;
  if (_gcuda_memory_resource_operations (self) != NULL)
    last = ((GTypeInstance *) self)->g_class;
  return TRUE;
}

gboolean
_gcuda_memory_resource_check (GCudaMemoryResource *self,
                              const char *what,
                              GError **error)
{
  const GCudaResourceOperations *operations = _gcuda_memory_resource_operations (self);

  if (operations == NULL || operations->check (self, error))
    return TRUE;
  g_prefix_error (error, "%s: ", what);
  return FALSE;
}

/* Whether a program's resource that is bound to a thread is used on that one. */
static gboolean
check_thread (GCudaMemoryResource *self,
              const char *what,
              GError **error)
{
  GCudaHome *home = _gcuda_memory_resource_get_home (self);

  if (home == NULL || _gcuda_home_is_here (home))
    return TRUE;
  return _gcuda_fail (error, GCUDA_ERROR_WRONG_THREAD,
                      "%s: %s can only be used on its own thread: its class, or that of a resource that it is built on, did not say that it is thread-safe", what, G_OBJECT_TYPE_NAME (self));
}

/* TRUE when @size can be a number of bytes at @address. */
static gboolean
check_size (guint64 address,
            guint64 size,
            const char *what,
            GError **error)
{
  if (size > G_MAXSIZE / 2 || address > G_MAXUINT64 - size)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: %" G_GUINT64_FORMAT " bytes are more than an address space holds", what, size);
  return TRUE;
}

/**
 * gcuda_memory_resource_allocate:
 * @self: a memory resource
 * @size: how many bytes
 * @stream: the stream in whose order the memory can be used, and is freed
 * @error: return location for an error
 *
 * Allocates a buffer. Its memory can be used by work on @stream, or after it; its deallocation recipe names @stream, see
 * [method@Buffer.set_deallocation_stream]. What the memory holds at first is undefined.
 *
 * For 0 bytes the buffer is valid and empty, its address is 0, and the driver is not called.
 *
 * Where memory is out, this waits up to a second for memory that was released and is about to be freed, and tries once
 * more. Any thread, for a resource of the library's own.
 *
 * Errors: `OUT_OF_MEMORY`; `INVALID_ARGUMENT` for no stream or a size no memory can have; `CAPTURING` for a stream that is
 * being captured, which stays valid, and `NOT_CAPTURING` for [class@GraphMemoryResource] on one that is not;
 * `CONTEXT_IS_DESTROYED` where others reset the device; `CLOSED`; `FORKED`; `WRONG_THREAD` and `RESOURCE_FAILED` for a resource
 * written by a program.
 *
 * Returns: (transfer full): a new buffer
 *
 * Since: 0.1
 */
GCudaBuffer *
gcuda_memory_resource_allocate (GCudaMemoryResource *self,
                                guint64 size,
                                GCudaStream *stream,
                                GError **error)
{
  static const char what[] = "allocating a buffer";
  GCudaStreamBox *box;
  CUdeviceptr address = 0;
  gboolean in_order;

  g_return_val_if_fail (is_memory_resource (self), NULL);

  box = _gcuda_stream_hold (stream, what, error);
  if (box == NULL)
    return NULL;
  /* Before a vfunc is asked. */
  if (!check_thread (self, what, error))
    {
      _gcuda_stream_box_unuse (box);
      return NULL;
    }
  in_order = _gcuda_memory_resource_frees_in_order (self);
  if (_gcuda_memory_resource_check (self, what, error) && check_size (0, size, what, error) &&
      (size == 0 || (_gcuda_allocation_reserve (box, in_order, error) &&
                     _gcuda_allocate (self, size, GCUDA_ALIGNMENT, stream, box, &address, error))))
    return _gcuda_buffer_new (_gcuda_allocation_new (self, address, size, in_order, box));
  _gcuda_stream_box_unuse (box);
  return NULL;
}

/**
 * gcuda_memory_resource_adopt_address:
 * @self: a memory resource
 * @address: an address that this resource allocated
 * @size: how many bytes
 * @stream: the stream on which to free the memory
 * @error: return location for an error
 *
 * Makes a buffer of memory that was allocated from this resource by way of its address. The buffer owns the memory from
 * then on. On failure it stays the caller's. Any thread, for a resource of the library's own.
 *
 * Errors: `INVALID_ARGUMENT` for address or size 0, one without the other, or no stream; `CLOSED`; `FORKED`;
 * `WRONG_THREAD`. That the memory is this resource's can't be checked.
 *
 * Returns: (transfer full): a new buffer
 *
 * Since: 0.1
 */
GCudaBuffer *
gcuda_memory_resource_adopt_address (GCudaMemoryResource *self,
                                     guint64 address,
                                     guint64 size,
                                     GCudaStream *stream,
                                     GError **error)
{
  static const char what[] = "adopting an address";
  GCudaStreamBox *box;
  gboolean in_order;

  g_return_val_if_fail (GCUDA_IS_MEMORY_RESOURCE (self), NULL);

  box = _gcuda_stream_hold (stream, what, error);
  if (box == NULL)
    return NULL;
  if (address == 0 || size == 0)
    _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: address 0x%" G_GINT64_MODIFIER "x with %" G_GUINT64_FORMAT " bytes is no memory", what, address, size);
  else if (check_thread (self, what, error) && _gcuda_memory_resource_check (self, what, error) && check_size (address, size, what, error))
    {
      in_order = _gcuda_memory_resource_frees_in_order (self);
      if (_gcuda_allocation_reserve (box, in_order, error))
        return _gcuda_buffer_new (_gcuda_allocation_new (self, address, size, in_order, box));
    }
  _gcuda_stream_box_unuse (box);
  return NULL;
}

static gboolean
check_alignment (guint64 *alignment,
                 const char *what,
                 GError **error)
{
  if (*alignment == 0)
    *alignment = GCUDA_ALIGNMENT;
  if ((*alignment & (*alignment - 1)) != 0)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: alignment %" G_GUINT64_FORMAT " is no power of two", what, *alignment);
  return TRUE;
}

static GCudaStreamBox *
note_stream (GCudaStream *stream,
             gboolean check_context,
             const char *what,
             gconstpointer **noted,
             GError **error)
{
  GCudaStreamBox *box = _gcuda_stream_note (stream, what, noted, error);

  if (G_UNLIKELY (box == NULL) || !check_context || _gcuda_context_box_check (box->context, error))
    return box;
  g_prefix_error (error, "%s: ", what);
  _gcuda_stream_drop (box, *noted);
  return NULL;
}

static inline guint64
allocate_address (GCudaMemoryResource *self,
                  guint64 size,
                  guint64 alignment,
                  GCudaStream *stream,
                  gboolean check_context,
                  GError **error)
{
  static const char what[] = "allocating an address";
  const GCudaResourceOperations *operations;
  gconstpointer *noted;
  GCudaStreamBox *box;
  CUdeviceptr address = 0;

  g_return_val_if_fail (is_memory_resource (self), 0);

  if (!check_alignment (&alignment, what, error) || !check_size (0, size, what, error))
    return 0;
  if (size == 0)
    {
      _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: 0 bytes have no address", what);
      return 0;
    }
  operations = _gcuda_memory_resource_operations (self);
  if (alignment > GCUDA_ALIGNMENT && operations != NULL && alignment > operations->alignment)
    {
      _gcuda_fail (error, GCUDA_ERROR_NOT_SUPPORTED, "%s: this resource aligns to %" G_GSIZE_FORMAT " bytes, not to %" G_GUINT64_FORMAT "; GCudaAlignedMemoryResource aligns its memory", what, MAX (operations->alignment, GCUDA_ALIGNMENT), alignment);
      return 0;
    }
  box = note_stream (stream, check_context, what, &noted, error);
  if (box == NULL)
    return 0;
  if (!check_thread (self, what, error) || !_gcuda_memory_resource_check (self, what, error) || !_gcuda_allocate (self, size, alignment, stream, box, &address, error))
    address = 0;
  _gcuda_stream_drop (box, noted);
  return address;
}

/**
 * gcuda_memory_resource_allocate_address:
 * @self: a memory resource
 * @size: how many bytes, at least 1
 * @alignment: what the address is a multiple of, a power of two; 0 for 256
 * @stream: the stream in whose order the memory can be used
 * @error: return location for an error
 *
 * Allocates memory without a buffer. The caller gives it back with [method@MemoryResource.deallocate_address], or makes a
 * buffer of it with [method@MemoryResource.adopt_address]. This is for code that allocates very often, and for resources that are
 * built on others. Any thread, for a resource of the library's own.
 *
 * This is the fast way, for code in C and Vala that allocates very often: it does not ask whether the stream's context was reset
 * or destroyed by others meanwhile, after which a driver crashes the process. Where that may happen, and what scripts call, is
 * [method@MemoryResource.allocate_address_checked].
 *
 * Errors: as [method@MemoryResource.allocate]; `INVALID_ARGUMENT` for size 0 or a bad alignment; `NOT_SUPPORTED` for an
 * alignment above 256 where the resource can't give it.
 *
 * Returns: the address; 0 with @error set
 *
 * Since: 0.1
 */
guint64
gcuda_memory_resource_allocate_address (GCudaMemoryResource *self,
                                        guint64 size,
                                        guint64 alignment,
                                        GCudaStream *stream,
                                        GError **error)
{
  return allocate_address (self, size, alignment, stream, FALSE, error);
}

/**
 * gcuda_memory_resource_allocate_address_checked: (rename-to gcuda_memory_resource_allocate_address)
 * @self: a memory resource
 * @size: how many bytes, at least 1
 * @alignment: what the address is a multiple of, a power of two; 0 for 256
 * @stream: the stream in whose order the memory can be used
 * @error: return location for an error
 *
 * Allocates memory without a buffer. The caller gives it back with [method@MemoryResource.deallocate_address], or makes a
 * buffer of it with [method@MemoryResource.adopt_address]. This is for resources that are built on others. Any thread, for a
 * resource of the library's own.
 *
 * In C and Vala this is [method@MemoryResource.allocate_address] that looks whether the stream's context is still there.
 *
 * Errors: as [method@MemoryResource.allocate]; `CONTEXT_IS_DESTROYED`; `INVALID_ARGUMENT` for size 0 or a bad alignment;
 * `NOT_SUPPORTED` for an alignment above 256 where the resource can't give it.
 *
 * Returns: the address; 0 with @error set
 *
 * Since: 0.1
 */
guint64
gcuda_memory_resource_allocate_address_checked (GCudaMemoryResource *self,
                                                guint64 size,
                                                guint64 alignment,
                                                GCudaStream *stream,
                                                GError **error)
{
  return allocate_address (self, size, alignment, stream, TRUE, error);
}

static inline gboolean
deallocate_address (GCudaMemoryResource *self,
                    guint64 address,
                    guint64 size,
                    guint64 alignment,
                    GCudaStream *stream,
                    gboolean check_context,
                    GError **error)
{
  static const char what[] = "freeing an address";
  GCudaContextScope scope = { FALSE };
  gconstpointer *noted;
  GCudaStreamBox *box;
  CUresult result = CUDA_SUCCESS;

  g_return_val_if_fail (is_memory_resource (self), FALSE);

  if (address == 0)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: 0 is no address", what);
  if (!check_alignment (&alignment, what, error) || !_gcuda_memory_resource_check (self, what, error))
    return FALSE;
  if (!check_thread (self, what, error))
    return FALSE;
  if (_gcuda_memory_resource_operations (self) == NULL && GCUDA_MEMORY_RESOURCE_GET_CLASS (self)->deallocate_address == NULL)
    return _gcuda_fail (error, GCUDA_ERROR_RESOURCE_FAILED, "%s implements no deallocate_address", G_OBJECT_TYPE_NAME (self));
  box = note_stream (stream, check_context, what, &noted, error);
  if (box == NULL)
    return FALSE;
  if (_gcuda_stream_box_is_default (box))
    result = _gcuda_context_scope_enter (&scope, box->context->handle);
  if (G_UNLIKELY (result != CUDA_SUCCESS))
    {
      _gcuda_stream_drop (box, noted);
      return _gcuda_fail_driver (error, result, "%s: making the context of the default stream current", what);
    }
  result = _gcuda_free_address (self, address, size, alignment, box, box->handle, stream);
  /* Once it is freed, to say that it failed, whatever comes now, would have the caller free it again. */
  _gcuda_context_scope_leave (&scope);
  _gcuda_stream_drop (box, noted);
  return G_LIKELY (result == CUDA_SUCCESS) || _gcuda_fail_driver (error, result, "%s", what);
}

/**
 * gcuda_memory_resource_deallocate_address:
 * @self: a memory resource
 * @address: an address that the resource allocated
 * @size: the size it was allocated with
 * @alignment: the alignment it was allocated with
 * @stream: the stream in whose order to free it
 * @error: return location for an error, or %NULL
 *
 * Gives memory back that has no buffer, in the order of @stream. There is no recipe: the caller gives the stream, and gets
 * the error. A resource that does not free in stream order frees at once: then the caller has to see to it that the work on
 * the memory is done. Any thread, for a resource of the library's own.
 *
 * This is the fast way, for code in C and Vala that allocates very often: it does not ask whether the stream's context was reset
 * or destroyed by others meanwhile, after which a driver crashes the process. Where that may happen, and what scripts call, is
 * [method@MemoryResource.deallocate_address_checked].
 *
 * Errors: `INVALID_ARGUMENT` for address 0 or no stream; `INVALID_VALUE` for memory that the driver does not know;
 * `CLOSED`; `FORKED`; `WRONG_THREAD`.
 *
 * Returns: %TRUE, or %FALSE with @error set, and then the memory is still the caller's
 *
 * Since: 0.1
 */
gboolean
gcuda_memory_resource_deallocate_address (GCudaMemoryResource *self,
                                          guint64 address,
                                          guint64 size,
                                          guint64 alignment,
                                          GCudaStream *stream,
                                          GError **error)
{
  return deallocate_address (self, address, size, alignment, stream, FALSE, error);
}

/**
 * gcuda_memory_resource_deallocate_address_checked: (rename-to gcuda_memory_resource_deallocate_address)
 * @self: a memory resource
 * @address: an address that the resource allocated
 * @size: the size it was allocated with
 * @alignment: the alignment it was allocated with
 * @stream: the stream in whose order to free it
 * @error: return location for an error, or %NULL
 *
 * Gives memory back that has no buffer, in the order of @stream. There is no recipe: the caller gives the stream, and gets
 * the error. A resource that does not free in stream order frees at once: then the caller has to see to it that the work on
 * the memory is done. Any thread, for a resource of the library's own.
 *
 * In C and Vala this is [method@MemoryResource.deallocate_address] that looks whether the stream's context is still there.
 *
 * Errors: `INVALID_ARGUMENT` for address 0 or no stream; `INVALID_VALUE` for memory that the driver does not know;
 * `CONTEXT_IS_DESTROYED`; `CLOSED`; `FORKED`; `WRONG_THREAD`.
 *
 * Returns: %TRUE, or %FALSE with @error set, and then the memory is still the caller's
 *
 * Since: 0.1
 */
gboolean
gcuda_memory_resource_deallocate_address_checked (GCudaMemoryResource *self,
                                                  guint64 address,
                                                  guint64 size,
                                                  guint64 alignment,
                                                  GCudaStream *stream,
                                                  GError **error)
{
  return deallocate_address (self, address, size, alignment, stream, TRUE, error);
}
