"""The result of a comparison of replicas, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from winnow.errors import CorruptLogError, VerificationError


class DifferenceKind(StrEnum):
    MISSING = "missing"
    CONTENT = "content"
    TOPIC = "topic"
    UNREADABLE = "unreadable"

    @property
    def meaning(self) -> str:
        return _MEANING[self]


_MEANING = {
    DifferenceKind.MISSING: "One replica lacks a record that all replicas should have. Whether a "
    "consumer gets the record depends on which broker leads. In a compacted topic, it is the last "
    "value of its key.",
    DifferenceKind.CONTENT: "The replicas have different records at the same committed offset. One "
    "of them was damaged, or diverged after an unclean leader election.",
    DifferenceKind.TOPIC: "The topic was deleted and created again, and one broker has missed "
    "that. It deletes its replica when it starts.",
    DifferenceKind.UNREADABLE: "A replica can't be read, so it can't be compared. `verify` without "
    "--compare reports everything that is wrong with it.",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a replica has a record, or would have it. `position` is the byte of the batch, or the
    file's end if the offset is past the last batch, or None if the whole file is meant.
    """

    log_dir: str
    file: str
    """Path relative to `log_dir`."""
    position: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first difference of a partition. `places` names first the replica that has the record,
    then the other.
    """

    kind: DifferenceKind
    offset: int | None
    message: str
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """What one log directory holds of a partition. Fields are offsets, None if unknown."""

    log_dir: str
    node_id: int | None
    log_start: int | None
    high_watermark: int
    last_stable_offset: int | None
    """First offset of the first open transaction. None if there is none, or it is unknown."""
    cleaned_to: int | None
    """First dirty offset in the cleaner's checkpoint; None if the log was never cleaned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One partition, compared from `start` up to `end` (exclusive).

    From `every_record_from` on, every record is compared. Before it, the last record of each key
    is. The three are None if nothing could be compared.
    """

    topic: str
    partition: int
    replicas: tuple[Replica, ...]
    start: int | None = None
    end: int | None = None
    every_record_from: int | None = None
    records: int = 0
    """Visible, committed records within these bounds, summed over all replicas."""
    differences: int = 0
    first: Difference | None = None
    undecided: int = 0
    """Keys that a replica may lack because it was cleaned beyond `end`, where others stop."""
    why_not: str | None = None
    """Why nothing was compared although nothing is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareResult:
    """Comparisons by topic and partition. `notes` names partitions that only one directory has."""

    comparisons: tuple[Comparison, ...]
    not_compared: tuple[str, ...] = ()
    """Log directories that can't be read, each with the reason."""
    notes: tuple[str, ...] = field(default=())

    @property
    def status(self) -> str:
        if any(one.first for one in self.comparisons):
            return "different"
        return "partial" if self.not_compared else "same"

    @property
    def exit_code(self) -> int:
        """Return 4 if replicas differ, 3 if a log directory was not compared."""
        if self.status == "different":
            return VerificationError.exit_code
        return CorruptLogError.exit_code if self.not_compared else 0
