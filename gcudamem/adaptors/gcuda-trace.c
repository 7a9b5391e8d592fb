/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-trace.h"

#include "gcuda-trace-private.h"

#include "memory/gcuda-memory-resource-private.h"

typedef enum
{
  CALL_ALLOCATE,
  CALL_FREE,
} Call;

typedef struct
{
  Call call;
  guint line;
  guint64 address;
  guint64 size;
  guint64 alignment;
  const char *stream; /* interned in the trace */
} Entry;

typedef struct
{
  GArray *entries;
  GStringChunk *names;
} Trace;

static void
trace_clear (Trace *self)
{
  g_array_unref (self->entries);
  g_string_chunk_free (self->names);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Trace, trace_clear)

/* A whole word that is a number. */
static gboolean
parse_number (const char *word,
              guint base,
              guint64 *number)
{
  return g_ascii_string_to_unsigned (word, base, 0, G_MAXUINT64, number, NULL);
}

static gboolean
parse_address (const char *word,
               guint64 *address)
{
  return g_str_has_prefix (word, "0x") && parse_number (word + 2, 16, address);
}

static gboolean
parse_stream (const char *word)
{
  guint64 number;

  return g_str_equal (word, "legacy") || g_str_equal (word, "per-thread") || (word[0] == 's' && parse_number (word + 1, 10, &number));
}

/* NULL, or what is wrong with the line. A failed allocation makes no entry. */
static const char *
parse_line (char **words,
            Trace *trace,
            GHashTable *live,
            guint line)
{
  const guint count = g_strv_length (words);
  Entry entry = { .line = line };
  guint64 number;

  if (count < 7)
    return "it has fewer than 7 words";
  if (!parse_number (words[0], 10, &number) || !parse_number (words[1], 10, &number))
    return "it does not begin with the numbers of a time and a thread";
  if (!parse_address (words[3], &entry.address))
    return "the fourth word is no address";
  if (!parse_number (words[4], 10, &entry.size) || entry.size == 0)
    return "the fifth word is no size";
  if (!parse_number (words[5], 10, &entry.alignment) || entry.alignment == 0 || (entry.alignment & (entry.alignment - 1)) != 0)
    return "the sixth word is no power of two";
  if (!parse_stream (words[6]))
    return "the seventh word is no stream";
  if (g_str_equal (words[2], "fail"))
    return count == 8 && parse_number (words[7], 10, &number) ? NULL : "a failure ends with one number";
  if (count != 7)
    return "it has more than 7 words";
  entry.stream = g_string_chunk_insert_const (trace->names, words[6]);
  if (g_str_equal (words[2], "allocate"))
    {
      entry.call = CALL_ALLOCATE;
      if (entry.address == 0 || !g_hash_table_add (live, g_memdup2 (&entry.address, sizeof entry.address)))
        return "it allocates an address that is allocated already, or none";
    }
  else if (g_str_equal (words[2], "free"))
    {
      entry.call = CALL_FREE;
      if (!g_hash_table_remove (live, &entry.address))
        return "it frees an address that is not allocated";
    }
  else
    {
      return "the third word is not allocate, fail or free";
    }
  g_array_append_val (trace->entries, entry);
  return NULL;
}

static gboolean
trace_read (Trace *self,
            GFile *file,
            GCancellable *cancellable,
            GError **error)
{
  g_autoptr (GFileInputStream) input = g_file_read (file, cancellable, error);
  g_autoptr (GHashTable) live = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
  g_autoptr (GDataInputStream) lines = NULL;
  g_autofree char *name = g_file_get_parse_name (file);

  if (input == NULL)
    return FALSE;
  lines = g_data_input_stream_new (G_INPUT_STREAM (input));
  for (guint line = 1;; line++)
    {
      g_autoptr (GError) local = NULL;
      g_autofree char *text = g_data_input_stream_read_line_utf8 (lines, NULL, cancellable, &local);
      g_auto (GStrv) words = NULL;
      const char *wrong = NULL;

      if (g_error_matches (local, G_CONVERT_ERROR, G_CONVERT_ERROR_ILLEGAL_SEQUENCE))
        return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: line %u: it is no text", name, line);
      if (local != NULL)
        {
          g_propagate_error (error, g_steal_pointer (&local));
          return FALSE;
        }
      if (line == 1)
        {
          if (g_strcmp0 (text, GCUDA_TRACE_HEADER) != 0)
            return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: line 1: this is no trace: it does not begin with “%s”", name, GCUDA_TRACE_HEADER);
          continue;
        }
      if (text == NULL)
        return TRUE;
      if (text[0] == '#')
        continue;
      words = g_strsplit (text, " ", -1);
      wrong = parse_line (words, self, live, line);
      if (wrong != NULL)
        return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "%s: line %u: %s", name, line, wrong);
    }
}

/* A stream for a name of the trace. */
static GCudaStream *
find_stream (GHashTable *streams,
             GCudaContext *context,
             const char *name,
             GError **error)
{
  GCudaStream *stream = g_hash_table_lookup (streams, name);

  if (stream != NULL)
    return stream;
  if (g_str_equal (name, "legacy"))
    stream = gcuda_stream_new_legacy_default (context, error);
  else if (g_str_equal (name, "per-thread"))
    stream = gcuda_stream_new_per_thread_default (context, error);
  else
    stream = gcuda_stream_new (context, GCUDA_STREAM_FLAGS_NONE, 0, error);
  if (stream != NULL)
    g_hash_table_insert (streams, (gpointer) name, stream);
  return stream;
}

static GCudaBuffer *
allocate (GCudaMemoryResource *resource,
          const Entry *entry,
          GCudaStream *stream,
          GError **error)
{
  GCudaBuffer *buffer;
  guint64 address;

  if (entry->alignment <= GCUDA_ALIGNMENT)
    return gcuda_memory_resource_allocate (resource, entry->size, stream, error);
  address = gcuda_memory_resource_allocate_address (resource, entry->size, entry->alignment, stream, error);
  if (address == 0)
    return NULL;
  buffer = gcuda_memory_resource_adopt_address (resource, address, entry->size, stream, error);
  if (buffer == NULL)
    gcuda_memory_resource_deallocate_address (resource, address, entry->size, entry->alignment, stream, NULL);
  return buffer;
}

static gboolean
replay (const Trace *trace,
        GCudaMemoryResource *resource,
        GCudaContext *context,
        GCancellable *cancellable,
        GError **error)
{
  g_autoptr (GHashTable) streams = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, g_object_unref);
  g_autoptr (GHashTable) owners = g_hash_table_new (g_int64_hash, g_int64_equal); /* the entry that allocated */
  g_autoptr (GHashTable) buffers = g_hash_table_new_full (g_int64_hash, g_int64_equal, NULL, g_object_unref);

  for (guint i = 0; i < trace->entries->len; i++)
    {
      Entry *entry = &g_array_index (trace->entries, Entry, i);
      GCudaStream *stream = find_stream (streams, context, entry->stream, error);
      GCudaBuffer *buffer;
      const Entry *owner;

      if (stream == NULL || g_cancellable_set_error_if_cancelled (cancellable, error))
        return FALSE;
      if (entry->call == CALL_ALLOCATE)
        {
          buffer = allocate (resource, entry, stream, error);
          if (buffer == NULL)
            {
              g_prefix_error (error, "line %u: ", entry->line);
              return FALSE;
            }
          g_hash_table_insert (buffers, &entry->address, buffer);
          g_hash_table_insert (owners, &entry->address, entry);
          continue;
        }
      owner = g_hash_table_lookup (owners, &entry->address);
      buffer = g_hash_table_lookup (buffers, &entry->address);
      /* The program had an order between the two; the trace does not tell which. */
      if ((owner->stream != entry->stream && !gcuda_stream_wait_stream (stream, g_hash_table_lookup (streams, owner->stream), error)) ||
          !gcuda_buffer_close (buffer, stream, error))
        {
          g_prefix_error (error, "line %u: ", entry->line);
          return FALSE;
        }
      g_hash_table_remove (owners, &entry->address);
      g_hash_table_remove (buffers, &entry->address);
    }
  return TRUE;
}

/**
 * gcuda_replay_trace:
 * @file: a trace, written by [class@LoggingMemoryResource]
 * @resource: where to allocate
 * @cancellable: (nullable): a cancellable, or %NULL
 * @error: return location for an error, or %NULL
 *
 * Allocates and frees what a trace says, in its order, as fast as it goes, on streams like those of the trace. Where memory
 * was freed on another stream than it was allocated on, the one waits for the other. What the trace does not free is freed at
 * the end. All of the trace is read and checked before anything is allocated. To see what became of it, give it a
 * [class@StatisticsMemoryResource]. Any thread, for a resource of the library's own.
 *
 * Errors: `INVALID_ARGUMENT` for what is no trace, with the line; those of GIO for a file that can't be read, and when
 * cancelled; with the line, what the resource answers.
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
gcuda_replay_trace (GFile *file,
                    GCudaMemoryResource *resource,
                    GCancellable *cancellable,
                    GError **error)
{
  g_auto (Trace) trace = { g_array_new (FALSE, FALSE, sizeof (Entry)), g_string_chunk_new (64) };
  g_autoptr (GCudaDevice) device = NULL;
  g_autoptr (GCudaContext) context = NULL;

  g_return_val_if_fail (G_IS_FILE (file), FALSE);
  g_return_val_if_fail (GCUDA_IS_MEMORY_RESOURCE (resource), FALSE);

  if (!trace_read (&trace, file, cancellable, error))
    return FALSE;
  g_set_object (&device, _gcuda_memory_resource_peek_device (resource));
  if (device == NULL)
    device = gcuda_device_new (0, error);
  if (device == NULL)
    return FALSE;
  context = gcuda_device_get_primary_context (device, error);
  return context != NULL && replay (&trace, resource, context, cancellable, error);
}
