// SPDX-License-Identifier: LGPL-2.1-or-later
// Graphs, from JavaScript: captured and made of nodes; what they keep, whatever is collected.

imports.searchPath.unshift(imports.gi.GLib.path_get_dirname(imports.system.programPath));
const {tap} = imports;
const {GCuda, device, context, stream, pool, check, equal, fails, throwsOwn, bytes} = tap;

const SIZE = 2 ** 16;
const {NONE} = GCuda.GraphFlags;

function newBuffer(value = 0) {
    const buffer = pool.allocate(SIZE, stream);
    buffer.fill(value, 1, stream);
    return buffer;
}

function newBuilder(mode = GCuda.CaptureMode.GLOBAL) {
    stream.synchronize();
    return GCuda.GraphBuilder.new(context, mode);
}

function launch(graph, result, expected) {
    result.fill(0, 1, stream);
    check(graph.launch(stream), 'launched');
    equal(result.download(stream), bytes(SIZE, expected));
}

function fillAndCopy(source, result, captured) {
    if (captured) {
        const builder = newBuilder();
        source.fill(1, 1, builder);
        const fill = builder.get_last_node();
        source.copy_to(result, builder);
        const copy = builder.get_last_node();
        return [builder.finish().instantiate(NONE, null), fill, copy];
    }
    const definition = GCuda.GraphDefinition.new(context);
    const fill = definition.add_fill([], source, 0, SIZE, 1, 1);
    const copy = definition.add_copy([fill], source, 0, result, 0, SIZE);
    return [definition.instantiate(NONE, null), fill, copy];
}

function checkUpdate(captured) {
    let [a, b] = [newBuffer(), newBuffer()];
    const result = newBuffer();
    const [graph, fill, copy] = fillAndCopy(a, result, captured);
    a = null;
    launch(graph, result, 1);
    graph.update_fill(fill, b, 0, SIZE, 2, 1);
    graph.update_copy(copy, b, 0, result, 0, SIZE);
    b = null;
    launch(graph, result, 2);
    tap.endsWith(2 * SIZE);
    const other = GCuda.GraphDefinition.new(context);
    other.add_empty([]);
    fails(GCuda.Error.GRAPH_EXEC_UPDATE_FAILURE, () => graph.update(other));
    launch(graph, result, 2);
}

tap.run({
    'capture': () => {
        for (const mode of [GCuda.CaptureMode.GLOBAL, GCuda.CaptureMode.THREAD_LOCAL, GCuda.CaptureMode.RELAXED]) {
            const a = newBuffer();
            const result = newBuffer();
            const builder = newBuilder(mode);
            check(builder instanceof GCuda.Stream, 'it is a stream');
            check(builder.is_capturing(), 'it captures');
            a.fill(7, 1, builder);
            a.copy_to(result, builder);
            const graph = builder.finish().instantiate(NONE, null);
            check(builder.is_closed(), 'it is over');
            for (let i = 0; i < 3; i++)
                launch(graph, result, 7);
        }
    },
    'fork and join': () => {
        const [a, b, result] = [newBuffer(), newBuffer(), newBuffer()];
        const builder = newBuilder();
        a.fill(1, 1, builder);
        const other = builder.fork();
        a.copy_to(b, other);
        fails(GCuda.Error.STREAM_CAPTURE_UNJOINED, () => builder.finish());
        builder.join(other);
        b.copy_to(result, builder);
        launch(builder.finish().instantiate(NONE, stream), result, 1);
    },
    'refused': () => {
        const builder = newBuilder();
        fails(GCuda.Error.CAPTURING, () => pool.allocate(SIZE, builder));
        fails(GCuda.Error.CAPTURING, () => builder.synchronize());
        fails(GCuda.Error.NOT_CAPTURING, () => GCuda.GraphMemoryResource.new(device).allocate(SIZE, stream));
        throwsOwn(() => builder.join(null));
        const definition = builder.finish();
        fails(GCuda.Error.CLOSED, () => builder.finish());
        fails(GCuda.Error.CLOSED, () => builder.fork());
        throwsOwn(() => definition.add_graph([], null));
        const graph = definition.instantiate(NONE, null);
        graph.close();
        check(graph.closed, 'closed');
        fails(GCuda.Error.CLOSED, () => graph.launch(stream));
    },
    'graph memory': () => {
        const memory = GCuda.GraphMemoryResource.new(device);
        const result = newBuffer();
        const builder = newBuilder();
        const buffer = memory.allocate(SIZE, builder);
        buffer.fill(3, 1, builder);
        buffer.copy_to(result, builder);
        buffer.close();
        const graph = builder.finish().instantiate(NONE, null);
        for (let i = 0; i < 3; i++)
            launch(graph, result, 3);
        check(memory.get_statistics().get_reserved() >= SIZE, 'it is held');
    },
    'nodes': () => {
        const definition = GCuda.GraphDefinition.new(context);
        const result = newBuffer();
        const [allocation, buffer] = definition.add_allocation([], SIZE, stream);
        const fill = definition.add_fill([allocation], buffer, 0, SIZE, 4, 1);
        const copy = definition.add_copy([fill], buffer, 0, result, 0, SIZE);
        definition.add_free([copy], buffer);
        const empty = definition.add_empty([]);
        definition.add_dependency(empty, copy);
        equal(definition.get_nodes().length, 5);
        equal(copy.kind, GCuda.GraphNodeKind.COPY);
        const graph = definition.instantiate(NONE, null);
        launch(graph, result, 4);
        launch(graph, result, 4);
    },
    'update': () => checkUpdate(false),
    'update captured': () => checkUpdate(true),
    'keeps what was collected': () => {
        const result = newBuffer();
        let scratch = [...Array(8).keys()].map(newBuffer);
        const builder = newBuilder();
        for (const buffer of scratch) {
            buffer.copy_to(result, builder);
            buffer.itself = buffer;
        }
        const graph = builder.finish().instantiate(NONE, null);
        scratch = null;
        tap.gc();
        const others = [...Array(100).keys()].map(newBuffer);
        for (let i = 0; i < 3; i++)
            launch(graph, result, 7);
        equal(others.length, 100);
    },
    'host functions': () => {
        const called = [];
        // What the binding ties the call-backs to is kept as long as they are
        function make() {
            const builder = newBuilder();
            builder.launch_host_function(() => called.push('captured'));
            const definition = builder.finish();
            definition.add_host_function([], () => called.push('node'));
            return definition.instantiate(NONE, null);
        }
        const graph = make();
        tap.gc();
        for (let i = 0; i < 3; i++)
            graph.launch(stream);
        tap.iterateUntil(() => called.length === 6);
        tap.gc();
        graph.launch(stream);
        tap.iterateUntil(() => called.length === 8);
        equal(called.filter(each => each === 'node').length, 4);
    },
    'host functions of what became a part': () => {
        const called = [];
        const inner = name => {
            const definition = GCuda.GraphDefinition.new(context);
            definition.add_host_function([], () => called.push(name));
            return definition;
        };
        const run = graph => {
            const before = called.length;
            tap.gc();
            graph.launch(stream);
            tap.iterateUntil(() => called.length === before + 1);
        };
        const outer = () => {
            const definition = GCuda.GraphDefinition.new(context);
            definition.add_graph([], inner('part'));
            return definition;
        };
        const captured = () => {
            const builder = newBuilder();
            builder.add_graph(inner('captured'));
            return builder.finish();
        };
        const graph = outer().instantiate(NONE, null);
        run(graph);
        run(captured().instantiate(NONE, null));
        const single = inner('first').instantiate(NONE, null);
        run(single);
        (() => single.update(inner('second')))();
        run(single);
        equal(called.join(), 'part,captured,first,second');
        const added = () => {
            const builder = GCuda.GraphBuilder.new_for_definition(GCuda.GraphDefinition.new(context), GCuda.CaptureMode.RELAXED);
            const definition = builder.finish();
            definition.add_host_function([], () => called.push('added'));
            return definition.instantiate(NONE, null);
        };
        run(added());
    },
    'builder in a cycle': () => {
        for (let i = 0; i < 8; i++) {
            const buffer = newBuffer();
            const builder = newBuilder(GCuda.CaptureMode.RELAXED);
            builder.itself = [builder, buffer];
            buffer.fill(1, 1, builder);
            builder.launch_host_function(() => builder.is_closed());
        }
        tap.gc();
        // They no longer capture: this would fail
        device.synchronize();
    },
    'exit': () => {
        for (const script of [`
            const buffer = pool.allocate(2 ** 20, stream);
            stream.synchronize();
            const builder = GCuda.GraphBuilder.new(stream.get_context(), GCuda.CaptureMode.GLOBAL);
            buffer.fill(1, 1, builder);
            builder.launch_host_function(() => buffer.close());
            buffer.note = builder.note = [buffer, builder];
        `, `
            const buffer = pool.allocate(2 ** 20, stream);
            const definition = GCuda.GraphDefinition.new(stream.get_context());
            definition.note = definition;
            definition.add_fill([], buffer, 0, 2 ** 20, 1, 1);
            definition.add_host_function([], () => buffer.get_size());
            for (let i = 0; i < 16; i++)
                definition.instantiate(GCuda.GraphFlags.NONE, null).launch(stream);
            System.gc();
        `]) {
            for (let i = 0; i < 5; i++) {
                const {status, output, complaints} = tap.runScript(script);
                equal([status, output, complaints], [0, '', '']);
            }
        }
    },
});
