"""Find why a Spark job failed, in one line: the error of its task, not of the call that waited."""

from __future__ import annotations

import re

from py4j.protocol import Py4JError, Py4JJavaError

from winnow.errors import NoSpaceError, WinnowError
from winnow.runtime.failure import Failure

_LOST = re.compile(r"^.*?\bLost task \S+ in stage \S+ \(TID \d+\) \(.*?\): ")
_FULL = ("No space left on device", "Disk quota exceeded")
"""Linux's error texts, which Java and Python repeat."""

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


def cause_of(error: Exception) -> str:
    """Return the cause of a Py4JError or a PySparkException."""
    text = str(error)
    if isinstance(error, Py4JJavaError):
        try:
            text = str(error.java_exception.getMessage())
        except (Py4JError, OSError):  # the JVM is gone
            text = text.partition("\n: ")[2]
    # The frames of a traceback are indented. The error follows them.
    _, traceback, after = text.rpartition("Traceback (most recent call last):\n")
    raised = next((line for line in after.splitlines() if line and not line[0].isspace()), None)
    if traceback and raised is not None:
        return raised
    return _LOST.sub("", text.strip().partition("\n")[0]) or type(error).__name__


def killed_worker(error: Exception) -> bool:
    """Return whether a Py4JError or a PySparkException says that a worker died of its own work."""
    text = str(error)
    if isinstance(error, Py4JJavaError):
        try:
            text += str(error.java_exception.toString())
        except (Py4JError, OSError):  # the JVM is gone, so nothing can run again
            return False
    return any(words in text for words in _DEATHS)


def failed_job(error: Exception) -> Failure:
    """Return the Failure for a Py4JError or a PySparkException."""
    cause = cause_of(error)
    if any(words in cause for words in _FULL):
        where = "for the files that Spark keeps between two stages (spark.local.dir)"
        return Failure(f"not enough space {where}: {cause}", NoSpaceError.exit_code)
    return Failure(f"the Spark job failed: {cause}", WinnowError.exit_code)
