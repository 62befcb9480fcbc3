"""A crash at any rename of a cleaning: cases 72 and 74, S6.2, S6.4."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.crash import logs
from tests.crash.logs import leftovers
from tests.crash.replay import CrashPoint, RecordingStorage, crash_points, fingerprint, record
from winnow.logdir.commit.recovery import recover
from winnow.logdir.commit.swap import StagedGroup, swap_group
from winnow.logdir.names import SWAP
from winnow.storage.local import LocalStorage

# Keys of offsets 0.. in segments of three; the last segment is the active one.
_KEYS = [0, 1, 0, 2, 0, 2, 3, 3, 4, 4, 5, 5, 3, 4, 6, 6, 7, 3, 0, 5]
_GROUPS = ((0, 3), (6, 9), (12,), (15,))
"""The second loses its second source whole and the last record of its first one; the last one
survives untouched.
"""


def _segments() -> dict[int, list[logs.Record]]:
    return {
        base: [logs.record(o, _KEYS[o]) for o in range(base, min(base + 3, 20))]
        for base in range(0, 20, 3)
    }


@pytest.fixture
def staged(tmp_path: Path) -> Path:
    """A log directory whose groups are staged and not swapped yet."""
    root = logs.make_log(
        tmp_path / "log", _segments(), end=20, checkpoints={"cleaner-offset-checkpoint": 3}
    )
    _groups(root)
    return root


def _survivors() -> set[int]:
    return {len(_KEYS) - 1 - _KEYS[::-1].index(key) for key in _KEYS}


def _groups(root: Path) -> list[StagedGroup]:
    by_base = {segment.base_offset: segment for segment in logs.state_of(root).segments}
    directory = logs.staging(root)
    shutil.rmtree(directory, ignore_errors=True)
    return [
        logs.stage(root, tuple(by_base[base] for base in bases), _survivors()) for bases in _GROUPS
    ]


def _swap_all(storage: RecordingStorage, root: Path) -> None:
    by_base = {segment.base_offset: segment for segment in logs.state_of(root).segments}
    for bases in _GROUPS:
        paths = {
            suffix: f"{logs.staging(root)}/{bases[0]:020d}{suffix}.attempt"
            for suffix in (".log", ".index", ".timeindex")
        }
        sources = tuple(by_base[base] for base in bases)
        swap_group(
            storage,
            f"{root}/{logs.T}",
            StagedGroup(sources=sources, paths=paths),
        )


def _assert_nothing_lost(point: CrashPoint, before: logs.ReadLog) -> None:
    after = logs.read_log(point.root)
    assert after.end == before.end, point.label
    assert after.latest == before.latest, point.label
    assert _survivors() <= {one.offset for one in after.records}, point.label
    assert {one.offset: one for one in after.records}.items() <= {
        one.offset: one for one in before.records
    }.items()


@pytest.mark.parametrize("out_of_order", [False, True])
def test_crash_at_any_instant_loses_nothing(
    staged: Path, tmp_path: Path, *, out_of_order: bool
) -> None:
    before = logs.read_log(staged)
    points = 0
    for point in crash_points(staged, tmp_path / "crash", _swap_all, out_of_order=out_of_order):
        directory = f"{point.root}/{logs.T}"
        recover(LocalStorage(), directory)
        assert leftovers(LocalStorage(), directory) == (), point.label
        _assert_nothing_lost(point, before)
        assert not any(path.is_dir() for path in Path(directory).iterdir()), point.label
        listing = logs.listing_of(point.root)
        # With reordered effects, a remaining source may lack an index. A new segment never does.
        new = tuple(f"{bases[0]:020d}." for bases in _GROUPS)
        problems = [
            p
            for p in listing.problems
            if point.in_order or Path(p.expected or "").name.startswith(new)
        ]
        assert problems == [], point.label
        assert listing.snapshot_offsets[-1] == 20, point.label
        done = fingerprint(point.root)
        assert not recover(LocalStorage(), directory)
        assert fingerprint(point.root) == done, point.label
        points += 1
    assert points > (200 if out_of_order else 60)


def test_each_group_is_old_or_new(staged: Path, tmp_path: Path) -> None:
    """Only sources that lie entirely beyond the output's end may remain beside it (S6.2)."""
    old = {bases: set(range(bases[0], bases[-1] + 3)) for bases in _GROUPS}
    new = {bases: offsets & _survivors() for bases, offsets in old.items()}
    mixed = set()
    for point in crash_points(staged, tmp_path / "crash", _swap_all):
        recover(LocalStorage(), f"{point.root}/{logs.T}")
        found = {one.offset for one in logs.read_log(point.root).records}
        for bases, offsets in old.items():
            here = found & offsets
            if here not in (offsets, new[bases]):
                mixed.add(bases)
                assert new[bases] < here, point.label
                assert here - new[bases] == set(range(bases[1], bases[1] + 3)), point.label
    assert mixed == {(6, 9)}


def test_only_one_group_is_ever_in_swap_state(staged: Path, tmp_path: Path) -> None:
    """Case 74: Kafka's loader deletes whatever it finds between two swaps."""
    for point in crash_points(staged, tmp_path / "crash", _swap_all, out_of_order=True):
        bases = {path.name[:20] for path in (point.root / str(logs.T)).glob(f"*{SWAP}")}
        assert len(bases) <= 1, point.label


def test_crash_during_recovery_changes_no_outcome(staged: Path, tmp_path: Path) -> None:
    for point in crash_points(staged, tmp_path / "crash", _swap_all):
        directory = f"{point.root}/{logs.T}"
        if not leftovers(LocalStorage(), directory):
            continue
        expected = tmp_path / "expected"
        shutil.copytree(point.root, expected)
        recover(LocalStorage(), f"{expected}/{logs.T}")
        again = crash_points(
            point.root,
            tmp_path / "again",
            lambda storage, root: recover(storage, f"{root}/{logs.T}"),
        )
        for second in again:
            recover(LocalStorage(), f"{second.root}/{logs.T}")
            assert _without_strays(second.root) == _without_strays(expected), (
                f"{point.label}; {second.label}"
            )
        shutil.rmtree(expected)


def _without_strays(root: Path) -> dict[str, bytes]:
    """All files except snapshots. A broker also removes snapshots at removed bases when it
    starts.
    """
    return {
        path.name: path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and path.suffix != ".snapshot"
    }


def test_without_crash_only_new_segments_remain(staged: Path) -> None:
    record(staged, lambda storage: _swap_all(storage, staged))
    after = logs.read_log(staged)
    assert after.bases == [0, 6, 12, 15, 18]
    assert {one.offset for one in after.records} == _survivors()
    assert leftovers(LocalStorage(), f"{staged}/{logs.T}") == (
        f"{logs.staging(staged).rpartition('/')[2]}",
    )
    # Case 80: snapshots at the bases of removed sources are removed, the newest is kept.
    assert logs.listing_of(staged).snapshot_offsets == (6, 12, 15, 18, 20)
