"""Spread weighted items over tasks."""

from __future__ import annotations

import heapq
from collections.abc import Sequence


def pack(weights: Sequence[int], *, tasks: int) -> list[int]:
    """The task, 0 to `tasks` - 1, of each item: heaviest first, each to the task with the least so far."""
    loads = [(0, task) for task in range(max(1, tasks))]
    placed = [0] * len(weights)
    for item in sorted(range(len(weights)), key=lambda i: -weights[i]):
        load, task = heapq.heappop(loads)
        placed[item] = task
        heapq.heappush(loads, (load + weights[item], task))
    return placed


def task_count(total: int, *, per_task: int, items: int, parallelism: int) -> int:
    """How many tasks for work of `total`: all cores busy to the end, no task above `per_task`, none without an item."""
    return max(1, min(items, max(-(-total // per_task), 3 * parallelism)))
