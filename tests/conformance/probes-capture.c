/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "probe.h"

#include <stdint.h>
#include <string.h>

void probe_cap_basic (void);
void probe_cap_legacy (void);
void probe_cap_merge (void);
void probe_graph_nodes (void);
void probe_graph_memory (void);
void probe_user_object (void);
void probe_user_object_over (void);
void probe_graph_keep (void);
void probe_copy_updates (void);
void probe_launch_captured (void);
void probe_instantiate_captured (void);
void probe_cap_end (void);

static CUdeviceptr memory;

static int
status_of (CUstream s)
{
  CUstreamCaptureStatus status = (CUstreamCaptureStatus) 99;

  C (cuStreamIsCapturing, s, &status);
  return (int) status;
}

static CUresult
fill (CUstream s)
{
  return C (cuMemsetD8Async, memory, 1, 16, s);
}

static CUresult
begin (CUstream s, int mode)
{
  return C (cuStreamBeginCapture_v2, s, (CUstreamCaptureMode) mode);
}

static int
nodes_of (CUgraph graph)
{
  size_t n = 0;

  C (cuGraphGetNodes, graph, NULL, &n);
  return (int) n;
}

/* Ends a capture: on success with the number of nodes, else whether there is a graph. */
static void
end (CUstream s, const char *what)
{
  CUgraph graph = NULL;
  CUresult r = C (cuStreamEndCapture, s, &graph);

  if (r == CUDA_SUCCESS)
    {
      ok (r, what, "nodes %d", nodes_of (graph));
      C (cuGraphDestroy, graph);
    }
  else
    always (r, what, "%s", graph == NULL ? "graph null" : "graph");
}

static CUresult
info (CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **deps, size_t *n)
{
  return ((CUresult (*) (CUstream, CUstreamCaptureStatus *, cuuint64_t *, CUgraph *, const CUgraphNode **, size_t *)) probe_symbol ("cuStreamGetCaptureInfo_v2")) (s, status, id, graph, deps, n);
}

static CUresult
update_deps (CUstream s, CUgraphNode *deps, size_t n, unsigned int flags)
{
  return ((CUresult (*) (CUstream, CUgraphNode *, size_t, unsigned int)) probe_symbol ("cuStreamUpdateCaptureDependencies")) (s, deps, n, flags);
}

void
probe_cap_basic (void)
{
  CUstreamCaptureStatus status = (CUstreamCaptureStatus) 99;
  CUstreamCaptureMode mode;
  const CUgraphNode *deps;
  CUgraph graph = NULL, own;
  cuuint64_t id = 0, again = 0;
  size_t n = 99;
  CUstream s;
  CUresult r;

  C (cuMemAlloc, &memory, 4096);
  C (cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
  say ("status before %d", status_of (s));
  r = info (s, &status, NULL, NULL, NULL, NULL);
  ok (r, "info before", "status %d", (int) status);
  only (C (cuStreamEndCapture, s, &graph), "end without begin");
  only (begin (s, 7), "begin mode 7");
  only (begin (NULL, 0), "begin on null");
  only (begin (CU_STREAM_LEGACY, 0), "begin on legacy");
  only (begin (CU_STREAM_PER_THREAD, 0), "begin on per-thread");
  say ("status per-thread %d", status_of (CU_STREAM_PER_THREAD));
  end (CU_STREAM_PER_THREAD, "end");
  only (begin (s, 0), "begin");
  say ("status %d", status_of (s));
  only (begin (s, 0), "begin again");
  say ("status after nested begin %d", status_of (s));
  r = info (s, &status, &id, &graph, &deps, &n);
  ok (r, "info, nothing captured", "status %d id non-zero %d graph %d dependencies %zu", (int) status, id != 0, graph != NULL, n);
  fill (s);
  fill (s);
  r = info (s, &status, &again, &graph, &deps, &n);
  ok (r, "info, two fills", "same id %d dependencies %zu nodes %d", again == id, n, nodes_of (graph));
  r = info (s, &status, NULL, NULL, NULL, NULL);
  ok (r, "info, edge data not asked, status only", "status %d", (int) status);
  only (update_deps (s, NULL, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES), "set dependencies to none");
  r = info (s, &status, &again, &graph, &deps, &n);
  ok (r, "info then", "dependencies %zu", n);
  only (update_deps (s, NULL, 0, 7), "update dependencies flags 7");
  end (s, "end");
  say ("status after end %d", status_of (s));
  only (update_deps (s, NULL, 0, 1), "update dependencies outside capture");
  only (C (cuStreamEndCapture, s, &graph), "end twice");
  begin (s, 0);
  end (s, "empty capture");
  C (cuGraphCreate, &own, 0);
  only (C (cuStreamBeginCaptureToGraph, s, own, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL), "begin to a graph");
  fill (s);
  r = C (cuStreamEndCapture, s, &graph);
  ok (r, "end", "same graph %d nodes %d", graph == own, nodes_of (own));
  mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  r = C (cuThreadExchangeStreamCaptureMode, &mode);
  ok (r, "exchange to relaxed", "was %d", (int) mode);
  mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  r = C (cuThreadExchangeStreamCaptureMode, &mode);
  ok (r, "exchange to thread-local", "was %d", (int) mode);
  mode = (CUstreamCaptureMode) 7;
  only (C (cuThreadExchangeStreamCaptureMode, &mode), "exchange to 7");
  mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  r = C (cuThreadExchangeStreamCaptureMode, &mode);
  ok (r, "exchange back", "was %d", (int) mode);
  begin (s, 0);
  only (C (cuStreamQuery, s), "query the capturing stream");
  say ("status after %d", status_of (s));
  only (fill (s), "work after");
  only (info (s, &status, NULL, NULL, NULL, NULL), "info after");
  end (s, "end");
  say ("status after end %d", status_of (s));
  only (fill (s), "work after end");
  only (C (cuStreamSynchronize, s), "synchronize");
}

void
probe_cap_legacy (void)
{
  static const char *const kinds[] = { "non-blocking stream", "blocking stream" };
  static const char *const modes[] = { "global", "thread-local", "relaxed" };
  static const char *const calls[] = { "memset on null", "capturing status of legacy", "record on legacy", "query of legacy", "memset on per-thread" };
  CUstreamCaptureStatus status;
  CUevent e;

  C (cuMemAlloc, &memory, 4096);
  C (cuEventCreate, &e, 0);
  for (int kind = 0; kind < 2; kind++)
    {
      for (int mode = 0; mode < 3; mode++)
        {
          /* Global is 0, thread-local 1, relaxed 2. */
          for (int call = 0; call < 5; call++)
            {
              char *what = g_strdup_printf ("%s, %s: %s", kinds[kind], modes[mode], calls[call]);
              CUgraph graph = NULL;
              CUstream s;
              CUresult r;

              C (cuStreamCreate, &s, kind == 0 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);
              begin (s, mode);
              fill (s);
              r = call == 0   ? fill (NULL)
                  : call == 1 ? C (cuStreamIsCapturing, CU_STREAM_LEGACY, &status)
                  : call == 2 ? C (cuEventRecord, e, CU_STREAM_LEGACY)
                  : call == 3 ? C (cuStreamQuery, CU_STREAM_LEGACY)
                              : fill (CU_STREAM_PER_THREAD);
              always (r, what, "status %d", status_of (s));
              g_free (what);
              r = C (cuStreamEndCapture, s, &graph);
              only (r, "end");
              if (graph != NULL)
                C (cuGraphDestroy, graph);
              C (cuCtxSynchronize, );
              C (cuStreamDestroy, s);
            }
        }
    }
}

void
probe_cap_merge (void)
{
  cuuint64_t a = 0, b = 0;
  CUstreamCaptureStatus status;
  CUstream s, t;
  CUevent e, f, outside, never;
  float ms;

  C (cuMemAlloc, &memory, 4096);
  C (cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
  C (cuStreamCreate, &t, CU_STREAM_NON_BLOCKING);
  C (cuEventCreate, &e, 0);
  C (cuEventCreate, &f, 0);
  C (cuEventCreate, &outside, 0);
  C (cuEventCreate, &never, 0);

  begin (s, 0);
  fill (s);
  only (C (cuEventRecord, e, s), "record in the capture");
  only (C (cuStreamWaitEvent, t, e, 0), "second stream waits");
  say ("status of second %d", status_of (t));
  info (s, &status, &a, NULL, NULL, NULL);
  info (t, &status, &b, NULL, NULL, NULL);
  say ("same capture %d", a == b);
  fill (t);
  C (cuEventRecord, f, t);
  only (C (cuStreamWaitEvent, s, f, 0), "first waits back");
  end (s, "end, joined");
  say ("status of second after %d", status_of (t));
  only (C (cuEventQuery, e), "query an event last recorded in the ended capture");
  only (C (cuEventSynchronize, e), "synchronize it");
  only (C (cuStreamWaitEvent, t, e, 0), "wait for it outside");
  say ("status then %d", status_of (t));
  only (C (cuEventElapsedTime, &ms, e, f), "elapsed with it");
  only (C (cuEventRecord, e, s), "record it outside");
  only (C (cuEventSynchronize, e), "synchronize it then");

  begin (s, 0);
  fill (s);
  C (cuEventRecord, e, s);
  C (cuStreamWaitEvent, t, e, 0);
  fill (t);
  {
    CUgraph graph = NULL;

    only (C (cuStreamEndCapture, t, &graph), "end of the second stream");
  }
  say ("status of first then %d", status_of (s));
  end (s, "end, fork not joined");
  say ("status of second %d", status_of (t));

  begin (s, 0);
  C (cuEventRecord, e, s);
  C (cuStreamWaitEvent, t, e, 0);
  end (s, "end, forked stream without work not joined");
  say ("status of second %d", status_of (t));

  begin (s, 2);
  fill (s);
  C (cuEventRecord, e, s);
  only (C (cuEventQuery, e), "query an event recorded in a live relaxed capture");
  say ("status %d", status_of (s));
  end (s, "end");
  begin (s, 2);
  fill (s);
  C (cuEventRecord, e, s);
  only (C (cuEventSynchronize, e), "synchronize an event recorded in a live capture");
  say ("status %d", status_of (s));
  end (s, "end");

  begin (s, 2);
  begin (t, 2);
  fill (s);
  fill (t);
  C (cuEventRecord, e, s);
  only (C (cuStreamWaitEvent, t, e, 0), "wait for an event of another capture");
  say ("statuses %d", status_of (s));
  say ("and %d", status_of (t));
  end (s, "end first");
  end (t, "end second");

  C (cuEventRecord, outside, t);
  C (cuStreamSynchronize, t);
  begin (s, 2);
  fill (s);
  only (C (cuStreamWaitEvent, s, outside, 0), "wait in the capture for an outside event");
  say ("status %d", status_of (s));
  end (s, "end");

  begin (s, 2);
  only (C (cuStreamWaitEvent, s, outside, CU_EVENT_WAIT_EXTERNAL), "external wait for an outside event");
  only (C (cuEventRecordWithFlags, outside, s, CU_EVENT_RECORD_EXTERNAL), "external record");
  only (C (cuEventQuery, outside), "query it meanwhile");
  end (s, "end");

  begin (s, 2);
  fill (s);
  C (cuEventRecord, e, s);
  only (C (cuStreamWaitEvent, CU_STREAM_LEGACY, e, 0), "legacy waits for a captured event");
  say ("status %d", status_of (s));
  end (s, "end");

  begin (s, 2);
  only (C (cuStreamWaitEvent, s, never, 0), "wait for a never recorded event in the capture");
  say ("status %d", status_of (s));
  end (s, "end");
}

/* ---- graphs ---- */

static CUgraph graph;

static void
set_node (const char *what, CUdeviceptr dst, size_t pitch, unsigned int value, unsigned int element, size_t width, size_t height, CUcontext context)
{
  CUDA_MEMSET_NODE_PARAMS p;
  CUgraphNode node;

  memset (&p, 0, sizeof p);
  p.dst = dst;
  p.pitch = pitch;
  p.value = value;
  p.elementSize = element;
  p.width = width;
  p.height = height;
  only (C (cuGraphAddMemsetNode, &node, graph, NULL, 0, &p, context), what);
}

static void
copy_node (const char *what, CUdeviceptr src, size_t width, size_t depth)
{
  CUDA_MEMCPY3D p;
  CUgraphNode node;

  memset (&p, 0, sizeof p);
  p.srcMemoryType = p.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  p.srcDevice = src;
  p.dstDevice = memory + 2048;
  p.WidthInBytes = width;
  p.Height = 1;
  p.Depth = depth;
  only (C (cuGraphAddMemcpyNode, &node, graph, NULL, 0, &p, primary), what);
}

static void CUDA_CB
nothing (void *data)
{
  (void) data;
}

void
probe_graph_nodes (void)
{
  CUDA_MEMSET_NODE_PARAMS p, back;
  CUDA_HOST_NODE_PARAMS host;
  CUgraphNode empty, set, node;
  CUgraphNodeType type = (CUgraphNodeType) 99;
  CUgraph child, inner = NULL, none;
  CUresult r;

  C (cuMemAlloc, &memory, 4096);
  only (C (cuGraphCreate, &none, 1), "create flags 1");
  C (cuGraphCreate, &graph, 0);
  say ("nodes of a new graph %d", nodes_of (graph));
  only (C (cuGraphAddEmptyNode, &empty, graph, NULL, 0), "empty node");
  memset (&p, 0, sizeof p);
  p.dst = memory;
  p.value = 7;
  p.elementSize = 1;
  p.width = 64;
  p.height = 1;
  only (C (cuGraphAddMemsetNode, &set, graph, NULL, 0, &p, primary), "memset node good");
  set_node ("memset node element size 3", memory, 0, 7, 3, 4, 1, primary);
  set_node ("memset node element size 4, address odd", memory + 1, 0, 7, 4, 4, 1, primary);
  set_node ("memset node width 0", memory, 0, 7, 1, 0, 1, primary);
  set_node ("memset node height 0", memory, 0, 7, 1, 64, 0, primary);
  set_node ("memset node past the end", memory, 0, 7, 1, 4097, 1, primary);
  set_node ("memset node two rows, pitch below width", memory, 32, 7, 1, 64, 2, primary);
  set_node ("memset node two rows", memory, 128, 7, 1, 64, 2, primary);
  set_node ("memset node at 0x1234", 0x1234, 0, 7, 1, 64, 1, primary);
  set_node ("memset node value 0x1ff for bytes", memory, 0, 0x1ff, 1, 64, 1, primary);
  set_node ("memset node, null context", memory, 0, 7, 1, 64, 1, NULL);
  memset (&back, 0, sizeof back);
  r = C (cuGraphMemsetNodeGetParams, set, &back);
  ok (r, "memset parameters back", "address %d value %u size %u width %zu height %zu", back.dst == memory, back.value, back.elementSize, back.width, back.height);
  only (C (cuGraphMemsetNodeGetParams, empty, &back), "memset parameters of an empty node");
  copy_node ("memcpy node", memory, 64, 1);
  copy_node ("memcpy node past the end", memory, 4096, 1);
  copy_node ("memcpy node from 0x1234", 0x1234, 64, 1);
  copy_node ("memcpy node depth 0", memory, 64, 0);
  memset (&host, 0, sizeof host);
  host.fn = nothing;
  only (C (cuGraphAddHostNode, &node, graph, NULL, 0, &host), "host node");
  host.fn = NULL;
  only (C (cuGraphAddHostNode, &node, graph, NULL, 0, &host), "host node without function");
  C (cuGraphCreate, &child, 0);
  only (C (cuGraphAddChildGraphNode, &node, graph, NULL, 0, child), "child node of an empty graph");
  r = C (cuGraphChildGraphNodeGetGraph, node, &inner);
  ok (r, "its graph", "a copy %d", inner != NULL && inner != child);
  r = C (cuGraphNodeGetType, node, &type);
  ok (r, "its type", "%d", (int) type);
}

static CUDA_MEM_ALLOC_NODE_PARAMS
alloc_params (size_t size)
{
  CUDA_MEM_ALLOC_NODE_PARAMS p;

  memset (&p, 0, sizeof p);
  p.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  p.bytesize = size;
  return p;
}

void
probe_graph_memory (void)
{
  CUDA_MEM_ALLOC_NODE_PARAMS good = alloc_params (4096), p, back;
  CUgraphNode alloc, node, unordered;
  CUgraphExec exec;
  CUgraph parent, clone;
  CUdeviceptr pool_memory;
  cuuint64_t v = 0;
  unsigned int type;
  CUstream s;
  CUresult r;

  C (cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
  C (cuGraphCreate, &graph, 0);
  only (C (cuGraphAddMemAllocNode, &alloc, graph, NULL, 0, &good), "alloc node good");
  say ("address given %d", good.dptr != 0);
  p = alloc_params (0);
  only (C (cuGraphAddMemAllocNode, &node, graph, NULL, 0, &p), "alloc node 0 bytes");
  p = alloc_params (4096);
  p.poolProps.location.id = 99;
  only (C (cuGraphAddMemAllocNode, &node, graph, NULL, 0, &p), "alloc node device 99");
  p = alloc_params (4096);
  p.poolProps.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  only (C (cuGraphAddMemAllocNode, &node, graph, NULL, 0, &p), "alloc node with posix handle");
  p = alloc_params (4096);
  p.poolProps.location.type = (CUmemLocationType) 0;
  only (C (cuGraphAddMemAllocNode, &node, graph, NULL, 0, &p), "alloc node location type 0");
  p = alloc_params (4096);
  p.poolProps.allocType = (CUmemAllocationType) 2;
  only (C (cuGraphAddMemAllocNode, &node, graph, NULL, 0, &p), "alloc node type managed");
  memset (&back, 0, sizeof back);
  r = C (cuGraphMemAllocNodeGetParams, alloc, &back);
  ok (r, "parameters back", "address %d size %zu", back.dptr == good.dptr, back.bytesize);
  only (C (cuPointerGetAttribute, &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, good.dptr), "type of the address before launch");
  only (C (cuMemFree, good.dptr), "cuMemFree before launch");
  only (C (cuMemsetD8, good.dptr, 1, 16), "memset before launch");
  only (C (cuGraphAddMemFreeNode, &node, graph, &alloc, 1, 0x1234), "free node of 0x1234");
  only (C (cuGraphAddMemFreeNode, &node, graph, &alloc, 1, 0), "free node of null");
  only (C (cuGraphAddMemFreeNode, &node, graph, &alloc, 1, good.dptr + 8), "free node of interior");
  only (C (cuGraphAddMemFreeNode, &unordered, graph, NULL, 0, good.dptr), "free node, not ordered after its alloc");
  only (C (cuGraphAddMemFreeNode, &node, graph, &alloc, 1, good.dptr), "free node, ordered");
  only (C (cuGraphAddMemFreeNode, &node, graph, &alloc, 1, good.dptr), "second free node");
  only (C (cuGraphClone, &clone, graph), "clone a graph with memory nodes");
  C (cuGraphCreate, &parent, 0);
  only (C (cuGraphAddChildGraphNode, &node, parent, NULL, 0, graph), "child graph with memory nodes");
  only (C (cuGraphDestroyNode, unordered), "destroy the free node");
  only (C (cuGraphDestroyNode, alloc), "destroy the alloc node");
#if CUDA_VERSION >= 13000
  C (cuGraphAddDependencies, graph, &alloc, &unordered, NULL, 1);
  only (C (cuGraphRemoveDependencies, graph, &alloc, &unordered, NULL, 1), "remove the edge between them");
#else
  C (cuGraphAddDependencies, graph, &alloc, &unordered, 1);
  only (C (cuGraphRemoveDependencies, graph, &alloc, &unordered, 1), "remove the edge between them");
#endif
  only (C (cuGraphInstantiateWithFlags, &exec, graph, 0), "instantiate");
  only (C (cuGraphLaunch, exec, s), "launch");
  only (C (cuStreamSynchronize, s), "synchronize");
  C (cuMemAllocAsync, &pool_memory, 4096, s);
  C (cuGraphCreate, &parent, 0);
  only (C (cuGraphAddMemFreeNode, &node, parent, NULL, 0, pool_memory), "free node of stream-ordered memory");

  C (cuGraphCreate, &graph, 0);
  p = alloc_params (4096);
  C (cuGraphAddMemAllocNode, &alloc, graph, NULL, 0, &p);
  only (C (cuGraphInstantiateWithFlags, &exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH), "auto free: instantiate");
  only (C (cuGraphLaunch, exec, s), "auto free: launch");
  C (cuStreamSynchronize, s);
  r = C (cuDeviceGetGraphMemAttribute, device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &v);
  ok (r, "graph memory used", "%llu", (unsigned long long) v);
  only (C (cuGraphLaunch, exec, s), "auto free: launch again");
  only (C (cuMemFreeAsync, p.dptr, s), "auto free: free outside");
  only (C (cuGraphLaunch, exec, s), "auto free: launch after that");
  only (C (cuStreamSynchronize, s), "synchronize");
  only (C (cuGraphExecDestroy, exec), "destroy exec with live memory");
  only (C (cuMemFree, p.dptr), "free the memory after it");
  only (C (cuGraphDestroy, graph), "destroy graph after it");
  only (C (cuDeviceGetGraphMemAttribute, device, (CUgraphMem_attribute) 9, &v), "graph memory attribute 9");
  v = 5;
  only (C (cuDeviceSetGraphMemAttribute, device, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &v), "set used high 5");
  v = 0;
  only (C (cuDeviceSetGraphMemAttribute, device, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &v), "set used high 0");
  only (C (cuDeviceSetGraphMemAttribute, device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &v), "set used current 0");
  only (C (cuDeviceGraphMemTrim, 99), "trim device 99");
}

/* ---- user objects ---- */

static int destructed;

static void CUDA_CB
destruct (void *data)
{
  (void) data;
  g_atomic_int_inc (&destructed);
}

static void
show_destructed (void)
{
  g_usleep (200000);
  say ("destructor ran %d", g_atomic_int_get (&destructed));
}

void
probe_user_object (void)
{
  CUuserObject o, big;
  CUgraph g, clone;

  only (C (cuUserObjectCreate, &o, NULL, destruct, 1, 0), "create flags 0");
  only (C (cuUserObjectCreate, &o, NULL, destruct, 1, 3), "create flags 3");
  only (C (cuUserObjectCreate, &o, NULL, destruct, 0, 1), "create count 0");
  only (C (cuUserObjectCreate, &big, NULL, destruct, 0x80000000u, 1), "create count 2^31");
  only (C (cuUserObjectCreate, &o, NULL, NULL, 1, 1), "create without destructor");
  C (cuUserObjectCreate, &o, NULL, destruct, 2, 1);
  only (C (cuUserObjectRetain, o, 0), "retain 0");
  only (C (cuUserObjectRelease, o, 0), "release 0");
  only (C (cuUserObjectRetain, o, 0x80000000u), "retain 2^31");
  only (C (cuUserObjectRelease, o, 1), "release one of two");
  show_destructed ();
  C (cuGraphCreate, &g, 0);
  only (C (cuGraphRetainUserObject, g, o, 0, 0), "graph retains 0");
  only (C (cuGraphRetainUserObject, g, o, 1, 2), "graph retains, flags 2");
  only (C (cuGraphReleaseUserObject, g, o, 1), "graph releases what it does not own");
  only (C (cuGraphRetainUserObject, g, o, 1, 0), "graph retains");
  only (C (cuGraphReleaseUserObject, g, o, 2), "graph releases 2 of 1");
  only (C (cuGraphRetainUserObject, g, o, 1, CU_GRAPH_USER_OBJECT_MOVE), "graph takes over ours");
  show_destructed ();
  only (C (cuGraphClone, &clone, g), "clone");
  only (C (cuGraphDestroy, g), "destroy the original");
  show_destructed ();
}

void
probe_user_object_over (void)
{
  CUuserObject o;

  C (cuUserObjectCreate, &o, NULL, destruct, 1, 1);
  only (C (cuUserObjectRelease, o, 2), "release 2 of 1");
  show_destructed ();
}

/* ---- what the library's graphs rely on ---- */

static gint gone;

static void CUDA_CB
count_gone (void *data)
{
  (void) data;
  g_atomic_int_inc (&gone);
}

static int
gone_soon (int expected)
{
  for (int i = 0; i < 5000 && g_atomic_int_get (&gone) < expected; i++)
    g_usleep (1000);
  return g_atomic_int_get (&gone);
}

void
probe_graph_keep (void)
{
  CUDA_MEM_ALLOC_NODE_PARAMS alloc = alloc_params (4096);
  CUDA_GRAPH_INSTANTIATE_PARAMS upload;
  CUgraphExecUpdateResultInfo info;
  CUDA_MEMSET_NODE_PARAMS set;
  CUDA_HOST_NODE_PARAMS host;
  CUgraphConditionalHandle handle = 0;
  CUgraphNodeParams conditional;
  CUgraph plain, other;
  CUgraphNode node, second;
  CUgraphExec exec;
  CUuserObject object;
  CUcontext popped;
  CUstream s;
  CUresult r;
  unsigned int type = 0;
  unsigned char byte = 0;

  C (cuMemAlloc, &memory, 4096);
  C (cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
  memset (&set, 0, sizeof set);
  set.dst = memory;
  set.value = 7;
  set.elementSize = 1;
  set.width = 64;
  set.height = 1;
  memset (&host, 0, sizeof host);
  host.fn = nothing;

  C (cuCtxPopCurrent, &popped);
  only (C (cuGraphCreate, &plain, 0), "no context: create");
  only (C (cuGraphAddEmptyNode, &node, plain, NULL, 0), "no context: empty node");
  only (C (cuGraphAddHostNode, &second, plain, NULL, 0, &host), "no context: host node");
  only (C (cuGraphAddMemsetNode, &node, plain, NULL, 0, &set, primary), "no context: memset node, with one");
  only (C (cuGraphAddMemAllocNode, &node, plain, NULL, 0, &alloc), "no context: allocation node");
  only (C (cuGraphInstantiateWithFlags, &exec, plain, 0), "no context: instantiate");
  only (C (cuGraphDestroy, plain), "no context: destroy");
  C (cuCtxPushCurrent, primary);

  C (cuGraphCreate, &graph, 0);
  C (cuGraphAddMemsetNode, &node, graph, NULL, 0, &set, primary);
  C (cuUserObjectCreate, &object, NULL, count_gone, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
  only (C (cuGraphRetainUserObject, graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE), "retain, moved");
  only (C (cuGraphInstantiateWithFlags, &exec, graph, 0), "instantiate");
  only (C (cuGraphReleaseUserObject, graph, object, 1), "release from the graph");
  C (cuGraphDestroy, graph);
  g_usleep (20000);
  say ("gone, the executable graph is there %d", g_atomic_int_get (&gone));
  probe_block (s);
  only (C (cuGraphLaunch, exec, s), "launch");
  only (C (cuGraphExecDestroy, exec), "destroy it while that is pending");
  g_usleep (20000);
  say ("gone then %d", g_atomic_int_get (&gone));
  probe_open ();
  C (cuStreamSynchronize, s);
  say ("gone after the launch %d", gone_soon (1));

  C (cuGraphCreate, &graph, 0);
  C (cuGraphCreate, &other, 0);
  C (cuGraphAddMemsetNode, &node, graph, NULL, 0, &set, primary);
  C (cuGraphAddEmptyNode, &node, other, NULL, 0);
  memset (&upload, 0, sizeof upload);
  upload.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
  upload.hUploadStream = s;
  r = C (cuGraphInstantiateWithParams, &exec, graph, &upload);
  ok (r, "instantiate with an upload", "result %d", (int) upload.result_out);
  memset (&info, 0, sizeof info);
  r = C (cuGraphExecUpdate, exec, other, &info);
  always (r, "update, another kind of node", "reason %d node %d", (int) info.result, info.errorNode == node);
  C (cuGraphAddEmptyNode, &node, other, NULL, 0);
  memset (&info, 0, sizeof info);
  r = C (cuGraphExecUpdate, exec, other, &info);
  always (r, "update, more nodes", "reason %d", (int) info.result);
  only (C (cuGraphLaunch, exec, s), "launch after that");
  C (cuStreamSynchronize, s);
  C (cuGraphExecDestroy, exec);
  C (cuGraphDestroy, graph);
  C (cuGraphDestroy, other);

  C (cuGraphCreate, &graph, 0);
  C (cuGraphAddMemAllocNode, &node, graph, NULL, 0, &alloc);
  C (cuGraphInstantiateWithFlags, &exec, graph, 0);
  probe_block (s);
  C (cuGraphLaunch, exec, s);
  only (C (cuPointerGetAttribute, &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, alloc.dptr), "type of graph memory while its launch is pending");
  only (C (cuMemFreeAsync, alloc.dptr, s), "free it behind");
  only (C (cuGraphLaunch, exec, s), "launch again behind that");
  only (C (cuMemFreeAsync, alloc.dptr, s), "and free it");
  probe_open ();
  C (cuStreamSynchronize, s);
  C (cuGraphExecDestroy, exec);
  C (cuGraphDestroy, graph);

  C (cuGraphCreate, &graph, 0);
  only (C (cuGraphConditionalHandleCreate, &handle, graph, primary, 1, CU_GRAPH_COND_ASSIGN_DEFAULT), "conditional handle");
  memset (&conditional, 0, sizeof conditional);
  conditional.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  conditional.conditional.handle = handle;
  conditional.conditional.type = CU_GRAPH_COND_TYPE_IF;
  conditional.conditional.size = 1;
  conditional.conditional.ctx = primary;
  r = ((CUresult (*) (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUgraphNodeParams *)) probe_symbol ("cuGraphAddNode")) (&node, graph, NULL, 0, &conditional);
  only (r, "conditional node");
  exec = NULL;
  only (r != CUDA_SUCCESS ? r : C (cuGraphAddMemsetNode, &second, conditional.conditional.phGraph_out[0], NULL, 0, &set, primary), "memset in its body");
  only (r != CUDA_SUCCESS ? r : C (cuGraphInstantiateWithFlags, &exec, graph, 0), "instantiate it");
  C (cuMemsetD8, memory, 0, 64);
  only (exec == NULL ? r : C (cuGraphLaunch, exec, s), "launch it");
  only (C (cuStreamSynchronize, s), "synchronize");
  C (cuMemcpyDtoH, &byte, memory, 1);
  say ("the body ran %d", byte == 7);
  if (exec != NULL)
    C (cuGraphExecDestroy, exec);
  only (C (cuGraphDestroy, graph), "destroy");
}

typedef struct
{
  CUstream stream;
  CUresult result;
  int mode;
} Elsewhere;

static gpointer
end_elsewhere (gpointer data)
{
  Elsewhere *elsewhere = data;
  CUgraph ended = NULL;

  elsewhere->result = C (cuStreamEndCapture, elsewhere->stream, &ended);
  if (ended != NULL)
    C (cuGraphDestroy, ended);
  return NULL;
}

static gpointer
query_elsewhere (gpointer data)
{
  Elsewhere *elsewhere = data;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

  C (cuThreadExchangeStreamCaptureMode, &mode);
  elsewhere->result = C (cuStreamQuery, elsewhere->stream);
  return NULL;
}

static gpointer
free_elsewhere (gpointer data)
{
  Elsewhere *elsewhere = data;
  CUdeviceptr p = 0;

  C (cuCtxSetCurrent, primary);
  elsewhere->result = C (cuMemAlloc, &p, 4096);
  if (p != 0)
    C (cuMemFree, p);
  return NULL;
}

static CUresult
elsewhere (GThreadFunc function, CUstream s)
{
  Elsewhere data = { s, CUDA_ERROR_UNKNOWN, 0 };

  g_thread_join (g_thread_new ("elsewhere", function, &data));
  return data.result;
}

/* Who may end a capture, and what one that nobody ends is to others. */
void
probe_cap_end (void)
{
  static const char *const modes[] = { "global", "thread-local", "relaxed" };
  CUstream s, t;

  C (cuMemAlloc, &memory, 4096);
  C (cuStreamCreate, &t, CU_STREAM_NON_BLOCKING);
  for (int mode = 0; mode < 3; mode++)
    {
      char *what = g_strdup_printf ("%s, ended by another thread", modes[mode]);

      C (cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
      begin (s, mode);
      fill (s);
      only (elsewhere (end_elsewhere, s), what);
      say ("status then %d", status_of (s));
      g_free (what);
      if (status_of (s) != 0)
        end (s, "end by its own");
      C (cuStreamDestroy, s);
    }
  C (cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
  begin (s, 0);
  begin (t, 0);
  only (elsewhere (query_elsewhere, s), "query of a stream in capture by a relaxed thread");
  say ("status %d", status_of (s));
  say ("of another capture %d", status_of (t));
  end (t, "end of that");
  only (elsewhere (free_elsewhere, s), "cuMemAlloc in another thread while a broken capture is not ended");
  end (s, "end of it");
  begin (s, 0);
  fill (s);
  only (C (cuStreamDestroy, s), "destroy the stream of a global capture");
  only (elsewhere (free_elsewhere, NULL), "cuMemAlloc in another thread then");
  C (cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
  begin (s, 2);
  fill (s);
  only (C (cuCtxSynchronize, ), "synchronize the context during a relaxed capture");
  say ("status %d", status_of (s));
  end (s, "end");
}

/* Of one copy in an executable graph. */
/* The graph of one copy, captured or added; its node. */
static CUgraph
one_copy (int how, CUdeviceptr to, CUdeviceptr from, CUstream s, CUgraphNode *node)
{
  CUDA_MEMCPY3D copy;
  CUgraph copies = NULL;
  CUcontext popped;
  size_t count = 1;

  if (how == 3)
    {
      memset (&copy, 0, sizeof copy);
      copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
      copy.srcDevice = from;
      copy.dstDevice = to;
      copy.WidthInBytes = 1024;
      copy.Height = copy.Depth = 1;
      C (cuGraphCreate, &copies, 0);
      C (cuGraphAddMemcpyNode, node, copies, NULL, 0, &copy, primary);
      return copies;
    }
  if (how == 1)
    C (cuCtxPopCurrent, &popped);
  C (cuStreamBeginCapture, s, CU_STREAM_CAPTURE_MODE_RELAXED);
  if (how == 2)
    C (cuMemcpyAsync, to, from, 1024, s);
  else
    C (cuMemcpyDtoDAsync, to, from, 1024, s);
  C (cuStreamEndCapture, s, &copies);
  if (how == 1)
    C (cuCtxPushCurrent, primary);
  C (cuGraphGetNodes, copies, node, &count);
  return copies;
}

void
probe_copy_updates (void)
{
  static const char *const names[] = { "captured", "captured with no context", "captured, kind not said", "added" };
  static const struct
  {
    CUmemorytype type;
    int context;
    const char *name;
  } updates[] = {
    { CU_MEMORYTYPE_DEVICE, 1, "device memory" },
    { CU_MEMORYTYPE_DEVICE, 0, "device memory, no context" },
    { CU_MEMORYTYPE_UNIFIED, 1, "kind not said" },
    { CU_MEMORYTYPE_UNIFIED, 0, "kind not said, no context" },
  };
  CUDA_MEMCPY3D copy;
  CUdeviceptr a, b;
  CUgraphExec exec;
  CUgraphNode node;
  CUgraph copies;
  CUstream s;
  CUresult r;
  unsigned char byte;

  C (cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
  C (cuMemAllocAsync, &a, 4096, s);
  C (cuMemAllocAsync, &b, 4096, s);
  C (cuMemsetD8Async, a, 1, 2048, s);
  C (cuMemsetD8Async, a + 2048, 2, 2048, s);
  C (cuStreamSynchronize, s);
  for (int how = 0; how < 4; how++)
    {
      char what[120];

      copies = one_copy (how, b, a, s, &node);
      memset (&copy, 0, sizeof copy);
      r = C (cuGraphMemcpyNodeGetParams, node, &copy);
      g_snprintf (what, sizeof what, "%s, parameters", names[how]);
      ok (r, what, "kinds %d %d pitch %d %d height %d %d addresses %d %d host %d %d", (int) copy.srcMemoryType, (int) copy.dstMemoryType,
          (int) copy.srcPitch, (int) copy.dstPitch, (int) copy.srcHeight, (int) copy.dstHeight, copy.srcDevice == a, copy.dstDevice == b,
          copy.srcHost != NULL, copy.dstHost != NULL);
      for (int i = 0; i < 4; i++)
        {
          C (cuGraphInstantiate, &exec, copies, 0);
          memset (&copy, 0, sizeof copy);
          copy.srcMemoryType = copy.dstMemoryType = updates[i].type;
          copy.srcDevice = a + 2048;
          copy.dstDevice = b;
          copy.WidthInBytes = 1024;
          copy.Height = copy.Depth = 1;
          C (cuMemsetD8Async, b, 0, 4096, s);
          r = C (cuGraphExecMemcpyNodeSetParams, exec, node, &copy, updates[i].context ? primary : NULL);
          C (cuGraphLaunch, exec, s);
          C (cuMemcpyDtoHAsync, &byte, b, 1, s);
          C (cuStreamSynchronize, s);
          g_snprintf (what, sizeof what, "%s, %s", names[how], updates[i].name);
          always (r, what, "copies %d", byte);
          C (cuGraphExecDestroy, exec);
        }
      C (cuGraphDestroy, copies);
    }
  C (cuMemFreeAsync, a, s);
  C (cuMemFreeAsync, b, s);
  only (C (cuStreamSynchronize, s), "synchronize");
}

/* A launch on a stream that is being captured, and on one beside it. */
void
probe_launch_captured (void)
{
  CUgraphExec exec;
  CUgraphNode node;
  CUgraph copies;
  CUdeviceptr p;
  CUstream s, beside;
  CUresult r;
  char what[80];

  C (cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
  C (cuStreamCreate, &beside, CU_STREAM_NON_BLOCKING);
  C (cuMemAllocAsync, &p, 4096, s);
  C (cuMemsetD8Async, p, 1, 4096, s);
  C (cuStreamSynchronize, s);
  copies = one_copy (3, p, p + 2048, s, &node);
  C (cuGraphInstantiate, &exec, copies, 0);
  only (C (cuGraphLaunch, exec, s), "launched before");
  C (cuStreamSynchronize, s);
  for (int mode = 0; mode < 3; mode++)
    {
      begin (s, mode);
      g_snprintf (what, sizeof what, "mode %d, beside it", mode);
      r = C (cuGraphLaunch, exec, beside);
      always (r, what, "status %d", status_of (s));
      g_snprintf (what, sizeof what, "mode %d, end", mode);
      end (s, what);
      begin (s, mode);
      g_snprintf (what, sizeof what, "mode %d, on it", mode);
      r = C (cuGraphLaunch, exec, s);
      always (r, what, "status %d", status_of (s));
      g_snprintf (what, sizeof what, "mode %d, end of that", mode);
      end (s, what);
    }
  C (cuGraphExecDestroy, exec);
  C (cuGraphDestroy, copies);
  only (C (cuStreamSynchronize, beside), "synchronize the other");
  C (cuMemFreeAsync, p, s);
  only (C (cuStreamSynchronize, s), "synchronize");
}

/* Another graph is made executable while a stream is being captured. */
void
probe_instantiate_captured (void)
{
  CUgraphExec exec;
  CUgraphNode node;
  CUgraph copies;
  CUdeviceptr p;
  CUstream s;
  CUresult r;
  char what[80];

  C (cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
  C (cuMemAlloc, &p, 4096);
  copies = one_copy (3, p, p + 2048, s, &node);
  for (int mode = 0; mode < 3; mode++)
    {
      begin (s, mode);
      g_snprintf (what, sizeof what, "mode %d", mode);
      r = C (cuGraphInstantiate, &exec, copies, 0);
      only (r, what);
      if (r == CUDA_SUCCESS)
        C (cuGraphExecDestroy, exec);
      g_snprintf (what, sizeof what, "mode %d, end", mode);
      end (s, what);
    }
  C (cuGraphDestroy, copies);
  C (cuMemFree, p);
}
