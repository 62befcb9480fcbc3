"""The logs of a log directory that a broker recovers when it starts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from winnow.logdir.names import (
    LOG,
    METADATA_TOPIC,
    REMOTE_INDEX_CACHE,
    DirectoryKind,
    parse_partition_dir,
)
from winnow.logdir.survey import LogDir
from winnow.logdir.topic_globs import is_wanted
from winnow.policy.sources import Unknown, parse_topic_set
from winnow.recovery.logs.values import LogToLoad, TruncateRequest
from winnow.storage.contract import Storage

_ANY_POLICY = "*:cleanup.policy=compact"
"""Recovery does not depend on the policy, so a topic whose policy is unknown is recovered too."""


def places_of(
    storage: Storage, log_dir: LogDir, request: TruncateRequest
) -> tuple[list[LogToLoad], int]:
    """Return the logs to recover, and how many `request.topics` leaves out.

    Replicas that are being moved, and stray ones, are recovered as well: the marker is for all logs
    of the directory. A deleted log is not: a broker does not recover it either. Nor is the metadata
    log: a broker recovers it at every start, whether there is a marker or not (KafkaRaftLog).
    """
    every = list(_places(storage, log_dir, request))
    chosen = [log for log in every if is_wanted(log.topic_partition.topic, request.topics)]
    return chosen, len(every) - len(chosen)


def _places(storage: Storage, log_dir: LogDir, request: TruncateRequest) -> Iterator[LogToLoad]:
    settings = replace(
        request.settings, topic_sets=(*request.settings.topic_sets, parse_topic_set(_ANY_POLICY))
    )
    for entry in storage.list_dir(log_dir.path):
        if not (entry.is_dir or entry.leads_to_dir) or entry.name == REMOTE_INDEX_CACHE:
            continue
        kind = parse_partition_dir(entry.name).kind
        plain = entry.name.rpartition(".")[0] if kind is not DirectoryKind.CURRENT else entry.name
        key = parse_partition_dir(plain).topic_partition
        if key is None or kind is DirectoryKind.DELETE or key.topic == METADATA_TOPIC:
            continue
        config = settings.resolve(key.topic, node_id=log_dir.meta.node_id)
        error = config.reason if isinstance(config, Unknown) else None
        if not entry.is_dir:
            error = "it is a symbolic link, which Winnow does not follow"
        yield LogToLoad(
            log_dir=log_dir.path,
            name=entry.name,
            kind=kind,
            topic_partition=key,
            log_start_checkpoint=log_dir.checkpoints.log_start.get(key, 0),
            recovery_point=log_dir.checkpoints.recovery_point.get(key, 0),
            config=config,
            now=request.now,
            bytes=0 if error else _log_bytes(storage, f"{log_dir.path}/{entry.name}"),
            error=error,
        )


def _log_bytes(storage: Storage, directory: str) -> int:
    return sum(entry.size for entry in storage.list_dir(directory) if entry.name.endswith(LOG))
