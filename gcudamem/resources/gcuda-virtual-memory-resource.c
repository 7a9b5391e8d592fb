/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-virtual-memory-resource.h"

#include "gcuda-virtual-memory-options-private.h"
#include "gcuda-virtual-range-private.h"
#include "memory/gcuda-buffer-private.h"
#include "memory/gcuda-location-private.h"

/* Newer than the oldest headers. */
#define HOST_NUMA_SUPPORTED ((CUdevice_attribute) 141)
#define HOST_SUPPORTED      ((CUdevice_attribute) 145)

/**
 * GCudaVirtualMemoryResource:
 *
 * Memory whose addresses and physical memory are managed apart.
 *
 * A buffer of this resource can grow and shrink, as the same object. [method@VirtualMemoryResource.resize] maps more
 * physical memory behind what there is, or, if the addresses there are taken, maps what there is at other ones: nothing is
 * copied. [method@VirtualMemoryResource.reserve] makes a buffer of addresses alone, parts of which get memory and lose it
 * again by [method@VirtualMemoryResource.commit] and [method@VirtualMemoryResource.decommit].
 *
 * Memory can be used on any stream at once. It is not freed in stream order: a thread of this library unmaps it when the
 * recipe's stream has passed, so that neither closing nor dropping a buffer waits. What a resize takes away is unmapped when
 * the stream of that call has passed.
 *
 * Physical memory comes in chunks, in multiples of [method@VirtualMemoryResource.get_granularity], each of which is taken
 * away as a whole. See [struct@VirtualMemoryOptions] for what can be chosen. What memory holds at first is undefined.
 *
 * Any thread. Calls on one buffer wait for each other.
 *
 * Since: 0.1
 */
struct _GCudaVirtualMemoryResource
{
  GCudaMemoryResource parent_instance;

  GCudaVirtualSpace *space; /* NULL for an object made by bare new */
};

G_DEFINE_FINAL_TYPE (GCudaVirtualMemoryResource, gcuda_virtual_memory_resource, GCUDA_TYPE_MEMORY_RESOURCE)

/* TRUE, and @rounded, unless that would be more than an address space. */
static gboolean
round_up (GCudaVirtualSpace *space,
          gsize size,
          gsize *rounded)
{
  const gsize rest = size % space->granularity;

  if (size > G_MAXSIZE / 2)
    return FALSE;
  *rounded = rest != 0 ? size + (space->granularity - rest) : size;
  return *rounded <= G_MAXSIZE / 2;
}

/* Operations */

static gboolean
virtual_check (GCudaMemoryResource *resource,
               GError **error)
{
  GCudaVirtualMemoryResource *self = GCUDA_VIRTUAL_MEMORY_RESOURCE (resource);

  if (self->space == NULL)
    return _gcuda_fail (error, GCUDA_ERROR_CLOSED, "this memory resource was not made by gcuda_virtual_memory_resource_new ()");
  /* The memory belongs to no context: it works on, also after the device's was reset. */
  return _gcuda_driver_check (error);
}

static char *
virtual_describe (GCudaMemoryResource *resource)
{
  GCudaVirtualMemoryResource *self = GCUDA_VIRTUAL_MEMORY_RESOURCE (resource);

  return g_strdup_printf ("the virtual memory of device %d", (int) self->space->context->device);
}

static CUresult
virtual_allocate (GCudaMemoryResource *resource,
                  gsize size,
                  GCudaStreamCall *call,
                  CUdeviceptr *address)
{
  GCudaVirtualMemoryResource *self = GCUDA_VIRTUAL_MEMORY_RESOURCE (resource);
  gsize rounded;

  if (!round_up (self->space, size, &rounded))
    return CUDA_ERROR_OUT_OF_MEMORY;
  return _gcuda_virtual_space_allocate (self->space, rounded, TRUE, address);
}

static CUresult
virtual_deallocate (GCudaMemoryResource *resource,
                    GCudaStreamBox *box,
                    CUdeviceptr address,
                    gsize size,
                    CUstream handle)
{
  return _gcuda_virtual_space_free (GCUDA_VIRTUAL_MEMORY_RESOURCE (resource)->space, address);
}

/* Virtual memory belongs to no context. */
static CUresult
virtual_deallocate_gone (GCudaMemoryResource *resource,
                         CUdeviceptr address,
                         gsize size)
{
  return virtual_deallocate (resource, NULL, address, size, NULL);
}

static gboolean
virtual_has_memory (GCudaMemoryResource *resource,
                    CUdeviceptr base,
                    gsize offset,
                    gsize size)
{
  return _gcuda_virtual_range_covers (GCUDA_VIRTUAL_MEMORY_RESOURCE (resource)->space, base, offset, offset + size);
}

#define VIRTUAL_OPERATIONS                    \
  .stream_ordered = FALSE,                    \
  .free_call = "cuMemUnmap",                  \
  .spans = TRUE,                              \
  .check = virtual_check,                     \
  .describe = virtual_describe,               \
  .allocate = virtual_allocate,               \
  .deallocate = virtual_deallocate,           \
  .deallocate_gone = virtual_deallocate_gone, \
  .has_memory = virtual_has_memory

static const GCudaResourceOperations device_operations = { VIRTUAL_OPERATIONS };
static const GCudaResourceOperations host_operations = { VIRTUAL_OPERATIONS, .on_host = TRUE };

static const GCudaResourceOperations *
virtual_select (GCudaMemoryResource *resource)
{
  const GCudaVirtualMemoryResource *self = GCUDA_VIRTUAL_MEMORY_RESOURCE (resource);

  if (self->space != NULL && g_array_index (self->space->places, CUmemLocation, 0).type != CU_MEM_LOCATION_TYPE_DEVICE)
    return &host_operations;
  return &device_operations;
}

static const GCudaResourceOperations operations = { .select = virtual_select };

static void
gcuda_virtual_memory_resource_finalize (GObject *object)
{
  GCudaVirtualMemoryResource *self = GCUDA_VIRTUAL_MEMORY_RESOURCE (object);

  g_clear_pointer (&self->space, _gcuda_virtual_space_unref);

  G_OBJECT_CLASS (gcuda_virtual_memory_resource_parent_class)->finalize (object);
}

static void
gcuda_virtual_memory_resource_class_init (GCudaVirtualMemoryResourceClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = gcuda_virtual_memory_resource_finalize;
  GCUDA_MEMORY_RESOURCE_CLASS (klass)->operations = &operations;
}

static void
gcuda_virtual_memory_resource_init (GCudaVirtualMemoryResource *self)
{
}

/* Making resources */

static gboolean
check_access (GCudaMemoryAccess access,
              const char *what,
              GError **error)
{
  if ((int) access >= GCUDA_MEMORY_ACCESS_NONE && access <= GCUDA_MEMORY_ACCESS_READ_WRITE)
    return TRUE;
  return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: %d is no access", what, (int) access);
}

/* What can be said of options without a driver. */
static gboolean
check_options (const GCudaVirtualMemoryOptions *options,
               const char *what,
               GError **error)
{
  if (options->location == GCUDA_MEMORY_LOCATION_HOST_NUMA_CURRENT)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: the NUMA node of the calling thread is a place of managed memory only; name the node", what);
  if ((int) options->location < GCUDA_MEMORY_LOCATION_DEVICE || options->location > GCUDA_MEMORY_LOCATION_HOST_NUMA)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: %d is no location", what, (int) options->location);
  if (options->location == GCUDA_MEMORY_LOCATION_HOST_NUMA && options->node < 0)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: %d is no NUMA node", what, options->node);
  if (options->max_size > G_MAXSIZE / 4 || options->chunk_size > G_MAXSIZE / 4 || options->cache_size > G_MAXSIZE / 2)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: a size in the options is more than an address space holds", what);
  if ((options->alignment & (options->alignment - 1)) != 0 || options->alignment > G_MAXSIZE / 4)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: alignment %" G_GUINT64_FORMAT " is no power of two, or too large a one", what, options->alignment);
  if ((options->handle_types & ~(GCUDA_HANDLE_TYPES_POSIX_FD | GCUDA_HANDLE_TYPES_FABRIC)) != 0)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: unknown handle types 0x%x", what, (unsigned int) options->handle_types);
  if ((int) options->placement < GCUDA_MEMORY_PLACEMENT_BLOCKED || options->placement > GCUDA_MEMORY_PLACEMENT_ROUND_ROBIN)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: %d is no placement", what, (int) options->placement);
  if (options->devices->len > 0 && options->location != GCUDA_MEMORY_LOCATION_DEVICE)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: memory of the host is not placed on devices", what);
  if (!check_access (options->access, what, error))
    return FALSE;
  for (guint i = 0; i < options->peers->len; i++)
    if (!check_access (g_array_index (options->peers, GCudaVirtualPeer, i).access, what, error))
      return FALSE;
  return TRUE;
}

static gboolean
require (CUdevice device,
         CUdevice_attribute attribute,
         const char *name,
         const char *what,
         GError **error)
{
  int supported = 0;
  CUresult result = _gcuda_driver.DeviceGetAttribute (&supported, attribute, device);

  /* A driver that does not know the question does not know the thing. */
  if (result == CUDA_ERROR_INVALID_VALUE)
    supported = 0;
  else if (result != CUDA_SUCCESS)
    return _gcuda_fail_driver (error, result, "%s: asking device %d for CU_DEVICE_ATTRIBUTE_%s", what, (int) device, name);
  if (supported)
    return TRUE;
  return _gcuda_fail (error, GCUDA_ERROR_NOT_SUPPORTED, "%s: device %d can't do that (CU_DEVICE_ATTRIBUTE_%s is 0)", what, (int) device, name);
}

static gboolean
require_peer (CUdevice device,
              CUdevice owner,
              const char *what,
              GError **error)
{
  int can = 0;
  CUresult result;

  if (device == owner)
    return TRUE;
  result = _gcuda_driver.DeviceCanAccessPeer (&can, device, owner);
  if (result != CUDA_SUCCESS)
    return _gcuda_fail_driver (error, result, "%s: asking whether device %d can reach the memory of device %d", what, (int) device, (int) owner);
  if (can)
    return TRUE;
  return _gcuda_fail (error, GCUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "%s: device %d can't reach the memory of device %d (CUDA_ERROR_PEER_ACCESS_UNSUPPORTED)", what, (int) device, (int) owner);
}

static CUmemAccess_flags
driver_access (GCudaMemoryAccess access)
{
  switch (access)
    {
    case GCUDA_MEMORY_ACCESS_READ:
      return CU_MEM_ACCESS_FLAGS_PROT_READ;
    case GCUDA_MEMORY_ACCESS_READ_WRITE:
      return CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    case GCUDA_MEMORY_ACCESS_NONE:
    default:
      return CU_MEM_ACCESS_FLAGS_PROT_NONE;
    }
}

/* The rights of a device, if it can have any: each place of the memory has to be in its reach. */
static gboolean
describe_access (GCudaVirtualSpace *space,
                 GCudaDevice *device,
                 GCudaMemoryAccess access,
                 CUmemAccessDesc *description,
                 const char *what,
                 GError **error)
{
  CUdevice number;

  if (!check_access (access, what, error) || !_gcuda_device_check (device, what, &number, error))
    return FALSE;
  if (access == GCUDA_MEMORY_ACCESS_NONE && number == space->context->device)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: the access of the resource's own device can't be taken away", what);
  if (!require (number, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, "VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED", what, error))
    return FALSE;
  for (guint i = 0; i < space->places->len; i++)
    {
      const CUmemLocation *place = &g_array_index (space->places, CUmemLocation, i);

      if (place->type == CU_MEM_LOCATION_TYPE_DEVICE && !require_peer (number, place->id, what, error))
        return FALSE;
    }
  *description = (CUmemAccessDesc){
    .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = number },
    .flags = driver_access (access),
  };
  return TRUE;
}

/* Places, properties, granularity and rights, by what the options say and the devices can. */
static gboolean
space_set_up (GCudaVirtualSpace *space,
              GCudaDevice *device,
              const GCudaVirtualMemoryOptions *options,
              const char *what,
              GError **error)
{
  const CUdevice own = space->context->device;
  CUmemLocation place = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = own };
  CUmemAccessDesc access;

  if (!require (own, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, "VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED", what, error))
    return FALSE;
  switch (options->location)
    {
    case GCUDA_MEMORY_LOCATION_HOST:
      if (!require (own, HOST_SUPPORTED, "HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED", what, error))
        return FALSE;
      place.type = (CUmemLocationType) CU_MEM_LOCATION_TYPE_HOST;
      place.id = 0;
      break;
    case GCUDA_MEMORY_LOCATION_HOST_NUMA:
      if (!require (own, HOST_NUMA_SUPPORTED, "HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED", what, error))
        return FALSE;
      if (!_gcuda_numa_node_may_exist (options->node))
        return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: the host has no NUMA node %d", what, options->node);
      place.type = (CUmemLocationType) CU_MEM_LOCATION_TYPE_HOST_NUMA;
      place.id = options->node;
      break;
    case GCUDA_MEMORY_LOCATION_DEVICE:
    default:
      break;
    }
  if ((options->handle_types & GCUDA_HANDLE_TYPES_POSIX_FD) != 0 &&
      !require (own, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, "HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED", what, error))
    return FALSE;
  if ((options->handle_types & GCUDA_HANDLE_TYPES_FABRIC) != 0 &&
      !require (own, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, "HANDLE_TYPE_FABRIC_SUPPORTED", what, error))
    return FALSE;
  if (options->gpu_direct_rdma &&
      !require (own, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, "GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED", what, error))
    return FALSE;

  space->properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  space->properties.requestedHandleTypes = (CUmemAllocationHandleType) options->handle_types;
  space->properties.allocFlags.gpuDirectRDMACapable = options->gpu_direct_rdma;
  if (options->devices->len == 0)
    g_array_append_val (space->places, place);
  for (guint i = 0; i < options->devices->len; i++)
    {
      CUdevice number;

      if (!_gcuda_device_check (g_ptr_array_index (options->devices, i), what, &number, error))
        return FALSE;
      place.id = number;
      g_array_append_val (space->places, place);
    }
  space->placement = options->placement;

  /* All granularities are powers of two. */
  for (guint i = 0; i < space->places->len; i++)
    {
      CUmemAllocationProp properties = space->properties;
      size_t granularity = 0;
      CUresult result;

      properties.location = g_array_index (space->places, CUmemLocation, i);
      result = _gcuda_driver.MemGetAllocationGranularity (&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
      if (result != CUDA_SUCCESS)
        return _gcuda_fail_driver (error, result, "%s: asking for the granularity of its memory", what);
      space->granularity = MAX (space->granularity, granularity);
    }
  space->units = options->chunk_size > 0;
  if (space->units)
    {
      gsize rounded;

      if (!round_up (space, options->chunk_size, &rounded))
        return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: chunks of %" G_GUINT64_FORMAT " bytes are more than an address space holds", what, options->chunk_size);
      space->granularity = rounded;
    }
  if (!round_up (space, options->max_size, &space->max_size))
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: %" G_GUINT64_FORMAT " bytes of addresses are more than an address space holds", what, options->max_size);
  space->alignment = options->alignment;
  space->cache_size = options->cache_size;

  if (!describe_access (space, device, options->access, &access, what, error))
    return FALSE;
  _gcuda_virtual_access_put (space->access, &access);
  if (options->location != GCUDA_MEMORY_LOCATION_DEVICE)
    {
      access.location = place;
      _gcuda_virtual_access_put (space->access, &access);
    }
  for (guint i = 0; i < options->devices->len; i++)
    {
      if (!describe_access (space, g_ptr_array_index (options->devices, i), options->access, &access, what, error))
        return FALSE;
      _gcuda_virtual_access_put (space->access, &access);
    }
  for (guint i = 0; i < options->peers->len; i++)
    {
      const GCudaVirtualPeer *peer = &g_array_index (options->peers, GCudaVirtualPeer, i);

      if (!describe_access (space, peer->device, peer->access, &access, what, error))
        return FALSE;
      _gcuda_virtual_access_put (space->access, &access);
    }
  return TRUE;
}

/**
 * gcuda_virtual_memory_resource_new:
 * @device: a device
 * @options: (nullable): what to ask for, or %NULL for nothing special
 * @error: return location for an error
 *
 * Makes a resource for virtual memory. Allocating makes no memory before it is needed; nothing is kept but what the options
 * say. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for no device, or options that can't be; `NOT_SUPPORTED` for what the device or the driver lacks,
 * with the name of the device attribute; `PEER_ACCESS_UNSUPPORTED`; what the driver answers; as
 * [method@Device.get_primary_context].
 *
 * Returns: (transfer full): a new memory resource
 *
 * Since: 0.1
 */
GCudaVirtualMemoryResource *
gcuda_virtual_memory_resource_new (GCudaDevice *device,
                                   const GCudaVirtualMemoryOptions *options,
                                   GError **error)
{
  static const char what[] = "making a virtual memory resource";
  g_autoptr (GCudaVirtualMemoryOptions) defaults = NULL;
  g_autoptr (GCudaContext) context = NULL;
  GCudaVirtualMemoryResource *self;
  GCudaVirtualSpace *space;
  GCudaContextBox *box;
  gboolean on_host;
  CUdevice number;

  if (options == NULL)
    options = defaults = gcuda_virtual_memory_options_new ();
  if (!_gcuda_device_check (device, what, &number, error) || !check_options (options, what, error))
    return NULL;
  if (!_gcuda_driver_has (GCUDA_DRIVER_GROUP_VIRTUAL))
    {
      _gcuda_fail (error, GCUDA_ERROR_NOT_SUPPORTED, "%s: this driver has no virtual memory management", what);
      return NULL;
    }
  context = gcuda_device_get_primary_context (device, error);
  box = context != NULL ? _gcuda_context_hold (context, what, error) : NULL;
  if (box == NULL)
    return NULL;
  space = _gcuda_virtual_space_new (box);
  if (!space_set_up (space, device, options, what, error))
    {
      _gcuda_virtual_space_unref (space);
      return NULL;
    }
  on_host = options->location != GCUDA_MEMORY_LOCATION_DEVICE;
  self = g_object_new (GCUDA_TYPE_VIRTUAL_MEMORY_RESOURCE, "device", device, "host-accessible", on_host, NULL);
  self->space = space;
  return self;
}

/**
 * gcuda_virtual_memory_resource_get_granularity:
 * @self: a memory resource
 *
 * What capacities, and the parts of a buffer that are committed and decommitted, are multiples of, in bytes. Any thread.
 *
 * Returns: a number of bytes; 0 for an object made by bare new
 *
 * Since: 0.1
 */
guint64
gcuda_virtual_memory_resource_get_granularity (GCudaVirtualMemoryResource *self)
{
  g_return_val_if_fail (GCUDA_IS_VIRTUAL_MEMORY_RESOURCE (self), 0);

  return self->space != NULL ? self->space->granularity : 0;
}

/* Calls on a buffer */

/* The buffer's allocation, held, if it is this resource's; with the first checks of each call. */
static GCudaAllocation *
hold_buffer (GCudaVirtualMemoryResource *self,
             GCudaBuffer *buffer,
             const char *what,
             GError **error)
{
  GCudaAllocation *allocation;

  if (!_gcuda_memory_resource_check (GCUDA_MEMORY_RESOURCE (self), what, error))
    return NULL;
  allocation = _gcuda_buffer_hold (buffer, what, error);
  if (allocation == NULL)
    return NULL;
  if (_gcuda_allocation_get_resource (allocation) != GCUDA_MEMORY_RESOURCE (self))
    _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: the buffer is not one of this resource", what);
  else if (_gcuda_buffer_is_view (buffer))
    _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: that is a view; it is done to the buffer itself", what);
  else if (_gcuda_allocation_get_address (allocation) == 0)
    _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: an empty buffer has no addresses", what);
  else
    return allocation;
  _gcuda_allocation_unhold (allocation);
  return NULL;
}

/* The stream's box, in use, if it is not being captured. */
static GCudaStreamBox *
hold_stream (GCudaStream *stream,
             const char *what,
             GError **error)
{
  GCudaStreamCall call;
  GCudaStreamBox *box;

  if (!_gcuda_stream_call_begin (&call, stream, what, error))
    return NULL;
  if (!_gcuda_stream_call_refuse_capture (&call, what, error))
    {
      _gcuda_stream_call_end (&call, CUDA_SUCCESS, what, NULL);
      return NULL;
    }
  box = call.box;
  _gcuda_stream_box_use (box);
  if (_gcuda_stream_call_end (&call, CUDA_SUCCESS, what, error))
    return box;
  _gcuda_stream_box_unuse (box);
  return NULL;
}

/* A call that changes a buffer: its allocation held, its range for the call alone, its stream in use. */
typedef struct
{
  GCudaVirtualSpace *space;
  GCudaBuffer *buffer;
  GCudaAllocation *allocation;
  GCudaVirtualRange *range;
  GCudaStreamBox *box; /* NULL for a call without a stream */
  const char *what;
} Call;

static gboolean
call_begin (Call *call,
            GCudaVirtualMemoryResource *self,
            GCudaBuffer *buffer,
            const char *what,
            GError **error)
{
  call->space = self->space;
  call->buffer = buffer;
  call->box = NULL;
  call->what = what;
  for (;;)
    {
      CUdeviceptr address;
      gboolean busy;

      call->allocation = hold_buffer (self, buffer, what, error);
      if (call->allocation == NULL)
        return FALSE;
      call->range = _gcuda_virtual_range_begin (self->space, call->allocation, &busy);
      if (call->range != NULL)
        return TRUE;
      address = _gcuda_allocation_get_address (call->allocation);
      /* Not held while it waits: the other call may have to be the only one that holds it. */
      _gcuda_allocation_unhold (call->allocation);
      /* Adopted, and never checked. */
      if (!busy)
        return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: the memory of the buffer is not from this resource", what);
      _gcuda_virtual_space_wait (self->space, address);
    }
}

static void
call_end (Call *call)
{
  _gcuda_virtual_range_end (call->range);
  if (call->box != NULL)
    _gcuda_stream_box_unuse (call->box);
  _gcuda_allocation_unhold (call->allocation);
}

static gboolean
call_use_stream (Call *call,
                 GCudaStream *stream,
                 GError **error)
{
  call->box = hold_stream (stream, call->what, error);
  return call->box != NULL;
}

static gboolean
fail_shared (Call *call,
             GError **error)
{
  return _gcuda_fail (error, GCUDA_ERROR_IN_USE,
                      "%s: something else holds its memory, such as a view or a call on another thread: it can neither move nor lose a part", call->what);
}

/* Whether that many chunks can be taken away when the stream has passed. */
static gboolean
prepare_cut (Call *call,
             guint count,
             GError **error)
{
  if (_gcuda_buffer_is_shared (call->buffer, call->allocation))
    return fail_shared (call, error);
  return count == 0 || _gcuda_allocation_reserve (call->box, FALSE, error);
}

static gboolean
fail_memory (Call *call,
             CUresult result,
             gsize size,
             GError **error)
{
  g_autofree char *amount = g_format_size_full (size, G_FORMAT_SIZE_IEC_UNITS);

  return _gcuda_fail_driver (error, result, "%s to %s on device %d", call->what, amount, (int) call->space->context->device);
}

static gboolean
move (Call *call,
      gsize new_size,
      gsize from,
      gsize to,
      CUresult *result,
      GError **error)
{
  GCudaVirtualRange *moved;

  if (!prepare_cut (call, 1, error))
    return FALSE;
  *result = _gcuda_virtual_range_move (call->range, from, to, &moved);
  if (*result != CUDA_SUCCESS)
    return fail_memory (call, *result, new_size, error);
  if (!_gcuda_buffer_change (call->buffer, call->allocation, _gcuda_virtual_range_get_address (moved), new_size))
    {
      _gcuda_virtual_range_drop (moved);
      return fail_shared (call, error);
    }
  GCUDA_NOTE (VMM, "moved a buffer from 0x%llx to 0x%llx", (unsigned long long) _gcuda_virtual_range_get_address (call->range),
              (unsigned long long) _gcuda_virtual_range_get_address (moved));
  _gcuda_stream_box_use (call->box);
  _gcuda_virtual_range_retire (call->range, call->box);
  call->range = moved;
  return TRUE;
}

/* @result is what the driver answered, if that is why it failed. */
static gboolean
grow_once (Call *call,
           gsize new_size,
           gsize from,
           gsize to,
           GCudaResizeFlags flags,
           CUresult *result,
           GError **error)
{
  gboolean extended = FALSE;

  *result = CUDA_SUCCESS;
  if (to > _gcuda_virtual_range_get_reserved (call->range))
    {
      *result = _gcuda_virtual_range_extend (call->range, to, &extended);
      if (*result != CUDA_SUCCESS)
        return fail_memory (call, *result, new_size, error);
      if (!extended && (flags & GCUDA_RESIZE_FLAGS_MAY_MOVE) != 0)
        return move (call, new_size, from, to, result, error);
      if (!extended)
        return _gcuda_fail (error, GCUDA_ERROR_OUT_OF_MEMORY,
                            "%s: the addresses behind it are taken; GCUDA_RESIZE_FLAGS_MAY_MOVE lets it move, and max-size in the options keeps addresses free", call->what);
    }
  *result = _gcuda_virtual_range_fill (call->range, from, to, FALSE);
  if (*result != CUDA_SUCCESS)
    {
      if (extended)
        _gcuda_virtual_range_retract (call->range);
      return fail_memory (call, *result, new_size, error);
    }
  _gcuda_buffer_grow (call->buffer, call->allocation, new_size);
  return TRUE;
}

static gboolean
grow (Call *call,
      gsize new_size,
      gsize from,
      gsize to,
      GCudaResizeFlags flags,
      GError **error)
{
  g_autoptr (GError) local = NULL;
  CUresult result;

  if (grow_once (call, new_size, from, to, flags, &result, &local))
    return TRUE;
  if (result == CUDA_ERROR_OUT_OF_MEMORY && _gcuda_reclaim_memory ())
    return grow_once (call, new_size, from, to, flags, &result, error);
  g_propagate_error (error, g_steal_pointer (&local));
  return FALSE;
}

static gboolean
shrink (Call *call,
        gsize new_size,
        gsize end,
        GError **error)
{
  gsize chunk_begin, chunk_end;
  guint count;

  /* A chunk that the new end lies in stays. */
  _gcuda_virtual_range_count (call->range, end, G_MAXSIZE, &count, &chunk_begin, &chunk_end);
  if (!prepare_cut (call, count, error))
    return FALSE;
  if (!_gcuda_buffer_change (call->buffer, call->allocation, _gcuda_virtual_range_get_address (call->range), new_size))
    return fail_shared (call, error);
  if (count > 0)
    {
      _gcuda_stream_box_use (call->box);
      _gcuda_virtual_range_cut (call->range, end, G_MAXSIZE, call->box);
    }
  return TRUE;
}

/**
 * gcuda_virtual_memory_resource_resize:
 * @self: a memory resource
 * @buffer: a buffer of this resource, no view
 * @new_size: how many bytes it is to have, at least 1
 * @flags: what may be done
 * @stream: the stream that comes after all uses of the buffer so far
 * @error: return location for an error, or %NULL
 *
 * Changes the size of a buffer. What it holds stays, up to the smaller of the two sizes; what is behind is undefined.
 *
 * It grows in place as long as there are addresses behind it: those that [method@VirtualMemoryOptions.set_max_size] set
 * aside, and others that happen to be free. Otherwise, with `MAY_MOVE`, the same physical memory is mapped at another
 * address: nothing is copied, and the cost is that of the number of chunks. The old address is unmapped when @stream has
 * passed this point. Where it shrinks, chunks behind the new end are unmapped when @stream has passed; growing again takes
 * those back that are still there. The recipe of the buffer stays as it is.
 *
 * So @stream must come after all work on the part that goes, and on all of the buffer if it may move. New memory can be used
 * at once, by work that comes after this call. It waits for nothing, but for memory where that is out. The properties
 * [property@Buffer:address] and [property@Buffer:size] notify when all is done. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for a size of 0 or one that no memory can have, unknown flags, no stream, and a buffer of another
 * resource, an empty one or a view; `IN_USE` for a buffer that would have to move or shrink while a view, or a call on
 * another thread, uses its memory; `CAPTURING`; `CLOSED`; `FORKED`; `OUT_OF_MEMORY`, also where it can't grow in place and may
 * not move; what the driver answers. Then nothing has changed.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_virtual_memory_resource_resize (GCudaVirtualMemoryResource *self,
                                      GCudaBuffer *buffer,
                                      guint64 new_size,
                                      GCudaResizeFlags flags,
                                      GCudaStream *stream,
                                      GError **error)
{
  static const char what[] = "resizing a buffer";
  guint64 old_address, old_size, address;
  Call call;
  gsize from = 0, to;
  gboolean success;

  g_return_val_if_fail (GCUDA_IS_VIRTUAL_MEMORY_RESOURCE (self), FALSE);

  if ((flags & ~GCUDA_RESIZE_FLAGS_MAY_MOVE) != 0)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: unknown flags 0x%x", what, (unsigned int) flags);
  if (!_gcuda_memory_resource_check (GCUDA_MEMORY_RESOURCE (self), what, error))
    return FALSE;
  if (new_size == 0)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: it can't have 0 bytes; close it instead", what);
  if (!round_up (self->space, new_size, &to))
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: %" G_GUINT64_FORMAT " bytes are more than an address space holds", what, new_size);
  if (!call_begin (&call, self, buffer, what, error))
    return FALSE;
  old_address = _gcuda_allocation_get_address (call.allocation);
  old_size = gcuda_buffer_get_size (buffer);
  round_up (self->space, old_size, &from);
  success = call_use_stream (&call, stream, error);
  if (success && new_size > old_size)
    success = grow (&call, new_size, from, to, flags, error);
  else if (success && new_size < old_size)
    success = shrink (&call, new_size, to, error);
  address = _gcuda_allocation_get_address (call.allocation);
  call_end (&call);
  if (success)
    _gcuda_buffer_notify_change (buffer, address != old_address, new_size != old_size);
  return success;
}

/**
 * gcuda_virtual_memory_resource_reserve:
 * @self: a memory resource
 * @size: how many bytes of addresses, at least 1
 * @stream: the stream on which to free the buffer
 * @error: return location for an error
 *
 * Makes a buffer that has addresses but no memory. Only parts that were given some by
 * [method@VirtualMemoryResource.commit] may be used. Any thread.
 *
 * Errors: as [method@MemoryResource.allocate]; `INVALID_ARGUMENT` for size 0.
 *
 * Returns: (transfer full): a new buffer
 *
 * Since: 0.1
 */
GCudaBuffer *
gcuda_virtual_memory_resource_reserve (GCudaVirtualMemoryResource *self,
                                       guint64 size,
                                       GCudaStream *stream,
                                       GError **error)
{
  static const char what[] = "reserving addresses";
  GCudaStreamBox *box;
  CUdeviceptr address = 0;
  CUresult result;
  gsize rounded;

  g_return_val_if_fail (GCUDA_IS_VIRTUAL_MEMORY_RESOURCE (self), NULL);

  if (!_gcuda_memory_resource_check (GCUDA_MEMORY_RESOURCE (self), what, error))
    return NULL;
  if (size == 0 || !round_up (self->space, size, &rounded))
    {
      _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: there are no ranges of %" G_GUINT64_FORMAT " bytes", what, size);
      return NULL;
    }
  box = hold_stream (stream, what, error);
  if (box == NULL)
    return NULL;
  if (_gcuda_allocation_reserve (box, FALSE, error))
    {
      result = _gcuda_virtual_space_allocate (self->space, rounded, FALSE, &address);
      if (result == CUDA_ERROR_OUT_OF_MEMORY && _gcuda_reclaim_memory ())
        result = _gcuda_virtual_space_allocate (self->space, rounded, FALSE, &address);
      if (result == CUDA_SUCCESS)
        return _gcuda_buffer_new (_gcuda_allocation_new (GCUDA_MEMORY_RESOURCE (self), address, size, FALSE, box));
      _gcuda_fail_driver (error, result, "%s of device %d", what, (int) self->space->context->device);
    }
  _gcuda_stream_box_unuse (box);
  return NULL;
}

/* Whether a part of a buffer can be committed or decommitted. */
static gboolean
check_part (Call *call,
            guint64 offset,
            guint64 size,
            GError **error)
{
  const gsize granularity = call->space->granularity;
  gsize end = 0;

  round_up (call->space, gcuda_buffer_get_size (call->buffer), &end);
  if (size == 0 || offset % granularity != 0 || size % granularity != 0)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT,
                        "%s: %" G_GUINT64_FORMAT " bytes at offset %" G_GUINT64_FORMAT " are no whole multiples of the granularity, which is %" G_GSIZE_FORMAT " bytes",
                        call->what, size, offset, granularity);
  if (offset > end || size > end - offset)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT,
                        "%s: %" G_GUINT64_FORMAT " bytes at offset %" G_GUINT64_FORMAT " do not lie in the %" G_GSIZE_FORMAT " bytes of addresses of the buffer",
                        call->what, size, offset, end);
  return TRUE;
}

/**
 * gcuda_virtual_memory_resource_commit:
 * @self: a memory resource
 * @buffer: a buffer of this resource, no view
 * @offset: where the part starts, in bytes
 * @size: how many bytes
 * @stream: the stream that comes after all uses of this part so far
 * @error: return location for an error, or %NULL
 *
 * Gives memory to a part of a buffer, where it has none. Offset and size are multiples of the granularity; the part may
 * reach behind the end of the buffer up to the next multiple. Memory is made in chunks of the granularity, so that each can
 * be decommitted alone. What was decommitted and is not unmapped yet is taken back. It waits for nothing, but for memory
 * where that is out. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for a part that is not aligned or does not lie in the buffer, no stream, and a buffer of another
 * resource, an empty one or a view; `CAPTURING`; `CLOSED`; `FORKED`; `OUT_OF_MEMORY`; what the driver answers. Then nothing has
 * changed.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_virtual_memory_resource_commit (GCudaVirtualMemoryResource *self,
                                      GCudaBuffer *buffer,
                                      guint64 offset,
                                      guint64 size,
                                      GCudaStream *stream,
                                      GError **error)
{
  static const char what[] = "committing memory";
  Call call;
  CUresult result;
  gboolean success;

  g_return_val_if_fail (GCUDA_IS_VIRTUAL_MEMORY_RESOURCE (self), FALSE);

  if (!call_begin (&call, self, buffer, what, error))
    return FALSE;
  success = check_part (&call, offset, size, error) && call_use_stream (&call, stream, error);
  if (success)
    {
      result = _gcuda_virtual_range_fill (call.range, offset, offset + size, TRUE);
      if (result == CUDA_ERROR_OUT_OF_MEMORY && _gcuda_reclaim_memory ())
        result = _gcuda_virtual_range_fill (call.range, offset, offset + size, TRUE);
      success = result == CUDA_SUCCESS || _gcuda_fail_driver (error, result, "%s of device %d", what, (int) self->space->context->device);
    }
  call_end (&call);
  return success;
}

/**
 * gcuda_virtual_memory_resource_decommit:
 * @self: a memory resource
 * @buffer: a buffer of this resource, no view
 * @offset: where the part starts, in bytes
 * @size: how many bytes
 * @stream: the stream that comes after all uses of this part
 * @error: return location for an error, or %NULL
 *
 * Takes the memory of a part of a buffer away, when @stream has passed this point; the addresses stay. Offset and size are
 * multiples of the granularity. A chunk goes as a whole or not at all: memory that [method@VirtualMemoryResource.commit]
 * made, or a resource with a chunk size, can be cut at each multiple, other memory only between what single calls made. It
 * waits for nothing. Any thread.
 *
 * Errors: as [method@VirtualMemoryResource.commit]; `INVALID_ARGUMENT` also for a part that begins or ends within a chunk;
 * `IN_USE` for a buffer whose memory a view, or a call on another thread, uses.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_virtual_memory_resource_decommit (GCudaVirtualMemoryResource *self,
                                        GCudaBuffer *buffer,
                                        guint64 offset,
                                        guint64 size,
                                        GCudaStream *stream,
                                        GError **error)
{
  static const char what[] = "decommitting memory";
  gsize chunk_begin = 0, chunk_end = 0;
  gboolean success;
  guint count;
  Call call;

  g_return_val_if_fail (GCUDA_IS_VIRTUAL_MEMORY_RESOURCE (self), FALSE);

  if (!call_begin (&call, self, buffer, what, error))
    return FALSE;
  success = check_part (&call, offset, size, error);
  if (success && !_gcuda_virtual_range_count (call.range, offset, offset + size, &count, &chunk_begin, &chunk_end))
    success = _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT,
                           "%s: the bytes from offset %" G_GSIZE_FORMAT " to %" G_GSIZE_FORMAT " are one chunk, which goes as a whole; the option chunk-size makes smaller ones",
                           what, chunk_begin, chunk_end);
  success = success && call_use_stream (&call, stream, error) && prepare_cut (&call, count, error);
  if (success && count > 0)
    {
      _gcuda_stream_box_use (call.box);
      _gcuda_virtual_range_cut (call.range, offset, offset + size, call.box);
    }
  call_end (&call);
  return success;
}

/**
 * gcuda_virtual_memory_resource_get_capacity:
 * @self: a memory resource
 * @buffer: a buffer of this resource
 * @error: return location for an error
 *
 * How much physical memory a buffer has: for one that is whole, its size rounded up to the end of its last chunk. Any
 * thread.
 *
 * Errors: `INVALID_ARGUMENT` for a buffer of another resource, an empty one or a view; `CLOSED`; `FORKED`.
 *
 * Returns: a number of bytes; 0 with @error set on failure
 *
 * Since: 0.1
 */
guint64
gcuda_virtual_memory_resource_get_capacity (GCudaVirtualMemoryResource *self,
                                            GCudaBuffer *buffer,
                                            GError **error)
{
  GCudaAllocation *allocation;
  guint64 capacity;

  g_return_val_if_fail (GCUDA_IS_VIRTUAL_MEMORY_RESOURCE (self), 0);

  allocation = hold_buffer (self, buffer, "asking for the capacity of a buffer", error);
  if (allocation == NULL)
    return 0;
  capacity = _gcuda_virtual_range_get_mapped (self->space, allocation);
  _gcuda_allocation_unhold (allocation);
  return capacity;
}

/**
 * gcuda_virtual_memory_resource_set_access:
 * @self: a memory resource
 * @buffer: a buffer of this resource, no view
 * @device: a device, of the resource or another
 * @access: what it may do
 * @error: return location for an error, or %NULL
 *
 * Sets what a device may do to the memory of one buffer, now and after it has grown. It takes effect at once, also for work
 * that was queued before. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for no device, an unknown access, `NONE` for the resource's own device, and a buffer of another
 * resource, an empty one or a view;
 * `PEER_ACCESS_UNSUPPORTED`; `NOT_SUPPORTED`; `CLOSED`; `FORKED`; what the driver answers. Then the rights are as before.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_virtual_memory_resource_set_access (GCudaVirtualMemoryResource *self,
                                          GCudaBuffer *buffer,
                                          GCudaDevice *device,
                                          GCudaMemoryAccess access,
                                          GError **error)
{
  static const char what[] = "setting the access to a buffer";
  CUmemAccessDesc description;
  CUresult result;
  Call call;

  g_return_val_if_fail (GCUDA_IS_VIRTUAL_MEMORY_RESOURCE (self), FALSE);

  if (!call_begin (&call, self, buffer, what, error))
    return FALSE;
  if (!describe_access (self->space, device, access, &description, what, error))
    {
      call_end (&call);
      return FALSE;
    }
  result = _gcuda_virtual_range_set_access (call.range, &description);
  call_end (&call);
  return result == CUDA_SUCCESS || _gcuda_fail_driver (error, result, "%s for device %d", what, (int) description.location.id);
}

/**
 * gcuda_virtual_memory_resource_add_peer:
 * @self: a memory resource
 * @peer: a device
 * @access: what it may do
 * @error: return location for an error, or %NULL
 *
 * Sets what a device may do to the memory of all buffers of the resource, those that there are and those to come. It takes
 * effect at once; for large memory it takes the driver milliseconds. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for no device, an unknown access, or `NONE` for the resource's own device; `PEER_ACCESS_UNSUPPORTED`; `NOT_SUPPORTED`; `CLOSED`;
 * `FORKED`; what the driver answers. Then the rights are as before.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_virtual_memory_resource_add_peer (GCudaVirtualMemoryResource *self,
                                        GCudaDevice *peer,
                                        GCudaMemoryAccess access,
                                        GError **error)
{
  static const char what[] = "adding a peer of a virtual memory resource";
  CUmemAccessDesc description;
  CUresult result;

  g_return_val_if_fail (GCUDA_IS_VIRTUAL_MEMORY_RESOURCE (self), FALSE);

  if (!_gcuda_memory_resource_check (GCUDA_MEMORY_RESOURCE (self), what, error) ||
      !describe_access (self->space, peer, access, &description, what, error))
    return FALSE;
  result = _gcuda_virtual_space_set_access (self->space, &description);
  return result == CUDA_SUCCESS || _gcuda_fail_driver (error, result, "%s, device %d", what, (int) description.location.id);
}

/**
 * gcuda_virtual_memory_resource_trim:
 * @self: a memory resource
 * @keep: how many bytes the cache may keep
 * @error: return location for an error, or %NULL
 *
 * Gives physical memory that is not in use, and only kept by [method@VirtualMemoryOptions.set_cache_size], back to the
 * system, down to @keep bytes. Memory whose free waits for a stream is in use. It waits for nothing. Any thread.
 *
 * Errors: `CLOSED`; `FORKED`; what the driver answers.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_virtual_memory_resource_trim (GCudaVirtualMemoryResource *self,
                                    guint64 keep,
                                    GError **error)
{
  static const char what[] = "trimming a virtual memory resource";
  CUresult result;

  g_return_val_if_fail (GCUDA_IS_VIRTUAL_MEMORY_RESOURCE (self), FALSE);

  if (!_gcuda_memory_resource_check (GCUDA_MEMORY_RESOURCE (self), what, error))
    return FALSE;
  result = _gcuda_virtual_space_trim (self->space, MIN (keep, G_MAXSIZE));
  return result == CUDA_SUCCESS || _gcuda_fail_driver (error, result, "%s of device %d", what, (int) self->space->context->device);
}
