"""Delete whole segments from the start of a log, as retention does (S6.6, S7.4, S7.6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from winnow.errors import NO_SPACE, CorruptLogError
from winnow.logdir.checkpoints import (
    fold_leader_epochs,
    read_leader_epochs,
    read_offset_checkpoint,
    update_offset_checkpoint,
    write_leader_epochs,
)
from winnow.logdir.commit.keeping import keep
from winnow.logdir.commit.leftovers import check_unchanged
from winnow.logdir.files import files_in, log_bases, removable
from winnow.logdir.names import (
    CLEANED,
    CLEANER_CHECKPOINT,
    DELETED,
    INDEX,
    LOG,
    LOG_START_CHECKPOINT,
    TIMEINDEX,
    segment_file,
)
from winnow.state import Entries, PartitionState, Segment, TopicPartition
from winnow.storage.contract import Storage


def retain(
    storage: Storage,
    state: PartitionState,
    *,
    deleted: Sequence[Segment],
    roll: bool,
    log_start_offset: int,
    entries: Entries,
) -> None:
    """Do all of S7.6 for one partition, in its order. Hold the lock.

    `deleted`: the lowest segments of `state`. `roll`: all segments are deleted, so a new empty one
    is made first. `log_start_offset`: the value afterwards. A crash in between leaves a log without
    a hole. Running it again on the state found then gives the same result.
    """
    if entries.remote:
        # Raise the entry first. Otherwise a broker would look for the deleted segments in remote
        # storage and serve nothing.
        check_unchanged(storage, state.directory, [*deleted, *([state.active] if roll else [])])
        path = f"{state.log_dir}/{LOG_START_CHECKPOINT}"
        _raise_entry(storage, path, state.topic_partition, log_start_offset, missing=True)
    with storage.changing(state.directory):
        if roll:
            roll_active(storage, state)
        delete_segments(storage, state.directory, deleted)
    follow_log_start(storage, replace(state, log_start_offset=log_start_offset), entries)


def roll_active(storage: Storage, state: PartitionState) -> None:
    """Make a new empty active segment at the log end offset (S7.2), so that the log end offset
    survives.

    Its files get the owner and mode of the active segment's files. It gets no producer snapshot: a
    broker replays from an older one.

    Raises CorruptLogError if the active segment is empty or has changed.
    """
    directory, end = state.directory, state.log_end_offset
    files = check_unchanged(storage, directory, [state.active])
    if log_bases(files)[-1] != state.active.base_offset or end <= state.active.base_offset:
        raise CorruptLogError(
            "the active segment can't be rolled",
            expected=f"a last segment that begins before {end}",
            found=f"one at {log_bases(files)[-1]}",
            where=directory,
        )
    model = f"{directory}/{segment_file(state.active.base_offset, LOG)}"
    # The log last: loaders also sweep index files without a log.
    paths = [f"{directory}/{segment_file(end, suffix)}" for suffix in (INDEX, TIMEINDEX, LOG)]
    for path in paths:
        # Use a name that every loader sweeps until owner and mode are right too.
        storage.create(path + CLEANED, b"")
        storage.copy_attributes(model, path + CLEANED)
        storage.fsync_file(path + CLEANED)
    for path in paths:
        storage.rename(path + CLEANED, path)
    storage.fsync_dir(directory)


def delete_segments(storage: Storage, directory: str, segments: Sequence[Segment]) -> None:
    """Delete the lowest segments of a log, lowest first, with the producer snapshots at their
    bases (S6.6).

    Raises CorruptLogError, before anything is renamed, unless they are the lowest, have not changed
    since they were listed, and at least one segment remains.
    """
    if not segments:
        return
    with storage.changing(directory):
        files = check_unchanged(storage, directory, segments)
        bases = [segment.base_offset for segment in segments]
        present = log_bases(files)
        if bases != present[: len(bases)] or len(bases) == len(present):
            raise CorruptLogError(
                "retention can delete only the lowest segments, and never all",
                expected=f"the first of {present}, not the last",
                found=str(bases),
                where=directory,
            )
        to_delete = [removable(files, [base]) for base in bases]
        removed = [name for names in to_delete for name in names]
        keep(storage, directory, removed, next_base=present[len(bases)])
        for names in to_delete:
            for name in names:
                _delete_file(storage, f"{directory}/{name}")
            # Sync before the next one: if the second segment is deleted and the first one comes
            # back after a crash, the log has a hole.
            storage.fsync_dir(directory)
        for name in removed:
            if storage.exists(f"{directory}/{name}{DELETED}"):
                storage.unlink(f"{directory}/{name}{DELETED}")
        storage.fsync_dir(directory)


def _delete_file(storage: Storage, path: str) -> None:
    """Rename the file, as Kafka does. If the directory has no room for a longer name, remove it at
    once: to a loader a missing `.log` is the same as a renamed one (S6.6).
    """
    try:
        storage.rename(path, path + DELETED)
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        storage.unlink(path)


def follow_log_start(storage: Storage, state: PartitionState, entries: Entries) -> None:
    """Update the side files of a partition to its segments on the disk and to the log start offset
    of `state` (S7.6, 3-5).
    """
    topic_partition, directory = state.topic_partition, state.directory
    log_start = f"{state.log_dir}/{LOG_START_CHECKPOINT}"
    # In this order `lags_behind` detects an interruption: it ignores the cleaner's entry.
    if entries.compacted:
        path = f"{state.log_dir}/{CLEANER_CHECKPOINT}"
        _raise_entry(storage, path, topic_partition, state.log_start_offset, missing=False)
    epochs = read_leader_epochs(storage, directory)
    folded = fold_leader_epochs(epochs, state.log_start_offset)
    if folded != epochs:
        write_leader_epochs(storage, directory, folded)
    if entries.remote:
        _raise_entry(storage, log_start, topic_partition, state.log_start_offset, missing=True)
        return
    entry = read_offset_checkpoint(storage, log_start).get(topic_partition)
    bases = log_bases(files_in(storage, directory))
    if entry is not None and bases and entry <= bases[0]:
        update_offset_checkpoint(storage, log_start, {topic_partition: None})


def lags_behind(state: PartitionState) -> bool:
    """For a log without remote storage: whether `follow_log_start` was interrupted or never ran
    after segments were deleted.

    The log itself is sound, and no rule deletes anything more from it. A broker corrects its side
    files when it loads it (S6.3). A first dirty offset below the log start is up to the cleaner
    (S3.2).
    """
    entry = state.log_start_checkpoint
    folded = fold_leader_epochs(state.leader_epochs, state.log_start_offset)
    return folded != state.leader_epochs or (
        entry is not None and entry <= state.segments[0].base_offset
    )


def _raise_entry(
    storage: Storage, path: str, topic_partition: TopicPartition, offset: int, *, missing: bool
) -> None:
    """Raise the entry of a partition in a checkpoint to this offset, unless it is at least as high
    already. `missing`: add one that is missing.
    """
    entry = read_offset_checkpoint(storage, path).get(topic_partition)
    if missing if entry is None else entry < offset:
        update_offset_checkpoint(storage, path, {topic_partition: offset})
