"""Read files that another program serves from the page cache, and leave the cache as it was found.

A piece that was not in the cache before it was read is dropped from it again. What was there stays:
the other program may need it next.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import struct
from contextlib import suppress
from functools import cache
from typing import Any

from winnow.storage.io_counters import count_io
from winnow.storage.throttle import current_throttle

PIECE_BYTES = 2**20
_NICE = 10
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}
"""Numbers of the system call."""
_THIS_THREAD = 1
_IDLE = 3 << 13
"""I/O class: only when nobody else needs the disk."""
_CACHESTAT = 451
"""Number of the system call; the same on every architecture. Linux has it since 6.5."""
_RANGE = struct.Struct("@QQ")
"""`struct cachestat_range`: offset and length."""
_COUNTS = struct.Struct("@QQQQQ")
"""`struct cachestat`; the first field is the number of pages in the cache."""


def read_into(descriptor: int, target: memoryview, start: int) -> int:
    """Read bytes from `start` on until `target` is full or the file ends, at the rate of the
    throttle. Return how many.
    """
    # Without read-ahead: what the system reads ahead would look as if it had been there.
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
    throttle, done = current_throttle(), 0
    while done < len(target):
        length = min(PIECE_BYTES, len(target) - done)
        if throttle is not None:
            throttle.take(length)
        was_there = cached_pages(descriptor, start + done, length)
        count = os.preadv(descriptor, [target[done : done + length]], start + done)
        if not was_there:
            os.posix_fadvise(descriptor, start + done, count, os.POSIX_FADV_DONTNEED)
        if not count:
            break
        done += count
    count_io(read=done, files=1)
    return done


def read_at(descriptor: int, start: int, length: int) -> bytes:
    """Return up to `length` bytes from `start`; fewer only at the end of the file."""
    data = bytearray(length)
    with memoryview(data) as target:
        count = read_into(descriptor, target, start)
    return bytes(data) if count == length else bytes(data[:count])


def cached_pages(descriptor: int, start: int, length: int) -> int:
    """Return how many pages of a range are in the page cache. 1 or more also if that can't be
    found out: then nothing is dropped.
    """
    counts = _COUNTS.pack(0, 0, 0, 0, 0)
    done = _syscall()(_CACHESTAT, descriptor, _RANGE.pack(start, length), counts, 0)
    if done == 0:
        return int(_COUNTS.unpack(counts)[0])
    return by_mincore(descriptor, start, length) if ctypes.get_errno() == errno.ENOSYS else 1


def by_mincore(descriptor: int, start: int, length: int) -> int:
    """The plain twin of cachestat, for systems without it. No page of the map is touched."""
    import numpy as np  # noqa: PLC0415 - commands start without it

    first = start - start % mmap.ALLOCATIONGRANULARITY
    try:
        mapped = mmap.mmap(descriptor, start - first + length, prot=mmap.PROT_READ, offset=first)
    except (OSError, ValueError):  # the file is shorter by now
        return 1
    pages = np.zeros(-(-len(mapped) // mmap.PAGESIZE), np.uint8)
    address = np.frombuffer(mapped, np.uint8).ctypes.data
    if _mincore()(address, len(mapped), pages.ctypes.data) != 0:
        return 1
    return int((pages & 1).sum())


@cache
def _syscall() -> Any:  # noqa: ANN401 - what ctypes makes of a C function has no type
    call = ctypes.CDLL(None, use_errno=True).syscall
    kinds = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint)
    call.argtypes = kinds
    call.restype = ctypes.c_long
    return call


@cache
def _mincore() -> Any:  # noqa: ANN401
    call = ctypes.CDLL(None, use_errno=True).mincore
    call.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    call.restype = ctypes.c_int
    return call


@cache
def yield_to_others() -> None:
    """Give this process, which only has tasks of Winnow, a lower priority for good."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, max(_NICE, os.getpriority(os.PRIO_PROCESS, 0)))
    number = _IOPRIO_SET.get(os.uname().machine)
    if number is not None:
        ctypes.CDLL(None).syscall(number, _THIS_THREAD, 0, _IDLE)
