"""What a loading broker knows about the producers of a log (S8.4), and what cleaning concludes.

Snapshot entries become a `ProducerState`. The batches from the snapshot's offset to the log end are
replayed over it. Producers idle for `producer.id.expiration.ms` are dropped before and after the
replay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from winnow.java_long import wrapped
from winnow.state import ProducerEntry
from winnow.wire.batch import CONTROL, TRANSACTIONAL, has_producer

_NONE = -1


@dataclass(frozen=True, slots=True)
class Marker:
    """The decoded record of a control batch that ends a transaction (S2.3)."""

    coordinator_epoch: int
    timestamp: int
    aborted: bool


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction. While it is undecided, its first offset is a limit for cleaning (S3.2)."""

    first_offset: int
    producer_id: int
    marker_offset: int | None
    """None: it is open."""

    def __str__(self) -> str:
        if self.marker_offset is None:
            return (
                f"producer {self.producer_id} has a transaction open since offset "
                f"{self.first_offset}"
            )
        return (
            f"the transaction of producer {self.producer_id} from offset {self.first_offset} on "
            f"ends at {self.marker_offset}, not below the high watermark"
        )


@dataclass(frozen=True, slots=True)
class ProducerState:
    """Producer id -> entry, and the transactions that ended in a replay, by their markers.

    Offsets and sequences are those of the last data batch in the epoch, if one is known.
    """

    producers: Mapping[int, ProducerEntry] = field(default_factory=dict)
    completed: tuple[Transaction, ...] = ()


def from_entries(entries: Iterable[ProducerEntry]) -> ProducerState:
    """Return the state in a snapshot. An entry without a last offset comes from a marker that
    raised the epoch.
    """
    return ProducerState(
        {
            entry.producer_id: replace(
                without_data(entry.producer_id, entry.epoch) if entry.last_offset < 0 else entry,
                timestamp=entry.timestamp,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_first_offset=max(entry.current_txn_first_offset, _NONE),
            )
            for entry in entries
        }
    )


def without_data(producer_id: int, epoch: int) -> ProducerEntry:
    """Return the entry of a producer without a known data batch in this epoch."""
    return ProducerEntry(producer_id, epoch, _NONE, _NONE, 0, _NONE, _NONE, _NONE)


def expire(state: ProducerState, now: int, expiration_ms: int) -> ProducerState:
    """Drop the producers that are idle for `expiration_ms` at `now` and have no open transaction
    (S8.4 step 2).
    """
    kept = {
        pid: producer
        for pid, producer in state.producers.items()
        if producer.current_txn_first_offset >= 0
        or wrapped(now - producer.timestamp) < expiration_ms
    }
    return replace(state, producers=kept)


def replay(
    state: ProducerState, batches: NDArray[np.void], *, markers: Mapping[int, Marker] | None = None
) -> ProducerState:
    """Return the state after `batches` (dtype BATCH, ascending; S8.4 step 4).

    `markers`: base offset of a control batch -> its decoded record. An empty control batch needs no
    entry: it is the rest of a marker and changes nothing. ValueError if one with a record is
    missing, since neither epochs nor open transactions would be right. May be called chunk by
    chunk.
    """
    producers = dict(state.producers)
    completed = list(state.completed)
    decoded = {} if markers is None else markers
    batches = batches[has_producer(batches)]
    control = (batches["attributes"] & CONTROL) != 0
    begin = 0
    for at in [*np.flatnonzero(control).tolist(), len(batches)]:
        _replay_data(producers, batches[begin:at])
        begin = at + 1
        if at == len(batches) or int(batches["record_count"][at]) == 0:
            continue
        offset, pid, epoch = batches[["base_offset", "producer_id", "producer_epoch"]][at].tolist()
        marker = decoded.get(offset)
        if marker is None:
            raise ValueError(f"the control batch at offset {offset} was not decoded")
        before = producers.get(pid) or without_data(pid, epoch)
        if before.current_txn_first_offset >= 0:
            completed.append(Transaction(before.current_txn_first_offset, pid, offset))
        producers[pid] = replace(
            # A new epoch drops the batches of the old one.
            before if before.epoch == epoch else without_data(pid, epoch),
            timestamp=marker.timestamp,
            coordinator_epoch=marker.coordinator_epoch,
            current_txn_first_offset=_NONE,
        )
    return ProducerState(producers, tuple(completed))


def traces(batches: NDArray[np.void], ends: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return rows of the batches (dtype BATCH, ascending, each with a producer) whose replay alone
    gives the same state.

    `ends`: bool per batch, whether it ends a transaction. For each producer these are its first
    end, which may end a transaction opened earlier; its last end and the last data before it; and
    after that end the first transactional and the last data. The replay does not complete
    transactions that begin and end before these rows, or completes them with a later first offset.
    Callers that need them must replay everything.
    """
    if not len(batches):
        return np.empty(0, np.int64)
    order = np.argsort(batches["producer_id"], kind="stable")
    _, begins, producer = np.unique(
        batches["producer_id"][order], return_index=True, return_inverse=True
    )
    numbers, none = np.arange(len(order)), len(order)

    def first(chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the number of each producer's first chosen row, or `none`."""
        return np.minimum.reduceat(np.where(chosen, numbers, none), begins)

    def last(chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
        return np.maximum.reduceat(np.where(chosen, numbers, -1), begins)

    end, data = ends[order], ~ends[order]
    transactional = data & ((batches["attributes"][order] & TRANSACTIONAL) != 0)
    last_end = last(end)
    earlier = numbers < last_end[producer]
    chosen = np.concatenate(
        [
            first(end),
            last_end,
            last(data & earlier),
            first(transactional & ~earlier),
            last(end | data),
        ]
    )
    return np.sort(order[np.unique(chosen[(chosen >= 0) & (chosen < none)])])


def last_records(state: ProducerState) -> dict[int, tuple[int | None, int]]:
    """Return producer id -> (last data offset or None, epoch): what S5.4 protects."""
    return {
        pid: (None if producer.last_offset < 0 else producer.last_offset, producer.epoch)
        for pid, producer in state.producers.items()
    }


def undecided(state: ProducerState, high_watermark: int) -> list[Transaction]:
    """Return the known transactions that are open, or end at or above the high watermark."""
    opened = [
        Transaction(producer.current_txn_first_offset, pid, None)
        for pid, producer in state.producers.items()
        if producer.current_txn_first_offset >= 0
    ]
    ended = (t for t in state.completed if (t.marker_offset or 0) >= high_watermark)
    return [*opened, *ended]


def _replay_data(producers: dict[int, ProducerEntry], batches: NDArray[np.void]) -> None:
    """Replay data batches without a marker between them.

    Only the last batch of each producer matters, and if none is open, the first of its transaction.
    """
    if not len(batches):
        return
    transactional = np.flatnonzero((batches["attributes"] & TRANSACTIONAL) != 0)
    pids, first = np.unique(batches["producer_id"][transactional], return_index=True)
    opened = dict(
        zip(pids.tolist(), batches["base_offset"][transactional[first]].tolist(), strict=True)
    )
    pids, from_end = np.unique(batches["producer_id"][::-1], return_index=True)
    for pid, row in zip(pids.tolist(), (len(batches) - 1 - from_end).tolist(), strict=True):
        batch = batches[row]
        delta, sequence = int(batch["last_offset"] - batch["base_offset"]), batch["base_sequence"]
        before = producers.get(pid) or without_data(pid, _NONE)
        first_offset = before.current_txn_first_offset
        producers[pid] = replace(
            before,
            epoch=int(batch["producer_epoch"]),
            # Sequences wrap from 2^31-1 to 0.
            last_sequence=_NONE if sequence == _NONE else (int(sequence) + delta) % 2**31,
            last_offset=int(batch["last_offset"]),
            offset_delta=delta,
            timestamp=int(batch["max_timestamp"]),
            current_txn_first_offset=(opened.get(pid, _NONE) if first_offset < 0 else first_offset),
        )
