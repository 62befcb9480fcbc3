"""The progress of a run: bytes as tasks process them, and the full amount at the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.runs import NOW, add_partition, clean, new_log_dir, run, settings
from winnow.api import doctor, erase, explain, verify
from winnow.runtime.progress import watched
from winnow.runtime.ticks import TickSheet, tick

pytestmark = pytest.mark.spark

SETS = ["q-*:cleanup.policy=compact", "q-*:min.cleanable.dirty.ratio=0"]


@dataclass
class Heard:
    """Each stage with its totals and all of its updates."""

    stages: list[tuple[str, int | None, int | None, list[int]]] = field(default_factory=list)
    go_on: Path | None = None

    def stage(
        self, name: str, *, total_bytes: int | None = None, total_tasks: int | None = None
    ) -> None:
        self.stages.append((name, total_bytes, total_tasks, []))

    def advance(self, amount: int) -> None:
        self.stages[-1][3].append(amount)
        if self.go_on is not None:
            self.go_on.touch()


def test_each_stage_reports_exactly_all_its_bytes(spark: SparkSession, tmp_path: Path) -> None:
    log_dir = new_log_dir(tmp_path / "log")
    for name, source in (("q-a-0", "c-none-0"), ("q-b-0", "c-zstd-0")):
        add_partition(log_dir, name, source)
    heard = Heard()
    result = run(clean, spark, log_dir, sets=SETS, progress=heard)
    told = [(name, total_bytes, sum(amounts)) for name, total_bytes, _, amounts in heard.stages]
    read = sum(p.bytes_before or 0 for p in result.partitions)
    compacted = sum(s.bytes for p in result.partitions for s in p.segments if s.fate == "compacted")
    assert 0 < compacted < read
    assert told == [
        ("looking at 2 partitions", None, 0),
        ("deciding", None, 2),
        ("reading batch headers and keys of 2 partitions", read, read),
        ("deciding", None, 2),
        ("compacting 2 partitions", compacted, compacted),
        ("committing 2 partitions", None, 2),
    ]


def test_progress_of_a_task_is_reported_while_it_runs(spark: SparkSession, tmp_path: Path) -> None:
    go_on = tmp_path / "go-on"
    heard = Heard(go_on=go_on)
    with TickSheet([30, 12]) as sheet:
        path = sheet.path

        def work(_: Iterator[int]) -> Iterator[bool]:
            tick(path, 0)
            until = time.monotonic() + 60
            while not go_on.exists() and time.monotonic() < until:
                time.sleep(0.05)
            yield go_on.exists()

        with watched(spark.sparkContext, heard, "one task", tasks=1, ticks=sheet):
            heard_in_time = spark.sparkContext.parallelize([0], 1).mapPartitions(work).collect()
    assert heard_in_time == [True]
    assert heard.stages == [("one task", 42, None, [30, 12])]


def test_tasks_are_counted_where_nobody_knew_how_many_there_are(
    spark: SparkSession, tmp_path: Path
) -> None:
    heard, sc = Heard(), spark.sparkContext

    def until(name: str) -> Callable[[Iterator[int]], Iterator[bool]]:
        def work(_: Iterator[int]) -> Iterator[bool]:
            end = time.monotonic() + 60
            while not (tmp_path / name).exists() and time.monotonic() < end:
                time.sleep(0.05)
            yield (tmp_path / name).exists()

        return work

    def heard_of(tasks: int) -> None:
        end = time.monotonic() + 60
        while heard.stages[-1][2] != tasks and time.monotonic() < end:
            time.sleep(0.05)
        (tmp_path / str(tasks)).touch()

    with watched(sc, heard, "some jobs"):
        for tasks, in_all in ((1, 1), (2, 3)):
            helper = threading.Thread(target=heard_of, args=[in_all])
            helper.start()
            work = until(str(in_all))
            assert all(sc.parallelize(range(tasks), tasks).mapPartitions(work).collect())
            helper.join()
    totals = [total for _, _, total, _ in heard.stages]
    assert totals == [None, 1, 3]
    assert sum(heard.stages[-1][3]) == 3


def test_failed_stage_does_not_report_all_as_done(spark: SparkSession) -> None:
    heard = Heard()
    with pytest.raises(ZeroDivisionError), watched(spark.sparkContext, heard, "a stage", tasks=4):
        raise ZeroDivisionError
    assert heard.stages == [("a stage", None, 4, [])]


def test_other_verbs_report_progress_in_bytes(spark: SparkSession, tmp_path: Path) -> None:
    log_dir = new_log_dir(tmp_path / "log")
    logs = [*add_partition(log_dir, "q-a-0", "c-none-0").glob("*.log")]
    size = sum(log.stat().st_size for log in logs)
    verbs: dict[str, Callable[[Heard], object]] = {
        "looking for the key": lambda heard: explain(
            spark,
            [str(log_dir)],
            partition="q-a-0",
            key=b"k",
            settings=settings(*SETS),
            now=NOW,
            progress=heard,
        ),
        "reading the records of 1 partition": lambda heard: doctor(
            spark, [str(log_dir)], settings=settings(*SETS), now=NOW, deep=True, progress=heard
        ),
        f"reading {len(logs)} logs": lambda heard: verify(spark, [str(log_dir)], progress=heard),
        "looking for the keys in 1 partition": lambda heard: erase(
            spark, [str(log_dir)], keys=[b"k"], dry_run=True, progress=heard
        ),
    }
    for stage, verb in verbs.items():
        heard = Heard()
        verb(heard)
        assert [
            (total, sum(amounts)) for name, total, _, amounts in heard.stages if name == stage
        ] == [(size, size)], [name for name, *_ in heard.stages]
