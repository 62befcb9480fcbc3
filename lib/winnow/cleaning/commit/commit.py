"""What every commit of a run does: the journal, the swaps, checkpoints, what is kept for an undo.
Several partitions are committed side by side.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TypeVar

from winnow.cleaning.request import Request
from winnow.errors import FAILS_ONE_PARTITION, WinnowError
from winnow.logdir.checkpoints import update_offset_checkpoint
from winnow.logdir.commit.journal import Journal, write_journal
from winnow.logdir.commit.keeping import begin_keeping, end_keeping
from winnow.logdir.commit.kept import kept_path, read_kept
from winnow.logdir.commit.leftovers import check_unchanged
from winnow.logdir.commit.swap import StagedGroup, Swaps
from winnow.logdir.names import CLEANER_CHECKPOINT, LOG, segment_file
from winnow.runtime.progress import Progress
from winnow.runtime.side_by_side import side_by_side
from winnow.state import PartitionState, Segment, TopicPartition
from winnow.storage.contract import Entry, Storage
from winnow.storage.places import KEEP_FREE_BYTES, free_bytes
from winnow.storage.turns import in_turn
from winnow.storage.urls import is_remote

_log = logging.getLogger(__name__)

_T = TypeVar("_T")
COMMITS_AT_ONCE = 64
"""Their syncs overlap: one write of a file system's journal makes several of them durable, and one
write of a checkpoint has the entries of all that wait.
"""
_REMOTE_AT_ONCE = 16
"""The same on S3 and HDFS, where their requests overlap."""
_JOURNAL_SEGMENT_BYTES = 2**11
"""Bytes of a journal for each segment, at most, unless many transactions are open."""


def begin_round(
    storage: Storage,
    directory: str,
    staging: str,
    journal: Journal,
    sources: Sequence[Segment],
    entries: Sequence[Entry] | None = None,
) -> Sequence[Entry]:
    """Write the journal before groups are put in place. From here on, the next run finishes the
    work if this one can't.

    `sources`: those of these groups, and of groups that stay unchanged among them. `entries`: of
    the directory, if it has just been listed. Return what is in the directory. See
    `winnow.logdir.commit.roll_forward`. Raises CorruptLogError if somebody else has changed the
    partition: these sources and those of the waiting groups are checked first.
    """
    every = [*sources, *(source for group in journal.waiting for source in group.sources)]
    entries = storage.list_dir(directory) if entries is None else entries
    check_unchanged(storage, directory, every, entries)
    # Sync the sources that a broker had not flushed when it crashed (S8.2). A record is removed
    # because a later one has its key. A power failure must not lose the later one, which may be in
    # a group that is replaced later. A round in the journal can then be continued after any crash.
    unflushed = [source for source in every if source.rebuilt is not None]
    for source in unflushed:
        storage.fsync_file(f"{directory}/{segment_file(source.base_offset, LOG)}")
    if unflushed:
        storage.fsync_dir(directory)
    write_journal(storage, staging, journal)
    return entries


def commit_groups(
    storage: Storage,
    directory: str,
    groups: Sequence[StagedGroup],
    entries: Sequence[Entry] | None = None,
) -> None:
    """Replace the sources of one partition by the staged segments, one group at a time, ascending
    (S6.4).

    `entries`: of the directory, if it has just been listed. A crash leaves each group old or new.
    Without renames, it leaves all groups old or all new.
    """
    swaps = Swaps(storage, directory, entries)
    with storage.changing(directory):
        for group in groups:
            swaps.swap(group)


def commit_cleaner_checkpoint(
    storage: Storage, log_dir: str, offsets: Mapping[TopicPartition, int]
) -> None:
    """Raise the cleaner checkpoint. Call this only after every group of these partitions is in
    place: a checkpoint that is too high resurrects deleted keys (S8.7).
    """
    update_offset_checkpoint(storage, f"{log_dir}/{CLEANER_CHECKPOINT}", offsets)


@contextmanager
def kept_by(
    request: Request, state: PartitionState, *, cleaner_checkpoint_after: int | None = None
) -> Iterator[None]:
    """Keep everything that the block removes from the partition. `state`: before the first change.

    `cleaner_checkpoint_after`: the new cleaner checkpoint, if the block or what follows moves it.
    If the block fails, the next recovery handles both the unfinished work and the kept files.
    """
    if not request.keep_replaced:
        yield
        return
    begin_keeping(
        request.storage,
        state,
        run_id=request.run_id,
        now=request.now,
        cleaner_checkpoint_after=cleaner_checkpoint_after,
    )
    yield
    end_keeping(request.storage, state.directory, run_id=request.run_id)


def kept_bytes(request: Request, directory: str) -> int | None:
    """Return the bytes that a run keeps of a partition. None if it keeps nothing."""
    if not request.keep_replaced:
        return None
    try:
        if not request.storage.exists(kept_path(directory, request.run_id)):
            return 0
        return read_kept(request.storage, directory, request.run_id).bytes
    except FAILS_ONE_PARTITION as error:
        known = isinstance(error, WinnowError | OSError)
        _log.warning("could not read what was kept in %s: %s", directory, error, exc_info=not known)
        return None


def commit_several(
    commits: Sequence[Callable[[], _T]],
    directories: Sequence[str],
    progress: Progress,
    *,
    doing: str = "",
    most_segments: int = 0,
) -> list[_T]:
    """Call the commits of partitions. Return their results in order.

    `doing`: the stage of `progress`, if this begins one. `directories`, `most_segments`: see
    `commits_at_once`. Commits on this machine take turns wherever they do not wait for the disk.
    """
    if doing and commits:
        progress.stage(doing, total_tasks=len(commits))
    if not any(map(is_remote, directories)):
        commits = [partial(in_turn, commit) for commit in commits]
    at_once = commits_at_once(directories, most_segments=most_segments)
    return side_by_side(commits, at_once=at_once, done=partial(progress.advance, 1))


def commits_at_once(directories: Iterable[str], *, most_segments: int = 0) -> int:
    """Return how many partitions may be committed at the same time: one where space is short.

    A commit writes its journal, a checkpoint and perhaps an empty segment before it frees anything.
    What is kept free by default is enough for one (docs/decisions/0012). So each of them must find
    as much. One commit at a time uses what the ones before it have freed.

    `most_segments`: the most segments that the journal of one of them lists.
    """
    each = KEEP_FREE_BYTES + most_segments * _JOURNAL_SEGMENT_BYTES
    directories = [*directories]
    most = _REMOTE_AT_ONCE if any(map(is_remote, directories)) else COMMITS_AT_ONCE
    for directory in directories:
        with suppress(OSError):  # its own commit will report that
            most = min(most, free_bytes(directory, keep_free=0) // each)
    return max(1, most)
