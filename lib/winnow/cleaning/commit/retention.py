"""Carry out the retention of one partition: the driver's part of S7."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import replace

from winnow.cleaning.commit.commit import commit_cleaner_checkpoint, kept_by
from winnow.cleaning.plan import outcomes as report
from winnow.cleaning.plan.partitions import PlannedPartition
from winnow.cleaning.request import Request
from winnow.cleaning.result import PartitionResult
from winnow.clock import ms_since
from winnow.errors import FAILS_ONE_PARTITION
from winnow.logdir.commit.retain import follow_log_start, lags_behind, retain
from winnow.policy.plan import RetentionPlan
from winnow.policy.retention import checkpoint_entries
from winnow.runtime.failure import failure
from winnow.state import PartitionState
from winnow.survey.survey import list_partition


def retain_only(item: PlannedPartition, request: Request) -> PartitionResult:
    """Carry out the retention of a partition that is not compacted."""
    plan, reset = item.plan.retention, item.plan.checkpoint_reset
    began = time.monotonic()
    keeping = kept_by(request, item.state, cleaner_checkpoint_after=reset)
    try:
        with keeping if plan is not None else nullcontext():
            after = retain_from(item, item.state, plan, request)
        if reset is not None:
            # A checkpoint outside the log is rewritten even if nothing is cleaned (S3.2).
            offsets = {item.place.topic_partition: max(reset, after.log_start_offset)}
            commit_cleaner_checkpoint(request.storage, item.place.log_dir, offsets)
    except FAILS_ONE_PARTITION as error:
        return report.interrupted(item, failure(error))
    return report.done(item, request, after, plan, duration_ms=ms_since(began))


def retain_from(
    item: PlannedPartition, state: PartitionState, plan: RetentionPlan | None, request: Request
) -> PartitionState:
    """Delete what the plan says and return the new state. Also update side files that an
    interrupted retention left behind its log.
    """
    entries, config = checkpoint_entries(state.topic_partition.topic, item.config), item.config
    # Side files may be updated only where a broker applies retention.
    applied = request.only != "compaction" and item.state.trusted_end is None
    applied = applied and (config.log_cleaner_enable or not config.cleanup_compact)
    if plan is not None:
        retain(
            request.storage,
            state,
            deleted=plan.deleted,
            roll=plan.roll,
            log_start_offset=plan.log_start_offset,
            entries=entries,
        )
        return plan.applied_to(state)
    if applied and not entries.remote and lags_behind(state):
        follow_log_start(request.storage, state, entries)
    return state


def state_now(item: PlannedPartition) -> PartitionState:
    """Read the partition from the disk again. The checkpoints from the start of the run still
    apply, and what a broker recovers is not read again, nor segments that have not changed.
    """
    listing = list_partition(item.place, known=item.state)
    state = item.state_of(listing, item.state.log_end_offset)
    return replace(state, high_watermark=min(state.high_watermark, item.state.high_watermark))
