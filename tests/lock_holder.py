"""A process that holds the lock of a log directory as a broker does: a POSIX record lock."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_HOLDS = """
import fcntl, sys
file = open(sys.argv[1], "r+")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def broker(log_dir: Path) -> Iterator[None]:
    """A process that holds the lock as a broker does."""
    (log_dir / ".lock").touch()
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDS, str(log_dir / ".lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        try:
            yield
        finally:
            child.communicate("")
