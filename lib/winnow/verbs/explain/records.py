"""The fate of one record: by compaction, then by retention of its segment (S3.5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from winnow.policy.fate import Decision, Fact, RecordFacts, Verdict, delete_horizon, record_fate
from winnow.scan.job import PartitionJob
from winnow.state import PartitionState
from winnow.verbs.explain.find import FoundRecord, Search
from winnow.verbs.explain.retained import Deleted
from winnow.verbs.explain.values import RecordFate
from winnow.wire.batch import LOG_APPEND_TIME, has_producer
from winnow.wire.control import control_type


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    state: PartitionState
    now: int
    job: PartitionJob | None = None
    """None if there is no round."""
    untouched: Decision
    """Fate of a record that no round reaches: why there is no round, or why it ends at U'."""
    source_of: Mapping[int, int] = field(default_factory=dict)
    """Base offset of each source segment -> base offset of the new segment."""
    deleted: Deleted | None
    """What retention deletes afterwards, by new base offsets; None if only the run can tell."""

    def search(self, max_decompressed_bytes: int) -> Search:
        """Return a search for all records."""
        search = Search(
            directory=self.state.directory, max_decompressed_bytes=max_decompressed_bytes
        )
        if (job := self.job) is None:
            return search
        return replace(search, dirty=(job.first_dirty_offset, job.end_offset), aborted=job.aborted)


def fate_of(record: FoundRecord, ground: Ground, *, latest: int | None) -> RecordFate:
    """Return the fate of one record.

    `latest` is the last offset of the record's key in the dirty range (S4), if it occurs there.
    """
    fate = _with_retention(record, _by_compaction(record, ground, latest), ground)
    return RecordFate(
        offset=record.offset,
        verdict=fate.verdict,
        rule=fate.rule,
        words=fate.words,
        key=None if record.control else record.key,
        segment=record.segment,
        position=record.position,
        facts=(*_facts(record, ground), *fate.facts),
    )


def _by_compaction(record: FoundRecord, ground: Ground, latest: int | None) -> Decision:
    job = ground.job
    if job is None or record.segment >= job.end_offset:
        return ground.untouched
    segment = next(s for s in ground.state.segments if s.base_offset == record.segment)
    last, rows = record.batch["last_offset"], job.aborted
    between = rows[
        (rows["producer_id"] == record.batch["producer_id"])
        & (rows["first_offset"] <= last)
        & (rows["last_offset"] >= last)
    ]
    aborted = next(iter(between[["first_offset", "last_offset"]].tolist()), None)
    facts = RecordFacts(
        now=ground.now,
        offset=record.place,
        batch=record.batch,
        null_key=record.key is None,
        null_value=record.null_value,
        latest=latest,
        aborted=aborted if record.discardable and not record.control else None,
        marker=control_type(record.key).name if record.control else None,
        emptied=record.control and record.discardable,
        retain_legacy_deletes=segment.log_mtime_ms > job.legacy_delete_horizon_ms,
    )
    return record_fate(facts, job)


def _with_retention(record: FoundRecord, fate: Decision, ground: Ground) -> Decision:
    if fate.verdict is Verdict.GOES:
        return fate
    if ground.deleted is None:
        words = (
            f"{fate.words}; whether retention then deletes its segment depends on what compaction "
            "keeps of it"
        )
        return Decision(Verdict.UNDECIDED, "S3.5", words, fate.facts)
    home = ground.source_of.get(record.segment, record.segment)
    taken = ground.deleted.get(home)
    if taken is None:
        return fate
    words = f"its segment is deleted: {taken.words}"
    return Decision(Verdict.GOES, taken.rule, words, (*fate.facts, *taken.facts))


def _facts(record: FoundRecord, ground: Ground) -> tuple[Fact, ...]:
    batch = record.batch
    log_append = int(batch["attributes"][0]) & LOG_APPEND_TIME
    facts = [
        Fact("timestamp", record.timestamp, time=True),
        Fact("timestamp_type", "LogAppendTime" if log_append else "CreateTime"),
        Fact("batch_base_offset", int(batch["base_offset"][0])),
        Fact("batch_last_offset", int(batch["last_offset"][0])),
        Fact("batch_records", int(batch["record_count"][0])),
        Fact("magic", int(batch["magic"][0])),
    ]
    if has_producer(batch)[0]:
        facts.append(Fact("producer_id", int(batch["producer_id"][0])))
    horizon = delete_horizon(batch)
    if horizon is not None:
        facts.append(Fact("batch_delete_horizon", horizon, time=True))
    if record.offset < ground.state.log_start_offset:
        facts.append(Fact("below_log_start_offset", ground.state.log_start_offset))
    if record.key is not None and not record.control:
        facts.append(Fact("key", record.key.decode("utf-8", "backslashreplace")))
    return tuple(facts)
