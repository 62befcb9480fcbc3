"""The two Spark jobs of an erasure: look for the keys in all segments, and rewrite segments without
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from winnow.errors import FAILS_ONE_PARTITION
from winnow.runtime.failure import Failure, failure
from winnow.runtime.meter import metered
from winnow.runtime.packing import packed, task_count
from winnow.runtime.progress import Progress, watched
from winnow.runtime.ticks import TickSheet, tick
from winnow.verbs.erase.rewrite import RewrittenSegment, SegmentWork, rewrite_segment
from winnow.verbs.erase.scan import SegmentMatches, scan_segment
from winnow.verbs.erase.targets import Target
from winnow.wire.key_search import KeySet
from winnow.words import counted

if TYPE_CHECKING:
    from pyspark import Broadcast, SparkContext

SharedKeys: TypeAlias = "Broadcast[KeySet]"
_TASK_BYTES = 2**30
_Item = TypeVar("_Item")
_Done = TypeVar("_Done")


def scan_all(
    sc: SparkContext, targets: Sequence[Target], keys: SharedKeys, progress: Progress
) -> list[list[SegmentMatches] | Failure]:
    """Return for each partition what each of its segments holds, or the first failure."""
    items = [
        (target.state.directory, segment, target.config.max_decompressed_message_bytes)
        for target in targets
        for segment in target.state.segments
    ]
    sizes = [segment.log_bytes for _, segment, _ in items]
    done = iter(
        _run(
            sc,
            items,
            sizes,
            lambda item: scan_segment(item[0], item[1], keys.value, max_decompressed_bytes=item[2]),
            progress,
            f"looking for the keys in {counted(len(targets), 'partition')}",
        )
    )
    return [_together([next(done) for _ in target.state.segments]) for target in targets]


def rewrite_all(
    sc: SparkContext, works: Sequence[SegmentWork], keys: SharedKeys, progress: Progress
) -> list[RewrittenSegment | Failure]:
    """Rewrite each segment. Results are in the order of `works`."""
    sizes = [work.segment.log_bytes for work in works]
    name = f"erasing in {counted(len(works), 'segment')}"
    return _run(sc, works, sizes, lambda work: rewrite_segment(work, keys.value), progress, name)


def _each(
    do: Callable[[_Item], _Done], ticks: str, tasks: Iterable[list[tuple[int, _Item]]]
) -> Iterator[tuple[int, _Done | Failure]]:
    for number, item in (numbered for task in tasks for numbered in task):
        try:
            yield number, do(item)
        except FAILS_ONE_PARTITION as error:
            yield number, failure(error)
        tick(ticks, number)


def _run(
    sc: SparkContext,
    items: Sequence[_Item],
    weights: Sequence[int],
    do: Callable[[_Item], _Done],
    progress: Progress,
    name: str,
) -> list[_Done | Failure]:
    if not items:
        return []
    tasks = task_count(
        sum(weights), per_task=_TASK_BYTES, items=len(items), parallelism=sc.defaultParallelism
    )
    lists = packed(list(enumerate(items)), weights, tasks=tasks)
    with TickSheet(weights) as sheet, watched(sc, progress, name, tasks=tasks, ticks=sheet):
        done = dict(
            sc.parallelize(lists, tasks)
            .mapPartitions(metered(partial(_each, do, sheet.path)))
            .collect()
        )
    return [done[number] for number in range(len(items))]


def _together(outcomes: Sequence[SegmentMatches | Failure]) -> list[SegmentMatches] | Failure:
    why = next((outcome for outcome in outcomes if isinstance(outcome, Failure)), None)
    return why or [outcome for outcome in outcomes if isinstance(outcome, SegmentMatches)]
