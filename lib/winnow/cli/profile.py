"""`--profile`: where the time of a run was spent, from the start of its process to its result."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

from winnow.cli.out import Row, aligned, complain, tell_errors
from winnow.cli.text.progress import progress_on_stderr
from winnow.clock import now_ms
from winnow.runtime.profile import Mark, Phase, Profile, Profiler, profiling, together
from winnow.runtime.progress import Progress
from winnow.runtime.session import WithContext
from winnow.words import size


class Clock:
    """The clock of one verb. All its methods do nothing, at no cost, unless a profile was
    requested.
    """

    def __init__(self, *, asked: bool) -> None:
        self._asked = asked
        self._begun_ms = now_ms()
        self._profiler: Profiler | None = None

    @contextmanager
    def with_spark(self, starting: AbstractContextManager[WithContext]) -> Iterator[WithContext]:
        """Start Spark, and count the jobs inside the block as the verb's."""
        asked_ms = now_ms()
        with starting as spark, ExitStack() as profiled:
            if self._asked:
                earlier = [
                    Mark("starting the process", _process_began_ms(spark, self._begun_ms)),
                    Mark("reading the command", self._begun_ms),
                    Mark("starting Spark", asked_ms),
                    Mark("opening log directories", now_ms()),
                ]
                jobs = profiling(spark.sparkContext, earlier=earlier)
                self._profiler = profiled.enter_context(jobs)
            yield spark

    @contextmanager
    def progress(self, *, quiet: bool) -> Iterator[Progress]:
        """Show progress, through the profiler if there is one."""
        with progress_on_stderr(quiet=quiet) as display:
            if self._profiler is not None:
                self._profiler.tell(display)
            yield self._profiler or display

    def begins(self, phase: str) -> None:
        """Begin a phase after the run itself."""
        if self._profiler is not None:
            self._profiler.mark(phase)

    def profile(self) -> Profile | None:
        """Return the profile; None if it was not requested or is unavailable."""
        if self._profiler is None:
            return None
        try:
            return self._profiler.profile()
        except Exception as error:  # noqa: BLE001 - a failed profile must not change the exit code
            complain(f"there is no profile: {type(error).__name__}: {error}".partition("\n")[0])
            return None

    def json(self) -> dict[str, Any]:
        """Return the additional keys of --json."""
        profile = self.profile()
        return {} if profile is None else {"profile": profile}

    def tell(self) -> None:
        """Print the table on stderr, after everything else."""
        profile = self.profile()
        if profile is not None:
            tell_errors(table(profile))


def table(profile: Profile) -> Iterator[str]:
    """Yield a line for each phase, the sum last. Seconds of tasks are added up, so on many cores
    they exceed the elapsed time.
    """
    phases = [*profile.phases, together("all", profile.phases)]
    rows = [_row(phase, profile.seconds) for phase in phases]
    shown = [name for name in rows[0] if any(row[name] for row in rows)]
    yield f"profile: {profile.seconds:.2f} s until here"
    yield from aligned([{name: row[name] for name in shown} for row in rows], "phase")
    if back := sum(phase.read_back_seconds for phase in profile.phases):
        yield f"reading back what was written: {back:.2f} s of the tasks' time"


def _row(phase: Phase, seconds: float) -> Row:
    times = {
        "task s": phase.task_seconds,
        "Python s": phase.python_cpu_seconds,
        "JVM s": phase.jvm_cpu_seconds,
        "GC s": phase.gc_seconds,
    }
    amounts = {
        "read": phase.bytes_read,
        "written": phase.bytes_written,
        "shuffled": phase.shuffle_bytes_written,
        "spilled": phase.spilled_bytes,
    }
    return {
        "phase": phase.name,
        "seconds": f"{phase.seconds:.2f}",
        "share": f"{100 * phase.seconds / seconds:.0f} %" if seconds else "",
        "driver": f"{phase.driver_seconds:.2f}",
        "jobs": str(phase.jobs or ""),
        "tasks": str(phase.tasks or ""),
        **{name: f"{value:.2f}" if round(value, 2) else "" for name, value in times.items()},
        **{name: size(count) if count else "" for name, count in amounts.items()},
    }


def _process_began_ms(spark: WithContext, latest_ms: int) -> int:
    """Return when spark-submit began, which became the JVM and started this process. Without it,
    return when this process began.
    """
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - pyspark has no other way to the JVM
    own = "PYSPARK_GATEWAY_PORT" not in os.environ
    pid = os.getpid() if own else jvm.java.lang.ProcessHandle.current().pid()
    return min(began_ms(pid), latest_ms)


def began_ms(pid: int) -> int:
    """Return when a process of this machine began. Java's `startInstant` counts from a time of boot
    in whole seconds.
    """
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    since_boot = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - since_boot
    return now_ms() - round(1000 * age)
