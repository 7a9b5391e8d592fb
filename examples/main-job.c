/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A file goes through the GPU in chunks: uploaded on one stream, changed on another, and read back. The same program is
 * there in Python and in JavaScript.
 *
 *   main-job [--any-size] FILE
 */
#include <gcudamem/gcudamem.h>

#include <locale.h>
#include <string.h>
#include <unistd.h>

#define MIB        (1024.0 * 1024.0)
#define CHUNK_SIZE (4 * 1024 * 1024)
#define LEAST_SIZE (64 * 1024 * 1024)
#define IN_FLIGHT  4 /* chunks on the device: memory is bounded, whatever the file */

/* The change: each whole page of a chunk gets a mark at its start. */
#define PAGE_SIZE 4096
#define MARK      0x64754347 /* "GCud" */
#define MARKS     4

typedef struct
{
  GCudaStream *upload;
  GCudaStream *work;
  GCudaEvent *handover;
  GCudaDeviceMemoryResource *pool;
  GThreadPool *droppers;
  GQueue results; /* on their way, oldest first */
  GChecksum *expected;
  GChecksum *found;
  guint64 bytes;
  guint64 chunks;
  gint64 device_time;
} Job;

/* ---- What there is */

static gboolean
print_driver (GError **error)
{
  g_autoptr (GCudaDriverInfo) info = gcuda_get_driver_info (error);
  int version;

  if (info == NULL)
    return FALSE;
  version = gcuda_driver_info_get_version (info);
  g_print ("driver  %s, CUDA %d.%d, %s\n", gcuda_driver_info_get_path (info), version / 1000,
           version % 1000 / 10, gcuda_driver_info_is_simulated (info) ? "simulated" : "real");
  return TRUE;
}

static GCudaDevice *
choose_device (GError **error)
{
  g_autoptr (GListModel) devices = gcuda_get_devices (error);

  if (devices == NULL)
    return NULL;
  for (guint i = 0; i < g_list_model_get_n_items (devices); i++)
    {
      g_autoptr (GCudaDevice) device = g_list_model_get_item (devices, i);

      g_print ("device  %d  %-24s  %d.%d  %8.0f MiB  %s\n", gcuda_device_get_ordinal (device),
               gcuda_device_get_name (device), gcuda_device_get_compute_capability_major (device),
               gcuda_device_get_compute_capability_minor (device),
               (double) gcuda_device_get_total_memory (device) / MIB,
               gcuda_device_get_pci_bus_id (device));
    }
  if (g_list_model_get_n_items (devices) == 0)
    {
      g_set_error_literal (error, GCUDA_ERROR, GCUDA_ERROR_NO_DEVICE, "there is no CUDA device");
      return NULL;
    }
  return g_list_model_get_item (devices, 0);
}

/* ---- The job */

/* Nothing has to be known here about streams or contexts: the buffer's recipe knows. */
static void
drop (gpointer buffer,
      gpointer data)
{
  g_object_unref (buffer);
}

static gboolean
job_start (Job *self,
           GCudaDevice *device,
           GError **error)
{
  self->expected = g_checksum_new (G_CHECKSUM_SHA256);
  self->found = g_checksum_new (G_CHECKSUM_SHA256);
  self->droppers = g_thread_pool_new (drop, NULL, 1, FALSE, error);
  return self->droppers != NULL &&
         (self->upload = gcuda_stream_new_for_device (device, error)) != NULL &&
         (self->work = gcuda_stream_new_for_device (device, error)) != NULL &&
         (self->handover = gcuda_event_new_for_device (device, GCUDA_EVENT_FLAGS_NONE, error)) != NULL &&
         (self->pool = gcuda_device_memory_resource_new_pool (device, 0, GCUDA_HANDLE_TYPES_NONE, error)) != NULL;
}

/* Lets go of all that is on the device. Work that is still queued there is no hindrance. */
static void
job_drop_buffers (Job *self)
{
  g_queue_clear_full (&self->results, g_object_unref);
  if (self->droppers != NULL)
    g_thread_pool_free (g_steal_pointer (&self->droppers), FALSE, TRUE);
}

static void
job_clear (Job *self)
{
  job_drop_buffers (self);
  g_clear_object (&self->upload);
  g_clear_object (&self->work);
  g_clear_object (&self->handover);
  g_clear_object (&self->pool);
  g_clear_pointer (&self->expected, g_checksum_free);
  g_clear_pointer (&self->found, g_checksum_free);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Job, job_clear)

/* Queues a chunk, and waits for nothing. */
static gboolean
job_push (Job *self,
          GBytes *chunk,
          GError **error)
{
  GCudaMemoryResource *memory = GCUDA_MEMORY_RESOURCE (self->pool);
  const gsize size = g_bytes_get_size (chunk);
  g_autoptr (GCudaBuffer) source = NULL;
  g_autoptr (GCudaBuffer) result = NULL;

  source = gcuda_memory_resource_allocate (memory, size, self->upload, error);
  if (source == NULL || !gcuda_buffer_upload (source, 0, chunk, self->upload, error))
    return FALSE;

  if (!gcuda_event_record (self->handover, self->upload, error) ||
      !gcuda_stream_wait_event (self->work, self->handover, error))
    return FALSE;

  result = gcuda_memory_resource_allocate (memory, size, self->work, error);
  if (result == NULL || !gcuda_buffer_copy_to (source, result, self->work, error) ||
      !gcuda_buffer_fill_2d (result, 0, PAGE_SIZE, MARKS, size / PAGE_SIZE, MARK, 4, self->work,
                             error))
    return FALSE;

  /* The last use of the source is on the other stream than the one it was allocated on. */
  if (!gcuda_buffer_set_deallocation_stream (source, self->work, error) ||
      !g_thread_pool_push (self->droppers, g_steal_pointer (&source), error))
    return FALSE;

  g_queue_push_tail (&self->results, g_steal_pointer (&result));
  return TRUE;
}

/* Waits for the oldest chunk. */
static gboolean
job_pop (Job *self,
         GError **error)
{
  g_autoptr (GCudaBuffer) result = g_queue_pop_head (&self->results);
  g_autoptr (GBytes) bytes = NULL;
  gint64 start = g_get_monotonic_time ();

  bytes = gcuda_buffer_download (result, 0, gcuda_buffer_get_size (result), self->work, error);
  if (bytes == NULL)
    return FALSE;
  self->device_time += g_get_monotonic_time () - start;
  g_checksum_update (self->found, g_bytes_get_data (bytes, NULL),
                     (gssize) g_bytes_get_size (bytes));
  return TRUE;
}

/* The same change, made by the processor. */
static void
expect (GChecksum *checksum,
        GBytes *chunk)
{
  gsize size;
  gconstpointer data = g_bytes_get_data (chunk, &size);
  g_autofree guint8 *copy = g_memdup2 (data, size);
  const guint32 marks[MARKS] = { MARK, MARK, MARK, MARK };

  for (gsize i = 0; i < size / PAGE_SIZE; i++)
    memcpy (copy + i * PAGE_SIZE, marks, sizeof marks);
  g_checksum_update (checksum, copy, (gssize) size);
}

/* A chunk of the file, empty at its end. */
static GBytes *
read_chunk (GInputStream *input,
            GError **error)
{
  g_autofree guint8 *data = g_malloc (CHUNK_SIZE);
  gsize size;

  if (!g_input_stream_read_all (input, data, CHUNK_SIZE, &size, NULL, error))
    return NULL;
  return g_bytes_new_take (g_steal_pointer (&data), size);
}

static gboolean
job_run (Job *self,
         GInputStream *input,
         goffset total,
         GError **error)
{
  const gboolean show_progress = isatty (STDERR_FILENO);

  for (;;)
    {
      g_autoptr (GBytes) chunk = read_chunk (input, error);
      gint64 start;

      if (chunk == NULL)
        return FALSE;
      if (g_bytes_get_size (chunk) == 0)
        break;
      expect (self->expected, chunk);
      if (g_queue_get_length (&self->results) == IN_FLIGHT && !job_pop (self, error))
        return FALSE;
      start = g_get_monotonic_time ();
      if (!job_push (self, chunk, error))
        return FALSE;
      self->device_time += g_get_monotonic_time () - start;
      self->bytes += g_bytes_get_size (chunk);
      self->chunks++;
      if (show_progress)
        g_printerr ("\r%.0f of %.0f MiB ", (double) self->bytes / MIB, (double) total / MIB);
    }
  while (!g_queue_is_empty (&self->results))
    if (!job_pop (self, error))
      return FALSE;
  if (show_progress)
    g_printerr ("\n");

  if (g_strcmp0 (g_checksum_get_string (self->found), g_checksum_get_string (self->expected)) != 0)
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA,
                   "the device's result is wrong: SHA-256 %s, not %s",
                   g_checksum_get_string (self->found), g_checksum_get_string (self->expected));
      return FALSE;
    }
  return TRUE;
}

/* Nothing may be left in the pool. */
static gboolean
job_settle (Job *self,
            GCudaPoolStatistics **statistics,
            GError **error)
{
  job_drop_buffers (self);
  if (!gcuda_reclaim (NULL, error) || !gcuda_stream_synchronize (self->upload, error) ||
      !gcuda_stream_synchronize (self->work, error))
    return FALSE;
  *statistics = gcuda_device_memory_resource_get_statistics (self->pool, error);
  if (*statistics == NULL)
    return FALSE;
  if (gcuda_pool_statistics_get_used (*statistics) != 0)
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED,
                   "%" G_GUINT64_FORMAT " bytes were not given back to the pool",
                   gcuda_pool_statistics_get_used (*statistics));
      return FALSE;
    }
  return TRUE;
}

static void
print_results (Job *self,
               GCudaPoolStatistics *statistics,
               gint64 elapsed)
{
  const double bytes = (double) self->bytes, device = (double) MAX (self->device_time, 1),
               whole = (double) MAX (elapsed, 1);

  g_print ("\nbytes      %12" G_GUINT64_FORMAT "\n", self->bytes);
  g_print ("chunks     %12" G_GUINT64_FORMAT "\n", self->chunks);
  g_print ("seconds    %12.3f  upload, change and download: %.3f GB/s\n", device / 1e6,
           bytes / device / 1e3);
  g_print ("           %12.3f  with reading and checksums: %.3f GB/s\n", whole / 1e6,
           bytes / whole / 1e3);
  g_print ("pool       %12" G_GUINT64_FORMAT "  bytes used, %.0f MiB at most\n",
           gcuda_pool_statistics_get_used (statistics),
           (double) gcuda_pool_statistics_get_used_high (statistics) / MIB);
  g_print ("SHA-256    %s, as expected\n", g_checksum_get_string (self->found));
}

static gboolean
run (const char *path,
     gboolean any_size,
     GError **error)
{
  g_autoptr (GFile) file = g_file_new_for_commandline_arg (path);
  g_autoptr (GFileInputStream) input = g_file_read (file, NULL, error);
  g_autoptr (GFileInfo) info = NULL;
  g_autoptr (GCudaDevice) device = NULL;
  g_autoptr (GCudaPoolStatistics) statistics = NULL;
  g_auto (Job) job = { NULL };
  gint64 start;

  if (input == NULL)
    return FALSE;
  info = g_file_input_stream_query_info (input, G_FILE_ATTRIBUTE_STANDARD_SIZE, NULL, error);
  if (info == NULL)
    return FALSE;
  if (g_file_info_get_size (info) < LEAST_SIZE && !any_size)
    {
      g_set_error (
        error, G_IO_ERROR, G_IO_ERROR_INVALID_ARGUMENT,
        "%s has less than 64 MiB, too little to say much about speed: take another file, or --any-size",
        path);
      return FALSE;
    }

  if (!print_driver (error))
    return FALSE;
  device = choose_device (error);
  if (device == NULL || !job_start (&job, device, error))
    return FALSE;
  start = g_get_monotonic_time ();
  if (!job_run (&job, G_INPUT_STREAM (input), g_file_info_get_size (info), error) ||
      !job_settle (&job, &statistics, error))
    return FALSE;
  print_results (&job, statistics, g_get_monotonic_time () - start);
  return TRUE;
}

int
main (int argc,
      char **argv)
{
  gboolean any_size = FALSE;
  const GOptionEntry entries[] = {
    { "any-size", 0, 0, G_OPTION_ARG_NONE, &any_size, "Take a file of less than 64 MiB too", NULL },
    G_OPTION_ENTRY_NULL,
  };
  g_autoptr (GOptionContext) context = g_option_context_new ("FILE");
  g_autoptr (GError) error = NULL;

  setlocale (LC_ALL, "");
  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error))
    {
      g_printerr ("main-job: %s\n", error->message);
      return 1;
    }
  if (argc != 2)
    {
      g_printerr ("usage: main-job [--any-size] FILE\n");
      return 1;
    }
  if (!run (argv[1], any_size, &error))
    {
      g_printerr ("main-job: %s\n", error->message);
      return 1;
    }
  return 0;
}
