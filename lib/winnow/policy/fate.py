"""What a cleaning round does with one record, and by which rule: S5.4 and S5.5 for people.

`winnow.wire.filtering` decides for millions of records at once. This module makes the same decision
for one record, in the order of Kafka's code (`checkBatchRetention`, `shouldRetainRecord`), and
names the rule behind each answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from winnow import java_long
from winnow.policy.survival import RETAIN_EMPTY, batch_retention
from winnow.wire.batch import CONTROL, DELETE_HORIZON, MAX_MAGIC
from winnow.words import duration, iso


class Verdict(StrEnum):
    STAYS = "stays"
    GOES = "goes"
    ABSENT = "absent"
    """The log has no such record."""
    UNDECIDED = "undecided"
    """Only the run itself can find out."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact behind the verdict. Offsets and bytes are numbers; `time`: ms since the epoch."""

    name: str
    value: str | int | float | None
    time: bool = False

    @property
    def iso(self) -> str | None:
        """Return a time as ISO-8601 in UTC, to the ms. None for any other fact."""
        if self.time and isinstance(self.value, int) and self.value >= 0:
            return iso(self.value)
        return None


@dataclass(frozen=True, slots=True)
class Decision:
    verdict: Verdict
    rule: str
    """Section of the deciding rule, as `S5.5`."""
    words: str
    facts: tuple[Fact, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundFacts:
    """What decides the fate of records in a cleaning round (S5.1), besides the log. Times and spans
    in ms.
    """

    first_dirty_offset: int
    end_offset: int
    """U' of S3.3."""
    delete_retention_ms: int
    delete_horizons: bool
    """False before Kafka 3.1: batches have no delete horizons (S5.8)."""
    legacy_delete_horizon_ms: int
    """Tombstones of v0 and v1 are kept in segments whose `.log` is younger (S5.1). Without delete
    horizons, all tombstones and markers are.
    """
    converts: bool
    """False before Kafka 4.0: what remains of v0 and v1 keeps its format (S2.5)."""
    emptied_end: int | None
    """As returned by `winnow.policy.survival.emptied_end`."""
    last_records: Mapping[int, tuple[int | None, int]]
    """As returned by `winnow.policy.producers.last_records`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFacts:
    """One record below U'. `batch`: one row of dtype BATCH."""

    now: int
    """The clock of the run, ms."""
    offset: int
    batch: NDArray[np.void]
    null_key: bool
    null_value: bool
    latest: int | None = None
    """Last offset of its key in the dirty range, without aborted data. None: it has none."""
    aborted: tuple[int, int] | None = None
    """First offset and marker of its transaction, if that was aborted."""
    marker: str | None = None
    """`ABORT`, `COMMIT` or another type, if it is a control record."""
    emptied: bool = False
    """For a marker: no batch of its transaction is left (S4.1)."""
    retain_legacy_deletes: bool = True
    """Its segment is younger than `RoundFacts.legacy_delete_horizon_ms` (S5.1)."""


def record_fate(record: RecordFacts, of_round: RoundFacts) -> Decision:
    """Return what the round does with a record in its range. Never UNDECIDED or ABSENT."""
    control = bool(int(record.batch["attributes"][0]) & CONTROL)
    fate = (_marker_fate if control else _data_fate)(record, of_round)
    why = header_stays(record.batch, of_round) if fate.verdict is Verdict.GOES else None
    if why is None:
        return fate
    even = "" if control and of_round.delete_horizons else " even without records"
    return replace(fate, words=f"{fate.words}; its batch keeps its header{even} (S5.4): {why}")


def delete_horizon(batch: NDArray[np.void]) -> int | None:
    """Return the delete horizon of one BATCH row, ms. None if it has none (S2.2)."""
    return int(batch["base_timestamp"][0]) if int(batch["attributes"][0]) & DELETE_HORIZON else None


def header_stays(batch: NDArray[np.void], of_round: RoundFacts) -> str | None:
    """Return why a batch keeps its header without records, None if it does not (S5.4)."""
    codes = batch_retention(
        batch, last_records=of_round.last_records, emptied_end=of_round.emptied_end
    )
    if codes[0] != RETAIN_EMPTY:
        return None
    if int(batch["last_offset"][0]) + 1 == of_round.emptied_end:
        return "it is the last batch of the cleaned range"
    return f"a broker needs it to know producer {int(batch['producer_id'][0])}"


def _data_fate(record: RecordFacts, of_round: RoundFacts) -> Decision:
    if record.aborted is not None:
        first, marker = record.aborted
        words = f"its transaction, which began at offset {first}, was aborted at {marker}"
        facts = (Fact("transaction_first_offset", first), Fact("abort_marker_offset", marker))
        return Decision(Verdict.GOES, "S5.4", words, facts)
    if record.null_key:
        return Decision(Verdict.GOES, "S5.5", "it has no key; compaction deletes such records")
    if record.latest is not None and record.latest > record.offset:
        words = f"offset {record.latest} is the last record of its key in the dirty range"
        return Decision(Verdict.GOES, "S5.5", words, (Fact("superseded_by", record.latest),))
    if record.null_value:
        return _tombstone_fate(record, of_round)
    if record.offset >= of_round.first_dirty_offset:
        words = f"it is the last record of its key below offset {of_round.end_offset}"
    else:
        words = (
            f"its key has no record in the dirty range [{of_round.first_dirty_offset}, "
            f"{of_round.end_offset})"
        )
    return Decision(Verdict.STAYS, "S5.5", words)


def _marker_fate(record: RecordFacts, of_round: RoundFacts) -> Decision:
    what = f"{record.marker or 'control'} record"
    if not record.emptied:
        words = f"{what}: a batch of its transaction is still in the log"
        return Decision(Verdict.STAYS, "S5.8", words)
    alone = f"{what} without a batch of its transaction"
    if not of_round.delete_horizons:
        return _by_age("S5.8", f"{alone},", record)
    return _by_horizon("S5.8", f"{alone}: ", f"{what}: its", record, of_round)


def _tombstone_fate(record: RecordFacts, of_round: RoundFacts) -> Decision:
    last = "a tombstone, the last record of its key"
    legacy = int(record.batch["magic"][0]) < MAX_MAGIC
    if not of_round.delete_horizons or (legacy and not of_round.converts):
        return _by_age("S5.5", f"{last},", record)
    if not legacy:
        return _by_horizon("S5.5", f"{last}; ", "a tombstone whose", record, of_round)
    if not record.retain_legacy_deletes:
        return _by_age("S5.5", "a tombstone of message format v0 or v1", record)
    return _with_new_horizon("S5.5", f"{last}; converted to v2, ", record, of_round)


def _by_age(rule: str, what: str, record: RecordFacts) -> Decision:
    """Decide by the time of the segment: as before Kafka 3.1, and for v0 and v1 (S5.1)."""
    if record.retain_legacy_deletes:
        words = f"{what} in a segment younger than delete.retention.ms requires"
        return Decision(Verdict.STAYS, rule, words)
    return Decision(
        Verdict.GOES, rule, f"{what} in a segment older than delete.retention.ms allows"
    )


def _by_horizon(
    rule: str, new: str, whose: str, record: RecordFacts, of_round: RoundFacts
) -> Decision:
    """Decide by the delete horizon of the batch (S5.8). `new` begins the words if it has none yet,
    `whose` if it has one.
    """
    horizon = delete_horizon(record.batch)
    if horizon is None:
        return _with_new_horizon(rule, new, record, of_round)
    verdict, words = Verdict.GOES, f"{whose} delete horizon has passed: {iso(horizon)}"
    if record.now < horizon:
        left = duration(horizon - record.now)
        words = f"{whose} delete horizon has not passed: {iso(horizon)}, in {left}"
        verdict = Verdict.STAYS
    return Decision(verdict, rule, words, (Fact("delete_horizon", horizon, time=True),))


def _with_new_horizon(rule: str, what: str, record: RecordFacts, of_round: RoundFacts) -> Decision:
    horizon = java_long.delete_horizon(record.now, of_round.delete_retention_ms)
    if horizon is None:
        words = (
            f"delete.retention.ms {of_round.delete_retention_ms} is too long: "
            "its batch gets no delete horizon"
        )
        return Decision(Verdict.STAYS, rule, what + words)
    words = (
        f"its batch gets its delete horizon now, {iso(horizon)}, and the first cleaning "
        "after that deletes it"
    )
    fact = Fact("delete_horizon_after", horizon, time=True)
    return Decision(Verdict.STAYS, rule, what + words, (fact,))
