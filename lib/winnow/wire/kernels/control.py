"""Decode the first records of control batches: see `winnow.wire.control_records`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winnow.wire.batch import LOG_APPEND_TIME
from winnow.wire.buffers import RecordBlocks
from winnow.wire.control import KEY_SIZE, VALUE_SIZE, ControlType
from winnow.wire.kernels.memory import load_int16, load_int32
from winnow.wire.kernels.record import kernel, parse_record, read_sized
from winnow.wire.record_faults import Fault

if TYPE_CHECKING:
    from winnow.wire.control_records import ControlColumns


@kernel
def decode(blocks: RecordBlocks, columns: ControlColumns) -> tuple[int, int]:
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
        if key_size < KEY_SIZE or load_int16(area, key) < 0:
            return Fault.KEY, i
        kind = load_int16(area, key + 2)
        known = 0 <= kind <= ControlType.KRAFT_VOTERS
        columns.type[i] = kind if known else ControlType.UNKNOWN
        _, value, _ = read_sized(area, key + key_size, after, -1)
        if value_size >= VALUE_SIZE and load_int16(area, value) >= 0:
            columns.coordinator_epoch[i] = load_int32(area, value + 2)
        if row.attributes & LOG_APPEND_TIME == 0:
            columns.timestamp[i] = row.base_timestamp + timestamp_delta
    return Fault.NONE, 0
