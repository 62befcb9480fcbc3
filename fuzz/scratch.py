"""A directory for what a target reads through the real storage: in memory where there is such a
place.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from winnow.logdir.meta import MetaProperties
from winnow.logdir.survey import Checkpoints, LogDir
from winnow.storage.local import LocalStorage

storage = LocalStorage()


@cache
def directory() -> str:
    """One for this process, removed at its end."""
    memory = Path("/dev/shm")  # noqa: S108 - a place, not a name of a file
    path = tempfile.mkdtemp(prefix="winnow-fuzz-", dir=memory if memory.is_dir() else None)
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def written(name: str, data: bytes) -> str:
    """The path of a file of that name in the directory, with this content."""
    path = f"{directory()}/{name}"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.write(fd, data)
    os.close(fd)
    return path


def log_dir() -> LogDir:
    """The directory as a log directory without partitions."""
    return LogDir(
        path=directory(),
        meta=MetaProperties(version=1, node_id=1, cluster_id="c"),
        clean_shutdown=True,
        partitions=(),
        skipped=(),
        checkpoints=Checkpoints(),
        error=None,
    )
