"""SipHash with a 128-bit result: the shuffle carries this hash of a key instead of its bytes.

It is keyed with a secret of the run, so that nobody can construct two keys with one hash. It has 1
round per word and 3 to finish, as in hash tables.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from winnow.compiled import njit
from winnow.wire.buffers import Bytes
from winnow.wire.kernels.memory import load_byte, load_word

INITIAL = (0x736F6D6570736575, 0x646F72616E646F6D ^ 0xEE, 0x6C7967656E657261, 0x7465646279746573)
"""The initial state, without the secret."""
TWEAK, LAST_TWEAK = 0xEE, 0xDD
"""Applied before the rounds for either half of the result."""
FINAL_ROUNDS = 3
_State: TypeAlias = tuple[np.uint64, np.uint64, np.uint64, np.uint64]


@njit(cache=True, nogil=True)
def _rotated(x: np.uint64, bits: int) -> np.uint64:
    return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))


@njit(cache=True, nogil=True)
def _round(v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64) -> _State:
    v0 += v1
    v1 = _rotated(v1, 13) ^ v0
    v0 = _rotated(v0, 32)
    v2 += v3
    v3 = _rotated(v3, 16) ^ v2
    v0 += v3
    v3 = _rotated(v3, 21) ^ v0
    v2 += v1
    v1 = _rotated(v1, 17) ^ v2
    v2 = _rotated(v2, 32)
    return v0, v1, v2, v3


@njit(cache=True, nogil=True)
def siphash(
    buf: Bytes, pos: int, size: int, k0: np.uint64, k1: np.uint64
) -> tuple[np.uint64, np.uint64]:
    """Return SipHash-1-3-128 of buf[pos : pos + size], which the caller has checked: two uint64."""
    v0 = k0 ^ np.uint64(INITIAL[0])
    v1 = k1 ^ np.uint64(INITIAL[1])
    v2 = k0 ^ np.uint64(INITIAL[2])
    v3 = k1 ^ np.uint64(INITIAL[3])
    end = pos + size
    while pos + 8 <= end:
        word = load_word(buf, pos)
        v3 ^= word
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 ^= word
        pos += 8
    word = np.uint64(size & 0xFF) << np.uint64(56)
    for i in range(end - pos):
        word |= np.uint64(load_byte(buf, pos + i)) << np.uint64(8 * i)
    v3 ^= word
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0 ^= word
    v2 ^= np.uint64(TWEAK)
    for _ in range(FINAL_ROUNDS):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    first = v0 ^ v1 ^ v2 ^ v3
    v1 ^= np.uint64(LAST_TWEAK)
    for _ in range(FINAL_ROUNDS):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return first, v0 ^ v1 ^ v2 ^ v3
