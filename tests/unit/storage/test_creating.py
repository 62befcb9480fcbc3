"""Files and directories that Winnow creates belong to the owner of their directory, and their mode
is never wider than the directory's.
"""

from __future__ import annotations

import ast
import os
import stat
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

import pytest

import winnow
from winnow.logdir.lock import lock_log_dir
from winnow.storage.local import LocalStorage
from winnow.storage.local_tree import LocalTree

STORAGE = LocalStorage()
KAFKA, GROUP = 1234, 2345
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    path = tmp_path / "logs"
    path.mkdir()
    os.chown(path, KAFKA, GROUP)
    path.chmod(0o750)
    return path


def owner_and_mode(path: Path) -> tuple[int, int, int]:
    status = path.lstat()
    return status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)


@as_root
def test_new_file_is_private_and_belongs_to_the_directory_owner(log_dir: Path) -> None:
    STORAGE.create(f"{log_dir}/journal", b"x")
    STORAGE.new_file(f"{log_dir}/segment").close()
    assert owner_and_mode(log_dir / "journal") == (KAFKA, GROUP, 0o600)
    assert owner_and_mode(log_dir / "segment") == (KAFKA, GROUP, 0o600)


@as_root
def test_new_directories_inherit_owner_and_mode(log_dir: Path) -> None:
    STORAGE.mkdir(f"{log_dir}/.winnow-kept-1")
    STORAGE.ensure_dir(f"{log_dir}/.winnow-quarantine-1/deep")
    for name in (".winnow-kept-1", ".winnow-quarantine-1", ".winnow-quarantine-1/deep"):
        assert owner_and_mode(log_dir / name) == (KAFKA, GROUP, 0o750)


@as_root
def test_directory_that_two_threads_need_inherits_owner_and_mode(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second thread comes when the directory exists, and has no owner and mode yet."""
    mkdir, new = os.mkdir, log_dir / "t-0"

    def put() -> None:
        STORAGE.ensure_dir(str(new))
        STORAGE.create(str(new / "file"), b"")

    def also_needed(name: str, mode: int, *, dir_fd: int) -> None:
        mkdir(name, mode, dir_fd=dir_fd)
        others.append(pool.submit(put))
        wait(others, timeout=0.5)

    others: list[Future[None]] = []
    with ThreadPoolExecutor() as pool:
        monkeypatch.setattr(os, "mkdir", also_needed)
        STORAGE.ensure_dir(str(new))
    others[0].result()
    assert owner_and_mode(new) == owner_and_mode(log_dir)


@as_root
def test_new_lock_belongs_to_the_directory_owner(log_dir: Path) -> None:
    lock_log_dir(str(log_dir)).close()
    assert owner_and_mode(log_dir / ".lock") == (KAFKA, GROUP, 0o640)


@as_root
def test_existing_lock_keeps_owner_and_mode(log_dir: Path) -> None:
    (log_dir / ".lock").touch(mode=0o600)
    lock_log_dir(str(log_dir)).close()
    assert owner_and_mode(log_dir / ".lock") == (0, 0, 0o600)


@as_root
def test_files_of_a_store_belong_to_the_directory_owner(log_dir: Path) -> None:
    LocalTree(str(log_dir)).create("deep/meta.properties", b"x")
    assert owner_and_mode(log_dir / "deep") == (KAFKA, GROUP, 0o750)
    assert owner_and_mode(log_dir / "deep" / "meta.properties") == (KAFKA, GROUP, 0o640)


def test_directory_below_a_world_writable_one_is_not_world_writable(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    STORAGE.ensure_dir(f"{tmp_path}/out")
    assert owner_and_mode(tmp_path / "out")[2] == 0o755


CREATE = {
    "storage/creating.py",
    "storage/live/staging.py",  # test_staging.py
    "storage/output_file.py",
    "ledger/delta.py",
    "ledger/fetch_jars.py",
    "compiled.py",  # kernels, for all users of the installation
    "cleaning/summaries/store.py",  # for the user of the run alone, beside the ledger
    "storage/private.py",  # the same
    # in the private directory of the run
    "runtime/cores.py",
}


def test_no_other_module_creates_files_or_directories() -> None:
    """Calls of a `Storage`, a `FileTree`, `create_file` or `replacing` end in the modules that are
    tested here.
    """
    root = Path(winnow.__file__).parent
    found = {
        f"{path.relative_to(root)}: {name}"
        for path in root.rglob("*.py")
        for name in creations(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert {entry for entry in found if entry.partition(":")[0] not in CREATE} == set()
    code = "open(path, 'xb'); p.write_text(x); p.open(mode='w'); os.mkdir(p)"
    assert creations(ast.parse(code)) == [
        "open xb", "write_text", "p.open w", "os.mkdir",
    ]  # fmt: skip


def creations(tree: ast.Module) -> list[str]:
    return [
        name for node in ast.walk(tree) if isinstance(node, ast.Call) for name in creation(node)
    ]


def creation(call: ast.Call) -> list[str]:
    name = ast.unparse(call.func)
    found = [
        part
        for part in (name.rpartition(".")[2],)
        if part in {"makedirs", "write_text", "write_bytes"}
    ]
    if name == "os.mkdir":
        found.append(name)
    if "O_CREAT" in ast.unparse(call):
        found.append(f"{name} O_CREAT")
    if name.rpartition(".")[2] == "open":
        by_name = call.args and not ast.unparse(call.args[0]).startswith(
            ("create_file(", "fd", "descriptor")
        )
        place = call.args[1:2] if name in {"open", "tarfile.open"} else call.args[:1]
        modes = [*place, *(word.value for word in call.keywords if word.arg == "mode")]
        texts = [
            mode.value
            for mode in modes
            if isinstance(mode, ast.Constant) and isinstance(mode.value, str)
        ]
        if by_name or name != "open":
            found += [
                f"{name} {text}"
                for text in texts
                if set(text) & set("wxa") and "fileobj" not in ast.unparse(call)
            ]
    return found
