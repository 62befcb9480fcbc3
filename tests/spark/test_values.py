"""The Python API: plans that can be shown, varied and executed."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import StructType

import winnow
from tests.fixtures.data import TOPIC_CONFIGS
from tests.spark import runs
from tests.spark.runs import NOW, add_partition, changes, files_of, new_log_dir, run, settings
from winnow.api import facts as facts_module
from winnow.api.plans import COMPARED
from winnow.api.result import PARTITIONS
from winnow.cleaning.result import PartitionResult
from winnow.errors import UsageError, WinnowError
from winnow.logdir.names import CLEAN_SHUTDOWN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TOPICS = ("c-none", "c-tomb", "cd-mixed", "d-time", "b-txn", "__consumer_offsets")
POLICIES: list[dict[str, Any]] = [
    {"min_cleanable_dirty_ratio": 1.0},
    {"delete_retention_ms": 10**15},
    {"retention_ms": 1},
    {"retention_bytes": 100_000, "retention_ms": -1},
    {"cleanup_policy": "delete", "retention_ms": -1},
    {"cleanup_policy": "compact", "segment_bytes": 10**9},
    {"min_compaction_lag_ms": 10**15, "max_compaction_lag_ms": 10**16},
]


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = new_log_dir(tmp_path_factory.mktemp("values") / "d")
    for topic in TOPICS:
        add_partition(path, f"{topic}-0", f"{topic}-0")
    return path


@pytest.fixture(scope="module")
def plan(log_dir: Path, spark: SparkSession) -> winnow.Plan:
    return winnow.plan(
        spark, str(log_dir), topic_configs=str(TOPIC_CONFIGS), now=NOW, estimate=True
    )


def decided(partitions: tuple[PartitionResult, ...]) -> list[PartitionResult]:
    """Results without the sources of settings, which differ between a what-if and an option, and
    without what an option deletes beyond them.
    """
    return [replace(p, settings=(), deletes_more=()) for p in partitions]


def test_plan_equals_that_of_the_command_line(
    plan: winnow.Plan, log_dir: Path, spark: SparkSession
) -> None:
    assert plan.partitions == run(runs.plan, spark, log_dir, estimate=True).partitions
    without = winnow.plan(spark, [str(log_dir)], settings=settings(), now=NOW)
    assert without.partitions == run(runs.plan, spark, log_dir).partitions
    assert (without.freed_bytes, without.bytes_before) == (None, plan.bytes_before)
    assert plan.freed_bytes is not None


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_what_if_equals_a_plan_with_these_settings(
    plan: winnow.Plan, log_dir: Path, spark: SparkSession, policy: dict[str, Any]
) -> None:
    sets = [f"*:{name.replace('_', '.')}={value}" for name, value in policy.items()]
    asked = run(runs.plan, spark, log_dir, sets=sets, estimate=True)
    assert decided(plan.what_if(**policy).partitions) == decided(asked.partitions)


def test_what_if_does_not_read_known_files_again(
    plan: winnow.Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    for policy in (
        {"min_cleanable_dirty_ratio": 0},
        {"topics": "d-time", "cleanup_policy": "compact"},
    ):
        plan.what_if(**policy)
    plan.what_if(delete_retention_ms=77)

    def read(*_: object, **__: object) -> None:
        pytest.fail("files are read")

    for name in ("walk_partitions", "estimate", "locked"):
        monkeypatch.setattr(facts_module, name, read)
    ratios = [plan.what_if(min_cleanable_dirty_ratio=ratio / 100) for ratio in range(101)]
    assert len({tuple(p.actions for p in ratio.partitions) for ratio in ratios}) > 1
    plan.what_if(topics="d-time", cleanup_policy="compact")
    plan.what_if(delete_retention_ms=77)


def test_what_if_changes_only_the_named_topics(plan: winnow.Plan) -> None:
    other = plan.what_if(topics=["d-*"], retention_ms=-1, retention_bytes=-1)
    changed = {
        p.topic
        for p, q in zip(plan.partitions, other.partitions, strict=True)
        if p.actions != q.actions
    }
    assert changed == {"d-time"}
    with pytest.raises(UsageError, match=r"retention\.md"):
        plan.what_if(retention_md=1)
    with pytest.raises(UsageError, match="wrong value"):
        plan.what_if(retention_ms="soon")


def test_what_if_leaves_alone_what_a_broker_would_rebuild_for_a_compaction(
    spark: SparkSession, tmp_path: Path
) -> None:
    """After a crash the transaction indexes are rebuilt for topics that are compacted only."""
    path = new_log_dir(tmp_path / "d")
    add_partition(path, "t-open-0", "t-open-0")
    (path / CLEAN_SHUTDOWN).unlink()
    config = {"cleanup.policy": "delete", "retention.ms": -1}
    made = winnow.plan(spark, str(path), now=NOW, topic_sets={"t-open": config})
    assert [p.left_alone for p in made.partitions] == [False]
    (other,) = made.what_if(cleanup_policy="compact", min_cleanable_dirty_ratio=0).partitions
    assert other.left_alone
    assert "the transaction indexes were not rebuilt" in other.reason


def test_sweep_of_policies_is_a_table(plan: winnow.Plan) -> None:
    table = winnow.compare({"as it is": plan, "now": plan.what_if(retention_ms=1)})
    assert table.schema == StructType.fromDDL(COMPARED)
    rows = {(row.plan, row.topic): row for row in table.collect()}
    assert set(rows) == {(name, topic) for name in ("as it is", "now") for topic in TOPICS}
    assert (
        sum(row.freed_bytes for (name, _), row in rows.items() if name == "as it is")
        == plan.freed_bytes
    )
    assert rows["now", "d-time"].freed_bytes == rows["now", "d-time"].bytes_before


def test_partitions_as_dataframe_and_html(plan: winnow.Plan) -> None:
    frame = plan.to_df()
    assert frame.schema == StructType.fromDDL(PARTITIONS)
    rows = {row.topic: row for row in frame.collect()}
    for p in plan.partitions:
        assert (rows[p.topic].bytes_after, rows[p.topic].actions) == (
            p.bytes_after,
            list(p.actions),
        )
    html = plan._repr_html_()
    assert html.count("<tr>") == 1 + len(TOPICS)
    assert "c-tomb-0" in html


def test_names_and_reasons_are_escaped_in_html(plan: winnow.Plan) -> None:
    hostile = replace(plan.partitions[0], reason="<script>alert(1)</script>\x1b[2J")
    shown = replace(plan, run=replace(plan.run, partitions=(hostile,)))._repr_html_()
    assert "<script" not in shown
    assert "\x1b" not in shown


def test_plan_is_executed_only_on_the_files_it_was_made_for(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = new_log_dir(tmp_path / "d")
    for name in ("c-none-0", "d-time-0"):
        add_partition(path, name, name)
    sources: dict[str, Any] = {
        "topic_configs": str(TOPIC_CONFIGS),
        "topic_sets": {"c-none": {"min.cleanable.dirty.ratio": 0}},
    }
    made = winnow.plan(spark, str(path), now=NOW, estimate=True, **sources).what_if(
        topics="d-*", retention_ms=-1
    )
    before = files_of(path)
    (log, *_) = sorted((path / "c-none-0").glob("*.log"))
    status = log.stat()
    os.utime(log, ns=(status.st_atime_ns, status.st_mtime_ns + 10**9))
    with pytest.raises(WinnowError, match=r"has changed since the plan was made.*c-none-0"):
        made.execute()
    with pytest.raises(WinnowError, match="has changed since"):
        made.what_if(delete_retention_ms=1)
    assert [
        name for name in changes(before, files_of(path)) if name != f"c-none-0/{log.name}"
    ] == []
    done = made.execute(refresh=True, ledger=str(tmp_path / "ledger"))
    assert [replace(p, settings=()) for p in made.partitions] == list(done.partitions)
    assert done.freed_bytes == made.freed_bytes
    assert done.to_df().count() == 2
    page = tmp_path / "page.html"
    done.report(page)
    assert "c-none-0" in page.read_text()
    recorded = winnow.ledger_table(spark, str(tmp_path / "ledger")).collect()
    assert {row.run_id for row in recorded} == {done.run.run_id}


def test_settings_are_accepted_as_python_values(
    spark: SparkSession, tmp_path: Path, log_dir: Path
) -> None:
    server = tmp_path / "server.properties"
    server.write_text("node.id=1\nlog.retention.ms=1\n")
    by_mappings = winnow.plan(
        spark,
        str(log_dir),
        server_properties=str(server),
        sets={"log.cleanup.policy": "delete", "log.cleaner.enable": True},
        topic_sets={"c-*": {"cleanup.policy": "compact"}},
        topics=["c-none", "d-time"],
        now=NOW,
    )
    assert [(p.topic, p.policy) for p in by_mappings.partitions] == [
        ("c-none", "compact"),
        ("d-time", "delete"),
    ]
    assert {p.topic: p.actions for p in by_mappings.partitions}["d-time"] == ("retained",)
    with pytest.raises(UsageError, match="one or the other"):
        winnow.plan(spark, str(log_dir), settings=settings(), sets={"log.retention.ms": 1})
    with pytest.raises(UsageError, match="no-such-file"):
        winnow.plan(spark, str(log_dir), topic_configs="no-such-file")


def test_import_loads_neither_spark_nor_numba() -> None:
    code = (
        "import sys, winnow; print([m for m in ('pyspark', 'numba', 'numpy') if m in "
        "sys.modules], winnow.__all__)"
    )
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert told.stdout.startswith("[] ['Avro'")
    with pytest.raises(AttributeError, match="no attribute 'plans'"):
        _ = winnow.plans
