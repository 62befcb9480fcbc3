"""Run Spark jobs over many partitions, one of which may kill its worker.

The system kills a process that needs more memory than there is. Spark then fails the whole job, on
every run. So the job is run again in halves, and those in halves, until the partition that kills
workers is alone. It fails, and all others succeed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from winnow.batch_memory import VARIABLE
from winnow.errors import WinnowError
from winnow.runtime.failed_job import cause_of, killed_worker
from winnow.runtime.failure import Failure

_T = TypeVar("_T")
_R = TypeVar("_R")
_MOST_DEATHS = 64
"""Workers that may die in one call. If more die, single partitions are not the cause."""

_log = logging.getLogger(__name__)


def each_survived(
    items: Sequence[_T],
    run: Callable[[Sequence[_T]], list[_R]],
    *,
    goes_on: Callable[[], bool] = lambda: True,
) -> list[_R | Failure]:
    """Return what `run` makes of the items, one result for each. An item that kills its worker even
    when alone becomes a Failure.

    Raises what `run` raises for other reasons. `goes_on`: whether to run anything again.
    """
    deaths = 0

    def attempt(some: Sequence[_T]) -> list[_R | Failure]:
        nonlocal deaths
        try:
            return [*run(some)]
        except (Py4JError, PySparkException) as error:
            if not killed_worker(error) or not goes_on():
                raise
            deaths += 1
            if len(some) == 1:
                return [_killed(error)]
            if deaths > _MOST_DEATHS:
                raise
            _log.warning("a worker died; running its %d partitions again in halves", len(some))
        half = len(some) // 2
        return attempt(some[:half]) + attempt(some[half:])

    return attempt(items) if items else []


def _killed(error: Exception) -> Failure:
    return Failure(
        "this partition killed its worker, even when it ran alone. The system may have killed the "
        "worker for lack of memory: give the machine or the executor more, use fewer cores at "
        f"once, or allow less in one batch with {VARIABLE} ({cause_of(error)})",
        WinnowError.exit_code,
    )
