"""A worker daemon on standby. It loads everything while Java and Spark start, then takes the place
of the daemon that Spark starts (docs/decisions/0026).

`python -m winnow.worker.standby` listens at the socket that `WINNOW_STANDBY` names, in a directory
that only this user can access. Its standard input is a pipe that closes when the driver ends.
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
from contextlib import suppress
from typing import Any

from winnow.worker.archives import without_spare_archives

VARIABLE = "WINNOW_STANDBY"
LONGEST_PATH = 107
"""Bytes in the path of a socket, on Linux."""
AS_SPARK_SETS = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
"""Variables of workers that are read when Python starts."""
_READ_LATER = ("SPARK_", "PYSPARK_", "_PYSPARK_", "PYTHON_")
"""Spark's variables, which its daemon and workers read only when they run."""
_NO_MATTER = frozenset({VARIABLE, "MASTER", "PYTHONPATH", "PYTHONUNBUFFERED", "SHLVL", "_"})
"""Spark sets `MASTER` for the driver. The module path is compared as such; the streams are Spark's.
"""
_LOADED, _STREAMS, _TAKEN = b"l", b"s", b"t"
_LOAD_S = 60.0
_started: list[subprocess.Popen[bytes]] = []
"""Kept, because the pipe closes when the object is freed."""

Description = dict[str, Any]
"""What a process is, and what it was started with."""


def start() -> None:
    """Start the process if the environment names a socket for it."""
    path = os.environ.get(VARIABLE)
    if path is None or len(os.fsencode(path)) > LONGEST_PATH:
        return
    process = subprocess.Popen(
        [sys.executable, "-m", "winnow.worker.standby"],
        env=AS_SPARK_SETS | os.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _started.append(process)


def main() -> None:
    """Load what workers need. Then wait until a daemon asks, or the driver ends."""
    from winnow.compiled import is_complete  # noqa: PLC0415 - takes half a second
    from winnow.worker import daemon  # noqa: PLC0415 - it imports this module

    own = describe()
    os.setpgid(0, 0)  # Ctrl-C is for the driver, whose end closes the pipe
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.environ[VARIABLE])
        listening.listen(1)
        if not is_complete():
            return  # the driver compiles the kernels, and says so
        daemon.load()
        ready, _, _ = select.select([listening, sys.stdin], [], [])
        if listening not in ready:
            return
        asking, _ = listening.accept()
    os.unlink(os.environ[VARIABLE])
    os.register_at_fork(after_in_child=asking.close)
    if take_place(asking, own):
        daemon.serve()


def describe() -> Description:
    return {
        "executable": sys.executable,
        "modules": without_spare_archives(sys.path),
        "arguments": sys.argv,
        "directory": os.getcwd(),
        "environment": dict(os.environ),
    }


def hand_over(own: Description) -> bool:
    """Let the process on standby be Spark's daemon, and wait for its end. False if there is none,
    or if it is not what this process would have become.
    """
    path = own["environment"].get(VARIABLE)
    if path is None:
        return False
    with socket.socket(socket.AF_UNIX) as asking:
        try:
            asking.settimeout(_LOAD_S)
            asking.connect(path)
            if asking.recv(1) != _LOADED:
                return False
            asking.settimeout(None)  # from here on it answers at once, or is gone
            socket.send_fds(asking, [_STREAMS], [0, 1, 2])
            asking.sendall(json.dumps(own).encode())
            asking.shutdown(socket.SHUT_WR)
            if asking.recv(1) != _TAKEN:
                return False
        except OSError:  # it is gone
            return False
        _wait(asking)
    return True


def _wait(asking: socket.socket) -> None:
    """Wait for the other process's end, without holding Spark's pipes open."""
    os.setpgid(0, 0)
    with open(os.devnull, "r+b") as nothing:
        for number in range(3):
            os.dup2(nothing.fileno(), number)
    with suppress(OSError):
        while asking.recv(1):
            pass


def take_place(asking: socket.socket, own: Description) -> bool:
    """Take the streams, arguments and variables of the daemon that asks, if this process would do
    exactly the same.
    """
    asking.sendall(_LOADED)
    _, streams, _, _ = socket.recv_fds(asking, len(_STREAMS), 3)
    told = b"".join(iter(lambda: asking.recv(1 << 16), b""))
    if len(streams) != 3 or not told:
        return False  # it has given up
    asked: Description = json.loads(told)
    if essentials(asked) != essentials(own):
        return False
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    if asked["directory"] != own["directory"]:  # which this user may not be allowed to enter again
        os.chdir(asked["directory"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.argv[:] = asked["arguments"]
    asking.sendall(_TAKEN)
    return True


def essentials(process: Description) -> tuple[object, ...]:
    """Return what matters for what a process has loaded."""
    environment = {
        name: value
        for name, value in process["environment"].items()
        if name not in _NO_MATTER and not name.startswith(_READ_LATER)
    }
    return process["executable"], process["modules"], environment


if __name__ == "__main__":
    main()
