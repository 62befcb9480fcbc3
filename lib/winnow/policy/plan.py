"""What to do with one partition, and why: the output of `policy.decide`, the input of `clean`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from winnow.policy.cleanable import CleanableRange
from winnow.policy.config import TopicConfig
from winnow.state import PartitionState, Segment
from winnow.wire.batch import NO_TIMESTAMP


@dataclass(frozen=True, slots=True)
class Reason:
    """The deciding rule's number, as `S3.4`, and its description."""

    rule: str
    words: str


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """One cleaning round (S5.1). Every group becomes one new segment with the base offset of its
    first source.
    """

    first_dirty_offset: int
    end_offset: int
    """U' of S3.3: base offset of the first segment not cleaned; the checkpoint after the round."""
    cleanable_bytes: int
    groups: tuple[tuple[Segment, ...], ...]

    @property
    def segments(self) -> tuple[Segment, ...]:
        return tuple(segment for group in self.groups for segment in group)


@dataclass(frozen=True, slots=True)
class RetentionPlan:
    """Whole segments to delete, lowest first (S7)."""

    deleted: tuple[Segment, ...]
    roll: bool
    """All segments are deleted, after a new empty one is made at the log end offset (S7.2)."""
    log_start_offset: int
    """The value afterwards (S7.4)."""
    words: str
    """How many segments start offset, size and time (S7.3) delete."""
    dates: str = ""
    """If the files are much newer than the records: the newest timestamp, and when the files were
    written."""

    @property
    def deleted_bytes(self) -> int:
        """Return the size of the deleted `.log` files."""
        return sum(segment.log_bytes for segment in self.deleted)

    def applied_to(self, state: PartitionState) -> PartitionState:
        """Return the state after the deletion. The times of a new empty segment are unknown."""
        left = state.segments[len(self.deleted) :]
        if self.roll:
            left = (Segment(state.log_end_offset, 0, 0, 0, 0, None, NO_TIMESTAMP, NO_TIMESTAMP),)
        return replace(state, segments=left, log_start_offset=self.log_start_offset)


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    state: PartitionState
    config: TopicConfig
    rule: str
    """The rule that decides about the partition, as `S3.4`."""
    reason: str
    """The deciding rules, for people. Never empty."""
    dirty_ratio: float | None = None
    """cleanable / (clean + cleanable) bytes (S3.3). None if not compacted or without bytes."""
    first_dirty_offset: int | None = None
    compaction: CompactionPlan | None = None
    retention: RetentionPlan | None = None
    """For the current state. After a compaction it is decided again, as in Kafka (S3.5)."""
    checkpoint_reset: int | None = None
    """First dirty offset to write even if nothing is cleaned (S3.2). None: it is right."""
    afterwards: str = ""
    """The part of `reason` about retention, which sees what the compaction leaves (S3.5)."""
    cleanable: CleanableRange | None = None
    """The clean, dirty and not cleanable parts (S3.2 to S3.4). None: not compacted."""

    @property
    def deleted(self) -> tuple[Segment, ...]:
        """The segments that retention deletes."""
        return () if self.retention is None else self.retention.deleted

    def reason_after(self, retention: str) -> str:
        """Return `reason` with the actual result of that retention."""
        return self.reason.replace(self.afterwards, retention) if self.afterwards else self.reason


def after_round(
    state: PartitionState, groups: Iterable[tuple[Sequence[Segment], Segment]], end_offset: int
) -> PartitionState:
    """Return the state after a cleaning round that ends at `end_offset` (U' of S3.3).

    `groups`: the sources of each group, and the segment that replaces them. An earlier run may have
    replaced others, which are segments of `state`.
    """
    segments = {segment.base_offset: segment for segment in state.segments}
    for sources, output in groups:
        for source in sources:
            segments.pop(source.base_offset, None)
        segments[output.base_offset] = output
    return replace(
        state,
        segments=tuple(segments[base] for base in sorted(segments)),
        cleaner_checkpoint=end_offset,
    )
