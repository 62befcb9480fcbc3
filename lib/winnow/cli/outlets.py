"""Report a run to other places than stdout: the files of --result and --log-file, metrics, lineage
events. A failure there does not affect the run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from winnow.basic_auth import split_off
from winnow.cli.options import CommandLine, dashed
from winnow.cli.out import as_json, complain, copying_errors, tell_page
from winnow.cli.text.json_output import failure_to_json, without_result
from winnow.clock import now_ms
from winnow.errors import NoSpaceError, UsageError, WinnowError
from winnow.metrics.prometheus import check_target, parse_target, tell_prometheus
from winnow.resources import user_state_dir
from winnow.runtime.session import WithContext
from winnow.storage.output_file import OutputFile, append_whole
from winnow.storage.private import ensure_private
from winnow.words import instant

if TYPE_CHECKING:
    from prometheus_client import Metric

    from winnow.cleaning.result import RunResult
    from winnow.metrics.lineage import Lineage

NO_REPORT = "none"


def check_outlets(request: CommandLine, *, only_plans: bool = False) -> None:
    """Raise UsageError for an invalid target, before the run begins. `only_plans`: neither metrics
    nor events will be written, so only their form is checked.
    """
    for name in ("metrics", "openlineage", "log_file", "report"):
        path, option = getattr(request, name), dashed(name)
        if path is None or (name, path) == ("report", NO_REPORT):
            continue
        if "://" in path:
            split_off(path)
        elif not only_plans or name not in {"metrics", "openlineage"}:
            appended = name in {"openlineage", "log_file"}
            own = OutputFile(path, option, option)
            own.check((*request.log_dirs, *request.output), appended=appended)
    if request.metrics is not None:
        (parse_target if only_plans else check_target)(request.metrics)


def warn_of_typed_passwords(request: CommandLine) -> None:
    """Say on stderr that a password in a valid target can be read by all users while the run lasts,
    unless the target comes from a file of options.
    """
    for name in ("metrics", "openlineage"):
        target = getattr(request, name)
        if target is not None and name not in request.origins and split_off(target)[1]:
            complain(
                f"every user of this machine can read the password in {dashed(name)}, as in every "
                "command line. Put the URL into a file of --config that only you can read"
            )


def wants_report(verb: str, request: CommandLine) -> bool:
    return request.report != NO_REPORT and (verb == "clean" or request.report is not None)


def tell_report(result: RunResult, file: str | None, *, json: bool) -> None:
    """Write the HTML page of a run, into a new file beside those of earlier runs by default, and
    print where it is. If it can't be written, print that too: the run is not affected.
    """
    try:
        from winnow.report.write import write_report  # noqa: PLC0415 - it loads Jinja

        path = user_state_dir("reports") / f"{result.run_id}.html" if file is None else Path(file)
        if file is None:
            with suppress(OSError):  # the file's own error says more
                ensure_private(str(path.parent))
        write_report(result, path)
        where = path.resolve()
    except Exception as error:  # noqa: BLE001 - a failed report must not fail the run
        known = isinstance(error, WinnowError)
        complain(str(error) if known else f"the report could not be written: {error}")
        return
    if json:
        complain(f"report: {where}")
    else:
        tell_page(["", f"Report: {where}"])


class Outlets:
    """The file of --result and, of a clean, metrics and lineage events.

    The file says `running` from the beginning of the run, and what became of it when it has ended:
    it never tells of an earlier one. After SIGKILL it still says `running`, with the id of a
    process that is gone.
    """

    def __init__(self, request: CommandLine) -> None:
        self._request = request
        self._started = now_ms()
        path = request.result
        self._file = None if path is None else OutputFile(path, "--result", "the result")
        self._file_begun = self._begun = self._ended = False
        self._lineage: Lineage | None = None
        self._lost: list[str] = []

    def begin_file(self, log_dirs: Sequence[str]) -> None:
        """Replace the result of an earlier run. Raises UsageError if the file can't be written."""
        if self._file is None or self._file_begun:
            return
        self._file.check(log_dirs)
        try:
            running = without_result(status="running", pid=os.getpid(), started_at=self._started)
            self._file.write(as_json(running).encode())
        except NoSpaceError as error:
            # The run may free the disk. Until then no result is better than that of another run.
            self._file.remove()
            complain(str(error))
        self._file_begun = True

    def end_file(self, value: Mapping[str, Any]) -> None:
        """Write the JSON object of the run. An error is printed and changes no exit code."""
        times = {"started_at": self._started, "ended_at": now_ms()}
        if self._file is not None and self._file_begun:
            self._tell(self._file.write, as_json({**value, **times}).encode())

    def began(self) -> None:
        """Report that a clean has begun. The targets are valid."""
        self._begun = True
        self._tell_metrics(lambda gauges: gauges.gauges_of_start(self._started))

    @contextmanager
    def connected(self, spark: WithContext) -> Iterator[None]:
        """Send the lineage event of the start, and the one of the error if the block fails. The
        caller calls `ended`.
        """
        if self._request.openlineage is not None:
            from winnow.metrics.lineage import Lineage, parent_of  # noqa: PLC0415

            self._lineage = Lineage(
                self._request.openlineage,
                job="winnow.clean",
                parent=parent_of(spark.sparkContext.getConf().get),
            )
            self._tell(self._lineage.start)
        try:
            yield
        except BaseException as error:
            if self._lineage is not None and not self._ended:
                self._tell(self._lineage.fail, str(error) or type(error).__name__)
            raise

    def ended(self, result: RunResult, exit_code: int) -> RunResult:
        """Report the result, and return it with a note for each event and file that was lost.
        `exit_code`: of the process.
        """
        self._ended = True
        if self._lineage is not None:
            self._tell(self._lineage.complete, result)
        times = {"started": self._started, "ended": now_ms()}
        self._tell_metrics(lambda gauges: gauges.gauges_of(result, exit_code, **times))
        return replace(result, notes=(*dict.fromkeys(self._lost), *result.notes))

    def failed(self, message: str, now: int | None, exit_code: int) -> None:
        """Report that the run ended without a result, also before Spark started."""
        self.end_file(failure_to_json(message, now=now, exit_code=exit_code))
        if self._begun and not self._ended:
            times = {"started": self._started, "ended": now_ms()}
            self._tell_metrics(
                lambda gauges: gauges.gauges_of_end(exit_code, succeeded=False, **times)
            )

    def _tell_metrics(self, made: Callable[[Any], Sequence[Metric]]) -> None:
        """Send the metrics that `made` returns. It gets the module `winnow.metrics.gauges`."""
        target = self._request.metrics
        if target is not None:
            from winnow.metrics import gauges  # noqa: PLC0415 - rarely needed

            self._tell(lambda: tell_prometheus(made(gauges), target))

    def _tell(self, tell: Callable[..., None], *what: Any) -> None:  # noqa: ANN401
        try:
            tell(*what)
        except WinnowError as error:
            complain(str(error))
            self._lost.append(str(error))


@contextmanager
def logged(request: CommandLine) -> Iterator[None]:
    """Copy stderr to the file while the block runs. Where that is impossible the run goes on; a
    note says so, or the error of `check_outlets`.
    """
    descriptor = None if request.log_file is None else _opened(request)
    if descriptor is None:
        yield
        return
    failed = False

    def keep(line: str) -> None:
        nonlocal failed
        if failed:
            return
        whole = f"{instant(now_ms())} {line}\n".encode(errors="backslashreplace")
        try:
            append_whole(descriptor, whole)
        except OSError as error:
            failed = True
            complain(_not_logged(request, error))

    try:
        with copying_errors(keep):
            yield
    finally:
        os.close(descriptor)


def _opened(request: CommandLine) -> int | None:
    file = OutputFile(request.log_file or "", "--log-file", "the log file")
    try:
        file.check(request.log_dirs, appended=True)
        return file.open_appended()
    except UsageError:  # `check_outlets` raises it as well, where it is reported
        return None
    except (OSError, WinnowError) as error:
        complain(_not_logged(request, error))
        return None


def _not_logged(request: CommandLine, error: Exception) -> str:
    found = (error.strerror if isinstance(error, OSError) else None) or str(error)
    told = WinnowError(
        "the log file could not be written",
        expected="a file that can be appended to, and free space",
        found=found,
        where=request.log_file,
        hint="The run goes on without it. Free space there, or name another file with --log-file.",
    )
    return str(told)
