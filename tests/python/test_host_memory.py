# SPDX-License-Identifier: LGPL-2.1-or-later
"""Pinned, managed and registered memory, and what the processor maps."""

import array
import gc
import os
import tempfile
import threading
import time

from common import Case, GCuda, GLib, in_thread, is_simulated, iterate, simulator, tap

READ = GCuda.MapFlags.READ
WRITE = GCuda.MapFlags.WRITE
UNSYNCHRONIZED = GCuda.MapFlags.UNSYNCHRONIZED
SIZE = 64 * 1024


class HostMemory(Case):
    def resources(self):
        yield GCuda.PinnedMemoryResource.new(self.device)
        yield GCuda.PinnedMemoryResource.new_unpooled(self.device, False)
        yield GCuda.ManagedMemoryResource.new(self.device, None)
        yield GCuda.ManagedMemoryResource.new_unpooled(self.device, None)

    def pinned(self, size=SIZE):
        return GCuda.PinnedMemoryResource.new(self.device).allocate(size, self.stream)

    def managed(self, size=SIZE):
        return GCuda.ManagedMemoryResource.new_unpooled(self.device, None).allocate(size, self.stream)

    def refused(self, code, function, *arguments):
        with self.assertRaises(GLib.Error) as raised:
            function(*arguments)
        self.assertTrue(raised.exception.matches(GCuda.error_quark(), code), raised.exception)

    def test_map(self):
        for resource in self.resources():
            with resource.allocate(SIZE, self.stream) as buffer:
                buffer.fill(5, 1, self.stream)
                with buffer.map(READ | WRITE, self.stream) as memory:
                    self.assertEqual(len(memory), SIZE)
                    self.assertEqual(memory[SIZE - 1], 5)
                    self.assertFalse(memory.readonly)
                    memory[10:20] = b'0123456789'
                self.assertRaises(ValueError, memory.tobytes)
                self.assertEqual(bytes(buffer.download(self.stream)[8:22]), b'\5\0050123456789\5\5')

    def test_read_only(self):
        with self.pinned() as buffer:
            buffer.fill(6, 1, self.stream)
            map_ = buffer.map(READ, self.stream)
            self.assertTrue(map_.memory.readonly)
            self.assertTrue(map_.is_synchronized())
            self.assertTrue(map_.props.mapped)
            self.assertEqual(len(map_), SIZE)
            # A look that is over leaves nothing
            for _ in range(100):
                self.assertEqual(map_.memory[0], 6)
            kept = map_.memory
            self.assertLessEqual(len(map_._looks), 2)  # pylint: disable=protected-access
            self.assertEqual(kept[1], 6)
            self.assertEqual(map_.read(3, 4).get_data(), b'\6' * 4)
            self.refused(GCuda.Error.INVALID_ARGUMENT, map_.write, 0, b'1')
            map_.unmap()
            map_.unmap()
            self.assertFalse(map_.is_mapped())
            with self.assertRaises(ValueError):
                map_.memory  # pylint: disable=pointless-statement
            self.refused(GCuda.Error.CLOSED, map_.read, 0, 1)

    def test_unsynchronized(self):
        with self.pinned() as buffer:
            self.stream.synchronize()
            with buffer.map(WRITE | UNSYNCHRONIZED, None) as memory:
                memory[:] = bytes(SIZE)
            self.assertFalse(buffer.map(READ | UNSYNCHRONIZED, None).is_synchronized())
            self.refused(GCuda.Error.INVALID_ARGUMENT, buffer.map, READ, None)
            self.refused(GCuda.Error.INVALID_ARGUMENT, buffer.map, UNSYNCHRONIZED, None)

    def test_what_looks_at_the_memory_keeps_it(self):
        buffer = self.pinned()
        buffer.fill(7, 1, self.stream)
        memory = buffer.map(READ, self.stream).memory
        buffer.close()
        del buffer
        gc.collect()
        self.assertEqual(memory[100], 7)
        part = memory[5:10]
        del memory
        gc.collect()
        self.assertEqual(bytes(part), b'\7' * 5)

    def test_unmapped_under_somebody(self):
        buffer = self.pinned()
        buffer.fill(8, 1, self.stream)
        map_ = buffer.map(READ | WRITE, self.stream)
        part = map_.memory[:16]
        # A part of it lives on: the map does too.
        self.assertRaises(BufferError, map_.unmap)
        self.assertTrue(map_.is_mapped())
        self.assertEqual(part[3], 8)
        part.release()
        map_.unmap()
        self.assertFalse(map_.is_mapped())

    def test_exception_in_the_scope(self):
        with self.pinned() as buffer:
            with self.assertRaises(KeyError):
                with buffer.map(READ, self.stream):
                    raise KeyError
            buffer.fill(1, 1, self.stream)

    def test_device_memory(self):
        with self.pool.allocate(SIZE, self.stream) as buffer:
            self.refused(GCuda.Error.NOT_SUPPORTED, buffer.map, READ, self.stream)

    def test_waits_without_the_lock(self):
        """The thread that lets the work go runs while this one waits for it."""
        def let_go():
            time.sleep(0.02)
            if is_simulated():
                simulator().gcudasim_hold(0)

        with self.pinned() as buffer:
            if is_simulated():
                simulator().gcudasim_hold(1)
            buffer.fill(9, 1, self.stream)
            thread = threading.Thread(target=let_go)
            thread.start()
            with buffer.map(READ, self.stream) as memory:
                self.assertEqual(memory[0], 9)
            thread.join()

    def test_pinned_resource(self):
        resource = GCuda.PinnedMemoryResource.new(self.device)
        pieces = GCuda.PinnedMemoryResource.new_unpooled(self.device, True)
        self.assertTrue(pieces.props.write_combined)
        self.assertFalse(pieces.is_pooled())
        self.assertTrue(resource.props.host_accessible)
        self.refused(GCuda.Error.NOT_SUPPORTED, pieces.get_statistics)
        self.refused(GCuda.Error.INVALID_ARGUMENT, GCuda.PinnedMemoryResource.new_for_numa_node, self.device, 4711)
        if resource.is_pooled():
            with resource.allocate(SIZE, self.stream):
                self.assertEqual(resource.get_statistics().get_used(), SIZE)
        self.refused(GCuda.Error.CLOSED, GCuda.PinnedMemoryResource().allocate, 1, self.stream)

    def test_managed(self):
        host = GCuda.Location.new_host()
        device = GCuda.Location.new_device(self.device)
        self.assertEqual(host, GCuda.Location.new_host())
        self.assertNotEqual(host, device)
        self.assertEqual(len({host, device, GCuda.Location.new_host()}), 2)
        self.assertIn('device 0', repr(device))
        with self.managed() as buffer:
            buffer.fill(1, 1, self.stream)
            self.assertFalse(buffer.is_read_mostly())
            buffer.set_read_mostly(True)
            self.assertTrue(buffer.is_read_mostly())
            self.assertIsNone(buffer.get_preferred_location())
            buffer.set_preferred_location(host)
            self.assertEqual(buffer.get_preferred_location(), host)
            buffer.set_preferred_location(None)
            self.assertIsNone(buffer.get_preferred_location())
            buffer.set_accessed_by(device, True)
            self.assertTrue(buffer.is_accessed_by(device))
            self.assertFalse(buffer.is_accessed_by(host))
            buffer.prefetch(device, self.stream)
            self.assertEqual(buffer.get_last_prefetch_location(), device)
            self.assertIs(buffer.get_last_prefetch_location().get_device(), self.device)
            GCuda.Buffer.prefetch_batch([buffer, buffer], host, self.stream)
            self.assertEqual(bytes(buffer.download(self.stream)), b'\1' * SIZE)
            self.refused(GCuda.Error.INVALID_ARGUMENT, buffer.prefetch, GCuda.Location.new_numa_node(4711), self.stream)
        with self.pool.allocate(SIZE, self.stream) as plain:
            self.refused(GCuda.Error.INVALID_ARGUMENT, plain.set_read_mostly, True)
            self.refused(GCuda.Error.INVALID_ARGUMENT, plain.prefetch, host, self.stream)

    def test_bytes(self):
        data = GLib.Bytes.new(bytes(range(256)) * 256)
        buffer = GCuda.Buffer.new_for_bytes(self.device, data, self.stream)
        self.assertIsNone(buffer.get_resource())
        self.refused(GCuda.Error.HOST_MEMORY_ALREADY_REGISTERED, GCuda.Buffer.new_for_bytes, self.device, data, self.stream)
        self.refused(GCuda.Error.INVALID_ARGUMENT, buffer.fill, 0, 1, self.stream)
        with self.pool.allocate(65536, self.stream) as target:
            buffer.copy_to(target, self.stream)
            del data, buffer
            gc.collect()
            self.assertEqual(bytes(target.download(self.stream)), bytes(range(256)) * 256)
        self.assertTrue(GCuda.reclaim(None))

    def test_mapped_file(self):
        with tempfile.NamedTemporaryFile() as file:
            file.write(os.urandom(10000))
            file.flush()
            mapped = GLib.MappedFile.new(file.name, False)
            buffer = GCuda.Buffer.new_for_bytes(self.device, mapped.get_bytes(), self.stream)
            self.assertEqual(bytes(buffer.download(self.stream)), mapped.get_bytes().get_data())
            buffer.close()

    def test_memory_of_python(self):
        for memory in (bytearray(SIZE), array.array('I', range(SIZE // 4))):
            buffer = GCuda.Buffer.new_for_host_memory(self.device, memory, self.stream)
            self.assertEqual(len(buffer), SIZE)
            buffer.fill(0x51, 1, self.stream)
            if isinstance(memory, bytearray):
                # The device has it: it can't be made larger.
                self.assertRaises(BufferError, memory.append, 1)
            self.stream.synchronize()
            self.assertEqual(bytes(memory), b'\x51' * SIZE)
            buffer.close()
            self.assertTrue(GCuda.reclaim(None))
            iterate()
            gc.collect()
            memory.append(1)
        self.assertRaises(TypeError, GCuda.Buffer.new_for_host_memory, self.device, b'never changes', self.stream)
        with GCuda.Buffer.new_for_host_memory(self.device, bytearray(), self.stream) as empty:
            self.assertEqual(len(empty), 0)

    def test_memory_without_a_loop(self):
        """No main loop runs: what was let go goes back where the program waits for it, or gives more."""
        held = []
        for way in ('wait', 'more'):
            memory = array.array('d', range(64))
            with GCuda.Buffer.new_for_host_memory(self.device, memory, self.stream) as buffer:
                buffer.fill(1, 1, self.stream)
            self.stream.synchronize()
            if way == 'wait':
                self.assertTrue(GCuda.reclaim(None))
            else:
                thread = threading.Thread(target=GCuda.reclaim, args=(None,))
                thread.start()
                thread.join()
                held.append(GCuda.Buffer.new_for_host_memory(self.device, bytearray(64), self.stream))
            gc.collect()
            memory.append(1)
        for buffer in held:
            buffer.close()
        self.assertTrue(GCuda.reclaim(None))

    def test_writing_of_any_type(self):
        with self.pinned() as buffer:
            map_ = buffer.map(READ | WRITE, self.stream)
            numbers = array.array('d', [0.5, 2])
            self.assertTrue(map_.write(16, numbers))
            self.assertEqual(map_.read(16, 16).get_data(), numbers.tobytes())
            map_.unmap()

    def test_no_arguments(self):
        self.assertRaises(TypeError, GCuda.Buffer.new_for_bytes, self.device, None, self.stream)
        self.assertRaises(TypeError, GCuda.PinnedMemoryResource.new, None)
        with self.managed() as buffer:
            self.assertRaises(TypeError, buffer.prefetch, None, self.stream)
            self.assertRaises(TypeError, buffer.prefetch, GCuda.Location.new_host(), None)

    def test_collected_anywhere(self):
        """Dropped in another thread, by the garbage collector, in a cycle."""
        def work():
            for resource in self.resources():
                buffer = resource.allocate(SIZE, self.stream)
                buffer.fill(1, 1, self.stream)
                map_ = buffer.map(READ, self.stream)
                map_.look = map_.memory
                map_.buffer = buffer
                buffer.map_ = map_
            gc.collect()
        in_thread(work)
        gc.collect()
        self.assertTrue(GCuda.reclaim(None))


if __name__ == '__main__':
    tap.main()
