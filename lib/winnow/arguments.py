"""Checks of what callers of the Python API pass. A wrong type is refused here, with a sentence,
before it can look like a success or like damage.
"""

from __future__ import annotations

from collections.abc import Sequence

from winnow.clock import LATEST_MS
from winnow.errors import UsageError

SECONDS_BELOW = 10**11
"""As milliseconds since 1970, smaller numbers are before 1974. They are seconds, or a year."""


def names(found: object, option: str) -> tuple[str, ...]:
    """Return one text or several texts as a tuple. Raises UsageError for anything else."""
    several = [found] if isinstance(found, str) else found
    if not isinstance(several, Sequence) or not all(isinstance(one, str) for one in several):
        raise refused(option, "a text, or a sequence of texts", found)
    return tuple(several)


def whole(found: object, option: str, *, least: int) -> int:
    """Return a whole number of at least `least`. Raises UsageError for anything else."""
    if not isinstance(found, int) or isinstance(found, bool) or found < least:
        raise refused(option, f"a whole number, {least} or more", found)
    return found


def time_ms(found: object, option: str) -> int:
    """Return a time in ms since the epoch. Raises UsageError for anything else."""
    if not isinstance(found, int) or isinstance(found, bool):
        raise refused(option, "a whole number of milliseconds since 1970", found)
    if not 0 <= found <= LATEST_MS:
        raise UsageError(
            f"{option} is out of range", expected=f"0 to {LATEST_MS} ms", found=f"{found} ms"
        )
    return found


def clock_ms(found: object, option: str) -> int:
    """Like `time_ms`, for the clock of a run: a number that must be in seconds is refused."""
    found = time_ms(found, option)
    if 0 < found < SECONDS_BELOW:
        raise UsageError(
            f"{option} is before Kafka existed",
            expected="milliseconds since 1970: 13 digits today",
            found=f"{found} ms",
            hint="Is it in seconds?",
        )
    return found


def flag(found: object, option: str) -> bool:
    """Return True or False. Raises UsageError for anything else."""
    if not isinstance(found, bool):
        raise refused(option, "True or False", found)
    return found


def refused(option: str, expected: str, found: object) -> UsageError:
    """Return the error for an argument that can't be used."""
    return UsageError(f"{option} can't be used", expected=expected, found=repr(found)[:80])
