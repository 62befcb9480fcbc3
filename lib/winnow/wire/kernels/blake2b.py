"""BLAKE2b with a key and a result of 16 bytes (RFC 7693), as `hashlib.blake2b(key, digest_size=16,
key=...)` computes it: the hash of keys in the ledger and in certificates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from winnow.wire.buffers import Bytes
from winnow.wire.kernels.record import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

BLOCK = 128
DIGEST_SIZE = 16
IV = np.array(
    [
        0x6A09E667F3BCC908,
        0xBB67AE8584CAA73B,
        0x3C6EF372FE94F82B,
        0xA54FF53A5F1D36F1,
        0x510E527FADE682D1,
        0x9B05688C2B3E6C1F,
        0x1F83D9ABFB41BD6B,
        0x5BE0CD19137E2179,
    ],
    np.uint64,
)
SIGMA = np.array(
    [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
        [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
        [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
        [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
        [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
        [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
        [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
        [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
        [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    ],
    np.int64,
)
COLUMNS = np.array([0, 1, 2, 3, 0, 1, 2, 3], np.int64)
"""First word of each of the eight mixes of a round: four columns, then four diagonals."""


def hash_all(data: Bytes, ends: NDArray[np.int64], secret: Bytes, out: NDArray[np.uint64]) -> None:
    """Fill `out`, uint64[n, 2]: string i is data[ends[i] : ends[i + 1]].

    `secret`: 1 to 64 bytes.
    """
    states = [np.empty(size, np.uint64) for size in (8, 8, 8, 16, 16)]
    _hash_all(data, ends, secret, out, *states)


@kernel
def _hash_all(
    data: Bytes,
    ends: NDArray[np.int64],
    secret: Bytes,
    out: NDArray[np.uint64],
    start: NDArray[np.uint64],
    keyed: NDArray[np.uint64],
    h: NDArray[np.uint64],
    m: NDArray[np.uint64],
    v: NDArray[np.uint64],
) -> None:
    """`start` and `keyed` become the state before and after the block of the secret."""
    for i in range(8):
        start[i] = IV[i]
    start[0] ^= np.uint64(0x01010000 ^ (secret.size << 8) ^ DIGEST_SIZE)
    for i in range(8):
        keyed[i] = start[i]
    _load(secret, 0, secret.size, m)
    _compress(keyed, m, v, np.uint64(BLOCK), False)
    for i in range(out.shape[0]):
        at, end = ends[i], ends[i + 1]
        done = np.uint64(BLOCK)
        for word in range(8):
            h[word] = start[word] if at == end else keyed[word]
        if at == end:
            _load(secret, 0, secret.size, m)
            _compress(h, m, v, done, True)
        while at < end:
            size = min(end - at, BLOCK)
            _load(data, at, size, m)
            done += np.uint64(size)
            at += size
            _compress(h, m, v, done, at == end)
        out[i, 0] = h[0]
        out[i, 1] = h[1]


@kernel
def _load(data: Bytes, at: int, size: int, m: NDArray[np.uint64]) -> None:
    for i in range(16):
        m[i] = np.uint64(0)
    for i in range(size):
        m[i >> 3] |= np.uint64(data[at + i]) << np.uint64(8 * (i & 7))


@kernel
def _compress(
    h: NDArray[np.uint64], m: NDArray[np.uint64], v: NDArray[np.uint64], done: np.uint64, last: bool
) -> None:
    for i in range(8):
        v[i] = h[i]
        v[i + 8] = IV[i]
    v[12] ^= done
    if last:
        v[14] = ~v[14]
    for r in range(12):
        for i in range(8):
            a = COLUMNS[i]
            turn = 0 if i < 4 else 1
            b = 4 + ((a + turn) & 3)
            c = 8 + ((a + 2 * turn) & 3)
            d = 12 + ((a + 3 * turn) & 3)
            v[a] = v[a] + v[b] + m[SIGMA[r, 2 * i]]
            v[d] = _right(v[d] ^ v[a], 32)
            v[c] = v[c] + v[d]
            v[b] = _right(v[b] ^ v[c], 24)
            v[a] = v[a] + v[b] + m[SIGMA[r, 2 * i + 1]]
            v[d] = _right(v[d] ^ v[a], 16)
            v[c] = v[c] + v[d]
            v[b] = _right(v[b] ^ v[c], 63)
    for i in range(8):
        h[i] ^= v[i] ^ v[i + 8]


@kernel
def _right(word: np.uint64, bits: int) -> np.uint64:
    return (word >> np.uint64(bits)) | (word << np.uint64(64 - bits))
