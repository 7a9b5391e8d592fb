#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A file goes through a pipeline that was captured once and is launched a thousand times.

The program drops the buffers that the pipeline works in; the graph keeps them. The same program is there in C and in
JavaScript.
"""

import argparse
import gc
import hashlib
import os
import sys
import time

import gi
gi.require_version('GCuda', '1.0')
from gi.repository import GCuda, GLib  # noqa: E402

LAUNCHES = 1000


def capture(context, pool, stream, source, result):
    """The pipeline swaps the halves of a piece, on two branches, and gives a copy of that."""
    size = len(source)
    half = size // 2
    graph_memory = GCuda.GraphMemoryResource.new(context.get_device())
    # Of a pool: dropped at the end of this function, and kept by the graph.
    swapped = pool.allocate(size, stream)
    stream.synchronize()

    builder = GCuda.GraphBuilder.new(context, GCuda.CaptureMode.GLOBAL)
    branch = builder.fork()
    source.copy_range(half, swapped, 0, half, builder)
    source.copy_range(0, swapped, half, half, branch)
    builder.join(branch)
    # Of the graph itself: there from here to where it is closed, in each launch.
    with graph_memory.allocate(size, builder) as scratch:
        swapped.copy_to(scratch, builder)
        scratch.copy_to(result, builder)
    # A cycle: only the garbage collector can drop it.
    swapped.itself = swapped
    return builder.finish().instantiate(GCuda.GraphFlags.NONE, stream)


def settle(pool, stream):
    """Once the graph is closed, nothing keeps its memory but the launches under way."""
    for _ in range(5000):
        gc.collect()
        GCuda.reclaim(None)
        stream.synchronize()
        used = pool.get_statistics().get_used()
        if not used:
            return
        time.sleep(0.001)
    sys.exit(f'captured-pipeline: {used} bytes were not given back to the pool')


def run(path):
    total = os.path.getsize(path)
    size = 2 * max(-(-total // (2 * LAUNCHES)), 1)
    device = GCuda.Device.new(0)
    context = device.get_primary_context()
    stream = GCuda.Stream.new(context, GCuda.StreamFlags.NONE, 0)
    pool = GCuda.DeviceMemoryResource.new_pool(device, 0, GCuda.HandleTypes.NONE)
    source, result = pool.allocate(size, stream), pool.allocate(size, stream)
    graph = capture(context, pool, stream, source, result)
    gc.collect()
    # Memory that the pool would hand out again, had it been freed.
    others = pool.allocate(size, stream)
    others.fill(0xff, 1, stream)

    expected, found = hashlib.sha256(), hashlib.sha256()
    device_time = 0
    with open(path, 'rb') as file:
        for _ in range(LAUNCHES):
            piece = file.read(size).ljust(size, b'\0')
            expected.update(piece[size // 2:] + piece[:size // 2])
            start = time.monotonic()
            source.upload(0, GLib.Bytes.new(piece), stream)
            graph.launch(stream)
            found.update(result.download(stream))
            device_time += time.monotonic() - start
    if found.digest() != expected.digest():
        sys.exit(f"captured-pipeline: the device's result is wrong: SHA-256 {found.hexdigest()}, not {expected.hexdigest()}")
    del source, result, others, graph
    settle(pool, stream)
    print(f'bytes      {total:12}')
    print(f'launches   {LAUNCHES:12}')
    print(f'seconds    {device_time:12.3f}  upload, launch and download: {device_time * 1e6 / LAUNCHES:.1f} microseconds each')
    print(f'SHA-256    {found.hexdigest()}, as expected')


def main():
    parser = argparse.ArgumentParser(prog='captured-pipeline', description='Sends a file through a captured pipeline.')
    parser.add_argument('file', metavar='FILE')
    try:
        run(parser.parse_args().file)
    except GLib.Error as error:
        sys.exit(f'captured-pipeline: {error.message}')
    except OSError as error:
        sys.exit(f'captured-pipeline: {error}')


if __name__ == '__main__':
    main()
