"""`prepare` and `commit` are stopped at each of their effects. Kafka's own loader and Winnow then
find every record that must remain, and the next commit finishes or gives up (S8.12).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.crash.conftest import CASES
from tests.crash.logs import leftovers
from tests.crash.replay import CrashPoint, RecordingStorage, crash_states
from tests.crash.runs import Case, CrashRun, MustHold, must_hold, read_log
from tests.crash.small_log import END, NAME, make_small_log
from tests.fixtures.data import copy_tree
from tests.kafka.cleaner.runs import write_checkpoint
from tests.kafka.judge.broker import Broker
from tests.kafka.judge.judge import Kafka
from winnow import api
from winnow.cleaning.asked import SettingsAsked
from winnow.cleaning.prepared.commit import commit_prepared
from winnow.cleaning.prepared.run import prepare
from winnow.cleaning.request import Preparing, Request
from winnow.cleaning.result import RunResult
from winnow.clock import now_ms
from winnow.logdir.commit.recovery import recover
from winnow.logdir.names import CLEAN_SHUTDOWN, PREPARED, RECOVERY_POINT_CHECKPOINT
from winnow.policy.sources import Settings
from winnow.storage.contract import Storage
from winnow.storage.local import LocalStorage
from winnow.storage.places import Places

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

STORAGE = LocalStorage()


def commit(log_dir: Path, storage: Storage | None = None) -> RunResult:
    request = Request(settings=Settings(), now=now_ms(), touch=True, storage=storage or Places())
    return commit_prepared([str(log_dir)], request, dry_run=False)


@dataclass(frozen=True)
class Prepared:
    """A preparation that was committed without a disturbance."""

    run: CrashRun
    """`staged`: what `prepare` has left."""

    def while_preparing(self, scratch: Path) -> Iterator[CrashPoint]:
        """Files appear one after the other, each empty and half at first; `prepared.json` is last,
        under another name at first.
        """
        (staging,) = (self.run.staged / NAME).glob(".winnow-*")
        files = [path for path in sorted(staging.iterdir()) if path.name != PREPARED]
        for number, last in enumerate([*files, staging / PREPARED]):
            size = last.stat().st_size
            for length in sorted({0, size // 2, size}):
                root = scratch / f"{number}-{length}"
                scratch.mkdir(exist_ok=True)
                copy_tree(self.run.staged, root)
                copied = root / NAME / staging.name
                for later in [
                    *files[number + 1 :],
                    *([staging / PREPARED][: last.name != PREPARED]),
                ]:
                    (copied / later.name).unlink()
                path = copied / last.name
                if last.name == PREPARED:
                    path = path.rename(copied / f"{PREPARED}.tmp")
                with path.open("r+b") as file:
                    file.truncate(length)
                yield CrashPoint(root, f"{last.name} at {length} of {size} bytes", in_order=True)

    def while_committing(
        self, scratch: Path, *, out_of_order: bool = False, every: int = 1
    ) -> Iterator[CrashPoint]:
        return crash_states(
            self.run.staged, scratch, self.run.effects, out_of_order=out_of_order, every=every
        )


@pytest.fixture(scope="module")
def ready(
    spark: SparkSession, kafka: Kafka, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Prepared]:
    made: dict[str, Prepared] = {}

    def of(name: str) -> Prepared:
        if name not in made:
            made[name] = _prepared(spark, kafka, CASES[name], tmp_path_factory.mktemp("prepared"))
        return made[name]

    return of


def _prepared(spark: SparkSession, kafka: Kafka, case: Case, scratch: Path) -> Prepared:
    before, staged, after = (scratch / name for name in ("before", "staged", "after"))
    make_small_log(before, kafka, log_start_offset=1 if case.deletes else 0)
    # With an id, a copy with the same bytes counts as the same log.
    metadata = "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n"
    (before / NAME / "partition.metadata").write_text(metadata)
    write_checkpoint(before / RECOVERY_POINT_CHECKPOINT, {NAME: END})
    copy_tree(before, staged)
    sets = tuple(f"{case.topic}:{key}={value}" for key, value in case.config.items())
    asked = SettingsAsked(topic_sets=sets)
    request = Request(
        settings=asked.read(),
        now=case.now,
        touch=False,
        preparing=Preparing(asked=asked, most_age_ms=0, keep_free=0),
    )
    assert prepare(spark, [str(staged)], request).exit_code == 0
    copy_tree(staged, after)
    storage = RecordingStorage(after)
    (result,) = commit(after, storage).partitions
    assert result.actions, result.why
    assert result.acts, result.why
    case = replace(case, partition=NAME)
    return Prepared(CrashRun(case, before, staged, storage.effects, after, result))


def assert_holds(
    point: CrashPoint, run: CrashRun, holds: MustHold, kafka: Kafka, copy: Path
) -> None:
    """What Kafka's loader, and Winnow's recovery, make of a state."""
    copy_tree(point.root, copy)
    for unclean in (False, True):
        loaded = kafka.load(copy / NAME, unclean=unclean, now=run.case.now, config=run.case.config)
        assert loaded.error is None, point.label
        holds.check(copy, f"{point.label}, loaded by Kafka, unclean: {unclean}")
    recovered = copy.with_name(f"{copy.name}-recovered")
    copy_tree(point.root, recovered)
    recover(STORAGE, f"{recovered}/{NAME}")
    holds.check(recovered, f"{point.label}, recovered")
    assert leftovers(STORAGE, f"{recovered}/{NAME}") == (), point.label
    assert not [path for path in (recovered / NAME).iterdir() if path.is_dir()], point.label


CHECKED = [
    ("compact", False, 5),
    ("compact,delete", False, 9),
    pytest.param("compact", False, 1, marks=pytest.mark.slow),
    pytest.param("compact", True, 2, marks=pytest.mark.slow),
    pytest.param("compact,delete", False, 1, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("name", "out_of_order", "every"), CHECKED)
def test_crashed_commit_is_finished_or_given_up(
    name: str,
    *,
    out_of_order: bool,
    every: int,
    ready: Callable[[str], Prepared],
    kafka: Kafka,
    tmp_path: Path,
) -> None:
    made = ready(name)
    run, holds = made.run, must_hold(made.run, tmp_path)
    wanted = read_log(run.after / NAME)
    finished = points = 0
    states = made.while_committing(tmp_path / "crash", out_of_order=out_of_order, every=every)
    for point in states:
        assert_holds(point, run, holds, kafka, tmp_path / f"{points}")
        again = tmp_path / f"again-{points}"
        copy_tree(point.root, again)
        done = commit(again)
        assert not [one.error for one in done.partitions if one.error], point.label
        holds.check(again, f"{point.label}, committed again")
        assert not [path for path in (again / NAME).iterdir() if path.is_dir()], point.label
        loaded = kafka.load(again / NAME, now=run.case.now, config=run.case.config)
        assert loaded.error is None, point.label
        finished += read_log(again / NAME) == wanted
        points += 1
    # The next cleaning, or the broker, does what is left of the retention.
    assert finished > points / (5 if run.case.deletes else 3), f"{finished} of {points}"


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_crashed_preparation_changes_nothing(
    every: int, ready: Callable[[str], Prepared], kafka: Kafka, tmp_path: Path
) -> None:
    made = ready("compact")
    run, holds = made.run, must_hold(made.run, tmp_path)
    before = _own(run.before / NAME)
    for number, point in enumerate(made.while_preparing(tmp_path / "crash")):
        if number % every:
            continue
        assert _own(point.root / NAME) == before, point.label
        assert_holds(point, run, holds, kafka, tmp_path / f"{number}")
        done = commit(point.root)
        assert (done.exit_code, done.partitions) == (0, ()), point.label
        assert _own(point.root / NAME) == before, point.label
        assert not [*point.root.glob("*/.winnow-*")], point.label


def _own(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def test_after_an_unclean_stop_nothing_is_deleted_for_its_age(
    ready: Callable[[str], Prepared], tmp_path: Path
) -> None:
    """All of the log is old enough to be deleted, but nobody has read where it ends."""
    made, log_dir = ready("all too old"), tmp_path / "log-dir"
    assert read_log(made.run.after / NAME).records == []
    copy_tree(made.run.staged, log_dir)
    (log_dir / CLEAN_SHUTDOWN).unlink()
    assert commit(log_dir).exit_code == 0
    assert read_log(log_dir / NAME).end == END
    assert read_log(log_dir / NAME).records


def test_recover_leaves_nothing_of_an_interrupted_commit(
    ready: Callable[[str], Prepared], tmp_path: Path
) -> None:
    for number, point in enumerate(ready("compact").while_committing(tmp_path / "c", every=20)):
        copy = tmp_path / f"{number}"
        copy_tree(point.root, copy)
        assert api.recover(str(copy)).exit_code == 0, point.label
        assert not [*copy.glob("*/.winnow-*")], point.label


@pytest.mark.slow
@pytest.mark.parametrize("delay_ms", [0, 60_000])
def test_broker_restarts_and_deletes_topics_with_staging_directories_of_a_killed_prepare(
    delay_ms: int, ready: Callable[[str], Prepared], tmp_path: Path
) -> None:
    """Each partition of a topic has another state."""
    states = [*ready("compact").while_preparing(tmp_path / "crash")]
    settings = {
        "log.segment.delete.delay.ms": str(delay_ms),
        "log.initial.task.delay.ms": "500",
    }
    topic = "killed"
    with Broker(tmp_path / "log-dir", home=tmp_path / "home", settings=settings) as broker:
        broker.create_topic(topic, partitions=len(states))
        places = [broker.log_dir / f"{topic}-{number}" for number in range(len(states))]
        for point, place in zip(states, places, strict=True):
            created = f"Created log for partition {place.name} in"
            broker.wait_until_logged(created, timeout_seconds=30)
            (staging,) = (point.root / NAME).glob(".winnow-*")
            copy_tree(staging, place / staging.name)
        broker.stop()
        broker.start()
        assert all([*place.glob(".winnow-*")] for place in places)
        broker.delete_topic(topic)
        seconds = 2 * delay_ms / 1000 + 30
        for place in places:
            broker.wait_until_logged(
                f"Deleted log for partition {place.name} ", timeout_seconds=seconds
            )
        assert not [*broker.log_dir.glob(f"{topic}-*")]
        assert not [line for line in broker.complaints if "winnow" in line or topic in line]
        assert broker.poll() is None
    assert len(places) > 20
