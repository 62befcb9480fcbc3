"""Find the partitions under the given paths, which are log directories or partition directories."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from winnow.errors import CorruptLogError, UsageError
from winnow.logdir.names import LOG, META_PROPERTIES, METADATA_TOPIC, topic_partition_of
from winnow.logdir.topic_globs import check_globs, is_wanted
from winnow.state import TopicPartition
from winnow.storage.contract import Storage
from winnow.storage.urls import is_remote, local_path

_MOST_NAMED = 10
_OTHER_PATHS = (
    "Nothing was read: a result without a path would look complete. Correct the path, or give only "
    "the others."
)


@dataclass(frozen=True, slots=True)
class LogHome:
    """A partition directory, and the log directory that contains it."""

    topic_partition: TopicPartition
    directory: str
    log_dir: str
    problem: CorruptLogError | None = None
    """Why it is unknown which records the partition has: it has other directories, too."""


def find_partitions(storage: Storage, paths: Sequence[str]) -> list[LogHome]:
    """Return partitions sorted by topic and partition.

    For a log directory these are all partitions that its broker would load, except the metadata
    log, which no consumer sees. A partition that has several directories has a problem. Raises
    UsageError for paths that are neither kind of directory, and for a directory that is found
    twice.
    """
    found: dict[TopicPartition, list[LogHome]] = {}
    for looked in _look_at_all(storage, paths):
        for home in looked:
            homes = found.setdefault(home.topic_partition, [])
            if any(other.directory == home.directory for other in homes):
                raise UsageError(
                    f"partition {home.topic_partition} was found twice",
                    expected="each directory once",
                    found=f"{home.directory} twice",
                )
            homes.append(home)
    return [_one_of(found[topic_partition]) for topic_partition in sorted(found)]


def _one_of(homes: Sequence[LogHome]) -> LogHome:
    if len(homes) == 1:
        return homes[0]
    problem = CorruptLogError(
        f"partition {homes[0].topic_partition} has several directories",
        expected="a single one",
        found=" and ".join(home.directory for home in homes),
        hint="Give only the directory of the partition that you mean.",
    )
    return replace(homes[0], problem=problem)


def chosen(
    homes: Sequence[LogHome], topics: Sequence[str], partitions: frozenset[int]
) -> list[LogHome]:
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


def check_offsets(
    homes: Sequence[LogHome], asked: Iterable[TopicPartition], *, option: str
) -> None:
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


def _look_at_all(storage: Storage, paths: Sequence[str]) -> list[list[LogHome]]:
    """Look at each path. Raises UsageError for all that can't be used: without them the answer
    would lack partitions, and no row could say so.
    """
    looked, wrong = [], list[UsageError]()
    for path in paths:
        try:
            looked.append(_look(storage, path))
        except UsageError as error:
            wrong.append(error)
    if len(wrong) == 1:
        raise wrong[0].like(UsageError, hint=wrong[0].hint or _OTHER_PATHS) if looked else wrong[0]
    if wrong:
        raise UsageError(
            f"{len(wrong)} of {len(paths)} paths can't be read",
            expected="log directories or partition directories",
            found="; ".join(f"{error.where}: {error.what}" for error in wrong),
            hint=_OTHER_PATHS,
        )
    return looked


def _look(storage: Storage, path: str) -> list[LogHome]:
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
        log_dir, _, name = directory.rpartition("/")
        found = topic_partition_of(name)
        if found is None:
            raise UsageError(
                "a directory has segments, but its name is not that of a partition",
                expected="TOPIC-PARTITION",
                found=name,
                where=directory,
                hint="Rename or link it.",
            )
        return [LogHome(found, directory, log_dir)]
    named = [(topic_partition_of(entry.name), entry.name) for entry in entries if entry.is_dir]
    homes = [
        LogHome(found, f"{directory}/{name}", directory)
        for found, name in named
        if found is not None and name == str(found) and found.topic != METADATA_TOPIC
    ]
    if not homes and all(entry.name != META_PROPERTIES for entry in entries):
        raise UsageError(
            "not a Kafka log directory, nor a partition's",
            expected=f"directories such as orders-0, or .log files, or a file {META_PROPERTIES}",
            found=f"{len(entries)} other files and directories",
            where=path,
        )
    return homes
