// SPDX-License-Identifier: LGPL-2.1-or-later
// Resources built on others, from JavaScript: bound properties, traces, retries, and adaptors that a script writes.

imports.searchPath.unshift(imports.gi.GLib.path_get_dirname(imports.system.programPath));
const {tap} = imports;
const {GCuda, Gio, GLib, check, equal, fails, iterateUntil, pool, settledUse, stream, throwsOwn} = tap;
const {GObject} = imports.gi;

const MIB = 1 << 20;

const Padding = GObject.registerClass(class Padding extends GCuda.StatisticsMemoryResource {
    vfunc_allocate_address(size, alignment, onStream) {
        this.calls = (this.calls ?? 0) + 1;
        return super.vfunc_allocate_address(2 * size, alignment, onStream);
    }

    vfunc_deallocate_address(address, size, alignment, onStream) {
        super.vfunc_deallocate_address(address, 2 * size, alignment, onStream);
    }
});

tap.run({
    'statistics can be bound to': () => {
        const resource = GCuda.StatisticsMemoryResource.new(pool);
        const notified = [];
        resource.connect('notify::current-bytes', () => notified.push(resource.current_bytes));
        const buffer = resource.allocate(1000, stream);
        buffer.fill(7, 1, stream);
        equal(buffer.download(0, 1000, stream), tap.bytes(1000, 7));
        equal(resource.get_statistics().get_total_count(), 1);
        equal(notified, []);
        iterateUntil(() => notified.length);
        equal(notified, [1000]);
        buffer.close();
        equal(settledUse(), 0);
        equal([resource.current_bytes, resource.peak_bytes], [0, 1000]);
        check(resource.get_upstream() === pool, 'its upstream is the pool');
    },
    'a limit is kept': () => {
        const resource = GCuda.LimitingMemoryResource.new(pool, MIB);
        const buffer = resource.allocate(MIB, stream);
        fails(GCuda.Error.OUT_OF_MEMORY, () => resource.allocate(1, stream));
        resource.limit = 2 * MIB;
        resource.allocate(MIB, stream).close();
        buffer.close();
        settledUse();
        equal(resource.get_used(), 0);
    },
    'a handler makes room': () => {
        const resource = GCuda.FailureCallbackMemoryResource.new(GCuda.LimitingMemoryResource.new(pool, MIB));
        const cache = [resource.allocate(MIB, stream)];
        const asked = [];
        resource.connect('allocation-failed', (emitter, size, attempt, error) => {
            check(error.matches(GCuda.Error, GCuda.Error.OUT_OF_MEMORY), 'the reason');
            asked.push([size, attempt]);
            cache.pop()?.close();
            return attempt < 2;
        });
        const buffer = resource.allocate(MIB, stream);
        equal(asked, [[MIB, 1]]);
        fails(GCuda.Error.OUT_OF_MEMORY, () => resource.allocate(MIB, stream));
        buffer.close();
        equal(settledUse(), 0);
    },
    'alignment and bins': () => {
        const resource = GCuda.BinningMemoryResource.new(GCuda.AlignedMemoryResource.new(pool, 65536));
        resource.add_bin(4096, pool);
        const buffers = [1, 2, 3].map(() => resource.allocate(4097, stream));
        for (const buffer of buffers) {
            equal(buffer.get_address() % 65536, 0);
            buffer.close();
        }
        fails(GCuda.Error.IN_USE, () => resource.add_bin(8192, pool));
        fails(GCuda.Error.INVALID_ARGUMENT, () => GCuda.AlignedMemoryResource.new(pool, 3));
        throwsOwn(() => GCuda.AlignedMemoryResource.new(null, 256));
        equal(settledUse(), 0);
    },
    'a subclass chains up': () => {
        const padding = new Padding({upstream: pool});
        const resource = GCuda.StatisticsMemoryResource.new(padding);
        const buffer = resource.allocate(512, stream);
        buffer.fill(3, 1, stream);
        equal(buffer.download(0, 512, stream), tap.bytes(512, 3));
        equal([padding.get_statistics().get_current_bytes(), resource.get_statistics().get_current_bytes()], [1024, 512]);
        buffer.close();
        equal(settledUse(), 0);
        equal([padding.calls, padding.get_statistics().get_current_bytes()], [1, 0]);
    },
    'a trace runs again': () => {
        const folder = GLib.dir_make_tmp('gcuda-XXXXXX');
        const file = Gio.File.new_for_path(GLib.build_filenamev([folder, 'trace']));
        const resource = GCuda.LoggingMemoryResource.new(pool, file);
        for (let i = 0; i < 5; i++)
            resource.allocate(100 + i, stream).close();
        const counted = GCuda.StatisticsMemoryResource.new(pool);
        GCuda.replay_trace(file, counted, null);
        equal(counted.get_statistics().get_total_count(), 5);
        GLib.file_set_contents(file.get_path(), '# gcuda-trace 1\ngarbage\n');
        fails(GCuda.Error.INVALID_ARGUMENT, () => GCuda.replay_trace(file, counted, null));
        equal(counted.get_statistics().get_total_count(), 5);
        GLib.unlink(file.get_path());
        GLib.rmdir(folder);
    },
    'without upstream they say so': () => {
        for (const Kind of [GCuda.StatisticsMemoryResource, GCuda.LimitingMemoryResource, Padding])
            fails(GCuda.Error.INVALID_ARGUMENT, () => new Kind().allocate(100, stream));
    },
    'exit is silent': () => {
        const {status, output, complaints} = tap.runScript(`
            const counted = GCuda.StatisticsMemoryResource.new(GCuda.LimitingMemoryResource.new(pool, 1 << 20));
            counted.connect('notify::current-bytes', () => {});
            const kept = [1, 2, 3].map(() => counted.allocate(4096, stream));
            print('done');
        `);
        equal([status, output, complaints], [0, 'done\n', '']);
    },
});
