"""Find the partitions under the given paths, which are log directories or partition directories."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from winnow.errors import UsageError
from winnow.logdir.names import (
    LOG,
    META_PROPERTIES,
    METADATA_TOPIC,
    DirectoryKind,
    parse_partition_dir,
    topic_partition_of,
)
from winnow.logdir.topic_globs import check_globs, is_wanted
from winnow.state import TopicPartition
from winnow.storage.contract import Entry, Storage
from winnow.storage.urls import is_remote, local_path

_MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class Home:
    """A partition directory, and the log directory that contains it."""

    topic_partition: TopicPartition
    directory: str
    log_dir: str


def find_partitions(storage: Storage, paths: Sequence[str]) -> list[Home]:
    """Return partitions sorted by topic and partition.

    For a log directory these are all partitions that its broker would load, except the metadata
    log, which no consumer sees. Raises UsageError for a path that is neither kind of directory, and
    for a partition that is found twice.
    """
    found: dict[TopicPartition, Home] = {}
    for path in paths:
        for home in _look(storage, path):
            other = found.setdefault(home.topic_partition, home)
            if other is not home:
                raise UsageError(
                    f"partition {home.topic_partition} was found twice",
                    expected="one",
                    found=f"{other.directory} and {home.directory}",
                )
    return [found[topic_partition] for topic_partition in sorted(found)]


def chosen(homes: Sequence[Home], topics: Sequence[str], partitions: frozenset[int]) -> list[Home]:
    """Keep topics that match one of the globs and none of those that begin with `!`, and these
    partition numbers.

    Without globs or without numbers, keep all topics or all partitions. Raises UsageError for a
    glob that matches no topic.
    """
    known = {home.topic_partition.topic for home in homes}
    check_globs((glob.removeprefix("!") for glob in topics), known, option="topics")
    without = [glob[1:] for glob in topics if glob.startswith("!")]
    within = [glob for glob in topics if not glob.startswith("!")]
    return [
        home
        for home in homes
        if is_wanted(home.topic_partition.topic, within, without)
        and (not partitions or home.topic_partition.partition in partitions)
    ]


def check_offsets(homes: Sequence[Home], asked: Iterable[TopicPartition], *, option: str) -> None:
    """Raise UsageError if `option` gives an offset for a partition that does not exist."""
    known = [home.topic_partition for home in homes]
    for wanted in set(asked).difference(known):
        own = [str(one) for one in known if one.topic == wanted.topic]
        there = own or sorted({one.topic for one in known})
        more = f" or {len(there) - _MOST_NAMED} more" if len(there) > _MOST_NAMED else ""
        raise UsageError(
            f"{option} names a {'partition' if own else 'topic'} that does not exist",
            expected=", ".join(there[:_MOST_NAMED]) + more,
            found=str(wanted) if own else wanted.topic,
        )


def _look(storage: Storage, path: str) -> Iterator[Home]:
    path = local_path(path)
    directory = storage.canonical(path)
    try:
        entries = storage.list_dir(directory)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(
            "no such directory",
            expected="a log directory or a partition directory, on the driver as on the executors",
            found=str(error.strerror),
            where=path,
            hint=None
            if path.startswith("/") or is_remote(path)
            else "Give an absolute path: Spark's workers run in other directories.",
        ) from error
    if any(entry.is_file and entry.name.endswith(LOG) for entry in entries):
        yield Home(_partition_of(directory), directory, directory.rpartition("/")[0])
        return
    homes = [home for entry in entries if (home := _home(directory, entry)) is not None]
    if not homes and all(entry.name != META_PROPERTIES for entry in entries):
        raise UsageError(
            "not a Kafka log directory, nor a partition's",
            expected=f"directories such as orders-0, or .log files, or a file {META_PROPERTIES}",
            found=f"{len(entries)} other files and directories",
            where=path,
        )
    yield from homes


def _partition_of(directory: str) -> TopicPartition:
    name = directory.rpartition("/")[2]
    found = topic_partition_of(name)
    if found is None:
        raise UsageError(
            "a directory has segments, but its name is not that of a partition",
            expected="TOPIC-PARTITION",
            found=name,
            where=directory,
            hint="Rename or link it.",
        )
    return found


def _home(log_dir: str, entry: Entry) -> Home | None:
    if not entry.is_dir:
        return None
    try:
        parsed = parse_partition_dir(entry.name)
    except UsageError:
        return None
    found = parsed.topic_partition
    if parsed.kind is not DirectoryKind.CURRENT or found is None or not parsed.is_canonical:
        return None
    return (
        None if found.topic == METADATA_TOPIC else Home(found, f"{log_dir}/{entry.name}", log_dir)
    )
