"""Report a run to other places than stdout: metrics, lineage events and the file of --log-file. A
failure there does not affect the run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from winnow.cli.options import CommandLine
from winnow.cli.out import complain, copying_errors
from winnow.clock import now_ms
from winnow.errors import WinnowError
from winnow.runtime.session import WithContext
from winnow.storage.creating import create_file
from winnow.storage.guarded import open_file
from winnow.words import instant

if TYPE_CHECKING:
    from winnow.cleaning.result import RunResult
    from winnow.metrics import Lineage

Complain = Callable[[str], None]


def check_outlets(request: CommandLine) -> None:
    """Raise UsageError for an invalid target."""
    from winnow.metrics import check_target  # noqa: PLC0415 - rarely needed
    from winnow.report.write import refuse_in_log_dir  # noqa: PLC0415

    for target in (request.result, request.metrics, request.openlineage):
        if target is not None and "://" not in target:
            refuse_in_log_dir(Path(target).resolve(), request.log_dirs)
    if request.metrics is not None:
        check_target(request.metrics)


class Outlets:
    """The metrics and lineage events of one run."""

    def __init__(self, request: CommandLine, lineage: Lineage | None, complain: Complain) -> None:
        self._request = request
        self._lineage = lineage
        self._complain = complain
        self._started = now_ms()

    def began(self) -> None:
        if self._lineage is not None:
            self._tell(self._lineage.start)

    def ended(self, result: RunResult) -> None:
        from winnow.metrics import gauges_of, tell_prometheus  # noqa: PLC0415

        lineage, target = self._lineage, self._request.metrics
        if lineage is not None:
            self._tell(lambda: lineage.complete(result))
        if target is not None:
            gauges = gauges_of(result, started=self._started, ended=now_ms())
            self._tell(lambda: tell_prometheus(gauges, target))

    def failed(self, error: BaseException) -> None:
        from winnow.metrics import gauges_of_end, tell_prometheus  # noqa: PLC0415

        lineage, target = self._lineage, self._request.metrics
        if lineage is not None:
            self._tell(lambda: lineage.fail(str(error) or type(error).__name__))
        if target is not None:
            interrupted = 130 if isinstance(error, KeyboardInterrupt) else 1
            code = getattr(error, "exit_code", interrupted)
            gauges = gauges_of_end(code, succeeded=False, started=self._started, ended=now_ms())
            self._tell(lambda: tell_prometheus(gauges, target))

    def _tell(self, tell: Callable[[], None]) -> None:
        try:
            tell()
        except WinnowError as error:
            self._complain(str(error))


@contextmanager
def outlets(request: CommandLine, spark: WithContext, complain: Complain) -> Iterator[Outlets]:
    """Report the start of the run, and its error if it fails. The caller calls `Outlets.ended`."""
    lineage = None
    if request.openlineage is not None:
        from winnow.metrics.lineage import Lineage, parent_of  # noqa: PLC0415

        lineage = Lineage(
            request.openlineage,
            job="winnow.clean",
            parent=parent_of(spark.sparkContext.getConf().get),
        )
    run_outlets = Outlets(request, lineage, complain)
    run_outlets.began()
    try:
        yield run_outlets
    except BaseException as error:
        run_outlets.failed(error)
        raise


_APPEND = os.O_WRONLY | os.O_APPEND


def check_log_file(request: CommandLine) -> None:
    """Raise UsageError for a file in one of the log directories."""
    if request.log_file is not None:
        from winnow.report.write import refuse_in_log_dir  # noqa: PLC0415 - it loads jinja2

        refuse_in_log_dir(Path(request.log_file), request.log_dirs)


@contextmanager
def logged(request: CommandLine) -> Iterator[None]:
    """Copy stderr to the file while the block runs. If it can't be opened, a note says so, and the
    run goes on.
    """
    descriptor = None if request.log_file is None else _opened(request)
    if descriptor is None:
        yield
        return
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as log:

        def keep(line: str) -> None:
            log.write(f"{instant(now_ms())} {line}\n")
            log.flush()

        with copying_errors(keep):
            yield


def _opened(request: CommandLine) -> int | None:
    path = str(Path(request.log_file or "").resolve())
    try:
        check_log_file(request)
        try:
            return open_file(path, _APPEND)
        except FileNotFoundError:
            return create_file(path, flags=_APPEND, shared=True)
    except (OSError, WinnowError) as error:
        complain(f"the log file could not be written: {error}")
        return None
