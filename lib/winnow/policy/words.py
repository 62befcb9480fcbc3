"""Numbers formatted for operators."""

from __future__ import annotations

_DURATIONS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))
_SIZES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_SECONDS = 10


def duration(ms: int) -> str:
    """`432000000` -> `5 d`, `90000` -> `1.5 min`."""
    return _scaled(ms, _DURATIONS, "ms")


def roughly(seconds: float) -> str:
    """Format an estimate without false precision: `seconds`, `about 5 min`."""
    return "seconds" if seconds < _SECONDS else f"about {duration(round(seconds) * 1000)}"


def size(count: int) -> str:
    """`200000` -> `195.3 KiB`."""
    return _scaled(count, _SIZES, "B")


def number(count: int, noun: str) -> str:
    """`1 segment`, `3 segments`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _scaled(value: int, units: tuple[tuple[int, str], ...], smallest: str) -> str:
    for unit, name in units:
        if abs(value) >= unit:
            return f"{value / unit:.1f}".removesuffix(".0") + f" {name}"
    return f"{value} {smallest}"
