"""Digests of records: 128 bits for a key, 128 bits for everything that a consumer sees.

Two records with the same digests have the same key, value, timestamp and headers. Codec, batch and
position do not count. The digests are keyed with a secret, like all hashes of keys
(`winnow.wire.kernels.siphash`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from winnow.wire.buffers import Bytes
from winnow.wire.kernels.record import kernel
from winnow.wire.kernels.siphash import siphash
from winnow.wire.kernels.varint import read_varint

if TYPE_CHECKING:
    from winnow.wire.columns import RecordPlaces
    from winnow.wire.inflate import RecordBlocks

_MASK = (1 << 64) - 1
Digests = NDArray[np.uint64]


def record_digests(
    blocks: RecordBlocks, places: RecordPlaces, secret: tuple[int, int]
) -> tuple[Digests, Digests]:
    """Return (keys, contents), uint64[n, 2] each, of the records at `places`.

    A null key has the digest of an empty one. `secret`: two uint64.
    """
    keys, contents = (np.empty((len(places), 2), np.uint64) for _ in range(2))
    fault = _digest(
        blocks.raw,
        blocks.inflated,
        blocks.compressed,
        places.batch,
        places.timestamp,
        places.key.at,
        places.key.size,
        places.value.at,
        places.value.size,
        places.headers.at,
        places.headers.size,
        np.uint64(secret[0]),
        np.uint64(secret[1]),
        keys,
        contents,
    )
    if fault:
        raise ValueError("these places are not in these batches")
    return keys, contents


@kernel
def _hashed(
    area: Bytes, at: int, size: int, first: np.uint64, second: np.uint64
) -> tuple[np.uint64, np.uint64]:
    """Return the hash of a byte string. It is null if `size` is -1."""
    return siphash(area, at, max(size, 0), first, second ^ np.uint64(size))


@kernel
def _digest(
    raw: Bytes,
    inflated: Bytes,
    compressed: NDArray[np.bool_],
    batch_of: NDArray[np.int32],
    timestamps: NDArray[np.int64],
    key_at: NDArray[np.int64],
    key_sizes: NDArray[np.int32],
    value_at: NDArray[np.int64],
    value_sizes: NDArray[np.int32],
    headers_at: NDArray[np.int64],
    header_counts: NDArray[np.int32],
    secret0: np.uint64,
    secret1: np.uint64,
    keys: Digests,
    contents: Digests,
) -> bool:
    """Fill `keys` and `contents`. Return True if a place is not in its area."""
    for i in range(batch_of.size):
        area = inflated if compressed[batch_of[i]] else raw
        size = max(int(key_sizes[i]), 0)
        if key_at[i] < 0 or key_at[i] > area.size - size:
            return True
        keys[i, 0], keys[i, 1] = siphash(area, key_at[i], size, secret0, secret1)
        size = int(value_sizes[i])
        if value_at[i] < 0 or value_at[i] > area.size - max(size, 0):
            return True
        first, second = _hashed(
            area, value_at[i], size, secret0 ^ np.uint64(timestamps[i]), secret1
        )
        at = headers_at[i]
        for part in range(2 * header_counts[i]):
            size, at = read_varint(area, at, area.size)
            if at < 0 or size < (part & 1) * -1 or size > area.size - at:
                return True
            first, second = _hashed(area, at, size, first, second)
            at += max(size, 0)
        contents[i, 0], contents[i, 1] = first, second
    return False
