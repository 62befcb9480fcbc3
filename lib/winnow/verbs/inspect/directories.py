"""Resolve a path on the command line: a file, a partition, or a whole log directory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from winnow.errors import CorruptLogError, UsageError
from winnow.logdir.checkpoints import read_offset_checkpoint
from winnow.logdir.lookup import FoundBatch, Segments
from winnow.logdir.names import (
    LOG,
    LOG_START_CHECKPOINT,
    META_PROPERTIES,
    REMOTE_INDEX_CACHE,
    parse_partition_dir,
    topic_partition_of,
)
from winnow.storage.contract import Storage
from winnow.verbs.inspect.files import Directory, describe_file, kind_of, list_directory
from winnow.verbs.inspect.logs import batch_line, record_lines
from winnow.verbs.inspect.values import (
    FileDescription,
    FileKind,
    FileProblem,
    Note,
    PlainRecord,
    PositionLine,
)
from winnow.wire.internal_topics import INTERNAL_TOPICS
from winnow.wire.plain import Record
from winnow.wire.walk import first_bad_crc


def find_target(storage: Storage, path: str) -> Directory:
    """Resolve a path.

    Raises UsageError for a path that does not exist, and for a directory that Kafka did not make.
    """
    full = storage.canonical(path)
    parent, _, name = full.rpartition("/")
    try:
        if not storage.entry(full).is_dir:
            return replace(list_directory(storage, parent or "/"), only=name)
        found = list_directory(storage, full)
    except OSError as error:
        raise UsageError(
            "can't read this path",
            found=error.strerror or str(error),
            where=path,
            hint="Give files or directories that Kafka wrote.",
        ) from None
    if found.is_log_dir or found.topic is not None or any(n.endswith(LOG) for n in found.entries):
        return found
    raise UsageError(
        "not a Kafka directory",
        expected=f"a log directory, with {META_PROPERTIES}, or a partition's, with .log files",
        found="neither",
        where=path,
    )


def describe_target(
    storage: Storage, target: Directory, *, records: bool
) -> Iterator[FileDescription]:
    """Describe the files: those of a log directory first, then partition by partition."""
    if target.only is not None:
        yield describe_file(storage, target, target.only, records=records)
        return
    yield from _files_of(storage, target, records=records)
    if target.is_log_dir:
        for entry in target.entries.values():
            if entry.is_dir:
                yield from _sub_directory(storage, target, entry.name, records=records)


def find_position(
    storage: Storage, target: Directory, *, offset: int | None = None, timestamp: int | None = None
) -> PositionLine:
    """Find where `offset`, or else `timestamp` (ms), leads in the partition `target`.

    The lines of the result say what is wrong. Raises UsageError if the target is not a partition
    directory.
    """
    directory = target.path
    if target.only is not None or target.is_log_dir:
        raise UsageError(
            "an offset or a timestamp can only be looked up in a partition",
            expected="the directory of a partition",
            found="a log directory" if target.only is None else "a file",
            where=directory if target.only is None else f"{directory}/{target.only}",
        )
    lines: list[FileProblem | Note] = []
    found: FoundBatch | None = None
    following: Record | None = None
    start, end = 0, None
    asked, value = ("offset", offset) if offset is not None else ("timestamp", timestamp or 0)
    try:
        segments = Segments(storage, directory)
        start = _log_start_offset(storage, directory, segments)
        if offset is None:
            found = segments.find_timestamp(value, log_start_offset=start)
            at = None if found is None or found.record is None else found.record.offset
        else:
            found, at = segments.find_offset(offset), offset
        following = None if at is None else segments.first_data_record(at)
        end = segments.end_offset()
    except (CorruptLogError, OSError) as error:
        lines.append(FileProblem(str(error)))
    if offset is not None and offset < start:
        lines.append(Note(f"a broker refuses offset {offset}: the log begins at {start}"))
    if offset is not None and end is not None and offset > end:
        lines.append(Note(f"a broker refuses offset {offset}: the log ends at {end}"))
    position = PositionLine(
        directory=directory,
        asked=asked,
        value=value,
        next_record=PlainRecord(following.offset, following.timestamp) if following else None,
        log_start_offset=start,
        log_end_offset=end,
        lines=tuple(lines),
    )
    return position if found is None else _with(position, found, target.topic)


def _with(position: PositionLine, found: FoundBatch, topic: str | None) -> PositionLine:
    entry, row = found.index_entry, found.piece.rows[found.row]
    lines: list[FileProblem | Note] = [Note(note) for note in found.notes]
    valid = first_bad_crc(found.piece.data, found.piece.rows[found.row : found.row + 1]) < 0
    if not valid:
        lines.append(FileProblem(f"wrong CRC ({found.path}, batch at byte {found.position})"))
    records = [] if found.record is None else [found.record]
    internal = topic if topic in INTERNAL_TOPICS else None
    return replace(
        position,
        segment=found.path,
        index_offset=entry.offset if entry else None,
        index_position=entry.position if entry else None,
        batches_scanned=found.scanned,
        batch=batch_line(found.piece, found.row, crc_valid=valid),
        record=next(iter(record_lines(records, row, topic=internal)), None),
        lines=(*position.lines, *lines),
    )


def _log_start_offset(storage: Storage, directory: str, segments: Segments) -> int:
    """Return the log start offset as a broker's loader sets it: the one in the checkpoint beside
    the directory, but not below the first segment.
    """
    parent, _, name = directory.rpartition("/")
    offsets = read_offset_checkpoint(storage, f"{parent}/{LOG_START_CHECKPOINT}")
    key = topic_partition_of(name)
    return max(offsets.get(key, 0) if key else 0, segments.bases[0])


def _files_of(
    storage: Storage, directory: Directory, *, records: bool
) -> Iterator[FileDescription]:
    for entry in directory.entries.values():
        if not entry.is_dir and (entry.is_file or kind_of(entry.name)[0] is not FileKind.OTHER):
            yield describe_file(storage, directory, entry.name, records=records)


def _sub_directory(
    storage: Storage, log_dir: Directory, name: str, *, records: bool
) -> Iterator[FileDescription]:
    if name == REMOTE_INDEX_CACHE:
        return
    path = f"{log_dir.path}/{name}"
    try:
        parse_partition_dir(name)
        directory = list_directory(storage, path)
    except (UsageError, OSError) as error:
        read = f"can't be read: {error.strerror or error}" if isinstance(error, OSError) else error
        yield FileDescription(
            path, FileKind.OTHER, 0, None, iter([FileProblem(f"{read} ({path})")])
        )
    else:
        yield from _files_of(storage, directory, records=records)
