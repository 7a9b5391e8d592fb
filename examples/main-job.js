#!/usr/bin/env gjs
// SPDX-License-Identifier: LGPL-2.1-or-later
// A file goes through the GPU in chunks: uploaded on one stream, changed on another, and read back. The same program is
// there in C and in Python.
//
//   main-job.js [--any-size] FILE

imports.gi.versions.GCuda = '1.0';
const {GCuda, Gio, GLib} = imports.gi;
const System = imports.system;

const MIB = 1024 * 1024;
const CHUNK_SIZE = 4 * MIB;
const LEAST_SIZE = 64 * MIB;
const IN_FLIGHT = 4; // chunks on the device: memory is bounded, whatever the file

// The change: each whole page of a chunk gets a mark at its start.
const PAGE_SIZE = 4096;
const MARK = 0x64754347; // "GCud"
const MARKS = 4;

// Seconds
function now() {
    return GLib.get_monotonic_time() / 1e6;
}

function printDriver() {
    const info = GCuda.get_driver_info();
    const version = info.get_version();
    print(`driver  ${info.get_path()}, CUDA ${Math.floor(version / 1000)}.${Math.floor(version % 1000 / 10)}, ${
        info.is_simulated() ? 'simulated' : 'real'}`);
}

function chooseDevice() {
    const devices = [...GCuda.get_devices()];
    for (const device of devices) {
        const capability = `${device.get_compute_capability_major()}.${device.get_compute_capability_minor()}`;
        const memory = (device.get_total_memory() / MIB).toFixed(0);
        print(`device  ${device.get_ordinal()}  ${device.get_name().padEnd(24)}  ${capability}  ${
            memory.padStart(8)} MiB  ${device.get_pci_bus_id()}`);
    }
    if (devices.length === 0)
        throw new Error('there is no CUDA device');
    return devices[0];
}

class Job {
    constructor(device) {
        this.uploading = GCuda.Stream.new_for_device(device);
        this.working = GCuda.Stream.new_for_device(device);
        this.handover = GCuda.Event.new_for_device(device, GCuda.EventFlags.NONE);
        this.pool = GCuda.DeviceMemoryResource.new_pool(device, 0, GCuda.HandleTypes.NONE);
        this.results = []; // on their way, oldest first
        this.expected = new GLib.Checksum(GLib.ChecksumType.SHA256);
        this.found = new GLib.Checksum(GLib.ChecksumType.SHA256);
        this.bytes = 0;
        this.chunks = 0;
        this.deviceTime = 0;
    }

    // Queues a chunk, and waits for nothing.
    push(chunk) {
        const source = this.pool.allocate(chunk.length, this.uploading);
        source.upload(0, new GLib.Bytes(chunk), this.uploading);

        this.handover.record(this.uploading);
        this.working.wait_event(this.handover);

        const result = this.pool.allocate(chunk.length, this.working);
        source.copy_to(result, this.working);
        result.fill_2d(0, PAGE_SIZE, MARKS, Math.floor(chunk.length / PAGE_SIZE), MARK, 4, this.working);

        // The last use of the source is on the other stream than the one it was allocated on. The garbage collector
        // drops it, whenever that is.
        source.set_deallocation_stream(this.working);

        this.results.push(result);
        this.chunks++;
    }

    // Waits for the oldest chunk.
    pop() {
        const start = now();
        const result = this.results.shift();
        const data = result.download(this.working);
        result.close();
        this.deviceTime += now() - start;
        this.found.update(data);
    }

    // The same change, made by the processor.
    expect(chunk) {
        const copy = chunk.slice();
        const marks = new Uint8Array(new Uint32Array(MARKS).fill(MARK).buffer);
        for (let i = 0; i < Math.floor(chunk.length / PAGE_SIZE); i++)
            copy.set(marks, i * PAGE_SIZE);
        this.expected.update(copy);
    }

    run(input, total) {
        const showProgress = GLib.log_writer_supports_color(2); // whether it is a terminal
        const stderr = new Gio.UnixOutputStream({fd: 2, close_fd: false});

        for (;;) {
            const chunk = readChunk(input);
            if (chunk.length === 0)
                break;
            this.expect(chunk);
            if (this.results.length === IN_FLIGHT)
                this.pop();
            const start = now();
            this.push(chunk);
            this.deviceTime += now() - start;
            this.bytes += chunk.length;
            if (this.chunks % IN_FLIGHT === 0) {
                // JavaScript does not know how much memory hangs on a small object.
                System.gc();
            }
            if (showProgress)
                stderr.write(`\r${(this.bytes / MIB).toFixed(0)} of ${(total / MIB).toFixed(0)} MiB `, null);
        }
        while (this.results.length > 0)
            this.pop();
        if (showProgress)
            stderr.write('\n', null);
        if (this.found.get_string() !== this.expected.get_string())
            throw new Error(`the device's result is wrong: SHA-256 ${this.found.get_string()}, not ${this.expected.get_string()}`);
    }

    // Nothing may be left in the pool.
    settle() {
        System.gc();
        GCuda.reclaim(null);
        this.uploading.synchronize();
        this.working.synchronize();
        const statistics = this.pool.get_statistics();
        if (statistics.get_used() !== 0)
            throw new Error(`${statistics.get_used()} bytes were not given back to the pool`);
        return statistics;
    }
}

// A chunk of the file, empty at its end.
function readChunk(input) {
    const chunk = new Uint8Array(CHUNK_SIZE);
    let length = 0;
    while (length < CHUNK_SIZE) {
        const piece = input.read_bytes(CHUNK_SIZE - length, null).toArray();
        if (piece.length === 0)
            break;
        chunk.set(piece, length);
        length += piece.length;
    }
    return chunk.subarray(0, length);
}

function run(path, anySize) {
    const input = Gio.File.new_for_commandline_arg(path).read(null);
    const total = input.query_info(Gio.FILE_ATTRIBUTE_STANDARD_SIZE, null).get_size();
    if (total < LEAST_SIZE && !anySize)
        throw new Error(`${path} has less than 64 MiB, too little to say much about speed: take another file, or --any-size`);

    printDriver();
    const job = new Job(chooseDevice());
    const start = now();
    job.run(input, total);
    const statistics = job.settle();
    const whole = now() - start;

    const rate = seconds => (job.bytes / Math.max(seconds, 1e-6) / 1e9).toFixed(3);
    const column = text => String(text).padStart(12);
    print('');
    print(`bytes      ${column(job.bytes)}`);
    print(`chunks     ${column(job.chunks)}`);
    print(`seconds    ${column(job.deviceTime.toFixed(3))}  upload, change and download: ${rate(job.deviceTime)} GB/s`);
    print(`           ${column(whole.toFixed(3))}  with reading and checksums: ${rate(whole)} GB/s`);
    print(`pool       ${column(statistics.get_used())}  bytes used, ${(statistics.get_used_high() / MIB).toFixed(0)} MiB at most`);
    print(`SHA-256    ${job.found.get_string()}, as expected`);
}

const anySize = ARGV.includes('--any-size');
const files = ARGV.filter(argument => argument !== '--any-size');
if (files.length !== 1 || files[0].startsWith('-')) {
    printerr('usage: main-job.js [--any-size] FILE');
    System.exit(1);
}
try {
    run(files[0], anySize);
} catch (error) {
    printerr(`main-job: ${error.message}`);
    System.exit(1);
}
