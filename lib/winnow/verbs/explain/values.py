"""An explanation as plain values: the command line turns them into lines or into JSON."""

from __future__ import annotations

from dataclasses import dataclass

from winnow.clean.result import Setting
from winnow.policy.fate import Fact, Fate, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFate:
    """What becomes of one segment. Bytes of the `.log`; `newest` in ms, as a broker takes it
    (S3.2).
    """

    base_offset: int
    log_bytes: int
    newest: int
    fate: Fate


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFate:
    """What becomes of one record, and which rule says so."""

    offset: int
    verdict: Verdict
    rule: str
    words: str
    key: bytes | None = None
    segment: int | None = None
    """Base offset of the segment that holds it; None with nothing there."""
    position: int | None = None
    """Byte in the segment's log at which its batch begins."""
    facts: tuple[Fact, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a partition is cleaned or is not, and the fate of the records that were asked for."""

    topic: str
    partition: int
    log_dir: str
    policy: str | None
    now: int
    actions: tuple[str, ...]
    """As `PartitionResult.actions`: what `clean` would do."""
    rule: str
    reason: str
    error: str | None
    left_alone: bool
    exit_code: int
    facts: tuple[Fact, ...] = ()
    settings: tuple[Setting, ...] = ()
    segments: tuple[SegmentFate, ...] = ()
    records: tuple[RecordFate, ...] = ()
    """Those asked for, by offset; empty if only the partition was."""
    older: int = 0
    """So many more records of the key lie before `records`."""
    notes: tuple[str, ...] = ()
