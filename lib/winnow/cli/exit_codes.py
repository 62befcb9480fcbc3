"""How a verb ends: with its exit code, or with that of the error that ended it, which is told."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from errno import EFBIG, EIO

from winnow.cli.out import Errors, complain, tell_json
from winnow.cli.session import end_of_jvm
from winnow.cli.signals import Ended
from winnow.cli.text.json_output import failure_to_json
from winnow.errors import NO_SPACE, NoSpaceError, WinnowError, failure_of
from winnow.storage.permissions import user_name
from winnow.storage.urls import is_remote

INTERRUPTED = 130
"""The exit code that a shell reports for a command ended by Ctrl-C."""


def guarded(
    work: Callable[[], int],
    *,
    json: bool,
    now: Callable[[], int | None] = lambda: None,
    failed: Callable[[str, int | None, int], None] | None = None,
    exit_code: Callable[[int], int] = lambda code: code,
) -> int:
    """Return the exit code of `work`, or of the error that it raised. Errors are printed on stderr
    and, if requested, as JSON on stdout.

    `failed` gets the message, the time that all decisions use, and the exit code of an error.
    `exit_code` makes the exit code of an error, or of a stop, that of the process.
    """
    try:
        return work()
    except WinnowError as error:
        message, code = str(error), error.exit_code
    except Ended as error:
        message, code = str(error), error.exit_code
    except KeyboardInterrupt:
        message, code = "interrupted", INTERRUPTED
    except Exception as error:  # noqa: BLE001 - every error must be reported and have an exit code
        message, code = _understood(error)
        if not message:
            message = f"unexpected {type(error).__name__}: {error}".partition("\n")[0]
            Errors().traceback()
    code = exit_code(code)
    complain(message)
    if failed is not None:
        failed(message, now(), code)
    if json:
        with suppress(WinnowError):  # the message is on stderr
            tell_json(failure_to_json(message, now=now(), exit_code=code))
    return code


def _understood(error: Exception) -> tuple[str, int]:
    """Return the message and the exit code of an error. The message is empty if the error is a
    surprise.
    """
    if ended := end_of_jvm(error):
        return str(ended), ended.exit_code
    return _of_the_system(error) if isinstance(error, OSError) else (_of_spark(error), 1)


def _of_spark(error: Exception) -> str:
    """Return the message of an error that Spark reports. It is empty if the error is a surprise, as
    one of Python in a task is.
    """
    if type(error).__module__.partition(".")[0] not in {"py4j", "pyspark"}:
        return ""
    if "Traceback (most recent call last)" in str(error):
        return ""
    from winnow.runtime.failed_job import failed_job  # noqa: PLC0415 - Spark is loaded now

    return failed_job(error).message


def _of_the_system(error: OSError) -> tuple[str, int]:
    """Return the message and the exit code of an error that the system reports. The message is
    empty if the error is a surprise.
    """
    if error.errno in NO_SPACE:
        where = "" if error.filename else " where Spark keeps its files (spark.local.dir)"
        return f"not enough space{where}: {error}", NoSpaceError.exit_code
    if is_remote(str(error.filename or "")):
        where = f"{error.strerror} ({error.filename})"
        return f"a place can't be reached, read or written: {where}", 1
    if error.errno == EFBIG:
        return f"a file may not grow further: {error}. Raise the limit of file sizes (ulimit -f)", 1
    if error.errno == EIO:
        return failure_of(error), 1
    if isinstance(error, PermissionError):
        user = user_name(os.geteuid())
        return f"user {user} may not read or change {error.filename}: run as its owner", 1
    return "", 1
