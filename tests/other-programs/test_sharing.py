# SPDX-License-Identifier: LGPL-2.1-or-later
"""Between processes: pools, buffers and events of cuda.core, and the calls under them.

What one process hands to another is synchronized first, or comes with an event that the other one waits for: an import
orders nothing."""

import ctypes
import multiprocessing
import os
import unittest

from common import CODE, MIB, Case, done, driver, numpy, tap
from cuda.core import (Buffer, DeviceMemoryResource, DeviceMemoryResourceOptions, Event,
                       EventOptions, PinnedMemoryResource, PinnedMemoryResourceOptions)

SIZE = 64 * 1024
TIMEOUT = 60


def child(name, *arguments):
    """The other process. A failure in it ends it with status 1."""
    case = Case()
    case.setUp()
    globals()[name](case, *arguments)


def runs(name, *arguments):
    """Starts the other process; returns what waits for it to end well."""
    process = multiprocessing.Process(target=child, args=(name, *arguments))
    process.start()

    def ended():
        process.join(TIMEOUT)
        if process.is_alive():
            process.kill()
            process.join()
        return process.exitcode

    return ended


def takes_a_buffer(case, buffer, found, left):
    case.assertTrue(buffer.is_mapped and buffer.memory_resource.is_mapped)
    case.assert_bytes(buffer, found)
    case.write(buffer, numpy.full(buffer.size, left, 'uint8'))
    buffer.close(case.stream)
    case.stream.sync()


def takes_descriptors(case, handle, descriptors):
    pool = DeviceMemoryResource.from_allocation_handle(0, handle)
    for value, descriptor in enumerate(descriptors):
        buffer = Buffer.from_ipc_descriptor(pool, descriptor, stream=case.stream)
        case.assert_bytes(buffer, value)
        buffer.close(case.stream)
    # An imported pool gives nothing
    with case.assertRaises(Exception):
        pool.allocate(16, stream=case.stream)
    case.answers(CODE.CUDA_ERROR_INVALID_VALUE, driver.cuMemAllocFromPoolAsync(16, pool.handle, case.stream.handle))
    case.stream.sync()


def waits_for_an_event(case, buffer, event, back):
    case.assertTrue(event.is_ipc_enabled)
    case.stream.wait(event)
    case.assert_bytes(buffer, 1)
    buffer.fill(2, stream=case.stream)
    done_event = case.stream.record(options=EventOptions(ipc_enabled=True))
    back.put(done_event.ipc_descriptor)
    # The event lives until the other process has waited for it
    case.stream.sync()
    back.join()
    buffer.close(case.stream)
    case.stream.sync()


def opens_a_handle(case, handle):
    imported = driver.CUipcMemHandle()
    ctypes.memmove(imported.getPtr(), handle, len(handle))
    address = done(driver.cuIpcOpenMemHandle(imported, driver.CUipcMem_flags.CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS))
    buffer = Buffer.from_handle(int(address), SIZE, owner=case)
    case.assert_bytes(buffer, 7)
    buffer.fill(8, stream=case.stream)
    case.stream.sync()
    buffer.close()
    case.answers(CODE.CUDA_ERROR_INVALID_VALUE, driver.cuMemFree(address))
    done(driver.cuIpcCloseMemHandle(address))
    case.answers(CODE.CUDA_ERROR_INVALID_VALUE, driver.cuIpcCloseMemHandle(address))


class Sharing(Case):
    def setUp(self):
        super().setUp()
        if not self.device.properties.handle_type_posix_file_descriptor_supported:
            self.skipTest('the device cannot be shared')

    def pool(self):
        return DeviceMemoryResource(self.device, DeviceMemoryResourceOptions(ipc_enabled=True, max_size=8 * MIB))

    def filled(self, pool, value):
        buffer = pool.allocate(SIZE, stream=self.stream)
        self.write(buffer, numpy.full(SIZE, value, 'uint8'))
        return buffer

    def test_buffer(self):
        buffer = self.filled(self.pool(), 1)
        self.assertEqual(runs('takes_a_buffer', buffer, 1, 2)(), 0)
        self.assert_bytes(buffer, 2)
        buffer.close()

    def test_buffer_of_pinned_memory(self):
        if not self.device.properties.host_memory_pools_supported:
            self.skipTest('the driver has no pools of host memory')
        pool = PinnedMemoryResource(PinnedMemoryResourceOptions(ipc_enabled=True, max_size=8 * MIB))
        buffer = self.filled(pool, 3)
        self.assertEqual(runs('takes_a_buffer', buffer, 3, 4)(), 0)
        self.assert_bytes(buffer, 4)
        buffer.close()

    def test_one_after_the_other(self):
        buffer = self.filled(self.pool(), 0)
        for value in range(3):
            self.assertEqual(runs('takes_a_buffer', buffer, value, value + 1)(), 0)
        self.assert_bytes(buffer, 3)
        buffer.close()

    def test_descriptors(self):
        pool = self.pool()
        buffers = [self.filled(pool, value) for value in range(4)]
        ended = runs('takes_descriptors', pool.allocation_handle, [buffer.ipc_descriptor for buffer in buffers])
        self.assertEqual(ended(), 0)
        for value, buffer in enumerate(buffers):
            self.assert_bytes(buffer, value)
            buffer.close()

    def test_events(self):
        back = multiprocessing.JoinableQueue()
        buffer = self.pool().allocate(SIZE, stream=self.stream)
        self.stream.sync()
        buffer.fill(1, stream=self.stream)
        # Nothing waits here: the other process does, on its own stream
        event = self.stream.record(options=EventOptions(ipc_enabled=True))
        ended = runs('waits_for_an_event', buffer, event, back)
        theirs = Event.from_ipc_descriptor(back.get(timeout=TIMEOUT))
        self.stream.wait(theirs)
        self.assert_bytes(buffer, 2)
        theirs.close()
        back.task_done()
        self.assertEqual(ended(), 0)
        buffer.close()

    def test_legacy_handle(self):
        address = done(driver.cuMemAlloc(SIZE))
        memory = Buffer.from_handle(int(address), SIZE, owner=self)
        memory.fill(7, stream=self.stream)
        self.stream.sync()
        handle = done(driver.cuIpcGetMemHandle(address))
        self.assertEqual(runs('opens_a_handle', ctypes.string_at(handle.getPtr(), 64))(), 0)
        self.assert_bytes(memory, 8)
        done(driver.cuMemFree(address))

    def test_private_pool(self):
        pool = DeviceMemoryResource(self.device, DeviceMemoryResourceOptions(max_size=8 * MIB))
        buffer = self.filled(pool, 1)
        self.assertFalse(pool.is_ipc_enabled)
        with self.assertRaises(RuntimeError):
            buffer.ipc_descriptor  # pylint: disable=pointless-statement
        self.answers(CODE.CUDA_ERROR_INVALID_VALUE, driver.cuMemPoolExportPointer(buffer.handle))
        self.answers(CODE.CUDA_ERROR_INVALID_VALUE, driver.cuIpcGetMemHandle(buffer.handle))
        buffer.close()

    def test_wrong_uses(self):
        pool = self.pool()
        buffer = self.filled(pool, 1)
        self.answers(CODE.CUDA_ERROR_INVALID_VALUE, driver.cuMemPoolExportPointer(int(buffer.handle) + 8))
        fd = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
        nothing = os.open('/dev/null', os.O_RDONLY)
        error, _ = driver.cuMemPoolImportFromShareableHandle(nothing, fd, 0)
        self.assertNotEqual(error, CODE.CUDA_SUCCESS)
        os.close(nothing)
        with self.assertRaises(TypeError):
            self.device.create_event(EventOptions(ipc_enabled=True))
        self.assert_bytes(buffer, 1)
        buffer.close()


if __name__ == '__main__':
    multiprocessing.set_start_method('spawn')
    tap.main()
