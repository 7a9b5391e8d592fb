/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-virtual-memory-options-private.h"

/**
 * GCudaVirtualMemoryOptions:
 *
 * What a [class@VirtualMemoryResource] is made with.
 *
 * Options are only kept here: [ctor@VirtualMemoryResource.new] checks them, and says what is wrong. A resource takes a copy;
 * changing the options later does nothing to it. One thread at a time.
 *
 * Since: 0.1
 */

G_DEFINE_BOXED_TYPE (GCudaVirtualMemoryOptions, gcuda_virtual_memory_options, gcuda_virtual_memory_options_copy, gcuda_virtual_memory_options_free)

static void
peer_clear (gpointer data)
{
  g_clear_object (&((GCudaVirtualPeer *) data)->device);
}

/* Whatever a caller gives: what is no device is NULL, and refused when a resource is made. */
static GCudaDevice *
device_ref (GCudaDevice *device)
{
  return GCUDA_IS_DEVICE (device) ? g_object_ref (device) : NULL;
}

static void
device_unref (gpointer device)
{
  if (device != NULL)
    g_object_unref (device);
}

static void
set_devices (GCudaVirtualMemoryOptions *self,
             GCudaDevice *const *devices,
             gsize n_devices)
{
  self->devices = g_ptr_array_new_with_free_func (device_unref);
  for (gsize i = 0; i < n_devices; i++)
    g_ptr_array_add (self->devices, device_ref (devices[i]));
}

/**
 * gcuda_virtual_memory_options_new:
 *
 * Makes options that ask for nothing special: memory on the device, which reads and writes it, no headroom, no sharing, no
 * cache.
 *
 * Returns: (transfer full): new options
 *
 * Since: 0.1
 */
GCudaVirtualMemoryOptions *
gcuda_virtual_memory_options_new (void)
{
  GCudaVirtualMemoryOptions *self = g_new0 (GCudaVirtualMemoryOptions, 1);

  self->access = GCUDA_MEMORY_ACCESS_READ_WRITE;
  self->peers = g_array_new (FALSE, FALSE, sizeof (GCudaVirtualPeer));
  g_array_set_clear_func (self->peers, peer_clear);
  set_devices (self, NULL, 0);
  return self;
}

/**
 * gcuda_virtual_memory_options_copy:
 * @self: options
 *
 * Copies options.
 *
 * Returns: (transfer full): new options
 *
 * Since: 0.1
 */
GCudaVirtualMemoryOptions *
gcuda_virtual_memory_options_copy (const GCudaVirtualMemoryOptions *self)
{
  GCudaVirtualMemoryOptions *copy;

  g_return_val_if_fail (self != NULL, NULL);

  copy = g_memdup2 (self, sizeof *self);
  copy->peers = g_array_new (FALSE, FALSE, sizeof (GCudaVirtualPeer));
  g_array_set_clear_func (copy->peers, peer_clear);
  for (guint i = 0; i < self->peers->len; i++)
    {
      const GCudaVirtualPeer *peer = &g_array_index (self->peers, GCudaVirtualPeer, i);

      gcuda_virtual_memory_options_add_peer (copy, peer->device, peer->access);
    }
  set_devices (copy, (GCudaDevice **) self->devices->pdata, self->devices->len);
  return copy;
}

/**
 * gcuda_virtual_memory_options_free:
 * @self: options
 *
 * Frees options.
 *
 * Since: 0.1
 */
void
gcuda_virtual_memory_options_free (GCudaVirtualMemoryOptions *self)
{
  g_return_if_fail (self != NULL);

  g_array_unref (self->peers);
  g_ptr_array_unref (self->devices);
  g_free (self);
}

/**
 * gcuda_virtual_memory_options_set_location:
 * @self: options
 * @location: where the memory is
 * @node: the NUMA node, for `HOST_NUMA`; ignored for the others
 *
 * Sets where physical memory is; on the device by default. Memory of the host can be used by the processor as well.
 * `HOST_NUMA_CURRENT` is a place of managed memory only, and refused where a resource is made.
 *
 * Since: 0.1
 */
void
gcuda_virtual_memory_options_set_location (GCudaVirtualMemoryOptions *self,
                                           GCudaMemoryLocation location,
                                           int node)
{
  g_return_if_fail (self != NULL);

  self->location = location;
  self->node = node;
}

/**
 * gcuda_virtual_memory_options_set_max_size:
 * @self: options
 * @max_size: how many bytes, or 0
 *
 * Sets how many bytes of addresses an allocation gets at least, however small it is: within these it grows in place.
 * Addresses cost next to nothing. 0, the default, is as many as the memory needs.
 *
 * Since: 0.1
 */
void
gcuda_virtual_memory_options_set_max_size (GCudaVirtualMemoryOptions *self,
                                           guint64 max_size)
{
  g_return_if_fail (self != NULL);

  self->max_size = max_size;
}

/**
 * gcuda_virtual_memory_options_set_chunk_size:
 * @self: options
 * @chunk_size: how many bytes, or 0
 *
 * Sets the size of the chunks that physical memory is made of. It is rounded up to the granularity of the device, and
 * becomes that of the resource: memory is made, and can be taken away, in multiples of it.
 *
 * With 0, the default, each call makes its memory in as few chunks as it can, which is the cheapest; but a chunk is taken
 * away as a whole or not at all.
 *
 * Since: 0.1
 */
void
gcuda_virtual_memory_options_set_chunk_size (GCudaVirtualMemoryOptions *self,
                                             guint64 chunk_size)
{
  g_return_if_fail (self != NULL);

  self->chunk_size = chunk_size;
}

/**
 * gcuda_virtual_memory_options_set_alignment:
 * @self: options
 * @alignment: a power of two, or 0 for the granularity
 *
 * Sets what the address of an allocation is a multiple of.
 *
 * Since: 0.1
 */
void
gcuda_virtual_memory_options_set_alignment (GCudaVirtualMemoryOptions *self,
                                            guint64 alignment)
{
  g_return_if_fail (self != NULL);

  self->alignment = alignment;
}

/**
 * gcuda_virtual_memory_options_set_handle_types:
 * @self: options
 * @handle_types: how memory can be shared with other processes
 *
 * Sets how the chunks can be shared with other processes; not at all by default.
 *
 * Since: 0.1
 */
void
gcuda_virtual_memory_options_set_handle_types (GCudaVirtualMemoryOptions *self,
                                               GCudaHandleTypes handle_types)
{
  g_return_if_fail (self != NULL);

  self->handle_types = handle_types;
}

/**
 * gcuda_virtual_memory_options_set_access:
 * @self: options
 * @access: what the device of the resource may do
 *
 * Sets what the device of the resource may do to the memory, and for memory of the host the processor; reading and writing
 * by default.
 *
 * Since: 0.1
 */
void
gcuda_virtual_memory_options_set_access (GCudaVirtualMemoryOptions *self,
                                         GCudaMemoryAccess access)
{
  g_return_if_fail (self != NULL);

  self->access = access;
}

/**
 * gcuda_virtual_memory_options_add_peer:
 * @self: options
 * @peer: another device
 * @access: what it may do
 *
 * Lets another device use the memory. The last call for a device is what counts.
 *
 * Since: 0.1
 */
void
gcuda_virtual_memory_options_add_peer (GCudaVirtualMemoryOptions *self,
                                       GCudaDevice *peer,
                                       GCudaMemoryAccess access)
{
  g_return_if_fail (self != NULL);

  for (guint i = 0; i < self->peers->len; i++)
    if (g_array_index (self->peers, GCudaVirtualPeer, i).device == peer)
      {
        g_array_index (self->peers, GCudaVirtualPeer, i).access = access;
        return;
      }
  {
    GCudaVirtualPeer added = { device_ref (peer), access };

    g_array_append_val (self->peers, added);
  }
}

/**
 * gcuda_virtual_memory_options_set_placement:
 * @self: options
 * @devices: (array length=n_devices) (nullable): devices
 * @n_devices: how many; 0 for the device of the resource alone
 * @placement: how memory is spread over them
 *
 * Spreads the memory of each allocation over several devices. Its addresses are one range all the same, and each of the
 * devices may do to all of it what the device of the resource may.
 *
 * Since: 0.1
 */
void
gcuda_virtual_memory_options_set_placement (GCudaVirtualMemoryOptions *self,
                                            GCudaDevice **devices,
                                            gsize n_devices,
                                            GCudaMemoryPlacement placement)
{
  g_return_if_fail (self != NULL);

  g_ptr_array_unref (self->devices);
  set_devices (self, devices, n_devices);
  self->placement = placement;
}

/**
 * gcuda_virtual_memory_options_set_gpu_direct_rdma:
 * @self: options
 * @gpu_direct_rdma: whether other hardware may reach the memory
 *
 * Makes memory that network adapters and other hardware can reach by GPUDirect RDMA.
 *
 * Since: 0.1
 */
void
gcuda_virtual_memory_options_set_gpu_direct_rdma (GCudaVirtualMemoryOptions *self,
                                                  gboolean gpu_direct_rdma)
{
  g_return_if_fail (self != NULL);

  self->gpu_direct_rdma = gpu_direct_rdma;
}

/**
 * gcuda_virtual_memory_options_set_cache_size:
 * @self: options
 * @cache_size: how many bytes, or 0 for none
 *
 * Sets how many bytes of memory that is not in use are kept for later allocations of the same size. A buffer that was never
 * resized is kept with its addresses, and the next one like it needs no driver call; of others the chunks are kept.
 * [method@VirtualMemoryResource.trim] gives them back, and so does running out of memory, or a new peer.
 *
 * Since: 0.1
 */
void
gcuda_virtual_memory_options_set_cache_size (GCudaVirtualMemoryOptions *self,
                                             guint64 cache_size)
{
  g_return_if_fail (self != NULL);

  self->cache_size = cache_size;
}
