"""Segments whose `.log` is lost, while index files still show that it was there.

Kafka and Winnow begin the removal of a segment with its `.log`: they rename it to `.log.deleted`,
then its indexes. A crash in between leaves both names side by side. Retention removes segments only
from the start of a log. So an index with entries, in the middle or at the end of a log, without a
`.log` of its base offset under any name, was left by no run and by no crash: a `.log` was lost.

A broker that starts removes such an index and goes on without the records (S6.3). Winnow keeps the
index, because nothing else tells what is missing, and changes nothing in the partition.

If all files of the last segments are lost, the checkpoints still tell it: a broker that stops
cleanly writes high watermarks and recovery points that its logs reach.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from winnow.errors import LostSegmentError
from winnow.logdir.names import (
    CLEANED,
    DELETED,
    INDEX,
    INDEX_SUFFIXES,
    LOG,
    MAX_LONG,
    QUARANTINE_PREFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT,
    SWAP,
    base_offset_of,
    segment_file,
)
from winnow.storage.contract import COMMIT_RECORD, Entry, Storage
from winnow.words import counted, first_few

_SHOWN = 3
_OF_A_REMOVAL = tuple(
    segment + marker for segment in SEGMENT_SUFFIXES for marker in (DELETED, SWAP, CLEANED)
)


@dataclass(frozen=True, slots=True)
class LostSegment:
    base_offset: int
    end_offset: int | None
    """The offset after its last record is at most this one. None if nothing tells it."""
    indexes: tuple[str, ...]
    """Names of its index files."""

    @property
    def log(self) -> str:
        return segment_file(self.base_offset, LOG)

    @property
    def evidence(self) -> str:
        """Return what was found in place of the log."""
        return f"only {', '.join(name.partition('.')[2] for name in self.indexes)}"


def lost_segments(
    storage: Storage, directory: str, entries: Sequence[Entry]
) -> tuple[LostSegment, ...]:
    """Return the lost segments of a partition directory with these entries, ascending.

    While a commit or a swap is unfinished, segments in its reach do not count: `recovery.recover`
    asks again for the log as it will be. Raises CorruptLogError as `base_offset_of`.
    """
    sizes = {entry.name: entry.size for entry in entries if entry.is_file}
    if COMMIT_RECORD in sizes:
        return ()
    swaps = [base_offset_of(name) for name in sizes if name.endswith(LOG + SWAP)]
    below = min(swaps, default=MAX_LONG + 1)
    return tuple(
        lost for lost in lost_of(storage, directory, entries, sizes) if lost.base_offset < below
    )


def lost_of(
    storage: Storage, directory: str, entries: Sequence[Entry], sizes: Mapping[str, int]
) -> tuple[LostSegment, ...]:
    """Do as `lost_segments`, for the regular files `sizes` that a directory with these entries will
    have.
    """
    names = sizes.keys() | {entry.name for entry in entries if not entry.is_file}
    found = defaultdict[int, list[str]](list)
    for name in sorted(sizes):
        if name.endswith(INDEX_SUFFIXES):
            found[base_offset_of(name)].append(name)
    lost = [
        base
        for base, indexes in sorted(found.items())
        if any(sizes[name] for name in indexes)
        and segment_file(base, LOG) not in names
        and not any(segment_file(base, suffix) in sizes for suffix in _OF_A_REMOVAL)
    ]
    if not lost:
        return ()
    logs = sorted(base_offset_of(name) for name in names if name.endswith(LOG))
    aside = _moved_aside(storage, directory, entries)
    lost = [
        base
        for base in lost
        if (not logs or base > logs[0]) and segment_file(base, LOG) not in aside
    ]
    ends = dict(pairwise(sorted({*logs, *lost})))
    snapshots = [base_offset_of(name) for name in sizes if name.endswith(SNAPSHOT)]
    newest = max(snapshots, default=-1)
    return tuple(
        LostSegment(base, ends.get(base, newest if newest > base else None), tuple(found[base]))
        for base in lost
    )


def only_in_deleted(sizes: Mapping[str, int]) -> tuple[str, ...]:
    """Return the `.log.deleted` files, ascending, that may have the only copy of the end of a log:
    they begin above all logs, or where the last log is empty.

    Kafka deletes so when it recovers on a full disk ("Deleting the corrupt segment and creating an
    empty one"), and a follower when it truncates. It renames the indexes, too; a truncation by
    Winnow does not.
    """
    last = max((name for name in sizes if name.endswith(LOG)), default="")
    return tuple(
        sorted(
            name
            for name, size in sizes.items()
            if size and name.endswith(LOG + DELETED) and name.removesuffix(DELETED) >= last
            if name.removesuffix(DELETED) > last or not sizes[last]
            if name.removesuffix(LOG + DELETED) + INDEX + DELETED in sizes
        )
    )


def of_segments(names: Sequence[str]) -> frozenset[str]:
    """Return what names of these files begin with: those of all files of their segments do."""
    return frozenset(name.partition(".")[0] for name in names)


def _moved_aside(storage: Storage, directory: str, entries: Sequence[Entry]) -> Collection[str]:
    """Return the names of what `recover --truncate` has moved aside. It moves the `.log` first."""
    return {
        entry.name
        for aside in entries
        if aside.is_dir and aside.name.startswith(QUARANTINE_PREFIX)
        for entry in storage.list_dir(f"{directory}/{aside.name}")
    }


def check_none_lost(storage: Storage, directory: str) -> None:
    """Raise LostSegmentError if a segment of this partition directory is lost."""
    if lost := lost_segments(storage, directory, storage.list_dir(directory)):
        raise lost_error(lost, directory)


def lost_error(lost: Sequence[LostSegment], directory: str) -> LostSegmentError:
    """Return the error for at least one lost segment."""
    many = len(lost) > 1
    logs = first_few([segment.log for segment in lost], _SHOWN)
    return LostSegmentError(
        missing_logs(lost),
        expected=f"{logs} beside {'their' if many else 'its'} indexes",
        found=f"{'only the indexes' if many else lost[0].evidence}, so records of offsets "
        f"{offsets_of(lost)} are lost",
        where=directory,
        hint="Nothing is changed in this partition. If this directory is a copy: was it made "
        "without `*.log`? Otherwise restore the .log files from a backup, or copy the partition "
        "from another replica. A broker that starts here deletes these indexes and goes on "
        "without the records.",
    )


def end_lost(end: int, *, high_watermark: int, recovery_point: int) -> str | None:
    """Return what shows that the log of a broker that stopped cleanly has lost its end, or None.
    The offsets are those of its checkpoints, 0 without an entry.
    """
    reached = max(high_watermark, recovery_point)
    if end >= reached:
        return None
    name = "high watermark" if high_watermark == reached else "recovery point"
    return f"it ends at offset {end}, below its {name} {reached}"


def check_end(end: int, *, high_watermark: int, recovery_point: int, directory: str) -> None:
    """Raise LostSegmentError if a log has lost its end: see `end_lost`."""
    lost = end_lost(end, high_watermark=high_watermark, recovery_point=recovery_point)
    if lost is not None:
        raise LostSegmentError(
            "the log has lost its end",
            expected="the offsets that its checkpoints have after a clean shutdown",
            found=f"{lost}, so records of the last offsets are lost",
            where=directory,
            hint="Nothing is changed in this partition. If this directory is a copy: was it made "
            "while a broker wrote? Otherwise restore the .log files from a backup, or copy the "
            "partition from another replica. A broker that starts here goes on without the "
            "records, and lowers these checkpoints.",
        )


def missing_logs(lost: Sequence[LostSegment]) -> str:
    """Return `the .log files of 2 segments are missing`."""
    many = len(lost) > 1
    files, verb = ("files", "are") if many else ("file", "is")
    return f"the .log {files} of {counted(len(lost), 'segment')} {verb} missing"


def offsets_of(lost: Sequence[LostSegment]) -> str:
    """Return `40 to 59, 80 and above`; adjacent segments are one range."""
    ranges: list[tuple[int, int | None]] = []
    for segment in lost:
        if ranges and ranges[-1][1] == segment.base_offset:
            ranges[-1] = ranges[-1][0], segment.end_offset
        else:
            ranges.append((segment.base_offset, segment.end_offset))
    return first_few(
        [f"{begin} and above" if end is None else f"{begin} to {end - 1}" for begin, end in ranges],
        _SHOWN,
    )
