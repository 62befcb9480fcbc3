"""Sizes, times and texts formatted for people."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import UTC, datetime

_STEP = 1024
_400_YEARS_MS = 146_097 * 86_400_000
"""The calendar repeats."""
_LAST_DATED_MS = 253_402_300_800_000
"""The year 10,000."""
_DURATIONS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))
_SECONDS = 10
# A secret may contain slashes, as S3 secrets do, or an apostrophe, as URLs may, or `@`, which ends
# it only if no other one is in front of the host. A number and a slash after the colon are a port.
_URL = re.compile(
    r"""(?<=[A-Za-z0-9+.-])://(?:[^\s"'<>/@:]*:(?![0-9]+/)[^\s"<>@]{0,1000}+@)?[^\s"'<>]*"""
)
_USER_AND_SECRET = re.compile("://(?:[^/@:]*:(?![0-9]+/)[^@]*|[^/@]+)@(?:[^/@]*@)*")
_PARAMETER = re.compile(r"""[?&][^\s&"'<>]*""")
_SECRET = re.compile("passw|token|secret|signature|credential|api[_-]?key", re.IGNORECASE)


def size(count: int | None) -> str:
    """`0 B`, `17.2 KiB`, `1.0 GiB`. `?` if unknown."""
    if count is None:
        return "?"
    if abs(count) < _STEP:
        return f"{count} B"
    value = float(count)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        value /= _STEP
        if abs(value) < _STEP - 0.05:  # what would print as 1024.0 takes the next unit
            return f"{value:.1f} {unit}"
    return f"{value / _STEP:.1f} PiB"


def duration(ms: int) -> str:
    """`432000000` -> `5 d`, `90000` -> `1.5 min`."""
    for unit, name in _DURATIONS:
        if abs(ms) >= unit:
            return f"{ms / unit:.1f}".removesuffix(".0") + f" {name}"
    return f"{ms} ms"


def roughly(seconds: float) -> str:
    """Format an estimate without false precision: `seconds`, `about 5 min`."""
    return "seconds" if seconds < _SECONDS else f"about {duration(round(seconds) * 1000)}"


def moment(now: int) -> str:
    """Format milliseconds since the epoch as ISO-8601 in UTC."""
    return f"{datetime.fromtimestamp(now / 1000, tz=UTC).isoformat(timespec='seconds')[:-6]}Z"


def printable(text: str) -> str:
    """Escape everything that a terminal would obey or that cannot be encoded. Names and values may
    come from damaged files.
    """
    return "\n".join(map(one_line, text.split("\n")))


def one_line(text: str) -> str:
    """Like `printable`, for a single line: line breaks are escaped too."""
    return (
        text if text.isprintable() else "".join(c if c.isprintable() else escaped(c) for c in text)
    )


def redacted(text: str) -> str:
    """Remove the credentials from URLs: `s3a://***@bucket`, `?token=***`. Keep all other text."""
    if "://" not in text:
        return text
    return _PARAMETER.sub(_without_secret, _URL.sub(_without_user, text))


# Names from files may be long and contain anything: both functions take linear time.


def _without_user(url: re.Match[str]) -> str:
    before, at, rest = url[0].rpartition("@")
    return _USER_AND_SECRET.sub("://***@", before + at) + rest


def _without_secret(parameter: re.Match[str]) -> str:
    text = parameter[0]
    secret = _SECRET.search(text)
    value = text.find("=", secret.end()) + 1 if secret else 0
    return f"{text[:value]}***" if 0 < value < len(text) else text


def escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode()


def first_few(names: Sequence[str], most: int) -> str:
    """`a, b, c`; of more than `most` names, the first ones and how many others there are."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest:,} more" if rest > 0 else "")


def counted(count: int, noun: str) -> str:
    """`1 segment`, `3 segments`, `2,000 segments`, `2 directories`."""
    if count == 1:
        return f"1 {noun}"
    consonant = noun.endswith("y") and noun[-2:-1] not in "aeiou"
    return f"{count:,} {noun[:-1]}ies" if consonant else f"{count:,} {noun}s"


def dated(ms: int) -> str:
    """Like `iso`, also outside the calendar, as Java does: `+292277026-08-17T07:12:55.806Z`."""
    cycles = 0 if 0 <= ms < _LAST_DATED_MS else ms // _400_YEARS_MS
    inside = iso(ms - cycles * _400_YEARS_MS)
    year = int(inside[:4]) + 400 * cycles
    return inside if not cycles else f"{'+' if year > 9999 else ''}{year:04d}{inside[4:]}"


def instant(ms: int) -> str:
    """Like `iso`, but -1 becomes `no time`."""
    return "no time" if ms == -1 else iso(ms)


def iso(ms: int) -> str:
    """Format as ISO-8601 in UTC to the millisecond, as `--timestamp` takes it. A value outside the
    calendar becomes a number.
    """
    try:
        seconds = datetime.fromtimestamp(ms // 1000, tz=UTC)
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"
    return f"{seconds:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03d}Z"


def nodes_named(nodes: Collection[int]) -> str:
    """`node 1`, `nodes 1, 2 and 3`."""
    return f"node{'s' if len(nodes) > 1 else ''} {listed(nodes)}"


def listed(numbers: Collection[int]) -> str:
    """`1, 2 and 3`."""
    *first, last = map(str, sorted(numbers))
    return f"{', '.join(first)} and {last}" if first else last
