# SPDX-License-Identifier: LGPL-2.1-or-later
"""What Python expects of GCuda's objects. The library is complete without this file.

It is loaded by `from gi.repository import GCuda`.
"""

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
        'data': (self.get_address(), False),
        'strides': None,
        'stream': None,
    }


GCuda.Buffer.__cuda_array_interface__ = property(_cuda_array_interface)


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
