/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "sim-private.h"

#include <stdio.h>

SimDevice *
sim_device_new (int ordinal, int index, guint64 total)
{
  static const struct
  {
    int number, value;
  } attributes[] = {
#define SIM_ATTRIBUTE(name, number, value) { number, value },
#include "attributes.h"
#undef SIM_ATTRIBUTE
  };
  SimDevice *device = g_new0 (SimDevice, 1);

  device->ordinal = ordinal;
  device->index = index;
  device->total = total;
  for (guint i = 0; i < G_N_ELEMENTS (attributes); i++)
    device->attributes[attributes[i].number].value = attributes[i].value;
  device->attributes[CU_DEVICE_ATTRIBUTE_PCI_BUS_ID].value = index + 1;
  device->primary = sim_primary_new (device);
  device->default_pool = sim_pool_new (device, CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE, ordinal);
  device->default_pool->is_default = TRUE;
  device->current_pool = device->default_pool;
  return device;
}

SimDevice *
sim_device (int ordinal)
{
  return ordinal >= 0 && (guint) ordinal < sim.n_devices ? sim.devices[ordinal] : NULL;
}

gboolean
sim_device_supports (SimDevice *device, int attribute)
{
  /* A driver may have what it can't be asked about. */
  return device->attributes[attribute].is_error || device->attributes[attribute].value != 0;
}

SIM_ENTRY (cuDeviceGet, 0, (CUdevice *, device), (int, ordinal))
{
  if (device == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  if (sim_device (ordinal) == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuDeviceGetCount, 0, (int *, count))
{
  if (count == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  *count = (int) sim.n_devices;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuDeviceGetName, 0, (char *, name), (int, len), (CUdevice, dev))
{
  if (name == NULL || len <= 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (sim_device (dev) == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  g_strlcpy (name, "Simulated GPU", (gsize) len);
  return CUDA_SUCCESS;
}

static CUresult
get_uuid (CUuuid *uuid, CUdevice dev)
{
  static const char prefix[16] = { 'g', 'c', 'u', 'd', 'a', 's', 'i', 'm' };
  SimDevice *device = sim_device (dev);

  if (uuid == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  if (device == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  memcpy (uuid->bytes, prefix, sizeof prefix);
  uuid->bytes[15] = (char) device->index;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuDeviceGetUuid, 0, (CUuuid *, uuid), (CUdevice, dev))
{
  return get_uuid (uuid, dev);
}

SIM_ENTRY (cuDeviceGetUuid_v2, 0, (CUuuid *, uuid), (CUdevice, dev))
{
  return get_uuid (uuid, dev);
}

SIM_ENTRY (cuDeviceGetLuid, 0, (char *, luid), (unsigned int *, deviceNodeMask), (CUdevice, dev))
{
  if (luid == NULL || deviceNodeMask == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  return sim_device (dev) == NULL ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_NOT_SUPPORTED;
}

SIM_ENTRY (cuDeviceTotalMem_v2, 0, (size_t *, bytes), (CUdevice, dev))
{
  SimDevice *device = sim_device (dev);

  if (bytes == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  if (device == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  *bytes = device->total;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuDeviceGetAttribute, 0, (int *, pi), (CUdevice_attribute, attrib), (CUdevice, dev))
{
  SimDevice *device = sim_device (dev);
  int number = (int) attrib;

  if (pi == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  if (device == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  if (number < 1 || number > 147)
    return CUDA_ERROR_INVALID_VALUE;
  if (device->attributes[number].is_error)
    return (CUresult) device->attributes[number].value;
  *pi = device->attributes[number].value;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuDeviceComputeCapability, 0, (int *, major), (int *, minor), (CUdevice, dev))
{
  SimDevice *device = sim_device (dev);

  if (major == NULL || minor == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  if (device == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  *major = device->attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR].value;
  *minor = device->attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR].value;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuDeviceGetProperties, 0, (CUdevprop *, prop), (CUdevice, dev))
{
  SimDevice *device = sim_device (dev);

  if (prop == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  if (device == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  memset (prop, 0, sizeof *prop);
  prop->maxThreadsPerBlock = 1024;
  prop->maxThreadsDim[0] = prop->maxThreadsDim[1] = 1024;
  prop->maxThreadsDim[2] = 64;
  prop->maxGridSize[0] = G_MAXINT;
  prop->maxGridSize[1] = prop->maxGridSize[2] = 65535;
  prop->SIMDWidth = 32;
  prop->memPitch = G_MAXINT;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuDeviceGetPCIBusId, 0, (char *, pciBusId), (int, len), (CUdevice, dev))
{
  SimDevice *device = sim_device (dev);

  if (pciBusId == NULL || len <= 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (device == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  g_snprintf (pciBusId, (gulong) len, "0000:%02x:00.0", (guint) device->index + 1);
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuDeviceGetByPCIBusId, 0, (CUdevice *, dev), (const char *, pciBusId))
{
  unsigned int domain = 0, bus, slot, function = 0;

  if (dev == NULL || pciBusId == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  if (sscanf (pciBusId, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3)
    {
      domain = 0;
      if (sscanf (pciBusId, "%x:%x.%x", &bus, &slot, &function) < 2)
        return CUDA_ERROR_INVALID_VALUE;
    }
  for (guint i = 0; i < sim.n_devices; i++)
    {
      if (domain == 0 && slot == 0 && function == 0 && bus == (guint) sim.devices[i]->index + 1)
        {
          *dev = (CUdevice) i;
          return CUDA_SUCCESS;
        }
    }
  return CUDA_ERROR_INVALID_DEVICE;
}

SIM_ENTRY (cuDeviceGetTexture1DLinearMaxWidth, 0, (size_t *, maxWidthInElements), (CUarray_format, format), (unsigned, numChannels), (CUdevice, dev))
{
  (void) format;
  if (maxWidthInElements == NULL || numChannels == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (sim_device (dev) == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  *maxWidthInElements = 268435456;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuDeviceGetExecAffinitySupport, 0, (int *, pi), (CUexecAffinityType, type), (CUdevice, dev))
{
  (void) type;
  if (pi == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  if (sim_device (dev) == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  *pi = 0;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuDeviceCanAccessPeer, 0, (int *, canAccessPeer), (CUdevice, dev), (CUdevice, peerDev))
{
  if (canAccessPeer == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  if (sim_device (dev) == NULL || sim_device (peerDev) == NULL)
    return CUDA_ERROR_INVALID_DEVICE;
  *canAccessPeer = dev != peerDev && sim.peer_access;
  return CUDA_SUCCESS;
}

SIM_ENTRY (cuDeviceGetP2PAttribute, 0, (int *, value), (CUdevice_P2PAttribute, attrib), (CUdevice, srcDevice), (CUdevice, dstDevice))
{
  if (value == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  if (sim_device (srcDevice) == NULL || sim_device (dstDevice) == NULL || srcDevice == dstDevice)
    return CUDA_ERROR_INVALID_DEVICE;
  switch ((int) attrib)
    {
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
      *value = 0;
      return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
      *value = sim.peer_access;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
    }
}

SIM_ENTRY (cuFlushGPUDirectRDMAWrites, 0, (CUflushGPUDirectRDMAWritesTarget, target), (CUflushGPUDirectRDMAWritesScope, scope))
{
  SimContext *context;

  (void) scope;
  if (target != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX)
    return CUDA_ERROR_INVALID_VALUE;
  return sim_current (&context);
}
