#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""An array on the GPU that grows, chunk by chunk, at one address: a file, or what comes from the standard input, is appended
to it piece by piece, and at the end it is read back and compared. Beside each growth stands what it costs to allocate anew,
copy and free.

The same program is there in C and in JavaScript.
"""

import argparse
import hashlib
import math
import statistics
import sys
import time

import gi
gi.require_version('GCuda', '1.0')
from gi.repository import GCuda, GLib  # noqa: E402

MIB = 1024 * 1024
PIECE_SIZE = MIB + 4096


class Failure(Exception):
    """What goes wrong outside of the library."""


def microseconds_since(start):
    return max((time.monotonic() - start) * 1e6, 1)


class Array:
    def __init__(self, device, limit):
        options = GCuda.VirtualMemoryOptions.new()
        # Addresses for all there may ever be; memory for what there is.
        options.set_max_size(limit)
        self.limit = limit
        self.stream = GCuda.Stream.new_for_device(device)
        self.resource = GCuda.VirtualMemoryResource.new(device, options)
        self.pool = GCuda.DeviceMemoryResource.new_pool(device, 0, GCuda.HandleTypes.NONE)  # to compare with
        self.chunk = self.resource.get_granularity()
        self.buffer = self.resource.allocate(self.chunk, self.stream)
        self.address = self.buffer.get_address()
        self.length = 0  # what is in use of the buffer
        self.expected = hashlib.sha256()
        self.grown = []  # the size before, and microseconds
        self.copied = []
        self.compare_at = self.chunk

    def compare(self, size):
        """What it costs without virtual memory: another buffer, a copy, and the old one freed."""
        with self.pool.allocate(size, self.stream) as old:
            old.fill(0, 1, self.stream)
            self.stream.synchronize()
            start = time.monotonic()
            larger = self.pool.allocate(size + self.chunk, self.stream)
            front = larger.new_view(0, size)
            old.copy_to(front, self.stream)
            old.close()
            self.stream.synchronize()
            self.copied.append((size, microseconds_since(start)))
        front.close()
        larger.close()

    def grow(self):
        """One chunk more."""
        size = self.buffer.get_size()
        if size >= self.compare_at:
            self.compare(size)
            self.compare_at *= 2
        start = time.monotonic()
        self.resource.resize(self.buffer, size + self.chunk, GCuda.ResizeFlags.NONE, self.stream)
        self.grown.append((size, microseconds_since(start)))

    def append(self, data):
        while self.length + len(data) > self.buffer.get_size():
            self.grow()
        self.buffer.upload(self.length, GLib.Bytes.new(data), self.stream)
        self.expected.update(data)
        self.length += len(data)

    def fill(self, path, full):
        while True:
            before = self.length
            with open(path, 'rb') if path else sys.stdin.buffer as file:
                while self.length < self.limit and (data := file.read(min(PIECE_SIZE, self.limit - self.length))):
                    self.append(data)
            # An empty file fills nothing.
            if not full or not path or self.length in (before, self.limit):
                return

    def verify(self):
        found = hashlib.sha256()
        for offset in range(0, self.length, 4 * MIB):
            with self.buffer.new_view(offset, min(4 * MIB, self.length - offset)) as part:
                found.update(part.download(self.stream))
        if found.digest() != self.expected.digest():
            raise Failure(f'the array is wrong: SHA-256 {found.hexdigest()}, not {self.expected.hexdigest()}')
        if self.buffer.get_address() != self.address:
            raise Failure('the array is at another address')

    def print_steps(self):
        print(f'\n{"held, MiB":>12}  {"steps":>6}  {"growing, us a step":>18}  {"copying, us":>14}')
        for size, copy in self.copied:
            costs = [cost for held, cost in self.grown if size <= held < 2 * size]
            print(f'{size / MIB:12.0f}  {len(costs):6}  {statistics.median(costs):18.1f}  {copy:14.1f}')

    def plot(self, path):
        most = self.buffer.get_size()

        def x(size):
            return 70 + 540 * math.log(size / self.chunk) / max(math.log(most / self.chunk), 1e-9)

        def y(cost):
            # From 1 microsecond to 1 second
            return 360 - 320 * min(max(math.log10(cost) / 6, 0), 1)

        def line(steps, colour):
            points = ' '.join(f'{x(size):.1f},{y(cost):.1f}' for size, cost in steps)
            return f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{points}"/>'

        parts = ['<svg xmlns="http://www.w3.org/2000/svg" width="640" height="420" font-family="sans-serif" font-size="12">',
                 '<rect width="640" height="420" fill="white"/>']
        for i, cost in enumerate(('1 us', '10 us', '100 us', '1 ms', '10 ms', '100 ms', '1 s')):
            at = 360 - i * 320 // 6
            parts.append(f'<line x1="70" x2="610" y1="{at}" y2="{at}" stroke="#ddd"/>'
                         f'<text x="62" y="{at + 4}" text-anchor="end">{cost}</text>')
        size = self.chunk
        while size <= most:
            parts.append(f'<text x="{x(size):.0f}" y="378" text-anchor="middle">{size // MIB}</text>')
            size *= 4
        parts += [line(self.copied, '#c33'), line(self.grown, '#36c'),
                  '<text x="340" y="400" text-anchor="middle">MiB held</text>',
                  '<text x="80" y="24" fill="#36c">growing in place by one chunk</text>',
                  '<text x="330" y="24" fill="#c33">allocating anew, copying and freeing</text>', '</svg>', '']
        with open(path, 'w', encoding='utf-8') as file:
            file.write('\n'.join(parts))


def run(options):
    simulated = GCuda.get_driver_info().is_simulated()
    device = GCuda.Device.new(0)
    limit = options.limit or (256 if simulated else 4096)
    print(f'device  {device.get_name()}, {"simulated" if simulated else "real"}')
    array = Array(device, limit * MIB)
    array.fill(options.file, options.full)
    array.verify()
    array.print_steps()
    print(f'\naddress    {array.address:#x}, from {array.chunk // MIB} to {array.buffer.get_size() // MIB} MiB '
          f'in {len(array.grown)} steps')
    print(f'SHA-256    {array.expected.hexdigest()} of {array.length} bytes, as expected')
    if options.plot:
        array.plot(options.plot)


def main():
    parser = argparse.ArgumentParser(prog='growable-array', description='Grows an array on the GPU.')
    parser.add_argument('--limit', metavar='MIB', type=int, help='the largest array; 4096 MiB, or 256 on the simulated driver')
    parser.add_argument('--full', action='store_true', help='append the file again until the limit is reached')
    parser.add_argument('--plot', metavar='FILE.svg', help='draw the cost of each step')
    parser.add_argument('file', metavar='FILE', nargs='?')
    try:
        run(parser.parse_args())
    except GLib.Error as error:
        sys.exit(f'growable-array: {error.message}')
    except (Failure, OSError) as error:
        sys.exit(f'growable-array: {error}')


if __name__ == '__main__':
    main()
