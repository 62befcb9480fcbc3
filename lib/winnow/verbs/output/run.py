"""Run `plan` or `clean` in place, or on private copies if the source or the destination is
elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from winnow.clean.plan.server_properties import other_places
from winnow.clean.result import RunResult
from winnow.clean.run import new_run_id, run
from winnow.errors import UsageError
from winnow.policy.sources import Settings
from winnow.runtime.progress import Silence
from winnow.runtime.session import WithContext
from winnow.runtime.stop import Stop
from winnow.storage.open_store import open_store
from winnow.storage.places import Places
from winnow.verbs.output.clean import Elsewhere, clean_elsewhere


def elsewhere_of(
    log_dirs: Sequence[str],
    output: Sequence[str],
    *,
    begin_again: bool,
    work_dir: str | None,
    work_space: int | None,
) -> Elsewhere | None:
    """Return the sources and destinations; None if everything is cleaned in place."""
    if not output:
        return None
    return Elsewhere(
        sources=[open_store(path) for path in log_dirs],
        destinations=[open_store(path) for path in output],
        begin_again=begin_again,
        work_dir=work_dir,
        work_space=work_space,
    )


def run_anywhere(
    elsewhere: Elsewhere | None,
    spark: WithContext,
    log_dirs: Sequence[str],
    verb: str,
    **asked: Any,  # noqa: ANN401 - those of `run`
) -> RunResult:
    """Call `run` in place or on private copies."""
    if elsewhere is None:
        return run(spark, log_dirs, verb, **asked)
    if asked["seen"] is not None:
        raise UsageError(
            "a plan as a value is of log directories that stay where they are",
            found=", ".join(store.url for store in elsewhere.destinations),
            hint="`winnow.clean(..., output=...)` and the command line's `plan` take a place for the cleaned one.",
        )
    asked["settings"] = _of_copies(asked["settings"], elsewhere)
    if verb == "plan":
        elsewhere = replace(elsewhere, destinations=())
    return clean_elsewhere(
        elsewhere,
        lambda copies: run(spark, copies, verb, **asked),
        run_id=new_run_id(),
        stop=asked["stop"] or Stop(),
        progress=asked["progress"] or Silence(),
    )


def _of_copies(settings: Settings, elsewhere: Elsewhere) -> Settings:
    """Compare `log.dirs` with the sources, not with the private copies that the run works on."""
    paths = [store.local_path for store in elsewhere.sources if store.local_path is not None]
    problems = [
        error for server in settings.servers for error in other_places(Places(), server, paths)
    ]
    if problems and len(settings.servers) == 1 and not settings.allow_other_broker:
        raise problems[0]
    return replace(settings, compare_log_dirs=False)
