#!/usr/bin/env gjs
// SPDX-License-Identifier: LGPL-2.1-or-later
// A file goes through a pipeline that was captured once and is launched a thousand times. The program drops the buffers
// that the pipeline works in; the graph keeps them. The same program is there in C and in Python.
//
//   captured-pipeline.js FILE

imports.gi.versions.GCuda = '1.0';
const {GCuda, GLib} = imports.gi;
const System = imports.system;

const LAUNCHES = 1000;

// The pipeline swaps the halves of a piece, on two branches, and gives a copy of that.
function capture(context, pool, stream, input, output) {
    const size = input.size;
    const half = size / 2;
    const graphMemory = GCuda.GraphMemoryResource.new(context.get_device());
    // Of a pool: dropped at the end of this function, and kept by the graph.
    const swapped = pool.allocate(size, stream);
    stream.synchronize();

    const builder = GCuda.GraphBuilder.new(context, GCuda.CaptureMode.GLOBAL);
    const branch = builder.fork();
    input.copy_range(half, swapped, 0, half, builder);
    input.copy_range(0, swapped, half, half, branch);
    builder.join(branch);
    // Of the graph itself: there from here to where it is closed, in each launch.
    const scratch = graphMemory.allocate(size, builder);
    swapped.copy_to(scratch, builder);
    scratch.copy_to(output, builder);
    scratch.close();
    return builder.finish().instantiate(GCuda.GraphFlags.NONE, stream);
}

// Once the graph is closed, nothing keeps its memory but the launches under way.
function settle(pool, stream) {
    let used = 1;
    for (let i = 0; used > 0 && i < 5000; i++) {
        GCuda.reclaim(null);
        stream.synchronize();
        used = pool.get_statistics().get_used();
        if (used > 0) {
            System.gc();
            GLib.usleep(1000);
        }
    }
    if (used > 0)
        throw new Error(`${used} bytes were not given back to the pool`);
}

function run(path) {
    const file = GLib.MappedFile.new(path, false);
    const bytes = file.get_bytes();
    const total = bytes.get_size();
    const size = 2 * Math.max(Math.ceil(total / (2 * LAUNCHES)), 1);
    const device = GCuda.Device.new(0);
    const context = device.get_primary_context();
    const stream = GCuda.Stream.new(context, GCuda.StreamFlags.NONE, 0);
    const pool = GCuda.DeviceMemoryResource.new_pool(device, 0, GCuda.HandleTypes.NONE);
    const input = pool.allocate(size, stream);
    const output = pool.allocate(size, stream);
    const graph = capture(context, pool, stream, input, output);
    System.gc();
    // Memory that the pool would hand out again, had it been freed.
    const others = pool.allocate(size, stream);
    others.fill(0xff, 1, stream);

    const expected = new GLib.Checksum(GLib.ChecksumType.SHA256);
    const found = new GLib.Checksum(GLib.ChecksumType.SHA256);
    let deviceTime = 0;
    for (let i = 0; i < LAUNCHES; i++) {
        const start = Math.min(i * size, total);
        const piece = new Uint8Array(size);
        piece.set(bytes.new_from_bytes(start, Math.min(size, total - start)).toArray());
        expected.update(piece.slice(size / 2));
        expected.update(piece.slice(0, size / 2));
        const before = GLib.get_monotonic_time();
        input.upload(0, new GLib.Bytes(piece), stream);
        graph.launch(stream);
        const result = output.download(stream);
        deviceTime += GLib.get_monotonic_time() - before;
        found.update(result);
        if (i % 100 === 0)
            System.gc();
    }
    if (found.get_string() !== expected.get_string())
        throw new Error(`the device's result is wrong: SHA-256 ${found.get_string()}, not ${expected.get_string()}`);
    for (const buffer of [input, output, others])
        buffer.close();
    graph.close();
    settle(pool, stream);
    print(`bytes      ${String(total).padStart(12)}`);
    print(`launches   ${String(LAUNCHES).padStart(12)}`);
    print(`seconds    ${(deviceTime / 1e6).toFixed(3).padStart(12)}  upload, launch and download: ${
        (deviceTime / LAUNCHES).toFixed(1)} microseconds each`);
    print(`SHA-256    ${found.get_string()}, as expected`);
}

function main() {
    if (ARGV.length !== 1) {
        printerr('usage: captured-pipeline.js FILE');
        return 1;
    }
    try {
        run(ARGV[0]);
    } catch (error) {
        printerr(`captured-pipeline: ${error.message}`);
        return 1;
    }
    return 0;
}

System.exit(main());
