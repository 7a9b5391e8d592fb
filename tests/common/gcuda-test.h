/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <cuda.h>
#include <gcudamem/gcudamem-cuda.h>

G_BEGIN_DECLS

/*
 * What every test uses. A test runs unchanged on the simulated driver and on a real one; what only the simulated one can
 * show (what the driver holds, in which context) is asked for by gcuda_test_is_simulated (). Which calls were made, and
 * what happens when one fails, is seen on a real driver too where the checker passes the calls on:
 * gcuda_test_can_fail_calls (). Whatever touches memory takes a stream.
 */

/* g_test_init, and a test driver: GCUDA_DRIVER, or else the machine's. */
void gcuda_test_init (int *argc,
                      char ***argv);

gboolean gcuda_test_is_simulated (void);

/* The driver itself, for what the library has no call for: captures, contexts of others. By its plain name; aborts if it
 * is missing. */
gpointer gcuda_test_driver_function (const char *name);
#define RAW(name)         ((__typeof__ (&name)) gcuda_test_driver_function (#name))
#define assert_cuda(call) g_assert_cmpint ((call), ==, CUDA_SUCCESS)

/* Whether calls are counted, logged, and fail on demand. If not, the running test is skipped. */
gboolean gcuda_test_can_fail_calls (void);
gboolean gcuda_test_needs_failing_calls (void);

/* The control functions of the simulated driver; NULL on a real one. */
gpointer gcuda_test_simulator_function (const char *name);
void gcuda_test_fail_calls (const char *spec); /* NULL: none */

/* What is put on the stream stays pending until it is let go; one stream at a time. On a real driver, calls that wait for
 * the device wait meanwhile. */
void gcuda_test_hold (GCudaStream *stream);
void gcuda_test_let_go (void);
gpointer gcuda_test_let_go_soon (gpointer data); /* a thread's function: ends the hold after a moment */

/* Whether a tool that checks GPU programs looks on: such tools add calls, wait where programs do not, and do not know all that
 * brings things in order. */
gboolean gcuda_test_under_tool (void);
guint64 gcuda_test_count_calls (const char *function);

/* The simulated driver's call log. Lines, oldest first. */
void gcuda_test_log_start (void);
char **gcuda_test_log_take (void);
/* How many lines begin with this call and contain all of the texts that follow, up to NULL. */
guint gcuda_test_log_count (char **log,
                            const char *function,
                            ...) G_GNUC_NULL_TERMINATED;
void gcuda_test_log_print (char **log);

#define assert_no_error(error) g_assert_no_error (error)
#define assert_error_and_clear(error, code_)              \
  G_STMT_START                                            \
  {                                                       \
    g_assert_error ((error), GCUDA_ERROR, (int) (code_)); \
    g_assert_cmpuint (strlen ((error)->message), >, 8);   \
    g_clear_error (&(error));                             \
  }                                                       \
  G_STMT_END

/* A device with a stream and a pool. The teardown checks that nothing is left of what the test made. */
typedef struct
{
  GCudaDevice *device;
  GCudaContext *context;
  GCudaStream *stream;
  GCudaDeviceMemoryResource *pool;
  GCudaMemoryResource *resource; /* the pool, not referenced */
  gpointer balance;
} Bed;

void bed_set_up (Bed *bed,
                 gconstpointer data);
void bed_tear_down (Bed *bed,
                    gconstpointer data);
/* Waits for the GPU and the reclaimer; then the pool's used bytes. */
guint64 bed_settled_use (Bed *bed);
/* The same until so many bytes are used, 10 seconds at most: the driver lets go what a graph kept when it gets to it. */
void bed_assert_use (Bed *bed,
                     guint64 expected);

#define bed_add(path, function)            g_test_add ((path), Bed, NULL, bed_set_up, (function), bed_tear_down)
#define bed_add_data(path, data, function) g_test_add ((path), Bed, (data), bed_set_up, (function), bed_tear_down)

/* Fills with a byte, and checks that each byte of the buffer is that; both in the order of the stream. */
void pattern_fill (GCudaBuffer *buffer,
                   guint8 value,
                   GCudaStream *stream);
void pattern_assert (GCudaBuffer *buffer,
                     guint8 value,
                     GCudaStream *stream);

/* Keeps a stream busy until it is let go: what is queued behind it stays pending, on both drivers. */
typedef struct _Blocker Blocker;
Blocker *blocker_new (GCudaStream *stream);
void blocker_release (Blocker *blocker); /* and frees it, once the stream has passed */

/* Another thread's capture in global mode, which others can break: from here until its end, which asserts that it is whole. */
typedef enum
{
  CAPTURE_NON_BLOCKING,
  CAPTURE_BLOCKING,
  CAPTURE_PER_THREAD,
} CaptureKind;

typedef struct _Capture Capture;
Capture *capture_begin (GCudaContext *context,
                        CaptureKind kind);
void capture_end (Capture *capture);

/* Runs a function in a thread of its own, and waits for it. */
void in_thread (GThreadFunc func,
                gpointer data);

/* Iterates the default main context until the flag is set, or the number is what is expected, 10 seconds at most. */
void iterate_until (gint *flag);
void iterate_until_is (gint *number,
                       gint expected);

/* A host function for the driver itself, which keeps the stream busy for some milliseconds. */
void CUDA_CB take_a_while (void *data);

/* A program's host function: it counts, and asserts that it is called and let go on its thread, if it has one. */
typedef struct
{
  GThread *thread;
  gint called;
  gint destroyed;
} Call;

void call_run (gpointer data);
void call_destroyed (gpointer data);

G_END_DECLS
