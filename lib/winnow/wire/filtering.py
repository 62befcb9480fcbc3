"""Apply a decision per record to batches and return the batches that remain, as Kafka's cleaner
writes them (S5.5 to S5.7).

A batch is dropped, copied byte for byte, rewritten, or reduced to an empty header. Other code
decides which keys survive (`keep`), and what may happen to a batch without records (`Retention`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from winnow.wire.batch import BATCH, CODEC_MASK, MAX_MAGIC, Codec
from winnow.wire.buffers import Bytes, Rows, as_bytes, read_only
from winnow.wire.codecs import compress
from winnow.wire.kernels.codec import compress_many
from winnow.wire.kernels.filter import (
    COPY,
    DROP,
    EMPTY,
    REWRITE,
    Choice,
    Verdict,
    assemble,
    rewrite_compressed,
)
from winnow.wire.kernels.headers import LEGACY, bits_of, largest_inflated, largest_size
from winnow.wire.legacy import OldBatches, retained_only
from winnow.wire.record_faults import check_fault
from winnow.wire.records import record_total
from winnow.wire.sink import Sink

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from winnow.wire.inflate import RecordBlocks


_Item = TypeVar("_Item", bound=np.generic)
_MAX_LONG = 2**63 - 1
_PAYLOAD_ROOM = 128
"""Bytes that a codec may add to a batch, besides one for each 128."""
AS_THEY_ARE = -(2**63)
"""Value of `now` for callers that remove records but leave delete horizons to the cleaner: no
horizon has passed, and none is set.
"""


class Retention(IntEnum):
    """What may happen to a batch (S5.4)."""

    DELETE = 0
    """Drop the batch without reading its records."""
    DELETE_EMPTY = 1
    """Drop the batch if no record remains."""
    RETAIN_EMPTY = 2
    """Keep the header if no record remains: the batch is the last of its producer or of the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Era:
    """What depends on the version of Kafka."""

    horizons: bool = True
    """False before 3.1, which neither sets delete horizons nor knows any."""
    converts: bool = True
    """False before 4.0: what remains of v0 and v1 keeps its format."""
    keep_deletes: bool = True
    """Whether null values are kept if `keep` says so, in batches of v0 and v1, and without horizons
    in all (S5.1): the segment is young enough.
    """


LATEST = Era()


@dataclass(frozen=True, slots=True, kw_only=True)
class Filtered:
    """Whole batches, ready to be appended to a segment."""

    data: Bytes
    batches: Rows
    """Rows of dtype BATCH, one per output batch; `position` counts in `data`."""
    records_in: int
    records_out: int
    tombstones: NDArray[np.int32]
    """Number of records with a null value in each output batch."""
    copied: int
    """Batches by outcome. Emptied ones keep only their header."""
    rewritten: int
    emptied: int
    dropped: int


_COUNTS = ("records_in", "records_out", "copied", "rewritten", "emptied", "dropped")


def filter_batches(
    blocks: RecordBlocks,
    keep: NDArray[np.bool_],
    retention: NDArray[np.int8],
    *,
    now: int,
    delete_retention_ms: int,
    horizon_cause: NDArray[np.bool_] | None = None,
    era: Era = LATEST,
) -> Filtered:
    """Filter batches. What remains of v0 and v1 is written as v2 if the version converts them
    (S2.5).

    `keep`: one item per record over all batches: whether its key allows it to stay; True for
    records of control batches. A null value is dropped anyway if its batch's delete horizon has
    passed (S5.5). `retention`: values of `Retention`, one per batch. `horizon_cause`: batches that
    get a delete horizon even without a tombstone, if they have none: markers of transactions
    without remaining records (S5.4). `now` and `delete_retention_ms` in ms, int64. With
    `AS_THEY_ARE` for `now`, a batch that loses no record may be rewritten all the same.

    `era`: what depends on the version.

    Raises CorruptLogError for a malformed batch. Records are not checked in batches to DELETE and
    in batches that keep no record.
    """
    if not (
        (0 <= now <= _MAX_LONG or now == AS_THEY_ARE) and 0 <= delete_retention_ms <= _MAX_LONG
    ):
        raise ValueError(f"expected times of 0 to 2^63-1 ms, found {now} and {delete_retention_ms}")
    rows = blocks.rows
    total = record_total(blocks)
    legacy = bool(bits_of(rows) & LEGACY)
    if legacy and not era.converts:
        return _by_format(
            blocks,
            keep,
            retention,
            horizon_cause,
            now=now,
            delete_retention_ms=delete_retention_ms,
            era=era,
        )
    cause = np.zeros(len(rows), np.bool_) if horizon_cause is None else horizon_cause
    choice = Choice(
        rows,
        blocks.begin,
        blocks.end,
        blocks.compressed,
        _read_only(keep, np.bool_, total),
        _retentions(retention, len(rows)),
        _read_only(cause, np.bool_, len(rows)),
        now,
        delete_retention_ms,
        era.horizons,
        not era.horizons and not era.keep_deletes,
    )
    if legacy:
        inflated, end, rows, keep = retained_only(
            blocks.inflated,
            blocks.begin,
            blocks.end,
            rows,
            choice.keep,
            choice.retention,
            retain_deletes=era.keep_deletes,
        )
        blocks = replace(blocks, inflated=inflated, end=end, rows=rows)
        keep = _read_only(keep, np.bool_, record_total(blocks))
        choice = choice._replace(rows=rows, end=blocks.end, keep=keep)
    verdict = _no_verdict(len(rows))
    payloads, starts = _compressed_payloads(blocks, choice, verdict)
    areas = blocks.compressed, blocks.begin, blocks.end
    # Unused parts of an array are never touched.
    out = np.empty(largest_size(rows, *areas, read_only(np.diff(starts))), np.uint8)
    out_rows = np.empty(len(rows), BATCH)
    fault, i, position, count, size = assemble(
        blocks.raw, choice, verdict, payloads, starts, out, out_rows
    )
    check_fault((fault, i, position), rows, blocks.begin)
    return _summary(as_bytes(out[:size]), out_rows[:count], total, verdict)


def _by_format(
    blocks: RecordBlocks,
    keep: NDArray[np.bool_],
    retention: NDArray[np.int8],
    horizon_cause: NDArray[np.bool_] | None,
    *,
    now: int,
    delete_retention_ms: int,
    era: Era,
) -> Filtered:
    """Filter runs of batches of v0 and v1, which keep their format, and of v2."""
    rows = blocks.rows
    old = rows["magic"] < MAX_MAGIC
    ends = np.concatenate([[0], np.cumsum(rows["record_count"], dtype=np.int64)])
    edges = [0, *(np.flatnonzero(np.diff(old)) + 1).tolist(), len(rows)]
    parts: list[Filtered] = []
    for start, end in pairwise(edges):
        some = slice(start, end)
        run = blocks.some(some)
        kept = keep[ends[start] : ends[end]]
        if old[start]:
            parts.append(_kept_format(run, kept, retention[some], era))
        else:
            cause = None if horizon_cause is None else horizon_cause[some]
            parts.append(
                filter_batches(
                    run,
                    kept,
                    retention[some],
                    horizon_cause=cause,
                    now=now,
                    delete_retention_ms=delete_retention_ms,
                    era=era,
                )
            )
    batches = np.concatenate([part.batches for part in parts])
    before = np.cumsum([0, *(part.data.nbytes for part in parts)])
    batches["position"] += np.repeat(before[:-1], [len(part.batches) for part in parts])
    return Filtered(
        data=as_bytes(np.concatenate([part.data for part in parts])),
        batches=batches,
        tombstones=np.concatenate([part.tombstones for part in parts]),
        **{name: sum(getattr(part, name) for part in parts) for name in _COUNTS},
    )


def _kept_format(
    blocks: RecordBlocks, keep: NDArray[np.bool_], retention: NDArray[np.int8], era: Era
) -> Filtered:
    kept = OldBatches(
        blocks,
        _read_only(keep, np.bool_, len(keep)),
        _retentions(retention, len(retention)),
        retain_deletes=era.keep_deletes,
    )
    return _summary(kept.data, kept.rows, len(keep), kept)


def _retentions(array: NDArray[np.int8], size: int) -> NDArray[np.int8]:
    retentions = _read_only(array, np.int8, size)
    if size and not 0 <= retentions.min() <= retentions.max() <= Retention.RETAIN_EMPTY:
        raise ValueError("retention holds a value that is not a Retention")
    return retentions


def _read_only(array: NDArray[_Item], dtype: type[_Item], size: int) -> NDArray[_Item]:
    if array.dtype != dtype or array.shape != (size,):
        raise ValueError(
            f"expected {size} of {dtype.__name__}, found {array.dtype} with shape {array.shape}"
        )
    return read_only(array)


def _no_verdict(size: int) -> Verdict:
    """Return the verdict before the kernels fill it in: they leave out batches to delete."""
    return Verdict(
        np.full(size, DROP, np.int8),
        np.zeros(size, np.int32),
        np.zeros(size, np.int32),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
    )


def _compressed_payloads(
    blocks: RecordBlocks, choice: Choice, verdict: Verdict
) -> tuple[Bytes, NDArray[np.int64]]:
    """Compress the records of rewritten compressed batches. Return the bytes, and n + 1 starts in
    them.

    Fills in all of the verdict for compressed batches.
    """
    rows = choice.rows
    starts = np.zeros(len(rows) + 1, np.int64)
    if not blocks.compressed.any():
        return as_bytes(b""), starts
    most = largest_inflated(rows, blocks.compressed, blocks.begin, blocks.end)
    records = np.empty(most, np.uint8)
    record_starts = np.empty(len(rows) + 1, np.int64)
    found = rewrite_compressed(blocks.inflated, choice, verdict, records, record_starts)
    check_fault(found, rows, blocks.begin)
    chosen = (verdict.action == REWRITE) & blocks.compressed
    if not chosen.any():
        return as_bytes(b""), starts
    codecs = (rows["attributes"] & CODEC_MASK).astype(np.int64)
    if not codecs[chosen].any():  # v0 or v1, which are in `inflated` because they were converted
        return as_bytes(records[: record_starts[-1]]), record_starts
    left, sizes, total = np.flatnonzero(chosen), starts[1:], int(record_starts[-1])
    sink = Sink(total + total // 128 + _PAYLOAD_ROOM * len(left))
    while len(left):
        done = compress_many(sink, as_bytes(records), record_starts, codecs, left, sizes)
        if not done:
            i, done = int(left[0]), 1
            payload = compress(
                Codec(int(codecs[i])), records[record_starts[i] : record_starts[i + 1]]
            )
            sink.begin(len(payload))
            sink.write(payload)
            sizes[i] = len(payload)
        left = left[done:]
    return sink.data(), np.cumsum(starts)


def _summary(data: Bytes, out_rows: Rows, total: int, verdict: Verdict | OldBatches) -> Filtered:
    return Filtered(
        data=data,
        batches=out_rows,
        records_in=total,
        records_out=int(verdict.retained.sum()),
        tombstones=verdict.tombstones[verdict.action != DROP],
        copied=int((verdict.action == COPY).sum()),
        rewritten=int((verdict.action == REWRITE).sum()),
        emptied=int((verdict.action == EMPTY).sum()),
        dropped=int((verdict.action == DROP).sum()),
    )
