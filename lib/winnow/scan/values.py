"""What reading a segment finds out, as plain values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSummary:
    """A segment that a cleaning wrote or left. The next one leaves it as it is, as long as no later
    record has one of its keys (docs/decisions/0054).
    """

    base_offset: int
    first_batch: int
    next_offset: int
    """The offset after its last batch."""
    batches: int
    records: int
    checksum: int
    """See `winnow.scan.cut.batches_checksum`."""
    keys: int
    """The number of keys in `file`."""
    file: str
    """Name of the file with its keys (`winnow.cleaning.summaries.truncated`)."""
    index_interval_bytes: int
    segment_index_bytes: int
    """The two settings that its indexes were written with."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A group or a transactional id, and its share of a partition of Kafka's own topics.

    Bytes are those on disk, batch headers included. `_after` is None where only a run can find it.
    """

    name: str
    records_before: int
    bytes_before: int
    records_after: int | None
    bytes_after: int | None
