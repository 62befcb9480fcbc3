"""Parse one record of a v2 batch in jitted code (S2.2), for scanning and filtering.

Everything is checked against the end of the record before use, and that against the end of the
batch.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from winnow.compiled import njit
from winnow.wire.batch import SMALLEST_RECORD
from winnow.wire.buffers import Bytes, RecordBlocks
from winnow.wire.kernels.memory import load_byte, load_word
from winnow.wire.kernels.varint import is_shortest, read_varint, read_varlong
from winnow.wire.record_faults import Fault

Parsed: TypeAlias = tuple[int, int, int, int, int, int, int, int, bool]
_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": False}
kernel: Any = njit(**_OPTIONS)
"""Decorator for functions that receive arrays and make none. It disables numba's runtime (NRT), so
references to arrays are not counted. At calls inside a loop, that counting uses locked instructions
that cost more than parsing.
"""
inlined: Any = njit(**_OPTIONS, forceinline=True)

AHEAD = 1024
"""How many bytes ahead of a record the processor is asked to load it. A record's place is known
only when the previous one has been read, too late for memory.
"""


def _prefetch(typingctx: Any, buf: Any, pos: Any) -> Any:
    del typingctx, pos

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        i32, pointer = ir.IntType(32), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, i32, i32, i32])
        fetch = _function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(
            fetch, [builder.bitcast(builder.gep(data, [args[1]]), pointer), i32(0), i32(3), i32(1)]
        )
        return context.get_dummy_value()

    return types.void(buf, types.int64), codegen


_function: Any = cgutils.get_or_insert_function
prefetch: Any = intrinsic(_prefetch)
"""prefetch(buf, pos): a hint that never reads, even if it points beyond the buffer."""

_WORD = 8
_LONGEST_START = 3 + 1 + 3 + 3 + _WORD
"""Bytes that `_parse_usual` may read from a record's start before it checks again."""
_SMALLEST_END = 2
"""Bytes of a null value's length and the header count."""


@inlined
def open_area(blocks: RecordBlocks, i: int) -> tuple[int, Bytes, int, int]:
    """Return (fault, array, begin, end) of the records area of batch `i`. AREA is the fault of one
    that exceeds its array, TOO_MANY of one too small for its record count.
    """
    row, begin, end = blocks.rows[i], blocks.begin[i], blocks.end[i]
    area = blocks.inflated if blocks.compressed[i] else blocks.raw
    fault = Fault.NONE
    if begin < 0 or begin > end or end > area.size:
        fault = Fault.AREA
    elif row.record_count < 0 or row.record_count > (end - begin) // SMALLEST_RECORD:
        fault = Fault.TOO_MANY
    return fault, area, begin, end


@inlined
def same_bytes(a: Bytes, a_at: int, b: Bytes, b_at: int, size: int) -> bool:
    """Return whether `size` bytes are equal. The caller has checked that they exist."""
    k = 0
    while k + _WORD <= size and load_word(a, a_at + k) == load_word(b, b_at + k):
        k += _WORD
    while k < size and load_byte(a, a_at + k) == load_byte(b, b_at + k):
        k += 1
    return k == size


@inlined
def parse_record(buf: Bytes, pos: int, end: int) -> Parsed:
    """Parse the record at `pos` of an area that ends at `end` <= buf.size. Its offset delta is any
    int32: brokers take uncompressed batches of clients as they are.

    Returns (fault, position after it, timestamp delta, offset delta, key position, key length,
    value length, position of the key length, whether all of it is as Java would write it). Lengths
    are -1 for null. The position is `pos` if there is a fault.
    """
    after, timestamp_delta, delta, key, key_size, value_size, tail = _parse_usual(buf, pos, end)
    if after < 0:
        return _parse_any(buf, pos, end)  # type: ignore[no-any-return]
    return Fault.NONE, after, timestamp_delta, delta, key, key_size, value_size, tail, True


@inlined
def _short(word: int) -> tuple[int, int]:
    """Return the number at the start of a little-endian word, still zigzagged, and its bytes.

    -1 if it has more than three bytes or more than it needs.
    """
    if word & 0x80 == 0:
        return word & 0x7F, 1
    if word & 0x8000 == 0:
        return (word & 0x7F) | (word >> 1 & 0x3F80) if word & 0x7F00 != 0 else -1, 2
    if word & 0x800000 == 0 and word & 0x7F0000 != 0:
        return (word & 0x7F) | (word >> 1 & 0x3F80) | (word >> 2 & 0x1FC000), 3
    return -1, 3


@inlined
def _parse_usual(  # noqa: PLR0911 - one return per reason
    buf: Bytes, pos: int, end: int
) -> tuple[int, int, int, int, int, int, int]:
    """Parse like `parse_record`, for a record without headers and large numbers, written as Java
    would.

    Nearly all records are like that, so there is one fast path for them. A returned position of -1
    means that this record is different or possibly faulty: `_parse_any` decides.
    """
    none = -1, 0, 0, 0, 0, 0, 0
    if end - pos < _LONGEST_START:
        return none
    # Up to the key no check of bounds is needed: each number takes at most three bytes, and a word
    # is read at each.
    word = np.int64(load_word(buf, pos))
    size, used = _short(word)
    at = pos + used
    if size < 0 or size & 1 != 0:
        return none
    after = at + (size >> 1)
    if after > end or load_byte(buf, at) != 0:
        return none
    at += 1
    timestamp, used = _short(np.int64(load_word(buf, at)))
    at += used
    offset, used_too = _short(np.int64(load_word(buf, at)))
    tail = at + used_too
    key, used = _short(np.int64(load_word(buf, tail)))
    if timestamp < 0 or offset < 0 or key < 0:
        return none
    at = tail + used
    key_size = (key >> 1) ^ -(key & 1)
    value_at = at + max(key_size, 0)
    if key_size < -1 or value_at > after - _SMALLEST_END or value_at > end - _WORD:
        return none
    value, used = _short(np.int64(load_word(buf, value_at)))
    value_size = (value >> 1) ^ -(value & 1)
    # Only the zero byte for no headers may follow the value.
    if value < 0 or value_size < -1 or value_at + used + max(value_size, 0) != after - 1:
        return none
    if load_byte(buf, after - 1) != 0:
        return none
    return (
        after,
        (timestamp >> 1) ^ -(timestamp & 1),
        (offset >> 1) ^ -(offset & 1),
        at,
        key_size,
        value_size,
        tail,
    )


@inlined
def read_sized(buf: Bytes, pos: int, end: int, least: int) -> tuple[int, int, bool]:
    """Read the length before a key, a value, a record or the like. Return (length, position after
    it, whether Java would write it in these bytes).

    `least`: 0, or -1 where null is allowed. Then any length below 0 is null, as in Java, and -1 is
    returned. The position is -1 if the length is below 0 and must not be, or if so many bytes do
    not fit before `end`.
    """
    size, at = read_varint(buf, pos, end)
    if at < 0 or size > end - at or (size < 0 and least == 0):
        return 0, -1, False
    return max(size, -1), at, size >= -1 and is_shortest(buf, pos, at, 5, 0x0F)


@kernel
def _parse_any(  # noqa: PLR0911 - one return per fault
    buf: Bytes, pos: int, end: int
) -> Parsed:
    """Parse like `parse_record`, for any bytes."""
    size, at, canonical = read_sized(buf, pos, end, 0)
    if at < 0:
        return Fault.LENGTH, pos, 0, 0, 0, 0, 0, 0, False
    after = at + size
    if size == 0:
        return Fault.BODY, pos, 0, 0, 0, 0, 0, 0, False
    canonical &= load_byte(buf, at) == 0  # attributes, unused: Java writes 0
    start = at + 1
    timestamp_delta, at = read_varlong(buf, start, after)
    if at < 0:
        return Fault.TIMESTAMP_DELTA, pos, 0, 0, 0, 0, 0, 0, False
    canonical &= is_shortest(buf, start, at, 10, 0x01)
    offset_delta, tail = read_varint(buf, at, after)
    if tail < 0:
        return Fault.OFFSET_DELTA, pos, 0, 0, 0, 0, 0, 0, False
    canonical &= is_shortest(buf, at, tail, 5, 0x0F)
    key_size, key, shortest = read_sized(buf, tail, after, -1)
    if key < 0:
        return Fault.KEY, pos, 0, 0, 0, 0, 0, 0, False
    canonical &= shortest
    value_size, at, shortest = read_sized(buf, key + max(key_size, 0), after, -1)
    if at < 0:
        return Fault.VALUE, pos, 0, 0, 0, 0, 0, 0, False
    canonical &= shortest
    headers, at, shortest = read_sized(buf, at + max(value_size, 0), after, 0)
    if at < 0:
        return Fault.HEADER_COUNT, pos, 0, 0, 0, 0, 0, 0, False
    canonical &= shortest
    for part in range(2 * headers):
        # The name, which is never null, and then the value.
        length, at, shortest = read_sized(buf, at, after, -(part & 1))
        if at < 0:
            return Fault.HEADER, pos, 0, 0, 0, 0, 0, 0, False
        canonical &= shortest
        at += max(length, 0)
    if at != after:
        return Fault.BODY, pos, 0, 0, 0, 0, 0, 0, False
    return (
        *(Fault.NONE, after, timestamp_delta, offset_delta),
        *(key, key_size, value_size, tail, canonical),
    )
