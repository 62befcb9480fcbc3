"""`prepare` beside a running broker, and `commit` while it is stopped (S8.12)."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.fixtures.data import TOPIC_CONFIGS, copy_log_dir, copy_tree
from tests.lock_holder import broker
from tests.spark.preparing import (
    CHANGED,
    OTHER,
    asked,
    committed,
    prepared,
    results,
    set_checkpoint,
    staged,
    two_partitions,
)
from tests.spark.runs import by_name, clean, files_of
from winnow.cli.text.table import page, summary
from winnow.clock import DAY_MS, now_ms
from winnow.errors import LogDirInUseError, WinnowError
from winnow.logdir.names import CLEAN_SHUTDOWN

pytestmark = pytest.mark.spark

RETENTION_MS = 1_000_000


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return two_partitions(tmp_path / "log-dir")


def at_once(topic: str, retention_ms: int) -> str:
    return f"{topic}:delete.retention.ms={retention_ms}"


def test_commit_leaves_the_files_of_a_cleaning(spark: SparkSession, tmp_path: Path) -> None:
    """Tombstones are kept longer by the longest allowed age: consumers could read old values until
    the commit.
    """
    log_dir = copy_log_dir("clean", tmp_path / "prepared")
    other, now = tmp_path / "cleaned", now_ms()
    copy_tree(log_dir, other)
    before = files_of(log_dir)
    made = prepared(spark, log_dir, asked(at_once("*", RETENTION_MS)), now=now)
    assert (made.exit_code, made.verb) == (0, "prepare")
    with_staging = files_of(log_dir)
    changed = {name for name in before if with_staging.get(name) != before[name]}
    assert not changed
    done = committed(log_dir)
    settings = asked(at_once("*", RETENTION_MS + DAY_MS)).read()
    expected = clean(spark, [str(other)], now=now, settings=settings)
    assert without_times(log_dir) == without_times(other)
    assert not [*log_dir.glob("*/.winnow*")]
    told, wanted = results(done), by_name(expected)
    assert told.keys() == {name for name, one in wanted.items() if one.acts}
    for name, one in told.items():
        assert (one.actions, one.bytes_after) == (wanted[name].actions, wanted[name].bytes_after)
        assert one.records_removed == wanted[name].records_removed or "retained" in one.actions
        assert (one.segments_after, one.outputs) == (
            wanted[name].segments_after,
            wanted[name].outputs,
        )


def without_times(log_dir: Path) -> dict[str, object]:
    found = files_of(log_dir).items()
    return {name: file and (file.digest, file.mode, file.owner) for name, file in found}


def test_commit_may_be_undone(spark: SparkSession, log_dir: Path) -> None:
    prepared(spark, log_dir)
    done = committed(log_dir, keep=True)
    assert all(one.kept_bytes for one in done.partitions)


def test_dry_run_changes_nothing(spark: SparkSession, log_dir: Path) -> None:
    prepared(spark, log_dir)
    before = files_of(log_dir)
    done = committed(log_dir, dry_run=True)
    assert {one.reason for one in done.partitions} == {
        "the preparation holds: `commit` installs it"
    }
    assert files_of(log_dir) == before


def test_commit_refuses_a_running_broker(spark: SparkSession, log_dir: Path) -> None:
    prepared(spark, log_dir)
    with broker(log_dir), pytest.raises(LogDirInUseError):
        committed(log_dir)
    assert staged(log_dir).keys() == {CHANGED, OTHER}


def test_prepare_refuses_an_unclean_directory_without_a_broker(
    spark: SparkSession, log_dir: Path
) -> None:
    (log_dir / CLEAN_SHUTDOWN).unlink()
    with pytest.raises(WinnowError, match="Use `clean`, or prepare while the broker runs"):
        prepared(spark, log_dir, runs=False)
    assert prepared(spark, log_dir).exit_code == 0


def test_commit_after_an_unclean_stop(spark: SparkSession, log_dir: Path) -> None:
    """What lies below the recovery point was on the disk before."""
    prepared(spark, log_dir)
    (log_dir / CLEAN_SHUTDOWN).unlink()
    assert committed(log_dir).exit_code == 0


def test_preparation_is_no_leftover_and_is_removed_by_clean(
    spark: SparkSession, log_dir: Path
) -> None:
    import winnow  # noqa: PLC0415

    prepared(spark, log_dir)
    assert winnow.verify(spark, str(log_dir)).status == "sound"
    plan = winnow.plan(spark, str(log_dir), topic_configs=str(TOPIC_CONFIGS))
    assert [one.actions for one in plan.partitions] == [("compacted",)] * 2
    done = winnow.clean(spark, str(log_dir), topic_configs=str(TOPIC_CONFIGS))
    assert [one.actions for one in done.partitions] == [("compacted",)] * 2
    assert not [*log_dir.glob("*/.winnow*")]


def test_recover_removes_preparations(spark: SparkSession, log_dir: Path) -> None:
    from winnow import api  # noqa: PLC0415

    prepared(spark, log_dir)
    api.recover(str(log_dir))
    assert not [*log_dir.glob("*/.winnow*")]


def test_doctor_shows_preparations_and_which_still_hold(spark: SparkSession, log_dir: Path) -> None:
    from winnow import api  # noqa: PLC0415

    prepared(spark, log_dir)
    set_checkpoint("cleaner-offset-checkpoint", 0)(log_dir)
    found = api.doctor(spark, str(log_dir), settings=asked().read(), now=now_ms())
    status = {f"{one.topic}-{one.partition}": one for one in found.preparations}
    assert status.keys() == {CHANGED, OTHER}
    assert status[OTHER].dropped is None
    assert status[CHANGED].dropped is not None
    assert status[CHANGED].dropped.startswith("cleaner checkpoint: expected")
    for name, one in status.items():
        (staging,) = staged(log_dir)[name]
        assert one.bytes == sum(file.stat().st_size for file in staging.iterdir())
    (use,) = found.space
    (kind,) = [one for one in use.uses if one.kind == "prepared"]
    assert kind.apparent_bytes >= sum(one.bytes for one in status.values())
    assert not [one for one in use.uses if one.kind == "leftovers"]


def test_plan_beside_a_broker_tells_what_a_preparation_takes(
    spark: SparkSession, log_dir: Path
) -> None:
    import winnow  # noqa: PLC0415

    with broker(log_dir):
        plan = winnow.plan(spark, str(log_dir), topic_configs=str(TOPIC_CONFIGS))
    (note,) = [note for note in plan.notes if "`prepare`" in note]
    assert "2 partitions" in note


def test_erase_removes_preparations(spark: SparkSession, log_dir: Path) -> None:
    """They hold what is to be erased."""
    from winnow import api  # noqa: PLC0415

    prepared(spark, log_dir)
    api.erase(spark, str(log_dir), keys=[b"no such key"], topics=["c-tomb"])
    assert CHANGED not in staged(log_dir)


def test_only_what_is_flushed_is_prepared(spark: SparkSession, log_dir: Path) -> None:
    """A power failure may take back what the broker has not flushed."""
    set_checkpoint("recovery-point-offset-checkpoint", 1)(log_dir)
    told = results(prepared(spark, log_dir))
    assert told[CHANGED].actions == ("none",)
    assert "up to the recovery point 1" in told[CHANGED].reason
    assert staged(log_dir).keys() == {OTHER}


def test_pages_say_what_is_prepared_and_what_is_not(spark: SparkSession, log_dir: Path) -> None:
    made = prepared(spark, log_dir)
    assert next(iter(page(made, 100))).startswith("2 of 2 partitions prepared, at ")  # type: ignore[union-attr]
    assert " would be freed of " in summary(made)
    done = committed(log_dir)
    assert next(iter(page(done, 100))).startswith("2 of 2 partitions cleaned, at ")  # type: ignore[union-attr]
    assert "would" not in summary(done)
    assert next(iter(page(committed(log_dir), 100))) == "Nothing is prepared."


def test_retention_is_left_to_the_broker_after_an_unclean_stop(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Nobody knows yet where its log ends."""
    log_dir = copy_log_dir("clean", tmp_path / "log-dir", only=["d-time-0"])
    prepared(spark, log_dir)
    (log_dir / CLEAN_SHUTDOWN).unlink()
    before = {name: file for name, file in files_of(log_dir).items() if ".winnow" not in name}
    (one,) = committed(log_dir).partitions
    assert (one.actions, one.reason) == (("none",), "only retention was prepared")
    assert files_of(log_dir) == before


def test_log_end_is_read_from_the_log(spark: SparkSession, tmp_path: Path) -> None:
    """The new empty segment begins there, whatever a checkpoint says."""
    log_dir = copy_log_dir("clean", tmp_path / "log-dir", only=["d-time-0"])
    other = tmp_path / "other"
    copy_tree(log_dir, other)
    for place in (log_dir, other):
        prepared(spark, place)
    path = other / "recovery-point-offset-checkpoint"
    path.write_text(path.read_text().replace("d-time 0 4000", "d-time 0 3999"))
    assert committed(log_dir).exit_code == committed(other).exit_code == 0
    logs = [sorted(log.name for log in (d / "d-time-0").glob("*.log")) for d in (log_dir, other)]
    assert logs[0] == logs[1] == [f"{4000:020}.log"]


def test_prepare_leaves_what_an_interrupted_run_with_keep_replaced_has_kept(
    spark: SparkSession, log_dir: Path
) -> None:
    """What an interrupted `--keep-replaced` has kept is settled, not removed."""
    keeping = log_dir / CHANGED / ".winnow-20261128T000000Z-01234567-keep"
    keeping.mkdir()
    prepared(spark, log_dir)
    assert keeping.exists()
