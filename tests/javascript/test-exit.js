// SPDX-License-Identifier: LGPL-2.1-or-later
// Programs that end with all of it alive: they exit with 0 and complain of nothing.

imports.searchPath.unshift(imports.gi.GLib.path_get_dirname(imports.system.programPath));
const {tap} = imports;
const {GLib, equal} = tap;

const RUNS = GLib.getenv('GCUDA_TEST_LONG') === '1' ? 50 : 20;

const BUFFERS = `
let buffers = [];
for (let i = 0; i < 8; i++) {
    buffers.push(pool.allocate(2 ** 20, stream));
    for (let value = 0; value < 16; value++)
        buffers[i].fill(value, 1, stream);
}
`;

const RESOURCE = `
const Resource = GObject.registerClass(class Resource extends GCuda.MemoryResource {
    vfunc_allocate_address(size, alignment, on) {
        return pool.allocate_address(size, alignment, on);
    }
    vfunc_deallocate_address(address, size, alignment, on) {
        pool.deallocate_address(address, size, alignment, on);
    }
});
const Ordered = GObject.registerClass(class Ordered extends Resource {
    vfunc_is_stream_ordered() {
        return true;
    }
});
let resources = [new Resource({device}), new Ordered({device})];
`;

const HOST = `
let resources = [GCuda.PinnedMemoryResource.new(device), GCuda.PinnedMemoryResource.new_unpooled(device, false),
    GCuda.ManagedMemoryResource.new(device, null)];
let buffers = [...resources.map(resource => resource.allocate(2 ** 16, stream)),
    GCuda.Buffer.new_for_bytes(device, new GLib.Bytes(new Uint8Array(2 ** 16)), stream)];
let maps = buffers.map(buffer => buffer.map(GCuda.MapFlags.READ, stream));
`;

const EXITS = {
    'nothing': '',
    'memory of the host': HOST,
    'memory of the host, dropped': `${HOST} maps = buffers = resources = null; System.gc();`,
    'memory of the host, in a cycle': `${HOST}
for (const i in maps)
    Object.assign(maps[i], {buffer: buffers[i]}).buffer.map_of_it = maps[i];
maps = buffers = resources = null;
`,
    'globals': `${BUFFERS}
const views = buffers.map(buffer => buffer.new_view(16, 16));
const event = GCuda.Event.new_for_device(device, GCuda.EventFlags.NONE);
event.record(stream);
const statistics = pool.get_statistics();
const devices = GCuda.get_devices();
const context = GCuda.Context.new(device, GCuda.ContextFlags.NONE);
const others = [GCuda.Stream.new_per_thread_default(context), GCuda.Stream.new_legacy_default(context)];
`,
    'dropped with work pending': `${BUFFERS} buffers = stream = pool = null;`,
    'collected with work pending': `${BUFFERS} buffers = stream = pool = null; System.gc();`,
    'a cycle': `${BUFFERS}
for (const buffer of buffers)
    buffer.itself = buffer;
`,
    'attributes': `${BUFFERS}
for (const buffer of buffers)
    buffer.note = [stream, pool, buffer, () => buffer];
stream.note = pool.note = buffers;
buffers = stream = pool = null;
`,
    'signal handlers': `${BUFFERS}
for (const buffer of buffers)
    buffer.connect('notify', () => buffer.note);
buffers[0].close();
`,
    'a resource of its own': `${RESOURCE}
const kept = resources.map(resource => resource.allocate(2 ** 16, stream));
for (const buffer of kept)
    buffer.fill(1, 1, stream);
`,
    'a resource of its own, dropped': `${RESOURCE}
for (const resource of resources)
    resource.allocate(2 ** 16, stream).fill(1, 1, stream);
System.gc();
`,
    'a resource in a cycle': `${RESOURCE}
for (const resource of resources) {
    resource.buffers = [resource.allocate(2 ** 16, stream)];
    resource.buffers[0].itself = resource.buffers;
}
resources = null;
`,
    'synchronous memory': `
const synchronous = GCuda.SynchronousMemoryResource.new_for_device(device);
const block = synchronous.allocate(2 ** 16, stream);
block.fill(1, 1, stream);
synchronous.allocate(2 ** 16, stream).fill(1, 1, stream);
System.gc();
`,
    'memory of others': `${BUFFERS}
const borrowed = buffers.map(buffer => GCuda.Buffer.new_for_address(device, buffer.get_address(), 16, buffer, stream));
borrowed.length = 4;
buffers = null;
System.gc();
`,
    'host functions pending': `${BUFFERS}
for (const buffer of buffers)
    stream.launch_host_function(() => buffer.get_size());
stream.launch_host_function(() => stream.close());
`,
    'uploads pending': `${BUFFERS}
for (const buffer of buffers) {
    buffer.upload(0, new GLib.Bytes(new Uint8Array(2 ** 20)), stream);
    buffer.upload_data(0, new Uint8Array(2 ** 16), stream);
}
`,
    'a teardown handler': `${BUFFERS} GCuda.set_teardown_handler(() => print('called'));`,
    'closed': `${BUFFERS}
stream.close();
buffers[1].close();
`,
    'exit called in a call-back': `${BUFFERS}
const loop = new GLib.MainLoop(null, false);
stream.launch_host_function(() => System.exit(0));
loop.run();
`,
    'quit in a call-back': `${BUFFERS}
const loop = new GLib.MainLoop(null, false);
stream.launch_host_function(() => loop.quit());
loop.run();
`,
};

function exits(script, runs) {
    for (let i = 0; i < runs; i++) {
        const {status, output, complaints} = tap.runScript(script);
        equal([status, output, complaints], [0, '', '']);
    }
}

const tests = {};
for (const [name, script] of Object.entries(EXITS))
    tests[`exit with ${name}`] = () => exits(script, RUNS / 10);

// Each in a scope of its own; its buffers hang on the global object
tests['exit with everything'] = () => exits(['globals', 'a cycle', 'attributes', 'a resource of its own', 'synchronous memory',
    'memory of others', 'host functions pending', 'uploads pending', 'a teardown handler']
    .map((name, i) => `{\n${EXITS[name].replace(/\b(stream|pool) = /g, '').replace(/= null/g, '.length = 4')}\n${
        `globalThis.kept${i} = typeof buffers === 'undefined' ? null : buffers;`}}`).join('\n'), RUNS);

tap.run(tests);
