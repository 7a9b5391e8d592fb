/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What virtual memory costs above the driver's own calls, in one run on one machine: each row times both in turns, and prints
 * the medians and their ratio. Not a test: nothing here passes or fails.
 *
 *   bench-virtual [UNITS]: how much a buffer grows to, in units of the granularity
 */
#include "bench.h"

#include <gcudamem/gcudamem-cuda.h>

static GCudaDevice *device;
static GCudaStream *stream;
static gsize unit;

static __typeof__ (&cuMemAddressReserve) fast_reserve;
static __typeof__ (&cuMemAddressFree) fast_address_free;
static __typeof__ (&cuMemCreate) fast_create;
static __typeof__ (&cuMemRelease) fast_release;
static __typeof__ (&cuMemMap) fast_map;
static __typeof__ (&cuMemUnmap) fast_unmap;
static __typeof__ (&cuMemSetAccess) fast_set_access;

static void
must (CUresult result)
{
  if (result != CUDA_SUCCESS)
    g_error ("the driver answers %d", (int) result);
}

static double
microseconds (void)
{
  return (double) now () / 1e3;
}

static void
row (const char *name,
     double *raw,
     double *ours,
     guint count,
     const char *budget)
{
  double a = median (raw, count), b = median (ours, count);

  g_print ("%-52s %9.2f %9.2f %9.2f %7.2f   %s\n", name, a, b, b - a, b / a, budget);
}

static GCudaVirtualMemoryResource *
make_resource (guint64 max_size,
               guint64 cache_size)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaVirtualMemoryOptions) options = gcuda_virtual_memory_options_new ();
  GCudaVirtualMemoryResource *resource;

  gcuda_virtual_memory_options_set_max_size (options, max_size);
  gcuda_virtual_memory_options_set_cache_size (options, cache_size);
  resource = gcuda_virtual_memory_resource_new (device, options, &error);
  if (resource == NULL)
    g_error ("%s", error->message);
  return resource;
}

static GCudaBuffer *
allocate (gpointer resource,
          guint64 size)
{
  g_autoptr (GError) error = NULL;
  GCudaBuffer *buffer = gcuda_memory_resource_allocate (resource, size, stream, &error);

  if (buffer == NULL)
    g_error ("%s", error->message);
  return buffer;
}

static void
resize (GCudaVirtualMemoryResource *resource,
        GCudaBuffer *buffer,
        guint64 size)
{
  g_autoptr (GError) error = NULL;

  if (!gcuda_virtual_memory_resource_resize (resource, buffer, size, GCUDA_RESIZE_FLAGS_MAY_MOVE, stream, &error))
    g_error ("%s", error->message);
}

static CUmemAllocationProp properties = { .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
static CUmemAccessDesc access_rights = { .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE }, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };

static CUmemGenericAllocationHandle
raw_add (CUdeviceptr address)
{
  CUmemGenericAllocationHandle handle;

  must (fast_create (&handle, unit, &properties, 0));
  must (fast_map (address, unit, 0, handle, 0));
  must (fast_set_access (address, unit, &access_rights, 1));
  return handle;
}

#define KEPT 1024

/* One chunk more, in place, while the buffer grows: flat is what it should be. */
static void
grow_in_place (guint units)
{
  g_autofree CUmemGenericAllocationHandle *kept = g_new0 (CUmemGenericAllocationHandle, KEPT);
  g_autofree double *raw = g_new (double, units);
  g_autofree double *ours = g_new (double, units);
  g_autoptr (GCudaVirtualMemoryResource) resource = make_resource (units * unit, 0);
  g_autoptr (GCudaBuffer) buffer = allocate (resource, unit);
  CUdeviceptr address;

  must (fast_reserve (&address, units * unit, 0, 0, 0));
  for (guint i = 1; i < units; i++)
    {
      double start = microseconds ();
      CUmemGenericAllocationHandle handle = raw_add (address + i * unit);

      raw[i] = microseconds () - start;
      /* The last ones stay: a driver that maps nothing around there has more to do, and there is not memory for all twice. */
      if (kept[i % KEPT] != 0)
        {
          must (fast_unmap (address + (i - KEPT) * unit, unit));
          must (fast_release (kept[i % KEPT]));
        }
      kept[i % KEPT] = handle;
      start = microseconds ();
      resize (resource, buffer, (i + 1) * unit);
      ours[i] = microseconds () - start;
    }
  for (guint begin = 1, end = 8; begin < units; begin = end, end *= 4)
    {
      g_autofree char *name = NULL;
      const guint last = MIN (end, units);

      name = g_strdup_printf ("grow by one chunk in place, %u to %u chunks held", begin, last - 1);
      row (name, raw + begin, ours + begin, last - begin, "1.1 x");
    }
  for (guint i = units > KEPT ? units - KEPT : 1; i < units; i++)
    {
      must (fast_unmap (address + i * unit, unit));
      must (fast_release (kept[i % KEPT]));
    }
  must (fast_address_free (address, units * unit));
}

/* A buffer of some chunks that has to go elsewhere to grow by one. */
static void
grow_by_moving (guint units)
{
  g_autofree char *name = g_strdup_printf ("grow by moving, %u chunks", units);
  double raw[ROUNDS], ours[ROUNDS];

  for (guint round = 0; round < ROUNDS; round++)
    {
      g_autofree CUmemGenericAllocationHandle *handles = g_new (CUmemGenericAllocationHandle, units + 1);
      g_autoptr (GCudaVirtualMemoryResource) resource = make_resource (units * unit, 0);
      g_autoptr (GCudaBuffer) buffer = allocate (resource, unit);
      CUdeviceptr address, moved, behind;
      double start;

      must (fast_reserve (&address, units * unit, 0, 0, 0));
      for (guint i = 0; i < units; i++)
        handles[i] = raw_add (address + i * unit);
      for (guint i = 1; i < units; i++)
        resize (resource, buffer, (i + 1) * unit);
      must (fast_reserve (&behind, unit, 0, gcuda_buffer_get_address (buffer) + units * unit, 0));

      start = microseconds ();
      must (fast_reserve (&moved, (units + 1) * unit, 0, 0, 0));
      for (guint i = 0; i < units; i++)
        must (fast_map (moved + i * unit, unit, 0, handles[i], 0));
      must (fast_create (&handles[units], unit, &properties, 0));
      must (fast_map (moved + units * unit, unit, 0, handles[units], 0));
      must (fast_set_access (moved, (units + 1) * unit, &access_rights, 1));
      raw[round] = microseconds () - start;

      start = microseconds ();
      resize (resource, buffer, (units + 1) * unit);
      ours[round] = microseconds () - start;

      for (guint i = 0; i <= units; i++)
        {
          if (i < units)
            must (fast_unmap (address + i * unit, unit));
          must (fast_unmap (moved + i * unit, unit));
          must (fast_release (handles[i]));
        }
      must (fast_address_free (address, units * unit));
      must (fast_address_free (moved, (units + 1) * unit));
      must (fast_address_free (behind, unit));
      g_clear_object (&buffer);
      gcuda_reclaim (NULL, NULL);
    }
  row (name, raw, ours, ROUNDS, "1.3 x");
}

/* All of a small allocation; ours with the wait for the thread that unmaps. */
static void
allocate_and_free (guint64 cache_size,
                   const char *name,
                   const char *budget)
{
  g_autoptr (GCudaVirtualMemoryResource) resource = make_resource (0, cache_size);
  double raw[ROUNDS], ours[ROUNDS];

  for (guint round = 0; round < ROUNDS; round++)
    {
      CUmemGenericAllocationHandle handle;
      CUdeviceptr address;
      double start = microseconds ();

      must (fast_reserve (&address, unit, 0, 0, 0));
      handle = raw_add (address);
      must (fast_unmap (address, unit));
      must (fast_release (handle));
      must (fast_address_free (address, unit));
      raw[round] = microseconds () - start;
      start = microseconds ();
      g_object_unref (allocate (resource, unit));
      ours[round] = microseconds () - start;
      gcuda_reclaim (NULL, NULL);
    }
  row (name, raw, ours, ROUNDS, budget);
  g_assert_true (gcuda_virtual_memory_resource_trim (resource, 0, NULL));
}

/* Twice the size: what a program does that has no resize, and this. */
static void
against_copy (guint units)
{
  g_autofree char *name = g_strdup_printf ("%u to %u chunks: allocate, copy and free; resize", units, 2 * units);
  g_autoptr (GCudaVirtualMemoryResource) resource = make_resource (0, 0);
  g_autoptr (GCudaDeviceMemoryResource) pool = gcuda_device_memory_resource_new_pool (device, 0, GCUDA_HANDLE_TYPES_NONE, NULL);
  double copy[5], ours[5];

  for (guint round = 0; round < G_N_ELEMENTS (ours); round++)
    {
      GCudaBuffer *buffer = allocate (pool, units * unit), *larger;
      g_autoptr (GCudaBuffer) view = NULL;
      double start;

      gcuda_buffer_fill (buffer, 1, 1, stream, NULL);
      gcuda_stream_synchronize (stream, NULL);
      start = microseconds ();
      larger = allocate (pool, 2 * units * unit);
      view = gcuda_buffer_new_view (larger, 0, units * unit, NULL);
      gcuda_buffer_copy_to (buffer, view, stream, NULL);
      g_object_unref (buffer);
      gcuda_stream_synchronize (stream, NULL);
      copy[round] = microseconds () - start;
      g_object_unref (larger);

      buffer = allocate (resource, units * unit);
      gcuda_buffer_fill (buffer, 1, 1, stream, NULL);
      gcuda_stream_synchronize (stream, NULL);
      start = microseconds ();
      resize (resource, buffer, 2 * units * unit);
      gcuda_stream_synchronize (stream, NULL);
      ours[round] = microseconds () - start;
      g_object_unref (buffer);
      gcuda_reclaim (NULL, NULL);
    }
  row (name, copy, ours, G_N_ELEMENTS (ours), "");
}

int
main (int argc,
      char **argv)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaDriverInfo) info = NULL;
  g_autoptr (GCudaContext) context = NULL;
  guint units;

  device = gcuda_device_new (0, &error);
  context = device != NULL ? gcuda_device_get_primary_context (device, &error) : NULL;
  if (context == NULL)
    {
      g_printerr ("%s\n", error->message);
      return 1;
    }
  info = gcuda_get_driver_info (NULL);
  driver = dlopen (gcuda_driver_info_get_path (info), RTLD_NOW);
  stream = gcuda_stream_new (context, GCUDA_STREAM_FLAGS_NONE, 0, NULL);
  fast_reserve = RAW (cuMemAddressReserve);
  fast_address_free = RAW (cuMemAddressFree);
  fast_create = RAW (cuMemCreate);
  fast_release = RAW (cuMemRelease);
  fast_map = RAW (cuMemMap);
  fast_unmap = RAW (cuMemUnmap);
  fast_set_access = RAW (cuMemSetAccess);
  must (RAW (cuCtxSetCurrent) (gcuda_context_get_cuda_context (context)));
  {
    g_autoptr (GCudaVirtualMemoryResource) resource = make_resource (0, 0);

    unit = gcuda_virtual_memory_resource_get_granularity (resource);
  }
  /* 64 GiB, where there is so much; 1 GiB of a simulated device. */
  if (argc > 1)
    {
      units = (guint) MAX (atoi (argv[1]), 16);
    }
  else
    {
      gsize free_bytes = 0, total = 0;

      must (RAW (cuMemGetInfo) (&free_bytes, &total));
      units = (guint) (MIN (gcuda_driver_info_is_simulated (info) ? (gsize) 1 << 30 : (gsize) 1 << 36, free_bytes / 4 * 3) / unit);
    }

  g_print ("%s, %s; a chunk is %" G_GSIZE_FORMAT " KiB\n", gcuda_device_get_name (device),
           gcuda_driver_info_is_simulated (info) ? "simulated driver: only differences between versions of this library mean anything" : "real driver", unit / 1024);
  g_print ("%-52s %9s %9s %9s %7s   %s\n", "microseconds, medians", "raw", "ours", "more", "ratio", "budget");
  grow_in_place (units);
  for (guint i = 1; i <= MIN (units / 2, 512); i *= 8)
    grow_by_moving (i);
  allocate_and_free (0, "allocate and free a chunk (ours: freed behind)", "1.05 x");
  allocate_and_free (4 * unit, "allocate and free a chunk, with a cache", "0.1 x");
  for (guint i = 1; i <= MIN (units / 8, 512); i *= 8)
    against_copy (i);
  return 0;
}
