"""Read control records of many batches as columns: types, and what end markers say (S2.3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from winnow.compiled import njit
from winnow.errors import CorruptLogError
from winnow.wire.batch import LOG_APPEND_TIME
from winnow.wire.buffers import Bytes, Rows
from winnow.wire.control import ControlType
from winnow.wire.kernels.memory import load_be16, load_be32
from winnow.wire.kernels.varint import read_varint, read_varlong

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from winnow.wire.inflate import RecordBlocks

EMPTY = -2
"""Type of a control batch without a record: its marker was removed, its header kept (S5.6)."""

MAX_CONTROL_BYTES = 64 * 1024
"""Maximum decompressed size of a control batch. Brokers write less, and uncompressed."""

_UNKNOWN = int(ControlType.UNKNOWN)
_LAST_TYPE = int(ControlType.KRAFT_VOTERS)
_KEY_SIZE = 4
_VALUE_SIZE = 6
_SOUND, _BAD_RECORD, _BAD_KEY = 0, 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlColumns:
    """One item per control batch, from its first record. Kafka looks at no other record either."""

    type: NDArray[np.int8]
    """A `ControlType`, or EMPTY."""
    coordinator_epoch: NDArray[np.int32]
    """-1 if it can't be read."""
    timestamp: NDArray[np.int64]
    """ms; the batch's largest if the type is EMPTY."""

    @classmethod
    def joined(cls, parts: Iterable[ControlColumns]) -> ControlColumns:
        every = [_columns(0), *parts]
        return cls(
            type=np.concatenate([part.type for part in every]),
            coordinator_epoch=np.concatenate([part.coordinator_epoch for part in every]),
            timestamp=np.concatenate([part.timestamp for part in every]),
        )


def decode_control(blocks: RecordBlocks) -> ControlColumns:
    """Decode the first records of control batches (v2).

    Raises CorruptLogError for a record that does not lie inside its batch, and for a key that Kafka
    would not read.
    """
    rows = blocks.rows
    columns = _columns(len(rows))
    fault, i = _decode(
        *blocks.areas, rows, columns.type, columns.coordinator_epoch, columns.timestamp
    )
    if fault != _SOUND:
        raise _corrupt(fault, rows[i])
    return columns


def _columns(n: int) -> ControlColumns:
    return ControlColumns(
        type=np.empty(n, np.int8),
        coordinator_epoch=np.full(n, -1, np.int32),
        timestamp=np.empty(n, np.int64),
    )


def _corrupt(fault: int, row: np.void) -> CorruptLogError:
    key = f"a key of {_KEY_SIZE} bytes or more with a version of 0 or more"
    return CorruptLogError(
        "a control record can't be read",
        expected=key if fault == _BAD_KEY else "a record that lies inside its batch",
        found="something else",
        where=f"batch at byte {row['position']}, base offset {row['base_offset']}",
        hint="Winnow leaves the partition unchanged; kafka-dump-log.sh shows how brokers read it.",
    )


@njit(cache=True, nogil=True)
def _decode(
    raw: Bytes,
    inflated: Bytes,
    compressed: NDArray[np.bool_],
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    rows: Rows,
    types: NDArray[np.int8],
    epochs: NDArray[np.int32],
    timestamps: NDArray[np.int64],
) -> tuple[int, int]:
    """Return (fault, its row)."""
    for i in range(rows.size):
        row = rows[i]
        types[i] = EMPTY
        timestamps[i] = row.max_timestamp
        if row.record_count <= 0:
            continue
        if compressed[i]:
            fault, kind, epoch, delta = _decode_one(inflated, begin[i], end[i])
        else:
            fault, kind, epoch, delta = _decode_one(raw, begin[i], end[i])
        if fault != _SOUND:
            return fault, i
        types[i] = kind
        epochs[i] = epoch
        if row.attributes & LOG_APPEND_TIME == 0:
            timestamps[i] = row.base_timestamp + delta
    return _SOUND, 0


@njit(cache=True, nogil=True)
def _decode_one(area: Bytes, begin: int, end: int) -> tuple[int, int, int, int]:  # noqa: PLR0911 - one per fault
    """Return (fault, type, coordinator epoch, timestamp delta) of the record at `begin`."""
    if begin < 0 or end > area.size or begin > end:
        return _BAD_RECORD, 0, 0, 0
    size, pos = read_varint(area, begin, end)
    if pos < 0 or size < 1 or size > end - pos:
        return _BAD_RECORD, 0, 0, 0
    end = pos + size
    delta, pos = read_varlong(area, pos + 1, end)
    if pos < 0:
        return _BAD_RECORD, 0, 0, 0
    _, pos = read_varint(area, pos, end)
    if pos < 0:
        return _BAD_RECORD, 0, 0, 0
    size, pos = read_varint(area, pos, end)
    if pos < 0 or size < -1 or size > end - pos:
        return _BAD_RECORD, 0, 0, 0
    if size < _KEY_SIZE or load_be16(area, pos) >= 0x8000:
        return _BAD_KEY, 0, 0, 0
    kind = load_be16(area, pos + 2)
    if kind > _LAST_TYPE:
        kind = _UNKNOWN
    size, pos = read_varint(area, pos + size, end)
    if pos < 0 or size < -1 or size > end - pos:
        return _BAD_RECORD, 0, 0, 0
    epoch = -1
    if size >= _VALUE_SIZE and load_be16(area, pos) < 0x8000:
        epoch = load_be32(area, pos + 2)
        if epoch >= 0x80000000:
            epoch -= 0x100000000
    return _SOUND, kind, epoch, delta
