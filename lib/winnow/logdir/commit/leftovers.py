"""What an interrupted run leaves in a partition directory, and what must be true before any file of
it is renamed.
"""

from __future__ import annotations

from collections.abc import Sequence

from winnow.errors import CorruptLogError
from winnow.logdir.commit.lost import (
    LostSegment,
    lost_segments,
    of_segments,
    only_in_deleted,
)
from winnow.logdir.files import difference
from winnow.logdir.names import (
    CLEANED,
    DELETED,
    GONE,
    INDEX_SUFFIXES,
    JOURNAL,
    LOG,
    PREPARED,
    SWAP,
    base_offset_of,
    is_staging,
)
from winnow.state import Segment
from winnow.storage.contract import COMMIT_RECORD, Entry, Storage

_ENDS = (CLEANED, SWAP, DELETED)


def leftover_names(storage: Storage, directory: str, entries: Sequence[Entry]) -> tuple[str, ...]:
    """Return the names that `recovery.recover` would act on in a directory with these entries.

    The indexes of a lost segment are none of them, nor are `.deleted` files that may have the only
    copy of records (`winnow.logdir.commit.lost`), nor preparations. Raises CorruptLogError for a
    leftover whose name has no offset: Kafka's loader throws on it (S1.10).
    """
    left = _leftover_files(storage, directory, entries)
    staging = {entry.name for entry in staging_entries(entries)}
    return tuple(sorted(left | staging.difference(preparations(storage, directory, entries))))


def _leftover_files(storage: Storage, directory: str, entries: Sequence[Entry]) -> set[str]:
    odd = [e for e in entries if e.name.endswith(_ENDS) or e.name == COMMIT_RECORD]
    for entry in odd:
        if entry.is_link and entry.name != COMMIT_RECORD:
            raise CorruptLogError(
                "not a regular file",
                expected="a file",
                found="a symbolic link",
                where=entry.name,
                hint="No broker makes links there, but it follows them: the file may have "
                "records. Put the file itself in the place of the link.",
            )
    names = [entry.name for entry in odd if entry.is_file]
    for name in names:
        if name.endswith((CLEANED, SWAP)):
            base_offset_of(name)
    sizes = {entry.name: entry.size for entry in entries if entry.is_file}
    if alone := orphans([*sizes], entries, ()):
        alone = orphans(alone, entries, lost_segments(storage, directory, entries))
    kept = of_segments(only_in_deleted(sizes)) if names else ()
    return {
        *alone,
        *(n for n in names if not n.endswith(DELETED) or n.partition(".")[0] not in kept),
    }


def orphans(
    names: Sequence[str], entries: Sequence[Entry], lost: Sequence[LostSegment]
) -> tuple[str, ...]:
    """Return index files without a log: remains of a segment whose removal was interrupted (S6.6).

    If the log exists but is not a regular file, or is lost, its indexes are not orphans: that is
    damage, and they are kept.
    """
    known = {*names, *(entry.name for entry in entries if not entry.is_file)}
    known |= {segment.log for segment in lost}
    return tuple(
        name
        for name in names
        # A name that has an offset begins with 20 digits.
        if name.endswith(INDEX_SUFFIXES) and base_offset_of(name) >= 0
        if f"{name[:20]}{LOG}" not in known
    )


def staging_entries(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return the staging directories in a partition directory, and links with such names. Only the
    link itself is removed, not its target.
    """
    return tuple(
        entry for entry in entries if (entry.is_dir or entry.is_link) and is_staging(entry.name)
    )


def preparations(storage: Storage, directory: str, entries: Sequence[Entry]) -> tuple[str, ...]:
    """Return the names of the preparations in a partition directory with these entries."""
    return tuple(
        entry.name
        for entry in staging_entries(entries)
        if entry.is_dir and is_preparation(storage, f"{directory}/{entry.name}")
    )


def is_preparation(storage: Storage, staging: str) -> bool:
    """Return whether a staging directory was finished by `prepare`, no commit has begun to use it,
    and nobody has begun to remove it.
    """
    return (
        not staging.endswith(GONE)
        and storage.exists(f"{staging}/{PREPARED}")
        and not storage.exists(f"{staging}/{JOURNAL}")
    )


def check_unchanged(
    storage: Storage,
    directory: str,
    segments: Sequence[Segment],
    entries: Sequence[Entry] | None = None,
) -> dict[str, Entry]:
    """Return all regular files by name if nothing is left of an interrupted run and `segments` have
    not changed since they were listed.

    A staging directory is not a leftover: the calling run uses it. Raises CorruptLogError
    otherwise. `entries`: what is in the directory; None: it is listed.
    """
    entries = storage.list_dir(directory) if entries is None else entries
    files = {entry.name: entry for entry in entries if entry.is_file}
    if left := _leftover_files(storage, directory, entries):
        raise _changed("no file of an unfinished run", ", ".join(sorted(left)), directory)
    for segment in segments:
        differs = difference(files, segment)
        if differs is not None:
            name, expected, found = differs
            raise _changed(expected, found, f"{directory}/{name}")
    return files


def _changed(expected: str, found: str, where: str) -> CorruptLogError:
    return CorruptLogError(
        "the partition has changed since it was listed",
        expected=expected,
        found=found,
        where=where,
        hint="Something else is writing to this directory, or a run was interrupted. Run again.",
    )
