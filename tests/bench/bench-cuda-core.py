# SPDX-License-Identifier: LGPL-2.1-or-later
"""What growing by a chunk costs with cuda.core, beside the same driver calls from the same Python: to be read beside bench-virtual.

Not a test: nothing here passes or fails. with-wheels.py runs it.
"""

import contextlib
import io
import statistics
import time

from cuda.bindings import driver
from cuda.core import Device, VirtualMemoryResource, VirtualMemoryResourceOptions
from cuda.core._utils.cuda_utils import CUDAError

CHUNK = 2 << 20
ROUNDS = 21


def done(answer):
    if int(answer[0]) != 0:
        raise RuntimeError(answer[0])
    return answer[1] if len(answer) == 2 else answer[1:]


def measure(device, stream, chunks):
    """Of a buffer that was allocated at once: one that grew once may not grow again."""
    properties = driver.CUmemAllocationProp()
    properties.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    access = driver.CUmemAccessDesc()
    access.location = properties.location
    access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    resource = VirtualMemoryResource(device, VirtualMemoryResourceOptions(handle_type=None))
    address = int(done(driver.cuMemAddressReserve(CHUNK, 0, 0, 0)))
    raw, theirs = [], []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        handle = done(driver.cuMemCreate(CHUNK, properties, 0))
        done(driver.cuMemMap(address, CHUNK, 0, handle, 0))
        done(driver.cuMemSetAccess(address, CHUNK, [access], 1))
        raw.append(time.perf_counter() - start)
        done(driver.cuMemUnmap(address, CHUNK))
        done(driver.cuMemRelease(handle))
        buffer = resource.allocate(chunks * CHUNK, stream=stream)
        start = time.perf_counter()
        grown = resource.modify_allocation(buffer, (chunks + 1) * CHUNK)
        theirs.append(time.perf_counter() - start)
        # It frees what grew in place as one reservation, which it is not, and says so
        with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(CUDAError):
            grown.close()
            del grown, buffer
    done(driver.cuMemAddressFree(address, CHUNK))
    return statistics.median(raw) * 1e6, statistics.median(theirs) * 1e6


def main():
    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    print(f'{"microseconds, medians":52} {"raw":>9} {"cuda.core":>9} {"more":>9} {"ratio":>7}')
    for chunks in (1, 8, 64, 512):
        name = f'cuda.core: grow by one chunk, {chunks} chunks held'
        try:
            a, b = measure(device, stream, chunks)
        except CUDAError as error:
            print(f'{name:52} {str(error).split(":", maxsplit=1)[0]}')
            continue
        print(f'{name:52} {a:9.2f} {b:9.2f} {b - a:9.2f} {b / a:7.2f}', flush=True)


main()
