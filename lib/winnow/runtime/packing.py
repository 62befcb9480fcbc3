"""Spread weighted items over tasks."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

_T = TypeVar("_T")

TASKS_PER_CORE = 3
"""Tasks per core, at least: keeps all cores busy to the end although tasks take unequal time."""

ITEM_BYTES = 2**20
"""Fixed cost of an item's files, as bytes of log (docs/proofs/cluster.md).

Opening, creating and syncing takes a rewrite as long as copying 2 MiB, and a scan as long as 0.4
MiB. For a thousand small partitions this is the only cost that matters.
"""

_LATE = 1.1
"""Relative to the time in which all tasks would finish if no core had to wait."""


def packed(items: Sequence[_T], weights: Sequence[int], *, tasks: int) -> list[list[_T]]:
    """Return the items of each task: heaviest first, each to the least loaded task. Each list keeps
    the given order.
    """
    numbers: list[list[int]] = [[] for _ in range(tasks)]
    loads = [(0, task) for task in range(tasks)]
    for number in sorted(range(len(items)), key=lambda i: -weights[i]):
        load, task = loads[0]
        numbers[task].append(number)
        heapq.heapreplace(loads, (load + weights[number], task))
    return [[items[number] for number in sorted(some)] for some in numbers]


def in_order(
    items: Iterable[_T], size_of: Callable[[_T], int], most: int | None
) -> Iterator[list[_T]]:
    """Yield groups of neighbours of at most `most`, but at least one item. None: all together."""
    group: list[_T] = []
    taken = 0
    for item in items:
        size = size_of(item)
        if group and most is not None and taken + size > most:
            yield group
            group, taken = [], 0
        group.append(item)
        taken += size
    if group:
        yield group


def task_count(total: int, *, per_task: int, items: int, parallelism: int, worth: int = 0) -> int:
    """Return the number of tasks for work of `total`.

    All cores are busy to the end, no task has more than `per_task`, and each task has an item. The
    count is a multiple of the cores: two cores need as long for nine equal tasks as for ten.

    `worth`: the work a task must have before a core gets more than one. With less, starting tasks
    takes longer than their work.
    """
    rounds = (
        min(TASKS_PER_CORE, max(1, total // (worth * parallelism))) if worth else TASKS_PER_CORE
    )
    rounds = max(rounds, -(-total // (per_task * parallelism)))
    return max(1, min(items, rounds * parallelism))


def left_over(weights: Sequence[int], *, cores: int) -> list[int]:
    """Return the tasks, started in this order, that end when some cores are already idle."""
    busy_until = [0] * max(1, cores)
    late = []
    most = _LATE * sum(weights) / len(busy_until)
    for task, weight in enumerate(weights):
        end = heapq.heappop(busy_until) + weight
        heapq.heappush(busy_until, end)
        if end > most:
            late.append(task)
    return late
