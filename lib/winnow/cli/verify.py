"""The verbs `verify` and `verify --compare`: show findings as a table or as one JSON object."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from winnow.cli.options import CommandLine, check_log_dirs
from winnow.cli.out import Paper, complain, tell, tell_json
from winnow.cli.profile import Clock
from winnow.cli.run import guarded
from winnow.cli.session import spark_context
from winnow.cli.text import compare as compare_text
from winnow.cli.text import verify as verify_text

if TYPE_CHECKING:
    from winnow.verbs.compare.values import CompareResult
    from winnow.verbs.verify.verify import SweepResult


def run_verify(request: CommandLine, *, compare: bool) -> int:
    """Read, then show the result, and return the exit code. Errors are printed, not raised."""
    clock = Clock(asked=request.profile)
    text: Any = compare_text if compare else verify_text  # both have `to_json` and `show`

    def work() -> int:
        check_log_dirs(request.log_dirs)
        clock.starts_spark()
        with spark_context() as spark, clock.with_spark(spark):
            with clock.progress(quiet=request.quiet) as progress:
                from winnow import api  # noqa: PLC0415 - it loads numba

                read: Callable[..., SweepResult | CompareResult]
                read = api.compare_replicas if compare else api.verify
                result = read(spark, request.log_dirs, topics=request.topics, progress=progress)
            for note in result.notes:
                complain(f"note: {note}")
            clock.begins("printing the result")
            if request.json:
                tell_json(text.to_json(result, clock.json()))
            else:
                tell(lambda: text.show(result, Paper()))
            clock.tell()
        return result.exit_code

    return guarded(work, json=request.json, now=lambda: None)
