"""What `recover` found and did, as values: the Python API returns them, the command line prints
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from winnow.errors import CorruptLogError


class Action(StrEnum):
    NONE = "none"
    RECOVERED = "recovered"
    """What a crash left was finished or rolled back."""
    UNDONE = "undone"
    PURGED = "purged"


@dataclass(frozen=True, slots=True)
class Kept:
    """What a run keeps in a partition directory."""

    run_id: str
    kept_at_ms: int
    segments: int
    bytes: int
    closed_by: str | None = None
    """Why the run can't be undone, such as an erasure since; None: no such reason is known before
    it is tried.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecovery:
    """One partition. In a dry run: what would be done."""

    topic: str
    partition: int
    log_dir: str
    actions: tuple[Action, ...] = (Action.NONE,)
    removed: tuple[str, ...] = ()
    """Names in the partition directory that a crash had left."""
    renamed: tuple[tuple[str, str], ...] = ()
    """Such names, and what they are called now."""
    segments_restored: int = 0
    bytes_restored: int = 0
    bytes_freed: int = 0
    log_start_offset: int | None = None
    """To which an undo has put the start of the log back, if retention had moved it."""
    kept: tuple[Kept, ...] = ()
    """Afterwards."""
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverResult:
    partitions: tuple[PartitionRecovery, ...]
    dry_run: bool

    @property
    def status(self) -> str:
        return "partial" if self.exit_code else "done"

    @property
    def exit_code(self) -> int:
        return (
            CorruptLogError.exit_code
            if any(partition.error for partition in self.partitions)
            else 0
        )
