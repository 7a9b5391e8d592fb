/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A file goes to the GPU by way of two buffers of page-locked memory: while one is on its way, the next piece of the file is
 * read into the other. Beside it the same from ordinary memory. The same program is there in Python and in JavaScript.
 *
 *   pinned-upload [--any-size] FILE
 */
#include <gcudamem/gcudamem.h>

#include <locale.h>
#include <string.h>

#define CHUNK_SIZE (4 * 1024 * 1024)
#define LEAST_SIZE (64 * 1024 * 1024)
#define N_SLOTS    2

/* One of the buffers that take turns, and what tells when its copy is done. */
typedef struct
{
  GCudaBuffer *buffer; /* page-locked */
  GCudaHostMap *map;
  GCudaEvent *begun;
  GCudaEvent *done;
  gboolean used;
} Slot;

typedef struct
{
  GCudaStream *stream;
  GCudaPinnedMemoryResource *pinned;
  GCudaDeviceMemoryResource *pool;
  GCudaBuffer *target; /* the whole file, on the device */
  Slot slots[N_SLOTS];
} Upload;

/* What an upload took, in seconds. */
typedef struct
{
  double link;  /* copying, as the device's events tell */
  double whole; /* with reading the file */
} Times;

static void
upload_clear (Upload *self)
{
  for (guint i = 0; i < N_SLOTS; i++)
    {
      g_clear_object (&self->slots[i].map);
      g_clear_object (&self->slots[i].buffer);
      g_clear_object (&self->slots[i].begun);
      g_clear_object (&self->slots[i].done);
    }
  g_clear_object (&self->target);
  g_clear_object (&self->pool);
  g_clear_object (&self->pinned);
  g_clear_object (&self->stream);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Upload, upload_clear)

static gboolean
upload_start (Upload *self,
              GCudaDevice *device,
              guint64 size,
              GError **error)
{
  self->stream = gcuda_stream_new_for_device (device, error);
  if (self->stream == NULL)
    return FALSE;
  self->pinned = gcuda_pinned_memory_resource_new (device, error);
  if (self->pinned == NULL)
    return FALSE;
  self->pool = gcuda_device_memory_resource_new_pool (device, 0, GCUDA_HANDLE_TYPES_NONE, error);
  if (self->pool == NULL)
    return FALSE;
  self->target = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (self->pool), size, self->stream, error);
  if (self->target == NULL)
    return FALSE;
  for (guint i = 0; i < N_SLOTS; i++)
    {
      Slot *slot = &self->slots[i];

      slot->buffer = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (self->pinned), CHUNK_SIZE, self->stream, error);
      if (slot->buffer == NULL)
        return FALSE;
      /* Mapped for good. From here on the slot's event says when the processor may write there. */
      slot->map = gcuda_buffer_map (slot->buffer, GCUDA_MAP_FLAGS_WRITE, self->stream, error);
      if (slot->map == NULL)
        return FALSE;
      slot->begun = gcuda_event_new_for_device (device, GCUDA_EVENT_FLAGS_TIMING, error);
      if (slot->begun == NULL)
        return FALSE;
      slot->done = gcuda_event_new_for_device (device, GCUDA_EVENT_FLAGS_TIMING, error);
      if (slot->done == NULL)
        return FALSE;
    }
  return TRUE;
}

/* Waits until the copy from a slot is done, and adds the time that it took. */
static gboolean
slot_wait (Slot *self,
           Times *times,
           GError **error)
{
  g_autoptr (GError) local = NULL;

  if (!self->used)
    return TRUE;
  self->used = FALSE;
  if (!gcuda_event_synchronize (self->done, error))
    return FALSE;
  times->link += gcuda_event_elapsed_time (self->begun, self->done, &local) / 1e3;
  if (local == NULL)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&local));
  return FALSE;
}

/* Queues the copy of what the slot holds, or of @chunk, between its events. */
static gboolean
slot_send (Slot *self,
           Upload *upload,
           guint64 offset,
           gsize size,
           GBytes *chunk,
           GError **error)
{
  self->used = TRUE;
  return gcuda_event_record (self->begun, upload->stream, error) &&
         (chunk != NULL ? gcuda_buffer_upload (upload->target, offset, chunk, upload->stream, error)
                        : gcuda_buffer_copy_range (self->buffer, 0, upload->target, offset, size, upload->stream, error)) &&
         gcuda_event_record (self->done, upload->stream, error);
}

/* The whole file, once. */
static gboolean
upload_run (Upload *self,
            GFile *file,
            gboolean pinned,
            Times *times,
            GError **error)
{
  g_autoptr (GFileInputStream) input = g_file_read (file, NULL, error);
  const gint64 start = g_get_monotonic_time ();
  const guint64 total = gcuda_buffer_get_size (self->target);
  guint64 offset = 0;

  *times = (Times){ 0 };
  if (input == NULL)
    return FALSE;
  for (guint i = 0; offset < total; i++)
    {
      Slot *slot = &self->slots[i % N_SLOTS];
      g_autoptr (GBytes) chunk = NULL;
      g_autofree gpointer memory = NULL;
      gsize size;

      /* Two chunks ago it was sent. */
      if (!slot_wait (slot, times, error))
        return FALSE;
      if (!pinned)
        memory = g_malloc (CHUNK_SIZE);
      if (!g_input_stream_read_all (G_INPUT_STREAM (input), pinned ? gcuda_host_map_get_data (slot->map, NULL) : memory, MIN (CHUNK_SIZE, total - offset), &size, NULL, error))
        return FALSE;
      if (size == 0)
        {
          g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_PARTIAL_INPUT, "the file became shorter");
          return FALSE;
        }
      if (!pinned)
        chunk = g_bytes_new_take (g_steal_pointer (&memory), size);
      if (!slot_send (slot, self, offset, size, chunk, error))
        return FALSE;
      offset += size;
    }
  for (guint i = 0; i < N_SLOTS; i++)
    if (!slot_wait (&self->slots[i], times, error))
      return FALSE;
  times->whole = (double) (g_get_monotonic_time () - start) / 1e6;
  return TRUE;
}

/* That the device has what is in the file. */
static gboolean
upload_check (Upload *self,
              GFile *file,
              char **sum,
              GError **error)
{
  g_autoptr (GChecksum) expected = g_checksum_new (G_CHECKSUM_SHA256);
  g_autoptr (GFileInputStream) input = g_file_read (file, NULL, error);
  g_autoptr (GBytes) found = NULL;
  g_autofree guint8 *data = g_malloc (CHUNK_SIZE);
  gsize size;

  if (input == NULL)
    return FALSE;
  do
    {
      if (!g_input_stream_read_all (G_INPUT_STREAM (input), data, CHUNK_SIZE, &size, NULL, error))
        return FALSE;
      g_checksum_update (expected, data, (gssize) size);
    }
  while (size > 0);
  found = gcuda_buffer_download (self->target, 0, gcuda_buffer_get_size (self->target), self->stream, error);
  if (found == NULL)
    return FALSE;
  *sum = g_compute_checksum_for_bytes (G_CHECKSUM_SHA256, found);
  if (strcmp (*sum, g_checksum_get_string (expected)) == 0)
    return TRUE;
  g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, "what is on the device is wrong: SHA-256 %s, not %s", *sum, g_checksum_get_string (expected));
  return FALSE;
}

static gboolean
run (const char *path,
     gboolean any_size,
     GError **error)
{
  g_autoptr (GFile) file = g_file_new_for_commandline_arg (path);
  g_autoptr (GFileInfo) info = g_file_query_info (file, G_FILE_ATTRIBUTE_STANDARD_SIZE, G_FILE_QUERY_INFO_NONE, NULL, error);
  g_autoptr (GCudaDevice) device = NULL;
  g_auto (Upload) upload = { NULL };
  guint64 size;

  if (info == NULL)
    return FALSE;
  size = (guint64) g_file_info_get_size (info);
  if (size < LEAST_SIZE && !any_size)
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_ARGUMENT,
                   "%s has less than 64 MiB, too little to say much about speed: take another file, or --any-size", path);
      return FALSE;
    }
  device = gcuda_device_new (0, error);
  if (device == NULL || !upload_start (&upload, device, size, error))
    return FALSE;
  g_print ("device  %s\npinned  %s\nbytes   %" G_GUINT64_FORMAT "\n\n", gcuda_device_get_name (device),
           gcuda_pinned_memory_resource_is_pooled (upload.pinned) ? "memory of a pool" : "piece by piece", size);
  g_print ("%-10s %12s %22s\n", "from", "GB/s", "GB/s with reading");
  for (guint pinned = 0; pinned < 2; pinned++)
    {
      g_autofree char *sum = NULL;
      Times times;

      /* Twice: the first time the file may not be in memory. */
      if (!upload_run (&upload, file, pinned != 0, &times, error) || !upload_run (&upload, file, pinned != 0, &times, error) ||
          !upload_check (&upload, file, &sum, error))
        return FALSE;
      g_print ("%-10s %12.3f %22.3f   SHA-256 %.16s…, as expected\n", pinned != 0 ? "pinned" : "pageable",
               (double) size / MAX (times.link, 1e-9) / 1e9, (double) size / MAX (times.whole, 1e-9) / 1e9, sum);
    }
  /* All of it is free again before the end. */
  upload_clear (&upload);
  return gcuda_reclaim (NULL, error);
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
      g_printerr ("pinned-upload: %s\n", error->message);
      return 1;
    }
  if (argc != 2)
    {
      g_printerr ("usage: pinned-upload [--any-size] FILE\n");
      return 1;
    }
  if (!run (argv[1], any_size, &error))
    {
      g_printerr ("pinned-upload: %s\n", error->message);
      return 1;
    }
  return 0;
}
