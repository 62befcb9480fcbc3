"""Case 99; S8.1."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from winnow.errors import LogDirInUseError
from winnow.logdir.lock import lock_log_dir

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
        try (var file = new RandomAccessFile(args[0], "rw"); var lock = file.getChannel().tryLock()) {
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
        [*command, f"{log_dir}/.lock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
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
def test_case_99_a_held_lock_is_refused_and_its_holder_named(tmp_path: Path, log_dir: Path, family: str) -> None:
    (log_dir / ".lock").touch()
    with _held(_command(tmp_path, family), log_dir) as pid, pytest.raises(LogDirInUseError) as refusal:
        lock_log_dir(str(log_dir))
    assert f"process {pid}: " in str(refusal.value)
    assert str(log_dir) in str(refusal.value)
    with lock_log_dir(str(log_dir)):
        pass


@pytest.mark.parametrize("family", ["posix", "ofd", "java"])
def test_case_99_others_are_refused_while_we_hold_it(tmp_path: Path, log_dir: Path, family: str) -> None:
    command = [*_command(tmp_path, family), f"{log_dir}/.lock"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with lock_log_dir(str(log_dir)):
        # A POSIX lock would be gone once anything here closed another descriptor of the file.
        (log_dir / ".lock").read_bytes()
        other = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment, check=False
        )
    assert other.returncode != 0
    assert "refused" in other.stderr or "LogDirInUseError" in other.stderr


def test_the_file_is_made_and_stays(log_dir: Path) -> None:
    lock = lock_log_dir(str(log_dir))
    with pytest.raises(LogDirInUseError, match=f"process {os.getpid()}"):
        lock_log_dir(str(log_dir))
    lock.close()
    lock.close()
    lock_log_dir(str(log_dir)).close()
    assert (log_dir / ".lock").stat().st_size == 0
