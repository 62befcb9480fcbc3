"""A partition directory with many files that are nobody's: a commit lists it once, whatever the
number of groups.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash import logs
from winnow.cleaning.commit.commit import commit_groups
from winnow.errors import CorruptLogError
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
