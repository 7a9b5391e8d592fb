# SPDX-License-Identifier: LGPL-2.1-or-later
"""Memory that the host reaches as well: pinned, registered, managed."""

import unittest

from common import CODE, CUDA_13, MIB, Case, array, done, driver, numpy, tap
from cuda.core import (DeviceMemoryResource, Host, ManagedBuffer, ManagedMemoryResource, ManagedMemoryResourceOptions,
                       PinnedMemoryResource, PinnedMemoryResourceOptions)
from cuda.core.utils import discard_prefetch_batch, prefetch_batch


class HostMemory(Case):
    def setUp(self):
        super().setUp()
        self.pool = DeviceMemoryResource(self.device)

    def through_the_device(self, buffer):
        """What the host wrote arrives on the device, and what the device wrote on the host."""
        values = numpy.arange(buffer.size // 4, dtype='uint32')
        array(buffer, 'uint32')[:] = values
        with self.pool.allocate(buffer.size, stream=self.stream) as memory:
            memory.copy_from(buffer, stream=self.stream)
            self.stream.sync()
            array(buffer)[:] = 7
            buffer.copy_from(memory, stream=self.stream)
            self.stream.sync()
        self.assertTrue((array(buffer, 'uint32') == values).all())

    def test_pinned(self):
        buffer = self.pinned.allocate(MIB, stream=self.stream)
        self.assertTrue(buffer.is_host_accessible and buffer.is_device_accessible)
        self.through_the_device(buffer)
        buffer.fill(7, stream=self.stream)
        self.stream.sync()
        self.assertTrue((array(buffer) == 7).all())
        buffer.close(self.stream)

    def test_pinned_pool(self):
        if not self.device.properties.host_memory_pools_supported:
            self.skipTest('the driver has no pools of host memory')
        resource = PinnedMemoryResource(PinnedMemoryResourceOptions(max_size=8 * MIB))
        buffer = resource.allocate(MIB, stream=self.stream)
        self.stream.sync()
        self.through_the_device(buffer)
        # The device copies it, but may not write it as long as nobody grants it that
        with self.fails('INVALID_VALUE'):
            buffer.fill(7, stream=self.stream)
        buffer.close()
        self.stream.sync()
        self.assertEqual(resource.attributes.used_mem_current, 0)

    def test_array_of_others(self):
        buffer = self.pinned.allocate(4096, stream=self.stream)
        buffer.fill(5, stream=self.stream)
        self.stream.sync()
        values = numpy.from_dlpack(buffer)
        self.assertEqual((values.shape, values.ctypes.data), ((4096,), int(buffer.handle)))
        self.assertTrue((values == 5).all())
        del values
        buffer.close(self.stream)

    def test_registered(self):
        memory = numpy.zeros(MIB + 4096, dtype='uint8')
        start = -memory.ctypes.data % 4096
        page = memory[start:start + MIB]
        done(driver.cuMemHostRegister(page.ctypes.data, MIB, 0))
        with self.pool.allocate(MIB, stream=self.stream) as buffer:
            buffer.fill(3, stream=self.stream)
            done(driver.cuMemcpyDtoHAsync(page.ctypes.data, buffer.handle, MIB, self.stream.handle))
            self.stream.sync()
            self.assertTrue((page == 3).all())
        self.answers(CODE.CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, driver.cuMemHostRegister(page.ctypes.data, MIB, 0))
        done(driver.cuMemHostUnregister(page.ctypes.data))
        self.answers(CODE.CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, driver.cuMemHostUnregister(page.ctypes.data))

    def test_ordinary(self):
        source = numpy.arange(4096, dtype='uint8')
        target = numpy.zeros(4096, dtype='uint8')
        with self.pool.allocate(4096, stream=self.stream) as buffer:
            done(driver.cuMemcpyHtoDAsync(buffer.handle, source.ctypes.data, 4096, self.stream.handle))
            done(driver.cuMemcpyDtoHAsync(target.ctypes.data, buffer.handle, 4096, self.stream.handle))
            self.stream.sync()
        self.assertTrue((source == target).all())

    def managed(self, size):
        if not self.device.properties.concurrent_managed_access:
            self.skipTest('the host may not use managed memory beside the device')
        address = int(done(driver.cuMemAllocManaged(size, driver.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL)))
        self.addCleanup(lambda: (self.stream.sync(), done(driver.cuMemFree(address))))
        return ManagedBuffer.from_handle(address, size, owner=self)

    def test_managed(self):
        buffer = self.managed(MIB)
        self.assertTrue(buffer.is_managed)
        self.through_the_device(buffer)

    def test_managed_pool(self):
        if not self.device.properties.concurrent_managed_access:
            self.skipTest('the host may not use managed memory beside the device')
        try:
            resource = ManagedMemoryResource(ManagedMemoryResourceOptions(preferred_location=0))
        except RuntimeError as error:
            self.skipTest(str(error))
        buffer = resource.allocate(MIB, stream=self.stream)
        self.stream.sync()
        self.through_the_device(buffer)
        buffer.close()
        self.stream.sync()

    def test_prefetch(self):
        buffer = self.managed(MIB)
        array(buffer)[:] = 1
        buffer.prefetch(self.device, stream=self.stream)
        with self.pool.allocate(MIB, stream=self.stream) as memory:
            memory.copy_from(buffer, stream=self.stream)
            buffer.prefetch(Host(), stream=self.stream)
            self.assert_bytes(memory, 1)
        self.assertTrue((array(buffer) == 1).all())

    def test_batches(self):
        if not CUDA_13:
            self.skipTest('batches of ranges came with CUDA 13')
        buffers = [self.managed(MIB) for _ in range(3)]
        for value, buffer in enumerate(buffers):
            array(buffer)[:] = value
        prefetch_batch(self.stream, buffers, self.device)
        prefetch_batch(self.stream, buffers, [Host(), self.device, Host()])
        self.stream.sync()
        for value, buffer in enumerate(buffers):
            self.assertTrue((array(buffer) == value).all())
        discard_prefetch_batch(self.stream, buffers, self.device)
        # What was discarded is written before it is read
        for value, buffer in enumerate(buffers):
            buffer.fill(value + 10, stream=self.stream)
        self.stream.sync()
        for value, buffer in enumerate(buffers):
            self.assertTrue((array(buffer) == value + 10).all())

    def test_advice(self):
        buffer = self.managed(MIB)
        self.assertFalse(buffer.read_mostly)
        buffer.read_mostly = True
        self.assertTrue(buffer.read_mostly)
        self.assertIsNone(buffer.preferred_location)
        for location in (self.device, Host()):
            buffer.preferred_location = location
            self.assertEqual(buffer.preferred_location, location)
        buffer.preferred_location = None
        self.assertIsNone(buffer.preferred_location)
        buffer.accessed_by = {self.device}
        self.assertEqual(set(buffer.accessed_by), {self.device})
        buffer.accessed_by.add(Host())
        self.assertEqual(set(buffer.accessed_by), {self.device, Host()})
        buffer.accessed_by = set()
        self.assertEqual(set(buffer.accessed_by), set())

    def test_advice_for_other_memory(self):
        address = done(driver.cuMemAlloc(4096))
        advice = driver.CUmem_advise.CU_MEM_ADVISE_SET_READ_MOSTLY
        location = driver.CUmemLocation() if CUDA_13 else self.device.device_id
        if CUDA_13:
            location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        self.answers(CODE.CUDA_ERROR_INVALID_VALUE, driver.cuMemAdvise(address, 4096, advice, location))
        done(driver.cuMemFree(address))


if __name__ == '__main__':
    tap.main()
