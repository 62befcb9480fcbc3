"""Figures as a person reads them."""

from __future__ import annotations

from datetime import UTC, datetime

_STEP = 1024


def size(count: int) -> str:
    """`0 B`, `17.2 KiB`, `1.0 GiB`."""
    if abs(count) < _STEP:
        return f"{count} B"
    value = float(count)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        value /= _STEP
        if abs(value) < _STEP - 0.05:  # what would print as 1024.0 goes up a unit
            return f"{value:.1f} {unit}"
    return f"{value / _STEP:.1f} PiB"


def moment(now: int) -> str:
    """ISO-8601 in UTC of milliseconds since the epoch."""
    return datetime.fromtimestamp(now / 1000, tz=UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def printable(text: str) -> str:
    """Nothing that a terminal would obey, or that can't be encoded: names and values may come from damaged files."""
    return "".join(c if c.isprintable() or c == "\n" else escaped(c) for c in text)


def escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode()


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def instant(ms: int) -> str:
    """ISO-8601 in UTC to the millisecond, as `--timestamp` takes it; `no time` for -1, a number for no time of ours."""
    if ms == -1:
        return "no time"
    try:
        seconds = datetime.fromtimestamp(ms // 1000, tz=UTC)
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"
    return f"{seconds:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03d}Z"
