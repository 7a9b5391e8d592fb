/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Stream capture, and what captures forbid to everybody else. */

#include "sim-private.h"

static void
capture_end (SimCapture *capture)
{
  for (guint i = 0; i < capture->streams->len; i++)
    {
      SimStream *stream = g_ptr_array_index (capture->streams, i);

      stream->capture = NULL;
      g_ptr_array_set_size (stream->capture_deps, 0);
      sim_stream_unref (stream);
    }
  g_ptr_array_unref (capture->streams);
  g_hash_table_remove (sim.live_captures, GSIZE_TO_POINTER (capture->id));
  sim_graph_unref (capture->graph);
  g_free (capture);
}

void
sim_capture_invalidate (SimCapture *capture)
{
  capture->invalid = TRUE;
}

/* Calls that may break an unrelated capture in some thread, because in the real
 * driver they may synchronise. */
CUresult
sim_capture_check_unsafe (void)
{
  SimThread *thread = sim_thread ();
  CUresult result = CUDA_SUCCESS;
  GHashTableIter iter;
  gpointer value;

  if (g_hash_table_size (sim.live_captures) == 0 || thread->capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_SUCCESS;
  g_hash_table_iter_init (&iter, sim.live_captures);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    {
      SimCapture *capture = value;
      gboolean own = capture->thread == thread->id;

      /* One that is broken is in the way until it is ended. */
      if (capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        continue;
      if (own || (capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && thread->capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL))
        {
          sim_capture_invalidate (capture);
          result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
  return result;
}

/* The legacy stream would have to wait for a capturing one. */
CUresult
sim_capture_check_implicit (SimStream *stream, gboolean invalidate)
{
  CUresult result = CUDA_SUCCESS;

  if (stream->kind != SIM_STREAM_LEGACY || g_hash_table_size (sim.live_captures) == 0)
    return CUDA_SUCCESS;
  for (guint i = 0; i < stream->context->streams->len; i++)
    {
      SimStream *other = g_ptr_array_index (stream->context->streams, i);

      if (other->capture == NULL || other->capture->invalid || !other->blocking)
        continue;
      result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
      if (invalidate)
        sim_capture_invalidate (other->capture);
    }
  return result;
}

static CUgraphNodeType
node_type (SimWorkKind kind)
{
  switch (kind)
    {
    case SIM_WORK_SET:
      return CU_GRAPH_NODE_TYPE_MEMSET;
    case SIM_WORK_COPY:
      return CU_GRAPH_NODE_TYPE_MEMCPY;
    case SIM_WORK_HOST:
      return CU_GRAPH_NODE_TYPE_HOST;
    case SIM_WORK_RECORD:
      return CU_GRAPH_NODE_TYPE_EVENT_RECORD;
    case SIM_WORK_WAIT:
      return CU_GRAPH_NODE_TYPE_WAIT_EVENT;
    case SIM_WORK_ALLOC:
      return CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    case SIM_WORK_FREE:
      return CU_GRAPH_NODE_TYPE_MEM_FREE;
    case SIM_WORK_CHILD:
      return CU_GRAPH_NODE_TYPE_GRAPH;
    case SIM_WORK_CONDITIONAL:
      return CU_GRAPH_NODE_TYPE_CONDITIONAL;
    case SIM_WORK_WRITE_VALUE:
      return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    case SIM_WORK_EMPTY:
    case SIM_WORK_CALLBACK:
    case SIM_WORK_DESTRUCTOR:
    case SIM_WORK_FINISH:
    default:
      return CU_GRAPH_NODE_TYPE_EMPTY;
    }
}

/* WORK becomes a node. */
CUresult
sim_capture_work (SimStream *stream, SimWork *work)
{
  SimNode *node;

  if (stream->capture->invalid)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  node = sim_graph_add (stream->capture->graph, (SimNode **) stream->capture_deps->pdata, stream->capture_deps->len,
                        node_type (work->kind), work);
  node->context = sim_current_handle (sim_thread ());
  g_ptr_array_set_size (stream->capture_deps, 0);
  g_ptr_array_add (stream->capture_deps, node);
  return CUDA_SUCCESS;
}

gboolean
sim_capture_event_live (SimEvent *event, SimCapture **capture)
{
  *capture = g_hash_table_lookup (sim.live_captures, GSIZE_TO_POINTER (event->capture));
  return *capture != NULL;
}

CUresult
sim_capture_record (SimStream *stream, SimEvent *event, gboolean external)
{
  if (stream->capture->invalid)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (external)
    {
      SimWork work = { .kind = SIM_WORK_RECORD };

      work.event.event = sim_event_ref (event);
      work.event.external = TRUE;
      return sim_submit (stream, &work);
    }
  event->capture = stream->capture->id;
  if (event->capture_nodes == NULL)
    event->capture_nodes = g_ptr_array_new ();
  g_ptr_array_set_size (event->capture_nodes, 0);
  for (guint i = 0; i < stream->capture_deps->len; i++)
    g_ptr_array_add (event->capture_nodes, g_ptr_array_index (stream->capture_deps, i));
  return CUDA_SUCCESS;
}

static void
add_dep (SimStream *stream, SimNode *node)
{
  if (!g_ptr_array_find (stream->capture_deps, node, NULL))
    g_ptr_array_add (stream->capture_deps, node);
}

/* Either the stream captures, or the event was recorded in a capture. */
CUresult
sim_capture_wait (SimStream *stream, SimEvent *event, gboolean external)
{
  SimCapture *capture;

  if (event->capture != 0 && !external)
    {
      if (!sim_capture_event_live (event, &capture))
        return CUDA_ERROR_INVALID_VALUE;
      if (capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
      if (stream->kind == SIM_STREAM_LEGACY)
        {
          sim_capture_invalidate (capture);
          return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        }
      if (stream->capture == NULL)
        {
          stream->capture = capture;
          g_ptr_array_add (capture->streams, sim_stream_ref (stream));
        }
      else if (stream->capture != capture)
        {
          sim_capture_invalidate (capture);
          sim_capture_invalidate (stream->capture);
          return CUDA_ERROR_STREAM_CAPTURE_MERGE;
        }
      for (guint i = 0; i < event->capture_nodes->len; i++)
        add_dep (stream, g_ptr_array_index (event->capture_nodes, i));
      return CUDA_SUCCESS;
    }

  if (stream->capture == NULL)
    return CUDA_ERROR_ILLEGAL_STATE;
  if (stream->capture->invalid)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (external)
    {
      SimWork work = { .kind = SIM_WORK_WAIT };

      work.event.event = sim_event_ref (event);
      work.event.external = TRUE;
      return sim_submit (stream, &work);
    }
  if (event->record == NULL)
    return CUDA_SUCCESS;
  sim_capture_invalidate (stream->capture);
  return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
}

static void
mark_ancestors (SimNode *node, GHashTable *seen)
{
  GPtrArray *todo = g_ptr_array_new ();

  g_ptr_array_add (todo, node);
  while (todo->len > 0)
    {
      SimNode *next = g_ptr_array_remove_index_fast (todo, todo->len - 1);

      if (!g_hash_table_add (seen, next))
        continue;
      for (guint i = 0; i < next->deps->len; i++)
        g_ptr_array_add (todo, g_ptr_array_index (next->deps, i));
    }
  g_ptr_array_unref (todo);
}

/* Whether other streams of the capture went on behind all that STREAM captured. */
static gboolean
is_followed (SimCapture *capture, SimStream *stream)
{
  GHashTable *seen = g_hash_table_new (NULL, NULL);
  gboolean followed = TRUE;

  for (guint i = 0; i < capture->streams->len; i++)
    {
      SimStream *other = g_ptr_array_index (capture->streams, i);

      for (guint j = 0; other != stream && j < other->capture_deps->len; j++)
        mark_ancestors (g_ptr_array_index (other->capture_deps, j), seen);
    }
  for (guint i = 0; i < stream->capture_deps->len; i++)
    followed &= g_hash_table_contains (seen, g_ptr_array_index (stream->capture_deps, i));
  g_hash_table_unref (seen);
  return followed;
}

/* Destroyed, or its thread ended, while it captures. One that was joined is not missed; another is at the end. */
void
sim_capture_stream_gone (SimStream *stream)
{
  SimCapture *capture = stream->capture;

  if (capture == NULL)
    return;
  if (!is_followed (capture, stream))
    capture->unjoined = TRUE;
  if (capture->origin == stream)
    {
      sim_capture_invalidate (capture);
      if (capture->own_graph)
        sim_graph_release_handle (capture->graph);
      capture_end (capture);
      return;
    }
  stream->capture = NULL;
  g_ptr_array_set_size (stream->capture_deps, 0);
  g_ptr_array_remove (capture->streams, stream);
  sim_stream_unref (stream);
}

/* ---- entry points ---- */

static CUresult
begin (CUstream handle, SimGraph *graph, const CUgraphNode *deps, gsize n_deps, CUstreamCaptureMode mode)
{
  SimCapture *capture;
  SimStream *stream;

  SIM_TRY (sim_stream (handle, &stream));
  if ((guint) mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  if (stream->kind == SIM_STREAM_LEGACY)
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture != NULL)
    return CUDA_ERROR_ILLEGAL_STATE;
  for (gsize i = 0; i < n_deps; i++)
    {
      SimNode *node = sim_node (deps[i]);

      if (node == NULL || node->graph != graph)
        return CUDA_ERROR_INVALID_VALUE;
    }

  capture = g_new0 (SimCapture, 1);
  capture->id = sim_next_id ();
  capture->mode = mode;
  capture->thread = sim_thread ()->id;
  capture->origin = stream;
  capture->streams = g_ptr_array_new ();
  capture->own_graph = graph == NULL;
  capture->graph = sim_graph_ref (graph != NULL ? graph : sim_graph_new ());
  g_ptr_array_add (capture->streams, sim_stream_ref (stream));
  g_hash_table_insert (sim.live_captures, GSIZE_TO_POINTER (capture->id), capture);
  stream->capture = capture;
  for (gsize i = 0; i < n_deps; i++)
    add_dep (stream, sim_node (deps[i]));
  return CUDA_SUCCESS;
}

SIM_ENTRY_SZ (cuStreamBeginCapture, 0, (CUstream, hStream))
{
  return begin (hStream, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

SIM_ENTRY_SZ (cuStreamBeginCapture_v2, 0, (CUstream, hStream), (CUstreamCaptureMode, mode))
{
  return begin (hStream, NULL, NULL, 0, mode);
}

SIM_ENTRY_SZ (cuStreamBeginCaptureToGraph, 0, (CUstream, hStream), (CUgraph, hGraph), (const CUgraphNode *, dependencies), (const CUgraphEdgeData *, dependencyData), (size_t, numDependencies), (CUstreamCaptureMode, mode))
{
  SimGraph *graph = sim_graph (hGraph);

  (void) dependencyData;
  if (graph == NULL || (numDependencies > 0 && dependencies == NULL))
    return CUDA_ERROR_INVALID_VALUE;
  return begin (hStream, graph, dependencies, numDependencies, mode);
}

/* Whether all that forked off came back to the stream that began. */
static gboolean
is_joined (SimCapture *capture)
{
  GHashTable *seen = g_hash_table_new (NULL, NULL);
  gboolean joined = TRUE;

  for (guint i = 0; i < capture->origin->capture_deps->len; i++)
    mark_ancestors (g_ptr_array_index (capture->origin->capture_deps, i), seen);
  for (guint i = 0; i < capture->streams->len; i++)
    {
      SimStream *stream = g_ptr_array_index (capture->streams, i);

      for (guint j = 0; stream != capture->origin && j < stream->capture_deps->len; j++)
        joined &= g_hash_table_contains (seen, g_ptr_array_index (stream->capture_deps, j));
    }
  g_hash_table_unref (seen);
  return joined;
}

SIM_ENTRY_SZ (cuStreamEndCapture, 0, (CUstream, hStream), (CUgraph *, phGraph))
{
  CUresult result = CUDA_SUCCESS;
  SimCapture *capture;
  SimStream *stream;

  if (phGraph == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_stream (hStream, &stream));
  *phGraph = NULL;
  capture = stream->capture;
  if (capture == NULL)
    return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream)
    {
      sim_capture_invalidate (capture);
      return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
  /* It ends all the same. */
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != sim_thread ()->id)
    result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  else if (capture->invalid)
    result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  else if (capture->unjoined || !is_joined (capture))
    result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  if (result == CUDA_SUCCESS)
    *phGraph = capture->graph->handle;
  else if (capture->own_graph)
    sim_graph_release_handle (capture->graph);
  capture_end (capture);
  return result;
}

SIM_ENTRY_SZ (cuStreamIsCapturing, 0, (CUstream, hStream), (CUstreamCaptureStatus *, captureStatus))
{
  SimStream *stream;

  if (captureStatus == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_stream (hStream, &stream));
  SIM_TRY (sim_capture_check_implicit (stream, FALSE));
  *captureStatus = stream->capture == NULL    ? CU_STREAM_CAPTURE_STATUS_NONE
                   : stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                              : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return CUDA_SUCCESS;
}

static CUresult
get_info (CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **deps, const CUgraphEdgeData **edges, size_t *n_deps)
{
  SimStream *stream;

  if (status == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  SIM_TRY (sim_stream (handle, &stream));
  SIM_TRY (sim_capture_check_implicit (stream, FALSE));
  if (stream->capture == NULL || stream->capture->invalid)
    {
      *status = stream->capture == NULL ? CU_STREAM_CAPTURE_STATUS_NONE : CU_STREAM_CAPTURE_STATUS_INVALIDATED;
      return CUDA_SUCCESS;
    }
  *status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (id != NULL)
    *id = stream->capture->id;
  if (graph != NULL)
    *graph = stream->capture->graph->handle;
  if (edges != NULL)
    *edges = NULL;
  if (n_deps != NULL)
    *n_deps = stream->capture_deps->len;
  if (deps != NULL)
    {
      if (stream->capture_handles == NULL)
        stream->capture_handles = g_array_new (FALSE, TRUE, sizeof (CUgraphNode));
      g_array_set_size (stream->capture_handles, 0);
      for (guint i = 0; i < stream->capture_deps->len; i++)
        g_array_append_val (stream->capture_handles, ((SimNode *) g_ptr_array_index (stream->capture_deps, i))->handle);
      *deps = stream->capture_deps->len > 0 ? (const CUgraphNode *) (gpointer) stream->capture_handles->data : NULL;
    }
  return CUDA_SUCCESS;
}

SIM_ENTRY_SZ (cuStreamGetCaptureInfo, 0, (CUstream, hStream), (CUstreamCaptureStatus *, captureStatus_out), (cuuint64_t *, id_out))
{
  return get_info (hStream, captureStatus_out, id_out, NULL, NULL, NULL, NULL);
}

SIM_ENTRY_SZ (cuStreamGetCaptureInfo_v2, 0, (CUstream, hStream), (CUstreamCaptureStatus *, captureStatus_out), (cuuint64_t *, id_out), (CUgraph *, graph_out), (const CUgraphNode **, dependencies_out), (size_t *, numDependencies_out))
{
  return get_info (hStream, captureStatus_out, id_out, graph_out, dependencies_out, NULL, numDependencies_out);
}

SIM_ENTRY_SZ (cuStreamGetCaptureInfo_v3, 0, (CUstream, hStream), (CUstreamCaptureStatus *, captureStatus_out), (cuuint64_t *, id_out), (CUgraph *, graph_out), (const CUgraphNode **, dependencies_out), (const CUgraphEdgeData **, edgeData_out), (size_t *, numDependencies_out))
{
  return get_info (hStream, captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out, numDependencies_out);
}

static CUresult
update_dependencies (CUstream handle, CUgraphNode *deps, gsize n_deps, unsigned int flags)
{
  SimStream *stream;

  SIM_TRY (sim_stream (handle, &stream));
  if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (n_deps > 0 && deps == NULL))
    return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture == NULL)
    return CUDA_ERROR_ILLEGAL_STATE;
  if (stream->capture->invalid)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  for (gsize i = 0; i < n_deps; i++)
    {
      SimNode *node = sim_node (deps[i]);

      if (node == NULL || node->graph != stream->capture->graph)
        return CUDA_ERROR_INVALID_VALUE;
    }
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
    g_ptr_array_set_size (stream->capture_deps, 0);
  for (gsize i = 0; i < n_deps; i++)
    add_dep (stream, sim_node (deps[i]));
  return CUDA_SUCCESS;
}

SIM_ENTRY_SZ (cuStreamUpdateCaptureDependencies, 0, (CUstream, hStream), (CUgraphNode *, dependencies), (size_t, numDependencies), (unsigned int, flags))
{
  return update_dependencies (hStream, dependencies, numDependencies, flags);
}

SIM_ENTRY_SZ (cuStreamUpdateCaptureDependencies_v2, 0, (CUstream, hStream), (CUgraphNode *, dependencies), (const CUgraphEdgeData *, dependencyData), (size_t, numDependencies), (unsigned int, flags))
{
  (void) dependencyData;
  return update_dependencies (hStream, dependencies, numDependencies, flags);
}

SIM_ENTRY (cuThreadExchangeStreamCaptureMode, 0, (CUstreamCaptureMode *, mode))
{
  SimThread *thread = sim_thread ();
  CUstreamCaptureMode old = thread->capture_mode;

  if (mode == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  thread->capture_mode = *mode;
  *mode = old;
  return CUDA_SUCCESS;
}
