"""The entry point of every verb, for spark-submit, a console script or a test."""

from __future__ import annotations

import atexit
import logging
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import typer
from typer.exceptions import TyperException
from typer.main import get_command

from winnow.cli.app import app
from winnow.cli.call import INTERRUPTED
from winnow.cli.out import complain, errors, flush_streams, guard_streams, tell_json
from winnow.cli.signals import Ended, end_by_signals, end_with_jvm, interrupt_behind
from winnow.cli.streams import own_streams
from winnow.cli.text.json_output import failure_to_json
from winnow.errors import WinnowError
from winnow.runtime.core_files import make_no_core_files
from winnow.runtime.garbage import seldom_collecting
from winnow.storage.private import let_others_not_write
from winnow.words import one_line
from winnow.worker.archives import load_from_files

_REPLACED = "\ufffd"
_TYPED = "arguments"
"""Where spark-submit.sh keeps the arguments, each with a zero byte after it."""


def main() -> None:
    make_no_core_files()
    load_from_files()
    let_others_not_write()
    own_streams()
    guard_streams()
    end_by_signals()
    end_with_jvm()
    log_in_lines()
    codes: list[int] = []
    atexit.register(_end, codes)  # the first to be registered is the last to be called
    name = Path(sys.argv[0]).name
    program = "./spark-submit.sh" if name == "winnow_job.py" else name
    with seldom_collecting():  # also while results are reported
        codes.append(run(typed_arguments(sys.argv[1:]), program=program))
    sys.exit(codes[-1])


def _end(codes: Sequence[int]) -> None:
    """End the process with the exit code, if there is one, before Python frees what it has loaded.
    That takes 0.1 s, and a thread of a native library that takes the GIL meanwhile aborts the
    process: obstore's do when they have handed over an answer, and the exit code was 134.
    """
    if codes:
        logging.shutdown()  # which was registered earlier
        flush_streams()
        os._exit(codes[-1])


class _InOneLine(logging.Formatter):
    """A name with a line break could look like a second message."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        return one_line(super().formatMessage(record))


def log_in_lines() -> None:
    """Print warnings of this process on stderr, each on one line before its traceback."""
    root, handler = logging.getLogger(), logging.lastResort
    if handler is not None:
        handler.addFilter(_is_not_raised)
        handler.setFormatter(_InOneLine())
        root.addHandler(handler)  # otherwise py4j, which logs to the root, would add one of its own


def _is_not_raised(record: logging.LogRecord) -> bool:
    """Return False for what py4j logs with a traceback and also raises: the KeyboardInterrupt of
    a signal, what fails because of it, and the end of the JVM.
    """
    error = record.exc_info[1] if record.exc_info else None
    return interrupt_behind(error) is None and type(error).__module__ != "py4j.protocol"


def typed_arguments(given: Sequence[str]) -> list[str]:
    """Return the arguments as they were typed, or `given`, which came through Java, if those cannot
    be found. Java, which starts this process, replaces bytes that are not UTF-8, such as those of a
    path in Latin-1.
    """
    place = os.environ.get("WINNOW_RUN_DIR")
    if place is None or not any(_REPLACED in one for one in given):
        return list(given)
    try:
        with open(f"{place}/{_TYPED}", "rb") as file:
            typed = [os.fsdecode(one) for one in file.read().split(b"\0")[:-1]]
    except OSError:
        return list(given)
    # The environment may come from another run.
    same = len(typed) == len(given) and all(
        _REPLACED in one or one == other for one, other in zip(given, typed, strict=True)
    )
    return typed if same else list(given)


def run(arguments: Sequence[str], *, program: str = "winnow") -> int:
    """Return the exit code. typer reports mistakes in the arguments on stderr."""
    try:
        code = _command()(args=list(arguments), prog_name=program, standalone_mode=False)
    except (TyperException, WinnowError) as error:  # a WinnowError: in the file of --config
        message = str(error) if isinstance(error, WinnowError) else error.format_message()
        show = getattr(error, "show", None)  # with the usage of the verb, if there is one
        if show is None:
            complain(message)
        else:
            show(file=errors())
        if "--json" in arguments:
            tell_json(failure_to_json(message, now=None, exit_code=error.exit_code))
        return error.exit_code
    except Ended as error:
        return error.exit_code
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    return code if isinstance(code, int) else 0


@cache
def _command() -> Callable[..., object]:
    """Build the command from the verbs' signatures. Cached because that is slow and `app` itself
    would repeat it each time.
    """
    return get_command(app)
