"""Cancel a run's Spark jobs when the run is asked to stop."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from winnow.errors import StoppedError
from winnow.runtime.failed_job import failed_job
from winnow.runtime.failure import Failure, failure
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
    tag = f"winnow-{uuid.uuid4().hex}"
    finished = threading.Event()

    def watch() -> None:
        while not finished.wait(_EVERY_S):
            if stop.reason is not None:
                try:
                    # Repeatedly: Spark may not know yet of a job that was just submitted.
                    sc.cancelJobsWithTag(tag)
                except (Py4JError, OSError):  # the JVM is shutting down, and its jobs end with it
                    _log.debug("could not cancel jobs", exc_info=True)
                    return

    sc.addJobTag(tag)
    watcher = threading.Thread(target=watch, name="winnow-stop", daemon=True)
    watcher.start()
    try:
        with _stoppable(stop):
            yield
    finally:
        finished.set()
        watcher.join()
        try:
            sc.removeJobTag(tag)
        except (Py4JError, OSError):
            _log.debug("could not remove a job tag", exc_info=True)


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
