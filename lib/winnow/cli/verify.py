"""The verb `verify`: show a sweep as a table or as one JSON object."""

from __future__ import annotations

import json as json_format
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from winnow.cli.out import Paper, tell, tell_json
from winnow.cli.reading import read_and_tell
from winnow.runtime.progress import Progress
from winnow.runtime.session import WithContext

if TYPE_CHECKING:
    from winnow.verbs.verify.verify import SweepResult


def run_verify(
    log_dirs: Sequence[str],
    *,
    topics: Sequence[str],
    quiet: bool,
    json: bool,
    profile: bool = False,
) -> int:
    """Run the sweep and return the exit code. Errors are printed, not raised."""

    def read(spark: WithContext, progress: Progress) -> SweepResult:
        from winnow import api  # noqa: PLC0415 - it loads numba

        return api.verify(spark, log_dirs, topics=topics, progress=progress)

    def told(result: SweepResult, more: Mapping[str, Any]) -> None:
        tell_sweep(result, json=json, more=more)

    return read_and_tell(log_dirs, read, told, quiet=quiet, json=json, profile=profile)


def tell_sweep(result: SweepResult, *, json: bool, more: Mapping[str, Any]) -> None:
    from winnow.cli.text.verify import show  # noqa: PLC0415 - it loads numba

    if json:
        tell_json(to_json(result, more))
    else:
        tell(lambda: show(result, Paper()))


def to_json(result: SweepResult, more: Mapping[str, Any] | None = None) -> str:
    """Return the JSON object. Scripts depend on its keys: do not add, remove or rename any.

    `more` holds keys that only an option adds.
    """
    findings = [
        {**asdict(finding), "damage": finding.is_damage, "meaning": finding.meaning}
        for finding in result.findings
    ]
    whole = {
        "status": result.status,
        "checked": asdict(result.checked),
        "findings": findings,
        "notes": result.notes,
    }
    whole |= more or {}
    return json_format.dumps(whole, indent=2)
