/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "driver/gcuda-home-private.h"

G_BEGIN_DECLS

/*
 * A context as recipes, streams and events hold it. Two counts: a reference keeps the struct, a use keeps the context
 * itself, and all uses together one reference. The last use ends it: a private context is destroyed by the reclaimer once it is idle, a foreign one loses its
 * owner, the primary one stays.
 */
typedef enum
{
  GCUDA_CONTEXT_PRIMARY,
  GCUDA_CONTEXT_PRIVATE,
  GCUDA_CONTEXT_FOREIGN,
} GCudaContextKind;

typedef struct
{
  GCudaReclaimNode node;
  gint refs;
  gint uses;
  CUcontext handle;
  unsigned long long id; /* handles are used again after a reset, ids are not */
  CUdevice device;
  GCudaContextKind kind;
  gint gone; /* a private one was destroyed: all that was in it is done */

  GObject *owner;
  GCudaHome *owner_home; /* where the owner is dropped */

  /* A call on the legacy default stream breaks the captures of blocking and per-thread streams. So a teardown and a capture of
   * the library's own exclude each other: whoever comes second sees the other's count. */
  gint legacy_teardowns;
  gint blocking_captures;

  /* Stock of events that a teardown can take without asking for memory. */
  GMutex lock;
  GPtrArray *events;
  guint n_events; /* in stock or lent */
  CUevent idle_event;

  /* What could not be freed after the context was lost, for the one report. */
  GCudaReclaimNode lost_node;
  gboolean lost_queued;
  CUresult lost_result;
  guint64 lost_bytes;
  guint lost_count;
  gint64 lost_time;
} GCudaContextBox;

/* With one use, for the caller. @owner is taken over only on success, which is always. */
GCudaContextBox *_gcuda_context_box_new (CUcontext handle,
                                         unsigned long long id,
                                         CUdevice device,
                                         GCudaContextKind kind,
                                         GObject *owner);
GCudaContextBox *_gcuda_context_box_ref (GCudaContextBox *self);
void _gcuda_context_box_unref (GCudaContextBox *self);

/* FALSE when the context has ended. */
gboolean _gcuda_context_box_use (GCudaContextBox *self);
void _gcuda_context_box_unuse (GCudaContextBox *self);

/* Ends the context only if @expected uses are left. */
gboolean _gcuda_context_box_end (GCudaContextBox *self,
                                 gint expected);

/* Whether the handle still means this context: it may have been reset or destroyed by others, and then any call on its
 * streams kills the process. */
gboolean _gcuda_context_box_is_alive (GCudaContextBox *self);

/* The same as a GError, for calls that a user makes. The answer of a driver that does not say yes, as an error; TRUE if it can't know. */
gboolean _gcuda_context_box_fail (GCudaContextBox *self,
                                  CUresult result,
                                  GError **error);

static inline gboolean
_gcuda_context_box_check (GCudaContextBox *self,
                          GError **error)
{
  unsigned long long id = 0;
  CUresult result;

  if (!_gcuda_driver_check (error))
    return FALSE;
  result = _gcuda_driver.CtxGetId (self->handle, &id);
  return G_LIKELY (result == CUDA_SUCCESS && id == self->id) || _gcuda_context_box_fail (self, result, error);
}

/* Makes sure that there is an event for teardowns in this context. The context need not be current. */
gboolean _gcuda_context_box_reserve_event (GCudaContextBox *self,
                                           GError **error);
/* An event, from stock or new; NULL if there is none now. To be given back, or destroyed where a capture has it. */
CUevent _gcuda_context_box_take_event (GCudaContextBox *self);
void _gcuda_context_box_give_event (GCudaContextBox *self,
                                    CUevent event,
                                    gboolean tainted);

/* Adds to the one report for a lost context. */
void _gcuda_context_box_add_loss (GCudaContextBox *self,
                                  CUresult result,
                                  guint64 bytes);

/* Of a call that gives something back where nobody can be given an error: the undoing of a step, or the end of memory. */
void _gcuda_context_box_report (GCudaContextBox *self,
                                CUresult result,
                                const char *driver_call,
                                guint64 handle,
                                guint64 leaked);

G_END_DECLS
