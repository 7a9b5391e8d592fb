# SPDX-License-Identifier: LGPL-2.1-or-later
"""Devices as a list model, and the settings of pools."""

from common import Case, GCuda, tap

from gi.repository import Gio  # noqa: E402  pylint: disable=wrong-import-order

UNLIMITED = (1 << 64) - 1


class Devices(Case):
    def test_list_model(self):
        devices = GCuda.get_devices()
        self.assertIsInstance(devices, Gio.ListModel)
        self.assertEqual(devices.get_item_type(), GCuda.Device.__gtype__)
        self.assertEqual(devices.get_n_items(), len(devices))
        for i, device in enumerate(devices):
            self.assertEqual(device.get_ordinal(), i)
            self.assertIs(device, devices.get_item(i), 'one object for each device')
            self.assertIs(device, GCuda.Device.new(i))
        self.assertIsNone(devices.get_item(len(devices)))
        self.assertIsNone(devices.get_item(2 ** 32 - 1))

    def test_device(self):
        self.assertEqual(self.device.get_ordinal(), 0)
        self.assertTrue(self.device.get_name())
        self.assertRegex(self.device.get_uuid(), r'^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$')
        self.assertRegex(self.device.get_pci_bus_id(), r'^[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9]$')
        self.assertGreaterEqual(self.device.get_compute_capability_major(), 3)
        self.assertEqual(self.device.get_attribute(75), self.device.get_compute_capability_major())
        info = self.device.get_memory_info()
        self.assertGreater(info.get_free(), 0)
        self.assertLessEqual(info.get_free(), info.get_total())
        self.assertTrue(self.device.synchronize())
        self.assertIs(self.device.get_primary_context(), self.context)
        self.assertTrue(self.context.is_primary())
        self.assertIs(self.context.get_device(), self.device)

    def test_attribute_errors(self):
        with self.fails(GCuda.Error.INVALID_VALUE):
            self.device.get_attribute(100000)


class Pools(Case):
    def test_release_threshold(self):
        for value in (0, 1 << 20, (1 << 53) + 1):
            self.assertTrue(self.pool.set_release_threshold(value))
            self.assertEqual(self.pool.get_release_threshold(), min(value, self.device.get_total_memory()))
            self.assertFalse(self.pool.is_release_unlimited())
        self.assertTrue(self.pool.set_release_threshold(UNLIMITED))
        self.assertTrue(self.pool.is_release_unlimited())
        self.assertEqual(self.pool.get_release_threshold(), self.device.get_total_memory())
        self.assertEqual(self.pool.props.release_threshold, self.pool.get_release_threshold())
        self.assertTrue(self.pool.set_release_threshold(0))
        self.assertFalse(self.pool.is_release_unlimited())

    def test_statistics(self):
        before = self.pool.get_statistics()
        buffer = self.pool.allocate(1 << 20, self.stream)
        after = self.pool.get_statistics()
        self.assertEqual(before.get_used(), 0, 'a snapshot does not change')
        self.assertGreaterEqual(after.get_used(), 1 << 20)
        self.assertGreaterEqual(after.get_reserved(), after.get_used())
        buffer.close()
        self.stream.synchronize()
        self.assertEqual(self.pool.get_statistics().get_used(), 0)
        self.assertGreaterEqual(self.pool.get_statistics().get_used_high(), 1 << 20)
        self.assertTrue(self.pool.reset_high_marks())
        self.assertEqual(self.pool.get_statistics().get_used_high(), 0)
        self.assertTrue(self.pool.trim(0))
        self.assertEqual(self.pool.get_statistics().get_reserved(), 0)

    def test_kinds(self):
        self.assertTrue(self.pool.owns_pool())
        shared = GCuda.DeviceMemoryResource.new(self.device)
        self.assertFalse(shared.owns_pool())
        self.assertNotEqual(shared.get_handle(), self.pool.get_handle())
        self.assertEqual(GCuda.DeviceMemoryResource.new(self.device).get_handle(), shared.get_handle())

    def test_reuse(self):
        flags = GCuda.PoolReuse.FOLLOW_EVENTS | GCuda.PoolReuse.OPPORTUNISTIC
        self.assertTrue(self.pool.set_reuse(flags))
        self.assertEqual(self.pool.get_reuse(), flags)


if __name__ == '__main__':
    tap.main()
