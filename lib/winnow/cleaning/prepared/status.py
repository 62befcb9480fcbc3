"""The preparations of log directories, and whether they still hold. Changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from winnow.cleaning.prepared.checks import Now, why_dropped
from winnow.cleaning.prepared.existing import Existing, existing_in
from winnow.cleaning.prepared.preparation import Preparation
from winnow.cleaning.prepared.sources import PreparedSettings, TopicConfigs
from winnow.cleaning.prepared.value import Instant, PreparedPartition
from winnow.errors import FAILS_ONE_PARTITION, optional
from winnow.logdir.files import tree_bytes
from winnow.logdir.survey import LogDir
from winnow.policy.sources import Settings
from winnow.runtime.failure import Failure, failure
from winnow.runtime.stop import Stop
from winnow.storage.local import LocalStorage
from winnow.storage.places import Places
from winnow.storage.urls import is_remote

_LOCAL = LocalStorage()


def preparations_of(dirs: Sequence[LogDir], stop: Stop) -> tuple[Preparation, ...]:
    """Return the preparations of all partitions, largest first."""
    settings = PreparedSettings(dirs, stop)
    found: list[Preparation] = []
    for log_dir in dirs:
        for at in () if is_remote(log_dir.path) else log_dir.partitions:
            with optional(f"the preparations in {log_dir.path}/{at}"):
                found += [
                    _status(existing, settings, stop)
                    for existing in existing_in(_LOCAL, log_dir, at)
                    if existing.is_preparation
                ]
    return tuple(sorted(found, key=lambda p: (-p.bytes, p.topic, p.partition)))


def _status(existing: Existing, settings: PreparedSettings, stop: Stop) -> Preparation:
    prepared = existing.prepared
    return Preparation(
        log_dir=existing.log_dir.path,
        topic=existing.topic_partition.topic,
        partition=existing.topic_partition.partition,
        bytes=tree_bytes(_LOCAL, existing.staging),
        prepared_at_ms=None if prepared is None else prepared.taken.wall_ms,
        expires_ms=None if prepared is None else prepared.expires_ms,
        dropped=existing.problem
        if prepared is None
        else why_not_committed(
            prepared, existing, settings.of(prepared.asked, existing.writer), stop
        ),
    )


def why_not_committed(
    prepared: PreparedPartition, existing: Existing, settings: Settings | Failure, stop: Stop
) -> str | None:
    """Return why `commit` would drop a preparation. None: it holds."""
    if isinstance(settings, Failure):
        return settings.message
    try:
        now = now_of(existing, prepared, settings, stop)
        dropped = why_dropped(prepared, existing.staging, now, existing.beside, existing.inside)
    except FAILS_ONE_PARTITION as error:
        return failure(error).message.partition("\n")[0]
    return None if dropped is None else str(dropped)


def now_of(
    existing: Existing,
    prepared: PreparedPartition,
    settings: Settings,
    stop: Stop,
    configs: TopicConfigs | None = None,
) -> Now:
    """Return what a preparation is compared with."""
    log_dir, at = existing.log_dir, existing.topic_partition
    configs = TopicConfigs() if configs is None else configs
    return Now(
        storage=Places(),
        log_dir=log_dir,
        topic_partition=at,
        resolved=configs.of(settings, prepared.asked, at.topic, node_id=log_dir.meta.node_id),
        at=Instant.now(),
        kafka_version=settings.kafka.versions,
        check_stopped=stop.check,
    )
