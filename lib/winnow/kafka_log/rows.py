"""Build Arrow record batches with the requested columns from records and their batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
import pyarrow as pa

from winnow.kafka_log.arrow import byte_strings, header_lists, one_of, repeated, timestamps
from winnow.state import TopicPartition
from winnow.wire.batch import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    MAX_MAGIC,
    TRANSACTIONAL,
    Codec,
)
from winnow.wire.buffers import Rows
from winnow.wire.columns import Part, RecordPlaces
from winnow.wire.inflate import RecordBlocks

Array = np.ndarray[Any, np.dtype[Any]]

_CODECS = [codec.name.lower() for codec in Codec]
_PARTS = {"key": Part.KEY, "value": Part.VALUE, "headers": Part.HEADERS}
_SEQUENCES = 2**31
_NO_TIMESTAMP_TYPE, _CREATE_TIME, _LOG_APPEND_TIME = -1, 0, 1
"""Ids of Kafka's `TimestampType`, which Spark shows."""


@dataclass(frozen=True, slots=True)
class Records:
    """The records of some batches of one segment. `rows` holds the batches, normalised (see
    `RecordBlocks`).
    """

    topic_partition: TopicPartition
    segment: str
    start: int
    """Byte of the file to which position 0 of `rows` corresponds."""
    blocks: RecordBlocks
    rows: Rows
    places: RecordPlaces

    def of_batch(self, per_batch: Array) -> Array:
        """Repeat a value per batch for each of its records."""
        found: Array = per_batch[self.places.batch]
        return found


def parts_of(schema: Any) -> Part:  # noqa: ANN401 - Arrow has no types
    """Return which parts of the records the columns of an Arrow schema need."""
    return reduce(or_, (_PARTS.get(name, Part.NONE) for name in schema.names), Part.NONE)


def record_batch(records: Records, schema: Any) -> Any:  # noqa: ANN401 - Arrow has no types
    """Return an Arrow record batch. The names in `schema` (an Arrow schema) are some of those in
    `schema.SCHEMA`.
    """
    columns = [_COLUMNS[column.name](records, column.type) for column in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def problem_row(
    topic_partition: TopicPartition,
    problem: str,
    schema: Any,  # noqa: ANN401
    *,
    segment: str | None = None,
    position: int | None = None,
    crc_ok: bool | None = None,
    row: np.void | None = None,
) -> Any:  # noqa: ANN401
    """Return one row for something that can't be read. `row` (dtype BATCH) gives its header, if it
    has one.
    """
    known: dict[str, object] = {
        "topic": topic_partition.topic,
        "partition": topic_partition.partition,
        "segment": segment,
        "position": position,
        "crcOk": crc_ok,
        "problem": problem,
    }
    if row is not None:
        rows = np.array([row], row.dtype)
        known |= {name: column(rows)[0].item() for name, column in _HEADER.items()}
        codec = int(row["attributes"]) & CODEC_MASK
        known["codec"] = _CODECS[codec] if codec < len(_CODECS) else f"unknown ({codec})"
    columns = [pa.array([known.get(column.name)], column.type) for column in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _bit(rows: Rows, mask: int) -> Array:
    """Return a bit of v2 batches; false for others, which have no such bits."""
    found: Array = (rows["attributes"] & mask != 0) & (rows["magic"] == MAX_MAGIC)
    return found


_HEADER: Mapping[str, Callable[[Rows], Array]] = {
    "baseOffset": lambda rows: rows["base_offset"],
    "batchLastOffset": lambda rows: rows["last_offset"],
    "batchSize": lambda rows: rows["size"].astype(np.int32),
    "magic": lambda rows: rows["magic"].astype(np.int32),
    "producerId": lambda rows: rows["producer_id"],
    "producerEpoch": lambda rows: rows["producer_epoch"].astype(np.int32),
    "isTransactional": lambda rows: _bit(rows, TRANSACTIONAL),
    "isControl": lambda rows: _bit(rows, CONTROL),
    "partitionLeaderEpoch": lambda rows: rows["leader_epoch"],
}


def _of_header(name: str) -> Callable[[Records, Any], Any]:
    return lambda records, kind: pa.array(records.of_batch(_HEADER[name](records.rows)), kind)


def _timestamp_type(records: Records, kind: Any) -> Any:  # noqa: ANN401
    rows = records.rows
    appended = np.where(rows["attributes"] & LOG_APPEND_TIME != 0, _LOG_APPEND_TIME, _CREATE_TIME)
    types = np.where(rows["magic"] == 0, _NO_TIMESTAMP_TYPE, appended).astype(np.int32)
    return pa.array(records.of_batch(types), kind)


def _sequence(records: Records, kind: Any) -> Any:  # noqa: ANN401
    first = records.of_batch(records.rows["base_sequence"]).astype(np.int64)
    number = first + records.places.offset - records.of_batch(records.rows["base_offset"])
    return pa.array(np.where(first < 0, -1, number % _SEQUENCES).astype(np.int32), kind)


def _delete_horizon(records: Records, kind: Any) -> Any:  # noqa: ANN401
    rows = records.rows
    return timestamps(
        records.of_batch(rows["base_timestamp"]),
        kind,
        valid=records.of_batch(_bit(rows, DELETE_HORIZON)),
    )


_COLUMNS: Mapping[str, Callable[[Records, Any], Any]] = {
    "key": lambda r, kind: byte_strings(r.blocks, r.places.key, kind),
    "value": lambda r, kind: byte_strings(r.blocks, r.places.value, kind),
    "topic": lambda r, kind: repeated(r.topic_partition.topic, len(r.places), kind),
    "partition": lambda r, kind: repeated(r.topic_partition.partition, len(r.places), kind),
    "offset": lambda r, kind: pa.array(r.places.offset, kind),
    "timestamp": lambda r, kind: timestamps(r.places.timestamp, kind),
    "timestampType": _timestamp_type,
    "headers": lambda r, kind: header_lists(r.blocks, r.places.headers, kind),
    **{name: _of_header(name) for name in _HEADER},
    "codec": lambda r, _: one_of(_CODECS, r.of_batch(r.rows["attributes"] & CODEC_MASK)),
    "sequence": _sequence,
    "deleteHorizon": _delete_horizon,
    "segment": lambda r, kind: repeated(r.segment, len(r.places), kind),
    "position": lambda r, kind: pa.array(r.of_batch(r.rows["position"]) + r.start, kind),
    "crcOk": lambda r, kind: repeated(True, len(r.places), kind),
    "problem": lambda r, kind: pa.nulls(len(r.places), kind),
}
"""Columns of records that could be read."""
