/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-failure-callback-memory-resource.h"

#include "gcuda-memory-resource-adaptor-private.h"

/**
 * GCudaFailureCallbackMemoryResource:
 *
 * An adaptor that asks the program what to do when upstream fails to allocate, mostly as it has no memory.
 *
 * Any failure emits [signal@FailureCallbackMemoryResource::allocation-failed], after the wait for memory that was released and is
 * about to be freed. A handler that made room, by dropping a cache perhaps, returns %TRUE, and upstream is asked again. Handlers
 * run in the call that allocates; therefore only the thread that made the adaptor can allocate from it. Memory can be released on
 * any thread.
 *
 * Since: 0.1
 */
G_DEFINE_TYPE (GCudaFailureCallbackMemoryResource, gcuda_failure_callback_memory_resource, GCUDA_TYPE_MEMORY_RESOURCE_ADAPTOR)

enum
{
  ALLOCATION_FAILED,
  N_SIGNALS
};

static guint signals[N_SIGNALS];

static CUresult
failure_callback_allocate (GCudaMemoryResourceAdaptor *self,
                           GCudaUpstreamCall *up,
                           gsize size,
                           gsize alignment,
                           CUdeviceptr *address)
{
  CUresult result = _gcuda_upstream_allocate (up, size, alignment, address);

  /* What is about to be freed comes before what the program would have to give up; by the other way upstream has waited. */
  if (result == CUDA_ERROR_OUT_OF_MEMORY && up->call != NULL && !up->call->settled)
    {
      if (_gcuda_reclaim_memory ())
        result = _gcuda_upstream_allocate (up, size, alignment, address);
      up->call->settled = TRUE;
    }
  for (guint attempt = 1; result != CUDA_SUCCESS; attempt++)
    {
      g_autoptr (GError) error = NULL;
      gboolean again = FALSE;

      if (up->error != NULL)
        error = g_error_copy (up->error);
      else
        _gcuda_fail_driver (&error, result, "allocating %" G_GSIZE_FORMAT " bytes", size);
      g_signal_emit (self, signals[ALLOCATION_FAILED], 0, (guint64) size, attempt, error, &again);
      if (!again)
        break;
      /* What a handler released may wait for its stream. */
      _gcuda_reclaim_memory ();
      g_clear_error (&up->error);
      result = _gcuda_upstream_allocate (up, size, alignment, address);
    }
  return result;
}

static const GCudaAdaptorHooks hooks = { .allocate = failure_callback_allocate };

static void
gcuda_failure_callback_memory_resource_constructed (GObject *object)
{
  G_OBJECT_CLASS (gcuda_failure_callback_memory_resource_parent_class)->constructed (object);

  _gcuda_memory_resource_bind (GCUDA_MEMORY_RESOURCE (object));
}

static void
gcuda_failure_callback_memory_resource_class_init (GCudaFailureCallbackMemoryResourceClass *klass)
{
  G_OBJECT_CLASS (klass)->constructed = gcuda_failure_callback_memory_resource_constructed;
  GCUDA_MEMORY_RESOURCE_ADAPTOR_CLASS (klass)->hooks = &hooks;

  /**
   * GCudaFailureCallbackMemoryResource::allocation-failed:
   * @self: the memory resource
   * @size: how many bytes upstream was asked for
   * @attempt: how often it was asked for them, from 1
   * @error: why it failed
   *
   * Emitted when upstream fails, on the thread that allocates. The first handler that returns %TRUE ends the emission.
   *
   * Returns: %TRUE to ask upstream again
   *
   * Since: 0.1
   */
  signals[ALLOCATION_FAILED] =
    g_signal_new ("allocation-failed", G_TYPE_FROM_CLASS (klass), G_SIGNAL_RUN_LAST, 0, g_signal_accumulator_true_handled, NULL, NULL,
                  G_TYPE_BOOLEAN, 3, G_TYPE_UINT64, G_TYPE_UINT, G_TYPE_ERROR);
}

static void
gcuda_failure_callback_memory_resource_init (GCudaFailureCallbackMemoryResource *self)
{
}

/**
 * gcuda_failure_callback_memory_resource_new:
 * @upstream: where the memory comes from
 *
 * Makes an adaptor that emits a signal when an allocation fails. It belongs to the calling thread.
 *
 * Returns: (transfer full): a new memory resource
 *
 * Since: 0.1
 */
GCudaFailureCallbackMemoryResource *
gcuda_failure_callback_memory_resource_new (GCudaMemoryResource *upstream)
{
  g_return_val_if_fail (GCUDA_IS_MEMORY_RESOURCE (upstream), NULL);

  return g_object_new (GCUDA_TYPE_FAILURE_CALLBACK_MEMORY_RESOURCE, "upstream", upstream, NULL);
}
