/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-test.h"

static void
test_life (Bed *bed,
           gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaBuffer) buffer = gcuda_memory_resource_allocate (bed->resource, 1000, bed->stream, &error);
  g_autoptr (GCudaMemoryResource) resource = NULL;

  g_assert_no_error (error);
  g_assert_cmpuint (gcuda_buffer_get_size (buffer), ==, 1000);
  g_assert_cmpuint (gcuda_buffer_get_address (buffer), !=, 0);
  g_assert_true (gcuda_buffer_get_device (buffer) == bed->device);
  resource = gcuda_buffer_get_resource (buffer);
  g_assert_true (resource == bed->resource);
  g_assert_true (gcuda_buffer_is_device_accessible (buffer));
  g_assert_false (gcuda_buffer_is_host_accessible (buffer));
  g_assert_false (gcuda_buffer_is_closed (buffer));
  pattern_fill (buffer, 0x5a, bed->stream);
  pattern_assert (buffer, 0x5a, bed->stream);

  g_assert_true (gcuda_buffer_close (buffer, NULL, &error));
  g_assert_no_error (error);
  g_assert_true (gcuda_buffer_is_closed (buffer));
  g_assert_cmpuint (gcuda_buffer_get_size (buffer), ==, 1000);
  g_assert_cmpuint (gcuda_buffer_get_address (buffer), ==, 0);
  g_assert_true (gcuda_buffer_close (buffer, NULL, &error));
  g_assert_cmpuint (bed_settled_use (bed), ==, 0);
}

int
main (int argc,
      char **argv)
{
  gcuda_test_init (&argc, &argv);
  bed_add ("/buffer/life", test_life);
  return g_test_run ();
}
