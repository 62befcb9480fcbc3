"""Where reports are written: never into a log directory, where a broker would fail on them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from winnow.clean.result import RunResult
from winnow.errors import UsageError
from winnow.report.page import render
from winnow.storage.output_file import write_output
from winnow.words import redacted


def write_report(result: RunResult, path: str | os.PathLike[str]) -> None:
    """Write the run as one HTML file, atomically. An older file of that name is replaced.

    Raises UsageError for a path inside a log directory of the run, and OSError if it can't be
    written.
    """
    target = Path(path)
    refuse_in_log_dir(target, sorted({partition.log_dir for partition in result.partitions}))
    text = render(result)
    write_output(target, redacted(text).encode())


def refuse_in_log_dir(path: Path, log_dirs: Sequence[str]) -> None:
    """Raise UsageError if the file would be in one of the directories, however their paths are
    written.
    """
    place = path.resolve()
    for log_dir in log_dirs:
        if place.is_relative_to(Path(log_dir).resolve()):
            raise UsageError(
                "an output file can't be inside a log directory",
                expected="a file elsewhere",
                found=str(path),
                where=log_dir,
                hint="A broker refuses to start if it finds an unknown file.",
            )


def reports_dir() -> Path:
    """Return `${XDG_STATE_HOME:-~/.local/state}/winnow/reports`. Raises RuntimeError if there is no
    home.
    """
    state = os.environ.get("XDG_STATE_HOME", "")
    return (
        (Path(state) if Path(state).is_absolute() else Path.home() / ".local" / "state")
        / "winnow"
        / "reports"
    )
