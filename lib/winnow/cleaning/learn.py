"""Read clean segments that are not known yet, so that later runs may leave them unread. Changes
nothing in a log directory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from pyspark import SparkContext

from winnow.cleaning.plan.decide_listed import decide_listed, with_walks
from winnow.cleaning.plan.partitions import PlannedPartition, SelectedPartition
from winnow.cleaning.plan.planning import list_known, requested
from winnow.cleaning.plan.ready import make_ready
from winnow.cleaning.plan.settings import with_metadata
from winnow.cleaning.request import Request
from winnow.cleaning.rewrite.cleaned import CleanedGroup
from winnow.cleaning.rewrite.compaction import estimate
from winnow.cleaning.summaries.search import walk_partitions
from winnow.cleaning.summaries.store import place_for, read_list, record, with_summaries
from winnow.clock import now_ms
from winnow.errors import optional
from winnow.logdir.lock import locked
from winnow.policy.plan import CompactionPlan
from winnow.policy.sources import Settings
from winnow.runtime.failure import Failure
from winnow.runtime.spool import spooling
from winnow.scan.job import PartitionJob
from winnow.state import PartitionState
from winnow.storage.places import Places
from winnow.storage.urls import is_remote
from winnow.wire.internal_topics import INTERNAL_TOPICS


def learn_segments(
    sc: SparkContext,
    log_dirs: Sequence[str],
    *,
    settings: Settings | None = None,
    **options: object,
) -> int:
    """Sum up the clean segments that have no summary yet. A later cleaning need not read them if it
    has the same `key_summaries`. Return how many were summed up.

    Only topics with known settings are read, and only where all tasks share this machine.
    `options`: of `Request.of`.
    """
    local = [path for path in log_dirs if not is_remote(path)]
    if not local:
        return 0
    with locked(local, to_change=False) as dirs, spooling(sc) as spool:
        found, _ = with_metadata(settings or Settings(), Places(), dirs)
        options |= {"settings": found, "now": now_ms(), "spool": spool}
        request = with_summaries(Request.of(options, touch=False), dirs)
        if request.key_summaries is None:
            return 0
        known = [
            item
            for item in requested(dirs, request)
            if isinstance(item, SelectedPartition)
            and item.config.cleanup_compact
            and item.log_dir.clean_shutdown
            and item.place.topic_partition.topic not in INTERNAL_TOPICS
        ]
        items = [
            replace(work, plan=replace(work.plan, compaction=plan))
            for item, listed in list_known(sc, known, request)
            if isinstance(work := decide_listed(item, listed, request), PlannedPartition)
            and (plan := _plan(work.state, request)) is not None
        ]
        walk = partial(walk_partitions, sc, progress=request.progress)
        jobs = []
        for before, walked in zip(items, with_walks(items, request, walk), strict=True):
            if isinstance(walked, PlannedPartition):
                with optional("learning the keys of a partition"):
                    round_ = make_ready(replace(walked, plan=before.plan), request)
                    jobs.append((before.state, round_.job))
        estimated = estimate(sc, [job for _, job in jobs], request)
        return sum(
            _record(job, state, groups)
            for (state, job), groups in zip(jobs, estimated, strict=True)
            if not isinstance(groups, Failure)
        )


def _plan(state: PartitionState, request: Request) -> CompactionPlan | None:
    """Return a plan that cleans each clean segment that is not known yet, alone; or None."""
    place, end = place_for(state, request), state.cleaner_checkpoint
    if place is None or end is None or not state.log_start_offset <= end <= state.log_end_offset:
        return None
    known = read_list(place).fitting(state)
    new = [
        (segment, following.base_offset)
        for segment, following in zip(state.segments, state.segments[1:], strict=False)
        if following.base_offset <= end
        and segment.log_bytes >= max(1, request.least_summed_up)
        and segment.base_offset not in known
    ]
    if not new:
        return None
    end = new[-1][1]
    return CompactionPlan(end, end, 0, tuple((segment,) for segment, _ in new))


def _record(job: PartitionJob, state: PartitionState, groups: Sequence[CleanedGroup]) -> int:
    """Add what is known now to what was known before. Return how many segments that are."""
    new = [group.summary for group in groups if group.summary is not None]
    if job.summaries is not None and new:
        kept = read_list(job.summaries)
        every = [*kept.fitting(state).values(), *new]
        record(job.summaries, state.directory, every, unique=kept.unique)
    return len(new)
