/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Graphs: nodes, instantiation, launch, memory nodes, user objects. An exec has
 * a clone of its graph; a launch turns the clone's nodes into operations. */

#include "sim-private.h"

#include <sys/mman.h>

#define GRAPH_MEMORY_CHUNK SIM_MIB (32)

struct _SimExec
{
  gint refs; /* handle, launches under way */
  CUgraphExec handle;
  SimGraph *graph;  /* the clone */
  SimGraph *source; /* of one with memory nodes, referenced */
  cuuint64_t flags;
  SimOp *last; /* end of the latest launch, referenced */
  SimContext *context;
};

struct _SimUserObject
{
  CUuserObject handle;
  gint64 refs;
  CUhostFn destroy;
  void *data;
};

SimGraph *sim_building;

static void graph_memory_unref (SimAllocation *allocation);

/* ---- user objects ---- */

static void
user_object_release (SimUserObject *object, gint64 count)
{
  object->refs -= count;
  if (object->refs != 0)
    return;
  sim_destructor_call (object->destroy, object->data);
  sim_handle_free (object->handle);
  g_free (object);
}

static SimUserObject *
user_object (CUuserObject handle)
{
  return sim_handle_get (handle, SIM_HANDLE_USER_OBJECT, NULL);
}

static gint64
owned_by (SimGraph *graph, SimUserObject *object)
{
  return (gint64) GPOINTER_TO_SIZE (g_hash_table_lookup (graph->user_objects, object));
}

static void
own (SimGraph *graph, SimUserObject *object, gint64 count)
{
  if (count > 0)
    g_hash_table_insert (graph->user_objects, object, GSIZE_TO_POINTER (count));
  else
    g_hash_table_remove (graph->user_objects, object);
}

SIM_ENTRY (cuUserObjectCreate, 0, (CUuserObject *, object_out), (void *, ptr), (CUhostFn, destroy), (unsigned int, initialRefcount), (unsigned int, flags))
{
  SimUserObject *object;

  if (object_out == NULL || destroy == NULL || initialRefcount == 0 || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
    return CUDA_ERROR_INVALID_VALUE;
  object = g_new0 (SimUserObject, 1);
  object->refs = initialRefcount;
  object->destroy = destroy;
  object->data = ptr;
  object->handle = sim_handle_new (SIM_HANDLE_USER_OBJECT, object);
  *object_out = object->handle;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuUserObjectRetain, 0, (CUuserObject, object), (unsigned int, count))
{
  SimUserObject *retained = user_object (object);

  if (retained == NULL || count == 0 || count > G_MAXINT32)
    return CUDA_ERROR_INVALID_VALUE;
  retained->refs += count;
  return CUDA_SUCCESS;
}

/* Released too often, its destructor never runs. */
SIM_ENTRY (cuUserObjectRelease, 0, (CUuserObject, object), (unsigned int, count))
{
  SimUserObject *released = user_object (object);

  if (released == NULL || count == 0 || count > G_MAXINT32)
    return CUDA_ERROR_INVALID_VALUE;
  user_object_release (released, count);
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuGraphRetainUserObject, 0, (CUgraph, graph), (CUuserObject, object), (unsigned int, count), (unsigned int, flags))
{
  SimGraph *owner = sim_graph (graph);
  SimUserObject *retained;
  gboolean dead;

  if (owner == NULL || count == 0 || count > G_MAXINT32 || (flags & ~(unsigned int) CU_GRAPH_USER_OBJECT_MOVE))
    return CUDA_ERROR_INVALID_VALUE;
  retained = sim_handle_get (object, SIM_HANDLE_USER_OBJECT, &dead);
  if (retained == NULL)
    {
      /* The real driver does not notice. */
      if (dead)
        sim_warn ("%s of a user object that is gone", sim_this_function ());
      return dead ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
  own (owner, retained, owned_by (owner, retained) + count);
  if (!(flags & CU_GRAPH_USER_OBJECT_MOVE))
    retained->refs += count;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuGraphReleaseUserObject, 0, (CUgraph, graph), (CUuserObject, object), (unsigned int, count))
{
  SimGraph *owner = sim_graph (graph);
  SimUserObject *released = user_object (object);

  if (owner == NULL || released == NULL || count == 0 || count > G_MAXINT32)
    return CUDA_ERROR_INVALID_VALUE;
  if (owned_by (owner, released) == 0)
    return CUDA_SUCCESS;
  own (owner, released, owned_by (owner, released) - count);
  user_object_release (released, count);
  return CUDA_SUCCESS;
}

/* ---- graphs and nodes ---- */

SimGraph *
sim_graph_new (void)
{
  SimGraph *graph = g_new0 (SimGraph, 1);

  graph->refs = 1;
  graph->id = sim_next_id ();
  graph->nodes = g_ptr_array_new ();
  graph->user_objects = g_hash_table_new (NULL, NULL);
  graph->allocations = g_ptr_array_new_with_free_func ((GDestroyNotify) graph_memory_unref);
  graph->handle = sim_handle_new (SIM_HANDLE_GRAPH, graph);
  return graph;
}

SimGraph *
sim_graph_ref (SimGraph *graph)
{
  graph->refs++;
  return graph;
}

static void
node_free (SimNode *node)
{
  sim_handle_free (node->handle);
  g_ptr_array_unref (node->deps);
  g_ptr_array_unref (node->dependents);
  sim_work_clear (&node->work);
  g_free (node->copy);
  g_free (node);
}

void
sim_graph_unref (SimGraph *graph)
{
  GHashTableIter iter;
  gpointer object, count;

  if (--graph->refs > 0)
    return;
  if (graph->handle != NULL)
    sim_handle_free (graph->handle);
  for (guint i = 0; i < graph->nodes->len; i++)
    node_free (g_ptr_array_index (graph->nodes, i));
  g_ptr_array_unref (graph->nodes);
  g_hash_table_iter_init (&iter, graph->user_objects);
  while (g_hash_table_iter_next (&iter, &object, &count))
    user_object_release (object, (gint64) GPOINTER_TO_SIZE (count));
  g_hash_table_unref (graph->user_objects);
  g_ptr_array_unref (graph->allocations);
  g_clear_pointer (&graph->conditionals, g_array_unref);
  g_free (graph);
}

/* The program, or a capture that failed, gives it up. */
void
sim_graph_release_handle (SimGraph *graph)
{
  sim_handle_free (graph->handle);
  graph->handle = NULL;
  sim_graph_unref (graph);
}

SimGraph *
sim_graph (CUgraph handle)
{
  return sim_handle_get (handle, SIM_HANDLE_GRAPH, NULL);
}

SimNode *
sim_node (CUgraphNode handle)
{
  return sim_handle_get (handle, SIM_HANDLE_NODE, NULL);
}

static SimExec *
exec_of (CUgraphExec handle)
{
  return sim_handle_get (handle, SIM_HANDLE_EXEC, NULL);
}

static void
link_nodes (SimNode *from, SimNode *to)
{
  g_ptr_array_add (to->deps, from);
  g_ptr_array_add (from->dependents, to);
}

/* WORK is taken over. */
SimNode *
sim_graph_add (SimGraph *graph, SimNode **deps, guint n_deps, CUgraphNodeType type, SimWork *work)
{
  SimNode *node = g_new0 (SimNode, 1);

  node->id = sim_next_id ();
  node->graph = graph;
  node->type = type;
  node->work = *work;
  memset (work, 0, sizeof *work);
  node->deps = g_ptr_array_new ();
  node->dependents = g_ptr_array_new ();
  node->handle = sim_handle_new (SIM_HANDLE_NODE, node);
  for (guint i = 0; i < n_deps; i++)
    link_nodes (deps[i], node);
  if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE)
    graph->n_memory_nodes++;
  if (type == CU_GRAPH_NODE_TYPE_MEM_FREE)
    sim_allocation_at (node->work.memory.address)->freed_in_graph = TRUE;
  g_ptr_array_add (graph->nodes, node);
  return node;
}

static SimGraph *
graph_clone (SimGraph *graph)
{
  SimGraph *clone = sim_graph_new ();
  GHashTable *map = g_hash_table_new (NULL, NULL);
  GHashTableIter iter;
  gpointer object, count;

  clone->origin = graph->id;
  for (guint i = 0; i < graph->nodes->len; i++)
    {
      SimNode *node = g_ptr_array_index (graph->nodes, i);
      SimWork work;
      SimNode *copy;

      if (node->work.kind == SIM_WORK_CHILD)
        {
          memset (&work, 0, sizeof work);
          work.kind = SIM_WORK_CHILD;
          work.child.graph = graph_clone (node->work.child.graph);
        }
      else
        sim_work_copy (&work, &node->work);
      for (guint j = 0; node->work.kind == SIM_WORK_CONDITIONAL && j < work.conditional.n; j++)
        {
          sim_graph_unref (work.conditional.bodies[j]);
          work.conditional.bodies[j] = graph_clone (node->work.conditional.bodies[j]);
          work.conditional.handles[j] = work.conditional.bodies[j]->handle;
        }
      copy = sim_graph_add (clone, NULL, 0, node->type, &work);
      copy->origin = node->id;
      copy->disabled = node->disabled;
      copy->set = node->set;
      copy->context = node->context;
      if (node->copy != NULL)
        copy->copy = g_memdup2 (node->copy, sizeof *node->copy);
      g_hash_table_insert (map, node, copy);
    }
  for (guint i = 0; i < graph->nodes->len; i++)
    {
      SimNode *node = g_ptr_array_index (graph->nodes, i);

      for (guint j = 0; j < node->deps->len; j++)
        link_nodes (g_hash_table_lookup (map, g_ptr_array_index (node->deps, j)), g_hash_table_lookup (map, node));
    }
  g_hash_table_unref (map);
  g_hash_table_iter_init (&iter, graph->user_objects);
  while (g_hash_table_iter_next (&iter, &object, &count))
    {
      own (clone, object, (gint64) GPOINTER_TO_SIZE (count));
      ((SimUserObject *) object)->refs += (gint64) GPOINTER_TO_SIZE (count);
    }
  for (guint i = 0; i < graph->allocations->len; i++)
    {
      SimAllocation *allocation = g_ptr_array_index (graph->allocations, i);

      allocation->graph_refs++;
      g_ptr_array_add (clone->allocations, allocation);
    }
  return clone;
}

SIM_ENTRY (cuGraphCreate, 0, (CUgraph *, phGraph), (unsigned int, flags))
{
  if (phGraph == NULL || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  *phGraph = sim_graph_new ()->handle;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuGraphDestroy, 0, (CUgraph, hGraph))
{
  SimGraph *graph = sim_graph (hGraph);

  if (graph == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  sim_graph_release_handle (graph);
  return CUDA_SUCCESS;
}

static gboolean
has_memory_nodes (SimGraph *graph)
{
  if (graph->n_memory_nodes > 0)
    return TRUE;
  for (guint i = 0; i < graph->nodes->len; i++)
    {
      SimNode *node = g_ptr_array_index (graph->nodes, i);

      if (node->work.kind == SIM_WORK_CHILD && has_memory_nodes (node->work.child.graph))
        return TRUE;
      for (guint j = 0; node->work.kind == SIM_WORK_CONDITIONAL && j < node->work.conditional.n; j++)
        {
          if (has_memory_nodes (node->work.conditional.bodies[j]))
            return TRUE;
        }
    }
  return FALSE;
}

SIM_ENTRY (cuGraphClone, 0, (CUgraph *, phGraphClone), (CUgraph, originalGraph))
{
  SimGraph *graph = sim_graph (originalGraph);

  if (phGraphClone == NULL || graph == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  if (has_memory_nodes (graph))
    return CUDA_ERROR_NOT_SUPPORTED;
  *phGraphClone = graph_clone (graph)->handle;
  return CUDA_SUCCESS;
}

static SimNode *
find_clone (SimGraph *clone, SimNode *original)
{
  for (guint i = 0; i < clone->nodes->len; i++)
    {
      SimNode *node = g_ptr_array_index (clone->nodes, i);

      if (node->origin == original->id)
        return node;
    }
  return NULL;
}

SIM_ENTRY (cuGraphNodeFindInClone, 0, (CUgraphNode *, phNode), (CUgraphNode, hOriginalNode), (CUgraph, hClonedGraph))
{
  SimGraph *clone = sim_graph (hClonedGraph);
  SimNode *original = sim_node (hOriginalNode), *node;

  if (phNode == NULL || clone == NULL || original == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  node = find_clone (clone, original);
  if (node == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  *phNode = node->handle;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuGraphNodeGetType, 0, (CUgraphNode, hNode), (CUgraphNodeType *, type))
{
  SimNode *node = sim_node (hNode);

  if (node == NULL || type == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  *type = node->type;
  return CUDA_SUCCESS;
}

/* ---- lists: NULL asks for the number; what is left over is NULL ---- */

static CUresult
list_nodes (GPtrArray *nodes, CUgraphNode *out, size_t *n)
{
  if (n == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  if (out != NULL)
    {
      for (size_t i = 0; i < *n; i++)
        out[i] = i < nodes->len ? ((SimNode *) g_ptr_array_index (nodes, i))->handle : NULL;
      *n = MIN (*n, nodes->len);
    }
  else
    *n = nodes->len;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuGraphGetNodes, 0, (CUgraph, hGraph), (CUgraphNode *, nodes), (size_t *, numNodes))
{
  SimGraph *graph = sim_graph (hGraph);

  return graph != NULL ? list_nodes (graph->nodes, nodes, numNodes) : CUDA_ERROR_INVALID_VALUE;
}

SIM_ENTRY (cuGraphGetRootNodes, 0, (CUgraph, hGraph), (CUgraphNode *, rootNodes), (size_t *, numRootNodes))
{
  SimGraph *graph = sim_graph (hGraph);
  GPtrArray *roots;
  CUresult result;

  if (graph == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  roots = g_ptr_array_new ();
  for (guint i = 0; i < graph->nodes->len; i++)
    {
      SimNode *node = g_ptr_array_index (graph->nodes, i);

      if (node->deps->len == 0)
        g_ptr_array_add (roots, node);
    }
  result = list_nodes (roots, rootNodes, numRootNodes);
  g_ptr_array_unref (roots);
  return result;
}

static CUresult
get_edges (CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data, size_t *n)
{
  SimGraph *graph = sim_graph (hGraph);
  size_t count = 0;

  if (graph == NULL || n == NULL || (from == NULL) != (to == NULL))
    return CUDA_ERROR_INVALID_VALUE;
  for (guint i = 0; i < graph->nodes->len; i++)
    {
      SimNode *node = g_ptr_array_index (graph->nodes, i);

      for (guint j = 0; j < node->deps->len; j++, count++)
        {
          if (from == NULL || count >= *n)
            continue;
          from[count] = ((SimNode *) g_ptr_array_index (node->deps, j))->handle;
          to[count] = node->handle;
          if (data != NULL)
            memset (&data[count], 0, sizeof *data);
        }
    }
  for (size_t i = count; from != NULL && i < *n; i++)
    from[i] = to[i] = NULL;
  *n = from != NULL ? MIN (*n, count) : count;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuGraphGetEdges, 0, (CUgraph, hGraph), (CUgraphNode *, from), (CUgraphNode *, to), (size_t *, numEdges))
{
  return get_edges (hGraph, from, to, NULL, numEdges);
}

SIM_ENTRY (cuGraphGetEdges_v2, 0, (CUgraph, hGraph), (CUgraphNode *, from), (CUgraphNode *, to), (CUgraphEdgeData *, edgeData), (size_t *, numEdges))
{
  return get_edges (hGraph, from, to, edgeData, numEdges);
}

static CUresult
get_neighbours (CUgraphNode handle, gboolean dependents, CUgraphNode *out, CUgraphEdgeData *data, size_t *n)
{
  SimNode *node = sim_node (handle);

  if (node == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (list_nodes (dependents ? node->dependents : node->deps, out, n));
  if (data != NULL && out != NULL)
    memset (data, 0, *n * sizeof *data);
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuGraphNodeGetDependencies, 0, (CUgraphNode, hNode), (CUgraphNode *, dependencies), (size_t *, numDependencies))
{
  return get_neighbours (hNode, FALSE, dependencies, NULL, numDependencies);
}

SIM_ENTRY (cuGraphNodeGetDependencies_v2, 0, (CUgraphNode, hNode), (CUgraphNode *, dependencies), (CUgraphEdgeData *, edgeData), (size_t *, numDependencies))
{
  return get_neighbours (hNode, FALSE, dependencies, edgeData, numDependencies);
}

SIM_ENTRY (cuGraphNodeGetDependentNodes, 0, (CUgraphNode, hNode), (CUgraphNode *, dependentNodes), (size_t *, numDependentNodes))
{
  return get_neighbours (hNode, TRUE, dependentNodes, NULL, numDependentNodes);
}

SIM_ENTRY (cuGraphNodeGetDependentNodes_v2, 0, (CUgraphNode, hNode), (CUgraphNode *, dependentNodes), (CUgraphEdgeData *, edgeData), (size_t *, numDependentNodes))
{
  return get_neighbours (hNode, TRUE, dependentNodes, edgeData, numDependentNodes);
}

static gboolean
depends_on (SimNode *node, SimNode *on)
{
  if (node == on)
    return TRUE;
  for (guint i = 0; i < node->deps->len; i++)
    {
      if (depends_on (g_ptr_array_index (node->deps, i), on))
        return TRUE;
    }
  return FALSE;
}

static gboolean
is_memory_node (SimNode *node)
{
  return node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || node->type == CU_GRAPH_NODE_TYPE_MEM_FREE;
}

static CUresult
change_dependencies (CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, size_t n, gboolean add)
{
  SimGraph *graph = sim_graph (hGraph);

  if (graph == NULL || (n > 0 && (from == NULL || to == NULL)))
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < n; i++)
    {
      SimNode *a = sim_node (from[i]), *b = sim_node (to[i]);

      if (a == NULL || b == NULL || a->graph != graph || b->graph != graph || a == b)
        return CUDA_ERROR_INVALID_VALUE;
      if (g_ptr_array_find (b->deps, a, NULL) == add || (add && depends_on (a, b)))
        return CUDA_ERROR_INVALID_VALUE;
    }
  if (!add && n > 0 && graph->n_memory_nodes > 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  for (size_t i = 0; i < n; i++)
    {
      SimNode *a = sim_node (from[i]), *b = sim_node (to[i]);

      if (add)
        link_nodes (a, b);
      else
        {
          g_ptr_array_remove (b->deps, a);
          g_ptr_array_remove (a->dependents, b);
        }
    }
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuGraphAddDependencies, 0, (CUgraph, hGraph), (const CUgraphNode *, from), (const CUgraphNode *, to), (size_t, numDependencies))
{
  return change_dependencies (hGraph, from, to, numDependencies, TRUE);
}

SIM_ENTRY (cuGraphAddDependencies_v2, 0, (CUgraph, hGraph), (const CUgraphNode *, from), (const CUgraphNode *, to), (const CUgraphEdgeData *, edgeData), (size_t, numDependencies))
{
  (void) edgeData;
  return change_dependencies (hGraph, from, to, numDependencies, TRUE);
}

SIM_ENTRY (cuGraphRemoveDependencies, 0, (CUgraph, hGraph), (const CUgraphNode *, from), (const CUgraphNode *, to), (size_t, numDependencies))
{
  return change_dependencies (hGraph, from, to, numDependencies, FALSE);
}

SIM_ENTRY (cuGraphRemoveDependencies_v2, 0, (CUgraph, hGraph), (const CUgraphNode *, from), (const CUgraphNode *, to), (const CUgraphEdgeData *, edgeData), (size_t, numDependencies))
{
  (void) edgeData;
  return change_dependencies (hGraph, from, to, numDependencies, FALSE);
}

SIM_ENTRY (cuGraphDestroyNode, 0, (CUgraphNode, hNode))
{
  SimNode *node = sim_node (hNode);

  if (node == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  if (node->graph->n_memory_nodes > 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  for (guint i = 0; i < node->deps->len; i++)
    g_ptr_array_remove (((SimNode *) g_ptr_array_index (node->deps, i))->dependents, node);
  for (guint i = 0; i < node->dependents->len; i++)
    g_ptr_array_remove (((SimNode *) g_ptr_array_index (node->dependents, i))->deps, node);
  g_ptr_array_remove (node->graph->nodes, node);
  node_free (node);
  return CUDA_SUCCESS;
}

/* Every FLAGS shows more; what is here is the shape and the kinds. */
SIM_ENTRY (cuGraphDebugDotPrint, 0, (CUgraph, hGraph), (const char *, path), (unsigned int, flags))
{
  static const char *const kinds[] = {
    "KERNEL", "MEMCPY", "MEMSET", "HOST", "GRAPH", "EMPTY", "WAIT_EVENT", "EVENT_RECORD",
    "EXT_SEMAS_SIGNAL", "EXT_SEMAS_WAIT", "MEM_ALLOC", "MEM_FREE", "BATCH_MEM_OP", "CONDITIONAL"
  };
  SimGraph *graph = sim_graph (hGraph);
  GString *text;
  gboolean written;

  if (graph == NULL || path == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  (void) flags;
  text = g_string_new ("digraph dot {\n");
  for (guint i = 0; i < graph->nodes->len; i++)
    {
      SimNode *node = g_ptr_array_index (graph->nodes, i);

      g_string_append_printf (text, "\"node_%u\" [label=\"%u %s\"];\n", i, i,
                              (guint) node->type < G_N_ELEMENTS (kinds) ? kinds[node->type] : "?");
      for (guint j = 0; j < node->deps->len; j++)
        {
          guint from = 0;

          g_ptr_array_find (graph->nodes, g_ptr_array_index (node->deps, j), &from);
          g_string_append_printf (text, "\"node_%u\" -> \"node_%u\";\n", from, i);
        }
    }
  g_string_append (text, "}\n");
  written = g_file_set_contents (path, text->str, (gssize) text->len, NULL);
  g_string_free (text, TRUE);
  return written ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

/* ---- memory of graphs ----
 *
 * The address is there from the node on; memory is put behind it by a launch,
 * and stays until the device's graph memory is trimmed. */

static gsize
charged (SimAllocation *allocation)
{
  return SIM_ALIGN_UP (allocation->size, GRAPH_MEMORY_CHUNK);
}

static void
graph_memory_decommit (SimAllocation *allocation)
{
  if (allocation->imported == NULL)
    return;
  sim_address_unmap (allocation->base, SIM_ALIGN_UP (allocation->size, SIM_MIB (2)));
  g_clear_pointer (&allocation->imported, sim_physical_unref);
}

static void
graph_memory_unref (SimAllocation *allocation)
{
  guint64 base = allocation->base;
  gsize size = SIM_ALIGN_UP (allocation->size, SIM_MIB (2));

  if (--allocation->graph_refs > 0)
    return;
  graph_memory_decommit (allocation);
  sim_allocation_remove (allocation);
  sim_address_release (base, size);
}

CUresult
sim_graph_alloc (SimGraph *graph, SimDevice *device, gsize size, SimWork *work, SimAllocation **allocation)
{
  guint64 base = size <= device->total ? sim_address_reserve (SIM_ALIGN_UP (size, SIM_MIB (2)), SIM_MIB (2), 0) : 0;

  if (base == 0)
    return CUDA_ERROR_OUT_OF_MEMORY;
  *allocation = sim_allocation_new (SIM_ALLOCATION_GRAPH, base, size, device);
  (*allocation)->graph = graph->id;
  (*allocation)->graph_refs = 1;
  g_ptr_array_add (graph->allocations, *allocation);
  work->kind = SIM_WORK_ALLOC;
  work->memory.graph = TRUE;
  work->memory.address = base;
  work->memory.size = size;
  work->memory.device = device;
  return CUDA_SUCCESS;
}

gboolean
sim_graph_may_free (SimGraph *graph, SimAllocation *allocation)
{
  return allocation != NULL && allocation->kind == SIM_ALLOCATION_GRAPH && allocation->graph == graph->id && !allocation->freed_in_graph;
}

static CUresult
graph_memory_commit (SimAllocation *allocation)
{
  SimDevice *device = allocation->device;

  if (allocation->imported == NULL)
    {
      allocation->imported = sim_physical_new (device, SIM_ALIGN_UP (allocation->size, SIM_MIB (2)), FALSE);
      if (allocation->imported == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
      sim_physical_map (allocation->imported, allocation->base, 0, allocation->imported->size, PROT_READ | PROT_WRITE);
    }
  return CUDA_SUCCESS;
}

/* What graphs once had stays theirs until it is trimmed, and counts as used. */
static void
graph_memory_reserve (SimDevice *device, guint64 size)
{
  device->graph_reserved = MAX (device->graph_reserved, size);
  device->graph_reserved_high = MAX (device->graph_reserved_high, device->graph_reserved);
  device->graph_used_high = MAX (device->graph_used_high, device->graph_reserved);
}

/* Freed at this moment. It may have outlived its graph. */
void
sim_graph_memory_freed (SimAllocation *allocation)
{
  if (allocation->live || allocation->freeing)
    {
      allocation->live = allocation->freeing = FALSE;
      allocation->device->graph_used -= charged (allocation);
      graph_memory_unref (allocation);
    }
}

/* An allocation or free, of a graph or of its memory outside of it, runs. */
void
sim_graph_memory_executed (SimWork *work)
{
  SimAllocation *allocation = sim_allocation_at (work->memory.address);

  if (allocation == NULL || allocation->kind != SIM_ALLOCATION_GRAPH)
    return;
  if (allocation->imported != NULL)
    sim_poison (allocation->base, allocation->size, work->kind == SIM_WORK_ALLOC ? 0xcd : 0xdb);
  if (work->kind == SIM_WORK_FREE && allocation->freeing)
    sim_graph_memory_freed (allocation);
}

static void
collect_idle (SimAllocation *allocation, gpointer data)
{
  if (allocation->kind == SIM_ALLOCATION_GRAPH && !allocation->live && !allocation->freeing)
    g_ptr_array_add (data, allocation);
}

SIM_ENTRY (cuDeviceGraphMemTrim, 0, (CUdevice, device))
{
  SimDevice *trimmed = sim_device (device);
  GPtrArray *idle;

  if (trimmed == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  idle = g_ptr_array_new ();
  sim_allocations_foreach (collect_idle, idle);
  for (guint i = 0; i < idle->len; i++)
    {
      SimAllocation *allocation = g_ptr_array_index (idle, i);

      if (allocation->device == trimmed)
        graph_memory_decommit (allocation);
    }
  g_ptr_array_unref (idle);
  trimmed->graph_reserved = trimmed->graph_used;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuDeviceGetGraphMemAttribute, 0, (CUdevice, device), (CUgraphMem_attribute, attr), (void *, value))
{
  SimDevice *asked = sim_device (device);
  guint64 number;

  if (asked == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  if (value == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  switch ((int) attr)
    {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
      number = asked->graph_reserved;
      break;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
      number = asked->graph_used_high;
      break;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
      number = asked->graph_reserved;
      break;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
      number = asked->graph_reserved_high;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
    }
  memcpy (value, &number, sizeof number);
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuDeviceSetGraphMemAttribute, 0, (CUdevice, device), (CUgraphMem_attribute, attr), (void *, value))
{
  SimDevice *changed = sim_device (device);
  guint64 number;

  if (changed == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  if (value == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  memcpy (&number, value, sizeof number);
  if (number != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (attr == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
    changed->graph_used_high = changed->graph_reserved;
  else if (attr == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
    changed->graph_reserved_high = changed->graph_reserved;
  else
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

/* ---- adding nodes ---- */

static CUresult
add_node (CUgraphNode *out, CUgraph hGraph, const CUgraphNode *deps, size_t n_deps, CUgraphNodeType type, SimWork *work, SimNode **made)
{
  SimGraph *graph = sim_graph (hGraph);
  GPtrArray *nodes;
  CUresult result = CUDA_SUCCESS;

  if (out == NULL || graph == NULL || (n_deps > 0 && deps == NULL))
    result = CUDA_ERROR_INVALID_VALUE;
  nodes = g_ptr_array_new ();
  for (size_t i = 0; result == CUDA_SUCCESS && i < n_deps; i++)
    {
      SimNode *node = sim_node (deps[i]);

      if (node == NULL || node->graph != graph || g_ptr_array_find (nodes, node, NULL))
        result = CUDA_ERROR_INVALID_VALUE;
      g_ptr_array_add (nodes, node);
    }
  if (result == CUDA_SUCCESS)
    {
      SimNode *node = sim_graph_add (graph, (SimNode **) nodes->pdata, nodes->len, type, work);

      *out = node->handle;
      if (made != NULL)
        *made = node;
    }
  g_ptr_array_unref (nodes);
  sim_work_clear (work);
  return result;
}

static SimDevice *
device_for (CUcontext handle)
{
  SimContext *context;

  return sim_context (handle, &context) == CUDA_SUCCESS ? context->device : sim.devices[0];
}

static CUresult
set_work (const CUDA_MEMSET_NODE_PARAMS *p, CUcontext ctx, SimGraph *graph, SimWork *work)
{
  CUresult result;

  memset (work, 0, sizeof *work);
  if (p == NULL || (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4) || p->width == 0 || p->height == 0)
    return CUDA_ERROR_INVALID_VALUE;
  work->kind = SIM_WORK_SET;
  work->set.dst = p->dst;
  work->set.pitch = p->pitch;
  work->set.value = p->value;
  work->set.element = p->elementSize;
  work->set.width = p->width;
  work->set.height = p->height;
  sim_building = graph;
  result = sim_check_set (work, device_for (ctx));
  sim_building = NULL;
  return result;
}

static CUresult
copy_work (const CUDA_MEMCPY3D *p, CUcontext ctx, SimGraph *graph, SimWork *work)
{
  CUresult result;

  memset (work, 0, sizeof *work);
  if (p == NULL || p->WidthInBytes == 0 || p->Height == 0 || p->Depth == 0)
    return CUDA_ERROR_INVALID_VALUE;
  sim_building = graph;
  result = sim_copy_from_3d (p, TRUE, work, device_for (ctx));
  sim_building = NULL;
  return result;
}

static CUresult
host_work (const CUDA_HOST_NODE_PARAMS *p, SimWork *work)
{
  memset (work, 0, sizeof *work);
  if (p == NULL || p->fn == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  work->kind = SIM_WORK_HOST;
  work->host.function = p->fn;
  work->host.data = p->userData;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuGraphAddEmptyNode, 0, (CUgraphNode *, phGraphNode), (CUgraph, hGraph), (const CUgraphNode *, dependencies), (size_t, numDependencies))
{
  SimWork work = { .kind = SIM_WORK_EMPTY };

  return add_node (phGraphNode, hGraph, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_EMPTY, &work, NULL);
}

SIM_ENTRY (cuGraphAddMemsetNode, 0, (CUgraphNode *, phGraphNode), (CUgraph, hGraph), (const CUgraphNode *, dependencies), (size_t, numDependencies), (const CUDA_MEMSET_NODE_PARAMS *, memsetParams), (CUcontext, ctx))
{
  SimWork work;
  SimNode *node;

  SIM_TRY (set_work (memsetParams, ctx, sim_graph (hGraph), &work));
  SIM_TRY (add_node (phGraphNode, hGraph, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_MEMSET, &work, &node));
  node->set = *memsetParams;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuGraphMemsetNodeGetParams, 0, (CUgraphNode, hNode), (CUDA_MEMSET_NODE_PARAMS *, nodeParams))
{
  SimNode *node = sim_node (hNode);

  if (node == NULL || nodeParams == NULL || node->type != CU_GRAPH_NODE_TYPE_MEMSET)
    return CUDA_ERROR_INVALID_VALUE;
  nodeParams->dst = node->work.set.dst;
  nodeParams->pitch = node->work.set.pitch;
  nodeParams->value = node->work.set.value;
  nodeParams->elementSize = node->work.set.element;
  nodeParams->width = node->work.set.width;
  nodeParams->height = node->work.set.height;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuGraphAddMemcpyNode, 0, (CUgraphNode *, phGraphNode), (CUgraph, hGraph), (const CUgraphNode *, dependencies), (size_t, numDependencies), (const CUDA_MEMCPY3D *, copyParams), (CUcontext, ctx))
{
  SimWork work;
  SimNode *node;

  SIM_TRY (copy_work (copyParams, ctx, sim_graph (hGraph), &work));
  SIM_TRY (add_node (phGraphNode, hGraph, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_MEMCPY, &work, &node));
  node->copy = g_memdup2 (copyParams, sizeof *copyParams);
  node->context = ctx;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuGraphMemcpyNodeGetParams, 0, (CUgraphNode, hNode), (CUDA_MEMCPY3D *, nodeParams))
{
  SimNode *node = sim_node (hNode);
  const SimCopy *copy;

  if (node == NULL || nodeParams == NULL || node->type != CU_GRAPH_NODE_TYPE_MEMCPY)
    return CUDA_ERROR_INVALID_VALUE;
  if (node->copy != NULL)
    {
      *nodeParams = *node->copy;
      return CUDA_SUCCESS;
    }
  copy = &node->work.copy;
  memset (nodeParams, 0, sizeof *nodeParams);
  nodeParams->srcMemoryType = copy->src_type;
  nodeParams->dstMemoryType = copy->dst_type;
  if (copy->src_type == CU_MEMORYTYPE_HOST)
    nodeParams->srcHost = (const void *) copy->src;
  else
    nodeParams->srcDevice = copy->src;
  if (copy->dst_type == CU_MEMORYTYPE_HOST)
    nodeParams->dstHost = (void *) copy->dst;
  else
    nodeParams->dstDevice = copy->dst;
  if (copy->height > 1 || copy->depth > 1)
    {
      nodeParams->srcPitch = copy->src_pitch;
      nodeParams->srcHeight = copy->src_pitch != 0 ? copy->src_slice / copy->src_pitch : 0;
      nodeParams->dstPitch = copy->dst_pitch;
      nodeParams->dstHeight = copy->dst_pitch != 0 ? copy->dst_slice / copy->dst_pitch : 0;
    }
  nodeParams->WidthInBytes = copy->width;
  nodeParams->Height = copy->height;
  nodeParams->Depth = copy->depth;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuGraphAddHostNode, 0, (CUgraphNode *, phGraphNode), (CUgraph, hGraph), (const CUgraphNode *, dependencies), (size_t, numDependencies), (const CUDA_HOST_NODE_PARAMS *, nodeParams))
{
  SimWork work;

  SIM_TRY (host_work (nodeParams, &work));
  return add_node (phGraphNode, hGraph, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_HOST, &work, NULL);
}

SIM_ENTRY (cuGraphHostNodeGetParams, 0, (CUgraphNode, hNode), (CUDA_HOST_NODE_PARAMS *, nodeParams))
{
  SimNode *node = sim_node (hNode);

  if (node == NULL || nodeParams == NULL || node->type != CU_GRAPH_NODE_TYPE_HOST)
    return CUDA_ERROR_INVALID_VALUE;
  nodeParams->fn = node->work.host.function;
  nodeParams->userData = node->work.host.data;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuGraphAddChildGraphNode, 0, (CUgraphNode *, phGraphNode), (CUgraph, hGraph), (const CUgraphNode *, dependencies), (size_t, numDependencies), (CUgraph, childGraph))
{
  SimWork work = { .kind = SIM_WORK_CHILD };
  SimGraph *child = sim_graph (childGraph);

  if (child == NULL || sim_graph (hGraph) == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  if (has_memory_nodes (child))
    return CUDA_ERROR_NOT_SUPPORTED;
  work.child.graph = graph_clone (child);
  return add_node (phGraphNode, hGraph, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_GRAPH, &work, NULL);
}

SIM_ENTRY (cuGraphChildGraphNodeGetGraph, 0, (CUgraphNode, hNode), (CUgraph *, phGraph))
{
  SimNode *node = sim_node (hNode);

  if (node == NULL || phGraph == NULL || node->work.kind != SIM_WORK_CHILD)
    return CUDA_ERROR_INVALID_VALUE;
  *phGraph = node->work.child.graph->handle;
  return CUDA_SUCCESS;
}

static CUresult
add_event_node (CUgraphNode *out, CUgraph hGraph, const CUgraphNode *deps, size_t n_deps, CUevent handle, SimWorkKind kind)
{
  SimWork work = { .kind = kind };
  SimEvent *event;

  SIM_TRY (sim_event (handle, &event));
  work.event.event = sim_event_ref (event);
  return add_node (out, hGraph, deps, n_deps, kind == SIM_WORK_RECORD ? CU_GRAPH_NODE_TYPE_EVENT_RECORD : CU_GRAPH_NODE_TYPE_WAIT_EVENT, &work, NULL);
}

SIM_ENTRY (cuGraphAddEventRecordNode, 0, (CUgraphNode *, phGraphNode), (CUgraph, hGraph), (const CUgraphNode *, dependencies), (size_t, numDependencies), (CUevent, event))
{
  return add_event_node (phGraphNode, hGraph, dependencies, numDependencies, event, SIM_WORK_RECORD);
}

SIM_ENTRY (cuGraphAddEventWaitNode, 0, (CUgraphNode *, phGraphNode), (CUgraph, hGraph), (const CUgraphNode *, dependencies), (size_t, numDependencies), (CUevent, event))
{
  return add_event_node (phGraphNode, hGraph, dependencies, numDependencies, event, SIM_WORK_WAIT);
}

static CUresult
get_event (CUgraphNode hNode, CUevent *event_out, SimWorkKind kind)
{
  SimNode *node = sim_node (hNode);

  if (node == NULL || event_out == NULL || node->work.kind != kind)
    return CUDA_ERROR_INVALID_VALUE;
  *event_out = node->work.event.event->handle;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuGraphEventRecordNodeGetEvent, 0, (CUgraphNode, hNode), (CUevent *, event_out))
{
  return get_event (hNode, event_out, SIM_WORK_RECORD);
}

SIM_ENTRY (cuGraphEventWaitNodeGetEvent, 0, (CUgraphNode, hNode), (CUevent *, event_out))
{
  return get_event (hNode, event_out, SIM_WORK_WAIT);
}

/* NODE, of the graph or of an exec's clone, gets new parameters. */
static CUresult
replace_event (SimNode *node, CUevent handle, SimWorkKind kind)
{
  SimEvent *event;

  SIM_TRY (sim_event (handle, &event));
  if (node == NULL || node->work.kind != kind)
    return CUDA_ERROR_INVALID_VALUE;
  sim_event_ref (event);
  sim_event_unref (node->work.event.event);
  node->work.event.event = event;
  return CUDA_SUCCESS;
}

static CUresult
replace_work (SimNode *node, SimWork *work)
{
  if (node == NULL || node->work.kind != work->kind)
    {
      sim_work_clear (work);
      return CUDA_ERROR_INVALID_VALUE;
    }
  sim_work_clear (&node->work);
  g_clear_pointer (&node->copy, g_free);
  node->work = *work;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuGraphEventRecordNodeSetEvent, 0, (CUgraphNode, hNode), (CUevent, event))
{
  return replace_event (sim_node (hNode), event, SIM_WORK_RECORD);
}

SIM_ENTRY (cuGraphEventWaitNodeSetEvent, 0, (CUgraphNode, hNode), (CUevent, event))
{
  return replace_event (sim_node (hNode), event, SIM_WORK_WAIT);
}

SIM_ENTRY (cuGraphMemsetNodeSetParams, 0, (CUgraphNode, hNode), (const CUDA_MEMSET_NODE_PARAMS *, nodeParams))
{
  SimNode *node = sim_node (hNode);
  SimWork work;

  SIM_TRY (set_work (nodeParams, NULL, node != NULL ? node->graph : NULL, &work));
  return replace_work (node, &work);
}

SIM_ENTRY (cuGraphMemcpyNodeSetParams, 0, (CUgraphNode, hNode), (const CUDA_MEMCPY3D *, nodeParams))
{
  SimNode *node = sim_node (hNode);
  SimWork work;

  SIM_TRY (copy_work (nodeParams, NULL, node != NULL ? node->graph : NULL, &work));
  SIM_TRY (replace_work (node, &work));
  node->copy = g_memdup2 (nodeParams, sizeof *nodeParams);
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuGraphHostNodeSetParams, 0, (CUgraphNode, hNode), (const CUDA_HOST_NODE_PARAMS *, nodeParams))
{
  SimWork work;

  SIM_TRY (host_work (nodeParams, &work));
  return replace_work (sim_node (hNode), &work);
}

static CUresult
add_alloc_node (CUgraphNode *out, CUgraph hGraph, const CUgraphNode *deps, size_t n_deps, CUDA_MEM_ALLOC_NODE_PARAMS *p)
{
  SimWork work = { .kind = SIM_WORK_ALLOC };
  SimGraph *graph = sim_graph (hGraph);
  SimAllocation *allocation;
  SimDevice *device;
  CUresult result;

  if (graph == NULL || out == NULL || p == NULL || p->bytesize == 0 || (p->accessDescCount > 0 && p->accessDescs == NULL))
    return CUDA_ERROR_INVALID_VALUE;
  if ((int) p->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  device = sim_device (p->poolProps.location.id);
  if (device == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  if (p->poolProps.handleTypes != CU_MEM_HANDLE_TYPE_NONE)
    return CUDA_ERROR_NOT_SUPPORTED;
  for (size_t i = 0; i < n_deps; i++)
    {
      if (deps == NULL || sim_node (deps[i]) == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    }
  SIM_TRY (sim_graph_alloc (graph, device, p->bytesize, &work, &allocation));
  work.memory.params = g_memdup2 (p, sizeof *p);
  work.memory.params->dptr = allocation->base;
  work.memory.params->accessDescs = NULL;
  work.memory.params->accessDescCount = 0;
  p->dptr = allocation->base;
  result = add_node (out, hGraph, deps, n_deps, CU_GRAPH_NODE_TYPE_MEM_ALLOC, &work, NULL);
  if (result != CUDA_SUCCESS)
    g_ptr_array_remove (graph->allocations, allocation);
  return result;
}

SIM_ENTRY (cuGraphAddMemAllocNode, 0, (CUgraphNode *, phGraphNode), (CUgraph, hGraph), (const CUgraphNode *, dependencies), (size_t, numDependencies), (CUDA_MEM_ALLOC_NODE_PARAMS *, nodeParams))
{
  return add_alloc_node (phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
}

SIM_ENTRY (cuGraphMemAllocNodeGetParams, 0, (CUgraphNode, hNode), (CUDA_MEM_ALLOC_NODE_PARAMS *, params_out))
{
  SimNode *node = sim_node (hNode);

  if (node == NULL || params_out == NULL || node->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC)
    return CUDA_ERROR_INVALID_VALUE;
  memset (params_out, 0, sizeof *params_out);
  if (node->work.memory.params != NULL)
    *params_out = *node->work.memory.params;
  else
    {
      params_out->poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
      params_out->poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
      params_out->poolProps.location.id = node->work.memory.device->ordinal;
    }
  params_out->bytesize = node->work.memory.size;
  params_out->dptr = node->work.memory.address;
  return CUDA_SUCCESS;
}

static CUresult
add_free_node (CUgraphNode *out, CUgraph hGraph, const CUgraphNode *deps, size_t n_deps, CUdeviceptr dptr)
{
  SimWork work = { .kind = SIM_WORK_FREE };
  SimAllocation *allocation = sim_allocation_at (dptr);
  SimGraph *graph = sim_graph (hGraph);

  if (graph == NULL || !sim_graph_may_free (graph, allocation))
    return CUDA_ERROR_INVALID_VALUE;
  work.memory.graph = TRUE;
  work.memory.address = dptr;
  work.memory.size = allocation->size;
  work.memory.device = allocation->device;
  return add_node (out, hGraph, deps, n_deps, CU_GRAPH_NODE_TYPE_MEM_FREE, &work, NULL);
}

SIM_ENTRY (cuGraphAddMemFreeNode, 0, (CUgraphNode *, phGraphNode), (CUgraph, hGraph), (const CUgraphNode *, dependencies), (size_t, numDependencies), (CUdeviceptr, dptr))
{
  return add_free_node (phGraphNode, hGraph, dependencies, numDependencies, dptr);
}

SIM_ENTRY (cuGraphMemFreeNodeGetParams, 0, (CUgraphNode, hNode), (CUdeviceptr *, dptr_out))
{
  SimNode *node = sim_node (hNode);

  if (node == NULL || dptr_out == NULL || node->type != CU_GRAPH_NODE_TYPE_MEM_FREE)
    return CUDA_ERROR_INVALID_VALUE;
  *dptr_out = node->work.memory.address;
  return CUDA_SUCCESS;
}

/* What a node of these kinds does, of a graph or of an exec made from it. */
static CUresult
work_of_params (const CUgraphNodeParams *p, SimGraph *graph, SimWork *work)
{
  switch ((int) p->type)
    {
    case CU_GRAPH_NODE_TYPE_MEMSET:
      {
        CUDA_MEMSET_NODE_PARAMS set = { 0 };

        set.dst = p->memset.dst;
        set.pitch = p->memset.pitch;
        set.value = p->memset.value;
        set.elementSize = p->memset.elementSize;
        set.width = p->memset.width;
        set.height = p->memset.height;
        return set_work (&set, p->memset.ctx, graph, work);
      }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return copy_work (&p->memcpy.copyParams, p->memcpy.copyCtx, graph, work);
    case CU_GRAPH_NODE_TYPE_HOST:
      {
        CUDA_HOST_NODE_PARAMS host = { 0 };

        host.fn = p->host.fn;
        host.userData = p->host.userData;
        return host_work (&host, work);
      }
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
    }
}

/* The value is what each launch starts with: nothing here sets another, as kernels do. */
SIM_ENTRY (cuGraphConditionalHandleCreate, 0, (CUgraphConditionalHandle *, pHandle_out), (CUgraph, hGraph), (CUcontext, ctx), (unsigned int, defaultLaunchValue), (unsigned int, flags))
{
  SimGraph *graph = sim_graph (hGraph);
  SimConditional conditional = { 0 };

  (void) ctx;
  if (pHandle_out == NULL || graph == NULL || flags > CU_GRAPH_COND_ASSIGN_DEFAULT)
    return CUDA_ERROR_INVALID_VALUE;
  if (graph->conditionals == NULL)
    graph->conditionals = g_array_new (FALSE, FALSE, sizeof (SimConditional));
  conditional.handle = sim_next_id ();
  conditional.value = flags == CU_GRAPH_COND_ASSIGN_DEFAULT ? defaultLaunchValue : 0;
  g_array_append_val (graph->conditionals, conditional);
  *pHandle_out = conditional.handle;
  return CUDA_SUCCESS;
}

static CUresult
add_conditional_node (CUgraphNode *out, CUgraph hGraph, const CUgraphNode *deps, size_t n_deps, CUDA_CONDITIONAL_NODE_PARAMS *p)
{
  SimWork work = { .kind = SIM_WORK_CONDITIONAL };
  SimGraph *graph = sim_graph (hGraph);
  SimConditional *conditional = NULL;
  CUresult result;
  SimNode *node;

  for (guint i = 0; graph->conditionals != NULL && i < graph->conditionals->len; i++)
    {
      SimConditional *each = &g_array_index (graph->conditionals, SimConditional, i);

      if (each->handle == p->handle)
        conditional = each;
    }
  if (conditional == NULL || conditional->used || (guint) p->type > CU_GRAPH_COND_TYPE_SWITCH || p->size == 0 ||
      (p->type == CU_GRAPH_COND_TYPE_IF && p->size > 2) || (p->type == CU_GRAPH_COND_TYPE_WHILE && p->size > 1))
    return CUDA_ERROR_INVALID_VALUE;
  work.conditional.n = p->size;
  work.conditional.type = p->type;
  work.conditional.value = conditional->value;
  work.conditional.bodies = g_new0 (SimGraph *, p->size);
  work.conditional.handles = g_new0 (CUgraph, p->size);
  for (guint i = 0; i < p->size; i++)
    {
      work.conditional.bodies[i] = sim_graph_new ();
      work.conditional.handles[i] = work.conditional.bodies[i]->handle;
    }
  result = add_node (out, hGraph, deps, n_deps, CU_GRAPH_NODE_TYPE_CONDITIONAL, &work, &node);
  if (result != CUDA_SUCCESS)
    return result;
  conditional->used = TRUE;
  p->phGraph_out = node->work.conditional.handles;
  return CUDA_SUCCESS;
}

/* The body that runs, or NULL. */
static SimGraph *
conditional_body (const SimWork *work)
{
  guint value = work->conditional.value;

  if (work->conditional.type == CU_GRAPH_COND_TYPE_SWITCH)
    return value < work->conditional.n ? work->conditional.bodies[value] : NULL;
  if (value != 0)
    return work->conditional.bodies[0];
  return work->conditional.n > 1 ? work->conditional.bodies[1] : NULL;
}

/* A loop that no kernel ends. */
static gboolean
is_endless (SimGraph *graph)
{
  for (guint i = 0; i < graph->nodes->len; i++)
    {
      const SimWork *work = &((SimNode *) g_ptr_array_index (graph->nodes, i))->work;
      SimGraph *body = work->kind == SIM_WORK_CHILD ? work->child.graph : work->kind == SIM_WORK_CONDITIONAL ? conditional_body (work)
                                                                                                             : NULL;

      if (body != NULL && ((work->kind == SIM_WORK_CONDITIONAL && work->conditional.type == CU_GRAPH_COND_TYPE_WHILE) || is_endless (body)))
        return TRUE;
    }
  return FALSE;
}

static CUresult
add_any_node (CUgraphNode *out, CUgraph hGraph, const CUgraphNode *deps, size_t n_deps, CUgraphNodeParams *p)
{
  SimWork work;
  SimNode *node;

  if (p == NULL || sim_graph (hGraph) == NULL || out == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  switch ((int) p->type)
    {
    case CU_GRAPH_NODE_TYPE_MEMSET:
    case CU_GRAPH_NODE_TYPE_HOST:
      SIM_TRY (work_of_params (p, sim_graph (hGraph), &work));
      return add_node (out, hGraph, deps, n_deps, p->type, &work, NULL);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      SIM_TRY (work_of_params (p, sim_graph (hGraph), &work));
      SIM_TRY (add_node (out, hGraph, deps, n_deps, p->type, &work, &node));
      node->copy = g_memdup2 (&p->memcpy.copyParams, sizeof p->memcpy.copyParams);
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_EMPTY:
      memset (&work, 0, sizeof work);
      return add_node (out, hGraph, deps, n_deps, p->type, &work, NULL);
    case CU_GRAPH_NODE_TYPE_GRAPH:
      {
        SimGraph *child = sim_graph (p->graph.graph);

        if (child == NULL)
          return CUDA_ERROR_INVALID_VALUE;
        if (has_memory_nodes (child))
          return CUDA_ERROR_NOT_SUPPORTED;
        memset (&work, 0, sizeof work);
        work.kind = SIM_WORK_CHILD;
        work.child.graph = graph_clone (child);
        return add_node (out, hGraph, deps, n_deps, p->type, &work, NULL);
      }
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return add_event_node (out, hGraph, deps, n_deps, p->eventRecord.event, SIM_WORK_RECORD);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return add_event_node (out, hGraph, deps, n_deps, p->eventWait.event, SIM_WORK_WAIT);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      {
        CUDA_MEM_ALLOC_NODE_PARAMS alloc = { 0 };

        alloc.poolProps = p->alloc.poolProps;
        alloc.accessDescs = p->alloc.accessDescs;
        alloc.accessDescCount = p->alloc.accessDescCount;
        alloc.bytesize = p->alloc.bytesize;
        SIM_TRY (add_alloc_node (out, hGraph, deps, n_deps, &alloc));
        p->alloc.dptr = alloc.dptr;
        return CUDA_SUCCESS;
      }
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return add_free_node (out, hGraph, deps, n_deps, p->free.dptr);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return add_conditional_node (out, hGraph, deps, n_deps, &p->conditional);
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
    }
}

SIM_ENTRY (cuGraphAddNode, 0, (CUgraphNode *, phGraphNode), (CUgraph, hGraph), (const CUgraphNode *, dependencies), (size_t, numDependencies), (CUgraphNodeParams *, nodeParams))
{
  return add_any_node (phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
}

SIM_ENTRY (cuGraphAddNode_v2, 0, (CUgraphNode *, phGraphNode), (CUgraph, hGraph), (const CUgraphNode *, dependencies), (const CUgraphEdgeData *, dependencyData), (size_t, numDependencies), (CUgraphNodeParams *, nodeParams))
{
  (void) dependencyData;
  return add_any_node (phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
}

/* NODE is ORIGINAL, or an exec's clone of it. */
static CUresult
replace_any (SimNode *node, SimNode *original, const CUgraphNodeParams *p)
{
  SimWork work;

  if (node == NULL || p == NULL || p->type != node->type || p->type == CU_GRAPH_NODE_TYPE_EMPTY)
    return CUDA_ERROR_INVALID_VALUE;
  switch ((int) p->type)
    {
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return replace_event (node, p->eventRecord.event, SIM_WORK_RECORD);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return replace_event (node, p->eventWait.event, SIM_WORK_WAIT);
    default:
      SIM_TRY (work_of_params (p, original->graph, &work));
      SIM_TRY (replace_work (node, &work));
      if (p->type == CU_GRAPH_NODE_TYPE_MEMCPY)
        node->copy = g_memdup2 (&p->memcpy.copyParams, sizeof p->memcpy.copyParams);
      return CUDA_SUCCESS;
    }
}

SIM_ENTRY (cuGraphNodeSetParams, 0, (CUgraphNode, hNode), (CUgraphNodeParams *, nodeParams))
{
  return replace_any (sim_node (hNode), sim_node (hNode), nodeParams);
}

/* ---- execs ---- */

static void
exec_unref (SimExec *exec)
{
  if (--exec->refs > 0)
    return;
  if (exec->source != NULL)
    {
      if (exec->source->live_exec == exec)
        exec->source->live_exec = NULL;
      sim_graph_unref (exec->source);
    }
  sim_graph_unref (exec->graph);
  g_clear_pointer (&exec->last, sim_op_unref);
  g_free (exec);
}

void
sim_exec_finished (SimExec *exec)
{
  exec_unref (exec);
}

static CUresult
instantiate (CUgraphExec *out, CUgraph hGraph, unsigned long long flags)
{
  SimGraph *graph = sim_graph (hGraph);
  SimContext *context;
  SimExec *exec;

  if (out == NULL || graph == NULL || flags > 15)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_current (&context));
  if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
    return CUDA_ERROR_NOT_SUPPORTED;
  if (graph->n_memory_nodes > 0 && graph->live_exec != NULL)
    return CUDA_ERROR_NOT_SUPPORTED;
  exec = g_new0 (SimExec, 1);
  exec->refs = 1;
  exec->flags = flags;
  exec->context = context;
  exec->graph = graph_clone (graph);
  if (graph->n_memory_nodes > 0)
    {
      graph->live_exec = exec;
      exec->source = sim_graph_ref (graph);
    }
  exec->handle = sim_handle_new (SIM_HANDLE_EXEC, exec);
  *out = exec->handle;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuGraphInstantiate, SIM_UNSAFE, (CUgraphExec *, phGraphExec), (CUgraph, hGraph), (CUgraphNode *, phErrorNode), (char *, logBuffer), (size_t, bufferSize))
{
  (void) phErrorNode;
  (void) logBuffer;
  (void) bufferSize;
  return instantiate (phGraphExec, hGraph, 0);
}

SIM_ENTRY (cuGraphInstantiate_v2, SIM_UNSAFE, (CUgraphExec *, phGraphExec), (CUgraph, hGraph), (CUgraphNode *, phErrorNode), (char *, logBuffer), (size_t, bufferSize))
{
  (void) phErrorNode;
  (void) logBuffer;
  (void) bufferSize;
  return instantiate (phGraphExec, hGraph, 0);
}

SIM_ENTRY (cuGraphInstantiateWithFlags, SIM_UNSAFE, (CUgraphExec *, phGraphExec), (CUgraph, hGraph), (unsigned long long, flags))
{
  return instantiate (phGraphExec, hGraph, flags);
}

static CUresult upload (SimExec *exec, SimStream *stream);

SIM_ENTRY_SZ (cuGraphInstantiateWithParams, SIM_UNSAFE, (CUgraphExec *, phGraphExec), (CUgraph, hGraph), (CUDA_GRAPH_INSTANTIATE_PARAMS *, instantiateParams))
{
  SimStream *stream = NULL;
  CUresult result;

  if (instantiateParams == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  instantiateParams->hErrNode_out = NULL;
  if (instantiateParams->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)
    SIM_TRY (sim_stream (instantiateParams->hUploadStream, &stream));
  result = instantiate (phGraphExec, hGraph, instantiateParams->flags);
  if (result == CUDA_SUCCESS && stream != NULL)
    upload (exec_of (*phGraphExec), stream);
  instantiateParams->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
  return result;
}

SIM_ENTRY (cuGraphExecGetFlags, 0, (CUgraphExec, hGraphExec), (cuuint64_t *, flags))
{
  SimExec *exec = exec_of (hGraphExec);

  if (exec == NULL || flags == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  *flags = exec->flags;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuGraphExecDestroy, 0, (CUgraphExec, hGraphExec))
{
  SimExec *exec = exec_of (hGraphExec);

  if (exec == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  sim_handle_free (exec->handle);
  exec->handle = NULL;
  if (exec->source != NULL && exec->source->live_exec == exec)
    exec->source->live_exec = NULL;
  exec_unref (exec);
  return CUDA_SUCCESS;
}

static CUresult
upload (SimExec *exec, SimStream *stream)
{
  SimWork work = { .kind = SIM_WORK_EMPTY };

  for (guint i = 0; i < exec->graph->allocations->len; i++)
    {
      SimAllocation *allocation = g_ptr_array_index (exec->graph->allocations, i);

      graph_memory_reserve (allocation->device, allocation->device->graph_used + (allocation->live ? 0 : charged (allocation)));
    }
  return sim_submit (stream, &work);
}

SIM_ENTRY_SZ (cuGraphUpload, 0, (CUgraphExec, hGraphExec), (CUstream, hStream))
{
  SimExec *exec = exec_of (hGraphExec);
  SimStream *stream;

  if (exec == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_stream (hStream, &stream));
  return upload (exec, stream);
}

/* The nodes of a graph as operations between START and END. */
static void
launch_nodes (SimGraph *graph, SimStream *stream, SimOp *start, SimOp *end)
{
  GPtrArray *order = g_ptr_array_new ();
  GHashTable *seen = g_hash_table_new (NULL, NULL);

  /* Dependencies may have been added later than the nodes: sort. */
  while (order->len < graph->nodes->len)
    {
      for (guint i = 0; i < graph->nodes->len; i++)
        {
          SimNode *node = g_ptr_array_index (graph->nodes, i);
          gboolean ready = !g_hash_table_contains (seen, node);

          for (guint j = 0; ready && j < node->deps->len; j++)
            ready = g_hash_table_contains (seen, g_ptr_array_index (node->deps, j));
          if (ready)
            {
              g_hash_table_add (seen, node);
              g_ptr_array_add (order, node);
            }
        }
    }
  for (guint i = 0; i < order->len; i++)
    {
      SimNode *node = g_ptr_array_index (order, i);
      SimWork work = { .kind = SIM_WORK_EMPTY };
      SimOp *first = NULL, *op;
      SimGraph *inner = node->work.kind == SIM_WORK_CHILD ? node->work.child.graph : node->work.kind == SIM_WORK_CONDITIONAL ? conditional_body (&node->work)
                                                                                                                             : NULL;

      if (inner != NULL)
        {
          SimWork none = { .kind = SIM_WORK_EMPTY };

          first = sim_op_new (stream, &none);
          op = sim_op_new (stream, &work);
        }
      else
        {
          if (!node->disabled && node->work.kind != SIM_WORK_CONDITIONAL)
            sim_work_copy (&work, &node->work);
          first = op = sim_op_new (stream, &work);
        }
      sim_op_after (first, start);
      for (guint j = 0; j < node->deps->len; j++)
        sim_op_after (first, ((SimNode *) g_ptr_array_index (node->deps, j))->op);
      if (node->work.kind == SIM_WORK_WAIT)
        sim_op_after (first, node->work.event.event->record);
      if (first != op)
        {
          sim_op_submit (first, FALSE);
          sim_op_after (op, first);
          launch_nodes (inner, stream, first, op);
          sim_op_unref (first);
        }
      if (node->work.kind == SIM_WORK_RECORD)
        sim_event_recorded (node->work.event.event, op);
      node->op = op;
      sim_op_submit (op, FALSE);
      sim_op_after (end, op);
    }
  for (guint i = 0; i < order->len; i++)
    g_clear_pointer (&((SimNode *) g_ptr_array_index (order, i))->op, sim_op_unref);
  g_ptr_array_unref (order);
  g_hash_table_unref (seen);
}

static CUresult
launch (SimExec *exec, SimStream *stream)
{
  SimWork work = { .kind = SIM_WORK_EMPTY };
  SimWork finish = { .kind = SIM_WORK_FINISH };
  SimGraph *graph = exec->graph;
  SimOp *start, *end;

  for (guint i = 0; i < graph->allocations->len; i++)
    {
      SimAllocation *allocation = g_ptr_array_index (graph->allocations, i);

      if (allocation->live && !(exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH))
        return CUDA_ERROR_INVALID_VALUE;
    }
  if (is_endless (graph))
    {
      sim_warn ("%s of a loop that no kernel ends", sim_this_function ());
      return CUDA_ERROR_NOT_SUPPORTED;
    }
  for (guint i = 0; i < graph->allocations->len; i++)
    SIM_TRY (graph_memory_commit (g_ptr_array_index (graph->allocations, i)));

  start = sim_op_new (stream, &work);
  sim_op_after_stream (start);
  sim_op_after (start, exec->last);
  sim_op_submit (start, TRUE);

  for (guint i = 0; i < graph->allocations->len; i++)
    {
      SimAllocation *allocation = g_ptr_array_index (graph->allocations, i);
      SimDevice *device = allocation->device;

      if (allocation->freeing)
        {
          /* Freed outside and launched again before that ran. */
          allocation->freeing = FALSE;
          allocation->graph_refs--;
          device->graph_used -= charged (allocation);
        }
      if (!allocation->live)
        {
          allocation->graph_refs++;
          device->graph_used += charged (allocation);
          graph_memory_reserve (device, device->graph_used);
        }
      allocation->live = !allocation->freed_in_graph;
      allocation->freeing = allocation->freed_in_graph;
    }

  exec->refs++;
  finish.exec = exec;
  end = sim_op_new (stream, &finish);
  sim_op_after (end, start);
  launch_nodes (graph, stream, start, end);
  sim_op_submit (end, TRUE);
  g_clear_pointer (&exec->last, sim_op_unref);
  exec->last = end;
  sim_op_unref (start);
  return CUDA_SUCCESS;
}

SIM_ENTRY_SZ (cuGraphLaunch, 0, (CUgraphExec, hGraphExec), (CUstream, hStream))
{
  SimExec *exec = exec_of (hGraphExec);
  SimStream *stream;

  if (exec == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_stream (hStream, &stream));
  SIM_TRY (sim_capture_check_implicit (stream, TRUE));
  if (stream->capture != NULL)
    {
      if (stream->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
      sim_capture_invalidate (stream->capture);
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
  return launch (exec, stream);
}

static SimNode *
exec_node (CUgraphExec hGraphExec, CUgraphNode hNode)
{
  SimExec *exec = exec_of (hGraphExec);
  SimNode *node = sim_node (hNode);

  return exec != NULL && node != NULL ? find_clone (exec->graph, node) : NULL;
}

SIM_ENTRY (cuGraphExecMemsetNodeSetParams, 0, (CUgraphExec, hGraphExec), (CUgraphNode, hNode), (const CUDA_MEMSET_NODE_PARAMS *, memsetParams), (CUcontext, ctx))
{
  SimNode *node = sim_node (hNode);
  SimWork work;

  SIM_TRY (set_work (memsetParams, ctx, node != NULL ? node->graph : NULL, &work));
  /* Rows keep their shape. */
  if (node != NULL && node->type == CU_GRAPH_NODE_TYPE_MEMSET && (node->work.set.height > 1 || work.set.height > 1) &&
      (node->work.set.height != work.set.height || node->work.set.width != work.set.width || node->work.set.element != work.set.element))
    return CUDA_ERROR_INVALID_VALUE;
  return replace_work (exec_node (hGraphExec, hNode), &work);
}

SIM_ENTRY (cuGraphExecMemcpyNodeSetParams, 0, (CUgraphExec, hGraphExec), (CUgraphNode, hNode), (const CUDA_MEMCPY3D *, copyParams), (CUcontext, ctx))
{
  SimNode *node = sim_node (hNode);
  SimWork work;

  SIM_TRY (copy_work (copyParams, ctx, node != NULL ? node->graph : NULL, &work));
  /* One row is all that can be changed. The kinds of memory stay as they were named first, and so does whether a context was. */
  if (node == NULL || node->type != CU_GRAPH_NODE_TYPE_MEMCPY || (node->context == NULL) != (ctx == NULL) ||
      node->work.copy.height > 1 || node->work.copy.depth > 1 || work.copy.height > 1 || work.copy.depth > 1 ||
      node->work.copy.src_type != work.copy.src_type || node->work.copy.dst_type != work.copy.dst_type)
    {
      sim_work_clear (&work);
      return CUDA_ERROR_INVALID_VALUE;
    }
  return replace_work (exec_node (hGraphExec, hNode), &work);
}

SIM_ENTRY (cuGraphExecHostNodeSetParams, 0, (CUgraphExec, hGraphExec), (CUgraphNode, hNode), (const CUDA_HOST_NODE_PARAMS *, nodeParams))
{
  SimWork work;

  SIM_TRY (host_work (nodeParams, &work));
  return replace_work (exec_node (hGraphExec, hNode), &work);
}

SIM_ENTRY (cuGraphExecEventRecordNodeSetEvent, 0, (CUgraphExec, hGraphExec), (CUgraphNode, hNode), (CUevent, event))
{
  return replace_event (exec_node (hGraphExec, hNode), event, SIM_WORK_RECORD);
}

SIM_ENTRY (cuGraphExecEventWaitNodeSetEvent, 0, (CUgraphExec, hGraphExec), (CUgraphNode, hNode), (CUevent, event))
{
  return replace_event (exec_node (hGraphExec, hNode), event, SIM_WORK_WAIT);
}

SIM_ENTRY (cuGraphExecNodeSetParams, 0, (CUgraphExec, hGraphExec), (CUgraphNode, hNode), (CUgraphNodeParams *, nodeParams))
{
  return replace_any (exec_node (hGraphExec, hNode), sim_node (hNode), nodeParams);
}

static gboolean
can_disable (SimNode *node)
{
  return node != NULL && (node->type == CU_GRAPH_NODE_TYPE_MEMSET || node->type == CU_GRAPH_NODE_TYPE_MEMCPY);
}

SIM_ENTRY (cuGraphNodeSetEnabled, 0, (CUgraphExec, hGraphExec), (CUgraphNode, hNode), (unsigned int, isEnabled))
{
  SimNode *node = exec_node (hGraphExec, hNode);

  if (!can_disable (node))
    return CUDA_ERROR_INVALID_VALUE;
  node->disabled = isEnabled == 0;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuGraphNodeGetEnabled, 0, (CUgraphExec, hGraphExec), (CUgraphNode, hNode), (unsigned int *, isEnabled))
{
  SimNode *node = exec_node (hGraphExec, hNode);

  if (!can_disable (node) || isEnabled == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  *isEnabled = !node->disabled;
  return CUDA_SUCCESS;
}

/* Same shape, other parameters. */
static CUresult
update (SimExec *exec, SimGraph *graph, CUgraphExecUpdateResult *why, SimNode **culprit)
{
  SimGraph *old;

  *culprit = NULL;
  *why = CU_GRAPH_EXEC_UPDATE_SUCCESS;
  if (graph->nodes->len != exec->graph->nodes->len)
    *why = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  for (guint i = 0; *why == CU_GRAPH_EXEC_UPDATE_SUCCESS && i < graph->nodes->len; i++)
    {
      SimNode *a = g_ptr_array_index (exec->graph->nodes, i), *b = g_ptr_array_index (graph->nodes, i);

      *culprit = b;
      if (a->type != b->type)
        *why = CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
      else if (is_memory_node (b))
        *why = CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
      else if (a->deps->len != b->deps->len)
        *why = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
      for (guint j = 0; *why == CU_GRAPH_EXEC_UPDATE_SUCCESS && j < a->deps->len; j++)
        {
          guint x, y;

          if (!g_ptr_array_find (exec->graph->nodes, g_ptr_array_index (a->deps, j), &x) ||
              !g_ptr_array_find (graph->nodes, g_ptr_array_index (b->deps, j), &y) || x != y)
            *why = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        }
    }
  if (*why != CU_GRAPH_EXEC_UPDATE_SUCCESS)
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  *culprit = NULL;

  /* The exec goes on to be addressed by the nodes that it was made from. */
  old = exec->graph;
  exec->graph = graph_clone (graph);
  for (guint i = 0; i < old->nodes->len; i++)
    ((SimNode *) g_ptr_array_index (exec->graph->nodes, i))->origin = ((SimNode *) g_ptr_array_index (old->nodes, i))->origin;
  sim_graph_unref (old);
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuGraphExecUpdate, 0, (CUgraphExec, hGraphExec), (CUgraph, hGraph), (CUgraphNode *, hErrorNode_out), (CUgraphExecUpdateResult *, updateResult_out))
{
  SimExec *exec = exec_of (hGraphExec);
  SimGraph *graph = sim_graph (hGraph);
  CUgraphExecUpdateResult why;
  SimNode *culprit;
  CUresult result;

  if (exec == NULL || graph == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  result = update (exec, graph, &why, &culprit);
  if (hErrorNode_out != NULL)
    *hErrorNode_out = culprit != NULL ? culprit->handle : NULL;
  if (updateResult_out != NULL)
    *updateResult_out = why;
  return result;
}

SIM_ENTRY (cuGraphExecUpdate_v2, 0, (CUgraphExec, hGraphExec), (CUgraph, hGraph), (CUgraphExecUpdateResultInfo *, resultInfo))
{
  SimExec *exec = exec_of (hGraphExec);
  SimGraph *graph = sim_graph (hGraph);
  CUgraphExecUpdateResult why;
  SimNode *culprit;
  CUresult result;

  if (exec == NULL || graph == NULL || resultInfo == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  result = update (exec, graph, &why, &culprit);
  resultInfo->result = why;
  resultInfo->errorNode = culprit != NULL ? culprit->handle : NULL;
  resultInfo->errorFromNode = NULL;
  return result;
}
