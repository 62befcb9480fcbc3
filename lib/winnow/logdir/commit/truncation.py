"""Bring a partition directory into the state in which a broker's loader would leave it (S8.9).

The directory has no marker of a clean shutdown, so after a crash at any point the loader starts
again from the recovery point. It must then reach the same log:

1. Indexes are cut to what the loader would leave of them, as far as they begin with it: the zeros
   at the end of a preallocated index go. The loader rebuilds the rest of such an index.
2. The leader epochs, if segments that are removed have changed them: a loader that starts again
   does not read these segments.
3. Segments behind a cut go, the highest first. A loader that found the log cut, but not what
   followed it, would keep both, with a gap.
4. The cut bytes are kept aside, then the logs are cut.
5. All other leader epochs. A loader that begins with a later segment, because the indexes of the
   first are there again, would take its epoch for the first.
6. Indexes and snapshots are written in a staging directory and renamed, so that none is ever torn
   or missing. What made the loader rebuild the indexes of a segment goes last.
7. Snapshots beyond the end go. No loader reads them, but one of them would make a broker that
   finds the marker remove the one at the end.
8. Old snapshots go when the marker is there (`recovery.logs.finish`). A loader that starts again
   begins with them. With the marker, a broker removes them itself.

So a full disk gets free bytes before anything is written. Nothing needs more space than one new
file at a time, and the bytes that are kept aside. Segments are kept by renames.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np

from winnow.errors import NO_SPACE
from winnow.logdir.checkpoints import write_leader_epochs
from winnow.logdir.commit.staging import remove_staging
from winnow.logdir.files import Files, files_in, files_of, pieces, remove_files
from winnow.logdir.indexes.index import OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE
from winnow.logdir.indexes.txnindex import ENTRY
from winnow.logdir.names import (
    DELETED,
    INDEX,
    LEADER_EPOCHS,
    LOG,
    META_PROPERTIES,
    QUARANTINE_PREFIX,
    STAGING_PREFIX,
    TIMEINDEX,
    TXNINDEX,
    base_offset_of,
    segment_file,
)
from winnow.storage.contract import Storage

_ENTRY_BYTES = {INDEX: OFFSET_ENTRY_SIZE, TIMEINDEX: TIME_ENTRY_SIZE, TXNINDEX: ENTRY.size}


@dataclass(frozen=True, slots=True)
class LogCut:
    """`size` bytes stay of the log of a segment that has `before` bytes."""

    base_offset: int
    before: int
    size: int
    next_offset: int
    why: str

    @property
    def bytes(self) -> int:
        """Bytes of the log that go."""
        return self.before - self.size


@dataclass(frozen=True, slots=True)
class RemovedSegment:
    """A segment that is removed, with all of its files. `bytes`: of its log."""

    base_offset: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """Changes of one partition directory. Names are plain file names."""

    removed: tuple[RemovedSegment, ...] = ()
    """Ascending."""
    cuts: tuple[LogCut, ...] = ()
    created_segment: int | None = None
    """Base offset of an empty segment that a loader would create."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Indexes and snapshots that are new or whose content changes."""
    orphans: tuple[str, ...] = ()
    """Indexes without a log, which go."""
    snapshots_beyond_end: tuple[str, ...] = ()
    """Snapshots that go at once."""
    old_snapshots: tuple[str, ...] = ()
    """Snapshots that go last."""
    leader_epochs: tuple[tuple[int, int], ...] | None = None
    """None: unchanged."""
    epochs_first: bool = False
    """Segments that are removed have changed `leader_epochs`, or have kept others out of it."""
    index_bytes: int = 0
    """Bytes by which indexes become shorter."""

    def __bool__(self) -> bool:
        return replace(self, epochs_first=False) != Truncation()

    @property
    def cut_bytes(self) -> int:
        """Bytes of the log that go."""
        return sum(one.bytes for one in self.removed) + sum(one.bytes for one in self.cuts)

    @property
    def shorter_bytes(self) -> int:
        """Bytes of logs and indexes that go."""
        return self.cut_bytes + self.index_bytes


def truncate_log(
    storage: Storage,
    directory: str,
    change: Truncation,
    *,
    run_id: str,
    keep_cut: bool,
    on_cut: Callable[[LogCut | RemovedSegment], None],
) -> str | None:
    """Do all of it, except for `old_snapshots`, and sync. Return the directory with what was cut,
    if it was kept. Zeros that are cut are never kept. `on_cut` is called after each cut and each
    removal, so that the caller knows them even if it fails later.

    Hold the lock. May be interrupted at any point; then plan and run it again.
    """
    for cut in change.cuts:  # a log that must not be cut is refused before it is copied
        storage.truncate(_log_of(directory, cut), cut.before)
    there = files_in(storage, directory)
    done = _cut_indexes(storage, directory, change, there)
    if change.epochs_first:
        _write_epochs(storage, directory, change, there)
    for name in change.orphans:
        storage.unlink(f"{directory}/{name}")
    keep_in = f"{directory}/{QUARANTINE_PREFIX}{run_id}" if keep_cut else None
    aside = _cut_logs(storage, directory, change, there, keep_in=keep_in, on_cut=on_cut)
    if not change.epochs_first:
        _write_epochs(storage, directory, change, there)
    new = {name: data for name, data in change.files.items() if name not in done}
    if change.created_segment is not None:
        new[segment_file(change.created_segment, LOG)] = b""
    if new:
        _write_files(
            storage, directory, new, there, staging=f"{directory}/{STAGING_PREFIX}{run_id}"
        )
    remove_files(storage, directory, change.snapshots_beyond_end)
    return aside


def _cut_logs(
    storage: Storage,
    directory: str,
    change: Truncation,
    there: Files,
    *,
    keep_in: str | None,
    on_cut: Callable[[LogCut | RemovedSegment], None],
) -> str | None:
    """Remove segments and cut logs. Return `keep_in` if anything was kept in it."""
    logs = {cut: _log_of(directory, cut) for cut in change.cuts}
    tails = [
        cut
        for cut, log in logs.items()
        if keep_in and any(any(data) for _, data in pieces(storage, log, cut.size, cut.before))
    ]
    aside = keep_in if tails or change.removed else None
    if aside is not None:
        storage.ensure_dir(aside)
        storage.fsync_dir(directory)
    try:
        for segment in reversed(change.removed):
            _remove_segment(storage, directory, segment, there=there, aside=aside)
            on_cut(segment)
        for cut, log in logs.items():
            if aside is not None and cut in tails:
                _keep_tail(storage, log, cut, aside)
            storage.truncate(log, cut.size)
            storage.fsync_file(log)
            on_cut(cut)
        storage.fsync_dir(directory)
    except OSError:
        if aside is not None:
            with suppress(OSError):  # something is kept in it
                storage.rmdir(aside)
        raise
    return aside


def _cut_indexes(
    storage: Storage, directory: str, change: Truncation, there: Files
) -> frozenset[str]:
    """Cut each index to the bytes that it shares with its new content, if it is longer than that.
    Return the names of those that are complete now. Indexes of removed segments stay as they are.
    """
    done = set[str]()
    removed = {segment.base_offset for segment in change.removed}
    for name, data in sorted(change.files.items()):
        if (
            not name.endswith((*_ENTRY_BYTES,))
            or name not in there
            or there[name].size <= len(data)
            or base_offset_of(name) in removed
            or _comes_last(name, there)
        ):
            continue
        path = f"{directory}/{name}"
        shared = _shared_bytes(storage.read_range(path, 0, len(data)), data)
        shared -= shared % _ENTRY_BYTES[name[name.index(".") :]]  # whole entries
        storage.truncate(path, shared)
        storage.fsync_file(path)
        if shared == len(data):
            done.add(name)
    return frozenset(done)


def _shared_bytes(found: bytes, new: bytes) -> int:
    """Return how many bytes both begin with."""
    many = min(len(found), len(new))
    differ = np.frombuffer(found, np.uint8, many) != np.frombuffer(new, np.uint8, many)
    return int(differ.argmax()) if differ.any() else many


def _write_epochs(storage: Storage, directory: str, change: Truncation, there: Files) -> None:
    if change.leader_epochs is not None:
        model = _model(directory, there, LEADER_EPOCHS)
        write_leader_epochs(storage, directory, change.leader_epochs, attributes_of=model)


def _write_files(
    storage: Storage, directory: str, new: Mapping[str, bytes], there: Files, *, staging: str
) -> None:
    # A file that begins with its new content is only cut.
    cut = {
        name
        for name, data in new.items()
        if name in there
        and there[name].size > len(data)
        and _comes_last(name, there)
        and storage.read_range(f"{directory}/{name}", 0, len(data)) == data
    }
    staged = sorted(new.keys() - cut)
    if staged:
        storage.ensure_dir(staging)
        left = files_in(storage, directory)
        for name in staged:
            storage.create(f"{staging}/{name}", new[name])
            storage.copy_attributes(_model(directory, left, name), f"{staging}/{name}")
            storage.fsync_file(f"{staging}/{name}")
        storage.fsync_dir(staging)
    last = [name for name in sorted(new) if _comes_last(name, there)]
    for names in (sorted(new.keys() - {*last}), last):
        for name in names:
            path = f"{directory}/{name}"
            if name in cut:
                storage.truncate(path, len(new[name]))
                storage.fsync_file(path)
            else:
                storage.rename(f"{staging}/{name}", path)
        storage.fsync_dir(directory)
    if staged:
        remove_staging(storage, staging)


def _comes_last(name: str, there: Files) -> bool:
    """Whether a loader rebuilds the indexes of a segment until this file is right: a missing offset
    index, or else a transaction index.
    """
    if name.endswith(INDEX):
        return name not in there
    return name.endswith(TXNINDEX) and name.removesuffix(TXNINDEX) + INDEX in there


def _remove_segment(
    storage: Storage, directory: str, segment: RemovedSegment, *, there: Files, aside: str | None
) -> None:
    """Remove all files of a segment, or move them aside, its log first.

    After a crash, indexes without a log would look like a lost log (`winnow.logdir.commit.lost`).
    So a log that is not moved aside is renamed until its indexes are removed.
    """
    names = files_of(there, [segment.base_offset])
    if aside is not None:
        for name in names:
            storage.rename(f"{directory}/{name}", f"{aside}/{name}")
        storage.fsync_dir(aside)
        storage.fsync_dir(directory)
        return
    log, *indexes = names
    renamed = log + DELETED
    try:
        storage.rename(f"{directory}/{log}", f"{directory}/{renamed}")
        storage.fsync_dir(directory)
    except OSError as error:
        if error.errno not in NO_SPACE:  # the directory has no room for a longer name
            raise
        renamed = log
    remove_files(storage, directory, indexes)
    remove_files(storage, directory, [renamed])


def _keep_tail(storage: Storage, log: str, cut: LogCut, aside: str) -> None:
    """Copy what is cut off. Copies of an earlier attempt are replaced."""
    for at, data in pieces(storage, log, cut.size, cut.before):
        path = f"{aside}/{cut.base_offset:020d}-{at}-{at + len(data)}"
        if storage.exists(path):
            storage.unlink(path)
        storage.create(path, data)
    storage.fsync_dir(aside)


def _log_of(directory: str, cut: LogCut) -> str:
    return f"{directory}/{segment_file(cut.base_offset, LOG)}"


def _model(directory: str, files: Files, name: str) -> str:
    """Return the file that has the owner and the mode of a new one: the one that it replaces, the
    log of its segment, another one of `files`, else the identity of the log directory.
    """
    for found in (name, f"{name.partition('.')[0]}{LOG}", *files):
        if found in files:
            return f"{directory}/{found}"
    return f"{directory.rpartition('/')[0]}/{META_PROPERTIES}"
