# SPDX-License-Identifier: LGPL-2.1-or-later
"""Errors: the library's own for values it refuses, the binding's own for what has the wrong type."""

from common import Case, GCuda, GLib, tap

INVALID = GCuda.Error.INVALID_ARGUMENT


class Domain(Case):
    def test_domain_and_codes(self):
        self.assertEqual(GLib.quark_to_string(GCuda.error_quark()), 'gcuda-error-quark')
        with self.assertRaises(GLib.Error) as caught:
            GCuda.Device.new(1000)
        error = caught.exception
        self.assertEqual(error.domain, 'gcuda-error-quark')
        self.assertEqual(error.code, GCuda.Error.INVALID_DEVICE)
        self.assertTrue(error.matches(GCuda.error_quark(), GCuda.Error.INVALID_DEVICE))
        self.assertFalse(error.matches(GCuda.error_quark(), GCuda.Error.NO_DEVICE))
        self.assertIn('CUDA_ERROR_INVALID_DEVICE', error.message)

    def test_numbers_are_the_drivers(self):
        self.assertEqual(GCuda.Error.OUT_OF_MEMORY, 2)
        self.assertEqual(GCuda.Error.STREAM_CAPTURE_UNSUPPORTED, 900)
        self.assertEqual(GCuda.Error.CLOSED, 10003)

    def test_available(self):
        self.assertTrue(GCuda.is_available())

    def test_driver_errors(self):
        with self.fails(GCuda.Error.OUT_OF_MEMORY):
            self.pool.allocate(1 << 60, self.stream)
        with self.fails(INVALID):
            self.pool.allocate((1 << 64) - 1, self.stream)
        # No state is kept
        with self.pool.allocate(16, self.stream) as buffer:
            self.assertTrue(buffer.fill(0, 1, self.stream))

    def test_cancelled(self):
        from gi.repository import Gio
        cancellable = Gio.Cancellable()
        cancellable.cancel()
        with self.assertRaises(GLib.Error) as caught:
            GCuda.reclaim(cancellable)
        self.assertTrue(caught.exception.matches(Gio.io_error_quark(), Gio.IOErrorEnum.CANCELLED))


class Values(Case):
    def test_fill(self):
        buffer = self.pool.allocate(8, self.stream)
        buffer.fill(0x55, 1, self.stream)
        for width, value in ((3, 1), (8, 1), (0, 1), (2 ** 32 - 1, 1), (1, 256), (2, 0x10000), (4, 1 << 32), (1, (1 << 64) - 1)):
            with self.subTest(width=width, value=value), self.fails(INVALID):
                buffer.fill(value, width, self.stream)
        for offset, size, width in ((1, 4, 2), (0, 7, 2), (2, 4, 4), (0, 9, 1), (8, 1, 1), (9, 0, 1), ((1 << 64) - 1, 1, 1),
                                    (1, (1 << 64) - 1, 1)):
            with self.subTest(offset=offset, size=size, width=width), self.fails(INVALID):
                buffer.fill_range(offset, size, 0, width, self.stream)
        with self.pool.allocate(7, self.stream) as odd, self.fails(INVALID):
            odd.fill(1, 2, self.stream)
        with self.fails(INVALID):
            buffer.fill_2d(0, 1, 2, 2, 0, 1, self.stream)
        self.assertEqual(buffer.download(self.stream), b'\x55' * 8, 'nothing was written')

    def test_parts(self):
        buffer = self.pool.allocate(8, self.stream)
        target = self.pool.allocate(8, self.stream)
        big = (1 << 64) - 1
        for call in (
            lambda: buffer.copy_range(4, target, 0, 5, self.stream),
            lambda: buffer.copy_range(0, target, 4, 5, self.stream),
            lambda: buffer.copy_range(big, target, 0, 2, self.stream),
            lambda: buffer.copy_range(0, buffer, 4, 5, self.stream),
            lambda: buffer.copy_to(buffer.new_view(0, 4), self.stream),
            lambda: buffer.copy_2d(0, 1, target, 0, 4, 2, 2, self.stream),
            lambda: buffer.upload_data(7, b'12', self.stream),
            lambda: buffer.upload(big, GLib.Bytes.new(b'12'), self.stream),
            lambda: buffer.download(7, 2, self.stream),
            lambda: buffer.download(2, big, self.stream),
            lambda: buffer.new_view(9, 0),
            lambda: buffer.new_view(1, big),
            lambda: GCuda.Buffer.new_for_address(self.device, 0, 8, None, self.stream),
            lambda: self.pool.adopt_address(0, 8, self.stream),
            lambda: self.pool.adopt_address(buffer.get_address(), 0, self.stream),
            lambda: self.pool.allocate_address(0, 0, self.stream),
            lambda: self.pool.allocate_address(8, 3, self.stream),
            lambda: self.pool.deallocate_address(0, 8, 0, self.stream),
        ):
            with self.fails(INVALID):
                call()

    def test_devices(self):
        for ordinal in (-1, 99, -2 ** 31, 2 ** 31 - 1):
            with self.fails(GCuda.Error.INVALID_DEVICE):
                GCuda.Device.new(ordinal)

    def test_foreign_flags(self):
        with self.fails(INVALID):
            GCuda.Context.new(self.device, GCuda.ContextFlags.SPIN | GCuda.ContextFlags.YIELD)

    def test_events(self):
        start = GCuda.Event.new_for_device(self.device, GCuda.EventFlags.TIMING)
        end = GCuda.Event.new_for_device(self.device, GCuda.EventFlags.TIMING)
        untimed = GCuda.Event.new_for_device(self.device, GCuda.EventFlags.NONE)
        with self.fails(GCuda.Error.NOT_RECORDED):
            start.elapsed_time(end)
        for event in (start, end, untimed):
            event.record(self.stream)
        with self.fails(GCuda.Error.TIMING_DISABLED):
            start.elapsed_time(untimed)
        end.synchronize()
        self.assertGreaterEqual(start.elapsed_time(end), 0)


class Types(Case):
    """A script meets its binding's own exception first; it never gets as far as a critical."""

    def test_none_where_something_is_needed(self):
        buffer = self.pool.allocate(8, self.stream)
        for call in (
            lambda: self.pool.allocate(8, None),
            lambda: self.pool.allocate_address(8, 0, None),
            lambda: self.pool.deallocate_address(256, 8, 0, None),
            lambda: self.pool.adopt_address(256, 8, None),
            lambda: buffer.fill(0, 1, None),
            lambda: buffer.fill_range(0, 1, 0, 1, None),
            lambda: buffer.fill_2d(0, 1, 1, 1, 0, 1, None),
            lambda: buffer.copy_to(None, self.stream),
            lambda: buffer.copy_to(buffer, None),
            lambda: buffer.copy_range(0, None, 0, 0, self.stream),
            lambda: buffer.copy_2d(0, 1, None, 0, 1, 1, 1, self.stream),
            lambda: GCuda.Buffer.copy_batch([buffer], [buffer], None),
            lambda: buffer.upload(0, None, self.stream),
            lambda: buffer.upload(0, GLib.Bytes.new(b''), None),
            lambda: buffer.upload_data(0, None, self.stream),
            lambda: buffer.upload_data(0, b'', None),
            lambda: buffer.download(None),
            lambda: buffer.set_deallocation_stream(None),
            lambda: GCuda.Buffer.new_view(None, 0, 0),
            lambda: GCuda.Buffer.new_for_address(None, 256, 8, None, self.stream),
            lambda: GCuda.Buffer.new_for_address(self.device, 256, 8, None, None),
            lambda: GCuda.Stream.new(None, GCuda.StreamFlags.NONE, 0),
            lambda: GCuda.Stream.new_for_device(None),
            lambda: GCuda.Stream.new_legacy_default(None),
            lambda: GCuda.Stream.new_per_thread_default(None),
            lambda: GCuda.Stream.new_for_handle(None, 1, None),
            lambda: self.stream.wait_event(None),
            lambda: self.stream.wait_stream(None),
            lambda: self.stream.launch_host_function(None),
            lambda: GCuda.Event.new(None, GCuda.EventFlags.NONE),
            lambda: GCuda.Event.new_for_device(None, GCuda.EventFlags.NONE),
            lambda: GCuda.Event().record(None),
            lambda: GCuda.Event().elapsed_time(None),
            lambda: GCuda.Context.new(None, GCuda.ContextFlags.NONE),
            lambda: GCuda.DeviceMemoryResource.new(None),
            lambda: GCuda.DeviceMemoryResource.new_pool(None, 0, GCuda.HandleTypes.NONE),
            lambda: GCuda.SynchronousMemoryResource.new(None),
            lambda: GCuda.SynchronousMemoryResource.new_for_device(None),
            lambda: self.device.can_access_peer(None),
            lambda: self.pool.set_peer_access(None, True),
            lambda: self.pool.has_peer_access(None),
        ):
            with self.assertRaises(TypeError):
                call()
        self.assertFalse(buffer.is_closed())

    def test_wrong_types(self):
        buffer = self.pool.allocate(8, self.stream)
        for call in (
            lambda: self.pool.allocate('8', self.stream),
            lambda: self.pool.allocate(8, self.pool),
            lambda: self.pool.allocate(8),
            lambda: buffer.fill(0, 1, self.device),
            lambda: buffer.copy_to(self.stream, self.stream),
            lambda: buffer.upload_data(0, 'text', self.stream),
            lambda: buffer.close(self.device),
            lambda: GCuda.Stream.synchronize(self.pool),
            lambda: GCuda.Buffer.get_size(self.stream),
            lambda: self.stream.launch_host_function(3),
            lambda: GCuda.Device.new('0'),
        ):
            with self.assertRaises(TypeError):
                call()

    def test_negative_and_large_numbers(self):
        buffer = self.pool.allocate(8, self.stream)
        for call in (
            lambda: self.pool.allocate(-1, self.stream),
            lambda: self.pool.allocate(1 << 64, self.stream),
            lambda: buffer.fill(-1, 1, self.stream),
            lambda: buffer.fill(0, -1, self.stream),
            lambda: buffer.fill(0, 1 << 32, self.stream),
            lambda: buffer.download(-1, 1, self.stream),
            lambda: buffer.new_view(0, -1),
            lambda: self.pool.set_release_threshold(-1),
            lambda: self.pool.trim(-1),
            lambda: GCuda.Device.new(1 << 31),
        ):
            with self.assertRaises(OverflowError):
                call()


if __name__ == '__main__':
    tap.main()
