"""What the directories of a partition hold that has several, and which the controller means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from winnow.errors import FAILS_ONE_PARTITION, UsageError
from winnow.logdir.files import segment_of
from winnow.logdir.meta import read_topic_id
from winnow.logdir.names import LOG, DirectoryKind, base_offset_of, parse_partition_dir
from winnow.logdir.strangers import Copy
from winnow.logdir.unflushed import whole_end
from winnow.storage.contract import Storage
from winnow.words import moment

NO_LOG = "no .log file"
"""What the words say of a copy without segments."""


def words_of(storage: Storage, copies: Sequence[Copy], assigned: str | None) -> str:
    """Return where the copies are, what they hold, which one the controller means, and what to do.

    `assigned`: the id of the partition's directory by the metadata log; None if it is unknown.
    """
    two = len({copy.log_dir for copy in copies}) == len(copies) == 2
    where = "two log directories" if two else f"{len(copies)} directories"
    held = " and ".join(f"{copy.path} ({_held(storage, copy)})" for copy in copies)
    words = (
        f"it is in {where} of one broker: {held}. A broker does not start on them "
        '("Duplicate log directories"). '
    )
    meant = [copy for copy in copies if assigned is not None and copy.directory_id == assigned]
    if len(meant) == 1:
        words += (
            f"The controller means {meant[0].path}: the metadata log has its directory.id "
            f"{assigned}. Compare the offsets, then move the other directory"
        )
    elif assigned is not None:
        words += (
            f"The metadata log has directory.id {assigned}, of another log directory. Compare "
            "offsets and times, then move the older directory"
        )
    else:
        words += "Compare offsets and times, then move the older directory"
    return f"{words} elsewhere. Delete it only when the other has all records"


def _held(storage: Storage, copy: Copy) -> str:
    """Return the offsets of a copy, and when it was last written."""
    try:
        if storage.entry(copy.path).is_link:
            return "a symbolic link"
        entries = storage.list_dir(copy.path)
    except FAILS_ONE_PARTITION:
        return "can't be listed"
    files = {entry.name: entry for entry in entries if entry.is_file}
    logs = [entry for name, entry in files.items() if name.endswith(LOG)]
    if not logs:
        return NO_LOG
    written = f"last written {moment(max(entry.mtime_ms for entry in logs))}"
    with suppress(FAILS_ONE_PARTITION):
        bases = sorted(base_offset_of(entry.name) for entry in logs)
        end = whole_end(copy.path, segment_of(files, bases[-1])).next_offset
        return f"offsets {max(bases[0], copy.log_start_checkpoint)} to {end}, {written}"
    return f"offsets unknown, {written}"


def renamed_copies(
    storage: Storage, paths: Iterable[str]
) -> Mapping[tuple[str, int], tuple[str, ...]]:
    """Return the directories that a broker has renamed to `-stray` or `-delete`, by topic id and
    partition. They have all records that they had before.
    """
    found: dict[tuple[str, int], tuple[str, ...]] = {}
    for path in paths:
        for entry in storage.list_dir(path):
            with suppress(FAILS_ONE_PARTITION, UsageError):
                known = parse_partition_dir(entry.name)
                directory = f"{path}/{entry.name}"
                if entry.is_dir and known.kind in {DirectoryKind.STRAY, DirectoryKind.DELETE}:
                    at = read_topic_id(storage, directory) or "", known.number
                    found[at] = (*found.get(at, ()), directory)
    return found


def words_of_renamed(partition: str, directories: Sequence[str]) -> str:
    """Return what to do about a partition that has only directories of another name."""
    if not directories:
        return ""
    if len(directories) == 1:
        name = directories[0].rpartition("/")[2]
        return (
            f". {directories[0]} is this partition, for it has the same topic id: rename {name} "
            f"back to {partition} while no broker runs, and never delete it"
        )
    return (
        f". {' and '.join(directories)} are of this partition, for they have the same topic id: "
        f"rename the one with its records back to {partition} while no broker runs, and delete "
        "neither"
    )
