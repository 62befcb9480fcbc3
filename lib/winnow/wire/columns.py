"""Read the records of many batches as columns: offsets, timestamps, and the places of their bytes.

There are two steps, so that nothing is copied needlessly. `record_places` parses. `gathered` copies
the keys (values, headers' names, ...) of the chosen records into what Arrow calls a binary array.
"""

from __future__ import annotations

from enum import Flag, auto
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from winnow.errors import CorruptLogError
from winnow.wire.batch import LOG_APPEND_TIME, MAX_MAGIC
from winnow.wire.buffers import Bytes, RecordBlocks
from winnow.wire.kernels.memory import copy_bytes
from winnow.wire.kernels.record import AHEAD, kernel, open_area, parse_record, prefetch, read_sized
from winnow.wire.kernels.varint import read_varint
from winnow.wire.record_faults import Fault, check_fault
from winnow.wire.records import record_total

MOST_BYTES = 2**31 - 1
"""Maximum that the int32 offsets of a binary array can count."""


class Part(Flag):
    """Parts of records to locate besides their offsets and timestamps."""

    NONE = 0
    KEY = auto()
    VALUE = auto()
    HEADERS = auto()
    ALL = KEY | VALUE | HEADERS


class ByteStrings(NamedTuple):
    """Byte strings inside the areas of batches, one item each."""

    batch: NDArray[np.int32]
    """Row of the batch."""
    at: NDArray[np.int64]
    """Position in `inflated` or `raw` (see `RecordBlocks`)."""
    size: NDArray[np.int32]
    """Bytes; -1 for null."""

    def take(self, chosen: NDArray[np.int64]) -> ByteStrings:
        return ByteStrings(self.batch[chosen], self.at[chosen], self.size[chosen])


class RecordPlaces(NamedTuple):
    """One item per record, in file order over all batches. Parts not requested are empty."""

    batch: NDArray[np.int32]
    """Row of the batch."""
    offset: NDArray[np.int64]
    timestamp: NDArray[np.int64]
    """ms; that of the batch if the broker set it."""
    key: ByteStrings
    value: ByteStrings
    headers: ByteStrings
    """`size` is a number of headers, not of bytes."""

    def take(self, chosen: NDArray[np.int64]) -> RecordPlaces:
        batch, offset, timestamp, *parts = self
        return RecordPlaces(
            batch[chosen],
            offset[chosen],
            timestamp[chosen],
            *(part.take(chosen) if len(part.size) else part for part in parts),
        )


def record_places(blocks: RecordBlocks, parts: Part = Part.ALL) -> RecordPlaces:
    """Parse all records. `parts`: what to locate.

    Raises CorruptLogError, naming the batch's position, for any record that violates S2.2.
    """
    n = record_total(blocks)
    batch, offset, timestamp = np.empty(n, np.int32), np.empty(n, np.int64), np.empty(n, np.int64)
    each = (Part.KEY, Part.VALUE, Part.HEADERS)
    located = (_room(batch if part in parts else batch[:0]) for part in each)
    places = RecordPlaces(batch, offset, timestamp, *located)
    check_fault(_locate(blocks, places), blocks.rows, blocks.begin)
    return places


def _room(batch: NDArray[np.int32]) -> ByteStrings:
    return ByteStrings(batch, np.empty(len(batch), np.int64), np.empty(len(batch), np.int32))


@kernel
def _locate(blocks: RecordBlocks, places: RecordPlaces) -> tuple[int, int, int]:
    """Fill one item per record; positions count in the area's array. Return (fault, row of its
    batch, position).

    The arrays of keys, values and headers may be empty: then those parts are not stored. Everything
    is checked anyway.
    """
    n = 0
    keys, values = places.key.at.size > 0, places.value.at.size > 0
    headers = places.headers.at.size > 0
    for i in range(blocks.rows.size):
        row = blocks.rows[i]
        appended = row.attributes & LOG_APPEND_TIME != 0 and row.magic == MAX_MAGIC
        fault, area, pos, stop = open_area(blocks, i)
        if fault != 0:
            return fault, i, pos
        if n + row.record_count > places.offset.size:
            return Fault.CHANGED, i, pos
        for _ in range(row.record_count):
            prefetch(area, pos + AHEAD)
            fault, after, timestamp_delta, delta, key, key_size, value_size, _, _ = parse_record(
                area, pos, stop
            )
            if fault != 0:
                return fault, i, pos
            places.batch[n] = i
            places.offset[n] = row.base_offset + delta
            places.timestamp[n] = (
                row.max_timestamp if appended else row.base_timestamp + timestamp_delta
            )
            if keys:
                places.key.at[n] = key
                places.key.size[n] = key_size
            if values or headers:
                # parse_record has read both numbers, so they exist.
                _, value = read_varint(area, key + max(key_size, 0), after)
                if values:
                    places.value.at[n] = value
                    places.value.size[n] = value_size
                if headers:
                    count, first = read_varint(area, value + max(value_size, 0), after)
                    places.headers.at[n] = first
                    places.headers.size[n] = count
            n += 1
            pos = after
        if pos != stop:
            return Fault.LEFT_OVER, i, pos
    return 0, 0, 0


def header_places(blocks: RecordBlocks, headers: ByteStrings) -> tuple[ByteStrings, ByteStrings]:
    """Return all headers' keys and values, record by record. `headers`: `RecordPlaces.headers`."""
    batch = np.empty(int(headers.size.sum()), np.int32)
    key, value = _room(batch), _room(batch)
    if not _locate_headers(blocks, headers, key, value):
        raise ValueError("these headers are not those of these batches")
    return key, value


@kernel
def _locate_headers(
    blocks: RecordBlocks, headers: ByteStrings, key: ByteStrings, value: ByteStrings
) -> bool:
    """Fill one item per header. Return whether they are in their areas."""
    n = 0
    for i in range(headers.batch.size):
        area = blocks.inflated if blocks.compressed[headers.batch[i]] else blocks.raw
        at = headers.at[i]
        if headers.size[i] < 0 or n + headers.size[i] > key.batch.size:
            return False
        for _ in range(headers.size[i]):
            size, at, _ = read_sized(area, at, area.size, 0)
            if at < 0:
                return False
            key.batch[n], key.at[n], key.size[n] = headers.batch[i], at, size
            size, at, _ = read_sized(area, at + size, area.size, -1)
            if at < 0:
                return False
            value.batch[n], value.at[n], value.size[n] = headers.batch[i], at, size
            at += max(size, 0)
            n += 1
    return True


def gathered(blocks: RecordBlocks, places: ByteStrings) -> tuple[NDArray[np.int32], Bytes]:
    """Return (ends, bytes): item i is bytes[ends[i] : ends[i + 1]], empty if it is null. Copies
    each byte once.

    Raises TooManyBytesError if there are more than `MOST_BYTES`.
    """
    total = int(np.maximum(places.size, 0).sum(dtype=np.int64))
    if total > MOST_BYTES:
        raise TooManyBytesError(
            "too many bytes for one array",
            expected=f"at most {MOST_BYTES}",
            found=str(total),
            where="several batches",
        )
    ends, out = np.zeros(len(places.size) + 1, np.int32), np.empty(total, np.uint8)
    if not _gather(blocks, places, ends, out):
        raise ValueError("these places are not in these batches")
    return ends, out


@kernel
def _gather(
    blocks: RecordBlocks, places: ByteStrings, ends: NDArray[np.int32], out: NDArray[np.uint8]
) -> bool:
    """Join all items. `ends` (n + 1): where each begins and ends. Return whether they are in their
    areas.
    """
    end = 0
    for i in range(places.batch.size):
        size = int(places.size[i])
        if size > 0:
            area = blocks.inflated if blocks.compressed[places.batch[i]] else blocks.raw
            at = places.at[i]
            if at < 0 or at > area.size - size or end > out.size - size:
                return False
            copy_bytes(out, end, area, at, size)
            end += size
        ends[i + 1] = end
    return end == out.size


class TooManyBytesError(CorruptLogError):
    """More bytes than an Arrow array holds: retry with fewer batches; one alone is corrupt."""
