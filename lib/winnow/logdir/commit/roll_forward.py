"""Finish the cleaning round of a partition that a crash interrupted, so that it ends as if there
had been no crash.

`winnow.logdir.commit.recovery` does what Kafka's loader would do and leaves each group old or new.
If a journal describes the round, and the partition is as that round left it, the old groups are
swapped here, and then the checkpoint is written. If a broker or anybody else has changed something
since, the rest of the round is given up: it would only have saved space.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from winnow.errors import CorruptLogError
from winnow.logdir.checkpoints import read_offset_checkpoint, update_offset_checkpoint
from winnow.logdir.commit.journal import (
    Journal,
    JournalGroup,
    StagedFile,
    file_crc32c,
    leave_journal,
    read_journal,
)
from winnow.logdir.commit.keeping import keeping_path, settle_kept
from winnow.logdir.commit.kept import kept_path
from winnow.logdir.commit.leftovers import staging_entries
from winnow.logdir.commit.recovery import RecoveryReport, recover
from winnow.logdir.commit.swap import StagedGroup, Swaps, complete
from winnow.logdir.files import Files, difference, files_in, log_bases, removable
from winnow.logdir.names import (
    CLEANED,
    CLEANER_CHECKPOINT,
    LOG,
    STAGING_PREFIX,
    SWAP,
    segment_file,
)
from winnow.state import Segment, TopicPartition
from winnow.storage.contract import COMMIT_RECORD, Entry, Storage


@dataclass(frozen=True, slots=True)
class OpenRound:
    """A round in which some groups have not been rewritten yet."""

    staging: str
    journal: Journal


@dataclass(frozen=True, slots=True)
class PutRight:
    """What was done to one partition directory."""

    recovery: RecoveryReport
    finished: Journal | None = None
    """The journal of the round that was finished. It has only the groups that this call swapped."""
    goes_on: OpenRound | None = None
    """A round that this run continues. Its staging directory has only the journal."""


def open_round(storage: Storage, directory: str, entries: Sequence[Entry]) -> OpenRound | None:
    """Return the interrupted round of a partition directory, if there is one."""
    paths = [f"{directory}/{one.name}" for one in staging_entries(entries) if not one.is_link]
    found = [(path, read_journal(storage, path)) for path in paths]
    known = [OpenRound(staging, journal) for staging, journal in found if journal is not None]
    # Each run finishes or gives up the previous run's round, so at most one of several is genuine.
    return known[0] if len(known) == 1 else None


def put_right(
    storage: Storage,
    log_dir: str,
    topic_partition: TopicPartition,
    *,
    finish: bool,
    now: int | None = None,
    trusted_end: int | None = None,
) -> PutRight:
    """Recover a partition directory. With `finish`, also finish the interrupted round. Hold the
    lock.

    `now`: the clock of a run that can continue a round of the same clock in which groups still have
    to be rewritten. Without it such a round is given up. `trusted_end`: after an unclean shutdown,
    a round that reaches beyond it is given up too (S8.2). May be interrupted at any point and run
    again. Raises as `recover` and `swap_group` do.
    """
    directory = f"{log_dir}/{topic_partition}"
    begun = any(entry.name == COMMIT_RECORD for entry in storage.list_dir(directory))
    storage.settle(directory)

    def recovered(keep: Sequence[str] = ()) -> RecoveryReport:
        report = recover(storage, directory, keep=keep)
        return replace(report, removed=(COMMIT_RECORD, *report.removed)) if begun else report

    found = open_round(storage, directory, storage.list_dir(directory))
    if not finish or found is None or not found.journal.has_checksums:
        return PutRight(recovered())
    staging, journal = found.staging, found.journal
    if trusted_end is not None and journal.end_offset > trusted_end:
        return PutRight(recovered())
    run_id = staging.rpartition("/")[2].removeprefix(STAGING_PREFIX)
    keeping = keeping_path(directory, run_id)
    keeps = storage.exists(keeping)
    if keeps and not storage.exists(kept_path(directory, run_id)):
        return PutRight(recovered())  # an earlier Winnow moved it aside, and failed then
    for group in journal.groups:
        if group.files:
            _resume(storage, directory, staging, group)
    recovery = recovered(keep=(staging, keeping))
    if keeps:
        # What was kept of a group that is staged again will be kept again during its swap.
        settle_kept(storage, directory, run_id=run_id, ended=False)
    swapped, finished = _swap_pending(storage, log_dir, topic_partition, found), None
    if swapped is not None and journal.rest is None:
        offsets = {topic_partition: journal.end_offset}
        update_offset_checkpoint(storage, f"{log_dir}/{CLEANER_CHECKPOINT}", offsets)
        finished = replace(journal, groups=swapped)
    elif swapped is not None and journal.now == now:
        with storage.changing(directory):
            leave_journal(storage, staging)
        return PutRight(recovery, goes_on=found)
    recover(storage, directory)
    return PutRight(recovery, finished)


def _swap_pending(
    storage: Storage, log_dir: str, topic_partition: TopicPartition, found: OpenRound
) -> tuple[JournalGroup, ...] | None:
    """Swap all staged groups into place and return those that were not yet. None if the partition
    has changed.
    """
    directory, staging, journal = f"{log_dir}/{topic_partition}", found.staging, found.journal
    offsets = read_offset_checkpoint(storage, f"{log_dir}/{CLEANER_CHECKPOINT}")
    if offsets.get(topic_partition) not in {journal.checkpoint_before, journal.end_offset}:
        return None
    pending = _pending(storage, directory, staging, journal)
    if pending is None:
        return None
    for group in pending:
        _check(storage, staging, group.staged)
    swaps = Swaps(storage, directory)
    with storage.changing(directory):
        for group in journal.groups:
            if group in pending:
                paths = {suffix: f"{staging}/{file.name}" for suffix, file in group.files.items()}
                swaps.swap(StagedGroup(sources=group.sources, paths=paths))
            elif group.files:
                # Do the last step of the swap again: it removes the sources beyond the output
                # (S6.2), and their snapshots.
                files = files_in(storage, directory)
                if removable(files, group.source_bases[1:]):
                    _complete(storage, directory, files, group, ())
    return tuple(pending)


def _resume(storage: Storage, directory: str, staging: str, group: JournalGroup) -> None:
    """Take one group out of the middle of its swap: back to staged, or forward to its end, as a
    loader would decide.

    Unlike a loader it keeps the staged files and the producer snapshot at the output's base, and
    keeps no source.
    """
    files, base, staged = files_in(storage, directory), group.base_offset, group.files
    cleaned = [suffix for suffix in staged if segment_file(base, suffix) + CLEANED in files]
    swaps = [suffix for suffix in staged if segment_file(base, suffix) + SWAP in files]
    if cleaned:
        # Remove .swap first: without the .cleaned beside it, a half-renamed output would look
        # complete.
        for marker, suffixes in ((SWAP, swaps), (CLEANED, cleaned)):
            for suffix in suffixes:
                back = f"{staging}/{staged[suffix].name}"
                if not storage.exists(back):
                    storage.rename(f"{directory}/{segment_file(base, suffix)}{marker}", back)
            storage.fsync_dir(staging)
            storage.fsync_dir(directory)
    elif (
        swaps
        and _is_placed(files, group, swaps)
        and _no_other(files, group.sources[LOG not in swaps :])
    ):
        _complete(storage, directory, files, group, swaps)


def _complete(
    storage: Storage, directory: str, files: Files, group: JournalGroup, swaps: Sequence[str]
) -> None:
    """Finish the swap of a group whose output is placed, after a check of its checksums. `swaps`:
    see `_is_placed`.
    """
    _check(storage, directory, _placed(group, swaps))
    outputs = {group.base_offset: group.files}
    complete(storage, directory, files, sources=group.source_bases, outputs=outputs)


def _pending(
    storage: Storage, directory: str, staging: str, journal: Journal
) -> list[JournalGroup] | None:
    """Return the groups that are staged and not in place. None if anything else has changed."""
    files, staged = files_in(storage, directory), files_in(storage, staging)
    bases = log_bases(files)
    if not bases or bases[-1] < journal.end_offset:
        return None
    pending: list[JournalGroup] = []
    for group, following in zip_longest(journal.groups, journal.groups[1:]):
        end = journal.end_offset if following is None else following.base_offset
        inside = [base for base in bases if group.base_offset <= base < end]
        if inside == [*group.source_bases] and _are_there(staged, group.staged):
            if any(difference(files, source) for source in group.sources):
                return None
            pending += [group] if group.files else []
        elif (
            pending
            or not {*inside} <= {*group.source_bases}
            or not staged.keys().isdisjoint(group.staged)
            or not _is_placed(files, group)
            or not _no_other(files, group.sources[1:])
        ):
            return None
    return pending


def _is_placed(files: Files, group: JournalGroup, swaps: Sequence[str] = ()) -> bool:
    """Whether the output is part of the log, its files in `swaps` still with that suffix. Sources
    beyond its end may still exist (S6.2).
    """
    log = segment_file(group.base_offset, LOG) + (SWAP if LOG in swaps else "")
    return (
        group.output is not None
        and _are_there(files, _placed(group, swaps))
        and files[log].mtime_ms == group.output.log_mtime_ms
    )


def _placed(group: JournalGroup, swaps: Sequence[str]) -> Mapping[str, StagedFile]:
    return {
        segment_file(group.base_offset, suffix) + (SWAP if suffix in swaps else ""): file
        for suffix, file in group.files.items()
    }


def _are_there(files: Files, wanted: Mapping[str, StagedFile]) -> bool:
    return all(name in files and files[name].size == file.size for name, file in wanted.items())


def _check(storage: Storage, directory: str, wanted: Mapping[str, StagedFile]) -> None:
    for name, file in wanted.items():
        found = file_crc32c(storage, f"{directory}/{name}")
        if found != file.crc32c:
            raise CorruptLogError(
                "a segment that an interrupted run had staged is damaged",
                expected=f"CRC-32C {file.crc32c}, as in its journal",
                found=str(found),
                where=f"{directory}/{name}",
                hint="Nothing was removed. The disk or the memory of this machine may be failing: "
                "keep a copy of this directory. To give up what that run had staged, remove its "
                ".winnow- directory. Remove the .swap files too if all segments that they would "
                "replace still exist. Then run again",
            )


def _no_other(files: Files, sources: Sequence[Segment]) -> bool:
    """Whether each source is gone or its log unchanged. A crash may have removed its indexes."""
    logs = [(files.get(segment_file(source.base_offset, LOG)), source) for source in sources]
    return all(
        log is None or (log.size, log.mtime_ms) == (s.log_bytes, s.log_mtime_ms) for log, s in logs
    )
