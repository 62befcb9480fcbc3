"""Jitted twins of `varint`. A position of -1 says that there was no number: too long, or cut off at
`end`.

`forceinline`: LLVM finds them too large for that by itself, which costs a quarter of the speed of a
scan.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from winnow.wire.buffers import Bytes
from winnow.wire.kernels.memory import load_byte, store_byte


@njit(cache=True, nogil=True, forceinline=True)
def read_varint(buf: Bytes, pos: int, end: int) -> tuple[int, int]:
    """(value, position after it); `end` <= buf.size."""
    if pos >= end:
        return 0, -1
    byte = load_byte(buf, pos)
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), pos + 1
    value = byte & 0x7F
    for i in range(1, 5):
        if pos + i >= end:
            return 0, -1
        byte = load_byte(buf, pos + i)
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            value &= 0xFFFFFFFF
            return (value >> 1) ^ -(value & 1), pos + i + 1
    return 0, -1


@njit(cache=True, nogil=True, forceinline=True)
def read_varlong(buf: Bytes, pos: int, end: int) -> tuple[int, int]:
    """(value, position after it); `end` <= buf.size."""
    if pos >= end:
        return 0, -1
    byte = load_byte(buf, pos)
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), pos + 1
    value = byte & 0x7F
    for i in range(1, 10):
        if pos + i >= end:
            return 0, -1
        byte = load_byte(buf, pos + i)
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return ((value >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(value & 1), pos + i + 1
    return 0, -1


@njit(cache=True, nogil=True, forceinline=True)
def size_of_varint(value: int) -> int:
    """Bytes of the shortest form of an int64, 1 to 10."""
    left = np.uint64((value << 1) ^ (value >> 63))
    size = 1
    while left >= np.uint64(0x80):
        left >>= np.uint64(7)
        size += 1
    return size


@njit(cache=True, nogil=True, forceinline=True)
def write_varint(out: Bytes, at: int, value: int) -> int:
    """Position after the shortest form of an int64; `out` has room for 10 bytes."""
    left = np.uint64((value << 1) ^ (value >> 63))
    while left >= np.uint64(0x80):
        store_byte(out, at, np.int64(left & np.uint64(0x7F)) | 0x80)
        left >>= np.uint64(7)
        at += 1
    store_byte(out, at, np.int64(left))
    return at + 1


@njit(cache=True, nogil=True, forceinline=True)
def is_shortest(buf: Bytes, pos: int, after: int, longest: int, top: int) -> bool:
    """Whether Java would write the number at pos..after in just these bytes.

    `longest` and `top`: how many bytes the type may take, and the largest value of the last of so
    many (5 and 0x0F for an int32, 10 and 0x01 for an int64).
    """
    size = after - pos
    if size == 1:
        return True
    last = load_byte(buf, after - 1)
    return bool(last != 0 and (size < longest or last <= top))
