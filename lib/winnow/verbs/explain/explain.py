"""Explain one partition and the fate of its records: what `clean` would do, and by which rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

from pyspark import SparkContext

from winnow.arguments import check_least, refused
from winnow.cleaning.plan import outcomes as report
from winnow.cleaning.plan.partitions import PlannedPartition, SkippedPartition
from winnow.cleaning.plan.planning import plan_partitions
from winnow.cleaning.plan.ready import make_ready
from winnow.cleaning.request import Request
from winnow.cleaning.result import PartitionResult
from winnow.cleaning.rewrite.compaction import estimate
from winnow.errors import UsageError
from winnow.logdir.names import topic_partition_of
from winnow.logdir.survey import LogDir
from winnow.policy.cleanable import segments_between
from winnow.policy.fate import Decision, Verdict
from winnow.policy.plan import CompactionPlan, after_round
from winnow.policy.retention import retention_config
from winnow.policy.transactions import NOTHING_CARRIED
from winnow.runtime.failure import Failure
from winnow.runtime.progress import Progress
from winnow.state import PartitionState
from winnow.verbs.explain import partition as rules
from winnow.verbs.explain.find import FoundRecord, FoundRecords, Place, UnreadableError, find
from winnow.verbs.explain.records import Ground, fate_of
from winnow.verbs.explain.retained import deleted_segments, may_depend_on_sizes
from winnow.verbs.explain.values import Explanation, RecordFate

MOST = 1000
"""Records of one key that are explained. Older ones are only counted."""


def check_question(offset: int | None, key: bytes | None) -> None:
    """Raise UsageError for both, and for values that can't be used."""
    if offset is not None and key is not None:
        raise UsageError("an offset and a key together", expected="one of them, or neither")
    if offset is not None:
        check_least(offset, "offset", 0)
    if key is not None and not isinstance(key, bytes):
        raise refused("key", "bytes", key)


def home_of(dirs: Sequence[LogDir], partition: str) -> LogDir:
    """Return the log directory that holds the partition, as if it held only this one."""
    if hint := _partitions_of(dirs, partition):
        raise UsageError(
            f"{partition} is a topic, not a partition",
            expected="TOPIC-PARTITION",
            found=partition,
            hint=hint,
        )
    wanted = topic_partition_of(partition)
    for log_dir in dirs:
        if wanted is not None and wanted in log_dir.partitions:
            return replace(log_dir, partitions=(wanted,))
        for skipped in log_dir.skipped:
            if skipped.name == partition:
                raise UsageError(
                    f"{partition} is never cleaned: {skipped.why}",
                    where=log_dir.path,
                    hint="`plan` lists the partitions that can be cleaned.",
                )
    where = ", ".join(log_dir.path for log_dir in dirs)
    topic = partition if wanted is None else wanted.topic
    raise UsageError(
        "no such partition",
        expected="TOPIC-PARTITION, the name of its directory without the path",
        found=repr(partition),
        where=where,
        hint=_partitions_of(dirs, topic) or "`plan` lists all partitions.",
    )


def _partitions_of(dirs: Sequence[LogDir], topic: str) -> str:
    """Return a sentence with the partitions of a topic, or nothing if there is no such topic."""
    numbers = sorted(p.partition for d in dirs for p in d.partitions if p.topic == topic)
    if not numbers:
        return ""
    if len(numbers) == 1:
        return f"The partition of {topic} is {topic}-{numbers[0]}."
    return f"The partitions of {topic} are {topic}-{numbers[0]} to {topic}-{numbers[-1]}."


def explain_partition(
    sc: SparkContext, log_dir: LogDir, request: Request, offset: int | None, key: bytes | None
) -> Explanation:
    """Explain the one partition that `log_dir.partitions` has, and the record at `offset`, or all
    with this key.
    """
    (item,) = plan_partitions(sc, [log_dir], request)
    if isinstance(item, SkippedPartition):
        return _unchanged(item, report.left_alone(item), request, offset)
    try:
        for preview in (False, True):
            ground = survey_ground(sc, item, request, preview=preview)
            searcher = _Searcher(sc, item, ground, request.progress)
            records, older = searcher.answer(offset, key)
            if not any(record.verdict is Verdict.UNDECIDED for record in records):
                break
    except UnreadableError as error:
        return _unchanged(item, report.failed(item, error.why), request, offset)
    return _explanation(
        report.previewed(item, request),
        request,
        facts=(
            *rules.state_facts(item.state),
            *rules.compaction_facts(item),
            *rules.retention_facts(item, previewed=ground.deleted is not None),
        ),
        segments=rules.segment_fates(ground, item.plan.compaction),
        records=records,
        older=older,
    )


def survey_ground(
    sc: SparkContext, item: PlannedPartition, request: Request, *, preview: bool
) -> Ground:
    """Return the facts that decide the fates of the partition's records. Raises UnreadableError.

    `preview`: read all records where retention depends on what a round keeps (S3.5).
    """
    state, plan, now = item.state, item.plan.compaction, request.now
    config = retention_config(item.config, compacts_less=item.compacts_less)
    if plan is None or item.plan.cleanable is None:
        deleted = {} if item.plan.retention is None else deleted_segments(state, config, now)
        untouched = rules.not_compacted(item, now, deleted=len(deleted))
        return Ground(state=state, now=now, untouched=untouched, deleted=deleted)
    job = make_ready(item, request).job
    ground = Ground(
        state=state,
        now=now,
        job=job,
        untouched=rules.beyond_cleanable(item.plan.cleanable),
        source_of={
            source.base_offset: group[0].base_offset for group in plan.groups for source in group
        },
        deleted=_deleted_after(item, plan, request),
    )
    if ground.deleted is not None or not preview or item.overflowed:
        return ground
    (groups,) = estimate(sc, [job], request)
    if isinstance(groups, Failure):
        raise UnreadableError(groups)
    after = after_round(state, [(g.sources, g.segment) for g in groups], job.end_offset)
    return replace(ground, deleted=deleted_segments(after, config, now))


def places(item: PlannedPartition) -> list[Place]:
    """Return each segment that can be searched, with the state that a search needs there."""
    before = item.transactions.carried if item.transactions else repeat(NOTHING_CARRIED)
    return list(zip(rules.trusted(item.state), before, strict=False))


def _deleted_after(
    item: PlannedPartition, plan: CompactionPlan, request: Request
) -> dict[int, Decision] | None:
    """Return what retention deletes after the round. None if that depends on what the round keeps
    (S3.5).
    """
    if request.only == "compaction":
        return {}
    legacy = any(walk.legacy for walk in item.walks or ())
    config = retention_config(item.config, compacts_less=item.compacts_less)
    if may_depend_on_sizes(item.state, config, may_grow=legacy):
        return None
    if item.overflowed and item.state.log_start_offset > item.state.segments[0].base_offset:
        return None  # segments after a split are not known yet
    by_start_offset = replace(item.config, cleanup_policy="compact")
    # The base offsets after the round are enough for the rule of the log start offset alone.
    after = after_round(item.state, [(group, group[0]) for group in plan.groups], plan.end_offset)
    return deleted_segments(after, by_start_offset, request.now)


@dataclass(frozen=True, slots=True)
class _Searcher:
    """Looks for records of a partition, and finds their fates."""

    sc: SparkContext
    item: PlannedPartition
    ground: Ground
    progress: Progress

    def answer(self, offset: int | None, key: bytes | None) -> tuple[tuple[RecordFate, ...], int]:
        """Return the wanted records, and how many more there are. Raises UnreadableError."""
        if key is not None:
            return self._with_key(key)
        if offset is None:
            return (), 0
        return (_outside(self.ground.state, offset) or self._at_offset(offset),), 0

    def _find(self, doing: str, places: Sequence[Place], **wanted: Any) -> FoundRecords:  # noqa: ANN401 - fields of Search
        search = self.ground.search(self.item.config.max_decompressed_message_bytes)
        return find(self.sc, replace(search, **wanted), places, self.progress, doing)

    def _with_key(self, key: bytes) -> tuple[tuple[RecordFate, ...], int]:
        found = self._find("looking for the key", places(self.item), key=key, most=MOST)
        shown = found.records[-MOST:]
        fates = tuple(fate_of(record, self.ground, latest=found.latest) for record in shown)
        return fates, found.older + len(found.records) - len(shown)

    def _at_offset(self, offset: int) -> RecordFate:
        there = [place for place in places(self.item) if place[0].base_offset <= offset][-1:]
        home = there[0][0].base_offset
        for record in self._find("looking for the record", there, offset=offset).records:
            return fate_of(record, self.ground, latest=self._latest_of_key(record))
        words = (
            f"segment {home} has no record at this offset: an earlier cleaning removed it, or it "
            "never existed"
        )
        return RecordFate(offset, Verdict.ABSENT, "S5.6", words, segment=home)

    def _latest_of_key(self, record: FoundRecord) -> int | None:
        job = self.ground.job
        if job is None or record.key is None or record.control or record.segment >= job.end_offset:
            return None
        segments = self.ground.state.segments
        dirty = {*segments_between(segments, job.first_dirty_offset, job.end_offset)}
        there = [place for place in places(self.item) if place[0] in dirty]
        return self._find(
            "looking for later records of its key", there, key=record.key, most=0
        ).latest


def _outside(state: PartitionState, offset: int) -> RecordFate | None:
    """Return the fate of an offset that no segment to be searched can hold; None for others."""
    first, end = state.segments[0].base_offset, state.log_end_offset
    if offset < first:
        words = f"the log begins at offset {first}: all records below it have been deleted"
        return RecordFate(offset, Verdict.ABSENT, "S8.3", words)
    home = max((s for s in state.segments if s.base_offset <= offset), key=lambda s: s.base_offset)
    if home not in rules.trusted(state):
        words = (
            f"segment {home.base_offset} is not entirely below offset {state.trusted_end}, up to "
            "which the log can be trusted after the unclean shutdown: it is not read and not "
            "changed"
        )
        return RecordFate(offset, Verdict.STAYS, "S8.2", words, segment=home.base_offset)
    if offset < end:
        return None
    return RecordFate(offset, Verdict.ABSENT, "S8.3", f"the log ends at offset {end}")


def _unchanged(
    item: SkippedPartition | PlannedPartition,
    result: PartitionResult,
    request: Request,
    offset: int | None,
) -> Explanation:
    records: tuple[RecordFate, ...] = ()
    if offset is not None:
        words = f"the partition is left unchanged: {result.reason}"
        records = (RecordFate(offset, Verdict.STAYS, result.rule, words),)
    facts = () if item.state is None else rules.state_facts(item.state)
    return _explanation(result, request, facts=facts, records=records)


def _explanation(result: PartitionResult, request: Request, **found: Any) -> Explanation:  # noqa: ANN401 - fields of Explanation
    return Explanation(
        topic=result.topic,
        partition=result.partition,
        log_dir=result.log_dir,
        policy=result.policy,
        now=request.now,
        actions=result.actions,
        rule=result.rule,
        reason=result.reason,
        error=result.error,
        left_alone=result.left_alone,
        exit_code=0 if result.error is None else result.error_code,
        settings=result.settings,
        kafka=request.settings.kafka,
        **found,
    )
