"""The batches of a log, each with its CRC checked, and their records if requested."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from winnow.errors import CorruptLogError
from winnow.logdir.batches import Piece, bad_crcs, read_batches, records_of
from winnow.storage.contract import Storage
from winnow.verbs.inspect.values import (
    BatchLine,
    FileProblem,
    InternalRecord,
    Line,
    NamesLine,
    RecordLine,
)
from winnow.wire.batch import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    MAX_MAGIC,
    TRANSACTIONAL,
    Codec,
)
from winnow.wire.control import ControlType, control_type, coordinator_epoch
from winnow.wire.internal_topics import decode_key, decode_value
from winnow.wire.plain import Record

_CODECS = {int(codec): codec.name.lower() for codec in Codec}
_SEQUENCES = 2**31
_AS_IN_THE_HEADER: tuple[Any, ...] = (
    *("size", "magic", "base_offset", "last_offset", "max_timestamp", "crc"),
    *("producer_id", "producer_epoch", "base_sequence", "leader_epoch"),
)
"""Fields that a BatchLine copies from a BATCH row, under the same names."""


def describe_log(
    storage: Storage, path: str, *, size: int, base_offset: int, records: bool, topic: str | None
) -> Iterator[Line]:
    """Yield a BatchLine per batch, and a Problem for anything wrong with a batch or that stops the
    reading.

    `topic`: for a topic of the broker's own, keys and values are decoded. The names in them come
    last.
    """
    names: set[str] = set()
    try:
        for piece in read_batches(storage, path, size=size, least_offset=base_offset):
            bad = set(bad_crcs(piece))
            for i in range(len(piece.rows)):
                lines, problems = None, []
                if i in bad:
                    where = f"{path}, batch at byte {piece.position(i)}"
                    problems.append(FileProblem(f"wrong CRC ({where})"))
                if records or topic is not None:
                    try:
                        lines = record_lines(records_of(piece, i, path), piece.rows[i], topic=topic)
                    except CorruptLogError as error:
                        problems.append(FileProblem(str(error)))
                names |= {str(r.internal.key[0][1]) for r in lines or () if r.internal is not None}
                shown = lines if records else None
                yield batch_line(piece, i, crc_valid=i not in bad, records=shown)
                yield from problems
    except CorruptLogError as error:
        yield FileProblem(str(error))
    if names:
        yield NamesLine(tuple(sorted(names)))


def batch_line(
    piece: Piece, i: int, *, crc_valid: bool, records: tuple[RecordLine, ...] | None = None
) -> BatchLine:
    """Return what the header of batch `i` says."""
    row = piece.rows[i]
    attributes, magic = int(row["attributes"]), int(row["magic"])
    modern = magic == MAX_MAGIC
    horizon = modern and bool(attributes & DELETE_HORIZON)
    sequence, delta = int(row["base_sequence"]), int(row["last_offset"]) - int(row["base_offset"])
    return BatchLine(
        **{name: int(row[name]) for name in _AS_IN_THE_HEADER},
        position=piece.position(i),
        count=int(row["record_count"]) if modern else None,
        codec=_CODECS.get(attributes & CODEC_MASK, f"unknown ({attributes & CODEC_MASK})"),
        timestamp_type=_timestamp_type(magic, attributes),
        base_timestamp=int(row["base_timestamp"]) if modern and not horizon else None,
        delete_horizon=int(row["base_timestamp"]) if horizon else None,
        last_sequence=-1 if sequence < 0 else (sequence + delta) % _SEQUENCES,
        transactional=modern and bool(attributes & TRANSACTIONAL),
        control=modern and bool(attributes & CONTROL),
        crc_valid=crc_valid,
        records=records,
    )


def record_lines(
    records: Sequence[Record], row: np.void, *, topic: str | None
) -> tuple[RecordLine, ...]:
    """Return a line for each record. `row` is the BATCH row of their batch."""
    control = row["magic"] == MAX_MAGIC and bool(int(row["attributes"]) & CONTROL)
    sequence, base = int(row["base_sequence"]), int(row["base_offset"])
    lines = []
    for record in records:
        kind = control_type(record.key) if control else None
        lines.append(
            RecordLine(
                offset=record.offset,
                timestamp=record.timestamp,
                sequence=-1 if sequence < 0 else (sequence + record.offset - base) % _SEQUENCES,
                key=record.key,
                value=record.value,
                headers=record.headers,
                control=None if kind is None else kind.name,
                coordinator_epoch=coordinator_epoch(record.value)
                if kind is not None and kind.ends_transaction
                else None,
                internal=None if control or topic is None else _internal(topic, record),
            )
        )
    return tuple(lines)


def abort_markers(
    storage: Storage, path: str, *, size: int, base_offset: int
) -> set[tuple[int, int]]:
    """Return (producer id, offset) of each ABORT marker in a log.

    Raises CorruptLogError if it can't be read.
    """
    from winnow.survey.gather import events_of  # noqa: PLC0415 - it loads all codecs: slow for headers

    found = set()
    for piece in read_batches(storage, path, size=size, least_offset=base_offset):
        events = events_of(piece.data, path, piece.rows)
        aborts = events[events["kind"] == ControlType.ABORT]
        found.update(aborts[["producer_id", "offset"]].tolist())
    return found


def _internal(topic: str, record: Record) -> InternalRecord | None:
    key = decode_key(topic, record.key)
    if key is None:
        return None
    return InternalRecord(
        type=key.type, key=key.fields, value=decode_value(topic, key, record.value)
    )


def _timestamp_type(magic: int, attributes: int) -> str:
    if magic == 0:
        return "NoTimestampType"
    return "LogAppendTime" if attributes & LOG_APPEND_TIME else "CreateTime"
