/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-logging-memory-resource.h"

#include "gcuda-memory-resource-adaptor-private.h"
#include "gcuda-trace-private.h"

/**
 * GCudaLoggingMemoryResource:
 *
 * An adaptor that writes what is allocated and freed to a file: a trace, which [func@replay_trace] and `gcuda replay` run
 * again on any memory resource.
 *
 * The first line is `# gcuda-trace 1`; other lines that begin with `#` say nothing. Each call is a line of words:
 *
 * | word | what it is |
 * | --- | --- |
 * | time | microseconds since the trace began |
 * | thread | a number for the thread that called |
 * | call | `allocate`, `fail` or `free` |
 * | address | with `0x`; `0x0` for `fail` |
 * | size | in bytes, as it was asked for |
 * | alignment | in bytes |
 * | stream | `s` with a number for it, `legacy` or `per-thread` |
 *
 * `fail` has one word more: the number of the driver's answer, 999 if the failure was not the driver's.
 *
 * Each call costs a write to the file, which is not waited for to reach the disk. A file that can't be written to any more
 * is told of once, by a warning; the memory is not affected. Any thread.
 *
 * Since: 0.1
 */
typedef struct
{
  GFile *file;
  GMutex lock;
  GOutputStream *output;
  gboolean failed;
  gint64 start;
} GCudaLoggingMemoryResourcePrivate;

G_DEFINE_TYPE_WITH_PRIVATE (GCudaLoggingMemoryResource, gcuda_logging_memory_resource, GCUDA_TYPE_MEMORY_RESOURCE_ADAPTOR)

enum
{
  PROP_0,
  PROP_FILE,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

static inline GCudaLoggingMemoryResourcePrivate *
get_private (gpointer self)
{
  return gcuda_logging_memory_resource_get_instance_private (self);
}

/* Under the lock. */
static gboolean
open_file (GCudaLoggingMemoryResourcePrivate *priv,
           GError **error)
{
  g_autoptr (GFileOutputStream) output = NULL;

  if (priv->output != NULL)
    return TRUE;
  if (priv->file == NULL)
    return _gcuda_fail (error, GCUDA_ERROR_INVALID_ARGUMENT, "logging allocations: no file was given");
  /* Written in place, so that it can be followed, and all of it is there when the program ends in whatever way. */
  output = g_file_append_to (priv->file, G_FILE_CREATE_NONE, NULL, error);
  if (output == NULL)
    return FALSE;
  if (g_file_query_file_type (priv->file, G_FILE_QUERY_INFO_NONE, NULL) == G_FILE_TYPE_REGULAR && !g_seekable_truncate (G_SEEKABLE (output), 0, NULL, error))
    return FALSE;
  if (!g_output_stream_write_all (G_OUTPUT_STREAM (output), GCUDA_TRACE_HEADER "\n", strlen (GCUDA_TRACE_HEADER "\n"), NULL, NULL, error))
    return FALSE;
  priv->start = g_get_monotonic_time ();
  priv->output = G_OUTPUT_STREAM (g_steal_pointer (&output));
  return TRUE;
}

static void
write_line (GCudaMemoryResourceAdaptor *self,
            const GCudaUpstreamCall *up,
            const char *call,
            CUdeviceptr address,
            gsize size,
            gsize alignment,
            CUresult result)
{
  GCudaLoggingMemoryResourcePrivate *priv = get_private (self);
  const GCudaStreamBox *box = up->stream != NULL ? up->stream->box : up->box;
  g_autoptr (GError) error = NULL;
  char stream[32], line[256];
  int length;

  if (box == NULL || box->kind == GCUDA_STREAM_LEGACY)
    g_strlcpy (stream, "legacy", sizeof stream);
  else if (box->kind == GCUDA_STREAM_PER_THREAD)
    g_strlcpy (stream, "per-thread", sizeof stream);
  else
    g_snprintf (stream, sizeof stream, "s%llu", box->id);
  g_mutex_lock (&priv->lock);
  if (priv->output != NULL && !priv->failed)
    {
      length = g_snprintf (line, sizeof line, "%" G_GINT64_FORMAT " %" G_GUINT64_FORMAT " %s 0x%llx %" G_GSIZE_FORMAT " %" G_GSIZE_FORMAT " %s",
                           g_get_monotonic_time () - priv->start, _gcuda_thread_id (), call, (unsigned long long) address, size, alignment, stream);
      if (result != CUDA_SUCCESS)
        length += g_snprintf (line + length, sizeof line - (gsize) length, " %d", (int) result);
      line[length++] = '\n';
      priv->failed = !g_output_stream_write_all (priv->output, line, (gsize) length, NULL, NULL, &error);
    }
  g_mutex_unlock (&priv->lock);
  if (error != NULL)
    g_warning ("logging allocations: %s; nothing more is logged", error->message);
}

static CUresult
logging_allocate (GCudaMemoryResourceAdaptor *self,
                  GCudaUpstreamCall *up,
                  gsize size,
                  gsize alignment,
                  CUdeviceptr *address)
{
  CUresult result = _gcuda_upstream_allocate (up, size, alignment, address);

  write_line (self, up, result == CUDA_SUCCESS ? "allocate" : "fail", result == CUDA_SUCCESS ? *address : 0, size, alignment, result);
  return result;
}

static CUresult
logging_deallocate (GCudaMemoryResourceAdaptor *self,
                    GCudaUpstreamCall *up,
                    CUdeviceptr address,
                    gsize size,
                    gsize alignment)
{
  CUresult result;

  /* Before: after it another thread may be given the address, and its line must come later. */
  write_line (self, up, "free", address, size, alignment, CUDA_SUCCESS);
  result = _gcuda_upstream_deallocate (up, address, size, alignment);
  if (result != CUDA_SUCCESS)
    write_line (self, up, "allocate", address, size, alignment, CUDA_SUCCESS);
  return result;
}

static gboolean
logging_check (GCudaMemoryResourceAdaptor *self,
               GError **error)
{
  GCudaLoggingMemoryResourcePrivate *priv = get_private (self);
  gboolean success;

  g_mutex_lock (&priv->lock);
  success = open_file (priv, error);
  g_mutex_unlock (&priv->lock);
  return success;
}

static const GCudaAdaptorHooks hooks = {
  .allocate = logging_allocate,
  .deallocate = logging_deallocate,
  .check = logging_check,
};

static void
gcuda_logging_memory_resource_finalize (GObject *object)
{
  GCudaLoggingMemoryResourcePrivate *priv = get_private (object);

  g_clear_object (&priv->file);
  g_clear_object (&priv->output);
  g_mutex_clear (&priv->lock);

  G_OBJECT_CLASS (gcuda_logging_memory_resource_parent_class)->finalize (object);
}

static void
gcuda_logging_memory_resource_get_property (GObject *object,
                                            guint id,
                                            GValue *value,
                                            GParamSpec *pspec)
{
  switch (id)
    {
    case PROP_FILE:
      g_value_set_object (value, get_private (object)->file);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gcuda_logging_memory_resource_set_property (GObject *object,
                                            guint id,
                                            const GValue *value,
                                            GParamSpec *pspec)
{
  switch (id)
    {
    case PROP_FILE:
      get_private (object)->file = g_value_dup_object (value);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
gcuda_logging_memory_resource_class_init (GCudaLoggingMemoryResourceClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->finalize = gcuda_logging_memory_resource_finalize;
  object_class->get_property = gcuda_logging_memory_resource_get_property;
  object_class->set_property = gcuda_logging_memory_resource_set_property;
  GCUDA_MEMORY_RESOURCE_ADAPTOR_CLASS (klass)->hooks = &hooks;

  /**
   * GCudaLoggingMemoryResource:file: (getter get_file)
   *
   * The file that is written. What was in it is lost. It is opened by the constructor function, or else by the first
   * allocation.
   *
   * Since: 0.1
   */
  properties[PROP_FILE] = g_param_spec_object ("file", NULL, NULL, G_TYPE_FILE, G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS);

  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
gcuda_logging_memory_resource_init (GCudaLoggingMemoryResource *self)
{
  g_mutex_init (&get_private (self)->lock);
}

/**
 * gcuda_logging_memory_resource_new:
 * @upstream: where the memory comes from
 * @file: the file to write; what is in it is lost
 * @error: return location for an error
 *
 * Makes an adaptor that logs, and begins the file. Any thread.
 *
 * Errors: `INVALID_ARGUMENT` for no file; those of GIO for a file that can't be written.
 *
 * Returns: (transfer full): a new memory resource
 *
 * Since: 0.1
 */
GCudaLoggingMemoryResource *
gcuda_logging_memory_resource_new (GCudaMemoryResource *upstream,
                                   GFile *file,
                                   GError **error)
{
  g_autoptr (GCudaLoggingMemoryResource) self = NULL;

  g_return_val_if_fail (GCUDA_IS_MEMORY_RESOURCE (upstream), NULL);

  self = g_object_new (GCUDA_TYPE_LOGGING_MEMORY_RESOURCE, "upstream", upstream, "file", file, NULL);
  if (!open_file (get_private (self), error))
    return NULL;
  return g_steal_pointer (&self);
}

/**
 * gcuda_logging_memory_resource_get_file: (get-property file)
 * @self: a logging memory resource
 *
 * The file that is written. Any thread.
 *
 * Returns: (transfer none) (nullable): a file; %NULL for an object made by bare `new` without one
 *
 * Since: 0.1
 */
GFile *
gcuda_logging_memory_resource_get_file (GCudaLoggingMemoryResource *self)
{
  g_return_val_if_fail (GCUDA_IS_LOGGING_MEMORY_RESOURCE (self), NULL);

  return get_private (self)->file;
}
