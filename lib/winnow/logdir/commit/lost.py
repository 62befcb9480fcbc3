"""Segments whose `.log` is lost, while index files still show that it was there.

Kafka and Winnow begin the removal of a segment with its `.log`: they rename it to `.log.deleted`,
then its indexes. A crash in between leaves both names side by side. Retention removes segments only
from the start of a log. So an index with entries, in the middle or at the end of a log, without a
`.log` of its base offset under any name, was left by no run and by no crash: a `.log` was lost.

A broker that starts removes such an index and goes on without the records (S6.3). Winnow keeps the
index, because nothing else tells what is missing, and changes nothing in the partition.

A producer snapshot proves a loss in one place only. A broker writes a snapshot when it begins a
segment, and removes it with the segment. But each clean stop and each truncation writes another one
at the end of the log, which stays until the next start, in the middle of a segment by then, or
below the log. And where a cleaner has left out batches, a segment may end before such a snapshot.
So only a snapshot in a gap shows a loss: it lies at or behind the end of a segment, before the next
one, in a log that no cleaner has compacted, whose offsets otherwise have no gaps.

If all files of the last segments are lost, checkpoints and snapshots still tell it: a broker that
stops cleanly writes high watermarks and recovery points that its logs reach, and a truncation
removes all snapshots above the new end.
"""

from __future__ import annotations

from bisect import bisect
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter

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

TAKE_BACK = (
    "First copy the directory of the partition elsewhere. To take the records back, remove the "
    "ending .deleted from these .log files, in place of an empty .log of the same name, and run "
    "`recover --truncate`"
)
"""What to do about `.log.deleted` files that may have the only copy of records."""
_SHOWN = 3
_OF_A_REMOVAL = tuple(
    segment + marker for segment in SEGMENT_SUFFIXES for marker in (DELETED, SWAP, CLEANED)
)


@dataclass(frozen=True, slots=True)
class LostSegment:
    base_offset: int
    end_offset: int | None
    """The offset after its last record is at most this one. None if nothing tells it."""
    files: tuple[str, ...]
    """Names of its index files, or of its producer snapshot if that is all that is left."""

    @property
    def log(self) -> str:
        return segment_file(self.base_offset, LOG)

    @property
    def evidence(self) -> str:
        """Return what was found in place of the log."""
        return f"only {', '.join(name.partition('.')[2] for name in self.files)}"


def lost_segments(
    storage: Storage, directory: str, entries: Sequence[Entry], *, has_no_gaps: bool = False
) -> tuple[LostSegment, ...]:
    """Return the lost segments of a partition directory with these entries, ascending.

    `has_no_gaps`: no cleaner has compacted the log. While a commit or a swap is unfinished,
    segments in its reach do not count: `recovery.recover` asks again for the log as it will be.
    Raises CorruptLogError as `base_offset_of`.
    """
    sizes = {entry.name: entry.size for entry in entries if entry.is_file}
    if COMMIT_RECORD in sizes:
        return ()
    swaps = [base_offset_of(name) for name in sizes if name.endswith(LOG + SWAP)]
    below = min(swaps, default=MAX_LONG + 1)
    by_index = [
        lost for lost in lost_of(storage, directory, entries, sizes) if lost.base_offset < below
    ]
    by_snapshot = _lost_in_gaps(storage, directory, sizes) if has_no_gaps and not swaps else ()
    return tuple(sorted((*by_index, *by_snapshot), key=lambda lost: lost.base_offset))


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
            base = base_offset_of(name)
            if segment_file(base, LOG) not in names:
                found[base].append(name)
    lost = [
        base
        for base, indexes in sorted(found.items())
        if any(sizes[name] for name in indexes)
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


def _lost_in_gaps(storage: Storage, directory: str, sizes: Mapping[str, int]) -> list[LostSegment]:
    """Return the segments of which only a producer snapshot is left, in a log without gaps."""
    offsets = {
        suffix: sorted({base_offset_of(name) for name in sizes if name.endswith(suffix)})
        for suffix in (LOG, *INDEX_SUFFIXES, SNAPSHOT)
    }
    logs, snapshots = offsets[LOG], offsets.pop(SNAPSHOT)
    known = sorted({base for bases in offsets.values() for base in bases})
    found = list[int]()
    for offset in between(snapshots, logs):
        before = known[bisect(known, offset) - 1]
        is_removed = any(segment_file(offset, suffix) in sizes for suffix in _OF_A_REMOVAL)
        if before == offset or is_removed:
            continue
        end = _end_of(storage, directory, before, sizes)
        if end is not None and end <= offset:
            found.append(offset)
    ends = dict(pairwise(sorted({*known, *found})))
    return [LostSegment(base, ends[base], (segment_file(base, SNAPSHOT),)) for base in found]


def between(snapshots: Sequence[int], logs: Sequence[int]) -> list[int]:
    """Return the offsets of snapshots that are at no segment's base, but between two of them. Both
    ascend.
    """
    if not logs or not snapshots or snapshots[-1] < logs[0]:
        return []
    bases = {*logs}
    return [one for one in snapshots if logs[0] < one < logs[-1] and one not in bases]


def _end_of(storage: Storage, directory: str, base: int, sizes: Mapping[str, int]) -> int | None:
    """Return the offset after the last batch of a segment, None if its log is not whole."""
    # Imported here: they load numpy, and hardly any log has such a snapshot.
    from winnow.logdir.batches import Piece, read_to_stop  # noqa: PLC0415
    from winnow.logdir.indexes.index import OFFSET_ENTRY_SIZE, position_of_last  # noqa: PLC0415

    log, index = segment_file(base, LOG), segment_file(base, INDEX)
    if log not in sizes:
        return None
    start, whole = 0, sizes.get(index, 0) // OFFSET_ENTRY_SIZE * OFFSET_ENTRY_SIZE
    if whole:
        at = whole - OFFSET_ENTRY_SIZE
        entry = storage.read_range(f"{directory}/{index}", at, OFFSET_ENTRY_SIZE)
        start = position_of_last(entry)
    if not 0 <= start <= sizes[log]:
        return None
    end = base
    for item in read_to_stop(storage, f"{directory}/{log}", size=sizes[log], start=start):
        if not isinstance(item, Piece):
            return None
        end = int(item.rows["last_offset"][-1]) + 1
    return end


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


def check_none_lost(storage: Storage, directory: str, *, has_no_gaps: bool = False) -> None:
    """Raise LostSegmentError if `lost_segments` returns any segment."""
    entries = storage.list_dir(directory)
    if lost := lost_segments(storage, directory, entries, has_no_gaps=has_no_gaps):
        raise lost_error(lost, directory)


def lost_error(lost: Sequence[LostSegment], directory: str) -> LostSegmentError:
    """Return the error for at least one lost segment."""
    many = len(lost) > 1
    logs = first_few([segment.log for segment in lost], _SHOWN)
    return LostSegmentError(
        missing_logs(lost),
        expected=f"{logs} beside {'their' if many else 'its'} other files",
        found=f"{'only other files' if many else lost[0].evidence}, so records of offsets "
        f"{offsets_of(lost)} are lost",
        where=directory,
        hint="Nothing is changed in this partition. If this directory is a copy: was it made "
        "without `*.log`? Otherwise restore the .log files from a backup, or copy the partition "
        "from another replica. A broker that starts here deletes these files and goes on "
        "without the records.",
    )


def end_lost(
    end: int, *, high_watermark: int, recovery_point: int, snapshot: int = 0
) -> str | None:
    """Return what shows that a log has lost its end, or None. The offsets are those of its
    checkpoints and, after a clean shutdown, of its newest producer snapshot, 0 without one.
    """
    reached = {
        "high watermark": high_watermark,
        "recovery point": recovery_point,
        "newest producer snapshot": snapshot,
    }
    name, offset = max(reached.items(), key=itemgetter(1))
    if end >= offset:
        return None
    which = f"offset {end} is" if end == offset - 1 else f"offsets {end} to {offset - 1} are"
    return f"it ends at offset {end}, below its {name} {offset}: {which} lost"


def check_end(
    end: int,
    *,
    high_watermark: int,
    recovery_point: int,
    snapshot: int,
    directory: str,
    deleted: Sequence[str] = (),
) -> None:
    """Raise LostSegmentError if a log has lost its end: see `end_lost`. `deleted`: see
    `only_in_deleted`.
    """
    lost = end_lost(
        end, high_watermark=high_watermark, recovery_point=recovery_point, snapshot=snapshot
    )
    if lost is not None and deleted:
        raise LostSegmentError(
            "the log has lost its end",
            expected="a log that reaches its checkpoints",
            found=f"{lost}, and {first_few(deleted, _SHOWN)} may have the only copy",
            where=directory,
            hint=f"Nothing is changed in this partition, and a broker that starts deletes these "
            f"files. {TAKE_BACK}.",
        )
    if lost is not None:
        raise LostSegmentError(
            "the log has lost its end",
            expected="the offsets that its checkpoints and snapshots have after a clean shutdown",
            found=f"{lost}, so records of the last offsets are lost",
            where=directory,
            hint="Nothing is changed in this partition. If this directory is a copy: was it made "
            "while a broker wrote? Otherwise restore the .log files from a backup, or copy the "
            "partition from another replica. A broker that starts here goes on without the "
            "records, lowers these checkpoints and deletes such snapshots.",
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
