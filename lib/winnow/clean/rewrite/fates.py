"""What transactions decide about the batches of one group while it is rewritten (S4.1, S5.4)."""

from __future__ import annotations

from typing import Any

import numpy as np

from winnow.clean.scan.chunks import changed
from winnow.clean.survey.gather import control_columns
from winnow.logdir.txnindex import AbortedTransaction
from winnow.policy.transactions import Carried, judge
from winnow.storage.segment_io import Bytes
from winnow.wire.batch import CONTROL, DELETE_HORIZON, TRANSACTIONAL

Array = np.ndarray[Any, np.dtype[Any]]
_Bits = np.ndarray[tuple[int], np.dtype[np.bool_]]


class BatchFates:
    """Goes through a group's batches in order, split by split, and remembers which transactions are
    under way.
    """

    def __init__(self, aborted: Array, carried: Carried, *, now: int) -> None:
        self._aborted = aborted
        self._carried = carried
        self._now = now
        self.discard: _Bits = np.empty(0, np.bool_)
        """Per batch of the split that was judged last: all its records go."""
        self.horizon_cause: _Bits = np.empty(0, np.bool_)
        """Likewise: a marker of which nothing is left, that is to be given a delete horizon if it
        has none.
        """
        self.indexed: list[AbortedTransaction] = []
        """What belongs in the transaction index of the group's output, so far."""

    def judge(self, buf: Bytes, batches: Array, path: str) -> None:
        """Of all `batches` (dtype BATCH) of one split, which lie in `buf`. Raises CorruptLogError."""
        if not (batches["attributes"] & (TRANSACTIONAL | CONTROL)).any():
            self.discard = self.horizon_cause = np.zeros(len(batches), np.bool_)
            return
        types = control_columns(buf, batches, path).type
        judged = judge(batches, types, aborted=self._aborted, before=self._carried)
        control = (batches["attributes"] & CONTROL) != 0
        expired = ((batches["attributes"] & DELETE_HORIZON) != 0) & (
            batches["base_timestamp"] <= self._now
        )
        self.discard = judged.discardable & (~control | expired)
        self.horizon_cause = judged.discardable & control
        self._carried = judged.after
        self.indexed += self._entries(judged.indexed, path)

    def _entries(self, markers: Array, path: str) -> list[AbortedTransaction]:
        chosen = self._aborted[np.isin(self._aborted["last_offset"], markers)]
        if len(chosen) != len(markers):
            expected = f"{len(markers)} entries of its ABORT markers in the transaction index"
            raise changed(expected=expected, found=f"{len(chosen)}", where=path)
        return [
            AbortedTransaction(*entry) for entry in np.sort(chosen, order="last_offset").tolist()
        ]
