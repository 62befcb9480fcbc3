"""Staging directories beside a running broker (S8.12)."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from winnow.errors import LinkError
from winnow.logdir.commit.staging import remove_staging
from winnow.storage.live.identity import acting_as
from winnow.storage.live.read_view import ReadView, ViewStorage, reading
from winnow.storage.live.staging import StagingStorage
from winnow.storage.places import Places, storage_of

STORAGE = StagingStorage()
OWNER = 65534
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root may act as another user")


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that every user can reach."""
    with tempfile.TemporaryDirectory() as path:
        Path(path).chmod(0o755)
        yield Path(path)


@pytest.fixture
def partition(place: Path) -> Path:
    path = place / "t-0"
    path.mkdir()
    return path


@pytest.fixture
def staging(partition: Path) -> str:
    path = f"{partition}/.winnow-run"
    STORAGE.mkdir(path)
    return path


def test_no_file_appears_in_a_renamed_partition(partition: Path, staging: str) -> None:
    """A broker that deletes a topic renames the directory, and then removes what it finds there. It
    shuts down if a file appears meanwhile.
    """
    file = STORAGE.new_file(f"{staging}/a")
    renamed = partition.rename(partition.with_name("t-0.0123-delete"))
    file.write(memoryview(b"still open"))
    file.finish()
    file.close()
    for act in (
        lambda: STORAGE.new_file(f"{staging}/b"),
        lambda: STORAGE.mkdir(f"{staging}/c"),
        lambda: STORAGE.rename(f"{staging}/a", f"{staging}/d"),
        lambda: STORAGE.unlink(f"{staging}/a"),
    ):
        with pytest.raises(FileNotFoundError):
            act()
    assert [one.name for one in (renamed / ".winnow-run").iterdir()] == ["a"]


def test_file_is_created_by_its_whole_path_without_opening_the_directory(
    partition: Path, staging: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory is renamed right before the call that creates the file."""
    renamed = partition.with_name("t-0.0123-delete")
    real = os.open

    def refuse(path: object, flags: int, *rest: object, **more: object) -> int:
        assert "dir_fd" not in more or not flags & os.O_CREAT
        return real(path, flags, *rest, **more)  # type: ignore[call-overload,no-any-return]

    monkeypatch.setattr(os, "open", refuse)
    STORAGE.new_file(f"{staging}/a").close()
    partition.rename(renamed)
    with pytest.raises(FileNotFoundError):
        STORAGE.new_file(f"{staging}/b")


@root_only
def test_files_belong_to_the_owner_of_the_partition(partition: Path) -> None:
    """From the instant at which they exist: a broker may not remove those of root."""
    os.chown(partition, OWNER, OWNER)
    partition.chmod(0o755)
    staging = f"{partition}/.winnow-run"
    seen: set[tuple[int, int]] = set()
    ended = threading.Event()

    def watch() -> None:
        while not ended.is_set():
            with suppress(FileNotFoundError):
                for path in partition.rglob("*"):
                    status = path.lstat()
                    seen.add((status.st_uid, status.st_gid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    for _ in range(100):
        STORAGE.mkdir(staging)
        STORAGE.create(f"{staging}/a", b"data")
        STORAGE.rename(f"{staging}/a", f"{staging}/b")
        remove_staging(STORAGE, staging)
    ended.set()
    watcher.join()
    assert seen <= {(OWNER, OWNER)}
    assert (os.geteuid(), os.access("/root", os.R_OK)) == (0, True)


@root_only
def test_writes_have_only_the_permissions_of_the_owner(partition: Path, place: Path) -> None:
    """The owner may put a link in place of the directory at any time."""
    os.chown(partition, OWNER, OWNER)
    outside = place / "outside"
    outside.mkdir(mode=0o700)
    (partition / ".winnow-run").symlink_to(outside)
    with pytest.raises((LinkError, PermissionError)):
        STORAGE.new_file(f"{partition}/.winnow-run/a")
    with pytest.raises((LinkError, PermissionError)):
        STORAGE.mkdir(f"{partition}/.winnow-run/a")
    assert not [*outside.iterdir()]


@root_only
@pytest.mark.parametrize("mode", [0o755, 0o775, 0o757])
@pytest.mark.parametrize("act", ["mkdir", "new_file", "rename", "unlink", "rmdir"])
def test_directory_of_root_in_one_of_others_is_not_written_as_root(
    place: Path, partition: Path, mode: int, act: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as `lost+found`, which the owner of the log directory can rename. A link takes its place
    between the look at its owner and the call.
    """
    outside, log_dir = place / "outside", place / "log"
    for directory in (log_dir, outside, outside / "empty"):
        directory.mkdir(mode=0o700)
    (outside / "file").touch()
    os.chown(log_dir, OWNER if mode == 0o755 else 0, OWNER)
    log_dir.chmod(mode)
    at = partition.rename(log_dir / "t-0")
    real = os.geteuid

    def swapped() -> int:
        if at.exists() and not at.is_symlink():
            at.rename(log_dir / "was")
            at.symlink_to(outside)
        return real()

    monkeypatch.setattr(os, "geteuid", swapped)
    acts = {
        "mkdir": lambda: STORAGE.mkdir(f"{at}/new"),
        "new_file": lambda: STORAGE.new_file(f"{at}/new"),
        "rename": lambda: STORAGE.rename(f"{at}/file", f"{at}/new"),
        "unlink": lambda: STORAGE.unlink(f"{at}/file"),
        "rmdir": lambda: STORAGE.rmdir(f"{at}/empty"),
    }
    with pytest.raises((PermissionError, LinkError)):
        acts[act]()
    assert sorted(one.name for one in outside.iterdir()) == ["empty", "file"]


@root_only
def test_groups_of_root_give_the_owner_no_access(partition: Path, place: Path) -> None:
    os.chown(partition, OWNER, OWNER)
    outside = place / "outside"
    outside.mkdir()
    outside.chmod(0o770)  # of the group of root
    (partition / ".winnow-run").symlink_to(outside)
    with acting_as(OWNER, OWNER), pytest.raises(PermissionError):
        (partition / ".winnow-run" / "a").mkdir()
    assert os.access("/root", os.W_OK)
    assert not [*outside.iterdir()]


@pytest.fixture
def view(place: Path, partition: Path) -> Iterator[ReadView]:
    view = ReadView(
        root=str(place),
        pid=os.getpid(),
        at_ms=0,
        directories={str(place): {}, str(partition): {}},
        staging=".winnow-run",
    )
    with reading(view):
        yield view


def test_a_read_view_lets_only_its_own_staging_directories_be_written(
    view: ReadView, partition: Path
) -> None:
    assert isinstance(storage_of(f"{partition}/.winnow-run"), StagingStorage)
    assert isinstance(storage_of(f"{partition}/.winnow-run/a"), StagingStorage)
    for path in (
        f"{partition}",
        f"{partition}/a",
        f"{partition}/.winnow-other/a",
        f"{view.root}/.winnow-run",
        f"{partition}/below/.winnow-run/a",
    ):
        assert isinstance(storage_of(path), ViewStorage), path
        with pytest.raises(OSError, match="Read-only"):
            Places().create(path, b"")
