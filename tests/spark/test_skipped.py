"""What Kafka's cleaner does not process, and what the disk alone cannot determine (S1.1, S7.5)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.runs import (
    add_partition,
    by_name,
    changes,
    checkpoint,
    clean,
    files_of,
    new_log_dir,
    plan,
    run,
    set_checkpoint,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

MARKED = {
    f"c-tomb-0.{'0a' * 16}-delete": "its topic is being deleted",
    f"d-time-0.{'0b' * 16}-future": "being moved",
    f"c-tomb-1.{'0c' * 16}-stray": "does not expect",
}


def test_deleted_future_and_stray_replicas_are_skipped_and_noted(
    spark: SparkSession, tmp_path: Path
) -> None:
    log_dir = new_log_dir(tmp_path / "d")
    add_partition(log_dir, "c-tomb-0", "c-tomb-0")
    for name in MARKED:
        add_partition(log_dir, "d-time-0", "d-time-0").rename(log_dir / name)
    before = files_of(log_dir)
    for verb in (plan, clean):
        result = run(verb, spark, log_dir)
        assert set(by_name(result)) == {"c-tomb-0"}
        for name, why in MARKED.items():
            assert [
                note
                for note in result.notes
                if f"{log_dir}/{name} is skipped" in note and why in note
            ]
        assert result.exit_code == 0
    assert {name.split("/")[0] for name in changes(before, files_of(log_dir))} == {
        "c-tomb-0",
        "cleaner-offset-checkpoint",
    }


def test_tiered_topic_is_skipped_and_exit_code_reports_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Case 96: the local disk does not show which segments were uploaded."""
    log_dir = new_log_dir(tmp_path / "d")
    for name in ("d-time-0", "copied-0"):
        add_partition(log_dir, name, "d-time-0")
    sets = [
        "*:cleanup.policy=delete",
        "*:retention.ms=1000",
        "*:remote.storage.enable=true",
        "copied:remote.log.copy.disable=true",
    ]
    set_checkpoint(log_dir / "log-start-offset-checkpoint", "copied-0", 0)
    set_checkpoint(log_dir / "cleaner-offset-checkpoint", "copied-0", 7)
    before = files_of(log_dir / "d-time-0")
    result = run(clean, spark, log_dir, sets=sets)
    tiered, copied = by_name(result)["d-time-0"], by_name(result)["copied-0"]
    assert (tiered.actions, tiered.left_alone, tiered.error) == (("none",), True, None)
    assert tiered.rule == "S7.5"
    assert "remote.storage.enable" in tiered.reason
    assert changes(before, files_of(log_dir / "d-time-0")) == []
    assert (copied.actions, copied.left_alone) == (("retained",), False)
    # A broker takes the start of a log with remote storage from this entry alone.
    assert copied.log_start_offset_after
    assert checkpoint(log_dir / "log-start-offset-checkpoint") == {
        "copied-0": copied.log_start_offset_after
    }
    assert checkpoint(log_dir / "cleaner-offset-checkpoint") == {"copied-0": 7}
    assert result.exit_code == 3
