/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-graph-private.h"

/* The driver's executable graph. A reference keeps the struct, a use the driver's object; all uses together one reference. */
typedef struct
{
  GCudaReclaimNode node;
  gint refs;
  gint uses;
  CUgraphExec handle;
  GCudaContextBox *context; /* with a use */
  GCudaKeeperSet *keepers;  /* tied to a user object, which the executable graph and its launches have */
  GCudaGraphMemory *memory;
  gint exposed; /* others may launch it too */

  GMutex lock;
  GCudaStreamBox *last; /* of the latest launch, in use: the driver orders the launches of one graph */
  guint64 last_thread;
} ExecBox;

/**
 * GCudaGraph:
 *
 * An executable graph: work that was written down once and is launched many times, at the cost of one call.
 *
 * [method@GraphDefinition.instantiate] makes one. It keeps the memory of the buffers that its nodes use, and so do its
 * launches: the buffers may be closed, and the graph too, while a launch is under way. Launches of one graph come one after
 * the other, on whatever streams.
 *
 * Launching and closing may be done from any thread; launching, uploading and updating by one thread at a time, as the driver
 * does not guard graphs against two.
 *
 * Since: 0.1
 */
struct _GCudaGraph
{
  GObject parent_instance;

  ExecBox *exec; /* NULL for an object made by bare new; else to the end */
  GCudaGraphFlags flags;
  gint closed;
};

G_DEFINE_FINAL_TYPE (GCudaGraph, gcuda_graph, G_TYPE_OBJECT)

enum
{
  PROP_0,
  PROP_FLAGS,
  PROP_HANDLE,
  PROP_CLOSED,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

static void
exec_unref (ExecBox *self)
{
  if (!g_atomic_int_dec_and_test (&self->refs))
    return;
  g_mutex_clear (&self->lock);
  g_free (self);
}

/* FALSE on a thread of the driver's, where nothing was done. */
static gboolean
exec_destroy (ExecBox *self)
{
  CUresult result = CUDA_SUCCESS;
  GCudaKeeper *kept = NULL;

  if (_gcuda_context_box_is_alive (self->context))
    result = _gcuda_driver.GraphExecDestroy (self->handle);
  else
    /* No launch is under way there, and nobody may ever hear of the end. */
    kept = _gcuda_keeper_set_exchange (self->keepers, NULL);
  if (result == CUDA_ERROR_NOT_PERMITTED)
    return FALSE;
  g_clear_pointer (&kept, _gcuda_keeper_unref);
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_DEINITIALIZED && !_gcuda_result_is_sticky (result))
    {
      g_autoptr (GError) error = NULL;

      _gcuda_fail_driver (&error, result, "destroying an executable graph of device %d", (int) self->context->device);
      _gcuda_report_teardown (error, "cuGraphExecDestroy", (guint64) (guintptr) self->handle, 0);
    }
  _gcuda_keeper_set_unref (self->keepers);
  _gcuda_graph_memory_unref (self->memory);
  if (self->last != NULL)
    _gcuda_stream_box_unuse (self->last);
  _gcuda_context_box_unuse (self->context);
  exec_unref (self);
  return TRUE;
}

static GCudaReclaimResult
exec_destroy_later (GCudaReclaimNode *node)
{
  return exec_destroy ((ExecBox *) node) ? GCUDA_RECLAIM_DONE : GCUDA_RECLAIM_AGAIN;
}

static void
exec_unuse (ExecBox *self)
{
  GCudaTeardown teardown;

  if (!g_atomic_int_dec_and_test (&self->uses))
    return;
  /* Exiting, or a forked child: it all goes with the process. */
  if (!_gcuda_teardown_enter (&teardown))
    return;
  if (!exec_destroy (self))
    _gcuda_reclaimer_push (&self->node, exec_destroy_later);
  _gcuda_teardown_leave (&teardown);
}

static gboolean
end (GCudaGraph *self)
{
  if (self->exec == NULL || !g_atomic_int_compare_and_exchange (&self->closed, FALSE, TRUE))
    return FALSE;
  exec_unuse (self->exec);
  return TRUE;
}

static void
gcuda_graph_dispose (GObject *object)
{
  end (GCUDA_GRAPH (object));

  G_OBJECT_CLASS (gcuda_graph_parent_class)->dispose (object);
}

static void
gcuda_graph_finalize (GObject *object)
{
  GCudaGraph *self = GCUDA_GRAPH (object);

  g_clear_pointer (&self->exec, exec_unref);

  G_OBJECT_CLASS (gcuda_graph_parent_class)->finalize (object);
}

static void
gcuda_graph_get_property (GObject *object,
                          guint id,
                          GValue *value,
                          GParamSpec *pspec)
{
  GCudaGraph *self = GCUDA_GRAPH (object);

  switch (id)
    {
    case PROP_FLAGS:
      g_value_set_flags (value, self->flags);
      break;
    case PROP_HANDLE:
      g_value_set_uint64 (value, gcuda_graph_get_handle (self));
      break;
    case PROP_CLOSED:
      g_value_set_boolean (value, gcuda_graph_is_closed (self));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gcuda_graph_class_init (GCudaGraphClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;

  object_class->dispose = gcuda_graph_dispose;
  object_class->finalize = gcuda_graph_finalize;
  object_class->get_property = gcuda_graph_get_property;

  /**
   * GCudaGraph:flags: (getter get_flags)
   *
   * How the graph was made executable.
   *
   * Since: 0.1
   */
  properties[PROP_FLAGS] = g_param_spec_flags ("flags", NULL, NULL, GCUDA_TYPE_GRAPH_FLAGS, 0, flags);

  /**
   * GCudaGraph:handle: (getter get_handle)
   *
   * The `CUgraphExec`, as a number; 0 when closed.
   *
   * Since: 0.1
   */
  properties[PROP_HANDLE] = g_param_spec_uint64 ("handle", NULL, NULL, 0, G_MAXUINT64, 0, flags);

  /**
   * GCudaGraph:closed: (getter is_closed)
   *
   * Whether the graph was closed.
   *
   * Since: 0.1
   */
  properties[PROP_CLOSED] = g_param_spec_boolean ("closed", NULL, NULL, TRUE, flags);

  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
gcuda_graph_init (GCudaGraph *self)
{
}

static ExecBox *
hold_unchecked (GCudaGraph *self,
                const char *what,
                GError **error)
{
  ExecBox *exec = self->exec;
  gint uses;

  if (!_gcuda_driver_check (error))
    return NULL;
  uses = exec != NULL ? g_atomic_int_get (&exec->uses) : 0;
  while (uses > 0 && !g_atomic_int_compare_and_exchange_full (&exec->uses, uses, uses + 1, &uses))
    ;
  if (uses > 0 && !g_atomic_int_get (&self->closed))
    return exec;
  if (uses > 0)
    exec_unuse (exec);
  _gcuda_fail (error, GCUDA_ERROR_CLOSED, "%s: the graph is closed", what);
  return NULL;
}

static ExecBox *
hold (GCudaGraph *self,
      const char *what,
      GError **error)
{
  ExecBox *exec = hold_unchecked (self, what, error);

  if (exec == NULL || _gcuda_context_box_check (exec->context, error))
    return exec;
  g_prefix_error (error, "%s: ", what);
  exec_unuse (exec);
  return NULL;
}

/* Making one */

static const char *
instantiate_reason (CUgraphInstantiateResult reason)
{
  switch ((int) reason)
    {
    case CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE:
      return "; its structure is invalid, such as a cycle";
    case CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED:
      return "; a node does what the device can't launch by itself";
    case CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED:
      return "; its nodes belong to more than one context";
    default:
      return "";
    }
}

/* Makes the executable graph while the graph has the user object that keeps its things, and takes that away again. */
static CUresult
instantiate (GCudaGraphBox *graph,
             GCudaKeeperSet *keepers,
             CUDA_GRAPH_INSTANTIATE_PARAMS *parameters,
             CUgraphExec *handle)
{
  CUuserObject object;
  CUresult result;

  result = _gcuda_keeper_set_tie (keepers, &object);
  if (result != CUDA_SUCCESS)
    return result;
  result = _gcuda_driver.GraphRetainUserObject (graph->handle, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
  if (result != CUDA_SUCCESS)
    {
      _gcuda_driver.UserObjectRelease (object, 1);
      return result;
    }
  result = _gcuda_driver.GraphInstantiateWithParams (handle, graph->handle, parameters);
  /* Once more if it fails: else the graph keeps for this one what it has itself. */
  if (_gcuda_driver.GraphReleaseUserObject (graph->handle, object, 1) != CUDA_SUCCESS)
    _gcuda_driver.GraphReleaseUserObject (graph->handle, object, 1);
  return result;
}

GCudaGraph *
_gcuda_graph_new (GCudaGraphBox *graph,
                  GCudaGraphDefinition *definition,
                  GCudaGraphFlags flags,
                  GCudaStream *upload_stream,
                  GError **error)
{
  static const char what[] = "making a graph executable";
  CUDA_GRAPH_INSTANTIATE_PARAMS parameters = { 0 };
  GCudaKeeperSet *keepers;
  GCudaKeeper *tied;
  GCudaContextScope scope;
  GCudaStreamCall upload = { 0 };
  CUgraphExec handle = NULL;
  CUresult result, left;
  GCudaGraph *self;

  if ((flags & ~(GCUDA_GRAPH_FLAGS_AUTO_FREE_ON_LAUNCH | GCUDA_GRAPH_FLAGS_DEVICE_LAUNCH | GCUDA_GRAPH_FLAGS_NODE_PRIORITY)) != 0)
    {
      _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: unknown flags 0x%x", what, (guint) flags);
      return NULL;
    }
  parameters.flags = flags;
  if (upload_stream != NULL)
    {
      if (!_gcuda_stream_call_begin (&upload, upload_stream, what, error))
        return NULL;
      if (!_gcuda_stream_call_refuse_capture (&upload, what, error))
        {
          _gcuda_stream_call_end (&upload, CUDA_SUCCESS, what, NULL);
          return NULL;
        }
      parameters.flags |= CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
      parameters.hUploadStream = upload.handle;
    }
  if (!_gcuda_graph_box_enter (graph, &scope, what, error))
    {
      if (upload_stream != NULL)
        _gcuda_stream_call_end (&upload, CUDA_SUCCESS, what, NULL);
      return NULL;
    }
  keepers = _gcuda_keeper_set_copy (graph->keepers);
  tied = _gcuda_keeper_new ();
  _gcuda_graph_definition_tie (definition, tied);
  _gcuda_keeper_set_add (keepers, NULL, tied);
  result = instantiate (graph, keepers, &parameters, &handle);
  left = _gcuda_context_scope_leave (&scope);
  if (upload_stream != NULL)
    {
      CUresult upload_left = _gcuda_context_scope_leave (&upload.scope);

      if (left == CUDA_SUCCESS)
        left = upload_left;
      _gcuda_stream_call_end (&upload, CUDA_SUCCESS, what, NULL);
    }
  if (result != CUDA_SUCCESS)
    {
      const char *hint = result == CUDA_ERROR_NOT_SUPPORTED && _gcuda_graph_memory_is_used (graph->memory)
                           ? "; the graph allocates memory: another executable graph of it has to be closed first"
                           : instantiate_reason (parameters.result_out);

      _gcuda_fail_driver (error, result, "%s%s", what, hint);
    }
  else if (left != CUDA_SUCCESS)
    {
      _gcuda_driver.GraphExecDestroy (handle);
      _gcuda_fail_driver (error, left, "%s: restoring the current context", what);
    }
  if (result != CUDA_SUCCESS || left != CUDA_SUCCESS)
    {
      _gcuda_keeper_set_unref (keepers);
      return NULL;
    }
  self = g_object_new (GCUDA_TYPE_GRAPH, NULL);
  self->flags = flags;
  self->exec = g_new0 (ExecBox, 1);
  self->exec->refs = 2; /* this object's, and that of all uses */
  self->exec->uses = 1;
  self->exec->handle = handle;
  _gcuda_context_box_use (graph->context);
  self->exec->context = graph->context;
  self->exec->keepers = keepers;
  self->exec->memory = _gcuda_graph_memory_ref (graph->memory);
  g_mutex_init (&self->exec->lock);
  return self;
}

/**
 * gcuda_graph_close:
 * @self: a graph
 * @error: return location for an error, or %NULL
 *
 * Ends the graph. It waits for nothing: launches under way go on, and keep what they need. A graph that is closed already
 * stays so. Any thread.
 *
 * Returns: %TRUE
 *
 * Since: 0.1
 */
gboolean
gcuda_graph_close (GCudaGraph *self,
                   GError **error)
{
  g_return_val_if_fail (GCUDA_IS_GRAPH (self), FALSE);

  if (end (self))
    {
      /* A handler may drop what the caller holds. */
      g_object_ref (self);
      g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_CLOSED]);
      g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_HANDLE]);
      g_object_unref (self);
    }
  return TRUE;
}

/**
 * gcuda_graph_is_closed: (get-property closed)
 * @self: a graph
 *
 * Whether the graph was closed, or never was open. Any thread.
 *
 * Returns: whether it is closed
 *
 * Since: 0.1
 */
gboolean
gcuda_graph_is_closed (GCudaGraph *self)
{
  g_return_val_if_fail (GCUDA_IS_GRAPH (self), TRUE);

  return self->exec == NULL || g_atomic_int_get (&self->closed);
}

/**
 * gcuda_graph_get_flags: (get-property flags)
 * @self: a graph
 *
 * How the graph was made executable. Any thread.
 *
 * Returns: the flags
 *
 * Since: 0.1
 */
GCudaGraphFlags
gcuda_graph_get_flags (GCudaGraph *self)
{
  g_return_val_if_fail (GCUDA_IS_GRAPH (self), GCUDA_GRAPH_FLAGS_NONE);

  return self->flags;
}

/**
 * gcuda_graph_get_handle: (get-property handle)
 * @self: a graph
 *
 * The `CUgraphExec`, as a number, for other libraries. It is valid as long as @self is open. From here on an update lets go
 * what was used before when the graph is closed only: others may be launching it. Any thread.
 *
 * Returns: the handle; 0 when closed
 *
 * Since: 0.1
 */
guint64
gcuda_graph_get_handle (GCudaGraph *self)
{
  g_return_val_if_fail (GCUDA_IS_GRAPH (self), 0);

  if (gcuda_graph_is_closed (self))
    return 0;
  g_atomic_int_set (&self->exec->exposed, TRUE);
  return (guint64) (guintptr) self->exec->handle;
}

/* Launching */

static const char *
explain_launch (const GCudaStreamCall *call,
                CUresult result)
{
  const ExecBox *exec = call->touched[0];

  if (result != CUDA_ERROR_INVALID_VALUE || !_gcuda_graph_memory_is_used (exec->memory))
    return NULL;
  return "memory that its last launch allocated may not be freed yet: close the buffers of it first, or make the graph with GCUDA_GRAPH_FLAGS_AUTO_FREE_ON_LAUNCH";
}

static void
remember_stream (ExecBox *self,
                 GCudaStreamBox *box)
{
  const guint64 thread = box->kind == GCUDA_STREAM_PER_THREAD ? _gcuda_thread_id () : 0;
  GCudaStreamBox *old;

  if (G_LIKELY (g_atomic_pointer_get (&self->last) == box && self->last_thread == thread))
    return;
  _gcuda_stream_box_use (box);
  g_mutex_lock (&self->lock);
  old = self->last;
  g_atomic_pointer_set (&self->last, box);
  self->last_thread = thread;
  g_mutex_unlock (&self->lock);
  if (old != NULL)
    _gcuda_stream_box_unuse (old);
}

/**
 * gcuda_graph_launch:
 * @self: a graph
 * @stream: the stream whose order the launch keeps
 * @error: return location for an error, or %NULL
 *
 * Launches the graph: its work runs after all that is in @stream now and after the graph's launch before this one, and later
 * work of @stream after it. Waits for none of it, but a driver that has dozens of launches pending may wait until one of them
 * is done.
 *
 * Drivers capture no launches: a graph becomes a part of another as a definition ([method@GraphBuilder.add_graph]).
 *
 * Errors: `INVALID_ARGUMENT` for no stream; `CAPTURING`; `CLOSED`; `FORKED`; `INVALID_VALUE` while memory that the last launch
 * allocated is not freed; what the driver answers.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_graph_launch (GCudaGraph *self,
                    GCudaStream *stream,
                    GError **error)
{
  static const char what[] = "launching a graph";
  g_autoptr (GError) local = NULL;
  GCudaStreamCall call;
  ExecBox *exec;
  CUresult result;
  gboolean success;

  g_return_val_if_fail (GCUDA_IS_GRAPH (self), FALSE);

  exec = hold_unchecked (self, what, error);
  if (exec == NULL)
    return FALSE;
  if (!_gcuda_stream_call_begin (&call, stream, what, error))
    {
      exec_unuse (exec);
      return FALSE;
    }
  call.explain = explain_launch;
  call.touched[0] = exec;
  success = call.box->context == exec->context || _gcuda_context_box_check (exec->context, error);
  /* The driver would break the capture. */
  if (success && !_gcuda_stream_call_refuse_capture (&call, what, &local))
    {
      success = FALSE;
      if (g_error_matches (local, GCUDA_ERROR, GCUDA_ERROR_CAPTURING))
        _gcuda_fail (error, GCUDA_ERROR_CAPTURING, "%s; a definition becomes a part of what is captured by gcuda_graph_builder_add_graph ()", local->message);
      else
        g_propagate_error (error, g_steal_pointer (&local));
    }
  if (!success)
    {
      _gcuda_stream_call_end (&call, CUDA_SUCCESS, what, NULL);
      exec_unuse (exec);
      return FALSE;
    }
  result = _gcuda_driver.GraphLaunch (exec->handle, call.handle);
  if (result == CUDA_SUCCESS)
    {
      remember_stream (exec, call.box);
      _gcuda_graph_memory_launched (exec->memory, call.handle);
    }
  success = _gcuda_stream_call_end (&call, result, what, error);
  exec_unuse (exec);
  return success;
}

/**
 * gcuda_graph_upload:
 * @self: a graph
 * @stream: the stream that does it
 * @error: return location for an error, or %NULL
 *
 * Brings the graph to the device, so that the next launch need not. Blocks no thread.
 *
 * Errors: `INVALID_ARGUMENT` for no stream; `CAPTURING`; `CLOSED`; `FORKED`; what the driver answers.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_graph_upload (GCudaGraph *self,
                    GCudaStream *stream,
                    GError **error)
{
  static const char what[] = "uploading a graph";
  GCudaStreamCall call;
  ExecBox *exec;
  gboolean success = FALSE;

  g_return_val_if_fail (GCUDA_IS_GRAPH (self), FALSE);

  exec = hold (self, what, error);
  if (exec == NULL)
    return FALSE;
  if (_gcuda_stream_call_begin (&call, stream, what, error))
    {
      if (_gcuda_stream_call_refuse_capture (&call, what, error))
        success = _gcuda_stream_call_end (&call, _gcuda_driver.GraphUpload (exec->handle, call.handle), what, error);
      else
        _gcuda_stream_call_end (&call, CUDA_SUCCESS, what, NULL);
    }
  exec_unuse (exec);
  return success;
}

/* Updating */

/* The stream of the latest launch, in use; NULL if it was never launched, or nobody can wait there any more. */
static GCudaStreamBox *
hold_last (ExecBox *self,
           guint64 *thread)
{
  GCudaStreamBox *box;

  g_mutex_lock (&self->lock);
  box = self->last;
  *thread = self->last_thread;
  if (box != NULL)
    _gcuda_stream_box_use (box);
  g_mutex_unlock (&self->lock);
  if (box != NULL && !_gcuda_context_box_is_alive (box->context))
    {
      _gcuda_stream_box_unuse (box);
      box = NULL;
    }
  return box;
}

typedef struct
{
  ExecBox *exec;
  GCudaStreamBox *last;
  guint64 thread;
  GCudaContextScope scope;
} Update;

/* All that can fail, but for the driver's call. */
static gboolean
update_begin (Update *update,
              GCudaGraph *self,
              const char *what,
              GError **error)
{
  CUresult result;

  update->exec = hold (self, what, error);
  if (update->exec == NULL)
    return FALSE;
  update->last = hold_last (update->exec, &update->thread);
  if (update->last == NULL || _gcuda_keeper_reserve (update->last, error))
    {
      result = _gcuda_context_scope_enter (&update->scope, update->exec->context->handle);
      if (result == CUDA_SUCCESS)
        return TRUE;
      _gcuda_fail_driver (error, result, "%s: making the context of the graph current", what);
    }
  if (update->last != NULL)
    _gcuda_stream_box_unuse (update->last);
  exec_unuse (update->exec);
  return FALSE;
}

/* Launches that are under way may use what the graph has no use for any more. */
static void
update_end (Update *update,
            GCudaKeeper *old)
{
  /* Whatever comes of that: what was updated is. */
  _gcuda_context_scope_leave (&update->scope);
  if (old != NULL && g_atomic_int_get (&update->exec->exposed))
    {
      _gcuda_keeper_set_add (update->exec->keepers, NULL, old);
    }
  else if (old != NULL)
    {
      if (update->last != NULL)
        _gcuda_keeper_unref_after (old, update->last, update->thread);
      else
        _gcuda_keeper_unref (old);
    }
  if (update->last != NULL)
    _gcuda_stream_box_unuse (update->last);
  exec_unuse (update->exec);
}

static const char *
update_reason (CUgraphExecUpdateResult reason)
{
  switch ((int) reason)
    {
    case CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED:
      return "the graphs have other nodes or dependencies";
    case CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED:
      return "a node does another kind of work";
    case CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED:
    case CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE:
      return "a kernel was replaced by one that can't take its place";
    case CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED:
      return "parameters of a node differ in what an update can't change";
    case CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED:
      return "a node is of a kind that can't be updated, such as an allocation";
    case CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED:
      return "attributes of a node differ in what an update can't change";
    default:
      return "the driver gives no reason";
    }
}

/* Where a node is in its graph's list, and what it is; free with g_free (). */
static char *
describe_node (GCudaGraphBox *graph,
               CUgraphNode node)
{
  g_autofree CUgraphNode *nodes = NULL;
  g_autoptr (GCudaGraphNode) object = NULL;
  g_autoptr (GEnumClass) klass = NULL;
  size_t n = 0, i = 0;

  if (node == NULL || _gcuda_driver.GraphGetNodes (graph->handle, NULL, &n) != CUDA_SUCCESS || n == 0)
    return g_strdup ("");
  nodes = g_new0 (CUgraphNode, n);
  if (_gcuda_driver.GraphGetNodes (graph->handle, nodes, &n) != CUDA_SUCCESS)
    return g_strdup ("");
  while (i < n && nodes[i] != node)
    i++;
  if (i == n)
    return g_strdup ("");
  object = _gcuda_graph_node_new (graph, node);
  klass = g_type_class_ref (GCUDA_TYPE_GRAPH_NODE_KIND);
  return g_strdup_printf (", at node %" G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT " (%s)", i, n,
                          g_enum_get_value (klass, (gint) gcuda_graph_node_get_kind (object))->value_nick);
}

/**
 * gcuda_graph_update:
 * @self: a graph
 * @definition: a graph of the same shape
 * @error: return location for an error, or %NULL
 *
 * Gives all nodes of the executable graph the parameters that those of another graph have, for the launches to come. It then
 * keeps what @definition keeps; what it kept before is let go once no launch uses it. Nodes go on to be named as in the
 * definition that the graph was made of. One thread at a time.
 *
 * Errors: `GRAPH_EXEC_UPDATE_FAILURE` if the graphs differ in more than that, with the reason and the place;
 * `INVALID_ARGUMENT` for no definition; `CLOSED`; `FORKED`; what the driver answers. Then the graph is as it was.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_graph_update (GCudaGraph *self,
                    GCudaGraphDefinition *definition,
                    GError **error)
{
  static const char what[] = "updating a graph";
  g_autoptr (GCudaGraphBox) graph = NULL;
  CUgraphExecUpdateResultInfo info = { 0 };
  GCudaKeeper *fresh;
  Update update;
  CUresult result;

  g_return_val_if_fail (GCUDA_IS_GRAPH (self), FALSE);

  graph = _gcuda_graph_definition_hold (definition, what, error);
  if (graph == NULL || !update_begin (&update, self, what, error))
    return FALSE;
  fresh = _gcuda_keeper_set_collect (graph->keepers);
  if (fresh != NULL)
    _gcuda_graph_definition_tie (definition, fresh);
  result = _gcuda_driver.GraphExecUpdate (update.exec->handle, graph->handle, &info);
  if (result == CUDA_SUCCESS)
    {
      update_end (&update, _gcuda_keeper_set_exchange (update.exec->keepers, fresh));
      return TRUE;
    }
  if (result == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE)
    {
      g_autofree char *place = describe_node (graph, info.errorNode);

      _gcuda_fail_driver (error, result, "%s: %s%s", what, update_reason (info.result), place);
    }
  else
    {
      _gcuda_fail_driver (error, result, "%s", what);
    }
  g_clear_pointer (&fresh, _gcuda_keeper_unref);
  update_end (&update, NULL);
  return FALSE;
}

/* The node, if it is of that kind. */
static CUgraphNode
check_node (GCudaGraphNode *node,
            GCudaGraphNodeKind kind,
            const char *name,
            const char *what,
            GError **error)
{
  CUgraphNode handle = _gcuda_graph_node_check (node, NULL, what, error);

  if (handle == NULL || gcuda_graph_node_get_kind (node) == kind)
    return handle;
  _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: the node is no %s", what, name);
  return NULL;
}

static gboolean
update_node (Update *update,
             CUgraphNode node,
             GCudaKeeper *keeper,
             CUresult result,
             const char *what,
             GError **error)
{
  if (result == CUDA_SUCCESS)
    {
      update_end (update, _gcuda_keeper_set_replace (update->exec->keepers, node, keeper));
      return TRUE;
    }
  _gcuda_keeper_unref (keeper);
  update_end (update, NULL);
  return _gcuda_fail_driver (error, result, "%s%s", what,
                             result == CUDA_ERROR_INVALID_VALUE ? ": the node may belong to another graph, or the change be one that an update can't make" : "");
}

/**
 * gcuda_graph_update_fill:
 * @self: a graph
 * @node: a fill, in the definition that the graph was made of
 * @buffer: a buffer
 * @offset: where to start, in bytes
 * @size: how many bytes, at least one pattern
 * @value: the pattern, in the machine's byte order
 * @width: how many bytes the pattern has: 1, 2 or 4
 * @error: return location for an error, or %NULL
 *
 * Makes a node of the executable graph fill something else, in the launches to come. The graph then keeps the memory of
 * @buffer; what the node used before is let go once no launch uses it, and if nothing else of the graph does: after
 * [method@Graph.update], with the next such update. The definition stays as it is. A captured fill of rows can't become another
 * shape (`INVALID_VALUE`). One thread at a time.
 *
 * Errors: `INVALID_ARGUMENT` for a node of another kind, or none, and as [method@Buffer.fill_range]; `CLOSED`; `FORKED`; what
 * the driver answers. Then the graph is as it was.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_graph_update_fill (GCudaGraph *self,
                         GCudaGraphNode *node,
                         GCudaBuffer *buffer,
                         guint64 offset,
                         guint64 size,
                         guint64 value,
                         guint width,
                         GError **error)
{
  static const char what[] = "updating a fill of a graph";
  CUDA_MEMSET_NODE_PARAMS parameters;
  g_autoptr (GCudaKeeper) keeper = _gcuda_keeper_new ();
  CUgraphNode handle;
  Update update;

  g_return_val_if_fail (GCUDA_IS_GRAPH (self), FALSE);

  handle = check_node (node, GCUDA_GRAPH_NODE_KIND_FILL, "fill", what, error);
  if (handle == NULL || !_gcuda_graph_fill_parameters (_gcuda_graph_node_get_graph (node), buffer, offset, size, value, width, what, &parameters, keeper, error))
    return FALSE;
  if (parameters.width == 0)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: a node can't fill nothing", what);
  if (!update_begin (&update, self, what, error))
    return FALSE;
  return update_node (&update, handle, g_steal_pointer (&keeper),
                      _gcuda_driver.GraphExecMemsetNodeSetParams (update.exec->handle, handle, &parameters, update.exec->context->handle), what, error);
}

/* An update may change neither how a node names the kinds of its memory nor whether it names a context, and a capture does both
 * in its own way: the context is the one that was current then, if any was. */
static CUresult
set_copy (ExecBox *exec,
          CUgraphNode node,
          const CUDA_MEMCPY3D *parameters)
{
  CUDA_MEMCPY3D before, changed = *parameters;
  CUresult result = _gcuda_driver.GraphMemcpyNodeGetParams (node, &before);

  if (result != CUDA_SUCCESS)
    return result;
  if (before.srcMemoryType == CU_MEMORYTYPE_UNIFIED && changed.srcMemoryType == CU_MEMORYTYPE_HOST)
    changed.srcDevice = (CUdeviceptr) (guintptr) changed.srcHost;
  if (before.srcMemoryType == CU_MEMORYTYPE_UNIFIED || (before.srcMemoryType == CU_MEMORYTYPE_DEVICE && changed.srcMemoryType == CU_MEMORYTYPE_UNIFIED))
    changed.srcMemoryType = before.srcMemoryType;
  if (before.dstMemoryType == CU_MEMORYTYPE_UNIFIED || (before.dstMemoryType == CU_MEMORYTYPE_DEVICE && changed.dstMemoryType == CU_MEMORYTYPE_UNIFIED))
    changed.dstMemoryType = before.dstMemoryType;
  result = _gcuda_driver.GraphExecMemcpyNodeSetParams (exec->handle, node, &changed, exec->context->handle);
  if (result == CUDA_ERROR_INVALID_VALUE)
    result = _gcuda_driver.GraphExecMemcpyNodeSetParams (exec->handle, node, &changed, NULL);
  return result;
}

static gboolean
update_copy (GCudaGraph *self,
             CUgraphNode handle,
             const CUDA_MEMCPY3D *parameters,
             GCudaKeeper *keeper,
             const char *what,
             GError **error)
{
  Update update;

  if (parameters->WidthInBytes == 0)
    {
      _gcuda_keeper_unref (keeper);
      return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: a node can't copy nothing", what);
    }
  if (!update_begin (&update, self, what, error))
    {
      _gcuda_keeper_unref (keeper);
      return FALSE;
    }
  return update_node (&update, handle, keeper, set_copy (update.exec, handle, parameters), what, error);
}

/**
 * gcuda_graph_update_copy:
 * @self: a graph
 * @node: a copy between buffers, in the definition that the graph was made of
 * @source: the buffer to copy from
 * @offset: where to start in @source, in bytes
 * @destination: the buffer to copy to
 * @destination_offset: where to start in @destination, in bytes
 * @size: how many bytes, at least 1
 * @error: return location for an error, or %NULL
 *
 * Makes a node of the executable graph copy something else, in the launches to come; see [method@Graph.update_fill]. One
 * thread at a time.
 *
 * Drivers can't change everything (`INVALID_VALUE`): what copied rows, as a captured [method@Buffer.copy_2d] does, stays as it is,
 * and a copy between buffers of a device may not become one from or to host memory, or the other way round.
 *
 * Errors: as there, and as [method@Buffer.copy_range].
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_graph_update_copy (GCudaGraph *self,
                         GCudaGraphNode *node,
                         GCudaBuffer *source,
                         guint64 offset,
                         GCudaBuffer *destination,
                         guint64 destination_offset,
                         guint64 size,
                         GError **error)
{
  static const char what[] = "updating a copy of a graph";
  CUDA_MEMCPY3D parameters;
  g_autoptr (GCudaKeeper) keeper = _gcuda_keeper_new ();
  CUgraphNode handle;

  g_return_val_if_fail (GCUDA_IS_GRAPH (self), FALSE);

  handle = check_node (node, GCUDA_GRAPH_NODE_KIND_COPY, "copy", what, error);
  if (handle == NULL || !_gcuda_graph_copy_parameters (_gcuda_graph_node_get_graph (node), source, offset, destination, destination_offset, size, what, &parameters, keeper, error))
    return FALSE;
  return update_copy (self, handle, &parameters, g_steal_pointer (&keeper), what, error);
}

/**
 * gcuda_graph_update_upload:
 * @self: a graph
 * @node: a copy from host data, in the definition that the graph was made of
 * @buffer: a buffer
 * @offset: where to put the data, in bytes
 * @bytes: the data, at least one byte
 * @error: return location for an error, or %NULL
 *
 * Makes a node of the executable graph upload something else, in the launches to come; see [method@Graph.update_fill]. One
 * thread at a time.
 *
 * Errors: as there, and as [method@Buffer.upload].
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_graph_update_upload (GCudaGraph *self,
                           GCudaGraphNode *node,
                           GCudaBuffer *buffer,
                           guint64 offset,
                           GBytes *bytes,
                           GError **error)
{
  static const char what[] = "updating an upload of a graph";
  CUDA_MEMCPY3D parameters;
  g_autoptr (GCudaKeeper) keeper = _gcuda_keeper_new ();
  CUgraphNode handle;

  g_return_val_if_fail (GCUDA_IS_GRAPH (self), FALSE);

  handle = check_node (node, GCUDA_GRAPH_NODE_KIND_COPY, "copy", what, error);
  if (handle == NULL || !_gcuda_graph_upload_parameters (_gcuda_graph_node_get_graph (node), buffer, offset, bytes, what, &parameters, keeper, error))
    return FALSE;
  return update_copy (self, handle, &parameters, g_steal_pointer (&keeper), what, error);
}

/**
 * gcuda_graph_update_host_function:
 * @self: a graph
 * @node: a host function, in the definition that the graph was made of
 * @func: (scope notified) (closure user_data) (destroy destroy): what to call
 * @user_data: data for @func
 * @destroy: called when @user_data is no longer needed
 * @error: return location for an error, or %NULL
 *
 * Makes a node of the executable graph call another function, in the launches to come, from the main context that is the
 * thread-default one now; see [method@Graph.update_fill] and [method@GraphDefinition.add_host_function]. On failure only
 * @destroy is called. One thread at a time.
 *
 * Bindings may tie the function to this object: a script keeps it until the launches are done that call the function.
 *
 * Errors: as [method@Graph.update_fill]; `INVALID_ARGUMENT` without a function.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_graph_update_host_function (GCudaGraph *self,
                                  GCudaGraphNode *node,
                                  GCudaStreamFunc func,
                                  gpointer user_data,
                                  GDestroyNotify destroy,
                                  GError **error)
{
  static const char what[] = "updating a host function of a graph";
  CUDA_HOST_NODE_PARAMS parameters = { 0 };
  GCudaHostFunction *function;
  GCudaKeeper *keeper;
  CUgraphNode handle = NULL;
  Update update;
  gboolean success = FALSE;

  g_return_val_if_fail (GCUDA_IS_GRAPH (self), FALSE);

  function = _gcuda_host_function_new (NULL, func, user_data, destroy);
  if (func == NULL)
    _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: no function was given", what);
  else
    handle = check_node (node, GCUDA_GRAPH_NODE_KIND_HOST_FUNCTION, "host function", what, error);
  if (handle != NULL && update_begin (&update, self, what, error))
    {
      keeper = _gcuda_keeper_new ();
      _gcuda_keeper_add (keeper, _gcuda_host_function_ref (function), (GDestroyNotify) _gcuda_host_function_unref);
      parameters.fn = _gcuda_host_function_reached;
      parameters.userData = function;
      success = update_node (&update, handle, keeper, _gcuda_driver.GraphExecHostNodeSetParams (update.exec->handle, handle, &parameters), what, error);
    }
  if (success)
    _gcuda_host_function_unref (function);
  else
    _gcuda_host_function_discard (function);
  return success;
}
