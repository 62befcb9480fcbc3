"""The logs of a log directory that a broker recovers when it starts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from winnow.logdir.names import (
    LOG,
    METADATA_TOPIC,
    REMOTE_INDEX_CACHE,
    DirectoryKind,
    parse_partition_dir,
)
from winnow.logdir.survey import LogDir
from winnow.policy.sources import Settings, Unknown, parse_topic_set
from winnow.recovery.logs.values import LoadSettings, LogToLoad, TruncateRequest
from winnow.state import TopicPartition
from winnow.storage.contract import Storage

_ANY_POLICY = "*:cleanup.policy=compact"
"""Recovery does not depend on the policy, so a topic whose policy is unknown is recovered too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlace:
    name: str
    kind: DirectoryKind
    topic_partition: TopicPartition
    to_load: LogToLoad
    error: str | None = None
    """Why it can't be recovered, if that is known before it is read."""


def places_of(
    storage: Storage, log_dir: LogDir, request: TruncateRequest
) -> tuple[list[LogPlace], int]:
    """Return the logs to recover, and how many `request.topics` leaves out.

    Replicas that are being moved, and stray ones, are recovered as well: the marker is for all logs
    of the directory. A deleted log is not: a broker does not recover it either. Nor is the metadata
    log: a broker recovers it at every start, whether there is a marker or not (KafkaRaftLog).
    """
    every = list(_places(storage, log_dir, request))
    chosen = [place for place in every if _is_wanted(place, request.topics)]
    return chosen, len(every) - len(chosen)


def _is_wanted(place: LogPlace, topics: tuple[str, ...]) -> bool:
    return not topics or any(fnmatchcase(place.topic_partition.topic, glob) for glob in topics)


def _places(storage: Storage, log_dir: LogDir, request: TruncateRequest) -> Iterator[LogPlace]:
    settings = replace(
        request.settings, topic_sets=(*request.settings.topic_sets, parse_topic_set(_ANY_POLICY))
    )
    for entry in storage.list_dir(log_dir.path):
        if not (entry.is_dir or entry.leads_to_dir) or entry.name == REMOTE_INDEX_CACHE:
            continue
        kind = parse_partition_dir(entry.name).kind
        plain = entry.name.rpartition(".")[0] if kind is not DirectoryKind.CURRENT else entry.name
        topic_partition = parse_partition_dir(plain).topic_partition
        if (
            topic_partition is None
            or kind is DirectoryKind.DELETE
            or topic_partition.topic == METADATA_TOPIC
        ):
            continue
        directory = f"{log_dir.path}/{entry.name}"
        load = _load_settings(settings, request.now, topic_partition.topic, log_dir.meta.node_id)
        error = None
        if not entry.is_dir:
            error = "it is a symbolic link, which Winnow does not follow"
        elif isinstance(load, str):
            error = load
        yield LogPlace(
            name=entry.name,
            kind=kind,
            topic_partition=topic_partition,
            to_load=LogToLoad(
                directory=directory,
                log_start_checkpoint=log_dir.checkpoints.log_start.get(topic_partition, 0),
                recovery_point=log_dir.checkpoints.recovery_point.get(topic_partition, 0),
                settings=_NONE if isinstance(load, str) else load,
                bytes=0 if error else _log_bytes(storage, directory),
            ),
            error=error,
        )


_NONE = LoadSettings(now=0, index_interval_bytes=0, segment_index_bytes=0, producer_expiration_ms=0)


def _load_settings(
    settings: Settings, now: int, topic: str, node_id: int | None
) -> LoadSettings | str:
    config = settings.resolve(topic, node_id=node_id)
    if isinstance(config, Unknown):
        return config.reason
    return LoadSettings(
        now=now,
        index_interval_bytes=config.index_interval_bytes,
        segment_index_bytes=config.segment_index_bytes,
        producer_expiration_ms=config.producer_id_expiration_ms,
        tiered=config.remote_storage_enable
        and config.remote_log_storage_system_enable is not False,
    )


def _log_bytes(storage: Storage, directory: str) -> int:
    return sum(entry.size for entry in storage.list_dir(directory) if entry.name.endswith(LOG))
