"""Do the same work on many items, spread over Spark's tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from winnow.errors import FAILS_ONE_PARTITION
from winnow.runtime.failure import Failure, failure
from winnow.runtime.packing import packed, task_count
from winnow.runtime.progress import Progress, watched
from winnow.runtime.session import cores_of
from winnow.runtime.throttle import in_task
from winnow.runtime.ticks import TickSheet, tick
from winnow.storage.live.read_view import views

if TYPE_CHECKING:
    from pyspark import SparkContext

_WORTH = 4
"""A core gets a second task once each task has this fraction of `per_task`."""
_Item = TypeVar("_Item")
_Done = TypeVar("_Done")


def spread(
    sc: SparkContext,
    do: Callable[[_Item], _Done],
    items: Sequence[_Item],
    *,
    weights: Sequence[int] | None = None,
    each: int = 0,
    per_task: int = 2**30,
    name: str,
    progress: Progress,
) -> list[_Done | Failure]:
    """Return what `do` makes of each item, in the order of `items`; a Failure if it raises. If it
    has a method `prepare`, each task first calls that with all of its items.

    `weights`: bytes of each item, which progress counts; None if all items take as long. `each`:
    the cost of an item besides its weight, in bytes. `per_task`: the most bytes, or items, of a
    task, unless one item has more. A core gets a second task once each task has a quarter of that.
    `name`: what is done, for the progress display.
    """
    if not items:
        return []
    costs = [weight + each for weight in weights] if weights else [1] * len(items)
    tasks = task_count(
        sum(costs),
        per_task=per_task,
        items=len(items),
        parallelism=sc.defaultParallelism,
        worth=per_task // _WORTH,
    )
    if views():
        tasks = min(tasks, cores_of(sc))  # more tasks would run on the other cores
    lists = packed(list(enumerate(items)), costs, tasks=tasks)
    with (
        TickSheet(weights) if weights else nullcontext() as sheet,
        watched(
            sc, progress, name, tasks=tasks, items=None if weights else len(items), ticks=sheet
        ),
    ):
        work = partial(_each, do, None if sheet is None else sheet.path)
        done = dict(sc.runJob(sc.parallelize(lists, tasks), in_task(work)))
    return [done[number] for number in range(len(items))]


def spread_grouped(
    sc: SparkContext,
    do: Callable[[_Item], _Done],
    groups: Sequence[Sequence[_Item]],
    *,
    weight: Callable[[_Item], int] | None = None,
    **how: Any,  # noqa: ANN401 - see `spread`
) -> list[list[_Done | Failure]]:
    """As `spread`, but return the results of each group together. `weight` returns the bytes of an
    item; None if all items take as long.
    """
    items = [item for group in groups for item in group]
    weights = None if weight is None else [weight(item) for item in items]
    done = iter(spread(sc, do, items, weights=weights, **how))
    return [list(islice(done, len(group))) for group in groups]


def _each(
    do: Callable[[_Item], _Done], ticks: str | None, tasks: Iterable[list[tuple[int, _Item]]]
) -> Iterator[tuple[int, _Done | Failure]]:
    numbered = [one for task in tasks for one in task]
    prepare: Callable[[Sequence[_Item]], None] | None = getattr(do, "prepare", None)
    if prepare is not None:
        with suppress(FAILS_ONE_PARTITION):  # each item finds out what is wrong
            prepare([item for _, item in numbered])
    for number, item in numbered:
        try:
            yield number, do(item)
        except FAILS_ONE_PARTITION as error:
            yield number, failure(error)
        if ticks is not None:
            tick(ticks, number)
