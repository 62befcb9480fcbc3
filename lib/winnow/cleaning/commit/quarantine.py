"""`--on-corrupt=quarantine`: move damaged batches out of the log, if the rest keeps its meaning.

A removed batch looks the same as one that was compacted away. So this happens only on request, and
not if the damaged bytes may contain a marker whose loss changes the outcome of a transaction.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from winnow.advice import COPY
from winnow.cleaning.commit.commit import kept_by
from winnow.cleaning.request import Request
from winnow.errors import FAILS_ONE_PARTITION, CorruptLogError, NoSpaceError, WinnowError
from winnow.logdir.commit.quarantine import (
    StagedQuarantine,
    commit_quarantine,
    stage_segment,
    staging_path,
)
from winnow.logdir.commit.staging import remove_staging
from winnow.logdir.damage import Damage, find_damage
from winnow.logdir.listing import list_segments, resolve
from winnow.logdir.names import LOG, QUARANTINE_PREFIX, segment_file
from winnow.logdir.survey import LogDir
from winnow.policy.sources import Unknown
from winnow.policy.transaction_runs import fold
from winnow.runtime.failed_job import cause_of, job_errors
from winnow.runtime.failure import Failure, all_or_failure
from winnow.runtime.spread import spread
from winnow.state import PartitionState, Segment, TopicPartition
from winnow.storage.places import free_bytes
from winnow.survey.walk import TransactionsWanted, index_and_log, walk_segment
from winnow.words import counted

if TYPE_CHECKING:
    from pyspark import SparkContext

_T = TypeVar("_T")
_NEVER = 2**62
"""Above every offset. With it as high watermark, only data without any marker is undecided."""


def stage_quarantine(
    sc: SparkContext, log_dir: LogDir, topic_partition: TopicPartition, request: Request
) -> tuple[PartitionState, list[StagedQuarantine]]:
    """Find the damage of one partition and stage its segments without it, verified. Return the
    partition as it is, and these segments, ascending. The log is not changed.

    Raises CorruptLogError if nothing can be moved aside, NoSpaceError, VerificationError,
    StoppedError.
    """
    config = request.settings.resolve(topic_partition.topic, node_id=log_dir.meta.node_id)
    listing = list_segments(request.storage, f"{log_dir.path}/{topic_partition}")
    sound = not (log_dir.error or listing.problems or listing.leftovers) and listing.segments
    if isinstance(config, Unknown) or not log_dir.clean_shutdown or not sound:
        raise CorruptLogError(
            "the partition has other problems than damaged batches",
            expected="a log directory that was shut down cleanly, known settings, "
            "and all files of each segment",
            where=listing.directory,
        )
    active = listing.segments[-1]
    refused = CorruptLogError(
        "the active segment is damaged, and it is never rewritten",
        where=f"{listing.directory}/{segment_file(active.base_offset, LOG)}",
        hint=COPY,
    )
    try:
        walk = walk_segment(listing.directory, active.base_offset, active.log_bytes)
    except CorruptLogError:
        raise refused from None
    state = resolve(
        listing,
        log_dir=log_dir.path,
        topic_partition=topic_partition,
        checkpoints=log_dir.checkpoints,
        log_end_offset=walk.next_offset,
        clean_shutdown=log_dir.clean_shutdown,
    )
    found = _find(sc, state, request)
    if not found:
        raise CorruptLogError("every batch matches its checksum", where=state.directory)
    if found[-1][0] == state.active:
        raise refused
    staging = staging_path(state.directory, request.run_id)
    request.storage.ensure_dir(staging)
    staged = []
    try:
        for segment, damages in found:
            room = free_bytes(state.directory, keep_free=request.keep_free)
            if segment.log_bytes > room:
                raise NoSpaceError(
                    "not enough space to rewrite a damaged segment",
                    expected=f"{segment.log_bytes} bytes",
                    found=f"{max(room, 0)} bytes free",
                    where=state.directory,
                )
            one = stage_segment(
                request.storage,
                state.directory,
                segment,
                damages,
                staging=staging,
                index_interval_bytes=config.index_interval_bytes,
                segment_index_bytes=config.segment_index_bytes,
            )
            staged.append(one)
        _check_transactions(sc, state, staged, staging, request)
        request.stop.check()
    except FAILS_ONE_PARTITION:
        with suppress(FAILS_ONE_PARTITION):  # the next run removes it
            remove_staging(request.storage, staging)
        raise
    return state, staged


def commit(
    state: PartitionState, staged: Sequence[StagedQuarantine], request: Request
) -> tuple[int, str]:
    """Move the damage aside and the segments into place. The caller holds the lock. Return the
    bytes that were moved, and what that means.

    If this fails, the next recovery finishes or undoes it.
    """
    run_id = request.run_id
    with kept_by(request, state):
        moved = commit_quarantine(request.storage, state, staged, run_id=run_id, now=request.now)
    return moved, what_was_moved([d for item in staged for d in item.damages], moved, run_id)


def what_was_moved(damages: Sequence[Damage], moved: int, run_id: str) -> str:
    """Return what was moved aside, and what that means, for people. Damage may lie between two
    batches without an offset between them, as when a batch was appended twice.
    """
    between = [f"{d.least_offset}..{d.end_offset - 1}" for d in damages if d.holds_offsets]
    before = [f"before offset {d.end_offset}" for d in damages if not d.holds_offsets]
    offsets = [f"between the offsets {', '.join(between)}"] if between else []
    return (
        f"{moved} damaged bytes {', and '.join([*offsets, *before])} were moved to "
        f"{QUARANTINE_PREFIX}{run_id}; the log has lost the records in these bytes: an older value "
        "of a key may be its newest now, and a key that they deleted may be back"
    )


def _find(
    sc: SparkContext, state: PartitionState, request: Request
) -> list[tuple[Segment, tuple[Damage, ...]]]:
    """Return the segments with damage, ascending."""
    ends = [*(segment.base_offset for segment in state.segments[1:]), state.log_end_offset]
    pieces = [
        partial(
            find_damage,
            f"{state.directory}/{segment_file(segment.base_offset, LOG)}",
            segment.log_bytes,
            base_offset=segment.base_offset,
            end_offset=end_offset,
        )
        for segment, end_offset in zip(state.segments, ends, strict=True)
    ]
    found = zip(state.segments, _each(sc, pieces, request), strict=True)
    return [(segment, damages) for segment, damages in found if damages]


def _each(sc: SparkContext, pieces: Sequence[Callable[[], _T]], request: Request) -> list[_T]:
    """Call each piece in a task of its own. Raises CorruptLogError for the first failure."""
    request.stop.check()
    try:
        outcomes = spread(
            sc,
            operator.call,
            pieces,
            per_task=1,
            name=f"reading {counted(len(pieces), 'segment')}",
            progress=request.progress,
        )
    except job_errors() as error:
        request.stop.check()
        raise WinnowError(
            "the Spark job failed",
            found=cause_of(error),
            hint="See the driver's log for the rest. Run again.",
        ) from error
    done = all_or_failure(outcomes)
    if isinstance(done, Failure):
        raise CorruptLogError(done.message)
    return done


def _check_transactions(
    sc: SparkContext,
    state: PartitionState,
    staged: Sequence[StagedQuarantine],
    staging: str,
    request: Request,
) -> None:
    """Raise CorruptLogError if a missing marker may change the end of its transaction (S4.1).

    The transaction indexes are whole and contain every ABORT marker. A missing ABORT marker
    contradicts them. So does data of a committed transaction that lost its COMMIT marker and
    precedes an aborted one. A missing COMMIT before another COMMIT changes nothing. The remaining
    case is data without any later marker.
    """
    rewritten = {item.source.base_offset: item for item in staged}
    directory, start = state.directory, state.log_start_offset
    walks = []
    for segment, following in zip(state.segments, [*state.segments[1:], None], strict=True):
        wanted = TransactionsWanted(
            high_watermark=_NEVER,
            log_start_offset=start,
            end_offset=None if following is None else following.base_offset,
            txn_index=segment.txnindex_bytes is not None,
        )
        item = rewritten.get(segment.base_offset)
        home, size = (directory, segment.log_bytes) if item is None else (staging, item.log_bytes)
        walks.append(partial(walk_segment, home, segment.base_offset, size, transactions=wanted))

    folded = fold(
        [walk.runs for walk in _each(sc, walks, request)],
        high_watermark=_NEVER,
        log_start_offset=start,
        where=lambda number: index_and_log(directory, state.segments[number].base_offset),
    )
    last = max(damage.end_offset for item in staged for damage in item.damages)
    producer, first = min(folded.opened.items(), key=lambda opened: opened[1], default=(None, last))
    if first < last:
        raise CorruptLogError(
            "the marker of a transaction may be among the damaged bytes",
            expected=f"an end of the transaction of producer {producer} "
            f"that begins at offset {first}",
            found="none in the readable batches",
            where=state.directory,
            hint=f"Without the marker the transaction would stay open forever. {COPY}",
        )
