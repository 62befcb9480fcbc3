"""`winnow.read`: a DataFrame with typed keys and values, of records or of a state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

from pyspark.sql import functions as f

from winnow.arguments import checked, names, refused
from winnow.errors import UsageError
from winnow.kafka_log.layout import LogHome, check_offsets, chosen, find_partitions
from winnow.kafka_log.schema import some_columns
from winnow.kafka_log.source import check_paths, register
from winnow.logdir.lock import live_read_views
from winnow.reading.bounds import Bound, Point, parse_point, range_options, state_options
from winnow.reading.columns import decode, with_schema
from winnow.reading.formats import Format, parse_format
from winnow.reading.state import check_complete, last_per_key
from winnow.state import TopicPartition
from winnow.storage.places import Places

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Mode = Literal["FAILFAST", "PERMISSIVE", "DROPMALFORMED"]
Isolation = Literal["read_committed", "read_uncommitted"]

_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")


@checked
def read(
    spark: SparkSession,
    path: str | Sequence[str],
    *,
    topics: str | Sequence[str] = (),
    partitions: int | Sequence[int] = (),
    start: Bound | None = None,
    end: Bound | None = None,
    as_of: Bound | None = None,
    allow_incomplete: bool = False,
    key: Format = "bytes",
    value: Format = "bytes",
    isolation_level: Isolation = "read_committed",
    mode: Mode = "FAILFAST",
) -> DataFrame:
    """Return the records of segment files as a DataFrame. Read-only: the broker may be running.

    Args:
        spark: The session whose executors read the files.
        path: One log directory or partition directory, or several.
        topics: Globs of topics. A glob that begins with `!` excludes topics. By default all topics.
        partitions: Numbers of partitions. By default all partitions.
        start: Where to begin, inclusive: an offset, a time, or offsets by topic and partition. By
            default at the first record.
        end: Where to end, exclusive. By default after the last record.
        as_of: Return the state at this point, inclusive: one row for each key of each partition.
            Excludes `start` and `end`. By default records are returned.
        allow_incomplete: With `as_of`: return what is left of a state that cleaning has thinned out
            since. By default such a state is refused.
        key: How keys are decoded: `"bytes"` (default), `"string"`, `"json"`, `Json(...)` or
            `Avro(...)`.
        value: How values are decoded, in the same words. By default `"bytes"`.
        isolation_level: `"read_committed"` (default) or `"read_uncommitted"`.
        mode: What to do with what can't be read or decoded: `"FAILFAST"` raises an error (default),
            `"PERMISSIVE"` adds a column `problem`, `"DROPMALFORMED"` leaves it out.

    Returns:
        Rows with key, value, topic, partition, offset, timestamp, headers and, in mode PERMISSIVE,
        problem. Headers are a map: of several with one name, the last value counts.

    Raises:
        UsageError: An argument can't be used, or the state is no longer complete.

    Example:
        >>> records = winnow.read(spark, "/var/lib/kafka", topics="c-tomb", key="string")
        >>> records.columns
        ['key', 'value', 'topic', 'partition', 'offset', 'timestamp', 'headers']
    """
    paths, topics = _names(path, "path"), _names(topics, "topics")
    numbers = _numbers(partitions)
    point, given = _part(start, end, as_of)
    formats = [
        (name, parse_format(how, option=name)) for name, how in (("key", key), ("value", value))
    ]
    given["isolationLevel"] = _word(isolation_level, "isolation_level", Isolation)
    given["mode"] = _word(mode, "mode", Mode)
    with live_read_views(paths):
        homes = _homes(paths, topics, numbers, {"start": start, "end": end, "as_of": as_of})
        if point is not None and not allow_incomplete:
            check_complete(Places(), homes, point)
    check_paths(paths)
    if topics:
        given["topics"] = ",".join(topics)
    if numbers:
        given["partitions"] = ",".join(map(str, sorted(numbers)))
    columns = some_columns(*_COLUMNS, *(["problem"] if mode == "PERMISSIVE" else []))

    def load(session: SparkSession) -> DataFrame:
        register(session)
        reader = session.read.format("kafka-log").schema(columns).options(**given)
        frame = reader.load([*paths])
        return frame if point is None else last_per_key(frame)

    frame = load(spark)
    for name, how in formats:
        decoder = with_schema(how, name, spark, load)
        frame = decode(frame, name, decoder, problem=f"_{name}_problem")
    return _finished(frame, mode)


def _part(
    start: Bound | None, end: Bound | None, as_of: Bound | None
) -> tuple[Point | None, dict[str, str]]:
    """Return the point of a state, and the options of `kafka-log` for the part that is read."""
    if as_of is None:
        return None, range_options(start, end)
    if start is not None or end is not None:
        raise UsageError(
            "as_of together with start or end",
            expected="as_of alone: a state counts from the beginning",
        )
    point = parse_point(as_of, option="as_of", up=False)
    return point, state_options(point)


def _homes(
    paths: Sequence[str],
    topics: Sequence[str],
    partitions: frozenset[int],
    bounds: Mapping[str, Bound | None],
) -> list[LogHome]:
    found = find_partitions(Places(), paths)
    for option, bound in bounds.items():
        if isinstance(bound, Mapping):
            asked = (TopicPartition(topic, number) for topic in bound for number in bound[topic])
            check_offsets(found, asked, option=option)
    homes = chosen(found, topics, partitions)
    if not homes:
        raise UsageError(
            "there is no such partition",
            expected="topics and partitions that exist",
            found=", ".join(str(home.topic_partition) for home in found[:10]) or "none",
            where=", ".join(paths),
        )
    return homes


def _finished(frame: DataFrame, mode: Mode) -> DataFrame:
    """Return the columns of the result, after what the mode says about problems was done."""
    problem = f.coalesce(
        f.concat(f.lit("the key can't be decoded: "), "_key_problem"),
        f.concat(f.lit("the value can't be decoded: "), "_value_problem"),
    )
    key, value = f.col("key"), f.col("value")
    headers = f.when(f.col("headers").isNotNull(), f.map_from_entries(_last_of_each_name()))
    rest = [f.col(name) for name in ("topic", "partition", "offset", "timestamp")]
    more = []
    if mode == "DROPMALFORMED":
        frame = frame.where(problem.isNull())
    elif mode == "PERMISSIVE":
        more = [f.coalesce("problem", problem).alias("problem")]
    else:
        where = f.concat(
            f.lit(" in "), "topic", f.lit("-"), "partition", f.lit(", offset "), "offset"
        )
        hint = f.lit(". mode='PERMISSIVE' shows such records with their problem.")
        fail = f.raise_error(f.concat(problem, where, hint))
        key = f.when(f.col("_key_problem").isNull(), key).otherwise(fail)
        value = f.when(f.col("_value_problem").isNull(), value).otherwise(fail)
    return frame.select(
        key.alias("key"), value.alias("value"), *rest, headers.alias("headers"), *more
    )


def _last_of_each_name() -> Column:
    """Return the headers without those that another one with the same name follows, in order.

    They are sorted by name: to look for each of a hundred thousand among the others takes hours.
    """
    numbered = f.transform(
        "headers",
        lambda header, at: f.struct(
            header["key"].alias("key"), at.alias("at"), header.alias("own")
        ),
    )
    by_name = f.array_sort(numbered)
    following = f.slice(by_name, 2, f.greatest(f.size(by_name) - 1, f.lit(0)))
    pairs = f.zip_with(
        by_name,
        following,
        lambda one, later: f.struct(one.alias("one"), later["key"].alias("later")),
    )
    last = f.filter(
        pairs, lambda pair: pair["later"].isNull() | (pair["later"] != pair["one"]["key"])
    )
    in_order = f.array_sort(
        f.transform(
            last,
            lambda pair: f.struct(pair["one"]["at"].alias("at"), pair["one"]["own"].alias("own")),
        )
    )
    return f.transform(in_order, lambda one: one["own"])


def _names(found: Any, option: str) -> tuple[str, ...]:  # noqa: ANN401 - checked here
    several = names(found, option)
    if option == "path" and not several:
        raise refused(option, "log directories or partition directories", found)
    for name in several:
        if not name or (option == "topics" and "," in name):
            raise refused(option, "names that are not empty; a list for several", name)
    return several


def _numbers(found: int | Sequence[int] | None) -> frozenset[int]:
    numbers = [found] if isinstance(found, int) else found
    if numbers is None or any(one < 0 for one in numbers):
        raise refused("partitions", "a number, or a sequence of numbers", found)
    return frozenset(numbers)


def _word(found: Any, option: str, words: object) -> Any:  # noqa: ANN401 - checked here
    if found not in get_args(words):
        raise refused(option, " or ".join(map(repr, get_args(words))), found)
    return found
