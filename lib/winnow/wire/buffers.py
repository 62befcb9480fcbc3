"""One read-only view for every kind of bytes, so that each kernel is compiled once.

numba gives a read-only array another type than a writable one. Bytes of a log are never written to,
so kernels read only what `as_bytes` or `as_rows` returns. All of it is read-only.
"""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from winnow.wire.batch import BATCH

Buffer: TypeAlias = bytes | bytearray | memoryview | NDArray[np.uint8]
"""Types that `wire` accepts as bytes: contiguous, one byte per item."""

Bytes: TypeAlias = NDArray[np.uint8]
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
