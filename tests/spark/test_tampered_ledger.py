"""Somebody else has written to a ledger. `history` shows what is there or says what is wrong, and a
run adds to it or goes on without it. Neither waits, nor touches anything outside of the ledger.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.deep import deep_directory
from tests.spark.test_ledger import entry, of_id
from tests.unit.cli.results import partition, run_of
from winnow.api import history
from winnow.errors import WinnowError
from winnow.ledger.append import Addition, append
from winnow.ledger.place import TABLE
from winnow.logdir.commit.staging import remove_staging
from winnow.storage.local import LocalStorage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


class Ledger:
    """A ledger with two runs, and a directory that is none of its business."""

    def __init__(self, ledger: Path, outside: Path) -> None:
        self.path, self.outside = ledger, outside
        self.table = ledger / TABLE
        self.log = self.table / "_delta_log"
        self.first, self.last = self.log / f"{0:020}.json", self.log / f"{1:020}.json"
        self.data = sorted(self.table.glob("*.parquet"))

    def edit(self, commit: Path, kind: str, change: Callable[[dict[str, Any]], object]) -> None:
        rows = [json.loads(line) for line in commit.read_text().splitlines()]
        for row in rows:
            if kind in row:
                change(row[kind])
        commit.write_text("\n".join(map(json.dumps, rows)))
        for checksum in self.log.glob("*.crc"):
            checksum.unlink()

    def edit_schema(self, change: Callable[[dict[str, Any]], object]) -> None:
        def of_metadata(metadata: dict[str, Any]) -> None:
            schema = json.loads(metadata["schemaString"])
            change(schema)
            metadata["schemaString"] = json.dumps(schema)

        self.edit(self.first, "metaData", of_metadata)

    def move_out(self, path: Path) -> Path:
        """Leave a link in place of a file or directory."""
        moved = self.outside / path.name
        path.rename(moved)
        path.symlink_to(moved)
        return moved


@pytest.fixture(scope="module")
def sound(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sound") / "ledger"
    for name in ("1", "2"):
        append(spark.sparkContext, str(path), entry(of_id(name, run_of(partition(f"t{name}")))))
    return path


@pytest.fixture
def ledger(sound: Path, tmp_path: Path) -> Iterator[Ledger]:
    (tmp_path / "outside").mkdir()
    yield Ledger(
        Path(shutil.copytree(sound, tmp_path / "ledger", symlinks=True)), tmp_path / "outside"
    )
    remove_staging(LocalStorage(), str(tmp_path / "ledger"))  # at any depth, unlike pytest


def data_at(path: Callable[[Ledger, Path], str]) -> Callable[[Ledger], None]:
    """Let a commit name its file of data by another path."""

    def tamper(ledger: Ledger) -> None:
        copy = Path(shutil.copy(ledger.data[0], ledger.outside))
        ledger.edit(ledger.last, "add", lambda add: add.update(path=path(ledger, copy)))

    return tamper


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def set_type(schema: dict[str, Any]) -> None:
    next(one for one in schema["fields"] if one["name"] == "topic")["type"] = "long"


def nested(depth: int) -> str:
    before = '{"type": "array", "containsNull": true, "elementType": '
    kind = before * depth + '"long"' + "}" * depth
    return '{"type": "struct", "fields": [{"name": "run_id", "type": ' + kind + "}]}"


def map_columns(ledger: Ledger) -> None:
    mode = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "1"}
    ledger.edit(ledger.first, "metaData", lambda data: data.update(configuration=mode))
    ledger.edit(
        ledger.first, "protocol", lambda one: one.update(minReaderVersion=2, minWriterVersion=5)
    )


def delete_by_vector(ledger: Ledger) -> None:
    """Let a commit delete rows by a list in a file elsewhere."""
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
    vector = {"storageType": "p", "pathOrInlineDv": "file:/etc/passwd", "offset": 1}
    ledger.edit(ledger.first, "protocol", lambda one: one.update(protocol))
    ledger.edit(
        ledger.last,
        "add",
        lambda add: add.update(deletionVector={**vector, "sizeInBytes": 40, "cardinality": 1}),
    )


def deep(path: Path) -> None:
    with deep_directory(path) as deepest:
        os.mkfifo("pipe", dir_fd=deepest)


def large(path: Path) -> None:
    path.touch()
    os.truncate(path, 20 << 30)


ELSEWHERE = "data that lies elsewhere"
NO_FILE, LINK, LARGE = "no regular file", "a link", "a file of 21474836480 bytes"
UNREADABLE = "the ledger can't be read"
READ: dict[str, tuple[Callable[[Ledger], object], str]] = {
    "an absolute path": (data_at(lambda _, copy: str(copy)), ELSEWHERE),
    "a path above": (
        data_at(lambda ledger, copy: os.path.relpath(copy, ledger.table)),
        ELSEWHERE,
    ),
    "another host": (data_at(lambda *_: "http://127.0.0.1:9/x.parquet"), ELSEWHERE),
    "HDFS": (data_at(lambda *_: "hdfs://127.0.0.1:9/x.parquet"), ELSEWHERE),
    "another file": (data_at(lambda *_: "/etc/passwd"), ELSEWHERE),
    "a deletion vector": (delete_by_vector, "found deletion vectors"),
    "a pipe of data": (lambda one: pipe(one.data[0]), NO_FILE),
    "a deep directory": (lambda one: deep(one.table), NO_FILE),
    "a pipe as commit": (lambda one: pipe(one.last), NO_FILE),
    "a link to data": (lambda one: one.move_out(one.data[0]), LINK),
    "a link to the log": (lambda one: one.move_out(one.log), LINK),
    "a link to the table": (lambda one: one.move_out(one.table), LINK),
    "a large commit": (lambda one: large(one.last), LARGE),
    "a large pointer": (lambda one: large(one.log / "_last_checkpoint"), LARGE),
    "a large checksum": (lambda one: large(one.log / f"{1:020}.crc"), LARGE),
    "a large checksum of Hadoop's": (lambda one: large(one.table / ".x.parquet.crc"), LARGE),
    "a large checkpoint": (lambda one: large(one.log / f"{1:020}.checkpoint.parquet"), LARGE),
    "large data": (lambda one: large(one.data[0]), LARGE),
    "a deep commit": (
        lambda one: one.last.write_text('{"x": ' + "[" * 10**5 + "]" * 10**5 + "}"),
        UNREADABLE,
    ),
    "a missing commit": (lambda one: one.first.unlink(), UNREADABLE),
    "a version of another age": (
        lambda one: shutil.copy(one.last, one.log / f"{2**63 - 1:020}.json"),
        UNREADABLE,
    ),
    "another type": (lambda one: one.edit_schema(set_type), UNREADABLE),
    "no columns": (
        lambda one: one.edit_schema(lambda schema: schema.update(fields=[])),
        UNREADABLE,
    ),
    "no schema": (
        lambda one: one.edit(one.first, "metaData", lambda data: data.update(schemaString="")),
        UNREADABLE,
    ),
    "a deep schema": (
        lambda one: one.edit(
            one.first, "metaData", lambda data: data.update(schemaString=nested(3000))
        ),
        UNREADABLE,
    ),
    "columns by other names": (map_columns, UNREADABLE),
    "a protocol of the future": (
        lambda one: one.edit(one.first, "protocol", lambda own: own.update(minReaderVersion=99)),
        UNREADABLE,
    ),
}
WRITTEN = ("a pipe as commit", "a link to the log", "a link to the table", "a large commit",
           "a large pointer", "a large checksum",
           "a deep commit", "no columns", "no schema", "columns by other names",
           "a protocol of the future")  # fmt: skip


SLOW = {"a path above", "HDFS", "another file", "another type", "columns by other names",
        "a version of another age", "a missing commit", "a deep schema"}  # fmt: skip


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=pytest.mark.slow if one in SLOW else ()) for one in READ]
)
def test_what_delta_would_follow_or_wait_for_is_a_sentence(
    spark: SparkSession, ledger: Ledger, name: str
) -> None:
    tamper, words = READ[name]
    tamper(ledger)
    before = files(ledger.outside)
    with pytest.raises(WinnowError) as error:
        history(spark, str(ledger.path))
    assert words in str(error.value)
    assert "\n" not in str(error.value)
    if name in WRITTEN:
        with pytest.raises(WinnowError):
            append(spark.sparkContext, str(ledger.path), entry(of_id("3", run_of(partition("c")))))
    assert files(ledger.outside) == before


def files(directory: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path): (path.lstat().st_mtime_ns, path.lstat().st_size) for path in directory.rglob("*")
    }


@pytest.mark.parametrize(
    "stats",
    [
        pytest.param("{{{", marks=pytest.mark.slow),
        "[" * 10**5,
        pytest.param('{"numRecords": 4611686018427387904}', marks=pytest.mark.slow),
    ],
)
def test_statistics_decide_nothing(spark: SparkSession, ledger: Ledger, stats: str) -> None:
    ledger.edit(ledger.last, "add", lambda add: add.update(stats=stats))
    assert len(history(spark, str(ledger.path)).runs) == 2


def test_rows_that_no_run_writes_are_not_shown(spark: SparkSession, ledger: Ledger) -> None:
    rows = ["{}", '{"run_id": "3"}', '{"topic": "x", "status": "done"}']
    append(spark.sparkContext, str(ledger.path), Addition(table=TABLE, rows=rows, run_id="3"))
    past = history(spark, str(ledger.path))
    assert {run.run_id for run in past.runs} == {"1", "2"}
    assert len(past.partitions) == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives directories away")
@pytest.mark.parametrize("place", ["path", "table", "log", "above", "open to all"])
def test_run_writes_nothing_where_another_user_could_put_a_link(
    spark: SparkSession, ledger: Ledger, place: str
) -> None:
    """A link that replaces the table after the last look would be followed: Delta takes paths."""
    if place == "open to all":
        ledger.table.chmod(0o777)
    else:
        given = ledger.path.parent if place == "above" else getattr(ledger, place)
        os.chown(given, 54_321, 54_321)
    before = files(ledger.path)
    with pytest.raises(WinnowError, match="lead a run to write elsewhere"):
        append(spark.sparkContext, str(ledger.path), entry(of_id("3", run_of(partition("c")))))
    assert files(ledger.path) == before
    assert len(history(spark, str(ledger.path)).runs) == 2, "it can be read"
