"""The verb `verify`: a sweep told as a table or as one JSON object."""

from __future__ import annotations

import json as json_format
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from winnow.cli.options import check_log_dirs
from winnow.cli.progress import progress_on_stderr
from winnow.cli.run import complain, guarded, tell
from winnow.cli.session import spark_session
from winnow.cli.table import console_for_stdout

if TYPE_CHECKING:
    from winnow.engine.sweep.sweep import SweepResult


def run_verify(log_dirs: Sequence[str], *, topics: Sequence[str], quiet: bool, json: bool) -> int:
    """The exit code; errors are told here and not raised."""

    def work() -> int:
        check_log_dirs(log_dirs)
        with spark_session() as spark:
            from winnow import api  # noqa: PLC0415 - it loads numba

            with progress_on_stderr(quiet=quiet) as progress:
                result = api.verify(spark, log_dirs, topics=topics, progress=progress)
            for note in result.notes:
                complain(f"note: {note}")
            tell_sweep(result, json=json)
        return result.exit_code

    return guarded(work, json=json, now=lambda: None)


def tell_sweep(result: SweepResult, *, json: bool) -> None:
    from winnow.cli.verify_text import show  # noqa: PLC0415 - it loads numba

    if json:
        tell(lambda: sys.stdout.write(to_json(result) + "\n"))
    else:
        tell(lambda: show(result, console_for_stdout()))


def to_json(result: SweepResult) -> str:
    """Others script against its keys: add none, drop none, rename none."""
    findings = [
        {**asdict(finding), "damage": finding.is_damage, "meaning": finding.meaning} for finding in result.findings
    ]
    whole = {"status": result.status, "checked": asdict(result.checked), "findings": findings, "notes": result.notes}
    return json_format.dumps(whole, indent=2)
