"""Jitted twins of `varint`. They return position -1 if there is no number: too long, or cut off at
`end`.

They need `forceinline`: LLVM finds them too large to inline, which costs a quarter of a scan's
speed.
"""

from __future__ import annotations

import numpy as np

from winnow.compiled import njit
from winnow.wire.buffers import Bytes
from winnow.wire.kernels.memory import load_byte, store_byte


@njit(cache=True, nogil=True, forceinline=True)
def read_varint(buf: Bytes, pos: int, end: int) -> tuple[int, int]:
    """Return (value, position after it); `end` <= buf.size."""
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
    """Return (value, position after it); `end` <= buf.size."""
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
    """Return the bytes of the shortest form of an int64, 1 to 10."""
    left = np.uint64((value << 1) ^ (value >> 63))
    size = 1
    while left >= np.uint64(0x80):
        left >>= np.uint64(7)
        size += 1
    return size


@njit(cache=True, nogil=True, forceinline=True)
def write_varint(out: Bytes, at: int, value: int) -> int:
    """Write the shortest form of an int64 into `out`, with room for 10 bytes. Return its end."""
    left = np.uint64((value << 1) ^ (value >> 63))
    while left >= np.uint64(0x80):
        store_byte(out, at, np.int64(left & np.uint64(0x7F)) | 0x80)
        left >>= np.uint64(7)
        at += 1
    store_byte(out, at, np.int64(left))
    return at + 1


@njit(cache=True, nogil=True, forceinline=True)
def is_shortest(buf: Bytes, pos: int, after: int, longest: int, top: int) -> bool:
    """Return whether Java would write the number at pos..after in exactly these bytes.

    `longest`: maximum bytes of the type; `top`: largest value of the last of them (5 and 0x0F for
    an int32, 10 and 0x01 for an int64).
    """
    size = after - pos
    if size == 1:
        return True
    last = load_byte(buf, after - 1)
    return bool(last != 0 and (size < longest or last <= top))
