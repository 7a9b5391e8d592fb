// SPDX-License-Identifier: LGPL-2.1-or-later
// What the JavaScript tests share: assertions, a device to work on, and TAP.
//
//   imports.searchPath.unshift(imports.gi.GLib.path_get_dirname(imports.system.programPath));
//   const {tap} = imports;
//   tap.run({'what is so': () => { tap.equal(1 + 1, 2); }});
//
// To be run with GJS_DISABLE_JIT=1: compiled code holds on to objects that it is done with, and these tests count them.

/* exported GCuda, GLib, simulated, canFailCalls, device, context, stream, pool, check, equal, fails, throwsOwn, bytes, gc,
   iterate, iterateUntil, settledUse, endsWith, runScript, run, skip */

imports.gi.versions.GCuda = '1.0';
var {GCuda, Gio, GLib} = imports.gi;
const System = imports.system;

// Nothing that a script does may be a critical: one ends the test program.
GLib.log_set_always_fatal(GLib.LogLevelFlags.LEVEL_ERROR | GLib.LogLevelFlags.LEVEL_CRITICAL);

if (GCuda.get_devices().get_n_items() === 0) {
    print('1..0 # SKIP no CUDA device');
    System.exit(0);
}

var simulated = GCuda.get_driver_info().is_simulated();
// Whether calls fail on demand and are checked: of the simulated driver, and of a real one whose calls it passes on
var canFailCalls = GLib.path_get_basename(GCuda.get_driver_info().get_path()).startsWith('libgcudasim');
var device = GCuda.Device.new(0);
var context = device.get_primary_context();
var stream = GCuda.Stream.new_for_device(device);
var pool = GCuda.DeviceMemoryResource.new_pool(device, 0, GCuda.HandleTypes.NONE);

function check(condition, what = 'a condition') {
    if (!condition)
        throw new Error(`not so: ${what}`);
}

// Numbers and the like by value; arrays and typed arrays by what is in them
function equal(found, expected, what = '') {
    const text = value => value?.buffer instanceof ArrayBuffer ? `[${Array.from(value)}]`
        : Array.isArray(value) ? JSON.stringify(value) : String(value);
    const short = value => text(value).length > 200 ? `${text(value).slice(0, 200)}...` : text(value);
    if (found !== expected && text(found) !== text(expected))
        throw new Error(`${short(found)} is not ${short(expected)} ${what}`);
}

function thrown(func) {
    try {
        func();
    } catch (error) {
        return error;
    }
    throw new Error(`nothing was thrown by ${func}`);
}

// The library's own error
function fails(code, func) {
    const error = thrown(func);
    if (!(error instanceof GLib.Error) || !error.matches(GCuda.Error, code))
        throw new Error(`${error} does not have code ${code}: ${func}`);
    check(error.message.length > 8, 'there is a message');
}

// The binding's error, which comes before the library is called
function throwsOwn(func) {
    const error = thrown(func);
    if (!(error instanceof Error) || error instanceof GLib.Error)
        throw new Error(`${error} is not an error of JavaScript: ${func}`);
}

function bytes(length, value) {
    return new Uint8Array(length).fill(value);
}

function gc() {
    System.gc();
    System.gc();
}

// Runs what is ready in the main loop.
function iterate() {
    while (GLib.MainContext.default().iteration(false));
}

// Runs the main loop until something is so; ten seconds at most.
function iterateUntil(condition) {
    let late = false;
    const source = GLib.timeout_add_seconds(GLib.PRIORITY_DEFAULT, 10, () => {
        late = true;
        return GLib.SOURCE_REMOVE;
    });
    while (!condition()) {
        GLib.MainContext.default().iteration(true);
        if (late)
            throw new Error(`waited for ten seconds: ${condition}`);
    }
    GLib.source_remove(source);
}

// Waits for the GPU and all that was released; then the pool's used bytes.
function settledUse() {
    gc();
    device.synchronize();
    // The owners of foreign memory are dropped by the main loop, and may own memory themselves
    for (let i = 0; i < 2; i++) {
        GCuda.reclaim(null);
        iterate();
    }
    device.synchronize();
    return pool.get_statistics().get_used();
}

// In the end that many bytes are used: the driver lets go what a graph kept when it gets to it.
function endsWith(expected) {
    const deadline = GLib.get_monotonic_time() + 10 * 1000 * 1000;
    while (settledUse() !== expected && GLib.get_monotonic_time() < deadline)
        GLib.usleep(1000);
    equal(settledUse(), expected, 'bytes are in use in the pool');
}

var PRELUDE = `
imports.gi.versions.GCuda = '1.0';
const {GCuda, Gio, GLib, GObject} = imports.gi;
const System = imports.system;
const device = GCuda.Device.new(0);
let stream = GCuda.Stream.new_for_device(device);
let pool = GCuda.DeviceMemoryResource.new_pool(device, 0, GCuda.HandleTypes.NONE);
`;

// Runs a program of its own: its exit status, what it printed, and what it complained of.
function runScript(script) {
    const gjs = GLib.file_read_link('/proc/self/exe');
    const process = Gio.Subprocess.new([gjs, '-c', PRELUDE + script],
        Gio.SubprocessFlags.STDOUT_PIPE | Gio.SubprocessFlags.STDERR_PIPE);
    const [, output, complaints] = process.communicate_utf8(null, null);
    return {status: process.get_if_exited() ? process.get_exit_status() : -process.get_term_sig(), output, complaints};
}

class Skip extends Error {}

function skip(reason) {
    throw new Skip(reason);
}

// Each test leaves nothing in the pool.
function run(tests) {
    let count = 0;
    let failed = false;

    print(`1..${Object.keys(tests).length}`);
    for (const [name, test] of Object.entries(tests)) {
        count++;
        try {
            test();
            endsWith(0);
            print(`ok ${count} ${name}`);
        } catch (error) {
            if (error instanceof Skip) {
                print(`ok ${count} ${name} # SKIP ${error.message}`);
                continue;
            }
            failed = true;
            print(`# ${error}\n# ${(error.stack ?? '').trim().split('\n').join('\n# ')}`);
            print(`not ok ${count} ${name}`);
        }
    }
    System.exit(failed ? 1 : 0);
}
