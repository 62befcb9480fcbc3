"""A crash at any instant of a retention: case 97, S6.6, S7.6."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash import logs
from tests.crash.logs import leftovers
from tests.crash.replay import RecordingStorage, crash_points
from winnow.logdir.checkpoints import read_leader_epochs, read_offset_checkpoint
from winnow.logdir.commit.recovery import recover
from winnow.logdir.commit.retain import retain
from winnow.storage.local import LocalStorage

_CHECKPOINTS = {
    "cleaner-offset-checkpoint": 2,
    "log-start-offset-checkpoint": 1,
    "replication-offset-checkpoint": 11,
}
Action = Callable[[RecordingStorage, Path], None]


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    segments = {
        base: [logs.record(o, o) for o in range(base, min(base + 3, 11))]
        for base in range(0, 11, 3)
    }
    return logs.make_log(tmp_path / "log", segments, end=11, checkpoints=_CHECKPOINTS)


def _delete_below(start: int) -> Action:
    """Retention up to `start`, decided on what is there: what a run would do, and a second run
    after a crash.
    """

    def act(storage: RecordingStorage, root: Path) -> None:
        state = logs.state_of(root)
        doomed = [segment for segment in state.segments if segment.base_offset < start]
        roll = len(doomed) == len(state.segments)
        retain(
            storage,
            state,
            deleted=doomed,
            roll=roll,
            log_start_offset=start,
            entries=logs.COMPACTED,
        )

    return act


@pytest.mark.parametrize(
    ("start", "left"), [(6, [6, 9]), (11, [11])], ids=["two of four", "all, with a roll"]
)
@pytest.mark.parametrize("out_of_order", [False, True])
def test_crash_leaves_log_without_gap(
    log_dir: Path, tmp_path: Path, start: int, left: list[int], *, out_of_order: bool
) -> None:
    act = _delete_below(start)
    before = logs.read_log(log_dir)
    points = 0
    for point in crash_points(log_dir, tmp_path / "crash", act, out_of_order=out_of_order):
        directory = f"{point.root}/{logs.T}"
        recover(LocalStorage(), directory)
        after = logs.read_log(point.root)
        assert after.end == 11, point.label
        assert after.records == before.records[len(before.records) - len(after.records) :], (
            point.label
        )
        assert {one.offset for one in after.records} >= set(range(start, 11)), point.label
        assert leftovers(LocalStorage(), directory) == (), point.label
        assert not point.in_order or logs.listing_of(point.root).problems == (), point.label
        _assert_others_kept(point.root)

        act(RecordingStorage(point.root), point.root)
        _assert_done(point.root, start, left)
        points += 1
    assert points > 20


def test_new_segment_exists_before_only_segment_is_deleted(tmp_path: Path) -> None:
    root = logs.make_log(
        tmp_path / "log",
        {0: [logs.record(0, 0), logs.record(1, 1)]},
        end=2,
        checkpoints=_CHECKPOINTS,
    )
    for point in crash_points(root, tmp_path / "crash", _delete_below(2), out_of_order=True):
        recover(LocalStorage(), f"{point.root}/{logs.T}")
        assert logs.read_log(point.root).end == 2, point.label


def _assert_others_kept(root: Path) -> None:
    for name, offset in _CHECKPOINTS.items():
        entries = read_offset_checkpoint(LocalStorage(), f"{root}/{name}")
        assert next(iter(entries.items())) == (logs.TopicPartition("other", 3), 99)
        assert entries.get(logs.T, offset) >= offset


def _assert_done(root: Path, start: int, left: list[int]) -> None:
    state = logs.state_of(root)
    assert [segment.base_offset for segment in state.segments] == left
    assert (state.log_start_offset, state.log_end_offset) == (start, 11)
    assert state.log_start_checkpoint is None
    assert state.cleaner_checkpoint == start
    assert read_leader_epochs(LocalStorage(), state.directory) == ((4, start),)
    assert state.snapshot_offsets[-1] == 11
    assert all(offset >= start for offset in state.snapshot_offsets)
