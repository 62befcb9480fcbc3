"""From log directories to decisions: what is there, what Kafka's rules say to do with it, and what is left alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from winnow.engine.compaction import Failure, failure
from winnow.engine.producers import Snapshot, newest_snapshot
from winnow.engine.survey import Listed, Place, list_partitions, walk_partitions
from winnow.engine.walk import SegmentWalk
from winnow.errors import CorruptLogError
from winnow.logdir.listing import LogDir, resolve
from winnow.logdir.recovery import recover
from winnow.logdir.state import PartitionState
from winnow.policy.config import TopicConfig
from winnow.policy.decide import decide
from winnow.policy.plan import PartitionPlan
from winnow.policy.retention import is_tiered, retention_plan
from winnow.policy.sources import Settings, Unknown
from winnow.storage.contract import Storage
from winnow.storage.local import LocalStorage
from winnow.wire.batch import MAX_OFFSET_SPAN

if TYPE_CHECKING:
    from pyspark import SparkContext

UNCLEAN = (
    "the broker was not shut down cleanly (no .kafka_cleanshutdown in the log directory): the end of the log may be "
    "torn. Start the broker once and stop it with SIGTERM, then run again"
)


UNREADABLE = "left as it was: something about its files can't be understood"


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """A partition that is not touched, and why. `error`: something is wrong with it."""

    place: Place
    policy: str | None
    reason: str
    error: str | None = None
    state: PartitionState | None = None


@dataclass(frozen=True, slots=True)
class Undertaking:
    """A partition whose plan is sure: what is to be done, and what the walk saw if it is to be compacted."""

    place: Place
    log_dir: LogDir
    config: TopicConfig
    state: PartitionState
    plan: PartitionPlan
    snapshot: Snapshot
    """Where the producers' state is replayed from; of no meaning unless the plan compacts."""
    walks: tuple[SegmentWalk, ...] | None = None
    not_compacted: str | None = None
    """Why this version does not compact it although Kafka would; its retention goes on."""


Prepared = LeftAlone | Undertaking


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What was asked, beside where: settings, which topics, the clock, and one half of the work only."""

    settings: Settings
    topics: tuple[str, ...]
    now: int
    only: str | None
    touch: bool
    """False for a plan: nothing in a log directory may change, not even to finish what a crash left."""
    storage: Storage = field(default_factory=LocalStorage)
    """Through which the driver changes log directories: all of recovery, retention and commit, and nothing else."""

    def wants(self, topic: str) -> bool:
        return not self.topics or any(fnmatchcase(topic, glob) for glob in self.topics)


def prepare(sc: SparkContext, log_dirs: Sequence[LogDir], request: Request) -> list[Prepared]:
    """Every partition that was asked for, in the order of the log directories, with what will become of it."""
    prepared = [
        _settings_of(Place(log_dir.path, topic_partition), log_dir, request)
        for log_dir in log_dirs
        for topic_partition in log_dir.partitions
        if request.wants(topic_partition.topic)
    ]
    known = [item for item in prepared if isinstance(item, _Known)]
    listed = iter(_list(sc, [item.place for item in known], request))
    decided = [_decide(item, next(listed), request) if isinstance(item, _Known) else item for item in prepared]
    return _walk(sc, decided, request)


@dataclass(frozen=True, slots=True)
class _Known:
    """A partition whose settings are known and that may be looked at."""

    place: Place
    log_dir: LogDir
    config: TopicConfig


def _settings_of(place: Place, log_dir: LogDir, request: Request) -> LeftAlone | _Known:
    config = request.settings.resolve(place.topic_partition.topic, node_id=log_dir.meta.node_id)
    if log_dir.error is not None:
        return LeftAlone(place, _policy(config), UNREADABLE, error=str(log_dir.error))
    if not log_dir.clean_shutdown:
        return LeftAlone(place, _policy(config), UNCLEAN)
    if isinstance(config, Unknown):
        return LeftAlone(place, None, config.reason)
    return _Known(place, log_dir, config)


def _policy(config: TopicConfig | Unknown) -> str | None:
    return None if isinstance(config, Unknown) else config.policy


def _list(sc: SparkContext, places: Sequence[Place], request: Request) -> list[Listed | Failure]:
    listed = list_partitions(sc, places)
    unfinished = [
        number for number, found in enumerate(listed) if isinstance(found, Listed) and found.listing.leftovers
    ]
    if not unfinished or not request.touch:
        return listed
    recovered: dict[int, Failure] = {}
    for number in unfinished:
        try:
            recover(request.storage, places[number].directory)
        except (CorruptLogError, OSError) as error:
            recovered[number] = failure(error)
    again = [number for number in unfinished if number not in recovered]
    for number, found in zip(again, list_partitions(sc, [places[number] for number in again]), strict=True):
        listed[number] = found
    for number, why in recovered.items():
        listed[number] = why
    return listed


def _decide(known: _Known, listed: Listed | Failure, request: Request) -> Prepared:
    place, log_dir, config = known.place, known.log_dir, known.config
    if isinstance(listed, Failure):
        return LeftAlone(place, config.policy, UNREADABLE, error=listed.message)
    if listed.active is None:
        return LeftAlone(
            place,
            config.policy,
            f"an interrupted run left {len(listed.listing.leftovers)} files here; `clean` puts that right first",
        )
    try:
        state = resolve(
            listed.listing,
            log_dir=log_dir.path,
            topic_partition=place.topic_partition,
            checkpoints=log_dir.checkpoints,
            log_end_offset=listed.active.next_offset,
        )
    except CorruptLogError as error:
        return LeftAlone(place, config.policy, UNREADABLE, error=str(error))
    plan = decide(state, config, now=request.now, only=request.only)
    if is_tiered(place.topic_partition.topic, config):
        return LeftAlone(place, config.policy, plan.reason, state=state)
    snapshot = Snapshot(state.log_end_offset, ())
    if plan.compaction is not None:
        try:
            snapshot = newest_snapshot(request.storage, state)
        except OSError as error:
            return LeftAlone(place, config.policy, UNREADABLE, error=str(error), state=state)
    return Undertaking(place, log_dir, config, state, plan, snapshot)


def _walk(sc: SparkContext, decided: Sequence[Prepared], request: Request) -> list[Prepared]:
    """Puts the walks beside the plans that compact, or the reason why this version does not."""
    chosen = [
        (number, item)
        for number, item in enumerate(decided)
        if isinstance(item, Undertaking) and item.plan.compaction is not None
    ]
    walked = walk_partitions(
        sc,
        [item.state for _, item in chosen],
        producers_from=[item.snapshot.offset for _, item in chosen],
    )
    result = list(decided)
    for (number, item), walks in zip(chosen, walked, strict=True):
        if isinstance(walks, Failure):
            result[number] = LeftAlone(
                item.place, item.config.policy, UNREADABLE, error=walks.message, state=item.state
            )
            continue
        why = not_yet(walks)
        result[number] = replace(item, walks=walks) if why is None else _without_compaction(item, walks, why, request)
    return result


def _without_compaction(item: Undertaking, walks: tuple[SegmentWalk, ...], why: str, request: Request) -> Undertaking:
    """What is left to do: size and time look at segments as they are after a compaction (S3.5), so only what lies
    below the log start offset may go.
    """
    by_start_offset = replace(item.config, cleanup_policy="compact")
    retention = None if request.only == "compaction" else retention_plan(item.state, by_start_offset, request.now)
    plan = replace(item.plan, retention=retention)
    return replace(item, walks=walks, plan=plan, not_compacted=why)


def not_yet(walks: Sequence[SegmentWalk]) -> str | None:
    """Why a partition that Kafka would compact is not: what this version can't yet do exactly."""
    if any(walk.legacy for walk in walks):
        return "it holds batches of message format v0 or v1, which this version does not compact yet"
    if any(walk.control or walk.transactional for walk in walks):
        return "it holds transactions, which this version does not compact yet"
    if any(walk.next_offset - 1 - walk.base_offset > MAX_OFFSET_SPAN for walk in walks):
        return "a segment spans more than 2^31 - 1 offsets and would have to be split first (S6.5)"
    return None
