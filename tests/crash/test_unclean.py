"""A run on a log directory whose broker crashed is stopped at any instant. Kafka's loader then
recovers the log, with every record that must remain.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.crash.conftest import CASES
from tests.crash.runs import CrashRun, must_hold, record_run, run_winnow
from tests.crash.small_log import NAME, NOW, make_small_log
from tests.fixtures.data import CLEAN_MARKER
from tests.kafka.cleaner.runs import write_checkpoint
from tests.kafka.judge.judge import Kafka

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def torn(spark: SparkSession, kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> CrashRun:
    """No marker and no recovery point."""
    scratch = tmp_path_factory.mktemp("unclean")
    before = scratch / "before"
    make_small_log(before, kafka)
    (before / CLEAN_MARKER).unlink()
    write_checkpoint(before / "recovery-point-offset-checkpoint", {})
    run = record_run(spark, before, CASES["compact,delete"], scratch)
    active = max((before / NAME).glob("*.log"))
    for root in (run.before, run.staged, run.after):
        path = root / NAME / active.name
        assert path.read_bytes() == active.read_bytes()
    return run


def test_unflushed_sources_are_synced_before_the_first_is_replaced(torn: CrashRun) -> None:
    replaced = {
        effect.paths[0].removesuffix(".log")
        for effect in torn.effects
        if effect.method == "rename" and effect.paths[1].endswith(".log.deleted")
    }
    first = next(n for n, effect in enumerate(torn.effects) if effect.method == "rename")
    synced = {
        effect.paths[0].removesuffix(".log")
        for effect in torn.effects[:first]
        if effect.method == "fsync_file"
    }
    assert replaced
    assert replaced <= synced


def test_kafkas_loader_recovers_every_state_after_a_crash(
    torn: CrashRun, kafka: Kafka, tmp_path: Path
) -> None:
    holds = must_hold(torn, tmp_path)
    count = 0
    for point in torn.crashes(tmp_path / "states", out_of_order=False, every=2):
        directory = point.root / NAME
        with max(directory.glob("*.log")).open("ab") as file:
            file.write(bytes(3000))
        loaded = kafka.load(directory, now=NOW, unclean=True)
        assert loaded.error is None, point.label
        assert loaded.state["end_offset"] == holds.before.end, point.label
        holds.check(point.root, point.label)
        count += 1
    assert count > 50


def test_next_run_ends_where_the_first_would_have(
    torn: CrashRun, spark: SparkSession, tmp_path: Path
) -> None:
    count = 0
    for point in torn.crashes(tmp_path / "states", out_of_order=False, every=25):
        (result,) = run_winnow(spark, point.root, torn.case)
        assert result.error is None, point.label
        ours, expected = (
            {path.name: path.read_bytes() for path in sorted((root / NAME).glob("*.log"))}
            for root in (point.root, torn.after)
        )
        assert ours == expected, point.label
        count += 1
    assert count > 3
