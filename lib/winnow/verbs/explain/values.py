"""An explanation as plain values: the command line prints them as lines or as JSON."""

from __future__ import annotations

from dataclasses import dataclass

from winnow.cleaning.result import Setting
from winnow.policy.fate import Decision, Fact, Verdict
from winnow.policy.versions import ANY_VERSION, KnownVersion


@dataclass(frozen=True, slots=True)
class SegmentDecision:
    """The fate of one segment: bytes of the `.log`, and `newest` (ms) as a broker determines it."""

    base_offset: int
    log_bytes: int
    newest: int
    fate: Decision


@dataclass(frozen=True, slots=True)
class RecordFate:
    offset: int
    verdict: Verdict
    rule: str
    words: str
    key: bytes | None = None
    segment: int | None = None
    """Base offset of the segment that holds it; None if no segment does."""
    position: int | None = None
    """Byte in the segment's log at which its batch begins."""
    facts: tuple[Fact, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a partition is or is not cleaned, and the fate of the records that were asked for."""

    topic: str
    partition: int
    log_dir: str
    policy: str | None
    now: int
    actions: tuple[str, ...]
    """What `clean` would do, as in `PartitionResult.actions`."""
    rule: str
    reason: str
    error: str | None
    left_alone: bool
    exit_code: int
    facts: tuple[Fact, ...] = ()
    settings: tuple[Setting, ...] = ()
    segments: tuple[SegmentDecision, ...] = ()
    records: tuple[RecordFate, ...] = ()
    """The records that were asked for, by offset. Empty if only the partition was."""
    older: int = 0
    """How many more records of the key precede `records`."""
    kafka: KnownVersion = ANY_VERSION
    """The version of Kafka whose rules were used."""
    notes: tuple[str, ...] = ()
