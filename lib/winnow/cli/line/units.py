"""Times, durations, sizes, rates and keys, as they are typed."""

from __future__ import annotations

import base64
import re
from datetime import datetime
from decimal import Decimal

from winnow.arguments import clock_ms, time_ms
from winnow.clock import ms_of
from winnow.errors import UsageError

_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")
_SIZE = re.compile(r"(?P<number>[0-9]+(_[0-9]+)*(\.[0-9]+(?!B))?)(?P<unit>B|[KMGT](iB)?)", re.ASCII)
_UNIT_BYTES = {"B": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_MOST_DIGITS = 24
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600}


def parse_now(text: str, *, option: str = "--now") -> int:
    """Like `parse_time`, for the clock of a run: a number that must be in seconds is refused."""
    now = parse_time(text, option=option)
    return clock_ms(now, option) if _is_number(text) else now


def parse_time(text: str, *, option: str) -> int:
    """Parse `MS` or ISO-8601 and return milliseconds since the epoch. A time without a zone is UTC.
    Raises UsageError for anything else.
    """
    if _is_number(text):
        return time_ms(int(text[:_MOST_DIGITS]), option)
    try:
        return time_ms(ms_of(datetime.fromisoformat(text)), option)
    except ValueError:
        expected = "milliseconds since 1970 or ISO-8601 such as 2026-11-21T09:30:00Z"
        raise _unclear(text, option, expected) from None


def _unclear(text: str, option: str, expected: str) -> UsageError:
    return UsageError(f"{option} can't be understood", expected=expected, found=repr(text))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def parse_duration(text: str, *, option: str) -> float:
    """Return the seconds of `90s`, `15m`, `2h` or `1.5h`. Raises UsageError for anything else, and
    for a duration of zero.
    """
    number, unit = text[:-1], text[-1:]
    if unit not in _UNIT_SECONDS or not _NUMBER.fullmatch(number) or float(number) == 0:
        raise _unclear(text, option, "a duration such as 90s, 15m or 2h")
    return float(number) * _UNIT_SECONDS[unit]


def parse_size(text: str, *, option: str) -> int:
    """Return the bytes of `512MiB`, `20G`, `1.5TiB` or `4096B`. G and GiB are the same. Raises
    UsageError for anything else, and for a number without a unit: nobody means 20 bytes.
    """
    if text == "0":
        return 0
    found = _SIZE.fullmatch(text)
    if found is None or len(text) > _MOST_DIGITS:
        raise _unclear(text, option, "a size with a unit, such as 512MiB, 20G or 4096B")
    return int(Decimal(found["number"]) * _UNIT_BYTES[found["unit"][0]])


def parse_goal(text: str, *, option: str) -> int:
    """Return the bytes of a size that is not zero. Raises UsageError for anything else."""
    size = parse_size(text, option=option)
    if not size:
        raise UsageError(f"{option} is zero", expected="at least 1 byte", found=repr(text))
    return size


def parse_rate(text: str, *, option: str) -> int:
    """Return the bytes per second of `50MiB` or `50MiB/s`. Raises UsageError for anything else."""
    return parse_goal(text.removesuffix("/s"), option=option)


def parse_hex(text: str, *, option: str) -> bytes:
    """Return the bytes of pairs of hexadecimal digits. Raises UsageError for anything else."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise UsageError(
            f"{option} can't be read", expected="pairs of hexadecimal digits", found=text
        ) from None


def parse_bytes(text: str, *, option: str) -> bytes:
    """Return the bytes of a text, or of `hex:`, `base64:` or `text:` and a text. Raises UsageError
    for none, and for bytes that their prefix does not fit.
    """
    prefix, colon, rest = text.partition(":")
    try:
        if colon and prefix == "hex":
            found = bytes.fromhex(rest)
        elif colon and prefix == "base64":
            found = base64.b64decode(rest, validate=True)
        else:
            found = (rest if colon and prefix == "text" else text).encode()
    except ValueError as error:
        raise UsageError(
            f"{option} can't be read",
            expected="text in UTF-8, hex:6B6579 or base64:a2V5",
            found=f"{prefix}: {error}" if colon else "bytes that are not UTF-8",
        ) from error
    if not found:
        raise UsageError(
            f"{option} is empty",
            expected="at least one byte",
            hint="Is a variable of the shell empty? Only the Python API takes the empty key.",
        )
    return found
