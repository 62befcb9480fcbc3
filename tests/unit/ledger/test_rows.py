"""What the ledger records of a run, and under which names."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from tests.unit.cli.results import NOW, left_alone, partition, run_of
from winnow.cleaning.result import Output, RecordsRemoved, SegmentFate
from winnow.ledger.rows import cleaning
from winnow.ledger.schema import LEDGER, LEDGER_OF_ERASURES, PARTITION_COLUMNS, RUN_COLUMNS

GOLDEN = Path(__file__).parent / "partitions-v1.txt"


def test_reason_names_options_that_delete_more() -> None:
    run = run_of(partition("t", deletes_more=("retention.ms=1 instead of 2",)))
    (row,) = map(json.loads, cleaning(run, log_dirs=["/k"], started=NOW, ended=NOW).rows)
    more = "; options delete more than its own settings: retention.ms=1 instead of 2"
    assert row["reason"].endswith(more)


def test_schema_matches_existing_tables() -> None:
    """If you change it, rename the table (`place.TABLE`): tables with the old schema exist."""
    assert LEDGER.treeString() == GOLDEN.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("schema", "digest"), [(LEDGER, "f1d15cc932fdc0c5"), (LEDGER_OF_ERASURES, "b2cb6af53834398a")]
)
def test_column_comments_match_existing_tables(schema: StructType, digest: str) -> None:
    """Delta refuses rows whose column comments differ from the table's, so an existing ledger could
    not be extended.
    """
    assert hashlib.sha256(schema.json().encode()).hexdigest()[:16] == digest


def test_each_partition_has_a_row_that_repeats_the_run() -> None:
    result = run_of(
        partition("orders", 3, first_dirty_offset_after=7), left_alone("b", error="CRC\nis wrong")
    )
    lines = cleaning(result, log_dirs=["/kafka"], started=NOW, ended=NOW + 1500).rows
    assert not any("\n" in line for line in lines)
    orders, b = map(json.loads, lines)
    assert orders.keys() == {*LEDGER.names}
    assert {
        orders[column.name] == b[column.name] for column in RUN_COLUMNS if column.name != "log_dirs"
    } == {True}
    assert orders["started_at"] == "2026-11-21T22:26:40.000+00:00"
    assert orders["ended_at"] == "2026-11-21T22:26:41.500+00:00"
    assert (orders["status"], orders["exit_code"], orders["log_dirs"]) == ("partial", 3, ["/kafka"])
    assert (orders["topic"], orders["partition"], orders["first_dirty_offset_after"]) == (
        "orders",
        3,
        7,
    )
    assert (orders["actions"], orders["left_alone"], orders["oldest_dirty_at"]) == (
        ["compacted"],
        False,
        None,
    )
    assert (orders["segments"], orders["outputs"], orders["records_removed"]) == ([], [], None)
    assert (b["error"], b["left_alone"], b["actions"]) == ("CRC\nis wrong", True, ["none"])


def test_row_has_segments_outputs_and_removed_records() -> None:
    segments = (SegmentFate(0, 100, NOW, "compacted", 7), SegmentFate(9, 50, -1, "kept"))
    outputs = (Output(base_offset=0, bytes=60, checksum=8, sources=(0,)),)
    told = partition(
        "a",
        segments=segments,
        outputs=outputs,
        records_removed=RecordsRemoved(superseded=3, markers=1),
    )
    (row,) = map(json.loads, cleaning(run_of(told), log_dirs=[], started=NOW, ended=NOW).rows)
    assert row["segments"] == [
        {
            "base_offset": 0,
            "bytes": 100,
            "largest_timestamp": "2026-11-21T22:26:40.000+00:00",
            "fate": "compacted",
            "checksum": 7,
        },
        {
            "base_offset": 9,
            "bytes": 50,
            "largest_timestamp": "1969-12-31T23:59:59.999+00:00",
            "fate": "kept",
            "checksum": None,
        },
    ]
    assert row["outputs"] == [{"base_offset": 0, "bytes": 60, "checksum": 8, "sources": [0]}]
    assert row["records_removed"] == {
        "superseded": 3,
        "tombstones": 0,
        "aborted": 0,
        "markers": 1,
        "retention": 0,
    }


def test_run_without_partitions_has_one_row() -> None:
    (row,) = map(json.loads, cleaning(run_of(), log_dirs=[], started=NOW, ended=NOW).rows)
    assert row.keys() == {*RUN_COLUMNS.names}


def test_times_outside_the_calendar_are_null() -> None:
    result = run_of(
        partition("a", oldest_dirty_timestamp=2**62), partition("b", oldest_dirty_timestamp=NOW)
    )
    rows = [json.loads(row) for row in cleaning(result, log_dirs=[], started=NOW, ended=NOW).rows]
    assert [row["oldest_dirty_at"] for row in rows] == [None, "2026-11-21T22:26:40.000+00:00"]


def test_every_column_is_nullable_and_has_a_comment() -> None:
    assert all(column.nullable for column in LEDGER)
    undescribed = [
        column.name
        for column in (*RUN_COLUMNS, *PARTITION_COLUMNS)
        if not column.metadata["comment"]
    ]
    assert undescribed == ["partition"] + [
        f"{which}_offset_{when}"
        for which in ("first_dirty", "log_start")
        for when in ("before", "after")
    ]
