/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-graph-memory-private.h"

struct _GCudaGraphMemory
{
  gint refs;
  cuuint64_t capture;
  GArray *addresses; /* that it has blocks for; with the lock */
  gint n_blocks;
  gint n_orphans;
  gboolean capturing;
  gboolean abandoned; /* no graph comes of the capture, however long that takes to end */
  gboolean launched;
};

/* An address from its node on, until its buffer is released or, if that comes first, until its graph is gone. */
typedef struct
{
  gsize size;
  GCudaGraphMemory *memory; /* NULL: a graph of others, or one that is gone */
  cuuint64_t capture;       /* 0 for a graph that is gone */
  gboolean freed;           /* by a node of the graph */
  gboolean released;        /* its buffer is gone: what the graph does not free, each launch does */
  gboolean wanted;          /* its buffer went while the capture went on, and the release will be tried again */
  gboolean launched;        /* of a graph that is gone */
  guint stale;              /* buffers of graphs that are gone, were never launched, and had this address */
} Block;

static GMutex lock;
static GTree *blocks;        /* address: Block */
static GHashTable *captures; /* id: GCudaGraphMemory, not referenced */

static int
compare_addresses (gconstpointer a,
                   gconstpointer b,
                   gpointer data)
{
  const CUdeviceptr first = *(const CUdeviceptr *) a, second = *(const CUdeviceptr *) b;

  return first < second ? -1 : first > second;
}

/* Under the lock. */
static void
prepare_tables (void)
{
  if (blocks != NULL)
    return;
  blocks = g_tree_new_full (compare_addresses, NULL, g_free, g_free);
  captures = g_hash_table_new (NULL, NULL);
}

GCudaGraphMemory *
_gcuda_graph_memory_new (cuuint64_t capture)
{
  GCudaGraphMemory *self = g_new0 (GCudaGraphMemory, 1);

  self->refs = 1;
  self->capture = capture;
  self->capturing = capture != 0;
  self->addresses = g_array_new (FALSE, FALSE, sizeof (CUdeviceptr));
  g_mutex_lock (&lock);
  prepare_tables ();
  if (capture != 0)
    g_hash_table_insert (captures, GSIZE_TO_POINTER (capture), self);
  g_mutex_unlock (&lock);
  return self;
}

GCudaGraphMemory *
_gcuda_graph_memory_ref (GCudaGraphMemory *self)
{
  g_atomic_int_inc (&self->refs);
  return self;
}

static Block *
find (CUdeviceptr address)
{
  return blocks != NULL ? g_tree_lookup (blocks, &address) : NULL;
}

/* The one that an address lies in: what is built on this memory may have handed on a part of it. */
static Block *
find_around (CUdeviceptr address)
{
  GTreeNode *above, *node;
  Block *block;

  if (blocks == NULL)
    return NULL;
  above = g_tree_upper_bound (blocks, &address);
  node = above != NULL ? g_tree_node_previous (above) : g_tree_node_last (blocks);
  if (node == NULL)
    return NULL;
  block = g_tree_node_value (node);
  return address - *(const CUdeviceptr *) g_tree_node_key (node) < block->size ? block : NULL;
}

static void
forget (CUdeviceptr address)
{
  g_tree_remove (blocks, &address);
}

void
_gcuda_graph_memory_end_capture (GCudaGraphMemory *self)
{
  g_mutex_lock (&lock);
  if (self->capturing)
    g_hash_table_remove (captures, GSIZE_TO_POINTER (self->capture));
  self->capturing = FALSE;
  /* Launches that come before that find it released. */
  for (guint i = 0; i < self->addresses->len; i++)
    {
      Block *block = find (g_array_index (self->addresses, CUdeviceptr, i));

      if (block == NULL || block->memory != self || !block->wanted || block->released)
        continue;
      block->released = TRUE;
      if (!block->freed)
        g_atomic_int_inc (&self->n_orphans);
    }
  g_mutex_unlock (&lock);
}

void
_gcuda_graph_memory_abandon (GCudaGraphMemory *self)
{
  g_mutex_lock (&lock);
  self->abandoned = TRUE;
  g_mutex_unlock (&lock);
}

void
_gcuda_graph_memory_unref (GCudaGraphMemory *self)
{
  /* Others find it by the id of its capture only, and that is over by now. */
  if (!g_atomic_int_dec_and_test (&self->refs))
    return;
  g_mutex_lock (&lock);
  for (guint i = 0; i < self->addresses->len; i++)
    {
      CUdeviceptr address = g_array_index (self->addresses, CUdeviceptr, i);
      Block *block = find (address);

      if (block == NULL || block->memory != self)
        continue;
      /* Without a launch it was never there, and the address may be anybody's by now. */
      block->memory = NULL;
      block->capture = 0;
      block->launched = self->launched;
      if (block->released && !block->wanted && block->stale == 0)
        forget (address);
    }
  g_mutex_unlock (&lock);
  g_array_unref (self->addresses);
  g_free (self);
}

void
_gcuda_graph_memory_add (GCudaGraphMemory *self,
                         cuuint64_t capture,
                         CUdeviceptr address,
                         gsize size)
{
  Block *block = g_new0 (Block, 1), *before;

  block->size = size;
  block->memory = self;
  block->capture = capture;
  g_mutex_lock (&lock);
  prepare_tables ();
  before = find (address);
  /* The driver gave the address again, so what was there is gone; a buffer may be left of it, which has nothing to free. */
  if (before != NULL)
    block->stale = before->stale + (before->released && !before->wanted ? 0 : 1);
  g_tree_replace (blocks, g_memdup2 (&address, sizeof address), block);
  if (self != NULL)
    {
      g_array_append_val (self->addresses, address);
      g_atomic_int_inc (&self->n_blocks);
    }
  g_mutex_unlock (&lock);
}

GCudaGraphMemory *
_gcuda_graph_memory_find (cuuint64_t capture)
{
  GCudaGraphMemory *self = NULL;

  g_mutex_lock (&lock);
  if (captures != NULL)
    self = g_hash_table_lookup (captures, GSIZE_TO_POINTER (capture));
  if (self != NULL)
    _gcuda_graph_memory_ref (self);
  g_mutex_unlock (&lock);
  return self;
}

gboolean
_gcuda_graph_memory_is_used (GCudaGraphMemory *self)
{
  return g_atomic_int_get (&self->n_blocks) > 0;
}

gboolean
_gcuda_graph_memory_owns (GCudaGraphMemory *self,
                          CUdeviceptr address)
{
  Block *block;
  gboolean owns;

  g_mutex_lock (&lock);
  block = find (address);
  owns = block != NULL && block->memory == self;
  g_mutex_unlock (&lock);
  return owns;
}

gboolean
_gcuda_graph_memory_contains (GCudaGraphMemory *self,
                              CUdeviceptr address)
{
  Block *block;
  gboolean contains;

  g_mutex_lock (&lock);
  block = find_around (address);
  contains = block != NULL && block->memory == self;
  g_mutex_unlock (&lock);
  return contains;
}

gboolean
_gcuda_graph_memory_is_of_capture (CUdeviceptr address,
                                   cuuint64_t capture)
{
  Block *block;
  gboolean is;

  g_mutex_lock (&lock);
  block = find_around (address);
  is = block != NULL && (block->memory != NULL ? block->memory->capture : block->capture) == capture;
  g_mutex_unlock (&lock);
  return is;
}

static void
set_freed (CUdeviceptr address,
           gboolean released)
{
  Block *block;

  g_mutex_lock (&lock);
  block = find (address);
  if (block != NULL)
    {
      block->freed = TRUE;
      block->released |= released;
      /* Of a graph of others nothing says when it is gone. */
      if (block->released && block->memory == NULL && block->stale == 0)
        forget (address);
    }
  g_mutex_unlock (&lock);
}

void
_gcuda_graph_memory_set_freed (CUdeviceptr address)
{
  set_freed (address, FALSE);
}

/* An orphan of a graph, each time another; FALSE when there are no more. */
static gboolean
next_orphan (GCudaGraphMemory *self,
             guint *position,
             CUdeviceptr *address,
             gsize *size)
{
  gboolean found = FALSE;

  g_mutex_lock (&lock);
  while (!found && *position < self->addresses->len)
    {
      Block *block;

      *address = g_array_index (self->addresses, CUdeviceptr, (*position)++);
      block = find (*address);
      found = block != NULL && block->memory == self && block->released && !block->freed;
      if (found)
        *size = block->size;
    }
  g_mutex_unlock (&lock);
  return found;
}

void
_gcuda_graph_memory_launched (GCudaGraphMemory *self,
                              CUstream stream)
{
  GCudaTeardown teardown;
  CUdeviceptr address;
  guint position = 0;
  gsize size;

  if (G_LIKELY (g_atomic_int_get (&self->n_blocks) == 0))
    return;
  g_mutex_lock (&lock);
  self->launched = TRUE;
  g_mutex_unlock (&lock);
  /* A release like others, in relaxed mode. */
  if (g_atomic_int_get (&self->n_orphans) == 0 || !_gcuda_teardown_enter (&teardown))
    return;
  while (next_orphan (self, &position, &address, &size))
    {
      CUresult result = _gcuda_driver.MemFreeAsync (address, stream);
      g_autoptr (GError) error = NULL;

      if (result == CUDA_SUCCESS || result == CUDA_ERROR_DEINITIALIZED || _gcuda_result_is_sticky (result))
        continue;
      _gcuda_fail_driver (&error, result, "freeing memory of a graph after its launch");
      _gcuda_report_teardown (error, "cuMemFreeAsync", address, size);
    }
  _gcuda_teardown_leave (&teardown);
}

typedef enum
{
  FREE,      /* on the stream: it is there */
  FREE_NODE, /* in the capture that made it */
  LATER,
  NOTHING,
  ASK, /* the driver, whether it is there */
} Due;

static Due
find_due (CUdeviceptr address,
          CUstreamCaptureStatus status,
          cuuint64_t capture)
{
  Block *block = find (address);

  if (block == NULL)
    return status == CU_STREAM_CAPTURE_STATUS_NONE ? FREE : LATER;
  if (block->stale > 0)
    {
      block->stale--;
      if (block->stale == 0 && block->released && block->memory == NULL)
        forget (address);
      return NOTHING;
    }
  if (block->memory != NULL && block->memory->abandoned)
    {
      block->wanted = FALSE;
      block->released = TRUE;
      return NOTHING;
    }
  if (!block->freed && status == CU_STREAM_CAPTURE_STATUS_ACTIVE && capture != 0 &&
      capture == (block->memory != NULL ? block->memory->capture : block->capture))
    {
      block->wanted = FALSE;
      return FREE_NODE;
    }
  if (block->memory != NULL && block->memory->capturing && !block->freed)
    {
      block->wanted = TRUE;
      return LATER;
    }
  if (block->wanted && block->released)
    {
      /* The launches have it. */
      block->wanted = FALSE;
      if (block->memory == NULL)
        forget (address);
      return NOTHING;
    }
  block->wanted = FALSE;
  if (!block->freed && status != CU_STREAM_CAPTURE_STATUS_NONE)
    return LATER;
  if (block->memory == NULL)
    {
      Due due = block->freed ? NOTHING : block->capture != 0 ? ASK
                                       : block->launched     ? FREE
                                                             : NOTHING;

      forget (address);
      return due;
    }
  /* From now on launches free it: it has no buffer. */
  block->released = TRUE;
  if (block->freed)
    return NOTHING;
  g_atomic_int_inc (&block->memory->n_orphans);
  return block->memory->launched ? FREE : NOTHING;
}

/* The stream could not free it: the release is tried again. */
static void
take_back (CUdeviceptr address)
{
  Block *block;

  g_mutex_lock (&lock);
  block = find (address);
  if (block != NULL && block->memory != NULL && block->released)
    {
      block->released = FALSE;
      g_atomic_int_add (&block->memory->n_orphans, -1);
    }
  g_mutex_unlock (&lock);
}

static GMutex joins;

void
_gcuda_graph_joins_lock (void)
{
  g_mutex_lock (&joins);
}

void
_gcuda_graph_joins_unlock (void)
{
  g_mutex_unlock (&joins);
}

/* Behind a join nothing is joined any more: the capture goes on in the stream that a fork was joined into. */
static CUresult
capture_free (CUdeviceptr address,
              GCudaStreamBox *box,
              CUstream stream)
{
  CUresult result;

  _gcuda_graph_joins_lock ();
  while (box->joined != NULL)
    {
      box = box->joined;
      stream = box->handle;
    }
  result = _gcuda_driver.MemFreeAsync (address, stream);
  _gcuda_graph_joins_unlock ();
  return result;
}

CUresult
_gcuda_graph_memory_release (CUdeviceptr address,
                             GCudaStreamBox *box,
                             CUstream stream)
{
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t capture = 0, now = 0;
  CUgraph graph = NULL;
  CUresult result;
  unsigned int type;
  Due due;

  result = _gcuda_driver.StreamGetCaptureInfo (stream, &status, &capture, &graph, NULL, NULL);
  if (result != CUDA_SUCCESS && !_gcuda_result_is_sticky (result))
    return result;
  g_mutex_lock (&lock);
  due = find_due (address, status, capture);
  g_mutex_unlock (&lock);
  switch (due)
    {
    case FREE_NODE:
      result = capture_free (address, box, stream);
      if (result == CUDA_SUCCESS)
        set_freed (address, TRUE);
      /* Another thread may have ended the capture: then it is decided anew. */
      else if (result == CUDA_ERROR_INVALID_VALUE &&
               _gcuda_driver.StreamGetCaptureInfo (stream, &status, &now, &graph, NULL, NULL) == CUDA_SUCCESS &&
               (status != CU_STREAM_CAPTURE_STATUS_ACTIVE || now != capture))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
      return result;
    case LATER:
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    case ASK:
      if (_gcuda_driver.PointerGetAttribute (&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == CUDA_ERROR_INVALID_VALUE)
        return CUDA_SUCCESS;
      return _gcuda_driver.MemFreeAsync (address, stream);
    case FREE:
      result = _gcuda_driver.MemFreeAsync (address, stream);
      switch ((int) result)
        {
        case CUDA_ERROR_NOT_PERMITTED:
        case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
        case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
        case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
          take_back (address);
          break;
        default:
          break;
        }
      return result;
    case NOTHING:
    default:
      return CUDA_SUCCESS;
    }
}

CUresult
_gcuda_graph_memory_release_gone (CUdeviceptr address)
{
  Block *block;
  Due due;

  g_mutex_lock (&lock);
  due = find_due (address, CU_STREAM_CAPTURE_STATUS_NONE, 0);
  /* Nobody comes back for it. */
  block = due == LATER ? find (address) : NULL;
  if (block != NULL)
    {
      block->released = TRUE;
      block->wanted = FALSE;
    }
  g_mutex_unlock (&lock);
  return due == FREE ? _gcuda_driver.MemFree (address) : CUDA_SUCCESS;
}
