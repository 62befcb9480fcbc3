"""Sets of keys in two bytes a key, against a set of shortened numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twins import truncated as twin
from winnow.cleaning.summaries.truncated import packed, seemingly_in, share_seemingly_in, size_of

_KEYS = st.lists(st.integers(0, 2**64 - 1), unique=True, max_size=300)


def _sorted(keys: list[int]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array(sorted(keys), np.uint64)


@given(_KEYS, _KEYS)
def test_the_same_keys_seem_to_be_in_it(own: list[int], others: list[int]) -> None:
    asked = sorted({*own, *others, *(key ^ 1 for key in own), *(key ^ 2**47 for key in own)})
    words = packed(_sorted(own))
    found = seemingly_in(_sorted(asked), words, len(own)).tolist()
    assert found == twin.seemingly_in(asked, own)
    assert set(own) <= set(found)


@pytest.mark.parametrize("count", [1, 2, 3, 1000, 65_535, 65_536, 1_000_000])
def test_a_key_takes_two_bytes(count: int) -> None:
    rng = np.random.default_rng(count)
    keys = np.unique(rng.integers(0, 2**64, count, np.uint64))
    words = packed(keys)
    assert words.nbytes == size_of(len(keys)) <= 2 * len(keys) + 24


def test_of_foreign_keys_about_one_in_16384_seems_to_be_in_it() -> None:
    rng = np.random.default_rng(7)
    keys = np.unique(rng.integers(0, 2**64, 2**17, np.uint64))
    others = np.unique(rng.integers(0, 2**64, 2**21, np.uint64))
    share = len(seemingly_in(others, packed(keys), len(keys))) / len(others)
    expected = share_seemingly_in(len(keys))
    assert 1 / 16_384 / 2 <= expected <= 1 / 8_192
    assert expected / 2 < share < expected * 2


def test_a_damaged_set_is_an_error() -> None:
    keys = _sorted([5, 2**60, 2**63])
    words = packed(keys)
    with pytest.raises(ValueError, match="bytes for 4 keys"):
        seemingly_in(keys, words[:-1], 4)
    emptied = np.zeros_like(words)
    with pytest.raises(ValueError, match="do not ascend, or one is missing"):
        seemingly_in(keys, emptied, 3)
