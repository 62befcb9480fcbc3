"""The regular files of a partition directory, by name, and what their names and sizes tell."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

from winnow.logdir.names import (
    INDEX_SUFFIXES,
    LOG,
    SEGMENT_SUFFIXES,
    SNAPSHOT,
    base_offset_of,
    segment_file,
)
from winnow.state import Segment
from winnow.storage.contract import Entry, Storage
from winnow.wire.batch import NO_TIMESTAMP

_PIECE_BYTES = 16 << 20

Files = Mapping[str, Entry]


def files_in(storage: Storage, directory: str) -> dict[str, Entry]:
    return {entry.name: entry for entry in storage.list_dir(directory) if entry.is_file}


def tree_bytes(storage: Storage, path: str) -> int:
    """Return the bytes of all files below a directory, whatever they are. Follows no link."""
    total, left = 0, [path]  # somebody may have made more levels than Python can call itself
    while left:
        here = left.pop()
        for entry in storage.list_dir(here):
            if entry.is_dir:
                left.append(f"{here}/{entry.name}")
            else:
                total += entry.size
    return total


def pieces(
    storage: Storage, path: str, start: int = 0, end: int = sys.maxsize
) -> Iterator[tuple[int, bytes]]:
    """Yield bytes [start, end) of a file, 16 MiB at a time, each piece with its position."""
    while start < end and (
        piece := storage.read_range(path, start, min(_PIECE_BYTES, end - start))
    ):
        yield start, piece
        start += len(piece)


def log_bases(names: Iterable[str]) -> list[int]:
    """Return the base offsets of all segments, ascending."""
    return sorted(base_offset_of(name) for name in names if name.endswith(LOG))


def files_of(files: Files, bases: Sequence[int]) -> list[str]:
    """Return the files of these segments that exist, in the order in which Kafka renames them."""
    names = [segment_file(base, suffix) for base in bases for suffix in SEGMENT_SUFFIXES]
    return [name for name in names if name in files]


def log_bytes_in(storage: Storage, directory: str) -> int:
    """Return the size of all `.log` files of a partition directory, whatever is wrong with it."""
    entries = storage.list_dir(directory)
    return sum(entry.size for entry in entries if entry.is_file and entry.name.endswith(LOG))


def removable_snapshots(files: Files, bases: Sequence[int]) -> list[str]:
    """Return the snapshots at these bases, ascending, but never the newest of all.

    A broker that finds none starts without any producer state (S8.4).
    """
    newest = max((name for name in files if name.endswith(SNAPSHOT)), default="")
    wanted = [segment_file(base, SNAPSHOT) for base in sorted(bases)]
    return [name for name in wanted if name in files and name != newest]


def removable(files: Files, bases: Sequence[int]) -> list[str]:
    """Return what goes with these segments: their files and `removable_snapshots`."""
    return [*files_of(files, bases), *removable_snapshots(files, bases)]


def segment_of(
    files: Files,
    base_offset: int,
    *,
    last_timeindex_timestamp: int = NO_TIMESTAMP,
    first_batch_max_timestamp: int = NO_TIMESTAMP,
) -> Segment:
    """Return a segment whose `.log` is among the files."""
    log = files[segment_file(base_offset, LOG)]
    index_bytes, timeindex_bytes, txnindex_bytes = (
        files[name].size if (name := segment_file(base_offset, suffix)) in files else None
        for suffix in INDEX_SUFFIXES
    )
    return Segment(
        base_offset=base_offset,
        log_bytes=log.size,
        log_mtime_ms=log.mtime_ms,
        log_stamp=log.stamp,
        log_links=log.links,
        index_bytes=index_bytes,
        timeindex_bytes=timeindex_bytes,
        txnindex_bytes=txnindex_bytes,
        last_timeindex_timestamp=last_timeindex_timestamp,
        first_batch_max_timestamp=first_batch_max_timestamp,
    )


def difference(files: Files, segment: Segment) -> tuple[str, str, str] | None:
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
    for suffix, expected in zip(INDEX_SUFFIXES, segment.index_sizes, strict=True):
        name = segment_file(segment.base_offset, suffix)
        size = files[name].size if name in files else None
        if size != expected:
            return name, f"{expected} bytes", f"{size}"
    return None


def remove_files(storage: Storage, directory: str, names: Sequence[str]) -> None:
    """Remove files and sync the directory. Does nothing for no names."""
    for name in names:
        storage.unlink(f"{directory}/{name}")
    if names:
        storage.fsync_dir(directory)
