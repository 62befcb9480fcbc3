from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from winnow.storage.contract import Storage
from winnow.storage.local import LocalStorage

STORAGE: Storage = LocalStorage()


def test_create_refuses_an_existing_file(tmp_path: Path) -> None:
    path = f"{tmp_path}/x"
    STORAGE.create(path, b"first")
    with pytest.raises(FileExistsError):
        STORAGE.create(path, b"second")
    assert STORAGE.read_bytes(path) == b"first"


def test_rename_replaces_the_target(tmp_path: Path) -> None:
    STORAGE.create(f"{tmp_path}/a", b"a")
    STORAGE.create(f"{tmp_path}/b", b"b")
    STORAGE.rename(f"{tmp_path}/a", f"{tmp_path}/b")
    STORAGE.fsync_dir(str(tmp_path))
    assert STORAGE.read_bytes(f"{tmp_path}/b") == b"a"
    assert not STORAGE.exists(f"{tmp_path}/a")


def test_hard_link_outlives_the_first_name(tmp_path: Path) -> None:
    STORAGE.create(f"{tmp_path}/a", b"a")
    STORAGE.link(f"{tmp_path}/a", f"{tmp_path}/b")
    with pytest.raises(FileExistsError):
        STORAGE.link(f"{tmp_path}/a", f"{tmp_path}/b")
    assert STORAGE.entry(f"{tmp_path}/a").mtime_ns == STORAGE.entry(f"{tmp_path}/b").mtime_ns
    STORAGE.unlink(f"{tmp_path}/a")
    assert STORAGE.read_bytes(f"{tmp_path}/b") == b"a"


def test_range_ends_at_the_file_end(tmp_path: Path) -> None:
    STORAGE.create(f"{tmp_path}/a", b"0123456789")
    assert STORAGE.read_range(f"{tmp_path}/a", 3, 4) == b"3456"
    assert STORAGE.read_range(f"{tmp_path}/a", 8, 4) == b"89"
    assert STORAGE.read_range(f"{tmp_path}/a", 12, 4) == b""


def test_listing_is_sorted_and_separates_files_and_directories(tmp_path: Path) -> None:
    STORAGE.create(f"{tmp_path}/b", b"123")
    STORAGE.set_mtime_ns(f"{tmp_path}/b", 1_700_000_000_123_456_789)
    STORAGE.mkdir(f"{tmp_path}/a")
    (tmp_path / "c").symlink_to(tmp_path / "nowhere")
    (tmp_path / "d").symlink_to(tmp_path / "b")
    (tmp_path / "e").symlink_to(tmp_path / "a")
    a, b, c, d, e = STORAGE.list_dir(str(tmp_path))
    assert (a.name, a.is_dir, a.is_file) == ("a", True, False)
    assert (b.name, b.is_dir, b.is_file, b.size) == ("b", False, True, 3)
    assert (b.mtime_ns, b.mtime_ms) == (1_700_000_000_123_456_789, 1_700_000_000_123)
    assert (c.name, c.is_file, c.is_dir) == ("c", False, False)
    assert [(link.is_link, link.leads_to_dir) for link in (a, b, c, d, e)] == [
        (False, False), (False, False), (True, False), (True, False), (True, True)
    ]  # fmt: skip
    assert not any(link.is_file or link.is_dir for link in (c, d, e))


def test_attributes_are_copied(tmp_path: Path) -> None:
    for name, mode in (("model", 0o640), ("new", 0o600)):
        STORAGE.create(f"{tmp_path}/{name}", b"")
        os.chmod(tmp_path / name, mode)
    if os.geteuid() == 0:
        os.chown(tmp_path / "model", 1234, 2345)
    STORAGE.copy_attributes(f"{tmp_path}/model", f"{tmp_path}/new")
    model, new = os.stat(tmp_path / "model"), os.stat(tmp_path / "new")
    assert stat.S_IMODE(new.st_mode) == 0o640
    assert (new.st_uid, new.st_gid) == (model.st_uid, model.st_gid)


def test_directory_has_one_canonical_name(tmp_path: Path) -> None:
    (tmp_path / "d" / "e").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "d")
    assert STORAGE.canonical(f"{tmp_path}/link/e/") == STORAGE.canonical(f"{tmp_path}/d/../d/e")
