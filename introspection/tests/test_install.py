# SPDX-License-Identifier: LGPL-2.1-or-later
"""Installs the library into a scratch folder, and uses what was installed from each language.

GCUDA_BUILD is the build folder, GCUDA_CC the C compiler, GCUDA_CUDA_ARGS what it needs to find cuda.h.
"""

import glob
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

import tap

BUILD = os.environ['GCUDA_BUILD']

C_PROGRAM = '''
#include <gcudamem/%s>
int
main (void)
{
  g_autoptr (GCudaDriverInfo) info = gcuda_get_driver_info (NULL);

  if (info != NULL && gcuda_driver_info_get_version (info) < 12000)
    return 1;
  return !(GCUDA_CHECK_VERSION (0, 1, 0) && g_str_equal (g_type_name (GCUDA_TYPE_BUFFER), "GCudaBuffer"));
}
'''


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.scratch)
        cls.root = os.path.join(cls.scratch, 'root')
        subprocess.run(['meson', 'install', '-C', BUILD, '--no-rebuild', '--quiet', '--destdir', cls.root],
                       check=True, stdout=sys.stderr)
        cls.environment = {name: value for name, value in os.environ.items()
                           if name not in ('GJS_PATH', 'PYTHONPATH', 'GI_TYPELIB_PATH', 'LD_LIBRARY_PATH')}
        cls.environment.update({
            'PKG_CONFIG_SYSROOT_DIR': cls.root,
            'PKG_CONFIG_PATH': os.path.dirname(cls.find('gcudamem-1.0.pc')),
            'LD_LIBRARY_PATH': os.path.dirname(cls.find('libgcudamem-1.0.so')),
            'PYTHONPATH': os.path.dirname(__file__),
        })
        if cls.find('GCuda-1.0.typelib'):
            cls.environment['GI_TYPELIB_PATH'] = os.path.dirname(cls.find('GCuda-1.0.typelib'))

    @classmethod
    def find(cls, name):
        found = glob.glob(os.path.join(cls.root, '**', name), recursive=True)
        return found[0] if found else None

    def run_it(self, *command):
        result = subprocess.run(command, env=self.environment, cwd=self.scratch, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, check=False)
        self.assertEqual(result.returncode, 0, f'{shlex.join(command)}\n{result.stdout}')
        return result.stdout

    def compile_c(self, header, *arguments):
        source = os.path.join(self.scratch, header + '.c')
        with open(source, 'w', encoding='utf-8') as file:
            file.write(C_PROGRAM % header)
        # The scratch root is for this library alone: GLib is where it always is
        flags = [flag.replace(self.root, '') if not os.path.exists(flag[2:]) else flag
                 for flag in shlex.split(self.run_it('pkg-config', '--cflags', '--libs', 'gcudamem-1.0'))]
        program = source[:-2]
        self.run_it(*shlex.split(os.environ['GCUDA_CC']), '-Wall', '-Werror', source, *arguments, *flags, '-o', program)
        self.run_it(program)

    def test_c_program(self):
        self.compile_c('gcudamem.h')

    def test_c_program_with_cuda_types(self):
        self.compile_c('gcudamem-cuda.h', *shlex.split(os.environ['GCUDA_CUDA_ARGS']))

    def test_command(self):
        self.environment.update({'GCUDA_DRIVER': 'simulated', 'LC_ALL': 'C.UTF-8'})
        output = self.run_it(self.find('gcuda'), 'info')
        self.assertIn('simulated driver', output)
        self.assertIn('4.0\N{NO-BREAK SPACE}GiB', output)
        # A failure says why
        for change in {'GCUDASIM_DEVICES': '0'}, {'GCUDA_DRIVER': '/nowhere'}:
            failed = subprocess.run([self.find('gcuda'), 'info'], env={**self.environment, **change},
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
            self.assertEqual(failed.returncode, 1)
            self.assertRegex(failed.stderr, '^gcuda: .{20}')

    def test_every_header_is_installed(self):
        top = os.path.dirname(os.path.dirname(self.find('gcudamem.h')))
        missing = []
        for path in glob.glob(os.path.join(top, '**', '*.h'), recursive=True):
            with open(path, encoding='utf-8') as file:
                for line in file:
                    if line.startswith('#include <gcudamem/'):
                        name = line.split('<')[1].split('>')[0]
                        if not os.path.exists(os.path.join(top, name)):
                            missing.append(f'{os.path.relpath(path, top)} includes {name}')
        self.assertEqual([], missing)

    def test_versions_agree(self):
        with open(os.path.join(BUILD, 'meson-info', 'intro-projectinfo.json'), encoding='utf-8') as file:
            version = json.load(file)['version']
        self.assertEqual(self.run_it('pkg-config', '--modversion', 'gcudamem-1.0').strip(), version)

    def test_python(self):
        override = self.find('GCuda.py')
        if not override:
            self.skipTest('built without PyGObject')
        self.environment['PYTHONPATH'] = override[:-len('/gi/overrides/GCuda.py')]
        self.run_it(sys.executable, '-c', 'import gi; gi.require_version("GCuda", "1.0")\n'
                    'from gi.repository import GCuda\nassert GCuda.Buffer.__enter__')

    def test_javascript(self):
        override = self.find('GCuda.js')
        if not override or not shutil.which('gjs'):
            self.skipTest('no gjs here')
        # share/gjs-1.0/overrides is found by way of XDG_DATA_DIRS
        self.environment['XDG_DATA_DIRS'] = override[:-len('/gjs-1.0/overrides/GCuda.js')] + ':/usr/local/share:/usr/share'
        self.run_it('gjs', '-c', 'const {GCuda} = imports.gi;'
                    'if (GCuda.Buffer.prototype.download.length !== 0) throw new Error("no override");')

    def test_vala(self):
        vapi = self.find('gcudamem-1.0.vapi')
        if not vapi or not shutil.which('valac'):
            self.skipTest('no Vala here')
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'vala-program.vala')
        self.run_it('valac', '--ccode', '--fatal-warnings', '--directory', self.scratch,
                    '--vapidir', os.path.dirname(vapi), '--pkg', 'gcudamem-1.0', source)


if __name__ == '__main__':
    tap.main()
