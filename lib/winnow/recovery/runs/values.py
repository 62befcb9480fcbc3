"""What `recover` found and did: returned by the Python API, printed by the command line."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from winnow.errors import CorruptLogError
from winnow.start.values import BrokerStart


class Action(StrEnum):
    NONE = "none"
    RECOVERED = "recovered"
    """What a crash interrupted was finished or rolled back."""
    UNDONE = "undone"
    PURGED = "purged"


@dataclass(frozen=True, slots=True)
class KeptFiles:
    run_id: str
    kept_at_ms: int
    segments: int
    bytes: int
    closed_by: str | None = None
    """Why the run can't be undone, such as a later erasure. None: no reason is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecovery:
    """Result for one partition. In a dry run: what would be done."""

    topic: str
    partition: int
    log_dir: str
    actions: tuple[Action, ...] = (Action.NONE,)
    removed: tuple[str, ...] = ()
    """Names in the partition directory that a crash had left."""
    renamed: tuple[tuple[str, str], ...] = ()
    """Pairs of such a name and its new name."""
    segments_restored: int = 0
    bytes_restored: int = 0
    bytes_freed: int = 0
    log_start_offset: int | None = None
    """The log start offset that an undo restored, if retention had moved it."""
    kept: tuple[KeptFiles, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverResult:
    partitions: tuple[PartitionRecovery, ...]
    dry_run: bool
    unclean: tuple[str, ...] = ()
    """Paths of local log directories whose broker did not shut down cleanly."""
    strangers: tuple[str, ...] = ()
    """Entries of the log directories that are in a broker's way, with what to do."""
    starts: tuple[BrokerStart, ...] = ()
    """What happens if the brokers start afterwards; in a dry run, now. Empty: nobody has asked."""

    @property
    def has_changed_files(self) -> bool:
        return not self.dry_run and any(p.actions != (Action.NONE,) for p in self.partitions)

    @property
    def status(self) -> str:
        return "partial" if self.exit_code else "done"

    @property
    def exit_code(self) -> int:
        harm = any(start.is_harmful for start in self.starts)
        failed = any(partition.error for partition in self.partitions)
        return CorruptLogError.exit_code if self.strangers or failed or harm else 0
