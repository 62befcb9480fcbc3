"""Leases on log directories without locks, on real storage: two writers at once, dead writers, and
writers that pause.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from winnow.errors import LogDirInUseError
from winnow.logdir.lease import Lease, refuse_leased
from winnow.storage.hdfs.lease import HdfsLeaseFile
from winnow.storage.lease_file import LEASE, LeaseFile, Seen
from winnow.storage.places import Places, lease_file_of, storage_of

LENGTH_S = 3.0


@pytest.fixture
def log_dir(leased: str, tmp_path: Path) -> str:
    url = storage_of(leased).canonical(f"{leased}/{tmp_path.name}/log-dir")
    Places().ensure_dir(url)
    return url


@pytest.fixture
def file(log_dir: str) -> LeaseFile:
    return lease_file_of(log_dir)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """Stands still unless it is set, so only the test renews a lease."""
    return Clock()


def take(log_dir: str, *, length_s: float = LENGTH_S) -> Lease:
    return Lease(log_dir, lease_file_of(log_dir), length_s=length_s)


@pytest.fixture
def dead(log_dir: str, file: LeaseFile) -> Seen:
    """The lease of one that does not renew it."""
    assert log_dir
    return file.take(json.dumps({"seconds": LENGTH_S, "token": "dead"}).encode(), None)


def names(log_dir: str) -> list[str]:
    return [entry.name for entry in Places().list_dir(log_dir)]


def test_second_writer_is_refused_with_holder_named(log_dir: str) -> None:
    with take(log_dir):
        assert names(log_dir) == [LEASE]
        for refused in (
            lambda: take(log_dir),
            lambda: refuse_leased(log_dir, lease_file_of(log_dir)),
        ):
            with pytest.raises(LogDirInUseError, match=f"process {os.getpid()} on ") as caught:
                refused()
            assert caught.value.exit_code == 5
        Places().create(f"{log_dir}/x", b"")
    assert names(log_dir) == ["x"]
    refuse_leased(log_dir, lease_file_of(log_dir))
    take(log_dir).close()


def test_only_one_of_several_concurrent_writers_gets_it(log_dir: str, dead: Seen) -> None:
    """Some find the lease of a dead writer, others the lease of the writer that took it over."""
    assert dead
    start, taken, refused = threading.Barrier(4), [], []

    def one() -> None:
        start.wait()
        try:
            taken.append(take(log_dir))
        except LogDirInUseError:
            refused.append(1)

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(taken), len(refused)) == (1, 3)
    assert names(log_dir) == [LEASE]
    taken[0].check()
    taken[0].close()
    assert names(log_dir) == []


def test_lease_that_another_run_moves_aside_for_a_moment_is_taken_later(name_node: str) -> None:
    """The other run wants the lease of a dead writer, and finds a younger one under its name."""
    log_dir = f"{name_node}/moved-aside"
    Places().ensure_dir(log_dir)

    class MovedAside(HdfsLeaseFile):
        moved = 0

        def _look_at(self, name: str | None) -> Seen:
            if not self.moved and self._storage.exists(self._at(LEASE)):
                self.moved += 1
                self._storage.move(self._at(LEASE), self._at("aside"))
                try:
                    return super()._look_at(name)
                finally:
                    self._storage.move(self._at("aside"), self._at(LEASE))
            return super()._look_at(name)

    file = MovedAside(log_dir)
    began = time.monotonic()
    with Lease(log_dir, file, length_s=LENGTH_S) as lease:
        assert file.moved
        assert time.monotonic() - began >= LENGTH_S
        lease.check()
        with pytest.raises(LogDirInUseError):
            take(log_dir)
    assert names(log_dir) == []


def test_lease_of_dead_writer_is_taken_over_only_after_expiry(log_dir: str, dead: Seen) -> None:
    assert dead
    began = time.monotonic()
    with take(log_dir):
        assert time.monotonic() - began >= LENGTH_S
    assert names(log_dir) == []


def test_reader_waits_for_expiry_and_leaves_the_lease(log_dir: str, dead: Seen) -> None:
    assert dead
    refuse_leased(log_dir, lease_file_of(log_dir))
    assert names(log_dir) == [LEASE]


def test_lease_renewed_at_the_last_moment_is_restored(
    log_dir: str, file: LeaseFile, dead: Seen
) -> None:
    renewed = file.renew(dead, dead.data)
    assert renewed.version != dead.version
    with pytest.raises(FileExistsError):
        file.take(b"{}", dead)
    assert file.look() == renewed
    assert names(log_dir) == [LEASE]


def test_late_writer_takes_nothing_over(log_dir: str, file: LeaseFile, dead: Seen) -> None:
    other = file.take(b'{"token": "other"}', dead)
    with pytest.raises(FileExistsError):
        file.take(b"{}", dead)
    assert file.look() == other
    with pytest.raises(FileNotFoundError):
        file.renew(dead, dead.data)
    file.remove(dead)
    assert names(log_dir) == [LEASE]
    file.remove(other)
    assert names(log_dir) == []
    with pytest.raises(FileExistsError):
        file.take(b"{}", dead)
    with pytest.raises(FileNotFoundError):
        file.renew(dead, dead.data)


def test_writer_that_cannot_renew_changes_nothing_more(
    log_dir: str, file: LeaseFile, clock: Clock
) -> None:
    with Lease(log_dir, file, length_s=3600, clock=clock) as lease:
        Places().create(f"{log_dir}/a", b"")
        clock.now += 2000
        assert lease.renew()
        clock.now += 2699
        Places().create(f"{log_dir}/b", b"")
        clock.now += 2
        for change in (
            lambda: Places().create(f"{log_dir}/c", b""),
            lambda: Places().rename(f"{log_dir}/a", f"{log_dir}/c"),
            lambda: Places().unlink(f"{log_dir}/a"),
            lambda: Places().mkdir(f"{log_dir}/d"),
        ):
            with pytest.raises(LogDirInUseError, match="is lost"):
                change()
        lease.renew()  # too late
        with pytest.raises(LogDirInUseError, match="in time"):
            lease.check()
        Places().create(f"{log_dir}x", b"")  # of another directory it says nothing
    assert names(log_dir) == [LEASE, "a", "b"]


def test_writer_whose_lease_was_taken_changes_nothing_more(
    log_dir: str, file: LeaseFile, clock: Clock
) -> None:
    lease = Lease(log_dir, file, length_s=3600, clock=clock)
    seen = file.look()
    assert seen is not None
    file.take(b"{}", seen)
    assert not lease.renew()
    with pytest.raises(LogDirInUseError, match="somebody else holds it"):
        Places().create(f"{log_dir}/c", b"")
    lease.close()
    assert names(log_dir) == [LEASE]


SLEEPER = """
import sys
from winnow.errors import LogDirInUseError
from winnow.logdir.lease import Lease
from winnow.storage.places import Places, lease_file_of
log_dir = sys.argv[1]
with Lease(log_dir, lease_file_of(log_dir), length_s=float(sys.argv[2])):
    for number, _ in enumerate(sys.stdin):
        try:
            Places().create(f"{log_dir}/theirs-{number}", b"")
            print("made", flush=True)
        except LogDirInUseError:
            print("lost", flush=True)
"""


@pytest.fixture
def sleeper(log_dir: str) -> Iterator[subprocess.Popen[str]]:
    """Takes the lease, and creates a file on each request."""
    command = [sys.executable, "-c", SLEEPER, log_dir, str(LENGTH_S)]
    environment = {**os.environ, "PYTHONPATH": "lib"}
    with (
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        ) as process,
        ExitStack() as stack,
    ):
        stack.callback(process.kill)
        yield process


def tell(sleeper: subprocess.Popen[str]) -> str:
    assert sleeper.stdin is not None
    assert sleeper.stdout is not None
    sleeper.stdin.write("make one\n")
    sleeper.stdin.flush()
    return sleeper.stdout.readline()


def test_writer_paused_during_takeover_changes_nothing_more(
    log_dir: str, sleeper: subprocess.Popen[str]
) -> None:
    assert tell(sleeper) == "made\n"
    with pytest.raises(LogDirInUseError):
        take(log_dir)
    sleeper.send_signal(signal.SIGSTOP)
    with take(log_dir):
        sleeper.send_signal(signal.SIGCONT)
        assert tell(sleeper) == "lost\n"
        assert names(log_dir) == [LEASE, "theirs-0"]
    assert names(log_dir) == ["theirs-0"]
