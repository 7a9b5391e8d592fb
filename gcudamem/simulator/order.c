/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Everything that makes one thing happen before another passes through here,
 * with the lock held. Nothing is done with it yet: this is where a checker of
 * orderings (vector clocks over host threads, streams and events) attaches.
 * SimOp.accesses says what an operation reads and writes, as ranges of
 * addresses; sim_resolve() turns an address into a physical object and offset
 * at the time of execution. SimOp.order is free for the checker's own state. */

#include "sim-private.h"

/* The calling thread queued OP: what the thread did before happens before OP. */
void
sim_order_submit (SimOp *op)
{
  (void) op;
}

/* BEFORE ends before AFTER starts: order of a stream, of a graph, of the
 * legacy stream with others, or of an event. Also called when BEFORE is done. */
void
sim_order_edge (SimOp *before, SimOp *after)
{
  (void) before;
  (void) after;
}

/* OP starts to execute, and ends. */
void
sim_order_start (SimOp *op)
{
  (void) op;
}

void
sim_order_end (SimOp *op)
{
  (void) op;
}

/* The calling thread learnt that OP is done: a synchronise, a successful
 * query, a call that waited. */
void
sim_order_host_waits (SimOp *op)
{
  (void) op;
}

/* EVENT now stands for OP; STREAM will wait for what EVENT stands for. */
void
sim_order_record (SimEvent *event, SimOp *op)
{
  (void) event;
  (void) op;
}

void
sim_order_wait (SimStream *stream, SimEvent *event)
{
  (void) stream;
  (void) event;
}
