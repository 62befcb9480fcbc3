"""Produce a group's output: its surviving bytes in order, and their counts (S5.3-S5.7)."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from winnow.cleaning.result import TOMBSTONE_AGES, RecordsRemoved
from winnow.cleaning.rewrite.cleaned import CleanedGroup, by_age
from winnow.cleaning.rewrite.fates import BatchFates, Bits
from winnow.cleaning.summaries.store import MOST_KEYS, write_keys
from winnow.clock import ms_since
from winnow.logdir.commit.swap import StagedGroup
from winnow.logdir.indexes.index import IndexBuilder
from winnow.logdir.indexes.txnindex import encode_txn_index
from winnow.logdir.names import INDEX_SUFFIXES, LOG, segment_file
from winnow.policy.survival import batch_retention
from winnow.runtime.cores import Cores, in_order
from winnow.runtime.spool import joined
from winnow.scan.chunks import PLAIN_CHUNK_BYTES, batches_of, changed, chunks_of
from winnow.scan.cut import Split, batches_checksum
from winnow.scan.job import GroupJob, PartitionJob
from winnow.scan.resolve import Survivors
from winnow.scan.topic_usage import HoldingsCounter
from winnow.scan.values import SegmentSummary
from winnow.state import Segment
from winnow.storage.places import Places
from winnow.storage.segment_io import Bytes, map_range
from winnow.wire.batch import CODEC_MASK, CONTROL, DELETE_HORIZON, TRANSACTIONAL
from winnow.wire.buffers import Rows, as_bytes
from winnow.wire.choice import Era
from winnow.wire.filtering import Filtered, filter_batches, filter_in_cache
from winnow.wire.inflate import closed, inflate_parts
from winnow.wire.internal_topics import INTERNAL_TOPICS
from winnow.wire.kernels.headers import EMPTY, LEGACY, bits_of

_SMALL_BATCH_BYTES = 1024
"""Where batches are smaller on average, reading headers takes longer than copying records."""
_MAY_CHANGE = TRANSACTIONAL | CONTROL | DELETE_HORIZON | LEGACY | EMPTY
"""Time alone changes markers and what has a delete horizon; other partitions' coordinators decide
transactions; batches without records depend on their producers; and v0 and v1 are converted. All
else stays, except tombstones, until a later record has its key (S5.4, S5.5).
"""


@dataclass(frozen=True, slots=True)
class _Split:
    """What is known of a split before its records are read. Arrays have an item per batch."""

    buf: Bytes
    batches: np.ndarray[Any, Any]
    bits: int
    """See `bits_of`."""
    kept: Bits
    """Indexed by record number."""
    discard: Bits
    horizon_cause: Bits
    era: Era


class GroupOutput:
    """Reads the splits of a group once, in order, and counts what it returns."""

    def __init__(
        self,
        job: PartitionJob,
        group: GroupJob,
        survivors: Sequence[Survivors],
        *,
        now: int,
        cores: Cores | None = None,
        split_done: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`cores`: may work on the next chunks of a split while the caller uses one. `split_done`:
        called with the number of each split that has been read.
        """
        self._began = time.monotonic()
        self.job, self.group, self.now = job, group, now
        self._cores, self._split_done = cores, split_done
        self._keep = _by_number(survivors)
        self._keys = [some.keys for some in survivors if some.keys is not None]
        self._producers_last = sorted(
            offset for offset, _ in job.last_records.values() if offset is not None
        )
        self._fates = BatchFates(job, group.carried, now=now)
        self._index = IndexBuilder(
            base_offset=group.base_offset,
            index_interval_bytes=job.index_interval_bytes,
            max_index_bytes=job.segment_index_bytes,
        )
        self._tombstones = np.zeros(len(TOMBSTONE_AGES), np.int64)
        self._holders = HoldingsCounter(as_bytes(b""), job.topic)
        source = group.segments[0] if len(group.segments) == 1 else None
        # Of a source whose indexes a broker rebuilds, those on the disk are not to be trusted.
        self._source = None if source is None or source.rebuilt else source
        self.begins_so = self._source is not None
        """Whether the only source begins with all of the output so far."""
        self.log_bytes = 0
        self._records_before = self._records_after = 0
        self._allowed = 0
        """Records that may stay by their key."""
        self.header_records = 0
        """Records as the headers of the output must count them: -1 in each batch of v0 and v1."""
        self._batches, self._first_batch, self._next_offset = 0, -1, 0
        self._stays = True
        """Whether a cleaning leaves the output as it is while each of its keys is the last."""
        self._checksum = 0
        self._source_checksums = {segment.base_offset: 0 for segment in group.segments}

    def read(self) -> Iterator[Bytes]:
        """Yield the bytes of the output. The caller must drop each item before it asks for the
        next: they are large.

        Raises CorruptLogError for a source that is damaged or changed, and for an index that can't
        be written.
        """
        for number in self.group.splits:
            yield from self._of_split(number)
            self._split_done(number)

    def _of_split(self, number: int) -> Iterator[Bytes]:
        split = self.job.splits[number]
        if number not in self._keep and self._keeps_nothing(split):
            self._records_before += split.records
            self._source_checksums[split.base_offset] = split.checksum
            return
        source = f"{self.job.directory}/{segment_file(split.base_offset, LOG)}"
        with map_range(source, split.start, split.end) as buf:
            batches = batches_of(buf, source, split.base_offset)
            bits = bits_of(batches)
            segment = next(s for s in self.group.segments if s.base_offset == split.base_offset)
            era = Era(
                horizons=self.job.delete_horizons,
                converts=self.job.converts,
                # Without delete horizons, the age of the segment decides (S5.1).
                keep_deletes=segment.log_mtime_ms > self.job.legacy_delete_horizon_ms,
            )
            discard, horizon_cause = self._fates.judge(buf, batches, source, bits=bits, era=era)
            checksum = batches_checksum(batches, self._source_checksums[split.base_offset])
            if checksum != split.checksum:
                raise changed(
                    expected="the batches that were there before", found="others", where=source
                )
            self._source_checksums[split.base_offset] = checksum
            kept = self._keep.pop(number, np.empty(0, np.bool_))
            self._allowed += int(kept.sum())
            whole = _Split(buf, batches, bits, kept, discard, horizon_cause, era)
            chunks = chunks_of(batches, split.records, bits=bits, plain=PLAIN_CHUNK_BYTES)
            # Larger batches that are not compressed are limited by memory and disk, not by cores.
            small = len(batches) * _SMALL_BATCH_BYTES > split.end - split.start
            cores = self._cores if bits & CODEC_MASK or small else None
            for filtered in in_order(self._jobs(whole, chunks), cores, lambda f: f.data.nbytes):
                data, at = filtered.data, self.log_bytes - split.start
                self._count(filtered)
                del filtered
                if self.begins_so:
                    self.begins_so = at >= 0 and np.array_equal(data, buf[at : at + len(data)])
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
        end = self.job.emptied_end
        return split.plain and not needed and (end is None or split.next_offset < end)

    def _jobs(self, split: _Split, chunks: Iterable[slice]) -> Iterator[Iterator[Filtered]]:
        """Yield one job per chunk of a split."""
        if split.bits & LEGACY:
            # Only the records themselves say how many precede those of the next chunk.
            yield self._parts(split, chunks)
            return
        counts = np.concatenate([[0], np.cumsum(split.batches["record_count"], dtype=np.int64)])
        for some in chunks:
            yield self._parts(split, [some], int(counts[some.start]))

    def _parts(self, split: _Split, chunks: Iterable[slice], done: int = 0) -> Iterator[Filtered]:
        """Yield the results for the batches of some chunks. `done`: the number, in the split, of
        their first record.
        """
        for some in chunks:
            at = some.start
            while at < some.stop:
                filtered = self._filtered(split, slice(at, some.stop), done)
                at += filtered.batches_in
                done += filtered.records_in
                yield filtered
                del filtered

    def _filtered(self, split: _Split, some: slice, done: int) -> Filtered:
        """Filter the leading ones of these batches, one at least."""
        rows, limit = split.batches[some], self.job.max_decompressed_bytes
        if split.bits & CODEC_MASK and not split.bits & LEGACY:
            how = self._how(split, some, rows, done)
            filtered = filter_in_cache(closed(split.buf, rows), **how, limit=limit)
            if filtered is not None:
                return filtered
        unread = _unread(split, done, some)
        blocks = next(inflate_parts(split.buf, rows, limit=limit, unread=unread))
        some = slice(some.start, some.start + len(blocks.rows))
        return filter_batches(blocks, **self._how(split, some, blocks.rows, done))

    def _how(self, split: _Split, some: slice, rows: Rows, done: int) -> dict[str, Any]:
        """Return what to do with these batches. `rows`: theirs, with the counts of records."""
        discard = split.discard[some]
        return {
            "keep": _of_chunk(split, done, rows, discard),
            "retention": batch_retention(
                split.batches[some],
                last_records=self.job.last_records,
                emptied_end=self.job.emptied_end,
                discard=discard,
            ),
            "now": self.now,
            "delete_retention_ms": self.job.delete_retention_ms,
            "horizon_cause": split.horizon_cause[some],
            "era": split.era,
        }

    def indexes(self) -> tuple[bytes, bytes, bytes | None]:
        """Return `.index`, `.timeindex` and, with entries, `.txnindex`, after all splits."""
        indexed = self._fates.indexed
        return *self._index.finish(), encode_txn_index(indexed) if indexed else None

    def is_source(self) -> bool:
        """Return whether the whole output is the only source, byte for byte, and so are its
        indexes. Call this after all splits.

        Kafka's cleaner then replaces each file by an equal one of the same time (S5.9), so the
        source can stay as it is (docs/decisions/0049).
        """
        source = self._source
        if source is None or not self.begins_so or self.log_bytes != source.log_bytes:
            return False
        each = zip(INDEX_SUFFIXES, source.index_sizes, self.indexes(), strict=True)
        for suffix, size, content in each:
            if size != (None if content is None else len(content)):
                return False
            path = f"{self.job.directory}/{segment_file(source.base_offset, suffix)}"
            if content and Places().read_bytes(path) != content:
                return False
        return True

    def cleaned(
        self, segment: Segment, *, unchanged: bool, staged: StagedGroup | None = None
    ) -> CleanedGroup:
        """Return what became of the group. Call this after all splits."""
        internal = self.job.topic in INTERNAL_TOPICS
        return CleanedGroup(
            sources=self.group.segments,
            segment=segment,
            unchanged=unchanged,
            records_before=self._records_before,
            records_after=self._records_after,
            removed=self._removed(),
            tombstones=tuple(self._tombstones.tolist()),
            checksum=self._checksum,
            source_checksums=self._source_checksums,
            holdings=self._holders.holdings() if internal else None,
            summary=self._summary() if unchanged or staged is not None else None,
            staged=staged,
            duration_ms=ms_since(self._began),
        )

    def _removed(self) -> RecordsRemoved:
        fates, removed = self._fates, self._records_before - self._records_after
        # A record that may stay is dropped only if it is a null value past its horizon (S5.5).
        tombstones = self._allowed + fates.markers_left - self._records_after
        return RecordsRemoved(
            superseded=removed - tombstones - fates.aborted - fates.markers,
            tombstones=tombstones,
            aborted=fates.aborted,
            markers=fates.markers,
        )

    def _summary(self) -> SegmentSummary | None:
        """Write the keys of the output. Return what later runs may know of it; None if it is too
        small for that, or if time alone may change it (docs/decisions/0054).
        """
        job = self.job
        if job.summaries is None or self.log_bytes < max(1, job.least_summed_up):
            return None
        if not self._stays or not 0 < sum(map(len, self._keys)) <= 8 * MOST_KEYS:
            return None
        keys = joined(self._keys, np.uint64)
        keys.flags.writeable = True
        keys.sort()  # they are millions, so not a copy
        file = write_keys(job.summaries, self.group.base_offset, keys)
        if file is None:
            return None
        return SegmentSummary(
            base_offset=self.group.base_offset,
            first_batch=self._first_batch,
            next_offset=self._next_offset,
            batches=self._batches,
            records=self._records_after,
            checksum=self._checksum,
            keys=len(keys),
            file=file,
            index_interval_bytes=job.index_interval_bytes,
            segment_index_bytes=job.segment_index_bytes,
        )

    def _count(self, filtered: Filtered) -> None:
        data, rows = filtered.data, filtered.batches
        self._index.append(rows, self.log_bytes)
        self.log_bytes += data.nbytes
        self._records_before += filtered.records_in
        self._records_after += filtered.records_out
        self._checksum = batches_checksum(rows, self._checksum)
        self._tombstones += by_age(rows, filtered.tombstones, self.now)
        if self.job.topic in INTERNAL_TOPICS:
            holders = HoldingsCounter(data, self.job.topic)
            holders.add(rows)
            self._holders.add_all_of(holders)
        if not len(rows):
            return
        bits = bits_of(rows)
        self.header_records += (
            int(rows["record_count"].sum(dtype=np.int64)) if bits & LEGACY else filtered.records_out
        )
        if not self._batches:
            self._first_batch = int(rows["base_offset"][0])
        self._batches += len(rows)
        self._next_offset = int(rows["last_offset"][-1]) + 1
        self._stays &= not (filtered.tombstones.any() or bits & _MAY_CHANGE)


def _by_number(survivors: Iterable[Survivors]) -> dict[int, Bits]:
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


def _unread(split: _Split, done: int, some: slice) -> Bits | None:
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
    split: _Split, done: int, rows: np.ndarray[Any, np.dtype[np.void]], discard: Bits
) -> Bits:
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
