"""Cancel a run's Spark jobs when the run is asked to stop."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

from winnow.errors import StoppedError
from winnow.runtime.failed_job import failed_job, job_errors
from winnow.runtime.failure import Failure, failure
from winnow.runtime.session import tagged
from winnow.runtime.side_by_side import repeating
from winnow.runtime.stop import Stop

if TYPE_CHECKING:
    from pyspark import SparkContext

_R = TypeVar("_R")

_log = logging.getLogger(__name__)

_EVERY_S = 0.2


@contextmanager
def cancelling_jobs(sc: SparkContext, stop: Stop) -> Iterator[None]:
    """Cancel the Spark jobs that this thread starts inside the block, as soon as `stop` has a
    reason.

    Raises StoppedError if the block failed because of that.
    """
    with tagged(sc) as tag:

        def cancel() -> None:
            # Repeatedly: Spark may not know yet of a job that was just submitted.
            if stop.reason is not None:
                # The JVM may be shutting down, and its jobs with it.
                with suppress(*_failures()):
                    sc.cancelJobsWithTag(tag)

        with repeating(cancel, every_s=_EVERY_S), _stoppable(stop):
            yield


def _failures() -> tuple[type[Exception], ...]:
    return (*job_errors(), OSError, EOFError)


@contextmanager
def _stoppable(stop: Stop) -> Iterator[None]:
    """Raise StoppedError if the block failed because its Spark job was cancelled."""
    try:
        yield
    except _failures():
        stop.check()  # a cancelled job failed for no other reason
        raise


def attempted(run: Callable[[], _R], stop: Stop) -> _R | Failure:
    """Return what `run` returns, or why one of its Spark jobs failed or was cancelled. It is not
    called if the run is to stop.
    """
    try:
        with _stoppable(stop):
            stop.check()
            return run()
    except StoppedError as error:
        return failure(error)
    except job_errors() as error:
        _log.exception("the Spark job failed")
        return failed_job(error)
