"""On a cluster, check in each task that its host has the same log directories as the driver.

A path may be missing on a host, or may be the directory of another broker. Every partition would
then seem damaged, or records of another broker would count. `meta.properties` tells directories
apart. What it must contain travels with the run's Spark jobs, as `--throttle` does.
"""

from __future__ import annotations

import hashlib
import json
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from winnow.errors import WinnowError
from winnow.runtime.priority import lower_priority
from winnow.runtime.run_directory import run_directory
from winnow.runtime.session import telling_tasks
from winnow.storage.live.read_view import use_views, views, write_views
from winnow.storage.places import Places
from winnow.storage.urls import is_remote

if TYPE_CHECKING:
    from pyspark import SparkContext, TaskContext

_EXPECTED = "winnow.log.dirs"
_VIEWS = "winnow.read.views"
_IDENTITY = "meta.properties"
"""The file with the ids of a broker and of its directory."""


class OtherDirectoryError(WinnowError):
    """The host of a task does not have the log directory of the driver."""


@contextmanager
def same_directories(sc: SparkContext, log_dirs: Sequence[str]) -> Iterator[None]:
    """Let the tasks of Spark jobs that this thread starts inside the block check these directories.
    Spark runs a task that fails again, perhaps on another host.

    Raises OtherDirectoryError if a job failed for this reason. On one machine nothing is checked.
    Tasks use the read views of this process (`winnow.storage.live.read_view`).
    """
    with _telling_views(sc):
        yield from _checked_by_tasks(sc, log_dirs)


@contextmanager
def _telling_views(sc: SparkContext) -> Iterator[None]:
    """Pass the read views of this process to the tasks of the block."""
    if not views():
        yield
        return
    with (
        TemporaryDirectory(prefix="winnow-views-", dir=run_directory()) as place,
        telling_tasks(sc, _VIEWS, write_views(place)),
    ):
        yield


def _checked_by_tasks(sc: SparkContext, log_dirs: Sequence[str]) -> Iterator[None]:
    if (sc.master or "").startswith("local"):
        yield
        return
    from py4j.protocol import Py4JError  # noqa: PLC0415 - tasks do not need it
    from pyspark.errors import PySparkException  # noqa: PLC0415

    from winnow.runtime.failed_job import cause_of  # noqa: PLC0415

    found = {}
    for path in log_dirs:
        with suppress(OSError):  # a directory in doubt
            if (digest := _digest(path)) is not None:
                found[path] = digest
    try:
        with telling_tasks(sc, _EXPECTED, json.dumps(found)):
            yield
    except (Py4JError, PySparkException) as error:
        prefix = f"{OtherDirectoryError.__module__}.{OtherDirectoryError.__qualname__}: "
        _, raised, message = cause_of(error).partition(prefix)
        if raised:
            raise OtherDirectoryError(message) from error
        raise


def check_directories(task: TaskContext) -> None:
    """Raise OtherDirectoryError if this host does not have what the driver of the task has. Use the
    read views of the driver, and then lower the priority of this process.
    """
    use_views(task.getLocalProperty(_VIEWS))
    if views():
        lower_priority()
    for path, expected in json.loads(task.getLocalProperty(_EXPECTED) or "{}").items():
        try:
            found = _digest(path)
            what = "none" if found is None else "another"
        except OSError as error:
            found, what = None, str(error)
        if found != expected:
            raise OtherDirectoryError(
                "an executor does not have the log directory of this run",
                expected=f"the same {_IDENTITY} as the driver has",
                found=f"{what} on host {socket.gethostname()}",
                where=path,
                hint="All executors must reach it, with credentials of their own: docs/storage.md."
                if is_remote(path)
                else "Mount it under this path on all hosts, or run on this machine with --master "
                "'local[*]'.",
            )


def _digest(path: str) -> str | None:
    try:
        return hashlib.sha256(Places().read_bytes(f"{path}/{_IDENTITY}")).hexdigest()
    except FileNotFoundError:
        return None
