"""Check the indexes of a segment against the batches of its log (S1.6, S1.7)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from winnow.errors import CorruptLogError
from winnow.logdir.batches import Piece
from winnow.logdir.indexes.index import (
    TIME_ENTRY_SIZE,
    check_each,
    decode_offset_index,
)
from winnow.wire.batch import is_wrapper
from winnow.wire.buffers import Array, Rows

COLUMNS = np.dtype(
    [
        ("position", np.int64),  # in the file
        ("base_offset", np.int64),
        ("last_offset", np.int64),
        ("least_named", np.int64),  # the lowest offset with which an index may name the batch
        ("max_timestamp", np.int64),
        ("leader_epoch", np.int32),
        ("wrapper", np.bool_),
    ]
)
"""What indexes are checked against: one row per batch, in file order."""


def columns_of(piece: Piece) -> Array:
    """Return rows of dtype COLUMNS."""
    columns = np.empty(len(piece.rows), COLUMNS)
    columns["position"] = piece.rows["position"] + piece.start
    for name in ("base_offset", "last_offset", "max_timestamp", "leader_epoch"):
        columns[name] = piece.rows[name]
    columns["least_named"] = least_named(piece.rows)
    columns["wrapper"] = is_wrapper(piece.rows)
    return columns


def least_named(rows: Rows) -> Array:
    """Return the lowest offset with which an index may name each batch, dtype int64: the last
    offset. A cleaner before 3.9.1 names a batch that it rewrote by the last record that it kept.
    """
    lost = (rows["record_count"] > 0) & (
        rows["record_count"] <= rows["last_offset"] - rows["base_offset"]
    )
    named: Array = np.where(lost, rows["base_offset"], rows["last_offset"])
    return named


def check_offset_index(
    data: bytes,
    path: str,
    batches: Array,
    *,
    base_offset: int,
    log_bytes: int,
    end_offset: int | None = None,
    sound_bytes: int | None = None,
) -> None:
    """Check the content of a `.index` file against `batches`, dtype COLUMNS, of a log of
    `log_bytes` bytes.

    Kafka 4 names the last offset of the batch at the position. Older versions wrote one entry per
    append of several batches, with the position of the first one and the offset of the last one. So
    the position must be the start of a batch, and the offset the last offset of that batch or of a
    later one before the next entry. Versions before 0.11 named the first offset inside a wrapper.
    A cleaner before 3.9.1 named the last record that it kept of the last batch of a buffer.

    Raises CorruptLogError for the first entry that is invalid or breaks this rule. `sound_bytes`:
    `batches` are all that begin below this position; entries above it are not checked.
    """
    entries = decode_offset_index(
        data, path, base_offset=base_offset, log_bytes=log_bytes, end_offset=end_offset
    )
    if sound_bytes is not None:
        entries = entries[entries["position"] < sound_bytes]
    if not len(entries):
        return
    starts, lasts = (np.ascontiguousarray(batches[name]) for name in ("position", "last_offset"))
    at = np.searchsorted(starts, entries["position"])
    ends = np.searchsorted(lasts, entries["offset"])
    # An extra row stands for "beyond the last batch".
    least = np.append(batches["least_named"], np.iinfo(np.int64).max)
    starts = np.append(starts, -1)
    check_each(starts[at] == entries["position"], entries, path, "the position of a batch")
    wrapper = np.append(batches["wrapper"], [False])
    named = (least[ends] <= entries["offset"]) | ((ends == at) & wrapper[at])
    check_each(named, entries, path, "the last offset of a batch")
    same_append = (ends >= at) & (ends < np.append(at[1:], len(batches)))
    check_each(same_append, entries, path, "the last offset of the batch there or of a later one")


def time_index_faults(
    entries: Array, batches: Array, path: str, *, complete: bool
) -> Iterator[CorruptLogError]:
    """Yield what is wrong with TIME_ENTRY rows. Each must name a batch whose timestamp is the
    largest so far (S1.7).

    Kafka 4 names the last offset of that batch, older versions the offset of a record in it.
    `batches`: dtype COLUMNS. `complete`: these are all batches of the log, and the index has the
    entry that is added when a segment is closed.
    """
    lasts, stamps = batches["last_offset"], batches["max_timestamp"]
    # A wrapper's header does not say where it begins, only that it is after the previous batch.
    firsts = np.where(
        batches["wrapper"], np.append(np.int64(-1), lasts)[:-1] + 1, batches["base_offset"]
    )
    running = np.maximum.accumulate(stamps) if len(stamps) else stamps
    at = np.searchsorted(lasts, entries["offset"])
    for number, (batch, timestamp, offset) in enumerate(
        zip(at.tolist(), entries["timestamp"].tolist(), entries["offset"].tolist(), strict=True)
    ):
        if batch == len(lasts):
            problem = f"a time index entry beyond what can be read of the log: offset {offset}"
        elif not firsts[batch] <= offset:
            problem = f"a time index entry that names no batch: offset {offset}"
        elif stamps[batch] != timestamp:
            problem = f"a time index entry with a wrong timestamp: {timestamp}, not {stamps[batch]}"
        elif running[batch] != timestamp:
            problem = f"a time index entry that is not the largest timestamp so far: {timestamp}"
        else:
            continue
        position = number * TIME_ENTRY_SIZE
        yield CorruptLogError(problem, where=f"{path} at byte {position}", position=position)
    last = int(entries["timestamp"][-1]) if len(entries) else -1
    if complete and len(running) and last < running[-1]:
        yield CorruptLogError(
            f"the last time index entry is not the segment's largest timestamp: {last}, not "
            f"{running[-1]}",
            where=path,
            position=max(len(entries) - 1, 0) * TIME_ENTRY_SIZE,
        )
