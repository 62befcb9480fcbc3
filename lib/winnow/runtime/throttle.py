"""`--throttle`: limit what all tasks of a run read and write per second, like
`log.cleaner.io.max.bytes.per.second`.

Tasks that run at the same time get equal shares. The share travels with the run's Spark jobs as a
local property of the thread that starts them. Every stage that maps or writes segments reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache, partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from winnow.runtime.freed_memory import give_back_freed_memory
from winnow.runtime.meter import metered
from winnow.runtime.same_directories import check_directories
from winnow.runtime.session import cores_of, telling_tasks
from winnow.storage.live.read_view import views
from winnow.storage.places import Places
from winnow.storage.throttle import Throttle, throttled

if TYPE_CHECKING:
    from pyspark import SparkContext

_SHARE = "winnow.io.max.bytes.per.second"
_P = ParamSpec("_P")
_U = TypeVar("_U")


@contextmanager
def limiting_io(sc: SparkContext, bytes_per_second: float | None) -> Iterator[None]:
    """Limit the Spark jobs that this thread starts inside the block, and the thread's own I/O.

    None: no limit.
    """
    if bytes_per_second is None:
        yield
        return
    share = str(bytes_per_second / cores_of(sc))
    with telling_tasks(sc, _SHARE, share), throttled(Throttle(bytes_per_second)):
        yield


BESIDE_BROKER = 50 * 2**20
"""Default rate while a broker runs, in bytes per second."""


def limiting_io_beside_brokers(sc: SparkContext) -> AbstractContextManager[None]:
    """Limit this thread and the Spark jobs that it starts to the default rate, if this process
    reads the log directory of a running broker.
    """
    return limiting_io(sc, BESIDE_BROKER if views() else None)


def in_task(function: Callable[_P, Iterable[_U]]) -> Callable[_P, Iterator[_U]]:
    """Wrap a function for `mapPartitions`: it checks the log directories that the driver named,
    keeps to the task's share of I/O and is counted.
    """
    return metered(partial(_limited, function))


@lru_cache(1)
def _begin(stage: int) -> None:
    """Forget the listings of earlier stages: the driver may have changed a directory since. Give
    back memory that they needed and this one may not need.
    """
    del stage
    Places().forget()
    give_back_freed_memory()


def _limited(
    function: Callable[_P, Iterable[_U]], *args: _P.args, **kwargs: _P.kwargs
) -> Iterator[_U]:
    from pyspark import TaskContext  # noqa: PLC0415 - tests call tasks' functions without Spark

    task = TaskContext.get()
    share = None if task is None else task.getLocalProperty(_SHARE)
    if task is not None:
        check_directories(task)
        _begin(task.stageId())
    with throttled(None if share is None else Throttle(float(share))):
        yield from function(*args, **kwargs)
