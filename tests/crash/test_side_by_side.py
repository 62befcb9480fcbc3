"""Two partitions are committed at the same time. Each keeps its own order of effects, whatever the
other one does, and so every crash leaves both as a crash of its own run would (decision 50).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.crash.logs import leftovers
from tests.crash.replay import Effect, crash_states
from tests.crash.runs import (
    CrashRun,
    MustHold,
    checkpoint_entry,
    content_of,
    gather,
    must_hold,
    read_log,
    run_winnow,
)
from tests.crash.turns import (
    NAMES,
    SCHEDULES,
    TakingTurns,
    alternating,
    at_random,
    one_ahead,
    switches,
)
from tests.crash.two import Alone
from tests.fixtures.data import copy_tree
from tests.kafka.judge.judge import Kafka
from winnow.logdir.commit.recovery import recover
from winnow.logdir.names import CLEANER_CHECKPOINT, LOG
from winnow.storage.local import LocalStorage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

STORAGE = LocalStorage()


@dataclass(frozen=True)
class Both:
    """A run that committed two partitions at the same time."""

    before: Path
    staged: Path
    effects: list[Effect]
    after: Path
    alone: dict[str, CrashRun]
    """Of each partition, the run that cleans nothing else."""

    def holds(self, scratch: Path) -> dict[str, MustHold]:
        for name in self.alone:
            (scratch / name).mkdir(parents=True)
        return {name: must_hold(run, scratch / name) for name, run in self.alone.items()}


def commit_both(
    spark: SparkSession, before: Path, alone: dict[str, CrashRun], turns: Iterator[str], to: Path
) -> Both:
    after, staged = to / "after", to / "staged"
    copy_tree(before, after)
    storage = TakingTurns(after, turns, before_first=lambda: copy_tree(after, staged))
    results = run_winnow(spark, after, alone[NAMES[0]].case, storage=storage)
    assert [r.error for r in results] == [None, None]
    assert switches(storage.effects) > 4
    for name, run in alone.items():
        # What a run keeps is in a directory of its own: `test_undo.py` looks at that.
        assert _files(after / name) == _files(run.after / name)
        for file in ("cleaner-offset-checkpoint", "log-start-offset-checkpoint"):
            assert checkpoint_entry(after, file, name) == checkpoint_entry(run.after, file, name)
    return Both(before, staged, storage.effects, after, alone)


@pytest.mark.parametrize(
    ("case", "schedule", "out_of_order", "every", "least"),
    [
        ("compact", "alternating", False, 2, 100),
        ("compact,delete", "one ahead", False, 3, 80),
        ("compact,delete", "random 0", True, 31, 20),
        ("delete", "random 1", False, 2, 70),
        *(
            pytest.param(case, schedule, out_of_order, 1, 100, marks=pytest.mark.slow)
            for case in ("compact", "compact,delete", "delete", "kept")
            for schedule in SCHEDULES
            for out_of_order in (False, True)
        ),
    ],
)
def test_crash_leaves_each_of_two_as_if_it_were_alone(
    case: str,
    schedule: str,
    *,
    out_of_order: bool,
    every: int,
    least: int,
    spark: SparkSession,
    alone: Alone,
    kafka: Kafka,
    tmp_path: Path,
) -> None:
    both = commit_both(spark, *alone(case), SCHEDULES[schedule](), tmp_path)
    holds = both.holds(tmp_path / "holds")
    points = 0
    for point in crash_states(
        both.staged,
        tmp_path / "crash",
        both.effects,
        out_of_order=out_of_order,
        every=every,
    ):
        if point.in_order is out_of_order:
            continue
        copies = {name: tmp_path / f"kafka-{points}-{name}" for name in NAMES if points % 16 == 0}
        for name, copy in copies.items():
            copy.mkdir()
            copy_tree(point.root / name, copy / name)
        for name, hold in holds.items():
            directory = f"{point.root}/{name}"
            recover(STORAGE, directory)
            assert leftovers(STORAGE, directory) == (), point.label
            hold.check(point.root, f"{name}: {point.label}")
        for name, copy in copies.items():
            config = both.alone[name].case.config
            loaded = kafka.load(copy / name, now=both.alone[name].case.now, config=config)
            assert loaded.error is None, point.label
            ours = read_log(point.root / name)
            assert [line["o"] for line in loaded.records] == [*ours.by_offset], point.label
            assert _logs(copy / name) == _logs(point.root / name), point.label
        points += 1
    assert points >= least


@pytest.mark.parametrize("case", ["compact,delete"])
def test_next_run_ends_where_the_crashed_run_would_have(
    case: str,
    spark: SparkSession,
    alone: Alone,
    tmp_path: Path,
) -> None:
    both = commit_both(spark, *alone(case), SCHEDULES["random 2"](), tmp_path)
    for name, run in both.alone.items():
        crashed = tmp_path / f"crashed-{name}"
        points = crash_states(both.staged, tmp_path / f"points-{name}", both.effects, every=9)
        labels = gather(replace(run.case, partition=name), both.before, points, crashed)
        assert len(labels) > 25
        results = run_winnow(spark, crashed, run.case)
        assert [r.error or r.reason for r in results if r.error or r.left_alone] == []
        for partition, label in labels.items():
            assert content_of(crashed / partition) == content_of(run.after / name), label
            for file in (CLEANER_CHECKPOINT, "log-start-offset-checkpoint"):
                assert checkpoint_entry(crashed, file, partition) == checkpoint_entry(
                    run.after, file, name
                ), label


def test_checkpoint_follows_the_groups_of_its_partition(
    spark: SparkSession,
    alone: Alone,
    tmp_path: Path,
) -> None:
    """Whatever the other partition does: an entry may appear only when all groups of its partition
    are in place, and its journal may be removed only after that.
    """
    before, runs = alone("compact")
    for number, turns in enumerate((alternating(), one_ahead(), at_random(3))):
        (tmp_path / str(number)).mkdir()
        both = commit_both(spark, before, runs, turns, tmp_path / str(number))
        for name, run in runs.items():
            mine = [e for e in both.effects if e.paths[0].split("/")[0] == name]
            theirs = [e for e in run.effects if e.paths[0].split("/")[0] == name]
            assert [*map(_shape, mine)] == [*map(_shape, theirs)]
            end = checkpoint_entry(run.after, CLEANER_CHECKPOINT, name)
            line = f"t {name[-1]} {end}\n"
            entry = next(
                at
                for at, effect in enumerate(both.effects)
                if effect.method == "create" and line in _text(effect)
            )
            moved = next(
                at
                for at, effect in enumerate(both.effects)
                if at > entry and effect.paths[-1] == CLEANER_CHECKPOINT
            )
            groups = [at for at, e in enumerate(both.effects) if e in mine and _is_swap(e)]
            gone = [at for at, e in enumerate(both.effects) if e in mine and _is_end(e)]
            assert max(groups) < entry < moved < min(gone)


def _shape(effect: Effect) -> tuple[str, ...]:
    """An effect without the names that differ between two runs."""
    names = (path.rpartition("/")[2].split(".") for path in effect.paths)
    random_name = len(uuid.uuid4().hex)
    return (
        effect.method,
        *(".".join(part for part in name if len(part) != random_name) for name in names),
    )


def _text(effect: Effect) -> str:
    (data,) = effect.rest
    assert isinstance(data, bytes)
    return data.decode(errors="replace")


def _is_swap(effect: Effect) -> bool:
    return effect.method == "rename" and effect.paths[0].endswith(".swap")


def _is_end(effect: Effect) -> bool:
    return effect.method == "rename" and effect.paths[1].endswith(".gone")


def _files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def _logs(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.glob(f"*{LOG}")}
