"""Do what a `Request` says: the one way from the command line and the Python API to `plan` and
`clean`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from winnow.cleaning.plan.settings import other_places
from winnow.cleaning.request import Request
from winnow.cleaning.result import RunResult
from winnow.cleaning.run import run
from winnow.clock import new_run_id, now_ms
from winnow.errors import UsageError
from winnow.ledger.append import append, recorded
from winnow.ledger.place import check_ledger
from winnow.ledger.rows import cleaning
from winnow.policy.sources import Settings
from winnow.runtime.session import WithContext
from winnow.storage.places import Places, open_tree
from winnow.verbs.output.clean import Elsewhere, clean_elsewhere
from winnow.words import counted


def run_and_record(
    spark: WithContext,
    log_dirs: Sequence[str],
    request: Request,
    *,
    ledger: str | None = None,
    output: Sequence[str] = (),
    begin_again: bool = False,
    work_dir: str | None = None,
    work_space: int | None = None,
) -> RunResult:
    """Plan or clean these log directories, in place or, with `output`, on private copies. Record
    the result in the ledger, if there is one.

    The arguments are those of `winnow.clean`. A plan with an output deletes its copies.
    """
    if ledger is not None:
        check_ledger(ledger, (*log_dirs, *output))
    started = now_ms()
    if output:
        elsewhere = Elsewhere(
            sources=[open_tree(path) for path in log_dirs],
            destinations=[open_tree(path) for path in output],
            begin_again=begin_again,
            work_dir=work_dir,
            work_space=work_space,
        )
        result = _run_on_copies(spark, request, elsewhere)
    else:
        result = run(spark, log_dirs, request)
    result = _with_note(result)
    if ledger is None:
        return result
    addition = cleaning(result, log_dirs=log_dirs, started=started, ended=now_ms())
    sc = spark.sparkContext
    return recorded(ledger, result, lambda: append(sc, ledger, addition, request.progress))


def _with_note(result: RunResult) -> RunResult:
    """Add how many partitions are left because the broker's cleaner is off."""
    if not result.cleaner_off:
        return result
    many, are = counted(result.cleaner_off, "partition"), "are" if result.cleaner_off > 1 else "is"
    note = (
        f"{many} of compacted topics {are} not cleaned: log.cleaner.enable is false, so the broker "
        "does not clean them either. With --replace-cleaner, Winnow cleans them"
    )
    return replace(result, notes=(*result.notes, note))


def _run_on_copies(spark: WithContext, request: Request, elsewhere: Elsewhere) -> RunResult:
    if request.keep_replaced or request.free_at_least is not None:
        raise UsageError(
            "with an output, a run neither replaces nor frees anything in the log directory",
            hint="Leave out keep_replaced and free_at_least, or the output.",
        )
    if request.seen is not None:
        raise UsageError(
            "a Plan of the notebook API can't have an output",
            found=", ".join(tree.url for tree in elsewhere.destinations),
            hint="Use `winnow.clean(..., output=...)`, or the command line's `plan --output`.",
        )
    asked = replace(request, settings=_of_copies(request.settings, elsewhere))
    if not request.touch:
        elsewhere = replace(elsewhere, destinations=())
    return clean_elsewhere(
        elsewhere,
        lambda copies: run(spark, copies, asked),
        check=request.check_globs,
        run_id=new_run_id(),
        stop=request.stop,
        progress=request.progress,
    )


def _of_copies(settings: Settings, elsewhere: Elsewhere) -> Settings:
    """Compare `log.dirs` with the sources, not with the private copies that the run works on."""
    paths = [tree.local_path or tree.url for tree in elsewhere.sources]
    problems = [
        error for server in settings.servers for error in other_places(Places(), server, paths)
    ]
    if problems and len(settings.servers) == 1 and not settings.allow_other_broker:
        raise problems[0]
    return replace(settings, compare_log_dirs=False)
