"""Last offset per key, in bytes and integers: what the shuffle carries and how it is merged (S4, S5.5).

A key is its 128-bit keyed hash. A record is its number inside its split (`uint32`), and across splits its rank,
`split << 32 | number`: splits ascend by offset, so the larger rank is the later record, and gaps between offsets
cost nothing. Each kernel has a plain twin in `winnow.engine.plain` that the tests hold it against.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_EMPTY = -1


@njit(cache=True, nogil=True)
def _table_size(entries: int) -> int:
    size = 16
    while size < 2 * entries:
        size *= 2
    return size


@njit(cache=True, nogil=True)
def last_per_key(hashes: Any, candidate: Any) -> Any:
    """bool[n]: True for the last candidate row of each key.

    `hashes` uint64[n, 2], `candidate` bool[n]; rows are in offset order.
    """
    n = hashes.shape[0]
    size = _table_size(n)
    mask = np.uint64(size - 1)
    slots = np.full(size, -1, np.int32)
    last = np.zeros(n, np.bool_)
    for row in range(n):
        if not candidate[row]:
            continue
        low = hashes[row, 0]
        high = hashes[row, 1]
        at = low & mask
        while True:
            other = slots[at]
            if other < 0:
                break
            if hashes[other, 0] == low and hashes[other, 1] == high:
                last[other] = False
                break
            at = (at + np.uint64(1)) & mask
        slots[at] = row
        last[row] = True
    return last


@njit(cache=True, nogil=True)
def rows_by_bucket(hashes: Any, chosen: Any, buckets: int) -> Any:
    """Chosen rows in bucket order, ascending inside a bucket, and where each bucket starts.

    Returns (rows int64[m], starts int64[buckets + 1]). The bucket of a key is a function of the upper half of its
    hash; the tables above probe by the lower half, so that one bucket does not crowd one region of a table.
    """
    starts = np.zeros(buckets + 1, np.int64)
    count = np.uint64(buckets)
    for row in range(hashes.shape[0]):
        if chosen[row]:
            starts[np.int64(hashes[row, 1] % count) + 1] += 1
    for bucket in range(buckets):
        starts[bucket + 1] += starts[bucket]
    rows = np.empty(starts[buckets], np.int64)
    at = starts.copy()
    for row in range(hashes.shape[0]):
        if chosen[row]:
            bucket = np.int64(hashes[row, 1] % count)
            rows[at[bucket]] = row
            at[bucket] += 1
    return rows, starts


@njit(cache=True, nogil=True)
def gather(hashes: Any, rows: Any) -> Any:
    """uint64[m, 2]: the hashes of these rows."""
    out = np.empty((rows.shape[0], 2), np.uint64)
    for i in range(rows.shape[0]):
        out[i, 0] = hashes[rows[i], 0]
        out[i, 1] = hashes[rows[i], 1]
    return out


@njit(cache=True, nogil=True)
def new_table(entries: int) -> Any:
    """An empty map of key to rank with room for `entries` keys: (keys uint64[size, 2], ranks int64[size])."""
    size = _table_size(entries)
    return np.empty((size, 2), np.uint64), np.full(size, _EMPTY, np.int64)


@njit(cache=True, nogil=True)
def put_latest(keys: Any, ranks: Any, hashes: Any, numbers: Any, split: int) -> None:
    """Enters one split's keys: the larger rank stays. `hashes` uint64[n, 2], `numbers` uint32[n]."""
    mask = np.uint64(ranks.shape[0] - 1)
    for i in range(hashes.shape[0]):
        low = hashes[i, 0]
        high = hashes[i, 1]
        rank = (np.int64(split) << 32) | np.int64(numbers[i])
        at = low & mask
        while ranks[at] != _EMPTY and not (keys[at, 0] == low and keys[at, 1] == high):
            at = (at + np.uint64(1)) & mask
        keys[at, 0] = low
        keys[at, 1] = high
        ranks[at] = max(ranks[at], rank)


@njit(cache=True, nogil=True)
def surviving_dirty(keys: Any, ranks: Any, hashes: Any, numbers: Any, split: int) -> Any:
    """uint32[m]: numbers of the records that are the last of their key in the whole dirty range (S5.5)."""
    return _surviving(keys, ranks, hashes, numbers, split, True)


@njit(cache=True, nogil=True)
def surviving_clean(keys: Any, ranks: Any, hashes: Any, numbers: Any, split: int) -> Any:
    """uint32[m]: numbers of the records whose key the dirty range does not have (S4: clean records only look up)."""
    return _surviving(keys, ranks, hashes, numbers, split, False)


@njit(cache=True, nogil=True)
def _surviving(keys: Any, ranks: Any, hashes: Any, numbers: Any, split: int, dirty: bool) -> Any:
    mask = np.uint64(ranks.shape[0] - 1)
    out = np.empty(hashes.shape[0], np.uint32)
    kept = 0
    for i in range(hashes.shape[0]):
        low = hashes[i, 0]
        high = hashes[i, 1]
        at = low & mask
        while ranks[at] != _EMPTY and not (keys[at, 0] == low and keys[at, 1] == high):
            at = (at + np.uint64(1)) & mask
        rank = (np.int64(split) << 32) | np.int64(numbers[i])
        survives = ranks[at] == rank if dirty else ranks[at] == _EMPTY
        if survives:
            out[kept] = numbers[i]
            kept += 1
    return out[:kept]


def warm_up() -> None:
    """Compiles every kernel of this file for the types the jobs use, into numba's cache."""
    hashes = np.array([[1, 2], [3, 4], [1, 2]], np.uint64)
    last = last_per_key(hashes, np.ones(3, np.bool_))
    rows, _ = rows_by_bucket(hashes, last, 2)
    numbers = rows.astype(np.uint32)
    packed = _read_only(gather(hashes, rows)), _read_only(numbers)
    keys, ranks = new_table(3)
    put_latest(keys, ranks, *packed, 0)
    surviving_dirty(keys, ranks, *packed, 0)
    surviving_clean(keys, ranks, *packed, 0)


def _read_only(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape)
