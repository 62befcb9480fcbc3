"""Compact where space is short: learn what each group keeps before anything of it is written
(docs/decisions/0012).

Before the records are read, only a limit of a group's output is known: the size of its sources.
Where that does not fit, the records are read once more and the exact size decides. If even that
does not fit, removing the indexes of the sources may make the first room. A cleaning removes these
segments, and their indexes with them. After an unclean shutdown, a broker rebuilds the indexes of
all segments from the recovery point on, and Winnow does not read them. So they may be removed
before anything is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from winnow.cleaning.compact import NOT_BEGUN, Run, compact
from winnow.cleaning.plan import outcomes as report
from winnow.cleaning.plan.rounds import Round
from winnow.cleaning.request import Request
from winnow.cleaning.rewrite.cleaned import CleanedGroup
from winnow.cleaning.rewrite.compaction import Weigh, Weighed, weigh
from winnow.cleaning.space import needed_bytes, no_space
from winnow.errors import FAILS_ONE_PARTITION
from winnow.logdir.commit.leftovers import check_unchanged
from winnow.logdir.names import INDEX, TIMEINDEX, segment_file
from winnow.policy.free import file_bytes
from winnow.runtime.cancel import attempted
from winnow.runtime.failure import Failure, failure
from winnow.scan.job import PartitionJob
from winnow.state import Segment
from winnow.storage.contract import Storage


def measure(
    rounds: Mapping[int, Round], weighing: Weigh, request: Request
) -> tuple[dict[int, Weighed], dict[int, Round]]:
    """Read the records of these rounds. Return, by number, what was found of each, and the rounds
    that can be read with the exact sizes of their groups, the one that needs least space first.
    Writes nothing.
    """
    found = weighing([round_.job for round_ in rounds.values()]) if rounds else []
    weighed = dict(zip(rounds, found, strict=True))
    exact = [
        (number, _exact(rounds[number], groups))
        for number, groups in weighed.items()
        if not isinstance(groups, Failure)
    ]
    exact.sort(
        key=lambda one: (needed_bytes(one[1].job, request), one[1].item.place.topic_partition)
    )
    return weighed, dict(exact)


def compact_tight(run: Run) -> None:
    """Compact `run.tight`, the smallest first. Each makes room for the next."""
    request, results, rounds = run.request, run.results, run.tight
    if run.ends():
        results |= {
            number: report.failed(round_.item, NOT_BEGUN) for number, round_ in rounds.items()
        }
        return
    measured = attempted(
        lambda: measure(rounds, lambda jobs: weigh(run.sc, jobs, request), request), request.stop
    )
    if isinstance(measured, Failure):
        results |= {
            number: report.given_up(round_.item, measured, request.stop)
            for number, round_ in rounds.items()
        }
        return
    weighed, exact = measured
    results |= {
        number: report.failed(rounds[number].item, why)
        for number, why in weighed.items()
        if isinstance(why, Failure)
    }
    for number, round_ in exact.items():
        if run.ends():
            results[number] = report.failed(round_.item, NOT_BEGUN)
            continue
        needed, room = needed_bytes(round_.job, request), run.room().at(round_.job.directory)
        ready = round_
        if needed > room and request.stop.reason is None:  # a stop explains any failure
            if needed > room + seed_bytes(round_, request):
                results[number] = report.failed(round_.item, no_space(needed, room, request))
                continue
            try:
                ready = remove_indexes(request.storage, round_)
            except FAILS_ONE_PARTITION as error:
                results[number] = report.failed(round_.item, failure(error))
                continue
        [results[number]] = compact(run, [ready])


def _exact(round_: Round, weighed: Sequence[CleanedGroup]) -> Round:
    groups = tuple(
        replace(
            group,
            most_log_bytes=one.bytes_after,
            most_index_bytes=file_bytes(one.segment) - one.bytes_after,
        )
        for group, one in zip(round_.job.groups, weighed, strict=True)
    )
    return replace(round_, job=replace(round_.job, groups=groups))


_BLOCK_BYTES = 4_096
"""A file takes whole blocks. If they are smaller, the round fails for space before it writes."""


def seed_bytes(made: Round, request: Request) -> int:
    """Return the bytes on disk of the indexes that may be removed before the round."""
    if made.begun or request.keep_replaced or request.max_extra_space is not None:
        return 0
    sizes = (
        size or 0
        for segment in _rebuilt(made.job)
        for size in (segment.index_bytes, segment.timeindex_bytes)
    )
    return sum(-(-size // _BLOCK_BYTES) * _BLOCK_BYTES for size in sizes)


def remove_indexes(storage: Storage, made: Round) -> Round:
    """Remove the indexes that `seed_bytes` counts. Return the round without them.

    Its decisions keep the timestamps that the indexes held. Raises CorruptLogError, before anything
    is removed, if a source has changed.
    """
    directory, sources = made.job.directory, _rebuilt(made.job)
    check_unchanged(storage, directory, sources)
    with storage.changing(directory):
        for segment in sources:
            sizes = {INDEX: segment.index_bytes, TIMEINDEX: segment.timeindex_bytes}
            for suffix in [suffix for suffix, size in sizes.items() if size is not None]:
                storage.unlink(f"{directory}/{segment_file(segment.base_offset, suffix)}")
        storage.fsync_dir(directory)
    bare = {
        segment.base_offset: replace(segment, index_bytes=None, timeindex_bytes=None)
        for segment in sources
    }

    def changed(segments: tuple[Segment, ...]) -> tuple[Segment, ...]:
        return tuple(bare.get(segment.base_offset, segment) for segment in segments)

    item = made.item
    return replace(
        made,
        item=replace(item, state=replace(item.state, segments=changed(item.state.segments))),
        job=replace(
            made.job,
            groups=tuple(
                replace(group, segments=changed(group.segments)) for group in made.job.groups
            ),
        ),
        journal=replace(
            made.journal,
            groups=tuple(
                replace(group, sources=changed(group.sources)) for group in made.journal.groups
            ),
        ),
    )


def _rebuilt(job: PartitionJob) -> list[Segment]:
    """Return the sources whose indexes a broker rebuilds."""
    segments = (segment for group in job.groups for segment in group.segments)
    return [segment for segment in segments if segment.rebuilt is not None]
