"""What a cleaning round does with one record, and by which rule: S5.4 and S5.5 for people.

`winnow.wire.filtering` decides for millions of records at once. This module makes the same decision
for one record, in the order of Kafka's code (`checkBatchRetention`, `shouldRetainRecord`), and
names the rule behind each answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
class Fate:
    verdict: Verdict
    rule: str
    """Section of the deciding rule, as `S5.5`."""
    words: str
    facts: tuple[Fact, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundFacts:
    """Facts about a whole round (S5.1). Times and spans in ms."""

    now: int
    first_dirty_offset: int
    end_offset: int
    """U' of S3.3."""
    delete_retention_ms: int
    last_records: Mapping[int, tuple[int | None, int]]
    """As returned by `winnow.policy.producers.last_records`."""
    emptied_end: int | None
    """As returned by `winnow.policy.survival.emptied_end`."""
    delete_horizons: bool = True
    """False before Kafka 3.1 (S5.8)."""
    converts: bool = True
    """False before Kafka 4.0: v0 and v1 keep their format (S2.5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFacts:
    """One record below U'. `batch`: one row of dtype BATCH."""

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
    """For a tombstone in v0 or v1, and without delete horizons for all tombstones and markers: its
    segment is younger than the horizon for those (S5.1).
    """


def record_fate(record: RecordFacts, of_round: RoundFacts) -> Fate:
    """Return what the round does with a record in its range. Never UNDECIDED or ABSENT."""
    if int(record.batch["attributes"][0]) & CONTROL:
        return _marker_fate(record, of_round)
    if record.aborted is not None:
        first, marker = record.aborted
        words = f"its transaction, which began at offset {first}, was aborted at {marker}"
        facts = (Fact("transaction_first_offset", first), Fact("abort_marker_offset", marker))
        return _goes("S5.4", words, record, of_round, *facts)
    if record.null_key:
        words = "it has no key; compaction deletes such records"
        return _goes("S5.5", words, record, of_round)
    if record.latest is not None and record.latest > record.offset:
        words = f"offset {record.latest} is the last record of its key in the dirty range"
        return _goes("S5.5", words, record, of_round, Fact("superseded_by", record.latest))
    if record.null_value:
        return _tombstone_fate(record, of_round)
    if record.offset >= of_round.first_dirty_offset:
        words = f"it is the last record of its key below offset {of_round.end_offset}"
    else:
        words = (
            f"its key has no record in the dirty range [{of_round.first_dirty_offset}, "
            f"{of_round.end_offset})"
        )
    return Fate(Verdict.STAYS, "S5.5", words)


def _goes(rule: str, words: str, record: RecordFacts, of_round: RoundFacts, *facts: Fact) -> Fate:
    why = header_stays(record.batch, of_round)
    if why is not None:
        words += f"; its batch keeps its header even without records (S5.4): {why}"
    return Fate(Verdict.GOES, rule, words, facts)


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


def _marker_fate(record: RecordFacts, of_round: RoundFacts) -> Fate:
    what = f"{record.marker or 'control'} record"
    if not record.emptied:
        words = f"{what}: a batch of its transaction is still in the log"
        return Fate(Verdict.STAYS, "S5.8", words)
    if not of_round.delete_horizons:
        return _fate_by_age(f"{what} without a batch of its transaction", "S5.8", record, of_round)
    horizon = delete_horizon(record.batch)
    if horizon is None:
        return _with_new_horizon(f"{what} without a batch of its transaction: ", "S5.8", of_round)
    fact = Fact("delete_horizon", horizon, time=True)
    if of_round.now < horizon:
        words = f"{what}: its delete horizon has not passed: {_until(horizon, of_round)}"
        return Fate(Verdict.STAYS, "S5.8", words, (fact,))
    words = f"{what}: its delete horizon has passed: {iso(horizon)}"
    why = header_stays(record.batch, of_round)
    if why is not None:
        words += f"; its batch keeps its header (S5.4): {why}"
    return Fate(Verdict.GOES, "S5.8", words, (fact,))


def _fate_by_age(what: str, rule: str, record: RecordFacts, of_round: RoundFacts) -> Fate:
    """Decide as Kafka before 3.1 does: by the time of the segment (S5.1)."""
    if record.retain_legacy_deletes:
        words = f"{what}, in a segment younger than delete.retention.ms requires"
        return Fate(Verdict.STAYS, rule, words)
    words = f"{what}, in a segment older than delete.retention.ms allows"
    return _goes(rule, words, record, of_round)


def _tombstone_fate(record: RecordFacts, of_round: RoundFacts) -> Fate:
    keeps_format = not of_round.converts and int(record.batch["magic"][0]) < MAX_MAGIC
    if keeps_format or not of_round.delete_horizons:
        what = "a tombstone, the last record of its key"
        return _fate_by_age(what, "S5.5", record, of_round)
    if int(record.batch["magic"][0]) < MAX_MAGIC:
        if not record.retain_legacy_deletes:
            words = (
                "a tombstone of message format v0 or v1 in a segment older than "
                "delete.retention.ms allows"
            )
            return _goes("S5.5", words, record, of_round)
        what = "a tombstone, the last record of its key; converted to v2, "
        return _with_new_horizon(what, "S5.5", of_round)
    horizon = delete_horizon(record.batch)
    if horizon is None:
        return _with_new_horizon("a tombstone, the last record of its key; ", "S5.5", of_round)
    fact = Fact("delete_horizon", horizon, time=True)
    if of_round.now < horizon:
        words = f"a tombstone whose delete horizon has not passed: {_until(horizon, of_round)}"
        return Fate(Verdict.STAYS, "S5.5", words, (fact,))
    words = f"a tombstone whose delete horizon has passed: {iso(horizon)}"
    return _goes("S5.5", words, record, of_round, fact)


def _with_new_horizon(what: str, rule: str, of_round: RoundFacts) -> Fate:
    horizon = java_long.delete_horizon(of_round.now, of_round.delete_retention_ms)
    if horizon is None:
        words = (
            f"delete.retention.ms {of_round.delete_retention_ms} is too long: "
            "its batch gets no delete horizon"
        )
        return Fate(Verdict.STAYS, rule, what + words)
    words = (
        f"its batch gets its delete horizon now, {iso(horizon)}, and the first cleaning "
        "after that deletes it"
    )
    fact = Fact("delete_horizon_after", horizon, time=True)
    return Fate(Verdict.STAYS, rule, what + words, (fact,))


def _until(horizon: int, of_round: RoundFacts) -> str:
    return f"{iso(horizon)}, in {duration(horizon - of_round.now)}"
