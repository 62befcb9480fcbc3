"""Mapped ranges of a file, and how much of them is in memory."""

from __future__ import annotations

import errno
import mmap
import re
from pathlib import Path

import numpy as np
import pytest

from tests.disks import MIB, disk_or_skip, fill
from winnow.errors import CorruptLogError, LogDirInUseError
from winnow.storage import segment_io
from winnow.storage.io_counters import MOVED
from winnow.storage.places import lift_fence, put_fence
from winnow.storage.segment_io import SegmentWriter, load, map_range, release

SIZE = 40 * mmap.PAGESIZE


@pytest.fixture
def path(tmp_path: Path) -> str:
    (tmp_path / "file").write_bytes(np.arange(SIZE, dtype=np.uint32).astype(np.uint8).tobytes())
    return str(tmp_path / "file")


def resident(path: str) -> int:
    """Return how many KiB of a file's mapping are in this process's memory."""
    found = re.search(
        rf"{re.escape(path)}\n(?:.*\n)*?Rss: +([0-9]+) kB", Path("/proc/self/smaps").read_text()
    )
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize("start", [0, 5, 3 * mmap.PAGESIZE + 7])
def test_released_pages_leave_memory_and_can_be_read_again(path: str, start: int) -> None:
    with map_range(path, start, SIZE) as buf:
        assert resident(path) >= (SIZE - start) // 1024
        half = len(buf) // 2
        release(buf, half)
        assert resident(path) <= (SIZE - start - half) // 1024 + 2 * mmap.PAGESIZE // 1024
        assert bytes(buf) == Path(path).read_bytes()[start:]


@pytest.mark.parametrize("size", [1, 64 * 2**10, 64 * 2**10 + 1])
@pytest.mark.parametrize("gradually", [True, False])
def test_small_ranges_are_copied_and_others_mapped(
    path: str, size: int, *, gradually: bool
) -> None:
    read, files = MOVED["read"], MOVED["files"]
    with map_range(path, 7, 7 + size, gradually=gradually) as buf:
        assert (path in Path("/proc/self/maps").read_text()) is (size > 64 * 2**10)
        assert bytes(buf) == Path(path).read_bytes()[7 : 7 + size]
        assert not buf.flags.writeable
    assert (MOVED["read"] - read, MOVED["files"] - files) == (size, 1)


@pytest.mark.parametrize("start", [0, SIZE - 9])
def test_truncated_file_is_refused(path: str, start: int) -> None:
    with pytest.raises(CorruptLogError, match=f"at least {SIZE + 1} bytes, found {SIZE} bytes"):
        map_range(path, start, SIZE + 1).__enter__()


def test_releasing_zero_bytes_or_unmapped_memory_is_harmless(path: str) -> None:
    with map_range(path, 9, 9) as buf:
        release(buf, 0)
    with map_range(path, 9, SIZE) as buf:
        release(buf, 0)
        assert buf[0] == 9
    release(np.zeros(3, np.uint8), 2)  # not a mapping


def test_segment_is_not_created_once_the_lease_is_lost(tmp_path: Path) -> None:
    def lost() -> None:
        raise LogDirInUseError("the lease is lost")

    put_fence(str(tmp_path), lost)
    try:
        with pytest.raises(LogDirInUseError, match="the lease is lost"):
            SegmentWriter(str(tmp_path / "t-0" / "new"))
    finally:
        lift_fence(str(tmp_path))


@pytest.mark.parametrize("system", ["this", "older than Linux 5.14"])
def test_page_that_cannot_be_loaded_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    """A map of a hole needs memory, which a full tmpfs has not. Touching it ends the process."""
    if system != "this":
        monkeypatch.setattr(segment_io, "_POPULATE_READ", 999)  # unknown, as to an older system
    with disk_or_skip(tmp_path / "disk", mib=4) as disk:
        path = disk / "file"
        path.write_bytes(bytes(MIB))
        with path.open("r+b") as file:
            file.truncate(2 * MIB)
        fill(disk)
        with pytest.raises(OSError, match=str(path)) as found, map_range(str(path), 0, 2 * MIB):
            pass
        assert found.value.errno == errno.EIO
        with map_range(str(path), 0, 2 * MIB, gradually=True) as buf:
            load(buf, 0, MIB)
            assert not buf[:MIB].any()
            with pytest.raises(OSError, match="Input/output"):
                load(buf, MIB - 1, MIB + 1)
            del buf


def test_writing_a_large_file_goes_on_while_the_disk_writes_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system then searches pages of the file. So not every small write asks it, and only the
    latest pages are searched.
    """
    asked: list[tuple[int, int]] = []
    path = str(tmp_path / "new")

    def dropped(path: str, *, start: int) -> None:
        asked.append((start // MIB, Path(path).stat().st_size // MIB))

    monkeypatch.setattr(segment_io, "drop_cached", dropped)
    with SegmentWriter(path) as writer:
        for _ in range(56):
            writer.write(bytes(MIB // 2))
    assert asked == [(0, 4), (0, 8), (0, 12), (0, 16), (0, 20), (4, 24), (8, 28)]
