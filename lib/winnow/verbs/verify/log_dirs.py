"""A whole log directory: identity, checkpoints, and list of partitions (S1.1-S1.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from winnow.errors import UsageError
from winnow.logdir.checkpoints import read_offset_checkpoint
from winnow.logdir.meta import read_meta, was_shut_down_cleanly
from winnow.logdir.names import (
    LOG_START_CHECKPOINT,
    META_PROPERTIES,
    OFFSET_CHECKPOINTS,
    RECOVERY_POINT_CHECKPOINT,
    REMOTE_INDEX_CACHE,
    DirectoryKind,
    parse_partition_dir,
)
from winnow.logdir.survey import canonical_paths
from winnow.logdir.topic_globs import is_wanted
from winnow.state import TopicPartition
from winnow.storage.contract import Storage
from winnow.verbs.verify.directories import PartitionPlace, reading
from winnow.verbs.verify.findings import Finding, Scope
from winnow.verbs.verify.kinds import Kind

Offsets = dict[str, dict[TopicPartition, int]]
"""Offsets by name of the checkpoint. Checkpoints that can't be read are missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirCheck:
    findings: tuple[Finding, ...]
    partitions: tuple[PartitionPlace, ...]
    topics: frozenset[str]
    """All topics, also those that were not asked for."""
    checkpoints: Offsets
    clean_shutdown: bool
    notes: tuple[str, ...]


def find_log_dirs(storage: Storage, paths: Sequence[str]) -> tuple[str, ...]:
    """Return the real paths.

    Raises UsageError as `canonical_paths`, and for a path that is not a log directory.
    """
    found = canonical_paths(storage, paths)
    for path in found:
        if not storage.exists(f"{path}/{META_PROPERTIES}"):
            read_meta(storage, path)
    return found


def check_log_dir(storage: Storage, path: str, *, topics: Sequence[str]) -> LogDirCheck:
    """Check a log directory. `topics` are globs; empty means all topics.

    Files of the log directory itself are always checked.
    """
    scope = Scope(path)
    clean = was_shut_down_cleanly(storage, path)
    findings, _ = reading(
        scope, META_PROPERTIES, Kind.PROPERTIES, partial(read_meta, storage, path)
    )
    checkpoints: Offsets = {}
    for name in OFFSET_CHECKPOINTS:
        wrong, offsets = reading(
            scope, name, Kind.CHECKPOINT, partial(read_offset_checkpoint, storage, f"{path}/{name}")
        )
        findings += wrong
        if offsets is not None:
            checkpoints[name] = offsets
    partitions: list[PartitionPlace] = []
    every: set[str] = set()
    notes: list[str] = []
    for entry in storage.list_dir(path):
        if not (entry.is_dir or entry.leads_to_dir) or entry.name == REMOTE_INDEX_CACHE:
            continue
        try:
            directory = parse_partition_dir(entry.name)
        except UsageError as error:
            findings.append(scope.finding(Kind.NAME, entry.name, error.what))
            continue
        key = directory.topic_partition
        if directory.kind is not DirectoryKind.CURRENT or key is None:
            notes.append(
                f"{path}/{entry.name} is not checked: it is not the directory of a current "
                f"partition ({directory.kind})"
            )
            continue
        if not directory.has_legal_topic:
            message = (
                "expected a topic name that a broker can write into a checkpoint: only "
                "a-z A-Z 0-9 . _ -"
            )
            findings.append(scope.finding(Kind.NAME, entry.name, message))
        every.add(key.topic)
        if is_wanted(key.topic, topics):
            recovery_point = (
                None if clean else checkpoints.get(RECOVERY_POINT_CHECKPOINT, {}).get(key, 0)
            )
            place = Scope(path, entry.name, key.topic, key.partition)
            log_start = max(0, checkpoints.get(LOG_START_CHECKPOINT, {}).get(key, 0))
            partitions.append(
                PartitionPlace(
                    scope=place, log_start_offset=log_start, recovery_point=recovery_point
                )
            )
    return LogDirCheck(
        findings=tuple(findings),
        partitions=tuple(partitions),
        topics=frozenset(every),
        checkpoints=checkpoints,
        clean_shutdown=clean,
        notes=tuple(notes),
    )
