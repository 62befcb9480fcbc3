"""Case 99; S8.1."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.disks import disk_or_skip, fill_names
from winnow.errors import LogDirInUseError, WinnowError
from winnow.logdir.lock import lock_log_dir, lock_to_read, locked
from winnow.storage.guarded import open_file

# Both wait for the end of their input while they hold the lock; both say whether they got it.
_POSIX = """
import fcntl, sys
with open(sys.argv[1], "r+") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        sys.exit("refused")
    sys.stdout.write("locked\\n")
    sys.stdout.flush()
    sys.stdin.read()
"""
_OFD = """
import sys
from winnow.logdir.lock import lock_log_dir
with lock_log_dir(sys.argv[1].removesuffix("/.lock")):
    sys.stdout.write("locked\\n")
    sys.stdout.flush()
    sys.stdin.read()
"""
_JAVA = """
import java.io.RandomAccessFile;
public class Holder {
    public static void main(String[] args) throws Exception {
        try (var file = new RandomAccessFile(args[0], "rw");
                var lock = file.getChannel().tryLock()) {
            if (lock == null) { System.err.println("refused"); System.exit(1); }
            System.out.println("locked");
            System.in.read();
        }
    }
}
"""


def _command(tmp_path: Path, family: str) -> list[str]:
    if family == "java":
        # A single source file needs a JDK; a JRE has no compiler.
        if not shutil.which("java") or not shutil.which("javac"):
            pytest.skip("no JDK")
        (tmp_path / "Holder.java").write_text(_JAVA)
        return ["java", f"{tmp_path}/Holder.java"]
    return [sys.executable, "-c", _POSIX if family == "posix" else _OFD]


@contextmanager
def _held(command: list[str], log_dir: Path) -> Iterator[int]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [*command, f"{log_dir}/.lock"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "locked\n"
        yield holder.pid
        holder.stdin.close()


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    path.mkdir()
    return path


@pytest.mark.parametrize("family", ["posix", "ofd", "java"])
def test_case_99_held_lock_is_refused_and_its_holder_named(
    tmp_path: Path, log_dir: Path, family: str
) -> None:
    (log_dir / ".lock").touch()
    command = _command(tmp_path, family)
    with _held(command, log_dir) as pid, pytest.raises(LogDirInUseError) as refusal:
        lock_log_dir(str(log_dir))
    assert f"process {pid} holds its lock: " in str(refusal.value)
    assert Path(command[0]).name in str(refusal.value), "the command"
    assert str(log_dir) in str(refusal.value)
    with lock_log_dir(str(log_dir)):
        pass


@pytest.mark.parametrize("family", ["posix", "ofd", "java"])
def test_case_99_others_are_refused_while_we_hold_it(
    tmp_path: Path, log_dir: Path, family: str
) -> None:
    command = [*_command(tmp_path, family), f"{log_dir}/.lock"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with lock_log_dir(str(log_dir)):
        # Closing any other descriptor of the file would release a POSIX lock.
        (log_dir / ".lock").read_bytes()
        other = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )
    assert other.returncode != 0
    assert "refused" in other.stderr or "LogDirInUseError" in other.stderr


def test_lock_file_is_created_and_kept(log_dir: Path) -> None:
    lock = lock_log_dir(str(log_dir))
    with pytest.raises(LogDirInUseError, match=f"process {os.getpid()}"):
        lock_log_dir(str(log_dir))
    lock.close()
    lock.close()
    lock_log_dir(str(log_dir)).close()
    assert (log_dir / ".lock").stat().st_size == 0


def test_lock_file_that_an_ending_broker_removes_is_not_the_lock(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka from 3.9 on removes `.lock` when it stops, and the next broker makes a new one."""
    (log_dir / ".lock").touch()
    opened = []

    def open_before_it_is_removed(path: str, flags: int) -> int:
        descriptor = open_file(path, flags)
        if not opened:
            os.unlink(path)
        opened.append(path)
        return descriptor

    monkeypatch.setattr("winnow.logdir.lock.open_file", open_before_it_is_removed)
    with lock_log_dir(str(log_dir)), pytest.raises(LogDirInUseError):
        lock_log_dir(str(log_dir))
    assert len(opened) > 1


def test_run_ends_if_the_lock_file_was_removed_after_it_was_locked(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (log_dir / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")

    def locked_before_it_is_removed(path: str) -> ExitStack:
        lock = lock_log_dir(path)
        os.unlink(f"{path}/.lock")
        assert isinstance(lock, ExitStack)
        return lock

    monkeypatch.setattr("winnow.logdir.lock.lock_log_dir", locked_before_it_is_removed)
    with pytest.raises(LogDirInUseError, match="was in use until now"):  # noqa: SIM117
        with locked([str(log_dir)], to_change=True):
            raise AssertionError


def test_directory_on_a_disk_without_room_for_a_lock_is_only_read(tmp_path: Path) -> None:
    with disk_or_skip(tmp_path / "disk", mib=4, options=",nr_inodes=64") as disk:
        log_dir = disk / "kafka"
        log_dir.mkdir()
        (log_dir / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
        fill_names(disk)
        with locked([str(log_dir)], to_change=False) as [found]:
            assert found.meta.node_id == 1
        with pytest.raises(WinnowError, match="first move a file that is no part of a log"):
            lock_log_dir(str(log_dir))


def test_missing_permission_names_the_owner() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    with tempfile.TemporaryDirectory() as log_dir:  # other users cannot enter pytest's directories
        os.chmod(log_dir, 0o755)  # noqa: S103 - so that the other user finds it
        os.seteuid(65534)
        try:
            with pytest.raises(
                WinnowError,
                match=r"by user nobody: found Permission denied .* belongs to user root",
            ):
                lock_log_dir(log_dir)
        finally:
            os.seteuid(0)
        assert os.listdir(log_dir) == []


def test_read_only_file_system_is_named_in_the_error(tmp_path: Path) -> None:
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "ro,size=1m", "winnow-test", str(path)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        with pytest.raises(WinnowError, match=r"Read-only file system.* mounted read-only"):
            lock_log_dir(str(path))
    finally:
        subprocess.run(["umount", str(path)], check=True)


def test_read_only_file_system_is_read_while_no_broker_holds_its_lock(tmp_path: Path) -> None:
    """A bind mount, as in a container: the broker's lock is seen through it."""
    (tmp_path / "seen").mkdir()
    (tmp_path / "kafka").mkdir()
    seen = str(tmp_path / "seen")
    mount = ["mount", "-o", "bind,ro", str(tmp_path / "kafka"), seen]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        with pytest.raises(WinnowError, match="mounted read-only"):
            lock_to_read(seen)  # no broker ever ran there: nothing to lock
        with lock_log_dir(str(tmp_path / "kafka")), pytest.raises(LogDirInUseError):
            lock_to_read(seen)
        with lock_to_read(seen):
            with lock_to_read(seen), pytest.raises(LogDirInUseError):
                lock_log_dir(str(tmp_path / "kafka"))
            with pytest.raises(WinnowError, match="mounted read-only"):
                lock_log_dir(seen)
    finally:
        subprocess.run(["umount", seen], check=True)


def test_file_system_without_locks_is_named_in_the_error(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No such file system is available here, so the kernel's answer is simulated."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    with pytest.raises(WinnowError, match="has no locks"):
        lock_log_dir(str(log_dir))
