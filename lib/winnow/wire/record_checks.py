"""Check or count all records of many batches, batch by batch, without keeping any (S2.2)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from winnow.wire.batch import CONTROL, LOG_APPEND_TIME, MAX_MAGIC, NO_TIMESTAMP
from winnow.wire.buffers import RecordBlocks
from winnow.wire.kernels.record import kernel, open_area, parse_record
from winnow.wire.record_faults import Fault, check_fault
from winnow.wire.records import record_total


class RecordChecks(NamedTuple):
    """One item per batch."""

    fault: NDArray[np.int8]
    """A `Fault`: the first fault of its records, or NONE."""
    position: NDArray[np.int64]
    """Bytes from the start of its records to the faulty one."""


def check_records(blocks: RecordBlocks) -> RecordChecks:
    """Parse all records of `blocks`, keep none.

    In addition to what scanning refuses, the largest timestamp of a v2 batch must be that of its
    records: a broker sets it when it appends (`LogValidator`), and keeps it right when it cleans.
    In v0 and v1 it came from the producer.
    """
    n = len(blocks.rows)
    checks = RecordChecks(np.zeros(n, np.int8), np.zeros(n, np.int64))
    _check(blocks, checks)
    return checks


@kernel
def _check(blocks: RecordBlocks, checks: RecordChecks) -> None:
    for i in range(blocks.rows.size):
        row = blocks.rows[i]
        fault, area, pos, stop = open_area(blocks, i)
        left, largest = row.record_count, NO_TIMESTAMP
        while fault == 0 and left > 0:
            fault, pos, timestamp_delta, _, _, _, _, _, _ = parse_record(area, pos, stop)
            largest = max(largest, row.base_timestamp + timestamp_delta)
            left -= 1
        stamped = row.magic < MAX_MAGIC or row.attributes & LOG_APPEND_TIME != 0
        if fault == 0 and pos != stop:
            fault = Fault.LEFT_OVER
        elif fault == 0 and row.record_count > 0 and not stamped and largest != row.max_timestamp:
            fault, pos = Fault.MAX_TIMESTAMP, blocks.begin[i]
        checks.fault[i] = fault
        checks.position[i] = pos - blocks.begin[i]


class RecordTally(NamedTuple):
    """One row for each batch: how many records, and their decompressed bytes including length
    fields. 0 for control batches. A record without key and value counts as keyless (S5.5).
    """

    keyless: NDArray[np.int64]
    tombstones: NDArray[np.int64]


def tally_records(blocks: RecordBlocks) -> RecordTally:
    """Parse and count all records of `blocks`.

    Raises CorruptLogError, naming the batch's position, for any record that violates S2.2.
    """
    record_total(blocks)
    tally = RecordTally(*(np.zeros((len(blocks.rows), 2), np.int64) for _ in range(2)))
    check_fault(_tally(blocks, tally), blocks.rows, blocks.begin)
    return tally


@kernel
def _tally(blocks: RecordBlocks, tally: RecordTally) -> tuple[int, int, int]:
    """Return (fault, row of its batch, position in the area's array)."""
    for i in range(blocks.rows.size):
        row = blocks.rows[i]
        fault, area, pos, stop = open_area(blocks, i)
        if fault != 0:
            return fault, i, pos
        for _ in range(row.record_count):
            fault, after, _, _, _, key_size, value_size, _, _ = parse_record(area, pos, stop)
            if fault != 0:
                return fault, i, pos
            if row.attributes & CONTROL == 0 and (key_size < 0 or value_size < 0):
                counted = tally.keyless if key_size < 0 else tally.tombstones
                counted[i, 0] += 1
                counted[i, 1] += after - pos
            pos = after
        if pos != stop:
            return Fault.LEFT_OVER, i, pos
    return 0, 0, 0
