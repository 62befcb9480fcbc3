"""Decompress the records areas of batches, and convert those of v0 and v1 to v2."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from winnow.errors import CorruptLogError
from winnow.small_work import is_small, plain_ns
from winnow.wire import plain
from winnow.wire.batch import CODEC_MASK, Codec
from winnow.wire.buffers import Buffer, Bytes, RecordBlocks, Rows, as_bytes, as_rows, read_only
from winnow.wire.codecs import decompress_into
from winnow.wire.legacy import convert_legacy
from winnow.wire.record_faults import place_of
from winnow.wire.sink import Sink

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_DECOMPRESSED_BYTES = 2**31 - 9
"""Kafka's default of `max.decompressed.message.bytes`, per batch."""
ENOUGH_BYTES = 64 * 2**20
"""How many decompressed bytes are processed at once, besides those of one batch.

A task needs at most four times both together, plus 25 bytes per record: a growing block exists
twice, and so does what is kept of it.
"""
_LARGE_RECORD_BYTES = 256
_ENOUGH_LARGE_BYTES = 2 * 2**20
"""The same for records of so many bytes on disk, on average. Only a record tells where the next one
begins. So a kernel that goes through them waits for memory at each one, unless all of the part is
still in the processor's cache.
"""
_USUAL_RATIO, _HIGH_RATIO = 4, 16
_BATCH_NS, _BYTE_NS = 10_000, 4
"""Time per compressed batch, and per byte of it, without kernels."""
_ALL = 2**62


def inflate(buf: Buffer, batches: Rows, *, limit: int = MAX_DECOMPRESSED_BYTES) -> RecordBlocks:
    """Decompress the compressed ones among `batches`, rows of a walk over `buf`. `limit` in bytes,
    per batch.

    Raises CorruptLogError for unknown codecs, for data that can't be decompressed or is larger than
    `limit`, and for batches of v0 or v1 that violate S2.1.
    """
    none = read_only(np.zeros(len(batches), np.bool_))
    return _inflate(as_bytes(buf), as_rows(batches), none, limit=limit, enough=_ALL)


def closed(buf: Buffer, batches: Rows) -> RecordBlocks:
    """Return v2 batches that are still compressed. Some kernels decompress them one by one."""
    (blocks,) = inflate_parts(buf, batches, unread=np.ones(len(batches), np.bool_))
    return blocks


def inflate_parts(
    buf: Buffer,
    batches: Rows,
    *,
    limit: int = MAX_DECOMPRESSED_BYTES,
    enough: int = ENOUGH_BYTES,
    unread: NDArray[np.bool_] | None = None,
) -> Iterator[RecordBlocks]:
    """Inflate in parts. A part ends when at least `enough` bytes have been decompressed.

    Parts of large records end earlier. So `enough` and `limit` together bound the size of a part,
    even if many batches expand a thousandfold. `unread`: one item per batch, true where nobody will
    read the records of a compressed v2 batch; such a batch is not decompressed.
    """
    raw, rows = as_bytes(buf), as_rows(batches)
    skipped = read_only(np.zeros(len(rows), np.bool_) if unread is None else unread)
    if has_large_records(rows):
        enough = min(enough, _ENOUGH_LARGE_BYTES)
    while len(rows):
        blocks = _inflate(raw, rows, skipped, limit=limit, enough=enough)
        rows, skipped = rows[len(blocks.rows) :], skipped[len(blocks.rows) :]
        yield blocks
        del blocks  # before the next part exists


def has_large_records(batches: Rows) -> bool:
    """Return whether records are large on average. Kernels then wait for memory at each record."""
    records, size = (int(batches[name].sum(dtype=np.int64)) for name in ("record_count", "size"))
    return 0 < records * _LARGE_RECORD_BYTES < size


def _inflate(
    raw: Bytes, rows: Rows, skipped: NDArray[np.bool_], *, limit: int, enough: int
) -> RecordBlocks:
    small = plain_ns() > 0 and _is_small(rows)
    areas = plain.find_areas(rows, skipped, len(raw)) if small else _areas(rows, skipped, len(raw))
    if areas is None:
        raise ValueError("batches are not those of this buffer")
    begin, end, codecs, legacy, compressed, unread = areas
    to_read = int((end - begin)[compressed].sum())
    chosen = np.flatnonzero(compressed & ~unread)
    # The last batch of a part may be large. Without room for it, it would be decompressed again.
    largest = int((end - begin)[chosen].max(initial=0))
    sink = Sink(max(1, min(_USUAL_RATIO * to_read, enough + max(enough, _HIGH_RATIO * largest))))
    while len(chosen):
        i = int(chosen[0])
        if sink.used >= enough:
            rows = rows[:i]
            break
        done = 0
        if not small:
            from winnow.wire.kernels.codec import decompress_many  # noqa: PLC0415 - with numba

            several = codecs, begin, end, chosen
            done = decompress_many(sink, raw, *several, limit=limit, enough=enough)
        if not done:
            payload, begin[i], done = raw[begin[i] : end[i]], sink.used, 1
            try:
                decompress_into(sink, _codec(int(codecs[i])), payload, limit=limit)
            except CorruptLogError as error:
                raise error.at(place_of(rows[i])) from error
            end[i] = sink.used
        chosen = chosen[done:]
    mixed = np.zeros(len(rows), np.bool_)
    if legacy[: len(rows)].any():
        rows = convert_legacy(raw, rows, sink, begin, end, mixed, limit=limit, enough=enough)
    whole = RecordBlocks(raw, sink.data(), rows, compressed | legacy, begin, end, unread, mixed)
    return whole.some(slice(len(rows)))


def _is_small(rows: Rows) -> bool:
    sizes = rows["size"][(rows["attributes"] & CODEC_MASK) != 0]
    return is_small(len(sizes) * _BATCH_NS + int(sizes.sum()) * _BYTE_NS)


def _areas(rows: Rows, skipped: NDArray[np.bool_], raw_size: int) -> plain.Areas | None:
    from winnow.wire.kernels.headers import find_areas  # noqa: PLC0415 - with numba

    n = len(rows)
    begin, end, codecs = (np.empty(n, np.int64) for _ in range(3))
    areas = plain.Areas(begin, end, codecs, *(np.empty(n, np.bool_) for _ in range(3)))
    return areas if find_areas(rows, skipped, raw_size, *areas) else None


@cache
def _codec(bits: int) -> Codec:
    try:
        return Codec(bits)
    except ValueError:
        raise CorruptLogError("unknown codec", expected="0 to 4", found=str(bits)) from None
