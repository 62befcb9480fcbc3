"""The verb `history`: show a ledger as tables or as one JSON object."""

from __future__ import annotations

import json as json_format
import os
from dataclasses import asdict
from typing import TYPE_CHECKING

from winnow.cli.line.units import parse_now
from winnow.cli.options import CommandLine
from winnow.cli.out import Paper, tell, tell_json
from winnow.cli.run import guarded
from winnow.cli.session import spark_session
from winnow.cli.text.progress import progress_on_stderr
from winnow.clock import now_ms
from winnow.errors import UsageError
from winnow.ledger.place import check_ledger, default_ledger

if TYPE_CHECKING:
    from winnow.ledger.history import History


def run_history(request: CommandLine, *, since: str | None) -> int:
    """Return the exit code. Errors are printed, not raised."""

    def work() -> int:
        where = default_ledger(os.environ) if request.ledger is None else request.ledger
        check_ledger(where, ())
        begin = None if since is None else parse_now(since, option="--since")
        if begin is not None and begin > now_ms():
            raise UsageError("--since is in the future", expected="a time in the past", found=since)
        with spark_session(quiet=request.quiet) as spark:
            from winnow.ledger.history import read_history  # noqa: PLC0415 - it loads pyspark

            with progress_on_stderr(quiet=request.quiet) as progress:
                history = read_history(
                    spark, where, since=begin, topics=request.topics, progress=progress
                )
            from winnow.cli.text.history import show  # noqa: PLC0415 - it loads pyspark

            if request.json:
                tell_json(to_json(history))
            else:
                tell(lambda: show(history, Paper(), now=now_ms()))
        return 0

    return guarded(work, json=request.json, now=lambda: None)


def to_json(history: History) -> str:
    """Return the JSON object. Scripts depend on its keys: do not remove or rename any.

    Times are in ms since the epoch.
    """
    return json_format.dumps({"freed_bytes": history.freed_bytes, **asdict(history)}, indent=2)
