"""The tests of `test_undo` on a file system that reorders effects until they are synced."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.crash import logs
from tests.crash.logs import leftovers
from tests.crash.replay import CrashPoint, RecordingStorage, crash_points, record
from winnow.logdir.checkpoints import update_offset_checkpoint
from winnow.logdir.commit.keeping import begin_keeping, end_keeping
from winnow.logdir.commit.kept import kept_run_ids, read_kept
from winnow.logdir.commit.recovery import recover
from winnow.logdir.commit.retain import delete_segments
from winnow.logdir.commit.swap import StagedGroup, swap_group
from winnow.logdir.commit.undo import plan_undo, undo
from winnow.logdir.names import CLEANER_CHECKPOINT, INDEX_SUFFIXES, LOG, SNAPSHOT
from winnow.storage.local import LocalStorage
from winnow.wire.plain import Record

STORAGE = LocalStorage()
SURVIVORS = {1, 4, 6, 8}
"""Of segments 0, 3 and 6. The replacement of the first two ends below the base of the second."""


@pytest.fixture
def before(tmp_path: Path) -> Path:
    segments = {
        base: [logs.record(o, o) for o in range(base, base + 3)] for base in range(0, 12, 3)
    }
    return logs.make_log(
        tmp_path / "log", segments, end=12, checkpoints={"cleaner-offset-checkpoint": 3}
    )


@pytest.fixture
def staged(before: Path, tmp_path: Path) -> Path:
    """The same with the output for the segments 0 and 3."""
    root = tmp_path / "staged"
    shutil.copytree(before, root)
    logs.stage(root, logs.state_of(root).segments[:2], SURVIVORS)
    return root


def _clean(storage: RecordingStorage, root: Path) -> None:
    """Merge two segments into one, then delete it. In between the run decides the checkpoint."""
    state = logs.state_of(root)
    staging = logs.staging(root)
    paths = {
        suffix: f"{staging}/{0:020d}{suffix}.attempt" for suffix in (".log", ".index", ".timeindex")
    }
    begin_keeping(storage, state, run_id="run", now=0)
    swap_group(
        storage,
        state.directory,
        StagedGroup(sources=state.segments[:2], paths=paths),
    )
    begin_keeping(storage, state, run_id="run", now=0, cleaner_checkpoint_after=9)
    update_offset_checkpoint(storage, f"{root}/{CLEANER_CHECKPOINT}", {logs.T: 9})
    delete_segments(storage, state.directory, logs.state_of(root).segments[:1])
    end_keeping(storage, state.directory, run_id="run")


def _undo(storage: LocalStorage, root: Path) -> None:
    directory = f"{root}/{logs.T}"
    recover(storage, directory)
    for run_id in kept_run_ids(storage, directory):
        undo(
            storage,
            str(root),
            logs.T,
            plan_undo(storage, str(root), logs.T, read_kept(storage, directory, run_id)),
        )


def test_run_that_keeps_can_be_undone(before: Path, staged: Path, tmp_path: Path) -> None:
    wanted = logs.read_log(before)
    points = 0
    for point in crash_points(staged, tmp_path / "crash", _clean, out_of_order=True):
        recover(STORAGE, f"{point.root}/{logs.T}")
        assert leftovers(STORAGE, f"{point.root}/{logs.T}") == (), point.label
        found = logs.read_log(point.root)
        assert found.end == wanted.end, point.label
        assert {6, 7, 8, 9, 10, 11} <= {one.offset for one in found.records}, point.label
        _undo(STORAGE, point.root)
        _assert_as_before(before, point)
        points += 1
    assert points > 100


def test_stopped_undo_can_be_finished(before: Path, staged: Path, tmp_path: Path) -> None:
    record(staged, lambda storage: _clean(storage, staged))
    wanted = logs.read_log(before)
    points = 0
    for point in crash_points(staged, tmp_path / "crash", _undo, out_of_order=True):
        recover(STORAGE, f"{point.root}/{logs.T}")
        found = logs.read_log(point.root)
        assert found.end == wanted.end, point.label
        assert found.records in _between(wanted), point.label
        _undo(STORAGE, point.root)
        _assert_as_before(before, point)
        points += 1
    assert points > 100


def _between(log: logs.ReadLog) -> list[list[Record]]:
    """Nothing of the first two segments, what replaced them, or all of them."""
    kept = [set(), SURVIVORS & set(range(6)), set(range(6))]
    return [[one for one in log.records if one.offset >= 6 or one.offset in some] for some in kept]


def _assert_as_before(before: Path, point: CrashPoint) -> None:
    wanted, found = (
        {p.name: p.read_bytes() for p in _files(root, point)} for root in (before, point.root)
    )
    assert found == wanted, point.label
    assert not any(path.is_dir() for path in (point.root / str(logs.T)).iterdir()), point.label


def _files(root: Path, point: CrashPoint) -> list[Path]:
    """With reordered effects a kept segment may lose an index, which a broker rebuilds, or a
    snapshot.
    """
    suffixes = (LOG, *INDEX_SUFFIXES, SNAPSHOT) if point.in_order else (LOG,)
    return [path for path in (root / str(logs.T)).iterdir() if path.name.endswith(suffixes)]
