"""Message formats v0 and v1: whole runs leave what Kafka's own cleaner and retention leave (S2.1,
S5.3, S5.5-S5.7).
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from pyspark.sql import SparkSession

from tests.compare import assert_same_partition
from tests.fixtures.data import (
    LEGACY_END_OFFSET,
    TOPIC_CONFIGS,
    copy_log_dir,
    copy_tree,
    expected,
    partition_dirs,
)
from tests.kafka.cleaner.runs import assert_as_kafka, is_compressed, run_winnow, write_checkpoint
from tests.kafka.judge.judge import Kafka
from tests.twins.encoding import encode_batch
from tests.unit.wire.legacy_logs import CODECS, entry, legacy_batch, wrapper
from tests.unit.wire.logs import NOW
from winnow.cleaning.result import PartitionResult
from winnow.wire.batch import Codec
from winnow.wire.plain import Record

pytestmark = pytest.mark.spark

SETS = ("*:cleanup.policy=compact", "*:min.cleanable.dirty.ratio=0")
THEN = 1_450_100_000_000


@dataclass(frozen=True)
class Pass:
    """Winnow's arguments for Kafka's (a line of `cmd.txt`)."""

    now: int
    topic_sets: tuple[str, ...]
    first_dirty: int = 0
    roll: bool = False
    only: Literal["retention", "compaction"] = "compaction"


RECORDED = {
    "clean-keep": (Pass(THEN, (*SETS, "*:delete.retention.ms=86400000"), roll=True),),
    "clean-legacy-tombstones": (
        Pass(THEN, (*SETS, "*:delete.retention.ms=1000"), first_dirty=600),
    ),
    "clean-twice": (
        Pass(THEN, (*SETS, "*:delete.retention.ms=1000"), roll=True),
        Pass(THEN + 100_000_000, (*SETS, "*:delete.retention.ms=1000")),
    ),
    "retain": (
        Pass(
            1_450_060_000_000,
            ("*:cleanup.policy=delete", "*:retention.ms=20000000"),
            only="retention",
        ),
    ),
}


@pytest.mark.parametrize("name", RECORDED)
def test_passes_leave_the_files_that_kafka_left(
    name: str, spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    log_dir = copy_log_dir("legacy", tmp_path / "log-dir")
    results: dict[str, PartitionResult] = {}
    first: dict[str, PartitionResult] = {}
    for one in RECORDED[name]:
        if one.roll:
            roll(kafka, log_dir)
        results = passed(spark, log_dir, one)
        first = first or results
    kafkas = {
        partition: [json.loads(line) for line in lines]
        for partition, lines in expected(name, log_dir="legacy").items()
    }
    assert kafkas.keys() == results.keys()
    if RECORDED[name][0].roll:
        assert {r.records_before for r in first.values()} == {LEGACY_END_OFFSET}, (
            "nothing else had removed any"
        )
    assert_as_kafka(kafka, log_dir, kafkas, results)


def roll(kafka: Kafka, log_dir: Path) -> None:
    """A new active segment in each partition, and nothing else: none of it is cleanable below
    offset 0.
    """
    kafka.clean(partition_dirs(log_dir), now=THEN, roll=True, first_uncleanable=0, first_dirty=0)


def passed(spark: SparkSession, log_dir: Path, one: Pass) -> dict[str, PartitionResult]:
    names = [directory.name for directory in partition_dirs(log_dir)]
    write_checkpoint(log_dir / "cleaner-offset-checkpoint", dict.fromkeys(names, one.first_dirty))
    results = run_winnow(
        spark,
        log_dir,
        now=one.now,
        topic_configs=TOPIC_CONFIGS.read_text(),
        topic_sets=one.topic_sets,
        only=one.only,
    )
    assert {
        name: result.reason for name, result in results.items() if result.left_alone or result.error
    } == {}
    return results


@dataclass(frozen=True)
class Clock:
    """One pass over fresh data: the time it takes place, and from which segment on all is dirty."""

    now: int
    first_dirty_segment: int


@pytest.mark.parametrize("seed", range(3))
def test_each_pass_over_random_logs_equals_kafka(
    seed: int, spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    ours, theirs = tmp_path / "winnow", tmp_path / "kafka"
    bases = random_log_dir(copy_log_dir("legacy", ours, only=()), seed)
    kafka.open(partition_dirs(ours), now=NOW)  # makes the indexes
    for name in bases:
        for log in (ours / name).glob("*.log"):
            made = THEN - 20_000_000 + 1_000_000 * sorted(bases[name]).index(int(log.stem))
            os.utime(log, ns=(made * 1_000_000,) * 2)
    complete(ours, kafka)
    copy_tree(ours, theirs)
    # Tombstones of old formats go by the age of their file in the first pass. Those that stay get a
    # horizon then, and go in the third pass, at it.
    for clock in (Clock(THEN, 3), Clock(THEN + 1_999_999, 0), Clock(THEN + 2_000_000, 0)):
        dirty = {name: sorted(bases[name])[clock.first_dirty_segment] for name in bases}
        write_checkpoint(ours / "cleaner-offset-checkpoint", dirty)
        results = run_winnow(
            spark,
            ours,
            now=clock.now,
            topic_configs="",
            topic_sets=[*SETS, "*:delete.retention.ms=2000000"],
            only="compaction",
        )
        assert {
            n: r.error or r.reason
            for n, r in results.items()
            if r.error or "compacted" not in r.actions
        } == {}
        for name in bases:
            kafka.clean(
                theirs / name, now=clock.now, first_dirty=dirty[name], delete_retention_ms=2_000_000
            )
        judged = {name: kafka.dump(theirs / name) for name in bases}
        assert_as_kafka(kafka, ours, judged, results)
        for name in bases:
            records = sum(line["t"] == "rec" for line in judged[name])
            assert results[name].records_after == records
            if not is_compressed(judged[name]):
                assert_same_partition(ours / name, theirs / name)
    assert any(not is_compressed(judged[name]) for name in bases)


def random_log_dir(log_dir: Path, seed: int) -> dict[str, list[int]]:
    """Partitions of five segments, of one codec each or of all; base offsets of segments by
    partition.
    """
    rng = random.Random(seed)
    made: dict[str, list[int]] = {}
    for codecs in [(codec,) for codec in CODECS] + [CODECS, CODECS]:
        name = (
            f"l{len(made)}-{codecs[0].name.lower()}-0"
            if len(codecs) == 1
            else f"l{len(made)}-all-0"
        )
        (log_dir / name).mkdir()
        base, made[name] = rng.choice((0, 0, 10**11)), []
        for number in range(5):
            magics = (rng.choice(((0,), (1,))), (0, 1), (1,), (1, 2), (2,))[number]
            batches, after = random_segment(rng, base, codecs, magics=magics)
            (log_dir / name / f"{base:020d}.log").write_bytes(b"".join(batches))
            made[name].append(base)
            base = after
    return made


def random_segment(
    rng: random.Random, base: int, codecs: Sequence[Codec], *, magics: Sequence[int]
) -> tuple[list[bytes], int]:
    """Batches, and the offset after the last one, whose key nothing else has: there is nothing that
    Kafka would have to keep the header of, which it can't of these formats (S5.6).
    """
    batches, offset = [], base
    for number in range(60):
        magic, codec = rng.choice(magics), rng.choice(codecs)
        log_append_time = rng.choice((None, None, NOW + offset % 1000)) if magic else None
        records = []
        for _ in range(rng.randrange(1, 8)):
            offset += rng.choice((0, 0, 0, 1, 130))
            key = rng.choice((None, b"", *(b"k%d" % rng.randrange(60) for _ in range(18))))
            value = rng.choice(
                (None, b"", *(rng.randbytes(rng.choice((3, 60, 400))) for _ in range(8)))
            )
            records.append(Record(offset, rng.choice((-1, NOW + rng.randrange(10**6))), key, value))
            offset += 1
        if number == 59:
            records[-1] = Record(records[-1].offset, NOW, b"the end of %d" % base, b"v")
        if magic == 2:
            batches.append(
                encode_batch(records, codec=codec, log_append_time=log_append_time, leader_epoch=0)
            )
        elif codec != Codec.NONE and magic == 1 and base == number == 0:
            # Of librdkafka: no offset in the wrapper, those inside count from 0.
            inner = [entry(r.offset, 1, r.key, r.value, timestamp=r.timestamp) for r in records]
            batches.append(wrapper(0, 1, inner, codec, timestamp=max(r.timestamp for r in records)))
        elif codec != Codec.NONE and magic == 1 and log_append_time is None and rng.random() < 0.2:
            # What cleaners of old made of them: v0 inside of v1.
            inner = [entry(r.offset - records[0].offset, 0, r.key, r.value) for r in records]
            batches.append(wrapper(records[-1].offset, 1, inner, codec, timestamp=-1))
        else:
            batches.append(legacy_batch(records, magic, codec, log_append_time=log_append_time))
    return batches, offset


def complete(log_dir: Path, kafka: Kafka) -> None:
    """The checkpoints of a log directory whose partitions were made by hand."""
    ends = {
        directory.name: int(kafka.load(directory, now=NOW).state["end_offset"])
        for directory in partition_dirs(log_dir)
    }
    write_checkpoint(log_dir / "replication-offset-checkpoint", ends)
