#!/usr/bin/env gjs
// SPDX-License-Identifier: LGPL-2.1-or-later
// A file goes to the GPU by way of two buffers of page-locked memory: while one is on its way, the next piece of the file is
// read and put into the other. Beside it the same from ordinary memory. The same program is there in C and in Python.
//
//   pinned-upload.js [--any-size] FILE

imports.gi.versions.GCuda = '1.0';
const {GCuda, Gio, GLib} = imports.gi;
const System = imports.system;

const MIB = 1024 * 1024;
const CHUNK_SIZE = 4 * MIB;
const LEAST_SIZE = 64 * MIB;

// Seconds
function now() {
    return GLib.get_monotonic_time() / 1e6;
}

// One of the buffers that take turns, and what tells when its copy is done
class Slot {
    constructor(device, pinned, stream) {
        this.buffer = pinned.allocate(CHUNK_SIZE, stream);
        // Mapped for good. From here on the event says when the processor may write there.
        this.map = this.buffer.map(GCuda.MapFlags.WRITE, stream);
        this.begun = GCuda.Event.new_for_device(device, GCuda.EventFlags.TIMING);
        this.done = GCuda.Event.new_for_device(device, GCuda.EventFlags.TIMING);
        this.used = false;
    }

    // Waits until the copy is done; the seconds that it took
    wait() {
        if (!this.used)
            return 0;
        this.used = false;
        this.done.synchronize();
        return this.begun.elapsed_time(this.done) / 1e3;
    }
}

class Upload {
    constructor(device, size) {
        this.size = size;
        this.stream = GCuda.Stream.new_for_device(device);
        this.pinned = GCuda.PinnedMemoryResource.new(device);
        this.pool = GCuda.DeviceMemoryResource.new_pool(device, 0, GCuda.HandleTypes.NONE);
        this.target = this.pool.allocate(size, this.stream); // the whole file, on the device
        this.slots = [0, 1].map(() => new Slot(device, this.pinned, this.stream));
    }

    // The whole file, once: seconds of copying, as the device's events tell, and with reading the file
    run(file, pinned) {
        const start = now();
        const input = file.read(null);
        let link = 0;
        for (let offset = 0, i = 0; offset < this.size; i++) {
            const slot = this.slots[i % this.slots.length];
            // Two chunks ago it was sent.
            link += slot.wait();
            const chunk = input.read_bytes(Math.min(CHUNK_SIZE, this.size - offset), null);
            const size = chunk.get_size();
            if (size === 0)
                throw new Error('the file became shorter');
            if (pinned)
                slot.map.write(0, chunk.toArray());
            slot.begun.record(this.stream);
            if (pinned)
                slot.buffer.copy_range(0, this.target, offset, size, this.stream);
            else
                this.target.upload(offset, chunk, this.stream);
            slot.done.record(this.stream);
            slot.used = true;
            offset += size;
        }
        for (const slot of this.slots)
            link += slot.wait();
        input.close(null);
        return [link, now() - start];
    }

    // That the device has what is in the file
    check(file) {
        const expected = new GLib.Checksum(GLib.ChecksumType.SHA256);
        const input = file.read(null);
        for (;;) {
            const chunk = input.read_bytes(CHUNK_SIZE, null);
            if (chunk.get_size() === 0)
                break;
            expected.update(chunk.toArray());
        }
        input.close(null);
        const found = GLib.compute_checksum_for_data(GLib.ChecksumType.SHA256, this.target.download(this.stream));
        if (found !== expected.get_string())
            throw new Error(`what is on the device is wrong: SHA-256 ${found}, not ${expected.get_string()}`);
        return found;
    }
}

function run(path, anySize) {
    const file = Gio.File.new_for_commandline_arg(path);
    const size = file.query_info('standard::size', Gio.FileQueryInfoFlags.NONE, null).get_size();
    if (size < LEAST_SIZE && !anySize)
        throw new Error(`${path} has less than 64 MiB, too little to say much about speed: take another file, or --any-size`);
    const device = GCuda.Device.new(0);
    const upload = new Upload(device, size);
    print(`device  ${device.get_name()}`);
    print(`pinned  ${upload.pinned.is_pooled() ? 'memory of a pool' : 'piece by piece'}`);
    print(`bytes   ${size}`);
    print(`\n${'from'.padEnd(10)} ${'GB/s'.padStart(12)} ${'GB/s with reading'.padStart(22)}`);
    for (const name of ['pageable', 'pinned']) {
        // Twice: the first time the file may not be in memory.
        upload.run(file, name === 'pinned');
        const [link, whole] = upload.run(file, name === 'pinned');
        const digest = upload.check(file);
        const speed = seconds => (size / Math.max(seconds, 1e-9) / 1e9).toFixed(3);
        print(`${name.padEnd(10)} ${speed(link).padStart(12)} ${speed(whole).padStart(22)}   SHA-256 ${
            digest.slice(0, 16)}…, as expected`);
    }
}

function main(args) {
    const anySize = args[0] === '--any-size';
    const files = anySize ? args.slice(1) : args;
    if (files.length !== 1) {
        printerr('usage: pinned-upload.js [--any-size] FILE');
        return 1;
    }
    try {
        run(files[0], anySize);
    } catch (error) {
        printerr(`pinned-upload: ${error.message}`);
        return 1;
    }
    return 0;
}

System.exit(main(ARGV));
