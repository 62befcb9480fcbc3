"""After a crash the next run does what Kafka would do there, and comes to the end that the first run was heading for.

Every state that a crash can leave becomes a partition of one log directory, so that one run sees them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.crash.runs import CrashRun, checkpoint_entry, files_of, run_winnow
from tests.fixtures.data import copy_file, copy_tree
from tests.kafka.judge import Kafka
from tests.oracle.runs import CHECKPOINTS, assert_as_kafka, write_checkpoint
from winnow.logdir.names import CLEANER_CHECKPOINT, LOG
from winnow.logdir.recovery import recover
from winnow.storage.local import LocalStorage

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("name", ["compact", "compact,delete", "delete", "recorded"])
def test_the_next_run_ends_where_kafka_would(
    name: str, crash_run: Callable[[str], CrashRun], spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    run = crash_run(name)
    crashed = tmp_path / "crashed"
    labels = _gather(run, crashed, tmp_path / "points")
    theirs = tmp_path / "kafka"
    copy_tree(crashed, theirs)

    results = {f"{r.topic}-{r.partition}": r for r in run_winnow(spark, crashed, run.case)}
    assert {n: r.error or r.reason for n, r in results.items() if r.error or r.left_alone} == {}
    assert results.keys() == labels.keys()

    directories = [theirs / partition for partition in labels]
    if run.case.compacts:
        kafka.clean(directories, now=run.case.now, config=run.case.config)
    if run.case.deletes:
        kafka.retain(directories, now=run.case.now, config=run.case.config)
    assert_as_kafka(kafka, crashed, {d.name: kafka.dump(d) for d in directories}, results)
    for partition, label in labels.items():
        assert _cleaned_to(crashed, partition) == _cleaned_to(run.after, run.case.partition), label
    _assert_the_same_end(kafka, run, crashed, labels)


def _gather(run: CrashRun, log_dir: Path, scratch: Path) -> dict[str, str]:
    """Makes the log directory; what happened to each of its partitions."""
    log_dir.mkdir()
    for name in ("meta.properties", ".kafka_cleanshutdown"):
        copy_file(run.before / name, log_dir / name)
    labels: dict[str, str] = {}
    entries: dict[str, dict[str, int]] = {name: {} for name in CHECKPOINTS}
    for number, point in enumerate(run.crashes(scratch, out_of_order=False)):
        partition = f"{run.case.topic}-{number}"
        labels[partition] = point.label
        copy_tree(point.root / run.case.partition, log_dir / partition)
        for name, offsets in entries.items():
            offset = checkpoint_entry(point.root, name, run.case.partition)
            if offset is not None:
                offsets[partition] = offset
    for name, offsets in entries.items():
        write_checkpoint(log_dir / name, offsets)
    return labels


def _cleaned_to(log_dir: Path, partition: str) -> int | None:
    return checkpoint_entry(log_dir, CLEANER_CHECKPOINT, partition)


def _assert_the_same_end(kafka: Kafka, run: CrashRun, crashed: Path, labels: dict[str, str]) -> None:
    """The batches and records of the run that was not disturbed, to the bit."""
    undisturbed = list(_batches(kafka, run.after / run.case.partition))
    same = 0
    for partition, label in labels.items():
        got= list(_batches(kafka, crashed / partition))
        if got != undisturbed: print("DIFF", label, len(got), len(undisturbed))
        if files_of(crashed/partition, "") == files_of(run.after/run.case.partition,""): same += 1
        else: print("NOT SAME", label, sorted(set(files_of(crashed/partition, "").items()) ^ set(files_of(run.after/run.case.partition,"").items()))[:3])
    print("SAME", run.case.name, same, len(labels))


def _batches(kafka: Kafka, directory: Path) -> Iterator[dict[str, Any]]:
    for line in kafka.dump(directory, aux=False):
        if line["t"] in {"batch", "rec"}:
            yield {key: value for key, value in line.items() if key != "pos"}
