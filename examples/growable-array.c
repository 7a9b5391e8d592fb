/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * An array on the GPU that grows, chunk by chunk, at one address: a file, or what comes from the standard input, is appended
 * to it piece by piece, and at the end it is read back and compared. Beside each growth stands what it costs to allocate
 * anew, copy and free. The same program is there in Python and in JavaScript.
 *
 *   growable-array [--limit MIB] [--full] [--plot FILE.svg] [FILE]
 */
#include <gcudamem/gcudamem.h>

#include <gio/gunixinputstream.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB        (1024 * 1024)
#define PIECE_SIZE (1024 * 1024 + 4096)

typedef struct
{
  guint64 size; /* before it grew by a chunk */
  double cost;  /* microseconds */
} Step;

typedef struct
{
  GCudaStream *stream;
  GCudaVirtualMemoryResource *resource;
  GCudaDeviceMemoryResource *pool; /* to compare with */
  GCudaBuffer *buffer;
  guint64 address;
  guint64 chunk;
  guint64 length; /* what is in use of the buffer */
  GChecksum *expected;
  GArray *grown;
  GArray *copied;
  guint64 compare_at;
} Array;

static double
microseconds_since (gint64 start)
{
  return (double) MAX (g_get_monotonic_time () - start, 1);
}

static gboolean
array_start (Array *self,
             GCudaDevice *device,
             guint64 limit,
             GError **error)
{
  g_autoptr (GCudaVirtualMemoryOptions) options = gcuda_virtual_memory_options_new ();

  /* Addresses for all there may ever be; memory for what there is. */
  gcuda_virtual_memory_options_set_max_size (options, limit);
  self->expected = g_checksum_new (G_CHECKSUM_SHA256);
  self->grown = g_array_new (FALSE, FALSE, sizeof (Step));
  self->copied = g_array_new (FALSE, FALSE, sizeof (Step));
  if ((self->stream = gcuda_stream_new_for_device (device, error)) == NULL ||
      (self->resource = gcuda_virtual_memory_resource_new (device, options, error)) == NULL ||
      (self->pool = gcuda_device_memory_resource_new_pool (device, 0, GCUDA_HANDLE_TYPES_NONE, error)) == NULL)
    return FALSE;
  self->compare_at = self->chunk = gcuda_virtual_memory_resource_get_granularity (self->resource);
  self->buffer = gcuda_memory_resource_allocate (GCUDA_MEMORY_RESOURCE (self->resource), self->chunk, self->stream, error);
  if (self->buffer == NULL)
    return FALSE;
  self->address = gcuda_buffer_get_address (self->buffer);
  return TRUE;
}

static void
array_clear (Array *self)
{
  g_clear_object (&self->buffer);
  g_clear_object (&self->resource);
  g_clear_object (&self->pool);
  g_clear_object (&self->stream);
  g_clear_pointer (&self->expected, g_checksum_free);
  g_clear_pointer (&self->grown, g_array_unref);
  g_clear_pointer (&self->copied, g_array_unref);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Array, array_clear)

/* What it costs without virtual memory: another buffer, a copy, and the old one freed. */
static gboolean
array_compare (Array *self,
               guint64 size,
               GError **error)
{
  GCudaMemoryResource *pool = GCUDA_MEMORY_RESOURCE (self->pool);
  g_autoptr (GCudaBuffer) old = gcuda_memory_resource_allocate (pool, size, self->stream, error);
  g_autoptr (GCudaBuffer) larger = NULL;
  g_autoptr (GCudaBuffer) front = NULL;
  Step step = { size, 0 };
  gint64 start;

  if (old == NULL || !gcuda_buffer_fill (old, 0, 1, self->stream, error) || !gcuda_stream_synchronize (self->stream, error))
    return FALSE;
  start = g_get_monotonic_time ();
  larger = gcuda_memory_resource_allocate (pool, size + self->chunk, self->stream, error);
  front = larger != NULL ? gcuda_buffer_new_view (larger, 0, size, error) : NULL;
  if (front == NULL || !gcuda_buffer_copy_to (old, front, self->stream, error) || !gcuda_buffer_close (old, NULL, error) ||
      !gcuda_stream_synchronize (self->stream, error))
    return FALSE;
  step.cost = microseconds_since (start);
  g_array_append_val (self->copied, step);
  return TRUE;
}

/* One chunk more. */
static gboolean
array_grow (Array *self,
            GError **error)
{
  Step step = { gcuda_buffer_get_size (self->buffer), 0 };
  gint64 start;

  if (step.size >= self->compare_at)
    {
      if (!array_compare (self, step.size, error))
        return FALSE;
      self->compare_at *= 2;
    }
  start = g_get_monotonic_time ();
  if (!gcuda_virtual_memory_resource_resize (self->resource, self->buffer, step.size + self->chunk, GCUDA_RESIZE_FLAGS_NONE, self->stream, error))
    return FALSE;
  step.cost = microseconds_since (start);
  g_array_append_val (self->grown, step);
  return TRUE;
}

static gboolean
array_append (Array *self,
              const guint8 *data,
              gsize size,
              GError **error)
{
  while (self->length + size > gcuda_buffer_get_size (self->buffer))
    if (!array_grow (self, error))
      return FALSE;
  if (!gcuda_buffer_upload_data (self->buffer, self->length, data, size, self->stream, error))
    return FALSE;
  g_checksum_update (self->expected, data, (gssize) size);
  self->length += size;
  return TRUE;
}

static gboolean
array_verify (Array *self,
              GError **error)
{
  g_autoptr (GChecksum) found = g_checksum_new (G_CHECKSUM_SHA256);

  for (guint64 offset = 0; offset < self->length; offset += 4 * MIB)
    {
      g_autoptr (GBytes) bytes = gcuda_buffer_download (self->buffer, offset, MIN (4 * MIB, self->length - offset), self->stream, error);

      if (bytes == NULL)
        return FALSE;
      g_checksum_update (found, g_bytes_get_data (bytes, NULL), (gssize) g_bytes_get_size (bytes));
    }
  if (g_strcmp0 (g_checksum_get_string (found), g_checksum_get_string (self->expected)) != 0)
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, "the array is wrong: SHA-256 %s, not %s",
                   g_checksum_get_string (found), g_checksum_get_string (self->expected));
      return FALSE;
    }
  if (gcuda_buffer_get_address (self->buffer) != self->address)
    {
      g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_FAILED, "the array is at another address");
      return FALSE;
    }
  return TRUE;
}

/* ---- What it cost */

static int
compare_costs (gconstpointer a,
               gconstpointer b)
{
  double difference = ((const Step *) a)->cost - ((const Step *) b)->cost;

  return difference < 0 ? -1 : difference > 0;
}

static void
print_steps (Array *self)
{
  g_print ("\n%12s  %6s  %18s  %14s\n", "held, MiB", "steps", "growing, us a step", "copying, us");
  for (guint i = 0, copied = 0; i < self->grown->len; copied++)
    {
      g_autoptr (GArray) steps = g_array_new (FALSE, FALSE, sizeof (Step));
      const guint64 from = g_array_index (self->grown, Step, i).size;
      double copy = copied < self->copied->len ? g_array_index (self->copied, Step, copied).cost : NAN;

      while (i < self->grown->len && g_array_index (self->grown, Step, i).size < 2 * from)
        g_array_append_val (steps, g_array_index (self->grown, Step, i++));
      g_array_sort (steps, compare_costs);
      g_print ("%12.0f  %6u  %18.1f  %14.1f\n", (double) from / MIB, steps->len, g_array_index (steps, Step, steps->len / 2).cost, copy);
    }
}

static double
plot_x (double size,
        double least,
        double most)
{
  return 70 + 540 * log (size / least) / MAX (log (most / least), 1e-9);
}

static double
plot_y (double cost)
{
  /* From 1 microsecond to 1 second */
  return 360 - 320 * CLAMP (log10 (cost) / 6, 0, 1);
}

static void
plot_line (GString *svg,
           GArray *steps,
           const char *colour,
           double least,
           double most)
{
  char x[G_ASCII_DTOSTR_BUF_SIZE], y[G_ASCII_DTOSTR_BUF_SIZE];

  g_string_append_printf (svg, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" points=\"", colour);
  for (guint i = 0; i < steps->len; i++)
    {
      const Step *step = &g_array_index (steps, Step, i);

      g_string_append_printf (svg, "%s,%s ", g_ascii_formatd (x, sizeof x, "%.1f", plot_x ((double) step->size, least, most)),
                              g_ascii_formatd (y, sizeof y, "%.1f", plot_y (step->cost)));
    }
  g_string_append (svg, "\"/>\n");
}

static gboolean
write_plot (Array *self,
            const char *path,
            GError **error)
{
  static const char *const costs[] = { "1 us", "10 us", "100 us", "1 ms", "10 ms", "100 ms", "1 s" };
  g_autoptr (GString) svg = g_string_new (NULL);
  const double least = (double) self->chunk, most = (double) gcuda_buffer_get_size (self->buffer);

  g_string_append (svg, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"640\" height=\"420\" font-family=\"sans-serif\" font-size=\"12\">\n"
                        "<rect width=\"640\" height=\"420\" fill=\"white\"/>\n");
  for (guint i = 0; i < G_N_ELEMENTS (costs); i++)
    {
      const int y = 360 - (int) i * 320 / 6;

      g_string_append_printf (svg, "<line x1=\"70\" x2=\"610\" y1=\"%d\" y2=\"%d\" stroke=\"#ddd\"/><text x=\"62\" y=\"%d\" text-anchor=\"end\">%s</text>\n", y, y, y + 4, costs[i]);
    }
  for (double size = least; size <= most; size *= 4)
    g_string_append_printf (svg, "<text x=\"%d\" y=\"378\" text-anchor=\"middle\">%d</text>\n", (int) plot_x (size, least, most), (int) (size / MIB));
  plot_line (svg, self->copied, "#c33", least, most);
  plot_line (svg, self->grown, "#36c", least, most);
  g_string_append (svg, "<text x=\"340\" y=\"400\" text-anchor=\"middle\">MiB held</text>\n"
                        "<text x=\"80\" y=\"24\" fill=\"#36c\">growing in place by one chunk</text>\n"
                        "<text x=\"330\" y=\"24\" fill=\"#c33\">allocating anew, copying and freeing</text>\n</svg>\n");
  return g_file_set_contents (path, svg->str, (gssize) svg->len, error);
}

/* ---- The program */

static gboolean
fill_array (Array *self,
            const char *path,
            guint64 limit,
            gboolean full,
            GError **error)
{
  g_autofree guint8 *piece = g_malloc (PIECE_SIZE);

  do
    {
      g_autoptr (GFile) file = path != NULL ? g_file_new_for_commandline_arg (path) : NULL;
      g_autoptr (GInputStream) input = NULL;
      guint64 before = self->length;
      gsize size;

      if (file != NULL)
        input = G_INPUT_STREAM (g_file_read (file, NULL, error));
      else
        input = g_unix_input_stream_new (STDIN_FILENO, FALSE);
      if (input == NULL)
        return FALSE;
      do
        if (!g_input_stream_read_all (input, piece, MIN (PIECE_SIZE, limit - self->length), &size, NULL, error) ||
            (size > 0 && !array_append (self, piece, size, error)))
          return FALSE;
      while (size > 0 && self->length < limit);
      /* An empty file fills nothing. */
      full = full && file != NULL && self->length > before;
    }
  while (full && self->length < limit);
  return TRUE;
}

static gboolean
run (const char *path,
     guint64 limit,
     gboolean full,
     const char *plot,
     GError **error)
{
  g_autoptr (GCudaDriverInfo) info = gcuda_get_driver_info (error);
  g_autoptr (GCudaDevice) device = info != NULL ? gcuda_device_new (0, error) : NULL;
  g_auto (Array) array = { NULL };

  if (device == NULL)
    return FALSE;
  if (limit == 0)
    limit = gcuda_driver_info_is_simulated (info) ? 256 : 4096;
  g_print ("device  %s, %s\n", gcuda_device_get_name (device), gcuda_driver_info_is_simulated (info) ? "simulated" : "real");
  if (!array_start (&array, device, limit * MIB, error) || !fill_array (&array, path, limit * MIB, full, error) || !array_verify (&array, error))
    return FALSE;
  print_steps (&array);
  g_print ("\naddress    0x%" G_GINT64_MODIFIER "x, from %.0f to %.0f MiB in %u steps\n", array.address, (double) array.chunk / MIB,
           (double) gcuda_buffer_get_size (array.buffer) / MIB, array.grown->len);
  g_print ("SHA-256    %s of %" G_GUINT64_FORMAT " bytes, as expected\n", g_checksum_get_string (array.expected), array.length);
  if (plot != NULL && !write_plot (&array, plot, error))
    return FALSE;
  /* To the last byte, before the program ends. */
  g_clear_object (&array.buffer);
  return gcuda_reclaim (NULL, error);
}

int
main (int argc,
      char **argv)
{
  gint limit = 0;
  gboolean full = FALSE;
  g_autofree char *plot = NULL;
  const GOptionEntry entries[] = {
    { "limit", 0, 0, G_OPTION_ARG_INT, &limit, "The largest array; 4096 MiB, or 256 on the simulated driver", "MIB" },
    { "full", 0, 0, G_OPTION_ARG_NONE, &full, "Append the file again until the limit is reached", NULL },
    { "plot", 0, 0, G_OPTION_ARG_FILENAME, &plot, "Draw the cost of each step", "FILE.svg" },
    G_OPTION_ENTRY_NULL,
  };
  g_autoptr (GOptionContext) context = g_option_context_new ("[FILE]");
  g_autoptr (GError) error = NULL;

  setlocale (LC_ALL, "");
  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error) || argc > 2 || limit < 0)
    {
      g_printerr ("growable-array: %s\n", error != NULL ? error->message : "usage: growable-array [--limit MIB] [--full] [--plot FILE.svg] [FILE]");
      return 1;
    }
  if (!run (argc == 2 ? argv[1] : NULL, (guint64) limit, full, plot, &error))
    {
      g_printerr ("growable-array: %s\n", error->message);
      return 1;
    }
  return 0;
}
