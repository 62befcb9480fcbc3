"""How old the tombstones are that a cleaning leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from winnow.clean.result import TOMBSTONE_AGES_MS
from winnow.wire.buffers import Rows

_LIMITS = np.array(TOMBSTONE_AGES_MS, np.int64)


def none_of_any_age() -> NDArray[np.int64]:
    return np.zeros(len(_LIMITS) + 1, np.int64)


def by_age(batches: Rows, tombstones: NDArray[np.integer[Any]], now: int) -> NDArray[np.int64]:
    """`tombstones` of each batch, or their bytes, added up as `PartitionResult.tombstones` has
    them.

    A batch is as old as its newest record; without a timestamp it is of the oldest.
    """
    ages = now - np.maximum(batches["max_timestamp"], 0)
    counts = none_of_any_age()
    np.add.at(counts, np.searchsorted(_LIMITS, ages, side="right"), tombstones)
    return counts
