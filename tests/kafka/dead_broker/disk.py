"""A real file system of some MiB, for a broker to fill."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MIB = 2**20


class NoDiskError(Exception):
    """This machine does not allow mounting a file system; the message says why."""


@contextmanager
def small_disk(path: Path, *, mib: int) -> Iterator[Path]:
    """A tmpfs at `path`, which must not exist. It is unmounted at the end."""
    path.mkdir(parents=True)
    _mount("-t", "tmpfs", "-o", f"size={mib}m", "winnow-test", str(path))
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def free_bytes(path: Path) -> int:
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize


def _mount(*arguments: str) -> None:
    program = shutil.which("mount")
    if program is None:
        message = "there is no mount here"
        raise NoDiskError(message)
    done = subprocess.run([program, *arguments], check=False, capture_output=True, text=True)
    if done.returncode:
        raise NoDiskError(done.stderr.strip())
