"""A DataFrame of `kafka-log` gives the same rows in every plan. The source stores nothing of a
query.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import winnow
from tests.fixtures.data import copy_tree, unpacked

pytestmark = pytest.mark.spark

C_NONE = str(unpacked("before-clean") / "clean" / "c-none-0")
ALL, LOW, HIGH = 6000, 100, 5900
"""Records of C_NONE: all, those below offset 100, and the others."""
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """In which Spark pushes filters to sources that take them."""
    own = spark.newSession()
    own.conf.set(PUSHDOWN, "true")
    winnow.register(own)
    return own


@pytest.fixture
def log(session: SparkSession) -> DataFrame:
    return session.read.format("kafka-log").schema("offset bigint, key binary").load(C_NONE)


def test_filter_does_not_persist_in_the_dataframe(log: DataFrame) -> None:
    assert log.count() == ALL
    assert log.where("offset < 100").count() == LOW
    assert log.where("offset >= 100").count() == HIGH
    assert log.count() == ALL


def test_filters_on_partition_and_topic_do_not_persist(session: SparkSession) -> None:
    log = session.read.format("kafka-log").load(C_NONE)
    assert log.where("partition = 9").count() == 0
    assert log.where("topic = 'other'").count() == 0
    assert log.where("timestamp < '2001-01-01'").count() == 0
    assert log.count() == ALL


def test_union_of_two_filtered_halves_has_each_record_once(log: DataFrame) -> None:
    halves = log.where("offset < 100").union(log.where("offset >= 100"))
    assert sorted(row.offset for row in halves.select("offset").collect()) == list(range(ALL))


def test_self_join_filters_each_side_separately(session: SparkSession) -> None:
    log = session.read.format("kafka-log").schema("offset bigint, partition int").load(C_NONE)
    low, high = log.where("offset < 10"), log.where("offset >= 5995")
    assert low.join(high, "partition").count() == 50


def test_subqueries_over_a_view_filter_separately(session: SparkSession, log: DataFrame) -> None:
    log.createOrReplaceTempView("records")
    [row] = session.sql(
        "SELECT (SELECT count(*) FROM records WHERE offset < 100) AS low,"
        " (SELECT count(*) FROM records WHERE offset >= 100) AS high,"
        " (SELECT count(*) FROM records) AS whole"
    ).collect()
    assert tuple(row) == (LOW, HIGH, ALL)


def test_sql_view_filters_separately(session: SparkSession) -> None:
    session.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW made USING `kafka-log` OPTIONS (path '{C_NONE}')"
    )
    made = [
        session.table("made"),
        session.sql("SELECT * FROM made WHERE offset < 100"),
        session.table("made"),
    ]
    assert [rows.count() for rows in made] == [ALL, LOW, ALL]


def test_cache_has_all_rows_after_a_filter(log: DataFrame) -> None:
    assert log.where("offset < 100").count() == LOW
    cached = log.cache()
    try:
        assert cached.count() == ALL
        assert cached.where("offset < 100").count() == LOW
    finally:
        cached.unpersist()
    assert log.count() == ALL


def test_plan_made_before_a_filter_keeps_its_rows(log: DataFrame) -> None:
    whole, low = log.groupBy().count(), log.where("offset < 100").groupBy().count()
    assert (whole.first()[0], low.first()[0], whole.first()[0]) == (ALL, LOW, ALL)


def test_export_after_a_filter_has_all_rows(
    session: SparkSession, log: DataFrame, tmp_path: Path
) -> None:
    assert log.where("offset < 100").count() == LOW
    log.write.parquet(str(tmp_path / "export"))
    assert session.read.parquet(str(tmp_path / "export")).count() == ALL


def test_two_threads_each_get_the_rows_of_their_own_query(log: DataFrame) -> None:
    with ThreadPoolExecutor(2) as pool:
        low = pool.map(lambda bound: log.where(f.col("offset") < bound).count(), [10, 20, 30])
        whole = pool.map(lambda _: log.count(), range(3))
        assert (list(low), list(whole)) == ([10, 20, 30], [ALL] * 3)


def test_segments_changed_after_first_query_are_refused(
    session: SparkSession, tmp_path: Path
) -> None:
    """Spark keeps the plan of the first query. A new `load` makes a new plan."""
    copy_tree(Path(C_NONE), tmp_path / "c-none-0")
    log = session.read.format("kafka-log").schema("offset bigint").load(str(tmp_path / "c-none-0"))
    assert log.count() == ALL
    first = min((tmp_path / "c-none-0").glob("*.log"))
    first.rename(first.with_suffix(".kept"))
    first.write_bytes(b"")
    with pytest.raises(Exception, match="changed since the DataFrame was planned"):
        log.count()
    assert (
        session.read.format("kafka-log")
        .load(str(tmp_path / "c-none-0"))
        .where("offset >= 0")
        .count()
        < ALL
    )


def test_active_segment_may_grow_but_not_be_replaced(session: SparkSession, tmp_path: Path) -> None:
    copy_tree(Path(C_NONE), tmp_path / "c-none-0")
    log = session.read.format("kafka-log").schema("offset bigint").load(str(tmp_path / "c-none-0"))
    assert log.count() == ALL
    active = max((tmp_path / "c-none-0").glob("*.log"))
    with active.open("ab") as file:
        file.write(bytes(10))
    assert log.count() == ALL
    # As a cleaner does after the broker has rolled: the same name, another file.
    cleaned = active.with_suffix(".cleaned")
    cleaned.write_bytes(active.read_bytes())
    cleaned.rename(active)
    with pytest.raises(Exception, match="changed since the DataFrame was planned"):
        log.count()


def test_register_changes_no_setting_and_needs_none(spark: SparkSession) -> None:
    own = spark.newSession()
    own.conf.set(PUSHDOWN, "false")
    winnow.register(own)
    assert own.conf.get(PUSHDOWN) == "false"
    log = own.read.format("kafka-log").schema("offset bigint").load(C_NONE)
    assert log.where("offset < 100").union(log).count() == LOW + ALL


def test_second_session_can_register_after_the_first(spark: SparkSession) -> None:
    winnow.register(spark)
    winnow.register(spark)
    second = spark.newSession()
    winnow.register(second)
    for session in (spark, second):
        assert session.read.format("kafka-log").load(C_NONE).count() == ALL
