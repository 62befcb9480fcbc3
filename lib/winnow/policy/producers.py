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
from winnow.wire.batch import CONTROL, NO_PRODUCER, TRANSACTIONAL

_INT_MAX = 2**31 - 1
_NO_SEQUENCE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    """One producer id's entry. Offsets and sequences: of its last data batch in this epoch."""

    epoch: int
    last_data_offset: int | None = None
    """None: no data batch of the current epoch is known, as after a marker that raised the epoch.
    """
    offset_delta: int = 0
    last_sequence: int = _NO_SEQUENCE
    timestamp: int = -1
    """Time of the last batch or marker, ms. Expiry counts from here."""
    coordinator_epoch: int = -1
    current_txn_first_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """A decoded control batch that ends a transaction (S2.3)."""

    offset: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    timestamp: int
    aborted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
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
    """Producer id -> entry, and the transactions that ended in a replay, by their markers."""

    producers: Mapping[int, Producer] = field(default_factory=dict)
    completed: tuple[Transaction, ...] = ()


def from_entries(entries: Iterable[ProducerEntry]) -> ProducerState:
    """Return the state in a snapshot. An entry without a last offset comes from a marker that
    raised the epoch.
    """
    return ProducerState(
        {
            e.producer_id: Producer(
                epoch=e.epoch,
                last_data_offset=_or_none(e.last_offset),
                offset_delta=e.offset_delta if e.last_offset >= 0 else 0,
                last_sequence=e.last_sequence if e.last_offset >= 0 else _NO_SEQUENCE,
                timestamp=e.timestamp,
                coordinator_epoch=e.coordinator_epoch,
                current_txn_first_offset=_or_none(e.current_txn_first_offset),
            )
            for e in entries
        }
    )


def _or_none(offset: int) -> int | None:
    return offset if offset >= 0 else None


def expire(state: ProducerState, now: int, expiration_ms: int) -> ProducerState:
    """Drop the producers that are idle for `expiration_ms` at `now` and have no open transaction
    (S8.4 step 2).
    """
    if not state.producers:
        return state
    kept = {
        pid: producer
        for pid, producer in state.producers.items()
        if producer.current_txn_first_offset is not None
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
    control = (batches["attributes"] & CONTROL) != 0
    begin = 0
    for at in [*np.flatnonzero(control).tolist(), len(batches)]:
        _replay_data(producers, batches[begin:at])
        begin = at + 1
        if at == len(batches) or int(batches["record_count"][at]) == 0:
            continue
        marker = decoded.get(int(batches["base_offset"][at]))
        if marker is None:
            raise ValueError(
                f"the control batch at offset {int(batches['base_offset'][at])} was not decoded"
            )
        _replay_marker(producers, completed, marker)
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
    numbers = np.arange(len(order))
    last = np.ones(len(order), np.bool_)
    last[:-1] = np.diff(batches["producer_id"][order]) != 0
    producer = np.concatenate([[0], np.cumsum(last)[:-1]])
    begin = np.concatenate([[0], numbers[last][:-1] + 1])[producer]
    ended = np.maximum.accumulate(np.where(ends[order], numbers, -1))
    end = ended[last][producer]
    # The last end of the row's producer, or a row before all of its rows.
    end = np.where(end >= begin, end, begin - 1)
    first_end = ends[order] & (np.concatenate([[-1], ended[:-1]]) < begin)
    data = ~ends[order]
    transactional = data & ((batches["attributes"][order] & TRANSACTIONAL) != 0)
    following = np.minimum.accumulate(np.where(data, numbers, len(order))[::-1])[::-1]
    following = np.concatenate([following[1:], [len(order)]])
    preceding = np.concatenate(
        [[-1], np.maximum.accumulate(np.where(transactional, numbers, -1))[:-1]]
    )
    chosen = last | (numbers == end) | first_end
    chosen |= data & (numbers < end) & (following > end)
    chosen |= transactional & (numbers > end) & (preceding <= end)
    return np.sort(order[chosen])


def last_records(state: ProducerState) -> dict[int, tuple[int | None, int]]:
    """Return producer id -> (last data offset or None, epoch): what S5.4 protects."""
    return {
        pid: (producer.last_data_offset, producer.epoch)
        for pid, producer in state.producers.items()
    }


def undecided(state: ProducerState, high_watermark: int) -> list[Transaction]:
    """Return the known transactions that are open, or end at or above the high watermark."""
    opened = [
        Transaction(first_offset=first_offset, producer_id=pid, marker_offset=None)
        for pid, producer in state.producers.items()
        if (first_offset := producer.current_txn_first_offset) is not None
    ]
    ended = (t for t in state.completed if (t.marker_offset or 0) >= high_watermark)
    return [*opened, *ended]


def last_stable_offset(found: Iterable[Transaction], high_watermark: int) -> int:
    """min(high watermark, first offset of any undecided transaction) (S3.2)."""
    return min([high_watermark, *(transaction.first_offset for transaction in found)])


def _replay_data(producers: dict[int, Producer], batches: NDArray[np.void]) -> None:
    """Replay data batches without a marker between them.

    Only the last batch of each producer matters, and if none is open, the first of its transaction.
    """
    batches = batches[batches["producer_id"] > NO_PRODUCER]
    if not len(batches):
        return
    transactional = np.flatnonzero((batches["attributes"] & TRANSACTIONAL) != 0)
    pids, first = np.unique(batches["producer_id"][transactional], return_index=True)
    opened = dict(
        zip(pids.tolist(), batches["base_offset"][transactional[first]].tolist(), strict=True)
    )
    pids, from_end = np.unique(batches["producer_id"][::-1], return_index=True)
    for pid, row in zip(pids.tolist(), (len(batches) - 1 - from_end).tolist(), strict=True):
        before = producers.get(pid)
        first_offset = before.current_txn_first_offset if before is not None else None
        producers[pid] = Producer(
            epoch=int(batches["producer_epoch"][row]),
            last_data_offset=int(batches["last_offset"][row]),
            offset_delta=int(batches["last_offset"][row] - batches["base_offset"][row]),
            last_sequence=_last_sequence(batches[row]),
            timestamp=int(batches["max_timestamp"][row]),
            coordinator_epoch=-1 if before is None else before.coordinator_epoch,
            current_txn_first_offset=opened.get(pid) if first_offset is None else first_offset,
        )


def _last_sequence(batch: np.void) -> int:
    """Sequences wrap from 2^31-1 to 0."""
    base = int(batch["base_sequence"])
    if base == _NO_SEQUENCE:
        return _NO_SEQUENCE
    return (base + int(batch["last_offset"]) - int(batch["base_offset"])) % (_INT_MAX + 1)


def _replay_marker(
    producers: dict[int, Producer], completed: list[Transaction], marker: Marker
) -> None:
    before = producers.get(marker.producer_id, Producer(epoch=marker.producer_epoch))
    if before.current_txn_first_offset is not None:
        completed.append(
            Transaction(
                producer_id=marker.producer_id,
                first_offset=before.current_txn_first_offset,
                marker_offset=marker.offset,
            )
        )
    if before.epoch != marker.producer_epoch:
        # A new epoch drops the batches of the old one.
        before = Producer(epoch=marker.producer_epoch)
    producers[marker.producer_id] = replace(
        before,
        timestamp=marker.timestamp,
        coordinator_epoch=marker.coordinator_epoch,
        current_txn_first_offset=None,
    )
