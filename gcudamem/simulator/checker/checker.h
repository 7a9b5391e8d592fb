/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The ordering checker. It looks at driver calls only, simulated or real, in
 * the order in which they were made: when an operation is queued, all that it
 * will be ordered after is known. So nothing has to run, and a race is found in
 * each run, not in the unlucky one.
 *
 *   clock.c     who knows what of whom: timelines, host threads, streams, events
 *   memory.c    what was done to which bytes, and whether that is a race
 *   graph.c     what a graph does each time that it is launched
 *   rules.c     what each driver call means
 *   share.c     memory and events that several processes use
 *   guard.c     host memory, which the program touches without a call
 *   report.c    operations with their call sites, reports, suppressions
 *
 * All of it runs with the lock of the simulator held. */

#pragma once

#include "../sim-private.h"

typedef struct _CheckEvent CheckEvent;
typedef struct _CheckHost CheckHost;
typedef struct _CheckObject CheckObject;
typedef struct _CheckOp CheckOp;
typedef struct _CheckShared CheckShared;
typedef struct _CheckStack CheckStack;
typedef struct _CheckStream CheckStream;

/* ---- clock.c ---- */

void check_clock_clear (CheckClock *clock);
void check_clock_join (CheckClock *clock, const CheckClock *other);
void check_clock_raise (CheckClock *clock, guint slot, guint64 epoch);
void check_clock_copy (CheckClock *clock, const CheckClock *other);

static inline gboolean
check_clock_knows (const CheckClock *clock, guint slot, guint64 epoch)
{
  return slot < clock->n && clock->epochs[slot] >= epoch;
}

#define CHECK_NO_SLOT G_MAXUINT

/* A new slot, or one whose timeline ended and whose past CLOCK or all hosts know. */
guint check_slot_new (const CheckClock *clock);
guint check_slot_fresh (void);
void check_slot_end (guint slot);
/* The next epoch of a timeline, which CLOCK is that of. */
guint64 check_slot_tick (guint slot, CheckClock *clock);

/* What everything that is queued from now on comes after. */
gboolean check_is_old (guint slot, guint64 epoch);

/* A thread of the program. All of them share one, unless threads are told to be
 * independent. */
struct _CheckHost
{
  guint slot;
  CheckClock clock;
  guint64 version; /* of the clock */
  guint64 thread;
};

CheckHost *check_host (void);
void check_host_learn (const CheckClock *clock);

struct _CheckStream
{
  guint slot; /* from its first operation on */
  CheckClock clock;
  guint64 version; /* of the clock */
  CUstream handle;
  CUcontext context;
  SimStreamKind kind;
  gboolean blocking;
  gboolean gone;  /* it stands for all those that are */
  guint64 thread; /* owner, of a per-thread one */
  guint64 joined; /* the latest host thread, and what of it */
  guint64 joined_version;
  guint64 told, heard; /* versions: this one's that the legacy stream joined, and that one's which this joined */
  char *name;          /* a GRefString: "stream 3" */
};

CheckStream *check_stream (SimThread *thread, CUcontext current, CUstream handle);
CheckStream *check_stream_add (CUstream handle, CUcontext context, gboolean blocking);
void check_stream_end (CUstream handle);
void check_thread_end (guint64 thread);
void check_context_end (CUcontext context);
/* What is queued next in the stream comes after CLOCK. */
void check_stream_wait (CheckStream *stream, const CheckClock *clock);
/* What the operation that is being queued in the stream comes after. */
const CheckClock *check_stream_now (CheckStream *stream);
/* The same, and counts it. */
guint64 check_stream_tick (CheckStream *stream);
/* CLOCK learns what was queued in the stream, and what that waits for. */
void check_stream_past (CheckStream *stream, CheckClock *clock);
/* Of all streams of a context, or of a device, or (NULL, NULL) of all. */
void check_streams_join (CheckClock *clock, CUcontext context, const CUdevice *device);
void check_streams_wait (CUcontext context, const CheckClock *clock);

struct _CheckEvent
{
  CheckClock clock;
  gboolean captured;
  gboolean recorded;
  CheckShared *shared;
};

CheckEvent *check_event (CUevent handle);
void check_event_end (CUevent handle);

/* ---- report.c ---- */

typedef enum
{
  CHECK_READ,
  CHECK_MOVE, /* a prefetch: there has to be memory, and no more */
  CHECK_WRITE,
  CHECK_ALLOCATION,
  CHECK_FREE,
  CHECK_UNMAP,
} CheckWhat;

/* Something that was queued in a stream, or done by a thread of the program. */
struct _CheckOp
{
  gint refs;
  guint slot;
  guint64 epoch;
  CheckWhat what;
  gboolean host;
  const char *function;
  char *declared; /* a GRefString: the function, if it is not one of the driver's */
  char *where;    /* a GRefString */
  CheckStack *stack;
  guint64 address, size;
  CheckClock after; /* what it comes after, while functions of the program may be among that */
};

CheckOp *check_op_new (CheckWhat what, const char *function, const char *where, guint slot, guint64 epoch);
CheckOp *check_op_ref (CheckOp *op);
void check_op_unref (CheckOp *op);

typedef enum
{
  CHECK_KIND_USE_BEFORE_ALLOCATION,
  CHECK_KIND_USE_AFTER_FREE,
  CHECK_KIND_FREE_BEFORE_LAST_USE,
  CHECK_KIND_WRITE_WRITE,
  CHECK_KIND_READ_WRITE,
  CHECK_KIND_HOST_ACCESS,
  CHECK_KIND_UPLOAD_CHANGED,
  CHECK_KIND_POOL_REUSE,
  CHECK_KIND_SHARED_MEMORY,
  CHECK_KIND_UNMAP,
  CHECK_KIND_DEALLOCATION_STREAM,
  CHECK_N_KINDS,
} CheckKind;

/* SECOND is not ordered after FIRST, which OBJECT's bytes from OFFSET on are about. */
void check_report (CheckKind kind, CheckOp *first, CheckOp *second, CheckObject *object, guint64 offset, guint64 size);
CheckStack *check_stack_ref (CheckStack *stack);
void check_stack_unref (CheckStack *stack);
/* Before the lock is taken; or there is none. */
void check_stack_capture (gboolean wanted);
CheckStack *check_stack_current (void);
gboolean check_report_init (void);
void check_report_summary (void);

/* ---- memory.c ---- */

typedef enum
{
  CHECK_MEMORY_DEVICE,
  CHECK_MEMORY_POOL,
  CHECK_MEMORY_GRAPH,
  CHECK_MEMORY_MANAGED,
  CHECK_MEMORY_PINNED,
  CHECK_MEMORY_REGISTERED,
  CHECK_MEMORY_MANAGED_POOL,
  CHECK_MEMORY_HOST_POOL,
  CHECK_MEMORY_VIRTUAL,
  CHECK_MEMORY_SHARED, /* another process's */
} CheckMemory;

/* One piece of physical memory, under whatever addresses. */
struct _CheckObject
{
  gint refs; /* mappings, and the handles of virtual memory */
  CheckMemory memory;
  CUcontext context; /* of host memory */
  guint64 base;      /* where it was first */
  guint64 size;
  CheckOp *made;
  CheckStack *replaced; /* where its deallocation stream was replaced */
  GArray *segments;
  guint many; /* of them, until which none is looked for that may go */
  CheckShared *shared;
};

CheckObject *check_object_new (CheckMemory memory, guint64 base, guint64 size, CheckOp *made);
CheckObject *check_object_ref (CheckObject *object);
void check_object_unref (CheckObject *object);
const char *check_memory_name (CheckMemory memory);

/* Addresses */
void check_map (guint64 address, guint64 size, CheckObject *object, guint64 offset);
void check_unmap (guint64 address, guint64 size);
CheckObject *check_lookup (guint64 address, guint64 *offset, guint64 *length);

gboolean check_is_freed (guint64 address);
/* Pinned, registered or managed */
gboolean check_is_of_host (const CheckObject *object);
/* Other processes may use it from now on. */
void check_object_share (CheckObject *object, CheckShared *shared);

/* OP, for which CLOCK is what it is ordered after, touches these bytes. */
void check_access (CheckOp *op, const CheckClock *clock, guint64 address, guint64 size, gsize pitch, gsize rows);
/* The same for memory that ends to be there; the addresses stay mapped. */
void check_free (CheckOp *op, const CheckClock *clock, guint64 address);
void check_unmapping (CheckOp *op, const CheckClock *clock, guint64 address, guint64 size);
void check_memory_context_end (CUcontext context);
void check_memory_init (void);

/* ---- guard.c ---- */

void check_guard_add (const CheckObject *object, guint64 base, guint64 address, guint64 size, const CheckOp *op);
void check_guard_learnt (void);
void check_guard_drop (guint64 address, guint64 size);

/* ---- share.c ---- */

/* What KEY names to all processes; made by who exports it. NULL: there is none. */
CheckShared *check_shared_get (const char *kind, gconstpointer key, gsize size, gboolean make);
void check_shared_unref (CheckShared *shared);
void check_shared_publish (CheckShared *shared, const CheckOp *op, guint64 offset, guint64 size);
void check_shared_learnt (void);
void check_shared_access (CheckObject *object, guint64 offset, guint64 size, CheckOp *op, const CheckClock *clock);
void check_shared_event_recorded (CheckEvent *event);
/* CLOCK learns what the latest record of the event comes after. */
void check_shared_event_wait (CheckEvent *event, CheckClock *clock);

/* ---- rules.c ---- */

/* Of the driver underneath, from within the lock. */
#define CHECK_DRIVER(name, ...) (((__typeof__ (&name)) check_driver_function (#name, (gpointer) name)) (__VA_ARGS__))
gpointer check_driver_function (const char *name, gpointer simulated);
/* What functions of the program that ran by now came after. */
void check_learn (void);

/* One side of a copy */
typedef struct
{
  guint64 address;
  gsize pitch, slice; /* between rows, and between planes */
} CheckSide;

CheckSide check_side (CUmemorytype type, const void *host, CUdeviceptr device, gsize pitch, gsize rows, gsize x, gsize y, gsize z, gsize width, gsize height);

/* A function of the program that a stream runs: where it is in the stream, and what it comes after. */
typedef struct
{
  guint slot;
  guint64 epoch;
  CheckClock clock;
} CheckPlace;

/* What the program itself does, in such a function or not. CLOCK is what that comes after. */
CheckOp *check_program_op (CheckWhat what, const char *function, const CheckClock **clock);
/* This thread is in such a function. */
gboolean check_place_is_here (void);
/* One was queued, and is not over. */
gboolean check_place_is_ahead (void);

/* In rules.c: a launch had it. */
void check_user_object_launched (CUuserObject object, const CheckClock *clock);

/* ---- graph.c ---- */

void check_graph_instantiated (CUgraphExec exec, CUgraph graph);
void check_graph_updated (CUgraphExec exec, CUgraph graph);
void check_graph_exec_end (CUgraphExec exec);
/* User objects, which tell when the launches are over. */
void check_graph_owns (CUgraph graph, CUuserObject object, gboolean owns);
void check_graph_owns_too (CUgraph graph, CUgraph child);
/* What was declared for the nodes of a graph is so for its copy, and goes with it. */
void check_graph_copied (CUgraph from, CUgraph to);
void check_graph_end (CUgraph graph);
void check_graph_node_end (CUgraphNode node);
void check_graph_node_event (CUgraphExec exec, CUgraphNode node, CUevent event);
void check_graph_node_changed (CUgraphExec exec, CUgraphNode node, const char *function, gconstpointer params);
void check_graph_node_enabled (CUgraphExec exec, CUgraphNode node, gboolean enabled);
void check_graph_launched (CUgraphExec exec, CheckStream *stream, const char *function);
void check_graph_node_declared (CUgraphNode node, CheckWhat what, guint64 address, guint64 size, const char *function);
