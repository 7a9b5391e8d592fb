/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/base/gcuda-macros.h>

G_BEGIN_DECLS

/**
 * GCUDA_ERROR:
 *
 * The error domain of this library. Its codes are those of [error@Error].
 *
 * Since: 0.1
 */
#define GCUDA_ERROR (gcuda_error_quark ())

/**
 * GCudaError:
 * @GCUDA_ERROR_INVALID_VALUE: the driver refused an argument
 * @GCUDA_ERROR_OUT_OF_MEMORY: the device or the host has no more memory
 * @GCUDA_ERROR_NOT_INITIALIZED: the driver was not initialised
 * @GCUDA_ERROR_DEINITIALIZED: the driver is shutting down
 * @GCUDA_ERROR_STUB_LIBRARY: the library that was found is a stub of the CUDA Toolkit, not a driver
 * @GCUDA_ERROR_NO_DEVICE: there is no CUDA device
 * @GCUDA_ERROR_INVALID_DEVICE: there is no such device
 * @GCUDA_ERROR_INVALID_CONTEXT: no context is current, or not one that the call can use
 * @GCUDA_ERROR_ECC_UNCORRECTABLE: the device found a memory error that it can't correct
 * @GCUDA_ERROR_PEER_ACCESS_UNSUPPORTED: the two devices can't reach each other's memory
 * @GCUDA_ERROR_INVALID_HANDLE: a handle is not valid for the call
 * @GCUDA_ERROR_ILLEGAL_STATE: the object is in no state for the call
 * @GCUDA_ERROR_NOT_FOUND: the driver knows no such name
 * @GCUDA_ERROR_NOT_READY: work that was asked about is not done yet
 * @GCUDA_ERROR_ILLEGAL_ADDRESS: the device used memory that it may not use; the context is lost
 * @GCUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED: peer access is enabled already
 * @GCUDA_ERROR_PEER_ACCESS_NOT_ENABLED: peer access is not enabled
 * @GCUDA_ERROR_CONTEXT_IS_DESTROYED: the context was destroyed or reset
 * @GCUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED: a part of the host memory is registered already
 * @GCUDA_ERROR_HOST_MEMORY_NOT_REGISTERED: the host memory is not registered
 * @GCUDA_ERROR_LAUNCH_FAILED: the device failed while it ran a kernel; the context is lost
 * @GCUDA_ERROR_NOT_PERMITTED: the call is not permitted here
 * @GCUDA_ERROR_NOT_SUPPORTED: this driver or device can't do that
 * @GCUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: a capture forbids this call
 * @GCUDA_ERROR_STREAM_CAPTURE_INVALIDATED: the capture was broken earlier
 * @GCUDA_ERROR_STREAM_CAPTURE_MERGE: the call would join two captures
 * @GCUDA_ERROR_STREAM_CAPTURE_UNMATCHED: the capture began on another stream
 * @GCUDA_ERROR_STREAM_CAPTURE_UNJOINED: work that was forked in the capture was not joined
 * @GCUDA_ERROR_STREAM_CAPTURE_ISOLATION: the call would make a capture depend on work outside of it
 * @GCUDA_ERROR_STREAM_CAPTURE_IMPLICIT: the call would make a captured stream depend on the legacy default stream
 * @GCUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD: the capture belongs to another thread
 * @GCUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE: the two graphs differ in more than an update can change
 * @GCUDA_ERROR_UNKNOWN: the driver gives no reason
 * @GCUDA_ERROR_DRIVER_NOT_FOUND: the CUDA driver could not be loaded
 * @GCUDA_ERROR_DRIVER_TOO_OLD: the CUDA driver lacks a function that this library needs
 * @GCUDA_ERROR_INVALID_ARGUMENT: an argument was refused before the driver was called
 * @GCUDA_ERROR_CLOSED: an object in the call was closed, or never opened
 * @GCUDA_ERROR_FORKED: this process was forked from one that uses CUDA; CUDA can't be used in it
 * @GCUDA_ERROR_CAPTURING: the stream is being captured, and the call can't be captured
 * @GCUDA_ERROR_NOT_CAPTURING: the stream is not being captured
 * @GCUDA_ERROR_IN_USE: something else still uses the object
 * @GCUDA_ERROR_WRONG_THREAD: the memory resource can only be used by the thread that made it
 * @GCUDA_ERROR_TIMING_DISABLED: an event was made without timing
 * @GCUDA_ERROR_NOT_RECORDED: an event was never recorded
 * @GCUDA_ERROR_DIFFERENT_DEVICE: two objects belong to different devices or contexts
 * @GCUDA_ERROR_RESOURCE_FAILED: a memory resource written by a program failed without saying why
 *
 * Error codes of the `GCUDA_ERROR` domain.
 *
 * An error that comes from the driver keeps the driver's own number, its `CUresult`, also where no name is listed here.
 * Codes from 10000 on are this library's. Codes are only ever added.
 *
 * Since: 0.1
 */
typedef enum
{
  GCUDA_ERROR_INVALID_VALUE = 1,
  GCUDA_ERROR_OUT_OF_MEMORY = 2,
  GCUDA_ERROR_NOT_INITIALIZED = 3,
  GCUDA_ERROR_DEINITIALIZED = 4,
  GCUDA_ERROR_STUB_LIBRARY = 34,
  GCUDA_ERROR_NO_DEVICE = 100,
  GCUDA_ERROR_INVALID_DEVICE = 101,
  GCUDA_ERROR_INVALID_CONTEXT = 201,
  GCUDA_ERROR_ECC_UNCORRECTABLE = 214,
  GCUDA_ERROR_PEER_ACCESS_UNSUPPORTED = 217,
  GCUDA_ERROR_INVALID_HANDLE = 400,
  GCUDA_ERROR_ILLEGAL_STATE = 401,
  GCUDA_ERROR_NOT_FOUND = 500,
  GCUDA_ERROR_NOT_READY = 600,
  GCUDA_ERROR_ILLEGAL_ADDRESS = 700,
  GCUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704,
  GCUDA_ERROR_PEER_ACCESS_NOT_ENABLED = 705,
  GCUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
  GCUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
  GCUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
  GCUDA_ERROR_LAUNCH_FAILED = 719,
  GCUDA_ERROR_NOT_PERMITTED = 800,
  GCUDA_ERROR_NOT_SUPPORTED = 801,
  GCUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
  GCUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
  GCUDA_ERROR_STREAM_CAPTURE_MERGE = 902,
  GCUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903,
  GCUDA_ERROR_STREAM_CAPTURE_UNJOINED = 904,
  GCUDA_ERROR_STREAM_CAPTURE_ISOLATION = 905,
  GCUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
  GCUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD = 908,
  GCUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE = 910,
  GCUDA_ERROR_UNKNOWN = 999,
  GCUDA_ERROR_DRIVER_NOT_FOUND = 10000,
  GCUDA_ERROR_DRIVER_TOO_OLD = 10001,
  GCUDA_ERROR_INVALID_ARGUMENT = 10002,
  GCUDA_ERROR_CLOSED = 10003,
  GCUDA_ERROR_FORKED = 10004,
  GCUDA_ERROR_CAPTURING = 10005,
  GCUDA_ERROR_NOT_CAPTURING = 10006,
  GCUDA_ERROR_IN_USE = 10007,
  GCUDA_ERROR_WRONG_THREAD = 10008,
  GCUDA_ERROR_TIMING_DISABLED = 10009,
  GCUDA_ERROR_NOT_RECORDED = 10010,
  GCUDA_ERROR_DIFFERENT_DEVICE = 10011,
  GCUDA_ERROR_RESOURCE_FAILED = 10012,
} GCudaError;

GCUDA_AVAILABLE_IN_0_1
GQuark gcuda_error_quark (void);

G_END_DECLS
