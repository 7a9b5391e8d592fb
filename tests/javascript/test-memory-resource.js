// SPDX-License-Identifier: LGPL-2.1-or-later
// Memory resources written in JavaScript.

imports.searchPath.unshift(imports.gi.GLib.path_get_dirname(imports.system.programPath));
const {tap} = imports;
const {GCuda, GLib, device, stream, pool, check, equal, fails, bytes} = tap;
const {GObject} = imports.gi;

// Takes its memory from another resource, and counts.
const Forwarding = GObject.registerClass(class Forwarding extends GCuda.MemoryResource {
    constructor(upstream) {
        super({device: upstream.get_device()});
        this.upstream = upstream;
        this.live = new Map();
        this.allocated = 0;
        this.deallocated = 0;
    }

    vfunc_allocate_address(size, alignment, on) {
        const address = this.upstream.allocate_address(size, alignment, on);
        this.live.set(address, [size, alignment]);
        this.allocated++;
        return address;
    }

    vfunc_deallocate_address(address, size, alignment, on) {
        equal(this.live.get(address), [size, alignment]);
        this.live.delete(address);
        this.upstream.deallocate_address(address, size, alignment, on);
        this.deallocated++;
    }
});

// Its upstream frees in stream order, and so does it.
const Ordered = GObject.registerClass(class Ordered extends Forwarding {
    vfunc_is_stream_ordered() {
        return true;
    }
});

// Throws, or returns what it is told.
const Failing = GObject.registerClass(class Failing extends Ordered {
    constructor(answer) {
        super(pool);
        this.answer = answer;
    }

    vfunc_allocate_address() {
        if (this.answer instanceof Error || this.answer instanceof GLib.Error)
            throw this.answer;
        return this.answer;
    }
});

const Incomplete = GObject.registerClass(class Incomplete extends GCuda.MemoryResource {});

const both = test => {
    for (const kind of [Forwarding, Ordered])
        test(new kind(pool));
};

// A resource whose give-back throws, as a program of its own: what it complains of is counted there.
const THROWING = `
const Throwing = GObject.registerClass(class Throwing extends GCuda.MemoryResource {
    vfunc_allocate_address(size, alignment, on) {
        return pool.allocate_address(size, alignment, on);
    }
    vfunc_deallocate_address(address, size, alignment, on) {
        this.deallocated = (this.deallocated ?? 0) + 1;
        pool.deallocate_address(address, size, alignment, on);
        throw new ERROR;
    }
    vfunc_is_stream_ordered() {
        return ORDERED;
    }
});
const resource = new Throwing({device});
const buffer = resource.allocate(64, stream);
print(buffer.close(), buffer.is_closed());
GCuda.reclaim(null);
print(buffer.close(), resource.deallocated);
GCuda.reclaim(null);
System.gc();
stream.synchronize();
print(pool.get_statistics().get_used(), System.refcount(resource), System.refcount(stream));
`;

tap.run({
    'forwarding': () => both(resource => {
        check(resource.get_device() === device, 'the device');
        check(resource.is_device_accessible() && !resource.is_host_accessible(), 'of the device');
        const buffer = resource.allocate(1000, stream);
        check(buffer.get_resource() === resource, 'the resource');
        check(buffer.get_device() === device, 'the device');
        equal([...resource.live], [[buffer.get_address(), [1000, 256]]]);
        buffer.fill(5, 1, stream);
        equal(buffer.download(stream), bytes(1000, 5));
        check(buffer.close(), 'closed');
        GCuda.reclaim(null);
        equal([resource.live.size, resource.allocated, resource.deallocated], [0, 1, 1]);
    }),
    'properties': () => {
        const resource = new Incomplete({device, hostAccessible: true, deviceAccessible: false});
        check(resource.is_host_accessible() && !resource.is_device_accessible(), 'as it was told');
        equal(new Incomplete().get_device(), null);
    },
    'size 0 never gets there': () => both(resource => {
        const buffer = resource.allocate(0, stream);
        equal(buffer.get_address(), 0);
        buffer.close();
        GCuda.reclaim(null);
        equal([resource.allocated, resource.deallocated], [0, 0]);
    }),
    'addresses': () => both(resource => {
        let address = resource.allocate_address(100, 16, stream);
        equal([...resource.live], [[address, [100, 16]]]);
        check(resource.deallocate_address(address, 100, 16, stream), 'given back');
        equal(resource.live.size, 0);
        address = resource.allocate_address(100, 0, stream);
        equal([...resource.live], [[address, [100, 256]]], 'no alignment is the usual one');
        const buffer = resource.adopt_address(address, 100, stream);
        equal(buffer.get_address(), address);
        buffer.close();
        GCuda.reclaim(null);
        equal(resource.live.size, 0);
    }),
    'views keep the memory': () => both(resource => {
        const buffer = resource.allocate(64, stream);
        const view = buffer.new_view(0, 8);
        buffer.close();
        GCuda.reclaim(null);
        equal(resource.deallocated, 0);
        view.close();
        GCuda.reclaim(null);
        equal(resource.deallocated, 1);
    }),
    'one on another': () => {
        const inner = new Ordered(pool);
        const outer = new Ordered(inner);
        const buffer = outer.allocate(64, stream);
        equal([...outer.live.keys(), ...inner.live.keys()], [buffer.get_address(), buffer.get_address()]);
        buffer.close();
        GCuda.reclaim(null);
        equal([outer.live.size, inner.live.size], [0, 0]);
    },
    'recipe': () => {
        const other = GCuda.Stream.new_for_device(device);
        const handles = [];
        const Watching = GObject.registerClass(class Watching extends Ordered {
            vfunc_deallocate_address(address, size, alignment, on) {
                handles.push(on.get_handle());
                super.vfunc_deallocate_address(address, size, alignment, on);
            }
        });
        const resource = new Watching(pool);
        for (const close of [buffer => buffer.close(), buffer => buffer.close(other),
            buffer => buffer.set_deallocation_stream(other) && buffer.close()]) {
            const buffer = resource.allocate(64, stream);

            other.wait_stream(stream);
            close(buffer);
            GCuda.reclaim(null);
        }
        equal(handles, [stream.get_handle(), other.get_handle(), other.get_handle()]);
    },
    'error in allocate': () => {
        const resource = new Failing(new GLib.Error(GCuda.Error, GCuda.Error.OUT_OF_MEMORY, 'there is no more'));
        fails(GCuda.Error.OUT_OF_MEMORY, () => resource.allocate(64, stream));
        fails(GCuda.Error.OUT_OF_MEMORY, () => resource.allocate_address(64, 0, stream));
        fails(GCuda.Error.OUT_OF_MEMORY, () => new Ordered(pool).allocate(2 ** 52, stream));
    },
    'exception in allocate': () => {
        const mistake = new Error('a mistake');
        try {
            new Failing(mistake).allocate(64, stream);
        } catch (error) {
            equal(error.message, 'a mistake');
            return;
        }
        throw new Error('no error');
    },
    'no address': () => {
        for (const answer of [0, 0n, null, undefined, 'text', {}, [1, 2], NaN])
            fails(GCuda.Error.RESOURCE_FAILED, () => new Failing(answer).allocate(64, stream));
        for (const answer of [-1, 2n ** 64n])
            tap.throwsOwn(() => new Failing(answer).allocate(64, stream));
    },
    'incomplete': () => {
        fails(GCuda.Error.RESOURCE_FAILED, () => new Incomplete().allocate(64, stream));
        fails(GCuda.Error.RESOURCE_FAILED, () => new Incomplete().deallocate_address(256, 64, 0, stream));
        equal(new Incomplete().allocate(0, stream).get_size(), 0);
    },
    'exception in deallocate': () => {
        for (const error of ['Error("a mistake")', 'GLib.Error(GCuda.Error, GCuda.Error.UNKNOWN, "a mistake")']) {
            for (const ordered of [true, false]) {
                const {status, output, complaints} = tap.runScript(
                    THROWING.replace('ERROR', error).replace('ORDERED', ordered));
                equal([status, output], [0, 'true true\ntrue 1\n0 1 1\n']);
                equal(complaints.split('a mistake').length - 1, 1, complaints);
            }
        }
    },
    'given back by the main loop': () => both(resource => {
        resource.allocate(64, stream).fill(1, 1, stream);
        tap.gc();
        equal(resource.deallocated, 0, 'it is never called by the collector');
        tap.iterateUntil(() => resource.deallocated === 1);
        equal(resource.live.size, 0);
    }),
    'given back by reclaim': () => both(resource => {
        resource.allocate(64, stream).fill(1, 1, stream);
        tap.gc();
        equal(resource.deallocated, 0, 'it is never called by the collector');
        GCuda.reclaim(null);
        equal(resource.live.size, 0);
    }),
    'given back by allocate': () => {
        const resource = new Ordered(pool);
        resource.allocate(64, stream).fill(1, 1, stream);
        tap.gc();
        equal(resource.deallocated, 0);
        const buffer = resource.allocate(64, stream);
        equal([...resource.live.keys()], [buffer.get_address()]);
        buffer.close();
        equal(resource.live.size, 0);
    },
    'given back by close': () => {
        const resource = new Ordered(pool);
        const buffer = resource.allocate(64, stream);
        resource.allocate(64, stream).fill(1, 1, stream);
        tap.gc();
        equal(resource.deallocated, 0);
        buffer.close();
        equal(resource.live.size, 0);
    },
    'cycle': () => both(resource => {
        // The collector sees this cycle. It can't see that a buffer keeps its resource: a resource must not keep its buffers.
        const make = () => {
            const buffer = resource.allocate(64, stream);
            buffer.around = [buffer, resource];
        };
        make();
        tap.gc();
        GCuda.reclaim(null);
        equal(resource.live.size, 0);
    }),
    'allocates while it deallocates': () => {
        const Nested = GObject.registerClass(class Nested extends Ordered {
            vfunc_deallocate_address(address, size, alignment, on) {
                super.vfunc_deallocate_address(address, size, alignment, on);
                if (this.allocated < 4)
                    this.allocate(size, on).close();
            }
        });
        const resource = new Nested(pool);
        resource.allocate(64, stream).close();
        GCuda.reclaim(null);
        equal([resource.allocated, resource.deallocated, resource.live.size], [4, 4, 0]);
    },
});
