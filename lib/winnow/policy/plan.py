"""What is to be done with one partition, and why: the output of `policy.decide`, the input of
`engine`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from winnow.policy.config import TopicConfig
from winnow.state import PartitionState, Segment
from winnow.wire.batch import NO_TIMESTAMP


@dataclass(frozen=True, slots=True)
class Reason:
    """What decided: the rule's number, as `S3.4`, and the same in words."""

    rule: str
    words: str


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """One cleaning round (S5.1): every group becomes one new segment with the base offset of its
    first source.
    """

    first_dirty_offset: int
    end_offset: int
    """U' of S3.3: base offset of the first segment that is not cleaned, and the checkpoint after
    the round.
    """
    clean_bytes: int
    cleanable_bytes: int
    groups: tuple[tuple[Segment, ...], ...]

    @property
    def segments(self) -> tuple[Segment, ...]:
        return tuple(segment for group in self.groups for segment in group)


@dataclass(frozen=True, slots=True)
class RetentionPlan:
    """Whole segments that go, lowest first (S7)."""

    deleted: tuple[Segment, ...]
    roll: bool
    """All segments go: a new empty one at the log end offset comes first (S7.2)."""
    log_start_offset: int
    """Afterwards (S7.4)."""
    words: str
    """Which of start offset, size and time (S7.3) took how many segments."""

    def applied_to(self, state: PartitionState) -> PartitionState:
        """The state after the deletion. Of the times of a new empty segment nothing is told."""
        left = state.segments[len(self.deleted) :]
        if self.roll:
            left = (Segment(state.log_end_offset, 0, 0, 0, 0, None, NO_TIMESTAMP, NO_TIMESTAMP),)
        return replace(state, segments=left, log_start_offset=self.log_start_offset)


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    state: PartitionState
    config: TopicConfig
    dirty_ratio: float | None
    """cleanable / (clean + cleanable) bytes (S3.3); None if not compacted or nothing there."""
    first_dirty_offset: int | None
    compaction: CompactionPlan | None
    retention: RetentionPlan | None
    """On the state as it is now. After a compaction it is decided again, as Kafka does (S3.5)."""
    checkpoint_reset: int | None
    """First dirty offset to be written even if nothing else is done (S3.2), None if the checkpoint
    is fine.
    """
    rule: str
    """The one that says what becomes of the partition, as `S3.4`."""
    reason: str
    """The rules that decided, in words; never empty."""
    afterwards: str = ""
    """The part of `reason` that tells of a retention after the compaction, which looks at what that
    leaves (S3.5).
    """

    def reason_after(self, retention: str) -> str:
        """`reason`, once it is known what that retention did."""
        return self.reason.replace(self.afterwards, retention) if self.afterwards else self.reason


def after_round(
    state: PartitionState, outputs: Sequence[Segment], end_offset: int
) -> PartitionState:
    """The state after a cleaning round that ends at `end_offset` (U' of S3.3) and leaves `outputs`
    of what is below.
    """
    after = (segment for segment in state.segments if segment.base_offset >= end_offset)
    return replace(state, segments=(*outputs, *after), cleaner_checkpoint=end_offset)
