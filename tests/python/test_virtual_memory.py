# SPDX-License-Identifier: LGPL-2.1-or-later
"""Virtual memory: buffers that grow, shrink and move."""

import gc

from common import Case, GCuda, GLib, tap

NONE = GCuda.ResizeFlags.NONE
MAY_MOVE = GCuda.ResizeFlags.MAY_MOVE


class VirtualMemory(Case):
    def setUp(self):
        super().setUp()
        self.resource = self.make()
        self.unit = self.resource.get_granularity()

    def tearDown(self):
        del self.resource
        super().tearDown()

    def make(self, **settings):
        options = GCuda.VirtualMemoryOptions.new()
        for name, value in settings.items():
            getattr(options, f'set_{name}')(*(value if isinstance(value, tuple) else (value,)))
        try:
            return GCuda.VirtualMemoryResource.new(self.device, options)
        except GLib.Error as error:
            if error.matches(GCuda.error_quark(), GCuda.Error.NOT_SUPPORTED):
                self.skipTest(error.message)
            raise

    def read(self, buffer, offset, size):
        return bytes(buffer.download(self.stream)[offset:offset + size])

    def test_allocate(self):
        self.assertGreater(self.unit, 0)
        with self.resource.allocate(100, self.stream) as buffer:
            self.assertEqual(buffer.get_size(), 100)
            self.assertEqual(self.resource.get_capacity(buffer), self.unit)
            buffer.fill(7, 1, self.stream)
            self.assertEqual(bytes(buffer.download(self.stream)), b'\7' * 100)
        self.assertTrue(buffer.is_closed())

    def test_no_options(self):
        resource = GCuda.VirtualMemoryResource.new(self.device, None)
        self.assertEqual(resource.get_granularity(), self.unit)

    def test_grow_in_place(self):
        resource = self.make(max_size=16 * self.unit)
        buffer = resource.allocate(10, self.stream)
        address = buffer.get_address()
        sizes = []
        buffer.connect('notify::size', lambda each, _: sizes.append(each.get_size()))
        buffer.fill(1, 1, self.stream)
        for i in range(1, 5):
            self.assertTrue(resource.resize(buffer, i * self.unit + 10, NONE, self.stream))
        self.assertEqual(buffer.get_address(), address)
        self.assertEqual(sizes, [i * self.unit + 10 for i in range(1, 5)])
        self.assertEqual(resource.get_capacity(buffer), 5 * self.unit)
        self.assertEqual(self.read(buffer, 0, 10), b'\1' * 10)

    def test_move(self):
        buffer = self.resource.allocate(self.unit, self.stream)
        address = buffer.get_address()
        addresses = []
        buffer.connect('notify::address', lambda each, _: addresses.append(each.get_address()))
        buffer.fill(3, 1, self.stream)
        # Something behind it
        others = [self.resource.allocate(self.unit, self.stream) for _ in range(4)]
        try:
            self.resource.resize(buffer, 2 * self.unit, NONE, self.stream)
        except GLib.Error as error:
            self.assertTrue(error.matches(GCuda.error_quark(), GCuda.Error.OUT_OF_MEMORY))
            self.assertEqual(buffer.get_size(), self.unit)
            self.assertTrue(self.resource.resize(buffer, 2 * self.unit, MAY_MOVE, self.stream))
            self.assertNotEqual(buffer.get_address(), address)
            self.assertEqual(addresses, [buffer.get_address()])
        self.assertEqual(self.read(buffer, 0, 16), b'\3' * 16)
        del others

    def test_shrink_and_views(self):
        resource = self.make(chunk_size=self.unit)
        buffer = resource.allocate(4 * self.unit, self.stream)
        buffer.fill(9, 1, self.stream)
        view = buffer.new_view(0, 16)
        with self.fails(GCuda.Error.IN_USE):
            resource.resize(buffer, 1, NONE, self.stream)
        with self.fails(GCuda.Error.INVALID_ARGUMENT):
            resource.resize(view, 1, NONE, self.stream)
        view.close()
        self.assertTrue(resource.resize(buffer, self.unit + 1, NONE, self.stream))
        self.assertEqual(resource.get_capacity(buffer), 2 * self.unit)
        self.assertEqual(self.read(buffer, self.unit, 1), b'\t')

    def test_reserve(self):
        buffer = self.resource.reserve(4 * self.unit, self.stream)
        self.assertEqual(self.resource.get_capacity(buffer), 0)
        self.assertTrue(self.resource.commit(buffer, self.unit, 2 * self.unit, self.stream))
        self.assertEqual(self.resource.get_capacity(buffer), 2 * self.unit)
        buffer.fill_range(self.unit, 16, 5, 1, self.stream)
        self.assertTrue(self.resource.decommit(buffer, 2 * self.unit, self.unit, self.stream))
        self.assertEqual(self.resource.get_capacity(buffer), self.unit)
        view = buffer.new_view(self.unit, 16)
        self.assertEqual(bytes(view.download(self.stream)), b'\5' * 16)
        with self.fails(GCuda.Error.INVALID_ARGUMENT):
            self.resource.commit(buffer, 1, self.unit, self.stream)

    def test_access(self):
        buffer = self.resource.allocate(16, self.stream)
        self.assertTrue(self.resource.set_access(buffer, self.device, GCuda.MemoryAccess.READ))
        with self.assertRaises(GLib.Error):
            buffer.fill(1, 1, self.stream)
        self.assertTrue(self.resource.set_access(buffer, self.device, GCuda.MemoryAccess.READ_WRITE))
        buffer.fill(1, 1, self.stream)
        devices = GCuda.get_devices()
        if len(devices) < 2 or not devices[1].can_access_peer(self.device):
            return
        self.assertTrue(self.resource.add_peer(devices[1], GCuda.MemoryAccess.READ_WRITE))
        resource = self.make(placement=([self.device, devices[1]], GCuda.MemoryPlacement.ROUND_ROBIN))
        spread = resource.allocate(2 * self.unit, self.stream)
        spread.fill(2, 1, self.stream)
        self.assertEqual(self.read(spread, self.unit, 4), b'\2' * 4)

    def test_cache(self):
        resource = self.make(cache_size=4 * self.unit)
        resource.allocate(self.unit, self.stream).close()
        GCuda.reclaim(None)
        self.assertTrue(resource.trim(0))

    def test_bad_arguments(self):
        buffer = self.resource.allocate(16, self.stream)
        for size in (0, 2 ** 63, 2 ** 64 - 1):
            with self.fails(GCuda.Error.INVALID_ARGUMENT):
                self.resource.resize(buffer, size, NONE, self.stream)
        with self.assertRaises(TypeError):
            self.resource.resize(None, 1, NONE, self.stream)
        with self.assertRaises(TypeError):
            self.resource.resize(buffer, 1, NONE, None)
        with self.fails(GCuda.Error.INVALID_ARGUMENT):
            self.resource.resize(self.pool.allocate(16, self.stream), 1, NONE, self.stream)
        with self.fails(GCuda.Error.INVALID_ARGUMENT):
            self.make(alignment=3)
        with self.fails(GCuda.Error.CLOSED):
            GCuda.VirtualMemoryResource().allocate(1, self.stream)
        buffer.close()
        with self.fails(GCuda.Error.CLOSED):
            self.resource.resize(buffer, 1, NONE, self.stream)

    def test_collected(self):
        resource = self.make(max_size=8 * self.unit)
        buffer = resource.allocate(self.unit, self.stream)
        resource.resize(buffer, 2 * self.unit, NONE, self.stream)
        resource.resize(buffer, 1, NONE, self.stream)
        with self.collects(buffer, resource):
            buffer.itself = buffer
            del buffer, resource
            gc.collect()
            GCuda.reclaim(None)


if __name__ == '__main__':
    tap.main()
