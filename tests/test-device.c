/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-test.h"

static void
test_list (Bed *bed,
           gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GListModel) list = gcuda_get_devices (&error);
  guint count;

  g_assert_no_error (error);
  count = g_list_model_get_n_items (list);
  g_assert_cmpuint (count, >, 0);
  g_assert_true (g_type_is_a (g_list_model_get_item_type (list), GCUDA_TYPE_DEVICE));
  g_assert_false (G_IS_LIST_STORE (list));
  g_assert_null (g_list_model_get_item (list, count));
  for (guint i = 0; i < count; i++)
    {
      g_autoptr (GCudaDevice) device = g_list_model_get_item (list, i);
      g_autoptr (GCudaDevice) again = gcuda_device_new ((int) i, &error);

      g_assert_no_error (error);
      g_assert_true (device == again);
      g_assert_cmpint (gcuda_device_get_ordinal (device), ==, i);
    }
}

static void
test_identity (Bed *bed,
               gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *name = NULL, *uuid = NULL, *bus = NULL;
  int ordinal, major, minor;
  guint64 total;

  g_object_get (bed->device, "ordinal", &ordinal, "name", &name, "uuid", &uuid, "pci-bus-id", &bus,
                "compute-capability-major", &major, "compute-capability-minor", &minor, "total-memory", &total, NULL);
  g_assert_cmpint (ordinal, ==, 0);
  g_assert_cmpstr (name, ==, gcuda_device_get_name (bed->device));
  g_assert_cmpuint (strlen (name), >, 0);
  g_assert_true (g_uuid_string_is_valid (uuid));
  g_assert_cmpstr (uuid, ==, gcuda_device_get_uuid (bed->device));
  g_assert_true (g_regex_match_simple ("^[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\\.0$", bus, 0, 0));
  g_assert_cmpint (major, ==, gcuda_device_get_attribute (bed->device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &error));
  g_assert_no_error (error);
  g_assert_cmpint (minor, ==, gcuda_device_get_attribute (bed->device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (total, ==, gcuda_device_get_total_memory (bed->device));
  g_assert_cmpuint (total, >, 1 << 20);
}

static void
test_bad_ordinals (Bed *bed,
                   gconstpointer data)
{
  static const int ordinals[] = { -1, 1000, G_MININT, G_MAXINT };

  for (guint i = 0; i < G_N_ELEMENTS (ordinals); i++)
    {
      g_autoptr (GError) error = NULL;

      g_assert_null (gcuda_device_new (ordinals[i], &error));
      assert_error_and_clear (error, GCUDA_ERROR_INVALID_DEVICE);
    }
}

static void
test_bad_attributes (Bed *bed,
                     gconstpointer data)
{
  static const int attributes[] = { 0, -1, 9999 };

  for (guint i = 0; i < G_N_ELEMENTS (attributes); i++)
    {
      g_autoptr (GError) error = NULL;

      g_assert_cmpint (gcuda_device_get_attribute (bed->device, attributes[i], &error), ==, 0);
      assert_error_and_clear (error, GCUDA_ERROR_INVALID_VALUE);
    }
}

static void
test_bare_new (Bed *bed,
               gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaDevice) device = g_object_new (GCUDA_TYPE_DEVICE, NULL);

  g_assert_null (gcuda_device_get_name (device));
  g_assert_null (gcuda_device_get_uuid (device));
  g_assert_null (gcuda_device_get_pci_bus_id (device));
  g_assert_cmpuint (gcuda_device_get_total_memory (device), ==, 0);
  g_assert_cmpint (gcuda_device_get_attribute (device, 1, &error), ==, 0);
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_null (gcuda_device_get_primary_context (device, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_null (gcuda_device_get_memory_info (device, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_false (gcuda_device_synchronize (device, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_false (gcuda_device_can_access_peer (device, bed->device, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_false (gcuda_device_can_access_peer (bed->device, device, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_false (gcuda_device_can_access_peer (bed->device, NULL, &error));
  assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
  g_assert_null (gcuda_stream_new_for_device (device, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_null (gcuda_event_new_for_device (device, GCUDA_EVENT_FLAGS_NONE, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_null (gcuda_device_memory_resource_new (device, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_null (gcuda_synchronous_memory_resource_new_for_device (device, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
}

static void
test_memory_info (Bed *bed,
                  gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaSynchronousMemoryResource) resource = gcuda_synchronous_memory_resource_new (bed->context, &error);
  gboolean seen = FALSE;

  g_assert_no_error (error);
  /* Other processes may give memory back meanwhile. */
  for (guint i = 0; i < 100 && !seen; i++)
    {
      g_autoptr (GCudaMemoryInfo) before = gcuda_device_get_memory_info (bed->device, &error);
      g_autoptr (GCudaMemoryInfo) during = NULL;
      g_autoptr (GCudaBuffer) buffer = NULL;

      g_assert_no_error (error);
      g_assert_cmpuint (gcuda_memory_info_get_total (before), >, 0);
      g_assert_cmpuint (gcuda_memory_info_get_free (before), <=, gcuda_memory_info_get_total (before));
      buffer = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (resource), 64 << 20, bed->stream, &error);
      g_assert_no_error (error);
      during = gcuda_device_get_memory_info (bed->device, &error);
      g_assert_no_error (error);
      seen = gcuda_memory_info_get_free (during) + (60 << 20) <= gcuda_memory_info_get_free (before);
      g_assert_true (seen || !gcuda_test_is_simulated ());
    }
  g_assert_true (seen);
}

static void
test_peer_of_itself (Bed *bed,
                     gconstpointer data)
{
  g_autoptr (GError) error = NULL;

  g_assert_false (gcuda_device_can_access_peer (bed->device, bed->device, &error));
  g_assert_no_error (error);
}

/* Synchronizing a device means its own context, whatever is current. */
static void
test_synchronize (Bed *bed,
                  gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaContext) other = gcuda_context_new (bed->device, GCUDA_CONTEXT_FLAGS_NONE, &error);
  CUcontext popped;

  g_assert_no_error (error);
  assert_cuda (RAW (cuCtxPushCurrent) (gcuda_context_get_cuda_context (other)));
  gcuda_test_log_start ();
  g_assert_true (gcuda_device_synchronize (bed->device, &error));
  g_assert_no_error (error);
  if (gcuda_test_is_simulated ())
    {
      g_auto (GStrv) log = gcuda_test_log_take ();
      g_autofree char *context = g_strdup_printf ("ctx=0x%" G_GINT64_MODIFIER "x", gcuda_context_get_handle (bed->context));

      g_assert_cmpuint (gcuda_test_log_count (log, "cuCtxSynchronize", context, NULL), ==, 1);
    }
  assert_cuda (RAW (cuCtxPopCurrent) (&popped));
  g_assert_true (popped == gcuda_context_get_cuda_context (other));
}

static void
test_memory_resource (Bed *bed,
                      gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaMemoryResource) first = gcuda_device_get_memory_resource (bed->device, &error);
  g_autoptr (GCudaMemoryResource) set = NULL, last = NULL, own = NULL;
  g_autoptr (GCudaBuffer) buffer = NULL;
  g_autoptr (GListModel) devices = gcuda_get_devices (&error);
  g_autoptr (GCudaDevice) other = g_list_model_get_item (devices, 1);
  g_autoptr (GCudaDevice) bare = g_object_new (GCUDA_TYPE_DEVICE, NULL);
  g_autoptr (GCudaMemoryResource) closed = g_object_new (GCUDA_TYPE_DEVICE_MEMORY_RESOURCE, NULL);

  g_assert_no_error (error);
  g_assert_true (GCUDA_IS_DEVICE_MEMORY_RESOURCE (first));
  g_assert_false (gcuda_device_memory_resource_owns_pool (GCUDA_DEVICE_MEMORY_RESOURCE (first)));
  g_assert_true (gcuda_device_set_memory_resource (bed->device, bed->resource, &error));
  g_assert_no_error (error);
  set = gcuda_device_get_memory_resource (bed->device, &error);
  g_assert_true (set == bed->resource);
  buffer = gcuda_memory_resource_allocate (set, 64, bed->stream, &error);
  g_assert_no_error (error);
  g_assert_true (gcuda_device_set_memory_resource (bed->device, NULL, &error));
  g_assert_no_error (error);
  last = gcuda_device_get_memory_resource (bed->device, &error);
  g_assert_true (last != bed->resource);
  /* A buffer keeps the one that it came from. */
  own = gcuda_buffer_get_resource (buffer);
  g_assert_true (own == bed->resource);
  if (other != NULL)
    {
      g_assert_false (gcuda_device_set_memory_resource (other, bed->resource, &error));
      assert_error_and_clear (error, GCUDA_ERROR_INVALID_ARGUMENT);
    }
  /* What nobody could allocate from is not set. */
  g_assert_false (gcuda_device_set_memory_resource (bed->device, closed, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_null (gcuda_device_get_memory_resource (bare, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  g_assert_false (gcuda_device_set_memory_resource (bare, NULL, &error));
  assert_error_and_clear (error, GCUDA_ERROR_CLOSED);
  if (gcuda_test_is_simulated ())
    {
      void (*set_attribute) (int, int, int) = gcuda_test_simulator_function ("gcudasim_set_attribute");
      g_autoptr (GCudaMemoryResource) fallback = NULL;

      set_attribute (0, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0);
      g_assert_null (gcuda_device_memory_resource_new (bed->device, &error));
      g_assert_nonnull (strstr (error->message, "GCudaSynchronousMemoryResource"));
      assert_error_and_clear (error, GCUDA_ERROR_NOT_SUPPORTED);
      fallback = gcuda_device_get_memory_resource (bed->device, &error);
      set_attribute (0, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1);
      g_assert_no_error (error);
      g_assert_true (GCUDA_IS_SYNCHRONOUS_MEMORY_RESOURCE (fallback));
    }
}

int
main (int argc,
      char **argv)
{
  gcuda_test_init (&argc, &argv);
  bed_add ("/device/list", test_list);
  bed_add ("/device/identity", test_identity);
  bed_add ("/device/bad-ordinals", test_bad_ordinals);
  bed_add ("/device/bad-attributes", test_bad_attributes);
  bed_add ("/device/bare-new", test_bare_new);
  bed_add ("/device/memory-info", test_memory_info);
  bed_add ("/device/memory-resource", test_memory_resource);
  bed_add ("/device/peer-of-itself", test_peer_of_itself);
  bed_add ("/device/synchronize", test_synchronize);
  return g_test_run ();
}
