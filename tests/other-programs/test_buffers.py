# SPDX-License-Identifier: LGPL-2.1-or-later
"""Device memory of pools: cuda.core's DeviceMemoryResource and Buffer."""

import unittest

from common import CODE, MIB, Case, array, done, driver, numpy, tap
from cuda.core import LEGACY_DEFAULT_STREAM, Buffer, DeviceMemoryResource, DeviceMemoryResourceOptions
from cuda.core.utils import StridedMemoryView, copy_batch


class Buffers(Case):
    def setUp(self):
        super().setUp()
        self.pool = DeviceMemoryResource(self.device, DeviceMemoryResourceOptions(max_size=64 * MIB))

    def tearDown(self):
        if hasattr(self, 'pool'):
            self.stream.sync()
            self.assertEqual(self.pool.attributes.used_mem_current, 0)

    def test_fill(self):
        with self.pool.allocate(4096, stream=self.stream) as buffer:
            buffer.fill(0x5a, stream=self.stream)
            self.assert_bytes(buffer, 0x5a)
            for pattern in (b'\x12', b'\x34\x12', b'\x78\x56\x34\x12'):
                buffer.fill(pattern, stream=self.stream)
                self.assertEqual(self.read(buffer).tobytes(), pattern * (4096 // len(pattern)))

    def test_round_trip(self):
        values = numpy.arange(MIB // 4, dtype='uint32')
        with self.pool.allocate(MIB, stream=self.stream) as a, self.pool.allocate(MIB, stream=self.stream) as b:
            self.write(a, values)
            b.copy_from(a, stream=self.stream)
            a.fill(0, stream=self.stream)
            self.assertTrue((self.read(b, dtype='uint32') == values).all())
            self.assert_bytes(a, 0)

    def test_batch(self):
        sources = [self.pool.allocate(512, stream=self.stream) for _ in range(4)]
        targets = [self.pool.allocate(512, stream=self.stream) for _ in range(4)]
        for value, source in enumerate(sources):
            source.fill(value, stream=self.stream)
        copy_batch(self.stream, sources, targets)
        for value, target in enumerate(targets):
            self.assert_bytes(target, value)
        with self.assertRaises(TypeError):
            copy_batch(LEGACY_DEFAULT_STREAM, sources, targets)
        for buffer in sources + targets:
            buffer.close()

    def test_what_a_copy_allocates_is_of_the_same_pool(self):
        with self.pool.allocate(512, stream=self.stream) as buffer:
            buffer.fill(9, stream=self.stream)
            copy = buffer.copy_to(stream=self.stream)
            self.assertIs(copy.memory_resource, self.pool)
            self.assert_bytes(copy, 9)
            copy.close()

    def test_freed_memory_is_given_again_in_stream_order(self):
        first = self.pool.allocate(MIB, stream=self.stream)
        first.fill(1, stream=self.stream)
        address = int(first.handle)
        first.close()
        second = self.pool.allocate(MIB, stream=self.stream)
        self.assertEqual(int(second.handle), address)
        second.fill(2, stream=self.stream)
        self.assert_bytes(second, 2)
        second.close()

    def test_handed_to_another_stream(self):
        other = self.device.create_stream()
        buffer = self.pool.allocate(MIB, stream=self.stream)
        buffer.fill(3, stream=self.stream)
        other.wait(self.stream.record())
        self.assert_bytes(buffer, 3, other)
        buffer.fill(4, stream=other)
        buffer.set_deallocation_stream(other)
        self.assert_bytes(buffer, 4, other)
        buffer.fill(5, stream=other)
        buffer.close()
        other.sync()

    def test_freed_on_a_named_stream(self):
        other = self.device.create_stream()
        buffer = self.pool.allocate(MIB, stream=self.stream)
        other.wait(self.stream)
        buffer.fill(6, stream=other)
        buffer.close(other)
        self.assertTrue(buffer.is_closed)
        other.sync()

    def test_statistics(self):
        attributes = self.pool.attributes
        with self.pool.allocate(3 * MIB, stream=self.stream):
            self.assertEqual(attributes.used_mem_current, 3 * MIB)
            self.assertGreaterEqual(attributes.reserved_mem_current, 3 * MIB)
        self.stream.sync()
        self.assertEqual(attributes.used_mem_current, 0)
        self.assertEqual(attributes.used_mem_high, 3 * MIB)

    def test_nothing(self):
        with self.pool.allocate(0, stream=self.stream) as buffer:
            self.assertEqual((int(buffer.handle), buffer.size), (0, 0))

    def test_memory_of_others(self):
        address = done(driver.cuMemAlloc(1024))
        view = Buffer.from_handle(int(address), 1024, owner=self)
        view.fill(8, stream=self.stream)
        self.assert_bytes(view, 8)
        view.close()
        done(driver.cuMemFree(address))

    def test_view(self):
        with self.pool.allocate(4096, stream=self.stream) as buffer:
            view = StridedMemoryView.from_buffer(buffer, (32, 32), itemsize=4)
            self.assertEqual((view.ptr, view.device_id, view.shape), (int(buffer.handle), 0, (32, 32)))
            again = StridedMemoryView.from_dlpack(buffer, stream_ptr=-1)
            self.assertEqual((again.ptr, again.shape, again.is_device_accessible), (int(buffer.handle), (4096,), True))

    def test_facts(self):
        with self.pool.allocate(100, stream=self.stream) as buffer:
            self.assertEqual(buffer.device_id, 0)
            self.assertTrue(buffer.is_device_accessible)
            self.assertFalse(buffer.is_host_accessible)
            size = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_RANGE_SIZE
            self.assertEqual(done(driver.cuPointerGetAttribute(size, buffer.handle)), 100)

    def test_too_much(self):
        with self.fails('OUT_OF_MEMORY'):
            self.pool.allocate(1 << 50, stream=self.stream)
        with self.pool.allocate(512, stream=self.stream) as buffer:
            buffer.fill(1, stream=self.stream)
            self.assert_bytes(buffer, 1)

    def test_wrong_frees(self):
        buffer = self.pool.allocate(4096, stream=self.stream)
        address, stream = int(buffer.handle), self.stream.handle
        self.answers(CODE.CUDA_ERROR_INVALID_VALUE, driver.cuMemFreeAsync(address + 8, stream))
        buffer.close()
        self.answers(CODE.CUDA_ERROR_INVALID_VALUE, driver.cuMemFreeAsync(address, stream))
        self.answers(CODE.CUDA_ERROR_INVALID_VALUE, driver.cuMemFree(address))

    def test_past_the_end(self):
        with self.pool.allocate(4096, stream=self.stream) as buffer:
            buffer.fill(1, stream=self.stream)
            result = driver.cuMemsetD8Async(buffer.handle, 2, 4097, self.stream.handle)
            self.answers(CODE.CUDA_ERROR_INVALID_VALUE, result)
            result = driver.cuMemsetD32Async(int(buffer.handle) + 1, 2, 1, self.stream.handle)
            self.answers(CODE.CUDA_ERROR_INVALID_VALUE, result)
            self.assert_bytes(buffer, 1)

    def test_peer_access(self):
        peer = self.second_device()
        peer.set_current()
        theirs = peer.create_stream()
        self.device.set_current()
        staging = self.pinned.allocate(4096, stream=self.stream)
        buffer = self.pool.allocate(4096, stream=self.stream)
        buffer.fill(1, stream=self.stream)
        self.stream.sync()
        with self.fails('INVALID_VALUE'):
            buffer.fill(2, stream=theirs)
        self.pool.peer_accessible_by = [peer]
        self.assertEqual(set(self.pool.peer_accessible_by), {peer})
        buffer.copy_to(staging, stream=theirs)
        buffer.fill(2, stream=theirs)
        theirs.sync()
        self.assertTrue((array(staging) == 1).all())
        self.assert_bytes(buffer, 2)
        self.pool.peer_accessible_by = []
        with self.fails('INVALID_VALUE'):
            buffer.fill(3, stream=theirs)
        self.assert_bytes(buffer, 2)
        buffer.close()
        staging.close()


if __name__ == '__main__':
    tap.main()
