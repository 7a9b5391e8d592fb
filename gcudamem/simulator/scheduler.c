/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Operations form a graph of "after". One thread, the worker, runs those that
 * wait for nothing, in an order of its own choosing; a second one, the call-back
 * thread, runs the program's functions, one at a time, as the real driver does.
 *
 * Memory is read and written by the worker with the lock held, so that mapping
 * and unmapping never race with it. The program's functions run without. */

#include "sim-private.h"
#include "gcudasim.h"

#include <time.h>

#define IDLE_US 50000

static struct
{
  GPtrArray *ready; /* owned references */
  GQueue calls;     /* for the call-back thread: SimOp */
  pthread_cond_t call_cond;
  guint64 n_pending;
  guint n_waiters;
  guint drains;     /* gcudasim_drain() in progress */
  gboolean calling; /* the call-back thread is in the program's code */
  gboolean polling; /* something waits for another process */
  gboolean stop;
  GThread *worker, *caller;
  gint64 last_time;
} scheduler;

SimOp *
sim_op_new (SimStream *stream, const SimWork *work)
{
  SimOp *op = g_new0 (SimOp, 1);

  op->refs = 1;
  op->id = sim_next_id ();
  op->stream = stream != NULL ? sim_stream_ref (stream) : NULL;
  op->context = stream != NULL ? stream->context : NULL;
  op->work = *work;
  return op;
}

SimOp *
sim_op_ref (SimOp *op)
{
  op->refs++;
  return op;
}

static void
op_release (gpointer op)
{
  sim_op_unref (op);
}

void
sim_op_unref (SimOp *op)
{
  if (--op->refs > 0)
    return;
  g_clear_pointer (&op->preds, g_ptr_array_unref);
  g_clear_pointer (&op->succs, g_ptr_array_unref);
  sim_work_clear (&op->work);
  if (op->stream != NULL)
    sim_stream_unref (op->stream);
  g_free (op);
}

gboolean
sim_op_done (SimOp *op)
{
  return op == NULL || op->state == SIM_OP_DONE;
}

/* OP, not submitted yet, starts after PRED. */
void
sim_op_after (SimOp *op, SimOp *pred)
{
  if (pred == NULL || pred == op)
    return;
  if (pred->state == SIM_OP_DONE)
    return;
  if (op->preds == NULL)
    op->preds = g_ptr_array_new_with_free_func (op_release);
  if (pred->succs == NULL)
    pred->succs = g_ptr_array_new_with_free_func (op_release);
  g_ptr_array_add (op->preds, sim_op_ref (pred));
  g_ptr_array_add (pred->succs, sim_op_ref (op));
  op->n_waits++;
}

/* After what its stream has before it. The legacy stream goes after all
 * blocking and per-thread streams of its context, and they after it. */
void
sim_op_after_stream (SimOp *op)
{
  SimStream *stream = op->stream;
  SimContext *context = stream->context;

  sim_op_after (op, stream->last);
  if (stream->kind == SIM_STREAM_LEGACY)
    {
      for (guint i = 0; i < context->streams->len; i++)
        {
          SimStream *other = g_ptr_array_index (context->streams, i);

          if (other != stream && other->blocking)
            sim_op_after (op, other->last);
        }
    }
  else if (stream->blocking && context->legacy != NULL)
    sim_op_after (op, context->legacy->last);
}

static void
make_ready (SimOp *op)
{
  op->state = SIM_OP_READY;
  g_ptr_array_add (scheduler.ready, sim_op_ref (op));
  pthread_cond_signal (&sim.work_cond);
}

void
sim_op_submit (SimOp *op, gboolean in_stream)
{
  sim_op_ref (op); /* until it is done */
  scheduler.n_pending++;
  if (op->context != NULL)
    op->context->pending++;
  if (in_stream)
    op->stream->last = op;
  if (op->n_waits == 0)
    make_ready (op);
}

/* Whether OP comes after PRED for sure. */
gboolean
sim_op_follows (SimOp *op, SimOp *pred)
{
  GPtrArray *todo;
  GHashTable *seen;
  gboolean found = FALSE;

  if (pred == NULL || pred->state == SIM_OP_DONE)
    return TRUE;
  if (op == NULL)
    return FALSE;
  if (op == pred)
    return TRUE;
  todo = g_ptr_array_new ();
  seen = g_hash_table_new (NULL, NULL);
  g_ptr_array_add (todo, op);
  while (todo->len > 0 && !found)
    {
      SimOp *next = g_ptr_array_remove_index_fast (todo, todo->len - 1);

      for (guint i = 0; next->preds != NULL && i < next->preds->len; i++)
        {
          SimOp *before = g_ptr_array_index (next->preds, i);

          if (before == pred)
            found = TRUE;
          if (before->state != SIM_OP_DONE && g_hash_table_add (seen, before))
            g_ptr_array_add (todo, before);
        }
    }
  g_ptr_array_unref (todo);
  g_hash_table_unref (seen);
  return found;
}

/* Somebody waits for OP: it and all before it may run, also if laziest. */
void
sim_op_demand (SimOp *op)
{
  GPtrArray *todo;

  if (op->state == SIM_OP_DONE || op->demanded)
    return;
  todo = g_ptr_array_new ();
  op->demanded = TRUE;
  g_ptr_array_add (todo, op);
  while (todo->len > 0)
    {
      SimOp *next = g_ptr_array_remove_index_fast (todo, todo->len - 1);

      for (guint i = 0; next->preds != NULL && i < next->preds->len; i++)
        {
          SimOp *before = g_ptr_array_index (next->preds, i);

          if (before->state != SIM_OP_DONE && !before->demanded)
            {
              before->demanded = TRUE;
              g_ptr_array_add (todo, before);
            }
        }
    }
  g_ptr_array_unref (todo);
  pthread_cond_signal (&sim.work_cond);
}

void
sim_op_wait (SimOp *op)
{
  sim_op_ref (op);
  sim_op_demand (op);
  scheduler.n_waiters++;
  while (op->state != SIM_OP_DONE && !g_atomic_int_get (&sim.exited))
    pthread_cond_wait (&sim.done_cond, &sim.lock);
  scheduler.n_waiters--;
  sim_op_unref (op);
}

void
sim_wait_all (GPtrArray *ops)
{
  for (guint i = 0; i < ops->len; i++)
    sim_op_demand (g_ptr_array_index (ops, i));
  for (guint i = 0; i < ops->len; i++)
    sim_op_wait (g_ptr_array_index (ops, i));
}

/* A query found OP not done. Laziest runs it when asked once more. */
void
sim_queried (SimOp *op)
{
  if (op->queried)
    sim_op_demand (op);
  op->queried = TRUE;
}

/* Queues WORK, which is taken over, in the order of STREAM. */
SimOp *
sim_submit_op (SimStream *stream, SimWork *work)
{
  SimOp *op = sim_op_new (stream, work);

  memset (work, 0, sizeof *work);
  sim_op_after_stream (op);
  sim_op_submit (op, TRUE);
  return op;
}

/* The same, or into the capture that STREAM is in. WORK is taken over. */
CUresult
sim_submit (SimStream *stream, SimWork *work)
{
  CUresult result = sim_capture_check_implicit (stream, TRUE);

  if (result == CUDA_SUCCESS && stream->capture != NULL)
    result = sim_capture_work (stream, work);
  else if (result == CUDA_SUCCESS)
    sim_op_unref (sim_submit_op (stream, work));
  sim_work_clear (work);
  return result;
}

static gint64
now (void)
{
  struct timespec t;
  gint64 time;

  clock_gettime (CLOCK_MONOTONIC, &t);
  time = (gint64) t.tv_sec * 1000000000 + t.tv_nsec;
  scheduler.last_time = MAX (time, scheduler.last_time + 1);
  return scheduler.last_time;
}

/* OP ended; those that waited for it may start. */
static void
op_finish (SimOp *op)
{
  SimStream *stream = op->stream;

  op->time = now ();
  op->state = SIM_OP_DONE;
  if (op->succs != NULL)
    {
      for (guint i = 0; i < op->succs->len; i++)
        {
          SimOp *next = g_ptr_array_index (op->succs, i);

          if (--next->n_waits == 0 && next->state == SIM_OP_PENDING)
            make_ready (next);
        }
      g_clear_pointer (&op->succs, g_ptr_array_unref);
    }
  g_clear_pointer (&op->preds, g_ptr_array_unref);
  scheduler.n_pending--;
  if (op->context != NULL)
    op->context->pending--;
  if (stream != NULL && stream->last == op)
    {
      stream->last = NULL;
      sim_stream_idle (stream);
    }
  sim_op_unref (op);
  if (scheduler.n_waiters > 0)
    pthread_cond_broadcast (&sim.done_cond);
}

static void
op_run (SimOp *op)
{
  gboolean lost = op->context != NULL && sim.lost != CUDA_SUCCESS;
  SimPool *pool = NULL;
  SimEvent *event = NULL;

  op->state = SIM_OP_RUNNING;
  switch (op->work.kind)
    {
    case SIM_WORK_SET:
      sim_work_guards (&op->work, FALSE);
      if (!lost && !sim_run_set (op->context, &op->work))
        sim_context_lose (op->context, CUDA_ERROR_ILLEGAL_ADDRESS);
      sim_work_guards (&op->work, TRUE);
      break;
    case SIM_WORK_COPY:
      sim_work_guards (&op->work, FALSE);
      if (!lost && !sim_run_copy (op->context, &op->work))
        sim_context_lose (op->context, CUDA_ERROR_ILLEGAL_ADDRESS);
      sim_work_guards (&op->work, TRUE);
      break;
    case SIM_WORK_ALLOC:
    case SIM_WORK_FREE:
      if (op->work.memory.graph)
        sim_graph_memory_executed (&op->work);
      else if (sim_range_committed (op->work.memory.address, op->work.memory.size))
        sim_poison (op->work.memory.address, op->work.memory.size, op->work.kind == SIM_WORK_ALLOC ? 0xcd : 0xdb);
      else if (op->work.kind == SIM_WORK_FREE)
        sim_zombie_remove (op->work.memory.address);
      /* Here, not with OP itself: the pool's blocks refer to OP. */
      pool = op->work.memory.pool;
      op->work.memory.pool = NULL;
      break;
    case SIM_WORK_WRITE_VALUE:
      if (!lost && sim_range_accessible (op->work.write.address, op->work.write.wide ? 8 : 4, TRUE, op->context->device))
        {
          sim_work_guards (&op->work, FALSE);
          memcpy (sim_host_view (op->work.write.address, op->work.write.wide ? 8 : 4), &op->work.write.value, op->work.write.wide ? 8 : 4);
          sim_work_guards (&op->work, TRUE);
        }
      break;
    case SIM_WORK_FINISH:
      sim_exec_finished (op->work.exec);
      break;
    case SIM_WORK_HOST:
    case SIM_WORK_CALLBACK:
    case SIM_WORK_DESTRUCTOR:
      g_queue_push_tail (&scheduler.calls, op);
      pthread_cond_signal (&scheduler.call_cond);
      return;
    case SIM_WORK_RECORD:
      if (op->work.event.number != 0)
        sim_ipc_event_executed (op->work.event.event, op->work.event.number);
      /* The event refers to OP in turn. */
      event = op->work.event.event;
      op->work.event.event = NULL;
      break;
    case SIM_WORK_EMPTY:
    case SIM_WORK_WAIT:
    case SIM_WORK_CHILD:
    case SIM_WORK_CONDITIONAL:
    default:
      break;
    }
  op_finish (op);
  if (pool != NULL)
    sim_pool_unref (pool);
  if (event != NULL)
    sim_event_unref (event);
}

/* What may run now; NULL: nothing. */
static SimOp *
pick (void)
{
  gboolean all = scheduler.drains > 0;
  guint n = 0, chosen = 0;

  scheduler.polling = FALSE;
  if (sim.held && !all)
    return NULL;
  if (scheduler.ready->len == 0)
    return NULL;
  if (!all && sim.scheduler == SIM_LAZIEST)
    all = g_get_monotonic_time () - sim.last_call >= IDLE_US;
  else
    all = TRUE;

  for (guint i = 0; i < scheduler.ready->len; i++)
    {
      SimOp *op = g_ptr_array_index (scheduler.ready, i);

      /* Waits for an event that another process recorded. */
      if (op->work.kind == SIM_WORK_WAIT && op->work.event.number != 0 && !sim_ipc_event_reached (op->work.event.event, op->work.event.number))
        {
          scheduler.polling = TRUE;
          continue;
        }
      if (all || op->demanded || op->work.kind == SIM_WORK_DESTRUCTOR)
        {
          n++;
          if (g_rand_int_range (sim.random, 0, (gint32) n) == 0)
            chosen = i;
        }
    }
  if (n == 0)
    return NULL;
  return g_ptr_array_remove_index_fast (scheduler.ready, chosen);
}

static void
wait_until (gint64 time)
{
  struct timespec t = { time / 1000000, time % 1000000 * 1000 };

  pthread_cond_timedwait (&sim.work_cond, &sim.lock, &t);
}

static gpointer
worker_main (gpointer data)
{
  (void) data;
  pthread_mutex_lock (&sim.lock);
  while (!scheduler.stop)
    {
      SimOp *op = pick ();

      if (op != NULL)
        {
          op_run (op);
          sim_op_unref (op);
          /* Let the host race ahead now and then. */
          if (sim.scheduler == SIM_SHUFFLED && g_rand_int_range (sim.random, 0, 8) == 0)
            {
              gulong pause = (gulong) g_rand_int_range (sim.random, 0, 60);

              pthread_mutex_unlock (&sim.lock);
              g_usleep (pause);
              pthread_mutex_lock (&sim.lock);
            }
        }
      else if (scheduler.polling)
        wait_until (g_get_monotonic_time () + 1000);
      else if (!sim.held && scheduler.ready->len > 0 && sim.scheduler == SIM_LAZIEST)
        wait_until (MAX (sim.last_call + IDLE_US, g_get_monotonic_time () + 1000));
      else
        pthread_cond_wait (&sim.work_cond, &sim.lock);
    }
  pthread_mutex_unlock (&sim.lock);
  return NULL;
}

static gpointer
caller_main (gpointer data)
{
  (void) data;
  sim_thread ()->driver_thread = TRUE;
  pthread_mutex_lock (&sim.lock);
  while (!scheduler.stop)
    {
      SimOp *op = g_queue_pop_head (&scheduler.calls);
      CUresult lost;

      if (op == NULL)
        {
          pthread_cond_wait (&scheduler.call_cond, &sim.lock);
          continue;
        }
      sim_op_ref (op);
      lost = op->context != NULL ? sim.lost : CUDA_SUCCESS;
      scheduler.calling = TRUE;
      pthread_mutex_unlock (&sim.lock);
      if (op->work.kind == SIM_WORK_CALLBACK)
        op->work.host.callback (op->work.host.stream, lost, op->work.host.data);
      else if (lost == CUDA_SUCCESS)
        op->work.host.function (op->work.host.data);
      pthread_mutex_lock (&sim.lock);
      scheduler.calling = FALSE;
      sim_check_guards_close ();
      op_finish (op);
      sim_op_unref (op);
    }
  pthread_mutex_unlock (&sim.lock);
  return NULL;
}

/* A destructor of a user object: on the driver's thread, some time later. */
void
sim_destructor_call (CUhostFn function, void *data)
{
  SimWork work = { .kind = SIM_WORK_DESTRUCTOR };
  SimOp *op;

  work.host.function = function;
  work.host.data = data;
  op = sim_op_new (NULL, &work);
  sim_op_submit (op, FALSE);
  sim_op_unref (op);
}

void
sim_scheduler_start (void)
{
  pthread_condattr_t monotonic;

  pthread_condattr_init (&monotonic);
  pthread_condattr_setclock (&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init (&sim.work_cond, &monotonic);
  pthread_condattr_destroy (&monotonic);
  pthread_cond_init (&scheduler.call_cond, NULL);
  scheduler.ready = g_ptr_array_new ();
  sim.last_call = g_get_monotonic_time ();
  scheduler.worker = g_thread_new ("gcudasim", worker_main, NULL);
  scheduler.caller = g_thread_new ("gcudasim-host", caller_main, NULL);
}

/* At exit. A host function that never returns is not waited for. */
void
sim_scheduler_stop (void)
{
  gboolean calling;

  pthread_mutex_lock (&sim.lock);
  scheduler.stop = TRUE;
  calling = scheduler.calling;
  pthread_cond_broadcast (&sim.work_cond);
  pthread_cond_broadcast (&scheduler.call_cond);
  pthread_mutex_unlock (&sim.lock);
  if (g_thread_self () == scheduler.caller)
    return;
  g_thread_join (scheduler.worker);
  if (!calling)
    g_thread_join (scheduler.caller);
}

SIM_EXPORT void
gcudasim_hold (int on)
{
  pthread_mutex_lock (&sim.lock);
  sim.held = on != 0;
  pthread_cond_broadcast (&sim.work_cond);
  pthread_mutex_unlock (&sim.lock);
}

SIM_EXPORT void
gcudasim_drain (void)
{
  pthread_mutex_lock (&sim.lock);
  scheduler.drains++;
  scheduler.n_waiters++;
  pthread_cond_broadcast (&sim.work_cond);
  while (scheduler.n_pending > 0 && !g_atomic_int_get (&sim.exited))
    pthread_cond_wait (&sim.done_cond, &sim.lock);
  scheduler.n_waiters--;
  scheduler.drains--;
  pthread_mutex_unlock (&sim.lock);
}

SIM_EXPORT unsigned long long
gcudasim_pending (void)
{
  unsigned long long n;

  pthread_mutex_lock (&sim.lock);
  n = scheduler.n_pending;
  pthread_mutex_unlock (&sim.lock);
  return n;
}

SIM_EXPORT int
gcudasim_set_scheduler (const char *name, unsigned int seed)
{
  gboolean laziest = g_strcmp0 (name, "laziest") == 0;

  if (!laziest && g_strcmp0 (name, "shuffled") != 0)
    return 0;
  pthread_mutex_lock (&sim.lock);
  sim.scheduler = laziest ? SIM_LAZIEST : SIM_SHUFFLED;
  sim.seed = seed;
  if (sim.random != NULL)
    g_rand_set_seed (sim.random, seed);
  sim.last_call = g_get_monotonic_time ();
  pthread_cond_broadcast (&sim.work_cond);
  pthread_mutex_unlock (&sim.lock);
  return 1;
}
