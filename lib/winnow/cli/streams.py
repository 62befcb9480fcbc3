"""Connect the job's standard output and error to those of the caller.

spark-submit starts the job's Python with one pipe for both, and copies everything from it to its
own stdout (Spark's PythonRunner). Progress and errors would be mixed with the result, nothing would
be a terminal, and the last output could be lost when the JVM ends. So the job bypasses that pipe:

- Open the JVM's own terminal or pipe once more, if there is one and the system shows it (Linux).
- Otherwise ask the JVM to write. This also applies to files, because the JVM and the caller's shell
  share the position in them.
- If the JVM has ended, append to its file, or else write into the pipe. What is appended may be
  overwritten by a caller who does not append.
"""

from __future__ import annotations

import io
import os
import stat
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

STREAMS = {1: "out", 2: "err"}
"""File descriptor to its name in java.lang.System."""


def own_streams() -> None:
    """Give this process the stdout and stderr of the JVM that started it, if one did."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return
    for fd, name in STREAMS.items():
        path = f"/proc/{os.getppid()}/fd/{fd}"
        if not _reopen(path, fd):
            stream = io.TextIOWrapper(
                io.BufferedWriter(JvmStream(fd, _to_append(path)), 1 << 20),
                encoding="utf-8",
                errors="backslashreplace",
                line_buffering=True,
            )
            setattr(sys, f"std{name}", stream)


def _reopen(path: str, fd: int) -> bool:
    """Redirect `fd` to `path`, if that is a terminal, a pipe or a device. Return False if that is
    impossible or not allowed.
    """
    try:
        mode = Path(path).stat().st_mode
        if not (stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)):
            return False
        # Without O_NONBLOCK, a pipe that nobody reads any more would block forever.
        opened = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return False
    os.set_blocking(opened, True)
    os.dup2(opened, fd)
    os.close(opened)
    return True


def _to_append(path: str) -> int | None:
    """Open a regular file, for words after the end of the JVM. None if that is impossible."""
    try:
        if not Path(path).is_file():
            return None
        return os.open(path, os.O_WRONLY | os.O_APPEND)
    except OSError:
        return None


@cache
def _system() -> Any:  # noqa: ANN401 - py4j has no types
    """Return the JVM's System, through one connection for both streams."""
    # A thread that is started now never runs, and its starter would wait forever.
    if sys.is_finalizing():
        raise ConnectionError("too late for a connection to the JVM")
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415

    return launch_gateway().jvm.java.lang.System  # type: ignore[no-untyped-call]


class JvmStream(io.RawIOBase):
    """Bytes for the JVM's System.out or System.err. A write returns when the JVM has written.

    If the JVM can't be reached, they are written to the file `spare`, or to `fd` itself, and
    discarded if that has no reader either.
    """

    def __init__(self, fd: int, spare: int | None = None) -> None:
        self._fd = fd
        self._spare = fd if spare is None else spare
        self._gone = False

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:  # noqa: ANN401 - any buffer
        octets = bytearray(data)
        if not self._gone:
            try:
                stream = getattr(_system(), STREAMS[self._fd])
                stream.write(octets, 0, len(octets))
                stream.flush()
            except Exception:  # noqa: BLE001 - py4j may raise anything, and a writer must not fail
                self._gone = True
        if self._gone:
            with suppress(OSError):
                os.write(self._spare, octets)
        return len(octets)
