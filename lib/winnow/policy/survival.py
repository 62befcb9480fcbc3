"""What happens to a batch as a whole, before any of its records is checked (S5.4)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from winnow.policy.versions import EmptiedBatch, Rules
from winnow.wire.batch import CONTROL, has_producer

DELETE = 0
"""Dropped, whatever its records."""
DELETE_EMPTY = 1
"""Dropped if none of its records is kept."""
RETAIN_EMPTY = 2
"""Kept, as a header alone if none of its records is kept."""


def emptied_end(rules: Rules, *, end_offset: int, high_watermark: int) -> int | None:
    """Return the offset at which a batch that keeps no record must end to be kept as a header
    (S5.4). None: there is no such batch. `end_offset`: U' of the round.
    """
    return {
        EmptiedBatch.END_OF_ROUND: end_offset,
        EmptiedBatch.HIGH_WATERMARK: high_watermark,
        EmptiedBatch.NONE: None,
    }[rules.emptied_batch]


def batch_retention(
    batches: NDArray[np.void],
    *,
    last_records: Mapping[int, tuple[int | None, int]],
    emptied_end: int | None,
    discard: NDArray[np.bool_] | None = None,
) -> NDArray[np.int8]:
    """Return one code per batch of `batches` (dtype BATCH): DELETE, DELETE_EMPTY or RETAIN_EMPTY.

    `last_records`: see `winnow.policy.producers.last_records`. `emptied_end`: see `emptied_end`.
    `discard`: true for the batches whose records are all dropped (`discardRecords` of S5.4: aborted
    data, markers past their horizon).
    """
    codes = np.full(len(batches), DELETE_EMPTY, dtype=np.int8)
    if discard is not None:
        codes[discard] = DELETE
    protected = np.zeros(len(batches), np.bool_)
    if emptied_end is not None:
        protected |= batches["last_offset"] + 1 == emptied_end
    if last_records:
        protected |= _last_of_producer(batches, last_records)
    codes[protected] = RETAIN_EMPTY
    return codes


def _last_of_producer(
    batches: NDArray[np.void], last_records: Mapping[int, tuple[int | None, int]]
) -> NDArray[np.bool_]:
    """Mark batches from which a loading broker learns a producer's last sequence or epoch."""
    pids = np.array(sorted(last_records), dtype=np.int64)
    records = [last_records[pid] for pid in pids.tolist()]
    offsets = np.array([-1 if last is None else last for last, _ in records], dtype=np.int64)
    epochs = np.array([epoch for _, epoch in records], dtype=np.int64)
    row = np.minimum(np.searchsorted(pids, batches["producer_id"]), len(pids) - 1)
    known = (pids[row] == batches["producer_id"]) & has_producer(batches)
    control = (batches["attributes"] & CONTROL) != 0
    by_offset = (offsets[row] >= 0) & (batches["last_offset"] == offsets[row])
    by_marker = (offsets[row] < 0) & control & (batches["producer_epoch"] == epochs[row])
    last: NDArray[np.bool_] = known & (by_offset | by_marker)
    return last
