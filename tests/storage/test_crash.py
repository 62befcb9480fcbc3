"""An in-place run is stopped at every change that it makes in HDFS, and recovered as on a local
disk.

HDFS keeps changes in order, so these are all the states that a crash can leave.
"""

from __future__ import annotations

import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hdfs_native import WriteOptions

from tests.crash.replay import CrashPoint, Effect, RecordingStorage, replay
from tests.crash.runs import CrashRun, MustHold, must_hold, run_winnow
from tests.crash.turns import NAMES, SCHEDULES, TakingTurns, switches
from tests.crash.two import Alone
from tests.spark.runs import stray_files
from tests.storage.test_in_place import contents
from tests.storage.test_output import download, upload
from winnow.api import recover
from winnow.errors import LogDirInUseError
from winnow.logdir import lease
from winnow.logdir.names import LOCK
from winnow.storage.hdfs.client import connect, split_url
from winnow.storage.lease_file import Seen
from winnow.storage.places import Places, check_fences, lease_file_of, storage_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SLOW = pytest.mark.slow

CI_EVERY = 36
"""Of so many crash points the CI tries one; with `-m slow` they are all tried
(docs/proofs/hdfs.md).
"""


@pytest.fixture
def root(name_node: str, tmp_path: Path) -> str:
    url = storage_of(name_node).canonical(f"{name_node}/{tmp_path.name}")
    Places().ensure_dir(url)
    return url


@pytest.mark.parametrize("name", ["compact,delete", "delete"])
def test_run_makes_same_changes_in_same_order(
    name: str, root: str, crash_run: Callable[[str], CrashRun], spark: SparkSession, tmp_path: Path
) -> None:
    run = crash_run(name)
    upload(run.before, f"{root}/log-dir")
    storage = RecordingStorage(f"{root}/log-dir")
    (result,) = run_winnow(spark, f"{root}/log-dir", run.case, storage=storage)
    assert (result.error, result.actions) == (None, run.result.actions)
    assert [_told(effect) for effect in storage.effects] == [
        _told(effect) for effect in run.effects
    ]
    found, here = (
        contents(at) for at in (download(f"{root}/log-dir", tmp_path / "found"), run.after)
    )
    assert {name: digest for name, (digest, _) in found.items()} == {
        name: digest for name, (digest, _) in here.items()
    }


@pytest.mark.parametrize(
    ("case", "schedule"), [("compact,delete", "alternating"), ("delete", "random 1")]
)
def test_commits_of_two_partitions_overlap_and_each_keeps_its_order(
    case: str, schedule: str, root: str, alone: Alone, spark: SparkSession, tmp_path: Path
) -> None:
    """A name node keeps the order of all changes, so a crash leaves of each partition a beginning
    of its own changes: `test_every_crash_state_is_recovered` tries all of them.
    """
    before, runs = alone(case)
    url = f"{root}/log-dir"
    upload(before, url)
    storage = TakingTurns(url, SCHEDULES[schedule](), before_first=lambda: None)
    results = run_winnow(spark, url, runs[NAMES[0]].case, storage=storage)
    assert [result.error for result in results] == [None, None]
    assert switches(storage.effects) > 4
    found = contents(download(url, tmp_path / "found"))
    for name, run in runs.items():
        assert [_told(e) for e in storage.effects if e.paths[0].startswith(f"{name}/")] == [
            _told(e) for e in run.effects if e.paths[0].startswith(f"{name}/")
        ]
        assert {path: digest for path, (digest, _) in found.items() if path.startswith(name)} == {
            f"{name}/{path}": digest for path, (digest, _) in contents(run.after / name).items()
        }


class LosingLease(TakingTurns):
    """Before the effect with a given number, another run takes the lease."""

    def __init__(self, url: str, turns: Iterator[str], *, at: int) -> None:
        super().__init__(url, turns, before_first=lambda: None)
        self._url, self._at = url, at
        self.taken: Seen | None = None

    def take_turn(self, method: str, act: Callable[[], None], path: str) -> None:
        def lose_first() -> None:
            if len(self.effects) == self._at and self.taken is None:
                file = lease_file_of(self._url)
                seen = file.look()
                assert seen is not None
                self.taken = file.take(b"{}", seen)
                with suppress(LogDirInUseError):
                    while True:
                        check_fences(self._url)
                        time.sleep(0.01)
            act()

        super().take_turn(method, lose_first, path)


@pytest.mark.parametrize("part", [0.4, *(pytest.param(n / 20, marks=SLOW) for n in range(20))])
def test_lost_lease_stops_both_commits_and_next_run_completes_them(
    part: float,
    root: str,
    alone: Alone,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lease, "LENGTH_S", 3)
    before, runs = alone("compact,delete")
    url, case = f"{root}/log-dir", runs[NAMES[0]].case
    upload(before, url)
    at = int(part * sum(len(run.effects) for run in runs.values()))
    storage = LosingLease(url, SCHEDULES["alternating"](), at=at)
    results = run_winnow(spark, url, case, storage=storage)
    assert storage.taken is not None
    assert all(effect.is_sync for effect in storage.effects[at:])
    assert all(result.error is None or "is lost" in result.error for result in results)
    assert any(result.error for result in results)
    lease_file_of(url).remove(storage.taken)
    recovered = recover([url])
    assert [result.error for result in recovered.partitions] == [None, None]
    results = run_winnow(spark, url, case)
    assert [result.error for result in results] == [None, None]
    found = download(url, tmp_path / "found")
    assert stray_files(found) == []
    for name, run in runs.items():
        assert contents(found / name) == contents(run.after / name)


@pytest.mark.parametrize(
    ("name", "every"),
    [
        ("compact,delete", CI_EVERY),
        ("delete", CI_EVERY),
        *(
            pytest.param(name, 1, marks=pytest.mark.slow)
            for name in ("compact,delete", "delete", "transactions")
        ),
    ],
)
@pytest.mark.timeout(3600)
def test_every_crash_state_is_recovered(
    name: str, every: int, root: str, crash_run: Callable[[str], CrashRun], tmp_path: Path
) -> None:
    run = crash_run(name)
    holds, points = must_hold(run, tmp_path), 0
    for number, point in enumerate(
        run.crashes(tmp_path / "crash", out_of_order=False, every=every)
    ):
        if not point.steps and number % every:  # one of the staging, which come one and all
            continue
        url = f"{root}/{points}"
        upload(run.staged if point.steps else point.root, url)
        replay(point.steps, url)
        left = download(url, tmp_path / "left")
        assert _state(left) == _state(point.root), point.label
        _assert_recovered(holds, point, url, tmp_path / "found")
        shutil.rmtree(tmp_path / "left")
        shutil.rmtree(tmp_path / "found")
        points += 1
    assert points > 80 // every


def test_file_left_open_by_dead_writer_is_removed(
    root: str, crash_run: Callable[[str], CrashRun], tmp_path: Path
) -> None:
    """A file that was never closed still has HDFS's own lease. Only a data node has its last
    bytes.
    """
    run = crash_run("compact,delete")
    upload(run.before, f"{root}/log-dir")
    partition = f"{root}/log-dir/{run.case.partition}"
    staging = f"{partition}/.winnow-run"
    Places().mkdir(staging)
    authority, at = split_url(f"{staging}/{'0' * 20}.log.1")
    writer = connect(authority).create(at, WriteOptions(create_parent=False))
    writer.write(secrets.token_bytes(5000))
    (result,) = recover([f"{root}/log-dir"]).partitions
    assert result.error is None
    assert ".winnow-run" in result.removed
    assert contents(download(f"{root}/log-dir", tmp_path / "found")) == contents(run.before)
    with pytest.raises(FileNotFoundError):
        writer.close()


def _assert_recovered(holds: MustHold, point: CrashPoint, url: str, found: Path) -> None:
    """As `recover` leaves the same state on this machine, and by itself all that must hold."""
    (there,) = recover([url]).partitions
    (here,) = recover([str(point.root)]).partitions
    assert there.error is None, point.label
    assert (there.actions, there.removed, there.renamed) == (
        here.actions,
        here.removed,
        here.renamed,
    ), point.label
    download(url, found)
    assert _state(found) == _state(point.root), point.label
    holds.check(found, point.label)
    # Half a checkpoint is written over by the next one, of ours or a broker's.
    assert [name for name in stray_files(found) if not name.endswith(".tmp")] == [], point.label
    again = recover([url])
    assert not again.partitions[0].removed, point.label


def _told(effect: Effect) -> str:
    """Names that differ in every run are left out."""
    return re.sub(r"[0-9a-f]{32}", "ID", str(effect))


def _state(root: Path) -> dict[str, bytes]:
    """All files; what is left of a staging directory may be empty, and is not downloaded then."""
    files = (path for path in root.rglob("*") if path.is_file() and path.name != LOCK)
    return {str(path.relative_to(root)): path.read_bytes() for path in files}
