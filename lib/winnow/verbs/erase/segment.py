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
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from winnow.cleaning.rewrite.verify import Meant, verify_staged
from winnow.errors import errors_inside
from winnow.logdir.batches import Piece, read_batches
from winnow.logdir.commit.staged_segment import StagedSegment, source_mtime_ns
from winnow.logdir.commit.swap import StagedGroup
from winnow.logdir.indexes.builder import IndexBuilder
from winnow.logdir.names import LOG, TXNINDEX, segment_file
from winnow.policy.config import TopicConfig
from winnow.state import Segment
from winnow.storage.places import Places
from winnow.storage.segment_io import Bytes
from winnow.verbs.erase.patterns import count_matches
from winnow.verbs.erase.values import Amount, PatternMatches
from winnow.wire.batch import CONTROL, MAX_MAGIC, has_producer
from winnow.wire.buffers import RecordBlocks, Rows, copied
from winnow.wire.choice import Era, Retention
from winnow.wire.filtering import AS_THEY_ARE, filter_batches
from winnow.wire.inflate import inflate_parts
from winnow.wire.kernels.pattern_search import find_patterns
from winnow.wire.key_search import NOT_FOUND, KeySet, find_keys
from winnow.wire.records import check_crcs

_Bits = np.ndarray[Any, np.dtype[np.bool_]]
_Sizes = np.ndarray[Any, np.dtype[np.int32]]
_MOST_INDEX_BYTES = 2**31 - 1
"""Limit for an existing index: segment.index.bytes may have been larger when it was made."""


class Sought(NamedTuple):
    """What a scan looks for."""

    keys: KeySet
    patterns: np.ndarray[Any, np.dtype[np.uint16]] | None = None
    """Of `automaton`. None: no patterns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentWork:
    """A segment to search, and to rewrite if it holds records of the keys."""

    directory: str
    staging: str
    """Sub-directory of `directory`."""
    segment: Segment
    end_offset: int
    """Base offset of the next segment, or the end of the log."""
    config: TopicConfig
    reached: bool = True
    """False: it is only searched."""
    most_bytes: int = 0
    """Disk space that the rewritten segment may need."""

    @property
    def log(self) -> str:
        return f"{self.directory}/{segment_file(self.segment.base_offset, LOG)}"


@dataclass(frozen=True, slots=True)
class SegmentMatches:
    matches: Amount
    keys: bytes
    """uint32[k]: numbers of the keys that were found, without duplicates."""
    legacy: bool
    """True if the segment has batches of v0 or v1."""
    patterns: PatternMatches
    """Of the records without one of the keys."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Adjacent batches of a piece, with their records. `rows` are those of the header walk."""

    piece: Piece
    rows: Rows
    blocks: RecordBlocks
    number: np.ndarray[Any, np.dtype[np.int32]]
    """Number of each record's key."""
    hit: _Bits
    """Which of the records have one of the keys."""
    others: _Bits
    """Which of the records have none of the keys, and are no control records."""
    sizes: _Sizes
    """Bytes of each record."""
    matches: Amount


def scan_segment(work: SegmentWork, sought: Sought) -> SegmentMatches:
    """Read a whole segment.

    Raises CorruptLogError for anything in it that can't be read. Checksums are verified.
    """
    matches, numbers, legacy = Amount(), np.empty(0, np.uint32), False
    patterns = PatternMatches()
    for part in _parts(work, sought.keys):
        matches += part.matches
        numbers = np.union1d(numbers, part.number[part.hit].astype(np.uint32))
        legacy |= bool((part.rows["magic"] < MAX_MAGIC).any())
        if sought.patterns is not None:
            where = find_patterns(part.blocks, sought.patterns)
            patterns += count_matches(where, part.others, part.sizes)
    return SegmentMatches(matches, numbers.tobytes(), legacy, patterns)


def rewrite_segment(work: SegmentWork, keys: KeySet) -> tuple[StagedGroup, Amount]:
    """Write one segment, read it back from the disk and verify it. Return it, and what was erased.

    Raises CorruptLogError, VerificationError, NoSpaceError or OSError, and removes its files first.
    """
    base, interval = work.segment.base_offset, work.config.index_interval_bytes
    index = IndexBuilder(
        base_offset=base, index_interval_bytes=interval, max_index_bytes=_MOST_INDEX_BYTES
    )
    erased, headers = Amount(), 0
    with StagedSegment(Places(), work.staging, base) as staged:
        mtime_ns = source_mtime_ns(Places(), work.log)
        with staged.log(mtime_ns=mtime_ns) as log:
            for part in _parts(work, keys):
                data, rows = _without(part, work)
                erased += part.matches
                headers += int(rows["record_count"].sum(dtype=np.int64))
                index.append(rows, log.size)
                log.write(data)
                del part
        txn_index = None
        if work.segment.txnindex_bytes:
            txn_index = Places().read_bytes(f"{work.directory}/{segment_file(base, TXNINDEX)}")
        staged.add_indexes(*index.finish(), txn_index)
        staged.take_over_attributes(work.log, mtime_ns, txnindex=False)
        meant = Meant(
            base_offset=base,
            end_offset=work.end_offset,
            log_bytes=log.size,
            records=headers,
            index_interval_bytes=interval,
            segment_index_bytes=_MOST_INDEX_BYTES,
            same_txn_index=txn_index or b"",
        )
        verify_staged(staged.paths, meant)
        new = StagedGroup(sources=(work.segment,), paths=staged.paths)
        return new, erased


def _parts(work: SegmentWork, keys: KeySet) -> Iterator[_Part]:
    """Yield all batches of a segment, part by part. Control records never match."""
    size, base = work.segment.log_bytes, work.segment.base_offset
    for piece in read_batches(Places(), work.log, size=size, least_offset=base):
        rows, limit = piece.rows, work.config.max_decompressed_message_bytes
        with errors_inside(work.log, piece.start):
            check_crcs(piece.data, rows)
            for blocks in inflate_parts(piece.data, rows, limit=limit):
                found = find_keys(blocks, keys)
                control = np.repeat(
                    (blocks.rows["attributes"] & CONTROL) != 0, blocks.rows["record_count"]
                )
                hit = (found.number != NOT_FOUND) & ~control
                others = ~(hit | control)
                matches = Amount(int(hit.sum()), int(found.size[hit].sum(dtype=np.int64)))
                part = rows[: len(blocks.rows)]
                which = found.number, hit, others, found.size
                yield _Part(piece, part, blocks, *which, matches)
                rows = rows[len(blocks.rows) :]
                del blocks, found, which, control, hit, others  # before the next part exists


def _without(part: _Part, work: SegmentWork) -> tuple[bytes, Rows]:
    """Return what is kept of some batches: bytes, and rows of dtype BATCH with `position` relative
    to these bytes.
    """
    batch_of = np.repeat(np.arange(len(part.rows)), part.blocks.rows["record_count"])
    touched = np.zeros(len(part.rows), np.bool_)
    touched[batch_of[part.hit]] = True
    left = ~part.hit[touched[batch_of]]
    rest = filter_batches(
        part.blocks.some(touched),
        left,
        np.full(int(touched.sum()), Retention.RETAIN_EMPTY, np.int8),
        now=AS_THEY_ARE,
        delete_retention_ms=0,
        era=Era(converts=work.config.rules.converts_old_formats),
    )
    if (len(rest.batches), rest.records_out) != (touched.sum(), left.sum()):
        raise ValueError(
            f"rewriting {touched.sum()} batches gave {len(rest.batches)} batches with "
            f"{rest.records_out} records"
        )
    rows = copied(part.rows)
    ends = part.piece.start + rows["position"] + rows["size"]
    needed = has_producer(rows) | (ends == work.segment.log_bytes)
    rows[touched] = rest.batches
    kept = ~touched | (rows["record_count"] != 0) | needed
    out = rows[kept]
    data = b"".join(_pieces(part.piece.data, rest.data, out, touched[kept]))
    out["position"] = np.cumsum(out["size"]) - out["size"]
    return data, out


def _pieces(buf: Bytes, rest: Bytes, rows: Rows, touched: _Bits) -> Iterator[memoryview]:
    """Yield the bytes of `rows`: from `rest` where `touched`, otherwise from `buf`. Positions are
    relative to that buffer.
    """
    starts, ends = rows["position"], rows["position"] + rows["size"]
    breaks = np.flatnonzero((starts[1:] != ends[:-1]) | (touched[1:] != touched[:-1])) + 1
    for first, after in pairwise([0, *breaks.tolist(), len(rows)] if len(rows) else []):
        source = rest if touched[first] else buf
        yield source.data[int(starts[first]) : int(ends[after - 1])]
