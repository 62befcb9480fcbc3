from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twins.siphash import siphash_plain
from winnow.wire.buffers import as_bytes
from winnow.wire.kernels.siphash import siphash

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
