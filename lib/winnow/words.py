"""Figures as a person reads them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_STEP = 1024
# A secret may have slashes in it, as those of S3 do. What is a number and a slash after the colon
# is a port.
_USER_AND_SECRET = re.compile(
    r"""([A-Za-z][A-Za-z0-9+.-]*://)(?:[^\s/@:"'<>]*:(?![0-9]+/)[^\s@"'<>]*|[^\s/@"'<>]+)@"""
)
_SECRET_PARAMETER = re.compile(
    r"""([?&][^\s=&"'<>]*(?:passw|token|secret|signature|credential|apikey|api_key|api-key)[^\s=&"'<>]*=)[^\s&"'<>]+""",
    re.IGNORECASE,
)


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
    return (
        datetime.fromtimestamp(now / 1000, tz=UTC)
        .isoformat(timespec="seconds")
        .replace("+00:00", "Z")
    )


def printable(text: str) -> str:
    """Nothing that a terminal would obey, or that can't be encoded: names and values may come from
    damaged files.
    """
    return "\n".join(map(one_line, text.split("\n")))


def one_line(text: str) -> str:
    """The same for what has to be one line: a name with a line break can't pass for two."""
    return (
        text if text.isprintable() else "".join(c if c.isprintable() else escaped(c) for c in text)
    )


def redacted(text: str) -> str:
    """Without the credentials of the URLs in it: `s3a://***@bucket`, `?token=***`. All else stays."""
    if "://" not in text:
        return text
    return _SECRET_PARAMETER.sub(r"\1***", _USER_AND_SECRET.sub(r"\1***@", text))


def escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode()


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def instant(ms: int) -> str:
    """ISO-8601 in UTC to the millisecond, as `--timestamp` takes it; `no time` for -1, a number for
    no time of ours.
    """
    if ms == -1:
        return "no time"
    try:
        seconds = datetime.fromtimestamp(ms // 1000, tz=UTC)
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"
    return f"{seconds:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03d}Z"
