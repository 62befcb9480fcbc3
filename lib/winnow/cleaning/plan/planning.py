"""Prepare a run: list the partitions, apply Kafka's rules to each, and say why some are skipped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

from winnow.cleaning.plan.decide_listed import decide_listed, to_walk, with_walks
from winnow.cleaning.plan.partitions import (
    UNREADABLE,
    Planned,
    PlannedPartition,
    SelectedPartition,
    SkippedPartition,
    known_or_left_alone,
    place_of,
    why_unwritable,
)
from winnow.cleaning.plan.rebuilt import with_rebuilt
from winnow.cleaning.plan.unknown import with_damage
from winnow.cleaning.request import Request
from winnow.cleaning.summaries.search import KnownSegments, walk_partitions
from winnow.cleaning.summaries.store import place_for, read_list
from winnow.errors import FAILS_ONE_PARTITION, LogDirInUseError, WinnowError
from winnow.logdir.cleaner_entries import gather_entry, misplaced_entries
from winnow.logdir.commit.roll_forward import put_right
from winnow.logdir.names import PARTITION_METADATA
from winnow.logdir.survey import LogDir
from winnow.policy.config import TopicConfig
from winnow.policy.plan import CompactionPlan
from winnow.policy.sources import Settings, Unknown
from winnow.runtime.failure import Failure, failure
from winnow.scan.prefetch import Expected, prefetch_of, requests_of
from winnow.start.files import finished_swap
from winnow.start.loss import check_swap
from winnow.storage.places import Places
from winnow.storage.urls import is_remote
from winnow.survey.place import ListedPartition
from winnow.survey.survey import list_partitions

if TYPE_CHECKING:
    from pyspark import SparkContext

_READ_AHEAD = 500
"""Partitions whose topic ids are read side by side. Of more, the first listings would be too old.
"""


def plan_partitions(
    sc: SparkContext, log_dirs: Sequence[LogDir], request: Request
) -> list[Planned]:
    """Return a plan, or the reason for skipping, of every requested partition, in the order of the
    log directories.
    """
    return read_headers(sc, list_and_plan(sc, log_dirs, request), request)


def list_and_plan(sc: SparkContext, log_dirs: Sequence[LogDir], request: Request) -> list[Planned]:
    """Do as `plan_partitions`, without reading any log but what a crash requires."""
    planned = with_damage(sc, requested(log_dirs, request), log_dirs, request)
    if request.touch:
        planned = _with_gathered_entries(planned, log_dirs, request)
    request.stop.check()
    listed = iter(
        list_known(sc, [item for item in planned if isinstance(item, SelectedPartition)], request)
    )
    request.progress.stage("deciding", total_tasks=len(planned))
    decided = []
    for item in planned:
        decided.append(
            decide_listed(*next(listed), request) if isinstance(item, SelectedPartition) else item
        )
        request.progress.advance(1)
    return decided


def requested(
    log_dirs: Sequence[LogDir],
    request: Request,
    *,
    resolve: Callable[..., TopicConfig | Unknown] = Settings.resolve,
) -> list[SkippedPartition | SelectedPartition]:
    """Return every requested partition with its settings, or why it is skipped."""
    found: list[SkippedPartition | SelectedPartition] = []
    for log_dir in log_dirs:
        config_of = cache(partial(resolve, request.settings, node_id=log_dir.meta.node_id))
        places = [
            place_of(log_dir, topic_partition, request)
            for topic_partition in log_dir.partitions
            if request.wants(topic_partition.topic)
        ]
        for first in range(0, len(places), _READ_AHEAD):
            some = places[first : first + _READ_AHEAD]
            if request.settings.metadata is not None and is_remote(log_dir.path):
                Places().read_ahead(f"{place.directory}/{PARTITION_METADATA}" for place in some)
            found += [
                known_or_left_alone(place, log_dir, config_of(place.topic_partition.topic), request)
                for place in some
            ]
    return found


def _with_gathered_entries(
    planned: Sequence[SkippedPartition | SelectedPartition],
    log_dirs: Sequence[LogDir],
    request: Request,
) -> list[SkippedPartition | SelectedPartition]:
    """Move cleaner entries to their partition's log directory, before anything else is written."""
    misplaced = {
        (entry.home, entry.topic_partition): entry for entry in misplaced_entries(log_dirs)
    }
    result = list(planned)
    for number, item in enumerate(planned):
        entry = misplaced.get((item.place.log_dir, item.place.topic_partition))
        if entry is None or not isinstance(item, SelectedPartition):
            continue
        try:
            gather_entry(
                request.storage, entry, item.log_dir.checkpoints.cleaner[entry.topic_partition]
            )
        except LogDirInUseError:
            raise
        except FAILS_ONE_PARTITION as error:
            result[number] = item.left_alone(UNREADABLE, error=failure(error).message)
    return result


def decide_again(
    sc: SparkContext, items: Sequence[PlannedPartition], request: Request
) -> list[Planned]:
    """Plan again, without a walk, for partitions that this run changed, with the same settings and
    checkpoints.
    """
    return [decide_listed(*found, request) for found in list_known(sc, items, request)]


def list_known(
    sc: SparkContext, known: Sequence[SelectedPartition], request: Request
) -> list[tuple[SelectedPartition, ListedPartition | Failure]]:
    """List the partitions. If the run may change them, first recover what a crash interrupted."""
    first = list_partitions(sc, [item.place for item in known], request.progress)
    found = with_rebuilt(sc, list(zip(known, first, strict=True)), request)
    if not request.touch:
        return found
    again: dict[int, SelectedPartition] = {}
    for number, (item, listed) in enumerate(found):
        if isinstance(listed, ListedPartition) and (
            listed.listing.leftovers or listed.listing.preparations
        ):
            request.stop.check()
            unwritable = why_unwritable(item.place)
            if unwritable is not None:
                found[number] = item, Failure(unwritable.words, WinnowError.exit_code)
                continue
            try:
                again[number] = _put_right(item, request)
            except LogDirInUseError:  # the lease on the log directory is lost: stop changing it
                raise
            except FAILS_ONE_PARTITION as error:
                found[number] = item, failure(error)
    relisted = list_partitions(sc, [item.place for item in again.values()], request.progress)
    rebuilt = with_rebuilt(sc, list(zip(again.values(), relisted, strict=True)), request)
    for number, item_and_listed in zip(again, rebuilt, strict=True):
        found[number] = item_and_listed
    return found


def _put_right(item: SelectedPartition, request: Request) -> SelectedPartition:
    """Recover one partition. Finish its interrupted round only if this run would compact it too."""
    place, config = item.place, item.config
    directory = place.directory
    swap = finished_swap(request.storage, directory)
    check_swap(request.storage, directory, swap, compacts=config.cleanup_compact)
    finish = config.cleanup_compact and config.log_cleaner_enable and request.only != "retention"
    done = put_right(
        request.storage,
        place.log_dir,
        place.topic_partition,
        finish=finish,
        now=None if request.keep_replaced else request.now,
        trusted_end=place.trusted_end,
    )
    item = replace(item, put_right=bool(done.recovery or done.finished))
    if done.goes_on is not None:
        place = replace(place, goes_on=done.goes_on.journal.run_id)
        return replace(item, place=place, goes_on=done.goes_on)
    if done.finished is None:
        return item
    return replace(item.cleaned_to(done.finished.end_offset), finished=done.finished)


def read_headers(sc: SparkContext, decided: Sequence[Planned], request: Request) -> list[Planned]:
    """Return the same partitions, with the walks of those whose plan needs one."""
    known = {
        item.state.directory: segments
        for item in decided
        if to_walk(item) and (segments := _known_of(item, request)) is not None
    }
    result = _walk_with(sc, decided, known, request)
    # Transactions that the walk found may have changed the plan.
    again = {
        number: before
        for number, (before, item) in enumerate(zip(decided, result, strict=True))
        if isinstance(item, PlannedPartition)
        and item.state.directory in known
        and not _still_fits(item, known[item.state.directory])
    }
    redone = _walk_with(sc, [*again.values()], {}, request) if again else []
    for number, item in zip(again, redone, strict=True):
        result[number] = item
    return result


def _walk_with(
    sc: SparkContext,
    decided: Sequence[Planned],
    known: Mapping[str, KnownSegments],
    request: Request,
) -> list[Planned]:
    how = partial(walk_partitions, sc, progress=request.progress)
    if request.spool is None:
        return with_walks(decided, request, how)
    expected = {}
    for item in decided:
        if not isinstance(item, PlannedPartition) or item.plan.compaction is None:
            continue
        plan, directory = item.plan.compaction, item.state.directory
        unread = known[directory].segments if directory in known else {}
        cleaned = [s for s in item.state.segments if s.base_offset < plan.end_offset]
        expected[directory] = Expected(
            first_dirty_offset=plan.first_dirty_offset,
            end_offset=plan.end_offset,
            max_decompressed_bytes=item.config.max_decompressed_message_bytes,
            segments=[s.log_bytes for s in cleaned if s.base_offset not in unread],
            known_bytes=sum(s.log_bytes for s in cleaned if s.base_offset in unread),
        )
    sent = request.secret, request.spool, sc.defaultParallelism
    prefetch, scans = prefetch_of(expected, *sent), requests_of(expected, *sent)
    how = partial(how, known=known, prefetch=prefetch, scans=scans)
    return with_walks(decided, request, how)


def _known_of(item: PlannedPartition, request: Request) -> KnownSegments | None:
    """Return the segments that need not be read if no dirty record has one of their keys, if any.

    Such a segment lies in the clean range and above the log start offset. It is alone in its group.
    Nobody needs its producers. It has the indexes that a cleaning would write now. After an unclean
    shutdown, nothing is known.
    """
    state, plan, config = item.state, item.plan.compaction, item.config
    place = place_for(state, request)
    if place is None or plan is None or request.spool is None or item.goes_on is not None:
        return None
    if state.recovered is not None or state.trusted_end is not None:
        return None
    kept = read_list(place)
    ends = {
        segment.base_offset: following.base_offset
        for segment, following in zip(state.segments, state.segments[1:], strict=False)
    }
    last = min(plan.first_dirty_offset, item.snapshot.offset)
    alone, settings = _alone(plan), (config.index_interval_bytes, config.segment_index_bytes)
    segments = {
        base: summary
        for base, summary in kept.fitting(state).items()
        if base in alone
        and state.log_start_offset <= base
        and ends.get(base, last + 1) <= last
        and summary.next_offset <= ends[base]
        and (summary.index_interval_bytes, summary.segment_index_bytes) == settings
    }
    unique = kept.has_unique_keys(state, plan.first_dirty_offset)
    return KnownSegments(place, plan.end_offset, segments, unique) if segments else None


def _alone(plan: CompactionPlan) -> set[int]:
    return {group[0].base_offset for group in plan.groups if len(group) == 1}


def _still_fits(item: PlannedPartition, known: KnownSegments) -> bool:
    """Return whether the unread segments may stay unread under the plan with transactions."""
    plan = item.plan.compaction
    unread = {walk.base_offset for walk in item.walks or () if walk.stays is not None}
    if plan is None or not unread:
        return True
    cleaned = {segment.base_offset for segment in plan.segments}
    return plan.end_offset <= known.end_offset and unread & cleaned <= _alone(plan)
