"""Find the records of some keys in one segment, and rewrite it without them. The result is staged
and verified, not yet part of the log.

Batches without such a record are copied byte for byte. The others become what Kafka's cleaner makes
of a batch that loses records (S5.6, S5.7), except for delete horizons: existing ones are kept, none
is set. If a batch loses all its records, its header is kept if it has a producer id or is the last
batch of the segment. So a replay from any point sees the same state of every producer and
transaction, and the log ends at the same offset.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from winnow.cleaning.rewrite.verify import Meant, verify_staged
from winnow.errors import errors_inside
from winnow.logdir.commit.staged_segment import source_mtime_ns, staged_segment
from winnow.logdir.commit.swap import StagedGroup
from winnow.logdir.indexes.index import IndexBuilder
from winnow.logdir.names import LOG, TXNINDEX, segment_file
from winnow.scan.chunks import batches_of, chunks_of
from winnow.scan.cut import Split
from winnow.state import Segment
from winnow.storage.places import Places
from winnow.storage.segment_io import Bytes, drop_cached, map_range
from winnow.survey.walk import walk_segment
from winnow.verbs.erase.values import Amount
from winnow.wire.batch import CONTROL, NO_PRODUCER
from winnow.wire.buffers import Rows, copied
from winnow.wire.filtering import AS_THEY_ARE, Era, Retention, filter_batches
from winnow.wire.inflate import RecordBlocks, inflate_parts
from winnow.wire.kernels.headers import bits_of
from winnow.wire.key_search import NOT_FOUND, FoundKeys, KeySet, find_keys
from winnow.wire.records import check_crcs

_Bits = np.ndarray[Any, np.dtype[np.bool_]]
_MOST_INDEX_BYTES = 2**31 - 1
"""Limit for an existing index: segment.index.bytes may have been larger when it was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentWork:
    """A segment that holds records of the keys."""

    directory: str
    staging: str
    """Sub-directory of `directory`."""
    segment: Segment
    end_offset: int
    """Base offset of the next segment."""
    index_interval_bytes: int
    max_decompressed_bytes: int
    converts: bool = True
    """See `Era`."""


@dataclass(frozen=True, slots=True)
class RewrittenSegment:
    """A staged segment that was read back from the disk and verified."""

    staged: StagedGroup
    erased: Amount


def rewrite_segment(work: SegmentWork, keys: KeySet) -> RewrittenSegment:
    """Write and verify one segment.

    Raises CorruptLogError, VerificationError, NoSpaceError or OSError, and removes its files first.
    """
    base = work.segment.base_offset
    source = f"{work.directory}/{segment_file(base, LOG)}"
    index = IndexBuilder(
        base_offset=base,
        index_interval_bytes=work.index_interval_bytes,
        max_index_bytes=_MOST_INDEX_BYTES,
    )
    walk = walk_segment(work.directory, base, work.segment.log_bytes)
    erased, headers = Amount(), 0
    with staged_segment(Places(), work.staging, base) as staged:
        mtime_ns = source_mtime_ns(Places(), source)
        with staged.log(mtime_ns=mtime_ns) as log:
            for split in walk.splits:
                is_last = split is walk.splits[-1]
                with map_range(source, split.start, split.end) as buf:
                    for part, found in found_in_split(
                        buf, split, source, keys, max_decompressed_bytes=work.max_decompressed_bytes
                    ):
                        last_offset = walk.next_offset - 1 if is_last else -1
                        data, rows, removed = without(
                            buf, part, found, last_offset=last_offset, converts=work.converts
                        )
                        erased += removed
                        headers += int(rows["record_count"].sum(dtype=np.int64))
                        index.append(rows, log.size)
                        log.write(data)
                        del part, found
                    drop_cached(log.path)
                    del buf
        txn_index = None
        if work.segment.txnindex_bytes:
            txn_index = Places().read_bytes(f"{work.directory}/{segment_file(base, TXNINDEX)}")
        staged.add_indexes(*index.finish(), txn_index)
        staged.take_over_attributes(source, mtime_ns, txnindex=False)
        meant = Meant(
            base_offset=base,
            end_offset=work.end_offset,
            log_bytes=log.size,
            records=headers,
            index_interval_bytes=work.index_interval_bytes,
            segment_index_bytes=_MOST_INDEX_BYTES,
            same_txn_index=txn_index or b"",
        )
        verify_staged(staged.paths, meant)
        new = StagedGroup(base_offset=base, sources=(work.segment,), paths=staged.paths)
        return RewrittenSegment(new, erased)


def without(
    buf: Bytes, part: Part, found: FoundKeys, *, last_offset: int, converts: bool = True
) -> tuple[bytes, Rows, Amount]:
    """Return what is kept of some batches: bytes, rows of dtype BATCH with `position` relative to
    these bytes, and the matches that were removed.

    `last_offset` is that of the batch whose header is always kept; -1 for none. `converts`: see
    `Era`.
    """
    hit = found.number != NOT_FOUND
    batch_of = np.repeat(np.arange(len(part.rows)), part.blocks.rows["record_count"])
    touched = np.zeros(len(part.rows), np.bool_)
    touched[batch_of[hit]] = True
    rest, rest_rows = _rest(part, hit[touched[batch_of]], touched, converts=converts)
    kept = np.ones(len(part.rows), np.bool_)
    needed = (part.rows["producer_id"] != NO_PRODUCER) | (part.rows["last_offset"] == last_offset)
    kept[touched] = (rest_rows["record_count"] != 0) | needed[touched]
    rows = copied(part.rows)
    rows[touched] = rest_rows
    out = rows[kept]
    data = b"".join(_pieces(buf, rest, out, touched[kept]))
    out["position"] = np.cumsum(out["size"]) - out["size"]
    return data, out, Amount(int(hit.sum()), int(found.size[hit].sum(dtype=np.int64)))


def _rest(part: Part, removed: _Bits, touched: _Bits, *, converts: bool) -> tuple[Bytes, Rows]:
    """Build one batch for each batch that loses records; a header alone if no record is left.

    `removed` has one bit for each of their records.
    """
    chosen = part.blocks.some(touched)
    filtered = filter_batches(
        chosen,
        ~removed,
        np.full(len(chosen.rows), Retention.RETAIN_EMPTY, np.int8),
        now=AS_THEY_ARE,
        delete_retention_ms=0,
        era=Era(converts=converts),
    )
    if len(filtered.batches) != len(chosen.rows) or filtered.records_out != len(removed) - int(
        removed.sum()
    ):
        raise ValueError(
            f"rewriting {len(chosen.rows)} batches gave {len(filtered.batches)} batches with "
            f"{filtered.records_out} records"
        )
    return filtered.data, filtered.batches


def _pieces(buf: Bytes, rest: Bytes, rows: Rows, touched: _Bits) -> Iterator[memoryview]:
    """Yield the bytes of `rows`: from `rest` where `touched`, otherwise from `buf`. Positions are
    relative to that buffer.
    """
    source, other = buf.data, rest.data
    starts, ends = rows["position"], rows["position"] + rows["size"]
    if not len(rows):
        return
    breaks = np.flatnonzero((starts[1:] != ends[:-1]) | (touched[1:] != touched[:-1])) + 1
    for first, last in zip([0, *breaks.tolist()], [*breaks.tolist(), len(rows)], strict=True):
        yield (other if touched[first] else source)[int(starts[first]) : int(ends[last - 1])]


@dataclass(frozen=True, slots=True)
class SegmentMatches:
    base_offset: int
    matches: Amount
    keys: bytes
    """uint32[k]: numbers of the keys that were found, without duplicates."""
    legacy: bool
    """True if the segment has batches of v0 or v1."""


def scan_segment(
    directory: str, segment: Segment, keys: KeySet, *, max_decompressed_bytes: int
) -> SegmentMatches:
    """Read a whole segment.

    Raises CorruptLogError for anything in it that can't be read. Checksums are verified.
    """
    walk = walk_segment(directory, segment.base_offset, segment.log_bytes)
    path = f"{directory}/{segment_file(segment.base_offset, LOG)}"
    matches = Amount()
    numbers = np.empty(0, np.uint32)
    for split in walk.splits:
        with map_range(path, split.start, split.end) as buf:
            for _, found in found_in_split(
                buf, split, path, keys, max_decompressed_bytes=max_decompressed_bytes
            ):
                hit = found.number != NOT_FOUND
                matches += Amount(int(hit.sum()), int(found.size[hit].sum(dtype=np.int64)))
                numbers = np.union1d(numbers, found.number[hit].astype(np.uint32))
            del buf
    return SegmentMatches(segment.base_offset, matches, numbers.tobytes(), walk.legacy)


@dataclass(frozen=True, slots=True)
class Part:
    """Adjacent batches of a split, with their records. `rows` are those of the header walk."""

    rows: Rows
    blocks: RecordBlocks


def found_in_split(
    buf: Bytes, split: Split, path: str, keys: KeySet, *, max_decompressed_bytes: int
) -> Iterator[tuple[Part, FoundKeys]]:
    """Yield all batches of a split, part by part, and which of their records have one of the keys.
    Control records never match.

    `buf` holds the bytes of the split. Raises CorruptLogError with the name of the file.
    """
    with errors_inside(path, split.start):
        batches = batches_of(buf, path, split.base_offset)
        for some in chunks_of(batches, split.records, bits=bits_of(batches)):
            rows = batches[some]
            check_crcs(buf, rows)
            done = 0
            for blocks in inflate_parts(buf, rows, limit=max_decompressed_bytes):
                part = Part(rows[done : done + len(blocks.rows)], blocks)
                done += len(blocks.rows)
                found = find_keys(blocks, keys)
                control = (blocks.rows["attributes"] & CONTROL) != 0
                if control.any():
                    found.number[np.repeat(control, blocks.rows["record_count"])] = NOT_FOUND
                yield part, found
