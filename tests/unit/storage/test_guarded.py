"""No path is followed through a link, only files made here get attributes, and only a missing file
counts as absent.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from winnow.errors import CorruptLogError
from winnow.logdir.checkpoints import update_offset_checkpoint
from winnow.logdir.lock import lock_log_dir
from winnow.state import TopicPartition
from winnow.storage import guarded
from winnow.storage.guarded import kept_open, open_file, open_guarded
from winnow.storage.local import LocalStorage
from winnow.storage.segment_io import map_range

STORAGE = LocalStorage()
KEY = TopicPartition("t", 0)
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Make logs/t-0/file, logs/linked -> outside, logs/secret -> outside/secret, logs/pipe."""
    (tmp_path / "outside" / "below").mkdir(parents=True)
    (tmp_path / "outside" / "secret").write_bytes(b"secret")
    (tmp_path / "outside" / "secret").chmod(0o600)
    (tmp_path / "logs" / "t-0").mkdir(parents=True)
    (tmp_path / "logs" / "t-0" / "file").write_bytes(b"file")
    (tmp_path / "logs" / "linked").symlink_to(tmp_path / "outside")
    (tmp_path / "logs" / "secret").symlink_to(tmp_path / "outside" / "secret")
    (tmp_path / "logs" / "nowhere").symlink_to(tmp_path / "outside" / "new")
    os.mkfifo(tmp_path / "logs" / "pipe")
    return tmp_path / "logs"


@pytest.fixture(params=["openat2", "by steps", "kept open"])
def way(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tree: Path
) -> Iterator[None]:
    """Run with the openat2 call, as on a kernel without it, and in directories that a commit keeps
    open.
    """
    has = request.param != "by steps"
    if has and not guarded._has_openat2():
        pytest.skip("this kernel has no openat2")
    monkeypatch.setattr(guarded, "_has_openat2", lambda: has)
    kept = [str(tree), f"{tree}/t-0"] if request.param == "kept open" else []
    with kept_open(*kept):
        yield


THROUGH_A_LINK: dict[str, Callable[[str], object]] = {
    "read_bytes": lambda logs: STORAGE.read_bytes(f"{logs}/linked/secret"),
    "read_bytes of a link": lambda logs: STORAGE.read_bytes(f"{logs}/secret"),
    "read_range": lambda logs: STORAGE.read_range(f"{logs}/linked/secret", 0, 3),
    "list_dir": lambda logs: STORAGE.list_dir(f"{logs}/linked"),
    "entry": lambda logs: STORAGE.entry(f"{logs}/linked/secret"),
    "exists": lambda logs: STORAGE.exists(f"{logs}/linked/secret"),
    "create": lambda logs: STORAGE.create(f"{logs}/linked/new", b""),
    "new_file": lambda logs: STORAGE.new_file(f"{logs}/linked/new"),
    "rename from": lambda logs: STORAGE.rename(f"{logs}/linked/secret", f"{logs}/taken"),
    "rename to": lambda logs: STORAGE.rename(f"{logs}/t-0/file", f"{logs}/linked/secret"),
    "link from": lambda logs: STORAGE.link(f"{logs}/linked/secret", f"{logs}/taken"),
    "link to": lambda logs: STORAGE.link(f"{logs}/t-0/file", f"{logs}/linked/new"),
    "unlink": lambda logs: STORAGE.unlink(f"{logs}/linked/secret"),
    "fsync_file": lambda logs: STORAGE.fsync_file(f"{logs}/secret"),
    "fsync_dir": lambda logs: STORAGE.fsync_dir(f"{logs}/linked"),
    "mkdir": lambda logs: STORAGE.mkdir(f"{logs}/linked/new"),
    "ensure_dir": lambda logs: STORAGE.ensure_dir(f"{logs}/linked/new/deep"),
    "rmdir": lambda logs: STORAGE.rmdir(f"{logs}/linked/below"),
    "copy_attributes to": lambda logs: STORAGE.copy_attributes(
        f"{logs}/t-0/file", f"{logs}/secret"
    ),
    "copy_attributes of": lambda logs: STORAGE.copy_attributes(
        f"{logs}/secret", f"{logs}/t-0/file"
    ),
    "set_mtime_ns": lambda logs: STORAGE.set_mtime_ns(f"{logs}/secret", 1),
    "volume": lambda logs: STORAGE.volume(f"{logs}/linked"),
    "map_range": lambda logs: map_range(f"{logs}/secret", 0, 3, gradually=True).__enter__(),
    "lock": lambda logs: lock_log_dir(f"{logs}/linked"),
}


def told_of(path: Path) -> list[tuple[object, ...]]:
    return [
        (str(p), (s := p.lstat()).st_mode, s.st_uid, s.st_gid, s.st_nlink, s.st_mtime_ns)
        for p in (path, *sorted(path.rglob("*")))
    ]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("call", THROUGH_A_LINK)
def test_no_call_follows_a_link(tree: Path, call: str) -> None:
    outside = tree.parent / "outside"
    before = told_of(outside)
    with pytest.raises(CorruptLogError, match="a symbolic link") as refused:
        THROUGH_A_LINK[call](str(tree))
    error = refused.value
    assert all((error.expected, error.found, error.where, error.hint))
    assert str(error.where).startswith(f"{tree}/")
    assert told_of(outside) == before


def test_directory_that_is_kept_open_is_the_same_until_the_end(tree: Path) -> None:
    """Whatever its path leads to meanwhile. Errors name the whole path."""
    with kept_open(str(tree), f"{tree}/t-0"), kept_open(f"{tree}/t-0"):
        (tree / "t-0").rename(tree / "t-1")
        (tree / "t-0").symlink_to(tree.parent / "outside")
        STORAGE.create(f"{tree}/t-0/new", b"new")
        STORAGE.rename(f"{tree}/t-0/new", f"{tree}/t-0/moved")
        STORAGE.fsync_dir(f"{tree}/t-0")
        names = [entry.name for entry in STORAGE.list_dir(f"{tree}/t-0")]
        for read in (STORAGE.read_bytes, STORAGE.entry, STORAGE.unlink):
            with pytest.raises(FileNotFoundError) as missing:
                read(f"{tree}/t-0/none")
            assert missing.value.filename == f"{tree}/t-0/none"
    assert names == ["file", "moved"]
    assert sorted(os.listdir(tree / "t-1")) == names
    with pytest.raises(CorruptLogError, match="a symbolic link"):
        STORAGE.list_dir(f"{tree}/t-0")


@pytest.mark.usefixtures("way")
def test_path_without_links_is_opened_in_any_spelling(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tree)
    for path in (f"{tree}/t-0/file", f"{tree}//t-0/./file", "t-0/file", f"{tree}/t-0/../t-0/file"):
        assert STORAGE.read_bytes(path) == b"file"
    assert [entry.name for entry in STORAGE.list_dir(".")] == [
        "linked",
        "nowhere",
        "pipe",
        "secret",
        "t-0",
    ]
    os.close(open_guarded("/", os.O_RDONLY | os.O_DIRECTORY))


@pytest.mark.usefixtures("way")
def test_pipe_is_refused_without_waiting(tree: Path) -> None:
    with pytest.raises(CorruptLogError, match="found a named pipe"):
        STORAGE.read_bytes(f"{tree}/pipe")
    with pytest.raises(CorruptLogError, match="found a named pipe"):
        open_file(f"{tree}/pipe", os.O_WRONLY)
    with pytest.raises(CorruptLogError, match="found a directory"):
        STORAGE.read_bytes(f"{tree}/t-0")


@pytest.mark.usefixtures("way")
def test_missing_files_are_absent_and_dangling_links_are_not(tree: Path) -> None:
    assert not STORAGE.exists(f"{tree}/none")
    assert not STORAGE.exists(f"{tree}/none/deeper")
    assert not STORAGE.exists(f"{tree}/t-0/file/deeper")
    assert STORAGE.exists(f"{tree}/nowhere")
    with pytest.raises(FileNotFoundError):
        STORAGE.read_bytes(f"{tree}/none")
    with pytest.raises(NotADirectoryError):
        STORAGE.list_dir(f"{tree}/t-0/file")


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.EACCES])
def test_error_does_not_count_as_an_absent_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Otherwise a checkpoint with three entries would be rewritten with one."""
    path = tmp_path / "cleaner-offset-checkpoint"
    path.write_text("0\n3\na 0 1\nb 0 2\nc 0 3\n")
    real = guarded._openat2

    def broken(name: str, flags: int) -> int:
        if name == str(path):
            raise OSError(number, os.strerror(number), name)
        return real(name, flags)

    monkeypatch.setattr(guarded, "_openat2", broken)
    monkeypatch.setattr(guarded, "_has_openat2", lambda: True)
    with pytest.raises(OSError, match=os.strerror(number)):
        STORAGE.exists(str(path))
    with pytest.raises(OSError, match=os.strerror(number)):
        update_offset_checkpoint(STORAGE, str(path), {KEY: 5})
    assert path.read_text() == "0\n3\na 0 1\nb 0 2\nc 0 3\n"


def test_file_that_replaced_a_new_one_gets_no_attributes(tmp_path: Path) -> None:
    (tmp_path / "model").touch(mode=0o666)
    (tmp_path / "model").chmod(0o666)
    STORAGE.create(f"{tmp_path}/new", b"")
    (tmp_path / "private").touch(mode=0o600)
    os.rename(tmp_path / "private", tmp_path / "new")
    with pytest.raises(CorruptLogError, match="not the one that Winnow created"):
        STORAGE.copy_attributes(f"{tmp_path}/model", f"{tmp_path}/new")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600


def test_file_that_this_process_did_not_make_gets_no_attributes(tmp_path: Path) -> None:
    """Whoever may rename files could put one of root's there."""
    (tmp_path / "model").touch()
    (tmp_path / "model").chmod(0o666)
    (tmp_path / "private").touch(mode=0o600)
    (tmp_path / "below").mkdir(mode=0o700)
    for name in ("private", "below"):
        with pytest.raises(CorruptLogError, match="not the one that Winnow created"):
            STORAGE.copy_attributes(f"{tmp_path}/model", f"{tmp_path}/{name}")
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) & 0o077 == 0


@as_root
def test_hard_link_to_a_private_file_gets_no_owner(tmp_path: Path) -> None:
    (tmp_path / "model").touch()
    os.chown(tmp_path / "model", 1234, 2345)
    (tmp_path / "private").touch(mode=0o600)
    os.link(tmp_path / "private", tmp_path / "staged")
    with pytest.raises(CorruptLogError, match="2 names"):
        STORAGE.copy_attributes(f"{tmp_path}/model", f"{tmp_path}/staged")
    status = (tmp_path / "private").stat()
    assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (0, 0o600)


def test_lock_that_is_a_link_creates_no_file(tree: Path) -> None:
    for target in ("outside/secret", "outside/new"):
        (tree / ".lock").unlink(missing_ok=True)
        (tree / ".lock").symlink_to(tree.parent / target)
        with pytest.raises(CorruptLogError, match="a symbolic link"):
            lock_log_dir(str(tree))
    assert not (tree.parent / "outside" / "new").exists()


def test_oversized_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "replication-offset-checkpoint"
    path.touch()
    os.truncate(path, 60 * 2**30)
    with pytest.raises(
        CorruptLogError, match=f"expected at most {64 * 2**20} bytes, found {60 * 2**30} bytes"
    ):
        STORAGE.read_bytes(str(path))
