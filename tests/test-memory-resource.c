/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Memory resources that a program writes: a bound one, a thread-safe one, and ones that misbehave. */
#include "gcuda-test.h"

typedef enum
{
  ANSWER_UPSTREAM,
  ANSWER_ZERO,
  ANSWER_ERROR,
  ANSWER_LAST_ADDRESS,
} Answer;

typedef struct
{
  GCudaMemoryResource parent_instance;

  GCudaMemoryResource *upstream;
  Answer answer;
  gboolean in_order;
  gint allocated;
  gint deallocated;
  GThread *last_thread;
  guint64 last_size;
  guint64 last_stream;
  gboolean last_blocking;
  gint asked;          /* is_stream_ordered */
  gboolean reclaims;   /* from its deallocate_address */
  gint depth, deepest; /* of deallocate_address */
  GCudaStream *closes; /* in its allocate_address */
} TestResource;

typedef GCudaMemoryResourceClass TestResourceClass;

static GType test_resource_get_type (void);
G_DEFINE_TYPE (TestResource, test_resource, GCUDA_TYPE_MEMORY_RESOURCE)

static guint64
test_resource_allocate (GCudaMemoryResource *resource,
                        guint64 size,
                        guint64 alignment,
                        GCudaStream *stream,
                        GError **error)
{
  TestResource *self = (TestResource *) resource;

  g_assert_cmpuint (size, >, 0);
  g_assert_cmpuint (alignment, >=, 256);
  switch (self->answer)
    {
    case ANSWER_ZERO:
      return 0;
    case ANSWER_ERROR:
      g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_BUSY, "no memory today");
      return 0;
    case ANSWER_LAST_ADDRESS:
      return G_MAXUINT64;
    case ANSWER_UPSTREAM:
    default:
      g_atomic_int_inc (&self->allocated);
      if (self->closes != NULL)
        g_assert_true (gcuda_stream_close (self->closes, NULL));
      return gcuda_memory_resource_allocate_address (self->upstream, size, alignment, stream, error);
    }
}

static void
test_resource_deallocate (GCudaMemoryResource *resource,
                          guint64 address,
                          guint64 size,
                          guint64 alignment,
                          GCudaStream *stream)
{
  TestResource *self = (TestResource *) resource;
  g_autoptr (GError) error = NULL;

  self->depth++;
  self->deepest = MAX (self->deepest, self->depth);
  if (self->reclaims)
    g_assert_true (gcuda_reclaim (NULL, NULL));
  self->depth--;
  g_atomic_int_inc (&self->deallocated);
  self->last_thread = g_thread_self ();
  self->last_size = size;
  self->last_stream = gcuda_stream_get_handle (stream);
  self->last_blocking = gcuda_stream_is_blocking (stream);
  g_assert_true (gcuda_memory_resource_deallocate_address (self->upstream, address, size, alignment, stream, &error));
  g_assert_no_error (error);
}

static gboolean
test_resource_is_stream_ordered (GCudaMemoryResource *resource)
{
  g_atomic_int_inc (&((TestResource *) resource)->asked);
  return ((TestResource *) resource)->in_order;
}

static void
test_resource_finalize (GObject *object)
{
  g_object_unref (((TestResource *) object)->upstream);
  G_OBJECT_CLASS (test_resource_parent_class)->finalize (object);
}

static void
test_resource_class_init (TestResourceClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = test_resource_finalize;
  klass->allocate_address = test_resource_allocate;
  klass->deallocate_address = test_resource_deallocate;
  klass->is_stream_ordered = test_resource_is_stream_ordered;
}

static void
test_resource_init (TestResource *self)
{
}

/* The same, but declared thread-safe. */
typedef TestResource SafeResource;
typedef TestResourceClass SafeResourceClass;

static GType safe_resource_get_type (void);
G_DEFINE_TYPE (SafeResource, safe_resource, test_resource_get_type ())

static guint64
safe_resource_allocate (GCudaMemoryResource *resource,
                        guint64 size,
                        guint64 alignment,
                        GCudaStream *stream,
                        GError **error)
{
  return test_resource_allocate (resource, size, alignment, stream, error);
}

static void
safe_resource_deallocate (GCudaMemoryResource *resource,
                          guint64 address,
                          guint64 size,
                          guint64 alignment,
                          GCudaStream *stream)
{
  test_resource_deallocate (resource, address, size, alignment, stream);
}

static void
safe_resource_class_init (SafeResourceClass *klass)
{
  klass->allocate_address = safe_resource_allocate;
  klass->deallocate_address = safe_resource_deallocate;
  gcuda_memory_resource_class_set_thread_safe (klass);
}

static void
safe_resource_init (SafeResource *self)
{
}

/* A subclass of the safe one that overrides a vfunc: bound to its thread again. */
typedef TestResource OverridingResource;
typedef TestResourceClass OverridingResourceClass;

static GType overriding_resource_get_type (void);
G_DEFINE_TYPE (OverridingResource, overriding_resource, safe_resource_get_type ())

static void
overriding_resource_deallocate (GCudaMemoryResource *resource,
                                guint64 address,
                                guint64 size,
                                guint64 alignment,
                                GCudaStream *stream)
{
  test_resource_deallocate (resource, address, size, alignment, stream);
}

static void
overriding_resource_class_init (OverridingResourceClass *klass)
{
  klass->deallocate_address = overriding_resource_deallocate;
}

static void
overriding_resource_init (OverridingResource *self)
{
}

/* One that implements nothing. */
typedef struct
{
  GCudaMemoryResource parent_instance;
} EmptyResource;
typedef GCudaMemoryResourceClass EmptyResourceClass;

static GType empty_resource_get_type (void);
G_DEFINE_TYPE (EmptyResource, empty_resource, GCUDA_TYPE_MEMORY_RESOURCE)

static void
empty_resource_class_init (EmptyResourceClass *klass)
{
}

static void
empty_resource_init (EmptyResource *self)
{
}

static TestResource *
make (GType type,
      Bed *bed)
{
  TestResource *self = g_object_new (type, "device", bed->device, NULL);

  self->upstream = g_object_ref (bed->resource);
  return self;
}

static GCudaBuffer *
allocate (TestResource *resource,
          guint64 size,
          Bed *bed)
{
  g_autoptr (GError) error = NULL;
  GCudaBuffer *buffer = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (resource), size, bed->stream, &error);

  g_assert_no_error (error);
  return buffer;
}

static gpointer
unref_here (gpointer data)
{
  g_object_unref (data);
  return NULL;
}

static void
test_bound (Bed *bed,
            gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  TestResource *resource = make (test_resource_get_type (), bed);
  GCudaBuffer *buffer = allocate (resource, 1000, bed), *other;

  g_assert_true (gcuda_buffer_get_device (buffer) == bed->device);
  g_assert_true (gcuda_buffer_is_device_accessible (buffer));
  pattern_fill (buffer, 7, bed->stream);
  pattern_assert (buffer, 7, bed->stream);

  /* Dropped on another thread: given back on this one, by the loop. */
  in_thread (unref_here, buffer);
  g_assert_cmpint (resource->deallocated, ==, 0);
  iterate_until (&resource->deallocated);
  g_assert_true (resource->last_thread == g_thread_self ());
  g_assert_cmpuint (resource->last_size, ==, 1000);
  g_assert_cmpuint (resource->last_stream, ==, gcuda_stream_get_handle (bed->stream));
  g_assert_false (resource->last_blocking);

  /* Without a loop: by gcuda_reclaim () here. */
  in_thread (unref_here, allocate (resource, 1001, bed));
  g_assert_cmpint (resource->deallocated, ==, 1);
  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_no_error (error);
  g_assert_cmpint (resource->deallocated, ==, 2);

  /* Or by the next allocation, or close. */
  resource->in_order = TRUE;
  in_thread (unref_here, allocate (resource, 1002, bed));
  g_assert_cmpint (resource->deallocated, ==, 2);
  other = allocate (resource, 1003, bed);
  g_assert_cmpint (resource->deallocated, ==, 3);
  in_thread (unref_here, allocate (resource, 1004, bed));
  g_assert_true (gcuda_buffer_close (other, NULL, &error));
  g_assert_no_error (error);
  g_object_unref (other);
  g_assert_cmpint (resource->deallocated, ==, 5);
  g_assert_cmpint (resource->allocated, ==, 5);

  while (g_main_context_iteration (NULL, FALSE))
    ;
  g_assert_finalize_object (resource);
}

/* Resources on resources, more than a thread's calls usually are in one another; and the stream is closed in the innermost. */
static void
test_nested (Bed *bed,
             gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  GCudaMemoryResource *nest[8];
  GCudaStream *stream = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  guint64 destroyed, address;

  g_assert_no_error (error);
  destroyed = gcuda_test_is_simulated () ? gcuda_test_count_calls ("cuStreamDestroy") : 0;
  for (guint i = 0; i < G_N_ELEMENTS (nest); i++)
    {
      TestResource *resource = make (test_resource_get_type (), bed);

      if (i > 0)
        g_set_object (&resource->upstream, nest[i - 1]);
      nest[i] = GCUDA_MEMORY_RESOURCE (resource);
    }
  for (guint i = 0; i < 2; i++)
    {
      address = gcuda_memory_resource_allocate_address (nest[G_N_ELEMENTS (nest) - 1], 4096, 0, stream, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (address, !=, 0);
      g_assert_true (gcuda_memory_resource_deallocate_address (nest[G_N_ELEMENTS (nest) - 1], address, 4096, 0, stream, &error));
      g_assert_no_error (error);
    }
  ((TestResource *) nest[0])->closes = stream;
  g_assert_cmpuint (gcuda_memory_resource_allocate_address (nest[G_N_ELEMENTS (nest) - 1], 4096, 0, stream, &error), ==, 0);
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_finalize_object (stream);
  for (guint i = 0; gcuda_test_is_simulated () && i < 10000 && gcuda_test_count_calls ("cuStreamDestroy") == destroyed; i++)
    g_usleep (1000);
  if (gcuda_test_is_simulated ())
    g_assert_cmpuint (gcuda_test_count_calls ("cuStreamDestroy"), ==, destroyed + 1);
  for (guint i = G_N_ELEMENTS (nest); i-- > 0;)
    g_assert_finalize_object (nest[i]);
}

static gpointer
synchronize_once (gpointer data)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (gcuda_stream_synchronize (data, &error));
  g_assert_no_error (error);
  return NULL;
}

/* Each release tells the resource the stream, by an object of its own, and another thread's call on that stream goes on. */
static void
test_released_under_call (Bed *bed,
                          gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  TestResource *resource = make (safe_resource_get_type (), bed);
  GCudaStream *stream = gcuda_stream_new (bed->context, GCUDA_STREAM_FLAGS_NONE, 0, &error);
  GCudaBuffer *buffers[5];
  guint64 destroyed = gcuda_test_is_simulated () ? gcuda_test_count_calls ("cuStreamDestroy") : 0;
  Blocker *blocker;
  GThread *thread;

  g_assert_no_error (error);
  resource->in_order = TRUE;
  for (guint i = 0; i < G_N_ELEMENTS (buffers); i++)
    {
      buffers[i] = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (resource), 4096, stream, &error);
      g_assert_no_error (error);
    }
  blocker = blocker_new (stream);
  thread = g_thread_new ("synchronizes", synchronize_once, stream);
  g_usleep (10000);
  for (guint i = 0; i < G_N_ELEMENTS (buffers); i++)
    g_object_unref (buffers[i]);
  g_assert_cmpint (resource->deallocated, ==, G_N_ELEMENTS (buffers));
  g_usleep (10000);
  blocker_release (blocker);
  g_thread_join (thread);
  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_no_error (error);
  g_usleep (10000);
  g_assert_true (gcuda_stream_synchronize (stream, &error));
  g_assert_no_error (error);
  if (gcuda_test_is_simulated ())
    g_assert_cmpuint (gcuda_test_count_calls ("cuStreamDestroy"), ==, destroyed);
  g_assert_finalize_object (stream);
  for (guint i = 0; gcuda_test_is_simulated () && i < 10000 && gcuda_test_count_calls ("cuStreamDestroy") == destroyed; i++)
    g_usleep (1000);
  if (gcuda_test_is_simulated ())
    g_assert_cmpuint (gcuda_test_count_calls ("cuStreamDestroy"), ==, destroyed + 1);
  g_assert_finalize_object (resource);
}

typedef struct
{
  TestResource *resource;
  GCudaStream *stream;
  gint stop;
  gint released;
} Releaser;

static gpointer
release_all_the_time (gpointer data)
{
  Releaser *self = data;

  while (!g_atomic_int_get (&self->stop))
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GCudaBuffer) buffer = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (self->resource), 256, self->stream, &error);

      g_assert_no_error (error);
      assert_cuda (RAW (cuLaunchHostFunc) (gcuda_stream_get_cuda_stream (self->stream), take_a_while, NULL));
      g_clear_object (&buffer);
      g_atomic_int_inc (&self->released);
      g_usleep (10000);
    }
  return NULL;
}

static gpointer
cancel_in_time (gpointer data)
{
  for (guint i = 0; i < 1000 && !g_cancellable_is_cancelled (data); i++)
    g_usleep (10000);
  g_cancellable_cancel (data);
  return NULL;
}

/* What was released before is waited for, not what another thread goes on releasing on the same stream. */
static void
test_reclaim_among_releases (Bed *bed,
                             gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  Releaser releaser = { .resource = make (safe_resource_get_type (), bed), .stream = bed->stream };
  GThread *thread = g_thread_new ("releases", release_all_the_time, &releaser), *timer;

  while (g_atomic_int_get (&releaser.released) < 5)
    g_usleep (1000);
  timer = g_thread_new ("timer", cancel_in_time, cancellable);
  g_assert_true (gcuda_reclaim (cancellable, &error));
  g_assert_no_error (error);
  g_cancellable_cancel (cancellable);
  g_thread_join (timer);
  g_atomic_int_set (&releaser.stop, TRUE);
  g_thread_join (thread);
  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_no_error (error);
  g_assert_cmpint (releaser.resource->deallocated, ==, releaser.released);
  g_assert_finalize_object (releaser.resource);
}

static gpointer
allocate_elsewhere (gpointer data)
{
  gpointer *pair = data;
  Bed *bed = pair[1];
  g_autoptr (GError) error = NULL;

  g_assert_null (gcuda_memory_resource_allocate (pair[0], 64, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_WRONG_THREAD);
  g_assert_cmpuint (gcuda_memory_resource_allocate_address (pair[0], 64, 0, bed->stream, &error), ==, 0);
  assert_error_and_clear (error, GCUDA_ERROR_WRONG_THREAD);
  g_assert_false (gcuda_memory_resource_deallocate_address (pair[0], 0x1000, 64, 0, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_WRONG_THREAD);
  g_assert_null (gcuda_memory_resource_adopt_address (pair[0], 0x1000, 64, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_WRONG_THREAD);
  /* None of its functions was called here. */
  g_assert_cmpint (((TestResource *) pair[0])->asked, ==, 0);
  return NULL;
}

static void
test_wrong_thread (Bed *bed,
                   gconstpointer data)
{
  GType types[] = { test_resource_get_type (), overriding_resource_get_type () };

  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    {
      TestResource *resource = make (types[i], bed);
      gpointer pair[2] = { resource, bed };

      in_thread (allocate_elsewhere, pair);
      g_assert_cmpint (resource->allocated, ==, 0);
      g_assert_cmpint (resource->deallocated, ==, 0);
      g_assert_finalize_object (resource);
    }
}

static gpointer
use_safe (gpointer data)
{
  gpointer *pair = data;

  g_object_unref (allocate (pair[0], 64, pair[1]));
  return NULL;
}

static void
test_thread_safe (Bed *bed,
                  gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  TestResource *resource = make (safe_resource_get_type (), bed);
  gpointer pair[2] = { resource, bed };

  in_thread (use_safe, pair);
  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_cmpint (resource->deallocated, ==, 1);
  resource->in_order = TRUE;
  in_thread (use_safe, pair);
  /* In order: at once, on the thread that dropped it. */
  g_assert_cmpint (resource->deallocated, ==, 2);
  g_assert_true (resource->last_thread != g_thread_self ());
  g_assert_finalize_object (resource);
}

/* A resource that does not free in stream order is not asked to before the stream has passed. */
static void
test_waits_for_stream (Bed *bed,
                       gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  TestResource *resource = make (safe_resource_get_type (), bed);
  GCudaBuffer *buffer = allocate (resource, 4096, bed);
  Blocker *blocker = blocker_new (bed->stream);

  pattern_fill (buffer, 1, bed->stream);
  g_object_unref (buffer);
  g_usleep (5000);
  g_assert_cmpint (g_atomic_int_get (&resource->deallocated), ==, 0);
  blocker_release (blocker);
  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_cmpint (g_atomic_int_get (&resource->deallocated), ==, 1);
  g_assert_finalize_object (resource);
}

static void
test_misbehaviour (Bed *bed,
                   gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  TestResource *resource = make (test_resource_get_type (), bed);
  GCudaMemoryResource *empty = g_object_new (empty_resource_get_type (), NULL);

  resource->answer = ANSWER_ZERO;
  g_assert_null (gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (resource), 64, bed->stream, &error));
  g_assert_nonnull (strstr (error->message, "TestResource"));
  assert_error_and_clear (error, GCUDA_ERROR_RESOURCE_FAILED);
  resource->answer = ANSWER_ERROR;
  g_assert_null (gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (resource), 64, bed->stream, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_BUSY);
  g_clear_error (&error);
  /* No memory of that size can be there. */
  resource->answer = ANSWER_LAST_ADDRESS;
  g_assert_null (gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (resource), 64, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_RESOURCE_FAILED);
  g_assert_cmpint (resource->deallocated, ==, 0);
  resource->answer = ANSWER_UPSTREAM;
  g_object_unref (allocate (resource, 64, bed));
  /* A size of 0 never reaches the vfunc. */
  g_object_unref (allocate (resource, 0, bed));
  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_cmpint (resource->allocated, ==, 1);
  g_assert_cmpint (resource->deallocated, ==, 1);

  g_assert_null (gcuda_memory_resource_get_device (empty));
  g_assert_null (gcuda_memory_resource_allocate (empty, 64, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_RESOURCE_FAILED);
  g_assert_false (gcuda_memory_resource_deallocate_address (empty, 0x1000, 64, 0, bed->stream, &error));
  assert_error_and_clear (error, GCUDA_ERROR_RESOURCE_FAILED);
  g_assert_finalize_object (empty);
  while (g_main_context_iteration (NULL, FALSE))
    ;
  g_assert_finalize_object (resource);
}

static void
test_addresses (Bed *bed,
                gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaMemoryResource) synchronous = GCUDA_MEMORY_RESOURCE (gcuda_synchronous_memory_resource_new (bed->context, &error));
  GCudaMemoryResource *resources[] = { bed->resource, synchronous };

  g_assert_no_error (error);
  for (guint i = 0; i < G_N_ELEMENTS (resources); i++)
    {
      guint64 address = gcuda_memory_resource_allocate_address (resources[i], 4096, 0, bed->stream, &error);
      GCudaBuffer *buffer;

      g_assert_no_error (error);
      g_assert_cmpuint (address % 256, ==, 0);
#define BAD(call, code)  \
  g_assert_false (call); \
  assert_error_and_clear (error, code)
      BAD (gcuda_memory_resource_allocate_address (resources[i], 64, 3, bed->stream, &error) != 0, GCUDA_ERROR_INVALID_ARGUMENT);
      BAD (gcuda_memory_resource_allocate_address (resources[i], 64, 4096, bed->stream, &error) != 0, GCUDA_ERROR_NOT_SUPPORTED);
      BAD (gcuda_memory_resource_allocate_address (resources[i], 64, 0, NULL, &error) != 0, GCUDA_ERROR_INVALID_ARGUMENT);
      BAD (gcuda_memory_resource_allocate_address (resources[i], G_MAXUINT64, 0, bed->stream, &error) != 0, GCUDA_ERROR_INVALID_ARGUMENT);
      BAD (gcuda_memory_resource_deallocate_address (resources[i], 0, 4096, 0, bed->stream, &error), GCUDA_ERROR_INVALID_ARGUMENT);
      BAD (gcuda_memory_resource_deallocate_address (resources[i], address, 4096, 0, NULL, &error), GCUDA_ERROR_INVALID_ARGUMENT);
      BAD (gcuda_memory_resource_deallocate_address (resources[i], address + 8, 4096, 0, bed->stream, &error), GCUDA_ERROR_INVALID_VALUE);
      BAD (gcuda_memory_resource_adopt_address (resources[i], 0, 4096, bed->stream, &error) != NULL, GCUDA_ERROR_INVALID_ARGUMENT);
      BAD (gcuda_memory_resource_adopt_address (resources[i], address, 0, bed->stream, &error) != NULL, GCUDA_ERROR_INVALID_ARGUMENT);
      BAD (gcuda_memory_resource_adopt_address (resources[i], address, 4096, NULL, &error) != NULL, GCUDA_ERROR_INVALID_ARGUMENT);
      BAD (gcuda_memory_resource_adopt_address (resources[i], G_MAXUINT64 - 1, 4096, bed->stream, &error) != NULL, GCUDA_ERROR_INVALID_ARGUMENT);
#undef BAD
      /* What failed took nothing: the address is still the caller's to adopt. */
      buffer = gcuda_memory_resource_adopt_address (resources[i], address, 4096, bed->stream, &error);
      g_assert_no_error (error);
      pattern_fill (buffer, 0x31, bed->stream);
      pattern_assert (buffer, 0x31, bed->stream);
      g_object_unref (buffer);
      g_assert_true (gcuda_reclaim (NULL, &error));

      address = gcuda_memory_resource_allocate_address (resources[i], 1, 256, bed->stream, &error);
      g_assert_no_error (error);
      g_assert_true (gcuda_memory_resource_deallocate_address (resources[i], address, 1, 256, bed->stream, &error));
      g_assert_no_error (error);
      g_assert_false (gcuda_memory_resource_deallocate_address (resources[i], address, 1, 256, bed->stream, &error));
      assert_error_and_clear (error, GCUDA_ERROR_INVALID_VALUE);
    }
}

static void
test_bare_new (Bed *bed,
               gconstpointer data)
{
  GType types[] = { GCUDA_TYPE_DEVICE_MEMORY_RESOURCE, GCUDA_TYPE_SYNCHRONOUS_MEMORY_RESOURCE };

  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GCudaMemoryResource) resource = g_object_new (types[i], NULL);

      g_assert_null (gcuda_memory_resource_get_device (resource));
      g_assert_null (gcuda_memory_resource_allocate (resource, 64, bed->stream, &error));
      g_assert_true (g_str_has_prefix (error->message, "allocating a buffer: "));
      assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
      g_assert_null (gcuda_memory_resource_allocate (resource, 0, bed->stream, &error));
      assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
      g_assert_cmpuint (gcuda_memory_resource_allocate_address (resource, 64, 0, bed->stream, &error), ==, 0);
      assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
      g_assert_false (gcuda_memory_resource_deallocate_address (resource, 0x1000, 64, 0, bed->stream, &error));
      assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
      g_assert_null (gcuda_memory_resource_adopt_address (resource, 0x1000, 64, bed->stream, &error));
      assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
    }
}

/* A program's resource keeps to the same rules as the library's own: nothing is given back into a capture, or to the wrong
 * stream, or on a thread of the driver's. */
static void
test_captured (Bed *bed,
               gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  TestResource *resource = make (GPOINTER_TO_INT (data) ? safe_resource_get_type () : test_resource_get_type (), bed);
  GCudaBuffer *buffer;
  CUgraph graph = NULL;

  resource->in_order = TRUE;
  buffer = allocate (resource, 4096, bed);
  assert_cuda (RAW (cuStreamBeginCapture) (gcuda_stream_get_cuda_stream (bed->stream), CU_STREAM_CAPTURE_MODE_GLOBAL));
  g_object_unref (buffer);
  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_no_error (error);
  g_assert_cmpint (resource->deallocated, ==, 0);
  assert_cuda (RAW (cuStreamEndCapture) (gcuda_stream_get_cuda_stream (bed->stream), &graph));
  assert_cuda (RAW (cuGraphDestroy) (graph));
  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_no_error (error);
  g_assert_cmpint (resource->deallocated, ==, 1);
  while (g_main_context_iteration (NULL, FALSE))
    ;
  g_assert_finalize_object (resource);
}

static void
test_per_thread_stream (Bed *bed,
                        gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaStream) stream = gcuda_stream_new_per_thread_default (bed->context, &error);
  TestResource *resource = make (safe_resource_get_type (), bed);
  GCudaBuffer *buffer;

  resource->in_order = TRUE;
  buffer = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (resource), 64, stream, &error);
  g_assert_no_error (error);
  g_object_unref (buffer);
  g_assert_cmpuint (resource->last_stream, ==, 2);
  g_assert_true (resource->last_blocking);
  buffer = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (resource), 64, stream, &error);
  g_assert_no_error (error);
  in_thread (unref_here, buffer);
  g_assert_cmpint (resource->deallocated, ==, 2);
  /* That thread's own stream of this kind knows nothing of this thread's work; the legacy one comes after it. */
  g_assert_cmpuint (resource->last_stream, ==, 1);
  g_assert_finalize_object (resource);
}

static void CUDA_CB
unref_on_driver_thread (void *data)
{
  gpointer *pair = data;

  pair[1] = g_thread_self ();
  g_object_unref (pair[0]);
}

static void
test_driver_thread (Bed *bed,
                    gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  TestResource *resource = make (safe_resource_get_type (), bed);
  gpointer pair[2] = { NULL, NULL };

  resource->in_order = TRUE;
  pair[0] = allocate (resource, 64, bed);
  assert_cuda (RAW (cuLaunchHostFunc) (gcuda_stream_get_cuda_stream (bed->stream), unref_on_driver_thread, pair));
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_no_error (error);
  g_assert_cmpint (resource->deallocated, ==, 1);
  g_assert_true (resource->last_thread != pair[1]);
  g_assert_finalize_object (resource);
}

static gpointer
iterate_here (gpointer data)
{
  for (guint i = 0; i < 20; i++)
    {
      g_main_context_iteration (NULL, FALSE);
      g_usleep (500);
    }
  return NULL;
}

/* Another thread may run the loop for a while: what waits for this one still comes. */
static void
test_loop_elsewhere (Bed *bed,
                     gconstpointer data)
{
  TestResource *resource = make (test_resource_get_type (), bed);

  resource->in_order = TRUE;
  in_thread (unref_here, allocate (resource, 64, bed));
  in_thread (iterate_here, NULL);
  g_assert_cmpint (resource->deallocated, ==, 0);
  iterate_until (&resource->deallocated);
  g_assert_true (resource->last_thread == g_thread_self ());
  while (g_main_context_iteration (NULL, FALSE))
    ;
  g_assert_finalize_object (resource);
}

/* A resource that reclaims, or releases more, while it gives back does not go deeper for each. */
static void
test_reentered (Bed *bed,
                gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  TestResource *resource = make (test_resource_get_type (), bed);

  resource->in_order = TRUE;
  resource->reclaims = TRUE;
  for (guint i = 0; i < 500; i++)
    g_object_unref (allocate (resource, 64, bed));
  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_no_error (error);
  g_assert_cmpint (resource->deallocated, ==, 500);
  g_assert_cmpint (resource->deepest, ==, 1);
  while (g_main_context_iteration (NULL, FALSE))
    ;
  g_assert_finalize_object (resource);
}

static guint
count_fds (void)
{
  g_autoptr (GDir) dir = g_dir_open ("/proc/self/fd", 0, NULL);
  guint count = 0;

  while (g_dir_read_name (dir) != NULL)
    count++;
  return count;
}

/* Loops that never ran go with their resources. */
static void
test_contexts_go (Bed *bed,
                  gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  guint before = count_fds ();

  for (guint i = 0; i < 50; i++)
    {
      GMainContext *context = g_main_context_new ();
      TestResource *resource;

      g_main_context_push_thread_default (context);
      resource = make (test_resource_get_type (), bed);
      resource->in_order = TRUE;
      in_thread (unref_here, allocate (resource, 64, bed));
      g_assert_true (gcuda_reclaim (NULL, &error));
      g_assert_no_error (error);
      g_assert_cmpint (resource->deallocated, ==, 1);
      g_assert_finalize_object (resource);
      g_main_context_pop_thread_default (context);
      g_main_context_unref (context);
    }
  g_assert_cmpuint (count_fds (), ==, before);
}

static void
reclaim_when_freed (gpointer data)
{
  g_autoptr (GError) error = NULL;

  g_assert_false (gcuda_reclaim (NULL, &error));
  g_assert_error (error, GCUDA_ERROR, GCUDA_ERROR_NOT_PERMITTED);
  g_atomic_int_inc ((gint *) data);
}

/* What the library's own thread calls can't wait for that thread; and says so, with a cancellable or without. */
static void
test_reclaim_from_within (Bed *bed,
                          gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = gcuda_memory_resource_allocate (bed->resource, 8, bed->stream, &error);
  gint freed = 0;
  GBytes *bytes = g_bytes_new_with_free_func ("12345678", 8, reclaim_when_freed, &freed);
  Blocker *blocker = blocker_new (bed->stream);

  g_assert_true (gcuda_buffer_upload (buffer, 0, bytes, bed->stream, &error));
  g_assert_no_error (error);
  /* The stream has not passed it: only the library has it then. */
  g_bytes_unref (bytes);
  blocker_release (blocker);
  g_assert_true (gcuda_stream_synchronize (bed->stream, &error));
  g_assert_true (gcuda_reclaim (NULL, &error));
  g_assert_no_error (error);
  g_assert_cmpint (freed, ==, 1);
}

int
main (int argc,
      char **argv)
{
  gcuda_test_init (&argc, &argv);
  bed_add ("/memory-resource/bound", test_bound);
  bed_add ("/memory-resource/nested", test_nested);
  bed_add ("/memory-resource/released-under-call", test_released_under_call);
  bed_add ("/memory-resource/reclaim-among-releases", test_reclaim_among_releases);
  bed_add ("/memory-resource/wrong-thread", test_wrong_thread);
  bed_add ("/memory-resource/thread-safe", test_thread_safe);
  bed_add ("/memory-resource/waits-for-stream", test_waits_for_stream);
  bed_add ("/memory-resource/misbehaviour", test_misbehaviour);
  bed_add_data ("/memory-resource/captured/bound", GINT_TO_POINTER (FALSE), test_captured);
  bed_add_data ("/memory-resource/captured/thread-safe", GINT_TO_POINTER (TRUE), test_captured);
  bed_add ("/memory-resource/per-thread-stream", test_per_thread_stream);
  bed_add ("/memory-resource/driver-thread", test_driver_thread);
  bed_add ("/memory-resource/loop-elsewhere", test_loop_elsewhere);
  bed_add ("/memory-resource/reentered", test_reentered);
  bed_add ("/memory-resource/contexts-go", test_contexts_go);
  bed_add ("/memory-resource/reclaim-from-within", test_reclaim_from_within);
  bed_add ("/memory-resource/addresses", test_addresses);
  bed_add ("/memory-resource/bare-new", test_bare_new);
  return g_test_run ();
}
