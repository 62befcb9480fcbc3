"""Runs without a configuration file take all settings from the log directory's own
`__cluster_metadata-0`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures.data import copy_log_dir
from tests.spark.runs import NOW, by_name, changes, clean, files_of, plan, run
from winnow.cleaning.result import PartitionResult, RunResult
from winnow.policy.server_properties import parse_server_properties
from winnow.policy.sources import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SOME = ["__cluster_metadata-0", "c-tomb-0", "c-4p-*", "d-time-0"]


def told_nothing(verb: Any, spark: SparkSession, log_dir: Path, **given: Any) -> RunResult:
    result: RunResult = verb(spark, [str(log_dir)], settings=Settings(**given), now=NOW)
    return result


def comparable(result: RunResult) -> dict[str, PartitionResult]:
    return {name: replace(p, log_dir="", settings=()) for name, p in by_name(result).items()}


def test_run_without_file_equals_run_with_topic_configs(
    spark: SparkSession, tmp_path: Path
) -> None:
    with_file, without = (copy_log_dir("clean", tmp_path / name) for name in ("with", "without"))
    expected, found = run(clean, spark, with_file), told_nothing(clean, spark, without)
    assert comparable(found) == comparable(expected)
    assert any(p.actions == ("compacted",) for p in found.partitions)
    assert any(p.actions == ("retained",) for p in found.partitions)
    digests = [
        {name: file and file.digest for name, file in files_of(path).items()}
        for path in (with_file, without)
    ]
    assert digests[0] == digests[1]


def test_plan_shows_each_setting_and_its_source_record(spark: SparkSession, tmp_path: Path) -> None:
    log_dir = copy_log_dir("clean", tmp_path / "log-dir", only=SOME)
    planned = by_name(told_nothing(plan, spark, log_dir))["d-time-0"]
    settings = {s.key: s for s in planned.settings}
    assert settings["retention.ms"].value == "432000000"
    assert settings["retention.ms"].source.startswith("__cluster_metadata-0 offset ")
    assert settings["segment.bytes"].source.startswith(
        "internal.segment.bytes, __cluster_metadata-0 offset "
    )
    assert not settings["retention.ms"].is_default
    assert settings["delete.retention.ms"].source == "Kafka's default, server.properties not given"
    assert settings["delete.retention.ms"].is_default
    server = parse_server_properties(
        "node.id=1\nlog.cleaner.delete.retention.ms=5", file="server.properties"
    )
    planned = by_name(told_nothing(plan, spark, log_dir, server_properties=server))["d-time-0"]
    settings = {s.key: s for s in planned.settings}
    assert (
        settings["delete.retention.ms"].source
        == "log.cleaner.delete.retention.ms, server.properties line 2"
    )
    assert settings["retention.bytes"].source == "Kafka's default"


def test_partitions_of_another_topic_id_are_skipped(spark: SparkSession, tmp_path: Path) -> None:
    log_dir = copy_log_dir("clean", tmp_path / "log-dir", only=SOME)
    other = (log_dir / "c-4p-1" / "partition.metadata").read_text()
    (log_dir / "c-tomb-0" / "partition.metadata").write_text(other)
    (log_dir / "c-4p-3" / "partition.metadata").unlink()
    (log_dir / "c-4p-2" / "partition.metadata").write_text("version: 0\n")
    (log_dir / "c-4p-1").rename(log_dir / "c-4p-4")
    before = files_of(log_dir)
    # The operator's word on settings does not make another topic's partition this topic's.
    result = run(clean, spark, log_dir)
    assert (result.status, result.exit_code) == ("partial", 3)
    found = by_name(result)
    assert {name: p.left_alone for name, p in found.items()} == {
        "c-4p-0": False,
        "c-4p-2": True,
        "c-4p-3": True,
        "c-4p-4": True,
        "c-tomb-0": True,
        "d-time-0": False,
    }
    assert {found[name].rule for name in ("c-tomb-0", "c-4p-3", "c-4p-4")} == {"S9.3"}
    assert found["c-tomb-0"].reason.startswith(
        "it belongs to an earlier topic c-tomb: its topic id is "
    )
    assert found["c-4p-3"].reason.startswith("it has no partition.metadata")
    assert found["c-4p-4"].reason.startswith("topic c-4p has no partition 4")
    assert "partition.metadata can't be read" in (found["c-4p-2"].error or "")
    changed = {name.split("/")[0] for name in changes(before, files_of(log_dir))}
    assert changed <= {
        "c-4p-0",
        "d-time-0",
        "cleaner-offset-checkpoint",
        "log-start-offset-checkpoint",
    }
    assert "c-4p-0" in changed


def test_unreadable_metadata_log_leaves_all_partitions_untouched(
    spark: SparkSession, tmp_path: Path
) -> None:
    log_dir = copy_log_dir("clean", tmp_path / "log-dir", only=SOME)
    log = log_dir / "__cluster_metadata-0" / f"{0:020d}.log"
    log.write_bytes(log.read_bytes().replace(b"compact", b"cOmpact"))
    before = files_of(log_dir)
    result = told_nothing(clean, spark, log_dir)
    assert all(p.left_alone and "wrong CRC" in p.reason for p in result.partitions)
    assert [
        note
        for note in result.notes
        if "no topics or settings are known from a metadata log" in note
    ]
    assert changes(before, files_of(log_dir)) == []
    assert any(p.actions == ("compacted",) for p in run(plan, spark, log_dir).partitions)
