"""Apply a decision per record to batches and return the batches that remain, as Kafka's cleaner
writes them (S5.5 to S5.7).

A batch is dropped, copied byte for byte, rewritten, or reduced to an empty header. Other code
decides which keys survive (`keep`), and what may happen to a batch without records (`Retention`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NotRequired, TypedDict, TypeVar, Unpack

import numpy as np

from winnow.wire.batch import BATCH, CODEC_MASK, HEADER_V2_SIZE, LEGACY, Codec, bits_of
from winnow.wire.buffers import Bytes, RecordBlocks, Rows, as_bytes, read_only
from winnow.wire.choice import COPY, DROP, EMPTY, REWRITE, BatchActions, Choice, Era, Retention
from winnow.wire.codecs import compress
from winnow.wire.kernels.c_codecs import c_function
from winnow.wire.kernels.codec import compress_many
from winnow.wire.kernels.compressed import AREA_BYTES, OPENED, filter_compressed, opening_of
from winnow.wire.kernels.filter import MOST_GROWTH, assemble
from winnow.wire.kernels.writing import GROWTH
from winnow.wire.record_faults import Fault, check_fault, record_error
from winnow.wire.records import record_total
from winnow.wire.sink import Sink
from winnow.wire.walk import walk_batches

if TYPE_CHECKING:
    from numpy.typing import NDArray

_Item = TypeVar("_Item", bound=np.generic)
_MAX_LONG = 2**63 - 1
_PAYLOAD_ROOM = 128
"""Bytes that a codec may add to a batch, besides one for each 128."""
AS_THEY_ARE = -(2**63)
"""Value of `now` for callers that remove records but leave delete horizons to the cleaner: no
horizon has passed, and none is set.
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

    @property
    def batches_in(self) -> int:
        """Batches that were filtered, whatever became of them."""
        return self.copied + self.rewritten + self.emptied + self.dropped


class Terms(TypedDict):
    """What decides about records besides their keys."""

    now: int
    """In ms. With `AS_THEY_ARE`, a batch that loses no record may be rewritten all the same."""
    delete_retention_ms: int
    horizon_cause: NotRequired[NDArray[np.bool_]]
    """True for batches that get a delete horizon even without a tombstone, if they have none:
    markers of transactions without remaining records (S5.4).
    """
    era: NotRequired[Era]


def filter_batches(
    blocks: RecordBlocks,
    keep: NDArray[np.bool_],
    retention: NDArray[np.int8],
    **terms: Unpack[Terms],
) -> Filtered:
    """Filter batches. What remains of v0 and v1 is written as v2 if the version converts them
    (S2.5).

    `keep`: whether to keep each record of all batches, as its key decides; True for records of
    control batches. A null value is dropped anyway if its batch's delete horizon has passed (S5.5).
    `retention`: values of `Retention`, one per batch.

    Raises CorruptLogError for a malformed batch. Records are not checked in batches to DELETE and
    in batches that keep no record.
    """
    choice = _choice(blocks, keep, retention, **terms)
    verdict = _no_verdict(len(blocks.rows))
    return _assembled(choice, verdict, *_compressed_payloads(choice, verdict))


def filter_in_cache(
    closed: RecordBlocks,
    keep: NDArray[np.bool_],
    retention: NDArray[np.int8],
    *,
    limit: int,
    **terms: Unpack[Terms],
) -> Filtered | None:
    """Filter v2 batches that are still compressed as `filter_batches` would, up to the first one
    that is not usual. `Filtered.batches_in` is their number. Return None if there is no such batch.

    Usual batches have the codec of the first compressed one, lz4 or zstd. They are not damaged, and
    hold at most `AREA_BYTES` and `limit` bytes of records. Raises CorruptLogError for a malformed
    record.
    """
    found = opening_of(closed, limit=limit)
    if found is None:
        return None
    blocks, opening = found
    packs = c_function(opening.codec, compresses=True)
    if not packs[0]:
        return None
    choice = _choice(blocks, keep, retention, **terms)
    n = len(blocks.rows)
    verdict, starts = _no_verdict(n), np.empty(n + 1, np.int64)
    largest = AREA_BYTES + AREA_BYTES // 128 + _PAYLOAD_ROOM
    payloads = np.empty(int(blocks.rows["size"].sum()) + largest, np.uint8)
    records = np.empty(2 * AREA_BYTES, np.uint8)
    fault, count, total = filter_compressed(
        choice, verdict, opening, packs, records, payloads, starts
    )
    check_fault(fault, blocks.rows, blocks.begin)
    if not count:
        return None
    choice, verdict = choice.leading(count, total), verdict.leading(count)
    return _assembled(choice, verdict, as_bytes(payloads[: starts[count]]), starts[: count + 1])


def _choice(
    blocks: RecordBlocks,
    keep: NDArray[np.bool_],
    retention: NDArray[np.int8],
    *,
    now: int,
    delete_retention_ms: int,
    horizon_cause: NDArray[np.bool_] | None = None,
    era: Era = LATEST,
) -> Choice:
    """Return the arguments of a filter as one. Raises ValueError if they don't fit together."""
    if not (
        (0 <= now <= _MAX_LONG or now == AS_THEY_ARE) and 0 <= delete_retention_ms <= _MAX_LONG
    ):
        raise ValueError(f"expected times of 0 to 2^63-1 ms, found {now} and {delete_retention_ms}")
    n = len(blocks.rows)
    cause = np.zeros(n, np.bool_) if horizon_cause is None else horizon_cause
    return Choice(
        blocks,
        _read_only(keep, np.bool_, record_total(blocks)),
        _retentions(retention, n),
        _read_only(cause, np.bool_, n),
        now,
        delete_retention_ms,
        era,
    )


def _assembled(
    choice: Choice, verdict: BatchActions, payloads: Bytes, starts: NDArray[np.int64]
) -> Filtered:
    """Write the output batches. The verdict on compressed ones is filled in. `payloads`: the
    payloads of those that are rewritten, and `starts`: n + 1 places in it.

    Raises CorruptLogError for a malformed batch.
    """
    rows, era, total = choice.blocks.rows, choice.era, len(choice.keep)
    most = int(rows["size"].sum()) + HEADER_V2_SIZE * len(rows) + GROWTH * total + len(payloads)
    out = np.empty(most, np.uint8)  # unused parts of an array are never touched
    out_rows = np.empty(len(rows), BATCH)
    found, count, size = assemble(choice, verdict, payloads, starts, out, out_rows)
    check_fault(found, rows, choice.blocks.begin)
    data, out_rows = as_bytes(out[:size]), out_rows[:count]
    if not era.converts and bits_of(rows) & LEGACY:
        read, end, _ = walk_batches(data, 0, 0, out_rows)
        if (read, end) != (count, size):
            raise record_error(Fault.CHANGED, rows[0], 0)
    outcomes = np.bincount(verdict.action, minlength=4).tolist()
    return Filtered(
        data=data,
        batches=out_rows,
        records_in=total,
        records_out=int(verdict.retained.sum()),
        tombstones=verdict.tombstones[verdict.action != DROP],
        copied=outcomes[COPY],
        rewritten=outcomes[REWRITE],
        emptied=outcomes[EMPTY],
        dropped=outcomes[DROP],
    )


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


def _no_verdict(size: int) -> BatchActions:
    """Return the verdict before the kernels fill it in: they leave out batches to delete."""
    counts, others = np.zeros((2, size), np.int32), np.empty((5, size), np.int64)
    return BatchActions(np.full(size, DROP, np.int8), *counts, *others)


def _compressed_payloads(choice: Choice, verdict: BatchActions) -> tuple[Bytes, NDArray[np.int64]]:
    """Compress the records of rewritten compressed batches. Return the bytes, and n + 1 starts in
    them.

    Fills in all of the verdict for compressed batches.
    """
    blocks, rows = choice.blocks, choice.blocks.rows
    starts = np.zeros(len(rows) + 1, np.int64)
    if not blocks.compressed.any():
        return as_bytes(b""), starts
    growth = GROWTH if choice.era.converts else MOST_GROWTH
    records = np.empty(len(blocks.inflated) + growth * len(choice.keep), np.uint8)
    record_starts, none = np.empty(len(rows) + 1, np.int64), np.empty(0, np.uint8)
    found, *_ = filter_compressed(choice, verdict, OPENED, (0, 0), records, none, record_starts)
    check_fault(found, rows, blocks.begin)
    chosen = (verdict.action == REWRITE) & blocks.compressed
    if not chosen.any():
        return as_bytes(b""), starts
    codecs = (rows["attributes"] & CODEC_MASK).astype(np.int64)
    if not codecs[chosen].any():  # v0 or v1, which are in `inflated` because they were converted
        return as_bytes(records[: record_starts[-1]]), record_starts
    left, sizes, total_size = np.flatnonzero(chosen), starts[1:], int(record_starts[-1])
    sink = Sink(total_size + total_size // 128 + _PAYLOAD_ROOM * len(left))
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
