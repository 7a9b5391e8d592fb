/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Copies and fills of all shapes come down to one form of each: rows of planes.
 * The driver checks at the call what it knows; the rest when the work runs. */

#include "sim-private.h"

void
sim_work_clear (SimWork *work)
{
  switch (work->kind)
    {
    case SIM_WORK_COPY:
      g_free (work->copy.staged);
      break;
    case SIM_WORK_RECORD:
    case SIM_WORK_WAIT:
      if (work->event.event != NULL)
        sim_event_unref (work->event.event);
      break;
    case SIM_WORK_ALLOC:
    case SIM_WORK_FREE:
      g_free (work->memory.params);
      if (work->memory.pool != NULL)
        sim_pool_unref (work->memory.pool);
      break;
    case SIM_WORK_CHILD:
      if (work->child.graph != NULL)
        sim_graph_unref (work->child.graph);
      break;
    case SIM_WORK_CONDITIONAL:
      for (guint i = 0; i < work->conditional.n; i++)
        sim_graph_unref (work->conditional.bodies[i]);
      g_free (work->conditional.bodies);
      g_free (work->conditional.handles);
      break;
    case SIM_WORK_EMPTY:
    case SIM_WORK_SET:
    case SIM_WORK_HOST:
    case SIM_WORK_CALLBACK:
    case SIM_WORK_DESTRUCTOR:
    case SIM_WORK_WRITE_VALUE:
    case SIM_WORK_FINISH:
    default:
      break;
    }
  memset (work, 0, sizeof *work);
}

/* What a launch runs: the parameters of a node, its memory and events shared. */
void
sim_work_copy (SimWork *to, const SimWork *from)
{
  *to = *from;
  switch (from->kind)
    {
    case SIM_WORK_COPY:
      if (from->copy.staged != NULL)
        to->copy.staged = g_memdup2 (from->copy.staged, from->copy.staged_size);
      break;
    case SIM_WORK_RECORD:
    case SIM_WORK_WAIT:
      if (from->event.event != NULL)
        sim_event_ref (from->event.event);
      break;
    case SIM_WORK_ALLOC:
    case SIM_WORK_FREE:
      if (from->memory.params != NULL)
        to->memory.params = g_memdup2 (from->memory.params, sizeof *from->memory.params);
      if (from->memory.pool != NULL)
        from->memory.pool->refs++;
      break;
    case SIM_WORK_CHILD:
      sim_graph_ref (to->child.graph);
      break;
    case SIM_WORK_CONDITIONAL:
      to->conditional.bodies = g_memdup2 (from->conditional.bodies, from->conditional.n * sizeof *from->conditional.bodies);
      to->conditional.handles = g_memdup2 (from->conditional.handles, from->conditional.n * sizeof *from->conditional.handles);
      for (guint i = 0; i < from->conditional.n; i++)
        sim_graph_ref (to->conditional.bodies[i]);
      break;
    case SIM_WORK_EMPTY:
    case SIM_WORK_SET:
    case SIM_WORK_HOST:
    case SIM_WORK_CALLBACK:
    case SIM_WORK_DESTRUCTOR:
    case SIM_WORK_WRITE_VALUE:
    case SIM_WORK_FINISH:
    default:
      break;
    }
}

static gsize
extent (gsize width, gsize height, gsize depth, gsize pitch, gsize slice)
{
  return (depth - 1) * slice + (height - 1) * pitch + width;
}

/* ---- execution ---- */

static void
guard (guint64 address, gsize size, gboolean on)
{
  if (sim_host_view (address, size) == (gpointer) address)
    sim_check_guards (address, size, on);
}

void
sim_work_guards (const SimWork *work, gboolean on)
{
  const SimCopy *copy = &work->copy;

  switch ((int) work->kind)
    {
    case SIM_WORK_SET:
      guard (work->set.dst, extent (work->set.width * work->set.element, work->set.height, 1, work->set.pitch, 0), on);
      break;
    case SIM_WORK_COPY:
      guard (copy->dst, extent (copy->width, copy->height, copy->depth, copy->dst_pitch, copy->dst_slice), on);
      if (copy->staged == NULL)
        guard (copy->src, extent (copy->width, copy->height, copy->depth, copy->src_pitch, copy->src_slice), on);
      break;
    case SIM_WORK_WRITE_VALUE:
      guard (work->write.address, work->write.wide ? 8 : 4, on);
      break;
    default:
      break;
    }
}

gboolean
sim_run_set (SimContext *context, const SimWork *work)
{
  guint element = work->set.element;

  for (gsize y = 0; y < work->set.height; y++)
    {
      guint64 row = work->set.dst + y * work->set.pitch;
      gpointer view;

      if (!sim_range_accessible (row, work->set.width * element, TRUE, context->device))
        return FALSE;
      view = sim_host_view (row, work->set.width * element);
      if (element == 1)
        memset (view, (int) work->set.value, work->set.width);
      else if (element == 2)
        {
          for (gsize x = 0; x < work->set.width; x++)
            ((guint16 *) view)[x] = (guint16) work->set.value;
        }
      else
        {
          for (gsize x = 0; x < work->set.width; x++)
            ((guint32 *) view)[x] = work->set.value;
        }
    }
  return TRUE;
}

static gboolean
reachable (guint64 address, gsize size, gboolean write, SimContext *context, gboolean device)
{
  /* A peer copy goes where the stream's device may have no access: what is
   * asked then is only that there is memory. */
  if (!device || sim_is_host_address (address))
    return TRUE;
  if (sim_range_accessible (address, size, write, context->device))
    return TRUE;
  for (guint i = 0; i < sim.n_devices; i++)
    {
      if (sim_range_accessible (address, size, write, sim.devices[i]))
        return TRUE;
    }
  return FALSE;
}

gboolean
sim_run_copy (SimContext *context, const SimWork *work)
{
  const SimCopy *copy = &work->copy;

  for (gsize z = 0; z < copy->depth; z++)
    {
      for (gsize y = 0; y < copy->height; y++)
        {
          guint64 dst = copy->dst + z * copy->dst_slice + y * copy->dst_pitch;
          guint64 src = copy->src + z * copy->src_slice + y * copy->src_pitch;

          if (!reachable (dst, copy->width, TRUE, context, copy->dst_device))
            return FALSE;
          if (copy->staged != NULL)
            memcpy (sim_host_view (dst, copy->width), copy->staged + (z * copy->height + y) * copy->width, copy->width);
          else if (!reachable (src, copy->width, FALSE, context, copy->src_device))
            return FALSE;
          else
            memmove (sim_host_view (dst, copy->width), sim_host_view (src, copy->width), copy->width);
        }
    }
  return TRUE;
}

/* ---- fills ---- */

CUresult
sim_check_set (const SimWork *work, SimDevice *device)
{
  gsize width = work->set.width * work->set.element;

  if (width == 0 || work->set.height == 0)
    return CUDA_SUCCESS;
  if (work->set.width > G_MAXSIZE / 8 || work->set.dst % work->set.element != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (work->set.height > 1 && (work->set.pitch < width || work->set.pitch % work->set.element != 0 || work->set.height > G_MAXINT64 / work->set.pitch))
    return CUDA_ERROR_INVALID_VALUE;
  return sim_check_range (work->set.dst, extent (width, work->set.height, 1, work->set.pitch, 0), TRUE, device, FALSE);
}

static CUresult
fill (CUdeviceptr dst, gsize pitch, guint32 value, guint element, gsize width, gsize height, CUstream handle, gboolean wait)
{
  SimWork work = { .kind = SIM_WORK_SET };
  SimStream *stream;
  CUresult result;

  SIM_TRY (sim_stream (handle, &stream));
  work.set.dst = dst;
  work.set.pitch = pitch;
  work.set.value = value;
  work.set.element = element;
  work.set.width = width;
  work.set.height = height;
  sim_building = stream->capture != NULL ? stream->capture->graph : NULL;
  result = sim_check_set (&work, stream->context->device);
  sim_building = NULL;
  if (result != CUDA_SUCCESS)
    return result;
  if (width == 0 || height == 0)
    return sim_capture_check_implicit (stream, TRUE);
  SIM_TRY (sim_submit (stream, &work));
  return wait && stream->capture == NULL ? sim_stream_wait (stream) : CUDA_SUCCESS;
}

#define FILL(bits, ctype)                                                                                                                                                     \
  SIM_ENTRY_DS (cuMemsetD##bits##_v2, 0, (CUdeviceptr, dstDevice), (ctype, value), (size_t, N))                                                                               \
  {                                                                                                                                                                           \
    return fill (dstDevice, N * (bits / 8), value, bits / 8, N, 1, NULL, TRUE);                                                                                               \
  }                                                                                                                                                                           \
  SIM_ENTRY_SZ (cuMemsetD##bits##Async, SIM_CALLBACK, (CUdeviceptr, dstDevice), (ctype, value), (size_t, N), (CUstream, hStream))                                             \
  {                                                                                                                                                                           \
    return fill (dstDevice, N * (bits / 8), value, bits / 8, N, 1, hStream, FALSE);                                                                                           \
  }                                                                                                                                                                           \
  SIM_ENTRY_DS (cuMemsetD2D##bits##_v2, 0, (CUdeviceptr, dstDevice), (size_t, dstPitch), (ctype, value), (size_t, Width), (size_t, Height))                                   \
  {                                                                                                                                                                           \
    return fill (dstDevice, dstPitch, value, bits / 8, Width, Height, NULL, TRUE);                                                                                            \
  }                                                                                                                                                                           \
  SIM_ENTRY_SZ (cuMemsetD2D##bits##Async, SIM_CALLBACK, (CUdeviceptr, dstDevice), (size_t, dstPitch), (ctype, value), (size_t, Width), (size_t, Height), (CUstream, hStream)) \
  {                                                                                                                                                                           \
    return fill (dstDevice, dstPitch, value, bits / 8, Width, Height, hStream, FALSE);                                                                                        \
  }

FILL (8, unsigned char)
FILL (16, unsigned short)
FILL (32, unsigned int)

/* ---- copies ---- */

typedef enum
{
  SIDE_KNOWN, /* must be memory of the driver */
  SIDE_HOST,  /* any host memory, or the driver's */
  SIDE_ANY,   /* found out by its address */
} SimSide;

/* Copies are looked at from the current context, whatever the stream. */
static SimDevice *
copying_device (SimStream *stream)
{
  SimContext *current;

  return sim_current_or_lost (&current) == CUDA_SUCCESS ? current->device : stream->context->device;
}

static CUresult
check_side (guint64 address, gsize size, SimSide side, gboolean write, SimDevice *device, gboolean peer, gboolean *known)
{
  SimAllocation *allocation = sim_allocation_find (address);

  *known = allocation != NULL;
  if (address == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (allocation == NULL)
    {
      if (side == SIDE_KNOWN || !sim_is_host_address (address))
        return CUDA_ERROR_INVALID_VALUE;
      return CUDA_SUCCESS;
    }
  /* A pool of the host's is no device memory, whoever may access it. */
  if (side == SIDE_KNOWN && allocation->kind == SIM_ALLOCATION_POOL && sim_pool_is_host (allocation->pool))
    return CUDA_ERROR_INVALID_VALUE;
  if (side != SIDE_KNOWN && allocation->kind == SIM_ALLOCATION_REGISTERED)
    {
      if (write && allocation->read_only)
        return CUDA_ERROR_INVALID_VALUE;
      /* May reach into ordinary memory behind it. */
      *known = size <= allocation->base + allocation->size - address;
      return CUDA_SUCCESS;
    }
  if (peer)
    {
      for (guint i = 0; i < sim.n_devices; i++)
        {
          if (sim_check_range (address, size, write, sim.devices[i], TRUE) == CUDA_SUCCESS)
            return CUDA_SUCCESS;
        }
    }
  return sim_check_range (address, size, write, device, TRUE);
}

/* Without a context a thread copies within one chunk of virtual memory only. */
static gboolean
crosses_chunks (guint64 address, gsize size)
{
  SimAllocation *allocation = sim_current_handle (sim_thread ()) == NULL ? sim_allocation_find (address) : NULL;

  return allocation != NULL && allocation->kind == SIM_ALLOCATION_MAPPED && address + size > allocation->base + allocation->size;
}

/* Takes the bytes at the call: ordinary memory may change once it returns. */
static void
stage (SimCopy *copy)
{
  copy->staged_size = copy->width * copy->height * copy->depth;
  copy->staged = g_malloc (copy->staged_size);
  for (gsize z = 0; z < copy->depth; z++)
    {
      for (gsize y = 0; y < copy->height; y++)
        memcpy (copy->staged + (z * copy->height + y) * copy->width,
                (gconstpointer) (copy->src + z * copy->src_slice + y * copy->src_pitch), copy->width);
    }
}

static CUresult
submit_copy (SimStream *stream, SimWork *work, gboolean wait)
{
  SimCopy *copy = &work->copy;
  gboolean to_pageable = !copy->dst_device;

  SIM_TRY (sim_capture_check_implicit (stream, TRUE));
  if (wait)
    {
      if (stream->capture != NULL)
        {
          sim_capture_invalidate (stream->capture);
          return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
      SIM_TRY (sim_capture_check_unsafe ());
    }
  else if (!copy->src_device && stream->capture == NULL)
    stage (copy);
  SIM_TRY (sim_submit (stream, work));
  if (wait || (to_pageable && stream->capture == NULL && !sim_thread ()->driver_thread))
    return sim_stream_wait (stream);
  return CUDA_SUCCESS;
}

static gboolean
host_may_change (guint64 address)
{
  SimAllocation *allocation = sim_allocation_find (address);

  return allocation != NULL && (allocation->kind == SIM_ALLOCATION_PINNED || allocation->kind == SIM_ALLOCATION_REGISTERED || allocation->kind == SIM_ALLOCATION_MANAGED ||
                                (allocation->kind == SIM_ALLOCATION_POOL && allocation->pool->device == NULL));
}

static CUmemorytype
type_of (SimSide side)
{
  return side == SIDE_HOST ? CU_MEMORYTYPE_HOST : side == SIDE_ANY ? CU_MEMORYTYPE_UNIFIED
                                                                   : CU_MEMORYTYPE_DEVICE;
}

static CUresult
copy_parts (guint64 dst, SimSide dst_side, guint64 src, SimSide src_side, gsize size, CUstream handle, gboolean peer, gboolean wait, gboolean at_call)
{
  SimWork work = { .kind = SIM_WORK_COPY };
  SimStream *stream;
  CUresult result;

  SIM_TRY (sim_stream (handle, &stream));
  if (size == 0)
    return sim_capture_check_implicit (stream, TRUE);
  sim_building = stream->capture != NULL ? stream->capture->graph : NULL;
  result = check_side (dst, size, dst_side, TRUE, copying_device (stream), peer, &work.copy.dst_device);
  if (result == CUDA_SUCCESS)
    result = check_side (src, size, src_side, FALSE, copying_device (stream), peer, &work.copy.src_device);
  sim_building = NULL;
  if (result == CUDA_SUCCESS && !peer && (crosses_chunks (dst, size) || crosses_chunks (src, size)))
    result = CUDA_ERROR_INVALID_VALUE;
  if (result != CUDA_SUCCESS)
    return result;
  work.copy.dst = dst;
  work.copy.src = src;
  work.copy.dst_type = type_of (dst_side);
  work.copy.src_type = type_of (src_side);
  work.copy.width = work.copy.dst_pitch = work.copy.src_pitch = size;
  work.copy.height = work.copy.depth = 1;
  /* What the host may change once the call is over */
  if (at_call && work.copy.src_device && host_may_change (src))
    stage (&work.copy);
  return submit_copy (stream, &work, wait);
}

static CUresult
copy_linear (guint64 dst, SimSide dst_side, guint64 src, SimSide src_side, gsize size, CUstream handle, gboolean peer, gboolean wait)
{
  return copy_parts (dst, dst_side, src, src_side, size, handle, peer, wait, FALSE);
}

SIM_ENTRY_DS (cuMemcpy, 0, (CUdeviceptr, dst), (CUdeviceptr, src), (size_t, ByteCount))
{
  return copy_linear (dst, SIDE_ANY, src, SIDE_ANY, ByteCount, NULL, FALSE, TRUE);
}

SIM_ENTRY_SZ (cuMemcpyAsync, SIM_CALLBACK, (CUdeviceptr, dst), (CUdeviceptr, src), (size_t, ByteCount), (CUstream, hStream))
{
  return copy_linear (dst, SIDE_ANY, src, SIDE_ANY, ByteCount, hStream, FALSE, FALSE);
}

SIM_ENTRY_DS (cuMemcpyHtoD_v2, 0, (CUdeviceptr, dstDevice), (const void *, srcHost), (size_t, ByteCount))
{
  return copy_linear (dstDevice, SIDE_KNOWN, (guintptr) srcHost, SIDE_HOST, ByteCount, NULL, FALSE, TRUE);
}

SIM_ENTRY_SZ (cuMemcpyHtoDAsync_v2, SIM_CALLBACK, (CUdeviceptr, dstDevice), (const void *, srcHost), (size_t, ByteCount), (CUstream, hStream))
{
  return copy_linear (dstDevice, SIDE_KNOWN, (guintptr) srcHost, SIDE_HOST, ByteCount, hStream, FALSE, FALSE);
}

SIM_ENTRY_DS (cuMemcpyDtoH_v2, 0, (void *, dstHost), (CUdeviceptr, srcDevice), (size_t, ByteCount))
{
  return copy_linear ((guintptr) dstHost, SIDE_HOST, srcDevice, SIDE_KNOWN, ByteCount, NULL, FALSE, TRUE);
}

SIM_ENTRY_SZ (cuMemcpyDtoHAsync_v2, SIM_CALLBACK, (void *, dstHost), (CUdeviceptr, srcDevice), (size_t, ByteCount), (CUstream, hStream))
{
  return copy_linear ((guintptr) dstHost, SIDE_HOST, srcDevice, SIDE_KNOWN, ByteCount, hStream, FALSE, FALSE);
}

SIM_ENTRY_DS (cuMemcpyDtoD_v2, 0, (CUdeviceptr, dstDevice), (CUdeviceptr, srcDevice), (size_t, ByteCount))
{
  return copy_linear (dstDevice, SIDE_KNOWN, srcDevice, SIDE_KNOWN, ByteCount, NULL, FALSE, TRUE);
}

SIM_ENTRY_SZ (cuMemcpyDtoDAsync_v2, SIM_CALLBACK, (CUdeviceptr, dstDevice), (CUdeviceptr, srcDevice), (size_t, ByteCount), (CUstream, hStream))
{
  return copy_linear (dstDevice, SIDE_KNOWN, srcDevice, SIDE_KNOWN, ByteCount, hStream, FALSE, FALSE);
}

static CUresult
copy_peer (CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context, gsize size, CUstream handle, gboolean wait)
{
  SimContext *context;

  SIM_TRY (sim_context (dst_context, &context));
  SIM_TRY (sim_context (src_context, &context));
  return copy_linear (dst, SIDE_KNOWN, src, SIDE_KNOWN, size, handle, TRUE, wait);
}

SIM_ENTRY_DS (cuMemcpyPeer, 0, (CUdeviceptr, dstDevice), (CUcontext, dstContext), (CUdeviceptr, srcDevice), (CUcontext, srcContext), (size_t, ByteCount))
{
  return copy_peer (dstDevice, dstContext, srcDevice, srcContext, ByteCount, NULL, TRUE);
}

SIM_ENTRY_SZ (cuMemcpyPeerAsync, SIM_CALLBACK, (CUdeviceptr, dstDevice), (CUcontext, dstContext), (CUdeviceptr, srcDevice), (CUcontext, srcContext), (size_t, ByteCount), (CUstream, hStream))
{
  return copy_peer (dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream, FALSE);
}

/* ---- 2-D and 3-D ---- */

static CUresult
side_of (CUmemorytype type, const void *host, CUdeviceptr device, guint64 *address, SimSide *side)
{
  switch ((int) type)
    {
    case CU_MEMORYTYPE_HOST:
      *address = (guintptr) host;
      *side = SIDE_HOST;
      return CUDA_SUCCESS;
    case CU_MEMORYTYPE_DEVICE:
      *address = device;
      *side = SIDE_KNOWN;
      return CUDA_SUCCESS;
    case CU_MEMORYTYPE_UNIFIED:
      *address = device;
      *side = SIDE_ANY;
      return CUDA_SUCCESS;
    case CU_MEMORYTYPE_ARRAY:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult
shape_side (gsize x, gsize y, gsize z, gsize *pitch, gsize rows, gsize width, gsize height, gsize depth, gsize *slice, guint64 *address)
{
  gsize limit = G_GUINT64_CONSTANT (1) << 47;

  if (x > limit || y > limit || z > limit || width > limit || height > limit || depth > limit || *pitch > limit || rows > limit)
    return CUDA_ERROR_INVALID_VALUE;
  if (*pitch == 0)
    *pitch = x + width;
  if ((height > 1 || depth > 1) && *pitch < x + width)
    return CUDA_ERROR_INVALID_VALUE;
  if (rows == 0)
    rows = y + height;
  if (depth > 1 && rows < y + height)
    return CUDA_ERROR_INVALID_VALUE;
  *slice = *pitch * rows;
  if ((height > 1 && *pitch > limit / height) || (depth > 1 && *slice > limit / depth))
    return CUDA_ERROR_INVALID_VALUE;
  *address += z * *slice + y * *pitch + x;
  return CUDA_SUCCESS;
}

/* Fills in WORK from a 3-D description. The caller sees to empty ones. */
CUresult
sim_copy_from_3d (const CUDA_MEMCPY3D *p, gboolean peer, SimWork *work, SimDevice *device)
{
  SimCopy *copy = &work->copy;
  guint64 dst_base, src_base;
  SimSide dst_side, src_side;

  work->kind = SIM_WORK_COPY;
  SIM_TRY (side_of (p->dstMemoryType, p->dstHost, p->dstDevice, &dst_base, &dst_side));
  SIM_TRY (side_of (p->srcMemoryType, p->srcHost, p->srcDevice, &src_base, &src_side));
  copy->width = p->WidthInBytes;
  copy->height = p->Height;
  copy->depth = p->Depth;
  copy->dst_pitch = p->dstPitch;
  copy->src_pitch = p->srcPitch;
  if (dst_base == 0 || src_base == 0)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (shape_side (p->dstXInBytes, p->dstY, p->dstZ, &copy->dst_pitch, p->dstHeight, copy->width, copy->height, copy->depth, &copy->dst_slice, &dst_base));
  SIM_TRY (shape_side (p->srcXInBytes, p->srcY, p->srcZ, &copy->src_pitch, p->srcHeight, copy->width, copy->height, copy->depth, &copy->src_slice, &src_base));
  copy->dst = dst_base;
  copy->src = src_base;
  copy->dst_type = p->dstMemoryType;
  copy->src_type = p->srcMemoryType;
  SIM_TRY (check_side (dst_base, extent (copy->width, copy->height, copy->depth, copy->dst_pitch, copy->dst_slice), dst_side, TRUE, device, peer, &copy->dst_device));
  return check_side (src_base, extent (copy->width, copy->height, copy->depth, copy->src_pitch, copy->src_slice), src_side, FALSE, device, peer, &copy->src_device);
}

static CUresult
copy_3d (const CUDA_MEMCPY3D *p, CUstream handle, gboolean peer, gboolean wait)
{
  SimWork work = { .kind = SIM_WORK_COPY };
  SimStream *stream;
  CUresult result;

  SIM_TRY (sim_stream (handle, &stream));
  if (p == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  if (p->WidthInBytes == 0 || p->Height == 0 || p->Depth == 0)
    return sim_capture_check_implicit (stream, TRUE);
  sim_building = stream->capture != NULL ? stream->capture->graph : NULL;
  result = sim_copy_from_3d (p, peer, &work, copying_device (stream));
  sim_building = NULL;
  if (result == CUDA_SUCCESS && (crosses_chunks (work.copy.dst, extent (work.copy.width, work.copy.height, work.copy.depth, work.copy.dst_pitch, work.copy.dst_slice)) ||
                                 crosses_chunks (work.copy.src, extent (work.copy.width, work.copy.height, work.copy.depth, work.copy.src_pitch, work.copy.src_slice))))
    result = CUDA_ERROR_INVALID_VALUE;
  if (result != CUDA_SUCCESS)
    return result;
  return submit_copy (stream, &work, wait);
}

static CUresult
copy_2d (const CUDA_MEMCPY2D *p, CUstream handle, gboolean wait)
{
  CUDA_MEMCPY3D q;

  if (p == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  memset (&q, 0, sizeof q);
  q.srcXInBytes = p->srcXInBytes;
  q.srcY = p->srcY;
  q.srcMemoryType = p->srcMemoryType;
  q.srcHost = p->srcHost;
  q.srcDevice = p->srcDevice;
  q.srcPitch = p->srcPitch;
  q.dstXInBytes = p->dstXInBytes;
  q.dstY = p->dstY;
  q.dstMemoryType = p->dstMemoryType;
  q.dstHost = p->dstHost;
  q.dstDevice = p->dstDevice;
  q.dstPitch = p->dstPitch;
  q.WidthInBytes = p->WidthInBytes;
  q.Height = p->Height;
  q.Depth = 1;
  return copy_3d (&q, handle, FALSE, wait);
}

SIM_ENTRY_DS (cuMemcpy2D_v2, 0, (const CUDA_MEMCPY2D *, pCopy))
{
  return copy_2d (pCopy, NULL, TRUE);
}

SIM_ENTRY_DS (cuMemcpy2DUnaligned_v2, 0, (const CUDA_MEMCPY2D *, pCopy))
{
  return copy_2d (pCopy, NULL, TRUE);
}

SIM_ENTRY_SZ (cuMemcpy2DAsync_v2, SIM_CALLBACK, (const CUDA_MEMCPY2D *, pCopy), (CUstream, hStream))
{
  return copy_2d (pCopy, hStream, FALSE);
}

SIM_ENTRY_DS (cuMemcpy3D_v2, 0, (const CUDA_MEMCPY3D *, pCopy))
{
  return copy_3d (pCopy, NULL, FALSE, TRUE);
}

SIM_ENTRY_SZ (cuMemcpy3DAsync_v2, SIM_CALLBACK, (const CUDA_MEMCPY3D *, pCopy), (CUstream, hStream))
{
  return copy_3d (pCopy, hStream, FALSE, FALSE);
}

static CUresult
copy_3d_peer (const CUDA_MEMCPY3D_PEER *p, CUstream handle, gboolean wait)
{
  SimContext *context;
  CUDA_MEMCPY3D q;

  if (p == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_context (p->srcContext, &context));
  SIM_TRY (sim_context (p->dstContext, &context));
  memset (&q, 0, sizeof q);
  q.srcXInBytes = p->srcXInBytes;
  q.srcY = p->srcY;
  q.srcZ = p->srcZ;
  q.srcMemoryType = p->srcMemoryType;
  q.srcHost = p->srcHost;
  q.srcDevice = p->srcDevice;
  q.srcPitch = p->srcPitch;
  q.srcHeight = p->srcHeight;
  q.dstXInBytes = p->dstXInBytes;
  q.dstY = p->dstY;
  q.dstZ = p->dstZ;
  q.dstMemoryType = p->dstMemoryType;
  q.dstHost = p->dstHost;
  q.dstDevice = p->dstDevice;
  q.dstPitch = p->dstPitch;
  q.dstHeight = p->dstHeight;
  q.WidthInBytes = p->WidthInBytes;
  q.Height = p->Height;
  q.Depth = p->Depth;
  return copy_3d (&q, handle, TRUE, wait);
}

SIM_ENTRY_DS (cuMemcpy3DPeer, 0, (const CUDA_MEMCPY3D_PEER *, pCopy))
{
  return copy_3d_peer (pCopy, NULL, TRUE);
}

SIM_ENTRY_SZ (cuMemcpy3DPeerAsync, SIM_CALLBACK, (const CUDA_MEMCPY3D_PEER *, pCopy), (CUstream, hStream))
{
  return copy_3d_peer (pCopy, hStream, FALSE);
}

/* ---- batches: the copies of one are not ordered among each other ---- */

#if CUDA_VERSION >= 13000
static CUresult
copy_batch (CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *attrs, size_t *indices, size_t n_attrs, CUstream handle)
{
  SimStream *stream;

  /* No default stream, says the real one. */
  if (handle == NULL || handle == CU_STREAM_LEGACY || dsts == NULL || srcs == NULL || sizes == NULL || count == 0 ||
      attrs == NULL || indices == NULL || n_attrs == 0 || n_attrs > count || indices[0] != 0)
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < n_attrs; i++)
    if ((int) attrs[i].srcAccessOrder < CU_MEMCPY_SRC_ACCESS_ORDER_STREAM || (int) attrs[i].srcAccessOrder > CU_MEMCPY_SRC_ACCESS_ORDER_ANY)
      return CUDA_ERROR_INVALID_VALUE;
  /* Nor without a context. */
  if (sim_current_handle (sim_thread ()) == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_stream (handle, &stream));
  if (stream->capture != NULL)
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  for (size_t i = 0; i < count; i++)
    {
      gboolean known;

      if (sizes[i] == 0)
        return CUDA_ERROR_INVALID_VALUE;
      SIM_TRY (check_side (dsts[i], sizes[i], SIDE_ANY, TRUE, copying_device (stream), FALSE, &known));
      SIM_TRY (check_side (srcs[i], sizes[i], SIDE_ANY, FALSE, copying_device (stream), FALSE, &known));
    }
  for (size_t i = 0, a = 0; i < count; i++)
    {
      if (a + 1 < n_attrs && indices[a + 1] <= i)
        a++;
      SIM_TRY (copy_parts (dsts[i], SIDE_ANY, srcs[i], SIDE_ANY, sizes[i], handle, FALSE, FALSE, attrs[a].srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL));
    }
  return CUDA_SUCCESS;
}

SIM_ENTRY_SZ (cuMemcpyBatchAsync, 0, (CUdeviceptr *, dsts), (CUdeviceptr *, srcs), (size_t *, sizes), (size_t, count), (CUmemcpyAttributes *, attrs), (size_t *, attrsIdxs), (size_t, numAttrs), (size_t *, failIdx), (CUstream, hStream))
{
  if (failIdx != NULL)
    *failIdx = SIZE_MAX;
  return copy_batch (dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, hStream);
}

SIM_ENTRY_SZ (cuMemcpyBatchAsync_v2, 0, (CUdeviceptr *, dsts), (CUdeviceptr *, srcs), (size_t *, sizes), (size_t, count), (CUmemcpyAttributes *, attrs), (size_t *, attrsIdxs), (size_t, numAttrs), (CUstream, hStream))
{
  return copy_batch (dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, hStream);
}
#endif
