"""The records areas of batches, decompressed where they have to be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from winnow.errors import CorruptLogError
from winnow.wire.batch import CODEC_MASK, HEADER_V2_SIZE, MAX_MAGIC, Codec
from winnow.wire.buffers import Buffer, Bytes, Rows, as_bytes, as_rows
from winnow.wire.codecs import decompress_into
from winnow.wire.sink import Sink

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_DECOMPRESSED_BYTES = 2**31 - 9
"""Kafka's default of `max.decompressed.message.bytes`, per batch."""
_USUAL_RATIO = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordBlocks:
    """Where the records of each batch lie, one item per batch, in the order of the batches.

    `begin` and `end` (int64) count in `inflated` where `compressed` is True, otherwise in `raw`.
    """

    raw: Bytes
    inflated: Bytes
    compressed: NDArray[np.bool_]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]

    def __post_init__(self) -> None:
        # Kernels are compiled for read-only arrays, and nobody is to change these.
        for name in ("compressed", "begin", "end"):
            object.__setattr__(self, name, _read_only(getattr(self, name)))

    def area(self, i: int) -> Bytes:
        """The records of batch `i` as bytes, for those who are not in a hurry."""
        return (self.inflated if self.compressed[i] else self.raw)[self.begin[i] : self.end[i]]


def inflate(buf: Buffer, batches: Rows, *, limit: int = MAX_DECOMPRESSED_BYTES) -> RecordBlocks:
    """Decompress what is compressed among `batches`, rows of a walk over `buf`. `limit` in bytes, per batch.

    Raises CorruptLogError for batches of v0 or v1, for unknown codecs, for data that can't be decompressed or that
    is larger than `limit`.
    """
    raw, rows = as_bytes(buf), as_rows(batches)
    refuse_legacy(rows)
    begin = rows["position"] + HEADER_V2_SIZE
    end = rows["position"] + rows["size"]
    if len(rows) and (begin.min() < HEADER_V2_SIZE or (begin > end).any() or end.max() > len(raw)):
        message = "batches are not those of this buffer"
        raise ValueError(message)
    codecs = rows["attributes"] & CODEC_MASK
    # An empty batch that cleaning left has no payload, whatever its codec bits say.
    compressed = (codecs != Codec.NONE) & ((rows["record_count"] > 0) | (end > begin))
    chosen = np.flatnonzero(compressed)
    sink = Sink(max(1, _USUAL_RATIO * int((end - begin)[chosen].sum())))
    for i in chosen.tolist():
        start = sink.used
        try:
            decompress_into(sink, _codec(int(codecs[i])), raw[begin[i] : end[i]], limit=limit)
        except CorruptLogError as error:
            raise _at(error, rows[i]) from error
        begin[i], end[i] = start, sink.used
    return RecordBlocks(raw=raw, inflated=sink.data(), compressed=compressed, begin=begin, end=end)


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    view = np.ascontiguousarray(array)[:]
    view.flags.writeable = False
    return view


def refuse_legacy(rows: Rows) -> None:
    """Raise CorruptLogError if there is a v0 or v1 batch among `rows`."""
    legacy = np.flatnonzero(rows["magic"] < MAX_MAGIC)
    if len(legacy):
        row = rows[legacy[0]]
        raise CorruptLogError(
            "records of message format v0 and v1 can't be read yet",
            expected=f"magic {MAX_MAGIC}",
            found=f"magic {row['magic']}",
            where=f"batch at byte {row['position']}",
        )


def _codec(bits: int) -> Codec:
    try:
        return Codec(bits)
    except ValueError:
        raise CorruptLogError("unknown codec", expected="0 to 4", found=str(bits)) from None


def _at(error: CorruptLogError, row: np.void) -> CorruptLogError:
    where = f"batch at byte {row['position']}, base offset {row['base_offset']}"
    return CorruptLogError(error.problem, expected=error.expected, found=error.found, where=where, hint=error.hint)
