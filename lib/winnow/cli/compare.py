"""`verify --compare`: a comparison of replicas told as a table or as one JSON object."""

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
    from winnow.engine.compare.values import CompareResult, Comparison


def run_compare(
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
                result = api.compare_replicas(spark, log_dirs, topics=topics, progress=progress)
            for note in result.notes:
                complain(f"note: {note}")
            clock.begins("telling the result")
            tell_comparison(result, json=json, more=clock.json() if json else {})
            clock.tell()
        return result.exit_code

    return guarded(work, json=json, now=lambda: None)


def tell_comparison(result: CompareResult, *, json: bool, more: Mapping[str, Any]) -> None:
    from winnow.cli.compare_text import show  # noqa: PLC0415 - it loads numba

    if json:
        tell(lambda: sys.stdout.write(to_json(result, more) + "\n"))
    else:
        tell(lambda: show(result, console_for_stdout()))


def to_json(result: CompareResult, more: Mapping[str, Any]) -> str:
    """Others script against its keys: add none, drop none, rename none. `more`: keys that only an option brings."""
    whole = {
        "status": result.status,
        "partitions": [_partition(one) for one in result.comparisons],
        "notes": result.notes,
        **more,
    }
    return json_format.dumps(whole, indent=2)


def _partition(one: Comparison) -> dict[str, Any]:
    first = None if one.first is None else {**asdict(one.first), "meaning": one.first.kind.meaning}
    return {**asdict(one), "first": first}
