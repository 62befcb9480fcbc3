"""`doctor`: every figure is that of the plan, and every command on the page runs."""

from __future__ import annotations

import json
import re
import subprocess
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.crash.runs import read_log
from tests.disks import after_an_error, disk_or_skip
from tests.fixtures.data import TOPIC_CONFIGS, copy_log_dir
from tests.session import verbs_use
from tests.spark.runs import NOW, by_name, changes, clean, files_of, plan, run, settings
from tests.twins.encoding import encode_batch
from tests.twins.walk import decode_batch
from winnow.api import doctor, recover
from winnow.api.result import freed_bytes
from winnow.cleaning.result import COMPACTED, RETAINED, TOMBSTONE_AGES_MS
from winnow.cli.main import run as run_command
from winnow.cli.text.json_output import to_json
from winnow.policy.sources import Settings
from winnow.verbs.doctor.values import Census
from winnow.verbs.erase.values import Amount
from winnow.wire.batch import CONTROL, DELETE_HORIZON, HEADER_V2_SIZE
from winnow.wire.buffers import Rows
from winnow.wire.plain import Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DAY_MS = 86_400_000
GIVEN = ["--topic-configs", str(TOPIC_CONFIGS), "--now", str(NOW)]
Command = Callable[..., tuple[int, str]]


def append_batch(directory: Path, records: Sequence[tuple[bytes | None, bytes | None]]) -> int:
    """One batch at the end of a log, in the active segment; how many of its records have no key."""
    end = read_log(directory).end
    batch = encode_batch(
        [Record(end + i, NOW - DAY_MS, key, value) for i, (key, value) in enumerate(records)]
    )
    with max(directory.glob("*.log")).open("ab") as log:
        log.write(batch)
    return sum(key is None for key, _ in records)


def census_plain(log_dir: Path, one: Census, now: int) -> Census:
    """The same by reading batch after batch, record after record, in Python."""
    keyless, ages = Amount(0, 0), [Amount(0, 0)] * (len(TOMBSTONE_AGES_MS) + 1)
    horizons = {
        "horizon_come": Amount(0, 0),
        "horizon_to_come": Amount(0, 0),
        "no_horizon": Amount(0, 0),
    }
    for log in (log_dir / f"{one.topic}-{one.partition}").glob("*.log"):
        data = log.read_bytes()
        position = 0
        while position < len(data):
            row, records = decode_batch(data, position)
            position += int(row["size"])
            attributes, horizon = int(row["attributes"]), int(row["base_timestamp"])
            age = bisect_right(TOMBSTONE_AGES_MS, now - max(int(row["max_timestamp"]), 0))
            kind = (
                "no_horizon"
                if not attributes & DELETE_HORIZON
                else "horizon_come"
                if horizon <= now
                else "horizon_to_come"
            )
            for record in records if not attributes & CONTROL else ():
                alone = Amount(1, size_in_batch(record, row))
                if record.key is None:
                    keyless += alone
                elif record.value is None:
                    ages[age] += alone
                    horizons[kind] += alone
    return replace(one, keyless=keyless, tombstones=tuple(ages), **horizons)


def size_in_batch(record: Record, row: Rows) -> int:
    """Of one record as it lies in its batch: what an encoded batch has more with it than
    without.
    """
    base, horizon = int(row["base_offset"]), int(row["base_timestamp"])
    whole = encode_batch([record], base_offset=base, delete_horizon=horizon)
    return len(whole) - HEADER_V2_SIZE


@pytest.fixture
def command(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    verbs_use(spark, monkeypatch)

    def call(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        code = run_command(list(words))
        return code, capsys.readouterr().out

    return call


def test_figures_equal_the_plan_and_nothing_changes(spark: SparkSession, tmp_path: Path) -> None:
    log_dir = copy_log_dir("clean", tmp_path / "log-dir")
    before = files_of(log_dir)
    found = doctor(spark, [str(log_dir)], settings=settings(), now=NOW)
    assert changes(before, files_of(log_dir)) == []
    previewed = by_name(run(plan, spark, log_dir))
    due = {name for name, p in previewed.items() if COMPACTED in p.actions}
    assert {f"{o.topic}-{o.partition}" for o in found.overdue} == due != set()
    retained = [p for p in previewed.values() if p.actions == (RETAINED,)]
    gains = {gain.what: gain for gain in found.gains}
    assert gains["retention"].freed_bytes == sum(
        (p.bytes_before or 0) - (p.bytes_after or 0) for p in retained
    )
    assert gains["compaction"].partitions == len(due)
    assert gains["compaction"].freed_bytes >= sum(o.dirty_bytes for o in found.overdue)
    assert gains["compaction"].seconds > 0
    assert sum(topic.log_bytes for topic in found.topics) == sum(
        p.bytes_before or 0 for p in previewed.values()
    )
    (held,) = [h for h in found.held_back if h.topic == "t-open"]
    assert (
        f"producer {held.producer_id} has a transaction open since offset {held.first_offset}"
        in held.words
    )
    assert held.held_bytes > 0
    assert held.last_seen is not None
    (disk,) = found.disks
    assert 0 < disk.free_bytes < disk.total_bytes


def test_deep_counts_equal_those_of_the_plain_reader(spark: SparkSession, tmp_path: Path) -> None:
    """On recorded logs and on one with keyless records, cleaned once so that batches have delete
    horizons.
    """
    log_dir = copy_log_dir("clean", tmp_path / "log-dir", only=["c-tomb-0", "c-zstd-0"])
    keyless = append_batch(log_dir / "c-zstd-0", [(None, b"value"), (None, None), (b"key", None)])
    assert run(clean, spark, log_dir, only="compaction").exit_code == 0
    day_later = NOW + DAY_MS
    for now in (NOW, day_later - 1, day_later):
        found = doctor(spark, [str(log_dir)], settings=settings(), now=now, deep=True)
        assert found.census is not None
        assert {
            f"{one.topic}-{one.partition}": census_plain(log_dir, one, now) for one in found.census
        } == {f"{one.topic}-{one.partition}": one for one in found.census}
        by_topic = {one.topic: one for one in found.census}
        assert by_topic["c-zstd"].keyless.records == keyless
        tombstones = by_topic["c-tomb"]
        assert (tombstones.horizon_come.records > 0) == (now == day_later)
        assert tombstones.horizon_to_come.records + tombstones.horizon_come.records > 0
        assert "doctor" not in [advice.arguments[0] for advice in found.advice]


def test_damage_in_log_not_due_is_named_by_deep_look(spark: SparkSession, tmp_path: Path) -> None:
    """The damage does not hide the advice for logs that are due."""
    log_dir = copy_log_dir("clean", tmp_path / "log-dir", only=["c-tomb-0", "c-zstd-0"])
    for log in (log_dir / "c-zstd-0").glob("*.log"):
        with log.open("r+b") as file:
            file.seek(HEADER_V2_SIZE)
            file.write(bytes(16))
    not_due = settings("c-zstd:min.cleanable.dirty.ratio=1")
    found = doctor(spark, [str(log_dir)], settings=not_due, now=NOW, deep=True)
    assert [o.topic for o in found.overdue] == ["c-tomb"]
    assert [(gain.what, gain.partitions) for gain in found.gains] == [("compaction", 1)]
    sound, damaged = found.census or ()
    assert sound.error is None
    assert sum((age.records for age in sound.tombstones), 0) > 0
    assert "CRC" in (damaged.error or "")
    assert str(log_dir / "c-zstd-0") in (damaged.error or "")
    assert {damaged.keyless, *damaged.tombstones} == {Amount(0, 0)}


def test_cleaner_idle_for_a_day_is_reported(spark: SparkSession, tmp_path: Path) -> None:
    log_dir = copy_log_dir("clean", tmp_path / "log-dir", only=["c-none-0"])
    checkpoint = log_dir / "cleaner-offset-checkpoint"
    last = int(checkpoint.stat().st_mtime * 1000)

    def dead(now: int) -> str | None:
        return doctor(spark, [str(log_dir)], settings=settings(), now=now).dead_cleaner

    assert dead(last + DAY_MS // 2) is None
    assert "no cleaner has finished a partition there for 3 d" in (dead(last + 3 * DAY_MS) or "")
    checkpoint.unlink()
    assert "no cleaner has ever finished a partition there" in (dead(last) or "")


def test_every_command_on_the_page_frees_what_it_promises(tmp_path: Path, command: Command) -> None:
    log_dir = copy_log_dir("clean", tmp_path / "log-dir", only=["c-none-0", "d-size-0", "t-open-0"])
    code, out = command("doctor", str(log_dir), *GIVEN, "--json")
    assert code == 0
    told = json.loads(out)
    commands = [item["command"] for item in told["advice"]]
    assert [words[1] for words in commands] == ["clean", "clean", "explain", "doctor"]
    results: list[dict[str, Any]] = []
    for script, *words in commands:
        assert script == "./spark-submit.sh"
        assert str(TOPIC_CONFIGS) in words
        code, out = command(*words, "--now", str(NOW), "--json")
        assert code == 0
        results.append(json.loads(out))
    freed = sum(p["bytes_before"] - p["bytes_after"] for p in results[0]["partitions"])
    assert freed == next(
        gain["freed_bytes"] for gain in told["gains"] if gain["what"] == "retention"
    )
    assert results[-1]["census"] is not None
    _, out = command("doctor", str(log_dir), *GIVEN, "--all")
    assert re.search("nothing: open transactions keep .*; the settings of other topics", out)


@pytest.mark.parametrize("how", ["mounted", "after an error"])
def test_doctor_reports_a_read_only_disk_and_suggests_no_change(
    how: str, tmp_path: Path, command: Command
) -> None:
    error = how == "after an error"
    options = ",errors=remount-ro" if error else ""
    with disk_or_skip(tmp_path / "disk", mib=16, kind="ext4", options=options) as disk:
        log_dir = copy_log_dir("clean", disk / "log-dir", only=["c-tomb-0"])
        (log_dir / ".lock").touch()
        if error:
            after_an_error(disk)
        else:
            subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        code, text = command("doctor", str(log_dir), *GIVEN, "--all")
    said = " ".join(text.split())
    assert code == 3
    assert f"{log_dir} is mounted read-only" in said
    assert "Do not start the broker" in said
    asked = [line.split()[1] for line in text.splitlines() if line.startswith("  ./spark-submit")]
    assert asked == ["doctor"]


def test_after_crash_doctor_finds_what_the_plain_commands_free(
    spark: SparkSession, tmp_path: Path
) -> None:
    log_dir = copy_log_dir("clean", tmp_path / "log-dir", only=["c-none-0", "d-size-0"])
    (log_dir / ".kafka_cleanshutdown").unlink()
    found = doctor(spark, [str(log_dir)], settings=settings(), now=NOW)
    assert not found.disks[0].clean_shutdown
    cleans = [advice for advice in found.advice if advice.arguments[0] == "clean"]
    assert cleans
    assert {word for advice in cleans for word in advice.arguments} <= {
        "clean",
        "--only",
        "retention",
    }
    result = run(clean, spark, log_dir, only="retention")
    (gain,) = [gain for gain in found.gains if gain.what == "retention"]
    freed = [(p.bytes_before or 0) - (p.bytes_after or 0) for p in result.partitions]
    assert sum(freed) == gain.freed_bytes > 0


def test_damage_and_unknown_topics_suggest_the_right_verb(
    spark: SparkSession, tmp_path: Path
) -> None:
    log_dir = copy_log_dir("damaged", tmp_path / "log-dir", only=["x-torn-0"])
    found = doctor(spark, [str(log_dir)], settings=settings("x-*:cleanup.policy=compact"), now=NOW)
    (trouble,) = found.troubles
    assert trouble.error is not None
    assert found.exit_code == 3
    assert [advice.arguments for advice in found.advice] == [("verify", "--topics", "x-torn")]
    unknown = copy_log_dir("clean", tmp_path / "unknown", only=["c-none-0"])
    found = doctor(spark, [str(unknown)], settings=Settings(), now=NOW)
    assert [advice.arguments for advice in found.advice] == [
        ("plan", "--topic-set", "c-none:cleanup.policy=")
    ]


def test_what_was_left_and_what_is_kept_is_found(spark: SparkSession, tmp_path: Path) -> None:
    """The settings allow nothing, but a killed run, a broker and a kept run take space."""
    log_dir = copy_log_dir("clean", tmp_path / "log-dir", only=["c-none-0", "d-size-0"])
    done = run(clean, spark, log_dir, only="retention", keep_replaced=True)
    none = ("*:cleanup.policy=delete", "*:retention.ms=-1", "*:retention.bytes=-1")
    staging = log_dir / "c-none-0" / ".winnow-20260101T000000Z-00000000"
    staging.mkdir()
    (staging / f"{0:020d}.log").write_bytes(bytes(1000))
    (log_dir / "c-none-0" / f"{0:020d}.log.deleted").write_bytes(bytes(100))

    def diagnosis() -> dict[str, int]:
        found = doctor(spark, [str(log_dir)], settings=settings(*none), now=NOW)
        commands = [advice.arguments for advice in found.advice if advice.arguments[0] != "doctor"]
        assert commands == [_TO_FREE[gain.what] for gain in found.gains]
        return {gain.what: gain.freed_bytes for gain in found.gains}

    kept = diagnosis()["kept"]
    assert sum(partition.kept_bytes or 0 for partition in done.partitions) == kept
    found = recover([str(log_dir)], dry_run=True).partitions
    assert sum(one.bytes for partition in found for one in partition.kept) == kept
    assert diagnosis() == {"leftovers": 1100, "kept": kept}
    assert recover([str(log_dir)], dry_run=True).partitions[0].removed
    recover([str(log_dir)])
    assert diagnosis() == {"kept": kept}
    purged = recover([str(log_dir)], purge_run="all")
    assert sum(partition.bytes_freed for partition in purged.partitions) == kept > 0
    assert diagnosis() == {}


def test_freed_bytes_are_those_of_the_disk_and_none_counts_twice(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A run that keeps what it replaces makes the logs smaller, and takes more of the disk."""

    def logs() -> int:
        return sum(log.stat().st_size for log in log_dir.rglob("*.log"))

    log_dir = copy_log_dir("clean", tmp_path / "log-dir", only=["c-none-0", "d-size-0"])
    before = logs()
    done = run(clean, spark, log_dir, keep_replaced=True)
    told = to_json(done)["totals"]
    assert told["bytes_before"] == before
    assert told["bytes_freed"] == freed_bytes(done.partitions) == before - logs() < 0
    assert told["bytes_kept"] == sum(p.kept_bytes or 0 for p in done.partitions) > before / 2
    everything = sum(file.stat().st_size for file in log_dir.rglob("*") if file.is_file())
    purged = sum(p.bytes_freed for p in recover([str(log_dir)], purge_run="all").partitions)
    after = sum(file.stat().st_size for file in log_dir.rglob("*") if file.is_file())
    assert purged == everything - after == told["bytes_kept"]


_TO_FREE = {"leftovers": ("recover",), "kept": ("recover", "--purge", "all")}
