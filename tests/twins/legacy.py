"""The simple, slow twin of `legacy_kernels.convert`, which reads v0 and v1 batches (S2.1)."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.twins.codecs import decompress
from winnow.errors import CorruptLogError
from winnow.wire.batch import (
    CODEC_MASK,
    LOG_APPEND_TIME,
    MAX_OFFSET,
    MAX_OFFSET_SPAN,
    NO_TIMESTAMP,
    Codec,
)
from winnow.wire.buffers import Bytes, as_bytes
from winnow.wire.inflate import MAX_DECOMPRESSED_BYTES
from winnow.wire.plain import Record

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class _Entry:
    """One entry as it is stored; the timestamp of v0 is -1."""

    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def legacy_records(
    raw: Bytes, row: np.void, *, limit: int = MAX_DECOMPRESSED_BYTES
) -> list[Record]:
    """The records of the v0 or v1 batch of `raw` whose BATCH row, normalised or not, is `row`.

    Raises CorruptLogError for all that `inflate` refuses of a single batch.
    """
    start, end = int(row["position"]), int(row["position"] + row["size"])
    entry, after = _entry(raw[start:end], 0)
    if after != end - start:
        raise _wrong("one entry", after)
    codec = entry.attributes & CODEC_MASK
    if codec == Codec.NONE:
        return [Record(entry.offset, entry.timestamp, entry.key, entry.value)]
    if codec >= Codec.ZSTD or entry.value is None:
        raise _wrong("a value compressed with gzip, snappy or lz4", codec)
    return _unwrapped(
        entry, as_bytes(decompress(Codec(codec), entry.value, limit=limit, magic=entry.magic))
    )


def _unwrapped(wrapper: _Entry, data: Bytes) -> list[Record]:
    entries: list[_Entry] = []
    pos = 0
    while pos < len(data):
        entry, pos = _entry(data, pos)
        if entry.attributes & CODEC_MASK:
            raise _wrong("entries that are not compressed", entry.attributes)
        entries.append(entry)
    if not entries:
        raise _wrong("at least one entry", 0)
    absolute_inside = wrapper.magic == 0 or wrapper.offset == 0
    shift = 0 if absolute_inside else wrapper.offset - entries[-1].offset
    if shift < 0 or (wrapper.magic == 0 and wrapper.offset < entries[-1].offset):
        raise _wrong(f"offsets up to {wrapper.offset}", entries[-1].offset)
    log_append = wrapper.magic == 1 and bool(wrapper.attributes & LOG_APPEND_TIME)
    absolute = [replace(entry, offset=entry.offset + shift) for entry in entries]
    offsets = [entry.offset for entry in absolute]
    if any(a >= b for a, b in pairwise(offsets)) or entries[0].offset < 0:
        raise _wrong("offsets that ascend", offsets[0])
    last = max(offsets[-1], wrapper.offset)
    if offsets[-1] > MAX_OFFSET or last - offsets[0] > MAX_OFFSET_SPAN:
        raise _wrong("offsets that lie together", last)
    # A record of v0 has no timestamp, whatever its wrapper says.
    return [
        Record(
            e.offset, wrapper.timestamp if log_append and e.magic else e.timestamp, e.key, e.value
        )
        for e in absolute
    ]


def _entry(data: Bytes, pos: int) -> tuple[_Entry, int]:
    """The entry at `pos`, and the position after it."""
    offset, pos = _integer(data, pos, 8)
    size, pos = _integer(data, pos, 4)
    if not 0 <= size <= len(data) - pos:
        raise _wrong("an entry that lies inside its wrapper", size)
    body, after = data[pos : pos + size], pos + size
    crc, pos = _integer(body, 0, 4)
    if zlib.crc32(body[4:].data) != crc % 2**32:
        raise _wrong("the CRC of the bytes", crc)
    magic, pos = _integer(body, pos, 1)
    attributes, pos = _integer(body, pos, 1)
    if magic not in (0, 1):
        raise _wrong("magic 0 or 1", magic)
    timestamp = NO_TIMESTAMP
    if magic == 1:
        timestamp, pos = _integer(body, pos, 8)
    key, pos = _bytes(body, pos)
    value, pos = _bytes(body, pos)
    if pos != len(body):
        raise _wrong("the end of the entry after its value", len(body) - pos)
    return _Entry(offset, magic, attributes, timestamp, key, value), after


def _integer(data: Bytes, pos: int, size: int) -> tuple[int, int]:
    if len(data) - pos < size:
        raise _wrong(f"{size} bytes", len(data) - pos)
    return int.from_bytes(data[pos : pos + size].tobytes(), "big", signed=True), pos + size


def _bytes(data: Bytes, pos: int) -> tuple[bytes | None, int]:
    size, pos = _integer(data, pos, 4)
    if not -1 <= size <= len(data) - pos:
        raise _wrong("a length of -1 or more inside the entry", size)
    return (None, pos) if size < 0 else (data[pos : pos + size].tobytes(), pos + size)


def _wrong(expected: str, found: int) -> CorruptLogError:
    return CorruptLogError("records can't be read", expected=expected, found=str(found))
