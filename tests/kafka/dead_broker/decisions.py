"""What Winnow does to the log directory of a dead broker, and what Kafka does after its
recovery.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.compare import assert_same_dump
from tests.fixtures.data import copy_tree, partition_dirs
from tests.kafka.cleaner.runs import as_loaded, is_compressed
from tests.kafka.judge.judge import Kafka, KafkaFailedError
from winnow.logdir.names import HIGH_WATERMARK_CHECKPOINT, RECOVERY_POINT_CHECKPOINT

CHECKPOINTS = (
    HIGH_WATERMARK_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    "cleaner-offset-checkpoint",
    "log-start-offset-checkpoint",
)
Clean = Callable[[Path], dict[str, str]]
"""Cleans a log directory in place; returns why by partition, of those that failed."""


@dataclass(frozen=True, slots=True)
class Comparison:
    differences: Sequence[str]
    beyond_kafka: Mapping[str, str]
    """Partition -> why Kafka's own recovery fails there: no broker starts on it."""


def compare(
    dead: Path, scratch: Path, kafka: Kafka, clean: Clean, *, now: int, topic_configs: Path
) -> Comparison:
    """Clean one copy with Winnow; recover and clean another with Kafka, at the same clock.

    Then Kafka recovers what Winnow left, as a starting broker does. Both logs must be the same:
    segments, batches, records, indexes, and where they begin and end. High watermarks are those of
    the checkpoint.
    """
    ours, theirs = scratch / "ours", scratch / "theirs"
    for copy in (ours, theirs):
        shutil.rmtree(copy, ignore_errors=True)
        copy_tree(dead, copy)
    failed = clean(ours)
    names = [path.name for path in partition_dirs(dead)]
    settings: dict[str, Any] = {"now": now, "topic_configs": topic_configs, "unclean": True}
    settings |= {"hw_checkpoint": True}
    beyond: dict[str, str] = {}
    found = [f"{name}: Winnow fails: {why}" for name, why in failed.items()]
    for name in names:
        try:
            (answer,) = kafka.attend([theirs / name], **settings).values()
        except KafkaFailedError as error:
            beyond[name] = str(error).splitlines()[0]
            continue
        loaded = kafka.load(ours / name, **settings)
        if loaded.error is not None:
            found.append(f"{name}: Kafka can't load what Winnow left: {loaded.error}")
            continue
        begin, end = answer["after"]["start_offset"], answer["after"]["end_offset"]
        got = (loaded.state["start_offset"], loaded.state["end_offset"])
        if got != (begin, end):
            found.append(f"{name}: begins and ends at {got}, Kafka's at {(begin, end)}")
            continue
        lines, kafkas_lines = (
            _comparable(as_loaded(dump, begin))
            for dump in (loaded.lines, kafka.load(theirs / name, **settings).lines)
        )
        try:
            logical = is_compressed(kafkas_lines) or is_compressed(lines)
            assert_same_dump(lines, kafkas_lines, logical=logical, name=name)
        except AssertionError as difference:
            found.append(str(difference))
    return Comparison(found, beyond)


def _comparable(dump: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What must be the same. A recovery makes files anew, so their times tell when, and it need not
    make an index without entries. Snapshots it makes of what a compaction has left of a segment:
    only the last one, from which a broker goes on, has all producers.
    """
    last = max((line["offset"] for line in dump if line["t"] == "snapshot"), default=0)
    return [
        line
        for line in dump
        if line["t"] != "mtime"
        and not (line["t"] == "snapshot" and line["offset"] < last)
        and not (line["t"] in {"index", "timeindex"} and not line["entries"])
    ]
