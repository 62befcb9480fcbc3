"""One segment while it is written: its log, both growing indexes, and the decision when to roll."""

from __future__ import annotations

import os
import struct
from copy import copy
from dataclasses import dataclass

from tests.log_writer.producer_table import AbortedTransaction
from tests.log_writer.shared_files import write_new
from winnow.errors import CorruptLogError
from winnow.logdir.indexes.index import OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE
from winnow.logdir.names import INDEX, LOG, TIMEINDEX, TXNINDEX, segment_file
from winnow.storage.contract import read_if_there
from winnow.storage.creating import create_file
from winnow.storage.guarded import open_file
from winnow.storage.local import LocalStorage
from winnow.wire.batch import MAX_OFFSET_SPAN, NO_TIMESTAMP
from winnow.wire.buffers import Rows

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_ABORTED_TXN = struct.Struct(">hqqqq")
_ABORTED_TXN_VERSION = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentConfig:
    """When a segment is full, and how dense its indexes are; Kafka's defaults. Sizes in bytes,
    times in ms.
    """

    segment_bytes: int = 2**30
    """`segment.bytes`, or `internal.segment.bytes` where that is set."""
    segment_ms: int = 7 * 86_400_000
    """`segment.ms`; of a compacted topic the smaller of it and `max.compaction.lag.ms`. What a
    broker drew at random from `segment.jitter.ms` is to be subtracted.
    """
    segment_index_bytes: int = 10 * 2**20
    index_interval_bytes: int = 4096


class SegmentWriter:
    """The active segment. Batches go to disk at once, indexes when it is finished: until then they
    may change.

    `created_ms`: when it was rolled, or opened again. With `resume` what the files hold is gone on
    with, as a broker does after a restart: the distance to the next index entry is counted anew.
    """

    def __init__(
        self,
        directory: str,
        base_offset: int,
        config: SegmentConfig,
        *,
        created_ms: int,
        resume: Rows | None = None,
    ) -> None:
        self.base_offset = base_offset
        self._config = config
        self._created_ms = created_ms
        self._prefix = f"{directory}/{segment_file(base_offset, '')}"
        self._index, self._timeindex, self._txnindex = bytearray(), bytearray(), bytearray()
        self._max_timestamp, self._offset_of_max = NO_TIMESTAMP, base_offset
        self._last_time_entry = NO_TIMESTAMP
        self._since_last_entry = 0
        self._first_timestamp = NO_TIMESTAMP
        self._written_ms = None if resume is not None else created_ms
        self.size = 0
        if resume is not None:
            self._resume(resume)
        path = f"{self._prefix}{LOG}"
        fd = (
            create_file(path, shared=True)
            if resume is None
            else open_file(path, os.O_WRONLY | os.O_APPEND)
        )
        self._log = open(fd, "ab")  # noqa: SIM115 - closed by finish()

    @property
    def index_entries(self) -> int:
        return len(self._index) // OFFSET_ENTRY_SIZE

    @property
    def time_index_entries(self) -> int:
        return len(self._timeindex) // TIME_ENTRY_SIZE

    def must_roll(self, *, size: int, max_timestamp: int, last_offset: int, now_ms: int) -> bool:
        """Whether an append of `size` bytes has to go to a new segment (`LogSegment.shouldRoll`).

        Time counts from the first batch's largest timestamp to that of the append; if the first has
        none, from when the segment was made to now.
        """
        waited = (
            now_ms - self._created_ms
            if self._first_timestamp < 0
            else max_timestamp - self._first_timestamp
        )
        return (
            self.size > self._config.segment_bytes - size
            or (self.size > 0 and waited > self._config.segment_ms)
            or self._is_index_full()
            or self._is_time_index_full()
            or not self._fits(last_offset)
        )

    def check_room(self, rows: Rows) -> None:
        """Raises CorruptLogError if batches of one append can't all go here, although the segment
        did not have to roll.

        The last offset may be too far from the base offset, or an index get full on the way; Kafka
        fails there, too.
        """
        last_offset = int(rows["last_offset"][-1])
        if not self._fits(last_offset):
            raise self._too_long(
                f"offsets up to {self.base_offset + MAX_OFFSET_SPAN}", str(last_offset)
            )
        if len(rows) > 1:
            trial = copy(self)
            trial._index, trial._timeindex = self._index[:], self._timeindex[:]
            trial._index_batches(rows)

    def append(self, data: bytes, rows: Rows, *, now_ms: int) -> None:
        """Write whole batches and index them (S1.6, S1.7). `rows` holds their positions in
        `data`.
        """
        self._index_batches(rows)
        self._log.write(data)
        self._written_ms = now_ms

    def append_aborted(self, aborted: AbortedTransaction) -> None:
        """One more entry of the transaction index (S1.8); the file appears with the first one."""
        self._txnindex += _ABORTED_TXN.pack(
            _ABORTED_TXN_VERSION,
            aborted.producer_id,
            aborted.first_offset,
            aborted.last_offset,
            aborted.last_stable_offset,
        )

    def finish(self) -> None:
        """Closes the log and writes the indexes, the time index with its forced last entry (S1.7).

        The log's modification time is that of the last append: it is the age of records without a
        timestamp.
        """
        self._append_time_entry()
        self._log.flush()
        if self._written_ms is not None:
            os.utime(self._log.fileno(), ns=(self._written_ms * 1_000_000,) * 2)
        self._log.close()
        for suffix, content in (
            (INDEX, self._index),
            (TIMEINDEX, self._timeindex),
            (TXNINDEX, self._txnindex),
        ):
            if content or suffix != TXNINDEX:
                write_new(f"{self._prefix}{suffix}", bytes(content))

    def _fits(self, offset: int) -> bool:
        return 0 <= offset - self.base_offset <= MAX_OFFSET_SPAN

    def _too_long(self, expected: str, found: str) -> CorruptLogError:
        return CorruptLogError(
            "an append is too long for one segment",
            expected=expected,
            found=found,
            where=f"{self._prefix}{LOG}",
            hint="Append its batches one by one.",
        )

    def _is_index_full(self) -> bool:
        return self.index_entries >= self._config.segment_index_bytes // OFFSET_ENTRY_SIZE

    def _is_time_index_full(self) -> bool:
        # One slot is kept for the forced last entry.
        return self.time_index_entries >= self._config.segment_index_bytes // TIME_ENTRY_SIZE - 1

    def _index_batches(self, rows: Rows) -> None:
        columns = (rows[name].tolist() for name in ("size", "last_offset", "max_timestamp"))
        for size, offset, timestamp in zip(*columns, strict=True):
            self._index_batch(self.size, size, offset, timestamp)

    def _index_batch(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        if position == 0:
            self._first_timestamp = max_timestamp
        if max_timestamp > self._max_timestamp:
            self._max_timestamp, self._offset_of_max = max_timestamp, last_offset
        if self._since_last_entry > self._config.index_interval_bytes:
            if self._is_index_full() or self._is_time_index_full():
                room = self._config.segment_index_bytes
                raise self._too_long(
                    f"indexes of up to {room} bytes", f"more, at offset {last_offset}"
                )
            self._index += _OFFSET_ENTRY.pack(last_offset - self.base_offset, position)
            self._append_time_entry()
            self._since_last_entry = 0
        self._since_last_entry += size
        self.size = position + size

    def _append_time_entry(self) -> None:
        if self._max_timestamp > self._last_time_entry:
            self._timeindex += _TIME_ENTRY.pack(
                self._max_timestamp, self._offset_of_max - self.base_offset
            )
            self._last_time_entry = self._max_timestamp

    def _resume(self, rows: Rows) -> None:
        self._index, self._timeindex, self._txnindex = (
            bytearray(read_if_there(LocalStorage(), f"{self._prefix}{suffix}") or b"")
            for suffix in (INDEX, TIMEINDEX, TXNINDEX)
        )
        if self._timeindex:
            last, relative = _TIME_ENTRY.unpack_from(
                self._timeindex, len(self._timeindex) - TIME_ENTRY_SIZE
            )
            self._max_timestamp = self._last_time_entry = last
            self._offset_of_max = self.base_offset + relative
        if len(rows):
            self.size = int(rows["position"][-1] + rows["size"][-1])
            self._first_timestamp = int(rows["max_timestamp"][0])
