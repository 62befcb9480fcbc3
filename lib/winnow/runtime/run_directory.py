"""A directory for what a run writes beside the logs: Spark's local files, sockets, data between two
stages.

It contains keys that are to be erased, so only the user of the run may read it. A small process
waits for the end of the run, however it ends, and removes the directory. It also removes the
directories of earlier runs that were killed together with their process. `spark-submit.sh` starts
this process before Java, from this file and without any package.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress

VARIABLE = "WINNOW_RUN_DIR"
"""Passes the directory to the driver."""
_NAME = re.compile(r"winnow-run-([0-9]+)-.+")
"""Contains the id of the process whose end removes it."""
_YOUNG_S = 60
"""Younger directories may not be locked yet."""
_SPACE = 32 * 2**20
_REMOVALS = 50
_WAIT_S = 0.1
_KEEPERS: list[subprocess.Popen[bytes]] = []
"""Keepers that this process started. Each ends when its pipe closes."""


def run_directory() -> str:
    """Return the run directory, else the user's directory for temporary files."""
    return os.environ.get(VARIABLE) or tempfile.gettempdir()


def temporary_place(places: Sequence[str]) -> str | None:
    """Return the first of these directories that can be written and has 32 MiB of space, as
    `spark-submit.sh` does.
    """
    for place in places:
        with suppress(OSError):
            space = os.statvfs(place)
            if os.access(place, os.W_OK | os.X_OK) and space.f_bavail * space.f_frsize >= _SPACE:
                return os.path.realpath(place)
    return None


def begin_run_directory(parent: str) -> None:
    """Create a run directory for a process that starts Java itself, and name it in the environment
    for Java. The directory is removed when this process ends. `parent` becomes the directory for
    temporary files.
    """
    os.environ["TMPDIR"] = tempfile.tempdir = parent
    parents = [parent, *filter(None, os.environ.get("SPARK_LOCAL_DIRS", "").split(","))]
    paths = [
        tempfile.mkdtemp(prefix=f"winnow-run-{os.getpid()}-", dir=parent) for parent in parents
    ]
    command = [sys.executable, "-I", "-S", __file__, *paths]
    quiet = subprocess.DEVNULL
    _KEEPERS.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet))  # noqa: S603 - ours
    options = os.environ.get("SPARK_SUBMIT_OPTS", "")
    os.environ[VARIABLE] = paths[0]
    os.environ["SPARK_LOCAL_DIRS"] = ",".join(paths[1:] or paths)
    options += f' -Djava.io.tmpdir="{paths[0]}"'
    # Spark fails without a home directory. Java asks the system, which may not know this user.
    home = os.path.expanduser("~")
    usable = os.path.isabs(home) and os.access(home, os.W_OK) and not {'"', "\\"} & {*home}
    options += f' -Duser.home="{home if usable else paths[0]}"'
    os.environ["SPARK_SUBMIT_OPTS"] = options.lstrip()


def keep(paths: Sequence[str], ended: int) -> None:
    """Remove these directories once the pipe `ended` has no writer; leftovers beside them first."""
    # Sent to the run, which decides how it ends.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with suppress(OSError):
        os.setsid()
    locks = [lock for path in paths if (lock := _lock(path)) is not None]
    for parent in sorted({os.path.dirname(path) for path in paths}):
        with suppress(OSError):
            remove_leftovers(parent)
    while os.read(ended, 1):
        pass
    for path in paths:
        _remove(path)
    for lock in locks:
        os.close(lock)


def remove_leftovers(parent: str) -> None:
    """Remove directories of this user's runs that were killed with their keeper."""
    for name in os.listdir(parent):
        path, named = f"{parent}/{name}", _NAME.fullmatch(name)
        if named is None or os.path.exists(f"/proc/{named[1]}"):
            continue
        with suppress(OSError):
            status = os.lstat(path)
            is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
            if not is_ours or time.time() - status.st_mtime < _YOUNG_S:
                continue
            lock = _lock(path)  # the id of another container's process means nothing here
            if lock is not None:
                _remove(path)
                os.close(lock)


def _lock(path: str) -> int | None:
    """Return the locked descriptor, or None if another process holds the lock."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None
    return fd


def _remove(path: str) -> None:
    """Remove a directory, with retries: processes that miss the end of the run may write there."""
    for _ in range(_REMOVALS):
        shutil.rmtree(path, ignore_errors=True)
        if not os.path.lexists(path):
            return
        time.sleep(_WAIT_S)


if __name__ == "__main__":
    keep(sys.argv[1:], 0)
