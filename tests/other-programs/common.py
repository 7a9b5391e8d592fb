# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the tests of NVIDIA's Python packages share. They use nothing of gcudamem: the driver under them is what is tested,
simulated or real. Every use of memory is ordered behind the one before it, by its stream, an event or the host."""

import ctypes
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'introspection', 'tests'))

import tap  # noqa: E402, F401  pylint: disable=unused-import

import numpy  # noqa: E402
from cuda.bindings import driver  # noqa: E402
from cuda.core import Device, LegacyPinnedMemoryResource  # noqa: E402

MIB = 1 << 20
CODE = driver.CUresult
# Some calls have other arguments since CUDA 13
CUDA_13 = driver.CUDA_VERSION >= 13000


def done(result):
    """What a call of cuda.bindings returned, which must have succeeded."""
    error, *values = result
    if error != CODE.CUDA_SUCCESS:
        raise AssertionError(f'the driver answers {error.name}')
    return values[0] if len(values) == 1 else values


def array(buffer, dtype='uint8'):
    """Host-accessible memory, as it lies there."""
    memory = (ctypes.c_ubyte * buffer.size).from_address(int(buffer.handle))
    return numpy.frombuffer(memory, dtype=dtype)


def is_simulated():
    return os.environ.get('GCUDA_DRIVER') == 'simulated'


class Case(unittest.TestCase):
    """Device 0 with its primary context current, and a stream."""

    def setUp(self):
        try:
            error, = driver.cuInit(0)
        except RuntimeError:
            self.skipTest('no CUDA driver')
        if error == CODE.CUDA_ERROR_NO_DEVICE:
            self.skipTest('no CUDA device')
        self.device = Device(0)
        self.device.set_current()
        self.stream = self.device.create_stream()
        self.pinned = LegacyPinnedMemoryResource()

    def second_device(self):
        if done(driver.cuDeviceGetCount()) < 2 or not Device(0).can_access_peer(1):
            self.skipTest('needs two devices that reach each other')
        return Device(1)

    def read(self, buffer, stream=None, dtype='uint8'):
        """The buffer's bytes when the stream has come to here."""
        stream = stream or self.stream
        staging = self.pinned.allocate(buffer.size, stream=stream)
        buffer.copy_to(staging, stream=stream)
        stream.sync()
        result = array(staging, dtype).copy()
        staging.close(stream)
        return result

    def write(self, buffer, values, stream=None):
        stream = stream or self.stream
        staging = self.pinned.allocate(buffer.size, stream=stream)
        array(staging, values.dtype)[:] = values
        buffer.copy_from(staging, stream=stream)
        stream.sync()
        staging.close(stream)

    def assert_bytes(self, buffer, value, stream=None):
        found = self.read(buffer, stream)
        self.assertTrue((found == value).all(), f'{found[found != value][:8]} among {value}')

    def answers(self, code, result):
        """A call of cuda.bindings failed, as a real driver lets it fail."""
        self.assertEqual(result[0], code)

    def fails(self, name):
        """What is done in this context fails in the driver, and cuda.core says with what."""
        return self.assertRaisesRegex(Exception, f'CUDA_ERROR_{name}\\b')
