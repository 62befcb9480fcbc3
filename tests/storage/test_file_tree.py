"""The contract of every `FileTree`, tested on a real disk, S3 and HDFS."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from winnow.errors import CorruptLogError
from winnow.storage.file_tree import FileTree, StoredFile
from winnow.storage.places import open_tree

MTIME_NS = 1_795_223_486_123_000_000
LARGE = 20 * 2**20 + 17
"""More than S3 is given at once."""


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("gateway", "name_node")]


@pytest.fixture(params=["local", "s3", *SLOW])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    root = str(tmp_path) if request.param == "local" else request.getfixturevalue(request.param)
    return f"{root}/{tmp_path.name}/place"


@pytest.fixture
def tree(url: str) -> FileTree:
    return open_tree(url)


def _file(tmp_path: Path, data: bytes) -> str:
    path = tmp_path / f"local-{os.urandom(4).hex()}"
    path.write_bytes(data)
    path.chmod(0o640)
    os.utime(path, ns=(MTIME_NS, MTIME_NS))
    return str(path)


def _listed(tree: FileTree) -> dict[str, StoredFile]:
    return {file.name: file for file in tree.list_tree()}


def test_missing_place_is_empty(tree: FileTree) -> None:
    assert tree.list_tree() == ()
    assert tree.list_top() == ()


def test_tree_has_the_given_url(tree: FileTree, url: str) -> None:
    assert tree.url == url
    assert tree.local_path in {None, url}


def test_put_file_is_listed_read_and_fetched(tree: FileTree, tmp_path: Path) -> None:
    data = os.urandom(100_000)
    tree.put("t-0/00000000000000000000.log", _file(tmp_path, data))
    tree.put("t-0/.winnow-kept-x/deep/file", _file(tmp_path, b""))
    tree.create("t-0/leader-epoch-checkpoint", b"0\n0\n")
    tree.create("meta.properties", b"version=1\n")
    tree.settle()
    listed = _listed(tree)
    assert {name: file.size for name, file in listed.items()} == {
        "meta.properties": 10,
        "t-0/.winnow-kept-x/deep/file": 0,
        "t-0/00000000000000000000.log": 100_000,
        "t-0/leader-epoch-checkpoint": 4,
    }
    assert list(listed) == sorted(listed)
    assert tree.list_top() == ("meta.properties", "t-0/")
    log = listed["t-0/00000000000000000000.log"]
    assert tree.read_range(log.name, 1000, 500) == data[1000:1500]
    assert tree.read_range(log.name, 99_990, 500) == data[99_990:]
    assert tree.read_range(log.name, 100_000, 5) == b""
    tree.fetch(log, str(tmp_path / "fetched"))
    assert (tmp_path / "fetched").read_bytes() == data
    assert (tmp_path / "fetched").stat().st_mtime_ns == MTIME_NS
    tree.fetch(listed["t-0/.winnow-kept-x/deep/file"], str(tmp_path / "empty"))
    assert (tmp_path / "empty").read_bytes() == b""


def test_large_file_is_put_and_fetched(tree: FileTree, tmp_path: Path) -> None:
    data = os.urandom(LARGE)
    tree.put("large", _file(tmp_path, data))
    (file,) = tree.list_tree()
    tree.fetch(file, str(tmp_path / "fetched"))
    assert (tmp_path / "fetched").read_bytes() == data
    assert (tmp_path / "fetched").stat().st_mtime_ns == MTIME_NS
    with pytest.raises(FileExistsError):
        tree.put("large", _file(tmp_path, data))


def test_nothing_is_overwritten(tree: FileTree, tmp_path: Path) -> None:
    tree.create("a", b"first")
    tree.put("b", _file(tmp_path, b"first"))
    for name in ("a", "b"):
        with pytest.raises(FileExistsError):
            tree.create(name, b"second")
        with pytest.raises(FileExistsError):
            tree.put(name, _file(tmp_path, b"second"))
        assert tree.read_range(name, 0, 100) == b"first"
    assert [*_listed(tree)] == ["a", "b"]


@pytest.mark.parametrize("url", ["local", *SLOW], indirect=True)
def test_only_one_of_two_concurrent_creators_succeeds(tree: FileTree) -> None:
    """Not in moto, which looks for an object and writes it in two steps."""
    outcomes: list[int] = []
    start = threading.Barrier(6)

    def one(number: int) -> None:
        start.wait()
        try:
            tree.create("marker", str(number).encode())
        except FileExistsError:
            return
        outcomes.append(number)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 1
    assert tree.read_range("marker", 0, 10) == str(outcomes[0]).encode()
    assert [*_listed(tree)] == ["marker"]


def test_delete_removes_file_and_directory(tree: FileTree, tmp_path: Path) -> None:
    tree.create("keep", b"")
    tree.put("t-0/deep/file", _file(tmp_path, b"x"))
    for _ in range(2):
        tree.delete("t-0/deep/file")
    assert tree.list_top() == ("keep",)
    tree.settle()


def test_file_changed_since_listing_is_not_fetched(tree: FileTree, tmp_path: Path) -> None:
    tree.create("file", b"first")
    (before,) = tree.list_tree()
    tree.delete("file")
    tree.create("file", b"second, longer")
    (after,) = tree.list_tree()
    assert before != after
    with pytest.raises(CorruptLogError, match="changed while it was being read"):
        tree.fetch(before, str(tmp_path / "fetched"))


def test_missing_file_cannot_be_read(tree: FileTree, tmp_path: Path) -> None:
    tree.create("other", b"")
    with pytest.raises(FileNotFoundError):
        tree.read_range("file", 0, 10)
    with pytest.raises(FileNotFoundError):
        tree.fetch(StoredFile("file", 1, 0), str(tmp_path / "fetched"))
