"""The file of --result. Once a run has begun, the file never tells of an earlier one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from winnow.cli.out import as_json, complain
from winnow.cli.text.json_output import failure_to_json, running_to_json, to_json
from winnow.clock import now_ms
from winnow.errors import NoSpaceError, WinnowError
from winnow.storage.output_file import OutputFile

if TYPE_CHECKING:
    from winnow.cleaning.result import RunResult


class ResultFile:
    """Says `running` from the beginning of the run, and what became of it when it has ended. After
    SIGKILL it still says `running`, with the id of a process that is gone.

    Does nothing without a path.
    """

    def __init__(self, path: str | None) -> None:
        self._file = None if path is None else OutputFile(path, "--result", "the result")
        self._started = now_ms()
        self._begun = False

    def begin(self, log_dirs: Sequence[str]) -> None:
        """Replace the result of an earlier run. Raises UsageError if the file can't be written."""
        if self._file is None or self._begun:
            return
        self._file.check(log_dirs)
        try:
            started = running_to_json(pid=os.getpid(), started_at=self._started)
            self._file.write(as_json(started).encode())
        except NoSpaceError as error:
            # The run may free the disk. Until then no result is better than that of another run.
            self._file.remove()
            complain(str(error))
        self._begun = True

    def ended(self, result: RunResult, *, exit_code: int) -> None:
        """Write the result. An error is printed and changes no exit code."""
        self._write(to_json(result) | {"exit_code": exit_code})

    def failed(self, message: str, *, now: int | None, exit_code: int) -> None:
        """Write why the run ended without a result. An error is printed."""
        self._write(failure_to_json(message, now=now, exit_code=exit_code))

    def _write(self, value: Mapping[str, Any]) -> None:
        if self._file is None or not self._begun:
            return
        try:
            times = {"started_at": self._started, "ended_at": now_ms()}
            self._file.write(as_json({**value, **times}).encode())
        except WinnowError as error:
            complain(str(error))
