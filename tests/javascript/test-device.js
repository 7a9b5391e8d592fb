// SPDX-License-Identifier: LGPL-2.1-or-later
// Devices as a list model, and the settings of pools: 64-bit values that JavaScript's numbers do not hold.

imports.searchPath.unshift(imports.gi.GLib.path_get_dirname(imports.system.programPath));
const {tap} = imports;
const {GCuda, device, context, stream, pool, check, equal, fails} = tap;
const {Gio} = imports.gi;

const UNLIMITED = 2n ** 64n - 1n;

tap.run({
    'list model': () => {
        const devices = GCuda.get_devices();
        check(devices instanceof Gio.ListModel, 'a list model');
        equal(devices.get_item_type(), GCuda.Device.$gtype);
        let i = 0;
        for (const each of devices) {
            equal(each.get_ordinal(), i);
            check(each === devices.get_item(i), 'one object for each device');
            check(each === GCuda.Device.new(i), 'one object for each device');
            i++;
        }
        equal(i, devices.get_n_items());
        equal(devices.get_item(i), null);
        equal(devices.get_item(2 ** 32 - 1), null);
    },
    'device': () => {
        equal(device.get_ordinal(), 0);
        check(device.get_name().length > 0, 'a name');
        check(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(device.get_uuid()), device.get_uuid());
        check(/^[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9]$/.test(device.get_pci_bus_id()), device.get_pci_bus_id());
        equal(device.get_attribute(75), device.get_compute_capability_major());
        const info = device.get_memory_info();
        check(info.get_free() > 0 && info.get_free() <= info.get_total(), 'memory');
        check(device.synchronize(), 'synchronized');
        check(device.get_primary_context() === context, 'the same context');
        check(context.is_primary() && context.get_device() === device, 'primary');
        fails(GCuda.Error.INVALID_VALUE, () => device.get_attribute(100000));
    },
    'release threshold': () => {
        for (const value of [0, 2 ** 20, 2n ** 53n + 1n]) {
            check(pool.set_release_threshold(value), 'set');
            equal(pool.get_release_threshold(), Math.min(Number(value), device.get_total_memory()));
            check(!pool.is_release_unlimited(), 'there is a limit');
        }
        check(pool.set_release_threshold(UNLIMITED), 'set');
        check(pool.is_release_unlimited(), 'no limit');
        equal(pool.get_release_threshold(), device.get_total_memory());
        equal(pool.releaseThreshold, device.get_total_memory());
        check(pool.set_release_threshold(0) && !pool.is_release_unlimited(), 'there is a limit');
    },
    'no value is rounded on its way out': () => {
        const {status, output, complaints} = tap.runScript(`
            pool.set_release_threshold(${UNLIMITED}n);
            print(pool.is_release_unlimited());
            const buffer = pool.allocate(64, stream);
            const event = GCuda.Event.new_for_device(device, GCuda.EventFlags.NONE);
            const statistics = pool.get_statistics();
            const info = device.get_memory_info();
            const shared = GCuda.DeviceMemoryResource.new(device);
            for (const value of [pool.get_release_threshold(), pool.releaseThreshold, pool.get_max_size(), pool.get_handle(),
                shared.get_release_threshold(), shared.get_handle(), buffer.get_address(), buffer.get_size(), stream.get_handle(),
                event.get_handle(), device.get_primary_context().get_handle(), device.get_primary_context().get_id(),
                device.get_total_memory(), statistics.get_used(), statistics.get_used_high(), statistics.get_reserved(),
                statistics.get_reserved_high(), info.get_free(), info.get_total()]) {
                if (!Number.isSafeInteger(value))
                    print(value);
            }
        `);
        equal([status, output, complaints], [0, 'true\n', '']);
    },
    'statistics': () => {
        const before = pool.get_statistics();
        const buffer = pool.allocate(2 ** 20, stream);
        const after = pool.get_statistics();
        equal(before.get_used(), 0, 'a snapshot does not change');
        check(after.get_used() >= 2 ** 20 && after.get_reserved() >= after.get_used(), 'counted');
        buffer.close();
        stream.synchronize();
        equal(pool.get_statistics().get_used(), 0);
        check(pool.get_statistics().get_used_high() >= 2 ** 20, 'remembered');
        check(pool.reset_high_marks() && pool.get_statistics().get_used_high() === 0, 'forgotten');
        check(pool.trim(0) && pool.get_statistics().get_reserved() === 0, 'trimmed');
    },
    'kinds and reuse': () => {
        check(pool.owns_pool(), 'its own');
        const shared = GCuda.DeviceMemoryResource.new(device);
        check(!shared.owns_pool(), 'shared');
        equal(GCuda.DeviceMemoryResource.new(device).get_handle(), shared.get_handle());
        const flags = GCuda.PoolReuse.FOLLOW_EVENTS | GCuda.PoolReuse.OPPORTUNISTIC;
        check(pool.set_reuse(flags), 'set');
        equal(pool.get_reuse(), flags);
    },
});
