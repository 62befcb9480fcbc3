"""What filtering is given, and what it finds: values that Python and kernels share."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

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
    """What depends on the version of Kafka."""

    horizons: bool = True
    """False before 3.1, which neither sets delete horizons nor knows any."""
    converts: bool = True
    """False before 4.0: what remains of v0 and v1 keeps its format."""
    keep_deletes: bool = True
    """Whether null values are kept if `keep` says so, in batches of v0 and v1, and without horizons
    in all (S5.1): the segment is young enough.
    """


class Choice(NamedTuple):
    """The batches to filter, and what is decided about them. All is read-only."""

    blocks: RecordBlocks
    keep: NDArray[np.bool_]
    """One item per record over all batches: whether its key allows it to stay."""
    retention: NDArray[np.int8]
    """One item per batch: a `Retention`."""
    cause: NDArray[np.bool_]
    """One item per batch: whether it gets a delete horizon even without a tombstone."""
    now: int
    delete_retention_ms: int
    era: Era


class Verdict(NamedTuple):
    """The outcome per batch, which the kernels fill in."""

    action: NDArray[np.int8]
    """DROP, COPY, REWRITE or EMPTY."""
    retained: NDArray[np.int32]
    tombstones: NDArray[np.int32]
    """Null values among the retained records."""
    horizon: NDArray[np.int64]
    """The delete horizon of a rewritten batch in ms, below 0 for none."""
    first_timestamp: NDArray[np.int64]
    """Of the retained records, as is the largest."""
    max_timestamp: NDArray[np.int64]
    base_offset: NDArray[np.int64]
    """Of a rewritten batch of v0 or v1: it begins and ends with its retained records, unlike one of
    v2 (S5.7), for which this is not filled in.
    """
    last_offset: NDArray[np.int64]
