/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-virtual-range-private.h"

typedef struct
{
  gint refs;
  CUmemGenericAllocationHandle handle;
  gsize size;
  guint place;
} Chunk;

typedef struct
{
  CUdeviceptr address;
  gsize size;
} Reservation;

/* Mapped memory that is not live waits for its cut, or could not be unmapped: it can be taken back. */
typedef struct
{
  GCudaStreamWaiter waiter;
  GCudaVirtualRange *range; /* with a reference */
  gsize from;
} Cut;

typedef struct
{
  gsize offset;
  Chunk *chunk;
  Cut *cut;
  guint live : 1;  /* belongs to the allocation */
  guint going : 1; /* is being unmapped */
  guint held : 1;  /* by the call that changes the range: its cut waits */
  guint fresh : 1; /* made by that call */
} Mapping;

struct _GCudaVirtualRange
{
  GCudaStreamWaiter waiter; /* once retired */
  gint refs;
  GCudaVirtualSpace *space;
  CUdeviceptr address;
  GArray *reservations;
  gsize reserved; /* of all of them */
  gboolean lost;  /* the driver would not unmap it, and that was reported */
  gboolean whole; /* as it was allocated: no call has changed it since */
  /* Under the lock of the space */
  gboolean busy;
  gboolean closed;     /* no allocation has it any more */
  guint64 id;          /* the same after a move */
  GPtrArray *mappings; /* in the order of their offsets; never the same offset twice */
  gsize mapped;        /* bytes that are live */
  GArray *access;      /* CUmemAccessDesc; what is not listed has none */
  guint generation;    /* of the space's list that this one began as */
};

/* Whether a failure goes away by itself: that of a thread of the driver's, or of a capture. */
static gboolean
is_for_now (CUresult result)
{
  switch ((int) result)
    {
    case CUDA_ERROR_NOT_PERMITTED:
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
    case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
    case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
      return TRUE;
    default:
      return FALSE;
    }
}

/* Rights */

static gint
find_access (GArray *list,
             const CUmemLocation *location)
{
  for (guint i = 0; i < list->len; i++)
    {
      const CUmemAccessDesc *entry = &g_array_index (list, CUmemAccessDesc, i);

      if (entry->location.type == location->type && entry->location.id == location->id)
        return (gint) i;
    }
  return -1;
}

static CUmemAccessDesc
get_access (GArray *list,
            const CUmemLocation *location)
{
  CUmemAccessDesc none = { .location = *location, .flags = CU_MEM_ACCESS_FLAGS_PROT_NONE };
  gint found = find_access (list, location);

  return found >= 0 ? g_array_index (list, CUmemAccessDesc, found) : none;
}

void
_gcuda_virtual_access_put (GArray *list,
                           const CUmemAccessDesc *access)
{
  gint found = find_access (list, &access->location);

  if (found >= 0)
    g_array_remove_index (list, (guint) found);
  if (access->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
    g_array_append_val (list, *access);
}

/* Chunks */

static CUresult
chunk_new (GCudaVirtualSpace *space,
           gsize size,
           guint place,
           Chunk **made)
{
  CUmemAllocationProp properties = space->properties;
  CUmemGenericAllocationHandle handle;
  Chunk *chunk = NULL;
  CUresult result;
  gboolean idle;

  g_mutex_lock (&space->lock);
  for (GList *link = space->idle.head; link != NULL && chunk == NULL; link = link->next)
    {
      chunk = link->data;
      if (chunk->size == size && chunk->place == place)
        {
          g_queue_delete_link (&space->idle, link);
          space->idle_size -= size;
          break;
        }
      chunk = NULL;
    }
  idle = space->idle_size > 0;
  g_mutex_unlock (&space->lock);

  if (chunk == NULL)
    {
      properties.location = g_array_index (space->places, CUmemLocation, place);
      result = _gcuda_driver.MemCreate (&handle, size, &properties, 0);
      if (result == CUDA_ERROR_OUT_OF_MEMORY && idle && _gcuda_virtual_space_trim (space, 0) == CUDA_SUCCESS)
        result = _gcuda_driver.MemCreate (&handle, size, &properties, 0);
      if (result != CUDA_SUCCESS)
        return result;
      chunk = g_new (Chunk, 1);
      chunk->handle = handle;
      chunk->size = size;
      chunk->place = place;
    }
  chunk->refs = 1;
  *made = chunk;
  return CUDA_SUCCESS;
}

static Chunk *
chunk_ref (Chunk *chunk)
{
  g_atomic_int_inc (&chunk->refs);
  return chunk;
}

/* The one place that releases physical memory. After a failure the chunk is there still. */
static CUresult
chunk_release (Chunk *chunk)
{
  CUresult result = _gcuda_driver.MemRelease (chunk->handle);

  if (result == CUDA_SUCCESS)
    g_free (chunk);
  return result;
}

/* The same where nobody can be told but by a report. */
static void
chunk_give_up (GCudaVirtualSpace *space,
               Chunk *chunk)
{
  const Chunk was = *chunk;
  CUresult result = chunk_release (chunk);

  if (result == CUDA_SUCCESS)
    return;
  _gcuda_context_box_report (space->context, result, "cuMemRelease", was.handle, was.size);
  g_free (chunk);
}

static void
chunk_unref (GCudaVirtualSpace *space,
             Chunk *chunk)
{
  gboolean kept;

  if (!g_atomic_int_dec_and_test (&chunk->refs))
    return;
  g_mutex_lock (&space->lock);
  kept = chunk->size <= space->cache_size && space->idle_size <= space->cache_size - chunk->size;
  if (kept)
    {
      g_queue_push_tail (&space->idle, chunk);
      space->idle_size += chunk->size;
    }
  g_mutex_unlock (&space->lock);
  if (!kept)
    chunk_give_up (space, chunk);
}

static CUresult range_end_idle (GCudaVirtualRange *self);

CUresult
_gcuda_virtual_space_trim (GCudaVirtualSpace *self,
                           gsize keep)
{
  for (;;)
    {
      GCudaVirtualRange *range = NULL;
      Chunk *chunk = NULL;
      CUresult result;

      g_mutex_lock (&self->lock);
      if (self->idle_size > keep)
        {
          chunk = g_queue_pop_head (&self->idle);
          if (chunk != NULL)
            self->idle_size -= chunk->size;
          else
            {
              range = g_queue_pop_head (&self->idle_ranges);
              self->idle_size -= range->mapped;
            }
        }
      g_mutex_unlock (&self->lock);
      if (range != NULL)
        {
          /* Its chunks become idle, and are next. */
          result = range_end_idle (range);
          if (result != CUDA_SUCCESS)
            return result;
          continue;
        }
      if (chunk == NULL)
        return CUDA_SUCCESS;
      result = chunk_release (chunk);
      if (result != CUDA_SUCCESS)
        {
          g_mutex_lock (&self->lock);
          g_queue_push_head (&self->idle, chunk);
          self->idle_size += chunk->size;
          g_mutex_unlock (&self->lock);
          return result;
        }
    }
}

/* The space */

GCudaVirtualSpace *
_gcuda_virtual_space_new (GCudaContextBox *context)
{
  GCudaVirtualSpace *self = g_new0 (GCudaVirtualSpace, 1);

  self->refs = 1;
  self->context = context;
  self->places = g_array_new (FALSE, FALSE, sizeof (CUmemLocation));
  self->access = g_array_new (FALSE, FALSE, sizeof (CUmemAccessDesc));
  self->ranges = g_hash_table_new (g_int64_hash, g_int64_equal);
  g_mutex_init (&self->lock);
  g_cond_init (&self->changed);
  g_queue_init (&self->idle);
  g_queue_init (&self->idle_ranges);
  return self;
}

static void
space_free (GCudaVirtualSpace *self)
{
  _gcuda_context_box_unuse (self->context);
  g_array_unref (self->places);
  g_array_unref (self->access);
  g_hash_table_unref (self->ranges);
  g_mutex_clear (&self->lock);
  g_cond_clear (&self->changed);
  g_free (self);
}

static void range_unref (GCudaVirtualRange *self);

/* What the cache kept, on the reclaimer's thread. */
static GCudaReclaimResult
space_release (GCudaReclaimNode *node)
{
  GCudaVirtualSpace *self = (GCudaVirtualSpace *) node;
  GCudaVirtualRange *range;
  Chunk *chunk;

  self->cache_size = 0;
  while ((range = g_queue_pop_head (&self->idle_ranges)) != NULL)
    {
      /* An idle range has no reference to the space; that of this function stays. */
      g_atomic_int_set (&self->refs, 2);
      range_unref (range);
    }
  while ((chunk = g_queue_pop_head (&self->idle)) != NULL)
    chunk_give_up (self, chunk);
  space_free (self);
  return GCUDA_RECLAIM_DONE;
}

void
_gcuda_virtual_space_unref (GCudaVirtualSpace *self)
{
  if (!g_atomic_int_dec_and_test (&self->refs) || _gcuda_driver_forked ())
    return;
  if (self->idle.head != NULL || self->idle_ranges.head != NULL)
    _gcuda_reclaimer_push (&self->node, space_release);
  else
    space_free (self);
}

/* Ranges */

static GCudaVirtualRange *
range_ref (GCudaVirtualRange *self)
{
  g_atomic_int_inc (&self->refs);
  return self;
}

/* Under the lock: the index of the first mapping that ends behind @offset. */
static guint
find_mapping (GCudaVirtualRange *self,
              gsize offset)
{
  guint low = 0, high = self->mappings->len;

  while (low < high)
    {
      guint middle = low + (high - low) / 2;
      const Mapping *mapping = g_ptr_array_index (self->mappings, middle);

      if (mapping->offset + mapping->chunk->size <= offset)
        low = middle + 1;
      else
        high = middle;
    }
  return low;
}

static Mapping *
mapping_at (GCudaVirtualRange *self,
            guint index)
{
  return index < self->mappings->len ? g_ptr_array_index (self->mappings, index) : NULL;
}

/* The one place that unmaps. The mapping is going, so that it is the caller's. */
static CUresult
unmap (GCudaVirtualRange *self,
       Mapping *mapping)
{
  CUresult result = _gcuda_driver.MemUnmap (self->address + mapping->offset, mapping->chunk->size);

  g_mutex_lock (&self->space->lock);
  mapping->going = FALSE;
  if (result == CUDA_SUCCESS)
    {
      if (mapping->live)
        self->mapped -= mapping->chunk->size;
      g_ptr_array_remove_index (self->mappings, find_mapping (self, mapping->offset));
    }
  g_cond_broadcast (&self->space->changed);
  g_mutex_unlock (&self->space->lock);
  if (result == CUDA_SUCCESS)
    {
      GCUDA_NOTE (VMM, "unmapped %" G_GSIZE_FORMAT " bytes at 0x%llx", mapping->chunk->size, (unsigned long long) (self->address + mapping->offset));
      chunk_unref (self->space, mapping->chunk);
      g_free (mapping);
    }
  return result;
}

/* Unmaps all that waits for no stream; the last first, so that the list need not move. In a teardown what the driver refuses
 * for good keeps nothing else from going. The first failure, if there is one. */
static CUresult
unmap_rest (GCudaVirtualRange *self,
            gboolean teardown)
{
  CUresult first = CUDA_SUCCESS, result = CUDA_SUCCESS;
  gsize below = G_MAXSIZE;

  while (result == CUDA_SUCCESS || (teardown && !is_for_now (result)))
    {
      Mapping *mapping = NULL;

      g_mutex_lock (&self->space->lock);
      for (guint i = self->mappings->len; i > 0 && mapping == NULL; i--)
        {
          mapping = g_ptr_array_index (self->mappings, i - 1);
          if (mapping->cut != NULL || mapping->offset >= below)
            mapping = NULL;
        }
      if (mapping != NULL)
        mapping->going = TRUE;
      g_mutex_unlock (&self->space->lock);
      if (mapping == NULL)
        break;
      below = mapping->offset;
      result = unmap (self, mapping);
      if (first == CUDA_SUCCESS)
        first = result;
    }
  /* One that goes away by itself is what counts: it is tried again. */
  return is_for_now (result) ? result : first;
}

static void
range_unref (GCudaVirtualRange *self)
{
  GCudaVirtualSpace *space = self->space;
  CUresult result;
  gsize left = 0;

  if (!g_atomic_int_dec_and_test (&self->refs))
    return;
  if (!self->lost)
    {
      result = unmap_rest (self, TRUE);
      for (guint i = 0; i < self->mappings->len; i++)
        left += mapping_at (self, i)->chunk->size;
      _gcuda_context_box_report (space->context, result, "cuMemUnmap", self->address, left);
      /* The driver frees no addresses that are mapped. */
      for (guint i = self->reservations->len; i > 0 && left == 0; i--)
        {
          const Reservation *reservation = &g_array_index (self->reservations, Reservation, i - 1);

          _gcuda_context_box_report (space->context, _gcuda_driver.MemAddressFree (reservation->address, reservation->size), "cuMemAddressFree", reservation->address, 0);
        }
    }
  for (guint i = 0; i < self->mappings->len; i++)
    {
      Mapping *mapping = mapping_at (self, i);

      /* What could not be unmapped stays with the driver. */
      if (g_atomic_int_dec_and_test (&mapping->chunk->refs))
        g_free (mapping->chunk);
      g_free (mapping);
    }
  g_ptr_array_unref (self->mappings);
  g_array_unref (self->reservations);
  g_array_unref (self->access);
  g_free (self);
  _gcuda_virtual_space_unref (space);
}

/* Addresses alone. */
static CUresult
range_new (GCudaVirtualSpace *space,
           gsize size,
           GCudaVirtualRange **made)
{
  GCudaVirtualRange *self;
  Reservation reservation = { 0, MAX (size, space->max_size) };
  CUresult result;

  result = _gcuda_driver.MemAddressReserve (&reservation.address, reservation.size, space->alignment, 0, 0);
  if (result != CUDA_SUCCESS)
    return result;
  self = g_new0 (GCudaVirtualRange, 1);
  self->refs = 1;
  g_atomic_int_inc (&space->refs);
  self->space = space;
  self->address = reservation.address;
  self->reservations = g_array_new (FALSE, FALSE, sizeof (Reservation));
  g_array_append_val (self->reservations, reservation);
  self->reserved = reservation.size;
  self->mappings = g_ptr_array_new ();
  *made = self;
  return CUDA_SUCCESS;
}

/* Under the lock. */
static void
range_publish (GCudaVirtualRange *self)
{
  g_hash_table_insert (self->space->ranges, &self->address, self);
}

static void
range_hide (GCudaVirtualRange *self)
{
  g_hash_table_remove (self->space->ranges, &self->address);
  self->closed = TRUE;
  self->busy = FALSE;
  g_cond_broadcast (&self->space->changed);
}

static GCudaVirtualRange *
lookup (GCudaVirtualSpace *space,
        CUdeviceptr address)
{
  return g_hash_table_lookup (space->ranges, &address);
}

GCudaVirtualRange *
_gcuda_virtual_range_begin (GCudaVirtualSpace *space,
                            GCudaAllocation *allocation,
                            gboolean *busy)
{
  GCudaVirtualRange *self;

  g_mutex_lock (&space->lock);
  self = lookup (space, _gcuda_allocation_get_address (allocation));
  *busy = self != NULL && self->busy;
  if (*busy)
    self = NULL;
  if (self != NULL)
    {
      self->busy = TRUE;
      self->whole = FALSE;
    }
  g_mutex_unlock (&space->lock);
  return self;
}

void
_gcuda_virtual_space_wait (GCudaVirtualSpace *self,
                           CUdeviceptr address)
{
  GCudaVirtualRange *range;

  g_mutex_lock (&self->lock);
  while ((range = lookup (self, address)) != NULL && range->busy)
    g_cond_wait (&self->changed, &self->lock);
  g_mutex_unlock (&self->lock);
}

/* The same for one that is at hand; FALSE if no allocation has it any more. */
static gboolean
begin_again (GCudaVirtualRange *self)
{
  gboolean ours;

  g_mutex_lock (&self->space->lock);
  while (self->busy && !self->closed)
    g_cond_wait (&self->space->changed, &self->space->lock);
  ours = !self->closed;
  if (ours)
    self->busy = TRUE;
  g_mutex_unlock (&self->space->lock);
  return ours;
}

void
_gcuda_virtual_range_end (GCudaVirtualRange *self)
{
  g_mutex_lock (&self->space->lock);
  self->busy = FALSE;
  g_cond_broadcast (&self->space->changed);
  g_mutex_unlock (&self->space->lock);
}

CUdeviceptr
_gcuda_virtual_range_get_address (GCudaVirtualRange *self)
{
  return self->address;
}

gsize
_gcuda_virtual_range_get_reserved (GCudaVirtualRange *self)
{
  return self->reserved;
}

gsize
_gcuda_virtual_range_get_mapped (GCudaVirtualSpace *space,
                                 GCudaAllocation *allocation)
{
  GCudaVirtualRange *self;
  gsize mapped;

  g_mutex_lock (&space->lock);
  self = lookup (space, _gcuda_allocation_get_address (allocation));
  mapped = self != NULL ? self->mapped : 0;
  g_mutex_unlock (&space->lock);
  return mapped;
}

gboolean
_gcuda_virtual_range_covers (GCudaVirtualSpace *space,
                             CUdeviceptr base,
                             gsize from,
                             gsize to)
{
  GCudaVirtualRange *self;

  g_mutex_lock (&space->lock);
  self = lookup (space, base);
  for (guint i = 0; self != NULL && from < to && i < self->mappings->len; i++)
    {
      const Mapping *mapping = g_ptr_array_index (self->mappings, i);

      if (mapping->live && mapping->offset <= from && from < mapping->offset + mapping->chunk->size)
        from = mapping->offset + mapping->chunk->size;
    }
  g_mutex_unlock (&space->lock);
  return from >= to;
}

/* Memory for a range. What a call makes is fresh and held until it is known whether the call succeeds. */

static CUresult
add_mapping (GCudaVirtualRange *self,
             gsize offset,
             Chunk *chunk)
{
  Mapping *mapping;
  CUresult result = _gcuda_driver.MemMap (self->address + offset, chunk->size, 0, chunk->handle, 0);

  if (result != CUDA_SUCCESS)
    {
      chunk_unref (self->space, chunk);
      return result;
    }
  mapping = g_new0 (Mapping, 1);
  mapping->offset = offset;
  mapping->chunk = chunk;
  mapping->held = mapping->fresh = TRUE;
  g_mutex_lock (&self->space->lock);
  g_ptr_array_insert (self->mappings, (gint) find_mapping (self, offset), mapping);
  g_mutex_unlock (&self->space->lock);
  return CUDA_SUCCESS;
}

/* Where the next chunk of a hole is made, and how large. */
static gsize
plan_chunk (GCudaVirtualSpace *space,
            gsize start,
            gsize at,
            gsize end,
            gboolean units,
            guint *place)
{
  const guint places = space->places->len;
  gsize block;

  *place = 0;
  if (places == 1)
    return units ? space->granularity : end - at;
  if (space->placement == GCUDA_MEMORY_PLACEMENT_ROUND_ROBIN)
    {
      *place = (guint) (at / space->granularity % places);
      return space->granularity;
    }
  block = (end - start) / space->granularity;
  block = (block + places - 1) / places * space->granularity;
  *place = (guint) ((at - start) / block);
  return units ? space->granularity : MIN (end - at, block);
}

static CUresult
fill_hole (GCudaVirtualRange *self,
           gsize start,
           gsize end,
           gboolean units)
{
  CUresult result = CUDA_SUCCESS;
  Chunk *chunk;

  for (gsize at = start; at < end && result == CUDA_SUCCESS; at += chunk->size)
    {
      guint place;
      gsize size = plan_chunk (self->space, start, at, end, units, &place);

      result = chunk_new (self->space, size, place, &chunk);
      if (result != CUDA_SUCCESS)
        return result;
      result = add_mapping (self, at, chunk);
      if (result != CUDA_SUCCESS)
        return result;
    }
  return result;
}

static CUresult
fill_begin (GCudaVirtualRange *self,
            gsize from,
            gsize to,
            gboolean units)
{
  GCudaVirtualSpace *space = self->space;
  CUresult result = CUDA_SUCCESS;
  gsize at = from;

  while (at < to && result == CUDA_SUCCESS)
    {
      Mapping *mapping;
      gsize end;

      g_mutex_lock (&space->lock);
      mapping = mapping_at (self, find_mapping (self, at));
      if (mapping != NULL && mapping->offset <= at)
        {
          /* These addresses are free in a moment. */
          if (mapping->going)
            g_cond_wait (&space->changed, &space->lock);
          else
            {
              mapping->held = TRUE;
              at = mapping->offset + mapping->chunk->size;
            }
          g_mutex_unlock (&space->lock);
          continue;
        }
      end = mapping != NULL ? MIN (to, mapping->offset) : to;
      g_mutex_unlock (&space->lock);
      result = fill_hole (self, at, end, units || space->units);
      at = end;
    }
  return result;
}

typedef struct
{
  gsize offset;
  gsize size;
} Run;

/* Under the lock: the contiguous parts of what is fresh, or of all that is mapped, which is held then. */
static GArray *
find_runs (GCudaVirtualRange *self,
           gsize from,
           gsize to,
           gboolean all)
{
  GArray *runs = g_array_new (FALSE, FALSE, sizeof (Run));
  Mapping *mapping;

  for (guint i = find_mapping (self, from); (mapping = mapping_at (self, i)) != NULL && mapping->offset < to; i++)
    {
      Run run = { mapping->offset, mapping->chunk->size };
      Run *last = runs->len > 0 ? &g_array_index (runs, Run, runs->len - 1) : NULL;

      if (all ? mapping->going : !mapping->fresh)
        continue;
      mapping->held = TRUE;
      if (last != NULL && last->offset + last->size == run.offset)
        last->size += run.size;
      else
        g_array_append_val (runs, run);
    }
  return runs;
}

static CUresult
fill_end (GCudaVirtualRange *self,
          gsize from,
          gsize to,
          CUresult result)
{
  GCudaVirtualSpace *space = self->space;
  g_autoptr (GArray) runs = NULL;
  Mapping *mapping;

  if (result == CUDA_SUCCESS)
    {
      g_mutex_lock (&space->lock);
      runs = find_runs (self, from, to, FALSE);
      g_mutex_unlock (&space->lock);
      for (guint i = 0; i < runs->len && result == CUDA_SUCCESS && self->access->len > 0; i++)
        {
          const Run *run = &g_array_index (runs, Run, i);

          result = _gcuda_driver.MemSetAccess (self->address + run->offset, run->size, &g_array_index (self->access, CUmemAccessDesc, 0), self->access->len);
        }
    }

  g_mutex_lock (&space->lock);
  for (guint i = find_mapping (self, from); (mapping = mapping_at (self, i)) != NULL && mapping->offset < to; i++)
    if (mapping->held)
      {
        mapping->held = FALSE;
        if (result == CUDA_SUCCESS)
          {
            if (!mapping->live)
              self->mapped += mapping->chunk->size;
            mapping->live = TRUE;
            mapping->cut = NULL;
            mapping->fresh = FALSE;
          }
        else if (mapping->fresh)
          {
            mapping->going = TRUE;
          }
      }
  g_mutex_unlock (&space->lock);

  if (result != CUDA_SUCCESS)
    for (;;)
      {
        CUresult undone;

        g_mutex_lock (&space->lock);
        mapping = NULL;
        for (guint i = find_mapping (self, from); mapping == NULL && i < self->mappings->len && mapping_at (self, i)->offset < to; i++)
          if (mapping_at (self, i)->fresh && mapping_at (self, i)->going)
            mapping = mapping_at (self, i);
        g_mutex_unlock (&space->lock);
        if (mapping == NULL)
          break;
        /* If that fails it stays fresh: it has no rights yet. */
        undone = unmap (self, mapping);
        _gcuda_context_box_report (space->context, undone, "cuMemUnmap", self->address, 0);
      }
  return result;
}

CUresult
_gcuda_virtual_range_fill (GCudaVirtualRange *self,
                           gsize from,
                           gsize to,
                           gboolean units)
{
  return fill_end (self, from, to, fill_begin (self, from, to, units));
}

/* Rights of a range that has begun. */
CUresult
_gcuda_virtual_range_set_access (GCudaVirtualRange *self,
                                 const CUmemAccessDesc *access)
{
  GCudaVirtualSpace *space = self->space;
  CUmemAccessDesc before;
  g_autoptr (GArray) runs = NULL;
  CUresult result = CUDA_SUCCESS;
  guint done = 0;

  before = get_access (self->access, &access->location);
  g_mutex_lock (&space->lock);
  runs = find_runs (self, 0, G_MAXSIZE, TRUE);
  g_mutex_unlock (&space->lock);
  while (done < runs->len && result == CUDA_SUCCESS)
    {
      const Run *run = &g_array_index (runs, Run, done);

      result = _gcuda_driver.MemSetAccess (self->address + run->offset, run->size, access, 1);
      done += result == CUDA_SUCCESS;
    }
  if (result != CUDA_SUCCESS)
    while (done-- > 0)
      {
        const Run *run = &g_array_index (runs, Run, done);

        _gcuda_driver.MemSetAccess (self->address + run->offset, run->size, &before, 1);
      }
  g_mutex_lock (&space->lock);
  for (guint i = 0; i < self->mappings->len; i++)
    mapping_at (self, i)->held = FALSE;
  if (result == CUDA_SUCCESS)
    _gcuda_virtual_access_put (self->access, access);
  g_mutex_unlock (&space->lock);
  return result;
}

/* All ranges that are published and not in @known yet. */
static GPtrArray *
find_others (GCudaVirtualSpace *self,
             GHashTable *known)
{
  GPtrArray *others = g_ptr_array_new_with_free_func ((GDestroyNotify) range_unref);
  GHashTableIter iter;
  gpointer value;

  g_hash_table_iter_init (&iter, self->ranges);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    if (!g_hash_table_contains (known, &((GCudaVirtualRange *) value)->id))
      g_ptr_array_add (others, range_ref (value));
  return others;
}

static CUresult
set_access_of_all (GCudaVirtualSpace *self,
                   const CUmemAccessDesc *access)
{
  /* What each had before, by id: a range may be moved meanwhile, and then takes its rights along. */
  g_autoptr (GHashTable) known = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, g_free);
  g_autoptr (GPtrArray) others = NULL;
  CUresult result = CUDA_SUCCESS;

  for (;;)
    {
      g_clear_pointer (&others, g_ptr_array_unref);
      g_mutex_lock (&self->lock);
      others = find_others (self, known);
      if (others->len == 0)
        {
          _gcuda_virtual_access_put (self->access, access);
          self->generation++;
        }
      g_mutex_unlock (&self->lock);
      if (others->len == 0)
        return CUDA_SUCCESS;
      for (guint i = 0; i < others->len && result == CUDA_SUCCESS; i++)
        {
          GCudaVirtualRange *range = g_ptr_array_index (others, i);
          CUmemAccessDesc before;

          if (!begin_again (range))
            continue;
          before = get_access (range->access, &access->location);
          result = _gcuda_virtual_range_set_access (range, access);
          if (result == CUDA_SUCCESS)
            g_hash_table_insert (known, g_memdup2 (&range->id, sizeof range->id), g_memdup2 (&before, sizeof before));
          _gcuda_virtual_range_end (range);
        }
      if (result != CUDA_SUCCESS)
        break;
    }

  /* Back to what it was. */
  while (g_hash_table_size (known) > 0)
    {
      g_autoptr (GHashTable) none = g_hash_table_new (g_int64_hash, g_int64_equal);
      gboolean any = FALSE;

      g_clear_pointer (&others, g_ptr_array_unref);
      g_mutex_lock (&self->lock);
      others = find_others (self, none);
      g_mutex_unlock (&self->lock);
      for (guint i = 0; i < others->len; i++)
        {
          GCudaVirtualRange *range = g_ptr_array_index (others, i);
          const CUmemAccessDesc *before = g_hash_table_lookup (known, &range->id);

          if (before == NULL || !begin_again (range))
            continue;
          any = TRUE;
          _gcuda_virtual_range_set_access (range, before);
          g_hash_table_remove (known, &range->id);
          _gcuda_virtual_range_end (range);
        }
      /* The rest was freed. */
      if (!any)
        break;
    }
  return result;
}

CUresult
_gcuda_virtual_space_set_access (GCudaVirtualSpace *self,
                                 const CUmemAccessDesc *access)
{
  CUresult result;

  /* One after the other: the ranges would be left with the rights of either, and a failure would undo the other's. */
  g_mutex_lock (&self->lock);
  while (self->setting)
    g_cond_wait (&self->changed, &self->lock);
  self->setting = TRUE;
  g_mutex_unlock (&self->lock);
  result = set_access_of_all (self, access);
  /* What is idle has the old rights. */
  if (result == CUDA_SUCCESS)
    _gcuda_virtual_space_trim (self, 0);
  g_mutex_lock (&self->lock);
  self->setting = FALSE;
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
  return result;
}

/* The cache of ranges: what is allocated and freed at one size again and again needs no driver call */

/* Under the lock: whether the range, which is free, was kept. Its reference to the space goes, and comes back with it. */
static gboolean
range_keep (GCudaVirtualRange *self)
{
  GCudaVirtualSpace *space = self->space;
  const GArray *rights = space->access;

  if (!self->whole || self->mapped > space->cache_size || space->idle_size > space->cache_size - self->mapped)
    return FALSE;
  if (self->access->len != rights->len || memcmp (self->access->data, rights->data, rights->len * sizeof (CUmemAccessDesc)) != 0)
    return FALSE;
  self->generation = space->generation;
  g_queue_push_tail (&space->idle_ranges, self);
  space->idle_size += self->mapped;
  g_atomic_int_add (&space->refs, -1);
  return TRUE;
}

/* Under the lock: one of this size and today's rights, published again. */
static GCudaVirtualRange *
range_reuse (GCudaVirtualSpace *space,
             gsize size)
{
  for (GList *link = space->idle_ranges.head; link != NULL; link = link->next)
    {
      GCudaVirtualRange *range = link->data;

      if (!range->whole || range->mapped != size || range->generation != space->generation)
        continue;
      g_queue_delete_link (&space->idle_ranges, link);
      space->idle_size -= size;
      g_atomic_int_inc (&space->refs);
      range->id = ++space->last_id;
      range->closed = FALSE;
      range_publish (range);
      return range;
    }
  return NULL;
}

/* Unmaps one that was taken off the list. After a failure it is there again, if only to be tried again. */
static CUresult
range_end_idle (GCudaVirtualRange *self)
{
  GCudaVirtualSpace *space = self->space;
  CUresult result;

  self->whole = FALSE;
  result = unmap_rest (self, FALSE);
  g_mutex_lock (&space->lock);
  if (result == CUDA_SUCCESS)
    {
      g_atomic_int_inc (&space->refs);
    }
  else
    {
      g_queue_push_head (&space->idle_ranges, self);
      space->idle_size += self->mapped;
    }
  g_mutex_unlock (&space->lock);
  if (result == CUDA_SUCCESS)
    range_unref (self);
  return result;
}

/* Allocating and freeing */

CUresult
_gcuda_virtual_space_allocate (GCudaVirtualSpace *self,
                               gsize size,
                               gboolean fill,
                               CUdeviceptr *address)
{
  GCudaVirtualRange *range;

  g_mutex_lock (&self->lock);
  range = fill ? range_reuse (self, size) : NULL;
  if (range != NULL)
    *address = range->address;
  g_mutex_unlock (&self->lock);
  if (range != NULL)
    return CUDA_SUCCESS;

  for (;;)
    {
      CUresult result = range_new (self, size, &range);
      gboolean published;

      if (result != CUDA_SUCCESS)
        return result;
      g_mutex_lock (&self->lock);
      range->access = g_array_copy (self->access);
      range->generation = self->generation;
      g_mutex_unlock (&self->lock);
      if (fill)
        result = _gcuda_virtual_range_fill (range, 0, size, FALSE);
      if (result != CUDA_SUCCESS)
        {
          range_unref (range);
          return result;
        }
      g_mutex_lock (&self->lock);
      published = range->generation == self->generation;
      if (published)
        {
          range->whole = fill;
          range->id = ++self->last_id;
          range_publish (range);
          *address = range->address;
        }
      g_mutex_unlock (&self->lock);
      if (published)
        return CUDA_SUCCESS;
      /* The rights of all ranges changed meanwhile, and this one was not among them. */
      range_unref (range);
    }
}

CUresult
_gcuda_virtual_space_free (GCudaVirtualSpace *self,
                           CUdeviceptr address)
{
  GCudaVirtualRange *range;
  CUresult result;
  gboolean kept;

  g_mutex_lock (&self->lock);
  while ((range = lookup (self, address)) != NULL && range->busy)
    {
      /* Its rights are being changed, as those of all. The reclaimer waits for nobody, and comes again. */
      if (_gcuda_reclaimer_is_here ())
        {
          g_mutex_unlock (&self->lock);
          return CUDA_ERROR_NOT_PERMITTED;
        }
      g_cond_wait (&self->changed, &self->lock);
    }
  kept = range != NULL && range_keep (range);
  if (kept)
    range_hide (range);
  else if (range != NULL)
    range->busy = TRUE;
  g_mutex_unlock (&self->lock);
  if (range == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  if (kept)
    return CUDA_SUCCESS;

  result = unmap_rest (range, _gcuda_reclaimer_is_here ());
  /* Whoever frees an address may try again. A release does so where that helps. */
  if (result != CUDA_SUCCESS && (!_gcuda_reclaimer_is_here () || is_for_now (result)))
    {
      _gcuda_virtual_range_end (range);
      return result;
    }
  range->lost = result != CUDA_SUCCESS;
  g_mutex_lock (&self->lock);
  range_hide (range);
  g_mutex_unlock (&self->lock);
  range_unref (range);
  return result;
}

/* Growing and moving */

static void
undo_reservation (GCudaVirtualSpace *space,
                  const Reservation *reservation)
{
  /* Once more if it fails: the call that asked for it is to leave no trace. */
  if (_gcuda_driver.MemAddressFree (reservation->address, reservation->size) != CUDA_SUCCESS)
    _gcuda_context_box_report (space->context, _gcuda_driver.MemAddressFree (reservation->address, reservation->size), "cuMemAddressFree", reservation->address, 0);
}

CUresult
_gcuda_virtual_range_extend (GCudaVirtualRange *self,
                             gsize size,
                             gboolean *granted)
{
  const CUdeviceptr wanted = self->address + self->reserved;
  Reservation reservation = { 0, size - self->reserved };
  CUresult result;

  *granted = FALSE;
  result = _gcuda_driver.MemAddressReserve (&reservation.address, reservation.size, 0, wanted, 0);
  if (result != CUDA_SUCCESS)
    return result == CUDA_ERROR_OUT_OF_MEMORY ? CUDA_SUCCESS : result;
  if (reservation.address != wanted)
    {
      undo_reservation (self->space, &reservation);
      return CUDA_SUCCESS;
    }
  g_array_append_val (self->reservations, reservation);
  self->reserved += reservation.size;
  *granted = TRUE;
  return CUDA_SUCCESS;
}

void
_gcuda_virtual_range_retract (GCudaVirtualRange *self)
{
  const Reservation last = g_array_index (self->reservations, Reservation, self->reservations->len - 1);

  undo_reservation (self->space, &last);
  g_array_set_size (self->reservations, self->reservations->len - 1);
  self->reserved -= last.size;
}

CUresult
_gcuda_virtual_range_move (GCudaVirtualRange *self,
                           gsize from,
                           gsize to,
                           GCudaVirtualRange **moved)
{
  GCudaVirtualSpace *space = self->space;
  g_autoptr (GArray) runs = g_array_new (FALSE, FALSE, sizeof (Mapping));
  GCudaVirtualRange *range;
  CUresult result = range_new (space, to, &range);

  if (result != CUDA_SUCCESS)
    return result;
  range->access = g_array_copy (self->access);
  g_mutex_lock (&space->lock);
  range->id = self->id;
  range->busy = TRUE;
  for (guint i = 0; i < self->mappings->len; i++)
    if (mapping_at (self, i)->live)
      g_array_append_val (runs, *mapping_at (self, i));
  g_mutex_unlock (&space->lock);

  for (guint i = 0; i < runs->len && result == CUDA_SUCCESS; i++)
    {
      const Mapping *mapping = &g_array_index (runs, Mapping, i);

      result = add_mapping (range, mapping->offset, chunk_ref (mapping->chunk));
    }
  if (result == CUDA_SUCCESS)
    result = fill_begin (range, from, to, FALSE);
  result = fill_end (range, 0, G_MAXSIZE, result);
  if (result != CUDA_SUCCESS)
    {
      range_unref (range);
      return result;
    }
  g_mutex_lock (&space->lock);
  range_publish (range);
  g_mutex_unlock (&space->lock);
  *moved = range;
  return CUDA_SUCCESS;
}

void
_gcuda_virtual_range_drop (GCudaVirtualRange *self)
{
  g_mutex_lock (&self->space->lock);
  range_hide (self);
  g_mutex_unlock (&self->space->lock);
  range_unref (self);
}

static GCudaReclaimResult
retired_passed (GCudaStreamWaiter *waiter)
{
  GCudaStreamBox *box = waiter->box;

  range_unref ((GCudaVirtualRange *) waiter);
  _gcuda_stream_box_unuse (box);
  return GCUDA_RECLAIM_DONE;
}

void
_gcuda_virtual_range_retire (GCudaVirtualRange *self,
                             GCudaStreamBox *box)
{
  g_mutex_lock (&self->space->lock);
  range_hide (self);
  g_mutex_unlock (&self->space->lock);
  _gcuda_stream_box_queue (box, &self->waiter, _gcuda_thread_id (), retired_passed);
}

/* Cutting */

gboolean
_gcuda_virtual_range_count (GCudaVirtualRange *self,
                            gsize from,
                            gsize to,
                            guint *count,
                            gsize *begin,
                            gsize *end)
{
  Mapping *mapping;
  gboolean whole = TRUE;

  *count = 0;
  g_mutex_lock (&self->space->lock);
  for (guint i = find_mapping (self, from); (mapping = mapping_at (self, i)) != NULL && mapping->offset < to; i++)
    if (mapping->live)
      {
        if (mapping->offset >= from && mapping->offset + mapping->chunk->size <= to)
          {
            (*count)++;
          }
        else
          {
            whole = FALSE;
            *begin = mapping->offset;
            *end = mapping->offset + mapping->chunk->size;
          }
      }
  g_mutex_unlock (&self->space->lock);
  return whole;
}

/* On the reclaimer's thread: the stream has passed. What was taken back meanwhile is not the cut's any more. */
static GCudaReclaimResult
cut_passed (GCudaStreamWaiter *waiter)
{
  Cut *cut = (Cut *) waiter;
  GCudaVirtualRange *range = cut->range;
  GCudaStreamBox *box = waiter->box;

  for (;;)
    {
      Mapping *mapping = NULL;
      gboolean held = FALSE;
      CUresult result;
      gsize offset = 0, size = 0;

      g_mutex_lock (&range->space->lock);
      for (guint i = find_mapping (range, cut->from); i < range->mappings->len && mapping == NULL; i++)
        {
          mapping = mapping_at (range, i);
          if (mapping->cut != cut || mapping->held)
            {
              held |= mapping->cut == cut;
              mapping = NULL;
            }
        }
      if (mapping != NULL)
        {
          mapping->going = TRUE;
          offset = mapping->offset;
          size = mapping->chunk->size;
        }
      g_mutex_unlock (&range->space->lock);
      if (mapping == NULL && held)
        return GCUDA_RECLAIM_AGAIN;
      if (mapping == NULL)
        break;
      result = unmap (range, mapping);
      if (result == CUDA_SUCCESS)
        continue;
      if (is_for_now (result))
        return result == CUDA_ERROR_NOT_PERMITTED ? GCUDA_RECLAIM_AGAIN : GCUDA_RECLAIM_BLOCKED;
      /* It stays, to be taken back, or to be tried again when all of the range goes. */
      _gcuda_context_box_report (range->space->context, result, "cuMemUnmap", range->address + offset, size);
      /* Others may have unmapped it meanwhile: it is looked for again. */
      g_mutex_lock (&range->space->lock);
      mapping = mapping_at (range, find_mapping (range, offset));
      if (mapping != NULL && mapping->offset == offset && mapping->cut == cut)
        mapping->cut = NULL;
      g_mutex_unlock (&range->space->lock);
    }
  g_free (cut);
  range_unref (range);
  _gcuda_stream_box_unuse (box);
  return GCUDA_RECLAIM_DONE;
}

void
_gcuda_virtual_range_cut (GCudaVirtualRange *self,
                          gsize from,
                          gsize to,
                          GCudaStreamBox *box)
{
  Cut *cut = g_new0 (Cut, 1);
  Mapping *mapping;

  cut->range = range_ref (self);
  cut->from = from;
  g_mutex_lock (&self->space->lock);
  for (guint i = find_mapping (self, from); (mapping = mapping_at (self, i)) != NULL && mapping->offset < to; i++)
    if (mapping->live && mapping->offset >= from && mapping->offset + mapping->chunk->size <= to)
      {
        mapping->live = FALSE;
        mapping->cut = cut;
        self->mapped -= mapping->chunk->size;
      }
  g_mutex_unlock (&self->space->lock);
  _gcuda_stream_box_queue (box, &cut->waiter, _gcuda_thread_id (), cut_passed);
}
