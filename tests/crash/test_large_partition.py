"""A run that rewrites a partition in several waves is stopped at any instant. The next run ends
where it would have ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.crash.replay import CrashPoint
from tests.crash.runs import (
    CrashRun,
    checkpoint_entry,
    content_of,
    gather,
    must_hold,
    read_log,
    run_winnow,
)
from tests.crash.snapshots import Snapshots
from tests.fixtures.data import copy_tree
from tests.kafka.cleaner.runs import write_checkpoint
from winnow.logdir.commit.journal import JOURNAL
from winnow.logdir.commit.roll_forward import put_right
from winnow.logdir.names import CLEANER_CHECKPOINT
from winnow.state import TopicPartition
from winnow.storage.local import LocalStorage

pytestmark = pytest.mark.spark

ONE_GROUP = {"compact,delete": 2000, "transactions": 2000, "unchanged": 600}
"""Bytes: room for one group of the log and its indexes, or two."""


@pytest.fixture(scope="module", params=list(ONE_GROUP))
def waves(
    request: pytest.FixtureRequest,
    crash_run: Callable[[str], CrashRun],
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[CrashRun, Sequence[CrashPoint]]:
    """The same run in one wave, and every state that one in several went through."""
    run, scratch = crash_run(request.param), tmp_path_factory.mktemp("waves")
    ours = scratch / "ours"
    copy_tree(run.before, ours)
    storage = Snapshots(ours, scratch)
    (result,) = run_winnow(
        spark, ours, replace(run.case, max_extra_space=ONE_GROUP[run.case.name]), storage=storage
    )
    assert result.error is None, result.error
    assert content_of(ours / run.case.partition) == content_of(run.after / run.case.partition)
    journals = [effect for effect in storage.effects if effect.paths[-1].endswith("/round.json")]
    assert len(journals) > 1, "there was one wave only"
    return run, storage.points


def test_next_run_continues_with_same_groups(
    waves: tuple[CrashRun, Sequence[CrashPoint]], spark: SparkSession, tmp_path: Path
) -> None:
    run, points = waves
    assert len(points) > 50
    crashed = tmp_path / "crashed"
    labels = gather(run.case, run.before, points, crashed)
    results = {f"{r.topic}-{r.partition}": r for r in run_winnow(spark, crashed, run.case)}
    assert {n: r.error or r.reason for n, r in results.items() if r.error or r.left_alone} == {}
    wanted = content_of(run.after / run.case.partition)
    checkpoint = checkpoint_entry(run.after, CLEANER_CHECKPOINT, run.case.partition)
    for partition, label in labels.items():
        assert content_of(crashed / partition) == wanted, label
        assert checkpoint_entry(crashed, CLEANER_CHECKPOINT, partition) == checkpoint, label


def test_every_intermediate_state_is_a_sound_log(
    waves: tuple[CrashRun, Sequence[CrashPoint]], tmp_path: Path
) -> None:
    run, points = waves
    holds = must_hold(run, tmp_path)
    for point in points[::3]:
        root = tmp_path / point.root.name
        copy_tree(point.root, root)
        put_right(LocalStorage(), str(root), TopicPartition("t", 0), finish=False)
        holds.check(root, point.label)


def test_run_at_later_time_discards_the_rest_and_cleans_anew(
    waves: tuple[CrashRun, Sequence[CrashPoint]], spark: SparkSession, tmp_path: Path
) -> None:
    run, points = waves
    crashed = tmp_path / "crashed"
    labels = gather(run.case, run.before, points[::5], crashed)
    later = replace(run.case, now=run.case.now + 1)
    results = run_winnow(spark, crashed, later)
    assert {r.partition: r.error or r.reason for r in results if r.error or r.left_alone} == {}
    wanted = read_log(run.after / run.case.partition)
    for partition, label in labels.items():
        found = read_log(crashed / partition)
        assert found.end == wanted.end, label
        # Other groups have other ages and sizes, and so retention may take more or less of them.
        assert run.case.deletes or found.state == wanted.state, label
        assert not [path for path in (crashed / partition).iterdir() if path.is_dir()], label


@pytest.mark.parametrize("waves", ["compact,delete", "transactions"], indirect=True)
def test_next_run_under_another_version_finishes_what_was_begun_by_the_old_rules(
    waves: tuple[CrashRun, Sequence[CrashPoint]], spark: SparkSession, tmp_path: Path
) -> None:
    """A round is finished as planned. What was not begun, and the next round, follow the version of
    that run. Kafka 2.8 has no delete horizons.
    """
    run, points = waves
    config = {key.removeprefix("internal."): value for key, value in run.case.config.items()}
    old = replace(run.case, config=config, kafka_version="2.8")
    afresh, crashed, again = tmp_path / "afresh", tmp_path / "crashed", tmp_path / "again"
    copy_tree(run.before, afresh)
    run_winnow(spark, afresh, old)
    by_old, finished = (content_of(root / run.case.partition) for root in (afresh, run.after))
    assert by_old != finished

    labels = gather(run.case, run.before, points[::3], crashed)
    journals = {name: [*(crashed / name).glob(f"*/{JOURNAL}")] for name in labels}
    clean = {
        name
        for name in labels
        if checkpoint_entry(crashed, CLEANER_CHECKPOINT, name)
        == checkpoint_entry(run.after, CLEANER_CHECKPOINT, run.case.partition)
    }
    begun = {name for name in labels if journals[name] or name in clean}
    assert len(begun) > len(labels) / 2
    assert begun < labels.keys()
    results = run_winnow(spark, crashed, old)
    assert {r.partition: r.error or r.reason for r in results if r.error or r.left_alone} == {}
    for name, label in labels.items():
        expected = finished if name in begun else by_old
        assert content_of(crashed / name) == expected, label

    # All is dirty again, and cleaned by the rules of 2.8.
    copy_tree(run.after, again)
    for root in (again, crashed):
        write_checkpoint(root / CLEANER_CHECKPOINT, {})
        run_winnow(spark, root, replace(old, now=run.case.now + 1))
    expected = content_of(again / run.case.partition)
    assert expected != finished
    for name in begun:
        assert content_of(crashed / name) == expected, labels[name]
