from __future__ import annotations

import pytest
from pyspark.sql.types import ArrayType, IntegerType, StringType, StructField, StructType

from winnow.errors import UsageError
from winnow.kafka_log.options import (
    ANY_TIME,
    EARLIEST,
    LATEST,
    MAX_LONG,
    MIN_LONG,
    Bound,
    Mode,
    Options,
    Times,
    parse_options,
)
from winnow.kafka_log.schema import SCHEMA, check_schema
from winnow.state import TopicPartition


def _not_null(name: str) -> StructField:
    types = {"offset": SCHEMA["offset"].dataType, "key": StringType()}
    return StructField(name, types[name], nullable=False)


def options(**given: str) -> Options:
    return parse_options({"path": "/k", **given})


def test_schema_is_the_documented_one() -> None:
    assert SCHEMA.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int,"
        "headers:array<struct<key:string,value:binary>>,baseOffset:bigint,batchLastOffset:bigint,batchSize:int,"
        "magic:int,codec:string,producerId:bigint,producerEpoch:int,sequence:int,isTransactional:boolean,"
        "isControl:boolean,partitionLeaderEpoch:int,deleteHorizon:timestamp,segment:string,position:bigint,"
        "crcOk:boolean,problem:string>"
    )


def test_user_schema_selects_columns() -> None:
    chosen = StructType([SCHEMA["offset"], SCHEMA["headers"]])
    assert check_schema(chosen) == chosen
    with pytest.raises(
        UsageError, match=r"no such column: expected some of key, value, .*, found Key"
    ):
        check_schema(StructType([StructField("Key", IntegerType())]))
    with pytest.raises(
        UsageError, match="column offset has another type: expected bigint, found int"
    ):
        check_schema(StructType([StructField("offset", IntegerType())]))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            [_not_null("offset")],
            "column offset may be null: expected bigint, found bigint NOT NULL",
        ),
        (
            [StructField("headers", ArrayType(StructType([_not_null("key"), SCHEMA["value"]])))],
            "column headers may be null",
        ),
        ([SCHEMA["offset"]] * 2, r"a schema needs columns, each once: .*, found offset, offset"),
    ],
)
def test_schema_with_not_null_or_a_column_twice_is_refused(
    fields: list[StructField], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        check_schema(StructType(fields))


def test_schema_without_columns_is_refused() -> None:
    with pytest.raises(UsageError, match=r"a schema needs columns, each once: .*, found none"):
        check_schema(StructType([]))


def test_options_have_these_defaults() -> None:
    assert options() == Options(
        paths=("/k",),
        topics=(),
        partitions=frozenset(),
        start=Bound(EARLIEST),
        end=Bound(LATEST),
        times=ANY_TIME,
        read_committed=False,
        mode=Mode.PERMISSIVE,
        include_control=False,
        below_log_start=False,
        max_bytes=64 << 20,
    )


def test_option_names_and_words_ignore_case() -> None:
    found = options(
        TOPICS="a*, b-?", Mode="failfast", ISOLATIONlevel="READ_committed", includecontrol="True"
    )
    assert found.topics == ("a*", "b-?")
    assert (found.mode, found.read_committed, found.include_control) == (Mode.FAILFAST, True, True)


def test_several_paths_are_accepted_and_none_is_refused() -> None:
    assert parse_options({"paths": '["/a","/b"]'}).paths == ("/a", "/b")
    for given, found in (({}, "none"), ({"path": ""}, "an empty text"), ({"paths": "[]"}, "none")):
        with pytest.raises(UsageError, match=f"needs a path: .* found {found}"):
            parse_options(given)


def test_partitions_are_numbers_and_ranges() -> None:
    assert options(partitions="0, 2,5-7").partitions == frozenset({0, 2, 5, 6, 7})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", Bound(EARLIEST)),
        ("17", Bound(17)),
        (
            '{"t":{"0":23,"1":-2}}',
            Bound(EARLIEST, {TopicPartition("t", 0): 23, TopicPartition("t", 1): EARLIEST}),
        ),
    ],
)
def test_starting_offsets_are_parsed(text: str, expected: Bound) -> None:
    assert options(startingOffsets=text).start == expected


@pytest.mark.parametrize(("text", "expected"), [("latest", Bound(LATEST)), ("0", Bound(0))])
def test_ending_offsets_are_parsed(text: str, expected: Bound) -> None:
    assert options(endingOffsets=text).end == expected


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1790000000123", 1_790_000_000_123),
        ("2026-09-21T13:33:20.123Z", 1_789_997_600_123),
        ("2026-09-21T15:33:20+02:00", 1_789_997_600_000),
        ("2026-09-21", 1_789_948_800_000),
        ("2026-09-21T13:33:20.123001Z", 1_789_997_600_124),
    ],
)
def test_timestamps_are_parsed(text: str, ms: int) -> None:
    assert options(startingTimestamp=text).start == Bound(EARLIEST, timestamp=ms)
    assert options(endingTimestamp=text).end == Bound(LATEST, timestamp=ms)
    assert options(timestampFrom=text).times == Times(ms, MAX_LONG)
    assert options(timestampBefore=text).times == Times(MIN_LONG, ms - 1)
    assert options(timestampFrom="5", timestampBefore=text).times == Times(5, ms - 1)


@pytest.mark.parametrize(
    ("text", "size"), [("1", 1), ("64m", 64 << 20), ("1GiB", 1 << 30), ("2 kb", 2048)]
)
def test_sizes_are_parsed(text: str, size: int) -> None:
    assert options(maxBytesPerPartition=text).max_bytes == size


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "startingOffset",
            "5",
            r"unknown option of kafka-log: found startingoffset\. Did you mean startingOffsets\?",
        ),
        ("xyz", "5", r"unknown option of kafka-log: found xyz\. There are path, paths, topics"),
        (
            "startingOffsets",
            "latest",
            "startingOffsets can't be understood: expected earliest, an offset, or JSON",
        ),
        ("endingOffsets", "earliest", "endingOffsets can't be understood: expected latest"),
        (
            "startingOffsets",
            '{"t":{"0":-1}}',
            "expected offsets of at least 0, or -2 for earliest, found '-1'",
        ),
        ("startingOffsets", '{"t":5}', "startingOffsets can't be understood"),
        ("startingOffsets", "[]", "startingOffsets can't be understood"),
        ("endingTimestamp", "yesterday", "endingTimestamp can't be understood"),
        (
            "timestampFrom",
            "-5",
            "timestampFrom can't be understood: expected ms since 1970, or ISO-8601",
        ),
        ("timestampBefore", "now", "timestampBefore can't be understood"),
        (
            "isolationLevel",
            "committed",
            "expected read_uncommitted or read_committed, found 'committed'",
        ),
        ("mode", "STRICT", "expected PERMISSIVE or DROPMALFORMED or FAILFAST"),
        ("partitions", "1-x", "expected numbers such as"),
        ("partitions", "7-4", "expected numbers such as 0,2,4-7, at most 1,000,000, found '7-4'"),
        ("partitions", "0-999999999", "at most 1,000,000"),
        ("partitions", "0-600000,1-600000", "at most 1,000,000, found '1-600000'"),
        ("partitions", " , ", "expected numbers such as"),
        ("topics", ",", "expected globs such as"),
        ("topics", "!", "expected globs such as"),
        ("paths", "abc", "expected a JSON list of texts"),
        ("paths", "5", "expected a JSON list of texts"),
        ("paths", '"/kafka"', "expected a JSON list of texts"),
        ("paths", '["/kafka", 5]', "expected a JSON list of texts"),
        ("includeControl", "yes", "expected false or true"),
        ("maxBytesPerPartition", "0", "expected bytes"),
    ],
)
def test_malformed_option_is_refused(name: str, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        options(**{name: text})


@pytest.mark.parametrize("time", ["5", "yesterday"])
def test_offset_and_timestamp_for_one_end_are_refused(time: str) -> None:
    with pytest.raises(
        UsageError, match="startingOffsets and startingTimestamp: expected one of them, found both"
    ):
        options(startingOffsets="5", startingTimestamp=time)


def test_missing_path_is_the_first_mistake_that_is_told() -> None:
    with pytest.raises(UsageError, match="kafka-log needs a path"):
        parse_options({"isolationLevel": "committed"})
