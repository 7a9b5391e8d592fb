# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs unittest cases and prints TAP.

    import tap, unittest
    class Buffers(unittest.TestCase): ...
    if __name__ == '__main__':
        tap.main()
"""

import sys
import traceback
import unittest


class _Result(unittest.TestResult):
    def __init__(self, stream):
        super().__init__()
        self.stream = stream
        self.count = 0
        self.broken = False

    def _line(self, good, test, directive=''):
        self.count += 1
        self.broken |= not good
        name = test.id().replace('__main__.', '').replace('#', '')
        print(f'{"ok" if good else "not ok"} {self.count} {name}{directive}', file=self.stream, flush=True)

    def _comment(self, text):
        for line in str(text).splitlines():
            print(f'# {line}', file=self.stream, flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self._line(True, test)

    def addError(self, test, err):
        super().addError(test, err)
        self._comment(''.join(traceback.format_exception(*err)))
        self._line(False, test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._comment(''.join(traceback.format_exception(*err)))
        self._line(False, test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._line(True, test, f' # SKIP {reason}')

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self._line(False, test, ' # TODO expected failure')

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self._comment('passed, and was expected to fail')
        self._line(False, test)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        # A subtest that fails is a line of its own; unittest then says nothing about the test around it
        if err is not None:
            self._comment(''.join(traceback.format_exception(*err)))
            self._line(False, subtest)


def main(module='__main__'):
    """Runs the cases of a module, those named on the command line or all of them, and ends the process."""
    loader = unittest.TestLoader()
    names = [argument for argument in sys.argv[1:] if not argument.startswith('-')]
    module = sys.modules[module]
    suite = loader.loadTestsFromNames(names, module) if names else loader.loadTestsFromModule(module)
    # What a test prints must not be taken for TAP
    stream = sys.stdout
    sys.stdout = sys.stderr
    result = _Result(stream)
    suite.run(result)
    print(f'1..{result.count}' if result.count else '1..0 # SKIP no test case', file=stream, flush=True)
    sys.exit(1 if result.broken else 0)
