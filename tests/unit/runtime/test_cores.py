"""Several cores of a task work on chunks: in order, and never on more cores than there are."""

import errno
import fcntl
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from winnow.runtime import cores as module
from winnow.runtime.cores import Cores, in_order

PATIENCE_S = 20


def counted(first: int, last: int) -> Iterator[int]:
    yield from range(first, last)


def jobs() -> Iterator[Iterator[int]]:
    return (counted(10 * n, 10 * n + n) for n in range(10))


def one(_: int) -> int:
    return 1


@pytest.mark.parametrize("enough", [1, 3, 1000])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_items_are_returned_in_order(tmp_path: Path, count: int, enough: int) -> None:
    assert list(in_order(jobs(), Cores(str(tmp_path), count, enough), one)) == list(
        in_order(jobs(), None, one)
    )


def test_jobs_started_ahead_are_limited_by_the_threads(tmp_path: Path) -> None:
    begun, threads = [], threading.active_count()

    def job(number: int) -> Iterator[int]:
        begun.append(number)
        yield number

    items = in_order((job(n) for n in range(100)), Cores(str(tmp_path), 2), one)
    for taken in range(10):
        assert next(items) == taken
        time.sleep(0.01)
        assert len(begun) <= taken + 3
    items.close()  # type: ignore[attr-defined]
    assert threading.active_count() == threads


def test_error_is_raised_in_order(tmp_path: Path) -> None:
    def failing(number: int) -> Iterator[int]:
        yield number
        if number == 1:
            raise OSError("no further")

    found = []
    with pytest.raises(OSError, match="no further"):
        found.extend(in_order((failing(n) for n in range(5)), Cores(str(tmp_path), 2), one))
    assert found in ([0], [0, 1])


def test_threads_of_two_tasks_share_one_core(tmp_path: Path) -> None:
    cores, order = Cores(str(tmp_path), 1), []

    def job(number: int) -> Iterator[int]:
        order.append(("begun", number))
        time.sleep(0.02)
        order.append(("done", number))
        yield number

    tasks = [
        threading.Thread(
            target=list, args=(in_order((job(n) for n in (task, task + 1)), cores, one),)
        )
        for task in (0, 10)
    ]
    for task in tasks:
        task.start()
    for task in tasks:
        task.join(PATIENCE_S)
    assert [what for what, _ in order] == ["begun", "done"] * 4
    assert [number for what, number in order[::2]] == [number for what, number in order[1::2]]


def test_killed_process_releases_its_core(tmp_path: Path) -> None:
    script = (
        "import sys, time\nfrom winnow.runtime.cores import Cores\n"
        "with Cores(sys.argv[1], 1).one():\n    print(flush=True)\n    time.sleep(60)\n"
    )
    environment = os.environ | {"PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with (tmp_path / "core-0").open() as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        other.kill()
        with Cores(str(tmp_path), 1).one():
            pass


def test_failed_lock_leaves_no_file_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(module.fcntl, "flock", no_locks)
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(OSError, match=os.strerror(errno.ENOLCK)), Cores(str(tmp_path), 2).one():
        pass
    assert len(list(Path("/proc/self/fd").iterdir())) == before
