"""The result of compacting one group of segments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from winnow.cleaning.result import TOMBSTONE_AGES, TOMBSTONE_AGES_MS, RecordsRemoved
from winnow.logdir.commit.swap import StagedGroup
from winnow.scan.job import GroupJob
from winnow.scan.topic_usage import Holdings
from winnow.scan.values import SegmentSummary
from winnow.state import Segment, Sources
from winnow.wire.buffers import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedGroup(Sources):
    """The result of compacting one group of segments; for an estimate, the expected result."""

    segment: Segment
    """As it will be listed once it is in place. If it was written on this machine, or only
    estimated, it has neither a stamp nor the timestamp of its first batch.
    """
    unchanged: bool
    """The only source is the same, byte for byte, and stays (`GroupOutput.is_source`)."""
    records_before: int
    records_after: int
    removed: RecordsRemoved = field(default_factory=RecordsRemoved)
    tombstones: tuple[int, ...] = (0,) * len(TOMBSTONE_AGES)
    """See `PartitionResult.tombstones`."""
    checksum: int
    """See `batches_checksum`; `source_checksums`: of the sources, by base offset."""
    source_checksums: Mapping[int, int]
    holdings: Holdings | None = None
    """See `HoldingsCounter`. None for topics other than Kafka's own, and for damaged records."""
    summary: SegmentSummary | None = None
    """What later runs may know of it, if it is summed up."""
    unread: bool = False
    """It is known to be `unchanged` without reading it."""
    staged: StagedGroup | None = None
    """Read back from the disk and verified. None if it is `unchanged`, or was only estimated."""
    duration_ms: int = 0
    """From the first byte read to the last one verified."""

    @property
    def bytes_after(self) -> int:
        return self.segment.log_bytes

    @property
    def bytes_staged(self) -> int:
        """Including its index files."""
        return 0 if self.staged is None else sum(e.size for e in self.staged.entries.values())


def unread(group: GroupJob, known: SegmentSummary) -> CleanedGroup:
    """Return a group whose only segment stays as it is, without reading it."""
    return CleanedGroup(
        sources=group.segments,
        segment=group.segments[0],
        unchanged=True,
        records_before=known.records,
        records_after=known.records,
        checksum=known.checksum,
        source_checksums={known.base_offset: known.checksum},
        summary=known,
        unread=True,
    )


def by_age(batches: Rows, tombstones: NDArray[np.integer[Any]], now: int) -> NDArray[np.int64]:
    """Add up the `tombstones` of each batch, or their bytes, as `PartitionResult.tombstones` has
    them.

    A batch is as old as its newest record. One without a timestamp counts as the oldest.
    """
    counts = np.zeros(len(TOMBSTONE_AGES), np.int64)
    some = np.flatnonzero(tombstones)
    ages = now - np.maximum(batches["max_timestamp"][some], 0)
    np.add.at(counts, np.searchsorted(TOMBSTONE_AGES_MS, ages, side="right"), tombstones[some])
    return counts
