/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-place-private.h"

#include "driver/gcuda-driver-private.h"

struct _GCudaPlace
{
  gint refs;
  GMainContext *context;
  GMutex lock;
  GQueue objects;
  GSource *source; /* in the context, while something waits */
};

static GPrivate here = G_PRIVATE_INIT ((GDestroyNotify) _gcuda_place_unref);

void
_gcuda_place_unref (GCudaPlace *self)
{
  if (!g_atomic_int_dec_and_test (&self->refs))
    return;
  g_main_context_unref (self->context);
  g_mutex_clear (&self->lock);
  g_free (self);
}

/* In the context, or with it acquired. */
static gboolean
drain (GCudaPlace *self)
{
  GSource *source = NULL;
  gboolean any = FALSE;

  for (;;)
    {
      GObject *object;

      g_mutex_lock (&self->lock);
      object = g_queue_pop_head (&self->objects);
      if (object == NULL)
        source = g_steal_pointer (&self->source);
      g_mutex_unlock (&self->lock);
      if (object == NULL)
        break;
      g_object_unref (object);
      any = TRUE;
    }
  /* A loop that never runs would keep the source, and that the place and its context. */
  if (source != NULL)
    {
      g_source_destroy (source);
      g_source_unref (source);
    }
  return any;
}

static gboolean
dispatch (gpointer data)
{
  /* What a forked child inherits is the parent's to let go. */
  if (!_gcuda_driver_forked ())
    drain (data);
  return G_SOURCE_REMOVE;
}

static GCudaPlace *
place_ref (GCudaPlace *self)
{
  g_atomic_int_inc (&self->refs);
  return self;
}

gboolean
_gcuda_place_drain_here (void)
{
  g_autoptr (GMainContext) context = g_main_context_ref_thread_default ();
  GCudaPlace *self = g_private_get (&here);
  gboolean any;

  if (self == NULL || self->context != context || _gcuda_driver_forked () || !g_main_context_acquire (context))
    return FALSE;
  /* A finalizer may be the one that brings another place here. */
  place_ref (self);
  any = drain (self);
  _gcuda_place_unref (self);
  g_main_context_release (context);
  return any;
}

void
_gcuda_place_tidy (void)
{
  GCudaPlace *self = g_private_get (&here);

  if (self != NULL && !g_main_context_is_owner (self->context))
    _gcuda_place_drain_here ();
}

GCudaPlace *
_gcuda_place_here (void)
{
  g_autoptr (GMainContext) context = g_main_context_ref_thread_default ();
  GCudaPlace *self = g_private_get (&here);

  if (self == NULL || self->context != context)
    {
      self = g_new0 (GCudaPlace, 1);
      self->refs = 1;
      self->context = g_steal_pointer (&context);
      g_mutex_init (&self->lock);
      g_queue_init (&self->objects);
      g_private_replace (&here, self);
    }
  return place_ref (self);
}

void
_gcuda_place_drop (GCudaPlace *self,
                   GObject *object)
{
  GSource *source;

  g_mutex_lock (&self->lock);
  g_queue_push_tail (&self->objects, object);
  if (self->source == NULL)
    {
      source = g_idle_source_new ();
      g_source_set_priority (source, G_PRIORITY_DEFAULT);
      g_source_set_static_name (source, "[gcudamem] objects to let go");
      g_source_set_callback (source, dispatch, place_ref (self), (GDestroyNotify) _gcuda_place_unref);
      self->source = source;
      /* Under the lock: what drains meanwhile destroys the source that it finds. */
      g_source_attach (source, self->context);
    }
  g_mutex_unlock (&self->lock);
  _gcuda_place_unref (self);
}
