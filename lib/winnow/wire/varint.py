"""Zigzag varints of records (S2.2), slow and obvious; `wire.kernels.varint` is the fast twin.

They have groups of 7 bits, least significant first; the high bit says that more follow. As in Java,
bits of the last allowed byte that do not fit in 32 or 64 bits are dropped.
"""

from __future__ import annotations

from winnow.errors import CorruptLogError
from winnow.wire.buffers import Buffer

MAX_VARINT_SIZE = 5
MAX_VARLONG_SIZE = 10


def read_varint(buf: Buffer, pos: int, end: int | None = None) -> tuple[int, int]:
    """Return the value and the position after it. Raises CorruptLogError beyond 5 bytes or
    `end`.
    """
    return _read(buf, pos, len(buf) if end is None else end, MAX_VARINT_SIZE, 32)


def read_varlong(buf: Buffer, pos: int, end: int | None = None) -> tuple[int, int]:
    """Return the value and the position after it. Raises CorruptLogError beyond 10 bytes or
    `end`.
    """
    return _read(buf, pos, len(buf) if end is None else end, MAX_VARLONG_SIZE, 64)


def size_of_varint(value: int) -> int:
    """Return the bytes that Java writes for `value`: 1 to 5; for a long, 1 to 10."""
    return max(1, -(-_zigzag(value).bit_length() // 7))


def write_varint(out: bytearray, value: int) -> None:
    """Append `value`, an int32 or int64, in the shortest form, as Java does."""
    left = _zigzag(value)
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def _read(buf: Buffer, pos: int, end: int, longest: int, bits: int) -> tuple[int, int]:
    value = 0
    for i in range(longest):
        if pos + i >= end:
            raise CorruptLogError(
                "number cut off",
                expected=f"a varint that ends before byte {end}",
                found="the end of the data",
                where=f"at byte {pos}",
            )
        byte = int(buf[pos + i])
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            value &= (1 << bits) - 1
            return (value >> 1) ^ -(value & 1), pos + i + 1
    raise CorruptLogError(
        "number too long",
        expected=f"a varint of at most {longest} bytes",
        found="more",
        where=f"at byte {pos}",
    )
