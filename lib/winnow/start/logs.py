"""The logs that a broker loads from a log directory, and what it knows before it opens them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from winnow.errors import FAILS_ONE_PARTITION, UsageError, failure_of
from winnow.logdir.names import (
    CLEAN_SHUTDOWN,
    LOG,
    METADATA_TOPIC,
    OFFSET_CHECKPOINTS,
    REMOTE_INDEX_CACHE,
    DirectoryKind,
    parse_partition_dir,
    seen,
)
from winnow.logdir.survey import Checkpoints, LogDir
from winnow.policy.config import TopicConfig
from winnow.policy.sources import Settings, Unknown
from winnow.policy.versions import KnownVersion
from winnow.start.loaded import LogToLoad
from winnow.start.rights import users_of
from winnow.start.small_files import checkpoint_as_read
from winnow.start.values import Fate
from winnow.storage.contract import Storage, entry_if_there
from winnow.storage.links import words_of_link

_LATER: Mapping[str, tuple[int, int, int]] = {REMOTE_INDEX_CACHE: (3, 5, 0), "-stray": (3, 6, 0)}
"""Ends of the names of directories that brokers know since a version, which is in the jars."""


def directories_of_later_versions(
    log_dir: LogDir, kafka: KnownVersion
) -> Iterator[tuple[str, Fate]]:
    """Yield why a broker of an earlier version does not start on the log directory, and its fate.
    It is unknown if the broker may be of a later version, too.
    """
    for name in (one.name for one in log_dir.skipped):
        since = next((first for end, first in _LATER.items() if name.endswith(end)), None)
        if since is None or kafka.oldest.first >= since:
            continue
        version = ".".join(map(str, since[:2]))
        words = (
            f"{log_dir.path}/{name} is a directory of Kafka {version} or later: a broker of an "
            'earlier version does not start on it ("not in the form of topic-partition"). '
        )
        if kafka.newest.last < since:
            yield f"{words}Move it elsewhere", Fate.STOPS
        else:
            yield f"{words}Give --kafka-version if the broker is of a later one", Fate.UNKNOWN


def _config_of(topic: str, settings: Settings, node_id: int | None) -> TopicConfig | Unknown:
    """Return the settings of a topic. A broker whose server.properties does not enable remote
    storage has none, whatever the topic's settings say.
    """
    config = settings.resolve_for_any_policy(topic, node_id=node_id)
    if isinstance(config, Unknown) or settings.server_of(node_id) is None:
        return config
    enabled = config.remote_log_storage_system_enable is True
    return replace(config, remote_log_storage_system_enable=enabled)


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
    for entry in seen(storage.list_dir(log_dir.path)):
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
            configs[key.topic] = _config_of(key.topic, settings, log_dir.meta.node_id)
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
