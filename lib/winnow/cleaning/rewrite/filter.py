"""Filter the splits of a group: decide on each batch and record, and return what is retained
(S5.3-S5.7).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from winnow.cleaning.rewrite.fates import BatchFates, Bits
from winnow.logdir.names import LOG, segment_file
from winnow.policy.survival import batch_retention
from winnow.runtime.cores import Cores, in_order
from winnow.runtime.spool import joined
from winnow.scan.chunks import PLAIN_CHUNK_BYTES, batches_of, changed, chunks_of
from winnow.scan.cut import Split, batches_checksum
from winnow.scan.job import GroupJob, PartitionJob
from winnow.scan.resolve import Survivors
from winnow.storage.segment_io import Bytes, map_range
from winnow.wire.batch import CODEC_MASK, CONTROL, LEGACY, bits_of
from winnow.wire.buffers import Rows
from winnow.wire.choice import Era
from winnow.wire.filtering import Filtered, filter_batches, filter_in_cache
from winnow.wire.inflate import closed, inflate_parts

_SMALL_BATCH_BYTES = 1024
"""Mean batch size below which parsing headers is the bottleneck."""


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


class GroupFilter:
    """Reads the splits of a group once, in order, and filters them."""

    def __init__(
        self,
        job: PartitionJob,
        group: GroupJob,
        survivors: Sequence[Survivors],
        *,
        now: int,
        cores: Cores | None,
    ) -> None:
        self._job, self._group, self._now, self._cores = job, group, now, cores
        self._keep = _by_number(survivors)
        self._producers_last = sorted(
            offset for offset, _ in job.last_records.values() if offset is not None
        )
        self.fates = BatchFates(job, group.carried, now=now)
        self.allowed = 0
        """Records that may stay by their key."""
        self.skipped = 0
        """Records of splits that were not read again, since nothing of them is retained."""
        self.source_checksums = {segment.base_offset: 0 for segment in group.segments}

    def filtered(self, number: int) -> Iterator[tuple[Filtered, Bytes]]:
        """Yield what is retained of a split, with the bytes of the split. The caller must drop each
        item before it asks for the next.
        """
        split = self._job.splits[number]
        if number not in self._keep and self._keeps_nothing(split):
            self.skipped += split.records
            self.source_checksums[split.base_offset] = split.checksum
            return
        source = f"{self._job.directory}/{segment_file(split.base_offset, LOG)}"
        with map_range(source, split.start, split.end) as buf:
            batches = batches_of(buf, source, split.base_offset)
            bits = bits_of(batches)
            segment = next(s for s in self._group.segments if s.base_offset == split.base_offset)
            era = Era(
                horizons=self._job.delete_horizons,
                converts=self._job.converts,
                # Without delete horizons, the age of the segment decides (S5.1).
                keep_deletes=segment.log_mtime_ms > self._job.legacy_delete_horizon_ms,
            )
            discard, horizon_cause = self.fates.judge(buf, batches, source, bits=bits, era=era)
            checksum = batches_checksum(batches, self.source_checksums[split.base_offset])
            if checksum != split.checksum:
                raise changed(
                    expected="the batches that were there before", found="others", where=source
                )
            self.source_checksums[split.base_offset] = checksum
            kept = self._keep.pop(number, np.empty(0, np.bool_))
            self.allowed += int(kept.sum())
            whole = _Split(buf, batches, bits, kept, discard, horizon_cause, era)
            chunks = chunks_of(batches, split.records, bits=bits, plain=PLAIN_CHUNK_BYTES)
            # Larger batches that are not compressed are limited by memory and disk, not by cores.
            small = len(batches) * _SMALL_BATCH_BYTES > split.end - split.start
            cores = self._cores if bits & CODEC_MASK or small else None
            for filtered in in_order(self._jobs(whole, chunks), cores, lambda f: f.data.nbytes):
                yield filtered, buf
                del filtered
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
        """Filter a prefix of the batches in the slice: at least one batch."""
        rows, limit = split.batches[some], self._job.max_decompressed_bytes
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
                last_records=self._job.last_records,
                emptied_end=self._job.emptied_end,
                discard=discard,
            ),
            "now": self._now,
            "delete_retention_ms": self._job.delete_retention_ms,
            "horizon_cause": split.horizon_cause[some],
            "era": split.era,
        }


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
