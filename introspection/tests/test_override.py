# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the Python override adds."""

import unittest

import gi
gi.require_version('GCuda', '1.0')
from gi.repository import GCuda, GLib  # noqa: E402

import tap  # noqa: E402


class Override(unittest.TestCase):
    def setUp(self):
        devices = GCuda.get_devices()
        if not len(devices):
            self.skipTest('no CUDA device')
        self.device = devices[0]
        self.stream = GCuda.Stream.new_for_device(self.device)
        self.resource = GCuda.DeviceMemoryResource.new(self.device)

    def test_devices_are_a_sequence(self):
        devices = GCuda.get_devices()
        self.assertEqual(len(devices), len(list(devices)))
        self.assertIsInstance(devices[0], GCuda.Device)

    def test_repr_of_a_device(self):
        self.assertEqual(repr(self.device), f'<GCuda.Device 0: {self.device.get_name()}>')

    def test_length_is_size(self):
        with self.resource.allocate(1000, self.stream) as buffer:
            self.assertEqual(len(buffer), 1000)

    def test_an_empty_buffer_is_true(self):
        buffer = self.resource.allocate(0, self.stream)
        self.assertEqual(len(buffer), 0)
        self.assertTrue(buffer)
        self.assertEqual(buffer.download(self.stream), b'')

    def test_with_closes_a_buffer(self):
        with self.resource.allocate(1000, self.stream) as buffer:
            self.assertFalse(buffer.is_closed())
        self.assertTrue(buffer.is_closed())
        self.assertEqual(len(buffer), 1000)

    def test_with_closes_a_buffer_after_an_exception(self):
        with self.assertRaises(ZeroDivisionError):
            with self.resource.allocate(1000, self.stream) as buffer:
                raise ZeroDivisionError
        self.assertTrue(buffer.is_closed())

    def test_with_closes_a_stream(self):
        with GCuda.Stream.new_for_device(self.device) as stream:
            self.assertFalse(stream.is_closed())
        self.assertTrue(stream.is_closed())

    def test_close_with_and_without_a_stream(self):
        for arguments in ((), (None,), (self.stream,)):
            buffer = self.resource.allocate(64, self.stream)
            self.assertTrue(buffer.close(*arguments))
            self.assertTrue(buffer.close(*arguments), 'closed twice')
            self.assertTrue(buffer.is_closed())

    def test_download_gives_bytes(self):
        data = bytes(range(256)) * 5
        with self.resource.allocate(len(data), self.stream) as buffer:
            buffer.upload(0, GLib.Bytes.new(data), self.stream)
            self.assertEqual(buffer.download(self.stream), data)
            self.assertIsInstance(buffer.download(self.stream), bytes)
            self.assertEqual(buffer.download(256, 4, self.stream), b'\0\1\2\3')

    def test_download_raises_errors(self):
        buffer = self.resource.allocate(64, self.stream)
        with self.assertRaises(TypeError):
            buffer.download()
        with self.assertRaises(TypeError):
            buffer.download(None)
        with self.assertRaises(GLib.Error) as caught:
            buffer.download(60, 5, self.stream)
        self.assertTrue(caught.exception.matches(GCuda.error_quark(), GCuda.Error.INVALID_ARGUMENT))
        buffer.close()
        with self.assertRaises(GLib.Error) as caught:
            buffer.download(self.stream)
        self.assertTrue(caught.exception.matches(GCuda.error_quark(), GCuda.Error.CLOSED))

    def test_repr_of_a_buffer(self):
        with self.resource.allocate(64, self.stream) as buffer:
            self.assertEqual(repr(buffer), f'<GCuda.Buffer of 64 bytes at {buffer.get_address():#x}>')
        self.assertEqual(repr(buffer), '<GCuda.Buffer of 64 bytes, closed>')

    def test_cuda_array_interface(self):
        with self.resource.allocate(64, self.stream) as buffer:
            interface = buffer.__cuda_array_interface__
            self.assertEqual(interface['shape'], (64,))
            self.assertEqual(interface['data'], (buffer.get_address(), False))
            self.assertEqual(interface['version'], 3)
        with self.assertRaises(ValueError):
            buffer.__cuda_array_interface__  # pylint: disable=pointless-statement

    def test_cuda_array_interface_of_what_never_changes(self):
        with GCuda.Buffer.new_for_bytes(self.device, GLib.Bytes.new(bytes(64)), self.stream) as buffer:
            self.assertEqual(buffer.__cuda_array_interface__['data'], (buffer.get_address(), True))
            self.assertTrue(buffer.props.read_only)

    def test_cuda_stream(self):
        self.assertEqual(self.stream.__cuda_stream__(), (0, self.stream.get_handle()))
        self.stream.close()
        with self.assertRaises(ValueError):
            self.stream.__cuda_stream__()


if __name__ == '__main__':
    tap.main()
