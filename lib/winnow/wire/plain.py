"""Read batches in the slow and obvious way: the reference for kernels, and what reads a few batches
where numba is not loaded (`winnow.small_work`).

Every rule here is one of S2; every length is checked before use.

Numbers are zigzag varints; `wire.kernels.varint` is the fast twin. They have groups of 7 bits,
least significant first; the high bit says that more follow. As in Java, bits of the last allowed
byte that do not fit in 32 or 64 bits are dropped.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from winnow.errors import CorruptLogError
from winnow.java_long import wrapped
from winnow.wire.batch import (
    ATTRIBUTES_AT,
    BATCH,
    BITS_V0,
    BITS_V1,
    CODEC_MASK,
    CRC_AT,
    CRC_V0_AT,
    FRAME,
    FRAME_SIZE,
    FRAME_TO_MAGIC,
    HEADER_V2,
    HEADER_V2_SIZE,
    LAST_OFFSET_DELTA_AT,
    LOG_APPEND_TIME,
    MAGIC_AT,
    MAX_MAGIC,
    MAX_OFFSET,
    MOST_SUMMED,
    NO_PRODUCER,
    NO_TIMESTAMP,
    RECORD_COUNT_AT,
    RECORD_OVERHEAD_V0,
    SIZE_V0,
    SIZE_V1,
    WalkStatus,
)
from winnow.wire.buffers import Buffer, Bytes, Rows
from winnow.wire.crc import crc32_part, crc32c

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_ITEMS = 2_000_000
"""Records and headers of a batch. Each becomes an object of 100 bytes and more."""
MAX_VARINT_SIZE = 5
MAX_VARLONG_SIZE = 10


_LEAST_SIZES = SIZE_V0, SIZE_V1, HEADER_V2_SIZE
_HEADER_V0 = struct.Struct(">qiIbB")
_HEADER_V1 = struct.Struct(">qiIbBq")
_COUNTS = struct.Struct(">i")
_SEARCHED_AT_ONCE = 1 << 16


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


def walk_batches(
    data: Bytes, start: int, least_offset: int, out: Rows
) -> tuple[int, int, WalkStatus]:
    """Do as `winnow.wire.walk.walk_batches`."""
    view, position, least = data.data, start, least_offset
    rows: list[tuple[int, ...]] = []
    status: WalkStatus | None = WalkStatus.TORN if start < 0 else None
    while status is None and len(rows) < len(out):
        status = _header_fault(view, position, least)
        if status is None:
            row = _header(view, position)
            rows.append(row)
            position, least = position + row[1], row[3] + 1
    out[: len(rows)] = np.array(rows, BATCH)
    return len(rows), position, WalkStatus.FULL if status is None else status


def _header_fault(view: memoryview, at: int, least: int) -> WalkStatus | None:  # noqa: PLR0911 - one return per reason
    left = len(view) - at
    if left == 0:
        return WalkStatus.END
    if left <= FRAME_TO_MAGIC:
        return WalkStatus.TORN
    offset, length = FRAME.unpack_from(view, at)
    if length < RECORD_OVERHEAD_V0:
        return WalkStatus.BAD_SIZE
    if FRAME_SIZE + length > left:
        return WalkStatus.TORN
    magic = view[at + MAGIC_AT]
    if magic > MAX_MAGIC:
        return WalkStatus.BAD_MAGIC
    if FRAME_SIZE + length < _LEAST_SIZES[magic]:
        return WalkStatus.BAD_SIZE
    delta = 0
    if magic == MAX_MAGIC:
        (delta,) = _COUNTS.unpack_from(view, at + LAST_OFFSET_DELTA_AT)
        if delta < 0 or _COUNTS.unpack_from(view, at + RECORD_COUNT_AT)[0] < 0:
            return WalkStatus.BAD_COUNT
    if not max(least, 0) <= offset <= MAX_OFFSET - delta:
        return WalkStatus.OUT_OF_ORDER
    return None


def _header(view: memoryview, at: int) -> tuple[int, ...]:
    """Return a sound header as a BATCH row."""
    magic = view[at + MAGIC_AT]
    if magic == MAX_MAGIC:
        (
            base,
            length,
            leader,
            _,
            crc,
            attributes,
            delta,
            first,
            largest,
            producer,
            epoch,
            *rest,
        ) = HEADER_V2.unpack_from(view, at)
        last, (sequence, count) = base + delta, rest
    else:
        first, (leader, sequence, count, epoch), producer = NO_TIMESTAMP, [-1] * 4, NO_PRODUCER
        if magic:
            base, length, crc, _, attributes, first = _HEADER_V1.unpack_from(view, at)
        else:
            base, length, crc, _, attributes = _HEADER_V0.unpack_from(view, at)
        last, largest = base, first
        attributes &= BITS_V1 if magic else BITS_V0
    place = at, FRAME_SIZE + length, base, last
    return (
        *place,
        first,
        largest,
        producer,
        leader,
        sequence,
        count,
        crc,
        attributes,
        epoch,
        magic,
    )


def first_bad_crc(data: Bytes, batches: Rows) -> int:
    """Do as `winnow.wire.walk.first_bad_crc`."""
    columns = (batches[name].tolist() for name in ("position", "size", "magic", "crc"))
    for i, (start, size, magic, crc) in enumerate(zip(*columns, strict=True)):
        least = HEADER_V2_SIZE if magic == MAX_MAGIC else SIZE_V0
        if start < 0 or size < least or start > len(data) - size:
            return i
        if _crc(data, start, size, magic) != crc:
            return i
    return -1


def _crc(data: Bytes, start: int, size: int, magic: int) -> int:
    """Return the checksum of the batch at `start`: CRC-32C from v2 on, CRC-32 before."""
    if magic == MAX_MAGIC:
        return crc32c(data, start + ATTRIBUTES_AT, start + size)
    return crc32_part(data, start + MAGIC_AT, start + size)


def find_batch(data: Bytes, start: int, least_offset: int, end_offset: int) -> int:
    """Do as `winnow.wire.walk.find_batch`. No argument is negative."""
    budget = MOST_SUMMED * len(data)
    end = len(data) - SIZE_V0 + 1
    while start < end:
        stop = min(end, start + _SEARCHED_AT_ONCE)
        for at, size in _possible(data, start, stop, least_offset, end_offset):
            magic = int(data[at + MAGIC_AT])
            crc_at = at + (CRC_AT if magic == MAX_MAGIC else CRC_V0_AT)
            if _crc(data, at, size, magic) == int.from_bytes(data[crc_at : crc_at + 4].tobytes()):
                return at
            budget -= size
            if budget < 0:
                return -1
        start = stop
    return -1


def _possible(
    data: Bytes, start: int, stop: int, least_offset: int, end_offset: int
) -> list[tuple[int, int]]:
    """Return the positions in [start, stop) at which a batch can begin, by its header except for
    the CRC, and the sizes there.
    """
    at = start + np.flatnonzero(data[start + MAGIC_AT : stop + MAGIC_AT] <= MAX_MAGIC)
    offsets = _numbers(data, at, ">i8")
    at = at[(offsets >= least_offset) & (offsets < end_offset)]
    sizes = _numbers(data, at + 8, ">u4").astype(np.int64) + FRAME_SIZE
    modern = data[at + MAGIC_AT] == MAX_MAGIC
    fits = (sizes >= np.where(modern, HEADER_V2_SIZE, SIZE_V0)) & (sizes <= len(data) - at)
    at, sizes, modern = at[fits], sizes[fits], modern[fits]
    wrong = np.zeros(len(at), np.bool_)
    for field in (LAST_OFFSET_DELTA_AT, RECORD_COUNT_AT):
        wrong[modern] |= data[at[modern] + field] > 0x7F  # negative
    return list(zip(at[~wrong].tolist(), sizes[~wrong].tolist(), strict=True))


def _numbers(data: Bytes, at: NDArray[np.int64], kind: str) -> NDArray[Any]:
    """Return the number at each position."""
    found: NDArray[Any] = data[at[:, None] + np.arange(int(kind[-1]))].view(kind)[:, 0]
    return found


class Areas(NamedTuple):
    """One item per batch: see `winnow.wire.kernels.headers.find_areas`."""

    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    codecs: NDArray[np.int64]
    legacy: NDArray[np.bool_]
    compressed: NDArray[np.bool_]
    unread: NDArray[np.bool_]


def find_areas(rows: Rows, skipped: NDArray[np.bool_], raw_size: int) -> Areas | None:
    """Return where the records of the batches are, or None if a batch is not in `raw_size`
    bytes.
    """
    legacy = rows["magic"] < MAX_MAGIC
    begin = rows["position"] + np.where(legacy, SIZE_V0, HEADER_V2_SIZE)
    end = rows["position"] + rows["size"]
    if (rows["position"] < 0).any() or (begin > end).any() or (end > raw_size).any():
        return None
    codecs = (rows["attributes"] & CODEC_MASK).astype(np.int64)
    compressed = (codecs != 0) & ~legacy & ((rows["record_count"] > 0) | (end > begin))
    unread = compressed & skipped
    begin[unread] = end[unread] = 0
    return Areas(begin, end, codecs, legacy, compressed, unread)
