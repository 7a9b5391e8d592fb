#!/usr/bin/env gjs
// SPDX-License-Identifier: LGPL-2.1-or-later
// An array on the GPU that grows, chunk by chunk, at one address: a file, or what comes from the standard input, is
// appended to it piece by piece, and at the end it is read back and compared. Beside each growth stands what it costs to
// allocate anew, copy and free. The same program is there in C and in Python.
//
//   growable-array.js [--limit MIB] [--full] [--plot FILE.svg] [FILE]

imports.gi.versions.GCuda = '1.0';
const {GCuda, Gio, GLib} = imports.gi;
const System = imports.system;

const MIB = 1024 * 1024;
const PIECE_SIZE = MIB + 4096;

function microsecondsSince(start) {
    return Math.max(GLib.get_monotonic_time() - start, 1);
}

function median(values) {
    return values.sort((a, b) => a - b)[Math.floor(values.length / 2)];
}

class GrowableArray {
    constructor(device, limit) {
        const options = GCuda.VirtualMemoryOptions.new();
        // Addresses for all there may ever be; memory for what there is.
        options.set_max_size(limit);
        this.limit = limit;
        this.stream = GCuda.Stream.new_for_device(device);
        this.resource = GCuda.VirtualMemoryResource.new(device, options);
        this.pool = GCuda.DeviceMemoryResource.new_pool(device, 0, GCuda.HandleTypes.NONE); // to compare with
        this.chunk = this.resource.get_granularity();
        this.buffer = this.resource.allocate(this.chunk, this.stream);
        this.address = this.buffer.get_address();
        this.length = 0; // what is in use of the buffer
        this.expected = new GLib.Checksum(GLib.ChecksumType.SHA256);
        this.grown = []; // the size before, and microseconds
        this.copied = [];
        this.compareAt = this.chunk;
    }

    // What it costs without virtual memory: another buffer, a copy, and the old one freed.
    compare(size) {
        const old = this.pool.allocate(size, this.stream);
        old.fill(0, 1, this.stream);
        this.stream.synchronize();
        const start = GLib.get_monotonic_time();
        const larger = this.pool.allocate(size + this.chunk, this.stream);
        const front = larger.new_view(0, size);
        old.copy_to(front, this.stream);
        old.close();
        this.stream.synchronize();
        this.copied.push([size, microsecondsSince(start)]);
        front.close();
        larger.close();
    }

    // One chunk more.
    grow() {
        const size = this.buffer.get_size();
        if (size >= this.compareAt) {
            this.compare(size);
            this.compareAt *= 2;
        }
        const start = GLib.get_monotonic_time();
        this.resource.resize(this.buffer, size + this.chunk, GCuda.ResizeFlags.NONE, this.stream);
        this.grown.push([size, microsecondsSince(start)]);
    }

    append(data) {
        while (this.length + data.length > this.buffer.get_size())
            this.grow();
        this.buffer.upload(this.length, new GLib.Bytes(data), this.stream);
        this.expected.update(data);
        this.length += data.length;
    }

    fill(path, full) {
        let before;
        do {
            const input = path ? Gio.File.new_for_commandline_arg(path).read(null)
                : new Gio.UnixInputStream({fd: 0, close_fd: false});
            before = this.length;
            for (;;) {
                const data = input.read_bytes(Math.min(PIECE_SIZE, this.limit - this.length), null).toArray();
                if (data.length === 0)
                    break;
                this.append(data);
            }
            // An empty file fills nothing.
        } while (full && path && this.length > before && this.length < this.limit);
    }

    verify() {
        const found = new GLib.Checksum(GLib.ChecksumType.SHA256);
        for (let offset = 0; offset < this.length; offset += 4 * MIB) {
            const part = this.buffer.new_view(offset, Math.min(4 * MIB, this.length - offset));
            found.update(part.download(this.stream));
            part.close();
        }
        if (found.get_string() !== this.expected.get_string())
            throw new Error(`the array is wrong: SHA-256 ${found.get_string()}, not ${this.expected.get_string()}`);
        if (this.buffer.get_address() !== this.address)
            throw new Error('the array is at another address');
    }

    printSteps() {
        print(`\n   held, MiB   steps  growing, us a step     copying, us`);
        for (const [size, copy] of this.copied) {
            const costs = this.grown.filter(([held]) => held >= size && held < 2 * size).map(([, cost]) => cost);
            print(`${String(size / MIB).padStart(12)}  ${String(costs.length).padStart(6)}  ${
                median(costs).toFixed(1).padStart(18)}  ${copy.toFixed(1).padStart(14)}`);
        }
    }

    plot(path) {
        const most = this.buffer.get_size();
        const x = size => 70 + 540 * Math.log(size / this.chunk) / Math.max(Math.log(most / this.chunk), 1e-9);
        // From 1 microsecond to 1 second
        const y = cost => 360 - 320 * Math.min(Math.max(Math.log10(cost) / 6, 0), 1);
        const line = (steps, colour) => `<polyline fill="none" stroke="${colour}" stroke-width="1.5" points="${
            steps.map(([size, cost]) => `${x(size).toFixed(1)},${y(cost).toFixed(1)}`).join(' ')}"/>`;
        const parts = [
            '<svg xmlns="http://www.w3.org/2000/svg" width="640" height="420" font-family="sans-serif" font-size="12">',
            '<rect width="640" height="420" fill="white"/>',
        ];
        ['1 us', '10 us', '100 us', '1 ms', '10 ms', '100 ms', '1 s'].forEach((cost, i) => {
            const at = 360 - Math.floor(i * 320 / 6);
            parts.push(`<line x1="70" x2="610" y1="${at}" y2="${at}" stroke="#ddd"/><text x="62" y="${at + 4}" text-anchor="end">${cost}</text>`);
        });
        for (let size = this.chunk; size <= most; size *= 4)
            parts.push(`<text x="${x(size).toFixed(0)}" y="378" text-anchor="middle">${size / MIB}</text>`);
        parts.push(line(this.copied, '#c33'), line(this.grown, '#36c'),
            '<text x="340" y="400" text-anchor="middle">MiB held</text>',
            '<text x="80" y="24" fill="#36c">growing in place by one chunk</text>',
            '<text x="330" y="24" fill="#c33">allocating anew, copying and freeing</text>', '</svg>', '');
        GLib.file_set_contents(path, parts.join('\n'));
    }
}

function run(path, limit, full, plot) {
    const simulated = GCuda.get_driver_info().is_simulated();
    const device = GCuda.Device.new(0);
    print(`device  ${device.get_name()}, ${simulated ? 'simulated' : 'real'}`);
    const array = new GrowableArray(device, (limit || (simulated ? 256 : 4096)) * MIB);
    array.fill(path, full);
    array.verify();
    array.printSteps();
    print(`\naddress    0x${array.address.toString(16)}, from ${array.chunk / MIB} to ${array.buffer.get_size() / MIB} MiB in ${
        array.grown.length} steps`);
    print(`SHA-256    ${array.expected.get_string()} of ${array.length} bytes, as expected`);
    if (plot)
        array.plot(plot);
}

const files = [];
let limit = 0, full = false, plot = null, wrong = false;
for (let i = 0; i < ARGV.length; i++) {
    if (ARGV[i] === '--full')
        full = true;
    else if (ARGV[i] === '--limit')
        limit = Number(ARGV[++i]);
    else if (ARGV[i] === '--plot')
        plot = ARGV[++i];
    else if (ARGV[i].startsWith('-'))
        wrong = true;
    else
        files.push(ARGV[i]);
}
if (wrong || files.length > 1 || !Number.isInteger(limit) || plot === undefined) {
    printerr('usage: growable-array.js [--limit MIB] [--full] [--plot FILE.svg] [FILE]');
    System.exit(1);
}
try {
    run(files[0] ?? null, limit, full, plot);
} catch (error) {
    printerr(`growable-array: ${error.message}`);
    System.exit(1);
}
