# SPDX-License-Identifier: LGPL-2.1-or-later
"""Graphs, from Python: captured and made of nodes; what they keep, whoever collects what."""

import gc
import threading
import unittest
import weakref

from common import Case, GCuda, in_thread, iterate_until, run_script, tap

SIZE = 1 << 16
MODES = (GCuda.CaptureMode.GLOBAL, GCuda.CaptureMode.THREAD_LOCAL, GCuda.CaptureMode.RELAXED)


class Something:
    """What a call-back may keep."""


class Graphs(Case):
    def allocate(self):
        return self.pool.allocate(SIZE, self.stream)

    def builder(self, mode=GCuda.CaptureMode.GLOBAL):
        self.stream.synchronize()
        return GCuda.GraphBuilder.new(self.context, mode)

    def launch(self, graph, result):
        result.fill(0, 1, self.stream)
        self.assertTrue(graph.launch(self.stream))
        values = set(result.download(self.stream))
        self.assertEqual(len(values), 1)
        return values.pop()

    def test_capture(self):
        for mode in MODES:
            a, result = self.allocate(), self.allocate()
            with self.builder(mode) as builder:
                self.assertIsInstance(builder, GCuda.Stream)
                self.assertTrue(builder.is_capturing())
                self.assertEqual(builder.__cuda_stream__(), (0, builder.get_handle()))
                a.fill(7, 1, builder)
                a.copy_to(result, builder)
                definition = builder.finish()
                self.assertTrue(builder.is_closed())
            graph = definition.instantiate(GCuda.GraphFlags.NONE, None)
            for _ in range(3):
                self.assertEqual(self.launch(graph, result), 7)

    def test_fork(self):
        a, b, result = self.allocate(), self.allocate(), self.allocate()
        builder = self.builder()
        a.fill(1, 1, builder)
        other = builder.fork()
        a.copy_to(b, other)
        with self.fails(GCuda.Error.STREAM_CAPTURE_UNJOINED):
            builder.finish()
        builder.join(other)
        self.assertTrue(other.is_closed())
        b.copy_to(result, builder)
        graph = builder.finish().instantiate(0, self.stream)
        self.assertEqual(self.launch(graph, result), 1)

    def test_refused(self):
        builder = self.builder()
        with self.fails(GCuda.Error.CAPTURING):
            self.pool.allocate(SIZE, builder)
        with self.fails(GCuda.Error.CAPTURING):
            builder.synchronize()
        with self.fails(GCuda.Error.NOT_CAPTURING):
            GCuda.GraphMemoryResource.new(self.device).allocate(SIZE, self.stream)
        self.assertTrue(builder.is_capturing())
        definition = builder.finish()
        for method in (builder.finish, builder.fork, builder.get_last_node):
            with self.fails(GCuda.Error.CLOSED):
                method()
        with self.assertRaises(TypeError):
            builder.join(None)
        with self.assertRaises(TypeError):
            definition.add_graph([], None)
        graph = definition.instantiate(0, None)
        graph.close()
        self.assertTrue(graph.is_closed())
        with self.fails(GCuda.Error.CLOSED):
            graph.launch(self.stream)

    def test_graph_memory(self):
        memory = GCuda.GraphMemoryResource.new(self.device)
        result = self.allocate()
        builder = self.builder()
        with memory.allocate(SIZE, builder) as buffer:
            buffer.fill(3, 1, builder)
            buffer.copy_to(result, builder)
        graph = builder.finish().instantiate(0, None)
        for _ in range(3):
            self.assertEqual(self.launch(graph, result), 3)
        self.assertGreaterEqual(memory.get_statistics().get_reserved(), SIZE)

    def test_nodes(self):
        definition = GCuda.GraphDefinition.new(self.context)
        result = self.allocate()
        allocation, buffer = definition.add_allocation([], SIZE, self.stream)
        fill = definition.add_fill([allocation], buffer, 0, SIZE, 4, 1)
        copy = definition.add_copy([fill], buffer, 0, result, 0, SIZE)
        definition.add_free([copy], buffer)
        empty = definition.add_empty([])
        definition.add_dependency(empty, copy)
        kinds = sorted(node.get_kind() for node in definition.get_nodes())
        kind = GCuda.GraphNodeKind
        self.assertEqual(kinds, sorted([kind.ALLOCATION, kind.FILL, kind.COPY, kind.FREE, kind.EMPTY]))
        graph = definition.instantiate(0, None)
        del buffer, definition
        for _ in range(2):
            self.assertEqual(self.launch(graph, result), 4)

    def fill_and_copy(self, source, result, captured):
        """A graph of these two, and its nodes."""
        if captured:
            builder = self.builder()
            source.fill(1, 1, builder)
            fill = builder.get_last_node()
            source.copy_to(result, builder)
            copy = builder.get_last_node()
            return builder.finish().instantiate(0, None), fill, copy
        definition = GCuda.GraphDefinition.new(self.context)
        fill = definition.add_fill([], source, 0, SIZE, 1, 1)
        copy = definition.add_copy([fill], source, 0, result, 0, SIZE)
        return definition.instantiate(0, None), fill, copy

    def test_update(self):
        self.check_update(False)

    def test_update_captured(self):
        self.check_update(True)

    def check_update(self, captured):
        a, b, result = self.allocate(), self.allocate(), self.allocate()
        graph, fill, copy = self.fill_and_copy(a, result, captured)
        del a
        self.assertEqual(self.launch(graph, result), 1)
        graph.update_fill(fill, b, 0, SIZE, 2, 1)
        graph.update_copy(copy, b, 0, result, 0, SIZE)
        del b
        self.assertEqual(self.launch(graph, result), 2)
        self.assert_use(2 * SIZE)
        other = GCuda.GraphDefinition.new(self.context)
        other.add_empty([])
        with self.fails(GCuda.Error.GRAPH_EXEC_UPDATE_FAILURE):
            graph.update(other)
        self.assertEqual(self.launch(graph, result), 2)

    def filled(self, count):
        """Buffers that each have another value, to be used in a capture: there is no allocating in one."""
        buffers = [self.allocate() for _ in range(count)]
        for value, buffer in enumerate(buffers):
            buffer.fill(value, 1, self.stream)
        return buffers

    def test_keeps_what_was_collected(self):
        result = self.allocate()
        scratch = self.filled(8)
        builder = self.builder()
        for buffer in scratch:
            buffer.copy_to(result, builder)
            buffer.itself = buffer
        graph = builder.finish().instantiate(0, None)
        del scratch, buffer, builder
        gc.collect()
        others = self.filled(100)
        for _ in range(3):
            self.assertEqual(self.launch(graph, result), 7)
        del others

    def test_host_functions(self):
        called = []
        thing = Something()
        gone = weakref.ref(thing)
        builder = self.builder()
        builder.launch_host_function(lambda kept: called.append(kept is not None), thing)
        definition = builder.finish()
        definition.add_host_function([], called.append, 'node')
        graph = definition.instantiate(0, None)
        del thing, builder, definition
        gc.collect()
        for _ in range(3):
            graph.launch(self.stream)
        iterate_until(lambda: len(called) == 6)
        self.assertEqual(sorted(map(str, called)), ['True'] * 3 + ['node'] * 3)
        self.assertIsNotNone(gone())
        graph.close()
        iterate_until(lambda: gone() is None)

    def test_builder_in_a_cycle(self):
        buffers = self.filled(8)
        while buffers:
            builder = self.builder()
            builder.itself = builder
            buffers.pop().fill(1, 1, builder)
            builder.launch_host_function(lambda: None)
            with self.collects(builder):
                del builder
                gc.collect()

    def test_dropped_by_a_thread(self):
        buffer = self.allocate()
        for mode in MODES:
            builders = [self.builder(mode)]
            buffer.fill(1, 1, builders[0])
            in_thread(builders.clear)
            # This thread ends it
            GCuda.reclaim(None)
            self.stream.synchronize()
        definition = GCuda.GraphDefinition.new(self.context)
        definition.add_fill([], buffer, 0, SIZE, 1, 1)
        graphs = [definition.instantiate(0, None)]
        graphs[0].launch(self.stream)
        del definition
        in_thread(graphs.clear)

    def test_collected_during_a_capture(self):
        """Whatever is dropped while another thread captures, that goes on."""
        capturing, dropped = threading.Event(), threading.Event()
        legacy = GCuda.Stream.new_legacy_default(self.context)
        buffer = self.allocate()
        cycle = [self.pool.allocate(SIZE, legacy), self.pool.allocate(SIZE, self.stream)]
        cycle.append(cycle)
        self.device.synchronize()

        def capture():
            builder = GCuda.GraphBuilder.new(self.context, GCuda.CaptureMode.GLOBAL)
            buffer.fill(5, 1, builder)
            capturing.set()
            dropped.wait()
            return builder.finish()

        results = []
        thread = threading.Thread(target=lambda: results.append(capture()))
        thread.start()
        capturing.wait()
        del cycle
        gc.collect()
        dropped.set()
        thread.join()
        graph = results.pop().instantiate(0, None)
        graph.launch(self.stream)
        self.assertEqual(set(buffer.download(self.stream)), {5})


class Ends(unittest.TestCase):
    """Programs that end with graphs, captures and launches: with 0, and without complaints."""

    SCRIPTS = (
        '''
buffer = pool.allocate(1 << 20, stream)
stream.synchronize()
builder = GCuda.GraphBuilder.new(stream.get_context(), GCuda.CaptureMode.GLOBAL)
buffer.fill(1, 1, builder)
buffer.note = builder.note = [buffer, builder]
''',
        '''
buffer = pool.allocate(1 << 20, stream)
definition = GCuda.GraphDefinition.new(stream.get_context())
definition.note = definition
definition.add_fill([], buffer, 0, 1 << 20, 1, 1)
definition.add_host_function([], lambda: buffer)
graph = definition.instantiate(0, None)
buffer.note = graph
for _ in range(16):
    graph.launch(stream)
''',
        '''
buffer = pool.allocate(1 << 20, stream)
definition = GCuda.GraphDefinition.new(stream.get_context())
definition.add_fill([], buffer, 0, 1 << 20, 1, 1)
for _ in range(16):
    definition.instantiate(0, None).launch(stream)
del definition, buffer
''',
    )

    def test_ends(self):
        for script in self.SCRIPTS:
            for _ in range(5):
                self.assertEqual(run_script(script), (0, '', ''))


if __name__ == '__main__':
    tap.main()
