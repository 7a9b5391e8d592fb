/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a graph does when it is launched. The driver is asked for the nodes when
 * the graph is instantiated, however it was made. Nodes that follow one another
 * share a timeline; each branch has its own, which the next launch uses again. */

#include "checker.h"

typedef struct
{
  CheckWhat what;
  guint64 address, size;
  gsize pitch, rows;
  const char *function;
} Access;

typedef struct
{
  CUgraphNode handle;
  CUgraphNodeType type;
  GArray *before; /* indices of nodes */
  GArray *accesses;
  CUevent event;
  gboolean disabled;
  guint lane;
  gboolean continued; /* another node goes on in its lane */
  CheckClock clock;
} Node;

typedef struct
{
  GPtrArray *nodes;  /* each after those that it depends on */
  GArray *lanes;     /* slots */
  GHashTable *owned; /* user objects, or NULL */
  CheckClock clock;  /* of the latest launch */
} Exec;

static GHashTable *execs;
static GHashTable *owned;    /* graph: set of its user objects */
static GHashTable *declared; /* node: GArray of Access, which no driver tells */

static void
node_free (gpointer data)
{
  Node *node = data;

  g_array_unref (node->before);
  g_array_unref (node->accesses);
  check_clock_clear (&node->clock);
  g_free (node);
}

static void
exec_free (gpointer data)
{
  Exec *exec = data;

  for (guint i = 0; i < exec->lanes->len; i++)
    {
      if (g_array_index (exec->lanes, guint, i) != CHECK_NO_SLOT)
        check_slot_end (g_array_index (exec->lanes, guint, i));
    }
  g_ptr_array_unref (exec->nodes);
  g_array_unref (exec->lanes);
  g_clear_pointer (&exec->owned, g_hash_table_unref);
  check_clock_clear (&exec->clock);
  g_free (exec);
}

static void
add_access (Node *node, CheckWhat what, guint64 address, guint64 size, gsize pitch, gsize rows, const char *function)
{
  Access access = { what, address, size, pitch, rows, function };

  if (size > 0 && rows > 0)
    g_array_append_val (node->accesses, access);
}

static void
add_memset (Node *node, const CUDA_MEMSET_NODE_PARAMS *p)
{
  add_access (node, CHECK_WRITE, p->dst, (guint64) p->width * p->elementSize, p->pitch, p->height, "graph memset node");
}

static void
add_copy (Node *node, const CUDA_MEMCPY3D *p)
{
  CheckSide dst = check_side (p->dstMemoryType, p->dstHost, p->dstDevice, p->dstPitch, p->dstHeight, p->dstXInBytes, p->dstY, p->dstZ, p->WidthInBytes, p->Height);
  CheckSide src = check_side (p->srcMemoryType, p->srcHost, p->srcDevice, p->srcPitch, p->srcHeight, p->srcXInBytes, p->srcY, p->srcZ, p->WidthInBytes, p->Height);

  if (p->dstMemoryType == CU_MEMORYTYPE_ARRAY || p->srcMemoryType == CU_MEMORYTYPE_ARRAY)
    return;
  for (gsize z = 0; z < p->Depth; z++)
    {
      add_access (node, CHECK_READ, src.address + z * src.slice, p->WidthInBytes, src.pitch, p->Height, "graph copy node");
      add_access (node, CHECK_WRITE, dst.address + z * dst.slice, p->WidthInBytes, dst.pitch, p->Height, "graph copy node");
    }
}

static void
read_node (Node *node)
{
  GArray *more = declared != NULL ? g_hash_table_lookup (declared, node->handle) : NULL;
  CUDA_MEM_ALLOC_NODE_PARAMS alloc;
  CUDA_MEMSET_NODE_PARAMS set;
  CUDA_MEMCPY3D copy;
  CUdeviceptr address;

  switch ((int) node->type)
    {
    case CU_GRAPH_NODE_TYPE_MEMSET:
      if (CHECK_DRIVER (cuGraphMemsetNodeGetParams, node->handle, &set) == CUDA_SUCCESS)
        add_memset (node, &set);
      break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      if (CHECK_DRIVER (cuGraphMemcpyNodeGetParams, node->handle, &copy) == CUDA_SUCCESS)
        add_copy (node, &copy);
      break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      if (CHECK_DRIVER (cuGraphMemAllocNodeGetParams, node->handle, &alloc) == CUDA_SUCCESS)
        add_access (node, CHECK_ALLOCATION, alloc.dptr, alloc.bytesize, 0, 1, "graph allocation node");
      break;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      if (CHECK_DRIVER (cuGraphMemFreeNodeGetParams, node->handle, &address) == CUDA_SUCCESS)
        add_access (node, CHECK_FREE, address, 1, 0, 1, "graph free node");
      break;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      CHECK_DRIVER (cuGraphEventRecordNodeGetEvent, node->handle, &node->event);
      break;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      CHECK_DRIVER (cuGraphEventWaitNodeGetEvent, node->handle, &node->event);
      break;
    default:
      break;
    }
  if (more != NULL)
    g_array_append_vals (node->accesses, more->data, more->len);
}

/* Adds the nodes of GRAPH, which start after those in BEFORE; returns those that nothing of it comes after. */
static GArray *
add_graph (Exec *exec, CUgraph graph, const GArray *before)
{
  GArray *last = g_array_new (FALSE, FALSE, sizeof (guint));
  size_t n = 0, n_edges = 0, done = 0;
  CUgraphNode *handles, *from, *to;
  guint *where; /* index in the exec, + 1 */
  guint *waits;

  if (CHECK_DRIVER (cuGraphGetNodes, graph, NULL, &n) != CUDA_SUCCESS || CHECK_DRIVER (cuGraphGetEdges, graph, NULL, NULL, &n_edges) != CUDA_SUCCESS || n == 0)
    {
      g_array_append_vals (last, before->data, before->len);
      return last;
    }
  handles = g_new0 (CUgraphNode, n);
  from = g_new0 (CUgraphNode, n_edges + 1);
  to = g_new0 (CUgraphNode, n_edges + 1);
  where = g_new0 (guint, n);
  waits = g_new0 (guint, n);
  CHECK_DRIVER (cuGraphGetNodes, graph, handles, &n);
  if (n_edges > 0)
    CHECK_DRIVER (cuGraphGetEdges, graph, from, to, &n_edges);
  {
    GHashTable *index = g_hash_table_new (NULL, NULL);

    for (size_t i = 0; i < n; i++)
      g_hash_table_insert (index, handles[i], GSIZE_TO_POINTER (i));
    for (size_t e = 0; e < n_edges; e++)
      waits[GPOINTER_TO_SIZE (g_hash_table_lookup (index, to[e]))]++;
    while (done < n)
      {
        size_t before_round = done;

        for (size_t i = 0; i < n; i++)
          {
            Node *node;
            gboolean is_last = TRUE;

            if (where[i] != 0 || waits[i] != 0)
              continue;
            node = g_new0 (Node, 1);
            node->handle = handles[i];
            node->before = g_array_new (FALSE, FALSE, sizeof (guint));
            node->accesses = g_array_new (FALSE, FALSE, sizeof (Access));
            CHECK_DRIVER (cuGraphNodeGetType, node->handle, &node->type);
            for (size_t e = 0; e < n_edges; e++)
              {
                if (to[e] == handles[i])
                  {
                    guint index_before = where[GPOINTER_TO_SIZE (g_hash_table_lookup (index, from[e]))] - 1;

                    g_array_append_val (node->before, index_before);
                  }
                if (from[e] == handles[i])
                  {
                    waits[GPOINTER_TO_SIZE (g_hash_table_lookup (index, to[e]))]--;
                    is_last = FALSE;
                  }
              }
            if (node->before->len == 0)
              g_array_append_vals (node->before, before->data, before->len);
            if (node->type == CU_GRAPH_NODE_TYPE_GRAPH)
              {
                CUgraph child = NULL;

                if (CHECK_DRIVER (cuGraphChildGraphNodeGetGraph, node->handle, &child) == CUDA_SUCCESS)
                  {
                    GArray *inner = add_graph (exec, child, node->before);

                    g_array_unref (node->before);
                    node->before = inner;
                  }
              }
            read_node (node);
            g_ptr_array_add (exec->nodes, node);
            where[i] = exec->nodes->len;
            if (is_last)
              {
                guint index_last = exec->nodes->len - 1;

                g_array_append_val (last, index_last);
              }
            done++;
          }
        if (done == before_round)
          break;
      }
    g_hash_table_unref (index);
  }
  g_free (handles);
  g_free (from);
  g_free (to);
  g_free (where);
  g_free (waits);
  return last;
}

void
check_graph_owns (CUgraph graph, CUuserObject object, gboolean owns)
{
  GHashTable *set;

  if (owned == NULL)
    owned = g_hash_table_new_full (NULL, NULL, NULL, (GDestroyNotify) g_hash_table_unref);
  set = g_hash_table_lookup (owned, graph);
  if (owns && set == NULL)
    {
      set = g_hash_table_new (NULL, NULL);
      g_hash_table_insert (owned, graph, set);
    }
  if (owns)
    g_hash_table_add (set, object);
  else if (set != NULL)
    g_hash_table_remove (set, object);
}

/* A copy owns what the original does. */
static void
own_too (GHashTable *to, CUgraph from)
{
  GHashTable *set = owned != NULL ? g_hash_table_lookup (owned, from) : NULL;
  GHashTableIter iter;
  gpointer object;

  if (set == NULL)
    return;
  g_hash_table_iter_init (&iter, set);
  while (g_hash_table_iter_next (&iter, &object, NULL))
    g_hash_table_add (to, object);
}

void
check_graph_owns_too (CUgraph graph, CUgraph child)
{
  GHashTable *set = owned != NULL ? g_hash_table_lookup (owned, child) : NULL;
  GHashTableIter iter;
  gpointer object;

  if (set == NULL)
    return;
  g_hash_table_iter_init (&iter, set);
  while (g_hash_table_iter_next (&iter, &object, NULL))
    check_graph_owns (graph, object, TRUE);
}

static Exec *
exec_new (CUgraph graph)
{
  Exec *exec = g_new0 (Exec, 1);
  GArray *none = g_array_new (FALSE, FALSE, sizeof (guint));

  exec->nodes = g_ptr_array_new_with_free_func (node_free);
  exec->lanes = g_array_new (FALSE, FALSE, sizeof (guint));
  g_array_unref (add_graph (exec, graph, none));
  g_array_unref (none);
  for (guint i = 0; i < exec->nodes->len; i++)
    {
      Node *node = g_ptr_array_index (exec->nodes, i);
      gboolean found = FALSE;

      for (guint d = 0; d < node->before->len && !found; d++)
        {
          Node *other = g_ptr_array_index (exec->nodes, g_array_index (node->before, guint, d));

          if (!other->continued)
            {
              other->continued = found = TRUE;
              node->lane = other->lane;
            }
        }
      if (!found)
        {
          guint slot = CHECK_NO_SLOT; /* until it is launched */

          node->lane = exec->lanes->len;
          g_array_append_val (exec->lanes, slot);
        }
    }
  return exec;
}

void
check_graph_instantiated (CUgraphExec handle, CUgraph graph)
{
  Exec *exec;

  if (execs == NULL)
    execs = g_hash_table_new_full (NULL, NULL, NULL, exec_free);
  exec = exec_new (graph);
  exec->owned = g_hash_table_new (NULL, NULL);
  own_too (exec->owned, graph);
  g_hash_table_insert (execs, handle, exec);
}

/* Its next launch comes after the latest one still, and its nodes keep the names that they had first. */
void
check_graph_updated (CUgraphExec handle, CUgraph graph)
{
  Exec *old = execs != NULL ? g_hash_table_lookup (execs, handle) : NULL;
  Exec *exec;

  if (old == NULL)
    return;
  exec = exec_new (graph);
  check_clock_copy (&exec->clock, &old->clock);
  exec->owned = g_steal_pointer (&old->owned);
  own_too (exec->owned, graph);
  for (guint i = 0; exec->nodes->len == old->nodes->len && i < old->nodes->len; i++)
    {
      Node *before = g_ptr_array_index (old->nodes, i), *node = g_ptr_array_index (exec->nodes, i);

      node->handle = before->handle;
      node->disabled = before->disabled;
    }
  g_hash_table_insert (execs, handle, exec);
}

void
check_graph_exec_end (CUgraphExec handle)
{
  if (execs != NULL)
    g_hash_table_remove (execs, handle);
}

static Node *
find_node (CUgraphExec handle, CUgraphNode node)
{
  Exec *exec = execs != NULL ? g_hash_table_lookup (execs, handle) : NULL;

  for (guint i = 0; exec != NULL && i < exec->nodes->len; i++)
    {
      Node *found = g_ptr_array_index (exec->nodes, i);

      if (found->handle == node)
        return found;
    }
  return NULL;
}

void
check_graph_node_changed (CUgraphExec exec, CUgraphNode handle, const char *function, gconstpointer params)
{
  Node *node = find_node (exec, handle);

  if (node == NULL)
    return;
  g_array_set_size (node->accesses, 0);
  if (strcmp (function, "cuGraphExecMemsetNodeSetParams") == 0)
    add_memset (node, params);
  else
    add_copy (node, params);
}

void
check_graph_node_enabled (CUgraphExec exec, CUgraphNode handle, gboolean enabled)
{
  Node *node = find_node (exec, handle);

  if (node != NULL)
    node->disabled = !enabled;
}

void
check_graph_node_event (CUgraphExec exec, CUgraphNode handle, CUevent event)
{
  Node *node = find_node (exec, handle);

  if (node != NULL)
    node->event = event;
}

static void
run_access (const Access *access, CheckClock *clock, guint slot, guint64 epoch, const char *where)
{
  CheckOp *op = check_op_new (access->what, access->function, where, slot, epoch);
  CheckObject *object;

  switch (access->what)
    {
    case CHECK_ALLOCATION:
      op->address = access->address;
      op->size = access->size;
      object = check_object_new (CHECK_MEMORY_GRAPH, access->address, access->size, op);
      check_map (access->address, access->size, object, 0);
      check_object_unref (object);
      break;
    case CHECK_FREE:
      check_free (op, clock, access->address);
      break;
    case CHECK_READ:
    case CHECK_MOVE:
    case CHECK_WRITE:
    case CHECK_UNMAP:
    default:
      check_access (op, clock, access->address, access->size, access->pitch, access->rows);
      break;
    }
  check_op_unref (op);
}

void
check_graph_launched (CUgraphExec handle, CheckStream *stream, const char *function)
{
  Exec *exec = execs != NULL ? g_hash_table_lookup (execs, handle) : NULL;

  (void) function;
  if (exec == NULL)
    return;
  /* After all in the stream, and after the last launch. */
  check_stream_wait (stream, &exec->clock);
  for (guint i = 0; i < exec->lanes->len; i++)
    {
      guint *slot = &g_array_index (exec->lanes, guint, i);

      if (*slot == CHECK_NO_SLOT)
        *slot = check_slot_new (&stream->clock);
    }
  for (guint i = 0; i < exec->nodes->len; i++)
    {
      Node *node = g_ptr_array_index (exec->nodes, i);
      guint slot = g_array_index (exec->lanes, guint, node->lane);
      guint64 epoch;

      check_clock_copy (&node->clock, &stream->clock);
      for (guint d = 0; d < node->before->len; d++)
        check_clock_join (&node->clock, &((Node *) g_ptr_array_index (exec->nodes, g_array_index (node->before, guint, d)))->clock);
      epoch = check_slot_tick (slot, &node->clock);
      if (node->disabled)
        continue;
      for (guint a = 0; a < node->accesses->len; a++)
        run_access (&g_array_index (node->accesses, Access, a), &node->clock, slot, epoch, stream->name);
      if (node->event != NULL && node->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
        {
          CheckEvent *event = check_event (node->event);

          event->captured = FALSE;
          check_clock_copy (&event->clock, &node->clock);
        }
      else if (node->event != NULL)
        check_clock_join (&node->clock, &check_event (node->event)->clock);
    }
  for (guint i = 0; i < exec->nodes->len; i++)
    check_clock_join (&stream->clock, &((Node *) g_ptr_array_index (exec->nodes, i))->clock);
  check_clock_copy (&exec->clock, &stream->clock);
  {
    GHashTableIter iter;
    gpointer object;

    g_hash_table_iter_init (&iter, exec->owned);
    while (g_hash_table_iter_next (&iter, &object, NULL))
      check_user_object_launched (object, &exec->clock);
  }
}

/* A node that was captured last touches this as well. */
void
check_graph_node_declared (CUgraphNode node, CheckWhat what, guint64 address, guint64 size, const char *function)
{
  Access access = { what, address, size, 0, 1, function };
  GArray *accesses;

  if (declared == NULL)
    declared = g_hash_table_new_full (NULL, NULL, NULL, (GDestroyNotify) g_array_unref);
  accesses = g_hash_table_lookup (declared, node);
  if (accesses == NULL)
    {
      accesses = g_array_new (FALSE, FALSE, sizeof (Access));
      g_hash_table_insert (declared, node, accesses);
    }
  g_array_append_val (accesses, access);
}

/* ---- what was declared, of a graph and its copies ---- */

static CUgraphNode *
nodes_of (CUgraph graph, size_t *n)
{
  CUgraphNode *nodes;

  *n = 0;
  if (CHECK_DRIVER (cuGraphGetNodes, graph, NULL, n) != CUDA_SUCCESS || *n == 0)
    return NULL;
  nodes = g_new0 (CUgraphNode, *n);
  CHECK_DRIVER (cuGraphGetNodes, graph, nodes, n);
  return nodes;
}

static CUgraph
child_of (CUgraphNode node)
{
  CUgraphNodeType type;
  CUgraph child = NULL;

  if (CHECK_DRIVER (cuGraphNodeGetType, node, &type) == CUDA_SUCCESS && type == CU_GRAPH_NODE_TYPE_GRAPH)
    CHECK_DRIVER (cuGraphChildGraphNodeGetGraph, node, &child);
  return child;
}

/* A copy has the same nodes, in the same order. */
void
check_graph_copied (CUgraph from, CUgraph to)
{
  CUgraphNode *originals, *copies;
  size_t n, n_copies;
  GHashTable *set = owned != NULL ? g_hash_table_lookup (owned, from) : NULL;

  if (set != NULL)
    {
      GHashTable *copy = g_hash_table_new (NULL, NULL);

      own_too (copy, from);
      g_hash_table_insert (owned, to, copy);
    }
  if (declared == NULL || g_hash_table_size (declared) == 0)
    return;
  originals = nodes_of (from, &n);
  copies = nodes_of (to, &n_copies);
  for (size_t i = 0; n == n_copies && i < n; i++)
    {
      GArray *accesses = g_hash_table_lookup (declared, originals[i]);
      CUgraph child = child_of (originals[i]), child_copy = child != NULL ? child_of (copies[i]) : NULL;

      if (accesses != NULL)
        g_hash_table_insert (declared, copies[i], g_array_copy (accesses));
      if (child_copy != NULL)
        check_graph_copied (child, child_copy);
    }
  g_free (originals);
  g_free (copies);
}

void
check_graph_node_end (CUgraphNode node)
{
  CUgraph child;

  if (declared == NULL || g_hash_table_size (declared) == 0)
    return;
  child = child_of (node);
  if (child != NULL)
    check_graph_end (child);
  g_hash_table_remove (declared, node);
}

void
check_graph_end (CUgraph graph)
{
  CUgraphNode *nodes;
  size_t n;

  if (owned != NULL)
    g_hash_table_remove (owned, graph);
  if (declared == NULL || g_hash_table_size (declared) == 0)
    return;
  nodes = nodes_of (graph, &n);
  for (size_t i = 0; i < n; i++)
    check_graph_node_end (nodes[i]);
  g_free (nodes);
}
