/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-graph-private.h"

#include "gcuda-graph-memory-resource.h"

/**
 * GCudaGraphDefinition:
 *
 * A graph as it is written: nodes of work, and which of them come after which.
 *
 * [method@GraphBuilder.finish] gives one for what was captured; [ctor@GraphDefinition.new] makes an empty one, to add nodes
 * to. [method@GraphDefinition.instantiate] makes an executable graph of it, which later changes of the definition do not
 * touch.
 *
 * The graph keeps the memory of the buffers that its nodes use, and the data of its host functions, and so do the executable
 * graphs made of it and their launches: a program may close the buffers. All of it goes when the definition is closed, the
 * executable graphs are closed, and their launches are done. Memory that the graph itself allocates is the exception, see
 * [class@GraphMemoryResource].
 *
 * One thread at a time: the driver does not guard graphs against two. Which thread does not matter.
 *
 * Since: 0.1
 */
struct _GCudaGraphDefinition
{
  GObject parent_instance;

  GCudaGraphBox *graph; /* NULL for an object made by bare new */
  gboolean disposed;
  gboolean has_functions; /* of its own: bindings may tie those to this object */
};

G_DEFINE_FINAL_TYPE (GCudaGraphDefinition, gcuda_graph_definition, G_TYPE_OBJECT)

enum
{
  PROP_0,
  PROP_HANDLE,
  PROP_CLOSED,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

static void
gcuda_graph_definition_dispose (GObject *object)
{
  GCudaGraphDefinition *self = GCUDA_GRAPH_DEFINITION (object);

  if (self->graph != NULL && !self->disposed)
    _gcuda_graph_box_close (self->graph);
  self->disposed = TRUE;

  G_OBJECT_CLASS (gcuda_graph_definition_parent_class)->dispose (object);
}

static void
gcuda_graph_definition_finalize (GObject *object)
{
  GCudaGraphDefinition *self = GCUDA_GRAPH_DEFINITION (object);

  g_clear_pointer (&self->graph, _gcuda_graph_box_unref);

  G_OBJECT_CLASS (gcuda_graph_definition_parent_class)->finalize (object);
}

static void
gcuda_graph_definition_get_property (GObject *object,
                                     guint id,
                                     GValue *value,
                                     GParamSpec *pspec)
{
  GCudaGraphDefinition *self = GCUDA_GRAPH_DEFINITION (object);

  switch (id)
    {
    case PROP_HANDLE:
      g_value_set_uint64 (value, gcuda_graph_definition_get_handle (self));
      break;
    case PROP_CLOSED:
      g_value_set_boolean (value, gcuda_graph_definition_is_closed (self));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gcuda_graph_definition_class_init (GCudaGraphDefinitionClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;

  object_class->dispose = gcuda_graph_definition_dispose;
  object_class->finalize = gcuda_graph_definition_finalize;
  object_class->get_property = gcuda_graph_definition_get_property;

  /**
   * GCudaGraphDefinition:handle: (getter get_handle)
   *
   * The `CUgraph`, as a number; 0 when closed.
   *
   * Since: 0.1
   */
  properties[PROP_HANDLE] = g_param_spec_uint64 ("handle", NULL, NULL, 0, G_MAXUINT64, 0, flags);

  /**
   * GCudaGraphDefinition:closed: (getter is_closed)
   *
   * Whether the definition was closed.
   *
   * Since: 0.1
   */
  properties[PROP_CLOSED] = g_param_spec_boolean ("closed", NULL, NULL, TRUE, flags);

  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
gcuda_graph_definition_init (GCudaGraphDefinition *self)
{
}

GCudaGraphDefinition *
_gcuda_graph_definition_new_for_box (GCudaGraphBox *graph)
{
  GCudaGraphDefinition *self = g_object_new (GCUDA_TYPE_GRAPH_DEFINITION, NULL);

  self->graph = graph;
  return self;
}

void
_gcuda_graph_definition_tie (GCudaGraphDefinition *self,
                             GCudaKeeper *keeper)
{
  if (self->has_functions)
    _gcuda_keeper_add_object (keeper, G_OBJECT (self));
  if (self->graph->objects != NULL)
    _gcuda_keeper_add (keeper, _gcuda_keeper_ref (self->graph->objects), (GDestroyNotify) _gcuda_keeper_unref);
}

GCudaGraphBox *
_gcuda_graph_definition_hold (GCudaGraphDefinition *self,
                              const char *what,
                              GError **error)
{
  if (!GCUDA_IS_GRAPH_DEFINITION (self))
    {
      _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: no graph definition was given", what);
      return NULL;
    }
  if (!_gcuda_driver_check (error))
    return NULL;
  if (gcuda_graph_definition_is_closed (self))
    {
      _gcuda_fail (error, GCUDA_ERROR_CLOSED, "%s: the graph definition is closed", what);
      return NULL;
    }
  return _gcuda_graph_box_ref (self->graph);
}

/**
 * gcuda_graph_definition_new:
 * @context: the context that the graph's work runs in
 * @error: return location for an error
 *
 * Makes a graph without nodes. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for no context; `CLOSED`; `NOT_SUPPORTED`; `FORKED`; what the driver answers.
 *
 * Returns: (transfer full): a new graph definition
 *
 * Since: 0.1
 */
GCudaGraphDefinition *
gcuda_graph_definition_new (GCudaContext *context,
                            GError **error)
{
  static const char what[] = "making a graph";
  GCudaContextBox *box = _gcuda_context_hold (context, what, error);
  CUgraph handle;
  CUresult result;

  if (box == NULL)
    return NULL;
  if (_gcuda_graphs_check (what, error))
    {
      result = _gcuda_driver.GraphCreate (&handle, 0);
      if (result == CUDA_SUCCESS)
        return _gcuda_graph_definition_new_for_box (_gcuda_graph_box_new (handle, TRUE, box, 0));
      _gcuda_fail_driver (error, result, "%s", what);
    }
  _gcuda_context_box_unuse (box);
  return NULL;
}

/**
 * gcuda_graph_definition_close:
 * @self: a graph definition
 * @error: return location for an error, or %NULL
 *
 * Ends the definition, and lets go what it keeps. Executable graphs made of it go on, and keep what they need. One that is
 * closed already stays so. It waits for nothing. Any thread.
 *
 * Returns: %TRUE
 *
 * Since: 0.1
 */
gboolean
gcuda_graph_definition_close (GCudaGraphDefinition *self,
                              GError **error)
{
  g_return_val_if_fail (GCUDA_IS_GRAPH_DEFINITION (self), FALSE);

  if (gcuda_graph_definition_is_closed (self))
    return TRUE;
  _gcuda_graph_box_close (self->graph);
  /* A handler may drop what the caller holds. */
  g_object_ref (self);
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_CLOSED]);
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_HANDLE]);
  g_object_unref (self);
  return TRUE;
}

/**
 * gcuda_graph_definition_is_closed: (get-property closed)
 * @self: a graph definition
 *
 * Whether the definition was closed, or never was open. Any thread.
 *
 * Returns: whether it is closed
 *
 * Since: 0.1
 */
gboolean
gcuda_graph_definition_is_closed (GCudaGraphDefinition *self)
{
  g_return_val_if_fail (GCUDA_IS_GRAPH_DEFINITION (self), TRUE);

  return self->graph == NULL || self->disposed || _gcuda_graph_box_is_closed (self->graph);
}

/**
 * gcuda_graph_definition_get_handle: (get-property handle)
 * @self: a graph definition
 *
 * The `CUgraph`, as a number, for other libraries: to add kernels, or to make something of it. It is valid as long as @self is
 * open. From here on also what others make of the handle keeps what the graph keeps; and so an executable graph, whose node
 * is updated, keeps what that node used before as well. Any thread.
 *
 * Returns: the handle; 0 when closed, or where the driver could not tie what is kept to the graph
 *
 * Since: 0.1
 */
guint64
gcuda_graph_definition_get_handle (GCudaGraphDefinition *self)
{
  GCudaGraphBox *root;
  CUuserObject object;
  CUresult result;

  g_return_val_if_fail (GCUDA_IS_GRAPH_DEFINITION (self), 0);

  if (gcuda_graph_definition_is_closed (self) || _gcuda_driver_forked ())
    return 0;
  root = self->graph->root != NULL ? self->graph->root : self->graph;
  if (g_atomic_int_compare_and_exchange (&root->tied, FALSE, TRUE))
    {
      result = _gcuda_keeper_set_tie (root->keepers, &object);
      if (result == CUDA_SUCCESS)
        {
          result = _gcuda_driver.GraphRetainUserObject (root->handle, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
          if (result != CUDA_SUCCESS)
            _gcuda_driver.UserObjectRelease (object, 1);
        }
      if (result != CUDA_SUCCESS)
        {
          g_atomic_int_set (&root->tied, FALSE);
          return 0;
        }
    }
  return (guint64) (guintptr) self->graph->handle;
}

/**
 * gcuda_graph_definition_get_nodes:
 * @self: a graph definition
 * @error: return location for an error
 *
 * The nodes of the graph, also those that others added by way of its handle; not those of graphs within it. In no order that
 * is promised. One thread at a time.
 *
 * Errors: `CLOSED`; `FORKED`; what the driver answers.
 *
 * Returns: (transfer container) (element-type GCudaGraphNode): the nodes, which the array has references to
 *
 * Since: 0.1
 */
GPtrArray *
gcuda_graph_definition_get_nodes (GCudaGraphDefinition *self,
                                  GError **error)
{
  static const char what[] = "listing the nodes of a graph";
  g_autoptr (GCudaGraphBox) graph = NULL;
  g_autofree CUgraphNode *handles = NULL;
  GPtrArray *nodes;
  size_t n = 0;
  CUresult result;

  g_return_val_if_fail (GCUDA_IS_GRAPH_DEFINITION (self), NULL);

  graph = _gcuda_graph_definition_hold (self, what, error);
  if (graph == NULL)
    return NULL;
  result = _gcuda_driver.GraphGetNodes (graph->handle, NULL, &n);
  if (result == CUDA_SUCCESS && n > 0)
    {
      handles = g_new0 (CUgraphNode, n);
      result = _gcuda_driver.GraphGetNodes (graph->handle, handles, &n);
    }
  if (result != CUDA_SUCCESS)
    {
      _gcuda_fail_driver (error, result, "%s", what);
      return NULL;
    }
  nodes = g_ptr_array_new_with_free_func (g_object_unref);
  for (size_t i = 0; i < n; i++)
    g_ptr_array_add (nodes, _gcuda_graph_node_new (graph, handles[i]));
  return nodes;
}

/**
 * gcuda_graph_definition_instantiate:
 * @self: a graph definition
 * @flags: how the graph is made executable
 * @upload_stream: (nullable): a stream to upload the graph on, so that its first launch is quick; %NULL to leave that to the
 *   first launch
 * @error: return location for an error
 *
 * Makes an executable graph. It keeps all that the definition keeps now. One thread at a time.
 *
 * Errors: `INVALID_ARGUMENT` for unknown flags, or the body of a conditional node; `NOT_SUPPORTED` for a graph that allocates
 * memory while another executable graph of it is open, and for flags that this graph or driver can't do; `CAPTURING` for an
 * @upload_stream that is being captured; `STREAM_CAPTURE_UNSUPPORTED` while a stream is being captured, by this thread or in global
 * mode by another, unless that is in relaxed mode: the driver breaks that capture; `CLOSED`; `FORKED`; what the driver answers.
 *
 * Returns: (transfer full): a new executable graph
 *
 * Since: 0.1
 */
GCudaGraph *
gcuda_graph_definition_instantiate (GCudaGraphDefinition *self,
                                    GCudaGraphFlags flags,
                                    GCudaStream *upload_stream,
                                    GError **error)
{
  static const char what[] = "making a graph executable";
  g_autoptr (GCudaGraphBox) graph = NULL;

  g_return_val_if_fail (GCUDA_IS_GRAPH_DEFINITION (self), NULL);

  graph = _gcuda_graph_definition_hold (self, what, error);
  if (graph == NULL)
    return NULL;
  if (graph->root != NULL)
    {
      _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: it is the body of a conditional node, and runs with the graph of that", what);
      return NULL;
    }
  return _gcuda_graph_new (graph, self, flags, upload_stream, error);
}

/* Adding nodes */

typedef struct
{
  GCudaGraphBox *graph;
  CUgraphNode *dependencies;
  gsize n_dependencies;
  GCudaKeeper *keeper;
  GCudaContextScope scope;
  CUgraphNode node;
} Addition;

static void
addition_clear (Addition *self)
{
  g_clear_pointer (&self->keeper, _gcuda_keeper_unref);
  g_clear_pointer (&self->dependencies, g_free);
  g_clear_pointer (&self->graph, _gcuda_graph_box_unref);
}

static gboolean
addition_begin (Addition *self,
                GCudaGraphDefinition *definition,
                GCudaGraphNode **dependencies,
                gsize n_dependencies,
                const char *what,
                GError **error)
{
  memset (self, 0, sizeof *self);
  self->graph = _gcuda_graph_definition_hold (definition, what, error);
  if (self->graph == NULL)
    return FALSE;
  self->dependencies = g_new0 (CUgraphNode, MAX (n_dependencies, 1));
  self->n_dependencies = n_dependencies;
  self->keeper = _gcuda_keeper_new ();
  if (n_dependencies > 0 && dependencies == NULL)
    {
      _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: no dependencies were given", what);
      addition_clear (self);
      return FALSE;
    }
  for (gsize i = 0; i < n_dependencies; i++)
    {
      self->dependencies[i] = _gcuda_graph_node_check (dependencies[i], self->graph, what, error);
      for (gsize j = 0; self->dependencies[i] != NULL && j < i; j++)
        if (self->dependencies[j] == self->dependencies[i])
          {
            _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: dependency %" G_GSIZE_FORMAT " is there twice", what, i);
            self->dependencies[i] = NULL;
          }
      if (self->dependencies[i] == NULL)
        {
          addition_clear (self);
          return FALSE;
        }
    }
  return TRUE;
}

static GCudaGraphNode *
addition_fail (Addition *self)
{
  addition_clear (self);
  return NULL;
}

/* Between the two: the driver's call. */
static gboolean
addition_enter (Addition *self,
                const char *what,
                GError **error)
{
  return _gcuda_graph_box_enter (self->graph, &self->scope, what, error);
}

static GCudaGraphNode *
addition_end (Addition *self,
              CUresult result,
              const char *what,
              GError **error)
{
  GCudaGraphNode *node = NULL;

  /* Whatever comes of that: a node that was added is there. */
  _gcuda_context_scope_leave (&self->scope);
  if (result == CUDA_SUCCESS)
    {
      _gcuda_keeper_set_add (self->graph->keepers, self->node, g_steal_pointer (&self->keeper));
      node = _gcuda_graph_node_new (self->graph, self->node);
    }
  else
    {
      _gcuda_fail_driver (error, result, "%s", what);
    }
  addition_clear (self);
  return node;
}

/**
 * gcuda_graph_definition_add_dependency:
 * @self: a graph definition
 * @from: a node of the graph
 * @to: another
 * @error: return location for an error, or %NULL
 *
 * Makes a node wait for another. One thread at a time.
 *
 * Errors: `INVALID_ARGUMENT` for nodes of another graph, or none; `CLOSED`; `FORKED`; `INVALID_VALUE` if it does so already, or
 * if @from waits for @to.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_graph_definition_add_dependency (GCudaGraphDefinition *self,
                                       GCudaGraphNode *from,
                                       GCudaGraphNode *to,
                                       GError **error)
{
  static const char what[] = "adding a dependency to a graph";
  g_autoptr (GCudaGraphBox) graph = NULL;
  CUgraphNode before, after;
  CUresult result;

  g_return_val_if_fail (GCUDA_IS_GRAPH_DEFINITION (self), FALSE);

  graph = _gcuda_graph_definition_hold (self, what, error);
  if (graph == NULL)
    return FALSE;
  before = _gcuda_graph_node_check (from, graph, what, error);
  after = before != NULL ? _gcuda_graph_node_check (to, graph, what, error) : NULL;
  if (after == NULL)
    return FALSE;
  result = _gcuda_driver.GraphAddDependencies (graph->handle, &before, &after, 1);
  return result == CUDA_SUCCESS || _gcuda_fail_driver (error, result, "%s", what);
}

/**
 * gcuda_graph_definition_add_empty:
 * @self: a graph definition
 * @dependencies: (array length=n_dependencies): nodes that come before
 * @n_dependencies: how many
 * @error: return location for an error
 *
 * Adds a node that does nothing, for others to depend on. One thread at a time.
 *
 * Errors: `INVALID_ARGUMENT` for dependencies of another graph, or one that is there twice; `CLOSED`; `FORKED`; what the
 * driver answers. Then the graph is as it was.
 *
 * Returns: (transfer full): the new node
 *
 * Since: 0.1
 */
GCudaGraphNode *
gcuda_graph_definition_add_empty (GCudaGraphDefinition *self,
                                  GCudaGraphNode **dependencies,
                                  gsize n_dependencies,
                                  GError **error)
{
  static const char what[] = "adding an empty node to a graph";
  Addition addition;

  g_return_val_if_fail (GCUDA_IS_GRAPH_DEFINITION (self), NULL);

  if (!addition_begin (&addition, self, dependencies, n_dependencies, what, error))
    return NULL;
  if (!addition_enter (&addition, what, error))
    return addition_fail (&addition);
  return addition_end (&addition,
                       _gcuda_driver.GraphAddEmptyNode (&addition.node, addition.graph->handle, addition.dependencies, addition.n_dependencies),
                       what, error);
}

gboolean
_gcuda_graph_fill_parameters (GCudaGraphBox *graph,
                              GCudaBuffer *buffer,
                              guint64 offset,
                              guint64 size,
                              guint64 value,
                              guint width,
                              const char *what,
                              CUDA_MEMSET_NODE_PARAMS *parameters,
                              GCudaKeeper *keeper,
                              GError **error)
{
  CUdeviceptr address;
  GCudaAllocation *allocation = _gcuda_buffer_hold_range (buffer, offset, size, what, &address, error);
  gboolean fits;

  if (allocation == NULL)
    return FALSE;
  fits = _gcuda_buffer_check_pattern (value, width, size != 0 ? address : 0, size, what, error) && _gcuda_allocation_check_writable (allocation, what, error);
  if (fits)
    {
      memset (parameters, 0, sizeof *parameters);
      parameters->dst = address;
      parameters->value = (unsigned int) value;
      parameters->elementSize = width;
      parameters->width = size / width;
      parameters->height = 1;
      _gcuda_graph_box_keep_allocation (graph, keeper, allocation);
    }
  _gcuda_allocation_unhold (allocation);
  return fits;
}

/**
 * gcuda_graph_definition_add_fill:
 * @self: a graph definition
 * @dependencies: (array length=n_dependencies): nodes that come before
 * @n_dependencies: how many
 * @buffer: a buffer
 * @offset: where to start, in bytes
 * @size: how many bytes
 * @value: the pattern, in the machine's byte order
 * @width: how many bytes the pattern has: 1, 2 or 4
 * @error: return location for an error
 *
 * Adds a node that fills a part of a buffer with a pattern. One thread at a time.
 *
 * Errors: as [method@GraphDefinition.add_empty] and [method@Buffer.fill_range].
 *
 * Returns: (transfer full): the new node
 *
 * Since: 0.1
 */
GCudaGraphNode *
gcuda_graph_definition_add_fill (GCudaGraphDefinition *self,
                                 GCudaGraphNode **dependencies,
                                 gsize n_dependencies,
                                 GCudaBuffer *buffer,
                                 guint64 offset,
                                 guint64 size,
                                 guint64 value,
                                 guint width,
                                 GError **error)
{
  static const char what[] = "adding a fill to a graph";
  CUDA_MEMSET_NODE_PARAMS parameters;
  Addition addition;

  g_return_val_if_fail (GCUDA_IS_GRAPH_DEFINITION (self), NULL);

  if (!addition_begin (&addition, self, dependencies, n_dependencies, what, error))
    return NULL;
  if (!_gcuda_graph_fill_parameters (addition.graph, buffer, offset, size, value, width, what, &parameters, addition.keeper, error) ||
      !addition_enter (&addition, what, error))
    return addition_fail (&addition);
  return addition_end (&addition,
                       parameters.width == 0
                         ? _gcuda_driver.GraphAddEmptyNode (&addition.node, addition.graph->handle, addition.dependencies, addition.n_dependencies)
                         : _gcuda_driver.GraphAddMemsetNode (&addition.node, addition.graph->handle, addition.dependencies, addition.n_dependencies,
                                                             &parameters, addition.graph->context->handle),
                       what, error);
}

/* A graph's copies run on its own device. */
static gboolean
check_copied_here (GCudaGraphBox *graph,
                   GCudaAllocation *allocation,
                   const char *what,
                   GError **error)
{
  GCudaDevice *device = _gcuda_allocation_get_device (allocation);

  return device == NULL || gcuda_device_get_ordinal (device) == graph->context->device || _gcuda_allocation_check_portable (allocation, what, error);
}

gboolean
_gcuda_graph_copy_parameters (GCudaGraphBox *graph,
                              GCudaBuffer *source,
                              guint64 offset,
                              GCudaBuffer *destination,
                              guint64 destination_offset,
                              guint64 size,
                              const char *what,
                              CUDA_MEMCPY3D *parameters,
                              GCudaKeeper *keeper,
                              GError **error)
{
  GCudaAllocation *from, *to = NULL;
  CUdeviceptr from_address, to_address;
  gboolean fits = FALSE;

  from = _gcuda_buffer_hold_range (source, offset, size, what, &from_address, error);
  if (from != NULL)
    to = _gcuda_buffer_hold_range (destination, destination_offset, size, what, &to_address, error);
  if (to != NULL && size > 0 && from_address < to_address + size && to_address < from_address + size)
    {
      _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: source and destination overlap", what);
    }
  else if (to != NULL && _gcuda_allocation_check_writable (to, what, error) && check_copied_here (graph, from, what, error) &&
           check_copied_here (graph, to, what, error))
    {
      memset (parameters, 0, sizeof *parameters);
      parameters->srcMemoryType = _gcuda_allocation_is_on_host (from) ? CU_MEMORYTYPE_UNIFIED : CU_MEMORYTYPE_DEVICE;
      parameters->srcDevice = from_address;
      parameters->srcPitch = size;
      parameters->srcHeight = 1;
      parameters->dstMemoryType = _gcuda_allocation_is_on_host (to) ? CU_MEMORYTYPE_UNIFIED : CU_MEMORYTYPE_DEVICE;
      parameters->dstDevice = to_address;
      parameters->dstPitch = size;
      parameters->dstHeight = 1;
      parameters->WidthInBytes = size;
      parameters->Height = 1;
      parameters->Depth = 1;
      _gcuda_graph_box_keep_allocation (graph, keeper, from);
      _gcuda_graph_box_keep_allocation (graph, keeper, to);
      fits = TRUE;
    }
  if (from != NULL)
    _gcuda_allocation_unhold (from);
  if (to != NULL)
    _gcuda_allocation_unhold (to);
  return fits;
}

static CUresult
add_copy (Addition *addition,
          const CUDA_MEMCPY3D *parameters)
{
  if (parameters->WidthInBytes == 0)
    return _gcuda_driver.GraphAddEmptyNode (&addition->node, addition->graph->handle, addition->dependencies, addition->n_dependencies);
  return _gcuda_driver.GraphAddMemcpyNode (&addition->node, addition->graph->handle, addition->dependencies, addition->n_dependencies,
                                           parameters, addition->graph->context->handle);
}

/**
 * gcuda_graph_definition_add_copy:
 * @self: a graph definition
 * @dependencies: (array length=n_dependencies): nodes that come before
 * @n_dependencies: how many
 * @source: the buffer to copy from
 * @offset: where to start in @source, in bytes
 * @destination: the buffer to copy to
 * @destination_offset: where to start in @destination, in bytes
 * @size: how many bytes
 * @error: return location for an error
 *
 * Adds a node that copies a part of a buffer to another. One thread at a time.
 *
 * Errors: as [method@GraphDefinition.add_empty]; `INVALID_ARGUMENT` for parts that overlap or do not lie in their buffers, or
 * no buffer.
 *
 * Returns: (transfer full): the new node
 *
 * Since: 0.1
 */
GCudaGraphNode *
gcuda_graph_definition_add_copy (GCudaGraphDefinition *self,
                                 GCudaGraphNode **dependencies,
                                 gsize n_dependencies,
                                 GCudaBuffer *source,
                                 guint64 offset,
                                 GCudaBuffer *destination,
                                 guint64 destination_offset,
                                 guint64 size,
                                 GError **error)
{
  static const char what[] = "adding a copy to a graph";
  CUDA_MEMCPY3D parameters;
  Addition addition;

  g_return_val_if_fail (GCUDA_IS_GRAPH_DEFINITION (self), NULL);

  if (!addition_begin (&addition, self, dependencies, n_dependencies, what, error))
    return NULL;
  if (!_gcuda_graph_copy_parameters (addition.graph, source, offset, destination, destination_offset, size, what, &parameters, addition.keeper, error) ||
      !addition_enter (&addition, what, error))
    return addition_fail (&addition);
  return addition_end (&addition, add_copy (&addition, &parameters), what, error);
}

gboolean
_gcuda_graph_upload_parameters (GCudaGraphBox *graph,
                                GCudaBuffer *buffer,
                                guint64 offset,
                                GBytes *bytes,
                                const char *what,
                                CUDA_MEMCPY3D *parameters,
                                GCudaKeeper *keeper,
                                GError **error)
{
  GCudaAllocation *allocation;
  CUdeviceptr address;
  gconstpointer data;
  gsize size = 0;

  if (bytes == NULL)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: no data was given", what);
  data = g_bytes_get_data (bytes, &size);
  allocation = _gcuda_buffer_hold_range (buffer, offset, size, what, &address, error);
  if (allocation == NULL)
    return FALSE;
  if (!_gcuda_allocation_check_writable (allocation, what, error) || !check_copied_here (graph, allocation, what, error))
    {
      _gcuda_allocation_unhold (allocation);
      return FALSE;
    }
  memset (parameters, 0, sizeof *parameters);
  parameters->srcMemoryType = CU_MEMORYTYPE_HOST;
  parameters->srcHost = data;
  parameters->srcPitch = size;
  parameters->srcHeight = 1;
  parameters->dstMemoryType = _gcuda_allocation_is_on_host (allocation) ? CU_MEMORYTYPE_UNIFIED : CU_MEMORYTYPE_DEVICE;
  parameters->dstDevice = address;
  parameters->dstPitch = size;
  parameters->dstHeight = 1;
  parameters->WidthInBytes = size;
  parameters->Height = 1;
  parameters->Depth = 1;
  _gcuda_graph_box_keep_allocation (graph, keeper, allocation);
  _gcuda_keeper_add (keeper, g_bytes_ref (bytes), (GDestroyNotify) g_bytes_unref);
  _gcuda_allocation_unhold (allocation);
  return TRUE;
}

/**
 * gcuda_graph_definition_add_upload:
 * @self: a graph definition
 * @dependencies: (array length=n_dependencies): nodes that come before
 * @n_dependencies: how many
 * @buffer: a buffer
 * @offset: where to put the data, in bytes
 * @bytes: the data, which the graph keeps
 * @error: return location for an error
 *
 * Adds a node that copies host data into a buffer, as it is at each launch. One thread at a time.
 *
 * Errors: as [method@GraphDefinition.add_empty]; `INVALID_ARGUMENT` for data that does not lie in the buffer there, or no
 * data.
 *
 * Returns: (transfer full): the new node
 *
 * Since: 0.1
 */
GCudaGraphNode *
gcuda_graph_definition_add_upload (GCudaGraphDefinition *self,
                                   GCudaGraphNode **dependencies,
                                   gsize n_dependencies,
                                   GCudaBuffer *buffer,
                                   guint64 offset,
                                   GBytes *bytes,
                                   GError **error)
{
  static const char what[] = "adding an upload to a graph";
  CUDA_MEMCPY3D parameters;
  Addition addition;

  g_return_val_if_fail (GCUDA_IS_GRAPH_DEFINITION (self), NULL);

  if (!addition_begin (&addition, self, dependencies, n_dependencies, what, error))
    return NULL;
  if (!_gcuda_graph_upload_parameters (addition.graph, buffer, offset, bytes, what, &parameters, addition.keeper, error) ||
      !addition_enter (&addition, what, error))
    return addition_fail (&addition);
  return addition_end (&addition, add_copy (&addition, &parameters), what, error);
}

/* The body of a node may have other objects beside this one: there the outer graph keeps it, while it is open. */
static void
tie_function (GCudaGraphDefinition *self)
{
  GCudaGraphBox *root = self->graph->root;

  if (root != NULL && !self->has_functions && !_gcuda_graph_box_is_closed (root))
    {
      if (root->objects == NULL)
        root->objects = _gcuda_keeper_new ();
      _gcuda_keeper_add_object (root->objects, G_OBJECT (self));
    }
  self->has_functions = TRUE;
}

/**
 * gcuda_graph_definition_add_host_function:
 * @self: a graph definition
 * @dependencies: (array length=n_dependencies): nodes that come before
 * @n_dependencies: how many
 * @func: (scope notified) (closure user_data) (destroy destroy): what to call
 * @user_data: data for @func
 * @destroy: called when @user_data is no longer needed
 * @error: return location for an error
 *
 * Adds a node that calls a function, once for each launch, from the main context that is the thread-default one now. The
 * graph goes on without waiting for it. @destroy is called there as well, when the graph, what was made of it, and their
 * launches are gone. Data that refers to the graph keeps it for good. See [method@Stream.launch_host_function]. One thread at
 * a time.
 *
 * Bindings may tie the function to this object, so executable graphs and their launches keep it from then on, and so does a
 * graph that this one becomes a part of; it is let go in the main context that is the thread-default one where they are made.
 *
 * On failure only @destroy is called.
 *
 * Errors: as [method@GraphDefinition.add_empty]; `INVALID_ARGUMENT` without a function.
 *
 * Returns: (transfer full): the new node
 *
 * Since: 0.1
 */
GCudaGraphNode *
gcuda_graph_definition_add_host_function (GCudaGraphDefinition *self,
                                          GCudaGraphNode **dependencies,
                                          gsize n_dependencies,
                                          GCudaStreamFunc func,
                                          gpointer user_data,
                                          GDestroyNotify destroy,
                                          GError **error)
{
  static const char what[] = "adding a host function to a graph";
  GCudaHostFunction *function;
  CUDA_HOST_NODE_PARAMS parameters = { 0 };
  GCudaGraphNode *node = NULL;
  Addition addition;

  g_return_val_if_fail (GCUDA_IS_GRAPH_DEFINITION (self), NULL);

  function = _gcuda_host_function_new (NULL, func, user_data, destroy);
  if (func == NULL)
    {
      _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: no function was given", what);
    }
  else if (addition_begin (&addition, self, dependencies, n_dependencies, what, error))
    {
      if (addition_enter (&addition, what, error))
        {
          parameters.fn = _gcuda_host_function_reached;
          parameters.userData = function;
          _gcuda_keeper_add (addition.keeper, _gcuda_host_function_ref (function), (GDestroyNotify) _gcuda_host_function_unref);
          node = addition_end (&addition,
                               _gcuda_driver.GraphAddHostNode (&addition.node, addition.graph->handle, addition.dependencies, addition.n_dependencies, &parameters),
                               what, error);
        }
      else
        addition_clear (&addition);
    }
  if (node != NULL)
    {
      tie_function (self);
      _gcuda_host_function_unref (function);
    }
  else
    {
      _gcuda_host_function_discard (function);
    }
  return node;
}

static GCudaGraphNode *
add_event (GCudaGraphDefinition *self,
           GCudaGraphNode **dependencies,
           gsize n_dependencies,
           GCudaEvent *event,
           gboolean record,
           const char *what,
           GError **error)
{
  GCudaEventBox *held;
  GCudaGraphNode *node;
  CUevent handle;
  Addition addition;

  if (!addition_begin (&addition, self, dependencies, n_dependencies, what, error))
    return NULL;
  held = _gcuda_event_hold (event, what, &handle, error);
  if (held == NULL)
    return addition_fail (&addition);
  _gcuda_keeper_add (addition.keeper, held, (GDestroyNotify) _gcuda_event_drop);
  if (!addition_enter (&addition, what, error))
    return addition_fail (&addition);
  node = addition_end (&addition,
                       record
                         ? _gcuda_driver.GraphAddEventRecordNode (&addition.node, addition.graph->handle, addition.dependencies, addition.n_dependencies, handle)
                         : _gcuda_driver.GraphAddEventWaitNode (&addition.node, addition.graph->handle, addition.dependencies, addition.n_dependencies, handle),
                       what, error);
  if (node != NULL && record)
    _gcuda_event_set_recorded (event);
  return node;
}

/**
 * gcuda_graph_definition_add_event_record:
 * @self: a graph definition
 * @dependencies: (array length=n_dependencies): nodes that come before
 * @n_dependencies: how many
 * @event: an event, which the graph keeps
 * @error: return location for an error
 *
 * Adds a node that records an event, at each launch anew. Streams and threads can wait for it as for any event. One thread at
 * a time.
 *
 * Errors: as [method@GraphDefinition.add_empty]; `INVALID_ARGUMENT` for no event.
 *
 * Returns: (transfer full): the new node
 *
 * Since: 0.1
 */
GCudaGraphNode *
gcuda_graph_definition_add_event_record (GCudaGraphDefinition *self,
                                         GCudaGraphNode **dependencies,
                                         gsize n_dependencies,
                                         GCudaEvent *event,
                                         GError **error)
{
  g_return_val_if_fail (GCUDA_IS_GRAPH_DEFINITION (self), NULL);

  return add_event (self, dependencies, n_dependencies, event, TRUE, "adding an event record to a graph", error);
}

/**
 * gcuda_graph_definition_add_event_wait:
 * @self: a graph definition
 * @dependencies: (array length=n_dependencies): nodes that come before
 * @n_dependencies: how many
 * @event: an event, which the graph keeps
 * @error: return location for an error
 *
 * Adds a node that waits for an event's latest record, as that is at each launch. One thread at a time.
 *
 * Errors: as [method@GraphDefinition.add_empty]; `INVALID_ARGUMENT` for no event.
 *
 * Returns: (transfer full): the new node
 *
 * Since: 0.1
 */
GCudaGraphNode *
gcuda_graph_definition_add_event_wait (GCudaGraphDefinition *self,
                                       GCudaGraphNode **dependencies,
                                       gsize n_dependencies,
                                       GCudaEvent *event,
                                       GError **error)
{
  g_return_val_if_fail (GCUDA_IS_GRAPH_DEFINITION (self), NULL);

  return add_event (self, dependencies, n_dependencies, event, FALSE, "adding an event wait to a graph", error);
}

CUresult
_gcuda_graph_add_child (GCudaGraphBox *graph,
                        const CUgraphNode *dependencies,
                        gsize n_dependencies,
                        GCudaGraphDefinition *definition,
                        GCudaGraphBox *child,
                        CUgraphNode *node)
{
  GCudaKeeper *kept = _gcuda_keeper_set_collect (child->keepers);
  CUresult result;

  if (kept != NULL)
    _gcuda_graph_definition_tie (definition, kept);
  result = _gcuda_driver.GraphAddChildGraphNode (node, graph->handle, dependencies, n_dependencies, child->handle);

  if (kept != NULL && result == CUDA_SUCCESS)
    _gcuda_keeper_set_add (graph->keepers, *node, kept);
  else if (kept != NULL)
    _gcuda_keeper_unref (kept);
  return result;
}

void
_gcuda_graph_remove_node (GCudaGraphBox *graph,
                          CUgraphNode node)
{
  GCudaKeeper *kept = _gcuda_keeper_set_remove (graph->keepers, node);

  _gcuda_driver.GraphDestroyNode (node);
  g_clear_pointer (&kept, _gcuda_keeper_unref);
}

/**
 * gcuda_graph_definition_add_graph:
 * @self: a graph definition
 * @dependencies: (array length=n_dependencies): nodes that come before
 * @n_dependencies: how many
 * @child: another graph definition
 * @error: return location for an error
 *
 * Adds a copy of a graph as one node. Later changes of @child do not touch it. One thread at a time.
 *
 * Errors: as [method@GraphDefinition.add_empty]; `INVALID_ARGUMENT` for no graph, or the graph itself; `NOT_SUPPORTED` for a
 * graph that allocates or frees memory.
 *
 * Returns: (transfer full): the new node
 *
 * Since: 0.1
 */
GCudaGraphNode *
gcuda_graph_definition_add_graph (GCudaGraphDefinition *self,
                                  GCudaGraphNode **dependencies,
                                  gsize n_dependencies,
                                  GCudaGraphDefinition *child,
                                  GError **error)
{
  static const char what[] = "adding a graph to a graph";
  g_autoptr (GCudaGraphBox) inner = NULL;
  Addition addition;

  g_return_val_if_fail (GCUDA_IS_GRAPH_DEFINITION (self), NULL);

  if (!addition_begin (&addition, self, dependencies, n_dependencies, what, error))
    return NULL;
  inner = _gcuda_graph_definition_hold (child, what, error);
  if (inner == NULL)
    return addition_fail (&addition);
  if (_gcuda_graph_box_contains (inner, addition.graph))
    {
      _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: it can't contain itself, or what it is a part of", what);
      return addition_fail (&addition);
    }
  if (_gcuda_graph_memory_is_used (inner->memory))
    {
      _gcuda_fail (error, GCUDA_ERROR_NOT_SUPPORTED, "%s: the inner graph allocates memory, and the driver allows that for the outermost graph only", what);
      return addition_fail (&addition);
    }
  if (!addition_enter (&addition, what, error))
    return addition_fail (&addition);
  return addition_end (&addition, _gcuda_graph_add_child (addition.graph, addition.dependencies, addition.n_dependencies, child, inner, &addition.node), what, error);
}

/**
 * gcuda_graph_definition_add_allocation:
 * @self: a graph definition
 * @dependencies: (array length=n_dependencies): nodes that come before
 * @n_dependencies: how many
 * @size: how many bytes, at least 1
 * @stream: the stream on which the memory is freed, where the graph does not free it
 * @buffer: (out) (transfer full): return location for the buffer
 * @error: return location for an error
 *
 * Adds a node that allocates memory of the context's device. The buffer has an address at once, for other nodes that come
 * after this one, and memory from a launch on; see [class@GraphMemoryResource]. One thread at a time.
 *
 * Errors: as [method@GraphDefinition.add_empty]; `INVALID_ARGUMENT` for a size no memory can have, or no stream;
 * `OUT_OF_MEMORY`.
 *
 * Returns: (transfer full): the new node
 *
 * Since: 0.1
 */
GCudaGraphNode *
gcuda_graph_definition_add_allocation (GCudaGraphDefinition *self,
                                       GCudaGraphNode **dependencies,
                                       gsize n_dependencies,
                                       guint64 size,
                                       GCudaStream *stream,
                                       GCudaBuffer **buffer,
                                       GError **error)
{
  static const char what[] = "adding an allocation to a graph";
  g_autoptr (GCudaGraphMemoryResource) resource = NULL;
  CUDA_MEM_ALLOC_NODE_PARAMS parameters = { 0 };
  GCudaStreamBox *box;
  GCudaGraphBox *graph;
  GCudaGraphNode *node = NULL;
  GCudaDevice *device;
  Addition addition;
  CUresult result;

  g_return_val_if_fail (GCUDA_IS_GRAPH_DEFINITION (self), NULL);
  g_return_val_if_fail (buffer != NULL, NULL);

  *buffer = NULL;
  if (!addition_begin (&addition, self, dependencies, n_dependencies, what, error))
    return NULL;
  graph = addition.graph;
  if (size == 0 || size > G_MAXSIZE / 2)
    {
      _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: a node can't allocate %" G_GUINT64_FORMAT " bytes", what, size);
      return addition_fail (&addition);
    }
  device = _gcuda_device_peek (graph->context->device, error);
  resource = device != NULL ? gcuda_graph_memory_resource_new (device, error) : NULL;
  if (resource == NULL)
    return addition_fail (&addition);
  box = _gcuda_stream_hold (stream, what, error);
  if (box == NULL)
    return addition_fail (&addition);
  if (addition_enter (&addition, what, error))
    {
      parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
      parameters.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
      parameters.poolProps.location.id = graph->context->device;
      parameters.bytesize = size;
      result = _gcuda_driver.GraphAddMemAllocNode (&addition.node, graph->handle, addition.dependencies, addition.n_dependencies, &parameters);
      if (result == CUDA_SUCCESS)
        _gcuda_graph_memory_add (graph->memory, 0, parameters.dptr, size);
      node = addition_end (&addition, result, what, error);
    }
  else
    addition_clear (&addition);
  if (node != NULL)
    *buffer = _gcuda_buffer_new (_gcuda_allocation_new (GCUDA_MEMORY_RESOURCE (resource), parameters.dptr, size, TRUE, box));
  else
    _gcuda_stream_box_unuse (box);
  return node;
}

/**
 * gcuda_graph_definition_add_free:
 * @self: a graph definition
 * @dependencies: (array length=n_dependencies): nodes that come before
 * @n_dependencies: how many
 * @buffer: a buffer of [method@GraphDefinition.add_allocation] of the same graph
 * @error: return location for an error
 *
 * Adds a node that frees memory that the graph allocated. The buffer stays open, for nodes that come in between; closing it
 * frees nothing then. It can't be used outside the graph any more. One thread at a time.
 *
 * Errors: as [method@GraphDefinition.add_empty]; `INVALID_ARGUMENT` for no buffer, a view, or memory that the graph did not
 * allocate; `INVALID_VALUE` if the graph frees it already.
 *
 * Returns: (transfer full): the new node
 *
 * Since: 0.1
 */
GCudaGraphNode *
gcuda_graph_definition_add_free (GCudaGraphDefinition *self,
                                 GCudaGraphNode **dependencies,
                                 gsize n_dependencies,
                                 GCudaBuffer *buffer,
                                 GError **error)
{
  static const char what[] = "adding a free to a graph";
  GCudaAllocation *allocation;
  GCudaGraphNode *node;
  CUdeviceptr address;
  Addition addition;
  CUresult result;

  g_return_val_if_fail (GCUDA_IS_GRAPH_DEFINITION (self), NULL);

  if (!addition_begin (&addition, self, dependencies, n_dependencies, what, error))
    return NULL;
  allocation = _gcuda_buffer_hold (buffer, what, error);
  if (allocation == NULL)
    return addition_fail (&addition);
  address = _gcuda_allocation_get_address (allocation);
  if (!_gcuda_graph_memory_owns (addition.graph->memory, address))
    {
      _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: the graph did not allocate this memory", what);
      node = addition_fail (&addition);
    }
  else if (_gcuda_buffer_is_view (buffer))
    {
      _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: the buffer is a view of another, and a part of memory can't be freed", what);
      node = addition_fail (&addition);
    }
  else if (!addition_enter (&addition, what, error))
    {
      node = addition_fail (&addition);
    }
  else
    {
      result = _gcuda_driver.GraphAddMemFreeNode (&addition.node, addition.graph->handle, addition.dependencies, addition.n_dependencies, address);
      if (result == CUDA_SUCCESS)
        _gcuda_graph_memory_set_freed (address);
      node = addition_end (&addition, result, what, error);
    }
  _gcuda_allocation_unhold (allocation);
  return node;
}

#define MAX_BODIES 1024

/**
 * gcuda_graph_definition_add_conditional:
 * @self: a graph definition
 * @dependencies: (array length=n_dependencies): nodes that come before
 * @n_dependencies: how many
 * @kind: when bodies run
 * @default_value: the value that each launch starts with
 * @n_bodies: how many bodies: 1 or 2 for an if, 1 for a while, 1 or more for a switch
 * @error: return location for an error
 *
 * Adds a node that runs graphs within the graph, as a value says. Each launch sets it to @default_value; kernels that come
 * before, or run in a body, set it by way of [method@GraphNode.get_conditional_handle]. The bodies are empty:
 * [method@GraphNode.get_body] gives them, to add nodes to. One thread at a time.
 *
 * Errors: as [method@GraphDefinition.add_empty]; `INVALID_ARGUMENT` for another number of bodies; `NOT_SUPPORTED` where the
 * driver has no conditional nodes (before CUDA 12.3), or not this one.
 *
 * Returns: (transfer full): the new node
 *
 * Since: 0.1
 */
GCudaGraphNode *
gcuda_graph_definition_add_conditional (GCudaGraphDefinition *self,
                                        GCudaGraphNode **dependencies,
                                        gsize n_dependencies,
                                        GCudaGraphConditionalKind kind,
                                        guint default_value,
                                        guint n_bodies,
                                        GError **error)
{
  static const char what[] = "adding a conditional node to a graph";
  CUgraphConditionalHandle conditional = 0;
  CUgraphNodeParams parameters;
  GCudaGraphNode *node;
  Addition addition;
  CUresult result;

  g_return_val_if_fail (GCUDA_IS_GRAPH_DEFINITION (self), NULL);

  if (!addition_begin (&addition, self, dependencies, n_dependencies, what, error))
    return NULL;
  if ((guint) kind > GCUDA_GRAPH_CONDITIONAL_KIND_SWITCH || n_bodies == 0 || n_bodies > MAX_BODIES ||
      (kind == GCUDA_GRAPH_CONDITIONAL_KIND_IF && n_bodies > 2) || (kind == GCUDA_GRAPH_CONDITIONAL_KIND_WHILE && n_bodies > 1))
    {
      _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: there is no such node with %u bodies", what, n_bodies);
      return addition_fail (&addition);
    }
  if (!_gcuda_driver_has (GCUDA_DRIVER_GROUP_CONDITIONALS))
    {
      _gcuda_fail (error, GCUDA_ERROR_NOT_SUPPORTED, "%s: this driver has no cuGraphConditionalHandleCreate", what);
      return addition_fail (&addition);
    }
  if (!addition_enter (&addition, what, error))
    return addition_fail (&addition);
  memset (&parameters, 0, sizeof parameters);
  result = _gcuda_driver.GraphConditionalHandleCreate (&conditional, addition.graph->handle, addition.graph->context->handle, default_value, CU_GRAPH_COND_ASSIGN_DEFAULT);
  if (result == CUDA_SUCCESS)
    {
      parameters.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
      parameters.conditional.handle = conditional;
      /* The driver's kinds, in its order, which the enumeration has too. */
      parameters.conditional.type = (CUgraphConditionalNodeType) kind;
      parameters.conditional.size = n_bodies;
      parameters.conditional.ctx = addition.graph->context->handle;
      result = _gcuda_driver.GraphAddNode (&addition.node, addition.graph->handle, addition.dependencies, addition.n_dependencies, &parameters);
    }
  if (result != CUDA_SUCCESS)
    return addition_end (&addition, result, what, error);
  _gcuda_context_scope_leave (&addition.scope);
  node = _gcuda_graph_node_new_conditional (addition.graph, addition.node, conditional, parameters.conditional.phGraph_out, n_bodies);
  addition_clear (&addition);
  return node;
}
