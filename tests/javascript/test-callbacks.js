// SPDX-License-Identifier: LGPL-2.1-or-later
// Call-backs into a program: from its main loop, and from nowhere else.

imports.searchPath.unshift(imports.gi.GLib.path_get_dirname(imports.system.programPath));
const {tap} = imports;
const {GCuda, device, stream, pool, check, equal, fails, bytes} = tap;

tap.run({
    'on the loop': () => {
        let called = 0;
        check(stream.launch_host_function(() => called++), 'launched');
        stream.synchronize();
        equal(called, 0, 'never inline, and not without a loop');
        tap.iterateUntil(() => called);
        tap.iterate();
        equal(called, 1);
    },
    'in order': () => {
        const called = [];
        for (let i = 0; i < 100; i++)
            stream.launch_host_function(() => called.push(i));
        tap.iterateUntil(() => called.length === 100);
        equal(called, [...Array(100).keys()]);
    },
    'may use the library': () => {
        const buffer = pool.allocate(64, stream);
        buffer.fill(6, 1, stream);
        let seen = null;
        stream.launch_host_function(() => {
            seen = buffer.download(stream);
        });
        buffer.fill(7, 1, stream);
        tap.iterateUntil(() => seen);
        equal(seen, bytes(64, 7), 'the stream did not wait for it');
        stream.launch_host_function(() => buffer.close());
        tap.iterateUntil(() => buffer.is_closed());
    },
    'while the collector runs': () => {
        let called = 0;
        for (let i = 0; i < 100; i++) {
            stream.launch_host_function(() => called++);
            if (i % 10 === 0)
                tap.gc();
        }
        tap.gc();
        tap.iterateUntil(() => called === 100);
        tap.gc();
    },
    'stream is dropped': () => {
        // The binding ties a call-back to the object whose method it was given to
        const {status, output, complaints} = tap.runScript(`
            const loop = new GLib.MainLoop(null, false);
            GCuda.Stream.new_for_device(device).launch_host_function(() => {
                print('called');
                loop.quit();
            });
            System.gc();
            GLib.timeout_add_seconds(GLib.PRIORITY_DEFAULT, 10, () => loop.quit());
            loop.run();
        `);
        equal([status, output, complaints], [0, 'called\n', '']);
    },
    'failure': () => {
        const closed = GCuda.Stream.new_for_device(device);
        closed.close();
        let called = 0;
        fails(GCuda.Error.CLOSED, () => closed.launch_host_function(() => called++));
        tap.iterate();
        equal(called, 0);
    },
    'exception': () => {
        const {status, output, complaints} = tap.runScript(`
            const loop = new GLib.MainLoop(null, false);
            stream.launch_host_function(() => {
                throw new Error('a mistake');
            });
            stream.launch_host_function(() => loop.quit());
            loop.run();
            print('end');
        `);
        equal([status, output], [0, 'end\n']);
        equal(complaints.split('a mistake').length - 1, 1, complaints);
    },
    'without a loop': () => {
        // At its end gjs itself runs what is ready
        const {status, output, complaints} = tap.runScript(`
            stream.launch_host_function(() => print('called'));
            stream.synchronize();
            GCuda.reclaim(null);
            print('end');
        `);
        equal([status, output.replace(/^end\ncalled\n/, 'end\n'), complaints], [0, 'end\n', '']);
    },
    'teardown handler': () => {
        let called = 0;
        GCuda.set_teardown_handler(() => called++);
        tap.iterate();
        GCuda.set_teardown_handler(() => called++);
        pool.allocate(64, stream).close();
        fails(GCuda.Error.OUT_OF_MEMORY, () => pool.allocate(2 ** 60, stream));
        tap.settledUse();
        GCuda.set_teardown_handler(null);
        GCuda.set_teardown_handler(null);
        tap.settledUse();
        equal(called, 0);
    },
    'teardown handler is told of failures': () => {
        if (!tap.canFailCalls)
            tap.skip('no call of a real driver fails on demand, where nothing passes them on');
        // The second free fails: the first one is that of the driver's choice of a size
        const {status, output, complaints} = tap.runScript(`
            GLib.setenv('GCUDASIM_FAIL', 'cuMemFreeAsync:2=UNKNOWN', true);
            const script = [
                "imports.gi.versions.GCuda = '1.0'; const {GCuda, GLib} = imports.gi;",
                "const device = GCuda.Device.new(0); const stream = GCuda.Stream.new_for_device(device);",
                "const pool = GCuda.DeviceMemoryResource.new_pool(device, 0, GCuda.HandleTypes.NONE);",
                "GCuda.set_teardown_handler((error, call, handle, leaked) => {",
                "    print(error.matches(GCuda.Error, GCuda.Error.UNKNOWN), call, handle === address, leaked);",
                "});",
                "pool.allocate(64, stream).close();",
                "const buffer = pool.allocate(64, stream);",
                "const address = buffer.get_address();",
                "buffer.close(); buffer.close(); print('not yet');",
                "while (GLib.MainContext.default().iteration(false));",
            ].join('\\n');
            const process = Gio.Subprocess.new([GLib.file_read_link('/proc/self/exe'), '-c', script], 0);
            process.wait(null);
            System.exit(process.get_exit_status());
        `);
        equal([status, output], [0, 'not yet\ntrue cuMemFreeAsync true 64\n']);
        equal(complaints.trim().split('\n').length, 1, complaints);
        for (const word of ['GCuda-WARNING', 'CUDA_ERROR_UNKNOWN', 'cuMemFreeAsync', '64 bytes leaked'])
            check(complaints.includes(word), complaints);
    },
});
