"""What a cleaning found out about the segment that it wrote or left (docs/decisions/0054)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSummary:
    """A segment that a cleaning leaves as it is, as long as no later record has one of its keys."""

    base_offset: int
    first_batch: int
    """Base offset of its first batch."""
    next_offset: int
    """The offset after its last batch."""
    batches: int
    records: int
    checksum: int
    """See `winnow.cleaning.tally.batches_checksum`."""
    keys: int
    """The number of keys in `file`."""
    file: str
    """Name of the file with its keys (`winnow.cleaning.summaries.truncated`)."""
    index_interval_bytes: int
    segment_index_bytes: int
    """The two settings that its indexes were written with."""
