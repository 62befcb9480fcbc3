import pytest

from winnow.words import moment, size


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
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
