// SPDX-License-Identifier: LGPL-2.1-or-later
// Virtual memory: buffers that grow, shrink and move.

imports.searchPath.unshift(imports.gi.GLib.path_get_dirname(imports.system.programPath));
const {tap} = imports;
const {GCuda, GLib, device, stream, pool, check, equal, fails, throwsOwn, bytes} = tap;
const {NONE, MAY_MOVE} = GCuda.ResizeFlags;

function make(change = () => {}) {
    const options = GCuda.VirtualMemoryOptions.new();
    change(options);
    try {
        return GCuda.VirtualMemoryResource.new(device, options);
    } catch (error) {
        if (error instanceof GLib.Error && error.matches(GCuda.Error, GCuda.Error.NOT_SUPPORTED))
            tap.skip(error.message);
        throw error;
    }
}

const resource = make();
const unit = resource.get_granularity();

function read(buffer, offset, size) {
    const view = buffer.new_view(offset, size);
    const data = view.download(stream);
    view.close();
    return data;
}

tap.run({
    'allocate': () => {
        const buffer = resource.allocate(100, stream);
        check(unit > 0, 'a granularity');
        equal(buffer.get_size(), 100);
        equal(resource.get_capacity(buffer), unit);
        buffer.fill(7, 1, stream);
        equal(buffer.download(stream), bytes(100, 7));
        buffer.close();
        equal(GCuda.VirtualMemoryResource.new(device, null).get_granularity(), unit);
    },
    'grow in place': () => {
        const headroom = make(options => options.set_max_size(16 * unit));
        const buffer = headroom.allocate(10, stream);
        const address = buffer.get_address();
        const sizes = [];
        buffer.connect('notify::size', each => sizes.push(each.get_size()));
        buffer.fill(1, 1, stream);
        for (let i = 1; i < 5; i++)
            check(headroom.resize(buffer, i * unit + 10, NONE, stream), 'resized');
        equal(buffer.get_address(), address);
        equal(sizes, [1, 2, 3, 4].map(i => i * unit + 10));
        equal(headroom.get_capacity(buffer), 5 * unit);
        equal(read(buffer, 0, 10), bytes(10, 1));
        buffer.close();
    },
    'move': () => {
        const buffer = resource.allocate(unit, stream);
        const address = buffer.get_address();
        const others = [1, 2, 3, 4].map(() => resource.allocate(unit, stream));
        buffer.fill(3, 1, stream);
        check(resource.resize(buffer, 2 * unit, MAY_MOVE, stream), 'resized');
        if (tap.simulated)
            check(buffer.get_address() !== address, 'it moved');
        equal(read(buffer, 0, 16), bytes(16, 3));
        others.forEach(each => each.close());
        buffer.close();
    },
    'shrink and views': () => {
        const chunks = make(options => options.set_chunk_size(unit));
        const buffer = chunks.allocate(4 * unit, stream);
        const view = buffer.new_view(0, 16);
        buffer.fill(9, 1, stream);
        fails(GCuda.Error.IN_USE, () => chunks.resize(buffer, 1, NONE, stream));
        fails(GCuda.Error.INVALID_ARGUMENT, () => chunks.resize(view, 1, NONE, stream));
        view.close();
        check(chunks.resize(buffer, unit + 1, NONE, stream), 'resized');
        equal(chunks.get_capacity(buffer), 2 * unit);
        equal(read(buffer, unit, 1), bytes(1, 9));
        buffer.close();
    },
    'reserve': () => {
        const buffer = resource.reserve(4 * unit, stream);
        equal(resource.get_capacity(buffer), 0);
        check(resource.commit(buffer, unit, 2 * unit, stream), 'committed');
        buffer.fill_range(unit, 16, 5, 1, stream);
        check(resource.decommit(buffer, 2 * unit, unit, stream), 'decommitted');
        equal(resource.get_capacity(buffer), unit);
        equal(read(buffer, unit, 16), bytes(16, 5));
        fails(GCuda.Error.INVALID_ARGUMENT, () => resource.commit(buffer, 1, unit, stream));
        buffer.close();
    },
    'access': () => {
        const buffer = resource.allocate(16, stream);
        const devices = [...GCuda.get_devices()];
        check(resource.set_access(buffer, device, GCuda.MemoryAccess.READ_WRITE), 'set');
        buffer.fill(1, 1, stream);
        if (devices.length > 1 && devices[1].can_access_peer(device)) {
            check(resource.add_peer(devices[1], GCuda.MemoryAccess.READ), 'added');
            const spread = make(options => options.set_placement([device, devices[1]], GCuda.MemoryPlacement.BLOCKED));
            const both = spread.allocate(2 * unit, stream);
            both.fill(2, 1, stream);
            equal(read(both, unit, 4), bytes(4, 2));
            both.close();
        }
        buffer.close();
    },
    'cache': () => {
        const cached = make(options => options.set_cache_size(4 * unit));
        cached.allocate(unit, stream).close();
        GCuda.reclaim(null);
        check(cached.trim(0), 'trimmed');
    },
    'bad arguments': () => {
        const buffer = resource.allocate(16, stream);
        const other = pool.allocate(16, stream);
        fails(GCuda.Error.INVALID_ARGUMENT, () => resource.resize(buffer, 0, NONE, stream));
        fails(GCuda.Error.INVALID_ARGUMENT, () => resource.resize(other, 1, NONE, stream));
        throwsOwn(() => resource.resize(null, 1, NONE, stream));
        throwsOwn(() => resource.resize(buffer, 1, NONE, null));
        fails(GCuda.Error.INVALID_ARGUMENT, () => make(options => options.set_alignment(3)));
        fails(GCuda.Error.CLOSED, () => new GCuda.VirtualMemoryResource().allocate(1, stream));
        other.close();
        buffer.close();
        fails(GCuda.Error.CLOSED, () => resource.resize(buffer, 1, NONE, stream));
    },
});
