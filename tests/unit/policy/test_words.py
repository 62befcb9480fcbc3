from __future__ import annotations

import pytest

from winnow.policy.words import duration, number, size


@pytest.mark.parametrize(
    ("ms", "words"),
    [(0, "0 ms"), (999, "999 ms"), (90_000, "1.5 min"), (432_000_000, "5 d"), (-3_600_000, "-1 h")],
)
def test_durations_are_shown_in_words(ms: int, words: str) -> None:
    assert duration(ms) == words


@pytest.mark.parametrize(
    ("count", "words"), [(0, "0 B"), (1023, "1023 B"), (200_000, "195.3 KiB"), (1 << 30, "1 GiB")]
)
def test_sizes_are_shown_in_binary_units(count: int, words: str) -> None:
    assert size(count) == words


def test_nouns_agree_with_numbers() -> None:
    assert [number(n, "segment") for n in (0, 1, 2)] == ["0 segments", "1 segment", "2 segments"]
