"""Check or count all records of many batches, batch by batch, without keeping any (S2.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from winnow.wire.batch import CONTROL, LOG_APPEND_TIME, MAX_MAGIC, NO_TIMESTAMP
from winnow.wire.buffers import Bytes, Rows
from winnow.wire.kernels.record import check_area, kernel, parse_record
from winnow.wire.record_faults import Fault, check_fault
from winnow.wire.records import record_total

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from winnow.wire.inflate import RecordBlocks

_NONE, _ORDER = int(Fault.NONE), int(Fault.ORDER)
_LEFT_OVER, _MAX_TIMESTAMP = int(Fault.LEFT_OVER), int(Fault.MAX_TIMESTAMP)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordChecks:
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
    rows = blocks.rows
    checks = RecordChecks(
        fault=np.zeros(len(rows), np.int8), position=np.zeros(len(rows), np.int64)
    )
    _check(*blocks.areas, rows, checks.fault, checks.position)
    return checks


@kernel
def _check(
    raw: Bytes,
    inflated: Bytes,
    compressed: NDArray[np.bool_],
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    batches: Rows,
    faults: NDArray[np.int8],
    positions: NDArray[np.int64],
) -> None:
    for i in range(batches.size):
        area = inflated if compressed[i] else raw
        count = int(batches[i].record_count)
        last_delta = batches[i].last_offset - batches[i].base_offset
        pos, stop = begin[i], end[i]
        fault = check_area(area, pos, stop, count)
        if fault != _NONE:
            faults[i] = fault
            continue
        previous = -1
        base_timestamp = batches[i].base_timestamp
        largest = np.int64(NO_TIMESTAMP)
        for _ in range(count):
            fault, after, timestamp_delta, delta, _, _, _, _, _ = parse_record(area, pos, stop)
            if fault == _NONE and (delta <= previous or delta > last_delta):
                fault = _ORDER
            if fault != _NONE:
                break
            previous = delta
            largest = max(largest, base_timestamp + timestamp_delta)
            pos = after
        if fault == _NONE and pos != stop:
            fault = _LEFT_OVER
        if (
            fault == _NONE
            and count > 0
            and batches[i].magic == MAX_MAGIC
            and batches[i].attributes & LOG_APPEND_TIME == 0
            and largest != batches[i].max_timestamp
        ):
            fault = _MAX_TIMESTAMP
            pos = begin[i]
        faults[i] = fault
        positions[i] = pos - begin[i]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordTally:
    """One item per batch; 0 for control batches. A record without both is keyless (S5.5)."""

    keyless: NDArray[np.int32]
    keyless_bytes: NDArray[np.int64]
    """Decompressed size of the records, including their length fields."""
    tombstones: NDArray[np.int32]
    tombstone_bytes: NDArray[np.int64]


def tally_records(blocks: RecordBlocks) -> RecordTally:
    """Parse and count all records of `blocks`.

    Raises CorruptLogError, naming the batch's position, for any record that violates S2.2.
    """
    rows = blocks.rows
    record_total(blocks)
    tally = _none(len(rows))
    found = _tally(
        *blocks.areas,
        rows,
        tally.keyless,
        tally.keyless_bytes,
        tally.tombstones,
        tally.tombstone_bytes,
    )
    check_fault(found, rows, blocks.begin)
    return tally


def _none(n: int) -> RecordTally:
    return RecordTally(
        keyless=np.zeros(n, np.int32),
        keyless_bytes=np.zeros(n, np.int64),
        tombstones=np.zeros(n, np.int32),
        tombstone_bytes=np.zeros(n, np.int64),
    )


@kernel
def _tally(
    raw: Bytes,
    inflated: Bytes,
    compressed: NDArray[np.bool_],
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    batches: Rows,
    keyless: NDArray[np.int32],
    keyless_bytes: NDArray[np.int64],
    tombstones: NDArray[np.int32],
    tombstone_bytes: NDArray[np.int64],
) -> tuple[int, int, int]:
    """Return (fault, row of its batch, position in the area's array)."""
    for i in range(batches.size):
        area = inflated if compressed[i] else raw
        count = int(batches[i].record_count)
        last_delta = batches[i].last_offset - batches[i].base_offset
        control = batches[i].attributes & CONTROL != 0
        pos, stop = begin[i], end[i]
        fault = check_area(area, pos, stop, count)
        if fault != _NONE:
            return fault, i, pos
        previous = -1
        for _ in range(count):
            fault, after, _, delta, _, key_size, value_size, _, _ = parse_record(area, pos, stop)
            if fault == _NONE and (delta <= previous or delta > last_delta):
                fault = _ORDER
            if fault != _NONE:
                return fault, i, pos
            if not control and key_size < 0:
                keyless[i] += 1
                keyless_bytes[i] += after - pos
            elif not control and value_size < 0:
                tombstones[i] += 1
                tombstone_bytes[i] += after - pos
            previous = delta
            pos = after
        if pos != stop:
            return _LEFT_OVER, i, pos
    return 0, 0, 0
