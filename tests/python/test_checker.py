# SPDX-License-Identifier: LGPL-2.1-or-later
"""The ordering checker in a script: reports name the script's lines, and what kernels do can be declared."""

import json
import os
import tempfile
import unittest
from unittest import mock

from common import Case, GCuda, run_script, simulator, tap

RACE = '''
other = GCuda.Stream.new_for_device(device)
buffer = pool.allocate(4096, stream)
stream.synchronize()
def first():
    buffer.fill(1, 1, stream)
def second():
    buffer.fill(2, 1, other)
'''

# Each ends in order, so that only the one mistake is there
END = 'device.synchronize()\n'


def is_checked():
    control = simulator()
    return hasattr(control, 'gcudasim_is_checking') and control.gcudasim_is_checking() == 1


@unittest.skipUnless(is_checked(), 'nothing checks this driver')
class Reports(unittest.TestCase):
    """What is reported of a script."""

    def reports(self, script, **variables):
        """Runs a script, which has to end well: the reports, and what was complained of."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'reports')
            variables = {'GCUDASIM_CHECK': 'report', 'GCUDASIM_CHECK_FILE': path, **variables}
            with mock.patch.dict(os.environ, variables):
                status, _, complaints = run_script(script)
            self.assertEqual(status, 0, complaints)
            if not os.path.exists(path):
                return [], complaints
            with open(path, encoding='utf-8') as lines:
                return [json.loads(line) for line in lines], complaints

    def test_lines(self):
        reports, complaints = self.reports(RACE + 'first()\nsecond()\n' + END)
        self.assertEqual(len(reports), 1)
        report = reports[0]
        self.assertEqual(report['kind'], 'write-write')
        for which, function in (('first', 'first'), ('second', 'second')):
            line = report[which]['stack'][0]
            self.assertRegex(line, f'^File "<string>", line [0-9]+ in {function}$')
            self.assertIn(line, complaints)
        numbers = [int(report[which]['stack'][0].split()[3]) for which in ('first', 'second')]
        self.assertEqual(numbers[1] - numbers[0], 2)
        self.assertEqual((report['memory']['from'], report['memory']['to']), (0, 4096))
        self.assertNotEqual(report['first']['where'], report['second']['where'])
        self.assertIn(report['first']['where'], report['missing'])

    def test_a_loop_is_said_once(self):
        reports, complaints = self.reports(RACE + '''
for _ in range(50):
    first()
    second()
    device.synchronize()
''')
        self.assertEqual(len(reports), 1)
        self.assertIn('1 ordering report, 49 repetitions, 0 suppressed', complaints)

    def test_native_and_no_stacks(self):
        for stacks in 'native', 'none':
            reports, complaints = self.reports(RACE + 'first()\nsecond()\n' + END, GCUDASIM_CHECK_STACKS=stacks)
            self.assertEqual(len(reports), 1)
            self.assertNotIn('<string>', complaints)
            self.assertEqual(reports[0]['first']['stack'] == [], stacks == 'none')

    def test_threads(self):
        # Each has a stack of its own, which leaves nothing behind
        reports, _ = self.reports(RACE + '''
def run():
    GCuda.Buffer.fill(buffer, 1, 1, stream)
def count():
    return len(os.listdir('/proc/self/fd'))
for i in range(30):
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if i == 4:
        before = count()
stream.synchronize()
# The latest thread may not be quite gone
assert count() < before + 5, (before, count())
''')
        self.assertEqual(reports, [])

    def test_declared(self):
        for access, kinds in ('READ', []), ('WRITE', ['read-write']):
            reports, _ = self.reports(RACE + f'''
copy = pool.allocate(4096, stream)
stream.synchronize()
buffer.copy_to(copy, stream)
other.declare_access(buffer, 4000, 96, GCuda.AccessFlags.{access})
''' + END)
            self.assertEqual([report['kind'] for report in reports], kinds)


class Declarations(Case):
    """What is given to declare_access()."""

    def test_arguments(self):
        buffer = self.pool.allocate(4096, self.stream)
        both = GCuda.AccessFlags.READ | GCuda.AccessFlags.WRITE
        self.assertTrue(self.stream.declare_access(buffer, 0, 4096, both))
        self.assertTrue(self.stream.declare_access(buffer, 4096, 0, both))
        if not is_checked():
            self.assertTrue(self.stream.declare_access(buffer, 4096, 1, both))
            return
        for offset, size in (0, 4097), (4096, 1), (4097, 0), (1, 2 ** 64 - 1):
            with self.fails(GCuda.Error.INVALID_ARGUMENT):
                self.stream.declare_access(buffer, offset, size, both)
        with self.fails(GCuda.Error.INVALID_ARGUMENT):
            self.stream.declare_access(buffer, 0, 1, GCuda.AccessFlags.NONE)
        with self.assertRaises(TypeError):
            self.stream.declare_access(None, 0, 1, both)
        with self.assertRaises(OverflowError):
            self.stream.declare_access(buffer, -1, 1, both)
        buffer.close(self.stream)
        with self.fails(GCuda.Error.CLOSED):
            self.stream.declare_access(buffer, 0, 1, both)


if __name__ == '__main__':
    tap.main()
