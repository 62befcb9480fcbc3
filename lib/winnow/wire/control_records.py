"""Read control records of many batches as columns: types, and what end markers say (S2.3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from winnow.errors import CorruptLogError
from winnow.small_work import is_small
from winnow.wire.buffers import RecordBlocks
from winnow.wire.control import KEY_SIZE, control_type, coordinator_epoch
from winnow.wire.plain import each_record
from winnow.wire.record_faults import HINT, Fault, place_of

EMPTY = -2
"""Type of a control batch without a record: its marker was removed, its header kept (S5.6)."""

MAX_CONTROL_BYTES = 64 * 1024
"""Maximum decompressed size of a control batch. Brokers write less, and uncompressed."""

_PLAIN_NS = 12_000
"""Time that `_decode_plain` takes for a batch."""


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
    if is_small(len(blocks.rows) * _PLAIN_NS):
        fault, i = decode_plain(blocks, columns)
    else:
        from winnow.wire.kernels.control import decode  # noqa: PLC0415 - with numba

        fault, i = decode(blocks, columns)
    if fault:
        raise _corrupt(fault, blocks.rows[i])
    return columns


def decode_plain(blocks: RecordBlocks, columns: ControlColumns) -> tuple[int, int]:
    """Do as `winnow.wire.kernels.control.decode`."""
    for i, row in enumerate(blocks.rows):
        columns.timestamp[i] = row["max_timestamp"]
        try:
            record = next(each_record(blocks.area(i), row), None)
        except CorruptLogError:
            return Fault.BODY, i
        if record is None:
            continue
        if record.key is None or len(record.key) < KEY_SIZE or record.key[0] & 0x80:
            return Fault.KEY, i
        epoch = coordinator_epoch(record.value)
        columns.type[i] = control_type(record.key)
        columns.coordinator_epoch[i] = -1 if epoch is None else epoch
        columns.timestamp[i] = record.timestamp
    return Fault.NONE, 0


def _columns(n: int) -> ControlColumns:
    return ControlColumns(
        np.full(n, EMPTY, np.int8), np.full(n, -1, np.int32), np.empty(n, np.int64)
    )


def _corrupt(fault: int, row: np.void) -> CorruptLogError:
    key = f"a key of {KEY_SIZE} bytes or more with a version of 0 or more"
    return CorruptLogError(
        "a control record can't be read",
        expected=key if fault == Fault.KEY else "a record that lies inside its batch",
        found="something else",
        where=place_of(row),
        hint=HINT,
    )
