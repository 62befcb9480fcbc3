"""A run that keeps what it replaces is stopped anywhere, recovered by Winnow or by Kafka's loader,
and undone.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash.logs import leftovers
from tests.crash.replay import RecordingStorage, crash_points, crash_states
from tests.crash.runs import CrashRun, MustHold, checkpoint_entry, files_of, must_hold, read_log
from tests.crash.small_log import HOUR_MS
from tests.fixtures.data import copy_tree
from tests.kafka.judge.judge import Kafka
from tests.log_writer.dir_writer import LogDirWriter
from winnow import api
from winnow.errors import CorruptLogError
from winnow.logdir.commit.kept import kept_run_ids, read_kept
from winnow.logdir.commit.recovery import recover
from winnow.logdir.commit.undo import plan_undo, undo
from winnow.logdir.names import (
    CLEANER_CHECKPOINT,
    INDEX_SUFFIXES,
    LEADER_EPOCHS,
    LOG,
    LOG_START_CHECKPOINT,
    SNAPSHOT,
    segment_file,
)
from winnow.state import TopicPartition
from winnow.storage.local import LocalStorage
from winnow.wire.plain import Record

pytestmark = pytest.mark.spark

STORAGE = LocalStorage()
T = TopicPartition("t", 0)
CASES = ["kept", "kept, all deleted"]


def undo_all(storage: LocalStorage, root: Path) -> None:
    """Undo like the verb: recover from the crash first, then undo the runs, the last one first."""
    directory = f"{root}/{T}"
    recover(storage, directory)
    for run_id in reversed(kept_run_ids(storage, directory)):
        undo(
            storage,
            str(root),
            T,
            plan_undo(storage, str(root), T, read_kept(storage, directory, run_id)),
        )


@pytest.mark.parametrize("name", CASES)
def test_run_stopped_anywhere_can_be_undone(
    name: str, crash_run: Callable[[str], CrashRun], kafka: Kafka, tmp_path: Path
) -> None:
    run = crash_run(name)
    holds = must_hold(run, tmp_path)
    points = with_kafka = 0
    for point in run.crashes(tmp_path / "crash", out_of_order=False):
        if point.label.startswith("staging"):
            continue
        points += 1
        if points % 2:  # each is much like the next one
            continue
        if points % 8 == 0:
            copy = tmp_path / "kafka"
            copy_tree(point.root, copy)
            assert (
                kafka.load(copy / str(T), now=run.case.now, config=run.case.config).error is None
            ), point.label
            undo_all(STORAGE, copy)
            assert_as_before(run, copy, f"{point.label}, loaded by Kafka", checkpoints=False)
            shutil.rmtree(copy)
            with_kafka += 1
        directory = f"{point.root}/{T}"
        recover(STORAGE, directory)
        holds.check(point.root, point.label)
        assert leftovers(STORAGE, directory) == (), point.label
        undo_all(STORAGE, point.root)
        assert_as_before(run, point.root, point.label)
    assert (points, with_kafka) > (100, 12)


@pytest.mark.parametrize(
    "name", ["kept", "kept, all deleted", "kept, compact", "kept, transactions"]
)
def test_undo_of_stopped_run_is_refused_once_kafka_has_cleaned(
    name: str, crash_run: Callable[[str], CrashRun], kafka: Kafka, tmp_path: Path
) -> None:
    run = crash_run(name)
    refused = 0
    for point in crash_states(
        run.staged, tmp_path / "crash", run.effects, out_of_order=False, every=29
    ):
        directory = point.root / str(T)
        assert kafka.load(directory, now=run.case.now, config=run.case.config).error is None, (
            point.label
        )
        with LogDirWriter(point.root, clock=lambda: run.case.now, cluster_id="c") as log_dir:
            log = log_dir.partition("t", 0, leader_epoch=9)
            for key in (b"a", b"z"):
                log.append_records([Record(0, run.case.now, key, b"later")])
                log.roll()
        logs = files_of(directory, LOG)
        kafka.attend(
            [directory], now=run.case.now + HOUR_MS, hw_checkpoint=True, config=run.case.config
        )
        assert files_of(directory, LOG) != logs, point.label
        cleaned = read_log(directory).records
        if not kept_run_ids(STORAGE, str(directory)):
            continue
        (found,) = api.recover([str(point.root)], undo_run="run").partitions
        # Without a step that came to pass there is nothing to put back.
        assert found.error is None or "the log has changed since the run" in found.error, (
            point.label
        )
        assert (found.error is None) <= (found.segments_restored == 0), point.label
        assert read_log(directory).records == cleaned, point.label
        refused += found.error is not None
    assert refused > 1


@pytest.mark.parametrize("name", ["kept", "kept, compact", "kept, transactions"])
def test_stopped_undo_restores_all_or_nothing_once_kafka_has_cleaned(
    name: str, crash_run: Callable[[str], CrashRun], kafka: Kafka, tmp_path: Path
) -> None:
    """Kafka cleans what is already restored, up to the same offset as the run."""
    run = crash_run(name)
    outcomes = set()
    for point in crash_points(run.after, tmp_path / "crash", undo_all, every=21):
        directory = point.root / str(T)
        assert kafka.load(directory, now=run.case.now, config=run.case.config).error is None, (
            point.label
        )
        kafka.attend([directory], now=run.case.now, hw_checkpoint=True, config=run.case.config)
        cleaned = read_log(directory).records
        if not kept_run_ids(STORAGE, str(directory)):
            continue
        (found,) = api.recover([str(point.root)], undo_run="run").partitions
        back = found.error is None
        assert back or "the log has changed since the run" in str(found.error), point.label
        assert read_log(directory).records == (
            read_log(run.before / str(T)).records if back else cleaned
        ), point.label
        outcomes.add(back)
    assert outcomes


@pytest.mark.parametrize("name", CASES)
def test_undo_stopped_anywhere_can_be_finished(
    name: str, crash_run: Callable[[str], CrashRun], kafka: Kafka, tmp_path: Path
) -> None:
    run = crash_run(name)
    holds = must_hold(run, tmp_path)
    points = 0
    for point in crash_points(run.after, tmp_path / "crash", undo_all):
        points += 1
        if points % 3:
            continue
        if points % 12 == 0:
            _assert_kafka_agrees(run, kafka, point.root, tmp_path / "kafka", point.label)
        recover(STORAGE, f"{point.root}/{T}")
        _assert_nothing_lost(holds, point.root, point.label)
        undo_all(STORAGE, point.root)
        assert_as_before(run, point.root, point.label)
    assert points > 60


def test_all_replaced_segments_are_kept_and_counted(crash_run: Callable[[str], CrashRun]) -> None:
    run = crash_run("kept")
    directory = run.after / str(T)
    (run_id,) = kept_run_ids(STORAGE, str(directory))
    kept = read_kept(STORAGE, str(directory), run_id)
    assert run.result.kept_bytes == kept.bytes
    files = [path for path in directory.glob(".winnow-kept-*/**/*") if path.is_file()]
    assert kept.bytes == sum(path.stat().st_size for path in files)
    gone = set(files_of(run.before / str(T), LOG).values()) - set(files_of(directory, LOG).values())
    assert gone <= {path.read_bytes() for path in directory.glob(".winnow-kept-*/*/*.log")}


def test_broker_ignores_kept_files(
    crash_run: Callable[[str], CrashRun], kafka: Kafka, tmp_path: Path
) -> None:
    run = crash_run("kept")
    copies = [tmp_path / "with", tmp_path / "without"]
    for copy in copies:
        copy_tree(run.after, copy)
    for path in (copies[1] / str(T)).glob(".winnow-*"):
        shutil.rmtree(path)
    loaded = [
        kafka.load(copy / str(T), now=run.case.now, config=run.case.config) for copy in copies
    ]
    assert loaded[0].error is None
    assert loaded[0].lines == loaded[1].lines
    assert loaded[0].state == loaded[1].state


def test_kafka_loads_same_log_after_undo_as_before_run(
    crash_run: Callable[[str], CrashRun], kafka: Kafka, tmp_path: Path
) -> None:
    run = crash_run("kept")
    before, undone = tmp_path / "before", tmp_path / "undone"
    copy_tree(run.before, before)
    copy_tree(run.after, undone)
    undo_all(STORAGE, undone)
    assert not list(undone.rglob(".winnow*"))
    views = [
        kafka.load(copy / str(T), now=run.case.now, config=run.case.config)
        for copy in (before, undone)
    ]
    assert views[0].lines == views[1].lines
    assert views[0].state == views[1].state


def assert_as_before(run: CrashRun, root: Path, label: str, *, checkpoints: bool = True) -> None:
    """Byte for byte. If all segments were deleted, the new active segment is kept.

    Kafka's loader rewrites snapshots and epochs, so after it only the log is compared.
    """
    directory, before = root / str(T), run.before / str(T)
    suffixes = (LOG, *INDEX_SUFFIXES) + ((SNAPSHOT, LEADER_EPOCHS) if checkpoints else ())
    found, wanted = files_of(directory, *suffixes), files_of(before, *suffixes)
    rolled = segment_file(read_log(before).end, "")
    for name in found.keys() - wanted.keys():
        assert name.startswith(rolled), f"{label}: {name}"
        assert not found.pop(name), f"{label}: {name}"
    assert found == wanted, label
    assert not [path for path in directory.iterdir() if path.is_dir()], label
    if checkpoints:
        for name in (CLEANER_CHECKPOINT, LOG_START_CHECKPOINT):
            assert checkpoint_entry(root, name, str(T)) == checkpoint_entry(
                run.before, name, str(T)
            ), label


def _assert_nothing_lost(holds: MustHold, root: Path, label: str) -> None:
    """Whole from the first record on, and at least what the run left; values as before (compare
    `MustHold.check`).
    """
    found = read_log(root / str(T))
    assert found.end == holds.before.end, label
    assert found.by_offset.items() <= holds.before.by_offset.items(), label
    assert holds.after.by_offset.keys() <= found.by_offset.keys(), label
    checkpoint, was = checkpoint_entry(root, CLEANER_CHECKPOINT, str(T)), holds.checkpoint_before
    if found.by_offset.keys() - holds.compacted.keys():
        assert checkpoint == was, f"{label}: the checkpoint calls clean what is not"


def _assert_kafka_agrees(
    run: CrashRun, kafka: Kafka, root: Path, scratch: Path, label: str
) -> None:
    ours, theirs = scratch / "ours", scratch / "theirs"
    scratch.mkdir()
    for copy in (ours, theirs):
        copy_tree(root, copy)
    recover(STORAGE, f"{ours}/{T}")
    assert kafka.load(theirs / str(T), now=run.case.now, config=run.case.config).error is None, (
        label
    )
    assert files_of(ours / str(T), LOG) == files_of(theirs / str(T), LOG), label
    shutil.rmtree(scratch)


def test_refused_undo_changes_nothing(crash_run: Callable[[str], CrashRun], tmp_path: Path) -> None:
    run = crash_run("kept")
    copy_tree(run.after, tmp_path / "log")
    output = min((tmp_path / "log" / str(T)).glob("*.log"))
    output.write_bytes(output.read_bytes()[:-1] + b"?")
    storage = RecordingStorage(tmp_path / "log")
    with pytest.raises(CorruptLogError, match="the log has changed since the run"):
        undo_all(storage, tmp_path / "log")
    assert storage.effects == []
