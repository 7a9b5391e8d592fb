// SPDX-License-Identifier: LGPL-2.1-or-later
// Buffers, and what becomes of objects that are closed or never were open.

imports.searchPath.unshift(imports.gi.GLib.path_get_dirname(imports.system.programPath));
const {tap} = imports;
const {GCuda, GLib, device, context, stream, pool, check, equal, fails, bytes} = tap;

const {INVALID_ARGUMENT, CLOSED} = GCuda.Error;
const newEvent = flags => GCuda.Event.new_for_device(device, flags ?? GCuda.EventFlags.NONE);

// What can be asked of an object that is closed, and fails.
function closedCalls(thing, good) {
    const none = new GLib.Bytes(new Uint8Array());
    return new Map([
        [GCuda.Context, () => [
            () => thing.synchronize(),
            () => GCuda.Stream.new(thing, GCuda.StreamFlags.NONE, 0),
            () => GCuda.Stream.new_legacy_default(thing),
            () => GCuda.Stream.new_per_thread_default(thing),
            () => GCuda.Event.new(thing, GCuda.EventFlags.NONE),
            () => GCuda.SynchronousMemoryResource.new(thing),
        ]],
        [GCuda.Stream, () => [
            () => thing.query(),
            () => thing.is_capturing(),
            () => thing.synchronize(),
            () => thing.wait_event(newEvent()),
            () => thing.wait_stream(stream),
            () => stream.wait_stream(thing),
            () => pool.allocate(16, thing),
            () => pool.allocate_address(16, 0, thing),
            () => good.fill(0, 1, thing),
            () => good.download(thing),
            () => good.set_deallocation_stream(thing),
            () => good.close(thing),
        ]],
        [GCuda.Event, () => [
            () => thing.record(stream),
            () => thing.query(),
            () => thing.synchronize(),
            () => thing.elapsed_time(newEvent(GCuda.EventFlags.TIMING)),
            () => stream.wait_event(thing),
        ]],
        [GCuda.Buffer, () => [
            () => thing.fill(0, 1, stream),
            () => thing.fill_range(0, 0, 0, 1, stream),
            () => thing.fill_2d(0, 0, 0, 0, 0, 1, stream),
            () => thing.copy_to(good, stream),
            () => good.copy_to(thing, stream),
            () => thing.copy_range(0, good, 0, 0, stream),
            () => thing.copy_2d(0, 0, good, 0, 0, 0, 0, stream),
            () => GCuda.Buffer.copy_batch([thing], [good], stream),
            () => thing.upload(0, none, stream),
            () => thing.upload_data(0, new Uint8Array(), stream),
            () => thing.download(stream),
            () => thing.new_view(0, 0),
            () => thing.set_deallocation_stream(stream),
        ]],
        [GCuda.DeviceMemoryResource, () => [
            () => thing.allocate(16, stream),
            () => thing.allocate(0, stream),
            () => thing.allocate_address(16, 0, stream),
            () => thing.deallocate_address(256, 16, 0, stream),
            () => thing.adopt_address(256, 16, stream),
            () => thing.set_release_threshold(0),
            () => thing.set_reuse(GCuda.PoolReuse.NONE),
            () => thing.trim(0),
            () => thing.get_statistics(),
            () => thing.reset_high_marks(),
            () => thing.set_peer_access(device, true),
            () => thing.has_peer_access(device),
        ]],
        [GCuda.SynchronousMemoryResource, () => [
            () => thing.allocate(16, stream),
            () => thing.allocate(0, stream),
            () => thing.allocate_address(16, 0, stream),
            () => thing.deallocate_address(256, 16, 0, stream),
            () => thing.adopt_address(256, 16, stream),
        ]],
        [GCuda.Device, () => [
            () => thing.get_attribute(1),
            () => thing.can_access_peer(device),
            () => thing.get_memory_info(),
            () => thing.get_primary_context(),
            () => thing.synchronize(),
            () => GCuda.Stream.new_for_device(thing),
            () => GCuda.Event.new_for_device(thing, GCuda.EventFlags.NONE),
            () => GCuda.Context.new(thing, GCuda.ContextFlags.NONE),
            () => GCuda.DeviceMemoryResource.new(thing),
            () => GCuda.DeviceMemoryResource.new_pool(thing, 0, GCuda.HandleTypes.NONE),
            () => GCuda.SynchronousMemoryResource.new_for_device(thing),
        ]],
    ]).get(thing.constructor)();
}

// What an object that never was open says of itself.
const getters = new Map([
    [GCuda.Context, ['get_device', 'get_handle', 'get_id', 'is_primary']],
    [GCuda.Stream, ['get_context', 'get_device', 'get_handle', 'get_priority', 'is_blocking', 'is_legacy_default',
        'is_per_thread_default']],
    [GCuda.Event, ['get_context', 'get_handle']],
    [GCuda.Buffer, ['get_size', 'get_address', 'get_device', 'get_resource', 'is_device_accessible', 'is_host_accessible']],
    [GCuda.DeviceMemoryResource, ['get_device', 'get_handle', 'get_max_size', 'get_release_threshold',
        'is_release_unlimited', 'owns_pool', 'is_host_accessible']],
    [GCuda.SynchronousMemoryResource, ['get_device', 'is_host_accessible']],
    [GCuda.Device, ['get_name', 'get_uuid', 'get_pci_bus_id', 'get_compute_capability_major',
        'get_compute_capability_minor', 'get_total_memory']],
]);

function checkClosed(thing) {
    const good = pool.allocate(16, stream);
    for (const call of closedCalls(thing, good))
        fails(CLOSED, call);
    good.close();
    if (thing.close) {
        check(thing.is_closed(), 'closed');
        check(thing.close(), 'closed again');
        check(thing.close(), 'and again');
    }
}

function* openThings() {
    yield GCuda.Context.new(device, GCuda.ContextFlags.NONE);
    yield GCuda.Stream.new_for_device(device);
    yield newEvent();
    yield pool.allocate(16, stream);
}

tap.run({
    'life': () => {
        const buffer = pool.allocate(1000, stream);
        equal(buffer.get_size(), 1000);
        check(buffer.get_address() !== 0, 'it has an address');
        check(buffer.get_device() === device, 'the device');
        check(buffer.get_resource() === pool, 'the resource');
        check(buffer.is_device_accessible() && !buffer.is_host_accessible(), 'of the device');
        check(!buffer.is_closed(), 'open');
        check(pool.get_statistics().get_used() >= 1000, 'counted');
        check(buffer.close(), 'closed');
        check(buffer.is_closed(), 'closed');
        equal(buffer.get_size(), 1000);
        equal(buffer.get_address(), 0);
        equal(buffer.get_device(), null);
        equal(buffer.get_resource(), null);
        check(buffer.close(), 'closed twice');
    },
    'properties are what getters say': () => {
        const buffer = pool.allocate(1000, stream);
        for (let i = 0; i < 2; i++) {
            equal(buffer.size, buffer.get_size());
            equal(buffer.address, buffer.get_address());
            equal(buffer.device, buffer.get_device());
            equal(buffer.resource, buffer.get_resource());
            equal(buffer.closed, buffer.is_closed());
            equal(buffer.deviceAccessible, buffer.is_device_accessible());
            equal(buffer.hostAccessible, buffer.is_host_accessible());
            buffer.close();
        }
    },
    'close is notified': () => {
        const buffer = pool.allocate(1000, stream);
        const seen = [];
        buffer.connect('notify::closed', () => seen.push([buffer.is_closed(), buffer.get_address()]));
        buffer.close();
        buffer.close();
        equal(seen, [[true, 0]]);
    },
    'fill': () => {
        for (const [width, value, pattern] of [[1, 0xa5, [0xa5]], [2, 0x1234, [0x34, 0x12]], [4, 0xdeadbeef, [0xef, 0xbe, 0xad, 0xde]]]) {
            const buffer = pool.allocate(64, stream);
            check(buffer.fill(value, width, stream), 'filled');
            equal(buffer.download(stream), new Uint8Array(64).map((_, i) => pattern[i % width]));
            check(buffer.fill_range(8, 16, 0, width, stream), 'filled in part');
            equal(buffer.download(8, 16, stream), bytes(16, 0));
            equal(buffer.download(24, width, stream), new Uint8Array(pattern));
        }
    },
    'fill in two dimensions': () => {
        const buffer = pool.allocate(64, stream);
        buffer.fill(0, 1, stream);
        buffer.fill_2d(4, 16, 2, 3, 0x4142, 2, stream);
        equal(buffer.download(stream), new Uint8Array(64).map((_, i) => i < 48 && i % 16 >= 4 && i % 16 < 8 ? 0x42 - i % 2 : 0));
    },
    'copy': () => {
        const source = pool.allocate(64, stream);
        const target = pool.allocate(64, stream);
        const data = new Uint8Array(64).map((_, i) => i);
        source.upload(0, new GLib.Bytes(data), stream);
        check(source.copy_to(target, stream), 'copied');
        equal(target.download(stream), data);
        check(source.copy_range(60, target, 0, 4, stream), 'copied in part');
        equal(target.download(0, 6, stream), new Uint8Array([60, 61, 62, 63, 4, 5]));
        check(source.copy_2d(0, 8, target, 0, 16, 4, 4, stream), 'copied in rows');
        equal(target.download(16, 4, stream), new Uint8Array([8, 9, 10, 11]));
        fails(INVALID_ARGUMENT, () => source.copy_range(0, source, 32, 33, stream));
    },
    'copy a batch': () => {
        const sources = [1, 2, 3].map(value => {
            const buffer = pool.allocate(16, stream);
            buffer.fill(value, 1, stream);
            return buffer;
        });
        const targets = sources.map(() => pool.allocate(16, stream));
        check(GCuda.Buffer.copy_batch(sources, targets, stream), 'copied');
        targets.forEach((target, i) => equal(target.download(stream), bytes(16, i + 1)));
        fails(INVALID_ARGUMENT, () => GCuda.Buffer.copy_batch(sources, targets.slice(1), stream));
    },
    'upload takes what holds bytes': () => {
        const data = new Uint8Array(4096).map((_, i) => i);
        const buffer = pool.allocate(data.length, stream);
        for (const what of [data, Array.from(data)]) {
            buffer.fill(0, 1, stream);
            check(buffer.upload_data(0, what, stream), 'uploaded');
            equal(buffer.download(stream), data);
        }
        buffer.fill(0, 1, stream);
        // Nobody but the library keeps the data
        check(buffer.upload(0, new GLib.Bytes(data), stream), 'uploaded');
        tap.gc();
        equal(buffer.download(stream), data);
        check(buffer.upload_data(4090, bytes(6, 9), stream), 'uploaded in part');
        equal(buffer.download(4088, 8, stream), new Uint8Array([248, 249, 9, 9, 9, 9, 9, 9]));
        // Of any type, its bytes
        const floats = new Float64Array([1.5, -2.5]);
        const parts = [floats, floats.subarray(1), new DataView(floats.buffer, 3, 9), new Int16Array([-1, 256]), floats.buffer];
        for (const what of parts) {
            check(buffer.upload_data(0, what, stream), 'uploaded');
            const memory = what.buffer ?? what;
            const expected = new Uint8Array(memory, what.byteOffset ?? 0, what.byteLength);
            equal(buffer.download(0, what.byteLength, stream), expected);
        }
        for (const bad of [[256], [-1], [1.5], ['1'], [null]]) {
            let refused = false;
            try {
                buffer.upload_data(0, bad, stream);
            } catch (error) {
                refused = error instanceof TypeError;
            }
            check(refused, `${JSON.stringify(bad)} was refused`);
        }
    },
    'views': () => {
        const buffer = pool.allocate(64, stream);
        buffer.fill(1, 1, stream);
        const view = buffer.new_view(16, 32);
        const inner = view.new_view(8, 8);
        equal(view.get_size(), 32);
        equal(view.get_address(), buffer.get_address() + 16);
        equal(inner.get_address(), buffer.get_address() + 24);
        inner.fill(2, 1, stream);
        equal(buffer.download(stream), new Uint8Array(64).map((_, i) => i >= 24 && i < 32 ? 2 : 1));
        buffer.close();
        equal(view.download(0, 16, stream), new Uint8Array(16).map((_, i) => i < 8 ? 1 : 2), 'the memory lives on');
        fails(CLOSED, () => buffer.new_view(0, 1));
        fails(INVALID_ARGUMENT, () => view.new_view(1, 32));
        view.close();
        equal(inner.download(stream), bytes(8, 2));
    },
    'close on another stream': () => {
        const other = GCuda.Stream.new_for_device(device);
        let buffer = pool.allocate(4096, stream);
        buffer.fill(3, 1, stream);
        other.wait_stream(stream);
        check(buffer.close(other), 'closed');
        buffer = pool.allocate(4096, stream);
        other.close();
        fails(CLOSED, () => buffer.close(other));
        check(!buffer.is_closed(), 'the buffer is as it was');
        buffer.fill(3, 1, stream);
        equal(buffer.download(0, 2, stream), bytes(2, 3));
        check(buffer.close(), 'closed');
        check(buffer.close(other), 'closed already, whatever the stream');
    },
    'zero size': () => {
        for (const resource of [pool, GCuda.DeviceMemoryResource.new(device), GCuda.SynchronousMemoryResource.new(context)]) {
            const buffer = resource.allocate(0, stream);
            equal(buffer.get_size(), 0);
            equal(buffer.get_address(), 0);
            check(!buffer.is_closed(), 'open');
            check(buffer.fill(1, 4, stream), 'filled');
            check(buffer.copy_to(resource.allocate(0, stream), stream), 'copied');
            check(buffer.upload(0, new GLib.Bytes(new Uint8Array()), stream), 'uploaded');
            check(buffer.upload_data(0, [], stream), 'uploaded');
            equal(buffer.download(stream).length, 0);
            equal(buffer.new_view(0, 0).get_size(), 0);
            check(buffer.close() && buffer.is_closed(), 'closed');
        }
    },
    'an address is a number': () => {
        const buffer = pool.allocate(64, stream);
        buffer.fill(7, 1, stream);
        const address = buffer.get_address();
        check(Number.isSafeInteger(address), 'exact');
        for (const number of [address, BigInt(address)]) {
            const again = GCuda.Buffer.new_for_address(device, number, 64, buffer, stream);
            equal(again.get_address(), address);
            equal(again.download(stream), bytes(64, 7));
            equal(again.get_resource(), null);
            again.close();
        }
        check(!buffer.is_closed(), 'still open');
    },
    'adopted address': () => {
        const address = pool.allocate_address(64, 0, stream);
        equal(address % 256, 0);
        const buffer = pool.adopt_address(address, 64, stream);
        equal(buffer.get_address(), address);
        buffer.fill(7, 1, stream);
        equal(buffer.download(stream), bytes(64, 7));
        buffer.close();
        check(pool.deallocate_address(pool.allocate_address(64, 0, stream), 64, 0, stream), 'given back');
    },
    'handles are numbers': () => {
        const event = newEvent();
        for (const thing of [stream, event, pool, context])
            check(Number.isSafeInteger(thing.get_handle()) && thing.get_handle() > 0, 'exact');
        const again = GCuda.Stream.new_for_handle(context, stream.get_handle(), stream);
        equal(again.get_handle(), stream.get_handle());
        check(again.synchronize(), 'the same stream');
    },
    'synchronous memory': () => {
        const buffer = GCuda.SynchronousMemoryResource.new_for_device(device).allocate(64, stream);
        buffer.fill(9, 1, stream);
        equal(buffer.download(stream), bytes(64, 9));
        buffer.close();
    },
    'made by bare new': () => {
        for (const kind of [GCuda.Context, GCuda.Stream, GCuda.Event, GCuda.DeviceMemoryResource,
            GCuda.SynchronousMemoryResource, GCuda.Device, GCuda.Buffer]) {
            const thing = new kind();
            for (const getter of getters.get(kind))
                check([null, 0, false].includes(thing[getter]()), `${kind.name}.${getter}`);
            checkClosed(thing);
            thing.run_dispose();
        }
    },
    'closed': () => {
        for (const thing of openThings()) {
            check(!thing.is_closed(), 'open');
            check(thing.close(), 'closed');
            checkClosed(thing);
        }
    },
    'disposed': () => {
        // The binding has its own word for each use of such an object; the library must still be good for an error
        const {status, output} = tap.runScript(`
            const things = [GCuda.Context.new(device, GCuda.ContextFlags.NONE), GCuda.Stream.new_for_device(device),
                GCuda.Event.new_for_device(device, GCuda.EventFlags.NONE), pool.allocate(16, stream)];
            const calls = [thing => thing.synchronize(), thing => thing.wait_stream(stream), thing => thing.record(stream),
                thing => thing.fill(0, 1, stream)];
            for (let i = 0; i < things.length; i++) {
                things[i].run_dispose();
                things[i].run_dispose();
                try {
                    calls[i](things[i]);
                } catch (error) {
                    print(error.code);
                }
            }
        `);
        equal(status, 0);
        equal(output, `${CLOSED}\n`.repeat(4));
    },
    'abstract': () => {
        tap.throwsOwn(() => new GCuda.MemoryResource());
    },
});
