"""Read files without changing what the page cache holds: a running broker serves from it.

Pages that were not cached before a read are dropped after it. Pages that were cached stay.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import struct
from functools import cache
from typing import Any

from winnow.storage.io_counters import count_io
from winnow.storage.throttle import current_throttle

PIECE_BYTES = 2**20
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
    # Pages that the system reads ahead would count as cached before.
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
    throttle, done = current_throttle(), 0
    while done < len(target):
        length = min(PIECE_BYTES, len(target) - done)
        if throttle is not None:
            throttle.take(length)
        was_cached = cached_pages(descriptor, start + done, length)
        count = os.preadv(descriptor, [target[done : done + length]], start + done)
        if not was_cached:
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
    """Return how many pages of a range are in the page cache, 1 if that is unknown."""
    counts = ctypes.create_string_buffer(_COUNTS.size)
    done = _syscall()(_CACHESTAT, descriptor, _RANGE.pack(start, length), counts, 0)
    if done == 0:
        return int(_COUNTS.unpack(counts)[0])
    return by_mincore(descriptor, start, length) if ctypes.get_errno() == errno.ENOSYS else 1


def by_mincore(descriptor: int, start: int, length: int) -> int:
    """Do as `cached_pages` on systems without cachestat. Touches no page of the map, which the
    other program may cut.
    """
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
