"""Spread weighted items over tasks."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import TypeVar

_T = TypeVar("_T")

TASKS_PER_CORE = 3
"""At least, so that all of them are busy to the end though no two tasks take the same time."""

ITEM_BYTES = 2**20
"""What the files of an item cost a task besides their bytes, as bytes of log: a rewrite opens,
creates and syncs for as long as it copies 2 MiB, a scan 0.4 MiB (docs/proofs/cluster.md). Of a
thousand small partitions nothing else counts.
"""

_LATE = 1.1
"""Of the time in which all would be done if no core had to wait."""


def pack(weights: Sequence[int], *, tasks: int, each: int = 0) -> list[int]:
    """The task, 0 to `tasks` - 1, of each item: heaviest first, each to the task with the least so
    far.

    `each`: what an item costs besides its weight.
    """
    loads = [(0, task) for task in range(max(1, tasks))]
    placed = [0] * len(weights)
    for item in sorted(range(len(weights)), key=lambda i: -weights[i]):
        load, task = heapq.heappop(loads)
        placed[item] = task
        heapq.heappush(loads, (load + weights[item] + each, task))
    return placed


def packed(
    items: Sequence[_T], weights: Sequence[int], *, tasks: int, each: int = 0
) -> list[list[_T]]:
    """The items of each task, by `pack`, each list in the order given."""
    lists: list[list[_T]] = [[] for _ in range(tasks)]
    for item, task in zip(items, pack(weights, tasks=tasks, each=each), strict=True):
        lists[task].append(item)
    return lists


def task_count(total: int, *, per_task: int, items: int, parallelism: int, worth: int = 0) -> int:
    """How many tasks for work of `total`: all cores busy to the end, no task above `per_task`, none
    without an item.

    As many for each core: of nine equal tasks two cores need as long as of ten. `worth`: what a
    task has to have to do before a core is given more than one, for otherwise their starts would
    take longer than what they have to do.
    """
    rounds = (
        min(TASKS_PER_CORE, max(1, total // (worth * parallelism))) if worth else TASKS_PER_CORE
    )
    rounds = max(rounds, -(-total // (per_task * parallelism)))
    return max(1, min(items, rounds * parallelism))


def left_over(weights: Sequence[int], *, cores: int) -> list[int]:
    """Tasks that end when some of the cores have nothing left to do, of tasks that begin in this
    order.
    """
    busy_until = [0] * max(1, cores)
    late = []
    most = _LATE * sum(weights) / len(busy_until)
    for task, weight in enumerate(weights):
        end = heapq.heappop(busy_until) + weight
        heapq.heappush(busy_until, end)
        if end > most:
            late.append(task)
    return late
