"""The producers of a log while it is written, and their snapshots on disk: taken, loaded, removed
(S1.9, S8.4).
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.log_writer.producer_table import AbortedTransaction, ProducerTable
from tests.log_writer.shared_files import write_new
from tests.log_writer.whole_batches import whole_batches
from winnow.logdir.names import LOG, SNAPSHOT, base_offset_of, segment_file
from winnow.logdir.snapshots import encode_snapshot, read_snapshot
from winnow.state import ProducerEntry
from winnow.storage.local import LocalStorage
from winnow.wire.buffers import Rows


class ProducerSnapshots:
    """A `ProducerTable` with the offset up to which it is valid. It decides when to take
    snapshots.

    Made as a broker's loader does it after a clean shutdown (`UnifiedLog.rebuildProducerState`):
    from the newest snapshot, without producers that were idle for `expiration_ms` at `now_ms`, and
    a replay of what came later. `bases`: base offsets of all segments, ascending. Raises
    CorruptLogError for what can't be read.
    """

    def __init__(
        self,
        directory: str,
        *,
        bases: Sequence[int],
        log_start_offset: int,
        log_end_offset: int,
        now_ms: int,
        expiration_ms: int,
    ) -> None:
        self._directory = directory
        self._storage = LocalStorage()
        self._bases = tuple(bases)
        self._last = self._end = 0
        """Offsets of the last snapshot, and up to which the table is true."""
        self.table = ProducerTable()
        self._remove_strays()
        if not self._offsets():
            # Nothing is replayed: an empty state is taken for the truth.
            for offset in (*self._bases[-2:], log_end_offset):
                self.take(offset)
            return
        self._last = self._end = self._newest_valid(log_start_offset, log_end_offset)
        if self._last > log_start_offset:
            entries = read_snapshot(self._storage, self._path(self._last))
            self.table = ProducerTable(
                e for e in entries if not _is_expired(e, now_ms, expiration_ms)
            )
        self._replay(log_end_offset)
        self.take(log_end_offset)

    def append(self, data: bytes, rows: Rows) -> list[AbortedTransaction]:
        """As `ProducerTable.append`."""
        aborts = self.table.append(data, rows)
        self._end = int(rows["last_offset"][-1]) + 1
        return aborts

    def take(self, offset: int | None = None) -> None:
        """A snapshot at `offset`, or where the table stands; none if there is one as new
        already.
        """
        self._end = self._end if offset is None else offset
        if self._end > self._last:
            write_new(self._path(self._end), encode_snapshot(self.table.entries()))
            self._last = self._end

    def follow_log_start(self, offset: int) -> None:
        """`onLogStartOffsetIncremented`: files below it are left to the next loader."""
        self._end = max(self._end, offset)
        self._last = max(self._offsets(), default=offset)

    def _newest_valid(self, log_start_offset: int, log_end_offset: int) -> int:
        """Removes those outside of the log; the log start offset if none is left."""
        newest = log_start_offset
        for offset in self._offsets():
            if log_start_offset < offset <= log_end_offset:
                newest = offset
            else:
                self._storage.unlink(self._path(offset))
        return newest

    def _replay(self, log_end_offset: int) -> None:
        start = self._end
        for base, end in zip(self._bases, (*self._bases[1:], log_end_offset), strict=True):
            if end <= start:
                continue
            self._end = max(base, start)
            if base in self._bases[-2:]:
                self.take()
            path = f"{self._directory}/{segment_file(base, LOG)}"
            data = self._storage.read_bytes(path)
            rows = whole_batches(data, least_offset=base, file_name=path)
            self.table.append(data, rows[rows["last_offset"] >= self._end])

    def _remove_strays(self) -> None:
        """Remove snapshots at no segment's base, except the newest if it is above all bases."""
        strays = [offset for offset in self._offsets() if offset not in self._bases]
        for offset in strays[:-1] if strays and strays[-1] >= self._bases[-1] else strays:
            self._storage.unlink(self._path(offset))

    def _offsets(self) -> list[int]:
        names = (entry.name for entry in self._storage.list_dir(self._directory) if entry.is_file)
        return sorted(base_offset_of(name) for name in names if name.endswith(SNAPSHOT))

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{segment_file(offset, SNAPSHOT)}"


def _is_expired(entry: ProducerEntry, now_ms: int, expiration_ms: int) -> bool:
    return entry.current_txn_first_offset < 0 and now_ms - entry.timestamp >= expiration_ms
