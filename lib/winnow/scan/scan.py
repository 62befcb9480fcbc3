"""Scan: parse a split and send, by bucket of keys, a hash and a record number; never a value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from winnow.errors import CorruptLogError, errors_inside
from winnow.logdir.names import LOG, segment_file
from winnow.policy.transactions import ABORTED, aborted_batches
from winnow.runtime.spool import Blob, stored
from winnow.scan.chunks import batches_of, chunks_of
from winnow.scan.cut import SPLIT_BYTES
from winnow.scan.job import PartitionJob
from winnow.scan.topic_usage import HoldingsCounter
from winnow.storage.segment_io import Bytes, map_range
from winnow.wire.batch import CODEC_MASK, CONTROL, LEGACY, TRANSACTIONAL, bits_of
from winnow.wire.buffers import Array, Rows
from winnow.wire.inflate import closed, has_large_records, inflate_parts
from winnow.wire.records import RecordColumns, check_crcs, scan_in_cache, scan_records

MOST_RECORDS = 2**26
"""Maximal records of one split, at 25 bytes of memory each."""


@dataclass(frozen=True, slots=True)
class KeyBlob:
    """Keys of one split that belong to one bucket, packed: 20 bytes a key.

    `hashes` uint64[n, 2] and `numbers` uint32[n], in the order of `last_offsets.packed_by_bucket`.
    `dirty`: contains only the last record of each key in the split, and takes part in finding the
    last record (S4). Otherwise it contains every record, which only asks whether the dirty range
    has its key.
    """

    split: int
    dirty: bool
    hashes: Blob
    numbers: Blob


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysWanted:
    """What a scan needs to know about its partition."""

    first_dirty_offset: int
    buckets: int
    secret: tuple[int, int]
    max_decompressed_bytes: int
    aborted: Array = field(default_factory=lambda: np.empty(0, ABORTED), repr=False, compare=False)
    """Dtype ABORTED. Ignored if no batch is transactional."""


def scan_split(
    job: PartitionJob, number: int, secret: tuple[int, int], spool: str | None = None
) -> Iterator[tuple[int, KeyBlob]]:
    """Yield (bucket, blob) for one split. `spool`: see `winnow.runtime.spool`.

    Raises CorruptLogError for a wrong CRC or a malformed record.
    """
    split = job.splits[number]
    wanted = KeysWanted(
        first_dirty_offset=job.first_dirty_offset,
        buckets=job.buckets,
        secret=secret,
        max_decompressed_bytes=job.max_decompressed_bytes,
        aborted=job.aborted,
    )
    path = f"{job.directory}/{segment_file(split.base_offset, LOG)}"
    with map_range(path, split.start, split.end) as buf, errors_inside(path, split.start):
        batches = batches_of(buf, path, split.base_offset)
        for packed in packed_keys(buf, batches, split.records, wanted):
            yield from _blobs(number, packed, spool)


@dataclass(frozen=True, slots=True)
class PackedKeys:
    """Keys of one split by bucket: see `last_offsets.packed_by_bucket` and `KeyBlob`."""

    dirty: bool
    hashes: np.ndarray[tuple[int, int], np.dtype[np.uint64]]
    numbers: np.ndarray[tuple[int], np.dtype[np.uint32]]
    starts: np.ndarray[tuple[int], np.dtype[np.int64]]
    """Start of each bucket, and the end of the last."""
    tombstones: np.ndarray[tuple[int], np.dtype[np.uint64]] = field(
        default_factory=lambda: np.empty(0, np.uint64)
    )
    """Upper halves of the hashes of dirty keys whose last record in the split is a tombstone."""


def packed_keys(
    buf: Bytes,
    batches: Rows,
    records: int,
    wanted: KeysWanted,
    *,
    holders: HoldingsCounter | None = None,
) -> Iterator[PackedKeys]:
    """Pack the keys of one split. `batches`: all of its rows, in `buf`; `records`: their number as
    far as headers say.

    `holders`: receives all records, if given.

    Raises CorruptLogError, which counts bytes from the start of the split.
    """
    from winnow.scan.last_offsets import packed_by_bucket  # noqa: PLC0415 - with numba

    parts: list[tuple[Array, Array, Array, Array]] = []
    found = 0
    bits = bits_of(batches)
    for some in chunks_of(batches, records, bits=bits):
        for rows, columns in _columns(buf, batches[some], wanted, bits, holders):
            has_key = ~columns.null_key
            if bits & (CONTROL | TRANSACTIONAL):
                control = (rows["attributes"] & CONTROL) != 0
                # Control records and aborted records don't decide which value is the last (S4).
                void = control | aborted_batches(rows, wanted.aborted)
                if void.any():
                    has_key &= ~void[columns.batch]
            parts.append((columns.hash, columns.offset, has_key, columns.null_value))
            found += len(columns.offset)
            if found > MOST_RECORDS:
                raise CorruptLogError(
                    "a part of a segment has more records than Winnow can hold",
                    expected=f"at most {MOST_RECORDS} in {SPLIT_BYTES} bytes, or in one batch",
                    found="more",
                    hint="Only data made for this expands so far. If these records are real, "
                    "tell Winnow's developers.",
                )
    if not parts:
        return
    hash_, offset, has_key, empty = map(_whole, zip(*parts, strict=True))
    dirty = offset >= wanted.first_dirty_offset
    if dirty.any():
        last = _last(hash_, offset, has_key & dirty)
        hashes, numbers, starts = packed_by_bucket(hash_, last, wanted.buckets)
        yield PackedKeys(True, hashes, numbers, starts, hash_[last & empty, 1])
    clean = has_key & ~dirty
    if clean.any():
        yield PackedKeys(False, *packed_by_bucket(hash_, clean, wanted.buckets))


def _columns(
    buf: Bytes, rows: Rows, wanted: KeysWanted, bits: int, holders: HoldingsCounter | None
) -> Iterator[tuple[Rows, RecordColumns]]:
    """Yield the columns of these batches, part by part, and the rows of their batches."""
    secret, limit = wanted.secret, wanted.max_decompressed_bytes
    compressed = bool(bits & CODEC_MASK)
    if compressed and not bits & LEGACY and holders is None:
        # Small records are hashed together, across batches.
        while has_large_records(rows):
            leading = scan_in_cache(closed(buf, rows), secret, limit=limit)
            if leading is None:
                break
            columns, count = leading
            yield rows[:count], columns
            rows = rows[count:]
    # Compressed batches must be sound before they are decompressed. Others are checked while they
    # are parsed.
    if compressed:
        check_crcs(buf, rows)
    for blocks in inflate_parts(buf, rows, limit=limit):
        columns = scan_records(blocks, secret, check_crc=not compressed)
        if holders is not None:
            holders.add_blocks(blocks, columns.hash)
        yield blocks.rows, columns


def _last(hash_: Array, offset: Array, candidate: Array) -> Array:
    """Return True for the last record of each key."""
    from winnow.scan.last_offsets import last_per_key  # noqa: PLC0415 - with numba

    if (offset[1:] >= offset[:-1]).all():
        found: Array = last_per_key(hash_, candidate)
        return found
    # A strange client's batch: its records are not in the order of their offsets (S5.5).
    order = np.argsort(offset, kind="stable")
    last = np.empty(len(order), np.bool_)
    last[order] = last_per_key(hash_[order], candidate[order])
    return last


def _whole(parts: tuple[Array, ...]) -> Array:
    return np.concatenate(parts) if len(parts) > 1 else parts[0]


def _blobs(split: int, keys: PackedKeys, spool: str | None) -> Iterator[tuple[int, KeyBlob]]:
    bounds = keys.starts.tolist()
    parts = stored(spool, keys.hashes, bounds), stored(spool, keys.numbers, bounds)
    for bucket, (hashes, numbers) in enumerate(zip(*parts, strict=True)):
        if len(hashes):
            yield bucket, KeyBlob(split, keys.dirty, hashes, numbers)
