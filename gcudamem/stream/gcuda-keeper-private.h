/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gcuda-stream-box-private.h"

G_BEGIN_DECLS

/*
 * Things that work needs: host data that a copy reads, memory that a graph uses. They are dropped when the work is done, or
 * when it can't be done any more. Counted: what a graph keeps, the executable graphs made of it keep as well.
 */
typedef struct _GCudaKeeper GCudaKeeper;

GCudaKeeper *_gcuda_keeper_new (void);
GCudaKeeper *_gcuda_keeper_ref (GCudaKeeper *self);
/* The last one drops the things, here and now: not for a thread of the driver's. */
void _gcuda_keeper_unref (GCudaKeeper *self);
/* Takes @thing over. */
void _gcuda_keeper_add (GCudaKeeper *self,
                        gpointer thing,
                        GDestroyNotify drop);
/* A reference to an object of the program's, dropped in the main context that is the thread-default one now. */
void _gcuda_keeper_add_object (GCudaKeeper *self,
                               GObject *object);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GCudaKeeper, _gcuda_keeper_unref)

/* Makes the teardown of _gcuda_keeper_unref_after () certain. */
gboolean _gcuda_keeper_reserve (GCudaStreamBox *box,
                                GError **error);
/* Drops the reference once the stream, whose box is in use, has passed this point. */
void _gcuda_keeper_unref_after (GCudaKeeper *self,
                                GCudaStreamBox *box,
                                guint64 owner_thread);

/*
 * What a graph, or an executable one, keeps for its nodes, so that the things of one node can be replaced. Things that belong
 * to no node in particular are loose. Any thread.
 */
typedef struct _GCudaKeeperSet GCudaKeeperSet;

GCudaKeeperSet *_gcuda_keeper_set_new (void);
GCudaKeeperSet *_gcuda_keeper_set_ref (GCudaKeeperSet *self);
void _gcuda_keeper_set_unref (GCudaKeeperSet *self);
/* Takes @keeper over; @node is NULL for a loose one. */
void _gcuda_keeper_set_add (GCudaKeeperSet *self,
                            CUgraphNode node,
                            GCudaKeeper *keeper);
/* The same; returns the one that the node had, for the caller, or NULL. */
GCudaKeeper *_gcuda_keeper_set_replace (GCudaKeeperSet *self,
                                        CUgraphNode node,
                                        GCudaKeeper *keeper);
/* Takes it away, for the caller; NULL if the node had none. */
GCudaKeeper *_gcuda_keeper_set_remove (GCudaKeeperSet *self,
                                       CUgraphNode node);
GCudaKeeperSet *_gcuda_keeper_set_copy (GCudaKeeperSet *self);
/* All of them as one, with a reference for the caller; NULL if there are none. */
GCudaKeeper *_gcuda_keeper_set_collect (GCudaKeeperSet *self);
/* Swaps all that it keeps for @keeper, which it takes over and which may be NULL. What it had is the caller's: NULL for nothing. */
GCudaKeeper *_gcuda_keeper_set_exchange (GCudaKeeperSet *self,
                                         GCudaKeeper *keeper);

/* Ties a set to a user object of the driver's: once that is gone, a reference is dropped by the reclaimer. */
CUresult _gcuda_keeper_set_tie (GCudaKeeperSet *self,
                                CUuserObject *object);

/* The library's own captures: what is captured under this id is kept by @set. */
void _gcuda_capture_register (cuuint64_t id,
                              GCudaKeeperSet *set);
void _gcuda_capture_unregister (cuuint64_t id);

G_END_DECLS
