"""What a broker does with its log directories when it starts, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from winnow.logdir.commit.truncation import Truncation
from winnow.logdir.names import DirectoryKind
from winnow.pickling import pickled_by_fields
from winnow.policy.config import TopicConfig
from winnow.policy.sources import Unknown
from winnow.state import TopicPartition


class Fate(StrEnum):
    """What a start does with a log, with a log directory, or with the broker. The order is that of
    the harm: of several fates the last one counts.
    """

    LOADS = "loads"
    """As it is."""
    RECOVERS = "recovers"
    """Batches are read again and indexes rebuilt. Only a torn end is cut."""
    UNKNOWN = "unknown"
    """It can't be predicted."""
    SET_ASIDE = "set-aside"
    """The log is renamed to `-stray` and not served."""
    LOSES = "loses-records"
    """Whole batches are deleted."""
    OFFLINE = "offline"
    """The log directory is taken offline. The broker stops if it has no other."""
    STOPS = "does-not-start"

    @property
    def harm(self) -> int:
        return list(Fate).index(self)

    @property
    def is_harmless(self) -> bool:
        return self in {Fate.LOADS, Fate.RECOVERS}


def worst(*fates: Fate) -> Fate:
    """Return the most harmful of these fates."""
    return max(fates, key=lambda fate: fate.harm, default=Fate.LOADS)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogToLoad:
    """A log directory of a partition, and what a loader knows before it opens it."""

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
    clean_shutdown: bool = False
    """There is a marker: a loader recovers only segments without an offset index."""
    high_watermark: int = 0
    """Of the checkpoint, 0 if there is none."""

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
    recovered_bytes: int = 0
    """Bytes of the logs whose batches are read again."""


@pickled_by_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class LogStart:
    """What a start does with one log."""

    log_dir: str
    name: str
    """Of its directory."""
    topic_partition: TopicPartition
    fate: Fate
    reason: str = ""
    recovered_bytes: int = 0
    cut_bytes: int = 0
    """Bytes of logs that the start removes."""
    log_start_offset: int | None = None
    log_end_offset: int | None = None
    already_lost: str = ""
    """Why records are missing whatever the start does. Empty: nothing shows a loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirStart:
    """What a start does with one log directory."""

    path: str
    fate: Fate
    reasons: tuple[str, ...]
    logs: tuple[LogStart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTopics:
    """The topics that a broker knows when it loads its logs.

    `replicas`: topic id -> partition -> nodes. None: it is unknown, or, with ZooKeeper, a broker
    sets nothing aside when it starts.
    """

    replicas: Mapping[str, Mapping[int, frozenset[int]]] | None
    log: str = ""
    """The metadata log that says so, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStart:
    """What happens if the broker of these log directories starts now."""

    node_id: int | None
    fate: Fate
    reasons: tuple[str, ...]
    """Of the broker as a whole; those of directories and logs are with them."""
    log_dirs: tuple[LogDirStart, ...]

    @property
    def is_safe(self) -> bool:
        """Whether the broker starts, keeps all records that its disks hold, and serves no log that
        has lost its end: the followers of such a leader cut theirs.
        """
        logs = [log for log_dir in self.log_dirs for log in log_dir.logs]
        return self.fate.is_harmless and not any(log.already_lost for log in logs)

    def logs(self, fate: Fate) -> list[LogStart]:
        return [log for log_dir in self.log_dirs for log in log_dir.logs if log.fate is fate]

    @property
    def recovered_bytes(self) -> int:
        return sum(log.recovered_bytes for log_dir in self.log_dirs for log in log_dir.logs)

    @property
    def cut_bytes(self) -> int:
        return sum(log.cut_bytes for log_dir in self.log_dirs for log in log_dir.logs)
