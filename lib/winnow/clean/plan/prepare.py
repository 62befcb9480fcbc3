"""From log directories to decisions: what is there, what Kafka's rules say to do with it, and what
is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Protocol

from winnow.clean.plan.leftovers import rest_of_round, what_was_left
from winnow.clean.request import Request
from winnow.clean.scan.prefetch import Expected, Prefetch, prefetch_of
from winnow.clean.survey.survey import Listed, Place, list_partitions, walk_partitions
from winnow.clean.survey.transactions import Snapshot, Transactions, newest_snapshot, settle
from winnow.clean.survey.walk import SegmentWalk
from winnow.errors import FAILS_ONE_PARTITION, LogDirInUseError
from winnow.logdir.cleaner_entries import gather_entry, misplaced_entries
from winnow.logdir.commit.roll_forward import Finished, OpenRound, put_right
from winnow.logdir.commit.split import is_overflowed
from winnow.logdir.listing import LogDir, resolve
from winnow.logdir.partition_metadata import read_topic_id
from winnow.policy.config import TopicConfig
from winnow.policy.decide import decide
from winnow.policy.plan import PartitionPlan, Reason
from winnow.policy.retention import is_tiered
from winnow.policy.sources import Unknown
from winnow.runtime.failure import Failure, failure
from winnow.runtime.suspects import each_survived
from winnow.state import PartitionState, TopicPartition

if TYPE_CHECKING:
    from pyspark import SparkContext

UNCLEAN = Reason(
    "S8.2",
    "the broker was not shut down cleanly (no .kafka_cleanshutdown in the log directory): the end "
    "of the log may be "
    "torn. Start the broker once and stop it with SIGTERM, then run again; or use "
    "--unclean-shutdown=below-recovery-point, which touches only what is known to be whole",
)


BELOW_RECOVERY_POINT = (
    "the broker was not shut down cleanly: only segments that lie entirely below offset {} are "
    "worked on, the least of "
    "recovery point, high watermark and last stable offset"
)
UNREADABLE = Reason("S8.8", "left as it was: something about its files can't be understood")
ELSEWHERE = Reason(
    "S8.1",
    "its directory is a symbolic link: what lies elsewhere is not guarded by the lock of this log "
    "directory. Make the "
    "other place a log directory of its own in log.dirs, or mount it here",
)


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """A partition that is not touched, and why. `error`: something is wrong with it."""

    place: Place
    policy: str | None
    reason: Reason
    error: str | None = None
    state: PartitionState | None = None


@dataclass(frozen=True, slots=True)
class PartitionWork:
    """A partition whose plan is sure: what is to be done, and what the walk saw if it is to be
    compacted.
    """

    place: Place
    log_dir: LogDir
    config: TopicConfig
    state: PartitionState
    plan: PartitionPlan
    snapshot: Snapshot
    """Where the producers' state is replayed from; of no meaning unless the plan compacts."""
    walks: tuple[SegmentWalk, ...] | None = None
    transactions: Transactions | None = None
    """Beside the walks."""
    overflowed: tuple[int, ...] = ()
    """Base offsets of segments that span too many offsets for an index, and that are split before
    the round (S6.5).
    """
    finished: Finished | None = None
    """The round of an earlier run that was finished before this plan was made."""
    goes_on: OpenRound | None = None
    """The round of an earlier run at the same clock that is what the plan compacts."""


Prepared = LeftAlone | PartitionWork


class Walk(Protocol):
    """`walk_partitions`, or what remembers what it told."""

    def __call__(
        self, states: Sequence[PartitionState], *, producers_from: Sequence[int]
    ) -> list[tuple[SegmentWalk, ...] | Failure]: ...


def prepare(sc: SparkContext, log_dirs: Sequence[LogDir], request: Request) -> list[Prepared]:
    """Every partition that was asked for, in the order of the log directories, with what will
    become of it.
    """
    prepared = [
        known_or_left_alone(
            place_of(log_dir, topic_partition), log_dir, config_of(topic_partition.topic), request
        )
        for log_dir in log_dirs
        for config_of in [_configs(log_dir, request)]
        for topic_partition in log_dir.partitions
        if request.wants(topic_partition.topic)
    ]
    if request.touch:
        prepared = _with_gathered_entries(prepared, log_dirs, request)
    request.stop.check()
    listed = iter(list_known(sc, [item for item in prepared if isinstance(item, Known)], request))
    request.progress.stage("deciding")
    decided = [
        _decided(*next(listed), request) if isinstance(item, Known) else item for item in prepared
    ]
    del listed, prepared  # of many partitions they hold more than the walks take
    return _walk(sc, decided, request)


def _with_gathered_entries(
    prepared: Sequence[LeftAlone | Known], log_dirs: Sequence[LogDir], request: Request
) -> list[LeftAlone | Known]:
    """Puts cleaner entries of partitions that were moved beside them, before anything else is
    written.
    """
    misplaced = {
        (entry.home, entry.topic_partition): entry for entry in misplaced_entries(log_dirs)
    }
    result = list(prepared)
    for number, item in enumerate(prepared):
        if not isinstance(item, Known):
            continue
        entry = misplaced.get((item.place.log_dir, item.place.topic_partition))
        if entry is None:
            continue
        try:
            gather_entry(
                request.storage, entry, item.log_dir.checkpoints.cleaner[entry.topic_partition]
            )
        except LogDirInUseError:
            raise
        except FAILS_ONE_PARTITION as error:
            result[number] = LeftAlone(
                item.place, item.config.policy, UNREADABLE, error=failure(error).message
            )
    return result


def look_again(
    sc: SparkContext, items: Sequence[PartitionWork], request: Request
) -> list[Prepared]:
    """What is to become of partitions whose files this run has changed; settings and checkpoints
    are as before.
    """
    known = [
        Known(item.place, item.log_dir, item.config, item.finished, item.goes_on) for item in items
    ]
    return _walk(
        sc, [_decided(*found, request) for found in list_known(sc, known, request)], request
    )


def place_of(log_dir: LogDir, topic_partition: TopicPartition) -> Place:
    if log_dir.clean_shutdown:
        return Place(log_dir.path, topic_partition)
    checkpoints = log_dir.checkpoints
    known = (
        checkpoints.recovery_point.get(topic_partition, 0),
        checkpoints.high_watermark.get(topic_partition, 0),
    )
    return Place(log_dir.path, topic_partition, trusted_end=min(known))


@dataclass(frozen=True, slots=True)
class Known:
    """A partition whose settings are known and that may be looked at."""

    place: Place
    log_dir: LogDir
    config: TopicConfig
    finished: Finished | None = None
    goes_on: OpenRound | None = None


def _configs(log_dir: LogDir, request: Request) -> Callable[[str], TopicConfig | Unknown]:
    """The settings of a topic there: all its partitions share them."""
    return cache(partial(request.settings.resolve, node_id=log_dir.meta.node_id))


def known_or_left_alone(
    place: Place, log_dir: LogDir, config: TopicConfig | Unknown, request: Request
) -> LeftAlone | Known:
    if log_dir.error is not None:
        return LeftAlone(place, _policy(config), UNREADABLE, error=str(log_dir.error))
    if not log_dir.clean_shutdown and not request.below_recovery_point:
        return LeftAlone(place, _policy(config), UNCLEAN)
    try:
        foreign = _why_foreign(place, request)
    except FAILS_ONE_PARTITION as error:
        return LeftAlone(place, _policy(config), UNREADABLE, error=failure(error).message)
    if foreign is not None:
        return LeftAlone(place, _policy(config), foreign)
    if isinstance(config, Unknown):
        return LeftAlone(place, None, Reason("S9.2", config.reason))
    return Known(place, log_dir, config)


def _why_foreign(place: Place, request: Request) -> Reason | None:
    """Why the directory lies elsewhere, or is not one of the topic as the metadata log knows it
    (S9.3).
    """
    settings = request.settings
    if request.storage.entry(place.directory).is_link:
        return ELSEWHERE
    if settings.metadata is None or place.topic_partition.topic not in settings.metadata.topics:
        return None
    topic_id = read_topic_id(request.storage, place.directory)
    why = settings.metadata.why_foreign(
        place.topic_partition.topic, place.topic_partition.partition, topic_id
    )
    return None if why is None else Reason("S9.3", why)


def _policy(config: TopicConfig | Unknown) -> str | None:
    return None if isinstance(config, Unknown) else config.policy


def list_known(
    sc: SparkContext, known: Sequence[Known], request: Request
) -> list[tuple[Known, Listed | Failure]]:
    """What is there, once what a crash left is put right."""
    found = dict(
        enumerate(zip(known, list_partitions(sc, [item.place for item in known]), strict=True))
    )
    if not request.touch:
        return [*found.values()]
    again: dict[int, Known] = {}
    for number, (item, listed) in found.items():
        if isinstance(listed, Listed) and listed.listing.leftovers:
            request.stop.check()
            try:
                again[number] = _put_right(item, request)
            except (
                LogDirInUseError
            ):  # the lease on the log directory is lost: nothing of it may be changed any more
                raise
            except FAILS_ONE_PARTITION as error:
                found[number] = item, failure(error)
    relisted = list_partitions(sc, [item.place for item in again.values()])
    found |= dict(zip(again, zip(again.values(), relisted, strict=True), strict=True))
    return [*found.values()]


def _put_right(item: Known, request: Request) -> Known:
    """Finishes an interrupted round only if it is such a one that this run would make."""
    place, config, log_dir = item.place, item.config, item.log_dir
    finish = config.cleanup_compact and config.log_cleaner_enable and request.only != "retention"
    done = put_right(
        request.storage,
        place.log_dir,
        place.topic_partition,
        finish=finish,
        now=None if request.keep_replaced else request.now,
        trusted_end=place.trusted_end,
    )
    if done.goes_on is not None:
        place = replace(place, goes_on=done.goes_on.journal.run_id)
        return replace(item, place=place, goes_on=done.goes_on)
    if done.finished is None:
        return item
    cleaner = {**log_dir.checkpoints.cleaner, place.topic_partition: done.finished.end_offset}
    log_dir = replace(log_dir, checkpoints=replace(log_dir.checkpoints, cleaner=cleaner))
    return replace(item, log_dir=log_dir, finished=done.finished)


def _decided(known: Known, listed: Listed | Failure, request: Request) -> Prepared:
    try:
        return _decide(known, listed, request)
    except FAILS_ONE_PARTITION as error:
        return LeftAlone(known.place, known.config.policy, UNREADABLE, error=failure(error).message)


def _decide(known: Known, listed: Listed | Failure, request: Request) -> Prepared:
    place, log_dir, config = known.place, known.log_dir, known.config
    if isinstance(listed, Failure):
        return LeftAlone(place, config.policy, UNREADABLE, error=listed.message)
    if listed.active is None:
        words = what_was_left(request.storage, listed.listing)
        return LeftAlone(place, config.policy, Reason("S6.3", words))
    state = resolve(
        listed.listing,
        log_dir=log_dir.path,
        topic_partition=place.topic_partition,
        checkpoints=log_dir.checkpoints,
        log_end_offset=listed.active.next_offset,
        trusted_end=place.trusted_end,
        lost_bytes=listed.lost_bytes,
    )
    return partition_work(known, state, request)


def partition_work(known: Known, state: PartitionState, request: Request) -> Prepared:
    """What the rules say of a partition, as far as it can be told without a walk."""
    place, config = known.place, known.config
    plan = _with_limit(decide(state, config, now=request.now, only=request.only))
    if known.goes_on is not None:
        plan = rest_of_round(plan, known.goes_on.journal)
    if is_tiered(place.topic_partition.topic, config):
        return LeftAlone(place, config.policy, Reason(plan.rule, plan.reason), state=state)
    snapshot = Snapshot(state.log_end_offset, ())
    if _needs_walk(plan):
        try:
            snapshot = newest_snapshot(request.storage, state)
        except FAILS_ONE_PARTITION as error:
            return LeftAlone(
                place, config.policy, UNREADABLE, error=failure(error).message, state=state
            )
    return PartitionWork(
        place,
        known.log_dir,
        config,
        state,
        plan,
        snapshot,
        finished=known.finished,
        goes_on=known.goes_on,
    )


def _walk(sc: SparkContext, decided: Sequence[Prepared], request: Request) -> list[Prepared]:
    prefetch = (
        {}
        if request.spool is None
        else _prefetch(decided, request.spool, request.secret, sc.defaultParallelism)
    )
    return with_walks(
        decided, request, partial(walk_partitions, sc, progress=request.progress, prefetch=prefetch)
    )


def _prefetch(
    decided: Sequence[Prepared], spool: str, secret: tuple[int, int], parallelism: int
) -> dict[str, Prefetch]:
    """For all that is to be compacted, as far as it can be told without a walk."""
    expected = {
        item.state.directory: Expected(
            first_dirty_offset=plan.first_dirty_offset,
            end_offset=plan.end_offset,
            max_decompressed_bytes=item.config.max_decompressed_message_bytes,
            segments=[s.log_bytes for s in item.state.segments if s.base_offset < plan.end_offset],
        )
        for item in decided
        if isinstance(item, PartitionWork) and (plan := item.plan.compaction) is not None
    }
    return prefetch_of(expected, secret=secret, spool=spool, parallelism=parallelism)


def with_walks(decided: Sequence[Prepared], request: Request, walk: Walk) -> list[Prepared]:
    """Puts the walks beside the plans that compact, or the reason why this version does not.

    Only the walks tell the last stable offset. What it leaves of a plan is never more than the high
    watermark did.
    """
    chosen = [
        (number, item)
        for number, item in enumerate(decided)
        if isinstance(item, PartitionWork) and _needs_walk(item.plan)
    ]
    request.stop.check()
    walked = each_survived(
        [(item.state, item.snapshot.offset) for _, item in chosen],
        lambda some: walk(
            [state for state, _ in some], producers_from=[offset for _, offset in some]
        ),
        goes_on=lambda: request.stop.reason is None,
    )
    request.progress.stage("deciding")
    result = list(decided)
    for (number, item), walks in zip(chosen, walked, strict=True):
        if isinstance(walks, Failure):
            result[number] = LeftAlone(
                item.place, item.config.policy, UNREADABLE, error=walks.message, state=item.state
            )
            continue
        try:
            result[number] = _with_walks(item, walks, request)
        except FAILS_ONE_PARTITION as error:
            why = failure(error).message
            result[number] = LeftAlone(
                item.place, item.config.policy, UNREADABLE, error=why, state=item.state
            )
    return result


def _needs_walk(plan: PartitionPlan) -> bool:
    """After an unclean shutdown the last stable offset is a limit for retention as well (S8.2)."""
    return plan.compaction is not None or (
        plan.retention is not None and plan.state.trusted_end is not None
    )


def _with_walks(
    item: PartitionWork, walks: tuple[SegmentWalk, ...], request: Request
) -> PartitionWork:
    state, config = item.state, item.config
    transactions = settle(
        state, item.snapshot, walks, now=request.now, expiration_ms=config.producer_id_expiration_ms
    )
    item = replace(item, walks=walks, transactions=transactions)
    if transactions.undecided is None:
        return _with_overflowed(item, walks)
    if state.trusted_end is not None:
        state = replace(state, high_watermark=transactions.last_stable_offset)
        item = replace(item, state=state)
    if item.goes_on is not None:
        return item
    plan = decide(
        state,
        config,
        now=request.now,
        only=request.only,
        last_stable_offset=transactions.last_stable_offset,
        undecided=str(transactions.undecided),
    )
    return _with_overflowed(replace(item, plan=_with_limit(plan)), walks)


def _with_limit(plan: PartitionPlan) -> PartitionPlan:
    if plan.state.trusted_end is None:
        return plan
    limit = BELOW_RECOVERY_POINT.format(plan.state.high_watermark)
    return replace(plan, reason=f"{limit}; {plan.reason}")


def _with_overflowed(item: PartitionWork, walks: Sequence[SegmentWalk]) -> PartitionWork:
    """Of the segments that are to be cleaned, those that Kafka's cleaner would split first."""
    cleaned = (
        {segment.base_offset for segment in item.plan.compaction.segments}
        if item.plan.compaction
        else set()
    )
    overflowed = (
        walk.base_offset for walk in walks if is_overflowed(walk.base_offset, walk.next_offset)
    )
    return replace(item, overflowed=tuple(base for base in overflowed if base in cleaned))
