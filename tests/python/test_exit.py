# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs that end with all of it alive, and programs that fork: they exit with 0 and complain of nothing."""

import concurrent.futures
import os
import unittest

from common import LONG, GCuda, run_script, tap

RUNS = 50 if LONG else 20

BUFFERS = '''
buffers = [pool.allocate(1 << 20, stream) for _ in range(8)]
for buffer in buffers:
    for value in range(16):
        buffer.fill(value, 1, stream)
'''

RESOURCE = '''
class Resource(GCuda.MemoryResource):
    ordered = False
    def do_allocate_address(self, size, alignment, stream):
        return pool.allocate_address(size, alignment, stream)
    def do_deallocate_address(self, address, size, alignment, stream):
        pool.deallocate_address(address, size, alignment, stream)
    def do_is_stream_ordered(self):
        return self.ordered
class Ordered(Resource):
    ordered = True
resources = [Resource(device=device), Ordered(device=device)]
'''

HOST = '''
pinned = GCuda.PinnedMemoryResource.new(device)
pieces = GCuda.PinnedMemoryResource.new_unpooled(device, False)
managed = GCuda.ManagedMemoryResource.new(device, None)
data = bytearray(1 << 16)
hosts = [resource.allocate(1 << 16, stream) for resource in (pinned, pieces, managed)]
hosts.append(GCuda.Buffer.new_for_bytes(device, GLib.Bytes.new(bytes(1 << 16)), stream))
hosts.append(GCuda.Buffer.new_for_host_memory(device, data, stream))
maps = [buffer.map(GCuda.MapFlags.READ, stream) for buffer in hosts]
views = [map.memory for map in maps]
'''

EXITS = {
    'nothing': '',
    'memory of the host': HOST,
    'memory of the host, dropped': HOST + 'del views, maps, hosts, pinned, pieces, managed, data\n',
    'memory of the host, in a cycle': HOST + '''
for buffer in hosts:
    buffer.itself = buffer
for map in maps:
    map.look = map.memory
del views, maps, hosts, buffer, map
''',
    'globals': BUFFERS + '''
views = [buffer.new_view(16, 16) for buffer in buffers]
event = GCuda.Event.new_for_device(device, GCuda.EventFlags.NONE)
event.record(stream)
statistics = pool.get_statistics()
devices = GCuda.get_devices()
context = GCuda.Context.new(device, GCuda.ContextFlags.NONE)
others = [GCuda.Stream.new_per_thread_default(context), GCuda.Stream.new_legacy_default(context)]
''',
    'dropped with work pending': BUFFERS + 'del buffer, buffers, stream, pool\n',
    'a cycle': BUFFERS + '''
for buffer in buffers:
    buffer.itself = buffer
sys.kept = buffers
''',
    'attributes': BUFFERS + '''
for buffer in buffers:
    buffer.note = [stream, pool, buffer, lambda: buffer]
stream.note = pool.note = buffers
del buffers, buffer, stream, pool
''',
    'a resource of its own': RESOURCE + '''
buffers = [resource.allocate(1 << 16, stream) for resource in resources for _ in range(4)]
for buffer in buffers:
    buffer.fill(1, 1, stream)
''',
    'a resource of its own, dropped': RESOURCE + '''
for resource in resources:
    for _ in range(4):
        resource.allocate(1 << 16, stream).fill(1, 1, stream)
''',
    'a resource of its own, dropped by a thread': RESOURCE + '''
buffers = [resource.allocate(1 << 16, stream) for resource in resources for _ in range(4)]
thread = threading.Thread(target=buffers.clear)
thread.start()
thread.join()
''',
    'a resource in a cycle': RESOURCE + '''
for resource in resources:
    resource.buffers = [resource.allocate(1 << 16, stream)]
    resource.buffers[0].itself = resource.buffers
del resource, resources
''',
    'synchronous memory': '''
resource = GCuda.SynchronousMemoryResource.new_for_device(device)
kept = resource.allocate(1 << 16, stream)
kept.fill(1, 1, stream)
dropped = resource.allocate(1 << 16, stream)
dropped.fill(1, 1, stream)
del dropped
''',
    'memory of others': BUFFERS + '''
borrowed = [GCuda.Buffer.new_for_address(device, buffer.get_address(), 16, buffer, stream) for buffer in buffers]
del borrowed[:4], buffer, buffers
''',
    'host functions pending': BUFFERS + '''
for buffer in buffers:
    stream.launch_host_function(print, 'called', buffer)
stream.launch_host_function(stream.close)
''',
    'uploads pending': BUFFERS + '''
data = GLib.Bytes.new(bytes(1 << 20))
for buffer in buffers:
    buffer.upload(0, data, stream)
    buffer.upload_data(0, bytes(1 << 16), stream)
''',
    'a teardown handler': BUFFERS + 'GCuda.set_teardown_handler(lambda *_: print("called"))\n',
    'used and dropped at exit': BUFFERS + '''
import atexit
def at_exit():
    buffers[0].fill(1, 1, stream)
    assert buffers[0].download(0, 2, stream) == bytes((1, 1))
    buffers.pop().close()
    buffers.pop().close(stream)
    del buffers[1:]
atexit.register(at_exit)
''',
    'a finalizer in Python': BUFFERS + '''
import weakref
class Owner:
    def __init__(self, buffer):
        self.buffer = buffer
        self.view = buffer.new_view(0, 16)
        weakref.finalize(self, buffer.close)
    def __del__(self):
        # The binding itself can't call anything any more when the interpreter is being taken down
        del self.buffer, self.view
owners = [Owner(buffer) for buffer in buffers]
owners[0].itself = owners[0]
''',
    'threads that go on': BUFFERS + '''
import time
def work(number):
    own = GCuda.Stream.new_for_device(device)
    while True:
        pool.allocate(4096, own).fill(number, 1, own)
for number in range(2):
    threading.Thread(target=work, args=(number,), daemon=True).start()
time.sleep(0.02)
''',
    'closed and disposed': BUFFERS + '''
stream.close()
buffers[0].run_dispose()
buffers[1].close()
pool.run_dispose()
stream.run_dispose()
''',
    'exit called in a call-back': BUFFERS + '''
loop = GLib.MainLoop()
stream.launch_host_function(loop.quit)
loop.run()
sys.exit(0)
''',
}

# What a child does with what it inherited; each is a function body.
CHILDREN = {
    'touches nothing': 'pass',
    'drops': '''
        global buffer, stream, pool, view
        del buffer, stream, pool, view''',
    'collects': 'gc.collect()',
    'closes': '''
        assert buffer.close()
        assert view.close(None)
        assert stream.close()''',
    'disposes': '''
        buffer.run_dispose()
        stream.run_dispose()
        pool.run_dispose()''',
    'uses': '''
        for call in (lambda: buffer.fill(1, 1, stream), lambda: buffer.download(stream), lambda: pool.allocate(64, stream),
                     stream.synchronize, stream.query, device.synchronize, device.get_memory_info, pool.get_statistics,
                     lambda: GCuda.Stream.new_for_device(device), lambda: GCuda.reclaim(None), GCuda.is_available,
                     lambda: buffer.set_deallocation_stream(stream), lambda: scripted.fill(1, 1, stream),
                     lambda: resources[0].allocate(64, stream), lambda: stream.launch_host_function(print)):
            try:
                call()
            except GLib.Error as error:
                assert error.matches(GCuda.error_quark(), GCuda.Error.FORKED), error
            else:
                raise AssertionError('no error')
        assert buffer.get_size() == 4096''',
    'runs its loop': '''
        while GLib.MainContext.default().iteration(False):
            pass''',
}

FORK = RESOURCE + '''
buffer = pool.allocate(4096, stream)
buffer.fill(1, 1, stream)
buffer.itself = buffer
view = buffer.new_view(0, 16)
scripted = resources[0].allocate(64, stream)
dropped = resources[1].allocate(64, stream)
del dropped
def child():
    {body}
def check():
    buffer.fill(2, 1, stream)
    assert buffer.download(0, 4, stream) == bytes([2] * 4)
    assert view.download(0, 1, stream) == bytes([2])
    with pool.allocate(64, stream) as another:
        another.fill(3, 1, stream)
    GCuda.reclaim(None)
    print('fine')
'''

OS_FORK = FORK + '''
process = os.fork()
if process == 0:
    child()
    sys.exit(0)
_, status = os.waitpid(process, 0)
assert status == 0, status
check()
'''

MULTIPROCESSING = FORK + '''
import multiprocessing
fork = multiprocessing.get_context('fork')
process = fork.Process(target=child)
process.start()
process.join()
assert process.exitcode == 0, process.exitcode
with fork.Pool(2) as workers:
    assert workers.map(abs, range(-50, 0)) == list(range(50, 0, -1))
    workers.close()
    workers.join()
check()
'''

# No driver was used before: a child may
FORK_BEFORE = '''
import os, sys
import gi
gi.require_version('GCuda', '1.0')
from gi.repository import GCuda
process = os.fork()
device = GCuda.Device.new(0)
stream = GCuda.Stream.new_for_device(device)
with GCuda.DeviceMemoryResource.new(device).allocate(16, stream) as buffer:
    buffer.fill(1, 1, stream)
    assert buffer.download(stream) == bytes([1] * 16)
if process != 0:
    _, status = os.waitpid(process, 0)
    assert status == 0, status
'''


@unittest.skipUnless(len(GCuda.get_devices()), 'no CUDA device')
class Programs(unittest.TestCase):
    def check(self, script, output='', runs=2, **arguments):
        with concurrent.futures.ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as executor:
            for result in executor.map(lambda _: run_script(script, **arguments), range(runs)):
                self.assertEqual(result, (0, output, ''))

    def test_exit(self):
        for name, script in EXITS.items():
            with self.subTest(name):
                self.check(script, runs=RUNS // 10)

    def test_exit_with_everything(self):
        together = ''.join(EXITS[name] for name in (
            'globals', 'a cycle', 'a resource of its own', 'a resource of its own, dropped by a thread', 'synchronous memory',
            'memory of others', 'host functions pending', 'uploads pending', 'a teardown handler'))
        self.check(together + EXITS['attributes'], runs=RUNS)

    def test_exit_of_many_kinds(self):
        for name in ('attributes', 'threads that go on'):
            with self.subTest(name):
                self.check(EXITS[name], runs=RUNS)

    def test_exit_in_a_thread_of_its_own(self):
        self.check('''
def work():
    ''' + RESOURCE.replace('\n', '\n    ').strip() + '''
    global kept, gone
    kept = [resource.allocate(64, stream) for resource in resources]
    gone = [resource.allocate(64, stream) for resource in resources]
thread = threading.Thread(target=work)
thread.start()
thread.join()
del gone
''')

    def test_fork(self):
        for name, body in CHILDREN.items():
            with self.subTest(name):
                self.check(OS_FORK.replace('{body}', body), 'fine\n', runs=RUNS // 10)

    def test_multiprocessing(self):
        for name, body in CHILDREN.items():
            with self.subTest(name):
                self.check(MULTIPROCESSING.replace('{body}', body), 'fine\n', runs=RUNS // 10)

    def test_fork_before_use(self):
        self.check(FORK_BEFORE, prelude='')


if __name__ == '__main__':
    tap.main()
