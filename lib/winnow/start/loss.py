"""What a recovery deletes from a log besides a torn end: whole batches behind damage. A start of a
broker and `recover --truncate` delete the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from winnow.errors import CorruptLogError, UnpredictedLoadError
from winnow.logdir.batches import Piece, bad_crcs, find_next, read_to_stop
from winnow.logdir.commit.lost import TAKE_BACK, end_lost, only_in_deleted
from winnow.logdir.commit.recovery import preview
from winnow.logdir.commit.roll_forward import open_round
from winnow.logdir.commit.truncation import LogCut, RemovedSegment
from winnow.logdir.listing import first_max_timestamp
from winnow.logdir.names import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG,
    MAX_LONG,
    PARTITION_METADATA,
    SNAPSHOT,
    DirectoryKind,
    base_offset_of,
    segment_file,
)
from winnow.start.files import FinishedSwap
from winnow.start.loaded import LoadedLog, LogToLoad
from winnow.storage.contract import Entry, Storage, entry_if_there
from winnow.wire.batch import HEADER_V2_SIZE, MAX_MAGIC, is_wrapper
from winnow.wire.buffers import Rows
from winnow.words import counted, first_few, size

_MOST_BYTES = 256 << 20
"""How far whole batches are counted, per log."""
SWAP_ASIDE = (
    "If the logs beside the .swap files are whole, move the .swap files out of the directory "
    "instead"
)
_SHOWN = 3
_CLOCKS_DIFFER_MS = 60_000
"""Maximum assumed difference between the clocks of a producer and of the broker. With a larger
difference, the high watermark counts.
"""
_MOST_DAMAGES = 16
"""Each may be searched over 64 MiB for the next batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostBatches:
    """Whole batches in the bytes that go. `more`: they were not all counted."""

    batches: int = 0
    records: int = 0
    more: bool = False

    def __add__(self, other: LostBatches) -> LostBatches:
        return LostBatches(
            batches=self.batches + other.batches,
            records=self.records + other.records,
            more=self.more or other.more,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    how: str
    """What is cut and removed, and why."""
    found: LostBatches
    bytes: int
    """Bytes of logs that go."""

    @property
    def amount(self) -> str:
        if not self.found.batches:
            return size(self.bytes)
        least = "at least " if self.found.more else ""
        records, many = counted(self.found.records, "record"), self.found.batches
        whole = "1 whole batch" if many == 1 else f"{many:,} whole batches"
        return f"{least}{records} in {whole}, {size(self.bytes)}"

    def __str__(self) -> str:
        return f"{self.how}: {self.amount}"


def loss_of(
    storage: Storage,
    directory: str,
    loaded: LoadedLog,
    swap: FinishedSwap | None = None,
    *,
    has_no_gaps: bool = False,
) -> Loss | None:
    """Return what a recovery with this outcome deletes, or None if it only cuts a torn end. `swap`:
    the one that the loader finished first. `has_no_gaps`: see `lost_segments`.
    """
    change = loaded.truncation
    return loss_in(
        storage,
        directory,
        cuts=change.cuts,
        removed=change.removed,
        new_start=None if change.created_segment is None else loaded.log_start_offset,
        on_disk={} if swap is None else swap.on_disk,
        has_no_gaps=has_no_gaps,
    )


def loss_in(
    storage: Storage,
    directory: str,
    *,
    cuts: Sequence[LogCut],
    removed: Sequence[RemovedSegment],
    new_start: int | None = None,
    on_disk: Mapping[str, str] = {},
    has_no_gaps: bool = False,
) -> Loss | None:
    """As `loss_of`. `new_start`: where an empty log begins in place of this one. `on_disk`: the
    names of logs that are not yet segments.

    The end of a segment that others follow was whole when they began. So a cut there is a loss,
    unless it only takes zeros, of which a crash leaves some behind a preallocated log.
    """

    def path_of(base: int) -> str:
        name = segment_file(base, LOG)
        return f"{directory}/{on_disk.get(name, name)}"

    gone = [segment for segment in removed if segment.bytes]
    how = None
    if new_start is not None and gone:
        how = f"its log start offset is {new_start}, above its end: all is deleted"
    for cut in [] if how else cuts:
        name = segment_file(cut.base_offset, LOG)
        words = f"{name} is cut at offset {cut.next_offset} ({cut.why})"
        path = path_of(cut.base_offset)
        behind = None if gone else _next_batch(storage, path, cut)
        following = None if gone or on_disk else _following(storage, directory, cut.base_offset)
        if gone:
            how = f"{words}, and {counted(len(gone), 'later segment')} go"
        elif behind is not None:
            how = f"{words}, and whole batches from offset {behind} on go"
        elif following is not None and (
            not _begins_with_zeros(storage, path, cut)
            or (has_no_gaps and cut.next_offset < following)
        ):
            how = f"{words}, and the next segment begins at offset {following}"
        if how:
            break
    if how is None and gone:
        how = f"{counted(len(gone), 'segment')} go"
    if how is None:
        return None
    parts = [
        *((cut.base_offset, cut.size, cut.before, cut.next_offset) for cut in cuts),
        *((segment.base_offset, 0, segment.bytes, segment.base_offset) for segment in gone),
    ]
    found, left = LostBatches(), _MOST_BYTES
    for base, start, end, least in parts:
        if left <= 0:
            found = replace(found, more=True)
            break
        until = min(end, start + left)
        found += _count(storage, path_of(base), start, until, least)
        found = replace(found, more=found.more or until < end)
        left -= until - start
    total = sum(cut.bytes for cut in cuts) + sum(segment.bytes for segment in gone)
    return Loss(how=how, found=found, bytes=total)


def end_lost_of(storage: Storage, log: LogToLoad, end: int, entries: Sequence[Entry]) -> str | None:
    """Return what shows that a log that ends at `end` has lost its end, or None.

    A broker that is killed loses nothing that it wrote, for the page cache stays. So its
    checkpoints are a proof after an unclean shutdown, too. The newest producer snapshot is none
    then: a truncation removes it after it has cut the log. Nor is the high watermark of an earlier
    log: a broker that deletes a topic leaves its entry for some seconds, and a topic of the same
    name may be there by then. A replica that is being moved gets what it lacks.
    """
    if log.kind is DirectoryKind.FUTURE and not log.clean_shutdown:
        return None
    snapshots = [
        base_offset_of(entry.name)
        for entry in (entries if log.clean_shutdown else ())
        if log.kind is DirectoryKind.CURRENT and entry.is_file and entry.name.endswith(SNAPSHOT)
    ]
    high = log.high_watermark
    if end < high and not log.clean_shutdown and _is_of_earlier_log(storage, log, entries):
        high = 0
    return end_lost(
        end,
        high_watermark=high,
        recovery_point=log.recovery_point,
        snapshot=max(snapshots, default=0),
    )


def _is_of_earlier_log(storage: Storage, log: LogToLoad, entries: Sequence[Entry]) -> bool:
    """Return whether the log was made after the checkpoint of high watermarks was written. Its
    first record has to be newer, too, for a copy may have new times.
    """
    files = {entry.name: entry for entry in entries if entry.is_file}
    logs = sorted(name for name in files if name.endswith(LOG))
    made = files.get(PARTITION_METADATA)
    written = entry_if_there(storage, f"{log.log_dir}/{HIGH_WATERMARK_CHECKPOINT}")
    if made is None or written is None or not logs or made.mtime_ns <= written.mtime_ns:
        return False
    head = storage.read_range(f"{log.directory}/{logs[0]}", 0, HEADER_V2_SIZE)
    first = first_max_timestamp(head)
    return not head or first >= made.mtime_ms - _CLOCKS_DIFFER_MS


def loss_by_swap(
    storage: Storage, directory: str, swap: FinishedSwap | None, *, compacts: bool | None
) -> Loss | None:
    """Return which batches are in no segment after a loader has finished this swap, or None.

    `swap`: None if there is none to finish. `compacts`: the topic is compacted, None if that is
    unknown. A cleaner leaves batches out of a `.swap` log. So they are lost only if a check of the
    `.swap` logs fails, or if these are empty. Raises UnpredictedLoadError for batches that are lost
    unless the topic is compacted, and that is unknown.
    """
    if swap is None:
        return None
    entries = storage.list_dir(directory)
    sizes = {entry.name: entry.size for entry in entries if entry.is_file}
    logs = {name for name in sizes if name.endswith(LOG)}
    replaced, left_out = sorted(logs & swap.replaced), False
    of_winnow = replaced and open_round(storage, directory, entries) is not None
    if replaced and (compacts is not False or of_winnow):
        with suppress(CorruptLogError):
            preview(storage, directory, entries)
            left_out = not (compacts or of_winnow)
            replaced = replaced if left_out else []
    last_offsets = [
        rows["last_offset"]
        for name in sorted({*swap.logs} | logs - swap.replaced)
        for rows in _sound_rows(storage, f"{directory}/{name}", sizes[name])
    ]
    kept = np.concatenate([np.empty(0, np.int64), *last_offsets])
    parts = []
    for names, how in (
        (replaced, f"{first_few(swap.logs, _SHOWN)} replaces {first_few(replaced, _SHOWN)}"),
        (swap.dropped, f"{first_few(swap.dropped, _SHOWN)} goes, for a .cleaned file is below it"),
    ):
        found, lost_bytes = LostBatches(), 0
        for name in names:
            for rows in _sound_rows(storage, f"{directory}/{name}", sizes[name]):
                lost = rows[~np.isin(rows["last_offset"], kept)]
                found += _counted(lost)
                lost_bytes += int(lost["size"].sum())
        if found.batches:
            parts.append(Loss(how=how, found=found, bytes=lost_bytes))
    if not parts:
        return None
    how = ", and ".join(part.how for part in parts)
    if left_out:
        raise UnpredictedLoadError(
            "an interrupted swap leaves out batches, and the topic's cleanup.policy is unknown",
            expected="a compacted topic, whose cleaner leaves out batches",
            found=str(parts[0]),
            where=directory,
            hint="If the topic is compacted, start the broker, which finishes the swap. Otherwise "
            "these records are lost with it: move the .swap files out of the directory. `recover "
            "--truncate --lose-records` finishes it and keeps the logs that go.",
        )
    return Loss(
        how=f"it finishes an interrupted swap: {how}",
        found=sum((part.found for part in parts), LostBatches()),
        bytes=sum(part.bytes for part in parts),
    )


def only_in_deleted_files(storage: Storage, log: LogToLoad, end: int) -> Loss | None:
    """Return what a start, or a recovery that ends the log at `end`, deletes for good of `.deleted`
    files that have the only copy: see `only_in_deleted`. A recovery also lowers the checkpoints
    that show it.
    """
    lost = end_lost(end, high_watermark=log.high_watermark, recovery_point=log.recovery_point)
    if lost is None:
        return None
    entries = storage.list_dir(log.directory)
    sizes = {entry.name: entry.size for entry in entries if entry.is_file}
    names = only_in_deleted(sizes)
    if not names:
        return None
    how = (
        f"{lost}, and {first_few(names, _SHOWN)} have records that the log has lost: Kafka renames "
        "segments so where it recovers on a full disk, and a start deletes them for good. "
        f"{TAKE_BACK}"
    )
    return Loss(how=how, found=LostBatches(), bytes=sum(sizes[name] for name in names))


def check_swap(
    storage: Storage, directory: str, swap: FinishedSwap | None, *, compacts: bool | None
) -> None:
    """Raise CorruptLogError if records are lost when this swap is finished: see `loss_by_swap`."""
    loss = loss_by_swap(storage, directory, swap, compacts=compacts)
    if loss is not None:
        raise CorruptLogError(
            "an interrupted swap would delete records",
            found=str(loss),
            where=directory,
            hint=f"{SWAP_ASIDE}.",
        )


def _sound_rows(storage: Storage, path: str, size_of_log: int) -> Iterator[Rows]:
    """Return the rows of batches that match their CRC, up to the first bytes that are no batch."""
    return map(_sound, _pieces(storage, path, 0, size_of_log, 0))


def _next_batch(storage: Storage, path: str, cut: LogCut) -> int | None:
    found = find_next(storage, path, cut.size, cut.before, cut.next_offset, MAX_LONG)
    return None if found is None else found[1]


def _following(storage: Storage, directory: str, base: int) -> int | None:
    """Return the base offset of the next segment."""
    names = (entry.name for entry in storage.list_dir(directory) if entry.name.endswith(LOG))
    return min((found for name in names if (found := base_offset_of(name)) > base), default=None)


def _begins_with_zeros(storage: Storage, path: str, cut: LogCut) -> bool:
    return not any(storage.read_range(path, cut.size, min(cut.bytes, HEADER_V2_SIZE)))


def _count(storage: Storage, path: str, start: int, end: int, least_offset: int) -> LostBatches:
    """Count the batches with the right CRC between two bytes of a log."""
    found = LostBatches()
    for _ in range(_MOST_DAMAGES):
        stop = start
        for piece in _pieces(storage, path, start, end, least_offset):
            found += _counted(_sound(piece))
            last = piece.rows[-1]
            stop = piece.start + int(last["position"]) + int(last["size"])
        following = None
        if stop < end:
            following = find_next(storage, path, stop, end, least_offset, MAX_LONG)
        if following is None:
            return found
        start = following[0]
    return replace(found, more=True)


def _pieces(
    storage: Storage, path: str, start: int, end: int, least_offset: int
) -> Iterator[Piece]:
    for item in read_to_stop(storage, path, size=end, start=start, least_offset=least_offset):
        if isinstance(item, Piece):
            yield item


def _sound(piece: Piece) -> Rows:
    """Return the rows of the batches that match their CRC."""
    is_sound = np.ones(len(piece.rows), bool)
    is_sound[list(bad_crcs(piece))] = False
    return piece.rows[is_sound]


def _counted(rows: Rows) -> LostBatches:
    counts = np.where(rows["magic"] < MAX_MAGIC, 1, rows["record_count"])
    return LostBatches(
        batches=len(rows), records=int(counts.sum()), more=bool(is_wrapper(rows).any())
    )
