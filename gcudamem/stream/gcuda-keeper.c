/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-keeper-private.h"

#include "gcuda-stream-private.h"

typedef struct
{
  gpointer thing;
  GDestroyNotify drop;
} Thing;

/* Most keep one or two things. */
#define N_INLINE 3

struct _GCudaKeeper
{
  GCudaStreamWaiter waiter; /* for the stream that work goes through; or for the user object of a graph */
  gint refs;
  GCudaStreamBox *box; /* in use, while it waits */
  guint n_things;
  Thing things[N_INLINE];
  GArray *more;
};

GCudaKeeper *
_gcuda_keeper_new (void)
{
  GCudaKeeper *self = g_new0 (GCudaKeeper, 1);

  self->refs = 1;
  return self;
}

GCudaKeeper *
_gcuda_keeper_ref (GCudaKeeper *self)
{
  g_atomic_int_inc (&self->refs);
  return self;
}

void
_gcuda_keeper_unref (GCudaKeeper *self)
{
  if (!g_atomic_int_dec_and_test (&self->refs))
    return;
  for (guint i = 0; i < self->n_things; i++)
    self->things[i].drop (self->things[i].thing);
  for (guint i = 0; self->more != NULL && i < self->more->len; i++)
    {
      Thing *thing = &g_array_index (self->more, Thing, i);

      thing->drop (thing->thing);
    }
  g_clear_pointer (&self->more, g_array_unref);
  if (self->box != NULL)
    _gcuda_stream_box_unuse (self->box);
  g_free (self);
}

void
_gcuda_keeper_add (GCudaKeeper *self,
                   gpointer thing,
                   GDestroyNotify drop)
{
  Thing entry = { thing, drop };

  if (self->n_things < N_INLINE)
    {
      self->things[self->n_things++] = entry;
      return;
    }
  if (self->more == NULL)
    self->more = g_array_new (FALSE, FALSE, sizeof (Thing));
  g_array_append_val (self->more, entry);
}

typedef struct
{
  GCudaHome *home;
  GObject *object;
} Kept;

static void
kept_drop (gpointer data)
{
  Kept *kept = data;

  _gcuda_home_drop (kept->home, kept->object);
  g_free (kept);
}

void
_gcuda_keeper_add_object (GCudaKeeper *self,
                          GObject *object)
{
  Kept *kept = g_new (Kept, 1);

  kept->home = _gcuda_home_here ();
  kept->object = g_object_ref (object);
  _gcuda_keeper_add (self, kept, kept_drop);
}

/* Waiting for a stream */

gboolean
_gcuda_keeper_reserve (GCudaStreamBox *box,
                       GError **error)
{
  return _gcuda_context_box_reserve_event (box->context, error);
}

static GCudaReclaimResult
keeper_passed (GCudaStreamWaiter *waiter)
{
  _gcuda_keeper_unref ((GCudaKeeper *) waiter);
  return GCUDA_RECLAIM_DONE;
}

void
_gcuda_keeper_unref_after (GCudaKeeper *self,
                           GCudaStreamBox *box,
                           guint64 owner_thread)
{
  /* Others may hold it, and wait for other streams: the wait is one of its own. */
  GCudaKeeper *wait = _gcuda_keeper_new ();

  _gcuda_keeper_add (wait, self, (GDestroyNotify) _gcuda_keeper_unref);
  _gcuda_stream_box_use (box);
  wait->box = box;
  _gcuda_stream_box_queue (box, &wait->waiter, owner_thread, keeper_passed);
}

/* What a graph keeps */

struct _GCudaKeeperSet
{
  gint refs;
  GMutex lock;
  GHashTable *by_node;
  GPtrArray *loose;
};

GCudaKeeperSet *
_gcuda_keeper_set_new (void)
{
  GCudaKeeperSet *self = g_new0 (GCudaKeeperSet, 1);

  self->refs = 1;
  g_mutex_init (&self->lock);
  self->by_node = g_hash_table_new (NULL, NULL);
  self->loose = g_ptr_array_new ();
  return self;
}

GCudaKeeperSet *
_gcuda_keeper_set_ref (GCudaKeeperSet *self)
{
  g_atomic_int_inc (&self->refs);
  return self;
}

void
_gcuda_keeper_set_unref (GCudaKeeperSet *self)
{
  GCudaKeeper *left;

  if (!g_atomic_int_dec_and_test (&self->refs))
    return;
  left = _gcuda_keeper_set_exchange (self, NULL);
  g_clear_pointer (&left, _gcuda_keeper_unref);
  g_hash_table_unref (self->by_node);
  g_ptr_array_unref (self->loose);
  g_mutex_clear (&self->lock);
  g_free (self);
}

void
_gcuda_keeper_set_add (GCudaKeeperSet *self,
                       CUgraphNode node,
                       GCudaKeeper *keeper)
{
  g_mutex_lock (&self->lock);
  if (node == NULL || g_hash_table_contains (self->by_node, node))
    g_ptr_array_add (self->loose, keeper);
  else
    g_hash_table_insert (self->by_node, node, keeper);
  g_mutex_unlock (&self->lock);
}

GCudaKeeper *
_gcuda_keeper_set_replace (GCudaKeeperSet *self,
                           CUgraphNode node,
                           GCudaKeeper *keeper)
{
  GCudaKeeper *old;

  g_mutex_lock (&self->lock);
  old = g_hash_table_lookup (self->by_node, node);
  g_hash_table_insert (self->by_node, node, keeper);
  g_mutex_unlock (&self->lock);
  return old;
}

GCudaKeeper *
_gcuda_keeper_set_remove (GCudaKeeperSet *self,
                          CUgraphNode node)
{
  gpointer old = NULL;

  g_mutex_lock (&self->lock);
  g_hash_table_steal_extended (self->by_node, node, NULL, &old);
  g_mutex_unlock (&self->lock);
  return old;
}

GCudaKeeperSet *
_gcuda_keeper_set_copy (GCudaKeeperSet *self)
{
  GCudaKeeperSet *copy = _gcuda_keeper_set_new ();
  GHashTableIter iter;
  gpointer node, keeper;

  g_mutex_lock (&self->lock);
  g_hash_table_iter_init (&iter, self->by_node);
  while (g_hash_table_iter_next (&iter, &node, &keeper))
    g_hash_table_insert (copy->by_node, node, _gcuda_keeper_ref (keeper));
  for (guint i = 0; i < self->loose->len; i++)
    g_ptr_array_add (copy->loose, _gcuda_keeper_ref (g_ptr_array_index (self->loose, i)));
  g_mutex_unlock (&self->lock);
  return copy;
}

GCudaKeeper *
_gcuda_keeper_set_collect (GCudaKeeperSet *self)
{
  GCudaKeeperSet *copy = _gcuda_keeper_set_copy (self);
  GCudaKeeper *all = _gcuda_keeper_set_exchange (copy, NULL);

  _gcuda_keeper_set_unref (copy);
  return all;
}

GCudaKeeper *
_gcuda_keeper_set_exchange (GCudaKeeperSet *self,
                            GCudaKeeper *keeper)
{
  GHashTable *by_node = g_hash_table_new (NULL, NULL);
  GPtrArray *loose = g_ptr_array_new ();
  GCudaKeeper *old = NULL;
  GHashTableIter iter;
  gpointer value;

  g_mutex_lock (&self->lock);
  {
    GHashTable *other = self->by_node;

    self->by_node = by_node;
    by_node = other;
  }
  {
    GPtrArray *other = self->loose;

    self->loose = loose;
    loose = other;
  }
  if (keeper != NULL)
    g_ptr_array_add (self->loose, keeper);
  g_mutex_unlock (&self->lock);

  if (g_hash_table_size (by_node) + loose->len > 0)
    {
      old = _gcuda_keeper_new ();
      g_hash_table_iter_init (&iter, by_node);
      while (g_hash_table_iter_next (&iter, NULL, &value))
        _gcuda_keeper_add (old, value, (GDestroyNotify) _gcuda_keeper_unref);
      for (guint i = 0; i < loose->len; i++)
        _gcuda_keeper_add (old, g_ptr_array_index (loose, i), (GDestroyNotify) _gcuda_keeper_unref);
    }
  g_hash_table_unref (by_node);
  g_ptr_array_unref (loose);
  return old;
}

/* User objects: their destructors run on a thread of the driver's, which may do nothing but queue. */

typedef struct
{
  GCudaReclaimNode node;
  GCudaKeeperSet *set;
} Tie;

static GCudaReclaimResult
tie_drop (GCudaReclaimNode *node)
{
  Tie *tie = (Tie *) node;

  _gcuda_keeper_set_unref (tie->set);
  g_free (tie);
  return GCUDA_RECLAIM_DONE;
}

static void CUDA_CB
tie_gone (void *data)
{
  _gcuda_reclaimer_push (&((Tie *) data)->node, tie_drop);
}

CUresult
_gcuda_keeper_set_tie (GCudaKeeperSet *self,
                       CUuserObject *object)
{
  Tie *tie = g_new0 (Tie, 1);
  CUresult result = _gcuda_driver.UserObjectCreate (object, tie, tie_gone, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);

  if (result == CUDA_SUCCESS)
    tie->set = _gcuda_keeper_set_ref (self);
  else
    g_free (tie);
  return result;
}

static GCudaReclaimResult
keeper_drop (GCudaReclaimNode *node)
{
  _gcuda_keeper_unref ((GCudaKeeper *) node);
  return GCUDA_RECLAIM_DONE;
}

static void CUDA_CB
keeper_graph_gone (void *data)
{
  _gcuda_reclaimer_push (&((GCudaKeeper *) data)->waiter.node, keeper_drop);
}

/* Captures */

static GMutex captures_lock;
static GHashTable *captures; /* id: set, referenced */

void
_gcuda_capture_register (cuuint64_t id,
                         GCudaKeeperSet *set)
{
  g_mutex_lock (&captures_lock);
  if (captures == NULL)
    captures = g_hash_table_new_full (NULL, NULL, NULL, (GDestroyNotify) _gcuda_keeper_set_unref);
  g_hash_table_insert (captures, GSIZE_TO_POINTER (id), _gcuda_keeper_set_ref (set));
  g_mutex_unlock (&captures_lock);
}

void
_gcuda_capture_unregister (cuuint64_t id)
{
  gpointer set = NULL;

  g_mutex_lock (&captures_lock);
  g_hash_table_steal_extended (captures, GSIZE_TO_POINTER (id), NULL, &set);
  g_mutex_unlock (&captures_lock);
  if (set != NULL)
    _gcuda_keeper_set_unref (set);
}

static GCudaKeeperSet *
find_capture (cuuint64_t id)
{
  GCudaKeeperSet *set = NULL;

  g_mutex_lock (&captures_lock);
  if (captures != NULL)
    set = g_hash_table_lookup (captures, GSIZE_TO_POINTER (id));
  if (set != NULL)
    _gcuda_keeper_set_ref (set);
  g_mutex_unlock (&captures_lock);
  return set;
}

gboolean
_gcuda_stream_call_find_capture (GCudaStreamCall *call,
                                 const char *what,
                                 GError **error)
{
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUresult result;

  if (call->graph != NULL)
    return TRUE;
  result = _gcuda_driver.StreamIsCapturing (call->handle, &status);
  if (result != CUDA_SUCCESS)
    return _gcuda_fail_driver (error, result, "%s: asking whether the stream is being captured", what);
  if (status == CU_STREAM_CAPTURE_STATUS_NONE)
    return TRUE;
  if (!_gcuda_driver_has (GCUDA_DRIVER_GROUP_CAPTURE))
    return _gcuda_fail (error, GCUDA_ERROR_CAPTURING, "%s: the stream is being captured, and this driver can't keep for the graph what it uses", what);
  result = _gcuda_driver.StreamGetCaptureInfo (call->handle, &status, &call->capture, &call->graph, NULL, NULL);
  if (result == CUDA_SUCCESS && (status != CU_STREAM_CAPTURE_STATUS_ACTIVE || call->graph == NULL))
    result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (result != CUDA_SUCCESS)
    {
      call->graph = NULL;
      return _gcuda_fail_driver (error, result, "%s: asking for the graph that is being captured", what);
    }
  return TRUE;
}

gboolean
_gcuda_stream_call_keep (GCudaStreamCall *call,
                         gpointer thing,
                         GDestroyNotify drop,
                         const char *what,
                         GError **error)
{
  CUresult result;

  if (call->keeper == NULL)
    {
      GCudaKeeper *keeper;

      if (call->graph == NULL)
        {
          if (!_gcuda_keeper_reserve (call->box, error))
            {
              drop (thing);
              return FALSE;
            }
          call->keeper = _gcuda_keeper_new ();
        }
      else if ((call->set = find_capture (call->capture)) != NULL)
        {
          call->keeper = _gcuda_keeper_new ();
          /* One node more afterwards: it's that one which needs this. */
          if (_gcuda_driver.GraphGetNodes (call->graph, NULL, &call->n_nodes) != CUDA_SUCCESS)
            call->n_nodes = 0;
        }
      else
        {
          keeper = _gcuda_keeper_new ();
          result = _gcuda_driver.UserObjectCreate (&call->object, keeper, keeper_graph_gone, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
          if (result != CUDA_SUCCESS)
            {
              _gcuda_keeper_unref (keeper);
              drop (thing);
              return _gcuda_fail_driver (error, result, "%s: making the graph keep what it uses", what);
            }
          /* From here on the keeper belongs to the user object too. */
          _gcuda_keeper_ref (keeper);
          result = _gcuda_driver.GraphRetainUserObject (call->graph, call->object, 1, CU_GRAPH_USER_OBJECT_MOVE);
          if (result != CUDA_SUCCESS)
            {
              _gcuda_driver.UserObjectRelease (call->object, 1);
              _gcuda_keeper_unref (keeper);
              drop (thing);
              return _gcuda_fail_driver (error, result, "%s: making the graph keep what it uses", what);
            }
          call->keeper = keeper;
        }
    }
  _gcuda_keeper_add (call->keeper, thing, drop);
  return TRUE;
}

/* The node that the call added, if it was just one. */
static CUgraphNode
find_node (GCudaStreamCall *call)
{
  CUstreamCaptureStatus status;
  const CUgraphNode *nodes = NULL;
  size_t n_nodes = 0, n_last = 0;

  if (_gcuda_driver.GraphGetNodes (call->graph, NULL, &n_nodes) != CUDA_SUCCESS || n_nodes != call->n_nodes + 1)
    return NULL;
  if (_gcuda_driver.StreamGetCaptureInfo (call->handle, &status, NULL, NULL, &nodes, &n_last) != CUDA_SUCCESS || n_last != 1)
    return NULL;
  return nodes[0];
}

void
_gcuda_stream_call_keep_end (GCudaStreamCall *call,
                             gboolean queued)
{
  GCudaKeeper *keeper = g_steal_pointer (&call->keeper);

  if (keeper == NULL)
    return;
  if (call->set != NULL)
    {
      if (queued)
        _gcuda_keeper_set_add (call->set, find_node (call), keeper);
      else
        _gcuda_keeper_unref (keeper);
      _gcuda_keeper_set_unref (g_steal_pointer (&call->set));
    }
  else if (call->graph != NULL)
    {
      if (!queued)
        _gcuda_driver.GraphReleaseUserObject (call->graph, call->object, 1);
      _gcuda_keeper_unref (keeper);
    }
  else if (queued)
    {
      _gcuda_stream_box_use (call->box);
      keeper->box = call->box;
      _gcuda_stream_box_queue (call->box, &keeper->waiter, _gcuda_thread_id (), keeper_passed);
    }
  else
    {
      _gcuda_keeper_unref (keeper);
    }
}

void
_gcuda_stream_call_keep_late (GCudaStreamCall *call,
                              gpointer thing,
                              GDestroyNotify drop)
{
  call->keeper = _gcuda_keeper_new ();
  _gcuda_keeper_add (call->keeper, thing, drop);
  _gcuda_stream_call_keep_end (call, TRUE);
}
