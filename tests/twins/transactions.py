"""The twin of `transactions`: Kafka's `CleanedTransactionMetadata` (S4.1), copied batch by
batch.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field

from winnow.wire.control import ControlType


@dataclass(frozen=True, slots=True, order=True)
class Aborted:
    first_offset: int
    producer_id: int
    last_offset: int


@dataclass(slots=True)
class CleanedTransactions:
    """State of one round. Entries may be added again and again, as a spanning transaction's are for
    each segment.
    """

    waiting: list[Aborted] = field(default_factory=list)
    aborting: dict[int, Aborted] = field(default_factory=dict)
    observed: set[int] = field(default_factory=set)
    """Producers of `aborting` of which a batch was read."""
    committing: set[int] = field(default_factory=set)
    index: list[Aborted] = field(default_factory=list)
    """What was written to the transaction index of the output."""

    def add(self, transactions: Iterable[Aborted]) -> None:
        for transaction in transactions:
            heapq.heappush(self.waiting, transaction)

    def on_batch(self, *, producer_id: int, last_offset: int, transactional: bool) -> bool:
        """Whether a data batch is aborted."""
        self._take(last_offset)
        if not transactional:
            return False
        if producer_id in self.aborting:
            self.observed.add(producer_id)
            return True
        self.committing.add(producer_id)
        return False

    def on_control(self, *, producer_id: int, last_offset: int, kind: int | None) -> bool:
        """Whether a control batch can be discarded. `kind`: a `ControlType`, None if the batch is
        empty.
        """
        self._take(last_offset)
        if kind is None:
            return True
        if kind == ControlType.ABORT:
            transaction = self.aborting.pop(producer_id, None)
            if transaction is not None and producer_id in self.observed:
                self.observed.discard(producer_id)
                self.index.append(transaction)
                return False
            return True
        if kind == ControlType.COMMIT:
            had_data = producer_id in self.committing
            self.committing.discard(producer_id)
            return not had_data
        return False

    def _take(self, offset: int) -> None:
        while self.waiting and self.waiting[0].first_offset <= offset:
            transaction = heapq.heappop(self.waiting)
            if transaction.producer_id not in self.aborting:
                self.aborting[transaction.producer_id] = transaction
                self.observed.discard(transaction.producer_id)
