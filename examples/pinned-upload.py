#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A file goes to the GPU by way of two buffers of page-locked memory.

While one is on its way, the next piece of the file is read into the other. Beside it the same from ordinary memory.
The same program is there in C and in JavaScript.
"""

import argparse
import hashlib
import os
import sys
import time

import gi
gi.require_version('GCuda', '1.0')
from gi.repository import GCuda, GLib  # noqa: E402

MIB = 1024 * 1024
CHUNK_SIZE = 4 * MIB
LEAST_SIZE = 64 * MIB


class Failure(Exception):
    """What goes wrong outside of the library."""


class Slot:
    """One of the buffers that take turns, and what tells when its copy is done."""

    def __init__(self, device, pinned, stream):
        self.buffer = pinned.allocate(CHUNK_SIZE, stream)
        # Mapped for good. From here on the event says when the processor may write there.
        self.memory = self.buffer.map(GCuda.MapFlags.WRITE, stream).memory
        self.begun = GCuda.Event.new_for_device(device, GCuda.EventFlags.TIMING)
        self.done = GCuda.Event.new_for_device(device, GCuda.EventFlags.TIMING)
        self.used = False

    def wait(self):
        """Waits until the copy is done; the seconds that it took."""
        if not self.used:
            return 0
        self.used = False
        self.done.synchronize()
        return self.begun.elapsed_time(self.done) / 1e3


class Upload:
    def __init__(self, device, size):
        self.size = size
        self.stream = GCuda.Stream.new_for_device(device)
        self.pinned = GCuda.PinnedMemoryResource.new(device)
        self.pool = GCuda.DeviceMemoryResource.new_pool(device, 0, GCuda.HandleTypes.NONE)
        self.target = self.pool.allocate(size, self.stream)  # the whole file, on the device
        self.slots = [Slot(device, self.pinned, self.stream) for _ in range(2)]

    def run(self, path, pinned):
        """The whole file, once: seconds of copying, as the device's events tell, and with reading the file."""
        start = time.monotonic()
        link = offset = i = 0
        with open(path, 'rb', buffering=0) as file:
            while offset < self.size:
                slot = self.slots[i % len(self.slots)]
                # Two chunks ago it was sent.
                link += slot.wait()
                if pinned:
                    size = file.readinto(slot.memory[:self.size - offset])
                else:
                    chunk = file.read(min(CHUNK_SIZE, self.size - offset))
                    size = len(chunk)
                if not size:
                    raise Failure('the file became shorter')
                slot.begun.record(self.stream)
                if pinned:
                    slot.buffer.copy_range(0, self.target, offset, size, self.stream)
                else:
                    self.target.upload(offset, GLib.Bytes.new(chunk), self.stream)
                slot.done.record(self.stream)
                slot.used = True
                offset += size
                i += 1
        link += sum(slot.wait() for slot in self.slots)
        return link, time.monotonic() - start

    def check(self, path):
        """That the device has what is in the file."""
        expected = hashlib.sha256()
        with open(path, 'rb') as file:
            while chunk := file.read(CHUNK_SIZE):
                expected.update(chunk)
        found = hashlib.sha256(self.target.download(self.stream))
        if found.digest() != expected.digest():
            raise Failure(f'what is on the device is wrong: SHA-256 {found.hexdigest()}, not {expected.hexdigest()}')
        return found.hexdigest()


def run(path, any_size):
    size = os.stat(path).st_size
    if size < LEAST_SIZE and not any_size:
        raise Failure(f'{path} has less than 64 MiB, too little to say much about speed: take another file, or --any-size')
    device = GCuda.Device.new(0)
    upload = Upload(device, size)
    print(f'device  {device.get_name()}')
    print(f'pinned  {"memory of a pool" if upload.pinned.is_pooled() else "piece by piece"}')
    print(f'bytes   {size}')
    print(f'\n{"from":<10} {"GB/s":>12} {"GB/s with reading":>22}')
    for name in ('pageable', 'pinned'):
        # Twice: the first time the file may not be in memory.
        upload.run(path, name == 'pinned')
        link, whole = upload.run(path, name == 'pinned')
        digest = upload.check(path)
        print(f'{name:<10} {size / max(link, 1e-9) / 1e9:12.3f} {size / max(whole, 1e-9) / 1e9:22.3f}'
              f'   SHA-256 {digest[:16]}…, as expected')


def main():
    parser = argparse.ArgumentParser(prog='pinned-upload', description='Sends a file to the GPU through page-locked memory.')
    parser.add_argument('--any-size', action='store_true', help='take a file of less than 64 MiB too')
    parser.add_argument('file', metavar='FILE')
    options = parser.parse_args()
    try:
        run(options.file, options.any_size)
    except GLib.Error as error:
        sys.exit(f'pinned-upload: {error.message}')
    except (Failure, OSError) as error:
        sys.exit(f'pinned-upload: {error}')


if __name__ == '__main__':
    main()
