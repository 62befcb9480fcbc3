"""Commit what is staged of a partition: journal, swaps, cleaner checkpoint, retention (S6.4, S3.5).
A commit that has begun is always finished.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace

from winnow.cleaning.commit.commit import (
    begin_round,
    commit_cleaner_checkpoint,
    commit_groups,
    kept_by,
)
from winnow.cleaning.commit.retention import retain_from, state_now
from winnow.cleaning.plan import outcomes as report
from winnow.cleaning.plan.partitions import PlannedPartition
from winnow.cleaning.request import Request
from winnow.cleaning.result import PartitionResult
from winnow.cleaning.staged import StagedPartition
from winnow.cleaning.summaries.store import UniqueKeys, record
from winnow.clock import ms_since
from winnow.errors import FAILS_ONE_PARTITION, WinnowError
from winnow.logdir.commit.journal import Journal, leave_journal, with_staged
from winnow.logdir.commit.staging import remove_staging
from winnow.policy.plan import after_round
from winnow.runtime.failure import Failure, failure
from winnow.storage.contract import Entry, Remembered, Storage
from winnow.storage.places import Places

_log = logging.getLogger(__name__)


def commit(
    item: PlannedPartition,
    staged: StagedPartition,
    request: Request,
    entries: Sequence[Entry] | None = None,
) -> StagedPartition | PartitionResult:
    """Put the staged groups in place. Return the result of the partition or, if groups remain, what
    is in place. `entries`: of the partition directory, if it has just been listed.
    """
    if not staged.is_last:
        return _commit_part(item, staged, request)
    if request.stop.reason is not None:
        why = Failure(request.stop.reason, WinnowError.exit_code)
        return give_up(item, staged, why, request)
    storage, end = request.storage, staged.journal.end_offset
    began = time.monotonic()
    try:
        with kept_by(request, item.state, cleaner_checkpoint_after=end):
            try:
                _, entries = _begin(storage, staged, None if request.keep_replaced else entries)
            except FAILS_ONE_PARTITION as error:
                return give_up(item, staged, failure(error), request)
            commit_groups(storage, staged.directory, staged.to_swap, entries)
            commit_cleaner_checkpoint(
                storage, item.place.log_dir, {item.place.topic_partition: end}
            )
            remove_staging(storage, staged.staging)
            staged = replace(staged, placed=(*staged.placed, *staged.groups), groups=())
            _sum_up(staged)
            placed = [(group.sources, group.segment) for group in staged.placed]
            cleaned = after_round(item.state, placed, end)
            plan, words = item.then_retained(cleaned, request)
            after = retain_from(item, cleaned, plan, request)
    except FAILS_ONE_PARTITION as error:  # the journal remains: the next run continues
        return report.interrupted(item, failure(error))
    return report.done(
        item,
        request,
        after,
        plan,
        duration_ms=staged.duration_ms + ms_since(began),
        groups=staged.placed,
        cleaned_to=end,
        afterwards=words,
    )


def _commit_part(
    item: PlannedPartition, staged: StagedPartition, request: Request
) -> StagedPartition | PartitionResult:
    began = time.monotonic()
    try:
        journal, entries = _begin(request.storage, staged)
    except FAILS_ONE_PARTITION as error:
        return give_up(item, staged, failure(error), request)
    try:
        commit_groups(request.storage, staged.directory, staged.to_swap, entries)
        leave_journal(request.storage, staged.staging)
    except FAILS_ONE_PARTITION as error:  # the journal remains: the next run continues
        return report.interrupted(item, failure(error))
    return replace(
        staged,
        journal=journal,
        begun=True,
        placed=(*staged.placed, *staged.groups),
        groups=(),
        commits_ms=staged.commits_ms + ms_since(began),
    )


def _begin(
    storage: Storage, staged: StagedPartition, entries: Sequence[Entry] | None = None
) -> tuple[Journal, Sequence[Entry]]:
    """Write the journal before the groups are put in place. Return also what is in the partition
    directory.
    """
    for group in staged.to_swap:
        Places().learn(staged.staging, map(Remembered, group.entries.values()))
    unchanged = [group.base_offset for group in staged.groups if group.unchanged]
    journal = with_staged(storage, staged.journal, staged.to_swap, unchanged)
    sources = [source for group in staged.groups for source in group.sources]
    directory, staging = staged.directory, staged.staging
    return journal, begin_round(storage, directory, staging, journal, sources, entries)


def _sum_up(staged: StagedPartition) -> None:
    """Keep what is known now of the segments, all of which are in place."""
    if staged.summaries is None:
        return
    known = [group.summary for group in staged.placed if group.summary is not None]
    unique = None
    if staged.unique_keys:
        bases = [group.base_offset for group in staged.placed]
        unique = UniqueKeys.of(staged.directory, staged.journal.end_offset, bases)
    record(staged.summaries, staged.directory, known, unique=unique)


def give_up(
    item: PlannedPartition, staged: StagedPartition, why: Failure, request: Request
) -> PartitionResult:
    """End the cleaning of a partition without its remaining groups. A requested stop explains every
    failure.
    """
    try:
        remove_staging(request.storage, staged.staging)
    except FAILS_ONE_PARTITION as error:  # the next run removes it (S6.3)
        known = isinstance(error, WinnowError | OSError)
        _log.warning("could not remove %s: %s", staged.staging, error, exc_info=not known)
    result = report.given_up(item, why, request.stop)
    if not staged.placed:
        return result
    try:
        after = state_now(item)
    except FAILS_ONE_PARTITION as error:
        return report.interrupted(item, failure(error))
    return report.partly(item, staged, result, after)
