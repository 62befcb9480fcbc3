"""Freeing space on a disk without a free byte, stopped at each of its effects: a broker starts on
what is there (docs/decisions/0012).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.crash.replay import Effect, RecordingStorage, crash_states
from tests.fixtures.data import CLEAN_MARKER, copy_tree
from tests.kafka.cleaner.runs import read_checkpoint
from tests.kafka.judge.judge import Kafka, Line, Loaded
from tests.spark.runs import (
    NOW,
    add_partition,
    by_name,
    new_log_dir,
    set_checkpoint,
    settings,
    stray_files,
)
from winnow.cleaning.request import Request
from winnow.cleaning.result import RunResult
from winnow.cleaning.run import run as run_request
from winnow.logdir.names import (
    LEADER_EPOCHS,
    LOG_START_CHECKPOINT,
)
from winnow.storage.places import Places

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NAMES = ("d-time-0", "d-size-0", "c-tomb-0")
"""The last one is compacted only, and loses nothing."""
EXPIRED = (
    "d-*:cleanup.policy=delete",
    "d-*:retention.ms=4440000000",
    "d-*:retention.bytes=-1",
)
EVERYTHING = 10**9
WRITES = {"create", "mkdir", "link"}
"""Effects that take room, or may: a directory is a block on some file systems."""


class FullStorage(RecordingStorage):
    """Storage on a file system without a free byte. What is removed makes room."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.room = 0

    def unlink(self, path: str) -> None:
        size = os.stat(path).st_size
        super().unlink(path)
        self.room += size

    def create(self, path: str, data: bytes, **named: object) -> None:
        self._take(path, len(data))
        super().create(path, data, **named)

    def mkdir(self, path: str) -> None:
        self._take(path, 1)
        super().mkdir(path)

    def _take(self, path: str, size: int) -> None:
        if size > self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        self.room -= size


@dataclass(frozen=True)
class How:
    clean_shutdown: bool
    all_first: bool
    """`--free-at-least`, which deletes everywhere before it writes; not `--only retention`."""


HOW = {
    "free at least": How(clean_shutdown=True, all_first=True),
    "free at least, crashed": How(clean_shutdown=False, all_first=True),
    "retention only, crashed": How(clean_shutdown=False, all_first=False),
}


@dataclass(frozen=True)
class Freed:
    """A run that was not disturbed, and what Kafka finds before it."""

    how: How
    before: Path
    after: Path
    effects: list[Effect]
    result: RunResult
    loaded: Mapping[str, list[Line]] = field(default_factory=dict)
    """Records by partition."""


def free(spark: SparkSession, log_dir: Path, storage: Places, how: How) -> RunResult:
    request = Request(
        settings=settings(*EXPIRED),
        now=NOW,
        touch=True,
        storage=storage,
        free_at_least=EVERYTHING if how.all_first else None,
        only=None if how.all_first else "retention",
    )
    return run_request(spark, [str(log_dir)], request)


def full_log_dir(path: Path, *, clean_shutdown: bool) -> Path:
    """Logs of which retention takes all but the last segments; the log start of one lies in its
    second.
    """
    log_dir = new_log_dir(path)
    for name in NAMES:
        add_partition(log_dir, name, name)
    bases = sorted(int(log.stem) for log in (log_dir / "d-size-0").glob("*.log"))
    set_checkpoint(log_dir / LOG_START_CHECKPOINT, "d-size-0", bases[1] + 1)
    (log_dir / ".lock").touch()
    if not clean_shutdown:
        (log_dir / CLEAN_MARKER).unlink()
    return log_dir


@pytest.fixture(scope="module", params=HOW)
def freed(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    kafka: Kafka,
    tmp_path_factory: pytest.TempPathFactory,
) -> Freed:
    how, scratch = HOW[request.param], tmp_path_factory.mktemp("freed")
    before = full_log_dir(scratch / "before", clean_shutdown=how.clean_shutdown)
    after = scratch / "after"
    copy_tree(before, after)
    storage = FullStorage(after)
    result = free(spark, after, storage, how)
    copy_tree(before, scratch / "kafkas")
    loaded = {name: load(kafka, scratch / "kafkas", name).records for name in NAMES}
    return Freed(how, before, after, storage.effects, result, loaded)


def load(kafka: Kafka, log_dir: Path, name: str) -> Loaded:
    """What a starting broker makes of a partition; changes it."""
    unclean = not (log_dir / CLEAN_MARKER).exists()
    return kafka.load(log_dir / name, now=NOW, unclean=unclean, hw_checkpoint=True)


def test_nothing_is_written_before_something_was_freed(freed: Freed) -> None:
    assert [p.error for p in freed.result.partitions] == [None] * len(NAMES)
    first = next(n for n, effect in enumerate(freed.effects) if effect.method == "unlink")
    early = [effect for effect in freed.effects[:first] if effect.method in WRITES]
    assert early == []
    assert any(effect.method in WRITES for effect in freed.effects), "later something is written"
    assert stray_files(freed.after) == []


def test_full_storage_refuses_a_write_before_a_removal(tmp_path: Path) -> None:
    storage = FullStorage(tmp_path)
    (tmp_path / "old").write_bytes(bytes(10))
    with pytest.raises(OSError, match="No space left"):
        storage.create(str(tmp_path / "new"), bytes(1))
    storage.unlink(str(tmp_path / "old"))
    storage.create(str(tmp_path / "new"), bytes(10))
    with pytest.raises(OSError, match="No space left"):
        storage.mkdir(str(tmp_path / "directory"))


@pytest.mark.parametrize(
    ("out_of_order", "every", "least"),
    [
        (False, 8, 18),
        (True, 100, 12),
        pytest.param(False, 1, 140, marks=pytest.mark.slow),
        pytest.param(True, 1, 1200, marks=pytest.mark.slow),
    ],
)
def test_broker_starts_after_a_crash_at_any_effect(
    freed: Freed,
    kafka: Kafka,
    tmp_path: Path,
    *,
    out_of_order: bool,
    every: int,
    least: int,
) -> None:
    """The log ends where it did, has no hole, and begins where retention lets it or before."""
    starts = {name: by_name(freed.result)[name].log_start_offset_after for name in NAMES}
    points = 0
    for point in crash_states(
        freed.before, tmp_path / "crash", freed.effects, out_of_order=out_of_order, every=every
    ):
        for name in NAMES:
            loaded = load(kafka, point.root, name)
            assert loaded.error is None, f"{point.label}: {name}: {loaded.error}"
            start = loaded.state["start_offset"]
            assert start <= (starts[name] or 0), f"{point.label}: {name} begins at {start}"
            expected = [line for line in freed.loaded[name] if line["o"] >= start]
            found = [line for line in loaded.records if line["o"] >= start]
            assert [line["o"] for line in found] == [line["o"] for line in expected], point.label
            assert [(line["k"], line["v"]) for line in found] == [
                (line["k"], line["v"]) for line in expected
            ], point.label
        points += 1
    assert points >= least, f"only {points} crash points were tried"


def test_next_run_finishes_after_a_crash_at_any_effect(
    freed: Freed, spark: SparkSession, tmp_path: Path
) -> None:
    # After a broker's crash side files that a run left behind are left to the broker (S6.3): it
    # folds the leader epochs.
    later = (
        {LEADER_EPOCHS, f"{LEADER_EPOCHS}.tmp", f"{LOG_START_CHECKPOINT}.tmp"}
        if not (freed.before / CLEAN_MARKER).exists()
        else set()
    )
    points = 0
    for point in crash_states(freed.before, tmp_path / "crash", freed.effects, every=9):
        again = free(spark, point.root, Places(), freed.how)
        assert [p.error for p in again.partitions] == [None] * len(NAMES), point.label
        strays = [path for path in stray_files(point.root) if Path(path).name not in later]
        assert strays == [], point.label
        for name in NAMES:
            ours, wanted = (
                {p.name: p.read_bytes() for p in (root / name).iterdir() if p.name not in later}
                for root in (point.root, freed.after)
            )
            assert ours == wanted, f"{point.label}: {name}"
        entries = read_checkpoint(point.root / LOG_START_CHECKPOINT)
        if later:
            # A broker drops an entry that lies below the first segment.
            entries = {
                name: offset
                for name, offset in entries.items()
                if offset > (by_name(freed.result)[name].log_start_offset_after or 0)
            }
        assert entries == {}, point.label
        points += 1
    assert points >= 4
