"""Where a partition is, and what a survey finds there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from winnow.logdir.listing import SegmentListing
from winnow.pickling import pickled_by_fields
from winnow.state import TopicPartition
from winnow.storage.contract import Remembered


@pickled_by_fields
@dataclass(frozen=True, slots=True)
class PartitionPlace:
    """A partition directory of one log directory."""

    log_dir: str
    topic_partition: TopicPartition
    trusted_end: int | None = None
    """See `PartitionState.trusted_end`."""
    recovery_point: int | None = None
    """Set after an unclean shutdown if the log is to be read from there on (S8.2)."""
    index_interval_bytes: int = 4096
    """`index.interval.bytes`, from which the sizes of rebuilt indexes follow."""
    one_byte_versions: bool = True
    """See `Rules.one_byte_versions`."""
    has_no_gaps: bool = False
    """See `lost_segments`."""
    goes_on: str | None = None
    """The run whose round is continued. Its directories in the partition directory are expected."""

    @property
    def directory(self) -> str:
        return f"{self.log_dir}/{self.topic_partition}"

    @property
    def named(self) -> dict[str, Any]:
        """Return the fields that name it in a result."""
        at = self.topic_partition
        return {"topic": at.topic, "partition": at.partition, "log_dir": self.log_dir}


@pickled_by_fields
@dataclass(frozen=True, slots=True)
class ListedPartition:
    """One partition's segments, and the end of its log (S8.3).

    `log_end_offset` is None if files of an interrupted run must be recovered first. If a broker
    recovers the log, it is known once the log was read (`survey.unflushed`).
    """

    listing: SegmentListing
    log_end_offset: int | None
    lost_bytes: int = 0
    """See `PartitionState.lost_bytes`."""
    logs: tuple[Remembered, ...] = ()
    """The logs that `Storage.listed_in` returned in the task that listed the partition."""
