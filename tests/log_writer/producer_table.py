"""A broker's state of the producers of a log while it appends (S8.4, `ProducerStateManager`).

The table is updated in place, batch by batch, unlike the state that a loading broker rebuilds.
Entries come in the order of Java's HashMap, so that snapshots are equal to the byte.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from winnow.errors import CorruptLogError
from winnow.state import ProducerEntry
from winnow.wire.batch import CONTROL, NO_PRODUCER, TRANSACTIONAL
from winnow.wire.buffers import Buffer, Rows
from winnow.wire.control_records import MAX_CONTROL_BYTES
from winnow.wire.inflate import inflate
from winnow.wire.plain import read_records

MARKER_KEY = struct.Struct(">hh")
"""version, type (S2.3)"""
MARKER_VALUE = struct.Struct(">hi")
"""version, coordinator epoch"""
ABORT, COMMIT = 0, 1

_NONE = -1
_SEQUENCES = 2**31
_FIRST_TABLE_SIZE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedTransaction:
    """An entry of the transaction index (S1.8). `last_offset` is that of the ABORT marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


@dataclass(frozen=True, slots=True)
class _Completed:
    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class ProducerTable:
    """Producer id -> what its last batch and its last marker left, and the transactions that are
    open.
    """

    def __init__(self, entries: Iterable[ProducerEntry] = ()) -> None:
        self._entries = {entry.producer_id: entry for entry in entries}
        self._table_size = _FIRST_TABLE_SIZE
        self._grow()
        self._open = {
            entry.current_txn_first_offset: entry.producer_id
            for entry in self._entries.values()
            if entry.current_txn_first_offset != _NONE
        }
        """First offset -> producer id."""

    @property
    def first_open_offset(self) -> int | None:
        """First offset of the oldest transaction that is neither committed nor aborted."""
        return min(self._open, default=None)

    def next_sequence(self, producer_id: int, epoch: int) -> int:
        """What a client of this id and epoch would send next: 0, or what follows its last batch."""
        entry = self._entries.get(producer_id)
        if entry is None or entry.epoch != epoch or entry.last_sequence == _NONE:
            return 0
        return (entry.last_sequence + 1) % _SEQUENCES

    def append(self, data: Buffer, rows: Rows) -> list[AbortedTransaction]:
        """Takes the batches `rows` of `data`, all of one append, and returns the aborts among them.

        Raises CorruptLogError, with nothing changed, for a control batch of a producer that is no
        marker, and for a batch outside of its producer's open transaction: Kafka refuses them, too.
        """
        updates: dict[int, ProducerEntry] = {}
        opened: dict[int, int] = {}
        completed: list[_Completed] = []
        for number in (rows["producer_id"] > NO_PRODUCER).nonzero()[0].tolist():
            row = rows[number]
            pid = int(row["producer_id"])
            # As Kafka does it: the append starts from what was, without its batch.
            before = updates.get(pid) or _without_batch(self._entries.get(pid) or _unknown(pid))
            # A marker without its record changes nothing, but its producer is known from then on.
            after = before
            if not int(row["attributes"]) & CONTROL:
                after = _after_data(before, row)
                if before.current_txn_first_offset == _NONE != after.current_txn_first_offset:
                    opened[after.current_txn_first_offset] = pid
            elif int(row["record_count"]) > 0:
                after, done = _after_marker(before, row, data, rows[number : number + 1])
                completed += done
            updates[pid] = after
        # HashMap.computeIfAbsent collected them: it puts a new key before those that share its
        # slot, and grows one entry later than `put` does.
        for pid in _java_order(reversed(updates), _table_size(len(updates) - 1)):
            self._entries[pid] = _merged(self._entries.get(pid), updates[pid])
        self._grow()
        self._open |= opened
        return self._complete(completed)

    def entries(self) -> list[ProducerEntry]:
        """All producers, in the order in which Kafka writes them to a snapshot."""
        return [self._entries[pid] for pid in _java_order(self._entries, self._table_size)]

    def _complete(self, completed: list[_Completed]) -> list[AbortedTransaction]:
        aborts = []
        for done in completed:
            others = (first for first, pid in self._open.items() if pid != done.producer_id)
            if done.aborted:
                aborts.append(
                    AbortedTransaction(
                        producer_id=done.producer_id,
                        first_offset=done.first_offset,
                        last_offset=done.last_offset,
                        last_stable_offset=min(others, default=done.last_offset + 1),
                    )
                )
            self._open.pop(done.first_offset, None)
        return aborts

    def _grow(self) -> None:
        # A HashMap never shrinks.
        self._table_size = max(self._table_size, _table_size(len(self._entries)))


def _unknown(producer_id: int) -> ProducerEntry:
    return ProducerEntry(
        producer_id=producer_id,
        epoch=_NONE,
        last_sequence=_NONE,
        last_offset=_NONE,
        offset_delta=0,
        timestamp=_NONE,
        coordinator_epoch=_NONE,
        current_txn_first_offset=_NONE,
    )


def _without_batch(entry: ProducerEntry) -> ProducerEntry:
    return replace(entry, last_sequence=_NONE, last_offset=_NONE, offset_delta=0)


def _merged(current: ProducerEntry | None, update: ProducerEntry) -> ProducerEntry:
    """An append without a data batch of the epoch it ends in keeps the one known before, if that is
    of this epoch.
    """
    if current is None or update.last_offset != _NONE or current.epoch != update.epoch:
        return update
    return replace(
        update,
        last_sequence=current.last_sequence,
        last_offset=current.last_offset,
        offset_delta=current.offset_delta,
    )


def _after_data(before: ProducerEntry, row: np.void) -> ProducerEntry:
    base, last, sequence = (
        int(row["base_offset"]),
        int(row["last_offset"]),
        int(row["base_sequence"]),
    )
    transactional = bool(int(row["attributes"]) & TRANSACTIONAL)
    first = before.current_txn_first_offset
    if first != _NONE and not transactional:
        raise CorruptLogError(
            "a batch outside of its producer's transaction",
            expected=f"a transactional batch: producer {before.producer_id} has one open since "
            f"offset {first}",
            found="one that is not",
            where=f"offset {base}",
            hint="End the transaction by a marker first.",
        )
    return replace(
        before,
        epoch=int(row["producer_epoch"]),
        last_sequence=_NONE if sequence == _NONE else (sequence + last - base) % _SEQUENCES,
        last_offset=last,
        offset_delta=last - base,
        timestamp=int(row["max_timestamp"]),
        current_txn_first_offset=base if first == _NONE and transactional else first,
    )


def _after_marker(
    before: ProducerEntry, row: np.void, data: Buffer, batch: Rows
) -> tuple[ProducerEntry, list[_Completed]]:
    record = read_records(inflate(data, batch, limit=MAX_CONTROL_BYTES).area(0), row)[0]
    key, value = record.key or b"", record.value or b""
    kind = MARKER_KEY.unpack_from(key)[1] if len(key) >= MARKER_KEY.size else None
    if kind not in {ABORT, COMMIT} or len(value) < MARKER_VALUE.size:
        raise CorruptLogError(
            "a control batch of a producer ends no transaction",
            expected="an ABORT or COMMIT marker",
            found=f"key {key.hex()}, value {value.hex()}",
            where=f"offset {record.offset}",
        )
    epoch = int(row["producer_epoch"])
    first = before.current_txn_first_offset
    done = (
        []
        if first == _NONE
        else [_Completed(before.producer_id, first, record.offset, kind == ABORT)]
    )
    kept = before if before.epoch == epoch else _without_batch(before)
    after = replace(
        kept,
        epoch=epoch,
        timestamp=record.timestamp,
        coordinator_epoch=MARKER_VALUE.unpack_from(value)[1],
        current_txn_first_offset=_NONE,
    )
    return after, done


def _table_size(count: int) -> int:
    """Slots of a HashMap that came to hold `count` entries: doubled beyond three quarters."""
    size = _FIRST_TABLE_SIZE
    while 4 * count > 3 * size:
        size *= 2
    return size


def _java_order(producer_ids: Iterable[int], table_size: int) -> list[int]:
    """The order of `Long` keys in Java's HashMap: by slot, and in a slot by insertion (unless eight
    or more share it).
    """

    def slot(producer_id: int) -> int:
        code = (producer_id ^ producer_id >> 32) & 0xFFFFFFFF
        return (code ^ code >> 16) & (table_size - 1)

    return sorted(producer_ids, key=slot)
