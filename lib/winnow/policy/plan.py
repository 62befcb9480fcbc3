"""What is to be done with one partition, and why: the output of `policy.decide`, the input of `engine`."""

from __future__ import annotations

from dataclasses import dataclass

from winnow.logdir.state import PartitionState, Segment
from winnow.policy.config import TopicConfig


@dataclass(frozen=True, slots=True)
class Reason:
    """What decided: the rule's number, as `S3.4`, and the same in words."""

    rule: str
    words: str


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """One cleaning round (S5.1): every group becomes one new segment with the base offset of its first source."""

    first_dirty_offset: int
    end_offset: int
    """U' of S3.3: base offset of the first segment that is not cleaned, and the checkpoint after the round."""
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
    """First dirty offset to be written even if nothing else is done (S3.2), None if the checkpoint is fine."""
    rule: str
    """The one that says what becomes of the partition, as `S3.4`."""
    reason: str
    """The rules that decided, in words; never empty."""
