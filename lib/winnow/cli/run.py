"""Run one verb, from request to exit code: settings, Spark, the Python API, output on stdout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from winnow.cleaning.request import Request, Seen
from winnow.cleaning.result import RunResult
from winnow.cli.call import WORK, Call
from winnow.cli.inputs import (
    check_log_dirs,
    key_summaries_of,
    ledger_of,
    now_of,
    parse_settings,
    stop_of,
)
from winnow.cli.line.confirm import ahead_of, confirm, confirm_time
from winnow.cli.line.saved import Saving, load
from winnow.cli.options import SAFETY, CommandLine, argument, value_of
from winnow.cli.out import (
    complain,
    is_terminal,
    page_width,
    picked,
    tell_json,
    tell_notes,
    tell_page,
)
from winnow.cli.outlets import (
    Outlets,
    check_outlets,
    logged,
    tell_report,
    wants_report,
    warn_of_typed_passwords,
)
from winnow.cli.text.json_output import to_json
from winnow.cli.text.table import page, summary
from winnow.clock import now_ms
from winnow.errors import UsageError
from winnow.runtime.session import WithContext
from winnow.runtime.stop import Stop
from winnow.storage.places import open_tree
from winnow.storage.urls import is_remote

if TYPE_CHECKING:
    from winnow.cleaning.plan.saved import SavedPlan

CLEANER_OFF = 11
"""The exit code of `plan --detailed-exitcode` if partitions are left because `log.cleaner.enable`
is false, with or without work.
"""
_LIMITS = ("max_extra_space", "keep_free", "free_at_least", "throttle")


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
    request = call.request
    call.until_told.enter_context(logged(request))
    call.outlets = outlets = Outlets(request)
    outlets.begin_file((*request.log_dirs, *request.output))
    check_outlets(request, only_plans=verb == "plan")
    warn_of_typed_passwords(request)
    if verb == "clean":
        outlets.began()
    call.now = now = now_of(request)
    stop = stop_of(request)
    saving = None if request.out is None else Saving(verb, request, now)
    act = prepare(call, verb, now, stop, saved or saving)
    with call.spark() as spark, call.signals.ask(stop):
        if verb == "clean":
            with outlets.connected(spark):
                result = act(spark)
                result = outlets.ended(result, call.signals.exit_code(result.exit_code))
        else:
            result = act(spark)
        if saving is not None:
            saving.write(result)
        code = call.signals.exit_code(exit_code_of(result, request))
        outlets.end_file(to_json(result) | {"exit_code": code})
        # Before Spark stops: that takes a while, and the JVM may end.
        _tell_all(call, verb, result, code)
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
    """Return the exit code. With --detailed-exitcode, a plan with work to do has its own, and one
    that leaves partitions because the broker's cleaner is off.
    """
    if result.exit_code or not request.detailed_exitcode:
        return result.exit_code
    if result.cleaner_off:
        return CLEANER_OFF
    return WORK if any(partition.acts for partition in result.partitions) else 0


def prepare(
    call: Call,
    verb: str,
    now: int,
    stop: Stop | None = None,
    saved: SavedPlan | Saving | None = None,
) -> Callable[[WithContext], RunResult]:
    """Return a function that does the work once Spark has started. Raises UsageError for every
    mistake that can be found without Spark.

    `saved`: what `clean` must carry out, or what keeps the plan.
    """
    request = call.request
    _check_options(verb, request)
    asks = verb == "clean" and not (request.yes or request.output)
    if asks:
        confirm_time(now, now_ms())
    settings = parse_settings(request, stop)
    check_log_dirs(request.log_dirs)
    check_log_dirs([*filter(None, [request.work_dir])])
    for path in filter(is_remote, request.output):
        open_tree(path)  # checks the URL without a request
    limits = {name: value_of(request, name) for name in _LIMITS}
    work_space = value_of(request, "work_space")
    ledger = ledger_of(request)

    def act(spark: WithContext) -> RunResult:
        from winnow.api.run import run_and_record  # noqa: PLC0415 - it loads numba

        log_dirs = list(request.log_dirs)
        with call.progress() as progress:
            deciding = picked(request, "topics", "exclude", "unclean_shutdown") | {
                "settings": settings,
                "now": now,
                "throttle": limits["throttle"],
                "progress": progress,
                "stop": stop,
            }
            checks: list[Seen] = [] if saved is None else [saved.check]
            if saved is not None and not isinstance(saved, Saving):
                # Changes nothing, unlike the repairs with which a cleaning begins.
                only_retention = deciding | {"only": "retention", "seen": saved.check_files}
                run_and_record(spark, log_dirs, Request.of(only_retention, touch=False))
            if asks:
                checks.append(partial(confirm, pause=call.paused))

            def seen(prepared: Sequence[Any], found: Request) -> None:
                for check in checks:
                    check(prepared, found)

            cleans = verb == "clean"
            options = picked(request, "only", "on_corrupt", "keep_replaced", "estimate")
            options |= limits | deciding | {"seen": seen if checks else None}
            if cleans:
                options["key_summaries"] = key_summaries_of(request, ledger)
            result = run_and_record(
                spark,
                log_dirs,
                Request.of(options, touch=cleans),
                ledger=ledger if cleans else None,
                begin_again=cleans and request.begin_again,
                work_space=work_space,
                **picked(request, "output", "work_dir"),
            )
        tell_notes(result.notes)
        if verb == "plan":
            if ahead := ahead_of(now, now_ms()):
                complain(f"note: --now is {ahead}: clean needs --yes")
            where = "would not be recorded" if ledger is None else f"would record it in {ledger}"
            complain(f"note: clean {where}")
        return result

    return act


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


def _tell_all(call: Call, verb: str, result: RunResult, exit_code: int) -> None:
    request = call.request

    def tell_it() -> None:
        call.begins("printing the result")
        tell_result(result, request, exit_code=exit_code, **call.profile())

    def report_it() -> None:
        if wants_report(verb, request):
            call.begins("writing the report")
            tell_report(result, request.report, json=request.json)

    # A profile in the result includes the report.
    for step in (report_it, tell_it) if request.json and request.profile else (tell_it, report_it):
        step()
    call.tell_profile()


def tell_result(result: RunResult, request: CommandLine, **more: Any) -> None:  # noqa: ANN401
    """Print the result as the command line asks. `more`: further keys of the JSON object."""
    if request.json:
        tell_json(to_json(result) | more)
    elif request.summary:
        tell_page([summary(result)])
    else:
        whole = not is_terminal()
        tell_page(page(result, page_width(), everything=request.all, whole_names=whole))
