import pytest

from winnow.words import counted, duration, moment, size


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (200_000, "195.3 KiB"),
        (17_613, "17.2 KiB"),
        ((1 << 20) - 1, "1.0 MiB"),
        (1 << 30, "1.0 GiB"),
        (3 << 50, "3.0 PiB"),
    ],
)
def test_size_is_shown_in_binary_units(count: int, text: str) -> None:
    assert size(count) == text


def test_moment_is_shown_in_utc() -> None:
    assert moment(1_795_300_000_000) == "2026-11-21T22:26:40Z"


@pytest.mark.parametrize(
    ("ms", "words"),
    [(0, "0 ms"), (999, "999 ms"), (90_000, "1.5 min"), (432_000_000, "5 d"), (-3_600_000, "-1 h")],
)
def test_durations_are_shown_in_words(ms: int, words: str) -> None:
    assert duration(ms) == words


def test_nouns_agree_with_numbers() -> None:
    assert [counted(n, "segment") for n in (0, 1, 2)] == ["0 segments", "1 segment", "2 segments"]
