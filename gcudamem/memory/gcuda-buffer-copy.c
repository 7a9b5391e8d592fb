/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-buffer-copy.h"

#include "gcuda-buffer-private.h"
#include "gcuda-copy-attributes-private.h"

/* The two sides of a copy, held. For two devices their primary contexts are named to the driver, which then needs no peer
 * access. */
typedef struct
{
  GCudaAllocation *source;
  GCudaAllocation *destination;
  GCudaContextBox *source_context;
  GCudaContextBox *destination_context;
} CopySides;

static void
copy_sides_drop (CopySides *sides)
{
  if (sides->source_context != NULL)
    _gcuda_context_box_unuse (sides->source_context);
  if (sides->destination_context != NULL)
    _gcuda_context_box_unuse (sides->destination_context);
  if (sides->source != NULL)
    _gcuda_allocation_unhold (sides->source);
  if (sides->destination != NULL)
    _gcuda_allocation_unhold (sides->destination);
}

/* Where all is on one device, the stream's too, the driver needs no contexts to be named. */
static gboolean
copy_sides_hold_contexts (CopySides *sides,
                          GCudaStream *stream,
                          const char *what,
                          GError **error)
{
  GCudaDevice *from = _gcuda_allocation_get_device (sides->source);
  GCudaDevice *to = _gcuda_allocation_get_device (sides->destination);

  if (from == NULL || to == NULL ||
      (from == to && (!GCUDA_IS_STREAM (stream) || gcuda_stream_get_device (stream) == from)))
    return TRUE;
  sides->source_context = _gcuda_device_hold_primary_context (from, what, error);
  if (sides->source_context == NULL)
    return FALSE;
  sides->destination_context = _gcuda_device_hold_primary_context (to, what, error);
  return sides->destination_context != NULL;
}

/* Whether the driver is left to find out what the memory is: no call may name host memory as a device's. */
static gboolean
copy_sides_are_on_host (const CopySides *sides,
                        gboolean *from_host,
                        gboolean *to_host)
{
  *from_host = _gcuda_allocation_is_on_host (sides->source);
  *to_host = _gcuda_allocation_is_on_host (sides->destination);
  return *from_host || *to_host;
}

/* Where host memory and two devices are in it, the driver looks at the copy from the current context, and crashes where there
 * is none. It has to be that of the memory on a device, if one is, and else the stream's. But for a default stream the current
 * context says which stream it is, and stays. */
static CUresult
copy_sides_enter (const CopySides *sides,
                  gboolean from_host,
                  gboolean to_host,
                  const GCudaStreamCall *call,
                  GCudaContextScope *scope)
{
  GCudaContextBox *context = call->box->context;

  *scope = (GCudaContextScope){ FALSE };
  if (sides->source_context == NULL || _gcuda_stream_box_is_default (call->box))
    return CUDA_SUCCESS;
  if (from_host != to_host)
    context = from_host ? sides->destination_context : sides->source_context;
  return _gcuda_context_scope_enter (scope, context->handle);
}

static CUresult
copy_sides_leave (GCudaContextScope *scope,
                  CUresult result)
{
  CUresult left = _gcuda_context_scope_leave (scope);

  return result != CUDA_SUCCESS ? result : left;
}

static gboolean
copy_sides_span (const CopySides *sides)
{
  return _gcuda_allocation_spans (sides->source) || _gcuda_allocation_spans (sides->destination);
}

static gboolean
copy_sides_check (const CopySides *sides,
                  const char *what,
                  GError **error)
{
  return sides->source_context == NULL || (_gcuda_allocation_check_portable (sides->source, what, error) && _gcuda_allocation_check_portable (sides->destination, what, error));
}

/* A part of a buffer that is copied: layers of rows. */
typedef struct
{
  GCudaBuffer *buffer;
  guint64 offset;
  guint64 pitch;  /* from row to row, in bytes */
  guint64 height; /* from layer to layer, in rows */
  CUdeviceptr address;
} Place;

typedef struct
{
  guint64 row_size;
  guint64 rows;
  guint64 layers;
} Shape;

static gboolean
is_empty (const Shape *shape)
{
  return shape->row_size == 0 || shape->rows == 0 || shape->layers == 0;
}

/* How many bytes from the first to the last. */
static gboolean
measure (const Place *place,
         const Shape *shape,
         guint64 *extent,
         const char *what,
         GError **error)
{
  guint64 slice, layers, rows;

  *extent = 0;
  if (is_empty (shape))
    return TRUE;
  if (place->pitch < shape->row_size)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT,
                        "%s: rows of %" G_GUINT64_FORMAT " bytes do not fit a pitch of %" G_GUINT64_FORMAT, what, shape->row_size, place->pitch);
  if (place->height < shape->rows)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT,
                        "%s: layers of %" G_GUINT64_FORMAT " rows do not fit a height of %" G_GUINT64_FORMAT, what, shape->rows, place->height);
  if (!g_uint64_checked_mul (&slice, place->pitch, shape->layers > 1 ? place->height : 0) || !g_uint64_checked_mul (&layers, slice, shape->layers - 1) ||
      !g_uint64_checked_mul (&rows, place->pitch, shape->rows - 1) || !g_uint64_checked_add (extent, layers, rows) ||
      !g_uint64_checked_add (extent, *extent, shape->row_size))
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT,
                        "%s: %" G_GUINT64_FORMAT " layers of %" G_GUINT64_FORMAT " rows, with a pitch of %" G_GUINT64_FORMAT " bytes, are more than an address space holds", what, shape->layers, MAX (shape->rows, place->height), place->pitch);
  return TRUE;
}

#define MAX_INTERLEAVED_ROWS (1 << 20)

/* Whether two sets of rows have a byte in common. Rows of a set do not overlap: a pitch is no smaller than a row. */
static gboolean
rows_overlap (guint64 a,
              guint64 a_pitch,
              guint64 b,
              guint64 b_pitch,
              guint64 row_size,
              guint64 rows)
{
  guint64 i = 0, j = 0;

  if (row_size == 0 || rows == 0)
    return FALSE;
  if (a + a_pitch * (rows - 1) + row_size <= b || b + b_pitch * (rows - 1) + row_size <= a)
    return FALSE;
  if (a_pitch == b_pitch)
    {
      guint64 distance = a > b ? a - b : b - a;

      /* Within each other's extent; so it is the place within a row that counts. */
      return distance % a_pitch < row_size || (distance % a_pitch > a_pitch - row_size && distance / a_pitch + 1 < rows);
    }
  /* Rows that interleave in two rhythms are compared one by one; so many of them nobody has. */
  if (rows > MAX_INTERLEAVED_ROWS)
    return TRUE;
  while (i < rows && j < rows)
    {
      guint64 row_a = a + i * a_pitch, row_b = b + j * b_pitch;

      if (row_a + row_size <= row_b)
        i++;
      else if (row_b + row_size <= row_a)
        j++;
      else
        return TRUE;
    }
  return FALSE;
}

/* The same of layers of rows. With different distances from row to row or from layer to layer, that one lies within the
 * other's extent is enough. */
static gboolean
boxes_overlap (const Place *a,
               guint64 a_extent,
               const Place *b,
               guint64 b_extent,
               const Shape *shape)
{
  gint64 slice, distance;

  if (a_extent == 0 || a->address + a_extent <= b->address || b->address + b_extent <= a->address)
    return FALSE;
  if (shape->layers == 1)
    return rows_overlap (a->address, a->pitch, b->address, b->pitch, shape->row_size, shape->rows);
  if (a->pitch != b->pitch || a->height != b->height || shape->layers > MAX_INTERLEAVED_ROWS)
    return TRUE;
  slice = (gint64) (a->pitch * a->height);
  distance = (gint64) (b->address - a->address);
  for (gint64 layer = 1 - (gint64) shape->layers; layer < (gint64) shape->layers; layer++)
    {
      const gint64 rest = distance - layer * slice, row = rest / (gint64) a->pitch;

      /* Rounded towards 0: the row beside it may be the one. */
      for (gint64 i = row - 1; i <= row + 1; i++)
        if (ABS (i) < (gint64) shape->rows && ABS (rest - i * (gint64) a->pitch) < (gint64) shape->row_size)
          return TRUE;
    }
  return FALSE;
}

static CUresult
copy_linear (const CopySides *sides,
             CUdeviceptr to,
             CUdeviceptr from,
             gsize size,
             const GCudaStreamCall *call)
{
  const CUstream handle = call->handle;
  gboolean from_host, to_host;

  if (G_UNLIKELY (copy_sides_are_on_host (sides, &from_host, &to_host)))
    {
      GCudaContextScope scope;
      CUresult result = copy_sides_enter (sides, from_host, to_host, call, &scope);

      if (result == CUDA_SUCCESS)
        result = copy_sides_leave (&scope, _gcuda_driver.MemcpyAsync (to, from, size, handle));
      return result;
    }
  if (sides->source_context != NULL)
    return _gcuda_driver.MemcpyPeerAsync (to, sides->destination_context->handle, from, sides->source_context->handle, size, handle);
  return _gcuda_driver.MemcpyDtoDAsync (to, from, size, handle);
}

static CUresult
copy_rows (const Place *to,
           const Place *from,
           const Shape *shape,
           CUstream handle)
{
  const CUDA_MEMCPY2D copy = {
    .srcMemoryType = CU_MEMORYTYPE_DEVICE,
    .srcDevice = from->address,
    .srcPitch = from->pitch,
    .dstMemoryType = CU_MEMORYTYPE_DEVICE,
    .dstDevice = to->address,
    .dstPitch = to->pitch,
    .WidthInBytes = shape->row_size,
    .Height = shape->rows,
  };

  return _gcuda_driver.Memcpy2DAsync (&copy, handle);
}

static CUresult
copy_layers (const CopySides *sides,
             const Place *to,
             const Place *from,
             const Shape *shape,
             const GCudaStreamCall *call)
{
  const CUstream handle = call->handle;
  gboolean from_host, to_host;
  const gboolean on_host = copy_sides_are_on_host (sides, &from_host, &to_host);
  /* How far apart layers are is for more than one; the driver refuses what it can't multiply. */
  const guint64 from_height = shape->layers > 1 ? from->height : shape->rows, to_height = shape->layers > 1 ? to->height : shape->rows;
  GCudaContextScope scope;
  CUresult result;

  if (sides->source_context != NULL && !on_host)
    {
      const CUDA_MEMCPY3D_PEER copy = {
        .srcMemoryType = CU_MEMORYTYPE_DEVICE,
        .srcDevice = from->address,
        .srcContext = sides->source_context->handle,
        .srcPitch = from->pitch,
        .srcHeight = from_height,
        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
        .dstDevice = to->address,
        .dstContext = sides->destination_context->handle,
        .dstPitch = to->pitch,
        .dstHeight = to_height,
        .WidthInBytes = shape->row_size,
        .Height = shape->rows,
        .Depth = shape->layers,
      };

      return _gcuda_driver.Memcpy3DPeerAsync (&copy, handle);
    }
  if (shape->layers == 1 && !on_host)
    return copy_rows (to, from, shape, handle);
  result = copy_sides_enter (sides, from_host, to_host, call, &scope);
  if (result == CUDA_SUCCESS)
    {
      const CUmemorytype type = on_host ? CU_MEMORYTYPE_UNIFIED : CU_MEMORYTYPE_DEVICE;
      const CUDA_MEMCPY3D copy = {
        .srcMemoryType = type,
        .srcDevice = from->address,
        .srcPitch = from->pitch,
        .srcHeight = from_height,
        .dstMemoryType = type,
        .dstDevice = to->address,
        .dstPitch = to->pitch,
        .dstHeight = to_height,
        .WidthInBytes = shape->row_size,
        .Height = shape->rows,
        .Depth = shape->layers,
      };

      result = copy_sides_leave (&scope, _gcuda_driver.Memcpy3DAsync (&copy, handle));
    }
  return result;
}

/* Holds the allocation of a place, and finds its address. */
static GCudaAllocation *
hold_place (Place *place,
            const Shape *shape,
            guint64 *extent,
            const char *what,
            GError **error)
{
  if (!measure (place, shape, extent, what, error))
    return NULL;
  return _gcuda_buffer_hold_range (place->buffer, place->offset, *extent, what, &place->address, error);
}

static gboolean
copy (Place *from,
      Place *to,
      const Shape *shape,
      GCudaStream *stream,
      const char *what,
      GError **error)
{
  CopySides sides = { NULL };
  GCudaStreamCall call;
  guint64 from_extent, to_extent;
  CUresult result = CUDA_SUCCESS;
  gboolean success = FALSE;

  sides.source = hold_place (from, shape, &from_extent, what, error);
  if (sides.source != NULL)
    sides.destination = hold_place (to, shape, &to_extent, what, error);
  if (sides.destination != NULL && _gcuda_allocation_check_writable (sides.destination, what, error))
    {
      if (boxes_overlap (from, from_extent, to, to_extent, shape))
        {
          _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: source and destination overlap", what);
        }
      else if (copy_sides_hold_contexts (&sides, stream, what, error) &&
               copy_sides_check (&sides, what, error) &&
               _gcuda_stream_call_begin_on (&call, stream, sides.source, sides.destination, what, error) &&
               _gcuda_stream_call_enter (&call, copy_sides_span (&sides), what, error))
        {
          if (!is_empty (shape))
            result = shape->rows == 1 && shape->layers == 1 ? copy_linear (&sides, to->address, from->address, shape->row_size, &call) : copy_layers (&sides, to, from, shape, &call);
          success = _gcuda_stream_call_end (&call, result, what, error);
        }
    }
  copy_sides_drop (&sides);
  return success;
}

/**
 * gcuda_buffer_copy_range:
 * @self: the buffer to copy from
 * @offset: where to start in @self, in bytes
 * @destination: the buffer to copy to
 * @destination_offset: where to start in @destination, in bytes
 * @size: how many bytes
 * @stream: the stream that does it
 * @error: return location for an error, or %NULL
 *
 * Copies a part of a buffer to another, in the order of @stream. Between two devices it works whether or not they have
 * access to each other's memory. Blocks no thread; but from one piece of page-locked memory of a pool to another the driver
 * may copy at once, when all before it is done. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for parts that overlap or do not lie in their buffers, no buffer, or no stream; `CLOSED`;
 * `FORKED`; `NOT_SUPPORTED` between a device and memory of the host that belongs to another, unless it is registered or of
 * [ctor@PinnedMemoryResource.new_unpooled]; what the driver answers. Then nothing was written.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_buffer_copy_range (GCudaBuffer *self,
                         guint64 offset,
                         GCudaBuffer *destination,
                         guint64 destination_offset,
                         guint64 size,
                         GCudaStream *stream,
                         GError **error)
{
  Place from = { self, offset, size, 1, 0 }, to = { destination, destination_offset, size, 1, 0 };
  const Shape shape = { size, 1, 1 };

  g_return_val_if_fail (GCUDA_IS_BUFFER (self), FALSE);

  return copy (&from, &to, &shape, stream, "copying a buffer", error);
}

/**
 * gcuda_buffer_copy_to:
 * @self: the buffer to copy from
 * @destination: the buffer to copy to, of the same size
 * @stream: the stream that does it
 * @error: return location for an error, or %NULL
 *
 * Copies the whole buffer; see [method@Buffer.copy_range].
 *
 * Errors: `INVALID_ARGUMENT` for buffers of two sizes, and as there.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_buffer_copy_to (GCudaBuffer *self,
                      GCudaBuffer *destination,
                      GCudaStream *stream,
                      GError **error)
{
  guint64 size;

  g_return_val_if_fail (GCUDA_IS_BUFFER (self), FALSE);

  size = gcuda_buffer_get_size (self);
  if (GCUDA_IS_BUFFER (destination) && gcuda_buffer_get_size (destination) != size &&
      !gcuda_buffer_is_closed (self) && !gcuda_buffer_is_closed (destination))
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT,
                        "copying a buffer: the source has %" G_GUINT64_FORMAT " bytes, the destination %" G_GUINT64_FORMAT, size, gcuda_buffer_get_size (destination));
  return gcuda_buffer_copy_range (self, 0, destination, 0, size, stream, error);
}

/**
 * gcuda_buffer_copy_2d:
 * @self: the buffer to copy from
 * @offset: where the first row starts in @self, in bytes
 * @pitch: how far apart rows are in @self, in bytes
 * @destination: the buffer to copy to
 * @destination_offset: where the first row starts in @destination, in bytes
 * @destination_pitch: how far apart rows are in @destination, in bytes
 * @row_size: how many bytes a row has
 * @rows: how many rows
 * @stream: the stream that does it
 * @error: return location for an error, or %NULL
 *
 * Copies a rectangle to another, in the order of @stream. What lies between the rows is not touched. Blocks no thread. Any
 * thread.
 *
 * Errors: as [method@Buffer.copy_range]; `INVALID_ARGUMENT` for a pitch that is smaller than a row.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_buffer_copy_2d (GCudaBuffer *self,
                      guint64 offset,
                      guint64 pitch,
                      GCudaBuffer *destination,
                      guint64 destination_offset,
                      guint64 destination_pitch,
                      guint64 row_size,
                      guint64 rows,
                      GCudaStream *stream,
                      GError **error)
{
  Place from = { self, offset, pitch, rows, 0 }, to = { destination, destination_offset, destination_pitch, rows, 0 };
  const Shape shape = { row_size, rows, 1 };

  g_return_val_if_fail (GCUDA_IS_BUFFER (self), FALSE);

  return copy (&from, &to, &shape, stream, "copying rows of a buffer", error);
}

/**
 * gcuda_buffer_copy_3d:
 * @self: the buffer to copy from
 * @offset: where the first row starts in @self, in bytes
 * @pitch: how far apart rows are in @self, in bytes
 * @height: how far apart layers are in @self, in rows
 * @destination: the buffer to copy to
 * @destination_offset: where the first row starts in @destination, in bytes
 * @destination_pitch: how far apart rows are in @destination, in bytes
 * @destination_height: how far apart layers are in @destination, in rows
 * @row_size: how many bytes a row has
 * @rows: how many rows a layer has
 * @layers: how many layers
 * @stream: the stream that does it
 * @error: return location for an error, or %NULL
 *
 * Copies a box, layers of rows, to another, in the order of @stream. What lies between the rows and the layers is not touched.
 * Blocks no thread. Any thread.
 *
 * Errors: as [method@Buffer.copy_2d]; `INVALID_ARGUMENT` for a height that is smaller than a layer, and for two boxes of one
 * buffer of which one lies within the extent of the other, unless their pitches and heights are the same and they have no byte
 * in common.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_buffer_copy_3d (GCudaBuffer *self,
                      guint64 offset,
                      guint64 pitch,
                      guint64 height,
                      GCudaBuffer *destination,
                      guint64 destination_offset,
                      guint64 destination_pitch,
                      guint64 destination_height,
                      guint64 row_size,
                      guint64 rows,
                      guint64 layers,
                      GCudaStream *stream,
                      GError **error)
{
  Place from = { self, offset, pitch, height, 0 }, to = { destination, destination_offset, destination_pitch, destination_height, 0 };
  const Shape shape = { row_size, rows, layers };

  g_return_val_if_fail (GCUDA_IS_BUFFER (self), FALSE);

  return copy (&from, &to, &shape, stream, "copying layers of a buffer", error);
}

/* Batches */

typedef struct
{
  gsize count; /* of those that are not empty */
  CopySides *sides;
  CUdeviceptr *sources;
  CUdeviceptr *destinations;
  size_t *sizes; /* as they were checked: a buffer may grow meanwhile */
  gboolean spans;
  gboolean devices; /* more than one */
} Batch;

static void
batch_clear (Batch *self)
{
  for (gsize i = 0; i < self->count; i++)
    copy_sides_drop (&self->sides[i]);
  g_free (self->sides);
  g_free (self->sources);
  g_free (self->destinations);
  g_free (self->sizes);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Batch, batch_clear)

static gboolean
batch_add (Batch *self,
           gsize number,
           GCudaBuffer *source,
           GCudaBuffer *destination,
           GCudaStream *stream,
           const char *what,
           GError **error)
{
  CopySides *sides = &self->sides[self->count];
  CUdeviceptr *from = &self->sources[self->count], *to = &self->destinations[self->count];
  guint64 size;

  sides->source = _gcuda_buffer_hold_range (source, 0, 0, what, from, error);
  if (sides->source == NULL)
    return FALSE;
  /* From here on it is the batch's to drop. */
  self->count++;
  sides->destination = _gcuda_buffer_hold_range (destination, 0, 0, what, to, error);
  if (sides->destination == NULL || !_gcuda_allocation_check_writable (sides->destination, what, error))
    return FALSE;
  size = self->sizes[self->count - 1] = gcuda_buffer_get_size (source);
  if (size != gcuda_buffer_get_size (destination))
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT,
                        "%s: source %" G_GSIZE_FORMAT " has %" G_GUINT64_FORMAT " bytes, its destination %" G_GUINT64_FORMAT,
                        what, number, size, gcuda_buffer_get_size (destination));
  if (size > 0 && *from < *to + size && *to < *from + size)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: source and destination %" G_GSIZE_FORMAT " overlap", what, number);
  if (!copy_sides_hold_contexts (sides, stream, what, error) || !copy_sides_check (sides, what, error))
    return FALSE;
  self->spans |= copy_sides_span (sides);
  self->devices |= sides->source_context != NULL;
  if (size == 0)
    {
      copy_sides_drop (sides);
      memset (sides, 0, sizeof *sides);
      self->count--;
    }
  return TRUE;
}

/**
 * gcuda_buffer_copy_batch_with_attributes:
 * @sources: (array length=n_sources): the buffers to copy from
 * @n_sources: how many
 * @destinations: (array length=n_destinations): the buffers to copy to
 * @n_destinations: how many; as many as sources
 * @attributes: (nullable): how to copy; %NULL for copies whose sources are read in the order of @stream
 * @stream: the stream that does it
 * @error: return location for an error, or %NULL
 *
 * Copies many whole buffers, each to the one of the same place and size, in the order of @stream. All are checked before
 * the first is copied. No order among the copies is promised, so none of them may write what another reads or writes. It is
 * one driver call (`cuMemcpyBatchAsync`) where the driver has that, and the copies are of one device; else one for each.
 * Blocks no thread, but with `DURING_CALL`. Any thread.
 *
 * Errors: as [method@Buffer.copy_to]; `INVALID_ARGUMENT` for lists of two lengths, or attributes that make no sense;
 * `NOT_SUPPORTED` for an order of the sources, `DURING_CALL`, that can only be kept by a driver of CUDA 13.0 or newer, within
 * one device, on a stream that is neither the legacy default stream nor being captured. If the driver refuses one of the
 * copies, others may be done.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_buffer_copy_batch_with_attributes (GCudaBuffer **sources,
                                         gsize n_sources,
                                         GCudaBuffer **destinations,
                                         gsize n_destinations,
                                         GCudaCopyAttributes *attributes,
                                         GCudaStream *stream,
                                         GError **error)
{
  static const char what[] = "copying a batch of buffers";
  g_auto (Batch) batch = { 0 };
  GCudaMemcpyAttributes resolved;
  GCudaStreamCall call;
  CUresult result = CUDA_SUCCESS;
  gboolean whole, kept = TRUE;
  gsize queued = 0;

  if (n_sources != n_destinations)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: %" G_GSIZE_FORMAT " sources for %" G_GSIZE_FORMAT " destinations", what, n_sources, n_destinations);
  if (!_gcuda_copy_attributes_resolve (attributes, &resolved, what, error))
    return FALSE;
  batch.sides = g_new0 (CopySides, MAX (n_sources, 1));
  batch.sources = g_new (CUdeviceptr, MAX (n_sources, 1));
  batch.destinations = g_new (CUdeviceptr, MAX (n_sources, 1));
  batch.sizes = g_new (size_t, MAX (n_sources, 1));
  for (gsize i = 0; i < n_sources; i++)
    if (!batch_add (&batch, i, sources[i], destinations[i], stream, what, error))
      return FALSE;
  if (!_gcuda_stream_call_begin_on (&call, stream, NULL, NULL, what, error))
    return FALSE;
  whole = batch.count > 0 && !batch.devices && _gcuda_driver_has (GCUDA_DRIVER_GROUP_COPY_BATCHES) && call.box->kind != GCUDA_STREAM_LEGACY && call.graph == NULL;
  if (resolved.source_order == GCUDA_SOURCE_ORDER_DURING_CALL && !whole && batch.count > 0)
    {
      _gcuda_stream_call_end (&call, CUDA_SUCCESS, what, NULL);
      return _gcuda_fail (error, GCUDA_ERROR_NOT_SUPPORTED, "%s: the sources can't be read during the call: that needs a driver of CUDA 13.0 or newer, memory of one device, and a stream that is neither the legacy default stream nor being captured", what);
    }
  if (!_gcuda_stream_call_enter (&call, whole || batch.spans, what, error))
    return FALSE;
  for (gsize i = 0; i < batch.count && kept; i++)
    kept = _gcuda_stream_call_keep_allocation (&call, batch.sides[i].source, what, error) &&
           _gcuda_stream_call_keep_allocation (&call, batch.sides[i].destination, what, error);
  if (kept && whole)
    {
      size_t first = 0;

      result = _gcuda_driver.MemcpyBatchAsync (batch.destinations, batch.sources, batch.sizes, batch.count, &resolved, &first, 1, call.handle);
      queued = result == CUDA_SUCCESS;
    }
  for (gsize i = 0; kept && !whole && i < batch.count && result == CUDA_SUCCESS; i++)
    {
      result = copy_linear (&batch.sides[i], batch.destinations[i], batch.sources[i], batch.sizes[i], &call);
      queued += result == CUDA_SUCCESS;
    }
  /* Those before the one that was refused are in the graph. */
  _gcuda_stream_call_keep_end (&call, queued > 0);
  return _gcuda_stream_call_end (&call, result, what, kept ? error : NULL) && kept;
}

/**
 * gcuda_buffer_copy_batch:
 * @sources: (array length=n_sources): the buffers to copy from
 * @n_sources: how many
 * @destinations: (array length=n_destinations): the buffers to copy to
 * @n_destinations: how many; as many as sources
 * @stream: the stream that does it
 * @error: return location for an error, or %NULL
 *
 * Copies many whole buffers; see [func@Buffer.copy_batch_with_attributes]. All is in the order of @stream.
 *
 * Errors: as there.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_buffer_copy_batch (GCudaBuffer **sources,
                         gsize n_sources,
                         GCudaBuffer **destinations,
                         gsize n_destinations,
                         GCudaStream *stream,
                         GError **error)
{
  return gcuda_buffer_copy_batch_with_attributes (sources, n_sources, destinations, n_destinations, NULL, stream, error);
}
