"""A partition directory with many files that are nobody's, or that interrupted runs left: a commit
lists it once, whatever the number of groups, and a recovery takes time for each file once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.crash import logs
from winnow.cleaning.commit.commit import commit_groups
from winnow.errors import CorruptLogError
from winnow.logdir.commit.recovery import preview, recover
from winnow.logdir.commit.swap import StagedGroup, Swaps
from winnow.logdir.names import LOG, segment_file
from winnow.storage.contract import Entry
from winnow.storage.local import LocalStorage

SEGMENTS = {base: [logs.record(o, o) for o in range(base, base + 3)] for base in range(0, 30, 3)}
FOREIGN = 500


class Counting(LocalStorage):
    """Counts the entries of all listings."""

    def __init__(self) -> None:
        self.listed = 0

    def list_dir(self, path: str) -> tuple[Entry, ...]:
        found = super().list_dir(path)
        self.listed += len(found)
        return found


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = logs.make_log(tmp_path / "log", SEGMENTS, end=30, checkpoints={})
    for number in range(FOREIGN):
        (root / "t-0" / f"foreign-{number}").touch()
    return root


def groups_of(root: Path, count: int) -> list[StagedGroup]:
    segments = logs.state_of(root).segments
    return [
        logs.stage(root, (segment,), {segment.base_offset, segment.base_offset + 1})
        for segment in segments[:count]
    ]


@pytest.mark.parametrize("count", [1, 8])
def test_a_commit_lists_a_directory_once(root: Path, count: int) -> None:
    storage, groups = Counting(), groups_of(root, count)
    entries = len(list((root / "t-0").iterdir()))
    commit_groups(storage, f"{root}/t-0", groups)
    assert storage.listed == entries
    assert len(logs.read_log(root).records) == 30 - count
    assert len(list((root / "t-0").glob("foreign-*"))) == FOREIGN


def test_each_group_looks_at_its_own_sources_again(root: Path) -> None:
    first, second = groups_of(root, 2)
    swaps = Swaps(LocalStorage(), f"{root}/t-0")
    swaps.swap(first)
    changed = root / "t-0" / segment_file(3, LOG)
    changed.write_bytes(changed.read_bytes())
    with pytest.raises(CorruptLogError, match="has changed since"):
        swaps.swap(second)
    assert len(logs.read_log(root).records) == 29


def test_groups_of_several_segments_follow_each_other(root: Path) -> None:
    segments = logs.state_of(root).segments
    storage, left = Counting(), {0, 7, 12, 17}
    groups = [logs.stage(root, segments[at : at + 2], left) for at in (0, 2, 4)]
    commit_groups(storage, f"{root}/t-0", groups)
    log = logs.read_log(root)
    assert log.bases == [0, 6, 12, *range(18, 30, 3)]
    assert [one.offset for one in log.records] == [0, 7, 12, 17, *range(18, 30)]
    assert logs.listing_of(root).problems == ()


KINDS = {
    "nobody's": "foreign-{}",
    "of a swap that had not begun": "{:020d}.log.cleaned",
    "of a swap that had": "{:020d}.index.swap",
    "both": "{:020d}.timeindex.{}",
    "logs of both": "{:020d}.log.{}",
    "deleted": "{:020d}.log.deleted",
    "indexes": "{:020d}.index",
    "snapshots": "{:020d}.snapshot",
}
"""Names of files that may be in a partition directory in any number."""
FEW, MANY = 500, 4000


def left_behind(directory: Path, kind: str, count: int) -> None:
    for number in range(count):
        marker = "swap" if number % 2 else "cleaned"
        path = directory / KINDS[kind].format(1000 + number, marker)
        path.write_bytes(b"x" if kind.startswith("logs") else b"")


def cost(work: Callable[[], object]) -> float:
    """Return the CPU time of the work, in seconds: the lesser of two times."""
    times = []
    for _ in range(2):
        begun = time.process_time()
        work()
        times.append(time.process_time() - begun)
    return min(times)


@pytest.mark.parametrize("kind", KINDS)
def test_time_grows_with_the_number_of_files_and_not_faster(tmp_path: Path, kind: str) -> None:
    costs = []
    for count in (FEW, MANY):
        root = logs.make_log(tmp_path / str(count), SEGMENTS, end=30, checkpoints={})
        left_behind(root / "t-0", kind, count)
        directory = f"{root}/t-0"
        costs.append(cost(partial(preview, LocalStorage(), directory)))
    assert costs[1] < costs[0] * 3 * MANY / FEW, "it looks at each file for each other one"


@pytest.mark.parametrize("kind", KINDS)
def test_a_recovery_removes_what_it_removes_of_few(tmp_path: Path, kind: str) -> None:
    root = logs.make_log(tmp_path / "log", SEGMENTS, end=30, checkpoints={})
    before = logs.read_log(root)
    left_behind(root / "t-0", kind, 40)
    recover(LocalStorage(), f"{root}/t-0")
    after = [path.name for path in (root / "t-0").iterdir()]
    assert not [name for name in after if name.endswith((".cleaned", ".swap", ".deleted"))]
    assert logs.read_log(root).records == before.records
