"""Finish the cleaning round of a partition that a crash interrupted, so that it ends as if there
had been no crash.

`winnow.logdir.commit.recovery` does what Kafka's loader would do and leaves each group old or new.
If a journal describes the round, and the partition is as that round left it, the old groups are
swapped here, and then the checkpoint is written. If a broker or anybody else has changed something
since, the rest of the round is given up: it would only have saved space.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from winnow.errors import CorruptLogError
from winnow.logdir.checkpoints import read_offset_checkpoint, update_offset_checkpoint
from winnow.logdir.commit.journal import (
    Journal,
    JournalGroup,
    Output,
    StagedFile,
    file_crc32c,
    leave_journal,
    read_journal,
)
from winnow.logdir.commit.keeping import keeping_path, settle_kept
from winnow.logdir.commit.recovery import RecoveryReport, recover, staging_entries
from winnow.logdir.commit.swap import StagedGroup, complete, swap_group
from winnow.logdir.commit.unchanged import difference
from winnow.logdir.files import Files, files_in, log_bases, removable
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    run_id: str
    end_offset: int
    """The cleaner checkpoint now."""
    groups: tuple[JournalGroup, ...]
    """The groups that were old and are new now."""


@dataclass(frozen=True, slots=True)
class OpenRound:
    """A round in which some groups have not been rewritten yet."""

    staging: str
    journal: Journal


@dataclass(frozen=True, slots=True)
class PutRight:
    """What was done to one partition directory."""

    recovery: RecoveryReport
    finished: Finished | None = None
    goes_on: OpenRound | None = None
    """A round that this run continues. Its staging directory has only the journal."""
    given_up: str | None = None
    """The run whose round was given up: each group is old or new, the checkpoint unmoved."""


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
    if found is None:
        return PutRight(recovered())
    staging, journal = found.staging, found.journal
    untrusted = trusted_end is not None and journal.end_offset > trusted_end
    if not finish or untrusted or not journal.has_checksums:
        return PutRight(recovered(), given_up=journal.run_id)
    for group in journal.groups:
        _resume(storage, directory, staging, group)
    run_id = staging.rpartition("/")[2].removeprefix(STAGING_PREFIX)
    keeping = keeping_path(directory, run_id)
    recovery = recovered(keep=(staging, keeping))
    if storage.exists(keeping):
        # What was kept of a group that is staged again will be kept again during its swap.
        settle_kept(storage, directory, run_id=run_id)
    agrees = _swap_pending(storage, log_dir, topic_partition, found)
    if agrees is None:
        recover(storage, directory)
        return PutRight(recovery, given_up=journal.run_id)
    if journal.rest is None:
        update_offset_checkpoint(
            storage, f"{log_dir}/{CLEANER_CHECKPOINT}", {topic_partition: journal.end_offset}
        )
        recover(storage, directory)
        return PutRight(
            recovery, Finished(run_id=journal.run_id, end_offset=journal.end_offset, groups=agrees)
        )
    if journal.now != now:
        recover(storage, directory)
        return PutRight(recovery, given_up=journal.run_id)
    with storage.changing(directory):
        leave_journal(storage, staging)
    return PutRight(recovery, goes_on=found)


def _swap_pending(
    storage: Storage, log_dir: str, topic_partition: TopicPartition, found: OpenRound
) -> tuple[JournalGroup, ...] | None:
    """Swap all staged groups into place and return those that were not yet. None if the partition
    has changed.
    """
    directory, staging, journal = f"{log_dir}/{topic_partition}", found.staging, found.journal
    checkpoint = read_offset_checkpoint(storage, f"{log_dir}/{CLEANER_CHECKPOINT}").get(
        topic_partition
    )
    if checkpoint not in {journal.checkpoint_before, journal.end_offset}:
        return None
    pending = _pending(storage, directory, staging, journal)
    if pending is None:
        return None
    for group in pending:
        for file in group.output.files.values() if group.output else ():
            _check_file(storage, f"{staging}/{file.name}", file)
    with storage.changing(directory):
        for group in journal.groups:
            if group in pending:
                swap_group(storage, directory, _staged(group, staging))
            elif group.output is not None:
                _tidy(storage, directory, group, group.output)
    return tuple(pending)


def _staged(group: JournalGroup, staging: str) -> StagedGroup:
    files = group.output.files if group.output else {}
    paths = {suffix: f"{staging}/{file.name}" for suffix, file in files.items()}
    return StagedGroup(base_offset=group.base_offset, sources=group.sources, paths=paths)


def _resume(storage: Storage, directory: str, staging: str, group: JournalGroup) -> None:
    """Take one group out of the middle of its swap: back to staged, or forward to its end, as a
    loader would decide.

    Unlike a loader it keeps the staged files and the producer snapshot at the output's base, and
    keeps no source.
    """
    if group.output is None:
        return
    files, base, staged = files_in(storage, directory), group.base_offset, group.output.files
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
        and _is_output(files, base, group.output, swaps)
        and _no_other(files, group.sources[LOG not in swaps :])
    ):
        _check_output(storage, directory, base, group.output, swaps)
        complete(storage, directory, files, sources=group.source_bases, outputs={base: staged})


def _tidy(storage: Storage, directory: str, group: JournalGroup, output: Output) -> None:
    """Do the last step of a swap: remove sources beyond the output (S6.2), and their snapshots."""
    files = files_in(storage, directory)
    if removable(files, group.source_bases[1:]):
        _check_output(storage, directory, group.base_offset, output, ())
        complete(
            storage,
            directory,
            files,
            sources=group.source_bases,
            outputs={group.base_offset: output.files},
        )


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
        if group.unchanged:
            if inside != [*group.source_bases] or difference(files, group.sources[0]):
                return None
        elif inside == [*group.source_bases] and (
            group.output is None or _is_staged(staged, group.output)
        ):
            if any(difference(files, source) for source in group.sources):
                return None
            pending += [group] if group.output else []
        elif (
            pending
            or not {*inside} <= {*group.source_bases}
            or not _is_in_place(files, staged, group)
        ):
            return None
    return pending


def _is_staged(staged: Files, output: Output) -> bool:
    return all(
        file.name in staged and staged[file.name].size == file.size
        for file in output.files.values()
    )


def _is_in_place(files: Files, staged: Files, group: JournalGroup) -> bool:
    """Whether the output is part of the log. Sources beyond its end may still exist (S6.2)."""
    return (
        group.output is not None
        and all(file.name not in staged for file in group.output.files.values())
        and _is_output(files, group.base_offset, group.output, ())
        and _no_other(files, group.sources[1:])
    )


def _is_output(files: Files, base_offset: int, output: Output, swaps: Sequence[str]) -> bool:
    """Whether all files of an output exist, those in `swaps` still with the `.swap` suffix."""
    names = {
        suffix: segment_file(base_offset, suffix) + (SWAP if suffix in swaps else "")
        for suffix in output.files
    }
    log = files.get(names[LOG])
    return (
        log is not None
        and log.mtime_ms == output.log_mtime_ms
        and all(
            name in files and files[name].size == output.files[suffix].size
            for suffix, name in names.items()
        )
    )


def _check_output(
    storage: Storage, directory: str, base_offset: int, output: Output, swaps: Sequence[str]
) -> None:
    """Check an output in the partition directory. `swaps`: its files that still end in `.swap`."""
    for suffix, file in output.files.items():
        name = segment_file(base_offset, suffix) + (SWAP if suffix in swaps else "")
        _check_file(storage, f"{directory}/{name}", file)


def _check_file(storage: Storage, path: str, file: StagedFile) -> None:
    found = file_crc32c(storage, path)
    if found != file.crc32c:
        raise CorruptLogError(
            "a segment that an interrupted run had staged is damaged",
            expected=f"CRC-32C {file.crc32c}, as in its journal",
            found=str(found),
            where=path,
            hint="Nothing was removed. The disk or the memory of this machine may be failing: keep "
            "a copy of this directory. To give up what that run had staged, remove its .winnow- "
            "directory. Remove the .swap files too if all segments that they would replace still "
            "exist. Then run again",
        )


def _no_other(files: Files, sources: Sequence[Segment]) -> bool:
    """Whether each source is gone or its log unchanged. A crash may have removed its indexes."""
    logs = [(files.get(segment_file(source.base_offset, LOG)), source) for source in sources]
    return all(
        log is None or (log.size, log.mtime_ms) == (s.log_bytes, s.log_mtime_ms) for log, s in logs
    )
