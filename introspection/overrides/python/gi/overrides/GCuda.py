# SPDX-License-Identifier: LGPL-2.1-or-later
"""What Python expects of GCuda's objects. The library is complete without this file.

It is loaded by `from gi.repository import GCuda`.
"""

import ctypes
import weakref

from gi.repository import GObject

from ..module import get_introspection_module

GCuda = get_introspection_module('GCuda')

__all__ = []


def _method(cls):
    """Adds a function to a class under its own name."""
    def add(function):
        setattr(cls, function.__name__, function)
        return function
    return add


# Buffers

_buffer_close = GCuda.Buffer.close
_buffer_download = GCuda.Buffer.download


@_method(GCuda.Buffer)
def close(self, stream=None):
    """Frees the memory in the order of `stream` or, without one, of the stream that it was to be freed on."""
    return _buffer_close(self, stream)


@_method(GCuda.Buffer)
def download(self, *arguments):
    """download (stream) or download (offset, size, stream): what the memory holds, as bytes."""
    if len(arguments) == 1:
        arguments = (0, self.get_size(), *arguments)
    return _buffer_download(self, *arguments).get_data() or b''


@_method(GCuda.Buffer)
def __len__(self):
    return self.get_size()


@_method(GCuda.Buffer)
def __bool__(self):
    # An empty buffer is a buffer
    return True


@_method(GCuda.Buffer)
def __enter__(self):
    return self


@_method(GCuda.Buffer)
def __exit__(self, *_exception):
    self.close()


@_method(GCuda.Buffer)
def __repr__(self):
    if self.is_closed():
        return f'<GCuda.Buffer of {self.get_size()} bytes, closed>'
    return f'<GCuda.Buffer of {self.get_size()} bytes at {self.get_address():#x}>'


def _cuda_array_interface(self):
    """The buffer as an array of bytes, for libraries that speak the CUDA array interface.

    They read and write it on streams of their own: ordering them after the work that is queued here, and queuing what
    frees it after theirs, is up to the program.
    """
    if self.is_closed():
        raise ValueError('the buffer is closed')
    if not self.is_device_accessible():
        raise AttributeError('the memory cannot be reached from a device')
    return {
        'version': 3,
        'shape': (self.get_size(),),
        'typestr': '|u1',
        'data': (self.get_address(), self.is_read_only()),
        'strides': None,
        'stream': None,
    }


GCuda.Buffer.__cuda_array_interface__ = property(_cuda_array_interface)


def _as_bytes(data):
    """What has memory, such as an array of any type, is its bytes, and not one number for each of its items."""
    if isinstance(data, bytes):
        return data
    try:
        return bytes(memoryview(data))
    except TypeError:
        return data


_upload_data = GCuda.Buffer.upload_data


@_method(GCuda.Buffer)
def upload_data(self, offset, data, stream):
    return _upload_data(self, offset, _as_bytes(data), stream)


_host_map_write = GCuda.HostMap.write


@_method(GCuda.HostMap)
def write(self, offset, data):
    return _host_map_write(self, offset, _as_bytes(data))


class _Keeper(GObject.Object):
    """Keeps what has no reference count of GObject's."""


def _new_for_host_memory(device, memory, stream):
    """A buffer of an object's own memory, such as a bytearray or an array, without a copy.

    Devices read and write it where it is. The object is kept until the work on the buffer is done, and is let go by the
    main loop of this thread; without one, by its next call of this function, or of GCuda.reclaim ().
    """
    view = memoryview(memory).cast('B')
    if not view.nbytes:
        return GCuda.Buffer.new_for_host_address(device, 0, 0, None, stream)
    keeper = _Keeper()
    keeper.array = (ctypes.c_uint8 * view.nbytes).from_buffer(view)
    return GCuda.Buffer.new_for_host_address(device, ctypes.addressof(keeper.array), view.nbytes, keeper, stream)


GCuda.Buffer.new_for_host_memory = staticmethod(_new_for_host_memory)


# Memory that the processor uses

_host_map_unmap = GCuda.HostMap.unmap


def _memory(self):
    """The memory itself, as a memoryview: writable if it was mapped for writing. It ends with the map."""
    if not self.is_mapped():
        raise ValueError('the memory is not mapped')
    array = (ctypes.c_uint8 * self.get_size()).from_address(self.get_address())
    # What looks at the memory keeps it, also without the map at hand.
    array.map = self
    view = memoryview(array).cast('B')
    if not self.is_writable():
        view = view.toreadonly()
    looks = [look for look in self.__dict__.get('_looks', ()) if look[0]() is not None]
    self.__dict__['_looks'] = [*looks, (weakref.ref(array), weakref.ref(view))]
    return view


GCuda.HostMap.memory = property(_memory)


@_method(GCuda.HostMap)
def unmap(self):
    """Ends the map, and the memoryviews of it. BufferError while something else looks at the memory, such as an array."""
    looks = self.__dict__.get('_looks', [])
    for _array, view in looks:
        if view() is not None:
            view().release()
    if any(array() is not None for array, _view in looks):
        raise BufferError('something made of the mapped memory still uses it')
    looks.clear()
    _host_map_unmap(self)


@_method(GCuda.HostMap)
def __enter__(self):
    return self.memory


@_method(GCuda.HostMap)
def __exit__(self, *_exception):
    self.unmap()


@_method(GCuda.HostMap)
def __len__(self):
    return self.get_size()


@_method(GCuda.HostMap)
def __bool__(self):
    # An empty map is a map
    return True


# Places

@_method(GCuda.Location)
def __eq__(self, other):
    return isinstance(other, GCuda.Location) and self.equal(other)


@_method(GCuda.Location)
def __hash__(self):
    return hash(self.to_string())


@_method(GCuda.Location)
def __repr__(self):
    return f'<GCuda.Location: {self.to_string()}>'


# Streams. A builder of graphs is one too.

@_method(GCuda.Stream)
def __enter__(self):
    return self


@_method(GCuda.Stream)
def __exit__(self, *_exception):
    self.close()


@_method(GCuda.Stream)
def __cuda_stream__(self):
    """The version of the protocol, and the stream's handle."""
    if self.is_closed():
        raise ValueError('the stream is closed')
    return (0, self.get_handle())


# Graphs

class _Closing:
    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        self.close()


for _class in (GCuda.Graph, GCuda.GraphDefinition):
    _class.__enter__ = _Closing.__enter__
    _class.__exit__ = _Closing.__exit__


# Devices

@_method(GCuda.Device)
def __repr__(self):
    return f'<GCuda.Device {self.get_ordinal()}: {self.get_name()}>'
