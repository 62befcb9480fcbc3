"""Run `plan` or `clean` in place, or on private copies if source or destination is elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypedDict

from winnow.cleaning.plan.settings import other_places
from winnow.cleaning.request import Request, new_run_id
from winnow.cleaning.result import RunResult
from winnow.cleaning.run import run
from winnow.errors import UsageError
from winnow.policy.sources import Settings
from winnow.runtime.session import WithContext
from winnow.storage.places import Places, open_tree
from winnow.verbs.output.clean import Elsewhere, clean_elsewhere


class Destinations(TypedDict, total=False):
    """Options for the destinations of the cleaned log directories (`Elsewhere`)."""

    output: Sequence[str]
    begin_again: bool
    work_dir: str | None
    work_space: int | None


def run_anywhere(
    spark: WithContext,
    log_dirs: Sequence[str],
    request: Request,
    *,
    output: Sequence[str] = (),
    **how: Any,  # noqa: ANN401 - the other Destinations
) -> RunResult:
    """Call `run` in place, or with an output on private copies."""
    if not output:
        return run(spark, log_dirs, request)
    elsewhere = Elsewhere(
        sources=[open_tree(path) for path in log_dirs],
        destinations=[open_tree(path) for path in output],
        **how,
    )
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
    paths = [tree.local_path for tree in elsewhere.sources if tree.local_path is not None]
    problems = [
        error for server in settings.servers for error in other_places(Places(), server, paths)
    ]
    if problems and len(settings.servers) == 1 and not settings.allow_other_broker:
        raise problems[0]
    return replace(settings, compare_log_dirs=False)
