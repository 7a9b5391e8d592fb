/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Bandwidth between page-locked memory and the device, beside the driver's own copies in one run on one machine: each row
 * times both in turns, and prints the medians and their ratio. Not a test: nothing here passes or fails.
 *
 *   bench-host [MIB]: how much is copied at once, 256 by default
 */
#include "bench.h"

#include <gcudamem/gcudamem-cuda.h>

static GCudaDevice *device;
static GCudaStream *stream;
static gsize size = (gsize) 256 << 20;

static void
must (CUresult result)
{
  if (result != CUDA_SUCCESS)
    g_error ("the driver answers %d", (int) result);
}

static void
must_not_fail (gboolean success,
               GError *error)
{
  if (!success)
    g_error ("%s", error->message);
}

static GCudaBuffer *
allocate (gpointer resource)
{
  GError *error = NULL;
  GCudaBuffer *buffer = gcuda_memory_resource_allocate (resource, size, stream, &error);

  must_not_fail (buffer != NULL, error);
  must_not_fail (gcuda_buffer_fill (buffer, 1, 1, stream, &error), error);
  must_not_fail (gcuda_stream_synchronize (stream, &error), error);
  return buffer;
}

typedef enum
{
  UPLOAD,
  DOWNLOAD,
} Direction;

/* Seconds of one copy, until it is done. */
static double
raw_copy (void *host,
          CUdeviceptr memory,
          Direction direction,
          CUstream handle)
{
  gint64 start = now ();

  if (direction == UPLOAD)
    must (RAW (cuMemcpyHtoDAsync) (memory, host, size, handle));
  else
    must (RAW (cuMemcpyDtoHAsync) (host, memory, size, handle));
  must (RAW (cuStreamSynchronize) (handle));
  return (double) (now () - start) / 1e9;
}

static double
our_copy (GCudaBuffer *from,
          GCudaBuffer *to)
{
  GError *error = NULL;
  gint64 start = now ();

  must_not_fail (gcuda_buffer_copy_to (from, to, stream, &error), error);
  must_not_fail (gcuda_stream_synchronize (stream, &error), error);
  return (double) (now () - start) / 1e9;
}

static void
row (const char *name,
     GCudaBuffer *host,
     GCudaBuffer *memory,
     void *raw_host,
     Direction direction)
{
  double raw[ROUNDS], ours[ROUNDS], a, b;
  const CUstream handle = gcuda_stream_get_cuda_stream (stream);

  for (guint i = 0; i < ROUNDS; i++)
    {
      raw[i] = raw_copy (raw_host, gcuda_buffer_get_cuda_pointer (memory), direction, handle);
      ours[i] = direction == UPLOAD ? our_copy (host, memory) : our_copy (memory, host);
    }
  a = (double) size / median (raw, ROUNDS) / 1e9;
  b = (double) size / median (ours, ROUNDS) / 1e9;
  g_print ("%-44s %9.2f %9.2f %9.3f   at least 0.98\n", name, a, b, b / a);
}

int
main (int argc,
      char **argv)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCudaDriverInfo) info = gcuda_get_driver_info (&error);
  g_autoptr (GCudaContext) context = NULL;
  g_autoptr (GCudaDeviceMemoryResource) pool = NULL;
  g_autoptr (GCudaPinnedMemoryResource) pinned = NULL;
  g_autoptr (GCudaPinnedMemoryResource) pieces = NULL;
  g_autoptr (GCudaBuffer) memory = NULL;
  g_autoptr (GCudaBuffer) in_pinned = NULL;
  g_autoptr (GCudaBuffer) in_pieces = NULL;
  g_autofree char *pinned_name = NULL;
  CUcontext popped;
  void *raw_host = NULL;

  must_not_fail (info != NULL, error);
  if (argc > 1)
    size = (gsize) g_ascii_strtoull (argv[1], NULL, 10) << 20;
  driver = dlopen (gcuda_driver_info_get_path (info), RTLD_NOW | RTLD_LOCAL);
  device = gcuda_device_new (0, &error);
  must_not_fail (device != NULL, error);
  context = gcuda_device_get_primary_context (device, &error);
  must_not_fail (context != NULL, error);
  stream = gcuda_stream_new_for_device (device, &error);
  must_not_fail (stream != NULL, error);
  pool = gcuda_device_memory_resource_new_pool (device, 0, GCUDA_HANDLE_TYPES_NONE, &error);
  must_not_fail (pool != NULL, error);
  pinned = gcuda_pinned_memory_resource_new (device, &error);
  must_not_fail (pinned != NULL, error);
  pieces = gcuda_pinned_memory_resource_new_unpooled (device, FALSE, &error);
  must_not_fail (pieces != NULL, error);
  memory = allocate (pool);
  in_pinned = allocate (pinned);
  in_pieces = allocate (pieces);
  must (RAW (cuCtxPushCurrent) (gcuda_context_get_cuda_context (context)));
  must (RAW (cuMemHostAlloc) (&raw_host, size, CU_MEMHOSTALLOC_PORTABLE));

  g_print ("%s, %" G_GSIZE_FORMAT " MiB, %d rounds\n\n", gcuda_device_get_name (device), size >> 20, ROUNDS);
  g_print ("%-44s %9s %9s %9s\n", "GB/s", "driver", "gcudamem", "ratio");
  pinned_name = g_strdup_printf ("pinned resource (%s), ", gcuda_pinned_memory_resource_is_pooled (pinned) ? "a pool" : "piece by piece");
  for (Direction direction = UPLOAD; direction <= DOWNLOAD; direction++)
    {
      const char *to = direction == UPLOAD ? "upload" : "download";
      g_autofree char *first = g_strconcat (pinned_name, to, NULL);
      g_autofree char *second = g_strconcat ("page-locked piece by piece, ", to, NULL);

      row (first, in_pinned, memory, raw_host, direction);
      row (second, in_pieces, memory, raw_host, direction);
    }
  must (RAW (cuMemFreeHost) (raw_host));
  must (RAW (cuCtxPopCurrent) (&popped));
  g_clear_object (&stream);
  g_clear_object (&device);
  return 0;
}
