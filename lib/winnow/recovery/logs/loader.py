"""What a broker's loader makes of a partition directory without the marker of a clean shutdown
(S8.9, Kafka's `LogLoader`), and then a clean close. Changes nothing.

Leftovers of an interrupted cleaning are gone already (`winnow.logdir.commit.recovery`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from winnow.errors import CorruptLogError
from winnow.logdir.checkpoints import read_leader_epochs
from winnow.logdir.commit.truncation import LogCut, RemovedSegment, Truncation
from winnow.logdir.indexes.index import OFFSET_ENTRY_SIZE
from winnow.logdir.indexes.recovery import OffsetOrderError, RecoveredIndexes, look_up
from winnow.logdir.indexes.txnindex import AbortedTransaction, encode_txn_index
from winnow.logdir.names import (
    INDEX,
    LEADER_EPOCHS,
    LOG,
    SNAPSHOT,
    TIMEINDEX,
    TXNINDEX,
    base_offset_of,
    segment_file,
)
from winnow.policy.config import TopicConfig
from winnow.recovery.logs.epochs import LeaderEpochs
from winnow.recovery.logs.files import PartitionFiles
from winnow.recovery.logs.producers import ProducerManager, Snapshots
from winnow.recovery.logs.segments import (
    batches_from,
    end_of_log,
    is_before_break,
    recovered_batches,
)
from winnow.recovery.logs.values import LoadedLog, LogToLoad
from winnow.storage.contract import Storage
from winnow.wire.batch import MAX_MAGIC
from winnow.wire.buffers import Rows

_MAX_LOG_BYTES = 2**31 - 1


@dataclass(slots=True)
class _Segment:
    base: int
    before: int
    """Bytes of the log on disk."""
    size: int
    """Bytes of it that stay."""
    next_offset: int
    why: str = ""
    recovered: bool = False
    index_read: bool = False
    files: dict[str, bytes] = field(default_factory=dict)
    """By suffix: indexes that were built."""


def load_log(storage: Storage, log: LogToLoad, config: TopicConfig) -> LoadedLog:
    """Return what a loader leaves. CorruptLogError where it fails, and where that can't be told."""
    return _Loader(storage, log, config).load()


class _Loader:
    def __init__(self, storage: Storage, log: LogToLoad, config: TopicConfig) -> None:
        self._storage, self._log, self._config = storage, log, config
        self._files = PartitionFiles(storage, log.directory)
        self._entries = self._files.sizes
        self._snapshots = Snapshots(
            lambda offset: self._files.read(segment_file(offset, SNAPSHOT)),
            {base_offset_of(name) for name in self._entries if name.endswith(SNAPSHOT)},
        )
        self._before = frozenset(self._snapshots.offsets)
        self._epochs = LeaderEpochs(read_leader_epochs(storage, log.directory))
        self._segments: dict[int, _Segment] = {}
        self._removed: list[_Segment] = []
        self._main = self._manager()

    def load(self) -> LoadedLog:
        self._open_segments()
        self._recover_unflushed()
        checkpoint = self._log.log_start_checkpoint
        created = self._start_anew_if_beyond_end()
        end = self._segments[max(self._segments)].next_offset
        self._epochs.truncate_from_end(end)
        self._epochs.truncate_from_start(checkpoint)
        first = min(self._segments)
        # The log of a topic with remote storage may begin below its first segment.
        config = self._config
        tiered = (
            config.remote_storage_enable and config.remote_log_storage_system_enable is not False
        )
        log_start = checkpoint if tiered else max(checkpoint, first)
        self._main.remove_stray(self._segments)
        self._rebuild(self._main, log_start, end)
        self._main.take_snapshot()
        self._read_unstable(log_start)
        return LoadedLog(
            truncation=self._truncation(created),
            log_start_offset=log_start,
            log_end_offset=end,
            first_base_offset=first,
            tiered=tiered,
        )

    # --- the steps of the loader ---

    def _open_segments(self) -> None:
        for name in sorted(self._entries):
            if not name.endswith(LOG):
                continue
            base, size = base_offset_of(name), self._entries[name]
            if size > _MAX_LOG_BYTES:
                raise CorruptLogError(
                    "a segment is too large for a broker",
                    expected=f"at most {_MAX_LOG_BYTES} bytes",
                    found=f"{size} bytes",
                    where=self._files.path(name),
                )
            segment = _Segment(base, size, size, base)
            try:
                if segment_file(base, INDEX) not in self._entries:
                    self._recover(segment, "its offset index is missing")
                elif self._files.transactions_lie_below(base):
                    self._recover(segment, "its transaction index is invalid")
            except OffsetOrderError:
                raise CorruptLogError(
                    "the offsets of a segment go back, and its index is missing",
                    where=self._files.path(name),
                    hint="A broker fails here, too. Copy the partition from another replica.",
                ) from None
            self._segments[base] = segment

    def _recover_unflushed(self) -> None:
        bases = sorted(self._segments)
        first = max((base for base in bases if base <= self._log.recovery_point), default=None)
        unflushed = [base for base in bases if first is None or base >= first]
        for number, base in enumerate(unflushed):
            segment = self._segments[base]
            size = segment.size
            try:
                self._recover(segment, segment.why)
            except OffsetOrderError:
                self._empty(segment)
            if segment.size < size:
                self._remove([self._segments[later] for later in unflushed[number + 1 :]])
                return

    def _start_anew_if_beyond_end(self) -> int | None:
        start = self._log.log_start_checkpoint
        if self._segments:
            if self._segments[max(self._segments)].next_offset >= start:
                return None
            self._remove([self._segments[base] for base in sorted(self._segments)])
            self._epochs.clear()
            self._main.truncate_fully(start)
        self._segments[start] = _Segment(start, 0, 0, start)
        self._segments[start].files = {INDEX: b"", TIMEINDEX: b""}
        return start

    def _recover(self, segment: _Segment, why: str) -> None:
        manager = self._manager()
        self._rebuild(manager, self._log.log_start_checkpoint, segment.base)
        path = self._files.path(segment_file(segment.base, LOG))
        indexes = RecoveredIndexes(
            base_offset=segment.base,
            interval=self._config.index_interval_bytes,
            max_bytes=self._config.segment_index_bytes,
            where=path,
        )
        aborted: list[AbortedTransaction] = []
        size, next_offset, goes_back = 0, segment.base, False
        for batches in recovered_batches(path, segment.size, segment.base):
            if isinstance(batches, str):
                why = f"{why}; {batches}" if why else batches
                break
            rows = batches.rows
            indexes.append(rows)
            newer = rows[rows["magic"] == MAX_MAGIC]
            self._assign_epochs(newer)
            aborted += manager.append(newer, batches.markers, path=path)
            if len(newer):
                manager.map_end = int(newer[-1]["last_offset"]) + 1
            expected = np.concatenate([[next_offset], rows["last_offset"][:-1] + 1])
            goes_back = goes_back or bool((rows["base_offset"] < expected).any())
            size = int(rows[-1]["position"]) + int(rows[-1]["size"])
            next_offset = int(rows[-1]["last_offset"]) + 1
        try:
            index, timeindex = indexes.finish()
        except OffsetOrderError:
            # Cutting a transaction index to nothing leaves an empty file.
            interval = self._config.index_interval_bytes
            if aborted and is_before_break(
                path, segment.size, interval=interval, marker=aborted[0].last_offset
            ):
                segment.files[TXNINDEX] = b""
            raise
        if goes_back:
            next_offset = end_of_log(path, size, segment.base, index)
        has_transactions = self._has_transaction_index(segment)
        segment.files = {INDEX: index, TIMEINDEX: timeindex}
        if aborted or has_transactions:
            segment.files[TXNINDEX] = encode_txn_index(aborted)
        segment.recovered, segment.next_offset = True, next_offset
        segment.why = why
        segment.size = size
        manager.take_snapshot()

    def _empty(self, segment: _Segment) -> None:
        """The loader gives up a segment whose index entries do not ascend."""
        has_transactions = self._has_transaction_index(segment)
        segment.files = {INDEX: b"", TIMEINDEX: b""}
        if has_transactions:
            segment.files[TXNINDEX] = b""
        segment.recovered, segment.size, segment.next_offset = True, 0, segment.base
        segment.why = "its offsets go back"

    def _remove(self, segments: Sequence[_Segment]) -> None:
        for segment in segments:
            del self._segments[segment.base]
        self._removed += segments
        for segment in segments:
            self._main.remove_and_mark(segment.base)

    def _rebuild(self, manager: ProducerManager, log_start: int, end: int) -> None:
        """`UnifiedLog.rebuildProducerState`: up to `end`, from the newest snapshot on."""
        bases = sorted(self._segments)
        to_snapshot = {*bases[-2:], end}
        nothing_before = manager.is_empty and manager.map_end >= end
        manager.truncate_and_reload(log_start, end)
        if end > manager.map_end and not nothing_before:
            from_base = max((base for base in bases if base <= manager.map_end), default=None)
            for base in bases:
                if base >= end or (from_base is not None and base < from_base):
                    continue
                segment = self._segments[base]
                start = max(base, manager.map_end, log_start)
                manager.map_end = start
                if base in to_snapshot:
                    manager.take_snapshot()
                path = self._files.path(segment_file(base, LOG))
                begin = self._look_up(segment, start)
                pieces = batches_from(path, segment.size, start, begin)
                manager.load_batches(((each.rows, each.markers) for each in pieces), path=path)
        manager.map_end = end
        manager.take_snapshot()

    # --- smaller parts ---

    def _manager(self) -> ProducerManager:
        return ProducerManager(
            self._snapshots,
            now=self._log.now,
            expiration_ms=self._config.producer_id_expiration_ms,
            where=self._log.directory,
        )

    def _assign_epochs(self, rows: Rows) -> None:
        if not len(rows):
            return
        epochs = rows["leader_epoch"]
        before = np.maximum.accumulate(np.concatenate([[self._epochs.latest], epochs[:-1]]))
        for row in np.flatnonzero(epochs > before).tolist():
            self._epochs.assign(int(epochs[row]), int(rows["base_offset"][row]))

    def _has_transaction_index(self, segment: _Segment) -> bool:
        return TXNINDEX in segment.files or segment_file(segment.base, TXNINDEX) in self._entries

    def _look_up(self, segment: _Segment, offset: int) -> int:
        """Return the byte where a loader begins to look for an offset."""
        segment.index_read = True
        path = self._files.path(segment_file(segment.base, INDEX))
        data = segment.files.get(INDEX)
        if data is None:
            data = self._storage.read_bytes(path)
        position = look_up(data, segment.base, offset)
        if position < 0:
            raise CorruptLogError(
                "an index entry is invalid",
                expected="a position of at least 0",
                found=str(position),
                where=path,
                hint="Remove the file: a missing index is rebuilt.",
            )
        return position

    def _read_unstable(self, log_start: int) -> None:
        """A broker looks for the first offset of an undecided transaction, and fails if it comes to
        bytes that are no batch.
        """
        first = self._main.first_unstable()
        if first is None:
            return
        at = max(first, log_start)
        bases = sorted(self._segments)
        begin = max((base for base in bases if base <= at), default=bases[0])
        for base in bases[bases.index(begin) :]:
            segment = self._segments[base]
            path = self._files.path(segment_file(base, LOG))
            start = self._look_up(segment, at)
            pieces = batches_from(path, segment.size, at, start)
            if any((each.rows["base_offset"] >= at).any() for each in pieces):
                return

    # --- the result ---

    def _truncation(self, created: int | None) -> Truncation:
        files: dict[str, bytes] = {}
        cuts = []
        removed_bases = {segment.base for segment in self._removed}
        for segment in self._segments.values():
            for suffix, data in self._files_of(segment).items():
                name = segment_file(segment.base, suffix)
                if segment.base in removed_bases or self._files.differs(name, data):
                    files[name] = data
            if segment.size < segment.before:
                cuts.append(
                    LogCut(
                        segment.base, segment.before, segment.size, segment.next_offset, segment.why
                    )
                )
        if LEADER_EPOCHS not in self._entries and not self._epochs.changed:
            files[LEADER_EPOCHS] = b""
        gone = sorted(self._before - self._snapshots.offsets)
        end = self._segments[max(self._segments)].next_offset
        return Truncation(
            removed=tuple(
                RemovedSegment(segment.base, segment.before)
                for segment in sorted(self._removed, key=lambda segment: segment.base)
            ),
            cuts=tuple(sorted(cuts, key=lambda cut: cut.base_offset)),
            created_segment=created,
            files=files,
            snapshots={
                name: data
                for name, data in (
                    (segment_file(offset, SNAPSHOT), data)
                    for offset, data in sorted(self._snapshots.written.items())
                )
                if self._files.differs(name, data)
            },
            orphans=tuple(name for name in self._files.orphans() if name not in files),
            snapshots_beyond_end=tuple(
                segment_file(offset, SNAPSHOT) for offset in gone if offset > end
            ),
            old_snapshots=tuple(segment_file(offset, SNAPSHOT) for offset in gone if offset <= end),
            leader_epochs=self._epochs.entries if self._epochs_differ() else None,
        )

    def _files_of(self, segment: _Segment) -> dict[str, bytes]:
        """Return the indexes that a close leaves, as far as they may differ from those on disk."""
        if segment.recovered or segment.files:
            return segment.files
        found = {}
        if segment_file(segment.base, TIMEINDEX) not in self._entries:
            found[TIMEINDEX] = b""
        name = segment_file(segment.base, INDEX)
        torn = self._entries[name] % OFFSET_ENTRY_SIZE
        if segment.index_read and torn:
            found[INDEX] = self._files.read(name)[:-torn]
        return found

    def _epochs_differ(self) -> bool:
        lines = ["0", str(len(self._epochs.entries))]
        lines += [f"{epoch} {offset}" for epoch, offset in self._epochs.entries]
        text = "".join(f"{line}\n" for line in lines)
        return self._epochs.changed and self._files.differs(LEADER_EPOCHS, text.encode())
