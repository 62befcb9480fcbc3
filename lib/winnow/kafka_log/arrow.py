"""Make Arrow arrays from the kernels' results. Buffers are handed over; nothing is built value by
value.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from winnow.wire.columns import Places, gathered, header_places
from winnow.wire.inflate import RecordBlocks

MOST_MS = (2**63 - 1) // 1000
"""The largest timestamp that fits into Spark's microseconds."""

Array = NDArray[Any]


def byte_strings(blocks: RecordBlocks, places: Places, kind: Any) -> Any:  # noqa: ANN401 - Arrow has no types
    """Return a binary or string array, null where the size is -1."""
    ends, data = gathered(blocks, places)
    return pa.Array.from_buffers(
        kind,
        len(places.size),
        [_validity(places.size >= 0), pa.py_buffer(ends), pa.py_buffer(data)],
    )


def header_lists(blocks: RecordBlocks, headers: Places, kind: Any) -> Any:  # noqa: ANN401
    """Return a list of (key, value) per record, null if it has no headers, as Spark's Kafka source
    does.
    """
    keys, values = header_places(blocks, headers)
    pair = kind.value_type
    children = [
        _names(blocks, keys, pair.field(0).type),
        byte_strings(blocks, values, pair.field(1).type),
    ]
    pairs = pa.StructArray.from_arrays(children, fields=[pair.field(0), pair.field(1)])
    ends = np.zeros(len(headers.size) + 1, np.int32)
    np.cumsum(headers.size, out=ends[1:])
    return pa.Array.from_buffers(
        kind, len(headers.size), [_validity(headers.size > 0), pa.py_buffer(ends)], children=[pairs]
    )


def timestamps(ms: Array, kind: Any, *, valid: Array | None = None) -> Any:  # noqa: ANN401
    """Return microseconds in UTC. Null where not `valid`, and beyond year 292 277, which Spark
    can't represent.
    """
    if valid is None and len(ms) and ms.min() >= -MOST_MS and ms.max() <= MOST_MS:
        return pa.Array.from_buffers(kind, len(ms), [None, pa.py_buffer(ms * 1000)])
    fits = (ms >= -MOST_MS) & (ms <= MOST_MS)
    valid = fits if valid is None else fits & valid
    micros = np.where(valid, ms, 0) * 1000
    return pa.Array.from_buffers(kind, len(ms), [_validity(valid), pa.py_buffer(micros)])


def one_of(words: list[str], number: Array) -> Any:  # noqa: ANN401
    """Return the word for each number."""
    return pa.array(words, pa.string()).take(pa.array(number))


def repeated(value: object, n: int, kind: Any) -> Any:  # noqa: ANN401
    return pa.repeat(pa.scalar(value, kind), n)


def _names(blocks: RecordBlocks, places: Places, kind: Any) -> Any:  # noqa: ANN401
    """Return header keys. A key that is not UTF-8 gets replacement characters, as in a consumer."""
    names = byte_strings(blocks, places, kind)
    try:
        names.validate(full=True)
    except pa.ArrowInvalid:
        raw = byte_strings(blocks, places, pa.binary()).to_pylist()
        return pa.array([name.decode(errors="replace") for name in raw], kind)
    return names


def _validity(valid: Array) -> Any:  # noqa: ANN401
    """Return Arrow's validity bitmap; None if all are valid."""
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
