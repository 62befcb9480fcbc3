"""A `plan` or a `clean` from the lock to the result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial

from pyspark import SparkContext

from winnow.cleaning.clean import Cleaned
from winnow.cleaning.free import delete_first, freed_bytes, only_what_is_needed, what_is_short
from winnow.cleaning.in_place import check_in_place
from winnow.cleaning.plan.decide_listed import overridden
from winnow.cleaning.plan.partitions import (
    Planned,
    PlannedPartition,
    SelectedPartition,
    states_of,
)
from winnow.cleaning.plan.planning import list_and_plan, read_headers
from winnow.cleaning.plan.settings import io_rate, with_metadata
from winnow.cleaning.predict import damaged_first, predict
from winnow.cleaning.quarantined import clean_with_quarantine
from winnow.cleaning.request import Request
from winnow.cleaning.result import RunResult
from winnow.cleaning.rewrite.compaction import estimate
from winnow.cleaning.summaries.store import with_summaries
from winnow.cleaning.zeros import ZerosFirst, cut_zeros, zeros_first
from winnow.logdir.live.read_view import view_notes
from winnow.logdir.lock import locked
from winnow.logdir.survey import LogDir, check_one_node, strangers_in, survey_log_dirs, topics_of
from winnow.logdir.torn import behind_in, torn
from winnow.policy.free import file_bytes, linked_note
from winnow.runtime.cancel import cancelling_jobs
from winnow.runtime.garbage import seldom_collecting
from winnow.runtime.same_directories import same_directories
from winnow.runtime.session import WithContext
from winnow.runtime.spool import spooling
from winnow.runtime.throttle import BESIDE_BROKER, limiting_io, limiting_io_beside_brokers
from winnow.start.broker import expected_starts
from winnow.start.values import BrokerStart
from winnow.storage.live.read_view import views
from winnow.storage.mounts import why_seen_here_only
from winnow.storage.places import Places
from winnow.words import counted, first_few, roughly, size


@contextmanager
def opened(
    spark: WithContext,
    log_dirs: Sequence[str],
    request: Request,
    *,
    one_node: str | None = None,
) -> Iterator[tuple[Sequence[LogDir], Request, tuple[str, ...]]]:
    """Yield the log directories, locked, the request with all settings, and notes about these.
    Tasks check that they have the same directories.

    `one_node`: the verb, if it takes the directories of one broker at a time.
    """
    with locked(log_dirs, to_change=request.touch) as dirs:
        if one_node is not None:
            check_one_node(dirs, one_node)
        if request.settings.compare_log_dirs:  # a private copy has only some of the partitions
            request.check_globs(topics_of(dirs))
        settings, found = with_metadata(request.settings, Places(), dirs, request.stop)
        sc = spark.sparkContext
        with same_directories(sc, [d.path for d in dirs]), limiting_io_beside_brokers(sc):
            notes = (*view_notes(), *settings.notes(), *found)
            yield dirs, replace(request, settings=settings), notes


def run(spark: WithContext, log_dirs: Sequence[str], request: Request) -> RunResult:
    """Plan these log directories or, if the request may touch them, clean them (`winnow.api`)."""
    check_in_place(log_dirs, on_corrupt=request.on_corrupt, keep_replaced=request.keep_replaced)
    freeing = request.free_at_least
    if freeing is not None:
        request = replace(request, only="retention")
    scanning = request.touch and request.only != "retention"
    with opened(spark, log_dirs, request) as (dirs, completed, of_settings):
        rate, sc = request.throttle, spark.sparkContext
        throttle = io_rate(completed.settings, dirs) if rate is None else rate
        partitions = counted(sum(len(d.partitions) for d in dirs), "partition")
        request.progress.stage(f"looking at {partitions}")
        with (
            seldom_collecting(),
            cancelling_jobs(sc, request.stop),
            limiting_io(sc, throttle),
            spooling(sc) if scanning else nullcontext() as spool,
        ):
            request = with_summaries(replace(completed, spool=spool), dirs)
            planned = list_and_plan(sc, dirs, request)
            fails_first = request.on_corrupt == "fail"
            if not request.touch or request.seen or fails_first or freeing is not None:
                # Each of these needs the final plans of all partitions. Without them, a cleaning
                # reads headers batch by batch.
                planned = read_headers(sc, planned, request)
            if request.seen is not None:
                request.seen(planned, request)
            more = overridden(planned, request.settings)
            refusal = damaged_first(planned, request)
            zeros = ZerosFirst()
            if freeing is not None and refusal is None:
                zeros = zeros_first(request.storage, dirs, planned, wanted=freeing)
                zeros = cut_zeros(request.storage, zeros) if request.touch else zeros
                planned = only_what_is_needed(planned, wanted=max(0, freeing - zeros.bytes))
            if refusal is not None:
                done = Cleaned(refusal, 0)
            elif not request.touch:
                done = predict(planned, request, partial(estimate, sc, request=request))
            elif freeing is not None:
                done = delete_first(planned, request)
            else:
                done = clean_with_quarantine(sc, dirs, planned, request)
        notes = (*of_settings, *_notes(dirs, planned))
        if views():
            notes += (*_of_preparing(planned), *_reading(planned, throttle or BESIDE_BROKER))
        starts = _starts(sc, dirs, planned, request)
        short = None
        if freeing is not None:
            notes += (zeros.note(done=request.touch),) if zeros.indexes else ()
            freed = zeros.bytes + freed_bytes(planned, done.partitions)
            short = max(0, freeing - freed)
            notes += (what_is_short(planned, short=short, now=request.now),) if short else ()
    return RunResult(
        run_id=request.run_id,
        verb="clean" if request.touch else "plan",
        now=request.now,
        partitions=tuple(
            replace(one, deletes_more=more.get((one.log_dir, one.topic), ())) if one.acts else one
            for one in done.partitions
        ),
        notes=notes,
        refused=refusal is not None,
        short_bytes=short,
        peak_extra_bytes=done.peak_bytes,
        kafka=request.settings.kafka,
        starts=starts,
        strangers=strangers_in(dirs),
    )


def _starts(
    sc: SparkContext, dirs: Sequence[LogDir], planned: Sequence[Planned], request: Request
) -> tuple[BrokerStart, ...]:
    """Return what the brokers do when they start. Only logs in which something was found, or which
    the run does not select, are read for it.
    """
    if not request.settings.compare_log_dirs:  # a private copy: no broker starts on it
        return ()
    if request.touch:
        dirs = survey_log_dirs(Places(), [log_dir.path for log_dir in dirs])
    return expected_starts(
        sc,
        dirs,
        request.settings,
        now=request.now,
        known=states_of(planned),
        wanted=request.wants,
        progress=request.progress,
    )


def _of_preparing(planned: Sequence[Planned]) -> Iterator[str]:
    """Yield a note on what a preparation would take, if there is anything to compact."""
    plans = [item.plan.compaction for item in planned if isinstance(item, PlannedPartition)]
    sources = [plan.segments for plan in plans if plan is not None]
    if sources:
        most = sum(file_bytes(segment) for segments in sources for segment in segments)
        yield (
            f"`prepare` would stage what is left of {counted(len(sources), 'partition')}, up to "
            f"{size(most)}, while the broker runs; `commit` then frees the difference"
        )


def _reading(planned: Sequence[Planned], rate: float) -> Iterator[str]:
    """Yield how much the verbs read that read records. `rate`: in bytes per second."""
    known = [item for item in planned if isinstance(item, PlannedPartition)]
    due = [one for item in known if item.plan.compaction for one in item.plan.compaction.segments]

    def cost(count: int) -> str:
        return f"{size(count)}, {roughly(count / rate)} at {size(round(rate))}/s"

    estimate_reads = cost(sum(segment.log_bytes for segment in due))
    verify_reads = cost(sum(item.state.log_bytes for item in known))
    yield f"`plan --estimate` reads {estimate_reads}; `verify` reads {verify_reads}"


def _notes(dirs: Sequence[LogDir], planned: Sequence[Planned]) -> Iterator[str]:
    """Yield notes on the log directories, and on what a run has finished or removed besides its own
    work.
    """
    yield from (note for d in dirs if (note := why_seen_here_only(d.path)))
    yield from (f"{d.path}/{s.name} is skipped: {s.why}" for d in dirs for s in d.skipped)
    yield from strangers_in(dirs)
    states = states_of(planned)
    yield from (torn(d.path, behind) for d in dirs if (behind := behind_in(d, states)))
    yield from linked_note(states.values())
    known = (item for item in planned if isinstance(item, SelectedPartition))
    names = [str(item.place.topic_partition) for item in known if item.put_right]
    if names:
        yield (
            "what a crash or an interrupted run had left was finished or removed in "
            f"{counted(len(names), 'partition')}: {first_few(names, 5)}"
        )
