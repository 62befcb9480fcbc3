"""Find why a Spark job failed, in one line: the error of its task, not of the call that waited. Run
jobs over many partitions, one of which may kill its worker.

The system kills a process that needs more memory than there is. Spark then fails the whole job, on
every run. So the job is run again in halves, and those in halves, until the partition that kills
workers is alone. It fails, and all others succeed.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

from winnow.errors import NoSpaceError, WinnowError
from winnow.runtime.failure import MORE_MEMORY, Failure

_T = TypeVar("_T")
_R = TypeVar("_R")
_MOST_DEATHS = 64
"""Workers that may die in one call. If more die, single partitions are not the cause."""

_log = logging.getLogger(__name__)

_LOST = re.compile(r"^.*?\bLost task \S+ in stage \S+ \(TID \d+\) \(.*?\): ")
_LONGEST = 1_000
"""Characters of a line in which Spark names the task."""
_FULL = ("No space left on device", "Disk quota exceeded")
"""Linux's error texts, which Java and Python repeat."""

_STOPPED = "Cannot call methods on a stopped SparkContext"

_INTRODUCTIONS = ("org.apache.spark.SparkException:", "Error from python worker:")
"""Lines that say nothing but that others follow."""

_DEATHS = (
    "Python worker exited unexpectedly",
    "Python worker failed to connect back",
    "ExecutorLostFailure",
    "java.io.EOFException",
    "java.net.SocketException",
    "OutOfMemoryError",
    "MemoryError",
)
"""Spark's messages for a lost worker or executor, and the errors raised when memory runs out."""


def job_errors() -> tuple[type[Exception], ...]:
    """Return the errors that a Spark job can fail with: none where Spark was never imported."""
    if "pyspark" not in sys.modules:
        return ()
    from py4j.protocol import Py4JError  # noqa: PLC0415 - with Spark
    from pyspark.errors import PySparkException  # noqa: PLC0415

    return Py4JError, PySparkException


def cause_of(error: Exception) -> str:
    """Return the cause of one of `job_errors`."""
    from py4j.protocol import Py4JError, Py4JJavaError  # noqa: PLC0415 - with Spark

    text = str(error)
    if isinstance(error, Py4JJavaError):
        try:
            text = str(error.java_exception.getMessage())
        except (Py4JError, OSError):  # the JVM is gone
            text = text.partition("\n: ")[2]
    if _STOPPED in text:
        return "Spark has stopped, and its messages above say why"
    # The frames of a traceback are indented. The error follows them.
    _, traceback, after = text.rpartition("Traceback (most recent call last):\n")
    raised = next((line for line in after.splitlines() if line and not line[0].isspace()), None)
    if traceback and raised is not None:
        return raised
    lines = [_without_task(line).strip() for line in text.splitlines()]
    return next(
        (line for line in lines if line and line not in _INTRODUCTIONS), type(error).__name__
    )


def _without_task(line: str) -> str:
    lost = _LOST.match(line, 0, _LONGEST)
    return line if lost is None else line[lost.end() :]


def killed_worker(error: Exception) -> bool:
    """Return whether one of `job_errors` says that a worker died of its own work."""
    from py4j.protocol import Py4JError  # noqa: PLC0415 - with Spark

    try:
        text = str(error)  # of a Java exception, with its stack trace
    except (Py4JError, OSError):  # the JVM is gone, so nothing can run again
        return False
    return any(words in text for words in _DEATHS)


def failed_job(error: Exception) -> Failure:
    cause = cause_of(error)
    if any(words in cause for words in _FULL):
        where = "for the files that Spark keeps between two stages (spark.local.dir)"
        return Failure(f"not enough space {where}: {cause}", NoSpaceError.exit_code)
    return Failure(f"the Spark job failed: {cause}", WinnowError.exit_code)


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
        except job_errors() as error:
            if not killed_worker(error) or not goes_on():
                raise
            deaths += 1
            if len(some) == 1:
                words = (
                    "this partition killed its worker, even when it ran alone. The system may have "
                    f"killed the worker for lack of memory: give {MORE_MEMORY} ({cause_of(error)})"
                )
                return [Failure(words, WinnowError.exit_code)]
            if deaths > _MOST_DEATHS:
                raise
            _log.warning("a worker died; running its %d partitions again in halves", len(some))
        half = len(some) // 2
        return attempt(some[:half]) + attempt(some[half:])

    return attempt(items) if items else []
