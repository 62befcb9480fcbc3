"""A whole log directory: identity, checkpoints and list of partitions (S1.1-S1.5). Then each
partition's directory: its file names, its small files, and its logs (S1.2, S1.9, S1.10).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from winnow.errors import FAILS_ONE_PARTITION, CorruptLogError, UsageError
from winnow.logdir.checkpoints import read_leader_epochs, read_offset_checkpoint
from winnow.logdir.commit.leftovers import leftover_names
from winnow.logdir.commit.lost import lost_segments
from winnow.logdir.copies import words_of
from winnow.logdir.meta import is_empty_marker, read_meta, read_topic_id, was_shut_down_cleanly
from winnow.logdir.names import (
    DELETED,
    INDEX_SUFFIXES,
    LEADER_EPOCHS,
    LOG,
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
    is_of_controller,
    parse_partition_dir,
    partitions_beneath,
    seen,
    segment_file,
)
from winnow.logdir.snapshots import read_snapshot
from winnow.logdir.strangers import Copy, duplicates_of, in_place_of_partitions, why_in_doubt
from winnow.logdir.survey import canonical_paths
from winnow.logdir.topic_globs import is_wanted
from winnow.start.nodes.assigned import Assigned
from winnow.state import TopicPartition
from winnow.storage.contract import Entry, Storage
from winnow.storage.guarded import link_target
from winnow.storage.urls import is_remote
from winnow.verbs.verify.findings import Finding, Scope
from winnow.verbs.verify.kinds import Kind
from winnow.verbs.verify.logs import LogFile
from winnow.verbs.verify.metadata_log import check_bootstrap, is_metadata_log, without_deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryCheck:
    findings: tuple[Finding, ...]
    logs: tuple[LogFile, ...] = ()
    """Its segments, ascending, then other files of batches."""
    snapshots: bool = False
    """True if there is a producer snapshot."""


def check_directory(storage: Storage, place: Scope) -> DirectoryCheck:
    """Check everything except the logs and indexes. Never raises for the directory's content."""
    directory = place.directory
    target = None if is_remote(directory) else link_target(directory)
    if target is not None:
        words = f"not checked: a symbolic link to {target}"
        return DirectoryCheck(findings=(place.finding(Kind.LINK, "", words),))
    try:
        entries: Sequence[Entry] = seen(storage.list_dir(directory))
    except FAILS_ONE_PARTITION as error:
        return DirectoryCheck(findings=(place.finding(Kind.UNREADABLE, "", error),))
    sound = _soundly_named(entries)
    lost = tuple(_lost(storage, place, sound))
    if is_metadata_log(place):
        entries, sound = without_deleted(entries), without_deleted(sound)
    files = {entry.name: entry for entry in entries if entry.is_file}
    snapshots = sorted(name for name in files if name.endswith(SNAPSHOT))
    found = [*_names(storage, place, entries, sound), *lost]
    epochs: Sequence[tuple[int, int]] = ()
    with reported(found, place, LEADER_EPOCHS, Kind.LEADER_EPOCHS):
        epochs = read_leader_epochs(storage, directory)
    with reported(found, place, PARTITION_METADATA, Kind.PROPERTIES):
        # A crash leaves an empty file. A broker can't read it (KAFKA-20177). To Winnow's other
        # verbs it tells nothing.
        path = f"{directory}/{PARTITION_METADATA}"
        if read_topic_id(storage, directory) is None and storage.exists(path):
            expected = "version: 0 and a topic_id"
            raise CorruptLogError("partition.metadata is empty", expected=expected, where=path)
    for name in snapshots:
        with reported(found, place, name, Kind.SNAPSHOT):
            read_snapshot(storage, f"{directory}/{name}")
    segments = list(_segments(place, files, newest_epoch=epochs[-1][0] if epochs else None))
    if not segments and not lost and not is_metadata_log(place):
        found.append(place.finding(Kind.MISSING, "", "expected at least one .log file, found none"))
    return DirectoryCheck(
        findings=tuple(found),
        logs=(*segments, *_other_logs(place, files)),
        snapshots=bool(snapshots),
    )


@contextmanager
def reported(found: list[Finding], scope: Scope, name: str, kind: Kind) -> Iterator[None]:
    """Add a finding if the file can't be read."""
    try:
        yield
    except FAILS_ONE_PARTITION as error:
        found.append(scope.finding(kind, name, error))


def _names(
    storage: Storage, scope: Scope, entries: Sequence[Entry], sound: Sequence[Entry]
) -> Iterator[Finding]:
    """`sound`: those of the entries whose names do not hide what the others are."""
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
    try:
        names = {entry.name for entry in sound}
        left = leftover_names(storage, scope.directory, sound)
        of_a_stop = any(name.endswith(DELETED) for name in left) and was_shut_down_cleanly(
            storage, scope.log_dir
        )
        for name in left:
            if of_a_stop and _is_deleted(name, names):
                continue
            yield scope.finding(
                Kind.LEFTOVER, name, "expected no file of an interrupted cleaning or deletion"
            )
    except CorruptLogError as error:
        yield scope.finding(Kind.NAME, "", error)


def _is_deleted(name: str, names: Collection[str]) -> bool:
    """Return whether this is a file of a deletion that was not interrupted. A broker that stops
    cleanly leaves those of the last `file.delete.delay.ms`. It renames the log first, so an index
    without its log shows an interrupted deletion.
    """
    stem = name.partition(".")[0]
    half = f"{stem}{LOG}" not in names and any(
        f"{stem}{suffix}" in names for suffix in INDEX_SUFFIXES
    )
    return name.endswith(DELETED) and not half


def _soundly_named(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries without segment files and snapshots whose name has no offset."""
    return [
        entry
        for entry in entries
        if not entry.name.endswith((*SEGMENT_SUFFIXES, SNAPSHOT)) or _base(entry.name) is not None
    ]


def _lost(storage: Storage, scope: Scope, sound: Sequence[Entry]) -> Iterator[Finding]:
    with suppress(CorruptLogError):  # a `.swap` file without an offset: a finding of its own
        for lost in lost_segments(storage, scope.directory, sound):
            last = None if lost.end_offset is None else lost.end_offset - 1
            message = f"expected the log of a segment, found {lost.evidence}: the log is lost"
            offsets = lost.base_offset, last
            yield scope.finding(Kind.MISSING, lost.log, message, offsets=offsets)


def _base(name: str) -> int | None:
    try:
        return base_offset_of(name)
    except CorruptLogError:
        return None


def _segments(
    place: Scope, files: Mapping[str, Entry], *, newest_epoch: int | None
) -> Iterator[LogFile]:
    bases = sorted(
        base for name in files if name.endswith(LOG) and (base := _base(name)) is not None
    )
    point = place.checkpoints.get(RECOVERY_POINT_CHECKPOINT, 0)
    first = max((base for base in bases if base <= point), default=0)
    for base, following in zip_longest(bases, bases[1:]):
        recovered = place.recovered and base >= first
        yield LogFile(
            scope=place,
            name=segment_file(base, LOG),
            size=files[segment_file(base, LOG)].size,
            base_offset=base,
            following=following,
            recovered=recovered,
            newest_epoch=None if recovered else newest_epoch,
            indexes=frozenset(
                suffix for suffix in INDEX_SUFFIXES if segment_file(base, suffix) in files
            ),
        )


def _other_logs(scope: Scope, files: Mapping[str, Entry]) -> Iterator[LogFile]:
    """Yield logs that a broker would swap in for others, and snapshots of cluster metadata."""
    for name, entry in files.items():
        base = _base(name) if name.endswith(LOG + SWAP) else None
        if scope.topic == METADATA_TOPIC and METADATA_SNAPSHOT.fullmatch(name):
            base = 0
        if base is not None:
            yield LogFile(scope=scope, name=name, size=entry.size, base_offset=base)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirCheck:
    findings: tuple[Finding, ...]
    partitions: tuple[Scope, ...]
    topics: frozenset[str]
    """All topics, also those that were not asked for."""
    notes: tuple[str, ...]
    node_id: int | None = None
    directory_id: str | None = None
    present: frozenset[TopicPartition] = frozenset()
    """All partitions with a directory, current or of a move, also of other topics."""
    checkpoints: Mapping[str, Mapping[TopicPartition, int]] = field(default_factory=dict)
    """By name of the file."""


def duplicates(
    storage: Storage, checked: Sequence[LogDirCheck], assigned: Assigned
) -> Iterator[Finding]:
    """Yield a finding for each directory of a partition that has several on one broker."""
    scopes: dict[str, Scope] = {}
    replicas: list[tuple[int | None, TopicPartition, Copy]] = []
    for log_dir in checked:
        for scope in log_dir.partitions:
            if scope.name is None or scope.topic is None or scope.partition is None:
                continue
            if scope.topic == METADATA_TOPIC:
                continue
            copy = Copy(scope.log_dir, scope.name, log_dir.directory_id, scope.log_start_offset)
            scopes[copy.path] = scope
            topic_partition = TopicPartition(scope.topic, scope.partition)
            replicas.append((log_dir.node_id, topic_partition, copy))
    for (node_id, at), copies in duplicates_of(replicas).items():
        words = words_of(storage, copies, assigned.directory_of(at, node_id))
        for copy in copies:
            yield scopes[copy.path].finding(Kind.DUPLICATE, "", words)


def find_log_dirs(
    storage: Storage, paths: Sequence[str]
) -> tuple[tuple[str, ...], tuple[Finding, ...]]:
    """Return the real paths of the log directories, and a finding for each other path.

    Raises UsageError as `canonical_paths`, and if none of the paths is a log directory.
    """
    found: list[str] = []
    others: list[tuple[str, UsageError]] = []
    unreachable: OSError | None = None
    for path in canonical_paths(storage, paths):
        try:
            if not storage.exists(f"{path}/{META_PROPERTIES}"):
                read_meta(storage, path)
            found.append(path)
        except UsageError as error:
            others.append((path, error))
        except OSError as error:
            others.append((path, why_in_doubt(error, path)))
            unreachable = error if is_remote(path) else None
    if not found:
        # That a server can't be reached is no mistake of the command.
        raise unreachable or others[0][1]
    return tuple(found), tuple(
        Scope(path).finding(Kind.PROPERTIES, META_PROPERTIES, error) for path, error in others
    )


def check_log_dir(storage: Storage, path: str, *, topics: Sequence[str]) -> LogDirCheck:
    """Check a log directory. `topics` are globs; empty means all topics.

    Files of the log directory itself are always checked.
    """
    scope, clean = Scope(path), was_shut_down_cleanly(storage, path)
    findings: list[Finding] = []
    version, meta = 0, None
    with reported(findings, scope, META_PROPERTIES, Kind.PROPERTIES):
        # A broker reads a file that names no owner as one of version 0, but has never written one.
        meta = read_meta(storage, path)
        version = meta.version
        if meta.is_anonymous:
            raise CorruptLogError(
                "meta.properties names no broker",
                expected="broker.id, or node.id and cluster.id",
                found="neither",
                where=f"{path}/{META_PROPERTIES}",
            )
    checkpoints: dict[str, Mapping[TopicPartition, int]] = {}
    for name in OFFSET_CHECKPOINTS:
        with reported(findings, scope, name, Kind.CHECKPOINT):
            checkpoints[name] = read_offset_checkpoint(storage, f"{path}/{name}", strict=True)
    findings += check_bootstrap(storage, scope)
    partitions: list[Scope] = []
    every: set[str] = set()
    others: list[Entry] = []
    current: list[TopicPartition] = []
    beside = 0
    notes: list[str] = []
    entries = seen(storage.list_dir(path))
    for entry in entries:
        if not (entry.is_dir or entry.leads_to_dir):
            others.append(entry)
            continue
        if entry.name == REMOTE_INDEX_CACHE:
            continue
        try:
            directory = parse_partition_dir(entry.name)
        except UsageError as error:
            if is_empty_marker(storage, path, entry):
                continue
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
        current.append(key)
        if is_wanted(key.topic, topics):
            own = {name: found[key] for name, found in checkpoints.items() if key in found}
            place = Scope(path, entry.name, key.topic, key.partition, own, recovered=not clean)
            partitions.append(place)
        beside += key.topic != METADATA_TOPIC
    named = {key for entries in checkpoints.values() for key in entries}
    findings += (
        scope.finding(Kind.NAME, stranger.name, f"it is {stranger.found}")
        for stranger in in_place_of_partitions(others, current, named)
    )
    partitions = [
        replace(place, checkpoints={}, recovered=True, beside=beside if version else 0)
        if is_metadata_log(place)
        else place
        for place in partitions
    ]
    return LogDirCheck(
        findings=_of_names(findings, entries),
        partitions=tuple(partitions),
        topics=frozenset(every),
        notes=tuple(notes),
        node_id=None if meta is None else meta.node_id,
        directory_id=None if meta is None else meta.directory_id,
        present=partitions_beneath(entry.name for entry in entries),
        checkpoints=checkpoints,
    )


def _of_names(findings: Sequence[Finding], entries: Sequence[Entry]) -> tuple[Finding, ...]:
    """Return the findings without those about names that nobody reads."""
    unread = is_of_controller({entry.name for entry in entries})
    return tuple(found for found in findings if not (unread and found.kind is Kind.NAME))
