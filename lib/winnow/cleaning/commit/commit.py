"""Change a log directory: the driver's commit, under the directory's lock. Nothing else renames or
removes its files.

The commit receives verified staged segments in offset order. It does not know how survivors were
found.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from winnow.cleaning.request import Request
from winnow.errors import FAILS_ONE_PARTITION, WinnowError
from winnow.logdir.checkpoints import update_offset_checkpoint
from winnow.logdir.commit.journal import Journal, write_journal
from winnow.logdir.commit.keeping import begin_keeping, end_keeping
from winnow.logdir.commit.kept import kept_path, read_kept
from winnow.logdir.commit.retain import follow_log_start
from winnow.logdir.commit.swap import StagedGroup, swap_group
from winnow.logdir.commit.unchanged import check_unchanged
from winnow.logdir.names import CLEANER_CHECKPOINT, LOG, segment_file
from winnow.state import Entries, PartitionState, Segment, TopicPartition
from winnow.storage.contract import Storage

_log = logging.getLogger(__name__)


def begin_round(
    storage: Storage, directory: str, staging: str, journal: Journal, sources: Sequence[Segment]
) -> None:
    """Write the journal before groups are put in place. From here on, the next run finishes the
    work if this one can't.

    `sources`: those of these groups, and of groups that stay unchanged among them. See
    `winnow.logdir.commit.roll_forward`. Raises CorruptLogError if somebody else has changed the
    partition: these sources and those of the waiting groups are checked first.
    """
    every = [*sources, *(source for group in journal.waiting for source in group.sources)]
    check_unchanged(storage, directory, every)
    # Sync the sources that a broker had not flushed when it crashed (S8.2). A record is removed
    # because a later one has its key. A power failure must not lose the later one, which may be in
    # a group that is replaced later. A round in the journal can then be continued after any crash.
    unflushed = [source for source in every if source.rebuilt is not None]
    for source in unflushed:
        storage.fsync_file(f"{directory}/{segment_file(source.base_offset, LOG)}")
    if unflushed:
        storage.fsync_dir(directory)
    write_journal(storage, staging, journal)


def commit_groups(storage: Storage, directory: str, groups: Sequence[StagedGroup]) -> None:
    """Replace the sources of one partition by the staged segments, one group at a time, ascending
    (S6.4).

    A crash leaves each group old or new. Without renames, it leaves all groups old or all new.
    """
    with storage.changing(directory):
        for group in groups:
            swap_group(storage, directory, group)


def commit_cleaner_checkpoint(
    storage: Storage, log_dir: str, offsets: Mapping[TopicPartition, int]
) -> None:
    """Raise the cleaner checkpoint. Call this only after every group of these partitions is in
    place: a checkpoint that is too high resurrects deleted keys (S8.7).
    """
    if offsets:
        update_offset_checkpoint(storage, f"{log_dir}/{CLEANER_CHECKPOINT}", offsets)


def commit_log_start(storage: Storage, state: PartitionState, entries: Entries) -> None:
    """Update side files and checkpoints after segments were deleted (S7.6, 3-5)."""
    follow_log_start(storage, state.log_dir, state.topic_partition, state.log_start_offset, entries)


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
