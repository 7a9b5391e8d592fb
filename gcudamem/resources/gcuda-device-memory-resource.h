/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/memory/gcuda-buffer.h>
#include <gcudamem/resources/gcuda-pool-statistics.h>

G_BEGIN_DECLS

/**
 * GCudaHandleTypes:
 * @GCUDA_HANDLE_TYPES_NONE: the memory can't be shared with other processes
 * @GCUDA_HANDLE_TYPES_POSIX_FD: by file descriptor
 * @GCUDA_HANDLE_TYPES_FABRIC: by fabric handle
 *
 * How memory can be shared with other processes. It is chosen when memory is made and can't be added later.
 *
 * Since: 0.1
 */
typedef enum /*< flags >*/
{
  GCUDA_HANDLE_TYPES_NONE = 0,
  GCUDA_HANDLE_TYPES_POSIX_FD = 1 << 0,
  GCUDA_HANDLE_TYPES_FABRIC = 1 << 3,
} GCudaHandleTypes;

/**
 * GCudaPoolReuse:
 * @GCUDA_POOL_REUSE_NONE: memory is reused on another stream only after the driver knows that its free is done
 * @GCUDA_POOL_REUSE_FOLLOW_EVENTS: by order that events make
 * @GCUDA_POOL_REUSE_OPPORTUNISTIC: when its free happens to be done
 * @GCUDA_POOL_REUSE_INTERNAL_DEPENDENCIES: by making the other stream wait
 *
 * What a pool may do to reuse memory that was freed on another stream. A pool is made with all of them.
 *
 * Since: 0.1
 */
typedef enum /*< flags >*/
{
  GCUDA_POOL_REUSE_NONE = 0,
  GCUDA_POOL_REUSE_FOLLOW_EVENTS = 1 << 0,
  GCUDA_POOL_REUSE_OPPORTUNISTIC = 1 << 1,
  GCUDA_POOL_REUSE_INTERNAL_DEPENDENCIES = 1 << 2,
} GCudaPoolReuse;

#define GCUDA_TYPE_DEVICE_MEMORY_RESOURCE (gcuda_device_memory_resource_get_type ())

GCUDA_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (GCudaDeviceMemoryResource, gcuda_device_memory_resource, GCUDA, DEVICE_MEMORY_RESOURCE, GCudaMemoryResource)

GCUDA_AVAILABLE_IN_0_1
GCudaDeviceMemoryResource *gcuda_device_memory_resource_new (GCudaDevice *device,
                                                             GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaDeviceMemoryResource *gcuda_device_memory_resource_new_pool (GCudaDevice *device,
                                                                  guint64 max_size,
                                                                  GCudaHandleTypes handle_types,
                                                                  GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_device_memory_resource_owns_pool (GCudaDeviceMemoryResource *self);

GCUDA_AVAILABLE_IN_0_1
guint64 gcuda_device_memory_resource_get_handle (GCudaDeviceMemoryResource *self);

GCUDA_AVAILABLE_IN_0_1
guint64 gcuda_device_memory_resource_get_max_size (GCudaDeviceMemoryResource *self);

GCUDA_AVAILABLE_IN_0_1
GCudaHandleTypes gcuda_device_memory_resource_get_handle_types (GCudaDeviceMemoryResource *self);

GCUDA_AVAILABLE_IN_0_1
guint64 gcuda_device_memory_resource_get_release_threshold (GCudaDeviceMemoryResource *self);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_device_memory_resource_is_release_unlimited (GCudaDeviceMemoryResource *self);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_device_memory_resource_set_release_threshold (GCudaDeviceMemoryResource *self,
                                                             guint64 threshold,
                                                             GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaPoolReuse gcuda_device_memory_resource_get_reuse (GCudaDeviceMemoryResource *self);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_device_memory_resource_set_reuse (GCudaDeviceMemoryResource *self,
                                                 GCudaPoolReuse reuse,
                                                 GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_device_memory_resource_trim (GCudaDeviceMemoryResource *self,
                                            guint64 keep,
                                            GError **error);

GCUDA_AVAILABLE_IN_0_1
GCudaPoolStatistics *gcuda_device_memory_resource_get_statistics (GCudaDeviceMemoryResource *self,
                                                                  GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_device_memory_resource_reset_high_marks (GCudaDeviceMemoryResource *self,
                                                        GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_device_memory_resource_set_peer_access (GCudaDeviceMemoryResource *self,
                                                       GCudaDevice *peer,
                                                       gboolean access,
                                                       GError **error);

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_device_memory_resource_has_peer_access (GCudaDeviceMemoryResource *self,
                                                       GCudaDevice *peer,
                                                       GError **error);

G_END_DECLS
