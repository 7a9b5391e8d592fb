/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Memory resources that a program writes: a bound one, a thread-safe one, and ones that misbehave. */
#include "gcuda-test.h"

typedef enum
{
  ANSWER_UPSTREAM,
  ANSWER_ZERO,
  ANSWER_ERROR,
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
    case ANSWER_UPSTREAM:
    default:
      g_atomic_int_inc (&self->allocated);
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

  g_atomic_int_inc (&self->deallocated);
  self->last_thread = g_thread_self ();
  self->last_size = size;
  self->last_stream = gcuda_stream_get_handle (stream);
  g_assert_true (gcuda_memory_resource_deallocate_address (self->upstream, address, size, alignment, stream, &error));
  g_assert_no_error (error);
}

static gboolean
test_resource_is_stream_ordered (GCudaMemoryResource *resource)
{
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
#define BAD(call, code) \
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

int
main (int argc,
      char **argv)
{
  gcuda_test_init (&argc, &argv);
  bed_add ("/memory-resource/bound", test_bound);
  bed_add ("/memory-resource/wrong-thread", test_wrong_thread);
  bed_add ("/memory-resource/thread-safe", test_thread_safe);
  bed_add ("/memory-resource/waits-for-stream", test_waits_for_stream);
  bed_add ("/memory-resource/misbehaviour", test_misbehaviour);
  bed_add ("/memory-resource/addresses", test_addresses);
  bed_add ("/memory-resource/bare-new", test_bare_new);
  return g_test_run ();
}
