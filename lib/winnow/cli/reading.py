"""What `verify` and `verify --compare` share: Spark, progress, notes, profile and the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from winnow.cli.options import check_log_dirs
from winnow.cli.out import complain
from winnow.cli.profile import Clock
from winnow.cli.run import guarded
from winnow.cli.session import spark_context
from winnow.runtime.progress import Progress
from winnow.runtime.session import WithContext

if TYPE_CHECKING:
    from winnow.verbs.compare.values import CompareResult
    from winnow.verbs.verify.verify import SweepResult

_Result = TypeVar("_Result", "SweepResult", "CompareResult")


def read_and_tell(
    log_dirs: Sequence[str],
    read: Callable[[WithContext, Progress], _Result],
    told: Callable[[_Result, Mapping[str, Any]], None],
    *,
    quiet: bool,
    json: bool,
    profile: bool,
) -> int:
    """Read, then show the result, and return the exit code. Errors are printed, not raised.

    `told` gets the keys that an option adds to the JSON.
    """
    clock = Clock(asked=profile)

    def work() -> int:
        check_log_dirs(log_dirs)
        clock.starts_spark()
        with spark_context() as spark, clock.with_spark(spark):
            with clock.progress(quiet=quiet) as progress:
                result = read(spark, progress)
            for note in result.notes:
                complain(f"note: {note}")
            clock.begins("telling the result")
            told(result, clock.json() if json else {})
            clock.tell()
        return result.exit_code

    return guarded(work, json=json, now=lambda: None)
