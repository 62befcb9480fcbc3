"""The plain twins of the kernels that read records."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.twins.crc import crc32c_plain
from tests.twins.no_numba import without_numba
from tests.twins.siphash import siphash_plain
from winnow.errors import CorruptLogError
from winnow.wire.batch import ATTRIBUTES_AT, CONTROL, LOG_APPEND_TIME, MAX_MAGIC, NO_TIMESTAMP
from winnow.wire.control_records import ControlColumns, decode_control
from winnow.wire.internal_topics import key_types
from winnow.wire.kernels.pattern_search import Where
from winnow.wire.key_search import NOT_FOUND, KeySet
from winnow.wire.plain import Record, read_records, read_varint
from winnow.wire.record_checks import RecordTally
from winnow.wire.records import RecordColumns, _allocated, crc_error, record_total

if TYPE_CHECKING:
    from winnow.wire.buffers import RecordBlocks

_MASK = (1 << 64) - 1


def records_plain(blocks: RecordBlocks) -> list[Record]:
    """The plain twin of all three: returns the records themselves."""
    return [
        record for i, row in enumerate(blocks.rows) for record in read_records(blocks.area(i), row)
    ]


def scan_records_plain(
    blocks: RecordBlocks, secret: tuple[int, int], *, check_crc: bool = False
) -> RecordColumns:
    """The plain twin of `scan_records`."""
    columns = _allocated(record_total(blocks))
    n = 0
    for i, row in enumerate(blocks.rows):
        start, end = int(row["position"]), int(row["position"] + row["size"])
        if (
            check_crc
            and row["magic"] == MAX_MAGIC
            and crc32c_plain(blocks.raw[start + ATTRIBUTES_AT : end]) != row["crc"]
        ):
            raise crc_error(row)
        try:
            records = read_records(blocks.area(i), row)
        except CorruptLogError as error:
            where = f"batch at byte {row['position']}"
            raise error.at(where) from error
        for record in records:
            columns.hash[n] = (0, 0) if record.key is None else siphash_plain(record.key, secret)
            least, most = int(row["base_offset"]), int(row["last_offset"])
            columns.offset[n], columns.batch[n] = min(max(record.offset, least), most), i
            columns.null_key[n], columns.null_value[n] = record.key is None, record.value is None
            n += 1
    return columns


def decode_control_plain(blocks: RecordBlocks) -> ControlColumns:
    """Call `decode_control` without its kernel."""
    with without_numba():
        return decode_control(blocks)


def digests_plain(
    record: Record, secret: tuple[int, int]
) -> tuple[tuple[int, int], tuple[int, int]]:
    """The plain twin, for one record."""

    def hashed(text: bytes | None, first: int, second: int) -> tuple[int, int]:
        size = -1 if text is None else len(text)
        return siphash_plain(text or b"", (first, second ^ (size & _MASK)))

    content = hashed(record.value, secret[0] ^ (record.timestamp & _MASK), secret[1])
    for name, value in record.headers:
        content = hashed(value, *hashed(name, *content))
    return siphash_plain(record.key or b"", secret), content


def find_keys_plain(blocks: RecordBlocks, keys: KeySet) -> list[int]:
    """The plain twin of `find_keys`: numbers only."""
    places = zip(keys.starts.tolist(), keys.sizes.tolist(), strict=True)
    number_of = {
        keys.data[at : at + size].tobytes(): number for number, (at, size) in enumerate(places)
    }
    return [
        NOT_FOUND if record.key is None else number_of.get(record.key, NOT_FOUND)
        for i, row in enumerate(blocks.rows)
        for record in read_records(blocks.area(i), row)
    ]


def find_patterns_plain(blocks: RecordBlocks, patterns: Sequence[bytes]) -> list[int]:
    """The plain twin of `find_patterns`."""

    def holds(*texts: bytes | None) -> bool:
        return any(pattern in (text or b"") for pattern in patterns for text in texts)

    return [
        Where.KEY * holds(record.key)
        | Where.VALUE * holds(record.value)
        | Where.HEADERS * holds(*(part for header in record.headers for part in header))
        for record in records_plain(blocks)
    ]


def name_in_key(topic: str, key: bytes | None) -> bytes | None:
    """Return the first field of a key of one of INTERNAL_TOPICS as stored: the group or
    transactional id.

    None for an unknown type, and if the key is too short. The rest of the key is not checked.
    """
    if key is None or len(key) < 4 or int.from_bytes(key[:2], signed=True) not in key_types(topic):
        return None
    size = int.from_bytes(key[2:4], signed=True)
    return key[4 : 4 + size] if 0 <= size <= len(key) - 4 else None


def count_names_plain(blocks: RecordBlocks, topic: str) -> dict[bytes, tuple[int, int]]:
    """The plain twin of `count_names`: records and bytes of every name."""
    found: dict[bytes, tuple[int, int]] = {}
    for i, row in enumerate(blocks.rows):
        if row["attributes"] & CONTROL:
            continue
        area = blocks.area(i)
        try:
            records = read_records(area, row)
        except CorruptLogError as error:
            where = f"batch at byte {row['position']}"
            raise error.at(where) from error
        pos = 0
        for name, run in groupby(records, lambda record: name_in_key(topic, record.key)):
            begun, count = pos, 0
            for _ in run:
                size, start = read_varint(area, pos)
                pos, count = start + size, count + 1
            if name is not None:
                so_far = found.get(name, (0, 0))
                found[name] = (
                    so_far[0] + count,
                    so_far[1] + int(row["size"]) * (pos - begun) // len(area),
                )
    return found


def first_fault_plain(blocks: RecordBlocks, i: int) -> str | None:
    """The plain twin of `check_records`, for batch `i`: returns the fault in words, not as the
    kernel's number.
    """
    row: Any = blocks.rows[i]
    try:
        records = read_records(blocks.area(i), row)
    except CorruptLogError as error:
        return error.what
    if row["magic"] < MAX_MAGIC or row["attributes"] & LOG_APPEND_TIME or not records:
        return None
    largest = max(NO_TIMESTAMP, *(record.timestamp for record in records))
    return (
        None
        if largest == row["max_timestamp"]
        else f"largest timestamp {largest}, not {row['max_timestamp']}"
    )


def tally_records_plain(blocks: RecordBlocks) -> RecordTally:
    """The plain twin of `tally_records`."""
    tally = RecordTally(*(np.zeros((len(blocks.rows), 2), np.int64) for _ in range(2)))
    for i, row in enumerate(blocks.rows):
        area, pos = blocks.area(i), 0
        for record in read_records(area, row):
            size, start = read_varint(area, pos)
            bytes_of_record, pos = start + size - pos, start + size
            if int(row["attributes"]) & CONTROL:
                continue
            if record.key is None:
                tally.keyless[i] += (1, bytes_of_record)
            elif record.value is None:
                tally.tombstones[i] += (1, bytes_of_record)
    return tally
