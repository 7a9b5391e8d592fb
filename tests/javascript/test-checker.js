// SPDX-License-Identifier: LGPL-2.1-or-later
// The ordering checker in a script: reports name the script's lines, and what kernels do can be declared.

imports.searchPath.unshift(imports.gi.GLib.path_get_dirname(imports.system.programPath));
const {tap} = imports;
const {GCuda, GLib, check, device, equal, fails, pool, stream, throwsOwn} = tap;

const BOTH = GCuda.AccessFlags.READ | GCuda.AccessFlags.WRITE;

const checked = tap.canFailCalls && GLib.getenv('GCUDASIM_CHECK') !== 'off';

const RACE = `
const other = GCuda.Stream.new_for_device(device);
const buffer = pool.allocate(4096, stream);
stream.synchronize();
function first() {
    buffer.fill(1, 1, stream);
}
function second() {
    buffer.fill(2, 1, other);
}
`;

function reports(script) {
    const folder = GLib.dir_make_tmp('gcuda-XXXXXX');
    const path = GLib.build_filenamev([folder, 'reports']);
    const before = GLib.getenv('GCUDASIM_CHECK');
    GLib.setenv('GCUDASIM_CHECK', 'report', true);
    GLib.setenv('GCUDASIM_CHECK_FILE', path, true);
    const {status, complaints} = tap.runScript(script);
    GLib.unsetenv('GCUDASIM_CHECK_FILE');
    if (before === null)
        GLib.unsetenv('GCUDASIM_CHECK');
    else
        GLib.setenv('GCUDASIM_CHECK', before, true);
    let found = [];
    if (GLib.file_test(path, GLib.FileTest.EXISTS)) {
        const text = new TextDecoder().decode(GLib.file_get_contents(path)[1]);
        found = text.split('\n').filter(line => line).map(line => JSON.parse(line));
        GLib.unlink(path);
    }
    GLib.rmdir(folder);
    equal(status, 0, complaints);
    return {found, complaints};
}

tap.run({
    'reports name the lines'() {
        if (!checked)
            tap.skip('nothing checks this driver');
        const {found, complaints} = reports(`${RACE} first(); second(); device.synchronize();`);
        equal(found.length, 1);
        equal(found[0].kind, 'write-write');
        const numbers = ['first', 'second'].map(which => {
            const line = found[0][which].stack[0];
            const match = /^File ".+", line ([0-9]+)/.exec(line);
            check(match, line);
            check(complaints.includes(line), 'it is said on stderr');
            return Number(match[1]);
        });
        equal(numbers[1] - numbers[0], 3);
    },

    'a loop is said once'() {
        if (!checked)
            tap.skip('nothing checks this driver');
        const {found, complaints} = reports(`${RACE}
for (let i = 0; i < 50; i++) {
    first();
    second();
    device.synchronize();
}`);
        equal(found.length, 1);
        check(complaints.includes('1 ordering report, 49 repetitions, 0 suppressed'), complaints);
    },

    'what is declared is looked at'() {
        if (!checked)
            tap.skip('nothing checks this driver');
        for (const [access, kinds] of [['READ', []], ['WRITE', ['read-write']]]) {
            const {found} = reports(`${RACE}
const copy = pool.allocate(4096, stream);
stream.synchronize();
buffer.copy_to(copy, stream);
other.declare_access(buffer, 4000, 96, GCuda.AccessFlags.${access});
device.synchronize();`);
            equal(found.map(report => report.kind), kinds);
        }
    },

    'what is given to declare_access'() {
        const buffer = pool.allocate(4096, stream);
        check(stream.declare_access(buffer, 0, 4096, BOTH));
        check(stream.declare_access(buffer, 4096, 0, BOTH));
        if (checked) {
            for (const [offset, size] of [[0, 4097], [4096, 1], [4097, 0]])
                fails(GCuda.Error.INVALID_ARGUMENT, () => stream.declare_access(buffer, offset, size, BOTH));
            fails(GCuda.Error.INVALID_ARGUMENT, () => stream.declare_access(buffer, 0, 1, GCuda.AccessFlags.NONE));
            throwsOwn(() => stream.declare_access(null, 0, 1, BOTH));
        }
        buffer.close(stream);
        if (checked)
            fails(GCuda.Error.CLOSED, () => stream.declare_access(buffer, 0, 1, BOTH));
        device.synchronize();
    },
});
