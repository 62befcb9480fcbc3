"""What tasks count of themselves, because Spark does not see it: bytes of files, and the CPU time
of Python.

Nothing is counted unless a job is put together inside `metering`: then its functions take an
accumulator along.
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
    """Of any number of tasks."""

    read: int = 0
    """Bytes of files, mapped ones included."""
    written: int = 0
    cpu_ns: int = 0
    """Of the Python processes, in user and system mode; the JVM's is Spark's to tell."""
    files: int = 0
    """That were opened to be read or written."""

    def __add__(self, other: TaskCounts) -> TaskCounts:
        return TaskCounts(
            self.read + other.read,
            self.written + other.written,
            self.cpu_ns + other.cpu_ns,
            self.files + other.files,
        )


StageCounts = Mapping[int, TaskCounts]
"""By Spark's number of the stage."""


class Meter(Protocol):
    """A Spark accumulator of StageCounts."""

    def add(self, term: StageCounts) -> None: ...


_current: ContextVar[Meter | None] = ContextVar("meter", default=None)


@contextmanager
def metering(meter: Meter) -> Iterator[None]:
    """Jobs that this thread puts together inside the block add what they count to `meter`."""
    before = _current.set(meter)
    try:
        yield
    finally:
        _current.reset(before)


def metered(function: Callable[_P, Iterator[_U]]) -> Callable[_P, Iterator[_U]]:
    """The same function of a partition's items, which counts if there is a meter now; one of them
    in a stage.
    """
    meter = _current.get()
    return function if meter is None else partial(_counting, meter, function)


def _counting(
    meter: Meter, function: Callable[_P, Iterator[_U]], *args: _P.args, **kwargs: _P.kwargs
) -> Iterator[_U]:
    from pyspark import TaskContext  # noqa: PLC0415 - who imports this need not have Spark

    before = TaskCounts(-MOVED.read, -MOVED.written, -time.process_time_ns(), -MOVED.files)
    yield from function(*args, **kwargs)
    task = TaskContext.get()
    if task is not None:
        after = TaskCounts(MOVED.read, MOVED.written, time.process_time_ns(), MOVED.files)
        meter.add({task.stageId(): before + after})


def added(left: StageCounts, right: StageCounts) -> StageCounts:
    """Stage by stage."""
    return {
        stage: left.get(stage, TaskCounts()) + right.get(stage, TaskCounts())
        for stage in {*left, *right}
    }
