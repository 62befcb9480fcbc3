"""Identify log directories and list their partitions (S1.1-S1.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from winnow.arguments import refused
from winnow.errors import CorruptLogError, UsageError, WinnowError
from winnow.logdir.checkpoints import OFFLINE_HINT, read_offset_checkpoint
from winnow.logdir.meta import MetaProperties, is_empty_marker, read_meta, was_shut_down_cleanly
from winnow.logdir.names import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARK_CHECKPOINT,
    METADATA_TOPIC,
    OFFSET_CHECKPOINTS,
    REMOTE_INDEX_CACHE,
    DirectoryKind,
    is_of_controller,
    parse_partition_dir,
    seen,
)
from winnow.logdir.strangers import (
    Copy,
    Stranger,
    cluster_of,
    duplicates_of,
    in_place_of_partitions,
    meta_of_others,
    of_another_cluster,
    partitions_named,
    why_in_doubt,
    without_owner,
)
from winnow.state import TopicPartition
from winnow.storage.contract import Entry, Storage, read_if_there
from winnow.storage.places import Places
from winnow.storage.urls import is_remote

_WHY_SKIPPED = {
    DirectoryKind.DELETE: "its topic is being deleted; a broker removes it",
    DirectoryKind.FUTURE: "a replica that is being moved between log directories",
    DirectoryKind.STRAY: "a replica that its broker does not expect",
}


@dataclass(frozen=True, slots=True)
class SkippedDirectory:
    name: str
    why: str

    @property
    def has_records(self) -> bool:
        """Return whether records of topics may be in it. A replica has some that a broker is about
        to move or to delete.
        """
        return self.name != REMOTE_INDEX_CACHE and self.topic != METADATA_TOPIC

    @property
    def loaded_as(self) -> TopicPartition | None:
        """Return the partition that a broker loads from it although it would write the name
        otherwise. None for any other directory.
        """
        if self.name == REMOTE_INDEX_CACHE:
            return None
        found = parse_partition_dir(self.name)
        partition = found.topic_partition
        if partition is None or found.is_canonical or partition.topic == METADATA_TOPIC:
            return None
        return partition

    @property
    def topic(self) -> str | None:
        """Return the topic, if the name tells it for certain."""
        found = parse_partition_dir(self.name).topic_partition
        return None if found is None else found.topic


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The four offset checkpoints of a log directory. A missing file counts as empty."""

    cleaner: dict[TopicPartition, int] = field(default_factory=dict)
    """For partitions held here: the lowest entry in any log directory of the broker."""
    log_start: dict[TopicPartition, int] = field(default_factory=dict)
    high_watermark: dict[TopicPartition, int] = field(default_factory=dict)
    recovery_point: dict[TopicPartition, int] = field(default_factory=dict)
    no_high_watermarks: str = "has no entries"
    """Why there is no high watermark at all, said of the file."""

    @property
    def named(self) -> set[TopicPartition]:
        """The partitions that have an entry in any of them."""
        return {*self.cleaner, *self.log_start, *self.high_watermark, *self.recovery_point}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDir:
    path: str
    meta: MetaProperties
    clean_shutdown: bool
    """If False, a broker checks the end of every log again (S8.2)."""
    partitions: tuple[TopicPartition, ...]
    """Also those in `duplicates`, except for directories whose name Kafka would write otherwise."""
    skipped: tuple[SkippedDirectory, ...]
    strangers: tuple[Stranger, ...] = ()
    """Entries that are in the broker's way."""
    duplicates: Mapping[TopicPartition, tuple[Copy, ...]] = field(default_factory=dict)
    """Partitions of this directory that have another directory, too, on the same node: all their
    directories. A broker does not start on them, and no verb changes them.
    """
    checkpoints: Checkpoints
    error: WinnowError | None
    """Set if a checkpoint can't be read, or if the directory is in doubt. It affects every
    partition; `checkpoints` is empty.
    """
    in_doubt: bool = False
    """It is not certain that it is a directory of the broker of the others: see `error`. `meta` is
    that of the others.
    """
    cleaner_file: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The entries of its own `cleaner-offset-checkpoint`."""
    is_of_controller: bool = False
    """Whether the node is only a controller. It reads nothing but the metadata log, so no other
    entry keeps it from starting, and it writes no marker of a clean shutdown.
    """


def survey_log_dirs(
    storage: Storage, log_dirs: Sequence[str], *, to_change: bool = False
) -> tuple[LogDir, ...]:
    """Survey log directories of one or more nodes of one cluster, in the order given. Of several
    directories, those that can't be used are in doubt.

    Raises UsageError as `canonical_paths`, and if no path is a Kafka log directory. `to_change`:
    see `cluster_of`.
    """
    Places().forget()  # of an earlier run
    looked = [(path, _looked_at(storage, path)) for path in canonical_paths(storage, log_dirs)]
    readable = [found for _, found in looked if isinstance(found, LogDir)]
    if not readable:
        path, why = next((path, why) for path, why in looked if not isinstance(why, LogDir))
        # That a server can't be reached is no mistake of the command.
        raise why if isinstance(why, OSError) and is_remote(path) else why_in_doubt(why, path)
    sound = [log_dir for log_dir in readable if not log_dir.meta.is_anonymous] or readable
    cluster = cluster_of([log_dir.meta for log_dir in sound], to_change=to_change)
    alike = [one for one in sound if one.meta.cluster_id in {cluster, None}]
    found = tuple(
        log_dir if log_dir in alike else _in_doubt(storage, path, log_dir, cluster or "", alike)
        for path, log_dir in looked
    )
    found = _with_duplicates(found)
    return tuple(_with_cleaner_of_broker(log_dir, found) for log_dir in found)


def _looked_at(storage: Storage, path: str) -> LogDir | WinnowError | OSError:
    try:
        return _survey(storage, path)
    except (UsageError, OSError) as error:
        if is_remote(path):
            raise
        return error


def _in_doubt(
    storage: Storage,
    path: str,
    found: LogDir | WinnowError | OSError,
    cluster: str,
    alike: Sequence[LogDir],
) -> LogDir:
    """`alike`: the directories of the cluster, which are not in doubt."""
    partitions: tuple[TopicPartition, ...] = ()
    if isinstance(found, LogDir) and found.meta.is_anonymous:
        error, partitions = without_owner(path), found.partitions
    elif isinstance(found, LogDir):
        # Its partitions are others, although they may have the same names.
        error = of_another_cluster(path, found.meta, cluster)
    else:
        error, partitions = why_in_doubt(found, path), partitions_named(storage, path)
    return LogDir(
        path=path,
        meta=meta_of_others([log_dir.meta for log_dir in alike]),
        clean_shutdown=False,
        partitions=partitions,
        skipped=(),
        checkpoints=Checkpoints(),
        error=error,
        in_doubt=True,
    )


def _with_duplicates(found: Sequence[LogDir]) -> tuple[LogDir, ...]:
    replicas = (
        (log_dir.meta.node_id, topic_partition, _copy(log_dir, name, topic_partition))
        for log_dir in found
        for name, topic_partition in (
            *((str(topic_partition), topic_partition) for topic_partition in log_dir.partitions),
            *((one.name, one.loaded_as) for one in log_dir.skipped if one.loaded_as is not None),
        )
    )
    duplicates = duplicates_of(replicas)
    return tuple(
        replace(
            log_dir,
            duplicates={
                topic_partition: copies
                for (node_id, topic_partition), copies in duplicates.items()
                if node_id == log_dir.meta.node_id
                and any(copy.log_dir == log_dir.path for copy in copies)
            },
        )
        for log_dir in found
    )


def _copy(log_dir: LogDir, name: str, topic_partition: TopicPartition) -> Copy:
    start = log_dir.checkpoints.log_start.get(topic_partition, 0)
    return Copy(log_dir.path, name, log_dir.meta.directory_id, start)


def canonical_paths(storage: Storage, log_dirs: Sequence[str]) -> tuple[str, ...]:
    """Return the real paths. Raises UsageError if there are none, for anything but texts, and for a
    directory given twice.
    """
    if isinstance(log_dirs, str) or not all(isinstance(path, str) for path in log_dirs):
        raise refused("log_dirs", "a list of texts", log_dirs)
    if not log_dirs or not all(log_dirs):
        raise UsageError(
            "the name of a log directory is empty" if log_dirs else "no log directory was given",
            expected="the directories of the broker's log.dirs",
            hint="Is a variable empty, or does a pattern match nothing?",
        )
    paths = tuple(storage.canonical(path) for path in log_dirs)
    for given, path in zip(log_dirs, paths, strict=True):
        if paths.count(path) > 1:
            raise UsageError(
                "a log directory was given twice",
                found=given,
                where=path,
                hint="Name each one once.",
            )
    return paths


def _with_cleaner_of_broker(log_dir: LogDir, found: Sequence[LogDir]) -> LogDir:
    """A broker reads the cleaner checkpoints of all its directories together. Of two entries the
    lower one is safe: the part above it is cleaned again (S8.7).
    """
    if log_dir.error is not None:
        return log_dir
    files = [one.cleaner_file for one in found if one.meta.node_id == log_dir.meta.node_id]
    cleaner = dict(log_dir.checkpoints.cleaner)
    for partition in log_dir.partitions:
        if offsets := [file[partition] for file in files if partition in file]:
            cleaner[partition] = min(offsets)
    return replace(log_dir, checkpoints=replace(log_dir.checkpoints, cleaner=cleaner))


def _survey(storage: Storage, path: str) -> LogDir:
    return survey_as(storage, path, read_meta(storage, path))


def survey_as(storage: Storage, path: str, meta: MetaProperties) -> LogDir:
    """Survey a directory as one whose `meta.properties` says this."""
    partitions: list[TopicPartition] = []
    skipped: list[SkippedDirectory] = []
    strangers: list[Stranger] = []
    others: list[Entry] = []
    entries = seen(storage.list_dir(path))
    for entry in entries:
        # A partition that is a link is reported as one.
        if not (entry.is_dir or entry.leads_to_dir):
            others.append(entry)
            continue
        try:
            found = _partition_or_why(entry.name)
        except UsageError:
            if is_empty_marker(storage, path, entry):
                continue
            if entry.name == CLEAN_SHUTDOWN and entry.is_dir:
                strangers.append(Stranger(entry.name, "a directory with files", stops_broker=False))
                continue
            what = "a directory" if entry.is_dir else "a link to a directory"
            found = f"{what} whose name is not that of a partition"
            strangers.append(Stranger(entry.name, found, stops_broker=True))
            continue
        if isinstance(found, TopicPartition):
            partitions.append(found)
        else:
            skipped.append(SkippedDirectory(entry.name, found))
    error: CorruptLogError | None = None
    checkpoints = Checkpoints()
    try:
        cleaner, *rest = (
            read_offset_checkpoint(storage, f"{path}/{name}") for name in OFFSET_CHECKPOINTS
        )
        # Negative offsets count as 0. Only a reset of the cleaner's is reported (S3.2).
        starts, committed, recovered = (
            {key: max(0, offset) for key, offset in each.items()} for each in rest
        )
        why = "" if committed else _why_empty(storage, f"{path}/{HIGH_WATERMARK_CHECKPOINT}")
        checkpoints = Checkpoints(cleaner, starts, committed, recovered, why)
    except CorruptLogError as problem:
        error = problem
    except OSError as problem:
        where = None if problem.filename is None else str(problem.filename)
        error = CorruptLogError(
            "a checkpoint can't be read", found=problem.strerror, where=where, hint=OFFLINE_HINT
        )
    strangers += in_place_of_partitions(others, partitions, checkpoints.named)
    of_controller = is_of_controller({entry.name for entry in entries})
    return LogDir(
        path=path,
        meta=meta,
        clean_shutdown=was_shut_down_cleanly(storage, path),
        partitions=tuple(sorted(partitions)),
        skipped=tuple(skipped),
        strangers=() if of_controller else tuple(strangers),
        checkpoints=checkpoints,
        error=error,
        cleaner_file=checkpoints.cleaner,
        is_of_controller=of_controller,
    )


def _why_empty(storage: Storage, path: str) -> str:
    """Return why there would be no entry in a checkpoint."""
    data = read_if_there(storage, path)
    return "is missing" if data is None else "has no entries" if data else "is empty"


def replicas_beside(storage: Storage, path: str) -> list[SkippedDirectory]:
    """Return the directories that have records, but are no partitions that a broker would load."""
    found = []
    for entry in storage.list_dir(path):
        with suppress(UsageError):  # no directory of Kafka's
            why = _partition_or_why(entry.name) if entry.is_dir else None
            if isinstance(why, str):
                found.append(SkippedDirectory(entry.name, why))
    return [one for one in found if one.has_records]


def _partition_or_why(name: str) -> TopicPartition | str:
    """Return the partition of a sub-directory, or why it is skipped. UsageError for any other."""
    if name == REMOTE_INDEX_CACHE:
        return "the index cache of tiered storage"
    directory = parse_partition_dir(name)
    if directory.kind is not DirectoryKind.CURRENT or directory.topic_partition is None:
        return _WHY_SKIPPED[directory.kind]
    if not directory.has_legal_topic:
        return "not a legal topic name"
    if directory.topic_partition.topic == METADATA_TOPIC:
        return "the cluster's metadata log"
    if not directory.is_canonical:
        return f"Kafka would name it {directory.topic_partition}"
    return directory.topic_partition


def strangers_in(log_dirs: Sequence[LogDir]) -> tuple[str, ...]:
    """Return a text for each stranger: what it is, what a broker does, and what to do. Before them,
    why log directories are in doubt.
    """
    strangers = (one.words(log_dir.path) for log_dir in log_dirs for one in log_dir.strangers)
    return (*doubts_in(log_dirs), *strangers)


def doubts_in(log_dirs: Sequence[LogDir]) -> tuple[str, ...]:
    return tuple(f"{d.path} is left alone: {d.error}" for d in log_dirs if d.in_doubt)


def topics_of(log_dirs: Sequence[LogDir]) -> set[str]:
    return {tp.topic for log_dir in log_dirs for tp in log_dir.partitions}


def check_one_node(log_dirs: Sequence[LogDir], what: str) -> None:
    """Raise UsageError for log directories of several nodes, for a verb that works on one."""
    known = [log_dir for log_dir in log_dirs if log_dir.meta.node_id is not None]
    for log_dir in known:
        first = known[0]
        if log_dir.meta.node_id != first.meta.node_id:
            raise UsageError(
                "log directories of different node.id",
                expected=f"{first.meta.node_id} as in {first.path}",
                found=str(log_dir.meta.node_id),
                where=log_dir.path,
                hint=f"{what} takes the directories of one broker at a time.",
            )
