/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-graph-box-private.h"

gboolean
_gcuda_graphs_check (const char *what,
                     GError **error)
{
  if (!_gcuda_driver_check (error))
    return FALSE;
  return (_gcuda_driver_has (GCUDA_DRIVER_GROUP_GRAPHS) && _gcuda_driver_has (GCUDA_DRIVER_GROUP_CAPTURE)) ||
         _gcuda_fail (error, GCUDA_ERROR_NOT_SUPPORTED, "%s: this driver lacks functions for graphs (cuGraphInstantiateWithParams and those around it)", what);
}

GCudaGraphBox *
_gcuda_graph_box_new (CUgraph handle,
                      gboolean owned,
                      GCudaContextBox *context,
                      cuuint64_t capture)
{
  GCudaGraphBox *self = g_new0 (GCudaGraphBox, 1);

  self->refs = 1;
  self->handle = handle;
  self->owned = owned;
  self->context = context;
  self->keepers = _gcuda_keeper_set_new ();
  self->memory = _gcuda_graph_memory_new (capture);
  return self;
}

GCudaGraphBox *
_gcuda_graph_box_new_body (GCudaGraphBox *root,
                           CUgraph handle)
{
  GCudaGraphBox *self = g_new0 (GCudaGraphBox, 1);

  /* The outermost one. */
  if (root->root != NULL)
    root = root->root;
  self->refs = 1;
  self->handle = handle;
  self->root = _gcuda_graph_box_ref (root);
  _gcuda_context_box_use (root->context);
  self->context = root->context;
  self->keepers = _gcuda_keeper_set_ref (root->keepers);
  self->memory = _gcuda_graph_memory_ref (root->memory);
  return self;
}

GCudaGraphBox *
_gcuda_graph_box_ref (GCudaGraphBox *self)
{
  g_atomic_int_inc (&self->refs);
  return self;
}

/* FALSE on a thread of the driver's, where nothing was done. */
static gboolean
destroy (GCudaGraphBox *self)
{
  CUresult result = CUDA_SUCCESS;

  if (self->owned && self->handle != NULL && _gcuda_context_box_is_alive (self->context))
    result = _gcuda_driver.GraphDestroy (self->handle);
  if (result == CUDA_ERROR_NOT_PERMITTED)
    return FALSE;
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_DEINITIALIZED && !_gcuda_result_is_sticky (result))
    {
      g_autoptr (GError) error = NULL;

      _gcuda_fail_driver (&error, result, "destroying a graph of device %d", (int) self->context->device);
      _gcuda_report_teardown (error, "cuGraphDestroy", (guint64) (guintptr) self->handle, 0);
    }
  _gcuda_keeper_set_unref (self->keepers);
  _gcuda_graph_memory_unref (self->memory);
  _gcuda_context_box_unuse (self->context);
  g_clear_pointer (&self->root, _gcuda_graph_box_unref);
  g_free (self);
  return TRUE;
}

static GCudaReclaimResult
destroy_later (GCudaReclaimNode *node)
{
  return destroy ((GCudaGraphBox *) node) ? GCUDA_RECLAIM_DONE : GCUDA_RECLAIM_AGAIN;
}

void
_gcuda_graph_box_unref (GCudaGraphBox *self)
{
  GCudaTeardown teardown;

  if (!g_atomic_int_dec_and_test (&self->refs))
    return;
  /* Exiting, or a forked child: it all goes with the process. */
  if (!_gcuda_teardown_enter (&teardown))
    return;
  if (!destroy (self))
    _gcuda_reclaimer_push (&self->node, destroy_later);
  _gcuda_teardown_leave (&teardown);
}

void
_gcuda_graph_box_close (GCudaGraphBox *self)
{
  GCudaKeeper *kept;

  if (!g_atomic_int_compare_and_exchange (&self->closed, FALSE, TRUE) || self->root != NULL)
    return;
  /* There the locks may be anybody's. */
  if (_gcuda_driver_forked ())
    return;
  g_clear_pointer (&self->objects, _gcuda_keeper_unref);
  /* Then the set is theirs too. */
  if (g_atomic_int_get (&self->tied))
    return;
  kept = _gcuda_keeper_set_exchange (self->keepers, NULL);
  g_clear_pointer (&kept, _gcuda_keeper_unref);
}

gboolean
_gcuda_graph_box_is_closed (GCudaGraphBox *self)
{
  return g_atomic_int_get (&self->closed) || (self->root != NULL && _gcuda_graph_box_is_closed (self->root));
}

gboolean
_gcuda_graph_box_contains (GCudaGraphBox *self,
                           GCudaGraphBox *other)
{
  return self->handle == other->handle || (other->root != NULL && self->handle == other->root->handle);
}

gboolean
_gcuda_graph_box_enter (GCudaGraphBox *self,
                        GCudaContextScope *scope,
                        const char *what,
                        GError **error)
{
  CUresult result;

  if (!_gcuda_context_box_check (self->context, error))
    {
      g_prefix_error (error, "%s: ", what);
      return FALSE;
    }
  result = _gcuda_context_scope_enter (scope, self->context->handle);
  return result == CUDA_SUCCESS || _gcuda_fail_driver (error, result, "%s: making the context of the graph current", what);
}

void
_gcuda_graph_box_keep_allocation (GCudaGraphBox *self,
                                  GCudaKeeper *keeper,
                                  GCudaAllocation *allocation)
{
  if (_gcuda_allocation_get_address (allocation) == 0 ||
      _gcuda_graph_memory_contains (self->memory, _gcuda_allocation_get_address (allocation)))
    return;
  _gcuda_allocation_hold (allocation);
  _gcuda_keeper_add (keeper, allocation, (GDestroyNotify) _gcuda_allocation_unhold);
}
