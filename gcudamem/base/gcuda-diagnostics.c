/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-diagnostics-private.h"

static const GDebugKey debug_keys[] = {
  { "driver", GCUDA_DEBUG_DRIVER },
  { "alloc", GCUDA_DEBUG_ALLOC },
  { "recipe", GCUDA_DEBUG_RECIPE },
  { "reclaim", GCUDA_DEBUG_RECLAIM },
  { "vmm", GCUDA_DEBUG_VMM },
};

GCudaDebugFlags
_gcuda_debug_flags (void)
{
  static gsize flags = 0;

  /* The top bit only marks that the variable was read. */
  if (g_once_init_enter (&flags))
    g_once_init_leave (&flags,
                       g_parse_debug_string (g_getenv ("GCUDA_DEBUG"), debug_keys, G_N_ELEMENTS (debug_keys)) | (gsize) 1 << 31);
  return (GCudaDebugFlags) (flags & 0xffff);
}

void
_gcuda_post (GMainContext *context,
             GSourceFunc func,
             gpointer data,
             GDestroyNotify destroy)
{
  GSource *source = g_idle_source_new ();

  g_source_set_priority (source, G_PRIORITY_DEFAULT);
  g_source_set_static_name (source, "[gcudamem] call-back");
  g_source_set_callback (source, func, data, destroy);
  g_source_attach (source, context);
  g_source_unref (source);
}

static gboolean
do_nothing (gpointer data)
{
  return G_SOURCE_REMOVE;
}

/* The handler, counted: a report on its way keeps it, so replacing it never pulls it from under a running call. */
typedef struct
{
  GCudaTeardownFunc func;
  gpointer user_data;
  GDestroyNotify destroy;
  GMainContext *context;
} Handler;

static GMutex handler_lock;
static Handler *handler;

/* Runs in the handler's main context, as each release of it does. */
static void
handler_clear (gpointer data)
{
  Handler *self = data;

  if (self->destroy != NULL)
    self->destroy (self->user_data);
  g_main_context_unref (self->context);
}

static void
handler_release (gpointer data)
{
  g_atomic_rc_box_release_full (data, handler_clear);
}

/**
 * gcuda_set_teardown_handler:
 * @handler: (nullable) (scope notified) (closure user_data) (destroy destroy): the handler, or %NULL for none
 * @user_data: data for @handler
 * @destroy: called when the handler is no longer needed
 *
 * Sets the function that is told about failures while something is released, when nobody is there to get an error. There
 * is one handler in a process: it is for programs, not for libraries. A warning is logged for each failure as well.
 *
 * Never reported are a driver that is shutting down and anything in a forked child. A context that is lost gives one
 * report, with the bytes of all its buffers.
 *
 * @handler and @destroy are called from the main context that is the thread-default one of the calling thread now, and
 * only while that runs. Any thread may call this function.
 *
 * Since: 0.1
 */
void
gcuda_set_teardown_handler (GCudaTeardownFunc func,
                            gpointer user_data,
                            GDestroyNotify destroy)
{
  Handler *fresh = NULL, *old;

  if (func != NULL)
    {
      fresh = g_atomic_rc_box_new0 (Handler);
      fresh->func = func;
      fresh->user_data = user_data;
      fresh->destroy = destroy;
      fresh->context = g_main_context_ref_thread_default ();
    }

  g_mutex_lock (&handler_lock);
  old = handler;
  handler = fresh;
  g_mutex_unlock (&handler_lock);

  if (old != NULL)
    _gcuda_post (old->context, do_nothing, old, handler_release);
  /* There is nothing that would keep the data. */
  if (func == NULL && destroy != NULL)
    destroy (user_data);
}

typedef struct
{
  Handler *handler;
  GError *error;
  char *driver_call;
  guint64 handle;
  guint64 leaked;
} Report;

static gboolean
report_deliver (gpointer data)
{
  Report *report = data;

  report->handler->func (report->error, report->driver_call, report->handle, report->leaked, report->handler->user_data);
  return G_SOURCE_REMOVE;
}

static void
report_free (gpointer data)
{
  Report *report = data;

  handler_release (report->handler);
  g_error_free (report->error);
  g_free (report->driver_call);
  g_free (report);
}

void
_gcuda_report_teardown (const GError *error,
                        const char *driver_call,
                        guint64 handle,
                        guint64 leaked)
{
  g_autofree char *handle_text = g_strdup_printf ("0x%" G_GINT64_MODIFIER "x", handle);
  g_autofree char *leaked_text = g_strdup_printf ("%" G_GUINT64_FORMAT, leaked);
  Handler *target = NULL;

  g_log_structured (G_LOG_DOMAIN, G_LOG_LEVEL_WARNING,
                    "GCUDA_DRIVER_CALL", driver_call,
                    "GCUDA_HANDLE", handle_text,
                    "GCUDA_LEAKED_BYTES", leaked_text,
                    "MESSAGE", "%s (%s of %s; %s bytes leaked)", error->message, driver_call, handle_text, leaked_text);

  g_mutex_lock (&handler_lock);
  if (handler != NULL)
    target = g_atomic_rc_box_acquire (handler);
  g_mutex_unlock (&handler_lock);

  if (target != NULL)
    {
      Report *report = g_new (Report, 1);

      report->handler = target;
      report->error = g_error_copy (error);
      report->driver_call = g_strdup (driver_call);
      report->handle = handle;
      report->leaked = leaked;
      _gcuda_post (target->context, report_deliver, report, report_free);
    }
}
