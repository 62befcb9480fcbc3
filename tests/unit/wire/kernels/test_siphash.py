from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from numpy.typing import NDArray

from tests.twins.siphash import siphash_plain
from winnow.wire.buffers import Bytes, as_bytes
from winnow.wire.kernels.siphash import siphash
from winnow.wire.kernels.siphash_lanes import LANES, hash_rest, hash_rows, hashed_in, lanes_of

SECRET = (0x0706050403020100, 0x0F0E0D0C0B0A0908)


# From `vectors_sip128` of the reference implementation: SipHash-2-4-128 of 00 01 02 .. under the
# key 00 .. 0f.
@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (0, "a3817f04ba25a8e66df67214c7550293"),
        (1, "da87c1d86b99af44347659119b22fc45"),
        (2, "8177228da4a45dc7fca38bdef60affe4"),
    ],
)
def test_plain_twin_matches_the_published_vectors(size: int, expected: str) -> None:
    first, second = siphash_plain(bytes(range(size)), SECRET, per_word=2, at_end=4)
    assert (first.to_bytes(8, "little") + second.to_bytes(8, "little")).hex() == expected


@given(st.binary(max_size=80), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_kernel_agrees_with_twin(data: bytes, k0: int, k1: int) -> None:
    padded = as_bytes(b"xyz" + data + b"!")
    first, second = siphash(padded, 3, len(data), np.uint64(k0), np.uint64(k1))
    assert (int(first), int(second)) == siphash_plain(data, (k0, k1))


def test_secret_changes_the_hash() -> None:
    assert siphash_plain(b"key", (1, 2)) != siphash_plain(b"key", (1, 3))


KEYS = st.lists(st.none() | st.binary(max_size=30), max_size=40)
"""Enough for several vectors; of sizes that differ."""


def rows_of(keys: list[bytes | None], gap: int) -> tuple[bytes, NDArray[np.uint64]]:
    """Return the keys one after the other, and the position of each."""
    data, places = b"", []
    for key in keys:
        data += bytes([255]) * gap
        places.append((len(data), -1 if key is None else len(key)))
        data += key or b""
    return data, np.array(places, np.int64).reshape(-1, 2).astype(np.uint64)


def expected_of(keys: list[bytes | None], secret: tuple[int, int]) -> list[tuple[int, int]]:
    return [(0, 0) if key is None else siphash_plain(key, secret) for key in keys]


@given(
    KEYS,
    st.integers(0, 3),
    st.integers(0, 20),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**64 - 1),
)
def test_many_keys_at_once_have_the_same_hashes_as_one_by_one(
    keys: list[bytes | None], gap: int, room: int, k0: int, k1: int
) -> None:
    """Also if the last key ends with the buffer."""
    data, rows = rows_of(keys, gap)
    buf = as_bytes(data + bytes(room))
    hash_rest(buf, rows, 0, len(rows), np.uint64(k0), np.uint64(k1))
    assert [tuple(row) for row in rows.tolist()] == expected_of(keys, (k0, k1))


@pytest.mark.parametrize("lanes", [4, 8])
def test_vectors_of_each_width_agree_with_twin(lanes: int) -> None:
    """If a CPU lacks vectors this wide, LLVM uses several narrower ones."""
    hashed = hashed_in(lanes)

    @njit
    def compiled(
        buf: Bytes, rows: NDArray[np.uint64], row: int, k0: np.uint64, k1: np.uint64
    ) -> None:
        hashed(buf, rows, row, k0, k1)

    keys = [
        None,
        b"",
        b"a",
        b"12345678",
        b"123456789",
        bytes(range(40)),
        b"1234567",
        b"x" * 16,
        b"before",
    ][:lanes]
    data, rows = rows_of([b"before", *keys], 1)
    compiled(as_bytes(data + bytes(8)), rows, 1, np.uint64(3), np.uint64(2**64 - 5))
    assert [tuple(row) for row in rows.tolist()] == [(1, 6), *expected_of([*keys], (3, 2**64 - 5))]


def test_vectors_are_not_used_if_a_load_would_pass_the_buffer_end() -> None:
    data, rows = rows_of([b"key"] * 8, 0)
    assert hash_rows(as_bytes(data), rows.copy(), 0, 8, np.uint64(1), np.uint64(2)) == (
        4 if LANES == 4 else 0
    )
    assert hash_rows(as_bytes(data + bytes(8)), rows, 0, 8, np.uint64(1), np.uint64(2)) == (
        8 if LANES > 1 else 0
    )


def test_widest_vectors_of_the_cpu_are_used() -> None:
    assert lanes_of({"avx512f": True, "avx512vbmi2": True, "avx2": True}) == 8
    assert lanes_of({"avx512f": True, "avx512vbmi2": False, "avx2": True}) == 4
    assert lanes_of({"avx512f": False, "avx2": True}) == 4
    assert lanes_of({"neon": True}) == 1
