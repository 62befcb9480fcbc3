"""Verify: read a staged segment back from the disk before it may replace anything.

An independent path: headers are walked and CRCs computed anew, and the indexes are compared with ones that are built
from what was read, not from what was meant to be written; the transaction index with the markers that were read.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from winnow.engine.gather import Array, aborted_rows, control_columns
from winnow.errors import CorruptLogError, VerificationError
from winnow.logdir.index import IndexBuilder
from winnow.logdir.names import INDEX, LOG, TIMEINDEX, TXNINDEX
from winnow.logdir.txnindex import read_txn_index
from winnow.policy.transactions import ABORTED
from winnow.storage.places import Places
from winnow.storage.segment_io import Bytes, drop_cached, map_range, release
from winnow.wire.batch import BATCH, CONTROL, DELETE_HORIZON, MAX_OFFSET_SPAN
from winnow.wire.control import ControlType
from winnow.wire.walk import WalkStatus, describe, first_bad_crc, walk_batches

_ROWS = 4_096
_AT_ONCE = 64 * 2**20
"""Of a segment in memory."""


class StagedLog:
    """A staged log that is read back, part after part: headers, CRCs, and the indexes that belong to it.

    `markers`: whether abort markers are collected, for the transaction index to be compared with.
    """

    def __init__(
        self, path: str, *, base_offset: int, index_interval_bytes: int, segment_index_bytes: int, markers: bool = True
    ) -> None:
        self.path = path
        self.base_offset = base_offset
        self.records = 0
        self.next_offset = base_offset
        """After the last one that was read."""
        self._position = 0
        self._index = IndexBuilder(
            base_offset=base_offset, index_interval_bytes=index_interval_bytes, max_index_bytes=segment_index_bytes
        )
        self._markers = [np.empty(0, BATCH)] if markers else None

    def up_to(self, end: int) -> None:
        """Reads the bytes from where it stopped before up to `end`, which are whole batches and on the disk.

        Raises VerificationError unless they are sound and their offsets ascend.
        """
        rows = np.empty(_ROWS, BATCH)
        begin, self._position = self._position, end
        position, status = 0, WalkStatus.FULL
        with map_range(self.path, begin, end, gradually=True) as buf:
            while status == WalkStatus.FULL:
                count, position, status = walk_batches(buf, position, self.next_offset, rows)
                if count:
                    self._check(buf, rows[:count], begin)
                    release(buf, position)
            del buf
        if status != WalkStatus.END:
            with map_range(self.path, 0, end, gradually=True) as buf:
                at = begin + position
                what = describe(status, buf, at, least_offset=self.next_offset, file_name=self.path)
                del buf
            raise VerificationError(str(what), hint="Run again.")

    def _check(self, buf: Bytes, rows: Array, begin: int) -> None:
        """`rows` count from byte `begin`; they are left counting from the start of the log."""
        wrong = _first_bad_crc(buf, rows)
        if wrong >= 0:
            raise VerificationError(
                "a batch of the staged log does not match its CRC",
                where=f"{self.path} at byte {begin + int(rows['position'][wrong])}",
                hint="The disk or the memory of this machine may be failing.",
            )
        if self._markers is not None:
            self._markers.append(_abort_markers(buf, rows, self.path))
        self.records += int(rows["record_count"].astype(np.int64).sum())
        self.next_offset = int(rows["last_offset"][-1]) + 1
        rows["position"] += begin
        try:
            self._index.append(rows)
        except CorruptLogError as error:
            raise VerificationError(str(error), where=self.path, hint="Run again.") from error

    def indexes(self) -> tuple[bytes, bytes]:
        """Content of `.index` and `.timeindex`, once all is read."""
        return self._index.finish()

    def markers(self) -> Array:
        """The abort markers, rows of dtype BATCH."""
        return np.concatenate(self._markers or [np.empty(0, BATCH)])


def verify_staged(
    paths: Mapping[str, str],
    log: StagedLog,
    *,
    end_offset: int,
    log_bytes: int,
    records: int,
    same_txn_index: bytes | None = None,
) -> None:
    """Raises VerificationError unless the files hold `records` records in `log_bytes` bytes of sound batches.

    `log`: that of `paths`; what of it was not read back yet is read now. Offsets must ascend within
    [base_offset, end_offset), each CRC must match, both indexes must be those of the log as it is on the disk, and
    every entry of the transaction index must have its ABORT marker. A marker without an entry is one of which nothing
    is left: it must have a delete horizon (S5.8). `same_txn_index`: instead, the transaction index is to be these
    bytes, or not to be there if there are none: nothing about a transaction has changed.
    """
    for part in paths.values():
        drop_cached(part)
    size = Places().entry(log.path).size
    if size != log_bytes:
        raise _mismatch("bytes in the staged log", log_bytes, size, log.path)
    log.up_to(size)
    if log.records != records:
        raise _mismatch("records in the staged log", records, log.records, log.path)
    last_offset = log.next_offset - 1
    if last_offset >= end_offset or last_offset - log.base_offset > MAX_OFFSET_SPAN:
        raise _mismatch("the staged log's last offset below", end_offset, last_offset, log.path)
    for suffix, wanted in zip((INDEX, TIMEINDEX), log.indexes(), strict=True):
        if Places().read_bytes(paths[suffix]) != wanted:
            raise VerificationError(
                "the staged index is not that of the staged log", where=paths[suffix], hint="Run again."
            )
    if same_txn_index is None:
        _check_txn_index(paths, log.markers(), base_offset=log.base_offset, end_offset=end_offset)
    else:
        _check_same_txn_index(paths, same_txn_index)


def _first_bad_crc(buf: Bytes, rows: Array) -> int:
    """As `first_bad_crc`, with no more of the log in memory than it takes."""
    start = 0
    while start < len(rows):
        limit = int(rows["position"][start]) + _AT_ONCE
        end = max(start + 1, int(np.searchsorted(rows["position"], limit)))
        wrong = first_bad_crc(buf, rows[start:end])
        if wrong >= 0:
            return start + wrong
        release(buf, int(rows["position"][end - 1]))
        start = end
    return -1


def _abort_markers(buf: Bytes, rows: Array, path: str) -> Array:
    control: Array = rows[(rows["attributes"] & CONTROL) != 0]
    if not len(control):
        return control
    try:
        types = control_columns(buf, control, path).type
    except CorruptLogError as error:
        raise VerificationError(str(error), where=path, hint="Run again.") from error
    aborting: Array = control[types == ControlType.ABORT]
    return aborting


def _check_same_txn_index(paths: Mapping[str, str], same: bytes) -> None:
    path = paths.get(TXNINDEX)
    staged = b"" if path is None else Places().read_bytes(path)
    if staged != same:
        raise _mismatch("bytes of the transaction index, unchanged", len(same), len(staged), path or paths[LOG])


def _check_txn_index(paths: Mapping[str, str], markers: Array, *, base_offset: int, end_offset: int) -> None:
    path = paths.get(TXNINDEX)
    entries: Array = np.empty(0, ABORTED)
    if path is not None:
        try:
            entries = aborted_rows(read_txn_index(Places(), path, base_offset=base_offset, end_offset=end_offset))
        except CorruptLogError as error:
            raise VerificationError(str(error), where=path, hint="Run again.") from error
    ends = set(zip(entries["last_offset"].tolist(), entries["producer_id"].tolist(), strict=True))
    found = set(zip(markers["base_offset"].tolist(), markers["producer_id"].tolist(), strict=True))
    bare = markers[(markers["attributes"] & DELETE_HORIZON) == 0]
    needed = set(zip(bare["base_offset"].tolist(), bare["producer_id"].tolist(), strict=True))
    if not needed <= ends <= found or (path is not None and not ends):
        wrong = min(needed - ends, default=None) or min(ends - found, default=None)
        raise VerificationError(
            "the staged transaction index is not that of the staged log",
            expected=f"one entry for each of {len(needed)} ABORT markers",
            found=f"{len(ends)} entries" + (f"; offset and producer {wrong} differ" if wrong else ""),
            where=path or paths[LOG],
            hint="Run again.",
        )


def _mismatch(what: str, wanted: int, found: int, path: str) -> VerificationError:
    return VerificationError(what, expected=str(wanted), found=str(found), where=path, hint="Run again.")
