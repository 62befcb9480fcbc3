"""Read batches in the slow and obvious way: the reference for kernels.

Every rule here is one of S2.2; every length is checked before use.

Numbers are zigzag varints; `wire.kernels.varint` is the fast twin. They have groups of 7 bits,
least significant first; the high bit says that more follow. As in Java, bits of the last allowed
byte that do not fit in 32 or 64 bits are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from winnow.errors import CorruptLogError
from winnow.java_long import wrapped
from winnow.wire.batch import LOG_APPEND_TIME, MAX_MAGIC
from winnow.wire.buffers import Buffer, Bytes

MOST_ITEMS = 2_000_000
"""Records and headers of a batch. Each becomes an object of 100 bytes and more."""
MAX_VARINT_SIZE = 5
MAX_VARLONG_SIZE = 10


@dataclass(frozen=True, slots=True)
class Record:
    """One record with absolute offset and timestamp (ms). None is null."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


def read_records(area: Bytes, row: np.void) -> list[Record]:
    """Return the records of `area`, the decompressed records of the batch with header `row`, both
    from `inflate`.

    Raises CorruptLogError unless they are exactly those that the header promises.
    """
    return list(each_record(area, row))


def each_record(area: Bytes, row: np.void, *, headers: bool = True) -> Iterator[Record]:
    """Yield what `read_records` returns: one record is in memory at a time. Raises its errors after
    the records before them. `headers`: False refuses records with headers.
    """
    pos = 0
    room = MOST_ITEMS if headers else 0
    for number in range(int(row["record_count"])):
        if headers and room <= 0:
            raise _wrong(f"at most {MOST_ITEMS} records and headers", number + 1)
        size, start = read_varint(area, pos)
        if not 1 <= size <= len(area) - start:
            raise _wrong("a record length that lies inside the batch", size)
        record = _read_record(area[start : start + size], row, room)
        yield record
        pos, room = start + size, room - 1 - len(record.headers)
    if pos != len(area):
        raise _wrong("the end after the last record", len(area) - pos)


def _read_record(body: Bytes, row: np.void, room: int) -> Record:
    timestamp_delta, pos = read_varlong(body, 1)
    offset_delta, pos = read_varint(body, pos)
    key, pos = _read_bytes(body, pos)
    value, pos = _read_bytes(body, pos)
    count, pos = read_varint(body, pos)
    if not 0 <= count <= len(body) - pos:
        raise _wrong("a header count that the record has room for", count)
    if count and count > room:
        expected = f"at most {MOST_ITEMS} records and headers" if room > 0 else "no headers"
        raise _wrong(expected, count)
    found = []
    for _ in range(count):
        name, pos = _read_bytes(body, pos)
        if name is None:
            raise _wrong("a header key", -1)
        content, pos = _read_bytes(body, pos)
        found.append((name, content))
    if pos != len(body):
        raise _wrong("the end of the record after its headers", len(body) - pos)
    timestamp = int(row["max_timestamp"])
    if not int(row["attributes"]) & LOG_APPEND_TIME or row["magic"] < MAX_MAGIC:
        timestamp = wrapped(int(row["base_timestamp"]) + timestamp_delta)
    return Record(int(row["base_offset"]) + offset_delta, timestamp, key, value, tuple(found))


def _read_bytes(body: Bytes, pos: int) -> tuple[bytes | None, int]:
    size, pos = read_varint(body, pos)
    if size > len(body) - pos:
        raise _wrong("a length that lies inside the record", size)
    return (None, pos) if size < 0 else (body[pos : pos + size].tobytes(), pos + size)


def _wrong(expected: str, found: int) -> CorruptLogError:
    return CorruptLogError("records can't be read", expected=expected, found=str(found))


def read_varint(buf: Buffer, pos: int, end: int | None = None) -> tuple[int, int]:
    """Return the value and its end. Raises CorruptLogError beyond 5 bytes or `end`."""
    return _read_number(buf, pos, len(buf) if end is None else end, MAX_VARINT_SIZE, 32)


def read_varlong(buf: Buffer, pos: int, end: int | None = None) -> tuple[int, int]:
    """Return the value and its end. Raises CorruptLogError beyond 10 bytes or `end`."""
    return _read_number(buf, pos, len(buf) if end is None else end, MAX_VARLONG_SIZE, 64)


def _read_number(buf: Buffer, pos: int, end: int, longest: int, bits: int) -> tuple[int, int]:
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
