#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A file goes through the GPU in chunks: uploaded on one stream, changed on another, and read back.

The same program is there in C and in JavaScript.
"""

import argparse
import collections
import gc
import hashlib
import os
import struct
import sys
import time

import gi
gi.require_version('GCuda', '1.0')
from gi.repository import GCuda, GLib  # noqa: E402

MIB = 1024 * 1024
CHUNK_SIZE = 4 * MIB
LEAST_SIZE = 64 * MIB
IN_FLIGHT = 4  # chunks on the device: memory is bounded, whatever the file

# The change: each whole page of a chunk gets a mark at its start.
PAGE_SIZE = 4096
MARK = 0x64754347  # "GCud"
MARKS = 4


class Failure(Exception):
    """What goes wrong outside of the library."""


def print_driver():
    info = GCuda.get_driver_info()
    version = info.get_version()
    print(f'driver  {info.get_path()}, CUDA {version // 1000}.{version % 1000 // 10}, '
          f'{"simulated" if info.is_simulated() else "real"}')


def choose_device():
    devices = GCuda.get_devices()
    for device in devices:
        capability = f'{device.get_compute_capability_major()}.{device.get_compute_capability_minor()}'
        print(f'device  {device.get_ordinal()}  {device.get_name():<24}  {capability}'
              f'  {device.get_total_memory() / MIB:8.0f} MiB  {device.get_pci_bus_id()}')
    if not len(devices):
        raise Failure('there is no CUDA device')
    return devices[0]


class Job:
    def __init__(self, device):
        self.upload = GCuda.Stream.new_for_device(device)
        self.work = GCuda.Stream.new_for_device(device)
        self.handover = GCuda.Event.new_for_device(device, GCuda.EventFlags.NONE)
        self.pool = GCuda.DeviceMemoryResource.new_pool(device, 0, GCuda.HandleTypes.NONE)
        self.results = collections.deque()  # on their way, oldest first
        self.expected = hashlib.sha256()
        self.found = hashlib.sha256()
        self.bytes = 0
        self.chunks = 0
        self.device_time = 0

    def push(self, chunk):
        """Queues a chunk, and waits for nothing."""
        source = self.pool.allocate(len(chunk), self.upload)
        source.upload(0, GLib.Bytes.new(chunk), self.upload)

        self.handover.record(self.upload)
        self.work.wait_event(self.handover)

        result = self.pool.allocate(len(chunk), self.work)
        source.copy_to(result, self.work)
        result.fill_2d(0, PAGE_SIZE, MARKS, len(chunk) // PAGE_SIZE, MARK, 4, self.work)

        # The last use of the source is on the other stream than the one it was allocated on.
        source.set_deallocation_stream(self.work)
        # A cycle: only the garbage collector can drop it, whenever that is, on whatever thread.
        source.itself = source

        self.results.append(result)
        self.chunks += 1

    def pop(self):
        """Waits for the oldest chunk."""
        start = time.monotonic()
        with self.results.popleft() as result:
            data = result.download(self.work)
        self.device_time += time.monotonic() - start
        self.found.update(data)

    def expect(self, chunk):
        """The same change, made by the processor."""
        copy = bytearray(chunk)
        marks = struct.pack(f'={MARKS}I', *[MARK] * MARKS)
        for i in range(len(chunk) // PAGE_SIZE):
            copy[i * PAGE_SIZE:i * PAGE_SIZE + len(marks)] = marks
        self.expected.update(copy)

    def run(self, file, total):
        show_progress = sys.stderr.isatty()
        while chunk := file.read(CHUNK_SIZE):
            self.expect(chunk)
            if len(self.results) == IN_FLIGHT:
                self.pop()
            start = time.monotonic()
            self.push(chunk)
            self.device_time += time.monotonic() - start
            self.bytes += len(chunk)
            if self.chunks % IN_FLIGHT == 0:
                # Python does not know how much memory hangs on a small object.
                gc.collect()
            if show_progress:
                print(f'\r{self.bytes / MIB:.0f} of {total / MIB:.0f} MiB ', end='', file=sys.stderr, flush=True)
        while self.results:
            self.pop()
        if show_progress:
            print(file=sys.stderr)
        if self.found.digest() != self.expected.digest():
            raise Failure(f"the device's result is wrong: SHA-256 {self.found.hexdigest()}, not {self.expected.hexdigest()}")

    def settle(self):
        """Nothing may be left in the pool."""
        gc.collect()
        GCuda.reclaim(None)
        self.upload.synchronize()
        self.work.synchronize()
        statistics = self.pool.get_statistics()
        if statistics.get_used():
            raise Failure(f'{statistics.get_used()} bytes were not given back to the pool')
        return statistics


def run(path, any_size):
    with open(path, 'rb') as file:
        total = os.fstat(file.fileno()).st_size
        if total < LEAST_SIZE and not any_size:
            raise Failure(f'{path} has less than 64 MiB, too little to say much about speed: take another file, or --any-size')
        print_driver()
        job = Job(choose_device())
        start = time.monotonic()
        job.run(file, total)
        statistics = job.settle()
        whole = time.monotonic() - start
    print()
    print(f'bytes      {job.bytes:12}')
    print(f'chunks     {job.chunks:12}')
    print(f'seconds    {job.device_time:12.3f}  upload, change and download: {job.bytes / max(job.device_time, 1e-6) / 1e9:.3f} GB/s')
    print(f'           {whole:12.3f}  with reading and checksums: {job.bytes / max(whole, 1e-6) / 1e9:.3f} GB/s')
    print(f'pool       {statistics.get_used():12}  bytes used, {statistics.get_used_high() / MIB:.0f} MiB at most')
    print(f'SHA-256    {job.found.hexdigest()}, as expected')


def main():
    parser = argparse.ArgumentParser(prog='main-job', description='Sends a file through the GPU.')
    parser.add_argument('--any-size', action='store_true', help='take a file of less than 64 MiB too')
    parser.add_argument('file', metavar='FILE')
    options = parser.parse_args()
    try:
        run(options.file, options.any_size)
    except GLib.Error as error:
        sys.exit(f'main-job: {error.message}')
    except (Failure, OSError) as error:
        sys.exit(f'main-job: {error}')


if __name__ == '__main__':
    main()
