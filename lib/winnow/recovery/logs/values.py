"""What `recover` is asked after an unclean shutdown, and what it will do or has done, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from winnow.logdir.commit.truncation import LogCut, RemovedSegment
from winnow.policy.sources import Settings
from winnow.policy.versions import KnownVersion
from winnow.start.loaded import LoadedLog
from winnow.start.values import BrokerStart
from winnow.state import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncateRequest:
    settings: Settings
    """Those of the broker: `index.interval.bytes`, `segment.index.bytes` and
    `producer.id.expiration.ms` decide what it writes.
    """
    now: int
    """The clock of the broker that would recover, ms: idle producers are forgotten."""
    topics: tuple[str, ...] = ()
    """Globs; empty means all topics. Otherwise no marker is written."""
    truncate: bool = False
    """False: only plan."""
    keep_cut: bool = True
    """Keep the bytes that are cut, and the segments that are removed."""
    lose_records: bool = False
    """Also recover logs from which that deletes whole batches behind damage, and logs that have
    lost their end, of which that removes the evidence.
    """
    may_mark: bool = True
    """Whether a marker may be written if all is well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredLog:
    name: str
    topic_partition: TopicPartition
    is_counted: bool
    """Whether a broker writes it into its checkpoints: not a stray replica."""
    loaded: LoadedLog | None = None
    cuts: tuple[LogCut, ...] = ()
    """Those that were made, even if the rest failed; if only planned, those that would be."""
    removed: tuple[RemovedSegment, ...] = ()
    """Likewise."""
    kept: str | None = None
    """Path of the directory with what was cut."""
    error: str | None = None
    is_short_of_space: bool = False
    """The error is a full disk."""

    @property
    def cut_bytes(self) -> int:
        return sum(one.bytes for one in self.removed) + sum(one.bytes for one in self.cuts)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredDir:
    path: str
    logs: tuple[RecoveredLog, ...]
    left_out: int = 0
    """Logs that `topics` does not name."""
    is_whole: bool = False
    """All of its logs are recovered, or could be."""
    marked: bool = False
    """The marker was written: a broker will skip recovery."""
    error: str | None = None
    """Why nothing in it can be recovered."""

    @property
    def cut_bytes(self) -> int:
        """Bytes of all logs that are cut, removed segments included."""
        return sum(log.cut_bytes for log in self.logs)


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncateResult:
    run_id: str
    truncated: bool
    """False: only planned."""
    log_dirs: tuple[RecoveredDir, ...]
    clean: tuple[str, ...]
    """Paths of directories with the marker: nothing to do there."""
    kafka: KnownVersion
    """Whose rules were used."""
    notes: tuple[str, ...] = ()
    starts: tuple[BrokerStart, ...] = ()
    """What happens if the brokers start afterwards; if only planned, now."""

    @property
    def status(self) -> Literal["ok", "partial"]:
        failed = any(
            log_dir.error is not None or any(log.error is not None for log in log_dir.logs)
            for log_dir in self.log_dirs
        )
        harm = self.truncated and not all(start.is_safe for start in self.starts)
        return "partial" if failed or harm else "ok"

    @property
    def exit_code(self) -> int:
        return 0 if self.status == "ok" else 3
