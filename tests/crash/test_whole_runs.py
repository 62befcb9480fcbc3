"""A whole run is stopped at every effect that it has, and two loaders look at what is left: ours and Kafka's own (S6)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash.replay import CrashPoint, fingerprint
from tests.crash.runs import CrashRun, MustHold, files_of, must_hold, read_log
from tests.fixtures.data import copy_tree
from tests.kafka.judge import Kafka
from winnow.logdir.listing import list_segments
from winnow.logdir.recovery import leftovers, recover
from winnow.storage.local import LocalStorage

pytestmark = pytest.mark.spark

STORAGE = LocalStorage()
INDEXES = (".index", ".timeindex")


@pytest.mark.parametrize(
    ("name", "out_of_order", "least"),
    [
        ("compact", False, 140),
        ("compact", True, 300),
        ("compact,delete", False, 170),
        ("delete", False, 80),
        ("delete", True, 500),
        ("recorded", False, 100),
    ],
)
def test_both_loaders_find_all_that_must_be_there(
    name: str,
    *,
    out_of_order: bool,
    least: int,
    crash_run: Callable[[str], CrashRun],
    kafka: Kafka,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    run = crash_run(name)
    holds = must_hold(run, tmp_path)
    points = judged = 0
    for point in run.crashes(tmp_path / "crash", out_of_order=out_of_order):
        # Out of order there are many states much alike; Kafka takes its time to look at one.
        copies = {}
        if point.in_order or points % 5 == 0:
            copies = {unclean: tmp_path / f"kafka-{points}-{unclean}" for unclean in (False, True)}
        for copy in copies.values():
            copy_tree(point.root, copy)
        _assert_recovered(run, point, holds)
        for unclean, copy in copies.items():
            _assert_kafka_agrees(run, kafka, copy, point, unclean=unclean)
            judged += 1
        points += 1
    record_property("crash points", points)
    record_property("of them loaded by Kafka", judged // 2)
    assert points > least


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


def _assert_kafka_agrees(run: CrashRun, kafka: Kafka, copy: Path, point: CrashPoint, *, unclean: bool) -> None:
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
    assert files_of(theirs, ".log") == files_of(ours, ".log"), label
    if point.in_order and not unclean:
        # After an unclean shutdown Kafka builds indexes anew; out of order it has to where one is lost, and we only tell.
        assert files_of(theirs, *INDEXES) == files_of(ours, *INDEXES), label
