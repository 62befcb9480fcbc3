"""Count what Spark does not see in tasks: bytes of files, the CPU time of Python, and the time of
reading back.

Nothing is counted unless a job is built inside `metering`: its functions then carry an accumulator.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import ParamSpec, Protocol, TypeVar

from winnow.storage.io_counters import MOVED

_P = ParamSpec("_P")
_U = TypeVar("_U")

StageCounts = Mapping[int, Counter[str]]
"""By Spark's stage number, sums over its tasks: of `MOVED`, and `cpu_ns` of the Python processes in
user and system mode. Spark reports the JVM's.
"""


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

    before = _counts()
    yield from function(*args, **kwargs)
    task = TaskContext.get()
    if task is not None:
        meter.add({task.stageId(): _counts() - before})


def _counts() -> Counter[str]:
    """Return what this process has done so far."""
    return MOVED + Counter(cpu_ns=time.process_time_ns())
