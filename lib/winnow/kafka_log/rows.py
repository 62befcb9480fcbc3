"""Build Arrow record batches with the requested columns from records and their batches. Buffers are
handed over; nothing is built value by value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_

import numpy as np
import pyarrow as pa

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
from winnow.wire.buffers import Array, RecordBlocks, Rows
from winnow.wire.columns import ByteStrings, Part, RecordPlaces, gathered, header_places

_CODECS = [codec.name.lower() for codec in Codec]
_PARTS = {"key": Part.KEY, "value": Part.VALUE, "headers": Part.HEADERS}
_SEQUENCES = 2**31
_MOST_MS = (2**63 - 1) // 1000
"""The largest timestamp that fits into Spark's microseconds."""
_NO_TIMESTAMP_TYPE, _CREATE_TIME, _LOG_APPEND_TIME = -1, 0, 1
"""Ids of Kafka's `TimestampType`, which Spark shows."""


@dataclass(frozen=True, slots=True)
class Records:
    """The records of some batches of one segment."""

    topic_partition: TopicPartition
    segment: str
    start: int
    """Byte of the file to which position 0 of the batches corresponds."""
    blocks: RecordBlocks
    places: RecordPlaces

    @property
    def rows(self) -> Rows:
        return self.blocks.rows

    def of_batch(self, per_batch: Array) -> Array:
        """Repeat a value per batch for each of its records."""
        found: Array = per_batch[self.places.batch]
        return found


def parts_of(schema: pa.Schema) -> Part:
    """Return which parts of the records the columns of an Arrow schema need."""
    return reduce(or_, (_PARTS.get(name, Part.NONE) for name in schema.names), Part.NONE)


def record_batch(records: Records, schema: pa.Schema) -> pa.RecordBatch:
    """The names in `schema` are some of those in `schema.SCHEMA`."""
    columns = [_COLUMNS[column.name](records, column.type) for column in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def problem_row(
    topic_partition: TopicPartition,
    problem: str,
    schema: pa.Schema,
    *,
    segment: str | None = None,
    position: int | None = None,
    crc_ok: bool | None = None,
    row: np.void | None = None,
) -> pa.RecordBatch:
    """Return one row for something unreadable. `row` (dtype BATCH): its header, if it has one."""
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


def _of_header(name: str) -> Callable[[Records, pa.DataType], pa.Array]:
    return lambda records, kind: pa.array(records.of_batch(_HEADER[name](records.rows)), kind)


def _repeated(records: Records, value: object, kind: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), len(records.places.offset))


def _timestamp_type(records: Records, kind: pa.DataType) -> pa.Array:
    rows = records.rows
    appended = np.where(rows["attributes"] & LOG_APPEND_TIME != 0, _LOG_APPEND_TIME, _CREATE_TIME)
    types = np.where(rows["magic"] == 0, _NO_TIMESTAMP_TYPE, appended).astype(np.int32)
    return pa.array(records.of_batch(types), kind)


def _sequence(records: Records, kind: pa.DataType) -> pa.Array:
    first = records.of_batch(records.rows["base_sequence"]).astype(np.int64)
    number = first + records.places.offset - records.of_batch(records.rows["base_offset"])
    return pa.array(np.where(first < 0, -1, number % _SEQUENCES).astype(np.int32), kind)


def _delete_horizon(records: Records, kind: pa.DataType) -> pa.Array:
    rows = records.rows
    return _timestamps(
        records.of_batch(rows["base_timestamp"]),
        kind,
        valid=records.of_batch(_bit(rows, DELETE_HORIZON)),
    )


def _byte_strings(blocks: RecordBlocks, places: ByteStrings, kind: pa.DataType) -> pa.Array:
    """Return a binary or string array, null where the size is -1."""
    ends, data = gathered(blocks, places)
    return pa.Array.from_buffers(
        kind,
        len(places.size),
        [_validity(places.size >= 0), pa.py_buffer(ends), pa.py_buffer(data)],
    )


def _header_lists(blocks: RecordBlocks, headers: ByteStrings, kind: pa.DataType) -> pa.Array:
    """Return a list of (key, value) per record, null without headers, as Spark's Kafka source."""
    keys, values = header_places(blocks, headers)
    pair = kind.value_type
    children = [
        _names(blocks, keys, pair.field(0).type),
        _byte_strings(blocks, values, pair.field(1).type),
    ]
    pairs = pa.StructArray.from_arrays(children, fields=[pair.field(0), pair.field(1)])
    ends = np.zeros(len(headers.size) + 1, np.int32)
    np.cumsum(headers.size, out=ends[1:])
    return pa.Array.from_buffers(
        kind, len(headers.size), [_validity(headers.size > 0), pa.py_buffer(ends)], children=[pairs]
    )


def _timestamps(ms: Array, kind: pa.DataType, *, valid: Array | None = None) -> pa.Array:
    """Return microseconds in UTC. Null where not `valid`, and beyond Spark's year 292 277."""
    if valid is None and len(ms) and ms.min() >= -_MOST_MS and ms.max() <= _MOST_MS:
        return pa.Array.from_buffers(kind, len(ms), [None, pa.py_buffer(ms * 1000)])
    fits = (ms >= -_MOST_MS) & (ms <= _MOST_MS)
    valid = fits if valid is None else fits & valid
    micros = np.where(valid, ms, 0) * 1000
    return pa.Array.from_buffers(kind, len(ms), [_validity(valid), pa.py_buffer(micros)])


def _names(blocks: RecordBlocks, places: ByteStrings, kind: pa.DataType) -> pa.Array:
    """Return header keys. A key that is not UTF-8 gets replacement characters, as in a consumer."""
    names = _byte_strings(blocks, places, kind)
    try:
        names.validate(full=True)
    except pa.ArrowInvalid:
        raw = _byte_strings(blocks, places, pa.binary()).to_pylist()
        return pa.array([name.decode(errors="replace") for name in raw], kind)
    return names


def _validity(valid: Array) -> pa.Buffer | None:
    """Return Arrow's validity bitmap; None if all are valid."""
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


_COLUMNS: Mapping[str, Callable[[Records, pa.DataType], pa.Array]] = {
    "key": lambda r, kind: _byte_strings(r.blocks, r.places.key, kind),
    "value": lambda r, kind: _byte_strings(r.blocks, r.places.value, kind),
    "topic": lambda r, kind: _repeated(r, r.topic_partition.topic, kind),
    "partition": lambda r, kind: _repeated(r, r.topic_partition.partition, kind),
    "offset": lambda r, kind: pa.array(r.places.offset, kind),
    "timestamp": lambda r, kind: _timestamps(r.places.timestamp, kind),
    "timestampType": _timestamp_type,
    "headers": lambda r, kind: _header_lists(r.blocks, r.places.headers, kind),
    **{name: _of_header(name) for name in _HEADER},
    "codec": lambda r, _: pa.array(_CODECS).take(
        pa.array(r.of_batch(r.rows["attributes"] & CODEC_MASK))
    ),
    "sequence": _sequence,
    "deleteHorizon": _delete_horizon,
    "segment": lambda r, kind: _repeated(r, r.segment, kind),
    "position": lambda r, kind: pa.array(r.of_batch(r.rows["position"]) + r.start, kind),
    "crcOk": lambda r, kind: _repeated(r, True, kind),
    "problem": lambda r, kind: pa.nulls(len(r.places.offset), kind),
}
