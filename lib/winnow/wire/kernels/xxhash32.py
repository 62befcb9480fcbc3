"""xxHash-32 with seed 0, for the few checksums in lz4 frames: those of headers, and of blocks from
some foreign clients.

Plain Python is fast enough for both.
"""

from __future__ import annotations

_P1, _P2, _P3, _P4, _P5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
_MASK = 0xFFFFFFFF


def xxhash32(data: bytes) -> int:
    at, size = 0, len(data)
    if size >= 16:
        lanes = [(_P1 + _P2) & _MASK, _P2, 0, -_P1 & _MASK]
        while at + 16 <= size:
            for i in range(4):
                word = int.from_bytes(data[at + 4 * i : at + 4 * i + 4], "little")
                lanes[i] = _left(lanes[i] + word * _P2, 13) * _P1 & _MASK
            at += 16
        value = sum(_left(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
    else:
        value = _P5
    value += size
    while at + 4 <= size:
        value = _left(value + int.from_bytes(data[at : at + 4], "little") * _P3, 17) * _P4
        at += 4
    for byte in data[at:]:
        value = _left(value + byte * _P5, 11) * _P1
    value &= _MASK
    value = (value ^ value >> 15) * _P2 & _MASK
    value = (value ^ value >> 13) * _P3 & _MASK
    return value ^ value >> 16


def _left(value: int, bits: int) -> int:
    value &= _MASK
    return (value << bits | value >> (32 - bits)) & _MASK
