"""Split a segment whose offsets span more than an index entry can hold into consecutive segments
(S6.5).

Brokers before 1.1 left such segments in compacted topics. No index can be built for them. Kafka's
cleaner splits such a segment when it finds one, gives up the round and cleans later. The batches
are not changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from winnow.logdir.batches import HeaderWalk
from winnow.logdir.commit.keeping import keep
from winnow.logdir.commit.staged_segment import StagedSegment
from winnow.logdir.commit.swap import check_replaceable, exchange, mark_deleted
from winnow.logdir.files import files_in, files_of, removable, remove_files
from winnow.logdir.indexes.builder import IndexBuilder
from winnow.logdir.indexes.txnindex import decode_txn_index, encode_txn_index
from winnow.logdir.names import DELETED, LOG, MAX_LONG, TXNINDEX, segment_file
from winnow.state import Segment
from winnow.storage.contract import Storage
from winnow.storage.segment_io import Bytes, map_range
from winnow.wire.batch import CODEC_MASK, MAX_MAGIC, MAX_OFFSET_SPAN
from winnow.wire.inflate import inflate


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedSplit:
    """The replacement of an overflowed segment: synced and verified, not yet in its directory."""

    source: Segment
    """As it was when it was read."""
    parts: Mapping[int, Mapping[str, str]]
    """The staged file per suffix, by base offset, from that of the source on."""
    placeholder: bool
    """The first batch begins above the source's base. Kafka lets the first part begin there. If it
    dies during the swap, its loader finds the source beside the parts. Here an empty segment at the
    source's base covers the source until the swap is done.
    """


def is_overflowed(base_offset: int, next_offset: int) -> bool:
    """Whether the last offset of a segment is too far from its base (`LogSegment.hasOverflow`)."""
    return next_offset - 1 - base_offset > MAX_OFFSET_SPAN


def stage_split(
    storage: Storage,
    directory: str,
    segment: Segment,
    staging: str,
    *,
    index_interval_bytes: int,
    segment_index_bytes: int,
) -> StagedSplit:
    """Write the parts of an overflowed segment into the existing directory `staging`, and read them
    back.

    Each part begins with its first batch's base offset and takes all batches that it can index.
    Entries of the transaction index follow their markers. Kafka loses them here, and then takes
    aborted records for committed ones.

    Raises CorruptLogError for a log that cannot be read, and VerificationError.
    """
    owner = f"{directory}/{segment_file(segment.base_offset, LOG)}"
    mtime_ns = segment.log_mtime_ms * 1_000_000
    path = f"{directory}/{segment_file(segment.base_offset, TXNINDEX)}"
    entries = segment.rebuilt_txnindex
    if entries is None:
        entries = b"" if segment.txnindex_bytes is None else storage.read_bytes(path)
    aborted = decode_txn_index(entries, path, base_offset=segment.base_offset)
    parts: dict[int, StagedSegment] = {}
    with map_range(owner, 0, segment.log_bytes) as data:
        starts = [*_starts(data, segment.base_offset, owner), (MAX_LONG + 1, len(data))]
        for (base, start), (following, end) in pairwise(starts):
            index = IndexBuilder(
                base_offset=base,
                index_interval_bytes=index_interval_bytes,
                max_index_bytes=segment_index_bytes,
            )
            for rows in HeaderWalk(data[start:end], base).whole(owner):
                index.append(rows)
            ends = [entry for entry in aborted if entry.last_offset < following]
            aborted = aborted[len(ends) :]
            txnindex = encode_txn_index(ends) if ends else None
            parts[base] = _stage(storage, staging, base, data[start:end], index, txnindex)
        del data
    base = segment.base_offset
    placeholder = min(parts, default=base) != base
    if placeholder:
        nothing = IndexBuilder(base_offset=base, index_interval_bytes=index_interval_bytes)
        parts[base] = _stage(storage, staging, base, np.empty(0, np.uint8), nothing, None)
    for staged in parts.values():
        staged.take_over_attributes(owner, mtime_ns, txnindex=True)
    paths = {base: staged.paths for base, staged in parts.items()}
    return StagedSplit(source=segment, parts=paths, placeholder=placeholder)


def swap_split(storage: Storage, directory: str, split: StagedSplit) -> None:
    """Replace the source by the parts, by the protocol of `winnow.logdir.commit.swap`. Hold the
    lock.

    Raises CorruptLogError before the first rename wherever `swap_group` would.
    """
    source = split.source.base_offset
    with storage.changing(directory):
        files = check_replaceable(storage, directory, sources=[split.source], outputs=split.parts)
        parts = {
            base: paths[LOG]
            for base, paths in split.parts.items()
            if base != source or not split.placeholder
        }
        keep(storage, directory, files_of(files, [source]), outputs=parts)
        exchange(storage, directory, sources=[source], outputs=split.parts)
        if split.placeholder:
            # It holds no record, so it may go at any instant, with the snapshot at its base.
            removed = removable(files_in(storage, directory), [source])
            mark_deleted(storage, directory, removed)
            remove_files(storage, directory, [f"{name}{DELETED}" for name in removed])


def _starts(data: Bytes, base_offset: int, path: str) -> Iterator[tuple[int, int]]:
    """Yield base offset and first byte of each part. A new one begins with each batch whose last
    offset does not fit into the part before.
    """
    last = -1
    for rows in HeaderWalk(data, base_offset).whole(path):
        done = int(np.searchsorted(rows["last_offset"], last, side="right"))
        while done < len(rows):
            base = _first_offset(data, rows[done : done + 1])
            yield base, int(rows["position"][done])
            # Its own offsets fit: v2 cannot express more, and a wrapper that holds more cannot be
            # inflated.
            last = base + MAX_OFFSET_SPAN
            done = max(done + 1, int(np.searchsorted(rows["last_offset"], last, side="right")))


def _first_offset(data: Bytes, row: np.ndarray[tuple[int], np.dtype[np.void]]) -> int:
    """Return the base offset of one batch. That of a v0 or v1 wrapper is inside (S2.1)."""
    if row["magic"][0] < MAX_MAGIC and row["attributes"][0] & CODEC_MASK:
        row = inflate(data, row).rows
    return int(row["base_offset"][0])


def _stage(
    storage: Storage,
    staging: str,
    base_offset: int,
    log: Bytes,
    index: IndexBuilder,
    txnindex: bytes | None,
) -> StagedSegment:
    """Write the files of one part, and read them back from the disk."""
    with StagedSegment(storage, staging, base_offset) as staged:
        with staged.log() as writer:
            writer.write(log)
        staged.add_indexes(*index.finish(), txnindex)
        staged.compare([log])
    return staged
