"""Parsing one record of a v2 batch in jitted code (S2.2): what scanning and filtering share.

Everything is checked against the end of the record, and that against the end of the batch, before it is used.
"""

from __future__ import annotations

from typing import TypeAlias

from numba import njit

from winnow.wire.buffers import Bytes
from winnow.wire.memory import load_byte
from winnow.wire.record_faults import Fault
from winnow.wire.varint_kernels import is_shortest, read_varint, read_varlong

Parsed: TypeAlias = tuple[int, int, int, int, int, int, int, int, bool]
SMALLEST_RECORD = 7
"""Bytes of a record without key, value and headers: length, attributes and five numbers."""

_NONE, _LENGTH = int(Fault.NONE), int(Fault.LENGTH)
_TIMESTAMP_DELTA, _OFFSET_DELTA = int(Fault.TIMESTAMP_DELTA), int(Fault.OFFSET_DELTA)
_KEY, _VALUE, _BODY = int(Fault.KEY), int(Fault.VALUE), int(Fault.BODY)
_HEADER_COUNT, _HEADER = int(Fault.HEADER_COUNT), int(Fault.HEADER)
_AREA, _TOO_MANY = int(Fault.AREA), int(Fault.TOO_MANY)


@njit(cache=True, nogil=True, forceinline=True)
def check_area(area: Bytes, begin: int, end: int, count: int) -> int:
    """Fault of a records area as a whole: not inside its array, or too small for `count` records."""
    if begin < 0 or begin > end or end > area.size:
        return _AREA
    if count < 0 or count > (end - begin) // SMALLEST_RECORD:
        return _TOO_MANY
    return _NONE


@njit(cache=True, nogil=True, forceinline=True)
def parse_record(buf: Bytes, pos: int, end: int) -> Parsed:  # noqa: PLR0911 - one return per fault
    """The record at `pos` of an area that ends at `end` <= buf.size.

    (fault, position after it, timestamp delta, offset delta, key position, key length, value length, position of the
    key length, whether all of it is as Java would write it). Lengths are -1 for null.
    """
    size, at = read_varint(buf, pos, end)
    if at < 0 or size < 0 or size > end - at:
        return _LENGTH, pos, 0, 0, 0, 0, 0, 0, False
    after = at + size
    if size == 0:
        return _BODY, pos, 0, 0, 0, 0, 0, 0, False
    attributes = load_byte(buf, at)  # unused, Java writes 0
    canonical = is_shortest(buf, pos, at, 5, 0x0F) and attributes == 0
    start = at + 1
    timestamp_delta, at = read_varlong(buf, start, after)
    if at < 0:
        return _TIMESTAMP_DELTA, pos, 0, 0, 0, 0, 0, 0, False
    canonical = canonical and is_shortest(buf, start, at, 10, 0x01)
    start = at
    offset_delta, at = read_varint(buf, start, after)
    if at < 0:
        return _OFFSET_DELTA, pos, 0, 0, 0, 0, 0, 0, False
    canonical = canonical and is_shortest(buf, start, at, 5, 0x0F)
    tail = at
    key_size, at = read_varint(buf, tail, after)
    if at < 0 or key_size < -1 or key_size > after - at:
        return _KEY, pos, 0, 0, 0, 0, 0, 0, False
    canonical = canonical and is_shortest(buf, tail, at, 5, 0x0F)
    key = at
    start = at + max(key_size, 0)
    value_size, at = read_varint(buf, start, after)
    if at < 0 or value_size < -1 or value_size > after - at:
        return _VALUE, pos, 0, 0, 0, 0, 0, 0, False
    canonical = canonical and is_shortest(buf, start, at, 5, 0x0F)
    start = at + max(value_size, 0)
    headers, at = read_varint(buf, start, after)
    if at < 0 or headers < 0 or headers > after - at:
        return _HEADER_COUNT, pos, 0, 0, 0, 0, 0, 0, False
    canonical = canonical and is_shortest(buf, start, at, 5, 0x0F)
    for _ in range(headers):
        start = at
        length, at = read_varint(buf, start, after)
        if at < 0 or length < 0 or length > after - at:
            return _HEADER, pos, 0, 0, 0, 0, 0, 0, False
        canonical = canonical and is_shortest(buf, start, at, 5, 0x0F)
        start = at + length
        length, at = read_varint(buf, start, after)
        if at < 0 or length < -1 or length > after - at:
            return _HEADER, pos, 0, 0, 0, 0, 0, 0, False
        canonical = canonical and is_shortest(buf, start, at, 5, 0x0F)
        at += max(length, 0)
    if at != after:
        return _BODY, pos, 0, 0, 0, 0, 0, 0, False
    return _NONE, after, timestamp_delta, offset_delta, key, key_size, value_size, tail, canonical
