"""The verb `verify`: a sweep told as a table or as one JSON object."""

from __future__ import annotations

import json as json_format
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from winnow.cli.options import check_log_dirs
from winnow.cli.profile import Clock
from winnow.cli.run import complain, guarded, tell
from winnow.cli.session import spark_session
from winnow.cli.table import console_for_stdout

if TYPE_CHECKING:
    from winnow.engine.sweep.sweep import SweepResult


def run_verify(
    log_dirs: Sequence[str], *, topics: Sequence[str], quiet: bool, json: bool, profile: bool = False
) -> int:
    """The exit code; errors are told here and not raised."""
    clock = Clock(asked=profile)

    def work() -> int:
        check_log_dirs(log_dirs)
        clock.starts_spark()
        with spark_session() as spark, clock.with_spark(spark):
            from winnow import api  # noqa: PLC0415 - it loads numba

            with clock.progress(quiet=quiet) as progress:
                result = api.verify(spark, log_dirs, topics=topics, progress=progress)
            for note in result.notes:
                complain(f"note: {note}")
            clock.begins("telling the result")
            tell_sweep(result, json=json, more=clock.json() if json else {})
            clock.tell()
        return result.exit_code

    return guarded(work, json=json, now=lambda: None)


def tell_sweep(result: SweepResult, *, json: bool, more: Mapping[str, Any]) -> None:
    from winnow.cli.verify_text import show  # noqa: PLC0415 - it loads numba

    if json:
        tell(lambda: sys.stdout.write(to_json(result, more) + "\n"))
    else:
        tell(lambda: show(result, console_for_stdout()))


def to_json(result: SweepResult, more: Mapping[str, Any] | None = None) -> str:
    """Others script against its keys: add none, drop none, rename none. `more`: keys that only an option brings."""
    findings = [
        {**asdict(finding), "damage": finding.is_damage, "meaning": finding.meaning} for finding in result.findings
    ]
    whole = {"status": result.status, "checked": asdict(result.checked), "findings": findings, "notes": result.notes}
    whole |= more or {}
    return json_format.dumps(whole, indent=2)
