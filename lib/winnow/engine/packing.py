"""Spread weighted items over tasks."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import TypeVar

_T = TypeVar("_T")


def pack(weights: Sequence[int], *, tasks: int) -> list[int]:
    """The task, 0 to `tasks` - 1, of each item: heaviest first, each to the task with the least so far."""
    loads = [(0, task) for task in range(max(1, tasks))]
    placed = [0] * len(weights)
    for item in sorted(range(len(weights)), key=lambda i: -weights[i]):
        load, task = heapq.heappop(loads)
        placed[item] = task
        heapq.heappush(loads, (load + weights[item], task))
    return placed


def packed(items: Sequence[_T], weights: Sequence[int], *, tasks: int) -> list[list[_T]]:
    """The items of each task, by `pack`, each list in the order given."""
    lists: list[list[_T]] = [[] for _ in range(tasks)]
    for item, task in zip(items, pack(weights, tasks=tasks), strict=True):
        lists[task].append(item)
    return lists


def task_count(total: int, *, per_task: int, items: int, parallelism: int) -> int:
    """How many tasks for work of `total`: all cores busy to the end, no task above `per_task`, none without an item."""
    return max(1, min(items, max(-(-total // per_task), 3 * parallelism)))
