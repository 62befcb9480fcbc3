"""What must be true of a partition directory before any of its files is renamed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from winnow.errors import CorruptLogError
from winnow.logdir.commit.recovery import leftover_names
from winnow.logdir.names import INDEX_SUFFIXES, LOG, segment_file
from winnow.state import Segment
from winnow.storage.contract import Entry, Storage


def check_unchanged(
    storage: Storage, directory: str, segments: Sequence[Segment]
) -> dict[str, Entry]:
    """Return all regular files by name if nothing is left of an interrupted run and `segments` have
    not changed since they were listed.

    A staging directory is not a leftover: the calling run uses it. Raises CorruptLogError
    otherwise.
    """
    entries = storage.list_dir(directory)
    files = {entry.name: entry for entry in entries if entry.is_file}
    left = [name for name in leftover_names(entries) if name in files]
    if left:
        raise _changed("no file of an unfinished run", ", ".join(left), directory)
    for segment in segments:
        differs = difference(files, segment)
        if differs is not None:
            name, expected, found = differs
            raise _changed(expected, found, f"{directory}/{name}")
    return files


def difference(files: Mapping[str, Entry], segment: Segment) -> tuple[str, str, str] | None:
    """Return the first changed file of a segment: its name, what was expected, what was found."""
    name = segment_file(segment.base_offset, LOG)
    log = files.get(name)
    if log is None or (log.size, log.mtime_ms) != (segment.log_bytes, segment.log_mtime_ms):
        found = "nothing" if log is None else f"{log.size} bytes of {log.mtime_ms}"
        return name, f"{segment.log_bytes} bytes of {segment.log_mtime_ms}", found
    if segment.log_stamp and log.stamp != segment.log_stamp:
        return (
            name,
            "the same file",
            "one of the same size and age that was written or replaced since",
        )
    sizes = (segment.index_bytes, segment.timeindex_bytes, segment.txnindex_bytes)
    for suffix, expected in zip(INDEX_SUFFIXES, sizes, strict=True):
        name = segment_file(segment.base_offset, suffix)
        size = files[name].size if name in files else None
        if size != expected:
            return name, f"{expected} bytes", f"{size}"
    return None


def _changed(expected: str, found: str, where: str) -> CorruptLogError:
    return CorruptLogError(
        "the partition has changed since it was listed",
        expected=expected,
        found=found,
        where=where,
        hint="Something else is writing to this directory, or a run was interrupted. Run again.",
    )
