"""Whole runs take no settings from a metadata log that the broker does not use."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures.data import copy_log_dir
from tests.spark.runs import NOW, by_name, changes, clean, files_of, plan
from tests.unit.logdir.metadata_logs import log
from tests.unit.wire.metadata_values import config, no_op, partition, topic
from winnow.api import doctor, verify
from winnow.policy.sources import Settings
from winnow.verbs.verify.kinds import Kind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

METADATA = "__cluster_metadata-0"
NAME = "d-time-0"
DELETES = {"cleanup.policy": "delete", "retention.ms": "1"}


def with_metadata_log(log_dir: Path, settings: dict[str, str], *, more: int = 0) -> Path:
    """Replace the recorded metadata log by a hand-made one that gives these settings."""
    text = (log_dir / NAME / "partition.metadata").read_text().split("topic_id:")[1].strip()
    topic_id = base64.urlsafe_b64decode(f"{text}==")
    directory = log_dir / METADATA
    for file in directory.iterdir():
        file.unlink()
    values = [config("d-time", key, value) for key, value in settings.items()]
    log(directory, topic("d-time", topic_id), partition(0, topic_id), *values, *[no_op()] * more)
    return log_dir


def told_nothing(verb: Any, spark: SparkSession, *log_dirs: Path) -> Any:
    return verb(spark, [str(path) for path in log_dirs], settings=Settings(), now=NOW)


def test_log_left_of_a_migration_deletes_nothing_of_a_broker_with_zookeeper(
    spark: SparkSession, tmp_path: Path
) -> None:
    log_dir = copy_log_dir("clean", tmp_path / "kafka", only=[NAME, METADATA])
    with_metadata_log(log_dir, DELETES)
    assert by_name(told_nothing(plan, spark, log_dir))[NAME].actions == ("retained",)
    meta = log_dir / "meta.properties"
    meta.write_text(
        meta.read_text().replace("version=1", "version=0").replace("node.id", "broker.id")
    )
    before = files_of(log_dir)
    planned = told_nothing(plan, spark, log_dir)
    assert by_name(planned)[NAME].left_alone
    assert str(planned.kafka.versions) == "2.8 to 3.9"
    result = told_nothing(clean, spark, log_dir)
    assert by_name(result)[NAME].left_alone
    assert changes(before, files_of(log_dir)) == []
    for notes in (planned.notes, result.notes, told_nothing(doctor, spark, log_dir).notes):
        assert [n for n in notes if f"{log_dir}/{METADATA}" in n and "ZooKeeper" in n]
    assert not told_nothing(doctor, spark, log_dir).gains
    assert any(METADATA in note for note in verify(spark, [str(log_dir)]).notes)


def test_order_of_directories_does_not_choose_the_metadata_log(
    spark: SparkSession, tmp_path: Path
) -> None:
    old = copy_log_dir("clean", tmp_path / "old", only=[NAME, METADATA])
    new = copy_log_dir("clean", tmp_path / "new", only=[METADATA])
    with_metadata_log(old, DELETES)
    (new / NAME).mkdir()
    (new / NAME / "partition.metadata").write_bytes(
        (old / NAME / "partition.metadata").read_bytes()
    )
    with_metadata_log(new, {"cleanup.policy": "compact"}, more=9)
    (new / NAME / "partition.metadata").unlink()
    (new / NAME).rmdir()
    for order in ((old, new), (new, old)):
        assert by_name(told_nothing(plan, spark, *order))[NAME].policy == "compact"
        found = verify(spark, [str(path) for path in order]).findings
        assert [f.log_dir for f in found if f.kind is Kind.METADATA_LOG] == [str(old)]
