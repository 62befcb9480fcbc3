"""What Winnow does to the log directory of a dead broker, and what Kafka does after its
recovery.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.compare import assert_same_dump
from tests.fixtures.data import copy_tree, partition_dirs
from tests.kafka.cleaner.runs import as_loaded, is_compressed
from tests.kafka.judge.judge import Kafka, KafkaFailedError
from tests.kafka.recover.compare import differences
from tests.spark.runs import clean
from winnow.logdir.survey import survey_log_dirs
from winnow.policy.describe import parse_topic_configs
from winnow.policy.sources import Settings
from winnow.recovery.logs.run import recover_dirs
from winnow.recovery.logs.values import TruncateRequest
from winnow.storage.places import Places


@dataclass(frozen=True, slots=True)
class Case:
    """A dead log directory, never changed, and what both know of it."""

    dead: Path
    scratch: Path
    now: int
    topic_configs: Path
    """Lines `topic key=value`."""

    @property
    def settings(self) -> Settings:
        return Settings(topic_configs=parse_topic_configs(self.topic_configs.read_text()))

    @property
    def names(self) -> list[str]:
        return [path.name for path in partition_dirs(self.dead)]

    def copies(self) -> tuple[Path, Path]:
        """Return two fresh copies, Winnow's and Kafka's."""
        ours, theirs = self.scratch / "ours", self.scratch / "theirs"
        for copy in (ours, theirs):
            shutil.rmtree(copy, ignore_errors=True)
            copy_tree(self.dead, copy)
        return ours, theirs


@dataclass(frozen=True, slots=True)
class Comparison:
    differences: Sequence[str]
    beyond_kafka: Mapping[str, str]
    """Partition -> why Kafka's own recovery fails there: no broker starts on it."""


def compare_cleaning(case: Case, kafka: Kafka, spark: SparkSession) -> Comparison:
    """Clean one copy with Winnow; recover and clean another with Kafka, at the same clock.

    Then Kafka recovers what Winnow left, as a starting broker does. Both logs must be the same:
    segments, batches, records, indexes, and where they begin and end. High watermarks are those of
    the checkpoint. Where all records have expired, Winnow may leave the active segment, which Kafka
    deletes then.
    """
    ours, theirs = case.copies()
    done = clean(
        spark, [str(ours)], settings=case.settings, now=case.now, topics=["[!_]*"]
    ).partitions
    failed = {
        f"{p.topic}-{p.partition}": p.error or p.reason for p in done if p.error or p.left_alone
    }
    settings: dict[str, Any] = {"now": case.now, "topic_configs": case.topic_configs}
    settings |= {"unclean": True, "hw_checkpoint": True}
    beyond: dict[str, str] = {}
    found = [f"{name}: Winnow fails: {why}" for name, why in failed.items()]
    for name in case.names:
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
        if begin == end and loaded.state["segments"] == 1:
            # All has expired. Winnow leaves the active segment of a crash to the broker.
            kafka.attend([ours / name], **settings)
            loaded = kafka.load(ours / name, **settings)
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


def compare_recovery(case: Case, kafka: Kafka) -> Comparison:
    """Recover one copy with `recover --truncate`, another with Kafka's loader and a clean close:
    every file must be the same, byte for byte.
    """
    ours, theirs = case.copies()
    request = TruncateRequest(
        settings=case.settings, now=case.now, truncate=True, keep_cut=False, lose_records=True
    )
    (surveyed,) = survey_log_dirs(Places(), [str(ours)])
    (recovered,), _ = recover_dirs(Places(), [surveyed], request, run_id="run")
    errors = {log.name: log.error for log in recovered.logs}
    loaded = kafka.rebuild(
        [theirs / name for name in case.names],
        now=case.now,
        topic_configs=case.topic_configs,
        unclean=True,
    )
    found: list[str] = []
    beyond: dict[str, str] = {}
    for name in case.names:
        if "error" in loaded[theirs / name]:
            ours_is = errors[name] or "recovered"
            beyond[name] = f"{loaded[theirs / name]['error']}; Winnow: {ours_is}"
        elif errors[name] is not None:
            found.append(f"{name}: `recover --truncate` fails: {errors[name]}")
        else:
            found += (f"{name}/{line}" for line in differences(ours / name, theirs / name))
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
