/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Physical memory (ranges of sparse files in memory), addresses (one reserved
 * arena, inaccessible where nothing is mapped), heaps that cut allocations from
 * chunks, and the map from addresses to allocations. */

#include "sim-private.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define GRAIN        512
#define POISON_LIMIT SIM_MIB (16) /* of a larger range only both ends are written */

/* ---- free ranges: sorted, coalesced ---- */

typedef struct
{
  guint64 start, end;
} SimRange;

static void
ranges_add (GArray *ranges, guint64 start, guint64 end)
{
  SimRange range = { start, end };
  guint i = 0;
  guint low = 0, high = ranges->len;

  while (low < high)
    {
      guint middle = (low + high) / 2;

      if (g_array_index (ranges, SimRange, middle).start < start)
        low = middle + 1;
      else
        high = middle;
    }
  i = low;
  if (i < ranges->len && g_array_index (ranges, SimRange, i).start == end)
    {
      g_array_index (ranges, SimRange, i).start = start;
      if (i > 0 && g_array_index (ranges, SimRange, i - 1).end == start)
        {
          g_array_index (ranges, SimRange, i - 1).end = g_array_index (ranges, SimRange, i).end;
          g_array_remove_index (ranges, i);
        }
    }
  else if (i > 0 && g_array_index (ranges, SimRange, i - 1).end == start)
    g_array_index (ranges, SimRange, i - 1).end = end;
  else
    g_array_insert_val (ranges, i, range);
}

/* Takes [start, end) out of the free range with index I. */
static void
ranges_cut (GArray *ranges, guint i, guint64 start, guint64 end)
{
  SimRange *range = &g_array_index (ranges, SimRange, i);
  SimRange rest = { end, range->end };

  if (range->start == start && range->end == end)
    g_array_remove_index (ranges, i);
  else if (range->start == start)
    range->start = end;
  else if (range->end == end)
    range->end = start;
  else
    {
      range->end = start;
      g_array_insert_val (ranges, i + 1, rest);
    }
}

static gboolean
ranges_take (GArray *ranges, guint64 size, guint64 alignment, guint64 *start)
{
  for (guint i = 0; i < ranges->len; i++)
    {
      SimRange *range = &g_array_index (ranges, SimRange, i);
      guint64 at = SIM_ALIGN_UP (range->start, alignment);

      if (at < range->start || at > range->end || range->end - at < size)
        continue;
      ranges_cut (ranges, i, at, at + size);
      *start = at;
      return TRUE;
    }
  return FALSE;
}

static gboolean
ranges_take_at (GArray *ranges, guint64 start, guint64 size)
{
  for (guint i = 0; i < ranges->len; i++)
    {
      SimRange *range = &g_array_index (ranges, SimRange, i);

      if (range->start <= start && range->end >= start && range->end - start >= size)
        {
          ranges_cut (ranges, i, start, start + size);
          return TRUE;
        }
    }
  return FALSE;
}

/* ---- physical memory ---- */

typedef struct
{
  int fd;
  GArray *ranges;
} SimStore;

static SimStore stores[SIM_MAX_DEVICES + 1]; /* the first: host */

static SimStore *
store_of (SimDevice *device)
{
  SimStore *store = &stores[device != NULL ? device->ordinal + 1 : 0];

  if (store->ranges == NULL)
    {
      SimRange all = { 0, G_GUINT64_CONSTANT (1) << 46 };

      store->fd = memfd_create (device != NULL ? "gcudasim-device" : "gcudasim-host", MFD_CLOEXEC);
      if (store->fd < 0 || ftruncate (store->fd, (off_t) all.end) != 0)
        sim_fatal ("no memory file: %s", g_strerror (errno));
      store->ranges = g_array_new (FALSE, FALSE, sizeof (SimRange));
      g_array_append_val (store->ranges, all);
    }
  return store;
}

static guint64
host_total (void)
{
  return (guint64) sysconf (_SC_PHYS_PAGES) * (guint64) sysconf (_SC_PAGESIZE);
}

/* NULL: out of memory. With OWN_FD it has a file of its own, to be shared. */
SimPhysical *
sim_physical_new (SimDevice *device, guint64 size, gboolean own_fd)
{
  SimPhysical *physical;
  guint64 offset = 0;
  int fd;

  if (device != NULL ? size > device->total - device->used : size > host_total ())
    return NULL;
  if (own_fd)
    {
      char name[40];

      /* The name tells an importer which device it is. */
      g_snprintf (name, sizeof name, "gcudasim-shared:%d", device != NULL ? device->index : SIM_HOST);
      fd = memfd_create (name, MFD_CLOEXEC);
      if (fd < 0)
        return NULL;
      if (ftruncate (fd, (off_t) size) != 0)
        {
          close (fd);
          return NULL;
        }
    }
  else
    {
      SimStore *store = store_of (device);

      fd = store->fd;
      if (!ranges_take (store->ranges, size, 4096, &offset))
        return NULL;
    }
  physical = g_new0 (SimPhysical, 1);
  physical->refs = 1;
  physical->id = sim_next_id ();
  physical->device = device;
  physical->fd = fd;
  physical->offset = offset;
  physical->size = size;
  physical->owns_fd = own_fd;
  if (device != NULL)
    device->used += size;
  return physical;
}

/* Takes FD over. */
SimPhysical *
sim_physical_import (SimDevice *device, int fd, guint64 offset, guint64 size)
{
  SimPhysical *physical = g_new0 (SimPhysical, 1);

  physical->refs = 1;
  physical->id = sim_next_id ();
  physical->device = device;
  physical->fd = fd;
  physical->offset = offset;
  physical->size = size;
  physical->owns_fd = TRUE;
  physical->foreign = TRUE;
  return physical;
}

SimPhysical *
sim_physical_ref (SimPhysical *physical)
{
  physical->refs++;
  return physical;
}

void
sim_physical_unref (SimPhysical *physical)
{
  if (--physical->refs > 0)
    return;
  if (physical->view != NULL)
    munmap (physical->view, physical->size);
  if (physical->owns_fd)
    close (physical->fd);
  else
    {
      if (fallocate (physical->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t) physical->offset, (off_t) physical->size) != 0)
        sim_warn ("cannot give memory back: %s", g_strerror (errno));
      ranges_add (store_of (physical->device)->ranges, physical->offset, physical->offset + physical->size);
    }
  if (physical->device != NULL && !physical->foreign)
    physical->device->used -= physical->size;
  g_free (physical);
}

void
sim_physical_map (SimPhysical *physical, guint64 address, guint64 offset, gsize size, int protection)
{
  if (mmap ((gpointer) address, size, protection, MAP_SHARED | MAP_FIXED, physical->fd, (off_t) (physical->offset + offset)) == MAP_FAILED)
    sim_fatal ("cannot map memory: %s", g_strerror (errno));
}

/* ---- addresses ---- */

static GArray *addresses;
static guint64 arena_start, arena_end;

static void
arena_init (void)
{
  guint64 size = G_GUINT64_CONSTANT (1) << 45;
  SimRange all;
  gpointer arena;

#ifdef __SANITIZE_THREAD__
  size = G_GUINT64_CONSTANT (1) << 38;
#endif
  do
    {
      arena = mmap (NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (arena != MAP_FAILED)
        break;
      size >>= 1;
    }
  while (size >= G_GUINT64_CONSTANT (1) << 32);
  if (arena == MAP_FAILED)
    sim_fatal ("no address space for device memory");
  madvise (arena, size, MADV_DONTDUMP);
  arena_start = (guintptr) arena;
  arena_end = arena_start + size;
  all.start = SIM_ALIGN_UP (arena_start, SIM_MIB (2));
  all.end = arena_end;
  addresses = g_array_new (FALSE, FALSE, sizeof (SimRange));
  g_array_append_val (addresses, all);
}

/* 0: none left. WANTED, if free, is granted. */
guint64
sim_address_reserve (gsize size, gsize alignment, guint64 wanted)
{
  guint64 start;

  if (addresses == NULL)
    arena_init ();
  if (wanted != 0 && wanted % alignment == 0 && ranges_take_at (addresses, wanted, size))
    return wanted;
  if (!ranges_take (addresses, size, alignment, &start))
    return 0;
  return start;
}

void
sim_address_unmap (guint64 address, gsize size)
{
  if (mmap ((gpointer) address, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
    sim_fatal ("cannot unmap memory: %s", g_strerror (errno));
}

void
sim_address_release (guint64 address, gsize size)
{
  ranges_add (addresses, address, address + size);
}

void
sim_address_protect (guint64 address, gsize size, int protection)
{
  if (mprotect ((gpointer) address, size, protection) != 0)
    sim_fatal ("cannot protect memory: %s", g_strerror (errno));
}

/* An address that the driver did not give out. */
gboolean
sim_is_host_address (guint64 address)
{
  return address < arena_start || address >= arena_end;
}

void
sim_poison (guint64 address, gsize size, guint8 byte)
{
  guint8 *view = sim_host_view (address, size);
  gboolean guarded = view == (gpointer) address;

  if (guarded)
    sim_check_guards (address, size, FALSE);
  if (size <= POISON_LIMIT)
    memset (view, byte, size);
  else
    {
      memset (view, byte, POISON_LIMIT / 2);
      memset (view + size - POISON_LIMIT / 2, byte, POISON_LIMIT / 2);
    }
  if (guarded)
    sim_check_guards (address, size, TRUE);
}

/* ---- heaps ---- */

static GTree *segments; /* base: SimSegment */

static gint
compare_addresses (gconstpointer a, gconstpointer b)
{
  return (guintptr) a < (guintptr) b ? -1 : (guintptr) a > (guintptr) b;
}

/* The entry with the greatest key that is not above ADDRESS. */
static gpointer
find_below (GTree *tree, guint64 address)
{
  GTreeNode *node;

  if (tree == NULL)
    return NULL;
  node = g_tree_upper_bound (tree, (gconstpointer) address);
  node = node != NULL ? g_tree_node_previous (node) : g_tree_node_last (tree);
  return node != NULL ? g_tree_node_value (node) : NULL;
}

static SimSegment *
segment_of (guint64 address)
{
  SimSegment *segment = find_below (segments, address);

  return segment != NULL && address - segment->base < segment->size ? segment : NULL;
}

SimHeap *
sim_heap_new (SimDevice *device, gsize chunk, gboolean exportable, SimPool *pool)
{
  SimHeap *heap = g_new0 (SimHeap, 1);

  heap->device = device;
  heap->chunk = chunk;
  heap->exportable = exportable;
  heap->pool = pool;
  heap->segments = g_ptr_array_new ();
  return heap;
}

static void
chunk_decommit (SimSegment *segment, guint i)
{
  SimHeap *heap = segment->heap;

  sim_address_unmap (segment->base + i * heap->chunk, heap->chunk);
  g_clear_pointer (&segment->chunks[i], sim_physical_unref);
  heap->reserved -= heap->chunk;
}

static gboolean
chunk_commit (SimSegment *segment, guint i)
{
  SimHeap *heap = segment->heap;

  if (segment->chunks[i] != NULL)
    return TRUE;
  if (heap->max_size != 0 && heap->reserved + heap->chunk > heap->max_size)
    return FALSE;
  segment->chunks[i] = sim_physical_new (heap->device, heap->chunk, heap->exportable);
  if (segment->chunks[i] == NULL)
    return FALSE;
  sim_physical_map (segment->chunks[i], segment->base + i * heap->chunk, 0, heap->chunk, PROT_READ | PROT_WRITE);
  heap->reserved += heap->chunk;
  heap->reserved_high = MAX (heap->reserved_high, heap->reserved);
  return TRUE;
}

static void
segment_free (SimSegment *segment)
{
  SimBlock *block = segment->first;

  for (guint i = 0; i < segment->n_chunks; i++)
    {
      if (segment->chunks[i] != NULL)
        chunk_decommit (segment, i);
    }
  g_tree_remove (segments, (gconstpointer) segment->base);
  sim_address_release (segment->base, segment->size);
  while (block != NULL)
    {
      SimBlock *next = block->next;

      g_clear_pointer (&block->free_op, sim_op_unref);
      g_free (block);
      block = next;
    }
  g_free (segment->chunks);
  g_free (segment);
}

void
sim_heap_free (SimHeap *heap)
{
  for (guint i = 0; i < heap->segments->len; i++)
    segment_free (g_ptr_array_index (heap->segments, i));
  g_ptr_array_unref (heap->segments);
  g_free (heap);
}

static SimSegment *
segment_new (SimHeap *heap, gsize size)
{
  SimSegment *segment;
  guint64 base;

  size = SIM_ALIGN_UP (size, heap->chunk);
  base = sim_address_reserve (size, SIM_MIB (2), 0);
  if (base == 0)
    return NULL;
  segment = g_new0 (SimSegment, 1);
  segment->heap = heap;
  segment->base = base;
  segment->size = size;
  segment->n_chunks = (guint) (size / heap->chunk);
  segment->chunks = g_new0 (SimPhysical *, segment->n_chunks);
  segment->first = segment->hint = g_new0 (SimBlock, 1);
  segment->first->segment = segment;
  segment->first->base = base;
  segment->first->size = size;
  g_ptr_array_add (heap->segments, segment);
  if (segments == NULL)
    segments = g_tree_new (compare_addresses);
  g_tree_insert (segments, (gpointer) base, segment);
  return segment;
}

/* Whether STREAM may have a block now: it is free, or was freed before this
 * point of the stream's order. */
static gboolean
block_usable (SimBlock *block, SimStream *stream)
{
  if (block->state != SIM_BLOCK_PENDING)
    return block->state == SIM_BLOCK_FREE;
  if (sim_op_done (block->free_op))
    return TRUE;
  return stream != NULL && (block->free_op->stream == stream || sim_op_follows (stream->last, block->free_op));
}

static void
block_join_next (SimBlock *block)
{
  SimBlock *next = block->next;
  SimSegment *segment = block->segment;

  block->size += next->size;
  block->next = next->next;
  if (block->next != NULL)
    block->next->prev = block;
  if (segment->hint == next)
    segment->hint = block;
  g_clear_pointer (&next->free_op, sim_op_unref);
  g_free (next);
}

static gboolean
chunks_committed (SimSegment *segment, guint64 base, gsize size)
{
  guint first = (guint) ((base - segment->base) / segment->heap->chunk);
  guint last = (guint) ((base + size - 1 - segment->base) / segment->heap->chunk);

  for (guint i = first; i <= last; i++)
    {
      if (segment->chunks[i] == NULL)
        return FALSE;
    }
  return TRUE;
}

/* Cuts SIZE bytes from the usable blocks that begin with FIRST. */
static SimBlock *
take (SimSegment *segment, SimBlock *first, gsize size)
{
  guint64 end = first->base + size;
  guint64 chunk = segment->heap->chunk;
  guint from = (guint) ((first->base - segment->base) / chunk);
  guint to = (guint) ((end - 1 - segment->base) / chunk);
  guint8 *fresh;

  fresh = g_malloc0 (segment->n_chunks);
  for (guint i = from; i <= to; i++)
    {
      fresh[i] = segment->chunks[i] == NULL;
      if (!chunk_commit (segment, i))
        {
          /* A failed allocation changes nothing. */
          while (i-- > from)
            {
              if (fresh[i])
                chunk_decommit (segment, i);
            }
          g_free (fresh);
          return NULL;
        }
    }
  g_free (fresh);
  while (first->size < size)
    block_join_next (first);
  g_clear_pointer (&first->free_op, sim_op_unref);
  if (first->size > size)
    {
      SimBlock *rest = g_new0 (SimBlock, 1);

      rest->segment = segment;
      rest->base = end;
      rest->size = first->size - size;
      rest->state = SIM_BLOCK_FREE;
      rest->prev = first;
      rest->next = first->next;
      if (rest->next != NULL)
        rest->next->prev = rest;
      first->next = rest;
      first->size = size;
    }
  first->state = SIM_BLOCK_USED;
  segment->n_used++;
  segment->used += size;
  while (segment->hint->state == SIM_BLOCK_USED && segment->hint->next != NULL)
    segment->hint = segment->hint->next;
  return first;
}

static SimBlock *
search (SimSegment *segment, gsize size, SimStream *stream, gboolean committed)
{
  SimBlock *block = segment->hint;

  if (segment->size - segment->used < size)
    return NULL;
  while (block != NULL)
    {
      SimBlock *last = block;
      gsize sum;

      if (!block_usable (block, stream))
        {
          block = block->next;
          continue;
        }
      sum = block->size;
      while (sum < size && last->next != NULL && block_usable (last->next, stream))
        {
          last = last->next;
          sum += last->size;
        }
      if (sum >= size && (!committed || chunks_committed (segment, block->base, size)))
        {
          /* What is cut from the end of a pending block stays pending. */
          if (last->state == SIM_BLOCK_PENDING && sum > size)
            {
              SimBlock *rest = g_new0 (SimBlock, 1);
              gsize rest_size = sum - size;

              *rest = *last;
              rest->base = last->base + last->size - rest_size;
              rest->size = rest_size;
              rest->free_op = sim_op_ref (last->free_op);
              rest->prev = last;
              last->size -= rest_size;
              if (rest->next != NULL)
                rest->next->prev = rest;
              last->next = rest;
            }
          return block;
        }
      block = last->next;
    }
  return NULL;
}

static SimBlock *
heap_try (SimHeap *heap, gsize size, SimStream *stream)
{
  for (int committed = 1; committed >= 0; committed--)
    {
      for (guint i = 0; i < heap->segments->len; i++)
        {
          SimSegment *segment = g_ptr_array_index (heap->segments, i);
          SimBlock *block = search (segment, size, stream, committed);

          if (block != NULL)
            {
              block = take (segment, block, size);
              if (block != NULL)
                return block;
            }
        }
    }
  return NULL;
}

/* For the order of STREAM; NULL: for use at once. */
CUresult
sim_heap_alloc (SimHeap *heap, gsize size, SimStream *stream, SimBlock **block)
{
  guint64 limit = heap->device != NULL ? heap->device->total : host_total ();
  SimSegment *segment;

  if (size > limit)
    return CUDA_ERROR_OUT_OF_MEMORY;
  size = SIM_ALIGN_UP (MAX (size, 1), GRAIN);
  *block = heap_try (heap, size, stream);
  if (*block != NULL)
    return CUDA_SUCCESS;

  segment = segment_new (heap, size);
  if (segment != NULL)
    {
      *block = take (segment, segment->first, size);
      if (*block != NULL)
        return CUDA_SUCCESS;
      g_ptr_array_remove (heap->segments, segment);
      segment_free (segment);
    }
  return CUDA_ERROR_OUT_OF_MEMORY;
}

static SimBlock *
blocks_coalesce (SimBlock *block)
{
  SimSegment *segment = block->segment;

  if (block->next != NULL && block->next->state == SIM_BLOCK_FREE)
    block_join_next (block);
  if (block->prev != NULL && block->prev->state == SIM_BLOCK_FREE)
    {
      block = block->prev;
      block_join_next (block);
    }
  if (block->base < segment->hint->base)
    segment->hint = block;
  return block;
}

static void
block_unuse (SimBlock *block)
{
  if (block->state == SIM_BLOCK_USED)
    {
      block->segment->n_used--;
      block->segment->used -= block->size;
    }
  block->segment->heap->dirty = TRUE;
}

/* Free for anybody; and memory that no pool keeps is given back, as far as the free part around it reaches. */
static void
block_release (SimBlock *block)
{
  SimSegment *segment = block->segment;
  SimHeap *heap = segment->heap;

  block_unuse (block);
  block->state = SIM_BLOCK_FREE;
  g_clear_pointer (&block->free_op, sim_op_unref);
  block = blocks_coalesce (block);
  if (heap->pool != NULL)
    return;
  for (guint64 i = (block->base - segment->base + heap->chunk - 1) / heap->chunk; i < (block->base + block->size - segment->base) / heap->chunk; i++)
    {
      if (segment->chunks[i] != NULL)
        chunk_decommit (segment, (guint) i);
    }
  if (block->size == segment->size)
    {
      g_ptr_array_remove (heap->segments, segment);
      segment_free (segment);
    }
}

/* Free once FREE_OP is done, and for what comes after it in its order. */
void
sim_block_pending (SimBlock *block, SimOp *free_op)
{
  block_unuse (block);
  block->state = SIM_BLOCK_PENDING;
  block->free_op = sim_op_ref (free_op);
  if (block->base < block->segment->hint->base)
    block->segment->hint = block;
}

/* Gives unused chunks back while at least KEEP bytes stay. */
void
sim_heap_trim (SimHeap *heap, guint64 keep)
{
  heap->dirty = FALSE;
  for (guint s = heap->segments->len; s > 0; s--)
    {
      SimSegment *segment = g_ptr_array_index (heap->segments, s - 1);
      gboolean any = FALSE;
      guint8 *busy;

      if (heap->reserved <= keep && segment->n_used > 0)
        continue;
      busy = g_malloc0 (segment->n_chunks);
      for (SimBlock *block = segment->first; block != NULL; block = block->next)
        {
          if (block->state == SIM_BLOCK_PENDING && sim_op_done (block->free_op))
            {
              block->state = SIM_BLOCK_FREE;
              g_clear_pointer (&block->free_op, sim_op_unref);
            }
          while (block->state == SIM_BLOCK_FREE && block->prev != NULL && block->prev->state == SIM_BLOCK_FREE)
            {
              block = block->prev;
              block_join_next (block);
            }
          if (block->state == SIM_BLOCK_FREE)
            continue;
          any = TRUE;
          heap->dirty |= block->state == SIM_BLOCK_PENDING;
          for (guint64 i = (block->base - segment->base) / heap->chunk; i <= (block->base + block->size - 1 - segment->base) / heap->chunk; i++)
            busy[i] = TRUE;
        }
      for (guint i = segment->n_chunks; i > 0; i--)
        {
          /* The sum overflows for a very large KEEP, as the driver's does: then everything goes. */
          if (!busy[i - 1] && segment->chunks[i - 1] != NULL && heap->reserved >= keep + heap->chunk)
            chunk_decommit (segment, i - 1);
        }
      g_free (busy);
      if (!any)
        {
          for (guint i = 0; i < segment->n_chunks; i++)
            any |= segment->chunks[i] != NULL;
          if (!any)
            {
              g_ptr_array_remove_index (heap->segments, s - 1);
              segment_free (segment);
            }
        }
    }
}

/* ---- the map ---- */

static GTree *map; /* base: SimAllocation */
static guint64 last_buffer_id;

SimAllocation *
sim_allocation_new (SimAllocationKind kind, guint64 base, gsize size, SimDevice *device)
{
  SimAllocation *allocation = g_new0 (SimAllocation, 1);

  if (map == NULL)
    map = g_tree_new (compare_addresses);
  allocation->kind = kind;
  allocation->base = base;
  allocation->size = size;
  allocation->device = device;
  allocation->buffer_id = ++last_buffer_id;
  g_tree_insert (map, (gpointer) base, allocation);
  return allocation;
}

/* Takes it off the map and gives back what it still has. */
void
sim_allocation_remove (SimAllocation *allocation)
{
  g_tree_remove (map, (gconstpointer) allocation->base);
  if (allocation->block != NULL)
    {
      sim_poison (allocation->base, allocation->size, 0xdb);
      block_release (allocation->block);
    }
  sim_ipc_allocation_clear (allocation);
  if (allocation->imported != NULL)
    {
      sim_address_unmap (allocation->base, SIM_ALIGN_UP (allocation->size, 4096));
      if (allocation->kind != SIM_ALLOCATION_GRAPH)
        sim_address_release (allocation->base, SIM_ALIGN_UP (allocation->size, SIM_MIB (2)));
      sim_physical_unref (allocation->imported);
    }
  if (allocation->pool != NULL)
    sim_pool_unref (allocation->pool);
  g_free (allocation->advice);
  g_free (allocation);
}

SimAllocation *
sim_allocation_at (guint64 address)
{
  SimAllocation *allocation = map != NULL ? g_tree_lookup (map, (gconstpointer) address) : NULL;

  return allocation != NULL && !allocation->zombie ? allocation : NULL;
}

static SimAllocation *
find_any (guint64 address)
{
  SimAllocation *allocation = find_below (map, address);

  return allocation != NULL && address - allocation->base < allocation->size ? allocation : NULL;
}

SimAllocation *
sim_allocation_find (guint64 address)
{
  SimAllocation *allocation = find_any (address);

  return allocation != NULL && !allocation->zombie ? allocation : NULL;
}

/* The free of an imported allocation runs. */
void
sim_zombie_remove (guint64 address)
{
  SimAllocation *allocation = find_any (address);

  if (allocation != NULL && allocation->zombie)
    sim_allocation_remove (allocation);
}

SimAllocation *
sim_allocation_next (guint64 address)
{
  GTreeNode *node = map != NULL ? g_tree_upper_bound (map, (gconstpointer) address) : NULL;

  return node != NULL ? g_tree_node_value (node) : NULL;
}

/* Whether no allocation touches the range. */
gboolean
sim_range_free (guint64 address, gsize size)
{
  SimAllocation *next = sim_allocation_next (address);

  return sim_allocation_find (address) == NULL && (next == NULL || next->base >= address + size);
}

void
sim_allocations_foreach (void (*function) (SimAllocation *allocation, gpointer data), gpointer data)
{
  if (map == NULL)
    return;
  for (GTreeNode *node = g_tree_node_first (map); node != NULL; node = g_tree_node_next (node))
    function (g_tree_node_value (node), data);
}

static gboolean
may_access (SimAllocation *allocation, gboolean write, SimDevice *device, gboolean copy)
{
  int need = write ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ;

  switch (allocation->kind)
    {
    case SIM_ALLOCATION_POOL:
      if (allocation->pool->device == NULL && (copy || !sim_pool_is_host (allocation->pool)))
        return TRUE;
      return (allocation->pool->access[device->ordinal] & need) == need;
    case SIM_ALLOCATION_MAPPED:
      /* To a copy, memory of the host is the host's. */
      if (copy && allocation->memory->prop.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return TRUE;
      return (allocation->access[device->ordinal] & need) == need;
    case SIM_ALLOCATION_DEVICE:
      /* Copies find a way; anything else needs the peer's grant. */
      if (allocation->device == device || copy)
        return TRUE;
      return sim.peer_access && device->primary->alive && g_hash_table_contains (device->primary->peers, allocation->context);
    case SIM_ALLOCATION_GRAPH:
      return (allocation->live || (sim_building != NULL && allocation->graph == sim_building->id)) && allocation->device == device;
    case SIM_ALLOCATION_REGISTERED:
      return !write || !allocation->read_only;
    case SIM_ALLOCATION_PINNED:
    case SIM_ALLOCATION_MANAGED:
    case SIM_ALLOCATION_IPC:
    default:
      return TRUE;
    }
}

/* What the driver checks at a call: all of the range is in one allocation, or
 * in adjacent mappings, that the device may access. */
CUresult
sim_check_range (guint64 address, gsize size, gboolean write, SimDevice *device, gboolean copy)
{
  guint64 end = address + size;

  if (end < address)
    return CUDA_ERROR_INVALID_VALUE;
  while (address < end)
    {
      SimAllocation *allocation = sim_allocation_find (address);

      if (allocation == NULL || !may_access (allocation, write, device, copy))
        return CUDA_ERROR_INVALID_VALUE;
      address = allocation->base + allocation->size;
      if (address < end && allocation->kind != SIM_ALLOCATION_MAPPED)
        return CUDA_ERROR_INVALID_VALUE;
    }
  return CUDA_SUCCESS;
}

/* What the hardware checks when work runs: there is memory, with that right.
 * Freed memory of a pool that still has its chunk is not noticed. */
gboolean
sim_range_accessible (guint64 address, gsize size, gboolean write, SimDevice *device)
{
  guint64 end = address + size;

  while (address < end)
    {
      SimAllocation *allocation = find_any (address);
      SimSegment *segment;

      if (allocation != NULL && allocation->kind == SIM_ALLOCATION_MAPPED)
        {
          if (!may_access (allocation, write, device, FALSE))
            return FALSE;
          address = allocation->base + allocation->size;
          continue;
        }
      if (allocation != NULL && (allocation->kind == SIM_ALLOCATION_REGISTERED || allocation->imported != NULL))
        {
          address = allocation->base + allocation->size;
          continue;
        }
      segment = segment_of (address);
      if (segment == NULL || segment->chunks[(address - segment->base) / segment->heap->chunk] == NULL)
        return FALSE;
      address = segment->base + ((address - segment->base) / segment->heap->chunk + 1) * segment->heap->chunk;
    }
  return TRUE;
}

/* Whether a heap has memory for all of the range. */
gboolean
sim_range_committed (guint64 address, gsize size)
{
  guint64 end = address + size;

  while (address < end)
    {
      SimSegment *segment = segment_of (address);

      if (segment == NULL || segment->chunks[(address - segment->base) / segment->heap->chunk] == NULL)
        return FALSE;
      address = segment->base + ((address - segment->base) / segment->heap->chunk + 1) * segment->heap->chunk;
    }
  return TRUE;
}

/* The physical memory behind an address now, and how much of it follows. FALSE:
 * none that the driver knows (ordinary host memory too). */
gboolean
sim_resolve (guint64 address, SimPhysical **physical, guint64 *offset, gsize *length)
{
  SimAllocation *allocation = sim_allocation_find (address);
  SimSegment *segment;
  gsize within;

  if (allocation != NULL && allocation->kind == SIM_ALLOCATION_MAPPED)
    {
      *physical = allocation->memory->physical;
      *offset = allocation->offset + (address - allocation->base);
      *length = allocation->base + allocation->size - address;
      return TRUE;
    }
  if (allocation != NULL && allocation->imported != NULL)
    {
      *physical = allocation->imported;
      *offset = address - allocation->base;
      *length = allocation->base + allocation->size - address;
      return TRUE;
    }
  segment = segment_of (address);
  if (segment == NULL)
    return FALSE;
  within = (address - segment->base) % segment->heap->chunk;
  *physical = segment->chunks[(address - segment->base) / segment->heap->chunk];
  *offset = within;
  *length = segment->heap->chunk - within;
  return *physical != NULL;
}

/* The same bytes where the driver itself may touch them: the pages of host memory that streams work on may be protected
 * from the program. The address itself if it is no such memory, or lies in two chunks. */
gpointer
sim_host_view (guint64 address, gsize size)
{
  SimSegment *segment = sim.check_host ? segment_of (address) : NULL;
  SimPhysical *physical;
  gsize within;

  if (segment == NULL || segment->heap->device != NULL)
    return (gpointer) address;
  within = (address - segment->base) % segment->heap->chunk;
  physical = segment->chunks[(address - segment->base) / segment->heap->chunk];
  if (physical == NULL || within + size > segment->heap->chunk)
    return (gpointer) address;
  if (physical->view == NULL)
    {
      gpointer view = mmap (NULL, physical->size, PROT_READ | PROT_WRITE, MAP_SHARED, physical->fd, (off_t) physical->offset);

      if (view == MAP_FAILED)
        return (gpointer) address;
      physical->view = view;
    }
  return physical->view + within;
}
