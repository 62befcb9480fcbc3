"""Judge batches by their transactions: which lose all their records (S4.1, S5.4, S5.8)."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from winnow.logdir.indexes.txnindex import AbortedTransaction
from winnow.policy.transactions import Carried, judge
from winnow.scan.chunks import changed
from winnow.scan.job import PartitionJob
from winnow.storage.segment_io import Bytes
from winnow.survey.gather import control_columns
from winnow.wire.batch import CONTROL, DELETE_HORIZON, TRANSACTIONAL
from winnow.wire.buffers import Array
from winnow.wire.choice import Era

Bits: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.bool_]]"


class BatchFates:
    """Judges a group's batches in order, split by split. Tracks the open transactions.

    `aborted` and `markers` count the records of dropped data batches and of dropped control
    batches, `markers_left` those of control batches that stay. `indexed`: the entries for the
    transaction index of the output, so far.
    """

    def __init__(self, job: PartitionJob, carried: Carried, *, now: int) -> None:
        self._aborted_transactions = job.aborted
        self._carried = carried
        self._now = now
        self.aborted = self.markers = self.markers_left = 0
        self.indexed: list[AbortedTransaction] = []

    def judge(
        self, buf: Bytes, batches: Array, path: str, *, bits: int, era: Era
    ) -> tuple[Bits, Bits]:
        """Judge all `batches` (dtype BATCH) of one split. `buf` holds their bytes, and `bits` is
        what `bits_of` returns for them. Raises CorruptLogError.

        Return, per batch, whether all its records are dropped, and whether it is a marker without
        remaining data, which gets a delete horizon.
        """
        none = np.zeros(len(batches), np.bool_)
        if not bits & (TRANSACTIONAL | CONTROL):
            return none, none
        types = control_columns(buf, batches, path).type
        judged = judge(batches, types, aborted=self._aborted_transactions, before=self._carried)
        control = (batches["attributes"] & CONTROL) != 0
        if era.horizons:
            expired = ((batches["attributes"] & DELETE_HORIZON) != 0) & (
                batches["base_timestamp"] <= self._now
            )
        else:
            expired = np.full(len(batches), not era.keep_deletes)
        discard = judged.discardable & (~control | expired)
        self.aborted += _records(batches, discard & ~control)
        self.markers += _records(batches, discard & control)
        self.markers_left += _records(batches, control & ~discard)
        self._carried = judged.after
        known, ends = self._aborted_transactions, judged.indexed
        chosen = np.sort(known[np.isin(known["last_offset"], ends)], order="last_offset")
        if len(chosen) != len(ends):
            expected = f"{len(ends)} entries of its ABORT markers in the transaction index"
            raise changed(expected=expected, found=f"{len(chosen)}", where=path)
        self.indexed += (AbortedTransaction(*entry) for entry in chosen.tolist())
        return discard, judged.discardable & control if era.horizons else none


def _records(batches: Array, some: Bits) -> int:
    return int(batches["record_count"][some].sum())
