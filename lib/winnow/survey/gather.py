"""Gather a segment's producers and transactions from its batch headers (S4.1, S8.4)."""

from __future__ import annotations

from dataclasses import astuple, dataclass, field

import numpy as np

from winnow.advice import COPY
from winnow.errors import CorruptLogError, errors_inside
from winnow.logdir.indexes.txnindex import decode_txn_index
from winnow.policy.producers import Marker, traces
from winnow.policy.transaction_runs import EVENT, reduced
from winnow.policy.transactions import ABORTED, batch_kinds
from winnow.storage.segment_io import Bytes, load
from winnow.wire.batch import BATCH, CONTROL, TRANSACTIONAL, bits_of, has_producer
from winnow.wire.buffers import Array
from winnow.wire.control import ControlType
from winnow.wire.control_records import MAX_CONTROL_BYTES, ControlColumns, decode_control
from winnow.wire.inflate import inflate_parts
from winnow.wire.walk import first_bad_crc

NO_BATCHES = np.empty(0, BATCH)
"""One shared object: pickle preserves identity."""
NONE_ABORTED = np.empty(0, ABORTED)
_ENDS = (int(ControlType.ABORT), int(ControlType.COMMIT))


def decode_aborted(data: bytes, path: str, base_offset: int, end_offset: int | None) -> Array:
    """Decode a transaction index as `decode_txn_index` does, into rows of dtype ABORTED."""
    entries = decode_txn_index(data, path, base_offset=base_offset, end_offset=end_offset)
    return np.array([astuple(entry) for entry in entries], ABORTED)


def control_columns(buf: Bytes, rows: Array, path: str) -> ControlColumns:
    """Decode the control batches among `rows`, read from `buf`, after checking their CRCs.

    Raises CorruptLogError.
    """
    control = rows[(rows["attributes"] & CONTROL) != 0]
    wrong = first_bad_crc(buf, control)
    if wrong >= 0:
        raise CorruptLogError(
            "a control batch does not match its CRC",
            where=f"{path} at byte {int(control['position'][wrong])}",
            hint=COPY,
        )
    with errors_inside(path):
        parts = inflate_parts(buf, control, limit=MAX_CONTROL_BYTES)
        return ControlColumns.joined(decode_control(blocks) for blocks in parts)


def markers_of(rows: Array, columns: ControlColumns) -> dict[int, Marker]:
    """Return what control batches say that end a transaction, by base offset. `columns`: of
    `rows`, which are BATCH rows.
    """
    ends = np.isin(columns.type, _ENDS)
    markers = map(
        Marker,
        columns.coordinator_epoch[ends].tolist(),
        columns.timestamp[ends].tolist(),
        (columns.type[ends] == int(ControlType.ABORT)).tolist(),
    )
    return dict(zip(rows["base_offset"][ends].tolist(), markers, strict=True))


@dataclass(slots=True)
class Gatherer:
    """Receives the rows of a walk (dtype BATCH), piece by piece, in order. `buf` contains their
    batches.

    `producers_from`: gather the producers of batches that end at or above this offset; None: none.
    `log_start_offset`: decides which events are live; None: gather no events.
    """

    buf: Bytes
    path: str
    producers_from: int | None
    log_start_offset: int | None
    _last: Array = field(default_factory=lambda: NO_BATCHES)
    _last_ends: Array = field(default_factory=lambda: np.empty(0, np.bool_))
    _events: list[Array] = field(default_factory=list)

    def add(self, rows: Array) -> None:
        log_start = self.log_start_offset
        if log_start is None and self.producers_from is None:
            return
        if not bits_of(rows) & (TRANSACTIONAL | CONTROL):
            log_start = None
            if self.producers_from is None or not has_producer(rows).any():
                return
        kinds = batch_kinds(rows, control_columns(self.buf, rows, self.path).type)
        if self.producers_from is not None:
            later = rows["last_offset"] >= self.producers_from
            self._add_producers(rows[later], kinds[later])
        if log_start is not None:
            events = np.empty(len(rows), EVENT)
            events["producer_id"], events["offset"] = rows["producer_id"], rows["base_offset"]
            events["kind"], events["live"] = kinds, rows["last_offset"] >= log_start
            self._events.append(reduced(events))

    def _add_producers(self, rows: Array, kinds: Array) -> None:
        ends = np.isin(kinds, _ENDS)
        # A control batch that ends no transaction changes nothing. Nor does the rest of one that
        # did (S8.4).
        chosen = has_producer(rows) & (((rows["attributes"] & CONTROL) == 0) | ends)
        last = np.concatenate([self._last, rows[chosen]])
        last_ends = np.concatenate([self._last_ends, ends[chosen]])
        kept = traces(last, last_ends)
        self._last, self._last_ends = last[kept], last_ends[kept]

    def last_batches(self) -> tuple[Array, dict[int, Marker]]:
        """Return the batches that give each producer's state, and markers among them by offset."""
        if not len(self._last):
            return NO_BATCHES, {}
        ends = self._last[self._last_ends]
        for position, size in ends[["position", "size"]].tolist():
            load(self.buf, position, position + size)  # the walk may have released it
        return self._last, markers_of(ends, control_columns(self.buf, ends, self.path))

    def events(self) -> Array:
        """Return dtype EVENT: transactional data, and markers as in `transaction_runs.reduced`."""
        return reduced(np.concatenate([np.empty(0, EVENT), *self._events]))


def events_of(buf: Bytes, path: str, rows: Array, *, log_start_offset: int = 0) -> Array:
    """Return the events of some batches alone, dtype EVENT, without those of no producer: a broker
    sees no transactions in them. Raises CorruptLogError.
    """
    gatherer = Gatherer(buf, path, producers_from=None, log_start_offset=log_start_offset)
    gatherer.add(rows)
    events = gatherer.events()
    return np.asarray(events[has_producer(events)])
