"""The Spark jobs of a run end when the run is told to."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from winnow.runtime.stop import Stop

if TYPE_CHECKING:
    from pyspark import SparkContext

_log = logging.getLogger(__name__)

_EVERY_S = 0.2


@contextmanager
def cancelling_jobs(sc: SparkContext, stop: Stop) -> Iterator[None]:
    """Cancels the Spark jobs that this thread starts inside the block, as soon as there is a reason
    to end.

    Raises StoppedError if that is why the block failed.
    """
    tag = f"winnow-{uuid.uuid4().hex}"
    finished = threading.Event()

    def watch() -> None:
        while not finished.wait(_EVERY_S):
            if stop.reason is not None:
                try:
                    # Again and again: a job may be on its way that Spark does not know of yet.
                    sc.cancelJobsWithTag(tag)
                except (Py4JError, OSError):  # the JVM is going, and the jobs with it
                    _log.debug("could not cancel jobs", exc_info=True)
                    return

    sc.addJobTag(tag)
    watcher = threading.Thread(target=watch, name="winnow-stop", daemon=True)
    watcher.start()
    try:
        yield
    except (Py4JError, PySparkException, OSError, EOFError):
        stop.check()  # what was cancelled has no other reason
        raise
    finally:
        finished.set()
        watcher.join()
        try:
            sc.removeJobTag(tag)
        except (Py4JError, OSError):
            _log.debug("could not remove a job tag", exc_info=True)
