/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

/*
 * Where an object of the program's is let go, whose finalizer may run a script: in the main context of the thread that handed it
 * over, from its loop. Where nobody runs that context, by this thread as well, in calls that it makes, so that a script without a
 * loop works. Counted; of any thread.
 */
typedef struct _GCudaPlace GCudaPlace;

GCudaPlace *_gcuda_place_here (void); /* of the calling thread and its thread-default main context */
void _gcuda_place_unref (GCudaPlace *self);
/* Takes both over. Never inline. */
void _gcuda_place_drop (GCudaPlace *self,
                        GObject *object);
/* Lets go what waits at the place of the calling thread, unless another one runs that context. TRUE if there was something. */
gboolean _gcuda_place_drain_here (void);
/* The same if no loop will. At the start of calls that hand objects over: without a loop, they would pile up. */
void _gcuda_place_tidy (void);

G_END_DECLS
