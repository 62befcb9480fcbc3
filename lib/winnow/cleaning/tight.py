"""Compact where space is short: learn what each group keeps before anything of it is written
(docs/decisions/0012).

Before the records are read, only a limit of a group's output is known: the size of its sources.
Where that does not fit, the records are read once more and the exact size decides. If even that
does not fit, removing the indexes of the sources may make the first room (`winnow.cleaning.seed`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from winnow.cleaning.compact import Run, compact
from winnow.cleaning.plan import outcomes as report
from winnow.cleaning.plan.estimate import Weighed, weigh
from winnow.cleaning.plan.rounds import Round
from winnow.cleaning.request import Request
from winnow.cleaning.result import PartitionResult
from winnow.cleaning.rewrite.weigh import WeighedGroup
from winnow.cleaning.seed import remove_indexes, seed_bytes
from winnow.cleaning.space import needed_bytes, no_space
from winnow.errors import FAILS_ONE_PARTITION
from winnow.runtime.failure import Failure, failure
from winnow.state import TopicPartition

if TYPE_CHECKING:
    from winnow.scan.job import PartitionJob


@dataclass(frozen=True, slots=True)
class Measured:
    """Rounds whose groups have exact sizes, without those that can't be read."""

    rounds: Mapping[int, Round]
    """By number, the one that needs least space first."""
    weighed: Mapping[int, Weighed]
    """By number, what was found of each."""


def measure(
    rounds: Mapping[int, Round],
    weighing: Callable[[Sequence[PartitionJob]], Sequence[Weighed]],
    request: Request,
) -> Measured:
    """Read the records of these rounds and return their exact sizes. Writes nothing."""
    found = weighing([round_.job for round_ in rounds.values()]) if rounds else []
    weighed = dict(zip(rounds, found, strict=True))
    exact = {
        number: _exact(rounds[number], groups)
        for number, groups in weighed.items()
        if not isinstance(groups, Failure)
    }

    def need(number: int) -> tuple[int, TopicPartition]:
        round_ = exact[number]
        return needed_bytes(round_.job, request), round_.item.place.topic_partition

    return Measured({number: exact[number] for number in sorted(exact, key=need)}, weighed)


def compact_tight(run: Run, rounds: Mapping[int, Round]) -> dict[int, PartitionResult]:
    """Compact rounds whose limits do not fit, the smallest first. Each makes room for the next."""
    request = run.request

    def weighing(jobs: Sequence[PartitionJob]) -> list[Weighed]:
        return weigh(
            run.sc, jobs, now=request.now, progress=request.progress, secret=request.secret
        )

    measured = measure(rounds, weighing, request)
    results = {
        number: report.failed(rounds[number].item, why)
        for number, why in measured.weighed.items()
        if isinstance(why, Failure)
    }
    for number, round_ in measured.rounds.items():
        needed, room = needed_bytes(round_.job, request), run.room().at(round_.job.directory)
        if needed <= room:
            [results[number]] = compact(run, [round_])
        elif needed <= room + seed_bytes(round_, request):
            results[number] = _after_its_indexes(run, round_)
        else:
            results[number] = report.failed(round_.item, no_space(needed, room, request))
    return results


def _after_its_indexes(run: Run, round_: Round) -> PartitionResult:
    try:
        round_ = remove_indexes(run.request.storage, round_)
    except FAILS_ONE_PARTITION as error:
        return report.failed(round_.item, failure(error))
    [result] = compact(run, [round_])
    return result


def _exact(round_: Round, weighed: Sequence[WeighedGroup]) -> Round:
    segments = {group.base_offset: group.segment for group in weighed}
    groups = tuple(
        replace(
            group,
            most_log_bytes=segment.log_bytes,
            most_index_bytes=sum(
                size or 0
                for size in (segment.index_bytes, segment.timeindex_bytes, segment.txnindex_bytes)
            ),
        )
        for group in round_.job.groups
        for segment in [segments[group.base_offset]]
    )
    return replace(round_, job=replace(round_.job, groups=groups))
