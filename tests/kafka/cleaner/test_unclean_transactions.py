"""After a broker's crash, transactions count as in the transaction indexes that a broker rebuilds
(S8.2), whatever lies on the disk.

Kafka's own loader recovers a copy of the crashed directory, and Kafka's own cleaner cleans it. The
same segments must remain, with the same bytes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.fixtures.data import CLEAN_MARKER, copy_tree, partition_dirs
from tests.kafka.cleaner.runs import run_winnow, write_checkpoint
from tests.kafka.cleaner.txn_scripts import HOUR_MS, NOW, Script, anything
from tests.kafka.judge.judge import Kafka
from tests.log_writer.dir_writer import LogDirWriter
from winnow.cleaning.result import PartitionResult
from winnow.logdir.names import (
    LOG,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    SNAPSHOT,
    TXNINDEX,
)

pytestmark = pytest.mark.spark

LOGS = 40
RETENTION_MS = 1000
Damage = Callable[[random.Random, bytes], bytes | None]
"""What is left of a transaction index. None: the file is lost."""
DAMAGES: tuple[Damage, ...] = (
    lambda _, data: data,
    lambda _, __: None,
    lambda _, __: b"",
    lambda rng, data: rng.choice((data, None)),
    lambda rng, data: data[: rng.randint(0, len(data))],
    lambda rng, data: data + bytes(rng.choice((3, 34, 4096))),
)


def crashed(path: Path, seed: int) -> None:
    """Write a log directory of random transactions, and take away what a crash may take."""
    rng = random.Random(seed)
    with LogDirWriter(path, clock=lambda: NOW - HOUR_MS) as log_dir:
        for number in range(LOGS):
            script = Script(log_dir.partition(f"any-{number}", 0))
            (anything if number % 4 else idempotent)(script, 1000 * seed + number)
            script.roll()
            script.put("at the end")
    (path / CLEAN_MARKER).unlink()
    points, starts = dict[str, int](), dict[str, int]()
    for directory in partition_dirs(path):
        bases = sorted(int(log.stem) for log in directory.glob(f"*{LOG}"))
        for offsets in (points, starts):
            if rng.random() < 0.5:
                offsets[directory.name] = rng.randint(0, bases[-1])
        flushed = max(base for base in bases if base <= points.get(directory.name, 0))
        damage = rng.choice(DAMAGES)
        for index in sorted(directory.glob(f"*{TXNINDEX}")):
            left = index.read_bytes()
            # Below the recovery point a broker rebuilds nothing.
            left = damage(rng, left) if int(index.stem) >= flushed else left
            if left is None:
                index.unlink()
            else:
                index.write_bytes(left)
        if rng.random() < 0.4:
            for snapshot in sorted(directory.glob(f"*{SNAPSHOT}")):
                if rng.random() < 0.6:
                    snapshot.unlink()
    write_checkpoint(path / RECOVERY_POINT_CHECKPOINT, points)
    write_checkpoint(path / LOG_START_CHECKPOINT, starts)


def idempotent(script: Script, seed: int) -> None:
    """Random batches of producers without transactions, in small segments."""
    rng = random.Random(seed)
    for _ in range(rng.randint(20, 90)):
        if rng.random() < 0.3:
            script.roll()
        else:
            script.idempotent(rng.randint(1, 4), rng.choice("abcdefg"), rng.choice("abc"))


def both_clean(spark: SparkSession, kafka: Kafka, ours: Path) -> dict[str, PartitionResult]:
    """Clean the directory with Winnow, and a copy beside it with Kafka."""
    copy_tree(ours, ours.parent / "theirs")
    names = [directory.name for directory in partition_dirs(ours)]
    configs = ours.parent / "configs"
    # Half of them are cleaned segment by segment, half as far as possible into one.
    lines = [f"{name[:-2]} cleanup.policy=compact" for name in names]
    lines += [f"{name[:-2]} internal.segment.bytes=100" for name in names[::2]]
    configs.write_text("\n".join(lines))
    results = run_winnow(
        spark,
        ours,
        now=NOW,
        topic_configs=configs.read_text(),
        topic_sets=[
            "*:min.cleanable.dirty.ratio=0",
            f"*:delete.retention.ms={RETENTION_MS}",
        ],
        only="compaction",
    )
    kafka.clean(
        [ours.parent / "theirs" / name for name in names],
        now=NOW,
        delete_retention_ms=RETENTION_MS,
        topic_configs=configs,
        unclean=True,
    )
    return results


def differences(before: dict[str, bytes], ours: Path, theirs: Path) -> Iterator[str]:
    """Yield the logs that differ, and the transaction indexes of rewritten ones. What was not
    rewritten has the index of the crash, until a broker rebuilds it.
    """
    mine, kafkas = files_of(ours), files_of(theirs)
    for name in sorted(mine.keys() | kafkas.keys()):
        if not name.endswith(LOG):
            continue
        if mine.get(name) != kafkas.get(name):
            sizes = [len(files[name]) if name in files else None for files in (mine, kafkas)]
            yield f"{ours.name}/{name}: {sizes[0]} bytes, Kafka has {sizes[1]}"
        index = name.replace(LOG, TXNINDEX)
        # Kafka leaves an empty one where it had recovered one.
        if mine.get(name) != before.get(name) and mine.get(index) != (kafkas.get(index) or None):
            yield f"{ours.name}/{index}"


def files_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 3, 4))])
def test_transactions_count_as_in_the_indexes_that_kafka_rebuilds(
    seed: int, spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    ours = tmp_path / "ours"
    crashed(ours, seed)
    before = {directory.name: files_of(directory) for directory in partition_dirs(ours)}
    results = both_clean(spark, kafka, ours)
    assert {name: one.error for name, one in results.items() if one.left_alone} == {}
    assert [
        found
        for name in before
        for found in differences(before[name], ours / name, tmp_path / "theirs" / name)
    ] == []
    assert sum("compacted" in one.actions for one in results.values()) > 0.7 * LOGS


def test_aborted_batch_below_the_log_start_stays_if_a_broker_forgets_its_transaction(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    """The index on the disk has the transaction. A broker that recovers the segment of the marker
    reads the producers from the log start on, so it rebuilds the index without the transaction.
    """
    ours = tmp_path / "ours"
    with LogDirWriter(ours, clock=lambda: NOW - HOUR_MS) as log_dir:
        for topic in ("below", "above"):
            script = Script(log_dir.partition(topic, 0))
            script.data(1, "aborted")
            script.put("a")
            script.roll()
            script.abort(1)
            script.put("a")
            script.data(1, "b")
            script.commit(1)
            script.roll()
            script.put("at the end")
    (ours / CLEAN_MARKER).unlink()
    for directory in partition_dirs(ours):
        (index,) = directory.glob(f"*{TXNINDEX}")
        assert index.name.startswith(f"{2:020d}")
        (directory / f"{2:020d}{SNAPSHOT}").unlink()
    write_checkpoint(ours / RECOVERY_POINT_CHECKPOINT, {"below-0": 2, "above-0": 2})
    write_checkpoint(ours / LOG_START_CHECKPOINT, {"below-0": 1})
    before = {directory.name: files_of(directory) for directory in partition_dirs(ours)}
    results = both_clean(spark, kafka, ours)
    offsets = {
        name: [line["base"] for line in kafka.dump(ours / name) if line["t"] == "batch"]
        for name in before
    }
    # At 0 lies the aborted record, at 2 its marker, at 3 the last value of `a`.
    assert offsets == {"below-0": [0, 2, 3, 4, 5, 6], "above-0": [2, 3, 4, 5, 6]}
    for name, files in before.items():
        assert results[name].error is None
        assert [*differences(files, ours / name, tmp_path / "theirs" / name)] == []
