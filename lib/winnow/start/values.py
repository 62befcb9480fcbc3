"""What a broker does with a log directory when it starts, as values."""

from __future__ import annotations

from dataclasses import dataclass

from winnow.logdir.commit.truncation import Truncation
from winnow.logdir.names import DirectoryKind
from winnow.policy.config import TopicConfig
from winnow.policy.sources import Unknown
from winnow.state import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class LogToLoad:
    log_dir: str
    name: str
    kind: DirectoryKind
    topic_partition: TopicPartition
    log_start_checkpoint: int
    recovery_point: int
    config: TopicConfig | Unknown
    now: int
    """The broker's clock, ms."""
    bytes: int
    """Of its logs, about: decides which are read first."""
    error: str | None
    """Why it can't be recovered, if that is known before it is read."""

    @property
    def directory(self) -> str:
        return f"{self.log_dir}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedLog:
    """A log as it will be after its recovery."""

    truncation: Truncation
    log_start_offset: int
    log_end_offset: int
    log_start_to_write: int | None
    """For the checkpoint: a broker writes the log start only if the segments don't show it."""
