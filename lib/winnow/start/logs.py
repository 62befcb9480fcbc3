"""The logs that a broker loads from a log directory, and what it knows before it opens them."""

from __future__ import annotations

from collections.abc import Iterator

from winnow.errors import FAILS_ONE_PARTITION, UsageError, failure_of
from winnow.logdir.names import (
    CLEAN_SHUTDOWN,
    LOG,
    METADATA_TOPIC,
    OFFSET_CHECKPOINTS,
    REMOTE_INDEX_CACHE,
    DirectoryKind,
    parse_partition_dir,
)
from winnow.logdir.survey import Checkpoints, LogDir
from winnow.policy.config import TopicConfig
from winnow.policy.sources import Settings, Unknown
from winnow.start.loaded import LogToLoad
from winnow.start.rights import users_of
from winnow.start.small_files import checkpoint_as_read
from winnow.storage.contract import Storage, entry_if_there
from winnow.storage.links import words_of_link


def logs_to_load(
    storage: Storage, log_dir: LogDir, settings: Settings, now: int
) -> Iterator[LogToLoad]:
    """Yield the logs that a broker loads from a log directory, with what its checkpoints say.

    Replicas that are being moved, deleted, or set aside are loaded as well. The metadata log is
    not: see `start.metadata_log`.
    """
    checkpoints, marker = log_dir.checkpoints, f"{log_dir.path}/{CLEAN_SHUTDOWN}"
    if log_dir.error is not None:
        start, high, flushed = (
            checkpoint_as_read(storage, f"{log_dir.path}/{name}") for name in OFFSET_CHECKPOINTS[1:]
        )
        checkpoints = Checkpoints({}, start, high, flushed)
    users, configs = users_of(log_dir.path), dict[str, TopicConfig | Unknown]()
    found = entry_if_there(storage, marker)
    linked = None
    if found is not None and found.is_link:
        linked = f"{marker} shows nothing: {words_of_link(marker)}"
    for entry in storage.list_dir(log_dir.path):
        if not (entry.is_dir or entry.leads_to_dir) or entry.name == REMOTE_INDEX_CACHE:
            continue
        try:
            kind = parse_partition_dir(entry.name).kind
        except UsageError:
            continue  # see `LogDir.strangers`
        plain = entry.name.rpartition(".")[0] if kind is not DirectoryKind.CURRENT else entry.name
        key = parse_partition_dir(plain).topic_partition
        if key is None or key.topic == METADATA_TOPIC:
            continue
        error, log_bytes, behind_link = linked, 0, linked is not None
        if not entry.is_dir:
            error = words_of_link(f"{log_dir.path}/{entry.name}")
            behind_link = True
        else:
            try:
                files = storage.list_dir(f"{log_dir.path}/{entry.name}")
                log_bytes = sum(file.size for file in files if file.name.endswith(LOG))
                behind_link = behind_link or any(file.is_link for file in files)
            except FAILS_ONE_PARTITION as failed:
                error = failure_of(failed)
        if key.topic not in configs:
            node_id = log_dir.meta.node_id
            configs[key.topic] = settings.resolve_for_any_policy(key.topic, node_id=node_id)
        yield LogToLoad(
            log_dir=log_dir.path,
            name=entry.name,
            kind=kind,
            topic_partition=key,
            log_start_checkpoint=checkpoints.log_start.get(key, 0),
            recovery_point=checkpoints.recovery_point.get(key, 0),
            config=configs[key.topic],
            now=now,
            bytes=log_bytes,
            error=error,
            behind_link=behind_link,
            clean_shutdown=log_dir.clean_shutdown,
            high_watermark=checkpoints.high_watermark.get(key, 0),
            one_byte_versions=settings.kafka.rules.one_byte_versions,
            has_been_compacted=key in checkpoints.cleaner,
            users=users,
            renames_swaps=settings.kafka.oldest.first >= (3, 0, 0),
        )
