/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sharing between processes: the child imports what the parent exports. */

#include "probe.h"

#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

void probe_ipc (void);

static int channel;

static void
give (const void *data, size_t size)
{
  if (write (channel, data, size) != (ssize_t) size)
    _exit (3);
}

static void
take (void *data, size_t size)
{
  if (read (channel, data, size) != (ssize_t) size)
    _exit (4);
}

static void
give_fd (int fd)
{
  char byte = 0, control[CMSG_SPACE (sizeof (int))] = { 0 };
  struct iovec io = { &byte, 1 };
  struct msghdr m = { 0 };
  struct cmsghdr *c;

  m.msg_iov = &io;
  m.msg_iovlen = 1;
  m.msg_control = control;
  m.msg_controllen = sizeof control;
  c = CMSG_FIRSTHDR (&m);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN (sizeof (int));
  memcpy (CMSG_DATA (c), &fd, sizeof fd);
  if (sendmsg (channel, &m, 0) != 1)
    _exit (5);
}

static int
take_fd (void)
{
  char byte, control[CMSG_SPACE (sizeof (int))] = { 0 };
  struct iovec io = { &byte, 1 };
  struct msghdr m = { 0 };
  int fd = -1;

  m.msg_iov = &io;
  m.msg_iovlen = 1;
  m.msg_control = control;
  m.msg_controllen = sizeof control;
  if (recvmsg (channel, &m, MSG_CMSG_CLOEXEC) != 1 || CMSG_FIRSTHDR (&m) == NULL)
    _exit (6);
  memcpy (&fd, CMSG_DATA (CMSG_FIRSTHDR (&m)), sizeof fd);
  return fd;
}

static void
start (void)
{
  if (C (cuInit, 0) != CUDA_SUCCESS)
    _exit (77);
  C (cuDeviceGet, &device, 0);
  C (cuDevicePrimaryCtxRetain, &primary, device);
  C (cuCtxSetCurrent, primary);
}

static int
first_byte (CUdeviceptr p)
{
  unsigned char back[16] = { 0 };

  C (cuMemcpyDtoH, back, p, 16);
  return back[0] == back[15] ? back[0] : -1;
}

static void
importer (void)
{
  CUmemoryPool pool = NULL, again = NULL;
  CUmemPoolPtrExportData data;
  CUipcMemHandle handle;
  CUipcEventHandle event_handle;
  CUmemGenericAllocationHandle chunk;
  CUdeviceptr p = 0, q = 0, va;
  CUmemAccessDesc desc;
  cuuint64_t threshold = 1;
  CUevent event;
  CUstream s;
  int fd;
  char go = 1;
  CUresult r;

  start ();
  C (cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
  fd = take_fd ();
  only (C (cuMemPoolImportFromShareableHandle, &pool, (void *) (intptr_t) fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0), "child: import pool");
  r = C (cuMemPoolImportFromShareableHandle, &again, (void *) (intptr_t) fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  ok (r, "child: import it twice", "same %d", pool == again);
  close (fd);
  take (&data, sizeof data);
  only (C (cuMemPoolImportPointer, &p, pool, &data), "child: import pointer");
  r = C (cuMemPoolImportPointer, &q, pool, &data);
  ok (r, "child: import it twice", "same %d", p == q);
  say ("child: contents %d", first_byte (p));
  C (cuMemsetD8, p, 22, 4096);
  only (C (cuMemAllocFromPoolAsync, &q, 512, pool, s), "child: allocate from an imported pool");
  only (C (cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold), "child: set an attribute of it");
  only (C (cuMemPoolExportToShareableHandle, &fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0), "child: export it");
  only (C (cuMemPoolExportPointer, &data, p), "child: export the pointer");
  only (C (cuMemFreeAsync, p, s), "child: free");
  only (C (cuMemFreeAsync, p, s), "child: free again");
  C (cuStreamSynchronize, s);
  give (&go, 1);

  take (&handle, sizeof handle);
  only (C (cuIpcOpenMemHandle, &p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), "child: open memory handle");
  r = C (cuIpcOpenMemHandle, &q, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  ok (r, "child: open it twice", "same %d", p == q);
  say ("child: contents %d", first_byte (p));
  C (cuMemsetD8, p, 44, 4096);
  C (cuCtxSynchronize, );
  only (C (cuMemFree, p), "child: cuMemFree of it");
  only (C (cuIpcCloseMemHandle, p), "child: close");
  only (C (cuIpcCloseMemHandle, p), "child: close again");
  only (C (cuIpcCloseMemHandle, p), "child: close a third time");
  give (&go, 1);

  fd = take_fd ();
  only (C (cuMemImportFromShareableHandle, &chunk, (void *) (intptr_t) fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), "child: import chunk");
  close (fd);
  C (cuMemAddressReserve, &va, 2 * MIB, 0, 0, 0);
  C (cuMemMap, va, 2 * MIB, 0, chunk, 0);
  memset (&desc, 0, sizeof desc);
  desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  desc.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  only (C (cuMemSetAccess, va, 2 * MIB, &desc, 1), "child: access");
  say ("child: contents %d", first_byte (va));

  take (&event_handle, sizeof event_handle);
  only (C (cuIpcOpenEventHandle, &event, event_handle), "child: open event");
  only (C (cuEventQuery, event), "child: query it, pending there");
  only (C (cuStreamWaitEvent, s, event, 0), "child: a stream waits for it");
  only (C (cuStreamQuery, s), "child: query that stream");
  give (&go, 1);
  only (C (cuStreamSynchronize, s), "child: synchronize it");
  only (C (cuEventSynchronize, event), "child: synchronize the event");
  only (C (cuEventDestroy, event), "child: destroy it");
  give (&go, 1);
}

void
probe_ipc (void)
{
  CUmemPoolProps props;
  CUmemAllocationProp prop;
  CUmemAccessDesc desc;
  CUmemoryPool pool = NULL;
  CUmemPoolPtrExportData data;
  CUmemGenericAllocationHandle chunk;
  CUipcMemHandle handle;
  CUipcEventHandle event_handle;
  CUdeviceptr p, q, va;
  CUevent event;
  CUstream s;
  int pair[2], status = 0, fd = -1;
  pid_t child;
  char go;

  if (socketpair (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
    return;
  child = fork ();
  if (child == 0)
    {
      channel = pair[1];
      close (pair[0]);
      importer ();
      _exit (0);
    }
  channel = pair[0];
  close (pair[1]);
  start ();
  C (cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
  memset (&props, 0, sizeof props);
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  C (cuMemPoolCreate, &pool, &props);
  C (cuMemAllocFromPoolAsync, &p, 4096, pool, s);
  C (cuMemsetD8Async, p, 11, 4096, s);
  C (cuStreamSynchronize, s);
  only (C (cuMemPoolExportPointer, &data, p), "export a pointer before its pool");
  only (C (cuMemPoolExportToShareableHandle, &fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0), "export pool");
  only (C (cuMemPoolExportPointer, &data, p + 16), "export an interior address");
  only (C (cuMemPoolExportPointer, &data, p), "export pointer");
  C (cuMemAlloc, &q, 4096);
  C (cuMemsetD8, q, 33, 4096);
  C (cuCtxSynchronize, );
  only (C (cuIpcGetMemHandle, &handle, p), "memory handle of pool memory");
  only (C (cuIpcGetMemHandle, &handle, q), "memory handle");
  give_fd (fd);
  close (fd);
  give (&data, sizeof data);
  take (&go, 1);
  say ("written by the child %d", first_byte (p));
  only (C (cuMemFreeAsync, p, s), "free after the child freed");

  give (&handle, sizeof handle);
  take (&go, 1);
  say ("written by the child %d", first_byte (q));
  only (C (cuMemFree, q), "free after the child closed");

  memset (&prop, 0, sizeof prop);
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  memset (&desc, 0, sizeof desc);
  desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  desc.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  C (cuMemCreate, &chunk, 2 * MIB, &prop, 0);
  C (cuMemAddressReserve, &va, 2 * MIB, 0, 0, 0);
  C (cuMemMap, va, 2 * MIB, 0, chunk, 0);
  C (cuMemSetAccess, va, 2 * MIB, &desc, 1);
  C (cuMemsetD8, va, 55, 4096);
  C (cuCtxSynchronize, );
  C (cuMemExportToShareableHandle, &fd, chunk, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  give_fd (fd);
  close (fd);

  C (cuEventCreate, &event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
  probe_block (s);
  C (cuEventRecord, event, s);
  C (cuIpcGetEventHandle, &event_handle, event);
  give (&event_handle, sizeof event_handle);
  take (&go, 1);
  probe_open ();
  take (&go, 1);
  waitpid (child, &status, 0);
  if (WIFEXITED (status) && WEXITSTATUS (status) == 77)
    _exit (77);
  say ("child ended %d", WIFEXITED (status) ? WEXITSTATUS (status) : -1);
}
