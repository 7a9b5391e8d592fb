# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs a program with a Python that has cuda-core: on the simulated driver, or on this machine's.

usage: with-wheels.py PROGRAM [ARGUMENT...]

The packages are those that `./run` fetched into build/wheels, or this machine's own. Without any, the tests are skipped.
"""

import os
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROBE = 'import numpy, cuda.bindings.driver, cuda.core'


def skip(reason):
    print(f'1..0 # SKIP {reason}')
    sys.exit(0)


def environment():
    """What the program gets. Nothing of the Python that runs this: the other one is another version, perhaps."""
    result = dict(os.environ)
    home = result.pop('PYTHONHOME', None)
    result.pop('PYTHONPATH', None)
    paths = [path for path in result.get('LD_LIBRARY_PATH', '').split(':') if path]
    chosen = result.get('GCUDA_DRIVER')
    if chosen == 'simulated':
        paths.insert(0, os.path.join(os.path.dirname(result['GCUDASIM_LIBRARY']), 'as-libcuda'))
    elif chosen:
        skip('these programs open libcuda.so.1: they cannot be given a driver by its path')
    elif home:
        paths = [path for path in paths if not path.startswith(home)]
    result['LD_LIBRARY_PATH'] = ':'.join(paths)
    return result


def pythons():
    seen = set()
    for folder in os.environ.get('PATH', '').split(':') + ['/usr/bin']:
        python = os.path.join(folder, 'python3')
        if os.access(python, os.X_OK) and python not in seen:
            seen.add(python)
            yield python


def works(python, packages, variables):
    probe = dict(variables)
    if packages:
        probe['PYTHONPATH'] = packages
    result = subprocess.run([python, '-c', PROBE], env=probe, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL, check=False)
    return result.returncode == 0


def main():
    variables = environment()
    for packages in (os.path.join(TOP, 'build', 'wheels'), None):
        if packages and not os.path.isdir(packages):
            continue
        for python in pythons():
            if works(python, packages, variables):
                if packages:
                    variables['PYTHONPATH'] = packages
                os.execve(python, [python] + sys.argv[1:], variables)
    skip('no Python here has cuda-core: build-aux/fetch-wheels build/wheels fetches it')


if __name__ == '__main__':
    main()
