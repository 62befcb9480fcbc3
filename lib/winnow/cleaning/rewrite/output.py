"""Produce a group's output: the retained bytes in order, its indexes, and its counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from winnow.cleaning.result import RecordsRemoved
from winnow.cleaning.rewrite.cleaned import CleanedGroup
from winnow.cleaning.rewrite.counts import OutputCounts
from winnow.cleaning.rewrite.filter import GroupFilter
from winnow.clock import ms_since
from winnow.logdir.commit.swap import StagedGroup
from winnow.logdir.indexes.builder import IndexBuilder
from winnow.logdir.indexes.txnindex import encode_txn_index
from winnow.logdir.names import INDEX_SUFFIXES, segment_file
from winnow.runtime.cores import Cores
from winnow.scan.job import GroupJob, PartitionJob
from winnow.scan.resolve import Survivors
from winnow.state import Segment
from winnow.storage.places import Places
from winnow.storage.segment_io import Bytes


class GroupOutput:
    """Reads the splits of a group once, in order (`GroupFilter`), and counts what it returns
    (`OutputCounts`).
    """

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
        self._split_done = split_done
        self._filter = GroupFilter(job, group, survivors, now=now, cores=cores)
        self._counts = OutputCounts(job.topic, now=now)
        self._keys = [some.keys for some in survivors if some.keys is not None]
        self._index = IndexBuilder(
            base_offset=group.base_offset,
            index_interval_bytes=job.index_interval_bytes,
            max_index_bytes=job.segment_index_bytes,
        )
        source = group.segments[0] if len(group.segments) == 1 else None
        # Of a source whose indexes a broker rebuilds, those on the disk are not to be trusted.
        self._source = None if source is None or source.rebuilt else source
        self.begins_so = self._source is not None
        """Whether the only source begins with all of the output so far."""
        self.log_bytes = 0

    @property
    def header_records(self) -> int:
        return self._counts.header_records

    def read(self) -> Iterator[Bytes]:
        """Yield the bytes of the output. The caller must drop each item before it asks for the
        next: they are large.

        Raises CorruptLogError for a source that is damaged or changed, and for an index that can't
        be written.
        """
        for number in self.group.splits:
            start = self.job.splits[number].start
            for filtered, buf in self._filter.filtered(number):
                data, at = filtered.data, self.log_bytes - start
                self._index.append(filtered.batches, self.log_bytes)
                self.log_bytes += data.nbytes
                self._counts.add(filtered)
                del filtered
                if self.begins_so:
                    self.begins_so = at >= 0 and np.array_equal(data, buf[at : at + len(data)])
                del buf
                yield data
                del data
            self._split_done(number)

    def indexes(self) -> tuple[bytes, bytes, bytes | None]:
        """Return `.index`, `.timeindex` and, with entries, `.txnindex`, after all splits."""
        indexed = self._filter.fates.indexed
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
        counts, keeps = self._counts, unchanged or staged is not None
        return CleanedGroup(
            sources=self.group.segments,
            segment=segment,
            unchanged=unchanged,
            records_before=self._records_before,
            records_after=counts.records_after,
            removed=self._removed(),
            tombstones=tuple(counts.tombstones.tolist()),
            checksum=counts.checksum,
            source_checksums=self._filter.source_checksums,
            holdings=counts.holdings(),
            summary=counts.summary(self.job, self.group, self._keys, self.log_bytes)
            if keeps
            else None,
            staged=staged,
            duration_ms=ms_since(self._began),
        )

    @property
    def _records_before(self) -> int:
        return self._counts.records_before + self._filter.skipped

    def _removed(self) -> RecordsRemoved:
        fates, after = self._filter.fates, self._counts.records_after
        # A record that may stay is dropped only if it is a null value past its horizon (S5.5).
        tombstones = self._filter.allowed + fates.markers_left - after
        return RecordsRemoved(
            superseded=self._records_before - after - tombstones - fates.aborted - fates.markers,
            tombstones=tombstones,
            aborted=fates.aborted,
            markers=fates.markers,
        )
