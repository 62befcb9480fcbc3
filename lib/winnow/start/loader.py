"""What a broker's loader makes of a partition directory, with or without the marker of a clean
shutdown (S8.9, Kafka's `LogLoader`), and then a clean close. Changes nothing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from winnow.advice import COPY
from winnow.errors import CorruptLogError
from winnow.logdir.batches import end_of
from winnow.logdir.checkpoints import read_leader_epochs
from winnow.logdir.commit.truncation import LogCut, RemovedSegment, Truncation
from winnow.logdir.indexes.builder import OffsetOrderError, RecoveredIndexes
from winnow.logdir.indexes.index import OFFSET_ENTRY_SIZE, look_up
from winnow.logdir.indexes.txnindex import AbortedTransaction, encode_txn_index
from winnow.logdir.names import (
    INDEX,
    INDEX_SUFFIXES,
    LEADER_EPOCHS,
    LOG,
    SNAPSHOT,
    TIMEINDEX,
    TXNINDEX,
    segment_file,
)
from winnow.logdir.unflushed import unflushed_from, why_recovered_when_opened
from winnow.policy.config import TopicConfig
from winnow.policy.retention import has_remote_storage
from winnow.start.epochs import LeaderEpochs, ascending
from winnow.start.files import FinishedSwap, PartitionFiles, loader_offset
from winnow.start.loaded import LoadedLog, LogToLoad
from winnow.start.producers import ProducerManager
from winnow.start.segments import (
    Batches,
    batches_from,
    end_of_log,
    is_before_break,
    read_next_offset,
    recovered_batches,
)
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
    index_read: bool = False
    files: dict[str, bytes] = field(default_factory=dict)
    """By suffix: indexes that were built."""

    def name(self, suffix: str) -> str:
        return segment_file(self.base, suffix)


def load_log(
    storage: Storage, log: LogToLoad, config: TopicConfig, swap: FinishedSwap | None = None
) -> LoadedLog:
    """Return what a loader leaves. CorruptLogError where it fails, and where that can't be told.

    `swap`: how the loader finishes an interrupted swap first.
    """
    return _Loader(log, config, PartitionFiles(storage, log.directory, swap), storage).load()


class _Loader:
    def __init__(
        self, log: LogToLoad, config: TopicConfig, files: PartitionFiles, storage: Storage
    ) -> None:
        self._log, self._config, self._files = log, config, files
        self._entries = self._files.sizes
        self._before = frozenset(self._files.snapshots)
        self._epochs = LeaderEpochs(
            ascending(read_leader_epochs(storage, log.directory, any_order=True))
        )
        self._segments: dict[int, _Segment] = {}
        """By base offset, ascending."""
        self._bases: list[int] = []
        """Their keys."""
        self._removed: list[_Segment] = []
        self._main = self._manager()
        self._recovered_bytes = 0

    def load(self) -> LoadedLog:
        self._open_segments()
        if self._log.clean_shutdown:
            self._read_end()
        else:
            self._recover_unflushed()
        checkpoint = self._log.log_start_checkpoint
        created = self._start_anew_if_beyond_end()
        end, first = self._end, min(self._segments)
        self._epochs.truncate_from_end(end)
        self._epochs.truncate_from_start(checkpoint)
        # The log of a topic with remote storage may begin below its first segment.
        tiered = has_remote_storage(self._log.topic_partition.topic, self._config)
        log_start = checkpoint if tiered else max(checkpoint, first)
        self._main.remove_stray(self._segments)
        if self._log.clean_shutdown and not self._files.snapshots:
            self._main.map_end = end  # as after an upgrade: no producer is looked for
        else:
            self._rebuild(self._main, log_start, end)
        self._main.take_snapshot()
        self._read_unstable(log_start)
        return LoadedLog(
            truncation=self._truncation(created),
            log_start_offset=log_start,
            log_end_offset=end,
            log_start_to_write=log_start if tiered or log_start > first else None,
            recovered_bytes=self._recovered_bytes,
            txnindexes={
                base: segment.files[TXNINDEX]
                for base, segment in self._segments.items()
                if segment.files.get(TXNINDEX)
            },
            producers=self._main.entries,
        )

    # --- the steps of the loader ---

    def _open_segments(self) -> None:
        for name in sorted(self._entries):
            if not name.endswith(LOG):
                continue
            base, size = loader_offset(name), self._entries[name]
            if size > _MAX_LOG_BYTES:
                raise CorruptLogError(
                    "a segment is too large for a broker",
                    expected=f"at most {_MAX_LOG_BYTES} bytes",
                    found=f"{size} bytes",
                    where=self._files.path(name),
                )
            segment = _Segment(base, size, size, base)
            try:
                why = why_recovered_when_opened(
                    base,
                    has_index=segment.name(INDEX) in self._entries,
                    txnindex=self._files.read_if_there(segment.name(TXNINDEX)),
                    one_byte_versions=self._log.one_byte_versions,
                    where=self._files.path(segment.name(TXNINDEX)),
                )
                if why is not None:
                    self._recover(segment, why)
            except OffsetOrderError:
                raise CorruptLogError(
                    "the offsets of a segment go back, and its index is missing",
                    where=self._files.path(name),
                    hint=f"A broker fails here, too. {COPY}",
                ) from None
            self._segments[base] = segment
            self._bases.append(base)

    def _recover_unflushed(self) -> None:
        flushed = unflushed_from(list(self._segments), self._log.recovery_point)
        unflushed = list(self._segments.values())[flushed:]
        if not unflushed:
            self._read_end()
        for number, segment in enumerate(unflushed):
            size = segment.size
            try:
                self._recover(segment, segment.why)
            except OffsetOrderError:  # the loader gives it up
                why = "its offsets go back"
                self._set(segment, (b"", b"", b""), size=0, end=segment.base, why=why)
            if segment.size < size:
                self._remove(unflushed[number + 1 :])
                return

    def _read_end(self) -> None:
        if self._segments:
            last = self._segments[max(self._segments)]
            if INDEX not in last.files:  # it was not recovered when it was opened
                index = self._files.read(last.name(INDEX))
                last.next_offset = read_next_offset(self._path(last), last.size, last.base, index)

    def _start_anew_if_beyond_end(self) -> int | None:
        start = self._log.log_start_checkpoint
        if self._segments:
            if self._end >= start:
                return None
            self._remove(list(self._segments.values()))
            self._epochs.clear()
            self._main.truncate_fully(start)
        self._segments[start] = _Segment(start, 0, 0, start)
        self._bases = [start]
        self._segments[start].files = {INDEX: b"", TIMEINDEX: b""}
        return start

    def _recover(self, segment: _Segment, why: str) -> None:
        manager = self._manager(alone=True)
        self._recovered_bytes += segment.size
        self._rebuild(manager, self._log.log_start_checkpoint, segment.base)
        path, interval = self._path(segment), self._config.index_interval_bytes
        indexes = RecoveredIndexes(
            base_offset=segment.base,
            index_interval_bytes=interval,
            max_index_bytes=self._config.segment_index_bytes,
        )
        aborted: list[AbortedTransaction] = []
        size, end, goes_back = 0, segment.base, False
        for batches in recovered_batches(path, segment.size, segment.base):
            if isinstance(batches, str):
                why = f"{why}; {batches}" if why else batches
                break
            rows = batches.rows
            indexes.append(rows)
            newer = rows[rows["magic"] == MAX_MAGIC]
            self._assign_epochs(newer)
            aborted += manager.append(Batches(newer, batches.markers), path=path)
            if len(newer):
                manager.map_end = end_of(newer[-1]).next_offset
            expected = np.concatenate([[end], rows["last_offset"][:-1] + 1])
            goes_back = goes_back or bool((rows["base_offset"] < expected).any())
            last = end_of(rows[-1])
            size, end = last.position, last.next_offset
        try:
            index, timeindex = indexes.recovered(path)
        except OffsetOrderError:
            # Cutting a transaction index to nothing leaves an empty file.
            if aborted and is_before_break(
                path, segment.size, interval=interval, marker=aborted[0].last_offset
            ):
                segment.files[TXNINDEX] = b""
            raise
        if goes_back:
            end = end_of_log(path, size, segment.base, index)
        built = (index, timeindex, encode_txn_index(aborted))
        self._set(segment, built, size=size, end=end, why=why)
        manager.take_snapshot()

    def _set(
        self, segment: _Segment, built: Sequence[bytes], *, size: int, end: int, why: str
    ) -> None:
        """Set what the recovery of a segment leaves. An empty transaction index is written only
        where there is one.
        """
        known = {INDEX, TIMEINDEX, *segment.files}
        segment.files = {
            suffix: data
            for suffix, data in zip(INDEX_SUFFIXES, built, strict=True)
            if data or suffix in known or segment.name(suffix) in self._entries
        }
        segment.size, segment.next_offset, segment.why = size, end, why

    def _remove(self, segments: Sequence[_Segment]) -> None:
        for segment in segments:
            del self._segments[segment.base]
            self._main.remove(segment.base)
        self._bases = list(self._segments)
        self._removed += segments

    def _rebuild(self, manager: ProducerManager, log_start: int, end: int) -> None:
        """`UnifiedLog.rebuildProducerState`: up to `end`, from the newest snapshot on."""
        bases = self._bases
        to_snapshot = {*bases[-2:], end}
        nothing_before = manager.is_empty and manager.map_end >= end
        manager.truncate_and_reload(log_start, end)
        if end > manager.map_end and not nothing_before:
            first = max(0, bisect_right(bases, manager.map_end) - 1)
            for base in bases[first : bisect_left(bases, end)]:
                segment = self._segments[base]
                manager.map_end = max(base, manager.map_end, log_start)
                if base in to_snapshot:
                    manager.take_snapshot()
                pieces = self._batches_from(segment, manager.map_end)
                manager.load_batches(pieces, path=self._path(segment))
        manager.map_end = end
        manager.take_snapshot()

    # --- smaller parts ---

    @property
    def _end(self) -> int:
        return self._segments[max(self._segments)].next_offset

    def _path(self, segment: _Segment) -> str:
        return self._files.path(segment.name(LOG))

    def _manager(self, *, alone: bool = False) -> ProducerManager:
        return ProducerManager(
            self._files,
            alone=alone,
            now=self._log.now,
            expiration_ms=self._config.producer_id_expiration_ms,
        )

    def _assign_epochs(self, rows: Rows) -> None:
        epochs = rows["leader_epoch"]
        before = np.maximum.accumulate(np.concatenate([[self._epochs.latest], epochs[:-1]]))
        for row in np.flatnonzero(epochs > before[: len(epochs)]).tolist():
            self._epochs.assign(int(epochs[row]), int(rows["base_offset"][row]))

    def _batches_from(self, segment: _Segment, offset: int) -> Iterator[Batches]:
        """Yield batches from where a loader begins to look for an offset."""
        segment.index_read = True
        data = segment.files.get(INDEX)
        if data is None:
            data = self._files.read(segment.name(INDEX))
        position = look_up(data, segment.base, offset)
        if position < 0:
            raise CorruptLogError(
                "an index entry is invalid",
                expected="a position of at least 0",
                found=str(position),
                where=self._files.path(segment.name(INDEX)),
                hint="Remove the file: a missing index is rebuilt.",
            )
        return batches_from(self._path(segment), segment.size, offset, position)

    def _read_unstable(self, log_start: int) -> None:
        """A broker looks for the first offset of an undecided transaction, and fails if it comes to
        bytes that are no batch.
        """
        first = self._main.first_unstable()
        if first is None:
            return
        at = max(first, log_start)
        begin = max((base for base in self._segments if base <= at), default=-1)
        for base, segment in self._segments.items():
            if base >= begin and any(
                (each.rows["base_offset"] >= at).any() for each in self._batches_from(segment, at)
            ):
                return

    # --- the result ---

    def _truncation(self, created: int | None) -> Truncation:
        files: dict[str, bytes] = {}
        removed = sorted(self._removed, key=lambda segment: segment.base)
        gone_bases = {segment.base for segment in removed}
        for segment in self._segments.values():
            for suffix, data in self._files_of(segment).items():
                name = segment.name(suffix)
                if segment.base in gone_bases or self._files.differs(name, data):
                    files[name] = data
        if LEADER_EPOCHS not in self._entries and not self._epochs.changed:
            files[LEADER_EPOCHS] = b""
        for offset, written in sorted(self._files.snapshots.items()):
            name = segment_file(offset, SNAPSHOT)
            if written is not None and self._files.differs(name, written):
                files[name] = written
        gone, end = sorted(self._before - self._files.snapshots.keys()), self._end
        return Truncation(
            removed=tuple(RemovedSegment(segment.base, segment.before) for segment in removed),
            cuts=tuple(
                LogCut(one.base, one.before, one.size, one.next_offset, one.why)
                for one in self._segments.values()
                if one.size < one.before
            ),
            created_segment=created,
            files=files,
            orphans=tuple(name for name in self._files.orphans() if name not in files),
            snapshots_beyond_end=tuple(
                segment_file(offset, SNAPSHOT) for offset in gone if offset > end
            ),
            old_snapshots=tuple(segment_file(offset, SNAPSHOT) for offset in gone if offset <= end),
            leader_epochs=tuple(self._epochs.entries) if self._epochs_differ() else None,
            # A removed segment with indexes was recovered, for the sake of an index, before all
            # others: so its epoch came first.
            index_bytes=sum(
                max(self._entries.get(name, 0) - len(data), 0) for name, data in files.items()
            ),
            epochs_first=created is not None or any(segment.files for segment in removed),
        )

    def _files_of(self, segment: _Segment) -> dict[str, bytes]:
        """Return the indexes that a close leaves, as far as they may differ from those on disk."""
        if segment.files:
            return segment.files
        found = {}
        if segment.name(TIMEINDEX) not in self._entries:
            found[TIMEINDEX] = b""
        torn = self._entries[segment.name(INDEX)] % OFFSET_ENTRY_SIZE
        if segment.index_read and torn:
            found[INDEX] = self._files.read(segment.name(INDEX))[:-torn]
        return found

    def _epochs_differ(self) -> bool:
        lines = ["0", str(len(self._epochs.entries))]
        lines += [f"{epoch} {offset}" for epoch, offset in self._epochs.entries]
        text = "".join(f"{line}\n" for line in lines)
        return self._epochs.changed and self._files.differs(LEADER_EPOCHS, text.encode())
