/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What was done to which bytes. An object is one piece of physical memory; its
 * segments, which cover it without a gap, hold what the next access has to be
 * ordered after: the last write, and the reads since. Addresses are mapped to
 * objects, so that memory with two addresses is one object still.
 *
 * An allocation is a write, and so is a free, after which nothing may come but
 * another allocation. */

#include "checker.h"

/* Freed memory that is remembered, to name it when it is used. */
#define MAX_DEAD 4096
/* Segments of one object */
#define MANY 64

typedef struct
{
  guint64 start, end;
  CheckOp *write;   /* NULL: older than anything that can come */
  GPtrArray *reads; /* since then; NULL: none */
} Segment;

typedef struct
{
  guint64 address, size;
  CheckObject *object;
  guint64 offset;
  GList dead; /* in that queue; its data is the mapping itself */
} Mapping;

static GTree *mappings;
static GQueue dead = G_QUEUE_INIT;

const char *
check_memory_name (CheckMemory memory)
{
  static const char *const names[] = {
    "device memory",
    "pool memory",
    "graph memory",
    "managed memory",
    "pinned host memory",
    "registered host memory",
    "managed pool memory",
    "host pool memory",
    "virtual memory",
    "another process's memory",
  };

  return names[memory];
}

/* ---- segments ---- */

static void
op_release (gpointer op)
{
  check_op_unref (op);
}

static void
segment_clear (Segment *segment)
{
  g_clear_pointer (&segment->write, check_op_unref);
  g_clear_pointer (&segment->reads, g_ptr_array_unref);
}

CheckObject *
check_object_new (CheckMemory memory, guint64 base, guint64 size, CheckOp *made)
{
  CheckObject *object = g_new0 (CheckObject, 1);
  Segment all = { 0, size, NULL, NULL };

  object->refs = 1;
  object->memory = memory;
  object->base = base;
  object->size = size;
  object->many = MANY;
  object->segments = g_array_new (FALSE, FALSE, sizeof (Segment));
  if (made != NULL)
    {
      object->made = check_op_ref (made);
      all.write = check_op_ref (made);
    }
  g_array_append_val (object->segments, all);
  return object;
}

CheckObject *
check_object_ref (CheckObject *object)
{
  object->refs++;
  return object;
}

void
check_object_unref (CheckObject *object)
{
  if (--object->refs > 0)
    return;
  for (guint i = 0; i < object->segments->len; i++)
    segment_clear (&g_array_index (object->segments, Segment, i));
  g_array_unref (object->segments);
  g_clear_pointer (&object->made, check_op_unref);
  g_clear_pointer (&object->replaced, check_stack_unref);
  g_clear_pointer (&object->shared, check_shared_unref);
  g_free (object);
}

/* The segment that OFFSET is in. */
static guint
find_segment (CheckObject *object, guint64 offset)
{
  guint low = 0, high = object->segments->len - 1;

  while (low < high)
    {
      guint middle = low + (high - low) / 2;

      if (g_array_index (object->segments, Segment, middle).end > offset)
        high = middle;
      else
        low = middle + 1;
    }
  return low;
}

static void
split_at (CheckObject *object, guint64 offset)
{
  guint i;
  Segment tail;
  Segment *segment;

  if (offset == 0 || offset >= object->size)
    return;
  i = find_segment (object, offset);
  segment = &g_array_index (object->segments, Segment, i);
  if (segment->start == offset)
    return;
  tail.start = offset;
  tail.end = segment->end;
  tail.write = segment->write != NULL ? check_op_ref (segment->write) : NULL;
  tail.reads = NULL;
  if (segment->reads != NULL)
    {
      tail.reads = g_ptr_array_new_with_free_func (op_release);
      for (guint r = 0; r < segment->reads->len; r++)
        g_ptr_array_add (tail.reads, check_op_ref (g_ptr_array_index (segment->reads, r)));
    }
  segment->end = offset;
  g_array_insert_val (object->segments, i + 1, tail);
}

static gboolean
same_reads (GPtrArray *a, GPtrArray *b)
{
  guint na = a != NULL ? a->len : 0, nb = b != NULL ? b->len : 0;

  return na == nb && (na == 0 || memcmp (a->pdata, b->pdata, na * sizeof (gpointer)) == 0);
}

/* Joins neighbours that are alike, from segment FIRST to segment LAST. */
static void
merge (CheckObject *object, guint first, guint last)
{
  guint to = first;

  for (guint i = first + 1; i <= last; i++)
    {
      Segment *a = &g_array_index (object->segments, Segment, to);
      Segment *b = &g_array_index (object->segments, Segment, i);

      if (a->write == b->write && same_reads (a->reads, b->reads))
        {
          a->end = b->end;
          segment_clear (b);
        }
      else if (++to != i)
        {
          g_array_index (object->segments, Segment, to) = *b;
          memset (b, 0, sizeof *b);
        }
    }
  if (to < last)
    g_array_remove_range (object->segments, to + 1, last - to);
}

/* ---- what an access meets ---- */

static CheckKind
kind_of (const CheckOp *first, const CheckOp *second, const CheckObject *object)
{
  if (second->what == CHECK_UNMAP)
    return CHECK_KIND_UNMAP;
  if (second->what == CHECK_ALLOCATION)
    return CHECK_KIND_POOL_REUSE;
  if (first->what == CHECK_FREE)
    return CHECK_KIND_USE_AFTER_FREE;
  if (second->what == CHECK_FREE)
    return object->replaced != NULL ? CHECK_KIND_DEALLOCATION_STREAM : CHECK_KIND_FREE_BEFORE_LAST_USE;
  if (first->what == CHECK_ALLOCATION)
    return CHECK_KIND_USE_BEFORE_ALLOCATION;
  if (second->host && second->what == CHECK_WRITE && first->what == CHECK_READ)
    return CHECK_KIND_UPLOAD_CHANGED;
  if (first->host || second->host)
    return CHECK_KIND_HOST_ACCESS;
  return first->what == CHECK_WRITE && second->what == CHECK_WRITE ? CHECK_KIND_WRITE_WRITE : CHECK_KIND_READ_WRITE;
}

/* A function of the program runs now; what was queued to come after it is known already. */
static gboolean
is_known_later (const CheckOp *first, const CheckOp *second)
{
  return second->host && check_clock_knows (&first->after, second->slot, second->epoch);
}

static void
meet (CheckOp *first, CheckOp *second, const CheckClock *clock, CheckObject *object, Segment *segment)
{
  gboolean gone = first->what == CHECK_FREE && (second->what == CHECK_READ || second->what == CHECK_MOVE || second->what == CHECK_WRITE);

  /* Whoever unmaps addresses waits for those who used these. */
  if (second->what == CHECK_UNMAP && (first->what == CHECK_ALLOCATION || first->address + first->size <= second->address || first->address >= second->address + second->size))
    return;
  /* Whoever uses memory meanwhile finds it wherever it is. */
  if ((first->what == CHECK_MOVE && second->what == CHECK_WRITE) || (first->what == CHECK_WRITE && second->what == CHECK_MOVE))
    return;
  /* A thread that has an address was told it. */
  if (first->what == CHECK_ALLOCATION && first->host)
    return;
  /* Once freed it is gone, ordered or not. The driver itself says that of a second free. */
  if (second->what == CHECK_FREE && first->what == CHECK_FREE)
    return;
  if (!gone && is_known_later (first, second))
    return;
  if (gone || !check_clock_knows (clock, first->slot, first->epoch))
    check_report (kind_of (first, second, object), first, second, object, segment->start, segment->end - segment->start);
}

/* Forgets what everything comes after that may happen yet. */
static void
forget (Segment *segment)
{
  if (segment->write != NULL && segment->write->what != CHECK_FREE && check_is_old (segment->write->slot, segment->write->epoch))
    g_clear_pointer (&segment->write, check_op_unref);
  for (guint i = segment->reads != NULL ? segment->reads->len : 0; i > 0; i--)
    {
      CheckOp *read = g_ptr_array_index (segment->reads, i - 1);

      if (check_is_old (read->slot, read->epoch))
        g_ptr_array_remove_index_fast (segment->reads, i - 1);
    }
}

static void
touch (Segment *segment, CheckObject *object, CheckOp *op, const CheckClock *clock)
{
  if (segment->write != NULL)
    meet (segment->write, op, clock, object, segment);
  if (segment->reads != NULL)
    {
      for (guint i = segment->reads->len; i > 0; i--)
        {
          CheckOp *read = g_ptr_array_index (segment->reads, i - 1);

          if (op->what != CHECK_READ && op->what != CHECK_MOVE)
            meet (read, op, clock, object, segment);
          /* Whatever comes after a read that came after this one, comes after this one. */
          if (op->what == CHECK_READ && check_clock_knows (clock, read->slot, read->epoch))
            g_ptr_array_remove_index_fast (segment->reads, i - 1);
        }
    }
  forget (segment);
  switch (op->what)
    {
    case CHECK_UNMAP:
      break;
    case CHECK_READ:
    case CHECK_MOVE:
      if (segment->write == NULL || segment->write->what != CHECK_FREE)
        {
          if (segment->reads == NULL)
            segment->reads = g_ptr_array_new_with_free_func (op_release);
          g_ptr_array_add (segment->reads, check_op_ref (op));
        }
      break;
    case CHECK_WRITE:
    case CHECK_ALLOCATION:
    case CHECK_FREE:
    default:
      if (op->what == CHECK_WRITE && segment->write != NULL && segment->write->what == CHECK_FREE)
        break;
      for (guint i = segment->reads != NULL ? segment->reads->len : 0; i > 0; i--)
        {
          if (!is_known_later (g_ptr_array_index (segment->reads, i - 1), op))
            g_ptr_array_remove_index_fast (segment->reads, i - 1);
        }
      if (segment->reads != NULL && segment->reads->len == 0)
        g_clear_pointer (&segment->reads, g_ptr_array_unref);
      if (segment->write != NULL && is_known_later (segment->write, op))
        break;
      g_clear_pointer (&segment->write, check_op_unref);
      segment->write = check_op_ref (op);
      break;
    }
}

static void
object_access (CheckObject *object, guint64 offset, guint64 size, CheckOp *op, const CheckClock *clock)
{
  guint first, last;

  split_at (object, offset);
  split_at (object, offset + size);
  first = last = find_segment (object, offset);
  for (; last < object->segments->len; last++)
    {
      Segment *segment = &g_array_index (object->segments, Segment, last);

      if (segment->start >= offset + size)
        break;
      touch (segment, object, op, clock);
    }
  merge (object, first > 0 ? first - 1 : 0, MIN (last, object->segments->len - 1));
  /* Parts that nobody touches any more are looked at when they have become many. */
  if (object->segments->len > object->many)
    {
      for (guint i = 0; i < object->segments->len; i++)
        forget (&g_array_index (object->segments, Segment, i));
      merge (object, 0, object->segments->len - 1);
      object->many = MAX (MANY, 2 * object->segments->len);
    }
}

/* ---- addresses ---- */

static gint
compare (gconstpointer a, gconstpointer b, gpointer data)
{
  guint64 x = *(const guint64 *) a, y = *(const guint64 *) b;

  (void) data;
  return x < y ? -1 : x > y;
}

static void
mapping_free (gpointer data)
{
  Mapping *mapping = data;

  if (mapping->dead.data != NULL)
    g_queue_unlink (&dead, &mapping->dead);
  check_object_unref (mapping->object);
  g_free (mapping);
}

void
check_memory_init (void)
{
  mappings = g_tree_new_full (compare, NULL, NULL, mapping_free);
}

/* The last mapping that begins at ADDRESS or before it. */
static Mapping *
mapping_before (guint64 address)
{
  GTreeNode *node = g_tree_upper_bound (mappings, &address);

  node = node != NULL ? g_tree_node_previous (node) : g_tree_node_last (mappings);
  return node != NULL ? g_tree_node_value (node) : NULL;
}

static Mapping *
mapping_at (guint64 address)
{
  Mapping *mapping = mapping_before (address);

  return mapping != NULL && address - mapping->address < mapping->size ? mapping : NULL;
}

/* The first mapping in the range. */
static Mapping *
mapping_in (guint64 address, guint64 size)
{
  Mapping *mapping = mapping_at (address);
  GTreeNode *node;

  if (mapping != NULL)
    return mapping;
  node = g_tree_lower_bound (mappings, &address);
  mapping = node != NULL ? g_tree_node_value (node) : NULL;
  return mapping != NULL && mapping->address - address < size ? mapping : NULL;
}

void
check_unmap (guint64 address, guint64 size)
{
  Mapping *mapping;

  while ((mapping = mapping_in (address, size)) != NULL)
    g_tree_remove (mappings, &mapping->address);
}

void
check_map (guint64 address, guint64 size, CheckObject *object, guint64 offset)
{
  Mapping *mapping = g_new0 (Mapping, 1);

  check_unmap (address, size);
  mapping->address = address;
  mapping->size = size;
  mapping->object = check_object_ref (object);
  mapping->offset = offset;
  g_tree_insert (mappings, &mapping->address, mapping);
}

CheckObject *
check_lookup (guint64 address, guint64 *offset, guint64 *length)
{
  Mapping *mapping = mapping_at (address);

  if (mapping == NULL)
    return NULL;
  *offset = mapping->offset + (address - mapping->address);
  *length = mapping->size - (address - mapping->address);
  return mapping->object;
}

void
check_object_share (CheckObject *object, CheckShared *shared)
{
  object->shared = shared;
  for (guint i = 0; i < object->segments->len; i++)
    {
      Segment *segment = &g_array_index (object->segments, Segment, i);

      if (segment->write != NULL)
        check_shared_publish (shared, segment->write, segment->start, segment->end - segment->start);
      for (guint r = 0; segment->reads != NULL && r < segment->reads->len; r++)
        check_shared_publish (shared, g_ptr_array_index (segment->reads, r), segment->start, segment->end - segment->start);
    }
}

gboolean
check_is_freed (guint64 address)
{
  Mapping *mapping = mapping_at (address);

  return mapping != NULL && mapping->dead.data != NULL;
}

gboolean
check_is_of_host (const CheckObject *object)
{
  return object->memory == CHECK_MEMORY_PINNED || object->memory == CHECK_MEMORY_REGISTERED || object->memory == CHECK_MEMORY_MANAGED;
}

static void
access_range (CheckOp *op, const CheckClock *clock, guint64 address, guint64 size)
{
  Mapping *mapping;

  while (size > 0 && (mapping = mapping_in (address, size)) != NULL)
    {
      guint64 skipped = mapping->address > address ? mapping->address - address : 0;
      guint64 inside = address + skipped - mapping->address;
      guint64 length = MIN (size - skipped, mapping->size - inside);

      object_access (mapping->object, mapping->offset + inside, length, op, clock);
      if (mapping->object->shared != NULL)
        check_shared_access (mapping->object, mapping->offset + inside, length, op, clock);
      if (!op->host && (op->what == CHECK_READ || op->what == CHECK_WRITE))
        check_guard_add (mapping->object, mapping->address, address + skipped, length, op);
      address += skipped + length;
      size -= skipped + length;
    }
}

void
check_access (CheckOp *op, const CheckClock *clock, guint64 address, guint64 size, gsize pitch, gsize rows)
{
  op->address = address;
  op->size = rows > 1 ? pitch * (rows - 1) + size : size;
  if (!op->host && check_place_is_ahead ())
    check_clock_copy (&op->after, clock);
  if (rows > 1 && pitch == size)
    {
      size *= rows;
      rows = 1;
    }
  for (gsize row = 0; row < rows; row++)
    access_range (op, clock, address + row * pitch, size);
}

void
check_free (CheckOp *op, const CheckClock *clock, guint64 address)
{
  Mapping *mapping = mapping_at (address);

  if (mapping == NULL || mapping->address != address || mapping->dead.data != NULL)
    return;
  op->address = address;
  op->size = mapping->size;
  access_range (op, clock, address, mapping->size);
  /* What is at these addresses now is the program's own. */
  if (check_is_of_host (mapping->object))
    {
      g_tree_remove (mappings, &address);
      return;
    }
  mapping->dead.data = mapping;
  g_queue_push_tail_link (&dead, &mapping->dead);
  if (dead.length > MAX_DEAD)
    g_tree_remove (mappings, &((Mapping *) g_queue_peek_head (&dead))->address);
}

static gboolean
add_of_context (gpointer key, gpointer value, gpointer data)
{
  gpointer *search = data;
  CheckObject *object = ((Mapping *) value)->object;

  if (object->context == search[0] && check_is_of_host (object))
    g_ptr_array_add (search[1], key);
  return FALSE;
}

/* Host memory goes with its context; what is at these addresses then is the program's own. */
void
check_memory_context_end (CUcontext context)
{
  GPtrArray *found = g_ptr_array_new ();
  gpointer search[] = { context, found };

  g_tree_foreach (mappings, add_of_context, search);
  for (guint i = 0; i < found->len; i++)
    g_tree_remove (mappings, g_ptr_array_index (found, i));
  g_ptr_array_unref (found);
}

void
check_unmapping (CheckOp *op, const CheckClock *clock, guint64 address, guint64 size)
{
  op->address = address;
  op->size = size;
  access_range (op, clock, address, size);
  check_unmap (address, size);
}
