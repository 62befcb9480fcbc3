"""How much room a round takes, and how it is divided."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.cleaning.partitions import batch, job_of, make_partition, record
from tests.unit.policy.states import config
from winnow.cleaning.commit import commit
from winnow.cleaning.commit.commit import COMMITS_AT_ONCE, commits_at_once
from winnow.cleaning.space import (
    Room,
    fitting,
    most_index_bytes,
    most_log_bytes,
    within,
)
from winnow.scan.job import GroupJob, PartitionJob
from winnow.state import Segment
from winnow.storage.places import KEEP_FREE_BYTES


def group(number: int, most: int) -> GroupJob:
    segment = Segment(number, most, 0, None, None, None, -1, -1)
    return GroupJob((segment,), (number,), most_log_bytes=most)


@pytest.fixture
def job(tmp_path: Path) -> PartitionJob:
    """Return three groups of at most 10, 20 and 30 bytes, with one split each."""
    made = job_of(make_partition(tmp_path / "t-0", {n: [batch(record(n))] for n in range(3)}))
    return replace(made, groups=tuple(group(number, 10 * (number + 1)) for number in range(3)))


def room(free: int, limit: int | None = None) -> Room:
    return Room(limit, free=lambda _: free)


@pytest.mark.parametrize(
    ("free", "count"), [(-1, 0), (9, 0), (10, 1), (29, 1), (30, 2), (59, 2), (60, 3), (10**9, 3)]
)
def test_groups_that_fit_are_counted_from_the_first(
    job: PartitionJob, free: int, count: int
) -> None:
    assert fitting(job.groups, free) == count


def test_room_is_free_space_up_to_the_limit(tmp_path: Path) -> None:
    here = str(tmp_path)
    assert room(100).at(here) == 100
    assert room(100, limit=30).at(here) == 30
    some = room(100, limit=90)
    some.take(here, 50)
    assert some.at(here) == 40
    some.take(here, 60)
    assert some.at(here) == -20


def test_directories_on_one_file_system_share_its_room(tmp_path: Path) -> None:
    some = room(100)
    some.take(str(tmp_path), 70)
    (tmp_path / "other").mkdir()
    assert some.at(str(tmp_path / "other")) == 30


@pytest.mark.parametrize(
    ("free", "segments", "count"),
    [
        (0, 0, 1),
        (2 * KEEP_FREE_BYTES - 1, 0, 1),
        (2 * KEEP_FREE_BYTES, 0, 2),
        (2 * KEEP_FREE_BYTES, 1, 1),
        (2**40, 0, COMMITS_AT_ONCE),
        (2**40, 100_000, COMMITS_AT_ONCE),
        (2**30, 100_000, 5),
    ],
)
def test_as_many_commits_at_once_as_find_room_for_their_journals(
    monkeypatch: pytest.MonkeyPatch, free: int, segments: int, count: int
) -> None:
    monkeypatch.setattr(commit, "free_bytes", lambda _, keep_free: free - keep_free)
    assert commits_at_once(["/a"], most_segments=segments) == count


def test_fullest_disk_decides_how_many_commits_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    room = {"/a": 2**40, "/b": 3 * KEEP_FREE_BYTES, "/c": 2**40}
    monkeypatch.setattr(commit, "free_bytes", lambda at, keep_free: room[at] - keep_free)
    assert commits_at_once(room) == 3


def test_missing_directory_is_left_to_its_own_commit(tmp_path: Path) -> None:
    assert commits_at_once([f"{tmp_path}/none", str(tmp_path)]) > 1


def test_spare_room_is_divided_among_the_groups(
    job: PartitionJob,
) -> None:
    (limited,) = within([job], room(60 + 9))
    assert [g.log_limit for g in limited.groups] == [13, 23, 33]
    (limited,) = within([job], room(60))
    assert [g.log_limit for g in limited.groups] == [10, 20, 30]


def test_part_of_a_round_lists_its_own_splits_first(job: PartitionJob) -> None:
    part = job.part(1, 1)
    assert part.groups == (replace(job.groups[1], splits=(0,)),)
    assert part.splits == job.splits[1:]
    assert part.following == 1
    assert (job.part(0, 3).splits, job.part(0, 3).following) == (job.splits, 0)
    assert (job.part(2, 1).splits, job.part(2, 1).following) == (job.splits[2:], 0)


def test_size_estimate_includes_format_conversion_and_indexes() -> None:
    segments = (Segment(0, 1000, 0, 80, 120, 34, -1, -1), Segment(5, 500, 0, 80, 120, None, -1, -1))
    assert most_log_bytes(segments, legacy=()) == 1500
    assert most_log_bytes(segments, legacy={5}) == 2500
    some = config(index_interval_bytes=99, segment_index_bytes=10**6)
    assert most_index_bytes(segments, 1500, some) == 15 * 8 + 16 * 12 + 34
    assert (
        most_index_bytes(segments, 1500, replace(some, segment_index_bytes=100)) == 100 + 100 + 34
    )
