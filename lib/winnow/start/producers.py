"""The producers of a log while it is loaded, and their snapshots (S8.9, Kafka's
`ProducerStateManager`).

A broker makes a new manager for each segment that it recovers, and one for the log at the end. Each
of them deletes snapshots and writes new ones. The order decides which files are left, so it is
followed here step by step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from winnow.errors import CorruptLogError
from winnow.logdir.indexes.txnindex import AbortedTransaction
from winnow.logdir.snapshots import decode_snapshot, encode_snapshot
from winnow.policy.producers import (
    Marker,
    ProducerState,
    expire,
    from_entries,
    replay,
    without_data,
)
from winnow.start.files import Ascending, PartitionFiles
from winnow.start.java_map import JavaKeys
from winnow.start.segments import Batches
from winnow.state import ProducerEntry
from winnow.wire.batch import CONTROL, TRANSACTIONAL, has_producer

_NO_EPOCH = -1
"""Of a producer of which only an empty control batch is left (S5.6)."""


class ProducerManager:
    """One `ProducerStateManager`, from its creation to the last snapshot that it takes.

    `now` in ms; `expiration_ms` is `producer.id.expiration.ms`. `alone`: as long as this manager
    is used, no other is.
    """

    def __init__(
        self, files: PartitionFiles, *, now: int, expiration_ms: int, alone: bool = False
    ) -> None:
        self._files = files
        self._now, self._expiration_ms = now, expiration_ms
        self._known = files.snapshot_offsets if alone else Ascending(files.snapshots)
        self._state = ProducerState()
        self._keys = JavaKeys()
        self._first_unreplicated: int | None = None
        self.map_end = 0
        self._last_snapshot = 0

    @property
    def is_empty(self) -> bool:
        return not self._state.producers

    @property
    def entries(self) -> tuple[ProducerEntry, ...]:
        """In the order of a broker's map, as in a snapshot."""
        return tuple(self._state.producers[producer_id] for producer_id in self._keys)

    def truncate_and_reload(self, log_start: int, log_end: int) -> None:
        """Remove the snapshots outside (log start, log end] and load the newest that is left."""
        for offset in self._known.outside(log_start, log_end):
            self.remove(offset)
        if log_end == self.map_end:
            self.map_end = max(self.map_end, log_start)
            self._last_snapshot = log_start if self._known.last is None else self._known.last
            return
        self._last_snapshot = self.map_end = log_start
        while (newest := self._known.last) is not None:
            try:
                data = self._files.snapshot(newest)
                entries = decode_snapshot(data, where=self._files.directory)
            except CorruptLogError:
                self.remove(newest)
                continue
            self._state = expire(from_entries(entries), self._now, self._expiration_ms)
            for producer_id in self._state.producers:
                self._keys.add(producer_id)
            self._last_snapshot = self.map_end = newest
            return

    def take_snapshot(self) -> None:
        """Write a snapshot as of `map_end`, unless the last one is as new."""
        if self.map_end <= self._last_snapshot:
            return
        data = encode_snapshot(self.entries)
        self._files.write_snapshot(self.map_end, data)
        self._known.add(self.map_end)
        self._last_snapshot = self.map_end

    def load_batches(self, pieces: Iterable[Batches], *, path: str) -> None:
        """Replay all batches of one segment together, as a broker does to reach a state: new
        producers come in the order of a map of their own.
        """
        loaded = JavaKeys(computed=True)
        for batches in pieces:
            self.append(batches, path=path, keys=loaded)
        for producer_id in loaded:
            self._keys.add(producer_id)

    def append(
        self, batches: Batches, *, path: str, keys: JavaKeys | None = None
    ) -> list[AbortedTransaction]:
        """Replay batches one by one, as the recovery of a segment does. Return the entries that its
        transaction index gets. `keys` gets the producers; None: the map of this manager.
        """
        keys = self._keys if keys is None else keys
        rows = batches.rows[has_producer(batches.rows)]
        if not len(rows):
            return []
        aborted = self._transactions(rows, batches.markers, path)
        state = replay(ProducerState(self._state.producers), rows, markers=batches.markers)
        ids, first = np.unique(rows["producer_id"], return_index=True)
        for producer_id in ids[np.argsort(first)].tolist():
            keys.add(producer_id)
        emptied = {
            pid: without_data(pid, _NO_EPOCH) for pid in ids.tolist() if pid not in state.producers
        }
        self._state = ProducerState({**state.producers, **emptied})
        return aborted

    def remove(self, offset: int) -> None:
        """Remove a snapshot, if this manager knows it."""
        if offset in self._known:
            self._known.discard(offset)
            self._files.remove_snapshot(offset)

    def truncate_fully(self, offset: int) -> None:
        """Forget all: the log begins anew at this offset."""
        for known in [*self._known]:
            self.remove(known)
        self._state, self._keys = ProducerState(), JavaKeys()
        self._last_snapshot, self.map_end = 0, offset

    def remove_stray(self, base_offsets: Iterable[int]) -> None:
        """Remove the snapshots that are at no segment's base, except the newest of them if it is
        not below the last base.
        """
        bases = set(base_offsets)
        self._known = Ascending(self._files.snapshots)
        strays = [offset for offset in self._known if offset not in bases]
        for offset in strays[:-1]:
            self.remove(offset)
        if strays and bases and strays[-1] < max(bases):
            self.remove(strays[-1])

    def first_unstable(self) -> int | None:
        """First offset of a transaction that is open, or ended in what this manager has read."""
        found = [*self._open().values()]
        if self._first_unreplicated is not None:
            found.append(self._first_unreplicated)
        return min(found, default=None)

    def _open(self) -> dict[int, int]:
        """Return the first offsets of open transactions, by producer."""
        return {
            producer_id: producer.current_txn_first_offset
            for producer_id, producer in self._state.producers.items()
            if producer.current_txn_first_offset >= 0
        }

    def _transactions(
        self, rows: NDArray[np.void], markers: Mapping[int, Marker], path: str
    ) -> list[AbortedTransaction]:
        """Follow the transactions through these rows, before the producers are replayed."""
        control = (rows["attributes"] & CONTROL) != 0
        transactional = (rows["attributes"] & TRANSACTIONAL) != 0
        first_of = self._open()
        open_ids = first_of.keys() | {*rows["producer_id"][transactional & ~control].tolist()}
        chosen = np.isin(rows["producer_id"], np.fromiter(open_ids, np.int64))
        aborted = []
        for offset, producer_id, is_control, is_transactional in zip(
            rows["base_offset"][chosen].tolist(),
            rows["producer_id"][chosen].tolist(),
            control[chosen].tolist(),
            transactional[chosen].tolist(),
            strict=True,
        ):
            if not is_control:
                if is_transactional:
                    first_of.setdefault(producer_id, offset)
                elif producer_id in first_of:
                    raise CorruptLogError(
                        "a producer wrote outside its open transaction",
                        expected="a transactional batch or a marker",
                        found=f"a batch of producer {producer_id} at offset {offset} without a "
                        "transaction",
                        where=path,
                        hint="Kafka's loader fails here, too. Copy the partition from another "
                        "replica.",
                    )
                continue
            marker = markers.get(offset)
            if marker is None or producer_id not in first_of:
                continue
            first = first_of.pop(producer_id)
            if marker.aborted:
                stable = min(first_of.values(), default=offset + 1)
                aborted.append(AbortedTransaction(producer_id, first, offset, stable))
            known = self._first_unreplicated
            self._first_unreplicated = first if known is None else min(known, first)
        return aborted
