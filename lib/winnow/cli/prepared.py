"""The verbs `prepare` and `commit`."""

from __future__ import annotations

from dataclasses import dataclass

from winnow.cleaning.request import Preparing, Request
from winnow.cleaning.result import RunResult
from winnow.cli.call import Call
from winnow.cli.inputs import (
    asked_of,
    check_log_dirs,
    key_summaries_of,
    now_of,
    parse_settings,
    stop_of,
)
from winnow.cli.options import DURATION, SAFETY, value_of
from winnow.cli.out import picked, tell_notes
from winnow.cli.outlets import Outlets, check_outlets, logged
from winnow.cli.run import tell_result
from winnow.cli.text.json_output import to_json
from winnow.clock import DAY_MS
from winnow.policy.sources import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareOptions:
    max_age: str | None = SAFETY.option(
        "How old the preparation may be when it is committed; default: 24h. Tombstones are kept "
        "longer by as much.",
        DURATION,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOptions:
    dry_run: bool = SAFETY.switch("Only check which preparations still hold; change nothing.")


def run_prepare(call: Call, own: PrepareOptions) -> int:
    """Stage a cleaning while the broker runs. Return the exit code."""
    line = call.request
    outlets = _begin(call)
    call.now = now = now_of(line)
    stop, most_age_s = stop_of(line), value_of(own, "max_age")
    settings = parse_settings(line, stop)
    preparing = Preparing(
        asked=asked_of(line).for_later(),
        most_age_ms=DAY_MS if most_age_s is None else int(most_age_s * 1_000),
        keep_free=value_of(line, "keep_free"),
    )
    options = picked(line, "topics", "exclude", "only") | {
        "settings": settings,
        "now": now,
        "stop": stop,
        "preparing": preparing,
        "max_extra_space": value_of(line, "max_extra_space"),
        "throttle": value_of(line, "throttle"),
        "key_summaries": key_summaries_of(line, None),
    }
    with call.spark() as spark, call.signals.ask(stop), call.progress() as progress:
        from winnow.cleaning.prepared.run import prepare  # noqa: PLC0415 - it loads numba

        request = Request.of(options | {"progress": progress}, touch=False)
        return _tell(call, prepare(spark, line.log_dirs, request), outlets)


def run_commit(call: Call, own: CommitOptions) -> int:
    """Install what was prepared, while the broker is stopped. Return the exit code."""
    from winnow.cleaning.prepared.commit import commit_prepared  # noqa: PLC0415 - it loads numpy

    line = call.request
    outlets = _begin(call)
    call.now = now = now_of(line)
    stop = stop_of(line)
    options = picked(line, "topics", "exclude", "keep_replaced") | {"now": now, "stop": stop}
    with call.signals.ask(stop), call.progress() as progress:
        request = Request.of(options | {"settings": Settings(), "progress": progress}, touch=True)
        result = commit_prepared(line.log_dirs, request, dry_run=own.dry_run)
    return _tell(call, result, outlets)


def _begin(call: Call) -> Outlets:
    line = call.request
    call.until_told.enter_context(logged(line))
    call.outlets = outlets = Outlets(line)
    outlets.begin_file(line.log_dirs)
    check_outlets(line)
    check_log_dirs(line.log_dirs)
    return outlets


def _tell(call: Call, result: RunResult, outlets: Outlets) -> int:
    code = call.signals.exit_code(result.exit_code)
    outlets.end_file(to_json(result) | {"exit_code": code})
    tell_notes(result.notes)
    call.begins("printing the result")
    tell_result(result, call.request, exit_code=code, **call.profile())
    call.tell_profile()
    return code
