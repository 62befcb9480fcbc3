"""The call of a verb: its request, its Spark, its progress and its answer. It ends with the verb's
exit code, or with that of an error, which is printed.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from errno import EFBIG, EIO
from typing import Any, Protocol

from winnow.cli.options import CommandLine
from winnow.cli.out import Line, complain, errors, tell_errors, tell_json, tell_page
from winnow.cli.profile import profiling_verb, table
from winnow.cli.session import end_of_jvm, started_spark
from winnow.cli.signals import Ended, Signals, interrupt_behind
from winnow.cli.text.json_output import failure_to_json
from winnow.cli.text.progress import progress_on_stderr
from winnow.clock import now_ms
from winnow.errors import NO_SPACE, NoSpaceError, WinnowError, failure_of
from winnow.runtime.no_space import words_of_no_space
from winnow.runtime.profile import Profile, Profiler
from winnow.runtime.progress import Progress
from winnow.storage.permissions import user_name
from winnow.storage.urls import is_remote

INTERRUPTED = 130
"""The exit code that a shell reports for a command ended by Ctrl-C."""


WORK = 10
"""The exit code with --detailed-exitcode if there is work to do, and nothing else to report."""


class Outlet(Protocol):
    """Reports a run to other places than stdout."""

    def failed(self, message: str, now: int | None, exit_code: int) -> None:
        """Report that the run ended without a result."""


class Call:
    def __init__(self, request: CommandLine) -> None:
        self.request = request
        self.now: int | None = None
        """The time that all decisions use, once it is known."""
        self.outlets: Outlet | None = None
        """Where an error is reported besides stderr and stdout."""
        self.signals = Signals()
        self.until_told = ExitStack()
        """Contexts that end only after an error was printed: the copy of stderr in --log-file."""
        self.paused: Callable[[], AbstractContextManager[object]] = nullcontext
        """A context without progress, for a question."""
        self._begun_ms = now_ms()
        self._profiler: Profiler | None = None

    @contextmanager
    def spark(self, *, sql: bool = False) -> Iterator[Any]:
        """Start Spark. For use when all checks that need no Spark are done. With --profile, count
        its jobs inside the block as the verb's.
        """
        asked_ms = now_ms()
        with started_spark(sql=sql, quiet=self.request.quiet) as spark, ExitStack() as profiled:
            if self.request.profile:
                jobs = profiling_verb(spark, begun_ms=self._begun_ms, asked_ms=asked_ms)
                self._profiler = profiled.enter_context(jobs)
            yield spark

    @contextmanager
    def progress(self) -> Iterator[Progress]:
        """Show progress, through the profiler if there is one."""
        with progress_on_stderr(quiet=self.request.quiet) as display:
            self.paused = getattr(display, "paused", nullcontext)
            if self._profiler is not None:
                self._profiler.tell(display)
            yield self._profiler or display

    def begins(self, phase: str) -> None:
        """Begin a phase of the profile after the run itself."""
        if self._profiler is not None:
            self._profiler.mark(phase)

    def profile(self) -> dict[str, Profile]:
        """Return the additional keys of --json. Empty if a profile was not requested or is
        unavailable.
        """
        try:
            return {} if self._profiler is None else {"profile": self._profiler.profile()}
        except Exception as error:  # noqa: BLE001 - a failed profile must not change the exit code
            complain(f"there is no profile: {type(error).__name__}: {error}".partition("\n")[0])
            return {}

    def tell_profile(self) -> None:
        """Print the profile as a table on stderr, after everything else."""
        for one in self.profile().values():
            tell_errors(table(one))

    def answer(self, to_json: Callable[[], Mapping[str, Any]], page: Iterable[Line]) -> None:
        """Print one JSON object or, for people, a page. Scripts depend on the keys of the object:
        do not remove or rename any.
        """
        self.begins("printing the result")
        if self.request.json:
            tell_json({**to_json(), **self.profile()})
        else:
            tell_page(page)
        self.tell_profile()


def ended(verb: Callable[..., int], request: CommandLine, *own: Any) -> int:  # noqa: ANN401
    """Return the exit code of a verb, or of the error that it raised. Errors are printed on stderr
    and, if requested, as JSON on stdout. A signal that stopped the verb has its own exit code.
    """
    call = Call(request)
    with call.until_told:
        try:
            return verb(call, *own)
        except KeyboardInterrupt as error:
            message, code = _interrupted(error)
        except Exception as error:  # noqa: BLE001 - every error must be reported and have an exit code
            interrupt = interrupt_behind(error)
            message, code = _understood(error) if interrupt is None else _interrupted(interrupt)
            if not message:
                message = f"unexpected {type(error).__name__}: {error}".partition("\n")[0]
                errors().write(traceback.format_exc())
        code = call.signals.exit_code(code)
        complain(message)
        if call.outlets is not None:
            call.outlets.failed(message, call.now, code)
        if request.json:
            with suppress(WinnowError):  # the message is on stderr
                tell_json(failure_to_json(message, now=call.now, exit_code=code))
        return code


def _interrupted(interrupt: KeyboardInterrupt) -> tuple[str, int]:
    if isinstance(interrupt, Ended):
        return str(interrupt), interrupt.exit_code
    return "interrupted", INTERRUPTED


def _understood(error: Exception) -> tuple[str, int]:
    """Return the message and the exit code of an error. The message is empty if the error is a
    surprise.
    """
    known = end_of_jvm(error) or error
    if isinstance(known, WinnowError):
        return str(known), known.exit_code
    if isinstance(error, OSError) and error.errno in NO_SPACE:
        if error.filename:
            return words_of_no_space(error), NoSpaceError.exit_code
        where = "where Spark keeps its files (spark.local.dir)"
        return f"not enough space {where}: {error}", NoSpaceError.exit_code
    if isinstance(error, OSError):
        return _of_the_system(error), 1
    of_spark = type(error).__module__.partition(".")[0] in {"py4j", "pyspark"}
    if not of_spark or "Traceback (most recent call last)" in str(error):  # of Python in a task
        return "", 1
    from winnow.runtime.failed_job import failed_job  # noqa: PLC0415 - Spark is loaded now

    return failed_job(error).message, 1


def _of_the_system(error: OSError) -> str:
    if is_remote(str(error.filename or "")):
        where = f"{error.strerror} ({error.filename})"
        return f"a place can't be reached, read or written: {where}"
    if error.errno == EFBIG:
        return f"a file may not grow further: {error}. Raise the limit of file sizes (ulimit -f)"
    if error.errno == EIO:
        return failure_of(error)
    if isinstance(error, PermissionError):
        user = user_name(os.geteuid())
        return f"user {user} may not read or change {error.filename}: run as its owner"
    return ""
