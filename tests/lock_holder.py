"""A process that holds the lock of a log directory as a broker does: a POSIX record lock."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_HOLDS = """
import fcntl, sys
file = open(sys.argv[-1], "r+")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


_CLASS_PATH = "#" * 20_000
"""As long as that of a broker."""


@contextmanager
def broker(log_dir: Path, *arguments: str, cwd: Path | None = None) -> Iterator[None]:
    """A process that holds the lock as a broker does. `arguments`: of kafka.Kafka in its command
    line.
    """
    (log_dir / ".lock").touch()
    command = ["java", f"-c{_HOLDS}{_CLASS_PATH}", "kafka.Kafka", *arguments]
    with subprocess.Popen(
        [*command, str(log_dir / ".lock")],
        executable=sys.executable,
        env=os.environ | {"PYTHONHOME": sys.base_prefix},
        cwd=cwd,
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
