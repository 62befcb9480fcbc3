"""Spark jobs over many partitions, of which one may kill the worker that works on it.

The system kills a process that needs more memory than there is. Spark then fails the whole job, and
would so on every run. Halves of the job are run again, and halves of those, until the partition
that does it is alone: it fails, and all others are done.
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
"""Of workers in one call. Where more die it is not for the sake of some partitions."""

_log = logging.getLogger(__name__)


def each_survived(
    items: Sequence[_T],
    run: Callable[[Sequence[_T]], list[_R]],
    *,
    goes_on: Callable[[], bool] = lambda: True,
) -> list[_R | Failure]:
    """What `run` makes of the items, one result for each; a Failure for one that kills its worker
    even alone.

    Raises what `run` does for other reasons. `goes_on`: whether anything is to be run again.
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
            _log.warning("a worker died; its %d partitions are run again in halves", len(some))
        half = len(some) // 2
        return attempt(some[:half]) + attempt(some[half:])

    return attempt(items) if items else []


def _killed(error: Exception) -> Failure:
    return Failure(
        "a worker died of this partition, also when it had the machine for itself. The system may have killed it for "
        "want of memory: give the machine or the executor more, use fewer cores at once, or allow less in one batch "
        f"with {VARIABLE} ({cause_of(error)})",
        WinnowError.exit_code,
    )
