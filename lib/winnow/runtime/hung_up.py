"""How Spark's Python workers end: without a traceback if the JVM has closed the socket."""

from __future__ import annotations

import sys
from collections.abc import Callable


def until_hung_up(work: Callable[..., int]) -> Callable[..., int]:
    """Exit quietly when the JVM closes the socket: it knows why. Spark would print a traceback."""

    def worker(*args: object) -> int:
        # Spark's file still has what it could not write. When Python frees the file, it tries once
        # more, and prints the error from version 3.13 on.
        sys.unraisablehook = report_unless_hung_up
        try:
            return work(*args)
        except (BrokenPipeError, ConnectionResetError):
            return 1

    return worker


def report_unless_hung_up(unraisable: sys.UnraisableHookArgs) -> None:
    if not isinstance(unraisable.exc_value, BrokenPipeError | ConnectionResetError):
        sys.__unraisablehook__(unraisable)


def end_quietly() -> None:
    """Let this process end like that if Spark's own daemon has forked it.

    Spark plans reads of `kafka-log` in such processes, whatever `spark.python.daemon.module` names,
    and hangs up on them when they were idle for a minute, and at its end.
    """
    daemon = sys.modules["__main__"]
    if daemon.__spec__ is not None and daemon.__spec__.name == "pyspark.daemon":
        daemon.worker = until_hung_up(daemon.worker)  # type: ignore[attr-defined]
