"""What a broker reads when it starts, and Winnow does not: it was not given, or it is behind a
symbolic link, which a broker follows. No start is promised then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain

from winnow.errors import FAILS_ONE_PARTITION, CorruptLogError, LinkError
from winnow.logdir.metadata import METADATA_DIR
from winnow.logdir.names import (
    BOOTSTRAP_CHECKPOINT,
    CLEAN_SHUTDOWN,
    META_PROPERTIES,
    METADATA_TOPIC,
    OFFSET_CHECKPOINTS,
    partitions_beneath,
)
from winnow.logdir.survey import LogDir
from winnow.runtime.no_space import FREE_INODES
from winnow.start.loaded import LogToLoad
from winnow.start.named import Named
from winnow.start.rights import why_not_used
from winnow.start.values import Fate, LogStart
from winnow.state import TopicPartition
from winnow.storage.contract import Storage, entry_if_there
from winnow.storage.guarded import status_of
from winnow.storage.links import link_target
from winnow.words import counted, first_few, size

_MOST = 5
_LEAST_BYTES = 4096
"""The size of a block. A file system with fewer free bytes may have no free block."""


def unseen(
    storage: Storage,
    log_dirs: Sequence[LogDir],
    named: Named,
    *,
    registered: Sequence[str],
    without_metadata: bool,
    refused: Collection[str],
) -> Iterator[str]:
    """Yield what the broker reads and was not looked at, with what to give.

    `registered`: `directory.id` of each log directory with which the broker started last, if that
    is known. `without_metadata`: the broker has a metadata log, and nothing shows where. `refused`:
    log directories that the broker does not use.
    """
    yield from named.unclear
    given = {log_dir.path for log_dir in log_dirs}
    present = {at for log_dir in log_dirs for at in log_dir.partitions}
    for path in named.not_given(given):
        if path in named.log_dirs and path not in refused:
            twice = [str(at) for at in partitions_in(storage, path) or () if at in present]
            also = f" It has {first_few(twice, _MOST)}, too." if twice else ""
            yield (
                f"{path} was not given, and {named.file} names it in log.dirs.{also} What a start "
                "does is known only if all log directories of the broker are given: give it, too"
            )
    if not named.log_dirs and not named.unclear:
        yield from _not_given(log_dirs, registered)
    if without_metadata and not named.unclear:
        yield (
            f"no given directory has the {METADATA_DIR} that the broker reads: which partitions it "
            "sets aside is not known. Give all log directories of the broker, or its "
            "--server-properties FILE, which names metadata.log.dir or log.dirs"
        )


def registered_besides(log_dirs: Sequence[LogDir], registered: Sequence[str]) -> list[str]:
    """Return the `directory.id` of each log directory with which the broker started last, and that
    is none of `log_dirs`. Empty also if these do not all have one.
    """
    known = [log_dir.meta.directory_id for log_dir in log_dirs]
    return [] if None in known else [one for one in registered if one not in known]


def _not_given(log_dirs: Sequence[LogDir], registered: Sequence[str]) -> Iterator[str]:
    others = registered_besides(log_dirs, registered)
    if others:
        yield (
            f"the broker started last with {counted(len(registered), 'log directory')}, and of "
            f"these directory.id {first_few(others, _MOST)} was not given. Give all of them, or "
            "--server-properties FILE, if they are others now"
        )


def metadata_place_problems(
    storage: Storage, home: str | None, log_dirs: Collection[str]
) -> Iterator[str]:
    """Yield why the broker can't use the directory of its metadata log, if that is none of its log
    directories, which are checked themselves.
    """
    if home is None or home in log_dirs or not storage.exists(home):
        return
    if full := why_nothing_is_written(storage, home):
        yield full
    if forbidden := why_not_used(home):
        yield forbidden.words
    if storage.volume(home).read_only:
        yield f"{home} is on a file system that is read-only"


def why_nothing_is_written(storage: Storage, log_dir: str) -> str | None:
    """Return why a broker can write no file into a log directory, or None. It writes the leader
    epochs of each log that it leads when it starts, and the checkpoints some seconds later. It
    removes the marker of a clean shutdown first, so that one file after the other may fit.
    """
    free = _free_for_owner(storage, log_dir)
    if free < _LEAST_BYTES:
        return (
            f"the file system of {log_dir} has {size(free)} free for the broker, which writes "
            "leader epochs there when it starts. Free some space first"
        )
    if storage.volume(log_dir).free_files == 0:
        return (
            f"the file system of {log_dir} has no free inode, and the broker writes leader epochs "
            f"there when it starts, in new files. {FREE_INODES}"
        )
    return None


def _free_for_owner(storage: Storage, directory: str) -> int:
    """Return the bytes that the owner of a directory may still write: root also those that the file
    system reserves.
    """
    volume = storage.volume(directory)
    if volume.used_bytes is None or status_of(directory).st_uid != 0:
        return volume.free_bytes
    return volume.total_bytes - volume.used_bytes


def partitions_in(storage: Storage, path: str) -> tuple[TopicPartition, ...] | None:
    """Return the partitions with a directory there, none for a path that does not exist. None: it
    can't be listed.
    """
    try:
        entries = storage.list_dir(path)
    except FileNotFoundError:
        return ()
    except FAILS_ONE_PARTITION:
        return None
    found = partitions_beneath(entry.name for entry in entries)
    return tuple(sorted(at for at in found if at.topic != METADATA_TOPIC))


def links_in(storage: Storage, log_dirs: Sequence[LogDir], home: str | None) -> Iterator[str]:
    """Yield the paths of links in place of what a broker reads besides the partitions.

    `home`: the log directory with the metadata log.
    """
    for log_dir in log_dirs:
        for name in (META_PROPERTIES, CLEAN_SHUTDOWN, *OFFSET_CHECKPOINTS):
            if _is_link(storage, f"{log_dir.path}/{name}"):
                yield f"{log_dir.path}/{name}"
    if home is not None:
        yield from _of_metadata_log(storage, home)


def undecided(logs: Sequence[LogToLoad], starts: Mapping[str, Sequence[LogStart]]) -> Iterator[str]:
    """Yield the directories of logs whose fate is unknown because of a link, or because other nodes
    have the records that decide.
    """
    linked = {log.directory for log in logs if log.behind_link}
    for start in chain.from_iterable(starts.values()):
        directory = f"{start.log_dir}/{start.name}"
        if start.fate is Fate.UNKNOWN and (directory in linked or start.by_other_nodes):
            yield directory


def check_metadata_log(storage: Storage, log_dir: str) -> None:
    """Raise LinkError if there are links in place of the metadata log of a log directory, or of its
    files. Raise CorruptLogError for a link that leads nowhere: the broker does not start.
    """
    link = next(_of_metadata_log(storage, log_dir), None)
    if link is None:
        return
    target = link_target(link)
    if link == f"{log_dir}/{METADATA_DIR}" and not _leads_to_dir(storage, log_dir, METADATA_DIR):
        raise CorruptLogError(
            f"{link} is a symbolic link that leads to no directory ({target})",
            hint="A broker does not start. Is the disk of the target mounted?",
        )
    raise LinkError(
        f"{link} is a symbolic link to {target}, which a broker follows and Winnow does not: which "
        "partitions the broker sets aside is not known",
        hint="Mount the target in place of the link, or give a copy of the log directory that has "
        "the files",
    )


def _of_metadata_log(storage: Storage, log_dir: str) -> Iterator[str]:
    directory = f"{log_dir}/{METADATA_DIR}"
    if _is_link(storage, directory):
        yield directory
        return
    if _is_link(storage, f"{log_dir}/{BOOTSTRAP_CHECKPOINT}"):
        yield f"{log_dir}/{BOOTSTRAP_CHECKPOINT}"
    with suppress(OSError):  # said of the metadata log as a whole
        for entry in storage.list_dir(directory):
            if entry.is_link:
                yield f"{directory}/{entry.name}"


def _leads_to_dir(storage: Storage, parent: str, name: str) -> bool:
    return any(entry.name == name and entry.leads_to_dir for entry in storage.list_dir(parent))


def _is_link(storage: Storage, path: str) -> bool:
    with suppress(OSError, LinkError):  # in a log directory that can't be looked into
        found = entry_if_there(storage, path)
        return found is not None and found.is_link
    return False
