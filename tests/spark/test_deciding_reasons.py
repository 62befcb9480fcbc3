"""The reason that a verb gives is the one that decides: a lost high watermark, a timestamp in the
future or from before Kafka, or damage, rather than settings.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.one_page import checked
from tests.spark.runs import by_name, new_log_dir, plan, run, set_checkpoint, settings
from tests.twins.encoding import encode_batch
from tests.unit.cleaning.partitions import make_partition
from tests.unit.cli.results import printed
from winnow import api
from winnow.cli.doctor import page
from winnow.cli.options import CommandLine
from winnow.logdir.names import HIGH_WATERMARK_CHECKPOINT, LOG_START_CHECKPOINT
from winnow.wire.plain import Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from winnow.verbs.doctor.values import Diagnosis

pytestmark = pytest.mark.spark

NOW = 1_795_300_000_000
DAY = 86_400_000
OLD = NOW - 30 * DAY
BY_TIME = ("*:cleanup.policy=delete", f"*:retention.ms={7 * DAY}", "*:retention.bytes=-1")


def batch(offset: int, *timestamps: int) -> bytes:
    return encode_batch(
        [Record(offset + n, at, b"k%d" % n, b"v" * 50) for n, at in enumerate(timestamps)]
    )


def with_log(log_dir: Path, name: str, *segments: tuple[int, ...], committed: bool = True) -> None:
    """Add a partition. Each segment has one batch with a record of each timestamp."""
    bases = [sum(map(len, segments[:number])) for number in range(len(segments))]
    batches = {base: [batch(base, *stamps)] for base, stamps in zip(bases, segments, strict=True)}
    make_partition(log_dir / name, batches)
    if committed:
        end = sum(map(len, segments))
        set_checkpoint(log_dir / HIGH_WATERMARK_CHECKPOINT, name, end)


def diagnosed(spark: SparkSession, log_dir: Path, *sets: str) -> tuple[Diagnosis, str]:
    """Return what the doctor finds, and its page as one line."""
    found = api.doctor(spark, [str(log_dir)], settings=settings(*sets), now=NOW)
    request = CommandLine(log_dirs=(str(log_dir),))
    checked(found, request)
    lines = page(found, request)
    return found, " ".join(printed(lines, 100).split())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "is missing"),
        ("", "is empty"),
        ("0\n0\n", "has no entries"),
        ("0\n1\nother 0 5\n", "has no entry of the partition"),
    ],
)
def test_lost_high_watermark_is_named_and_not_the_settings(
    spark: SparkSession, tmp_path: Path, content: str | None, words: str
) -> None:
    log_dir = new_log_dir(tmp_path / "log-dir")
    with_log(log_dir, "big-0", *[(OLD, OLD)] * 3, committed=False)
    if content is not None:
        (log_dir / HIGH_WATERMARK_CHECKPOINT).write_text(content)
    log_bytes = sum(file.stat().st_size for file in (log_dir / "big-0").glob("*.log"))
    found, text = diagnosed(spark, log_dir, *BY_TIME)
    [held] = found.held
    assert (held.by, held.log_bytes) == ("high-watermark", log_bytes)
    assert held.words == f"{HIGH_WATERMARK_CHECKPOINT} {words}"
    assert "Start the broker" in text
    assert "settings allow none" not in text
    result = run(plan, spark, log_dir, sets=BY_TIME, now=NOW, free_at_least=10**6)
    assert f"{HIGH_WATERMARK_CHECKPOINT} {words}" in by_name(result)["big-0"].reason
    [note] = [note for note in result.notes if "--free-at-least" in note]
    assert "Lost high watermarks keep" in note
    assert "Shorter retention" not in note


def test_high_watermark_of_zero_is_named_as_such(spark: SparkSession, tmp_path: Path) -> None:
    log_dir = new_log_dir(tmp_path / "log-dir")
    with_log(log_dir, "big-0", (OLD,), (OLD,))
    set_checkpoint(log_dir / HIGH_WATERMARK_CHECKPOINT, "big-0", 0)
    found, _ = diagnosed(spark, log_dir, *BY_TIME)
    assert [one.words for one in found.held] == [
        f"the high watermark in {HIGH_WATERMARK_CHECKPOINT} is 0"
    ]


def test_timestamp_in_the_future_names_its_record_and_what_it_keeps(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The record is neither the first nor the last of its batch."""
    log_dir = new_log_dir(tmp_path / "log-dir")
    with_log(log_dir, "del-0", (OLD, OLD, 2**63 - 2, OLD), (OLD, OLD), (OLD,))
    with_log(log_dir, "fine-0", (OLD,), (NOW,))
    found, text = diagnosed(spark, log_dir, *BY_TIME)
    [held] = found.held
    log_bytes = sum(file.stat().st_size for file in (log_dir / "del-0").glob("*.log"))
    assert (held.topic, held.by, held.log_bytes) == ("del", "future-timestamp", log_bytes)
    assert "segment 0 has a timestamp in the future (offset 2, +292278994-08-17" in held.words
    assert held.words in by_name(run(plan, spark, log_dir, sets=BY_TIME, now=NOW))["del-0"].reason
    told = api.explain(
        spark, [str(log_dir)], partition="del-0", settings=settings(*BY_TIME), now=NOW
    )
    assert held.words in told.reason
    assert "Held by timestamps in the future" in text


def test_timestamps_in_seconds_are_dated_before_a_topic_is_emptied(
    spark: SparkSession, tmp_path: Path
) -> None:
    log_dir = new_log_dir(tmp_path / "log-dir")
    with_log(log_dir, "sec-0", (NOW // 1000,), (NOW // 1000 + 1,))
    found, text = diagnosed(spark, log_dir, *BY_TIME)
    [held] = found.held
    assert held.by == "old-timestamps"
    assert held.words.startswith("the newest record is of 1970-01-21T18:41:40.001Z (seconds")
    assert "Deleted by timestamps much older than the files" in text
    planned = by_name(run(plan, spark, log_dir, sets=BY_TIME, now=NOW))["sec-0"]
    assert planned.actions == ("retained",)
    assert held.words in planned.reason


@pytest.mark.parametrize("clean_shutdown", [True, False])
def test_damage_is_told_although_settings_are_unknown(
    spark: SparkSession, tmp_path: Path, *, clean_shutdown: bool
) -> None:
    log_dir = new_log_dir(tmp_path / "log-dir")
    for name in ("a-0", "t-0"):
        with_log(log_dir, name, (OLD,), (OLD,), (OLD,))
    if clean_shutdown:
        set_checkpoint(log_dir / LOG_START_CHECKPOINT, "t-0", 150)
        damage = "the log ends before its log start offset"
    else:
        (log_dir / ".kafka_cleanshutdown").unlink()
        for name in ("a-0", "t-0"):
            set_checkpoint(log_dir / "recovery-point-offset-checkpoint", name, 2)
        (log_dir / "t-0" / f"{0:020d}.timeindex").write_bytes(b"damaged")
        damage = "timeindex"
    found, text = diagnosed(spark, log_dir)
    assert [(one.topic, one.rule) for one in found.troubles] == [("t", "S8.8"), ("a", "S9.2")]
    assert damage in (found.troubles[0].error or "")
    assert found.exit_code == 3
    assert text.index("Damaged, or failed") < text.index("What can be freed")
    assert "settings allow none" not in text
    planned = by_name(run(plan, spark, log_dir, sets=(), now=NOW))
    assert damage in (planned["t-0"].error or "")
    assert "settings are unknown as well" in planned["t-0"].reason
    assert planned["a-0"].error is None
