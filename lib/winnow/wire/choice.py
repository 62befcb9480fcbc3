"""The input and the outcome of filtering, as values that Python passes to kernels."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from winnow.wire.buffers import RecordBlocks

DROP, COPY, REWRITE, EMPTY = 0, 1, 2, 3
"""Outcome of a batch (S5.6)."""


class Retention(IntEnum):
    """What may happen to a batch (S5.4)."""

    DELETE = 0
    """Drop the batch without reading its records."""
    DELETE_EMPTY = 1
    """Drop the batch if no record remains."""
    RETAIN_EMPTY = 2
    """Keep the header if no record remains: the batch is the last of its producer or of the log."""


class Era(NamedTuple):
    """How the broker's version of Kafka cleans."""

    horizons: bool = True
    """False before Kafka 3.1, which set the first delete horizons: batches get none."""
    converts: bool = True
    """False before 4.0: rewritten batches of v0 and v1 keep their format."""
    keep_deletes: bool = True
    """Whether the segment is young enough to keep its null values (S5.1). It decides in batches of
    v0 and v1, and without horizons in all batches.
    """


class Choice(NamedTuple):
    """The batches to filter, and which of their records to keep. All arrays are read-only."""

    blocks: RecordBlocks
    keep: NDArray[np.bool_]
    """Whether to keep each record, as its key decides: one item for each record of all batches, in
    log order. A kept tombstone may still expire.
    """
    retention: NDArray[np.int8]
    """A `Retention` for each batch."""
    cause: NDArray[np.bool_]
    """True for a batch that gets a delete horizon even without a tombstone (S5.4)."""
    now: int
    delete_retention_ms: int
    era: Era

    def leading(self, batches: int, records: int) -> Choice:
        """Return the choice for the leading batches. `records`: their number of records."""
        some = slice(batches)
        return self._replace(
            blocks=self.blocks.some(some),
            keep=self.keep[:records],
            retention=self.retention[some],
            cause=self.cause[some],
        )


class BatchActions(NamedTuple):
    """The outcome, which the kernels fill in: one item for each batch."""

    action: NDArray[np.int8]
    """DROP, COPY, REWRITE or EMPTY."""
    retained: NDArray[np.int32]
    """Number of records that the batch keeps."""
    tombstones: NDArray[np.int32]
    """Number of null values among these."""
    horizon: NDArray[np.int64]
    """The delete horizon of a rewritten batch in ms, below 0 for none."""
    first_timestamp: NDArray[np.int64]
    """Timestamp of the first retained record."""
    max_timestamp: NDArray[np.int64]
    """Largest timestamp of the retained records."""
    base_offset: NDArray[np.int64]
    """Offset of the first retained record of a v0 or v1 batch. Not filled in for v2, whose batches
    keep their first and last offset (S5.7).
    """
    last_offset: NDArray[np.int64]
    """Offset of the last retained record. Filled in as `base_offset` is."""

    def leading(self, batches: int) -> BatchActions:
        """Return the verdict on the leading batches."""
        some: list[Any] = [array[:batches] for array in self]
        return BatchActions(*some)
