// SPDX-License-Identifier: LGPL-2.1-or-later
// Errors: the library's own for values it refuses, the binding's own for what has the wrong type.

imports.searchPath.unshift(imports.gi.GLib.path_get_dirname(imports.system.programPath));
const {tap} = imports;
const {GCuda, GLib, device, stream, pool, check, equal, fails, throwsOwn, bytes} = tap;
const {Gio} = imports.gi;

const INVALID = GCuda.Error.INVALID_ARGUMENT;
const BIG = 2n ** 64n - 1n;

tap.run({
    'domain and codes': () => {
        equal(GLib.quark_to_string(GCuda.error_quark()), 'gcuda-error-quark');
        let caught = null;
        try {
            GCuda.Device.new(1000);
        } catch (error) {
            caught = error;
        }
        check(caught instanceof GLib.Error && caught instanceof GCuda.Error, 'its class');
        equal(caught.domain, GCuda.error_quark());
        equal(caught.code, GCuda.Error.INVALID_DEVICE);
        check(caught.matches(GCuda.Error, GCuda.Error.INVALID_DEVICE), 'it matches');
        check(!caught.matches(GCuda.Error, GCuda.Error.NO_DEVICE), 'it matches nothing else');
        check(caught.message.includes('CUDA_ERROR_INVALID_DEVICE'), caught.message);
        equal(GCuda.Error.OUT_OF_MEMORY, 2);
        equal(GCuda.Error.CLOSED, 10003);
        check(GCuda.is_available(), 'available');
    },
    'driver errors': () => {
        fails(GCuda.Error.OUT_OF_MEMORY, () => pool.allocate(2 ** 60, stream));
        fails(INVALID, () => pool.allocate(BIG, stream));
        // No state is kept
        const buffer = pool.allocate(16, stream);
        check(buffer.fill(0, 1, stream) && buffer.close(), 'all is well');
    },
    'cancelled': () => {
        const cancellable = new Gio.Cancellable();
        cancellable.cancel();
        try {
            GCuda.reclaim(cancellable);
        } catch (error) {
            check(error.matches(Gio.IOErrorEnum, Gio.IOErrorEnum.CANCELLED), error);
            return;
        }
        throw new Error('no error');
    },
    'fills': () => {
        const buffer = pool.allocate(8, stream);
        buffer.fill(0x55, 1, stream);
        for (const [width, value] of [[3, 1], [8, 1], [0, 1], [2 ** 32 - 1, 1], [1, 256], [2, 0x10000], [4, 2 ** 32], [1, BIG]])
            fails(INVALID, () => buffer.fill(value, width, stream));
        for (const [offset, size, width] of [[1, 4, 2], [0, 7, 2], [2, 4, 4], [0, 9, 1], [8, 1, 1], [9, 0, 1], [BIG, 1, 1], [1, BIG, 1]])
            fails(INVALID, () => buffer.fill_range(offset, size, 0, width, stream));
        fails(INVALID, () => buffer.fill_2d(0, 1, 2, 2, 0, 1, stream));
        equal(buffer.download(stream), bytes(8, 0x55), 'nothing was written');
        buffer.close();
    },
    'parts': () => {
        const buffer = pool.allocate(8, stream);
        const target = pool.allocate(8, stream);
        for (const call of [
            () => buffer.copy_range(4, target, 0, 5, stream),
            () => buffer.copy_range(0, target, 4, 5, stream),
            () => buffer.copy_range(BIG, target, 0, 2, stream),
            () => buffer.copy_range(0, buffer, 4, 5, stream),
            () => buffer.copy_to(buffer.new_view(0, 4), stream),
            () => buffer.copy_2d(0, 1, target, 0, 4, 2, 2, stream),
            () => buffer.upload_data(7, [1, 2], stream),
            () => buffer.upload(BIG, new GLib.Bytes(bytes(2, 0)), stream),
            () => buffer.download(7, 2, stream),
            () => buffer.download(2, BIG, stream),
            () => buffer.new_view(9, 0),
            () => buffer.new_view(1, BIG),
            () => GCuda.Buffer.new_for_address(device, 0, 8, null, stream),
            () => pool.adopt_address(0, 8, stream),
            () => pool.adopt_address(buffer.get_address(), 0, stream),
            () => pool.allocate_address(0, 0, stream),
            () => pool.allocate_address(8, 3, stream),
            () => pool.deallocate_address(0, 8, 0, stream),
            () => GCuda.Context.new(device, GCuda.ContextFlags.SPIN | GCuda.ContextFlags.YIELD),
        ])
            fails(INVALID, call);
        for (const ordinal of [-1, 99, -(2 ** 31), 2 ** 31 - 1])
            fails(GCuda.Error.INVALID_DEVICE, () => GCuda.Device.new(ordinal));
        buffer.close();
        target.close();
    },
    'events': () => {
        const start = GCuda.Event.new_for_device(device, GCuda.EventFlags.TIMING);
        const end = GCuda.Event.new_for_device(device, GCuda.EventFlags.TIMING);
        const untimed = GCuda.Event.new_for_device(device, GCuda.EventFlags.NONE);
        fails(GCuda.Error.NOT_RECORDED, () => start.elapsed_time(end));
        for (const event of [start, end, untimed])
            event.record(stream);
        fails(GCuda.Error.TIMING_DISABLED, () => start.elapsed_time(untimed));
        end.synchronize();
        check(start.elapsed_time(end) >= 0, 'a time');
    },
    // A script meets its binding's own error first; it never gets as far as a critical.
    'null where something is needed': () => {
        const buffer = pool.allocate(8, stream);
        const none = new GLib.Bytes(new Uint8Array());
        const event = GCuda.Event.new_for_device(device, GCuda.EventFlags.NONE);
        for (const call of [
            () => pool.allocate(8, null),
            () => pool.allocate_address(8, 0, null),
            () => pool.deallocate_address(256, 8, 0, null),
            () => pool.adopt_address(256, 8, null),
            () => buffer.fill(0, 1, null),
            () => buffer.fill_range(0, 1, 0, 1, null),
            () => buffer.fill_2d(0, 1, 1, 1, 0, 1, null),
            () => buffer.copy_to(null, stream),
            () => buffer.copy_to(buffer, null),
            () => buffer.copy_range(0, null, 0, 0, stream),
            () => buffer.copy_2d(0, 1, null, 0, 1, 1, 1, stream),
            () => GCuda.Buffer.copy_batch([buffer], [buffer], null),
            () => buffer.upload(0, null, stream),
            () => buffer.upload(0, none, null),
            () => buffer.upload_data(0, [], null),
            () => buffer.download(null),
            () => buffer.set_deallocation_stream(null),
            () => GCuda.Buffer.new_for_address(null, 256, 8, null, stream),
            () => GCuda.Buffer.new_for_address(device, 256, 8, null, null),
            () => GCuda.Stream.new(null, GCuda.StreamFlags.NONE, 0),
            () => GCuda.Stream.new_for_device(null),
            () => GCuda.Stream.new_legacy_default(null),
            () => GCuda.Stream.new_per_thread_default(null),
            () => GCuda.Stream.new_for_handle(null, 1, null),
            () => stream.wait_event(null),
            () => stream.wait_stream(null),
            () => stream.launch_host_function(null),
            () => GCuda.Event.new(null, GCuda.EventFlags.NONE),
            () => GCuda.Event.new_for_device(null, GCuda.EventFlags.NONE),
            () => event.record(null),
            () => event.elapsed_time(null),
            () => GCuda.Context.new(null, GCuda.ContextFlags.NONE),
            () => GCuda.DeviceMemoryResource.new(null),
            () => GCuda.DeviceMemoryResource.new_pool(null, 0, GCuda.HandleTypes.NONE),
            () => GCuda.SynchronousMemoryResource.new(null),
            () => GCuda.SynchronousMemoryResource.new_for_device(null),
            () => device.can_access_peer(null),
            () => pool.set_peer_access(null, true),
            () => pool.has_peer_access(null),
        ])
            throwsOwn(call);
        check(!buffer.is_closed(), 'still open');
        buffer.close();
    },
    'wrong types and numbers': () => {
        const buffer = pool.allocate(8, stream);
        for (const call of [
            () => pool.allocate(8, pool),
            () => pool.allocate(8),
            () => buffer.fill(0, 1, device),
            () => buffer.copy_to(stream, stream),
            () => buffer.close(device),
            () => stream.synchronize.call(pool),
            () => buffer.get_size.call(stream),
            () => stream.launch_host_function(3),
            () => pool.allocate(-1, stream),
            () => pool.allocate(BIG + 1n, stream),
            () => buffer.fill(-1, 1, stream),
            () => buffer.fill(0, -1, stream),
            () => buffer.fill(0, 2 ** 32, stream),
            () => buffer.download(-1, 1, stream),
            () => buffer.new_view(0, -1),
            () => pool.set_release_threshold(-1),
            () => pool.trim(-1),
        ])
            throwsOwn(call);
        buffer.close();
    },
});
