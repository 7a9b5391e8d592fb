// SPDX-License-Identifier: LGPL-2.1-or-later
// Garbage collection: whenever it drops the last reference, and in whatever order.

imports.searchPath.unshift(imports.gi.GLib.path_get_dirname(imports.system.programPath));
const {tap} = imports;
const {GCuda, GLib, device, context, stream, pool, check, equal} = tap;
const {GObject} = imports.gi;
const {refcount} = imports.system;

const SIZE = 2 ** 20;

// Something in C that keeps an object, with no JavaScript in between
const Holder = GObject.registerClass({
    Properties: {
        buffer: GObject.ParamSpec.object('buffer', '', '', GObject.ParamFlags.READWRITE, GCuda.Buffer),
    },
}, class Holder extends GObject.Object {});

// A buffer with work pending on it
function newBuffer(on = stream) {
    const buffer = pool.allocate(SIZE, on);
    for (let value = 0; value < 8; value++)
        buffer.fill(value, 1, on);
    return buffer;
}

// What getters return is counted as they say.
function checkCounts(call, watched) {
    call();
    tap.gc();
    const before = watched.map(each => refcount(each));
    for (let i = 0; i < 1000; i++)
        call();
    tap.gc();
    equal(watched.map(each => refcount(each)), before, call);
}

tap.run({
    'last reference': () => {
        newBuffer();
    },
    'cycle': () => {
        const buffer = newBuffer();
        buffer.itself = buffer;
    },
    'cycle of many': () => {
        const buffer = newBuffer();
        const view = buffer.new_view(0, 16);
        buffer.others = [view, pool];
        view.others = {buffer, stream};
    },
    'signal handler': () => {
        const buffer = newBuffer();
        buffer.connect('notify::closed', () => buffer.get_size());
        buffer.close();
    },
    'streams of all kinds': () => {
        for (const each of [GCuda.Stream.new_for_device(device), GCuda.Stream.new_per_thread_default(context),
            GCuda.Stream.new_legacy_default(context)])
            newBuffer(each);
    },
    'any order': () => {
        for (let i = 0; i < 20; i++) {
            const own = GCuda.Stream.new_for_device(device);
            const other = GCuda.Stream.new_for_device(device);
            const event = GCuda.Event.new_for_device(device, GCuda.EventFlags.NONE);
            const buffer = pool.allocate(SIZE, own);
            const view = buffer.new_view(16, 16);
            const target = pool.allocate(16, other);
            buffer.fill(3, 1, own);
            event.record(own);
            other.wait_event(event);
            view.copy_to(target, other);
            view.set_deallocation_stream(other);
            // Some are kept for longer, and the collector has an order of its own
            globalThis.kept = [own, other, event, buffer, view, target].filter((_, j) => (i >> j % 3) & 1);
            if (i % 5 === 0)
                tap.gc();
        }
        delete globalThis.kept;
    },
    'stream goes before buffer': () => {
        const buffer = newBuffer(GCuda.Stream.new_for_device(device));
        tap.gc();
        device.synchronize();
        equal(buffer.download(0, 4, stream), tap.bytes(4, 7));
    },
    'pool goes before buffer': () => {
        const make = () => {
            const own = GCuda.DeviceMemoryResource.new_pool(device, 0, GCuda.HandleTypes.NONE);
            own.tag = 'mine';
            return own.allocate(64, stream);
        };
        const buffer = make();
        tap.gc();
        buffer.fill(1, 1, stream);
        equal(buffer.download(stream), tap.bytes(64, 1));
        equal(buffer.get_resource().tag, 'mine', 'the same object, with all that hangs on it');
    },
    'attributes': () => {
        // An object with attributes is kept together with them as long as anything else keeps it
        const holder = new Holder();
        const fill = () => {
            const buffer = newBuffer();
            buffer.note = ['first', stream];
            holder.buffer = buffer;
        };
        fill();
        tap.gc();
        equal(holder.buffer.note[0], 'first');
        holder.buffer = null;
    },
    'owner with attributes': () => {
        // It is let go by the main loop
        const buffer = newBuffer();
        const owner = new Holder({buffer});
        owner.note = 'mine';
        GCuda.Buffer.new_for_address(device, buffer.get_address(), 16, owner, stream);
        tap.gc();
        GCuda.reclaim(null);
        tap.iterate();
    },
    'many': () => {
        for (let i = 0; i < 1000; i++) {
            const buffer = pool.allocate(256 + i, stream);
            buffer.fill(i % 256, 1, stream);
            buffer.others = [buffer, buffer.new_view(0, 16)];
            if (i % 3 === 0)
                buffer.close();
            if (i % 100 === 0)
                tap.gc();
        }
    },
    'getters': () => {
        const buffer = pool.allocate(64, stream);
        const event = GCuda.Event.new_for_device(device, GCuda.EventFlags.NONE);
        const devices = GCuda.get_devices();
        const watched = [buffer, event, device, stream, pool, context, devices];
        for (const getter of [
            () => buffer.get_resource(),
            () => buffer.get_device(),
            () => [buffer.resource, buffer.device],
            () => [pool.get_device(), pool.device],
            () => [stream.get_context(), stream.get_device(), stream.context, stream.device],
            () => event.get_context(),
            () => context.get_device(),
            () => device.get_primary_context(),
            () => GCuda.Device.new(0),
            () => GCuda.get_devices(),
            () => devices.get_item(0),
            () => device.get_memory_info(),
            () => pool.get_statistics(),
            () => GCuda.get_driver_info(),
            () => buffer.new_view(0, 8).close(),
            () => buffer.download(stream),
        ])
            checkCounts(getter, watched);
        buffer.close();
    },
    'arguments': () => {
        const buffer = pool.allocate(64, stream);
        const target = pool.allocate(64, stream);
        const event = GCuda.Event.new_for_device(device, GCuda.EventFlags.NONE);
        const other = GCuda.Stream.new_for_device(device);
        const closed = GCuda.Stream.new_for_device(device);
        closed.close();
        const data = new GLib.Bytes(tap.bytes(8, 1));
        const refused = call => {
            try {
                call();
            } catch (error) {
                return;
            }
            throw new Error('no error');
        };
        const closeAfter = made => other.wait_stream(stream) && made.close(other);
        const watched = [buffer, target, event, device, stream, pool, context, other, closed];
        for (const call of [
            () => buffer.fill(0, 1, stream),
            () => buffer.copy_to(target, stream),
            () => GCuda.Buffer.copy_batch([buffer], [target], stream),
            () => buffer.upload(0, data, stream),
            () => event.record(stream),
            () => stream.wait_event(event),
            () => stream.wait_stream(other),
            () => other.wait_stream(stream) && buffer.set_deallocation_stream(other),
            () => closeAfter(pool.allocate(64, stream)),
            () => GCuda.Stream.new_for_device(device).close(),
            () => refused(() => pool.allocate(64, closed)),
            () => refused(() => pool.allocate(2 ** 60, stream)),
            () => refused(() => buffer.new_view(65, 0)),
            () => refused(() => buffer.set_deallocation_stream(closed)),
            () => refused(() => buffer.close(closed)),
            () => refused(() => GCuda.Buffer.new_for_address(device, 0, 8, pool, stream)),
            () => refused(() => buffer.fill(300, 1, stream)),
        ])
            checkCounts(call, watched);
        buffer.close();
        target.close();
        check(buffer.is_closed(), 'closed');
    },
});
