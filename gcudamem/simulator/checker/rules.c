/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What each driver call means for the order of things. A rule looks at a call
 * after it succeeded; where the call waits, also before it: what it waits for is
 * what was queued until then. Calls that say nothing of order have no rule. */

#include "checker.h"
#include "../gcudasim.h"

#include <sys/stat.h>

typedef struct
{
  SimCall *call;
  const char *function;
  SimThread *thread;
  CUcontext current;
  CUresult result;
  char *declared; /* a GRefString: the function, if it is not one of the driver's */
} Call;

struct _SimRule
{
  const char *function; /* without version and stream suffixes */
  void (*before) (Call *c, void **args);
  void (*after) (Call *c, void **args);
  guint flags;
};

#define FAILS_TOO 1 /* after is called whatever the result */
#define SITE      2 /* a report may name the place of the call */
#define WAITS     4 /* for work, perhaps: another driver is called without the lock */

#define ARG(type, n) (*(type *) args[n])

static guint n_captures;
static GHashTable *memory_handles; /* CUmemGenericAllocationHandle: CheckObject, a reference for each handle reference */
static GHashTable *primaries;      /* device + 1: CUcontext */

gpointer
check_driver_function (const char *name, gpointer simulated)
{
  return sim_passing () ? sim_real_function (name) : simulated;
}

/* ---- helpers ---- */

static CheckStream *
stream_of (Call *c, CUstream handle)
{
  return check_stream (c->thread, c->current, handle);
}

/* In a capture nothing happens yet: the graph's launches are looked at. */
static gboolean
is_capturing (Call *c, CUstream handle)
{
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

  if (n_captures == 0)
    return FALSE;
  if (handle == NULL && c->thread->per_thread)
    handle = CU_STREAM_PER_THREAD;
  return CHECK_DRIVER (cuStreamIsCapturing, handle, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* The stream that the call queues something in now, its clock ready; NULL: none. */
static CheckStream *
queue (Call *c, CUstream handle, guint64 *epoch)
{
  CheckStream *stream = is_capturing (c, handle) ? NULL : stream_of (c, handle);

  if (stream == NULL)
    return NULL;
  *epoch = check_stream_tick (stream);
  return stream;
}

static void
touch (Call *c, CheckStream *stream, guint64 epoch, CheckWhat what, guint64 address, guint64 size, gsize pitch, gsize rows)
{
  CheckOp *op = check_op_new (what, c->function, stream->name, stream->slot, epoch);

  if (c->declared != NULL)
    op->declared = g_ref_string_acquire (c->declared);
  check_access (op, &stream->clock, address, size, pitch, rows);
  check_op_unref (op);
}

static CheckOp *
host_op (const char *function, CheckWhat what)
{
  static char *names[2];
  CheckHost *host = check_host ();
  guint64 epoch = check_slot_tick (host->slot, &host->clock);
  CheckOp *op;
  char *name = NULL;

  host->version++;
  if (sim.check_threads)
    {
      char *text = g_strdup_printf ("thread %" G_GUINT64_FORMAT, host->thread);

      name = g_ref_string_new (text);
      g_free (text);
    }
  else
    {
      if (names[0] == NULL)
        names[0] = g_ref_string_new ("the program");
      name = g_ref_string_acquire (names[0]);
    }
  op = check_op_new (what, function, name, host->slot, epoch);
  op->host = TRUE;
  g_ref_string_release (name);
  return op;
}

static void
add_memory (CheckMemory memory, CUcontext context, guint64 address, guint64 size, CheckOp *made)
{
  CheckObject *object;

  if (address == 0 || size == 0)
    {
      check_op_unref (made);
      return;
    }
  made->address = address;
  made->size = size;
  object = check_object_new (memory, address, size, made);
  object->context = context;
  check_map (address, size, object, 0);
  check_object_unref (object);
  check_op_unref (made);
}

static gboolean
is_known (guint64 address)
{
  guint64 offset, length;

  return check_lookup (address, &offset, &length) != NULL;
}

/* ---- what waits ---- */

static void
wait_end (Call *c, void **args)
{
  (void) args;
  check_host_learn (&c->call->waits_for);
}

static void
before_stream_wait (Call *c, void **args)
{
  CheckStream *stream = is_capturing (c, ARG (CUstream, 0)) ? NULL : stream_of (c, ARG (CUstream, 0));

  if (stream != NULL)
    check_stream_past (stream, &c->call->waits_for);
}

static void
before_event_wait (Call *c, void **args)
{
  CheckEvent *event = check_event (ARG (CUevent, 0));

  check_clock_join (&c->call->waits_for, &event->clock);
  if (event->shared != NULL)
    check_shared_event_wait (event, &c->call->waits_for);
}

static void
before_context_wait (Call *c, void **args)
{
  CUcontext context = args != NULL ? ARG (CUcontext, 0) : c->current;

  check_streams_join (&c->call->waits_for, context, NULL);
}

/* Where the memory is, or for host memory all of them. */
static void
before_device_wait (Call *c, void **args)
{
  CUdevice device = 0;
  gboolean of_device = strcmp (c->function, "cuMemFree") == 0 &&
                       CHECK_DRIVER (cuPointerGetAttribute, &device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, ARG (CUdeviceptr, 0)) == CUDA_SUCCESS;
  guint64 offset, length;

  check_streams_join (&c->call->waits_for, NULL, of_device ? &device : NULL);
  c->call->memory = check_lookup (ARG (guint64, 0), &offset, &length);
  if (c->call->memory != NULL)
    {
      check_object_ref (c->call->memory);
      check_guard_drop (ARG (guint64, 0), length);
    }
}

static void
after_elapsed (Call *c, void **args)
{
  (void) c;
  check_host_learn (&check_event (ARG (CUevent, 1))->clock);
  check_host_learn (&check_event (ARG (CUevent, 2))->clock);
}

/* ---- contexts ---- */

static void
before_context_end (Call *c, void **args)
{
  before_context_wait (c, args);
  check_guard_drop (0, G_MAXINT64);
}

static void
after_context_destroy (Call *c, void **args)
{
  wait_end (c, args);
  check_context_end (ARG (CUcontext, 0));
}

static void
after_primary_retain (Call *c, void **args)
{
  (void) c;
  if (primaries == NULL)
    primaries = g_hash_table_new (NULL, NULL);
  g_hash_table_insert (primaries, GINT_TO_POINTER (ARG (CUdevice, 1) + 1), *ARG (CUcontext *, 0));
}

static CUcontext
primary_of (CUdevice device)
{
  return primaries != NULL ? g_hash_table_lookup (primaries, GINT_TO_POINTER (device + 1)) : NULL;
}

static void
before_primary_end (Call *c, void **args)
{
  CUcontext context = primary_of (ARG (CUdevice, 0));

  if (context != NULL)
    check_streams_join (&c->call->waits_for, context, NULL);
  check_guard_drop (0, G_MAXINT64);
}

static void
after_primary_end (Call *c, void **args)
{
  CUdevice device = ARG (CUdevice, 0);
  unsigned int flags;
  int active = 0;
  gboolean reset = strcmp (c->function, "cuDevicePrimaryCtxReset") == 0;

  if (primary_of (device) == NULL || (!reset && CHECK_DRIVER (cuDevicePrimaryCtxGetState, device, &flags, &active) == CUDA_SUCCESS && active))
    return;
  wait_end (c, args);
  check_context_end (primary_of (device));
}

/* ---- streams ---- */

static void
after_stream_create (Call *c, void **args)
{
  check_stream_add (*ARG (CUstream *, 0), c->current, !(ARG (unsigned int, 1) & CU_STREAM_NON_BLOCKING));
}

static void
after_stream_destroy (Call *c, void **args)
{
  (void) c;
  check_stream_end (ARG (CUstream, 0));
}

static void
after_capture_begin (Call *c, void **args)
{
  (void) c;
  (void) args;
  n_captures++;
}

static void
after_capture_end (Call *c, void **args)
{
  (void) args;
  /* After any other error it goes on, or never was. */
  if (n_captures > 0 && (c->result == CUDA_SUCCESS || c->result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED || c->result == CUDA_ERROR_STREAM_CAPTURE_UNJOINED))
    n_captures--;
}

/* ---- events ---- */

static void
after_record (Call *c, void **args)
{
  CheckEvent *event = check_event (ARG (CUevent, 0));
  gboolean captured = is_capturing (c, ARG (CUstream, 1));
  CheckStream *stream;

  /* This makes a node, and the event stays as it is until that is launched. */
  if (captured && strcmp (c->function, "cuEventRecordWithFlags") == 0 && (ARG (unsigned int, 2) & CU_EVENT_RECORD_EXTERNAL))
    return;
  event->captured = captured;
  check_clock_clear (&event->clock);
  if (event->captured || (stream = stream_of (c, ARG (CUstream, 1))) == NULL)
    return;
  check_clock_copy (&event->clock, check_stream_now (stream));
  if (event->shared != NULL)
    check_shared_event_recorded (event);
}

static void
after_wait (Call *c, void **args)
{
  CheckEvent *event = check_event (ARG (CUevent, 1));
  CheckStream *stream;

  if (event->captured || is_capturing (c, ARG (CUstream, 0)) || (stream = stream_of (c, ARG (CUstream, 0))) == NULL)
    return;
  check_stream_wait (stream, &event->clock);
  if (event->shared != NULL)
    {
      CheckClock clock = { NULL, 0 };

      check_shared_event_wait (event, &clock);
      check_stream_wait (stream, &clock);
      check_clock_clear (&clock);
    }
}

static void
after_context_record (Call *c, void **args)
{
  CheckEvent *event = check_event (ARG (CUevent, 1));

  (void) c;
  event->captured = FALSE;
  check_clock_clear (&event->clock);
  check_clock_join (&event->clock, &check_host ()->clock);
  check_streams_join (&event->clock, ARG (CUcontext, 0), NULL);
}

static void
after_context_wait_event (Call *c, void **args)
{
  (void) c;
  check_streams_wait (ARG (CUcontext, 0), &check_event (ARG (CUevent, 1))->clock);
}

/* One whose context went unseen may have had the handle. */
static void
after_event_create (Call *c, void **args)
{
  (void) c;
  check_event_end (*ARG (CUevent *, 0));
}

static void
after_event_destroy (Call *c, void **args)
{
  (void) c;
  check_event_end (ARG (CUevent, 0));
}

/* ---- functions of the program ---- */

typedef struct _HostCall HostCall;

struct _HostCall
{
  CUhostFn function;
  CUstreamCallback callback;
  void *data;
  CheckPlace place;
  CUuserObject object; /* of a destructor */
  HostCall *next;
};

/* It runs after the stream's work, and what it tells the program's threads is
 * true from then on. Never waits for the lock: who holds that may be in a call
 * that waits for this function. */
static HostCall *learnt; /* atomic */
static gint n_ahead;     /* atomic: of them, that are not over */
static __thread CheckPlace here;
static __thread gboolean is_here;

CheckOp *
check_program_op (CheckWhat what, const char *function, const CheckClock **clock)
{
  static char *name;
  CheckOp *op;

  if (!is_here)
    {
      *clock = &check_host ()->clock;
      return host_op (function, what);
    }
  if (name == NULL)
    name = g_ref_string_new ("a function that a stream runs");
  op = check_op_new (what, function, name, here.slot, here.epoch);
  op->host = TRUE;
  *clock = &here.clock;
  return op;
}

gboolean
check_place_is_here (void)
{
  return is_here;
}

gboolean
check_place_is_ahead (void)
{
  return g_atomic_int_get (&n_ahead) > 0;
}

static void
host_call_begin (HostCall *host)
{
  HostCall *first;

  is_here = TRUE;
  here.slot = host->place.slot;
  here.epoch = host->place.epoch;
  here.clock.n = host->place.clock.n;
  here.clock.epochs = g_memdup2 (host->place.clock.epochs, here.clock.n * sizeof (guint64));
  do
    {
      first = g_atomic_pointer_get (&learnt);
      host->next = first;
    }
  while (!g_atomic_pointer_compare_and_exchange (&learnt, first, host));
}

/* What a program that ends leaves undone is known here still. */
static GHashTable *host_calls;
static GHashTable *destructors; /* user object: HostCall */

static void
host_call_free (HostCall *host)
{
  g_hash_table_remove (host_calls, host);
  if (destructors != NULL && g_hash_table_lookup (destructors, host->object) == host)
    g_hash_table_remove (destructors, host->object);
  check_clock_clear (&host->place.clock);
  g_free (host);
}

static void
host_call_end (void)
{
  is_here = FALSE;
  g_atomic_int_add (&n_ahead, -1);
  check_clock_clear (&here.clock);
}

/* With the lock. */
void
check_learn (void)
{
  HostCall *host = g_atomic_pointer_get (&learnt);

  if (host == NULL)
    return;
  while (!g_atomic_pointer_compare_and_exchange (&learnt, host, NULL))
    host = g_atomic_pointer_get (&learnt);
  while (host != NULL)
    {
      HostCall *next = host->next;

      /* Independent threads hear of it by what it does, which is not seen. */
      if (!sim.check_threads)
        check_host_learn (&host->place.clock);
      host_call_free (host);
      host = next;
    }
}

static void CUDA_CB
host_call_run (void *data)
{
  HostCall *host = data;
  CUhostFn function = host->function;
  void *theirs = host->data;

  host_call_begin (host);
  function (theirs);
  host_call_end ();
}

static void CUDA_CB
host_call_callback (CUstream stream, CUresult status, void *data)
{
  HostCall *host = data;
  CUstreamCallback callback = host->callback;
  void *theirs = host->data;

  host_call_begin (host);
  callback (stream, status, theirs);
  host_call_end ();
}

static HostCall *
host_call_new (Call *c, CUstream handle, void *data)
{
  CheckStream *stream = is_capturing (c, handle) ? NULL : stream_of (c, handle);
  HostCall *host;

  if (stream == NULL)
    return NULL;
  host = g_new0 (HostCall, 1);
  if (host_calls == NULL)
    host_calls = g_hash_table_new (NULL, NULL);
  g_hash_table_add (host_calls, host);
  host->data = data;
  host->place.epoch = check_stream_tick (stream);
  host->place.slot = stream->slot;
  check_clock_copy (&host->place.clock, &stream->clock);
  g_atomic_int_inc (&n_ahead);
  return host;
}

static void
before_host_function (Call *c, void **args)
{
  HostCall *host = ARG (CUhostFn, 1) != NULL ? host_call_new (c, ARG (CUstream, 0), ARG (void *, 2)) : NULL;

  if (host == NULL)
    return;
  host->function = ARG (CUhostFn, 1);
  ARG (CUhostFn, 1) = host_call_run;
  ARG (void *, 2) = host;
}

static void
before_callback (Call *c, void **args)
{
  HostCall *host = ARG (CUstreamCallback, 1) != NULL ? host_call_new (c, ARG (CUstream, 0), ARG (void *, 2)) : NULL;

  if (host == NULL)
    return;
  host->callback = ARG (CUstreamCallback, 1);
  ARG (CUstreamCallback, 1) = host_call_callback;
  ARG (void *, 2) = host;
}

static void
after_host_function (Call *c, void **args)
{
  HostCall *host = ARG (void *, 2);

  if (c->result == CUDA_SUCCESS || (ARG (CUhostFn, 1) != host_call_run && ARG (CUstreamCallback, 1) != host_call_callback))
    return;
  g_atomic_int_add (&n_ahead, -1);
  host_call_free (host);
}

/* A destructor of a user object runs when all launches are over that had it, and tells so. It can't use memory by itself. */
static void CUDA_CB
destructor_run (void *data)
{
  HostCall *host = data, *first;
  CUhostFn function = host->function;
  void *theirs = host->data;

  do
    {
      first = g_atomic_pointer_get (&learnt);
      host->next = first;
    }
  while (!g_atomic_pointer_compare_and_exchange (&learnt, first, host));
  function (theirs);
}

static void
before_user_object (Call *c, void **args)
{
  HostCall *host;

  (void) c;
  if (ARG (CUhostFn, 2) == NULL)
    return;
  host = g_new0 (HostCall, 1);
  if (host_calls == NULL)
    host_calls = g_hash_table_new (NULL, NULL);
  g_hash_table_add (host_calls, host);
  host->function = ARG (CUhostFn, 2);
  host->data = ARG (void *, 1);
  ARG (CUhostFn, 2) = destructor_run;
  ARG (void *, 1) = host;
}

static void
after_user_object (Call *c, void **args)
{
  HostCall *host = ARG (void *, 1);

  if (ARG (CUhostFn, 2) != destructor_run)
    return;
  if (c->result != CUDA_SUCCESS)
    {
      host_call_free (host);
      return;
    }
  host->object = *ARG (CUuserObject *, 0);
  if (destructors == NULL)
    destructors = g_hash_table_new (NULL, NULL);
  g_hash_table_insert (destructors, host->object, host);
}

void
check_user_object_launched (CUuserObject object, const CheckClock *clock)
{
  HostCall *host = destructors != NULL ? g_hash_table_lookup (destructors, object) : NULL;

  if (host != NULL)
    check_clock_join (&host->place.clock, clock);
}

/* ---- memory ---- */

static void
after_alloc (Call *c, void **args)
{
  add_memory (CHECK_MEMORY_DEVICE, c->current, *ARG (CUdeviceptr *, 0), ARG (gsize, 1), host_op (c->function, CHECK_ALLOCATION));
}

static void
after_alloc_pitch (Call *c, void **args)
{
  add_memory (CHECK_MEMORY_DEVICE, c->current, *ARG (CUdeviceptr *, 0), *ARG (gsize *, 1) * ARG (gsize, 3), host_op (c->function, CHECK_ALLOCATION));
}

static void
after_alloc_managed (Call *c, void **args)
{
  add_memory (CHECK_MEMORY_MANAGED, c->current, *ARG (CUdeviceptr *, 0), ARG (gsize, 1), host_op (c->function, CHECK_ALLOCATION));
}

static void
after_alloc_host (Call *c, void **args)
{
  add_memory (CHECK_MEMORY_PINNED, c->current, (guintptr) *ARG (void **, 0), ARG (gsize, 1), host_op (c->function, CHECK_ALLOCATION));
}

static void
after_host_register (Call *c, void **args)
{
  add_memory (CHECK_MEMORY_REGISTERED, c->current, (guintptr) ARG (void *, 0), ARG (gsize, 1), host_op (c->function, CHECK_ALLOCATION));
}

static void
alloc_async (Call *c, CheckMemory memory, guint64 address, gsize size, CUstream handle)
{
  guint64 epoch, offset, length;
  CheckStream *stream = address != 0 ? queue (c, handle, &epoch) : NULL;
  CheckOp *op;

  if (stream == NULL)
    return;
  op = check_op_ref (check_op_new (CHECK_ALLOCATION, c->function, stream->name, stream->slot, epoch));
  add_memory (memory, c->current, address, size, op);
  if (memory != CHECK_MEMORY_POOL && size > 0)
    check_guard_add (check_lookup (address, &offset, &length), address, address, size, op);
  check_op_unref (op);
}

static CheckMemory
pool_memory (guint64 address)
{
  unsigned int managed = 0, type = 0;

  if (address == 0 || CHECK_DRIVER (cuPointerGetAttribute, &managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address) != CUDA_SUCCESS)
    return CHECK_MEMORY_POOL;
  if (managed)
    return CHECK_MEMORY_MANAGED_POOL;
  return CHECK_DRIVER (cuPointerGetAttribute, &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == CUDA_SUCCESS && type == CU_MEMORYTYPE_HOST ? CHECK_MEMORY_HOST_POOL : CHECK_MEMORY_POOL;
}

static void
after_alloc_async (Call *c, void **args)
{
  alloc_async (c, CHECK_MEMORY_POOL, *ARG (CUdeviceptr *, 0), ARG (gsize, 1), ARG (CUstream, 2));
}

static void
after_alloc_from_pool (Call *c, void **args)
{
  alloc_async (c, pool_memory (*ARG (CUdeviceptr *, 0)), *ARG (CUdeviceptr *, 0), ARG (gsize, 1), ARG (CUstream, 3));
}

static void
after_free_async (Call *c, void **args)
{
  guint64 epoch;
  CheckStream *stream = ARG (CUdeviceptr, 0) != 0 ? queue (c, ARG (CUstream, 1), &epoch) : NULL;
  CheckOp *op;

  if (stream == NULL)
    return;
  op = check_op_new (CHECK_FREE, c->function, stream->name, stream->slot, epoch);
  check_free (op, &stream->clock, ARG (CUdeviceptr, 0));
  check_op_unref (op);
}

/* These wait for the device. */
static void
after_free (Call *c, void **args)
{
  CheckOp *op;

  guint64 offset, length;

  wait_end (c, args);
  /* Another thread may have been given the address meanwhile. */
  if (c->call->memory == NULL || check_lookup (ARG (guint64, 0), &offset, &length) != c->call->memory)
    return;
  op = host_op (c->function, CHECK_FREE);
  check_free (op, &check_host ()->clock, ARG (CUdeviceptr, 0));
  check_op_unref (op);
}

/* ---- memset, copies ---- */

static void
after_memset (Call *c, CUstream handle, guint64 address, guint64 width, gsize pitch, gsize rows)
{
  guint64 epoch, offset, length;
  CheckObject *object;
  CheckStream *stream;

  if (width == 0 || rows == 0 || (stream = queue (c, handle, &epoch)) == NULL)
    return;
  touch (c, stream, epoch, CHECK_WRITE, address, width, pitch, rows);
  /* The call waits if the memory is the host's, and only then. */
  if (g_str_has_prefix (c->function, "cuMemset") && !g_str_has_suffix (c->function, "Async") && (object = check_lookup (address, &offset, &length)) != NULL &&
      check_is_of_host (object))
    check_host_learn (&stream->clock);
}

/* cuMemsetD{8,16,32}[Async] and cuMemsetD2D{8,16,32}[Async] */
static void
after_memset_1d (Call *c, void **args)
{
  guint element = strncmp (c->function, "cuMemsetD8", 10) == 0 ? 1 : strncmp (c->function, "cuMemsetD16", 11) == 0 ? 2
                                                                                                                   : 4;

  after_memset (c, g_str_has_suffix (c->function, "Async") ? ARG (CUstream, 3) : NULL, ARG (CUdeviceptr, 0), ARG (gsize, 2) * element, 0, 1);
}

static void
after_memset_2d (Call *c, void **args)
{
  guint element = strncmp (c->function, "cuMemsetD2D8", 12) == 0 ? 1 : strncmp (c->function, "cuMemsetD2D16", 13) == 0 ? 2
                                                                                                                       : 4;

  after_memset (c, g_str_has_suffix (c->function, "Async") ? ARG (CUstream, 5) : NULL, ARG (CUdeviceptr, 0), ARG (gsize, 3) * element, ARG (gsize, 1), ARG (gsize, 4));
}

/* Where a copy begins. What is not given follows from what is copied. */
CheckSide
check_side (CUmemorytype type, const void *host, CUdeviceptr device, gsize pitch, gsize rows, gsize x, gsize y, gsize z, gsize width, gsize height)
{
  CheckSide side = { type == CU_MEMORYTYPE_HOST ? (guintptr) host : device, pitch != 0 ? pitch : x + width, 0 };

  side.slice = side.pitch * (rows != 0 ? rows : y + height);
  side.address += z * side.slice + y * side.pitch + x;
  return side;
}

static void
touch_side (Call *c, CheckStream *stream, guint64 epoch, CheckWhat what, const CheckSide *side, gsize width, gsize height, gsize depth)
{
  for (gsize z = 0; z < depth; z++)
    touch (c, stream, epoch, what, side->address + z * side->slice, width, side->pitch, height);
}

static void
copied (Call *c, gboolean waits, CUstream handle, const CheckSide *dst, const CheckSide *src, gsize width, gsize height, gsize depth)
{
  gboolean from_host, to_host;
  CheckStream *stream;
  guint64 epoch;

  if (width == 0 || height == 0 || depth == 0 || is_capturing (c, handle) || (stream = stream_of (c, handle)) == NULL)
    return;
  /* Ordinary memory of the program's */
  from_host = !is_known (src->address);
  to_host = !is_known (dst->address);
  /* From ordinary memory the call waits, then takes the bytes; they arrive later. */
  if (waits && from_host)
    check_host_learn (check_stream_now (stream));
  epoch = check_stream_tick (stream);
  if (!from_host)
    touch_side (c, stream, epoch, CHECK_READ, src, width, height, depth);
  if (!to_host)
    touch_side (c, stream, epoch, CHECK_WRITE, dst, width, height, depth);
  if (to_host)
    check_host_learn (&stream->clock);
  else if (waits)
    {
      guint64 offset, length;
      CheckObject *a = check_lookup (src->address, &offset, &length), *b = check_lookup (dst->address, &offset, &length);

      if ((a != NULL && (a->memory == CHECK_MEMORY_PINNED || a->memory == CHECK_MEMORY_REGISTERED)) ||
          (b != NULL && (b->memory == CHECK_MEMORY_PINNED || b->memory == CHECK_MEMORY_REGISTERED)))
        check_host_learn (&stream->clock);
    }
}

static void
copied_bytes (Call *c, gboolean waits, CUstream handle, guint64 dst, guint64 src, gsize size)
{
  CheckSide d = { dst, 0, 0 }, s = { src, 0, 0 };

  copied (c, waits, handle, &d, &s, size, 1, 1);
}

static void
after_copy (Call *c, void **args)
{
  copied_bytes (c, TRUE, NULL, ARG (guint64, 0), ARG (guint64, 1), ARG (gsize, 2));
}

static void
after_copy_async (Call *c, void **args)
{
  copied_bytes (c, FALSE, ARG (CUstream, 3), ARG (guint64, 0), ARG (guint64, 1), ARG (gsize, 2));
}

static void
after_copy_peer (Call *c, void **args)
{
  copied_bytes (c, TRUE, NULL, ARG (guint64, 0), ARG (guint64, 2), ARG (gsize, 4));
}

static void
after_copy_peer_async (Call *c, void **args)
{
  copied_bytes (c, FALSE, ARG (CUstream, 5), ARG (guint64, 0), ARG (guint64, 2), ARG (gsize, 4));
}

static void
copied_2d (Call *c, gboolean waits, CUstream handle, const CUDA_MEMCPY2D *p)
{
  CheckSide d = check_side (p->dstMemoryType, p->dstHost, p->dstDevice, p->dstPitch, 0, p->dstXInBytes, p->dstY, 0, p->WidthInBytes, p->Height);
  CheckSide s = check_side (p->srcMemoryType, p->srcHost, p->srcDevice, p->srcPitch, 0, p->srcXInBytes, p->srcY, 0, p->WidthInBytes, p->Height);

  if (p->dstMemoryType == CU_MEMORYTYPE_ARRAY || p->srcMemoryType == CU_MEMORYTYPE_ARRAY)
    return;
  copied (c, waits, handle, &d, &s, p->WidthInBytes, p->Height, 1);
}

static void
after_copy_2d (Call *c, void **args)
{
  copied_2d (c, TRUE, NULL, ARG (const CUDA_MEMCPY2D *, 0));
}

static void
after_copy_2d_async (Call *c, void **args)
{
  copied_2d (c, FALSE, ARG (CUstream, 1), ARG (const CUDA_MEMCPY2D *, 0));
}

/* The structure for peers begins alike, and has the same names. */
#define COPIED_3D(c, waits, handle, p)                                                                                                                                                   \
  G_STMT_START                                                                                                                                                                           \
  {                                                                                                                                                                                      \
    CheckSide d_ = check_side ((p)->dstMemoryType, (p)->dstHost, (p)->dstDevice, (p)->dstPitch, (p)->dstHeight, (p)->dstXInBytes, (p)->dstY, (p)->dstZ, (p)->WidthInBytes, (p)->Height); \
    CheckSide s_ = check_side ((p)->srcMemoryType, (p)->srcHost, (p)->srcDevice, (p)->srcPitch, (p)->srcHeight, (p)->srcXInBytes, (p)->srcY, (p)->srcZ, (p)->WidthInBytes, (p)->Height); \
    if ((p)->dstMemoryType != CU_MEMORYTYPE_ARRAY && (p)->srcMemoryType != CU_MEMORYTYPE_ARRAY)                                                                                          \
      copied (c, waits, handle, &d_, &s_, (p)->WidthInBytes, (p)->Height, (p)->Depth);                                                                                                   \
  }                                                                                                                                                                                      \
  G_STMT_END

static void
after_copy_3d (Call *c, void **args)
{
  COPIED_3D (c, TRUE, NULL, ARG (const CUDA_MEMCPY3D *, 0));
}

static void
after_copy_3d_async (Call *c, void **args)
{
  COPIED_3D (c, FALSE, ARG (CUstream, 1), ARG (const CUDA_MEMCPY3D *, 0));
}

static void
after_copy_3d_peer (Call *c, void **args)
{
  COPIED_3D (c, TRUE, NULL, ARG (const CUDA_MEMCPY3D_PEER *, 0));
}

static void
after_copy_3d_peer_async (Call *c, void **args)
{
  COPIED_3D (c, FALSE, ARG (CUstream, 1), ARG (const CUDA_MEMCPY3D_PEER *, 0));
}

/* Headers before CUDA 12.8 do not have it. */
typedef struct
{
  int source_order;
  CUmemLocation source, destination;
  unsigned int flags;
} CopyAttributes;

enum
{
  ORDER_STREAM = 1,
  ORDER_DURING_CALL = 2,
};

/* What is read in the call, or may be: by the program, as it were. */
static void
read_at_call (Call *c, guint64 address, gsize size)
{
  const CheckClock *clock;
  CheckOp *op = check_program_op (CHECK_READ, c->function, &clock);

  check_access (op, clock, address, size, 0, 1);
  check_op_unref (op);
}

static void
after_copy_batch (Call *c, void **args)
{
  /* The older form has one more argument before the stream. */
  CUstream handle = strncmp (c->call->symbol, "cuMemcpyBatchAsync_v2", 21) == 0 ? ARG (CUstream, 7) : ARG (CUstream, 8);
  const CopyAttributes *attributes = ARG (const CopyAttributes *, 4);
  const gsize *indices = ARG (const gsize *, 5);

  for (gsize i = 0, a = 0; i < ARG (gsize, 3); i++)
    {
      const guint64 to = ARG (CUdeviceptr *, 0)[i], from = ARG (CUdeviceptr *, 1)[i];
      const gsize size = ARG (gsize *, 2)[i];
      CheckStream *stream;

      if (a + 1 < ARG (gsize, 6) && indices[a + 1] <= i)
        a++;
      if (attributes[a].source_order != ORDER_STREAM && is_known (from))
        read_at_call (c, from, size);
      if (attributes[a].source_order != ORDER_DURING_CALL)
        {
          copied_bytes (c, FALSE, handle, to, from, size);
        }
      else if (is_known (to) && (stream = stream_of (c, handle)) != NULL)
        {
          const CheckSide side = { to, 0, 0 };

          touch_side (c, stream, check_stream_tick (stream), CHECK_WRITE, &side, size, 1, 1);
        }
    }
}

static void
after_write_value (Call *c, void **args)
{
  after_memset (c, ARG (CUstream, 0), ARG (CUdeviceptr, 1), strstr (c->function, "64") != NULL ? 8 : 4, 0, 1);
}

/* ---- managed memory ---- */

static void
managed_batch (Call *c, CheckWhat what, CUstream handle, CUdeviceptr *addresses, gsize *sizes, gsize count)
{
  guint64 epoch;
  CheckStream *stream = count > 0 ? queue (c, handle, &epoch) : NULL;

  for (gsize i = 0; stream != NULL && i < count; i++)
    touch (c, stream, epoch, what, addresses[i], sizes[i], 0, 1);
}

static void
after_prefetch (Call *c, void **args)
{
  /* The newer form has one more argument before the stream. */
  CUstream handle = strncmp (c->call->symbol, "cuMemPrefetchAsync_v2", 21) == 0 ? ARG (CUstream, 4) : ARG (CUstream, 3);

  managed_batch (c, CHECK_MOVE, handle, args[0], args[1], 1);
}

static void
after_prefetch_batch (Call *c, void **args)
{
  managed_batch (c, CHECK_MOVE, ARG (CUstream, 7), ARG (CUdeviceptr *, 0), ARG (gsize *, 1), ARG (gsize, 2));
}

/* What it held is gone: whoever reads it then reads what was not written. */
static void
after_discard_batch (Call *c, void **args)
{
  managed_batch (c, CHECK_WRITE, ARG (CUstream, 4), ARG (CUdeviceptr *, 0), ARG (gsize *, 1), ARG (gsize, 2));
}

static void
after_discard_and_prefetch_batch (Call *c, void **args)
{
  managed_batch (c, CHECK_WRITE, ARG (CUstream, 7), ARG (CUdeviceptr *, 0), ARG (gsize *, 1), ARG (gsize, 2));
}

/* ---- virtual memory ---- */

static void
object_release (gpointer object)
{
  check_object_unref (object);
}

/* A handle stands for its object once for each time that it was given out. */
static void
handle_add (CUmemGenericAllocationHandle handle, CheckObject *object)
{
  GPtrArray *references;

  if (memory_handles == NULL)
    memory_handles = g_hash_table_new_full (NULL, NULL, NULL, (GDestroyNotify) g_ptr_array_unref);
  references = g_hash_table_lookup (memory_handles, GSIZE_TO_POINTER (handle));
  if (references == NULL)
    {
      references = g_ptr_array_new_with_free_func (object_release);
      g_hash_table_insert (memory_handles, GSIZE_TO_POINTER (handle), references);
    }
  g_ptr_array_add (references, object);
}

static CheckObject *
handle_object (CUmemGenericAllocationHandle handle)
{
  GPtrArray *references = memory_handles != NULL ? g_hash_table_lookup (memory_handles, GSIZE_TO_POINTER (handle)) : NULL;

  return references != NULL ? g_ptr_array_index (references, 0) : NULL;
}

static void
after_memory_create (Call *c, void **args)
{
  CheckOp *op = host_op (c->function, CHECK_ALLOCATION);

  op->size = ARG (gsize, 1);
  handle_add (*ARG (CUmemGenericAllocationHandle *, 0), check_object_new (CHECK_MEMORY_VIRTUAL, 0, ARG (gsize, 1), op));
  check_op_unref (op);
}

static void
after_memory_retain (Call *c, void **args)
{
  guint64 offset, length;
  CheckObject *object = check_lookup ((guintptr) ARG (void *, 1), &offset, &length);

  (void) c;
  if (object != NULL)
    handle_add (*ARG (CUmemGenericAllocationHandle *, 0), check_object_ref (object));
}

static void
after_memory_release (Call *c, void **args)
{
  GPtrArray *references = memory_handles != NULL ? g_hash_table_lookup (memory_handles, GSIZE_TO_POINTER (ARG (CUmemGenericAllocationHandle, 0))) : NULL;

  (void) c;
  if (references == NULL)
    return;
  g_ptr_array_remove_index_fast (references, references->len - 1);
  if (references->len == 0)
    g_hash_table_remove (memory_handles, GSIZE_TO_POINTER (ARG (CUmemGenericAllocationHandle, 0)));
}

static void
after_memory_map (Call *c, void **args)
{
  CheckObject *object = handle_object (ARG (CUmemGenericAllocationHandle, 3));

  (void) c;
  if (object == NULL)
    return;
  if (object->base == 0)
    object->base = ARG (CUdeviceptr, 0);
  check_map (ARG (CUdeviceptr, 0), ARG (gsize, 1), object, ARG (gsize, 2));
}

static void
after_memory_unmap (Call *c, void **args)
{
  CheckOp *op = host_op (c->function, CHECK_UNMAP);

  check_unmapping (op, &check_host ()->clock, ARG (CUdeviceptr, 0), ARG (gsize, 1));
  check_op_unref (op);
}

/* ---- between processes ---- */

static void
export_object (CheckObject *object, const char *kind, gconstpointer key, gsize size)
{
  CheckShared *shared = object != NULL && object->shared == NULL ? check_shared_get (kind, key, size, TRUE) : NULL;

  if (shared != NULL)
    check_object_share (object, shared);
}

/* What another process exported is there already: it says what it did to it. */
static void
import_object (Call *c, guint64 address, const char *kind, gconstpointer key, gsize key_size)
{
  CUdeviceptr base = 0;
  gsize size = 0;
  guint64 offset, length;
  CheckObject *object = check_lookup (address, &offset, &length);
  CheckOp *op;

  /* A second time */
  if (object != NULL && object->memory == CHECK_MEMORY_SHARED && object->base == address && !check_is_freed (address))
    return;
  if (CHECK_DRIVER (cuMemGetAddressRange_v2, &base, &size, address) != CUDA_SUCCESS || base != address)
    return;
  op = host_op (c->function, CHECK_ALLOCATION);
  op->address = address;
  op->size = size;
  object = check_object_new (CHECK_MEMORY_SHARED, address, size, op);
  object->shared = check_shared_get (kind, key, key_size, FALSE);
  check_map (address, size, object, 0);
  check_object_unref (object);
  check_op_unref (op);
}

static void
after_ipc_get_memory (Call *c, void **args)
{
  guint64 offset, length;

  (void) c;
  export_object (check_lookup (ARG (CUdeviceptr, 1), &offset, &length), "memory", ARG (CUipcMemHandle *, 0), sizeof (CUipcMemHandle));
}

static void
after_ipc_open_memory (Call *c, void **args)
{
  import_object (c, *ARG (CUdeviceptr *, 0), "memory", args[1], sizeof (CUipcMemHandle));
}

static void
after_ipc_close_memory (Call *c, void **args)
{
  guint64 offset, length;

  /* It is counted: the last one takes it away. */
  if (CHECK_DRIVER (cuMemGetAddressRange_v2, NULL, NULL, ARG (CUdeviceptr, 0)) != CUDA_SUCCESS &&
      check_lookup (ARG (CUdeviceptr, 0), &offset, &length) != NULL)
    {
      CheckOp *op = host_op (c->function, CHECK_UNMAP);

      check_unmapping (op, &check_host ()->clock, ARG (CUdeviceptr, 0), length);
      check_op_unref (op);
    }
}

static void
after_pool_export_pointer (Call *c, void **args)
{
  guint64 offset, length;

  (void) c;
  export_object (check_lookup (ARG (CUdeviceptr, 1), &offset, &length), "pointer", ARG (CUmemPoolPtrExportData *, 0), sizeof (CUmemPoolPtrExportData));
}

static void
after_pool_import_pointer (Call *c, void **args)
{
  import_object (c, *ARG (CUdeviceptr *, 0), "pointer", ARG (CUmemPoolPtrExportData *, 2), sizeof (CUmemPoolPtrExportData));
}

/* A file is the same in all processes; a real driver's device file says nothing. */
static gboolean
file_key (int fd, guint64 key[2])
{
  struct stat about;

  if (fstat (fd, &about) != 0 || !S_ISREG (about.st_mode))
    return FALSE;
  key[0] = about.st_dev;
  key[1] = about.st_ino;
  return TRUE;
}

static void
after_memory_export (Call *c, void **args)
{
  guint64 key[2];

  (void) c;
  if (ARG (CUmemAllocationHandleType, 2) == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR && file_key (*ARG (int *, 0), key))
    export_object (handle_object (ARG (CUmemGenericAllocationHandle, 1)), "file", key, sizeof key);
}

static void
after_memory_import (Call *c, void **args)
{
  CUmemAllocationProp prop;
  CheckObject *object;
  guint64 key[2];
  struct stat about;
  CheckOp *op;
  int fd = (int) (gintptr) ARG (void *, 1);

  if (handle_object (*ARG (CUmemGenericAllocationHandle *, 0)) != NULL || fstat (fd, &about) != 0 ||
      CHECK_DRIVER (cuMemGetAllocationPropertiesFromHandle, &prop, *ARG (CUmemGenericAllocationHandle *, 0)) != CUDA_SUCCESS)
    return;
  op = host_op (c->function, CHECK_ALLOCATION);
  /* How large it is, its mapping will tell. */
  object = check_object_new (CHECK_MEMORY_SHARED, 0, G_MAXINT64, op);
  if (ARG (CUmemAllocationHandleType, 2) == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR && file_key (fd, key))
    object->shared = check_shared_get ("file", key, sizeof key, FALSE);
  handle_add (*ARG (CUmemGenericAllocationHandle *, 0), object);
  check_op_unref (op);
}

static void
after_ipc_get_event (Call *c, void **args)
{
  CheckEvent *event = check_event (ARG (CUevent, 1));

  (void) c;
  if (event->shared != NULL)
    return;
  event->shared = check_shared_get ("event", ARG (CUipcEventHandle *, 0), sizeof (CUipcEventHandle), TRUE);
  if (event->shared != NULL && event->clock.n > 0)
    check_shared_event_recorded (event);
}

static void
after_ipc_open_event (Call *c, void **args)
{
  CheckEvent *event = check_event (*ARG (CUevent *, 0));

  (void) c;
  if (event->shared == NULL)
    event->shared = check_shared_get ("event", args[1], sizeof (CUipcEventHandle), FALSE);
}

/* ---- graphs ---- */

static void
after_instantiate (Call *c, void **args)
{
  (void) c;
  check_graph_instantiated (*ARG (CUgraphExec *, 0), ARG (CUgraph, 1));
}

static void
after_exec_update (Call *c, void **args)
{
  (void) c;
  check_graph_updated (ARG (CUgraphExec, 0), ARG (CUgraph, 1));
}

static void
after_exec_destroy (Call *c, void **args)
{
  (void) c;
  check_graph_exec_end (ARG (CUgraphExec, 0));
}

static void
after_exec_node (Call *c, void **args)
{
  check_graph_node_changed (ARG (CUgraphExec, 0), ARG (CUgraphNode, 1), c->function, ARG (const void *, 2));
}

static void
after_exec_event (Call *c, void **args)
{
  (void) c;
  check_graph_node_event (ARG (CUgraphExec, 0), ARG (CUgraphNode, 1), ARG (CUevent, 2));
}

static void
after_graph_clone (Call *c, void **args)
{
  (void) c;
  check_graph_copied (ARG (CUgraph, 1), *ARG (CUgraph *, 0));
}

static void
after_add_child (Call *c, void **args)
{
  CUgraph copy = NULL;

  (void) c;
  check_graph_owns_too (ARG (CUgraph, 1), ARG (CUgraph, 4));
  if (CHECK_DRIVER (cuGraphChildGraphNodeGetGraph, *ARG (CUgraphNode *, 0), &copy) == CUDA_SUCCESS)
    check_graph_copied (ARG (CUgraph, 4), copy);
}

static void
before_graph_destroy (Call *c, void **args)
{
  (void) c;
  check_graph_end (ARG (CUgraph, 0));
}

static void
before_node_destroy (Call *c, void **args)
{
  (void) c;
  check_graph_node_end (ARG (CUgraphNode, 0));
}

static void
after_node_enabled (Call *c, void **args)
{
  (void) c;
  check_graph_node_enabled (ARG (CUgraphExec, 0), ARG (CUgraphNode, 1), ARG (unsigned int, 2) != 0);
}

static void
after_launch (Call *c, void **args)
{
  CheckStream *stream = is_capturing (c, ARG (CUstream, 1)) ? NULL : stream_of (c, ARG (CUstream, 1));

  if (stream != NULL)
    check_graph_launched (ARG (CUgraphExec, 0), stream, c->function);
}

static void
after_graph_retain (Call *c, void **args)
{
  (void) c;
  check_graph_owns (ARG (CUgraph, 0), ARG (CUuserObject, 1), TRUE);
}

static void
after_graph_release (Call *c, void **args)
{
  (void) c;
  check_graph_owns (ARG (CUgraph, 0), ARG (CUuserObject, 1), FALSE);
}

/* ---- the table ---- */

#define EACH_SIZE(name, suffix, function)               \
  { name "8" suffix, NULL, function, SITE | WAITS },    \
    { name "16" suffix, NULL, function, SITE | WAITS }, \
  {                                                     \
    name "32" suffix, NULL, function, SITE | WAITS      \
  }

static const SimRule rules[] = {
  { "cuCtxDestroy", before_context_end, after_context_destroy, WAITS },
  { "cuCtxRecordEvent", NULL, after_context_record, 0 },
  { "cuCtxSynchronize", before_context_wait, wait_end, WAITS },
  { "cuCtxWaitEvent", NULL, after_context_wait_event, 0 },
  { "cuDevicePrimaryCtxRelease", before_primary_end, after_primary_end, WAITS },
  { "cuDevicePrimaryCtxReset", before_primary_end, after_primary_end, WAITS },
  { "cuDevicePrimaryCtxRetain", NULL, after_primary_retain, 0 },
  { "cuEventCreate", NULL, after_event_create, 0 },
  { "cuEventDestroy", NULL, after_event_destroy, 0 },
  { "cuEventElapsedTime", NULL, after_elapsed, 0 },
  { "cuEventQuery", before_event_wait, wait_end, WAITS },
  { "cuEventRecord", NULL, after_record, 0 },
  { "cuEventRecordWithFlags", NULL, after_record, 0 },
  { "cuEventSynchronize", before_event_wait, wait_end, WAITS },
  { "cuGraphAddChildGraphNode", NULL, after_add_child, 0 },
  { "cuGraphClone", NULL, after_graph_clone, 0 },
  { "cuGraphDestroy", before_graph_destroy, NULL, 0 },
  { "cuGraphDestroyNode", before_node_destroy, NULL, 0 },
  { "cuGraphExecDestroy", NULL, after_exec_destroy, 0 },
  { "cuGraphExecEventRecordNodeSetEvent", NULL, after_exec_event, 0 },
  { "cuGraphExecEventWaitNodeSetEvent", NULL, after_exec_event, 0 },
  { "cuGraphExecMemcpyNodeSetParams", NULL, after_exec_node, 0 },
  { "cuGraphExecMemsetNodeSetParams", NULL, after_exec_node, 0 },
  { "cuGraphExecUpdate", NULL, after_exec_update, 0 },
  { "cuGraphInstantiate", NULL, after_instantiate, 0 },
  { "cuGraphInstantiateWithFlags", NULL, after_instantiate, 0 },
  { "cuGraphInstantiateWithParams", NULL, after_instantiate, 0 },
  { "cuGraphLaunch", NULL, after_launch, SITE },
  { "cuGraphNodeSetEnabled", NULL, after_node_enabled, 0 },
  { "cuGraphReleaseUserObject", NULL, after_graph_release, 0 },
  { "cuGraphRetainUserObject", NULL, after_graph_retain, 0 },
  { "cuIpcCloseMemHandle", NULL, after_ipc_close_memory, SITE },
  { "cuIpcGetEventHandle", NULL, after_ipc_get_event, 0 },
  { "cuIpcGetMemHandle", NULL, after_ipc_get_memory, 0 },
  { "cuIpcOpenEventHandle", NULL, after_ipc_open_event, 0 },
  { "cuIpcOpenMemHandle", NULL, after_ipc_open_memory, SITE },
  { "cuLaunchHostFunc", before_host_function, after_host_function, FAILS_TOO },
  { "cuMemAlloc", NULL, after_alloc, SITE | WAITS },
  { "cuMemAllocAsync", NULL, after_alloc_async, SITE },
  { "cuMemAllocFromPoolAsync", NULL, after_alloc_from_pool, SITE },
  { "cuMemAllocHost", NULL, after_alloc_host, SITE | WAITS },
  { "cuMemAllocManaged", NULL, after_alloc_managed, SITE | WAITS },
  { "cuMemAllocPitch", NULL, after_alloc_pitch, SITE | WAITS },
  { "cuMemCreate", NULL, after_memory_create, SITE },
  { "cuMemDiscardAndPrefetchBatchAsync", NULL, after_discard_and_prefetch_batch, SITE },
  { "cuMemDiscardBatchAsync", NULL, after_discard_batch, SITE },
  { "cuMemExportToShareableHandle", NULL, after_memory_export, 0 },
  { "cuMemFree", before_device_wait, after_free, SITE | WAITS },
  { "cuMemFreeAsync", NULL, after_free_async, SITE },
  { "cuMemFreeHost", before_device_wait, after_free, SITE | WAITS },
  { "cuMemHostAlloc", NULL, after_alloc_host, SITE | WAITS },
  { "cuMemHostRegister", NULL, after_host_register, SITE | WAITS },
  { "cuMemHostUnregister", before_device_wait, after_free, SITE | WAITS },
  { "cuMemImportFromShareableHandle", NULL, after_memory_import, SITE },
  { "cuMemMap", NULL, after_memory_map, SITE },
  { "cuMemPoolExportPointer", NULL, after_pool_export_pointer, 0 },
  { "cuMemPoolImportPointer", NULL, after_pool_import_pointer, SITE },
  { "cuMemPrefetchAsync", NULL, after_prefetch, SITE },
  { "cuMemPrefetchBatchAsync", NULL, after_prefetch_batch, SITE },
  { "cuMemRelease", NULL, after_memory_release, 0 },
  { "cuMemRetainAllocationHandle", NULL, after_memory_retain, 0 },
  { "cuMemUnmap", NULL, after_memory_unmap, SITE },
  { "cuMemcpy", NULL, after_copy, SITE | WAITS },
  { "cuMemcpy2D", NULL, after_copy_2d, SITE | WAITS },
  { "cuMemcpy2DAsync", NULL, after_copy_2d_async, SITE | WAITS },
  { "cuMemcpy2DUnaligned", NULL, after_copy_2d, SITE | WAITS },
  { "cuMemcpy3D", NULL, after_copy_3d, SITE | WAITS },
  { "cuMemcpy3DAsync", NULL, after_copy_3d_async, SITE | WAITS },
  { "cuMemcpy3DPeer", NULL, after_copy_3d_peer, SITE | WAITS },
  { "cuMemcpy3DPeerAsync", NULL, after_copy_3d_peer_async, SITE | WAITS },
  { "cuMemcpyAsync", NULL, after_copy_async, SITE | WAITS },
  { "cuMemcpyBatchAsync", NULL, after_copy_batch, SITE | WAITS },
  { "cuMemcpyDtoD", NULL, after_copy, SITE | WAITS },
  { "cuMemcpyDtoDAsync", NULL, after_copy_async, SITE | WAITS },
  { "cuMemcpyDtoH", NULL, after_copy, SITE | WAITS },
  { "cuMemcpyDtoHAsync", NULL, after_copy_async, SITE | WAITS },
  { "cuMemcpyHtoD", NULL, after_copy, SITE | WAITS },
  { "cuMemcpyHtoDAsync", NULL, after_copy_async, SITE | WAITS },
  { "cuMemcpyPeer", NULL, after_copy_peer, SITE | WAITS },
  { "cuMemcpyPeerAsync", NULL, after_copy_peer_async, SITE | WAITS },
  EACH_SIZE ("cuMemsetD", "", after_memset_1d),
  EACH_SIZE ("cuMemsetD", "Async", after_memset_1d),
  EACH_SIZE ("cuMemsetD2D", "", after_memset_2d),
  EACH_SIZE ("cuMemsetD2D", "Async", after_memset_2d),
  { "cuStreamAddCallback", before_callback, after_host_function, FAILS_TOO },
  { "cuStreamBeginCapture", NULL, after_capture_begin, 0 },
  { "cuStreamBeginCaptureToGraph", NULL, after_capture_begin, 0 },
  { "cuStreamCreate", NULL, after_stream_create, 0 },
  { "cuStreamCreateWithPriority", NULL, after_stream_create, 0 },
  { "cuStreamDestroy", NULL, after_stream_destroy, 0 },
  { "cuStreamEndCapture", NULL, after_capture_end, FAILS_TOO },
  { "cuStreamQuery", before_stream_wait, wait_end, WAITS },
  { "cuStreamSynchronize", before_stream_wait, wait_end, WAITS },
  { "cuStreamWaitEvent", NULL, after_wait, 0 },
  { "cuStreamWriteValue32", NULL, after_write_value, SITE },
  { "cuStreamWriteValue64", NULL, after_write_value, SITE },
  { "cuUserObjectCreate", before_user_object, after_user_object, FAILS_TOO },
};

/* INDEX is remembered for the symbol: 0 not looked up yet, -1 none. */
const SimRule *
sim_check_rule (const char *symbol, gint *index)
{
  gint found = g_atomic_int_get (index);

  if (found == 0)
    {
      guint length = sim_base_length (symbol);

      found = -1;
      for (guint i = 0; i < G_N_ELEMENTS (rules) && found < 0; i++)
        {
          if (strlen (rules[i].function) == length && strncmp (rules[i].function, symbol, length) == 0)
            found = (gint) i + 1;
        }
      g_atomic_int_set (index, found);
    }
  return found > 0 ? &rules[found - 1] : NULL;
}

void
sim_check_capture (const SimRule *rule)
{
  check_stack_capture ((rule->flags & SITE) != 0);
}

/* Around a call of another driver's: what waits there must not keep others waiting here. */
void
sim_check_pause (SimCall *call, gboolean pause)
{
  if (!call->entered || (call->rule != NULL && !(call->rule->flags & WAITS)))
    return;
  if (pause)
    pthread_mutex_unlock (&sim.lock);
  else
    pthread_mutex_lock (&sim.lock);
}

static Call
begin (SimCall *call, CUresult result)
{
  Call c = { call, call->rule->function, call->thread, call->context, result, NULL };

  call->thread->nested++;
  check_learn ();
  return c;
}

void
sim_check_before (SimCall *call, void **args)
{
  Call c;

  if (call->rule->before == NULL)
    return;
  c = begin (call, CUDA_SUCCESS);
  call->rule->before (&c, args);
  call->thread->nested--;
}

void
sim_check_after (SimCall *call, void **args, CUresult result)
{
  if (call->rule->after != NULL && (result == CUDA_SUCCESS || (call->rule->flags & FAILS_TOO)))
    {
      Call c = begin (call, result);

      call->rule->after (&c, args);
      call->thread->nested--;
    }
  check_clock_clear (&call->waits_for);
  if (call->memory != NULL)
    check_object_unref (call->memory);
}

/* ---- declarations: what no driver call tells ---- */

static gboolean
declare_begin (Call *c, const char *function)
{
  c->call = NULL;
  c->thread = sim_thread ();
  c->result = CUDA_SUCCESS;
  if (!sim.checking || g_atomic_int_get (&sim.forked) || g_atomic_int_get (&sim.exited))
    return FALSE;
  c->declared = g_ref_string_new (function != NULL ? function : "declared access");
  c->function = c->declared;
  check_stack_capture (TRUE);
  pthread_mutex_lock (&sim.lock);
  c->thread->nested++;
  check_learn ();
  c->current = NULL;
  CHECK_DRIVER (cuCtxGetCurrent, &c->current);
  return TRUE;
}

static void
declare_end (Call *c)
{
  c->thread->nested--;
  g_ref_string_release (c->declared);
  pthread_mutex_unlock (&sim.lock);
}

/* The node that was captured last, if there is one. */
static CUgraphNode
captured_node (CUstream handle)
{
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUgraphNode *nodes = NULL;
  cuuint64_t id;
  CUgraph graph;
  size_t n = 0;

  if (CHECK_DRIVER (cuStreamGetCaptureInfo_v2, handle, &status, &id, &graph, &nodes, &n) != CUDA_SUCCESS || n != 1)
    return NULL;
  return nodes[0];
}

static void
declare (CheckWhat what, CUstream handle, guint64 address, guint64 size, const char *function)
{
  CheckStream *stream;
  guint64 epoch;
  Call c;

  if (size == 0 || !declare_begin (&c, function))
    return;
  if (is_capturing (&c, handle))
    {
      CUgraphNode node = captured_node (handle);

      if (node != NULL)
        check_graph_node_declared (node, what, address, size, g_intern_string (c.function));
    }
  else if ((stream = queue (&c, handle, &epoch)) != NULL)
    touch (&c, stream, epoch, what, address, size, 0, 1);
  declare_end (&c);
}

SIM_EXPORT void
gcudasim_declare_access (CUstream stream, CUdeviceptr address, size_t size, int writes, const char *function)
{
  declare (writes ? CHECK_WRITE : CHECK_READ, stream, address, size, function);
}

SIM_EXPORT void
gcudasim_declare_allocation (CUstream stream, CUdeviceptr address, size_t size, const char *function)
{
  declare (CHECK_ALLOCATION, stream, address, size, function);
}

SIM_EXPORT void
gcudasim_declare_free (CUstream stream, CUdeviceptr address, size_t size, const char *function)
{
  declare (CHECK_FREE, stream, address, size, function);
}

SIM_EXPORT void
gcudasim_declare_host_access (const void *address, size_t size, int writes, const char *function)
{
  const CheckClock *clock;
  CheckOp *op;
  Call c;

  if (size == 0 || !declare_begin (&c, function))
    return;
  op = check_program_op (writes ? CHECK_WRITE : CHECK_READ, c.function, &clock);
  op->declared = g_ref_string_acquire (c.declared);
  check_access (op, clock, (guintptr) address, size, 0, 1);
  check_op_unref (op);
  declare_end (&c);
}

SIM_EXPORT void
gcudasim_declare_deallocation_stream (CUdeviceptr address)
{
  CheckObject *object;
  guint64 offset, length;
  Call c;

  if (!declare_begin (&c, NULL))
    return;
  object = check_lookup (address, &offset, &length);
  if (object != NULL)
    {
      g_clear_pointer (&object->replaced, check_stack_unref);
      object->replaced = check_stack_current ();
    }
  declare_end (&c);
}

void
sim_check_init (void)
{
  check_memory_init ();
  sim.checking = check_report_init ();
}

SIM_EXPORT int
gcudasim_is_checking (void)
{
  return sim.checking;
}

void
sim_check_thread_ended (guint64 thread)
{
  if (sim.checking)
    check_thread_end (thread);
}

void
sim_check_exit (void)
{
  if (sim.checking)
    check_report_summary ();
}
