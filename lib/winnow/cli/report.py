"""The HTML page of a run: where it is written, and a note that says so. It is written last, and a
failure here does not fail the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from winnow.cli.options import CommandLine

if TYPE_CHECKING:
    from winnow.cleaning.result import RunResult

NO_REPORT = "none"


@dataclass(frozen=True, slots=True)
class Place:
    """`file` is None for a new file beside those of earlier runs."""

    file: Path | None

    def write(self, result: RunResult) -> Path:
        """Write the page and return its path. May raise any exception."""
        from winnow.report.write import reports_dir, write_report  # noqa: PLC0415 - it loads Jinja

        path = self.file
        if path is None:
            path = reports_dir() / f"{result.run_id}.html"
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_report(result, path)
        return path.resolve()


def place_of_report(verb: str, request: CommandLine) -> Place | None:
    """Return where the page is written; None if none is wanted."""
    if request.report == NO_REPORT or (request.report is None and verb != "clean"):
        return None
    if request.report is None:
        return Place(None)
    return Place(Path(request.report))
