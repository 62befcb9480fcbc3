"""What a swap checks before it begins, and what it leaves (S5.9, S6.1, case 80)."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.crash import logs
from winnow.errors import CorruptLogError
from winnow.logdir.commit.swap import StagedGroup, check_replaceable, swap_group
from winnow.storage.local import LocalStorage

STORAGE = LocalStorage()
SEGMENTS = {base: [logs.record(o, o % 3) for o in range(base, base + 3)] for base in (0, 3, 6, 9)}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return logs.make_log(tmp_path / "log", SEGMENTS, end=12, checkpoints={})


def _group(root: Path, *bases: int) -> StagedGroup:
    segments = {segment.base_offset: segment for segment in logs.state_of(root).segments}
    return logs.stage(root, tuple(segments[base] for base in bases), {3, 5})


def _names(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "t-0").iterdir())


def test_case_80_output_replaces_its_sources(root: Path) -> None:
    (root / "t-0" / f"{3:020d}.txnindex").touch()
    group = _group(root, 0, 3)
    swap_group(STORAGE, f"{root}/t-0", group)
    log = logs.read_log(root)
    assert log.bases == [0, 6, 9]
    assert [one.offset for one in log.records] == [3, 5, *range(6, 12)]
    listing = logs.listing_of(root)
    assert listing.problems == ()
    assert listing.snapshot_offsets == (6, 9, 12)
    assert listing.segments[0].log_mtime_ms == group.sources[-1].log_mtime_ms
    assert [name for name in _names(root) if name.startswith(f"{3:020d}")] == []


def test_newest_snapshot_is_kept_at_a_removed_base(root: Path) -> None:
    for offset in (6, 9, 12):
        (root / "t-0" / f"{offset:020d}.snapshot").unlink()
    swap_group(STORAGE, f"{root}/t-0", _group(root, 0, 3))
    assert logs.listing_of(root).snapshot_offsets == (3,)


def _refused(root: Path, group: StagedGroup, match: str) -> None:
    before = _names(root)
    with pytest.raises(CorruptLogError, match=match):
        swap_group(STORAGE, f"{root}/t-0", group)
    assert _names(root) == before
    assert all(os.path.exists(path) for path in group.paths.values())


def test_active_segment_is_never_replaced(root: Path) -> None:
    _refused(root, _group(root, 6, 9), "active segment")


def test_group_with_a_gap_is_refused(root: Path) -> None:
    _refused(root, _group(root, 0, 6), "not consecutive segments")
    group = _group(root, 3, 6)
    with pytest.raises(CorruptLogError, match="not consecutive segments"):
        check_replaceable(STORAGE, f"{root}/t-0", sources=group.sources, outputs={6: group.paths})


def test_changed_source_is_refused(root: Path) -> None:
    group = _group(root, 0, 3)
    path = root / "t-0" / f"{3:020d}.log"
    STORAGE.set_mtime_ns(str(path), logs.MTIME_NS)
    _refused(root, group, "has changed since it was listed")


def test_changed_index_is_refused(root: Path) -> None:
    group = _group(root, 0, 3)
    (root / "t-0" / f"{3:020d}.timeindex").unlink()
    _refused(root, group, "has changed since it was listed")


@pytest.mark.parametrize(
    "name", [f"{6:020d}.log.swap", f"{0:020d}.log.cleaned", f"{9:020d}.log.deleted"]
)
def test_leftover_of_an_earlier_swap_is_refused(root: Path, name: str) -> None:
    group = _group(root, 0, 3)
    (root / "t-0" / name).touch()
    _refused(root, group, "unfinished run")


def test_missing_staged_file_is_refused(root: Path) -> None:
    group = _group(root, 0, 3)
    without = {suffix: path for suffix, path in group.paths.items() if suffix != ".timeindex"}
    _refused(root, replace(group, paths=without), "staged file is missing")
    os.unlink(group.paths[".index"])
    before = _names(root)
    with pytest.raises(CorruptLogError, match="staged file is missing"):
        swap_group(STORAGE, f"{root}/t-0", group)
    assert _names(root) == before
