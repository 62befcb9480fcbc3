"""Find the last offset per key, in bytes and integers: what the shuffle carries and how it is
merged (S4, S5.5).

A key is its 128-bit keyed hash. A record is its number inside its split (`uint32`), so gaps between
offsets cost nothing; splits ascend by offset. Each kernel has a plain twin in
`tests.twins.last_offsets`, and tests compare the two.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from winnow.compiled import njit
from winnow.wire.kernels.record import prefetch

PARTS = 128
"""Parts of a bucket of keys, a power of 2. Each part has its own table."""

_AHEAD = 16
"""How many rows in advance the processor is asked to prefetch a row's slot of the table."""


@njit(cache=True, nogil=True)
def _table_size(entries: int) -> int:
    size = 16
    while size < 2 * entries:
        size *= 2
    return size


@njit(cache=True, nogil=True)
def last_per_key(hashes: Any, candidate: Any) -> Any:
    """Return bool[n]: True for the last candidate row of each key.

    `hashes` uint64[n, 2], `candidate` bool[n]; rows are in offset order and read from the end.
    """
    n = hashes.shape[0]
    size = _table_size(n)
    mask = np.uint64(size - 1)
    slots = np.full(size, -1, np.int32)
    last = np.zeros(n, np.bool_)
    for row in range(n - 1, -1, -1):
        prefetch(slots, np.int64(hashes[max(row - _AHEAD, 0), 0] & mask))
        if candidate[row]:
            low, high = hashes[row, 0], hashes[row, 1]
            at = low & mask
            while slots[at] >= 0 and (hashes[slots[at], 0] != low or hashes[slots[at], 1] != high):
                at = (at + np.uint64(1)) & mask
            if slots[at] < 0:
                slots[at] = row
                last[row] = True
    return last


@njit(cache=True, nogil=True)
def _part(high: Any) -> Any:
    return np.int64(high & np.uint64(PARTS - 1))


@njit(cache=True, nogil=True)
def _part_of_all(high: Any, buckets: int) -> Any:
    """Return the number of a key's part among those of all buckets.

    The upper bits of the hash's upper half choose the bucket, its lower bits the part inside it,
    and the lower half the slot in a table. So no bucket crowds one part, and no part one region of
    a table.
    """
    bucket = ((high >> np.uint64(32)) * np.uint64(buckets)) >> np.uint64(32)
    return np.int64(bucket) * PARTS + _part(high)


@njit(cache=True, nogil=True)
def packed_by_bucket(hashes: Any, chosen: Any, buckets: int) -> Any:
    """Pack hashes and numbers of the chosen rows: by bucket, then by part, then ascending. Also
    return where each bucket starts.

    Returns (uint64[m, 2], uint32[m], int64[buckets + 1]). `buckets` is below 2^32.
    """
    at = np.zeros(buckets * PARTS + 1, np.int64)
    for row in range(hashes.shape[0]):
        if chosen[row]:
            at[_part_of_all(hashes[row, 1], buckets) + 1] += 1
    for part in range(buckets * PARTS):
        at[part + 1] += at[part]
    starts = at[::PARTS].copy()
    total = at[buckets * PARTS]
    packed = np.empty((total, 2), np.uint64)
    numbers = np.empty(total, np.uint32)
    for row in range(hashes.shape[0]):
        if chosen[row]:
            part = _part_of_all(hashes[row, 1], buckets)
            packed[at[part], 0] = hashes[row, 0]
            packed[at[part], 1] = hashes[row, 1]
            numbers[at[part]] = row
            at[part] += 1
    return packed, numbers, starts


@njit(cache=True, nogil=True)
def latest_first(hashes: Any, numbers: Any, bounds: Any, dirty: int, keys: Any) -> Any:  # noqa: C901, PLR0912 - one pass
    """Find which records of some blobs of one bucket survive (S4, S5.5), in one pass, part by part.

    `hashes` uint64[n, 2] and `numbers` uint32[n] of all blobs, blob b from `bounds[b]` to `bounds[b
    + 1]`, as `packed_by_bucket` orders them. The `dirty` blobs of the dirty range come first, the
    latest split first, each with one record per key: a record survives if its key has not been
    seen. Blobs of the clean range follow. They survive under the same condition, but are not
    entered (S4).

    Returns (uint32[n], int64[blobs]): from `bounds[b]` on, the first so many numbers survive. The
    counts are empty if the rows of a blob are not in the order of their parts. `keys`: uint64[n],
    receives the upper halves of their hashes at the same places, or is empty.

    A part's table fits into the processor's cache; that of a whole bucket would not.
    """
    blobs = bounds.shape[0] - 1
    stay = np.empty(numbers.shape[0], np.uint32)
    kept = np.zeros(blobs, np.int64)
    begin = bounds[:-1].copy()
    end = bounds[:-1].copy()
    table = np.empty((16, 2), np.uint64)
    for part in range(PARTS):
        entries = 0
        for blob in range(blobs):
            i = begin[blob]
            while i < bounds[blob + 1] and _part(hashes[i, 1]) == part:
                i += 1
            end[blob] = i
            if blob < dirty:
                entries += i - begin[blob]
        size = _table_size(entries)
        if size > table.shape[0]:
            table = np.empty((size, 2), np.uint64)
        for slot in range(size):
            table[slot, 0] = 0
            table[slot, 1] = 0
        # A slot of zeros is free. The one key whose hash is zero uses this flag instead.
        zero_seen = False
        mask = np.uint64(size - 1)
        for blob in range(blobs):
            for i in range(begin[blob], end[blob]):
                low = hashes[i, 0]
                high = hashes[i, 1]
                at = low & mask
                while (table[at, 0] != low or table[at, 1] != high) and (
                    table[at, 0] | table[at, 1]
                ) != 0:
                    at = (at + np.uint64(1)) & mask
                zero = (low | high) == 0
                seen = zero_seen if zero else (table[at, 0] | table[at, 1]) != 0
                if not seen:
                    at_end = bounds[blob] + kept[blob]
                    stay[at_end] = numbers[i]
                    if keys.shape[0]:
                        keys[at_end] = high
                    kept[blob] += 1
                    if blob < dirty:
                        zero_seen |= zero
                        table[at, 0] = low
                        table[at, 1] = high
            begin[blob] = end[blob]
    for blob in range(blobs):
        if end[blob] != bounds[blob + 1]:
            return stay, kept[:0]
    return stay, kept


def warm_up() -> None:
    """Compile every kernel of this file for the types the jobs use, into numba's cache."""
    hashes = np.array([[1, 2], [3, 4], [1, 2]], np.uint64)
    last = last_per_key(hashes, np.ones(3, np.bool_))
    packed, numbers, starts = packed_by_bucket(hashes, last, 1)
    latest_first(_read_only(packed), _read_only(numbers), starts, 1, np.empty(0, np.uint64))


def _read_only(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape)
