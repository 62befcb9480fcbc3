from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.unit.cleaning.partitions import batch, job_of, make_partition, record
from winnow.cleaning import space
from winnow.cleaning.space import Room, waves
from winnow.scan.job import PartitionJob
from winnow.storage.places import free_bytes

SPARE = 2**16
SIZE = len(batch(record(0)))


@pytest.fixture
def jobs(tmp_path: Path) -> list[PartitionJob]:
    """Return five partitions of SIZE bytes each."""
    return [
        job_of(make_partition(tmp_path / f"t-{number}", {0: [batch(record(0))]}))
        for number in range(5)
    ]


def disk_with(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    room = free + SPARE
    status = SimpleNamespace(
        f_bavail=room, f_bfree=room, f_frsize=1, f_blocks=2 * room, f_files=0, f_flag=0
    )
    monkeypatch.setattr(os, "statvfs", lambda _: status)


def cut(jobs: list[PartitionJob]) -> list[int]:
    found = list(waves(jobs, lambda: Room(None)))
    assert [job for wave in found for job in wave] == jobs
    return [len(wave) for wave in found]


def test_enough_room_gives_one_wave(jobs: list[PartitionJob]) -> None:
    assert cut(jobs) == [5]


def test_no_partitions_give_no_wave() -> None:
    assert list(waves([], lambda: Room(None))) == []


@pytest.mark.parametrize(
    ("limit", "sizes"), [(SIZE * 2, [2, 2, 1]), (SIZE * 3 - 1, [2, 2, 1]), (1, [1] * 5)]
)
def test_wave_is_limited_by_the_bytes_that_one_job_reads(
    jobs: list[PartitionJob], monkeypatch: pytest.MonkeyPatch, limit: int, sizes: list[int]
) -> None:
    """A single partition may exceed the limit."""
    monkeypatch.setattr(space, "WAVE_BYTES", limit)
    assert cut(jobs) == sizes


@pytest.mark.parametrize(
    ("free", "sizes"), [(SIZE * 5, [5]), (SIZE * 5 - 1, [4, 1]), (SIZE, [1] * 5)]
)
def test_wave_is_limited_by_free_disk_space(
    jobs: list[PartitionJob], monkeypatch: pytest.MonkeyPatch, free: int, sizes: list[int]
) -> None:
    disk_with(monkeypatch, free)
    assert cut(jobs) == sizes


def test_free_space_is_measured_before_each_wave(
    jobs: list[PartitionJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    disk_with(monkeypatch, SIZE)
    cutting = waves(jobs, lambda: Room(None))
    assert len(next(cutting)) == 1
    disk_with(monkeypatch, SIZE * 10)
    assert [len(wave) for wave in cutting] == [4]


def test_free_bytes_leaves_a_reserve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk_with(monkeypatch, 10)
    assert free_bytes(str(tmp_path)) == 10
