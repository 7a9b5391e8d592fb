/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What graphs cost above the driver's own calls, in one run on one machine: each row times both in turns, and prints the medians,
 * their difference and their ratio. Not a test: nothing here passes or fails.
 */
#include "bench.h"

#include <gcudamem/gcudamem-cuda.h>

#define COUNT 500

static GCudaContext *context;
static GCudaStream *stream, *other_stream;
static GCudaStream *hidden_stream; /* its handle is never asked for: the library need not ask whether it is captured */
static GCudaBuffer *buffer, *second;
static GCudaGraphDefinition *definition;
static GCudaGraphNode *node;
static GCudaGraph *graph;
static CUstream raw_stream;
static CUgraph raw_graph;
static CUgraphExec raw_exec, raw_keeping_exec;
static CUgraphNode raw_node;
static CUcontext raw_context;

static CUresult (*fast_launch) (CUgraphExec, CUstream);
static CUresult (*fast_instantiate) (CUgraphExec *, CUgraph, unsigned long long);
static CUresult (*fast_destroy) (CUgraphExec);
static CUresult (*fast_update) (CUgraphExec, CUgraphNode, const CUDA_MEMSET_NODE_PARAMS *, CUcontext);
static CUresult (*fast_fill) (CUdeviceptr, unsigned char, size_t, CUstream);

static void
must (CUresult result)
{
  if (result != CUDA_SUCCESS)
    g_error ("the driver answers %d", (int) result);
}

static void
settle (void)
{
  gcuda_stream_synchronize (stream, NULL);
  gcuda_stream_synchronize (other_stream, NULL);
  gcuda_stream_synchronize (hidden_stream, NULL);
  gcuda_reclaim (NULL, NULL);
}

static void
row (const char *name,
     Step raw,
     Step ours,
     const char *budget)
{
  compare_calls (name, COUNT, settle, raw, ours, budget);
}

static void CUDA_CB
ignore (void *data)
{
}

static void
raw_launch (void)
{
  fast_launch (raw_exec, raw_stream);
}

static void
raw_keeping_launch (void)
{
  fast_launch (raw_keeping_exec, raw_stream);
}

static void
launch (void)
{
  gcuda_graph_launch (graph, stream, NULL);
}

static void
hidden_launch (void)
{
  gcuda_graph_launch (graph, hidden_stream, NULL);
}

static void
launch_in_turns (void)
{
  static gboolean odd;

  odd = !odd;
  gcuda_graph_launch (graph, odd ? stream : other_stream, NULL);
}

static void
raw_instantiate (void)
{
  CUgraphExec exec;

  must (fast_instantiate (&exec, raw_graph, 0));
  must (fast_destroy (exec));
}

static void
instantiate (void)
{
  g_object_unref (gcuda_graph_definition_instantiate (definition, GCUDA_GRAPH_FLAGS_NONE, NULL, NULL));
}

static CUDA_MEMSET_NODE_PARAMS parameters = { .elementSize = 1, .width = 4096, .height = 1 };

static void
raw_update (void)
{
  must (fast_update (raw_exec, raw_node, &parameters, raw_context));
}

static void
update (void)
{
  static gboolean odd;

  odd = !odd;
  gcuda_graph_update_fill (graph, node, odd ? second : buffer, 0, 4096, 1, 1, NULL);
}

static void
raw_fill (void)
{
  fast_fill (gcuda_buffer_get_address (buffer), 1, 4096, raw_stream);
}

static void
fill (void)
{
  gcuda_buffer_fill (buffer, 1, 1, hidden_stream, NULL);
}

int
main (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaDriverInfo) info = gcuda_get_driver_info (&error);
  g_autoptr (GCudaDevice) device = NULL;
  g_autoptr (GCudaDeviceMemoryResource) pool = NULL;
  CUuserObject object;
  CUcontext popped;

  if (info == NULL)
    {
      g_print ("no CUDA driver: %s\n", error->message);
      return 0;
    }
  device = gcuda_device_new (0, &error);
  if (device == NULL)
    g_error ("%s", error->message);
  driver = dlopen (gcuda_driver_info_get_path (info), RTLD_NOW | RTLD_LOCAL);
  context = gcuda_device_get_primary_context (device, &error);
  stream = gcuda_stream_new (context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  other_stream = gcuda_stream_new (context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  hidden_stream = gcuda_stream_new (context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  raw_stream = gcuda_stream_get_cuda_stream (stream);
  gcuda_stream_get_handle (other_stream);
  pool = gcuda_device_memory_resource_new (device, &error);
  buffer = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (pool), 4096, stream, &error);
  second = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (pool), 4096, stream, &error);
  definition = gcuda_graph_definition_new (context, &error);
  if (definition == NULL)
    g_error ("%s", error->message);
  node = gcuda_graph_definition_add_fill (definition, NULL, 0, buffer, 0, 4096, 1, 1, &error);
  graph = gcuda_graph_definition_instantiate (definition, GCUDA_GRAPH_FLAGS_NONE, NULL, &error);
  if (graph == NULL)
    g_error ("%s", error->message);

  raw_context = gcuda_context_get_cuda_context (context);
  parameters.dst = gcuda_buffer_get_address (buffer);
  must (RAW (cuCtxPushCurrent) (raw_context));
  must (RAW (cuGraphCreate) (&raw_graph, 0));
  must (RAW (cuGraphAddMemsetNode) (&raw_node, raw_graph, NULL, 0, &parameters, raw_context));
  *(void **) &fast_launch = raw_function ("cuGraphLaunch");
  *(void **) &fast_instantiate = raw_function ("cuGraphInstantiateWithFlags");
  *(void **) &fast_destroy = raw_function ("cuGraphExecDestroy");
  *(void **) &fast_update = raw_function ("cuGraphExecMemsetNodeSetParams");
  *(void **) &fast_fill = raw_function ("cuMemsetD8Async");
  must (fast_instantiate (&raw_exec, raw_graph, 0));
  /* One that keeps something until its launches are done costs a driver more */
  must (RAW (cuUserObjectCreate) (&object, NULL, ignore, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  must (RAW (cuGraphRetainUserObject) (raw_graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
  must (fast_instantiate (&raw_keeping_exec, raw_graph, 0));
  must (RAW (cuGraphReleaseUserObject) (raw_graph, object, 1));

  g_print ("nanoseconds a call                                         raw      ours     above   ratio   budget\n");
  row ("launch, a stream whose handle others have", raw_launch, launch, "raw + 100");
  row ("launch, a stream that nobody else knows", raw_launch, hidden_launch, "raw + 100");
  row ("the same, beside raw with a user object", raw_keeping_launch, hidden_launch, "raw + 100");
  row ("launch, two streams in turns", raw_launch, launch_in_turns, "");
  row ("instantiate and destroy", raw_instantiate, instantiate, "");
  row ("update of a fill", raw_update, update, "");
  row ("fill outside of captures", raw_fill, fill, "raw + 60");

  settle ();
  must (RAW (cuGraphExecDestroy) (raw_exec));
  must (RAW (cuGraphExecDestroy) (raw_keeping_exec));
  must (RAW (cuGraphDestroy) (raw_graph));
  must (RAW (cuCtxPopCurrent) (&popped));
  g_clear_object (&graph);
  g_clear_object (&definition);
  g_clear_object (&node);
  g_clear_object (&buffer);
  g_clear_object (&second);
  settle ();
  g_clear_object (&stream);
  g_clear_object (&other_stream);
  g_clear_object (&hidden_stream);
  g_clear_object (&context);
  return 0;
}
