/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-graph-builder.h"

#include "gcuda-graph-private.h"

/* A capture, which a builder and the ones that were forked from it share. */
typedef struct
{
  GCudaReclaimNode node;        /* of the end that another thread has to make: whoever takes it from its home does */
  GCudaReclaimNode stream_node; /* waits meanwhile until it can end with the stream, of which there is a reference for that */
  GCudaStreamBox *stream;
  gint refs;
  gint dropped;
  GCudaGraphBox *graph;   /* until a definition has it */
  GCudaStreamBox *origin; /* in use, while it goes on */
  cuuint64_t id;
  GCudaCaptureMode mode;
  guint64 thread;    /* that began */
  GCudaHome *home;   /* of that thread, where only it can end the capture */
  gboolean adds;     /* to a graph that was there before, and stays */
  gboolean blocking; /* the legacy default stream would wait for it */
  gint over;
  gint n_forked;              /* and not joined */
  GObject *definition;        /* that it adds to, until it is over */
  GCudaHome *definition_home; /* where that is dropped */
  GPtrArray *functions;       /* of the builder that began, without a reference to it */
} Capture;

/**
 * GCudaGraphBuilder:
 *
 * A stream in capture: work that is put into it is not done, but becomes a graph.
 *
 * A builder can be used wherever a stream can: fills, copies and uploads become nodes, so do host functions; events recorded
 * and waited for make the graph's dependencies; [class@GraphMemoryResource] allocates memory of the graph, and closing such a
 * buffer frees it there. What would have to wait for the stream is refused, with `CAPTURING`, and the capture goes on.
 *
 * The graph keeps the memory of the buffers that are used in it. A buffer that is released on the builder, by its recipe, and
 * was not allocated in this capture, is freed after the capture.
 *
 * [method@GraphBuilder.finish] ends the capture and gives the graph. Closing or dropping the builder before that abandons it.
 * Where the mode of the capture lets only the thread end it that began it, and another one drops the builder, the capture ends
 * with the builder's stream. A capture of a stream that others have, also in the recipe of a buffer, is broken then, and ended
 * by that thread: by its main loop, by [func@reclaim] there, or when that thread makes the next builder; or with the stream, once
 * nothing else has that. Until then it is in the way of what its mode forbids to others.
 *
 * Work may be put into a builder from any thread.
 *
 * Since: 0.1
 */
struct _GCudaGraphBuilder
{
  GCudaStream parent_instance;

  Capture *capture; /* NULL for an object made by bare new; else to the end */
  gboolean forked;
};

struct _GCudaGraphBuilderClass
{
  GCudaStreamClass parent_class;
};

G_DEFINE_TYPE (GCudaGraphBuilder, gcuda_graph_builder, GCUDA_TYPE_STREAM)

static void
capture_unref (Capture *self)
{
  if (!g_atomic_int_dec_and_test (&self->refs))
    return;
  g_clear_pointer (&self->home, _gcuda_home_unref);
  g_clear_pointer (&self->functions, g_ptr_array_unref);
  g_clear_pointer (&self->graph, _gcuda_graph_box_unref);
  g_free (self);
}

static Capture *
capture_ref (Capture *self)
{
  g_atomic_int_inc (&self->refs);
  return self;
}

/* Whether the calling thread may end it. */
static gboolean
capture_is_ours (Capture *self)
{
  return (self->mode == GCUDA_CAPTURE_MODE_RELAXED && self->origin->kind != GCUDA_STREAM_PER_THREAD) || self->thread == _gcuda_thread_id ();
}

/* The library knows nothing of it any more. */
static void
capture_forget (Capture *self)
{
  if (self->blocking)
    g_atomic_int_add (&self->graph->context->blocking_captures, -1);
  _gcuda_capture_unregister (self->id);
  if (!self->adds)
    _gcuda_graph_memory_end_capture (self->graph->memory);
}

/* What was captured goes with it. */
static void
capture_drop (Capture *self)
{
  g_clear_pointer (&self->functions, g_ptr_array_unref);
  if (!self->adds)
    _gcuda_graph_box_close (self->graph);
  /* A builder that is kept keeps no graph, which may have functions that keep the builder. */
  g_clear_pointer (&self->graph, _gcuda_graph_box_unref);
  /* On another thread it may be a script's. */
  if (self->definition != NULL && self->thread != _gcuda_thread_id ())
    _gcuda_home_drop (g_steal_pointer (&self->definition_home), g_steal_pointer (&self->definition));
  g_clear_pointer (&self->definition_home, _gcuda_home_unref);
  g_clear_object (&self->definition);
  _gcuda_stream_box_unuse (g_steal_pointer (&self->origin));
  g_atomic_int_set (&self->dropped, TRUE);
  capture_unref (self);
}

/* Ends one that nobody wants, in a teardown. */
static GCudaReclaimResult
capture_abandon (GCudaReclaimNode *node)
{
  Capture *self = (Capture *) node;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  GCudaContextScope scope = { FALSE };
  CUgraph graph = NULL;
  CUresult result = CUDA_SUCCESS;

  if (_gcuda_context_box_is_alive (self->origin->context))
    {
      if (_gcuda_stream_box_is_default (self->origin))
        result = _gcuda_context_scope_enter (&scope, self->origin->context->handle);
      if (result == CUDA_SUCCESS)
        result = _gcuda_driver.StreamEndCapture (self->origin->handle, &graph);
      /* Once more if it failed without an end. */
      if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_PERMITTED &&
          _gcuda_driver.StreamIsCapturing (self->origin->handle, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE)
        _gcuda_driver.StreamEndCapture (self->origin->handle, &graph);
      _gcuda_context_scope_leave (&scope);
    }
  if (result == CUDA_ERROR_NOT_PERMITTED)
    return GCUDA_RECLAIM_AGAIN;
  capture_forget (self);
  if (!self->adds)
    {
      self->graph->owned = graph != NULL;
      self->graph->handle = graph;
    }
  capture_drop (self);
  return GCUDA_RECLAIM_DONE;
}

/* By the thread that began it, in its main loop or a call. */
static GCudaReclaimResult
capture_abandon_at_home (GCudaReclaimNode *node)
{
  GCudaTeardown teardown;

  if (!_gcuda_teardown_enter (&teardown))
    return GCUDA_RECLAIM_DONE; /* exiting */
  if (capture_abandon (node) != GCUDA_RECLAIM_DONE)
    _gcuda_home_push (((Capture *) node)->home, node, capture_abandon_at_home);
  _gcuda_teardown_leave (&teardown);
  return GCUDA_RECLAIM_DONE;
}

/* Whether nothing has the stream of a capture but so many uses. */
static gboolean
is_stream_left (GCudaStreamBox *box,
                gint uses)
{
  return box->kind == GCUDA_STREAM_CREATED && g_atomic_int_get (&box->uses) == uses && _gcuda_hazard_is_free (box);
}

static void
capture_end_with_stream (Capture *self)
{
  capture_forget (self);
  if (!self->adds)
    self->graph->handle = NULL;
  self->origin->ends_capture = TRUE;
  capture_drop (self);
}

/* On the reclaimer's thread. The thread that began it may have ended, and its home with it. */
static GCudaReclaimResult
capture_wait_for_stream (GCudaReclaimNode *node)
{
  Capture *self = (gpointer) ((char *) node - G_STRUCT_OFFSET (Capture, stream_node));

  if (!g_atomic_int_get (&self->dropped))
    {
      if (!is_stream_left (self->stream, 1) || !_gcuda_home_remove (self->home, &self->node))
        return GCUDA_RECLAIM_BLOCKED;
      capture_end_with_stream (self);
    }
  _gcuda_stream_box_unref (self->stream);
  capture_unref (self);
  return GCUDA_RECLAIM_DONE;
}

/* The one that abandons it. */
static void
capture_end_unwanted (Capture *self)
{
  GCudaTeardown teardown;

  if (!_gcuda_teardown_enter (&teardown))
    return;
  if (!self->adds)
    _gcuda_graph_memory_abandon (self->graph->memory);
  if (capture_is_ours (self))
    {
      GCudaHome *home = self->home;

      /* On a thread of the driver's: later, where it can be. */
      if (capture_abandon (&self->node) != GCUDA_RECLAIM_DONE)
        {
          if (home != NULL)
            _gcuda_home_push (home, &self->node, capture_abandon_at_home);
          else
            _gcuda_reclaimer_push (&self->node, capture_abandon);
        }
    }
  /* One is the builder's own. */
  else if (is_stream_left (self->origin, 2))
    capture_end_with_stream (self);
  else
    {
      /* Asking a stream in capture breaks that capture, though it is there until it is ended. */
      if (_gcuda_context_box_is_alive (self->origin->context) && !_gcuda_stream_box_is_default (self->origin))
        _gcuda_driver.StreamQuery (self->origin->handle);
      /* Whichever comes first, if that thread has not ended. */
      if (self->origin->kind == GCUDA_STREAM_CREATED)
        {
          capture_ref (self);
          self->stream = _gcuda_stream_box_ref (self->origin);
          _gcuda_reclaimer_push (&self->stream_node, capture_wait_for_stream);
        }
      _gcuda_home_push (self->home, &self->node, capture_abandon_at_home);
    }
  _gcuda_teardown_leave (&teardown);
}

static void
gcuda_graph_builder_ending (GCudaStream *stream)
{
  GCudaGraphBuilder *self = GCUDA_GRAPH_BUILDER (stream);

  if (self->capture == NULL || self->forked || !g_atomic_int_compare_and_exchange (&self->capture->over, FALSE, TRUE))
    return;
  capture_end_unwanted (capture_ref (self->capture));
}

static void
gcuda_graph_builder_captured_function (GCudaStream *stream,
                                       GCudaHostFunction *function)
{
  GCudaGraphBuilder *self = GCUDA_GRAPH_BUILDER (stream);

  if (self->capture == NULL || self->forked || self->capture->functions == NULL)
    return;
  _gcuda_host_function_set_target (function, NULL);
  g_ptr_array_add (self->capture->functions, _gcuda_host_function_ref (function));
}

static void
gcuda_graph_builder_finalize (GObject *object)
{
  GCudaGraphBuilder *self = GCUDA_GRAPH_BUILDER (object);

  g_clear_pointer (&self->capture, capture_unref);

  G_OBJECT_CLASS (gcuda_graph_builder_parent_class)->finalize (object);
}

static void
gcuda_graph_builder_class_init (GCudaGraphBuilderClass *klass)
{
  GCudaStreamClass *stream_class = (GCudaStreamClass *) klass;

  G_OBJECT_CLASS (klass)->finalize = gcuda_graph_builder_finalize;
  stream_class->closed = "the graph builder is finished or closed, and its capture over";
  stream_class->ending = gcuda_graph_builder_ending;
  stream_class->captured_function = gcuda_graph_builder_captured_function;
}

static void
gcuda_graph_builder_init (GCudaGraphBuilder *self)
{
}

static GCudaGraphBuilder *
new_for_box (GCudaStreamBox *box,
             GCudaContext *context,
             Capture *capture,
             gboolean forked)
{
  GCudaGraphBuilder *self = _gcuda_stream_new_of_type (GCUDA_TYPE_GRAPH_BUILDER, box, context);

  self->capture = capture;
  self->forked = forked;
  return self;
}

/* Begins a capture on a stream, whose box is in use: it takes that over on success. @into is a graph to add to, or NULL. */
static Capture *
capture_begin (GCudaStreamBox *box,
               GCudaGraphBox *into,
               GCudaCaptureMode mode,
               const char *what,
               GError **error)
{
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  GCudaContextScope scope = { FALSE };
  const gboolean blocking = box->blocking || box->kind == GCUDA_STREAM_PER_THREAD;
  CUgraph graph = NULL;
  cuuint64_t id = 0;
  CUresult result = CUDA_SUCCESS;
  Capture *self;

  if (_gcuda_stream_box_is_default (box))
    result = _gcuda_context_scope_enter (&scope, box->context->handle);
  if (result != CUDA_SUCCESS)
    {
      _gcuda_fail_driver (error, result, "%s: making the context of the default stream current", what);
      return NULL;
    }
  /* Teardowns that come now wait for the end of the capture; those that are at it are waited for, they are soon done. */
  if (blocking)
    {
      g_atomic_int_inc (&box->context->blocking_captures);
      while (g_atomic_int_get (&box->context->legacy_teardowns) > 0)
        g_thread_yield ();
    }
  _gcuda_stream_box_mark_before_capture (box);
  /* Before it can be: whoever sees the stream has to ask from now on. */
  g_atomic_int_set (&box->exposed, TRUE);
  result = into == NULL ? _gcuda_driver.StreamBeginCapture (box->handle, (CUstreamCaptureMode) mode)
                        : _gcuda_driver.StreamBeginCaptureToGraph (box->handle, into->handle, NULL, NULL, 0, (CUstreamCaptureMode) mode);
  if (result == CUDA_SUCCESS)
    {
      result = _gcuda_driver.StreamGetCaptureInfo (box->handle, &status, &id, &graph, NULL, NULL);
      if (result == CUDA_SUCCESS && (status != CU_STREAM_CAPTURE_STATUS_ACTIVE || graph == NULL))
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
      if (result != CUDA_SUCCESS)
        {
          CUgraph unwanted = NULL;

          if (_gcuda_driver.StreamEndCapture (box->handle, &unwanted) == CUDA_SUCCESS && unwanted != NULL && into == NULL)
            _gcuda_driver.GraphDestroy (unwanted);
        }
    }
  /* Whatever comes of that: the capture goes on. */
  _gcuda_context_scope_leave (&scope);
  if (result == CUDA_ERROR_ILLEGAL_STATE)
    _gcuda_fail (error, GCUDA_ERROR_CAPTURING, "%s: the stream is being captured already", what);
  else if (result != CUDA_SUCCESS)
    _gcuda_fail_driver (error, result, "%s", what);
  if (result != CUDA_SUCCESS)
    {
      if (blocking)
        g_atomic_int_add (&box->context->blocking_captures, -1);
      return NULL;
    }

  self = g_new0 (Capture, 1);
  self->blocking = blocking;
  self->refs = 1;
  self->adds = into != NULL;
  if (into != NULL)
    {
      self->graph = _gcuda_graph_box_ref (into);
    }
  else
    {
      _gcuda_context_box_use (box->context);
      self->graph = _gcuda_graph_box_new (graph, FALSE, box->context, id);
    }
  self->origin = box;
  self->id = id;
  self->mode = mode;
  self->thread = _gcuda_thread_id ();
  if (mode != GCUDA_CAPTURE_MODE_RELAXED || box->kind == GCUDA_STREAM_PER_THREAD)
    self->home = _gcuda_home_new ();
  self->functions = g_ptr_array_new_with_free_func ((GDestroyNotify) _gcuda_host_function_unref);
  _gcuda_capture_register (id, self->graph->keepers);
  return self;
}

static gboolean
check_mode (GCudaCaptureMode mode,
            const char *what,
            GError **error)
{
  if ((guint) mode > GCUDA_CAPTURE_MODE_RELAXED)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: there is no capture mode %u", what, (guint) mode);
  return _gcuda_graphs_check (what, error);
}

/**
 * gcuda_graph_builder_new:
 * @context: a context
 * @mode: what the capture forbids
 * @error: return location for an error
 *
 * Makes a builder on a stream of its own, a non-blocking one of the context, and begins to capture. Any thread; the mode may
 * bind the capture to this one.
 *
 * Errors: `INVALID_ARGUMENT` for no context or an unknown mode; `CLOSED`; `NOT_SUPPORTED`; `FORKED`; what the driver answers.
 *
 * Returns: (transfer full): a new builder
 *
 * Since: 0.1
 */
GCudaGraphBuilder *
gcuda_graph_builder_new (GCudaContext *context,
                         GCudaCaptureMode mode,
                         GError **error)
{
  g_autoptr (GCudaStream) stream = NULL;

  if (!check_mode (mode, "beginning to capture a graph", error))
    return NULL;
  stream = gcuda_stream_new (context, GCUDA_STREAM_FLAGS_NONE, 0, error);
  return stream != NULL ? gcuda_graph_builder_new_for_stream (stream, mode, error) : NULL;
}

/**
 * gcuda_graph_builder_new_for_stream:
 * @stream: a stream
 * @mode: what the capture forbids
 * @error: return location for an error
 *
 * Makes a builder that captures a stream: until the builder ends, work that is put into @stream becomes a part of the graph
 * too. What is in it already is not touched. Any thread; the mode may bind the capture to this one, and a per-thread default
 * stream does.
 *
 * Errors: `INVALID_ARGUMENT` for no stream, the legacy default stream, which can't be captured, or an unknown mode;
 * `CAPTURING` for a stream that is being captured; `CLOSED`; `NOT_SUPPORTED`; `FORKED`; what the driver answers.
 *
 * Returns: (transfer full): a new builder
 *
 * Since: 0.1
 */
GCudaGraphBuilder *
gcuda_graph_builder_new_for_stream (GCudaStream *stream,
                                    GCudaCaptureMode mode,
                                    GError **error)
{
  static const char what[] = "beginning to capture a graph";
  GCudaStreamBox *box;
  Capture *capture;

  if (!check_mode (mode, what, error))
    return NULL;
  box = _gcuda_stream_hold (stream, what, error);
  if (box == NULL)
    return NULL;
  /* What this thread still has to end may be a capture of this very stream. */
  _gcuda_homes_work_here ();
  if (box->kind == GCUDA_STREAM_LEGACY)
    _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: the legacy default stream can't be captured; take another one", what);
  else if ((capture = capture_begin (box, NULL, mode, what, error)) != NULL)
    {
      _gcuda_stream_box_use (box);
      return new_for_box (box, stream->context, capture, FALSE);
    }
  _gcuda_stream_box_unuse (box);
  return NULL;
}

/**
 * gcuda_graph_builder_new_for_definition:
 * @definition: a graph, such as the body of a conditional node
 * @mode: what the capture forbids
 * @error: return location for an error
 *
 * Makes a builder that adds to a graph, on a stream of its own. What it captures comes after nothing that is there already;
 * [method@GraphDefinition.add_dependency] can change that. The graph may be used by nothing else until the builder ends, and an
 * abandoned one leaves in it what it captured. The builder keeps @definition, and [method@GraphBuilder.finish] gives it back.
 * Any thread; the mode may bind the capture to this one.
 *
 * Errors: `INVALID_ARGUMENT` for no graph or an unknown mode; `NOT_SUPPORTED` before CUDA 12.3; `CLOSED`; `FORKED`; what the
 * driver answers.
 *
 * Returns: (transfer full): a new builder
 *
 * Since: 0.1
 */
GCudaGraphBuilder *
gcuda_graph_builder_new_for_definition (GCudaGraphDefinition *definition,
                                        GCudaCaptureMode mode,
                                        GError **error)
{
  static const char what[] = "beginning to capture into a graph";
  g_autoptr (GCudaGraphBox) graph = NULL;
  g_autoptr (GCudaContext) context = NULL;
  g_autoptr (GCudaStream) stream = NULL;
  GCudaDevice *device;
  GCudaStreamBox *box;
  Capture *capture;

  if (!check_mode (mode, what, error))
    return NULL;
  graph = _gcuda_graph_definition_hold (definition, what, error);
  if (graph == NULL)
    return NULL;
  if (!_gcuda_driver_has (GCUDA_DRIVER_GROUP_CONDITIONALS))
    {
      _gcuda_fail (error, GCUDA_ERROR_NOT_SUPPORTED, "%s: this driver has no cuStreamBeginCaptureToGraph", what);
      return NULL;
    }
  device = _gcuda_device_peek (graph->context->device, error);
  if (device == NULL)
    return NULL;
  _gcuda_context_box_use (graph->context);
  context = _gcuda_context_new_for_box (graph->context, device);
  stream = gcuda_stream_new (context, GCUDA_STREAM_FLAGS_NONE, 0, error);
  box = stream != NULL ? _gcuda_stream_hold (stream, what, error) : NULL;
  if (box == NULL)
    return NULL;
  _gcuda_homes_work_here ();
  capture = capture_begin (box, graph, mode, what, error);
  if (capture != NULL)
    {
      capture->definition = g_object_ref (G_OBJECT (definition));
      capture->definition_home = _gcuda_home_here ();
      _gcuda_stream_box_use (box);
      return new_for_box (box, context, capture, FALSE);
    }
  _gcuda_stream_box_unuse (box);
  return NULL;
}

/* The capture of a builder that is open; its box is in use by the call. */
static Capture *
builder_begin (GCudaGraphBuilder *self,
               GCudaStreamCall *call,
               const char *what,
               GError **error)
{
  if (!_gcuda_stream_call_begin (call, &self->parent_instance, what, error))
    return NULL;
  if (self->capture != NULL && !g_atomic_int_get (&self->capture->over))
    return self->capture;
  _gcuda_stream_call_end (call, CUDA_SUCCESS, what, NULL);
  _gcuda_fail (error, GCUDA_ERROR_CLOSED, "%s: the capture is over", what);
  return NULL;
}

/* Makes @to wait for what @from captured. */
static CUresult
depend (GCudaContextBox *context,
        CUstream from,
        CUstream to)
{
  GCudaContextScope scope;
  CUevent event;
  CUresult result;

  result = _gcuda_context_scope_enter (&scope, context->handle);
  if (result != CUDA_SUCCESS)
    return result;
  result = _gcuda_driver.EventCreate (&event, CU_EVENT_DISABLE_TIMING);
  if (result == CUDA_SUCCESS)
    {
      result = _gcuda_driver.EventRecord (event, from);
      if (result == CUDA_SUCCESS)
        result = _gcuda_driver.StreamWaitEvent (to, event, CU_EVENT_WAIT_DEFAULT);
      /* Once more if it fails: nothing else has it. */
      if (_gcuda_driver.EventDestroy (event) != CUDA_SUCCESS)
        _gcuda_driver.EventDestroy (event);
    }
  _gcuda_context_scope_leave (&scope);
  return result;
}

/**
 * gcuda_graph_builder_fork:
 * @self: a builder
 * @error: return location for an error
 *
 * Makes a second builder for the same graph, on a stream of its own: what is put into it comes after what is in @self now, and
 * beside what @self goes on with. It has to be joined, with [method@GraphBuilder.join], before the graph is finished. Any
 * thread.
 *
 * Errors: `CLOSED`; `FORKED`; what the driver answers.
 *
 * Returns: (transfer full): a new builder
 *
 * Since: 0.1
 */
GCudaGraphBuilder *
gcuda_graph_builder_fork (GCudaGraphBuilder *self,
                          GError **error)
{
  static const char what[] = "forking a graph builder";
  g_autoptr (GCudaStream) stream = NULL;
  GCudaGraphBuilder *forked = NULL;
  GCudaStreamCall call;
  GCudaStreamBox *box;
  Capture *capture;
  CUresult result;

  g_return_val_if_fail (GCUDA_IS_GRAPH_BUILDER (self), NULL);

  capture = builder_begin (self, &call, what, error);
  if (capture == NULL)
    return NULL;
  stream = gcuda_stream_new (self->parent_instance.context, GCUDA_STREAM_FLAGS_NONE, 0, error);
  box = stream != NULL ? _gcuda_stream_hold_unchecked (stream, what, error) : NULL;
  if (box == NULL)
    {
      _gcuda_stream_call_end (&call, CUDA_SUCCESS, what, NULL);
      return NULL;
    }
  g_atomic_int_set (&box->exposed, TRUE);
  result = depend (call.box->context, call.handle, box->handle);
  if (result == CUDA_SUCCESS)
    {
      g_atomic_int_inc (&capture->n_forked);
      forked = new_for_box (box, self->parent_instance.context, capture_ref (capture), TRUE);
      /* It is of no use without its capture. */
      forked->parent_instance.over = &capture->over;
    }
  else
    {
      _gcuda_stream_box_unuse (box);
    }
  _gcuda_stream_call_end (&call, result, what, forked != NULL ? NULL : error);
  return forked;
}

/**
 * gcuda_graph_builder_join:
 * @self: a builder
 * @other: a builder that was forked in the same capture
 * @error: return location for an error, or %NULL
 *
 * Makes what is put into @self from now on come after all that is in @other, and closes @other. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for no builder, one of another capture, the one that the capture began with, or @self; `CLOSED`;
 * `FORKED`; what the driver answers. Then both are as they were.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_graph_builder_join (GCudaGraphBuilder *self,
                          GCudaGraphBuilder *other,
                          GError **error)
{
  static const char what[] = "joining a graph builder";
  GCudaStreamCall call, other_call;
  Capture *capture;
  CUresult result;
  gboolean again;

  g_return_val_if_fail (GCUDA_IS_GRAPH_BUILDER (self), FALSE);

  if (!GCUDA_IS_GRAPH_BUILDER (other))
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: no builder was given", what);
  capture = builder_begin (self, &call, what, error);
  if (capture == NULL)
    return FALSE;
  if (builder_begin (other, &other_call, what, error) == NULL)
    {
      _gcuda_stream_call_end (&call, CUDA_SUCCESS, what, NULL);
      return FALSE;
    }
  if (other == self || !other->forked || other->capture != capture)
    {
      _gcuda_stream_call_end (&other_call, CUDA_SUCCESS, what, NULL);
      _gcuda_stream_call_end (&call, CUDA_SUCCESS, what, NULL);
      return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: %s", what,
                          other == self ? "it can't be joined with itself" : other->capture != capture ? "the other builder belongs to another capture"
                                                                                                       : "the other builder is the one that the capture began with, and was never forked");
    }
  /* No memory is freed in between: that would come behind the join. */
  _gcuda_graph_joins_lock ();
  again = other_call.box->joined != NULL;
  result = again ? CUDA_SUCCESS : depend (other_call.box->context, other_call.handle, call.handle);
  if (!again && result == CUDA_SUCCESS && _gcuda_stream_box_use (call.box))
    other_call.box->joined = call.box;
  _gcuda_graph_joins_unlock ();
  _gcuda_stream_call_end (&other_call, CUDA_SUCCESS, what, NULL);
  _gcuda_stream_call_end (&call, result, what, result == CUDA_SUCCESS ? NULL : error);
  if (again)
    return _gcuda_fail (error, GCUDA_ERROR_CLOSED, "%s: another thread joins the other builder", what);
  if (result != CUDA_SUCCESS)
    return FALSE;
  g_atomic_int_add (&capture->n_forked, -1);
  return gcuda_stream_close (&other->parent_instance, error);
}

/**
 * gcuda_graph_builder_finish:
 * @self: a builder
 * @error: return location for an error
 *
 * Ends the capture and closes the builder. The thread that began it has to do that, except in relaxed mode.
 *
 * Errors: `STREAM_CAPTURE_UNJOINED` for builders that were forked and not joined; `WRONG_THREAD`; `INVALID_ARGUMENT` for a
 * builder that was forked; `CLOSED`; `FORKED`: then the capture goes on. `STREAM_CAPTURE_INVALIDATED` where something broke the
 * capture, `CLOSED` where the definition was closed that it adds to, and what else the driver answers: then it is over, and the
 * builder is closed.
 *
 * Returns: (transfer full): the graph
 *
 * Since: 0.1
 */
GCudaGraphDefinition *
gcuda_graph_builder_finish (GCudaGraphBuilder *self,
                            GError **error)
{
  static const char what[] = "finishing a graph";
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  GCudaGraphDefinition *definition = NULL;
  g_autoptr (GPtrArray) functions = NULL;
  GCudaStreamCall call;
  CUgraph graph = NULL;
  Capture *capture;
  CUresult result;
  int unjoined;

  g_return_val_if_fail (GCUDA_IS_GRAPH_BUILDER (self), NULL);

  capture = builder_begin (self, &call, what, error);
  if (capture == NULL)
    return NULL;
  unjoined = g_atomic_int_get (&capture->n_forked);
  if (self->forked)
    _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: this builder was forked; the one that the capture began with finishes it", what);
  else if (!capture_is_ours (capture))
    _gcuda_fail (error, GCUDA_ERROR_WRONG_THREAD, "%s: only the thread that began the capture can end it, unless it is one in relaxed mode", what);
  else if (unjoined > 0)
    _gcuda_fail (error, GCUDA_ERROR_STREAM_CAPTURE_UNJOINED, "%s: %d of the builders that were forked are not joined", what, unjoined);
  else if (!g_atomic_int_compare_and_exchange (&capture->over, FALSE, TRUE))
    _gcuda_fail (error, GCUDA_ERROR_CLOSED, "%s: the capture is over", what);
  else
    {
      result = _gcuda_driver.StreamEndCapture (call.handle, &graph);
      if (result != CUDA_SUCCESS &&
          _gcuda_driver.StreamIsCapturing (call.handle, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE)
        {
          /* It failed without an end. */
          g_atomic_int_set (&capture->over, FALSE);
          _gcuda_stream_call_end (&call, result, what, error);
          return NULL;
        }
      capture_forget (capture);
      functions = g_steal_pointer (&capture->functions);
      if (result == CUDA_SUCCESS)
        {
          if (!capture->adds)
            {
              capture->graph->handle = graph;
              capture->graph->owned = TRUE;
            }
          /* There is no way back to the builder from the graph. */
          for (guint i = 0; i < functions->len; i++)
            _gcuda_host_function_set_target (g_ptr_array_index (functions, i), G_OBJECT (self));
          /* A builder that has finished keeps nothing, however long it is kept. */
          if (!capture->adds)
            definition = _gcuda_graph_definition_new_for_box (g_steal_pointer (&capture->graph));
        }
      else if (!capture->adds)
        {
          capture->graph->handle = NULL;
          _gcuda_graph_box_close (capture->graph);
        }
      g_clear_pointer (&capture->graph, _gcuda_graph_box_unref);
      if (capture->definition != NULL)
        {
          g_autoptr (GCudaGraphDefinition) again = GCUDA_GRAPH_DEFINITION (g_steal_pointer (&capture->definition));

          g_clear_pointer (&capture->definition_home, _gcuda_home_unref);
          if (result == CUDA_SUCCESS && gcuda_graph_definition_is_closed (again))
            _gcuda_fail (error, GCUDA_ERROR_CLOSED, "%s: the definition that the builder adds to was closed", what);
          else if (result == CUDA_SUCCESS)
            definition = g_steal_pointer (&again);
        }
      _gcuda_stream_box_unuse (g_steal_pointer (&capture->origin));
      _gcuda_stream_call_end (&call, result, what, result == CUDA_SUCCESS ? NULL : error);
      gcuda_stream_close (&self->parent_instance, NULL);
      return definition;
    }
  _gcuda_stream_call_end (&call, CUDA_SUCCESS, what, NULL);
  return NULL;
}

/* The nodes that come before what is captured next: valid until then. */
static CUresult
get_dependencies (GCudaStreamCall *call,
                  const CUgraphNode **dependencies,
                  size_t *n_dependencies)
{
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUgraph graph = NULL;
  cuuint64_t id;
  CUresult result;

  *dependencies = NULL;
  *n_dependencies = 0;
  result = _gcuda_driver.StreamGetCaptureInfo (call->handle, &status, &id, &graph, dependencies, n_dependencies);
  if (result == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  return result;
}

/**
 * gcuda_graph_builder_add_graph:
 * @self: a builder
 * @child: a graph
 * @error: return location for an error, or %NULL
 *
 * Puts a copy of a graph into the builder, as one node. Later changes of @child do not touch it. One thread at a time.
 *
 * Errors: `INVALID_ARGUMENT` for no graph, or the one that is added to; `NOT_SUPPORTED` for a graph that allocates or frees
 * memory; `CLOSED`; `FORKED`; what the driver answers.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_graph_builder_add_graph (GCudaGraphBuilder *self,
                               GCudaGraphDefinition *child,
                               GError **error)
{
  static const char what[] = "capturing a graph";
  g_autoptr (GCudaGraphBox) inner = NULL;
  const CUgraphNode *dependencies;
  GCudaStreamCall call;
  GCudaContextScope scope;
  CUgraphNode node;
  size_t n_dependencies;
  Capture *capture;
  CUresult result;

  g_return_val_if_fail (GCUDA_IS_GRAPH_BUILDER (self), FALSE);

  inner = _gcuda_graph_definition_hold (child, what, error);
  if (inner == NULL)
    return FALSE;
  if (_gcuda_graph_memory_is_used (inner->memory))
    return _gcuda_fail (error, GCUDA_ERROR_NOT_SUPPORTED, "%s: the inner graph allocates memory, and the driver allows that for the outermost graph only", what);
  capture = builder_begin (self, &call, what, error);
  if (capture == NULL)
    return FALSE;
  if (_gcuda_graph_box_contains (inner, capture->graph))
    {
      _gcuda_stream_call_end (&call, CUDA_SUCCESS, what, NULL);
      return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: it can't contain itself, or what it is a part of", what);
    }
  if (!_gcuda_graph_box_enter (capture->graph, &scope, what, error))
    {
      _gcuda_stream_call_end (&call, CUDA_SUCCESS, what, NULL);
      return FALSE;
    }
  result = get_dependencies (&call, &dependencies, &n_dependencies);
  if (result == CUDA_SUCCESS)
    result = _gcuda_graph_add_child (capture->graph, dependencies, n_dependencies, child, inner, &node);
  if (result == CUDA_SUCCESS)
    {
      result = _gcuda_driver.StreamUpdateCaptureDependencies (call.handle, &node, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES);
      if (result != CUDA_SUCCESS)
        _gcuda_graph_remove_node (capture->graph, node); /* nothing depends on it */
    }
  _gcuda_context_scope_leave (&scope);
  return _gcuda_stream_call_end (&call, result, what, error);
}

static gboolean
add_event (GCudaGraphBuilder *self,
           GCudaEvent *event,
           gboolean record,
           const char *what,
           GError **error)
{
  GCudaStreamCall call;
  GCudaEventBox *held;
  CUevent handle;
  CUresult result;

  held = _gcuda_event_hold (event, what, &handle, error);
  if (held == NULL)
    return FALSE;
  if (builder_begin (self, &call, what, error) == NULL)
    {
      _gcuda_event_drop (held);
      return FALSE;
    }
  if (!_gcuda_stream_call_find_capture (&call, what, error))
    {
      _gcuda_event_drop (held);
      _gcuda_stream_call_end (&call, CUDA_SUCCESS, what, NULL);
      return FALSE;
    }
  if (!_gcuda_stream_call_keep (&call, held, (GDestroyNotify) _gcuda_event_drop, what, error))
    {
      _gcuda_stream_call_end (&call, CUDA_SUCCESS, what, NULL);
      return FALSE;
    }
  if (record)
    result = _gcuda_driver.EventRecordWithFlags (handle, call.handle, CU_EVENT_RECORD_EXTERNAL);
  else
    result = _gcuda_driver.StreamWaitEvent (call.handle, handle, CU_EVENT_WAIT_EXTERNAL);
  if (result == CUDA_SUCCESS && record)
    _gcuda_event_set_recorded (event);
  return _gcuda_stream_call_end (&call, result, what, error);
}

/**
 * gcuda_graph_builder_add_event_record:
 * @self: a builder
 * @event: an event of the builder's context, which the graph keeps
 * @error: return location for an error, or %NULL
 *
 * Puts a node into the graph that records an event at each launch, for streams and threads outside to wait for.
 * [method@Event.record], on a builder, makes an order within the graph instead. One thread at a time.
 *
 * Errors: `INVALID_ARGUMENT` for no event; `CLOSED`; `FORKED`; what the driver answers.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_graph_builder_add_event_record (GCudaGraphBuilder *self,
                                      GCudaEvent *event,
                                      GError **error)
{
  g_return_val_if_fail (GCUDA_IS_GRAPH_BUILDER (self), FALSE);

  return add_event (self, event, TRUE, "capturing an event record", error);
}

/**
 * gcuda_graph_builder_add_event_wait:
 * @self: a builder
 * @event: an event, which the graph keeps
 * @error: return location for an error, or %NULL
 *
 * Puts a node into the graph that waits for an event's latest record, as that is at each launch. [method@Stream.wait_event], on
 * a builder, waits for an event of the capture instead. One thread at a time.
 *
 * Errors: as [method@GraphBuilder.add_event_record].
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_graph_builder_add_event_wait (GCudaGraphBuilder *self,
                                    GCudaEvent *event,
                                    GError **error)
{
  g_return_val_if_fail (GCUDA_IS_GRAPH_BUILDER (self), FALSE);

  return add_event (self, event, FALSE, "capturing an event wait", error);
}

/**
 * gcuda_graph_builder_get_last_node:
 * @self: a builder
 * @error: return location for an error
 *
 * The node that was put into this builder last, to name it for an update of the executable graph. Any thread.
 *
 * Errors: `NOT_FOUND` if there is none, or no single one, as after a join; `CLOSED`; `FORKED`; what the driver answers.
 *
 * Returns: (transfer full): the node
 *
 * Since: 0.1
 */
GCudaGraphNode *
gcuda_graph_builder_get_last_node (GCudaGraphBuilder *self,
                                   GError **error)
{
  static const char what[] = "getting the last node of a capture";
  const CUgraphNode *dependencies;
  GCudaGraphNode *node = NULL;
  GCudaStreamCall call;
  size_t n_dependencies;
  Capture *capture;
  CUresult result;

  g_return_val_if_fail (GCUDA_IS_GRAPH_BUILDER (self), NULL);

  capture = builder_begin (self, &call, what, error);
  if (capture == NULL)
    return NULL;
  result = get_dependencies (&call, &dependencies, &n_dependencies);
  if (result == CUDA_SUCCESS && n_dependencies == 1)
    node = _gcuda_graph_node_new (capture->graph, dependencies[0]);
  else if (result == CUDA_SUCCESS)
    _gcuda_fail (error, GCUDA_ERROR_NOT_FOUND, "%s: the next one would come after %u nodes, not one", what, (guint) n_dependencies);
  _gcuda_stream_call_end (&call, result, what, node != NULL || result == CUDA_SUCCESS ? NULL : error);
  return node;
}
