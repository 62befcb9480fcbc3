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
from typing import TYPE_CHECKING

from winnow.errors import WinnowError
from winnow.runtime.run_directory import run_directory
from winnow.runtime.session import telling_tasks
from winnow.storage.beside.guest import yield_to_others
from winnow.storage.beside.look import looks, use_looks, write_looks
from winnow.storage.places import Places
from winnow.storage.urls import is_remote

if TYPE_CHECKING:
    from pyspark import SparkContext, TaskContext

_EXPECTED = "winnow.log.dirs"
_LOOKS = "winnow.looks"
_IDENTITY = "meta.properties"
"""The file with the ids of a broker and of its directory."""


class OtherDirectoryError(WinnowError):
    """The host of a task does not have the log directory of the driver."""


@contextmanager
def same_directories(sc: SparkContext, log_dirs: Sequence[str]) -> Iterator[None]:
    """Let the tasks of Spark jobs that this thread starts inside the block check these directories.
    Spark runs a task that fails again, perhaps on another host.

    Raises OtherDirectoryError if a job failed for this reason. On one machine nothing is checked.
    Tasks read directories of running brokers as the driver saw them (`winnow.storage.beside.look`).
    """
    written = write_looks(run_directory())
    if written is not None:
        with telling_tasks(sc, _LOOKS, written):
            yield
        return
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
    """Raise OtherDirectoryError if this host does not have what the driver of the task has. Let
    the task see what the driver saw.
    """
    use_looks(task.getLocalProperty(_LOOKS))
    if looks():
        yield_to_others()
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
