from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.unit.cleaning.partitions import batch, job_of, make_partition, record
from winnow.cleaning import space
from winnow.cleaning.space import Room, batches, first_batch
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
    """Return the sizes of the batches; free space is asked before each."""
    sizes = []
    while jobs:
        sizes.append(first_batch(jobs, Room(None)))
        jobs = jobs[sizes[-1] :]
    return sizes


def test_enough_room_gives_one_batch(jobs: list[PartitionJob]) -> None:
    assert cut(jobs) == [5]


def test_empty_input_has_no_batches() -> None:
    assert first_batch([], Room(None)) == 0
    assert list(batches([])) == []


@pytest.mark.parametrize(
    ("limit", "sizes"), [(SIZE * 2, [2, 2, 1]), (SIZE * 3 - 1, [2, 2, 1]), (1, [1] * 5)]
)
def test_batch_is_limited_by_the_bytes_that_one_job_reads(
    jobs: list[PartitionJob], monkeypatch: pytest.MonkeyPatch, limit: int, sizes: list[int]
) -> None:
    """A single partition may exceed the limit."""
    monkeypatch.setattr(space, "BATCH_BYTES", limit)
    assert cut(jobs) == sizes
    found = list(batches(jobs))
    assert [len(batch) for batch in found] == sizes
    assert [job for batch in found for job in batch] == jobs


@pytest.mark.parametrize(
    ("free", "sizes"), [(SIZE * 5, [5]), (SIZE * 5 - 1, [4, 1]), (SIZE, [1] * 5)]
)
def test_batch_is_limited_by_free_disk_space(
    jobs: list[PartitionJob], monkeypatch: pytest.MonkeyPatch, free: int, sizes: list[int]
) -> None:
    disk_with(monkeypatch, free)
    assert cut(jobs) == sizes
    assert len(list(batches(jobs))) == 1, "a batch that writes nothing needs no space"


def test_free_bytes_leaves_a_reserve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk_with(monkeypatch, 10)
    assert free_bytes(str(tmp_path)) == 10
