# SPDX-License-Identifier: LGPL-2.1-or-later
"""Garbage collection: whoever drops the last reference, on whichever thread, whenever."""

import gc
import random
import threading

from common import Case, GCuda, GLib, GObject, in_thread, tap


class Collection(Case):
    SIZE = 1 << 20

    def buffer(self, stream=None):
        """A buffer with work pending on it."""
        stream = stream or self.stream
        buffer = self.pool.allocate(self.SIZE, stream)
        for value in range(8):
            buffer.fill(value, 1, stream)
        return buffer

    def test_last_reference(self):
        buffer = self.buffer()
        with self.collects(buffer):
            del buffer

    def test_cycle(self):
        buffer = self.buffer()
        buffer.itself = buffer
        with self.collects(buffer):
            del buffer
            gc.collect()

    def test_cycle_of_many(self):
        buffer, view = self.buffer(), None
        view = buffer.new_view(0, 16)
        buffer.others = [view, self.pool]
        view.others = {'buffer': buffer, 'stream': self.stream}
        with self.collects(buffer, view):
            del buffer, view
            gc.collect()

    def test_closure(self):
        buffer = self.buffer()
        buffer.connect('notify::closed', lambda *_: buffer.get_size())
        closed = buffer.close()
        self.assertTrue(closed)

    def test_in_another_thread(self):
        holder = [self.buffer()]
        with self.collects(holder[0]):
            in_thread(holder.clear)

    def test_cycle_in_another_thread(self):
        buffer = self.buffer()
        buffer.itself = buffer
        with self.collects(buffer):
            del buffer
            in_thread(gc.collect)

    def test_allocated_in_a_thread_that_ended(self):
        made = []
        for stream in (self.stream, GCuda.Stream.new_per_thread_default(self.context),
                       GCuda.Stream.new_legacy_default(self.context)):
            in_thread(lambda s=stream: made.append(self.buffer(s)))
            del stream
        with self.collects(*made):
            made.clear()

    def test_thread_with_a_stream_of_its_own(self):
        made = []

        def work():
            stream = GCuda.Stream.new_for_device(self.device)
            made.append(self.buffer(stream))

        in_thread(work)
        self.assertEqual(made[0].get_size(), self.SIZE)
        self.stream.synchronize()
        with self.collects(made[0]):
            made.clear()

    def test_any_order(self):
        # Each object is kept by those that need it, so the order in which names go away says nothing
        random.seed(1)
        for _ in range(20):
            things = {}
            things['stream'] = GCuda.Stream.new_for_device(self.device)
            things['other'] = GCuda.Stream.new_for_device(self.device)
            things['pool'] = GCuda.DeviceMemoryResource.new_pool(self.device, 0, GCuda.HandleTypes.NONE)
            things['event'] = GCuda.Event.new_for_device(self.device, GCuda.EventFlags.NONE)
            things['buffer'] = things['pool'].allocate(self.SIZE, things['stream'])
            things['view'] = things['buffer'].new_view(16, 16)
            things['target'] = things['pool'].allocate(16, things['other'])
            things['buffer'].fill(3, 1, things['stream'])
            things['event'].record(things['stream'])
            things['other'].wait_event(things['event'])
            things['view'].copy_to(things['target'], things['other'])
            things['view'].set_deallocation_stream(things['other'])
            names = list(things)
            random.shuffle(names)
            with self.collects(*things.values()):
                for name in names:
                    del things[name]

    def test_stream_goes_before_buffer(self):
        stream = GCuda.Stream.new_for_device(self.device)
        buffer = self.buffer(stream)
        with self.collects(stream):
            del stream
        self.device.synchronize()
        self.assertEqual(buffer.download(0, 4, self.stream), b'\7' * 4)

    def test_pool_goes_before_buffer(self):
        pool = GCuda.DeviceMemoryResource.new_pool(self.device, 0, GCuda.HandleTypes.NONE)
        pool.tag = 'mine'
        buffer = pool.allocate(64, self.stream)
        del pool
        gc.collect()
        buffer.fill(1, 1, self.stream)
        self.assertEqual(buffer.download(self.stream), b'\1' * 64)
        self.assertEqual(buffer.get_resource().tag, 'mine', 'the same object, with all that hangs on it')

    def test_attributes(self):
        # An object with attributes is kept together with them as long as anything else keeps it
        buffer = self.buffer()
        buffer.note = ['first', self.stream]
        store = Holder()
        store.props.buffer = buffer
        del buffer
        gc.collect()
        self.assertEqual(store.props.buffer.note[0], 'first')
        with self.collects(store.props.buffer):
            store.props.buffer = None
            gc.collect()

    def test_attributes_in_another_thread(self):
        buffer = self.buffer()
        buffer.note = buffer
        store = Holder()
        store.props.buffer = buffer
        with self.collects(buffer):
            del buffer

            def drop():
                store.props.buffer = None
                gc.collect()

            in_thread(drop)

    def test_threads(self):
        failed = []

        def work(number):
            stream = GCuda.Stream.new_for_device(self.device)
            try:
                for i in range(200):
                    buffer = self.pool.allocate(256 + i, stream)
                    buffer.fill(number, 1, stream)
                    buffer.itself = [buffer, buffer.new_view(0, 16)]
                    if i % 20 == 0 and buffer.download(0, 4, stream) != bytes([number]) * 4:
                        failed.append((number, i))
                    if i % 3 == 0:
                        buffer.close()
            except BaseException as exception:  # pylint: disable=broad-except
                failed.append(exception)

        old = gc.get_threshold()
        gc.set_threshold(7, 3, 3)
        try:
            threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            gc.set_threshold(*old)
        self.assertEqual(failed, [])


class Holder(GObject.Object):
    """Something in C that keeps an object, with no Python in between."""
    buffer = GObject.Property(type=GCuda.Buffer)


class References(Case):
    """What getters return is counted as they say."""

    def check(self, getter, *watched):
        getter()
        before = [each.__grefcount__ for each in watched]
        for _ in range(1000):
            getter()
        gc.collect()
        self.assertEqual([each.__grefcount__ for each in watched], before)

    def test_getters(self):
        buffer = self.pool.allocate(64, self.stream)
        event = GCuda.Event.new_for_device(self.device, GCuda.EventFlags.NONE)
        devices = GCuda.get_devices()
        watched = (buffer, event, self.device, self.stream, self.pool, self.context, devices)
        for getter in (
            buffer.get_resource,
            buffer.get_device,
            lambda: buffer.props.resource,
            lambda: buffer.props.device,
            self.pool.get_device,
            lambda: self.pool.props.device,
            self.stream.get_context,
            self.stream.get_device,
            lambda: (self.stream.props.context, self.stream.props.device),
            event.get_context,
            self.context.get_device,
            self.device.get_primary_context,
            lambda: GCuda.Device.new(0),
            GCuda.get_devices,
            lambda: devices.get_item(0),
            self.device.get_memory_info,
            self.pool.get_statistics,
            GCuda.get_driver_info,
            lambda: buffer.new_view(0, 8),
            lambda: buffer.download(self.stream),
        ):
            self.check(getter, *watched)

    def test_arguments(self):
        buffer = self.pool.allocate(64, self.stream)
        target = self.pool.allocate(64, self.stream)
        event = GCuda.Event.new_for_device(self.device, GCuda.EventFlags.NONE)
        other = GCuda.Stream.new_for_device(self.device)
        data = GLib.Bytes.new(b'12345678')
        watched = (buffer, target, event, self.device, self.stream, self.pool, self.context, other)

        def close_after(made):
            other.wait_stream(self.stream)
            made.close(other)

        for call in (
            lambda: buffer.fill(0, 1, self.stream),
            lambda: buffer.copy_to(target, self.stream),
            lambda: GCuda.Buffer.copy_batch([buffer], [target], self.stream),
            lambda: buffer.upload(0, data, self.stream),
            lambda: event.record(self.stream),
            lambda: self.stream.wait_event(event),
            lambda: self.stream.wait_stream(other),
            lambda: (other.wait_stream(self.stream), buffer.set_deallocation_stream(other)),
            lambda: close_after(self.pool.allocate(64, self.stream)),
            lambda: GCuda.Stream.new_for_device(self.device),
        ):
            self.check(call, *watched)

    def test_failures(self):
        # A call that fails keeps nothing
        buffer = self.pool.allocate(64, self.stream)
        closed = GCuda.Stream.new_for_device(self.device)
        closed.close()
        watched = (buffer, self.device, self.stream, self.pool, self.context, closed)

        def refused(call, *arguments):
            with self.assertRaises(GLib.Error):
                call(*arguments)

        for call in (
            (self.pool.allocate, 64, closed),
            (self.pool.allocate, 1 << 60, self.stream),
            (buffer.new_view, 65, 0),
            (buffer.set_deallocation_stream, closed),
            (buffer.close, closed),
            (GCuda.Buffer.new_for_address, self.device, 0, 8, self.pool, self.stream),
            (buffer.fill, 300, 1, self.stream),
        ):
            self.check(lambda c=call: refused(*c), *watched)


if __name__ == '__main__':
    tap.main()
