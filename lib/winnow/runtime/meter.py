"""Count what Spark does not see in tasks: bytes of files, the CPU time of Python, and the time of
reading back.

Nothing is counted unless a job is built inside `metering`: its functions then carry an accumulator.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import ParamSpec, Protocol, TypeVar

from winnow.storage.io_counters import MOVED

_P = ParamSpec("_P")
_U = TypeVar("_U")


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """Sums over any number of tasks."""

    read: int = 0
    """Bytes of files, including mapped ones."""
    written: int = 0
    cpu_ns: int = 0
    """Of the Python processes, user and system mode. Spark reports the JVM's."""
    files: int = 0
    """Files opened for I/O."""
    read_back_ns: int = 0
    """See `Moved.read_back_ns`."""

    def __add__(self, other: TaskCounts) -> TaskCounts:
        return TaskCounts(
            *(getattr(self, name) + getattr(other, name) for name in TaskCounts.__slots__)
        )


StageCounts = Mapping[int, TaskCounts]
"""Counts by Spark's stage number."""


class Meter(Protocol):
    """A Spark accumulator of StageCounts."""

    def add(self, term: StageCounts) -> None: ...


_current: ContextVar[Meter | None] = ContextVar("meter", default=None)


@contextmanager
def metering(meter: Meter) -> Iterator[None]:
    """Add the counts of the jobs that this thread builds inside the block to `meter`."""
    before = _current.set(meter)
    try:
        yield
    finally:
        _current.reset(before)


def metered(function: Callable[_P, Iterator[_U]]) -> Callable[_P, Iterator[_U]]:
    """Return the same partition function, counting if a meter is active. Use it once per stage."""
    meter = _current.get()
    return function if meter is None else partial(_counting, meter, function)


def _counting(
    meter: Meter, function: Callable[_P, Iterator[_U]], *args: _P.args, **kwargs: _P.kwargs
) -> Iterator[_U]:
    from pyspark import TaskContext  # noqa: PLC0415 - importers need not have Spark

    before = _counts(-1)
    yield from function(*args, **kwargs)
    task = TaskContext.get()
    if task is not None:
        meter.add({task.stageId(): before + _counts(1)})


def _counts(sign: int) -> TaskCounts:
    """Return what this process has done so far, to add (1) or to subtract (-1)."""
    return TaskCounts(
        read=sign * MOVED.read,
        written=sign * MOVED.written,
        cpu_ns=sign * time.process_time_ns(),
        files=sign * MOVED.files,
        read_back_ns=sign * MOVED.read_back_ns,
    )


def added(left: StageCounts, right: StageCounts) -> StageCounts:
    return {
        stage: left.get(stage, TaskCounts()) + right.get(stage, TaskCounts())
        for stage in {*left, *right}
    }
