"""Whole runs of Winnow to compare with Kafka, and the comparison."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pyspark.sql import SparkSession

from tests.compare import assert_same_dump
from tests.kafka.judge.judge import Kafka
from tests.spark.runs import clean
from winnow.cleaning.result import PartitionResult
from winnow.policy.describe import parse_topic_configs
from winnow.policy.sources import Settings, parse_topic_set
from winnow.runtime.progress import Progress, Silence

CHECKPOINTS = (
    "cleaner-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
)


def run_winnow(
    spark: SparkSession,
    log_dir: Path,
    *,
    now: int,
    topic_configs: str,
    topic_sets: Iterable[str] = (),
    topics: Sequence[str] = (),
    only: Literal["retention", "compaction"] | None = None,
    progress: Progress | None = None,
) -> dict[str, PartitionResult]:
    """Cleans `log_dir` in place; results by partition directory."""
    settings = Settings(
        topic_configs=parse_topic_configs(topic_configs),
        topic_sets=tuple(parse_topic_set(text) for text in topic_sets),
    )
    result = clean(
        spark,
        [str(log_dir)],
        settings=settings,
        now=now,
        topics=topics,
        only=only,
        progress=progress or Silence(),
    )
    return {f"{p.topic}-{p.partition}": p for p in result.partitions}


def read_checkpoint(file: Path) -> dict[str, int]:
    if not file.exists():
        return {}
    lines = (line.rsplit(" ", 2) for line in file.read_text().splitlines()[2:])
    return {f"{topic}-{partition}": int(offset) for topic, partition, offset in lines}


def write_checkpoint(file: Path, offsets: Mapping[str, int]) -> None:
    lines = [" ".join((*name.rsplit("-", 1), str(offset))) for name, offset in offsets.items()]
    file.write_text("\n".join(["0", str(len(lines)), *lines, ""]))


def is_compressed(dump: Iterable[Mapping[str, Any]]) -> bool:
    return any(line["t"] == "batch" and line["codec"] != "none" for line in dump)


def as_loaded(dump: Iterable[dict[str, Any]], log_start_offset: int) -> list[dict[str, Any]]:
    """The dump after a broker has loaded it with a log start offset inside a segment (S6.3, S8.4).

    It removes producer snapshots at or below it and folds leader epochs up to it into one. Recorded
    results went through a loader; what Winnow leaves did not.
    """
    return [
        line | {"text": _folded(line["text"], log_start_offset)} if line["t"] == "epochs" else line
        for line in dump
        if line["t"] != "snapshot" or line["offset"] > log_start_offset
    ]


def _folded(text: str, log_start_offset: int) -> list[tuple[int, int]]:
    epochs = [
        (int(epoch), int(offset))
        for epoch, offset in (line.split() for line in text.splitlines()[2:])
    ]
    started = [epoch for epoch, offset in epochs if offset <= log_start_offset]
    return [(epoch, log_start_offset) for epoch in started[-1:]] + [
        e for e in epochs if e[1] > log_start_offset
    ]


def assert_as_kafka(
    kafka: Kafka,
    log_dir: Path,
    kafkas: Mapping[str, list[dict[str, Any]]],
    results: Mapping[str, PartitionResult],
) -> None:
    """Every partition equals Kafka's: exactly, or, where a codec was applied again, by records and
    batch headers.
    """
    failures = []
    for name, theirs in sorted(kafkas.items()):
        start = results[name].log_start_offset_after or 0
        ours = as_loaded(kafka.dump(log_dir / name), start)
        judged = as_loaded(theirs, start)
        try:
            assert_same_dump(
                ours, judged, logical=is_compressed(judged) or is_compressed(ours), name=name
            )
        except AssertionError as difference:
            failures.append(str(difference))
    assert not failures, (
        f"{len(failures)} of {len(kafkas)} partitions differ from Kafka's:\n" + "\n".join(failures)
    )
