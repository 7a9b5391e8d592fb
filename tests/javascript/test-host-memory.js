// SPDX-License-Identifier: LGPL-2.1-or-later
// Pinned, managed and registered memory, and what the processor maps.

imports.searchPath.unshift(imports.gi.GLib.path_get_dirname(imports.system.programPath));
const {tap} = imports;
const {GCuda, GLib, device, stream, pool, check, equal, fails, throwsOwn, bytes, gc} = tap;
const {READ, WRITE, UNSYNCHRONIZED} = GCuda.MapFlags;
const SIZE = 64 * 1024;

function resources() {
    return [
        GCuda.PinnedMemoryResource.new(device),
        GCuda.PinnedMemoryResource.new_unpooled(device, false),
        GCuda.ManagedMemoryResource.new(device, null),
        GCuda.ManagedMemoryResource.new_unpooled(device, null),
    ];
}

function pinned() {
    return GCuda.PinnedMemoryResource.new(device).allocate(SIZE, stream);
}

tap.run({
    'map': () => {
        for (const resource of resources()) {
            const buffer = resource.allocate(SIZE, stream);
            buffer.fill(5, 1, stream);
            const map = buffer.map(READ | WRITE, stream);
            check(map.is_synchronized(), 'synchronized');
            equal(map.get_size(), SIZE);
            equal(map.read(), bytes(SIZE, 5));
            equal(map.read(SIZE - 3), bytes(3, 5));
            equal(map.read(10, 2), bytes(2, 5));
            map.write(10, new Uint16Array([0x0201, 0x0503]));
            equal(map.read(10, 4), new Uint8Array([1, 2, 3, 5]));
            map.write(10, [1, 2, 3]);
            map.unmap();
            map.unmap();
            check(!map.is_mapped(), 'unmapped');
            fails(GCuda.Error.CLOSED, () => map.read());
            const view = buffer.new_view(9, 5);
            equal(view.download(stream), [5, 1, 2, 3, 5]);
            view.close();
            buffer.close();
        }
    },
    'what a map refuses': () => {
        const buffer = pinned();
        const map = buffer.map(READ, stream);
        fails(GCuda.Error.INVALID_ARGUMENT, () => map.write(0, [1]));
        fails(GCuda.Error.INVALID_ARGUMENT, () => map.read(SIZE, 1));
        fails(GCuda.Error.INVALID_ARGUMENT, () => buffer.map(READ, null));
        fails(GCuda.Error.INVALID_ARGUMENT, () => buffer.map(0, stream));
        check(!buffer.map(READ | UNSYNCHRONIZED, null).is_synchronized(), 'not synchronized');
        map.unmap();
        buffer.close();
        const plain = pool.allocate(SIZE, stream);
        fails(GCuda.Error.NOT_SUPPORTED, () => plain.map(READ, stream));
        plain.close();
    },
    'a map keeps the memory': () => {
        let buffer = pinned();
        buffer.fill(7, 1, stream);
        const map = buffer.map(READ, stream);
        buffer.close();
        buffer = null;
        gc();
        equal(map.read(100, 1), [7]);
        map.unmap();
    },
    'pinned': () => {
        const [resource, pieces] = resources();
        check(!pieces.is_pooled(), 'piece by piece');
        check(resource.host_accessible && resource.device_accessible, 'both use it');
        fails(GCuda.Error.NOT_SUPPORTED, () => pieces.get_statistics());
        fails(GCuda.Error.INVALID_ARGUMENT, () => GCuda.PinnedMemoryResource.new_for_numa_node(device, 4711));
        fails(GCuda.Error.CLOSED, () => new GCuda.PinnedMemoryResource().allocate(1, stream));
        throwsOwn(() => GCuda.PinnedMemoryResource.new(null));
        if (resource.is_pooled())
            equal(resource.get_statistics().get_used(), 0);
    },
    'managed': () => {
        const host = GCuda.Location.new_host();
        const here = GCuda.Location.new_device(device);
        const buffer = GCuda.ManagedMemoryResource.new_unpooled(device, null).allocate(SIZE, stream);
        buffer.fill(3, 1, stream);
        check(!buffer.is_read_mostly(), 'not yet');
        buffer.set_read_mostly(true);
        check(buffer.is_read_mostly(), 'mostly read');
        equal(buffer.get_preferred_location(), null);
        buffer.set_preferred_location(host);
        check(buffer.get_preferred_location().equal(host), 'preferred');
        buffer.set_preferred_location(null);
        buffer.set_accessed_by(here, true);
        check(buffer.is_accessed_by(here) && !buffer.is_accessed_by(host), 'accessed by the device');
        buffer.prefetch(here, stream);
        equal(buffer.get_last_prefetch_location().get_device(), device);
        equal(buffer.get_last_prefetch_location().to_string(), 'device 0');
        GCuda.Buffer.prefetch_batch([buffer, buffer], host, stream);
        equal(buffer.download(stream), bytes(SIZE, 3));
        fails(GCuda.Error.INVALID_ARGUMENT, () => buffer.prefetch(GCuda.Location.new_numa_node(-1), stream));
        throwsOwn(() => buffer.prefetch(null, stream));
        buffer.close();
        const plain = pool.allocate(SIZE, stream);
        fails(GCuda.Error.INVALID_ARGUMENT, () => plain.set_read_mostly(true));
        fails(GCuda.Error.INVALID_ARGUMENT, () => plain.discard(stream));
        plain.close();
    },
    'registered': () => {
        let data = new GLib.Bytes(bytes(SIZE, 9));
        let buffer = GCuda.Buffer.new_for_bytes(device, data, stream);
        fails(GCuda.Error.HOST_MEMORY_ALREADY_REGISTERED, () => GCuda.Buffer.new_for_bytes(device, data, stream));
        fails(GCuda.Error.INVALID_ARGUMENT, () => buffer.fill(0, 1, stream));
        equal(buffer.map(READ, stream).read(0, 2), [9, 9]);
        const target = pool.allocate(SIZE, stream);
        buffer.copy_to(target, stream);
        data = buffer = null;
        gc();
        equal(target.download(stream), bytes(SIZE, 9));
        target.close();
        throwsOwn(() => GCuda.Buffer.new_for_bytes(device, null, stream));
        check(GCuda.reclaim(null), 'reclaimed');
    },
    'collected': () => {
        for (const resource of resources()) {
            const buffer = resource.allocate(SIZE, stream);
            buffer.fill(1, 1, stream);
            buffer.map_of_it = buffer.map(READ, stream);
            buffer.map_of_it.buffer = buffer;
        }
        gc();
        check(GCuda.reclaim(null), 'reclaimed');
    },
});
