"""The driver lists small partitions as a task would, and leaves all others to tasks."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.cleaning.partitions import batch, make_partition, record
from winnow.errors import CorruptLogError
from winnow.state import TopicPartition
from winnow.survey import survey
from winnow.survey.place import PartitionPlace
from winnow.survey.survey import _list_here, _list_one

KEY = TopicPartition("t", 0)
LOG = "00000000000000000000.log"
ACTIVE = "00000000000000000002.log"


@pytest.fixture
def place(tmp_path: Path) -> PartitionPlace:
    batches = batch(record(0), record(1)), batch(record(2), record(3, value=None))
    make_partition(tmp_path / str(KEY), {0: [batches[0]], 2: [batches[1]]})
    return PartitionPlace(str(tmp_path), KEY)


def test_driver_and_task_list_a_small_partition_alike(place: PartitionPlace) -> None:
    listed = _list_here(place)
    assert listed == _list_one(place)
    assert listed is not None
    assert listed.log_end_offset == 4
    assert [segment.base_offset for segment in listed.listing.segments] == [0, 2]


def test_a_task_lists_a_partition_after_an_unclean_shutdown(place: PartitionPlace) -> None:
    for changes in ({"trusted_end": 2}, {"recovery_point": 0}):
        assert _list_here(replace(place, **changes)) is None


def remove_index(directory: Path) -> None:
    (directory / LOG).with_suffix(".index").unlink()


def link_log(directory: Path) -> None:
    (directory / LOG).rename(directory.parent / "elsewhere")
    (directory / LOG).symlink_to(directory.parent / "elsewhere")


def make_pipe(directory: Path) -> None:
    (directory / LOG).with_suffix(".index").unlink()
    os.mkfifo((directory / LOG).with_suffix(".index"))


def leave_staging(directory: Path) -> None:
    (directory / ".winnow-run").mkdir(exist_ok=True)


def cut_active(directory: Path) -> None:
    os.truncate(directory / ACTIVE, (directory / ACTIVE).stat().st_size - 1)


def spoil_active(directory: Path) -> None:
    data = bytearray((directory / ACTIVE).read_bytes())
    data[16] = 9  # magic
    (directory / ACTIVE).write_bytes(data)


def remove_all(directory: Path) -> None:
    for file in directory.iterdir():
        file.unlink() if file.is_file() else file.rmdir()
    directory.rmdir()


@pytest.mark.parametrize(
    "change",
    [
        *(remove_index, link_log, make_pipe, leave_staging),
        *(cut_active, spoil_active, remove_all),
    ],
)
def test_driver_does_not_list_an_unusual_partition(
    place: PartitionPlace, change: Callable[[Path], None]
) -> None:
    change(Path(place.directory))
    assert _list_here(place) is None


@pytest.mark.parametrize("limit", ["_SMALL_BYTES", "_SMALL_ACTIVE_BYTES"])
def test_driver_does_not_list_a_large_partition(
    place: PartitionPlace, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    files = [Path(place.directory, name) for name in (LOG, ACTIVE)]
    sizes = [file.stat().st_size for file in files]
    most = sum(sizes) if limit == "_SMALL_BYTES" else sizes[1]
    monkeypatch.setattr(survey, limit, most)
    assert _list_here(place) is not None
    monkeypatch.setattr(survey, limit, most - 1)
    assert _list_here(place) is None


def test_a_task_reports_a_damaged_log(place: PartitionPlace) -> None:
    spoil_active(Path(place.directory))
    with pytest.raises(CorruptLogError):
        _list_one(place)
