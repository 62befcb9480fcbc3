"""Read the beginnings of many small local files of one directory in one call.

A survey reads millions of them. One by one, most of the time would be spent in Python.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numba.core import types
from numpy.typing import NDArray

from winnow.compiled import njit
from winnow.storage.io_counters import count_io
from winnow.storage.segment_io import Bytes

Offsets: TypeAlias = NDArray[np.int64]

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
# Functions of the C library. They return -1 on failure.
_openat: Any = types.ExternalFunction("openat", types.int32(types.int32, types.intp, types.int32))
_read: Any = types.ExternalFunction("read", types.intp(types.int32, types.intp, types.intp))
_close: Any = types.ExternalFunction("close", types.int32(types.int32))


def read_small_files(
    directory: int, names: Sequence[str], most: int, room: Bytes
) -> Offsets | None:
    """Read up to `most` bytes from the start of each file into `room`, one after the other.

    `directory`: a descriptor. Returns where each file begins in `room` and where the last ends,
    int64[n + 1]. Returns None if a file can't be read, or if they need all of `room`. The caller
    then reads them one by one and sees the error.
    """
    bounds = np.zeros(len(names) + 1, np.int64)
    listed = np.frombuffer(os.fsencode("\0".join((*names, ""))), np.uint8)
    if not _read_all(directory, listed, most, room, bounds):
        return None
    count_io(read=int(bounds[-1]), files=len(names))
    return bounds


@njit(cache=True, nogil=True)
def _read_all(directory: int, names: Bytes, most: int, room: Bytes, bounds: Offsets) -> bool:
    """`names`: each ends with a zero byte. The arrays outlive the call."""
    name = at = 0
    for number in range(bounds.size - 1):
        file = _openat(np.int32(directory), names.ctypes.data + name, np.int32(_FLAGS))
        if file < 0:
            return False
        end = min(room.size, at + most)
        count = 1
        while count > 0 and at < end:
            count = _read(file, room.ctypes.data + at, end - at)
            at += max(count, 0)
        _close(file)
        if count < 0 or at == room.size:
            return False
        bounds[number + 1] = at
        while names[name] != 0:
            name += 1
        name += 1
    return True


def warm_up() -> None:
    """Compile the kernel, or load it from numba's cache."""
    read_small_files(0, (), 0, np.empty(1, np.uint8))
