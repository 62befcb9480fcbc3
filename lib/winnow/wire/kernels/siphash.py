"""SipHash with a 128-bit result: the shuffle carries this hash of a key instead of its bytes.

It is keyed with a secret of the run, so that nobody can construct two keys with one hash. It has 1
round per word and 3 to finish, as in hash tables. The plain twin takes the rounds as parameters,
because published vectors are of 2-4.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from winnow.compiled import njit
from winnow.wire.buffers import Bytes
from winnow.wire.kernels.memory import load_byte, load_word

_MASK = (1 << 64) - 1
INITIAL = (0x736F6D6570736575, 0x646F72616E646F6D ^ 0xEE, 0x6C7967656E657261, 0x7465646279746573)
"""The initial state, without the secret."""
TWEAK, LAST_TWEAK = 0xEE, 0xDD
"""Applied before the rounds for either half of the result."""
FINAL_ROUNDS = 3
_State: TypeAlias = tuple[np.uint64, np.uint64, np.uint64, np.uint64]


def siphash_plain(
    data: bytes, secret: tuple[int, int], *, per_word: int = 1, at_end: int = FINAL_ROUNDS
) -> tuple[int, int]:
    """Return both halves of SipHash-`per_word`-`at_end`-128 of `data`. `secret`: two uint64."""
    k0, k1 = secret
    v = [key ^ first for key, first in zip((k0, k1, k0, k1), INITIAL, strict=True)]
    padded = data + bytes(-(len(data) + 1) % 8) + bytes([len(data) & 0xFF])
    for i in range(0, len(padded), 8):
        word = int.from_bytes(padded[i : i + 8], "little")
        v[3] ^= word
        _rounds(v, per_word)
        v[0] ^= word
    v[2] ^= TWEAK
    _rounds(v, at_end)
    first = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= LAST_TWEAK
    _rounds(v, at_end)
    return first, v[0] ^ v[1] ^ v[2] ^ v[3]


def _rounds(v: list[int], rounds: int) -> None:
    def left(x: int, bits: int) -> int:
        return (x << bits | x >> (64 - bits)) & _MASK

    for _ in range(rounds):
        v[0] = (v[0] + v[1]) & _MASK
        v[1] = left(v[1], 13) ^ v[0]
        v[0] = left(v[0], 32)
        v[2] = (v[2] + v[3]) & _MASK
        v[3] = left(v[3], 16) ^ v[2]
        v[0] = (v[0] + v[3]) & _MASK
        v[3] = left(v[3], 21) ^ v[0]
        v[2] = (v[2] + v[1]) & _MASK
        v[1] = left(v[1], 17) ^ v[2]
        v[2] = left(v[2], 32)


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
