"""The preparations of log directories, and whether they still hold. Changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from winnow.cleaning.asked import SettingsAsked
from winnow.cleaning.plan.settings import with_metadata
from winnow.cleaning.prepared.checks import Now, why_dropped
from winnow.cleaning.prepared.existing import Existing, existing_in
from winnow.cleaning.prepared.preparation import Preparation
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

AllSettings = Mapping[SettingsAsked, Settings | Failure]
"""By the sources that preparations name."""
_LOCAL = LocalStorage()


def settings_of(
    asked: Collection[SettingsAsked], dirs: Sequence[LogDir], stop: Stop
) -> AllSettings:
    """Read the settings again that preparations were made with: each source once."""
    return {one: _read(one, dirs, stop) for one in asked}


def _read(asked: SettingsAsked, dirs: Sequence[LogDir], stop: Stop) -> Settings | Failure:
    try:
        return with_metadata(asked.read(), Places(), dirs, stop)[0]
    except FAILS_ONE_PARTITION as error:
        return failure(error)


def preparations_of(dirs: Sequence[LogDir], stop: Stop) -> tuple[Preparation, ...]:
    """Return the preparations of all partitions, largest first."""
    found: list[Existing] = []
    for log_dir in dirs:
        for at in () if is_remote(log_dir.path) else log_dir.partitions:
            with optional(f"the preparations in {log_dir.path}/{at}"):
                found += [one for one in existing_in(_LOCAL, log_dir, at) if one.is_preparation]
    settings = settings_of({one.prepared.asked for one in found if one.prepared}, dirs, stop)
    status = [_status(one, settings, stop) for one in found]
    return tuple(sorted(status, key=lambda one: (-one.bytes, one.topic, one.partition)))


def _status(one: Existing, settings: AllSettings, stop: Stop) -> Preparation:
    prepared = one.prepared
    return Preparation(
        log_dir=one.log_dir.path,
        topic=one.topic_partition.topic,
        partition=one.topic_partition.partition,
        bytes=tree_bytes(_LOCAL, one.staging),
        prepared_at_ms=None if prepared is None else prepared.taken.wall_ms,
        expires_ms=None if prepared is None else prepared.expires_ms,
        dropped=one.problem
        if prepared is None
        else _why(prepared, one, settings[prepared.asked], stop),
    )


def _why(
    prepared: PreparedPartition, one: Existing, settings: Settings | Failure, stop: Stop
) -> str | None:
    if isinstance(settings, Failure):
        return settings.message
    try:
        dropped = why_dropped(prepared, one.staging, now_of(one, settings, stop))
    except FAILS_ONE_PARTITION as error:
        return failure(error).message.partition("\n")[0]
    return None if dropped is None else str(dropped)


def now_of(one: Existing, settings: Settings, stop: Stop) -> Now:
    """Return what a preparation is compared with."""
    return Now(
        storage=Places(),
        log_dir=one.log_dir,
        topic_partition=one.topic_partition,
        settings=settings,
        at=Instant.now(),
        kafka_version=settings.kafka.versions,
        check_stopped=stop.check,
    )
