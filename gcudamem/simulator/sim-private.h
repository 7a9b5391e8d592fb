/* SPDX-License-Identifier: LGPL-2.1-or-later */

#pragma once

/* All forms of every entry point, old ones included, under their symbol names. */
#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>

#include <glib.h>
#include <pthread.h>
#include <stdarg.h>
#include <string.h>

#if CUDA_VERSION < 12050
typedef void CUctxCreateParams;
#endif

#define SIM_EXPORT        __attribute__ ((visibility ("default")))
#define SIM_MAX_DEVICES   16
#define SIM_MAX_ATTRIBUTE 160
#define SIM_HOST          (-1)

#define SIM_MIB(n)         ((gsize) (n) << 20)
#define SIM_ALIGN_UP(n, a) (((guint64) (n) + ((guint64) (a) -1)) & ~((guint64) (a) -1))

typedef struct _SimAllocation SimAllocation;
typedef struct _SimBlock SimBlock;
typedef struct _SimCapture SimCapture;
typedef struct _SimContext SimContext;
typedef struct _SimDevice SimDevice;
typedef struct _SimEvent SimEvent;
typedef struct _SimExec SimExec;
typedef struct _SimGraph SimGraph;
typedef struct _SimHeap SimHeap;
typedef struct _SimMemory SimMemory;
typedef struct _SimNode SimNode;
typedef struct _SimOp SimOp;
typedef struct _SimPhysical SimPhysical;
typedef struct _SimPool SimPool;
typedef struct _SimRule SimRule;
typedef struct _SimSegment SimSegment;
typedef struct _SimStream SimStream;
typedef struct _SimThread SimThread;
typedef struct _SimUserObject SimUserObject;

/* ---- entry.c: what happens around every call ---- */

enum
{
  SIM_ANYTIME = 1 << 0,  /* allowed before cuInit */
  SIM_CALLBACK = 1 << 1, /* allowed in a host function */
  SIM_UNSAFE = 1 << 2,   /* refused during other threads' global captures */
  SIM_PURE = 1 << 3,     /* needs no state: allowed after a fork and at the end, too */
  SIM_OWN = 1 << 4,      /* is not passed on to another driver */
};

/* What is found out once about a symbol. */
typedef struct
{
  gint rule; /* of the ordering checker: index + 1; 0: not looked up, -1: none */
} SimSymbol;

/* How far each timeline is known to another, by slot. */
typedef struct
{
  guint64 *epochs;
  guint n;
} CheckClock;

typedef struct
{
  const char *symbol;   /* as exported */
  const char *function; /* without version and stream suffixes */
  guint name_length;    /* of the function's name within symbol */
  guint flags;
  SimThread *thread;
  gboolean entered;
  gboolean log;
  gboolean marked;     /* after the driver's teardown, or in a forked child */
  CUcontext context;   /* current at the call */
  const SimRule *rule; /* of the ordering checker */
  gpointer real;       /* the function of the driver that calls are passed on to */
  CheckClock waits_for;
  gpointer memory; /* the checker's, that the call frees */
  GString *text;
  GString *out;
} SimCall;

typedef enum
{
  SIM_KIND_UINT,
  SIM_KIND_INT,
  SIM_KIND_POINTER,
  SIM_KIND_STREAM,
  SIM_KIND_STRING,
  SIM_KIND_OUT64,
  SIM_KIND_OUT_SIZE,
  SIM_KIND_OUT32,
  SIM_KIND_OUT_POINTER,
  SIM_KIND_OUT_FLOAT,
} SimArgKind;

#define SIM_ARG_KIND(x) _Generic((x),                                   \
                                 int                                    \
                                 : SIM_KIND_INT, long                   \
                                 : SIM_KIND_INT, long long              \
                                 : SIM_KIND_INT,                        \
                                   CUstream                             \
                                 : SIM_KIND_STREAM,                     \
                                   const char *                         \
                                 : SIM_KIND_STRING,                     \
                                   unsigned long long *                 \
                                 : SIM_KIND_OUT64, unsigned long *      \
                                 : SIM_KIND_OUT_SIZE,                   \
                                   unsigned int *                       \
                                 : SIM_KIND_OUT32, int *                \
                                 : SIM_KIND_OUT32,                      \
                                   float *                              \
                                 : SIM_KIND_OUT_FLOAT,                  \
                                   void **                              \
                                 : SIM_KIND_OUT_POINTER, CUcontext *    \
                                 : SIM_KIND_OUT_POINTER,                \
                                   CUstream *                           \
                                 : SIM_KIND_OUT_POINTER, CUevent *      \
                                 : SIM_KIND_OUT_POINTER,                \
                                   CUmemoryPool *                       \
                                 : SIM_KIND_OUT_POINTER, CUgraph *      \
                                 : SIM_KIND_OUT_POINTER,                \
                                   CUgraphExec *                        \
                                 : SIM_KIND_OUT_POINTER, CUuserObject * \
                                 : SIM_KIND_OUT_POINTER,                \
                                   void *                               \
                                 : SIM_KIND_POINTER, const void *       \
                                 : SIM_KIND_POINTER,                    \
                                   unsigned int                         \
                                 : SIM_KIND_UINT, unsigned short        \
                                 : SIM_KIND_UINT, unsigned char         \
                                 : SIM_KIND_UINT,                       \
                                   unsigned long                        \
                                 : SIM_KIND_UINT, unsigned long long    \
                                 : SIM_KIND_POINTER,                    \
                                   default                              \
                                 : sizeof (x) == 8 ? SIM_KIND_POINTER : SIM_KIND_UINT)

CUresult sim_call_begin (SimCall *call, const char *symbol, guint flags, gboolean per_thread, SimSymbol *about);
CUresult sim_call_end (SimCall *call, CUresult result);
void sim_call_arg (SimCall *call, CUresult result, const char *name, SimArgKind kind, const void *value, gsize size);
CUresult sim_not_simulated (const char *symbol);

/* SIM_ENTRY (symbol, flags, (T1, a1), (T2, a2), ...) { body }
 * defines the exported function, and the body that runs between begin and end,
 * under the big lock. SIM_ENTRY_PT makes a second form, with the given suffix,
 * in which the default stream is the calling thread's. */
#define SIM_CAT_(a, b)                                         a##b
#define SIM_CAT(a, b)                                          SIM_CAT_ (a, b)
#define SIM_COUNT_(_1, _2, _3, _4, _5, _6, _7, _8, _9, n, ...) n
#define SIM_COUNT(...)                                         SIM_COUNT_ (__VA_ARGS__, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define SIM_EACH_1(m, s, a)                                    m a
#define SIM_EACH_2(m, s, a, ...)                               m a s () SIM_EACH_1 (m, s, __VA_ARGS__)
#define SIM_EACH_3(m, s, a, ...)                               m a s () SIM_EACH_2 (m, s, __VA_ARGS__)
#define SIM_EACH_4(m, s, a, ...)                               m a s () SIM_EACH_3 (m, s, __VA_ARGS__)
#define SIM_EACH_5(m, s, a, ...)                               m a s () SIM_EACH_4 (m, s, __VA_ARGS__)
#define SIM_EACH_6(m, s, a, ...)                               m a s () SIM_EACH_5 (m, s, __VA_ARGS__)
#define SIM_EACH_7(m, s, a, ...)                               m a s () SIM_EACH_6 (m, s, __VA_ARGS__)
#define SIM_EACH_8(m, s, a, ...)                               m a s () SIM_EACH_7 (m, s, __VA_ARGS__)
#define SIM_EACH_9(m, s, a, ...)                               m a s () SIM_EACH_8 (m, s, __VA_ARGS__)
#define SIM_EACH(m, s, ...)                                    SIM_CAT (SIM_EACH_, SIM_COUNT (__VA_ARGS__)) (m, s, __VA_ARGS__)
#define SIM_COMMA()                                            ,
#define SIM_NOTHING()
#define SIM_PARAM(type, name)   type name
#define SIM_PASS(type, name)    name
#define SIM_ADDRESS(type, name) (void *) &name
#define SIM_LOG_ARG(type, name) sim_call_arg (&call, result, #name, SIM_ARG_KIND (name), &name, sizeof name);

#define SIM_PASS_ON(symbol, ...)                               \
  G_STMT_START                                                 \
  {                                                            \
    sim_check_pause (&call, TRUE);                             \
    result = ((__typeof__ (&symbol)) call.real) (__VA_ARGS__); \
    sim_check_pause (&call, FALSE);                            \
  }                                                            \
  G_STMT_END

#define SIM_FORM(symbol, body, flags, per_thread, ...)                              \
  SIM_EXPORT CUresult CUDAAPI symbol (SIM_EACH (SIM_PARAM, SIM_COMMA, __VA_ARGS__)) \
  {                                                                                 \
    static SimSymbol about;                                                         \
    SimCall call;                                                                   \
    CUresult result = sim_call_begin (&call, #symbol, flags, per_thread, &about);   \
    void *args[] = { SIM_EACH (SIM_ADDRESS, SIM_COMMA, __VA_ARGS__) };              \
    if (result == CUDA_SUCCESS && call.rule != NULL)                                \
      sim_check_before (&call, args);                                               \
    if (G_UNLIKELY (call.real != NULL) && result == CUDA_SUCCESS)                   \
      SIM_PASS_ON (symbol, SIM_EACH (SIM_PASS, SIM_COMMA, __VA_ARGS__));            \
    else if (result == CUDA_SUCCESS)                                                \
      result = body (SIM_EACH (SIM_PASS, SIM_COMMA, __VA_ARGS__));                  \
    if (G_UNLIKELY (call.log))                                                      \
      {                                                                             \
        SIM_EACH (SIM_LOG_ARG, SIM_NOTHING, __VA_ARGS__)                            \
      }                                                                             \
    if (call.rule != NULL)                                                          \
      sim_check_after (&call, args, result);                                        \
    return sim_call_end (&call, result);                                            \
  }

#define SIM_ENTRY(symbol, flags, ...)                                             \
  static CUresult sim_do_##symbol (SIM_EACH (SIM_PARAM, SIM_COMMA, __VA_ARGS__)); \
  SIM_FORM (symbol, sim_do_##symbol, flags, FALSE, __VA_ARGS__)                   \
  static CUresult sim_do_##symbol (SIM_EACH (SIM_PARAM, SIM_COMMA, __VA_ARGS__))

#define SIM_ENTRY_PT(symbol, suffix, flags, ...)                                  \
  static CUresult sim_do_##symbol (SIM_EACH (SIM_PARAM, SIM_COMMA, __VA_ARGS__)); \
  SIM_FORM (symbol, sim_do_##symbol, flags, FALSE, __VA_ARGS__)                   \
  SIM_FORM (symbol##suffix, sim_do_##symbol, flags, TRUE, __VA_ARGS__)            \
  static CUresult sim_do_##symbol (SIM_EACH (SIM_PARAM, SIM_COMMA, __VA_ARGS__))

#define SIM_ENTRY_SZ(symbol, flags, ...) SIM_ENTRY_PT (symbol, _ptsz, flags, __VA_ARGS__)
#define SIM_ENTRY_DS(symbol, flags, ...) SIM_ENTRY_PT (symbol, _ptds, flags, __VA_ARGS__)

#define SIM_ENTRY0(symbol, flags)                                            \
  static CUresult sim_do_##symbol (void);                                    \
  SIM_EXPORT CUresult CUDAAPI symbol (void)                                  \
  {                                                                          \
    static SimSymbol about;                                                  \
    SimCall call;                                                            \
    CUresult result = sim_call_begin (&call, #symbol, flags, FALSE, &about); \
    if (result == CUDA_SUCCESS && call.rule != NULL)                         \
      sim_check_before (&call, NULL);                                        \
    if (G_UNLIKELY (call.real != NULL) && result == CUDA_SUCCESS)            \
      SIM_PASS_ON (symbol);                                                  \
    else if (result == CUDA_SUCCESS)                                         \
      result = sim_do_##symbol ();                                           \
    if (call.rule != NULL)                                                   \
      sim_check_after (&call, NULL, result);                                 \
    return sim_call_end (&call, result);                                     \
  }                                                                          \
  static CUresult sim_do_##symbol (void)

#define SIM_TRY(expression)              \
  G_STMT_START                           \
  {                                      \
    CUresult try_result_ = (expression); \
    if (try_result_ != CUDA_SUCCESS)     \
      return try_result_;                \
  }                                      \
  G_STMT_END

/* ---- handles: slots in one table, so that any value can be checked ---- */

typedef enum
{
  SIM_HANDLE_NONE,
  SIM_HANDLE_CONTEXT,
  SIM_HANDLE_STREAM,
  SIM_HANDLE_EVENT,
  SIM_HANDLE_POOL,
  SIM_HANDLE_MEMORY,
  SIM_HANDLE_GRAPH,
  SIM_HANDLE_NODE,
  SIM_HANDLE_EXEC,
  SIM_HANDLE_USER_OBJECT,
  SIM_HANDLE_LAST,
} SimHandleKind;

gpointer sim_handle_new (SimHandleKind kind, gpointer object);
gpointer sim_handle_get (gconstpointer handle, SimHandleKind kind, gboolean *dead);
void sim_handle_free (gpointer handle);
guint sim_handle_count (SimHandleKind kind);

void sim_entry_init (void);
void sim_entry_remark (const char *text);
void sim_fatal (const char *format, ...) G_GNUC_PRINTF (1, 2) G_GNUC_NORETURN;
void sim_warn (const char *format, ...) G_GNUC_PRINTF (1, 2);
const char *sim_result_name (CUresult result);
gboolean sim_result_parse (const char *text, CUresult *result);
const char *sim_this_function (void);

/* ---- state of the process ---- */

typedef enum
{
  SIM_SHUFFLED,
  SIM_LAZIEST,
} SimScheduler;

typedef struct
{
  /* Not GLib's, which a thread sanitizer cannot see into. */
  pthread_mutex_t lock;     /* guards everything; never held while a program's function runs */
  pthread_cond_t work_cond; /* an operation became runnable, or somebody waits */
  pthread_cond_t done_cond; /* an operation ended */

  gint initialized; /* atomic */
  gint forked;      /* atomic */
  gint exited;      /* atomic */
  gboolean plain;   /* the driver that another simulator passes calls on to, and no more */
  CUresult init_result;

  guint n_devices;
  SimDevice *devices[SIM_MAX_DEVICES];
  gboolean peer_access;
  int driver_version;

  SimScheduler scheduler;
  guint32 seed;
  GRand *random;
  gint64 last_call; /* atomic, monotonic time, laziest only */
  CUresult lost;    /* after an access error, all contexts of the process */
  gboolean held;
  gboolean verbose;

  gboolean checking;      /* there is an ordering checker */
  gboolean check_aborts;  /* at its first report */
  gboolean check_threads; /* each with its own order */
  gboolean check_host;    /* by the protection of pages */

  guint64 next_id; /* of contexts, streams, captures, operations: never reused */
  GPtrArray *pools;
  GHashTable *live_captures;
} SimState;

extern SimState sim;

typedef struct
{
  CUcontext handle;
  guint64 id;
} SimStackEntry;

struct _SimThread
{
  guint64 id;           /* never reused */
  SimStackEntry *stack; /* of contexts */
  guint depth, room;
  CUstreamCaptureMode capture_mode;
  gboolean driver_thread; /* runs host functions and destructors */
  gboolean per_thread;    /* within a call of a per-thread default stream form */
  const char *function;   /* being called */
  gboolean locked;        /* within a call, with the lock */
  guint nested;           /* the checker asks the driver something */
};

SimThread *sim_thread (void);
void sim_thread_ended (SimThread *thread);
guint64 sim_next_id (void);

/* ---- device.c ---- */

typedef struct
{
  gboolean is_error;
  int value; /* or a CUresult */
} SimAttribute;

struct _SimDevice
{
  int ordinal; /* as the program counts */
  int index;   /* before CUDA_VISIBLE_DEVICES */
  guint64 total;
  guint64 used;
  SimAttribute attributes[SIM_MAX_ATTRIBUTE];
  SimContext *primary;
  unsigned int primary_flags;
  SimPool *default_pool;
  SimPool *managed_pool;
  SimPool *current_pool;
  guint64 graph_used, graph_used_high;
  guint64 graph_reserved, graph_reserved_high;
};

SimDevice *sim_device_new (int ordinal, int index, guint64 total);
SimDevice *sim_device (int ordinal);
gboolean sim_device_supports (SimDevice *device, int attribute);

/* ---- context.c ---- */

struct _SimContext
{
  CUcontext handle;
  guint64 id;
  SimDevice *device;
  gboolean primary;
  guint retained;
  gboolean alive;
  unsigned int flags;
  unsigned int version;
  guint64 limits[16];
  int cache_config;
  SimStream *legacy;
  GPtrArray *streams; /* all live ones */
  GHashTable *events;
  GHashTable *peers; /* contexts that this one may reach */
  guint pending;     /* operations */
  SimHeap *heap;     /* cuMemAlloc */
};

CUresult sim_current (SimContext **context);
CUresult sim_current_or_lost (SimContext **context);
CUresult sim_context (CUcontext handle, SimContext **context);
CUcontext sim_current_handle (SimThread *thread);
SimContext *sim_primary_new (SimDevice *device);
void sim_context_wait (SimContext *context);
void sim_context_pending (SimContext *context, GPtrArray *ops);
guint sim_contexts_alive (void);
void sim_context_lose (SimContext *context, CUresult why);
void sim_device_wait (SimDevice *device);
void sim_contexts_foreach (GFunc function, gpointer data);

/* ---- stream.c ---- */

typedef enum
{
  SIM_STREAM_CREATED,
  SIM_STREAM_LEGACY,
  SIM_STREAM_PER_THREAD,
} SimStreamKind;

struct _SimStream
{
  gint refs;
  CUstream handle;
  SimStreamKind kind;
  SimContext *context;
  guint64 id;
  gboolean blocking;
  int priority;
  SimOp *last;    /* latest operation that is not done */
  guint64 thread; /* owner, of a per-thread one */
  guint waiters;  /* threads that synchronise it */
  gboolean ended; /* destroyed, or its thread ended */

  SimCapture *capture;
  GPtrArray *capture_deps; /* nodes that the next one depends on */
  GArray *capture_handles; /* the same, as last told to the program */
};

SimStream *sim_stream_new (SimContext *context, SimStreamKind kind, gboolean blocking, int priority);
SimStream *sim_stream_ref (SimStream *stream);
void sim_stream_unref (SimStream *stream);
CUresult sim_stream (CUstream handle, SimStream **stream);
CUresult sim_stream_or_lost (CUstream handle, SimStream **stream);
SimStream *sim_stream_per_thread (SimContext *context);
CUresult sim_default_stream (SimStream **stream);
void sim_stream_idle (SimStream *stream);
void sim_stream_end (SimStream *stream);
void sim_stream_pending (SimStream *stream, GPtrArray *ops);
CUresult sim_stream_wait (SimStream *stream);
void sim_wait_all (GPtrArray *ops);

/* ---- work: what an operation or a graph node does ---- */

typedef enum
{
  SIM_WORK_EMPTY,
  SIM_WORK_SET,
  SIM_WORK_COPY,
  SIM_WORK_HOST,
  SIM_WORK_CALLBACK, /* cuStreamAddCallback */
  SIM_WORK_RECORD,
  SIM_WORK_WAIT,
  SIM_WORK_ALLOC,
  SIM_WORK_FREE,
  SIM_WORK_CHILD,
  SIM_WORK_CONDITIONAL,
  SIM_WORK_DESTRUCTOR, /* of a user object */
  SIM_WORK_WRITE_VALUE,
  SIM_WORK_FINISH, /* the end of a graph launch */
} SimWorkKind;

typedef struct
{
  guint64 dst, src;
  gsize width, height, depth;
  gsize dst_pitch, src_pitch;      /* between rows */
  gsize dst_slice, src_slice;      /* between planes, in bytes */
  gboolean dst_device, src_device; /* checked against the address map when it runs */
  CUmemorytype dst_type, src_type; /* as the call named it */
  guint8 *staged;                  /* bytes taken at the call, owned */
  gsize staged_size;
} SimCopy;

typedef struct
{
  SimWorkKind kind;
  union
  {
    struct
    {
      guint64 dst;
      gsize pitch;
      guint32 value;
      guint element;
      gsize width, height; /* width in elements */
    } set;
    SimCopy copy;
    struct
    {
      CUhostFn function;
      CUstreamCallback callback;
      void *data;
      CUstream stream;
    } host;
    struct
    {
      SimEvent *event; /* referenced */
      gboolean external;
      guint64 number; /* of an interprocess event: this record, or what is waited for */
    } event;
    struct
    {
      guint64 address;
      gsize size;
      SimDevice *device;
      gboolean graph;                     /* a graph's memory, not a pool's */
      SimPool *pool;                      /* referenced: its memory stays until then */
      CUDA_MEM_ALLOC_NODE_PARAMS *params; /* owned, of a graph's allocation */
    } memory;
    struct
    {
      SimGraph *graph; /* owned, of a node; clone */
    } child;
    struct
    {
      SimGraph **bodies; /* owned */
      CUgraph *handles;  /* of them, owned */
      guint n;
      CUgraphConditionalNodeType type;
      guint value; /* no kernel sets another */
    } conditional;
    struct
    {
      guint64 address, value;
      gboolean wide;
    } write;
    SimExec *exec;
  };
} SimWork;

void sim_work_clear (SimWork *work);
void sim_work_copy (SimWork *to, const SimWork *from);
/* Around the work: what the checker protects lets it through. */
void sim_work_guards (const SimWork *work, gboolean on);

/* ---- scheduler.c ---- */

typedef enum
{
  SIM_OP_PENDING,
  SIM_OP_READY,
  SIM_OP_RUNNING,
  SIM_OP_DONE,
} SimOpState;

struct _SimOp
{
  gint refs;
  guint64 id;
  SimStream *stream; /* referenced */
  SimContext *context;
  SimWork work;
  SimOpState state;
  guint n_waits;
  GPtrArray *preds; /* not done yet, referenced */
  GPtrArray *succs; /* referenced */
  gint64 time;      /* nanoseconds, when it was done */
  gboolean demanded;
  gboolean queried;
};

SimOp *sim_op_new (SimStream *stream, const SimWork *work);
SimOp *sim_op_ref (SimOp *op);
void sim_op_unref (SimOp *op);
void sim_op_after (SimOp *op, SimOp *pred);
void sim_op_after_stream (SimOp *op);
void sim_op_submit (SimOp *op, gboolean in_stream);
gboolean sim_op_done (SimOp *op);
gboolean sim_op_follows (SimOp *op, SimOp *pred);
void sim_op_demand (SimOp *op);
void sim_op_wait (SimOp *op);
SimOp *sim_submit_op (SimStream *stream, SimWork *work);
CUresult sim_submit (SimStream *stream, SimWork *work);
void sim_queried (SimOp *op);
void sim_scheduler_start (void);
void sim_scheduler_stop (void);
void sim_destructor_call (CUhostFn function, void *data);

/* ---- pass.c ---- */

gboolean sim_passing (void);
gpointer sim_real_function (const char *symbol);
CUresult sim_pass_get_proc_address (const char *symbol, void **function, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status);

/* ---- checker/ ---- */

void sim_check_init (void);
void sim_check_exit (void);
void sim_check_guards (guint64 address, gsize size, gboolean on);
void sim_check_guards_close (void);
void sim_check_thread_ended (guint64 thread);
const SimRule *sim_check_rule (const char *symbol, gint *index);
void sim_check_pause (SimCall *call, gboolean pause);
void sim_check_capture (const SimRule *rule);
void sim_check_before (SimCall *call, void **args);
void sim_check_after (SimCall *call, void **args, CUresult result);
guint sim_base_length (const char *symbol);

/* ---- event.c ---- */

struct _SimEvent
{
  gint refs;
  CUevent handle;
  SimContext *context;
  unsigned int flags;
  SimOp *record;   /* latest, referenced; NULL if never recorded */
  guint64 capture; /* recorded last into the capture of this id; 0: none */
  GPtrArray *capture_nodes;
  gpointer shared; /* interprocess state */
};

CUresult sim_event (CUevent handle, SimEvent **event);
SimEvent *sim_event_ref (SimEvent *event);
void sim_event_unref (SimEvent *event);
void sim_event_forget (SimEvent *event);
guint sim_events_alive (void);
void sim_event_recorded (SimEvent *event, SimOp *op);

/* ---- memory.c: physical memory, addresses, heaps, the address map ---- */

struct _SimPhysical
{
  gint refs;
  guint64 id;
  SimDevice *device; /* NULL: host */
  int fd;
  guint64 offset;
  guint64 size;
  gboolean owns_fd;
  gboolean foreign; /* imported: another process accounts for it */
  guint8 *view;     /* of host memory, where its own pages may be protected */
};

struct _SimHeap
{
  SimDevice *device; /* NULL: host */
  gsize chunk;
  gboolean exportable;
  GPtrArray *segments;
  guint64 reserved, reserved_high;
  gboolean dirty; /* something was freed since the last trim */
  SimPool *pool;
  guint64 max_size;
};

struct _SimSegment
{
  SimHeap *heap;
  guint64 base;
  gsize size;
  guint n_chunks;
  SimPhysical **chunks; /* NULL where nothing is committed */
  SimBlock *first, *hint;
  guint64 used;
  guint n_used;
};

typedef enum
{
  SIM_BLOCK_FREE,
  SIM_BLOCK_PENDING, /* freed in some stream's order */
  SIM_BLOCK_USED,
} SimBlockState;

struct _SimBlock
{
  SimSegment *segment;
  guint64 base;
  gsize size;
  SimBlockState state;
  SimOp *free_op; /* of a pending one */
  SimBlock *prev, *next;
};

typedef enum
{
  SIM_ALLOCATION_DEVICE,
  SIM_ALLOCATION_POOL,
  SIM_ALLOCATION_GRAPH,
  SIM_ALLOCATION_PINNED,
  SIM_ALLOCATION_REGISTERED,
  SIM_ALLOCATION_MANAGED,
  SIM_ALLOCATION_MAPPED,
  SIM_ALLOCATION_IPC,
} SimAllocationKind;

/* What was said of a page of managed memory. */
typedef struct
{
  gboolean read_mostly;
  int preferred_type, preferred_id;
  guint32 accessed_by;
  gboolean accessed_by_host;
  int prefetch_type, prefetch_id;
} SimAdvice;

struct _SimAllocation
{
  guint64 base;
  gsize size;
  SimAllocationKind kind;
  SimDevice *device;   /* NULL: host */
  SimContext *context; /* that made it, where it has one */
  guint64 context_id;
  guint64 buffer_id;
  SimBlock *block;
  SimPool *pool;
  SimStream *free_stream;
  unsigned int flags;
  gboolean live;           /* graph memory: launched and not freed */
  gboolean freeing;        /* graph memory: a free is under way */
  gboolean freed_in_graph; /* by a node of the same graph */
  guint64 graph;           /* id of its graph */
  guint graph_refs;        /* the graph, its exec, being live or freed */
  gboolean sync_memops;
  gboolean read_only; /* registered for reading only */

  /* virtual memory */
  SimMemory *memory;
  gsize offset;
  guint8 access[SIM_MAX_DEVICES + 1]; /* CUmemAccess_flags; the last: host */

  /* managed */
  SimAdvice *advice;
  gsize n_advice; /* one for all, or one a page */
  unsigned int attach;

  /* interprocess */
  guint opens;
  SimPhysical *imported;
  gpointer ipc;    /* of an imported one */
  int ipc_fd;      /* descriptor of an exported one; 0: none */
  gboolean zombie; /* imported, its free not executed: not found any more */
};

SimPhysical *sim_physical_new (SimDevice *device, guint64 size, gboolean own_fd);
SimPhysical *sim_physical_import (SimDevice *device, int fd, guint64 offset, guint64 size);
SimPhysical *sim_physical_ref (SimPhysical *physical);
void sim_physical_unref (SimPhysical *physical);
void sim_physical_map (SimPhysical *physical, guint64 address, guint64 offset, gsize size, int protection);

guint64 sim_address_reserve (gsize size, gsize alignment, guint64 wanted);
void sim_address_release (guint64 address, gsize size);
void sim_address_unmap (guint64 address, gsize size);
void sim_address_protect (guint64 address, gsize size, int protection);

SimHeap *sim_heap_new (SimDevice *device, gsize chunk, gboolean exportable, SimPool *pool);
void sim_heap_free (SimHeap *heap);
CUresult sim_heap_alloc (SimHeap *heap, gsize size, SimStream *stream, SimBlock **block);
void sim_block_pending (SimBlock *block, SimOp *free_op);
void sim_heap_trim (SimHeap *heap, guint64 keep);

SimAllocation *sim_allocation_new (SimAllocationKind kind, guint64 base, gsize size, SimDevice *device);
void sim_allocation_remove (SimAllocation *allocation);
SimAllocation *sim_allocation_at (guint64 address);   /* whose base it is */
SimAllocation *sim_allocation_find (guint64 address); /* that contains it */
void sim_zombie_remove (guint64 address);
SimAllocation *sim_allocation_next (guint64 address); /* the first with a base above it */
gboolean sim_range_free (guint64 address, gsize size);
void sim_allocations_foreach (void (*function) (SimAllocation *allocation, gpointer data), gpointer data);
CUresult sim_check_range (guint64 address, gsize size, gboolean write, SimDevice *device, gboolean copy);
gboolean sim_range_accessible (guint64 address, gsize size, gboolean write, SimDevice *device);
gboolean sim_range_committed (guint64 address, gsize size);
gpointer sim_host_view (guint64 address, gsize size);
gboolean sim_resolve (guint64 address, SimPhysical **physical, guint64 *offset, gsize *length);
void sim_poison (guint64 address, gsize size, guint8 byte);
gboolean sim_is_host_address (guint64 address);

/* ---- pool.c ---- */

struct _SimPool
{
  gint refs; /* the handle, live allocations, frees under way */
  CUmemoryPool handle;
  int location_type, location_id;
  SimDevice *device; /* NULL: host */
  int type;
  unsigned int handle_types;
  guint64 max_size;
  SimHeap *heap;
  guint64 threshold;
  int reuse[3];
  guint64 used, used_high;
  guint64 used_late; /* freed by cuMemFree, not yet taken off */
  guint8 access[SIM_MAX_DEVICES + 1];
  gboolean is_default;
  gboolean imported;
  int export_fd;
  guint64 export_id;
  gpointer ipc;
  GPtrArray *freed; /* the last free on each stream that nobody has waited for since; or NULL */
};

SimPool *sim_pool_new (SimDevice *device, int type, int location_type, int location_id);
SimPool *sim_pool (CUmemoryPool handle);
gboolean sim_pool_is_host (const SimPool *pool);
void sim_pool_unaccount (SimPool *pool, gsize size);
CUresult sim_pool_alloc (SimPool *pool, gsize size, SimStream *stream, CUdeviceptr *address);
void sim_pool_unref (SimPool *pool);
/* Somebody synchronised a stream, or with NULL all of a context. */
void sim_pools_synchronized (SimStream *stream, SimContext *context);
CUresult sim_pool_free (SimAllocation *allocation, SimStream *stream);
void sim_pool_free_now (SimAllocation *allocation);

/* ---- virtual.c ---- */

struct _SimMemory
{
  gint refs; /* handle references and mappings */
  guint handle_refs;
  void *handle;
  SimPhysical *physical;
  CUmemAllocationProp prop;
};

guint sim_virtual_reservations (void);

/* The reservation that an address lies in. */
gboolean sim_virtual_range (guint64 address, guint64 *base, gsize *size);
guint sim_virtual_handles (void);
void sim_memory_unref (SimMemory *memory);

/* ---- managed.c ---- */

void sim_managed_init (SimAllocation *allocation, unsigned int flags, int location_type, int location_id);

/* ---- capture.c ---- */

struct _SimCapture
{
  guint64 id;
  CUstreamCaptureMode mode;
  guint64 thread; /* that began it */
  SimStream *origin;
  GPtrArray *streams; /* in it, referenced */
  SimGraph *graph;
  gboolean own_graph; /* made by the capture */
  gboolean invalid;
  gboolean unjoined; /* a stream is gone whose work nothing follows */
};

CUresult sim_capture_check_unsafe (void);
CUresult sim_capture_check_implicit (SimStream *stream, gboolean invalidate);
void sim_capture_invalidate (SimCapture *capture);
CUresult sim_capture_work (SimStream *stream, SimWork *work);
CUresult sim_capture_record (SimStream *stream, SimEvent *event, gboolean external);
CUresult sim_capture_wait (SimStream *stream, SimEvent *event, gboolean external);
gboolean sim_capture_event_live (SimEvent *event, SimCapture **capture);
void sim_capture_stream_gone (SimStream *stream);

/* ---- graph.c ---- */

struct _SimNode
{
  CUgraphNode handle;
  guint64 id;
  guint64 origin; /* id of the node that it was cloned from */
  SimGraph *graph;
  CUgraphNodeType type;
  SimWork work;
  GPtrArray *deps;
  GPtrArray *dependents;
  gboolean disabled;   /* in an exec */
  SimOp *op;           /* while being launched */
  CUDA_MEMCPY3D *copy; /* as given, for the getter */
  CUcontext context;   /* of a copy: as given, or current when it was captured */
  CUDA_MEMSET_NODE_PARAMS set;
};

typedef struct
{
  CUgraphConditionalHandle handle;
  guint value;
  gboolean used; /* by a node */
} SimConditional;

struct _SimGraph
{
  gint refs; /* handle, capture, node that it is the child of, exec */
  CUgraph handle;
  guint64 id;
  guint64 origin;
  GPtrArray *nodes;
  GHashTable *user_objects; /* SimUserObject: count */
  guint n_memory_nodes;
  GArray *conditionals;   /* SimConditional; NULL for none */
  SimExec *live_exec;     /* of a graph with memory nodes: there can be one */
  GPtrArray *allocations; /* of its memory nodes; shared with the exec's clone */
};

extern SimGraph *sim_building; /* its memory may be named in checks though it is not live */

SimGraph *sim_graph_new (void);
SimGraph *sim_graph_ref (SimGraph *graph);
void sim_graph_unref (SimGraph *graph);
SimGraph *sim_graph (CUgraph handle);
SimNode *sim_node (CUgraphNode handle);
SimNode *sim_graph_add (SimGraph *graph, SimNode **deps, guint n_deps, CUgraphNodeType type, SimWork *work);
void sim_graph_release_handle (SimGraph *graph);
CUresult sim_graph_alloc (SimGraph *graph, SimDevice *device, gsize size, SimWork *work, SimAllocation **allocation);
gboolean sim_graph_may_free (SimGraph *graph, SimAllocation *allocation);
void sim_graph_memory_executed (SimWork *work);
void sim_graph_memory_freed (SimAllocation *allocation);
void sim_exec_finished (SimExec *exec);

/* ---- copy.c ---- */

gboolean sim_run_set (SimContext *context, const SimWork *work);
gboolean sim_run_copy (SimContext *context, const SimWork *work);
CUresult sim_check_set (const SimWork *work, SimDevice *device);
CUresult sim_copy_from_3d (const CUDA_MEMCPY3D *p, gboolean checks_pitch, SimWork *work, SimDevice *device);
gboolean sim_pageable (guint64 address);

/* ---- host.c, ipc.c ---- */

CUresult sim_ipc_event_init (SimEvent *event);
void sim_ipc_event_clear (SimEvent *event);
guint64 sim_ipc_event_recorded (SimEvent *event);
void sim_ipc_event_executed (SimEvent *event, guint64 number);
guint64 sim_ipc_event_target (SimEvent *event);
gboolean sim_ipc_event_reached (SimEvent *event, guint64 target);
void sim_ipc_allocation_clear (SimAllocation *allocation);
