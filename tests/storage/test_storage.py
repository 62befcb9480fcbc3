"""The contract of every `Storage`, tested on a real disk, HDFS and S3."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from winnow.errors import CorruptLogError, UsageError
from winnow.storage.hdfs.client import connect, split_url
from winnow.storage.places import Places, storage_of
from winnow.storage.segment_io import SegmentWriter, map_range

MTIME_NS = 1_795_223_486_123_000_000
STORAGE = Places()
LARGE = 9 * 2**20 + 17
"""More than is fetched at once."""


@pytest.fixture(params=["local", "name_node", "s3"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def root(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A directory that is there."""
    above = str(tmp_path) if kind == "local" else f"{request.getfixturevalue(kind)}/{tmp_path.name}"
    path = storage_of(above).canonical(f"{above}/root")
    STORAGE.ensure_dir(path)
    STORAGE.create(f"{path}/meta.properties", b"")  # without a file a store has no directory
    return path


def names(path: str) -> list[str]:
    return [entry.name for entry in STORAGE.list_dir(path)]


def test_directory_has_one_name(root: str) -> None:
    assert STORAGE.canonical(f"{root}//") == root


def test_created_file_is_complete_and_exists_once(root: str) -> None:
    STORAGE.create(f"{root}/a", b"0123456789")
    with pytest.raises(FileExistsError):
        STORAGE.create(f"{root}/a", b"other")
    assert STORAGE.read_bytes(f"{root}/a") == b"0123456789"
    assert STORAGE.read_range(f"{root}/a", 2, 3) == b"234"
    assert STORAGE.read_range(f"{root}/a", 8, 100) == b"89"
    assert STORAGE.read_range(f"{root}/a", 10, 1) == b""
    assert STORAGE.exists(f"{root}/a")
    assert not STORAGE.exists(f"{root}/b")
    entry = STORAGE.entry(f"{root}/a")
    assert (entry.name, entry.size, entry.is_file, entry.is_dir, entry.is_link) == (
        "a",
        10,
        True,
        False,
        False,
    )
    assert [e for e in STORAGE.list_dir(root) if e.name == "a"] == [entry]


def test_file_that_is_too_large_for_its_kind_is_not_read_whole(root: str) -> None:
    path = f"{root}/partition.metadata"
    STORAGE.create(path, bytes(2**13 + 1))
    with pytest.raises(CorruptLogError, match=f"at most {2**13} bytes, found {2**13 + 1} bytes"):
        STORAGE.read_bytes(path)
    assert STORAGE.read_range(path, 2**13, 5) == bytes(1)


def test_only_one_of_several_concurrent_creators_succeeds(root: str) -> None:
    outcomes: list[int] = []
    start = threading.Barrier(4)

    def one(number: int) -> None:
        start.wait()
        try:
            STORAGE.create(f"{root}/a", str(number).encode())
        except FileExistsError:
            return
        outcomes.append(number)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 1
    assert STORAGE.read_bytes(f"{root}/a") == str(outcomes[0]).encode()


def test_missing_file_is_reported_by_its_full_name(root: str) -> None:
    for ask in (STORAGE.read_bytes, STORAGE.entry, lambda path: STORAGE.read_range(path, 0, 5)):
        with pytest.raises(FileNotFoundError, match=f"{root}/none"):
            ask(f"{root}/none")


def test_names_are_listed_in_order_with_their_kind(root: str) -> None:
    STORAGE.mkdir(f"{root}/t-0")
    for name in ("t-0/00000000000000000010.log", "t-0/00000000000000000000.log", "b", "a"):
        STORAGE.create(f"{root}/{name}", name.encode())
    assert names(root) == ["a", "b", "meta.properties", "t-0"]
    assert [e.is_dir for e in STORAGE.list_dir(root)] == [False, False, False, True]
    assert names(f"{root}/t-0") == ["00000000000000000000.log", "00000000000000000010.log"]


def test_rename_replaces_the_target(root: str) -> None:
    for name in ("00000000000000000000.log", "new"):
        STORAGE.create(f"{root}/{name}", name.encode())
    with STORAGE.changing(root):
        STORAGE.rename(f"{root}/new", f"{root}/00000000000000000000.log")
        STORAGE.fsync_dir(root)
    assert STORAGE.read_bytes(f"{root}/00000000000000000000.log") == b"new"
    assert names(root) == ["00000000000000000000.log", "meta.properties"]
    with pytest.raises(FileNotFoundError), STORAGE.changing(root):
        STORAGE.rename(f"{root}/new", f"{root}/newer")


def test_removed_file_does_not_exist(root: str) -> None:
    STORAGE.create(f"{root}/a", b"")
    with STORAGE.changing(root):
        STORAGE.unlink(f"{root}/a")
    assert names(root) == ["meta.properties"]
    with pytest.raises(FileNotFoundError), STORAGE.changing(root):
        STORAGE.unlink(f"{root}/a")


def test_times_read_back_as_set(root: str) -> None:
    name = f"{root}/00000000000000000000.log"
    with STORAGE.changing(root):
        STORAGE.create(name, b"x")
        STORAGE.set_mtime_ns(name, MTIME_NS)
    assert STORAGE.entry(name).mtime_ms == MTIME_NS // 10**6


def test_segment_is_written_by_tasks_and_mapped(root: str) -> None:
    data = bytes(range(256)) * (LARGE // 256) + b"end"
    with SegmentWriter(f"{root}/large") as writer:
        for at in range(0, len(data), 2**20):
            writer.write(data[at : at + 2**20])
    assert (writer.size, STORAGE.entry(f"{root}/large").size) == (len(data), len(data))
    with map_range(f"{root}/large", 100, len(data)) as mapped:
        assert mapped.tobytes() == data[100:]
        del mapped
    with pytest.raises(FileExistsError), SegmentWriter(f"{root}/large") as writer:
        writer.write(b"x")
    assert STORAGE.entry(f"{root}/large").size == len(data)


def test_no_file_is_created_in_a_missing_directory(kind: str, root: str) -> None:
    """So that a late writer does not bring back a removed directory."""
    if kind == "s3":
        pytest.skip("there are no directories")
    for write in (
        lambda: STORAGE.create(f"{root}/gone/a", b""),
        lambda: STORAGE.new_file(f"{root}/gone/a"),
    ):
        with pytest.raises(FileNotFoundError):
            write()
    STORAGE.mkdir(f"{root}/made")
    with pytest.raises(FileExistsError):
        STORAGE.mkdir(f"{root}/made")
    STORAGE.ensure_dir(f"{root}/made")
    STORAGE.create(f"{root}/made/a", b"")
    with pytest.raises(OSError, match=r"not empty|NotEmpty"):
        STORAGE.rmdir(f"{root}/made")
    STORAGE.unlink(f"{root}/made/a")
    STORAGE.rmdir(f"{root}/made")
    assert not STORAGE.exists(f"{root}/made")


def test_new_file_gets_the_mode_of_another(kind: str, root: str) -> None:
    if kind == "s3":
        pytest.skip("objects have none")

    def mode(path: str) -> int:
        if kind == "local":
            return os.stat(path).st_mode & 0o777
        authority, at = split_url(path)
        return int(connect(authority).get_file_info(at).permission)

    STORAGE.create(f"{root}/a", b"")
    STORAGE.new_file(f"{root}/b").close()
    if kind == "local":
        os.chmod(f"{root}/a", 0o644)
    assert (mode(f"{root}/a"), mode(f"{root}/b")) == (0o644, 0o600)
    STORAGE.copy_attributes(f"{root}/a", f"{root}/b")
    assert mode(f"{root}/b") == 0o644


def test_volume_reports_free_and_total_bytes(root: str) -> None:
    volume = STORAGE.volume(root)
    assert 0 < volume.free_bytes <= volume.total_bytes
    assert volume.key == STORAGE.volume(f"{root}/").key


def test_other_url_schemes_are_refused(name_node: str) -> None:
    for url in ("gopher://x/y", "hdfs://user:secret@x/y", f"{name_node}/x?y"):
        with pytest.raises(UsageError) as refused:
            STORAGE.canonical(url)
        assert "secret" not in str(refused.value)


def test_bucket_that_is_missing_does_not_make_files_absent(s3: str) -> None:
    scheme, _, bucket = s3.partition("://")
    missing = (
        f"{scheme}://{bucket.partition('/')[0]}-that-nobody-made/logs/cleaner-offset-checkpoint"
    )
    with pytest.raises(OSError, match="S3 answers") as refused:
        STORAGE.exists(missing)
    assert not isinstance(refused.value, FileNotFoundError)
