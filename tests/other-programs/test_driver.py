# SPDX-License-Identifier: LGPL-2.1-or-later
"""Calls of cuda.bindings.driver: contexts, plain allocations, copies, facts; and what a simulated driver does not do."""

import threading
import unittest

from common import CODE, CUDA_13, MIB, Case, done, driver, is_simulated, numpy, tap
from cuda.core import Device


class Driver(Case):
    def test_version(self):
        self.assertGreaterEqual(done(driver.cuDriverGetVersion()), 12000)
        self.assertGreaterEqual(done(driver.cuDeviceGetCount()), 1)

    def test_devices(self):
        device = Device(0)
        self.assertTrue(device.name)
        self.assertEqual(len(device.uuid), 36)
        place = done(driver.cuDeviceGetPCIBusId(20, 0))
        self.assertEqual(int(done(driver.cuDeviceGetByPCIBusId(place))), 0)
        self.assertGreaterEqual(device.compute_capability.major, 5)
        self.answers(CODE.CUDA_ERROR_INVALID_DEVICE, driver.cuDeviceGet(99))

    def test_memory_info(self):
        free, total = done(driver.cuMemGetInfo())
        address = done(driver.cuMemAlloc(64 * MIB))
        less, same = done(driver.cuMemGetInfo())
        done(driver.cuMemFree(address))
        self.assertEqual(total, same)
        if is_simulated():
            # Others may allocate on a real device
            self.assertEqual(free - less, 64 * MIB)

    def test_plain_allocation(self):
        source = numpy.arange(MIB, dtype='uint8')
        target = numpy.zeros(MIB, dtype='uint8')
        first, second = (done(driver.cuMemAlloc(MIB)) for _ in range(2))
        done(driver.cuMemcpyHtoD(first, source.ctypes.data, MIB))
        done(driver.cuMemcpyDtoD(second, first, MIB))
        done(driver.cuMemcpyDtoH(target.ctypes.data, second, MIB))
        self.assertTrue((source == target).all())
        done(driver.cuMemsetD16(second, 0x1234, MIB // 2))
        done(driver.cuMemcpyDtoH(target.ctypes.data, second, MIB))
        self.assertTrue((target.view('uint16') == 0x1234).all())
        base, size = done(driver.cuMemGetAddressRange(int(second) + 100))
        self.assertEqual((int(base), size), (int(second), MIB))
        done(driver.cuMemFree(first))
        done(driver.cuMemFree(second))

    def test_pitched(self):
        address, pitch = done(driver.cuMemAllocPitch(100, 8, 4))
        self.assertGreaterEqual(pitch, 100)
        done(driver.cuMemsetD2D8(address, pitch, 7, 100, 8))
        target = numpy.zeros((8, 100), dtype='uint8')
        copy = driver.CUDA_MEMCPY2D()
        copy.srcMemoryType = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
        copy.srcDevice = address
        copy.srcPitch = pitch
        copy.dstMemoryType = driver.CUmemorytype.CU_MEMORYTYPE_HOST
        copy.dstHost = target.ctypes.data
        copy.dstPitch = 100
        copy.WidthInBytes = 100
        copy.Height = 8
        done(driver.cuMemcpy2D(copy))
        self.assertTrue((target == 7).all())
        done(driver.cuMemFree(address))

    def test_wrong_uses(self):
        invalid = CODE.CUDA_ERROR_INVALID_VALUE
        self.answers(invalid, driver.cuMemAlloc(0))
        self.answers(CODE.CUDA_ERROR_OUT_OF_MEMORY, driver.cuMemAlloc(1 << 60))
        self.answers(CODE.CUDA_SUCCESS, driver.cuMemFree(0))
        self.answers(invalid, driver.cuMemFree(0x1234))
        address = int(done(driver.cuMemAlloc(4096)))
        self.answers(invalid, driver.cuMemFree(address + 8))
        self.answers(invalid, driver.cuMemsetD8(address, 1, 4097))
        self.answers(invalid, driver.cuMemsetD32(address + 1, 1, 4))
        self.answers(CODE.CUDA_SUCCESS, driver.cuMemsetD8(address, 1, 0))
        done(driver.cuMemFree(address))
        self.answers(invalid, driver.cuMemFree(address))
        pool = done(driver.cuDeviceGetDefaultMemPool(0))
        self.answers(invalid, driver.cuMemPoolDestroy(pool))

    def test_freed_the_other_way(self):
        stream = self.stream.handle
        address = done(driver.cuMemAlloc(4096))
        done(driver.cuMemFreeAsync(address, stream))
        address = done(driver.cuMemAllocAsync(4096, stream))
        done(driver.cuMemFree(address))
        self.stream.sync()

    def test_pool_outlived_by_its_memory(self):
        properties = driver.CUmemPoolProps()
        properties.allocType = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        properties.location.id = 0
        pool = done(driver.cuMemPoolCreate(properties))
        address = done(driver.cuMemAllocFromPoolAsync(4096, pool, self.stream.handle))
        done(driver.cuMemPoolDestroy(pool))
        done(driver.cuMemsetD8Async(address, 1, 4096, self.stream.handle))
        done(driver.cuMemFreeAsync(address, self.stream.handle))
        self.stream.sync()

    def test_contexts(self):
        primary = done(driver.cuCtxGetCurrent())
        other = done(driver.cuCtxCreate(None, 0, 0) if CUDA_13 else driver.cuCtxCreate(0, 0))
        self.assertEqual(int(done(driver.cuCtxGetCurrent())), int(other))
        address = done(driver.cuMemAlloc(4096))
        self.assertEqual(int(done(driver.cuCtxPopCurrent())), int(other))
        self.assertEqual(int(done(driver.cuCtxGetCurrent())), int(primary))
        done(driver.cuMemsetD8(address, 1, 4096))
        done(driver.cuCtxDestroy(other))
        self.answers(CODE.CUDA_ERROR_INVALID_VALUE, driver.cuMemFree(address))

    def test_thread_without_a_context(self):
        pool = int(done(driver.cuMemAllocAsync(4096, self.stream.handle)))
        plain = int(done(driver.cuMemAlloc(4096)))
        self.stream.sync()
        results = []

        def work():
            results.append(int(done(driver.cuCtxGetCurrent())))
            for call in (lambda: driver.cuMemAlloc(16), lambda: driver.cuMemFreeAsync(pool, 0),
                         lambda: driver.cuMemFree(plain), lambda: driver.cuMemFreeAsync(pool, self.stream.handle)):
                results.append(call()[0])

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        self.assertEqual(results, [0, CODE.CUDA_ERROR_INVALID_CONTEXT, CODE.CUDA_ERROR_INVALID_CONTEXT,
                                   CODE.CUDA_SUCCESS, CODE.CUDA_SUCCESS])
        self.stream.sync()

    def test_names_of_results(self):
        self.assertEqual(done(driver.cuGetErrorName(CODE.CUDA_ERROR_INVALID_VALUE)), b'CUDA_ERROR_INVALID_VALUE')
        self.assertTrue(done(driver.cuGetErrorString(CODE.CUDA_ERROR_OUT_OF_MEMORY)))

    def test_kernels_are_refused(self):
        if not is_simulated():
            self.skipTest('a real driver runs kernels')
        image = b'.version 8.0\n.target sm_90\n.address_size 64\n\0'
        self.answers(CODE.CUDA_ERROR_NOT_SUPPORTED, driver.cuModuleLoadData(image))
        self.answers(CODE.CUDA_ERROR_NOT_SUPPORTED, driver.cuLibraryLoadData(image, [], [], 0, [], [], 0))
        # And nothing is lost by it
        done(driver.cuMemFree(done(driver.cuMemAlloc(16))))


if __name__ == '__main__':
    tap.main()
