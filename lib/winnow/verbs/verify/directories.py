"""A whole log directory: identity, checkpoints and list of partitions (S1.1-S1.5). Then each
partition's directory: its file names, its small files, and its logs (S1.2, S1.9, S1.10).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import TypeVar

from winnow.errors import FAILS_ONE_PARTITION, CorruptLogError, UsageError
from winnow.logdir.checkpoints import read_leader_epochs, read_offset_checkpoint
from winnow.logdir.commit.recovery import leftover_names
from winnow.logdir.meta import read_meta, was_shut_down_cleanly
from winnow.logdir.names import (
    INDEX_SUFFIXES,
    LEADER_EPOCHS,
    LOG,
    LOG_START_CHECKPOINT,
    META_PROPERTIES,
    METADATA_SNAPSHOT,
    METADATA_TOPIC,
    OFFSET_CHECKPOINTS,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    REMOTE_INDEX_CACHE,
    SEGMENT_SUFFIXES,
    SNAPSHOT,
    SWAP,
    DirectoryKind,
    base_offset_of,
    parse_partition_dir,
    segment_file,
)
from winnow.logdir.partition_metadata import read_topic_id
from winnow.logdir.snapshots import read_snapshot
from winnow.logdir.survey import canonical_paths
from winnow.logdir.topic_globs import is_wanted
from winnow.state import TopicPartition
from winnow.storage.contract import Entry, Storage
from winnow.verbs.verify.findings import Finding, Scope
from winnow.verbs.verify.kinds import Kind
from winnow.verbs.verify.logs import LogFile
from winnow.verbs.verify.segments import SegmentFiles

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPlace:
    scope: Scope
    log_start_offset: int
    """From the checkpoint; 0 if it has none."""
    recovery_point: int | None
    """After an unclean shutdown, where a starting broker begins to check the log (S8.2). None after
    a clean one.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryCheck:
    findings: tuple[Finding, ...]
    logs: tuple[SegmentFiles, ...] = ()
    """Its segments, ascending, then other files of batches."""
    segments: int = 0
    """How many of `logs` are segments."""
    snapshots: bool = False
    """True if there is a producer snapshot."""


def check_directory(storage: Storage, place: PartitionPlace) -> DirectoryCheck:
    """Check everything except the logs and indexes. Never raises for the directory's content."""
    scope = place.scope
    try:
        entries = storage.list_dir(scope.directory)
    except FAILS_ONE_PARTITION as error:
        return DirectoryCheck(findings=(scope.finding(Kind.UNREADABLE, "", error),))
    files = {entry.name: entry for entry in entries if entry.is_file}
    found = list(_names(scope, entries))
    wrong, epochs = reading(
        scope,
        LEADER_EPOCHS,
        Kind.LEADER_EPOCHS,
        partial(read_leader_epochs, storage, scope.directory),
    )
    found += wrong
    found += reading(
        scope,
        PARTITION_METADATA,
        Kind.PROPERTIES,
        partial(_check_topic_id, storage, scope.directory),
    )[0]
    for name in sorted(files):
        if name.endswith(SNAPSHOT):
            read = partial(read_snapshot, storage, f"{scope.directory}/{name}")
            found += reading(scope, name, Kind.SNAPSHOT, read)[0]
    segments = _segments(place, files, newest_epoch=epochs[-1][0] if epochs else None)
    if not segments:
        found.append(scope.finding(Kind.MISSING, "", "expected at least one .log file, found none"))
    return DirectoryCheck(
        findings=tuple(found),
        logs=(*segments, *_other_logs(scope, files)),
        segments=len(segments),
        snapshots=any(name.endswith(SNAPSHOT) for name in files),
    )


def reading(
    scope: Scope, name: str, kind: Kind, read: Callable[[], _T]
) -> tuple[list[Finding], _T | None]:
    """Read a small file; return what is wrong with it, and its content."""
    try:
        return [], read()
    except FAILS_ONE_PARTITION as error:
        return [scope.finding(kind, name, error)], None


def _names(scope: Scope, entries: Sequence[Entry]) -> Iterator[Finding]:
    for entry in entries:
        if not entry.name.endswith((*SEGMENT_SUFFIXES, SNAPSHOT)):
            continue
        if not entry.is_file:
            found = "a directory" if entry.is_dir else "a broken link or a special file"
            yield scope.finding(Kind.UNREADABLE, entry.name, f"expected a file, found {found}")
        elif _base(entry.name) is None:
            yield scope.finding(
                Kind.NAME, entry.name, "expected a name that begins with an offset of 20 digits"
            )
    sound = [
        e
        for e in entries
        if not e.name.endswith((*INDEX_SUFFIXES, SNAPSHOT)) or _base(e.name) is not None
    ]
    try:
        for name in leftover_names(sound):
            yield scope.finding(
                Kind.LEFTOVER, name, "expected no file of an interrupted cleaning or deletion"
            )
    except CorruptLogError as error:
        yield scope.finding(Kind.NAME, "", error)


def _base(name: str) -> int | None:
    try:
        return base_offset_of(name)
    except CorruptLogError:
        return None


def _segments(
    place: PartitionPlace, files: dict[str, Entry], *, newest_epoch: int | None
) -> list[SegmentFiles]:
    bases = sorted(
        base for name in files if name.endswith(LOG) and (base := _base(name)) is not None
    )
    recovered_from = None
    if place.recovery_point is not None:
        recovered_from = max((base for base in bases if base <= place.recovery_point), default=0)
    segments = []
    for base, following in zip_longest(bases, bases[1:]):
        recovered = recovered_from is not None and base >= recovered_from
        log = LogFile(
            scope=place.scope,
            name=segment_file(base, LOG),
            size=files[segment_file(base, LOG)].size,
            base_offset=base,
            following=following,
            recovered=recovered,
            newest_epoch=None if recovered else newest_epoch,
            log_start_offset=place.log_start_offset,
        )
        indexes = frozenset(
            suffix for suffix in INDEX_SUFFIXES if segment_file(base, suffix) in files
        )
        segments.append(SegmentFiles(log, indexes))
    return segments


def _other_logs(scope: Scope, files: dict[str, Entry]) -> Iterator[SegmentFiles]:
    """Yield logs that a broker would swap in for others, and snapshots of cluster metadata."""
    for name, entry in files.items():
        base = _base(name) if name.endswith(LOG + SWAP) else None
        if scope.topic == METADATA_TOPIC and METADATA_SNAPSHOT.fullmatch(name):
            base = 0
        if base is not None:
            yield SegmentFiles(LogFile(scope=scope, name=name, size=entry.size, base_offset=base))


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


def _check_topic_id(storage: Storage, directory: str) -> None:
    """Raise CorruptLogError also for an empty file, which a crash leaves. A broker can't read it
    (KAFKA-20177); to Winnow's other verbs it tells nothing.
    """
    path = f"{directory}/{PARTITION_METADATA}"
    if read_topic_id(storage, directory) is None and storage.exists(path):
        raise CorruptLogError(
            "partition.metadata is empty", expected="version: 0 and a topic_id", where=path
        )


def _check_meta(storage: Storage, log_dir: str) -> None:
    """Raise CorruptLogError also for a file that names no owner. A broker reads it as one of
    version 0, but has never written such a file.
    """
    meta = read_meta(storage, log_dir)
    if meta.is_anonymous:
        raise CorruptLogError(
            "meta.properties names no broker",
            expected="broker.id, or node.id and cluster.id",
            found="neither",
            where=f"{log_dir}/{META_PROPERTIES}",
        )


def check_log_dir(storage: Storage, path: str, *, topics: Sequence[str]) -> LogDirCheck:
    """Check a log directory. `topics` are globs; empty means all topics.

    Files of the log directory itself are always checked.
    """
    scope = Scope(path)
    clean = was_shut_down_cleanly(storage, path)
    findings, _ = reading(
        scope, META_PROPERTIES, Kind.PROPERTIES, partial(_check_meta, storage, path)
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
