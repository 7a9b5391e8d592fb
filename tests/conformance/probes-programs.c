/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What programs of others turned out to rely on. */

#include "probe.h"

#include <stdlib.h>
#include <string.h>

void probe_batches (void);
void probe_cap_leave (void);
void probe_graph_edit (void);
void probe_graph_params (void);
void probe_graph_use (void);
void probe_managed_places (void);
void probe_two_devices_copy (void);
void probe_host_pool (void);

static CUdeviceptr memory;

static CUstream
new_stream (void)
{
  CUstream s = NULL;

  C (cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
  return s;
}

/* ---- a forked stream is destroyed before its capture ends ---- */

static CUstream
fork_off (CUstream s, gboolean works)
{
  CUstream t = new_stream ();
  CUevent e;

  C (cuEventCreate, &e, CU_EVENT_DISABLE_TIMING);
  C (cuEventRecord, e, s);
  C (cuStreamWaitEvent, t, e, 0);
  C (cuEventDestroy, e);
  if (works)
    C (cuMemsetD8Async, memory, 2, 16, t);
  return t;
}

static void
join (CUstream s, CUstream t)
{
  CUevent e;

  C (cuEventCreate, &e, CU_EVENT_DISABLE_TIMING);
  C (cuEventRecord, e, t);
  C (cuStreamWaitEvent, s, e, 0);
  C (cuEventDestroy, e);
}

static void
end (CUstream s, const char *what)
{
  CUgraph graph = NULL;
  size_t n = 0;
  CUresult r = C (cuStreamEndCapture, s, &graph);

  if (r == CUDA_SUCCESS)
    C (cuGraphGetNodes, graph, NULL, &n);
  ok (r, what, "nodes %zu", n);
}

void
probe_cap_leave (void)
{
  CUstream s = new_stream (), t, u;

  C (cuMemAlloc, &memory, 4096);

  C (cuStreamBeginCapture_v2, s, CU_STREAM_CAPTURE_MODE_RELAXED);
  C (cuMemsetD8Async, memory, 1, 16, s);
  t = fork_off (s, TRUE);
  join (s, t);
  only (C (cuStreamDestroy, t), "destroy a stream that was joined");
  only (C (cuMemsetD8Async, memory, 3, 16, s), "work after");
  end (s, "end");

  C (cuStreamBeginCapture_v2, s, CU_STREAM_CAPTURE_MODE_RELAXED);
  C (cuMemsetD8Async, memory, 1, 16, s);
  t = fork_off (s, TRUE);
  u = fork_off (t, FALSE);
  join (u, t);
  only (C (cuStreamDestroy, t), "destroy one that was joined to another fork");
  join (s, u);
  end (s, "end, the other one joined");

  C (cuStreamBeginCapture_v2, s, CU_STREAM_CAPTURE_MODE_RELAXED);
  C (cuMemsetD8Async, memory, 1, 16, s);
  t = fork_off (s, FALSE);
  only (C (cuStreamDestroy, t), "destroy one without work");
  only (C (cuMemsetD8Async, memory, 3, 16, s), "work after");
  end (s, "end");

  C (cuStreamBeginCapture_v2, s, CU_STREAM_CAPTURE_MODE_RELAXED);
  C (cuMemsetD8Async, memory, 1, 16, s);
  t = fork_off (s, TRUE);
  only (C (cuStreamDestroy, t), "destroy one that was not joined");
  only (C (cuMemsetD8Async, memory, 3, 16, s), "work after");
  end (s, "end");
}

/* ---- graphs ---- */

static CUDA_MEM_ALLOC_NODE_PARAMS
alloc_params (void)
{
  CUDA_MEM_ALLOC_NODE_PARAMS p;

  memset (&p, 0, sizeof p);
  p.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  p.poolProps.location.id = device;
  p.bytesize = 4096;
  return p;
}

static void CUDA_CB
do_nothing (void *data)
{
  (void) data;
}

static CUresult
change_edge (CUgraph graph, CUgraphNode a, CUgraphNode b, gboolean add)
{
#if CUDA_VERSION >= 13000
  return add ? C (cuGraphAddDependencies, graph, &a, &b, NULL, 1) : C (cuGraphRemoveDependencies, graph, &a, &b, NULL, 1);
#else
  return add ? C (cuGraphAddDependencies, graph, &a, &b, 1) : C (cuGraphRemoveDependencies, graph, &a, &b, 1);
#endif
}

void
probe_graph_edit (void)
{
  CUDA_HOST_NODE_PARAMS host = { do_nothing, NULL };
  CUDA_MEM_ALLOC_NODE_PARAMS p = alloc_params ();
  CUgraphNode a, b, c, alloc;
  CUgraph graph;
  size_t n = 0;

  C (cuGraphCreate, &graph, 0);
  C (cuGraphAddHostNode, &a, graph, NULL, 0, &host);
  C (cuGraphAddHostNode, &b, graph, &a, 1, &host);
  only (change_edge (graph, a, b, FALSE), "remove an edge");
  only (change_edge (graph, a, b, TRUE), "add it again");
  C (cuGraphAddMemAllocNode, &alloc, graph, NULL, 0, &p);
  only (change_edge (graph, a, b, FALSE), "remove an edge, an allocation in the graph");
  only (C (cuGraphAddHostNode, &c, graph, &alloc, 1, &host), "add a node");
  only (change_edge (graph, b, c, TRUE), "add an edge");
  only (C (cuGraphDestroyNode, b), "destroy a node between others");
  only (C (cuGraphDestroyNode, c), "destroy a node behind the allocation");
  C (cuGraphGetNodes, graph, NULL, &n);
  say ("nodes %zu", n);
}

static int
fill_value (CUgraphNode node)
{
  CUDA_MEMSET_NODE_PARAMS set;

  memset (&set, 0, sizeof set);
  C (cuGraphMemsetNodeGetParams, node, &set);
  return (int) set.value;
}

void
probe_graph_params (void)
{
  CUstream s = new_stream ();
  CUgraphNodeParams p, host;
  CUgraphNode node, empty;
  CUgraphExec exec;
  CUgraph graph;
  int byte = 0;
  CUresult r;

  C (cuMemAlloc, &memory, 4096);
  C (cuGraphCreate, &graph, 0);
  memset (&p, 0, sizeof p);
  p.type = CU_GRAPH_NODE_TYPE_MEMSET;
  p.memset.dst = memory;
  p.memset.elementSize = 1;
  p.memset.width = 16;
  p.memset.height = 1;
  p.memset.value = 1;
#if CUDA_VERSION >= 13000
  only (C (cuGraphAddNode, &node, graph, NULL, NULL, 0, &p), "add a fill");
#else
  only (C (cuGraphAddNode, &node, graph, NULL, 0, &p), "add a fill");
#endif
  C (cuGraphAddEmptyNode, &empty, graph, NULL, 0);
  C (cuGraphInstantiateWithFlags, &exec, graph, 0);

  p.memset.value = 2;
  r = C (cuGraphNodeSetParams, node, &p);
  ok (r, "new parameters", "value %d", fill_value (node));
  C (cuGraphLaunch, exec, s);
  C (cuStreamSynchronize, s);
  C (cuMemcpyDtoH, &byte, memory, 1);
  say ("launched %d", byte);
  p.memset.value = 3;
  r = C (cuGraphExecNodeSetParams, exec, node, &p);
  ok (r, "new parameters of the exec", "value of the graph's %d", fill_value (node));
  C (cuGraphLaunch, exec, s);
  C (cuStreamSynchronize, s);
  C (cuMemcpyDtoH, &byte, memory, 1);
  say ("launched %d", byte);

  memset (&host, 0, sizeof host);
  host.type = CU_GRAPH_NODE_TYPE_HOST;
  host.host.fn = do_nothing;
  only (C (cuGraphNodeSetParams, node, &host), "those of another kind");
  only (C (cuGraphExecNodeSetParams, exec, node, &host), "those of another kind, exec");
  only (C (cuGraphNodeSetParams, node, NULL), "none");
  only (C (cuGraphNodeSetParams, NULL, &p), "no node");
  p.memset.dst = 0x1234;
  r = C (cuGraphNodeSetParams, node, &p);
  always (r, "a fill of 0x1234", "value %d", fill_value (node));
  host.type = CU_GRAPH_NODE_TYPE_EMPTY;
  only (C (cuGraphNodeSetParams, empty, &host), "an empty node");
  only (C (cuGraphDebugDotPrint, graph, NULL, 0), "draw to nowhere");
  only (C (cuGraphDebugDotPrint, NULL, "/dev/null", 0), "draw nothing");
  only (C (cuGraphDebugDotPrint, graph, "/nonexistent/graph.dot", 0), "draw into no folder");
}

static void
use (const char *what)
{
  cuuint64_t v[4] = { 0 };

  C (cuDeviceGetGraphMemAttribute, device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &v[0]);
  C (cuDeviceGetGraphMemAttribute, device, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &v[1]);
  C (cuDeviceGetGraphMemAttribute, device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &v[2]);
  C (cuDeviceGetGraphMemAttribute, device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH, &v[3]);
  say ("%s used %d high %d reserved %d high %d", what, v[0] > 0, v[1] > 0, v[2] > 0, v[3] > 0);
}

void
probe_graph_use (void)
{
  CUDA_MEM_ALLOC_NODE_PARAMS p = alloc_params ();
  CUstream s = new_stream ();
  CUgraphExec exec;
  CUgraphNode node;
  CUgraph graph;

  use ("at first");
  for (int keep = 1; keep >= 0; keep--)
    {
      C (cuGraphCreate, &graph, 0);
      C (cuGraphAddMemAllocNode, &node, graph, NULL, 0, &p);
      use ("node added");
      C (cuGraphInstantiateWithFlags, &exec, graph, 0);
      use ("instantiated");
      C (cuGraphUpload, exec, s);
      C (cuStreamSynchronize, s);
      use ("uploaded");
      C (cuGraphLaunch, exec, s);
      C (cuStreamSynchronize, s);
      use ("launched");
      if (!keep)
        {
          C (cuGraphExecDestroy, exec);
          C (cuGraphDestroy, graph);
          use ("exec and graph destroyed");
        }
      only (C (cuMemFreeAsync, p.dptr, s), "free");
      C (cuStreamSynchronize, s);
      use (keep ? "freed" : "freed after them");
      only (C (cuDeviceGraphMemTrim, device), "trim");
      use ("trimmed");
      if (keep)
        {
          C (cuGraphLaunch, exec, s);
          C (cuMemFreeAsync, p.dptr, s);
          C (cuStreamSynchronize, s);
          use ("launched again and freed");
          C (cuGraphExecDestroy, exec);
          C (cuGraphDestroy, graph);
          use ("exec and graph destroyed");
          C (cuDeviceGraphMemTrim, device);
          use ("trimmed");
        }
    }
}

/* ---- managed memory: places that are not devices ---- */

#if CUDA_VERSION >= 13000
static CUresult
advise (CUmem_advise advice, int type, int id)
{
  CUmemLocation location;

  memset (&location, 0, sizeof location);
  location.type = (CUmemLocationType) type;
  location.id = id;
  return C (cuMemAdvise, memory, 4096, advice, location);
}

static void
places (const char *what)
{
  int accessed[4] = { 9, 9, 9, 9 }, location = 9, type = 9, id = 9;

  C (cuMemRangeGetAttribute, accessed, sizeof accessed, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, memory, 4096);
  C (cuMemRangeGetAttribute, &location, 4, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, memory, 4096);
  C (cuMemRangeGetAttribute, &type, 4, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, memory, 4096);
  C (cuMemRangeGetAttribute, &id, 4, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID, memory, 4096);
  say ("%s: accessed by %d %d %d %d, preferred %d, type %d", what, accessed[0], accessed[1], accessed[2], accessed[3], location, type);
  if (type == CU_MEM_LOCATION_TYPE_DEVICE || type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
    say ("%s: id %d", what, id);
}
#endif

void
probe_managed_places (void)
{
#if CUDA_VERSION >= 13000
  C (cuMemAllocManaged, &memory, 4096, CU_MEM_ATTACH_GLOBAL);
  places ("fresh");
  only (advise (CU_MEM_ADVISE_SET_ACCESSED_BY, CU_MEM_LOCATION_TYPE_HOST, 0), "accessed by the host");
  places ("then");
  only (advise (CU_MEM_ADVISE_SET_ACCESSED_BY, CU_MEM_LOCATION_TYPE_DEVICE, 0), "and by the device");
  places ("then");
  only (advise (CU_MEM_ADVISE_UNSET_ACCESSED_BY, CU_MEM_LOCATION_TYPE_HOST, 0), "no longer by the host");
  places ("then");
  only (advise (CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_MEM_LOCATION_TYPE_HOST_NUMA, 0), "preferred on NUMA node 0");
  places ("then");
  only (advise (CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_MEM_LOCATION_TYPE_DEVICE, 0), "preferred on the device");
  places ("then");
#endif
}

/* ---- batches: on which streams? ---- */

#if CUDA_VERSION >= 13000
static void
batches_on (const char *where, CUstream s)
{
  g_autofree char *copy = g_strdup_printf ("copies on %s", where);
  g_autofree char *prefetch = g_strdup_printf ("prefetches on %s", where);
  g_autofree char *discard = g_strdup_printf ("discards on %s", where);
  CUdeviceptr to[2] = { memory, memory + 1024 }, from[2] = { memory + 2048, memory + 3072 };
  size_t sizes[2] = { 512, 512 }, first = 0;
  CUmemcpyAttributes attributes;
  CUmemLocation location;

  memset (&attributes, 0, sizeof attributes);
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  memset (&location, 0, sizeof location);
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  only (C (cuMemcpyBatchAsync, to, from, sizes, 2, &attributes, &first, 1, s), copy);
  only (C (cuMemPrefetchBatchAsync, to, sizes, 2, &location, &first, 1, 0, s), prefetch);
  only (C (cuMemDiscardBatchAsync, to, sizes, 2, 0, s), discard);
}
#endif

void
probe_batches (void)
{
#if CUDA_VERSION >= 13000
  CUstream s = new_stream (), blocking = NULL;

  C (cuMemAllocManaged, &memory, 4096, CU_MEM_ATTACH_GLOBAL);
  C (cuStreamCreate, &blocking, CU_STREAM_DEFAULT);
  batches_on ("a created stream", s);
  batches_on ("a blocking one", blocking);
  batches_on ("null", NULL);
  batches_on ("legacy", CU_STREAM_LEGACY);
  batches_on ("per-thread", CU_STREAM_PER_THREAD);
  only (C (cuCtxSynchronize, ), "synchronize");
#endif
}

/* ---- two devices: who can do the copy? ---- */

static CUmemoryPool
pool_on (int ordinal, int peer)
{
  CUmemPoolProps props;
  CUmemAccessDesc desc;
  CUmemoryPool pool = NULL;

  memset (&props, 0, sizeof props);
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  props.location.id = ordinal;
  C (cuMemPoolCreate, &pool, &props);
  if (peer >= 0)
    {
      memset (&desc, 0, sizeof desc);
      desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
      desc.location.id = peer;
      desc.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
      C (cuMemPoolSetAccess, pool, &desc, 1);
    }
  return pool;
}

void
probe_two_devices_copy (void)
{
  CUdeviceptr p0, p1, q0, q1, r0, t0;
  CUstream s0, s1;
  CUcontext c1, c;
  char bytes[16] = { 0 };
  void *pinned;
  int n = 0;

  C (cuDeviceGetCount, &n);
  if (n < 2)
    exit (77);
  s0 = new_stream ();
  C (cuDevicePrimaryCtxRetain, &c1, 1);
  C (cuCtxPushCurrent, c1);
  s1 = new_stream ();
  C (cuCtxPopCurrent, &c);

  C (cuMemAllocFromPoolAsync, &p0, 4096, pool_on (0, 1), s0);
  C (cuMemAllocFromPoolAsync, &p1, 4096, pool_on (1, -1), s1);
  C (cuStreamSynchronize, s0);
  C (cuStreamSynchronize, s1);
  only (C (cuMemcpyDtoDAsync, p1, p0, 16, s1), "to the device that may access both, on its stream");
  only (C (cuMemcpyDtoDAsync, p0, p1, 16, s1), "from it, on its stream");
  only (C (cuMemcpyDtoDAsync, p1, p0, 16, s0), "to it, on the other's stream");
  only (C (cuMemcpyDtoDAsync, p0, p1, 16, s0), "from it, on the other's stream");
  only (C (cuMemcpyAsync, p1, p0, 16, s0), "to it, on the other's stream, kind not said");
  C (cuCtxPushCurrent, c1);
  only (C (cuMemcpyDtoDAsync, p1, p0, 16, s1), "to it, on its stream, its context current");
  C (cuCtxPopCurrent, &c);
  C (cuMemAllocFromPoolAsync, &q0, 4096, pool_on (0, 1), s0);
  C (cuMemAllocFromPoolAsync, &q1, 4096, pool_on (1, 0), s1);
  C (cuStreamSynchronize, s0);
  C (cuStreamSynchronize, s1);
  only (C (cuMemcpyDtoDAsync, q1, q0, 16, s1), "both may access both");
  only (C (cuMemcpyDtoDAsync, q0, q1, 16, s1), "the other way");
  only (C (cuMemcpyDtoDAsync, q1, q0, 16, s0), "on the other's stream");
  only (C (cuMemcpyDtoDAsync, q0, q1, 16, s0), "on the other's stream, the other way");
  C (cuMemAllocAsync, &r0, 4096, s0);
  C (cuMemAllocAsync, &t0, 4096, s0);
  C (cuStreamSynchronize, s0);
  only (C (cuMemcpyDtoDAsync, r0, t0, 16, s1), "within a device, on the other's stream");
  only (C (cuMemcpyDtoHAsync, bytes, r0, 16, s1), "to the host, on the other's stream");
  only (C (cuMemcpyHtoDAsync, r0, bytes, 16, s1), "from the host, on the other's stream");
  C (cuMemAllocHost, &pinned, 4096);
  only (C (cuMemcpyDtoHAsync, pinned, r0, 16, s1), "to pinned memory, on the other's stream");
  only (C (cuMemcpyHtoDAsync, r0, pinned, 16, s1), "from pinned memory, on the other's stream");
  only (C (cuMemsetD8Async, r0, 1, 16, s1), "fill, on the other's stream");
  only (C (cuStreamSynchronize, s0), "synchronize");
  only (C (cuStreamSynchronize, s1), "synchronize the other");
}

/* ---- pools of host memory ---- */

void
probe_host_pool (void)
{
  CUmemPoolProps props;
  CUmemAccessDesc desc;
  CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  CUmemLocation here = { .type = CU_MEM_LOCATION_TYPE_DEVICE };
  CUmemoryPool pool = NULL;
  CUdeviceptr p = 0, q;
  CUstream s = new_stream ();
  CUresult r;

  memset (&props, 0, sizeof props);
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location.type = CU_MEM_LOCATION_TYPE_HOST;
  r = C (cuMemPoolCreate, &pool, &props);
  only (r, "of the host");
  if (r != CUDA_SUCCESS)
    {
      props.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
      only (C (cuMemPoolCreate, &pool, &props), "of its node 0");
    }
  C (cuMemAlloc, &q, 4096);
  only (C (cuMemAllocFromPoolAsync, &p, 4096, pool, s), "allocate");
  C (cuStreamSynchronize, s);
  r = C (cuMemPoolGetAccess, &flags, pool, &here);
  ok (r, "access of the device", "%d", (int) flags);
  only (C (cuMemsetD8Async, p, 1, 16, s), "fill");
  only (C (cuMemcpyDtoDAsync, q, p, 16, s), "copy from it");
  only (C (cuMemcpyDtoDAsync, p, q, 16, s), "copy to it");
  only (C (cuMemcpyAsync, q, p, 16, s), "copy from it, kind not said");
  only (C (cuMemcpyHtoDAsync, q, (void *) (gsize) p, 16, s), "copy from it as host memory");
  only (C (cuMemcpyDtoHAsync, (void *) (gsize) p, q, 16, s), "copy to it as host memory");
  C (cuStreamSynchronize, s);
  memset (&desc, 0, sizeof desc);
  desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  desc.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  only (C (cuMemPoolSetAccess, pool, &desc, 1), "grant it to the device");
  r = C (cuMemPoolGetAccess, &flags, pool, &here);
  ok (r, "access then", "%d", (int) flags);
  only (C (cuMemsetD8Async, p, 1, 16, s), "fill then");
  only (C (cuMemcpyDtoDAsync, q, p, 16, s), "copy from it then");
  only (C (cuMemcpyHtoDAsync, q, (void *) (gsize) p, 16, s), "copy from it as host memory then");
  /* The fill would run into it. */
  C (cuStreamSynchronize, s);
  desc.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  only (C (cuMemPoolSetAccess, pool, &desc, 1), "revoke it");
  only (C (cuMemsetD8Async, p, 1, 16, s), "fill after that");
  only (C (cuMemFreeAsync, p, s), "free");
  only (C (cuStreamSynchronize, s), "synchronize");
}
