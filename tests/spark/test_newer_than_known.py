"""What a newer Kafka left is named, and everything else is cleaned as before: an unknown kind of
metadata record, a newer feature level, a newer meta.properties. All are put into what a real broker
left.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.data import copy_log_dir
from tests.spark.runs import NOW, by_name, clean
from tests.unit.logdir.metadata_logs import batch
from tests.unit.wire.metadata_values import feature
from winnow.logdir.metadata import read_cluster_metadata
from winnow.logdir.names import META_PROPERTIES
from winnow.policy.sources import Settings
from winnow.storage.local import LocalStorage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from winnow.cleaning.result import RunResult

pytestmark = pytest.mark.spark

METADATA = "__cluster_metadata-0"
SOME = [METADATA, "c-tomb-0", "d-time-0"]
UNKNOWN_KIND = bytes([1, 99, 0, 1, 2, 3])


def append(*values: bytes) -> Callable[[Path], None]:
    """As a newer broker that goes on with the metadata log."""

    def append_to(log_dir: Path) -> None:
        directory = log_dir / METADATA
        end = read_cluster_metadata(LocalStorage(), str(directory)).end_offset
        with max(directory.glob("*.log")).open("ab") as log:
            log.write(batch(end, *values))

    return append_to


def newer_meta(log_dir: Path) -> None:
    meta = log_dir / META_PROPERTIES
    meta.write_text(meta.read_text().replace("version=1", "version=2") + "brand.new=x\n")


def cleaned(spark: SparkSession, log_dir: Path) -> RunResult:
    return clean(spark, [str(log_dir)], settings=Settings(), now=NOW)


@pytest.mark.parametrize(
    ("newer", "note"),
    [
        pytest.param(append(UNKNOWN_KIND), "has a record of kind 99", id="record"),
        pytest.param(
            append(feature("metadata.version", 99)),
            "has metadata.version 99, which is newer than this Winnow",
            id="level",
        ),
        pytest.param(
            append(feature("brand.new", 3)), "has brand.new 3, which is newer", id="feature"
        ),
        pytest.param(newer_meta, "meta.properties has version 2, which is newer", id="meta"),
    ],
)
def test_what_is_newer_than_known_is_named_and_the_rest_is_cleaned(
    spark: SparkSession,
    tmp_path: Path,
    newer: Callable[[Path], None],
    note: str,
) -> None:
    known, unknown = (copy_log_dir("clean", tmp_path / name, only=SOME) for name in ("1", "2"))
    newer(unknown)
    expected, found = cleaned(spark, known), cleaned(spark, unknown)
    assert [said for said in found.notes if note in said], found.notes
    assert not [said for said in expected.notes if note in said]
    assert found.kafka_version == expected.kafka_version == "4.3"
    assert {p.actions for p in found.partitions} == {("compacted",), ("retained",)}
    assert [by_name(found)[name].records_after for name in by_name(expected)] == [
        p.records_after for p in by_name(expected).values()
    ]
    for directory in ("c-tomb-0", "d-time-0"):
        logs = [{f.name: f.read_bytes() for f in (d / directory).glob("*.log")}
                for d in (known, unknown)]  # fmt: skip
        assert logs[0] == logs[1]
