# SPDX-License-Identifier: LGPL-2.1-or-later
"""Buffers, and what becomes of objects that are closed or never were open."""

import array
import struct

from common import Case, GCuda, GLib, tap


class Buffers(Case):
    def test_life(self):
        buffer = self.pool.allocate(1000, self.stream)
        self.assertEqual(buffer.get_size(), 1000)
        self.assertNotEqual(buffer.get_address(), 0)
        self.assertIs(buffer.get_device(), self.device)
        self.assertIs(buffer.get_resource(), self.pool)
        self.assertTrue(buffer.is_device_accessible())
        self.assertFalse(buffer.is_host_accessible())
        self.assertFalse(buffer.is_closed())
        self.assertGreaterEqual(self.pool.get_statistics().get_used(), 1000)
        self.assertTrue(buffer.close())
        self.assertTrue(buffer.is_closed())
        self.assertEqual(buffer.get_size(), 1000)
        self.assertEqual(buffer.get_address(), 0)
        self.assertIsNone(buffer.get_device())
        self.assertIsNone(buffer.get_resource())
        self.assertFalse(buffer.is_device_accessible())
        self.assertTrue(buffer.close(), 'closed twice')

    def test_properties_are_what_getters_say(self):
        buffer = self.pool.allocate(1000, self.stream)
        for _ in range(2):
            self.assertEqual(buffer.props.size, buffer.get_size())
            self.assertEqual(buffer.props.address, buffer.get_address())
            self.assertIs(buffer.props.device, buffer.get_device())
            self.assertIs(buffer.props.resource, buffer.get_resource())
            self.assertEqual(buffer.props.closed, buffer.is_closed())
            self.assertEqual(buffer.props.device_accessible, buffer.is_device_accessible())
            self.assertEqual(buffer.props.host_accessible, buffer.is_host_accessible())
            buffer.close()

    def test_close_is_notified(self):
        buffer = self.pool.allocate(1000, self.stream)
        seen = []
        buffer.connect('notify::closed', lambda *_: seen.append((buffer.is_closed(), buffer.get_address())))
        buffer.close()
        buffer.close()
        self.assertEqual(seen, [(True, 0)])

    def test_fill(self):
        for width, value, pattern in ((1, 0xa5, '=B'), (2, 0x1234, '=H'), (4, 0xdeadbeef, '=I')):
            with self.pool.allocate(64, self.stream) as buffer:
                self.assertTrue(buffer.fill(value, width, self.stream))
                self.assertEqual(buffer.download(self.stream), struct.pack(pattern, value) * (64 // width))
                self.assertTrue(buffer.fill_range(8, 16, 0, width, self.stream))
                self.assertEqual(buffer.download(8, 16, self.stream), bytes(16))
                self.assertEqual(buffer.download(24, width, self.stream), struct.pack(pattern, value))

    def test_fill_2d(self):
        with self.pool.allocate(64, self.stream) as buffer:
            buffer.fill(0, 1, self.stream)
            buffer.fill_2d(4, 16, 2, 3, 0x4142, 2, self.stream)
            row = bytes(4) + b'BABA' + bytes(8)
            self.assertEqual(buffer.download(self.stream), row * 3 + bytes(16))

    def test_copy(self):
        data = bytes(range(64))
        with self.pool.allocate(64, self.stream) as source, self.pool.allocate(64, self.stream) as target:
            source.upload(0, GLib.Bytes.new(data), self.stream)
            self.assertTrue(source.copy_to(target, self.stream))
            self.assertEqual(target.download(self.stream), data)
            self.assertTrue(source.copy_range(60, target, 0, 4, self.stream))
            self.assertEqual(target.download(0, 6, self.stream), bytes((60, 61, 62, 63, 4, 5)))
            self.assertTrue(source.copy_2d(0, 8, target, 0, 16, 4, 4, self.stream))
            self.assertEqual(target.download(16, 4, self.stream), bytes((8, 9, 10, 11)))
            with self.fails(GCuda.Error.INVALID_ARGUMENT):
                source.copy_range(0, source, 32, 33, self.stream)

    def test_copy_batch(self):
        sources = [self.pool.allocate(16, self.stream) for _ in range(3)]
        targets = [self.pool.allocate(16, self.stream) for _ in range(3)]
        for i, source in enumerate(sources):
            source.fill(i, 1, self.stream)
        self.assertTrue(GCuda.Buffer.copy_batch(sources, targets, self.stream))
        for i, target in enumerate(targets):
            self.assertEqual(target.download(self.stream), bytes([i]) * 16)
        with self.fails(GCuda.Error.INVALID_ARGUMENT):
            GCuda.Buffer.copy_batch(sources, targets[1:], self.stream)

    def test_upload_takes_what_holds_bytes(self):
        data = bytes(range(256)) * 16
        with self.pool.allocate(len(data), self.stream) as buffer:
            for what in (data, bytearray(data), list(data)):
                buffer.fill(0, 1, self.stream)
                self.assertTrue(buffer.upload_data(0, what, self.stream))
                self.assertEqual(buffer.download(self.stream), data)
            buffer.fill(0, 1, self.stream)
            # Nobody but the library keeps the data
            self.assertTrue(buffer.upload(0, GLib.Bytes.new(bytes(bytearray(data))), self.stream))
            self.assertEqual(buffer.download(self.stream), data)
            self.assertTrue(buffer.upload_data(4090, b'123456', self.stream))
            self.assertEqual(buffer.download(4088, 8, self.stream), data[4088:4090] + b'123456')
            # Of any type, its bytes
            for what in (array.array('d', [1.5, -2.5]), memoryview(array.array('H', [1, 65535]))[::-1], array.array('b', [-1])):
                self.assertTrue(buffer.upload_data(0, what, self.stream))
                expected = bytes(memoryview(what))
                self.assertEqual(buffer.download(0, len(expected), self.stream), expected)
            for bad in ([256], [-1], ['1'], 'text', 7):
                self.assertRaises((TypeError, OverflowError), buffer.upload_data, 0, bad, self.stream)

    def test_views(self):
        buffer = self.pool.allocate(64, self.stream)
        buffer.fill(1, 1, self.stream)
        view = buffer.new_view(16, 32)
        inner = GCuda.Buffer.new_view(view, 8, 8)
        self.assertEqual(view.get_size(), 32)
        self.assertEqual(view.get_address(), buffer.get_address() + 16)
        self.assertEqual(inner.get_address(), buffer.get_address() + 24)
        inner.fill(2, 1, self.stream)
        self.assertEqual(buffer.download(self.stream), b'\1' * 24 + b'\2' * 8 + b'\1' * 32)
        buffer.close()
        self.assertEqual(view.download(self.stream), b'\1' * 8 + b'\2' * 8 + b'\1' * 16, 'the memory lives on')
        with self.fails(GCuda.Error.CLOSED):
            buffer.new_view(0, 1)
        with self.fails(GCuda.Error.INVALID_ARGUMENT):
            view.new_view(1, 32)
        view.close()
        self.assertEqual(inner.download(self.stream), b'\2' * 8)

    def test_close_on_another_stream(self):
        other = GCuda.Stream.new_for_device(self.device)
        buffer = self.pool.allocate(4096, self.stream)
        buffer.fill(3, 1, self.stream)
        other.wait_stream(self.stream)
        self.assertTrue(buffer.close(other))
        buffer = self.pool.allocate(4096, self.stream)
        other.close()
        with self.fails(GCuda.Error.CLOSED):
            buffer.close(other)
        self.assertFalse(buffer.is_closed(), 'the buffer is as it was')
        buffer.fill(3, 1, self.stream)
        self.assertEqual(buffer.download(0, 2, self.stream), b'\3\3')
        self.assertTrue(buffer.close())
        self.assertTrue(buffer.close(other), 'closed already, whatever the stream')

    def test_zero_size(self):
        resources = (self.pool, GCuda.DeviceMemoryResource.new(self.device),
                     GCuda.SynchronousMemoryResource.new_for_device(self.device))
        for resource in resources:
            buffer = resource.allocate(0, self.stream)
            self.assertEqual(buffer.get_size(), 0)
            self.assertEqual(buffer.get_address(), 0)
            self.assertFalse(buffer.is_closed())
            self.assertTrue(buffer.fill(1, 4, self.stream))
            self.assertTrue(buffer.copy_to(resource.allocate(0, self.stream), self.stream))
            self.assertTrue(buffer.upload(0, GLib.Bytes.new(b''), self.stream))
            self.assertTrue(buffer.upload_data(0, b'', self.stream))
            self.assertEqual(buffer.download(self.stream), b'')
            self.assertEqual(buffer.new_view(0, 0).get_size(), 0)
            self.assertTrue(buffer.close())
            self.assertTrue(buffer.is_closed())

    def test_address_is_a_number(self):
        buffer = self.pool.allocate(64, self.stream)
        buffer.fill(7, 1, self.stream)
        again = GCuda.Buffer.new_for_address(self.device, buffer.get_address(), 64, buffer, self.stream)
        self.assertEqual(again.get_address(), buffer.get_address())
        self.assertEqual(again.download(self.stream), b'\7' * 64)
        self.assertIsNone(again.get_resource())
        again.close()
        self.assertFalse(buffer.is_closed())

    def test_adopted_address(self):
        address = self.pool.allocate_address(64, 0, self.stream)
        self.assertIsInstance(address, int)
        self.assertEqual(address % 256, 0)
        buffer = self.pool.adopt_address(address, 64, self.stream)
        self.assertEqual(buffer.get_address(), address)
        buffer.fill(7, 1, self.stream)
        self.assertEqual(buffer.download(self.stream), b'\7' * 64)
        buffer.close()
        address = self.pool.allocate_address(64, 0, self.stream)
        self.assertTrue(self.pool.deallocate_address(address, 64, 0, self.stream))

    def test_synchronous_memory(self):
        resource = GCuda.SynchronousMemoryResource.new(self.context)
        with resource.allocate(64, self.stream) as buffer:
            buffer.fill(9, 1, self.stream)
            self.assertEqual(buffer.download(self.stream), b'\x09' * 64)


class Closed(Case):
    def calls(self, thing):
        """What can be asked of an object that is closed, and fails."""
        good = self.pool.allocate(16, self.stream)
        calls = {
            GCuda.Context: [
                lambda: thing.synchronize(),
                lambda: GCuda.Stream.new(thing, GCuda.StreamFlags.NONE, 0),
                lambda: GCuda.Stream.new_legacy_default(thing),
                lambda: GCuda.Stream.new_per_thread_default(thing),
                lambda: GCuda.Event.new(thing, GCuda.EventFlags.NONE),
                lambda: GCuda.SynchronousMemoryResource.new(thing),
            ],
            GCuda.Stream: [
                lambda: thing.query(),
                lambda: thing.is_capturing(),
                lambda: thing.synchronize(),
                lambda: thing.wait_event(GCuda.Event.new_for_device(self.device, GCuda.EventFlags.NONE)),
                lambda: thing.wait_stream(self.stream),
                lambda: self.stream.wait_stream(thing),
                lambda: thing.launch_host_function(lambda: None),
                lambda: self.pool.allocate(16, thing),
                lambda: self.pool.allocate_address(16, 0, thing),
                lambda: good.fill(0, 1, thing),
                lambda: good.download(thing),
                lambda: good.set_deallocation_stream(thing),
                lambda: good.close(thing),
            ],
            GCuda.Event: [
                lambda: thing.record(self.stream),
                lambda: thing.query(),
                lambda: thing.synchronize(),
                lambda: thing.elapsed_time(GCuda.Event.new_for_device(self.device, GCuda.EventFlags.TIMING)),
                lambda: self.stream.wait_event(thing),
            ],
            GCuda.Buffer: [
                lambda: thing.fill(0, 1, self.stream),
                lambda: thing.fill_range(0, 0, 0, 1, self.stream),
                lambda: thing.fill_2d(0, 0, 0, 0, 0, 1, self.stream),
                lambda: thing.copy_to(good, self.stream),
                lambda: good.copy_to(thing, self.stream),
                lambda: thing.copy_range(0, good, 0, 0, self.stream),
                lambda: thing.copy_2d(0, 0, good, 0, 0, 0, 0, self.stream),
                lambda: GCuda.Buffer.copy_batch([thing], [good], self.stream),
                lambda: thing.upload(0, GLib.Bytes.new(b''), self.stream),
                lambda: thing.upload_data(0, b'', self.stream),
                lambda: thing.download(self.stream),
                lambda: thing.new_view(0, 0),
                lambda: thing.set_deallocation_stream(self.stream),
            ],
            GCuda.DeviceMemoryResource: [
                lambda: thing.allocate(16, self.stream),
                lambda: thing.allocate(0, self.stream),
                lambda: thing.allocate_address(16, 0, self.stream),
                lambda: thing.deallocate_address(256, 16, 0, self.stream),
                lambda: thing.adopt_address(256, 16, self.stream),
                lambda: thing.set_release_threshold(0),
                lambda: thing.set_reuse(GCuda.PoolReuse.NONE),
                lambda: thing.trim(0),
                lambda: thing.get_statistics(),
                lambda: thing.reset_high_marks(),
                lambda: thing.set_peer_access(self.device, True),
                lambda: thing.has_peer_access(self.device),
            ],
            GCuda.SynchronousMemoryResource: [
                lambda: thing.allocate(16, self.stream),
                lambda: thing.allocate(0, self.stream),
                lambda: thing.allocate_address(16, 0, self.stream),
                lambda: thing.deallocate_address(256, 16, 0, self.stream),
                lambda: thing.adopt_address(256, 16, self.stream),
            ],
            GCuda.Device: [
                lambda: thing.get_attribute(1),
                lambda: thing.can_access_peer(self.device),
                lambda: thing.get_memory_info(),
                lambda: thing.get_primary_context(),
                lambda: thing.synchronize(),
                lambda: GCuda.Stream.new_for_device(thing),
                lambda: GCuda.Event.new_for_device(thing, GCuda.EventFlags.NONE),
                lambda: GCuda.Context.new(thing, GCuda.ContextFlags.NONE),
                lambda: GCuda.DeviceMemoryResource.new(thing),
                lambda: GCuda.DeviceMemoryResource.new_pool(thing, 0, GCuda.HandleTypes.NONE),
                lambda: GCuda.SynchronousMemoryResource.new_for_device(thing),
            ],
        }
        return calls[type(thing)]

    def getters(self, thing):
        """What an object that never was open says of itself."""
        return {
            GCuda.Context: ('get_device', 'get_handle', 'get_id', 'is_primary'),
            GCuda.Stream: ('get_context', 'get_device', 'get_handle', 'get_priority', 'is_blocking', 'is_legacy_default',
                           'is_per_thread_default'),
            GCuda.Event: ('get_context', 'get_handle'),
            GCuda.Buffer: ('get_size', 'get_address', 'get_device', 'get_resource', 'is_device_accessible',
                           'is_host_accessible'),
            GCuda.DeviceMemoryResource: ('get_device', 'get_handle', 'get_max_size', 'get_release_threshold',
                                         'is_release_unlimited', 'owns_pool', 'is_host_accessible'),
            GCuda.SynchronousMemoryResource: ('get_device', 'is_host_accessible'),
            GCuda.Device: ('get_name', 'get_uuid', 'get_pci_bus_id', 'get_compute_capability_major',
                           'get_compute_capability_minor', 'get_total_memory'),
        }[type(thing)]

    def check_closed(self, thing):
        for i, call in enumerate(self.calls(thing)):
            with self.subTest(type(thing).__name__, call=i), self.fails(GCuda.Error.CLOSED):
                call()
        if hasattr(thing, 'close'):
            self.assertTrue(thing.is_closed())
            self.assertTrue(thing.close())
            self.assertTrue(thing.close())

    def test_made_by_bare_new(self):
        for kind in (GCuda.Context, GCuda.Stream, GCuda.Event, GCuda.Buffer, GCuda.DeviceMemoryResource,
                     GCuda.SynchronousMemoryResource, GCuda.Device):
            thing = kind()
            self.check_closed(thing)
            for getter in self.getters(thing):
                with self.subTest(kind.__name__, getter=getter):
                    self.assertIn(getattr(thing, getter)(), (None, 0))
            thing.run_dispose()
            self.check_closed(thing)

    def open_things(self):
        yield GCuda.Context.new(self.device, GCuda.ContextFlags.NONE)
        yield GCuda.Stream.new_for_device(self.device)
        yield GCuda.Event.new_for_device(self.device, GCuda.EventFlags.NONE)
        yield self.pool.allocate(16, self.stream)

    def test_closed(self):
        for thing in self.open_things():
            self.assertFalse(thing.is_closed())
            self.assertTrue(thing.close())
            self.check_closed(thing)

    def test_disposed(self):
        for thing in self.open_things():
            thing.run_dispose()
            self.check_closed(thing)
            thing.run_dispose()
            self.check_closed(thing)

    def test_abstract(self):
        with self.assertRaises(TypeError):
            GCuda.MemoryResource()


if __name__ == '__main__':
    tap.main()
