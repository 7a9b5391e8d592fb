# SPDX-License-Identifier: LGPL-2.1-or-later
"""Graphs with memory: cuda.core's GraphMemoryResource, builder and definition. Without kernels, the nodes are fills, copies,
calls of the host, allocations, events and child graphs."""

import os
import tempfile
import unittest

from common import CODE, CUDA_13, MIB, Case, array, done, driver, tap
from cuda.core import DeviceMemoryResource, DeviceMemoryResourceOptions, GraphMemoryResource
from cuda.core.graph import GraphBuilder, GraphCompleteOptions, GraphDefinition

SIZE = 64 * 1024


class Graphs(Case):
    def setUp(self):
        super().setUp()
        self.pool = DeviceMemoryResource(self.device, DeviceMemoryResourceOptions(max_size=64 * MIB))
        self.graph_memory = GraphMemoryResource(self.device)
        self.result = self.pinned.allocate(SIZE, stream=self.stream)
        array(self.result)[:] = 0

    def tearDown(self):
        if hasattr(self, 'result'):
            self.stream.sync()
            self.result.close(self.stream)

    def launch(self, graph):
        graph.launch(self.stream)
        self.stream.sync()
        values = set(array(self.result).tolist())
        self.assertEqual(len(values), 1)
        return values.pop()

    def test_captured(self):
        buffer = self.pool.allocate(SIZE, stream=self.stream)
        self.stream.sync()
        builder = self.device.create_graph_builder().begin_building()
        buffer.fill(1, stream=builder)
        buffer.copy_to(self.result, stream=builder)
        graph = builder.end_building().complete()
        self.assertEqual(set(array(self.result)), {0})
        for _ in range(3):
            array(self.result)[:] = 0
            self.assertEqual(self.launch(graph), 1)
        graph.close()
        buffer.close()

    def test_allocation_in_the_graph(self):
        builder = self.device.create_graph_builder().begin_building()
        buffer = self.graph_memory.allocate(SIZE, stream=builder)
        buffer.fill(2, stream=builder)
        buffer.copy_to(self.result, stream=builder)
        buffer.close(builder)
        graph = builder.end_building().complete()
        for _ in range(3):
            array(self.result)[:] = 0
            self.assertEqual(self.launch(graph), 2)
        graph.close()

    def test_allocation_that_outlives_its_launch(self):
        builder = self.device.create_graph_builder().begin_building()
        buffer = self.graph_memory.allocate(SIZE, stream=builder)
        buffer.fill(3, stream=builder)
        graph = builder.end_building().complete()
        graph.launch(self.stream)
        self.assert_bytes(buffer, 3)
        with self.fails('INVALID_VALUE'):
            graph.launch(self.stream)
        buffer.close(self.stream)
        graph.launch(self.stream)
        self.stream.sync()
        done(driver.cuMemFreeAsync(int(self.address_of(graph_of=builder)), self.stream.handle))
        self.stream.sync()
        graph.close()

    def address_of(self, graph_of):
        """The address of a graph's only allocation node."""
        allocations = []
        for node in graph_of.graph_definition.nodes():
            error, parameters = driver.cuGraphMemAllocNodeGetParams(node.handle)
            if error == CODE.CUDA_SUCCESS:
                allocations.append(parameters.dptr)
        address, = allocations
        return address

    def test_freed_by_the_next_launch(self):
        builder = self.device.create_graph_builder().begin_building()
        buffer = self.graph_memory.allocate(SIZE, stream=builder)
        buffer.fill(4, stream=builder)
        buffer.copy_to(self.result, stream=builder)
        graph = builder.end_building().complete(GraphCompleteOptions(auto_free_on_launch=True))
        for _ in range(3):
            self.assertEqual(self.launch(graph), 4)
        buffer.close(self.stream)
        self.stream.sync()
        graph.close()

    def test_branches(self):
        buffers = [self.pool.allocate(SIZE, stream=self.stream) for _ in range(2)]
        self.stream.sync()
        builder = self.device.create_graph_builder().begin_building()
        buffers[0].fill(5, stream=builder)
        first, second = builder.split(2)
        buffers[1].copy_from(buffers[0], stream=second)
        joined = GraphBuilder.join(first, second)
        buffers[1].copy_to(self.result, stream=joined)
        graph = joined.end_building().complete()
        self.assertEqual(self.launch(graph), 5)
        graph.close()
        for buffer in buffers:
            buffer.close()

    def test_definition(self):
        buffer = self.pool.allocate(SIZE, stream=self.stream)
        self.stream.sync()
        calls = []
        definition = GraphDefinition()
        fill = definition.memset(buffer, 6, SIZE)
        copy = fill.memcpy(self.result, buffer, SIZE)
        copy.callback(lambda: calls.append(int(array(self.result)[0])))
        self.assertEqual(len(definition.nodes()), 3)
        self.assertEqual(len(definition.edges()), 2)
        graph = definition.instantiate()
        self.assertEqual(self.launch(graph), 6)
        self.assertEqual(calls, [6])
        # The exec keeps what it was made from
        definition.memset(buffer, 7, SIZE)
        self.assertEqual(self.launch(graph), 6)
        graph.close()
        buffer.close()

    def test_definition_with_its_own_memory(self):
        definition = GraphDefinition()
        allocation = definition.allocate(SIZE)
        self.assertNotEqual(allocation.dptr, 0)
        fill = allocation.memset(allocation.dptr, 8, SIZE)
        copy = fill.memcpy(self.result, allocation.dptr, SIZE)
        copy.deallocate(allocation.dptr)
        graph = definition.instantiate()
        for _ in range(2):
            self.assertEqual(self.launch(graph), 8)
        with self.fails('NOT_SUPPORTED'):
            definition.instantiate()
        graph.close()
        with self.fails('NOT_SUPPORTED'):
            copy.destroy()
        self.answers(CODE.CUDA_ERROR_NOT_SUPPORTED, driver.cuGraphClone(definition.handle))

    def test_update(self):
        buffer = self.pool.allocate(SIZE, stream=self.stream)
        self.stream.sync()
        definitions = []
        for value in (1, 2):
            definition = GraphDefinition()
            definition.memset(buffer, value, SIZE).memcpy(self.result, buffer, SIZE)
            definitions.append(definition)
        graph = definitions[0].instantiate()
        self.assertEqual(self.launch(graph), 1)
        graph.update(definitions[1])
        self.assertEqual(self.launch(graph), 2)
        other = GraphDefinition()
        other.memset(buffer, 3, SIZE)
        with self.assertRaisesRegex(Exception, 'topology changed'):
            graph.update(other)
        self.assertEqual(self.launch(graph), 2)
        graph.close()
        buffer.close()

    def test_new_parameters_of_a_node(self):
        address = done(driver.cuMemAlloc(SIZE))
        graph = done(driver.cuGraphCreate(0))
        parameters = driver.CUgraphNodeParams()
        parameters.type = driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_MEMSET
        parameters.memset.dst = address
        parameters.memset.elementSize = 1
        parameters.memset.width = SIZE
        parameters.memset.height = 1
        parameters.memset.value = 1
        edges = (None, None) if CUDA_13 else (None,)
        node = done(driver.cuGraphAddNode(graph, *edges, 0, parameters))
        executable = done(driver.cuGraphInstantiate(graph, 0))

        def value():
            done(driver.cuGraphLaunch(executable, self.stream.handle))
            done(driver.cuMemcpyDtoHAsync(int(self.result.handle), address, SIZE, self.stream.handle))
            self.stream.sync()
            return int(array(self.result)[SIZE - 1])

        self.assertEqual(value(), 1)
        parameters.memset.value = 2
        done(driver.cuGraphNodeSetParams(node, parameters))
        self.assertEqual(value(), 1)
        self.assertEqual(done(driver.cuGraphMemsetNodeGetParams(node)).value, 2)
        parameters.memset.value = 3
        done(driver.cuGraphExecNodeSetParams(executable, node, parameters))
        self.assertEqual(value(), 3)
        self.assertEqual(done(driver.cuGraphMemsetNodeGetParams(node)).value, 2)
        parameters.type = driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_EMPTY
        self.assertNotEqual(driver.cuGraphNodeSetParams(node, parameters)[0], CODE.CUDA_SUCCESS)
        done(driver.cuGraphExecDestroy(executable))
        done(driver.cuGraphDestroy(graph))
        done(driver.cuMemFree(address))

    def test_drawing(self):
        buffer = self.pool.allocate(SIZE, stream=self.stream)
        self.stream.sync()
        definition = GraphDefinition()
        definition.memset(buffer, 6, SIZE).memcpy(self.result, buffer, SIZE)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'graph.dot')
            definition.debug_dot_print(path)
            with open(path, encoding='utf-8') as file:
                text = file.read()
        self.assertTrue(text.startswith('digraph'))
        self.assertIn('->', text)
        buffer.close()

    def test_events(self):
        buffer = self.pool.allocate(SIZE, stream=self.stream)
        self.stream.sync()
        event = self.stream.record()
        other = self.device.create_stream()
        definition = GraphDefinition()
        definition.memset(buffer, 9, SIZE).record(event)
        graph = definition.instantiate()
        graph.launch(self.stream)
        other.wait(event)
        self.assert_bytes(buffer, 9, other)
        graph.close()
        self.stream.wait(other)
        buffer.close()

    def test_wrong_resource(self):
        with self.assertRaises(RuntimeError):
            self.graph_memory.allocate(SIZE, stream=self.stream)
        builder = self.device.create_graph_builder().begin_building()
        with self.assertRaises(RuntimeError):
            self.pool.allocate(SIZE, stream=builder)
        builder.end_building().complete().close()

    def test_what_breaks_a_capture(self):
        builder = self.device.create_graph_builder().begin_building('global')
        with self.fails('STREAM_CAPTURE_UNSUPPORTED'):
            builder.stream.sync()
        with self.assertRaisesRegex(Exception, 'invalidated'):
            builder.end_building()

    def test_memory_from_outside_is_not_freed_inside(self):
        buffer = self.pool.allocate(SIZE, stream=self.stream)
        self.stream.sync()
        builder = self.device.create_graph_builder().begin_building()
        self.answers(CODE.CUDA_ERROR_INVALID_VALUE, driver.cuMemFreeAsync(buffer.handle, builder.stream.handle))
        builder.end_building().complete().close()
        buffer.close()


if __name__ == '__main__':
    tap.main()
