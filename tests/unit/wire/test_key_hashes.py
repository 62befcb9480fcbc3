"""Keyed hashes of keys are those of Python's own BLAKE2b."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from winnow.wire.key_search import are_among, key_hashes


def hashed(keys: list[bytes], secret: bytes) -> list[bytes]:
    ends = np.cumsum([0, *map(len, keys)], dtype=np.int64)
    data = np.frombuffer(b"".join(keys), np.uint8)
    return [row.astype("<u8").tobytes() for row in key_hashes(data, ends, secret)]


@given(st.lists(st.binary(max_size=400), max_size=8), st.binary(min_size=1, max_size=64))
def test_hashes_are_blake2b(keys: list[bytes], secret: bytes) -> None:
    assert hashed(keys, secret) == [
        blake2b(key, digest_size=16, key=secret).digest() for key in keys
    ]


@pytest.mark.parametrize("size", [0, 1, 127, 128, 129, 255, 256, 257, 1000])
def test_hashes_at_the_borders_of_blocks(size: int) -> None:
    key, secret = bytes(i & 0xFF for i in range(size)), bytes(range(32))
    assert (
        hashed([b"x", key, key], secret)[1:]
        == [blake2b(key, digest_size=16, key=secret).digest()] * 2
    )


def test_only_whole_hashes_match() -> None:
    secret = b"s"
    keys = [b"a", b"b", b"", b"a"]
    ends = np.array([0, 1, 2, 2, 3], np.int64)
    hashes = key_hashes(np.frombuffer(b"aba", np.uint8), ends, secret)
    wanted = [hashed([b"a"], secret)[0], hashed([b""], secret)[0]]
    assert are_among(hashes, wanted).tolist() == [True, False, True, True]
    half = wanted[0][:8] + bytes(8)
    assert are_among(hashes, [half]).tolist() == [False] * len(keys)
    assert are_among(hashes, []).tolist() == [False] * len(keys)


@pytest.mark.parametrize(
    ("ends", "secret"),
    [([0, 4], b"s"), ([-1, 2], b"s"), ([0, 2, 1], b"s"), ([0, 1], b""), ([0, 1], bytes(65))],
)
def test_wrong_arguments_are_refused(ends: list[int], secret: bytes) -> None:
    with pytest.raises(ValueError, match="bytes"):
        key_hashes(np.zeros(3, np.uint8), np.array(ends, np.int64), secret)
