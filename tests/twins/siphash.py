"""The plain twin of `winnow.wire.kernels.siphash`. It takes the rounds as parameters, because
published vectors are of 2-4.
"""

from __future__ import annotations

from winnow.wire.kernels.siphash import FINAL_ROUNDS, INITIAL, LAST_TWEAK, TWEAK

_MASK = (1 << 64) - 1


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
