# SPDX-License-Identifier: LGPL-2.1-or-later
"""Call-backs into a program: from its main loop, and from nowhere else."""

import contextlib
import gc
import io
import threading
import weakref

from common import Case, GCuda, GLib, can_fail_calls, in_thread, iterate, iterate_until, run_script, simulator, tap


class Something:
    """What a call-back may keep."""


class HostFunctions(Case):
    def test_on_the_thread_of_the_loop(self):
        called = []
        self.assertTrue(self.stream.launch_host_function(lambda: called.append(threading.get_ident())))
        self.stream.synchronize()
        self.assertEqual(called, [], 'never inline, and not without a loop')
        iterate_until(lambda: called)
        iterate()
        self.assertEqual(called, [threading.get_ident()])

    def test_in_order(self):
        called = []
        for i in range(100):
            self.stream.launch_host_function(called.append, i)
        iterate_until(lambda: len(called) == 100)
        self.assertEqual(called, list(range(100)))

    def test_may_use_the_library(self):
        buffer = self.pool.allocate(64, self.stream)
        buffer.fill(6, 1, self.stream)
        seen = []
        self.stream.launch_host_function(lambda: seen.append(buffer.download(self.stream)))
        buffer.fill(7, 1, self.stream)
        iterate_until(lambda: seen)
        self.assertEqual(seen, [b'\7' * 64], 'the stream did not wait for it')
        self.stream.launch_host_function(buffer.close)
        iterate_until(buffer.is_closed)

    def test_launched_in_another_thread(self):
        # The default loop is that of the main thread, whoever asks
        called = []
        in_thread(lambda: self.stream.launch_host_function(lambda: called.append(threading.get_ident())))
        iterate_until(lambda: called)
        self.assertEqual(called, [threading.get_ident()])

    def test_loop_of_another_thread(self):
        def work():
            called = []
            context = GLib.MainContext()
            context.push_thread_default()
            self.stream.launch_host_function(lambda: called.append(threading.get_ident()))
            while not called:
                context.iteration(True)
            context.pop_thread_default()
            return called == [threading.get_ident()]

        self.assertTrue(in_thread(work))

    def test_what_it_keeps_is_let_go(self):
        thing = Something()
        gone = weakref.ref(thing)
        called = []
        self.stream.launch_host_function(lambda kept: called.append(kept is not None), thing)
        del thing
        self.stream.synchronize()
        gc.collect()
        self.assertIsNotNone(gone())
        iterate_until(lambda: called)
        iterate()
        gc.collect()
        self.assertIsNone(gone())

    def test_failure_keeps_nothing(self):
        thing = Something()
        gone = weakref.ref(thing)
        called = []
        closed = GCuda.Stream.new_for_device(self.device)
        closed.close()
        with self.fails(GCuda.Error.CLOSED):
            closed.launch_host_function(lambda kept: called.append(kept), thing)
        iterate()
        self.assertEqual(called, [])
        del thing
        gc.collect()
        self.assertIsNone(gone())

    def test_exception(self):
        called = []

        def broken():
            called.append(True)
            raise ValueError('a mistake')

        text = io.StringIO()
        with contextlib.redirect_stderr(text):
            self.stream.launch_host_function(broken)
            self.stream.launch_host_function(called.append, False)
            iterate_until(lambda: len(called) == 2)
        self.assertEqual(called, [True, False])
        self.assertEqual(text.getvalue().count('ValueError: a mistake'), 1)

    def test_stream_is_dropped(self):
        called = []
        stream = GCuda.Stream.new_for_device(self.device)
        stream.launch_host_function(called.append, True)
        with self.collects(stream):
            del stream
            gc.collect()
            iterate_until(lambda: called)
            iterate()

    def test_without_a_loop(self):
        status, output, complaints = run_script('''
stream.launch_host_function(lambda: print('called'))
stream.synchronize()
GCuda.reclaim(None)
print('end')
''')
        self.assertEqual((status, output, complaints), (0, 'end\n', ''))


class TeardownHandler(Case):
    def tearDown(self):
        GCuda.set_teardown_handler(None)
        iterate()
        super().tearDown()

    def test_set_and_unset(self):
        thing = Something()
        gone = weakref.ref(thing)
        GCuda.set_teardown_handler(lambda *arguments: arguments[-1], thing)
        del thing
        gc.collect()
        self.assertIsNotNone(gone())
        GCuda.set_teardown_handler(lambda *_: None)
        GCuda.set_teardown_handler(None)
        GCuda.set_teardown_handler(None)
        iterate()
        gc.collect()
        self.assertIsNone(gone())

    def test_is_not_called_for_nothing(self):
        called = []
        GCuda.set_teardown_handler(lambda *arguments: called.append(arguments))
        self.pool.allocate(64, self.stream).close()
        with self.fails(GCuda.Error.OUT_OF_MEMORY):
            self.pool.allocate(1 << 60, self.stream)
        self.settled_use()
        self.assertEqual(called, [])

    def test_reports(self):
        if not can_fail_calls():
            self.skipTest('no call of a real driver fails on demand, where nothing passes them on')
        status, output, complaints = run_script('''
import ctypes
def handler(error, driver_call, handle, leaked, *rest):
    print(error.matches(GCuda.error_quark(), GCuda.Error.UNKNOWN), driver_call, handle == address, leaked, *rest,
          threading.get_ident() == main)
main = threading.get_ident()
GCuda.set_teardown_handler(handler, 'data')
buffer = pool.allocate(64, stream)
address = buffer.get_address()
simulator = ctypes.CDLL(GCuda.get_driver_info().get_path())
assert simulator.gcudasim_fail(b'cuMemFreeAsync:1=UNKNOWN')
holder = [buffer]
del buffer
thread = threading.Thread(target=holder.clear)
thread.start()
thread.join()
print('not yet')
while GLib.MainContext.default().iteration(False):
    pass
pool.allocate(64, stream).close()
while GLib.MainContext.default().iteration(False):
    pass
''')
        self.assertEqual((status, output), (0, 'not yet\nTrue cuMemFreeAsync True 64 data True\n'))
        lines = [line for line in complaints.splitlines() if line]
        self.assertEqual(len(lines), 1, complaints)
        for word in ('GCuda-WARNING', 'CUDA_ERROR_UNKNOWN', 'cuMemFreeAsync', '64 bytes leaked'):
            self.assertIn(word, lines[0])

    def test_reported_without_a_handler_or_loop(self):
        if not can_fail_calls():
            self.skipTest('no call of a real driver fails on demand, where nothing passes them on')
        status, output, complaints = run_script('''
import ctypes
GCuda.set_teardown_handler(lambda *_: print('called'))
buffer = pool.allocate(64, stream)
simulator = ctypes.CDLL(GCuda.get_driver_info().get_path())
assert simulator.gcudasim_fail(b'cuMemFreeAsync:1=UNKNOWN')
buffer.close()
buffer.close()
''')
        self.assertEqual((status, output), (0, ''))
        self.assertEqual(complaints.count('WARNING'), 1, complaints)


class Injected(Case):
    """What a failing driver leaves behind: nothing but an error."""

    def setUp(self):
        super().setUp()
        if not can_fail_calls():
            self.skipTest('no call of a real driver fails on demand, where nothing passes them on')

    def tearDown(self):
        if can_fail_calls():
            simulator().gcudasim_fail(None)
        super().tearDown()

    def inject(self, spec):
        self.assertTrue(simulator().gcudasim_fail(spec.encode()))

    def test_allocate(self):
        self.inject('cuMemAllocFromPoolAsync:1=OUT_OF_MEMORY')
        with self.fails(GCuda.Error.OUT_OF_MEMORY):
            self.pool.allocate(64, self.stream)
        self.assertTrue(self.pool.allocate(64, self.stream).close())

    def test_unknown_numbers_are_kept(self):
        self.inject('cuMemAllocFromPoolAsync:1=4242')
        with self.assertRaises(GLib.Error) as caught:
            self.pool.allocate(64, self.stream)
        self.assertEqual(caught.exception.code, 4242)
        self.assertTrue(caught.exception.matches(GCuda.error_quark(), 4242))

    def test_fill_and_stream(self):
        buffer = self.pool.allocate(64, self.stream)
        self.inject('cuMemsetD8Async:1=INVALID_VALUE,cuStreamCreateWithPriority:1=OUT_OF_MEMORY')
        with self.fails(GCuda.Error.INVALID_VALUE):
            buffer.fill(0, 1, self.stream)
        with self.fails(GCuda.Error.OUT_OF_MEMORY):
            GCuda.Stream.new_for_device(self.device)
        self.assertTrue(buffer.fill(0, 1, self.stream))


if __name__ == '__main__':
    tap.main()
