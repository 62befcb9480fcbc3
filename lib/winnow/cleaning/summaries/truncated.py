"""A set of keys in at most 2 bytes a key: their hashes, sorted and cut off. One foreign key in
16,384 seems to be in it, and none of its own seems not to be.

A hash of 64 bits is cut to `q + 14` bits, with 2^q the number of keys rounded down. The first q
bits are written in unary: for each of their values, a 1 for each key and a 0. The other 14 bits of
each key follow. `tests.twins.truncated` is the plain twin.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

Keys: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.uint64]]"

REST_BITS = 14
"""Bits of each key that are stored as they are."""


def first_bits(count: int) -> int:
    """Return how many bits are stored in unary for this many keys."""
    return max(1, count.bit_length() - 1)


def size_of(count: int) -> int:
    """Return the size in bytes of a set with this many keys."""
    first = first_bits(count)
    return 8 * (_words(count + 2**first) + _words(count * REST_BITS))


def share_seemingly_in(count: int) -> float:
    """Return the share of foreign keys that seem to be in a set with this many keys."""
    return float(min(1.0, count / 2.0 ** (first_bits(count) + REST_BITS)))


def packed(keys: Keys) -> Keys:
    """Return the set of `keys`, which ascend, as little-endian words."""
    from winnow.cleaning.summaries.kernels import pack  # noqa: PLC0415 - with numba

    first = first_bits(len(keys))
    unary = np.zeros(_words(len(keys) + 2**first), np.uint64)
    rest = np.zeros(_words(len(keys) * REST_BITS), np.uint64)
    pack(keys, first, unary, rest)
    return np.concatenate([unary, rest]).astype("<u8", copy=False)


def seemingly_in(keys: Keys, words: Keys, count: int) -> Keys:
    """Return which of `keys`, which ascend, seem to be in a set of `count` keys.

    Raises ValueError if `words` is no such set.
    """
    from winnow.cleaning.summaries.kernels import find  # noqa: PLC0415 - with numba

    if words.nbytes != size_of(count):
        raise ValueError(f"{words.nbytes} bytes for {count} keys")
    first = first_bits(count)
    unary = _words(count + 2**first)
    found = np.empty(len(keys), np.bool_)
    hits = find(keys, count, first, words[:unary], words[unary:], found)
    if hits < 0:
        raise ValueError("the keys of a set do not ascend, or one is missing")
    return keys[found]


def _words(bits: int) -> int:
    return -(-bits // 64)


def warm_up() -> None:
    """Compile the kernels for the types that runs use."""
    keys = np.array([1, 2**63], np.uint64)
    words = np.frombuffer(packed(keys).tobytes(), np.uint64)
    seemingly_in(keys, words, 2)
