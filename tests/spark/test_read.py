"""`winnow.read` over recorded logs, and over logs with JSON that a writer like a broker made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import winnow
from tests.crash.runs import read_log
from tests.fixtures.data import copy_log_dir, unpacked
from tests.log_writer.dir_writer import LogDirWriter
from tests.log_writer.segment_writer import SegmentConfig
from tests.unit.kafka_log.reading import rows
from winnow.errors import UsageError
from winnow.kafka_log.source import every_record
from winnow.wire.plain import Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CLEAN = unpacked("before-clean") / "clean"
DAMAGED = str(unpacked("before-damaged") / "damaged" / "x-badcrc-0")
START = 1_790_000_000_000
STATE = ("c-tomb-0", "c-multi-0")


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A topic with JSON, in which some values are broken in different ways."""
    path = tmp_path_factory.mktemp("orders") / "kafka"
    values = [
        b'{"id": 1, "city": "K\xc3\xb6ln"}',
        b'{"id": 2, "city": null, "more": [1]}',
        b"null",
        None,
        b'{"id": "many"}',
        b"\xff\xfe",
        b"",
    ]
    headers = ((b"trace", b"1"), (b"other", None), (b"trace", b"2"))
    with LogDirWriter(path, clock=lambda: START) as log_dir:
        log = log_dir.partition("orders", 0, config=SegmentConfig(segment_bytes=4096))
        log.append_records(
            [
                Record(i, START + i, b"k%d" % i, value, headers if i == 0 else ())
                for i, value in enumerate(values)
            ]
        )
    return str(path)


def plain_state(directory: Path, last: int) -> dict[bytes, tuple[int, bytes]]:
    """The last record of each key up to an offset, one record after the other."""
    state: dict[bytes, tuple[int, bytes]] = {}
    for record in read_log(directory).records:
        if record.offset > last or record.key is None:
            continue
        state.pop(record.key, None)
        if record.value is not None:
            state[record.key] = (record.offset, record.value)
    return state


@pytest.mark.parametrize("name", STATE)
def test_state_is_that_of_a_reader_who_stopped_there(name: str, spark: SparkSession) -> None:
    topic = name.rpartition("-")[0]
    for last in (0, 333, 10**9):
        found = winnow.read(spark, str(CLEAN), topics=topic, partitions=0, as_of=last).collect()
        state = {bytes(row.key): (row.offset, bytes(row.value)) for row in found}
        assert state == plain_state(CLEAN / name, last), last
        assert len(found) == len(state)


def test_state_at_a_time_counts_records_of_that_time(spark: SparkSession) -> None:
    records = read_log(CLEAN / "c-tomb-0").records
    time = records[400].timestamp
    last = max(r.offset for r in records if r.timestamp <= time)
    assert [r.offset for r in records if r.timestamp <= time] == [*range(last + 1)]
    moment = datetime.fromtimestamp(time / 1000, tz=UTC)
    found = winnow.read(spark, f"{CLEAN}/c-tomb-0", as_of=moment)
    assert {bytes(row.key) for row in found.collect()} == {*plain_state(CLEAN / "c-tomb-0", last)}


def test_state_that_a_cleaner_has_thinned_out_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    log_dir = copy_log_dir("clean", tmp_path / "log-dir", only=["c-tomb-0"])
    (log_dir / "cleaner-offset-checkpoint").write_text("0\n1\nc-tomb 0 600\n")
    before = rows(log_dir, topics="c-tomb", columns=["offset", "timestamp"])
    late = next(row["timestamp"] for row in before if row["offset"] == 599)
    for point in (598, late, {"c-tomb": {0: 5}}):
        with pytest.raises(UsageError, match=r"no longer complete.*allow_incomplete=True"):
            winnow.read(spark, str(log_dir), as_of=point)
    with pytest.raises(UsageError, match="at or after offset 599 of c-tomb-0"):
        winnow.read(spark, str(log_dir), as_of=598)
    assert winnow.read(spark, str(log_dir), as_of=599).count() > 0
    assert winnow.read(spark, str(log_dir), as_of=598, allow_incomplete=True).count() > 0
    assert winnow.read(spark, str(log_dir), as_of=before[600]["timestamp"]).count() > 0


@pytest.mark.parametrize("option", ["start", "end", "as_of"])
def test_offsets_of_what_does_not_exist_are_refused(spark: SparkSession, option: str) -> None:
    asked: Any = {option: {"nothing": {0: 5}}}
    with pytest.raises(UsageError, match=f"{option} names a topic that does not exist"):
        winnow.read(spark, str(CLEAN), **asked)


def test_range_has_the_records_of_its_offsets_and_times(spark: SparkSession) -> None:
    some = winnow.read(spark, str(CLEAN), topics="c-tomb", start=100, end=200)
    assert sorted(row.offset for row in some.select("offset").collect()) == [*range(100, 200)]
    records = read_log(CLEAN / "c-tomb-0").records
    hour = winnow.read(
        spark, str(CLEAN), topics="c-tomb", start="2026-09-21T14:30:00Z", end="2026-09-21T15:30:00Z"
    )
    wanted = [r.offset for r in records if 1790001000000 <= r.timestamp < 1790004600000]
    assert sorted(row.offset for row in hour.select("offset").collect()) == wanted != []


def test_aborted_records_are_left_out_unless_asked_for(spark: SparkSession) -> None:
    path = str(CLEAN / "t-closed-0")
    committed = rows(Path(path), isolationLevel="read_committed", columns=["offset"])
    everything = rows(Path(path), columns=["offset"])
    assert winnow.read(spark, path).count() == len(committed) < len(everything)
    assert winnow.read(spark, path, isolation_level="read_uncommitted").count() == len(everything)


def test_headers_are_a_map_in_which_the_last_value_counts(spark: SparkSession, orders: str) -> None:
    first, second = winnow.read(spark, orders, end=2).orderBy("offset").collect()
    assert first.headers == {"other": None, "trace": bytearray(b"2")}
    assert second.headers is None


def _problems(found: Mapping[int, Any]) -> dict[int, str]:
    return {offset: row.problem for offset, row in found.items() if row.problem}


def test_json_with_a_schema(spark: SparkSession, orders: str) -> None:
    frame = winnow.read(
        spark,
        orders,
        key="string",
        value=winnow.Json("id bigint, city string"),
        mode="PERMISSIVE",
    )
    assert frame.schema["value"].dataType.simpleString() == "struct<id:bigint,city:string>"
    found = {row.offset: row for row in frame.collect()}
    assert [tuple(found[i].value) for i in (0, 1)] == [(1, "Köln"), (2, None)]
    assert [found[i].value for i in (2, 3, 4, 5, 6)] == [None] * 5
    assert [found[i].key for i in range(7)] == [f"k{i}" for i in range(7)]
    assert _problems(found) == {
        4: "the value can't be decoded: it is not JSON of the schema",
        5: "the value can't be decoded: it is not UTF-8",
        6: "the value can't be decoded: it is not JSON of the schema",
    }


def test_json_schema_is_inferred_from_all_records(spark: SparkSession, orders: str) -> None:
    frame = winnow.read(spark, orders, value="json", end=4)
    assert frame.schema["value"].dataType.simpleString() == (
        "struct<city:string,id:bigint,more:array<bigint>>"
    )
    values = {row.offset: row.value and row.value.asDict() for row in frame.collect()}
    assert values[1] == {"id": 2, "city": None, "more": [1]}
    assert (values[2], values[3]) == (None, None)
    with pytest.raises(UsageError, match="no schema can be inferred for the JSON of key"):
        winnow.read(spark, orders, key="json")


def of_values(tmp_path: Path, *values: bytes) -> str:
    """Write a log directory with these values in one topic, each in a batch of its own."""
    with LogDirWriter(tmp_path / "kafka", clock=lambda: START) as log_dir:
        log = log_dir.partition("t", 0)
        for i, value in enumerate(values):
            log.append_records([Record(i, START, b"k", value)])
    return str(tmp_path / "kafka")


@pytest.mark.parametrize(
    ("values", "fields"),
    [
        ((b'{"a": 1, "A": 2}',), "A and a"),
        ((b'{"a": 1}', b'{"A": 2}'), "A and a"),
        ((b'{"x": [{"a": 1}]}', b'{"x": [{"A": 1}]}'), "x.A and x.a"),
        ((b'{"a": 1, "a": 2}',), "a and a"),
    ],
)
def test_fields_that_spark_takes_for_one_are_refused_where_the_schema_is_inferred(
    spark: SparkSession, tmp_path: Path, values: Sequence[bytes], fields: str
) -> None:
    path = of_values(tmp_path, *values)
    with pytest.raises(UsageError, match=f"found {fields}. Give the schema"):
        winnow.read(spark, path, value="json")
    schema = winnow.Json("a int" if fields[0] != "x" else "x array<struct<a: int>>")
    assert winnow.read(spark, path, value=schema).count() == len(values)


def test_fields_that_differ_in_case_are_two_in_a_session_that_says_so(
    spark: SparkSession, tmp_path: Path
) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.caseSensitive", "true")
    frame = winnow.read(session, of_values(tmp_path, b'{"a": 1}', b'{"A": 2}'), value="json")
    rows = frame.orderBy("offset").select("value.a", "value.A").collect()
    assert [tuple(row) for row in rows] == [(1, None), (None, 2)]


@pytest.mark.parametrize("name", ["_winnow_corrupt", "_corrupt", "_Corrupt", "_corrupt_record"])
def test_json_field_may_have_any_name(spark: SparkSession, tmp_path: Path, name: str) -> None:
    path = of_values(tmp_path, f'{{"{name}": 1}}'.encode(), b"{")
    for how in ("json", winnow.Json(f"{name} bigint")):
        rows = winnow.read(spark, path, value=how, mode="PERMISSIVE").orderBy("offset").collect()
        assert [row.value and row.value[name] for row in rows] == [1, None]
        assert [row.problem is None for row in rows] == [True, False]


def test_json_of_other_kinds_than_objects(spark: SparkSession, tmp_path: Path) -> None:
    with LogDirWriter(tmp_path / "kafka", clock=lambda: START) as log_dir:
        log_dir.partition("t", 0).append_records(
            [
                Record(0, START, b"a", b"[1, 2]"),
                Record(1, START, b"b", b"null"),
                Record(2, START, b"c", b"[1"),
                Record(3, START, b"d", b"\tnull\r\n"),
            ]
        )
    frame = winnow.read(
        spark, str(tmp_path / "kafka"), value=winnow.Json("array<int>"), mode="PERMISSIVE"
    )
    found = {row.offset: (row.value, row.problem is None) for row in frame.collect()}
    assert found == {0: ([1, 2], True), 1: (None, True), 2: (None, False), 3: (None, True)}


def test_names_that_need_quotes_and_maps_are_schemas(spark: SparkSession, tmp_path: Path) -> None:
    with LogDirWriter(tmp_path / "kafka", clock=lambda: START) as log_dir:
        log_dir.partition("t", 0).append_records([Record(0, START, b"a", b'[{"i-d": 1}]')])
    for schema in ("array<struct<`i-d`: int>>", "array<map<string, int>>"):
        [row] = winnow.read(spark, str(tmp_path / "kafka"), value=winnow.Json(schema)).collect()
        assert row.value[0]["i-d"] == 1


def test_settings_of_the_session_do_not_change_the_columns(spark: SparkSession) -> None:
    settings = {
        "spark.sql.timestampType": "TIMESTAMP_NTZ",
        "spark.sql.ansi.enforceReservedKeywords": "true",
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        assert winnow.read(spark, str(CLEAN), topics="c-tomb").count() == 1000
        assert every_record(spark, ["c-tomb"], [str(CLEAN)]).count() == 1000
    finally:
        for name in settings:
            spark.conf.unset(name)


def test_modes_for_values_that_cant_be_decoded(spark: SparkSession, orders: str) -> None:
    how = winnow.Json("id bigint")
    with pytest.raises(Exception, match=r"not JSON of the schema in orders-0, offset 4.*PERMISS"):
        winnow.read(spark, orders, value=how, end=5).collect()
    dropped = winnow.read(spark, orders, value=how, mode="DROPMALFORMED")
    assert sorted(row.offset for row in dropped.collect()) == [0, 1, 2, 3]
    with pytest.raises(Exception, match="the value can't be decoded: it is not UTF-8"):
        winnow.read(spark, orders, value="string").collect()


def test_modes_for_damaged_batches(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="does not match its CRC"):
        winnow.read(spark, DAMAGED).collect()
    shown = winnow.read(spark, DAMAGED, mode="PERMISSIVE")
    assert shown.where("problem IS NOT NULL AND offset IS NULL").count() == 1
    left = winnow.read(spark, DAMAGED, mode="DROPMALFORMED")
    assert left.count() == shown.where("problem IS NULL").count()
    state = winnow.read(spark, DAMAGED, as_of=10**6, mode="PERMISSIVE")
    assert state.where("problem IS NOT NULL").count() == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"as_of": 5, "start": 1}, "as_of together with start or end"),
        ({"topics": "a,b"}, "a list for several"),
        ({"topics": ["c-tom"]}, "Similar: c-tomb"),
        ({"topics": [5]}, "topics can't be used"),
        ({"partitions": [99]}, "there is no such partition"),
        ({"partitions": [-1]}, "partitions can't be used"),
        ({"partitions": None}, "partitions can't be used"),
        ({"mode": "permissive"}, "'FAILFAST' or 'PERMISSIVE' or 'DROPMALFORMED'"),
        ({"isolation_level": "serializable"}, "'read_committed' or 'read_uncommitted'"),
        ({"allow_incomplete": "yes"}, "True or False"),
        ({"value": winnow.Json("id bigin")}, "the schema of Json can't be read"),
        ({"value": winnow.Json("int")}, "expected a struct, an array or a map"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_read(
    options: Any, told: str, spark: SparkSession
) -> None:
    with pytest.raises(UsageError, match=told):
        winnow.read(spark, str(CLEAN), **options)


def test_unknown_option_is_refused_and_options_have_names(spark: SparkSession) -> None:
    with pytest.raises(UsageError, match=r"no argument topic: .*Did you mean topics\?"):
        winnow.read(spark, str(CLEAN), topic="c-tomb")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        winnow.read(spark, str(CLEAN), "c-tomb")  # type: ignore[misc]
