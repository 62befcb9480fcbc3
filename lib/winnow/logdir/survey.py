"""Identify log directories and list their partitions (S1.1-S1.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from winnow.arguments import refused
from winnow.errors import CorruptLogError, UsageError
from winnow.logdir.checkpoints import read_offset_checkpoint
from winnow.logdir.meta import MetaProperties, read_meta, was_shut_down_cleanly
from winnow.logdir.names import (
    HIGH_WATERMARK_CHECKPOINT,
    METADATA_TOPIC,
    OFFSET_CHECKPOINTS,
    REMOTE_INDEX_CACHE,
    DirectoryKind,
    parse_partition_dir,
)
from winnow.state import TopicPartition
from winnow.storage.contract import Storage, read_if_there
from winnow.storage.places import Places

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


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDir:
    path: str
    meta: MetaProperties
    clean_shutdown: bool
    """If False, a broker checks the end of every log again (S8.2)."""
    partitions: tuple[TopicPartition, ...]
    skipped: tuple[SkippedDirectory, ...]
    checkpoints: Checkpoints
    error: CorruptLogError | None
    """Set if a checkpoint is malformed. It affects every partition; `checkpoints` is empty."""
    cleaner_file: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The entries of its own `cleaner-offset-checkpoint`."""


def survey_log_dirs(storage: Storage, log_dirs: Sequence[str]) -> tuple[LogDir, ...]:
    """Survey log directories of one or more nodes of one cluster, in the order given.

    Raises UsageError as `canonical_paths`, for a path that is not a Kafka log directory, a
    sub-directory that would keep a broker from starting, directories of different clusters, and a
    partition in two directories of the same node.
    """
    Places().forget()  # of an earlier run
    paths = canonical_paths(storage, log_dirs)
    found = tuple(_survey(storage, path) for path in paths)
    clusters = [log_dir.meta.cluster_id for log_dir in found]
    _check_same(found, "cluster.id", clusters, "Work on the brokers of one cluster at a time.")
    homes: dict[tuple[int | None, TopicPartition], str] = {}
    for log_dir in found:
        for topic_partition in log_dir.partitions:
            home = homes.setdefault((log_dir.meta.node_id, topic_partition), log_dir.path)
            if home != log_dir.path:
                raise UsageError(
                    f"partition {topic_partition} is in two log directories of one broker",
                    expected="one",
                    found=f"{home} and {log_dir.path}",
                    hint="A broker would refuse to start; find out which one is current.",
                )
    return tuple(_with_cleaner_of_broker(log_dir, found) for log_dir in found)


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
    meta = read_meta(storage, path)
    partitions: list[TopicPartition] = []
    skipped: list[SkippedDirectory] = []
    for entry in storage.list_dir(path):
        # A partition that is a link is reported as one.
        if not (entry.is_dir or entry.leads_to_dir):
            continue
        try:
            found = _partition_or_why(entry.name)
        except UsageError as refusal:
            raise refusal.at(path) from None
        if isinstance(found, TopicPartition):
            partitions.append(found)
        else:
            skipped.append(SkippedDirectory(entry.name, found))
    error: CorruptLogError | None = None
    checkpoints = Checkpoints()
    try:
        cleaner, *others = (
            read_offset_checkpoint(storage, f"{path}/{name}") for name in OFFSET_CHECKPOINTS
        )
        # Negative offsets count as 0. Only a reset of the cleaner's is reported (S3.2).
        starts, committed, recovered = (
            {key: max(0, offset) for key, offset in each.items()} for each in others
        )
        why = "" if committed else _why_empty(storage, f"{path}/{HIGH_WATERMARK_CHECKPOINT}")
        checkpoints = Checkpoints(cleaner, starts, committed, recovered, why)
    except CorruptLogError as problem:
        error = problem
    return LogDir(
        path=path,
        meta=meta,
        clean_shutdown=was_shut_down_cleanly(storage, path),
        partitions=tuple(sorted(partitions)),
        skipped=tuple(skipped),
        checkpoints=checkpoints,
        error=error,
        cleaner_file=checkpoints.cleaner,
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


def topics_of(log_dirs: Sequence[LogDir]) -> set[str]:
    return {tp.topic for log_dir in log_dirs for tp in log_dir.partitions}


def check_one_node(log_dirs: Sequence[LogDir], what: str) -> None:
    """Raise UsageError for log directories of several nodes, for a verb that works on one."""
    nodes = [log_dir.meta.node_id for log_dir in log_dirs]
    hint = f"{what} takes the directories of one broker at a time."
    _check_same(log_dirs, "node.id", nodes, hint)


def _check_same(
    log_dirs: Sequence[LogDir], what: str, ids: Sequence[str | int | None], hint: str
) -> None:
    known = [
        (log_dir, each) for log_dir, each in zip(log_dirs, ids, strict=True) if each is not None
    ]
    for log_dir, other in known:
        first, wanted = known[0]
        if other != wanted:
            raise UsageError(
                f"log directories of different {what}",
                expected=f"{wanted} as in {first.path}",
                found=str(other),
                where=log_dir.path,
                hint=hint,
            )
