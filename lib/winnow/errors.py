"""The errors that Winnow raises.

Every message says what was expected, what was found, where, and what to do. The fields below keep
the four parts apart. A `CorruptLogError` concerns one partition and never stops the others.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final, Self, TypeVar

from winnow.advice import COPY
from winnow.words import printable, redacted

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
"""The errno values of a full disk and of an exhausted quota."""


FAILS_ONE_PARTITION: Final = Exception
"""What to catch around the work on one of many partitions. Any exception fails that partition only;
the run continues with the others. `failure_of` returns its message. Events that end the whole run,
such as a signal, are not an `Exception`.
"""

_log = logging.getLogger(__name__)
_Error = TypeVar("_Error", bound="WinnowError")


_LONGEST = 10_000
"""Characters of each part of an error."""


def _told(text: str) -> str:
    if len(text) <= _LONGEST:
        return redacted(text)
    kept = text[:_LONGEST]
    before, scheme, url = kept.rpartition("://")
    if scheme and not any(one in url for one in "/ @"):  # the end of a password may be cut off
        kept = before
    return f"{redacted(kept)}... ({len(text)} characters)"


class WinnowError(Exception):
    """Base of all errors raised on purpose. The command line exits with `exit_code`."""

    exit_code = 1

    def __init__(
        self,
        problem: str,
        *,
        expected: str | None = None,
        found: str | None = None,
        where: str | None = None,
        hint: str | None = None,
        position: int | None = None,
    ) -> None:
        """`position`: the byte of the file where the problem is, for programs. People read `where`.

        Credentials in URLs are removed from all texts, because errors are logged, recorded and
        shown. Long texts are cut: what was found may be a line of a gigabyte. The message escapes
        what a terminal would obey: Python prints that of an error which nobody catches.
        """
        self.problem = _told(problem)
        self.expected = expected and _told(expected)
        self.found = found and _told(found)
        self.where = where and _told(where)
        self.hint = hint and _told(hint)
        self.position = position
        place = "" if self.where is None else f" ({self.where})"
        remedy = "" if self.hint is None else f". {self.hint}"
        super().__init__(printable(f"{self.what}{place}{remedy}"))

    def at(self, where: str) -> Self:
        """Return the same error with this `where`, without `position`, whose start is another."""
        return self.like(type(self), where=where)

    def like(self, kind: type[_Error], problem: str | None = None, **other: str | None) -> _Error:
        """Return an error of this kind with the same parts, except for `position` and `other`."""
        parts = {name: getattr(self, name) for name in ("expected", "found", "where", "hint")}
        return kind(problem or self.problem, **parts | other)

    def inside(self, path: str, start: int = 0) -> Self:
        """Return the same error for the file at `path`, which is named once. Its place counts from
        byte `start`, where the part that was read begins.
        """
        where = self.where or path
        if not where.startswith(path):
            where = f"{path}, {where}"
        if start and where != path:
            where += f", counted from byte {start}"
        return self.at(where)

    @property
    def what(self) -> str:
        """The problem, what was expected and what was found, without place and remedy."""
        parts = {"expected": self.expected, "found": self.found}
        told = ", ".join(f"{name} {part}" for name, part in parts.items() if part is not None)
        return f"{self.problem}: {told}" if told else self.problem

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only fields: the default would call cls(message) and lose them on the way back
        # from a worker.
        parts = {
            name: getattr(self, name) for name in ("expected", "found", "where", "hint", "position")
        }
        return partial(type(self), self.problem, **parts), ()


@contextmanager
def errors_inside(path: str, start: int = 0) -> Iterator[None]:
    """Say of a CorruptLogError in which file it is: see `WinnowError.inside`."""
    try:
        yield
    except CorruptLogError as error:
        raise error.inside(path, start) from error


def failure_of(error: Exception) -> str:
    """Return the message for an exception that failed one partition. Log an unexpected one."""
    if isinstance(error, OSError) and error.errno == errno.EIO:
        return (
            f"the disk can't read or write: {error}. The system's log says why (`dmesg`). "
            f"{COPY.removesuffix('.')}"
        )
    if isinstance(error, WinnowError | OSError):
        return str(error)
    _log.error("an unexpected error in the work on a partition", exc_info=error)
    return (
        f"an unexpected {type(error).__name__}: {str(error).strip() or 'without a message'}. This "
        "is a defect of Winnow, in the work on this partition only. Please report it, with the "
        "traceback from the log"
    )


@contextmanager
def optional(work: str) -> Iterator[None]:
    """Go on without `work`, which only saves time, if the block fails. What is wrong is reported
    elsewhere. But an unexpected error is a bug: it is logged with its traceback.
    """
    try:
        yield
    except (WinnowError, OSError) as error:
        _log.debug("%s is left out: %s", work, error)
    except FAILS_ONE_PARTITION:
        _log.exception("an unexpected error in %s, which is left out", work)


class UsageError(WinnowError):
    """The command or its settings are invalid. Nothing was read."""

    exit_code = 2


class StoppedError(WinnowError):
    """The run was asked to stop, or its time was up, before it had a result."""

    exit_code = 3


class CorruptLogError(WinnowError):
    """Bytes of one partition that cannot be understood. The partition is not changed."""

    exit_code = 3


class UnpredictedLoadError(CorruptLogError):
    """A broker's loader may load this log, but Winnow does not follow how."""


class LinkError(UnpredictedLoadError):
    """A path leads through a symbolic link. A broker follows the link, Winnow does not."""


class LostSegmentError(CorruptLogError):
    """The `.log` of a segment is lost. Its indexes are kept: they prove what is missing."""


class OversizedBatchError(CorruptLogError):
    """A batch whose decompressed size exceeds the limit."""


class BatchMemoryError(OversizedBatchError):
    """A batch that may be sound but needs more memory than a task may use. The partition is not
    changed.
    """

    exit_code = 1


class VerificationError(WinnowError):
    """A staged segment, read back, is not what was written. Its partition is not committed."""

    exit_code = 4


class LogDirInUseError(WinnowError):
    """Another process holds `.lock`."""

    exit_code = 5


class NoSpaceError(WinnowError):
    """The file system has no room for what would be written."""

    exit_code = 6
