"""Read logs as the data source does, without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from winnow.kafka_log import source
from winnow.kafka_log.ranges import Task
from winnow.kafka_log.schema import SCHEMA
from winnow.storage.local import LocalStorage


class Counting(LocalStorage):
    """Count the bytes read from logs."""

    def __init__(self) -> None:
        self.log_bytes = 0

    def read_range(self, path: str, start: int, length: int) -> bytes:
        found = super().read_range(path, start, length)
        self.log_bytes += len(found)
        return found


@contextmanager
def counted() -> Iterator[Counting]:
    storage = Counting()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "Places", lambda: storage)
        yield storage


def scan(
    *paths: Path, columns: Sequence[str] | None = None, **options: object
) -> tuple[source.KafkaLogReader, list[InputPartition]]:
    given = {name: str(value) for name, value in options.items()}
    given["paths"] = "[" + ",".join(f'"{path}"' for path in paths) + "]"
    chosen = [SCHEMA[name] for name in columns] if columns is not None else SCHEMA.fields
    reader = source.KafkaLogReader(given, StructType(chosen))
    return reader, reader.partitions()


def tasks(*paths: Path, **options: Any) -> list[Task]:
    return [partition.value for partition in scan(*paths, **options)[1]]


def read(*paths: Path, **options: Any) -> pa.Table:
    reader, partitions = scan(*paths, **options)
    batches = [batch for partition in partitions for batch in reader.read(partition)]
    return pa.Table.from_batches(batches, to_arrow_schema(reader._schema, timezone="UTC"))


def rows(*paths: Path, **options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read(*paths, **options).to_pylist()
    return found


def offsets(*paths: Path, **options: Any) -> list[int]:
    found: list[int] = read(*paths, columns=["offset"], **options)["offset"].to_pylist()
    return found
