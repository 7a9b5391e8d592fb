# SPDX-License-Identifier: LGPL-2.1-or-later
"""The programs and pieces of code in README and the guides: they compile, run, and are in order."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
sys.path.insert(0, os.path.join(ROOT, 'introspection', 'tests'))
import tap  # noqa: E402

# What surrounds the pieces that are no programs. What they have in common is done to it in order.
C_BEFORE = '''
#include <gcudamem/gcudamem.h>
#include <string.h>
int main (void)
{
  GError *error = NULL;
  gsize size = 4096;
  GCudaDevice *device = gcuda_device_new (0, &error);
  GCudaStream *stream = gcuda_stream_new_for_device (device, &error);
  GCudaStream *copy_stream = gcuda_stream_new_for_device (device, &error);
  GCudaStream *work_stream = gcuda_stream_new_for_device (device, &error);
  GCudaMemoryResource *resource = GCUDA_MEMORY_RESOURCE (gcuda_device_memory_resource_new (device, &error));
  GCudaBuffer *weights = gcuda_memory_resource_allocate (resource, size, stream, &error);
  GCudaBuffer *activations = gcuda_memory_resource_allocate (resource, size, stream, &error);
  (void) copy_stream; (void) work_stream; (void) weights; (void) activations;
'''
C_AFTER = '''
  g_assert_no_error (error);
  return 0;
}
'''
PYTHON_BEFORE = '''
import gi
gi.require_version('GCuda', '1.0')
from gi.repository import GCuda
device = GCuda.get_devices()[0]
stream = GCuda.Stream.new_for_device(device)
resource = GCuda.DeviceMemoryResource.new(device)
size = 4096
weights, activations = resource.allocate(size, stream), resource.allocate(size, stream)
activations.fill(1, 1, stream)
'''
PYTHON_AFTER = '''
if activations.download(stream) == bytes(4096):
    print('in order')
'''
C_MAIN = '''
int main (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = zeros_through_the_gpu (1000, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (g_bytes_get_size (bytes), ==, 1000);
  for (gsize i = 0; i < 1000; i++)
    g_assert_cmpint (((const char *) g_bytes_get_data (bytes, NULL))[i], ==, 0);
  return 0;
}
'''


def blocks(name, language):
    with open(os.path.join(ROOT, name), encoding='utf-8') as file:
        parts = re.split(r'^```(.*)\n', file.read(), flags=re.MULTILINE)
    # Text, what opens a block, the block, what closes it, text …
    return [parts[i + 1] for i in range(1, len(parts) - 2, 4) if parts[i] == language]


class Snippets(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def run_program(self, command, check='abort'):
        environment = dict(os.environ, GCUDASIM_CHECK=check)
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)

    def write(self, name, text):
        path = os.path.join(self.folder.name, name)
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text)
        return path

    def in_order(self, result, output=''):
        self.assertEqual((result.returncode, result.stderr), (0, ''))
        self.assertIn(output, result.stdout)

    def run_c(self, text):
        program = os.path.join(self.folder.name, 'program')
        source = self.write('program.c', text)
        subprocess.run([*os.environ['GCUDA_CC'].split(), source, '-o', program, '-Wall', '-Werror',
                        *os.environ['GCUDA_C_ARGS'].split(), *os.environ['GCUDA_LINK_ARGS'].split()],
                       check=True, capture_output=True, text=True)
        return self.run_program([program])

    def test_readme(self):
        c, = blocks('README.md', 'c')
        self.in_order(self.run_c(c + C_MAIN))
        python, = blocks('README.md', 'python')
        self.in_order(self.run_program([sys.executable, self.write('program.py', python)]), 'hello')
        javascript, = blocks('README.md', 'js')
        gjs = os.environ.get('GCUDA_GJS')
        if gjs:
            self.in_order(self.run_program([gjs, self.write('program.js', javascript)]), 'hello')

    def test_ownership(self):
        piece, = blocks('docs/ownership.md', 'c')
        self.in_order(self.run_c(C_BEFORE + piece + C_AFTER))

    def test_virtual_memory(self):
        piece, = blocks('docs/virtual-memory.md', 'c')
        # In a scope of its own: it has names that what surrounds it has too
        self.in_order(self.run_c(C_BEFORE + '{' + piece + '\n  g_assert_cmpuint (gcuda_buffer_get_size (buffer), ==, 64 << 20);'
                                 '\n  g_object_unref (buffer);\n}' + C_AFTER))

    def test_adaptors(self):
        stacked, own = blocks('docs/adaptors.md', 'python')
        self.in_order(self.run_program([sys.executable, self.write('stacked.py', stacked)]), '3 MiB at most')
        self.in_order(self.run_program([sys.executable, self.write('own.py', own)]), '4096 bytes for 5')

    def test_host_memory(self):
        for piece in blocks('docs/host-memory.md', 'c'):
            self.in_order(self.run_c(C_BEFORE + '{' + piece + '\n  g_assert_no_error (error);\n}' + C_AFTER))
        mapped, registered = blocks('docs/host-memory.md', 'python')
        self.in_order(self.run_program([sys.executable, self.write('mapped.py', mapped)]), '7 1048576')
        self.in_order(self.run_program([sys.executable, self.write('registered.py', registered)]), '5 4096')

    def test_graphs(self):
        for piece in blocks('docs/graphs.md', 'c'):
            self.in_order(self.run_c(C_BEFORE + piece + C_AFTER))
        for piece in blocks('docs/graphs.md', 'python'):
            self.in_order(self.run_program([sys.executable, self.write('graph.py', PYTHON_BEFORE + piece + PYTHON_AFTER)]), 'in order')

    def test_testing(self):
        piece, = blocks('docs/testing-without-a-gpu.md', 'c')
        self.in_order(self.run_c(C_BEFORE + piece + C_AFTER))
        wrong, mended = blocks('docs/testing-without-a-gpu.md', 'python')
        *before, download = wrong.rstrip().split('\n')
        right = '\n'.join([*before, mended.rstrip(), download])
        self.in_order(self.run_program([sys.executable, self.write('race.py', right)]), repr(bytes([1] * 4)))
        result = self.run_program([sys.executable, self.write('race.py', wrong)], 'report')
        if os.environ.get('GCUDA_DRIVER') != 'simulated':
            return
        # The report is the one in the guide, but for what differs from run to run
        said, = (block for block in blocks('docs/testing-without-a-gpu.md', '') if block.startswith('$ GCUDA_DRIVER'))
        self.assertEqual(result.returncode, 0)
        # On the terminal what the program prints comes in between; what that is, is luck
        said = re.sub(r"^b'.*\n", '', said.split('\n', 1)[1], flags=re.MULTILINE)
        self.assertRegex(result.stdout, r"^b'.*'\n$")
        self.assertEqual(self.general(result.stderr), self.general(said))

    def general(self, text):
        text = re.sub(r'0x[0-9a-f]+', '0x', text)
        # A line of the library's own, wherever it is by now
        text = re.sub(r'(GCuda\.py", line )\d+', r'\1', text)
        return re.sub(r'File "[^"]*/', 'File "', text).strip()


if __name__ == '__main__':
    tap.main()
