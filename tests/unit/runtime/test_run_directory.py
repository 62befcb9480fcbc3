"""The private directories of a run are removed when it ends. The next run removes those of killed
runs.
"""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from winnow.runtime import run_directory as module
from winnow.runtime.run_directory import begin_run_directory, remove_leftovers, run_directory

DEAD = 999_999_999
"""No process has such an id."""


def leftover(parent: Path, pid: int = DEAD, name: str = "x") -> Path:
    path = parent / f"winnow-run-{pid}-{name}"
    (path / "blockmgr").mkdir(parents=True)
    (path / "blockmgr" / "shuffle").write_bytes(b"key")
    os.utime(path, (1, 1))
    return path


def keeper(*paths: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", module.__file__, *paths], stdin=subprocess.PIPE
    )


def wait_until_locked(path: Path) -> None:
    for _ in range(200):
        lock = module._lock(str(path))
        if lock is None:
            return
        os.close(lock)
        time.sleep(0.02)
    raise AssertionError


def test_directories_are_removed_when_the_run_ends_despite_signals(tmp_path: Path) -> None:
    paths = [leftover(tmp_path, os.getpid(), name) for name in ("a", "b")]
    process = keeper(*paths)
    wait_until_locked(paths[1])
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        process.send_signal(number)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.2)
    assert all(path.exists() for path in paths)
    process.communicate(timeout=20)
    assert not any(path.exists() for path in paths)


def test_directory_of_a_killed_run_is_removed_by_the_next(tmp_path: Path) -> None:
    leftover(tmp_path)
    remove_leftovers(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_directory_that_may_be_in_use_is_kept(tmp_path: Path) -> None:
    """A live process may use it, one of another container, or one that has just started."""
    alive = leftover(tmp_path, os.getppid())
    young = leftover(tmp_path, name="young")
    os.utime(young)
    locked = leftover(tmp_path, name="locked")
    process = keeper(locked)
    try:
        wait_until_locked(locked)
        os.utime(locked, (1, 1))
        remove_leftovers(str(tmp_path))
        assert all(path.exists() for path in (alive, young, locked))
        os.utime(young, (1, 1))
        remove_leftovers(str(tmp_path))
        assert [path.exists() for path in (alive, young, locked)] == [True, False, True]
    finally:
        process.communicate(timeout=20)


def test_files_of_others_are_kept(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "file").touch()
    (tmp_path / f"winnow-run-{DEAD}-link").symlink_to(target)
    (tmp_path / f"winnow-run-{DEAD}-file").touch()
    (tmp_path / "winnow-runs").mkdir()
    if os.geteuid() == 0:
        os.chown(leftover(tmp_path, name="theirs"), 1234, 1234)
    foreign = sorted(tmp_path.iterdir())
    for path in foreign:
        os.utime(path, (1, 1), follow_symlinks=False)
    remove_leftovers(str(tmp_path))
    assert sorted(tmp_path.iterdir()) == foreign
    assert (target / "file").exists()


def test_process_that_starts_java_has_private_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "disk").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.setattr(module, "_KEEPERS", [])
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "disk"))
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Xmx1g")
    monkeypatch.setenv("WINNOW_RUN_DIR", "")
    monkeypatch.setenv("TMPDIR", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run_directory() == str(tmp_path / "tmp")
    begin_run_directory(str(tmp_path / "tmp"))
    assert os.environ["TMPDIR"] == str(tmp_path / "tmp")
    (private,), (local,) = list((tmp_path / "tmp").iterdir()), list((tmp_path / "disk").iterdir())
    assert run_directory() == str(private)
    assert os.environ["SPARK_LOCAL_DIRS"] == str(local)
    assert (
        os.environ["SPARK_SUBMIT_OPTS"]
        == f'-Xmx1g -Djava.io.tmpdir="{private}" -Duser.home="{tmp_path}"'
    )
    assert {stat.S_IMODE(path.stat().st_mode) for path in (private, local)} == {0o700}
    (process,) = module._KEEPERS
    process.communicate(timeout=20)
    assert not private.exists()
    assert not local.exists()
