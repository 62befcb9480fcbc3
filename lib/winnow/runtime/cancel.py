"""Cancel a run's Spark jobs when the run is asked to stop."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from winnow.errors import StoppedError
from winnow.runtime.failed_job import failed_job
from winnow.runtime.failure import Failure, failure
from winnow.runtime.session import tagged
from winnow.runtime.side_by_side import repeating
from winnow.runtime.stop import Stop

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
                with suppress(Py4JError, OSError):  # the JVM is shutting down, and its jobs with it
                    sc.cancelJobsWithTag(tag)

        with repeating(cancel, every_s=_EVERY_S), _stoppable(stop):
            yield


@contextmanager
def _stoppable(stop: Stop) -> Iterator[None]:
    """Raise StoppedError if the block failed because its Spark job was cancelled."""
    try:
        yield
    except (Py4JError, PySparkException, OSError, EOFError):
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
    except (Py4JError, PySparkException) as error:
        _log.exception("the Spark job failed")
        return failed_job(error)
