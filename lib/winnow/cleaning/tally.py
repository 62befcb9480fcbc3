"""Count why records are dropped while a group is rewritten."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from winnow.cleaning.result import TOMBSTONE_AGES_MS, RecordsRemoved
from winnow.wire.batch import CONTROL
from winnow.wire.buffers import Rows


def removed_records(
    rows: NDArray[Any],
    survives: NDArray[np.bool_],
    discard: NDArray[np.bool_],
    *,
    records_in: int,
    records_out: int,
) -> RecordsRemoved:
    """Return the records removed from filtered batches, dtype BATCH.

    `survives`: per record, whether its key, or a marker's transaction, keeps it. It is never true
    in a batch to `discard`. A survivor that is dropped anyway is a null value whose delete horizon
    has passed (S5.5).
    """
    counts = rows["record_count"][discard]
    control = (rows["attributes"][discard] & CONTROL) != 0
    markers = int(counts[control].sum())
    aborted = int(counts[~control].sum())
    tombstones = int(survives.sum()) - records_out
    superseded = records_in - records_out - aborted - markers - tombstones
    return RecordsRemoved(
        superseded=superseded, tombstones=tombstones, aborted=aborted, markers=markers
    )


_LIMITS = np.array(TOMBSTONE_AGES_MS, np.int64)


def none_of_any_age() -> NDArray[np.int64]:
    return np.zeros(len(_LIMITS) + 1, np.int64)


def by_age(batches: Rows, tombstones: NDArray[np.integer[Any]], now: int) -> NDArray[np.int64]:
    """Add up the `tombstones` of each batch, or their bytes, as `PartitionResult.tombstones` has
    them.

    A batch is as old as its newest record. One without a timestamp counts as the oldest.
    """
    counts = none_of_any_age()
    some = np.flatnonzero(tombstones)
    ages = now - np.maximum(batches["max_timestamp"][some], 0)
    np.add.at(counts, np.searchsorted(_LIMITS, ages, side="right"), tombstones[some])
    return counts
