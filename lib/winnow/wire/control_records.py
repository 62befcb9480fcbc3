"""Read control records of many batches as columns: types, and what end markers say (S2.3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from winnow.errors import CorruptLogError
from winnow.wire.batch import LOG_APPEND_TIME
from winnow.wire.buffers import RecordBlocks
from winnow.wire.control import ControlType
from winnow.wire.kernels.memory import load_int16, load_int32
from winnow.wire.kernels.record import kernel, parse_record, read_sized
from winnow.wire.record_faults import HINT, Fault, place_of

EMPTY = -2
"""Type of a control batch without a record: its marker was removed, its header kept (S5.6)."""

MAX_CONTROL_BYTES = 64 * 1024
"""Maximum decompressed size of a control batch. Brokers write less, and uncompressed."""

_KEY_SIZE = 4
_VALUE_SIZE = 6


class ControlColumns(NamedTuple):
    """One item per control batch, from its first record. Kafka looks at no other record either."""

    type: NDArray[np.int8]
    """A `ControlType`, or EMPTY."""
    coordinator_epoch: NDArray[np.int32]
    """-1 if it can't be read."""
    timestamp: NDArray[np.int64]
    """ms; the batch's largest if the type is EMPTY."""

    @classmethod
    def joined(cls, parts: Iterable[ControlColumns]) -> ControlColumns:
        return cls(*map(np.concatenate, zip(_columns(0), *parts, strict=True)))


def decode_control(blocks: RecordBlocks) -> ControlColumns:
    """Decode the first records of control batches (v2).

    Raises CorruptLogError for a first record that violates S2.2, and for a key that Kafka would not
    read.
    """
    columns = _columns(len(blocks.rows))
    fault, i = _decode(blocks, columns)
    if fault:
        raise _corrupt(fault, blocks.rows[i])
    return columns


def _columns(n: int) -> ControlColumns:
    return ControlColumns(
        np.full(n, EMPTY, np.int8), np.full(n, -1, np.int32), np.empty(n, np.int64)
    )


def _corrupt(fault: int, row: np.void) -> CorruptLogError:
    key = f"a key of {_KEY_SIZE} bytes or more with a version of 0 or more"
    return CorruptLogError(
        "a control record can't be read",
        expected=key if fault == Fault.KEY else "a record that lies inside its batch",
        found="something else",
        where=place_of(row),
        hint=HINT,
    )


@kernel
def _decode(blocks: RecordBlocks, columns: ControlColumns) -> tuple[int, int]:
    """Return (fault, row of its batch). KEY: Kafka would not read the key."""
    for i in range(blocks.rows.size):
        row, begin, end = blocks.rows[i], blocks.begin[i], blocks.end[i]
        columns.timestamp[i] = row.max_timestamp
        if row.record_count <= 0:
            continue
        area = blocks.inflated if blocks.compressed[i] else blocks.raw
        if begin < 0 or begin > end or end > area.size:
            return Fault.AREA, i
        fault, after, timestamp_delta, _, key, key_size, value_size, _, _ = parse_record(
            area, begin, end
        )
        if fault != 0:
            return Fault.BODY, i
        if key_size < _KEY_SIZE or load_int16(area, key) < 0:
            return Fault.KEY, i
        kind = load_int16(area, key + 2)
        known = 0 <= kind <= ControlType.KRAFT_VOTERS
        columns.type[i] = kind if known else ControlType.UNKNOWN
        _, value, _ = read_sized(area, key + key_size, after, -1)
        if value_size >= _VALUE_SIZE and load_int16(area, value) >= 0:
            columns.coordinator_epoch[i] = load_int32(area, value + 2)
        if row.attributes & LOG_APPEND_TIME == 0:
            columns.timestamp[i] = row.base_timestamp + timestamp_delta
    return Fault.NONE, 0
