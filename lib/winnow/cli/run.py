"""Run one verb, from request to exit code: settings, Spark, the Python API, output on stdout."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from winnow.cleaning.request import Request, Seen
from winnow.cleaning.result import NONE, RunResult
from winnow.cli.call import Call
from winnow.cli.confirm import ahead_of, confirm, confirm_time
from winnow.cli.inputs import (
    check_log_dirs,
    key_summaries_of,
    ledger_of,
    now_of,
    parse_settings,
    stop_of,
)
from winnow.cli.line.saved import Saving, load
from winnow.cli.options import SAFETY, CommandLine, argument, value_of
from winnow.cli.out import complain, page_width, picked, tell_json, tell_notes, tell_page
from winnow.cli.outlets import Outlets, check_outlets, logged, wants_report, write_page
from winnow.cli.profile import Clock
from winnow.cli.text.json_output import to_json
from winnow.cli.text.table import page, summary
from winnow.clock import now_ms
from winnow.errors import UsageError, WinnowError
from winnow.runtime.session import WithContext
from winnow.runtime.stop import Stop
from winnow.storage.places import open_tree
from winnow.storage.urls import is_remote

if TYPE_CHECKING:
    from winnow.cleaning.plan.saved import SavedPlan

WORK = 10
"""The exit code of `plan --detailed-exitcode` if there is work to do and nothing else to report."""
_LIMITS = ("max_extra_space", "keep_free", "free_at_least", "work_space", "throttle")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    dry_run: bool = SAFETY.switch("Change nothing: the same as plan.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions:
    plan: str = argument("The plan: what `plan --out FILE` wrote.", "FILE")


def run_or_plan(verb: str, call: Call, own: RunOptions) -> int:
    return run_verb("plan" if own.dry_run else verb, call)


def run_verb(verb: str, call: Call, saved: SavedPlan | None = None) -> int:
    """Run `plan` or `clean`, and return the exit code.

    `saved`: the plan that `clean` must carry out, or else refuse.
    """
    request, clock = call.request, call.clock
    call.until_told.enter_context(logged(request))
    call.outlets = outlets = Outlets(request)
    outlets.begin_file((*request.log_dirs, *request.output))
    check_outlets(request)
    if verb == "clean":
        outlets.began()
    call.now = now = now_of(request)
    stop = stop_of(request)
    saving = None if request.out is None else Saving(verb, request, now)
    act = prepare(verb, request, now, stop, clock=clock, saved=saved or saving)
    with call.spark() as spark, call.signals.ask(stop):
        if verb == "clean":
            with outlets.connected(spark):
                result = act(spark)
                outlets.ended(result, call.signals.exit_code(result.exit_code))
        else:
            result = act(spark)
        if saving is not None:
            saving.write(result)
        code = call.signals.exit_code(exit_code_of(result, request))
        outlets.end_file(to_json(result) | {"exit_code": code})
        # Before Spark stops: that takes a while, and the JVM may end.
        _tell_all(verb, result, request, clock, code)
    return code


def run_apply(call: Call, own: ApplyOptions) -> int:
    """Carry out a saved plan, or refuse. Return the exit code."""
    # Before the plan is read: a plan that is refused must not leave an earlier result.
    call.outlets = Outlets(call.request)
    call.outlets.begin_file(())
    check_outlets(call.request)
    call.outlets.began()
    call.request, saved = load(own.plan, call.request)
    return run_verb("clean", call, saved)


def exit_code_of(result: RunResult, request: CommandLine) -> int:
    """Return the exit code. With --detailed-exitcode, a plan with work to do has its own."""
    acts = any(partition.actions != (NONE,) for partition in result.partitions)
    return WORK if request.detailed_exitcode and not result.exit_code and acts else result.exit_code


def prepare(
    verb: str,
    request: CommandLine,
    now: int,
    stop: Stop | None = None,
    *,
    clock: Clock | None = None,
    saved: SavedPlan | Saving | None = None,
) -> Callable[[WithContext], RunResult]:
    """Return a function that does the work once Spark has started. Raises UsageError for every
    mistake that can be found without Spark.

    `saved`: what `clean` must carry out, or what keeps the plan.
    """
    _check_options(verb, request)
    if verb == "clean" and not (request.yes or request.output):
        confirm_time(now, now_ms())
    settings = parse_settings(request)
    check_log_dirs((*request.log_dirs, *filter(None, [request.work_dir])))
    for path in filter(is_remote, request.output):
        open_tree(path)  # checks the URL without a request
    limits = {name: value_of(request, name) for name in _LIMITS}
    throttle = limits.pop("throttle")
    ledger = ledger_of(request)

    def call(spark: WithContext) -> RunResult:
        from winnow import api  # noqa: PLC0415 - it loads numba

        with (clock or Clock(asked=False)).progress(quiet=request.quiet) as progress:
            deciding = picked(request, "topics", "exclude", "unclean_shutdown") | {
                "settings": settings,
                "now": now,
                "throttle": throttle,
                "progress": progress,
                "stop": stop,
            }
            checks: list[Seen] = []
            if isinstance(saved, Saving):
                checks.append(saved.seen)
            elif saved is not None:
                checks.append(saved.check)
                # Changes nothing, unlike the repairs with which a cleaning begins.
                api.plan(
                    spark, list(request.log_dirs), only="retention", seen=saved.check_files,
                    **deciding,
                )  # fmt: skip
            if verb == "clean" and not request.yes and not request.output:
                pause = getattr(progress, "paused", nullcontext)
                checks.append(partial(confirm, pause=pause))
            asked = ("only", "on_corrupt", "keep_replaced", "output", "work_dir")
            more = picked(request, *asked) | limits
            if verb == "clean":
                more |= picked(request, "begin_again")
                more |= {"ledger": ledger, "key_summaries": key_summaries_of(request, ledger)}
            else:
                more |= picked(request, "estimate")
            result = (api.clean if verb == "clean" else api.plan)(
                spark,
                list(request.log_dirs),
                **deciding,
                **more,
                seen=_each(checks) if checks else None,
            )
        tell_notes(result.notes)
        if verb == "plan":
            if ahead := ahead_of(now, now_ms()):
                complain(f"note: --now is {ahead}: clean needs --yes")
            where = "would not be recorded" if ledger is None else f"would record it in {ledger}"
            complain(f"note: clean {where}")
        return result

    return call


def _check_options(verb: str, request: CommandLine) -> None:
    """Raise UsageError for options that contradict each other or the verb."""
    for option, given in (
        ("--detailed-exitcode", request.detailed_exitcode),
        ("--out", request.out is not None),
        ("--estimate", request.estimate),
    ):
        if given and verb != "plan":
            raise UsageError(
                f"{option} is for plans",
                expected="plan, or clean --dry-run",
                found=f"{verb} {option}",
            )
    if request.begin_again and not request.output:
        raise UsageError(
            "--begin-again without --output",
            expected="--output DIR as well",
            hint="An unfinished run in place is repaired by the next one.",
        )
    if request.free_at_least is not None and (
        request.only == "compaction" or request.keep_replaced
    ):
        raise UsageError(
            "--free-at-least can't be combined with --only compaction or --keep-replaced",
            hint="Leave one of them out.",
        )


def _each(checks: Sequence[Seen]) -> Seen:
    def seen(prepared: Sequence[Any], request: Request) -> None:
        for check in checks:
            check(prepared, request)

    return seen


def _tell_all(
    verb: str, result: RunResult, request: CommandLine, clock: Clock, exit_code: int
) -> None:
    def tell_it() -> None:
        clock.begins("printing the result")
        tell_result(result, request, exit_code=exit_code, more=clock.json())

    def report_it() -> None:
        if wants_report(verb, request):
            clock.begins("writing the report")
            tell_report(result, request.report, json=request.json)

    # A profile in the result includes the report.
    for step in (report_it, tell_it) if request.json and request.profile else (tell_it, report_it):
        step()
    clock.tell()


def tell_result(
    result: RunResult,
    request: CommandLine,
    *,
    exit_code: int,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Print the result as the command line asks. `more`: further keys of the JSON object."""
    if request.json:
        tell_json(to_json(result) | {"exit_code": exit_code, **more})
    elif request.summary:
        tell_page([summary(result)])
    else:
        tell_page(page(result, page_width(), everything=request.all))


def tell_report(result: RunResult, file: str | None, *, json: bool) -> None:
    """Write the report and print where it is. If it can't be written, print that too: the run is
    not affected.
    """
    try:
        path = write_page(result, file)
    except Exception as error:  # noqa: BLE001 - a failed report must not fail the run
        known = isinstance(error, WinnowError)
        complain(str(error) if known else f"the report could not be written: {error}")
        return
    if json:
        complain(f"report: {path}")
    else:
        tell_page(["", f"Report: {path}"])
