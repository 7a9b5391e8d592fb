/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gcuda-reclaimer-private.h"

G_BEGIN_DECLS

/*
 * What the program has to do itself, on a thread of its own, from a main context: drained by the loop of that, and by calls that the
 * thread makes, so that a script without a loop works. Counted.
 *
 * A home of its own is a scripted resource's, which is used on that thread only, whoever runs the loop. In the one that a thread has
 * for its main context objects of the program's are let go, whose finalizers may run scripts: whoever runs the context may, and the
 * thread itself in its calls unless another one does.
 */
typedef struct _GCudaHome GCudaHome;

GCudaHome *_gcuda_home_new (void);  /* of the calling thread and its thread-default main context */
GCudaHome *_gcuda_home_here (void); /* the one that they have */
GCudaHome *_gcuda_home_ref (GCudaHome *self);
void _gcuda_home_unref (GCudaHome *self);
gboolean _gcuda_home_is_here (GCudaHome *self);
void _gcuda_home_push (GCudaHome *self,
                       GCudaReclaimNode *node,
                       GCudaReclaimFunc attempt);
/* FALSE: it is run, or was. */
gboolean _gcuda_home_remove (GCudaHome *self,
                             GCudaReclaimNode *node);
/* Lets an object go there, never inline. Takes both over. */
void _gcuda_home_drop (GCudaHome *self,
                       GObject *object);
/* Whether there was anything; nothing happens on another thread. */
gboolean _gcuda_home_drain (GCudaHome *self);
/* All that belong to the calling thread. */
gboolean _gcuda_homes_drain_here (void);
/* Of these, all but objects. */
void _gcuda_homes_work_here (void);
/* Objects, if no loop will: at the start of calls that hand some over, which would pile up. */
void _gcuda_home_tidy (void);
/* Says, for those who debug, what the homes still hold: it is not run any more. */
void _gcuda_homes_report_left (void);

G_END_DECLS
