"""Choose the partitions an erasure looks into, and which of their segments it reaches."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from winnow.cleaning.plan.decide_listed import what_was_left
from winnow.cleaning.plan.prepare import list_known
from winnow.cleaning.plan.prepared import Known, LeftAlone, known_or_left_alone, place_of
from winnow.cleaning.request import Request
from winnow.errors import FAILS_ONE_PARTITION, failure_of
from winnow.logdir.names import KEPT_PREFIX, QUARANTINE_PREFIX
from winnow.logdir.survey import LogDir
from winnow.policy.config import TopicConfig
from winnow.policy.retention import has_remote_storage, is_tiered
from winnow.policy.sources import Unknown, parse_topic_set
from winnow.runtime.failure import Failure
from winnow.state import PartitionState, Segment
from winnow.storage.contract import Storage
from winnow.survey.place import Listed, Place
from winnow.verbs.erase.values import PartitionErasure
from winnow.wire.internal_topics import INTERNAL_TOPICS

if TYPE_CHECKING:
    from pyspark import SparkContext

_CUT = (
    "the broker was not shut down cleanly, and it will cut segment {} at byte {} ({}). Bytes "
    "behind the cut can't be searched. Start the broker once and stop it with SIGTERM, then run "
    "again"
)
_TIERED = (
    "remote.storage.enable: remote storage may hold segments too, and an erasure can't change those"
)


@dataclass(frozen=True, slots=True)
class Target:
    state: PartitionState
    config: TopicConfig
    copies: tuple[str, ...]
    """See `PartitionErasure.copies`."""
    remote: bool = False
    """See `PartitionErasure.remote`."""

    def reached(self) -> Iterator[tuple[Segment, int]]:
        """Yield the segments that can be rewritten, each with its end: the base offset of the next
        one, which is not above the high watermark.
        """
        for segment, following in zip(self.state.segments, self.state.segments[1:], strict=False):
            if following.base_offset <= self.state.high_watermark:
                yield segment, following.base_offset

    def result(self) -> PartitionErasure:
        """Return a result that holds only what is known before the scan."""
        return PartitionErasure(
            **Place(self.state.log_dir, self.state.topic_partition).named,
            segments=len(self.state.segments),
            bytes_before=self.state.log_bytes,
            copies=self.copies,
            remote=self.remote,
        )


def find_targets(
    sc: SparkContext, log_dirs: Sequence[LogDir], request: Request
) -> list[Target | PartitionErasure]:
    """Return every partition that was requested, in the order of the log directories. A partition
    that is left unchanged has a result instead.

    Kafka's own topics are included only if they are named without a wildcard.
    """
    found: list[Known | LeftAlone] = [
        known_or_left_alone(
            place_of(log_dir, topic_partition, request),
            log_dir,
            _config_of(topic_partition.topic, log_dir, request),
            request,
        )
        for log_dir in log_dirs
        for topic_partition in log_dir.partitions
        if is_wanted(topic_partition.topic, request)
    ]
    request.stop.check()
    listed = iter(list_known(sc, [item for item in found if isinstance(item, Known)], request))
    targets: list[Target | PartitionErasure] = []
    for item in found:
        named = item.place.named
        if isinstance(item, LeftAlone):
            why = item.reason.words
            targets.append(PartitionErasure(**named, error=item.error, why_left_alone=why))
            continue
        try:
            targets.append(_target(*next(listed), request.storage))
        except FAILS_ONE_PARTITION as error:
            targets.append(PartitionErasure(**named, error=failure_of(error)))
    return targets


def is_wanted(topic: str, request: Request) -> bool:
    """Return whether a topic is searched: Kafka's own ones only if named without a wildcard."""
    return topic in request.topics if topic in INTERNAL_TOPICS else request.wants(topic)


def _config_of(topic: str, log_dir: LogDir, request: Request) -> TopicConfig | Unknown:
    """Return the topic's settings. A topic of unknown policy is accepted: it can be erased from."""
    settings, node_id = request.settings, log_dir.meta.node_id
    config = settings.resolve(topic, node_id=node_id)
    if not isinstance(config, Unknown):
        return config
    assumed = [
        parse_topic_set(f"{topic}:{setting}")
        for setting in ("cleanup.policy=delete", "retention.ms=-1")
    ]
    return replace(settings, topic_sets=(*assumed, *settings.topic_sets)).resolve(
        topic, node_id=node_id
    )


def _target(known: Known, listed: Listed | Failure, storage: Storage) -> Target | PartitionErasure:
    place = known.place
    if isinstance(listed, Failure):
        return PartitionErasure(**place.named, error=listed.message, error_code=listed.exit_code)
    if listed.active is None:
        return PartitionErasure(
            **place.named, why_left_alone=what_was_left(storage, listed.listing)
        )
    if is_tiered(place.topic_partition.topic, known.config):
        return PartitionErasure(**place.named, why_left_alone=_TIERED)
    state = known.state_of(listed, listed.active.next_offset)
    found = state.recovered
    if found is not None and found.why_cut is not None:
        words = _CUT.format(found.cut_segment, found.cut_position, found.why_cut)
        return PartitionErasure(**place.named, why_left_alone=words)
    copies = tuple(
        f"{place.directory}/{entry.name}"
        for entry in storage.list_dir(place.directory)
        if entry.is_dir and entry.name.startswith((KEPT_PREFIX, QUARANTINE_PREFIX))
    )
    return Target(
        state, known.config, copies, has_remote_storage(place.topic_partition.topic, known.config)
    )


def skipped_besides(log_dirs: Sequence[LogDir], named: Collection[str]) -> Iterator[str]:
    """Yield a note on each directory that is not searched, besides those that are already named."""
    for log_dir in log_dirs:
        for one in log_dir.skipped:
            if f"{log_dir.path}/{one.name}: {one.why}" not in named:
                yield f"{log_dir.path}/{one.name} is not searched: {one.why}"
