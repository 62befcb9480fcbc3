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
from winnow.wire.kernels.record import kernel, read_sized
from winnow.wire.kernels.siphash import siphash

if TYPE_CHECKING:
    from winnow.wire.buffers import RecordBlocks
    from winnow.wire.columns import RecordPlaces

Digests = NDArray[np.uint64]


def record_digests(
    blocks: RecordBlocks, places: RecordPlaces, secret: tuple[int, int]
) -> tuple[Digests, Digests]:
    """Return (keys, contents), uint64[n, 2] each, of the records at `places`.

    A null key has the digest of an empty one. `secret`: two uint64.
    """
    keys, contents = (np.empty((len(places.offset), 2), np.uint64) for _ in range(2))
    if not _digest(blocks, places, np.uint64(secret[0]), np.uint64(secret[1]), keys, contents):
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
    blocks: RecordBlocks,
    places: RecordPlaces,
    secret0: np.uint64,
    secret1: np.uint64,
    keys: Digests,
    contents: Digests,
) -> bool:
    """Fill `keys` and `contents`. Return whether all places are in their areas."""
    for i in range(places.batch.size):
        area = blocks.inflated if blocks.compressed[places.batch[i]] else blocks.raw
        at, size = places.key.at[i], max(int(places.key.size[i]), 0)
        if at < 0 or at > area.size - size:
            return False
        keys[i, 0], keys[i, 1] = siphash(area, at, size, secret0, secret1)
        at, size = places.value.at[i], int(places.value.size[i])
        if at < 0 or at > area.size - max(size, 0):
            return False
        first, second = _hashed(area, at, size, secret0 ^ np.uint64(places.timestamp[i]), secret1)
        at = places.headers.at[i]
        for part in range(2 * places.headers.size[i]):
            size, at, _ = read_sized(area, at, area.size, -(part & 1))
            if at < 0:
                return False
            first, second = _hashed(area, at, size, first, second)
            at += max(size, 0)
        contents[i, 0], contents[i, 1] = first, second
    return True
