"""Do many pieces of work in the tasks of one Spark job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from winnow.errors import FAILS_ONE_PARTITION
from winnow.runtime.failure import Failure, failure
from winnow.runtime.packing import ITEM_BYTES, packed, task_count
from winnow.runtime.progress import Progress, watched
from winnow.runtime.throttle import in_task
from winnow.runtime.ticks import TickSheet, tick

if TYPE_CHECKING:
    from pyspark import SparkContext

_T = TypeVar("_T")


def do_pieces(
    sc: SparkContext,
    works: Sequence[Callable[[], _T]],
    sizes: Sequence[int],
    *,
    per_task: int,
    name: str,
    progress: Progress,
) -> list[_T | Failure]:
    """Return what each piece of work returns, or why it failed, in the given order. A piece that
    fails does not stop the others.

    `sizes`: bytes that each piece reads. `per_task`: bytes of a task, as in `task_count`.
    """
    tasks = task_count(
        sum(sizes), per_task=per_task, items=len(works), parallelism=sc.defaultParallelism
    )
    # Not broadcast: on a node with many partitions, each worker would hold all pieces and need few.
    lists = packed([*enumerate(works)], sizes, tasks=tasks, each=ITEM_BYTES)
    with TickSheet(sizes) as sheet, watched(sc, progress, name, tasks=tasks, ticks=sheet):
        do = in_task(partial(_do, sheet.path))
        done = dict(sc.parallelize(lists, tasks).mapPartitions(do).collect())
    return [done[piece] for piece in range(len(works))]


def _do(
    ticks: str, assigned: Iterable[list[tuple[int, Callable[[], _T]]]]
) -> Iterator[tuple[int, _T | Failure]]:
    for piece, work in chain.from_iterable(assigned):
        try:
            yield piece, work()
        except FAILS_ONE_PARTITION as error:
            yield piece, failure(error)
        tick(ticks, piece)
