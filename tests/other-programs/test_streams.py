# SPDX-License-Identifier: LGPL-2.1-or-later
"""Streams, events and threads of cuda.core."""

import ctypes
import threading
import unittest

from common import CODE, MIB, Case, done, driver, tap
from cuda.core import (LEGACY_DEFAULT_STREAM, PER_THREAD_DEFAULT_STREAM, Device, DeviceMemoryResource, EventOptions,
                       StreamOptions)

HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Blocked:
    """Work that stays pending on a stream while this context lasts."""

    def __init__(self, stream):
        self.go_on = threading.Event()
        self.function = HOST_FUNCTION(lambda data: self.go_on.wait(30) and None)
        done(driver.cuLaunchHostFunc(stream.handle, driver.CUhostFn(ctypes.cast(self.function, ctypes.c_void_p).value), 0))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.go_on.set()


class Streams(Case):
    def setUp(self):
        super().setUp()
        self.pool = DeviceMemoryResource(self.device)

    def test_event(self):
        with Blocked(self.stream):
            event = self.stream.record()
            self.assertFalse(event.is_done)
            self.answers(CODE.CUDA_ERROR_NOT_READY, driver.cuStreamQuery(self.stream.handle))
        event.sync()
        self.assertTrue(event.is_done)
        self.assertEqual(event.device, self.device)

    def test_event_orders(self):
        other = self.device.create_stream()
        with self.pool.allocate(MIB, stream=self.stream) as buffer:
            for value in range(16):
                buffer.fill(value, stream=self.stream)
                other.wait(self.stream.record())
                self.assert_bytes(buffer, value, other)
                self.stream.wait(other)

    def test_chain_of_streams(self):
        streams = [self.device.create_stream() for _ in range(8)]
        with self.pool.allocate(4096, stream=self.stream) as buffer:
            last = self.stream
            for value, stream in enumerate(streams):
                stream.wait(last)
                buffer.fill(value, stream=stream)
                last = stream
            self.assert_bytes(buffer, 7, last)
            self.stream.wait(last)

    def test_legacy_stream_is_ordered_with_blocking_ones(self):
        blocking = self.device.create_stream(options=StreamOptions(nonblocking=False))
        buffer = self.pool.allocate(4096, stream=blocking)
        with Blocked(blocking):
            buffer.fill(1, stream=blocking)
            buffer.fill(2, stream=LEGACY_DEFAULT_STREAM)
            self.answers(CODE.CUDA_ERROR_NOT_READY, driver.cuStreamQuery(LEGACY_DEFAULT_STREAM.handle))
        self.assert_bytes(buffer, 2, blocking)
        buffer.close()
        blocking.sync()

    def test_non_blocking_stream_is_not_held_up_by_the_legacy_one(self):
        with self.pool.allocate(4096, stream=self.stream) as buffer:
            with Blocked(LEGACY_DEFAULT_STREAM):
                buffer.fill(3, stream=self.stream)
                self.stream.sync()
                self.answers(CODE.CUDA_ERROR_NOT_READY, driver.cuStreamQuery(LEGACY_DEFAULT_STREAM.handle))
            LEGACY_DEFAULT_STREAM.sync()
            self.assert_bytes(buffer, 3)

    def test_per_thread_stream(self):
        seen = []

        def work():
            Device(0).set_current()
            buffer = self.pool.allocate(4096, stream=PER_THREAD_DEFAULT_STREAM)
            buffer.fill(4, stream=PER_THREAD_DEFAULT_STREAM)
            seen.append(self.read(buffer, PER_THREAD_DEFAULT_STREAM))
            buffer.close()
            PER_THREAD_DEFAULT_STREAM.sync()

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        self.assertTrue((seen[0] == 4).all())

    def test_threads(self):
        wrong = []

        def work(value):
            device = Device(0)
            device.set_current()
            stream = device.create_stream()
            for _ in range(20):
                with self.pool.allocate(4096, stream=stream) as buffer:
                    buffer.fill(value, stream=stream)
                    if (self.read(buffer, stream) != value).any():
                        wrong.append(value)

        threads = [threading.Thread(target=work, args=[value]) for value in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_timing(self):
        options = EventOptions(timing_enabled=True)
        start = self.stream.record(options=options)
        with self.pool.allocate(MIB, stream=self.stream) as buffer:
            buffer.fill(1, stream=self.stream)
        end = self.stream.record(options=options)
        end.sync()
        self.assertGreaterEqual(end - start, 0)
        self.assertLess(end - start, 10000)
        untimed = self.stream.record()
        untimed.sync()
        with self.assertRaises(RuntimeError):
            untimed - start  # pylint: disable=pointless-statement

    def test_priorities(self):
        least, greatest = done(driver.cuCtxGetStreamPriorityRange())
        self.assertLess(greatest, least)
        stream = self.device.create_stream(options=StreamOptions(priority=greatest))
        self.assertEqual(stream.priority, greatest)
        with self.assertRaises(ValueError):
            self.device.create_stream(options=StreamOptions(priority=greatest - 1))

    def test_no_context(self):
        results = []

        def work():
            results.append(driver.cuStreamCreate(0)[0])
            results.append(driver.cuMemAlloc(16)[0])
            # A created stream brings its own context
            results.append(driver.cuStreamSynchronize(self.stream.handle)[0])

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        self.assertEqual(results, [CODE.CUDA_ERROR_INVALID_CONTEXT, CODE.CUDA_ERROR_INVALID_CONTEXT, CODE.CUDA_SUCCESS])

    def test_events_of_another_device(self):
        peer = self.second_device()
        peer.set_current()
        theirs = peer.create_stream()
        event = done(driver.cuEventCreate(0))
        self.device.set_current()
        self.answers(CODE.CUDA_ERROR_INVALID_HANDLE, driver.cuEventRecord(event, self.stream.handle))
        with Blocked(theirs):
            done(driver.cuEventRecord(event, theirs.handle))
            done(driver.cuStreamWaitEvent(self.stream.handle, event, 0))
            self.answers(CODE.CUDA_ERROR_NOT_READY, driver.cuStreamQuery(self.stream.handle))
        self.stream.sync()
        done(driver.cuEventDestroy(event))


if __name__ == '__main__':
    tap.main()
