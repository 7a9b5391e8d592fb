/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-buffer-managed.h"

#include "gcuda-buffer-private.h"
#include "gcuda-location-private.h"

/* What the driver answers for no place. */
#define NOWHERE (-2)

/* By number: these are newer than the oldest cuda.h that this builds with. */
#define PREFERRED_LOCATION_TYPE     ((CUmem_range_attribute) 5)
#define PREFERRED_LOCATION_ID       ((CUmem_range_attribute) 6)
#define LAST_PREFETCH_LOCATION_TYPE ((CUmem_range_attribute) 7)
#define LAST_PREFETCH_LOCATION_ID   ((CUmem_range_attribute) 8)

/* A piece of managed memory: a buffer's, held. */
typedef struct
{
  GCudaAllocation *allocation;
  CUdeviceptr address;
  size_t size;
} Piece;

/* FALSE, with an error and nothing held, for memory that is not managed. */
static gboolean
piece_hold (Piece *piece,
            GCudaBuffer *buffer,
            const char *what,
            GError **error)
{
  CUresult result = CUDA_SUCCESS;
  unsigned int managed = 0;

  /* The address that is held: another thread may close the buffer now, which then has none. */
  piece->allocation = _gcuda_buffer_hold_range (buffer, 0, 0, what, &piece->address, error);
  if (piece->allocation == NULL)
    return FALSE;
  piece->size = gcuda_buffer_get_size (buffer);
  if (!_gcuda_driver_check (error))
    {
      _gcuda_allocation_unhold (piece->allocation);
      return FALSE;
    }
  /* An empty buffer has no memory that could be of the wrong kind. */
  if (piece->size > 0)
    result = _gcuda_driver.PointerGetAttribute (&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, piece->address);
  if (piece->size == 0 || (result == CUDA_SUCCESS && managed != 0))
    return TRUE;
  _gcuda_allocation_unhold (piece->allocation);
  /* What the driver does not know at all is not managed. */
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_INVALID_VALUE)
    return _gcuda_fail_driver (error, result, "%s: asking whether the memory is managed", what);
  return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: the memory is not managed; GCudaManagedMemoryResource allocates such memory", what);
}

/* What a device without concurrent access can't do with managed memory. */
static gboolean
check_location (const CUmemLocation *location,
                const char *what,
                GError **error)
{
  int concurrent = 0;
  CUresult result;

  if (!_gcuda_driver_has (GCUDA_DRIVER_GROUP_LOCATIONS))
    return _gcuda_fail (error, GCUDA_ERROR_NOT_SUPPORTED, "%s: this needs a driver of CUDA 12.2 or newer (cuMemAdvise_v2, cuMemPrefetchAsync_v2)", what);
  if (location->type != CU_MEM_LOCATION_TYPE_DEVICE)
    return TRUE;
  result = _gcuda_driver.DeviceGetAttribute (&concurrent, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, location->id);
  if (result != CUDA_SUCCESS)
    return _gcuda_fail_driver (error, result, "%s: asking what device %d supports", what, (int) location->id);
  if (concurrent)
    return TRUE;
  return _gcuda_fail (error, GCUDA_ERROR_NOT_SUPPORTED,
                      "%s: device %d moves managed memory only by itself (CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS is 0)", what, (int) location->id);
}

/* Driver calls on memory without a stream: in the primary context of its device. */
static CUresult
enter (const Piece *piece,
       GCudaContextBox **context,
       GCudaContextScope *scope,
       const char *what,
       GError **error)
{
  CUresult result;

  *context = _gcuda_device_hold_primary_context (_gcuda_allocation_get_device (piece->allocation), what, error);
  if (*context == NULL)
    return CUDA_ERROR_INVALID_CONTEXT;
  result = _gcuda_context_scope_enter (scope, (*context)->handle);
  if (result == CUDA_SUCCESS)
    return CUDA_SUCCESS;
  _gcuda_fail_driver (error, result, "%s: making the device's context current", what);
  _gcuda_context_box_unuse (*context);
  return result;
}

static gboolean
leave (GCudaContextBox *context,
       GCudaContextScope *scope,
       CUresult result,
       const char *what,
       GError **error)
{
  CUresult left = _gcuda_context_scope_leave (scope);

  _gcuda_context_box_unuse (context);
  if (result != CUDA_SUCCESS)
    return _gcuda_fail_driver (error, result, "%s", what);
  return left == CUDA_SUCCESS || _gcuda_fail_driver (error, left, "%s: restoring the current context", what);
}

/* Advice */

static gboolean
advise (GCudaBuffer *self,
        CUmem_advise advice,
        CUmemLocation location,
        const char *what,
        GError **error)
{
  GCudaContextScope scope;
  GCudaContextBox *context;
  CUmemoryPool pool = NULL;
  CUresult result;
  Piece piece;
  gboolean success = FALSE;

  if (!piece_hold (&piece, self, what, error))
    return FALSE;
  if (check_location (&location, what, error))
    {
      if (piece.size == 0)
        success = TRUE;
      else if (enter (&piece, &context, &scope, what, error) == CUDA_SUCCESS)
        {
          result = _gcuda_driver.MemAdvise (piece.address, piece.size, advice, location);
          if ((result == CUDA_ERROR_NOT_SUPPORTED || result == CUDA_ERROR_INVALID_VALUE) &&
              _gcuda_driver.PointerGetAttribute (&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, piece.address) == CUDA_SUCCESS && pool != NULL)
            {
              leave (context, &scope, CUDA_SUCCESS, what, NULL);
              _gcuda_fail (error, GCUDA_ERROR_NOT_SUPPORTED, "%s: this driver takes no advice for memory of a pool; gcuda_managed_memory_resource_new_unpooled () has memory that it can be given for, and a pool can prefer a location", what);
            }
          else
            {
              success = leave (context, &scope, result, what, error);
            }
        }
    }
  _gcuda_allocation_unhold (piece.allocation);
  return success;
}

/* FALSE with an error. An empty buffer answers what nothing was advised for. */
static gboolean
ask (GCudaBuffer *self,
     CUmem_range_attribute attribute,
     gint32 *answers,
     gsize n_answers,
     const char *what,
     GError **error)
{
  GCudaContextScope scope;
  GCudaContextBox *context;
  CUresult result;
  Piece piece;
  gboolean success = FALSE;

  if (!piece_hold (&piece, self, what, error))
    return FALSE;
  if (piece.size == 0)
    success = TRUE;
  else if (enter (&piece, &context, &scope, what, error) == CUDA_SUCCESS)
    {
      result = _gcuda_driver.MemRangeGetAttribute (answers, n_answers * sizeof *answers, attribute, piece.address, piece.size);
      success = leave (context, &scope, result, what, error);
    }
  _gcuda_allocation_unhold (piece.allocation);
  return success;
}

/* The location that two attributes tell together; on drivers that do not know these, the older one that tells less. */
static GCudaLocation *
ask_location (GCudaBuffer *self,
              CUmem_range_attribute type_attribute,
              CUmem_range_attribute id_attribute,
              CUmem_range_attribute old_attribute,
              const char *what,
              GError **error)
{
  gint32 type = 0, id = NOWHERE;

  if (_gcuda_driver_has (GCUDA_DRIVER_GROUP_LOCATIONS))
    {
      if (!ask (self, type_attribute, &type, 1, what, error) || !ask (self, id_attribute, &id, 1, what, error))
        return NULL;
      return _gcuda_location_new_for_answer (type, id);
    }
  if (!ask (self, old_attribute, &id, 1, what, error) || id == NOWHERE)
    return NULL;
  return id == CU_DEVICE_CPU ? gcuda_location_new_host () : _gcuda_location_new_for_answer (CU_MEM_LOCATION_TYPE_DEVICE, id);
}

/**
 * gcuda_buffer_set_read_mostly:
 * @self: a buffer of managed memory
 * @read_mostly: whether it is mostly read
 * @error: return location for an error, or %NULL
 *
 * Advises the driver that the memory is mostly read: whoever reads it gets a copy of its pages, which the next write takes
 * from all others. Pages that the buffer shares with its neighbours are advised as well. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for memory that is not managed; `NOT_SUPPORTED`, also for memory of
 * a pool; `CLOSED`; `FORKED`; what the driver answers.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_buffer_set_read_mostly (GCudaBuffer *self,
                              gboolean read_mostly,
                              GError **error)
{
  /* The driver looks at no location here, but at its type. */
  CUmemLocation location = { .type = CU_MEM_LOCATION_TYPE_HOST };

  g_return_val_if_fail (GCUDA_IS_BUFFER (self), FALSE);

  return advise (self, read_mostly ? CU_MEM_ADVISE_SET_READ_MOSTLY : CU_MEM_ADVISE_UNSET_READ_MOSTLY, location,
                 "advising that memory is mostly read", error);
}

/**
 * gcuda_buffer_is_read_mostly:
 * @self: a buffer of managed memory
 * @error: return location for an error
 *
 * Asks the driver whether all of the memory was advised to be mostly read. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for memory that is not managed; `CLOSED`; `FORKED`; what the driver answers.
 *
 * Returns: the answer; %FALSE with @error set on failure
 *
 * Since: 0.1
 */
gboolean
gcuda_buffer_is_read_mostly (GCudaBuffer *self,
                             GError **error)
{
  gint32 answer = 0;

  g_return_val_if_fail (GCUDA_IS_BUFFER (self), FALSE);

  return ask (self, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, &answer, 1, "asking whether memory is mostly read", error) && answer != 0;
}

/**
 * gcuda_buffer_set_preferred_location:
 * @self: a buffer of managed memory
 * @location: (nullable): where its pages should be, or %NULL for no place
 * @error: return location for an error, or %NULL
 *
 * Advises the driver where the memory should be: pages stay there while others can reach them there. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for memory that is not managed, and a location that is not there; `NOT_SUPPORTED`, also for a
 * NUMA node where the driver keeps no preference for one; `CLOSED`; `FORKED`; what the driver answers.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_buffer_set_preferred_location (GCudaBuffer *self,
                                     GCudaLocation *location,
                                     GError **error)
{
  static const char what[] = "advising where memory should be";
  CUmemLocation place = { .type = CU_MEM_LOCATION_TYPE_HOST };
  g_autoptr (GCudaLocation) kept = NULL;
  g_autoptr (GError) local = NULL;

  g_return_val_if_fail (GCUDA_IS_BUFFER (self), FALSE);

  if (location != NULL && !_gcuda_location_resolve (location, &place, what, error))
    return FALSE;
  if (!advise (self, location != NULL ? CU_MEM_ADVISE_SET_PREFERRED_LOCATION : CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, place, what, error))
    return FALSE;
  if (location == NULL || place.type == CU_MEM_LOCATION_TYPE_DEVICE || place.type == CU_MEM_LOCATION_TYPE_HOST || gcuda_buffer_get_size (self) == 0)
    return TRUE;
  /* There are drivers that take a NUMA node, and forget it. */
  kept = gcuda_buffer_get_preferred_location (self, &local);
  if (local != NULL || (kept != NULL && gcuda_location_get_kind (kept) >= GCUDA_MEMORY_LOCATION_HOST_NUMA))
    return TRUE;
  return _gcuda_fail (error, GCUDA_ERROR_NOT_SUPPORTED, "%s: this driver keeps no preference for a NUMA node; prefer the host", what);
}

/**
 * gcuda_buffer_get_preferred_location:
 * @self: a buffer of managed memory
 * @error: return location for an error
 *
 * Asks the driver where the memory should be. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for memory that is not managed; `CLOSED`; `FORKED`; what the driver answers.
 *
 * Returns: (transfer full) (nullable): a location; %NULL without an error for no place, or not the same for all of it
 *
 * Since: 0.1
 */
GCudaLocation *
gcuda_buffer_get_preferred_location (GCudaBuffer *self,
                                     GError **error)
{
  g_return_val_if_fail (GCUDA_IS_BUFFER (self), NULL);

  return ask_location (self, PREFERRED_LOCATION_TYPE, PREFERRED_LOCATION_ID, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION,
                       "asking where memory should be", error);
}

/**
 * gcuda_buffer_set_accessed_by:
 * @self: a buffer of managed memory
 * @location: who uses it, a device or the host
 * @accessed: whether that uses the memory
 * @error: return location for an error, or %NULL
 *
 * Advises the driver that a device, or the processor, uses the memory: it then is mapped there wherever its pages are, and
 * no page moves only because it was touched from there. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for memory that is not managed, no location, one that is not there, and a NUMA node, whose
 * users are the host's; `NOT_SUPPORTED`, also for memory of
 * a pool; `CLOSED`; `FORKED`; what the driver answers.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_buffer_set_accessed_by (GCudaBuffer *self,
                              GCudaLocation *location,
                              gboolean accessed,
                              GError **error)
{
  static const char what[] = "advising who uses memory";
  CUmemLocation place;

  g_return_val_if_fail (GCUDA_IS_BUFFER (self), FALSE);

  if (!_gcuda_location_resolve (location, &place, what, error))
    return FALSE;
  if (place.type != CU_MEM_LOCATION_TYPE_DEVICE && place.type != CU_MEM_LOCATION_TYPE_HOST)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: that is a device or the host, and no NUMA node", what);
  return advise (self, accessed ? CU_MEM_ADVISE_SET_ACCESSED_BY : CU_MEM_ADVISE_UNSET_ACCESSED_BY, place, what, error);
}

/**
 * gcuda_buffer_is_accessed_by:
 * @self: a buffer of managed memory
 * @location: a device or the host
 * @error: return location for an error
 *
 * Asks the driver whether all of the memory was advised to be used from there. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for memory that is not managed, and no location; `CLOSED`; `FORKED`; what the driver answers.
 *
 * Returns: the answer; %FALSE with @error set on failure
 *
 * Since: 0.1
 */
gboolean
gcuda_buffer_is_accessed_by (GCudaBuffer *self,
                             GCudaLocation *location,
                             GError **error)
{
  static const char what[] = "asking who uses memory";
  g_autofree gint32 *answers = NULL;
  CUmemLocation place;
  CUresult result;
  int n_devices = 0, id;
  gboolean found = FALSE;

  g_return_val_if_fail (GCUDA_IS_BUFFER (self), FALSE);

  if (!_gcuda_location_resolve (location, &place, what, error) || !_gcuda_driver_check (error))
    return FALSE;
  result = _gcuda_driver.DeviceGetCount (&n_devices);
  if (result != CUDA_SUCCESS)
    return _gcuda_fail_driver (error, result, "%s: counting devices", what);
  id = place.type == CU_MEM_LOCATION_TYPE_DEVICE ? place.id : place.type == CU_MEM_LOCATION_TYPE_HOST ? CU_DEVICE_CPU
                                                                                                      : NOWHERE;
  answers = g_new (gint32, n_devices + 1);
  for (int i = 0; i <= n_devices; i++)
    answers[i] = NOWHERE;
  if (!ask (self, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, answers, n_devices + 1, what, error))
    return FALSE;
  for (int i = 0; i <= n_devices && id != NOWHERE; i++)
    found |= answers[i] == id;
  return found;
}

/**
 * gcuda_buffer_get_last_prefetch_location:
 * @self: a buffer of managed memory
 * @error: return location for an error
 *
 * Asks the driver where the memory was last prefetched to, or is being. It does not say where the pages are now. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for memory that is not managed; `CLOSED`; `FORKED`; what the driver answers.
 *
 * Returns: (transfer full) (nullable): a location; %NULL without an error for no place, or not the same for all of it
 *
 * Since: 0.1
 */
GCudaLocation *
gcuda_buffer_get_last_prefetch_location (GCudaBuffer *self,
                                         GError **error)
{
  g_return_val_if_fail (GCUDA_IS_BUFFER (self), NULL);

  return ask_location (self, LAST_PREFETCH_LOCATION_TYPE, LAST_PREFETCH_LOCATION_ID, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION,
                       "asking where memory was prefetched to", error);
}

/* Moving and dropping pages */

typedef enum
{
  PREFETCH = 1 << 0,
  DISCARD = 1 << 1,
} Moves;

static gboolean
check_batches (Moves moves,
               GCudaStreamCall *call,
               const char *what,
               GError **error)
{
  if (!_gcuda_driver_has (GCUDA_DRIVER_GROUP_MANAGED_BATCHES))
    return _gcuda_fail (error, GCUDA_ERROR_NOT_SUPPORTED, "%s: this needs a driver of CUDA 13.0 or newer (cuMemDiscardBatchAsync)", what);
  if (call->box->kind == GCUDA_STREAM_LEGACY)
    return _gcuda_fail (error, GCUDA_ERROR_NOT_SUPPORTED, "%s: the driver does this on no legacy default stream; use another stream", what);
  return TRUE;
}

static gboolean
move (GCudaBuffer **buffers,
      gsize n_buffers,
      Moves moves,
      GCudaLocation *location,
      GCudaStream *stream,
      const char *what,
      GError **error)
{
  g_autofree Piece *pieces = NULL;
  g_autofree CUdeviceptr *addresses = NULL;
  g_autofree size_t *sizes = NULL;
  CUmemLocation place = { .type = CU_MEM_LOCATION_TYPE_HOST };
  GCudaStreamCall call;
  CUresult result = CUDA_SUCCESS;
  gsize held = 0, count = 0;
  size_t first = 0;
  gboolean success;

  if ((moves & PREFETCH) != 0 && !_gcuda_location_resolve (location, &place, what, error))
    return FALSE;
  if (buffers == NULL && n_buffers > 0)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: no buffers were given", what);
  pieces = g_new (Piece, MAX (n_buffers, 1));
  addresses = g_new (CUdeviceptr, MAX (n_buffers, 1));
  sizes = g_new (size_t, MAX (n_buffers, 1));
  while (held < n_buffers && piece_hold (&pieces[held], buffers[held], what, error))
    {
      if (pieces[held].size > 0)
        {
          for (gsize i = 0; (moves & DISCARD) != 0 && i < count; i++)
            if (pieces[held].address < addresses[i] + sizes[i] && addresses[i] < pieces[held].address + pieces[held].size)
              {
                _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: buffer %" G_GSIZE_FORMAT " overlaps one before it", what, held);
                _gcuda_allocation_unhold (pieces[held].allocation);
                goto out;
              }
          addresses[count] = pieces[held].address;
          sizes[count++] = pieces[held].size;
        }
      held++;
    }
out:
  success = held == n_buffers;
  for (gsize i = 0; success && (moves & DISCARD) != 0 && i < n_buffers; i++)
    success = _gcuda_allocation_check_writable (pieces[i].allocation, what, error);
  success = success && ((moves & PREFETCH) == 0 || check_location (&place, what, error)) && _gcuda_stream_call_begin (&call, stream, what, error);
  if (success)
    {
      const gboolean batched = (moves & DISCARD) != 0 || (count > 1 && _gcuda_driver_has (GCUDA_DRIVER_GROUP_MANAGED_BATCHES) && call.box->kind != GCUDA_STREAM_LEGACY);

      success = _gcuda_stream_call_refuse_capture (&call, what, error) && ((moves & DISCARD) == 0 || check_batches (moves, &call, what, error));
      if (!success || count == 0)
        result = CUDA_SUCCESS;
      else if (moves == DISCARD)
        result = _gcuda_driver.MemDiscardBatchAsync (addresses, sizes, count, 0, call.handle);
      else if (moves == PREFETCH && !batched)
        /* One by one is as good: a prefetch changes nothing that can be seen, and nothing in their order. */
        for (gsize i = 0; i < count && result == CUDA_SUCCESS; i++)
          result = _gcuda_driver.MemPrefetchAsync (addresses[i], sizes[i], place, 0, call.handle);
      else if (moves == PREFETCH)
        result = _gcuda_driver.MemPrefetchBatchAsync (addresses, sizes, count, &place, &first, 1, 0, call.handle);
      else
        result = _gcuda_driver.MemDiscardAndPrefetchBatchAsync (addresses, sizes, count, &place, &first, 1, 0, call.handle);
      success = _gcuda_stream_call_end (&call, result, what, success ? error : NULL) && success;
    }
  while (held-- > 0)
    _gcuda_allocation_unhold (pieces[held].allocation);
  return success;
}

/**
 * gcuda_buffer_prefetch:
 * @self: a buffer of managed memory
 * @location: where to move its pages
 * @stream: the stream that does it
 * @error: return location for an error, or %NULL
 *
 * Moves the memory's pages to a place, in the order of @stream, so that they are there when they are used. What the memory
 * holds stays. A part of a buffer is prefetched by way of a view. Blocks no thread. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for memory that is not managed, no location, one that is not there, or no stream;
 * `NOT_SUPPORTED` for a device that moves managed memory only by itself; `CAPTURING`, and the capture stays valid;
 * `CLOSED`; `FORKED`; what the driver answers.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_buffer_prefetch (GCudaBuffer *self,
                       GCudaLocation *location,
                       GCudaStream *stream,
                       GError **error)
{
  g_return_val_if_fail (GCUDA_IS_BUFFER (self), FALSE);

  return move (&self, 1, PREFETCH, location, stream, "prefetching memory", error);
}

/**
 * gcuda_buffer_prefetch_batch:
 * @buffers: (array length=n_buffers): buffers of managed memory
 * @n_buffers: how many
 * @location: where to move their pages
 * @stream: the stream that does it
 * @error: return location for an error, or %NULL
 *
 * Moves the pages of many buffers to a place; see [method@Buffer.prefetch]. All are checked before the first is moved.
 *
 * Errors: as there.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_buffer_prefetch_batch (GCudaBuffer **buffers,
                             gsize n_buffers,
                             GCudaLocation *location,
                             GCudaStream *stream,
                             GError **error)
{
  return move (buffers, n_buffers, PREFETCH, location, stream, "prefetching a batch of buffers", error);
}

/**
 * gcuda_buffer_discard:
 * @self: a buffer of managed memory
 * @stream: the stream that does it
 * @error: return location for an error, or %NULL
 *
 * Tells the driver, in the order of @stream, that what the memory holds is not needed any more: pages that would be moved
 * are not. Until it is written again, what it holds is undefined. Blocks no thread. Any thread.
 *
 * Errors: as [method@Buffer.prefetch]; `NOT_SUPPORTED` for a driver older than CUDA 13.0, and on the legacy default stream.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_buffer_discard (GCudaBuffer *self,
                      GCudaStream *stream,
                      GError **error)
{
  g_return_val_if_fail (GCUDA_IS_BUFFER (self), FALSE);

  return move (&self, 1, DISCARD, NULL, stream, "discarding memory", error);
}

/**
 * gcuda_buffer_discard_batch:
 * @buffers: (array length=n_buffers): buffers of managed memory
 * @n_buffers: how many
 * @stream: the stream that does it
 * @error: return location for an error, or %NULL
 *
 * Discards what many buffers hold; see [method@Buffer.discard]. All are checked before the first is discarded.
 *
 * Errors: as there; `INVALID_ARGUMENT` for buffers that overlap.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_buffer_discard_batch (GCudaBuffer **buffers,
                            gsize n_buffers,
                            GCudaStream *stream,
                            GError **error)
{
  return move (buffers, n_buffers, DISCARD, NULL, stream, "discarding a batch of buffers", error);
}

/**
 * gcuda_buffer_discard_and_prefetch:
 * @self: a buffer of managed memory
 * @location: where to make room for it
 * @stream: the stream that does it
 * @error: return location for an error, or %NULL
 *
 * Discards what the memory holds, and has its pages at a place, in the order of @stream: as a prefetch, but nothing is
 * copied. Blocks no thread. Any thread.
 *
 * Errors: as [method@Buffer.discard].
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_buffer_discard_and_prefetch (GCudaBuffer *self,
                                   GCudaLocation *location,
                                   GCudaStream *stream,
                                   GError **error)
{
  g_return_val_if_fail (GCUDA_IS_BUFFER (self), FALSE);

  return move (&self, 1, DISCARD | PREFETCH, location, stream, "discarding and prefetching memory", error);
}

/**
 * gcuda_buffer_discard_and_prefetch_batch:
 * @buffers: (array length=n_buffers): buffers of managed memory
 * @n_buffers: how many
 * @location: where to make room for them
 * @stream: the stream that does it
 * @error: return location for an error, or %NULL
 *
 * Discards what many buffers hold, and has their pages at a place; see [method@Buffer.discard_and_prefetch].
 *
 * Errors: as [func@Buffer.discard_batch].
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_buffer_discard_and_prefetch_batch (GCudaBuffer **buffers,
                                         gsize n_buffers,
                                         GCudaLocation *location,
                                         GCudaStream *stream,
                                         GError **error)
{
  return move (buffers, n_buffers, DISCARD | PREFETCH, location, stream, "discarding and prefetching a batch of buffers", error);
}
