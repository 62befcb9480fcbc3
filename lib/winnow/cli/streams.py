"""Standard output and error of the job as the caller sees them.

spark-submit starts the job's Python behind one pipe for both and copies all that comes out of it to
its own stdout (Spark's PythonRunner). Progress and errors would mix with the result, nothing would
be a terminal, and what was written last may be lost when the JVM ends. So the job goes around that
pipe:

* to the JVM's own terminal or pipe, opened once more, where there is one and the system tells (Linux);
* else, and for files, whose position the JVM and the caller's shell share, by asking the JVM to write;
* into the pipe after all, if the JVM is gone.
"""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

STREAMS = {1: "out", 2: "err"}
"""File descriptor to its name in java.lang.System."""


def own_streams() -> None:
    """Give this process the stdout and stderr of the JVM that started it; nothing to do if none
    did.
    """
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return
    through_jvm = [fd for fd in STREAMS if not _reopen(f"/proc/{os.getppid()}/fd/{fd}", fd)]
    connect = _connector()
    if 1 in through_jvm:
        sys.stdout = _text(JvmStream(connect, 1))
    if 2 in through_jvm:
        sys.stderr = _text(JvmStream(connect, 2))


def _reopen(path: str, fd: int) -> bool:
    """Let `fd` be what `path` is, if that is a terminal, a pipe or a device; False if it can't or
    must not be.
    """
    try:
        mode = Path(path).stat().st_mode
        if not (stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)):
            return False
        # Without O_NONBLOCK a pipe that nobody reads any more would hold us here for ever.
        opened = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return False
    os.set_blocking(opened, True)
    os.dup2(opened, fd)
    os.close(opened)
    return True


def _connector() -> Callable[[], Any]:
    """One connection to the JVM for both streams, made when something is written first."""
    made: list[Any] = []

    def connect() -> Any:  # noqa: ANN401 - py4j has no types
        if not made:
            if (
                sys.is_finalizing()
            ):  # a thread that is started now never runs, and who starts it waits for ever
                raise ConnectionError("too late for a connection to the JVM")
            from pyspark.java_gateway import launch_gateway  # noqa: PLC0415

            gateway = launch_gateway()  # type: ignore[no-untyped-call]
            made.append(gateway.jvm.java.lang.System)
        return made[0]

    return connect


class JvmStream(io.RawIOBase):
    """Bytes for the JVM's System.out or System.err; a write returns when the JVM has written.

    Once the JVM can't be reached they go to `fd` itself, and nowhere if that has no reader either.
    """

    def __init__(self, connect: Callable[[], Any], fd: int) -> None:
        self._connect = connect
        self._fd = fd
        self._gone = False

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:  # noqa: ANN401 - any buffer
        octets = bytearray(data)
        if not self._gone:
            try:
                stream = getattr(self._connect(), STREAMS[self._fd])
                stream.write(octets, 0, len(octets))
                stream.flush()
            except Exception:  # noqa: BLE001 - py4j raises as it likes, and who writes must not have to care
                self._gone = True
        if self._gone:
            with suppress(OSError):
                os.write(self._fd, octets)
        return len(octets)


def _text(raw: io.RawIOBase) -> TextIO:
    return io.TextIOWrapper(
        io.BufferedWriter(raw, 1 << 20),
        encoding="utf-8",
        errors="backslashreplace",
        line_buffering=True,
    )
