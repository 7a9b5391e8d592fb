# SPDX-License-Identifier: LGPL-2.1-or-later
"""Virtual memory: cuda.core's VirtualMemoryResource, and the calls under it."""

import os
import unittest

from common import CODE, MIB, Case, done, driver, tap
from cuda.core import Buffer, VirtualMemoryResource, VirtualMemoryResourceOptions

CHUNK = 2 * MIB
FD = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
READ_WRITE = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
NONE = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_NONE


def properties(handle_type=None):
    result = driver.CUmemAllocationProp()
    result.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    result.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    result.location.id = 0
    if handle_type is not None:
        result.requestedHandleTypes = handle_type
    return result


def access(flags, device=0):
    result = driver.CUmemAccessDesc()
    result.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    result.location.id = device
    result.flags = flags
    return result


class Range:
    """A reservation with chunks mapped from its start on."""

    def __init__(self, chunks):
        self.size = chunks * CHUNK
        self.address = int(done(driver.cuMemAddressReserve(self.size, 0, 0, 0)))
        self.mapped = 0

    def add(self, handle):
        at = self.address + self.mapped
        done(driver.cuMemMap(at, CHUNK, 0, handle, 0))
        done(driver.cuMemSetAccess(at, CHUNK, [access(READ_WRITE)], 1))
        self.mapped += CHUNK
        return at

    def grow(self):
        handle = done(driver.cuMemCreate(CHUNK, properties(), 0))
        at = self.add(handle)
        done(driver.cuMemRelease(handle))
        return at

    def close(self):
        if self.mapped:
            done(driver.cuMemUnmap(self.address, self.mapped))
        done(driver.cuMemAddressFree(self.address, self.size))


class VirtualMemory(Case):
    def range(self, chunks):
        result = Range(chunks)
        self.addCleanup(result.close)
        # Nothing is unmapped before the stream has passed it
        self.addCleanup(self.stream.sync)
        return result

    def buffer(self, address, size):
        return Buffer.from_handle(address, size, owner=self)

    def test_resource(self):
        resource = VirtualMemoryResource(self.device, VirtualMemoryResourceOptions(handle_type=None))
        buffer = resource.allocate(CHUNK + 1, stream=self.stream)
        self.assertEqual(buffer.size, 2 * CHUNK)
        buffer.fill(1, stream=self.stream)
        self.assert_bytes(buffer, 1)
        address = int(buffer.handle)
        buffer.close()
        self.answers(CODE.CUDA_ERROR_INVALID_VALUE, driver.cuMemsetD8(address, 1, 16))

    def test_resource_grows_and_keeps_its_bytes(self):
        resource = VirtualMemoryResource(self.device)
        buffer = resource.allocate(CHUNK, stream=self.stream)
        # What lies behind it is taken, so that it has to move
        behind = done(driver.cuMemAddressReserve(CHUNK, 0, int(buffer.handle) + CHUNK, 0))
        old = int(buffer.handle)
        buffer.fill(2, stream=self.stream)
        self.stream.sync()
        grown = resource.modify_allocation(buffer, 3 * CHUNK)
        done(driver.cuMemAddressFree(behind, CHUNK))
        self.assertNotEqual(int(grown.handle), old)
        self.assertEqual(grown.size, 3 * CHUNK)
        self.assertTrue((self.read(grown)[:CHUNK] == 2).all())
        grown.fill(3, stream=self.stream)
        self.assert_bytes(grown, 3)
        grown.close()
        self.answers(CODE.CUDA_ERROR_INVALID_VALUE, driver.cuMemsetD8(old, 1, 16))

    def test_grows_in_place(self):
        memory = self.range(3)
        for value in range(1, 4):
            memory.grow()
            buffer = self.buffer(memory.address, memory.mapped)
            self.buffer(memory.address + memory.mapped - CHUNK, CHUNK).fill(value, stream=self.stream)
            found = self.read(buffer)
            for chunk in range(value):
                self.assertTrue((found[chunk * CHUNK:(chunk + 1) * CHUNK] == chunk + 1).all())

    def test_one_chunk_at_two_addresses(self):
        handle = done(driver.cuMemCreate(CHUNK, properties(), 0))
        first, second = self.range(1), self.range(1)
        first.add(handle)
        second.add(handle)
        done(driver.cuMemRelease(handle))
        self.buffer(first.address, CHUNK).fill(5, stream=self.stream)
        self.assert_bytes(self.buffer(second.address, CHUNK), 5)

    def test_through_a_file_descriptor(self):
        handle = done(driver.cuMemCreate(CHUNK, properties(FD), 0))
        fd = int(done(driver.cuMemExportToShareableHandle(handle, FD, 0)))
        other = done(driver.cuMemImportFromShareableHandle(fd, FD))
        os.close(fd)
        first, second = self.range(1), self.range(1)
        first.add(handle)
        second.add(other)
        done(driver.cuMemRelease(handle))
        done(driver.cuMemRelease(other))
        self.buffer(first.address, CHUNK).fill(6, stream=self.stream)
        self.assert_bytes(self.buffer(second.address, CHUNK), 6)

    def test_access(self):
        memory = self.range(1)
        handle = done(driver.cuMemCreate(CHUNK, properties(), 0))
        done(driver.cuMemMap(memory.address, CHUNK, 0, handle, 0))
        memory.mapped = CHUNK
        done(driver.cuMemRelease(handle))
        self.answers(CODE.CUDA_ERROR_INVALID_VALUE, driver.cuMemsetD8Async(memory.address, 1, 16, self.stream.handle))
        done(driver.cuMemSetAccess(memory.address, CHUNK, [access(READ_WRITE)], 1))
        self.buffer(memory.address, CHUNK).fill(7, stream=self.stream)
        self.assert_bytes(self.buffer(memory.address, CHUNK), 7)
        done(driver.cuMemSetAccess(memory.address, CHUNK, [access(NONE)], 1))
        self.answers(CODE.CUDA_ERROR_INVALID_VALUE, driver.cuMemsetD8Async(memory.address, 1, 16, self.stream.handle))

    def test_access_of_a_peer(self):
        peer = self.second_device()
        peer.set_current()
        theirs = peer.create_stream()
        self.device.set_current()
        memory = self.range(1)
        memory.grow()
        buffer = self.buffer(memory.address, CHUNK)
        buffer.fill(8, stream=self.stream)
        self.stream.sync()
        with self.fails('INVALID_VALUE'):
            buffer.fill(9, stream=theirs)
        done(driver.cuMemSetAccess(memory.address, CHUNK, [access(READ_WRITE, 1)], 1))
        buffer.fill(9, stream=theirs)
        theirs.sync()
        self.assert_bytes(buffer, 9)

    def test_wrong_uses(self):
        invalid = CODE.CUDA_ERROR_INVALID_VALUE
        memory = self.range(2)
        memory.grow()
        self.answers(invalid, driver.cuMemAddressReserve(0, 0, 0, 0))
        self.answers(invalid, driver.cuMemAddressReserve(CHUNK + 1, 0, 0, 0))
        self.answers(invalid, driver.cuMemCreate(4096, properties(), 0))
        self.answers(CODE.CUDA_ERROR_OUT_OF_MEMORY, driver.cuMemCreate(1 << 42, properties(), 0))
        handle = done(driver.cuMemCreate(CHUNK, properties(), 0))
        self.answers(invalid, driver.cuMemMap(memory.address, CHUNK, 0, handle, 0))
        self.answers(CODE.CUDA_ERROR_NOT_SUPPORTED, driver.cuMemMap(memory.address + CHUNK, 2 * CHUNK, 0, handle, 0))
        done(driver.cuMemRelease(handle))
        self.answers(invalid, driver.cuMemRelease(handle))
        self.answers(invalid, driver.cuMemSetAccess(memory.address, 2 * CHUNK, [access(READ_WRITE)], 1))
        self.answers(invalid, driver.cuMemAddressFree(memory.address, memory.size))
        self.answers(invalid, driver.cuMemUnmap(memory.address, MIB))
        self.answers(invalid, driver.cuMemFree(memory.address))
        self.answers(invalid, driver.cuMemFreeAsync(memory.address, self.stream.handle))
        with open('/dev/null', 'rb') as nothing:
            self.answers(CODE.CUDA_ERROR_UNKNOWN, driver.cuMemImportFromShareableHandle(nothing.fileno(), FD))
        done(driver.cuMemUnmap(memory.address + CHUNK, CHUNK))


if __name__ == '__main__':
    tap.main()
