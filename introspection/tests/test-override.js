// SPDX-License-Identifier: LGPL-2.1-or-later
// What the JavaScript override adds.

imports.gi.versions.GCuda = '1.0';
const {GCuda, GLib} = imports.gi;
const System = imports.system;

const devices = GCuda.get_devices();
if (devices.get_n_items() === 0) {
    print('1..0 # SKIP no CUDA device');
    System.exit(0);
}
const device = devices.get_item(0);
const stream = GCuda.Stream.new_for_device(device);
const resource = GCuda.DeviceMemoryResource.new(device);

function check(condition, what) {
    if (!condition)
        throw new Error(`not so: ${what}`);
}

function checkError(code, func) {
    try {
        func();
    } catch (error) {
        check(error.matches?.(GCuda.Error, code), `${error} has code ${code}`);
        return;
    }
    throw new Error('no error');
}

const tests = {
    'devices can be iterated over': () => {
        const all = [...GCuda.get_devices()];
        check(all.length === devices.get_n_items(), 'as many');
        check(all[0] === device, 'the same object');
    },
    'close takes a stream or none': () => {
        for (const args of [[], [null], [stream]]) {
            const buffer = resource.allocate(64, stream);
            check(buffer.close(...args) && buffer.close(...args), 'closed, twice');
            check(buffer.is_closed(), 'closed');
            check(buffer.get_size() === 64, 'size kept');
        }
    },
    'download gives an array': () => {
        const data = new Uint8Array(1280).map((_, i) => i);
        const buffer = resource.allocate(data.length, stream);
        buffer.upload(0, new GLib.Bytes(data), stream);
        const whole = buffer.download(stream);
        check(whole instanceof Uint8Array, 'a Uint8Array');
        check(whole.length === data.length && whole.every((byte, i) => byte === data[i]), 'what was uploaded');
        check(buffer.download(256, 4, stream).join() === '0,1,2,3', 'a part');
        buffer.close();
    },
    'download of an empty buffer': () => {
        check(resource.allocate(0, stream).download(stream).length === 0, 'nothing');
    },
    'download throws': () => {
        const buffer = resource.allocate(64, stream);
        checkError(GCuda.Error.INVALID_ARGUMENT, () => buffer.download(60, 5, stream));
        buffer.close();
        checkError(GCuda.Error.CLOSED, () => buffer.download(stream));
    },
};

let failed = false;
let count = 0;
print(`1..${Object.keys(tests).length}`);
for (const [name, test] of Object.entries(tests)) {
    count++;
    try {
        test();
        print(`ok ${count} ${name}`);
    } catch (error) {
        failed = true;
        print(`# ${error}\n# ${error.stack?.trim().split('\n').join('\n# ')}`);
        print(`not ok ${count} ${name}`);
    }
}
System.exit(failed ? 1 : 0);
