"""Read what decisions about keys need of all records of many batches, as columns, in one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from winnow.advice import COPY
from winnow.errors import CorruptLogError
from winnow.wire.buffers import Buffer, Rows
from winnow.wire.record_faults import Fault, check_fault, record_error
from winnow.wire.walk import first_bad_crc

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from winnow.wire.buffers import RecordBlocks
    from winnow.wire.kernels.compressed import Opening

_MOST_RECORDS = 2**20
"""Records that headers may claim before any is read."""


class RecordColumns(NamedTuple):
    """One row per record, in file order over all batches. Includes records of control batches."""

    hash: NDArray[np.uint64]
    """Shape (n, 2): SipHash-1-3-128 of the key under the run's secret; 0, 0 for a null key."""
    offset: NDArray[np.int64]
    """Where the record counts (S5.5): its offset, but not outside of those of its batch."""
    null_key: NDArray[np.bool_]
    null_value: NDArray[np.bool_]
    """A tombstone, unless the batch is a control batch."""
    batch: NDArray[np.int32]
    """Row of the record's batch."""


def scan_records(
    blocks: RecordBlocks, secret: tuple[int, int], *, check_crc: bool = False
) -> RecordColumns:
    """Parse and hash all records. `secret`: two uint64.

    `check_crc`: compare each batch with its checksum (S5.3) just before its records are parsed. So
    memory is read once for both. It comes too late for decompressed batches. For v0 and v1,
    `inflate` has checked it already.

    Raises CorruptLogError, naming the batch's position, for any record that violates S2.2. So
    records that pass can be rewritten.
    """
    from winnow.wire.kernels.compressed import OPENED  # noqa: PLC0415 - with numba

    return _scanned(blocks, OPENED, secret, check_crc=check_crc)[0]


def scan_in_cache(
    closed: RecordBlocks, secret: tuple[int, int], *, limit: int
) -> tuple[RecordColumns, int] | None:
    """Scan v2 batches that are still compressed, up to the first one that is not usual. Return
    their columns and their number, or None if there is no such batch.

    `filter_in_cache` says what is usual. Each batch is compared with its checksum before it is
    decompressed. `secret`: two uint64. `limit`: decompressed bytes of a batch. Raises
    CorruptLogError as `scan_records` does.
    """
    from winnow.wire.kernels.compressed import opening_of  # noqa: PLC0415 - with numba

    ends = np.cumsum(closed.rows["record_count"], dtype=np.int64)
    closed = closed.some(slice(np.searchsorted(ends, _MOST_RECORDS, side="right")))
    found = opening_of(closed, limit=limit)
    if found is None:
        return None
    columns, count = _scanned(*found, secret, check_crc=True)
    return (columns, count) if count else None


def _scanned(
    blocks: RecordBlocks, opening: Opening, secret: tuple[int, int], *, check_crc: bool
) -> tuple[RecordColumns, int]:
    """Scan batches, up to the first one that is not usual. Return their columns and their
    number.
    """
    from winnow.wire.kernels.records import WRONG_CRC, scan  # noqa: PLC0415 - with numba

    columns = _allocated(record_total(blocks))
    k0, k1 = map(np.uint64, secret)
    found, count, n = scan(blocks, check_crc, k0, k1, columns, opening)
    if found[0] == WRONG_CRC:
        raise crc_error(blocks.rows[found[1]])
    check_fault(found, blocks.rows, blocks.begin)
    leading: list[Any] = [column[:n] for column in columns]
    return RecordColumns(*leading), count


def crc_error(row: np.void) -> CorruptLogError:
    """Return the error for a batch (a BATCH row) whose bytes don't match its checksum."""
    return CorruptLogError(
        f"a batch does not match its CRC: base offset {int(row['base_offset'])}",
        where=f"batch at byte {int(row['position'])}",
        hint=f"The bytes changed after Kafka wrote them. {COPY}",
    )


def check_crcs(buf: Buffer, batches: Rows) -> None:
    """Raise CorruptLogError for the first batch that does not match its CRC (S5.3)."""
    wrong = first_bad_crc(buf, batches)
    if wrong >= 0:
        raise crc_error(batches[wrong])


def record_total(blocks: RecordBlocks) -> int:
    """Return the number of records of all batches, from their headers. Raises CorruptLogError if a
    batch has no room for so many.

    For unread batches only the header is known.
    """
    from winnow.wire.kernels.headers import count_records  # noqa: PLC0415 - with numba

    total, wrong = count_records(blocks.rows, blocks.unread, blocks.begin, blocks.end)
    if wrong >= 0:
        raise record_error(Fault.TOO_MANY, blocks.rows[wrong], 0)
    return int(total)


def _allocated(n: int) -> RecordColumns:
    return RecordColumns(
        hash=np.empty((n, 2), np.uint64),
        offset=np.empty(n, np.int64),
        null_key=np.empty(n, np.bool_),
        null_value=np.empty(n, np.bool_),
        batch=np.empty(n, np.int32),
    )
