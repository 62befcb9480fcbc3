"""After a crash the next run does what Kafka would do there, and comes to the end that the first run was heading for.

Every state that a crash can leave becomes a partition of one log directory, so that one run sees them all.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.compare import assert_same_dump
from tests.crash.runs import CrashRun, checkpoint_entry, run_winnow
from tests.fixtures.data import copy_file, copy_tree
from tests.kafka.judge import Kafka
from tests.oracle.runs import CHECKPOINTS, as_loaded, write_checkpoint
from winnow.logdir.names import CLEANER_CHECKPOINT

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("name", ["compact", "compact,delete", "delete", "recorded", "transactions"])
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
    undisturbed = _batches(kafka.dump(run.after / run.case.partition))
    for partition, label in labels.items():
        ours = kafka.dump(crashed / partition)
        start = results[partition].log_start_offset_after or 0
        assert_same_dump(_settled(ours, start), _settled(kafka.dump(theirs / partition), start), name=label)
        # Retention looks at whole segments. What was compacted twice is in fewer of them, and some may stay.
        batches = _batches(ours)
        assert batches[len(batches) - len(undisturbed) :] == undisturbed, label
        assert len(batches) == len(undisturbed) or name == "compact,delete", label
        if run.case.compacts:
            assert _cleaned_to(crashed, partition) == _cleaned_to(run.after, run.case.partition), label


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


def _settled(dump: list[dict[str, Any]], log_start_offset: int) -> list[dict[str, Any]]:
    """As a starting broker makes it: Kafka's result went through its loader in the state after the crash, ours did not.

    Besides what `as_loaded` says, the loader takes away leader epochs that begin at the log's end (S6.3).
    """
    bases = [line["base"] for line in dump if line["t"] == "segment"]
    end = max([bases[-1], *(line["last"] + 1 for line in dump if line["t"] == "batch")])
    return [
        line | {"text": [epoch for epoch in line["text"] if epoch[1] < end]} if line["t"] == "epochs" else line
        for line in as_loaded(dump, log_start_offset)
    ]


def _batches(dump: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Batches and records, wherever they lie; not markers, which in a second pass get their delete horizon (S5.8)."""
    markers = {line["base"] for line in dump if line["t"] == "batch" and line["control"]}
    return [
        {k: v for k, v in line.items() if k != "pos"}
        for line in dump
        if (line["t"] == "batch" and line["base"] not in markers) or (line["t"] == "rec" and line["o"] not in markers)
    ]
