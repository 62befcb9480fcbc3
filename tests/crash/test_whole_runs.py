"""A whole run is stopped at each of its effects. Winnow's recovery and Kafka's own loader then open
the result (S6).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash.logs import leftovers
from tests.crash.replay import CrashPoint, RecordingStorage, crash_points, fingerprint
from tests.crash.runs import CrashRun, MustHold, files_of, must_hold, read_log
from tests.crash.unchanged_log import UNCHANGED
from tests.fixtures.data import copy_tree
from tests.kafka.judge.judge import Kafka
from winnow.logdir.commit.recovery import recover
from winnow.logdir.listing import list_segments
from winnow.logdir.names import INDEX, LOG, TIMEINDEX, TXNINDEX
from winnow.storage.local import LocalStorage

pytestmark = pytest.mark.spark

STORAGE = LocalStorage()
INDEXES = (INDEX, TIMEINDEX, TXNINDEX)


@pytest.mark.parametrize(
    ("name", "out_of_order", "every", "least"),
    [
        ("compact", False, 1, 126),
        ("compact", True, 3, 70),
        pytest.param("compact", True, 1, 200, marks=pytest.mark.slow),
        ("compact,delete", False, 1, 148),
        ("delete", False, 1, 85),
        ("delete", True, 3, 200),
        pytest.param("delete", True, 1, 700, marks=pytest.mark.slow),
        ("recorded", False, 1, 114),
        ("transactions", False, 1, 100),
        ("unchanged", False, 1, 70),
        ("unchanged", True, 3, 40),
    ],
)
def test_both_loaders_find_all_records_that_must_remain(
    name: str,
    *,
    out_of_order: bool,
    every: int,
    least: int,
    crash_run: Callable[[str], CrashRun],
    kafka: Kafka,
    tmp_path: Path,
) -> None:
    run = crash_run(name)
    holds = must_hold(run, tmp_path)
    points = judged = 0
    for point in run.crashes(tmp_path / "crash", out_of_order=out_of_order, every=every):
        if point.in_order is out_of_order:
            continue
        # Out of order there are many states much alike; Kafka takes its time to look at one.
        copies = {}
        if point.in_order or points % 8 == 0:
            copies = {unclean: tmp_path / f"kafka-{points}-{unclean}" for unclean in (False, True)}
        for copy in copies.values():
            copy_tree(point.root, copy)
        _assert_recovered(run, point, holds)
        for unclean, copy in copies.items():
            _assert_kafka_agrees(run, kafka, copy, point, unclean=unclean)
            judged += 1
        points += 1
    assert points >= least, f"only {points} crash points were tried, {judged} times by Kafka"


def test_crash_of_the_recovery_changes_no_outcome(
    crash_run: Callable[[str], CrashRun], kafka: Kafka, tmp_path: Path
) -> None:
    """Kafka's loader finishes what our recovery began, and our recovery finishes what it began
    itself.
    """
    run = crash_run("compact")
    partition = run.case.partition
    points = 0

    def recover_in(storage: RecordingStorage, root: Path) -> None:
        recover(storage, f"{root}/{partition}")

    for number, point in enumerate(run.crashes(tmp_path / "crash", out_of_order=False)):
        if number % 6 or not leftovers(STORAGE, f"{point.root}/{partition}"):
            continue
        done = tmp_path / f"{number}"
        copy_tree(point.root, done)
        recover(STORAGE, f"{done}/{partition}")
        for second in crash_points(point.root, tmp_path / "again", recover_in):
            label = f"{point.label}; {second.label}"
            copy = tmp_path / f"kafka-{points}"
            copy_tree(second.root, copy)
            recover(STORAGE, f"{second.root}/{partition}")
            assert files_of(second.root / partition, LOG, *INDEXES) == files_of(
                done / partition, LOG, *INDEXES
            ), label
            assert (
                kafka.load(copy / partition, now=run.case.now, config=run.case.config).error is None
            ), label
            assert files_of(copy / partition, LOG, *INDEXES) == files_of(
                done / partition, LOG, *INDEXES
            ), label
            points += 1
    assert points > 100


def test_small_log_has_one_of_everything(
    crash_run: Callable[[str], CrashRun], tmp_path: Path
) -> None:
    """It contains every kind of file and state that the crashes above should meet."""
    run = crash_run("compact")
    before, after = (read_log(root / run.case.partition) for root in (run.before, run.after))
    logs = files_of(run.after / run.case.partition, LOG)
    sources = files_of(run.before / run.case.partition, LOG)
    assert len(sources) == 2 * len(logs) - 1, "two for each, and the active one"
    assert b"" in logs.values(), "a group of which nothing is left"
    assert after.empty_batches == 1, "kept for a producer"
    assert [key for key, one in after.newest.items() if one.value is None] == [b"b"], (
        "a tombstone that stays"
    )
    assert before.newest.keys() - after.newest.keys() == {b"q", b"z"}, "tombstones that go"
    assert any(one.key == b"q" and one.value for one in before.records), (
        "one of them with the value it deletes"
    )

    both = crash_run("compact,delete")
    assert (
        must_hold(both, tmp_path).compacted.keys()
        > read_log(both.after / both.case.partition).by_offset.keys()
    )
    effects = {
        str(effect).split("/")[-1] for effect in (*both.effects, *crash_run("delete").effects)
    }
    for name in (
        "cleaner-offset-checkpoint",
        "log-start-offset-checkpoint",
        "leader-epoch-checkpoint",
    ):
        assert any(name in effect for effect in effects), name


def test_every_other_segment_of_unchanged_log_stays(
    crash_run: Callable[[str], CrashRun],
) -> None:
    run = crash_run("unchanged")
    assert run.result.segments_unchanged == len(UNCHANGED)
    assert run.result.first_dirty_offset_after == max(UNCHANGED) + 3
    before, after = (
        {path.name: path.stat() for path in (root / run.case.partition).iterdir()}
        for root in (run.before, run.after)
    )
    for base in UNCHANGED:
        for name in (name for name in before if name.startswith(f"{base:020d}")):
            assert before[name].st_mtime_ns == after[name].st_mtime_ns
            assert not [effect for effect in run.effects if f"{base:020d}" in str(effect)]
    changed = set(range(0, 18, 3)) - {*UNCHANGED}
    assert all([e for e in run.effects if f"{base:020d}.log" in str(e)] for base in changed)


def test_transactional_log_has_new_deleted_and_kept_indexes(
    crash_run: Callable[[str], CrashRun],
) -> None:
    run = crash_run("transactions")
    before, after = (read_log(root / run.case.partition) for root in (run.before, run.after))
    indexes = {
        name: files_of(root / run.case.partition, TXNINDEX)
        for name, root in (("before", run.before), ("after", run.after))
    }
    assert len(indexes["before"]) == 5
    assert len(indexes["before"].keys() - indexes["after"].keys()) == 2, (
        "merged into the one before"
    )
    merged = [
        len(data) - len(indexes["before"].get(name, b"")) for name, data in indexes["after"].items()
    ]
    assert max(merged) > 0, "one has more entries than it had"
    last = {one.key: one for one in before.records}
    assert {key for key, one in before.newest.items() if last[key] != one} >= {b"a", b"h", b"b"}, (
        "newest, but aborted"
    )
    assert before.newest.keys() >= after.newest.keys() - {b"c"}
    assert {one.offset for one in after.records} & before.void, (
        "markers, and what is not decided below the cleaned range"
    )


def _assert_recovered(run: CrashRun, point: CrashPoint, holds: MustHold) -> None:
    directory = point.root / run.case.partition
    recover(STORAGE, str(directory))
    holds.check(point.root, point.label)
    assert leftovers(STORAGE, str(directory)) == (), point.label
    assert not [path for path in directory.iterdir() if path.is_dir()], point.label
    if point.in_order:
        assert list_segments(STORAGE, str(directory)).problems == (), point.label
    once = fingerprint(directory)
    assert not recover(STORAGE, str(directory)), point.label
    assert fingerprint(directory) == once, point.label


def _assert_kafka_agrees(
    run: CrashRun, kafka: Kafka, copy: Path, point: CrashPoint, *, unclean: bool
) -> None:
    """Kafka's loader on a copy of what the crash left, against our recovery of it."""
    label = f"{point.label} (unclean: {unclean})"
    ours, theirs = point.root / run.case.partition, copy / run.case.partition
    loaded = kafka.load(theirs, unclean=unclean, now=run.case.now, config=run.case.config)
    assert loaded.error is None, label
    found = read_log(ours)
    assert loaded.state["end_offset"] == found.end, label
    assert [(line["o"], line["k"]) for line in loaded.records] == [
        (one.offset, None if one.key is None else one.key.hex()) for one in found.records
    ], label
    assert files_of(theirs, LOG) == files_of(ours, LOG), label
    if point.in_order and not unclean:
        # After an unclean shutdown Kafka rebuilds indexes. With reordered effects one may be lost:
        # Kafka rebuilds it, and Winnow leaves the partition alone and reports it.
        assert files_of(theirs, *INDEXES) == files_of(ours, *INDEXES), label
