"""Copy stderr to the file of --log-file, each line with its time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from winnow.cli.options import CommandLine
from winnow.cli.out import complain, copying_errors
from winnow.clock import now_ms
from winnow.errors import WinnowError
from winnow.storage.creating import create_file
from winnow.storage.guarded import open_file
from winnow.words import instant

_APPEND = os.O_WRONLY | os.O_APPEND


def check_log_file(request: CommandLine) -> None:
    """Raise UsageError for a file in one of the log directories."""
    if request.log_file is not None:
        from winnow.report.write import refuse_in_log_dir  # noqa: PLC0415 - it loads jinja2

        refuse_in_log_dir(Path(request.log_file), request.log_dirs)


@contextmanager
def logged(request: CommandLine) -> Iterator[None]:
    """Copy stderr to the file while the block runs. If it can't be opened, a note says so, and the
    run goes on.
    """
    descriptor = None if request.log_file is None else _opened(request)
    if descriptor is None:
        yield
        return
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as log:

        def keep(line: str) -> None:
            log.write(f"{instant(now_ms())} {line}\n")
            log.flush()

        with copying_errors(keep):
            yield


def _opened(request: CommandLine) -> int | None:
    path = str(Path(request.log_file or "").resolve())
    try:
        check_log_file(request)
        try:
            return open_file(path, _APPEND)
        except FileNotFoundError:
            return create_file(path, flags=_APPEND, shared=True)
    except (OSError, WinnowError) as error:
        complain(f"the log file could not be written: {error}")
        return None
