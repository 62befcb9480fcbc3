"""Convert batches of message formats v0 and v1 to what the rest of `wire` reads: v2 records and v2
headers (S2.1).

An entry of these formats is one record, or a wrapper whose value is a compressed run of such
entries. Both are normalised: the records become v2 records, and the row gets the values of a v2
header. Only `magic` is unchanged.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from winnow.errors import CorruptLogError
from winnow.wire.batch import (
    CODEC_MASK,
    KEY_V0_AT,
    KEY_V1_AT,
    MAGIC_AT,
    MAX_MAGIC,
    Codec,
    is_wrapper,
)
from winnow.wire.buffers import Bytes, Rows, as_rows, copied
from winnow.wire.codecs import decompress_into
from winnow.wire.record_faults import check_fault, place_of
from winnow.wire.sink import Sink

if TYPE_CHECKING:
    from numpy.typing import NDArray

_USUAL_RATIO = 4


def convert_legacy(
    raw: Bytes,
    batches: Rows,
    sink: Sink,
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    mixed: NDArray[np.bool_],
    *,
    limit: int,
    enough: int,
) -> Rows:
    """Append the records of all v0 and v1 batches to `sink`, as v2 records, and set `begin` and
    `end` to their places, and `mixed` where a wrapper holds an entry of the other format.

    `batches`: BATCH rows, all inside `raw`. `limit`: maximum decompressed bytes of each wrapper.
    Returns the rows with those of v0 and v1 normalised, up to the wrapper before which `enough`
    bytes had been decompressed. Raises CorruptLogError for a codec that they can't have (S2.1), for
    a wrapper without records or inside another, for offsets that do not ascend, and for wrong
    lengths and CRCs.
    """
    from winnow.wire.kernels.legacy import convert  # noqa: PLC0415 - with numba

    wrapped = is_wrapper(batches)
    inner = Sink(max(1, _USUAL_RATIO * int(batches["size"][wrapped].sum())))
    entries_begin = batches["position"].copy()
    entries_end = entries_begin + batches["size"]
    for i in np.flatnonzero(wrapped).tolist():
        if inner.used >= enough:
            batches = batches[:i]
            break
        start = inner.used
        try:
            _unwrap(inner, raw, batches[i], limit)
        except CorruptLogError as error:
            raise error.at(place_of(batches[i])) from error
        entries_begin[i], entries_end[i] = start, inner.used
    rows = copied(batches)
    starts = np.empty(len(batches) + 1, np.int64)
    legacy = batches["magic"] < MAX_MAGIC
    # Besides key and value, an entry takes 26 bytes and a record at most 32.
    room = int((entries_end - entries_begin)[: len(batches)][legacy].sum()) * 5 // 4 + 1
    at = sink.used
    sink.begin_converted(room)
    out = np.frombuffer(sink.reserve(room), np.uint8)
    found = convert(
        raw, inner.data(), wrapped, entries_begin, entries_end, batches, out, rows, starts, mixed
    )
    check_fault(found, batches, entries_begin)
    sink.commit(int(starts[-1]))
    begin[: len(rows)][legacy] = at + starts[:-1][legacy]
    end[: len(rows)][legacy] = at + starts[1:][legacy]
    return as_rows(rows)


def _unwrap(sink: Sink, raw: Bytes, row: np.void, limit: int) -> None:
    """Append the decompressed entries of a wrapper."""
    bits = int(row["attributes"]) & CODEC_MASK
    if bits >= Codec.ZSTD:
        raise CorruptLogError(
            "unknown codec", expected="0 to 3 before message format v2", found=str(bits)
        )
    start, end = int(row["position"]), int(row["position"] + row["size"])
    magic = int(raw[start + MAGIC_AT])
    key_at = start + (KEY_V1_AT if magic else KEY_V0_AT)
    _, value_at = _field(raw, key_at, end)
    value, after = _field(raw, value_at, end)
    if value is None or after != end:
        raise CorruptLogError(
            "compressed batch can't be read",
            expected="a value that ends with it",
            found="null" if value is None else f"{end - after} bytes more",
        )
    decompress_into(sink, Codec(bits), value, limit=limit, magic=magic)


def _field(raw: Bytes, at: int, end: int) -> tuple[Bytes | None, int]:
    """Return the bytes after the int32 length at `at` (None for -1), and their end."""
    size = struct.unpack_from(">i", raw.data, at)[0] if at + 4 <= end else -2
    if not -1 <= size <= end - at - 4:
        raise CorruptLogError(
            "compressed batch can't be read",
            expected="a length of -1 or more inside of it",
            found=str(size),
        )
    return (None, at + 4) if size < 0 else (raw[at + 4 : at + 4 + size], at + 4 + size)
