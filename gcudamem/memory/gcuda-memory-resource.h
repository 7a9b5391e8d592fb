/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/stream/gcuda-event.h>

G_BEGIN_DECLS

typedef struct _GCudaBuffer GCudaBuffer;

#define GCUDA_TYPE_MEMORY_RESOURCE (gcuda_memory_resource_get_type ())

GCUDA_AVAILABLE_IN_0_1
G_DECLARE_DERIVABLE_TYPE (GCudaMemoryResource, gcuda_memory_resource, GCUDA, MEMORY_RESOURCE, GObject)

/**
 * GCudaMemoryResourceClass:
 * @parent_class: the parent class
 * @allocate_address: allocates @size bytes, more than 0, aligned to @alignment, usable in the order of @stream. Returns the
 *   address, or 0 with an error set
 * @deallocate_address: gives an address back. It is called once for each address, with the stream of the buffer's
 *   deallocation recipe. It can't fail: a resource that fails keeps the memory
 * @is_stream_ordered: whether @deallocate_address may be called while work before this point of the stream still uses the
 *   memory. By default it may not, and is called when that work is done
 *
 * What a subclass implements. Only the first two are needed.
 *
 * Since: 0.1
 */
struct _GCudaMemoryResourceClass
{
  GObjectClass parent_class;

  guint64 (*allocate_address) (GCudaMemoryResource *self,
                               guint64 size,
                               guint64 alignment,
                               GCudaStream *stream,
                               GError **error);
  void (*deallocate_address) (GCudaMemoryResource *self,
                              guint64 address,
                              guint64 size,
                              guint64 alignment,
                              GCudaStream *stream);
  gboolean (*is_stream_ordered) (GCudaMemoryResource *self);

  /*< private >*/
  gconstpointer operations;
  gpointer padding[8];
};

GCUDA_AVAILABLE_IN_0_1
void gcuda_memory_resource_class_set_thread_safe (GCudaMemoryResourceClass *klass);

GCUDA_AVAILABLE_IN_0_1
GCudaDevice *gcuda_memory_resource_get_device (GCudaMemoryResource *self);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_memory_resource_is_device_accessible (GCudaMemoryResource *self);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_memory_resource_is_host_accessible (GCudaMemoryResource *self);

GCUDA_AVAILABLE_IN_0_1
GCudaBuffer *gcuda_memory_resource_allocate (GCudaMemoryResource *self,
                                             guint64 size,
                                             GCudaStream *stream,
                                             GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaBuffer *gcuda_memory_resource_adopt_address (GCudaMemoryResource *self,
                                                  guint64 address,
                                                  guint64 size,
                                                  GCudaStream *stream,
                                                  GError **error);

GCUDA_AVAILABLE_IN_0_1
guint64 gcuda_memory_resource_allocate_address (GCudaMemoryResource *self,
                                                guint64 size,
                                                guint64 alignment,
                                                GCudaStream *stream,
                                                GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_memory_resource_deallocate_address (GCudaMemoryResource *self,
                                                   guint64 address,
                                                   guint64 size,
                                                   guint64 alignment,
                                                   GCudaStream *stream,
                                                   GError **error);

GCUDA_AVAILABLE_IN_0_1
guint64 gcuda_memory_resource_allocate_address_checked (GCudaMemoryResource *self,
                                                        guint64 size,
                                                        guint64 alignment,
                                                        GCudaStream *stream,
                                                        GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_memory_resource_deallocate_address_checked (GCudaMemoryResource *self,
                                                           guint64 address,
                                                           guint64 size,
                                                           guint64 alignment,
                                                           GCudaStream *stream,
                                                           GError **error);

G_END_DECLS
