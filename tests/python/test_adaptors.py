# SPDX-License-Identifier: LGPL-2.1-or-later
"""Resources built on others, from Python: bound properties, traces, retries, and adaptors that a script writes."""

import gc
import os
import tempfile
import threading

from common import Case, GCuda, GLib, in_thread, iterate, iterate_until, run_script, tap
from gi.repository import Gio

MIB = 1 << 20


class Padding(GCuda.StatisticsMemoryResource):
    """Asks for twice as much."""

    def __init__(self, upstream):
        super().__init__(upstream=upstream)
        self.threads = set()

    def do_allocate_address(self, size, alignment, stream):
        self.threads.add(threading.get_ident())
        return GCuda.StatisticsMemoryResource.do_allocate_address(self, 2 * size, alignment, stream)

    def do_deallocate_address(self, address, size, alignment, stream):
        self.threads.add(threading.get_ident())
        GCuda.StatisticsMemoryResource.do_deallocate_address(self, address, 2 * size, alignment, stream)


class Own(GCuda.MemoryResourceAdaptor):
    """Forwards all, and refuses what is too large."""

    def do_allocate_address(self, size, alignment, stream):
        if size > MIB:
            raise ValueError('too large')
        return GCuda.MemoryResourceAdaptor.do_allocate_address(self, size, alignment, stream)


class Adaptors(Case):
    def test_statistics(self):
        resource = GCuda.StatisticsMemoryResource.new(self.pool)
        notified = []
        resource.connect('notify::current-bytes', lambda *_: notified.append(resource.props.current_bytes))
        buffer = resource.allocate(1000, self.stream)
        buffer.fill(7, 1, self.stream)
        self.assertEqual(buffer.download(self.stream), b'\x07' * 1000)
        statistics = resource.get_statistics()
        self.assertEqual((statistics.get_current_bytes(), statistics.get_total_count()), (1000, 1))
        self.assertEqual(notified, [])
        iterate_until(lambda: notified)
        self.assertEqual(notified, [1000])
        buffer.close()
        self.assertEqual(self.settled_use(), 0)
        self.assertEqual(resource.props.current_bytes, 0)
        self.assertEqual(resource.props.peak_bytes, 1000)
        self.assertEqual(resource.get_upstream(), self.pool)

    def test_collected_with_all_below(self):
        resource = GCuda.LimitingMemoryResource.new(GCuda.StatisticsMemoryResource.new(self.pool), MIB)
        buffer = resource.allocate(4096, self.stream)
        with self.collects(resource, resource.get_upstream()):
            del resource
            gc.collect()
            buffer.close()
            del buffer
            GCuda.reclaim(None)
            gc.collect()

    def test_limit(self):
        resource = GCuda.LimitingMemoryResource.new(self.pool, MIB)
        buffer = resource.allocate(MIB, self.stream)
        with self.fails(GCuda.Error.OUT_OF_MEMORY):
            resource.allocate(1, self.stream)
        resource.props.limit = 2 * MIB
        resource.allocate(MIB, self.stream).close()
        buffer.close()
        self.settled_use()
        self.assertEqual(resource.get_used(), 0)

    def test_retry(self):
        limited = GCuda.LimitingMemoryResource.new(self.pool, MIB)
        resource = GCuda.FailureCallbackMemoryResource.new(limited)
        cache = [resource.allocate(MIB, self.stream)]
        asked = []

        def failed(emitter, size, attempt, error):
            self.assertIs(emitter, resource)
            self.assertTrue(error.matches(GCuda.error_quark(), GCuda.Error.OUT_OF_MEMORY))
            asked.append((size, attempt))
            if not cache:
                return False
            cache.pop().close()
            return True

        handler = resource.connect('allocation-failed', failed)
        buffer = resource.allocate(MIB, self.stream)
        self.assertEqual(asked, [(MIB, 1)])
        with self.fails(GCuda.Error.OUT_OF_MEMORY):
            resource.allocate(MIB, self.stream)
        self.assertEqual(asked[1:], [(MIB, 1)])
        with self.fails(GCuda.Error.WRONG_THREAD):
            in_thread(lambda: resource.allocate(1, self.stream))
        in_thread(buffer.close)
        resource.disconnect(handler)

    def test_aligned_and_bins(self):
        aligned = GCuda.AlignedMemoryResource.new(self.pool, 1 << 16)
        resource = GCuda.BinningMemoryResource.new(aligned)
        self.assertTrue(resource.add_bin(4096, self.pool))
        large = [resource.allocate(4097, self.stream) for _ in range(4)]
        self.assertEqual({buffer.get_address() % (1 << 16) for buffer in large}, {0})
        with self.fails(GCuda.Error.IN_USE):
            resource.add_bin(8192, self.pool)
        with self.fails(GCuda.Error.INVALID_ARGUMENT):
            GCuda.AlignedMemoryResource.new(self.pool, 3)
        with self.assertRaises(TypeError):
            GCuda.AlignedMemoryResource.new(None, 256)

    def test_thread_bound(self):
        resource = GCuda.ThreadBoundMemoryResource.new(self.pool)
        holder = [resource.allocate(4096, self.stream)]
        with self.fails(GCuda.Error.WRONG_THREAD):
            in_thread(lambda: resource.allocate(1, self.stream))
        in_thread(holder.clear)
        self.assertEqual(self.settled_use(), 0)

    def test_subclasses(self):
        padding = Padding(self.pool)
        resource = Own(upstream=padding)
        buffer = resource.allocate(512, self.stream)
        buffer.fill(3, 1, self.stream)
        self.assertEqual(buffer.download(self.stream), b'\x03' * 512)
        self.assertEqual(padding.get_statistics().get_current_bytes(), 1024)
        holder = [buffer]
        del buffer
        in_thread(holder.clear)
        self.assertEqual(self.settled_use(), 0)
        self.assertEqual(padding.get_statistics().get_current_bytes(), 0)
        self.assertEqual(padding.threads, {threading.get_ident()})

    def test_traces(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Gio.File.new_for_path(os.path.join(folder, 'trace'))
            resource = GCuda.LoggingMemoryResource.new(self.pool, file)
            buffers = [resource.allocate(100 + i, self.stream) for i in range(5)]
            for buffer in buffers[:4]:
                buffer.close()
            del buffer, buffers
            counted = GCuda.StatisticsMemoryResource.new(self.pool)
            self.assertTrue(GCuda.replay_trace(file, counted, None))
            self.assertEqual(counted.get_statistics().get_total_count(), 5)
            with open(file.get_path(), 'a', encoding='utf-8') as text:
                text.write('garbage\n')
            with self.fails(GCuda.Error.INVALID_ARGUMENT) as _:
                GCuda.replay_trace(file, counted, None)
            self.assertEqual(counted.get_statistics().get_total_count(), 5)
            with self.assertRaises(GLib.Error) as caught:
                GCuda.LoggingMemoryResource.new(self.pool, Gio.File.new_for_path(os.path.join(folder, 'no', 'trace')))
            self.assertTrue(caught.exception.matches(Gio.io_error_quark(), Gio.IOErrorEnum.NOT_FOUND))

    def test_vfunc_of_what_is_no_adaptor(self):
        class Mistaken(GCuda.MemoryResource):
            """Meant to be a MemoryResourceAdaptor."""
            def do_allocate_address(self, size, alignment, stream):
                return GCuda.MemoryResourceAdaptor.do_allocate_address(self, size, alignment, stream)

            def do_deallocate_address(self, address, size, alignment, stream):
                GCuda.MemoryResourceAdaptor.do_deallocate_address(self, address, size, alignment, stream)

            def do_is_stream_ordered(self):
                return GCuda.MemoryResourceAdaptor.do_is_stream_ordered(self)

        mistaken = Mistaken(device=self.device)
        with self.assertRaises(GLib.Error):
            mistaken.allocate(64, self.stream)
        mistaken.do_deallocate_address(4096, 64, 256, self.stream)
        self.assertFalse(mistaken.do_is_stream_ordered())

    def test_bare(self):
        for kind in (GCuda.StatisticsMemoryResource, GCuda.LimitingMemoryResource, GCuda.LoggingMemoryResource, Own):
            with self.fails(GCuda.Error.INVALID_ARGUMENT):
                kind().allocate(100, self.stream)

    def test_exit(self):
        status, output, complaints = run_script('''
counted = GCuda.StatisticsMemoryResource.new(GCuda.LimitingMemoryResource.new(pool, 1 << 20))
counted.connect('notify::current-bytes', lambda *_: None)
kept = [counted.allocate(4096, stream) for _ in range(3)]
bound = GCuda.ThreadBoundMemoryResource.new(counted)
kept.append(bound.allocate(100, stream))
holder = [bound.allocate(100, stream)]
thread = threading.Thread(target=holder.clear)
thread.start()
thread.join()
print('done')
''')
        self.assertEqual((status, output, complaints), (0, 'done\n', ''))
        iterate()


if __name__ == '__main__':
    tap.main()
