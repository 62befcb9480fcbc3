"""Runs in the ledger: what it contains, concurrent writers, and failures that do not stop the
run.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from chispa import assert_df_equality

from tests.spark.runs import NOW, add_partition, by_name, clean, new_log_dir, run
from tests.unit.cli.results import idle, left_alone, partition, run_of
from winnow.api import history, ledger_table
from winnow.cleaning.result import RunResult
from winnow.cli.text.progress import Display
from winnow.errors import UsageError
from winnow.ledger.append import LOCK, Addition, append
from winnow.ledger.rows import cleaning
from winnow.ledger.schema import LEDGER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
LAG = 86_400_000


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    return str(tmp_path / "the ledger" / "100% ours")


def entry(result: RunResult, *, ended: int = NOW, host: str = "h") -> Addition:
    made = cleaning(result, log_dirs=["/kafka"], started=ended - 2000, ended=ended)
    by = {"user": "u", "host": host}
    return replace(made, rows=[json.dumps(json.loads(row) | by) for row in made.rows])


def of_id(run_id: str, result: RunResult) -> RunResult:
    return RunResult(run_id=run_id, verb=result.verb, now=result.now, partitions=result.partitions)


def test_recorded_run_equals_its_result(spark: SparkSession, ledger: str, tmp_path: Path) -> None:
    log_dir = new_log_dir(tmp_path / "log")
    add_partition(log_dir, "q-0", "c-none-0")
    result = run(
        clean,
        spark,
        log_dir,
        ledger=ledger,
        sets=["q:cleanup.policy=compact", "q:max.compaction.lag.ms=5"],
    )
    assert result.ledger == ledger
    (told,) = by_name(result).values()
    table = ledger_table(spark, ledger)
    (row,) = table.collect()
    for name in (
        "topic",
        "partition",
        "log_dir",
        "policy",
        "reason",
        "bytes_before",
        "bytes_after",
        "records_after",
    ):
        assert row[name] == getattr(told, name), name
    assert (row.run_id, row.actions, row.max_compaction_lag_ms) == (result.run_id, ["compacted"], 5)
    assert row.bytes_after < row.bytes_before
    past = history(spark, ledger)
    (ran,) = past.runs
    assert (ran.cleaned, ran.partitions, ran.left_alone) == (1, 1, 0)
    assert past.freed_bytes == row.bytes_before - row.bytes_after
    (of_partition,) = past.partitions
    assert of_partition.last_cleaned == ran.ended
    assert of_partition.due == told.oldest_dirty_timestamp + 5  # type: ignore[operator]


def test_ledger_has_segments_and_reasons_of_removed_records(
    spark: SparkSession, ledger: str, tmp_path: Path
) -> None:
    log_dir = new_log_dir(tmp_path / "log")
    for source in ("t-closed-0", "cd-mixed-0", "c-tomb-0"):
        add_partition(log_dir, source, source)
    told = by_name(run(clean, spark, log_dir, ledger=ledger))
    rows = {row.topic: row.asDict(recursive=True) for row in ledger_table(spark, ledger).collect()}
    for name, result in told.items():
        row = rows[result.topic]
        assert result.records_removed is not None, name
        assert row["records_removed"] == asdict(result.records_removed)
        assert result.records_removed.total == row["records_before"] - row["records_after"] > 0
        assert sum(segment["bytes"] for segment in row["segments"]) == row["bytes_before"]
        compacted = [
            segment["base_offset"] for segment in row["segments"] if segment["fate"] == "compacted"
        ]
        assert [source for output in row["outputs"] for source in output["sources"]] == compacted
        assert all(
            segment["checksum"] for segment in row["segments"] if segment["fate"] == "compacted"
        )
    assert rows["t-closed"]["records_removed"]["aborted"] > 0


def test_table_reads_back_as_written(spark: SparkSession, ledger: str) -> None:
    append(spark.sparkContext, ledger, entry(of_id("1", run_of(partition("a"), idle("b")))))
    append(spark.sparkContext, ledger, entry(of_id("2", run_of(left_alone("c", error="why")))))
    table = ledger_table(spark, ledger)
    assert table.schema.treeString() == LEDGER.treeString()
    columns = (
        "run_id",
        "topic",
        "partition",
        "actions",
        "bytes_before",
        "bytes_after",
        "error",
        "left_alone",
    )
    expected = spark.createDataFrame(
        [
            ("1", "a", 0, ["compacted"], 2 << 20, 1 << 20, None, False),
            ("1", "b", 0, ["none"], 2 << 20, 2 << 20, None, False),
            ("2", "c", 0, ["none"], 2 << 20, 2 << 20, "why", True),
        ],
        table.select(*columns).schema,
    )
    assert_df_equality(table.select(*columns), expected, ignore_row_order=True)


def test_run_is_recorded_once(spark: SparkSession, ledger: str) -> None:
    once = entry(run_of(partition("a")))
    for _ in range(3):
        append(spark.sparkContext, ledger, once)
    assert ledger_table(spark, ledger).count() == len(history(spark, ledger).runs) == 1


@pytest.mark.parametrize("name", ["the ledger", "100%", "a%20b", "ü#?"])
def test_all_files_of_a_ledger_are_in_its_directory(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    ledger = tmp_path / name
    append(spark.sparkContext, str(ledger), entry(run_of(), ended=NOW))
    assert [path.name for path in tmp_path.iterdir()] == [name]
    moved = ledger.rename(tmp_path / "moved")
    assert len(history(spark, str(moved), since=None, topics=()).runs) == 1


def test_history_totals(spark: SparkSession, ledger: str) -> None:
    day = 86_400_000
    limited = {"max_compaction_lag_ms": LAG, "oldest_dirty_timestamp": NOW - 7}
    for number, (result, host) in enumerate(
        [
            (run_of(partition("a"), partition("b")), "h"),
            (run_of(partition("a", **limited), idle("b")), "h"),
            (run_of(partition("a"), left_alone("c")), "other"),
        ]
    ):
        append(
            spark.sparkContext,
            ledger,
            entry(of_id(f"r{number}", result), ended=NOW + number * day, host=host),
        )
    past = history(spark, ledger)
    assert [(r.run_id, r.cleaned, r.left_alone, r.freed_bytes >> 20) for r in past.runs] == [
        ("r2", 1, 1, 1),
        ("r1", 1, 0, 1),
        ("r0", 2, 0, 2),
    ]
    assert {
        (p.topic, p.host): (p.runs, p.last_cleaned, p.last_run, p.due) for p in past.partitions
    } == {
        ("a", "h"): (2, NOW + day, NOW + day, NOW - 7 + LAG),
        ("a", "other"): (1, NOW + 2 * day, NOW + 2 * day, None),
        ("b", "h"): (2, NOW, NOW + day, None),
        ("c", "other"): (1, None, NOW + 2 * day, None),
    }
    some = history(spark, ledger, since=NOW + 1, topics=["[bc]"])
    assert [run.run_id for run in some.runs] == ["r2", "r1"]
    assert [(p.topic, p.left_alone) for p in some.partitions] == [
        ("b", None),
        ("c", "holds transactional batches"),
    ]


def test_kept_bytes_do_not_count_as_freed(spark: SparkSession, ledger: str) -> None:
    """A run may keep more bytes than the logs shrank by. It also keeps indexes, and new segments
    replace the old ones.
    """
    some, all_of_it = 1 << 19, 2 << 20
    done = run_of(
        partition("a", kept_bytes=some), partition("b", kept_bytes=all_of_it), partition("c")
    )
    append(spark.sparkContext, ledger, entry(done))
    past = history(spark, ledger)
    [one] = past.runs
    assert (one.freed_bytes, one.kept_bytes) == ((1 << 20) - some + 0 + (1 << 20), some + all_of_it)
    assert past.freed_bytes == one.freed_bytes == sum(p.freed_bytes for p in past.partitions)


def test_history_without_a_ledger_is_refused_and_creates_none(
    spark: SparkSession, ledger: str
) -> None:
    with pytest.raises(UsageError, match="there is no ledger"):
        history(spark, ledger)
    assert not Path(ledger).exists()


def test_unwritable_ledger_does_not_stop_the_run(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    log_dir = new_log_dir(tmp_path / "log")
    result = run(clean, spark, log_dir, ledger=str(tmp_path / "file" / "ledger"))
    assert (result.exit_code, result.ledger) == (0, None)
    assert result.notes[-1].startswith(f"THE RUN IS NOT IN THE LEDGER {tmp_path}/file/ledger")
    assert "Name a directory of your own with --ledger" in result.notes[-1]


WRITER = """
import sys
from types import SimpleNamespace
from pyspark.java_gateway import launch_gateway
from tests.spark.test_ledger import entry, of_id
from tests.unit.cli.results import partition, run_of
from winnow.ledger.append import append

jvm = launch_gateway().jvm
local = SimpleNamespace(isLocal=lambda: True)
conf = jvm.org.apache.hadoop.conf.Configuration
sc = SimpleNamespace(_jvm=jvm, _jsc=SimpleNamespace(sc=lambda: local, hadoopConfiguration=conf))
name, ledger = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
for number in range(5):
    run = of_id(f"{name}-{number}", run_of(partition(name)))
    append(sc, ledger, entry(run))
again = of_id(f"{name}-0", run_of(partition(name)))
append(sc, ledger, entry(again))
"""


def test_two_concurrent_writers_lose_nothing(spark: SparkSession, ledger: str) -> None:
    """Both start when the table does not exist."""
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, name, ledger],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("x", "y")
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate(timeout=120)
        assert writer.returncode == 0
    table = ledger_table(spark, ledger)
    written = [row.run_id for row in table.select("run_id").collect()]
    assert sorted(written) == sorted(f"{name}-{number}" for name in "xy" for number in range(5))
    assert (Path(ledger) / LOCK).exists()


class Screen(Display):
    """What a person sees after each step, if every step takes three seconds."""

    def __init__(self) -> None:
        self.now = 0.0
        self.lines: list[str] = []
        super().__init__(clock=lambda: self.now)

    def advance(self, amount: int) -> None:
        self.now += 3
        super().advance(amount)
        self.lines.append(self.line())


def test_rows_are_counted_with_the_time_left_while_a_ledger_is_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    ledger = str(tmp_path / "ledger")
    rows = run_of(*(partition(f"t{i}") for i in range(1050)))
    screen = Screen()
    append(spark.sparkContext, ledger, entry(rows), screen)
    assert ledger_table(spark, ledger).count() == 1050
    assert len(list(Path(ledger).rglob("*.parquet"))) == 1
    assert "writing the ledger: 520 of 1,050, 34 s left (33 s)" in screen.lines
    assert screen.lines[-1] == f"writing the ledger: 1,050 of 1,050 ({3 * len(screen.lines)} s)"
    assert sum("left" in line for line in screen.lines) >= 19


def test_tables_and_tasks_are_counted_while_a_ledger_is_read(
    spark: SparkSession, ledger: str
) -> None:
    for number in range(3):
        one = of_id(f"r{number}", run_of(idle("t")))
        append(spark.sparkContext, ledger, entry(one))
    screen = Screen()
    past = history(spark, ledger, since=None, topics=["t"], progress=screen)
    assert len(past.runs) == 3
    assert screen.lines[0] == "opening the ledger: 1 of 2, 3 s left (3 s)"
    assert screen.line().startswith("reading the ledger")
