/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <gcudamem/gcudamem.h>
#include <locale.h>

/* CU_DEVICE_ATTRIBUTE_*, for which cuda.h is not needed. */
enum
{
  MANAGED_MEMORY = 83,
  CONCURRENT_MANAGED_ACCESS = 89,
  HOST_REGISTER_SUPPORTED = 99,
  MEMORY_POOLS_SUPPORTED = 115,
  HOST_MEMORY_POOLS_SUPPORTED = 144,
};

/* What a driver can't be asked is not there. */
static gboolean
has (GCudaDevice *device,
     int attribute)
{
  return gcuda_device_get_attribute (device, attribute, NULL) != 0;
}

static int
info (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaDriverInfo) driver = NULL;
  g_autoptr (GListModel) devices = NULL;
  int version;

  driver = gcuda_get_driver_info (&error);
  if (driver == NULL)
    {
      g_printerr ("gcuda: %s\n", error->message);
      return 1;
    }
  version = gcuda_driver_info_get_version (driver);
  g_print ("%s driver %s, CUDA %d.%d\n", gcuda_driver_info_is_simulated (driver) ? "simulated" : "CUDA",
           gcuda_driver_info_get_path (driver), version / 1000, version % 1000 / 10);
  devices = gcuda_get_devices (&error);
  if (devices == NULL)
    {
      g_printerr ("gcuda: %s\n", error->message);
      return 1;
    }
  for (guint i = 0; i < g_list_model_get_n_items (devices); i++)
    {
      g_autoptr (GCudaDevice) device = g_list_model_get_item (devices, i);
      g_autofree char *memory = g_format_size_full (gcuda_device_get_total_memory (device), G_FORMAT_SIZE_IEC_UNITS);

      g_print ("%d  %s, %s, compute capability %d.%d, PCI %s, UUID %s\n", gcuda_device_get_ordinal (device),
               gcuda_device_get_name (device), memory,
               gcuda_device_get_compute_capability_major (device), gcuda_device_get_compute_capability_minor (device),
               gcuda_device_get_pci_bus_id (device), gcuda_device_get_uuid (device));
      g_print ("   memory pools: %s; host memory pools: %s; managed memory: %s; registration of host memory: %s\n",
               has (device, MEMORY_POOLS_SUPPORTED) ? "yes" : "no",
               has (device, HOST_MEMORY_POOLS_SUPPORTED) ? "yes" : "no",
               !has (device, MANAGED_MEMORY) ? "no" : has (device, CONCURRENT_MANAGED_ACCESS) ? "yes"
                                                                                              : "only while the device is idle",
               has (device, HOST_REGISTER_SUPPORTED) ? "yes" : "no");
    }
  if (g_list_model_get_n_items (devices) > 0)
    return 0;
  g_printerr ("gcuda: the driver finds no device\n");
  return 1;
}

static GCudaMemoryResource *
make_resource (const char *name,
               GCudaDevice *device,
               GError **error)
{
  if (g_str_equal (name, "pool"))
    return (GCudaMemoryResource *) gcuda_device_memory_resource_new_pool (device, 0, GCUDA_HANDLE_TYPES_NONE, error);
  if (g_str_equal (name, "synchronous"))
    return (GCudaMemoryResource *) gcuda_synchronous_memory_resource_new_for_device (device, error);
  if (g_str_equal (name, "virtual"))
    return (GCudaMemoryResource *) gcuda_virtual_memory_resource_new (device, NULL, error);
  if (g_str_equal (name, "pinned"))
    return (GCudaMemoryResource *) gcuda_pinned_memory_resource_new (device, error);
  if (g_str_equal (name, "managed"))
    return (GCudaMemoryResource *) gcuda_managed_memory_resource_new (device, NULL, error);
  g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "no memory resource is called %s", name);
  return NULL;
}

static gboolean
replay (const char *path,
        const char *name,
        int ordinal,
        GError **error)
{
  g_autoptr (GFile) file = g_file_new_for_commandline_arg (path);
  g_autoptr (GCudaDevice) device = gcuda_device_new (ordinal, error);
  g_autoptr (GCudaMemoryResource) resource = device != NULL ? make_resource (name, device, error) : NULL;
  g_autoptr (GCudaStatisticsMemoryResource) counted = NULL;
  g_autoptr (GCudaAllocationStatistics) statistics = NULL;
  g_autofree char *peak = NULL;
  g_autofree char *total = NULL;
  gint64 start;

  if (resource == NULL)
    return FALSE;
  counted = gcuda_statistics_memory_resource_new (resource);
  start = g_get_monotonic_time ();
  if (!gcuda_replay_trace (file, GCUDA_MEMORY_RESOURCE (counted), NULL, error) || !gcuda_reclaim (NULL, error))
    return FALSE;
  start = g_get_monotonic_time () - start;
  statistics = gcuda_statistics_memory_resource_get_statistics (counted);
  peak = g_format_size_full (gcuda_allocation_statistics_get_peak_bytes (statistics), G_FORMAT_SIZE_IEC_UNITS);
  total = g_format_size_full (gcuda_allocation_statistics_get_total_bytes (statistics), G_FORMAT_SIZE_IEC_UNITS);
  g_print ("%" G_GUINT64_FORMAT " allocations, %s in all, %s at most at a time, %.1f ms\n",
           gcuda_allocation_statistics_get_total_count (statistics), total, peak, (double) start / 1000);
  return TRUE;
}

int
main (int argc,
      char **argv)
{
  g_autofree char *resource = NULL;
  int device = 0;
  const GOptionEntry entries[] = {
    { "device", 'd', 0, G_OPTION_ARG_INT, &device, "of replay: the device, 0 if none is named", "N" },
    { "resource", 'r', 0, G_OPTION_ARG_STRING, &resource, "of replay: pool (if none is named), synchronous, virtual, pinned or managed", "NAME" },
    { NULL },
  };
  g_autoptr (GOptionContext) context = g_option_context_new ("COMMAND [FILE] - look at CUDA memory");
  g_autoptr (GError) error = NULL;

  setlocale (LC_ALL, "");
  g_option_context_add_main_entries (context, entries, NULL);
  g_option_context_set_summary (context, "Commands:\n"
                                         "  info           the driver and the devices; fails when there is none\n"
                                         "  replay FILE    allocates and frees again what a trace says");
  if (!g_option_context_parse (context, &argc, &argv, &error))
    {
      g_printerr ("gcuda: %s\n", error->message);
      return 2;
    }
  if (argc == 2 && g_str_equal (argv[1], "info"))
    return info ();
  if (argc == 3 && g_str_equal (argv[1], "replay"))
    {
      if (replay (argv[2], resource != NULL ? resource : "pool", device, &error))
        return 0;
      g_printerr ("gcuda: %s\n", error->message);
      return error->domain == G_OPTION_ERROR ? 2 : 1;
    }
  if (argc < 2)
    g_printerr ("gcuda: a command is needed; see gcuda --help\n");
  else if (g_str_equal (argv[1], "info") || g_str_equal (argv[1], "replay"))
    g_printerr ("gcuda: %s takes %s; see gcuda --help\n", argv[1], g_str_equal (argv[1], "info") ? "no arguments" : "one file");
  else
    g_printerr ("gcuda: there is no command %s; see gcuda --help\n", argv[1]);
  return 2;
}
