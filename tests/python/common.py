# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the Python tests share. They run unchanged on the simulated driver and on a real one."""

import contextlib
import ctypes
import gc
import os
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'introspection', 'tests'))

import tap  # noqa: E402, F401  pylint: disable=unused-import

import gi  # noqa: E402
gi.require_version('GCuda', '1.0')
from gi.repository import GCuda, GLib, GObject  # noqa: E402, F401  pylint: disable=unused-import

LONG = os.environ.get('GCUDA_TEST_LONG') == '1'

# Nothing that a script does may be a critical: one ends the test program.
GLib.log_set_always_fatal(GLib.LogLevelFlags.LEVEL_ERROR | GLib.LogLevelFlags.LEVEL_CRITICAL)


def is_simulated():
    return GCuda.get_driver_info().is_simulated()


def simulator():
    """The simulated driver's control functions."""
    return ctypes.CDLL(GCuda.get_driver_info().get_path())


def can_fail_calls():
    """Whether calls fail on demand: of the simulated driver, and of a real one whose calls are checked."""
    return hasattr(simulator(), 'gcudasim_fail')


def in_thread(function):
    """Runs a function in a thread of its own; returns what it returns, or raises what it raises."""
    results = []

    def run():
        try:
            results.append((function(), None))
        except BaseException as exception:  # pylint: disable=broad-except
            results.append((None, exception))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    result, exception = results.pop()
    if exception is not None:
        raise exception
    return result


def iterate():
    """Runs what is ready in the main loop."""
    while GLib.MainContext.default().iteration(False):
        pass


def iterate_until(condition):
    """Runs the main loop until something is so; ten seconds at most."""
    late = []
    source = GLib.timeout_add_seconds(10, lambda: late.append(True) or GLib.SOURCE_REMOVE)
    while not condition():
        GLib.MainContext.default().iteration(True)
        if late:
            raise AssertionError('waited for ten seconds')
    GLib.source_remove(source)


class Case(unittest.TestCase):
    """A device with a stream and a pool. The end checks that nothing is left of what the test allocated."""

    def setUp(self):
        devices = GCuda.get_devices()
        if not len(devices):
            self.skipTest('no CUDA device')
        self.device = devices[0]
        self.context = self.device.get_primary_context()
        self.stream = GCuda.Stream.new_for_device(self.device)
        self.pool = GCuda.DeviceMemoryResource.new_pool(self.device, 0, GCuda.HandleTypes.NONE)

    def tearDown(self):
        self.assert_use(0)

    def assert_use(self, expected):
        """The pool's used bytes, in the end: the driver lets go what a graph kept when it gets to it."""
        deadline = time.monotonic() + 10
        while self.settled_use() != expected and time.monotonic() < deadline:
            time.sleep(0.001)
        self.assertEqual(self.settled_use(), expected, 'bytes in use in the pool')

    def settled_use(self):
        """Waits for the GPU and all that was released; then the pool's used bytes."""
        gc.collect()
        self.device.synchronize()
        # The owners of foreign memory are dropped by the main loop, and may own memory themselves
        for _ in range(2):
            GCuda.reclaim(None)
            iterate()
        self.device.synchronize()
        return self.pool.get_statistics().get_used()

    @contextlib.contextmanager
    def fails(self, code):
        """What is done in this context fails with an error of the library."""
        with self.assertRaises(GLib.Error) as caught:
            yield
        error = caught.exception
        self.assertTrue(error.matches(GCuda.error_quark(), code), f'{error} has code {code}')
        self.assertGreater(len(error.message), 8)

    @contextlib.contextmanager
    def collects(self, *objects):
        """What is done in this context drops the last references of objects."""
        gone = []
        for each in objects:
            each.weak_ref(gone.append, True)
        count = len(objects)
        del objects, each
        yield
        self.assertEqual(len(gone), count)


PRELUDE = '''
import gc, os, sys, threading
import gi
gi.require_version('GCuda', '1.0')
from gi.repository import GCuda, GLib
device = GCuda.Device.new(0)
stream = GCuda.Stream.new_for_device(device)
pool = GCuda.DeviceMemoryResource.new_pool(device, 0, GCuda.HandleTypes.NONE)
'''


def run_script(script, prelude=PRELUDE):
    """Runs a program of its own: its exit status, what it printed, and what it complained of."""
    # Newer versions of Python warn of each fork of a process with threads
    command = [sys.executable, '-W', 'ignore:.*fork:DeprecationWarning', '-c', prelude + script]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    return result.returncode, result.stdout, result.stderr
