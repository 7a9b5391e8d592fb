# SPDX-License-Identifier: LGPL-2.1-or-later
"""Memory resources written in Python."""

import contextlib
import gc
import io
import sys
import threading

from common import Case, GCuda, GLib, in_thread, iterate, iterate_until, tap


class Forwarding(GCuda.MemoryResource):
    """Takes its memory from another resource, and counts."""

    def __init__(self, upstream):
        super().__init__(device=upstream.get_device())
        self.upstream = upstream
        self.live = {}
        self.allocated = 0
        self.deallocated = 0
        self.threads = set()

    def do_allocate_address(self, size, alignment, stream):
        address = self.upstream.allocate_address(size, alignment, stream)
        self.live[address] = (size, alignment)
        self.allocated += 1
        self.threads.add(threading.get_ident())
        return address

    def do_deallocate_address(self, address, size, alignment, stream):
        assert self.live.pop(address) == (size, alignment)
        self.upstream.deallocate_address(address, size, alignment, stream)
        self.deallocated += 1
        self.threads.add(threading.get_ident())


class Ordered(Forwarding):
    """Its upstream frees in stream order, and so does it."""

    def do_is_stream_ordered(self):
        return True


class Failing(Ordered):
    """Raises, or returns what it is told."""

    def __init__(self, upstream, answer=None, on_free=None):
        super().__init__(upstream)
        self.answer = answer
        self.on_free = on_free

    def do_allocate_address(self, size, alignment, stream):
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.on_free is None:
            return self.answer
        return super().do_allocate_address(size, alignment, stream)

    def do_deallocate_address(self, address, size, alignment, stream):
        super().do_deallocate_address(address, size, alignment, stream)
        raise self.on_free


class Incomplete(GCuda.MemoryResource):
    """Implements nothing."""


class Scripted(Case):
    def setUp(self):
        super().setUp()
        self.resources = (Forwarding(self.pool), Ordered(self.pool))

    def test_forwarding(self):
        for resource in self.resources:
            self.assertIs(resource.get_device(), self.device)
            self.assertTrue(resource.is_device_accessible())
            self.assertFalse(resource.is_host_accessible())
            buffer = resource.allocate(1000, self.stream)
            self.assertIs(buffer.get_resource(), resource)
            self.assertIs(buffer.get_device(), self.device)
            self.assertEqual(resource.live, {buffer.get_address(): (1000, 256)})
            buffer.fill(5, 1, self.stream)
            self.assertEqual(buffer.download(self.stream), b'\5' * 1000)
            self.assertTrue(buffer.close())
            GCuda.reclaim(None)
            self.assertEqual((resource.live, resource.allocated, resource.deallocated), ({}, 1, 1))
            self.assertGreaterEqual(self.pool.get_statistics().get_used_high(), 1000)

    def test_properties(self):
        resource = Incomplete(device=self.device, host_accessible=True, device_accessible=False)
        self.assertTrue(resource.is_host_accessible())
        self.assertFalse(resource.is_device_accessible())
        self.assertIsNone(Incomplete().get_device())

    def test_size_zero_never_gets_there(self):
        for resource in self.resources:
            buffer = resource.allocate(0, self.stream)
            self.assertEqual(buffer.get_address(), 0)
            del buffer
            GCuda.reclaim(None)
            self.assertEqual((resource.allocated, resource.deallocated), (0, 0))

    def test_addresses(self):
        for resource in self.resources:
            address = resource.allocate_address(100, 16, self.stream)
            self.assertEqual(resource.live, {address: (100, 16)})
            self.assertTrue(resource.deallocate_address(address, 100, 16, self.stream))
            self.assertEqual(resource.live, {})
            address = resource.allocate_address(100, 0, self.stream)
            self.assertEqual(resource.live, {address: (100, 256)}, 'no alignment is the usual one')
            buffer = resource.adopt_address(address, 100, self.stream)
            self.assertEqual(buffer.get_address(), address)
            buffer.close()
            GCuda.reclaim(None)
            self.assertEqual(resource.live, {})

    def test_views_keep_the_memory(self):
        for resource in self.resources:
            buffer = resource.allocate(64, self.stream)
            view = buffer.new_view(0, 8)
            buffer.close()
            GCuda.reclaim(None)
            self.assertEqual(resource.deallocated, 0)
            del view
            GCuda.reclaim(None)
            self.assertEqual(resource.deallocated, 1)

    def test_one_on_another(self):
        outer = Ordered(self.resources[1])
        buffer = outer.allocate(64, self.stream)
        self.assertEqual((outer.live, self.resources[1].live), ({buffer.get_address(): (64, 256)},) * 2)
        buffer.close()
        GCuda.reclaim(None)
        self.assertEqual((outer.live, self.resources[1].live), ({}, {}))

    def test_recipe(self):
        other = GCuda.Stream.new_for_device(self.device)
        handles = []

        class Watching(Ordered):
            def do_deallocate_address(self, address, size, alignment, stream):
                handles.append(stream.get_handle())
                super().do_deallocate_address(address, size, alignment, stream)

        resource = Watching(self.pool)
        for close in (lambda buffer: buffer.close(), lambda buffer: buffer.close(other),
                      lambda buffer: buffer.set_deallocation_stream(other)):
            buffer = resource.allocate(64, self.stream)
            other.wait_stream(self.stream)
            close(buffer)
            del buffer
            GCuda.reclaim(None)
        self.assertEqual(handles, [self.stream.get_handle(), other.get_handle(), other.get_handle()])

    def test_cycle(self):
        resource = Ordered(self.pool)
        buffer = resource.allocate(64, self.stream)
        # Python sees these cycles. It can't see that a buffer keeps its resource: a resource must not keep its buffers.
        buffer.around = [buffer, resource]
        resource.itself = resource
        live = resource.live
        with self.collects(buffer, resource):
            del buffer, resource
            gc.collect()
            # The resource can go when its memory was given back
            GCuda.reclaim(None)
            gc.collect()
        self.assertEqual(live, {})

    def test_allocates_while_it_deallocates(self):
        class Nested(Ordered):
            left = 3

            def do_deallocate_address(self, address, size, alignment, stream):
                super().do_deallocate_address(address, size, alignment, stream)
                if self.left:
                    self.left -= 1
                    self.allocate(size, stream).close()

        resource = Nested(self.pool)
        resource.allocate(64, self.stream).close()
        GCuda.reclaim(None)
        self.assertEqual((resource.allocated, resource.deallocated, resource.live), (4, 4, {}))


class Failures(Case):
    @contextlib.contextmanager
    def complains(self, of=None):
        """What is done in this context prints one traceback, or nothing."""
        text = io.StringIO()
        with contextlib.redirect_stderr(text):
            yield
        if of is None:
            self.assertEqual(text.getvalue(), '')
        else:
            self.assertEqual(text.getvalue().count(of), 1, text.getvalue())

    def test_error_in_allocate(self):
        error = GLib.Error.new_literal(GCuda.error_quark(), 'there is no more', GCuda.Error.OUT_OF_MEMORY)
        resource = Failing(self.pool, answer=error)
        with self.complains(), self.fails(GCuda.Error.OUT_OF_MEMORY):
            resource.allocate(64, self.stream)
        with self.complains(), self.fails(GCuda.Error.OUT_OF_MEMORY):
            resource.allocate_address(64, 0, self.stream)

    def test_upstream_error_in_allocate(self):
        resource = Ordered(self.pool)
        with self.complains(), self.fails(GCuda.Error.OUT_OF_MEMORY):
            resource.allocate(1 << 60, self.stream)
        self.assertEqual(resource.live, {})

    def test_exception_in_allocate(self):
        resource = Failing(self.pool, answer=ValueError('a mistake'))
        with self.complains('ValueError: a mistake'), self.fails(GCuda.Error.RESOURCE_FAILED):
            resource.allocate(64, self.stream)

    def test_no_address(self):
        with self.complains(), self.fails(GCuda.Error.RESOURCE_FAILED):
            Failing(self.pool, answer=0).allocate(64, self.stream)

    def test_wrong_types(self):
        for answer, complaint in ((None, 'TypeError'), ('text', 'TypeError'), (-1, 'OverflowError'), (1 << 64, 'OverflowError')):
            with self.subTest(answer=answer), self.complains(complaint), self.fails(GCuda.Error.RESOURCE_FAILED):
                Failing(self.pool, answer=answer).allocate(64, self.stream)

    def test_incomplete(self):
        with self.fails(GCuda.Error.RESOURCE_FAILED):
            Incomplete().allocate(64, self.stream)
        with self.fails(GCuda.Error.RESOURCE_FAILED):
            Incomplete().deallocate_address(256, 64, 0, self.stream)
        self.assertEqual(Incomplete().allocate(0, self.stream).get_size(), 0)

    def test_failures_keep_nothing(self):
        resource = Failing(self.pool, answer=0)
        stream = GCuda.Stream.new_for_device(self.device)
        with self.fails(GCuda.Error.RESOURCE_FAILED):
            resource.allocate(64, stream)
        with self.collects(resource, stream):
            del resource, stream
            gc.collect()

    def test_exception_in_deallocate(self):
        for exception, complaint in (
            (ValueError('a mistake'), 'ValueError: a mistake'),
            (GLib.Error.new_literal(GCuda.error_quark(), 'a mistake', GCuda.Error.UNKNOWN), 'a mistake'),
        ):
            resource = Failing(self.pool, on_free=exception)
            stream = GCuda.Stream.new_for_device(self.device)
            closed, dropped = resource.allocate(64, stream), resource.allocate(64, stream)
            with self.complains(complaint):
                self.assertTrue(closed.close())
                GCuda.reclaim(None)
            self.assertTrue(closed.is_closed())
            with self.complains():
                self.assertTrue(closed.close(), 'closed twice')
                GCuda.reclaim(None)
            self.assertEqual((resource.deallocated, len(resource.live)), (1, 1))
            with self.complains(complaint):
                del dropped
                GCuda.reclaim(None)
            self.assertEqual(resource.live, {})
            # Python keeps what it printed last, for debuggers
            exception.__traceback__ = sys.last_traceback = sys.last_value = None
            with self.collects(resource, stream, closed):
                del resource, stream, closed
                gc.collect()

    def test_exception_in_is_stream_ordered(self):
        class Undecided(Forwarding):
            def do_is_stream_ordered(self):
                raise ValueError('which?')

        resource = Undecided(self.pool)
        with self.complains('ValueError: which?'):
            buffer = resource.allocate(64, self.stream)
        buffer.close()
        GCuda.reclaim(None)
        self.assertEqual(resource.deallocated, 1, 'it is not ordered, then')


class Threads(Case):
    def setUp(self):
        super().setUp()
        self.resource = Ordered(self.pool)
        self.slow = Forwarding(self.pool)

    def drop_in_thread(self, resource):
        holder = [resource.allocate(64, self.stream)]
        holder[0].fill(1, 1, self.stream)
        in_thread(holder.clear)
        self.assertEqual(resource.deallocated, 0, 'it is not called on another thread')

    def check_thread(self):
        for resource in (self.resource, self.slow):
            self.assertLessEqual(resource.threads, {threading.get_ident()})

    def test_other_thread_is_refused(self):
        def refused():
            for resource in (self.resource, self.slow):
                for call in (
                    lambda: resource.allocate(64, self.stream),
                    lambda: resource.allocate_address(64, 0, self.stream),
                    lambda: resource.deallocate_address(256, 64, 0, self.stream),
                    lambda: resource.adopt_address(256, 64, self.stream),
                ):
                    with self.fails(GCuda.Error.WRONG_THREAD):
                        call()

        in_thread(refused)
        self.assertEqual((self.resource.allocated, self.slow.allocated), (0, 0))

    def test_given_back_by_the_main_loop(self):
        for resource in (self.resource, self.slow):
            self.drop_in_thread(resource)
            iterate_until(lambda: resource.deallocated)  # pylint: disable=cell-var-from-loop
            self.assertEqual(resource.live, {})
        self.check_thread()

    def test_given_back_by_reclaim(self):
        for resource in (self.resource, self.slow):
            self.drop_in_thread(resource)
            in_thread(lambda: GCuda.reclaim(None))
            self.assertEqual(resource.deallocated, 0, 'not by a reclaim on another thread')
            GCuda.reclaim(None)
            self.assertEqual(resource.live, {})
        self.check_thread()

    def test_given_back_by_allocate(self):
        self.drop_in_thread(self.resource)
        buffer = self.resource.allocate(64, self.stream)
        self.assertEqual(self.resource.live, {buffer.get_address(): (64, 256)})
        self.check_thread()

    def test_given_back_by_close(self):
        buffer = self.resource.allocate(64, self.stream)
        self.drop_in_thread(self.resource)
        buffer.close()
        self.assertEqual(self.resource.live, {})
        self.check_thread()

    def test_closed_in_another_thread(self):
        buffer = self.resource.allocate(64, self.stream)
        in_thread(buffer.close)
        self.assertTrue(buffer.is_closed())
        self.assertEqual(self.resource.deallocated, 0)
        GCuda.reclaim(None)
        self.assertEqual(self.resource.live, {})
        self.check_thread()

    def test_cycle_collected_in_another_thread(self):
        buffer = self.resource.allocate(64, self.stream)
        buffer.itself = buffer
        del buffer
        in_thread(gc.collect)
        GCuda.reclaim(None)
        self.assertEqual(self.resource.live, {})
        self.check_thread()

    def test_never_from_a_finalizer(self):
        buffer = self.resource.allocate(64, self.stream)
        del buffer
        self.assertEqual(self.resource.deallocated, 0)
        iterate()
        self.assertEqual(self.resource.live, {})

    def test_resource_of_a_thread_with_a_loop_of_its_own(self):
        ready, finish = threading.Event(), threading.Event()
        made = {}

        def work():
            context = GLib.MainContext()
            context.push_thread_default()
            resource = made['resource'] = Ordered(self.pool)
            made['buffer'] = resource.allocate(64, self.stream)
            ready.set()
            finish.wait()
            while resource.live:
                context.iteration(True)
            made['threads'] = resource.threads == {threading.get_ident()}
            context.pop_thread_default()

        thread = threading.Thread(target=work)
        thread.start()
        ready.wait()
        with self.fails(GCuda.Error.WRONG_THREAD):
            made['resource'].allocate(64, self.stream)
        del made['buffer']
        iterate()
        GCuda.reclaim(None)
        self.assertEqual(made['resource'].deallocated, 0)
        finish.set()
        thread.join()
        self.assertTrue(made['threads'])
        self.assertEqual(made['resource'].live, {})


if __name__ == '__main__':
    tap.main()
