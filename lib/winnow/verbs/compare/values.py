"""What a comparison of replicas tells, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from winnow.errors import VerificationError


class Kind(StrEnum):
    """What is wrong between replicas of a partition."""

    MISSING = "missing"
    """One has a record that the other should have, and has not."""
    CONTENT = "content"
    """Both have a record at an offset, and it is not the same one."""
    TOPIC = "topic"
    """They are of different incarnations of the topic: it was deleted and created anew."""
    UNREADABLE = "unreadable"
    """Something of one can't be read: `verify` without `--compare` names all of it."""

    @property
    def meaning(self) -> str:
        return _MEANING[self]


_MEANING = {
    Kind.MISSING: "A record that all replicas should have is gone from one of them. A consumer gets it, or does not, "
    "depending on which broker leads; of a compacted topic it is the last value of its key.",
    Kind.CONTENT: "The replicas disagree about a record that is committed. One of them was damaged, or diverged "
    "after an unclean leader election.",
    Kind.TOPIC: "The topic was deleted and created anew, and one broker has missed it. It deletes its replica when it "
    "starts.",
    Kind.UNREADABLE: "A replica can't be compared before it can be read. `verify` without --compare names all that is "
    "wrong with it.",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a replica has a record, or would have it. `position`: byte of the batch; of the file's
    end if it is past the last one; None if it is about the file as a whole.
    """

    log_dir: str
    file: str
    """Path from `log_dir`."""
    position: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first one of a partition. `places`: of the replica that has the record, then of the
    other.
    """

    kind: Kind
    offset: int | None
    message: str
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """What one log directory holds of a partition. Offsets; None where it is not known."""

    log_dir: str
    node_id: int | None
    log_start: int | None
    high_watermark: int
    last_stable_offset: int | None
    """Where the first transaction that is still open begins; None: none is, or it is not known."""
    cleaned_to: int | None
    """First dirty offset of the cleaner's checkpoint; None: never cleaned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One partition. It was compared from `start` up to, but without, `end`; from
    `every_record_from` on, record by record, before it by the last record of each key. The three
    are None where nothing could be compared.
    """

    topic: str
    partition: int
    replicas: tuple[Replica, ...]
    start: int | None = None
    end: int | None = None
    every_record_from: int | None = None
    records: int = 0
    """Visible, committed ones within these bounds, of all replicas together."""
    differences: int = 0
    first: Difference | None = None
    undecided: int = 0
    """Keys that a replica may lack because it was cleaned beyond `end`, which none of the others
    reaches.
    """
    why_not: str | None = None
    """Why nothing was compared, where nothing is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareResult:
    """By topic and partition. Partitions that only one of the directories has are in `notes`."""

    comparisons: tuple[Comparison, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def status(self) -> str:
        """`same` or `different`."""
        return "different" if any(one.first for one in self.comparisons) else "same"

    @property
    def exit_code(self) -> int:
        return VerificationError.exit_code if self.status == "different" else 0
