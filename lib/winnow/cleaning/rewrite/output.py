"""Produce a group's output: its surviving bytes in order, and their counts (S5.3-S5.7)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from winnow.cleaning.result import RecordsRemoved
from winnow.cleaning.rewrite.only_source import OnlySource
from winnow.cleaning.summaries.shape import Shape
from winnow.cleaning.tally import by_age, none_of_any_age, removed_records
from winnow.logdir.indexes.index import Array, IndexBuilder
from winnow.logdir.indexes.txnindex import AbortedTransaction, encode_txn_index
from winnow.logdir.names import LOG, segment_file
from winnow.policy.survival import batch_retention
from winnow.policy.transactions import Carried, judge
from winnow.runtime.cores import Cores, in_order
from winnow.runtime.spool import joined
from winnow.scan.chunks import PLAIN_CHUNK_BYTES, batches_of, changed, chunks_of
from winnow.scan.cut import Split, batches_checksum
from winnow.scan.job import GroupJob, PartitionJob
from winnow.scan.resolve import Survivors
from winnow.scan.topic_usage import Holdings
from winnow.scan.values import SegmentSummary
from winnow.storage.segment_io import Bytes, map_range
from winnow.survey.gather import control_columns
from winnow.wire.batch import CODEC_MASK, CONTROL, DELETE_HORIZON, TRANSACTIONAL
from winnow.wire.filtering import Era, Filtered, filter_batches
from winnow.wire.inflate import inflate_parts
from winnow.wire.kernels.headers import LEGACY, bits_of

_SMALL_BATCH_BYTES = 1024
"""Where batches are smaller on average, reading headers takes longer than copying records."""
_Bits: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.bool_]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Split:
    """What is known of a split before its records are read. Arrays have an item per batch."""

    buf: Bytes
    batches: np.ndarray[Any, Any]
    bits: int
    """See `bits_of`."""
    kept: _Bits
    """Indexed by record number."""
    discard: _Bits
    horizon_cause: _Bits
    keep_deletes: bool
    """Without delete horizons, the age of the segment decides (S5.1)."""


@dataclass(frozen=True, slots=True)
class _Part:
    """The result for some batches."""

    filtered: Filtered
    removed: RecordsRemoved

    def nbytes(self) -> int:
        return self.filtered.data.nbytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedGroup:
    """A group that became one segment, or would."""

    base_offset: int
    source_bases: tuple[int, ...]
    unchanged: bool
    """The only source is the same, byte for byte, and stays (`OnlySource`)."""
    records_before: int
    records_after: int
    bytes_after: int
    removed: RecordsRemoved
    tombstones: tuple[int, ...]
    """See `PartitionResult.tombstones`."""
    checksum: int
    """See `batches_checksum`; `source_checksums`: of the sources, by base offset."""
    source_checksums: Mapping[int, int]
    holdings: Holdings | None
    """See `holdings_of`."""
    summary: SegmentSummary | None = None
    """What later runs may know of it, if it is summed up."""
    unread: bool = False
    """It is known to be `unchanged` without reading it."""


class GroupOutput:
    """Reads the splits of a group once, in order, and counts what it returns."""

    def __init__(
        self,
        job: PartitionJob,
        group: GroupJob,
        survivors: Iterable[Survivors],
        *,
        now: int,
        cores: Cores | None = None,
    ) -> None:
        """`cores`: may work on the next chunks of a split while the caller uses one."""
        self._job = job
        self._now = now
        self._cores = cores
        self._keep = _by_number(survivors)
        self._producers_last = sorted(
            offset for offset, _ in job.last_records.values() if offset is not None
        )
        self._log_mtime_ms = {
            segment.base_offset: segment.log_mtime_ms for segment in group.segments
        }
        self._fates = BatchFates(
            job.aborted, group.carried, now=now, delete_horizons=job.delete_horizons
        )
        self._index = IndexBuilder(
            base_offset=group.base_offset,
            index_interval_bytes=job.index_interval_bytes,
            max_index_bytes=job.segment_index_bytes,
        )
        self._tombstones = none_of_any_age()
        self.shape = Shape()
        self.source = OnlySource(job.directory, group.segments)
        self.log_bytes = 0
        self.records_before = 0
        self.records_after = 0
        self.header_records = 0
        """Records as the headers of the output count them: -1 in each batch of v0 and v1."""
        self.removed = RecordsRemoved()
        self.checksum = 0
        self.source_checksums = dict.fromkeys(
            (segment.base_offset for segment in group.segments), 0
        )

    def of_split(self, number: int) -> Iterator[Bytes]:
        """Yield the next bytes of the output. The caller must drop each item before it asks for the
        next: they are large.

        Raises CorruptLogError for a source that is damaged or changed, and for an index that can't
        be written.
        """
        split = self._job.splits[number]
        if number not in self._keep and self._keeps_nothing(split):
            self.removed += RecordsRemoved(superseded=split.records)
            self.records_before += split.records
            self.source_checksums[split.base_offset] = split.checksum
            return
        source = f"{self._job.directory}/{segment_file(split.base_offset, LOG)}"
        with map_range(source, split.start, split.end) as buf:
            batches = batches_of(buf, source, split.base_offset)
            keep_deletes = (
                self._log_mtime_ms[split.base_offset] > self._job.legacy_delete_horizon_ms
            )
            bits = bits_of(batches)
            self._fates.judge(buf, batches, source, bits=bits, keep_markers=keep_deletes)
            before = self.source_checksums[split.base_offset]
            self.source_checksums[split.base_offset] = batches_checksum(batches, before)
            if self.source_checksums[split.base_offset] != split.checksum:
                raise changed(
                    expected="the batches that were there before", found="others", where=source
                )
            whole = _Split(
                buf=buf,
                batches=batches,
                bits=bits,
                kept=self._keep.pop(number, np.empty(0, np.bool_)),
                discard=self._fates.discard,
                horizon_cause=self._fates.horizon_cause,
                keep_deletes=keep_deletes,
            )
            chunks = chunks_of(batches, split.records, bits=bits, plain=PLAIN_CHUNK_BYTES)
            # Larger batches that are not compressed are limited by memory and disk, not by cores.
            small = len(batches) * _SMALL_BATCH_BYTES > split.end - split.start
            cores = self._cores if bits & CODEC_MASK or small else None
            for part in in_order(self._jobs(whole, chunks), cores, _Part.nbytes):
                self._count(part)
                data = part.filtered.data
                self.source.add(data, buf, split.start)
                del part
                yield data
                del data
            del whole, batches, buf

    def _keeps_nothing(self, split: Split) -> bool:
        """Return whether a split without surviving keys need not be read again.

        Its batches might be retained as headers alone (S5.4): the last batch of the round, or
        batches from which a broker learns a producer's last sequence.
        """
        first = bisect_left(self._producers_last, split.least_offset)
        needed = (
            first < len(self._producers_last) and self._producers_last[first] < split.next_offset
        )
        end = self._job.emptied_end
        return split.plain and not needed and (end is None or split.next_offset < end)

    def _jobs(self, split: _Split, chunks: Iterable[slice]) -> Iterator[Iterator[_Part]]:
        """Yield one job per chunk of a split."""
        if split.bits & LEGACY:
            # Only the records themselves say how many precede those of the next chunk.
            yield self._parts(split, chunks)
            return
        counts = np.concatenate([[0], np.cumsum(split.batches["record_count"], dtype=np.int64)])
        for some in chunks:
            yield self._parts(split, [some], int(counts[some.start]))

    def _parts(self, split: _Split, chunks: Iterable[slice], done: int = 0) -> Iterator[_Part]:
        """Yield the results for the batches of some chunks. `done`: the number, in the split, of
        their first record.
        """
        for some in chunks:
            first = some.start
            unread = _unread(split, done, some)
            limit = self._job.max_decompressed_bytes
            for blocks in inflate_parts(split.buf, split.batches[some], limit=limit, unread=unread):
                part = slice(first, first + len(blocks.rows))
                first = part.stop
                discard = split.discard[part]
                survives = _of_chunk(split, done, blocks.rows, discard)
                done += len(survives)
                filtered = filter_batches(
                    blocks,
                    survives,
                    batch_retention(
                        split.batches[part],
                        last_records=self._job.last_records,
                        emptied_end=self._job.emptied_end,
                        discard=discard,
                    ),
                    now=self._now,
                    delete_retention_ms=self._job.delete_retention_ms,
                    horizon_cause=split.horizon_cause[part],
                    era=Era(
                        horizons=self._job.delete_horizons,
                        converts=self._job.converts,
                        keep_deletes=split.keep_deletes,
                    ),
                )
                removed = removed_records(
                    blocks.rows,
                    survives,
                    discard,
                    records_in=filtered.records_in,
                    records_out=filtered.records_out,
                )
                del blocks
                result = _Part(filtered, removed)
                del filtered
                yield result
                del result

    def indexes(self) -> tuple[bytes, bytes, bytes | None]:
        """Return `.index`, `.timeindex` and, with entries, `.txnindex`, after all splits."""
        indexed = self._fates.indexed
        return *self._index.finish(), encode_txn_index(indexed) if indexed else None

    def counts(self, holdings: Holdings | None, *, unchanged: bool) -> dict[str, Any]:
        """Return the fields of `CleanedGroup`. Call this after all splits."""
        return {
            "base_offset": min(self.source_checksums),
            "source_bases": tuple(self.source_checksums),
            "unchanged": unchanged,
            "records_before": self.records_before,
            "records_after": self.records_after,
            "bytes_after": self.log_bytes,
            "removed": self.removed,
            "tombstones": tuple(self._tombstones.tolist()),
            "checksum": self.checksum,
            "source_checksums": self.source_checksums,
            "holdings": holdings,
        }

    def _count(self, part: _Part) -> None:
        filtered = part.filtered
        self.removed += part.removed
        rows = filtered.batches
        self._index.append(rows, self.log_bytes)
        self.log_bytes += filtered.data.nbytes
        self.records_before += filtered.records_in
        self.records_after += filtered.records_out
        bits = bits_of(rows)
        self.header_records += (
            int(rows["record_count"].sum()) if bits & LEGACY else filtered.records_out
        )
        self.checksum = batches_checksum(rows, self.checksum)
        self.shape.add(rows, bits, tombstones=bool(filtered.tombstones.any()))
        self._tombstones += by_age(filtered.batches, filtered.tombstones, self._now)


def _by_number(survivors: Iterable[Survivors]) -> dict[int, _Bits]:
    """Return which records of each split survive, by record number, up to the last survivor."""
    parts: dict[int, list[np.ndarray[Any, np.dtype[np.uint32]]]] = {}
    for some in survivors:
        parts.setdefault(some.split, []).append(joined([some.numbers], np.uint32))
    keep = {}
    for split, numbers in parts.items():
        keep[split] = np.zeros(1 + max(int(part.max(initial=0)) for part in numbers), np.bool_)
        for part in numbers:
            keep[split][part] = True
    return keep


def _unread(split: _Split, done: int, some: slice) -> _Bits | None:
    """Mark batches whose records are all dropped: compressed ones need not be opened.

    None if there are none, or if a header of v0 or v1 does not say how many records there are.
    """
    if split.bits & LEGACY or not split.bits & CODEC_MASK:
        return None
    rows = split.batches[some]
    counts = rows["record_count"].astype(np.int64)
    filled = counts > 0
    starts = (np.cumsum(counts) - counts)[filled]
    unread = np.zeros(len(rows), np.bool_)
    if len(starts):
        survives = _of_chunk(split, done, rows, split.discard[some])
        unread[filled] = ~np.logical_or.reduceat(survives, starts)
    return unread


def _of_chunk(
    split: _Split, done: int, rows: np.ndarray[Any, np.dtype[np.void]], discard: _Bits
) -> _Bits:
    """Return a bool per record of these batches: whether it survives. `done`: the number, in the
    split, of their first record.

    Control records have no key to compare. They survive unless their whole batch is dropped
    (`discard`; S5.5).
    """
    survives = np.zeros(int(rows["record_count"].sum(dtype=np.int64)), np.bool_)
    known = split.kept[done : done + len(survives)]
    survives[: len(known)] = known
    if split.bits & CONTROL:
        control = (rows["attributes"] & CONTROL) != 0
        survives |= np.repeat(control & ~discard, rows["record_count"])
    return survives


class BatchFates:
    """Processes a group's batches in order, split by split, and tracks the open transactions."""

    def __init__(
        self, aborted: Array, carried: Carried, *, now: int, delete_horizons: bool = True
    ) -> None:
        self._aborted = aborted
        self._carried = carried
        self._now = now
        self._delete_horizons = delete_horizons
        self.discard: _Bits = np.empty(0, np.bool_)
        """Per batch of the last judged split: all its records are dropped."""
        self.horizon_cause: _Bits = np.empty(0, np.bool_)
        """Per batch of that split: a marker without remaining data, which gets a delete horizon."""
        self.indexed: list[AbortedTransaction] = []
        """The entries for the transaction index of the group's output, so far."""

    def judge(
        self, buf: Bytes, batches: Array, path: str, *, bits: int, keep_markers: bool = True
    ) -> None:
        """Judge all `batches` (dtype BATCH) of one split. `buf` holds their bytes, and `bits` is
        what `bits_of` returns for them. `keep_markers`: for Kafka without delete horizons, whether
        the segment is young enough. Raises CorruptLogError.
        """
        if not bits & (TRANSACTIONAL | CONTROL):
            self.discard = self.horizon_cause = np.zeros(len(batches), np.bool_)
            return
        types = control_columns(buf, batches, path).type
        judged = judge(batches, types, aborted=self._aborted, before=self._carried)
        control = (batches["attributes"] & CONTROL) != 0
        if self._delete_horizons:
            expired = ((batches["attributes"] & DELETE_HORIZON) != 0) & (
                batches["base_timestamp"] <= self._now
            )
            self.horizon_cause = judged.discardable & control
        else:
            expired = np.full(len(batches), not keep_markers)
            self.horizon_cause = np.zeros(len(batches), np.bool_)
        self.discard = judged.discardable & (~control | expired)
        self._carried = judged.after
        self.indexed += self._entries(judged.indexed, path)

    def _entries(self, markers: Array, path: str) -> list[AbortedTransaction]:
        chosen = self._aborted[np.isin(self._aborted["last_offset"], markers)]
        if len(chosen) != len(markers):
            expected = f"{len(markers)} entries of its ABORT markers in the transaction index"
            raise changed(expected=expected, found=f"{len(chosen)}", where=path)
        return [
            AbortedTransaction(*entry) for entry in np.sort(chosen, order="last_offset").tolist()
        ]
