"""One read-only view for every kind of bytes, so that each kernel is compiled once.

numba gives a read-only array another type than a writable one. Bytes of a log are never written to,
so kernels read only what `as_bytes` or `as_rows` returns. All of it is read-only.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from winnow.wire.batch import BATCH

Buffer: TypeAlias = bytes | bytearray | memoryview | NDArray[np.uint8]
"""Types that `wire` accepts as bytes: contiguous, one byte per item."""

Bytes: TypeAlias = NDArray[np.uint8]
Array: TypeAlias = NDArray[Any]
Rows: TypeAlias = NDArray[Any]
"""Rows of dtype BATCH."""
_Item = TypeVar("_Item", bound=np.generic)


def as_bytes(data: Buffer) -> Bytes:
    """Return a read-only, 1-D, C-contiguous uint8 view of `data`, without a copy.

    Raises ValueError if the data is not contiguous bytes.
    """
    array = data if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)
    if array.dtype != np.uint8 or array.ndim != 1 or not array.flags.c_contiguous:
        raise ValueError(f"expected contiguous bytes, found {array.dtype} with shape {array.shape}")
    view = array.view(np.ndarray)
    if view is array or view.flags.writeable:
        view = array.view(np.ndarray)[:]
        view.flags.writeable = False
    return view


def as_view(data: Buffer) -> memoryview:
    """Return the same as a memoryview. It is cheaper for cutting out many small pieces."""
    if type(data) is bytes:
        return memoryview(data)
    if isinstance(data, memoryview) and data.format == "B" and data.ndim == 1 and data.c_contiguous:
        return data
    return as_bytes(data).data


def as_rows(batches: Rows) -> Rows:
    """Return a read-only, contiguous view of BATCH rows; a copy of rows picked with a stride."""
    if batches.dtype != BATCH or batches.ndim != 1:
        raise ValueError(
            f"expected rows of dtype BATCH, found {batches.dtype} with shape {batches.shape}"
        )
    return read_only(batches)


def whole(rows: NDArray[Any]) -> NDArray[np.void]:
    """Return a view of rows of any structured dtype without their fields. numpy copies and joins
    such rows nine times as fast: with fields, it goes through them one by one.
    """
    return rows.view(np.dtype((np.void, rows.dtype.itemsize)))


def copied(batches: Rows) -> Rows:
    """Return a writable copy of BATCH rows."""
    rows: Rows = whole(batches).copy().view(BATCH)
    return rows


def read_only(array: NDArray[_Item]) -> NDArray[_Item]:
    """Return a read-only view of a contiguous array, else a copy."""
    view = np.ascontiguousarray(array)[:]
    view.flags.writeable = False
    return view


class RecordBlocks(NamedTuple):
    """Some batches, and where the records of each one are. All arrays are read-only: kernels, which
    take it as one argument, are compiled for that.

    The records of batch i are the bytes from `begin[i]` to `end[i]` of `inflated` if
    `compressed[i]`, otherwise of `raw`. Records of v0 and v1 have been converted to v2, and are all
    in `inflated`.
    """

    raw: Bytes
    inflated: Bytes
    rows: Rows
    """One BATCH row for each batch. For v0 and v1, it has what a v2 header would have:
    `attributes`, `base_timestamp`, `record_count`. Read `area` by these rows, not by those of the
    walk, which lack that.
    """
    compressed: NDArray[np.bool_]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    unread: NDArray[np.bool_]
    """Batches that the caller left compressed. Their areas are empty, whatever their counts."""
    mixed: NDArray[np.bool_]
    """Wrappers of v0 or v1 that hold an entry of the other format (KAFKA-4298)."""

    def some(self, chosen: slice | NDArray[np.bool_]) -> RecordBlocks:
        """Return the chosen batches only."""
        raw, inflated, rows, *arrays = self
        some: list[Any] = [read_only(array[chosen]) for array in arrays]
        return RecordBlocks(raw, inflated, as_rows(rows[chosen]), *some)

    def area(self, i: int) -> Bytes:
        """Return the records of batch `i` as bytes, for code where speed does not matter."""
        return (self.inflated if self.compressed[i] else self.raw)[self.begin[i] : self.end[i]]
